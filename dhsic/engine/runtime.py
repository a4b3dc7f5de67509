"""Where tasks run."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field, replace
from typing import Any

from dhsic._validation import check_integer
from dhsic.engine.budget import Budget, check_process_memory
from dhsic.engine.memory import baseline_bytes
from dhsic.engine.supervision import StalledError, threads_of_workers
from dhsic.errors import InvalidArgumentError
from dhsic.results import TRANSIENT

_START_SECONDS = 60.0
_POLL_SECONDS = 0.1


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
        import distributed  # noqa: F401  # as its workers have; the plan counts what it takes

        check_client(client, threads)
        until = time.monotonic() + _START_SECONDS
        # The workers of a cluster may still be starting.
        while not (counts := _threads_by_worker(client)):
            if time.monotonic() > until:
                msg = (
                    f"client must have workers, and its scheduler got none within "
                    f"{_START_SECONDS:g} s: start some, or leave the client out to run on threads"
                )
                raise InvalidArgumentError(msg)
            time.sleep(_POLL_SECONDS)
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
    running = getattr(client, "status", "running") == "running"
    if not hasattr(client, "nthreads") or getattr(client, "asynchronous", False) or not running:
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
