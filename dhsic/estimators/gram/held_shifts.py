"""Sums under all permutations of an orbit where rows are few: Gram matrices are held.

With few rows, shifts of one order of the rows are few, and there are many orders, the cosets. The
kernels are computed once, and every coset takes the lines of `Diagonals` from the same matrices, at
other places. The lines of many cosets and kernels are gathered, transformed and multiplied by a few
calls, since with few rows the calls would take longer than the numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from dhsic.engine.reduction import GroupBlock
from dhsic.engine.tiles import Matrix
from dhsic.estimators.gram.lines import Diagonals
from dhsic.estimators.gram.sides import GramSides, OrbitSums, Rows, Side

__all__ = ["HeldShifts"]

Spectrum = NDArray[np.complexfloating[Any, Any]]

_HELD_BYTES = 2**25  # of all Gram matrices; beyond, gathering takes longer than exponentials
_BATCH_BYTES = 2**19  # of the lines that are gathered at a time
_STRIP_ENTRIES = 2**15  # of a tile
_MOST_IN_VAIN = 4  # pairs of kernels that are multiplied for one that is wanted


@dataclass(frozen=True)
class HeldShifts:
    """All sums of `OrbitSums` of statistics of two variables, where all rows are one group.

    Parameters
    ----------
    sides : GramSides
        The statistics.
    length : int
        Length of transforms, b or 2 b and more.
    """

    sides: GramSides
    length: int

    @property
    def suits(self) -> bool:
        """Whether this is the way: there are cosets, and Gram matrices are few and small."""
        sides, orbit = self.sides, self.sides.orbit
        held = len(sides.combinations.kernels) * self._rows**2 * sides.dtype.itemsize
        met = len(self._lefts) * len(self._rights)
        return (
            orbit.cosets > 1
            and self._rows == orbit.groups.n
            and all(len(side) == 1 for side in sides.sides)
            and held <= _HELD_BYTES
            and met <= _MOST_IN_VAIN * len(sides.pairs)
        )

    @property
    def nbytes(self) -> int:
        """Bytes of all that is made on the way, besides prepared rows."""
        sides, n, f = self.sides, self._rows, self.length // 2 + 1
        most, part = max(len(self._lefts), len(self._rights)), self._batch * self._part
        tiles = len(sides.combinations.kernels) + sides.shared.work_tiles + 2
        own = 2 * f * self._lines * len(self._lefts)
        gathered = part * most * (n + 6 * f)
        met = 8 * f * self._batch * len(self._lefts) * len(self._rights)
        entries = most * n**2 + tiles * self._strip * n + own + gathered + met
        return sides.dtype.itemsize * entries + 2 * 8 * part * n

    def sums_of(self, block: GroupBlock) -> OrbitSums:
        """Over all pairs of rows."""
        sums = OrbitSums.zeros(self.sides, self.length // 2 + 1)
        rows = self.sides.prepare(block, 0)
        self.sides.add_offsets(sums, rows, 0)
        most = max(len(self._lefts), len(self._rights))
        held = np.empty(self._rows**2 * most, self.sides.dtype)
        own = self._own(self._entries(self._lefts, rows, sums, held))
        values = self._entries(self._rights, rows, sums, held)
        for cosets in _cut(self.sides.orbit.cosets, self._batch):
            sums.products[cosets.start : cosets.stop] = self._met(own, values, cosets)
        return sums

    def _entries(self, some: Sequence[Side], rows: Rows, sums: OrbitSums, held: Matrix) -> Matrix:
        """Matrices entry by entry, shape (n^2, K): one place has all that is gathered at a time.

        They are computed in strips that the cache holds, and what they sum to is added.
        """
        sides, n, k = self.sides, self._rows, len(self.sides.combinations.kernels)
        values = held[: n**2 * len(some)].reshape(n, n, len(some))
        needed = sides.shared.sources(number for (number,) in some)
        buffers = np.empty((k + 1 + sides.shared.work_tiles, self._strip * n), sides.dtype)
        for part in _cut(n, self._strip):
            at = slice(part.start, part.stop)
            tiles = buffers[:, : len(part) * n].reshape(-1, len(part), n)
            prepared = [x[at] for x in rows.rows]
            sides.shared.tiles(prepared, rows.columns, list(tiles[:k]), tiles[k + 1 :], needed)
            for place, side in enumerate(some):
                centred = self._centred(tiles[side[0]], rows.offsets[side], at, tiles[k])
                values[at, :, place] = centred
                number = sides.numbers[0, side]
                sums.rows[number, at] = centred.sum(axis=1, dtype=np.float64)
                sums.diagonal[number, at] = centred[:, at].diagonal()
                sums.squares[number] += np.vdot(centred, centred)
        return values.reshape(n**2, len(some))

    def _centred(self, tile: Matrix, offsets: Matrix, rows: slice, out: Matrix) -> Matrix:
        """Some rows of a matrix about its pilots; where it is unbiased, the diagonal is zero."""
        np.subtract(tile, offsets[rows, None], out=out)
        np.subtract(out, offsets, out=out)
        if self.sides.unbiased:
            np.fill_diagonal(out[:, rows], 0.0)
        return out

    def _own(self, values: Matrix) -> Spectrum:
        """Transforms of the left sides, conjugate and weighted, shape (F, L, D)."""
        weights = Diagonals.of_tile(self._rows, same=True).weights.astype(values.dtype)
        shape = self.length // 2 + 1, self._lines, len(self._lefts)
        own: Spectrum = np.empty(shape, np.result_type(values.dtype, np.complex64))
        for part in _cut(self._lines, self._part):
            at = slice(part.start, part.stop)
            np.conj(self._spectra(values, range(1), part), out=own[:, at])
            own[:, at] *= weights[at, None]
        return own.swapaxes(1, 2)

    def _spectra(self, values: Matrix, cosets: range, part: range) -> Spectrum:
        """Transforms of some lines of matrices (n^2, K) in some cosets, shape (F, D, R K)."""
        places = self._places(cosets, part)
        lines = values.take(places, axis=0).reshape(self._rows, len(part), -1)
        transform: Any = np.fft.rfft if lines.dtype == np.float64 else scipy.fft.rfft
        spectra: Spectrum = transform(lines, self.length, axis=0)
        return spectra

    def _places(self, cosets: range, part: range) -> NDArray[np.intp]:
        """Where the entries (i, i + d) of the diagonals of every coset are, shape (n, D, R)."""
        n, (right,) = self._rows, self._rights[0]
        orders = self.sides.orbit.whole_orders(self.sides.combinations.variables[right])
        own = orders[cosets.start : cosets.stop].T
        around = np.concatenate([own[part.start :], own[: part.stop - 1]])
        others = sliding_window_view(around, len(part), axis=0).swapaxes(1, 2)
        places: NDArray[np.intp] = n * own[:, None] + others
        return places

    def _met(self, own: Spectrum, values: Matrix, cosets: range) -> Spectrum:
        """The cross-spectra of all statistics in some cosets, shape (R, C, F)."""
        shape = *own.shape[:2], len(cosets) * len(self._rights)
        met: Spectrum = np.zeros(shape, own.dtype)  # of all pairs of a left and a right side
        for part in _cut(self._lines, self._part):
            met += own[..., part.start : part.stop] @ self._spectra(values, cosets, part)
        met = met.reshape(*own.shape[:2], len(cosets), -1)
        lefts = [self._lefts.index(left) for left, _ in self.sides.pairs]
        rights = [self._rights.index((right,)) for _, right in self.sides.pairs]
        return np.conj(met[:, lefts, :, rights]).transpose(2, 0, 1)

    @property
    def _batch(self) -> int:
        """Cosets that are taken at a time."""
        return min(self.sides.orbit.cosets, max(1, self._at_a_time // self._lines))

    @property
    def _part(self) -> int:
        """Lines of each of them that are taken at a time."""
        return min(self._lines, self._at_a_time)

    @property
    def _at_a_time(self) -> int:
        """Lines in all."""
        most = max(len(self._lefts), len(self._rights))
        return max(1, _BATCH_BYTES // (most * self._rows * self.sides.dtype.itemsize))

    @property
    def _strip(self) -> int:
        """Rows of the tiles."""
        return min(self._rows, max(1, _STRIP_ENTRIES // self._rows))

    @property
    def _rows(self) -> int:
        """Rows of the group, n."""
        return self.sides.orbit.groups.size

    @property
    def _lines(self) -> int:
        """Diagonals that stand for all, D."""
        return len(Diagonals.of_tile(self._rows, same=True))

    @cached_property
    def _lefts(self) -> list[Side]:
        """The sides that stay."""
        return list(dict.fromkeys(left for left, _ in self.sides.pairs))

    @cached_property
    def _rights(self) -> list[Side]:
        """The sides that move."""
        return list(dict.fromkeys((right,) for _, right in self.sides.pairs))


def _cut(count: int, step: int) -> Iterator[range]:
    """So many at a time."""
    for start in range(0, count, step):
        yield range(start, min(start + step, count))
