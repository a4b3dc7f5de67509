"""Power and time of `n_landmarks="auto"` beside fixed numbers of landmarks.

Tests at level 5 % with 199 random signs on the scenarios of `grid_power`, of one Gaussian kernel a
variable or of `Grid.auto()`. Of more than 1,000 rows a share of sqrt(1,000 / n) alone is dependent,
so that the power stays away from 1. All numbers of landmarks see the same data: `beside 8sqrt`, the
difference of the powers, has the smaller standard error of paired decisions. Landmarks and seconds,
those of whole tests, are medians. Writes benchmarks/results/auto_landmarks.csv; rows that the file
holds already are kept.

    python -m benchmarks run auto_landmarks
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

import click
import numpy as np

import dhsic
from benchmarks.shared.cases import SCENARIOS, Data, Rng
from benchmarks.shared.output import parallel_map, read_csv, write_csv
from dhsic.kernels import Grid

NUMBERS = ("auto", "2sqrt", "8sqrt")
KERNELS: dict[str, Any] = {"gaussian": "gaussian", "grid": Grid.auto()}
KEYS = ("data", "n", "kernels", "runs", "landmarks")
RESAMPLES = 199
DEPENDENT_ROWS = 1000


def weakened(case: str, n: int, rng: Rng) -> Data:
    """A scenario in which all rows after the first sqrt(1,000 n) have lost their partners."""
    data = SCENARIOS[case](n, rng)
    alone = np.arange(min(n, round(math.sqrt(DEPENDENT_ROWS * n))), n)
    for x in data[1:]:
        x[alone] = x[rng.permutation(alone)]
    return data


def one_test(setting: tuple[str, int, str, int]) -> list[tuple[bool, int, float]]:
    """Whether the dependence was found, the landmarks and the seconds, for all numbers."""
    case, n, kernels, seed = setting
    data = weakened(case, n, np.random.default_rng([seed, n]))
    found = []
    for number in NUMBERS:
        result = dhsic.independence_test(
            *data,
            kernels=KERNELS[kernels],
            estimator=dhsic.NystromMHSIC(n_landmarks=number),
            null=dhsic.Multiplier(RESAMPLES),
            rng=seed,
            threads=1,
        )
        assert result.landmarks is not None
        found.append((result.pvalue <= 0.05 + 1e-9, result.landmarks.drawn, result.seconds))
    return found


def rows(
    runs: int,
    sizes: list[int],
    kernels: list[str],
    cases: list[str],
    processes: int,
    done: list[Mapping[str, Any]],
) -> Iterator[Mapping[str, Any]]:
    yield from done
    known = {tuple(str(row[key]) for key in KEYS[:-1]) for row in done}
    for n, kernel, case in product(sizes, kernels, cases):
        if (case, str(n), kernel, str(runs)) in known:
            continue
        settings = [(case, n, kernel, seed) for seed in range(runs)]
        found = np.array(parallel_map(one_test, settings, processes), np.float64)
        decisions, drawn, seconds = np.moveaxis(found, 2, 0)
        for j, number in enumerate(NUMBERS):
            beside = decisions[:, j] - decisions[:, NUMBERS.index("8sqrt")]
            yield {
                **dict(zip(KEYS, (case, n, kernel, runs, number), strict=True)),
                "drawn": float(np.median(drawn[:, j])),
                "power": float(decisions[:, j].mean()),
                "error": float(decisions[:, j].std() / np.sqrt(runs)),
                "beside 8sqrt": float(beside.mean()),
                "its error": float(beside.std() / np.sqrt(runs)),
                "seconds": float(np.median(seconds[:, j])),
            }


@click.command(help=__doc__)
@click.option("--runs", default=200)
@click.option("--size", "sizes", multiple=True, type=int, default=(1000, 5000))
@click.option("--kernels", multiple=True, type=click.Choice(list(KERNELS)), default=KERNELS)
@click.option(
    "--data", "cases", multiple=True, type=click.Choice(list(SCENARIOS)), default=SCENARIOS
)
@click.option("--processes", default=1)
@click.option("--out", default="benchmarks/results/auto_landmarks.csv")
def main(
    runs: int,
    sizes: tuple[int, ...],
    kernels: tuple[str, ...],
    cases: tuple[str, ...],
    processes: int,
    out: str,
) -> None:
    settings = (list(sizes), list(kernels), list(cases))
    write_csv(out, rows(runs, *settings, processes, read_csv(out)))


if __name__ == "__main__":
    main()
