"""Permute rows, and compute the statistics of the data and under all permutations.

The null compares a statistic with its values under permutations that do not change the law of the
data where the hypothesis holds. Labels of rows determine these: rows change places within strata,
as whole groups, or in the order of time. Groups of rows come first, then labels and the moves that
they allow. An `Orbit` has shifts or permutations within groups of rows. A contraction is a
`Statistic`: it defines how a pass sums for C statistics under some cosets of an orbit, and how sums
become values. `replicate`, which is last, makes the statistics of the data and of all permutations,
in as few passes as fit in memory.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial, reduce
from itertools import groupby, pairwise
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

import numpy as np
import scipy
from numpy.typing import DTypeLike, NDArray

from dhsic._random import generator, random_keys, random_orders
from dhsic._validation import shown
from dhsic.engine.passes import Pass, RowGroups, Source, read_whole
from dhsic.engine.plan import DriverStep, PassPlan, Plan
from dhsic.engine.session import Session
from dhsic.engine.units import format_bytes
from dhsic.errors import DataError, InvalidArgumentError, MemoryBudgetError
from dhsic.kernels import Combinations
from dhsic.nulls import Permutation, Resampling, Shifts, TimeOrder
from dhsic.results import MOST_SHIFTS

Indices = NDArray[np.intp]
Vector = NDArray[np.float64]
State = TypeVar("State")

_SEGMENTS = 8  # as good as 16 on sorted data; 1 loses all power there
_LONGEST = 1.5  # times the rows that were asked for
_FEW_LEFT = 200  # rows for one that is left over
_FACTORS = (2, 3, 5, 7, 11)  # of lengths whose Fourier transforms are quick

_CODE_BYTES = 96  # of a row: its labels as numbers, sorted, and the moves of them
_FEWEST_MOVABLE = 0.1  # of the rows
_FEWEST_MOVES = 20  # with fewer a p-value cannot be below 5 %
_FEWER = 0.8  # of the shifts that were asked for
_NEAR_BEST = 1.25  # times the least share of rows that stay; above it, larger groups are better
_STAYING = 0.02

_CLOSING = 8  # columns of replicates that a p-value takes beside all, a few of each array
# Times the replicates of all features that their ranking takes beside them, which standardises all:
# of 200 features and 100,000 replicates 5.4.
_RANKING = 6
_WIDEST = 4096  # rows of a group; beyond, more cosets do as well and hold less

_LEAST_GROUP = 16  # rows
_ROWS_OF_A_TASK = 2**15  # that permutations of all rows take, where no other thread can help
SHARE_OF_MANY = 6
"""Of the memory, that many statistics that are measured each by itself take at a time.

