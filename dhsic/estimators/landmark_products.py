"""The centred products of several combinations of kernels, from tiles that they share."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, chain, combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.tiles import (
    Matrix,
    Tile,
    Tiling,
    as_real,
    centre,
    column_sums,
    product_of_centred,
)

__all__ = ["CentredProducts"]

Indices = NDArray[np.intp]
Vector = NDArray[np.float64]

_MOST_SHARED = 3  # variables; sets of more are too many


@dataclass(frozen=True)
class CentredProducts:
    """Rows of centred products xi of G combinations of kernels, side by side.

    Parameters
    ----------
    tiling : Tiling
        All K kernels, and landmarks.
    means : tuple of ndarray, shapes (p,)
        kappa_k, the mean of every kernel at the landmarks, in the precision of the tiles.
    chosen : tuple of tuple of int
        The kernels of every combination, one a variable.
    kept : tuple of ndarray of int
        The landmarks of every combination, ascending.
    """

    tiling: Tiling
    means: tuple[Matrix, ...]
    chosen: tuple[tuple[int, ...], ...]
    kept: tuple[Indices, ...]

    @classmethod
    def of(
        cls,
        tiling: Tiling,
        means: Sequence[Matrix],
        chosen: Sequence[tuple[int, ...]],
        kept: Sequence[Indices] | None = None,
    ) -> CentredProducts:
        """With all landmarks, where those to keep are not given."""
        everything = [np.arange(tiling.n_landmarks)] * len(chosen) if kept is None else kept
        return cls(tiling, tuple(means), tuple(chosen), tuple(everything))

    def part(self, numbers: Sequence[int]) -> CentredProducts:
        """Some of the combinations, with the tiles of their kernels only."""
        chosen = tuple(self.chosen[c] for c in numbers)
        part = replace(self, chosen=chosen, kept=tuple(self.kept[c] for c in numbers))
        return replace(part, tiling=replace(self.tiling, wanted=part.kernels))

    @cached_property
    def kernels(self) -> tuple[int, ...]:
        """The numbers of the kernels of all combinations, ascending."""
        return tuple(sorted(set(chain.from_iterable(self.chosen))))

    @cached_property
    def starts(self) -> list[int]:
        """Where the combinations begin in a row, and where the last ends."""
        return list(accumulate((len(k) * self.tiling.parts for k in self.kept), initial=0))

    @property
    def n_values(self) -> int:
        """Real numbers in a row."""
        return self.starts[-1]

    def parts_of(self, values: NDArray[Any]) -> list[NDArray[Any]]:
        """What belongs to each combination, of an array with a row for every number."""
        return np.split(values, self.starts[1:-1])

    @property
    def nbytes(self) -> int:
        """Bytes of the landmarks, means and choices."""
        arrays = (*self.means, *self.kept)
        return self.tiling.nbytes + sum(array.nbytes for array in arrays)

    @property
    def scratch_bytes(self) -> int:
        """Bytes of all tiles."""
        t = self.tiling
        tile = t.row_tile * min(t.column_tile, t.n_landmarks) * t.dtype.itemsize
        return t.scratch_bytes + (self._owned + (self._m > 2)) * tile

    @property
    def operations(self) -> float:
        """Floating-point operations a row."""
        return self.tiling.operations + 4.0 * (self._m - 1) * self.n_values

    def buffers(self) -> tuple[Tile, Tile]:
        """Memory for `blocks`, to be allocated once for many row tiles."""
        gram = self.tiling.buffers()
        return gram, np.empty((self._owned, gram.shape[1]), gram.dtype)

    def centred(self, tiles: Sequence[Tile], at: slice) -> list[Tile]:
        """Centre tiles of the kernels in place, and say by which means."""
        means = self.tiling.means(self.means, at)
        centre([tiles[k] for k in self.kernels], [means[k] for k in self.kernels])
        return means

    def blocks(
        self, rows: Sequence[Matrix], buffers: tuple[Tile, Tile]
    ) -> Iterator[tuple[slice, Matrix]]:
        """Blocks of the rows of products (b, c), with the slice of the row that is theirs."""
        gram, own = buffers
        for at, tiles in self.tiling.gram_tiles(rows, gram):
            means = self.centred(tiles, at)
            landmarks = slice(at.start // self.tiling.parts, at.stop // self.tiling.parts)
            for c in range(len(self.chosen)):
                place, columns = self._place(c, landmarks)
                if len(columns):
                    yield place, as_real(self._product(c, columns, tiles, means, own))

    def add_sums(
        self, sums: Vector, at: slice, tiles: Sequence[Tile], means: Sequence[Tile]
    ) -> None:
        """Add the sums over rows of the products of every combination.

        Parameters
        ----------
        sums : ndarray, shape (n_values,)
            A row.
        at : slice
            The numbers of a row of tiles that these tiles are.
        tiles : sequence of ndarray, shapes (b, c)
            Centred, of all kernels.
        means : sequence of ndarray, shapes (c,)
            kappa_k.
        """
        parts = self.tiling.parts
        landmarks = slice(at.start // parts, at.stop // parts)
        whole = _shared_sums if self._m <= _MOST_SHARED else _own_sums
        for c, values in enumerate(whole(self.chosen, tiles, means)):
            place, columns = self._place(c, landmarks)
            sums[place] += as_real(values[columns])

    def narrow(self, row_tile: int, column_tile: int) -> CentredProducts:
        """The same in tiles of another size."""
        return replace(
            self, tiling=replace(self.tiling, row_tile=row_tile, column_tile=column_tile)
        )

    def _product(
        self, c: int, columns: Indices, tiles: list[Tile], means: list[Tile], own: Tile
    ) -> Tile:
        """That of a combination at some landmarks, in the tiles where no other needs them."""
        its, its_means = ([values[k] for k in self.chosen[c]] for values in (tiles, means))
        if not self._owned:
            return product_of_centred(its, its_means)
        shape = len(its[0]), len(columns)
        copies = list(own[:, : shape[0] * shape[1]].reshape(self._m, *shape))
        whole = len(columns) == its[0].shape[1]
        if whole and self._m == 2:
            product: Tile = np.multiply(its[0], its[1], out=copies[0])
            return product
        for tile, copy in zip(its, copies, strict=True):
            if whole:
                np.copyto(copy, tile)
            else:
                np.take(tile, columns, axis=1, out=copy, mode="clip")
        return product_of_centred(copies, [mean[columns] for mean in its_means])

    def _place(self, c: int, landmarks: slice) -> tuple[slice, Indices]:
        """Where a combination has some landmarks in a row, and which of these it keeps."""
        first, last = np.searchsorted(self.kept[c], [landmarks.start, landmarks.stop])
        start, parts = self.starts[c], self.tiling.parts
        at = slice(start + parts * int(first), start + parts * int(last))
        return at, self.kept[c][first:last] - landmarks.start

    @property
    def _m(self) -> int:
        return len(self.chosen[0])

    @property
    def _owned(self) -> int:
        """Tiles of its own that a combination needs: none where it has all to itself."""
        whole = len(self.kept[0]) == self.tiling.n_landmarks
        return 0 if len(self.chosen) == 1 and whole else self._m


def _own_sums(
    chosen: Sequence[tuple[int, ...]], tiles: Sequence[Tile], means: Sequence[Tile]
) -> Iterator[Tile]:
    """Sums over rows of the products of every combination, one after another."""
    for one in chosen:
        copies = [tiles[k].copy() for k in one]
        yield column_sums(product_of_centred(copies, [means[k] for k in one]))


def _shared_sums(
    chosen: Sequence[tuple[int, ...]], tiles: Sequence[Tile], means: Sequence[Tile]
) -> Iterator[Tile]:
    """The same from sums that combinations share.

    With d_l the centred tiles, the sum of xi is that over all sets S of two variables or more of
    prod_{l not in S} kappa_l times the sum of prod_{l in S} d_l.
    """
    found: dict[tuple[int, ...], Tile] = {}
    heads: dict[tuple[int, ...], Tile] = {}
    for one in chosen:
        heads = {few: tile for few, tile in heads.items() if set(few) <= set(one)}
        whole = np.zeros_like(means[0])
        for few in _sets(one):
            if few not in found:
                head = _head(few[:-1], tiles, heads)
                found[few] = np.einsum("ij,ij->j", head, tiles[few[-1]])
            whole += math.prod([means[k] for k in one if k not in few], start=found[few])
        yield whole


def _sets(combination: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Sets of two kernels or more, the smaller first."""
    sizes = range(2, len(combination) + 1)
    return chain.from_iterable(combinations(combination, size) for size in sizes)


def _head(few: tuple[int, ...], tiles: Sequence[Tile], heads: dict[tuple[int, ...], Tile]) -> Tile:
    """The product of some tiles, kept for the sets that begin with it."""
    if len(few) == 1:
        return tiles[few[0]]
    if few not in heads:
        heads[few] = _head(few[:-1], tiles, heads) * tiles[few[-1]]
    return heads[few]
