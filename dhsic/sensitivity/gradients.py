"""Gradients of measures of dependence in every entry of the data, and passes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.reduction import Footprint, Pass, RowBlock
from dhsic.engine.tiles import Tile, Tiling
from dhsic.features import FourierFeatures

Vector = NDArray[np.float64]
Arrays = tuple[NDArray[Any], ...]

_ROWS = 1024


@dataclass(frozen=True)
class TileGradient:
    """The gradient of a measure that is a function of sums of kernels at landmarks.

    The derivative in row i of variable m is

        sum_j (a_j prod_{l != m} k_l(z_lj, x_li) + b_mj + e_mi) grad k_m(z_mj, x_mi),

    with a the derivatives in sum_i prod_m k_m(z_mj, x_mi), and b in sum_i k_m(z_mj, x_mi).

    Parameters
    ----------
    tiling : Tiling
        One differentiable kernel a variable, and landmarks.
    joint : ndarray, shape (p,)
        a.
    marginal : ndarray, shape (M, p)
        b.
    offsets : ndarray, shape (M, n), or None
        e, for all rows of the data.
    wrt : tuple of int
        The variables whose rows are varied, ascending.
    dims : tuple of int
        Their columns.
    """

    tiling: Tiling
    joint: NDArray[Any]
    marginal: NDArray[Any]
    offsets: Vector | None
    wrt: tuple[int, ...]
    dims: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of landmarks and coefficients."""
        offsets = 0 if self.offsets is None else self.offsets.nbytes
        return self.tiling.nbytes + self._coefficient_bytes + offsets

    def scratch(self, rows: int) -> int:
        """Bytes of all tiles."""
        del rows
        t = self.tiling
        tile = t.row_tile * min(t.column_tile, t.n_landmarks) * t.dtype.itemsize
        gradients = 3 * 8 * t.row_tile * sum(self.dims)
        return t.scratch_bytes + self._own * tile + gradients + self._coefficient_bytes

    def __call__(self, block: RowBlock) -> list[Vector]:
        """The gradient in the rows of a block."""
        t = self.tiling
        gradients = [np.zeros((block.rows, d)) for d in self.dims]
        joint, marginal = self.joint.astype(t.dtype), self.marginal.astype(t.dtype)
        buffers = t.buffers()
        scratch = np.empty((self._own, buffers.shape[1]), t.dtype)
        for at, rows in t.row_tiles(block.values):
            offsets = None
            if self.offsets is not None:
                numbers = slice(block.start + at.start, block.start + at.stop)
                offsets = self.offsets[:, numbers].astype(t.dtype)
            for z, tiles in t.gram_tiles(rows, buffers):
                b, p = tiles[0].shape
                views = scratch[:, : b * p].reshape(-1, b, p)
                weights, work = views[0], views[1:]
                for out, m in zip(gradients, self.wrt, strict=True):
                    _product_of_others(tiles, m, weights)
                    # a_j prod_{l != m} k_l + b_mj + e_mi, tile by tile.
                    weights *= joint[z]
                    weights += marginal[m, z]
                    if offsets is not None:
                        weights += offsets[m][:, None]
                    points = t.columns[m][z]
                    out[at] += self._kernel(m).gradient(rows[m], points, tiles[m], weights, work)
        return gradients

    def _kernel(self, m: int) -> Any:
        return self.tiling.kernels[m]  # of those that are varied each has a gradient

    @property
    def _coefficient_bytes(self) -> int:
        return self.joint.nbytes + self.marginal.nbytes

    @property
    def _own(self) -> int:
        """Tiles besides those of the kernels."""
        return 1 + max(int(self._kernel(m).gradient_tiles) for m in self.wrt)


def _product_of_others(tiles: Sequence[Tile], m: int, out: Tile) -> None:
    # Not the product of all over the own tile, which may be 0.
    first, *others = (tile for l, tile in enumerate(tiles) if l != m)  # noqa: E741
    np.copyto(out, first)
    for tile in others:
        np.multiply(out, tile, out=out)


@dataclass(frozen=True)
class FeatureGradient:
    """The gradient of a function of the cross-covariance C of random Fourier features.

    The derivative in the features of row i of the first variable is D (phi_2i - mu_2) / n, with D
    the derivative in C; in those of the second it is D' (phi_1i - mu_1) / n.

    Parameters
    ----------
    maps : tuple of FourierFeatures
        Those of the two variables.
    means : tuple of ndarray, shapes (D_m,)
        Means of the features.
    derivative : ndarray, shape (D_1, D_2)
        D / n.
    wrt : tuple of int
        The variables whose rows are varied, ascending.
    dims : tuple of int
        Their columns.
    """

    maps: tuple[FourierFeatures, ...]
    means: tuple[Vector, ...]
    derivative: Vector
    wrt: tuple[int, ...]
    dims: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of features and derivative."""
        maps = sum(features.nbytes for features in self.maps)
        return maps + sum(mean.nbytes for mean in self.means) + self.derivative.nbytes

    def scratch(self, rows: int) -> int:
        """Bytes of the features, of their weights and of the slopes."""
        rows, counts = min(rows, _ROWS), [feature_map.n_features for feature_map in self.maps]
        size = rows * self.maps[0].dtype.itemsize
        made = sum(
            feature_map.scratch(rows) + 3 * size * feature_map.n_features
            for feature_map in self.maps
        )
        return made + 8 * (4 * rows * max(counts) + self.derivative.size)

    def __call__(self, block: RowBlock) -> list[Vector]:
        """The gradient in the rows of a block."""
        gradients = [np.empty((block.rows, d)) for d in self.dims]
        for start in range(0, block.rows, _ROWS):
            at = slice(start, min(start + _ROWS, block.rows))
            features = [
                features_of(x[at]) for features_of, x in zip(self.maps, block.values, strict=True)
            ]
            for out, m in zip(gradients, self.wrt, strict=True):
                # The derivative of C = E f h' in f is D h, and in h it is D' f.
                derivative = self.derivative if m == 1 else self.derivative.T
                # About the mean: d C / d f_i = (h_i - mean h) / n, as C is centred.
                weights = (features[1 - m] - self.means[1 - m]) @ derivative
                out[at] = self.maps[m].gradient(features[m], weights)
        return gradients


BlockGradient = TileGradient | FeatureGradient


@dataclass(frozen=True)
class SquaresPass(Pass[Vector]):
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

    def chunk(self, block: RowBlock) -> Vector:
        """sum_i S_ij^2 over one block, shape (d,), of all variables one after another."""
        # s_j = (1 / n) sum_i S_ij^2 but for 1 / n: Perez-Suay and Camps-Valls (2018), section 3.2.
        return np.concatenate([np.einsum("ij,ij->j", s, s) for s in self.gradient(block)])


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
        squares = sum(np.einsum("ij,ij->i", s, s) for s in maps)
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
