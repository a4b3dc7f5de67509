"""Start a cluster, or connect to one, and report facts about it.

`connect` serves every kind, and `local_cluster` starts processes of this machine. The last
functions return the number of workers, the dashboard, and a report of how time was spent.
"""

from __future__ import annotations

import logging
import os
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib.metadata import version
from ipaddress import ip_address
from multiprocessing import resource_tracker
from pathlib import Path
from socket import gethostname
from typing import Any, cast
from urllib.parse import urlsplit

from dhsic._files import written_whole
from dhsic._version import __version__
from dhsic.cluster.spec import (
    HERE,
    LOCAL_SETTINGS,
    TLS,
    Adaptive,
    ClusterSpec,
    SchedulerAt,
    memory_share,
    process_limit,
    processors,
    refuse,
)
from dhsic.engine.runtime import LIBRARIES, STALL_TIMEOUT
from dhsic.errors import InvalidArgumentError, needing


@contextmanager
def connect(
    where: int | str | os.PathLike[str] | ClusterSpec | None = None,
    *,
    memory: int | str | None = None,
    tls: TLS | None = None,
    insecure: bool = False,
    timeout: float | None = None,
) -> Iterator[Any]:
    """Start a cluster or connect to one; a started cluster ends with the block.

    Traffic that leaves this machine is encrypted, unless `insecure` allows otherwise. Traffic of
    workers on this machine is encrypted with a temporary key, so that other users of the machine
    can neither read the data nor run code. Dask serves dashboards as plain http even with TLS. So
    dashboards of job queues listen only on this machine, where all users can see names of tasks and
    logs; local clusters have no dashboard. A script that starts processes on this machine needs
    ``if __name__ == "__main__":``, see `local_cluster`.

    Parameters
    ----------
    where : int, str, path or ClusterSpec, optional
        A number of worker processes on this machine (default one for each processor); the address
        of a running scheduler, such as ``tls://10.0.0.1:8786``; a file ``*.json`` that
        ``dask scheduler --scheduler-file`` wrote; a file ``*.yaml`` that describes a cluster; or a
        `ClusterSpec`.
    memory : int or str, optional
        Bytes that the plan may use in one worker process on this machine: pass the same to the
        test. The default is an equal share of the memory of the machine.
    tls : TLS, optional
        Certificates for a running scheduler.
    insecure : bool, optional
        Allow a scheduler on the network without TLS, with a warning.
    timeout : float, optional
        Seconds to wait for an answer, for a first worker, and during a run without workers. The
        default for a running scheduler is 10 for the answer and 60 for workers.

    Yields
    ------
    distributed.Client
        For the `client` of `dhsic.independence_test`.

    Raises
    ------
    InvalidArgumentError
        The description is not valid, the scheduler does not answer, or no worker arrives in time.
    MissingDependencyError
        The cluster needs a library that is not installed.

    Examples
    --------
    One worker process on this machine; "cluster.yaml" in the place of the number would start the
    cluster that the file describes.

    >>> import numpy as np
    >>> import dhsic
    >>> from dhsic.cluster import connect
    >>> x = np.random.default_rng(0).standard_normal(1_000)
    >>> with connect(1, memory="1GiB") as client:
    ...     result = dhsic.independence_test(x, x**2, client=client, rng=0)
    >>> result.pvalue < 0.05
    True
    """
    import dask  # slow to import

    spec = _described(where, memory=memory, tls=tls, insecure=insecure, timeout=timeout)
    # A run without workers is given up after the same time for which the first one is waited for.
    patience = {} if spec.kind == "local" else {STALL_TIMEOUT: spec.patience}
    with dask.config.set(patience):
        if spec.kind == "local":
            with local_cluster(spec.workers, spec.memory, spec.threads) as client:
                yield client
            return
        from dhsic.cluster.clients import started  # slow to import

        with started(spec) as client:
            yield client


def _described(where: Any, **options: Any) -> ClusterSpec:
    """Describe what `connect` is asked for; nothing is started."""
    # Only what was given, so that defaults stay those of the description.
    given = {
        name: value for name, value in options.items() if value is not None and value is not False
    }
    address = os.fspath(where) if isinstance(where, (str, os.PathLike)) else ""
    suffix = "" if "://" in address else os.path.splitext(address)[1].lower()
    if suffix in (".yaml", ".yml"):
        where = ClusterSpec.read(address)
    if isinstance(where, ClusterSpec):
        # It says all of it: a second value would win in silence, or lose.
        for name, value in given.items():
            refuse(name, "left out beside the description of a cluster", value, "drop it")
        return where
    if isinstance(where, (str, os.PathLike)):
        if "memory" in given:
            refuse("memory", "left out for a scheduler", given["memory"], "drop it")
        at = SchedulerAt(None, address) if suffix == ".json" else SchedulerAt(address)
        return ClusterSpec("scheduler", scheduler=at, **given)
    if where is not None and not isinstance(where, int):
        remedy = "give a number of workers, an address, a file or a ClusterSpec"
        refuse("where", "a place to run", where, remedy)
    # Without any choice the machine is used whole, each process with its share of the memory.
    count = processors() if where is None else where
    return ClusterSpec("local", count, **{"memory": memory_share(max(count, 1)), **given})


