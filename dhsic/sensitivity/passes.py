"""Passes over the data that compute a sensitivity map: summed up, or as it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.reduction import Footprint, Pass, RowBlock
from dhsic.sensitivity.gradients import BlockGradient

Vector = NDArray[np.float64]
Arrays = tuple[NDArray[Any], ...]


class SquareSums(NamedTuple):
    """Sums over rows of the squares of a map."""

    squares: Vector
    """sum_i S_ij^2, shape (d,), for the columns of all variables one after another."""


@dataclass(frozen=True)
class SquaresPass(Pass[SquareSums]):
    """The sums of squares of a map over the rows; the map itself is forgotten.

    Parameters
    ----------
    gradient : BlockGradient
        The map of a block.
    """

    gradient: BlockGradient
    name: str = "sensitivities"

    def footprint(self, rows: int) -> Footprint:
        """Cost of a block of so many rows."""
        return _footprint(self.gradient, rows, state=8 * sum(self.gradient.dims))

    def chunk(self, block: RowBlock) -> SquareSums:
        """Sums over one block."""
        maps = self.gradient(block)
        # s_j = (1 / n) sum_i S_ij^2 but for 1 / n: Perez-Suay and Camps-Valls (2018), section 3.2.
        return SquareSums(
            np.concatenate(
                [np.einsum("ij,ij->j", derivatives, derivatives) for derivatives in maps]
            )
        )


@dataclass(frozen=True)
class MapPass(Pass[Arrays]):
    """The map itself, with the mean over its columns of its square in every row.

    Parameters
    ----------
    gradient : BlockGradient
        The map of a block.
    dtype : dtype
        Precision of what is returned.
    """

    gradient: BlockGradient
    dtype: np.dtype[Any]
    name: str = "sensitivity map"

    def footprint(self, rows: int) -> Footprint:
        """Cost of a block of so many rows."""
        state = rows * (sum(self.gradient.dims) + 1) * self.dtype.itemsize
        return _footprint(self.gradient, rows, state)

    def chunk(self, block: RowBlock) -> Arrays:
        """The map of every variable, shapes (b, d_m), and the mean squares, shape (b,)."""
        maps = self.gradient(block)
        squares = sum(np.einsum("ij,ij->i", derivatives, derivatives) for derivatives in maps)
        # s_i = (1 / d) sum_j S_ij^2 of all columns, from the same section.
        arrays = (*maps, squares / sum(self.gradient.dims))
        return tuple(array.astype(self.dtype, copy=False) for array in arrays)

    def combine(self, left: Arrays, right: Arrays) -> Arrays:
        """Join neighbours."""
        return tuple(np.concatenate(pair) for pair in zip(left, right, strict=True))


def _footprint(gradient: BlockGradient, rows: int, state: int) -> Footprint:
    maps = 8 * rows * sum(gradient.dims)
    scratch = gradient.scratch(rows) + maps
    return Footprint(gradient.nbytes, scratch, state)
