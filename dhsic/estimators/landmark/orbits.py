"""Kernels at landmark tuples under all permutations of an orbit, in one pass over the rows.

For landmark j and two sides f_j and h_j of a statistic, the sums over a group of f_j(i) h_j(i + k)
for every shift k are one circular cross-correlation: the product of two Fourier transforms, summed
over groups, transformed back once in the end. Shifts leave the sums of either side as they are, so
that the covariance of both under a permutation needs no other sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from dhsic.engine.groups import RowGroups
from dhsic.engine.reduction import Footprint, GroupBlock, Pass, RowBlock
from dhsic.engine.tiles import Tile
from dhsic.estimators.landmark.tiles import (
    LANDMARK_TILE_ROWS,
    SideTiles,
    TupleTiles,
    length,
    permuted,
)
from dhsic.estimators.landmark.tuples import Strip, Tuples
from dhsic.estimators.resample import Orbit

Indices = NDArray[np.intp]
Orders = Mapping[int, Indices]
Vector = NDArray[np.float64]
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
