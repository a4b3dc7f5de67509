"""The most rows that a test takes within a time and a memory.

The data are of the Million Song shape, with 90 columns or one, and the year. A size is the double
of the one before; a method that was stopped is given no more. Every test runs in a fresh process
with the threads that its package takes by itself, whatever the environment says of them, after a
test of few rows. Ours read zarr and are told the memory; the others hold the rows, which counts.
The picture has the time and the memory of every test beside those of one column of the study
`cost`, up to 100 million rows; a cross is where a method stopped.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import cycle
from pathlib import Path

import click
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from benchmarks.peers.peer_tests import METHODS, RESAMPLES, Test
from benchmarks.shared.cases import Data
from benchmarks.shared.curves import MARKERS
from benchmarks.shared.limits import MEMORY, Measured, measure
from benchmarks.study import RESULTS, Cell, Row, Study, Table, read_table
from dhsic.errors import MemoryBudgetError
from dhsic.io.synthetic import generate, synthetic

MIB = 2**20
WARM_ROWS = 600
LIMIT_SECONDS, LIMIT_MIB = 60.0, 4096
DEPENDENCE = 0.3
THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS")
SIZES = tuple(500 * 2**k for k in range(14))
MOST: Mapping[str, Mapping[str, int]] = {
    "90 + 1 columns": {
        "dhsic default": 64_000,
        "hyppo Hsic": 1_000,
        "hyppo Hsic, fast": 8_000,
        "dcor dcov": 2_000,
        "causal-learn KCI, median": 8_000,
        "causal-learn hsic_test_gamma": 8_000,
        "causal-learn RIT": 256_000,
        "scikit-learn Nystroem 100": 64_000,
    },
    "1 + 1 columns": {
        "dhsic default": 128_000,
        "hyppo Dcorr, fast": 512_000,
        "causal-learn hsic_test_gamma": 8_000,
    },
}
"""Near what a method reaches; it begins with a quarter of these rows."""
OURS = ("#D55E00", "#882255", "#E69F00")
PEERS = ("#0072B2", "#009E73", "#CC79A7", "#56B4E9", "#000000")

_stopped: set[tuple[str, str]] = set()


def takes(cell: Cell) -> bool:
    """Whether a method begins with no more rows."""
    return bool(cell.method in MOST[cell.data] and 4 * cell.n >= MOST[cell.data][cell.method])


def trial(cell: Cell, run: int) -> Row:
    """One test, unless the method was stopped before."""
    del run
    name, features = cell.method, int(cell.data.split()[0])
    if (cell.data, name) in _stopped:
        return {"stopped": "earlier"}
    own = METHODS[name].package == "dhsic"
    with tempfile.TemporaryDirectory() as folder, threads_of_their_own():
        path = Path(folder) / "rows.zarr"
        if own:
            generate(path, rows=cell.n, features=features, dependence=DEPENDENCE)
        prepare = partial(_stored, name, path) if own else partial(_held, name, cell.n, features)
        found = measure(prepare, LIMIT_SECONDS, LIMIT_MIB * MIB)
    stopped = stopped_by(found)
    if stopped:
        _stopped.add((cell.data, name))
    return {
        "seconds": found.seconds,
        "processor": found.processor_seconds,
        "held": found.start_bytes / MIB,
        "peak": found.peak_bytes / MIB,
        "p-value": "" if found.stopped else found.value,
        "stopped": stopped,
    }


def rows(cell: Cell, found: Sequence[Row]) -> Iterator[Row]:
    yield found[0]


@contextmanager
def threads_of_their_own() -> Iterator[None]:
    """Processes that are started do not read numbers of threads from the environment."""
    kept = {name: os.environ.pop(name) for name in THREADS if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(kept)


def stopped_by(found: Measured) -> str:
    """What stopped a test: a plan of ours that is refused is stopped by memory."""
    if "group peers" in found.stopped:
        raise click.ClickException(found.stopped)
    return MEMORY if MemoryBudgetError.__name__ in found.stopped else found.stopped


def _held(name: str, n: int, features: int) -> Callable[[], float]:
    data = synthetic(n, features=features, dependence=DEPENDENCE, dtype=np.float64)
    return warmed(METHODS[name].test, list(data))


def _stored(name: str, path: Path) -> Callable[[], float]:
    _held(name, WARM_ROWS, 1)
    test = partial(METHODS[name].test, memory=f"{LIMIT_MIB}MiB")
    return partial(test, f"{path}/features", f"{path}/year", RESAMPLES, 0)


def warmed(test: Test, data: Data) -> Callable[[], float]:
    test(*(variable[:WARM_ROWS] for variable in data), 2, 0)
    return partial(test, *data, RESAMPLES, 0)


def draw(table: Table, path: Path) -> None:
    """Time and peak memory against the rows, on logarithmic axes; panels by columns."""
    stored = [
        {**row, "data": "1 + 1 columns", "method": f"dhsic {row['method']}"}
        for row in read_table(RESULTS / "cost.csv")
        if row["data"] == "songs, 1 column, stored"
    ]
    shown: list[Row] = [*(row for row in table if row["stopped"] != "earlier"), *stored]
    kinds = list(dict.fromkeys(row["data"] for row in shown))
    colours = {True: cycle(OURS), False: cycle(PEERS)}
    looks = {
        name: (next(colours[name.startswith("dhsic")]), marker)
        for name, marker in zip(
            dict.fromkeys(row["method"] for row in shown), cycle(MARKERS), strict=False
        )
    }
    figure = Figure(figsize=(12.5, 4.6 * len(kinds)), layout="constrained")
    panels = figure.subplots(len(kinds), 2, sharex=True, sharey="col", squeeze=False)
    for (left, right), kind in zip(panels, kinds, strict=True):
        own = [row for row in shown if row["data"] == kind]
        names = list(dict.fromkeys(row["method"] for row in own))
        for axes, quantity in ((left, "processor"), (right, "peak")):
            for name in names:
                _line(axes, [row for row in own if row["method"] == name], quantity, *looks[name])
            axes.set(xscale="log", yscale="log", xlabel="rows", title=kind)
            axes.grid(color="0.92")
        left.axhline(LIMIT_SECONDS, color="0.4", linestyle=":")
        left.set_ylabel("processor seconds of a test")
        right.set_ylabel("peak memory, MiB")
        handles = [
            Line2D([], [], color=looks[name][0], marker=looks[name][1], label=name)
            for name in names
        ]
        handles.append(Line2D([], [], color="0.2", linestyle="none", marker="x", label="stopped"))
        right.legend(handles=handles, frameon=False, loc="upper left", bbox_to_anchor=(1.02, 1.0))
    figure.savefig(path.with_name("time_against_n.png"), dpi=150)


def _line(axes: Axes, table: Sequence[Row], quantity: str, colour: str, marker: str) -> None:
    """What finished, and a cross where the method stopped."""
    own = sorted((row for row in table if row[quantity]), key=lambda row: int(row["n"]))
    done = [(int(row["n"]), float(row[quantity])) for row in own if not row["stopped"]]
    if done:
        axes.plot(*zip(*done, strict=True), marker=marker, color=colour, markersize=5)
    for row in own:
        if row["stopped"]:
            axes.plot(int(row["n"]), float(row[quantity]), "x", color=colour, markersize=9, mew=2)


STUDY = Study(
    name="peers_limits",
    title="How many rows do tests take in 60 processor seconds and 4 GiB?",
    data=dict.fromkeys(MOST),
    methods={
        name: METHODS[name] for name in dict.fromkeys(n for own in MOST.values() for n in own)
    },
    sizes=SIZES,
    measure=trial,
    columns=("seconds", "processor", "held", "peak", "p-value", "stopped"),
    rows=rows,
    takes=takes,
    follows_defaults=lambda cell: cell.method == "dhsic default",
    small={"data": ["1 + 1 columns"], "methods": ["dhsic default"], "sizes": [128_000]},
    picture=draw,
    in_pool=False,
)
