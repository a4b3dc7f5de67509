"""Null distributions, values and costs of random features beside those of HSIC.

Figures 1 and 2 of A. Perez-Suay and G. Camps-Valls, Sensitivity maps of the Hilbert-Schmidt
independence criterion (2018). The variables are two independent uniform ones on [0, 1], the law of
their figure 2, as they leave that of figure 1 open; kernels are Gaussian, and sigma is the average
distance between rows. HSIC is the V-statistic, RHSIC that of D random frequencies (equation 4).

`--figure 1`: of 2,000 data sets of 100 rows, n HSIC, the mean and the variance of its gamma
distribution (equation 5, by moments over all permutations), the threshold at level 5 % and the
p-value; and the same of RHSIC, by cosines and sines, as the complex form has no gamma null. The
table has the quantiles of each, and the Kolmogorov-Smirnov distance to that of HSIC.

`--figure 2`: estimates and processor seconds, with one thread, of HSIC and RHSIC of 30 complex
features on 10 data sets of every size, HSIC of up to 20,000 rows. The errors of the sensitivity
maps are those of sensitivity_convergence.py, from its table.

Writes benchmarks/results/perez_suay_1.csv or _2.csv and a picture beside it; rows that the file
holds already are kept.

    python -m benchmarks run perez_suay
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.stats import gamma, ks_2samp
from threadpoolctl import threadpool_limits

import dhsic
from benchmarks.papers.sensitivity_convergence import average_distance_kernel
from benchmarks.shared.output import keys_of, read_csv, write_csv
from dhsic._arguments import open_session
from dhsic.kernels import Gaussian
from dhsic.nulls.distributions import GammaDistribution

LEVEL = 0.05
QUANTITIES = ("statistic", "threshold", "p-value", "null mean", "null variance")
PERCENTAGES = (0.5, *np.arange(2.5, 100.0, 2.5), 99.5)
FIGURES = ("1", "2")
NUMBERS = (2, 5, 10, 30, 100, 300)
SIZES = (100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000)
MOST_ROWS = {"HSIC": 20_000, "RHSIC": 100_000}
NULL_KEYS = ("n", "draws", "method", "quantity")
COST_KEYS = ("method", "n", "draws")
COLOURS = {"HSIC": "#0072B2", "RHSIC": "#D55E00"}
SLOPE_ROWS = 5  # a slope is that over the largest sizes, a factor of so many

Row = Mapping[str, Any]
Vector = NDArray[np.float64]


def uniform_pair(n: int, seed: int) -> tuple[list[Vector], list[Gaussian]]:
    """Two independent variables and their kernels."""
    data = list(np.random.default_rng([n, seed]).uniform(size=(2, n, 1)))
    return data, [average_distance_kernel(x) for x in data]


def law_of(distribution: GammaDistribution) -> Any:
    """The same law, with its quantiles."""
    mean, variance = distribution.mean, distribution.variance
    return gamma(mean**2 / variance, scale=variance / mean)


def gamma_test(n: int, number: int, seed: int) -> Vector:
    """All quantities on one data set, of so many frequencies or, of 0, of all pairs of rows."""
    data, kernels = uniform_pair(n, seed)
    session = open_session(data, None, seed, "float64", None, 1, "2GiB", None)
    estimator = dhsic.RFFHSIC(number) if number else dhsic.VHSIC()
    outcome = estimator.test(session, kernels, dhsic.Gamma())
    null, statistic = outcome.distribution, outcome.statistic
    assert isinstance(null, GammaDistribution)
    threshold = law_of(null).isf(LEVEL)
    return np.array([statistic, threshold, null.sf(statistic), null.mean, null.variance])


def gamma_tests(n: int, number: int, draws: int) -> Vector:
    """All quantities, a row a data set."""
    return np.array([gamma_test(n, number, seed) for seed in range(draws)])


def method_of(number: int) -> str:
    return f"RHSIC, D = {number}" if number else "HSIC"


def null_rows(n: int, draws: int, numbers: Sequence[int], done: list[Row]) -> Iterator[Row]:
    yield from done
    known = {keys_of(row, NULL_KEYS) for row in done}
    wanted = {
        number: [
            dict(zip(NULL_KEYS, (n, draws, method_of(number), q), strict=True)) for q in QUANTITIES
        ]
        for number in (0, *numbers)
    }
    exact = None
    for number, every in wanted.items():
        if all(keys_of(one, NULL_KEYS) in known for one in every):
            continue
        if exact is None:
            exact = gamma_tests(n, 0, draws)
        found = gamma_tests(n, number, draws) if number else exact
        for own, values, others in zip(every, found.T, exact.T, strict=True):
            if keys_of(own, NULL_KEYS) not in known:
                yield {**own, "D": number or "", **described(values, others)}


def described(values: Vector, others: Vector) -> dict[str, float]:
    """Mean, distance to the distribution of the others, and quantiles."""
    quantiles = np.percentile(values, PERCENTAGES)
    return {
        "mean": float(values.mean()),
        "KS": float(ks_2samp(values, others).statistic),
        **{f"{p:g}%": float(q) for p, q in zip(PERCENTAGES, quantiles, strict=True)},
    }


def draw_null(table: list[Row], n: int, draws: int, path: Path) -> None:
    """The distribution of n HSIC beside gamma distributions, and distances against D."""
    own = [row for row in table if keys_of(row, ("n", "draws")) == (str(n), str(draws))]
    figure = Figure(figsize=(11.0, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    _distributions(left, own, n)
    _distances(right, own)
    figure.savefig(path, dpi=140)


def _distributions(axes: Axes, table: list[Row], n: int) -> None:
    found = {(row["method"], row["quantity"]): row for row in table}
    empirical = found["HSIC", "statistic"]
    values = np.array([float(empirical[f"{p:g}%"]) for p in PERCENTAGES])
    x = np.linspace(0.0, 1.25 * values[-1], 400)
    features = sorted({int(row["D"]) for row in table if row["D"]})
    methods = [method_of(number) for number in features]
    shades = colormaps["plasma_r"](np.linspace(0.12, 0.95, len(methods)))
    high = axes.inset_axes((0.52, 0.53, 0.44, 0.3))
    for panel in (axes, high):
        for method, shade in zip((*methods, "HSIC"), (*shades, "black"), strict=True):
            mean, variance = (
                float(found[method, f"null {moment}"]["mean"]) for moment in ("mean", "variance")
            )
            cdf = law_of(GammaDistribution(mean, variance)).cdf(x)
            line = "--" if method == "HSIC" else "-"
            panel.plot(x, cdf, line, color=shade, linewidth=1.2, label=f"gamma, {method}")
        panel.plot(
            values,
            np.array(PERCENTAGES) / 100.0,
            ".",
            color=COLOURS["HSIC"],
            label="n HSIC of all draws",
        )
    high.set(xlim=(0.6 * values[-1], x[-1]), ylim=(0.9, 1.002))
    high.tick_params(labelsize=8)
    axes.set(xlabel=f"n HSIC, n RHSIC (n = {n})", ylabel="cumulative probability")
    axes.set(xlim=(0.0, x[-1]), ylim=(0.0, 1.02))
    axes.legend(frameon=False, fontsize=8, loc="lower right")


def _distances(axes: Axes, table: list[Row]) -> None:
    for name, marker, colour in (
        ("statistic", "o", "#0072B2"),
        ("threshold", "s", "#D55E00"),
        ("p-value", "^", "#009E73"),
    ):
        own = sorted(
            (int(r["D"]), float(r["KS"])) for r in table if r["D"] and r["quantity"] == name
        )
        axes.plot(*zip(*own, strict=True), marker=marker, color=colour, label=name)
    axes.set(xscale="log", ylim=(0.0, None), xlabel="frequencies D")
    numbers = sorted({int(row["D"]) for row in table if row["D"]})
    axes.set_xticks(numbers, map(str, numbers))
    axes.minorticks_off()
    axes.set_ylabel("Kolmogorov-Smirnov distance to HSIC")
    axes.legend(frameon=False)


def timed_estimate(method: str, n: int, seed: int) -> tuple[float, float]:
    """The estimate on one data set and its processor seconds."""
    data, kernels = uniform_pair(n, seed)
    estimator = dhsic.VHSIC() if method == "HSIC" else dhsic.RFFHSIC(30, "complex")
    began = time.process_time()
    found = dhsic.hsic(*data, kernels=kernels, estimator=estimator, rng=seed, threads=1)
    return found.estimate, time.process_time() - began


def cost_rows(sizes: Sequence[int], draws: int, done: list[Row]) -> Iterator[Row]:
    yield from done
    known = {keys_of(row, COST_KEYS) for row in done}
    for method, most in MOST_ROWS.items():
        for n in sizes:
            keys = dict(zip(COST_KEYS, (method, n, draws), strict=True))
            if n > most or keys_of(keys, COST_KEYS) in known:
                continue
            with threadpool_limits(1, "blas"):
                timed_estimate(method, 100, 0)  # what a first call loads is not its cost
                found = np.array([timed_estimate(method, n, seed) for seed in range(draws)])
            estimates, seconds = found.T
            yield {
                **keys,
                "estimate": float(estimates.mean()),
                "smallest": float(estimates.min()),
                "largest": float(estimates.max()),
                "seconds": float(np.median(seconds)),
            }


def draw_cost(table: list[Row], draws: int, maps: list[Row], path: Path) -> None:
    """Estimates and processor time against rows, errors of the maps against frequencies."""
    figure = Figure(figsize=(13.0, 4.2), layout="constrained")
    values, times, errors = figure.subplots(1, 3)
    for method, marker in (("HSIC", "o"), ("RHSIC", "s")):
        own = [row for row in table if (row["method"], row["draws"]) == (method, str(draws))]
        own.sort(key=lambda row: int(row["n"]))
        n, mean, low, high, seconds = (
            np.array([float(row[key]) for row in own])
            for key in ("n", "estimate", "smallest", "largest", "seconds")
        )
        look = {"color": COLOURS[method], "marker": marker, "markersize": 4}
        name = method if method == "HSIC" else "RHSIC, D = 30"
        values.errorbar(n, mean, (mean - low, high - mean), capsize=2, label=name, **look)
        label = f"{name}: slope {slope(n, seconds):.2f}"
        times.plot(n, seconds, label=label, **look)
    _map_errors(errors, maps)
    values.set(title="(a) estimates", ylabel="estimate: mean, smallest, largest", xlabel="rows n")
    times.set(title="(b) cost", ylabel="processor seconds, median", xlabel="rows n")
    errors.set(title="(c) sensitivity maps", ylabel="relative error of the map")
    for axes in (values, times, errors):
        axes.set(xscale="log", yscale="log")
        axes.legend(frameon=False, fontsize=9)
    figure.savefig(path, dpi=140)


def slope(n: Vector, seconds: Vector) -> float:
    """Of the largest sizes on logarithmic axes."""
    large = n >= n[-1] / SLOPE_ROWS
    return float(np.polyfit(np.log(n[large]), np.log(seconds[large]), 1)[0])


def _map_errors(axes: Axes, maps: list[Row]) -> None:
    own = [
        row for row in maps if (row["data"], row["estimator"]) == ("uniform", "rff-hsic complex")
    ]
    count, error = (
        np.array([float(row[key]) for row in own]) for key in ("number", "relative error")
    )
    label = f"n = {int(own[0]['n']):,}: slope {np.polyfit(np.log(count), np.log(error), 1)[0]:.2f}"
    axes.plot(count, error, "s-", color=COLOURS["RHSIC"], markersize=4, label=label)
    axes.plot(count, error[0] * np.sqrt(count[0] / count), ":", color="0.5", label="slope -1/2")
    axes.set_xlabel("frequencies D")


@click.command(help=__doc__)
@click.option("--figure", "figures", multiple=True, type=click.Choice(FIGURES), default=FIGURES)
@click.option("--rows", "n", default=100, help="Of figure 1.")
@click.option("--number", "numbers", multiple=True, type=int, default=NUMBERS, help="Of figure 1.")
@click.option("--size", "sizes", multiple=True, type=int, default=SIZES, help="Of figure 2.")
@click.option("--draws", type=click.IntRange(1), help="2000 for figure 1, 10 for figure 2.")
@click.option("--maps", default="benchmarks/results/sensitivity_convergence.csv", help="Figure 2c.")
@click.option("--out", default="benchmarks/results", help="Folder.")
def main(
    figures: tuple[str, ...],
    n: int,
    numbers: tuple[int, ...],
    sizes: tuple[int, ...],
    draws: int | None,
    maps: str,
    out: str,
) -> None:
    if "2" in figures and not read_csv(maps):
        msg = (
            f"there is no table {maps}: python -m benchmarks run sensitivity_convergence writes it"
        )
        raise click.ClickException(msg)
    for figure in figures:
        table = str(Path(out) / f"perez_suay_{figure}.csv")
        picture = Path(table).with_suffix(".png")
        if figure == "1":
            count = draws or 2000
            write_csv(table, null_rows(n, count, numbers, read_csv(table)))
            draw_null(read_csv(table), n, count, picture)
        else:
            count = draws or 10
            write_csv(table, cost_rows(sizes, count, read_csv(table)))
            draw_cost(read_csv(table), count, read_csv(maps), picture)


if __name__ == "__main__":
    main()
