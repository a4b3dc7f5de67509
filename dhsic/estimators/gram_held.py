"""Tests from Gram matrices that are held in memory as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.session import Session
from dhsic.estimators.gram_centring import Centring, PermutedStatistics, centred_pairs
from dhsic.kernels import Combinations
from dhsic.kernels.shared import SharedTiles
from dhsic.linalg import spectrum
from dhsic.nulls import ChiSquareMixture, Permutation, draw_permutations

__all__ = ["PermutedGrams", "gram_matrices", "limit_mixture"]

Vector = NDArray[np.float64]
Matrix = NDArray[np.floating[Any]]

_STRIP = 128


def gram_matrices(session: Session, combinations: Combinations) -> list[Matrix]:
    """The Gram matrices of all rows, one a kernel."""
    session.step("read all rows")
    values = session.take([np.arange(session.n)] * len(session.sources))
    session.step("Gram matrices")
    shared = SharedTiles(combinations.kernels, combinations.variables)
    shape = (session.n, session.n)
    grams = [np.empty(shape, session.dtype) for _ in combinations.kernels]
    rows, columns = shared.rows(values, session.dtype), shared.columns(values, session.dtype)
    shared.tiles(rows, columns, grams, np.empty((shared.work_tiles, *shape), session.dtype))
    return grams


@dataclass(frozen=True)
class PermutedGrams:
    """HSIC times n with all variables but the first permuted over all rows.

    Parameters
    ----------
    strips : tuple of tuple of ndarray
        Rows of the Gram matrices of the first variable from the diagonal on, entries off it
        doubled: one of every kernel, strip by strip.
    others : tuple of ndarray, shapes (n, n)
        The Gram matrices of the other variables, but for those that are powers of others.
    permuted : PermutedStatistics
        Of the combinations of kernels.
    orders : ndarray of int, shape (b, M - 1, n)
        The permutations.
    """

    strips: tuple[tuple[Matrix, ...], ...]
    others: tuple[Matrix, ...]
    permuted: PermutedStatistics
    orders: NDArray[np.intp]

    @classmethod
    def of(
        cls, grams: Sequence[Matrix], permuted: PermutedStatistics, null: Permutation, seed: int
    ) -> PermutedGrams:
        """From Gram matrices, of which those of the first variable are overwritten."""
        products = permuted.products
        firsts, others = grams[: products.n_firsts], tuple(grams[k] for k in products.gathered)
        n = len(grams[0])
        everywhere = slice(0, n)
        permuted.centre_firsts(firsts, everywhere, everywhere)
        strips = tuple(tuple(_upper(k, start) for k in firsts) for start in range(0, n, _STRIP))
        orders = draw_permutations(seed, 0, n, null.n_resamples, products.n_variables)
        return cls(strips, others, permuted, orders)

    def observed(self) -> Vector:
        """The statistics of the data, shape (G,)."""
        n = self.orders.shape[2]
        observed: Vector = self._statistics(
            np.broadcast_to(np.arange(n), (1, *self.orders.shape[1:]))
        )[0]
        return observed

    def __call__(self, replicates: range) -> Vector:
        """The statistics of some of the permutations, shape (r, G)."""
        return self._statistics(self.orders[replicates.start : replicates.stop])

    def _statistics(self, orders: NDArray[np.intp]) -> Vector:
        joint: Any = 0.0
        start = 0
        for firsts in self.strips:
            rows = orders[:, :, start : start + len(firsts[0])]
            joint += self.permuted.products.sums(firsts, self.others, rows, orders[:, :, start:])
            start += len(firsts[0])
        return self.permuted.statistics(joint, self.permuted.mixed_sums(slice(0, start), orders))


def _upper(gram: Matrix, start: int) -> Matrix:
    """Rows from `start` on of twice the upper triangle, the diagonal once."""
    strip = np.triu(gram[start : start + _STRIP, start:])
    strip *= 2
    diagonal = np.arange(len(strip))
    strip[diagonal, diagonal] *= 0.5
    return strip


def limit_mixture(grams: Sequence[Matrix], centring: Centring, factor: float) -> ChiSquareMixture:
    """The limit of a multiple of n V-HSIC under independence; overwrites the Gram matrices.

    For M = 2 the weights are the products of the eigenvalues of either centred Gram matrix
    (Zhang et al. 2018, section 2.4.2), for M > 2 the eigenvalues of that of the centred products.
    """
    n = len(grams[0])
    everywhere = slice(0, n)
    if len(grams) > 2:
        out, chosen = np.empty_like(grams[0]), [range(len(grams))]
        ((_, h),) = centred_pairs(grams, chosen, centring, everywhere, everywhere, out)
        return ChiSquareMixture.of(factor / n * spectrum(h))
    first, second = (
        spectrum(centring.centre(m, gram, everywhere, everywhere)) / n
        for m, gram in enumerate(grams)
    )
    return ChiSquareMixture.of_products(factor * first, second)
