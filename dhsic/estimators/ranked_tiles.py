"""Gram tiles of many features, each at landmarks of its own, beside those of one target."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dhsic.engine.tiles import Matrix, Tile
from dhsic.kernels import Combinations, Kernel
from dhsic.kernels.shared import tile_operations

__all__ = ["RankedTiles", "row_sums"]

Indices = NDArray[np.intp]

_ROW_TILE = 1024


@dataclass(frozen=True)
class RankedTiles:
    """Kernels of G features at the landmarks that each keeps, and of the target at all of them.

    Tiles lie landmarks first, (r, b): the target's are computed once for all features, and a
    feature takes its landmarks' rows of them, which are contiguous.

    Parameters
    ----------
    kernels : tuple of Kernel
        Of the features, columns of the first variable; fitted.
    target : Kernel
        Of the second variable, fitted.
    points : tuple of ndarray, shapes (r_c, w)
        The prepared landmarks of every feature, in the precision of the tiles.
    target_points : ndarray, shape (p, w)
        All prepared landmarks of the target.
    kept : tuple of ndarray of int, shapes (r_c,)
        Which of these go with the landmarks of every feature.
    row_tile : int, optional
        Rows of a tile.
    """

    kernels: tuple[Kernel, ...]
    target: Kernel
    points: tuple[Matrix, ...]
    target_points: Matrix
    kept: tuple[Indices, ...]
    row_tile: int = _ROW_TILE

    @classmethod
    def prepare(
        cls,
        combinations: Combinations,
        landmarks: Sequence[NDArray[Any]],
        kept: Sequence[Indices],
        dtype: DTypeLike,
    ) -> RankedTiles:
        """Prepare landmarks (p, d_m) of both variables."""
        *kernels, target = combinations.kernels
        x, z = landmarks
        points = tuple(k.rows(x[at], dtype) for k, at in zip(kernels, kept, strict=True))
        return cls(tuple(kernels), target, points, target.rows(z, dtype), tuple(kept))

    def part(self, numbers: Sequence[int]) -> RankedTiles:
        """Some of the features."""
        return replace(
            self,
            kernels=tuple(self.kernels[c] for c in numbers),
            points=tuple(self.points[c] for c in numbers),
            kept=tuple(self.kept[c] for c in numbers),
        )

    def with_rows(self, row_tile: int) -> RankedTiles:
        """The same in tiles of so many rows."""
        return replace(self, row_tile=row_tile)

    @property
    def precision(self) -> np.dtype[Any]:
        """Entries of the tiles."""
        return self.target_points.dtype

    @cached_property
    def places(self) -> list[slice]:
        """Where the landmarks of every feature stand, one after another."""
        ends = list(accumulate(map(len, self.kept), initial=0))
        return [slice(a, b) for a, b in pairwise(ends)]

    @property
    def n_values(self) -> int:
        """Landmarks of all features together."""
        return sum(map(len, self.kept))

    @property
    def n_target(self) -> int:
        """Landmarks of the target, p."""
        return len(self.target_points)

    def parts_of(self, values: NDArray[Any]) -> list[NDArray[Any]]:
        """What belongs to each feature, of an array with a row for every landmark."""
        return [values[place] for place in self.places]

    @property
    def nbytes(self) -> int:
        """Bytes of the landmarks and choices."""
        arrays = (*self.points, self.target_points, *self.kept)
        return sum(array.nbytes for array in arrays)

    @property
    def scratch_bytes(self) -> int:
        """Bytes of the tiles, and of a copy of the target's that a feature takes."""
        width = max(z.shape[1] for z in (*self.points, self.target_points))
        entries = self.row_tile * (self._tiles * self._widest + self.n_target)
        return int(self.precision.itemsize * entries + 3 * 8 * self.row_tile * width)

    @property
    def operations(self) -> float:
        """Floating-point operations a row."""
        points = (*self.points, self.target_points)
        return float(sum(len(z) * tile_operations(z.shape[1]) for z in points))

    def row_slices(self, b: int) -> Iterator[slice]:
        """Tiles of the rows of a block."""
        for start in range(0, b, self.row_tile):
            yield slice(start, min(start + self.row_tile, b))

    def buffers(self) -> tuple[Tile, Tile]:
        """Memory for the tiles, to be allocated once for many of them."""
        shape = self._tiles, self._widest * self.row_tile
        return np.empty(shape, self.precision), np.empty(
            self.n_target * self.row_tile, self.precision
        )

    def target_tile(self, rows: NDArray[Any], buffers: tuple[Tile, Tile]) -> Matrix:
        """The target's kernel at all landmarks, (p, b); stays until the next one."""
        out = buffers[1][: self.n_target * len(rows)].reshape(self.n_target, len(rows))
        x = self.target.columns(rows, self.precision)
        # Strips of landmarks, so that the scratch of the features does for the target too.
        for start in range(0, self.n_target, self._widest):
            at = slice(start, min(start + self._widest, self.n_target))
            work = self._views(buffers, at.stop - start, len(rows))
            self.target.tile(self.target_points[at], x, out[at], work[2:])
        return out

    def tile(self, c: int, rows: NDArray[Any], buffers: tuple[Tile, Tile]) -> Matrix:
        """The kernel of a feature at its landmarks, (r, b); stays until the next one."""
        views = self._views(buffers, len(self.kept[c]), len(rows))
        x = self.kernels[c].columns(rows, self.precision)
        self.kernels[c].tile(self.points[c], x, views[0], views[2:])
        tile: Matrix = views[0]
        return tile

    def beside(self, c: int, target: Matrix, buffers: tuple[Tile, Tile]) -> Matrix:
        """The target's tile at the landmarks of a feature, (r, b)."""
        kept = self.kept[c]
        if len(kept) == len(target):
            return target
        out: Matrix = self._views(buffers, len(kept), target.shape[1])[1]
        np.take(target, kept, axis=0, out=out, mode="clip")
        return out

    def _views(self, buffers: tuple[Tile, Tile], r: int, b: int) -> Tile:
        return buffers[0][:, : r * b].reshape(self._tiles, r, b)

    @cached_property
    def _widest(self) -> int:
        return max(map(len, self.kept))

    @cached_property
    def _tiles(self) -> int:
        return 2 + max(kernel.work_tiles for kernel in (*self.kernels, self.target))


def row_sums(tile: Matrix) -> Matrix:
    """Sum a tile over its rows of data, the last axis, by the blocked summation of the BLAS."""
    return tile @ np.ones(tile.shape[1], tile.dtype)
