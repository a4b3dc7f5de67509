"""Power against rows and against processor time: the frame that studies of power share.

A study is kinds of data, methods and a level. Every method sees the same data sets, which are drawn
with the seed [n, run], and gives the p-value of each; its power is the share that is at most the
level, and `error` its standard error, which says nothing where the power is 0 or 1. `seconds` is
the mean processor time of one test with one BLAS thread, after a first test of the method that is
not counted. A table may hold rows of other levels and numbers of runs: a picture shows one study.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from threadpoolctl import threadpool_limits

import dhsic
from benchmarks.shared.cases import Data, Rng
from benchmarks.shared.output import keys_of, parallel_map, read_csv, write_csv

Draw = Callable[[int, Rng], Data]
Test = Callable[[Data, int], float]
Table = Sequence[Mapping[str, Any]]

KEYS = ("data", "method", "n", "level", "runs")
# of Okabe and Ito, which colour-blind people tell apart; then by marker and line too
COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES = ("-", "--", ":")
_warm: set[str] = set()


@dataclass(frozen=True)
class Study:
    """What is compared: values of `data` and `methods` can be pickled."""

    data: Mapping[str, Draw]
    """Kinds of data, each drawn by (n, rng)."""
    methods: Mapping[str, Test]
    """Tests, each called with the variables and a seed, returning a p-value."""
    level: float = 0.05
    """Of the tests."""
    largest: Mapping[str, int] = field(default_factory=dict)
    """The most rows that a method is given; methods that are not here take all sizes."""

    def own(self, table: Table, runs: int) -> list[Mapping[str, Any]]:
        """Rows of a table that are of this study, with so many runs."""
        return [
            row
            for row in table
            if row["data"] in self.data
            and row["method"] in self.methods
            and (float(row["level"]), int(row["runs"])) == (self.level, runs)
        ]


@dataclass(frozen=True)
class Setting:
    """One method on one data set."""

    method: str
    test: Test
    draw: Draw
    n: int
    run: int


def dhsic_pvalue(data: Data, seed: int, **options: Any) -> float:
    """The p-value of `dhsic.independence_test`, on one thread."""
    return dhsic.independence_test(*data, rng=seed, threads=1, **options).pvalue


def one_test(setting: Setting) -> tuple[float, float]:
    """The p-value and the processor seconds of a test."""
    data = setting.draw(setting.n, np.random.default_rng([setting.n, setting.run]))
    with threadpool_limits(1, "blas"):
        if setting.method not in _warm:
            setting.test(data, setting.run)
            _warm.add(setting.method)
        began = time.process_time()
        pvalue = setting.test(data, setting.run)
        return pvalue, time.process_time() - began


def rows(
    study: Study, sizes: Sequence[int], runs: int, processes: int = 1, done: Table = ()
) -> Iterator[Mapping[str, Any]]:
    """A row a kind of data, size and method; those in `done` stay as they are."""
    yield from done
    known = {keys_of(row, KEYS) for row in done}
    for kind, n, method in product(study.data, sizes, study.methods):
        keys = dict(zip(KEYS, (kind, method, n, study.level, runs), strict=True))
        if n > study.largest.get(method, n) or keys_of(keys, KEYS) in known:
            continue
        test, draw = study.methods[method], study.data[kind]
        settings = [Setting(method, test, draw, n, run) for run in range(runs)]
        pvalues, seconds = np.array(parallel_map(one_test, settings, processes)).T
        power = float(np.mean(pvalues <= study.level + 1e-9))
        error = math.sqrt(power * (1.0 - power) / runs)
        yield {**keys, "power": power, "error": error, "seconds": float(seconds.mean())}


def run(
    study: Study,
    sizes: Sequence[int],
    runs: int,
    processes: int,
    out: str,
    rows_scale: str = "linear",
) -> None:
    """Write the rows of a study to a table, whose rows are kept, and draw it beside it."""
    write_csv(out, rows(study, sizes, runs, processes, read_csv(out)))
    picture(study.own(read_csv(out), runs), Path(out).with_suffix(".png"), rows_scale)


def picture(table: Table, path: Path, rows_scale: str = "linear") -> None:
    """Draw power against rows, and against processor time; a row of panels a kind of data.

    Bands reach one standard error up and down.
    """
    kinds, methods = (_distinct(row[key] for row in table) for key in ("data", "method"))
    height = 0.5 + 0.25 * -(-len(methods) // 4)
    figure = Figure(figsize=(9.0, height + 2.9 * len(kinds)), layout="constrained")
    panels = figure.subplots(len(kinds), 2, sharex="col", sharey=True, squeeze=False)
    for (left, right), kind in zip(panels, kinds, strict=True):
        shown = [row for row in table if row["data"] == kind]
        _lines(left, shown, methods, "n", band=True)
        _lines(right, shown, methods, "seconds", band=False)
        left.set(title=kind, ylabel="power", ylim=(-0.03, 1.03), xscale=rows_scale)
        right.set(title=kind, xscale="log")
    panels[-1, 0].set_xlabel("rows")
    panels[-1, 1].set_xlabel("processor seconds of a test")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(path, dpi=150)


def _lines(axes: Axes, table: Table, methods: list[str], along: str, *, band: bool) -> None:
    for number, method in enumerate(methods):
        chosen = [row for row in table if row["method"] == method]
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
    for level in _distinct(float(row["level"]) for row in table):
        axes.axhline(level, color="0.6", linewidth=0.8)


def style(number: int) -> dict[str, Any]:
    """How the line of a method is drawn."""
    return {
        "color": COLOURS[number % len(COLOURS)],
        "marker": MARKERS[number % len(MARKERS)],
        "linestyle": LINES[number // len(COLOURS) % len(LINES)],
    }


def _distinct(values: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(values))
