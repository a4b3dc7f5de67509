"""Make graphs of tasks for a pass, blocks or rows, and compute them on threads or any cluster.

The bits of a result depend on the bounds of the blocks and on the tree that combines them, which
depend on the data alone: the same graph gives the same bits wherever and in whatever order tasks
run. Dask is slow to import, so each function imports the parts that it uses.
"""

from __future__ import annotations

import functools
import itertools
import math
import os
import pickle
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dhsic.engine.checkpoint import Checkpoint, MissingShardError, Shards
from dhsic.engine.events import BlockFinished, Listener, PassFinished, PassStarted
from dhsic.engine.passes import (
    Block,
    GroupBlock,
    Indices,
    Pass,
    Ranges,
    RowBlock,
    Source,
    add,
    is_cut,
    read_block,
    read_ranges,
    take_block,
    together,
)
from dhsic.engine.plan import MADE, PassPlan, cut_rows, read_bytes
from dhsic.engine.runtime import (
    Budget,
    Runtime,
    as_they_finish,
    explained_failures,
    fetched,
    on_threads,
    threads_of_workers,
)

State = TypeVar("State")
Arrays = tuple[NDArray[Any], ...]
Span = tuple[int, int]
Spans = tuple[Span, ...]
Tell = Callable[[int], None]
_Node = tuple[Any, int]
"""A task, and the number of the first leaf that it is made of."""

_MOST_SHARDS = 128
# Threads pass the lock of the interpreter on at every small array, so that two take longer over
# quick work than one does: the others join after so many seconds.
_ALONE = 0.05
_PIECE = 4 * 2**20
_TRAVELS_LIGHT = 2**20  # bytes of a partial result, which may come from any worker
_TASKS_OF_A_THREAD = 2


# --- tasks, and where they run


def as_task(function: Callable[..., Any]) -> Any:
    """A function whose calls are tasks, each with its own key."""
    from dask.delayed import delayed

    # Calls with equal arguments stay different tasks, and Dask need not hash their arrays.
    return delayed(function, pure=False, traverse=False)


def held(value: Any, runtime: Runtime) -> Any:
    """An argument that many tasks share."""
    if runtime.client is not None:
        return ship(runtime.client, value)
    from dask.delayed import delayed

    # It gets a name, or Dask would hash the value.
    return delayed(value, name=f"held-{uuid.uuid4().hex}", pure=False, traverse=False)


def ship(client: Any, value: Any) -> Any:
    """Send a value once, as tasks: unlike scattered data it survives the loss of every worker.

    The value is sent in pieces, since Dask warns of tasks larger than 10 MB.
    """
    # Cut up, since a message of one large value would block the scheduler while it passes.
    data = pickled(value)
    name = f"dhsic-{uuid.uuid4().hex}"
    pieces = [
        client.submit(bytes, data[start : start + _PIECE], key=f"{name}-{start}", pure=False)
        for start in range(0, len(data), _PIECE)
    ]
    return client.submit(_assemble, pieces, key=name, pure=False)


def _assemble(pieces: Sequence[bytes]) -> Any:
    return pickle.loads(b"".join(pieces))


def begin(lazy: Sequence[Any], runtime: Runtime) -> list[Any]:
    """Values of what Dask can compute; futures of them where there is a client."""
    if runtime.client is not None:
        return list(runtime.client.compute(lazy))
    import dask

    return list(dask.compute(*lazy, **on_threads(runtime.threads)))


def computed(lazy: Sequence[Any], runtime: Runtime) -> list[Any]:
    """Values of what Dask can compute, where tasks run."""
    values = begin(lazy, runtime) if lazy else []
    return values if runtime.client is None else fetched(values, runtime.client)


