"""Compute the pointwise contraction, u_s = sum_i f_j(i) h_j(s(i)) for permutations s of an orbit.

For landmark j and two sides f_j and h_j of a statistic, the sums over a group of f_j(i) h_j(i + k)
for every shift k are one circular cross-correlation: the product of two Fourier transforms, summed
over groups, transformed back once in the end. Shifts leave the sums of either side as they are, so
that the covariance of both under a permutation needs no other sum.

A function of rows is a kernel at p landmarks, or any other that has p values. Tiles of them are
made strip by strip of landmarks, about pilot means, so that they stay in the cache and no digits
cancel. The pass comes first, then the statistic and its limit laws.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import scipy
from numpy.typing import DTypeLike, NDArray

from dhsic.engine.passes import Footprint, GroupBlock
from dhsic.engine.plan import DriverStep
from dhsic.engine.session import Session
from dhsic.kernels.grid import SharedTiles
from dhsic.linalg import consecutive, spectrum, squared_norms
from dhsic.nulls import (
    ChiSquareMixture,
    Distribution,
    Gamma,
    GammaDistribution,
    Spectral,
    check_no_overflow,
    expanded,
)
from dhsic.statistics.gram import Matrix, Tile
from dhsic.statistics.orbit import (
    Orbit,
    Pair,
    Permuted,
    PermutedPass,
    Statistic,
    tile_error,
    transform_error,
)
from dhsic.statistics.outer import Crossing, MomentsPass, MomentSums

Indices = NDArray[np.intp]
Vector = NDArray[np.float64]
Spectrum = NDArray[np.complexfloating[Any, Any]]
Side = tuple[int, ...]
"""Numbers of functions whose product the left or right of a pair is."""
SideTiles = dict[Side, Tile]
Orders = dict[int, Indices]
Norm = Callable[[Tile], Vector]
"""From functions (q, N) at q landmarks to the squares of their N norms."""

TILE_ROWS = 1024  # of a tile, where they need not be whole groups
_CACHE_BYTES = 2**20  # of what strips of landmarks take
_FEWEST = 16  # landmarks of a kernel in a strip
_GROUPS_AT_ONCE = 8  # of a tile, where they are transformed one by one
_PILOT_ROWS = 256
_TERM_ROWS = 256  # whose terms are made at a time
_SAFETY = 4.0
_PROBES = 8
_COPIES = 4  # of the functions of a statistic while their norms are found


@dataclass(frozen=True)
class Tuples:
    """Two-sided statistics at landmark tuples, each at the landmarks that it keeps.

    `TuplePass` sums for permutations, and `MomentsPass` the terms of the data with their products.

    Parameters
    ----------
    kernels : tuple of Kernel
        All K of them, fitted; or functions of rows, which have `rows`, `columns`, `width`, `tile`,
        `work_tiles` and `as_power` as kernels have.
    variables : tuple of int
        The number of the variable that each is for, shape (K,).
    landmarks : tuple of ndarray, shapes (p, d_m)
        Those of every kernel, shape (K,); kernels of a variable may share them.
    pairs : tuple of Pair
        The statistics, C of them.
    kept : tuple of ndarray of int
        The numbers of the landmarks of each, ascending.
    pilots : tuple of ndarray, shapes (p,)
        About the mean of every kernel at the landmarks, so that no digits cancel in the sums.
    dtype : dtype
        Precision of the tiles.
    form : {"joint", "centred"}, optional
        The statistics measure the mean of the product of all kernels less the product of their
        means, kappa_J - prod_m kappa_m; or the covariance of both sides, where a side of several
        kernels is their product about their means.
    """

    kernels: tuple[Any, ...]
    variables: tuple[int, ...]
    landmarks: tuple[Matrix, ...]
    pairs: tuple[Pair, ...]
    kept: tuple[Indices, ...]
    pilots: tuple[Tile, ...]
    dtype: np.dtype[Any]
    form: Literal["joint", "centred"] = "joint"

    @classmethod
    def at(
        cls,
        kernels: Sequence[Any],
        variables: Sequence[int],
        landmarks: Sequence[Matrix],
        pairs: Iterable[Pair],
        kept: Sequence[Indices],
        samples: Sequence[Matrix],
        dtype: np.dtype[Any],
    ) -> Self:
        """With means over a few rows of samples (s, d_m) as pilots."""
        listed = list(zip(kernels, landmarks, variables, strict=True))
        # Kernels about their means over a few rows are small, so that their sums of products keep
        # digits.
        pilots = (_values(k, z, samples[m][:_PILOT_ROWS]).mean(axis=1) for k, z, m in listed)
        places = tuple(variables), tuple(landmarks), tuple(pairs), tuple(kept)
        return cls(tuple(kernels), *places, tuple(pilots), dtype)

    @classmethod
    def unseen(
        cls,
        kernels: Sequence[Any],
        variables: Sequence[int],
        dims: Sequence[int],
        p: int,
        pairs: Iterable[Pair],
        dtype: np.dtype[Any],
    ) -> Self:
        """At p landmarks that all are kept, which take no memory: for plans."""
        zero, pairs = np.float64(0.0), tuple(pairs)
        # Kernels of a variable share its landmarks, which count once.
        points = [np.broadcast_to(zero, (p, d)) for d in dims]
        landmarks = tuple(points[m] for m in variables)
        kept, pilots = (np.arange(p),) * len(pairs), (np.broadcast_to(zero, p),) * len(kernels)
        return cls(tuple(kernels), tuple(variables), landmarks, pairs, kept, pilots, dtype)

    def about(self, means: Sequence[Tile]) -> Self:
        """With other pilots, shapes (p,)."""
        return replace(self, pilots=tuple(means))

    def part(self, numbers: Sequence[int]) -> Self:
        """Some of the statistics."""
        pairs = tuple(self.pairs[c] for c in numbers)
        part = replace(self, pairs=pairs, kept=tuple(self.kept[c] for c in numbers))
        # Every pair of kernels was compared for it, which takes long where they are many.
        part.__dict__["shared"] = self.shared
        return part

    @property
    def sizes(self) -> list[int]:
        """Landmarks of every statistic."""
        return list(map(len, self.kept))

    @cached_property
    def places(self) -> list[slice]:
        """Where the landmarks of every statistic are among those of all."""
        return consecutive(self.sizes)

    @property
    def n_features(self) -> int:
        """Landmarks of all statistics together, and so their terms."""
        return sum(self.sizes)

    @cached_property
    def crossings(self) -> tuple[Crossing, ...]:
        """The products of the terms of every statistic."""
        places = self.places, consecutive(q * q for q in self.sizes)
        return tuple(Crossing((), (), at, at, square) for at, square in zip(*places, strict=True))

    def scratch(self, rows: int) -> int:
        """Bytes of the kernels of some of the rows, of what is made of them, and of the rows."""
        tiles = sum(1 + kernel.work_tiles for kernel in self.kernels) * len(self.landmarks[0])
        made = tiles + (len(self.pairs[0].left) + 5) * max(self.sizes)
        widths = sum(map(self.width, range(len(self.kernels))))
        return int(8 * min(rows, _TERM_ROWS) * (made + 3 * widths))

    def features(self, values: Sequence[Matrix], dtype: DTypeLike) -> Matrix:
        """The terms of all statistics about their pilots, for rows of all variables, shape (b, Q).

        Those of a pair are its centred products, whose mean is u where the pilots are the means;
        those of a kernel without a left side are its own values about the pilots.
        """
        each = list(zip(self.kernels, self.landmarks, self.variables, strict=True))
        # Products of float32 would leave the covariance indefinite once it is whitened.
        terms = np.empty((self.n_features, len(values[0])), dtype)
        # Of so few rows that the cache holds the kernels.
        for start in range(0, len(values[0]), _TERM_ROWS):
            on = slice(start, start + _TERM_ROWS)
            tiles = [_values(k, z, values[m][on], self.dtype) for k, z, m in each]
            about = [tile - self.pilot(k, slice(None)) for k, tile in enumerate(tiles)]
            for pair, kept, at in zip(self.pairs, self.kept, self.places, strict=True):
                of = (*pair.left, pair.right)
                # Mean over all rows u = kappa_J - prod_m kappa_m, as nothing large cancels.
                first, *others = some = [about[k][kept] for k in of]
                terms[at, on] = (
                    math.prod(others, start=first)
                    if len(of) < 3
                    else expanded(some, [self.pilot(k, kept) for k in of])[0]
                )
        return terms.T

    @cached_property
    def sides(self) -> dict[Side, Indices]:
        """Landmarks of every side, as the kernels whose product it is, ascending.

        Kernels that are multiplied, and those whose powers others are, have sides of their own.
        """
        held: dict[Side, NDArray[np.bool_]] = {}

        def hold(side: Side, at: NDArray[Any]) -> None:
            held.setdefault(side, np.zeros(len(self.landmarks[0]), bool))[at] = True

        for pair, kept in zip(self.pairs, self.kept, strict=True):
            for side in sides_of(pair):
                hold(side, kept)
        # From the last to the first, since a source may follow from another one.
        for power in reversed(self.shared.powers):
            if (power.k,) in held:
                hold((power.source,), held[power.k,])
        return {side: np.flatnonzero(at) for side, at in held.items()}

    @cached_property
    def shared(self) -> SharedTiles:
        """How the tiles of the kernels come from each other."""
        return SharedTiles(self.kernels, self.variables)

    @cached_property
    def roots(self) -> list[int]:
        """Kernels that are computed, and are no powers of others."""
        return [k for k in self.shared.roots if (k,) in self.sides]

    def width(self, k: int) -> int:
        """Columns of prepared rows of a kernel."""
        columns: int = self.kernels[k].width(self.landmarks[k].shape[1])
        return columns

    @cached_property
    def nbytes(self) -> int:
        """Bytes of landmarks, pilots and choices; of landmarks also as they are prepared."""
        arrays = {id(x): x for x in (*self.landmarks, *self.pilots, *self.kept)}.values()
        prepared = sum(len(self.sides[k,]) * self.width(k) for k in self.roots)
        return sum(array.nbytes for array in arrays) + self.dtype.itemsize * prepared

    def pilot(self, k: int, at: Indices | slice) -> Tile:
        """Pilots at some landmarks, shape (r, 1)."""
        return self.pilots[k][at, None].astype(self.dtype)


def _values(kernel: Any, z: Matrix, x: Matrix, dtype: DTypeLike = np.float64) -> Matrix:
    """Values (p, b) at landmarks and rows."""
    rows, columns = kernel.rows(z, dtype), kernel.columns(x, dtype)
    out = np.empty((len(rows), len(columns)), dtype)
    kernel.tile(rows, columns, out, np.empty((kernel.work_tiles, *out.shape), dtype))
    return out


def sides_of(pair: Pair) -> list[Side]:
    """Both sides of a statistic; between them the factors of a left one, for their means."""
    factors = [(k,) for k in pair.left] if len(pair.left) > 1 else []
    return [*filter(None, [pair.left]), *factors, (pair.right,)]


class Strip(NamedTuple):
    """Some of the landmarks, and where sides and statistics have them."""

    numbers: dict[Side, Indices]
    """Its landmarks that a side has."""
    points: dict[int, Matrix]
    """Those of kernels that are computed, prepared for tiles whose rows they are."""
    rows: dict[tuple[Side, int], Indices | slice]
    """Those of a product or a power in the tile of a kernel that it is made of."""
    pairs: list[tuple[slice, dict[Side, Indices | slice]]]
    """Where the landmarks of every statistic are among those of all, and in each of its sides."""

    @classmethod
    def of(cls, t: Tuples, start: int, stop: int) -> Self:
        """The landmarks start..stop-1."""

        # Landmarks ascend, so that those of a strip are a slice of any list.
        def within(at: Indices) -> slice:
            return slice(*np.searchsorted(at, [start, stop]).tolist())

        numbers = {side: at[within(at)] for side, at in t.sides.items()}
        points = {k: t.kernels[k].rows(t.landmarks[k][numbers[k,]], t.dtype) for k in t.roots}
        made = [(side, k) for side in numbers if len(side) > 1 for k in side]
        made += [((k,), source) for k, source, _ in t.shared.powers if (k,) in numbers]
        rows = {(side, k): _places_among(numbers[k,], numbers[side]) for side, k in made}
        pairs = []
        for pair, kept, place in zip(t.pairs, t.kept, t.places, strict=True):
            at = within(kept)
            places = {side: _places_among(numbers[side], kept[at]) for side in sides_of(pair)}
            pairs.append((slice(place.start + at.start, place.start + at.stop), places))
        return cls(numbers, points, rows, pairs)


def _places_among(among: Indices, wanted: Indices) -> Indices | slice:
    """Places of ascending numbers among others: all, or one after another."""
    return slice(None) if len(among) == len(wanted) else np.searchsorted(among, wanted)


def _permuted(values: Tile, places: Indices | None) -> Tile:
    """Values (r, b) with the rows from these places, or as they are."""
    return values if places is None else values.take(places, axis=1, mode="clip")


class TupleSums(NamedTuple):
    """Sums over rows for two-sided statistics under some cosets of an orbit."""

    cross: Tile
    """Both sides about their pilots: cross-spectra, shape (R, Q, b // 2 + 1), or without shifts
    the sums of products themselves, shape (R, Q, 1)."""
    left_over: Tile
    """Products of both sides over the rows that are in no group, shape (Q,)."""
    sides: Tile
    """All F of `sides_of` every statistic about their pilots, shape (R, F, Q)."""
    side_squares: Tile
    """Their squares, shape (F, Q)."""
    squares: Vector
    """Sums over groups of the squared norms of both sides multiplied, shape (Q,)."""


@dataclass(frozen=True)
class TuplePass(PermutedPass[TupleSums]):
    """All sums of `TupleSums`, in one pass.

    Parameters
    ----------
    tuples : Tuples
        The statistics. Cosets move the variables of the right sides, and where statistics are joint
        those of the left sides as well, but for the first.
    orbit : Orbit
        The permutations.
    cosets : range
        Those of the orbit that are computed.
    """

    alone: ClassVar[str] = "kernel sums"

    tuples: Tuples
    orbit: Orbit
    cosets: range

    @property
    def frequencies(self) -> int:
        """Complex numbers of a transform; 0 without shifts."""
        return self.groups.size // 2 + 1 if self.orbit.shifted else 0

    @property
    def together(self) -> int:
        """Groups of a tile."""
        return _GROUPS_AT_ONCE if self.orbit.shifted else max(1, TILE_ROWS // self.groups.size)

    @cached_property
    def moved(self) -> tuple[int, ...]:
        """Variables that cosets permute."""
        moved = {pair.right for pair in self.tuples.pairs}
        if self.tuples.form == "joint":
            # A joint test permutes all variables but the first.
            moved |= {k for pair in self.tuples.pairs for k in pair.left[1:]}
        return tuple(sorted({self.tuples.variables[k] for k in moved}))

    @property
    def n_sides(self) -> int:
        """Sides of a statistic, F."""
        return len(sides_of(self.tuples.pairs[0]))

    @property
    def state_bytes(self) -> int:
        """Bytes of the sums."""
        cosets = len(self.cosets)
        cross = (16 * self.frequencies or 8) * cosets
        return self.tuples.n_features * (cross + 8 * (cosets + 1) * self.n_sides + 16)

    def footprint(self, rows: int) -> Footprint:
        """Cost of a block of so many rows."""
        t, cosets, size = self.tuples, len(self.cosets), self.tuples.dtype.itemsize
        tile_rows = min(rows, self.together * self.groups.size)
        sides, terms = self._most(t.sides.values()), self._most(t.kept)
        if self.orbit.shifted:
            work = size * 2 * self.frequencies * (2 * sides + (cosets + 1) * terms)
        else:
            work = size * tile_rows * (sides + 2 * terms)
        # Of a row all sides, the copies of factors that products are made of, and prepared rows.
        _, widest, tiles = self._tile_sizes
        factors = self._most(at for side, at in t.sides.items() if len(side) > 1 for _ in side)
        entries = sides + (1 + tiles) * widest + factors + 3 * sum(map(t.width, t.roots))
        work += tile_rows * (size * entries + 8 * (cosets + 2) * len(self.moved))
        return Footprint(payload=t.nbytes, scratch=work, state=self.state_bytes)

    def chunk(self, block: GroupBlock) -> TupleSums:
        """Sums over a run of groups."""
        b, cosets, f = self.groups.size, len(self.cosets), self.frequencies
        q = self.tuples.n_features
        cross = np.zeros((cosets, q, f or 1), np.complex128 if f else np.float64)
        values, sides = np.zeros((2, q)), np.zeros((cosets + 1, self.n_sides, q))
        sums = TupleSums(cross, values[0], sides[:-1], sides[-1], values[1])
        for start in range(0, block.n_groups, self.together):
            stop = min(start + self.together, block.n_groups)
            # Where rows come from by variable, for every coset; none where it is the identity.
            first, count = block.first + start, stop - start
            drawn = {m: self.orbit.places(self.cosets, m, first, count, 0) for m in self.moved}
            orders = [
                {m: some[r] for m, some in drawn.items() if coset}
                for r, coset in enumerate(self.cosets)
            ]
            for strip, tiles in self.tiles([x[start * b : stop * b] for x in block.values]):
                self._add(sums, strip, tiles, orders)
        if block.n_left:
            for strip, tiles in self.tiles([x[block.n_groups * b :] for x in block.values]):
                self._add(sums, strip, tiles, None)
        return sums

    @cached_property
    def _cuts(self) -> list[int]:
        """Where strips begin and the last one ends, among all landmarks."""
        # Transforms of some groups stay in the cache, or products of their rows.
        t, width = self.tuples, 2 * self.frequencies or self.together * self.groups.size
        size = max(1, _CACHE_BYTES // (t.dtype.itemsize * width))
        total, p = sum(len(t.sides[k,]) for k in t.roots), len(t.landmarks[0])
        count = min(max(1, total // (_FEWEST * len(t.roots))), -(-total // size))
        return [p * i // count for i in range(count + 1)]

    @cached_property
    def _strips(self) -> list[Strip]:
        """Strips of all landmarks."""
        return [Strip.of(self.tuples, *both) for both in pairwise(self._cuts)]

    def _most(self, lists: Iterable[Indices]) -> int:
        """How many of some landmarks a strip has at most; quicker than strips are."""
        widest = max(stop - start for start, stop in pairwise(self._cuts))
        return sum(min(len(at), widest) for at in lists)

    @cached_property
    def _tile_sizes(self) -> tuple[int, int, int]:
        """Landmarks of all roots at a strip, those of the widest, and scratch tiles of any."""
        t = self.tuples
        lists = [t.sides[k,] for k in t.roots]
        widest = max(self._most([at]) for at in lists)
        return self._most(lists), widest, max(t.kernels[k].work_tiles for k in t.roots)

    def tiles(self, values: Sequence[Matrix]) -> Iterator[tuple[Strip, SideTiles]]:
        """Kernels about their pilots at every strip, (r, rows) each, as sides of their own.

        The next strip overwrites them: fresh memory for every tile costs a tenth of the time where
        the allocator hands it back to the system, as it is told to on Dask's workers.
        """
        t, (most, widest, scratch) = self.tuples, self._tile_sizes
        columns = {k: t.kernels[k].columns(values[t.variables[k]], t.dtype) for k in t.roots}
        made = np.empty((most, len(values[0])), t.dtype)
        worked = np.empty((scratch, widest, len(values[0])), t.dtype)
        for strip in self._strips:
            tiles: SideTiles = {}
            places = consecutive(map(len, strip.points.values()))
            for (k, points), place in zip(strip.points.items(), places, strict=True):
                tiles[k,], kernel = made[place], t.kernels[k]
                work = worked[: kernel.work_tiles, : len(points)]
                kernel.tile(points, columns[k], tiles[k,], work)
            # Powers are taken of the values themselves, before their pilots are taken off.
            for power in t.shared.powers:
                if (power.k,) in t.sides:
                    rows = strip.rows[(power.k,), power.source]
                    tiles[power.k,] = power.of(tiles[power.source,][rows])
            for side, tile in tiles.items():
                # What is left about the pilots is small, so that sums of its products keep their
                # digits.
                tile -= t.pilot(side[0], strip.numbers[side])
            yield strip, tiles

    def _products(self, strip: Strip, factors: dict[Side, list[Tile]], orders: Orders) -> SideTiles:
        """Sides of several kernels, from these with rows in the orders of their variables.

        They are products of the kernels less that of their pilots, so that they are small, or
        products of kernels about their pilots.
        """
        t, products = self.tuples, SideTiles()
        for side, some in factors.items():
            pairs = zip(side, some, strict=True)
            first, *others = (_permuted(x, orders.get(t.variables[k])) for k, x in pairs)
            products[side] = math.prod(others, start=first)
            if t.form == "joint":
                products[side] -= math.prod(t.pilot(k, strip.numbers[side]) for k in side)
        return products

    def _add(
        self, sums: TupleSums, strip: Strip, tiles: SideTiles, orders: list[Orders] | None
    ) -> None:
        """Add some whole groups, or rows that no permutation moves, at a strip of landmarks."""
        t = self.tuples
        # With their pilots added the tiles are the kernels as they are.
        factors = {
            side: [
                tiles[k,][strip.rows[side, k]] + (t.pilot(k, at) if t.form == "joint" else 0)
                for k in side
            ]
            for side, at in strip.numbers.items()
            if len(side) > 1
        }
        sides = tiles | self._products(strip, factors, {})
        count = 1 if orders is None else next(iter(sides.values())).shape[1] // self.groups.size
        norms = {
            side: _sums_of_products(*[x.reshape(len(x), count, x.shape[1] // count)] * 2)
            for side, x in sides.items()
        }
        squares = {side: x.sum(axis=1) for side, x in norms.items()}
        # Shifts leave the sums of a side as they are.
        plain = {side: x.sum(axis=1) for side, x in sides.items()}
        self._add_sides(sums.side_squares, strip, squares)
        if orders is None:
            for total in sums.sides:
                self._add_sides(total, strip, plain)
            self._add_products(sums.left_over, strip, sides, sides, {})
            return
        for (left, right), (at, rows) in zip(t.pairs, strip.pairs, strict=True):
            # Cauchy-Schwarz: no product of a group is larger, which bounds the rounding of its
            # transforms.
            both = norms[left][rows[left]] * norms[right,][rows[right,]]
            sums.squares[at] += both.sum(axis=1)
        lefts = []
        for r, moved in enumerate(orders):
            # Products of several variables are others in every coset that moves some of them.
            made = self._products(strip, factors, moved) if moved and t.form == "joint" else {}
            totals = plain | {side: x.sum(axis=1) for side, x in made.items()}
            self._add_sides(sums.sides[r], strip, totals)
            if self.orbit.shifted:
                lefts.append(sides | made)
            else:
                self._add_products(sums.cross[r, :, 0], strip, sides | made, sides, moved)
        if self.orbit.shifted:
            self._add_spectra(sums.cross, strip, lefts, sides, orders)

    def _add_sides(self, total: Tile, strip: Strip, values: dict[Side, Vector]) -> None:
        """Add values of all sides to those of the statistics, shape (F, Q)."""
        for at, rows in strip.pairs:
            for number, (side, places) in enumerate(rows.items()):
                total[number, at] += values[side][places]

    def _add_products(
        self, sums: Tile, strip: Strip, lefts: SideTiles, rights: SideTiles, moved: Orders
    ) -> None:
        """Add the sums of products under the permutations of a coset."""
        t = self.tuples
        # A right side that several statistics share is permuted once.
        shared = {
            k: _permuted(rights[k,], moved.get(t.variables[k]))
            for k in {pair.right for pair in t.pairs}
        }
        for (left, right), (at, rows) in zip(t.pairs, strip.pairs, strict=True):
            both = lefts[left][rows[left]], shared[right][rows[right,]]
            sums[at] += _sums_of_products(*both)

    def _add_spectra(
        self,
        sums: Spectrum,
        strip: Strip,
        lefts: list[SideTiles],
        rights: SideTiles,
        orders: list[Orders],
    ) -> None:
        """Add the cross-spectra: all groups are summed before they are added."""
        t, b = self.tuples, self.groups.size
        at = consecutive(place.stop - place.start for place, _ in strip.pairs)
        # All groups are summed here before the state is touched, which no cache holds: an entry
        # takes 11 ns so, and 13 to 26 where each group is added to the state.
        dtype = np.result_type(t.dtype, np.complex64)
        spectra = np.zeros((len(orders), at[-1].stop, self.frequencies), dtype)
        # Transforms are linear: cross-spectra of groups are added, and one inverse transform in the
        # end gives all shifts.
        for g in range(next(iter(rights.values())).shape[1] // b):
            group = slice(g * b, (g + 1) * b)
            first: dict[tuple[Side, int], Spectrum] = {}
            for r, moved in enumerate(orders):
                second: dict[int, Spectrum] = {}
                for (left, right), (_, rows), place in zip(t.pairs, strip.pairs, at, strict=True):
                    # A single left variable is moved by no coset, and its transform serves all; a
                    # product of several is another in each.
                    key = left, r if t.form == "joint" and len(left) > 1 else 0
                    if key not in first:
                        # conj(F f) F h is the transform of sum_i f(i) h(i + k).
                        first[key] = np.conj(scipy.fft.rfft(lefts[r][left][:, group], axis=1))
                    if right not in second:
                        places = moved.get(t.variables[right])
                        rows_of = group if places is None else places[group]
                        second[right] = scipy.fft.rfft(rights[right,][:, rows_of], axis=1)
                    spectra[r, place] += first[key][rows[left]] * second[right][rows[right,]]
        for (place, _), part in zip(strip.pairs, at, strict=True):
            sums[:, place] += spectra[:, part]


def _sums_of_products(left: Tile, right: Tile) -> Tile:
    """Sums over rows, the last axis, of the products of two tiles, in double precision.

    Short sums of float32 keep their digits, and are many times quicker than a conversion.
    """
    sums = np.zeros(left.shape[:-1])
    for start in range(0, left.shape[-1], TILE_ROWS):
        at = np.s_[..., start : start + TILE_ROWS]
        sums += np.vecdot(left[at], right[at])
    return sums


class PointMoments(NamedTuple):
    """Moments of the data as they are, at the q landmarks of a statistic."""

    u: Vector
    """kappa_J - prod_m kappa_m; of products of centred kernels the covariance of both sides."""
    means: Vector
    """kappa_m of the kernels of the pair, shape (M, q)."""
    squares: Vector
    """Means of their squares."""


def means_of(tuples: Tuples, moments: Sequence[PointMoments]) -> list[Vector]:
    """Means of all kernels at the landmarks where statistics need them, shapes (p,)."""
    means = [np.zeros(len(pilots)) for pilots in tuples.pilots]
    for (left, right), kept, found in zip(tuples.pairs, tuples.kept, moments, strict=True):
        for k, some in zip((*left, right), found.means, strict=True):
            means[k][kept] = some
    return means


@dataclass(frozen=True)
class Pointwise(Statistic[TupleSums]):
    """T = n |u|^2 of every statistic, with u its function at the landmarks.

    Parameters
    ----------
    tuples : Tuples
        The functions.
    norms : tuple of callable
        The squared norm of every statistic, of functions (q, N) at its landmarks. Its root obeys
        the triangle inequality, so that it tells how errors grow.
    """

    tuples: Tuples
    norms: tuple[Norm, ...]

    def __len__(self) -> int:
        return len(self.norms)

    def part(self, numbers: Sequence[int]) -> Self:
        norms = tuple(self.norms[c] for c in numbers)
        return replace(self, tuples=self.tuples.part(numbers), norms=norms)

    def largest(self) -> Self:
        c = int(np.argmax(self.tuples.sizes))
        return self.part(range(c, c + 1))

    def over(self, orbit: Orbit, cosets: range) -> TuplePass:
        return TuplePass(self.tuples, orbit, cosets)

    def step(self, session: Session, reduction: Any) -> DriverStep:
        """The functions of one coset and statistic at a time, and a factor beside."""
        most, b = max(self.tuples.sizes), reduction.orbit.n_shifts
        held = reduction.state_bytes + 8 * len(self) * len(reduction.cosets) * b
        return DriverStep("solve", held + 8 * most * (_COPIES * b + 2 * most))

    def values(self, session: Session, reduction: Any, sums: TupleSums) -> Permuted:
        n, b, count = session.n, reduction.orbit.n_shifts, len(reduction.cosets)
        permuted, errors = np.empty((count * b, len(self))), np.empty(len(self))
        moments = []
        for c, norm in enumerate(self.norms):
            for r in range(count):
                u = self._functions(sums, c, r, b, n)
                permuted[r * b : (r + 1) * b, c] = n * norm(u)
                if r == 0:
                    moments.append(self._moments(sums, c, u[:, 0].copy(), n))
            errors[c] = self._rounding(sums, c, reduction.orbit, n)
        return Permuted(permuted, errors, moments)

    def _functions(self, sums: TupleSums, c: int, r: int, b: int, n: int) -> Tile:
        """U of a statistic under the b permutations of a coset, shape (q, b).

        With f and h the sides about their pilots the covariance under a permutation s is
        (1/n) sum_i f_i h_s(i) less the product of the means of f and h, which no shift changes.
        """
        t, (left, right) = self.tuples, self.tuples.pairs[c]
        at, kept = t.places[c], t.kept[c]
        cross = sums.cross[r, at]
        # Under all shifts it is a circular correlation, whose transform the pass has summed.
        u: Tile = scipy.fft.irfft(cross, b, axis=1) if b > 1 else cross.copy()
        # Rows outside of the groups stay in their places under every permutation.
        u += sums.left_over[at, None]
        u /= n
        left_mean, *about, right_mean = sums.sides[r, :, at] / n
        # Shifts move rows within a side: both means, and so their product, stay as they are.
        u -= (left_mean * right_mean)[:, None]
        # A joint test sees a dependence among the left variables, too: with L their product,
        # E prod_m k_m - prod_m kappa_m is the covariance and (E L - prod_{left} kappa_m)
        # kappa_right.
        if t.form == "joint" and len(left) > 1:
            *pilots, right_pilot = (t.pilots[k][kept] for k in (*left, right))
            mean = math.prod(pilots) + left_mean
            apart = math.prod(map(np.add, pilots, about))
            u += ((mean - apart) * (right_pilot + right_mean))[:, None]
        return u

    def _moments(self, sums: TupleSums, c: int, u: Vector, n: int) -> PointMoments:
        t, pair = self.tuples, self.tuples.pairs[c]
        kernels = (*pair.left, pair.right)
        pilots = np.array([t.pilots[k][t.kept[c]] for k in kernels])
        # The kernels by themselves are the last sides.
        last = np.s_[-len(kernels) :, t.places[c]]
        about, squares = sums.sides[0][last] / n, sums.side_squares[last] / n
        # k^2 = (k - pilot)^2 + 2 pilot (k - pilot) + pilot^2.
        return PointMoments(u, pilots + about, squares + pilots * (pilots + 2.0 * about))

    def _rounding(self, sums: TupleSums, c: int, orbit: Orbit, n: int) -> float:
        """Up to how much the root of a statistic, sqrt(n) |u|, may be wrong by rounding.

        Errors of a transform grow with the logarithm of its length, and so do those of sums in
        double precision; errors of groups are independent. Of such errors e of a covariance the
        norm of diag(e) is found by a few random signs (Hutchinson 1990), and taken times a factor
        for safety.
        """
        dtype = self.tuples.dtype
        summed = dtype if orbit.shifted else np.float64
        unit = transform_error(summed, orbit.groups.size) + tile_error(dtype)
        errors = unit * np.sqrt(sums.squares[self.tuples.places[c]]) / n
        # A fixed seed: the bound is the same in every run.
        signs = np.random.Generator(np.random.Philox(0)).choice([-1.0, 1.0], (len(errors), _PROBES))
        norm = math.sqrt(float(self.norms[c](errors[:, None] * signs).mean()))
        return math.sqrt(n) * _SAFETY * norm


@dataclass(frozen=True)
class LimitLaws(Statistic[MomentSums]):
    """T of every statistic, and its limit law: of a normal u of the same covariance.

    T = sum_k lambda_k z_k^2 with lambda_k the eigenvalues of L^-1 Cov(xi) L^-T, whose trace and
    squared Frobenius norm are the mean and half the variance of T. The mean of this law over
    permutations is (n - 2) / n times that of T: exactly for M = 2, as follows from
    E T = tr(HK_1) tr(HK_2) / (n (n - 1)), and closely for M > 2. The factor n / (n - 2) removes
    the excess of rejections that it causes at small n.

    Parameters
    ----------
    tuples : Tuples
        The statistics, whose pilots are the means of the kernels.
    whiten : tuple of callable
        Takes functions (q, N) at the landmarks of a statistic to those whose sums of squares are
        its squared norms.
    null : Gamma or Spectral
        The law.
    """

    tuples: Tuples
    whiten: tuple[Norm, ...]
    null: Gamma | Spectral

    def __len__(self) -> int:
        return len(self.whiten)

    def part(self, numbers: Sequence[int]) -> Self:
        """Some of the statistics."""
        whiten = tuple(self.whiten[c] for c in numbers)
        return replace(self, tuples=self.tuples.part(numbers), whiten=whiten)

    def over(self, orbit: Orbit, cosets: range) -> MomentsPass:
        """The pass over the data as they are."""
        del cosets
        return MomentsPass(self.tuples, orbit.groups.n, name=f"{self.null.name} null")

    def step(self, session: Session, reduction: MomentsPass) -> DriverStep:
        """One covariance at a time, beside the moments of all."""
        return DriverStep("limit law", 8 * (sum(reduction.sizes) + 6 * max(self.tuples.sizes) ** 2))

    def values(self, session: Session, reduction: MomentsPass, sums: MomentSums) -> Permuted:
        """The statistics; laws are what is told of the data."""
        n, tested = session.n, list[tuple[float, Distribution]]()
        for (u, second), whiten in zip(reduction.of(sums), self.whiten, strict=True):
            covariance = whiten(whiten(second * (n / (n - 2))).T)
            check_no_overflow(covariance)
            law: Distribution
            if isinstance(self.null, Spectral):
                # Along directions near the pruning tolerance it may be negative by rounding.
                mixture = ChiSquareMixture.of(spectrum(covariance).clip(min=0.0))
                law = self.null.distribution(mixture, session.seed)
            else:
                variance = 2.0 * float(np.vdot(covariance, covariance))
                law = GammaDistribution(float(covariance.trace()), variance)
            tested.append((n * float(squared_norms(whiten(u))), law))
        return Permuted(np.array([[t for t, _ in tested]]), np.zeros(len(self)), tested)
