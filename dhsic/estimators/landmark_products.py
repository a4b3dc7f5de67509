"""The centred products of several combinations of kernels, from tiles that they share."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import accumulate, chain, combinations, pairwise
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
Columns = Indices | slice
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

    @property
    def sizes(self) -> list[int]:
        """Real numbers of every combination."""
        return [stop - start for start, stop in pairwise(self.starts)]

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
            for c, (place, columns) in enumerate(self.places(at)):
                if place.start < place.stop:
                    yield place, as_real(self._product(c, columns, tiles, means, own))

    def places(self, at: slice) -> list[tuple[slice, Columns]]:
        """Where every combination has the landmarks of some tiles in a row, and which it keeps."""
        parts = self.tiling.parts
        landmarks = slice(at.start // parts, at.stop // parts)
        return [self._place(c, landmarks) for c in range(len(self.chosen))]

    def column_sums(self, tiles: Sequence[Tile], means: Sequence[Tile]) -> Iterator[Tile]:
        """Sums over rows of the product of every combination, at all landmarks, shapes (c,).

        Parameters
        ----------
        tiles : sequence of ndarray, shapes (b, c)
            Centred, of all kernels. Where there is one combination, its tiles but the first are
            overwritten.
        means : sequence of ndarray, shapes (c,)
            kappa_k.
        """
        shared = self._m <= _MOST_SHARED
        return (_shared_sums if shared else _own_sums)(self.chosen, tiles, means)

    def narrow(self, row_tile: int, column_tile: int) -> CentredProducts:
        """The same in tiles of another size."""
        return replace(
            self, tiling=replace(self.tiling, row_tile=row_tile, column_tile=column_tile)
        )

    def _product(
        self, c: int, columns: Columns, tiles: list[Tile], means: list[Tile], own: Tile
    ) -> Tile:
        """That of a combination at some landmarks, in the tiles where no other needs them."""
        its, its_means = ([values[k] for k in self.chosen[c]] for values in (tiles, means))
        if not self._owned:
            return product_of_centred(its, its_means)
        its_means = [mean[columns] for mean in its_means]
        shape = len(its[0]), len(its_means[0])
        copies = list(own[:, : shape[0] * shape[1]].reshape(self._m, *shape))
        if isinstance(columns, slice) and self._m == 2:
            product: Tile = np.multiply(its[0], its[1], out=copies[0])
            return product
        for tile, copy in zip(its, copies, strict=True):
            if isinstance(columns, slice):
                np.copyto(copy, tile)
            else:
                np.take(tile, columns, axis=1, out=copy, mode="clip")
        return product_of_centred(copies, its_means)

    def _place(self, c: int, landmarks: slice) -> tuple[slice, Columns]:
        first, last = np.searchsorted(self.kept[c], [landmarks.start, landmarks.stop])
        start, parts = self.starts[c], self.tiling.parts
        at = slice(start + parts * int(first), start + parts * int(last))
        if last - first == landmarks.stop - landmarks.start:
            return at, slice(None)
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
    """One combination after another."""
    for one in chosen:
        its = [tiles[k] if len(chosen) == 1 else tiles[k].copy() for k in one]
        its[0] = tiles[one[0]].copy()
        yield column_sums(product_of_centred(its, [means[k] for k in one]))


def _shared_sums(
    chosen: Sequence[tuple[int, ...]], tiles: Sequence[Tile], means: Sequence[Tile]
) -> Iterator[Tile]:
    """From sums that combinations share.

    With d_l the centred tiles, the sum of xi is that over all sets S of two variables or more of
    prod_{l not in S} kappa_l times the sum of prod_{l in S} d_l.
    """
    found: dict[tuple[int, ...], Tile] = {}
    heads: dict[tuple[int, ...], Tile] = {}
    for one in chosen:
        heads = {few: tile for few, tile in heads.items() if set(few) <= set(one)}
        terms = []
        for few in _sets(one):
            if few not in found:
                found[few] = np.einsum("ij,ij->j", _head(few[:-1], tiles, heads), tiles[few[-1]])
            terms.append(math.prod([means[k] for k in one if k not in few], start=found[few]))
        yield reduce(np.add, terms)


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
