"""The steps that would run, with their memory, before anything runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dhsic._text import printable
from dhsic.engine.events import PassStarted, RunStarted, Unit
from dhsic.engine.reduction import Ranges, RowGroups
from dhsic.engine.runtime import Runtime
from dhsic.engine.told import plan_lines, plan_records, plan_summary
from dhsic.engine.tree import combining_tasks, fan_in_of
from dhsic.engine.units import format_bytes, format_count
from dhsic.errors import MemoryBudgetError
from dhsic.results import TRANSIENT, BarResult

_OF_WORKER = 32 * 2**20  # what a worker of distributed was measured to take besides
_OF_SCHEDULER = 48 * 2**20  # what a client and its scheduler were measured to take besides
_OF_TASK = 16 * 2**10  # in the scheduler, the client and the messages between them
_COPIES_SENT = 4  # pickled, cut into pieces, in the messages, and at the scheduler


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
        Predicted peak bytes of one worker, besides the interpreter and what it already holds.
    bytes_to_driver : int
        Bytes of the result.
    pairs : bool
        Whether it runs over pairs of row blocks.
    sent_bytes : int
        Bytes of arrays in this process that are sent to workers.
    split : tuple of int
        Numbers of the stored sources whose chunks are read once each and cut for many blocks.
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
    split: tuple[int, ...] = ()
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

    def rows_of(self, start: int, stop: int) -> int:
        """Rows of the block between two bounds."""
        return self._rows[start, stop]

    @cached_property
    def _rows(self) -> dict[tuple[int, int], int]:
        """Rows of every block by its bounds, found at once: pairs of blocks ask many times."""
        return dict(zip(pairwise(self.bounds), self.block_rows.tolist(), strict=True))

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
    def blocks_per_task(self) -> int:
        """Row blocks that a task holds at a time."""
        return min(2, self.blocks) if self.pairs else 1

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
        return self.leaves + combining_tasks(self.leaves, self.fan_in)

    @property
    def fan_in(self) -> int:
        """Partial results that a task combines."""
        return fan_in_of(self.bytes_to_driver)


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
    """All that would run.

    Parameters
    ----------
    n : int
        Rows of the data.
    variables : tuple of str
        Their names.
    n_landmarks : int or None
        Landmarks before pruning.
    runtime : Runtime
        Where it runs.
    steps : tuple of DriverStep or PassPlan
        In order.
    baseline_bytes : int
        Bytes of a process that has loaded its libraries and no data.
    remedy : str
        Advice where the plan needs too much memory.
    would_fit : callable
        Tells the largest numbers that would fit, to come after it.
    times : Times, optional
        Seconds of the run.
    pilot : callable, optional
        Times a block of every pass, when seconds are first asked for.
    kept_bytes : int, optional
        Bytes of replicates, which stay beside all steps.
    closing_bytes : int, optional
        Bytes of what becomes of them after the last step.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x = np.zeros((1_000_000, 2))
    >>> plan = dhsic.plan(x, x[:, :1], threads=1, memory="2GiB")
    >>> plan.fits, [step.name for step in plan.passes]
    (True, ['shifts'])
    """

    _tabular: ClassVar[bool] = True

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

    @property
    def passes(self) -> tuple[PassPlan, ...]:
        """The passes over the data."""
        return tuple(step for step in self.steps if isinstance(step, PassPlan))

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

    @property
    def peak_driver_bytes(self) -> int:
        """Predicted peak bytes of this process, besides what its user holds in it."""
        peak, held = self.closing_bytes, 0
        for step in self.steps:
            # A step works beside what those before it have left.
            peak = max(peak, held + self._driver_bytes(step))
            held += step.held_bytes if isinstance(step, DriverStep) else 0
        if self.runtime.client is not None:
            # The scheduler of a local cluster is in this process, with what it knows of each task.
            tasks = max((step.tasks for step in self.passes), default=0)
            peak += _OF_SCHEDULER + _OF_TASK * tasks
        return self.baseline_bytes + self.kept_bytes + peak

    @property
    def peak_worker_bytes(self) -> int:
        """Predicted peak bytes of one worker process, this one where it runs on threads."""
        if self.runtime.client is None:
            return self.peak_driver_bytes
        # Passes run one after another, so that the largest decides.
        largest = max((step.worker_bytes for step in self.passes), default=0)
        return self.baseline_bytes + _OF_WORKER + largest

    @property
    def peak_bytes(self) -> int:
        """Predicted peak bytes of the process that needs most."""
        return max(self.peak_worker_bytes, self.peak_driver_bytes)

    @property
    def fits(self) -> bool:
        """Whether it needs no more than the allowed memory."""
        return self.peak_bytes <= self.runtime.memory

    @cached_property
    def timed(self) -> Times | None:
        """Seconds of the run; None where there are no data to time a block of, or too many."""
        if self.times is None and self.pilot is not None and self.fits:
            return self.pilot()
        return self.times

    @property
    def processor_seconds(self) -> float | None:
        """Predicted seconds of one thread, those of all tasks together; None where not timed."""
        return None if self.timed is None else self.timed.processor

    @property
    def seconds(self) -> float | None:
        """Predicted seconds from beginning to end, where all threads are free, or None."""
        return None if self.timed is None else self.timed.elapsed

    def _driver_bytes(self, step: DriverStep | PassPlan) -> int:
        if isinstance(step, DriverStep):
            return step.working_bytes
        if self.runtime.client is None:
            return step.worker_bytes
        return step.bytes_to_driver + _COPIES_SENT * step.sent_bytes

    def check(self) -> Plan:
        """Return the plan, or refuse it where it needs more than the allowed memory.

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
            amount, name = max((step.worker_bytes, step.name) for step in self.passes)
        else:
            amount, name = max((self._driver_bytes(step), step.name) for step in self.steps)
        kept = (
            f", {format_bytes(self.kept_bytes)} the replicates"
            if self.kept_bytes > needed / 8
            else ""
        )
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
        """Label and text of every line of its HTML."""
        return plan_summary(self)

    def records(self) -> list[dict[str, Any]]:
        """Every step."""
        return plan_records(self)

    def _bars(self) -> tuple[Sequence[str], Sequence[float], str]:
        rows = self.records()
        return [row["step"] for row in rows], [row["bytes"] for row in rows], "predicted bytes"

    def _brief(self) -> list[str]:
        peak = f"{format_bytes(self.peak_bytes)} of {format_bytes(self.runtime.memory)}"
        passes = format_count(len(self.passes), "pass")
        return [f"n = {self.n:,}", passes, f"{peak} in a process", ", ".join(self.variables)]

    def __str__(self) -> str:
        return "\n".join(map(printable, plan_lines(self)))
