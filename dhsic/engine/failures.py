"""What a cluster can do to a run, said in words for the user."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from distributed.client import FutureCancelledError
from distributed.scheduler import KilledWorker

from dhsic.errors import DhsicError, MemoryBudgetError

__all__ = ["failures_in_words"]


@contextmanager
def failures_in_words() -> Iterator[None]:
    """Turn the loss of workers or of the scheduler into an error with a remedy.

    Raises
    ------
    MemoryBudgetError
        Workers died of the same task, one after the other.
    DhsicError
        The scheduler is gone.
    """
    try:
        yield
    except KilledWorker as error:
        msg = (
            f"{error.allowed_failures + 1} workers died while they ran the same task, most likely "
            "because they took more memory than they have: allow more memory, or take fewer "
            "landmarks or resamples"
        )
        raise MemoryBudgetError(msg) from error
    except FutureCancelledError as error:
        if error.reason != "scheduler-connection-lost":
            raise
        msg = "the connection to the scheduler was lost: see whether it runs, and start again"
        raise DhsicError(msg) from error
