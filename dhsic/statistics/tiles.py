"""The hot loop: Gram tiles between rows and landmarks, small enough for the cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dhsic.kernels import Kernel

Matrix = NDArray[np.floating[Any]]
Tile = NDArray[Any]

ROW_TILE = 2048
COLUMN_TILE = 256


class GramTiles(NamedTuple):
    """The kernels of all variables between some rows and some landmarks."""

    at: slice
    """The rows among those of the block."""
    prepared: list[Matrix]
    """The rows, as every kernel prepares them."""
    landmarks: slice
    """The landmarks."""
    tiles: list[Tile]
    """Values (b, c) of every kernel, the caller's to overwrite until the next ones."""


@dataclass(frozen=True)
class Tiling:
    """Gram tiles of one kernel a variable between rows and p landmarks.

    Parameters
    ----------
    kernels : tuple of Kernel
        Fitted.
    columns : tuple of ndarray, shapes (p, w_m)
        The prepared landmarks of every kernel, in the precision of the tiles.
    """

    kernels: tuple[Kernel, ...]
    columns: tuple[Matrix, ...]

    @classmethod
    def prepare(
        cls, kernels: Sequence[Kernel], landmarks: Sequence[NDArray[Any]], dtype: DTypeLike
    ) -> Self:
        """Prepare landmarks (p, d_m) of every variable."""
        pairs = zip(kernels, landmarks, strict=True)
        return cls(tuple(kernels), tuple(kernel.columns(z, dtype) for kernel, z in pairs))

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the tiles."""
        return self.columns[0].dtype

    @property
    def n_landmarks(self) -> int:
        """Number of landmarks, p."""
        return len(self.columns[0])

    @property
    def nbytes(self) -> int:
        """Bytes of the prepared landmarks."""
        return sum(columns.nbytes for columns in self.columns)

    @property
    def tile_bytes(self) -> int:
        """Bytes of a tile."""
        return self.dtype.itemsize * ROW_TILE * min(COLUMN_TILE, self.n_landmarks)

    @property
    def scratch_bytes(self) -> int:
        """Bytes of the tiles of all kernels and their work, and of prepared rows."""
        # Rows are prepared for float64 at the most.
        rows = 3 * 8 * ROW_TILE * sum(columns.shape[1] for columns in self.columns)
        return int(self._tiles * self.tile_bytes + rows)

    def of(self, values: Sequence[NDArray[Any]]) -> Iterator[GramTiles]:
        """Tiles of the rows of a block with all landmarks, one after another."""
        p, m = self.n_landmarks, len(self.kernels)
        # Fresh pages for every tile would cost a tenth of the time where the allocator hands them
        # back to the system, as it is told to on Dask's workers.
        buffers = np.empty((self._tiles, ROW_TILE * min(COLUMN_TILE, p)), self.dtype)
        for start in range(0, len(values[0]), ROW_TILE):
            at = slice(start, min(start + ROW_TILE, len(values[0])))
            pairs = zip(self.kernels, values, strict=True)
            rows = [kernel.rows(x[at], self.dtype) for kernel, x in pairs]
            for first in range(0, p, COLUMN_TILE):
                landmarks = slice(first, min(first + COLUMN_TILE, p))
                shape = at.stop - start, landmarks.stop - first
                # Views of one memory: a tile that is allocated anew would leave the cache.
                views = buffers[:, : shape[0] * shape[1]].reshape(-1, *shape)
                tiles, work = list(views[:m]), views[m:]
                for kernel, x, z, out in zip(self.kernels, rows, self.columns, tiles, strict=True):
                    kernel.tile(x, z[landmarks], out, work)
                yield GramTiles(at, rows, landmarks, tiles)

    @property
    def _tiles(self) -> int:
        return len(self.kernels) + max(kernel.work_tiles for kernel in self.kernels)


def column_sums(tile: Matrix) -> Matrix:
    """Sum a tile over its rows by the blocked summation of the BLAS."""
    return np.ones(len(tile), tile.dtype) @ tile
