"""The features of two variables, and how their cross-covariance measures dependence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic.estimators.feature_sums import Factors, FeaturePair, MomentSums, covariances
from dhsic.features import FeatureMap
from dhsic.kernels import Kernel
from dhsic.linalg import solve_lower, squared_norms
from dhsic.results import FeatureSummary, LandmarkSummary

__all__ = [
    "Basis",
    "Measure",
    "fourth_moment",
    "squared_frobenius_norms",
    "whiten",
]

Vector = NDArray[np.float64]
Matrix = NDArray[np.floating[Any]]


class Measure(NamedTuple):
    """How dependence is measured by whitened cross-covariances."""

    quantity: str
    """What the estimate is."""
    size: Callable[[Matrix], Vector]
    """From (b, D_1, D_2) to (b,); n times it is the statistic."""
    value: Callable[[float], float] = float
    """The estimate, from its size."""


@dataclass(frozen=True)
class Basis:
    """The features of two variables.

    Parameters
    ----------
    kernels : tuple of Kernel
        As fitted.
    features : FeaturePair
        Maps with provisional means.
    factors : tuple of ndarray, shapes (D_m, D_m), or None
        Lower triangular L_m that whiten features, L_m^-1 phi; None where they are used as they
        are.
    spread : float
        Product of the mean squared norms of the whitened features in a sample of either variable.
    landmarks : LandmarkSummary or None
        Where the features have any.
    summary : FeatureSummary or None
        Of the features.
    """

    kernels: tuple[Kernel, ...]
    features: FeaturePair
    factors: Factors
    spread: float
    landmarks: LandmarkSummary | None = None
    summary: FeatureSummary | None = None

    @classmethod
    def of(
        cls,
        kernels: tuple[Kernel, ...],
        maps: tuple[FeatureMap, FeatureMap],
        samples: Sequence[Vector],
        factors: Factors = None,
        landmarks: LandmarkSummary | None = None,
        summary: FeatureSummary | None = None,
    ) -> Basis:
        """With the means of the features over samples (s, d_m) of either variable."""
        first, second = (
            one(x).mean(axis=0, dtype=np.float64).astype(one.dtype)
            for one, x in zip(maps, samples, strict=True)
        )
        features = FeaturePair(maps, (first, second))
        basis = cls(kernels, features, factors, 1.0, landmarks, summary)
        whitened = basis.whitened(
            [features.centred(m, x).astype(np.float64) for m, x in enumerate(samples)]
        )
        spread = np.prod([squared_norms(x.T).mean() for x in whitened])
        return replace(basis, spread=float(spread))

    def covariances(self, sums: MomentSums) -> tuple[Matrix, Matrix]:
        """C_1 and C_2, whitened."""
        first, second = covariances(sums.first), covariances(sums.second)
        if self.factors is None:
            return first, second
        one, other = self.factors
        return whiten(first[None], (one, one))[0], whiten(second[None], (other, other))[0]

    def whitened(self, rows: Sequence[Matrix]) -> list[Matrix]:
        """Features (b, D_m) of either variable, whitened."""
        if self.factors is None:
            return list(rows)
        return [solve_lower(factor, x.T).T for factor, x in zip(self.factors, rows, strict=True)]


def squared_frobenius_norms(cross: Matrix) -> Vector:
    """|C|^2 of every cross-covariance: (b, D_1, D_2) to (b,)."""
    norms: Vector = np.einsum("bij,bij->b", cross, cross)
    return norms


def whiten(cross: Matrix, factors: Factors) -> Matrix:
    """L_1^-1 C L_2^-T of every cross-covariance, shape (b, D_1, D_2)."""
    if factors is None:
        return cross
    b, d1, d2 = cross.shape
    left = cross.transpose(1, 0, 2).reshape(d1, b * d2)
    half = solve_lower(factors[0], left).reshape(d1, b, d2)
    right = half.transpose(2, 1, 0).reshape(d2, b * d1)
    whole: Matrix = solve_lower(factors[1], right).reshape(d2, b, d1).transpose(1, 2, 0)
    return whole


def fourth_moment(sums: Vector) -> float:
    """Mean of |phi - mu|^4 from sums of products of (phi, |phi|^2, 1), shape (D + 2, D + 2).

    |phi - mu|^2 is the inner product of (phi, |phi|^2, 1) and (-2 mu, 1, |mu|^2).
    """
    n = sums[-1, -1]
    mean = sums[-1, :-2] / n
    form = np.concatenate([-2.0 * mean, [1.0, mean @ mean]])
    return float(form @ sums @ form / n)
