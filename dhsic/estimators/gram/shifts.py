"""Statistics from Gram matrices under all permutations of an orbit, in one pass over their tiles.

With A and B the Gram matrices of both sides, sum_ij A_ij B_s(i)s(j) for every shift s within groups
of rows is a circular cross-correlation along every circulant diagonal of the tiles of two groups,
summed: the transforms of the diagonals of either side are multiplied and added up, and what comes
of it is transformed back once in the end.

Nothing is centred by a pass before: HAH with H = I - 11'/n is the same for A_ij and for
A_ij - a_i - a_j, and so is the U-centred matrix, whose diagonal does not count. The rest of the
centring follows from the row sums, which meet by the same permutations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from dhsic.engine.reduction import Footprint, GroupBlock
from dhsic.engine.tiles import Matrix
from dhsic.estimators.gram.bunches import Bunch, cut_into_bunches
from dhsic.estimators.gram.held_shifts import HeldShifts
from dhsic.estimators.gram.lines import Across, Diagonals, Lines
from dhsic.estimators.gram.sides import CosetRows, GramPass, Members, PairSums

Vector = NDArray[np.float64]
Spectrum = NDArray[np.complexfloating[Any, Any]]
Offsets = dict[Members, tuple[Matrix, Matrix]]

# The n x n matrices are never held. In bands of 32 to 64 diagonals all shifts of 20,000 rows took
# 9.2 s and 170 MiB.
_BAND_BYTES = 2**25  # of the lines that are cut from tiles at a time: strips of few overlap
_MOST_LINES = 512
_FEWEST_LINES = 32
_FEWEST_TOGETHER = 16  # statistics of a bunch, whose kernels are computed at a time
_HELD_OF_BUNCHES = 2**23  # of all Gram matrices, where bunches are the other way
_CACHE_BYTES = 2**18  # of the transforms of one side of a part of them
_FEWEST_TRANSFORMS = 4
_SMALL_FACTORS = range(2, 60)  # of lengths that take less than padding to twice that


@dataclass(frozen=True)
class ShiftedGramPass(GramPass):
    """All sums of `PairSums`, in one pass over pairs of groups of rows.

    Parameters
    ----------
    sides : GramSides
        The statistics.
    """

    name: str = "shifts"

    @cached_property
    def length(self) -> int:
        """Length of transforms: b where that is quick, else twice b and more, padded by zeros."""
        b = self.groups.size
        # Lengths with large prime factors are slow. A padded line leaves the shifts beyond its end
        # apart, which `GramOrbit` adds.
        return b if _is_quick(b) else int(scipy.fft.next_fast_len(2 * b, real=True))

    @property
    def frequencies(self) -> int:
        """Frequencies of the transforms, F."""
        return self.length // 2 + 1

    @cached_property
    def _held(self) -> HeldShifts | None:
        """The way of few rows, where it suits."""
        held = HeldShifts(self.sides, self.length)
        # Bunches of many kernels stay in the cache, which matrices of all of them do not.
        suits = held.suits and (len(self.bunches) == 1 or held.matrix_bytes <= _HELD_OF_BUNCHES)
        return held if suits else None

    @property
    def one_block(self) -> bool:
        """Whether one task takes all rows."""
        return super().one_block or self._held is not None

    @cached_property
    def band(self) -> int:
        """Lines that are cut from tiles at a time, of all kernels and cosets."""
        lines = _BAND_BYTES // (self.n_roots * self.groups.size * self.sides.dtype.itemsize)
        return min(self.groups.size, max(_FEWEST_LINES, min(lines, _MOST_LINES)))

    @cached_property
    def part(self) -> int:
        """Lines that are transformed at a time."""
        lines = _CACHE_BYTES // (self.length * self.sides.dtype.itemsize)
        return min(self.band, max(_FEWEST_TRANSFORMS, lines))

    @cached_property
    def bunches(self) -> tuple[Bunch, ...]:
        """Statistics that are taken at a time: all of them, or those of a bunch of kernels."""
        lines = Diagonals.of_tile(self.groups.size, same=True)
        whole = len(lines) * self.groups.size * self.sides.dtype.itemsize
        # As many as have all lines of a group in one band, since every bunch cuts those of the
        # kernels on the right anew.
        return cut_into_bunches(self.sides, max(_FEWEST_TOGETHER, _BAND_BYTES // whole))

    @property
    def n_roots(self) -> int:
        """Kernels that are no powers, of every coset, in the bunch that has most."""
        return max(bunch.n_roots for bunch in self.bunches)

    def footprint(self, rows: int) -> Footprint:
        """Cost of a pair of blocks of so many rows."""
        sides, b = self.sides, self.groups.size
        prepared, work = sides.prepared_entries(rows)
        wrapped = 2 * (b + self.band) * (sum(sides.widths(0).values()) + len(sides.sides))
        if self._held is None:
            made = _Buffers.nbytes_of(self) + sides.dtype.itemsize * wrapped
        else:
            made = self._held.nbytes
        return Footprint(
            payload=sum(pilots.nbytes for pilots in sides.pilots),
            scratch=sides.dtype.itemsize * 2 * prepared
            + made
            + 8 * (work + 2 * len(sides.numbers) * b),
            state=PairSums.nbytes_of(sides, self.frequencies),
        )

    def chunk(self, left: GroupBlock, right: GroupBlock) -> PairSums:
        """Sums over one pair of blocks and its transpose."""
        if self._held is not None:  # there is one block
            return self._held.sums_of(left)
        return _Task(self).sums_of(left, right)


class _Buffers(NamedTuple):
    """Arrays that a task writes again and again: fresh pages take as long as the transforms."""

    roots: Matrix
    """Lines of a band, of all kernels that are no powers, in every coset."""
    work: Matrix
    """Tiles that diagonals are cut from."""
    powers: Matrix
    """Lines of a part, of all kernels that are powers."""
    lines: Matrix
    """Lines of one side, about its pilots, behind a padding."""
    spectra: Spectrum
    """Transforms of every side in the order of the data, then in that of another coset."""
    products: Spectrum
    """Two of them."""

    @classmethod
    def of(cls, shifted: ShiftedGramPass, make: Callable[..., Any] = np.empty) -> _Buffers:
        """For one task."""
        sides, b, part, f = shifted.sides, shifted.groups.size, shifted.part, shifted.frequencies
        real, both = sides.dtype, np.result_type(sides.dtype, np.complex64)
        tile = Diagonals.of_tile(b, same=False).strip_entries(shifted.band)
        return cls(
            make((shifted.n_roots, shifted.band, b), real),
            make((1 + sides.shared.work_tiles, tile), real),
            make((len(sides.shared.powers), part, b), real),
            make((part, part + b), real),
            make((max(bunch.n_sides for bunch in shifted.bunches), part, f), both),
            make((2, part, f), both),
        )

    @classmethod
    def nbytes_of(cls, shifted: ShiftedGramPass) -> int:
        """Bytes of all of them, which are not made."""
        views = cls.of(shifted, lambda shape, dtype: np.broadcast_to(np.zeros((), dtype), shape))
        return sum(view.nbytes for view in views)


class _Task:
    """The sums over one pair of blocks."""

    def __init__(self, shifted: ShiftedGramPass) -> None:
        self._sides = shifted.sides
        self._shifted = shifted
        self._buffers = _Buffers.of(shifted)
        self._sums = PairSums.zeros(shifted.sides, shifted.frequencies)

    def sums_of(self, left: GroupBlock, right: GroupBlock) -> PairSums:
        """Over all pairs of rows of either."""
        same, cosets = left.first == right.first, range(self._sides.orbit.cosets)
        first = [self._sides.prepare(left, coset) for coset in cosets]
        second = first if same else [self._sides.prepare(right, coset) for coset in cosets]
        groups, staying = _cut_groups(first, left)
        others, others_staying = (groups, staying) if same else _cut_groups(second, right)
        for g, group in enumerate(groups):
            # The tile of groups h and g is the transpose of that of g and h.
            for h in range(g if same else 0, len(others)):
                self._add_groups(group, group if same and g == h else others[h])
        for group in others:
            self._add_across(staying, group)
        for group in [] if same else groups:
            self._add_across(others_staying, group)
        # Rows in no group stay where they are, so that their pairs add the same to all replicates.
        if len(staying[0].places) and len(others_staying[0].places):
            grams = self._sides.grams(staying[0], others_staying[0])
            plain = self._sides.add(self._sums, grams, staying[0], others_staying[0])
            self._sums.constants[:] += plain
        for coset, rows in enumerate(first if same else []):
            self._sides.add_offsets(self._sums, rows, coset)
        return self._sums

    def _add_groups(self, first: Sequence[CosetRows], second: Sequence[CosetRows]) -> None:
        """Add the pairs of rows of two groups, or of one."""
        self._add(Diagonals.of_tile(self._shifted.groups.size, same=first is second), first, second)

    def _add_across(self, staying: Sequence[CosetRows], group: Sequence[CosetRows]) -> None:
        """Add the pairs of a row that stays where it is and one of a group."""
        count = len(staying[0].places)
        self._add(Across(self._shifted.groups.size, 0, count), staying, group)

    def _add(self, lines: Lines, first: Sequence[CosetRows], second: Sequence[CosetRows]) -> None:
        """Add lines between rows, which are given in the order of every coset."""
        rows, columns = first[0].places, second[0].places
        # In the tile of a group with itself both sums are of the same rows.
        above = np.zeros((len(self._sides.numbers), len(rows)))
        sums = above, above if rows is columns else np.zeros((len(above), len(columns)))
        offsets = [_offsets(lines, *both) for both in zip(first, second, strict=True)]
        for bunch in self._shifted.bunches:
            self._add_bunch(bunch, lines, first, second, offsets, sums)
        self._sums.rows[:, rows] += sums[0]
        if rows is not columns:
            self._sums.rows[:, columns] += sums[1]

    def _add_bunch(
        self,
        bunch: Bunch,
        lines: Lines,
        first: Sequence[CosetRows],
        second: Sequence[CosetRows],
        offsets: Sequence[Offsets],
        sums: tuple[Vector, Vector],
    ) -> None:
        """Add the lines of the kernels of a bunch, whose row sums are added to `sums`."""
        places = first[0].places
        # Kernels are computed for a band, and transformed a part at a time, which the cache holds.
        for _, band in lines.cut(self._shifted.band):
            roots = self._roots(bunch, band, first, second)
            for at, part in band.cut(self._shifted.part):
                still: dict[Members, Spectrum] = {}
                for coset, tiles in enumerate(roots):
                    some = {k: tile[at] for k, tile in tiles.items()}
                    moved = self._transformed(
                        bunch, part, some, offsets[coset], sums, coset, places
                    )
                    # Coset 0 comes first: its transforms are those of the sides that stay.
                    still = still or moved
                    self._meet(bunch, still, moved, part.weights, coset)

    def _roots(
        self, bunch: Bunch, band: Lines, first: Sequence[CosetRows], second: Sequence[CosetRows]
    ) -> list[dict[int, Matrix]]:
        """Lines of the kernels that are no powers, of every coset."""
        buffers, work = iter(self._buffers.roots), self._buffers.work
        roots = []
        for coset, (rows, columns) in enumerate(zip(first, second, strict=True)):
            tiles = {}
            for place, k in bunch.sides.roots(coset):
                tiles[k], kernel = next(buffers)[: len(band)], bunch.sides.combinations.kernels[k]
                band.write(kernel, rows.rows[place], columns.columns[place], tiles[k], work)
            roots.append(tiles)
        return roots

    def _transformed(
        self,
        bunch: Bunch,
        part: Lines,
        tiles: dict[int, Matrix],
        offsets: Offsets,
        sums: tuple[Vector, Vector],
        coset: int,
        places: NDArray[np.intp],
    ) -> dict[Members, Spectrum]:
        """Transforms of all sides that a coset needs, about their pilots, from rows at places."""
        sides, at = bunch.sides, slice(part.start, part.stop)
        self._raise(bunch, tiles, coset, len(part))
        padded, weights = self._buffers.lines[: len(part)], part.weights
        lines = padded[:, padded.shape[1] - self._shifted.groups.size :]
        spectra = {}
        for place, side in enumerate(sides.of_coset(coset)):
            (above, across), plain = offsets[side], tiles[side[0]]
            for k in side[1:]:
                plain = np.multiply(plain, tiles[k], out=lines)
            # The centred matrix of A_ij - a_i - a_j is that of A_ij, but no large mean cancels in
            # its sums.
            np.subtract(plain, above[at], out=lines)
            np.subtract(lines, across[at], out=lines)
            if sides.unbiased:
                # U-statistics leave out the pair of a row with itself, under every shift the same
                # line.
                lines[part.main] = 0.0
            number = bunch.numbers.get((coset, side))
            if number is not None:
                if part.main.stop:
                    self._sums.diagonal[number, places] = lines[0]
                self._sums.squares[number] += np.vecdot(lines, lines) @ weights
                part.add_sums(padded, sums[0][number], sums[1][number])
            # Transforms of the data as they are stay, since every coset meets them; the others
            # follow.
            begin = len(sides.sides) if coset else 0
            spectra[side] = self._buffers.spectra[begin + place, : len(part)]
            _transform_lines(lines, self._shifted.length, spectra[side])
        return spectra

    def _raise(self, bunch: Bunch, tiles: dict[int, Matrix], coset: int, count: int) -> None:
        """Add the kernels that are powers of others to their lines."""
        needed = bunch.sides.needed(coset)
        for number, power in enumerate(bunch.sides.shared.powers):
            if power.k in needed:
                out = self._buffers.powers[number, :count]
                tiles[power.k] = power.of(tiles[power.source], out)

    def _meet(
        self,
        bunch: Bunch,
        still: dict[Members, Spectrum],
        moved: dict[Members, Spectrum],
        weights: Vector,
        coset: int,
    ) -> None:
        """Add the cross-spectra of all statistics in a coset."""
        conjugate, product = self._buffers.products[:, : len(weights)]
        weights = weights.astype(product.dtype)
        for right, numbers in bunch.by_right.items():
            # sum_i A_i B_{i + k} for all k at once: a product with a conjugate for each frequency.
            np.conj(moved[right,], out=conjugate)
            for c in numbers:
                left = self._sides.pairs[c].left
                # For joint independence a coset permutes the product of the left variables as well.
                first = moved.get(left, still[left]) if len(left) > 1 else still[left]
                np.multiply(first, conjugate, out=product)
                self._sums.products[coset, c] += weights @ product


def _offsets(lines: Lines, first: CosetRows, second: CosetRows) -> Offsets:
    """Those of every side as they stand on the lines."""
    both = zip(first.offsets.items(), second.offsets.values(), strict=True)
    return {side: lines.of_rows(offsets, other) for (side, offsets), other in both}


def _cut_groups(
    rows: Sequence[CosetRows], block: GroupBlock
) -> tuple[list[list[CosetRows]], list[CosetRows]]:
    """Groups of rows, and those that are in none; of every coset."""
    b, grouped = block.groups.size, block.n_groups * block.groups.size
    groups = [
        [coset_rows.part(start, start + b) for coset_rows in rows] for start in range(0, grouped, b)
    ]
    return groups, [coset_rows.part(grouped, block.rows) for coset_rows in rows]


def _is_quick(length: int) -> bool:
    for factor in _SMALL_FACTORS:
        while length % factor == 0:
            length //= factor
    return length == 1


def _transform_lines(lines: Matrix, length: int, out: NDArray[Any]) -> None:
    """Write the transforms of lines; SciPy is quicker in float32, and makes new arrays."""
    # NumPy writes float64 into memory that is there, and SciPy is quicker in float32.
    if lines.dtype == np.float64:
        np.fft.rfft(lines, length, axis=1, out=out)
    else:
        out[...] = scipy.fft.rfft(lines, length, axis=1)
