"""Run one pass: map blocks or pairs of them to partial results, and combine these in order."""

from __future__ import annotations

import itertools
import math
import time
import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.blas import one_blas_thread
from dhsic.engine.blocks import Source
from dhsic.engine.budget import Budget, check_process_memory
from dhsic.engine.checkpoint import Checkpoint, Shards
from dhsic.engine.compute import Job, Near, as_task, held, neighbours_together
from dhsic.engine.events import BlockFinished, Listener, PassFinished
from dhsic.engine.failures import explained_failures
from dhsic.engine.given import Span, blocks_of
from dhsic.engine.memory import reuse_freed_memory
from dhsic.engine.metrics import count_task
from dhsic.engine.plan import PassPlan
from dhsic.engine.reading import read_by_tasks, read_bytes
from dhsic.engine.reduction import (
    GroupBlock,
    Partial,
    Pass,
    Ranges,
    RowBlock,
    RowGroups,
    pickled,
    unpacked,
)
from dhsic.engine.runtime import Runtime
from dhsic.engine.shards import Numbers, compute_missing, keep_shard, load_shard
from dhsic.engine.together import read_block

State = TypeVar("State")
Spans = tuple[Span, ...]

_MOST_SHARDS = 128


class Payload(NamedTuple):
    """Shared input of the tasks of a pass; travels once to every worker."""

    reduction: Any
    sources: tuple[Source | None, ...]
    finite: bool | tuple[bool, ...]
    shards: Shards | None
    groups: RowGroups | None = None
    budget: Budget | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return unpacked, (Payload, pickled(tuple(self)))


class _Node(NamedTuple):
    """A task of the tree that combines."""

    task: Any
    leaf: int
    """The number of the first leaf from there on that is computed."""


def run_pass(
    reduction: Pass[State],
    sources: Sequence[Source],
    plan: PassPlan,
    runtime: Runtime,
    listener: Listener,
    *,
    finite: bool | tuple[bool, ...] = True,
    checkpoint: Checkpoint | None = None,
) -> tuple[State, PassFinished]:
    """Map every row block, or pair of them, to a partial result and combine these in order.

    Parameters
    ----------
    reduction : Pass
        Pass to run.
    sources : sequence of Source
        The variables.
    plan : PassPlan
        The row blocks.
    runtime : Runtime
        Where tasks run.
    listener : callable
        Is told when the pass starts, when a block or pair is done and when the pass is done.
    finite : bool or tuple of bool, optional
        Refuse NaN and infinity, of all variables or of each.
    checkpoint : Checkpoint, optional
        Where shards of the pass are kept; those that are there are not computed.

    Returns
    -------
    state
        The combined state. The tree that combines depends on the blocks alone, so the same
        blocks give the same bits wherever and in whatever order they ran, or were kept.
    PassFinished
        Record of the pass.
    """

    def tell(amount: int) -> None:
        listener(BlockFinished(plan.name, amount, plan.unit))

    def job(there: Numbers) -> Job:
        done = [group for number in there for group in groups[number]]
        amount = sum(_amount(plan, spans) for spans in done)
        listener(replace(plan.started, resumed=amount, resumed_parts=len(done)))
        return _job(payload, groups, there, sources, plan, runtime)

    began = time.perf_counter()
    shared = read_by_tasks(sources, plan, runtime)
    spans = _spans(plan)
    shards, groups = None, [spans]
    if checkpoint is not None:
        groups = _leaves_of_shards(spans, plan.fan_in)
        # Bounds and fan-in decide how sums round, so that shards of others are other ones.
        determined = (reduction, plan.bounds, plan.pairs, plan.groups, finite, plan.fan_in)
        shards = checkpoint.shards(plan.name, len(groups), determined)
    payload = Payload(reduction, shared, finite, shards, plan.groups, runtime.budget)
    # A single task needs no scheduler.
    if len(spans) == 1 and runtime.client is None and None not in shared and shards is None:
        listener(plan.started)
        with one_blas_thread():
            total: Partial[State] = run_chunk(payload, spans[0])
        tell(plan.amount)
    else:
        with explained_failures(checkpoint, lambda key: _rows_of(key, plan)):
            (total,) = compute_missing(job, shards, runtime, tell)
    seconds = time.perf_counter() - began
    done = PassFinished(
        plan.name, plan.blocks, plan.amount, plan.bytes_read, seconds, total.seconds, plan.unit
    )
    listener(done)
    return total.state, done


