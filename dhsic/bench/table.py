"""The table of a study: medians over the turns, and what more workers gain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from dhsic.bench.settings import SETTINGS

Row = Mapping[str, Any]

MEASURED = ("seconds", "pass_seconds", "task_seconds", "processor_seconds")


def varied_in(runs: Sequence[Row]) -> tuple[str, ...]:
    """Settings of more than one value; landmarks that each number of rows has its own of follow."""
    several = [name for name in SETTINGS if len({run[name] for run in runs}) > 1]
    rows = {run["rows"] for run in runs}
    # Landmarks that follow from the rows do not vary by themselves.
    if len(rows) > 1 and len({(run["rows"], run["landmarks"]) for run in runs}) == len(rows):
        several = [name for name in several if name != "landmarks"]
    return tuple(several)


def table_of(runs: Sequence[Row], *, weak: bool) -> list[dict[str, Any]]:
    """A row a setting, in the order of the runs.

    Parameters
    ----------
    runs : sequence of mapping
        Settings and measurements.
    weak : bool
        Whether a speed-up is that in rows a second, the rows of a worker being constant.
    """
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for run in runs:
        # Runs of one setting are turns, of which a row has the medians.
        groups.setdefault(tuple(run[name] for name in SETTINGS), []).append(run)
    every, varied = list(groups.values()), varied_in(runs)
    like = [name for name in varied if name != "workers" and not (weak and name == "rows")]
    passes = dict.fromkeys(name for run in runs for name in run if name.startswith("seconds: "))
    return [
        {
            **{name: group[0][name] for name in SETTINGS},
            **_medians(group, passes),
            "all_seconds": tuple(run["seconds"] for run in group),
            "relative": _ratio(group, every[0]),
            **(_gain(group, every, like, weak) if "workers" in varied else _NO_GAIN),
        }
        for group in every
    ]


_NO_GAIN: dict[str, float | None] = {"speedup": None, "efficiency": None}


def _gain(
    runs: Sequence[Row], groups: Sequence[Sequence[Row]], like: Sequence[str], weak: bool
) -> dict[str, Any]:
    """Beside the fewest workers with the same other settings."""
    alike = [g for g in groups if all(g[0][name] == runs[0][name] for name in like)]
    # Gains are told against the fewest workers, since one worker may not hold the data.
    base = min(alike, key=lambda group: group[0]["workers"])
    times, ratio = runs[0]["workers"] / base[0]["workers"], _ratio(base, runs)
    if ratio is None:
        return _NO_GAIN
    # In weak scaling a run of twice the workers does twice the work in the same time.
    speedup = ratio * times if weak else ratio
    return {"speedup": speedup, "efficiency": speedup / times}


def _ratio(above: Iterable[Row], below: Iterable[Row]) -> float | None:
    """Median over the turns that both have."""
    seconds = {run["repeat"]: run["seconds"] for run in below}
    # Within a turn, since what else the machine does changes from one to the next.
    ratios = [r["seconds"] / seconds[r["repeat"]] for r in above if r["repeat"] in seconds]
    return median(ratios) if ratios else None


def _medians(runs: list[Row], passes: Iterable[str]) -> dict[str, Any]:
    """Medians of what is measured; of memory the most, and of p-values, all alike, the first."""
    middle = {name: median(run[name] for run in runs) for name in MEASURED}
    each: dict[str, list[Any]] = {name: [run.get(name) for run in runs] for name in passes}
    shares = {name: None if None in times else median(times) for name, times in each.items()}
    peaks = [run["peak_bytes"] for run in runs if run["peak_bytes"] is not None]
    same = {name: runs[0][name] for name in ("bytes_read", "planned_bytes", "pvalue")}
    # A budget must hold in every run: the median of peaks would hide the one that breaks it.
    return {**middle, **shares, **same, "peak_bytes": max(peaks, default=None)}
