"""Passes over the data that sum kernels of many features and one target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic._random import random_signs
from dhsic.engine.reduction import Footprint, RowBlock, add
from dhsic.engine.tiles import Matrix, column_sums
from dhsic.estimators.landmark_sums import CentredSums, PermutedSums
from dhsic.estimators.ranked_tiles import RankedTiles, row_sums
from dhsic.nulls import Permutation, draw_permutations

__all__ = [
    "RankedMeans",
    "RankedMultiplierPass",
    "RankedPermutationPass",
    "RankedSums",
    "RankedSumsPass",
]

Vector = NDArray[np.float64]

_STRIP_BYTES = 2**19


class RankedSums(NamedTuple):
    """Sums over rows of the kernels at R landmarks of all features, and of the target at p."""

    plain: Vector
    """sum_i k(z_j, x_i), shape (R,)."""
    squares: Vector
    """sum_i k(z_j, x_i)^2, shape (R,)."""
    joint: Vector
    """sum_i k(z_j, x_i) l(z_j, y_i), shape (R,); zeros where it is not asked for."""
    target: Vector
    """sum_i l(z_j, y_i), shape (p,)."""
    target_squares: Vector
    """sum_i l(z_j, y_i)^2, shape (p,)."""


@dataclass(frozen=True)
class RankedSumsPass:
    """Sums of the kernels, of their squares, and of the products of features and target.

    Parameters
    ----------
    tiles : RankedTiles
        Features and target.
    joint : bool
        Whether the products are asked for.
    """

    tiles: RankedTiles
    joint: bool
    name: str = "kernel sums"
    row_multiple: int = 1

    def footprint(self, rows: int) -> Footprint:
        """Cost of a block of so many rows."""
        del rows
        t = self.tiles
        state = 8 * (3 * t.n_values + 2 * t.n_target)
        products = 3.0 * t.n_values + 3.0 * t.n_target
        return Footprint(t.nbytes, t.scratch_bytes, state, t.operations + products)

    def chunk(self, block: RowBlock) -> RankedSums:
        """Sums over one block."""
        t, (x, y) = self.tiles, block.values
        sums = RankedSums(*np.zeros((3, t.n_values)), *np.zeros((2, t.n_target)))
        buffers = t.buffers()
        for rows in t.row_slices(block.rows):
            target = t.target_tile(y[rows], buffers)
            sums.target[:] += row_sums(target)
            sums.target_squares[:] += _products(target, target)
            for c, place in enumerate(t.places):
                tile = t.tile(c, x[rows], buffers)
                sums.plain[place] += row_sums(tile)
                sums.squares[place] += _products(tile, tile)
                if self.joint:
                    sums.joint[place] += _products(tile, t.beside(c, target, buffers))
        return sums

    def combine(self, left: RankedSums, right: RankedSums) -> RankedSums:
        """Add."""
        return add(left, right)


class RankedMeans(NamedTuple):
    """What the tiles are centred by, in their precision."""

    features: Matrix
    """Shape (R,)."""
    target: Matrix
    """Shape (p,)."""

    @property
    def nbytes(self) -> int:
        """Bytes of both."""
        return self.features.nbytes + self.target.nbytes


@dataclass(frozen=True)
class RankedMultiplierPass:
    """Centred products of every feature with the target, times [1 | W] with W random signs.

    The signs and the target's tile are made once for all features.

    Parameters
    ----------
    tiles : RankedTiles
        Features and target.
    means : RankedMeans
        Of the kernels over all rows.
    n_resamples : int
        Replicates.
    seed : int
        The seed of the test.
    """

    tiles: RankedTiles
    means: RankedMeans
    n_resamples: int
    seed: int
    name: str = "multiplier null"
    row_multiple: int = 1

    def footprint(self, rows: int) -> Footprint:
        """Cost of a block of so many rows."""
        del rows
        t, b = self.tiles, self.n_resamples
        signs = t.row_tile * b * (t.precision.itemsize + 2)
        sums = max(map(len, t.kept)) * b * t.precision.itemsize
        return Footprint(
            payload=t.nbytes + self.means.nbytes,
            scratch=t.scratch_bytes + signs + sums,
            state=8 * (t.n_values + 1) * (b + 1),
            operations=t.operations + (4.0 + 2.0 * b) * t.n_values + t.n_target,
        )

    def chunk(self, block: RowBlock) -> CentredSums:
        """Sums over one block."""
        t, b, (x, y) = self.tiles, self.n_resamples, block.values
        sums = CentredSums(np.zeros(t.n_values), np.zeros((t.n_values, b)), np.zeros(b))
        buffers, all_signs = t.buffers(), np.empty((t.row_tile, b), t.precision)
        for rows in t.row_slices(block.rows):
            start, stop = block.start + rows.start, block.start + rows.stop
            signs = all_signs[: stop - start]
            signs[:] = random_signs(self.seed, start, stop, b)
            sums.signs[:] += column_sums(signs)
            target = t.target_tile(y[rows], buffers)
            target -= self.means.target[:, None]
            for c, place in enumerate(t.places):
                xi = t.tile(c, x[rows], buffers)
                xi -= self.means.features[place, None]
                xi *= t.beside(c, target, buffers)
                sums.plain[place] += row_sums(xi)
                sums.signed[place] += xi @ signs
        return sums

    def combine(self, left: CentredSums, right: CentredSums) -> CentredSums:
        """Add."""
        return add(left, right)


@dataclass(frozen=True)
class RankedPermutationPass:
    """Sums of the centred products with the target permuted within groups of rows.

    Parameters
    ----------
    tiles : RankedTiles
        Features and target.
    means : RankedMeans
        Of the kernels over all rows.
    null : Permutation
        Replicates and rows of a group.
    over_all : bool
        One group of all rows, in one block.
    seed : int
        The seed of the test.
    """

    tiles: RankedTiles
    means: RankedMeans
    null: Permutation
    over_all: bool
    seed: int
    name: str = "permutation null"

    @property
    def row_multiple(self) -> int:
        """Blocks hold whole groups."""
        return 0 if self.over_all else self.null.block_rows

    def footprint(self, rows: int) -> Footprint:
        """Cost of a block of so many rows."""
        b, group = self.null.n_resamples, self._group(rows)
        t = self.tiles.with_rows(group)
        return Footprint(
            payload=t.nbytes + self.means.nbytes,
            scratch=2 * 8 * group * b + t.scratch_bytes + _STRIP_BYTES + 8 * group,
            state=8 * (b + 1) * t.n_values,
            operations=t.operations + (4.0 + 4.0 * b) * t.n_values + t.n_target,
        )

    def chunk(self, block: RowBlock) -> PermutedSums:
        """Sums over one block."""
        b, (x, y) = self.null.n_resamples, block.values
        t = self.tiles.with_rows(self._group(block.rows))
        sums, buffers = np.zeros((b + 1, t.n_values)), t.buffers()
        for rows in t.row_slices(block.rows):
            count = rows.stop - rows.start
            drawn = draw_permutations(self.seed, block.start + rows.start, count, b, 2)[:, 0]
            target = t.target_tile(y[rows], buffers)
            target -= self.means.target[:, None]
            for c, place in enumerate(t.places):
                tile = t.tile(c, x[rows], buffers)
                tile -= self.means.features[place, None]
                sums[:, place] += _permuted_products(tile, t.beside(c, target, buffers), drawn)
        return PermutedSums(sums)

    def combine(self, left: PermutedSums, right: PermutedSums) -> PermutedSums:
        """Add."""
        return add(left, right)

    def _group(self, rows: int) -> int:
        return rows if self.over_all else min(rows, self.null.block_rows)


def _products(left: Matrix, right: Matrix) -> Matrix:
    """Sums over rows of data of the products of two tiles, shape (r,)."""
    sums: Matrix = np.einsum("ji,ji->j", left, right)
    return sums


def _permuted_products(tile: Matrix, target: Matrix, orders: NDArray[np.intp]) -> Matrix:
    """The same as paired, and with the target permuted by orders (b, g); shape (b + 1, r).

    Strip by strip of landmarks, since a strip of both tiles must stay in the cache.
    """
    r, g = tile.shape
    sums = np.empty((len(orders) + 1, r), tile.dtype)
    height = max(1, _STRIP_BYTES // (g * tile.itemsize))
    permuted = np.empty((min(height, r), g), tile.dtype)
    for start in range(0, r, height):
        at = slice(start, min(start + height, r))
        out = permuted[: at.stop - start]
        sums[0, at] = _products(tile[at], target[at])
        for values, order in zip(sums[1:], orders, strict=True):
            np.take(target[at], order, axis=1, out=out, mode="clip")
            values[at] = _products(tile[at], out)
    return sums
