"""Rows that are not exchangeable, with the argument that says how they belong together.

Variables are independent; "iid" are exchangeable rows, with labels that mean nothing, where the
argument costs power alone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

import dhsic

Variables = tuple[NDArray[Any], NDArray[Any]]
Case = Callable[[int, np.random.Generator], tuple[Variables, dict[str, Any]]]


def serial(n: int, rng: np.random.Generator, memory: float) -> NDArray[np.float64]:
    """An autoregressive series."""
    values: NDArray[np.float64] = lfilter([1.0], [1.0, -memory], rng.standard_normal(n + 500))
    return values[500:]


def clustered(labels: NDArray[Any], share: float, rng: np.random.Generator) -> NDArray[Any]:
    """Rows of which groups share a part of the variance."""
    common = rng.standard_normal(labels.max() + 1)[labels]
    own = rng.standard_normal(len(labels))
    rows: NDArray[Any] = share**0.5 * common + (1.0 - share) ** 0.5 * own
    return rows


def autoregressive(n: int, rng: np.random.Generator, memory: float, lag: int | None) -> Any:
    """Two series that remember themselves."""
    order = dhsic.TimeOrder(lag=lag)
    return (serial(n, rng, memory), serial(n, rng, memory)), {"order": order}


def seasonal(n: int, rng: np.random.Generator) -> Any:
    """Two series with the same cycle, and memory besides."""
    wave = np.sin(2.0 * np.pi * np.arange(n) / 12)
    pair = wave + serial(n, rng, 0.5), wave + serial(n, rng, 0.5)
    return pair, {"order": dhsic.TimeOrder(lag=12, period=12)}


def panel(n: int, rng: np.random.Generator) -> Any:
    """Series of five stations, one after another."""
    labels = np.arange(n) * 5 // n
    x, y = (np.concatenate([serial(n // 5, rng, 0.7) for _ in range(5)]) for _ in range(2))
    return (x, y), {"groups": labels, "order": dhsic.TimeOrder(lag=4)}


def grouped(n: int, rng: np.random.Generator, size: int, share: float) -> Any:
    """Groups of equal size."""
    labels = np.arange(n) // size
    return (clustered(labels, share, rng), clustered(labels, share, rng)), {"groups": labels}


def unequal(n: int, rng: np.random.Generator, share: float) -> Any:
    """Groups of one to ten rows."""
    sizes = rng.integers(1, 11, n)
    labels = np.repeat(np.arange(n), sizes)[:n]
    return (clustered(labels, share, rng), clustered(labels, share, rng)), {"groups": labels}


def stratified(n: int, rng: np.random.Generator, count: int) -> Any:
    """Strata of unequal sizes with other means, spreads and shapes."""
    strata = rng.choice(count, n, p=rng.dirichlet(np.full(count, 5.0)))
    spread = 0.5 + strata % 3
    x = strata + spread * rng.standard_normal(n)
    y = strata + spread * rng.exponential(size=n)
    return (x, y), {"strata": strata}


def selected(n: int, rng: np.random.Generator) -> Any:
    """Rows that are drawn three times as often where both variables have the same sign."""
    x, y = rng.standard_normal((2, 4 * n))
    chance = np.where(x * y > 0.0, 0.9, 0.3)
    kept = np.flatnonzero(rng.random(4 * n) < chance)[:n]
    return (x[kept], y[kept]), {"weights": 1.0 / chance[kept]}


def tilted(n: int, rng: np.random.Generator, correlation: float) -> Any:
    """Correlated normals, with weights that make them independent."""
    x, z = rng.standard_normal((2, n))
    y = correlation * x + (1.0 - correlation**2) ** 0.5 * z
    # The ratio of the densities of independent normals and of these.
    exponent = (x**2 - 2.0 * correlation * x * y + y**2) / (1.0 - correlation**2) - x**2 - y**2
    return (x, y), {"weights": np.exp(exponent / 2.0)}


def meaningless(n: int, rng: np.random.Generator, what: str) -> Any:
    """Exchangeable rows with labels or an order that mean nothing."""
    asked: dict[str, Any] = {
        "strata": {"strata": rng.integers(5, size=n)},
        "groups": {"groups": np.arange(n) // 5},
        "time": {"order": "time"},
        "weights": {"weights": rng.uniform(0.5, 2.0, n)},
    }
    pair = rng.standard_normal(n), rng.standard_normal(n)
    return pair, asked[what]


CASES: dict[str, Case] = {
    **{
        f"AR({memory}){'' if lag is None else f', lag {lag}'}": partial(
            autoregressive, memory=memory, lag=lag
        )
        for memory in (0.5, 0.9)
        for lag in (None, 20)
    },
    "seasonal": seasonal,
    "panel of 5 series": panel,
    **{
        f"groups of {size}, ICC {share}": partial(grouped, size=size, share=share)
        for size in (5, 20, 100)
        for share in (0.1, 0.5, 0.9)
    },
    "groups of 10, ICC 0.64": partial(grouped, size=10, share=0.64),
    "groups of 1 to 10, ICC 0.5": partial(unequal, share=0.5),
    "strata, 5": partial(stratified, count=5),
    "strata, 50": partial(stratified, count=50),
    **{f"iid, {what}": partial(meaningless, what=what) for what in ("strata", "groups", "time")},
    "weights, of signs": selected,
    **{f"weights, of normals {rho}": partial(tilted, correlation=rho) for rho in (0.2, 0.4)},
    "iid, weights": partial(meaningless, what="weights"),
}
