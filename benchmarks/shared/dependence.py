"""Dependent data for studies of power, by kinds of two and of more variables."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.shared import cases
from benchmarks.shared.cases import Data, Rng

Array = NDArray[Any]
Draw = Callable[[int, Rng], Data]

DEPENDENT_ROWS = 200


def quadratic(n: int, rng: Rng, strength: float) -> Data:
    x, noise = rng.standard_normal((2, n))
    return [x, strength * x**2 + noise]


def heavy_tailed(n: int, rng: Rng, strength: float) -> Data:
    """Both Cauchy."""
    x, noise = rng.standard_cauchy((2, n))
    return [x, strength * x + noise]


def dummy(n: int, rng: Rng, share: float) -> Array:
    """1 with the probability `share`, else 0; drawn again where it comes out constant."""
    while not 0 < np.count_nonzero(x := rng.random(n) < share) < n:
        pass
    return x.astype(np.float64)


def rare_event(n: int, rng: Rng, shift: float) -> Data:
    """In 3 % of the rows x is 1, and y is shifted."""
    x = dummy(n, rng, 0.03)
    return [x, shift * x + rng.standard_normal(n)]


def rare_events(n: int, rng: Rng, share: float) -> Data:
    """Two dummies of 5 %, the same in a share of the rows."""
    x, y = (dummy(n, rng, 0.05) for _ in range(2))
    return [x, np.where(rng.random(n) < share, x, y)]


def one_of_columns(n: int, rng: Rng, strength: float, d: int) -> Data:
    """Of d columns of x the first matters."""
    x = rng.standard_normal((n, d))
    return [x, strength * x[:, 0] + rng.standard_normal(n)]


def contingency(n: int, rng: Rng, share: float) -> Data:
    """Categories 0 to 4, of which y has that of x, in another order, in a share of the rows."""
    x, other = rng.integers(5, size=(2, n))
    y = np.where(rng.random(n) < share, 2 * x % 5, other)
    return [x.astype(np.float64), y.astype(np.float64)]


def common_cause(n: int, rng: Rng, strength: float, m: int) -> Data:
    return list(strength * rng.standard_normal(n) + rng.standard_normal((m, n)))


def one_pair(n: int, rng: Rng, strength: float, m: int, first: int) -> Data:
    """Two neighbours depend linearly, all others are independent."""
    data = list(rng.standard_normal((m, n)))
    data[first + 1] += strength * data[first]
    return data


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


TWO: Mapping[str, Draw] = {
    "linear": partial(cases.linear, strength=0.18),
    "quadratic": partial(quadratic, strength=0.18),
    "sine, w = 1": partial(cases.sine, strength=0.4, frequency=1),
    "sine, w = 2": partial(cases.sine, strength=0.8, frequency=2),
    "sine, w = 4": partial(cases.sine, strength=1.0, frequency=4),
    "circle": partial(cases.circle, noise=0.45),
    "heteroscedastic": partial(cases.heteroscedastic, strength=0.25),
    "heavy tails": partial(heavy_tailed, strength=0.1),
    "rare event": partial(rare_event, shift=1.0),
    "two rare events": partial(rare_events, share=0.25),
    "contingency": partial(contingency, share=0.17),
    "1 of 20 columns": partial(one_of_columns, strength=0.3, d=20),
    "3 + 3 columns, linear": partial(each_of, strength=0.2, d=3),
    "3 + 3 columns, sine": partial(sines, strength=0.5, d=3),
    "absolute, 1 of 20": partial(columns, strength=1.2, d=20, shape="absolute"),
    "1 of 90 columns": partial(one_of_columns, strength=0.55, d=90),
    "sum of 90 columns": partial(columns, strength=0.55, d=90, shape="sum"),
    "squares of 90 columns": partial(columns, strength=0.5, d=90, shape="squares"),
    "absolute, 1 of 90": partial(columns, strength=2.5, d=90, shape="absolute"),
    "scale by 1 of 90": partial(columns, strength=0.7, d=90, shape="scale"),
    "50 + 50 columns": partial(each_of, strength=0.2, d=50),
}
SEVERAL: Mapping[str, Draw] = {
    "xor of 3": partial(cases.joint_triple, strength=0.4),
    "common cause of 3": partial(common_cause, strength=0.5, m=3),
    "common cause of 4": partial(common_cause, strength=0.45, m=4),
    "first pair of 3": partial(one_pair, strength=0.3, m=3, first=0),
    "late pair of 3": partial(one_pair, strength=0.3, m=3, first=1),
    "late pair of 4": partial(one_pair, strength=0.45, m=4, first=2),
}


@dataclass(frozen=True)
class Weakened:
    """Data of which so many rows are dependent that the power hardly grows with all rows."""

    draw: Draw

    def __call__(self, n: int, rng: Rng) -> Data:
        data = self.draw(n, rng)
        alone = rng.permutation(n)[round(math.sqrt(DEPENDENT_ROWS * n)) :]
        for x in data[1:]:
            x[alone] = x[rng.permutation(alone)]
        return data


# Two samples of three columns, whose laws differ by less the more rows there are.

COLUMNS, REFERENCE_ROWS = 3, 200


def shifted(n: int, share: float, rng: Rng) -> Array:
    return rng.standard_normal((n, COLUMNS)) + 0.25 * share


def scaled(n: int, share: float, rng: Rng) -> Array:
    return rng.standard_normal((n, COLUMNS)) * math.exp(0.18 * share)


def correlated(n: int, share: float, rng: Rng) -> Array:
    rho = 0.45 * share
    common = rng.standard_normal((n, 1))
    return math.sqrt(rho) * common + math.sqrt(1.0 - rho) * rng.standard_normal((n, COLUMNS))


def tailed(n: int, share: float, rng: Rng) -> Array:
    """A part of the rows has Student's t with 2 degrees of freedom, narrowed to its quartiles."""
    heavy = 0.6745 / 0.8165 * rng.standard_t(2, (n, COLUMNS))
    return np.where(rng.random((n, 1)) < share, heavy, rng.standard_normal((n, COLUMNS)))


LAWS: Mapping[str, Callable[[int, float, Rng], Array]] = {
    "mean": shifted,
    "scale": scaled,
    "correlation": correlated,
    "tails": tailed,
}


def two_samples(n: int, rng: Rng, law: str, parts: int) -> Data:
    """Together n rows, of which the first sample has one part; normal, and of the law."""
    first = n // parts
    share = math.sqrt(REFERENCE_ROWS / n)
    return [rng.standard_normal((first, COLUMNS)), LAWS[law](n - first, share, rng)]
