"""Failures of a cluster, in words for the user."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dhsic.engine.checkpoint import Checkpoint
from dhsic.engine.supervision import StalledError
from dhsic.errors import DhsicError, MemoryBudgetError


@contextmanager
def explained_failures(
    checkpoint: Checkpoint | None = None, rows_of: Callable[[str], str] = lambda key: ""
) -> Iterator[None]:
    """Turn the loss of workers or of the scheduler into an error with a remedy.

    Parameters
    ----------
    checkpoint : Checkpoint, optional
        Where what is done is kept.
    rows_of : callable, optional
        Says which rows a task is about, given its key.

    Raises
    ------
    MemoryBudgetError
        Workers died of the same task, one after the other.
    DhsicError
        The scheduler is gone or silent, or no worker can work.
    """
    again = "start again"
    if checkpoint is not None:
        again = f"start again, since what is done is kept in {checkpoint.folder}"
    try:
        yield
    except StalledError as error:
        again = again if checkpoint is not None else "run again with the same seed"
        msg = f"{error.seen}: {error.remedy}, and {again}"
        raise DhsicError(msg) from error
    except Exception as error:
        if (told := _explained(error, again, rows_of)) is None:
            raise
        raise told from error


def _explained(error: Exception, again: str, rows_of: Callable[[str], str]) -> DhsicError | None:
    """Explain an error of a cluster; None for other errors."""
    # Nothing of a cluster can have failed where its library was never loaded.
    if "distributed" not in sys.modules:  # slow to import, and no error is one of its own
        return None
    from distributed.client import FutureCancelledError
    from distributed.comm import CommClosedError
    from distributed.scheduler import KilledWorker

    if isinstance(error, KilledWorker):
        rows = rows_of(str(error.task))
        msg = (
            f"{error.allowed_failures + 1} workers died while they ran the same task"
            f"{f' ({rows})' if rows else ''}, most likely because they took more memory than "
            "they have: allow more memory, or take fewer landmarks or resamples"
        )
        return MemoryBudgetError(msg)
    lost = isinstance(error, CommClosedError)
    if isinstance(error, FutureCancelledError):
        lost = error.reason == "scheduler-connection-lost"
    if not lost:
        return None
    msg = f"the connection to the scheduler was lost: see whether it runs, and {again}"
    return DhsicError(msg)
