"""Rejection rates on independent data, for every null, with binomial limits.

Writes benchmarks/results/level.csv. A rate is flagged where it lies above the upper limit that a
test of exactly that level exceeds in 1 of 1,000 studies.

    python benchmarks/level.py
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import click
import numpy as np
from scipy.stats import binom

import dhsic
from benchmarks.cases import NULL_CASES
from benchmarks.output import parallel_map, write_csv

ALPHAS = (0.01, 0.05, 0.10)
NULLS: dict[str, dict[str, Any]] = {
    "multiplier": {"null": dhsic.Multiplier(199)},
    "permutation": {"null": dhsic.Permutation(99, within="all")},
    "permutation in blocks": {"null": dhsic.Permutation(99, within="blocks", block_rows=100)},
    "v-hsic permutation": {"null": dhsic.Permutation(99), "estimator": "v-hsic"},
}


def one_pvalue(setting: tuple[str, str, int, int, int]) -> float:
    """The p-value on one independent data set."""
    null, case, n, m, seed = setting
    data = NULL_CASES[case](n, m, np.random.default_rng([seed, n, m]))
    return dhsic.independence_test(*data, rng=seed, threads=1, **NULLS[null]).pvalue


def rows(runs: int, sizes: list[int], nulls: list[str], processes: int) -> Iterator[dict[str, Any]]:
    for null, n, case, m in product(nulls, sizes, NULL_CASES, (2, 3, 4)):
        if null.startswith("v-hsic") and n > 500:
            continue
        settings = [(null, case, n, m, seed) for seed in range(runs)]
        pvalues = np.array(parallel_map(one_pvalue, settings, processes))
        rates = {f"{a:.0%}": float(np.mean(pvalues <= a + 1e-9)) for a in ALPHAS}
        limits = {f"limit {a:.0%}": float(binom.ppf(0.999, runs, a) / runs) for a in ALPHAS}
        above = [f"{a:.0%}" for a in ALPHAS if rates[f"{a:.0%}"] > limits[f"limit {a:.0%}"]]
        yield {
            "null": null,
            "resamples": NULLS[null]["null"].n_resamples,
            "n": n,
            "data": case,
            "variables": m,
            "runs": runs,
            **rates,
            **limits,
            "above": " ".join(above),
        }


@click.command(help=__doc__)
@click.option("--runs", default=2000)
@click.option("--size", "sizes", multiple=True, type=int, default=(200, 1000))
@click.option("--null", "nulls", multiple=True, type=click.Choice(list(NULLS)), default=list(NULLS))
@click.option("--processes", default=2)
@click.option("--out", default="benchmarks/results/level.csv")
def main(
    runs: int, sizes: tuple[int, ...], nulls: tuple[str, ...], processes: int, out: str
) -> None:
    write_csv(out, rows(runs, list(sizes), list(nulls), processes))


if __name__ == "__main__":
    main()
