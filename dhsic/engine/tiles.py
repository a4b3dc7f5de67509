"""The hot loop: Gram tiles between rows and landmarks, small enough for the cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dhsic.kernels import Kernel

__all__ = [
    "COLUMN_TILE",
    "ROW_TILE",
    "Matrix",
    "Tiling",
    "centre",
    "centred_product",
    "column_sums",
    "product_of_centred",
]

Matrix = NDArray[np.floating[Any]]

ROW_TILE = 2048
COLUMN_TILE = 256


@dataclass(frozen=True)
class Tiling:
    """Gram tiles of M variables between rows and p landmarks.

    Parameters
    ----------
    kernels : tuple of Kernel
        One fitted kernel a variable.
    columns : tuple of ndarray, shapes (p, w_m)
        The prepared landmarks of each variable, in the precision of the tiles.
    row_tile, column_tile : int
        Rows and landmarks of a tile.
    """

    kernels: tuple[Kernel, ...]
    columns: tuple[Matrix, ...]
    row_tile: int = ROW_TILE
    column_tile: int = COLUMN_TILE

    @classmethod
    def prepare(
        cls,
        kernels: Sequence[Kernel],
        landmarks: Sequence[NDArray[Any]],
        dtype: DTypeLike,
        row_tile: int = ROW_TILE,
        column_tile: int = COLUMN_TILE,
    ) -> Tiling:
        """Prepare landmarks (p, d_m) of every variable."""
        columns = tuple(k.columns(z, dtype) for k, z in zip(kernels, landmarks, strict=True))
        return cls(tuple(kernels), columns, row_tile, column_tile)

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
        """Bytes of the tile buffers, of what `centred_product` adds, and of prepared rows."""
        tiles = self._tiles + (len(self.kernels) > 2)
        tiles *= self.row_tile * min(self.column_tile, self.n_landmarks)
        rows = 3 * self.row_tile * sum(columns.shape[1] for columns in self.columns)
        return int(self.dtype.itemsize * tiles + 8 * rows)

    @property
    def operations(self) -> float:
        """Floating-point operations a row, an exponential counted as 20."""
        widths = sum(int(columns.shape[1]) for columns in self.columns)
        return float(self.n_landmarks) * (2.0 * widths + 25.0 * len(self.kernels))

    def row_tiles(
        self, values: Sequence[NDArray[Any]], row_tile: int | None = None
    ) -> Iterator[tuple[slice, list[Matrix]]]:
        """Prepare the rows of a block, tile by tile."""
        step = row_tile or self.row_tile
        for start in range(0, len(values[0]), step):
            rows = slice(start, min(start + step, len(values[0])))
            yield (
                rows,
                [k.rows(x[rows], self.dtype) for k, x in zip(self.kernels, values, strict=True)],
            )

    def buffers(self) -> Matrix:
        """Memory for `gram_tiles`, to be allocated once for many row tiles.

        Fresh pages for every tile would cost a tenth of the time where the allocator hands them
        back to the system, as it is told to on Dask's workers.
        """
        size = self.row_tile * min(self.column_tile, self.n_landmarks)
        return np.empty((self._tiles, size), self.dtype)

    def gram_tiles(
        self, rows: Sequence[Matrix], buffers: Matrix
    ) -> Iterator[tuple[slice, list[Matrix]]]:
        """Gram tiles (b, c) of every variable for prepared rows, landmark tile by landmark tile.

        The tiles are the caller's to overwrite until the next step, which reuses them.
        """
        b, p = len(rows[0]), self.n_landmarks
        for start in range(0, p, self.column_tile):
            landmarks = slice(start, min(start + self.column_tile, p))
            c = landmarks.stop - start
            views = buffers[:, : b * c].reshape(self._tiles, b, c)
            tiles = list(views[: len(self.kernels)])
            work = views[len(self.kernels) :]
            for kernel, x, z, out in zip(self.kernels, rows, self.columns, tiles, strict=True):
                kernel.tile(x, z[landmarks], out, work)
            yield landmarks, tiles

    @property
    def _tiles(self) -> int:
        return len(self.kernels) + max(kernel.work_tiles for kernel in self.kernels)


def column_sums(tile: Matrix) -> Matrix:
    """Sum a tile over its rows by the blocked summation of the BLAS."""
    return np.ones(len(tile), tile.dtype) @ tile


def centred_product(tiles: Sequence[Matrix], means: Sequence[Matrix]) -> Matrix:
    """Centred product of the Gram tiles, whose mean over all rows is u.

    With k_m the tiles and kappa_m their means over all rows, this is

        prod_m k_m - sum_m k_m prod_{l != m} kappa_l + (M - 1) prod_l kappa_l,

    the linearisation of mu_P - (x)_m mu_{P_m} at the landmarks. It is built from the centred
    tiles d_m = k_m - kappa_m, so that nothing large cancels: with X_1 = 0, D_1 = d_1,

        X_m = X_{m-1} k_m + D_{m-1} d_m,  D_m = D_{m-1} kappa_m + (prod_{l<m} kappa_l) d_m.

    Parameters
    ----------
    tiles : sequence of ndarray, shapes (b, c)
        Overwritten.
    means : sequence of ndarray, shapes (c,)
        kappa_m, in the dtype of the tiles.

    Returns
    -------
    ndarray, shape (b, c)
        One of the tiles.
    """
    centre(tiles, means)
    return product_of_centred(tiles, means)


def centre(tiles: Sequence[Matrix], means: Sequence[Matrix]) -> None:
    """Subtract the means (c,) from the tiles (b, c), in place."""
    for tile, mean in zip(tiles, means, strict=True):
        tile -= mean


def product_of_centred(tiles: Sequence[Matrix], means: Sequence[Matrix]) -> Matrix:
    """The centred product from the centred tiles d_m; all but the first of two are overwritten."""
    linear, product, *rest = tiles
    below = means[0]
    if not rest:
        product *= linear
        return product
    second = product.copy()
    product *= linear
    linear *= means[1]
    second *= below
    linear += second
    for m, centred in enumerate(rest, start=2):
        below = below * means[m - 1]
        np.add(product, linear, out=second)
        second *= centred
        product *= means[m]
        product += second
        linear *= means[m]
        centred *= below
        linear += centred
    return product
