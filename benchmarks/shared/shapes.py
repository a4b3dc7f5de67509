"""Twenty shapes of dependence that independence tests are compared on, of one or more columns.

They are those of `hyppo.tools.indep_sim`, with the noise that its studies of power have; formulas
are those of hyppo 0.5.2 and, where these differ, not those of the papers: the cubic one has x^3 in
place of x, and circles, ellipses and squares have noise in x alone. Of w, 1, 1/2, 1/3 and so on,
the columns of x have a weighted sum s; noise of N(0, 1) is one column even where y has several. The
last shape is of independent variables.

S. Panda, S. Palaniappan, J. Xiong et al. hyppo: a multivariate hypothesis testing Python package.
arXiv:1907.02088. J. Vogelstein, E. Bridgeford, Q. Wang et al. Discovering and deciphering
relationships across disparate data modalities. eLife 8, 2019, for the shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray

from benchmarks.shared.cases import Data, Rng

Array = NDArray[np.float64]
Shape = Callable[[int, Rng, int], Data]
"""Of rows, a generator and columns."""


def _sum(x: Array) -> Array:
    """Of the columns, the j-th over j, shape (n, 1)."""
    return (x @ (1.0 / np.arange(1, x.shape[1] + 1)))[:, None]


def _of_sum(
    n: int,
    rng: Rng,
    d: int,
    function: Callable[[Array], Array],
    noise: float,
    low: float = -1.0,
    high: float = 1.0,
) -> Data:
    """A function of the weighted sum of uniform columns, plus normal noise."""
    x = rng.uniform(low, high, (n, d))
    return [x, function(_sum(x)) + noise * rng.standard_normal((n, 1))]


def _cubic(s: Array) -> Array:
    t = s - 1.0 / 3.0
    return 128.0 * t**3 + 48.0 * t**2 - 12.0 * t**3


def _above_zero(s: Array) -> Array:
    return (s > 0.0).astype(np.float64)


def _fourth_root(s: Array) -> Array:
    return np.sqrt(np.sqrt(np.abs(s)))


def _joint_normal(n: int, rng: Rng, d: int) -> Data:
    """Every column of x has the covariance 1 / (2 d) with every one of y."""
    between = np.full((d, d), 0.5 / d)
    covariance = np.block([[np.eye(d), between], [between, np.eye(d)]])
    both = rng.multivariate_normal(np.zeros(2 * d), covariance, n)
    return [both[:, :d], both[:, d:] + 0.5 * rng.standard_normal((n, 1))]


def _w_shaped(n: int, rng: Rng, d: int) -> Data:
    x, u = rng.uniform(-1.0, 1.0, (n, d)), rng.uniform(0.0, 1.0, (n, d))
    y = 4.0 * ((_sum(x) ** 2 - 0.5) ** 2 + _sum(u) / 500.0)
    return [x, y + 0.5 * rng.standard_normal((n, 1))]


def _on_sphere(angles: Array) -> Array:
    """Coordinates by products of cosines and a sine; all but the first sine, shape (n, d)."""
    cosines, sines = np.cos(np.pi * angles), np.sin(np.pi * angles)
    x = np.multiply.accumulate(cosines, axis=1)
    x[:, :-1] *= sines[:, 1:]
    return x


def _spiral(n: int, rng: Rng, d: int) -> Data:
    """All angles are the same, and the radius too."""
    radius = rng.uniform(0.0, 5.0, (n, 1))
    x = radius * _on_sphere(np.repeat(radius, d, axis=1))
    y = radius * np.sin(np.pi * radius)
    return [x, y + 0.4 * d * rng.standard_normal((n, 1))]


def _bernoulli(n: int, rng: Rng, d: int) -> Data:
    """Uncorrelated: a random sign times the sum."""
    x = rng.integers(2, size=(n, d)) + 0.5 * rng.standard_normal((n, d))
    sign = 2.0 * rng.integers(2, size=(n, 1)) - 1.0
    return [x, sign * _sum(x) + 0.5 * rng.standard_normal((n, 1))]


def _logarithmic(n: int, rng: Rng, d: int) -> Data:
    x = rng.standard_normal((n, d))
    return [x, np.log(x**2) + 3.0 * rng.standard_normal((n, 1))]


def _sine(n: int, rng: Rng, d: int, frequency: float, noise: float) -> Data:
    x = rng.uniform(-1.0, 1.0, (n, d)) + 0.02 * d * rng.standard_normal((n, d))
    return [x, np.sin(frequency * np.pi * x) + noise * rng.standard_normal((n, 1))]


def _rotated(n: int, rng: Rng, d: int, angle: float) -> Data:
    """Uniform on squares that are rotated."""
    u, v = rng.uniform(-1.0, 1.0, (2, n, d))
    x = u * np.cos(angle) + v * np.sin(angle) + 0.05 * d * rng.standard_normal((n, d))
    return [x, v * np.cos(angle) - u * np.sin(angle)]


def _two_parabolas(n: int, rng: Rng, d: int) -> Data:
    x, noise = rng.uniform(-1.0, 1.0, (n, d)), rng.uniform(0.0, 1.0, (n, d))
    return [x, (_sum(x) ** 2 + 2.0 * noise) * (rng.integers(2, size=(n, 1)) - 0.5)]


def _ellipse(n: int, rng: Rng, d: int, radius: float) -> Data:
    """All columns of y are the same."""
    angles = rng.uniform(-1.0, 1.0, (n, d))
    x = radius * (_on_sphere(angles) + 0.4 * rng.standard_normal((n, d)))
    return [x, np.repeat(np.sin(np.pi * angles[:, :1]), d, axis=1)]


def _multiplicative(n: int, rng: Rng, d: int) -> Data:
    x, noise = rng.standard_normal((2, n, d))
    return [x, x * noise]


def _independent(n: int, rng: Rng, d: int) -> Data:
    """Mixtures of two normals in every column."""
    signs = 2.0 * rng.integers(2, size=(2, n, d)) - 1.0
    return list(signs + rng.standard_normal((2, n, d)) / 3.0)


SHAPES: Mapping[str, Shape] = {
    "linear": partial(_of_sum, function=np.asarray, noise=1.0),
    "exponential": partial(_of_sum, function=np.exp, noise=10.0, low=0.0, high=3.0),
    "cubic": partial(_of_sum, function=_cubic, noise=80.0),
    "joint normal": _joint_normal,
    "step": partial(_of_sum, function=_above_zero, noise=1.0),
    "quadratic": partial(_of_sum, function=np.square, noise=0.5),
    "w": _w_shaped,
    "spiral": _spiral,
    "bernoulli": _bernoulli,
    "logarithmic": _logarithmic,
    "fourth root": partial(_of_sum, function=_fourth_root, noise=0.25),
    "sine 4 pi": partial(_sine, frequency=4.0, noise=1.0),
    "sine 16 pi": partial(_sine, frequency=16.0, noise=0.5),
    "square": partial(_rotated, angle=-np.pi / 8.0),
    "two parabolas": _two_parabolas,
    "circle": partial(_ellipse, radius=1.0),
    "ellipse": partial(_ellipse, radius=5.0),
    "diamond": partial(_rotated, angle=-np.pi / 4.0),
    "multiplicative": _multiplicative,
    "independent": _independent,
}
