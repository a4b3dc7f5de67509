"""Worker processes on this machine."""

from __future__ import annotations

import asyncio
import logging
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from typing import Any

import dask
from dask.system import CPU_COUNT
from distributed import Client, LocalCluster
from distributed.system import MEMORY_LIMIT

from dhsic._validation import check_integer, parse_bytes

__all__ = ["PlannedWorkers", "local_cluster", "processors"]

_HEADROOM = 1.25
_TERMINATE = 0.95
_KILL_SECONDS = 0.5

# Row blocks are small and partial results few, so there is nothing worth spilling; and a paused
# worker never goes on by itself, which would be a hang. What is left is the limit that kills.
# Dask's default MALLOC_TRIM_THRESHOLD_ is left out: it makes every large array fresh pages, which
# costs a sixth of the time of a pass.
_CONFIG = {
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": _TERMINATE,
    "distributed.nanny.pre-spawn-environ": {
        "OMP_NUM_THREADS": 1,
        "MKL_NUM_THREADS": 1,
        "OPENBLAS_NUM_THREADS": 1,
    },
}


@dataclass(frozen=True)
class PlannedWorkers:
    """Stands for the client of a cluster that is not started, so that a run can be planned.

    Parameters
    ----------
    workers : int
        Processes of one thread each.
    """

    workers: int

    def nthreads(self) -> dict[str, int]:
        """Threads of every worker."""
        return {f"worker {number}": 1 for number in range(self.workers)}


def processors() -> int:
    """Processors that this process may use, by its affinity and its control group."""
    return int(CPU_COUNT)


@contextmanager
def local_cluster(workers: int | None = None, memory: int | str = "2GiB") -> Iterator[Any]:
    """Start worker processes of one thread each, which are gone when the block ends.

    A script that calls this needs ``if __name__ == "__main__":`` around its main part, since the
    processes are spawned.

    Parameters
    ----------
    workers : int, optional
        Processes; one a processor where not given.
    memory : int or str, optional
        Bytes that the plan may use in one process. A process is killed only at a quarter more,
        as a safety net for the machine, and its tasks run again.

    Yields
    ------
    distributed.Client
        For the `client` of `dhsic.independence_test`.

    Raises
    ------
    InvalidArgumentError
        A number that cannot be used.
    """
    count = processors() if workers is None else check_integer("workers", workers, minimum=1)
    limit = min(int(parse_bytes(memory) * _HEADROOM / _TERMINATE), MEMORY_LIMIT)
    with ExitStack() as stack:
        scratch = tempfile.TemporaryDirectory(prefix="dhsic-", ignore_cleanup_errors=True)
        directory = stack.enter_context(scratch)
        with _interrupts_held(), _interrupts_blocked(), dask.config.set(_CONFIG):
            cluster = LocalCluster(
                n_workers=count,
                threads_per_worker=1,
                processes=True,
                host="127.0.0.1",
                dashboard_address=None,
                # Even without a dashboard it serves its health, by default on a fixed port.
                scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
                memory_limit=limit,
                local_directory=directory,
                silence_logs=logging.CRITICAL,
            )
            stack.enter_context(cluster)
        client = stack.enter_context(Client(cluster))
        try:
            yield client
        except BaseException:
            _kill(cluster)
            raise


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Hold signals back: what is half started cannot be closed."""
    held: list[int] = []
    handlers: dict[int, Callable[..., Any]] = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            handler = signal.getsignal(number)
            if callable(handler):
                handlers[number] = handler
                signal.signal(number, lambda received, _: held.append(received))
    try:
        yield
    finally:
        for restored, handler in handlers.items():
            signal.signal(restored, handler)
    if held:
        handlers[held[0]](held[0], None)


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Threads and processes started here never get Ctrl-C, which a terminal sends to them all.

    Otherwise every worker writes a traceback of its own; the main thread closes them instead.
    """
    resource_tracker.ensure_running()  # it unblocks the signals of the thread that starts it
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _kill(cluster: Any) -> None:
    """End the workers without waiting for the tasks that they are in."""

    async def close() -> None:
        nannies = list(cluster.workers.values())
        await asyncio.gather(*(nanny.close(timeout=_KILL_SECONDS) for nanny in nannies))

    with suppress(Exception):
        cluster.sync(close)
