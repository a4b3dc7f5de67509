"""What pruning the landmarks saves, and that it leaves the test as it is.

For variables of given dimensions: landmarks kept, time of the test over that without pruning in
the same run, relative difference of the statistic, and on many small data sets the power, the
share of decisions at level 5 % that differ, and the relative difference of the statistic.
Writes benchmarks/results/pruning.csv.

    python -m benchmarks run pruning
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
import numpy as np

import dhsic
from benchmarks.shared.cases import with_dimensions
from benchmarks.shared.output import parallel_map, write_csv

STRENGTHS = {(1, 1): 0.7, (1, 1, 1): 0.4, (3, 1): 0.7, (90, 1): 0.9}
TOLERANCES = (0.0, 1e-8, 1e-6, 1e-4)


def results(
    setting: tuple[tuple[int, ...], int, int, float, int],
) -> list[dhsic.IndependenceTestResult]:
    """The test on one data set at every tolerance."""
    dims, n, p, strength, seed = setting
    data = with_dimensions(dims, n, np.random.default_rng([seed, n]), strength)
    return [
        dhsic.independence_test(
            *data,
            kernels="gaussian",
            estimator=dhsic.NystromMHSIC(n_landmarks=p, tolerance=tolerance),
            null="multiplier",
            rng=seed,
        )
        for tolerance in TOLERANCES
    ]


def rows(
    n: int, p: int, small: int, small_p: int, runs: int, processes: int
) -> Iterator[dict[str, Any]]:
    for dims, strength in STRENGTHS.items():
        large = [results((dims, n, p, strength, seed)) for seed in range(3)]
        studies = parallel_map(
            results, [(dims, small, small_p, strength, seed) for seed in range(runs)], processes
        )
        for index, tolerance in enumerate(TOLERANCES):
            seconds = [repeat[index].seconds / repeat[0].seconds for repeat in large]
            apart = [abs(s[index].statistic / s[0].statistic - 1.0) for s in studies]
            found = np.array([[s[i].pvalue <= 0.05 for i in (index, 0)] for s in studies])
            kept = large[0][index].landmarks
            assert kept is not None
            yield {
                "dimensions": " ".join(map(str, dims)),
                "tolerance": tolerance,
                "n": n,
                "landmarks": p,
                "kept": kept.kept,
                "time ratio": float(np.median(seconds)),
                "T apart": max(abs(s[index].statistic / s[0].statistic - 1.0) for s in large),
                "power n": small,
                "runs": runs,
                "power": float(found[:, 0].mean()),
                "decisions apart": float((found[:, 0] != found[:, 1]).mean()),
                "median T apart": float(np.median(apart)),
                "largest T apart": float(max(apart)),
            }


@click.command(help=__doc__)
@click.option("--rows", "n", default=50_000)
@click.option("--landmarks", "p", default=2000)
@click.option("--power-rows", "small", default=500)
@click.option("--power-landmarks", "small_p", default=200)
@click.option("--runs", default=300)
@click.option("--processes", default=2)
@click.option("--out", default="benchmarks/results/pruning.csv")
def main(n: int, p: int, small: int, small_p: int, runs: int, processes: int, out: str) -> None:
    write_csv(out, rows(n, p, small, small_p, runs, processes))


if __name__ == "__main__":
    main()
