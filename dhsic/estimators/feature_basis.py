"""The features of two variables, and how their cross-covariance measures dependence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic.estimators.feature_sums import Factors, FeaturePair, MomentSums, covariances
from dhsic.features import FeatureMap
from dhsic.kernels import Kernel
from dhsic.linalg import solve_lower, squared_norms
from dhsic.results import FeatureSummary, LandmarkSummary

__all__ = [
    "SQUARED_HSIC",
    "Basis",
    "Measure",
    "Side",
    "factors_of",
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
    rotates: bool = True
    """Whether rotations of the features of either variable leave the size as it is."""
    adds: bool = False
    """Whether the sizes of parts of the features of the first variable add up to that of all."""


class Side(NamedTuple):
    """The features of one variable."""

    map: FeatureMap
    """Makes them."""
    centre: Matrix
    """Their provisional mean, shape (D,)."""
    factor: Vector | None = None
    """Lower triangular L that whitens them, L^-1 phi, shape (D, D); None where there is none."""
    sample: Matrix | None = None
    """Rows that it was described by, shape (s, d)."""

    @classmethod
    def of(
        cls, one: FeatureMap, sample: Vector, factor: Vector | None = None
    ) -> tuple[Side, float]:
        """About the mean over a sample (s, d), with the mean squared norm there, whitened."""
        features = one(sample)
        centre = features.mean(axis=0, dtype=np.float64).astype(one.dtype)
        side = cls(one, centre, factor, sample)
        features -= side.centre
        return side, float(squared_norms(side.whitened(features.astype(np.float64)).T).mean())

    def whitened(self, features: Matrix) -> Matrix:
        """Features (b, D), whitened."""
        return features if self.factor is None else solve_lower(self.factor, features.T).T


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
    samples : tuple of ndarray or None, shapes (s, d_m)
        Rows of either variable.
    """

    kernels: tuple[Kernel, ...]
    features: FeaturePair
    factors: Factors
    spread: float
    landmarks: LandmarkSummary | None = None
    summary: FeatureSummary | None = None
    samples: tuple[Matrix | None, Matrix | None] = (None, None)

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
        described = list(map(Side.of, maps, samples, factors or (None, None)))
        return cls.joining(kernels, described, landmarks, summary)

    @classmethod
    def joining(
        cls,
        kernels: tuple[Kernel, ...],
        described: Sequence[tuple[Side, float]],
        landmarks: LandmarkSummary | None = None,
        summary: FeatureSummary | None = None,
    ) -> Basis:
        """Of two sides, each with the mean squared norm of its features, as `Side.of`."""
        (first, one), (second, other) = described
        features = FeaturePair((first.map, second.map), (first.centre, second.centre))
        factors = factors_of(first, second)
        samples = first.sample, second.sample
        return cls(kernels, features, factors, one * other, landmarks, summary, samples)

    @property
    def sides(self) -> tuple[Side, Side]:
        """Those of either variable."""
        first, second = map(
            Side,
            self.features.maps,
            self.features.centres,
            self.factors or (None, None),
            self.samples,
        )
        return first, second

    def covariances(self, sums: MomentSums) -> tuple[Matrix, Matrix]:
        """C_1 and C_2, whitened."""
        first, second = covariances(sums.first), covariances(sums.second)
        if self.factors is None:
            return first, second
        one, other = self.factors
        return whiten(first[None], (one, one))[0], whiten(second[None], (other, other))[0]


def factors_of(first: Side, second: Side) -> Factors:
    """What whitens either side; None where they are used as they are."""
    if first.factor is None or second.factor is None:
        return None
    return first.factor, second.factor


def squared_frobenius_norms(cross: Matrix) -> Vector:
    """|C|^2 of every cross-covariance: (b, D_1, D_2) to (b,)."""
    norms: Vector = np.einsum("bij,bij->b", cross, cross)
    return norms


SQUARED_HSIC = Measure("squared HSIC", squared_frobenius_norms, adds=True)


def whiten(cross: Matrix, factors: tuple[Vector | None, Vector | None] | None) -> Matrix:
    """L_1^-1 C L_2^-T of every cross-covariance, shape (b, D_1, D_2), or one side as it is."""
    first, second = factors or (None, None)
    if first is not None:
        b, d1, d2 = cross.shape
        left = cross.transpose(1, 0, 2).reshape(d1, b * d2)
        cross = solve_lower(first, left).reshape(d1, b, d2).transpose(1, 0, 2)
    if second is not None:
        b, d1, d2 = cross.shape
        right = cross.transpose(2, 0, 1).reshape(d2, b * d1)
        cross = solve_lower(second, right).reshape(d2, b, d1).transpose(1, 2, 0)
    return cross


def fourth_moment(sums: Vector) -> float:
    """Mean of |phi - mu|^4 from sums of products of (phi, |phi|^2, 1), shape (D + 2, D + 2).

    |phi - mu|^2 is the inner product of (phi, |phi|^2, 1) and (-2 mu, 1, |mu|^2).
    """
    n = sums[-1, -1]
    mean = sums[-1, :-2] / n
    form = np.concatenate([-2.0 * mean, [1.0, mean @ mean]])
    return float(form @ sums @ form / n)
