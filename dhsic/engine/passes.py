"""Define passes, which reduce blocks of rows, and cut and read the blocks.

A pass is a value: it makes a partial result of a block of rows, and partial results are combined in
the order of the rows. `BlockwisePass` keeps the states of blocks apart, for the jackknife, which
measures how much a value changes where a block of rows is left out: a difference of states gives
that of the other rows, so that the data are read once. `Source` comes next, the rows of one
variable, then the bounds of blocks and the reading of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from typing import Any, ClassVar, Final, Generic, Literal, NamedTuple, Protocol, TypeGuard, TypeVar

import numpy as np
from numpy.typing import NDArray

from dhsic._random import random_keys
from dhsic.engine.runtime import compute_graphs
from dhsic.errors import DataError

BLOCK_BYTES = 8 * 2**20
_LARGEST = 4
_MANY_BLOCKS = 16_384
_STATE_BYTES = 512  # of a partial result, for a row of its block: adding them up takes less then
_MOST_GROUPS = 16  # that a block takes for it, or an eighth of the rows
_MOST_PARTS = 8  # blocks that a stored chunk is cut into, each of which reads it whole
_MANY_RANGES = 256  # of rows in memory, which are sooner taken one by one
_HALF_CHUNKS = 4  # half a chunk of each of eight segments
# Rows of data whose blocks have as many rows each; of more, a block has hundreds.
_COUNTED = 2**16
LARGEST_EXACT: Final = 2**53  # beyond it neighbouring integers become one number of float64
INEXACT = "integers beyond 2**53, which lose digits in float64: subtract an offset first"

State = TypeVar("State")
Indices = NDArray[np.intp]
Ranges = tuple[tuple[int, int], ...]
ValueKind = Literal["number", "boolean", "category"]


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


Block = RowBlock | GroupBlock


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

    def arrange(self, first: int, last: int) -> tuple[Ranges, Indices]:
        """Where the rows of the groups first..last-1 are.

        Returns
        -------
        ranges : tuple of (int, int)
            The rows to read, one range after another.
        places : ndarray of int
            Numbers among the rows read: those of every group in their order, then the left-over
            ones.
        """
        ranges, rows = self.ranges(first, last), self.members(first, last)
        starts, stops = np.array(ranges).T
        shifts = np.cumsum(stops - starts) - stops
        order = np.argsort(starts)
        ranges_of_rows = order[np.searchsorted(starts[order], rows, side="right") - 1]
        return ranges, rows + shifts[ranges_of_rows]


# --- states of blocks of rows apart


BlockStates = tuple[tuple[int, Any] | None, ...]
"""Rows and state of every block; None of blocks that have no rows yet."""


@dataclass(frozen=True)
class BlockwisePass(Pass[BlockStates]):
    """A pass that keeps the states of blocks of rows apart.

    A block has a share of the rows of every group, which are in a random order; without groups, its
    rows are drawn from all, see `block_numbers`.

    Parameters
    ----------
    whole : Pass
        The pass, whose states add up.
    blocks : int
        Number of blocks, B.
    n : int
        Rows of the data.
    seed : int
        The seed of the run.
    row_bytes : int
        Bytes of a row of all variables.
    """

    whole: Pass[Any]
    blocks: int
    n: int
    seed: int
    row_bytes: int

    @property
    def name(self) -> str:
        """Name of the result of the pass, for progress and the plan."""
        return f"{self.whole.name} of blocks"

    @property
    def groups(self) -> RowGroups | None:
        """Those of the pass."""
        return self.whole.groups

    def footprint(self, rows: int) -> Footprint:
        """That of the pass, with the states of all blocks and the rows in the order of these."""
        cost = self.whole.footprint(rows)
        copied = rows * (self.row_bytes + 3 * 8)
        return replace(cost, scratch=cost.scratch + copied, state=self.blocks * cost.state)

    def chunk(self, block: Block) -> BlockStates:
        """The states of the blocks that have rows among these."""
        pieces = self._of_groups(block) if isinstance(block, GroupBlock) else self._of_rows(block)
        found = {number: (piece.rows, self.whole.chunk(piece)) for number, piece in pieces}
        return tuple(map(found.get, range(self.blocks)))

    def combine(self, left: BlockStates, right: BlockStates) -> BlockStates:
        """Combine the states of each block."""

        def both(one: tuple[int, Any] | None, other: tuple[int, Any] | None) -> Any:
            if one is None or other is None:
                return one or other
            return one[0] + other[0], self.whole.combine(one[1], other[1])

        return tuple(map(both, left, right))

    def total(self, found: BlockStates) -> Any:
        """The state of all rows."""
        return reduce(self.whole.combine, (one[1] for one in found if one is not None))

    def others(self, total: Any, found: BlockStates, number: int) -> Any:
        """The state of the rows outside of a block, as if they were as many."""
        part = found[number]
        assert part is not None
        n = sum(one[0] for one in found if one is not None)
        return self.whole.without(total, part[1], n / (n - part[0]))

    def _of_groups(self, block: GroupBlock) -> Iterator[tuple[int, GroupBlock]]:
        size, moving = block.groups.size, block.n_groups * block.groups.size
        grouped = [x[:moving].reshape(-1, size, x.shape[1]) for x in block.values]
        bounds = [size * number // self.blocks for number in range(self.blocks + 1)]
        for number, (start, stop) in enumerate(pairwise(bounds)):
            values = [x[:, start:stop].reshape(-1, x.shape[2]) for x in grouped]
            if stop == size:
                # The few rows that are in no group go with the last block.
                pairs = zip(values, block.values, strict=True)
                values = [np.concatenate([some, x[moving:]]) for some, x in pairs]
            if len(values[0]):
                yield number, GroupBlock(block.first, block.groups, tuple(values))

    def _of_rows(self, block: RowBlock) -> Iterator[tuple[int, RowBlock]]:
        span = block.start, block.start + block.rows
        order, bounds = rows_by_block(self.seed, self.n, self.blocks, *span)
        values = [x[order] for x in block.values]
        for number in np.flatnonzero(np.diff(bounds)).tolist():
            at = slice(*bounds[number : number + 2])
            yield number, RowBlock(block.start, tuple(x[at] for x in values))


def block_numbers(
    seed: int, n: int, blocks: int, start: int = 0, stop: int | None = None
) -> NDArray[np.intp]:
    """The blocks of the rows start..stop-1 of n, which are drawn whatever the order of the rows.

    Of sorted rows, blocks with one of every B consecutive rows each would be alike, and leave out
    what rows vary by: the standard error of squared HSIC of 2,000 was .00074 in place of .00119.
    """
    stop = n if stop is None else stop
    if n > _COUNTED:  # blocks have about as many rows
        keys = random_keys(seed, start, stop, "jackknife")
        return ((keys >> np.uint64(32)) * np.uint64(blocks) >> np.uint64(32)).astype(np.intp)
    numbers = np.empty(n, np.intp)
    numbers[np.argsort(random_keys(seed, 0, n, "jackknife"))] = np.arange(n) % blocks
    return numbers[start:stop]


def rows_by_block(
    seed: int, n: int, blocks: int, start: int = 0, stop: int | None = None
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The rows start..stop-1, counted from start, block after block; and where blocks begin."""
    numbers = block_numbers(seed, n, blocks, start, stop)
    order = np.argsort(numbers, kind="stable")
    return order, np.searchsorted(numbers[order], np.arange(blocks + 1))


