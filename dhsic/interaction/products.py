"""The products of three centred kernels at landmarks, linearised under every factorisation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.reduction import Footprint, RowBlock, add
from dhsic.engine.tiles import Matrix, Tile, Tiling, column_sums
from dhsic.estimators.landmark_products import CentredProducts
from dhsic.estimators.landmark_sums import PermutedSums
from dhsic.nulls import Permutation, draw_permutations

__all__ = [
    "FACTORISATIONS",
    "FactorisedProducts",
    "MomentSums",
    "MomentsPass",
    "SeparatedPermutationPass",
]

Vector = NDArray[np.float64]

FACTORISATIONS: Final = ((1, 2, 0), (0, 2, 1), (0, 1, 2))
"""The variables a and b that stay together, and the one s that is independent of both."""

_GROUP_TILE_BYTES = 2**20


@dataclass(frozen=True)
class FactorisedProducts(CentredProducts):
    """Rows of the terms xi of the three factorisations, side by side.

    With d_m = k_m(z_m, x_mi) - kappa_m and c_ab the mean over all rows of d_a d_b, the term of a
    row under (a, b) _||_ s is xi = (d_a d_b - c_ab) d_s. Its mean over all rows is that of
    d_1 d_2 d_3, since that of d_s is 0. `means` holds kappa_1, kappa_2, kappa_3 and then c_ab in
    the order of `FACTORISATIONS`.
    """

    @classmethod
    def at(cls, tiling: Tiling, means: Sequence[Matrix]) -> Self:
        """All three at all landmarks."""
        kept = (np.arange(tiling.n_landmarks),) * len(FACTORISATIONS)
        return cls(tiling, tuple(means), FACTORISATIONS, kept)

    def blocks(
        self, rows: Sequence[Matrix], buffers: tuple[Tile, Tile]
    ) -> Iterator[tuple[slice, Matrix]]:
        """Blocks of the rows of terms (b, c), with the slice of the row that is theirs."""
        gram, own = buffers
        for at, tiles in self.tiling.gram_tiles(rows, gram):
            *_, first, second, third = self.centred(tiles, at)
            xi = own[0, : tiles[0].size].reshape(tiles[0].shape)
            factorised = zip(self.chosen, (first, second, third), self.places(at), strict=True)
            for (a, b, s), moment, (place, _) in factorised:
                np.multiply(tiles[a], tiles[b], out=xi)
                np.subtract(xi, moment, out=xi)
                yield place, np.multiply(xi, tiles[s], out=xi)


class MomentSums(NamedTuple):
    """Sums over rows of three kernels and of their products two by two, p numbers a row."""

    marginal: Vector
    """sum_i k_m, shape (3, p)."""
    pairs: Vector
    """sum_i k_a k_b in the order of `FACTORISATIONS`, shape (3, p)."""

    def means(self, n: int) -> Vector:
        """kappa_m of every variable, and c_ab of every factorisation, shape (6, p)."""
        kappa, pairs = self.marginal / n, self.pairs / n
        moments = [pairs[i] - kappa[a] * kappa[b] for i, (a, b, _) in enumerate(FACTORISATIONS)]
        return np.vstack([kappa, moments])


@dataclass(frozen=True)
class MomentsPass:
    """Sums of three kernels at landmarks, and of their products two by two.

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
        pairs = 2.0 * len(FACTORISATIONS) * t.n_values
        state = 8 * t.n_values * 2 * len(FACTORISATIONS)
        return Footprint(t.nbytes, t.scratch_bytes, state, t.operations + pairs)

    def chunk(self, block: RowBlock) -> MomentSums:
        """Sums over one block."""
        marginal, pairs = np.zeros((2, len(FACTORISATIONS), self.tiling.n_values))
        buffers = self.tiling.buffers()
        for _, rows in self.tiling.row_tiles(block.values):
            for at, tiles in self.tiling.gram_tiles(rows, buffers):
                for i, (a, b, s) in enumerate(FACTORISATIONS):
                    marginal[s, at] += column_sums(tiles[s])
                    pairs[i, at] += np.einsum("ij,ij->j", tiles[a], tiles[b])
        return MomentSums(marginal, pairs)

    def combine(self, left: MomentSums, right: MomentSums) -> MomentSums:
        """Add."""
        return add(left, right)


@dataclass(frozen=True)
class SeparatedPermutationPass:
    """Sums of d_1 d_2 d_3 with one variable permuted within groups of rows, for each of the three.

    Permutations leave kappa_m as they are, so that these are the sums of the permuted data. The
    three factorisations have the same permutations.

    Parameters
    ----------
    products : FactorisedProducts
        Of which the means kappa_m are used.
    null : Permutation
        Replicates and rows of a group.
    over_all : bool
        One group of all rows, in one block.
    seed : int
        The seed of the test.
    """

    products: FactorisedProducts
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
        q, b = self.products.n_values, self.null.n_resamples
        group = self._group(rows)
        tiling = self._narrow(group).tiling
        own = 2 * group * min(tiling.column_tile, tiling.n_landmarks)
        return Footprint(
            payload=self.products.nbytes,
            scratch=2 * 8 * group * b + tiling.scratch_bytes + own * tiling.dtype.itemsize,
            state=8 * (b + 1) * q,
            operations=self.products.operations + 4.0 * b * q,
        )

    def chunk(self, block: RowBlock) -> PermutedSums:
        """Sums over one block."""
        replicates = self.null.n_resamples
        sums = np.zeros((replicates + 1, self.products.n_values))
        group = self._group(block.rows)
        products = self._narrow(group)
        tiling, buffers = products.tiling, products.tiling.buffers()
        for at_rows, rows in tiling.row_tiles(block.values, group):
            start, count = block.start + at_rows.start, at_rows.stop - at_rows.start
            drawn = draw_permutations(self.seed, start, count, replicates, 2)[:, 0]
            for at, tiles in tiling.gram_tiles(rows, buffers):
                products.centred(tiles, at)
                together, moved = np.empty((2, *tiles[0].shape), tiling.dtype)
                for (a, b, s), (place, _) in zip(products.chosen, products.places(at), strict=True):
                    np.multiply(tiles[a], tiles[b], out=together)
                    for row, order in zip(sums, chain([np.arange(count)], drawn), strict=True):
                        np.take(tiles[s], order, axis=0, out=moved, mode="clip")
                        row[place] += np.einsum("ij,ij->j", together, moved)
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
