"""A study, and the one runner of all studies.

A study measures methods on data of several sizes. A cell is one method on one kind of data of one
size; it is measured so many times and becomes one row of a table, or a few. The runner writes the
table after every cell, and a run that was interrupted goes on with the cells that are missing.
Every row ends with the date, the commit and the version of the defaults that it was measured with
(`dhsic.estimators.choose.DEFAULTS`), which is empty where the method chooses everything by value.
So a table shows by itself whether it describes the defaults of today.
"""

from __future__ import annotations

import csv
import datetime
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import click
from threadpoolctl import threadpool_limits

from dhsic.estimators.choose import DEFAULTS

Row = Mapping[str, Any]
Table = Sequence[Row]

RESULTS = Path(__file__).parent / "results"
KEYS = ("data", "method", "n")
STAMPS = ("date", "commit", "default")
FEWEST_RUNS = 10
"""Of a cell that has fewer runs than were asked for, as they would take too long."""


class Cell(NamedTuple):
    """One method on one kind of data of one size: their names, and what the study has for them."""

    data: str
    method: str
    n: Any
    draw: Any
    test: Any

    @property
    def keys(self) -> tuple[str, ...]:
        """How the table tells the cell from others."""
        return self.data, self.method, str(self.n)


def means(cell: Cell, found: Sequence[Mapping[str, float]]) -> Iterator[Row]:
    """One row with the mean of every number over all runs."""
    yield {name: sum(one[name] for one in found) / len(found) for name in found[0]}


def everything(*_: Any) -> bool:
    return True


def nothing(*_: Any) -> bool:
    return False


@dataclass(frozen=True)
class Study:
    """What is measured on which data, and how it is written."""

    name: str
    """Of the study and its table."""
    title: str
    """The question that the study answers."""
    data: Mapping[str, Any]
    methods: Mapping[str, Any]
    sizes: Sequence[Any]
    measure: Callable[[Cell, int], Any]
    """One run of a cell: what it finds with data set number so and so."""
    columns: Sequence[str]
    """Of the table, between the keys and the stamps; `runs` stands before them."""
    runs: int = 1
    rows: Callable[[Cell, Sequence[Any]], Iterable[Row]] = means
    """Rows of a cell, by what its runs found."""
    takes: Callable[[Cell], bool] = everything
    """Whether a cell is measured."""
    follows_defaults: Callable[[Cell], bool] = nothing
    """Whether a cell leaves its estimator, its kernels or its null to the package."""
    small: Mapping[str, Any] = field(default_factory=dict)
    """Fields of a small run: names of some `data` and `methods`, other `sizes` and `runs`."""
    picture: Callable[[Table, Path], None] | None = None
    """Draws the table to a file."""
    in_pool: bool = True
    """Whether runs may be beside each other: those whose time is told are not."""

    @property
    def names(self) -> list[str]:
        """The columns of the table."""
        return [*KEYS, "runs", *self.columns, *STAMPS]

    def cells(self) -> list[Cell]:
        """All that are measured, small ones first."""
        chosen = product(self.sizes, self.data.items(), self.methods.items())
        every = (Cell(data, method, n, draw, test) for n, (data, draw), (method, test) in chosen)
        return [cell for cell in every if self.takes(cell)]

    def of(self, data: Iterable[str] = (), methods: Iterable[str] = (), **fields: Any) -> Study:
        """The study of some data, methods, sizes or runs alone; empty ones stay as they are."""
        asked = {"data": list(data), "methods": list(methods)}
        some: dict[str, Any] = {
            what: {name: getattr(self, what)[name] for name in names}
            for what, names in asked.items()
            if names
        }
        return replace(self, **some, **{name: value for name, value in fields.items() if value})


