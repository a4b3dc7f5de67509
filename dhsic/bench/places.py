"""Where the runs of a study take place, and what they take of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dhsic.engine.memory import peak_bytes
from dhsic.engine.runtime import Runtime
from dhsic.errors import ClusterError, InvalidArgumentError

__all__ = ["Place", "Places", "Usage"]

_PATIENCE = 600.0
_LOOK = 0.05


@dataclass
class Usage:
    """What a run has taken.

    Parameters
    ----------
    processor_seconds : float, optional
        Of the driver and of all workers.
    peak_bytes : int or None, optional
        Most resident memory of a process that ran tasks; None where no system tells.
    """

    processor_seconds: float = 0.0
    peak_bytes: int | None = None


@dataclass(frozen=True)
class Place:
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
        """What is used between the beginning and the end of the block, known at its end."""
        usage = Usage()
        began, forgot = self._processor_seconds(), all(self._everywhere(_forget_peak))
        yield usage
        usage.processor_seconds = self._processor_seconds() - began
        peaks = [peak for peak in self._everywhere(peak_bytes) if peak is not None]
        usage.peak_bytes = max(peaks, default=None) if forgot else None

    def _everywhere(self, function: Any) -> list[Any]:
        if self.client is None:
            return [function()]
        return list(self.client.run(function, on_error="ignore").values())

    def _processor_seconds(self) -> float:
        remote = self._everywhere(time.process_time) if self.client is not None else []
        return time.process_time() + float(sum(remote))


class Places:
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
        self.workers: int | None = None
        self._memory = memory
        self._local: dict[int, Any] = {}
        self._stack = ExitStack()
        if client is not None:
            self.workers = Runtime.on(client, 1).workers

    def __enter__(self) -> Places:
        return self

    def __exit__(self, *error: Any) -> None:
        if self.client is not None and len(self.client.nthreads()) != self.workers:
            with suppress(Exception):
                self.client.cluster.scale(self.workers)
        self._stack.__exit__(*error)

    def at(self, scheduler: str, workers: int) -> Place:
        """So many workers, or threads."""
        if scheduler == "threads":
            return Place(None, workers)
        if self.client is not None:
            _scale(self.client, workers)
            return Place(self.client, None)
        if workers not in self._local:
            from dhsic.cluster import local_cluster

            started = self._stack.enter_context(local_cluster(workers, self._memory))
            started.run(_load)
            self._local[workers] = started
        return Place(self._local[workers], None)


def _scale(client: Any, workers: int) -> None:
    """Bring the cluster of a client to so many workers, and wait for them."""
    if len(client.nthreads()) == workers:
        return
    if not hasattr(client.cluster, "scale"):
        msg = (
            f"client must have {workers} workers, and has {len(client.nthreads())} of a scheduler "
            "that runs already, which cannot be scaled from here: leave 'workers' out of vary"
        )
        raise InvalidArgumentError(msg)
    client.cluster.scale(workers)
    until = time.monotonic() + _PATIENCE
    while len(client.nthreads()) != workers:
        if time.monotonic() > until:
            msg = (
                f"the cluster was asked for {workers} workers and has {len(client.nthreads())} "
                f"after {_PATIENCE:g} s: ask for fewer"
            )
            raise ClusterError(msg)
        time.sleep(_LOOK)
    client.run(_load)


def _load() -> None:
    """Import what a first task would, so that no run is longer by it."""
    import dhsic.api  # noqa: F401


def _forget_peak() -> bool:
    """Begin anew to keep the high-water mark of resident memory; False where no system can."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True
