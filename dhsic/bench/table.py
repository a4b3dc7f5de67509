"""The table of a study: medians over the turns, and what more workers gain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from dhsic.bench.settings import SETTINGS

__all__ = ["MEASURED", "Row", "table_of"]

Row = Mapping[str, Any]

MEASURED = ("seconds", "pass_seconds", "task_seconds", "processor_seconds")


def table_of(runs: Iterable[Row], *, gains: bool, weak: bool) -> list[dict[str, Any]]:
    """A row a setting, in the order of the runs.

    Parameters
    ----------
    runs : iterable of mapping
        Settings and measurements.
    gains : bool
        Whether workers vary, so that there is a speed-up.
    weak : bool
        Whether it is that in rows a second, the rows of a worker being constant.
    """
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for run in runs:
        groups.setdefault(tuple(run[name] for name in SETTINGS), []).append(run)
    every = list(groups.values())
    return [
        {
            **{name: group[0][name] for name in SETTINGS},
            **_medians(group),
            "all_seconds": tuple(run["seconds"] for run in group),
            "relative": _ratio(group, every[0]),
            **(_gain(group, every, weak) if gains else _NO_GAIN),
        }
        for group in every
    ]


_NO_GAIN: dict[str, float | None] = {"speedup": None, "efficiency": None}


def _gain(runs: Sequence[Row], groups: Sequence[Sequence[Row]], weak: bool) -> dict[str, Any]:
    """Beside the fewest workers with the same other settings."""
    like = [name for name in SETTINGS if name != "workers" and not (weak and name == "rows")]
    alike = [g for g in groups if all(g[0][name] == runs[0][name] for name in like)]
    base = min(alike, key=lambda group: group[0]["workers"])
    times, ratio = runs[0]["workers"] / base[0]["workers"], _ratio(base, runs)
    if ratio is None:
        return _NO_GAIN
    speedup = ratio * times if weak else ratio
    return {"speedup": speedup, "efficiency": speedup / times}


def _ratio(above: Iterable[Row], below: Iterable[Row]) -> float | None:
    """Median over the turns that both have."""
    seconds = {run["repeat"]: run["seconds"] for run in below}
    ratios = [r["seconds"] / seconds[r["repeat"]] for r in above if r["repeat"] in seconds]
    return median(ratios) if ratios else None


def _medians(runs: list[Row]) -> dict[str, Any]:
    """Medians of what is measured; of memory the most, and of p-values, all alike, the first."""
    passes = [name for name in runs[0] if name.startswith("seconds: ")]
    middle = {name: median(run[name] for run in runs) for name in (*MEASURED, *passes)}
    peaks = [run["peak_bytes"] for run in runs if run["peak_bytes"] is not None]
    same = {name: runs[0][name] for name in ("bytes_read", "planned_bytes", "pvalue")}
    return {**middle, **same, "peak_bytes": max(peaks, default=None)}
