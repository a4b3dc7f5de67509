"""Level and power of tests of samples, for every estimator and null, at equal and unequal sizes.

Samples have three columns. `same law`: both are standard normal, or both have Student's t with
3 degrees of freedom, in turn. Otherwise the first is standard normal, and the second differs in its
mean, its scale, its correlation or its tails, by less the more rows there are, so that the power
stays away from 1. Tests are of the Gaussian with the median heuristic alone or of `Grid.auto()`,
with 99 replicates. `error` is the standard error of the rate at 5 %; of the same law a rate is
flagged where it lies above the limit that a test of exactly that level exceeds in 1 of 1,000
studies. Writes benchmarks/results/two_sample.csv, whose rows are kept, and a picture of it beside,
with bars of two standard errors.

    python -m benchmarks run two_sample
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any, cast

import click
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

import dhsic
from benchmarks.level.level import rejection_rates
from benchmarks.shared.output import parallel_map, read_csv, write_csv
from dhsic.kernels import Grid
from dhsic.twosample import MMD_ESTIMATORS
from dhsic.twosample.compare import MMDName

COLUMNS = 3
REFERENCE_ROWS = 200
SAME = "same law"
KEYS = ("data", "n 1", "n 2", "estimator", "null", "kernels", "runs")
NULLS: dict[str, Any] = {
    "permutation": dhsic.Permutation(99, within="all"),
    "multiplier": dhsic.Multiplier(99),
    "normal": dhsic.Normal(),
}
KERNELS: dict[str, Any] = {"median": "gaussian", "grid": Grid.auto()}
METHODS = [
    (estimator, null, kernels)
    for estimator, null, kernels in product(MMD_ESTIMATORS, NULLS, KERNELS)
    if (estimator == "block-mmd") == (null == "normal") and (null, kernels) != ("normal", "grid")
]

Array = NDArray[np.float64]
Rng = np.random.Generator
Law = Callable[[int, float, Rng], Array]


def shifted(n: int, share: float, rng: Rng) -> Array:
    return rng.standard_normal((n, COLUMNS)) + 0.25 * share


def scaled(n: int, share: float, rng: Rng) -> Array:
    return rng.standard_normal((n, COLUMNS)) * math.exp(0.18 * share)


def correlated(n: int, share: float, rng: Rng) -> Array:
    rho = 0.45 * share
    common = rng.standard_normal((n, 1))
    return math.sqrt(rho) * common + math.sqrt(1.0 - rho) * rng.standard_normal((n, COLUMNS))


def tailed(n: int, share: float, rng: Rng) -> Array:
    """A part of the rows has Student's t with 2 degrees of freedom, narrowed to its quartiles."""
    heavy = 0.6745 / 0.8165 * rng.standard_t(2, (n, COLUMNS))
    return np.where(rng.random((n, 1)) < share, heavy, rng.standard_normal((n, COLUMNS)))


SECOND: dict[str, Law] = {
    "mean": shifted,
    "scale": scaled,
    "correlation": correlated,
    "tails": tailed,
}
LAWS = [SAME, *SECOND]


def samples(case: str, sizes: tuple[int, int], seed: int) -> tuple[Array, Array]:
    """The two samples; what differs falls with the root of all rows."""
    rng = np.random.default_rng([seed, *sizes])
    if case == SAME and seed % 2:
        one, other = (rng.standard_t(3, (n, COLUMNS)) for n in sizes)
        return one, other
    first = rng.standard_normal((sizes[0], COLUMNS))
    if case == SAME:
        return first, rng.standard_normal((sizes[1], COLUMNS))
    return first, SECOND[case](sizes[1], math.sqrt(REFERENCE_ROWS / sum(sizes)), rng)


def one_pvalue(setting: tuple[str, tuple[int, int], str, str, str, int]) -> float:
    """The p-value on one pair of samples."""
    case, sizes, estimator, null, kernels, seed = setting
    return dhsic.two_sample_test(
        *samples(case, sizes, seed),
        kernels=KERNELS[kernels],
        estimator=cast(MMDName, estimator),
        null=NULLS[null],
        rng=seed,
        threads=1,
    ).pvalue


