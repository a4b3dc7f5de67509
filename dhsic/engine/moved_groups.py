"""Groups whose rows change places with some others only, as passes read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dhsic._random import random_keys
from dhsic.engine.groups import Arrangement, Ranges

Indices = NDArray[np.intp]


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
