"""All 25 causal graphs over three nodes of many stored rows: seconds and memory.

Rows of a chain are written as zarr, and the graphs scored in a fresh process: splines, 12
regressions from one pass, and the gamma null of Nystrom M-HSIC. Residuals are computed when they
are read. `peak_mib` is the high-water mark of resident memory of the process, `before_mib` that
before the run, with all libraries; `held_mib` is what the residuals of all regressions would take.
Writes benchmarks/results/causal_scale.csv.

    python -m benchmarks run causal_scale
"""

from __future__ import annotations

import multiprocessing
import resource
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import zarr

from benchmarks.shared.output import write_csv
from dhsic.causal import score_dags
from dhsic.estimators import NystromMHSIC

NAMES = ("a", "b", "c")
TRUTH = "a -> b, b -> c"
_WRITTEN = 100_000


def generate(path: Path, n: int, seed: int) -> None:
    """Store rows in which a causes b, and b causes c."""
    stored = zarr.create_array(path, shape=(n, 3), chunks=(min(n, _WRITTEN), 3), dtype="f8")
    for start in range(0, n, _WRITTEN):
        stop = min(start + _WRITTEN, n)
        rng = np.random.default_rng([seed, start])
        a, b, c = rng.uniform(-1.0, 1.0, (3, stop - start))
        b += 2.0 * a**2
        c += np.tanh(2.0 * b)
        stored[start:stop] = np.column_stack([a, b, c])


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def run(setting: tuple[str, int, int]) -> dict[str, Any]:
    """Score all graphs over the rows of a store, in this process."""
    path, landmarks, threads = setting
    before, began, worked = peak_mib(), time.perf_counter(), time.process_time()
    scores = score_dags(
        path, names=NAMES, estimator=NystromMHSIC(landmarks), null="gamma", threads=threads, rng=0
    )
    n, kept = scores.n, [str(one.dag) for one in scores.accepted(0.05)]
    return {
        "n": n,
        "landmarks": landmarks,
        "threads": threads,
        "graphs": len(scores),
        "passes": len(scores.passes),
        "seconds": time.perf_counter() - began,
        "processor_seconds": time.process_time() - worked,
        "before_mib": before,
        "peak_mib": peak_mib(),
        "held_mib": 8 * n * scores.n_regressions / 2**20,
        "accepted": len(kept),
        "truth_accepted": TRUTH in kept,
        "best": str(scores.best.dag),
        "pvalue": scores.best.pvalue,
    }


def rows(sizes: Sequence[int], landmarks: int, threads: int) -> Iterator[dict[str, Any]]:
    for n in sizes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.zarr"
            generate(path, n, 0)
            with multiprocessing.get_context("spawn").Pool(1) as fresh:
                yield fresh.apply(run, ((str(path), landmarks, threads),))


@click.command(help=__doc__)
@click.option("--rows", "sizes", multiple=True, type=int, default=(10_000, 100_000, 1_000_000))
@click.option("--landmarks", default=100)
@click.option("--threads", default=2)
@click.option("--out", default="benchmarks/results/causal_scale.csv")
def main(sizes: tuple[int, ...], landmarks: int, threads: int, out: str) -> None:
    write_csv(out, rows(sizes, landmarks, threads))


if __name__ == "__main__":
    main()