def run_first(
    reduction: Pass[State],
    sources: Sequence[Source],
    plan: PassPlan,
    runtime: Runtime,
    *,
    finite: bool | tuple[bool, ...],
) -> tuple[State, int, float]:
    """Map the first block of a pass, or pair of them, where tasks run.

    Returns
    -------
    state
        Its partial result.
    int
        Its rows, or pairs of them.
    float
        Its seconds, of reading too.
    """
    shared, first = read_by_tasks(sources, plan, runtime), _spans(plan)[:1]
    payload = Payload(reduction, shared, finite, None, plan.groups, runtime.budget)

    def job(there: Numbers) -> Job:
        return _job(payload, [first], there, sources, plan, runtime)

    (partial,) = compute_missing(job, None, runtime, lambda amount: None)
    return partial.state, _amount(plan, first[0]), partial.seconds


def _spans(plan: PassPlan) -> list[Spans]:
    """Bounds of the blocks of every task: of one, or of two in the order of the rows."""
    spans = itertools.pairwise(plan.bounds)
    if plan.pairs:
        return list(itertools.combinations_with_replacement(spans, 2))
    return list(zip(spans))


def _amount(plan: PassPlan, spans: Spans) -> int:
    """Rows of a block, or pairs of rows of two blocks, each pair once."""
    sizes = [plan.rows_of(*span) for span in spans]
    # Of a block with itself every pair counts once, and every row with itself.
    return math.comb(sizes[0] + 1, 2) if spans[1:] == spans[:1] else math.prod(sizes)


