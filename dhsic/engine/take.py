"""Rows by number, read by the driver or, where that takes long, by workers."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.blocks import Source
from dhsic.engine.checkpoint import Checkpoint
from dhsic.engine.compute import Job, as_task, begin, compute, held
from dhsic.engine.failures import explained_failures
from dhsic.engine.reduction import pickled
from dhsic.engine.runtime import Runtime
from dhsic.engine.supervision import fetched
from dhsic.engine.together import take_block, together

Indices = NDArray[np.intp]

_TASK_BYTES = 32 * 2**20
_CHUNK_BYTES = 2**20  # opening a chunk takes about as long as decoding so many bytes
_FEW = 0.25
_TASKS_OF_A_THREAD = 2
_SMALL = 64 * 2**10


class Along(NamedTuple):
    """Rows that are taken along with others."""

    rows: Indices
    values: list[NDArray[np.float64]]

    def split(self, taken: list[NDArray[np.float64]]) -> list[NDArray[np.float64]]:
        """Keep the last rows of every variable, and return the others."""
        count = len(self.rows)
        self.values.extend(x[-count:] for x in taken)
        return [x[:-count] for x in taken]


def take_rows(
    sources: Sequence[Source],
    rows: Sequence[Indices],
    runtime: Runtime,
    checkpoint: Checkpoint | None = None,
) -> list[NDArray[Any]]:
    """Rows by number, one increasing array of numbers a source.

    A few rows of large data lie in as many stored chunks, each of which is read whole: on a
    cluster every worker reads some of them, unless all are quickly read here.
    """
    groups = together(sources)
    graphs = [m for m, *_ in groups if sources[m].place == "graph"]
    stored = [at for at in groups if at[0] not in graphs]
    taken: dict[int, NDArray[Any]] = {}
    # Refused before it is read, where it would take more than the budget.
    runtime.look(max((sources[m].take_bytes for m, *_ in stored), default=0))
    with explained_failures(checkpoint):
        computed = begin([sources[m].take(rows[m]) for m in graphs], runtime)
        asked = [([sources[m] for m in at], [rows[m] for m in at]) for at in stored]
        tasks = [_tasks(same, wanted, runtime) for same, wanted in asked]
        parts = iter(_computed_rows([task for some in tasks for task in some], runtime))
        for at, some, (same, wanted) in zip(stored, tasks, asked, strict=True):
            pieces = [next(parts) for _ in some]
            whole = (
                map(np.concatenate, zip(*pieces, strict=True))
                if pieces
                else take_block(same, wanted)
            )
            taken.update(zip(at, whole, strict=True))
        if runtime.client is not None:
            computed = fetched(computed, runtime.client)
    taken.update(zip(graphs, computed, strict=True))
    return [taken[m] for m in range(len(sources))]


def count_tasks(chunks: int, chunk_rows: int, row_bytes: int, wanted: int, threads: int) -> int:
    """Tasks that read so many stored chunks for some rows; 0 where the driver had better do it.

    Rows that are a large part of what is read would travel to the driver in vain.
    """
    # Opening costs as well, so that many small chunks are shared out, too.
    work = chunks * (chunk_rows * row_bytes + _CHUNK_BYTES)
    tasks = min(chunks, _TASKS_OF_A_THREAD * threads, work // _TASK_BYTES)
    return tasks if tasks > 1 and wanted <= _FEW * chunks * chunk_rows else 0


def _tasks(sources: Sequence[Source], rows: Sequence[Indices], runtime: Runtime) -> list[Any]:
    """Tasks that take parts of the rows of sources of one array, where it is worth while."""
    first = sources[0]
    if runtime.client is None or first.place != "storage" or first.chunk_rows is None:
        # Chunks that hold none of the rows are not opened.
        return []
    chunks = np.unique(np.concatenate(rows) // first.chunk_rows)
    wanted = max(map(len, rows))
    sizes = first.chunk_rows, first.row_bytes
    if not (count := count_tasks(len(chunks), *sizes, wanted, runtime.threads)):
        return []
    # Pickled here with its arrays inside, see `unpacked`. Dask gives so few tasks that share an
    # argument to the worker that has it, and others wait until they steal them.
    data = pickled(tuple(sources))
    reader = data if len(data) <= _SMALL else held(data, runtime)
    take, bounds = as_task(_rows_of_chunks), [len(chunks) * i // count for i in range(count + 1)]
    by_chunk = _by_chunk(rows, first.chunk_rows, chunks)
    return [take(reader, by_chunk[a:b]) for a, b in pairwise(bounds)]


def _by_chunk(rows: Sequence[Indices], step: int, chunks: Indices) -> list[list[Indices]]:
    """The rows of every source in each of some chunks."""
    starts = chunks * step
    parts = [
        map(slice, np.searchsorted(wanted, starts), np.searchsorted(wanted, starts + step))
        for wanted in rows
    ]
    return [
        [wanted[at] for wanted, at in zip(rows, ats, strict=True)]
        for ats in zip(*parts, strict=True)
    ]


def _computed_rows(tasks: list[Any], runtime: Runtime) -> list[list[NDArray[Any]]]:
    if not tasks:
        return []
    return compute(Job(tasks, [0] * len(tasks), list(tasks)), runtime, lambda _: None)


def _rows_of_chunks(pickled: bytes, chunks: Sequence[Sequence[Indices]]) -> list[NDArray[Any]]:
    """Rows of some chunks, of which one is held at a time."""
    sources: tuple[Source, ...] = pickle.loads(pickled)
    return _joined_parts([take_block(sources, rows) for rows in chunks])


def _joined_parts(parts: Sequence[Sequence[NDArray[Any]]]) -> list[NDArray[Any]]:
    """The parts of every source, one after another."""
    return [np.concatenate(pieces) for pieces in zip(*parts, strict=True)]