# --- worker processes on this machine


_KILL_SECONDS = 0.5
# Settings of Dask are those of the whole process: of two that start at a time, the second would put
# back for good what the first had set.
_STARTING = threading.Lock()


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

    from dhsic.cluster.clients import Worker, WorkerProcesses, check_main

    check_main()
    spec = ClusterSpec("local", workers, threads, cast(int, memory))
    # No worker is promised more than the machine has, nor killed as it loads its libraries: where
    # these do not fit, the plan of a run says so.
    limit = min(process_limit(max(spec.memory, LIBRARIES)), MEMORY_LIMIT)
    with ExitStack() as stack:
        scratch = tempfile.TemporaryDirectory(prefix="dhsic-", ignore_cleanup_errors=True)
        directory = stack.enter_context(scratch)
        with _STARTING, _interrupts_held(), dask.config.set(LOCAL_SETTINGS):
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
    """Hold signals back, since what is half started cannot be closed, and Ctrl-C from all of it.

    A terminal sends Ctrl-C to every process. Each worker would write a traceback of its own; the
    main thread closes them instead.
    """
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
        resource_tracker.ensure_running()  # it unblocks the signals of the thread that starts it
        # Inherited by all that is started here; the client alone decides what ends with it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    finally:
        for restored, handler in handlers.items():
            signal.signal(restored, handler)
    # The first one is delivered, now that there is something to close.
    if held:
        handlers[held[0]](held[0], None)


def _kill(cluster: Any) -> None:
    """End the workers without waiting for the tasks that they are in."""
    import asyncio  # slow to import

    async def close() -> None:
        nannies = list(cluster.workers.values())
        # Nannies kill what does not leave in time, and all of them at once.
        await asyncio.gather(*(nanny.close(timeout=_KILL_SECONDS) for nanny in nannies))

    with suppress(Exception):
        cluster.sync(close)


# --- facts about a cluster: its workers, its dashboard, a report of how time was spent


def worker_count(client: Any) -> int | None:
    """Worker processes as the client last heard of them, without asking; None where it did not.

    A client asks its scheduler every two seconds.
    """
    known = getattr(client, "_scheduler_identity", {})
    return known.get("n_workers", len(known["workers"]) if "workers" in known else None)


def dashboard_link(client: Any) -> str | None:
    """URL of the dashboard of a client's scheduler, None where it serves none that we reach."""
    with suppress(Exception):  # a run goes on without it
        machine, listening = client.run_on_scheduler(_dashboard_place)
        named, host = urlsplit(str(client.dashboard_link)), ip_address(listening)
        # Dask names the address of the scheduler, also where the dashboard listens on another. A
        # link that was configured, as of a proxy, does not name it.
        if host.is_unspecified or (named.hostname or "no host") not in client.scheduler.address:
            return named.geturl()
        if not host.is_loopback or machine == gethostname():
            return named._replace(netloc=f"{host}:{named.port}").geturl()
    return None


def _dashboard_place(dask_scheduler: Any) -> tuple[str, str] | None:
    """The machine, and the address on which it listens; None where there is none."""
    # A scheduler without one has an HTTP server all the same, for its health and its metrics.
    place = gethostname(), str(dask_scheduler.http_server.address)
    return place if dask_scheduler.http_application.applications else None


@contextmanager
def performance_report(client: Any, path: str | Path) -> Iterator[None]:
    """Write how a cluster spent its time while the block ran: tasks, profiles, memory, transfers.

    The file is one HTML page, with all that it needs to be read offline. It is written whole or
    not at all, and not where the block ends by an error. It names addresses of the scheduler and
    the workers, lines of code that ran and what the scheduler logged; no data.

    Parameters
    ----------
    client : distributed.Client
        Client of the cluster. Its scheduler needs bokeh: ``pip install 'dhsic[report]'``.
    path : str or Path
        The file; one that is there is replaced.

    Raises
    ------
    InvalidArgumentError
        There is no client.
    MissingDependencyError
        The scheduler lacks bokeh.
    DataError
        The file cannot be written.
    """
    if client is None:
        msg = "a performance report needs worker processes: start some, or give a client"
        raise InvalidArgumentError(msg)
    # The scheduler draws the report, and needs the library where it runs.
    with needing("bokeh", "report", "a performance report, which the scheduler makes,"):
        client.run_on_scheduler(version, "bokeh")
    import distributed  # slow to import

    with client.as_current():
        report = distributed.performance_report(mode="inline")
        # Entered by hand, since its end gets another name, and no source, below.
        client.sync(report.__aenter__)
        yield
        with written_whole(Path(path)) as partial:
            report.filename = str(partial)
            # Dask would show the caller's source, which may hold a password.
            client.sync(report.__aexit__, None, None, None, code=f"dhsic {__version__}")
