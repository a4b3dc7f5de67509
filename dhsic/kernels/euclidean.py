"""Euclidean distances between prepared rows, in one matrix product.

-|x - z|^2 = <(2x, -|x|^2, 1), (z, 1, -|z|^2)>. One column is kept as it is: its differences are
exact, and the expanded square is not.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dhsic.kernels.base import Matrix

_HARMLESS = 1e-4  # exp of it is no worse than a float32 tile; dropping signs would cost time


def prepared_width(d: int) -> int:
    """Columns of the prepared arrays for rows of `d` numbers."""
    return 1 if d == 1 else d + 2


def prepare_rows(x: Matrix, norms: NDArray[np.float64]) -> Matrix:
    """From (b, d) and the squared norms (b,) to (2x, -|x|^2, 1); doubling is exact."""
    return x if x.shape[1] == 1 else _beside(2, x, -norms, 1)


def prepare_columns(z: Matrix, norms: NDArray[np.float64]) -> Matrix:
    """From (p, d) and the squared norms (p,) to (z, 1, -|z|^2)."""
    return z if z.shape[1] == 1 else _beside(1, z, 1, -norms)


def _beside(
    factor: int, x: Matrix, first: NDArray[np.float64] | int, second: NDArray[np.float64] | int
) -> Matrix:
    prepared = np.empty((len(x), x.shape[1] + 2), x.dtype)
    np.multiply(x, factor, out=prepared[:, :-2])
    prepared[:, -2] = first
    prepared[:, -1] = second
    return prepared


def minus_squared_distances(rows: Matrix, columns: Matrix, out: Matrix) -> None:
    """Write -|x - z|^2 into `out`, above 0 by harmless rounding at most."""
    if rows.shape[1] > 1 and cancellation(rows) + cancellation(columns) < _HARMLESS:
        # One product of augmented rows gives the distances, without norms to be added afterwards.
        np.matmul(rows, columns.T, out=out)
    else:
        squared_distances(rows, columns, out)
        np.negative(out, out=out)


def squared_distances(rows: Matrix, columns: Matrix, out: Matrix) -> None:
    """Write |x - z|^2 into `out`; the sign that rounding may leave is dropped."""
    if rows.shape[1] == 1:
        _differences(rows, columns, out)
        np.square(out, out=out)
    else:
        np.matmul(rows, columns.T, out=out)
        np.abs(out, out=out)


def distances(rows: Matrix, columns: Matrix, out: Matrix) -> None:
    """Write |x - z| into `out`."""
    if rows.shape[1] == 1:
        _differences(rows, columns, out)
        np.abs(out, out=out)
    else:
        squared_distances(rows, columns, out)
        _drop_rounding(rows, columns, out)
        np.sqrt(out, out=out)


def weighted_differences(rows: Matrix, columns: Matrix, weights: Matrix) -> NDArray[np.float64]:
    """sum_j weights_ij (x_i - z_j) from prepared rows and columns, shape (b, d).

    The one that stands beside z_j sums the weights in the same matrix product.
    """
    if rows.shape[1] == 1:
        x, sums, products = rows, weights.sum(axis=1, keepdims=True), weights @ columns
    else:
        both = weights @ columns[:, :-1]
        x, sums, products = 0.5 * rows[:, :-2], both[:, -1:], both[:, :-1]
    # The two nearly cancel where rows are near, and so are made in double precision.
    differences: NDArray[np.float64] = np.multiply(x, sums, dtype=np.float64) - products
    return differences


def _drop_rounding(rows: Matrix, columns: Matrix, out: Matrix, strip: int = 32) -> None:
    """Write 0 for what may be rounding: equal rows must not lie the root of the epsilon apart."""
    bound = relative_cancellation(rows)
    left, right = -bound * rows[:, -2], -bound * columns[:, -1]  # from -|x|^2 and -|z|^2
    for start in range(0, len(rows), strip):
        at = slice(start, start + strip)
        np.copyto(out[at], 0, where=out[at] <= np.add.outer(left[at], right))


def _differences(rows: Matrix, columns: Matrix, out: Matrix) -> None:
    np.subtract(rows, columns[:, 0].copy(), out=out)  # the copy makes the inner loop contiguous


def cancellation(prepared: Matrix) -> float:
    """Error of the squared distance between rows as far from the origin as the farthest here.

    Rounding errors of either sign make it grow with the root of the number of terms.
    """
    if prepared.shape[1] == 1:
        return 0.0
    least = min(prepared[:, -2].min(initial=0.0), prepared[:, -1].min(initial=0.0))  # -|x|^2 or 1
    return relative_cancellation(prepared) * -float(least)


def relative_cancellation(prepared: Matrix) -> float:
    """Error of the squared distance between near rows over their squared norm."""
    if prepared.shape[1] == 1:
        return 0.0
    return 2.0 * math.sqrt(prepared.shape[1]) * float(np.finfo(prepared.dtype).eps)
