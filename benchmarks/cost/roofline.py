"""Time of the streamed passes of tests over their floors, the same products and transforms.

The floor of a test at landmark tuples with random signs runs, per row tile and landmark tile, one
GEMM and one exponential for the features, the difference and one exponential for the year, and in
the second pass the GEMM with the signs. That of a test of features under shifts, the exact null,
is one pass of the same distances and exponentials, of the Fourier transforms of all groups, and of
one GEMM a frequency; in float32, whose digits would not do after it, of the GEMM between kernels
and features, too. Floors have the tile size that is best for them, on the same number of
threads, in the same process. Everything else that a test does in its passes counts as ours:
reading blocks, checks, groups of rows from far apart, centring, sums, norms, the signs, combining,
scheduling. Threads work on arrays in memory, processes on compressed zarr arrays on disk. Writes
benchmarks/results/roofline.csv.

    python -m benchmarks run roofline
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise, product
from typing import Any, NamedTuple, Self

import click
import numpy as np
import scipy
import zarr
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import dhsic
from benchmarks.shared.output import write_csv
from dhsic.cluster import local_cluster
from dhsic.kernels import Gaussian

TILES = [(512, 128), (1024, 128), (1024, 256), (2048, 128), (2048, 256), (4096, 128), (2048, 1024)]
GROUPS = [1, 2, 4, 8, 16]  # of a tile
SHIFTS = 1000  # rows of a group

Array = NDArray[Any]


class Rows(NamedTuple):
    """Rows (n, d + 2) and (n, 1), and landmarks (p, d + 2) and (q, 1), whose GEMM is a distance."""

    x: Array
    z: Array
    y: Array
    v: Array

    @classmethod
    def drawn(cls, n: int, d: int, p: int, q: int, dtype: str) -> Self:
        """Numbers whose exponentials are ordinary ones, which take no longer than others."""
        rng = np.random.default_rng(0)
        x, y = -rng.random((n, d + 2)) / d, -rng.random((n, 1))
        made = x, rng.random((p, d + 2)), y, rng.random((q, 1))
        return cls(*(values.astype(dtype) for values in made))

    def some(self, rows: slice) -> Self:
        """Some rows and all landmarks."""
        return self._replace(x=self.x[rows], y=self.y[rows])


def floor_of_signs(data: Rows, signs: Array, tile: tuple[int, int]) -> None:
    """One thread's share of two passes at landmark tuples, the second with signs."""
    row_tile, column_tile = tile
    for second_pass in (False, True):
        for start in range(0, len(data.x), row_tile):
            rows = slice(start, start + row_tile)
            a, b = data.x[rows], data.y[rows]
            for at in range(0, len(data.z), column_tile):
                first = _kernel(a @ data.z[at : at + column_tile].T)
                _kernel(b - data.v[at : at + column_tile].T)
                if second_pass:
                    first.T @ signs[rows]


