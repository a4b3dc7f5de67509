"""The Gram contraction: sums over all pairs of rows under all permutations of an orbit.

With A and B the Gram matrices of both sides of a statistic, HSIC under a permutation s asks for

    g_s = sum_ij A_ij B_s(i)s(j),

and for the row sums of A and B, which meet by the same permutations. For all shifts within groups
of rows g is a circular cross-correlation along every circulant diagonal of the tiles of two groups:
the transforms of the diagonals of either side are multiplied and added up, and what comes of it is
transformed back once in the end. Without shifts the tiles are gathered and multiplied.

The n x n matrices are never held but where rows are few, or where all of them are permuted: lines
of a band of diagonals are computed, transformed and forgotten. HSIC of two variables is the same
for A_ij and A_ij - a_i - a_j whatever a is, since both are centred by their row sums: from means
over a few rows a is such that no digits cancel.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import scipy
from numpy.lib.stride_tricks import as_strided, sliding_window_view
from numpy.typing import NDArray

from dhsic.engine.plan import DriverStep
from dhsic.engine.reduction import Footprint, GroupBlock, RowGroups
from dhsic.engine.session import Session
from dhsic.engine.tiles import Matrix, column_sums
from dhsic.kernels import Combinations, Kernel
from dhsic.kernels.shared import Power, SharedTiles
from dhsic.linalg import hadamard
from dhsic.nulls import ChiSquareMixture, Permutation, Resampling
from dhsic.statistics.gram_sums import Centring, GramSums, limit_mixture
from dhsic.statistics.orbit import (
    Orbit,
    Pair,
    PermutedPass,
    orbit_of,
    tile_error,
    transform_error,
    whole_group,
)
from dhsic.statistics.replicate import Permuted, Statistic
from dhsic.statistics.sets import MovedGroups

Vector = NDArray[np.float64]
Indices = NDArray[np.intp]
Spectrum = NDArray[np.complexfloating[Any, Any]]
Side = tuple[int, ...]
"""Numbers of kernels whose product a Gram matrix is."""

PILOTS = 32
"""Rows whose mean is taken off: the squares of what is left grow by 1 in 16."""

_BATCH = 64  # permutations that are drawn and held at a time
_PILOT_ROWS = 1024  # whose kernels at the pilots are computed at a time
# In bands of 32 to 64 diagonals all shifts of 20,000 rows took 9.2 s and 170 MiB.
_BAND_BYTES = 2**25  # of the lines that are cut from tiles at a time: strips of few overlap
_MOST_LINES, _FEWEST_LINES = 512, 32
_STRIP = 64  # rows of the tiles that diagonals are cut from; those of a band are a few times longer
_CACHE_BYTES = 2**18  # of the transforms of one side of a part of them
_FEWEST_TRANSFORMS = 4
# Features against a target that share a pass: bands of thousands of kernels would be a few lines
# each, and a call as dear as its numbers.
_TOGETHER = 32
_SMALL_FACTORS = range(2, 60)  # of lengths that take less than padding to twice that
_FEWEST = 512  # rows of a group: tiles of fewer take longer for a row

_HELD = 2**25  # bytes of all Gram matrices; beyond, gathering takes longer than exponentials
_HELD_OF_SETS = 2**28  # the same of rows that move in sets, whose many small groups take long
_GATHERED_BYTES = 2**18  # of the lines that are gathered at a time
_GATHERED = 2**15  # entries of a strip whose rows are permuted: all kernels stay in the cache

_SAFETY = 4.0  # the bound on the error of a statistic is 4 eps log2(b) |A|_F |B|_F / n
_VALUES = 2**16  # entries of vectors of all rows, for every statistic and some cosets
_VECTORS = 8  # of all rows, for every statistic


@dataclass(frozen=True)
class RowOrders:
    """The orders that an orbit gives to the rows of some groups, and to rows that stay.

    Parameters
    ----------
    orbit : Orbit
        The permutations.
    first, count : int
        Which groups.
    n_left : int
        Rows that stay, after those of the groups.
    """

    orbit: Orbit
    first: int
    count: int
    n_left: int

    @classmethod
    def of_all(cls, orbit: Orbit) -> Self:
        """Those of all rows."""
        return cls(orbit, 0, orbit.groups.count, orbit.groups.n_left)

    def of(self, cosets: range, m: int) -> Indices:
        """The orders of a variable in some cosets, shape (R, rows); the first variable stays."""
        b, moving = self.orbit.groups.size, self.count * self.orbit.groups.size
        orders = np.tile(np.arange(moving + self.n_left), (len(cosets), 1))
        if m > 0 and self.count > 0:
            # A single group of all rows has its orders drawn once.
            moved = (
                self.orbit.whole_orders(m)[cosets.start : cosets.stop, None]
                if self.orbit.shifted and b == self.orbit.groups.n
                else self.orbit.orders_of(cosets, self.first, self.count, m)
            )
            moved = moved + b * np.arange(self.count)[:, None]
            orders[:, :moving] = moved.reshape(len(cosets), -1)
        return orders


class OrderedRows(NamedTuple):
    """Rows in the order of a coset, prepared for tiles."""

    rows: list[Matrix]
    """One array a kernel that is no power of another."""
    columns: list[Matrix]
    """The same as the other argument."""
    offsets: dict[int, Matrix]
    """a of the kernels that have one, where it is from pilots."""

    def part(self, at: slice) -> OrderedRows:
        """Some of them."""
        rows, columns = ([x[at] for x in arrays] for arrays in self[:2])
        return OrderedRows(rows, columns, {k: a[at] for k, a in self.offsets.items()})


class RowPiece(NamedTuple):
    """The rows of a group, or rows that stay."""

    places: Indices
    """Where they are among all rows in the order of their groups, those that stay last."""
    prepared: list[OrderedRows]
    """In the order of the data, and then in that of every other coset."""
    orders: RowOrders
    """Their permutations."""

    @property
    def stays(self) -> bool:
        """Whether they are in no group."""
        return self.orders.count == 0


class PairSums(NamedTuple):
    """Sums over pairs of rows for C statistics under R cosets, and for K kernels.

    Those are A_ij - a_i - a_j, of rows in the order of their groups and then those that stay.
    """

    products: NDArray[Any]
    """Cross-spectra of all lines, shape (R, C, F); without shifts the sums, F = 1."""
    constants: Vector
    """Sums over pairs of rows that stay where they are, shape (C,)."""
    rows: Vector
    """Sums of the rows, shape (K, n)."""
    offsets: Vector
    """a, shape (K, n)."""
    diagonal: Vector
    """A_ii - 2 a_i, shape (K, n)."""
    squares: Vector
    """Sums of the squared entries, shape (K,)."""

    @property
    def means(self) -> Vector:
        """Row means of the Gram matrices as they are, shape (K, n)."""
        # With A_ij = C_ij + a_i + a_j the mean over j is that of C, and a_i, and the mean of a.
        total = self.offsets.mean(axis=1, keepdims=True)
        return self.offsets + total + self.rows / self.rows.shape[1]


class GramFound(NamedTuple):
    """What all pairs of rows say of the data as they are."""

    sums: GramSums
    """Those of the kernels, and of every combination."""
    pairs: PairSums
    """The same with their offsets."""
    limit: ChiSquareMixture | None
    """The limit of n V-HSIC under independence, where it was asked for."""


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

    def of_rows(self, first: Matrix, second: Matrix) -> tuple[Matrix, Matrix]:
        """Values of the rows of either piece, as they stand on the lines."""
        shape = self.number, self.size
        if self.stays:
            stay = first[self.start : self.stop, None]
            return np.broadcast_to(stay, shape), np.broadcast_to(second, shape)
        wrapped = second[np.arange(self.start, self.stop + self.size) % self.size]
        return np.broadcast_to(first, shape), sliding_window_view(wrapped, self.size)[: self.number]

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

    Parameters
    ----------
    combinations : Combinations
        With the fitted kernels: joint independence of each, of which cosets permute all variables
        but the first, or dependence of two.
    pilots : tuple of ndarray, shapes (p, d_m)
        Rows of every variable, drawn independently of the others'.
    dtype : dtype
        Precision of the tiles.
    unbiased : bool
        Diagonals count as zero.
    orbit : Orbit
        The permutations.
    cosets : range
        Which of its cosets.
    """

    pairs: ClassVar[bool] = True

    combinations: Combinations
    pilots: tuple[Vector, ...]
    dtype: np.dtype[Any]
    unbiased: bool
    orbit: Orbit
    cosets: range

    @property
    def name(self) -> str:
        """Name of the pass."""
        return super().name if len(self.orbit) > 1 else "Gram sums"

    @property
    def one_block(self) -> bool:
        """Whether one task takes all rows."""
        return self.groups.count == 1

    @cached_property
    def statistics(self) -> tuple[Pair, ...]:
        """The sides of all C statistics."""
        return tuple(map(Pair.of, self.combinations.chosen))

    @cached_property
    def shared(self) -> SharedTiles:
        """How the tiles of the kernels come from each other."""
        return SharedTiles(self.combinations.kernels, self.combinations.variables)

    @property
    def joint(self) -> bool:
        """Whether left sides are products, which cosets permute as well."""
        return len(self.statistics[0].left) > 1

    @cached_property
    def sides(self) -> tuple[Side, ...]:
        """Kernels that are summed in the order of the data, and products that are transformed."""
        products = [left for left, _ in self.statistics if self.joint and self.orbit.shifted]
        return tuple(dict.fromkeys([*((k,) for k in range(self.n_kernels)), *products]))

    @cached_property
    def moved(self) -> tuple[Side, ...]:
        """Sides that cosets permute."""
        products = (left for left, _ in self.statistics if self.joint)
        return tuple(dict.fromkeys([*((right,) for _, right in self.statistics), *products]))

    @property
    def n_kernels(self) -> int:
        """K."""
        return len(self.combinations.kernels)

    @cached_property
    def orders(self) -> tuple[int, ...]:
        """The order of the data and the cosets in whose orders kernels are computed."""
        others = [r for r in self.cosets if r] if self.orbit.shifted else []
        return 0, *others

    @cached_property
    def needed(self) -> tuple[frozenset[int], frozenset[int]]:
        """Kernels in the order of the data and of another coset, and those they are powers of."""
        every = range(self.n_kernels)
        moved = self.shared.sources(k for side in self.moved for k in side)
        return frozenset(every), moved

    def roots(self, coset: int) -> list[tuple[int, int]]:
        """Kernels of a coset that are no powers, each with its place among all such kernels."""
        needed = self.needed[min(coset, 1)]
        return [(place, k) for place, k in enumerate(self.shared.roots) if k in needed]

    @cached_property
    def centred(self) -> tuple[int, ...]:
        """Kernels whose means are taken off: of two variables, without shifts of the first.

        Narrower kernels of the other stay powers of wider ones so. Statistics of joint independence
        need the means of every kernel as they are.
        """
        variables = self.combinations.variables
        every = range(0 if self.joint else self.n_kernels)
        return tuple(k for k in every if self.orbit.shifted or variables[k] == 0)

    @cached_property
    def length(self) -> int:
        """Length of transforms: b where that is quick, else twice b and more, padded by zeros."""
        b = left = self.groups.size
        for factor in _SMALL_FACTORS:
            while left % factor == 0:
                left //= factor
        # Lengths with large prime factors are slow. A padded line leaves the shifts beyond its end
        # apart, which are added in the end.
        return b if left == 1 else int(scipy.fft.next_fast_len(2 * b, real=True))

    @property
    def frequencies(self) -> int:
        """Frequencies of the transforms, F."""
        return self.length // 2 + 1 if self.orbit.shifted else 1

    @cached_property
    def n_roots(self) -> int:
        """Kernels that are no powers, of every order."""
        return len(self.roots(0)) + (len(self.orders) - 1) * len(self.roots(1))

    @cached_property
    def band(self) -> int:
        """Lines that are cut from tiles at a time, of all kernels and orders."""
        lines = _BAND_BYTES // (self.n_roots * self.groups.size * self.dtype.itemsize)
        return min(self.groups.size, max(_FEWEST_LINES, min(lines, _MOST_LINES)))

    @cached_property
    def part(self) -> int:
        """Lines that are transformed at a time."""
        lines = _CACHE_BYTES // (self.length * self.dtype.itemsize)
        return min(self.band, max(_FEWEST_TRANSFORMS, lines))

    def zeros(self) -> PairSums:
        """Nothing summed yet."""
        k, c, n = self.n_kernels, len(self.statistics), self.groups.n
        kind = complex if self.orbit.shifted else float
        products = np.zeros((len(self.cosets), c, self.frequencies), kind)
        return PairSums(products, np.zeros(c), *np.zeros((3, k, n)), np.zeros(k))

    @property
    def state_bytes(self) -> int:
        """Bytes of the sums."""
        k, c, n = self.n_kernels, len(self.statistics), self.groups.n
        size = 16 if self.orbit.shifted else 8
        return size * len(self.cosets) * c * self.frequencies + 8 * (c + k * (3 * n + 1))

    @cached_property
    def width(self) -> int:
        """Columns of the prepared arrays of all kernels."""
        kernels, variables = self.combinations.kernels, self.combinations.variables
        dims = [x.shape[1] for x in self.pilots]
        return sum(kernels[k].width(dims[variables[k]]) for k in self.shared.roots)

    def footprint(self, rows: int) -> Footprint:
        """Cost of a pair of blocks of so many rows."""
        b, size, k = self.groups.size, self.dtype.itemsize, self.n_kernels
        dims, orders = sum(x.shape[1] for x in self.pilots), len(self.orders)
        scratch = 2 * size * orders * rows * (2 * self.width + k) + 8 * rows * (
            4 * dims + self.width
        )
        tiles = k + self.shared.work_tiles + 1
        scratch += 8 * tiles * min(rows, _PILOT_ROWS) * len(self.pilots[0])
        if self.orbit.shifted:
            buffers = (math.prod(shape) * kind.itemsize for shape, kind in self.buffers)
            wrapped = 2 * (b + self.band) * (self.width + k * orders)
            scratch += size * wrapped + 16 * k * b + sum(buffers)
        else:
            scratch += size * tiles * b**2 + self.permuting_bytes(b)
        payload = sum(pilots.nbytes for pilots in self.pilots)
        return Footprint(payload, scratch, self.state_bytes)

    def permuting_bytes(self, rows: int) -> int:
        """Bytes that a task takes to permute two pieces of so many rows."""
        count = min(_BATCH, len(self.orbit) - 1)
        moved = len(self.moved) + self.n_kernels + 2
        orders = 4 * 8 * (len(self.pilots) - 1) * rows
        return count and count * orders + self.dtype.itemsize * moved * _strip_rows(rows) * rows

    def chunk(self, left: GroupBlock, right: GroupBlock) -> PairSums:
        """Sums over one pair of blocks and its transpose."""
        sums, first = self.zeros(), self.pieces(left)
        bands = _Bands(self, sums) if self.orbit.shifted else None
        every = (
            itertools.combinations_with_replacement(first, 2)
            if left.first == right.first
            else itertools.product(first, self.pieces(right))
        )
        for piece, other in every:
            if bands is not None and not (piece.stays and other.stays):
                bands.add(*((other, piece) if other.stays else (piece, other)))
                continue
            grams = self.add_tile(sums, piece, other)
            # A pair of different groups stands for its mirror image, too.
            weight = 1.0 if piece is other else 2.0
            if bands is not None:
                # Rows in no group stay where they are: their pairs add the same to all replicates.
                sums.constants[:] += weight * self.joint_sums(grams)
                continue
            if self.cosets.start == 0:
                sums.products[0, :, 0] += weight * self.joint_sums(grams)
            if len(self.orders_drawn):
                permuted = self.permuted(grams, piece, other)(range(len(self.orders_drawn)))
                sums.products[-len(permuted) :, :, 0] += weight * permuted
        return sums

    @property
    def orders_drawn(self) -> range:
        """The cosets but for that of the data."""
        return range(max(self.cosets.start, 1), self.cosets.stop)

    def pieces(self, block: GroupBlock) -> list[RowPiece]:
        """The rows of every group, and those that stay."""
        b, count, n_left = self.groups.size, block.n_groups, block.n_left
        prepared = [self._prepared(block, coset) for coset in self.orders]
        left = np.arange(self.groups.n_left)
        left = left[self.groups.left_of(block.first, block.first + count)] if n_left else left[:0]
        places = np.append(block.first * b + np.arange(count * b), self.groups.count * b + left)
        ends = [*range(0, count * b + 1, b), block.rows]
        return [
            RowPiece(
                places[start:stop],
                [order.part(slice(start, stop)) for order in prepared],
                RowOrders(self.orbit, block.first + g, int(g < count), 0 if g < count else n_left),
            )
            for g, (start, stop) in enumerate(itertools.pairwise(ends))
            if start < stop
        ]

    def _prepared(self, block: GroupBlock, coset: int) -> OrderedRows:
        orders = RowOrders(self.orbit, block.first, block.n_groups, block.n_left)
        values, needed = block.values, self.needed[min(coset, 1)]
        if coset:
            every = range(coset, coset + 1)
            values = tuple(x[orders.of(every, m)[0]] for m, x in enumerate(values))
        rows, columns = self.shared.rows_and_columns(values, self.dtype, needed)
        return OrderedRows(rows, columns, self._offsets(rows, needed))

    def _offsets(self, rows: Sequence[Matrix], needed: frozenset[int]) -> dict[int, Matrix]:
        """Offsets a of prepared rows: means over pilots, less half of that over pairs of them."""
        some = [k for k in self.centred if k in needed]
        if not some:
            return {}
        at_pilots, columns = self.shared.rows_and_columns(self.pilots, self.dtype, needed)
        own, pairs = self._tiles(at_pilots, columns, needed), math.perm(len(self.pilots[0]), 2)
        offsets = {k: np.empty(len(rows[0]), self.dtype) for k in some}
        for start in range(0, len(rows[0]), _PILOT_ROWS):
            at = slice(start, start + _PILOT_ROWS)
            tiles = self._tiles([x[at] for x in rows], columns, needed)
            for k, a in offsets.items():
                # Of different pilots, since k(x, x) is no typical value of a narrow kernel.
                centre = (own[k].sum(dtype=np.float64) - own[k].trace()) / max(pairs, 1)
                a[at] = tiles[k].mean(axis=1, dtype=np.float64) - 0.5 * centre
        return offsets

    def _tiles(
        self, rows: Sequence[Matrix], columns: Sequence[Matrix], needed: frozenset[int]
    ) -> list[Matrix]:
        """Kernels between prepared rows and columns, of those that are needed."""
        shape = len(rows[0]), len(columns[0])
        tiles = list(np.empty((self.n_kernels, *shape), self.dtype))
        work = np.empty((self.shared.work_tiles, *shape), self.dtype)
        self.shared.tiles(rows, columns, tiles, work, needed)
        return tiles

    def add_tile(self, sums: PairSums, first: RowPiece, second: RowPiece) -> list[Matrix]:
        """Add what the matrices of two pieces as they are sum to, and return these."""
        (rows, _, above), (_, columns, across) = first.prepared[0], second.prepared[0]
        grams = self._tiles(rows, columns, self.needed[0])
        # A tile of two pieces stands for its transpose, too.
        same, weight = first is second, 1.0 if first is second else 2.0
        for k, gram in enumerate(grams):
            if k in self.centred:
                if not above:  # all rows are here, so that a may be from their own means
                    means = gram.mean(axis=1, dtype=np.float64)
                    offsets = (means - 0.5 * means.mean()).astype(self.dtype)
                else:
                    offsets = above[k]
                gram -= offsets[:, None]
                gram -= across.get(k, offsets)
                if same:
                    sums.offsets[k, first.places] = offsets
            # A U-statistic leaves out the pair of a row with itself.
            if self.unbiased and same:
                np.fill_diagonal(gram, 0.0)
            # In double precision, since HSIC is a difference of such sums.
            sums.rows[k, first.places] += gram.sum(axis=1, dtype=np.float64)
            if same:
                sums.diagonal[k, first.places] = gram.diagonal()
            else:
                sums.rows[k, second.places] += column_sums(gram)
            sums.squares[k] += weight * float(np.vdot(gram, gram))
        return grams

    def joint_sums(self, grams: Sequence[Matrix]) -> Vector:
        """sum_ij A_ij B_ij of all statistics, shape (C,)."""
        joint = []
        for left, right in self.statistics:
            # In float64, and without an array for the product.
            product = _product_of(grams, left)
            joint.append(np.einsum("ij,ij->", product, grams[right], dtype=np.float64))
        return np.array(joint)

    def permuted(self, grams: Sequence[Matrix], first: RowPiece, second: RowPiece) -> PermutedGrams:
        """The sums of these matrices under permutations, to be taken."""
        columns = None if first is second else second.orders
        return PermutedGrams(
            self.combinations,
            self.shared.powers,
            tuple(grams),
            first.orders,
            columns,
            self.orders_drawn.start,
        )

    @property
    def buffers(self) -> list[tuple[tuple[int, ...], np.dtype[Any]]]:
        """Shapes of what a task writes again and again: fresh pages take as long as transforms.

        Lines of a band, of all kernels that are no powers, in every order; tiles that they are cut
        from; lines of a part, of all powers; lines of one side, behind a padding; transforms of
        every side in the order of the data, then in that of a coset; products of two.
        """
        b, part, f = self.groups.size, self.part, self.frequencies
        real, both = self.dtype, np.result_type(self.dtype, np.complex64)
        rows = min(_STRIP, b)
        tile = max(rows * (rows + self.band - 1), b)
        return [
            ((self.n_roots, self.band, b), real),
            ((1 + self.shared.work_tiles, tile), real),
            ((len(self.shared.powers), part, b), real),
            ((part, part + b), real),
            ((len(self.sides) + len(self.moved), part, f), both),
            ((2, part, f), both),
        ]

    def hold(self, values: tuple[Matrix, ...]) -> tuple[PairSums, RowPiece, list[Matrix]]:
        """The Gram matrices of all rows in the order of their groups, and what they sum to."""
        rows, columns = self.shared.rows_and_columns(values, self.dtype)
        prepared, orders = [OrderedRows(rows, columns, {})], RowOrders.of_all(self.orbit)
        piece, sums = RowPiece(np.arange(self.groups.n), prepared, orders), self.zeros()
        return sums, piece, self.add_tile(sums, piece, piece)


