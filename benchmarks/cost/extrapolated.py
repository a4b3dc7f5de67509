"""How long tests of many rows would take on many workers, by their plans: nothing is measured.

The rows are 90 + 1 stored columns in float32, in zarr arrays of which no chunk is written. Every
worker has one thread, at the rates of the reference machine; network and disk are as quick as they
are asked for data in memory. `longest` is the step that takes the most of the `elapsed s`. A plan
that needs more than 16 GiB of a process is left out.

Writes benchmarks/results/extrapolated.csv.

    python -m benchmarks run extrapolated
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import click
import zarr

import dhsic
from benchmarks.shared.output import write_csv
from dhsic._work import REFERENCE
from dhsic.cluster.local import PlannedWorkers
from dhsic.engine.plan import Plan
from dhsic.estimators import NystromMHSIC

ROWS = (10**6, 10**7, 10**8, 10**9)
WORKERS = (10, 100, 1000)
DIMS = (90, 1)
SIGNS = {"kernels": "gaussian", "null": "multiplier", "n_resamples": 250}
METHODS: dict[str, dict[str, Any]] = {
    "the default": {},
    **{
        f"{p} landmarks, 250 signs": {"estimator": NystromMHSIC(p), **SIGNS}
        for p in (500, 2000, "sqrt")
    },
}


def planned(n: int, method: str, workers: int, folder: str) -> Plan:
    """The plan of a test."""
    paths = [f"{folder}/{n}-{d}.zarr" for d in DIMS]
    for path, d in zip(paths, DIMS, strict=True):
        zarr.create_array(
            path,
            shape=(n, d),
            chunks=(8192, d),
            dtype="float32",
            fill_value=float("nan"),  # nothing is written, since nothing is read
            overwrite=True,
        )
    client = PlannedWorkers(workers)
    options = {"precision": "float32", "memory": "16GiB", "time": "1000h", **METHODS[method]}
    return replace(dhsic.plan(*paths, client=client, **options), rates=REFERENCE)


def rows(sizes: Sequence[int], counts: Sequence[int]) -> Iterator[dict[str, Any]]:
    """A row a plan."""
    for n, method, workers in product(sizes, METHODS, counts):
        with tempfile.TemporaryDirectory() as folder:
            plan = planned(n, method, workers, folder)
        if not plan.fits:
            continue
        longest = max(plan.steps, key=lambda step: step.elapsed(REFERENCE, plan.runtime))
        yield {
            "n": n,
            "method": method,
            "workers": workers,
            "tasks": sum(step.tasks for step in plan.passes),
            "processor s": plan.processor_seconds,
            "elapsed s": plan.seconds,
            "longest": longest.name,
            "longest s": longest.elapsed(REFERENCE, plan.runtime),
        }


@click.command(help=__doc__)
@click.option("--n", "sizes", multiple=True, type=int, default=ROWS)
@click.option("--workers", "counts", multiple=True, type=int, default=WORKERS)
@click.option("--out", default="benchmarks/results/extrapolated.csv")
def main(sizes: tuple[int, ...], counts: tuple[int, ...], out: str) -> None:
    """Plan what is asked for."""
    write_csv(out, rows(sizes, counts))


if __name__ == "__main__":
    main()
