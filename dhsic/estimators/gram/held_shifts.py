"""Sums under all permutations of an orbit where rows are few: Gram matrices are held.

With few rows, shifts of one order of the rows are few, and there are many orders, the cosets. The
kernels are computed once, and every coset takes the lines along which shifts move entries from the
same matrices, at other places. The lines of many cosets and kernels are gathered, transformed and
multiplied by a few calls, since with few rows the calls would take longer than the numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from dhsic.engine.moved_groups import MovedGroups
from dhsic.engine.reduction import GroupBlock
from dhsic.engine.tiles import Matrix
from dhsic.estimators.gram.lines import HeldLines
from dhsic.estimators.gram.orders import RowOrders
from dhsic.estimators.gram.sides import CosetRows, GramSides, Members, PairSums

Spectrum = NDArray[np.complexfloating[Any, Any]]

_HELD_BYTES = 2**25  # of all Gram matrices; beyond, gathering takes longer than exponentials
_HELD_OF_SETS = 2**28  # the same of rows that move in sets, whose many small groups take long
_BATCH_BYTES = 2**19  # of the lines that are gathered at a time
_STRIP_ENTRIES = 2**17  # of the tiles of one side
_MOST_IN_VAIN = 5  # pairs of kernels that are multiplied for one that is wanted


class _ShiftScratch(NamedTuple):
    """Arrays that are written again and again: fresh pages take as long as the transforms."""

    own: Spectrum
    """Transforms of all lines of the left sides."""
    spectra: Spectrum
    """Those of the lines that are taken at a time."""
    held: Matrix
    """All entries of the matrices of one side."""
    tiles: Matrix
    """Strips of all of them, and scratch."""
    lines: Matrix
    """The lines that are taken at a time."""


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
        met = len(self._lefts) * len(self._rights)
        in_sets = isinstance(orbit.groups, MovedGroups)
        return (
            (in_sets or (orbit.cosets > 1 and self._b == self._rows))
            and all(len(side) == 1 for side in sides.sides)
            and len({sides.combinations.variables[k] for (k,) in self._rights}) == 1
            and self.matrix_bytes <= (_HELD_OF_SETS if in_sets else _HELD_BYTES)
            and met <= _MOST_IN_VAIN * len(sides.pairs)
        )

    @property
    def matrix_bytes(self) -> int:
        """Bytes of all Gram matrices."""
        return len(self.sides.combinations.kernels) * self._rows**2 * self.sides.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all that is made on the way, besides prepared rows."""
        sides, n, f = self.sides, self._rows, self.length // 2 + 1
        most, part = max(len(self._lefts), len(self._rights)), self._batch * self._part
        tiles = len(sides.combinations.kernels) + sides.shared.work_tiles + 2
        transforms = 2 * f * self._lines * len(self._lefts)
        gathered = part * most * (self._b + 6 * f)
        met = 8 * f * self._batch * len(self._lefts) * len(self._rights)
        entries = most * n**2 + tiles * self._strip * n + transforms + gathered + met
        places = 2 * 8 * part * self._b + 8 * sides.orbit.cosets * n + 3 * 8 * self._lines
        return sides.dtype.itemsize * entries + places

    def sums_of(self, block: GroupBlock) -> PairSums:
        """Over all pairs of rows."""
        sums = PairSums.zeros(self.sides, self.length // 2 + 1)
        rows = (self.sides.prepare_plain if self._whole else self.sides.prepare)(block, 0)
        work = self._work_arrays()
        lefts = self._entries(self._lefts, rows, sums, work)
        still, standing = self._own(lefts, work), self._standing(lefts)
        values = self._entries(self._rights, rows, sums, work)
        self.sides.add_offsets(sums, rows, 0)
        # Pairs of rows outside of the groups add the same under every permutation.
        standing = standing.T @ self._standing(values)
        sums.constants[:] = [standing[at] for at in self._places_of_pairs]
        for cosets in _ranges_of(self.sides.orbit.cosets, self._batch):
            sums.products[cosets.start : cosets.stop] = self._met(still, values, cosets, work)
        return sums

    def _entries(
        self, some: Sequence[Members], rows: CosetRows, sums: PairSums, work: _ShiftScratch
    ) -> Matrix:
        """Matrices entry by entry, shape (n^2, K): one place has all that is gathered at a time.

        They are computed in strips that the cache holds, from the diagonal on, since they are
        symmetric, and what they sum to is added.
        """
        sides, n, wanted = self.sides, self._rows, [k for (k,) in some]
        values = work.held[: n**2 * len(some)].reshape(n, n, len(some))
        needed, numbers = sides.shared.sources(wanted), [sides.numbers[0, side] for side in some]
        order = [*wanted, *(needed - set(wanted))]
        places = {k: place for place, k in enumerate(order)}
        buffers = work.tiles.reshape(-1, self._strip * n)
        for part in _ranges_of(n, self._strip):
            ends = (part.start, part.stop), (part.start, n), (part.stop, n)
            at, on, beyond = (slice(*both) for both in ends)
            shape = len(part), n - part.start
            tiles = buffers[:, : shape[0] * shape[1]].reshape(-1, *shape)
            outs = [tiles[places.get(k, 0)] for k in range(len(sides.combinations.kernels))]
            prepared, columns = [x[at] for x in rows.rows], [z[on] for z in rows.columns]
            sides.shared.tiles(prepared, columns, outs, tiles[len(order) :], needed)
            centred = tiles[: len(some)]
            self._centre(centred, [rows.offsets[side][on] for side in some])
            square_part, others = centred[..., : len(part)], centred[..., len(part) :]
            sums.rows[numbers, at] += centred.sum(axis=2, dtype=np.float64)
            sums.rows[numbers, beyond] += others.sum(axis=1, dtype=np.float64)
            sums.diagonal[numbers, at] = square_part.diagonal(axis1=1, axis2=2)
            for number, tile, square in zip(numbers, centred, square_part, strict=True):
                # A strip begins at the diagonal: what is beyond its square stands for the mirror
                # image, too.
                sums.squares[number] += 2.0 * np.vdot(tile, tile) - np.vdot(square, square)
            for place, tile in enumerate(centred):
                values[at, on, place] = tile
            # The matrix is symmetric: what is below the diagonal is copied.
            values[beyond, at] = values[at, beyond].swapaxes(0, 1)
        return values.reshape(n**2, len(some))

    def _centre(self, tiles: Matrix, offsets: list[Matrix]) -> None:
        """Take off the offsets of rows, from the diagonal on, which is zero where it is unbiased.

        Those of whole matrices are found here, from the means of the rows.
        """
        if self._whole:
            means = tiles.mean(axis=2, dtype=np.float64)
            for offset, row_means in zip(offsets, means, strict=True):
                # mean_i - mean / 2: both offsets together take off the row means and give the total
                # back once.
                offset[:] = row_means - 0.5 * row_means.mean()
        both = np.array(offsets)
        tiles -= both[:, : tiles.shape[1], None]
        tiles -= both[:, None]
        if self.sides.unbiased:
            np.einsum("kii->ki", tiles[..., : tiles.shape[1]])[:] = 0.0

    def _work_arrays(self) -> _ShiftScratch:
        """Cut from one array, since the allocator keeps pages for as much as was freed at once."""
        sides, n, f = self.sides, self._rows, self.length // 2 + 1
        most = max(len(self._lefts), len(self._rights))
        tiles = len(sides.combinations.kernels) + sides.shared.work_tiles
        count = self._batch * self._part * most
        complexes = f * self._lines * len(self._lefts), f * count
        reals = most * n**2, tiles * self._strip * n, self._b * count
        sizes = [*(2 * size for size in complexes), *reals]
        still, spectra, *others = np.split(np.empty(sum(sizes), sides.dtype), np.cumsum(sizes[:-1]))
        both = np.result_type(sides.dtype, np.complex64)
        return _ShiftScratch(still.view(both), spectra.view(both), *others)

    def _own(self, values: Matrix, work: _ShiftScratch) -> Spectrum:
        """Transforms of the left sides, conjugate and weighted, shape (F, L, D)."""
        weights = self._held_lines.weights.astype(values.dtype)
        shape = self.length // 2 + 1, self._lines, len(self._lefts)
        still = work.own.reshape(shape)
        for part in _ranges_of(self._lines, self._part):
            at = slice(part.start, part.stop)
            # Conjugate once: a product with it is the transform of a circular correlation.
            np.conj(self._spectra(values, range(1), part, work), out=still[:, at])
            # A line counts twice where it stands for its mirror image.
            still[:, at] *= weights[at, None]
        return still.swapaxes(1, 2)

    def _spectra(self, values: Matrix, cosets: range, part: range, work: _ShiftScratch) -> Spectrum:
        """Transforms of some lines of matrices (n^2, K) in some cosets, shape (F, D, R K)."""
        places = self._held_lines.places(self._orders[cosets.start : cosets.stop].T, part)
        shape = self._b, len(part), len(cosets) * values.shape[1]
        lines = work.lines[: math.prod(shape)]
        # clipped, since what may be out of bounds is taken into an array of its own first
        values.take(places, axis=0, out=lines.reshape(*places.shape, -1), mode="clip")
        lines = lines.reshape(shape)
        # SciPy is quicker in float32; NumPy writes the transforms of float64 into memory that is
        # there.
        if lines.dtype != np.float64:
            transforms: Spectrum = scipy.fft.rfft(lines, self.length, axis=0)
            return transforms
        shape = self.length // 2 + 1, *shape[1:]
        out = work.spectra[: math.prod(shape)].reshape(shape)
        return np.fft.rfft(lines, self.length, axis=0, out=out)

    @cached_property
    def _orders(self) -> NDArray[np.intp]:
        """The orders of the rows of the right side in all cosets, shape (R, n)."""
        orbit, right = self.sides.orbit, self._rights[0][0]
        m, groups = self.sides.combinations.variables[right], orbit.groups
        if groups.size == groups.n:
            return orbit.whole_orders(m)
        orders = RowOrders(orbit, m + 1, 0, groups.count, groups.n_left)
        return orders.of_cosets(range(orbit.cosets), m)

    def _standing(self, values: Matrix) -> Matrix:
        """The entries of pairs of rows of which neither moves, shape (n_left^2, K)."""
        groups, n = self.sides.orbit.groups, self._rows
        # Rows that stay are the last ones.
        left = np.arange(n - groups.n_left, n)
        entries: Matrix = values[(n * left[:, None] + left).ravel()]
        return entries

    def _met(self, still: Spectrum, values: Matrix, cosets: range, work: _ShiftScratch) -> Spectrum:
        """The cross-spectra of all statistics in some cosets, shape (R, C, F)."""
        # A matrix product a frequency: every left side meets every right side at once.
        shape = *still.shape[:2], len(cosets) * len(self._rights)
        met: Spectrum = np.zeros(shape, still.dtype)  # of all pairs of a left and a right side
        for part in _ranges_of(self._lines, self._part):
            met += still[..., part.start : part.stop] @ self._spectra(values, cosets, part, work)
        met = met.reshape(*still.shape[:2], len(cosets), -1)
        lefts, rights = zip(*self._places_of_pairs, strict=True)
        # The sums hold A conj(B) at a frequency, the conjugate of what the left sides give.
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
        most = max(len(self._lefts), len(self._rights))
        return min(self._rows, max(1, _STRIP_ENTRIES // (most * self._rows)))

    @property
    def _whole(self) -> bool:
        """Whether one strip has all rows."""
        return self._strip == self._rows

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
