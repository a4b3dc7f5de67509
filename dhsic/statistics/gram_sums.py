"""Sums of Gram matrices and what they say: HSIC, and the matrices about their means."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import product
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.tiles import Matrix
from dhsic.errors import DataError
from dhsic.linalg import hadamard, rounding_unit, spectrum
from dhsic.nulls import ChiSquareMixture

Vector = NDArray[np.float64]
Terms = dict[tuple[int, int], Any]

# Its divisor is n (n - 3).
_FEWEST_UNBIASED = 4
_UNCENTRED = 32.0


class GramSums(NamedTuple):
    """Sums of the Gram matrices of K kernels and n rows, and of C products of some of them."""

    rows: Vector
    """sum_j K_k,ij, shape (K, n)."""
    diagonal: Vector
    """K_k,ii, shape (K, n)."""
    squares: Vector
    """sum_ij K_k,ij^2, shape (K,)."""
    joint: Vector
    """sum_ij prod_m K_m,ij, shape (C,)."""
    chosen: tuple[tuple[int, ...], ...]
    """Numbers of the M kernels of every product."""

    @classmethod
    def of(cls, grams: Sequence[Matrix]) -> Self:
        """From Gram matrices in memory, and the product of all."""
        return cls(
            np.array([gram.sum(axis=1, dtype=np.float64) for gram in grams]),
            np.array([gram.diagonal() for gram in grams], np.float64),
            np.array([np.vdot(gram, gram) for gram in grams], np.float64),
            np.array([hadamard([grams[0].copy(), *grams[1:]]).sum(dtype=np.float64)]),
            (tuple(range(len(grams))),),
        )

    @property
    def n(self) -> int:
        """Rows."""
        return len(self.rows[0])

    def only(self, c: int) -> GramSums:
        """Those of one of the products."""
        at = list(self.chosen[c])
        every = (tuple(range(len(at))),)
        sums = self.rows[at], self.diagonal[at], self.squares[at]
        return GramSums(*sums, self.joint[c : c + 1], every)

    def without_diagonal(self) -> GramSums:
        """The same of matrices whose diagonal is zero, as in U-statistics."""
        products = self.diagonal[np.array(self.chosen)].prod(axis=1).sum(axis=1)
        return self._replace(
            rows=self.rows - self.diagonal,
            diagonal=np.zeros_like(self.diagonal),
            squares=self.squares - (self.diagonal**2).sum(axis=1),
            joint=self.joint - products,
        )

    def hsic(self, *, unbiased: bool) -> Vector:
        """Squared HSIC of every product, shape (C,).

        The U-statistic is for M = 2 (Song et al. 2012; Zhang et al. 2018, equation 6); else it is
        the V-statistic for M >= 2 (Kalinke and Szabo 2023, equation 5).
        """
        chosen, n = np.array(self.chosen), self.n
        if unbiased:
            sums = self.without_diagonal()
            return _u_products(sums.joint, *sums.rows[chosen.T])
        means = self.rows / n
        # Kalinke and Szabo (2023), equation 5: a mean of products, a product of means, and the
        # cross term; row means are all that the last two need, so that no Gram matrix stays in
        # memory.
        cross = hadamard(list(means[chosen.T])).mean(axis=1)
        product = means.mean(axis=1)[chosen].prod(axis=1)
        sizes: Vector = self.joint / n**2 + product - 2.0 * cross
        return sizes

    def own(self, *, unbiased: bool) -> Vector:
        """Squared HSIC of every variable of every product with itself, shape (C, M)."""
        n = self.n
        if unbiased:
            off = self.rows - self.diagonal
            norms = _u_products(self.squares - (self.diagonal**2).sum(axis=1), off, off)
        else:
            means = self.rows / n
            # The same V-statistic of a kernel with itself: squares take the place of products.
            crosses = 2.0 * np.vecdot(means, means) / n
            norms = self.squares / n**2 + means.mean(axis=1) ** 2 - crosses
        each: Vector = norms[np.array(self.chosen)]
        return each

    def rounding(self, dtype: np.dtype[Any]) -> Vector:
        """The error that the terms of n times HSIC leave where they cancel, shape (C,)."""
        scales = np.abs(self.rows / self.n).mean(axis=1)[np.array(self.chosen)]
        errors: Vector = _UNCENTRED * rounding_unit(dtype) * self.n * scales.prod(axis=1)
        return errors


def check_rows(n: int, *, unbiased: bool) -> None:
    """Refuse fewer rows than the unbiased estimate is defined for.

    Raises
    ------
    DataError
        There are fewer.
    """
    if unbiased and n < _FEWEST_UNBIASED:
        msg = (
            f"an unbiased estimate needs at least {_FEWEST_UNBIASED} rows, got {n}: add rows, or "
            "take a V-statistic, as 'v-hsic' or unbiased=False"
        )
        raise DataError(msg)


def _u_products(joint: Vector, left: Vector, right: Vector) -> Vector:
    """Inner products of U-centred matrices from their sums of products and their row sums."""
    n = left.shape[1]
    # Song et al. (2012); Zhang et al. (2018), equation 6: diagonals are 0, and the divisors count
    # the quadruples of different rows.
    totals = left.sum(axis=1) * right.sum(axis=1) / ((n - 1) * (n - 2))
    products: Vector = (joint + totals - 2.0 * np.vecdot(left, right) / (n - 2)) / (n * (n - 3))
    return products


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
    def of(cls, sums: GramSums, *, unbiased: bool) -> Self:
        """From the sums of all rows."""
        if unbiased:
            # Szekely and Rizzo (2014): a row without its diagonal, over n - 2.
            return cls((sums.rows - sums.diagonal) / (sums.n - 2), unbiased)
        return cls(sums.rows / sums.n, unbiased)

    @cached_property
    def totals(self) -> Vector:
        """Means of the Gram matrices as the centring takes them, shape (K,)."""
        n = self.means.shape[1]
        # For the U-statistic the total over (n - 1) (n - 2), since the means are row sums over n -
        # 2.
        totals: Vector = self.means.sum(axis=1) / (n - 1 if self.unbiased else n)
        return totals

    def centre(self, k: int, gram: Matrix) -> Matrix:
        """Centre the Gram matrix of kernel k in place."""
        # H K H entry by entry: K_ij - mean_i - mean_j + mean, half of the last in either term.
        shift = (self.means[k] - 0.5 * self.totals[k]).astype(gram.dtype)
        gram -= shift[:, None]
        gram -= shift
        if self.unbiased:
            # U-centring, of Szekely and Rizzo (2014), leaves the diagonal out of every sum.
            np.fill_diagonal(gram, 0.0)
        return gram


def _centred_products(grams: Sequence[Matrix], centring: Centring) -> Matrix:
    """H_ij = <xi_i, xi_j>, the Gram matrix of the centred products; overwrites the Gram matrices.

    With the row means a_i of a centred variable, its mean c and its centred Gram matrix A, a
    variable is k_ij = c + a_i + a_j + A_ij, and xi_i keeps the terms in which two variables or
    more are centred. Multiplying variable by variable, F_pq sums the terms with p centred on the
    side of i and q on that of j, 2 for two or more; H is F_22.
    """

    def terms(k: int) -> Terms:
        c = float(centring.totals[k])
        # a_i is the mean of row i less the mean of all.
        means = (centring.means[k] - c).astype(grams[k].dtype)
        return {
            (0, 0): c,
            (1, 0): means[:, None],
            (0, 1): means,
            (1, 1): centring.centre(k, grams[k]),
        }

    *first, last = map(terms, range(len(grams)))
    h: Matrix = _times_variable(reduce(_times_variable, first), last, {(2, 2)})[2, 2]
    return h


def _times_variable(f: Terms, by: Terms, wanted: Container[tuple[int, int]] | None = None) -> Terms:
    """The sums F multiplied by one more variable; all of them, or those that are wanted."""
    sums: Terms = {}
    for ((p, q), value), ((power, other), factor) in product(f.items(), by.items()):
        key = min(p + power, 2), min(q + other, 2)
        if wanted is None or key in wanted:
            sums[key] = sums.get(key, 0.0) + value * factor
    return sums


def limit_mixture(grams: Sequence[Matrix], centring: Centring) -> ChiSquareMixture:
    """The limit of n V-HSIC under independence; overwrites the Gram matrices.

    For M = 2 the weights are the products of the eigenvalues of either centred Gram matrix
    (Zhang et al. 2018, section 2.4.2), for M > 2 the eigenvalues of that of the centred products.
    """
    n = len(grams[0])
    if len(grams) > 2:
        h = _centred_products(grams, centring)
        # Eigenvalues of a Gram matrix over n are those of the covariance operator of the sample.
        return ChiSquareMixture.of(spectrum(h) / n)
    first, second = (spectrum(centring.centre(m, gram)) / n for m, gram in enumerate(grams))
    return ChiSquareMixture.of_products(first, second)