def rows(
    level_runs: int,
    power_runs: int,
    sizes: list[tuple[int, int]],
    cases: list[str],
    methods: list[tuple[str, str, str]],
    processes: int,
    done: list[Mapping[str, Any]],
) -> Iterator[Mapping[str, Any]]:
    yield from done
    known = {tuple(str(row[key]) for key in KEYS) for row in done}
    for size, case, method in product(sizes, cases, methods):
        runs = level_runs if case == SAME else power_runs
        keys = dict(zip(KEYS, (case, *size, *method, runs), strict=True))
        if tuple(map(str, keys.values())) in known:
            continue
        settings = [(case, size, *method, seed) for seed in range(runs)]
        rates = rejection_rates(np.array(parallel_map(one_pvalue, settings, processes)))
        above = rates.pop("above") if case == SAME else ""
        rate = rates["5%"]
        yield {**keys, **rates, "error": math.sqrt(rate * (1.0 - rate) / runs), "above": above}


def draw(table: list[Mapping[str, Any]], path: Path) -> None:
    """Rates at 5 %, a panel a law and sizes, a line an estimator and null."""
    sizes = list(dict.fromkeys(map(_size, table)))
    laws = [law for law in LAWS if law in {row["data"] for row in table}]
    names = {size: _methods([row for row in table if _size(row) == size]) for size in sizes}
    heights = [0.6 + 0.22 * len(names[size]) for size in sizes]
    figure = Figure(figsize=(2.2 + 2.1 * len(laws), 1.0 + sum(heights)), layout="constrained")
    panels = figure.subplots(
        len(sizes), len(laws), sharex="col", sharey="row", squeeze=False, height_ratios=heights
    )
    for (i, size), (j, law) in product(enumerate(sizes), enumerate(laws)):
        own = [row for row in table if row["data"] == law and _size(row) == size]
        _panel(panels[i, j], names[size], own)
        panels[i, j].set_title(law, fontsize=10)
        panels[i, j].set_xlim(*((0.0, 0.15) if law == SAME else (-0.03, 1.03)))
        if law == SAME:
            panels[i, j].set_xticks((0.0, 0.05, 0.1))
        if j == 0:
            panels[i, j].set_ylabel(" and ".join(f"{int(n):,}" for n in size) + " rows")
    figure.align_ylabels(panels[:, 0])
    figure.supxlabel("share of data sets rejected at level 5 %", fontsize=10)
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=2, frameon=False)
    figure.savefig(path, dpi=140)


def _size(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["n 1"], row["n 2"]


def _methods(table: list[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(f"{row['estimator']}, {row['null']}" for row in table))


def _panel(axes: Axes, names: list[str], table: list[Mapping[str, Any]]) -> None:
    for kernels, colour, marker, shift in (
        ("median", "#0072B2", "o", -0.15),
        ("grid", "#D55E00", "s", 0.15),
    ):
        own = [row for row in table if row["kernels"] == kernels]
        axes.errorbar(
            [float(row["5%"]) for row in own],
            [names.index(f"{row['estimator']}, {row['null']}") + shift for row in own],
            xerr=[2.0 * float(row["error"]) for row in own],
            color=colour,
            marker=marker,
            markersize=4,
            linestyle="none",
            label={"median": "median heuristic", "grid": "grid of kernels"}[kernels],
        )
    axes.axvline(0.05, color="0.6", linewidth=0.8)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(axis="y", color="0.92")
    axes.set_axisbelow(True)


@click.command(help=__doc__)
@click.option("--level-runs", default=500)
@click.option("--power-runs", default=200)
@click.option(
    "--sizes",
    multiple=True,
    type=(int, int),
    default=((100, 100), (50, 150), (500, 500), (250, 750)),
)
@click.option("--data", "cases", multiple=True, type=click.Choice(LAWS), default=LAWS)
@click.option("--estimator", "estimators", multiple=True, help="All where not given.")
@click.option("--null", "nulls", multiple=True, help="All where not given.")
@click.option("--kernels", multiple=True, type=click.Choice(list(KERNELS)), default=KERNELS)
@click.option("--processes", default=1)
@click.option("--out", default="benchmarks/results/two_sample.csv")
def main(
    level_runs: int,
    power_runs: int,
    sizes: tuple[tuple[int, int], ...],
    cases: tuple[str, ...],
    estimators: tuple[str, ...],
    nulls: tuple[str, ...],
    kernels: tuple[str, ...],
    processes: int,
    out: str,
) -> None:
    asked = (estimators or tuple(MMD_ESTIMATORS), nulls or tuple(NULLS), kernels)
    methods = [one for one in METHODS if all(x in some for x, some in zip(one, asked, strict=True))]
    chosen = (list(sizes), list(cases), methods)
    write_csv(out, rows(level_runs, power_runs, *chosen, processes, read_csv(out)))
    draw(read_csv(out), Path(out).with_suffix(".png"))


if __name__ == "__main__":
    main()
