"""Second moments of the centred terms of statistics at landmark tuples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.reduction import Footprint, Pass, RowBlock
from dhsic.estimators.landmark.tiles import LANDMARK_TILE_ROWS, TupleTiles
from dhsic.estimators.landmark.tuples import Tuples

Vector = NDArray[np.float64]


class SpectrumSums(NamedTuple):
    """Sums over rows of the centred terms xi, and of xi xi'."""

    plain: Vector
    """sum_i xi_ij, shape (P,)."""
    squares: Vector
    """sum_i xi_ij xi_ik of every statistic, one after another, shape (sum_c P_c^2,)."""


@dataclass(frozen=True)
class SpectrumPass(Pass[SpectrumSums]):
    """The second moments of the centred terms.

    Parameters
    ----------
    tuples : Tuples
        The statistics, whose pilots are the means of the kernels.
    name : str
        The null that they are for.
    """

    tuples: Tuples
    name: str = "second moments"

    @cached_property
    def tiles(self) -> TupleTiles:
        """Tiles of some rows."""
        return TupleTiles(self.tuples, LANDMARK_TILE_ROWS)

    @property
    def sizes(self) -> list[int]:
        """Landmarks of every statistic."""
        return [len(kept) for kept in self.tuples.kept]

    def footprint(self, rows: int) -> Footprint:
        """Cost of a block of so many rows."""
        t, tile = self.tuples, min(rows, LANDMARK_TILE_ROWS)
        squares, values = sum(q * q for q in self.sizes), sum(self.sizes)
        terms = 2 * self.tiles.most_terms * t.dtype.itemsize * tile
        return Footprint(
            payload=t.nbytes,
            scratch=self.tiles.scratch_bytes(tile)
            + terms
            + 8 * (values * tile + max(self.sizes) ** 2),
            state=8 * (squares + values),
        )

    def chunk(self, block: RowBlock) -> SpectrumSums:
        """Sums over one block."""
        sums = SpectrumSums(np.zeros(sum(self.sizes)), np.zeros(sum(q * q for q in self.sizes)))
        for start in range(0, block.rows, LANDMARK_TILE_ROWS):
            self._add_tile([x[start : start + LANDMARK_TILE_ROWS] for x in block.values], sums)
        return sums

    def _add_tile(self, values: Sequence[NDArray[Any]], sums: SpectrumSums) -> None:
        t = self.tuples
        # Products of float32 would leave the covariance indefinite once it is whitened.
        rows = [np.empty((q, len(values[0]))) for q in self.sizes]
        for strip, tiles in self.tiles.of(values):
            for number, at, xi in self.tiles.terms(strip, tiles):
                begin = t.starts[number]
                rows[number][at.start - begin : at.stop - begin] = xi
        for (plain, squares), terms in zip(self.of(sums), rows, strict=True):
            plain += terms.sum(axis=1)
            squares += terms @ terms.T

    def of(self, sums: SpectrumSums) -> list[tuple[Vector, Vector]]:
        """Those of every statistic, shapes (P_c,) and (P_c, P_c); views."""
        plain = np.split(sums.plain, np.cumsum(self.sizes)[:-1])
        squares = np.split(sums.squares, np.cumsum([q * q for q in self.sizes])[:-1])
        shaped = (square.reshape(q, q) for square, q in zip(squares, self.sizes, strict=True))
        return list(zip(plain, shaped, strict=True))