1,000 pairs of features of 10,000 rows took 1.5 GiB of 2 GiB in four passes and 15.5 s, and take
0.4 GiB in as long.
"""


@dataclass(frozen=True)
class Groups(RowGroups):
    """All rows in groups of equal size, but for a few that are drawn at random and left over.

    The rows are cut into segments, and a group takes consecutive rows of each segment, so that
    groups of sorted data or series contain different values. Segments are rotated by independent
    offsets: otherwise a periodic design would be paired with its own copies. The rows of a group
    then have a random order, since a shift by one in the order of storage would pair neighbours.
    All of it depends on `n`, `size` and `seed` alone.

    Parameters
    ----------
    n : int
        Rows of the data.
    size : int
        Rows of a group, b.
    seed : int
        The seed of the test.

    Examples
    --------
    >>> groups = Groups.of(10_007, 1_000, seed=0)
    >>> groups.size, groups.count, groups.n_left
    (1000, 10, 7)
    """

    n: int
    size: int
    seed: int

    @classmethod
    def of(cls, n: int, size: int, seed: int) -> Self:
        """Groups of about `size` rows or up to half as many more; one group of fewer than two.

        Among the sizes whose transforms are quick, the first that leaves over at most one row in
        200, or the one that leaves the fewest.
        """
        if n < 2 * size:
            return cls(n, n, seed)
        # Longer groups are tried up to 1.5 times the size, for lengths that transform quickly.
        sizes = [b for b in range(size, int(_LONGEST * size) + 1) if is_smooth(b)] or [size]
        enough = (b for b in sizes if _FEW_LEFT * (n % b) <= n)
        return cls(n, next(enough, min(sizes, key=lambda b: n % b)), seed)

    @property
    def count(self) -> int:
        """Groups."""
        return self.n // self.size

    @property
    def n_left(self) -> int:
        """Rows that are in no group."""
        return self.n - self.count * self.size

    @cached_property
    def left(self) -> Indices:
        """These rows, ascending: drawn from all, since the last ones may be unlike the others."""
        if not self.n_left:
            return np.empty(0, np.intp)
        rng = generator(self.seed, "groups")
        # A smaller sample that happened to be stored last would be left out as a whole: power 0
        # against 0.90.
        return np.sort(rng.choice(self.n, self.n_left, replace=False))

    def runs(self, bounds: Sequence[int]) -> Indices:
        """Where runs start and stop, in the order of their segments."""
        first, last = np.array(bounds[:-1]), np.array(bounds[1:])
        # Vectorised over runs: a plan of many blocks asks for all of them at once.
        start, width, offset = self._segments[..., None]
        length = self.count * width
        # A segment is a circle: a run may go on from its end to its start, as a second piece, which
        # is empty where it does not.
        begin = (offset + first * width) % length
        end = begin + (last - first) * width
        starts, stops = [begin, np.zeros_like(begin)], [np.minimum(end, length), end - length]
        ends = start + np.maximum([starts, stops], 0)
        positions = ends.transpose(0, 3, 2, 1).reshape(2, len(first), 2 * len(start))
        # Rows left over belong to the row of a group after them, or to the last one.
        rows = positions + np.searchsorted(self._gaps, positions, side="left")
        return np.where(positions == self.count * self.size, self.n, rows)

    def members(self, first: int, last: int) -> Indices:
        """Rows of the groups first..last-1 in their order, and then those that go with them."""
        left = self.left[self.left_of(first, last)]
        return np.concatenate([*(self._rows(g) for g in range(first, last)), left])

    def left_of(self, first: int, last: int) -> Indices:
        """Which of the rows left over go with the groups first..last-1."""
        ranges = self.ranges(first, last)
        return np.concatenate([np.arange(*np.searchsorted(self.left, span)) for span in ranges])

    def count_of(self, first: int, rows: int) -> int:
        """Groups, from the first on, that with what goes with them have so many rows."""
        del first
        # Rows that are left over are fewer than those of a group, and add none.
        return rows // self.size

    def orders(self, cosets: range, first: int, count: int, variable: int) -> Indices:
        """Random orders of the rows of some groups in some cosets, shape (R, count, b).

        Every coset, group and variable has its own, so that neither chunks nor workers change
        them.
        """
        # By the number of a group among those of all cosets, so that an order does not depend on
        # the block that asks for it.
        numbers = (self.count * c + g for c in cosets for g in range(first, first + count))
        orders = random_orders(self.seed, numbers, self.size, "shifts", variable)
        return orders.reshape(len(cosets), count, self.size)

    def _rows(self, group: int) -> Indices:
        """Rows of a group in their random order, shape (size,)."""
        pieces = []
        for start, width, offset in self._segments.T:
            first = offset + group * width
            pieces.append(start + np.arange(first, first + width) % (self.count * width))
        positions = np.concatenate(pieces)
        rows = positions + np.searchsorted(self._gaps, positions, side="right")
        # At random within a group: a shift moves rows that lie far apart in the data.
        return generator(self.seed, "groups", 1, group).permutation(rows)

    @cached_property
    def _gaps(self) -> Indices:
        """Rows of groups that come before each row that is left over."""
        return self.left - np.arange(self.n_left)

    @cached_property
    def _segments(self) -> Indices:
        """Where every segment starts, rows of a group in it, and its offset, shape (3, segments).

        Rows are counted without those that are left over; the rows of a group are consecutive ones
        of each segment, from its offset on and around.
        """
        # A single group has all rows anyway.
        parts = min(_SEGMENTS, self.size) if self.count > 1 else 1
        widths = self.size // parts + (np.arange(parts) < self.size % parts)
        lengths = self.count * widths
        # A design that was repeated 16 times had power 0.16 without the rotation, and 1.00 with it.
        rng = generator(self.seed, "groups", 0)
        offsets = [rng.integers(length) for length in lengths.tolist()]
        return np.array([np.cumsum(lengths) - lengths, widths, offsets])


def is_smooth(length: int, factors: Iterable[int] = _FACTORS) -> bool:
    """Whether Fourier transforms of a length are quick: it has these factors alone."""
    for factor in factors:
        while length % factor == 0:
            length //= factor
    return length == 1


class _Uncached:
    """A dataclass that travels without what it keeps."""

    @cached_property
    def _made(self) -> dict[int, MovedGroups]:
        """Groups by their size."""
        return {}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(getattr(self, one.name) for one in fields(self))  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class MovedGroups(RowGroups):
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
    within : RowSets, optional
        Sets within which items move, where all rows are one group.
    """

    n: int
    size: int
    seed: int
    rows: Indices
    units: Indices
    left: Indices
    what: str
    serial: bool = False
    within: RowSets | None = None

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
        counts = range(1, self.count - first + 1)
        return bisect_right(counts, rows, key=lambda k: self.rows_of(first, first + k))

    def rows_of(self, first: int, last: int) -> int:
        """How many rows the groups first..last-1 have, with those that go with them."""
        left = self._left_before(last) - self._left_before(first)
        return (last - first) * self.size + left

    def runs(self, bounds: Sequence[int]) -> Indices:
        """Where runs start and stop, ascending."""
        members = [np.sort(self.members(*span)) for span in pairwise(bounds)]
        # Where other rows lie between two of a run.
        breaks = [np.flatnonzero(np.diff(rows) > 1) + 1 for rows in members]
        # Runs have different numbers of ranges: empty ones, from 0 to 0, fill up the array.
        ends = np.zeros((2, len(members), 1 + max(map(len, breaks))), np.intp)
        for run, (rows, at) in enumerate(zip(members, breaks, strict=True)):
            ends[0, run, : len(at) + 1] = rows[np.append(0, at)]
            ends[1, run, : len(at) + 1] = rows[np.append(at, len(rows)) - 1] + 1
        return ends

    def orders(self, cosets: range, first: int, count: int, variable: int) -> Indices:
        """Random orders of the rows of groups, shape (R, count, b): one for those of a unit."""
        if self.within is not None:
            return np.array([[self.within.order(coset, variable)] for coset in cosets])
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

    def members(self, first: int, last: int) -> Indices:
        """Rows of the groups first..last-1 in their order, and then those that go with them."""
        left = self.left[self.left_of(first, last)]
        return np.concatenate([self.rows[first:last].ravel(), left])


