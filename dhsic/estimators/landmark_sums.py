"""Passes over the data that sum kernels at landmarks."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic._random import random_signs
from dhsic.engine.reduction import Footprint, RowBlock, add
from dhsic.engine.tiles import Tiling, as_real, column_sums
from dhsic.estimators.landmark_products import CentredProducts
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
    """sum_i k_k(z_kj, x_ki), shape (K, p)."""
    joint: Vector
    """sum_i prod_m k_m(z_mj, x_mi), shape (p,); zeros where it is not asked for."""


@dataclass(frozen=True)
class SumsPass:
    """The sums K_{n'n} 1_n of every kernel, and of the product of all.

    Parameters
    ----------
    tiling : Tiling
        Kernels and landmarks.
    joint : bool
        Whether the product is asked for.
    """

    tiling: Tiling
    joint: bool
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
        marginal, joint = np.zeros((len(self.tiling.kernels), p)), np.zeros(p)
        buffers = self.tiling.buffers()
        for _, rows in self.tiling.row_tiles(block.values):
            for at, tiles in self.tiling.gram_tiles(rows, buffers):
                for m, tile in enumerate(tiles):
                    marginal[m, at] += column_sums(as_real(tile))
                if self.joint:
                    joint[at] += column_sums(as_real(hadamard(tiles)))
        return KernelSums(marginal, joint)

    def combine(self, left: KernelSums, right: KernelSums) -> KernelSums:
        """Add."""
        return add(left, right)


class CentredSums(NamedTuple):
    """Sums over rows of the centred products xi, q real numbers a row, plain and with signs."""

    plain: Vector
    """sum_i xi_ij, shape (q,)."""
    signed: Vector
    """sum_i w_ib xi_ij, shape (q, b)."""
    signs: Vector
    """sum_i w_ib, shape (b,)."""


@dataclass(frozen=True)
class MultiplierPass:
    """Centred products times [1 | W], with W random signs: all replicates by one matrix product.

    Parameters
    ----------
    products : CentredProducts
        Of all combinations.
    n_resamples : int
        Replicates.
    seed : int
        The seed of the test.
    """

    products: CentredProducts
    n_resamples: int
    seed: int
    name: str = "multiplier null"
    row_multiple: int = 1

    def footprint(self, rows: int) -> Footprint:
        """Cost of a block of so many rows."""
        del rows
        q, b, t = self.products.n_values, self.n_resamples, self.products.tiling
        signs = t.row_tile * b * (t.precision.itemsize + 2)
        sums = t.column_tile * b * t.dtype.itemsize
        return Footprint(
            payload=self.products.nbytes,
            scratch=self.products.scratch_bytes + signs + sums,
            state=8 * (q + 1) * (b + 1),
            operations=self.products.operations + 2.0 * b * q,
        )

    def chunk(self, block: RowBlock) -> CentredSums:
        """Sums over one block."""
        q, b, tiling = self.products.n_values, self.n_resamples, self.products.tiling
        sums = CentredSums(np.zeros(q), np.zeros((q, b)), np.zeros(b))
        buffers = self.products.buffers()
        all_signs = np.empty((tiling.row_tile, b), tiling.precision)
        for at_rows, rows in tiling.row_tiles(block.values):
            start, stop = block.start + at_rows.start, block.start + at_rows.stop
            signs = all_signs[: stop - start]
            signs[:] = random_signs(self.seed, start, stop, b)
            sums.signs[:] += column_sums(signs)
            for at, xi in self.products.blocks(rows, buffers):
                sums.plain[at] += column_sums(xi)
                sums.signed[at] += xi.T @ signs
        return sums

    def combine(self, left: CentredSums, right: CentredSums) -> CentredSums:
        """Add."""
        return add(left, right)


class ProductSums(NamedTuple):
    """Sums over rows of the centred products xi, q real numbers a row, and of xi xi'."""

    plain: Vector
    """sum_i xi_ij, shape (q,)."""
    squares: Vector
    """sum_i xi_ij xi_ik of every combination, one after another, shape (sum_c q_c^2,)."""

    @classmethod
    def zeros(cls, products: CentredProducts) -> ProductSums:
        """Of no rows yet."""
        return cls(np.zeros(products.n_values), np.zeros(sum(q * q for q in products.sizes)))

    def of(self, products: CentredProducts) -> list[tuple[Vector, Vector]]:
        """Those of every combination, shapes (q_c,) and (q_c, q_c); views."""
        ends = np.cumsum([q * q for q in products.sizes])[:-1]
        squares = np.split(self.squares, ends)
        shaped = (own.reshape(q, q) for own, q in zip(squares, products.sizes, strict=True))
        return list(zip(products.parts_of(self.plain), shaped, strict=True))


@dataclass(frozen=True)
class SpectrumPass:
    """The second moments of the centred products.

    Parameters
    ----------
    products : CentredProducts
        Of all combinations.
    name : str
        The null that they are for.
    """

    products: CentredProducts
    name: str
    row_multiple: int = 1

    def footprint(self, rows: int) -> Footprint:
        """Cost of a block of so many rows."""
        del rows
        q, row_tile = self.products.n_values, self.products.tiling.row_tile
        squares = sum(size * size for size in self.products.sizes)
        largest = max(self.products.sizes) ** 2
        return Footprint(
            payload=self.products.nbytes,
            scratch=self.products.scratch_bytes + 8 * (q * row_tile + largest),
            state=8 * (squares + q),
            operations=self.products.operations + 1.0 * squares,
        )

    def chunk(self, block: RowBlock) -> ProductSums:
        """Sums over one block."""
        tiling = self.products.tiling
        sums = ProductSums.zeros(self.products)
        each = sums.of(self.products)
        buffers = self.products.buffers()
        # Products of float32 would leave the covariance indefinite once it is whitened.
        all_products = np.empty((tiling.row_tile, self.products.n_values))
        for at_rows, rows in tiling.row_tiles(block.values):
            xi = all_products[: at_rows.stop - at_rows.start]
            for at, products in self.products.blocks(rows, buffers):
                xi[:, at] = products
            for (plain, squares), own in zip(each, self.products.parts_of(xi.T), strict=True):
                plain += column_sums(own.T)
                squares += own @ own.T
        return sums

    def combine(self, left: ProductSums, right: ProductSums) -> ProductSums:
        """Add."""
        return add(left, right)


class PermutedSums(NamedTuple):
    """Sums over rows of the centred products, q real numbers a row, as paired and permuted."""

    centred: Vector
    """Shape (b + 1, q); row 0 is the pairing of the data."""


@dataclass(frozen=True)
class PermutationPass:
    """Sums of the centred products under permutations within groups of rows.

    Permutations leave the means kappa_k as they are, so that the mean of the centred products is
    u of the permuted data, and no digit cancels.

    Parameters
    ----------
    products : CentredProducts
        Of all combinations.
    null : Permutation
        Replicates and rows of a group.
    over_all : bool
        One group of all rows, in one block.
    seed : int
        The seed of the test.
    """

    products: CentredProducts
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
        q, b, m = self.products.n_values, self.null.n_resamples, len(self.products.chosen[0])
        group = self._group(rows)
        tiling = self._narrow(group).tiling
        heads = 2 ** (m - 1) - m + 1  # products that `column_sums` keeps, and the next
        tiles = (len(tiling.kernels) + heads) * group * min(tiling.column_tile, tiling.n_landmarks)
        return Footprint(
            payload=self.products.nbytes,
            scratch=2 * 8 * group * b * (m - 1)
            + tiling.scratch_bytes
            + tiles * tiling.dtype.itemsize,
            state=8 * (b + 1) * q,
            operations=self.products.operations + 4.0 * b * q * m,
        )

    def chunk(self, block: RowBlock) -> PermutedSums:
        """Sums over one block."""
        b, m = self.null.n_resamples, len(block.values)
        sums = np.zeros((b + 1, self.products.n_values))
        group = self._group(block.rows)
        products = self._narrow(group)
        tiling, buffers = products.tiling, products.tiling.buffers()
        variables = tiling.shared.variables
        others = [k for k in products.kernels if variables[k] > 0]
        for at_rows, rows in tiling.row_tiles(block.values, group):
            start, count = block.start + at_rows.start, at_rows.stop - at_rows.start
            drawn = draw_permutations(self.seed, start, count, b, m)
            identity = np.broadcast_to(np.arange(count), (1, m - 1, count))
            for at, tiles in tiling.gram_tiles(rows, buffers):
                means, places = products.centred(tiles, at), products.places(at)
                permuted = [
                    tile if v == 0 else np.empty_like(tile)
                    for tile, v in zip(tiles, variables, strict=True)
                ]
                for row, orders in zip(sums, chain(identity, drawn), strict=True):
                    for k in others:
                        order = orders[variables[k] - 1]
                        np.take(tiles[k], order, axis=0, out=permuted[k], mode="clip")
                    sums_of = products.column_sums(permuted, means)
                    for (place, columns), values in zip(places, sums_of, strict=True):
                        row[place] += as_real(values[columns])
        return PermutedSums(sums)

    def combine(self, left: PermutedSums, right: PermutedSums) -> PermutedSums:
        """Add."""
        return add(left, right)

    def _group(self, rows: int) -> int:
        return rows if self.over_all else min(rows, self.null.block_rows)

    def _narrow(self, group: int) -> CentredProducts:
        """Narrow tiles, since a whole group of rows must stay in the cache."""
        width = _GROUP_TILE_BYTES // (group * self.products.tiling.dtype.itemsize)
        return self.products.narrow(group, min(max(width, 16), 256))