# --- variables


class Source(Protocol):
    """One variable: rows of numbers somewhere."""

    @property
    def name(self) -> str:
        """How messages call it."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns, (n, d)."""

    @property
    def row_bytes(self) -> int:
        """Bytes that are read for a row."""

    @property
    def chunk_rows(self) -> int | None:
        """Rows that are stored together, where they are."""

    @property
    def place(self) -> Literal["memory", "storage", "graph"]:
        """Held in this process, readable by any task, or computed by a Dask graph."""

    @property
    def take_bytes(self) -> int:
        """Bytes that `take` holds besides its result."""

    def decode_bytes(self, rows: int) -> int:
        """Bytes that `read` holds besides its result, of stored chunks of so many rows."""

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start..stop-1, shape (stop - start, d); a DataError where they cannot be read."""

    def take(self, rows: NDArray[np.intp]) -> NDArray[Any]:
        """Rows by number, increasing; each stored chunk is read at most once."""

    def lazy(self, bounds: Sequence[int]) -> list[Any]:
        """Delayed blocks between the bounds, of a source whose place is "graph"."""


def kinds_of(source: Source) -> tuple[ValueKind, ...]:
    """Kinds of the columns of a variable; numbers where its source does not say."""
    kinds: tuple[ValueKind, ...] | None = getattr(source, "kinds", None)
    number: ValueKind = "number"
    return kinds or (number,) * source.shape[1]


def labels_of(source: Source) -> tuple[str, ...] | None:
    """The names of the columns of a variable, where its source has them."""
    labels: tuple[str, ...] | None = getattr(source, "labels", None)
    return labels


def read_whole(source: Source) -> NDArray[Any]:
    """All rows of a source in memory, shape (n, d)."""
    return np.concatenate(list(of_blocks(source, np.asarray)))


def of_blocks(source: Source, function: Callable[[NDArray[Any]], Any]) -> Iterable[Any]:
    """A function of all rows, block by block in their order."""
    n = source.shape[0]
    # Whole chunks, so that none is decoded twice and memory does not grow with the rows.
    step, _ = _whole_chunks(max(1, BLOCK_BYTES // source.row_bytes), source.chunk_rows or 1)
    bounds = [*range(0, n, step), n]
    if source.place != "graph":
        return (function(source.read(*span)) for span in pairwise(bounds))
    from dask import delayed  # slow to import

    return compute_graphs(*map(delayed(function), source.lazy(bounds)))


def check_exact(data_name: str, *columns: NDArray[Any]) -> None:
    """Refuse values that would lose digits as floats, see `is_exact`.

    Raises
    ------
    DataError
        Integers are beyond 2**53.
    """
    if not all(map(is_exact, columns)):
        msg = f"{data_name} has {INEXACT}"
        raise DataError(msg)


def is_exact(block: NDArray[Any]) -> bool:
    """Whether all numbers are kept by float64."""
    if block.dtype.kind not in "iu" or block.dtype.itemsize < 8 or not block.size:
        return True
    return bool(block.max() <= LARGEST_EXACT and block.min() >= -LARGEST_EXACT)


@dataclass(frozen=True)
class RowWeights:
    """Positive weights of mean 1, a row each.

    Parameters
    ----------
    source : Source
        The weights, shape (n, 1).
    squares, cubes : float
        Their mean square and mean cube.
    """

    source: Source
    squares: float
    cubes: float

    @property
    def rows(self) -> float:
        """Rows of equal weight whose mean would vary as much: (sum w)^2 / sum w^2 (Kish 1965)."""
        # n^2 / sum w^2 for weights of mean 1, since then (sum w)^2 = n^2.
        return self.source.shape[0] / self.squares

    @property
    def deciding(self) -> float:
        """Rows of equal weight whose sum of squares would be as uneven: few where a few decide.

        The skewness of a mean of values with these weights is that of the mean of so many values
        with equal ones.
        """
        return self.source.shape[0] * self.squares**3 / self.cubes**2


class Gaps(NamedTuple):
    """The missing values of one variable."""

    rows: int
    """Rows that miss a value in any column."""
    values: tuple[int, ...]
    """Missing values of every column."""

    @property
    def any(self) -> bool:
        """Whether there are any."""
        return self.rows > 0


def filled(rows: NDArray[Any]) -> NDArray[Any]:
    """Drawn rows of one variable, with values of others of them in place of missing ones.

    Column by column, the values of the last rows first: rows come in random order, and where some
    are landmarks the last are others, so that few landmarks are equal. Values are of the variable
    alone, so that landmarks made of them know nothing of the pairing.

    Parameters
    ----------
    rows : ndarray, shape (s, d)
        NaN where a value is missing. Returned as they are where none is.

    Raises
    ------
    DataError
        A column has no value in any of the rows.

    Examples
    --------
    >>> filled(np.array([[1.0], [np.nan], [3.0], [np.nan]])).ravel().tolist()
    [1.0, 3.0, 3.0, 1.0]
    """
    gaps = np.isnan(rows)
    if not gaps.any():
        return rows
    rows = rows.copy()
    for j in np.flatnonzero(gaps.any(axis=0)):
        missing = gaps[:, j]
        if missing.all():
            msg = (
                f"a variable needs values to draw from, and column {j} has none in {len(rows):,} "
                "drawn rows: leave out the column"
            )
            raise DataError(msg)
        rows[missing, j] = np.resize(rows[~missing, j][::-1], np.count_nonzero(missing))
    return rows


# --- where blocks begin


class Grain(NamedTuple):
    """How large the tasks of a pass are."""

    fewest_blocks: int
    """Row blocks of the data, where their number of rows allows as many."""
    fewest_rows: int
    """Rows of a block, where it may hold as many bytes."""
    most_rows: int

    def rows(self, n: int) -> float:
        """Rows of a block, of n rows."""
        return max(min(n / self.fewest_blocks, self.most_rows), self.fewest_rows)


ROWS = Grain(32, 4096, 2**18)
GROUPS = Grain(16, 4096, 2**18)
PAIRS = Grain(8, 256, 4096)
"""Of either block: a task takes up to 16 million pairs of rows."""


def block_bounds(n: int, row_bytes: int, chunk_rows: int, row_multiple: int) -> list[int]:
    """Bounds of the row blocks: at most 262,144 rows, and many blocks where n allows it.

    A scheduler takes about half a millisecond of a task, in which a thousand workers do half a
    second of work: where there are more than 16,384 blocks, they are up to 4 times larger.

    Parameters
    ----------
    n : int
        Rows of the data.
    row_bytes : int
        Bytes of a row of all variables; a block holds at most 8 MiB, or 32 where there are many,
        unless one chunk is larger.
    chunk_rows : int
        Rows that are stored together; 0 where none are. Blocks are whole chunks, or equal parts of
        one, so that no chunk is read twice in vain.
    row_multiple : int
        Blocks start at multiples of it, whatever the chunks.

    Returns
    -------
    list of int
        0, ..., n. Neither the number of workers nor that of threads changes them.
    """
    # Larger blocks where there are very many, since the scheduler takes a time of its own a task.
    usual = min(ROWS.rows(n), BLOCK_BYTES / row_bytes)
    target = max(int(max(usual, min(_LARGEST * usual, n / _MANY_BLOCKS))), 1)
    step, parts = _whole_chunks(target, max(chunk_rows, 1))
    # Blocks of the estimator, such as those of block-HSIC, are not cut, whatever the chunks.
    if row_multiple > 1:
        step, parts = max(row_multiple, step // parts // row_multiple * row_multiple), 1
    blocks = -(-n * parts // step)
    return [min(n, number * step // parts) for number in range(blocks + 1)]


def group_bounds(
    n: int, count: int, row_bytes: int, chunk_rows: int, state: int, grain: Grain
) -> list[int]:
    """Bounds of runs of groups of rows, see `dhsic.statistics.orbit.Groups`.

    A run takes a range of rows from each of some segments of the data: it is long enough for these
    to be half a stored chunk, where enough runs are left, and for its work to outweigh that of
    adding up its partial result.

    Parameters
    ----------
    n, count : int
        Rows and groups of the data.
    row_bytes : int
        Bytes of a row of all variables.
    chunk_rows : int
        Rows that are stored together; 0 where none are.
    state : int
        Bytes of a partial result.
    grain : Grain
        `GROUPS` for tasks of one run of groups, `PAIRS` for tasks of two.

    Returns
    -------
    list of int
        0, ..., count. Neither the number of workers nor that of threads changes them.
    """
    rows = grain.rows(n)
    if grain is GROUPS:
        whole = min(_HALF_CHUNKS * chunk_rows, n / grain.fewest_blocks)
        rows = max(rows, min(state / _STATE_BYTES, max(_MOST_GROUPS * n / count, n / 8)), whole)
    rows = min(rows, _LARGEST * BLOCK_BYTES / row_bytes)
    blocks = -(-count // max(1, round(rows * count / n)))
    if grain is GROUPS and 1 < blocks < count:
        blocks += blocks % 2  # of three, one thread of two would wait for the last
    return [count * number // blocks for number in range(blocks + 1)]


def _whole_chunks(target: int, chunk_rows: int) -> tuple[int, int]:
    """Rows of about so many whole chunks, and into how many blocks a large chunk is cut."""
    # A block of whole chunks decodes each of them once.
    if chunk_rows <= 2 * target:
        return max(1, target // chunk_rows) * chunk_rows, 1
    return chunk_rows, -(-chunk_rows // max(target, chunk_rows // _MOST_PARTS))


def chunk_starts(rows: NDArray[np.intp], chunk_rows: int) -> NDArray[np.intp]:
    """Where rows, by increasing number, come to the next stored chunk: places to split them at."""
    return np.flatnonzero(np.diff(rows // chunk_rows)) + 1


# --- blocks, as they are read


class NonFiniteError(DataError):
    """A block holds NaN or infinity; the first such row of the data may lie in another one."""


def read_block(
    sources: Sequence[Source | None],
    ranges: Sequence[tuple[int, int]],
    computed: dict[int, NDArray[Any]],
    finite: tuple[bool, ...],
) -> tuple[NDArray[Any], ...]:
    """Read the same rows of every source.

    Parameters
    ----------
    sources : sequence of Source or None
        The variables; None where the block is computed.
    ranges : sequence of tuple of int
        Rows, one range after another.
    computed : dict of int to ndarray
        Blocks that a Dask graph has computed, by the number of their source.
    finite : tuple of bool
        Whether NaN and infinity are refused in every variable.

    Raises
    ------
    DataError
        A source cannot be read.
    NonFiniteError
        A value is NaN or infinite.
    """
    # Blocks that travelled to the task are there; the others are read here.
    blocks = dict(computed)
    # An array once for all its variables, since its chunks are decompressed whole.
    for numbers in together(sources):
        same = [source for number in numbers if (source := sources[number]) is not None]
        blocks.update(zip(numbers, _read_together(same, ranges), strict=True))
    values = tuple(blocks[number] for number in range(len(sources)))
    # In the task that has read them: a pass of its own would read all data twice.
    checked = (block for block, refused in zip(values, finite, strict=True) if refused)
    if not all(np.isfinite(block).all() for block in checked):
        first = min(start for start, _ in ranges)
        msg = f"NaN or infinity in row {first} or a later one: drop or fill such rows"
        raise NonFiniteError(msg)
    for number, (source, block) in enumerate(zip(sources, values, strict=True), 1):
        if not is_exact(block):
            off = ((block > LARGEST_EXACT) | (block < -LARGEST_EXACT)).any(axis=1)
            row = _of_ranges(*np.transpose(ranges))[off.argmax()]
            name = number if source is None else repr(source.name)
            check_exact(f"row {row} of variable {name}", block)
    return values


def _read_together(
    sources: Sequence[Source], ranges: Sequence[tuple[int, int]]
) -> list[NDArray[Any]]:
    """The same rows of all sources of an array, or of one source."""
    first = sources[0]
    if len(sources) == 1 or not is_cut(first):
        return [read_ranges(source, ranges) for source in sources]
    block = read_ranges(first.whole, ranges)
    return [source.cut(block) for source in sources if is_cut(source)]


def read_ranges(source: Source, ranges: Sequence[tuple[int, int]]) -> NDArray[Any]:
    """Rows of some ranges, one after another; those that share a stored chunk are read at once."""
    if source.place == "memory" and len(ranges) > _MANY_RANGES:
        starts, stops = np.array(ranges).T
        return source.take(_of_ranges(starts, stops))
    # Ranges that share a chunk are one read, so that no chunk is decoded twice.
    spans = spans_of(ranges, source.chunk_rows or 0)
    parts = {span: source.read(*span) for span in dict.fromkeys(spans)}
    rows = [
        parts[span][start - span[0] : stop - span[0]]
        for (start, stop), span in zip(ranges, spans, strict=True)
    ]
    return rows[0] if len(rows) == 1 else np.concatenate(rows)


def _of_ranges(starts: NDArray[np.intp], stops: NDArray[np.intp]) -> NDArray[np.intp]:
    """The rows of ranges, one range after another."""
    sizes = stops - starts
    # One `arange` for all ranges, moved by where each of them starts.
    before = np.cumsum(sizes) - sizes
    return np.repeat(starts - before, sizes) + np.arange(int(sizes.sum()))


def spans_of(ranges: Sequence[tuple[int, int]], chunk_rows: int) -> list[tuple[int, int]]:
    """For every range the rows that are read for it, which others may lie in."""
    if chunk_rows == 0:
        return list(ranges)
    spans: list[tuple[int, int]] = []
    for start, stop in sorted(ranges):
        # What lies in the last chunk of a span is joined to it.
        if spans and start // chunk_rows == (spans[-1][1] - 1) // chunk_rows:
            spans[-1] = spans[-1][0], stop
        else:
            spans.append((start, stop))
    starts = [start for start, _ in spans]
    return [spans[bisect_right(starts, start) - 1] for start, _ in ranges]


def take_block(sources: Sequence[Source], rows: Sequence[NDArray[np.intp]]) -> list[NDArray[Any]]:
    """Rows by number of all sources of an array, or of one source.

    Parameters
    ----------
    sources : sequence of Source
        As `together` finds them.
    rows : sequence of ndarray
        Increasing numbers for each.

    Returns
    -------
    list of ndarray
        Each stored chunk is read at most once, and a few are held at a time.
    """
    first = sources[0]
    if len(sources) == 1 or not is_cut(first) or first.chunk_rows is None:
        return [source.take(wanted) for source, wanted in zip(sources, rows, strict=True)]
    whole, step = first.whole, first.chunk_rows

    def pick(part: NDArray[np.intp]) -> list[NDArray[Any]]:
        # From the start of the chunk that has these rows; other variables may want none of them.
        start = part[0] // step * step
        ends = (np.searchsorted(wanted, (start, start + step)) for wanted in rows)
        here = (wanted[slice(*at)] for wanted, at in zip(rows, ends, strict=True))
        places = [np.searchsorted(part, wanted) for wanted in here]
        block, pairs = whole.take(part), zip(sources, places, strict=True)
        return [source.cut(block[at]) for source, at in pairs if is_cut(source)]

    # The rows that any variable wants: a chunk that several want is read once.
    union = np.unique(np.concatenate(rows))
    with ThreadPoolExecutor(first.readers) as pool:
        picked = list(pool.map(pick, np.split(union, chunk_starts(union, step))))
    return [np.concatenate(parts) for parts in zip(*picked, strict=True)]


def is_cut(source: Source) -> TypeGuard[Any]:
    """Whether a source says which array it is cut from, of which others may be variables, too."""
    return bool(getattr(source, "is_stored", False))


def together(sources: Sequence[Source | None]) -> list[tuple[int, ...]]:
    """Numbers of the sources, those of one array together; without those that are None."""
    groups: dict[tuple[bool, int], list[int]] = {}
    for number, source in enumerate(sources):
        if source is not None:
            # Variables are of one array if it is the same object; others are alone.
            # By identity: arrays that are equal need not be the same, and to compare them reads
            # them.
            key = (True, id(source.array)) if is_cut(source) else (False, number)
            groups.setdefault(key, []).append(number)
    return [tuple(numbers) for numbers in groups.values()]


def cut_bytes(source: Source) -> int:
    """Bytes of a row of a variable, once it is cut from its array."""
    width = int(source.whole.shape[1]) if is_cut(source) else source.shape[1]
    return source.row_bytes * source.shape[1] // width


def row_bytes(sources: Sequence[Source]) -> int:
    """Bytes of a row that a task holds: of every array, and of the variables that share one."""
    total = 0
    for numbers in together(sources):
        total += sources[numbers[0]].row_bytes
        # An array that is read for one variable alone is cut as it is read, and held once.
        total += sum(cut_bytes(sources[number]) for number in numbers) if numbers[1:] else 0
    return total
