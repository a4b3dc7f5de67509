"""Bias and noise of estimates of HSIC, beside the unbiased estimate from all pairs of rows.

All methods have one Gaussian kernel of either variable, of the same bandwidth, on the same data
sets. `ratio` is the mean estimate over that of `u-hsic`, with its standard `error`; `noise` is the
standard deviation of their difference and `deviation` that of `u-hsic`, both over its mean.
`seconds` are of the processor. Writes benchmarks/results/estimates.csv, whose rows are kept.

    python -m benchmarks run estimates
    python -m benchmarks run estimates --n 20000 --data "50 + 50 columns" --method test
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import dhsic
from benchmarks.power.default_power import KINDS
from benchmarks.shared.cases import Data
from benchmarks.shared.machine import processor
from benchmarks.shared.output import keys_of, read_csv, write_csv

Method = Callable[[Data, int], float]

OPTIONS: Mapping[str, Any] = {"kernels": "gaussian", "threads": 1}
DATA = (
    *("linear", "circle", "heavy tails", "3 + 3 columns, sine", "1 of 20 columns"),
    *("1 of 90 columns", "sum of 90 columns", "squares of 90 columns", "50 + 50 columns"),
)
KEYS = ("data", "n", "method", "runs")


def tested(data: Data, seed: int) -> float:
    """The estimate that a test reports."""
    return dhsic.independence_test(*data, rng=seed, **OPTIONS).estimate


def estimated(estimator: Any) -> Method:
    """That of an estimator by itself."""

    def estimate(data: Data, seed: int) -> float:
        return dhsic.hsic(*data, estimator=estimator, rng=seed, **OPTIONS).estimate

    return estimate


METHODS: Mapping[str, Method] = {
    "u-hsic": estimated("u-hsic"),
    "test": tested,
    "hsic": estimated("auto"),
    "256 landmarks, unbiased": estimated(dhsic.NystromHSIC(256, unbiased_estimate=True)),
    "64 landmarks, unbiased": estimated(dhsic.NystromHSIC(64, unbiased_estimate=True)),
    "256 landmarks": estimated(dhsic.NystromHSIC(256)),
    "tuples of landmarks": estimated("nystrom-m"),
    "v-hsic": estimated("v-hsic"),
}


def estimates(name: str, draws: Sequence[Data]) -> tuple[NDArray[Any], float]:
    """Those of a method for all data sets, and its processor seconds."""
    began = time.process_time()
    values = [METHODS[name](data, seed) for seed, data in enumerate(draws)]
    return np.array(values), time.process_time() - began


def row(
    kind: str, n: int, name: str, values: NDArray[Any], seconds: float, exact: NDArray[Any]
) -> dict[str, Any]:
    """How far the estimates of a method lie from those of all pairs of rows."""
    mean, runs = float(exact.mean()), len(exact)
    difference = float(np.std(values - exact, ddof=1)) / mean
    return {
        **dict(zip(KEYS, (kind, n, name, runs), strict=True)),
        "u-hsic mean": mean,
        "ratio": float(values.mean()) / mean,
        "error": difference / math.sqrt(runs),
        "noise": difference,
        "deviation": float(np.std(exact, ddof=1)) / mean,
        "seconds": seconds / runs,
        "processor": processor(),
        "version": dhsic.__version__,
    }


def rows(
    kinds: Sequence[str],
    sizes: Sequence[int],
    names: Sequence[str],
    runs: int,
    done: Sequence[Mapping[str, Any]],
) -> Iterator[Mapping[str, Any]]:
    yield from done
    known = {keys_of(one, KEYS) for one in done}
    for n in sizes:
        for kind in kinds:
            wanted = [one for one in names if tuple(map(str, (kind, n, one, runs))) not in known]
            if not wanted:
                continue
            draws = [KINDS[kind](n, np.random.default_rng(seed)) for seed in range(runs)]
            exact, _ = estimates("u-hsic", draws)
            for name in wanted:
                yield row(kind, n, name, *estimates(name, draws), exact)


@click.command(help=__doc__)
@click.option("--data", "kinds", multiple=True, type=click.Choice(list(KINDS)), default=DATA)
@click.option("--n", "sizes", multiple=True, type=click.IntRange(10), default=(500, 4000, 16_000))
@click.option("--method", "names", multiple=True, type=click.Choice(list(METHODS)), default=METHODS)
@click.option("--runs", type=click.IntRange(2), default=20)
@click.option("--out", default="benchmarks/results/estimates.csv")
def main(
    kinds: tuple[str, ...], sizes: tuple[int, ...], names: tuple[str, ...], runs: int, out: str
) -> None:
    with threadpool_limits(1, "blas"):
        write_csv(out, rows(kinds, sizes, names, runs, read_csv(out)))


if __name__ == "__main__":
    main()
