"""Replicates, which depend on their number alone: ranges of them, at the same time."""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from dhsic.engine.blas import one_blas_thread
from dhsic.engine.budget import Budget, check_process_memory
from dhsic.engine.checkpoint import Checkpoint, Shards, can_tell
from dhsic.engine.compute import Job, as_task, held
from dhsic.engine.events import BlockFinished, Listener, PassFinished, PassStarted
from dhsic.engine.failures import explained_failures
from dhsic.engine.reduction import Partial, pickled, unpacked
from dhsic.engine.runtime import Runtime
from dhsic.engine.shards import Numbers, compute_missing, keep_shard, load_shard

Value = TypeVar("Value")

_RANGES = 32
# Threads pass the lock of the interpreter on at every small array, so that two take longer over
# quick work than one does: the others join after so many seconds.
_ALONE = 0.05


class ReplicateTask(NamedTuple):
    """Shared input of the tasks over replicates."""

    function: Callable[[range], Any]
    shards: Shards | None
    budget: Budget | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return unpacked, (ReplicateTask, pickled(tuple(self)))


def run_map(
    name: str,
    function: Callable[[range], Value],
    count: int,
    runtime: Runtime,
    listener: Listener,
    checkpoint: Checkpoint | None = None,
) -> list[Value]:
    """Apply a function to ranges of replicates, which depend on their number alone.

    Parameters
    ----------
    name : str
        Name of its result.
    function : callable
        Takes a range of replicates; travels once to every worker.
    count : int
        Number of replicates.
    runtime : Runtime
        Where tasks run.
    listener : callable
        Is told when it starts, when a range is done and when all are done.
    checkpoint : Checkpoint, optional
        Where ranges are kept, of a function whose fields say all that it computes.

    Returns
    -------
    list
        Values of the function, in the order of the ranges.
    """

    def tell(amount: int) -> None:
        listener(BlockFinished(name, amount, "resamples"))

    def job(there: Numbers) -> Job:
        amount = sum(len(ranges[number]) for number in there)
        listener(replace(started, resumed=amount, resumed_parts=len(there)))
        return _job(replicates, ranges, there, runtime)

    ranges = _ranges(count)
    shards = None
    # Of a function without a token no one would know whose shards they are.
    if checkpoint is not None and can_tell(function):
        shards = checkpoint.shards(name, len(ranges), (function, count))
    started = PassStarted(name, len(ranges), count, "resamples")
    replicates = ReplicateTask(function, shards, runtime.budget)
    began = time.perf_counter()
    with explained_failures(checkpoint):
        if runtime.client is None and shards is None:
            listener(started)
            partials = _in_this_process(replicates, ranges, runtime.threads, tell)
        else:
            partials = compute_missing(job, shards, runtime, tell)
    seconds = time.perf_counter() - began
    work = sum(partial.seconds for partial in partials)
    listener(PassFinished(name, len(ranges), count, 0, seconds, work, "resamples"))
    return [partial.state for partial in partials]


def _ranges(count: int) -> list[range]:
    bounds = [count * i // _RANGES for i in range(_RANGES + 1)]
    # Fewer replicates than ranges leave empty ones, which make no task.
    return [range(a, b) for a, b in itertools.pairwise(bounds) if a < b]


def map_first(function: Callable[[range], Value], count: int) -> tuple[list[Value], int, float]:
    """The values of `run_map` as if ranges of one length had the same, of how many, in seconds."""
    # Lengths differ by 1 at the most.
    ranges = _ranges(count)
    first = {len(numbers): numbers for numbers in ranges}
    began = time.perf_counter()
    made = {length: function(numbers) for length, numbers in first.items()}
    seconds = time.perf_counter() - began
    return [made[len(numbers)] for numbers in ranges], sum(made), seconds


def _in_this_process(
    replicates: ReplicateTask,
    ranges: Sequence[range],
    threads: int,
    tell: Callable[[int], None],
) -> list[Partial[Any]]:
    """Partial results of ranges, in this thread and, where they take long, in others too.

    All that is told comes from this thread, as listeners may expect.
    """
    left, done = deque(enumerate(ranges)), deque[tuple[int, Partial[Any]]]()
    partials: dict[int, Partial[Any]] = {}
    ended = threading.Event()

    def work(after_each: Callable[[], None]) -> None:
        try:
            while (taken := _taken(left)) is not None:
                number, numbers = taken
                done.append((number, _apply(replicates, numbers)))
                after_each()
        except BaseException:  # of an interrupt, too: no thread begins another range
            left.clear()
            raise

    def work_late() -> None:
        if not ended.wait(_ALONE):
            work(lambda: None)

    def tell_done() -> None:
        while done:
            number, partials[number] = done.popleft()
            tell(len(ranges[number]))

    with one_blas_thread(), ThreadPoolExecutor(threads) as pool:
        try:
            others = [pool.submit(work_late) for _ in range(min(threads, len(ranges)) - 1)]
            work(tell_done)
        finally:
            ended.set()
        for other in as_completed(others):
            other.result()
            tell_done()
    return [partials[number] for number in range(len(ranges))]


def _taken(left: deque[tuple[int, range]]) -> tuple[int, range] | None:
    try:
        return left.popleft()
    except IndexError:
        return None


def _job(
    replicates: ReplicateTask, ranges: Sequence[range], there: Numbers, runtime: Runtime
) -> Job:
    shared, apply = held(replicates, runtime), as_task(_apply)
    keep, load = as_task(keep_shard), as_task(load_shard)
    missing = [number for number in range(len(ranges)) if number not in there]
    leaves = {number: apply(shared, ranges[number]) for number in missing}
    made = leaves
    if replicates.shards is not None:
        made = {number: keep(shared, number, leaf) for number, leaf in leaves.items()}
    wanted = [made[n] if n in made else load(shared, n) for n in range(len(ranges))]
    return Job(list(leaves.values()), [len(ranges[n]) for n in missing], wanted)


def _apply(replicates: ReplicateTask, numbers: range) -> Partial[Any]:
    if replicates.shards is not None:
        replicates.shards.check()
    check_process_memory(replicates.budget)
    began = time.perf_counter()
    return Partial(replicates.function(numbers), time.perf_counter() - began)
