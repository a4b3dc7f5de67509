"""The hot loop: Gram tiles between rows and landmarks, small enough for the cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dhsic.kernels import Combinations, Kernel
from dhsic.kernels.shared import SharedTiles

Matrix = NDArray[np.floating[Any]]
Tile = NDArray[Any]

ROW_TILE = 2048
COLUMN_TILE = 256


@dataclass(frozen=True)
class Tiling:
    """Gram tiles of K kernels on M variables between rows and p landmarks.

    Parameters
    ----------
    kernels : tuple of Kernel
        All K of them, fitted.
    columns : tuple of ndarray, shapes (p, w_k)
        The prepared landmarks of every kernel that needs its own, see `SharedTiles.roots`, in the
        precision of the tiles.
    row_tile, column_tile : int
        Rows and landmarks of a tile.
    variables : tuple of int, optional
        The number of the variable that each kernel is for; one a variable where not given.
    """

    kernels: tuple[Kernel, ...]
    columns: tuple[Matrix, ...]
    row_tile: int = ROW_TILE
    column_tile: int = COLUMN_TILE
    variables: tuple[int, ...] | None = None

    @classmethod
    def prepare(
        cls,
        combinations: Combinations,
        landmarks: Sequence[NDArray[Any]],
        dtype: DTypeLike,
        row_tile: int = ROW_TILE,
        column_tile: int = COLUMN_TILE,
    ) -> Tiling:
        """Prepare landmarks (p, d_m) of every variable."""
        kernels, variables = combinations.kernels, combinations.variables
        columns = tuple(SharedTiles(kernels, variables).rows_and_columns(landmarks, dtype)[1])
        return cls(kernels, columns, row_tile, column_tile, variables=variables)

    @cached_property
    def shared(self) -> SharedTiles:
        """How the tiles of the kernels come from each other."""
        return SharedTiles(self.kernels, self.variables or tuple(range(len(self.kernels))))

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
    def scratch_bytes(self) -> int:
        # Tiles of all kernels and their work, and rows prepared for float64 at the most.
        """Bytes of the tile buffers and of prepared rows."""
        tiles = self._tiles * self.row_tile * min(self.column_tile, self.n_landmarks)
        rows = 3 * self.row_tile * sum(columns.shape[1] for columns in self.columns)
        return int(self.dtype.itemsize * tiles + 8 * rows)

    def row_tiles(
        self, values: Sequence[NDArray[Any]], row_tile: int | None = None
    ) -> Iterator[tuple[slice, list[Matrix]]]:
        """Prepare the rows of a block, tile by tile."""
        step = row_tile or self.row_tile
        for start in range(0, len(values[0]), step):
            rows = slice(start, min(start + step, len(values[0])))
            yield rows, self.shared.rows([x[rows] for x in values], self.dtype)

    def buffers(self) -> Tile:
        """Memory for `gram_tiles`, to be allocated once for many row tiles.

        Fresh pages for every tile would cost a tenth of the time where the allocator hands them
        back to the system, as it is told to on Dask's workers.
        """
        size = self.row_tile * min(self.column_tile, self.n_landmarks)
        return np.empty((self._tiles, size), self.dtype)

    def gram_tiles(
        self, rows: Sequence[Matrix], buffers: Tile
    ) -> Iterator[tuple[slice, list[Tile]]]:
        """Gram tiles (b, c) of every kernel for prepared rows, landmark tile by landmark tile.

        They come with the slice of their landmarks, and are the caller's to
        overwrite until the next step, which reuses them.
        """
        b, p = len(rows[0]), self.n_landmarks
        for start in range(0, p, self.column_tile):
            landmarks = slice(start, min(start + self.column_tile, p))
            c = landmarks.stop - start
            # Views of one memory: a tile that is allocated anew would leave the cache.
            views = buffers[:, : b * c].reshape(self._tiles, b, c)
            tiles = list(views[: len(self.kernels)])
            work = views[len(self.kernels) :]
            columns = [z[landmarks] for z in self.columns]
            self.shared.tiles(rows, columns, tiles, work)
            yield landmarks, tiles

    @property
    def _tiles(self) -> int:
        return len(self.kernels) + self.shared.work_tiles


def column_sums(tile: Matrix) -> Matrix:
    """Sum a tile over its rows by the blocked summation of the BLAS."""
    return np.ones(len(tile), tile.dtype) @ tile


def product_of_centred(tiles: Sequence[Tile], means: Sequence[Tile]) -> Tile:
    """Centred product of the Gram tiles, whose mean over all rows is u, from the centred tiles.

    With k_m the tiles and kappa_m their means over all rows, this is

        prod_m k_m - sum_m k_m prod_{l != m} kappa_l + (M - 1) prod_l kappa_l,

    the linearisation of mu_P - (x)_m mu_{P_m} at the landmarks. It is built from the centred
    tiles d_m = k_m - kappa_m, so that nothing large cancels: with X_1 = 0, D_1 = d_1,

        X_m = X_{m-1} k_m + D_{m-1} d_m,  D_m = D_{m-1} kappa_m + (prod_{l<m} kappa_l) d_m.

    Parameters
    ----------
    tiles : sequence of ndarray, shapes (b, c)
        d_m. All but the first of two are overwritten.
    means : sequence of ndarray, shapes (c,)
        kappa_m, in the dtype of the tiles.

    Returns
    -------
    ndarray, shape (b, c)
        One of the tiles.
    """
    linear, product, *rest = tiles
    below = means[0]
    if not rest:
        # For M = 2 it is d_1 d_2.
        product *= linear
        return product
    second = product.copy()
    product *= linear
    linear *= means[1]
    second *= below
    linear += second
    for m, centred in enumerate(rest, start=2):
        below = below * means[m - 1]
        # X_m = (X_(m-1) + D_(m-1)) d_m + X_(m-1) kappa_m, since k_m = d_m + kappa_m.
        np.add(product, linear, out=second)
        second *= centred
        product *= means[m]
        product += second
        linear *= means[m]
        centred *= below
        linear += centred
    return product
