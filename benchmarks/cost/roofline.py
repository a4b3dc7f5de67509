"""Time of the two streamed passes over their floor, the same matrix products and exponentials.

The floor runs, per row tile and landmark tile, one GEMM and one exponential for the features, the
difference and one exponential for the year, and in the second pass the GEMM with the signs; with
the tile size that is best for it, on the same number of threads, in the same process. Everything
else that a test does in its passes counts as ours: reading blocks, checks, centring, products,
sums, the signs, combining, scheduling. Threads work on arrays in memory, processes on compressed
zarr arrays on disk. Writes benchmarks/results/roofline.csv.

    python -m benchmarks run roofline
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import Any

import click
import numpy as np
import zarr
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import dhsic
from benchmarks.shared.output import write_csv
from dhsic.cluster import local_cluster
from dhsic.kernels import Gaussian

TILES = [(512, 128), (1024, 128), (1024, 256), (2048, 128), (2048, 256), (4096, 128), (2048, 1024)]

Array = NDArray[Any]


def floor_pass(
    x: Array, z: Array, y: Array, v: Array, signs: Array | None, tile: tuple[int, int]
) -> None:
    """One thread's share of a pass: products and exponentials, nothing else."""
    row_tile, column_tile = tile
    for start in range(0, len(x), row_tile):
        rows = slice(start, start + row_tile)
        a, b = x[rows], y[rows]
        for at in range(0, len(z), column_tile):
            c, d = z[at : at + column_tile], v[at : at + column_tile]
            first = a @ c.T
            np.exp(first, out=first)
            second = b - d.T
            np.exp(second, out=second)
            if signs is not None:
                first.T @ signs[rows]


def floor_seconds(
    n: int, d: int, p: int, resamples: int, dtype: str, threads: int, tile: tuple[int, int]
) -> float:
    """Seconds of both passes."""
    rng = np.random.default_rng(0)
    x = -rng.random((n, d + 2)).astype(dtype) / d
    z = rng.random((p, d + 2)).astype(dtype)
    y, v = -rng.random((n, 1)).astype(dtype), rng.random((p, 1)).astype(dtype)
    signs = rng.choice(np.array([-1, 1], dtype), (n, resamples))
    shares = [slice(a, b) for a, b in pairwise(np.linspace(0, n, threads + 1, dtype=int))]
    began = time.perf_counter()
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(threads) as pool:
        for weights in (None, signs):
            tasks = [
                pool.submit(
                    floor_pass, x[s], z, y[s], v, None if weights is None else weights[s], tile
                )
                for s in shares
            ]
            for task in tasks:
                task.result()
    return time.perf_counter() - began


def best_floor(n: int, d: int, p: int, resamples: int, dtype: str, threads: int) -> Any:
    """The tile size that is quickest on a share of the rows."""
    share = max(min(n, 20_000), n // 10)
    return min(TILES, key=lambda t: floor_seconds(share, d, p, resamples, dtype, threads, t))


def our_test(
    data: tuple[Any, Any], d: int, p: int, resamples: int, dtype: str
) -> Callable[..., dhsic.IndependenceTestResult]:
    """The test with kernels given and no landmark pruned."""

    def run(**options: Any) -> dhsic.IndependenceTestResult:
        return dhsic.independence_test(
            *data,
            kernels=[Gaussian(gamma=0.5 / d), Gaussian(gamma=0.5)],
            estimator=dhsic.NystromMHSIC(n_landmarks=p, tolerance=0.0),
            null=dhsic.Multiplier(resamples),
            precision="float32" if dtype == "float32" else "float64",
            rng=0,
            **options,
        )

    return run


def seconds_of_passes(result: dhsic.IndependenceTestResult) -> float:
    """Seconds in the streamed passes."""
    return sum(done.seconds for done in result.passes)


def measured(
    floor: Callable[[], float], run: Callable[[], dhsic.IndependenceTestResult], repeats: int
) -> list[tuple[float, float, dhsic.IndependenceTestResult]]:
    """Floor and passes in turn, after a run that is not counted."""
    run()
    pairs = []
    for _ in range(repeats):
        seconds = floor()
        result = run()
        pairs.append((seconds, seconds_of_passes(result), result))
    return pairs


def rows(
    n: int, d: int, p: int, resamples: int, threads: int, repeats: int, workers: int
) -> Iterator[dict[str, Any]]:
    """One row a precision and runtime, medians over repeats."""
    for dtype in ("float32", "float64"):
        tile = best_floor(n, d, p, resamples, dtype, threads)
        rng = np.random.default_rng(1)
        x, y = rng.standard_normal((n, d)).astype(dtype), rng.standard_normal(n).astype(dtype)
        floor = partial(floor_seconds, n, d, p, resamples, dtype, tile=tile)
        run = our_test((x, y), d, p, resamples, dtype)
        pairs = measured(partial(floor, threads=threads), partial(run, threads=threads), repeats)
        yield _row(dtype, f"{threads} threads", tile, pairs)
        if not workers:
            continue
        with tempfile.TemporaryDirectory() as folder, local_cluster(workers, "4GiB") as client:
            paths = f"{folder}/x.zarr", f"{folder}/y.zarr"
            for path, array in zip(paths, (x, y), strict=True):
                zarr.create_array(path, data=array, chunks=(8192, *array.shape[1:]))
            run = our_test(paths, d, p, resamples, dtype)
            pairs = measured(partial(floor, threads=workers), partial(run, client=client), repeats)
            yield _row(dtype, f"{workers} processes", tile, pairs)


def _row(dtype: str, runtime: str, tile: tuple[int, int], pairs: list[Any]) -> dict[str, Any]:
    floors, ours, results = zip(*pairs, strict=True)
    return {
        "precision": dtype,
        "runtime": runtime,
        "floor_tile": f"{tile[0]} x {tile[1]}",
        "floor_s": float(np.median(floors)),
        "passes_s": float(np.median(ours)),
        "ratio": float(np.median(np.divide(ours, floors))),
        "whole_test_s": float(np.median([result.seconds for result in results])),
        "landmarks_kept": results[0].landmarks.kept,
    }


@click.command(help=__doc__)
@click.option("--rows", "n", default=200_000)
@click.option("--features", "d", default=90)
@click.option("--landmarks", "p", default=1024)
@click.option("--resamples", default=256)
@click.option("--threads", default=2)
@click.option("--workers", default=2, help="Processes of the local cluster; 0 leaves it out.")
@click.option("--repeats", default=5)
@click.option("--out", default="benchmarks/results/roofline.csv")
def main(
    n: int, d: int, p: int, resamples: int, threads: int, workers: int, repeats: int, out: str
) -> None:
    write_csv(out, rows(n, d, p, resamples, threads, repeats, workers))


if __name__ == "__main__":
    main()
