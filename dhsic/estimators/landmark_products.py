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

from dhsic.engine.tiles import Matrix, Tile, Tiling, as_real, centre, product_of_centred

__all__ = ["CentredProducts"]

Indices = NDArray[np.intp]
Vector = NDArray[np.float64]


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

    def tiles(
        self, rows: Sequence[Matrix], buffers: tuple[Tile, Tile]
    ) -> Iterator[tuple[slice, list[Tile], list[Tile]]]:
        """Centred tiles of the kernels of a combination, with their means.

        They come with the slice of the row that is theirs, and are the caller's to overwrite until
        the next step.
        """
        gram, own = buffers
        for at, tiles in self.tiling.gram_tiles(rows, gram):
            means = self.centred(tiles, at)
            landmarks = slice(at.start // self.tiling.parts, at.stop // self.tiling.parts)
            for c in range(len(self.chosen)):
                yield from self._of_combination(c, landmarks, tiles, means, own)

    def centred(self, tiles: Sequence[Tile], at: slice) -> list[Tile]:
        """Centre tiles of the kernels in place, and say by which means."""
        means = self.tiling.means(self.means, at)
        centre([tiles[k] for k in self.kernels], [means[k] for k in self.kernels])
        return means

    def blocks(
        self, rows: Sequence[Matrix], buffers: tuple[Tile, Tile]
    ) -> Iterator[tuple[slice, Matrix]]:
        """Blocks of the rows of products (b, c), with the slice of the row that is theirs."""
        for at, tiles, means in self.tiles(rows, buffers):
            yield at, as_real(product_of_centred(tiles, means))

    def add_sums(
        self, sums: Vector, at: slice, tiles: Sequence[Tile], means: Sequence[Tile]
    ) -> None:
        """Add the sums over rows of the products of every combination.

        With d_l the centred tiles, the sum of xi is that over all sets S of two variables or more
        of prod_{l not in S} kappa_l times the sum of prod_{l in S} d_l. Combinations share what
        belongs to the same kernels.

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
        found: dict[tuple[int, ...], Tile] = {}
        heads: dict[tuple[int, ...], Tile] = {}
        for c, combination in enumerate(self.chosen):
            heads = {few: tile for few, tile in heads.items() if set(few) <= set(combination)}
            whole = np.zeros_like(means[0])
            for few in _sets(combination):
                if few not in found:
                    head = _head(few[:-1], tiles, heads)
                    found[few] = np.einsum("ij,ij->j", head, tiles[few[-1]])
                whole += math.prod(
                    [means[k] for k in combination if k not in few], start=found[few]
                )
            its, columns = self._place(c, landmarks)
            sums[its] += as_real(whole[columns])

    def narrow(self, row_tile: int, column_tile: int) -> CentredProducts:
        """The same in tiles of another size."""
        return replace(
            self, tiling=replace(self.tiling, row_tile=row_tile, column_tile=column_tile)
        )

    def _of_combination(
        self, c: int, landmarks: slice, tiles: list[Tile], means: list[Tile], own: Tile
    ) -> Iterator[tuple[slice, list[Tile], list[Tile]]]:
        """Its tiles at the landmarks that it keeps, if there are any here."""
        at, columns = self._place(c, landmarks)
        if at.start == at.stop:
            return
        its_tiles = [tiles[k] for k in self.chosen[c]]
        its_means = [means[k] for k in self.chosen[c]]
        if self._owned:
            views = own[:, : len(its_tiles[0]) * len(columns)]
            copies = list(views.reshape(self._m, -1, len(columns)))
            for tile, copy in zip(its_tiles, copies, strict=True):
                _copy(tile, columns, copy)
            its_tiles, its_means = copies, [mean[columns] for mean in its_means]
        yield at, its_tiles, its_means

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


def _copy(tile: Tile, columns: Indices, out: Tile) -> None:
    if len(columns) == tile.shape[1]:
        np.copyto(out, tile)
    else:
        np.take(tile, columns, axis=1, out=out, mode="clip")


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
