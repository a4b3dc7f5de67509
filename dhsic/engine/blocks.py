"""Row blocks: where they start, what they hold, how they are read."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeGuard

import numpy as np
from numpy.typing import NDArray

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
LARGEST_EXACT: Final = 2**53  # beyond it neighbouring integers become one number of float64
INEXACT = "integers beyond 2**53, which lose digits in float64: subtract an offset first"


ValueKind = Literal["number", "boolean", "category"]


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


def kinds_of(source: Source) -> tuple[ValueKind, ...]:
    """Kinds of the columns of a variable; numbers where its source does not say."""
    kinds: tuple[ValueKind, ...] | None = getattr(source, "kinds", None)
    number: ValueKind = "number"
    return kinds or (number,) * source.shape[1]


def labels_of(source: Source) -> tuple[str, ...] | None:
    """The names of the columns of a variable, where its source has them."""
    labels: tuple[str, ...] | None = getattr(source, "labels", None)
    return labels


class NonFiniteError(DataError):
    """A block holds NaN or infinity; the first such row of the data may lie in another one."""


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


def read_block(
    sources: Sequence[Source | None],
    ranges: Sequence[tuple[int, int]],
    computed: dict[int, NDArray[Any]],
    finite: bool | tuple[bool, ...],
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
    finite : bool or tuple of bool
        Refuse NaN and infinity, of all variables or of each.

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
    refuses = finite if isinstance(finite, tuple) else (finite,) * len(values)
    checked = (block for block, refused in zip(values, refuses, strict=True) if refused)
    if not all(np.isfinite(block).all() for block in checked):
        msg = f"NaN or infinity in {_ranges_text(ranges)}: drop or fill such rows"
        raise NonFiniteError(msg)
    for number, (source, block) in enumerate(zip(sources, values, strict=True), 1):
        if not is_exact(block):
            off = ((block > LARGEST_EXACT) | (block < -LARGEST_EXACT)).any(axis=1)
            row = _of_ranges(*np.transpose(ranges))[off.argmax()]
            name = number if source is None else repr(source.name)
            check_exact(f"row {row} of variable {name}", block)
    return values


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


def _read_together(
    sources: Sequence[Source], ranges: Sequence[tuple[int, int]]
) -> list[NDArray[Any]]:
    """The same rows of all sources of an array, or of one source."""
    first = sources[0]
    if len(sources) == 1 or not is_cut(first):
        return [read_ranges(source, ranges) for source in sources]
    block = read_ranges(first.whole, ranges)
    return [source.cut(block) for source in sources if is_cut(source)]


def _ranges_text(ranges: Sequence[tuple[int, int]]) -> str:
    told = [f"{start} to {stop - 1}" for start, stop in sorted(ranges)]
    return "rows " + ", ".join([*told[:4], *(["..."] if len(told) > 4 else [])])


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
