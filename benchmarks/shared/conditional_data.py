"""Data of two variables that are independent, or dependent, given others.

In "additive" and "first column" data x and y are post-nonlinear, outer(standardised sum of inner(z)
+ noise), with functions drawn anew for every data set from the identity, the cube and tanh (Zhang
et al. 2011, section 4.1), of all columns of z or of the first alone. In "spread" data x is the mean
of z with noise whose spread is the mean of |z|; in "spread, first column" z_1 + |z_1| noise. In
"categories" mean and spread follow one of five labels. With an effect b the noise of both holds b
times the same normal numbers; "turning" has them with the sign of z_1 in y, which cancels over z.
In "sums", "product" and "radius" data, "heavy tails" (t of 3 degrees of freedom) and "ties"
(rounded to halves) x and y hold the same function of z, which regressions follow more or less.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Case = Callable[[np.random.Generator, int, int, float], tuple[Any, Any, Any]]
"""Draws x, y and z by a generator, rows, columns of z and the effect."""

Functions = tuple[Callable[[Vector], Vector], ...]
FUNCTIONS: Functions = (np.positive, np.tanh, lambda t: t**3)
TURNING: Functions = (np.square, np.abs, lambda t: np.cos(2 * t), lambda t: np.sin(2 * t))


def noises(rng: np.random.Generator, n: int, effect: float) -> tuple[Vector, Vector]:
    """Two, which share a part."""
    own, other, shared = rng.standard_normal((3, n))
    return own + effect * shared, other + effect * shared


def standardised(values: Vector) -> Vector:
    scaled: Vector = (values - values.mean()) / values.std()
    return scaled


def post_nonlinear(
    rng: np.random.Generator,
    n: int,
    d: int,
    effect: float,
    *,
    columns: int | None = None,
    inner: Functions = FUNCTIONS,
) -> tuple[Any, Any, Any]:
    """Functions of sums of functions of z and noise."""
    z = rng.standard_normal((n, d))

    def drawn(functions: Functions, x: Vector) -> Vector:
        return functions[rng.integers(len(functions))](x)

    pair = []
    for noise in noises(rng, n, effect):
        total = sum(standardised(drawn(inner, column)) for column in z.T[:columns])
        pair.append(drawn(FUNCTIONS, standardised(np.asarray(total)) + noise))
    return pair[0], pair[1], z


def spread(
    rng: np.random.Generator,
    n: int,
    d: int,
    effect: float,
    *,
    columns: int | None = None,
    few: bool = False,
) -> tuple[Any, Any, Any]:
    """Noise whose spread follows z, of which a column may have few values."""
    z = rng.integers(-2, 3, size=(n, d)) * 1.0 if few else rng.standard_normal((n, d))
    own = z[:, :columns]
    mean, scale = own.mean(axis=1) * own.shape[1] ** 0.5, np.abs(own).mean(axis=1)
    e, f = noises(rng, n, effect)
    return mean + scale * e, mean + scale * f, z


def categories(rng: np.random.Generator, n: int, d: int, effect: float) -> tuple[Any, Any, Any]:
    """Mean and spread follow a label."""
    labels = rng.integers(5, size=n)
    e, f = noises(rng, n, effect)
    scale = 0.5 + labels % 3
    return labels + scale * e, labels % 2 + scale * f, np.array(list("abcde"))[labels]


def turning(rng: np.random.Generator, n: int, d: int, effect: float) -> tuple[Any, Any, Any]:
    """A dependence that cancels over z."""
    z = rng.standard_normal((n, d))
    own, other, shared = rng.standard_normal((3, n))
    sign = np.sign(z[:, 0])
    return z[:, 0] + own + effect * shared, z[:, 0] + other + effect * sign * shared, z


def volatile(rng: np.random.Generator, n: int, d: int, effect: float) -> tuple[Any, Any, Any]:
    """A common spread."""
    z = rng.standard_normal((n, d))
    own, other, shared = rng.standard_normal((3, n))
    scale = np.exp(effect * shared)
    return z[:, 0] + scale * own, z[:, 0] + scale * other, z


def following(
    rng: np.random.Generator,
    n: int,
    d: int,
    effect: float,
    *,
    signal: Callable[[Vector], Vector],
    drawn: Callable[[np.random.Generator, tuple[int, ...]], Vector] | None = None,
    step: float = 0.0,
) -> tuple[Any, Any, Any]:
    """The same function of z in x and y, with noise of half its deviation, or rounded."""
    draw = drawn or np.random.Generator.standard_normal

    def rounded(values: Vector) -> Vector:
        return np.round(values / step) * step if step else values

    z = rounded(draw(rng, (n, d)))
    own, other, shared = draw(rng, (3, n))
    f = standardised(signal(z))
    x, y = (rounded(f + 0.5 * (noise + effect * shared)) for noise in (own, other))
    return x, y, z


def turns(z: Vector) -> Vector:
    """Sums of non-monotone functions of every column."""
    half = z.shape[1] // 2
    total: Vector = np.abs(z[:, :half]).sum(axis=1) + np.cos(3 * z[:, half:]).sum(axis=1)
    return total


def of_product(z: Vector) -> Vector:
    product: Vector = z[:, 0] * z[:, 1]
    return product


def of_radius(z: Vector) -> Vector:
    wave: Vector = np.sin(2 * np.linalg.norm(z, axis=1))
    return wave


def of_two(z: Vector) -> Vector:
    total: Vector = z[:, 0] + np.abs(z[:, 1])
    return total


CASES: dict[str, Case] = {
    "additive": post_nonlinear,
    "first column": partial(post_nonlinear, columns=1),
    "spread": spread,
    "spread, first column": partial(spread, columns=1),
    "categories": categories,
    "turning": turning,
    "non-monotone": partial(post_nonlinear, inner=TURNING),
    "few values": partial(spread, few=True),
    "volatile": volatile,
    "sums": partial(following, signal=turns),
    "product": partial(following, signal=of_product),
    "radius": partial(following, signal=of_radius),
    "heavy tails": partial(
        following, signal=of_two, drawn=lambda rng, shape: rng.standard_t(3, shape)
    ),
    "ties": partial(following, signal=of_two, step=0.5),
}
ONLY_DEPENDENT = ("turning", "volatile")
"""Data that need an effect."""
HELD_TWICE = ("product", "sums", "radius", "heavy tails", "ties")
"""Data with the same function of z in x and y."""