def run(
    study: Study,
    folder: Path = RESULTS,
    *,
    processes: int = 1,
    first: int = 0,
    seconds: float = float("inf"),
    again: bool = False,
) -> list[Row]:
    """Measure the cells that the table lacks, and return the whole table.

    Runs have the numbers `first`, `first + 1` and so on. A cell whose runs would take longer than
    `seconds`, by its first one, has fewer runs, but not under 10. With `again` cells that the table
    has are measured anew, and take the places of the old ones.
    """
    path = folder / f"{study.name}.csv"
    table = read_table(path)
    if table and list(table[0]) != study.names:
        msg = (
            f"{path} has the columns {', '.join(table[0])}, and the study writes "
            f"{', '.join(study.names)}: name another folder with --out"
        )
        raise click.ClickException(msg)
    done = {keys_of(row) for row in table}
    cells = [cell for cell in study.cells() if again or cell.keys not in done]
    stamp = stamped()
    with _pool(study, processes if study.in_pool else 1) as workers, threadpool_limits(1, "blas"):
        for number, cell in enumerate(cells, 1):
            began = time.perf_counter()
            found = _measured(study, cell, workers, first, seconds)
            default = DEFAULTS if study.follows_defaults(cell) else ""
            rows = [
                {
                    **dict(zip(KEYS, cell.keys, strict=True)),
                    "runs": len(found),
                    **row,
                    **stamp,
                    "default": default,
                }
                for row in study.rows(cell, found)
            ]
            table = [row for row in read_table(path) if keys_of(row) != cell.keys] + [
                {name: shown(row.get(name, "")) for name in study.names} for row in rows
            ]
            write_table(path, study.names, table)
            spent = time.perf_counter() - began
            print(
                f"{number} of {len(cells)}, {spent:.1f} s: {', '.join(cell.keys)}",
                *(
                    f"{name} {shown(row[name])}"
                    for row in rows[:1]
                    for name in study.columns[:3]
                    if name in row
                ),
                sep="; ",
                file=sys.stderr,
                flush=True,
            )
    if study.picture is not None and table:
        study.picture(table, path.with_suffix(".png"))
    return table


def _pool(study: Study, processes: int) -> Any:
    if processes == 1:
        return nullcontext()
    return ProcessPoolExecutor(processes, initializer=_begin, initargs=(study.name,))


_running: list[Study] = []


def _begin(name: str) -> None:
    """In a process of the pool: data and methods are looked up, as not all can be sent."""
    from benchmarks.__main__ import study_of

    threadpool_limits(1, "blas")
    _running[:] = [study_of(name)]


def _in_pool(task: tuple[str, str, Any, int]) -> Any:
    (study,) = _running
    data, method, n, number = task
    return study.measure(Cell(data, method, n, study.data[data], study.methods[method]), number)


def _measured(study: Study, cell: Cell, workers: Any, first: int, seconds: float) -> list[Any]:
    began = time.perf_counter()
    found = [study.measure(cell, first)]
    spent = time.perf_counter() - began
    fits = study.runs if spent * study.runs <= seconds else int(seconds / spent)
    numbers = range(first + 1, first + min(study.runs, max(FEWEST_RUNS, fits)))
    if workers is None:
        return found + [study.measure(cell, number) for number in numbers]
    tasks = [(cell.data, cell.method, cell.n, number) for number in numbers]
    return found + list(workers.map(_in_pool, tasks, chunksize=max(1, len(tasks) // 40)))


def stamped() -> dict[str, str]:
    """The date, and the commit with a + where files differ from it."""

    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", *words], cwd=RESULTS.parents[1], capture_output=True, text=True, check=False
        )
        return done.stdout.strip()

    changed = git("status", "--porcelain", "--", "dhsic", "benchmarks/*.py")
    commit = git("rev-parse", "--short=7", "HEAD")
    return {
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "commit": f"{commit}{'+' * bool(changed)}" if commit else "unknown",
    }


def keys_of(row: Row) -> tuple[str, ...]:
    """What tells the cell of a row."""
    return tuple(str(row[key]) for key in KEYS)


def shown(value: Any) -> str:
    """A value as tables have it."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def read_table(path: Path) -> list[Row]:
    """Rows of a table, none where there is no file."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def write_table(path: Path, names: Sequence[str], table: Table) -> None:
    """Write a table in whole: an interrupt leaves the former one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    with part.open("w", newline="") as file:
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)
    os.replace(part, path)


def stale(table: Table) -> list[Row]:
    """Rows that describe defaults of an earlier version."""
    return [row for row in table if row["default"] not in ("", str(DEFAULTS))]


def commits(table: Table) -> list[str]:
    """Those that rows were measured with, the last one last."""
    return list(dict.fromkeys(row["commit"] for row in sorted(table, key=lambda row: row["date"])))


def origin(table: Table) -> str:
    """When and by which commits rows were measured, and whether their defaults are today's."""
    dates = sorted({row["date"] for row in table})
    found = commits(table)
    named = ", ".join(f"`{commit}`" for commit in found[-3:])
    more = f" and {len(found) - 3} earlier" if len(found) > 3 else ""
    days = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    old = stale(table)
    if not old:
        return f"Measured {days}, commit {named}{more}."
    versions = ", ".join(sorted({row["default"] for row in old}))
    which = "All" if len(old) == len(table) else f"{len(old):,} of {len(table):,} rows"
    return (
        f"Measured {days}, commit {named}{more}. † {which} are of earlier defaults (version "
        f"{versions}; today's is {DEFAULTS})."
    )
