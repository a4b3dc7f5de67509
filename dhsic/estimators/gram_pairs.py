"""Passes over pairs of row blocks that sum Gram matrices no one ever holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic._random import random_signs
from dhsic.engine.reduction import Footprint, RowBlock, add
from dhsic.engine.tiles import Matrix, column_sums
from dhsic.estimators.gram_centring import Centring, centred_pairs, permuted_sums
from dhsic.estimators.gram_sums import GramSums
from dhsic.kernels import Kernel
from dhsic.linalg import hadamard
from dhsic.nulls import Permutation, draw_permutations

__all__ = [
    "CentredGramPass",
    "CentredGramSums",
    "GramPass",
    "GramTile",
    "GramTiling",
    "PermutedGramPass",
    "PermutedGramSums",
]

Vector = NDArray[np.float64]

_TILE = 512


class GramTile(NamedTuple):
    """Gram matrices of some rows and columns."""

    rows: slice
    """Among all rows of the data."""
    columns: slice
    """Among all rows of the data."""
    on_diagonal: bool
    """Whether both are the same."""
    grams: list[Matrix]
    """One a variable."""

    @property
    def weight(self) -> float:
        """A tile off the diagonal stands for its transpose too."""
        return 1.0 if self.on_diagonal else 2.0


@dataclass(frozen=True)
class GramTiling:
    """Gram matrices of row blocks, a tile at a time.

    Parameters
    ----------
    kernels : tuple of Kernel
        One fitted kernel a variable.
    dims : tuple of int
        Columns of every variable.
    dtype : dtype
        Precision of the tiles.
    """

    kernels: tuple[Kernel, ...]
    dims: tuple[int, ...]
    dtype: np.dtype[Any]

    def tiles(self, left: RowBlock, right: RowBlock, size: int) -> Iterator[GramTile]:
        """Tiles of all pairs of rows, each pair once; the caller's until the next step."""
        m = len(self.kernels)
        rows = [k.rows(x, self.dtype) for k, x in zip(self.kernels, left.values, strict=True)]
        columns = [
            k.columns(x, self.dtype) for k, x in zip(self.kernels, right.values, strict=True)
        ]
        largest = min(size, left.rows) * min(size, right.rows)
        buffers = np.empty((m + self._work_tiles, largest), self.dtype)
        same = left.start == right.start
        for start in range(0, left.rows, size):
            at = slice(start, min(start + size, left.rows))
            for first in range(start if same else 0, right.rows, size):
                to = slice(first, min(first + size, right.rows))
                shape = (at.stop - at.start, to.stop - to.start)
                views = buffers[:, : shape[0] * shape[1]].reshape(-1, *shape)
                for kernel, x, y, out in zip(self.kernels, rows, columns, views[:m], strict=True):
                    kernel.tile(x[at], y[to], out, views[m:])
                yield GramTile(
                    _moved(at, left.start),
                    _moved(to, right.start),
                    same and start == first,
                    list(views[:m]),
                )

    def footprint(self, rows: int, size: int) -> tuple[int, float]:
        """Bytes of `tiles` with what is computed from a tile, and operations a pair of rows."""
        widths = sum(k.width(d) for k, d in zip(self.kernels, self.dims, strict=True))
        tiles = 2 * len(self.kernels) + 3 + self._work_tiles
        scratch = tiles * min(size, rows) ** 2 * self.dtype.itemsize + 4 * 8 * rows * widths
        return scratch, 2.0 * widths + 25.0 * len(self.kernels)

    @property
    def _work_tiles(self) -> int:
        return max(kernel.work_tiles for kernel in self.kernels)


@dataclass(frozen=True)
class GramPass:
    """Sums of the Gram matrices and of their product.

    Parameters
    ----------
    tiling : GramTiling
        Of the variables.
    n : int
        Rows of the data.
    """

    tiling: GramTiling
    n: int
    name: str = "Gram sums"
    row_multiple: int = 1

    def footprint(self, rows: int) -> Footprint:
        """Cost of a pair of blocks of so many rows."""
        scratch, operations = self.tiling.footprint(rows, _TILE)
        return Footprint(0, scratch, 16 * len(self.tiling.kernels) * self.n, operations)

    def chunk(self, left: RowBlock, right: RowBlock) -> GramSums:
        """Sums over one pair of blocks and its transpose."""
        sums = GramSums.zeros(len(self.tiling.kernels), self.n)
        joint = 0.0
        for tile in self.tiling.tiles(left, right, _TILE):
            for m, gram in enumerate(tile.grams):
                sums.rows[m, tile.rows] += gram.sum(axis=1, dtype=np.float64)
                sums.squares[m] += tile.weight * float(np.vdot(gram, gram))
                if tile.on_diagonal:
                    sums.diagonal[m, tile.rows] = gram.diagonal()
                else:
                    sums.rows[m, tile.columns] += column_sums(gram)
            joint += tile.weight * float(hadamard(tile.grams).sum(dtype=np.float64))
        return sums._replace(joint=joint)

    def combine(self, left: GramSums, right: GramSums) -> GramSums:
        """Add."""
        return add(left, right)


class CentredGramSums(NamedTuple):
    """Sums of H_ij = <xi_i, xi_j>, plain and with signs."""

    total: float
    """sum_ij H_ij."""
    linear: Vector
    """sum_ij H_ij w_jb, shape (b,)."""
    quadratic: Vector
    """sum_ij w_ib H_ij w_jb, shape (b,)."""
    signs: Vector
    """sum_i w_ib, shape (b,)."""


