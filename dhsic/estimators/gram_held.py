"""Tests from Gram matrices that are held in memory as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.session import Session
from dhsic.estimators.gram_centring import STRIP, Centring, centred_pairs, permuted_sums
from dhsic.kernels import Kernel
from dhsic.linalg import spectrum
from dhsic.nulls import ChiSquareMixture, Permutation, draw_permutations

__all__ = ["PermutedGrams", "gram_matrices", "limit_mixture"]

Vector = NDArray[np.float64]
Matrix = NDArray[np.floating[Any]]


def gram_matrices(session: Session, kernels: Sequence[Kernel]) -> list[Matrix]:
    """The Gram matrices of all rows, one a variable."""
    session.step("read all rows")
    values = session.take([np.arange(session.n)] * len(session.sources))
    session.step("Gram matrices")
    return [_gram(kernel, x, session.dtype) for kernel, x in zip(kernels, values, strict=True)]


def _gram(kernel: Kernel, x: Vector, dtype: np.dtype[Any]) -> Matrix:
    out = np.empty((len(x), len(x)), dtype)
    work = np.empty((kernel.work_tiles, *out.shape), dtype)
    kernel.tile(kernel.rows(x, dtype), kernel.columns(x, dtype), out, work)
    return out


@dataclass(frozen=True)
class PermutedGrams:
    """HSIC times n with all variables but the first permuted over all rows.

    Parameters
    ----------
    strips : tuple of ndarray
        Rows of the first Gram matrix from the diagonal on, entries off it doubled.
    others : tuple of ndarray, shapes (n, n)
        The Gram matrices of the other variables.
    centring : Centring
        From the Gram sums.
    orders : ndarray of int, shape (b, M - 1, n)
        The permutations.
    """

    strips: tuple[Matrix, ...]
    others: tuple[Matrix, ...]
    centring: Centring
    orders: NDArray[np.intp]

    @classmethod
    def of(
        cls, grams: Sequence[Matrix], centring: Centring, null: Permutation, seed: int
    ) -> PermutedGrams:
        """From Gram matrices, of which the first is overwritten."""
        first, *others = grams
        n = len(first)
        everywhere = slice(0, n)
        centring.centre_first(first, everywhere, everywhere)
        strips = tuple(_upper(first, start) for start in range(0, n, STRIP))
        orders = draw_permutations(seed, 0, n, null.n_resamples, len(grams))
        return cls(strips, tuple(others), centring, orders)

    def observed(self) -> float:
        """The statistic of the data."""
        n = self.orders.shape[2]
        return float(
            self._statistics(np.broadcast_to(np.arange(n), (1, *self.orders.shape[1:])))[0]
        )

    def __call__(self, replicates: range) -> Vector:
        """The statistic of some of the permutations."""
        return self._statistics(self.orders[replicates.start : replicates.stop])

    def _statistics(self, orders: NDArray[np.intp]) -> Vector:
        joint = np.zeros(len(orders))
        start = 0
        for strip in self.strips:
            rows = orders[:, :, start : start + len(strip)]
            joint += permuted_sums(strip, self.others, rows, orders[:, :, start:])
            start += len(strip)
        mixed = self.centring.mixed_sums(slice(0, start), orders)
        return self.centring.statistics(joint, mixed)


def _upper(gram: Matrix, start: int) -> Matrix:
    """Rows from `start` on of twice the upper triangle, the diagonal once."""
    strip = np.triu(gram[start : start + STRIP, start:])
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
        h = centred_pairs(grams, centring, everywhere, everywhere)
        return ChiSquareMixture.of(factor / n * spectrum(h))
    first, second = (
        spectrum(centring.centre(m, gram, everywhere, everywhere)) / n
        for m, gram in enumerate(grams)
    )
    return ChiSquareMixture.of_products(factor * first, second)
