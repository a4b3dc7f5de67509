"""Wait for what a cluster does, and for no longer than it can do it.

A client of Dask waits for ever where all workers are dead, paused or frozen, or the scheduler is.
All that the engine waits for comes through here: while results come, nothing is asked. Where none
comes for a second, the scheduler is asked for its workers, less and less often.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

STALL_TIMEOUT = "dhsic.stall-timeout"
"""Seconds that a cluster may be without a worker that can work, in the configuration of Dask."""

_STALL_SECONDS = 60.0
_POLL_SECONDS = 0.01
_LOOK_SECONDS = 1.0


class StalledError(Exception):
    """A cluster can do nothing, and has not been able to for some time.

    Parameters
    ----------
    seen : str
        The state that it stays in.
    remedy : str
        A way out.
    """

    def __init__(self, seen: str, remedy: str) -> None:
        super().__init__(seen, remedy)
        self.seen = seen
        self.remedy = remedy


class _WorkerWatch:
    """Knows for how long no worker of a client could work.

    It gives up by an answer of the scheduler that says so, or where one question stays without an
    answer for as long, so that the words for it are true. Its clock goes by a second at the most
    between two looks: a process that was stopped, or had no processor, has not been waiting.

    Parameters
    ----------
    client : distributed.Client
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._beats: dict[str, float] = {}
        self._asked: Any = None
        self.patience = _patience()
        self._seconds, self._looked = 0.0, time.monotonic()
        self.progress()

    def progress(self) -> None:
        """Tasks were done, so that the cluster works."""
        self._tick()
        self._alive = self._seconds
        self._next = self._alive + self._pause(0.0)

    def look(self) -> None:
        """Ask for the workers when it is time to.

        Raises
        ------
        StalledError
            None could work for too long, or the scheduler did not answer for so long.
        """
        self._tick()
        if self._asked is None and self._seconds >= self._next:
            self._asked = _on_loop(self._client, self._client.scheduler.identity)
            self._asked_at = self._seconds
        if self._asked is None:
            return
        if self._asked.done():
            workers = self._asked.result()["workers"]
            self._asked = None
            self._judge(workers)
        elif self._seconds - self._asked_at > self.patience:
            seen = f"the scheduler has not answered for {self.patience:g} s"
            raise StalledError(seen, "see whether it runs, and has a processor to run on")

    def end(self) -> None:
        """Leave no question behind."""
        if self._asked is not None:
            self._asked.cancel()

    def _tick(self) -> None:
        now = time.monotonic()
        # Of a client that was suspended itself, as a laptop is, no more than a second counts.
        self._seconds += min(now - self._looked, _LOOK_SECONDS)
        self._looked = now

    def _judge(self, workers: Mapping[str, Mapping[str, Any]]) -> None:
        """Give up workers of which none works, and none has for too long."""
        working = [self._works(address, worker) for address, worker in workers.items()]
        alone = 0.0 if any(working) else self._seconds - self._alive
        if alone > self.patience:
            raise self._stalled(workers)
        self._alive = self._seconds - alone
        self._next = self._seconds + self._pause(alone)

    def _pause(self, alone: float) -> float:
        """Seconds to the next look: an answer of 1,000 workers has a megabyte."""
        # The last one is when patience ends, and not a quarter of it later.
        return min(max(_LOOK_SECONDS, min(alone, self.patience - alone)), self.patience / 4)

    def _works(self, address: str, worker: Mapping[str, Any]) -> bool:
        """Whether a worker was heard of since the last look, and takes or does tasks."""
        beat = float(worker["last_seen"])
        # A heartbeat that is the same as at the last look was sent before it.
        heard = beat != self._beats.get(address)
        self._beats[address] = beat
        busy = worker.get("metrics", {}).get("task_counts", {}).get("executing", 0)
        return heard and (worker["status"] == "running" or bool(busy))

    def _stalled(self, workers: Mapping[str, Mapping[str, Any]]) -> StalledError:
        """The state that workers are in, in words."""
        seconds = f"{self.patience:g} s"
        if not workers:
            # Whoever asked for processes has nothing to start: their cluster brings them back.
            ours = getattr(self._client, "cluster", None) is not None
            remedy = "see what ends them, as a lack of memory does" if ours else "start some"
            return StalledError(f"the cluster has had no workers for {seconds}", remedy)
        named = f"all {len(workers)} workers"
        if any(worker["status"] == "paused" for worker in workers.values()):
            return StalledError(
                f"{named} have been paused or silent for {seconds}, since their memory is full",
                "free what they hold or give them more memory",
            )
        return StalledError(
            f"nothing has been heard of {named} for {seconds}", "see whether they run"
        )


def _patience() -> float:
    """Seconds that a cluster may be without a worker that can work."""
    import dask

    return float(dask.config.get(STALL_TIMEOUT, _STALL_SECONDS))


def _on_loop(client: Any, ask: Callable[[], Awaitable[Any]]) -> Any:
    """The future, of this thread, of a coroutine that runs where the client runs."""
    import asyncio  # a tenth of a second, which a start of Python does not wait for

    async def asked() -> Any:
        return await ask()

    return asyncio.run_coroutine_threadsafe(asked(), client.loop.asyncio_loop)


def _supervised(client: Any, ask: Callable[[], Awaitable[Any]]) -> Any:
    """The result of a coroutine that runs where the client runs."""
    with _watched_workers(client) as watch:
        answer = _on_loop(client, ask)
        try:
            while True:
                try:
                    return answer.result(timeout=min(_LOOK_SECONDS, watch.patience / 4))
                except TimeoutError:
                    if answer.done():  # the error is that of the task
                        raise
                    watch.look()
        finally:
            answer.cancel()


def threads_of_workers(client: Any) -> dict[str, int]:
    """Threads of each worker by its address, of a scheduler that answers.

    Parameters
    ----------
    client : distributed.Client

    Returns
    -------
    dict of str to int

    Raises
    ------
    StalledError
        The scheduler does not answer.
    """
    if not hasattr(client, "loop"):  # workers that are planned and not started
        return dict(client.nthreads())
    return dict(_supervised(client, client.scheduler.ncores))


def fetched(futures: Sequence[Any], client: Any) -> list[Any]:
    """Results of tasks, computed again where workers were lost that held them.

    Parameters
    ----------
    futures : sequence of distributed.Future
    client : distributed.Client

    Returns
    -------
    list

    Raises
    ------
    StalledError
        The cluster can do nothing, and has not been able to for some time.
    """
    return list(_supervised(client, lambda: client.gather(list(futures), asynchronous=True)))


def as_they_finish(futures: Sequence[Any], client: Any) -> Iterator[Any]:
    """Futures in the order in which they finish.

    Parameters
    ----------
    futures : sequence of distributed.Future
    client : distributed.Client

    Yields
    ------
    distributed.Future

    Raises
    ------
    StalledError
        The cluster can do nothing, and has not been able to for some time.
    """
    from distributed import as_completed

    left, completed = len(futures), as_completed(futures, loop=client.loop)
    with _watched_workers(client) as watch:
        while left:
            batch = completed.next_batch(block=False)
            yield from batch
            left -= len(batch)
            if batch:
                watch.progress()
                continue
            watch.look()
            time.sleep(_POLL_SECONDS)


@contextmanager
def _watched_workers(client: Any) -> Iterator[_WorkerWatch]:
    """Watch a cluster while something is waited for, out of the way of its tasks."""
    watch = _WorkerWatch(client)
    try:
        with aside():
            yield watch
    finally:
        watch.end()


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
