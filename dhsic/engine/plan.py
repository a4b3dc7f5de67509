"""List the steps of a run with their memory and time, before the run.

Bytes are upper bounds from shapes of blocks, of states and of other arrays of a task. Seconds come
from timing one block of every pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, update_wrapper
from inspect import signature, unwrap
from time import perf_counter
from typing import Any, Final, Literal, ParamSpec

import numpy as np
from numpy.typing import NDArray

from dhsic._validation import named_arguments
from dhsic.engine.events import PassStarted, RunStarted, Unit
from dhsic.engine.passes import (
    BLOCK_BYTES,
    GROUPS,
    PAIRS,
    Pass,
    Ranges,
    RowGroups,
    Source,
    block_bounds,
    cut_bytes,
    group_bounds,
    row_bytes,
    spans_of,
    together,
)
from dhsic.engine.runtime import Runtime
from dhsic.engine.units import format_bytes, format_count, format_seconds
from dhsic.errors import MemoryBudgetError
from dhsic.results import TRANSIENT, BarResult

_OF_WORKER = 32 * 2**20  # what a worker of distributed was measured to take besides
_OF_SCHEDULER = 48 * 2**20  # what a client and its scheduler were measured to take besides
_OF_TASK = 16 * 2**10  # in the scheduler, the client and the messages between them
_LONG = 600.0  # seconds, beyond which another machine is worth it
_LARGE_STATE = 2**24  # bytes of a partial result, of which few are to wait for others
_PIECE = 1500  # bytes of Python objects of a task that cuts a piece of a chunk
_FEWEST_READS = 32  # of chunks that are cut, where there are as many, to share them out
_MOST_DECODED = 1.2  # times the rows of the data; beyond, every chunk is read once and cut
_COPIES_SENT = 4  # pickled, cut into pieces, in the messages, and at the scheduler
_FAN_IN = 4
_KERNELS = 8  # that are listed
_NAMES = 50
_OF_PASSES = "blocks", "rows_per_block", "tasks", "bytes_read", "bytes_to_driver"

Way = Literal["read", "cut", "graph", "sent"]
MADE: Final = "cut", "graph"
"""Ways of blocks that are made by tasks of their own."""


@dataclass(frozen=True)
class DriverStep:
    """A step that runs on the driver alone, such as a factorisation.

    Parameters
    ----------
    name : str
        Name of the step.
    working_bytes : int
        Bytes it needs while it runs.
    held_bytes : int
        Bytes of its result, which stay until the end.
    """

    name: str
    working_bytes: int
    held_bytes: int = 0


@dataclass(frozen=True)
class PassPlan:
    """One pass over the data.

    Parameters
    ----------
    name : str
        Name of its result.
    n : int
        Rows of the data.
    bounds : tuple of int
        Bounds of the row blocks; numbers of groups, where there are groups.
    rows_per_block : int
        Rows of the largest block.
    bytes_read : int
        Bytes read from the data, uncompressed; whole chunks where they are stored.
    worker_bytes : int
        Upper bound of the peak bytes of one worker, without the interpreter and data that it
        already holds.
    bytes_to_driver : int
        Bytes of the result.
    pairs : bool
        Whether it runs over pairs of row blocks.
    sent_bytes : int
        Bytes of arrays in this process that are sent to workers.
    ways : tuple of {"read", "cut", "graph", "sent"}
        How the blocks of every variable come to their tasks: read there, cut from chunks that are
        read once each, computed by a Dask graph, or sent from this process.
    groups : RowGroups or None
        Where the rows of a block lie far apart.
    """

    name: str
    n: int
    bounds: tuple[int, ...]
    rows_per_block: int
    bytes_read: int
    worker_bytes: int
    bytes_to_driver: int
    pairs: bool = False
    sent_bytes: int = 0
    ways: tuple[Way, ...] = ()
    groups: RowGroups | None = field(default=None, metadata=TRANSIENT)

    @property
    def blocks(self) -> int:
        """Number of row blocks."""
        return len(self.bounds) - 1

    @cached_property
    def runs(self) -> NDArray[np.intp]:
        """Where the ranges of rows of every block start and stop, shape (2, blocks, ranges)."""
        alone = np.array([self.bounds[:-1], self.bounds[1:]])[..., None]
        return alone if self.groups is None else _runs(self.groups, self.bounds)

    def ranges(self, start: int, stop: int) -> Ranges:
        """Ranges of rows of the block between two bounds."""
        return ((start, stop),) if self.groups is None else self.groups.ranges(start, stop)

    @cached_property
    def block_rows(self) -> NDArray[np.intp]:
        """Rows of every block, shape (blocks,)."""
        starts, stops = self.runs
        counts: NDArray[np.intp] = (stops - starts).sum(axis=1)
        return counts

    @property
    def leaves(self) -> int:
        """Number of tasks that see the data: one a row block, or one a pair of them."""
        return math.comb(self.blocks + 1, 2) if self.pairs else self.blocks

    @property
    def unit(self) -> Unit:
        """The unit that progress counts."""
        return "pairs of rows" if self.pairs else "rows"

    @property
    def amount(self) -> int:
        """How many of them there are."""
        return math.comb(self.n + 1, 2) if self.pairs else self.n

    @property
    def started(self) -> PassStarted:
        """The event that tells listeners of its start."""
        return PassStarted(self.name, self.blocks, self.amount, self.unit, self.bytes_read)

    @property
    def tasks(self) -> int:
        """Tasks of the graph: one a block or pair, and those that combine them."""
        tasks = level = self.leaves
        while level > 1:
            level = -(-level // self.fan_in)
            tasks += level
        return tasks

    @property
    def fan_in(self) -> int:
        """Partial results that a task combines."""
        # Large states wait in pairs: a wider tree would hold more of them in memory at once.
        return 2 if self.bytes_to_driver >= _LARGE_STATE else _FAN_IN


@lru_cache(maxsize=4)
def _runs(groups: RowGroups, bounds: tuple[int, ...]) -> NDArray[np.intp]:
    """Runs of groups between bounds: a hundredth of a second for some thousand, asked for often."""
    runs = groups.runs(bounds)
    runs.setflags(write=False)  # all plans share them
    return runs


@dataclass(frozen=True)
class Times:
    """Seconds of a run, from one block of each of its passes.

    Parameters
    ----------
    steps : mapping of str to float
        Of every step and pass by name, with all threads.
    processor : float
        Of one thread, all tasks together.
    blocks : mapping of str to int
        Rows, or pairs of them, of the blocks that were timed, or replicates, by name.
    """

    steps: Mapping[str, float]
    processor: float
    blocks: Mapping[str, int]

    @property
    def elapsed(self) -> float:
        """Seconds from beginning to end, where all threads are free."""
        return sum(self.steps.values())


@dataclass(frozen=True, repr=False)
class Plan(BarResult):
    """The steps of a run, with their memory and time.

    Parameters
    ----------
    n : int
        Rows of the data.
    variables : tuple of str
        Names of the variables.
    n_landmarks : int or None
        Landmarks before pruning.
    runtime : Runtime
        Threads or cluster of the run.
    steps : tuple of DriverStep or PassPlan
        The steps in order.
    baseline_bytes : int
        Bytes of a process that has loaded its libraries and no data.
    remedy : str
        Advice if the plan needs too much memory.
    would_fit : callable
        Returns a text about the largest numbers that would fit, for the end of the advice.
    times : Times, optional
        Seconds of the run.
    pilot : callable, optional
        Times a block of every pass, when seconds are first requested.
    kept_bytes : int, optional
        Bytes of replicates, which are held during all steps.
    closing_bytes : int, optional
        Bytes of the computation of results from replicates, after the last step.
    possible : tuple of PassPlan, optional
        Passes that run only if the drawn rows of a column are all equal, to find other rows, or if
        a value is not finite, to find its row.
    estimator, null : str, optional
        Names of the estimator and the null.
    kernels : tuple of str, optional
        The kernels that are fitted, without repeats.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x = np.zeros((1_000_000, 2))
    >>> plan = dhsic.plan(x, x[:, :1], threads=1, memory="2GiB")
    >>> plan.fits, [step.name for step in plan.passes]
    (True, ['shifts'])
    """

    n: int
    variables: tuple[str, ...]
    n_landmarks: int | None
    runtime: Runtime
    steps: tuple[DriverStep | PassPlan, ...]
    baseline_bytes: int
    remedy: str
    would_fit: Callable[[], str] = field(default=str, compare=False, metadata=TRANSIENT)
    times: Times | None = None
    pilot: Callable[[], Times | None] | None = field(
        default=None, compare=False, metadata=TRANSIENT
    )
    kept_bytes: int = 0
    closing_bytes: int = 0
    possible: tuple[PassPlan, ...] = ()
    estimator: str = ""
    null: str = ""
    kernels: tuple[str, ...] = ()

    @property
    def passes(self) -> tuple[PassPlan, ...]:
        """The passes over the data."""
        return tuple(step for step in self.steps if isinstance(step, PassPlan))

    @property
    def allowed_passes(self) -> tuple[PassPlan, ...]:
        """The passes that run, and those that run only where the data ask for them."""
        return (*self.passes, *self.possible)

    @property
    def started(self) -> RunStarted:
        """The event that tells listeners of its start."""
        return RunStarted(
            self.n,
            self.variables,
            tuple(step.started for step in self.passes),
            self.runtime.workers,
            self.runtime.threads,
            self.peak_worker_bytes,
            self.peak_driver_bytes,
        )

    @cached_property
    def peak_driver_bytes(self) -> int:
        """Predicted peak bytes of this process, without the data that its user holds."""
        peak, held = self.closing_bytes, 0
        for step in (*self.possible, *self.steps):
            # A step works beside what those before it have left.
            peak = max(peak, held + self._driver_bytes(step))
            held += step.held_bytes if isinstance(step, DriverStep) else 0
        if self.runtime.client is not None:
            # The scheduler of a local cluster is in this process, with what it knows of each task.
            tasks = max((step.tasks for step in self.passes), default=0)
            peak += _OF_SCHEDULER + _OF_TASK * tasks
        return self.baseline_bytes + self.kept_bytes + peak

    @cached_property
    def peak_worker_bytes(self) -> int:
        """Predicted peak bytes of one worker process, or of this process with threads."""
        if self.runtime.client is None:
            return self.peak_driver_bytes
        # Passes run one after another, so that the largest decides.
        largest = max((step.worker_bytes for step in self.allowed_passes), default=0)
        return self.baseline_bytes + _OF_WORKER + largest

    @property
    def peak_bytes(self) -> int:
        """Predicted peak bytes of the process that needs most."""
        return max(self.peak_worker_bytes, self.peak_driver_bytes)

    @property
    def fits(self) -> bool:
        """Whether the plan needs at most the allowed memory."""
        return self.peak_bytes <= self.runtime.memory

    @cached_property
    def timed(self) -> Times | None:
        """Seconds of the run; None if a block cannot be timed."""
        times = self.times
        if times is None and self.pilot is not None and self.fits:
            times = self.pilot()
        # A scan that ends the run, of values that are all equal, tells nothing of other passes.
        if times is None or times.blocks.keys() <= {step.name for step in self.possible}:
            return None
        return times

    @property
    def processor_seconds(self) -> float | None:
        """Predicted processor seconds of all tasks together; None without a timing."""
        return None if self.timed is None else self.timed.processor

    @property
    def seconds(self) -> float | None:
        """Predicted elapsed seconds if all threads are free; None without a timing."""
        return None if self.timed is None else self.timed.elapsed

    def _driver_bytes(self, step: DriverStep | PassPlan) -> int:
        if isinstance(step, DriverStep):
            return step.working_bytes
        if self.runtime.client is None:
            return step.worker_bytes
        return step.bytes_to_driver + _COPIES_SENT * step.sent_bytes

    def check(self) -> Plan:
        """Return the plan, or refuse it if it needs more than the allowed memory.

        Raises
        ------
        MemoryBudgetError
            Names the step, both amounts and the options to change.
        """
        needed, allowed = self.peak_bytes, self.runtime.memory
        if self.fits:
            return self
        # The process that needs most names the step to blame.
        if self.peak_driver_bytes < needed:
            amount, name = max((step.worker_bytes, step.name) for step in self.allowed_passes)
        else:
            steps = (*self.steps, *self.possible)
            amount, name = max((self._driver_bytes(step), step.name) for step in steps)
        replicates = f", {format_bytes(self.kept_bytes)} the replicates"
        kept = replicates if self.kept_bytes > needed / 8 else ""
        msg = (
            f"the plan needs {format_bytes(needed)} in one process and {format_bytes(allowed)} "
            f"are allowed; {format_bytes(self.baseline_bytes)} of it are the libraries"
            f"{kept}, and the largest step is {name!r} with {format_bytes(amount)}: "
            f"{self.remedy}, or allow more memory{self.would_fit()}"
        )
        raise MemoryBudgetError(msg)

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain values, with its seconds; a client is told as a text."""
        # A client cannot be written; that there was one is told.
        client = None if self.runtime.client is None else "a client"
        runtime = replace(self.runtime, client=client)
        return super(Plan, replace(self, runtime=runtime, times=self.timed)).to_dict()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_json, (self.to_json(),)  # a client stays where it is

    def summary(self) -> list[tuple[str, str]]:
        """Label and text of every line above the steps."""
        more = ", ..." if len(self.kernels) > _KERNELS else ""
        threads = format_count(self.runtime.threads, "thread")
        workers = format_count(self.runtime.workers, "worker")
        here = self.runtime.client is None
        place = f"{threads} of this process" if here else f"{workers} with {threads} in all"
        peaks = (self.peak_worker_bytes, self.peak_driver_bytes, self.runtime.memory)
        worker, driver, allowed = map(format_bytes, peaks)
        names = ", ".join(step.name for step in self.possible)
        others = ", ..." if len(self.variables) > _NAMES else ""
        told = [
            ("rows", f"{self.n:,} of {', '.join(self.variables[:_NAMES])}{others}"),
            ("estimator", self.estimator),
            ("null", self.null),
            ("kernels", ", ".join(self.kernels[:_KERNELS]) + more),
            ("landmarks", f"{self.n_landmarks:,} before pruning" if self.n_landmarks else ""),
            ("runs on", place),
            ("peak memory", f"of a worker {worker}, of the driver {driver}, allowed {allowed}"),
            ("time", "; ".join(self._times_text)),
            ("possible", f"{names}, only where values are rare or not finite" if names else ""),
        ]
        return [(label, text) for label, text in told if text]

    def records(self) -> list[dict[str, Any]]:
        """Every step with its memory in a process and its seconds."""
        names = [step.name for step in self.steps]
        seconds = {} if self.timed is None else self.timed.steps
        # Passes of one name share their seconds.
        shares = {name: seconds[name] / names.count(name) for name in names if name in seconds}
        return [
            {
                "step": step.name,
                "where": "pass" if isinstance(step, PassPlan) else "driver",
                **{name: getattr(step, name, None) for name in _OF_PASSES},
                "bytes": step.worker_bytes if isinstance(step, PassPlan) else step.working_bytes,
                "seconds": shares.get(step.name),
            }
            for step in self.steps
        ]

    def _bars(self) -> tuple[Sequence[str], Sequence[float], str]:
        rows = self.records()
        return [row["step"] for row in rows], [row["bytes"] for row in rows], "predicted bytes"

    def _brief(self) -> list[str]:
        peak = f"{format_bytes(self.peak_bytes)} of {format_bytes(self.runtime.memory)}"
        passes = format_count(len(self.passes), "pass")
        return [f"n = {self.n:,}", passes, f"{peak} in a process", ", ".join(self.variables)]

    @property
    def _times_text(self) -> list[str]:
        """The seconds, and what they are from."""
        if self.timed is None:
            return ["seconds are not known: no block of these data was timed"]
        seconds, threads = self.timed.processor, self.runtime.threads
        units = {step.name: step.unit for step in self.allowed_passes}
        timed = self.timed.blocks.items()
        blocks = (f"{n:,} {units.get(name, 'replicates')} of {name!r}" for name, n in timed)
        lines = [f"about {format_seconds(seconds)} of one thread, from timing {', '.join(blocks)}"]
        if threads > 1:
            lines.append(f"about {format_seconds(self.timed.elapsed)} of {threads:,} threads")
        if seconds > _LONG * threads:
            lines.append(f"{math.ceil(seconds / _LONG):,} threads would take ten minutes")
        return lines


