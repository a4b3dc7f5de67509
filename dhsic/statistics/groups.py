"""Groups of rows that lie far apart, within which a null distribution moves rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dhsic._random import generator, random_orders
from dhsic.engine.reduction import Arrangement, Ranges

Indices = NDArray[np.intp]

_SEGMENTS = 8  # as good as 16 on sorted data; 1 loses all power there
_WIDEST = 1.5  # times the rows that were asked for
_FEW_LEFT = 200  # rows for one that is left over
_FACTORS = (2, 3, 5, 7, 11)  # of lengths whose Fourier transforms are quick


class ArrangedGroups(ABC):
    """Groups of rows, and where the rows of a run of them are."""

    @abstractmethod
    def runs(self, bounds: Sequence[int]) -> Indices:
        """Where the ranges of the runs of groups between bounds start and stop.

        Parameters
        ----------
        bounds : sequence of int
            Numbers of groups, ascending.

        Returns
        -------
        ndarray, shape (2, runs, pieces)
            Pieces that a run does not have are empty.
        """

    @abstractmethod
    def members(self, first: int, last: int) -> Indices:
        """Rows of the groups first..last-1 in their order, and then those that go with them."""

    def ranges(self, first: int, last: int) -> Ranges:
        """Ranges of rows that hold the groups first..last-1.

        Those of all groups together hold every row once, left over ones as well.
        """
        ends = self.runs((first, last))
        return tuple((int(a), int(b)) for a, b in zip(*ends[:, 0], strict=True) if a < b)

    def arrange(self, first: int, last: int) -> Arrangement:
        """Where the rows of the groups first..last-1 are."""
        ranges = self.ranges(first, last)
        return Arrangement(ranges, _places(ranges, self.members(first, last)))


@dataclass(frozen=True)
class Groups(ArrangedGroups):
    """All rows in groups of equal size, but for a few that are drawn at random and left over.

    The rows are cut into segments, and a group takes consecutive rows of each, so that data which
    are stored sorted or in series keep their differences within a group. Segments are rotated by
    independent offsets: a design that repeats itself would meet its own copies otherwise. The rows
    of a group then come in a random order, since a shift by one of the order of storage would pair
    neighbours. All of it depends on `n`, `size` and `seed` alone.

    Parameters
    ----------
    n : int
        Rows of the data.
    size : int
        Rows of a group, b.
    seed : int
        The seed of the test.

    Raises
    ------
    ValueError
        The size is not from 1 to n.

    Examples
    --------
    >>> groups = Groups.of(10_007, 1_000, seed=0)
    >>> groups.size, groups.count, groups.n_left
    (1000, 10, 7)
    """

    n: int
    size: int
    seed: int

    def __post_init__(self) -> None:
        if not 1 <= self.size <= self.n:
            msg = f"groups must have 1 to {self.n} rows, got {self.size}"
            raise ValueError(msg)

    @classmethod
    def of(cls, n: int, size: int, seed: int) -> Self:
        """Groups of about `size` rows or up to half as many more; one group of fewer than two.

        Among the sizes whose transforms are quick, the first that leaves over at most one row in
        200, or the one that leaves the fewest.
        """
        if n < 2 * size:
            return cls(n, n, seed)
        # Longer groups are tried up to 1.5 times the size, for lengths that transform quickly.
        sizes = [b for b in range(size, int(_WIDEST * size) + 1) if is_smooth(b)] or [size]
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
        pieces = [segment.pieces(first, last) for segment in self._segments]
        positions = np.concatenate(pieces, axis=1).swapaxes(1, 2)
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
        positions = np.concatenate([segment.positions(group) for segment in self._segments])
        rows = positions + np.searchsorted(self._gaps, positions, side="right")
        # At random within a group: a shift moves rows that lie far apart in the data.
        return generator(self.seed, "groups", 1, group).permutation(rows)

    @cached_property
    def _gaps(self) -> Indices:
        """Rows of groups that come before each row that is left over."""
        return self.left - np.arange(self.n_left)

    @cached_property
    def _segments(self) -> tuple[_Segment, ...]:
        # A single group has all rows anyway.
        parts = min(_SEGMENTS, self.size) if self.count > 1 else 1
        rows = [self.size // parts + (k < self.size % parts) for k in range(parts)]
        ends = accumulate((self.count * r for r in rows), initial=0)
        # A design that was repeated 16 times had power 0.16 without the rotation, and 1.00 with it.
        rng = generator(self.seed, "groups", 0)
        return tuple(
            _Segment(start, r, self.count, int(rng.integers(self.count * r)))
            for start, r in zip(ends, rows, strict=False)
        )


class _Segment(NamedTuple):
    """Consecutive rows of all groups, counted without those that are left over."""

    start: int
    rows: int  # of a group
    n_groups: int
    offset: int

    def positions(self, group: int) -> Indices:
        """Those of a group, from the offset on and around."""
        first = self.offset + group * self.rows
        return self.start + np.arange(first, first + self.rows) % (self.n_groups * self.rows)

    def pieces(self, first: Indices, last: Indices) -> Indices:
        """Those of runs of groups: two pieces, of which one is empty where it does not go around.

        Parameters
        ----------
        first, last : ndarray of int, shapes (runs,)
            The groups first..last-1 of every run.

        Returns
        -------
        ndarray, shape (2, 2, runs)
            Starts and stops of both pieces.
        """
        length = self.n_groups * self.rows
        # A segment is a circle: a run may go on from its end to its start.
        begin = (self.offset + first * self.rows) % length
        end = begin + (last - first) * self.rows
        starts = [begin, np.zeros_like(begin)]
        stops = [np.minimum(end, length), np.maximum(end - length, 0)]
        return self.start + np.array([starts, stops])


def _places(ranges: Sequence[tuple[int, int]], rows: Indices) -> Indices:
    """Where rows are in ranges that are read one after another."""
    starts, stops = np.array(ranges).T
    # From a row of the data to its place among those read: ranges are read one after another.
    shifts = np.cumsum(stops - starts) - stops
    order = np.argsort(starts)
    ranges_of_rows = order[np.searchsorted(starts[order], rows, side="right") - 1]
    places: Indices = rows + shifts[ranges_of_rows]
    return places


def is_smooth(length: int) -> bool:
    """Whether Fourier transforms of a length are quick."""
    for factor in _FACTORS:
        while length % factor == 0:
            length //= factor
    return length == 1
