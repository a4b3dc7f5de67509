"""The features of two variables, and how their cross-covariance measures dependence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic.features import FeatureMap
from dhsic.kernels import Kernel
from dhsic.linalg import solve_lower, squared_norms
from dhsic.results import FeatureSummary, LandmarkSummary

Vector = NDArray[np.float64]
Matrix = NDArray[np.floating[Any]]
Factors = tuple[Vector | None, Vector | None]


class Measure(NamedTuple):
    """How dependence is measured by whitened cross-covariances."""

    quantity: str
    """Name of the estimate."""
    size: Callable[[Matrix], Vector]
    """From (b, D_1, D_2) to (b,); n times it is the statistic."""
    value: Callable[[float], float] = float
    """The estimate, from its size."""
    adds: bool = False
    """Whether the sizes of parts of the features of the first variable add up to that of all."""


class Side(NamedTuple):
    """The features of one variable by one kernel."""

    map: FeatureMap
    """Makes them."""
    centre: Matrix
    """Their provisional mean, shape (D,)."""
    factor: Vector | None = None
    """Lower triangular L that whitens them, L^-1 phi, shape (D, D); None where there is none."""
    sample: Matrix | None = None
    """Rows that it was described by, shape (s, d)."""
    known_spread: float | None = None
    """`spread`, where it is known."""
    projection: Vector | None = None
    """Makes those that are summed, W phi, in place of the factor, shape (r, D)."""
    spanned: bool = False
    """Whether the features hold the kernel but for what rounding leaves."""

    @classmethod
    def of(cls, features_of: FeatureMap, sample: Vector, factor: Vector | None = None) -> Side:
        """About the mean over a sample (s, d)."""
        features = features_of(sample)
        # Sums of features about it are small, so that the true mean is taken off without
        # cancellation.
        centre = features.mean(axis=0, dtype=np.float64).astype(features_of.dtype)
        return cls(features_of, centre, factor, sample)

    @property
    def spread(self) -> float:
        """Mean squared norm of the whitened features of the rows that it was described by."""
        if self.known_spread is not None:
            return self.known_spread
        features = (self.values() - self.centre).astype(np.float64)
        return float(squared_norms(self.whitened(features).T).mean())

    def values(self) -> Matrix:
        """The features of the rows that it was described by, shape (s, D)."""
        assert self.sample is not None
        return self.map(self.sample)

    @property
    def n_features(self) -> int:
        """How many, D."""
        return self.map.n_features

    @property
    def n_summed(self) -> int:
        """How many are summed."""
        return self.n_features if self.projection is None else len(self.projection)

    def whitened(self, features: Matrix) -> Matrix:
        """Features (b, D), whitened."""
        # L^-1 stands for K_zz^(-1/2) of Zhang et al. (2018), (28): a rotation, which no inner
        # product sees.
        return features if self.factor is None else solve_lower(self.factor, features.T).T

    def summed(self, features: Matrix) -> Matrix:
        """Those that are summed, of features (b, D) about the provisional mean."""
        if self.projection is None:
            return self.whitened(features)
        return features @ self.projection.T


@dataclass(frozen=True)
class Basis:
    """The features of two variables.

    Parameters
    ----------
    kernels : tuple of Kernel
        As fitted.
    sides : tuple of Side
        Their features.
    landmarks : LandmarkSummary or None
        Where the features have any.
    summary : FeatureSummary or None
        Describes the features.
    """

    kernels: tuple[Kernel, ...]
    sides: tuple[Side, ...]
    landmarks: LandmarkSummary | None = None
    summary: FeatureSummary | None = None

    @property
    def factors(self) -> Factors:
        """Factors that whiten either side."""
        first, second = self.sides
        return first.factor, second.factor


def unseen_sides(
    maps: Sequence[FeatureMap],
    *,
    whitened: bool,
    counts: Sequence[int] | None = None,
) -> dict[int, Side]:
    """Features by number, with means and matrices that take no memory, for plans.

    Parameters
    ----------
    maps : sequence of FeatureMap
        One a kernel.
    whitened : bool
        Whether they have factors.
    counts : sequence of int, optional
        How many are summed of those of each, by projections.
    """
    zero = maps[0].dtype.type(0)
    sides = {
        k: Side(
            features,
            np.broadcast_to(zero, features.n_features),
            np.broadcast_to(0.0, (features.n_features,) * 2) if whitened else None,
        )
        for k, features in enumerate(maps)
    }
    for k, r in enumerate(counts or ()):
        projection = np.broadcast_to(0.0, (r, maps[k].n_features))
        sides[k] = sides[k]._replace(projection=projection)
    return sides


def squared_frobenius_norms(cross: Matrix) -> Vector:
    """|C|^2 of every cross-covariance: (b, D_1, D_2) to (b,)."""
    # The Hilbert-Schmidt norm of a matrix is its Frobenius norm (Zhang et al. 2018, section 4).
    norms: Vector = np.einsum("bij,bij->b", cross, cross)
    return norms


SQUARED_HSIC = Measure("squared HSIC", squared_frobenius_norms, adds=True)


def whiten(cross: Matrix, factors: Factors) -> Matrix:
    """L_1^-1 C L_2^-T of every cross-covariance, shape (b, D_1, D_2), or a side as it is."""
    first, second = factors
    if first is not None:
        b, d1, d2 = cross.shape
        # One triangular solve serves all replicates, whose matrices stand side by side.
        left = cross.transpose(1, 0, 2).reshape(d1, b * d2)
        cross = solve_lower(first, left).reshape(d1, b, d2).transpose(1, 0, 2)
    if second is not None:
        b, d1, d2 = cross.shape
        right = cross.transpose(2, 0, 1).reshape(d2, b * d1)
        cross = solve_lower(second, right).reshape(d2, b, d1).transpose(1, 2, 0)
    return cross