def compute(
    leaves: list[tuple[Any, int]], wanted: list[Any], runtime: Runtime, tell: Tell
) -> list[Any]:
    """Compute what is wanted, in order, and tell how much every leaf did when it is done.

    Both lists are empty afterwards, so that a traceback does not keep the sent data.

    Parameters
    ----------
    leaves : list of (task, int)
        Tasks that do the work, and how much of it each does.
    wanted : list of tasks
        Leaves, or what combines them.
    runtime : Runtime
        Where tasks run.
    tell : callable
        Takes the amount of a leaf when it is done.
    """
    amounts = {leaf.key: amount for leaf, amount in leaves}
    if runtime.client is not None:
        tasks = {task.key: task for task in [*(leaf for leaf, _ in leaves), *wanted]}
        keys = [task.key for task in wanted]
        leaves.clear()
        wanted.clear()
        return _on_client(tasks, keys, amounts, runtime.client, tell)
    import dask
    from dask.callbacks import Callback

    def finished(key: str, *_: Any) -> None:
        if key in amounts:
            tell(amounts[key])

    tops = tuple(wanted)
    # The graph alone holds the tasks from here on, so that each can be freed when it is done.
    leaves.clear()
    wanted.clear()
    # Fused tasks would have other keys, by which the work that is done is told.
    with Callback(posttask=finished):
        return list(dask.compute(*tops, **on_threads(runtime.threads), optimize_graph=False))


def _on_client(
    tasks: dict[str, Any], wanted: list[str], amounts: dict[str, int], client: Any, tell: Tell
) -> list[Any]:
    # Dask would look through all keys for every task, and the scheduler drops what is not needed.
    sent = client.compute(list(tasks.values()), optimize_graph=False)
    futures = dict(zip(tasks, sent, strict=True))
    tasks.clear()
    # An error or a cancelled task ends the run here, and not when all others are done.
    try:
        for future in as_they_finish(list(futures.values()), client):
            # One whose worker is lost by now is computed again where it is needed, without a wait.
            if future.status in ("error", "cancelled"):
                future.result()
            if future.key in amounts:
                tell(amounts[future.key])
            if future.key not in wanted:  # what waits in the combine tree holds on to it
                future.release()
        return fetched([futures[key] for key in wanted], client)
    finally:
        for future in futures.values():  # not Client.cancel, which fails on what waits in the tree
            future.release()


def _forget_threads() -> None:
    """Reset thread pools and clients of Dask after a fork, which has no threads of its parent."""
    if (threaded := sys.modules.get("dask.threaded")) is not None:
        threaded.pools.clear()
        vars(threaded)["default_pool"] = None
    if (distributed := sys.modules.get("distributed.client")) is not None:
        for client in list(distributed.Client._instances):
            client.status = "closed"


os.register_at_fork(after_in_child=_forget_threads)

# Runs of several threads begin and end at the same time.
_blas_lock = threading.Lock()
_blas_limits: list[Any] = []


