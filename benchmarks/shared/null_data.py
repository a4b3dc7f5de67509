"""Independent variables of the kinds that everyday tables hold, for studies of the level.

Variables are independent of each other and drawn one by one. A variable that comes out constant is
drawn again by itself, which leaves it independent of the others; rare events of few rows are
constant more often than not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.shared.cases import Data, Rng

Array = NDArray[Any]
Variable = Callable[[int, int, Rng], Array]
"""Draws so many rows of the variable of a number, 0, 1, ..., with a generator: shape (n, d)."""

SHARES = (0.2, 0.05, 0.02, 0.005, 0.001)
COLUMNS = (1, 2, 3, 5, 20, 90)


def normal(n: int, number: int, rng: Rng, d: int = 1) -> Array:
    return rng.standard_normal((n, d))


def cauchy(n: int, number: int, rng: Rng) -> Array:
    return rng.standard_cauchy((n, 1))


def lognormal(n: int, number: int, rng: Rng) -> Array:
    """The exponential of a standard normal."""
    return rng.lognormal(size=(n, 1))


def ties(n: int, number: int, rng: Rng) -> Array:
    """Integers 0 to 4, equally often."""
    return rng.integers(5, size=(n, 1)).astype(np.float64)


def dummy(n: int, number: int, rng: Rng, share: float) -> Array:
    """1 with the probability `share`, else 0."""
    return (rng.random((n, 1)) < share).astype(np.float64)


def dummy_first(n: int, number: int, rng: Rng, share: float) -> Array:
    """The first variable is a dummy, the others are normal."""
    return normal(n, number, rng) if number else dummy(n, number, rng, share)


def poisson(n: int, number: int, rng: Rng) -> Array:
    return rng.poisson(0.03, (n, 1)).astype(np.float64)


def zero_inflated(n: int, number: int, rng: Rng) -> Array:
    """97 % zeros, the rest exponential of mean 1."""
    return np.where(rng.random((n, 1)) < 0.03, rng.exponential(size=(n, 1)), 0.0)


def one_hot(n: int, number: int, rng: Rng) -> Array:
    """A column a category: 6 of them in one variable, 4 in the next; i has a weight of 1 / 2^i."""
    categories = 4 if number % 2 else 6
    weights = 0.5 ** np.arange(categories)
    drawn: Array = np.eye(categories)[rng.choice(categories, n, p=weights / weights.sum())]
    return drawn


def mixed_units(n: int, number: int, rng: Rng) -> Array:
    """Normal columns with standard deviations of a millionth, one and a million."""
    scaled: Array = rng.standard_normal((n, 3)) * np.array([1e-6, 1.0, 1e6])
    return scaled


def sorted_first(n: int, number: int, rng: Rng) -> Array:
    """Normal; the rows are stored in the order of the first variable."""
    drawn = normal(n, number, rng)
    return drawn if number else np.sort(drawn, axis=0)


def single(n: int, number: int, rng: Rng) -> Array:
    """Five normal columns, stored in single precision."""
    return normal(n, number, rng, 5).astype(np.float32)


@dataclass(frozen=True)
class Kind:
    """How variables are drawn, and in which precision they are tested."""

    variable: Variable
    precision: str = "float64"


KINDS: dict[str, Kind] = {
    **{f"normal, {d} columns": Kind(partial(normal, d=d)) for d in COLUMNS},
    "Cauchy": Kind(cauchy),
    "lognormal": Kind(lognormal),
    "integer ties": Kind(ties),
    **{f"{100 * share:g}% dummies": Kind(partial(dummy, share=share)) for share in SHARES},
    **{f"{100 * s:g}% dummy, continuous": Kind(partial(dummy_first, share=s)) for s in SHARES},
    "Poisson(0.03)": Kind(poisson),
    "zero-inflated": Kind(zero_inflated),
    "one-hot": Kind(one_hot),
    "mixed units": Kind(mixed_units),
    "sorted on disk": Kind(sorted_first),
    "float32 data": Kind(single),
    "float32 tiles": Kind(single, "float32"),
    "float32 tiles, ties": Kind(ties, "float32"),
}


class Drawing:
    """Draws data of one kind.

    Parameters
    ----------
    kind : str
        One of `KINDS`.
    rng : Generator
        Of all draws.
    """

    def __init__(self, kind: str, rng: Rng) -> None:
        self.kind, self.rng = KINDS[kind], rng

    def variables(self, n: int, m: int) -> Data:
        """Independent variables of n rows each, none constant."""
        return [self._varying([n], number)[0] for number in range(m)]

    def samples(self, sizes: Sequence[int]) -> Data:
        """Independent samples of the first variable, not all of one value."""
        return self._varying(sizes, 0)

    def interacting(self, n: int) -> Data:
        """Three variables, of which the last is independent of the first two together.

        The second has the value of the first in about half of the rows, elsewhere that of another
        row.
        """
        first, last = self.variables(n, 2)
        while True:
            own = self.rng.random((n, 1)) < 0.5
            second = np.where(own, first, first[self.rng.permutation(n)])
            if varies([second]):
                return [first, second, last]

    def caused(self, n: int, causes: int, effects: int) -> Data:
        """Standard normal causes z, then variables that are e + s sum_k f(z_k) / root(causes).

        The noise e is of the kind, s its spread a column and f a sine, a square or a tanh. So the
        effects are conditionally independent given all causes.
        """
        z = self.rng.standard_normal((causes, n, 1))
        found: Data = list(z)
        for number, noise in enumerate(self.variables(n, effects)):
            shift = (np.sin, np.square, np.tanh)[number % 3](z).sum(axis=0) / np.sqrt(causes)
            found.append((noise + spread(noise) * shift).astype(noise.dtype))
        return found

    def _varying(self, sizes: Sequence[int], number: int) -> Data:
        while not varies(drawn := [self.kind.variable(n, number, self.rng) for n in sizes]):
            pass
        return drawn


def varies(arrays: Data) -> bool:
    """Whether not all rows of some arrays are the same."""
    first = arrays[0][0]
    return any(bool((x != first).any()) for x in arrays)


def spread(x: Array) -> Array:
    """The interquartile range of every column; its standard deviation where that is 0."""
    low, high = np.quantile(x, [0.25, 0.75], axis=0)
    wide: Array = np.where(high > low, high - low, x.std(axis=0))
    return wide
