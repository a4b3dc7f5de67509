"""Sums of Gram matrices and what they say: HSIC of the variables, and of each with itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.tiles import Matrix
from dhsic.errors import DataError
from dhsic.estimators.base import rounding_unit
from dhsic.linalg import hadamard

Vector = NDArray[np.float64]

# Its divisor is n (n - 3).
_FEWEST_UNBIASED = 4
_UNCENTRED = 32.0


class GramSums(NamedTuple):
    """Sums of the Gram matrices K_m of n rows and of their Hadamard product."""

    rows: Vector
    """sum_j K_m,ij, shape (M, n)."""
    diagonal: Vector
    """K_m,ii, shape (M, n)."""
    squares: Vector
    """sum_ij K_m,ij^2, shape (M,)."""
    joint: float
    """sum_ij prod_m K_m,ij."""

    @classmethod
    def of(cls, grams: Sequence[Matrix]) -> Self:
        """From Gram matrices in memory."""
        return cls(
            np.array([gram.sum(axis=1, dtype=np.float64) for gram in grams]),
            np.array([gram.diagonal() for gram in grams], np.float64),
            np.array([np.vdot(gram, gram) for gram in grams], np.float64),
            float(hadamard([grams[0].copy(), *grams[1:]]).sum(dtype=np.float64)),
        )

    @property
    def n(self) -> int:
        """Rows."""
        return len(self.rows[0])

    def without_diagonal(self) -> GramSums:
        """The same of matrices whose diagonal is zero, as in U-statistics."""
        return GramSums(
            self.rows - self.diagonal,
            np.zeros_like(self.diagonal),
            self.squares - (self.diagonal**2).sum(axis=1),
            self.joint - float(self.diagonal.prod(axis=0).sum()),
        )


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


def gram_hsic(sums: GramSums, *, unbiased: bool) -> float:
    """Squared HSIC.

    Parameters
    ----------
    sums : GramSums
        Those of M variables.
    unbiased : bool
        The U-statistic for M = 2 (Song et al. 2012; Zhang et al. 2018, equation 6); else the
        V-statistic for M >= 2 (Kalinke and Szabo 2023, equation 5).

    Returns
    -------
    float
    """
    n = sums.n
    if unbiased:
        sums = sums.without_diagonal()
        return _u_product(sums.joint, *sums.rows)
    means = sums.rows / n
    # Kalinke and Szabo (2023), equation 5: a mean of products, a product of means, and the cross
    # term; row means are all that the last two need, so that no Gram matrix stays in memory.
    product_of_means = float(means.mean(axis=1).prod())
    return sums.joint / n**2 + product_of_means - 2.0 * float(means.prod(axis=0).mean())


def marginal_hsic(sums: GramSums, *, unbiased: bool) -> Vector:
    """Squared HSIC of every variable with itself, shape (M,)."""
    n = sums.n
    if unbiased:
        sums = sums.without_diagonal()
        pairs = zip(sums.squares, sums.rows, strict=True)
        return np.array([_u_product(square, rows, rows) for square, rows in pairs])
    means = sums.rows / n
    # The same V-statistic of a kernel with itself: squares take the place of products.
    norms: Vector = sums.squares / n**2 + means.mean(axis=1) ** 2 - 2.0 * (means**2).mean(axis=1)
    return norms


def rounding(sums: GramSums, dtype: np.dtype[Any]) -> float:
    """The error that the terms of n times HSIC leave where they cancel."""
    scale = float(np.abs(sums.rows / sums.n).mean(axis=1).prod())
    return _UNCENTRED * rounding_unit(dtype) * sums.n * scale


def _u_product(joint: float, left: Vector, right: Vector) -> float:
    """Inner product of two U-centred matrices from their sum of products and their row sums."""
    n = len(left)
    # Song et al. (2012); Zhang et al. (2018), equation 6: diagonals are 0, and the divisors count
    # the quadruples of different rows.
    totals = float(left.sum() * right.sum()) / ((n - 1) * (n - 2))
    return (joint + totals - 2.0 * float(left @ right) / (n - 2)) / (n * (n - 3))
