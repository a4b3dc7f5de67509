"""Passes over the data that sum products of the features of two variables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.reduction import Footprint, RowBlock, add
from dhsic.features import FeatureMap
from dhsic.linalg import solve_lower, squared_norms

__all__ = [
    "FeaturePair",
    "MomentSums",
    "MomentsPass",
    "NormMomentsPass",
    "covariances",
]

Matrix = NDArray[np.floating[Any]]
Vector = NDArray[np.float64]
Factors = tuple[Vector, Vector] | None

_ROWS = 1024


@dataclass(frozen=True)
class FeaturePair:
    """The features of two variables about provisional means, so that no digits cancel.

    Parameters
    ----------
    maps : tuple of FeatureMap
        One a variable.
    centres : tuple of ndarray, shapes (D_m,)
        The provisional means, in the precision of the features.
    """

    maps: tuple[FeatureMap, FeatureMap]
    centres: tuple[Matrix, Matrix]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the features."""
        return self.maps[0].dtype

    @property
    def counts(self) -> tuple[int, int]:
        """Features of either variable."""
        return self.maps[0].n_features, self.maps[1].n_features

    @property
    def products(self) -> int:
        """Entries of the sum of products with a one beside the features."""
        d1, d2 = self.counts
        return (d1 + 1) * (d2 + 1)

    @property
    def nbytes(self) -> int:
        """Bytes of the maps and means."""
        return sum(one.nbytes for one in self.maps) + sum(c.nbytes for c in self.centres)

    @property
    def operations(self) -> float:
        """Floating-point operations a row."""
        return sum(one.operations for one in self.maps)

    def scratch(self, rows: int) -> int:
        """Bytes of the features of so many rows and of their product."""
        features = 3 * rows * (sum(self.counts) + 2) + self.products
        return sum(one.scratch(rows) for one in self.maps) + features * self.dtype.itemsize

    def centred(self, m: int, x: NDArray[Any]) -> Matrix:
        """The features of rows of variable m about the provisional mean, shape (b, D_m)."""
        features = self.maps[m](x)
        features -= self.centres[m]
        return features

    def with_ones(self, values: Sequence[NDArray[Any]]) -> list[Matrix]:
        """The features of rows with a one beside them, shapes (b, D_m + 1)."""
        beside = []
        for m, x in enumerate(values):
            out = np.ones((len(x), self.counts[m] + 1), self.dtype)
            out[:, :-1] = self.centred(m, x)
            beside.append(out)
        return beside

    def tiles(
        self, values: Sequence[NDArray[Any]], rows: int
    ) -> Iterator[tuple[slice, list[Matrix]]]:
        """`with_ones` of so many rows at a time."""
        for start in range(0, len(values[0]), rows):
            at = slice(start, min(start + rows, len(values[0])))
            yield at, self.with_ones([x[at] for x in values])


class MomentSums(NamedTuple):
    """Sums over rows of products of features with a one beside them."""

    cross: Vector
    """sum_i a_1i a_2i', shape (D_1 + 1, D_2 + 1)."""
    first: Vector
    """sum_i a_1i a_1i'."""
    second: Vector
    """sum_i a_2i a_2i'."""


@dataclass(frozen=True)
class MomentsPass:
    """Means, covariances and cross-covariance of the features.

    Products are float64, since whitening would turn what float32 leaves of the least eigenvalues
    into negative ones.

    Parameters
    ----------
    features : FeaturePair
        Of the two variables.
    """

    features: FeaturePair
    name: str = "feature moments"
    row_multiple: int = 1

    def footprint(self, rows: int) -> Footprint:
        """Cost of a block of so many rows."""
        f = self.features
        squares = sum((d + 1) ** 2 for d in f.counts)
        return Footprint(
            payload=f.nbytes,
            scratch=f.scratch(min(rows, _ROWS)) + 8 * (squares + min(rows, _ROWS) * sum(f.counts)),
            state=8 * (f.products + squares),
            operations=f.operations + 2.0 * f.products + squares,
        )

    def chunk(self, block: RowBlock) -> MomentSums:
        """Sums over one block."""
        d1, d2 = self.features.counts
        sums = MomentSums(*(np.zeros((p + 1, q + 1)) for p, q in [(d1, d2), (d1, d1), (d2, d2)]))
        for _, tiles in self.features.tiles(block.values, _ROWS):
            a1, a2 = (a.astype(np.float64, copy=False) for a in tiles)
            for total, left, right in zip(sums, (a1, a1, a2), (a2, a1, a2), strict=True):
                total += left.T @ right
        return sums

    def combine(self, left: MomentSums, right: MomentSums) -> MomentSums:
        """Add."""
        return add(left, right)


@dataclass(frozen=True)
class NormMomentsPass:
    """As `MomentsPass`, for fourth moments: whitened features have their squared norm beside them.

    Parameters
    ----------
    features : FeaturePair
        Of the two variables.
    factors : tuple of ndarray, shapes (D_m, D_m), or None
        Lower triangular L_m that whiten features, L_m^-1 phi; None where they are used as they
        are.
    """

    features: FeaturePair
    factors: Factors
    name: str = "feature moments"
    row_multiple: int = 1

    def footprint(self, rows: int) -> Footprint:
        """Cost of a block of so many rows."""
        f, tile = self.features, min(rows, _ROWS)
        squares = sum((d + 2) ** 2 for d in f.counts)
        factors = 0 if self.factors is None else sum(factor.nbytes for factor in self.factors)
        return Footprint(
            payload=f.nbytes + factors,
            scratch=f.scratch(tile) + 8 * (squares + 4 * tile * (sum(f.counts) + 3)),
            state=8 * (f.products + squares),
            operations=f.operations + 2.0 * f.products + 2.0 * squares,
        )

    def chunk(self, block: RowBlock) -> MomentSums:
        """Sums over one block, where `first` and `second` are of (L_m^-1 phi, its norm^2, 1)."""
        d1, d2 = self.features.counts
        shapes = (d1 + 1, d2 + 1), (d1 + 2, d1 + 2), (d2 + 2, d2 + 2)
        sums = MomentSums(*map(np.zeros, shapes))
        one, other = self.factors or (None, None)
        for _, tiles in self.features.tiles(block.values, _ROWS):
            a1, a2 = (a.astype(np.float64, copy=False) for a in tiles)
            b1, b2 = _with_norms(a1, one), _with_norms(a2, other)
            for total, left, right in zip(sums, (a1, b1, b2), (a2, b1, b2), strict=True):
                total += left.T @ right
        return sums

    def combine(self, left: MomentSums, right: MomentSums) -> MomentSums:
        """Add."""
        return add(left, right)


def _with_norms(features: Vector, factor: Vector | None) -> Vector:
    out = np.ones((len(features), features.shape[1] + 1))
    own = features[:, :-1]
    out[:, :-2] = own if factor is None else solve_lower(factor, own.T).T
    out[:, -2] = squared_norms(out[:, :-2].T)
    return out


def covariances(sums: Vector) -> Vector:
    """Covariances with 1/n from sums of products with a one beside.

    Parameters
    ----------
    sums : ndarray, shape (..., D_1 + 1, D_2 + 1)
        Whose last entry is the number of rows.

    Returns
    -------
    ndarray, shape (..., D_1, D_2)
    """
    means = sums / sums[..., -1:, -1:]
    centred: Vector = means[..., :-1, :-1] - means[..., :-1, -1:] * means[..., -1:, :-1]
    return centred
