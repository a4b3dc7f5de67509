"""Passes over the data that sum kernels at landmarks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic._random import random_signs
from dhsic.engine.reduction import Footprint, RowBlock, add
from dhsic.engine.tiles import (
    Matrix,
    Tile,
    Tiling,
    as_real,
    centre,
    centred_product,
    column_sums,
    product_of_centred,
)
from dhsic.linalg import hadamard
from dhsic.nulls import Permutation, draw_permutations

__all__ = [
    "CentredSums",
    "KernelSums",
    "MultiplierPass",
    "PermutationPass",
    "PermutedSums",
    "ProductSums",
    "SpectrumPass",
    "SumsPass",
]

Vector = NDArray[np.float64]


_GROUP_TILE_BYTES = 2**20


class KernelSums(NamedTuple):
    """Sums over rows of the kernels, p real numbers a row."""

    marginal: Vector
    """sum_i k_m(z_mj, x_mi), shape (M, p)."""
    joint: Vector
    """sum_i prod_m k_m(z_mj, x_mi), shape (p,)."""


@dataclass(frozen=True)
class SumsPass:
    """The sums K_{n'n} 1_n of every variable and of their product.

    Parameters
    ----------
    tiling : Tiling
        Kernels and landmarks.
    """

    tiling: Tiling
    name: str = "kernel sums"
    row_multiple: int = 1

    def footprint(self, rows: int) -> Footprint:
        """Cost of a block of so many rows."""
        del rows
        t = self.tiling
        state = 8 * t.n_values * (len(t.kernels) + 1)
        return Footprint(t.nbytes, t.scratch_bytes, state, t.operations)

    def chunk(self, block: RowBlock) -> KernelSums:
        """Sums over one block."""
        p = self.tiling.n_values
        marginal, joint = np.zeros((len(block.values), p)), np.zeros(p)
        buffers = self.tiling.buffers()
        for _, rows in self.tiling.row_tiles(block.values):
            for at, tiles in self.tiling.gram_tiles(rows, buffers):
                for m, tile in enumerate(tiles):
                    marginal[m, at] += column_sums(as_real(tile))
                joint[at] += column_sums(as_real(hadamard(tiles)))
        return KernelSums(marginal, joint)

    def combine(self, left: KernelSums, right: KernelSums) -> KernelSums:
        """Add."""
        return add(left, right)


class CentredSums(NamedTuple):
    """Sums over rows of the centred products xi, p real numbers a row, plain and with signs."""

    plain: Vector
    """sum_i xi_ij, shape (p,)."""
    signed: Vector
    """sum_i w_ib xi_ij, shape (p, b)."""
    signs: Vector
    """sum_i w_ib, shape (b,)."""


@dataclass(frozen=True)
class MultiplierPass:
    """Centred products times [1 | W], with W random signs: all replicates by one matrix product.

    Parameters
    ----------
    tiling : Tiling
        Kernels and landmarks.
    means : tuple of ndarray, shapes (p,)
        kappa_m, the mean of every kernel at the landmarks, in the precision of the tiles.
    n_resamples : int
        Replicates.
    seed : int
        The seed of the test.
    """

    tiling: Tiling
    means: tuple[Matrix, ...]
    n_resamples: int
    seed: int
    name: str = "multiplier null"
    row_multiple: int = 1

    def footprint(self, rows: int) -> Footprint:
        """Cost of a block of so many rows."""
        del rows
        t, b = self.tiling, self.n_resamples
        signs = t.row_tile * b * (t.precision.itemsize + 2)
        products = t.column_tile * b * t.dtype.itemsize
        return Footprint(
            payload=t.nbytes + sum(mean.nbytes for mean in self.means),
            scratch=t.scratch_bytes + signs + products,
            state=8 * (t.n_values + 1) * (b + 1),
            operations=t.operations + 2.0 * b * t.n_values,
        )

    def chunk(self, block: RowBlock) -> CentredSums:
        """Sums over one block."""
        p, b = self.tiling.n_values, self.n_resamples
        sums = CentredSums(np.zeros(p), np.zeros((p, b)), np.zeros(b))
        buffers = self.tiling.buffers()
        all_signs = np.empty((self.tiling.row_tile, b), self.tiling.precision)
        for at_rows, rows in self.tiling.row_tiles(block.values):
            start, stop = block.start + at_rows.start, block.start + at_rows.stop
            signs = all_signs[: stop - start]
            signs[:] = random_signs(self.seed, start, stop, b)
            sums.signs[:] += column_sums(signs)
            for at, tiles in self.tiling.gram_tiles(rows, buffers):
                xi = as_real(centred_product(tiles, self.tiling.means(self.means, at)))
                sums.plain[at] += column_sums(xi)
                sums.signed[at] += xi.T @ signs
        return sums

    def combine(self, left: CentredSums, right: CentredSums) -> CentredSums:
        """Add."""
        return add(left, right)


class ProductSums(NamedTuple):
    """Sums over rows of the centred products xi, p real numbers a row, and of xi xi'."""

    plain: Vector
    """sum_i xi_ij, shape (p,)."""
    squares: Vector
    """sum_i xi_ij xi_ik, shape (p, p)."""


@dataclass(frozen=True)
class SpectrumPass:
    """The second moments of the centred products.

    Parameters
    ----------
    tiling : Tiling
        Kernels and landmarks.
    means : tuple of ndarray, shapes (p,)
        kappa_m, in the precision of the tiles.
    name : str
        The null that they are for.
    """

    tiling: Tiling
    means: tuple[Matrix, ...]
    name: str
    row_multiple: int = 1

    def footprint(self, rows: int) -> Footprint:
        """Cost of a block of so many rows."""
        del rows
        t = self.tiling
        p = t.n_values
        return Footprint(
            payload=t.nbytes + sum(mean.nbytes for mean in self.means),
            scratch=t.scratch_bytes + 8 * p * (t.row_tile + p),
            state=8 * p * (p + 1),
            operations=t.operations + 1.0 * p * p,
        )

    def chunk(self, block: RowBlock) -> ProductSums:
        """Sums over one block."""
        p = self.tiling.n_values
        sums = ProductSums(np.zeros(p), np.zeros((p, p)))
        buffers = self.tiling.buffers()
        # Products of float32 would leave the covariance indefinite once it is whitened.
        all_products = np.empty((self.tiling.row_tile, p))
        for at_rows, rows in self.tiling.row_tiles(block.values):
            xi = all_products[: at_rows.stop - at_rows.start]
            for at, tiles in self.tiling.gram_tiles(rows, buffers):
                xi[:, at] = as_real(centred_product(tiles, self.tiling.means(self.means, at)))
            sums.plain[:] += column_sums(xi)
            sums.squares[:] += xi.T @ xi
        return sums

    def combine(self, left: ProductSums, right: ProductSums) -> ProductSums:
        """Add."""
        return add(left, right)


class PermutedSums(NamedTuple):
    """Sums over rows of the centred products, p real numbers a row, as paired and permuted."""

    centred: Vector
    """Shape (b + 1, p); row 0 is the pairing of the data."""


@dataclass(frozen=True)
class PermutationPass:
    """Sums of the centred products under permutations within groups of rows.

    Permutations leave the means kappa_m as they are, so that the mean of the centred products is
    u of the permuted data, and no digit cancels.

    Parameters
    ----------
    tiling : Tiling
        Kernels and landmarks.
    means : tuple of ndarray, shapes (p,)
        kappa_m, in the precision of the tiles.
    null : Permutation
        Replicates and rows of a group.
    over_all : bool
        One group of all rows, in one block.
    seed : int
        The seed of the test.
    """

    tiling: Tiling
    means: tuple[Matrix, ...]
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
        t, b = self.tiling, self.null.n_resamples
        group = self._group(rows)
        orders = 8 * group * b * (len(t.kernels) - 1)
        narrow = self._tiling(group)
        products = len(t.kernels) * group * narrow.column_tile * t.dtype.itemsize
        return Footprint(
            payload=t.nbytes + sum(mean.nbytes for mean in self.means),
            scratch=2 * orders + narrow.scratch_bytes + products,
            state=8 * (b + 1) * t.n_values,
            operations=t.operations + 4.0 * b * t.n_values * len(t.kernels),
        )

    def chunk(self, block: RowBlock) -> PermutedSums:
        """Sums over one block."""
        sums = np.zeros((self.null.n_resamples + 1, self.tiling.n_values))
        group = self._group(block.rows)
        tiling = self._tiling(group)
        buffers = tiling.buffers()
        for at_rows, rows in tiling.row_tiles(block.values, group):
            orders = draw_permutations(
                self.seed,
                block.start + at_rows.start,
                len(rows[0]),
                self.null.n_resamples,
                len(rows),
            )
            for at, tiles in tiling.gram_tiles(rows, buffers):
                _add_products(sums[:, at], tiles, tiling.means(self.means, at), orders)
        return PermutedSums(sums)

    def combine(self, left: PermutedSums, right: PermutedSums) -> PermutedSums:
        """Add."""
        return add(left, right)

    def _group(self, rows: int) -> int:
        return rows if self.over_all else min(rows, self.null.block_rows)

    def _tiling(self, group: int) -> Tiling:
        """Narrow tiles, since a whole group of rows must stay in the cache."""
        width = _GROUP_TILE_BYTES // (group * self.tiling.dtype.itemsize)
        return replace(self.tiling, row_tile=group, column_tile=min(max(width, 16), 256))


def _add_products(
    sums: Vector,
    tiles: list[Tile],
    means: list[Tile],
    orders: NDArray[np.intp],
) -> None:
    centre(tiles, means)
    first, *others = tiles
    copy, *moved = (np.empty_like(tile) for tile in tiles)
    identity = np.broadcast_to(np.arange(len(first)), orders.shape[1:])
    for b, replicate in enumerate([identity, *orders]):
        for tile, order, out in zip(others, replicate, moved, strict=True):
            np.take(tile, order, axis=0, out=out, mode="clip")
        if len(tiles) > 2:
            np.copyto(copy, first)
        linear = copy if len(tiles) > 2 else first
        sums[b] += column_sums(as_real(product_of_centred([linear, *moved], means)))
