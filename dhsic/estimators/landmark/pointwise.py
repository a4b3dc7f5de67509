"""Statistics at landmark tuples, u_s = sum_i f_j(i) h_j(s(i)), under all permutations of an orbit.

For landmark j and two sides f_j and h_j of a statistic, the sums over a group of f_j(i) h_j(i + k)
for every shift k are one circular cross-correlation: the product of two Fourier transforms, summed
over groups, transformed back once in the end. Shifts leave the sums of either side as they are, so
that the covariance of both under a permutation needs no other sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar

import numpy as np
import scipy
from numpy.typing import DTypeLike, NDArray

from dhsic.engine.groups import RowGroups
from dhsic.engine.plan import DriverStep, PassPlan
from dhsic.engine.reduction import Footprint, GroupBlock, Pass, RowBlock
from dhsic.engine.session import Session
from dhsic.engine.tiles import Matrix, Tile, product_of_centred
from dhsic.estimators.landmark.basis import LandmarkBasis
from dhsic.estimators.resample import (
    Orbit,
    Resampled,
    TwoSided,
    orbit_of,
    suits_one_task,
    tie_tolerance,
    tile_error,
    transform_error,
)
from dhsic.kernels import Combinations
from dhsic.kernels.shared import SharedTiles, TileKernel
from dhsic.linalg import spectrum, squared_norms
from dhsic.nulls import (
    Chain,
    ChiSquareMixture,
    Distribution,
    Gamma,
    GammaDistribution,
    Permutation,
    Shifts,
    Spectral,
    check_no_overflow,
)

TermForm = Literal["product", "centred", "joint"]
Indices = NDArray[np.intp]
Vector = NDArray[np.float64]

_FEWEST = 16  # landmarks of a kernel in a strip
_PILOT_ROWS = 256


def form_of(null: object) -> TermForm:
    """That of a test: a stage of a chain takes the variables before it together."""
    return "product" if isinstance(null, Chain) else "joint"


class TupleKernel(TileKernel, Protocol):
    """A `Kernel`, or any function of landmarks and rows like it."""

    def columns(self, z: NDArray[Any], dtype: DTypeLike) -> Matrix:
        """Prepare rows of data (b, d) for tiles whose rows are landmarks."""
        ...

    def width(self, d: int) -> int:
        """Columns of prepared rows of d columns."""
        ...


@dataclass(frozen=True)
class Tuples:
    """Two-sided statistics at landmark tuples, each at the landmarks that it keeps.

    Parameters
    ----------
    kernels : tuple of TupleKernel
        All K of them, fitted.
    variables : tuple of int
        The number of the variable that each is for, shape (K,).
    landmarks : tuple of ndarray, shapes (p, d_m)
        Those of every kernel, shape (K,); kernels of a variable may share them.
    pairs : tuple of TwoSided
        The statistics, C of them.
    kept : tuple of ndarray of int
        The numbers of the landmarks of each, ascending.
    pilots : tuple of ndarray, shapes (p,)
        About the mean of every kernel at the landmarks, so that no digits cancel in the sums.
    dtype : dtype
        Precision of the tiles.
    form : {"product", "centred", "joint"}, optional
        The statistics measure the covariance of both sides, where a side of several kernels is
        their product, or is their product about their means; or they measure the mean of the
        product of all kernels less the product of their means, kappa_J - prod_m kappa_m.
    """

    kernels: tuple[TupleKernel, ...]
    variables: tuple[int, ...]
    landmarks: tuple[Matrix, ...]
    pairs: tuple[TwoSided, ...]
    kept: tuple[Indices, ...]
    pilots: tuple[Tile, ...]
    dtype: np.dtype[Any]
    form: TermForm = "product"

    @classmethod
    def at(
        cls,
        basis: LandmarkBasis,
        pairs: Sequence[TwoSided],
        dtype: DTypeLike,
        form: TermForm = "product",
    ) -> Tuples:
        """At the landmarks that every statistic keeps, with pilot means over other rows."""
        kernels, variables = basis.combinations.kernels, basis.combinations.variables
        landmarks = tuple(basis.landmarks.points[m] for m in variables)
        # Kernels about their means over a few rows are small, so that their sums of products keep
        # digits.
        pilots = tuple(
            kernel(z, basis.samples[m][:_PILOT_ROWS]).mean(axis=1)
            for kernel, z, m in zip(kernels, landmarks, variables, strict=True)
        )
        # Statistics of one combination share its landmarks, as three factorisations do.
        kept = basis.kept * (len(pairs) // len(basis.kept))
        return cls(kernels, variables, landmarks, tuple(pairs), kept, pilots, np.dtype(dtype), form)

    @classmethod
    def unseen(
        cls,
        guessed: Combinations,
        dims: Sequence[int],
        p: int,
        pairs: Sequence[TwoSided],
        dtype: DTypeLike,
        form: TermForm = "product",
    ) -> Tuples:
        """At p landmarks that all are kept, which take no memory: for plans."""
        zero = np.float64(0.0)
        # Kernels of a variable share its landmarks, which count once.
        points = [np.broadcast_to(zero, (p, d)) for d in dims]
        return cls(
            guessed.kernels,
            guessed.variables,
            tuple(points[m] for m in guessed.variables),
            tuple(pairs),
            (np.arange(p),) * len(pairs),
            (np.broadcast_to(zero, p),) * len(guessed.kernels),
            np.dtype(dtype),
            form,
        )

    def about(self, means: Sequence[Tile]) -> Tuples:
        """With other pilots, shapes (p,)."""
        return replace(self, pilots=tuple(means))

    def part(self, numbers: Sequence[int]) -> Tuples:
        """Some of the statistics."""
        pairs = tuple(self.pairs[c] for c in numbers)
        part = replace(self, pairs=pairs, kept=tuple(self.kept[c] for c in numbers))
        # Every pair of kernels was compared for it, which takes long where they are many.
        part.__dict__["shared"] = self.shared
        return part

    @property
    def n_landmarks(self) -> int:
        """Landmarks of all statistics together, p."""
        return len(self.landmarks[0])

    @cached_property
    def starts(self) -> list[int]:
        """Where the landmarks of every statistic begin among all of them, and where they end."""
        return list(accumulate(map(len, self.kept), initial=0))

    @cached_property
    def sides(self) -> dict[tuple[int, ...], Indices]:
        """Every side of a statistic, as the kernels whose product it is, with its landmarks."""
        each: dict[tuple[int, ...], list[Indices]] = {}
        for (left, right), kept in zip(self.pairs, self.kept, strict=True):
            # Kernels of a product by themselves too, for their means.
            for side in dict.fromkeys([left, *((k,) for k in left), (right,)]):
                each.setdefault(side, []).append(kept)
        return {side: self._union(kept) for side, kept in each.items()}

    @cached_property
    def side_places(self) -> dict[tuple[int, ...], slice]:
        """Where the landmarks of every side are among those of all sides."""
        ends = accumulate(map(len, self.sides.values()), initial=0)
        return {side: slice(*both) for side, both in zip(self.sides, pairwise(ends), strict=True)}

    @property
    def n_side_values(self) -> int:
        """Landmarks of all sides together."""
        return sum(map(len, self.sides.values()))

    @cached_property
    def shared(self) -> SharedTiles:
        """How the tiles of the kernels come from each other."""
        return SharedTiles(self.kernels, self.variables)

    @cached_property
    def roots(self) -> dict[int, int]:
        """The kernel from whose tile that of each kernel comes."""
        roots = {k: k for k in self.shared.roots}
        for power in self.shared.powers:
            roots[power.k] = roots[power.source]
        return roots

    @cached_property
    def computed(self) -> frozenset[int]:
        """Kernels that sides have, and those that their tiles follow from."""
        return self.shared.sources({k for side in self.sides for k in side})

    @cached_property
    def needed(self) -> dict[int, Indices]:
        """Landmarks at which each root that is used is computed, ascending."""
        needed: dict[int, list[Indices]] = {}
        for side, at in self.sides.items():
            for k in side:
                needed.setdefault(self.roots[k], []).append(at)
        return {root: self._union(at) for root, at in sorted(needed.items())}

    @cached_property
    def needed_columns(self) -> int:
        """Columns of prepared rows of all these roots."""
        return sum(map(self.width, self.needed))

    def _union(self, landmarks: Sequence[Indices]) -> Indices:
        """Those in any, ascending; many statistics have the same array."""
        held = np.zeros(self.n_landmarks, bool)
        for at in {id(numbers): numbers for numbers in landmarks}.values():
            held[at] = True
        return np.flatnonzero(held)

    @cached_property
    def points(self) -> dict[int, Matrix]:
        """These landmarks, prepared for tiles whose rows they are."""
        return {
            k: self.kernels[k].rows(self.landmarks[k][at], self.dtype)
            for k, at in self.needed.items()
        }

    def width(self, k: int) -> int:
        """Columns of prepared rows of a kernel."""
        return self.kernels[k].width(self.landmarks[k].shape[1])

    @cached_property
    def nbytes(self) -> int:
        """Bytes of landmarks, pilots and choices; of landmarks also as they are prepared."""
        arrays = {id(x): x for x in (*self.landmarks, *self.pilots, *self.kept)}.values()
        prepared = sum(len(at) * self.width(k) for k, at in self.needed.items())
        return sum(array.nbytes for array in arrays) + self.dtype.itemsize * prepared

    def cuts(self, size: int) -> list[int]:
        """Where to cut the landmarks into strips of about so many landmarks of all roots."""
        total = sum(map(len, self.needed.values()))
        most = max(1, total // (_FEWEST * len(self.needed)))
        count = min(most, -(-total // size))
        return [self.n_landmarks * i // count for i in range(count + 1)]


class StripPlace(NamedTuple):
    """Where a statistic has the landmarks of a strip."""

    at: slice
    """Its values among those of all statistics."""
    kept: slice
    """Its landmarks among those that it keeps."""
    left: Indices | slice
    """Their values among those of its left side."""
    right: Indices | slice
    """Their values among those of its right side."""
    members: tuple[Indices | slice, ...]
    """Their rows in the tile of every kernel, those of the left side first."""


class Strip(NamedTuple):
    """Some of the landmarks: where each root, side and statistic has them."""

    roots: dict[int, slice]
    """Its landmarks among those that a root needs."""
    sides: dict[tuple[int, ...], tuple[slice, list[Indices | slice]]]
    """Its values among those of all sides, and for each of its kernels the rows of the root."""
    pairs: list[StripPlace]
    """The place of every statistic."""

    @classmethod
    def of(cls, tuples: Tuples, start: int, stop: int) -> Strip:
        """The landmarks start..stop-1."""

        # Landmarks ascend, so that those of a strip are a slice of any list.
        def within(at: Indices) -> slice:
            return slice(*np.searchsorted(at, [start, stop]).tolist())

        roots = {k: within(at) for k, at in tuples.needed.items()}
        local = {k: tuples.needed[k][at] for k, at in roots.items()}
        its = {side: at[within(at)] for side, at in tuples.sides.items()}
        sides = {}
        for side, at in its.items():
            begin = tuples.side_places[side].start + within(tuples.sides[side]).start
            members = [_places_among(local[tuples.roots[k]], at) for k in side]
            sides[side] = slice(begin, begin + len(at)), members
        places = []
        for (left, right), kept, begin in zip(
            tuples.pairs, tuples.kept, tuples.starts, strict=False
        ):
            kept_range = within(kept)
            left_places, other = (
                _places_among(its[left], kept[kept_range]),
                _places_among(its[right,], kept[kept_range]),
            )
            members = [
                _places_among(local[tuples.roots[k]], kept[kept_range]) for k in (*left, right)
            ]
            place = slice(begin + kept_range.start, begin + kept_range.stop)
            places.append(StripPlace(place, kept_range, left_places, other, tuple(members)))
        return cls(roots, sides, places)


def _places_among(among: Indices, wanted: Indices) -> Indices | slice:
    """Places of ascending numbers among others: all, or one after another."""
    return slice(None) if len(among) == len(wanted) else np.searchsorted(among, wanted)


SideTiles = dict[tuple[int, ...], Tile]
Orders = Mapping[int, Indices]

LANDMARK_TILE_ROWS = 1024  # of a tile, where they need not be whole groups
_CACHE_BYTES = 2**20  # of what strips of landmarks take


class Term(NamedTuple):
    """The terms of a statistic at a strip of landmarks."""

    number: int
    """The number of the statistic."""
    at: slice
    """Where its landmarks are among those of all statistics."""
    xi: Tile
    """A number for every landmark and row, shape (q, rows)."""


@dataclass(frozen=True)
class TupleTiles:
    """Tiles at strips of landmarks that stay in the cache.

    Parameters
    ----------
    tuples : Tuples
        The statistics.
    width : int
        Real numbers that a landmark of a strip takes in the cache.
    """

    tuples: Tuples
    width: int

    @cached_property
    def cuts(self) -> list[int]:
        """Where strips begin and the last one ends, among all landmarks."""
        size = self.tuples.dtype.itemsize * self.width
        return self.tuples.cuts(max(1, _CACHE_BYTES // size))

    @cached_property
    def strips(self) -> list[Strip]:
        """Strips of all landmarks."""
        return [Strip.of(self.tuples, *both) for both in pairwise(self.cuts)]

    def scratch_bytes(self, rows: int) -> int:
        """Bytes of the tiles of so many rows, of their sides and of prepared rows."""
        t = self.tuples
        work = 1 + max(t.kernels[k].work_tiles for k in t.needed)
        widest = max(int(lengths.max()) for lengths in self._roots.values())
        tiles = int(np.sum([self._roots[t.roots[k]] for k in t.computed], axis=0).max())
        columns = t.needed_columns
        entries = t.dtype.itemsize * (tiles + work * widest + self.most_sides + self._most_factors)
        return rows * int(entries + 3 * t.dtype.itemsize * columns)

    @cached_property
    def most_sides(self) -> int:
        """Values of all sides at a strip."""
        return int(np.sum(list(self._sides.values()), axis=0).max())

    @property
    def _most_factors(self) -> int:
        """Values of what products are made of at a strip."""
        factors = [len(side) * lengths for side, lengths in self._sides.items() if len(side) > 1]
        return int(np.sum(factors, axis=0).max()) if factors else 0

    @cached_property
    def most_terms(self) -> int:
        """Values of all statistics at a strip."""
        return int(np.sum([self._in_strips(kept) for kept in self.tuples.kept], axis=0).max())

    @cached_property
    def _roots(self) -> dict[int, Indices]:
        """Landmarks of every root kernel at every strip."""
        return {k: self._in_strips(at) for k, at in self.tuples.needed.items()}

    @cached_property
    def _sides(self) -> dict[tuple[int, ...], Indices]:
        """Values of every side at every strip."""
        return {side: self._in_strips(at) for side, at in self.tuples.sides.items()}

    def _in_strips(self, landmarks: Indices) -> Indices:
        """How many of some landmarks, ascending, each strip has; quicker than the strips are."""
        return np.diff(np.searchsorted(landmarks, self.cuts))

    def of(self, values: Sequence[Matrix]) -> Iterator[tuple[Strip, dict[int, Tile]]]:
        """Kernels about their pilots at every strip, (r, rows) each, by number.

        The next strip overwrites them: fresh memory for every tile costs a tenth of the time where
        the allocator hands it back to the system, as it is told to on Dask's workers.
        """
        t, rows = self.tuples, len(values[0])
        columns = {k: t.kernels[k].columns(values[t.variables[k]], t.dtype) for k in t.needed}
        lengths = list(self._roots.values())
        most = max(t.kernels[k].work_tiles for k in t.needed)
        made = np.empty((int(np.sum(lengths, axis=0).max()), rows), t.dtype)
        worked = np.empty((most, int(np.max(lengths)), rows), t.dtype)
        for strip in self.strips:
            tiles: dict[int, Tile] = {}
            begin = 0
            for k, at in strip.roots.items():
                tiles[k] = made[begin : begin + length(at)]
                begin += length(at)
                work = worked[: t.kernels[k].work_tiles, : length(at)]
                t.kernels[k].tile(t.points[k][at], columns[k], tiles[k], work)
            # Powers are taken of the values themselves, before their pilots are taken off.
            for power in t.shared.powers:
                if power.k in t.computed:
                    tiles[power.k] = power.of(tiles[power.source])
            for k, tile in tiles.items():
                root = t.roots[k]
                # What is left about the pilots is small, so that sums of its products keep their
                # digits.
                tile -= self._pilot(k, t.needed[root][strip.roots[root]])
            yield strip, tiles

    def sides(self, strip: Strip, tiles: Mapping[int, Tile]) -> SideTiles:
        """All sides about their pilots, (r, rows) each."""
        return {side: self.side(side, strip, tiles) for side in self.tuples.sides}

    def side(self, side: tuple[int, ...], strip: Strip, tiles: Mapping[int, Tile]) -> Tile:
        """The product of kernels less that of their pilots, or of these about their pilots."""
        if len(side) == 1:
            single: Tile = tiles[side[0]][strip.sides[side][1][0]]
            return single
        return self.product(side, strip, self.factors(side, strip, tiles), {})

    def factors(self, side: tuple[int, ...], strip: Strip, tiles: Mapping[int, Tile]) -> list[Tile]:
        """The factors of the product of several kernels, (r, rows) each."""
        members = zip(side, strip.sides[side][1], strict=True)
        if self.tuples.form == "centred":
            return [tiles[k][kept] for k, kept in members]
        at = self._landmarks(side, strip)
        # With their pilots added the tiles are the kernels as they are.
        return [tiles[k][kept] + self._pilot(k, at) for k, kept in members]

    def product(
        self, side: tuple[int, ...], strip: Strip, factors: Sequence[Tile], orders: Orders
    ) -> Tile:
        """As `side`, from its factors with rows in the `orders` of their variables."""
        moved = [
            permuted(values, orders[m]) if (m := self.tuples.variables[k]) in orders else values
            for k, values in zip(side, factors, strict=True)
        ]
        product: Tile = moved[0] * moved[1]
        for values in moved[2:]:
            product *= values
        if self.tuples.form != "centred":
            # Less the product of the pilots, so that the side is small.
            at = self._landmarks(side, strip)
            product -= math.prod(self._pilot(k, at) for k in side)
        return product

    def terms(self, strip: Strip, tiles: Mapping[int, Tile]) -> Iterator[Term]:
        """The centred terms xi of every joint statistic, where pilots are the kernels' means."""
        t = self.tuples
        for number, ((left, right), place) in enumerate(zip(t.pairs, strip.pairs, strict=True)):
            # A strip may hold no landmark that this statistic keeps.
            if length(place.at) == 0:
                continue
            members, kept = (*left, right), t.kept[number][place.kept]
            copies = [tiles[k][at].copy() for k, at in zip(members, place.members, strict=True)]
            # Mean over all rows u = kappa_J - prod_m kappa_m, as nothing large cancels.
            xi = product_of_centred(copies, [self._pilot(k, kept) for k in members])
            yield Term(number, place.at, xi)

    def _pilot(self, k: int, at: Indices) -> Tile:
        """Pilots at some landmarks, shape (r, 1)."""
        return self.tuples.pilots[k][at, None].astype(self.tuples.dtype)

    def _landmarks(self, side: tuple[int, ...], strip: Strip) -> Indices:
        """Those of a side in a strip."""
        at, begin = strip.sides[side][0], self.tuples.side_places[side].start
        return self.tuples.sides[side][at.start - begin : at.stop - begin]


