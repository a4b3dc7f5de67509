"""Where tasks run, and the memory that a process takes beside what it was allowed.

A plan is checked before a run. Should a plan be wrong, the run ends in words before its process
takes much more than the user allowed: every task looks when it starts, before it reads and when it
is done, and so does this process before each of its steps. A look reads one line of the system and
takes some microseconds, and a task about a second.
"""

from __future__ import annotations

import gc
import sys
import threading
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakValueDictionary

from dhsic._validation import check_integer
from dhsic.engine.memory import LIBRARIES, ask_allocator, baseline_bytes, resident_bytes
from dhsic.engine.supervision import StalledError, threads_of_workers
from dhsic.engine.units import format_bytes
from dhsic.errors import InvalidArgumentError, MemoryBudgetError
from dhsic.results import TRANSIENT

_START_SECONDS = 60.0
_RECENT_SECONDS = 60.0
_COLLECTED_EVERY = 20  # times as long as a collection of cycles takes, a twentieth of the time
_MOST_RUNS = 64


@dataclass
class _SeenRun:
    """A run, as one process knows it."""

    allowed: int
    first: int
    """Bytes of the process when it first looked."""
    last: float = 0.0
    """When it looked last."""


_collected = {"took": 0.0, "ended": 0.0}
"""Seconds that the last collection of cycles of this process took, and when it was done."""
_seen: dict[str, _SeenRun] = {}
_held: WeakValueDictionary[int, Budget] = WeakValueDictionary()
"""Budgets that looked and are still there: none of a run that has ended."""
_lock = threading.Lock()


@dataclass(frozen=True)
class Budget:
    """Memory that every process of a run may take; travels to the workers.

    Bytes that a process held before it first looked are not the run's, nor are pages of files.
    Where runs share one process at the same time, each leaves room for what the others are allowed.

    Parameters
    ----------
    allowed : int
        Bytes that one process may use, its libraries among them.
    planned : int, optional
        Bytes that the plan predicts for the process that needs most.
    run : str, optional
        Tells the run from others.
    """

    allowed: int
    planned: int | None = None
    run: str = field(default_factory=lambda: uuid.uuid4().hex)

    def look(self, more: int = 0) -> None:
        """Compare what this process takes with what is allowed.

        Parameters
        ----------
        more : int, optional
            Bytes that it is about to take.

        Raises
        ------
        MemoryBudgetError
            It takes, or would take, more than is allowed, and so it does when all that can be
            given back is.
        """
        if self.make_room(more, seldom=False):
            return
        planned = self.planned
        words = "" if planned is None else f" where {format_bytes(planned)} were planned,"
        next_ = f" and is about to take {format_bytes(more)}" if more else ""
        msg = (
            f"a process may use {format_bytes(self.allowed)},{words} and uses "
            f"{format_bytes(max(self._used(own_bytes()), 0))}{next_}: "
            "allow more memory, or take fewer threads, landmarks, features or resamples; data in "
            "large stored chunks need less memory once they are written in smaller ones"
        )
        raise MemoryBudgetError(msg)

    def make_room(self, more: int, *, seldom: bool = True) -> bool:
        """Give back freed memory, and what nobody holds, where so much more needs it.

        What the allocator keeps of freed memory counts as resident, and so do cycles of objects
        that nobody holds.

        Parameters
        ----------
        more : int
            Bytes that may come next.
        seldom : bool, optional
            Look for cycles only where that was not done lately: in a process of many objects, as of
            notebooks, it takes tenths of a second, and every step of a run may need room.

        Returns
        -------
        bool
            Whether they fit.
        """
        if self._excess(more) <= 0:
            return True
        ask_allocator("malloc_trim", 0)
        if self._excess(more) <= 0:
            return True
        began = time.monotonic()
        if not seldom or began - _collected["ended"] >= _COLLECTED_EVERY * _collected["took"]:
            gc.collect()
            ask_allocator("malloc_trim", 0)
            _collected["ended"] = time.monotonic()
            _collected["took"] = _collected["ended"] - began
        return self._excess(more) <= 0

    def _excess(self, more: int) -> int:
        now, others = time.monotonic(), 0
        resident = own_bytes()
        with _lock:
            if self.run not in _seen:
                _seen[self.run] = _SeenRun(self.allowed, resident)
                # Runs that are long over are forgotten, so that the table stays small.
                for old in list(_seen)[:-_MOST_RUNS]:
                    del _seen[old]
            for run in {one.run for one in list(_held.values())} & _seen.keys() - {self.run}:
                # Runs that looked lately share this process, and may take what they were allowed.
                if now - _seen[run].last < _RECENT_SECONDS:
                    others += _seen[run].allowed
            _seen[self.run].last = now
            _held[id(self)] = self
        return self._used(resident) + more - self.allowed - others

    def _used(self, resident: int) -> int:
        first = _seen[self.run].first
        return min(first, LIBRARIES) + resident - first


