"""Reads of a pass, and the part of them that a task holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.blocks import BLOCK_BYTES, Source, spans_of
from dhsic.engine.runtime import Runtime
from dhsic.engine.together import cut_bytes, together

if TYPE_CHECKING:
    from dhsic.engine.plan import PassPlan

_PIECE = 1500  # bytes of Python objects of a task that cuts a piece of a chunk
_FEWEST_READS = 32  # of chunks that are cut, where there are as many, to share them out
_MOST_DECODED = 1.2  # times the rows of the data; beyond, every chunk is read once and cut


def split_sources(sources: Sequence[Source], plan: PassPlan, *, here: bool) -> tuple[int, ...]:
    """Numbers of the sources whose chunks are read once each, and cut for the blocks.

    Parameters
    ----------
    sources : sequence of Source
        The variables.
    plan : PassPlan
        The blocks.
    here : bool
        Whether tasks run in this process, and read what is stored in its memory.
    """
    return tuple(
        number
        for number, source in enumerate(sources)
        if source.chunk_rows is not None
        and (source.place == "storage" or (here and source.place == "memory"))
        and decoded_rows(source, plan).sum() > _MOST_DECODED * plan.n
    )


def cut_rows(source: Source, plan: PassPlan) -> int:
    """Rows of the chunks that one task reads and others cut.

    A scheduler takes a millisecond or two for each of the tasks, as long as it takes to decode a
    small chunk: for groups, to which rows come from everywhere, such are read several at a time.
    """
    chunk_rows = source.chunk_rows or plan.n
    most = min(BLOCK_BYTES // source.row_bytes, plan.n // _FEWEST_READS)
    return chunk_rows if plan.groups is None else chunk_rows * max(1, most // chunk_rows)


def read_by_tasks(
    sources: Sequence[Source], plan: PassPlan, runtime: Runtime
) -> tuple[Source | None, ...]:
    """The sources that any task reads by itself; None in the place of others."""
    places = ("storage", "memory") if runtime.client is None else ("storage",)
    return tuple(
        source if source.place in places and number not in plan.split else None
        for number, source in enumerate(sources)
    )


def is_shared(number: int, source: Source, plan: PassPlan) -> bool:
    """Whether blocks are computed before the pairs that share them."""
    return plan.pairs and (source.place == "graph" or number in plan.split)


def tasks_bytes(
    sources: Sequence[Source], plan: PassPlan, working: int, state: int, threads: int
) -> int:
    """Most bytes that tasks have at a time, besides what all of them share.

    Parameters
    ----------
    sources : sequence of Source
        The variables; an array of several of them is read once.
    plan : PassPlan
        The blocks.
    working : int
        Bytes that a task has of its own.
    state : int
        Bytes of partial results, once there are any.
    threads : int
        Tasks at a time.
    """
    tasks = [working] * threads
    first: list[int] = []
    later: list[int] = []
    for number, *_ in together(sources):
        if number in plan.split:
            count, taken = _cutting(sources[number], plan)
            (first if count == 1 else later).extend([taken] * min(count, threads))
    # No task can work before a chunk is read that holds all rows.
    before = sum(sorted(first + later)[-threads:])
    since = sum(sorted(later + tasks)[-threads:])
    pieces = int(plan.runs[0].size) * len(plan.split)
    return _open_bytes(sources, plan, threads) + max(before, since + state) + _PIECE * pieces


def task_bytes(sources: Sequence[Source], plan: PassPlan, scratch: int) -> int:
    """Most bytes that one task has of its own: while its blocks are read, or while it works."""
    given = held = most = 0
    for numbers in together(sources):
        same = [sources[number] for number in numbers]
        if same[0].place == "graph" or numbers[0] in plan.split:
            given += _given_bytes(numbers, sources, plan)
        else:
            most = max(most, held + _reading_bytes(same, plan))
            held += _read_bytes(same, plan)
    most = max(most, held + plan.rows_per_block * max(source.shape[1] for source in sources))
    if plan.groups is not None:  # all rows once more, in the order of the groups
        arranged = plan.rows_per_block * sum(map(cut_bytes, sources))
        held, most = arranged, max(most, held + arranged)
    before = (plan.blocks_per_task - 1) * held
    return given + before + max(most, held + scratch)


def _given_bytes(numbers: Sequence[int], sources: Sequence[Source], plan: PassPlan) -> int:
    """Blocks that Dask holds while a task has them; those of shared ones are held for all."""
    source, rows = sources[numbers[0]], plan.blocks_per_task * plan.rows_per_block
    shared = is_shared(numbers[0], source, plan)
    total = 0 if shared else rows * sum(cut_bytes(sources[number]) for number in numbers)
    if source.place == "graph":  # the chunks that a block is made of
        decoded = plan.blocks_per_task * int(decoded_rows(source, plan).max())
        total += (1 if shared else len(numbers)) * source.decode_bytes(min(decoded, plan.n))
    return total


def _cutting(source: Source, plan: PassPlan) -> tuple[int, int]:
    """Reads of chunks to be cut, and bytes of a task that does one or joins pieces of several."""
    step = cut_rows(source, plan)
    reading = source.decode_bytes(step)
    if plan.pairs:  # else it is among those that are open
        reading += min(step, plan.n) * source.row_bytes
    return -(-plan.n // step), max(reading, 2 * plan.rows_per_block * source.row_bytes)


def _open_bytes(sources: Sequence[Source], plan: PassPlan, threads: int) -> int:
    """Most bytes of chunks that wait to be cut for blocks, where blocks come in order."""
    if plan.pairs:
        return 0  # all blocks are cut before the pairs
    return sum(
        _open_rows(sources[number], plan, threads) * sources[number].row_bytes
        for number, *_ in together(sources)
        if number in plan.split
    )


def _open_rows(source: Source, plan: PassPlan, threads: int) -> int:
    """Most rows of chunks of which a block was cut and another one will be."""
    step, n = cut_rows(source, plan), plan.n
    starts, stops = plan.runs
    there = starts < stops
    block = np.broadcast_to(np.arange(len(starts))[:, None], starts.shape)[there]
    lows, highs = starts[there] // step, (stops[there] - 1) // step
    # The first and the last block that has rows of a chunk.
    first = np.full(-(-n // step), len(starts))
    last = np.full(len(first), -1)
    for further in range(int((highs - lows).max()) + 1):
        at = lows + further <= highs
        np.minimum.at(first, lows[at] + further, block[at])
        np.maximum.at(last, lows[at] + further, block[at])
    used = last >= 0
    rows = np.minimum(step, n - step * np.arange(len(first)))[used]
    # A chunk is open from the first block that it has rows for until the last one is cut.
    change = np.zeros(len(starts) + threads + 1, np.int64)
    np.add.at(change, first[used], rows)
    np.add.at(change, last[used] + threads, -rows)
    return int(change.cumsum().max())


def _reading_bytes(same: Sequence[Source], plan: PassPlan) -> int:
    """Most bytes while a block is read of an array, of one variable or several."""
    first, rows = same[0], plan.rows_per_block
    kept = _read_bytes(same, plan)
    if first.place == "memory" and first.chunk_rows is None:
        return 2 * kept if plan.groups is not None else kept  # pieces, then all of them joined
    decoded = decoded_rows(first, plan)
    ranges = plan.ranges(*plan.bounds[(at := int(decoded.argmax())) : at + 2])
    spans = dict.fromkeys(spans_of(ranges, first.chunk_rows or 0))
    largest = max(_touched(first, *span) for span in spans)
    parts = sum(stop - start for start, stop in spans)
    whole = first.row_bytes * parts
    if len(same) == 1:
        longest = max(stop - start for start, stop in spans)
        cut = cut_bytes(first)
        pieces = cut * parts
        read = first.row_bytes * longest if cut < first.row_bytes else 0
        joined = pieces + cut * rows if len(ranges) > 1 else pieces
        return max(pieces + read + first.decode_bytes(largest), joined)
    joined = whole + first.row_bytes * rows if len(ranges) > 1 else whole
    return max(whole + first.decode_bytes(largest), joined, first.row_bytes * rows + kept)


def _read_bytes(same: Sequence[Source], plan: PassPlan) -> int:
    """Bytes of a block of an array, once it is read: nothing of rows in memory, which are there."""
    first = same[0]
    columns = getattr(first, "columns", None)
    there = first.place == "memory" and first.chunk_rows is None
    if there and plan.groups is None and columns is None:
        return 0
    return plan.rows_per_block * sum(map(cut_bytes, same))


def read_bytes(sources: Sequence[Source | None], ranges: Sequence[tuple[int, int]]) -> int:
    """Most bytes while some rows are read of one array after another, those of the first besides.

    Parameters
    ----------
    sources : sequence of Source or None
        The variables; None in the place of those that are not read.
    ranges : sequence of tuple of int
        Rows.
    """
    held = most = 0
    for numbers in together(sources):
        first = sources[numbers[0]]
        if first is not None and first.chunk_rows is not None:
            spans = dict.fromkeys(spans_of(ranges, first.chunk_rows))
            rows = sum(stop - start for start, stop in spans)
            decoding = first.decode_bytes(max(_touched(first, *span) for span in spans))
            most = max(most, held + rows * first.row_bytes + decoding)
            held += rows * first.row_bytes
    return most


def _touched(source: Source, start: int, stop: int) -> int:
    """Rows of the stored chunks that some rows lie in."""
    step = source.chunk_rows or 1
    return -(-stop // step) * step - start // step * step


def taken_bytes(source: Source) -> int:
    """Bytes of a task that takes a few rows of one stored chunk after another."""
    if source.place != "storage":
        return 0
    rows = source.chunk_rows or 0
    read = source.decode_bytes(rows) + min(rows, source.shape[0]) * source.row_bytes
    return min(read, source.take_bytes)


def bytes_read_of(number: int, source: Source, plan: PassPlan) -> int:
    """Every block is in as many pairs as there are blocks; a graph computes a chunk once."""
    if source.place == "graph" or number in plan.split:
        return plan.n * source.row_bytes
    stored = source.place == "storage"
    rows = int(decoded_rows(source, plan).sum()) if stored else plan.n
    return (plan.blocks if plan.pairs else 1) * rows * source.row_bytes


def decoded_rows(source: Source, plan: PassPlan) -> NDArray[np.int64]:
    """Rows of the stored chunks that every block touches, each of them once, shape (blocks,)."""
    starts, stops = (np.sort(ends, axis=1) for ends in plan.runs)  # of ranges that do not overlap
    step = source.chunk_rows or 1
    ends = np.minimum(-(-stops // step) * step, source.shape[0])
    ends = np.where(starts < stops, ends, 0)
    # How far the chunks of earlier ranges reach: one that two ranges share counts once.
    before = np.maximum.accumulate(np.pad(ends, ((0, 0), (1, 0)))[:, :-1], axis=1)
    firsts = np.maximum(starts // step * step, before)
    return np.asarray(np.maximum(ends - firsts, 0).sum(axis=1), np.int64)
