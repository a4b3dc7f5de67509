"""Variables that are columns of one stored array, whose chunks are decoded once for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeGuard

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.blocks import (
    INEXACT,
    NonFiniteError,
    Source,
    chunk_starts,
    is_exact,
    read_ranges,
)
from dhsic.errors import DataError


class Cut(Source, Protocol):
    """Columns of an array, of which others may be variables, too."""

    @property
    def array(self) -> Any:
        """The array, the same object for all variables that are cut from it."""
        ...

    @property
    def whole(self) -> Source:
        """All of its columns."""
        ...

    @property
    def readers(self) -> int:
        """Chunks that are read at a time where a few rows of each are taken."""
        ...

    def cut(self, block: NDArray[Any]) -> NDArray[Any]:
        """The columns of the variable, of rows of the array."""
        ...


def is_cut(source: Source) -> TypeGuard[Cut]:
    """Whether a source says what it is cut from."""
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
    if not all(map(is_exact, values)):
        msg = f"{_ranges_text(ranges)} hold {INEXACT}"
        raise DataError(msg)
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
    if not is_cut(source):
        return source.row_bytes
    return source.row_bytes * source.shape[1] // source.whole.shape[1]


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
    return "rows " + ", ".join(f"{start} to {stop - 1}" for start, stop in sorted(ranges))
