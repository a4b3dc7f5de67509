"""Gram matrices of all rows about their means, and what sums their products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.tiles import Matrix
from dhsic.estimators.gram_sums import GramSums
from dhsic.linalg import hadamard

__all__ = ["STRIP", "Centring", "centred_pairs", "permuted_sums"]

Vector = NDArray[np.float64]

STRIP = 128


@dataclass(frozen=True)
class Centring:
    """How Gram matrices of n rows are centred, from their sums.

    The centred matrix is K_ij - shift_i - shift_j, of V-statistics the doubly centred HKH; of
    U-statistics U-centred, with a diagonal of zeros.

    Parameters
    ----------
    means : ndarray, shape (M, n)
        Row means of the Gram matrices, without the diagonal where unbiased.
    unbiased : bool
        U-statistics, for M = 2.
    """

    means: Vector
    unbiased: bool

    @classmethod
    def of(cls, sums: GramSums, *, unbiased: bool) -> Self:
        """From the sums of all rows."""
        n = sums.n
        if unbiased:
            return cls(sums.without_diagonal().rows / (n - 2), unbiased)
        return cls(sums.rows / n, unbiased)

    @property
    def nbytes(self) -> int:
        """Bytes of the means."""
        return self.means.nbytes

    @cached_property
    def totals(self) -> Vector:
        """Means of the Gram matrices as the centring takes them, shape (M,)."""
        n = self.means.shape[1]
        totals: Vector = self.means.sum(axis=1) / (n - 1 if self.unbiased else n)
        return totals

    def centre(self, m: int, gram: Matrix, rows: slice, columns: slice) -> Matrix:
        """Centre a tile of variable m in place."""
        shift = self.means[m] - 0.5 * self.totals[m]
        gram -= shift[rows, None].astype(gram.dtype)
        gram -= shift[columns].astype(gram.dtype)
        if self.unbiased and rows.start == columns.start:
            np.fill_diagonal(gram, 0.0)
        return gram

    def centre_first(self, gram: Matrix, rows: slice, columns: slice) -> Matrix:
        """Centre the first of two variables, so that the product of both needs no other term."""
        return self.centre(0, gram, rows, columns) if len(self.means) == 2 else gram

    def mixed_sums(self, rows: slice, orders: NDArray[np.intp]) -> Vector:
        """sum_i prod_m of the row means, all but the first permuted by orders (b, M - 1, rows)."""
        first, *others = self.means[:, rows]
        moved = [values[orders[:, m]] for m, values in enumerate(others)]
        sums: Vector = np.prod(moved, axis=0) @ first
        return sums

    def statistics(self, joint: Vector, mixed: Vector) -> Vector:
        """HSIC times n from sums of products with the first matrix as `centre_first` leaves it."""
        n = len(self.means[0])
        if self.unbiased:
            values: Vector = joint / (n - 3)
        elif len(self.means) == 2:
            values = joint / n
        else:
            values = joint / n + n * float(self.totals.prod()) - 2.0 * mixed
        return values


def centred_pairs(
    grams: Sequence[Matrix], centring: Centring, rows: slice, columns: slice
) -> Matrix:
    """H_ij = <xi_i, xi_j>, the Gram matrix of the centred products of all variables.

    With the row means a_i of a centred variable, its mean c and its centred Gram matrix A, a
    variable is k_ij = c + a_i + a_j + A_ij, and xi_i keeps the terms in which two variables or
    more are centred. Multiplying variable by variable, F_pq sums the terms with p centred on the
    side of i and q on that of j, 2 for two or more; H is F_22. For M = 2 it is A_1 A_2.

    Parameters
    ----------
    grams : sequence of ndarray, shapes (b, c)
        A tile of every variable. Overwritten.
    centring : Centring
        Of all rows.
    rows, columns : slice
        Where the tile is.

    Returns
    -------
    ndarray, shape (b, c)
    """
    if len(grams) == 2:
        first, second = (centring.centre(m, g, rows, columns) for m, g in enumerate(grams))
        first *= second
        return first
    f: Any = {(p, q): 0.0 for p in range(3) for q in range(3)} | {(0, 0): 1.0}
    for m, gram in enumerate(grams):
        c = float(centring.totals[m])
        left = (centring.means[m, rows, None] - c).astype(gram.dtype)
        right = (centring.means[m, columns] - c).astype(gram.dtype)
        f = _times(f, c, left, right, centring.centre(m, gram, rows, columns))
    h: Matrix = f[2, 2]
    return h


def _times(f: Any, c: float, left: Matrix, right: Matrix, a: Matrix) -> Any:
    """Multiply the sums F by c + left + right + a of one more variable."""
    by_left, by_right = c + left, c + right
    return {
        (0, 0): f[0, 0] * c,
        (1, 0): f[1, 0] * c + f[0, 0] * left,
        (0, 1): f[0, 1] * c + f[0, 0] * right,
        (2, 0): f[2, 0] * by_left + f[1, 0] * left,
        (0, 2): f[0, 2] * by_right + f[0, 1] * right,
        (1, 1): f[1, 1] * c + f[0, 1] * left + f[1, 0] * right + f[0, 0] * a,
        (2, 1): f[2, 1] * by_left + f[2, 0] * (right + a) + f[1, 1] * left + f[1, 0] * a,
        (1, 2): f[1, 2] * by_right + f[0, 2] * (left + a) + f[1, 1] * right + f[0, 1] * a,
        (2, 2): f[2, 2] * (by_left + right + a)
        + f[1, 2] * (left + a)
        + f[2, 1] * (right + a)
        + f[1, 1] * a,
    }


def permuted_sums(
    first: Matrix,
    others: Sequence[Matrix],
    rows: NDArray[np.intp],
    columns: NDArray[np.intp],
) -> Vector:
    """Sums of the product of Gram matrices, all but the first with rows and columns permuted.

    Parameters
    ----------
    first : ndarray, shape (b, c)
        Of the variable that stays.
    others : sequence of ndarray
        From which rows and columns are taken.
    rows, columns : ndarray of int, shapes (r, M - 1, b) and (r, M - 1, c)
        One replicate a row.

    Returns
    -------
    ndarray, shape (r,)
    """
    sums = np.zeros(len(rows))
    for start in range(0, len(first), STRIP):
        at = slice(start, start + STRIP)
        strip = np.ascontiguousarray(first[at])
        taken = [np.empty((len(strip), gram.shape[1]), gram.dtype) for gram in others]
        moved = [np.empty_like(strip) for _ in others]
        for replicate, (row, column) in enumerate(zip(rows[:, :, at], columns, strict=True)):
            for gram, i, j, by_row, out in zip(others, row, column, taken, moved, strict=True):
                np.take(gram, i, axis=0, out=by_row, mode="clip")
                np.take(by_row, j, axis=1, out=out, mode="clip")
            sums[replicate] += np.vdot(strip, hadamard(moved))
    return sums
