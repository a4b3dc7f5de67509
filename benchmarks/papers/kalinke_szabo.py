"""The experiments of Kalinke and Szabo on two variables, with the methods of this package.

From F. Kalinke and Z. Szabo, Nystrom M-Hilbert-Schmidt independence criterion (2023), section 5:

- Figure 1: estimates of HSIC of two independent normal variables, which is 0, in 5 runs: their mean
  and 0.95 quantile, and the processor time of an estimate, without that of the bandwidth, which is
  the median distance of the law. What is drawn is squared HSIC, as their equation 5 and
  `dhsic.hsic` give it.
- Figure 2: power at level 5 % where the second variable is the first plus normal noise.
- Figure 4: power at level 1 % of the 90 timbre columns and the year of songs; n rows are drawn
  without replacement from the 7,000 of `msd/msd_random7000.parquet`, a table that the folder
  DHSIC_DATA needs to have.

All methods have 250 replicates and are compared on the same 100 data sets. Those of the paper take
the Gaussian kernel with the median heuristic and permute, with sqrt(n) landmarks or frequencies,
but 2 sqrt(n) (figures 1 and 2) and 8 sqrt(n) (figure 4) for Nystrom M-HSIC, and 5 locations for
NFSIC. `default` is `independence_test` with nothing chosen but the number of replicates: several
kernels, and random signs where permutations take long. Figures 3 and 5 are `dag_search.py` and
`weather_dags.py`. Writes kalinke_szabo_1.csv and so on, whose rows are kept, and pictures beside
them.

    python -m benchmarks run kalinke_szabo --figure 1 --figure 2
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import product
from pathlib import Path
from statistics import NormalDist
from typing import Any

import click
import numpy as np
from matplotlib.figure import Figure
from threadpoolctl import threadpool_limits

import dhsic
from benchmarks.shared import curves
from benchmarks.shared.cases import Data, gaussian, linear
from benchmarks.shared.output import keys_of, read_csv, write_csv
from benchmarks.shared.songs import songs
from dhsic.estimators import Estimator
from dhsic.kernels import Gaussian

RESAMPLES = 250
KEYS = ("method", "n", "runs")
KNOWN = Gaussian(gamma=1.0 / (math.sqrt(2.0) * NormalDist().inv_cdf(0.75)) ** 2)
"""With the median distance of two standard normal variables."""

ESTIMATORS: dict[str, Callable[[int], Estimator]] = {
    "nystrom-m, 2 sqrt(n)": lambda n: dhsic.NystromMHSIC(n_landmarks="2sqrt"),
    "nystrom-m, 8 sqrt(n)": lambda n: dhsic.NystromMHSIC(n_landmarks="8sqrt"),
    "nystrom-hsic, sqrt(n)": lambda n: dhsic.NystromHSIC(n_landmarks="1sqrt"),
    "rff-hsic, sqrt(n)": lambda n: dhsic.RFFHSIC(n_features=round(math.sqrt(n))),
    "nfsic, 5 locations": lambda n: dhsic.NFSIC(n_locations=5),
    "v-hsic": lambda n: dhsic.VHSIC(),
}
NAMES = {
    "1": [name for name in ESTIMATORS if "8 sqrt" not in name and "nfsic" not in name],
    "2": [name for name in ESTIMATORS if "8 sqrt" not in name],
    "4": [name for name in ESTIMATORS if "2 sqrt" not in name],
}
SIZES = {
    "1": tuple(range(100, 1001, 100)),
    "2": (20, 40, 60, 80, 100, 150, 200, 300, 400, 500),
    "4": (250, 500, 750, 1000, 1500, 2000),
}
RUNS = {"1": 5, "2": 100, "4": 100}
LEVELS = {"2": 0.05, "4": 0.01}


def permuted(data: Data, seed: int, name: str) -> float:
    """The p-value of a method of the paper."""
    return curves.dhsic_pvalue(
        data,
        seed,
        estimator=ESTIMATORS[name](len(data[0])),
        kernels="gaussian",
        null="permutation",
        n_resamples=RESAMPLES,
    )


def study(figure: str) -> curves.Study:
    """Of power, figure 2 or 4."""
    data: dict[str, dict[str, curves.Draw]] = {
        "2": {"X, X + noise": partial(linear, strength=1.0)},
        "4": {"Million Song": songs},
    }
    methods: dict[str, curves.Test] = {
        "default": partial(curves.dhsic_pvalue, n_resamples=RESAMPLES)
    }
    methods |= {name: partial(permuted, name=name) for name in NAMES[figure]}
    return curves.Study(data[figure], methods, LEVELS[figure])


def estimates(sizes: list[int], runs: int, done: curves.Table) -> Iterator[Mapping[str, Any]]:
    """Rows of figure 1."""
    yield from done
    known = {keys_of(row, KEYS) for row in done}
    for n, name in product(sizes, NAMES["1"]):
        keys = dict(zip(KEYS, (name, n, runs), strict=True))
        if keys_of(keys, KEYS) in known:
            continue
        one_estimate(name, n, 0)
        found, seconds = np.array([one_estimate(name, n, run) for run in range(runs)]).T
        mean, most = float(found.mean()), float(np.quantile(found, 0.95))
        yield {**keys, "estimate": mean, "quantile": most, "seconds": float(seconds.mean())}


def one_estimate(name: str, n: int, run: int) -> tuple[float, float]:
    """Squared HSIC of two independent variables, and the processor seconds it took."""
    data = gaussian(n, 2, np.random.default_rng([n, run]))
    with threadpool_limits(1, "blas"):
        began = time.process_time()
        found = dhsic.hsic(*data, kernels=KNOWN, estimator=ESTIMATORS[name](n), rng=run, threads=1)
        return found.estimate, time.process_time() - began


def draw_estimates(table: curves.Table, path: Path) -> None:
    """Estimates, with bands up to the 0.95 quantile, and their processor time against rows."""
    figure = Figure(figsize=(9.0, 3.9), layout="constrained")
    left, right = figure.subplots(1, 2)
    for number, name in enumerate(NAMES["1"]):
        chosen = sorted((row for row in table if row["method"] == name), key=lambda r: int(r["n"]))
        n, mean, most, seconds = (
            np.array([float(row[key]) for row in chosen])
            for key in ("n", "estimate", "quantile", "seconds")
        )
        drawn = curves.style(number)
        left.plot(n, mean, label=name, markersize=4, **drawn)
        left.fill_between(n, mean, most, color=drawn["color"], alpha=0.15, linewidth=0)
        right.plot(n, 1e3 * seconds, markersize=4, **drawn)
    left.set(xlabel="rows", ylabel="estimate of squared HSIC", yscale="log")
    right.set(xlabel="rows", ylabel="processor milliseconds of an estimate", ylim=0)
    figure.legend(loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(path, dpi=150)


@click.command(help=__doc__)
@click.option("--figure", "figures", multiple=True, type=click.Choice(list(RUNS)), default=RUNS)
@click.option("--size", "sizes", multiple=True, type=int, help="Rows; those of the paper if none.")
@click.option(
    "--runs", type=click.IntRange(1), help="5 for figure 1 and 100 for the others if not given."
)
@click.option("--processes", default=1, help="Of figures 2 and 4.")
@click.option("--out", default="benchmarks/results", help="Folder.")
def main(
    figures: tuple[str, ...],
    sizes: tuple[int, ...],
    runs: int | None,
    processes: int,
    out: str,
) -> None:
    for figure in figures:
        path = Path(out) / f"kalinke_szabo_{figure}.csv"
        chosen, count = list(sizes or SIZES[figure]), runs or RUNS[figure]
        if figure == "1":
            write_csv(str(path), estimates(chosen, count, read_csv(str(path))))
            own = [row for row in read_csv(str(path)) if row["runs"] == str(count)]
            draw_estimates(own, path.with_suffix(".png"))
        else:
            curves.run(study(figure), chosen, count, processes, str(path))


if __name__ == "__main__":
    main()