@functools.cache
def _blas_libraries() -> Any:
    """Found once: looking through the loaded libraries takes longer than a small pass.

    That of SciPy is another than that of NumPy, and is not found before it is loaded.
    """
    import scipy.linalg  # noqa: F401
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit the BLAS of this process; the last of several runs lifts the limit.

    Threads of a run work on other blocks, and sums of several BLAS threads round in another way: on
    two, replicates differed by 2.8e-16. One limit is enough: a second would take the limited state
    for the original, and leave it so.
    """
    with _blas_lock:
        first = None if _blas_limits else _blas_libraries().limit(limits=1, user_api="blas")
        _blas_limits.append(first or _blas_limits[0])
    try:
        yield
    finally:
        with _blas_lock:
            limit = _blas_limits.pop()
            if not _blas_limits:
                limit.restore_original_limits()


# --- leaves and the tree that combines them


class Leaf(NamedTuple):
    """A task that does a part of the work."""

    at: Any
    """Bounds of its blocks, or its range of replicates."""
    amount: int
    """How much of the work it is."""
    key: str | None = None
    """Names its task."""


@dataclass(frozen=True)
class Partial(Generic[State]):
    """A partial result with the work behind it."""

    state: State
    seconds: float

    def __reduce__(self) -> tuple[Any, ...]:
        # Within the pickle, not beside it: buffers of arrays that travel apart may arrive
        # unaligned.
        return unpacked, (Partial, pickled((self.state, self.seconds)))


def pickled(value: Any) -> bytes:
    """Pickle a value as Dask does, which can send more functions than `pickle` alone."""
    from distributed.protocol.pickle import dumps  # slow to import, and threads do without

    data: bytes = dumps(value)
    return data


def unpacked(kind: Callable[..., Any], data: bytes) -> Any:
    """Rebuild a value that was pickled with its arrays inside.

    Dask would send the arrays beside it, and they could arrive unaligned: NumPy then sums them in
    another order, and the last digits depend on which worker had what.
    """
    return kind(*pickle.loads(data))


class Work(NamedTuple):
    """Shared input of the tasks of a pass; travels once to every worker."""

    run: Any
    """Called with what a leaf is at, and with the blocks that travel to it."""
    budget: Budget
    combine: Callable[[Any, Any], Any] = add
    shards: Shards | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return unpacked, (Work, pickled(tuple(self)))


@dataclass(frozen=True)
class Tree:
    """Leaves, and how their partial results are combined: a few at a time and in their order.

    Parameters
    ----------
    work : Work
        Input of all tasks.
    leaves : list of Leaf
        In order.
    fan_in : int, optional
        Partial results that a task combines; 1 where each is wanted by itself.
    state_bytes : int, optional
        Bytes of one of them.
    parts : callable, optional
        Blocks that travel to leaves, for each of some.
    """

    work: Work
    leaves: list[Leaf]
    fan_in: int = 1
    state_bytes: int = 0
    parts: Callable[[list[Leaf]], list[list[Any]]] | None = None

    @cached_property
    def shards(self) -> list[list[Leaf]]:
        """Leaves of every shard: whole subtrees, as few as are enough.

        Each is a file to write and to list; sums are added in the same order with shards and
        without.
        """
        size = 1
        while -(-len(self.leaves) // size) > _MOST_SHARDS:
            size *= self.fan_in
        return [self.leaves[i : i + size] for i in range(0, len(self.leaves), size)]

    def run(
        self,
        started: PassStarted,
        runtime: Runtime,
        listener: Listener,
        checkpoint: Checkpoint | None = None,
        determined_by: Any = None,
    ) -> tuple[list[Any], PassFinished]:
        """The combined state, or all of them, and the event of the end.

        The tree depends on the blocks alone, so that the same blocks give the same bits wherever
        and in whatever order they ran, or were kept.

        Parameters
        ----------
        started : PassStarted
            The event of the start.
        runtime : Runtime
            Where tasks run.
        listener : callable
            Receives events.
        checkpoint : Checkpoint, optional
            Keeps the shards.
        determined_by : object, optional
            As of `Checkpoint.shards`.
        """
        began = time.perf_counter()
        tree = self
        if checkpoint is not None:
            shards = checkpoint.shards(started.name, len(self.shards), determined_by)
            tree = replace(self, work=self.work._replace(shards=shards))

        def tell(amount: int) -> None:
            listener(BlockFinished(started.name, amount, started.unit))

        with explained_failures(checkpoint):
            if runtime.client is None and checkpoint is None and self.parts is None:
                listener(started)
                partials = tree._in_this_thread(runtime.threads, tell)
                if rest := self.leaves[len(partials) :]:
                    tasks = replace(tree, leaves=rest)._tasks(frozenset(), runtime)
                    partials += compute(*tasks, runtime, tell)
            else:
                partials = tree._kept_or_computed(started, runtime, listener, tell)
        spent = sum(one.seconds for one in partials)
        done = started.finished(time.perf_counter() - began, spent)
        listener(done)
        return [one.state for one in partials], done

    def _in_this_thread(self, threads: int, tell: Tell) -> list[Partial[Any]]:
        """The first leaves, where no graph is worth its while: of one, or of quick ones."""
        if self.fan_in > 1 and len(self.leaves) > 1:
            return []
        done: list[Partial[Any]] = []
        began = time.perf_counter()
        for leaf in self.leaves:
            if done and threads > 1 and time.perf_counter() - began > _ALONE:
                break
            done.append(run_leaf(self.work, leaf.at))
            tell(leaf.amount)
        return done

    def _kept_or_computed(
        self, started: PassStarted, runtime: Runtime, listener: Listener, tell: Tell
    ) -> list[Partial[Any]]:
        shards = self.work.shards
        # Until nothing is broken: every turn removes at least one broken shard.
        while True:
            there = frozenset[int]() if shards is None else shards.present()
            kept = [leaf for number in there for leaf in self.shards[number]]
            amount = sum(leaf.amount for leaf in kept)
            listener(replace(started, resumed=amount, resumed_parts=len(kept)))
            try:
                return compute(*self._tasks(there, runtime), runtime, tell)
            except MissingShardError as missing:
                assert shards is not None
                # All that are broken are found at once, or each would end the pass once more.
                look = as_task(shards.fault)
                looks = [look(number) for number in sorted(there - {missing.number})]
                for broken in filter(None, [missing, *computed(looks, runtime)]):
                    shards.drop(broken)

    def _tasks(
        self, there: frozenset[int], runtime: Runtime
    ) -> tuple[list[tuple[Any, int]], list[Any]]:
        """Leaves of the shards that are not there, with their amounts, and what is wanted of all.

        Neighbours share a worker where partial results are large: these are added where they are,
        and few of them travel. A worker is a wish: where it is lost, or behind others, these take
        over what is left.
        """
        missing = [leaf for k, shard in enumerate(self.shards) if k not in there for leaf in shard]
        parts = iter(self.parts(missing) if self.parts is not None else itertools.repeat([]))
        shared, leaves = held(self.work, runtime), list[tuple[Any, int]]()
        run, combine, shards = as_task(run_leaf), as_task(_combine), self.work.shards
        # The scheduler is asked for its workers only where it matters to which a task goes.
        placed = runtime.client is not None and self.state_bytes >= _TRAVELS_LIGHT
        threads = threads_of_workers(runtime.client) if placed else {}
        slots = [worker for worker in sorted(threads) for _ in range(threads[worker])]

        def near(leaf: int) -> Any:
            if not slots:
                return nullcontext()
            import dask

            # What is kept of a run that ended early may follow the last leaf.
            worker = slots[min(leaf, len(missing) - 1) * len(slots) // max(len(missing), 1)]
            return dask.annotate(workers=[worker], allow_other_workers=True)

        def node(leaf: Leaf) -> _Node:
            first = len(leaves)
            with near(first):
                task = run(shared, leaf.at, *next(parts), dask_key_name=leaf.key)
            leaves.append((task, leaf.amount))
            return task, first

        def combined(level: list[_Node]) -> list[_Node]:
            # Always in the order of the rows: sums depend on it.
            while len(level) > 1:
                nodes = [level[i : i + self.fan_in] for i in range(0, len(level), self.fan_in)]
                level = []
                for some in nodes:
                    first = some[0][1]
                    with near(first):
                        level.append((combine(shared, *(task for task, _ in some)), first))
            return level

        tops: list[_Node] = []
        for number, shard in enumerate(self.shards):
            if shards is not None and number in there:
                tops.append((as_task(shards.load)(number), len(leaves)))
                continue
            ((top, first),) = combined(list(map(node, shard)))
            if shards is not None:
                with near(first):
                    top = as_task(shards.write)(number, top)
            tops.append((top, first))
        return leaves, [top for top, _ in (combined(tops) if self.fan_in > 1 else tops)]


def run_leaf(work: Work, at: Any, *parts: NDArray[Any]) -> Partial[Any]:
    """The partial result of a leaf, given the blocks that no task reads by itself."""
    # A worker that sees another folder would write where nobody looks.
    if work.shards is not None:
        work.shards.check()
    work.budget.look()
    began = time.perf_counter()
    with np.errstate(over="ignore", invalid="ignore"):  # what comes of it is refused in words
        state = work.run(at, *parts)
    work.budget.look()
    return Partial(state, time.perf_counter() - began)


def _combine(work: Work, first: Partial[Any], *others: Partial[Any]) -> Partial[Any]:
    work.budget.look()
    for other in others:
        state = work.combine(first.state, other.state)
        first = Partial(state, first.seconds + other.seconds)
    return first


# --- passes over the data


def _reduce_blocks(
    reduction: Pass[State],
    sources: tuple[Source | None, ...],
    finite: tuple[bool, ...],
    budget: Budget,
    spans: Spans,
    *parts: NDArray[Any],
) -> State:
    """Read the blocks of a leaf, or take them as they come, and reduce them.

    A source is None where its blocks travel to the task, in the order of the sources.
    """
    numbers = [number for number, source in enumerate(sources) if source is None]
    given, blocks, groups = iter(parts), dict[Span, Block](), reduction.groups
    for start, stop in dict.fromkeys(spans):
        # Arrays may arrive unaligned, and NumPy would sum those in another order.
        travelled = {number: np.require(next(given), requirements="A") for number in numbers}
        ranges: Ranges = ((start, stop),)
        if groups is not None:
            ranges, places = groups.arrange(start, stop)
        # Before the read, so that the error comes instead of the kill of the worker.
        budget.look(read_bytes(sources, ranges))
        values = read_block(sources, ranges, travelled, finite)
        blocks[start, stop] = (
            RowBlock(start, values)
            if groups is None
            else GroupBlock(start, groups, tuple(x[places] for x in values))
        )
    return reduction.chunk(*(blocks[span] for span in spans))


def tree_of(
    reduction: Pass[Any],
    sources: Sequence[Source],
    plan: PassPlan,
    runtime: Runtime,
    finite: tuple[bool, ...],
) -> Tree:
    """The leaves of a pass, one a block or a pair of them, and the tree that combines them."""
    budget, prefix = runtime.budget, f"{plan.name.replace(' ', '-')}-{uuid.uuid4().hex}"
    ways = zip(sources, plan.ways, strict=True)
    shared = tuple(source if way == "read" else None for source, way in ways)
    run = partial(_reduce_blocks, reduction, shared, finite, budget)
    rows = dict(zip(pairwise(plan.bounds), plan.block_rows.tolist(), strict=True))
    unit = "rows" if plan.groups is None else "groups of rows"
    leaves = []
    for spans in itertools.combinations_with_replacement(rows, 2) if plan.pairs else zip(rows):
        # Of a block with itself every pair counts once, and every row with itself.
        again, sizes = spans[1:] == spans[:1], [rows[span] for span in spans]
        amount = math.comb(sizes[0] + 1, 2) if again else math.prod(sizes)
        # By the rows in the key an error tells at which rows workers died.
        told = " and ".join(f"{start} to {stop - 1}" for start, stop in dict.fromkeys(spans))
        leaves.append(Leaf(spans, amount, f"{prefix}-{unit} {told}"))
    return Tree(
        Work(run, budget, reduction.combine),
        leaves,
        plan.fan_in,
        plan.bytes_to_driver,
        partial(_travelling, sources, plan, runtime) if None in shared else None,
    )


# --- blocks that tasks do not read by themselves: computed by a graph, cut from chunks, or sent


def _travelling(
    sources: Sequence[Source], plan: PassPlan, runtime: Runtime, leaves: list[Leaf]
) -> list[list[Any]]:
    """For every leaf the blocks that must travel to it, in the order of their sources."""
    spans = sorted({span for leaf in leaves for span in leaf.at})
    ranges = [plan.ranges(*span) for span in spans]
    columns: dict[int, list[Any]] = {}
    # Columns of one array share the tasks that read its chunks.
    made = [at for at in together(sources) if spans and plan.ways[at[0]] in MADE]
    # Bounds of all ranges cut the rows, so that every range is made of whole pieces. Rows of groups
    # lie in as many ranges as there are rows: they are looked at where needed alone.
    bounds = list(plan.bounds)
    if made and plan.groups is not None:
        bounds = edges([plan.ranges(*span) for span in pairwise(plan.bounds)], plan.n)
    number_of, join = {row: number for number, row in enumerate(bounds)}, as_task(np.concatenate)

    def joined(pieces: Sequence[Sequence[Any]], block: Ranges) -> Any:
        cuts = (pieces[number_of[start] : number_of[stop]] for start, stop in block)
        parts = [piece for some in cuts for between in some for piece in between]
        return parts[0] if len(parts) == 1 else join(parts)

    for numbers in made:
        same = [sources[number] for number in numbers]
        if plan.ways[numbers[0]] == "graph":
            pieces = iter([[[block] for block in source.lazy(bounds)] for source in same])
        else:
            pieces = _cut_chunks(same, plan, bounds, runtime.budget)
        for number, some in zip(numbers, pieces, strict=True):
            columns[number] = [joined(some, block) for block in ranges]
    if plan.pairs:  # in one graph with all pairs that share them, partial results would pile up
        begun = iter(begin([block for column in columns.values() for block in column], runtime))
        columns = {number: list(itertools.islice(begun, len(spans))) for number in columns}
    for number, source in enumerate(sources):
        if plan.ways[number] == "sent":
            columns[number] = [ship(runtime.client, read_ranges(source, some)) for some in ranges]
    blocks = {span: [columns[m][i] for m in sorted(columns)] for i, span in enumerate(spans)}
    return [[part for span in dict.fromkeys(leaf.at) for part in blocks[span]] for leaf in leaves]


def _cut_chunks(
    sources: Sequence[Source], plan: PassPlan, bounds: Sequence[int], budget: Budget
) -> Iterator[list[list[Any]]]:
    """Delayed pieces of sources of one array between bounds, from chunks that are read once."""
    # The whole array is read, and every variable is cut from its rows.
    whole = sources[0].whole if is_cut(sources[0]) else sources[0]
    n, step = plan.n, cut_rows(whole, plan)
    read = as_task(partial(_read_chunks, whole, budget))
    # A chunk is read once, from that of the first row on, and forgotten when its pieces are cut.
    touched = range(bounds[0] // step * step, bounds[-1], step)
    chunks = {at: read(at, min(at + step, n)) for at in touched}
    for source in sources:
        cut = as_task(partial(_cut_chunk, source))
        yield [
            [
                cut(chunks[at], max(start - at, 0), min(stop - at, step))
                for at in range(start // step * step, stop, step)
            ]
            for start, stop in pairwise(bounds)
        ]


def _read_chunks(source: Source, budget: Budget, start: int, stop: int) -> NDArray[Any]:
    budget.look(read_bytes([source], [(start, stop)]))
    return source.read(start, stop)


def _cut_chunk(source: Any, chunk: NDArray[Any], start: int, stop: int) -> NDArray[Any]:
    """Rows of a chunk, of a variable that is cut from it: a copy, to forget the chunk."""
    rows = chunk[start:stop]
    return (source.cut(rows) if is_cut(source) else rows).copy()


def edges(ranges: Sequence[Ranges], n: int) -> list[int]:
    """Bounds that cut all rows wherever one of the ranges starts or ends."""
    return sorted({0, n, *(row for some in ranges for span in some for row in span)})


# --- rows by number


def take_rows(
    sources: Sequence[Source],
    rows: Sequence[Indices],
    runtime: Runtime,
    checkpoint: Checkpoint | None = None,
) -> list[NDArray[Any]]:
    """Rows by number, one increasing array of numbers a source.

    A few rows of large data lie in as many stored chunks, each of which is read whole: on a
    cluster every worker reads some of them.
    """
    groups = together(sources)
    graphs = [m for m, *_ in groups if sources[m].place == "graph"]
    stored = [at for at in groups if at[0] not in graphs]
    taken: dict[int, NDArray[Any]] = {}
    with explained_failures(checkpoint):
        for at in stored:
            # Refused before it is read, where it would take more than the budget.
            runtime.budget.look(sources[at[0]].take_bytes)
            same, wanted = [sources[m] for m in at], [rows[m] for m in at]
            tasks = _take_tasks(same, wanted, runtime)
            pieces = computed(tasks, runtime) or [take_block(same, wanted)]
            taken.update(zip(at, _joined(pieces), strict=True))
        values = computed([sources[m].take(rows[m]) for m in graphs], runtime)
        taken.update(zip(graphs, values, strict=True))
    return [taken[m] for m in range(len(sources))]


def _take_tasks(sources: Sequence[Source], rows: Sequence[Indices], runtime: Runtime) -> list[Any]:
    """Tasks that take parts of the rows of sources of one stored array, where there is a client."""
    first = sources[0]
    if runtime.client is None or first.place != "storage" or first.chunk_rows is None:
        return []
    step = first.chunk_rows
    # Chunks that hold none of the rows are not opened.
    chunks = np.unique(np.concatenate(rows) // step)
    count = min(len(chunks), _TASKS_OF_A_THREAD * runtime.threads)
    # Pickled here with its arrays inside, see `unpacked`.
    take, reader = as_task(_rows_of_chunks), pickled(tuple(sources))
    by_chunk = [
        [x[slice(*np.searchsorted(x, (start, start + step)))] for x in rows]
        for start in chunks * step
    ]
    bounds = pairwise(len(chunks) * i // count for i in range(count + 1))
    return [take(reader, by_chunk[a:b]) for a, b in bounds]


def _rows_of_chunks(reader: bytes, chunks: Sequence[Sequence[Indices]]) -> list[NDArray[Any]]:
    """Rows of some chunks, of which one is held at a time."""
    sources: tuple[Source, ...] = pickle.loads(reader)
    return _joined([take_block(sources, rows) for rows in chunks])


def _joined(parts: Sequence[Sequence[NDArray[Any]]]) -> list[NDArray[Any]]:
    """The parts of every source, one after another."""
    return [np.concatenate(pieces) for pieces in zip(*parts, strict=True)]


# --- rows of results, which are as large as the data


@dataclass(frozen=True, eq=False)
class LazyRows:
    """Arrays that are aligned with the rows of the data, computed block by block when asked for.

    Parameters
    ----------
    reduction : Pass
        Its partial results are tuples of arrays with a row for each of the block's.
    sources : tuple of Source
        The variables.
    plan : PassPlan
        The row blocks.
    runtime : Runtime
        Where `blocks` computes them.
    listener : callable
        Is told of the progress of `blocks`.
    """

    reduction: Pass[Arrays]
    sources: tuple[Source, ...]
    plan: PassPlan
    runtime: Runtime
    listener: Listener

    @cached_property
    def _tasks(self) -> list[Any]:
        """A task for every block, made when the first is needed."""
        finite = (True,) * len(self.sources)
        tree = tree_of(self.reduction, self.sources, self.plan, self.runtime, finite)
        work, rows = held(tree.work, self.runtime), as_task(_rows_of_leaf)
        parts = tree.parts(tree.leaves) if tree.parts else [[]] * len(tree.leaves)
        return [rows(work, leaf.at, *some) for leaf, some in zip(tree.leaves, parts, strict=True)]

    def array(self, number: int, width: int | None, dtype: DTypeLike) -> Any:
        """One of the arrays as a Dask array, whose chunks are the row blocks.

        Parameters
        ----------
        number : int
            Which of the tuple.
        width : int or None
            Its columns; None for an array of one dimension.
        dtype : dtype
            Precision of its values.

        Returns
        -------
        dask.array.Array, shape (n,) or (n, width)
        """
        import dask.array as da  # with pandas and Xarray, slow to import

        tail = () if width is None else (width,)
        pieces = [
            da.from_delayed(task[number], (stop - start, *tail), dtype)
            for task, (start, stop) in zip(self._tasks, pairwise(self.plan.bounds), strict=True)
        ]
        return da.concatenate(pieces)

    def data(self, step: int) -> list[NDArray[Any]]:
        """Rows at a distance of `step` of the variables, arrays of shapes (k, d_m).

        Raises
        ------
        DataError
            A source cannot be read.
        """
        # The rows are taken, not the blocks computed: a picture needs few of them.
        numbers = np.arange(0, self.plan.bounds[-1], step)
        return take_rows(self.sources, [numbers] * len(self.sources), self.runtime)

    def blocks(self) -> Iterator[Arrays]:
        """The arrays block by block, in order.

        As many are held as there are threads, or as are cut from one stored chunk.

        Raises
        ------
        DataError
            A source cannot be read.
        """
        import dask

        plan, sizes = self.plan, self.plan.block_rows.tolist()

        def tell(amount: int) -> None:
            self.listener(BlockFinished(plan.name, amount))

        began = time.perf_counter()
        self.listener(plan.started)
        # Blocks of a chunk that is cut are computed together, or it were read again.
        ways = zip(self.sources, plan.ways, strict=True)
        rows = max((source.chunk_rows or 1 for source, way in ways if way == "cut"), default=1)
        ends = enumerate(plan.bounds[1:], 1)
        together = next((number for number, end in ends if end % rows == 0), plan.blocks)
        step = together * -(-self.runtime.threads // together)
        for first in range(0, plan.blocks, step):
            # Each task of a Dask array knows the graph of all blocks: only its own is sent.
            tasks = list(dask.optimize(*self._tasks[first : first + step]))
            leaves = list(zip(tasks, sizes[first : first + step], strict=True))
            with explained_failures():
                values = compute(leaves, tasks, self.runtime, tell)
            yield from values
        seconds = time.perf_counter() - began
        self.listener(plan.started.finished(seconds, seconds))


def _rows_of_leaf(work: Work, at: Any, *parts: NDArray[Any]) -> Any:
    return run_leaf(work, at, *parts).state
