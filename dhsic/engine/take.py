"""Rows by number, read by the driver or, where that takes long, by workers."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.blocks import Source, chunk_starts
from dhsic.engine.checkpoint import Checkpoint
from dhsic.engine.compute import Job, as_task, begin, compute, held
from dhsic.engine.failures import failures_in_words
from dhsic.engine.reduction import pickled
from dhsic.engine.runtime import Runtime

__all__ = ["count_tasks", "take_rows"]

Rows = NDArray[np.intp]

_TASK_BYTES = 32 * 2**20
_CHUNK_BYTES = 2**20  # opening a chunk takes about as long as decoding so many bytes
_FEW = 0.25
_TASKS_OF_A_THREAD = 2
_SMALL = 64 * 2**10


def take_rows(
    sources: Sequence[Source],
    rows: Sequence[Rows],
    runtime: Runtime,
    checkpoint: Checkpoint | None = None,
) -> list[NDArray[Any]]:
    """Rows by number, one increasing array of numbers a source.

    A few rows of large data lie in as many stored chunks, each of which is read whole: on a
    cluster every worker reads some of them, unless all are quickly read here.
    """
    graphs = {m: source for m, source in enumerate(sources) if source.place == "graph"}
    others = {m: source for m, source in enumerate(sources) if m not in graphs}
    with failures_in_words(checkpoint):
        computed = begin([source.take(rows[m]) for m, source in graphs.items()], runtime)
        tasks = {m: _tasks(source, rows[m], runtime) for m, source in others.items()}
        parts = iter(_computed([task for its in tasks.values() for task in its], runtime))
        taken = {
            m: np.concatenate([next(parts) for _ in its]) if its else others[m].take(rows[m])
            for m, its in tasks.items()
        }
        if runtime.client is not None:
            computed = runtime.client.gather(computed)
    taken.update(zip(graphs, computed, strict=True))
    return [taken[m] for m in range(len(sources))]


def count_tasks(chunks: int, chunk_rows: int, row_bytes: int, wanted: int, threads: int) -> int:
    """Tasks that read so many stored chunks for some rows; 0 where the driver had better do it.

    Rows that are a large part of what is read would travel to the driver in vain.
    """
    work = chunks * (chunk_rows * row_bytes + _CHUNK_BYTES)
    tasks = min(chunks, _TASKS_OF_A_THREAD * threads, work // _TASK_BYTES)
    return tasks if tasks > 1 and wanted <= _FEW * chunks * chunk_rows else 0


def _tasks(source: Source, rows: Rows, runtime: Runtime) -> list[Any]:
    """Tasks that take parts of the rows, where it is worth while."""
    if runtime.client is None or source.place != "storage" or source.chunk_rows is None:
        return []
    chunks = np.split(rows, chunk_starts(rows, source.chunk_rows))
    sizes = source.chunk_rows, source.row_bytes
    if not (count := count_tasks(len(chunks), *sizes, len(rows), runtime.threads)):
        return []
    # Pickled here with its arrays inside, see `unpacked`. Dask gives so few tasks that share an
    # argument to the worker that has it, and others wait until they steal them.
    data = pickled(source)
    reader = data if len(data) <= _SMALL else held(data, runtime)
    take, bounds = as_task(_taken), [len(chunks) * i // count for i in range(count + 1)]
    return [take(reader, chunks[a:b]) for a, b in pairwise(bounds)]


def _computed(tasks: list[Any], runtime: Runtime) -> list[NDArray[Any]]:
    if not tasks:
        return []
    return compute(Job(tasks, [0] * len(tasks), list(tasks)), runtime, lambda _: None)


def _taken(pickled: bytes, chunks: Sequence[Rows]) -> NDArray[Any]:
    """Rows of some chunks, of which one is held at a time."""
    source: Source = pickle.loads(pickled)
    return np.concatenate([source.take(rows) for rows in chunks])
