"""Run one pass: map blocks or pairs of them to partial results, and combine these in order."""

from __future__ import annotations

import itertools
import math
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import dask
import numpy as np
from dask.delayed import delayed
from numpy.typing import NDArray

from dhsic.engine.blas import one_blas_thread
from dhsic.engine.blocks import Source, read_block
from dhsic.engine.compute import Job, compute, held, ship
from dhsic.engine.events import BlockFinished, Listener, PassFinished, PassStarted
from dhsic.engine.failures import failures_in_words
from dhsic.engine.plan import FAN_IN, PassPlan
from dhsic.engine.reduction import PairReduction, Partial, RowBlock, RowReduction
from dhsic.engine.runtime import Runtime

__all__ = ["Payload", "run_map", "run_pass", "take_rows"]

State = TypeVar("State")
Value = TypeVar("Value")
Span = tuple[int, int]
Spans = tuple[Span, ...]
Parts = dict[Span, list[Any]]

_RANGES = 32


class Payload(NamedTuple):
    """What every task of a pass needs; travels once to every worker."""

    reduction: RowReduction[Any] | PairReduction[Any]
    sources: tuple[Source | None, ...]
    finite: bool


def run_pass(
    reduction: RowReduction[State] | PairReduction[State],
    sources: Sequence[Source],
    plan: PassPlan,
    runtime: Runtime,
    listener: Listener,
    *,
    finite: bool = True,
) -> tuple[State, PassFinished]:
    """Map every row block, or pair of them, to a partial result and combine these in order.

    Parameters
    ----------
    reduction : RowReduction or PairReduction
        What to compute, over pairs where the plan says so.
    sources : sequence of Source
        The variables.
    plan : PassPlan
        The row blocks.
    runtime : Runtime
        Where tasks run.
    listener : callable
        Is told when the pass starts, when a block or pair is done and when the pass is done.
    finite : bool, optional
        Refuse NaN and infinity.

    Returns
    -------
    state
        The combined state. The tree that combines depends on the blocks alone, so the same
        blocks give the same bits wherever and in whatever order they ran.
    PassFinished
        What it took.
    """

    def tell(amount: int) -> None:
        listener(BlockFinished(plan.name, amount, plan.unit))

    listener(PassStarted(plan.name, plan.blocks, plan.amount, plan.unit))
    began = time.perf_counter()
    shared = tuple(source if _readable(source, runtime) else None for source in sources)
    payload = Payload(reduction, shared, finite)
    spans = _spans(plan)
    if len(spans) == 1 and runtime.client is None and None not in shared:
        with one_blas_thread():
            total: Partial[State] = _chunk(payload, spans[0])
        tell(plan.amount)
    else:
        (total,) = compute(_job(payload, sources, plan, runtime), runtime, tell)
    seconds = time.perf_counter() - began
    done = PassFinished(
        plan.name, plan.blocks, plan.amount, plan.bytes_read, seconds, total.seconds, plan.unit
    )
    listener(done)
    return total.state, done