def _leaves_of_shards(spans: list[Spans], fan_in: int) -> list[list[Spans]]:
    """Leaves of every shard: whole subtrees of the tree that combines, as few as are enough."""
    # As many shards as are enough to lose little work, since each is a file to write and to list.
    # Whole subtrees, so that sums are added in the same order with shards and without.
    size = 1
    while -(-len(spans) // size) > _MOST_SHARDS:
        size *= fan_in
    return [spans[i : i + size] for i in range(0, len(spans), size)]


def _job(
    payload: Payload,
    groups: Sequence[list[Spans]],
    there: Numbers,
    sources: Sequence[Source],
    plan: PassPlan,
    runtime: Runtime,
) -> Job:
    """The tasks of the blocks or pairs that are not kept, and the tree that combines all."""
    missing = [group for number, group in enumerate(groups) if number not in there]
    needed = {span for group in missing for spans in group for span in spans}
    parts, shared = blocks_of(sources, plan, needed, runtime), held(payload, runtime)
    chunk, run = as_task(run_chunk), uuid.uuid4().hex
    near = neighbours_together(sum(map(len, missing)), plan.bytes_to_driver, runtime)
    leaves: list[Any] = []

    def leaf(spans: Spans) -> _Node:
        number = len(leaves)
        with near(number):
            task = chunk(
                shared,
                spans,
                *(part for span in dict.fromkeys(spans) for part in parts[span]),
                # By the first rows in the key an error tells at which rows workers died.
                dask_key_name=f"{_key_of(plan)}{run}-{'-'.join(str(a) for a, _ in spans)}",
            )
        leaves.append(task)
        return _Node(task, number)

    def subtree(number: int) -> _Node:
        if number in there:
            return _Node(load(shared, number), len(leaves))
        top = _tree(shared, [leaf(spans) for spans in groups[number]], plan.fan_in, near)
        if payload.shards is not None:
            with near(top.leaf):
                top = top._replace(task=keep(shared, number, top.task))
        return top

    keep, load = as_task(keep_shard), as_task(load_shard)
    top = _tree(shared, [subtree(number) for number in range(len(groups))], plan.fan_in, near)
    return Job(leaves, [_amount(plan, spans) for group in missing for spans in group], [top.task])


def _tree(shared: Any, level: list[_Node], fan_in: int, near: Near) -> _Node:
    """The task that combines tasks in order, a few at a time."""
    combine = as_task(_combine)
    # Always in the order of the rows: sums of floating-point numbers depend on it.
    while len(level) > 1:
        parts = [level[i : i + fan_in] for i in range(0, len(level), fan_in)]
        level = []
        for part in parts:
            with near(part[0].leaf):
                level.append(_Node(combine(shared, *(node.task for node in part)), part[0].leaf))
    return level[0]


def _key_of(plan: PassPlan) -> str:
    return f"{plan.name.replace(' ', '-')}-"


def _rows_of(key: str, plan: PassPlan) -> str:
    """The rows of a task, in words; nothing where it has none of its own."""
    if not key.startswith(_key_of(plan)):
        return ""
    stops = dict(itertools.pairwise(plan.bounds))
    starts = [int(start) for start in key.rsplit("-", 2 if plan.pairs else 1)[1:]]
    rows = (f"{start} to {stops[start] - 1}" for start in dict.fromkeys(starts))
    return f"{'rows' if plan.groups is None else 'groups of rows'} {' and '.join(rows)}"


def run_chunk(payload: Payload, spans: Spans, *parts: NDArray[Any]) -> Partial[Any]:
    """The partial result of a block or pair, given the blocks that no task reads by itself."""
    # A worker that sees another folder would write where nobody looks.
    if payload.shards is not None:
        payload.shards.check()
    reuse_freed_memory()
    check_process_memory(payload.budget)
    began = time.perf_counter()
    numbers = [number for number, source in enumerate(payload.sources) if source is None]
    # Blocks that travelled come in the order of the sources that no task reads.
    given = iter(parts)
    blocks = {}
    for start, stop in dict.fromkeys(spans):
        # Arrays may arrive unaligned, and NumPy would sum those in another order.
        computed = {number: np.require(next(given), requirements="A") for number in numbers}
        blocks[start, stop] = _block(payload, start, stop, computed)
    with np.errstate(over="ignore", invalid="ignore"):  # what comes of it is refused in words
        state = payload.reduction.chunk(*(blocks[span] for span in spans))
    check_process_memory(payload.budget)
    seconds = time.perf_counter() - began
    count_task(payload.reduction.name, blocks.values(), seconds)
    return Partial(state, seconds)


def _block(
    payload: Payload, start: int, stop: int, computed: dict[int, NDArray[Any]]
) -> RowBlock | GroupBlock:
    """The rows between two bounds, in the order of the groups where there are any."""
    if payload.groups is None:
        ranges: Ranges = ((start, stop),)
        check_process_memory(payload.budget, read_bytes(payload.sources, ranges))
        values = read_block(payload.sources, ranges, computed, payload.finite)
        return RowBlock(start, values)
    ranges, places = payload.groups.arrange(start, stop)
    # Before the read, so that the error comes instead of the kill of the worker.
    check_process_memory(payload.budget, read_bytes(payload.sources, ranges))
    values = read_block(payload.sources, ranges, computed, payload.finite)
    return GroupBlock(start, payload.groups, tuple(x[places] for x in values))


def _combine(payload: Payload, first: Partial[Any], *others: Partial[Any]) -> Partial[Any]:
    check_process_memory(payload.budget)
    for other in others:
        state = payload.reduction.combine(first.state, other.state)
        first = Partial(state, first.seconds + other.seconds)
    return first
