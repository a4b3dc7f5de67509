"""Passes over pairs of row blocks that sum Gram matrices no one ever holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic._random import random_signs
from dhsic.engine.reduction import Footprint, RowBlock, add
from dhsic.engine.tiles import Matrix, column_sums
from dhsic.estimators.gram_sums import Centring, GramSums, centred_pairs, permuted_sums
from dhsic.kernels import Kernel
from dhsic.linalg import hadamard
from dhsic.nulls import Permutation, draw_permutations

__all__ = [
    "CentredGramPass",
    "CentredGramSums",
    "GramPass",
    "PermutedGramPass",
    "PermutedGramSums",
]

Vector = NDArray[np.float64]

_TILE = 512


class _Tile(NamedTuple):
    rows: slice
    columns: slice
    on_diagonal: bool
    grams: list[Matrix]

    @property
    def weight(self) -> float:
        """A tile off the diagonal stands for its transpose too."""
        return 1.0 if self.on_diagonal else 2.0


def _tiles(
    kernels: Sequence[Kernel], dtype: np.dtype[Any], left: RowBlock, right: RowBlock, size: int
) -> Iterator[_Tile]:
    """Gram tiles of all pairs of rows, each pair once; the caller's until the next step."""
    rows = [k.rows(x, dtype) for k, x in zip(kernels, left.values, strict=True)]
    columns = [k.columns(x, dtype) for k, x in zip(kernels, right.values, strict=True)]
    m, work = len(kernels), max(kernel.work_tiles for kernel in kernels)
    buffers = np.empty((m + work, min(size, left.rows) * min(size, right.rows)), dtype)
    same = left.start == right.start
    for start in range(0, left.rows, size):
        at = slice(start, min(start + size, left.rows))
        for first in range(start if same else 0, right.rows, size):
            to = slice(first, min(first + size, right.rows))
            shape = (at.stop - at.start, to.stop - to.start)
            views = buffers[:, : shape[0] * shape[1]].reshape(-1, *shape)
            for kernel, x, y, out in zip(kernels, rows, columns, views[:m], strict=True):
                kernel.tile(x[at], y[to], out, views[m:])
            yield _Tile(at, to, same and start == first, list(views[:m]))


def _footprint(
    kernels: Sequence[Kernel], dims: Sequence[int], dtype: np.dtype[Any], rows: int, size: int
) -> tuple[int, float]:
    """Scratch bytes of `_tiles` with what is computed from a tile, and operations a pair."""
    widths = sum(k.width(d) for k, d in zip(kernels, dims, strict=True))
    tiles = 2 * len(kernels) + 3 + max(kernel.work_tiles for kernel in kernels)
    scratch = tiles * min(size, rows) ** 2 * dtype.itemsize + 4 * 8 * rows * widths
    return scratch, 2.0 * widths + 25.0 * len(kernels)


