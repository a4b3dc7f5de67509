"""The memory that a run takes beside what it was allowed, looked at while it runs.

A plan is checked before a run. Should a plan be wrong, the run ends in words before its process
takes much more than the user allowed: every task looks when it starts, before it reads and when it
is done, and so does this process before each of its steps. A look reads one line of the system and
takes some microseconds, and a task about a second.
"""

from __future__ import annotations

import gc
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from dhsic.engine.memory import LIBRARIES, ask_allocator, resident_bytes
from dhsic.engine.units import format_bytes
from dhsic.errors import MemoryBudgetError

TOLERANCE = 1.0
"""Times the allowed memory that a process takes at the most."""

_RECENT_SECONDS = 60.0
_COLLECTED_EVERY = 20  # times as long as a collection of cycles takes, a twentieth of the time
_MOST_RUNS = 64


@dataclass
class _SeenRun:
    """A run, as one process knows it."""

    allowed: int
    first: int
    """Bytes of the process when it first looked."""
    libraries: int
    """Bytes of it that are not the user's."""
    last: float = 0.0
    """When it looked last."""


@dataclass
class _Collection:
    """The last collection of cycles of this process."""

    seconds: float = 0.0
    """How long it took."""
    ended: float = 0.0
    """When it was done."""


_collected = _Collection()
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
            It takes, or would take, more than `TOLERANCE` times what is allowed, and so it does
            when all that can be given back is.
        """
        if not self._found_room(more, TOLERANCE, _collect):
            raise MemoryBudgetError(self._words(more))

    def make_room(self, more: int) -> None:
        """Give back freed memory, and at times what nobody holds, where so much more needs it.

        Parameters
        ----------
        more : int
            Bytes that may come next.
        """
        self._found_room(more, 1.0, _collect_at_times)

    def _found_room(self, more: int, tolerance: float, collect: Callable[[], None]) -> bool:
        """Whether so much more fits, in the end with all that can be given back."""
        # What the allocator keeps of freed memory counts as resident, and so do cycles of objects
        # that nobody holds, which take long to find.
        for give_back in (_trim, collect):
            if self._excess(more, tolerance) <= 0:
                return True
            give_back()
        return self._excess(more, tolerance) <= 0

    def _excess(self, more: int, tolerance: float) -> float:
        now, others = time.monotonic(), 0
        resident = own_bytes()
        with _lock:
            if self.run not in _seen:
                _seen[self.run] = _SeenRun(self.allowed, resident, min(resident, LIBRARIES))
                # Runs that are long over are forgotten, so that the table stays small.
                for old in list(_seen)[:-_MOST_RUNS]:
                    del _seen[old]
            for run in {one.run for one in list(_held.values())} & _seen.keys() - {self.run}:
                # Runs that looked lately share this process, and may take what they were allowed.
                if now - _seen[run].last < _RECENT_SECONDS:
                    others += _seen[run].allowed
            _seen[self.run].last = now
            _held[id(self)] = self
        return self._used(resident) + more - tolerance * self.allowed - others

    def _used(self, resident: int) -> int:
        seen = _seen[self.run]
        return seen.libraries + resident - seen.first

    def _words(self, more: int) -> str:
        used = format_bytes(max(self._used(own_bytes()), 0))
        planned = (
            "" if self.planned is None else f" where {format_bytes(self.planned)} were planned,"
        )
        next_ = f" and is about to take {format_bytes(more)}" if more else ""
        return (
            f"a process may use {format_bytes(self.allowed)},{planned} and uses {used}{next_}: "
            "allow more memory, or take fewer threads, landmarks, features or resamples; data in "
            "large stored chunks need less memory once they are written in smaller ones"
        )


def check_process_memory(budget: Budget | None, more: int = 0) -> None:
    """Compare the memory of this process with a budget, as `Budget.look`, where there is one."""
    if budget is not None:
        budget.look(more)


def own_bytes() -> int:
    """Resident bytes of this process that are no pages of files."""
    resident, of_files = resident_bytes()
    return resident - of_files


def _trim() -> None:
    """Have the allocator return what it keeps of freed memory, where it can."""
    ask_allocator("malloc_trim", 0)


def _collect() -> None:
    """Free what only cycles of objects hold, and have the allocator return it."""
    began = time.monotonic()
    gc.collect()
    _trim()
    _collected.seconds, _collected.ended = time.monotonic() - began, time.monotonic()


def _collect_at_times() -> None:
    """The same, unless it was done lately."""
    # In a process of many objects, as of notebooks, it takes tenths of a second, and every step of
    # a run may need room.
    if time.monotonic() - _collected.ended >= _COLLECTED_EVERY * _collected.seconds:
        _collect()
