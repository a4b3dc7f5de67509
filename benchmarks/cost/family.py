"""Time of the estimators: a row where they are linear, a pair of rows where they are quadratic.

Linear-time estimators are timed at growing n, so that seconds a row should stay flat; landmarks
and features at 100,000 rows with the spectral null and with permutations of the same features;
quadratic ones at growing n, so that seconds a pair of rows should. Arrays are in memory, float32.
Writes benchmarks/results/family.csv.

    python -m benchmarks run family
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import click
import numpy as np

import dhsic
from benchmarks.shared.cases import one_kernel
from benchmarks.shared.output import write_csv
from dhsic.io.synthetic import synthetic

LINEAR: dict[str, tuple[Any, Any]] = {
    "nystrom-m, multiplier": (dhsic.NystromMHSIC(n_landmarks=500), dhsic.Multiplier(250)),
    "nystrom-m, spectral": (dhsic.NystromMHSIC(n_landmarks=500), dhsic.Spectral()),
    "nystrom-hsic, spectral": (dhsic.NystromHSIC(n_landmarks=100), dhsic.Spectral()),
    "rff-hsic, spectral": (dhsic.RFFHSIC(n_features=100), dhsic.Spectral()),
    "sub-corr, spectral": (dhsic.SubCorr(), dhsic.Spectral()),
    "block-hsic, normal": (dhsic.BlockHSIC(block_rows=100), dhsic.Normal()),
}
OWN_PERMUTATIONS: dict[str, Any] = {
    "nystrom-hsic": dhsic.NystromHSIC(n_landmarks=100),
    "rff-hsic": dhsic.RFFHSIC(n_features=100),
    "nystrom-m": dhsic.NystromMHSIC(n_landmarks=500),
}
QUADRATIC: dict[str, tuple[Any, Any]] = {
    "v-hsic, gamma": (dhsic.VHSIC(), dhsic.Gamma()),
    "v-hsic, multiplier": (dhsic.VHSIC(), dhsic.Multiplier(250)),
    "u-hsic, multiplier": (dhsic.UHSIC(), dhsic.Multiplier(250)),
    "dcov, gamma": (dhsic.DCov(), dhsic.Gamma()),
}


def seconds(data: Any, estimator: Any, null: Any, repeats: int) -> float:
    """Median time of a whole test."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        dhsic.independence_test(
            *data,
            kernels=one_kernel(estimator),
            estimator=estimator,
            null=null,
            rng=0,
            precision="float32",
            memory="16GiB",
        )
        times.append(time.perf_counter() - began)
    return float(np.median(times))


def rows(
    linear: list[int], own: int, quadratic: list[int], features: int, resamples: int, repeats: int
) -> Iterator[dict[str, Any]]:
    sizes = {n: synthetic(n, features=features, dependence=0.1, seed=1) for n in linear}
    for name, (estimator, null) in LINEAR.items():
        seconds([x[:2000] for x in sizes[linear[0]]], estimator, null, 1)
        for n, data in sizes.items():
            t = seconds(data, estimator, null, repeats)
            yield _row(name, n, features, t, "us a row", 1e6 * t / n)
    data = synthetic(own, features=features, dependence=0.1, seed=1)
    for name, estimator in OWN_PERMUTATIONS.items():
        spectral = seconds(data, estimator, dhsic.Spectral(), repeats)
        yield _row(f"{name}, spectral", own, features, spectral, "of permutations", 1.0)
        within = dhsic.Permutation(resamples, within="all")
        permuted = seconds(data, estimator, within, 1)
        ratio = permuted / spectral
        yield _row(f"{name}, {resamples} permutations", own, features, permuted, "times", ratio)
    for name, (estimator, null) in QUADRATIC.items():
        for n in quadratic:
            t = seconds(synthetic(n, features=features, dependence=0.1, seed=1), estimator, null, 1)
            yield _row(name, n, features, t, "ns a pair", 1e9 * t / (n * (n + 1) / 2))


def _row(name: str, n: int, features: int, t: float, unit: str, value: float) -> dict[str, Any]:
    return {"test": name, "n": n, "features": features, "seconds": t, "unit": unit, "value": value}


@click.command(help=__doc__)
@click.option("--linear", multiple=True, type=int, default=(100_000, 500_000, 2_000_000))
@click.option("--own", default=100_000, help="Rows for spectral nulls beside permutations.")
@click.option("--quadratic", multiple=True, type=int, default=(5000, 20_000, 100_000))
@click.option("--features", default=10)
@click.option("--resamples", default=250)
@click.option("--repeats", default=3)
@click.option("--out", default="benchmarks/results/family.csv")
def main(
    linear: tuple[int, ...],
    own: int,
    quadratic: tuple[int, ...],
    features: int,
    resamples: int,
    repeats: int,
    out: str,
) -> None:
    write_csv(out, rows(list(linear), own, list(quadratic), features, resamples, repeats))


if __name__ == "__main__":
    main()
