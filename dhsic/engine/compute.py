"""Compute tasks on Dask: on threads of this process or on any cluster.

Dask is slow to import, so that each function imports what it uses of it.
"""

from __future__ import annotations

import os
import pickle
import sys
import uuid
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

from dhsic.engine.blas import one_blas_thread
from dhsic.engine.reduction import pickled
from dhsic.engine.runtime import Runtime
from dhsic.engine.supervision import as_they_finish, fetched, threads_of_workers

if TYPE_CHECKING:
    from dask.delayed import Delayed

_PIECE = 4 * 2**20
_TRAVELS_LIGHT = 2**20  # bytes of a partial result, which may come from any worker


Near = Callable[[int], AbstractContextManager[Any]]


class Job(NamedTuple):
    """Tasks to compute."""

    leaves: list[Delayed]
    """Tasks that do the work."""
    amounts: list[int]
    """How much of it each does."""
    wanted: list[Delayed]
    """Tasks whose results are wanted: leaves, or what combines them."""


def compute(job: Job, runtime: Runtime, tell: Callable[[int], None]) -> list[Any]:
    """Compute what is wanted, in order, and tell how much every leaf did when it is done.

    The job is empty afterwards: a traceback must not hold on to what was sent.
    """
    amounts = {leaf.key: amount for leaf, amount in zip(job.leaves, job.amounts, strict=True)}
    if runtime.client is None:
        return _on_threads(job, amounts, runtime.threads, tell)
    return _on_client(job, amounts, runtime.client, tell)


def as_task(function: Callable[..., Any]) -> Any:
    """A function whose calls are tasks, each with a key of its own."""
    from dask.delayed import delayed

    # Calls with equal arguments stay different tasks, and Dask need not hash their arrays.
    return delayed(function, pure=False, traverse=False)


def held(value: Any, runtime: Runtime) -> Any:
    """An argument that many tasks share."""
    if runtime.client is not None:
        return ship(runtime.client, value)
    from dask.delayed import delayed

    # It gets a name, or Dask would hash the value.
    return delayed(value, name=f"held-{uuid.uuid4().hex}", pure=False, traverse=False)


def neighbours_together(leaves: int, state: int, runtime: Runtime) -> Near:
    """Contexts to make tasks in, by the number of a leaf, in which neighbours share a worker.

    Partial results are then added where they are, and few of them travel. A worker is a wish: where
    it is lost, or behind others, these take over what is left.

    Parameters
    ----------
    leaves : int
        Tasks whose results are combined in order.
    state : int
        Bytes of a partial result.
    runtime : Runtime
        Where they run.
    """
    # The scheduler is asked for its workers only where it matters to which a task goes.
    placed = runtime.client is not None and state >= _TRAVELS_LIGHT
    threads = threads_of_workers(runtime.client) if placed else {}
    slots = [worker for worker in sorted(threads) for _ in range(threads[worker])]
    if not slots:
        return lambda _: nullcontext()
    import dask

    def near(leaf: int) -> AbstractContextManager[Any]:
        # what is kept of a run that ended early may follow the last leaf
        worker = slots[min(leaf, leaves - 1) * len(slots) // max(leaves, 1)]
        place: AbstractContextManager[Any] = dask.annotate(
            workers=[worker], allow_other_workers=True
        )
        return place

    return near


def culled(tasks: Sequence[Delayed]) -> list[Delayed]:
    """A few tasks, with no more of their graphs than they need."""
    import dask

    return list(dask.optimize(*tasks))


def begin(lazy: Sequence[Any], runtime: Runtime) -> list[Any]:
    """Values of what Dask can compute; futures of them where there is a client."""
    if runtime.client is not None:
        return list(runtime.client.compute(lazy))
    import dask

    return list(dask.compute(*lazy, scheduler="threads", num_workers=runtime.threads))


def ship(client: Any, value: Any) -> Any:
    """Send a value once, as tasks: unlike scattered data it survives the loss of every worker.

    It goes in pieces, since Dask warns of tasks that carry more than 10 MB.
    """
    # Cut up, since a message of one large value would block the scheduler while it passes.
    data = pickled(value)
    name = f"dhsic-{uuid.uuid4().hex}"
    pieces = [
        client.submit(bytes, data[start : start + _PIECE], key=f"{name}-{start}", pure=False)
        for start in range(0, len(data), _PIECE)
    ]
    return client.submit(_assemble, pieces, key=name, pure=False)


def _assemble(pieces: Sequence[bytes]) -> Any:
    return pickle.loads(b"".join(pieces))


def _on_threads(
    job: Job, amounts: dict[str, int], threads: int, tell: Callable[[int], None]
) -> list[Any]:
    import dask
    from dask.callbacks import Callback

    def finished(key: str, *_: Any) -> None:
        if key in amounts:
            tell(amounts[key])

    wanted = tuple(job.wanted)
    # The graph alone holds the tasks from here on, so that each can be freed when it is done.
    job.leaves.clear()
    job.wanted.clear()
    # Fused tasks would have other keys, by which the work that is done is told.
    with one_blas_thread(), Callback(posttask=finished):
        return list(
            dask.compute(*wanted, scheduler="threads", num_workers=threads, optimize_graph=False)
        )


def _forget_threads() -> None:
    """Let no fork wait for threads of its parent, which it has not: pools of Dask, and clients."""
    if (threaded := sys.modules.get("dask.threaded")) is not None:
        threaded.pools.clear()
        vars(threaded)["default_pool"] = None
    if (distributed := sys.modules.get("distributed.client")) is not None:
        for client in list(distributed.Client._instances):
            client.status = "closed"


os.register_at_fork(after_in_child=_forget_threads)


def _on_client(
    job: Job, amounts: dict[str, int], client: Any, tell: Callable[[int], None]
) -> list[Any]:
    tasks = {task.key: task for task in [*job.leaves, *job.wanted]}
    wanted = [task.key for task in job.wanted]
    # Dask would look through all keys for every task, and the scheduler drops what is not needed.
    sent = client.compute(list(tasks.values()), optimize_graph=False)
    futures = dict(zip(tasks, sent, strict=True))
    for emptied in (tasks, job.leaves, job.wanted):
        emptied.clear()
    # An error or a cancelled task ends the run here, and not when all others are done.
    try:
        for future in as_they_finish(list(futures.values()), client):
            # One whose worker is lost by now is computed again where it is needed, without a wait.
            if future.status in ("error", "cancelled"):
                future.result()
            if future.key in amounts:
                tell(amounts[future.key])
            if future.key not in wanted:  # what waits in the combine tree holds on to it
                future.release()
        return fetched([futures[key] for key in wanted], client)
    finally:
        for future in futures.values():  # not Client.cancel, which fails on what waits in the tree
            future.release()
