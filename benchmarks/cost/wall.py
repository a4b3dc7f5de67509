"""One whole test from zarr on disk against the number of rows, up to 100 million: time and memory.

Figures 3 and 5 of Zhang et al. (2018) have the time of a test beside its power; here it is followed
to sizes that quadratic tests do not reach. The rows are those of `dhsic generate` with one feature
and the year, in float32, weakly dependent, and are deleted after use: 800 MB where they are 100
million. Every test runs in a process of its own with one Gaussian kernel a variable, 250 random
signs or the spectral null, and 100 landmarks or the default number, 8 sqrt(n), as far as the plan
fits the memory; a refused test has `memory` in `stopped`, and is tried again with more `--memory`.
`seconds` and `processor seconds` are of the call alone, without imports; `peak MiB` is the
high-water mark of resident memory of the process, `planned MiB` what the plan says before.

Writes benchmarks/results/wall.csv, whose rows are kept, and time_against_n.png beside it, where
the tests of benchmarks/results/peers_limits.csv are drawn too, if it is there, those of other
columns in panels of their own. A cross is where a method stopped, at the height of its last run
unless the table says more.

    python -m benchmarks run wall
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click

import dhsic
from benchmarks.shared.output import keys_of, read_csv, write_csv
from dhsic.engine.memory import peak_bytes
from dhsic.engine.units import parse_bytes
from dhsic.errors import MemoryBudgetError
from dhsic.io.synthetic import generate
from dhsic.landmarks import landmark_count

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEATURES = 1
DEPENDENCE = 0.1
LIMIT_SECONDS = 60.0
KEYS = ("method", "n", "threads")
SIZES = tuple(10**power for power in range(3, 9))
OURS = ("#D55E00", "#882255", "#E69F00")
PEERS = ("#0072B2", "#009E73", "#CC79A7", "#56B4E9", "#000000")
MARKERS = "sv^DP*<>p"

_ALONE = """
import json
from benchmarks.cost.wall import measured
print(json.dumps(measured({data!r}, {method!r}, {threads}, {memory!r})))
"""


class Method(NamedTuple):
    """Landmarks and null of a test by Nystrom M-HSIC."""

    landmarks: int | str
    null: str

    @property
    def name(self) -> str:
        """How the table calls it."""
        return f"nystrom-m, {self.landmarks} landmarks, {self.null}"


METHODS = {
    method.name: method
    for method in (
        Method(100, "multiplier"),
        Method(100, "spectral"),
        Method("8sqrt", "multiplier"),
        Method("8sqrt", "spectral"),
    )
}


def measured(data: str, name: str, threads: int, memory: str) -> dict[str, Any]:
    """One test of stored rows in this process, and what it took."""
    landmarks, null = METHODS[name]
    variables = f"{data}/features", f"{data}/year"
    options: dict[str, Any] = {
        "kernels": "gaussian",
        "estimator": dhsic.NystromMHSIC(n_landmarks=landmarks),
        "null": null,
        "precision": "float32",
        "threads": threads,
        "memory": memory,
    }
    plan = dhsic.plan(*variables, **options)
    row: dict[str, Any] = {
        "landmarks": landmark_count(landmarks, plan.n, replace=False),
        **dict.fromkeys(("seconds", "processor seconds", "peak MiB"), ""),
        "planned MiB": plan.peak_worker_bytes / 2**20,
        "p-value": "",
        "stopped": "",
    }
    began, worked = time.perf_counter(), time.process_time()
    try:
        found = dhsic.independence_test(*variables, rng=0, **options)
    except MemoryBudgetError:
        return {**row, "stopped": "memory"}
    row["seconds"] = time.perf_counter() - began
    row["processor seconds"] = time.process_time() - worked
    peak = peak_bytes()
    assert peak is not None
    return {**row, "peak MiB": peak / 2**20, "p-value": found.pvalue}


def alone(data: str, name: str, threads: int, memory: str) -> dict[str, Any]:
    """The same in a fresh process."""
    code = _ALONE.format(data=data, method=name, threads=threads, memory=memory)
    command = [sys.executable, "-c", code]
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def rows(
    sizes: Sequence[int],
    methods: Sequence[str],
    threads: int,
    memory: str,
    done: list[Mapping[str, Any]],
) -> Iterator[Mapping[str, Any]]:
    """Rows that are there and those that are missing, or were refused and fit the memory now."""
    wanted = {(name, str(n), str(threads)) for name, n in product(methods, sizes)}
    most = parse_bytes(memory) / 2**20
    kept = [
        row
        for row in done
        if not row["stopped"]
        or keys_of(row, KEYS) not in wanted
        or float(row["planned MiB"]) > most
    ]
    yield from kept
    known = {keys_of(row, KEYS) for row in kept}
    for n in sizes:
        missing = [name for name in methods if (name, str(n), str(threads)) not in known]
        if not missing:
            continue
        with tempfile.TemporaryDirectory() as folder:
            data = f"{folder}/rows.zarr"
            generate(data, rows=n, features=FEATURES, dependence=DEPENDENCE)
            for name in missing:
                keys = {"method": name, "n": n, "threads": threads, "columns": f"{FEATURES} + 1"}
                yield {**keys, **alone(data, name, threads, memory)}


class Line(NamedTuple):
    """How a method is drawn, on data of so many columns."""

    label: str
    columns: str
    table: list[Mapping[str, Any]]
    colour: str
    line: Literal["-", "--"]
    marker: str


def lines(ours: list[Mapping[str, Any]], limits: list[Mapping[str, Any]]) -> list[Line]:
    """Of the table of this study, then of that of limits: this package in reds and yellow."""
    found = []
    for name, method in METHODS.items():
        own = [row for row in ours if row["method"] == name]
        line: Literal["-", "--"] = "-" if method.null == "multiplier" else "--"
        colour, marker = ("#D55E00", "o") if method.landmarks == 100 else ("#882255", "h")
        found.append(Line(name, f"{FEATURES} + 1", own, colour, line, marker))
    colours = {True: cycle(OURS), False: cycle(PEERS)}
    names = dict.fromkeys(str(row["method"]) for row in limits)
    look = {
        name: (next(colours[name.startswith("dhsic")]), marker)
        for name, marker in zip(names, cycle(MARKERS), strict=False)
    }
    tables: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for row in limits:
        if float(row["limit seconds"]) == LIMIT_SECONDS:
            tables[row["method"], f"{row['features']} + 1"].append(row)
    for (name, columns), table in tables.items():
        colour, marker = look[name]
        found.append(Line(name, columns, table, colour, "-", marker))
    return [line for line in found if line.table]


def draw(ours: list[Mapping[str, Any]], limits: list[Mapping[str, Any]], path: Path) -> None:
    """Time and peak memory against the rows, on logarithmic axes; panels by columns."""
    from matplotlib.figure import Figure  # not at the top: the memory of a test is measured
    from matplotlib.lines import Line2D

    drawn = lines(ours, limits)
    kinds = list(dict.fromkeys(line.columns for line in drawn))
    figure = Figure(figsize=(12.5, 4.6 * len(kinds)), layout="constrained")
    panels = figure.subplots(len(kinds), 2, sharex=True, sharey="col", squeeze=False)
    stopped = "stopped: time, memory, error"
    common = [
        Line2D([], [], color="0.4", linestyle=":", label="60 processor seconds"),
        Line2D([], [], color="0.2", linestyle="none", marker="x", mew=2, label=stopped),
    ]
    for (left, right), columns in zip(panels, kinds, strict=True):
        own = [line for line in drawn if line.columns == columns]
        for axes, quantity in ((left, "processor seconds"), (right, "peak MiB")):
            for line in own:
                _line(axes, line, quantity)
            axes.set(xscale="log", yscale="log", xlabel="rows", title=f"{columns} columns")
            axes.grid(color="0.92")
        left.axhline(LIMIT_SECONDS, color="0.4", linestyle=":")
        left.set_ylabel("processor seconds of a test")
        right.set_ylabel("peak memory, MiB")
        handles = [
            Line2D([], [], color=one.colour, linestyle=one.line, marker=one.marker, label=one.label)
            for one in own
        ]
        beside = {"loc": "upper left", "bbox_to_anchor": (1.02, 1.0), "borderaxespad": 0.0}
        right.legend(handles=handles + common, frameon=False, handlelength=3, **beside)
    figure.savefig(path, dpi=150)


def _line(axes: Axes, line: Line, quantity: str) -> None:
    """What finished, and a cross where the method stopped first."""
    table = sorted(line.table, key=lambda row: int(row["n"]))
    done = [(int(r["n"]), float(r[quantity])) for r in table if r[quantity] and not r["stopped"]]
    if done:
        n, values = zip(*done, strict=True)
        axes.plot(n, values, line.marker, color=line.colour, linestyle=line.line, markersize=5)
    stopped = next((row for row in table if row["stopped"]), None)
    if stopped is None:
        return
    height = stopped_at(stopped, quantity) or (done[-1][1] if done else None)
    if height is not None:
        n, values = zip(*done[-1:], (int(stopped["n"]), height), strict=True)
        axes.plot(n, values, color=line.colour, linestyle=":", linewidth=0.8)
        axes.plot(n[-1:], values[-1:], "x", color=line.colour, markersize=9, mew=2)


def stopped_at(row: Mapping[str, Any], quantity: str) -> float | None:
    """What a stopped test had taken, where the table says."""
    if row[quantity]:
        return float(row[quantity])
    return LIMIT_SECONDS if (row["stopped"], quantity) == ("time", "processor seconds") else None


@click.command(help=__doc__)
@click.option("--size", "sizes", multiple=True, type=int, default=SIZES)
@click.option(
    "--method", "methods", multiple=True, type=click.Choice(list(METHODS)), default=METHODS
)
@click.option("--threads", default=2)
@click.option("--memory", default="4GiB", help="What a test may use.")
@click.option(
    "--peers",
    default="benchmarks/results/peers_limits.csv",
    help="The table of `peers.py limits`.",
)
@click.option("--out", default="benchmarks/results/wall.csv")
def main(
    sizes: tuple[int, ...],
    methods: tuple[str, ...],
    threads: int,
    memory: str,
    peers: str,
    out: str,
) -> None:
    write_csv(out, rows(sizes, methods, threads, memory, read_csv(out)))
    own = [row for row in read_csv(out) if row["threads"] == str(threads)]
    draw(own, read_csv(peers), Path(out).with_name("time_against_n.png"))


if __name__ == "__main__":
    main()