@dataclass(frozen=True)
class GramPass:
    """Sums of the Gram matrices and of their product.

    Parameters
    ----------
    kernels : tuple of Kernel
        One fitted kernel a variable.
    dims : tuple of int
        Columns of every variable.
    n : int
        Rows of the data.
    dtype : dtype
        Precision of the tiles.
    """

    kernels: tuple[Kernel, ...]
    dims: tuple[int, ...]
    n: int
    dtype: np.dtype[Any]
    name: str = "Gram sums"
    row_multiple: int = 1

    def footprint(self, rows: int) -> Footprint:
        """Cost of a pair of blocks of so many rows."""
        scratch, operations = _footprint(self.kernels, self.dims, self.dtype, rows, _TILE)
        return Footprint(0, scratch, 16 * len(self.kernels) * self.n, operations)

    def chunk(self, left: RowBlock, right: RowBlock) -> GramSums:
        """Sums over one pair of blocks and its transpose."""
        sums = GramSums.zeros(len(self.kernels), self.n)
        joint = 0.0
        for tile in _tiles(self.kernels, self.dtype, left, right, _TILE):
            at, to = _shifted(tile.rows, left.start), _shifted(tile.columns, right.start)
            for m, gram in enumerate(tile.grams):
                sums.rows[m, at] += gram.sum(axis=1, dtype=np.float64)
                sums.squares[m] += tile.weight * _dot(gram, gram)
                if tile.on_diagonal:
                    sums.diagonal[m, at] = gram.diagonal()
                else:
                    sums.rows[m, to] += column_sums(gram)
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
    kernels : tuple of Kernel
        One fitted kernel a variable.
    dims : tuple of int
        Columns of every variable.
    centring : Centring
        From the Gram sums.
    n_resamples : int
        Replicates.
    seed : int
        The seed of the test.
    dtype : dtype
        Precision of the tiles.
    """

    kernels: tuple[Kernel, ...]
    dims: tuple[int, ...]
    centring: Centring
    n_resamples: int
    seed: int
    dtype: np.dtype[Any]
    name: str = "multiplier null"
    row_multiple: int = 1

    def footprint(self, rows: int) -> Footprint:
        """Cost of a pair of blocks of so many rows."""
        b = self.n_resamples
        scratch, operations = _footprint(self.kernels, self.dims, self.dtype, rows, _TILE)
        signs = b * self.dtype.itemsize * (2 * rows + 2 * min(rows, _TILE))
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
        for tile in _tiles(self.kernels, self.dtype, left, right, _TILE):
            at, to = _shifted(tile.rows, left.start), _shifted(tile.columns, right.start)
            h = centred_pairs(tile.grams, self.centring, at, to)
            signed = h @ v[tile.columns]
            sums = column_sums(signed)
            linear += sums if tile.on_diagonal else sums + h.sum(axis=1) @ w[tile.rows]
            quadratic += tile.weight * np.einsum("ib,ib->b", w[tile.rows], signed)
            total += tile.weight * float(h.sum(dtype=np.float64))
        signs = column_sums(w) if left.start == right.start else np.zeros(self.n_resamples)
        return CentredGramSums(total, linear, quadratic, signs.astype(np.float64))

    def combine(self, left: CentredGramSums, right: CentredGramSums) -> CentredGramSums:
        """Add."""
        return add(left, right)

    def _signs(self, block: RowBlock) -> Matrix:
        stop = block.start + block.rows
        return random_signs(self.seed, block.start, stop, self.n_resamples).astype(self.dtype)


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
    kernels : tuple of Kernel
        One fitted kernel a variable.
    dims : tuple of int
        Columns of every variable.
    centring : Centring
        From the Gram sums.
    null : Permutation
        Replicates and rows of a group.
    seed : int
        The seed of the test.
    dtype : dtype
        Precision of the tiles.
    """

    kernels: tuple[Kernel, ...]
    dims: tuple[int, ...]
    centring: Centring
    null: Permutation
    seed: int
    dtype: np.dtype[Any]
    name: str = "permutation null"

    @property
    def row_multiple(self) -> int:
        """Blocks hold whole groups."""
        return self.null.block_rows

    def footprint(self, rows: int) -> Footprint:
        """Cost of a pair of blocks of so many rows."""
        m, b, size = len(self.kernels), self.null.n_resamples, self.null.block_rows
        scratch, operations = _footprint(self.kernels, self.dims, self.dtype, rows, size)
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
        for tile in _tiles(self.kernels, self.dtype, left, right, size):
            at, to = _shifted(tile.rows, left.start), _shifted(tile.columns, right.start)
            orders = self._orders(at)
            moved = orders if tile.on_diagonal else self._orders(to)
            first = self.centring.centre_first(tile.grams[0], at, to)
            joint += tile.weight * permuted_sums(first, tile.grams[1:], orders, moved)
            if tile.on_diagonal:
                mixed += self.centring.mixed_sums(at, orders)
        return PermutedGramSums(joint, mixed)

    def combine(self, left: PermutedGramSums, right: PermutedGramSums) -> PermutedGramSums:
        """Add."""
        return add(left, right)

    def _orders(self, rows: slice) -> NDArray[np.intp]:
        """Identity and permutations of a group, shape (b + 1, M - 1, rows)."""
        count, others = rows.stop - rows.start, len(self.kernels) - 1
        drawn = draw_permutations(
            self.seed, rows.start, count, self.null.n_resamples, len(self.kernels)
        )
        identity = np.broadcast_to(np.arange(count), (1, others, count))
        return np.concatenate([identity, drawn])


def _shifted(rows: slice, start: int) -> slice:
    return slice(rows.start + start, rows.stop + start)


def _dot(left: Matrix, right: Matrix) -> float:
    return float(np.vdot(left, right))
