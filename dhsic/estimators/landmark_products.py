"""The centred products of several combinations of kernels, from tiles that they share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.tiles import Matrix, Tile, Tiling, as_real, centre, product_of_centred

__all__ = ["CentredProducts"]

Indices = NDArray[np.intp]


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
            means = self.tiling.means(self.means, at)
            centre(tiles, means)
            landmarks = slice(at.start // self.tiling.parts, at.stop // self.tiling.parts)
            for c in range(len(self.chosen)):
                yield from self._of_combination(c, landmarks, tiles, means, own)

    def blocks(
        self, rows: Sequence[Matrix], buffers: tuple[Tile, Tile]
    ) -> Iterator[tuple[slice, Matrix]]:
        """Blocks of the rows of products (b, c), with the slice of the row that is theirs."""
        for at, tiles, means in self.tiles(rows, buffers):
            yield at, as_real(product_of_centred(tiles, means))

    def narrow(self, row_tile: int, column_tile: int) -> CentredProducts:
        """The same in tiles of another size."""
        return replace(
            self, tiling=replace(self.tiling, row_tile=row_tile, column_tile=column_tile)
        )

    def _of_combination(
        self, c: int, landmarks: slice, tiles: list[Tile], means: list[Tile], own: Tile
    ) -> Iterator[tuple[slice, list[Tile], list[Tile]]]:
        """Its tiles at the landmarks that it keeps, if there are any here."""
        first, last = np.searchsorted(self.kept[c], [landmarks.start, landmarks.stop])
        if first == last:
            return
        columns = self.kept[c][first:last] - landmarks.start
        start, parts = self.starts[c], self.tiling.parts
        at = slice(start + parts * int(first), start + parts * int(last))
        its_tiles = [tiles[k] for k in self.chosen[c]]
        its_means = [means[k] for k in self.chosen[c]]
        if self._owned:
            views = own[:, : len(its_tiles[0]) * len(columns)]
            copies = list(views.reshape(self._m, -1, len(columns)))
            for tile, copy in zip(its_tiles, copies, strict=True):
                _copy(tile, columns, copy)
            its_tiles, its_means = copies, [mean[columns] for mean in its_means]
        yield at, its_tiles, its_means

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
