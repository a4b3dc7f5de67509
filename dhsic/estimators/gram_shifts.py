"""Statistics from Gram matrices under all permutations of an orbit, in one pass over their tiles.

With A and B the Gram matrices of both sides, sum_ij A_ij B_s(i)s(j) for every shift s within groups
of rows is a circular cross-correlation along every circulant diagonal of the tiles of two groups,
summed: the transforms of the diagonals of either side are multiplied and added up, and what comes
of it is transformed back once in the end.

Nothing is centred by a pass before: HAH with H = I - 11'/n is the same for A_ij and for
A_ij - a_i - a_j, and so is the U-centred matrix, whose diagonal does not count. What is left to be
centred follows from the row sums, which meet by the same permutations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from dhsic.engine.groups import Groups
from dhsic.engine.reduction import Footprint, GroupBlock, add
from dhsic.engine.tiles import Matrix
from dhsic.estimators.gram_lines import Across, Diagonals, Lines
from dhsic.estimators.gram_sides import GramSides, Rows, Side, product_of

__all__ = ["ShiftedGramPass", "ShiftedGramSums"]

Vector = NDArray[np.float64]
Spectrum = NDArray[np.complexfloating[Any, Any]]

_BAND_BYTES = 2**23  # of the lines that are cut from tiles at a time
_MOST_LINES = 512
_FEWEST_LINES = 32
_CACHE_BYTES = 2**18  # of the transforms of one side of a part of them
_FEWEST_TRANSFORMS = 4
_QUICK_FACTORS = range(2, 60)  # of lengths that take less than padding to twice that
_TRANSFORM = 150.0  # operations an entry of a side, with all that is done to it
_MEETING = 15.0  # and of a statistic


class ShiftedGramSums(NamedTuple):
    """Sums over pairs of rows for C statistics under R cosets, and of Q Gram matrices.

    Those are about their pilots, A_ij - a_i - a_j, of rows in the order of their groups and then
    those left over.
    """

    spectra: NDArray[np.complex128]
    """Cross-spectra of all lines, shape (R, C, F)."""
    constants: Vector
    """Sums over pairs of rows that stay where they are, shape (C,)."""
    rows: Vector
    """Sums of the rows, shape (Q, n)."""
    offsets: Vector
    """a, shape (Q, n)."""
    squares: Vector
    """Sums of the squared entries, shape (Q,)."""

    @classmethod
    def zeros(cls, shifted: ShiftedGramPass) -> ShiftedGramSums:
        """Of no rows yet."""
        sides = shifted.sides
        q, n = len(sides.numbers), shifted.groups.n
        shape = sides.orbit.cosets, len(sides.pairs), shifted.length // 2 + 1
        spectra, constants = np.zeros(shape, np.complex128), np.zeros(len(sides.pairs))
        return cls(spectra, constants, np.zeros((q, n)), np.zeros((q, n)), np.zeros(q))


@dataclass(frozen=True)
class ShiftedGramPass:
    """All sums of `ShiftedGramSums`, in one pass over pairs of groups of rows.

    Parameters
    ----------
    sides : GramSides
        Of the statistics.
    """

    sides: GramSides
    name: str = "shifts"

    @property
    def groups(self) -> Groups:
        """The groups of all rows."""
        return self.sides.orbit.groups

    @cached_property
    def length(self) -> int:
        """Of the transforms: b where that is quick, else twice b and more, padded by zeros."""
        b = self.groups.size
        return b if _is_quick(b) else int(fft.next_fast_len(2 * b, real=True))

    @cached_property
    def band(self) -> int:
        """Lines that are cut from tiles at a time, of all kernels and cosets."""
        lines = _BAND_BYTES // (self._n_roots * self.groups.size * self.sides.dtype.itemsize)
        return min(self.groups.size, max(_FEWEST_LINES, min(lines, _MOST_LINES)))

    @cached_property
    def part(self) -> int:
        """Lines that are transformed at a time."""
        lines = _CACHE_BYTES // (self.length * self.sides.dtype.itemsize)
        return min(self.band, max(_FEWEST_TRANSFORMS, lines))

    @property
    def _n_roots(self) -> int:
        own, moved = (len(self.sides.roots(coset)) for coset in (0, 1))
        return own + (self.sides.orbit.cosets - 1) * moved

    def footprint(self, rows: int) -> Footprint:
        """Cost of a pair of blocks of so many rows."""
        sides, n = self.sides, self.groups.n
        size, cosets, q = sides.dtype.itemsize, sides.orbit.cosets, len(sides.numbers)
        prepared, work = sides.prepared_entries(rows)
        wrapped = 2 * (self.groups.size + self.band) * (sides.width(0) + len(sides.sides))
        shared, transforms = sides.shared, len(sides.sides) + (cosets - 1) * len(sides.moved)
        return Footprint(
            payload=sum(pilots.nbytes for pilots in sides.pilots),
            scratch=size * (2 * prepared + wrapped + _Buffers.entries(self))
            + 8 * (work + 2 * q * self.groups.size),
            state=16 * cosets * len(sides.pairs) * (self.length // 2 + 1)
            + 8 * (len(sides.pairs) + q * (2 * n + 1)),
            operations=shared.operations(sides.width(0))
            + (cosets - 1) * shared.operations(sides.width(1))
            + _TRANSFORM * transforms
            + _MEETING * cosets * len(sides.pairs),
        )

    def chunk(self, left: GroupBlock, right: GroupBlock) -> ShiftedGramSums:
        """Sums over one pair of blocks and its transpose."""
        return _Task(self).sums_of(left, right)

    def combine(self, left: ShiftedGramSums, right: ShiftedGramSums) -> ShiftedGramSums:
        """Add."""
        return add(left, right)


class _Buffers(NamedTuple):
    """What a task writes again and again: fresh pages would take as long as the transforms."""

    roots: Matrix
    """Lines of a band, of all kernels that are no powers, in every coset."""
    work: Matrix
    """Tiles that diagonals are cut from."""
    powers: Matrix
    """Lines of a part, of all kernels that are powers."""
    lines: Matrix
    """Of one side, about its pilots, behind a padding."""
    spectra: Spectrum
    """Of every side in the order of the data, then in that of another coset."""
    products: Spectrum
    """Two of them."""

    @classmethod
    def of(cls, shifted: ShiftedGramPass) -> _Buffers:
        """For one task."""
        real = shifted.sides.dtype
        dtypes = [*[real] * 4, *[np.result_type(real, np.complex64)] * 2]
        shapes = zip(cls._shapes(shifted), dtypes, strict=True)
        return cls(*(np.empty(shape, dtype) for shape, dtype in shapes))

    @classmethod
    def entries(cls, shifted: ShiftedGramPass) -> int:
        """Real numbers in all of them."""
        *real, spectra, products = map(math.prod, cls._shapes(shifted))
        return sum(real) + 2 * (spectra + products)

    @staticmethod
    def _shapes(shifted: ShiftedGramPass) -> list[tuple[int, ...]]:
        sides, b, part = shifted.sides, shifted.groups.size, shifted.part
        tile = Diagonals.of_tile(b, same=False).strip_entries(shifted.band)
        moved = len(sides.moved) if sides.orbit.cosets > 1 else 0
        frequencies = shifted.length // 2 + 1
        return [
            (shifted._n_roots, shifted.band, b),
            (1 + sides.shared.work_tiles, tile),
            (len(sides.shared.powers), part, b),
            (part, part + b),
            (len(sides.sides) + moved, part, frequencies),
            (2, part, frequencies),
        ]


class _Task:
    """The sums over one pair of blocks."""

    def __init__(self, shifted: ShiftedGramPass) -> None:
        self._sides = shifted.sides
        self._shifted = shifted
        self._buffers = _Buffers.of(shifted)
        self._sums = ShiftedGramSums.zeros(shifted)
        self._by_right: dict[int, list[int]] = {}
        for c, pair in enumerate(shifted.sides.pairs):
            self._by_right.setdefault(pair.right, []).append(c)

    def sums_of(self, left: GroupBlock, right: GroupBlock) -> ShiftedGramSums:
        """Over all pairs of rows of either."""
        same, cosets = left.first == right.first, range(self._sides.orbit.cosets)
        first = [self._sides.prepare(left, coset) for coset in cosets]
        second = first if same else [self._sides.prepare(right, coset) for coset in cosets]
        groups, staying = _cut(first, left)
        others, others_staying = (groups, staying) if same else _cut(second, right)
        for g, own in enumerate(groups):
            for h in range(g if same else 0, len(others)):
                self._add_groups(own, own if same and g == h else others[h])
        for group in others:
            self._add_across(staying, group)
        for group in [] if same else groups:
            self._add_across(others_staying, group)
        self._add_staying(staying[0], others_staying[0], same=same)
        for (coset, side), number in self._sides.numbers.items() if same else []:
            self._sums.offsets[number, first[coset].places] = first[coset].offsets[side]
        return self._sums

    def _add_groups(self, first: Sequence[Rows], second: Sequence[Rows]) -> None:
        """Add the pairs of rows of two groups, or of one."""
        self._add(Diagonals.of_tile(self._shifted.groups.size, same=first is second), first, second)

    def _add_across(self, staying: Sequence[Rows], group: Sequence[Rows]) -> None:
        """Add the pairs of a row that stays where it is and one of a group."""
        count = len(staying[0].places)
        self._add(Across(self._shifted.groups.size, 0, count), staying, group)

    def _add(self, lines: Lines, first: Sequence[Rows], second: Sequence[Rows]) -> None:
        """Add lines between rows, which are given in the order of every coset."""
        sums = _RowSums.of(first[0], second[0], len(self._sides.numbers))
        offsets = [_offsets(lines, *both) for both in zip(first, second, strict=True)]
        for _, band in lines.cut(self._shifted.band):
            roots = self._roots(band, first, second)
            for at, part in band.cut(self._shifted.part):
                own: dict[Side, Spectrum] = {}
                for coset, tiles in enumerate(roots):
                    some = {k: tile[at] for k, tile in tiles.items()}
                    moved = self._transformed(part, some, offsets[coset], sums, coset)
                    own = own or moved
                    self._meet(own, moved, part.weights, coset)
        sums.add_to(self._sums.rows, first[0], second[0])

    def _roots(
        self, band: Lines, first: Sequence[Rows], second: Sequence[Rows]
    ) -> list[dict[int, Matrix]]:
        """Lines of the kernels that are no powers, of every coset."""
        buffers, work = iter(self._buffers.roots), self._buffers.work
        found = []
        for coset, (rows, columns) in enumerate(zip(first, second, strict=True)):
            tiles = {}
            for place, k in self._sides.roots(coset):
                tiles[k], kernel = next(buffers)[: len(band)], self._sides.combinations.kernels[k]
                band.write(kernel, rows.rows[place], columns.columns[place], tiles[k], work)
            found.append(tiles)
        return found

    def _transformed(
        self,
        part: Lines,
        tiles: dict[int, Matrix],
        offsets: dict[Side, tuple[Matrix, Matrix]],
        sums: _RowSums,
        coset: int,
    ) -> dict[Side, Spectrum]:
        """Transforms of all sides that a coset needs, about their pilots."""
        sides, at = self._sides, slice(part.start, part.stop)
        self._raise(tiles, coset, len(part))
        padded, weights = self._buffers.lines[: len(part)], part.weights
        lines = padded[:, padded.shape[1] - self._shifted.groups.size :]
        found = {}
        for place, (side, (above, across)) in enumerate(offsets.items()):
            plain = tiles[side[0]]
            for k in side[1:]:
                plain = np.multiply(plain, tiles[k], out=lines)
            np.subtract(plain, above[at], out=lines)
            np.subtract(lines, across[at], out=lines)
            if sides.unbiased:
                lines[part.main] = 0.0
            number = sides.numbers.get((coset, side))
            if number is not None:
                self._sums.squares[number] += np.vecdot(lines, lines) @ weights
                part.add_sums(padded, sums.rows[number], sums.columns[number])
            begin = len(sides.sides) if coset else 0
            found[side] = self._buffers.spectra[begin + place, : len(part)]
            _transform(lines, self._shifted.length, found[side])
        return found

    def _raise(self, tiles: dict[int, Matrix], coset: int, count: int) -> None:
        """Add the kernels that are powers of others to their lines."""
        needed = self._sides.needed(coset)
        for number, power in enumerate(self._sides.shared.powers):
            if power.k in needed:
                out = self._buffers.powers[number, :count]
                tiles[power.k] = power.of(tiles[power.source], out)

    def _meet(
        self, own: dict[Side, Spectrum], moved: dict[Side, Spectrum], weights: Vector, coset: int
    ) -> None:
        """Add the cross-spectra of all statistics in a coset."""
        conjugate, product = self._buffers.products[:, : len(weights)]
        weights = weights.astype(product.dtype)
        for right, numbers in self._by_right.items():
            np.conj(moved[right,], out=conjugate)
            for c in numbers:
                left = self._sides.pairs[c].left
                first = moved.get(left, own[left]) if len(left) > 1 else own[left]
                np.multiply(first, conjugate, out=product)
                self._sums.spectra[coset, c] += weights @ product

    def _add_staying(self, first: Rows, second: Rows, *, same: bool) -> None:
        """Add pairs of rows that no permutation moves."""
        sides, shape = self._sides, (len(first.places), len(second.places))
        if 0 in shape:
            return
        tiles = list(np.empty((len(sides.combinations.kernels), *shape), sides.dtype))
        work = np.empty((sides.shared.work_tiles, *shape), sides.dtype)
        sides.shared.tiles(first.rows, second.columns, tiles, work)
        weight, grams = 1.0 if same else 2.0, {}
        for side in sides.sides:
            offsets = first.offsets[side][:, None] + second.offsets[side]
            grams[side] = product_of(tiles, side) - offsets
            if sides.unbiased and same:
                np.fill_diagonal(grams[side], 0.0)
        for (_, side), number in sides.numbers.items():
            self._sums.rows[number, first.places] += grams[side].sum(axis=1)
            if not same:
                self._sums.rows[number, second.places] += grams[side].sum(axis=0)
            self._sums.squares[number] += weight * float(np.vdot(grams[side], grams[side]))
        for c, (left, right) in enumerate(sides.pairs):
            self._sums.constants[c] += weight * float(np.vdot(grams[left], grams[right,]))


class _RowSums(NamedTuple):
    """Sums of Q Gram matrices between two sets of rows."""

    rows: Vector
    """Shape (Q, r)."""
    columns: Vector
    """Shape (Q, c); the same array where both sets are the same."""

    @classmethod
    def of(cls, first: Rows, second: Rows, count: int) -> _RowSums:
        """Of nothing yet."""
        rows = np.zeros((count, len(first.places)))
        return cls(rows, rows if first is second else np.zeros((count, len(second.places))))

    def add_to(self, sums: Vector, first: Rows, second: Rows) -> None:
        """Add them to those of all rows, shape (Q, n)."""
        sums[:, first.places] += self.rows
        if self.columns is not self.rows:
            sums[:, second.places] += self.columns


def _offsets(lines: Lines, first: Rows, second: Rows) -> dict[Side, tuple[Matrix, Matrix]]:
    """Those of every side as they stand on the lines."""
    both = zip(first.offsets.items(), second.offsets.values(), strict=True)
    return {side: lines.of_rows(one, other) for (side, one), other in both}


def _cut(rows: Sequence[Rows], block: GroupBlock) -> tuple[list[list[Rows]], list[Rows]]:
    """Groups of rows, and those that are in none; of every coset."""
    b, grouped = block.groups.size, block.n_groups * block.groups.size
    groups = [[one.part(start, start + b) for one in rows] for start in range(0, grouped, b)]
    return groups, [one.part(grouped, block.rows) for one in rows]


def _is_quick(length: int) -> bool:
    for factor in _QUICK_FACTORS:
        while length % factor == 0:
            length //= factor
    return length == 1


def _transform(lines: Matrix, length: int, out: NDArray[Any]) -> None:
    """Write the transforms of lines; SciPy is quicker in float32, and makes new arrays."""
    if lines.dtype == np.float64:
        np.fft.rfft(lines, length, axis=1, out=out)
    else:
        out[...] = fft.rfft(lines, length, axis=1)