class _Bands:
    """The sums of a task over the lines of pieces of rows, a band of them at a time."""

    def __init__(self, reduction: GramPass, sums: PairSums) -> None:
        self._pass, self._sums = reduction, sums
        arrays = (np.empty(shape, kind) for shape, kind in reduction.buffers)
        self._roots, self._work, self._powers, self._lines, self._spectra, self._products = arrays

    def add(self, first: RowPiece, second: RowPiece) -> None:
        """Add the pairs of rows of two groups, of one, or of rows that stay and a group."""
        b, same = self._pass.groups.size, first is second
        count = len(first.places) if first.stays else b // 2 + 1 if same else b
        lines = Lines(b, 0, count, same, first.stays)
        # In the tile of a group with itself both sums are of the same rows.
        above = np.zeros((self._pass.n_kernels, len(first.places)))
        sums = above, above if same else np.zeros((len(above), len(second.places)))
        orders = list(zip(first.prepared, second.prepared, strict=True))
        offsets = [
            {k: lines.of_rows(a, other.offsets[k]) for k, a in one.offsets.items()}
            for one, other in orders
        ]
        if same:
            for k, a in first.prepared[0].offsets.items():
                self._sums.offsets[k, first.places] = a
        # Kernels are computed for a band, and transformed a part at a time, which the cache holds.
        for _, band in lines.cut(self._pass.band):
            roots = self._kernels(band, orders)
            for at, part in band.cut(self._pass.part):
                still: dict[Side, Spectrum] = {}
                for coset, tiles, about in zip(self._pass.orders, roots, offsets, strict=True):
                    some = {k: tile[at] for k, tile in tiles.items()}
                    spectra = self._transformed(part, some, about, sums, coset, first.places)
                    # Coset 0 comes first: its transforms are those of the sides that stay.
                    still = still or spectra
                    if coset in self._pass.cosets:
                        self._meet(still, spectra, part.weights, coset - self._pass.cosets.start)
        self._sums.rows[:, first.places] += sums[0]
        if not same:
            self._sums.rows[:, second.places] += sums[1]

    def _kernels(
        self, band: Lines, orders: Sequence[tuple[OrderedRows, OrderedRows]]
    ) -> list[dict[int, Matrix]]:
        """Lines of the kernels that are no powers, in every order."""
        buffers, roots = iter(self._roots), []
        for coset, (one, other) in zip(self._pass.orders, orders, strict=True):
            tiles = {}
            for place, k in self._pass.roots(coset):
                tiles[k], kernel = next(buffers)[: band.number], self._pass.shared.kernels[k]
                band.write(kernel, one.rows[place], other.columns[place], tiles[k], self._work)
            roots.append(tiles)
        return roots

    def _transformed(
        self,
        part: Lines,
        tiles: dict[int, Matrix],
        offsets: dict[int, tuple[Matrix, Matrix]],
        sums: tuple[Vector, Vector],
        coset: int,
        places: Indices,
    ) -> dict[Side, Spectrum]:
        """Transforms of all sides that an order needs; sums of those in the order of the data."""
        needed, at = self._pass.needed[min(coset, 1)], slice(part.start, part.stop)
        for power, out in zip(self._pass.shared.powers, self._powers, strict=True):
            if power.k in needed:
                tiles[power.k] = power.of(tiles[power.source], out[: part.number])
        padded, weights, spectra = self._lines[: part.number], part.weights, {}
        lines = padded[:, padded.shape[1] - part.size :]
        for place, side in enumerate(self._pass.moved if coset else self._pass.sides):
            if len(side) > 1:
                np.multiply(tiles[side[0]], tiles[side[1]], out=lines)
                for k in side[2:]:
                    np.multiply(lines, tiles[k], out=lines)
            elif side[0] in offsets:
                above, across = offsets[side[0]]
                np.subtract(tiles[side[0]], above[at], out=lines)
                np.subtract(lines, across[at], out=lines)
            else:
                np.copyto(lines, tiles[side[0]])
            if self._pass.unbiased and part.main:
                # U-statistics leave out the pair of a row with itself, under every shift line 0.
                lines[0] = 0.0
            if not coset and len(side) == 1:
                (k,) = side
                if part.main:
                    self._sums.diagonal[k, places] = lines[0]
                self._sums.squares[k] += np.vecdot(lines, lines) @ weights
                part.add_sums(padded, sums[0][k], sums[1][k])
            # Transforms in the order of the data stay, since every coset meets them.
            begin = len(self._pass.sides) if coset else 0
            out = self._spectra[begin + place, : part.number]
            spectra[side] = _transform(lines, self._pass.length, out=out)
        return spectra

    def _meet(
        self,
        still: dict[Side, Spectrum],
        moved: dict[Side, Spectrum],
        weights: Vector,
        place: int,
    ) -> None:
        """Add the cross-spectra of all statistics in a coset."""
        conjugate, product = self._products[:, : len(weights)]
        weights, held = weights.astype(product.dtype), None
        # For joint independence a coset permutes the product of the left variables as well.
        lefts = moved if self._pass.joint else still
        for c, (left, right) in enumerate(self._pass.statistics):
            # sum_i A_i B_{i + k} for all k at once: a product with a conjugate for each frequency.
            if right != held:
                np.conj(moved[right,], out=conjugate)
                held = right
            np.multiply(lefts[left], conjugate, out=product)
            self._sums.products[place, c] += weights @ product


