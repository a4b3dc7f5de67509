"""Rejection rates on independent data, for every estimator and null that stand together.

Writes benchmarks/results/level.csv. A rate is flagged where it lies above the upper limit that a
test of exactly that level exceeds in 1 of 1,000 studies. Rows that the file holds already are
kept, so that a study which was interrupted goes on where it stopped.

    python -m benchmarks run level
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import product
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

import dhsic
from benchmarks.shared.cases import NULL_CASES, one_kernel
from benchmarks.shared.output import parallel_map, read_csv, write_csv
from dhsic.estimators.registry import TABLE

ALPHAS = (0.01, 0.05, 0.10)
OPTIONS: dict[str, list[Any]] = {
    "gamma": [dhsic.Gamma()],
    "spectral": [dhsic.Spectral()],
    "normal": [dhsic.Normal(variance=v) for v in ("direct", "permutation", "empirical")],
    "chi-square": [dhsic.ChiSquare()],
    "multiplier": [dhsic.Multiplier(99)],
    "permutation": [dhsic.Permutation(99, within="all")],
    "sequential": [dhsic.Sequential(10, 99)],
    "shifts": [dhsic.Shifts()],
    "chain": [dhsic.Chain()],
}
PAIRS: list[tuple[Any, Any, int | None]] = [
    (entry.estimator(), null, entry.most_variables)
    for name, nulls in OPTIONS.items()
    for null in nulls
    for entry in TABLE
    if name in {cls.name for cls in entry.nulls}
]
VARIANTS: list[tuple[Any, Any, int | None]] = [
    (dhsic.NystromMHSIC(), dhsic.Permutation(99, within="groups", group_rows=100), None),
    (dhsic.VHSIC(), dhsic.Permutation(99, within="groups", group_rows=100), None),
    (dhsic.RFFHSIC(orthogonal=True), dhsic.Spectral(), None),
    (dhsic.RFFHSIC(form="complex"), dhsic.Permutation(99, within="all"), 2),
    (dhsic.DCov(unbiased=True), dhsic.Spectral(), 2),
]
LARGEST_VARIANT = 1000
KEYS = ("estimator", "null", "n", "data", "variables", "runs")


def label(value: Any) -> str:
    """The name of an estimator or a null, with the options that are not at their defaults."""
    options = [
        f"{field.name}={getattr(value, field.name)}"
        for field in fields(value)
        if getattr(value, field.name) != field.default
    ]
    return " ".join([value.name, *options])


def one_pvalue(setting: tuple[Any, Any, str, int, int, int]) -> float:
    """The p-value on one independent data set."""
    estimator, null, case, n, m, seed = setting
    data = NULL_CASES[case](n, m, np.random.default_rng([seed, n, m]))
    return dhsic.independence_test(
        *data,
        kernels=one_kernel(estimator),
        estimator=estimator,
        null=null,
        rng=seed,
        threads=1,
    ).pvalue


def rejection_rates(
    pvalues: NDArray[np.float64], alphas: Sequence[float] = ALPHAS
) -> dict[str, Any]:
    """Share of the p-values at most alpha, its upper limit, and where it lies above."""
    runs = len(pvalues)
    shown = {f"{100 * alpha:g}%": alpha for alpha in alphas}
    rates = {name: float(np.mean(pvalues <= a + 1e-9)) for name, a in shown.items()}
    limits = {f"limit {name}": float(binom.ppf(0.999, runs, a) / runs) for name, a in shown.items()}
    above = [name for name in shown if rates[name] > limits[f"limit {name}"]]
    return {**rates, **limits, "above": " ".join(above)}


def rows(
    runs: int,
    settings: list[tuple[int, str]],
    numbers: list[int],
    estimators: list[str],
    nulls: list[str],
    processes: int,
    done: list[Mapping[str, Any]],
) -> Iterator[Mapping[str, Any]]:
    yield from done
    known = {tuple(str(row[key]) for key in KEYS) for row in done}
    for (n, case), (estimator, null, most), m in product(settings, PAIRS + VARIANTS, numbers):
        if estimator.name not in estimators or null.name not in nulls or m > (most or m):
            continue
        if n > LARGEST_VARIANT and (estimator, null, most) in VARIANTS:
            continue
        keys = dict(zip(KEYS, (label(estimator), label(null), n, case, m, runs), strict=True))
        if tuple(map(str, keys.values())) in known:
            continue
        work = [(estimator, null, case, n, m, seed) for seed in range(runs)]
        pvalues = np.array(parallel_map(one_pvalue, work, processes))
        yield {**keys, **rejection_rates(pvalues)}


@click.command(help=__doc__)
@click.option("--runs", default=1000)
@click.option(
    "--setting",
    "settings",
    multiple=True,
    type=(int, click.Choice(list(NULL_CASES))),
    default=[*product((200,), NULL_CASES), (2000, "gaussian"), (2000, "heavy tails")],
    help="Rows and data.",
)
@click.option("--variables", "numbers", multiple=True, type=int, default=(2, 3))
@click.option("--estimator", "estimators", multiple=True, help="All where not given.")
@click.option("--null", "nulls", multiple=True, help="All where not given.")
@click.option("--processes", default=2)
@click.option("--out", default="benchmarks/results/level.csv")
def main(
    runs: int,
    settings: tuple[tuple[int, str], ...],
    numbers: tuple[int, ...],
    estimators: tuple[str, ...],
    nulls: tuple[str, ...],
    processes: int,
    out: str,
) -> None:
    names = list(estimators) or [entry.estimator.name for entry in TABLE]
    ways = list(nulls) or list(OPTIONS)
    done = read_csv(out)
    write_csv(out, rows(runs, list(settings), list(numbers), names, ways, processes, done))


if __name__ == "__main__":
    main()
