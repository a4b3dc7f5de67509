"""The far tail of the gamma and the spectral null beside that of very many permutations.

For independent data: the value that a share alpha of the permutations of the same data exceeds,
and the probability that the fitted null gives it, over alpha: 1 is right, less claims too much
evidence, more too little. Geometric means over data sets. Writes benchmarks/results/tails.csv.

    python -m benchmarks run tails
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
import numpy as np

import dhsic
from benchmarks.shared.cases import NULL_CASES
from benchmarks.shared.output import parallel_map, write_csv
from dhsic._arguments import choose_measure, open_session
from dhsic.estimators.registry import TABLE

ALPHAS = (0.05, 0.01, 0.001)
FITTED = (dhsic.Gamma, dhsic.Spectral)
SETTINGS = [
    (entry.estimator, m)
    for entry in TABLE
    if set(FITTED) & set(entry.nulls)
    for m in (2, 3)
    if m <= (entry.most_variables or m)
]


def one_ratio(setting: tuple[Any, int, str, int, int, int]) -> dict[str, list[float]]:
    """Probabilities over alpha on one data set, by null."""
    estimator, m, case, n, permutations, seed = setting
    data = NULL_CASES[case](n, m, np.random.default_rng([seed, n, m]))
    session = open_session(data, None, seed, "float64", None, 1, "16GiB", None)
    chosen, _, kernels = choose_measure(session, None, estimator())

    def law(null: Any) -> Any:
        return chosen.test(session, kernels, null).distribution

    values = law(dhsic.Permutation(permutations, within="all")).values
    entry = next(entry for entry in TABLE if entry.estimator is estimator)
    return {
        null.name: [law(null()).sf(np.quantile(values, 1 - a)) / a for a in ALPHAS]
        for null in FITTED
        if null in entry.nulls
    }


def rows(
    n: int, permutations: int, runs: int, cases: list[str], processes: int
) -> Iterator[dict[str, Any]]:
    for estimator, m in SETTINGS:
        for case in cases:
            work = [(estimator, m, case, n, permutations, seed) for seed in range(runs)]
            found = parallel_map(one_ratio, work, processes)
            for null in found[0]:
                ratios = np.exp(np.mean(np.log([ratio[null] for ratio in found]), axis=0))
                yield {
                    "estimator": estimator.name,
                    "variables": m,
                    "data": case,
                    "null": null,
                    "n": n,
                    "permutations": permutations,
                    "runs": runs,
                    **{f"at {a:g}": float(r) for a, r in zip(ALPHAS, ratios, strict=True)},
                }


@click.command(help=__doc__)
@click.option("--rows", "n", default=200)
@click.option("--permutations", default=20_000)
@click.option("--runs", default=5)
@click.option("--data", "cases", multiple=True, default=("gaussian", "mixed dimensions"))
@click.option("--processes", default=2)
@click.option("--out", default="benchmarks/results/tails.csv")
def main(
    n: int, permutations: int, runs: int, cases: tuple[str, ...], processes: int, out: str
) -> None:
    write_csv(out, rows(n, permutations, runs, list(cases), processes))


if __name__ == "__main__":
    main()