class HeldLines(NamedTuple):
    """All lines of a symmetric matrix of groups of b rows, and of rows that stay."""

    rows: Indices
    """Rows of the entries of D lines, shape (D, b)."""
    columns: Indices
    """Columns, shape (D, b)."""
    weights: Vector
    """How often each line is to be counted, shape (D,)."""

    @classmethod
    def of(cls, groups: RowGroups) -> Self:
        """Diagonals of every pair of groups, and rows that stay with every group."""
        b, count = groups.size, groups.count
        g, h, d = np.indices((count, count, b)).reshape(3, -1, 1)
        # Half of the diagonals of a group with itself, and all of two different ones.
        taken = ((g < h) | ((g == h) & (d <= b // 2)))[:, 0]
        g, h, d = g[taken], h[taken], d[taken]
        weights = np.where((g == h) & ((d == 0) | (2 * d == b)), 1.0, 2.0)[:, 0]
        stay, met = np.indices((groups.n_left, count)).reshape(2, -1, 1)
        i = np.arange(b)
        return cls(
            np.concatenate([b * g + i, np.broadcast_to(b * count + stay, (len(stay), b))]),
            np.concatenate([b * h + (i + d) % b, b * met + i]),
            np.append(weights, np.full(len(stay), 2.0)),
        )

    @staticmethod
    def count_of(groups: RowGroups) -> int:
        """How many they are."""
        b, count = groups.size, groups.count
        return count * (b // 2 + 1 + groups.n_left) + math.comb(count, 2) * b


def _gathered_at_once(reduction: GramPass) -> tuple[int, int]:
    """Cosets, and lines of each of them, that are gathered at a time."""
    every = HeldLines.count_of(reduction.groups)
    lines = max(1, _GATHERED_BYTES // (reduction.length * reduction.dtype.itemsize))
    return min(len(reduction.cosets), max(1, lines // every)), min(every, lines)


def add_held(reduction: GramPass, sums: PairSums, grams: Sequence[Matrix]) -> None:
    """Add the cross-spectra of matrices in memory, whose lines every coset takes elsewhere.

    With few rows, shifts of one order are few, and there are many orders, the cosets. Kernels are
    computed once then: all of the default takes 4 ms in place of 27 for 50 rows, and 10 in place
    of 20 for 200.
    """
    groups, cosets = reduction.groups, reduction.cosets
    n, lines = groups.n, HeldLines.of(groups)
    if groups.n_left:
        # Pairs of rows outside of the groups add the same under every permutation.
        stay = np.s_[n - groups.n_left :, n - groups.n_left :]
        sums.constants[:] = reduction.joint_sums([gram[stay] for gram in grams])
    own = {
        k: _transform(grams[k][lines.rows, lines.columns], reduction.length)
        for k in dict.fromkeys(left for (left,), _ in reduction.statistics)
    }
    by_variable: dict[int, dict[int, list[int]]] = {}
    for c, (_, right) in enumerate(reduction.statistics):
        m = reduction.combinations.variables[right]
        by_variable.setdefault(m, {}).setdefault(right, []).append(c)
    step, part = _gathered_at_once(reduction)
    weights = lines.weights.astype(next(iter(own.values())).dtype)
    for m, by_right in by_variable.items():
        orders = RowOrders.of_all(reduction.orbit).of(cosets, m)
        for r, d in itertools.product(range(0, len(orders), step), range(0, len(weights), part)):
            some, at, on = orders[r : r + step], slice(r, r + step), slice(d, d + part)
            places = n * some[:, lines.rows[on]] + some[:, lines.columns[on]]
            for right, numbers in by_right.items():
                # Places as an index are five times as quick as in `take`.
                moved = _transform(grams[right].ravel()[places], reduction.length)
                np.conj(moved, out=moved)
                for c in numbers:
                    (left,), _ = reduction.statistics[c]
                    sums.products[at, c] += weights[on] @ (own[left][on] * moved)


@dataclass(frozen=True)
class PermutedGrams:
    """Sums of products of Gram matrices, those of all variables but the first permuted.

    Every permuted matrix is gathered once a replicate, or is the power of one that is.

    Parameters
    ----------
    combinations : Combinations
        Which matrices are multiplied.
    powers : tuple of Power
        Which of them are powers of others.
    grams : tuple of ndarray, shapes (b, c)
        One a kernel.
    rows : RowOrders
        The permutations of the rows.
    columns : RowOrders or None
        Those of the columns, or None where these are the rows. The matrices are symmetric then, and
        their entries off the diagonal are taken once and count twice.
    start : int
        The coset of replicate 0.
    """

    combinations: Combinations
    powers: tuple[Power, ...]
    grams: tuple[Matrix, ...]
    rows: RowOrders
    columns: RowOrders | None = None
    start: int = 1

    def __call__(self, replicates: range) -> Vector:
        """The sums under some permutations, shape (r, C)."""
        first, stop = (self.start + number for number in (replicates.start, replicates.stop))
        batches = (range(at, min(at + _BATCH, stop)) for at in range(first, stop, _BATCH))
        return np.concatenate([self._drawn(cosets) for cosets in batches])

    def _drawn(self, cosets: range) -> Vector:
        """The same of few enough cosets to hold their permutations."""
        variables = {m for m in self.combinations.variables if m}
        rows = {m: self.rows.of(cosets, m) for m in variables}
        columns = (
            rows if self.columns is None else {m: self.columns.of(cosets, m) for m in variables}
        )
        sums = np.zeros((len(cosets), len(self.combinations)))
        height, width = self.grams[0].shape
        step = _strip_rows(width)
        for start in range(0, height, step):
            at, on = slice(start, start + step), slice(start if self.columns is None else 0, None)
            strips = [
                np.ascontiguousarray(gram[at, on]) if m == 0 else np.empty_like(gram[at, on])
                for gram, m in zip(self.grams, self.combinations.variables, strict=True)
            ]
            if self.columns is None:
                # Both matrices are symmetric and permuted alike: half of the entries, twice.
                for k in {one[0] for one in self.combinations.chosen}:
                    strips[k] = 2 * np.triu(strips[k])
                    np.einsum("ii->i", strips[k][:, : len(strips[k])])[:] /= 2
            for r, total in enumerate(sums):
                self._move(strips, {m: (rows[m][r, at], columns[m][r, on]) for m in variables})
                for c, (first, *others) in enumerate(self.combinations.chosen):
                    # The product of few entries, in the precision of the matrices.
                    total[c] += np.vdot(strips[first], _product_of(strips, others))
        return sums

    def _move(self, strips: list[Matrix], orders: dict[int, tuple[Indices, Indices]]) -> None:
        """Gather rows and columns of the permuted matrices."""
        followers = {power.k for power in self.powers}
        for k, m in enumerate(self.combinations.variables):
            if m and k not in followers:
                row, column = orders[m]
                # With "clip" it writes into the array at once; all orders are within bounds.
                by_row = np.take(self.grams[k], row, axis=0, mode="clip")
                np.take(by_row, column, axis=1, out=strips[k], mode="clip")
        # A power of what was moved is the power moved, and squaring takes less than gathering.
        for power in self.powers:
            if self.combinations.variables[power.k]:
                power.write(strips)


class RowsSum(NamedTuple):
    """All rows."""

    values: tuple[Matrix, ...]
    """One array a variable, in the order of the groups and then those that stay."""


@dataclass(frozen=True)
class RowsPass(PermutedPass[RowsSum]):
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

    orbit: Orbit
    cosets: range
    dims: tuple[int, ...]

    @property
    def name(self) -> str:
        """Name of the pass."""
        return super().name if self.orbit.shifted else "read all rows"

    @property
    def one_block(self) -> bool:
        """One task takes all rows."""
        return True

    @property
    def rows_bytes(self) -> int:
        """Bytes of all rows."""
        return 8 * self.groups.n * sum(self.dims)

    def footprint(self, rows: int) -> Footprint:
        """Cost of the only block."""
        return Footprint(0, 0, self.rows_bytes)

    def chunk(self, block: GroupBlock) -> RowsSum:
        """The rows."""
        return RowsSum(block.values)


def _found(found: GramFound) -> GramFound:
    return found


def _one(sums: GramSums) -> float:
    del sums
    return 1.0


@dataclass(frozen=True)
class GramStatistic(Statistic[Any]):
    """n times a multiple of HSIC, of the Gram matrices of every combination of kernels.

    Parameters
    ----------
    combinations : Combinations
        With the fitted kernels.
    pilots : tuple of ndarray, shapes (p, d_m)
        Rows of every variable, drawn independently of the others'.
    dtype : dtype
        Precision of the tiles.
    unbiased : bool, optional
        U-statistics of two variables.
    limit : bool, optional
        Whether the limit under independence is to be found, from matrices that are held.
    factor : callable, optional
        The multiple of every combination, from its sums, which permutations leave as they are.
    tell : callable, optional
        What is to be kept of what is found of the data.
    """

    combinations: Combinations
    pilots: tuple[Vector, ...]
    dtype: np.dtype[Any]
    unbiased: bool = False
    limit: bool = False
    factor: Callable[[GramSums], Vector | float] = _one
    tell: Callable[[GramFound], Any] = _found

    identity_rows: ClassVar[int] = _FEWEST

    def __len__(self) -> int:
        return len(self.combinations)

    @property
    def most(self) -> int:
        """Statistics that share a pass: eigenvalues are those of one."""
        if self.limit:
            return 1
        return _TOGETHER if self.combinations.features else len(self)

    def part(self, numbers: Sequence[int]) -> Self:
        """Some of the statistics."""
        return replace(self, combinations=self.combinations.part(numbers))

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
            held = (
                self.dtype.itemsize * session.n**2 * len(self.part(range(1)).combinations.kernels)
            )
            held += 8 * session.n * _BATCH * (len(session.sources) - 1)
            return orbit_of(session, null, lambda _: held <= session.runtime.memory // 2)
        # More shifts than rows of a small group are of several cosets. They are more than were
        # asked for where fewer would take longer.
        asked = replace(null, n_resamples=max(null.n_resamples, min(session.n, _FEWEST)))
        return session.once(("orbit", asked), lambda: orbit_of(session, asked))

    def over(self, orbit: Orbit, cosets: range) -> GramPass | RowsPass:
        """The pass that sums for the permutations of some cosets."""
        if self._holds(orbit):
            return RowsPass(orbit, cosets, tuple(x.shape[1] for x in self.pilots))
        return self._pairs(orbit, cosets)

    def _pairs(self, orbit: Orbit, cosets: range) -> GramPass:
        # Matrices of joint independence are not centred, so that float32 would lose their digits.
        joint = len(self.combinations.chosen[0]) > 2 and orbit.shifted
        dtype = np.dtype(np.float64) if joint else self.dtype
        return GramPass(self.combinations, self.pilots, dtype, self.unbiased, orbit, cosets)

    def _holds(self, orbit: Orbit) -> bool:
        """Whether the matrices of all rows are held: all are permuted, or rows are few."""
        n, in_sets = orbit.groups.n, isinstance(orbit.groups, MovedGroups)
        if not orbit.shifted:
            return orbit.groups.count == 1 and (self.limit or orbit.cosets > 1)
        few = in_sets or (orbit.cosets > 1 and orbit.groups.size == n)
        held = len(self.combinations.kernels) * n**2 * self.dtype.itemsize
        joint = len(self.combinations.chosen[0]) > 2
        return few and not joint and held <= (_HELD_OF_SETS if in_sets else _HELD)

    def step(self, session: Session, reduction: PermutedPass[Any]) -> DriverStep:
        """The bytes of the statistics, and those of matrices that are held."""
        c, n, size = len(self), session.n, self.dtype.itemsize
        pairs = self._pairs(reduction.orbit, reduction.cosets)
        needed = pairs.state_bytes + 8 * c * (3 * len(reduction.orbit) + _VECTORS * n)
        if not isinstance(reduction, RowsPass):
            return DriverStep("statistics", needed)
        needed += 4 * reduction.rows_bytes + 2 * size * n * pairs.width
        needed += size * n**2 * (pairs.n_kernels + pairs.shared.work_tiles + 1)
        if reduction.orbit.shifted:
            f, d = pairs.frequencies, HeldLines.count_of(pairs.groups)
            cosets, lines = _gathered_at_once(pairs)
            transforms = 2 * f * d * len({left for left, _ in pairs.statistics})
            gathered = cosets * lines * (3 * pairs.groups.size + 8 * f)
            places = 2 * d * pairs.groups.size + 4 * pairs.groups.count * n
            needed += size * transforms + 8 * (gathered + places + 3 * len(reduction.cosets) * n)
        else:
            needed += session.runtime.threads * pairs.permuting_bytes(n)
        if self.limit:
            # Eigenvalues of products of many kernels take workspaces for each centred matrix.
            needed += 8 * n**2 * (2 if len(session.sources) == 2 else 8)
        return DriverStep("eigenvalues" if self.limit else "statistics", needed)

    def values(self, session: Session, reduction: PermutedPass[Any], sums: Any) -> Permuted:
        """Statistics under the permutations that were summed."""
        limit = None
        if isinstance(reduction, RowsPass):
            session.step(self.step(session, reduction).name)
            reduction = self._pairs(reduction.orbit, reduction.cosets)
            sums, limit = self._of_rows(session, reduction, sums.values)
        assert isinstance(reduction, GramPass)
        products = _products(reduction, sums)
        observed = products[0, :, 0].copy()
        chosen = self.combinations.chosen
        found = GramSums(sums.rows, sums.diagonal, sums.squares, observed, chosen)
        factor = self.factor(found)
        permuted = _statistics(reduction, sums.rows / session.n, products)
        if not np.isscalar(factor) or factor != 1.0:
            permuted *= factor
        errors = factor * _rounding(reduction, sums, found)
        return Permuted(permuted, errors, self.tell(GramFound(found, sums, limit)))

    def tolerance(self, statistics: Vector, errors: Vector) -> Vector:
        """Errors are those of the statistics themselves."""
        del statistics
        return errors

    def _of_rows(
        self, session: Session, reduction: GramPass, values: tuple[Matrix, ...]
    ) -> tuple[PairSums, ChiSquareMixture | None]:
        """Hold the Gram matrices, and take their permutations by number, where tasks run."""
        sums, piece, grams = reduction.hold(values)
        if reduction.orbit.shifted:
            add_held(reduction, sums, grams)
            return sums, None
        if reduction.cosets.start == 0:
            sums.products[0, :, 0] = reduction.joint_sums(grams)
        count = len(reduction.orders_drawn)
        if count:
            permuted = reduction.permuted(grams, piece, piece)
            parts = session.map(reduction.name, permuted, count)
            sums.products[-count:, :, 0] = np.concatenate(parts)
        if not self.limit:
            return sums, None
        about = GramSums(sums.rows, sums.diagonal, sums.squares, np.zeros(1), ())
        return sums, limit_mixture(grams, Centring.of(about, unbiased=False))


def _products(reduction: GramPass, sums: PairSums) -> Vector:
    """sum_ij A_ij B_s(i)s(j) under all shifts of the cosets, shape (R, C, b)."""
    if not reduction.orbit.shifted:
        return sums.products
    b, length = reduction.groups.size, reduction.length
    # The sums hold A conj(B) a frequency; its conjugate is the transform of sum_i A_i B_(i + k).
    values = scipy.fft.irfft(np.conj(sums.products), length, axis=2)
    if length > b:  # lines were padded: what was shifted beyond their end goes around
        values = values[..., :b] + values[..., length - b :]
    products: Vector = values + sums.constants[:, None]
    return products


def _statistics(reduction: GramPass, rows: Vector, products: Vector) -> Vector:
    """Statistics from row means and sums of products, shape (R b, C).

    With alpha and beta the row means of A and B, and a and b their means, it is

        sum_ij A_ij B_s(i)s(j) / n - 2 sum_i alpha_i beta_s(i) + n a b,

    and the same for a product A of several kernels, whose row means are multiplied (Kalinke and
    Szabo 2023, equation 5). For the U-statistic, of row sums and totals over 1 / n each, n - 3
    stands for the first n, and the others are n - 2 and (n - 1)(n - 2) (Song et al. 2012).
    """
    cosets, n, chosen = reduction.cosets, reduction.groups.n, reduction.combinations.chosen
    # Divisors of the U-statistic: Song et al. (2012); Zhang et al. (2018), (6).
    first, second, third = (n - 3, n - 2, n - 1) if reduction.unbiased else (n, n, n)
    totals = rows.mean(axis=1)[np.array(chosen)].prod(axis=1)
    constants = n**4 / (second * third) * totals[:, None]
    # Many cosets of few rows at a time, to save calls.
    step = max(1, _VALUES // (len(chosen) * n))
    values = np.empty((*products.shape[:1], products.shape[2], len(chosen)))
    for r in range(0, len(cosets), step):
        meetings = _meetings(reduction, cosets[r : r + step], rows)
        some = (products[r : r + step] - 2.0 * n**2 / second * meetings + constants) / first
        values[r : r + step] = some.swapaxes(1, 2)
    return values.reshape(-1, len(chosen))


def _meetings(reduction: GramPass, cosets: range, rows: Vector) -> Vector:
    """Sums of the products of row means under all shifts of some cosets, shape (R, C, b)."""
    b, count = reduction.groups.size, reduction.groups.count
    variables, moved = reduction.combinations.variables, dict[int, Vector]()
    orders = {m: RowOrders.of_all(reduction.orbit).of(cosets, m) for m in set(variables) if m}
    for k in {k for side in reduction.moved for k in side}:
        m = variables[k]
        moved[k] = rows[k][orders[m]] if m else rows[k][None]
    rights = np.stack([moved[right] for _, right in reduction.statistics], axis=1)
    if reduction.joint:
        lefts = np.stack(
            [math.prod(moved[k] for k in left) for left, _ in reduction.statistics], axis=1
        )
    else:
        lefts = rows[[left for (left,), _ in reduction.statistics]][None]
    if not reduction.orbit.shifted:
        alone: Vector = np.vecdot(lefts, rights)[..., None]
        return alone
    inside = (x[..., : count * b].reshape(*x.shape[:-1], count, b) for x in (lefts, rights))
    first, second = (scipy.fft.rfft(x, axis=-1) for x in inside)
    # Correlations are added over the groups before the one transform back.
    spectra = (np.conj(first) * second).sum(axis=2)
    staying = np.vecdot(lefts[..., count * b :], rights[..., count * b :])
    values: Vector = scipy.fft.irfft(spectra, b, axis=2) + staying[..., None]
    return values


def _rounding(reduction: GramPass, sums: PairSums, found: GramSums) -> Vector:
    """How far apart equal statistics may come out, shape (C,).

    Transforms, or sums, and tiles leave relative errors in A and B, which matter to their inner
    product as much as their norms at most; so do those of kernels between equal rows, which are
    relative to the kernels themselves, but independent: they matter to sums over n^2 pairs as
    one in n of that.
    """
    n, tile = reduction.groups.n, tile_error(reduction.dtype)
    unit = transform_error(reduction.dtype, reduction.groups.size) + tile
    norms, chosen = np.sqrt(sums.squares), np.array(found.chosen)
    if reduction.joint:
        errors = found.rounding(reduction.dtype)
        if reduction.orbit.shifted:
            # No entry of a positive definite matrix is larger than all of its diagonal.
            largest = np.abs(sums.diagonal).max(axis=1)[chosen[:, 1:-1]].prod(axis=1)
            errors += _SAFETY * unit * norms[chosen[:, 0]] * largest * norms[chosen[:, -1]] / n
        return errors
    # |A|_F of matrices as they are: sum_ij (C_ij + a_i + a_j)^2
    # = |C|^2 + 4 sum_i a_i sum_j C_ij + 2 n |a|^2 + 2 (sum a)^2.
    off = sums.offsets
    plain = sums.squares + 4.0 * np.vecdot(sums.rows, off) + 2.0 * n * np.vecdot(off, off)
    plain = np.sqrt(np.maximum(plain + 2.0 * off.sum(axis=1) ** 2, 0.0))
    (a, b), (k, h) = norms[chosen.T], plain[chosen.T]
    errors = unit * a * b + 2.0 * tile * (k * b + a * h) / n
    return _SAFETY * errors / n


def rows_in_order(groups: RowGroups) -> Indices:
    """The rows of group after group, and then those that stay, shape (n,)."""
    arranged = groups.arrange(0, groups.count)
    return np.concatenate([np.arange(*span) for span in arranged.ranges])[arranged.places]


def _product_of(grams: Sequence[Matrix], side: Sequence[int]) -> Matrix:
    """The product of the matrices of a side; of one itself."""
    first, *others = (grams[k] for k in side)
    return hadamard([first.copy(), *others]) if others else first


def _strip_rows(columns: int) -> int:
    """Rows of a strip of so many columns."""
    return max(8, _GATHERED // columns)


def _transform(lines: Matrix, length: int, out: Any = None) -> Spectrum:
    """Transforms of lines: NumPy writes float64 into memory, and SciPy is quicker in float32."""
    if lines.dtype == np.float64:
        transforms: Spectrum = np.fft.rfft(lines, length, out=out)
        return transforms
    return np.asarray(scipy.fft.rfft(lines, length))
