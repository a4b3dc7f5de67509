"""Compute the Gram contraction: sums over all pairs of rows under all permutations of an orbit.

With A and B the Gram matrices of both sides of a statistic, HSIC under a permutation s asks for

    g_s = sum_ij A_ij B_s(i)s(j),

and for the row sums of A and B, which meet by the same permutations. For all shifts within groups
of rows g is a circular cross-correlation along every circulant diagonal of the tiles of two groups:
the transforms of the diagonals of either side are multiplied and added up, and what comes of it is
transformed back once in the end. Without shifts the tiles are gathered and multiplied.

The n x n matrices are never held but where rows are few, or where all of them are permuted: lines
of a band of diagonals are computed, transformed and forgotten. HSIC of two variables is the same
for A_ij and A_ij - c whatever c is, since both are centred by their row sums: the mean over pairs
of a few rows takes off digits that would cancel.

The passes and `GramStatistic` come first. `GramSums` follows, which has HSIC and its law under
independence from the sums of Gram matrices; `Tiling` is last, which makes tiles between rows and
landmarks, small enough for the cache.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial, reduce
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import scipy
from numpy.lib.stride_tricks import as_strided
from numpy.typing import DTypeLike, NDArray

from dhsic.engine.passes import Footprint, GroupBlock, RowGroups
from dhsic.engine.plan import DriverStep
from dhsic.engine.session import Session
from dhsic.errors import DataError
from dhsic.kernels import Combinations, Kernel
from dhsic.kernels.grid import SharedTiles
from dhsic.linalg import centre, hadamard, rounding_unit, spectrum
from dhsic.nulls import ChiSquareMixture, Permutation, Resampling, expanded
from dhsic.statistics.orbit import (
    MovedGroups,
    Orbit,
    Pair,
    Permuted,
    PermutedPass,
    Statistic,
    is_smooth,
    orbit_of,
    tile_error,
    transform_error,
    whole_group,
)

Matrix = NDArray[np.floating[Any]]
Tile = NDArray[Any]
Vector = NDArray[np.float64]
Indices = NDArray[np.intp]
Spectrum = NDArray[np.complexfloating[Any, Any]]
Terms = dict[tuple[int, int], Any]
Span = tuple[int, ...]
"""First group, groups, and rows that stay after them; all rows where it is empty."""

BATCH = 64
"""Permutations that are drawn and held at a time."""

_PILOTS = 32  # rows from which the mean of a kernel is
# In bands of 32 to 64 diagonals all shifts of 20,000 rows took 9.2 s and 170 MiB.
_BAND_BYTES = 2**25  # of the lines that are cut from tiles at a time: strips of few overlap
_MOST_LINES, _FEWEST_LINES = 512, 32
_STRIP = 64  # rows of the tiles that diagonals are cut from; those of a band are a few times longer
_CACHE_BYTES = 2**18  # of the transforms of one side of a part of them
_FEWEST_TRANSFORMS = 4
# Features against a target that share a pass: bands of thousands of kernels would be a few lines
# each, and a call as dear as its numbers.
_TOGETHER = 32
_SMALL = range(2, 60)  # factors of lengths that take less than padding to twice that
_FEWEST_IN_GROUP = 512  # rows of a group: tiles of fewer take longer for a row

# Rows and bytes of all Gram matrices that several orders share, and of those of rows that move in
# sets, whose many small groups take long. Held and streamed, ms of a default test: 26 and 32 of 300
# rows, 46 and 43 of 500, 98 and 70 of 700, 150 and 102 of 900.
_FEW_ROWS, _HELD = 400, 2**28
_COSETS = 4  # whose kernels share a pass, beside those that do not move
_GATHERED_BYTES = 2**18  # of the lines that are gathered at a time
_GATHERED_MOST = 2**22  # with their places, transforms and products
_GATHERED = 2**15  # entries of a strip whose rows are permuted: all kernels stay in the cache

_SAFETY = 4.0  # the bound on the error of a statistic is 4 eps log2(b) |A|_F |B|_F / n
_VALUES = 2**16  # entries of vectors of all rows, for every statistic and some cosets
_VECTORS = 8  # of all rows, for every statistic

_FEWEST_UNBIASED = 4  # rows: its divisor is n (n - 3)
_UNCENTRED = 32.0
_NO_SPREAD = 1e-10  # of the squared mean: less is rounding
ROW_TILE = 2048
COLUMN_TILE = 256


class RowPiece(NamedTuple):
    """The rows of a group, or rows that stay, prepared for tiles."""

    places: Indices
    """Where they are among all rows in the order of their groups, those that stay last."""
    rows: list[Matrix]
    """One array a kernel that is no power of another."""
    columns: list[Matrix]
    """The same as the other argument."""
    of: Span = ()
    """What of all rows they are."""

    @property
    def stays(self) -> bool:
        """Whether they are in no group."""
        return self.of[1:2] == (0,)


class PairSums(NamedTuple):
    """Sums over pairs of rows for C statistics under R cosets, and for K kernels.

    Those are A_ij - c, of rows in the order of their groups and then those that stay.
    """

    products: NDArray[Any]
    """Cross-spectra of all lines, shape (R, C, F); without shifts the sums, F = 1."""
    rows: Vector
    """Sums of the rows, shape (K, n)."""
    diagonal: Vector
    """A_ii - c, shape (K, n)."""
    squares: Vector
    """Sums of the squared entries, shape (K,)."""


class GramFound(NamedTuple):
    """What all pairs of rows say of the data as they are."""

    sums: GramSums
    """Those of the kernels less c, and of every combination."""
    centres: Vector
    """c of the kernels, shape (K,)."""
    limit: Any = None
    """What `GramStatistic.limit` made of the matrices."""


class Lines(NamedTuple):
    """Lines start..stop-1 of a tile, of b entries each, along which shifts move the entries.

    Circulant diagonal d of the tile of two groups holds the entries (i, i + d), columns counted
    modulo b: to shift the rows of both by k moves each to (i + k, i + k + d). The tile of a group
    with itself is symmetric, so that d and b - d are mirror images: the first half is enough,
    weighted. The lines of the tile of rows that stay and a group are its rows.
    """

    size: int
    """b."""
    start: int
    stop: int
    same: bool
    """Whether both groups are the same."""
    stays: bool
    """Whether the rows of the first stay."""

    @property
    def number(self) -> int:
        """How many."""
        return self.stop - self.start

    @property
    def main(self) -> bool:
        """Whether the first one holds the entries of a row with itself."""
        return self.same and self.start == 0

    @property
    def mirrored(self) -> slice:
        """Those that stand for their mirror image too."""
        if not self.same:
            return slice(0, self.number)
        # Line 0 is its own mirror image, and so is line b / 2 where b is even.
        first, last = max(self.start, 1), min(self.stop, (self.size + 1) // 2)
        return slice(first - self.start, max(first, last) - self.start)

    @property
    def weights(self) -> Vector:
        """How often each is to be counted."""
        weights = np.ones(self.number)
        weights[self.mirrored] = 2.0
        return weights

    def cut(self, count: int) -> Iterator[tuple[slice, Lines]]:
        """So many at a time, and where they are among these."""
        for start in range(self.start, self.stop, count):
            stop = min(start + count, self.stop)
            at = slice(start - self.start, stop - self.start)
            yield at, self._replace(start=start, stop=stop)

    def write(
        self, kernel: Kernel, rows: Matrix, columns: Matrix, out: Matrix, work: Matrix
    ) -> None:
        """Write the values (stop - start, b) of a kernel, with scratch (1 + work_tiles, _)."""
        if self.stays:
            for at, strip in self.cut(work.shape[1] // self.size):
                tiles = work[1:, : strip.number * self.size].reshape(-1, strip.number, self.size)
                kernel.tile(rows[strip.start : strip.stop], columns, out[at], tiles)
            return
        # Columns from that which the first row meets on, around.
        wrapped = columns[np.arange(self.start, self.stop + self.size) % self.size]
        for begin in range(0, self.size, _STRIP):
            to = min(begin + _STRIP, self.size)
            shape = to - begin, to - begin + self.number - 1
            tiles = work[:, : shape[0] * shape[1]].reshape(-1, *shape)
            kernel.tile(rows[begin:to], wrapped[begin : begin + shape[1]], tiles[0], tiles[1:])
            _, down, along = tiles.strides
            # A step of one row and one column reads a diagonal in place: nothing is gathered.
            out[:, begin:to] = as_strided(tiles[0], (self.number, shape[0]), (along, down + along))

    def add_sums(self, padded: Matrix, first: Vector, second: Vector) -> None:
        """Add the sums over the rows and columns of the tile to those of either piece.

        The lines come behind a padding of as many at least, which is overwritten.
        """
        padding = padded.shape[1] - self.size
        lines = padded[:, padding:]
        if self.stays:
            first[self.start : self.stop] += lines.sum(axis=1)
            second += column_sums(lines)
            return
        first += column_sums(lines)
        # The last entries stand in front once more: one line further and one entry back is the same
        # column of the tile, around b.
        padded[:, :padding] = padded[:, self.size :]
        mirrored = lines[self.mirrored]
        down, along = mirrored.strides
        columns = column_sums(as_strided(mirrored, mirrored.shape, (down - along, along)))
        second += np.roll(columns, self.start + self.mirrored.start)


@dataclass(frozen=True)
class GramPass(PermutedPass[PairSums]):
    """A pass over all pairs of rows, pairs of groups at a time, which adds `PairSums` up.

    Rows that shifted cosets move are values of further variables, so that their kernels are kernels
    of other rows, and their statistics follow those of the data.

    Parameters
    ----------
    orbit : Orbit
        The permutations.
    cosets : range
        Which of its cosets.
    kernels : tuple of Kernel
        K fitted ones.
    variables : tuple of int
        The variable of each; M and above are those whose rows the cosets but that of the data have
        moved, M for each.
    chosen : tuple of tuple of int
        The kernels of every statistic: of joint independence, of which permutations move all
        variables but the first, or of two. Where rows are moved, those of a coset after another.
    centres : tuple of float
        c of every kernel.
    dims : tuple of int
        Columns of the variables.
    dtype : dtype
        Precision of the tiles.
    unbiased : bool
        Diagonals count as zero.
    """

    pairs: ClassVar[bool] = True
    alone: ClassVar[str] = "Gram sums"

    orbit: Orbit
    cosets: range
    kernels: tuple[Kernel, ...]
    variables: tuple[int, ...]
    chosen: tuple[tuple[int, ...], ...]
    centres: tuple[float, ...]
    dims: tuple[int, ...]
    dtype: np.dtype[Any]
    unbiased: bool

    @cached_property
    def statistics(self) -> list[Pair]:
        """The sides of all C statistics."""
        return list(map(Pair.of, self.chosen))

    @property
    def joint(self) -> bool:
        """Whether left sides are products, which cosets permute as well."""
        return len(self.chosen[0]) > 2

    @cached_property
    def shared(self) -> SharedTiles:
        """How the tiles of the kernels come from each other."""
        return SharedTiles(self.kernels, self.variables)

    @cached_property
    def width(self) -> int:
        """Columns of the prepared arrays of all kernels."""
        return self.shared.width(self.dims * (1 + len(self.drawn)))

    @cached_property
    def length(self) -> int:
        """Length of transforms: b where that is quick, else twice b and more, padded by zeros."""
        b = self.groups.size
        # Lengths with large prime factors are slow. A padded line leaves the shifts beyond its end
        # apart, which are added in the end.
        return b if is_smooth(b, _SMALL) else int(scipy.fft.next_fast_len(2 * b, real=True))

    @property
    def frequencies(self) -> int:
        """Frequencies of the transforms, F."""
        return self.length // 2 + 1 if self.orbit.shifted else 1

    @cached_property
    def band(self) -> int:
        """Lines that are cut from tiles at a time, of all kernels."""
        lines = _BAND_BYTES // (len(self.shared.roots) * self.groups.size * self.dtype.itemsize)
        return min(self.groups.size, max(_FEWEST_LINES, min(lines, _MOST_LINES)))

    @cached_property
    def part(self) -> int:
        """Lines that are transformed at a time."""
        lines = _CACHE_BYTES // (self.length * self.dtype.itemsize)
        return min(self.band, max(_FEWEST_TRANSFORMS, lines))

    @cached_property
    def moves(self) -> bool:
        """Whether statistics of moved rows are further ones."""
        return max(self.variables) >= len(self.dims)

    @property
    def count(self) -> int:
        """Statistics of a coset, C."""
        return len(self.chosen) // (len(self.cosets) if self.moves else 1)

    def zeros(self) -> PairSums:
        """Nothing summed yet."""
        kind = complex if self.orbit.shifted else float
        products = np.zeros((len(self.cosets), self.count, self.frequencies), kind)
        rows, diagonal = np.zeros((2, len(self.kernels), self.groups.n))
        return PairSums(products, rows, diagonal, np.zeros(len(self.kernels)))

    @property
    def state_bytes(self) -> int:
        """Bytes of the sums."""
        size = 16 if self.orbit.shifted else 8
        products = size * len(self.cosets) * self.count * self.frequencies
        return products + 8 * len(self.kernels) * (2 * self.groups.n + 1)

    def footprint(self, rows: int) -> Footprint:
        """Cost of a pair of blocks of so many rows."""
        b, size, k = self.groups.size, self.dtype.itemsize, len(self.kernels)
        # The values of the data and of one coset, and those of further ones.
        further = max(len(self.drawn) - 1, 0) * self.moves
        moved = 8 * sum(self.dims) + sum(self.dims[1:]) * further
        scratch = 4 * size * rows * self.width + 8 * rows * (moved + self.width)
        if self.orbit.shifted:
            roots, powers, part = len(self.shared.roots), len(self.shared.powers), self.part
            # Lines of a band, and of a padded part; transforms, their conjugates and a product.
            lines = (roots * self.band + (powers + 1) * part) * b + part**2 + self.work_values
            lines += 2 * (2 * len(self.sides) + 2) * part * self.frequencies
            scratch += size * (lines + 2 * (b + self.band) * self.width) + 16 * k * b
        else:
            tiles = k + self.shared.work_tiles + 1
            scratch += size * tiles * b**2 + self.permuting_bytes(b)
        return Footprint(0, scratch, self.state_bytes)

    def permuting_bytes(self, rows: int) -> int:
        """Bytes that a task takes to permute two pieces of so many rows."""
        count = min(BATCH, len(self.orbit) - 1)
        strips = self.dtype.itemsize * (2 * len(self.kernels) + 2) * _strip_rows(rows) * rows
        return count and strips + count * 32 * (len(self.dims) - 1) * rows

    def chunk(self, left: GroupBlock, right: GroupBlock) -> PairSums:
        """Sums over one pair of blocks and its transpose."""
        sums, first = self.zeros(), self.pieces(left)
        every = (
            itertools.combinations_with_replacement(first, 2)
            if left.first == right.first
            else itertools.product(first, self.pieces(right))
        )
        for piece, other in every:
            if self.orbit.shifted and not (piece.stays and other.stays):
                both = (other, piece) if other.stays else (piece, other)
                self._add_lines(sums, *both)
                continue
            grams = self.shared.tiles(piece.rows, other.columns, self.dtype)
            self.add_tile(sums, piece, other, grams)
            # A pair of different groups stands for its mirror image, too.
            weight = 1.0 if piece is other else 2.0
            if self.orbit.shifted:
                self.add_still(sums, weight * self.joint_sums(grams))
                continue
            if self.cosets.start == 0:
                sums.products[0, :, 0] += weight * self.joint_sums(grams)
            if self.drawn:
                columns = None if piece is other else other.of
                permuted = PermutedGrams(self, grams, piece.of, columns)
                sums.products[-len(self.drawn) :, :, 0] += weight * permuted(range(len(self.drawn)))
        return sums

    @property
    def drawn(self) -> range:
        """The cosets but for that of the data."""
        return range(max(self.cosets.start, 1), self.cosets.stop)

    def pieces(self, block: GroupBlock) -> list[RowPiece]:
        """The rows of every group, and those that stay."""
        b, count, n_left = self.groups.size, block.n_groups, block.n_left
        values = block.values
        if self.moves:
            first, *others = values
            moved = [
                x[self.orbit.places(self.drawn, m, block.first, count, n_left)]
                for m, x in enumerate(others, 1)
            ]
            values += tuple(
                x for r in range(len(self.drawn)) for x in (first, *(y[r] for y in moved))
            )
        rows, columns = self.shared.rows_and_columns(values, self.dtype)
        left = np.arange(self.groups.n_left)
        left = left[self.groups.left_of(block.first, block.first + count)] if n_left else left[:0]
        places = np.append(block.first * b + np.arange(count * b), self.groups.count * b + left)
        ends = [*range(0, count * b + 1, b), block.rows]
        return [
            RowPiece(
                places[start:stop],
                [x[start:stop] for x in rows],
                [x[start:stop] for x in columns],
                (block.first + g, int(g < count), 0 if g < count else n_left),
            )
            for g, (start, stop) in enumerate(itertools.pairwise(ends))
            if start < stop
        ]

    def add_tile(
        self, sums: PairSums, first: RowPiece, second: RowPiece, grams: Sequence[Matrix]
    ) -> None:
        """Add what the matrices of two pieces sum to, and leave these less c."""
        same = first is second
        for k, (gram, c) in enumerate(zip(grams, self.centres, strict=True)):
            gram -= gram.dtype.type(c)
            # A U-statistic leaves out the pair of a row with itself.
            if self.unbiased and same:
                np.fill_diagonal(gram, 0.0)
            # In double precision, since HSIC is a difference of such sums.
            sums.rows[k, first.places] += gram.sum(axis=1, dtype=np.float64)
            if same:
                sums.diagonal[k, first.places] = gram.diagonal()
            else:
                sums.rows[k, second.places] += column_sums(gram)
            # A tile of two pieces stands for its transpose, too.
            sums.squares[k] += (1.0 if same else 2.0) * float(np.vdot(gram, gram))

    def joint_sums(self, grams: Sequence[Matrix]) -> Vector:
        """sum_ij A_ij B_ij of all statistics, shape (C,)."""
        # In float64, and without an array for the product.
        return np.array(
            [
                np.einsum("ij,ij->", _product_of(grams, left), grams[right], dtype=np.float64)
                for left, right in self.statistics
            ]
        )

    def add_still(self, sums: PairSums, joint: Vector) -> None:
        """Add pairs of rows in no group, which add the same to all replicates: to frequency 0."""
        folded = 1 if self.length == self.groups.size else 2
        sums.products[:, :, 0] += joint.reshape(-1, self.count) * (self.length / folded)

    @property
    def work_values(self) -> int:
        """Entries of tiles that lines of a band are cut from, with those that kernels work with."""
        rows = min(_STRIP, self.groups.size)
        tile = max(rows * (rows + self.band - 1), self.groups.size)
        return (1 + self.shared.work_tiles) * tile

    @cached_property
    def sides(self) -> list[tuple[int, ...]]:
        """Kernels, and products of them on the left of a statistic."""
        products = dict.fromkeys(left for left, _ in self.statistics if len(left) > 1)
        return [*((k,) for k in range(len(self.kernels))), *products]

    def _add_lines(self, sums: PairSums, first: RowPiece, second: RowPiece) -> None:
        """Add the pairs of rows of two groups, of one, or of rows that stay and a group."""
        b, same = self.groups.size, first is second
        count = len(first.places) if first.stays else b // 2 + 1 if same else b
        # In the tile of a group with itself both sums are of the same rows.
        above = np.zeros((len(self.kernels), len(first.places)))
        across = above if same else np.zeros((len(above), len(second.places)))
        roots = np.empty((len(self.shared.roots), self.band, b), self.dtype)
        work = np.empty(self.work_values, self.dtype).reshape(1 + self.shared.work_tiles, -1)
        # Kernels are computed for a band, and transformed a part at a time, which the cache holds.
        for _, band in Lines(b, 0, count, same, first.stays).cut(self.band):
            written = {
                k: root[: band.number] for k, root in zip(self.shared.roots, roots, strict=True)
            }
            for place, (k, lines) in enumerate(written.items()):
                rows, columns = first.rows[place], second.columns[place]
                band.write(self.kernels[k], rows, columns, lines, work)
            for at, part in band.cut(self.part):
                tiles = {k: lines[at] for k, lines in written.items()}
                for power in self.shared.powers:
                    tiles[power.k] = power.of(tiles[power.source])
                if part.main and not self.unbiased:
                    for k, c in enumerate(self.centres):
                        sums.diagonal[k, first.places] = tiles[k][0] - c
                self._add_part(sums, part, tiles, (above, across))
        sums.rows[:, first.places] += above
        if not same:
            sums.rows[:, second.places] += across

    def _add_part(
        self,
        sums: PairSums,
        part: Lines,
        tiles: dict[int, Matrix],
        rows: tuple[Vector, Vector],
    ) -> None:
        """Add some lines, of all kernels; sums of rows to those of either piece."""
        padded = np.empty((part.number, part.number + part.size), self.dtype)
        lines, weights = padded[:, padded.shape[1] - part.size :], part.weights
        transformed: dict[tuple[int, ...], Spectrum] = {}
        for side in self.sides:
            if len(side) > 1:
                np.copyto(lines, tiles[side[0]])
                hadamard([lines, *(tiles[k] for k in side[1:])])
            else:
                np.subtract(tiles[side[0]], lines.dtype.type(self.centres[side[0]]), out=lines)
            if self.unbiased and part.main:
                # U-statistics leave out the pair of a row with itself, under every shift line 0.
                lines[0] = 0.0
            transformed[side] = scipy.fft.rfft(lines, self.length)
            if len(side) == 1:
                (k,) = side
                sums.squares[k] += np.vecdot(lines, lines) @ weights
                part.add_sums(padded, *(sums_of[k] for sums_of in rows))
        # sum_i A_i B_{i + k} for all k at once: a product with a conjugate for each frequency.
        # In new arrays, since the left kernel of one statistic may be the right one of another.
        lefts = {left: np.conj(transformed[left]) for left in {left for left, _ in self.statistics}}
        weights = weights.astype(np.result_type(self.dtype, np.complex64))
        products = sums.products.reshape(-1, self.frequencies)
        for c, (left, right) in enumerate(self.statistics):
            products[c] += weights @ (lefts[left] * transformed[right,])

    def hold(self, values: tuple[Matrix, ...]) -> tuple[PairSums, list[Matrix]]:
        """Sums, and the Gram matrices less c of rows in the order of their groups."""
        rows = RowPiece(np.arange(self.groups.n), *self.shared.rows_and_columns(values, self.dtype))
        sums, grams = self.zeros(), self.shared.tiles(rows.rows, rows.columns, self.dtype)
        self.add_tile(sums, rows, rows, grams)
        return sums, grams


def held_lines(groups: RowGroups) -> tuple[Indices, Indices, Vector]:
    """All lines of a symmetric matrix of groups of b rows, and of rows that stay.

    They are diagonals of every pair of groups, and rows that stay with every group.

    Returns
    -------
    rows, columns : ndarray of int, shapes (D, b)
        The entries of the lines.
    weights : ndarray, shape (D,)
        How often each line is to be counted.
    """
    b, count = groups.size, groups.count
    g, h, d = np.indices((count, count, b)).reshape(3, -1, 1)
    # Half of the diagonals of a group with itself, and all of two different ones.
    taken = ((g < h) | ((g == h) & (d <= b // 2)))[:, 0]
    g, h, d = g[taken], h[taken], d[taken]
    weights = np.where((g == h) & ((d == 0) | (2 * d == b)), 1.0, 2.0)[:, 0]
    stay, met = np.indices((groups.n_left, count)).reshape(2, -1, 1)
    i = np.arange(b)
    return (
        np.concatenate([b * g + i, np.broadcast_to(b * count + stay, (len(stay), b))]),
        np.concatenate([b * h + (i + d) % b, b * met + i]),
        np.append(weights, np.full(len(stay), 2.0)),
    )


def add_held(
    reduction: GramPass, sums: PairSums, grams: Sequence[Matrix], orders: Mapping[int, Indices]
) -> None:
    """Add the cross-spectra of matrices in memory, whose lines the orders of cosets take elsewhere.

    With few rows, shifts of one order are few, and there are many orders, the cosets. Kernels are
    computed once then: all of the default takes 4 ms in place of 27 for 50 rows, and 10 in place
    of 20 for 200.
    """
    groups, length = reduction.groups, reduction.length
    n, (rows, columns, weights) = groups.n, held_lines(groups)
    if groups.n_left:
        stay = np.s_[n - groups.n_left :, n - groups.n_left :]
        reduction.add_still(sums, reduction.joint_sums([gram[stay] for gram in grams]))
    # Places as an index are five times as quick as rows and columns.
    places = n * rows + columns
    own = {
        left: np.conj(scipy.fft.rfft(grams[left].ravel()[places], length))
        for left in dict.fromkeys(left for left, _ in reduction.chosen)
    }
    meeting: dict[int, list[int]] = {}
    for c, (_, right) in enumerate(reduction.chosen):
        meeting.setdefault(right, []).append(c)
    # Cosets, and lines of each of them, that are gathered at a time.
    most = max(1, _GATHERED_BYTES // (length * reduction.dtype.itemsize))
    step, part = max(1, most // len(weights)), min(len(weights), most)
    weights = weights.astype(next(iter(own.values())).dtype)
    for m, every in orders.items():
        for r, d in itertools.product(range(0, len(every), step), range(0, len(weights), part)):
            some, at, on = every[r : r + step], slice(r, r + step), slice(d, d + part)
            places = n * some[:, rows[on]] + some[:, columns[on]]
            for right in (k for k in meeting if reduction.variables[k] == m):
                moved = scipy.fft.rfft(grams[right].ravel()[places], length)
                for c in meeting[right]:
                    left = own[reduction.chosen[c][0]][on]
                    sums.products[at, c] += weights[on] @ (left * moved)


@dataclass(frozen=True)
class PermutedGrams:
    """Sums of products of Gram matrices, those of all variables but the first permuted.

    Every permuted matrix is gathered once a replicate, or is the power of one that is.

    Parameters
    ----------
    reduction : GramPass
        The kernels, and which are multiplied, the first of variable 0.
    grams : list of ndarray, shapes (b, c)
        One a kernel.
    rows : tuple of int, optional
        What of all rows these are.
    columns : tuple of int, optional
        The same of the columns, or None where these are the rows. The matrices are symmetric then,
        and their entries off the diagonal are taken once and count twice.
    """

    reduction: GramPass
    grams: list[Matrix]
    rows: Span = ()
    columns: Span | None = None

    def __call__(self, replicates: range) -> Vector:
        """The sums under some permutations, shape (r, C)."""
        cosets = self.reduction.drawn[replicates.start : replicates.stop]
        batches = (cosets[at : at + BATCH] for at in range(0, len(cosets), BATCH))
        return np.concatenate([self._drawn(batch) for batch in batches])

    def _drawn(self, cosets: range) -> Vector:
        """The same of few enough cosets to hold their permutations."""
        orbit, variables = self.reduction.orbit, {m for m in self.reduction.variables if m}
        rows, columns = (
            {m: orbit.places(cosets, m, *span) for m in variables}
            for span in (self.rows, self.rows if self.columns is None else self.columns)
        )
        sums = np.zeros((len(cosets), len(self.reduction.chosen)))
        height, width = self.grams[0].shape
        step = _strip_rows(width)
        for start in range(0, height, step):
            at, on = slice(start, start + step), slice(start if self.columns is None else 0, None)
            strips = [
                np.ascontiguousarray(gram[at, on]) if m == 0 else np.empty_like(gram[at, on])
                for gram, m in zip(self.grams, self.reduction.variables, strict=True)
            ]
            if self.columns is None:
                # Both matrices are symmetric and permuted alike: half of the entries, twice.
                for k in {one[0] for one in self.reduction.chosen}:
                    strips[k] = 2 * np.triu(strips[k])
                    np.einsum("ii->i", strips[k][:, : len(strips[k])])[:] /= 2
            for r, total in enumerate(sums):
                self._move(strips, {m: (rows[m][r, at], columns[m][r, on]) for m in variables})
                for c, (first, *others) in enumerate(self.reduction.chosen):
                    # The product of few entries, in the precision of the matrices.
                    total[c] += np.vdot(strips[first], _product_of(strips, others))
        return sums

    def _move(self, strips: list[Matrix], orders: dict[int, tuple[Indices, Indices]]) -> None:
        """Gather rows and columns of the permuted matrices."""
        followers = {power.k for power in self.reduction.shared.powers}
        for k, m in enumerate(self.reduction.variables):
            if m and k not in followers:
                row, column = orders[m]
                # With "clip" it writes into the array at once; all orders are within bounds.
                by_row = np.take(self.grams[k], row, axis=0, mode="clip")
                np.take(by_row, column, axis=1, out=strips[k], mode="clip")
        # A power of what was moved is the power moved, and squaring takes less than gathering.
        for power in self.reduction.shared.powers:
            if self.reduction.variables[power.k]:
                power.of(strips[power.source], strips[power.k])


@dataclass(frozen=True)
class RowsPass(PermutedPass[tuple[Matrix, ...]]):
    """A pass that reads all rows at once, where their Gram matrices are held or they are sorted.

    Parameters
    ----------
    orbit : Orbit
        The permutations.
    cosets : range
        Which of its cosets.
    dims : tuple of int
        Columns of every variable.
    """

    keeps: ClassVar[bool] = False

    orbit: Orbit
    cosets: range
    dims: tuple[int, ...]
    name: str = "read all rows"
    one_block: bool = True

    @property
    def rows_bytes(self) -> int:
        """Bytes of all rows."""
        return 8 * self.groups.n * sum(self.dims)

    def footprint(self, rows: int) -> Footprint:
        """Cost of the only block."""
        return Footprint(0, 0, self.rows_bytes)

    def chunk(self, block: GroupBlock) -> tuple[Matrix, ...]:
        """The rows of every variable, in the order of the groups and then those that stay."""
        return block.values


@dataclass(frozen=True)
class GramStatistic(Statistic[Any]):
    """n times a multiple of HSIC, of the Gram matrices of every combination of kernels.

    Parameters
    ----------
    combinations : Combinations
        With the fitted kernels.
    samples : tuple of ndarray, shapes (s, d_m)
        Rows of every variable, drawn independently; of none for plans.
    dims : tuple of int
        Columns of the variables.
    dtype : dtype
        Precision of the tiles.
    unbiased : bool
        U-statistics of two variables.
    limit : callable or None
        What a law under independence takes of matrices that are held, in a random order of the
        rows, and of their row means.
    factor : callable
        The multiple of every combination, from its sums, which permutations leave as they are.
    tell : callable
        What is to be kept of what is found of the data.
    """

    combinations: Combinations
    samples: tuple[Vector, ...]
    dims: tuple[int, ...]
    dtype: np.dtype[Any]
    unbiased: bool
    limit: Callable[[list[Matrix], Vector], Any] | None
    factor: Callable[[GramSums], Vector | float]
    tell: Callable[[GramFound], Any]

    identity_rows: ClassVar[int] = _FEWEST_IN_GROUP
    errors_of_roots: ClassVar[bool] = False

    def __len__(self) -> int:
        return len(self.combinations)

    @property
    def joint(self) -> bool:
        """Whether they are statistics of more than two variables."""
        return len(self.combinations.chosen[0]) > 2

    def most(self, orbit: Orbit) -> tuple[int, int]:
        """Statistics and cosets that share a pass: eigenvalues are those of one."""
        together = _TOGETHER if self.combinations.features else len(self)
        several = not orbit.shifted or self._holds(orbit)
        return 1 if self.limit else together, orbit.cosets if several else _COSETS

    def part(self, numbers: Sequence[int]) -> Self:
        """Some of the statistics."""
        return replace(self, combinations=self.combinations.part(numbers))

    @cached_property
    def centres(self) -> Vector:
        """The mean of every kernel over pairs of a few rows, shape (K,)."""
        shared, pilots = self.combinations.shared, [sample[:_PILOTS] for sample in self.samples]
        if not pilots:
            return np.zeros(len(shared.kernels))
        own = shared.tiles(*shared.rows_and_columns(pilots, np.float64), np.float64)
        # Of different rows, since k(x, x) is no typical value of a narrow kernel.
        pairs = max(math.perm(len(pilots[0]), 2), 1)
        return np.array([(gram.sum() - gram.trace()) / pairs for gram in own])

    def orbit(self, session: Session, null: Resampling | None) -> Orbit:
        """The permutations of a null; without one the identity."""
        if self.limit:
            return Orbit(whole_group(session), 1, shifted=False)
        if null is None:
            return super().orbit(session, None)
        if isinstance(null, Permutation):
            # All rows are permuted where half the memory holds what that takes for one combination,
            # of which as many are taken at a time as fit, and the orders of a batch of
            # permutations.
            held = self.dtype.itemsize * session.n**2 * len(self.combinations.chosen[0])
            held += 8 * session.n * BATCH * (len(self.dims) - 1)
            return orbit_of(session, null, lambda _: held <= session.runtime.memory // 2)
        # More shifts than rows of a small group are of several cosets. They are more than were
        # asked for where fewer would take longer.
        asked = replace(null, n_resamples=max(null.n_resamples, min(session.n, _FEWEST_IN_GROUP)))
        return session.once(("orbit", asked), lambda: orbit_of(session, asked))

    def over(self, orbit: Orbit, cosets: range) -> GramPass | RowsPass:
        """The pass over all pairs of rows, or over rows whose pairs are held."""
        if self._holds(orbit):
            return RowsPass(orbit, cosets, self.dims)
        return self._pairs(orbit, cosets)

    def _pairs(self, orbit: Orbit, cosets: range) -> GramPass:
        """What is done with pairs of rows."""
        some = self.combinations
        chosen, moved = some.chosen, {(k, 0): k for k in range(len(some.kernels))}
        if orbit.shifted and cosets.stop > 1 and not self._holds(orbit):
            # Kernels of rows that cosets move: those of all variables but the first.
            moved = {}
            chosen = tuple(
                tuple(moved.setdefault((k, at and r), len(moved)) for at, k in enumerate(one))
                for r in range(cosets.start > 0, len(cosets) + (cosets.start > 0))
                for one in some.chosen
            )
        # Without shifts only means of the first of two variables are taken off, so that narrower
        # kernels of the other stay powers of wider ones. Joint independence asks for the matrices
        # as they are, of which float32 would lose the digits.
        pairs = GramPass(
            orbit,
            cosets,
            tuple(some.kernels[k] for k, _ in moved),
            tuple(some.variables[k] + len(self.dims) * r for k, r in moved),
            chosen,
            tuple(
                0.0 if self.joint or (some.variables[k] and not orbit.shifted) else self.centres[k]
                for k, _ in moved
            ),
            self.dims,
            np.dtype(np.float64) if self.joint and orbit.shifted else self.dtype,
            self.unbiased,
        )
        if chosen is some.chosen:  # found once, as it takes long for many kernels
            pairs.__dict__["shared"] = some.shared
        return pairs

    def _pairs_of(self, reduction: GramPass | RowsPass) -> GramPass:
        """What is done with pairs of the rows that a pass reads."""
        if isinstance(reduction, GramPass):
            return reduction
        return self._pairs(reduction.orbit, reduction.cosets)

    def _holds(self, orbit: Orbit) -> bool:
        """Whether the matrices of all rows are held: all are permuted, or rows are few."""
        n, in_sets = orbit.groups.n, isinstance(orbit.groups, MovedGroups)
        if not orbit.shifted:
            return orbit.groups.count == 1 and (self.limit is not None or orbit.cosets > 1)
        # Rows of many columns take more memory than their matrices, and longer every time.
        most = max(_FEW_ROWS, sum(self.dims))
        few = in_sets or (orbit.cosets > 1 and orbit.groups.size == n <= most)
        held = len(self.combinations.kernels) * n**2 * self.dtype.itemsize
        return few and not self.joint and held <= _HELD

    def step(self, session: Session, reduction: GramPass | RowsPass) -> DriverStep:
        """The bytes of the statistics, and those of matrices that are held."""
        n, size = session.n, self.dtype.itemsize
        pairs = self._pairs_of(reduction)
        needed = pairs.state_bytes + 8 * len(self) * (3 * len(pairs.orbit) + _VECTORS * n)
        name = "statistics"
        if isinstance(reduction, RowsPass):
            matrices = len(pairs.kernels) + pairs.shared.work_tiles + 1
            needed += 4 * reduction.rows_bytes + size * n * (2 * pairs.width + matrices * n)
            if pairs.orbit.shifted:
                b, count = pairs.groups.size, pairs.groups.count
                d = count * (b // 2 + 1 + pairs.groups.n_left) + math.comb(count, 2) * b  # lines
                lefts = len({one[0] for one in pairs.chosen})
                needed += d * (2 * size * pairs.frequencies * lefts + 16 * b) + _GATHERED_MOST
                needed += 8 * n * (4 * count + 3 * len(pairs.cosets))
            else:
                name = "permutation null"
                needed += session.runtime.threads * pairs.permuting_bytes(n)
        if self.limit:
            name = "limit law"
            # Eigenvalues of products of many kernels take workspaces for each centred matrix.
            needed += 8 * n**2 * (8 if self.joint else 2)
        return DriverStep(name, needed)

    def values(self, session: Session, reduction: GramPass | RowsPass, sums: Any) -> Permuted:
        """Statistics under the permutations that were summed."""
        pairs, limit = self._pairs_of(reduction), None
        centres, orders = np.array(pairs.centres), dict[int, Indices]()
        if isinstance(reduction, RowsPass):
            sums, grams = pairs.hold(sums)
            if pairs.orbit.shifted:
                moved = {pairs.variables[right] for _, right in pairs.statistics}
                orders = {m: pairs.orbit.places(pairs.cosets, m) for m in moved}
                add_held(pairs, sums, grams, orders)
            elif pairs.cosets.start == 0:
                sums.products[0, :, 0] = pairs.joint_sums(grams)
            if pairs.drawn and not pairs.orbit.shifted:
                sampled = PermutedGrams(pairs, grams)
                parts = session.map(pairs.name, sampled, len(pairs.drawn))
                sums.products[-len(pairs.drawn) :, :, 0] = np.concatenate(parts)
            if self.limit:
                limit = self.limit(grams, sums.rows / session.n)
        products = _products(pairs, sums.products)
        joint = products[0, :, 0].copy()
        chosen = pairs.chosen[: pairs.count]
        found = GramSums(sums.rows, sums.diagonal, sums.squares, joint, chosen)
        factor = self.factor(found)
        permuted = _statistics(pairs, sums.rows / session.n, products, orders)
        if not np.isscalar(factor) or factor != 1.0:
            permuted *= factor
        told = self.tell(GramFound(found, centres, limit))
        return Permuted(permuted, factor * _rounding(pairs, found, centres), told)


def _products(pairs: GramPass, products: NDArray[Any]) -> Vector:
    """sum_ij A_ij B_s(i)s(j) under all shifts of the cosets, shape (R, C, b)."""
    if not pairs.orbit.shifted:
        return products
    b, length = pairs.groups.size, pairs.length
    values: Vector = scipy.fft.irfft(products, length, axis=2)
    # Lines were padded: what was shifted beyond their end goes around.
    return values if length == b else values[..., :b] + values[..., length - b :]


def _statistics(
    pairs: GramPass, rows: Vector, products: Vector, orders: Mapping[int, Indices]
) -> Vector:
    """Statistics from row means and sums of products, and orders that are known, shape (R b, C).

    With alpha and beta the row means of A and B, and a and b their means, it is

        sum_ij A_ij B_s(i)s(j) / n - 2 sum_i alpha_i beta_s(i) + n a b,

    and the same for a product A of several kernels, whose row means are multiplied (Kalinke and
    Szabo 2023, equation 5). For the U-statistic, of row sums and totals over 1 / n each, n - 3
    stands for the first n, and the others are n - 2 and (n - 1)(n - 2) (Song et al. 2012).
    """
    n, chosen = pairs.groups.n, np.array(pairs.chosen)
    # Divisors of the U-statistic: Song et al. (2012); Zhang et al. (2018), (6).
    first, second, third = (n - 3, n - 2, n - 1) if pairs.unbiased else (n, n, n)
    constants = n**4 / (second * third) * rows.mean(axis=1)[chosen].prod(axis=1)[:, None]
    if pairs.moves:
        products = products.reshape(1, len(chosen), -1)
    values = np.empty_like(products)
    # Many cosets of few rows at a time, to save calls.
    step = max(1, _VALUES // (len(chosen) * n))
    for r in range(0, len(products), step):
        known = {m: some[r : r + step] for m, some in orders.items()}
        meetings = _meetings(pairs, pairs.cosets[r : r + step], rows, known)
        values[r : r + step] = products[r : r + step] - 2.0 * n**2 / second * meetings + constants
    values /= first
    by_coset = values.reshape(len(pairs.cosets), pairs.count, -1)
    return by_coset.swapaxes(1, 2).reshape(-1, pairs.count)


def _meetings(
    pairs: GramPass, cosets: range, rows: Vector, orders: Mapping[int, Indices]
) -> Vector:
    """Sums of the products of row means under all shifts of some cosets, shape (R, C, b)."""
    b, count = pairs.groups.size, pairs.groups.count
    places = cache(partial(pairs.orbit.places, cosets))

    def moved(k: int) -> Vector:
        m = pairs.variables[k]
        # Rows that cosets move are in their order, but for those that are held.
        stay = m == 0 or pairs.moves or cosets == range(1)
        in_order: Vector = rows[k][None]
        if not stay:
            in_order = rows[k][orders[m] if m in orders else places(m)]
        return in_order

    rights = np.stack([moved(right) for _, right in pairs.statistics], axis=1)
    lefts = rows[[left for left, *_ in pairs.chosen]][None]
    if pairs.joint:
        lefts = np.stack([math.prod(map(moved, left)) for left, _ in pairs.statistics], axis=1)
    if not pairs.orbit.shifted:
        alone: Vector = np.vecdot(lefts, rights)[..., None]
        return alone
    inside = (x[..., : count * b].reshape(*x.shape[:-1], count, b) for x in (lefts, rights))
    first, second = (scipy.fft.rfft(x, axis=-1) for x in inside)
    # Correlations are added over the groups before the one transform back.
    spectra = (np.conj(first) * second).sum(axis=2)
    staying = np.vecdot(lefts[..., count * b :], rights[..., count * b :])
    values: Vector = scipy.fft.irfft(spectra, b, axis=2) + staying[..., None]
    return values


def _rounding(pairs: GramPass, sums: GramSums, centres: Vector) -> Vector:
    """How far apart equal statistics may come out, shape (C,).

    Transforms, or sums, and tiles leave relative errors in A and B, which matter to their inner
    product as much as their norms at most; so do those of kernels between equal rows, which are
    relative to the kernels themselves, but independent: they matter to sums over n^2 pairs as
    one in n of that.
    """
    n, tile = sums.n, tile_error(pairs.dtype)
    unit = transform_error(pairs.dtype, pairs.groups.size) + tile
    norms, chosen = np.sqrt(sums.squares), np.array(sums.chosen)
    errors: Vector = sums.rounding(pairs.dtype)
    if pairs.joint:
        if pairs.orbit.shifted:
            # No entry of a positive definite matrix is larger than all of its diagonal.
            largest = np.abs(sums.diagonal).max(axis=1)[chosen[:, 1:-1]].prod(axis=1)
            errors += _SAFETY * unit * norms[chosen[:, 0]] * largest * norms[chosen[:, -1]] / n
        return errors
    # |A|_F of matrices as they are: sum_ij (C_ij + c)^2 = |C|^2 + 2 c sum_ij C_ij + n^2 c^2.
    plain = sums.squares + 2.0 * centres * sums.rows.sum(axis=1) + (n * centres) ** 2
    (a, b), (k, h) = norms[chosen.T], np.sqrt(np.maximum(plain, 0.0))[chosen.T]
    errors = unit * a * b + 2.0 * tile * (k * b + a * h) / n
    errors *= _SAFETY / n
    return errors


def _product_of(grams: Sequence[Matrix], side: Sequence[int]) -> Matrix:
    """The product of the matrices of a side; of one itself."""
    first, *others = (grams[k] for k in side)
    return hadamard([first.copy(), *others]) if others else first


def _strip_rows(columns: int) -> int:
    """Rows of a strip of so many columns."""
    return max(8, _GATHERED // columns)


class GramSums(NamedTuple):
    """Sums of the Gram matrices of K kernels and n rows, and of C products of some of them."""

    rows: Vector
    """sum_j K_k,ij, shape (K, n)."""
    diagonal: Vector
    """K_k,ii, shape (K, n)."""
    squares: Vector
    """sum_ij K_k,ij^2, shape (K,)."""
    joint: Vector
    """sum_ij prod_m K_m,ij, shape (C,)."""
    chosen: tuple[tuple[int, ...], ...]
    """Numbers of the M kernels of every product."""

    @property
    def n(self) -> int:
        """Rows."""
        return len(self.rows[0])

    def only(self, c: int) -> GramSums:
        """Those of one of the products."""
        at = list(self.chosen[c])
        every = (tuple(range(len(at))),)
        sums = self.rows[at], self.diagonal[at], self.squares[at]
        return GramSums(*sums, self.joint[c : c + 1], every)

    def without_diagonal(self) -> GramSums:
        """The same of matrices whose diagonal is zero, as in U-statistics."""
        products = self.diagonal[np.array(self.chosen)].prod(axis=1).sum(axis=1)
        return self._replace(
            rows=self.rows - self.diagonal,
            diagonal=np.zeros_like(self.diagonal),
            squares=self.squares - (self.diagonal**2).sum(axis=1),
            joint=self.joint - products,
        )

    def hsic(self, *, unbiased: bool) -> Vector:
        """Squared HSIC of every product, shape (C,).

        The U-statistic is for M = 2 (Song et al. 2012; Zhang et al. 2018, equation 6); else it is
        the V-statistic for M >= 2 (Kalinke and Szabo 2023, equation 5).
        """
        chosen, n = np.array(self.chosen), self.n
        if unbiased:
            # Song et al. (2012); Zhang et al. (2018), equation 6: diagonals are 0, and the divisors
            # count the quadruples of different rows.
            sums = self.without_diagonal()
            left, right = sums.rows[chosen.T]
            totals = left.sum(axis=1) * right.sum(axis=1) / ((n - 1) * (n - 2))
            meeting = 2.0 * np.vecdot(left, right) / (n - 2)
            products: Vector = (sums.joint + totals - meeting) / (n * (n - 3))
            return products
        means = self.rows / n
        # Kalinke and Szabo (2023), equation 5: a mean of products, a product of means, and the
        # cross term; row means are all that the last two need, so that no Gram matrix stays in
        # memory.
        cross = hadamard(list(means[chosen.T])).mean(axis=1)
        product = means.mean(axis=1)[chosen].prod(axis=1)
        sizes: Vector = self.joint / n**2 + product - 2.0 * cross
        return sizes

    def own(self, *, unbiased: bool) -> Vector:
        """Squared HSIC of every variable of every product with itself, shape (C, M)."""
        # Squares take the place of products.
        every = tuple((k, k) for k in range(len(self.squares)))
        norms = self._replace(joint=self.squares, chosen=every).hsic(unbiased=unbiased)
        each: Vector = norms[np.array(self.chosen)]
        return each

    def rounding(self, dtype: np.dtype[Any]) -> Vector:
        """The error that the terms of n times HSIC leave where they cancel, shape (C,)."""
        scales = np.abs(self.rows / self.n).mean(axis=1)[np.array(self.chosen)]
        errors: Vector = _UNCENTRED * rounding_unit(dtype) * self.n * scales.prod(axis=1)
        return errors


def check_rows(n: int, *, unbiased: bool) -> None:
    """Refuse fewer rows than the unbiased estimate is defined for.

    Raises
    ------
    DataError
        There are fewer.
    """
    if unbiased and n < _FEWEST_UNBIASED:
        msg = (
            f"an unbiased estimate needs at least {_FEWEST_UNBIASED} rows, got {n}: add rows, or "
            "take a V-statistic, as 'v-hsic' or unbiased=False"
        )
        raise DataError(msg)


def _centred_products(grams: Sequence[Matrix], means: Vector) -> Matrix:
    """H_ij = <xi_i, xi_j>, the Gram matrix of the centred products; overwrites the Gram matrices.

    With the row means a_i of a centred variable, its mean c and its centred Gram matrix A, a
    variable is k_ij = c + a_i + a_j + A_ij, and xi_i keeps the terms in which two variables or
    more are centred. Multiplying variable by variable, F_pq sums the terms with p centred on the
    side of i and q on that of j, 2 for two or more; H is F_22.
    """

    def terms(gram: Matrix, means: Vector) -> Terms:
        c = float(means.mean())
        # a_i is the mean of row i less the mean of all.
        apart = (means - c).astype(gram.dtype)
        return {
            (0, 0): c,
            (1, 0): apart[:, None],
            (0, 1): apart,
            (1, 1): centre(gram, means),
        }

    *first, last = map(terms, grams, means)
    h: Matrix = _times_variable(reduce(_times_variable, first), last, {(2, 2)})[2, 2]
    return h


def _times_variable(f: Terms, by: Terms, wanted: Container[tuple[int, int]] | None = None) -> Terms:
    """The sums F multiplied by one more variable; all of them, or those that are wanted."""
    sums: Terms = {}
    for ((p, q), value), ((power, other), factor) in itertools.product(f.items(), by.items()):
        key = min(p + power, 2), min(q + other, 2)
        if wanted is None or key in wanted:
            sums[key] = sums.get(key, 0.0) + value * factor
    return sums


def limit_mixture(grams: Sequence[Matrix], means: Vector) -> ChiSquareMixture:
    """The limit of n V-HSIC under independence; overwrites Gram matrices of row means (K, n).

    For M = 2 the weights are the products of the eigenvalues of either centred Gram matrix
    (Zhang et al. 2018, section 2.4.2), for M > 2 the eigenvalues of that of the centred products.
    """
    n = len(grams[0])
    if len(grams) > 2:
        h = _centred_products(grams, means)
        # Eigenvalues of a Gram matrix over n are those of the covariance operator of the sample.
        return ChiSquareMixture.of(spectrum(h) / n)
    first, second = (spectrum(gram) / n for gram in map(centre, grams, means))
    return ChiSquareMixture.of_products(first, second)


def null_moments(sums: GramSums, *, unbiased: bool) -> tuple[float, float]:
    """Mean and variance of n times HSIC under joint independence.

    For M = 2 those over all permutations: of the V-statistic as `permutation_moments`, of the
    U-statistic 0 and 2 n / (n - 3) times the product of the unbiased HSIC of either variable with
    itself. For M > 2 those of Pfister et al. (2018), section 3.3, from e_0, e_1 and e_2, the means
    of k(x, x')^2, k(x, x') and k(x, x') k(x, x''), estimated without bias. The variance is that of
    the limit, without their factor n^2 [(n - 2M)!]^2 / (n! (n - 4M + 2)!) < 1, which leaves out
    what terms of lower order add: for M = 3 and n = 100 it is 0.85, where the variance without it
    is already 4 % to 25 % less than measured.

    Parameters
    ----------
    sums : GramSums
        Sums of one product of M variables, and n >= 4 rows.
    unbiased : bool
        The U-statistic, for M = 2.

    Returns
    -------
    mean, variance : float
    """
    n = sums.n
    if unbiased:
        # The U-statistic is unbiased, so its mean is 0; its variance is that over all permutations.
        return 0.0, 2.0 * n / (n - 3) * float(sums.own(unbiased=True).prod())
    if len(sums.rows) == 2:
        means = sums.rows / n
        # The diagonal of H K H, from the row sums of K.
        diagonal = sums.diagonal - 2.0 * means + means.mean(axis=1, keepdims=True)
        return permutation_moments(
            # tr(A) / n, |A|^2 / n^2 and sum_i A_ii^2 / n of the centred Gram matrix A of either
            # variable.
            n,
            traces=diagonal.mean(axis=1),
            squares=sums.own(unbiased=False)[0],
            fourths=(diagonal**2).mean(axis=1),
        )
    # Pfister et al. (2018): moments of the products need sums over different rows alone, which the
    # row sums give in one pass.
    off = sums.without_diagonal()
    totals, row_squares = off.rows.sum(axis=1), (off.rows**2).sum(axis=1)
    # The mean of k(x, x')^2 over pairs of different rows.
    e0 = off.squares / math.perm(n, 2)
    e1 = totals / math.perm(n, 2)
    # sum_i (sum_j k_ij)^2 has pairs of a pair with itself, which are taken off.
    e2 = (row_squares - off.squares) / math.perm(n, 3)
    # All pairs of pairs, less those that share one row or two.
    e1_squared = (totals**2 - 4 * row_squares + 2 * off.squares) / math.perm(n, 4)
    # E |xi|^2, of kernels of the mean k(x, x) on their diagonal.
    mean = float(expanded(sums.diagonal.mean(axis=1) - e1, e1)[0])
    # Under independence the limit sum_k lambda_k (N_k^2 - 1) has the variance 2 sum_k lambda_k^2.
    variance = 2.0 * _expected_square(e0, e1_squared, e2)
    return mean, variance if variance > _NO_SPREAD * mean**2 else 0.0


def _expected_square(e0: Vector, e1_squared: Vector, e2: Vector) -> float:
    """E <xi, xi'>^2 for independent variables."""
    m = len(e0)
    pairs = sum(
        e2[j] * e2[k] * np.prod(np.delete(e1_squared, [j, k]))
        for j, k in itertools.permutations(range(m), 2)
    )
    # <xi, xi'> is a sum of M + 2 terms; these are the expectations of their products in pairs.
    return float(
        e0.prod()
        + (m - 1) ** 2 * e1_squared.prod()
        + 2 * (m - 1) * e2.prod()
        + e0 @ products_of_others(e1_squared)
        - 2 * e0 @ products_of_others(e2)
        - 2 * (m - 1) * e2 @ products_of_others(e1_squared)
        + pairs
    )


def products_of_others(values: Vector) -> Vector:
    """prod_{l != m} of all M entries along the first axis, without a division."""
    return np.array([np.delete(values, m, axis=0).prod(axis=0) for m in range(len(values))])


def permutation_moments(
    n: int, traces: Vector, squares: Vector, fourths: Vector
) -> tuple[float, float]:
    """Mean and variance of n |C|^2 over all permutations of one variable.

    Kazi-Aoual et al. (1995, Computational Statistics and Data Analysis 20), of the trace of
    A B / n, A and B the centred n x n Gram matrices of the features.

    Parameters
    ----------
    n : int
        Rows, at least 4.
    traces : ndarray, shape (2,)
        tr C_m, C_m the covariance with 1/n of the features of a variable.
    squares : ndarray, shape (2,)
        |C_m|^2.
    fourths : ndarray, shape (2,)
        Mean of |phi_m - mu_m|^4 over the rows.

    Returns
    -------
    mean, variance : float
    """
    # Kazi-Aoual et al. take A and B as they are; arguments are theirs over powers of n.
    trace, square, diagonal = n * traces, n**2 * squares, n * fourths
    # Over all permutations E tr(A P B P') = tr(A) tr(B) / (n - 1) for centred A and B.
    mean = trace.prod() / (n * (n - 1))
    spread = (n - 1) * square - trace**2
    excess = n * (n + 1) * diagonal - (n - 1) * (trace**2 + 2 * square)
    variance = 2 * spread.prod() + (n - 1) * excess.prod() / (n * (n - 3))
    return float(mean), float(variance / ((n + 1) * (n - 1) ** 2 * (n - 2) * n**2))


class GramTiles(NamedTuple):
    """The kernels of all variables between some rows and some landmarks."""

    at: slice
    """The rows among those of the block."""
    prepared: list[Matrix]
    """The rows, as every kernel prepares them."""
    landmarks: slice
    """The landmarks."""
    tiles: list[Tile]
    """Values (b, c) of every kernel, the caller's to overwrite until the next ones."""


@dataclass(frozen=True)
class Tiling:
    """Gram tiles of one kernel a variable between rows and p landmarks.

    Parameters
    ----------
    kernels : tuple of Kernel
        Fitted.
    columns : tuple of ndarray, shapes (p, w_m)
        The prepared landmarks of every kernel, in the precision of the tiles.
    """

    kernels: tuple[Kernel, ...]
    columns: tuple[Matrix, ...]

    @classmethod
    def prepare(
        cls, kernels: Sequence[Kernel], landmarks: Sequence[NDArray[Any]], dtype: DTypeLike
    ) -> Self:
        """Prepare landmarks (p, d_m) of every variable."""
        pairs = zip(kernels, landmarks, strict=True)
        return cls(tuple(kernels), tuple(kernel.columns(z, dtype) for kernel, z in pairs))

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the tiles."""
        return self.columns[0].dtype

    @property
    def n_landmarks(self) -> int:
        """Number of landmarks, p."""
        return len(self.columns[0])

    @property
    def nbytes(self) -> int:
        """Bytes of the prepared landmarks."""
        return sum(columns.nbytes for columns in self.columns)

    @property
    def tile_bytes(self) -> int:
        """Bytes of a tile."""
        return self.dtype.itemsize * ROW_TILE * min(COLUMN_TILE, self.n_landmarks)

    @property
    def scratch_bytes(self) -> int:
        """Bytes of the tiles of all kernels and their work, and of prepared rows."""
        # Rows are prepared for float64 at the most.
        rows = 3 * 8 * ROW_TILE * sum(columns.shape[1] for columns in self.columns)
        return int(self._tiles * self.tile_bytes + rows)

    def of(self, values: Sequence[NDArray[Any]]) -> Iterator[GramTiles]:
        """Tiles of the rows of a block with all landmarks, one after another."""
        p, m = self.n_landmarks, len(self.kernels)
        # Fresh pages for every tile would cost a tenth of the time where the allocator hands them
        # back to the system, as it is told to on Dask's workers.
        buffers = np.empty((self._tiles, ROW_TILE * min(COLUMN_TILE, p)), self.dtype)
        for start in range(0, len(values[0]), ROW_TILE):
            at = slice(start, min(start + ROW_TILE, len(values[0])))
            pairs = zip(self.kernels, values, strict=True)
            rows = [kernel.rows(x[at], self.dtype) for kernel, x in pairs]
            for first in range(0, p, COLUMN_TILE):
                landmarks = slice(first, min(first + COLUMN_TILE, p))
                shape = at.stop - start, landmarks.stop - first
                # Views of one memory: a tile that is allocated anew would leave the cache.
                views = buffers[:, : shape[0] * shape[1]].reshape(-1, *shape)
                tiles, work = list(views[:m]), views[m:]
                for kernel, x, z, out in zip(self.kernels, rows, self.columns, tiles, strict=True):
                    kernel.tile(x, z[landmarks], out, work)
                yield GramTiles(at, rows, landmarks, tiles)

    @property
    def _tiles(self) -> int:
        return len(self.kernels) + max(kernel.work_tiles for kernel in self.kernels)


def column_sums(tile: Matrix) -> Matrix:
    """Sum a tile over its rows by the blocked summation of the BLAS."""
    return np.ones(len(tile), tile.dtype) @ tile
