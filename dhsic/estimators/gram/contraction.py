"""The Gram contraction: sums over all pairs of rows under all permutations of an orbit.

With A and B the Gram matrices of both sides of a statistic, HSIC under a permutation s asks for

    g_s = sum_ij A_ij B_s(i)s(j),

and for the row sums of A and B, which meet by the same permutations. For all shifts within groups
of rows g is a circular cross-correlation along every circulant diagonal of the tiles of two groups:
the transforms of the diagonals of either side are multiplied and added up, and what comes of it is
transformed back once in the end. Without shifts the tiles are gathered and multiplied.

The n x n matrices are never held but where rows are few: lines of a band of diagonals are computed,
transformed and forgotten. HSIC is the same for A_ij and A_ij - a_i - a_j whatever a is, since both
are centred by their row sums: from means over a few rows a is such that no digits cancel.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import scipy
from numpy.lib.stride_tricks import as_strided, sliding_window_view
from numpy.typing import NDArray

from dhsic.engine.groups import RowGroups
from dhsic.engine.moved_groups import MovedGroups
from dhsic.engine.reduction import Footprint, GroupBlock
from dhsic.engine.session import Session
from dhsic.engine.tiles import Matrix, column_sums
from dhsic.estimators.gram.sums import GramSums, rounding
from dhsic.estimators.resample import (
    Orbit,
    PermutedPass,
    Resampled,
    TwoSided,
    tile_error,
    transform_error,
)
from dhsic.kernels import Combinations, Kernel
from dhsic.kernels.shared import Power, SharedTiles
from dhsic.linalg import hadamard
from dhsic.nulls import ChiSquareMixture

Vector = NDArray[np.float64]
Indices = NDArray[np.intp]
Spectrum = NDArray[np.complexfloating[Any, Any]]
Side = tuple[int, ...]
"""Numbers of kernels whose product a Gram matrix is."""

BATCH = 64  # permutations that are drawn and held at a time

_PILOTS = 32  # rows whose mean is taken off: the squares of what is left grow by 1 in 16
_PILOT_ROWS = 1024  # whose kernels at the pilots are computed at a time
# In bands of 32 to 64 diagonals all shifts of 20,000 rows took 9.2 s and 170 MiB.
_BAND_BYTES = 2**25  # of the lines that are cut from tiles at a time: strips of few overlap
_MOST_LINES, _FEWEST_LINES = 512, 32
_STRIP = 64  # rows of the tiles that diagonals are cut from; those of a band are a few times longer
_CACHE_BYTES = 2**18  # of the transforms of one side of a part of them
_FEWEST_TRANSFORMS = 4
_FEWEST_TOGETHER = 16  # statistics whose kernels are computed at a time
_COMPUTED = 1.125  # times as many kernels as there are: no more may be computed twice
_SMALL_FACTORS = range(2, 60)  # of lengths that take less than padding to twice that

_HELD = 2**25  # bytes of all Gram matrices; beyond, gathering takes longer than exponentials
_HELD_OF_SETS = 2**28  # the same of rows that move in sets, whose many small groups take long
_GATHERED_BYTES = 2**18  # of the lines that are gathered at a time

_GATHERED = 2**15  # entries of a strip whose rows are permuted: all kernels stay in the cache
_CHUNK = 2**17  # products of a matrix product: of longer ones the BLAS is several times slower

_SAFETY = 4.0  # the bound on the error of a statistic is 4 eps log2(b) |A|_F |B|_F / n
_VALUES = 2**16  # entries of vectors of all rows, for every statistic and some cosets


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


class CosetRows(NamedTuple):
    """Rows in the order of a coset, prepared for tiles."""

    rows: list[Matrix]
    """One array a kernel that is no power of another."""
    columns: list[Matrix]
    """The same as the other argument."""
    offsets: dict[Side, Matrix]
    """a of the sides that have one."""

    def part(self, at: slice) -> CosetRows:
        """Some of them."""
        rows, columns = ([x[at] for x in arrays] for arrays in self[:2])
        return CosetRows(rows, columns, {side: a[at] for side, a in self.offsets.items()})


class RowPiece(NamedTuple):
    """The rows of a group, or rows that stay."""

    places: Indices
    """Where they are among all rows in the order of their groups, those that stay last."""
    prepared: list[CosetRows]
    """In the order of every coset."""
    orders: RowOrders
    """Their permutations."""

    @property
    def stays(self) -> bool:
        """Whether they are in no group."""
        return self.orders.count == 0


class PairSums(NamedTuple):
    """Sums over pairs of rows for C statistics under R cosets, and of Q Gram matrices.

    Those are A_ij - a_i - a_j, of rows in the order of their groups and then those that stay.
    """

    products: NDArray[Any]
    """Cross-spectra of all lines, shape (R, C, F); without shifts the sums, F = 1."""
    constants: Vector
    """Sums over pairs of rows that stay where they are, shape (C,)."""
    rows: Vector
    """Sums of the rows, shape (Q, n)."""
    offsets: Vector
    """a, shape (Q, n)."""
    diagonal: Vector
    """A_ii - 2 a_i, shape (Q, n)."""
    squares: Vector
    """Sums of the squared entries, shape (Q,)."""


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
        With the fitted kernels.
    statistics : tuple of TwoSided
        C of them.
    pilots : tuple of ndarray, shapes (p, d_m)
        Rows of every variable, drawn independently of the others'.
    orbit : Orbit
        The permutations.
    dtype : dtype
        Precision of the tiles.
    unbiased : bool
        Diagonals count as zero.
    """

    pairs: ClassVar[bool] = True

    combinations: Combinations
    statistics: tuple[TwoSided, ...]
    pilots: tuple[Vector, ...]
    orbit: Orbit
    dtype: np.dtype[Any]
    unbiased: bool

    @classmethod
    def of(
        cls,
        session: Session,
        combinations: Combinations,
        samples: Sequence[Vector],
        orbit: Orbit,
        *,
        unbiased: bool = False,
    ) -> Self:
        """For the joint independence of each combination, with pilots from samples (s, d_m)."""
        pilots = tuple(sample[:_PILOTS] for sample in samples)
        statistics = tuple(map(TwoSided.of, combinations.chosen))
        return cls(combinations, statistics, pilots, orbit, session.dtype, unbiased)

    @property
    def joint(self) -> bool:
        """Whether cosets permute the variables of the left sides as well, but for the first."""
        # Of two variables joint independence is that of two sides.
        return len(self.statistics[0].left) > 1

    @property
    def name(self) -> str:
        """Name of the pass."""
        moves = self.orbit.shifted or self.orbit.cosets > 1
        return super().name if moves else "Gram sums"

    @property
    def one_block(self) -> bool:
        """Whether one task takes all rows."""
        return self.groups.count == 1 or any(part.held for part in self.bunches)

    @cached_property
    def shared(self) -> SharedTiles:
        """How the tiles of the kernels come from each other."""
        return SharedTiles(self.combinations.kernels, self.combinations.variables)

    @cached_property
    def sides(self) -> tuple[Side, ...]:
        """The matrices of all statistics, and each kernel of a product by itself.

        Without shifts they are those of all kernels, which are gathered.
        """
        if not self.orbit.shifted:
            return tuple((k,) for k in range(len(self.combinations.kernels)))
        some = ((left, (right,), *((k,) for k in left)) for left, right in self.statistics)
        return tuple(dict.fromkeys(itertools.chain.from_iterable(some)))

    @cached_property
    def moved(self) -> tuple[Side, ...]:
        """Those that cosets permute."""
        products = (left for left, _ in self.statistics if self.joint and len(left) > 1)
        return tuple(dict.fromkeys([*((right,) for _, right in self.statistics), *products]))

    @cached_property
    def numbers(self) -> dict[tuple[int, Side], int]:
        """Numbers of the Gram matrices whose sums are kept, Q of them, by coset and side.

        A coset permutes the row sums of one kernel, but it makes another matrix of a product.
        """
        products = [side for side in self.moved if len(side) > 1 and self.orbit.shifted]
        moved = ((coset, side) for coset in range(1, self.orbit.cosets) for side in products)
        keys = itertools.chain(((0, side) for side in self.sides), moved)
        return {key: number for number, key in enumerate(keys)}

    @cached_property
    def needed(self) -> tuple[frozenset[int], frozenset[int]]:
        """Kernels in the order of the data and of another coset, and those they are powers of."""
        every = self.sides, self.moved
        first, other = (self.shared.sources(k for side in some for k in side) for some in every)
        return first, other

    def roots(self, coset: int) -> list[tuple[int, int]]:
        """Kernels of a coset that are no powers, each with its place among all such kernels."""
        needed = self.needed[min(coset, 1)]
        return [(place, k) for place, k in enumerate(self.shared.roots) if k in needed]

    @cached_property
    def bunches(self) -> tuple[GramPass, ...]:
        """All statistics, or so many at a time where few kernels are computed more often.

        Bands of thousands of kernels would be a few lines each, and a call as dear as its numbers.
        """
        by_right: dict[int, list[TwoSided]] = {}
        for pair in self.statistics:
            by_right.setdefault(pair.right, []).append(pair)
        # As many as have all lines of a group in one band, since every bunch computes those of the
        # kernels on the right anew.
        half = (self.groups.size // 2 + 1) * self.groups.size * self.dtype.itemsize
        most = max(_FEWEST_TOGETHER, _BAND_BYTES // half)
        cut = [x[at : at + most] for x in by_right.values() for at in range(0, len(x), most)]
        computed = sum(len(left) for left, _ in self.statistics) + len(cut)
        if len(cut) == 1 or computed > _COMPUTED * len(self.roots(0)):
            return (self,)
        parts = tuple(replace(self, statistics=tuple(some)) for some in cut)
        for part in parts:  # found once for all kernels, of which there may be thousands
            part.__dict__["shared"] = self.shared
        return parts

    def is_centred(self, side: Side) -> bool:
        """Whether means are taken off: without shifts those of the first of two variables.

        Narrower kernels of the other stay powers of wider ones so.
        """
        first = len(self.pilots) == 2 and self.combinations.variables[side[0]] == 0
        return self.orbit.shifted or first

    def _offsets(self, rows: Sequence[Matrix], coset: int) -> dict[Side, Matrix]:
        """Offsets a of prepared rows: means over pilots, less half of that over pairs of them."""
        pilots = self.shared.rows_and_columns(self.pilots, self.dtype, self.needed[min(coset, 1)])
        sides = [side for side in (self.moved if coset else self.sides) if self.is_centred(side)]
        if not sides:
            return {}
        own, pairs = self._tiles(*pilots, coset), max(math.perm(len(self.pilots[0]), 2), 1)
        offsets = {side: np.empty(len(rows[0]), self.dtype) for side in sides}
        # Of different pilots, since k(x, x) is no typical value of a narrow kernel.
        centres = {}
        for side in sides:
            centre = _product_of(own, side)
            centres[side] = float(centre.sum(dtype=np.float64) - centre.trace()) / pairs
        for start in range(0, len(rows[0]), _PILOT_ROWS):
            at = slice(start, start + _PILOT_ROWS)
            tiles = self._tiles([x[at] for x in rows], pilots[1], coset)
            for side in sides:
                means = _product_of(tiles, side).mean(axis=1, dtype=np.float64)
                offsets[side][at] = means - 0.5 * centres[side]
        return offsets

    @cached_property
    def length(self) -> int:
        """Length of transforms: b where that is quick, else twice b and more, padded by zeros."""
        b = left = self.groups.size
        for factor in _SMALL_FACTORS:
            while left % factor == 0:
                left //= factor
        # Lengths with large prime factors are slow. A padded line leaves the shifts beyond its end
        # apart, which `GramOrbit` adds.
        return b if left == 1 else int(scipy.fft.next_fast_len(2 * b, real=True))

    @property
    def frequencies(self) -> int:
        """Frequencies of the transforms, F."""
        return self.length // 2 + 1 if self.orbit.shifted else 1

    @property
    def n_orders(self) -> int:
        """Orders of the rows in which kernels are computed."""
        return self.orbit.cosets if self.orbit.shifted and not self.held else 1

    @cached_property
    def band(self) -> int:
        """Lines that are cut from tiles at a time, of all kernels and cosets."""
        lines = _BAND_BYTES // (self.n_roots * self.groups.size * self.dtype.itemsize)
        return min(self.groups.size, max(_FEWEST_LINES, min(lines, _MOST_LINES)))

    @cached_property
    def part(self) -> int:
        """Lines that are transformed at a time."""
        lines = _CACHE_BYTES // (self.length * self.dtype.itemsize)
        return min(self.band, max(_FEWEST_TRANSFORMS, lines))

    @cached_property
    def n_roots(self) -> int:
        """Kernels that are no powers, of every coset."""
        return len(self.roots(0)) + (self.orbit.cosets - 1) * len(self.roots(1))

    def state_bytes(self) -> int:
        """Bytes of the sums."""
        q, c, n = len(self.numbers), len(self.statistics), self.groups.n
        size = 16 if self.orbit.shifted else 8
        return size * self.orbit.cosets * c * self.frequencies + 8 * (c + q * (3 * n + 1))

    @cached_property
    def places(self) -> dict[TwoSided, int]:
        """Numbers of the statistics."""
        return {pair: c for c, pair in enumerate(self.statistics)}

    @property
    def is_cut(self) -> bool:
        """Whether statistics are taken in bunches."""
        return self.orbit.shifted and len(self.bunches) > 1

    def zeros(self) -> PairSums:
        """Nothing summed yet."""
        q, c, n = len(self.numbers), len(self.statistics), self.groups.n
        kind = complex if self.orbit.shifted else float
        products = np.zeros((self.orbit.cosets, c, self.frequencies), kind)
        rows, offsets, diagonal = np.zeros((3, q, n))
        return PairSums(products, np.zeros(c), rows, offsets, diagonal, np.zeros(q))

    def footprint(self, rows: int) -> Footprint:
        """Cost of a pair of blocks of so many rows."""
        if self.is_cut:
            costs = [part.footprint(rows) for part in self.bunches]
            most = max(cost.scratch + cost.state for cost in costs)
            return replace(costs[0], scratch=most, state=self.state_bytes())
        b, size = self.groups.size, self.dtype.itemsize
        prepared = 2 * size * self.n_orders * rows * self._width
        dims, k = [x.shape[1] for x in self.pilots], len(self.combinations.kernels)
        sides = len(self.sides) + (self.n_orders - 1) * len(self.moved)
        scratch = 2 * (prepared + size * rows * sides) + 8 * rows * (4 * sum(dims) + self._width)
        tiles = k + self.shared.work_tiles
        scratch += 8 * (tiles + 1) * min(rows, _PILOT_ROWS) * len(self.pilots[0])
        if not self.orbit.shifted:
            scratch += size * (tiles + (len(dims) > 2)) * b**2 + self.permuting_bytes(b)
        elif self.held:
            scratch += self._held_bytes
        else:
            wrapped = 2 * (b + self.band) * (self._width + sides)
            buffers = (math.prod(shape) * kind.itemsize for shape, kind in self.buffers)
            scratch += size * wrapped + 2 * 8 * len(self.numbers) * b + sum(buffers)
        payload = sum(pilots.nbytes for pilots in self.pilots)
        return Footprint(payload, scratch, self.state_bytes())

    @cached_property
    def _width(self) -> int:
        """Columns of the prepared arrays of all kernels that are needed."""
        kernels, variables = self.combinations.kernels, self.combinations.variables
        dims = [x.shape[1] for x in self.pilots]
        return sum(kernels[k].width(dims[variables[k]]) for _, k in self.roots(0))

    def permuting_bytes(self, rows: int) -> int:
        """Bytes that a task takes to permute two pieces of so many rows."""
        count = min(BATCH, self.orbit.cosets - 1)
        if not count:
            return 0
        entries = PermutedGrams.scratch_entries(self.combinations, rows)
        orders = 2 * 8 * 2 * count * (len(self.pilots) - 1) * rows
        return self.dtype.itemsize * entries + orders

    def chunk(self, left: GroupBlock, right: GroupBlock) -> PairSums:
        """Sums over one pair of blocks and its transpose."""
        sums = self.zeros()
        if self.is_cut:
            for part in self.bunches:
                found = part.chunk(left, right)
                at = [self.numbers[key] for key in part.numbers]
                sums.products[:, [self.places[pair] for pair in part.statistics]] = found.products
                sums.constants[[self.places[pair] for pair in part.statistics]] = found.constants
                # A matrix that several bunches need has the same sums in all of them.
                for total, some in zip(sums[2:], found[2:], strict=True):
                    total[at] = some
            return sums
        if self.held:  # there is one block
            self._add_held(sums, left)
            return sums
        first, pairs = self.pieces(left), itertools.combinations_with_replacement
        bands = _Bands(self, sums) if self.orbit.shifted else None
        same = left.first == right.first
        every = pairs(first, 2) if same else itertools.product(first, self.pieces(right))
        for piece, other in every:
            if bands is not None and not (piece.stays and other.stays):
                bands.add(*((other, piece) if other.stays else (piece, other)))
                continue
            grams = self.add_plain(sums, piece, other)
            # A pair of different groups stands for its mirror image, too.
            weight = 1.0 if piece is other else 2.0
            joint = weight * self.joint_sums(grams)
            if bands is not None:
                # Rows in no group stay where they are: their pairs add the same to all replicates.
                sums.constants[:] += joint
                continue
            sums.products[0, :, 0] += joint
            if self.orbit.cosets > 1:
                permuted = self.permuted(grams, piece, other)
                sums.products[1:, :, 0] += weight * permuted(range(self.orbit.cosets - 1))
        return sums

    def pieces(self, block: GroupBlock) -> list[RowPiece]:
        """The rows of every group, and those that stay."""
        b, count, n_left = self.groups.size, block.n_groups, block.n_left
        prepared = [self._prepared(block, coset) for coset in range(self.n_orders)]
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

    def _prepared(self, block: GroupBlock, coset: int) -> CosetRows:
        orders = RowOrders(self.orbit, block.first, block.n_groups, block.n_left)
        values, needed = block.values, self.needed[min(coset, 1)]
        if coset:
            every = range(coset, coset + 1)
            values = tuple(x[orders.of(every, m)[0]] for m, x in enumerate(values))
        rows, columns = self.shared.rows_and_columns(values, self.dtype, needed)
        return CosetRows(rows, columns, {} if self.held else self._offsets(rows, coset))

    def _tiles(
        self, rows: Sequence[Matrix], columns: Sequence[Matrix], coset: int = 0
    ) -> list[Matrix]:
        """Kernels between prepared rows and columns, of those that a coset needs."""
        shape = len(rows[0]), len(columns[0])
        tiles = list(np.empty((len(self.combinations.kernels), *shape), self.dtype))
        work = np.empty((self.shared.work_tiles, *shape), self.dtype)
        self.shared.tiles(rows, columns, tiles, work, self.needed[min(coset, 1)])
        return tiles

    def add_plain(self, sums: PairSums, first: RowPiece, second: RowPiece) -> dict[Side, Matrix]:
        """Add what the matrices of two pieces as they are sum to, and return these."""
        (rows, _, above), (_, columns, across) = first.prepared[0], second.prepared[0]
        tiles, grams = self._tiles(rows, columns), {}
        for side in sorted(self.sides, key=len, reverse=True):  # products come before
            grams[side] = _product_of(tiles, side)
            if self.held:  # all rows are here, so that a may be from their own means
                means = grams[side].mean(axis=1, dtype=np.float64)
                above[side] = (means - 0.5 * means.mean()).astype(self.dtype)
            if side in above:
                grams[side] -= above[side][:, None]
                grams[side] -= across[side]
            # A U-statistic leaves out the pair of a row with itself.
            if self.unbiased and first is second:
                np.fill_diagonal(grams[side], 0.0)
        if first is second:
            self.add_offsets(sums, first.prepared[0], 0, first.places)
        # A tile of two pieces stands for its transpose, too.
        weight = 1.0 if first is second else 2.0
        for (_, side), number in self.numbers.items():
            gram = grams[side]
            # In double precision, since HSIC is a difference of such sums.
            sums.rows[number, first.places] += gram.sum(axis=1, dtype=np.float64)
            if first is second:
                sums.diagonal[number, first.places] = gram.diagonal()
            else:
                sums.rows[number, second.places] += column_sums(gram)
            sums.squares[number] += weight * float(np.vdot(gram, gram))
        return grams

    def joint_sums(self, grams: dict[Side, Matrix]) -> Vector:
        """sum_ij A_ij B_ij of all statistics, shape (C,)."""
        joint = []
        for left, right in self.statistics:
            parts = [grams[left]] if left in grams else [grams[k,] for k in left]
            # The product is written into a copy of the first.
            product = parts[0] if len(parts) == 1 else hadamard([parts[0].copy(), *parts[1:]])
            # In float64, and without an array for the product.
            joint.append(np.einsum("ij,ij->", product, grams[right,], dtype=np.float64))
        return np.array(joint)

    def add_offsets(self, sums: PairSums, rows: CosetRows, coset: int, places: Indices) -> None:
        """Keep those of rows in the order of a coset."""
        for side, values in rows.offsets.items():
            if (number := self.numbers.get((coset, side))) is not None:
                sums.offsets[number, places] = values

    def permuted(
        self, grams: dict[Side, Matrix], first: RowPiece, second: RowPiece
    ) -> PermutedGrams:
        """The sums of these matrices under permutations, to be taken."""
        matrices = tuple(grams[k,] for k in range(len(self.combinations.kernels)))
        columns = None if first is second else second.orders
        powers = self.shared.powers
        return PermutedGrams(self.combinations, powers, matrices, first.orders, columns)

    @property
    def buffers(self) -> list[tuple[tuple[int, ...], np.dtype[Any]]]:
        """Shapes of what a task writes again and again: fresh pages take as long as transforms.

        Lines of a band, of all kernels that are no powers, in every coset; tiles that they are cut
        from; lines of a part, of all powers; lines of one side, behind a padding; transforms of
        every side in the order of the data, then in that of a coset; products of two.
        """
        b, part, f = self.groups.size, self.part, self.frequencies
        real, both = self.dtype, np.result_type(self.dtype, np.complex64)
        rows = min(_STRIP, b)
        tile = max(rows * (rows + self.band - 1), b)
        moved = min(self.orbit.cosets - 1, 1)
        spectra = len(self.sides) + moved * len(self.moved)
        return [
            ((self.n_roots, self.band, b), real),
            ((1 + self.shared.work_tiles, tile), real),
            ((len(self.shared.powers), part, b), real),
            ((part, part + b), real),
            ((spectra, part, f), both),
            ((2, part, f), both),
        ]

    # With few rows, shifts of one order are few, and there are many orders, the cosets. Kernels are
    # computed once then, and every coset takes its lines from the same matrices at other places:
    # the pass of the default takes 4 ms in place of 27 for 50 rows, and 10 in place of 20 for 200.

    @cached_property
    def held(self) -> bool:
        """Whether all rows are one block, whose Gram matrices are held: they are few and small."""
        n, in_sets = self.groups.n, isinstance(self.groups, MovedGroups)
        return (
            self.orbit.shifted
            and (in_sets or (self.orbit.cosets > 1 and self.groups.size == n))
            and not any(coset for coset, _ in self.numbers)
            and len(self.sides) * n**2 * self.dtype.itemsize
            <= (_HELD_OF_SETS if in_sets else _HELD)
        )

    @cached_property
    def _gathered_at_once(self) -> tuple[int, int]:
        """Cosets, and lines of each of them, that are gathered at a time."""
        every = HeldLines.count_of(self.groups)
        lines = max(1, _GATHERED_BYTES // (self.length * self.dtype.itemsize))
        return min(self.orbit.cosets, max(1, lines // every)), min(every, lines)

    @property
    def _held_bytes(self) -> int:
        n, f, d = self.groups.n, self.frequencies, HeldLines.count_of(self.groups)
        cosets, lines = self._gathered_at_once
        matrices = (2 * len(self.sides) + self.shared.work_tiles) * n**2
        transforms = 2 * f * d * len({left for left, _ in self.statistics})
        gathered = cosets * lines * (3 * self.groups.size + 8 * f)
        orders = self.orbit.cosets * n * 3 * (len(self.pilots) - 1)
        places = 2 * d * self.groups.size + 4 * self.groups.count * n + orders
        return self.dtype.itemsize * (matrices + transforms) + 8 * (gathered + places)

    def _add_held(self, sums: PairSums, block: GroupBlock) -> None:
        """Add all pairs of rows, with the matrices in memory."""
        n, lines = self.groups.n, HeldLines.of(self.groups)
        piece = RowPiece(np.arange(n), [self._prepared(block, 0)], RowOrders.of_all(self.orbit))
        grams = self.add_plain(sums, piece, piece)
        if self.groups.n_left:
            # Pairs of rows outside of the groups add the same under every permutation.
            stay = np.s_[n - self.groups.n_left :, n - self.groups.n_left :]
            sums.constants[:] = self.joint_sums({side: x[stay] for side, x in grams.items()})
        own = {
            left: _transform(grams[left][lines.rows, lines.columns], self.length)
            for left in dict.fromkeys(left for left, _ in self.statistics)
        }
        weights = lines.weights.astype(next(iter(own.values())).dtype)
        by_variable: dict[int, dict[int, list[int]]] = {}
        for c, (_, right) in enumerate(self.statistics):
            m = self.combinations.variables[right]
            by_variable.setdefault(m, {}).setdefault(right, []).append(c)
        step, part = self._gathered_at_once
        for m, by_right in by_variable.items():
            orders = piece.orders.of(range(self.orbit.cosets), m)
            for r, d in itertools.product(
                range(0, len(orders), step), range(0, len(lines.weights), part)
            ):
                some, at, on = orders[r : r + step], slice(r, r + step), slice(d, d + part)
                places = n * some[:, lines.rows[on]] + some[:, lines.columns[on]]
                for right, numbers in by_right.items():
                    # Places as an index are five times as quick as in `take`.
                    moved = _transform(grams[right,].ravel()[places], self.length)
                    np.conj(moved, out=moved)
                    for c in numbers:
                        still = own[self.statistics[c].left][on]
                        sums.products[at, c] += weights[on] @ (still * moved)


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
        above = np.zeros((len(self._pass.numbers), len(first.places)))
        sums = above, above if same else np.zeros((len(above), len(second.places)))
        orders = list(zip(first.prepared, second.prepared, strict=True))
        offsets = [
            {side: lines.of_rows(a, other.offsets[side]) for side, a in one.offsets.items()}
            for one, other in orders
        ]
        for coset, (one, _) in enumerate(orders if same else []):
            self._pass.add_offsets(self._sums, one, coset, first.places)
        # Kernels are computed for a band, and transformed a part at a time, which the cache holds.
        for _, band in lines.cut(self._pass.band):
            roots = self._kernels(band, first, second)
            for at, part in band.cut(self._pass.part):
                still: dict[Side, Spectrum] = {}
                for coset, tiles in enumerate(roots):
                    some = {k: tile[at] for k, tile in tiles.items()}
                    moved = self._transformed(part, some, offsets[coset], sums, coset, first.places)
                    # Coset 0 comes first: its transforms are those of the sides that stay.
                    still = still or moved
                    self._meet(still, moved, part.weights, coset)
        self._sums.rows[:, first.places] += sums[0]
        if not same:
            self._sums.rows[:, second.places] += sums[1]

    def _kernels(self, band: Lines, first: RowPiece, second: RowPiece) -> list[dict[int, Matrix]]:
        """Lines of the kernels that are no powers, of every coset."""
        buffers, roots = iter(self._roots), []
        for coset, both in enumerate(zip(first.prepared, second.prepared, strict=True)):
            rows, columns = both[0].rows, both[1].columns
            tiles = {}
            for place, k in self._pass.roots(coset):
                tiles[k], kernel = next(buffers)[: band.number], self._pass.shared.kernels[k]
                band.write(kernel, rows[place], columns[place], tiles[k], self._work)
            roots.append(tiles)
        return roots

    def _transformed(
        self,
        part: Lines,
        tiles: dict[int, Matrix],
        offsets: dict[Side, tuple[Matrix, Matrix]],
        sums: tuple[Vector, Vector],
        coset: int,
        places: Indices,
    ) -> dict[Side, Spectrum]:
        """Transforms of all sides that a coset needs."""
        needed, at = self._pass.needed[min(coset, 1)], slice(part.start, part.stop)
        for power, out in zip(self._pass.shared.powers, self._powers, strict=True):
            if power.k in needed:
                tiles[power.k] = power.of(tiles[power.source], out[: part.number])
        padded, weights, spectra = self._lines[: part.number], part.weights, {}
        lines = padded[:, padded.shape[1] - part.size :]
        for place, side in enumerate(self._pass.moved if coset else self._pass.sides):
            plain = tiles[side[0]]
            for k in side[1:]:
                plain = np.multiply(plain, tiles[k], out=lines)
            above, across = offsets[side]
            np.subtract(plain, above[at], out=lines)
            np.subtract(lines, across[at], out=lines)
            if self._pass.unbiased and part.main:
                # U-statistics leave out the pair of a row with itself, under every shift line 0.
                lines[0] = 0.0
            number = self._pass.numbers.get((coset, side))
            if number is not None:
                if part.main:
                    self._sums.diagonal[number, places] = lines[0]
                self._sums.squares[number] += np.vecdot(lines, lines) @ weights
                part.add_sums(padded, sums[0][number], sums[1][number])
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
        coset: int,
    ) -> None:
        """Add the cross-spectra of all statistics in a coset."""
        conjugate, product = self._products[:, : len(weights)]
        weights, held = weights.astype(product.dtype), None
        for c, (left, right) in enumerate(self._pass.statistics):
            # sum_i A_i B_{i + k} for all k at once: a product with a conjugate for each frequency.
            if right != held:
                np.conj(moved[right,], out=conjugate)
                held = right
            # For joint independence a coset permutes the product of the left variables as well.
            np.multiply(
                moved.get(left, still[left]) if len(left) > 1 else still[left],
                conjugate,
                out=product,
            )
            self._sums.products[coset, c] += weights @ product


@dataclass(frozen=True)
class PermutedGrams:
    """Sums of products of Gram matrices, those of all variables but the first permuted.

    Every permuted matrix is gathered once a replicate, or is the power of one that is. The product
    of those of a combination is its tail; first kernels and tails meet in a matrix product.

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
    """

    combinations: Combinations
    powers: tuple[Power, ...]
    grams: tuple[Matrix, ...]
    rows: RowOrders
    columns: RowOrders | None = None

    @staticmethod
    def scratch_entries(combinations: Combinations, rows: int) -> int:
        """Entries that so many rows take besides the matrices."""
        firsts, m = combinations.variables.count(0), len(combinations.chosen[0])
        tiles = (
            1 + firsts + len(combinations.variables) + (len(_tails(combinations)) if m > 2 else 0)
        )
        return tiles * min(rows, _strip_rows(rows)) * rows

    def __call__(self, replicates: range) -> Vector:
        """The sums under some permutations after the first, the identity; shape (r, G)."""
        # Number 0 is the identity, and so the data.
        cosets = range(replicates.start + 1, replicates.stop + 1)
        return np.concatenate([self._drawn(batch) for batch in batches(cosets)])

    def _drawn(self, cosets: range) -> Vector:
        """The same of few enough cosets to hold their permutations."""
        chosen, firsts = self.combinations.chosen, self.combinations.variables.count(0)
        rows = drawn(self.rows, cosets, len(chosen[0]))
        columns = rows if self.columns is None else drawn(self.columns, cosets, len(chosen[0]))
        tails = _tails(self.combinations)
        sums = np.zeros((len(cosets), len(tails), firsts))
        step, n = _strip_rows(columns.shape[2]), rows.shape[2]
        for start in range(0, n, step):
            at, on = slice(start, start + step), slice(start if self.columns is None else 0, None)
            strip = np.stack([first[at, on] for first in self.grams[:firsts]])
            if self.columns is None:
                # Both matrices are symmetric and permuted alike: half of the entries, twice.
                strip = 2 * np.triu(strip)
                np.einsum("kii->ki", strip[..., : strip.shape[1]])[:] /= 2
            moved = np.empty((len(self.grams) - firsts, *strip.shape[1:]), strip.dtype)
            for total, row, column in zip(sums, rows[:, :, at], columns[:, :, on], strict=True):
                self._move(moved, row, column)
                _add_inner_products(_multiplied(moved, tails, firsts), strip, total)
        places = {tail: number for number, tail in enumerate(tails)}
        return sums[:, [places[one[1:]] for one in chosen], [one[0] for one in chosen]]

    def _move(self, moved: Matrix, row: Indices, column: Indices) -> None:
        """Gather rows and columns of the permuted matrices, (M - 1, b) and (M - 1, c)."""
        variables = self.combinations.variables
        firsts = len(self.grams) - len(moved)
        tiles, followers = [*[moved[0]] * firsts, *moved], {power.k for power in self.powers}
        for k in range(firsts, len(self.grams)):
            if k not in followers:
                m = variables[k] - 1
                # With "clip" it writes into the array at once; all orders are within bounds.
                by_row = np.take(self.grams[k], row[m], axis=0, mode="clip")
                np.take(by_row, column[m], axis=1, out=tiles[k], mode="clip")
        # A power of what was moved is the power moved, and squaring takes less than gathering.
        for power in self.powers:
            if power.k >= firsts:
                power.of(tiles[power.source], tiles[power.k])


def batches(cosets: range) -> list[range]:
    """As many permutations at a time as are held."""
    return [cosets[start : start + BATCH] for start in range(0, len(cosets), BATCH)]


def drawn(orders: RowOrders, cosets: range, n_variables: int) -> Indices:
    """A batch of permutations of all variables but the first, shape (r, M - 1, rows)."""
    return np.stack([orders.of(cosets, m) for m in range(1, n_variables)], axis=1)


def _tails(combinations: Combinations) -> tuple[Side, ...]:
    """Kernels of all variables but the first that combinations have."""
    if len(combinations.chosen[0]) == 2:
        firsts = combinations.variables.count(0)
        return tuple((k,) for k in range(firsts, len(combinations.kernels)))
    return tuple(dict.fromkeys(combination[1:] for combination in combinations.chosen))


def _multiplied(moved: Matrix, tails: Sequence[Side], firsts: int) -> Matrix:
    """The product of every tail, shape (T, b, c)."""
    if len(tails[0]) == 1:
        return moved
    products = np.empty((len(tails), *moved.shape[1:]), moved.dtype)
    for (first, second, *rest), out in zip(tails, products, strict=True):
        np.multiply(moved[first - firsts], moved[second - firsts], out=out)
        for k in rest:
            out *= moved[k - firsts]
    return products


def _add_inner_products(left: Matrix, right: Matrix, sums: Vector) -> None:
    """Add sum_ij of left (T, b, c) times right (K, b, c) to sums (T, K)."""
    left, right = left.reshape(len(left), -1), right.reshape(len(right), -1)
    step = max(1, _CHUNK // sums.size)
    for start in range(0, left.shape[1], step):
        at = slice(start, start + step)
        sums += left[:, at] @ right[:, at].T


def _strip_rows(columns: int) -> int:
    """Rows of a strip of so many columns."""
    return max(8, _GATHERED // columns)


@dataclass(frozen=True)
class GramOrbit:
    """HSIC times n of C statistics under all permutations of an orbit.

    Parameters
    ----------
    reduction : GramPass
        The pass that summed.
    sums : PairSums
        Over all rows.
    limit : ChiSquareMixture, optional
        The limit of n V-HSIC under independence, where its eigenvalues were taken.
    """

    reduction: GramPass
    sums: PairSums
    limit: ChiSquareMixture | None = None

    @property
    def n(self) -> int:
        """Rows."""
        return self.orbit.groups.n

    @property
    def orbit(self) -> Orbit:
        """The permutations."""
        return self.reduction.orbit

    @property
    def detail(self) -> str:
        """How the replicates are made, for a result."""
        return self.orbit.detail

    def resampled(self) -> Resampled:
        """The statistics of the data and of all other permutations, and what is a tie."""
        cosets = range(self.orbit.cosets)
        if self.orbit.shifted:
            # Many of few rows at a time, to save calls; left sides may change with the coset.
            step = max(1, _VALUES // (len(self.reduction.statistics) * self.n))
            step = 1 if any(coset for coset, _ in self.reduction.numbers) else step
            every = [cosets[r : r + step] for r in range(0, len(cosets), step)]
            values = np.concatenate([self._of_cosets(some) for some in every])
        else:
            values = np.concatenate([self._permuted(some) for some in batches(cosets)])
        return Resampled.of(values, self.rounding())

    def sums_of(self, combination: tuple[int, ...]) -> GramSums:
        """Sums of the Gram matrices of a combination, as far as HSIC asks for them.

        A constant is off those, and diagonals are zeros where these do not count: what they say of
        HSIC is the same. The product is that of both sides.
        """
        c = self.reduction.places[TwoSided.of(combination)]
        return self.sums_of_kernels(combination)._replace(joint=float(self._observed[c]))

    def sums_of_kernels(self, kernels: Sequence[int]) -> GramSums:
        """The same of kernels that are in no combination."""
        at = [self.reduction.numbers[0, (k,)] for k in kernels]
        return GramSums(self.sums.rows[at], self.sums.diagonal[at], self.sums.squares[at], math.nan)

    def row_means(self, kernels: Sequence[int]) -> Vector:
        """Row means of Gram matrices in the order of the rows, shape (len(kernels), n)."""
        means = np.empty((len(kernels), self.n))
        at = [self.reduction.numbers[0, (k,)] for k in kernels]
        means[:, rows_in_order(self.orbit.groups)] = self._row_means(at)
        return means

    def _of_cosets(self, cosets: range) -> Vector:
        """All statistics under all shifts of some cosets, shape (R b, C)."""
        values = self._two_sided(cosets)
        if self.reduction.joint:
            values = values + np.array([self._others(r) for r in cosets])
        return values.swapaxes(1, 2).reshape(-1, len(self.reduction.statistics))

    def _permuted(self, cosets: range) -> Vector:
        """All statistics under the permutations of cosets without shifts, shape (r, C)."""
        rows, chosen = self.sums.rows / self.n, self.reduction.combinations.chosen
        orders = drawn(RowOrders.of_all(self.orbit), cosets, len(chosen[0]))
        variables = self.reduction.combinations.variables
        moved = {
            k: rows[k] if not m else rows[k][orders[:, m - 1]] for k, m in enumerate(variables)
        }
        meetings = np.stack(
            [
                hadamard([moved[one[-1]].copy(), *(moved[k] for k in one[:-1])]).sum(-1)
                for one in chosen
            ],
            axis=1,
        )
        totals = rows.mean(axis=1)[np.array(chosen)].prod(axis=1)
        return self._centred(self.sums.products[cosets.start : cosets.stop, :, 0], meetings, totals)

    def _two_sided(self, cosets: range) -> Vector:
        """HSIC of both sides times n, shape (R, C, b)."""
        alpha, beta = (
            self.sums.rows[at] / self.n for at in (self._lefts(cosets.start), self._rights)
        )
        totals = alpha.mean(axis=1) * beta.mean(axis=1)
        meetings = self._meetings(cosets, alpha, beta)
        return self._centred(self._products(cosets), meetings, totals[:, None])

    def _centred(self, products: Vector, meetings: Vector, totals: Vector) -> Vector:
        """HSIC times n from sums of products of matrices as they are, permuted by s.

        With alpha and beta the row means of A and B, and a and b their means, it is

            sum_ij A_ij B_s(i)s(j) / n - 2 sum_i alpha_i beta_s(i) + n a b

        (Kalinke and Szabo 2023, equation 5, which has the same terms for M > 2). For the
        U-statistic, of row sums and totals over 1 / n each, n - 3 stands for the first n, and the
        others are n - 2 and (n - 1)(n - 2) (Song et al. 2012).
        """
        n = self.n
        # Divisors of the U-statistic: Song et al. (2012); Zhang et al. (2018), (6).
        first, second, third = (n - 3, n - 2, n - 1) if self.reduction.unbiased else (n, n, n)
        mixed = 2.0 * n**2 / second * meetings
        values: Vector = (products - mixed + n**4 / (second * third) * totals) / first
        return values

    def _others(self, r: int) -> Vector:
        """The rest that joint independence asks for, times n, shape (C, b).

        With J = prod_l K_l a product, m the means of it, of L and of K_l, and r their row means,
        E JL + prod_l m_l m_L - 2 E prod_l r_l r_L is HSIC(J, L) and
        (prod_l m_l - m_J) m_L - 2 E (prod_l r_l - r_J) r_L.
        """
        whole, last = self._row_means(self._lefts(r)), self._row_means(self._rights)
        rows = np.array([self._row_product(left, r) for left, _ in self.reduction.statistics])
        kernels = [
            [self.reduction.numbers[0, (k,)] for k in left] for left, _ in self.reduction.statistics
        ]
        means = np.array([self._row_means(at).mean(axis=1).prod() for at in kernels])
        constants = self.n * (means - whole.mean(axis=1)) * last.mean(axis=1)
        (meetings,) = self._meetings(range(r, r + 1), rows - whole, last)
        values: Vector = constants[:, None] - 2.0 * meetings
        return values

    def _products(self, cosets: range) -> Vector:
        """sum_ij A_ij B_s(i)s(j) under all shifts of some cosets, shape (R, C, b)."""
        values: Vector = self.sums.products[cosets.start : cosets.stop]
        if not self.orbit.shifted:
            return values
        b, length = self.orbit.groups.size, self.reduction.length
        # The sums hold A conj(B) a frequency; its conjugate is the transform of sum_i A_i B_(i +
        # k).
        values = scipy.fft.irfft(np.conj(values), length, axis=2)
        if length > b:  # lines were padded: what was shifted beyond their end goes around
            values = values[..., :b] + values[..., length - b :]
        return values + self.sums.constants[:, None]

    @cached_property
    def _observed(self) -> Vector:
        """sum_ij A_ij B_ij, shape (C,)."""
        return self._products(range(1))[0, :, 0].copy()

    def _meetings(self, cosets: range, left: Vector, right: Vector) -> Vector:
        """sum_i left_i right_s(i) of vectors (C, n) under all shifts of cosets, (R, C, b)."""
        b, count = self.orbit.groups.size, self.orbit.groups.count
        of_kernels = np.array(self.reduction.combinations.variables)
        variables = of_kernels[[k for _, k in self.reduction.statistics]]
        moved = np.empty((len(cosets), *right.shape))
        for m in set(variables.tolist()):
            at = variables == m
            moved[:, at] = right[at][:, RowOrders.of_all(self.orbit).of(cosets, m)].swapaxes(0, 1)
        first, second = (
            scipy.fft.rfft(values[..., : count * b].reshape(*values.shape[:-1], count, b), axis=-1)
            for values in (left, moved)
        )
        # Correlations are added over the groups before the one transform back.
        spectra = np.einsum("cgf,rcgf->rcf", np.conj(first), second)
        staying = np.einsum("ci,rci->rc", left[:, count * b :], moved[..., count * b :])
        values: Vector = scipy.fft.irfft(spectra, b, axis=2) + staying[..., None]
        return values

    def _lefts(self, r: int) -> list[int]:
        """Numbers of the left sides in a coset, which permutes products alone if any."""
        numbers = self.reduction.numbers
        return [numbers.get((r, left), numbers[0, left]) for left, _ in self.reduction.statistics]

    @cached_property
    def _rights(self) -> list[int]:
        """Numbers of the right sides."""
        return [self.reduction.numbers[0, (right,)] for _, right in self.reduction.statistics]

    def _row_means(self, numbers: list[int]) -> Vector:
        """Row means of Gram matrices as they are, shape (len(numbers), n)."""
        offsets = self.sums.offsets[numbers]
        # With A_ij = C_ij + a_i + a_j the mean over j is that of C, and a_i, and the mean of a.
        means: Vector = offsets + offsets.mean(axis=-1, keepdims=True)
        return means + self.sums.rows[numbers] / self.n

    def _row_product(self, side: Side, r: int = 0) -> Vector:
        """Product of the row means of the kernels of a side in the order of a coset, shape (n,)."""
        product, variables = np.ones(self.n), self.reduction.combinations.variables
        for k in side:
            (means,) = self._row_means([self.reduction.numbers[0, (k,)]])
            orders = RowOrders.of_all(self.orbit).of(range(r, r + 1), variables[k])
            product *= means[orders[0]]
        return product

    def rounding(self) -> Vector:
        """How far apart equal statistics may come out, shape (C,).

        Transforms, or sums, and tiles leave relative errors in A and B, which matter to their inner
        product as much as their norms at most; so do those of kernels between equal rows, which are
        relative to the kernels themselves, but independent: they matter to sums over n^2 pairs as
        one in n of that.
        """
        dtype, n = self.reduction.dtype, self.n
        if self.reduction.joint and not self.orbit.shifted:
            each = [self.sums_of((*left, right)) for left, right in self.reduction.statistics]
            return np.array([rounding(sums, dtype) for sums in each])
        tile = tile_error(dtype)
        unit = transform_error(dtype, self.orbit.groups.size) + tile
        at = [self._lefts(0), self._rights]
        # |A|_F of matrices as they are: sum_ij (C_ij + a_i + a_j)^2
        # = |C|^2 + 4 sum_i a_i sum_j C_ij + 2 n |a|^2 + 2 (sum a)^2.
        squares, off = self.sums.squares, self.sums.offsets
        plain = squares + 4.0 * np.vecdot(self.sums.rows, off) + 2.0 * n * np.vecdot(off, off)
        plain = np.maximum(plain + 2.0 * off.sum(axis=1) ** 2, 0.0)
        (a, b), (k, h) = np.sqrt(squares[at]), np.sqrt(plain[at])
        errors: Vector = unit * a * b + 2.0 * tile * (k * b + a * h) / n
        if self.reduction.joint:
            rows = np.array([self._row_product(left) for left, _ in self.reduction.statistics])
            last = self._row_means(self._rights)
            norms = np.linalg.norm(rows, axis=1) * np.linalg.norm(last, axis=1)
            errors = errors + 2.0 * n * unit * norms
        return _SAFETY * errors / n


def rows_in_order(groups: RowGroups) -> Indices:
    """The rows of group after group, and then those that stay, shape (n,)."""
    arranged = groups.arrange(0, groups.count)
    return np.concatenate([np.arange(*span) for span in arranged.ranges])[arranged.places]


def _product_of(tiles: Sequence[Matrix], side: Side) -> Matrix:
    """The product of the kernels of a side."""
    if len(side) == 1:
        return tiles[side[0]]
    return hadamard([tiles[side[0]].copy(), *(tiles[k] for k in side[1:])])


def _transform(lines: Matrix, length: int, out: Any = None) -> Spectrum:
    """Transforms of lines: NumPy writes float64 into memory, and SciPy is quicker in float32."""
    if lines.dtype == np.float64:
        transforms: Spectrum = np.fft.rfft(lines, length, out=out)
        return transforms
    return np.asarray(scipy.fft.rfft(lines, length))
