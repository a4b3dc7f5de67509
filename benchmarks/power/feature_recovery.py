"""How many of ten relevant columns each criterion finds among 200.

The target is a sum of four linear effects, three quadratic ones and one product of two columns,
with one effect on its spread, and noise; columns are normal and correlated in tens. `precision` is
the share of the first ten that are relevant, the mean over data sets, with its standard error.
`pyHSICLasso` (group `peers`) is left out where it is not installed. Writes
benchmarks/results/feature_recovery.csv.

    python -m benchmarks run feature_recovery
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

import dhsic
from benchmarks.shared.output import write_csv

Array = NDArray[np.float64]
Found = Sequence[int]

RELEVANT = 10


def draw(n: int, d: int, seed: int) -> tuple[Array, Array]:
    """Columns and target; the first ten columns matter."""
    rng = np.random.default_rng(seed)
    shared = np.repeat(rng.standard_normal((n, -(-d // 10))), 10, axis=1)[:, rng.permutation(d)]
    x = np.sqrt(0.2) * shared + np.sqrt(0.8) * rng.standard_normal((n, d))
    linear = 0.6 * x[:, :4].sum(axis=1)
    quadratic = 0.5 * (x[:, 4:7] ** 2 - 1.0).sum(axis=1)
    product = 1.2 * x[:, 7] * x[:, 8]
    noise = np.exp(0.5 * x[:, 9]) * rng.standard_normal(n)
    return x, linear + quadratic + product + noise


def ranked(by: str) -> Callable[[Array, Array], Found]:
    def find(x: Array, y: Array) -> Found:
        ranking = dhsic.rank_features(x, y, by=by, null="multiplier", rng=0)  # type: ignore[arg-type]
        return [feature.columns[0] for feature in ranking.ranked()[:RELEVANT]]

    return find


def selected(**options: Any) -> Callable[[Array, Array], Found]:
    def find(x: Array, y: Array) -> Found:
        found = dhsic.select_features(x, y, RELEVANT, rng=0, **options)
        return [columns[0] for columns in found.columns]

    return find


def peer(x: Array, y: Array) -> Found:
    from pyHSICLasso import HSICLasso

    with contextlib.redirect_stdout(io.StringIO()):
        lasso = HSICLasso()
        lasso.input(x, y, featname=[str(j) for j in range(x.shape[1])])
        lasso.regression(RELEVANT, B=20, M=3)
    return [int(name) for name in lasso.get_features()[:RELEVANT]]


METHODS: dict[str, Callable[[Array, Array], Found]] = {
    "rank by p-value": ranked("pvalue"),
    "rank by cka": ranked("cka"),
    "rank by hsic": ranked("hsic"),
    "linear": selected(method="linear"),
    "forward, cka": selected(method="forward", estimator=dhsic.NystromMHSIC("2sqrt")),
    "forward, hsic": selected(
        method="forward", criterion="hsic", estimator=dhsic.NystromMHSIC("2sqrt")
    ),
    "backward, cka": selected(
        method="backward", share=0.2, estimator=dhsic.NystromMHSIC("2sqrt"), precision="float32"
    ),
    "block HSIC Lasso": selected(method="lasso"),
    "pyHSICLasso": peer,
}


def rows(
    n: int, d: int, most_runs: int, greedy_runs: int, methods: Sequence[str]
) -> Iterator[dict[str, Any]]:
    for name in methods or METHODS:
        if name == "pyHSICLasso" and importlib.util.find_spec("pyHSICLasso") is None:
            continue
        runs = greedy_runs if name.startswith(("forward", "backward")) else most_runs
        data = [draw(n, d, seed) for seed in range(runs)]
        began = time.perf_counter()
        hits = [len(set(METHODS[name](x, y)) & set(range(RELEVANT))) / RELEVANT for x, y in data]
        yield {
            "method": name,
            "n": n,
            "columns": d,
            "runs": runs,
            "precision": float(np.mean(hits)),
            "standard error": float(np.std(hits) / np.sqrt(runs)),
            "seconds": (time.perf_counter() - began) / runs,
        }


@click.command(help=__doc__)
@click.option("--rows", "n", default=2000)
@click.option("--columns", "d", default=200)
@click.option("--runs", default=10)
@click.option("--greedy-runs", default=3, help="Data sets for the methods that take a minute.")
@click.option("--method", "methods", multiple=True, type=click.Choice(list(METHODS)))
@click.option("--out", default="benchmarks/results/feature_recovery.csv")
def main(n: int, d: int, runs: int, greedy_runs: int, methods: tuple[str, ...], out: str) -> None:
    write_csv(out, rows(n, d, runs, greedy_runs, methods))


if __name__ == "__main__":
    main()