def run_map(
    name: str,
    function: Callable[[range], Value],
    count: int,
    runtime: Runtime,
    listener: Listener,
) -> list[Value]:
    """Apply a function to ranges of replicates, which depend on their number alone.

    Parameters
    ----------
    name : str
        What it computes.
    function : callable
        Takes a range of replicates; travels once to every worker.
    count : int
        Number of replicates.
    runtime : Runtime
        Where tasks run.
    listener : callable
        Is told when it starts, when a range is done and when all are done.

    Returns
    -------
    list
        What the function returned, in the order of the ranges.
    """

    def tell(amount: int) -> None:
        listener(BlockFinished(name, amount, "resamples"))

    bounds = [count * i // _RANGES for i in range(_RANGES + 1)]
    ranges = [range(a, b) for a, b in itertools.pairwise(bounds) if a < b]
    listener(PassStarted(name, len(ranges), count, "resamples"))
    began = time.perf_counter()
    shared, apply = held(function, runtime), delayed(_apply, pure=False, traverse=False)
    tasks = [apply(shared, numbers) for numbers in ranges]
    del shared
    partials = compute(Job(tasks, [len(numbers) for numbers in ranges], [*tasks]), runtime, tell)
    seconds = time.perf_counter() - began
    work = sum(partial.seconds for partial in partials)
    listener(PassFinished(name, len(ranges), count, 0, seconds, work, "resamples"))
    return [partial.state for partial in partials]


def take_rows(
    sources: Sequence[Source], rows: Sequence[NDArray[Any]], runtime: Runtime
) -> list[NDArray[Any]]:
    """Rows by number, one increasing array of numbers a source."""
    taken = [source.take(numbers) for source, numbers in zip(sources, rows, strict=True)]
    lazy = [number for number, source in enumerate(sources) if source.place == "graph"]
    computed = _start([taken[number] for number in lazy], runtime)
    if runtime.client is not None:
        with failures_in_words():
            computed = runtime.client.gather(computed)
    for number, values in zip(lazy, computed, strict=True):
        taken[number] = values
    return taken


def _readable(source: Source, runtime: Runtime) -> bool:
    """Whether any task can read the source by itself."""
    return source.place == "storage" or (source.place == "memory" and runtime.client is None)


def _spans(plan: PassPlan) -> list[Spans]:
    """Bounds of the blocks of every task: of one, or of two in the order of the rows."""
    spans = itertools.pairwise(plan.bounds)
    if plan.pairs:
        return list(itertools.combinations_with_replacement(spans, 2))
    return list(zip(spans))


def _amount(spans: Spans) -> int:
    """Rows of a block, or pairs of rows of two blocks, each pair once."""
    sizes = [stop - start for start, stop in spans]
    return math.comb(sizes[0] + 1, 2) if spans[1:] == spans[:1] else math.prod(sizes)


def _job(payload: Payload, sources: Sequence[Source], plan: PassPlan, runtime: Runtime) -> Job:
    """The tasks of the blocks or pairs, and the tree that combines them."""
    run, spans, parts = uuid.uuid4().hex, _spans(plan), _parts(sources, plan, runtime)
    chunk = delayed(_chunk, pure=False, traverse=False)
    combine = delayed(_combine, pure=False, traverse=False)
    shared = held(payload, runtime)
    leaves = [
        chunk(
            shared,
            group,
            *(part for span in dict.fromkeys(group) for part in parts[span]),
            dask_key_name="-".join([plan.name.replace(" ", "-"), run, *(str(a) for a, _ in group)]),
        )
        for group in spans
    ]
    level = leaves
    while len(level) > 1:
        level = [combine(shared, *level[i : i + FAN_IN]) for i in range(0, len(level), FAN_IN)]
    return Job(leaves, [_amount(group) for group in spans], level[:1])


def _parts(sources: Sequence[Source], plan: PassPlan, runtime: Runtime) -> Parts:
    """Blocks that must travel to their tasks, by bounds and in the order of their sources."""
    spans = list(itertools.pairwise(plan.bounds))
    graphs = [source for source in sources if source.place == "graph"]
    lazy = [block for source in graphs for block in source.lazy(plan.bounds)]
    if plan.pairs:  # in one graph with all pairs that share them, partial results would pile up
        lazy = _start(lazy, runtime)
    computed = iter(lazy)
    columns = [
        list(itertools.islice(computed, plan.blocks))
        if source.place == "graph"
        else [ship(runtime.client, source.read(*span)) for span in spans]
        for source in sources
        if not _readable(source, runtime)
    ]
    return {span: [column[i] for column in columns] for i, span in enumerate(spans)}


def _start(lazy: Sequence[Any], runtime: Runtime) -> list[Any]:
    """Values of what Dask can compute; futures of them where there is a client."""
    if runtime.client is not None:
        return list(runtime.client.compute(lazy))
    return list(dask.compute(*lazy, scheduler="threads", num_workers=runtime.threads))


def _chunk(payload: Payload, spans: Spans, *parts: NDArray[Any]) -> Partial[Any]:
    began = time.perf_counter()
    numbers = [number for number, source in enumerate(payload.sources) if source is None]
    given = iter(parts)
    blocks = {}
    for start, stop in dict.fromkeys(spans):
        computed = {number: next(given) for number in numbers}
        values = read_block(payload.sources, start, stop, computed, payload.finite)
        blocks[start, stop] = RowBlock(start, values)
    with np.errstate(over="ignore", invalid="ignore"):  # what comes of it is refused in words
        state = payload.reduction.chunk(*(blocks[span] for span in spans))
    return Partial(state, time.perf_counter() - began)


def _combine(payload: Payload, first: Partial[Any], *others: Partial[Any]) -> Partial[Any]:
    for other in others:
        state = payload.reduction.combine(first.state, other.state)
        first = Partial(state, first.seconds + other.seconds)
    return first


def _apply(function: Callable[[range], Any], numbers: range) -> Partial[Any]:
    began = time.perf_counter()
    return Partial(function(numbers), time.perf_counter() - began)
