"""Worker processes on this machine."""

from __future__ import annotations

import logging
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing import resource_tracker
from typing import Any, cast

from dhsic.cluster.settings import HERE, LOCAL_SETTINGS, process_limit, process_share
from dhsic.cluster.spec import Adaptive, ClusterSpec
from dhsic.engine.runtime import LIBRARIES

_KILL_SECONDS = 0.5
# Settings of Dask are those of the whole process: of two that start at a time, the second would put
# back for good what the first had set.
_STARTING = threading.Lock()


def memory_share(workers: int) -> int:
    """Bytes that the plan may use in one process where so many share this machine."""
    from distributed.system import MEMORY_LIMIT

    return process_share(MEMORY_LIMIT // workers)


@contextmanager
def local_cluster(
    workers: int | Adaptive | None = None, memory: int | str = "2GiB", threads: int = 1
) -> Iterator[Any]:
    """Start worker processes, which end with the block.

    Other users of the machine cannot connect to the workers, which listen on loopback and use TLS
    with a temporary key that is kept in memory. There is no dashboard; health and counters are
    served as plain http on loopback.

    A script that calls this needs ``if __name__ == "__main__":`` around its main part, since the
    processes are spawned.

    Parameters
    ----------
    workers : int or Adaptive, optional
        Number of processes. The default keeps every processor busy.
    memory : int or str, optional
        Bytes that the plan may use in one process. A process is killed only at a quarter more,
        as a safety net for the machine, and its tasks run again.
    threads : int, optional
        Threads of a process, each with one thread of BLAS.

    Yields
    ------
    distributed.Client
        For the `client` of `dhsic.independence_test`.

    Raises
    ------
    InvalidArgumentError
        A number that cannot be used.
    ClusterError
        The processes do not start, as in a script without that line.

    Examples
    --------
    >>> from dhsic.cluster import local_cluster
    >>> with local_cluster(2, memory="1GiB") as client:
    ...     print(len(client.nthreads()))
    2
    """
    import dask
    from distributed import Client
    from distributed.system import MEMORY_LIMIT

    from dhsic.cluster.worker import Worker, WorkerProcesses, check_main

    check_main()
    spec = ClusterSpec("local", workers, threads, cast(int, memory))
    # No worker is promised more than the machine has, nor killed as it loads its libraries: where
    # these do not fit, the plan of a run says so.
    limit = min(process_limit(max(spec.memory, LIBRARIES)), MEMORY_LIMIT)
    with ExitStack() as stack:
        scratch = tempfile.TemporaryDirectory(prefix="dhsic-", ignore_cleanup_errors=True)
        directory = stack.enter_context(scratch)
        with _STARTING, _interrupts_held(), _interrupts_blocked(), dask.config.set(LOCAL_SETTINGS):
            cluster = WorkerProcesses(
                n_workers=spec.bounds.minimum,
                threads_per_worker=spec.threads,
                processes=True,
                worker_class=Worker,
                host="127.0.0.1",
                # A key and a certificate of this cluster, which stand in no file, no command line
                # and no environment: Dask hands them to workers through the pipe that starts them.
                security=True,
                protocol="tls://",
                dashboard_address=None,
                # Even without a dashboard it serves its health, by default on a fixed port.
                scheduler_kwargs={"dashboard_address": HERE},
                memory_limit=limit,
                local_directory=directory,
                silence_logs=logging.CRITICAL,
            )
            stack.enter_context(cluster)
        if isinstance(workers, Adaptive):
            cluster.adapt(minimum=workers.minimum, maximum=workers.maximum)
        client = stack.enter_context(Client(cluster))
        try:
            yield client
        except BaseException:
            # On an error nobody needs what the tasks would return.
            _kill(cluster)
            raise


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Hold signals back: what is half started cannot be closed."""
    held: list[int] = []
    handlers: dict[int, Callable[..., Any]] = {}
    # Python allows handlers to be set in the main thread alone.
    if threading.current_thread() is threading.main_thread():
        # Both, since a queue ends jobs by SIGTERM.
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
    # The first one is delivered, now that there is something to close.
    if held:
        handlers[held[0]](held[0], None)


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Threads and processes started here never get Ctrl-C, which a terminal sends to them all.

    Otherwise every worker writes a traceback of its own; the main thread closes them instead.
    """
    resource_tracker.ensure_running()  # it unblocks the signals of the thread that starts it
    # Inherited by all that is started here; the client alone decides what ends with it.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _kill(cluster: Any) -> None:
    """End the workers without waiting for the tasks that they are in."""
    import asyncio  # slow to import

    async def close() -> None:
        nannies = list(cluster.workers.values())
        # Nannies kill what does not leave in time, and all of them at once.
        await asyncio.gather(*(nanny.close(timeout=_KILL_SECONDS) for nanny in nannies))

    with suppress(Exception):
        cluster.sync(close)
