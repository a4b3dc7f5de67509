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


def write_csv(path: str, rows: Iterable[Mapping[str, Any]], keys: Sequence[str] = ()) -> None:
    """Print and write every row as it comes, so that an interrupted study keeps what it has.

    With keys a row is written in place of the one of the table that they do not tell from it, and
    the others stay, so that several calls can make a table; without any the table begins anew.
    It stays as it is where no row comes, as of a study that lacks a library.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    table = {keys_of(row, keys): row for row in read_csv(path)} if keys else {}
    fresh, names = True, list[str]()
    for row in rows:
        print(json.dumps(row), flush=True)
        written = {key: _short(value) for key, value in row.items()}
        place = keys_of(written, keys) or (str(len(table)),)
        fresh = fresh or place in table
        table[place] = written
        # Rows that are added may have their columns in another order.
        names = list(written) if fresh else names
        with target.open("w" if fresh else "a", newline="") as file:
            writer = csv.DictWriter(file, names, lineterminator="\n")
            if fresh:
                writer.writeheader()
            writer.writerows(table.values() if fresh else [written])
        fresh = False


def read_csv(path: str) -> list[Mapping[str, Any]]:
    """Rows of a table, none where there is no file."""
    if not Path(path).exists():
        return []
    with Path(path).open(newline="") as file:
        return list(csv.DictReader(file))


def keys_of(row: Mapping[str, Any], keys: Iterable[str]) -> tuple[str, ...]:
    """What tells a row from the others of its table, as it is written."""
    return tuple(str(row[key]) for key in keys)


def _short(value: Any) -> Any:
    return f"{value:.4g}" if isinstance(value, float) else value


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
