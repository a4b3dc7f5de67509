"""Two-sided statistics at landmark tuples: their kernels, landmarks and strips of these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dhsic.engine.tiles import Matrix, Tile
from dhsic.estimators.landmark.basis import LandmarkBasis
from dhsic.estimators.resample import TwoSided
from dhsic.kernels import Combinations
from dhsic.kernels.shared import SharedTiles, TileKernel

TermForm = Literal["centred", "joint"]
Indices = NDArray[np.intp]
Vector = NDArray[np.float64]

_FEWEST = 16  # landmarks of a kernel in a strip
_PILOT_ROWS = 256


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
    form : {"joint", "centred"}, optional
        The statistics measure the mean of the product of all kernels less the product of their
        means, kappa_J - prod_m kappa_m; or the covariance of both sides, where a side of several
        kernels is their product about their means.
    """

    kernels: tuple[TupleKernel, ...]
    variables: tuple[int, ...]
    landmarks: tuple[Matrix, ...]
    pairs: tuple[TwoSided, ...]
    kept: tuple[Indices, ...]
    pilots: tuple[Tile, ...]
    dtype: np.dtype[Any]
    form: TermForm = "joint"

    @classmethod
    def at(
        cls,
        basis: LandmarkBasis,
        pairs: Sequence[TwoSided],
        dtype: DTypeLike,
        form: TermForm = "joint",
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
        form: TermForm = "joint",
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
