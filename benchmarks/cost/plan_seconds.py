"""Seconds and bytes that a plan tells beside those that the test takes.

Every test runs in a process of its own, of independent normal variables in memory or stored by
zarr, on one thread and on two. That process measures the rates of the machine anew before its plan,
since other work comes and goes. `processor s` are those of all threads, `elapsed s` those from
beginning to end; of either the least of some turns after a first one. `peak MiB` is the resident
memory of the process at its largest, less the data that it holds. The work that plans count was
fitted to other tests on the same machine, of 500, 2,000, 6,000, 20,000 and 60,000 rows; kernels and
directions of a grid are those of normal variables, as the data here are. Writes
benchmarks/results/plan_seconds.csv, whose rows are kept.

    python -m benchmarks run plan_seconds
    python -m benchmarks run plan_seconds --n 3000 --estimator v-hsic
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import click
import numpy as np
import zarr

import dhsic
from benchmarks.cost.exact_cost import timed_test
from benchmarks.shared.machine import processor
from benchmarks.shared.output import keys_of, read_csv, write_csv
from dhsic.engine.memory import forget_peak, peak_bytes

KERNELS: dict[str, Any] = {"one": {"kernels": "gaussian"}, "default": {}}
KEYS = ("estimator", "null", "kernels", "columns", "n", "precision", "place", "threads")
TURN_SECONDS = 6.0
MOST_TURNS = 8
_ALONE = """
import json
from benchmarks.cost.plan_seconds import Shape, measured
print(json.dumps(measured(Shape(**json.loads({shape!r})), {folder!r})))
"""

Table = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Shape:
    """A test."""

    estimator: str
    null: str
    kernels: str
    columns: str
    n: int
    precision: str = "float64"
    place: str = "memory"
    threads: int = 1

    @property
    def dims(self) -> list[int]:
        """Columns of every variable."""
        return [int(d) for d in self.columns.split("x")]

    def data(self, folder: str) -> list[Any]:
        """The variables, or where they are stored."""
        rng = np.random.default_rng(0)
        values = [rng.standard_normal((self.n, d)).astype(self.precision) for d in self.dims]
        if self.place == "memory":
            return values
        paths = [f"{folder}/{m}.zarr" for m in range(len(values))]
        for path, x in zip(paths, values, strict=True):
            zarr.create_array(path, data=x, chunks=(8192, x.shape[1]))
        return paths


_SHAPES = (
    Shape("auto", "auto", "default", "1x1", 1000),
    Shape("auto", "auto", "default", "20x1", 3000),
    Shape("auto", "auto", "default", "3x3x3", 3000),
    Shape("auto", "auto", "default", "90x1", 12_000),
    Shape("auto", "auto", "default", "50x50", 50_000),
    Shape("auto", "auto", "default", "20x1", 200_000),
    Shape("auto", "auto", "default", "1x1", 1_000_000),
    Shape("auto", "auto", "default", "90x1", 200_000, "float32", "zarr"),
    Shape("auto", "auto", "default", "20x1", 1_000_000, "float32", "zarr"),
    Shape("nystrom-m", "auto", "one", "1x1", 12_000),
    Shape("nystrom-m", "auto", "one", "3x3x3", 12_000),
    Shape("nystrom-m", "multiplier", "one", "20x1", 12_000),
    Shape("nystrom-m", "spectral", "one", "20x1", 12_000),
    Shape("nystrom-m", "auto", "one", "50x50", 12_000, "float32", "zarr"),
    Shape("nystrom-m", "auto", "one", "20x1", 50_000),
    Shape("nystrom-m", "auto", "one", "90x1", 50_000),
    Shape("nystrom-m", "auto", "one", "20x1", 200_000, "float32", "zarr"),
    Shape("nystrom-hsic", "auto", "one", "20x1", 12_000),
    Shape("nystrom-hsic", "multiplier", "one", "20x1", 50_000),
    Shape("nystrom-hsic", "auto", "one", "90x1", 50_000),
    Shape("nystrom-hsic", "auto", "one", "50x50", 50_000, "float32", "zarr"),
    Shape("nystrom-hsic", "auto", "one", "1x1", 1_000_000),
    Shape("rff-hsic", "auto", "one", "20x1", 12_000),
    Shape("rff-hsic", "gamma", "one", "50x50", 50_000),
    Shape("rff-hsic", "auto", "one", "90x1", 200_000, "float32", "zarr"),
    Shape("v-hsic", "permutation", "one", "20x1", 1000),
    Shape("v-hsic", "auto", "one", "1x1", 3000),
    Shape("v-hsic", "auto", "one", "3x3x3", 3000),
    Shape("v-hsic", "auto", "one", "20x1", 12_000),
    Shape("v-hsic", "gamma", "one", "90x1", 12_000),
    Shape("nfsic", "auto", "one", "20x1", 3000),
    Shape("nfsic", "auto", "one", "90x1", 50_000),
)


def shapes() -> Iterator[Shape]:
    """All, on one thread and on two."""
    for shape, threads in product(_SHAPES, (1, 2)):
        yield replace(shape, threads=threads)


def measured(shape: Shape, folder: str) -> dict[str, Any]:
    """A row: the plan of a test, then the test."""
    options = {
        "estimator": shape.estimator,
        "null": shape.null,
        "threads": shape.threads,
        "memory": "4GiB",
        "precision": shape.precision,
        **KERNELS[shape.kernels],
    }
    data = shape.data(folder)
    held = sum(x.nbytes for x in data if isinstance(x, np.ndarray))
    plan = dhsic.plan(*data, **options).calibrated()
    told = {"planned processor s": plan.processor_seconds, "planned elapsed s": plan.seconds}
    planned_bytes = plan.peak_bytes
    forget_peak()
    _turn(data, options)
    peak, turns = (peak_bytes() or 0) - held, [_turn(data, options)]
    while len(turns) < MOST_TURNS and turns[0][1] * len(turns) < TURN_SECONDS:
        turns.append(_turn(data, options))
    processed, elapsed = map(min, zip(*turns, strict=True))
    return {
        **asdict(shape),
        **told,
        "processor s": processed,
        "elapsed s": elapsed,
        "planned MiB": planned_bytes / 2**20,
        "peak MiB": peak / 2**20,
        "processor": processor(),
        "version": dhsic.__version__,
    }


def _turn(data: Sequence[Any], options: Mapping[str, Any]) -> tuple[float, float]:
    """Seconds of a test, of the processor and elapsed."""
    began = time.perf_counter()
    processed, _ = timed_test(data, **options)
    return processed, time.perf_counter() - began


def alone(shape: Shape) -> dict[str, Any]:
    """The row of a test, from a process that does nothing else."""
    with tempfile.TemporaryDirectory() as folder:
        code = _ALONE.format(shape=json.dumps(asdict(shape)), folder=folder)
        root = Path(__file__).parents[2]
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True
        )
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return row


def rows(chosen: Sequence[Shape], done: Table) -> Iterator[Mapping[str, Any]]:
    """Those that are there, and those that are not."""
    yield from done
    known = {keys_of(row, KEYS) for row in done}
    left = [shape for shape in chosen if keys_of(asdict(shape), KEYS) not in known]
    yield from map(alone, left)


@click.command(help=__doc__)
@click.option("--estimator", "estimators", multiple=True, help="Those of these alone.")
@click.option("--n", "sizes", multiple=True, type=int, help="Those of so many rows alone.")
@click.option("--out", default="benchmarks/results/plan_seconds.csv")
def main(estimators: tuple[str, ...], sizes: tuple[int, ...], out: str) -> None:
    """Measure what is asked for."""
    chosen = [
        shape
        for shape in shapes()
        if (not sizes or shape.n in sizes) and (not estimators or shape.estimator in estimators)
    ]
    write_csv(out, rows(chosen, read_csv(out)))


if __name__ == "__main__":
    main()
