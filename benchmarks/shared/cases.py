"""Data with known dependence, for level, power and the tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Data = list[NDArray[Any]]
Rng = np.random.Generator


def gaussian(n: int, m: int, rng: Rng) -> Data:
    return [rng.standard_normal((n, 1)) for _ in range(m)]


def heavy_tails(n: int, m: int, rng: Rng) -> Data:
    return [rng.standard_cauchy((n, 1)) for _ in range(m)]


def ties(n: int, m: int, rng: Rng) -> Data:
    """A binary variable with about 3 % ones, counts that are mostly 0 and 1, rounded normals."""
    rare = (rng.random((n, 1)) < 0.03).astype(float)
    rare[rng.integers(n)] = 1.0
    others = [rng.poisson(0.5, (n, 1)).astype(float), np.round(rng.standard_normal((n, 1)))]
    return [rare, *others, rng.standard_normal((n, 1))][:m]


def mixed_dimensions(n: int, m: int, rng: Rng) -> Data:
    return [rng.standard_normal((n, d)) for d in (10, 1, 3, 2)[:m]]


NULL_CASES: dict[str, Callable[[int, int, Rng], Data]] = {
    "gaussian": gaussian,
    "heavy tails": heavy_tails,
    "ties": ties,
    "mixed dimensions": mixed_dimensions,
}


def linear(n: int, rng: Rng, strength: float = 0.2) -> Data:
    x, noise = rng.standard_normal((2, n))
    return [x, strength * x + noise]


def sine(n: int, rng: Rng, strength: float = 0.5, frequency: int = 1) -> Data:
    """Joint density proportional to 1 + s sin(w x) sin(w y) on a square, by rejection."""
    xy = rng.uniform(-np.pi, np.pi, (8 * n, 2))
    density = 1.0 + strength * np.sin(frequency * xy).prod(axis=1)
    x, y = xy[rng.uniform(0.0, 2.0, 8 * n) < density][:n].T
    return [x, y]


def joint_triple(n: int, rng: Rng, strength: float = 1.0) -> Data:
    """Three variables, independent in pairs; the sign of the third follows the other two's.

    With probability `strength`, else it is random.
    """
    x, y, z = rng.standard_normal((3, n))
    sign = np.where(rng.random(n) < strength, np.sign(x * y), rng.choice([-1.0, 1.0], n))
    return [x, y, sign * np.abs(z)]


ALTERNATIVES: dict[str, Callable[[int, Rng], Data]] = {
    "linear": linear,
    "sine": sine,
    "joint triple": lambda n, rng: joint_triple(n, rng, 0.5),
}


def with_dimensions(dims: tuple[int, ...], n: int, rng: Rng, strength: float) -> Data:
    """Variables of given dimensions that share a weak nonlinear common cause."""
    cause = rng.standard_normal(n)
    data = []
    for number, d in enumerate(dims):
        x = rng.standard_normal((n, d))
        x[:, 0] += strength * (cause if number % 2 else cause**2 - 1.0)
        data.append(x)
    return data


def circle(n: int, rng: Rng, noise: float) -> Data:
    """Points on the unit circle, uniform in angle, with normal noise on either coordinate."""
    angle = rng.uniform(0.0, 2.0 * np.pi, n)
    x, y = np.array([np.cos(angle), np.sin(angle)]) + noise * rng.standard_normal((2, n))
    return [x, y]


def heteroscedastic(n: int, rng: Rng, strength: float) -> Data:
    """No correlation: x sets the logarithm of the standard deviation of y."""
    x, noise = rng.standard_normal((2, n))
    return [x, np.exp(strength * x) * noise]


def linear_in_one(n: int, rng: Rng, d: int) -> Data:
    """The first of d columns of x plus normal noise (Zhang et al. 2018, 5.1)."""
    x = rng.standard_normal((n, d))
    return [x, x[:, 0] + rng.standard_normal(n)]


def sine_of_radius(n: int, rng: Rng, d: int) -> Data:
    """A fast sine of x_1^2 + x_2^2, of d columns, plus normal noise (Zhang et al. 2018, 5.2)."""
    x = rng.standard_normal((n, d))
    radius = (x[:, :2] ** 2).sum(axis=1)
    return [x, 20.0 * np.sin(4.0 * np.pi * radius) + rng.standard_normal(n)]


def paired_signs(n: int, rng: Rng, d: int) -> Data:
    """Random sizes with the signs of x_1 x_2, x_3 x_4 and so on (Zhang et al. 2018, 5.3).

    Their sum has variance 1, as has the normal noise added to it.
    """
    x, z = rng.standard_normal((n, d)), rng.standard_normal((n, d // 2))
    signs = np.sign(x[:, ::2] * x[:, 1::2])
    y = np.sqrt(2.0 / d) * (signs * np.abs(z)).sum(axis=1)
    return [x, y + rng.standard_normal(n)]


def one_kernel(estimator: Any) -> str | None:
    """The median heuristic alone, of estimators that try several kernels otherwise."""
    return "gaussian" if estimator.takes_grids() else None
