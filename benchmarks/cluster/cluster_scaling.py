"""How a test scales on the processes of a cluster, from zarr on disk.

`strong`: one and two worker processes of one thread each over the same rows; `weak`: the same rows
for each worker. Then threads of one process against processes, float32 against float64, and stored
chunks of several sizes, each on two. All are studies of `dhsic.bench.scaling_study`, whose settings
take turns; ratios are medians of the ratios within a turn, so that what else the machine does falls
on both sides. Clusters are started before the clock runs. "outside" is the time of the driver
before, between and after the passes; "busy" is the share of the workers' time within the passes
that tasks take. The null is that of the default, shifts, with one kernel and all pairs of 256
features.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from benchmarks.study import Cell, Row, Study
from dhsic import NystromHSIC
from dhsic.bench import scaling_study
from dhsic.io.synthetic import generate

FEATURES, TURNS = 20, 3
ON_TWO: dict[str, list[Any]] = {"workers": [2], "scheduler": ["processes"]}


class Varied(NamedTuple):
    """What varies, and whether every worker has the same rows."""

    vary: dict[str, list[Any]]
    weak: bool = False


WORKERS = {"workers": [1, 2]}
METHODS = {
    "strong": Varied(WORKERS),
    "weak": Varied(WORKERS, weak=True),
    "scheduler": Varied({"scheduler": ["processes", "threads"], "workers": [2]}),
    "precision": Varied({"precision": ["float32", "float64"], **ON_TWO}),
    "chunk rows": Varied({"chunk_rows": [2048, 8192, 32_768, 131_072], **ON_TWO}),
}
SETTINGS = ("workers", "scheduler", "rows", "chunk_rows", "precision")
RATIOS = ("seconds", "speedup", "efficiency", "relative")


def measure(cell: Cell, run: int) -> list[Row]:
    """All settings of a study."""
    del run
    precision: dict[str, Any] = {} if "precision" in cell.test.vary else {"precision": "float32"}
    with tempfile.TemporaryDirectory() as scratch:
        data = f"{scratch}/songs.zarr"
        generate(data, rows=cell.n, features=FEATURES, dependence=0.1)
        found = scaling_study(
            f"{data}/features",
            f"{data}/year",
            vary=dict(cell.test.vary),
            weak=cell.test.weak,
            repeats=TURNS,
            folder=scratch,
            kernels="gaussian",
            estimator=NystromHSIC(256),
            null="shifts",
            **precision,
        )
    return list(found.records())


def rows(cell: Cell, found: Sequence[list[Row]]) -> Iterator[Row]:
    for row in found[0]:
        peak = row["peak_bytes"]
        yield {
            **{name: row[name] for name in (*SETTINGS, *RATIOS)},
            "outside": row["seconds"] - row["pass_seconds"],
            "busy": row["task_seconds"] / (row["workers"] * row["pass_seconds"]),
            "processor": row["processor_seconds"],
            "peak": "" if peak is None else peak / 2**20,
            "planned": row["planned_bytes"] / 2**20,
        }


STUDY = Study(
    name="cluster_scaling",
    title="How does a test scale over worker processes?",
    data={"songs, 20 columns, stored; 256 landmarks and shifts": None},
    methods=METHODS,
    sizes=(4_000_000,),
    measure=measure,
    columns=(*SETTINGS, *RATIOS, "outside", "busy", "processor", "peak", "planned"),
    rows=rows,
    small={"methods": ["strong"], "sizes": [4000]},
    in_pool=False,
)
