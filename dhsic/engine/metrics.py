"""Counters of the work that a process has done, for Prometheus.

Where ``prometheus_client`` is installed, a Dask worker serves them with its own, at ``/metrics`` of
its HTTP port. They count work: a block that ran twice counts twice.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from importlib import import_module
from threading import Lock
from typing import Any

from dhsic.engine.reduction import GroupBlock, RowBlock

_COUNTED = {
    "dhsic_tasks": "Tasks over row blocks or pairs of them.",
    "dhsic_rows": "Rows of the blocks that these tasks took.",
    "dhsic_block_bytes": "Bytes of these blocks, as arrays.",
    "dhsic_task_seconds": "Seconds in these tasks, reading included.",
}


_FIRST = Lock()
"""Tasks of several threads may count first at the same time."""


def count_task(name: str, blocks: Collection[RowBlock | GroupBlock], seconds: float) -> None:
    """Count a task of the pass of that name, with the row blocks it took and its time."""
    # Threads may come here at the same time, and a name can be registered once.
    with _FIRST:
        counters = _counters()
    # Without the library nothing is counted, and no task fails for it.
    if not counters:
        return
    arrays = [values for block in blocks for values in block.values]
    rows, size = sum(block.rows for block in blocks), sum(values.nbytes for values in arrays)
    for counter, amount in zip(counters, (1, rows, size, seconds), strict=True):
        counter.labels(name).inc(amount)


@cache
def _counters() -> list[Any]:
    """Made once, when a task counts first: the library is slow to import."""
    # Imported by name, since it is an optional extra.
    try:
        library = import_module("prometheus_client")
    except ImportError:
        return []
    return [library.Counter(name, meaning, ["pass"]) for name, meaning in _COUNTED.items()]
