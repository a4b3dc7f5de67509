"""Kernels that compare no rows: 1 between a row and itself, and 0 between it and all others.

Narrow kernels of many columns are so. Their statistic is rounding, or that of a few pairs of rows
that happen to lie near each other; its replicates have heavy tails, which cost the other kernels
of a grid their power. Whether a kernel is so is seen in its own variable, which leaves a null of
permutations exact.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhsic.kernels import Combinations, Kernel
from dhsic.linalg import solve_lower, squared_norms

NORMED_ROWS = 16
"""Rows whose norms in a kernel are looked at: in most kernels all have 1."""

_NEAR = 1e-3
_ALONE = 2.0  # rows of all that a row is near, of which it is one itself
_ROWS = 64  # whose neighbours in a sample are counted
_HELD = 0.05  # of a kernel
_OF_ROWS = 0.75  # so that rows which are landmarks themselves do not decide


def nearness(values: NDArray[Any]) -> float:
    """The share of pairs of rows between which a kernel is above 0.001, from its values."""
    return float(np.count_nonzero(values > _NEAR) / values.size)


def is_identity(near: float, n: int) -> bool:
    """Whether hardly any of n rows has a neighbour, of a kernel with such a `nearness`."""
    return near * n < _ALONE


def is_held(
    kernel: Kernel, sample: NDArray[Any], values: NDArray[Any], factor: NDArray[np.float64]
) -> bool:
    """Whether landmarks hold a twentieth of a kernel, at a quarter of the rows or more.

    The Nystrom features L^-1 k(z, x) of a row have the squared norm k(x, x), less its distance to
    the span of the landmarks (Zhang et al. 2018, section 4.1). Next to nothing is left of it where
    kernels are so narrow that few rows are near a landmark.

    Parameters
    ----------
    kernel : Kernel
        Fitted.
    sample : ndarray, shape (s, d)
        Rows.
    values : ndarray, shape (s, D)
        The kernel between these and the landmarks.
    factor : ndarray, shape (D, D)
        The lower triangular L of the landmarks.
    """
    few, some = (slice(None, None, -(-len(sample) // rows)) for rows in (NORMED_ROWS, _ROWS))
    whole = kernel(sample[few]).diagonal()
    held = squared_norms(solve_lower(factor, values[some].T.astype(np.float64)))
    return float(np.quantile(held, _OF_ROWS)) >= _HELD * float(np.quantile(whole, _OF_ROWS))


def compared(combinations: Combinations, left_out: Container[int]) -> list[int]:
    """Numbers of the combinations without any of some kernels; the reference.

    Examples
    --------
    >>> from dhsic.kernels import Gaussian
    >>> kernels = Gaussian(gamma=1.0), Gaussian(gamma=900.0), Gaussian(gamma=1.0)
    >>> compared(Combinations(kernels, (0, 0, 1), ((0, 2), (1, 2)), (1.0,) * 3), {1})
    [0]
    """
    kept = combinations.kept
    return [
        c
        for c, pair in enumerate(combinations.chosen)
        if c in kept or not any(k in left_out for k in pair)
    ]


def compared_in_samples(
    combinations: Combinations, samples: Sequence[NDArray[np.float64]], n: int
) -> list[int]:
    """Those without a kernel that is the identity on n rows, fitted to samples of its variable.

    Kernels without a length are not looked at: they compare all rows.
    """
    each = combinations.spread(samples)
    shared = combinations.shared
    tiles = {}
    for k in shared.roots:
        if (kernel := combinations.kernels[k]).has_length:
            rows, columns = kernel.rows_and_columns(each[k])
            # Neighbours of some rows are counted, evenly over the sample.
            rows = np.ascontiguousarray(rows[:: -(-len(rows) // _ROWS)])
            tiles[k] = np.empty((len(rows), len(columns)))
            kernel.tile(rows, columns, tiles[k], np.empty((kernel.work_tiles, *tiles[k].shape)))
    for power in shared.powers:
        tiles[power.k] = power.of(tiles[power.source])

    def near(k: int) -> float:
        if k not in tiles:
            return 1.0
        s = len(each[k])
        others = nearness(tiles[k]) * s - 1.0  # of the sample, on average
        # A row is near itself, and near the share of the other rows that it is near in the sample.
        return (1.0 + others * (n - 1) / max(1, s - 1)) / n

    alone = {k for k in range(len(each)) if is_identity(near(k), n)}
    return compared(combinations, alone)


def left_out_text(count: int) -> str:
    """Note on the combinations that were left out; empty for none."""
    return (
        f"combinations left out, with kernels that compare hardly any rows: {count}"
        if count
        else ""
    )