def length(at: slice) -> int:
    """Numbers in a slice with both ends."""
    return int(at.stop - at.start)


def permuted(values: Tile, orders: Indices) -> Tile:
    """Values (r, groups b) in other orders (groups, b) within groups."""
    count, b = orders.shape
    at = (orders + b * np.arange(count)[:, None]).ravel()
    moved: Tile = values.take(at, axis=1, mode="clip")
    return moved


Spectrum = NDArray[np.complexfloating[Any, Any]]

_GROUPS_AT_ONCE = 8


class TupleSums(NamedTuple):
    """Sums over rows for two-sided statistics under some cosets of an orbit."""

    cross: Tile
    """Both sides about their pilots: cross-spectra, shape (R, Q, b // 2 + 1), or without shifts
    the sums of products themselves, shape (R, Q, 1)."""
    left_over: Tile
    """Products of both sides over the rows that are in no group, shape (Q,)."""
    sides: Tile
    """Every side about its pilot, shape (R, S)."""
    side_squares: Vector
    """The squares of every side about its pilot, shape (S,)."""
    squares: Vector
    """Sums over groups of the squared norms of both sides multiplied, shape (Q,)."""

    @classmethod
    def zeros(cls, tuples: Tuples, cosets: int, frequencies: int = 0) -> TupleSums:
        """Sums of no rows yet; without frequencies, those of the data as they are."""
        q, s = tuples.starts[-1], tuples.n_side_values
        transformed = np.zeros((cosets, q, frequencies), np.complex128)
        return cls(
            transformed if frequencies else np.zeros((cosets, q, 1)),
            np.zeros(q),
            np.zeros((cosets, s)),
            np.zeros(s),
            np.zeros(q),
        )

    def add_still(
        self, tuples: Tuples, strip: Strip, side_tiles: SideTiles, *, products: bool = True
    ) -> None:
        """Add rows that no permutation moves, by their sides at a strip of landmarks."""
        for side, (at, _) in strip.sides.items():
            self.sides[:, at] += side_tiles[side].sum(axis=1)
            self.side_squares[at] += _squared_row_norms(side_tiles[side])
        for place, pair in zip(strip.pairs, tuples.pairs, strict=True) if products else ():
            left, right = side_tiles[pair.left][place.left], side_tiles[pair.right,][place.right]
            self.left_over[place.at] += _sums_of_products(left, right)


