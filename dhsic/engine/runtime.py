"""Define where tasks run, check the memory of processes, and wait for the results of a cluster.

A plan is checked before a run. Should a plan be wrong, the run ends in words before its process
takes much more than the user allowed: every task looks when it starts, before it reads and when it
is done, and so does this process before each of its steps. A look reads one line of the system and
takes some microseconds, and a task about a second.

A client of Dask waits for ever if all workers, or the scheduler, are dead, paused or frozen. The
engine waits for all results through this module. While results arrive, it asks nothing. If none
arrives for a quarter of the allowed time, it asks the scheduler for its workers.
"""

from __future__ import annotations

import ctypes
import gc
import os
import re
import sys
import threading
import time
import uuid
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakSet

from dhsic._validation import check_integer
from dhsic.engine.checkpoint import Checkpoint
from dhsic.engine.units import format_bytes
from dhsic.errors import DhsicError, InvalidArgumentError, MemoryBudgetError
from dhsic.results import TRANSIENT

Value = TypeVar("Value")

LIBRARIES = 250 * 2**20
_AT_WORK = 16 * 2**20  # what Dask, zarr and the allocator were measured to take once they work
_RECENT_SECONDS = 60.0
_COLLECTED_EVERY = 20  # times as long as a collection of cycles takes, a twentieth of the time
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # mallopt(3) of glibc

_START_SECONDS = 60.0
_REPLY_TIMEOUT_SECONDS = 10.0
STALL_TIMEOUT = "dhsic.stall-timeout"
"""Seconds that a cluster may be without a worker that can work, in the configuration of Dask."""
_STALL_SECONDS = 60.0


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
        Budget of the run, at which its processes look; where not given, it has no limit.
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
    budget: Budget = field(
        default_factory=lambda: Budget(sys.maxsize), compare=False, metadata=TRANSIENT
    )
    baseline: int | None = field(default=None, compare=False, metadata=TRANSIENT)

    def make_room(self) -> bool:
        """Have this process give back freed memory where the largest step would need it.

        Returns whether it fits then, and false where that is not known.
        """
        if self.budget.planned is None or self.client is not None:
            return False
        return self.budget.make_room(self.budget.planned - self.libraries_bytes)

    def planned(self, peak: int, baseline: int) -> Runtime:
        """The same for a run that has so many bytes in its plan, of which some are the libraries'.

        Passes are then cut as planned: memory that the allocator keeps would make them smaller.
        """
        return replace(self, budget=replace(self.budget, planned=peak), baseline=baseline)

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
    def of(cls, client: Any, threads: int | None, memory: int) -> Runtime:
        """The workers of a client, of which the first may still be on its way, or threads here.

        Without a client and a number of threads, there is a thread for every processor.
        """
        if client is None:
            if threads is None:
                from dask.system import CPU_COUNT  # slow to import

                threads = CPU_COUNT
            threads = check_integer("threads", threads, minimum=1)
            return cls(threads, memory, budget=Budget(memory))
        check_client(client, threads)
        try:
            counts = threads_of_workers(client)
            if not counts:
                # The workers of a cluster may still be starting.
                with suppress(TimeoutError):
                    client.wait_for_workers(1, timeout=_START_SECONDS)
                counts = threads_of_workers(client)
        except StalledError as error:
            msg = f"client must have a scheduler that answers, and {error}"
            raise InvalidArgumentError(msg) from error
        if not counts:
            msg = (
                f"client must have workers, and its scheduler got none within {_START_SECONDS:g} "
                "s: start some, or leave the client out to run on threads"
            )
            raise InvalidArgumentError(msg)
        most, budget = max(counts.values()), Budget(memory)
        return cls(sum(counts.values()), memory, len(counts), client, most, budget=budget)


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


def current_client() -> Any:
    """The client that Dask computes on by default, or None."""
    if "distributed" not in sys.modules:  # slow to import, and no one has made a client
        return None
    from distributed import default_client

    try:
        return default_client()
    except ValueError:
        return None


