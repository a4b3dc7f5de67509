"""Sums under all permutations of an orbit where rows are few: Gram matrices are held.

With few rows, shifts of one order of the rows are few, and there are many orders, the cosets. The
kernels are computed once, and every coset takes the lines along which shifts move entries from the
same matrices, at other places. The lines of many cosets and kernels are gathered, transformed and
multiplied by a few calls, since with few rows the calls would take longer than the numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from dhsic.engine.moved_groups import MovedGroups
from dhsic.engine.reduction import GroupBlock
from dhsic.engine.tiles import Matrix
from dhsic.estimators.gram.lines import HeldLines
from dhsic.estimators.gram.sides import CosetRows, GramSides, Members, PairSums, RowOrders

__all__ = ["HeldShifts"]

Spectrum = NDArray[np.complexfloating[Any, Any]]

_HELD_BYTES = 2**25  # of all Gram matrices; beyond, gathering takes longer than exponentials
_HELD_OF_SETS = 2**28  # the same of rows that move in sets, whose many small groups take long
_BATCH_BYTES = 2**19  # of the lines that are gathered at a time
_STRIP_ENTRIES = 2**15  # of a tile
_MOST_IN_VAIN = 4  # pairs of kernels that are multiplied for one that is wanted


@dataclass(frozen=True)
class HeldShifts:
    """All sums of `PairSums` of statistics of two variables, where all rows are in one block.

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
        in_sets = isinstance(orbit.groups, MovedGroups)
        return (
            (in_sets or (orbit.cosets > 1 and self._b == self._rows))
            and all(len(side) == 1 for side in sides.sides)
            and len({sides.combinations.variables[k] for (k,) in self._rights}) == 1
            and held <= (_HELD_OF_SETS if in_sets else _HELD_BYTES)
            and met <= _MOST_IN_VAIN * len(sides.pairs)
        )

    @property
    def nbytes(self) -> int:
        """Bytes of all that is made on the way, besides prepared rows."""
        sides, n, f = self.sides, self._rows, self.length // 2 + 1
        most, part = max(len(self._lefts), len(self._rights)), self._batch * self._part
        tiles = len(sides.combinations.kernels) + sides.shared.work_tiles + 2
        own = 2 * f * self._lines * len(self._lefts)
        gathered = part * most * (self._b + 6 * f)
        met = 8 * f * self._batch * len(self._lefts) * len(self._rights)
        entries = most * n**2 + tiles * self._strip * n + own + gathered + met
        places = 2 * 8 * part * self._b + 8 * sides.orbit.cosets * n + 3 * 8 * self._lines
        return sides.dtype.itemsize * entries + places

    def sums_of(self, block: GroupBlock) -> PairSums:
        """Over all pairs of rows."""
        sums = PairSums.zeros(self.sides, self.length // 2 + 1)
        rows = self.sides.prepare(block, 0)
        self.sides.add_offsets(sums, rows, 0)
        most = max(len(self._lefts), len(self._rights))
        held = np.empty(self._rows**2 * most, self.sides.dtype)
        lefts = self._entries(self._lefts, rows, sums, held)
        own, standing = self._own(lefts), self._standing(lefts)
        values = self._entries(self._rights, rows, sums, held)
        # Pairs of rows outside of the groups add the same under every permutation.
        standing = standing.T @ self._standing(values)
        sums.constants[:] = [standing[at] for at in self._places_of_pairs]
        for cosets in _ranges_of(self.sides.orbit.cosets, self._batch):
            sums.products[cosets.start : cosets.stop] = self._met(own, values, cosets)
        return sums

    def _entries(
        self, some: Sequence[Members], rows: CosetRows, sums: PairSums, held: Matrix
    ) -> Matrix:
        """Matrices entry by entry, shape (n^2, K): one place has all that is gathered at a time.

        They are computed in strips that the cache holds, and what they sum to is added.
        """
        sides, n, k = self.sides, self._rows, len(self.sides.combinations.kernels)
        values = held[: n**2 * len(some)].reshape(n, n, len(some))
        needed = sides.shared.sources(number for (number,) in some)
        buffers = np.empty((k + 1 + sides.shared.work_tiles, self._strip * n), sides.dtype)
        for part in _ranges_of(n, self._strip):
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
        weights = self._held_lines.weights.astype(values.dtype)
        shape = self.length // 2 + 1, self._lines, len(self._lefts)
        own: Spectrum = np.empty(shape, np.result_type(values.dtype, np.complex64))
        for part in _ranges_of(self._lines, self._part):
            at = slice(part.start, part.stop)
            # Conjugate once: a product with it is the transform of a circular correlation.
            np.conj(self._spectra(values, range(1), part), out=own[:, at])
            own[:, at] *= weights[at, None]
        return own.swapaxes(1, 2)

    def _spectra(self, values: Matrix, cosets: range, part: range) -> Spectrum:
        """Transforms of some lines of matrices (n^2, K) in some cosets, shape (F, D, R K)."""
        places = self._places(cosets, part)
        lines = values.take(places, axis=0).reshape(self._b, len(part), -1)
        transform: Any = np.fft.rfft if lines.dtype == np.float64 else scipy.fft.rfft
        spectra: Spectrum = transform(lines, self.length, axis=0)
        return spectra

    def _places(self, cosets: range, part: range) -> NDArray[np.intp]:
        """Where the entries of the lines are in every coset, shape (b, D, R)."""
        rows, columns = self._held_lines.at(part)
        orders = self._orders[cosets.start : cosets.stop].T
        places: NDArray[np.intp] = self._rows * orders[rows] + orders[columns]
        return places

    @cached_property
    def _orders(self) -> NDArray[np.intp]:
        """The orders of the rows of the right side in all cosets, shape (R, n)."""
        orbit, right = self.sides.orbit, self._rights[0][0]
        m, groups = self.sides.combinations.variables[right], orbit.groups
        if groups.size == groups.n:
            return orbit.whole_orders(m)
        orders = RowOrders(orbit, m + 1, 0, groups.count, groups.n_left)
        return np.array([orders.of_variable(coset, m) for coset in range(orbit.cosets)])

    def _standing(self, values: Matrix) -> Matrix:
        """The entries of pairs of rows of which neither moves, shape (n_left^2, K)."""
        groups, n = self.sides.orbit.groups, self._rows
        left = np.arange(n - groups.n_left, n)
        entries: Matrix = values[(n * left[:, None] + left).ravel()]
        return entries

    def _met(self, left_spectra: Spectrum, values: Matrix, cosets: range) -> Spectrum:
        """The cross-spectra of all statistics in some cosets, shape (R, C, F)."""
        shape = *left_spectra.shape[:2], len(cosets) * len(self._rights)
        met: Spectrum = np.zeros(shape, left_spectra.dtype)
        # A matrix product a frequency: every left side meets every right side at once.
        for part in _ranges_of(self._lines, self._part):
            met += left_spectra[..., part.start : part.stop] @ self._spectra(values, cosets, part)
        met = met.reshape(*left_spectra.shape[:2], len(cosets), -1)
        lefts, rights = zip(*self._places_of_pairs, strict=True)
        return np.conj(met[:, list(lefts), :, list(rights)]).transpose(2, 0, 1)

    @cached_property
    def _places_of_pairs(self) -> list[tuple[int, int]]:
        """The left and the right side of every statistic, by their places among all."""
        return [(self._lefts.index(a), self._rights.index((b,))) for a, b in self.sides.pairs]

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
        return max(1, _BATCH_BYTES // (most * self._b * self.sides.dtype.itemsize))

    @property
    def _strip(self) -> int:
        """Rows of the tiles."""
        return min(self._rows, max(1, _STRIP_ENTRIES // self._rows))

    @property
    def _rows(self) -> int:
        """Rows in all, n."""
        return self.sides.orbit.groups.n

    @property
    def _b(self) -> int:
        """Rows of a group, the length of a line."""
        return self.sides.orbit.groups.size

    @cached_property
    def _held_lines(self) -> HeldLines:
        """Those that stand for all entries."""
        groups = self.sides.orbit.groups
        return HeldLines.of(groups.size, groups.count, groups.n_left)

    @property
    def _lines(self) -> int:
        """How many, D."""
        groups = self.sides.orbit.groups
        return HeldLines.count_of(groups.size, groups.count, groups.n_left)

    @cached_property
    def _lefts(self) -> list[Members]:
        """The sides that stay."""
        return list(dict.fromkeys(left for left, _ in self.sides.pairs))

    @cached_property
    def _rights(self) -> list[Members]:
        """The sides that move."""
        return list(dict.fromkeys((right,) for _, right in self.sides.pairs))


def _ranges_of(count: int, step: int) -> Iterator[range]:
    """So many at a time."""
    for start in range(0, count, step):
        yield range(start, min(start + step, count))