def check_process_memory(budget: Budget | None, more: int = 0) -> None:
    """Compare the memory of this process with a budget, as `Budget.look`, where there is one."""
    if budget is not None:
        budget.look(more)


def own_bytes() -> int:
    """Resident bytes of this process that are no pages of files."""
    resident, of_files = resident_bytes()
    return resident - of_files


@dataclass(frozen=True)
class Runtime:
    """Threads of this process, or the workers of a client.

    Parameters
    ----------
    threads : int
        Threads in all.
    memory : int
        Bytes that one process may use.
    workers : int
        Worker processes.
    client : distributed.Client, optional
        Where not given, tasks run on threads of this process.
    most_threads : int, optional
        Threads of the worker that has most; where not given, all have as many.
    seconds : float, optional
        How long a test may take, as predicted, where it leaves a choice.
    budget : Budget, optional
        Budget of the run, at which its processes look; where not given, they do not.
    baseline : int, optional
        Bytes of a process with its libraries as a run has planned them; where not given, as they
        are now.
    """

    threads: int
    memory: int
    workers: int = 1
    client: Any = None
    most_threads: int | None = None
    seconds: float | None = None
    budget: Budget | None = field(default=None, compare=False, metadata=TRANSIENT)
    baseline: int | None = field(default=None, compare=False, metadata=TRANSIENT)

    def look(self, more: int = 0) -> None:
        """Compare the memory of this process with the budget, as `Budget.look`."""
        check_process_memory(self.budget, more)

    def make_room(self) -> None:
        """Have this process give back freed memory where the largest step would need it."""
        if self.budget is not None and self.budget.planned is not None and self.client is None:
            self.budget.make_room(self.budget.planned - self.libraries_bytes)

    def planned(self, peak: int, baseline: int) -> Runtime:
        """The same for a run that has so many bytes in its plan, of which some are the libraries'.

        Passes are then cut as planned: memory that the allocator keeps would make them smaller.
        """
        budget = None if self.budget is None else replace(self.budget, planned=peak)
        return replace(self, budget=budget, baseline=baseline)

    @property
    def libraries_bytes(self) -> int:
        """Bytes of a process with its libraries."""
        return baseline_bytes() if self.baseline is None else self.baseline

    @property
    def pass_bytes(self) -> int:
        """Bytes that a pass may take beside the libraries and what the driver holds."""
        # An eighth is for what the driver holds beside a pass, such as factors.
        return self.memory - self.libraries_bytes - self.memory // 8

    @property
    def worker_threads(self) -> int:
        """Threads of the worker that has most, which needs the most memory."""
        return self.most_threads or -(-self.threads // self.workers)

    @classmethod
    def here(cls, threads: int | None, memory: int) -> Runtime:
        """Threads of this process; one a processor where not given."""
        if threads is None:
            from dask.system import CPU_COUNT  # slow to import

            threads = CPU_COUNT
        return cls(check_integer("threads", threads, minimum=1), memory)

    @classmethod
    def on(cls, client: Any, memory: int, threads: int | None = None) -> Runtime:
        """The workers of a client, of which the first may still be on its way."""
        check_client(client, threads)
        counts = _threads_by_worker(client)
        if not counts:
            # The workers of a cluster may still be starting.
            with suppress(TimeoutError):
                client.wait_for_workers(1, timeout=_START_SECONDS)
            counts = _threads_by_worker(client)
        if not counts:
            msg = (
                f"client must have workers, and its scheduler got none within {_START_SECONDS:g} "
                "s: start some, or leave the client out to run on threads"
            )
            raise InvalidArgumentError(msg)
        return cls(sum(counts.values()), memory, len(counts), client, max(counts.values()))


def check_client(client: Any, threads: int | None) -> None:
    """Refuse what is no client that computes at once, and threads beside one.

    Raises
    ------
    InvalidArgumentError
        It is something else, or is closed; or threads are given, too.
    """
    if threads is not None:
        msg = "threads must be left out when a client is given: its workers set their own"
        raise InvalidArgumentError(msg)
    from distributed import Client  # as its workers have; the plan counts what it takes

    if not isinstance(client, Client) or client.asynchronous or client.status != "running":
        what = "a running, synchronous distributed.Client of this process"
        msg = f"client must be {what}, got {client!r}: connect here"
        raise InvalidArgumentError(msg)


def _threads_by_worker(client: Any) -> dict[str, int]:
    """Threads of the workers of a client by their addresses."""
    try:
        return threads_of_workers(client)
    except StalledError as error:
        msg = f"client must have a scheduler that answers, and {error.seen}: {error.remedy}"
        raise InvalidArgumentError(msg) from error


def current_client() -> Any:
    """The client that Dask computes on by default, or None."""
    if "distributed" not in sys.modules:  # slow to import, and no one has made a client
        return None
    from distributed import default_client

    try:
        return default_client()
    except ValueError:
        return None