@dataclass(frozen=True)
class MeansPass(Pass[TupleSums]):
    """The sums of the data as they are, in blocks of consecutive rows.

    Parameters
    ----------
    tuples : Tuples
        The statistics.
    products : bool, optional
        Whether the sums of the products of both sides are asked for.
    """

    tuples: Tuples
    products: bool = True
    name: str = "kernel sums"

    @cached_property
    def tiles(self) -> TupleTiles:
        """Tiles of some rows."""
        return TupleTiles(self.tuples, LANDMARK_TILE_ROWS)

    def footprint(self, rows: int) -> Footprint:
        """Cost of a block of so many rows."""
        t = self.tuples
        q, s = t.starts[-1], t.n_side_values
        return Footprint(
            payload=t.nbytes,
            scratch=self.tiles.scratch_bytes(min(rows, LANDMARK_TILE_ROWS)),
            state=24 * q + 16 * s,
        )

    def chunk(self, block: RowBlock) -> TupleSums:
        """Sums over one block."""
        sums = TupleSums.zeros(self.tuples, 1)
        for start in range(0, block.rows, LANDMARK_TILE_ROWS):
            for strip, tiles in self.tiles.of(
                [x[start : start + LANDMARK_TILE_ROWS] for x in block.values]
            ):
                sides = self.tiles.sides(strip, tiles)
                sums.add_still(self.tuples, strip, sides, products=self.products)
        return sums


