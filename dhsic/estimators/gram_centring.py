"""Gram matrices of all rows about their means, and what sums their products."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.tiles import Matrix
from dhsic.estimators.gram_products import PermutedProducts
from dhsic.estimators.gram_sums import GramSums, GridSums
from dhsic.kernels import Combinations

__all__ = ["Centring", "PermutedStatistics", "centred_pairs", "permuted_sums"]

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Centring:
    """How the Gram matrices of K kernels and n rows are centred, from their sums.

    The centred matrix is K_ij - shift_i - shift_j, of V-statistics the doubly centred HKH; of
    U-statistics U-centred, with a diagonal of zeros.

    Parameters
    ----------
    means : ndarray, shape (K, n)
        Row means of the Gram matrices, without the diagonal where unbiased.
    unbiased : bool
        U-statistics, for M = 2.
    """

    means: Vector
    unbiased: bool

    @classmethod
    def of(cls, sums: GramSums | GridSums, *, unbiased: bool) -> Self:
        """From the sums of all rows."""
        if unbiased:
            return cls((sums.rows - sums.diagonal) / (sums.n - 2), unbiased)
        return cls(sums.rows / sums.n, unbiased)

    @property
    def nbytes(self) -> int:
        """Bytes of the means."""
        return self.means.nbytes

    @cached_property
    def totals(self) -> Vector:
        """Means of the Gram matrices as the centring takes them, shape (K,)."""
        n = self.means.shape[1]
        totals: Vector = self.means.sum(axis=1) / (n - 1 if self.unbiased else n)
        return totals

    def centre(self, k: int, gram: Matrix, rows: slice, columns: slice) -> Matrix:
        """Centre a tile of kernel k in place."""
        shift = self.means[k] - 0.5 * self.totals[k]
        gram -= shift[rows, None].astype(gram.dtype)
        gram -= shift[columns].astype(gram.dtype)
        if self.unbiased and rows.start == columns.start:
            np.fill_diagonal(gram, 0.0)
        return gram


@dataclass(frozen=True)
class PermutedStatistics:
    """HSIC times n of every combination, with all variables but the first permuted.

    Parameters
    ----------
    products : PermutedProducts
        The combinations.
    centring : Centring
        From the Gram sums.
    """

    products: PermutedProducts
    centring: Centring

    @classmethod
    def of(cls, combinations: Combinations, centring: Centring) -> Self:
        """Of combinations of kernels."""
        return cls(PermutedProducts.of(combinations), centring)

    def centre_firsts(self, grams: Sequence[Matrix], rows: slice, columns: slice) -> None:
        """Centre the first of two variables in place, so that products need no other term."""
        if self.products.n_variables == 2:
            for k, gram in enumerate(grams):
                self.centring.centre(k, gram, rows, columns)

    def mixed_sums(self, rows: slice, orders: NDArray[np.intp]) -> Vector:
        """sum_i prod_m of the row means, permuted by orders (r, M - 1, rows); shape (r, G)."""
        return self.products.mixed_sums(self.centring.means[:, rows], orders)

    def statistics(self, joint: Vector, mixed: Vector) -> Vector:
        """HSIC times n from sums (r, G) of products with what `centre_firsts` leaves."""
        n = self.centring.means.shape[1]
        values: Vector
        if self.centring.unbiased:
            values = joint / (n - 3)
        elif self.products.n_variables == 2:
            values = joint / n
        else:
            totals = self.centring.totals[np.array(self.products.chosen)].prod(axis=1)
            values = joint / n + n * totals - 2.0 * mixed
        return values


def centred_pairs(
    grams: Sequence[Matrix],
    chosen: Sequence[Sequence[int]],
    centring: Centring,
    rows: slice,
    columns: slice,
    out: Matrix,
) -> Iterator[tuple[int, Matrix]]:
    """H_ij = <xi_i, xi_j>, the Gram matrix of the centred products, of every combination.

    With the row means a_i of a centred variable, its mean c and its centred Gram matrix A, a
    variable is k_ij = c + a_i + a_j + A_ij, and xi_i keeps the terms in which two variables or
    more are centred. Multiplying variable by variable, F_pq sums the terms with p centred on the
    side of i and q on that of j, 2 for two or more; H is F_22. For M = 2 it is A_1 A_2.
    Combinations that begin alike share these sums.

    Parameters
    ----------
    grams : sequence of ndarray, shapes (b, c)
        A tile of every kernel. Overwritten.
    chosen : sequence of sequence of int
        G combinations of the numbers of M kernels.
    centring : Centring
        Of all rows.
    rows, columns : slice
        Where the tile is.
    out : ndarray, shape (b, c)
        Overwritten at every step.

    Yields
    ------
    combination : int
        Its number, each once, in any order.
    h : ndarray, shape (b, c)
        `out`.
    """
    for k, gram in enumerate(grams):
        centring.centre(k, gram, rows, columns)
    if len(chosen[0]) == 2:
        for number, (first, second) in enumerate(chosen):
            yield number, np.multiply(grams[first], grams[second], out=out)
        return
    parts = [_parts(k, gram, centring, rows, columns) for k, gram in enumerate(grams)]
    for first, numbers in _by_kernel(chosen, range(len(chosen)), 0):
        yield from _grown(_single(*parts[first]), parts, chosen, numbers, 1, out)


def _grown(
    f: Any,
    parts: Sequence[Any],
    chosen: Sequence[Sequence[int]],
    numbers: Sequence[int],
    m: int,
    out: Matrix,
) -> Iterator[tuple[int, Matrix]]:
    """H of the combinations whose first m variables F is the product of."""
    for k, those in _by_kernel(chosen, numbers, m):
        if m + 1 < len(chosen[0]):
            yield from _grown(_times(f, *parts[k]), parts, chosen, those, m + 1, out)
        else:
            _close(f, parts[k], out)
            yield from ((number, out) for number in those)


def _by_kernel(
    chosen: Sequence[Sequence[int]], numbers: Iterable[int], m: int
) -> Iterable[tuple[int, list[int]]]:
    """Combinations by their kernel of variable m."""
    those: dict[int, list[int]] = {}
    for number in numbers:
        those.setdefault(chosen[number][m], []).append(number)
    return those.items()


def _parts(
    k: int, centred: Matrix, centring: Centring, rows: slice, columns: slice
) -> tuple[float, Matrix, Matrix, Matrix]:
    """c, a_i, a_j and A of a kernel, whose sum it is."""
    c = float(centring.totals[k])
    left = (centring.means[k, rows, None] - c).astype(centred.dtype)
    right = (centring.means[k, columns] - c).astype(centred.dtype)
    return c, left, right, centred


def _single(c: float, left: Matrix, right: Matrix, a: Matrix) -> Any:
    """The sums F of one variable."""
    none = dict.fromkeys([(2, 0), (0, 2), (2, 1), (1, 2), (2, 2)], 0.0)
    return {(0, 0): c, (1, 0): left, (0, 1): right, (1, 1): a, **none}


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


def _close(f: Any, part: Any, out: Matrix) -> None:
    """Write F_22 of the product with the last variable into `out`."""
    c, left, right, a = part
    np.multiply(f[2, 2], (c + left) + right + a, out=out)
    out += f[1, 2] * (left + a)
    out += f[2, 1] * (right + a)
    out += f[1, 1] * a


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
    numbers = tuple(range(1 + len(others)))
    return PermutedProducts(numbers, (numbers,)).sums([first], others, rows, columns)[:, 0]
