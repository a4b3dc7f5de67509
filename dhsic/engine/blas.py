"""One BLAS thread while other threads work: the parallelism is theirs."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# Runs of several threads begin and end at the same time.
_lock = threading.Lock()
_running: list[Any] = []


@functools.cache
def _libraries() -> Any:
    """Found once: looking through the loaded libraries takes longer than a small pass.

    That of SciPy is another than that of NumPy, and is not found before it is loaded.
    """
    import scipy.linalg  # noqa: F401
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit the BLAS of this process; the last of several runs at a time lifts the limit."""
    with _lock:
        # One limit is enough: a second would take the limited state for the original, and leave it
        # so.
        _running.append(_running[0] if _running else _libraries().limit(limits=1, user_api="blas"))
    try:
        yield
    finally:
        with _lock:
            limit = _running.pop()
            if not _running:
                limit.restore_original_limits()
