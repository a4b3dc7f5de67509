"""What a pass reads, and what a task holds of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.blocks import Source
from dhsic.engine.together import cut_bytes, together

if TYPE_CHECKING:
    from dhsic.engine.plan import PassPlan

__all__ = ["bytes_read_of", "decoded_rows", "is_shared", "taken_bytes", "task_bytes"]


def is_shared(number: int, source: Source, plan: PassPlan) -> bool:
    """Whether blocks are computed before the pairs that share them."""
    return plan.pairs and (source.place == "graph" or number in plan.split)


def task_bytes(sources: Sequence[Source], plan: PassPlan) -> int:
    """Bytes of the sources that only one task holds; chunks of an array are decoded once."""
    total = 0
    for first, *others in together(sources):
        total += _task_bytes(first, sources[first], plan)
        copies = 1 + (plan.groups is not None)  # cut, then put in the order of the groups
        rows = copies * plan.blocks_per_task * plan.rows_per_block
        total += rows * sum(cut_bytes(sources[number]) for number in (first, *others) if others)
    return total


def _task_bytes(number: int, source: Source, plan: PassPlan) -> int:
    rows = plan.blocks_per_task * plan.rows_per_block
    arranged = rows * source.row_bytes if plan.groups is not None else 0
    if source.place == "memory":
        return 2 * arranged  # read, then put in the order of the groups
    decoded = int(decoded_rows(source, plan).max())
    if number in plan.split:  # chunks that a run of groups takes parts of
        decoded = len(plan.ranges(*plan.bounds[:2])) * (source.chunk_rows or 1)
    decoded = min(decoded, plan.n)  # ranges may touch the same chunk, which is held once
    if is_shared(number, source, plan):
        return source.row_bytes * decoded + arranged
    return source.row_bytes * (rows + plan.blocks_per_task * decoded) + arranged


def taken_bytes(source: Source) -> int:
    """Bytes of a task that takes a few rows of a stored chunk: it is decoded, then copied."""
    if source.place != "storage":
        return 0
    return 2 * min(source.chunk_rows or 0, source.shape[0]) * source.row_bytes


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
    before = np.maximum.accumulate(np.pad(ends, ((0, 0), (1, 0)))[:, :-1], axis=1)
    firsts = np.maximum(starts // step * step, before)
    return np.asarray(np.maximum(ends - firsts, 0).sum(axis=1), np.int64)
