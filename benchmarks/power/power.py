"""Power at level 5 % against V-HSIC with permutations, on the same data.

Writes benchmarks/results/power.csv.

    python -m benchmarks run power
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import click
import numpy as np

import dhsic
from benchmarks.shared.cases import ALTERNATIVES
from benchmarks.shared.output import parallel_map, write_csv

TESTS: dict[str, dict[str, Any]] = {
    "v-hsic, permutation": {"estimator": "v-hsic", "null": dhsic.Permutation(199)},
    "nystrom-m, permutation": {"null": dhsic.Permutation(199, within="all")},
    "nystrom-m, permutation in blocks": {
        "null": dhsic.Permutation(199, within="groups", group_rows=100)
    },
    "nystrom-m, multiplier": {"null": dhsic.Multiplier(199)},
    "nystrom-m, multiplier, float32": {"null": dhsic.Multiplier(199), "precision": "float32"},
    "nystrom-m, joint landmarks, multiplier": {
        "null": dhsic.Multiplier(199),
        "estimator": dhsic.NystromMHSIC(pairing="joint"),
    },
    "nystrom-m, 2sqrt landmarks, multiplier": {
        "null": dhsic.Multiplier(199),
        "estimator": dhsic.NystromMHSIC(n_landmarks="2sqrt"),
    },
}


def one_pvalue(setting: tuple[str, str, int, int]) -> float:
    """The p-value on one data set."""
    test, case, n, seed = setting
    data = ALTERNATIVES[case](n, np.random.default_rng([seed, n]))
    options = {"kernels": "gaussian", "estimator": "nystrom-m", **TESTS[test]}
    result = dhsic.independence_test(*data, rng=seed, threads=1, **options)
    return result.pvalue


def rows(runs: int, sizes: list[int], processes: int) -> Iterator[dict[str, Any]]:
    for case, n, test in product(ALTERNATIVES, sizes, TESTS):
        settings = [(test, case, n, seed) for seed in range(runs)]
        pvalues = np.array(parallel_map(one_pvalue, settings, processes))
        power = float(np.mean(pvalues <= 0.05 + 1e-9))
        error = float(np.sqrt(power * (1 - power) / runs))
        yield {"data": case, "n": n, "test": test, "runs": runs, "power": power, "error": error}


@click.command(help=__doc__)
@click.option("--runs", default=500)
@click.option("--size", "sizes", multiple=True, type=int, default=(100, 200, 400))
@click.option("--processes", default=2)
@click.option("--out", default="benchmarks/results/power.csv")
def main(runs: int, sizes: tuple[int, ...], processes: int, out: str) -> None:
    write_csv(out, rows(runs, list(sizes), processes))


if __name__ == "__main__":
    main()
