"""Power of a grid of kernels at level 5 % beside the median heuristic and distance correlation.

All methods see the same data and draw 199 replicates. HSICAgg, the aggregated test that comes
nearest, is not among them: it is on no package index, under its own name or another. Writes
benchmarks/results/grid_power.csv, whose rows are kept, and a plot of it beside it.

    python -m benchmarks run grid_power
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import click
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import dhsic
from benchmarks.shared.cases import SCENARIOS
from benchmarks.shared.output import parallel_map, read_csv, write_csv
from dhsic.kernels import Grid

RESAMPLES = 199
EXACT_ROWS = 500
COLUMNS = 5
KEYS = ("data", "n", "method", "runs")


@dataclass(frozen=True)
class Method:
    """A test and how it is drawn, in colours of Okabe and Ito that colour-blind people tell."""

    options: dict[str, Any]
    colour: str
    line: str
    marker: str
    most_rows: int | None = None
    most_variables: int | None = None

    def takes(self, n: int, m: int) -> bool:
        """Whether it takes so many rows and variables."""
        return n <= (self.most_rows or n) and m <= (self.most_variables or m)


METHODS: dict[str, Method] = {
    "nystrom-m, grid": Method(
        {"kernels": Grid.auto(), "estimator": "nystrom-m"}, "#D55E00", "-", "o"
    ),
    "nystrom-m, median": Method(
        {"kernels": "gaussian", "estimator": "nystrom-m"}, "#D55E00", ":", "o"
    ),
    "v-hsic, grid": Method(
        {"kernels": Grid.auto(), "estimator": "v-hsic"}, "#0072B2", "-", "s", most_rows=1000
    ),
    "v-hsic, median": Method(
        {"kernels": "gaussian", "estimator": "v-hsic"}, "#0072B2", ":", "s", most_rows=1000
    ),
    "dcor": Method({"estimator": "dcor"}, "#009E73", "--", "^", most_variables=2),
}


def null_for(n: int) -> dhsic.Permutation | dhsic.Multiplier:
    """Exact permutations where they are quick for every method, random signs beyond."""
    if n <= EXACT_ROWS:
        return dhsic.Permutation(RESAMPLES, within="all")
    return dhsic.Multiplier(RESAMPLES)


def one_pvalue(setting: tuple[str, str, int, int]) -> float:
    """The p-value on one data set."""
    method, case, n, seed = setting
    data = SCENARIOS[case](n, np.random.default_rng([seed, n]))
    return dhsic.independence_test(
        *data,
        null=null_for(n),
        rng=seed,
        threads=1,
        memory="4GiB",
        **METHODS[method].options,
    ).pvalue


def rows(
    runs: int,
    large_runs: int,
    sizes: list[int],
    cases: list[str],
    processes: int,
    done: list[Mapping[str, Any]],
) -> Iterator[Mapping[str, Any]]:
    yield from done
    known = {tuple(str(row[key]) for key in KEYS) for row in done}
    for n, case, method in product(sizes, cases, METHODS):
        count = runs if n < 2000 else large_runs
        keys = dict(zip(KEYS, (case, n, method, count), strict=True))
        m = len(SCENARIOS[case](2, np.random.default_rng(0)))
        if not METHODS[method].takes(n, m) or tuple(map(str, keys.values())) in known:
            continue
        settings = [(method, case, n, seed) for seed in range(count)]
        pvalues = np.array(parallel_map(one_pvalue, settings, processes))
        power = float(np.mean(pvalues <= 0.05 + 1e-9))
        yield {**keys, "power": power, "error": float(np.sqrt(power * (1 - power) / count))}


def draw(table: list[Mapping[str, Any]], path: Path) -> None:
    """Power against rows, a panel a scenario."""
    cases = [case for case in SCENARIOS if case in {row["data"] for row in table}]
    height = -(-(len(cases) + 1) // COLUMNS)  # one place is the legend's
    figure = Figure(figsize=(2.3 * COLUMNS, 2.1 * height), layout="constrained")
    panels = figure.subplots(height, COLUMNS, sharex=True, sharey=True, squeeze=False).ravel()
    for axes, case in zip(panels, cases, strict=False):
        _panel(axes, case, [row for row in table if row["data"] == case])
    for number, axes in enumerate(panels):
        axes.tick_params(labelbottom=number + COLUMNS >= len(cases))
    for axes in panels[len(cases) :]:
        axes.set_axis_off()
    figure.supxlabel("rows")
    figure.supylabel("power at level 5 %")
    handles, labels = panels[0].get_legend_handles_labels()
    panels[len(cases)].legend(handles, labels, loc="center", frameon=False)
    figure.savefig(path, dpi=150)


def _panel(axes: Axes, case: str, table: list[Mapping[str, Any]]) -> None:
    for name, method in METHODS.items():
        points = {int(row["n"]): float(row["power"]) for row in table if row["method"] == name}
        n = sorted(points)
        axes.plot(
            n,
            [points[size] for size in n],
            color=method.colour,
            linestyle=method.line,
            marker=method.marker,
            markersize=4,
            label=name,
        )
    axes.axhline(0.05, color="0.6", linewidth=0.8)
    axes.set(xscale="log", ylim=(-0.03, 1.03), yticks=(0.0, 0.5, 1.0))
    axes.set_xticks((100, 1000, 5000), ("100", "1,000", "5,000"))
    axes.minorticks_off()
    axes.set_title(case, fontsize=10)


@click.command(help=__doc__)
@click.option("--runs", default=100)
@click.option("--large-runs", default=100, help="From 2,000 rows on.")
@click.option("--size", "sizes", multiple=True, type=int, default=(100, 200, 500, 1000, 2000, 5000))
@click.option(
    "--data", "cases", multiple=True, type=click.Choice(list(SCENARIOS)), default=SCENARIOS
)
@click.option("--processes", default=2)
@click.option("--out", default="benchmarks/results/grid_power.csv")
def main(
    runs: int,
    large_runs: int,
    sizes: tuple[int, ...],
    cases: tuple[str, ...],
    processes: int,
    out: str,
) -> None:
    done = read_csv(out)
    write_csv(out, rows(runs, large_runs, list(sizes), list(cases), processes, done))
    draw(read_csv(out), Path(out).with_suffix(".png"))


if __name__ == "__main__":
    main()
