"""Passes over pairs of row blocks that sum Gram matrices no one ever holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic._random import random_signs
from dhsic.engine.reduction import Footprint, RowBlock, add
from dhsic.engine.tiles import Matrix, column_sums
from dhsic.estimators.gram_centring import Centring, PermutedStatistics, centred_pairs
from dhsic.estimators.gram_sums import GridSums
from dhsic.kernels import Combinations
from dhsic.kernels.shared import SharedTiles
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
    """One a kernel."""
    spare: Matrix
    """Scratch of the shape of a tile."""

    @property
    def weight(self) -> float:
        """A tile off the diagonal stands for its transpose too."""
        return 1.0 if self.on_diagonal else 2.0


@dataclass(frozen=True)
class GramTiling:
    """Gram matrices of row blocks, a tile at a time.

    Parameters
    ----------
    combinations : Combinations
        Of fitted kernels.
    dims : tuple of int
        Columns of every variable.
    dtype : dtype
        Precision of the tiles.
    """

    combinations: Combinations
    dims: tuple[int, ...]
    dtype: np.dtype[Any]

    @cached_property
    def shared(self) -> SharedTiles:
        """How the tiles are computed."""
        return SharedTiles(self.combinations.kernels, self.combinations.variables)

    @property
    def n_kernels(self) -> int:
        """Kernels of all variables, K."""
        return len(self.combinations.kernels)

    def tiles(self, left: RowBlock, right: RowBlock, size: int) -> Iterator[GramTile]:
        """Tiles of all pairs of rows, each pair once; the caller's until the next step."""
        k = self.n_kernels
        rows = self.shared.rows(left.values, self.dtype)
        columns = self.shared.columns(right.values, self.dtype)
        largest = min(size, left.rows) * min(size, right.rows)
        buffers = np.empty((k + 1 + self.shared.work_tiles, largest), self.dtype)
        same = left.start == right.start
        for start in range(0, left.rows, size):
            at = slice(start, min(start + size, left.rows))
            for first in range(start if same else 0, right.rows, size):
                to = slice(first, min(first + size, right.rows))
                shape = (at.stop - at.start, to.stop - to.start)
                views = buffers[:, : shape[0] * shape[1]].reshape(-1, *shape)
                grams = list(views[:k])
                self.shared.tiles(
                    [x[at] for x in rows], [y[to] for y in columns], grams, views[k + 1 :]
                )
                yield GramTile(
                    _moved(at, left.start),
                    _moved(to, right.start),
                    same and start == first,
                    grams,
                    views[k],
                )

    def footprint(self, rows: int, size: int) -> tuple[int, float]:
        """Bytes of `tiles`, and operations a pair of rows."""
        width = self.shared.width(self.dims)
        tiles = self.n_kernels + 2 + self.shared.work_tiles
        scratch = tiles * min(size, rows) ** 2 * self.dtype.itemsize + 4 * 8 * rows * width
        return scratch, self.shared.operations(width)


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
        return Footprint(0, scratch, 16 * self.tiling.n_kernels * self.n, operations)

    def chunk(self, left: RowBlock, right: RowBlock) -> GridSums:
        """Sums over one pair of blocks and its transpose."""
        combinations = self.tiling.combinations
        sums = GridSums.zeros(self.tiling.n_kernels, len(combinations), self.n)
        for tile in self.tiling.tiles(left, right, _TILE):
            for k, gram in enumerate(tile.grams):
                sums.rows[k, tile.rows] += gram.sum(axis=1, dtype=np.float64)
                sums.squares[k] += tile.weight * float(np.vdot(gram, gram))
                if tile.on_diagonal:
                    sums.diagonal[k, tile.rows] = gram.diagonal()
                else:
                    sums.rows[k, tile.columns] += column_sums(gram)
            for c in range(len(combinations)):
                first, second, *others = combinations.of(tile.grams, c)
                product = hadamard([np.multiply(first, second, out=tile.spare), *others])
                sums.joint[c] += tile.weight * float(product.sum(dtype=np.float64))
        return sums

    def combine(self, left: GridSums, right: GridSums) -> GridSums:
        """Add."""
        return add(left, right)


class CentredGramSums(NamedTuple):
    """Sums of H_ij = <xi_i, xi_j> of every combination, plain and with signs."""

    total: Vector
    """sum_ij H_ij, shape (G,)."""
    linear: Vector
    """sum_ij H_ij w_jb, shape (b, G)."""
    quadratic: Vector
    """sum_ij w_ib H_ij w_jb, shape (b, G)."""
    signs: Vector
    """sum_i w_ib, shape (b,)."""