def plan_pass(reduction: Pass[Any], sources: Sequence[Source], runtime: Runtime) -> PassPlan:
    """Choose the blocks of a pass and predict its memory."""
    chunk_rows = max((source.chunk_rows or 0 for source in sources), default=0)
    n, groups, row = sources[0].shape[0], reduction.groups, row_bytes(sources)
    if groups is None:
        bounds = block_bounds(n, row, chunk_rows, reduction.row_multiple)
    elif reduction.one_block:
        bounds = [0, groups.count]
    else:
        cost = reduction.footprint(groups.size)
        state = cost.state - cost.apart
        grain = PAIRS if reduction.pairs else GROUPS
        bounds = group_bounds(groups.n, groups.count, row, chunk_rows, state, grain)
    plan = PassPlan(reduction.name, n, tuple(bounds), 0, 0, 0, 0, reduction.pairs, groups=groups)
    # Bytes need the blocks, and the largest of these the bounds.
    cost = reduction.footprint(rows := int(plan.block_rows.max()))
    remote = runtime.client is not None
    ways = tuple(_way_of(source, plan, remote) for source in sources)
    plan = replace(plan, rows_per_block=rows, bytes_to_driver=cost.state, ways=ways)
    # Arrays in memory are sent to the workers whole, and one of them may get it all, as it may of
    # what a graph computes where all pairs share it.
    pairs = list(zip(sources, ways, strict=True))
    sent = n * sum(source.row_bytes for source, way in pairs if way == "sent")
    shared = sum(cut_bytes(source) for source, way in pairs if plan.pairs and way in MADE)
    threads = min(runtime.worker_threads, plan.leaves)
    # Of the tree on every level one less than a task combines may wait, beside those that threads
    # have; two are on the way to the sum of more than two.
    waiting = (plan.fan_in - 1) * math.ceil(math.log(plan.leaves, plan.fan_in))
    states = min(threads + waiting, plan.leaves) * cost.state
    adding = (min(plan.leaves, plan.fan_in, 3) - 1) * cost.state
    working = threads * max(_task_bytes(sources, plan, cost.scratch), adding)
    cutting = _cutting_bytes(sources, plan, threads)
    passing = cost.payload + sent + n * shared + cutting + working + states
    # Rows for the sample of an estimator are taken by the same workers, at another time.
    taking = runtime.worker_threads * max(map(_taken_bytes, sources)) if remote else 0
    read = sum(_bytes_read(at[0], sources[at[0]], plan) for at in together(sources))
    return replace(plan, bytes_read=read, worker_bytes=max(passing, taking), sent_bytes=sent)


