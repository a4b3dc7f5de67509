"""The pass that sums products of features under all permutations of an orbit.

With features f and h of two variables, the sums over a group of f(i) h(i + k)' for every shift k
are circular cross-correlations: a product of two Fourier transforms a frequency, summed over
groups, transformed back once in the end.
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
from dhsic.estimators.resample import Orbit
from dhsic.features import FeatureMap, side_by_side

__all__ = ["Crossing", "KernelSide", "Rectangle", "SpectraPass", "SpectralSums"]

Indices = NDArray[np.intp]
Matrix = NDArray[np.floating[Any]]
Spectrum = NDArray[np.complexfloating[Any, Any]]
Vector = NDArray[np.float64]

_MOST_GROUPS = 64  # of a tile; more do not spare time
_BATCH = 2**17  # entries of features that are made at a time, which stay in the cache
_BATCH_ROWS = 4096  # float32 sums of more would lose digits
_PRODUCTS = 2**17  # entries of products that wait to be added
_TRANSFORM = 15.0  # floating-point operations an entry


class KernelSide(NamedTuple):
    """The features of one kernel, as they are summed."""

    variable: int
    """The number of the variable."""
    map: FeatureMap
    """Makes them."""
    centre: Matrix
    """Their provisional mean, shape (D,)."""
    rows: slice
    """Those that are summed, of the D or of the whitened ones."""
    whitening: Matrix | None
    """These rows of L^-1, shape (r, D), where features are whitened before they are summed."""

    @property
    def n_summed(self) -> int:
        """Features that are summed."""
        return int(self.rows.stop - self.rows.start)

    @property
    def nbytes(self) -> int:
        """Bytes of the map, the mean and the matrix."""
        matrix = 0 if self.whitening is None else self.whitening.nbytes
        return self.map.nbytes + self.centre.nbytes + matrix

    @property
    def operations(self) -> float:
        """Floating-point operations a row."""
        whitening = 0.0 if self.whitening is None else 2.0 * self.whitening.size
        return self.map.operations + whitening

    def scratch(self, rows: int) -> int:
        """Bytes of the features of so many rows, their squares, other orders and transforms."""
        values = 2 * self.map.n_features + 4 * self.n_summed
        return self.map.scratch(rows) + rows * (self.map.dtype.itemsize * values + 8)

    def raw(self, x: NDArray[Any]) -> Matrix:
        """All features of rows (b, d) about their provisional mean, shape (b, D)."""
        features = self.map(x)
        features -= self.centre
        return features

    def summed(self, raw: Matrix) -> Matrix:
        """Those that are summed, shape (b, r)."""
        if self.whitening is not None:
            return raw @ self.whitening.T
        return raw if self.n_summed == raw.shape[1] else raw[:, self.rows]


class Rectangle(NamedTuple):
    """Every kernel of some with every one of others, all of which are side by side."""

    firsts: tuple[int, ...]
    """Numbers of kernels."""
    seconds: tuple[int, ...]
    """Numbers of kernels whose variables are shifted."""


class Crossing(NamedTuple):
    """Where the products of a rectangle are."""

    first: slice
    """Among the features of all first kernels."""
    second: slice
    """Among those of all second kernels."""
    at: slice
    """Among the products of all rectangles."""

    @property
    def shape(self) -> tuple[int, int]:
        """Features of either side."""
        return self.first.stop - self.first.start, self.second.stop - self.second.start

    def of(self, products: NDArray[Any]) -> NDArray[Any]:
        """A view (..., D_1, D_2) of the products of all rectangles (..., P)."""
        return products[..., self.at].reshape(*products.shape[:-1], *self.shape)


class SpectralSums(NamedTuple):
    """Sums over rows for K kernels, R cosets of shifts by 0..b-1 and P products of features."""

    cross: Spectrum
    """Transforms over the shifts of the sums of products, shape (R, b // 2 + 1, P)."""
    sums: Vector
    """Sums of the features that are summed, of all kernels."""
    raw: Vector
    """Sums of squares of all features of all kernels, before they are whitened."""
    norms: Vector
    """Sums of squared norms of the features that are summed, shape (K,)."""
    products: Vector
    """Sums over groups of products of the squared norms of two kernels there, shape (K, K)."""


@dataclass(frozen=True)
class SpectraPass:
    """All sums of `SpectralSums`, in one pass.

    Features are about provisional means, so that no digits cancel. Rows that are in no group add
    the same to the products of all shifts.

    Parameters
    ----------
    kernels : tuple of (int, KernelSide)
        Numbers of kernels with their features.
    rectangles : tuple of Rectangle
        The pairs of kernels.
    orbit : Orbit
        The permutations.
    cosets : range
        Those that are summed.
    tile_bytes : int
        Bytes of the transforms of groups that are multiplied at a time, or half of those of the
        sums: the more of them, the fewer times their products are added to the sums.
    """

    kernels: tuple[tuple[int, KernelSide], ...]
    rectangles: tuple[Rectangle, ...]
    orbit: Orbit
    cosets: range
    tile_bytes: int
    name: str = "shifts"

    @property
    def groups(self) -> Groups:
        """The groups of all rows."""
        return self.orbit.groups

    @cached_property
    def places(self) -> dict[int, slice]:
        """Where the features of a kernel that are summed are among those of all."""
        return self._side_by_side([number for number, _ in self.kernels])

    @cached_property
    def raw_places(self) -> dict[int, slice]:
        """Where all of its features are."""
        slices = side_by_side(side.map.n_features for _, side in self.kernels)
        return dict(zip(self.places, slices, strict=True))

    @cached_property
    def firsts(self) -> dict[int, slice]:
        """Where those of a first kernel are among those of all first kernels."""
        return self._side_by_side([k for one in self.rectangles for k in one.firsts])

    @cached_property
    def seconds(self) -> dict[int, slice]:
        """Where those of a second kernel are among those of all second kernels."""
        return self._side_by_side(sorted(k for one in self.rectangles for k in one.seconds))

    @cached_property
    def crossings(self) -> tuple[Crossing, ...]:
        """Where the products of every rectangle are."""
        sides = [
            (_span(self.firsts, one.firsts), _span(self.seconds, one.seconds))
            for one in self.rectangles
        ]
        sizes = ((a.stop - a.start) * (b.stop - b.start) for a, b in sides)
        places = side_by_side(sizes)
        return tuple(Crossing(*both, at) for both, at in zip(sides, places, strict=True))

    def place(self, pair: Sequence[int]) -> tuple[Crossing, slice, slice]:
        """Where the products of two kernels are: those of their rectangle, and parts of either."""
        first, second = pair
        found, crossing = next(
            both
            for both in zip(self.rectangles, self.crossings, strict=True)
            if first in both[0].firsts and second in both[0].seconds
        )
        starts = self.firsts[found.firsts[0]].start, self.seconds[found.seconds[0]].start
        ends = self.firsts[first], self.seconds[second]
        one, other = (slice(at.start - s, at.stop - s) for at, s in zip(ends, starts, strict=True))
        return crossing, one, other

    @property
    def shape(self) -> tuple[int, int, int]:
        """Cosets, frequencies and products."""
        return len(self.cosets), self.groups.size // 2 + 1, self.crossings[-1].at.stop

    def footprint(self, rows: int) -> Footprint:
        """Cost of a block of so many rows."""
        sides, (cosets, _, products) = [side for _, side in self.kernels], self.shape
        size = 2 * self._dtype.itemsize
        tile = min(self._tile_groups, max(1, rows // self.groups.size))
        batch = max(side.scratch(self._batch_groups(side) * self.groups.size) for side in sides)
        waiting = max(
            self._slab(one) * (math.prod(one.shape) + tile * one.shape[0]) for one in self.crossings
        )
        orders = 8 * cosets * tile * self.groups.size
        features = _length(self.places) + _length(self.raw_places)
        small = features + len(sides) + len(sides) ** 2
        return Footprint(
            payload=sum(side.nbytes for side in sides),
            scratch=tile * self._group_bytes + batch + size * waiting + orders,
            state=self._state_bytes + 8 * small,
            operations=sum(side.operations for side in sides)
            + _TRANSFORM * (_length(self.firsts) + cosets * _length(self.seconds))
            + 4.0 * cosets * products,
        )

    def chunk(self, block: GroupBlock) -> SpectralSums:
        """Sums over a run of groups."""
        count = len(self.kernels)
        sums = SpectralSums(
            np.zeros(self.shape, np.complex128),
            np.zeros(_length(self.places)),
            np.zeros(_length(self.raw_places)),
            np.zeros(count),
            np.zeros((count, count)),
        )
        for start in range(0, block.n_groups, self._tile_groups):
            stop = min(start + self._tile_groups, block.n_groups)
            self._add_products(sums, *self._transforms(block, start, stop, sums))
        if block.n_left:
            self._add_left_over(block, sums)
        return sums

    def combine(self, left: SpectralSums, right: SpectralSums) -> SpectralSums:
        """Add."""
        return add(left, right)

    def _side_by_side(self, numbers: Sequence[int]) -> dict[int, slice]:
        sides, distinct = dict(self.kernels), list(dict.fromkeys(numbers))
        slices = side_by_side(sides[number].n_summed for number in distinct)
        return dict(zip(distinct, slices, strict=True))

    @property
    def _dtype(self) -> np.dtype[Any]:
        return self.kernels[0][1].map.dtype

    @property
    def _group_bytes(self) -> int:
        """Bytes of the transforms of a group."""
        features = _length(self.firsts) + len(self.cosets) * _length(self.seconds)
        return 2 * self._dtype.itemsize * self.shape[1] * features

    @property
    def _tile_groups(self) -> int:
        """Groups whose transforms are multiplied at a time."""
        size = max(self.tile_bytes, self._state_bytes // 2)
        return max(1, min(_MOST_GROUPS, size // self._group_bytes))

    @property
    def _state_bytes(self) -> int:
        return 16 * math.prod(self.shape)

    def _batch_groups(self, side: KernelSide) -> int:
        """Groups whose features are made at a time."""
        rows = min(_BATCH // side.map.n_features, _BATCH_ROWS)
        return max(1, rows // self.groups.size)

    def _slab(self, crossing: Crossing) -> int:
        """Frequencies that are multiplied at a time."""
        return min(self.shape[1], max(1, _PRODUCTS // math.prod(crossing.shape)))

    def _transforms(
        self, block: GroupBlock, start: int, stop: int, sums: SpectralSums
    ) -> tuple[Spectrum, Spectrum]:
        """Those of the first features, (F, g, D), and of the second in every coset, (R, F, g, D).

        Adds up the norms of the features on the way.
        """
        b, dtype = self.groups.size, np.result_type(self._dtype, np.complex64)
        shape = self.shape[1], stop - start
        firsts = np.empty((*shape, _length(self.firsts)), dtype)
        seconds = np.empty((len(self.cosets), *shape, _length(self.seconds)), dtype)
        orders = [
            self.orbit.orders(coset, block.first + start, stop - start) for coset in self.cosets
        ]
        norms = np.empty((len(self.kernels), stop - start))
        for place, (number, side) in enumerate(self.kernels):
            step = self._batch_groups(side)
            for begin in range(start, stop, step):
                end = min(begin + step, stop)
                at = slice(begin - start, end - start)
                rows = block.values[side.variable][begin * b : end * b]
                features, norms[place, at] = self._features(number, side, rows, sums)
                spectrum = None
                if number in self.firsts:
                    spectrum = firsts[:, at, self.firsts[number]] = _transform(features)
                if number not in self.seconds:
                    continue
                for r, coset in enumerate(self.cosets):
                    if coset or spectrum is None:
                        moved = _permuted(features, orders[r][at]) if coset else features
                        found = _transform(moved)
                    else:
                        found = spectrum
                    seconds[r, :, at, self.seconds[number]] = found
        sums.norms[:] += norms.sum(axis=1)
        sums.products[:] += norms @ norms.T
        return firsts, seconds

    def _features(
        self, number: int, side: KernelSide, rows: NDArray[Any], sums: SpectralSums
    ) -> tuple[Matrix, Vector]:
        """Those of whole groups that are summed, (g, b, r), and their squared norms, (g,)."""
        b = self.groups.size
        raw = side.raw(rows)
        features = side.summed(raw)
        sums.sums[self.places[number]] += _group_sums(features, b).sum(axis=0)
        squares = _group_sums(np.square(raw), b)
        sums.raw[self.raw_places[number]] += squares.sum(axis=0)
        if features is not raw:
            squares = _group_sums(np.square(features), b)
        return features.reshape(-1, b, side.n_summed), squares.sum(axis=1)

    def _add_products(self, sums: SpectralSums, firsts: Spectrum, seconds: Spectrum) -> None:
        """Add the products of the transforms, summed over groups."""
        for one in self.crossings:
            totals, step = one.of(sums.cross), self._slab(one)
            for start in range(0, self.shape[1], step):
                at = slice(start, start + step)
                left = np.conj(firsts[at, :, one.first]).swapaxes(1, 2)
                for r, total in enumerate(totals):
                    total[at] += left @ seconds[r, at, :, one.second]

    def _add_left_over(self, block: GroupBlock, sums: SpectralSums) -> None:
        """Add rows that no permutation moves; what all shifts share is at frequency 0."""
        b = self.groups.size
        features = {}
        for number, side in self.kernels:
            rows = block.values[side.variable][block.n_groups * b :]
            features[number] = side.summed(side.raw(rows)).astype(np.float64)
            sums.sums[self.places[number]] += features[number].sum(axis=0)
        for one, rectangle in zip(self.crossings, self.rectangles, strict=True):
            first, second = (np.hstack([features[k] for k in some]) for some in rectangle)
            one.of(sums.cross)[:, 0] += b * (first.T @ second)


def _span(places: dict[int, slice], numbers: Sequence[int]) -> slice:
    """Where those of kernels are that are side by side."""
    return slice(places[numbers[0]].start, places[numbers[-1]].stop)


def _length(places: dict[int, slice]) -> int:
    return int(max(at.stop for at in places.values()))


def _transform(features: Matrix) -> Spectrum:
    """Over the rows of groups: (g, b, D) to (b // 2 + 1, g, D)."""
    spectrum: Spectrum = fft.rfft(features, axis=1).swapaxes(0, 1)
    return spectrum


def _permuted(features: Matrix, orders: Indices) -> Matrix:
    """Features (g, b, D) with their rows in other orders (g, b)."""
    count, b = orders.shape
    at = orders + b * np.arange(count)[:, None]
    moved: Matrix = features.reshape(count * b, -1).take(at, axis=0)
    return moved


def _group_sums(values: Matrix, b: int) -> Vector:
    """Over the rows of groups: (g b, D) to (g, D)."""
    grouped = values.reshape(-1, b, values.shape[1])
    sums: Vector = (np.ones((1, b), values.dtype) @ grouped)[:, 0].astype(np.float64)
    return sums
