"""Lines of Gram tiles, along which permutations within groups of rows move the entries."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from numpy.lib.stride_tricks import as_strided, sliding_window_view
from numpy.typing import NDArray

from dhsic.engine.tiles import Matrix, column_sums
from dhsic.kernels.shared import TileKernel

Vector = NDArray[np.float64]

STRIP = 64  # rows of the tiles that diagonals are cut from; those of a band are a few times longer


@dataclass(frozen=True)
class _Lines:
    """Lines start..stop-1 of those that a tile is cut into, of b entries each."""

    size: int
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def cut(self, count: int) -> Iterator[tuple[slice, Self]]:
        """So many at a time, and where they are among these."""
        for start in range(self.start, self.stop, count):
            stop = min(start + count, self.stop)
            at = slice(start - self.start, stop - self.start)
            yield at, replace(self, start=start, stop=stop)


@dataclass(frozen=True)
class Diagonals(_Lines):
    """Circulant diagonals start..stop-1 of the tile of two groups of rows.

    Number d holds the entries (i, i + d) for i = 0..b-1, columns counted modulo b. Shifting the
    rows of both groups by k moves each to (i + k, i + k + d), along its diagonal. Where both groups
    are the same, the tile is symmetric, so that d and b - d are mirror images: the first half is
    enough, weighted.

    Parameters
    ----------
    size : int
        Rows of a group, b.
    start, stop : int
        Which diagonals.
    same : bool
        Whether both groups are the same.
    """

    same: bool

    @classmethod
    def of_tile(cls, size: int, *, same: bool) -> Self:
        """All that there are to be taken."""
        return cls(size, 0, size // 2 + 1 if same else size, same)

    @property
    def mirrored(self) -> slice:
        """Those that stand for their mirror image too."""
        if not self.same:
            return slice(0, len(self))
        # Line 0 is its own mirror image, and so is line b / 2 where b is even.
        first, last = max(self.start, 1), min(self.stop, (self.size + 1) // 2)
        return slice(first - self.start, max(first, last) - self.start)

    @property
    def weights(self) -> Vector:
        """How often each is to be counted, shape (stop - start,)."""
        weights = np.ones(len(self))
        # A group with itself has a symmetric tile, so a line k and the line b - k have equal
        # entries.
        weights[self.mirrored] = 2.0
        return weights

    @property
    def main(self) -> slice:
        """The line of the entries of a row with itself, if it is among these."""
        return slice(0, int(self.same and self.start == 0))

    def write(
        self, kernel: TileKernel, rows: Matrix, columns: Matrix, out: Matrix, work: Matrix
    ) -> None:
        """Write the values of a kernel.

        Parameters
        ----------
        kernel : TileKernel
            For prepared rows and columns.
        rows, columns : ndarray, shapes (b, w)
            Those of the first and the second group.
        out : ndarray, shape (stop - start, b)
            Overwritten.
        work : ndarray, shape (1 + work_tiles, strip_entries)
            Scratch, with the dtype of `out`; for so many diagonals or more.
        """
        wrapped = self._wrapped(columns)
        for at in range(0, self.size, STRIP):
            to = min(at + STRIP, self.size)
            shape = to - at, to - at + len(self) - 1
            tiles = work[:, : shape[0] * shape[1]].reshape(-1, *shape)
            kernel.tile(rows[at:to], wrapped[at : at + shape[1]], tiles[0], tiles[1:])
            _, down, along = tiles.strides
            # A step of one row and one column reads a diagonal in place: nothing is gathered.
            out[:, at:to] = as_strided(tiles[0], (len(self), shape[0]), (along, down + along))

    def strip_entries(self, count: int) -> int:
        """Entries of a tile that so many diagonals are cut from, or one line."""
        rows = min(STRIP, self.size)
        return max(rows * (rows + count - 1), self.size)

    def of_rows(self, first: Matrix, second: Matrix) -> tuple[Matrix, Matrix]:
        """Values of the rows of either group, shapes (b,), as they stand on the lines."""
        wrapped = sliding_window_view(self._wrapped(second), self.size)
        return np.broadcast_to(first, (len(self), self.size)), wrapped[: len(self)]

    def add_sums(self, lines: Matrix, first: Vector, second: Vector) -> None:
        """Add the sums over the rows and columns of the tile to those of either group.

        Parameters
        ----------
        lines : ndarray, shape (stop - start, padding + b)
            Their entries, behind a padding of as many at least. The padding is overwritten.
        first, second : ndarray, shapes (b,)
            The same array where the groups are the same.
        """
        padding = lines.shape[1] - self.size
        first += column_sums(lines[:, padding:])
        # The last entries stand in front once more: one line further and one entry back is the same
        # column of the tile, around b.
        lines[:, :padding] = lines[:, self.size :]
        mirrored = lines[self.mirrored, padding:]
        down, along = mirrored.strides
        columns = column_sums(as_strided(mirrored, mirrored.shape, (down - along, along)))
        start = self.start + self.mirrored.start
        # Columns count modulo b.
        second[start:] += columns[: self.size - start]
        second[:start] += columns[self.size - start :]

    def _wrapped(self, values: Matrix) -> Matrix:
        """Rows of the second group from that which the first row meets on, around."""
        return values[np.arange(self.start, self.stop + self.size) % self.size]


@dataclass(frozen=True)
class Across(_Lines):
    """Rows start..stop-1 of the tile of rows that stay where they are and a group that moves.

    They stand for their mirror images, the columns, too.

    Parameters
    ----------
    size : int
        Rows of the group, b.
    start, stop : int
        Which rows.
    """

    @property
    def weights(self) -> Vector:
        """How often each is to be counted, shape (stop - start,)."""
        return np.full(len(self), 2.0)

    @property
    def main(self) -> slice:
        """None holds the entry of a row with itself."""
        return slice(0, 0)

    def write(
        self, kernel: TileKernel, rows: Matrix, columns: Matrix, out: Matrix, work: Matrix
    ) -> None:
        """Write the values of a kernel, as `Diagonals.write`."""
        step = work.shape[1] // self.size
        for at, strip in self.cut(step):
            shape = len(strip), self.size
            others = work[1:, : math.prod(shape)].reshape(-1, *shape)
            kernel.tile(rows[strip.start : strip.stop], columns, out[at], others)

    def of_rows(self, first: Matrix, second: Matrix) -> tuple[Matrix, Matrix]:
        """Values of the rows of either side as they stand on the lines."""
        shape = len(self), self.size
        return (
            np.broadcast_to(first[self.start : self.stop, None], shape),
            np.broadcast_to(second, shape),
        )

    def add_sums(self, lines: Matrix, first: Vector, second: Vector) -> None:
        """Add the sums over rows and columns to those of either side, as `Diagonals.add_sums`."""
        entries = lines[:, lines.shape[1] - self.size :]
        first[self.start : self.stop] += entries.sum(axis=1)
        second += column_sums(entries)


Lines = Diagonals | Across


class HeldLines(NamedTuple):
    """All lines of a symmetric matrix of groups of b rows, and of rows that stay where they are.

    Entry i of a line is in row first + i, or in row first where that stays, and in column
    second + (i + shift) mod b.
    """

    size: int
    """b."""
    first: NDArray[np.intp]
    """Shape (D,)."""
    second: NDArray[np.intp]
    """Shape (D,)."""
    shift: NDArray[np.intp]
    """Shape (D,)."""
    moves: NDArray[np.intp]
    """1 where both rows of an entry move, 0 where the first one stays, shape (D,)."""
    weights: Vector
    """How often each line is to be counted, shape (D,)."""

    @classmethod
    def of(cls, size: int, count: int, n_left: int) -> Self:
        """Those of groups, then of the rows that stay with groups; not of these with each other."""
        diagonals = Diagonals.of_tile(size, same=True)
        # A single group has its diagonals alone.
        if (count, n_left) == (1, 0):
            none = np.zeros(len(diagonals), np.intp)
            return cls(size, none, none, np.arange(len(diagonals)), none + 1, diagonals.weights)
        # Of two different groups all b diagonals are taken, of a group with itself half of them.
        g, h = np.triu_indices(count, 1)
        staying = size * count + np.arange(n_left)
        parts = [
            (
                np.repeat(np.arange(count), len(diagonals)),
                np.tile(np.arange(len(diagonals)), count),
            ),
            (np.repeat(g, size), np.tile(np.arange(size), len(g))),
        ]
        return cls(
            size,
            np.concatenate([*(size * at for at, _ in parts), np.repeat(staying, count)]),
            np.concatenate(
                [
                    size * parts[0][0],
                    size * np.repeat(h, size),
                    np.tile(size * np.arange(count), n_left),
                ]
            ),
            np.concatenate([*(shift for _, shift in parts), np.zeros(n_left * count, np.intp)]),
            np.repeat([1, 0], [sum(len(at) for at, _ in parts), n_left * count]),
            np.concatenate(
                [np.tile(diagonals.weights, count), np.full(len(g) * size + n_left * count, 2.0)]
            ),
        )

    @staticmethod
    def count_of(size: int, count: int, n_left: int) -> int:
        """How many they are."""
        return count * (size // 2 + 1 + n_left) + math.comb(count, 2) * size

    def places(self, orders: NDArray[np.intp], some: range) -> NDArray[np.intp]:
        """Where the entries of some lines are in matrices whose rows were in other orders.

        Parameters
        ----------
        orders : ndarray of int, shape (n, R)
            Numbers of the rows.
        some : range
            Which lines.

        Returns
        -------
        ndarray of int, shape (b, D, R)
            Places in a matrix (n, n) that is read row by row.
        """
        n, at = len(orders), slice(some.start, some.stop)
        if n == self.size:  # the lines of one group are its diagonals, one after another
            around = np.concatenate([orders, orders])
            down, across = around.strides
            shape, strides = (n, len(some), orders.shape[1]), (down, down, across)
            along = as_strided(around[some.start :], shape, strides)
            places: NDArray[np.intp] = np.add(n * orders[:, None], along, order="C")
            return places
        rows = self.first[at] + np.arange(self.size)[:, None] * self.moves[at]
        columns = self.second[at] + (np.arange(self.size)[:, None] + self.shift[at]) % self.size
        return n * orders[rows] + orders[columns]
