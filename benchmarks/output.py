"""Where benchmarks write, and how they use the processors."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from threadpoolctl import threadpool_limits

Item = TypeVar("Item")
Value = TypeVar("Value")


def write_csv(path: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Print every row as it comes, and write all to a file."""
    written = []
    for row in rows:
        print(json.dumps(row), flush=True)
        written.append(row)
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(written[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(
            {
                key: f"{value:.4g}" if isinstance(value, float) else value
                for key, value in row.items()
            }
            for row in written
        )


def parallel_map(
    function: Callable[[Item], Value], items: Sequence[Item], processes: int
) -> list[Value]:
    """Map over processes with one BLAS thread each; in this process for one."""
    if processes == 1:
        return [function(item) for item in items]
    chunk = max(1, len(items) // (20 * processes))
    with ProcessPoolExecutor(processes, initializer=_one_blas_thread) as pool:
        return list(pool.map(function, items, chunksize=chunk))


def _one_blas_thread() -> None:
    threadpool_limits(1, "blas")