# --- graphs of a user's data

GRAPH_PLACE: ContextVar[tuple[Any, int | None]] = ContextVar("place", default=(None, None))
"""Client and threads, of which a user gave one or none, where graphs are computed here."""


@contextmanager
def graphs_on(client: Any, threads: int | None) -> Iterator[None]:
    """Compute graphs where a user has a run take place: on a client, or on threads of this process.

    Raises
    ------
    InvalidArgumentError
        It is no running client, or no number of threads.
    """
    if client is not None:
        check_client(client, threads)
    elif threads is not None:
        check_integer("threads", threads, minimum=1)
    token = GRAPH_PLACE.set((client, threads))
    try:
        yield
    finally:
        GRAPH_PLACE.reset(token)


def compute_graphs(*lazy: Any) -> tuple[Any, ...]:
    """Values of what Dask can compute."""
    import dask  # slow to import

    client, threads = GRAPH_PLACE.get()
    here = {} if threads is None else on_threads(threads)
    place = here if client is None else {"scheduler": client}
    values: tuple[Any, ...] = dask.compute(*lazy, **place)
    return values


def on_threads(threads: int) -> dict[str, Any]:
    """Options of Dask to compute on so many threads of this process.

    Dask loads distributed to look a scheduler up by its name, which takes a second or two.
    """
    from dask.threaded import get

    return {"scheduler": get, "num_workers": threads}


# --- memory of this process

_collected = {"took": 0.0, "ended": 0.0}
"""Seconds that the last collection of cycles of this process took, and when it was done."""
_seen: dict[str, _SeenRun] = {}
_lock = threading.Lock()


@dataclass
class _SeenRun:
    """A run, as one process knows it."""

    allowed: int
    first: int
    """Bytes of the process when it first looked."""
    last: float = 0.0
    """When it looked last."""
    held: WeakSet[Budget] = field(default_factory=WeakSet)
    """Its budgets that looked, none where it has ended; a task may have a copy of its own."""


@dataclass(frozen=True, eq=False)
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
            f"{format_bytes(max(_used(_seen[self.run], own_bytes()), 0))}{next_}: "
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
        now, resident = time.monotonic(), own_bytes()
        with _lock:
            if (mine := _seen.get(self.run)) is None:
                mine = _seen[self.run] = _SeenRun(self.allowed, resident)
            mine.last = now
            mine.held.add(self)
            for ended in [run for run, one in _seen.items() if not one.held]:
                del _seen[ended]
            # Runs that looked lately share this process, and may take what they were allowed.
            recent = (one for one in _seen.values() if now - one.last < _RECENT_SECONDS)
            allowed = sum(one.allowed for one in recent)
        return _used(mine, resident) + more - allowed


def _used(seen: _SeenRun, resident: int) -> int:
    """Bytes of a run of so many of this process."""
    return min(seen.first, LIBRARIES) + resident - seen.first


def own_bytes() -> int:
    """Resident bytes of this process that are no pages of files."""
    resident, of_files = resident_bytes()
    return resident - of_files


def resident_bytes() -> tuple[int, int]:
    """Resident bytes of this process, and those of them that are pages of files, where known."""
    with suppress(OSError), open("/proc/self/statm") as file:
        _, resident, of_files, *_ = map(int, file.read().split())
        page = os.sysconf("SC_PAGE_SIZE")
        return resident * page, of_files * page
    import psutil

    return int(psutil.Process().memory_info().rss), 0


def baseline_bytes() -> int:
    """Bytes of a process with its libraries, without what a user holds in it besides.

    Those that every run loads are loaded before it is asked, since they are slow to import and so
    are not there from the start.
    """
    import dask.delayed  # noqa: F401
    import scipy.spatial.distance  # noqa: F401

    return min(resident_bytes()[0], LIBRARIES) + _AT_WORK


