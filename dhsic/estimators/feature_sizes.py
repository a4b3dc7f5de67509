"""Sizes of cross-covariances of features under many permutations."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic.estimators.feature_basis import Measure, whiten
from dhsic.estimators.feature_spectra import Crossing

__all__ = ["SLAB_BYTES", "Block", "ShiftedSizes"]

Vector = NDArray[np.float64]

SLAB_BYTES = 2**21  # of cross-covariances that are whitened at a time


class Block(NamedTuple):
    """The cross-covariances of one combination among all."""

    crossing: Crossing
    """Those of its rectangle."""
    first: slice
    """Its features among those of the first side of the rectangle."""
    second: slice
    """The same of the second side."""
    factors: tuple[Vector | None, Vector | None]
    """What still whitens them."""


@dataclass(frozen=True)
class ShiftedSizes:
    """Sizes of cross-covariances under many permutations.

    Parameters
    ----------
    cross : ndarray, shape (N, P)
        Of the features of all combinations.
    blocks : tuple of Block
        The combinations.
    measure : Measure
        Of cross-covariances.
    """

    cross: Vector
    blocks: tuple[Block, ...]
    measure: Measure

    def __call__(self, permutations: range) -> Vector:
        """Of some of the permutations, shape (permutations, combinations)."""
        cross = self.cross[permutations.start : permutations.stop]
        return np.stack([self._sizes(cross, block) for block in self.blocks], axis=1)

    def _sizes(self, cross: Vector, block: Block) -> Vector:
        whole = block.crossing.of(cross)[:, block.first, block.second]
        step = max(1, SLAB_BYTES // (8 * math.prod(whole.shape[1:])))
        slabs = (whole[start : start + step] for start in range(0, len(whole), step))
        return np.concatenate([self.measure.size(whiten(slab, block.factors)) for slab in slabs])
