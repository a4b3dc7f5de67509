"""Kernels about their pilots at strips of landmarks, and what statistics are made of there."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.tiles import Matrix, Tile, product_of_centred
from dhsic.estimators.landmark.tuples import Strip, Tuples

Indices = NDArray[np.intp]
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
