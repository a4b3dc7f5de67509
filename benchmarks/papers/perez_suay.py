"""Null distributions, values and costs of random features beside those of HSIC.

Figures 1 and 2 of A. Perez-Suay and G. Camps-Valls, Sensitivity maps of the Hilbert-Schmidt
independence criterion (2018). The variables are two independent uniform ones on [0, 1], the law of
their figure 2, as they leave that of figure 1 open; kernels are Gaussian, and sigma is the average
distance between rows. HSIC is the V-statistic, RHSIC that of D random frequencies (equation 4).

`perez_suay_1`: of 2,000 data sets of 100 rows, n HSIC and the p-value of its gamma distribution
(equation 5, by moments over all permutations), and the same of RHSIC, by cosines and sines, as the
complex form has no gamma null. The table has the quantiles of each, and the Kolmogorov-Smirnov
distance to that of HSIC.

`perez_suay_2`: estimates and processor seconds, with one thread, of HSIC and RHSIC of 30 complex
features on 10 data sets of every size, HSIC of up to 20,000 rows. The errors of the sensitivity
maps, figure 2c, are those of `sensitivity_convergence`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.stats import ks_2samp

import dhsic
from benchmarks.papers.convergence import average_distance_kernel
from benchmarks.study import Cell, Row, Study, Table
from dhsic.kernels import Gaussian

QUANTITIES = ("statistic", "p-value")
PERCENTAGES = (0.5, *np.arange(2.5, 100.0, 2.5), 99.5)
NUMBERS = (2, 5, 10, 30, 100, 300)
SIZES = (100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000)
MOST_ROWS = {"HSIC": 20_000, "RHSIC": 100_000}
COLOURS = {"HSIC": "#0072B2", "RHSIC": "#D55E00"}
SLOPE_ROWS = 5  # a slope is that over the largest sizes, a factor of so many

Vector = NDArray[np.float64]


def uniform_pair(n: int, seed: int) -> tuple[list[Vector], list[Gaussian]]:
    """Two independent variables and their kernels."""
    data = list(np.random.default_rng([n, seed]).uniform(size=(2, n, 1)))
    return data, [average_distance_kernel(x) for x in data]


def tested(cell: Cell, run: int) -> tuple[float, ...]:
    """Statistic and p-value of RHSIC, or of HSIC, and those of HSIC on the same data."""
    data, kernels = uniform_pair(cell.n, run)
    found: list[float] = []
    for estimator in (cell.test, dhsic.VHSIC()):
        test = dhsic.independence_test(
            *data, kernels=kernels, estimator=estimator, null="gamma", rng=run, threads=1
        )
        found += [test.statistic, test.pvalue]
    return tuple(found)


def described(cell: Cell, found: Sequence[tuple[float, ...]]) -> Iterator[Row]:
    """Mean, distance to the distribution of HSIC, and quantiles."""
    own, exact = np.split(np.array(found), 2, axis=1)
    for name, values, others in zip(QUANTITIES, own.T, exact.T, strict=True):
        quantiles = np.percentile(values, PERCENTAGES)
        yield {
            "quantity": name,
            "mean": float(values.mean()),
            "KS": float(ks_2samp(values, others, method="asymp").statistic),
            **{f"{p:g}%": float(q) for p, q in zip(PERCENTAGES, quantiles, strict=True)},
        }


def frequencies(row: Row) -> int:
    """How many a row is of; 0 of HSIC."""
    return int(row["method"].rpartition(" ")[2]) if "D" in row["method"] else 0


def draw_null(table: Table, path: Path) -> None:
    """The distributions of n HSIC and n RHSIC, and distances against D."""
    figure = Figure(figsize=(11.0, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    rows = sorted((r for r in table if r["quantity"] == "statistic"), key=frequencies)
    shades = colormaps["plasma_r"](np.linspace(0.12, 0.95, len(rows)))
    for row, shade in zip(rows[1:] + rows[:1], shades, strict=True):
        values = [float(row[f"{p:g}%"]) for p in PERCENTAGES]
        look = {"color": shade} if frequencies(row) else {"color": "black", "linestyle": "--"}
        left.plot(values, np.array(PERCENTAGES) / 100.0, label=row["method"], **look)
    left.set(xlabel=f"n HSIC, n RHSIC (n = {rows[0]['n']})", ylabel="cumulative probability")
    left.legend(frameon=False, fontsize=8, loc="lower right")
    for name, marker in zip(QUANTITIES, "o^", strict=True):
        own = sorted(
            (frequencies(r), float(r["KS"]))
            for r in table
            if frequencies(r) and r["quantity"] == name
        )
        if own:
            right.plot(*zip(*own, strict=True), marker=marker, label=name)
    right.set(xscale="log", ylim=(0.0, None), xlabel="frequencies D")
    right.set_ylabel("Kolmogorov-Smirnov distance to HSIC")
    right.legend(frameon=False)
    figure.savefig(path, dpi=140)


def timed(cell: Cell, run: int) -> tuple[float, float]:
    """The estimate on one data set and its processor seconds."""
    data, kernels = uniform_pair(cell.n, run)
    if not run:  # what a first call loads is not its cost
        timed(cell._replace(n=100), 1)
    began = time.process_time()
    found = dhsic.hsic(*data, kernels=kernels, estimator=cell.test, rng=run, threads=1)
    return found.estimate, time.process_time() - began


def costs(cell: Cell, found: Sequence[tuple[float, float]]) -> Iterator[Row]:
    estimates, seconds = np.array(found).T
    yield {
        "estimate": float(estimates.mean()),
        "smallest": float(estimates.min()),
        "largest": float(estimates.max()),
        "seconds": float(np.median(seconds)),
    }


def draw_cost(table: Table, path: Path) -> None:
    """Estimates and processor time against rows."""
    figure = Figure(figsize=(9.0, 4.2), layout="constrained")
    values, times = figure.subplots(1, 2)
    for method, marker in (("HSIC", "o"), ("RHSIC", "s")):
        own = sorted((r for r in table if r["method"] == method), key=lambda row: int(row["n"]))
        n, mean, low, high, seconds = (
            np.array([float(row[key]) for row in own])
            for key in ("n", "estimate", "smallest", "largest", "seconds")
        )
        look = {"color": COLOURS[method], "marker": marker, "markersize": 4}
        values.errorbar(n, mean, (mean - low, high - mean), capsize=2, label=method, **look)
        times.plot(n, seconds, label=f"{method}: slope {slope(n, seconds):.2f}", **look)
    values.set(title="(a) estimates", ylabel="estimate: mean, smallest, largest", xlabel="rows n")
    times.set(title="(b) cost", ylabel="processor seconds, median", xlabel="rows n")
    for axes in (values, times):
        axes.set(xscale="log", yscale="log")
        axes.legend(frameon=False, fontsize=9)
    figure.savefig(path, dpi=140)


def slope(n: Vector, seconds: Vector) -> float:
    """Of the largest sizes on logarithmic axes."""
    large = n >= n[-1] / SLOPE_ROWS
    if large.sum() < 2:
        return float("nan")
    return float(np.polyfit(np.log(n[large]), np.log(seconds[large]), 1)[0])


def _takes(cell: Cell) -> bool:
    return bool(cell.n <= MOST_ROWS[cell.method])


_UNIFORM: dict[str, Any] = {"independent uniforms": None}
STUDIES = (
    Study(
        name="perez_suay_1",
        title="Figure 1 of Perez-Suay and Camps-Valls: null distributions?",
        data=_UNIFORM,
        methods={"HSIC": dhsic.VHSIC(), **{f"RHSIC, D = {d}": dhsic.RFFHSIC(d) for d in NUMBERS}},
        sizes=(100,),
        measure=tested,
        columns=("quantity", "mean", "KS", *(f"{p:g}%" for p in PERCENTAGES)),
        runs=2000,
        rows=described,
        small={"sizes": [50], "runs": 5, "methods": ["HSIC", "RHSIC, D = 10"]},
        picture=draw_null,
    ),
    Study(
        name="perez_suay_2",
        title="Figure 2 of Perez-Suay and Camps-Valls: estimates and costs?",
        data=_UNIFORM,
        methods={"HSIC": dhsic.VHSIC(), "RHSIC": dhsic.RFFHSIC(30, "complex")},
        sizes=SIZES,
        measure=timed,
        columns=("estimate", "smallest", "largest", "seconds"),
        runs=10,
        rows=costs,
        takes=_takes,
        small={"sizes": [100, 200], "runs": 2},
        picture=draw_cost,
        in_pool=False,
    ),
)
