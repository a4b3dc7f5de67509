"""Kernels at landmark tuples under all permutations of an orbit, in one pass over the rows.

For landmark j and two sides f_j and h_j of a statistic, the sums over a group of f_j(i) h_j(i + k)
for every shift k are one circular cross-correlation: the product of two Fourier transforms, summed
over groups, transformed back once in the end. Shifts leave the sums of either side as they are, so
that the covariance of both under a permutation needs no other sum.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from dhsic.engine.groups import Groups
from dhsic.engine.reduction import Footprint, GroupBlock, add
from dhsic.engine.tiles import Matrix
from dhsic.estimators.resample import Orbit
from dhsic.estimators.tuples import Strip, Tuples

__all__ = ["ShiftedSums", "ShiftedTuples"]

Indices = NDArray[np.intp]
Vector = NDArray[np.float64]
Spectrum = NDArray[np.complex128]
Sides = dict[tuple[int, ...], Matrix]

_GROUPS_AT_ONCE = 8
_CACHE_BYTES = 2**20  # of the transforms of a strip of landmarks


class ShiftedSums(NamedTuple):
    """Sums over rows for C two-sided statistics under R cosets of shifts by 0..b-1."""

    spectra: Spectrum
    """Cross-spectra of both sides about their pilots, shape (R, Q, b // 2 + 1)."""
    left_over: Vector
    """Products of both sides over the rows that are in no group, shape (Q,)."""
    sides: Vector
    """Every side about its pilot, shape (R, S)."""
    side_squares: Vector
    """The squares of every side about its pilot, shape (S,)."""
    squares: Vector
    """Sums over groups of the squared norms of both sides multiplied, shape (Q,)."""


@dataclass(frozen=True)
class ShiftedTuples:
    """All sums of `ShiftedSums`, in one pass.

    Parameters
    ----------
    tuples : Tuples
        The statistics.
    orbit : Orbit
        The permutations.
    cosets : tuple of int
        Those of the orbit that are computed.
    joint : bool, optional
        Cosets permute the variables of the left sides as well, but for the first.
    """

    tuples: Tuples
    orbit: Orbit
    cosets: tuple[int, ...]
    joint: bool = False
    name: str = "shifts"

    @property
    def groups(self) -> Groups:
        """The groups of all rows."""
        return self.orbit.groups

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of the spectra."""
        return len(self.cosets), self.tuples.starts[-1], self.groups.size // 2 + 1

    @cached_property
    def strips(self) -> list[Strip]:
        """Landmarks whose transforms stay in the cache."""
        size = 2 * self.tuples.dtype.itemsize * self.shape[2]
        return self.tuples.cut(max(1, _CACHE_BYTES // size))

    def footprint(self, rows: int) -> Footprint:
        """Cost of a block of so many rows."""
        t, size = self.tuples, self.tuples.dtype.itemsize
        tile_rows = min(rows, _GROUPS_AT_ONCE * self.groups.size)
        work = 1 + max(kernel.work_tiles for kernel in t.kernels)
        widest = max(_length(at) for strip in self.strips for at in strip.roots.values())
        tiles = max(sum(map(_length, strip.roots.values())) for strip in self.strips)
        tiles *= -(-len(t.kernels) // len(t.needed))
        sides = max(sum(_length(at) for at, _ in s.sides.values()) for s in self.strips)
        pairs = max(sum(_length(at) for at, _, _ in s.pairs) for s in self.strips)
        spectra = 2 * size * self.shape[2] * (2 * sides + (len(self.cosets) + 1) * pairs)
        columns = sum(map(t.width, t.needed))
        cosets = len(self.cosets)
        return Footprint(
            payload=t.nbytes,
            scratch=size * tile_rows * (tiles + work * widest + sides + 3 * columns) + spectra,
            state=16 * math.prod(self.shape)
            + 8 * ((cosets + 1) * t.n_side_values + 2 * self.shape[1]),
            operations=t.operations + (cosets - 1) * 10.0 * (t.n_side_values + self.shape[1]),
        )

    def chunk(self, block: GroupBlock) -> ShiftedSums:
        """Sums over a run of groups."""
        t, b = self.tuples, self.groups.size
        sums = ShiftedSums(
            np.zeros(self.shape, np.complex128),
            np.zeros(self.shape[1]),
            np.zeros((len(self.cosets), t.n_side_values)),
            np.zeros(t.n_side_values),
            np.zeros(self.shape[1]),
        )
        for start in range(0, block.n_groups, _GROUPS_AT_ONCE):
            stop = min(start + _GROUPS_AT_ONCE, block.n_groups)
            orders = self._orders(block.first + start, stop - start)
            for strip, tiles in self._tiles([x[start * b : stop * b] for x in block.values]):
                self._add_groups(sums, strip, tiles, orders)
        if block.n_left:
            for strip, tiles in self._tiles([x[block.n_groups * b :] for x in block.values]):
                self._add_left_over(sums, strip, tiles)
        return sums

    def combine(self, left: ShiftedSums, right: ShiftedSums) -> ShiftedSums:
        """Add."""
        return add(left, right)

    def _orders(self, first: int, count: int) -> dict[tuple[int, int], Indices]:
        """The orders of groups by coset and variable, where they are not the identity."""
        moved = {self.tuples.variables[pair.right] for pair in self.tuples.pairs}
        if self.joint:
            moved |= {self.tuples.variables[k] for pair in self.tuples.pairs for k in pair.left[1:]}
        return {
            (coset, m): self.orbit.orders(coset, first, count, m)
            for coset in self.cosets
            for m in sorted(moved)
            if coset
        }

    def _tiles(self, values: Sequence[Matrix]) -> Iterator[tuple[Strip, dict[int, Matrix]]]:
        """Kernels about their pilots at strips of landmarks, (r, rows) each."""
        t, rows = self.tuples, len(values[0])
        columns = {k: t.kernels[k].columns(values[t.variables[k]], t.dtype) for k in t.needed}
        for strip in self.strips:
            tiles: dict[int, Matrix] = {}
            for k, at in strip.roots.items():
                tiles[k] = np.empty((_length(at), rows), t.dtype)
                work = np.empty((t.kernels[k].work_tiles, *tiles[k].shape), t.dtype)
                t.kernels[k].tile(t.points[k][at], columns[k], tiles[k], work)
            for power in t.shared.powers:
                if power.source in tiles:
                    tiles[power.k] = power.of(tiles[power.source])
            for k, tile in tiles.items():
                root = t.roots[k]
                tile -= t.pilots[k][t.needed[root][strip.roots[root]], None].astype(t.dtype)
            yield strip, tiles

    def _side(
        self,
        side: tuple[int, ...],
        strip: Strip,
        tiles: dict[int, Matrix],
        orders: dict[int, Indices] | None = None,
    ) -> Matrix:
        """The product of kernels less that of their pilots, (r, rows)."""
        t = self.tuples
        members = strip.sides[side][1]
        if len(side) == 1:
            return tiles[side[0]][members[0]]
        at = t.sides[side][self._local(side, strip)]
        pilots = [t.pilots[k][at, None].astype(t.dtype) for k in side]
        product: Matrix | None = None
        for k, own, pilot in zip(side, members, pilots, strict=True):
            values = tiles[k][own].copy() if t.centred else tiles[k][own] + pilot
            order = (orders or {}).get(t.variables[k])
            if order is not None:
                values = _permuted(values, order)
            product = values if product is None else np.multiply(product, values, out=product)
        assert product is not None
        if not t.centred:
            product -= math.prod(pilots)
        return product

    def _local(self, side: tuple[int, ...], strip: Strip) -> slice:
        """Where the landmarks of a strip are among those of a side."""
        at, begin = strip.sides[side][0], self.tuples.side_places[side].start
        return slice(at.start - begin, at.stop - begin)

    def _add_groups(
        self,
        sums: ShiftedSums,
        strip: Strip,
        tiles: dict[int, Matrix],
        orders: dict[tuple[int, int], Indices],
    ) -> None:
        """Add what some whole groups contribute at a strip of landmarks."""
        t, b = self.tuples, self.groups.size
        count = next(iter(tiles.values())).shape[1] // b
        own = {side: self._side(side, strip, tiles) for side in t.sides}
        shaped = {side: values.reshape(-1, count, b) for side, values in own.items()}
        norms = {side: np.einsum("jgi,jgi->jg", x, x) for side, x in shaped.items()}
        for side, (at, _) in strip.sides.items():
            sums.side_squares[at] += norms[side].sum(axis=1, dtype=np.float64)
        for (at, left, right), pair in zip(strip.pairs, t.pairs, strict=True):
            both = norms[pair.left][left] * norms[pair.right,][right]
            sums.squares[at] += both.sum(axis=1, dtype=np.float64)
        lefts = []
        for r, coset in enumerate(self.cosets):
            moved = {m: order for (c, m), order in orders.items() if c == coset}
            lefts.append(self._moved_products(shaped, strip, tiles, moved))
            for side, (at, _) in strip.sides.items():
                sums.sides[r, at] += lefts[r][side].sum(axis=(1, 2), dtype=np.float64)
        self._add_spectra(sums.spectra, strip, lefts, shaped, orders)

    def _moved_products(
        self,
        shaped: Sides,
        strip: Strip,
        tiles: dict[int, Matrix],
        moved: dict[int, Indices],
    ) -> Sides:
        """The sides of a coset that permutes what is in products, but for the first variable."""
        if not (self.joint and moved):
            return shaped
        return {
            side: self._side(side, strip, tiles, moved).reshape(x.shape) if len(side) > 1 else x
            for side, x in shaped.items()
        }

    def _add_spectra(
        self,
        sums: Spectrum,
        strip: Strip,
        lefts: Sequence[Sides],
        rights: Sides,
        orders: dict[tuple[int, int], Indices],
    ) -> None:
        """Add the cross-spectra: all groups are summed before they are added.

        Transforms of a left side that no coset moves serve all of them.
        """
        t, length = self.tuples, self.groups.size // 2 + 1
        dtype = np.result_type(t.dtype, np.complex64)
        ends = list(accumulate((_length(at) for at, _, _ in strip.pairs), initial=0))
        found = np.zeros((len(self.cosets), ends[-1], length), dtype)
        for g in range(next(iter(rights.values())).shape[1]):
            first: dict[Any, Spectrum] = {}
            for r, coset in enumerate(self.cosets):
                second: dict[int, Spectrum] = {}
                for (left, right), (_, i, j), start, stop in zip(
                    t.pairs, strip.pairs, ends, ends[1:], strict=False
                ):
                    key = left, r if self.joint and len(left) > 1 else 0
                    if key not in first:
                        first[key] = np.conj(fft.rfft(lefts[r][left][:, g], axis=1))
                    if right not in second:
                        x, order = rights[right,][:, g], orders.get((coset, t.variables[right]))
                        second[right] = fft.rfft(x if order is None else x[:, order[g]], axis=1)
                    found[r, start:stop] += first[key][i] * second[right][j]
        for (at, _, _), start, stop in zip(strip.pairs, ends, ends[1:], strict=False):
            sums[:, at] += found[:, start:stop]

    def _add_left_over(self, sums: ShiftedSums, strip: Strip, tiles: dict[int, Matrix]) -> None:
        """Add rows that no permutation moves."""
        own = {side: self._side(side, strip, tiles) for side in self.tuples.sides}
        for side, (at, _) in strip.sides.items():
            sums.sides[:, at] += own[side].sum(axis=1, dtype=np.float64)
            sums.side_squares[at] += np.einsum("ji,ji->j", own[side], own[side], dtype=np.float64)
        for (at, left, right), pair in zip(strip.pairs, self.tuples.pairs, strict=True):
            x, y = own[pair.left][left], own[pair.right,][right]
            sums.left_over[at] += np.einsum("ji,ji->j", x, y, dtype=np.float64)


def _length(at: slice) -> int:
    return int(at.stop - at.start)


def _permuted(values: Matrix, orders: Indices) -> Matrix:
    """Values (r, groups b) in other orders within groups."""
    count, b = orders.shape
    at = (orders + b * np.arange(count)[:, None]).ravel()
    return values[:, at]