def peak_bytes() -> int:
    """Most resident memory that this process had since it began."""
    # Bytes of this program alone, where the reading below counts its parent's too.
    if (known := high_water_bytes("self")) is not None:
        return known
    import resource  # which every system has that processes can be forked on

    # macOS counts bytes, Linux kibibytes.
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def high_water_bytes(process: int | str) -> int | None:
    """Most resident memory of a process by number, or "self"; None where no system tells."""
    with suppress(OSError):
        line = re.search(r"^VmHWM:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text(), re.M)
        if line is not None:
            return int(line[1]) * 1024
    return None


def forget_peak() -> bool:
    """Let the high-water mark of this process begin anew; False where no system can."""
    try:
        # A 5 sets the mark back to what is resident now.
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def worker_peak_bytes(client: Any) -> int | None:
    """That of the worker process of a client that had most; None where one does not answer."""

    async def asked() -> Any:
        return await client.run(peak_bytes, on_error="ignore", asynchronous=True)

    told: dict[str, int] = {}
    with suppress(TimeoutError):  # a worker may be frozen
        told = client.sync(asked, callback_timeout=_REPLY_TIMEOUT_SECONDS)
    return max(told.values(), default=None)


def ask_allocator(function: str, *numbers: int) -> None:
    """Call a function of the allocator of the C library, on Linux where it has it."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            getattr(ctypes.CDLL(None), function)(*numbers)


# An arena of each thread keeps up to 64 MiB of freed memory, which malloc_trim(3) leaves there: a
# test of one stored chunk took 1.2 times its memory, and .97 times with one arena for all threads.
# It is set before data are opened, since that starts threads.
ask_allocator("mallopt", _ARENA_MAX, 1)
# Memory of freed arrays is used again, with the thresholds that glibc would come to by itself for
# large arrays. Fresh pages for every array of more than 128 KiB take a sixth of the time of a test
# of 50 rows; where Dask's nannies ask for them, tiles take up to 1.8 times as long.
ask_allocator("mallopt", _TRIM_THRESHOLD, 32 * 2**20)
ask_allocator("mallopt", _MMAP_THRESHOLD, 16 * 2**20)


# --- results of a cluster, waited for as long as it can work


class StalledError(Exception):
    """A cluster has been able to do nothing for some time: its state, and a way out."""


def _answered(client: Any, question: Callable[[], Any]) -> Any:
    """An answer of the scheduler; a `StalledError` where none comes."""
    patience = _patience()
    try:
        return client.sync(question, callback_timeout=patience)
    except TimeoutError as error:
        msg = (
            f"the scheduler has not answered for {patience:g} s: see whether it runs, and has a "
            "processor to run on"
        )
        raise StalledError(msg) from error


def _patience() -> float:
    import dask  # slow to import

    return float(dask.config.get(STALL_TIMEOUT, _STALL_SECONDS))


def _waited(client: Any, coroutine: Coroutine[Any, Any, Value]) -> Value:
    """The result of a coroutine of a client, waited for as long as any worker can work.

    Raises
    ------
    StalledError
        No worker could for some time, by the answers of the scheduler; or it does not answer.
    """
    import asyncio  # a tenth of a second, which a start of Python does not wait for
    from concurrent.futures import wait

    patience, alive, beats = _patience(), time.monotonic(), dict[str, float]()
    answer = asyncio.run_coroutine_threadsafe(coroutine, client.loop.asyncio_loop)
    try:
        while not wait([answer], timeout=patience / 4).done:
            workers = _answered(client, client.scheduler.identity)["workers"]
            now, before = time.monotonic(), beats
            beats = {at: one["last_seen"] for at, one in workers.items()}
            # A heartbeat that is the same as at the last look was sent before it.
            heard = (one for at, one in workers.items() if one["last_seen"] != before.get(at))
            if any(one["status"] == "running" or _is_busy(one) for one in heard):
                alive = now
            elif now - alive > patience:
                paused = [one["status"] for one in workers.values()].count("paused")
                of = (
                    f"{paused} of {len(workers)} are paused, since their memory is full, and "
                    f"{len(workers) - paused} silent: see whether they run, and give them memory"
                )
                start = "there is none: start some, or find out what ends them, as a lack of memory"
                msg = f"no worker can work, for {patience:g} s: {of if workers else start}"
                raise StalledError(msg)
        return answer.result()
    finally:
        answer.cancel()


def _is_busy(worker: Mapping[str, Any]) -> bool:
    return bool(worker.get("metrics", {}).get("task_counts", {}).get("executing", 0))


def threads_of_workers(client: Any) -> dict[str, int]:
    """Threads of each worker of a client by its address.

    Raises
    ------
    StalledError
        The scheduler does not answer.
    """
    with aside():
        return dict(_answered(client, client.scheduler.ncores))


def fetched(futures: Sequence[Any], client: Any) -> list[Any]:
    """Results of tasks, computed again where workers were lost that held them.

    Raises
    ------
    StalledError
        The cluster can do nothing, and has not been able to for some time.
    """

    async def gathered() -> Any:
        return await client.gather(list(futures), asynchronous=True)

    with aside():
        return list(_waited(client, gathered()))


def as_they_finish(futures: Sequence[Any], client: Any) -> Iterator[Any]:
    """Futures of a client in the order in which they finish.

    Raises
    ------
    StalledError
        The cluster can do nothing, and has not been able to for some time.
    """
    from distributed import as_completed

    left, completed = len(futures), as_completed(futures, loop=client.loop)

    async def finished() -> list[Any]:
        return [await anext(completed), *completed.next_batch(block=False)]

    with aside():
        while left:
            batch = _waited(client, finished())
            yield from batch
            left -= len(batch)


@contextmanager
def aside() -> Iterator[None]:
    """Give the thread of a task, where this is one, to the tasks that it waits for.

    Two tasks that wait for others on a cluster of two threads would wait for ever.
    """
    from distributed import rejoin, secede

    try:
        secede()
    except (ValueError, KeyError):  # not in a task, or out of the way already
        yield
        return
    try:
        yield
    finally:
        rejoin()


@contextmanager
def explained_failures(checkpoint: Checkpoint | None = None) -> Iterator[None]:
    """Turn the loss of workers or of the scheduler into an error with a remedy.

    Parameters
    ----------
    checkpoint : Checkpoint, optional
        Where what is done is kept.

    Raises
    ------
    MemoryBudgetError
        Workers died of the same task, one after the other.
    DhsicError
        The scheduler is gone or silent, or no worker can work.
    """
    kept = "" if checkpoint is None else f", since what is done is kept in {checkpoint.folder}"
    try:
        yield
    except Exception as error:
        # Nothing of a cluster can have failed where its library was never loaded.
        if "distributed" not in sys.modules:  # slow to import, and no error is one of its own
            raise
        from distributed.comm import CommClosedError
        from distributed.scheduler import KilledWorker

        if isinstance(error, KilledWorker):
            # Keys of tasks that read rows end with them.
            rows = re.search(r"(groups of )?rows .*", str(error.task))
            where = f" ({rows[0]})" if rows else ""
            msg = (
                f"{error.allowed_failures + 1} workers died while they ran the same task{where}, "
                "most likely because they took more memory than they have: allow more memory, or "
                "take fewer landmarks or resamples"
            )
            raise MemoryBudgetError(msg) from error
        lost = getattr(error, "reason", "") == "scheduler-connection-lost"
        if isinstance(error, StalledError):
            again = f"start again{kept}" if kept else "run again with the same seed"
            msg = f"{error}, and {again}"
        elif lost or isinstance(error, CommClosedError):
            msg = (
                "the connection to the scheduler was lost: see whether it runs, and start again"
                f"{kept}"
            )
        else:
            raise
        raise DhsicError(msg) from error
