"""Blocks that tasks do not read by themselves: computed by a graph, cut from chunks, or sent."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.blocks import Source, read_ranges
from dhsic.engine.budget import Budget, check_process_memory
from dhsic.engine.compute import as_task, begin, ship
from dhsic.engine.plan import PassPlan
from dhsic.engine.reading import cut_rows, read_by_tasks, read_bytes
from dhsic.engine.reduction import Ranges
from dhsic.engine.runtime import Runtime
from dhsic.engine.together import is_cut, together

Span = tuple[int, int]
Parts = dict[Span, list[Any]]


def blocks_of(
    sources: Sequence[Source], plan: PassPlan, needed: Iterable[Span], runtime: Runtime
) -> Parts:
    """Blocks that must travel to their tasks, by bounds and in the order of their sources."""
    spans = sorted(needed)
    by_tasks = read_by_tasks(sources, plan, runtime)
    lazy = _lazy_blocks(sources, plan, spans, runtime)
    if plan.pairs:  # in one graph with all pairs that share them, partial results would pile up
        begun = iter(begin([block for column in lazy.values() for block in column], runtime))
        lazy = {number: list(itertools.islice(begun, len(spans))) for number in lazy}
    columns = [
        lazy[number]
        if number in lazy
        else [ship(runtime.client, read_ranges(source, plan.ranges(*span))) for span in spans]
        for number, source in enumerate(sources)
        if spans and by_tasks[number] is None
    ]
    return {span: [column[i] for column in columns] for i, span in enumerate(spans)}


def _lazy_blocks(
    sources: Sequence[Source], plan: PassPlan, spans: Sequence[Span], runtime: Runtime
) -> dict[int, list[Any]]:
    """Delayed blocks of the sources that a graph computes or whose chunks are cut, by number."""
    # Columns of one array share the tasks that read its chunks.
    delayed = [
        numbers
        for numbers in together(sources)
        if sources[numbers[0]].place == "graph" or numbers[0] in plan.split
    ]
    # Rows of groups lie in as many ranges as there are rows: they are looked at where needed alone.
    if not (delayed and spans):
        return {}
    every = [plan.ranges(*span) for span in itertools.pairwise(plan.bounds)]
    # Bounds of all ranges cut the rows, so that every range is made of whole pieces.
    bounds = edges(every, plan.n) if plan.groups is not None else list(plan.bounds)
    joined = _JoinedPieces(plan, bounds, spans)
    lazy: dict[int, list[Any]] = {}
    for numbers in delayed:
        same = [sources[number] for number in numbers]
        if same[0].place == "graph":
            pieces = ([[block] for block in source.lazy(bounds)] for source in same)
            lazy.update(zip(numbers, map(joined, pieces), strict=True))
        else:
            cut = _cut_chunks(same, plan, bounds, runtime.budget)
            lazy.update(zip(numbers, map(joined, cut), strict=True))
    return lazy


class _JoinedPieces:
    """Makes blocks of the pieces of a source between bounds, of which there may be several."""

    def __init__(self, plan: PassPlan, bounds: Sequence[int], spans: Sequence[Span]) -> None:
        at = {row: number for number, row in enumerate(bounds)}
        self._blocks = [
            [slice(at[start], at[stop]) for start, stop in plan.ranges(*span)] for span in spans
        ]

    def __call__(self, pieces: Sequence[Sequence[Any]]) -> list[Any]:
        join = as_task(_concatenated)
        blocks = [
            [piece for at in block for some in pieces[at] for piece in some]
            for block in self._blocks
        ]
        return [parts[0] if len(parts) == 1 else join(*parts) for parts in blocks]


def _concatenated(*pieces: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate(pieces)


def _cut_chunks(
    sources: Sequence[Source], plan: PassPlan, bounds: Sequence[int], budget: Budget | None
) -> Iterator[list[list[Any]]]:
    """Delayed pieces of sources of one array between bounds, from chunks that are read once."""
    first, alone = sources[0], len(sources) == 1
    # Of several variables the whole array is read, and each is cut from its rows.
    whole = first.whole if is_cut(first) and not alone else first
    n, step = plan.n, cut_rows(whole, plan)
    read = as_task(partial(_read_chunks, whole, budget))
    # From the chunk on that has the first row.
    touched = range(bounds[0] // step * step, bounds[-1], step)
    # A chunk is read once, and can be forgotten when its pieces are cut.
    chunks = {at: read(at, min(at + step, n)) for at in touched}
    for source in sources:
        cut = as_task(partial(_cut_chunk, None if alone else source))
        yield [
            [
                cut(chunks[at], max(start - at, 0), min(stop - at, step))
                for at in range(start // step * step, stop, step)
            ]
            for start, stop in itertools.pairwise(bounds)
        ]


def _read_chunks(source: Source, budget: Budget | None, start: int, stop: int) -> NDArray[Any]:
    check_process_memory(budget, read_bytes([source], [(start, stop)]))
    return source.read(start, stop)


def _cut_chunk(source: Source | None, chunk: NDArray[Any], start: int, stop: int) -> NDArray[Any]:
    """Rows of a chunk, or those of one of several variables: a copy, to forget the chunk."""
    rows = chunk[start:stop]
    # A copy, so that the chunk can be forgotten.
    return (source.cut(rows) if source is not None and is_cut(source) else rows).copy()


def edges(ranges: Sequence[Ranges], n: int) -> list[int]:
    """Bounds that cut all rows wherever one of the ranges starts or ends."""
    return sorted({0, n, *(row for some in ranges for span in some for row in span)})
