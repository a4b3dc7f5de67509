"""Where the runs of a study take place, and what they take of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from dhsic.engine.memory import forget_peak, peak_bytes
from dhsic.engine.runtime import Runtime
from dhsic.errors import ClusterError, InvalidArgumentError

# Jobs wait in a queue for their turn.
_WORKERS_TIMEOUT_SECONDS = 600.0
_LOOK = 0.05
_HERE = "this process"


@dataclass
class Usage:
    """Resources that a run has used.

    Parameters
    ----------
    processor_seconds : float, optional
        Processor seconds of the driver and of all workers.
    peak_bytes : int or None, optional
        Most resident memory of a process that ran tasks; None where no system tells.
    """

    processor_seconds: float = 0.0
    peak_bytes: int | None = None


@dataclass(frozen=True)
class StudyWorkers:
    """Workers of a client, or threads of this process.

    Parameters
    ----------
    client : distributed.Client or None
        Where not given, threads.
    threads : int or None
        Threads of this process.
    """

    client: Any
    threads: int | None

    @property
    def options(self) -> dict[str, Any]:
        """For `independence_test`."""
        return {"client": self.client, "threads": self.threads}

    @contextmanager
    def measured(self) -> Iterator[Usage]:
        """Resources used between the beginning and the end of the block, known at its end.

        Nothing is known of a worker that is lost on the way.
        """
        usage = Usage()
        # The mark is set back, or the peak might be of an earlier run.
        before, forgot = self._processor_seconds(), all(self._everywhere(forget_peak).values())
        yield usage
        after = self._processor_seconds()
        usage.processor_seconds = sum(after[who] - before.get(who, 0.0) for who in after)
        peaks = [peak for peak in self._everywhere(peak_bytes).values() if peak is not None]
        usage.peak_bytes = max(peaks, default=None) if forgot else None

    def _everywhere(self, function: Callable[[], Any]) -> dict[str, Any]:
        """Values of a function in every process that runs tasks."""
        if self.client is None:
            return {_HERE: function()}
        # A worker that is just leaving must not end the study.
        # Two marks of the processor, since workers come and go between them.
        return dict(self.client.run(function, on_error="ignore"))

    def _processor_seconds(self) -> dict[str, float]:
        # Driver steps, as solves, run in this process even where workers have the passes.
        return {_HERE: time.process_time()} | self._everywhere(time.process_time)


class WorkerPool:
    """Local clusters that are started as they are needed, or the client of a user.

    Local ones stay until the end, so that runs can take turns; idle workers take no processor time.

    Parameters
    ----------
    client : distributed.Client or None
        That of the user.
    memory : int or str
        Bytes that the plan may use in a local worker.
    """

    def __init__(self, client: Any, memory: int | str) -> None:
        self.client = client
        # Memory is not planned here: a runtime of one byte says how many workers and threads there
        # are.
        self.runtime = Runtime.here(None, 1) if client is None else Runtime.on(client, 1)
        self.workers = self.runtime.threads if client is None else _asked_for(client)
        self._memory = memory
        self._local: dict[int, Any] = {}
        self._stack = ExitStack()

    def __enter__(self) -> WorkerPool:
        if self.client is not None:
            self._stack.enter_context(_as_it_was(self.client, self.workers))
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    @property
    def described(self) -> str:
        """Where runs take place, as far as two studies can be told apart by it."""
        if self.client is None:
            return "on this machine"
        return f"on a client of workers with {self.runtime.worker_threads} threads"

    def at(self, scheduler: str, workers: int) -> StudyWorkers:
        """So many workers, or threads."""
        if scheduler == "threads":
            return StudyWorkers(None, workers)
        if self.client is not None:
            _scale_cluster(self.client, workers)
            # What is imported takes no time of the first run then.
            self.client.run(_import_for_tasks)
            return StudyWorkers(self.client, None)
        if workers not in self._local:
            from dhsic.cluster import local_cluster

            started = self._stack.enter_context(local_cluster(workers, self._memory))
            started.run(_import_for_tasks)
            self._local[workers] = started
        return StudyWorkers(self._local[workers], None)


def _asked_for(client: Any) -> int:
    """Workers that the cluster of a client is to have, there or not; those of any other client."""
    asked = len(getattr(client.cluster, "plan", ())) or len(client.nthreads())
    # An adaptive cluster may have any number within its limits at the moment.
    fewest, most = _adaptive_limits(client.cluster) or (asked, asked)
    return int(min(max(asked, fewest), most))


def _scale_cluster(client: Any, workers: int) -> None:
    """Bring the cluster of a client to so many workers, and wait for them."""
    stays = _adaptive_limits(client.cluster) in (None, (workers, workers))
    if stays and len(client.nthreads()) == workers == _asked_for(client):
        return
    if not hasattr(client.cluster, "scale"):
        msg = (
            f"client must have {workers} workers, and has {len(client.nthreads())} of a scheduler "
            "that runs already, which cannot be scaled from here: leave 'workers' out of vary"
        )
        raise InvalidArgumentError(msg)
    # Fewest and most alike, or an adaptive cluster would go back to fewer while it waits.
    _ask_for(client.cluster, workers, workers)
    until = time.monotonic() + _WORKERS_TIMEOUT_SECONDS
    while len(client.nthreads()) != workers:
        if time.monotonic() > until:
            msg = (
                f"the cluster was asked for {workers} workers and has {len(client.nthreads())} "
                f"after {_WORKERS_TIMEOUT_SECONDS:g} s: ask for fewer"
            )
            raise ClusterError(msg)
        time.sleep(_LOOK)


def _adaptive_limits(cluster: Any) -> tuple[int, int] | None:
    """Fewest and most workers of a cluster that adapts; Dask has no public name for it."""
    adaptive = getattr(cluster, "_adaptive", None)
    return None if adaptive is None else (adaptive.minimum, adaptive.maximum)


def _ask_for(cluster: Any, fewest: int, most: int) -> None:
    """Scale; what adapts, as job queues do to bring lost workers back, would scale back again."""
    if _adaptive_limits(cluster) is None:
        cluster.scale(most)
    else:
        cluster.adapt(minimum=fewest, maximum=most)


@contextmanager
def _as_it_was(client: Any, workers: int) -> Iterator[None]:
    """Ask for as many workers as before at the end."""
    before = _adaptive_limits(client.cluster)
    try:
        yield
    finally:
        with suppress(Exception):
            if before != _adaptive_limits(client.cluster) or _asked_for(client) != workers:
                _ask_for(client.cluster, *(before or (workers, workers)))


def _import_for_tasks() -> None:
    """Import what a first task would, so that no run is longer by it."""
    import dhsic.api  # noqa: F401
