"""How long tests and other functions take, and how much memory.

Every cell runs in a process of its own. `processor` are seconds of all threads together, and
`seconds` are by the clock; calls of few rows are repeated, and the median is told. `held` is what
the process held before the call, with rows in memory, and `peak` the most that it held in the
call; `planned` is what `dhsic.plan` says of it. All three are MiB. `stopped` says why a call has
no result: "time" after 1,800 seconds of the processor, "memory" beyond 4 GiB, or the error.
`chosen` is what the result tells of its estimator, its null and its landmarks.

Rows of "d + d columns" are normal numbers in float32 and of "songs" in the shape of the Million
Song data; "stored" rows are read from zarr. Functions are called without options on rows of 20
columns and a target.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import dask.array as da
import numpy as np

import dhsic
from benchmarks.peers.peer_tests import hyppo_chi_square
from benchmarks.shared.cases import one_kernel
from benchmarks.shared.conditional_data import CASES as CONDITIONAL
from benchmarks.shared.limits import Call, measure
from benchmarks.study import Cell, Row, Study
from dhsic import causal
from dhsic.io.synthetic import generate, synthetic

SECONDS, MOST_BYTES = 1800.0, 4 * 2**30
FEW, MANY = (50, 100, 200, 500), (1000, 5000, 10_000, 100_000, 1_000_000)
THREADS = 2
TURNS = {"few": 31, "many": 3}
"""Of groups whose calls are repeated, after a first one that is not counted."""
LONG = 20.0
"""Processor seconds after which no call is repeated."""


# --- data


@dataclass(frozen=True)
class Rows:
    """Rows that a call is given."""

    group: str
    make: Callable[[int, Path], Sequence[Any]]
    """Of so many rows, the data, with a folder for what is stored."""
    sizes: tuple[int, ...]


def normals(n: int, _: Path, d: int, e: int) -> Sequence[Any]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal((n, columns)).astype(np.float32) for columns in (d, e)]


def songs(n: int, folder: Path, features: int, stored: bool) -> Sequence[Any]:
    if not stored:
        return synthetic(n, features=features, seed=1)
    generate(folder / "rows.zarr", rows=n, features=features, seed=1)
    return [da.from_zarr(folder / "rows.zarr", component=part) for part in ("features", "year")]


def conditioned(n: int, _: Path, d: int) -> Sequence[Any]:
    return CONDITIONAL["additive"](np.random.default_rng(0), n, d, 0.0)


ROWS: Mapping[str, Rows] = {
    **{
        f"{d} + {d} columns, few rows": Rows("few", partial(normals, d=d, e=d), FEW)
        for d in (1, 3, 20)
    },
    **{
        f"{d} + {e} columns": Rows("many", partial(normals, d=d, e=e), MANY)
        for d, e in ((1, 1), (20, 1), (90, 1), (50, 50))
    },
    "songs, 20 columns": Rows(
        "functions", partial(songs, features=20, stored=False), (200_000, 2_000_000)
    ),
    "songs, 20 columns, stored": Rows(
        "functions", partial(songs, features=20, stored=True), (200_000, 2_000_000)
    ),
    "songs, 10 columns": Rows(
        "by name",
        partial(songs, features=10, stored=False),
        (5000, 20_000, 100_000, 500_000, 2_000_000),
    ),
    "songs, 1 column, stored": Rows(
        "reach", partial(songs, features=1, stored=True), (*MANY, 10**7, 10**8)
    ),
    **{
        f"given {d} columns": Rows("given", partial(conditioned, d=d), (*MANY, 2000))
        for d in (1, 10)
    },
}


# --- calls


@dataclass(frozen=True)
class Way:
    """A call of a function."""

    groups: tuple[str, ...]
    call: Callable[..., Any]
    """Takes the data and options of a run."""
    options: Mapping[str, Any] = field(default_factory=dict)
    most_rows: int | None = None
    default: bool = False
    plans: bool = False
    """Whether the same words plan the call."""


def _columns(x: Any) -> list[Any]:
    return [x[:, j] for j in range(x.shape[1])]


def _halves(x: Any) -> tuple[Any, Any]:
    return x[: len(x) // 2], x[len(x) // 2 :]


def _distance(x: Any, **options: Any) -> float:
    one, two = _halves(x)
    first = dhsic.mean_embedding(one, **options)
    return dhsic.mmd(first, first.like(two, threads=options["threads"]))


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "independence_test, all columns": lambda x, y, **o: dhsic.independence_test(*_columns(x), **o),
    "hsic": lambda x, y, **o: dhsic.hsic(x, y, **o),
    "rank_features": lambda x, y, **o: dhsic.rank_features(x, y, **o),
    "select_features": lambda x, y, **o: dhsic.select_features(x, y, 5, **o),
    "select_features, backward": lambda x, y, **o: dhsic.select_features(
        x, y, 5, method="backward", **o
    ),
    "select_features, lasso": lambda x, y, **o: dhsic.select_features(x, y, 5, method="lasso", **o),
    "dependence_matrix": lambda x, y, **o: dhsic.dependence_matrix(*_columns(x), y, **o),
    "two_sample_test": lambda x, y, **o: dhsic.two_sample_test(*_halves(x), **o),
    "mean_embedding": lambda x, y, **o: dhsic.mean_embedding(x, **o),
    "mmd": lambda x, y, **o: _distance(x, **o),
    "interaction_test": lambda x, y, **o: dhsic.interaction_test(x[:, ::2], x[:, 1::2], y, **o),
    "sensitivity_map": lambda x, y, **o: dhsic.sensitivity_map(x, y, **o),
    "witness_functions": lambda x, y, **o: dhsic.witness_functions(x, y, **o),
    "conditional_independence_test": lambda x, y, **o: dhsic.conditional_independence_test(
        x[:, 0], y, given=x[:, 1:], **o
    ),
    "causal.residual_independence_test": lambda x, y, **o: causal.residual_independence_test(
        x[:, 0], y, given=x[:, 1:], **o
    ),
    "causal.direction": lambda x, y, **o: causal.direction(x[:, 0], x[:, 1], **o),
    "causal.directions": lambda x, y, **o: causal.directions([(x[:, 0], x[:, 1])], **o),
    "causal.score_dags": lambda x, y, **o: causal.score_dags(*_columns(x)[:3], **o),
    "causal.search_dag": lambda x, y, **o: causal.search_dag(*_columns(x), **o),
}
"""All but `independence_test` itself."""

LINEAR: Mapping[str, tuple[Any, str]] = {
    "nystrom-m, 500 landmarks, spectral": (dhsic.NystromMHSIC(n_landmarks=500), "spectral"),
    "nystrom-hsic, spectral": (dhsic.NystromHSIC(n_landmarks=100), "spectral"),
    "rff-hsic, spectral": (dhsic.RFFHSIC(n_features=100), "spectral"),
    "sub-corr, spectral": (dhsic.SubCorr(), "spectral"),
    "block-hsic, normal": (dhsic.BlockHSIC(block_rows=100), "normal"),
}
QUADRATIC: Mapping[str, tuple[Any, str]] = {
    "v-hsic, gamma": (dhsic.VHSIC(), "gamma"),
    "dcov, gamma": (dhsic.DCov(), "gamma"),
}


SIXTEEN = dhsic.Grid(dhsic.Candidates(factors=(0.25, 0.5, 1.0, 2.0)), combine="all")


def _hyppo(x: Any, y: Any, *, kind: str, **_: Any) -> float:
    return hyppo_chi_square(x.astype(np.float64), y.astype(np.float64), 0, 0, kind=kind)


def _other(x: Any, y: Any, z: Any, *, name: str, **_: Any) -> float:
    from benchmarks.level.level import OTHERS

    return OTHERS[name](x, y, given=z, rng=0)


def ways() -> dict[str, Way]:
    """All calls."""
    test = dhsic.independence_test
    permuted = dhsic.Permutation(250, within="all")
    found = {
        "independence_test": Way(("few", "many", "functions"), test, default=True, plans=True),
        "one kernel": Way(("few", "many"), test, {"kernels": "gaussian"}, default=True, plans=True),
        "hyppo Hsic, chi-square": Way(("few",), partial(_hyppo, kind="Hsic")),
        "hyppo Dcorr, chi-square": Way(("few",), partial(_hyppo, kind="Dcorr")),
        **{
            f"v-hsic, {words}, {null}": Way(
                ("many",),
                test,
                {"estimator": "v-hsic", "kernels": kernels, "null": law},
                most_rows=1000 if law is permuted else 10_000,
            )
            for words, kernels in (("one kernel", "gaussian"), ("16 kernels", SIXTEEN))
            for null, law in (("shifts", "shifts"), ("250 permutations", permuted))
        },
        **{
            f"nystrom-m, {count:,} replicates": Way(
                ("many",),
                test,
                {"estimator": "nystrom-m", "n_resamples": count},
                most_rows=10_000,
                default=True,
            )
            for count in (1000, 10_000, 100_000)
        },
        **{name: Way(("functions",), call, default=True) for name, call in FUNCTIONS.items()},
        "nystrom-m, 100 landmarks, spectral": Way(
            ("reach",),
            test,
            {
                "estimator": dhsic.NystromMHSIC(n_landmarks=100),
                "kernels": "gaussian",
                "null": "spectral",
                "precision": "float32",
            },
            plans=True,
        ),
        "conditional_independence_test, given": Way(
            ("given",),
            lambda x, y, z, **o: dhsic.conditional_independence_test(x, y, given=z, **o),
            default=True,
        ),
        **{
            name: Way(("given",), partial(_other, name=name), most_rows=most)
            for name, most in (("kci", 2000), ("rcit", 1_000_000), ("gcm", 1_000_000))
        },
    }
    for many, named in ((True, LINEAR), (False, QUADRATIC)):
        for name, (estimator, null) in named.items():
            options = {"estimator": estimator, "null": null, "kernels": one_kernel(estimator)}
            found[name] = Way(
                ("by name",), test, {**options, "precision": "float32"}, None if many else 100_000
            )
    return found


def takes(cell: Cell) -> bool:
    rows, way = cell.draw, cell.test
    return rows.group in way.groups and cell.n in rows.sizes and cell.n <= (way.most_rows or cell.n)


def prepared(data: str, method: str, n: int, folder: str) -> Call:
    """A call on rows that are there, in a process of its own: what it says, and its seconds."""
    rows, way = ROWS[data], ways()[method]
    given = rows.make(n, Path(folder))
    own = {"rng": 0, "threads": 1 if rows.group in ("few", "many", "given") else THREADS}
    planned = ""
    if way.plans and n >= FEW[0]:
        words = {key: value for key, value in {**way.options, **own}.items() if key != "rng"}
        planned = str(dhsic.plan(*given, **words).peak_bytes / 2**20)
    turns = TURNS.get(rows.group, 0) + 1

    def call() -> tuple[str, str, list[float]]:
        seconds: list[float] = []
        while len(seconds) < turns and sum(seconds) < LONG:
            began = time.process_time()
            result = way.call(*given, **way.options, **own)
            seconds.append(time.process_time() - began)
        return _told(result), planned, seconds[1:] or seconds

    return call


def _told(result: Any) -> str:
    """What a result says of its estimator and landmarks."""
    parts = [result, getattr(result, "measured", None), getattr(result, "landmarks", None)]
    fields = "estimator", "estimator_reason", "null", "choice"
    told = (getattr(part, name, "") for part in parts for name in fields)
    return "; ".join(dict.fromkeys(str(one) for one in told if one))


def measured(cell: Cell, run: int) -> Row:
    """One call in a process of its own."""
    del run
    with tempfile.TemporaryDirectory() as folder:
        prepare = partial(prepared, cell.data, cell.method, cell.n, folder)
        found = measure(prepare, SECONDS, MOST_BYTES)
    told, planned, each = found.value or ("", "", [found.processor_seconds])
    return {
        "seconds": found.seconds / len(each) if len(each) == 1 else "",
        "processor": median(each),
        "held": found.start_bytes / 2**20,
        "peak": found.peak_bytes / 2**20,
        "planned": float(planned) if planned else "",
        "stopped": found.stopped,
        "chosen": told,
    }


def as_measured(cell: Cell, found: Sequence[Row]) -> Iterator[Row]:
    """The run with the least processor time."""
    yield min(found, key=lambda one: one["processor"])


STUDY = Study(
    name="cost",
    title="How long do calls take, and how much memory?",
    data=ROWS,
    methods=ways(),
    sizes=sorted({n for rows in ROWS.values() for n in rows.sizes}),
    measure=measured,
    columns=("seconds", "processor", "held", "peak", "planned", "stopped", "chosen"),
    rows=as_measured,
    takes=takes,
    follows_defaults=lambda cell: bool(cell.test.default),
    small={
        "data": ["1 + 1 columns, few rows"],
        "methods": ["independence_test", "one kernel"],
        "sizes": [50],
    },
    in_pool=False,
)