@dataclass(frozen=True)
class TupleOrbitPass(Pass[TupleSums]):
    """All sums of `TupleSums`, in one pass.

    Parameters
    ----------
    tuples : Tuples
        The statistics. Cosets move the variables of the right sides, and where statistics are joint
        those of the left sides as well, but for the first.
    orbit : Orbit
        The permutations.
    cosets : tuple of int
        Those of the orbit that are computed.
    """

    tuples: Tuples
    orbit: Orbit
    cosets: tuple[int, ...]

    @property
    def name(self) -> str:
        """The null distribution."""
        return "shifts" if self.orbit.shifted else "permutation null"

    @property
    def groups(self) -> RowGroups:
        """The groups of all rows."""
        return self.orbit.groups

    @property
    def frequencies(self) -> int:
        """Complex numbers of a transform; 0 without shifts."""
        if not self.orbit.shifted:
            return 0
        return self.groups.size // 2 + 1

    @cached_property
    def tiles(self) -> TupleTiles:
        """Tiles of some groups, whose transforms stay in the cache."""
        entries = 2 * self.frequencies if self.orbit.shifted else self.groups.size
        return TupleTiles(self.tuples, entries)

    @cached_property
    def moved(self) -> tuple[int, ...]:
        """Variables that cosets permute."""
        moved = {pair.right for pair in self.tuples.pairs}
        if self.tuples.form == "joint":
            # A joint test permutes all variables but the first.
            moved |= {k for pair in self.tuples.pairs for k in pair.left[1:]}
        return tuple(sorted({self.tuples.variables[k] for k in moved}))

    def footprint(self, rows: int) -> Footprint:
        """Cost of a block of so many rows."""
        t, cosets = self.tuples, len(self.cosets)
        q, s = t.starts[-1], t.n_side_values
        tile_rows = min(rows, _GROUPS_AT_ONCE * self.groups.size)
        sides, terms = self.tiles.most_sides, self.tiles.most_terms
        if self.orbit.shifted:
            length = t.dtype.itemsize * 2 * self.frequencies
            work = length * (2 * sides + (cosets + 1) * terms)
            state = 16 * self.frequencies * q * cosets
        else:
            work = t.dtype.itemsize * tile_rows * (sides + 2 * terms)
            state = 8 * q * cosets
        return Footprint(
            payload=t.nbytes,
            scratch=self.tiles.scratch_bytes(tile_rows)
            + work
            + 8 * tile_rows * (cosets + 2) * len(self.moved),
            state=state + 8 * (cosets + 1) * s + 16 * q,
        )

    def chunk(self, block: GroupBlock) -> TupleSums:
        """Sums over a run of groups."""
        t, b = self.tuples, self.groups.size
        sums = TupleSums.zeros(t, len(self.cosets), self.frequencies)
        for start in range(0, block.n_groups, _GROUPS_AT_ONCE):
            stop = min(start + _GROUPS_AT_ONCE, block.n_groups)
            orders = self._orders(block.first + start, stop - start)
            for strip, tiles in self.tiles.of([x[start * b : stop * b] for x in block.values]):
                self._add_groups(sums, strip, tiles, orders)
        if block.n_left:
            for strip, tiles in self.tiles.of([x[block.n_groups * b :] for x in block.values]):
                sums.add_still(t, strip, self.tiles.sides(strip, tiles))
        return sums

    def _orders(self, first: int, count: int) -> list[Orders]:
        """The orders of groups by variable, for every coset; none where it is the identity."""
        return [
            {m: self.orbit.orders(coset, first, count, m) for m in self.moved if coset}
            for coset in self.cosets
        ]

    def _add_groups(
        self, sums: TupleSums, strip: Strip, tiles: Mapping[int, Tile], orders: Sequence[Orders]
    ) -> None:
        """Add what some whole groups contribute at a strip of landmarks."""
        t, b = self.tuples, self.groups.size
        side_tiles = self.tiles.sides(strip, tiles)
        norms = {
            side: _squared_row_norms(x.reshape(len(x), x.shape[1] // b, b))
            for side, x in side_tiles.items()
        }
        for side, (at, _) in strip.sides.items():
            sums.side_squares[at] += norms[side].sum(axis=1)
        for place, pair in zip(strip.pairs, t.pairs, strict=True):
            # Cauchy-Schwarz: no product of a group is larger, which bounds the rounding of its
            # transforms.
            both = norms[pair.left][place.left] * norms[pair.right,][place.right]
            sums.squares[place.at] += both.sum(axis=1)
        # Shifts leave the sums of a side as they are.
        plain = {side: x.sum(axis=1) for side, x in side_tiles.items()}
        several = [side for side in side_tiles if len(side) > 1 and t.form == "joint"]
        factors = {side: self.tiles.factors(side, strip, tiles) for side in several}
        lefts = []
        for r, moved in enumerate(orders):
            products = {
                side: self.tiles.product(side, strip, factors[side], moved)
                for side in several
                if moved
            }
            totals = plain | {side: x.sum(axis=1) for side, x in products.items()}
            for side, (at, _) in strip.sides.items():
                sums.sides[r, at] += totals[side]
            if self.orbit.shifted:
                lefts.append(side_tiles | products)
            else:
                self._add_products(
                    sums.cross[r, :, 0], strip, side_tiles | products, side_tiles, moved
                )
        if self.orbit.shifted:
            self._add_spectra(sums.cross, strip, lefts, side_tiles, orders)

    def _add_products(
        self, sums: Tile, strip: Strip, lefts: SideTiles, rights: SideTiles, moved: Orders
    ) -> None:
        """Add the sums of products under the permutations of a coset."""
        t = self.tuples
        moved_rights: dict[int, Tile] = {}
        for pair, place in zip(t.pairs, strip.pairs, strict=True):
            # A right side that several statistics share is permuted once.
            if pair.right not in moved_rights:
                right_tile, order = rights[pair.right,], moved.get(t.variables[pair.right])
                moved_rights[pair.right] = (
                    right_tile if order is None else permuted(right_tile, order)
                )
            left, right = lefts[pair.left][place.left], moved_rights[pair.right][place.right]
            sums[place.at] += _sums_of_products(left, right)

    def _add_spectra(
        self,
        sums: Spectrum,
        strip: Strip,
        lefts: Sequence[SideTiles],
        rights: SideTiles,
        orders: Sequence[Orders],
    ) -> None:
        """Add the cross-spectra: all groups are summed before they are added.

        Transforms of a left side that no coset moves serve all of them.
        """
        t, b = self.tuples, self.groups.size
        dtype = np.result_type(t.dtype, np.complex64)
        ends = list(accumulate((length(place.at) for place in strip.pairs), initial=0))
        # All groups are summed here before the state is touched, which no cache holds: an entry
        # takes 11 ns so, and 13 to 26 where each group is added to the state.
        spectra = np.zeros((len(orders), ends[-1], self.frequencies), dtype)
        # Transforms are linear: cross-spectra of groups are added, and one inverse transform in the
        # end gives all shifts.
        for g in range(next(iter(rights.values())).shape[1] // b):
            group = slice(g * b, (g + 1) * b)
            first: dict[Any, Spectrum] = {}
            for r, moved in enumerate(orders):
                second: dict[int, Spectrum] = {}
                for (left, right), place, start, stop in zip(
                    t.pairs, strip.pairs, ends, ends[1:], strict=False
                ):
                    # A single left variable is moved by no coset; a product of several is another
                    # in each.
                    key = left, r if t.form == "joint" and len(left) > 1 else 0
                    if key not in first:
                        # conj(F f) F h is the transform of sum_i f(i) h(i + k).
                        first[key] = _reversed_transform(lefts[r][left][:, group])
                    if right not in second:
                        x, order = rights[right,][:, group], moved.get(t.variables[right])
                        second[right] = _transform_rows(x if order is None else x[:, order[g]])
                    spectra[r, start:stop] += first[key][place.left] * second[right][place.right]
        for place, start, stop in zip(strip.pairs, ends, ends[1:], strict=False):
            sums[:, place.at] += spectra[:, start:stop]


def _transform_rows(values: Tile) -> Spectrum:
    """Along rows, of which half of the frequencies say all."""
    spectrum: Spectrum = scipy.fft.rfft(values, axis=1)
    return spectrum


def _reversed_transform(values: Tile) -> Spectrum:
    """The transform of the rows in reverse order, with which a product is a correlation."""
    return np.conj(_transform_rows(values))


def _sums_of_products(left: Tile, right: Tile) -> Tile:
    """Sums over rows of the products of two tiles, shape (r,), in double precision.

    Short sums of float32 keep their digits, and are many times quicker than a conversion.
    """
    sums = np.zeros(len(left))
    if sums.dtype == left.dtype:
        return np.vecdot(left, right, out=sums)
    for start in range(0, left.shape[1], LANDMARK_TILE_ROWS):
        at = slice(start, start + LANDMARK_TILE_ROWS)
        sums += np.vecdot(left[:, at], right[:, at])
    return sums


def _squared_row_norms(values: Tile) -> Vector:
    """Sums over the last axis of the squares."""
    values = np.ascontiguousarray(values)
    norms: Vector = np.vecdot(values, values).astype(np.float64, copy=False)
    return norms


class Moments(NamedTuple):
    """Moments of the data as they are, at the landmarks."""

    kappa: Tile
    """Means of the kernels where statistics need them, shape (K, p)."""
    squares: Vector
    """Means of their squares."""
    u: list[Tile]
    """kappa_J - prod_m kappa_m of every statistic, shapes (q,); of products of centred kernels
    the covariance of both sides."""


def functions_of(
    part: Tuples, sums: TupleSums, kappa: Tile, c: int, r: int, b: int, n: int
) -> Tile:
    """U of a statistic under the b permutations of a coset, shape (q, b)."""
    covariances = _covariances(part, sums, c, r, b, n)
    # A joint test sees a dependence among the left variables, too.
    if part.form == "joint":
        covariances += joint_offset(part, sums, kappa, c, r, n)[:, None]
    return covariances


def joint_offset(part: Tuples, sums: TupleSums, kappa: Tile, c: int, r: int, n: int) -> Tile:
    """E prod_m k_m - prod_m kappa_m less the covariance of both sides, shape (q,).

    With L the product of the left side it is (E L - prod_{m in left} kappa_m) kappa_right.
    """
    (left, right), kept = part.pairs[c], part.kept[c]
    apart: Tile = kappa[list(left)][:, kept].prod(axis=0)
    offset: Tile = (_left_mean(part, sums, c, r, n) - apart) * kappa[right, kept]
    return offset


def _covariances(part: Tuples, sums: TupleSums, c: int, r: int, b: int, n: int) -> Tile:
    """Covariances of both sides under every permutation of a coset, shape (q, b).

    With f and h the sides about their pilots the covariance under a permutation s is
    (1/n) sum_i f_i h_s(i) less the product of the means of f and h, which no shift changes.
    """
    pair, at = part.pairs[c], slice(part.starts[c], part.starts[c + 1])
    cross = sums.cross[r, at]
    covariances: Tile = cross.copy()
    # Under all shifts it is a circular correlation, whose transform the pass has summed.
    if b > 1:
        covariances = scipy.fft.irfft(cross, b, axis=1)
    # Rows outside of the groups stay in their places under every permutation.
    covariances += sums.left_over[at, None]
    covariances /= n
    left, right = (mean_about_pilot(part, sums, c, s, r, n) for s in (pair.left, (pair.right,)))
    # Shifts move rows within a side: both means, and so their product, stay as they are.
    covariances -= (left * right)[:, None]
    return covariances


def mean_about_pilot(
    part: Tuples, sums: TupleSums, c: int, side: tuple[int, ...], r: int, n: int
) -> Tile:
    """The mean of a side less its pilot at the landmarks of a statistic, shape (q,)."""
    at = np.searchsorted(part.sides[side], part.kept[c])
    means: Tile = sums.sides[r, part.side_places[side]][at] / n
    return means


def _left_mean(part: Tuples, sums: TupleSums, c: int, r: int, n: int) -> Tile:
    """The mean of the left side, shape (q,)."""
    left = part.pairs[c].left
    pilot = math.prod(part.pilots[k][part.kept[c]] for k in left)
    mean: Tile = pilot + mean_about_pilot(part, sums, c, left, r, n)
    return mean


def no_moments(tuples: Tuples) -> Moments:
    """Zeros, to be written part after part."""
    shape = len(tuples.kernels), tuples.n_landmarks
    empty = np.empty(0)
    return Moments(np.zeros(shape), np.zeros(shape), [empty] * len(tuples.pairs))


def write_means(moments: Moments, part: Tuples, sums: TupleSums, n: int) -> None:
    """Write the means of single kernels and of their squares."""
    for side, at in part.sides.items():
        if len(side) == 1:
            (k,), place, pilot = side, part.side_places[side], part.pilots[side[0]][at]
            about = sums.sides[0, place] / n
            moments.kappa[k, at] = pilot + about
            # k^2 = (k - pilot)^2 + 2 pilot (k - pilot) + pilot^2.
            squares = sums.side_squares[place] / n + pilot * (pilot + 2.0 * about)
            moments.squares[k, at] = squares


def measured(tuples: Tuples, sums: TupleSums, n: int) -> Moments:
    """The moments of the data as they are."""
    moments = no_moments(tuples)
    write_means(moments, tuples, sums, n)
    for c in range(len(tuples.pairs)):
        functions = functions_of(tuples, sums, moments.kappa, c, 0, 1, n)
        write_joint(moments, tuples, sums, c, c, functions[:, 0], n)
    return moments


def write_joint(
    moments: Moments, part: Tuples, sums: TupleSums, place: int, c: int, tested: Tile, n: int
) -> None:
    """Write u of statistic number c, which a part has at a place, from what the test takes."""
    moments.u[c] = tested.copy()
    # A test of both sides leaves the offset out, which the estimate has.
    if part.form == "product":
        moments.u[c] += joint_offset(part, sums, moments.kappa, place, 0, n)


class SpectrumSums(NamedTuple):
    """Sums over rows of the centred terms xi, and of xi xi'."""

    plain: Vector
    """sum_i xi_ij, shape (P,)."""
    squares: Vector
    """sum_i xi_ij xi_ik of every statistic, one after another, shape (sum_c P_c^2,)."""


@dataclass(frozen=True)
class SpectrumPass(Pass[SpectrumSums]):
    """The second moments of the centred terms.

    Parameters
    ----------
    tuples : Tuples
        The statistics, whose pilots are the means of the kernels.
    name : str
        The null that they are for.
    """

    tuples: Tuples
    name: str = "second moments"

    @cached_property
    def tiles(self) -> TupleTiles:
        """Tiles of some rows."""
        return TupleTiles(self.tuples, LANDMARK_TILE_ROWS)

    @property
    def sizes(self) -> list[int]:
        """Landmarks of every statistic."""
        return [len(kept) for kept in self.tuples.kept]

    def footprint(self, rows: int) -> Footprint:
        """Cost of a block of so many rows."""
        t, tile = self.tuples, min(rows, LANDMARK_TILE_ROWS)
        squares, values = sum(q * q for q in self.sizes), sum(self.sizes)
        terms = 2 * self.tiles.most_terms * t.dtype.itemsize * tile
        return Footprint(
            payload=t.nbytes,
            scratch=self.tiles.scratch_bytes(tile)
            + terms
            + 8 * (values * tile + max(self.sizes) ** 2),
            state=8 * (squares + values),
        )

    def chunk(self, block: RowBlock) -> SpectrumSums:
        """Sums over one block."""
        sums = SpectrumSums(np.zeros(sum(self.sizes)), np.zeros(sum(q * q for q in self.sizes)))
        for start in range(0, block.rows, LANDMARK_TILE_ROWS):
            self._add_tile([x[start : start + LANDMARK_TILE_ROWS] for x in block.values], sums)
        return sums

    def _add_tile(self, values: Sequence[NDArray[Any]], sums: SpectrumSums) -> None:
        t = self.tuples
        # Products of float32 would leave the covariance indefinite once it is whitened.
        rows = [np.empty((q, len(values[0]))) for q in self.sizes]
        for strip, tiles in self.tiles.of(values):
            for number, at, xi in self.tiles.terms(strip, tiles):
                begin = t.starts[number]
                rows[number][at.start - begin : at.stop - begin] = xi
        for (plain, squares), terms in zip(self.of(sums), rows, strict=True):
            plain += terms.sum(axis=1)
            squares += terms @ terms.T

    def of(self, sums: SpectrumSums) -> list[tuple[Vector, Vector]]:
        """Those of every statistic, shapes (P_c,) and (P_c, P_c); views."""
        plain = np.split(sums.plain, np.cumsum(self.sizes)[:-1])
        squares = np.split(sums.squares, np.cumsum([q * q for q in self.sizes])[:-1])
        shaped = (square.reshape(q, q) for square, q in zip(squares, self.sizes, strict=True))
        return list(zip(plain, shaped, strict=True))


Whiten = Callable[[Tile], Vector]
TupleResampling = Shifts | Chain | Permutation
TupleNull = TupleResampling | Gamma | Spectral
PlannedStep = DriverStep | PassPlan
TuplePass = TypeVar("TuplePass", bound=TupleOrbitPass | SpectrumPass)

_SAFETY = 4.0
_PROBES = 8
_FUNCTIONS = 4  # copies of the functions of a statistic while they are solved for


class ResampledTuples(NamedTuple):
    """Statistics T = n |L^-1 u|^2 and their replicates."""

    resampled: Resampled
    """The statistics."""
    moments: Moments
    """The moments of the data."""
    detail: str
    """How the replicates were made, where the null leaves a choice."""


class StatisticWithLaw(NamedTuple):
    """A statistic with a null distribution that needs no replicates."""

    statistic: float
    """T = n |L^-1 u|^2."""
    distribution: Distribution
    """The law of T under the null hypothesis."""


def measure_tuples(session: Session, tuples: Tuples) -> Moments:
    """The means of the kernels and of their products, in one pass."""
    return measured(tuples, session.reduce(MeansPass(tuples)), session.n)


def resample_tuples(
    session: Session, tuples: Tuples, whiten: Sequence[Whiten], null: TupleResampling
) -> ResampledTuples:
    """T of all statistics and their replicates, in one pass, or as few as fit in memory.

    Parameters
    ----------
    session : Session
        The run.
    tuples : Tuples
        The statistics.
    whiten : sequence of callable
        L^-1 of every statistic, from (q,) or (q, b) to the same shape: the norm of a function is
        that of its whitened values at the landmarks.
    null : Shifts, Chain or Permutation
        How replicates are made.

    Returns
    -------
    ResampledTuples
    """
    orbit = _shared_orbit(session, tuples, null)
    b, n = orbit.n_shifts, session.n
    values, errors = np.empty((len(orbit), len(tuples.pairs))), np.empty(len(tuples.pairs))
    moments = no_moments(tuples)
    for numbers, cosets, reduction in _program_pieces(session, _Orbiting(tuples, orbit)):
        part, sums = reduction.tuples, session.reduce(reduction)
        session.step("solve")
        write_means(moments, part, sums, n)
        for place, c in enumerate(numbers):
            for r, coset in enumerate(cosets):
                at = functions_of(part, sums, moments.kappa, place, r, b, n)
                # T = n |L^-1 u|^2 under all shifts of a coset at once.
                values[coset * b : (coset + 1) * b, c] = n * squared_norms(whiten[c](at))
                if coset == 0:
                    write_joint(moments, part, sums, place, c, at[:, 0], n)
            errors[c] = error_of_root(part, sums, place, orbit, n, whiten[c])
        del sums, at  # the next pass has sums of its own
    resampled = Resampled.of(values, tie_tolerance(values[0], errors))
    return ResampledTuples(resampled, moments, orbit.detail)


def fit_tuples(
    session: Session, tuples: Tuples, whiten: Sequence[Whiten], null: Gamma | Spectral
) -> tuple[list[StatisticWithLaw], Moments]:
    """T of every statistic and its fitted null distribution, in two passes where they fit."""
    moments = no_moments(tuples)
    sums = session.reduce(MeansPass(tuples, products=False))
    write_means(moments, tuples, sums, session.n)
    fitting = _Fitting(tuples.about(list(moments.kappa)), null)
    tested: list[StatisticWithLaw] = []
    for numbers, _, reduction in _program_pieces(session, fitting):
        for c, both in zip(numbers, reduction.of(session.reduce(reduction)), strict=True):
            tested.append(_fitted(session, *both, whiten[c], null))
            moments.u[c] = both[0] / session.n
        del both  # the next pass has sums of its own
    return tested, moments


def plan_tuples(session: Session, tuples: Tuples, null: TupleNull | None) -> list[PlannedStep]:
    """The passes of `resample_tuples`, `fit_tuples` or `measure_tuples` and what follows each."""
    if isinstance(null, TupleResampling):
        return _tuple_steps(session, _Orbiting(tuples, _shared_orbit(session, tuples, null)))
    first = session.plan(MeansPass(tuples, products=null is None))
    return [first] if null is None else [first, *_tuple_steps(session, _Fitting(tuples, null))]


@dataclass(frozen=True)
class _Orbiting:
    """Passes over some statistics and cosets."""

    tuples: Tuples
    orbit: Orbit

    @property
    def cosets(self) -> tuple[int, ...]:
        return tuple(range(self.orbit.cosets))

    def reduction(self, numbers: range, cosets: tuple[int, ...]) -> TupleOrbitPass:
        return TupleOrbitPass(self.tuples.part(numbers), self.orbit, cosets)

    def after(self, reduction: TupleOrbitPass) -> list[DriverStep]:
        """The permutations of one coset and statistic at a time."""
        return [_solve_step(reduction.tuples, self.orbit.n_shifts)]


@dataclass(frozen=True)
class _Fitting:
    """Passes over the second moments of some statistics."""

    tuples: Tuples
    null: Gamma | Spectral
    cosets: tuple[int, ...] = (0,)

    def reduction(self, numbers: range, cosets: tuple[int, ...]) -> SpectrumPass:
        del cosets
        return SpectrumPass(self.tuples.part(numbers), f"{self.null.name} null")

    def after(self, reduction: SpectrumPass) -> list[DriverStep]:
        """The covariance of one statistic after another, beside the moments of all."""
        matrix = 8 * max(reduction.sizes) ** 2
        held = matrix * (len(reduction.sizes) - 1)
        steps = [DriverStep("whiten", held + 6 * matrix)]
        if isinstance(self.null, Spectral):
            steps.append(DriverStep("eigenvalues", held + 5 * matrix))
        return steps * len(reduction.sizes)


class _Program(Protocol[TuplePass]):
    """Passes that each take some statistics and cosets, and what follows them."""

    @property
    def tuples(self) -> Tuples: ...

    @property
    def cosets(self) -> tuple[int, ...]: ...

    def reduction(self, numbers: range, cosets: tuple[int, ...]) -> TuplePass: ...

    def after(self, reduction: TuplePass) -> list[DriverStep]: ...


class _TuplePiece(NamedTuple, Generic[TuplePass]):
    """What one pass takes."""

    numbers: range
    """Numbers of the statistics."""
    cosets: tuple[int, ...]
    reduction: TuplePass


def _tuple_steps(session: Session, program: _Program[TuplePass]) -> list[PlannedStep]:
    """The steps of all pieces, for a plan."""
    steps: list[PlannedStep] = []
    for piece in _program_pieces(session, program):
        steps += [session.plan(piece.reduction), *program.after(piece.reduction)]
    return steps


def _solve_step(part: Tuples, count: int) -> DriverStep:
    """So many functions of one statistic, and a factor beside them."""
    sizes = [len(kept) for kept in part.kept]
    working = 8 * max(sizes) * (_FUNCTIONS * count + 2 * max(sizes))
    return DriverStep("solve", working)


def _program_pieces(
    session: Session, program: _Program[TuplePass]
) -> Iterator[_TuplePiece[TuplePass]]:
    """Statistics and cosets that one pass takes: all where they fit in memory, else halves.

    The driver may hold factors beside a pass and a solve, see `NystromMHSIC`.
    """
    left = [(range(len(program.tuples.pairs)), program.cosets)]
    while left:
        numbers, cosets = left.pop(0)
        reduction = program.reduction(numbers, cosets)
        solve = max(step.working_bytes for step in program.after(reduction))
        fits = session.plan(reduction).worker_bytes + solve <= session.runtime.pass_bytes
        if fits or len(numbers) == len(cosets) == 1:
            yield _TuplePiece(numbers, cosets, reduction)
        elif len(numbers) > 1:
            middle = len(numbers) // 2
            left[:0] = [(numbers[:middle], cosets), (numbers[middle:], cosets)]
        else:
            middle = len(cosets) // 2
            left[:0] = [(numbers, cosets[:middle]), (numbers, cosets[middle:])]


def _shared_orbit(session: Session, tuples: Tuples, null: TupleResampling) -> Orbit:
    """The permutations, which all statistics share."""

    def suits(orbit: Orbit) -> bool:
        return suits_one_task(session, TupleOrbitPass(tuples, orbit, tuple(range(orbit.cosets))))

    return orbit_of(session, null, suits)


def error_of_root(
    part: Tuples, sums: TupleSums, c: int, orbit: Orbit, n: int, whiten: Whiten
) -> float:
    """Up to how much the root of a statistic, sqrt(n) |L^-1 u|, may be wrong by rounding."""
    return math.sqrt(n) * _norm_of_errors(whiten, _errors(part, sums, c, orbit, n))


def _errors(part: Tuples, sums: TupleSums, c: int, orbit: Orbit, n: int) -> Vector:
    """About how large the rounding errors of a covariance are, shape (q,).

    Those of a transform grow with the logarithm of its length, and so do those of sums in double
    precision; errors of groups are independent.
    """
    at = slice(part.starts[c], part.starts[c + 1])
    summed = part.dtype if orbit.shifted else np.float64
    unit = transform_error(summed, orbit.groups.size) + tile_error(part.dtype)
    errors: Vector = unit * np.sqrt(sums.squares[at]) / n
    return errors


def _norm_of_errors(whiten: Whiten, errors: Vector) -> float:
    """The norm of L^-1 e for independent errors of these sizes, times a factor for safety.

    |L^-1 diag(errors)|_F by a few random signs (Hutchinson 1990).
    """
    # A fixed seed: the bound is the same in every run.
    signs = np.random.Generator(np.random.Philox(0)).choice([-1.0, 1.0], (len(errors), _PROBES))
    return _SAFETY * math.sqrt(float(squared_norms(whiten(errors[:, None] * signs)).mean()))


def _fitted(
    session: Session, plain: Vector, squares: Vector, whiten: Whiten, null: Gamma | Spectral
) -> StatisticWithLaw:
    """T, and its limit law: of a normal U of the same covariance.

    T = sum_k lambda_k z_k^2 with lambda_k the eigenvalues of L^-1 Cov(xi) L^-T, whose trace and
    squared Frobenius norm are the mean and half the variance of T. The mean of this law over
    permutations is (n - 2) / n times that of T: exactly for M = 2, as follows from
    E T = tr(HK_1) tr(HK_2) / (n (n - 1)), and closely for M > 2. The factor n / (n - 2) removes
    the excess of rejections that it causes at small n.
    """
    n = session.n
    u = plain / n
    session.step("whiten")
    covariance = whiten(whiten((squares / n - np.outer(u, u)) * (n / (n - 2))).T)
    check_no_overflow(covariance)
    statistic = n * float(squared_norms(whiten(u)))
    if isinstance(null, Spectral):
        session.step("eigenvalues")
        # Along directions near the pruning tolerance the covariance may be negative by rounding.
        mixture = ChiSquareMixture.of(spectrum(covariance).clip(min=0.0))
        return StatisticWithLaw(statistic, null.distribution(mixture, session.seed))
    variance = 2.0 * float(np.vdot(covariance, covariance))
    return StatisticWithLaw(statistic, GammaDistribution(float(covariance.trace()), variance))
