"""Power against rows and against processor time: the frame that studies of power share.

Every method sees the same data sets, which are drawn with the seed [n, run], and gives the p-value
of each; its power is the share that is at most the level, and `error` its standard error, which
says nothing where the power is 0 or 1. `seconds` is the mean processor time of one test with one
BLAS thread, after a first test of the method that is not counted.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from threadpoolctl import threadpool_limits

import dhsic
from benchmarks.shared.cases import Data, Rng
from benchmarks.study import Cell, Row, Study, Table

Draw = Callable[[int, Rng], Data]
Test = Callable[[Data, int], float]

COLUMNS = ("level", "power", "error", "seconds")
# of Okabe and Ito, which colour-blind people tell apart; then by marker and line too
COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES = ("-", "--", ":")
_warm: set[str] = set()


def dhsic_pvalue(data: Data, seed: int, **options: Any) -> float:
    """The p-value of `dhsic.independence_test`, on one thread."""
    return dhsic.independence_test(*data, rng=seed, threads=1, **options).pvalue


def measure(cell: Cell, run: int) -> tuple[float, float]:
    """The p-value and the processor seconds of a test."""
    data = cell.draw(cell.n, np.random.default_rng([cell.n, run]))
    with threadpool_limits(1, "blas"):
        if cell.method not in _warm:
            cell.test(data, run)
            _warm.add(cell.method)
        began = time.process_time()
        pvalue = cell.test(data, run)
        return pvalue, time.process_time() - began


def power(cell: Cell, found: Sequence[tuple[float, float]], level: float) -> Iterator[Row]:
    """Share of the p-values that are at most the level, with its standard error."""
    pvalues, seconds = np.array(found).T
    share = float(np.mean(pvalues <= level + 1e-9))
    error = math.sqrt(share * (1.0 - share) / len(found))
    yield {"level": level, "power": share, "error": error, "seconds": float(seconds.mean())}


def study(
    name: str,
    title: str,
    data: Mapping[str, Draw],
    methods: Mapping[str, Test],
    sizes: Sequence[int],
    level: float = 0.05,
    **fields: Any,
) -> Study:
    """Power of methods, the one named `default` among them called without options."""
    return Study(
        **{
            "name": name,
            "title": title,
            "data": data,
            "methods": methods,
            "sizes": sizes,
            "measure": measure,
            "columns": COLUMNS,
            "runs": 100,
            "rows": partial(power, level=level),
            "follows_defaults": lambda cell: "default" in cell.method,
            "picture": partial(picture, level=level),
            **fields,
        }
    )


def picture(table: Table, path: Path, rows_scale: str = "linear", level: float = 0.05) -> None:
    """Draw power against rows, and against processor time; a row of panels a kind of data.

    Bands reach one standard error up and down.
    """
    kinds, methods = (list(dict.fromkeys(r[key] for r in table)) for key in ("data", "method"))
    height = 0.5 + 0.25 * -(-len(methods) // 4)
    figure = Figure(figsize=(9.0, height + 2.9 * len(kinds)), layout="constrained")
    panels = figure.subplots(len(kinds), 2, sharex="col", sharey=True, squeeze=False)
    for (left, right), kind in zip(panels, kinds, strict=True):
        shown = [row for row in table if row["data"] == kind]
        _lines(left, shown, methods, "n", band=True)
        _lines(right, shown, methods, "seconds", band=False)
        for axes in (left, right):
            axes.axhline(level, color="0.6", linewidth=0.8)
        left.set(title=kind, ylabel="power", ylim=(-0.03, 1.03), xscale=rows_scale)
        right.set(title=kind, xscale="log")
    panels[-1, 0].set_xlabel("rows")
    panels[-1, 1].set_xlabel("processor seconds of a test")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(path, dpi=150)


def _lines(axes: Axes, table: Table, methods: list[str], along: str, *, band: bool) -> None:
    for number, method in enumerate(methods):
        chosen = [row for row in table if row["method"] == method and row[along]]
        chosen.sort(key=lambda row: int(row["n"]))
        x, power, error = (
            np.array([float(row[key]) for row in chosen]) for key in (along, "power", "error")
        )
        drawn = style(number)
        axes.plot(x, power, label=method, markersize=4, **drawn)
        if band:
            axes.fill_between(
                x, power - error, power + error, color=drawn["color"], alpha=0.15, linewidth=0
            )


def style(number: int) -> dict[str, Any]:
    """How the line of a method is drawn."""
    return {
        "color": COLOURS[number % len(COLOURS)],
        "marker": MARKERS[number % len(MARKERS)],
        "linestyle": LINES[number // len(COLOURS) % len(LINES)],
    }
