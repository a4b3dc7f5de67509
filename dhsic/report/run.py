"""Facts about the run behind a result, for its report."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass

from dhsic.engine.units import format_bytes
from dhsic.report.parts import Cell, Part, facts, listing, note, number, section_of, table_of
from dhsic.results import PassSummary

_LIBRARIES = ("numpy", "scipy", "dask", "distributed", "zarr")


@dataclass(frozen=True)
class MemoryUse:
    """Memory as planned and as measured, in bytes.

    Parameters
    ----------
    process : str
        Whose it is, as "a worker".
    planned : int
        Predicted peak.
    peak : int or None
        The most that it had; None where that is not known.

    Examples
    --------
    >>> from dhsic.report import MemoryUse
    >>> use = MemoryUse("a worker", planned=2**30, peak=2**29)
    >>> f"{use.peak / use.planned:.0%} of the plan"
    '50% of the plan'
    """

    process: str
    planned: int
    peak: int | None


@dataclass(frozen=True)
class Run:
    """How a result came about.

    Parameters
    ----------
    data : str, optional
        Where the data are.
    command : str, optional
        A line for a shell that gives the result again; without credentials.
    python : str, optional
        Code that does.
    ran_on : str, optional
        On what it ran.
    memory : sequence of MemoryUse, optional
        Memory of every kind of process.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import dhsic
    >>> from dhsic.report import Run
    >>> x, y = np.random.default_rng(0).standard_normal((2, 100))
    >>> result = dhsic.independence_test(x, y, rng=0)
    >>> run = Run(data="weather.csv", command="dhsic test weather.csv", ran_on="2 threads")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "report.html"
    ...     result.report(path, run=run)
    ...     "dhsic test weather.csv" in path.read_text()
    True
    """

    data: str = ""
    command: str = ""
    python: str = ""
    ran_on: str = ""
    memory: Sequence[MemoryUse] = ()


def timings(
    passes: Sequence[PassSummary], seconds: float, n: int, memory: Sequence[MemoryUse]
) -> Part:
    """Time of every pass, and memory as planned and measured."""
    read = [
        {
            "pass over the data": done.name,
            "row blocks": done.blocks,
            "read": _bytes(done.bytes_read),
            "seconds": number(done.seconds, ".3g"),
            "rows a second": number(n / done.seconds if done.seconds > 0 else 0.0, ",.0f"),
        }
        for done in passes
    ]
    taken = [
        {
            "process": use.process,
            "planned peak": _bytes(use.planned),
            "measured peak": Cell("not known", 0.0) if use.peak is None else _bytes(use.peak),
            "% of plan": Cell("", 0.0)
            if use.peak is None
            else number(100 * use.peak / use.planned, ".0f"),
        }
        for use in memory
    ]
    unknown = note("The peak of memory was not measured.")
    whole = facts([("whole time", f"{seconds:.3g} s")])
    parts = [whole, table_of("Passes over the data", read), table_of("Memory", taken) or unknown]
    return section_of("Time and memory", parts)


def _bytes(count: int) -> Cell:
    return Cell(format_bytes(count), float(count))


def reproduction(run: Run, seed: int | None, made_by: str) -> Part:
    """How to get the result again."""
    from importlib.metadata import version  # slow to import

    listings = [("By command", run.command), ("By Python", run.python)]
    # The libraries on which the last digits depend.
    versions = ", ".join(f"{name} {version(name)}" for name in _LIBRARIES)
    system = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    told = [
        *([] if seed is None else [("seed", str(seed))]),
        ("dhsic", made_by),
        ("libraries", versions),
        ("system", f"{system}, {os.cpu_count()} processors"),
    ]
    same = (
        "The same data, arguments and seed give the same answer: bit for bit for the same row "
        "blocks, whatever the threads and workers, and to rounding for any blocks."
    )
    parts = [*(listing(name, text) for name, text in listings if text), note(same), facts(told)]
    return section_of("How to get it again", parts)