@dataclass(frozen=True)
class CentredGramPass:
    """The Gram matrices of the centred products, times random signs from both sides.

    All combinations have the same signs.

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
        b, g = self.n_resamples, len(self.tiling.combinations)
        scratch, operations = self.tiling.footprint(rows, _TILE)
        tile, size = min(rows, _TILE), self.tiling.dtype.itemsize
        centred = (4 * len(self.tiling.dims) - 5) * tile**2  # what `centred_pairs` multiplies
        signs = b * (2 * rows + 2 * tile)
        return Footprint(
            payload=self.centring.nbytes,
            scratch=scratch + size * (centred + signs),
            state=8 * (2 * b * g + b + g),
            operations=operations + 2.0 * b * g,
        )

    def chunk(self, left: RowBlock, right: RowBlock) -> CentredGramSums:
        """Sums over one pair of blocks and its transpose."""
        w, v = self._signs(left), self._signs(right)
        chosen = self.tiling.combinations.chosen
        total = np.zeros(len(chosen))
        linear, quadratic = np.zeros((2, self.n_resamples, len(chosen)))
        for tile in self.tiling.tiles(left, right, _TILE):
            left_signs = w[_moved(tile.rows, -left.start)]
            right_signs = v[_moved(tile.columns, -right.start)]
            for c, h in centred_pairs(
                tile.grams, chosen, self.centring, tile.rows, tile.columns, tile.spare
            ):
                signed = h @ right_signs
                sums = column_sums(signed)
                linear[:, c] += sums if tile.on_diagonal else sums + h.sum(axis=1) @ left_signs
                quadratic[:, c] += tile.weight * np.einsum("ib,ib->b", left_signs, signed)
                total[c] += tile.weight * float(h.sum(dtype=np.float64))
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
    """Sums of the products of Gram matrices, as paired and permuted within groups of rows."""

    joint: Vector
    """Shape (b + 1, G); row 0 is the pairing of the data."""
    mixed: Vector
    """sum_i prod_m of the row means of every permuted variable, shape (b + 1, G)."""


@dataclass(frozen=True)
class PermutedGramPass:
    """Sums of the products of Gram matrices under permutations within groups of rows.

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
        products, b, size = self.permuted.products, self.null.n_resamples, self.null.block_rows
        scratch, operations = self.tiling.footprint(rows, size)
        group = min(rows, size)
        orders = 2 * 16 * (products.n_variables - 1) * b * group
        strips = products.scratch_entries(group, group) * self.tiling.dtype.itemsize
        return Footprint(
            payload=self.centring.nbytes,
            scratch=scratch + orders + strips,
            state=16 * (b + 1) * len(products.chosen),
            operations=operations + 8.0 * b * len(products.gathered),
        )

    def chunk(self, left: RowBlock, right: RowBlock) -> PermutedGramSums:
        """Sums over one pair of blocks and its transpose."""
        permuted, replicates = self.permuted, self.null.n_resamples + 1
        joint, mixed = np.zeros((2, replicates, len(permuted.products.chosen)))
        for tile in self.tiling.tiles(left, right, self.null.block_rows):
            orders = self._orders(tile.rows)
            moved = orders if tile.on_diagonal else self._orders(tile.columns)
            firsts = tile.grams[: permuted.products.n_firsts]
            others = [tile.grams[k] for k in permuted.products.gathered]
            permuted.centre_firsts(firsts, tile.rows, tile.columns)
            joint += tile.weight * permuted.products.sums(firsts, others, orders, moved)
            if tile.on_diagonal:
                mixed += permuted.mixed_sums(tile.rows, orders)
        return PermutedGramSums(joint, mixed)

    @cached_property
    def permuted(self) -> PermutedStatistics:
        """The statistics that the sums give."""
        return PermutedStatistics.of(self.tiling.combinations, self.centring)

    def combine(self, left: PermutedGramSums, right: PermutedGramSums) -> PermutedGramSums:
        """Add."""
        return add(left, right)

    def _orders(self, rows: slice) -> NDArray[np.intp]:
        """Identity and permutations of a group, shape (b + 1, M - 1, rows)."""
        count, m = rows.stop - rows.start, len(self.tiling.dims)
        drawn = draw_permutations(self.seed, rows.start, count, self.null.n_resamples, m)
        identity = np.broadcast_to(np.arange(count), (1, m - 1, count))
        return np.concatenate([identity, drawn])


def _moved(rows: slice, by: int) -> slice:
    return slice(rows.start + by, rows.stop + by)
