"""Wait for results of a cluster as long as it can work, and report how it failed.

A client of Dask waits for ever if all workers, or the scheduler, are dead, paused or frozen. The
engine waits for all results through this module. While results arrive, it asks nothing. If none
arrives for a quarter of the allowed time, it asks the scheduler for its workers.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dhsic.errors import DhsicError, MemoryBudgetError

if TYPE_CHECKING:
    from dhsic.engine.checkpoint import Checkpoint

STALL_TIMEOUT = "dhsic.stall-timeout"
"""Seconds that a cluster may be without a worker that can work, in the configuration of Dask."""

_STALL_SECONDS = 60.0
_POLL_SECONDS = 0.01


class StalledError(Exception):
    """A cluster has been able to do nothing for some time: its state, and a way out."""


class _Watch:
    """Knows for how long no worker of a client could work, by the answers of its scheduler."""

    def __init__(self, client: Any) -> None:
        import dask

        self._client = client
        self._beats: dict[str, float] = {}
        self.patience = float(dask.config.get(STALL_TIMEOUT, _STALL_SECONDS))
        self.progress()

    def progress(self) -> None:
        """Tasks were done, so that the cluster works."""
        self._alive = self._looked = time.monotonic()

    def ask(self, question: Callable[[], Any]) -> Any:
        """An answer of the scheduler; a `StalledError` where none comes."""
        try:
            return self._client.sync(question, callback_timeout=self.patience)
        except TimeoutError as error:
            msg = (
                f"the scheduler has not answered for {self.patience:g} s: see whether it runs, and "
                "has a processor to run on"
            )
            raise StalledError(msg) from error

    def look(self) -> None:
        """Ask for the workers when it is time to, and give up where none could work for long."""
        if time.monotonic() - self._looked < self.patience / 4:
            return
        workers = self.ask(self._client.scheduler.identity)["workers"]
        self._looked = time.monotonic()
        before, self._beats = self._beats, {at: one["last_seen"] for at, one in workers.items()}
        # A heartbeat that is the same as at the last look was sent before it.
        heard = (one for at, one in workers.items() if one["last_seen"] != before.get(at))
        if any(one["status"] == "running" or _is_busy(one) for one in heard):
            self._alive = self._looked
        elif self._looked - self._alive > self.patience:
            raise StalledError(self._stalled(workers.values()))

    def _stalled(self, workers: Collection[Mapping[str, Any]]) -> str:
        """The state that workers are in, and a way out, in words."""
        seconds, named = f"{self.patience:g} s", f"all {len(workers)} workers"
        if not workers:
            # Whoever asked for processes has nothing to start: their cluster brings them back.
            ours = getattr(self._client, "cluster", None) is not None
            remedy = "find out what ends them, such as a lack of memory" if ours else "start some"
            return f"the cluster has had no workers for {seconds}: {remedy}"
        if any(worker["status"] == "paused" for worker in workers):
            return (
                f"{named} have been paused or silent for {seconds}, since their memory is full: "
                "free what they hold or give them more memory"
            )
        return f"nothing has been heard of {named} for {seconds}: see whether they run"


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
        return dict(_Watch(client).ask(client.scheduler.ncores))


def fetched(futures: Sequence[Any], client: Any) -> list[Any]:
    """Results of tasks, computed again where workers were lost that held them.

    Raises
    ------
    StalledError
        The cluster can do nothing, and has not been able to for some time.
    """
    import asyncio  # a tenth of a second, which a start of Python does not wait for
    from concurrent.futures import wait

    async def gathered() -> Any:
        return await client.gather(list(futures), asynchronous=True)

    watch = _Watch(client)
    with aside():
        answer = asyncio.run_coroutine_threadsafe(gathered(), client.loop.asyncio_loop)
        try:
            while not wait([answer], timeout=watch.patience / 4).done:
                watch.look()
            return list(answer.result())
        finally:
            answer.cancel()


def as_they_finish(futures: Sequence[Any], client: Any) -> Iterator[Any]:
    """Futures of a client in the order in which they finish.

    Raises
    ------
    StalledError
        The cluster can do nothing, and has not been able to for some time.
    """
    from distributed import as_completed

    left, completed, watch = len(futures), as_completed(futures, loop=client.loop), _Watch(client)
    with aside():
        while left:
            batch = completed.next_batch(block=False)
            yield from batch
            left -= len(batch)
            if batch:
                watch.progress()
            else:
                watch.look()
                time.sleep(_POLL_SECONDS)


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
