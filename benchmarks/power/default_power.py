"""Power and processor time of what the default may take for two variables, on the same data sets.

All tests have the grid of kernels and the exact null that are taken without options: all pairs of
rows (`v-hsic`), of which no more than 4,000 are tested, all pairs of the principal features of 256
landmarks (`features`), as many tuples of landmarks as `nystrom-m` takes (`tuples`), and the default
as it is. Where there are more than 200 rows only sqrt(200 n), drawn at random, are dependent, so
that the power stays away from 1. Writes benchmarks/results/default_power.csv, whose rows are kept,
and a picture of it beside.

    python -m benchmarks run default_power
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import click
import numpy as np

import dhsic
from benchmarks.power import exact_power
from benchmarks.shared import curves
from benchmarks.shared.cases import Data, Rng

LARGEST = 4000


def columns(n: int, rng: Rng, strength: float, d: int, shape: str) -> Data:
    """The sum, or a function of the first, of d normal columns, plus normal noise."""
    x, noise = rng.standard_normal((n, d)), rng.standard_normal(n)
    signal = {
        "sum": x.sum(axis=1) / np.sqrt(d),
        "squares": (x**2 - 1.0).sum(axis=1) / np.sqrt(2.0 * d),
        "absolute": np.abs(x[:, 0]),
        "scale": (np.exp(strength * x[:, 0]) - 1.0) * noise / strength,
    }[shape]
    return [x, strength * signal + noise]


def each_of(n: int, rng: Rng, strength: float, d: int) -> Data:
    """Column by column: linear in d of d, plus normal noise."""
    x, noise = rng.standard_normal((2, n, d))
    return [x, strength * x + noise]


def sines(n: int, rng: Rng, strength: float, d: int) -> Data:
    """Column by column: a sine, plus normal noise."""
    x, noise = rng.standard_normal((2, n, d))
    return [x, strength * np.sin(2.0 * x) + noise]


_OF_ONE = (
    *("linear", "quadratic", "sine, w = 1", "sine, w = 2", "sine, w = 4"),
    *("circle", "heteroscedastic", "heavy tails", "rare event"),
)
KINDS: Mapping[str, curves.Draw] = {
    **{kind: exact_power.KINDS[kind] for kind in _OF_ONE},
    "3 + 3 columns, linear": partial(each_of, strength=0.2, d=3),
    "3 + 3 columns, sine": partial(sines, strength=0.5, d=3),
    "1 of 20 columns": exact_power.KINDS["1 of 20 columns"],
    "absolute, 1 of 20": partial(columns, strength=1.2, d=20, shape="absolute"),
    "1 of 90 columns": partial(exact_power.one_of_columns, strength=0.55, d=90),
    "sum of 90 columns": partial(columns, strength=0.55, d=90, shape="sum"),
    "squares of 90 columns": partial(columns, strength=0.5, d=90, shape="squares"),
    "absolute, 1 of 90": partial(columns, strength=2.5, d=90, shape="absolute"),
    "scale by 1 of 90": partial(columns, strength=0.7, d=90, shape="scale"),
    "50 + 50 columns": partial(each_of, strength=0.2, d=50),
}
METHODS: Mapping[str, Any] = {
    "v-hsic": "v-hsic",
    "features": dhsic.NystromHSIC(256, n_features="auto"),
    "tuples": "nystrom-m",
    "default": "auto",
}


def study(kinds: tuple[str, ...], methods: tuple[str, ...]) -> curves.Study:
    tests = {
        name: partial(curves.dhsic_pvalue, estimator=METHODS[name], kernels=dhsic.Grid())
        for name in methods
    }
    data = {kind: exact_power.Weakened(KINDS[kind]) for kind in kinds}
    return curves.Study(data, tests, largest={"v-hsic": LARGEST})


@click.command(help=__doc__)
@click.option("--data", "kinds", multiple=True, type=click.Choice(list(KINDS)), default=KINDS)
@click.option(
    "--method", "methods", multiple=True, type=click.Choice(list(METHODS)), default=METHODS
)
@click.option("--n", "sizes", multiple=True, type=int, default=(500, 1000, 4000, 10_000))
@click.option("--runs", type=click.IntRange(1), default=100)
@click.option("--processes", default=1)
@click.option("--out", default="benchmarks/results/default_power.csv")
def main(
    kinds: tuple[str, ...],
    methods: tuple[str, ...],
    sizes: tuple[int, ...],
    runs: int,
    processes: int,
    out: str,
) -> None:
    curves.run(study(kinds, methods), sizes, runs, processes, out, rows_scale="log")


if __name__ == "__main__":
    main()