@dataclass(frozen=True)
class CentredGramPass:
    """The Gram matrix of the centred products, times random signs from both sides.

    Parameters
    ----------
    tiling : GramTiling
        Of the variables.
    centring : Centring
        From the Gram sums.
    n_resamples : int
        Replicates.
    seed : int
        The seed of the test.
    """

    tiling: GramTiling
    centring: Centring
    n_resamples: int
    seed: int
    name: str = "multiplier null"
    row_multiple: int = 1

    def footprint(self, rows: int) -> Footprint:
        """Cost of a pair of blocks of so many rows."""
        b = self.n_resamples
        scratch, operations = self.tiling.footprint(rows, _TILE)
        signs = b * self.tiling.dtype.itemsize * (2 * rows + 2 * min(rows, _TILE))
        return Footprint(
            payload=self.centring.nbytes,
            scratch=scratch + signs,
            state=8 * (3 * b + 1),
            operations=operations + 2.0 * b,
        )

    def chunk(self, left: RowBlock, right: RowBlock) -> CentredGramSums:
        """Sums over one pair of blocks and its transpose."""
        w, v = self._signs(left), self._signs(right)
        total, linear, quadratic = 0.0, np.zeros(self.n_resamples), np.zeros(self.n_resamples)
        for tile in self.tiling.tiles(left, right, _TILE):
            h = centred_pairs(tile.grams, self.centring, tile.rows, tile.columns)
            left_signs = w[_moved(tile.rows, -left.start)]
            signed = h @ v[_moved(tile.columns, -right.start)]
            sums = column_sums(signed)
            linear += sums if tile.on_diagonal else sums + h.sum(axis=1) @ left_signs
            quadratic += tile.weight * np.einsum("ib,ib->b", left_signs, signed)
            total += tile.weight * float(h.sum(dtype=np.float64))
        signs = column_sums(w) if left.start == right.start else np.zeros(self.n_resamples)
        return CentredGramSums(total, linear, quadratic, signs.astype(np.float64))

    def combine(self, left: CentredGramSums, right: CentredGramSums) -> CentredGramSums:
        """Add."""
        return add(left, right)

    def _signs(self, block: RowBlock) -> Matrix:
        stop = block.start + block.rows
        return random_signs(self.seed, block.start, stop, self.n_resamples).astype(
            self.tiling.dtype
        )


class PermutedGramSums(NamedTuple):
    """Sums of the product of the Gram matrices, as paired and permuted within groups of rows."""

    joint: Vector
    """Shape (b + 1,); entry 0 is the pairing of the data."""
    mixed: Vector
    """sum_i prod_m of the row means of every permuted variable, shape (b + 1,)."""


@dataclass(frozen=True)
class PermutedGramPass:
    """Sums of the product of Gram matrices under permutations within groups of rows.

    A pair of groups holds its own permutations, so every Gram tile is computed once and gathered
    for each replicate.

    Parameters
    ----------
    tiling : GramTiling
        Of the variables.
    centring : Centring
        From the Gram sums.
    null : Permutation
        Replicates and rows of a group.
    seed : int
        The seed of the test.
    """

    tiling: GramTiling
    centring: Centring
    null: Permutation
    seed: int
    name: str = "permutation null"

    @property
    def row_multiple(self) -> int:
        """Blocks hold whole groups."""
        return self.null.block_rows

    def footprint(self, rows: int) -> Footprint:
        """Cost of a pair of blocks of so many rows."""
        m, b, size = len(self.tiling.kernels), self.null.n_resamples, self.null.block_rows
        scratch, operations = self.tiling.footprint(rows, size)
        orders = 2 * 16 * (m - 1) * b * min(rows, size)
        return Footprint(
            payload=self.centring.nbytes,
            scratch=scratch + orders,
            state=16 * (b + 1),
            operations=operations + 8.0 * b * (m - 1),
        )

    def chunk(self, left: RowBlock, right: RowBlock) -> PermutedGramSums:
        """Sums over one pair of blocks and its transpose."""
        size = self.null.block_rows
        joint, mixed = np.zeros(self.null.n_resamples + 1), np.zeros(self.null.n_resamples + 1)
        for tile in self.tiling.tiles(left, right, size):
            orders = self._orders(tile.rows)
            moved = orders if tile.on_diagonal else self._orders(tile.columns)
            first = self.centring.centre_first(tile.grams[0], tile.rows, tile.columns)
            joint += tile.weight * permuted_sums(first, tile.grams[1:], orders, moved)
            if tile.on_diagonal:
                mixed += self.centring.mixed_sums(tile.rows, orders)
        return PermutedGramSums(joint, mixed)

    def combine(self, left: PermutedGramSums, right: PermutedGramSums) -> PermutedGramSums:
        """Add."""
        return add(left, right)

    def _orders(self, rows: slice) -> NDArray[np.intp]:
        """Identity and permutations of a group, shape (b + 1, M - 1, rows)."""
        count, m = rows.stop - rows.start, len(self.tiling.kernels)
        drawn = draw_permutations(self.seed, rows.start, count, self.null.n_resamples, m)
        identity = np.broadcast_to(np.arange(count), (1, m - 1, count))
        return np.concatenate([identity, drawn])


def _moved(rows: slice, by: int) -> slice:
    return slice(rows.start + by, rows.stop + by)