def floor_of_shifts(data: Rows, tile: int) -> None:
    """One thread's share of a pass over features under all shifts within so many groups a tile."""
    p, q = len(data.z), len(data.v)
    first, second = np.eye(p, dtype=data.x.dtype), np.eye(q, dtype=data.x.dtype)
    total = np.zeros((SHIFTS // 2 + 1, p, q), np.complex128)
    step = tile * SHIFTS
    for start in range(0, len(data.x), step):
        rows = slice(start, start + step)
        features = np.empty((len(data.x[rows]), p + q), data.x.dtype)
        if data.x.dtype == np.float32:
            np.matmul(_kernel(data.x[rows] @ data.z.T), first, out=features[:, :p])
            np.matmul(_kernel(data.y[rows] - data.v.T), second, out=features[:, p:])
        else:
            _kernel(np.matmul(data.x[rows], data.z.T, out=features[:, :p]))
            _kernel(np.subtract(data.y[rows], data.v.T, out=features[:, p:]))
        spectra = scipy.fft.rfft(features.reshape(-1, SHIFTS, p + q), axis=1).swapaxes(0, 1)
        spectra = np.ascontiguousarray(spectra)
        total += spectra[..., :p].swapaxes(1, 2) @ spectra[..., p:]


def _kernel(exponents: Array) -> Array:
    return np.exp(exponents, out=exponents)


def floor_seconds(share: Callable[..., None], data: Rows, *others: Array, threads: int) -> float:
    """Seconds in which threads do the shares of all rows, whole groups each."""
    n = len(data.x)
    cuts = [round(n / SHIFTS * t / threads) * SHIFTS for t in range(threads)]
    shares = [slice(a, b) for a, b in pairwise([*cuts, n])]
    began = time.perf_counter()
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(threads) as pool:
        tasks = [
            pool.submit(share, data.some(s), *(values[s] for values in others)) for s in shares
        ]
        for task in tasks:
            task.result()
    return time.perf_counter() - began


class Case(NamedTuple):
    """A test, and the floor under it."""

    null: str
    landmarks: int
    share: Callable[..., None]
    tiles: list[Any]
    options: dict[str, Any]

    @classmethod
    def both(cls, p: int, features: int, resamples: int) -> list[Self]:
        """Tuples with signs, and features under shifts."""
        tuples = dhsic.NystromMHSIC(n_landmarks=p, tolerance=0.0)
        signs = {"estimator": tuples, "null": dhsic.Multiplier(resamples)}
        each = dhsic.NystromHSIC(n_landmarks=features, n_features=None, unbiased_estimate=False)
        shifts = {"estimator": each, "null": dhsic.Shifts(SHIFTS)}
        return [
            cls("signs", p, floor_of_signs, TILES, signs),
            cls("shifts", features, floor_of_shifts, GROUPS, shifts),
        ]

    def test(self, data: tuple[Any, Any], d: int, dtype: Any, **where: Any) -> Any:
        """The test with kernels given."""
        kernels = [Gaussian(gamma=0.5 / d), Gaussian(gamma=0.5)]
        return dhsic.independence_test(
            *data, kernels=kernels, precision=dtype, rng=0, **self.options, **where
        )

    def floor(self, n: int, d: int, kept: int, dtype: str, threads: int) -> Callable[..., float]:
        """Seconds of the floor by tile, to be called again and again."""
        given: list[Any] = [Rows.drawn(n, d, self.landmarks, kept, dtype)]
        if self.share is floor_of_signs:
            shape, both = (n, self.options["null"].n_resamples), np.array([-1, 1], dtype)
            given.append(np.random.default_rng(1).choice(both, shape))
        return lambda tile: floor_seconds(partial(self.share, tile=tile), *given, threads=threads)


def measured(
    case: Case, run: Callable[[], Any], n: int, d: int, dtype: str, threads: int, repeats: int
) -> dict[str, Any]:
    """Floor and passes in turn, after a run that is not counted; medians over repeats."""
    result = run()
    kept = np.atleast_1d(result.landmarks.kept)
    floor = case.floor(n, d, int(kept[-1]), dtype, threads)
    best = min(case.tiles, key=floor)
    pairs = []
    for _ in range(repeats):
        seconds, result = floor(best), run()
        pairs.append((seconds, sum(done.seconds for done in result.passes), result.seconds))
    floors, ours, whole = np.transpose(pairs)
    return {
        "floor_tile": " x ".join(map(str, np.atleast_1d(best))),
        "floor_s": float(np.median(floors)),
        "passes_s": float(np.median(ours)),
        "ratio": float(np.median(ours / floors)),
        "whole_test_s": float(np.median(whole)),
        "landmarks_kept": " ".join(map(str, kept)),
    }


def rows(
    n: int, d: int, cases: Sequence[Case], threads: int, repeats: int, workers: int
) -> Iterator[dict[str, Any]]:
    """One row a null, precision and runtime."""
    for case, dtype in product(cases, ("float32", "float64")):
        rng = np.random.default_rng(1)
        x, y = rng.standard_normal((n, d)).astype(dtype), rng.standard_normal(n).astype(dtype)
        named = {"null": case.null, "precision": dtype}
        run = partial(case.test, (x, y), d, dtype, threads=threads)
        found = measured(case, run, n, d, dtype, threads, repeats)
        yield named | {"runtime": f"{threads} threads"} | found
        if not workers:
            continue
        with tempfile.TemporaryDirectory() as folder, local_cluster(workers, "4GiB") as client:
            paths = f"{folder}/x.zarr", f"{folder}/y.zarr"
            for path, array in zip(paths, (x, y), strict=True):
                zarr.create_array(path, data=array, chunks=(8192, *array.shape[1:]))
            run = partial(case.test, paths, d, dtype, client=client)
            found = measured(case, run, n, d, dtype, workers, repeats)
            yield named | {"runtime": f"{workers} processes"} | found


@click.command(help=__doc__)
@click.option("--rows", "n", default=400_000)
@click.option("--features", "d", default=90)
@click.option("--landmarks", "p", default=1024, help="With signs.")
@click.option("--own-landmarks", default=256, help="Of the features, with shifts.")
@click.option("--resamples", default=256, help="Signs.")
@click.option("--threads", default=2)
@click.option("--workers", default=2, help="Processes of the local cluster; 0 leaves it out.")
@click.option("--repeats", default=5)
@click.option("--out", default="benchmarks/results/roofline.csv")
def main(
    n: int,
    d: int,
    p: int,
    own_landmarks: int,
    resamples: int,
    threads: int,
    workers: int,
    repeats: int,
    out: str,
) -> None:
    cases = Case.both(p, own_landmarks, resamples)
    write_csv(out, rows(n, d, cases, threads, repeats, workers))


if __name__ == "__main__":
    main()
