"""Run one pass on Dask: on threads of this process or on any cluster."""

from __future__ import annotations

import itertools
import pickle
import time
import uuid
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import dask
import numpy as np
from dask.callbacks import Callback
from dask.delayed import Delayed, delayed
from distributed import as_completed
from numpy.typing import NDArray

from dhsic.engine.blas import one_blas_thread
from dhsic.engine.blocks import Source, read_block
from dhsic.engine.events import BlockFinished, Listener, PassFinished, PassStarted
from dhsic.engine.failures import failures_in_words
from dhsic.engine.plan import FAN_IN, PassPlan
from dhsic.engine.reduction import Partial, RowBlock, RowReduction
from dhsic.engine.runtime import Runtime
from dhsic.errors import DhsicError

__all__ = ["Payload", "run_pass", "take_rows"]

State = TypeVar("State")

_PIECE = 4 * 2**20
_POLL_SECONDS = 0.01
_LOOK_SECONDS = 1.0
_ALONE_SECONDS = 60.0


class Payload(NamedTuple):
    """What every task of a pass needs; travels once to every worker."""

    reduction: RowReduction[Any]
    sources: tuple[Source | None, ...]
    finite: bool


def run_pass(
    reduction: RowReduction[State],
    sources: Sequence[Source],
    plan: PassPlan,
    runtime: Runtime,
    listener: Listener,
    *,
    finite: bool = True,
) -> tuple[State, PassFinished]:
    """Map every row block to a partial result and combine them in the order of the blocks.

    Parameters
    ----------
    reduction : RowReduction
        What to compute.
    sources : sequence of Source
        The variables.
    plan : PassPlan
        The row blocks.
    runtime : Runtime
        Where tasks run.
    listener : callable
        Is told when the pass starts, when a block is done and when the pass is done.
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
    listener(PassStarted(plan.name, plan.blocks, plan.bounds[-1]))
    began = time.perf_counter()
    shared = tuple(source if _readable(source, runtime) else None for source in sources)
    payload = Payload(reduction, shared, finite)
    parts = _parts(sources, plan, runtime)
    if runtime.client is not None:
        with failures_in_words():
            total = _run_on_client(payload, plan, parts, runtime.client, listener)
    else:
        with one_blas_thread():
            total = _run_on_threads(payload, plan, parts, runtime.threads, listener)
    seconds = time.perf_counter() - began
    done = PassFinished(plan.name, plan.blocks, total.rows, plan.bytes_read, seconds, total.seconds)
    listener(done)
    return total.state, done


def take_rows(
    sources: Sequence[Source], rows: Sequence[NDArray[np.intp]], runtime: Runtime
) -> list[NDArray[Any]]:
    """Rows by number, one increasing array of numbers a source."""
    taken = [source.take(numbers) for source, numbers in zip(sources, rows, strict=True)]
    lazy = [number for number, source in enumerate(sources) if source.place == "graph"]
    if runtime.client is not None:
        computed = runtime.client.gather(runtime.client.compute([taken[i] for i in lazy]))
    else:
        computed = dask.compute(
            *(taken[i] for i in lazy), scheduler="threads", num_workers=runtime.threads
        )
    for number, values in zip(lazy, computed, strict=True):
        taken[number] = values
    return taken


def _readable(source: Source, runtime: Runtime) -> bool:
    """Whether any task can read the source by itself."""
    return source.place == "storage" or (source.place == "memory" and runtime.client is None)


def _parts(sources: Sequence[Source], plan: PassPlan, runtime: Runtime) -> list[dict[int, Any]]:
    """Blocks that must travel to their task, by block and by number of the source."""
    parts: list[dict[int, Any]] = [{} for _ in range(plan.blocks)]
    for number, source in enumerate(sources):
        if _readable(source, runtime):
            continue
        if source.place == "graph":
            blocks = source.lazy(plan.bounds)
        else:
            pairs = itertools.pairwise(plan.bounds)
            blocks = [_ship(runtime.client, source.read(*pair)) for pair in pairs]
        for part, block in zip(parts, blocks, strict=True):
            part[number] = block
    return parts


def _run_on_threads(
    payload: Payload,
    plan: PassPlan,
    parts: Sequence[dict[int, Any]],
    threads: int,
    listener: Listener,
) -> Partial[Any]:
    if plan.blocks == 1 and not parts[0]:
        partial = _chunk(payload, plan.bounds[0], plan.bounds[1], ())
        listener(BlockFinished(plan.name, partial.rows))
        return partial
    held = delayed(payload, name=f"payload-{uuid.uuid4().hex}", pure=False, traverse=False)
    blocks, total = _graph(held, plan, parts)
    names = {block.key for block in blocks}

    def finished(key: str, value: Any, *_: Any) -> None:
        if key in names:
            listener(BlockFinished(plan.name, value.rows))

    with Callback(posttask=finished):
        result: tuple[Partial[Any]] = dask.compute(
            total, scheduler="threads", num_workers=threads, optimize_graph=False
        )
    return result[0]


def _run_on_client(
    payload: Payload,
    plan: PassPlan,
    parts: list[dict[int, Any]],
    client: Any,
    listener: Listener,
) -> Partial[Any]:
    blocks, total = _graph(_ship(client, payload), plan, parts)
    *pending, last = futures = client.compute([*blocks, total])
    del blocks, total  # the tasks hold what was sent; a traceback must not hold it any longer
    parts.clear()
    rows = {
        future.key: stop - start
        for future, (start, stop) in zip(pending, itertools.pairwise(plan.bounds), strict=True)
    }
    try:
        for future in _as_they_finish(pending, client):
            if future.status != "finished":
                future.result()
            listener(BlockFinished(plan.name, rows[future.key]))
            if future.key != last.key:  # what waits in the combine tree holds on to its blocks
                future.release()
        result: Partial[Any] = last.result()
    finally:
        for future in futures:  # not Client.cancel, which fails on what waits in the combine tree
            future.release()
    return result


def _as_they_finish(pending: Sequence[Any], client: Any) -> Iterator[Any]:
    """Futures as they finish; a cluster that stays without workers is an error, not a wait."""
    completed = as_completed(pending, loop=client.loop)
    left, looked, alone = len(pending), 0.0, None
    while left:
        batch = completed.next_batch(block=False)
        yield from batch
        left -= len(batch)
        now = time.monotonic()
        if batch or now - looked < _LOOK_SECONDS:
            time.sleep(0.0 if batch else _POLL_SECONDS)
            continue
        looked = now
        alone = None if client.nthreads() else alone or now
        if alone is not None and now - alone > _ALONE_SECONDS:
            msg = (
                f"the cluster has had no workers for {_ALONE_SECONDS:.0f} s: start some, and run "
                "again with the same seed"
            )
            raise DhsicError(msg)


def _graph(
    held: Any, plan: PassPlan, parts: Sequence[dict[int, Any]]
) -> tuple[list[Delayed], Delayed]:
    run = uuid.uuid4().hex
    chunk = delayed(_chunk, pure=False, traverse=False)
    combine = delayed(_combine, pure=False, traverse=False)
    blocks = [
        chunk(
            held,
            start,
            stop,
            tuple(part),
            *part.values(),
            dask_key_name=f"{plan.name.replace(' ', '-')}-{run}-{start}",
        )
        for (start, stop), part in zip(itertools.pairwise(plan.bounds), parts, strict=True)
    ]
    level = blocks
    while len(level) > 1:
        level = [
            combine(held, *batch)
            for batch in [level[i : i + FAN_IN] for i in range(0, len(level), FAN_IN)]
        ]
    return blocks, level[0]


def _chunk(
    payload: Payload, start: int, stop: int, numbers: tuple[int, ...], *computed: Any
) -> Partial[Any]:
    began = time.perf_counter()
    parts = dict(zip(numbers, computed, strict=True))
    values = read_block(payload.sources, start, stop, parts, payload.finite)
    state = payload.reduction.chunk(RowBlock(start, values))
    return Partial(state, stop - start, time.perf_counter() - began)


def _combine(payload: Payload, first: Partial[Any], *others: Partial[Any]) -> Partial[Any]:
    for other in others:
        state = payload.reduction.combine(first.state, other.state)
        first = Partial(state, first.rows + other.rows, first.seconds + other.seconds)
    return first


def _ship(client: Any, value: Any) -> Any:
    """Send a value once, as tasks: unlike scattered data it survives the loss of every worker.

    It goes in pieces, since Dask warns of tasks that carry more than 10 MB.
    """
    data = pickle.dumps(value, protocol=5)
    name = f"dhsic-{uuid.uuid4().hex}"
    pieces = [
        client.submit(bytes, data[start : start + _PIECE], key=f"{name}-{start}", pure=False)
        for start in range(0, len(data), _PIECE)
    ]
    return client.submit(_assemble, pieces, key=name, pure=False)


def _assemble(pieces: Sequence[bytes]) -> Any:
    return pickle.loads(b"".join(pieces))
