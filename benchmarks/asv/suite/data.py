"""Rows, kernels and landmarks that the benchmarks share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.reduction import RowBlock
from dhsic.engine.tiles import Tiling
from dhsic.kernels import Combinations, Gaussian, Kernel

PRECISIONS = ["float32", "float64"]
COLUMNS = [1, 10, 90]
ROWS = 8192
LANDMARKS = 256
RESAMPLES = 250

Rows = NDArray[Any]


def normal(n: int, d: int, dtype: str = "float64") -> tuple[Rows, Rows]:
    """Two variables of d columns and of one, weakly dependent."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((n, d)), rng.standard_normal((n, 1))
    y += 0.1 * x[:, :1]
    return x.astype(dtype), y.astype(dtype)


def block(n: int, d: int, dtype: str) -> RowBlock:
    """Rows as a task reads them."""
    return RowBlock(0, normal(n, d, dtype))


def gaussians(d: int) -> tuple[Kernel, ...]:
    """Of about the median bandwidths."""
    return Gaussian(gamma=0.5 / d), Gaussian(gamma=0.5)


def tiling(d: int, dtype: str) -> Tiling:
    """Gram tiles of both variables."""
    return Tiling.prepare(Combinations.single(gaussians(d)), normal(LANDMARKS, d), dtype)