def _way_of(source: Source, plan: PassPlan, remote: bool) -> Way:
    """How the blocks of a variable come to their tasks."""
    if source.place == "graph":
        return "graph"
    if remote and source.place == "memory":
        return "sent"
    chunked = source.chunk_rows is not None
    # Each chunk is read once where blocks would decode many of them more than once.
    again = chunked and _decoded_rows(source, plan).sum() > _MOST_DECODED * plan.n
    return "cut" if again else "read"


def cut_rows(source: Source, plan: PassPlan) -> int:
    """Rows of the chunks that one task reads and others cut.

    A scheduler takes a millisecond or two for each of the tasks, as long as it takes to decode a
    small chunk: for groups, to which rows come from everywhere, such are read several at a time.
    """
    chunk_rows = source.chunk_rows or plan.n
    most = min(BLOCK_BYTES // source.row_bytes, plan.n // _FEWEST_READS)
    return chunk_rows if plan.groups is None else chunk_rows * max(1, most // chunk_rows)


def _task_bytes(sources: Sequence[Source], plan: PassPlan, scratch: int) -> int:
    """Most bytes that one task has of its own: while its blocks are read, or while it works."""
    rows, blocks = plan.rows_per_block, min(2, plan.blocks) if plan.pairs else 1
    own: list[Source] = []
    given = 0
    for source, way in zip(sources, plan.ways, strict=True):
        own += [] if way in MADE else [source]
        if way in MADE and not plan.pairs:  # or they are there for all pairs
            given += blocks * rows * cut_bytes(source)
        if way == "graph":  # the chunks that a block is made of
            decoded = blocks * int(_decoded_rows(source, plan).max())
            given += source.decode_bytes(min(decoded, plan.n))
    # As it is read, and once more where ranges are joined, cut or put in the order of the groups.
    block = reading = rows * row_bytes(own)
    if stored := [source for source in own if source.chunk_rows is not None]:
        touched = sum((_decoded_rows(s, plan) * s.row_bytes for s in stored), np.zeros(plan.blocks))
        at = int(touched.argmax())
        reading += read_bytes(stored, plan.ranges(*plan.bounds[at : at + 2]))
    arranged = rows * sum(map(cut_bytes, sources)) if plan.groups is not None else 0
    held = block + arranged
    return given + (blocks - 1) * held + max(reading, held + scratch)


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
            step = first.chunk_rows
            spans = dict.fromkeys(spans_of(ranges, step))
            rows = sum(stop - start for start, stop in spans)
            touched = max(-(-stop // step) * step - start // step * step for start, stop in spans)
            most = max(most, held + rows * first.row_bytes + first.decode_bytes(touched))
            held += rows * first.row_bytes
    return most


def _cutting_bytes(sources: Sequence[Source], plan: PassPlan, threads: int) -> int:
    """Most bytes of chunks that are cut for blocks: while they are read, and while they wait."""
    total = 0
    for number, *_ in together(sources):
        if plan.ways[number] == "cut":
            source, step = sources[number], cut_rows(sources[number], plan)
            rows = max(min(step, plan.n), 2 * plan.rows_per_block)
            reading = source.decode_bytes(step) + rows * source.row_bytes
            total += min(-(-plan.n // step), threads) * reading
            # All blocks are cut before pairs of them.
            total += 0 if plan.pairs else _open_rows(source, plan, threads) * source.row_bytes
    return total + _PIECE * int(plan.runs[0].size) * plan.ways.count("cut")


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


def _taken_bytes(source: Source) -> int:
    """Bytes of a task that takes a few rows of one stored chunk after another."""
    if source.place != "storage":
        return 0
    rows = source.chunk_rows or 0
    read = source.decode_bytes(rows) + min(rows, source.shape[0]) * source.row_bytes
    return min(read, source.take_bytes)


def _bytes_read(number: int, source: Source, plan: PassPlan) -> int:
    """Every block is in as many pairs as there are blocks; a graph computes a chunk once."""
    if plan.ways[number] in MADE:
        return plan.n * source.row_bytes
    stored = source.place == "storage"
    rows = int(_decoded_rows(source, plan).sum()) if stored else plan.n
    return (plan.blocks if plan.pairs else 1) * rows * source.row_bytes


def _decoded_rows(source: Source, plan: PassPlan) -> NDArray[np.int64]:
    """Rows of the stored chunks that every block touches, each of them once, shape (blocks,)."""
    starts, stops = (np.sort(ends, axis=1) for ends in plan.runs)  # of ranges that do not overlap
    step = source.chunk_rows or 1
    ends = np.minimum(-(-stops // step) * step, source.shape[0])
    ends = np.where(starts < stops, ends, 0)
    # How far the chunks of earlier ranges reach: one that two ranges share counts once.
    before = np.maximum.accumulate(np.pad(ends, ((0, 0), (1, 0)))[:, :-1], axis=1)
    firsts = np.maximum(starts // step * step, before)
    return np.asarray(np.maximum(ends - firsts, 0).sum(axis=1), np.int64)


@dataclass
class Pilot:
    """Clock of a run that computes one block of every pass, and one range of replicates.

    Parameters
    ----------
    threads : int
        Threads that the whole run has.
    """

    threads: int
    steps: dict[str, float] = field(default_factory=dict)
    blocks: dict[str, int] = field(default_factory=dict)
    processor: float = 0.0
    _name: str = "open"
    _since: float = field(default_factory=perf_counter)

    def step(self, name: str) -> None:
        """End a step of the driver and begin another."""
        elapsed = perf_counter() - self._since
        self.add(self._name, elapsed, elapsed)
        self._name = name

    def block(self, plan: PassPlan, amount: int, seconds: float) -> None:
        """Count a pass by the seconds of a block of so many rows, or pairs of them."""
        whole = seconds * plan.amount / amount
        # A thread takes whole tasks, so that the last round may leave others idle.
        rounds = -(-plan.leaves // self.threads)
        self.add(plan.name, whole * rounds / plan.leaves, whole, amount)

    def times(self) -> Times | None:
        """Seconds of the run; None where no pass and no replicates were reached."""
        self.step("")
        return Times(self.steps, self.processor, self.blocks) if self.blocks else None

    def add(self, name: str, elapsed: float, processor: float, amount: int | None = None) -> None:
        """Count seconds, and of how many rows or replicates they are."""
        self.steps[name] = self.steps.get(name, 0.0) + elapsed
        self.processor += processor
        self._since = perf_counter()
        if amount is not None:
            self.blocks[name] = amount


Given = ParamSpec("Given")

_PLANS: ContextVar[bool] = ContextVar("plans", default=False)
_NOT_TAKEN = ("rng", "progress", "checkpoint")  # a plan draws, shows and keeps nothing


class _Begun(Exception):
    """A run that would begin."""


def end_if_planned(plan: Plan) -> None:
    """End a run that is only planned."""
    if _PLANS.get():
        raise _Begun(plan)


def plans(
    function: Callable[Given, object],
) -> Callable[[Callable[[], None]], Callable[Given, Plan]]:
    """Make the function that is decorated plan another one, whose arguments it takes.

    But those that say what is drawn, shown or kept.
    """

    def made(described: Callable[[], None]) -> Callable[Given, Plan]:
        run: Any = unwrap(function)  # without a bar

        def planned(*args: Given.args, **kwargs: Given.kwargs) -> Plan:
            before = _PLANS.set(True)
            try:
                run(*args, **{**kwargs, "rng": 0})
            except _Begun as begun:
                plan: Plan = begun.args[0]
                return plan
            finally:
                _PLANS.reset(before)
            msg = f"{described.__name__}: nothing was planned: please report this error"
            raise RuntimeError(msg)

        update_wrapper(planned, described)
        del planned.__wrapped__  # type: ignore[attr-defined]
        of = signature(function)
        taken = [one for one in of.parameters.values() if one.name not in _NOT_TAKEN]
        planned.__signature__ = of.replace(  # type: ignore[attr-defined]
            parameters=taken, return_annotation=Plan
        )
        # Whoever has the function finds its plan there, as commands do.
        vars(function)["planner"] = planner = named_arguments(planned)
        return planner

    return made
