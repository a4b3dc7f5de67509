"""Passes: reductions over blocks of rows, as values."""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

State = TypeVar("State")
Indices = NDArray[np.intp]
Ranges = tuple[tuple[int, int], ...]


class Arrangement(NamedTuple):
    """Where the rows of a run of groups are."""

    ranges: Ranges
    """The rows to read, one range after another."""
    places: Indices
    """Numbers among the rows read: those of every group in their order, then the left-over ones."""


class RowGroups(ABC):
    """All rows in groups of equal size within which they move, but for some that stay.

    Parameters
    ----------
    n, size : int
        Rows of the data, and of a group, b.
    seed : int
        The seed of the test.
    """

    n: int
    size: int
    seed: int

    @property
    @abstractmethod
    def count(self) -> int:
        """Groups."""

    @property
    @abstractmethod
    def n_left(self) -> int:
        """Rows that are in no group."""

    @abstractmethod
    def left_of(self, first: int, last: int) -> Indices | slice:
        """Which of them go with the groups first..last-1, all groups or one of several."""

    @abstractmethod
    def count_of(self, first: int, rows: int) -> int:
        """Groups, from the first on, that with what goes with them have so many rows."""

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

    @abstractmethod
    def orders(self, cosets: range, first: int, count: int, variable: int) -> Indices:
        """Random orders of the rows of some groups in some cosets, shape (R, count, b)."""

    def ranges(self, first: int, last: int) -> Ranges:
        """Ranges of rows that hold the groups first..last-1.

        Those of all groups together hold every row once, left over ones as well.
        """
        ends = self.runs((first, last))
        return tuple((int(a), int(b)) for a, b in zip(*ends[:, 0], strict=True) if a < b)

    def arrange(self, first: int, last: int) -> Arrangement:
        """Where the rows of the groups first..last-1 are."""
        ranges, rows = self.ranges(first, last), self.members(first, last)
        starts, stops = np.array(ranges).T
        shifts = np.cumsum(stops - starts) - stops
        order = np.argsort(starts)
        ranges_of_rows = order[np.searchsorted(starts[order], rows, side="right") - 1]
        return Arrangement(ranges, rows + shifts[ranges_of_rows])


class Moves(Protocol):
    """Which rows may change places under the null hypothesis."""

    @property
    def serial(self) -> bool:
        """Whether rows are shifted in time alone."""

    @property
    def movable(self) -> float:
        """The share of the rows that can change places."""

    @property
    def what(self) -> str:
        """The things that move, in words."""

    @property
    def assumption(self) -> str:
        """The assumption that makes that exact, in words."""

    def groups(self, most: int) -> RowGroups:
        """Groups of about so many rows, or things, that change places."""


class RowBlock(NamedTuple):
    """The same rows of every variable."""

    start: int
    """First row in the whole data set."""
    values: tuple[NDArray[Any], ...]
    """One array (b, d_m) a variable, finite."""

    @property
    def rows(self) -> int:
        """Number of rows, b."""
        return len(self.values[0])


class GroupBlock(NamedTuple):
    """The same groups of rows of every variable, and rows that are in no group."""

    first: int
    """Number of the first group."""
    groups: RowGroups
    """All of them."""
    values: tuple[NDArray[Any], ...]
    """One array a variable, finite: the rows of group after group, then those left over."""

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.values[0])

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return self.groups.count_of(self.first, self.rows)

    @property
    def n_left(self) -> int:
        """Rows left over among these."""
        return self.rows - self.n_groups * self.groups.size


@dataclass(frozen=True)
class Footprint:
    """Cost of a reduction, for the plan.

    Parameters
    ----------
    payload : int
        Bytes of the reduction itself, which travels once to every worker.
    scratch : int
        Bytes a running task needs besides its block and its result.
    state : int
        Bytes of one partial result.
    apart : int, optional
        Those of them that are sums of blocks of rows. They do not decide how rows are cut, so that
        intervals leave the digits of other results as they are.
    """

    payload: int
    scratch: int
    state: int
    apart: int = 0


class Pass(ABC, Generic[State]):
    """One pass over the data: blocks of rows become partial results, which are combined in order.

    A pass with `groups` runs over runs of groups of rows that lie far apart, and one with `pairs`
    over all pairs of such runs; else blocks are of consecutive rows.
    """

    pairs: ClassVar[bool] = False
    """Whether `chunk` takes two blocks, the same one twice, or `right` after `left`."""
    keeps: ClassVar[bool] = True
    """Whether a checkpoint keeps partial results; rows themselves are where they were."""
    refuses: ClassVar[bool] = True
    """Whether blocks with NaN or infinity are refused before `chunk` sees them."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of the result of the pass, for progress and the plan."""

    @property
    def groups(self) -> RowGroups | None:
        """The groups of all rows, where rows are read by groups."""
        return None

    @property
    def row_multiple(self) -> int:
        """Blocks start at multiples of this many rows."""
        return 1

    @property
    def one_block(self) -> bool:
        """Whether one task takes all groups."""
        return False

    @abstractmethod
    def footprint(self, rows: int) -> Footprint:
        """Cost of a block, or of a pair of blocks, of so many rows."""

    @abstractmethod
    def chunk(self, *args: Any, **kwargs: Any) -> State:
        """Partial result of one block, a `RowBlock` or a `GroupBlock`, or of a pair of them."""

    def combine(self, left: State, right: State) -> State:
        """Add the partial results of neighbours; must leave both as they are."""
        return add(left, right)

    def without(self, total: State, part: State, scale: float) -> State:
        """Sums of all rows less those of some, times n over the number of the others."""
        return _scaled_difference(total, part, scale)


@dataclass(frozen=True)
class Partial(Generic[State]):
    """A partial result with the work behind it."""

    state: State
    seconds: float

    def __reduce__(self) -> tuple[Any, ...]:
        # Within the pickle, not beside it: buffers of arrays that travel apart may arrive
        # unaligned.
        return unpacked, (Partial, pickled((self.state, self.seconds)))


def pickled(value: Any) -> bytes:
    """Pickle a value as Dask does, which can send more functions than `pickle` alone."""
    from distributed.protocol.pickle import dumps  # slow to import, and threads do without

    data: bytes = dumps(value)
    return data


def unpacked(kind: Callable[..., Any], data: bytes) -> Any:
    """Rebuild a value that was pickled with its arrays inside.

    Dask would send the arrays beside it, and they could arrive unaligned: NumPy then sums them in
    another order, and the last digits depend on which worker had what.
    """
    return kind(*pickle.loads(data))


def add(left: State, right: State) -> State:
    """Add two named tuples of arrays, numbers or such tuples, field by field, into a new one."""
    if isinstance(left, tuple) and isinstance(right, tuple):
        return type(left)(*map(add, left, right))
    total: State = np.add(left, right)  # type: ignore[call-overload]
    return total


def _scaled_difference(total: State, part: State, scale: float) -> State:
    """Subtract as `add` adds, and multiply."""
    if isinstance(total, tuple) and isinstance(part, tuple):
        pairs = zip(total, part, strict=True)
        return type(total)(*(_scaled_difference(*pair, scale) for pair in pairs))
    difference: State = scale * np.subtract(total, part)  # type: ignore[call-overload]
    return difference
