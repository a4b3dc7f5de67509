"""Time and p-values beside other packages, on the same data with as many resamples.

hyppo's Hsic and dcor's distance covariance test hold n x n matrices and permute. Writes
benchmarks/results/peers.csv. Needs the extra `peers`.

    python benchmarks/peers.py
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

import dhsic
from benchmarks.output import write_csv
from dhsic.io.synthetic import synthetic

Array = NDArray[Any]


def hyppo_hsic(x: Array, y: Array, resamples: int) -> float:
    from hyppo.independence import Hsic

    with warnings.catch_warnings(action="ignore"):  # it warns of fewer than 1,000 resamples
        return float(Hsic().test(x, y, reps=resamples, workers=1, auto=False)[1])


def dcor_dcov(x: Array, y: Array, resamples: int) -> float:
    import dcor

    test = dcor.independence.distance_covariance_test
    return float(test(x, y, num_resamples=resamples, random_state=0).pvalue)


def ours(**options: Any) -> Callable[[Array, Array, int], float]:
    def run(x: Array, y: Array, resamples: int) -> float:
        result = dhsic.independence_test(x, y, n_resamples=resamples, rng=0, **options)
        return result.pvalue

    return run


METHODS: dict[str, Callable[[Array, Array, int], float]] = {
    "dhsic nystrom-m, multiplier": ours(kernels="gaussian", null="multiplier"),
    "dhsic nystrom-m, permutation": ours(kernels="gaussian", null="permutation"),
    "dhsic v-hsic, permutation": ours(
        kernels="gaussian", estimator="v-hsic", null="permutation", memory="8GiB"
    ),
    "dhsic dcov, permutation": ours(estimator="dcov", null="permutation", memory="8GiB"),
    "hyppo Hsic": hyppo_hsic,
    "dcor dcov": dcor_dcov,
}


def rows(
    sizes: list[int], features: int, resamples: int, repeats: int, dependence: float
) -> Iterator[dict[str, Any]]:
    for n in sizes:
        x, year = synthetic(n, features=features, dependence=dependence, seed=1)
        x, y = x.astype(np.float64), year.astype(np.float64)
        seconds: dict[str, float] = {}
        for method, run in METHODS.items():
            if n == sizes[0]:
                run(x[:100], y[:100], 10)
            times = []
            for _ in range(repeats):
                began = time.perf_counter()
                p = run(x, y, resamples)
                times.append(time.perf_counter() - began)
            seconds[method] = float(np.median(times))
            yield {
                "n": n,
                "features": features,
                "resamples": resamples,
                "method": method,
                "seconds": seconds[method],
                "over nystrom-m multiplier": seconds[method] / next(iter(seconds.values())),
                "p-value": p,
            }


@click.command(help=__doc__)
@click.option("--size", "sizes", multiple=True, type=int, default=(2000, 5000))
@click.option("--features", default=90)
@click.option("--resamples", default=250)
@click.option("--repeats", default=1)
@click.option("--dependence", default=0.3)
@click.option("--out", default="benchmarks/results/peers.csv")
def main(
    sizes: tuple[int, ...],
    features: int,
    resamples: int,
    repeats: int,
    dependence: float,
    out: str,
) -> None:
    write_csv(out, rows(list(sizes), features, resamples, repeats, dependence))


if __name__ == "__main__":
    main()
