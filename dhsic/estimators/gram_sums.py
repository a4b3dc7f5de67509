"""What the sums of Gram matrices say: HSIC, and its moments under independence."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.tiles import Matrix

__all__ = ["GramSums", "hsic", "marginal_hsic", "null_moments"]

Vector = NDArray[np.float64]


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
    def zeros(cls, m: int, n: int) -> Self:
        """Of no rows yet."""
        return cls(np.zeros((m, n)), np.zeros((m, n)), np.zeros(m), 0.0)

    @classmethod
    def of(cls, grams: Sequence[Matrix]) -> Self:
        """Of Gram matrices in memory."""
        return cls(
            np.array([gram.sum(axis=1, dtype=np.float64) for gram in grams]),
            np.array([gram.diagonal() for gram in grams], np.float64),
            np.array([np.vdot(gram, gram) for gram in grams], np.float64),
            float(np.einsum(",".join(["ij"] * len(grams)), *grams, dtype=np.float64)),
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


def hsic(sums: GramSums, *, unbiased: bool) -> float:
    """Squared HSIC.

    Parameters
    ----------
    sums : GramSums
        Of M variables.
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
    norms: Vector = sums.squares / n**2 + means.mean(axis=1) ** 2 - 2.0 * (means**2).mean(axis=1)
    return norms


def _u_product(joint: float, left: Vector, right: Vector) -> float:
    """Inner product of two U-centred matrices from their sum of products and their row sums."""
    n = len(left)
    totals = float(left.sum() * right.sum()) / ((n - 1) * (n - 2))
    return (joint + totals - 2.0 * float(left @ right) / (n - 2)) / (n * (n - 3))


def null_moments(sums: GramSums) -> tuple[float, float]:
    """Mean and variance of n times V-HSIC under joint independence.

    Those of Gretton et al. (2008), section 3, for M = 2, and of Pfister et al. (2018), section
    3.3, for M >= 2, from the moments of the marginals, estimated without bias: e_0, e_1 and e_2,
    the means of k(x, x')^2, k(x, x') and k(x, x') k(x, x''). The variance is that of the limit,
    without their factor n^2 [(n - 2M)!]^2 / (n! (n - 4M + 2)!) < 1, which leaves out what terms of
    lower order add: for M = 3 and n = 100 it is 0.85, where the variance without it is already 4 %
    to 25 % less than measured.

    Parameters
    ----------
    sums : GramSums
        Of M variables and n >= 4 rows.

    Returns
    -------
    mean, variance : float
    """
    n = sums.n
    off = sums.without_diagonal()
    totals, row_squares = off.rows.sum(axis=1), (off.rows**2).sum(axis=1)
    e0 = off.squares / math.perm(n, 2)
    e1 = totals / math.perm(n, 2)
    e2 = (row_squares - off.squares) / math.perm(n, 3)
    e1_squared = (totals**2 - 4 * row_squares + 2 * off.squares) / math.perm(n, 4)
    mean = _expected_norm(sums.diagonal.mean(axis=1), e1)
    return mean, 2.0 * _expected_square(e0, e1_squared, e2)


def _expected_norm(diagonal: Vector, e1: Vector) -> float:
    """E |xi|^2 = prod t - sum_m t_m prod_{l != m} e_1l + (M - 1) prod e_1, t the mean diagonal."""
    m = len(e1)
    return float(diagonal.prod() - diagonal @ _products_of_others(e1) + (m - 1) * e1.prod())


def _expected_square(e0: Vector, e1_squared: Vector, e2: Vector) -> float:
    """E <xi, xi'>^2 for independent variables."""
    m = len(e0)
    pairs = sum(
        e2[j] * e2[k] * np.prod(np.delete(e1_squared, [j, k]))
        for j, k in itertools.permutations(range(m), 2)
    )
    return float(
        e0.prod()
        + (m - 1) ** 2 * e1_squared.prod()
        + 2 * (m - 1) * e2.prod()
        + e0 @ _products_of_others(e1_squared)
        - 2 * e0 @ _products_of_others(e2)
        - 2 * (m - 1) * e2 @ _products_of_others(e1_squared)
        + pairs
    )


def _products_of_others(values: Vector) -> Vector:
    return np.array([np.prod(np.delete(values, m)) for m in range(len(values))])
