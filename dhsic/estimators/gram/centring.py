"""Gram matrices of all rows about their means, and their products."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import product
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.tiles import Matrix
from dhsic.estimators.gram.sums import GramSums
from dhsic.linalg import spectrum
from dhsic.nulls import ChiSquareMixture

Vector = NDArray[np.float64]
Terms = dict[tuple[int, int], Any]


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
