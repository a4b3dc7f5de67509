"""Rows that may change places with some others only: of a stratum, as whole groups, in a series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dhsic._random import generator, random_keys
from dhsic.engine.reduction import Arrangement, Ranges
from dhsic.results import MOST_SHIFTS
from dhsic.statistics.groups import is_smooth

Indices = NDArray[np.intp]

_FEWER = 0.8  # of the shifts that were asked for
_NEAR_BEST = 1.25  # times the least share of rows that stay; above it, larger groups are better
_STAYING = 0.02


@dataclass(frozen=True, eq=False)
class MovedGroups:
    """Groups of equally many rows that change places, and rows that stay; as `Groups`.

    The rows of a group are of as many items. Items of w rows make w groups, which move alike. Items
    are drawn so that those of a group lie far apart in storage, and come in a random order, unless
    they are a series.

    Parameters
    ----------
    n, size : int
        Rows of the data, and of a group.
    seed : int
        The seed of the test.
    rows : ndarray of int, shape (count, size)
        The rows of every group in their order.
    units : ndarray of int, shape (count,)
        Groups of the same number move alike; ascending.
    left : ndarray of int, shape (n_left,)
        Rows in no group, ascending.
    what : str
        The things that move, in words.
    serial : bool, optional
        Whether groups are shifted only.
    """

    n: int
    size: int
    seed: int
    rows: Indices
    units: Indices
    left: Indices
    what: str
    serial: bool = False

    @classmethod
    def of(
        cls,
        n: int,
        size: int,
        seed: int,
        items: Sequence[Indices],
        what: str,
        *,
        serial: bool = False,
    ) -> Self:
        """Those of items that move alike, shapes (units, size, w)."""
        # Of items of w rows one group has the first rows, another the second ones, and all move
        # alike.
        every = np.concatenate([some.swapaxes(1, 2).reshape(-1, size) for some in items])
        widths = np.concatenate([np.full(len(some), some.shape[2]) for some in items])
        units = np.repeat(np.arange(len(widths)), widths)
        staying = np.ones(n, np.bool_)
        staying[every.ravel()] = False
        return cls(n, size, seed, every, units, np.flatnonzero(staying), what, serial)

    # What is cached stays here.
    def __reduce__(self) -> tuple[Any, ...]:
        fields = (
            self.n,
            self.size,
            self.seed,
            self.rows,
            self.units,
            self.left,
            self.what,
            self.serial,
        )
        return type(self), fields

    @property
    def count(self) -> int:
        """Groups."""
        return len(self.rows)

    @property
    def n_left(self) -> int:
        """Rows that are in no group."""
        return len(self.left)

    def left_of(self, first: int, last: int) -> slice:
        """Where those are that go with the groups first..last-1: evenly many with each."""
        return slice(self._left_before(first), self._left_before(last))

    def _left_before(self, group: int) -> int:
        # Rounded up cumulatively, so that runs of groups share the rows that stay without a gap.
        return -(-group * self.n_left // self.count)

    def count_of(self, first: int, rows: int) -> int:
        """Groups, from the first on, that with what goes with them have so many rows."""
        # A run has more rows the more groups it has, so that bisection finds the last that fits.
        low, high = 0, self.count - first
        while low < high:
            middle = (low + high + 1) // 2
            if self.rows_of(first, first + middle) <= rows:
                low = middle
            else:
                high = middle - 1
        return low

    def rows_of(self, first: int, last: int) -> int:
        """How many rows the groups first..last-1 have, with those that go with them."""
        left = self._left_before(last) - self._left_before(first)
        return (last - first) * self.size + left

    def ranges(self, first: int, last: int) -> Ranges:
        """Ranges of rows that hold the groups first..last-1."""
        starts, stops = _runs_of_rows(np.sort(self._members(first, last)))
        return tuple(zip(starts.tolist(), stops.tolist(), strict=True))

    def runs(self, bounds: Sequence[int]) -> Indices:
        """Where the ranges of the runs of groups between bounds start and stop, as of `Groups`."""
        key = tuple(bounds)
        if key not in self._runs:
            ranges = [_runs_of_rows(np.sort(self._members(*span))) for span in pairwise(bounds)]
            # Runs have different numbers of ranges: empty ones, from 0 to 0, fill up the array.
            pieces = max(len(starts) for starts, _ in ranges)
            ends = np.zeros((2, len(ranges), pieces), np.intp)
            for run, both in enumerate(ranges):
                ends[:, run, : len(both[0])] = both
            self._runs[key] = ends
        return self._runs[key]

    @cached_property
    def _runs(self) -> dict[tuple[int, ...], Indices]:
        return {}

    def arrange(self, first: int, last: int) -> Arrangement:
        """Where the rows of the groups first..last-1 are."""
        members = self._members(first, last)
        ascending = np.sort(members)
        starts, stops = _runs_of_rows(ascending)
        ranges = tuple(zip(starts.tolist(), stops.tolist(), strict=True))
        return Arrangement(ranges, np.searchsorted(ascending, members))

    def orders(self, cosets: range, first: int, count: int, variable: int) -> Indices:
        """Random orders of the rows of groups, shape (R, count, b): one for those of a unit."""
        units = self.units[first : first + count]
        # Orders are of whole units, also where a run starts or ends within one.
        start, stop = int(units[0]), int(units[-1]) + 1
        b = self.size
        # Keys go by the numbers of rows, and their order within a group is a random one.
        keys = np.array(
            [random_keys(self.seed, start * b, stop * b, "shifts", c, variable) for c in cosets]
        )
        orders: Indices = keys.reshape(len(cosets), -1, b).argsort(axis=-1)
        return orders[:, units - start]

    def _members(self, first: int, last: int) -> Indices:
        left = self.left[self.left_of(first, last)]
        return np.concatenate([self.rows[first:last].ravel(), left])


def _runs_of_rows(rows: Indices) -> tuple[Indices, Indices]:
    """Where the ranges of consecutive rows start and stop, of rows that ascend."""
    breaks = np.flatnonzero(np.diff(rows) > 1) + 1
    starts = np.concatenate([rows[:1], rows[breaks]])
    stops = np.concatenate([rows[breaks - 1], rows[-1:]]) + 1
    return starts, stops


class Items(NamedTuple):
    """Items of equally many rows, which move as wholes, within sets."""

    rows: Indices
    """Their rows, shape (items, w)."""
    sets: Indices
    """The set of every item, shape (items,)."""


@dataclass(frozen=True, eq=False)
class RowSets:
    """Which rows of a variable may take the places of which others.

    An item is a row, or the rows of a group, which move together. Items of a set change places;
    they have equally many rows, and row l of an item takes the place of row l of another.

    Parameters
    ----------
    n : int
        Rows of the data.
    parts : tuple of Items
        By the rows of an item.
    seed : int
        The seed of the test.
    what : str
        The things that move, in words.
    assumption : str
        The assumption that makes that exact, in words.
    """

    n: int
    parts: tuple[Items, ...]
    seed: int
    what: str
    assumption: str

    serial: ClassVar[bool] = False

    @classmethod
    def of(cls, strata: Indices | None, groups: Indices | None, seed: int) -> Self:
        """Sets of rows, or of groups of equally many rows, of one stratum.

        Parameters
        ----------
        strata : ndarray of int, shape (n,), or None
            The stratum of every row, from 0 on; None for one.
        groups : ndarray of int, shape (n,), or None
            The group of every row, from 0 on, each within one stratum; None where rows move by
            themselves.
        seed : int
            The seed of the test.
        """
        n = len(_given(strata, groups))
        strata = np.zeros(n, np.intp) if strata is None else strata
        within = " within strata" if strata.any() else ""
        if groups is None:
            rows = np.arange(n)[:, None]
            assumed = f"exact where rows are exchangeable{within}"
            return cls(n, (Items(rows, strata),), seed, f"rows{within}", assumed)
        order, sizes = np.argsort(groups, kind="stable"), np.bincount(groups)
        starts = np.cumsum(sizes) - sizes
        parts = []
        for width in np.unique(sizes).tolist():
            rows = order[starts[sizes == width][:, None] + np.arange(width)]
            # By their first rows, so that items stand in the order of storage.
            rows = rows[np.argsort(rows[:, 0])]
            parts.append(Items(rows, strata[rows[:, 0]]))
        what = f"whole groups of equally many rows{within}"
        return cls(n, tuple(parts), seed, what, f"exact where {what} are exchangeable")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.n, self.parts, self.seed, self.what, self.assumption)

    @cached_property
    def sizes(self) -> tuple[tuple[int, Indices], ...]:
        """Rows of an item, and items of every set, by part."""
        return tuple(
            (part.rows.shape[1], np.unique(part.sets, return_counts=True)[1]) for part in self.parts
        )

    @property
    def movable(self) -> float:
        """The share of the rows that are in a set of two items or more."""
        return float(sum(w * counts[counts > 1].sum() for w, counts in self.sizes)) / self.n

    def groups(self, most: int) -> MovedGroups:
        """Groups of about so many items, or of fewer where more rows move then; made once."""
        size = self._best_size(most)
        if size not in self._made:
            parts = enumerate(self.parts)
            drawn = [part.rows[_drawn_orders(part, size, self.seed, k)] for k, part in parts]
            self._made[size] = MovedGroups.of(self.n, size, self.seed, drawn, self.what)
        return self._made[size]

    def _best_size(self, most: int) -> int:
        """The largest of those with which nearly as few rows stay as with any."""
        largest = max(int(counts.max()) for _, counts in self.sizes)
        sizes = range(2, max(2, min(most, largest)) + 1)
        shares = {b: self._staying(b) for b in sizes}
        bound = _NEAR_BEST * min(shares.values()) + _STAYING
        good = [b for b in sizes if shares[b] <= bound]
        # Transforms of such lengths are quick.
        return max((b for b in good if is_smooth(b)), default=max(good))

    def _staying(self, size: int) -> float:
        """The share of rows that permutations within groups of so many items leave, on average.

        Items beyond the last whole group of a set, and one of every group.
        """
        rows = sum(
            w * float(times @ (counts % size + counts // size))
            for w, counts, times in self._distinct
        )
        return rows / self.n

    @cached_property
    def _distinct(self) -> tuple[tuple[int, Indices, Indices], ...]:
        return tuple((w, *np.unique(counts, return_counts=True)) for w, counts in self.sizes)

    @cached_property
    def _made(self) -> dict[int, MovedGroups]:
        return {}

    @cached_property
    def whole(self) -> WholeSets:
        """All rows as one group, in which rows move within their sets."""
        return WholeSets(self)


@dataclass(frozen=True, eq=False)
class Series:
    """Series of rows in the order of time, which are shifted around together.

    A series of n rows has b shifts, by multiples of L = n // b; rows beyond b L stay. To shift by
    k L is to shift b items of L consecutive rows each by k.

    Parameters
    ----------
    n : int
        Rows of the data.
    series : tuple of ndarray of int
        The rows of every series, in their order.
    seed : int
        The seed of the test.
    lag : int
        The least L.
    period : int, optional
        Every L is a multiple of it.
    """

    n: int
    series: tuple[Indices, ...]
    seed: int
    lag: int
    period: int = 1

    serial: ClassVar[bool] = True
    movable: ClassVar[float] = 1.0

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.n, self.series, self.seed, self.lag, self.period)

    @property
    def what(self) -> str:
        """The things that move, in words."""
        return "the series" if len(self.series) == 1 else f"{len(self.series):,} series at once"

    @property
    def assumption(self) -> str:
        """The assumption that makes that right, in words."""
        period = "" if self.period == 1 else f" but for a period of {self.period} rows"
        return (
            f"asymptotic: right for long series that are stationary{period} and whose rows far "
            "apart are independent"
        )

    @property
    def most_shifts(self) -> int:
        # Fewer shifts for a longer least lag: the shortest series decides, since all move together.
        """The most shifts that the least lag allows."""
        return min(map(len, self.series)) // self._least

    @property
    def _least(self) -> int:
        # The lag in whole periods, rounded up.
        return -(-self.lag // self.period) * self.period

    def groups(self, most: int) -> MovedGroups:
        """Those of about so many shifts, or of fewer where more rows move then; made once."""
        largest = max(2, min(most, self.most_shifts))
        sizes = range(largest, max(2, int(_FEWER * largest)) - 1, -1)
        # Of equal ones the first has the most shifts.
        size = min(sizes, key=self._staying)
        if size not in self._made:
            items = [
                rows[: size * step].reshape(1, size, step)
                for rows in self.series
                for step in [self._step(len(rows), size)]
            ]
            what = f"{self.what} by multiples of {items[0].shape[2]:,} rows"
            if len(self.series) > 1:
                what = f"{self.what}, each by multiples of {min(x.shape[2] for x in items):,} rows"
            if most >= self.most_shifts:
                what += f", {MOST_SHIFTS}"
            made = MovedGroups.of(self.n, size, self.seed, items, what, serial=True)
            self._made[size] = made
        return self._made[size]

    def _step(self, rows: int, size: int) -> int:
        # Whole periods, so that a shift keeps the phase: row and shifted row are of one hour or
        # season.
        return rows // size // self.period * self.period

    def _staying(self, size: int) -> int:
        """Rows that no shift moves."""
        return sum(len(rows) - size * self._step(len(rows), size) for rows in self.series)

    @cached_property
    def _made(self) -> dict[int, MovedGroups]:
        return {}


@dataclass(frozen=True, eq=False)
class WholeSets:
    """All rows as one group, as they are, whose orders move items within their sets alone.

    Parameters
    ----------
    sets : RowSets
        Sets within which rows move.
    """

    sets: RowSets

    count = 1
    n_left = 0

    @property
    def n(self) -> int:
        """Rows of the data."""
        return self.sets.n

    @property
    def size(self) -> int:
        """Rows of the group: all."""
        return self.sets.n

    @property
    def seed(self) -> int:
        """The seed of the test."""
        return self.sets.seed

    @property
    def what(self) -> str:
        """The things that move, in words."""
        return self.sets.what

    @property
    def left(self) -> Indices:
        """Rows in no group: none."""
        return np.empty(0, np.intp)

    def left_of(self, first: int, last: int) -> slice:
        """None of them."""
        del first, last
        return slice(0, 0)

    def count_of(self, first: int, rows: int) -> int:
        """One."""
        del first, rows
        return 1

    def ranges(self, first: int, last: int) -> Ranges:
        """All rows."""
        del first, last
        return ((0, self.n),)

    def runs(self, bounds: Sequence[int]) -> Indices:
        """The same of the one run."""
        del bounds
        return np.array([[[0]], [[self.n]]])

    def arrange(self, first: int, last: int) -> Arrangement:
        """Rows as they are."""
        return Arrangement(self.ranges(first, last), np.arange(self.n))

    def orders(self, cosets: range, first: int, count: int, variable: int) -> Indices:
        """Random orders of all rows, shape (R, 1, n)."""
        del first, count
        return np.array([[self._order(coset, variable)] for coset in cosets])

    def _order(self, coset: int, variable: int) -> Indices:
        order = np.arange(self.n)
        for number, (rows, sets) in enumerate(self.sets.parts):
            keys = random_keys(self.seed, 0, len(rows), "shifts", coset, variable, 0, number)
            # The places of a set, as they are stored, take its items in the order of their keys.
            places = rows[np.argsort(sets, kind="stable")]
            # Keys sort within sets; the sorted items fill the places of their own set.
            order[places.ravel()] = rows[np.lexsort((keys, sets))].ravel()
        return order


def _drawn_orders(part: Items, size: int, seed: int, number: int) -> Indices:
    """Items of groups in a random order, shape (groups, size), from all over their set.

    Which items of a set are left over is drawn. The others make as many segments of consecutive
    items as a group has items, and every group takes one of each, drawn as well: a design that
    repeats itself would meet its own copies otherwise.
    """
    rng, items = generator(seed, "groups", 2, number), len(part.rows)
    _, sets, counts = np.unique(part.sets, return_inverse=True, return_counts=True)
    # Sorted by set, and at random within each.
    chosen = np.argsort(sets + rng.random(items))
    rank = np.empty(items, np.intp)
    rank[chosen] = np.arange(items) - (np.cumsum(counts) - counts)[sets[chosen]]
    # Items beyond a multiple of the size stay where they are, at random within their set.
    units = counts // size
    kept = np.flatnonzero(rank < units[sets] * size)
    kept = kept[np.argsort(sets[kept], kind="stable")]
    set_of_item = sets[kept]
    place = np.arange(len(kept)) - (np.cumsum(units * size) - units * size)[set_of_item]
    # Segments of a set, so that a group has items from all over it, as `Groups` has of the data.
    segments = size * set_of_item + place // units[set_of_item]
    unit = np.empty(len(kept), np.intp)
    unit[np.argsort(segments + rng.random(len(kept)))] = place % units[set_of_item]
    unit += (np.cumsum(units) - units)[set_of_item]
    return kept[np.argsort(unit + rng.random(len(kept)))].reshape(-1, size)


def _given(strata: Indices | None, groups: Indices | None) -> Indices:
    labels = groups if strata is None else strata
    assert labels is not None
    return labels
