"""Level and power of NFSIC beside other linear tests, on the problems of Jitkrittum et al. (2017).

From their section 5: independent standard normal columns (`same law`); two columns with a density
proportional to 1 + sin(w x) sin(w y), for x also beside noise columns; and the absolute value of a
normal variable with the product of the signs of d columns (`sign`). Tests have level 5 % and the
Gaussian kernel with the median heuristic, but for `nystrom-m, grid`; NFSIC with optimised
locations starts from it. `error` is the standard error; seconds are medians of whole tests. Writes
benchmarks/results/nfsic_power.csv, whose rows are kept.

    python -m benchmarks run nfsic_power
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import product
from typing import Any

import click
import numpy as np

import dhsic
from benchmarks.shared.cases import Data, Rng, sine
from benchmarks.shared.output import parallel_map, read_csv, write_csv
from dhsic.kernels import Grid

KEYS = ("data", "n", "method", "runs")
RESAMPLES = 199


def same_law(n: int, rng: Rng, d: int) -> Data:
    return [rng.standard_normal((n, d)), rng.standard_normal((n, d))]


def sine_beside(n: int, rng: Rng, frequency: int, d: int) -> Data:
    """The first column of x has the sine with y, the other d - 1 are uniform noise."""
    x, y = sine(n, rng, strength=1.0, frequency=frequency)
    return [np.column_stack([x, rng.uniform(-np.pi, np.pi, (n, d - 1))]), y]


def sign(n: int, rng: Rng, d: int) -> Data:
    """Any d - 1 columns of x are independent of y, all d are not."""
    x, size = rng.standard_normal((n, d)), np.abs(rng.standard_normal(n))
    return [x, size * np.sign(x).prod(axis=1)]


CASES: dict[str, Callable[[int, Rng], Data]] = {
    "same law, d = 10": partial(same_law, d=10),
    **{f"sine, w = {w}": partial(sine_beside, frequency=w, d=1) for w in (1, 2, 4)},
    "sine, w = 1, d = 5": partial(sine_beside, frequency=1, d=5),
    **{f"sign, d = {d}": partial(sign, d=d) for d in (2, 3, 4)},
}
METHODS: dict[str, dict[str, Any]] = {
    "nfsic optimised, chi-square": {"estimator": dhsic.NFSIC(), "null": dhsic.ChiSquare()},
    "nfsic optimised, permutation": {"estimator": dhsic.NFSIC()},
    "nfsic random, chi-square": {
        "estimator": dhsic.NFSIC(placement="random"),
        "null": dhsic.ChiSquare(),
    },
    "nfsic random, permutation": {"estimator": dhsic.NFSIC(placement="random")},
    "nystrom-m, permutation": {"estimator": "nystrom-m", "kernels": "gaussian"},
    "nystrom-m, grid, multiplier": {
        "estimator": "nystrom-m",
        "kernels": Grid.auto(),
        "null": dhsic.Multiplier(RESAMPLES),
    },
    "nystrom-hsic, permutation": {"estimator": "nystrom-hsic", "kernels": "gaussian"},
    "rff-hsic, permutation": {"estimator": "rff-hsic", "kernels": "gaussian"},
    "block-hsic, normal": {"estimator": "block-hsic", "null": dhsic.Normal()},
}


def one_test(setting: tuple[str, str, int, int]) -> tuple[float, float]:
    """The p-value on one data set, and the seconds."""
    method, case, n, seed = setting
    options = {"null": dhsic.Permutation(RESAMPLES, within="all"), **METHODS[method]}
    result = dhsic.independence_test(
        *CASES[case](n, np.random.default_rng([seed, n])), rng=seed, threads=1, **options
    )
    return result.pvalue, result.seconds


def rows(
    runs: int,
    sizes: list[int],
    cases: list[str],
    methods: list[str],
    processes: int,
    done: list[Mapping[str, Any]],
) -> Iterator[Mapping[str, Any]]:
    yield from done
    known = {tuple(str(row[key]) for key in KEYS) for row in done}
    for n, case, method in product(sizes, cases, methods):
        keys = dict(zip(KEYS, (case, n, method, runs), strict=True))
        if tuple(map(str, keys.values())) in known:
            continue
        settings = [(method, case, n, seed) for seed in range(runs)]
        pvalues, seconds = np.array(parallel_map(one_test, settings, processes)).T
        rate = float(np.mean(pvalues <= 0.05 + 1e-9))
        error = math.sqrt(rate * (1.0 - rate) / runs)
        yield {**keys, "rate": rate, "error": error, "seconds": float(np.median(seconds))}


@click.command(help=__doc__)
@click.option("--runs", default=100)
@click.option("--size", "sizes", multiple=True, type=int, default=(1000, 4000))
@click.option("--data", "cases", multiple=True, type=click.Choice(list(CASES)), default=CASES)
@click.option(
    "--method", "methods", multiple=True, type=click.Choice(list(METHODS)), default=METHODS
)
@click.option("--processes", default=1)
@click.option("--out", default="benchmarks/results/nfsic_power.csv")
def main(
    runs: int,
    sizes: tuple[int, ...],
    cases: tuple[str, ...],
    methods: tuple[str, ...],
    processes: int,
    out: str,
) -> None:
    chosen = (list(sizes), list(cases), list(methods))
    write_csv(out, rows(runs, *chosen, processes, read_csv(out)))


if __name__ == "__main__":
    main()
