"""Where benchmarks write, and how they use the processors."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from threadpoolctl import threadpool_limits

Item = TypeVar("Item")
Value = TypeVar("Value")


def write_csv(path: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Print and write every row as it comes, so that an interrupted study keeps what it has.

    A table that is there stays where no row comes, as of a study that lacks a library.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    coming = iter(rows)
    first = next(coming, None)
    if first is None:
        return
    with target.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(first), lineterminator="\n")
        writer.writeheader()
        for row in chain([first], coming):
            print(json.dumps(row), flush=True)
            writer.writerow({key: _short(value) for key, value in row.items()})
            file.flush()


def write_into(path: str, rows: Iterable[Mapping[str, Any]], keys: Sequence[str]) -> None:
    """Print and write every row as it comes, in place of one that the keys do not tell from it.

    The others of the table stay, so that several calls can make it.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    table = {keys_of(row, keys): row for row in read_csv(path)}
    for row in rows:
        print(json.dumps(row), flush=True)
        written = {key: _short(value) for key, value in row.items()}
        table[keys_of(written, keys)] = written
        with target.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(written), lineterminator="\n")
            writer.writeheader()
            writer.writerows(table.values())


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
