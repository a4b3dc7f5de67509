"""Whether operations counted, times the rates of this machine, predict how long tests take.

The model is that of `benchmarks.costs`, its rates those of `benchmarks.calibration`, from runs of a
task or a step at a time; the tests that it is checked against are whole ones, of other shapes, on
threads and on worker processes. Seconds mean something on a quiet
machine only; processor seconds, of this process and its workers together, nearly always. Writes
benchmarks/results/cost_model_rates.csv, of which each row is the seconds of one of something, and
benchmarks/results/cost_model.csv, predicted and measured.

    python benchmarks/cost_model.py
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import click
import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.calibration import (
    PRECISIONS,
    SHAPES,
    calibrate,
    processor_seconds,
    run_of,
    work_seconds,
)
from benchmarks.costs import Job, Machine, Workers, predict
from benchmarks.output import read_csv, write_csv
from dhsic.cluster import local_cluster
from dhsic.cluster.local import processors

CASES = (  # rows, columns of the first variable, landmarks, signs, rows of a stored chunk
    (60_000, 20, 1200, 250, 8192),
    (150_000, 45, 450, 250, 16_384),
    (40_000, 45, 900, 999, 4096),
    (400_000, 8, 300, 150, 8192),
)


def measured(job: Job, client: Any, threads: int, folder: str, repeats: int) -> dict[str, float]:
    """Seconds of a test, and its landmarks, after a run that is not counted."""
    run = run_of(job, client, folder, threads)
    result = run()
    seconds, used = [], []
    for _ in range(repeats):
        before = processor_seconds(client)
        seconds.append(run().seconds)
        used.append(processor_seconds(client) - before)
    return {
        "kept": float(result.landmarks.kept),  # type: ignore[union-attr, arg-type]
        "least seconds": min(seconds),
        "median seconds": float(np.median(seconds)),
        "processor seconds": min(used),
    }


def rows(
    machine: Machine,
    cases: Sequence[tuple[int, int, int, int, int]],
    counts: Sequence[int],
    repeats: int,
) -> Iterator[dict[str, Any]]:
    """One row a case, a precision and a runtime."""
    for count, processes in ((count, processes) for processes in (False, True) for count in counts):
        with ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            stack.enter_context(threadpool_limits(1, "blas"))
            client = stack.enter_context(local_cluster(count, "4GiB")) if processes else None
            for n, d, p, resamples, chunk in cases:
                for precision in PRECISIONS:
                    stored = chunk if processes else None
                    job = Job(n, (d, 1), p, p, resamples, precision, stored)
                    found = measured(job, client, count, folder, repeats)
                    job = replace(job, kept=int(found["kept"]))
                    yield _row(job, machine, Workers(count, processes), found)


def _row(job: Job, machine: Machine, workers: Workers, found: dict[str, float]) -> dict[str, Any]:
    wall = predict(job, machine, replace(workers, crowded=workers.count == processors()))
    used = work_seconds(job, machine, workers)
    return {
        "runtime": f"{workers.count} {'processes' if workers.processes else 'threads'}",
        "precision": job.precision,
        "n": job.rows,
        "columns": job.dims[0],
        "landmarks": job.kept,
        "signs": job.resamples,
        "chunk rows": job.chunk_rows or "",
        "bottleneck": wall.bottleneck,
        "predicted seconds": wall.seconds,
        "least seconds": found["least seconds"],
        "median seconds": found["median seconds"],
        "predicted over least": wall.seconds / found["least seconds"],
        "predicted processor seconds": used,
        "processor seconds": found["processor seconds"],
        "predicted over processor": used / found["processor seconds"],
    }


@click.command(help=__doc__)
@click.option("--case", "cases", type=(int, int, int, int, int), multiple=True, default=CASES)
@click.option("--workers", "counts", type=int, multiple=True, default=(1, 2))
@click.option("--shapes", default=len(SHAPES), help="Of the tasks that the rates are fitted to.")
@click.option("--empty-blocks", default=400, help="Of the passes that do nothing.")
@click.option("--repeats", default=3)
@click.option("--keep-rates", is_flag=True, help="Take the rates that are there.")
@click.option("--rates", default="benchmarks/results/cost_model_rates.csv")
@click.option("--out", default="benchmarks/results/cost_model.csv")
def main(
    cases: tuple[tuple[int, int, int, int, int], ...],
    counts: tuple[int, ...],
    shapes: int,
    empty_blocks: int,
    repeats: int,
    keep_rates: bool,
    rates: str,
    out: str,
) -> None:
    if not (keep_rates and read_csv(rates)):
        made = calibrate(SHAPES[-shapes:], processors(), empty_blocks, repeats)
        write_csv(rates, made.table)
    write_csv(out, rows(Machine.of(read_csv(rates)), cases, counts, repeats))


if __name__ == "__main__":
    main()
