"""The pass that sums products of the features of all variables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.reduction import Footprint, RowBlock, add
from dhsic.features import FeatureMap

__all__ = ["AllMomentSums", "AllMomentsPass"]

Matrix = NDArray[np.floating[Any]]
Vector = NDArray[np.float64]

_ROWS = 1024


class AllMomentSums(NamedTuple):
    """Sums over rows of products of all features with a one beside them."""

    products: Vector
    """sum_i a_i a_i', shape (D + 1, D + 1)."""


@dataclass(frozen=True)
class AllMomentsPass:
    """Means, covariances and cross-covariances of the features of all variables, side by side.

    Products are float64, since whitening would turn what float32 leaves of the least eigenvalues
    into negative ones.

    Parameters
    ----------
    maps : tuple of FeatureMap
        One a variable, of D_m features, D in all.
    centres : tuple of ndarray, shapes (D_m,)
        Provisional means, so that no digits cancel.
    """

    maps: tuple[FeatureMap, ...]
    centres: tuple[Matrix, ...]
    name: str = "feature moments"
    row_multiple: int = 1

    @property
    def n_features(self) -> int:
        """Features of all variables, D."""
        return sum(one.n_features for one in self.maps)

    def footprint(self, rows: int) -> Footprint:
        """Cost of a block of so many rows."""
        tile, wide = min(rows, _ROWS), self.n_features + 1
        own = max(one.scratch(tile) + 8 * tile * one.n_features for one in self.maps)
        return Footprint(
            payload=sum(one.nbytes for one in self.maps) + sum(c.nbytes for c in self.centres),
            scratch=own + 8 * (tile * wide + wide**2),
            state=8 * wide**2,
            operations=sum(one.operations for one in self.maps) + float(wide**2),
        )

    def chunk(self, block: RowBlock) -> AllMomentSums:
        """Sums over one block."""
        wide = self.n_features + 1
        products = np.zeros((wide, wide))
        for start in range(0, block.rows, _ROWS):
            tile = self._features([x[start : start + _ROWS] for x in block.values])
            products += tile.T @ tile
        return AllMomentSums(products)

    def _features(self, values: list[NDArray[Any]]) -> Vector:
        """Features of rows about the provisional means with a one beside, (b, D + 1)."""
        out = np.ones((len(values[0]), self.n_features + 1))
        at = 0
        for one, centre, x in zip(self.maps, self.centres, values, strict=True):
            np.subtract(one(x), centre, out=out[:, at : at + one.n_features])
            at += one.n_features
        return out

    def combine(self, left: AllMomentSums, right: AllMomentSums) -> AllMomentSums:
        """Add."""
        return add(left, right)