class Items(NamedTuple):
    """Items of equally many rows, which move as wholes, within sets."""

    rows: Indices
    """Their rows, shape (items, w)."""
    sets: Indices
    """The set of every item, shape (items,)."""


@dataclass(frozen=True, eq=False)
class RowSets(_Uncached):
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
        n = max(len(labels) for labels in (strata, groups) if labels is not None)
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

    @cached_property
    def sizes(self) -> tuple[tuple[int, Indices, Indices], ...]:
        """By part the rows of an item, numbers of items, and how many sets have so many."""
        counts = (np.unique(part.sets, return_counts=True)[1] for part in self.parts)
        pairs = zip(self.parts, counts, strict=True)
        return tuple((x.rows.shape[1], *np.unique(y, return_counts=True)) for x, y in pairs)

    @property
    def movable(self) -> float:
        """The share of the rows that are in a set of two items or more."""
        alone = sum(w * times[counts == 1].sum() for w, counts, times in self.sizes)
        return float(self.n - alone) / self.n

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
        largest = max(int(counts[-1]) for _, counts, _ in self.sizes)
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
            w * float(times @ (counts % size + counts // size)) for w, counts, times in self.sizes
        )
        return rows / self.n

    @cached_property
    def whole(self) -> MovedGroups:
        """All rows as one group, as they are, whose orders move items within their sets alone."""
        rows, none = np.arange(self.n)[None], np.empty(0, np.intp)
        unit = np.zeros(1, np.intp)
        return MovedGroups(self.n, self.n, self.seed, rows, unit, none, self.what, within=self)

    def order(self, coset: int, variable: int) -> Indices:
        """A random order of all rows, in which items take places within their sets."""
        order = np.arange(self.n)
        for number, (rows, sets) in enumerate(self.parts):
            keys = random_keys(self.seed, 0, len(rows), "shifts", coset, variable, 0, number)
            # The places of a set, as they are stored, take its items in the order of their keys.
            places = rows[np.argsort(sets, kind="stable")]
            # Keys sort within sets; the sorted items fill the places of their own set.
            order[places.ravel()] = rows[np.lexsort((keys, sets))].ravel()
        return order


@dataclass(frozen=True, eq=False)
class Series(_Uncached):
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
        """The most shifts that the least lag allows."""
        # Fewer shifts for a longer least lag: the shortest series decides, since all move together.
        return min(map(len, self.series)) // self._least

    @property
    def _least(self) -> int:
        # The lag in whole periods, rounded up.
        return -(-self.lag // self.period) * self.period

    def groups(self, most: int) -> MovedGroups:
        """Those of about so many shifts, or of fewer where more rows move then; made once."""
        largest = max(2, min(most, self.most_shifts))
        sizes = range(largest, max(2, int(_FEWER * largest)) - 1, -1)
        # All shifts by the step of so many, of 1,500 rows 1,500 by one: of 1,000 a third would
        # stay, and meet their own rows in every replicate.
        shortest = min(map(len, self.series))
        whole = shortest // max(self.step(shortest, largest), self._least)
        # Of equal ones the first has the most shifts.
        size = min([whole, *sizes], key=self._staying)
        if size not in self._made:
            items = [
                rows[: size * step].reshape(1, size, step)
                for rows in self.series
                for step in [self.step(len(rows), size)]
            ]
            what = f"{self.what} by multiples of {items[0].shape[2]:,} rows"
            if len(self.series) > 1:
                what = f"{self.what}, each by multiples of {min(x.shape[2] for x in items):,} rows"
            if most >= self.most_shifts:
                what += f", {MOST_SHIFTS}"
            made = MovedGroups.of(self.n, size, self.seed, items, what, serial=True)
            self._made[size] = made
        return self._made[size]

    def step(self, rows: int, size: int) -> int:
        """L of a series of so many rows that has so many shifts."""
        # Whole periods, so that a shift keeps the phase: row and shifted row are of one hour or
        # season.
        return rows // size // self.period * self.period

    def _staying(self, size: int) -> int:
        """Rows that no shift moves."""
        return sum(len(rows) - size * self.step(len(rows), size) for rows in self.series)


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


def check_order(order: Any, *, strata: bool) -> TimeOrder | None:
    """The value that a user gave, or None for rows in no order.

    Raises
    ------
    InvalidArgumentError
        It is something else, or goes beside strata.
    """
    if order is None:
        return None
    time_order = TimeOrder() if isinstance(order, str) and order == "time" else order
    if not isinstance(time_order, TimeOrder):
        msg = (
            f"order must be 'time' or a TimeOrder, got {shown(order)}: leave it out if rows have "
            "no order"
        )
        raise InvalidArgumentError(msg)
    if strata:
        msg = (
            "order and strata cannot be combined: a shift in time moves rows to other strata. "
            "Label several series as groups of rows, or give the period of a cycle, as "
            "TimeOrder(period=24)"
        )
        raise InvalidArgumentError(msg)
    return time_order


def check_codes(sources: Sequence[Source], memory: int) -> None:
    """Refuse labels that `codes_of` cannot read within the memory.

    Raises
    ------
    MemoryBudgetError
        Tells how much they need.
    """
    n = sources[0].shape[0]
    # Pieces and all of them joined, and what is made of them.
    needed = n * (_CODE_BYTES + 2 * max(source.row_bytes for source in sources))
    if needed > memory:
        msg = (
            "labels of rows are held in memory while those that are alike are found: they take "
            f"{format_bytes(needed)}. Allow memory={needed} or more, or test fewer rows"
        )
        raise MemoryBudgetError(msg)


def codes_of(source: Source, what: str) -> Indices:
    """The label of every row as a number from 0 on, shape (n,); of several columns as one.

    Parameters
    ----------
    source : Source
        Labels, as codes or numbers; read into memory.
    what : str
        The argument that they came by.

    Raises
    ------
    DataError
        A label is missing.
    """
    return coded(read_labels(source, what))


def read_labels(source: Source, what: str) -> NDArray[Any]:
    """Labels of rows, shape (n, columns).

    Raises
    ------
    DataError
        A label is missing.
    """
    labels = read_whole(source)
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        row = int(np.flatnonzero(~np.isfinite(labels).all(axis=1))[0])
        msg = (
            f"{what} has no label in row {row}: give one to every row, or drop such rows, as by "
            "missing='drop'"
        )
        raise DataError(msg)
    return labels


def joined_codes(first: Indices, second: Indices) -> Indices:
    """Every pair of two numbers as one number from 0 on."""
    # Consecutive again, so that pairs of pairs cannot overflow.
    pairs = first * (second.max() + 1) + second
    return np.unique(pairs, return_inverse=True)[1].astype(np.intp, copy=False)


def coded(labels: NDArray[Any]) -> Indices:
    """Every row of labels as a number from 0 on, of several columns as one."""
    columns = (np.unique(column, return_inverse=True)[1] for column in labels.T)
    code = reduce(joined_codes, columns)
    # By their first rows, so that the same labels written otherwise move the same rows.
    _, firsts = np.unique(code, return_index=True)
    ranks: Indices = np.argsort(np.argsort(firsts))
    return ranks[code]


Moves = RowSets | Series
"""Which rows may change places under the null hypothesis."""


def moves_of(
    n: int, strata: Indices | None, groups: Indices | None, order: TimeOrder | None, seed: int
) -> Moves | None:
    """Which rows may change places; None where all may.

    Parameters
    ----------
    n : int
        Rows of the data.
    strata, groups : ndarray of int, shape (n,), or None
        As `codes_of` finds them.
    order : TimeOrder or None
        Where rows, or those of every group, are a series.
    seed : int
        The seed of the test.

    Raises
    ------
    DataError
        Hardly any rows can change places.
    InvalidArgumentError
        A group lies in several strata.
    """
    if order is not None:
        return _series(n, groups, order, seed)
    if strata is None and groups is None:
        return None
    if strata is not None and groups is not None:
        # Written backwards, so that the first row of a group is the one that stays.
        first = np.empty(groups.max() + 1, np.intp)
        first[groups[::-1]] = strata[::-1]
        elsewhere = np.flatnonzero(strata != first[groups])
        if len(elsewhere):
            msg = (
                f"every group must lie within one stratum: the group of row {int(elsewhere[0])} "
                "has rows of several. Leave out strata, or make groups of one stratum each"
            )
            raise InvalidArgumentError(msg)
    sets = RowSets.of(strata, groups, seed)
    _check_sets(sets, strata, groups)
    return sets


def _series(n: int, groups: Indices | None, order: TimeOrder, seed: int) -> Series:
    # One series of all rows, as they are stored.
    if groups is None:
        series: tuple[Indices, ...] = (np.arange(n),)
    else:
        # A stable sort keeps the rows of a series in the order of storage, which is that of time.
        rows = np.argsort(groups, kind="stable")
        series = tuple(np.split(rows, np.cumsum(np.bincount(groups))[:-1]))
    shortest = min(map(len, series))
    moves = Series(n, series, seed, order.least_lag(shortest), order.period)
    if moves.most_shifts < _FEWEST_MOVES:
        which = "the series" if groups is None else "the shortest series"
        msg = (
            f"a test of series needs {_FEWEST_MOVES} shifts or more for a p-value of 5 % or less: "
            f"{which} has {shortest:,} rows, which allow {moves.most_shifts} shifts by {moves.lag} "
            "rows. Lower the lag or the period, or leave out short series"
        )
        raise DataError(msg)
    return moves


def _check_sets(sets: RowSets, strata: Indices | None, groups: Indices | None) -> None:
    """Refuse labels with which hardly anything moves."""
    if sets.movable < _FEWEST_MOVABLE:
        share = f"{100 * sets.movable:.3g} % of the rows"
        if groups is None:
            msg = (
                f"strata must have two rows or more each: {share} can be permuted, since the "
                "others are alone in their stratum. Take coarser strata"
            )
        else:
            msg = (
                "the null permutes whole groups with equally many rows"
                f"{'' if strata is None else ' of the same stratum'}, and only {share} belong to "
                "groups that can be permuted. Make groups equally large, as by leaving out rows at "
                "random, or test the means of the groups"
            )
        raise DataError(msg)
    # The logarithm of the number of moves: prod (k!) over sets of k items that change places.
    moves = sum(times @ scipy.special.gammaln(counts + 1) for _, counts, times in sets.sizes)
    if moves < math.log(_FEWEST_MOVES):
        msg = (
            f"{sets.what} can be permuted in {round(math.exp(moves))} ways only, so that no "
            "p-value is below 1 over that number: take more groups or larger strata"
        )
        raise DataError(msg)


class Pair(NamedTuple):
    """A statistic of the dependence of one variable and others, by a kernel of each."""

    left: tuple[int, ...]
    """Numbers of kernels that are multiplied, each of another variable."""
    right: int
    """Number of the kernel of the variable that is shifted."""

    @classmethod
    def of(cls, combination: tuple[int, ...]) -> Self:
        """The last kernel of a combination and all others."""
        return cls(combination[:-1], combination[-1])


class Replicated(NamedTuple):
    """C statistics with the replicates that they share."""

    statistics: Vector
    """Shape (C,)."""
    replicates: Vector
    """Statistics of the rest of the orbit, shape (N - 1, C); a row is one permutation for all."""
    rounding: Vector
    """Differences of the statistics up to it are ties, shape (C,)."""
    told: list[Any]
    """What else the sums say of the data as they are, of every statistic."""


@dataclass(frozen=True)
class Orbit:
    """The permutations of rows by which a test compares the data with itself.

    Permutation number r b + k permutes within groups at random, in the way of coset r, and then
    shifts by k, so that row i of a group meets row (i + k) mod b of the shifted variable. Number 0
    is the identity. Without shifts, permutation number r is that of coset r alone.

    Parameters
    ----------
    groups : RowGroups
        Within which rows move, b in each.
    cosets : int
        How many, R; the first is that of the identity.
    shifted : bool, optional
        Whether every coset is shifted by all k < b.
    """

    groups: RowGroups
    cosets: int
    shifted: bool = True

    def __len__(self) -> int:
        return self.cosets * self.n_shifts

    @property
    def n_shifts(self) -> int:
        """Permutations of a coset."""
        return self.groups.size if self.shifted else 1

    @property
    def detail(self) -> str:
        """How the replicates are made, for a result."""
        groups, b, count = self.groups, self.groups.size, self.groups.count
        of = f" of {self.cosets:,}" if self.cosets > 1 else ""
        if isinstance(groups, MovedGroups):
            stay = f"; {groups.n_left:,} of {groups.n:,} rows stay" if groups.n_left else ""
            if not self.shifted:
                return f"{groups.what} shuffled{stay}"
            return f"all {b:,} shifts{of and f'{of} orders'} of {groups.what}{stay}"
        if not self.shifted:
            return "all rows shuffled" if count == 1 else f"shuffled in groups of {b:,} rows"
        within = "all rows" if count == 1 else f"{count:,} groups of rows"
        return f"all {b:,} shifts{of and f'{of} random orders'} within {within}"

    def places(self, cosets: range, variable: int, *span: int) -> NDArray[np.intp]:
        """Where rows of a variable come from in some cosets, shape (R, rows).

        The span has the first group, how many, and how many rows that stay come after them; of all
        rows it is not given. Coset 0 holds the data, as its shift by 0: its rows stay.
        """
        groups, b = self.groups, self.groups.size
        first, count, n_left = span or (0, groups.count, groups.n_left)
        moving = count * b
        places = np.tile(np.arange(moving + n_left), (len(cosets), 1))
        if count and (drawn := cosets[1:] if 0 in cosets else cosets):
            # A variable that moves has orders of its own. Several orders of one pairing, with the
            # data counted once, are not exact: 8.5 % of true nulls rejected at 1 % for n = 10.
            orders = groups.orders(drawn, first, count, variable)
            orders = orders + b * np.arange(count)[:, None]
            places[-len(drawn) :, :moving] = orders.reshape(len(drawn), -1)
        return places


class PermutedPass(Pass[State]):
    """A pass over groups of rows under the permutations of an orbit."""

    orbit: Orbit
    cosets: range
    """Those of the orbit that are summed."""

    alone: ClassVar[str]
    """Name of the pass over the data as they are."""

    @property
    def name(self) -> str:
        """Name of the pass."""
        if len(self.orbit) == 1:
            return self.alone
        return "shifts" if self.orbit.shifted else "permutation null"

    @property
    def groups(self) -> RowGroups:
        """The groups of all rows."""
        return self.orbit.groups


def transform_error(dtype: DTypeLike, length: int) -> float:
    """Rounding error of Fourier transforms of a length, relative to the values."""
    # A transform of length b has an error of about eps log2(b), relative to the norm.
    return float(np.finfo(dtype).eps) * math.log2(length + 1)


def tile_error(dtype: DTypeLike) -> float:
    """How much kernels of equal rows differ by their place in a tile: as measured, 90 columns."""
    return 3e-7 if np.dtype(dtype) == np.float32 else 4e-15


def tie_tolerance(statistics: Any, errors: Any) -> Vector:
    """How far below a statistic T a replicate may lie and still be a tie.

    Roots of T are norms. Where each is known up to an error d, replicates with
    sqrt(T_k) >= sqrt(T) - 2 d count, that is T_k >= T - 4 d sqrt(T) + 4 d^2.

    Parameters
    ----------
    statistics : array-like, shape (G,)
        T >= 0.
    errors : array-like, shape (G,)
        d.

    Returns
    -------
    ndarray, shape (G,)
    """
    # Without a tolerance p-values of 82 to 100 % of discrete data sets were too small.
    # Errors are of the norm, the root of T; squared they would be many times too wide at small T.
    sizes = np.maximum(np.asarray(statistics, np.float64), 0.0)
    least = np.maximum(np.sqrt(sizes) - 2.0 * np.asarray(errors, np.float64), 0.0)
    # From T itself: the square of its root may be less, and then a replicate of 0 was no tie.
    tolerance: Vector = sizes - np.minimum(least**2, sizes)
    return tolerance


def keeping_replicates(plan: Plan, combinations: Combinations, null: object) -> Plan:
    """The plan with the bytes of replicates, of all statistics, until the p-value is known."""
    values = 8 * getattr(null, "n_resamples", 0)  # an orbit has at least so many permutations
    kept = values * len(combinations)
    closing = max(values * _CLOSING, kept * _RANKING if combinations.features else 0)
    return replace(plan, kept_bytes=kept, closing_bytes=closing)


def orbit_of(
    session: Session,
    null: Shifts | Permutation,
    suits: Callable[[Orbit], bool] = lambda _: True,
) -> Orbit:
    """The permutations that a null takes of the rows of a session.

    Parameters
    ----------
    session : Session
        The run.
    null : Shifts or Permutation
        The null distribution.
    suits : callable, optional
        Whether permutations of all rows, in one task, are quick and fit in memory: asked where the
        null leaves the choice and rows are many.
    """
    if isinstance(null, Shifts):
        return shifted_orbit(session, null.n_resamples)
    n = session.n
    # One more, since the identity is the data.
    whole = Orbit(whole_group(session), null.n_resamples + 1, shifted=False)
    # All rows are permuted where one task holds them; within groups the test is as exact.
    if null.within == "all" or n <= null.group_rows or (null.within == "auto" and suits(whole)):
        return whole
    groups: RowGroups
    if session.moves is None:
        # Groups as near to the size as the rows divide.
        groups = Groups(n, n // round(n / null.group_rows), session.seed)
    else:
        groups = session.moves.groups(null.group_rows)
    return replace(whole, groups=groups)


def shifted_orbit(session: Session, n_resamples: int, most: int | None = None) -> Orbit:
    """At least so many shifts, in groups of at most so many rows or not many more."""
    # Rows of a series keep their order: there is one circle of shifts, and no coset of it makes up
    # for a smaller one.
    moves = session.moves
    serial = moves is not None and moves.serial
    # A group of b rows has b shifts: a larger one would make more than were asked for.
    size = min(n_resamples, most or (n_resamples if serial else _WIDEST))
    groups = Groups.of(session.n, size, session.seed) if moves is None else moves.groups(size)
    # Whole cosets, and as many as give the number that was asked for.
    return Orbit(groups, 1 if serial else -(-n_resamples // groups.size))


def whole_group(session: Session) -> RowGroups:
    """All rows of a session as one group."""
    moves = session.moves
    if moves is None:
        return Groups(session.n, session.n, session.seed)
    assert isinstance(moves, RowSets), "rows of series are not permuted"
    return moves.whole


class Permuted(NamedTuple):
    """What the sums of a pass say of C statistics."""

    permuted: Vector
    """Statistics under the permutations of the cosets that were summed, shape (R b, C)."""
    errors: Vector
    """Up to how much rounding may have changed a statistic or its root, shape (C,)."""
    told: Sequence[Any]
    """What else the sums of coset 0 say of the data as they are, of every statistic."""


class Statistic(ABC, Generic[State]):
    """C statistics of the same rows, whose sums share a pass."""

    identity_rows: ClassVar[int] = 1024
    """Rows of a group where nothing is permuted."""
    errors_of_roots: ClassVar[bool] = True
    """Whether the errors that are known are those of the roots of statistics, which are norms."""

    @property
    def adds(self) -> bool:
        """Whether a statistic is a sum of those of parts of its functions, see `addends`."""
        return False

    @abstractmethod
    def __len__(self) -> int:
        """C."""

    def most(self, orbit: Orbit) -> tuple[int, int]:
        """How many statistics and cosets may share a pass."""
        return len(self), orbit.cosets

    @abstractmethod
    def part(self, numbers: Sequence[int]) -> Self:
        """Some of the statistics."""

    @abstractmethod
    def over(self, orbit: Orbit, cosets: range) -> Pass[State]:
        """The pass that sums for the permutations of some cosets."""

    @abstractmethod
    def step(self, session: Session, reduction: Any) -> DriverStep:
        """The bytes of `values`, with those of the sums."""

    @abstractmethod
    def values(self, session: Session, reduction: Any, sums: Any) -> Permuted:
        """The statistics of the sums of a pass that `over` made, which may be overwritten."""

    def addends(self, fits: Callable[[Self], bool]) -> list[Self]:
        """Parts that fit, whose statistics add up to that of the only one; none where it has none.

        A squared norm is a sum over features.
        """
        del fits
        return []

    def largest(self) -> Self:
        """The statistic whose sums are largest."""
        return self.part(range(1))

    def bare(self) -> Self:
        """The same without sums of blocks of rows, by which no replicate may change.

        So they decide neither groups nor passes of these.
        """
        return self

    def orbit(self, session: Session, null: Resampling | None) -> Orbit:
        """The permutations of a null; without one the identity.

        Groups are smaller where a statistic does not fit otherwise: they have fewer frequencies,
        and more cosets make up for the shifts.
        """
        if null is None:
            groups = Groups.of(session.n, min(session.n, self.identity_rows), session.seed)
            return Orbit(groups, 1, shifted=False)
        largest = self.largest().bare()

        def suits(orbit: Orbit) -> bool:
            """Whether one task can take all permutations of a statistic by itself."""
            if session.n > _ROWS_OF_A_TASK:
                return False
            plan = session.plan(largest.over(orbit, range(orbit.cosets)))
            return plan.worker_bytes <= session.runtime.memory // 2

        orbit = orbit_of(session, null, suits)
        if isinstance(null, Permutation) or self.adds:
            return orbit

        def fits(some: Self) -> bool:
            return _planned(session, orbit, some, range(orbit.cosets)[-1:]).fits(session)

        while orbit.groups.size >= 2 * _LEAST_GROUP and not fits(largest):
            orbit = shifted_orbit(session, null.n_resamples, orbit.groups.size // 2)
        return orbit


def replicate(
    session: Session, statistic: Statistic[Any], orbit: Orbit, share: int = 1
) -> Replicated:
    """The statistics of the data and of all other permutations of an orbit, by their parts."""
    count = len(statistic)
    whole: Replicated | None = None
    for numbers, part in replicate_parts(session, statistic, orbit, share):
        if len(numbers) == count:
            return part
        if whole is None:
            values = np.empty((len(orbit), count))
            whole = Replicated(values[0], values[1:], np.empty(count), [None] * count)
        for every, some in zip(whole[:3], part[:3], strict=True):
            every[..., list(numbers)] = some
        for c, told in zip(numbers, part.told, strict=True):
            whole.told[c] = told
    assert whole is not None
    return whole


def replicate_parts(
    session: Session, statistic: Statistic[Any], orbit: Orbit, share: int = 1
) -> Iterator[tuple[Sequence[int], Replicated]]:
    """Some of the statistics after others, by their numbers, with all of their replicates.

    Several share a pass where that takes one part in `share` of the memory; replicates may go
    before those of the next are made.
    """
    pieces = _pieces(session, statistic, orbit, share)
    for numbers, group in groupby(pieces, key=lambda piece: piece.numbers):
        values, squares, told = np.empty((0, 0)), np.zeros(len(numbers)), list[Any]()
        for piece in group:
            cosets, sums = piece.cosets, session.reduce(piece.reduction, piece.plan)
            session.step(piece.step.name)
            found = piece.statistic.values(session, piece.reduction, sums)
            if cosets.start == 0:
                # Errors are of roots, whose squares add up over parts of a norm.
                squares += found.errors**2
                told = told or list(found.told)
            if not values.size and len(found.permuted) == len(orbit):
                values = found.permuted
                continue
            values = values if values.size else np.zeros((len(orbit), len(numbers)))
            # Statistics of parts of the features add up.
            b = orbit.n_shifts
            values[b * cosets.start : b * cosets.stop] += found.permuted
        tolerance = np.sqrt(squares)
        if statistic.errors_of_roots:
            tolerance = tie_tolerance(values[0], tolerance)
        yield numbers, Replicated(values[0], values[1:], tolerance, told)


def measure(session: Session, statistic: Statistic[Any]) -> Replicated:
    """The statistics of the data alone."""
    return replicate(session, statistic, statistic.orbit(session, None))


def replicate_steps(
    session: Session, statistic: Statistic[Any], orbit: Orbit, share: int = 1
) -> list[DriverStep | PassPlan]:
    """The passes of `replicate_parts`, and the step after each."""
    pieces = _pieces(session, statistic, orbit, share)
    return [step for piece in pieces for step in (piece.plan, piece.step)]


class _Part(NamedTuple):
    """The part of the work that one pass takes."""

    statistic: Statistic[Any]
    numbers: Sequence[int]
    """Those of its statistics."""
    cosets: range
    reduction: Pass[Any]
    plan: PassPlan
    step: DriverStep
    needed: int
    """Bytes of the pass, or of the step after it, without sums of blocks of rows."""

    def fits(self, session: Session) -> bool:
        """Whether it leaves memory for what the driver holds."""
        return self.needed <= session.runtime.pass_bytes


def _planned(
    session: Session,
    orbit: Orbit,
    statistic: Statistic[Any],
    cosets: range,
    numbers: Sequence[int] = range(1),
) -> _Part:
    reduction = statistic.over(orbit, cosets)
    plan, step = session.plan(reduction), statistic.step(session, reduction)
    needed = max(plan.worker_bytes, step.working_bytes)
    bare = statistic.bare() if len(orbit) > 1 else statistic
    # What takes little with them takes little without, too.
    if bare is not statistic and needed > session.runtime.pass_bytes // SHARE_OF_MANY:
        needed = _planned(session, orbit, bare, cosets).needed
    return _Part(statistic, numbers, cosets, reduction, plan, step, needed)


def _pieces(
    session: Session, statistic: Statistic[Any], orbit: Orbit, share: int, *part: Any
) -> Iterator[_Part]:
    """All at once where the sums fit in memory; else parts of the statistics, then of the cosets.

    Of one statistic and one coset they are parts that add up to it. What is too large even then is
    taken as it is, and the plan says so. A part is some of the statistics, their numbers and some
    of the cosets, by default all.
    """
    some, numbers, cosets = part or (statistic, range(len(statistic)), range(orbit.cosets))
    planned = partial(_planned, session, orbit)
    # Not a function within this one: that would refer to itself, and so hold the data of a test
    # that has ended until cycles are collected.
    again = partial(_pieces, session, statistic, orbit, share)
    (most, together), count = some.most(orbit), len(numbers)
    allowed = session.runtime.pass_bytes // (share if count > 1 else 1)
    # The last cosets take more than the first: they move rows.
    piece = planned(some, cosets[-together:], numbers) if count <= most else None
    if piece is not None and piece.needed <= allowed:
        for few in _cut(cosets, -(-len(cosets) // together)):
            yield piece if few == piece.cosets else planned(some, few, numbers)
    elif count > 1:
        parts = -(-count // most)
        if piece is not None:
            parts = min(-(-piece.needed // max(allowed, 1)), count)
        for few_numbers in _cut(numbers, parts):
            yield from again(statistic.part(few_numbers), few_numbers, cosets)
    else:
        assert piece is not None
        one = planned(some, cosets[-1:], numbers)
        fits = one.fits(session)
        addends = (
            [] if fits else some.addends(lambda part: planned(part, cosets[-1:]).fits(session))
        )
        for addend in addends:
            yield from again(addend, numbers, cosets)
        if fits:
            for few in _cut(cosets, 2):
                yield from again(some, numbers, few)
        elif not addends:
            # Nothing fits: the plan says about how much one coset takes.
            parts = max(-(-len(cosets) // together), -(-piece.needed // one.needed))
            # One coset fits where the driver holds less than is kept for it.
            room = session.runtime.memory - session.runtime.libraries_bytes
            while parts < len(cosets) and one.needed <= room:
                if planned(some, next(_cut(cosets, parts))).needed <= room:
                    break
                parts *= 2
            for few in _cut(cosets, parts):
                yield planned(some, few, numbers)


def _cut(numbers: Any, parts: int) -> Iterator[Any]:
    """So many parts, of which the first is the longest: what fits for it fits for all."""
    size = -(-len(numbers) // parts)
    return (numbers[at : at + size] for at in range(0, len(numbers), size))
