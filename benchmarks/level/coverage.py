"""How often intervals of measures hold the measure of the population, by kind of dependence.

Kernels are Gaussian ones that are fixed before the data are seen, as intervals are for given
kernels; distance correlation has its own. The measures of the population are means of unbiased ones
over large samples, by all pairs of their rows; those of ratios are ratios of the means. The signal
of 20 + 1 columns is in the first one, and 10 + 10 columns depend in pairs. A standard error of 95 %
of 1,000 data sets is 0.7 points, and measures of the population are wrong by up to a tenth of the
standard error of 2,000 rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import dhsic
from benchmarks.study import Cell, Row, Study
from dhsic.kernels import Distance, Gaussian

Matrix = NDArray[np.float64]
Rng = np.random.Generator

LEVELS = (0.95, 0.90)
METHODS = {"squared HSIC": "auto", "CKA": "cka", "distance correlation": "dcor"}
"""Measures and their estimators."""
ROWS, SAMPLES = 1000, 600
"""Rows of a sample, and samples, that the measures of the population are of."""


def linear(x: Matrix, e: Matrix, rng: Rng) -> Matrix:
    del rng
    return 0.7 * x + 0.7 * e


def quadratic(x: Matrix, e: Matrix, rng: Rng) -> Matrix:
    del rng
    return x**2 + e


def sine(x: Matrix, e: Matrix, rng: Rng) -> Matrix:
    del rng
    return np.sin(3.0 * x) + 0.5 * e


def circle(x: Matrix, e: Matrix, rng: Rng) -> Matrix:
    sides = rng.choice([-1.0, 1.0], x.shape)
    return sides * np.sqrt(np.maximum(2.0 - x**2, 0.0)) + 0.3 * e


def multiplicative(x: Matrix, e: Matrix, rng: Rng) -> Matrix:
    del rng
    return x * e


def heavy_tails(x: Matrix, e: Matrix, rng: Rng) -> Matrix:
    return 0.5 * x + e / np.sqrt(rng.chisquare(3, e.shape) / 3.0)


def sign_product(x: Matrix, e: Matrix, rng: Rng) -> Matrix:
    other = x if x.shape[1] == 1 else np.roll(x, 1, axis=1)
    kept = np.where(rng.random(e.shape) < 0.9, 1.0, -1.0)
    return kept * np.abs(e) * np.sign(x) * (np.sign(other) if other is not x else 1.0)


def step(x: Matrix, e: Matrix, rng: Rng) -> Matrix:
    del rng
    return (x > 0.5) + 0.5 * e


def exponential(x: Matrix, e: Matrix, rng: Rng) -> Matrix:
    del rng
    return np.exp(x) + e


def weak(x: Matrix, e: Matrix, rng: Rng) -> Matrix:
    del rng
    return 0.15 * x + e


def independent(x: Matrix, e: Matrix, rng: Rng) -> Matrix:
    del x, rng
    return e


def clusters(x: Matrix, e: Matrix, rng: Rng) -> Matrix:
    del rng
    return 1.5 * np.sign(x) + e


def categories(x: Matrix, e: Matrix, rng: Rng) -> Matrix:
    del e
    return np.where(rng.random(x.shape) < 0.4, x, rng.integers(0, 4, x.shape))


DRAWN: Mapping[str, Callable[[Matrix, Matrix, Rng], Matrix]] = {
    "linear": linear,
    "quadratic": quadratic,
    "sine": sine,
    "circle": circle,
    "multiplicative noise": multiplicative,
    "heavy tails": heavy_tails,
    "sign product": sign_product,
    "step": step,
    "exponential": exponential,
    "two clusters": clusters,
    "weak linear": weak,
    "categories": categories,
    "independent": independent,
}


class Kind(NamedTuple):
    """A kind of dependence between so many columns."""

    name: str
    dims: tuple[int, int]

    def __str__(self) -> str:
        return f"{self.name}, {self.dims[0]} + {self.dims[1]}"

    @property
    def kernels(self) -> tuple[Gaussian, Gaussian]:
        """Of a length of about the distance between two rows."""
        first, second = (Gaussian(gamma=0.5 / d) for d in self.dims)
        return first, second

    def draw(self, n: int, rng: Rng) -> tuple[Matrix, Matrix]:
        """Two variables of n rows."""
        d, q = self.dims
        x, e = rng.standard_normal((n, d)), rng.standard_normal((n, q))
        if self.name == "heavy tails":
            x /= np.sqrt(rng.chisquare(3, x.shape) / 3.0)
        if self.name == "two clusters":
            x += 1.5 * rng.choice([-1.0, 1.0], x.shape)
        if self.name == "categories":
            x = rng.integers(0, 4, x.shape).astype(float)
        return x, DRAWN[self.name](x, e, rng)[:, :q] if d == q else self._of_first(x, e, rng)

    def _of_first(self, x: Matrix, e: Matrix, rng: Rng) -> Matrix:
        own = x[:, :2] if self.name == "sign product" else x[:, :1]
        return DRAWN[self.name](own, np.repeat(e, own.shape[1], axis=1), rng)[:, :1]


def centred(gram: Matrix) -> Matrix:
    """U-centred, so that products have the expectation of squared HSIC (Szekely and Rizzo 2014)."""
    n = len(gram)
    np.fill_diagonal(gram, 0.0)
    rows = gram.sum(axis=1)
    gram -= (rows[:, None] + rows) / (n - 2) - rows.sum() / ((n - 1) * (n - 2))
    np.fill_diagonal(gram, 0.0)
    return gram


@cache
def truths(kind: Kind) -> Mapping[str, float]:
    """The measures of the population."""
    if kind.name == "independent":
        return dict.fromkeys(METHODS, 0.0)
    sums = np.zeros((2, 3))
    rng = np.random.default_rng(len(DRAWN))
    for _ in range(SAMPLES):
        data = kind.draw(ROWS, rng)
        for row, kernels in zip(sums, (kind.kernels, (Distance(1.0), Distance(1.0))), strict=True):
            a, b = (centred(k(v)) for k, v in zip(kernels, data, strict=True))
            row += [np.vdot(*pair) / (ROWS * (ROWS - 3)) for pair in ((a, b), (a, a), (b, b))]
    (hsic, *own), (dcov, *variances) = (sums / SAMPLES).tolist()
    cka, dcor = hsic / math.sqrt(math.prod(own)), dcov / math.sqrt(math.prod(variances))
    return dict(zip(METHODS, (hsic, cka, dcor), strict=True))


def measure(cell: Cell, run: int) -> list[tuple[float, float]]:
    """The intervals of one data set, at all levels."""
    data = cell.draw.draw(cell.n, np.random.default_rng([run, cell.n]))
    kernels = {} if cell.method == "distance correlation" else {"kernels": cell.draw.kernels}
    found = (
        dhsic.hsic(*data, **kernels, estimator=cell.test, confidence=level, rng=run, threads=1)
        for level in LEVELS
    )
    return [(one.interval.low, one.interval.high) for one in found if one.interval]


def rows(cell: Cell, found: Sequence[list[tuple[float, float]]]) -> Iterator[Row]:
    """How often the intervals hold the truth, and on which side they miss it."""
    truth = truths(cell.draw)[cell.method]
    low, high = np.array(found).transpose(2, 1, 0)
    told: dict[str, Any] = {"truth": truth}
    for level, under, over in zip(LEVELS, low > truth, high < truth, strict=True):
        told[f"{100 * level:g} %"] = float(1.0 - under.mean() - over.mean())
        told |= {"above": float(under.mean()), "below": float(over.mean())} if level == 0.95 else {}
    yield {**told, "width": float((high - low)[0].mean())}


STUDY = Study(
    name="coverage",
    title="How often do intervals hold the measure of the population?",
    data={
        str(kind): kind
        for kind in (Kind(name, dims) for dims in ((1, 1), (20, 1), (10, 10)) for name in DRAWN)
    },
    methods=METHODS,
    sizes=(500, 2000),
    measure=measure,
    columns=("95 %", "90 %", "above", "below", "truth", "width"),
    runs=1000,
    rows=rows,
    follows_defaults=lambda cell: bool(cell.test == "auto"),
    small={"data": ["linear, 1 + 1", "independent, 20 + 1"], "sizes": [100], "runs": 3},
)
