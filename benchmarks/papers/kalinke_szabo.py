"""The experiments of Kalinke and Szabo on two variables, with the methods of this package.

From F. Kalinke and Z. Szabo, Nystrom M-Hilbert-Schmidt independence criterion (2023), section 5:

- `kalinke_szabo_1`: estimates of HSIC of two independent normal variables, which is 0, in 5 runs:
  their mean and 0.95 quantile, and the processor time of an estimate, without that of the
  bandwidth, which is the median distance of the law. What is drawn is squared HSIC, as their
  equation 5 and `dhsic.hsic` give it.
- `kalinke_szabo_2`: power at level 5 % where the second variable is the first plus normal noise.
- `kalinke_szabo_4`: power at level 1 % of the 90 timbre columns and the year of songs, of which n
  are drawn without replacement from the 7,000 of `msd/msd_random7000.parquet`, a table that the
  folder DHSIC_DATA needs to have.

Methods of the paper have 250 permutations and the Gaussian kernel with the median heuristic, with
sqrt(n) landmarks or frequencies, but 2 sqrt(n) (figures 1 and 2) and 8 sqrt(n) (figure 4) for
Nystrom M-HSIC, and 5 locations for NFSIC. `default` is `independence_test` with 250 replicates and
nothing else chosen. Figures 3 and 5 are the studies `dag_search` and `weather_dags`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import NormalDist

import numpy as np
from matplotlib.figure import Figure

import dhsic
from benchmarks.shared import curves
from benchmarks.shared.cases import Data, gaussian, linear
from benchmarks.shared.songs import songs
from benchmarks.study import Cell, Row, Study, Table
from dhsic.estimators import Estimator
from dhsic.kernels import Gaussian

RESAMPLES = 250
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


def tests(without: str) -> dict[str, curves.Test]:
    """The default and all methods but one."""
    default = partial(curves.dhsic_pvalue, n_resamples=RESAMPLES)
    own = {name: partial(permuted, name=name) for name in ESTIMATORS if without not in name}
    return {"default": default, **own}


def estimated(cell: Cell, run: int) -> tuple[float, float]:
    """Squared HSIC of two independent variables, and the processor seconds it took."""
    data = gaussian(cell.n, 2, np.random.default_rng([cell.n, run]))
    estimator = ESTIMATORS[cell.method](cell.n)
    if not run:
        dhsic.hsic(*data, kernels=KNOWN, estimator=estimator, rng=run, threads=1)
    began = time.process_time()
    found = dhsic.hsic(*data, kernels=KNOWN, estimator=estimator, rng=run, threads=1)
    return found.estimate, time.process_time() - began


def estimates(cell: Cell, found: Sequence[tuple[float, float]]) -> Iterator[Row]:
    values, seconds = np.array(found).T
    yield {
        "estimate": float(values.mean()),
        "quantile": float(np.quantile(values, 0.95)),
        "seconds": float(seconds.mean()),
    }


def draw_estimates(table: Table, path: Path) -> None:
    """Estimates, with bands up to the 0.95 quantile, and their processor time against rows."""
    figure = Figure(figsize=(9.0, 3.9), layout="constrained")
    left, right = figure.subplots(1, 2)
    for number, name in enumerate(dict.fromkeys(row["method"] for row in table)):
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


STUDIES = (
    Study(
        name="kalinke_szabo_1",
        title="Figure 1 of Kalinke and Szabo: do estimates fall to 0?",
        data={"independent normals": None},
        methods={name: None for name in ESTIMATORS if "8 sqrt" not in name and "nfsic" not in name},
        sizes=range(100, 1001, 100),
        measure=estimated,
        columns=("estimate", "quantile", "seconds"),
        runs=5,
        rows=estimates,
        small={"sizes": [30, 60], "runs": 2},
        picture=draw_estimates,
        in_pool=False,
    ),
    curves.study(
        "kalinke_szabo_2",
        "Figure 2 of Kalinke and Szabo: power where y is x plus noise?",
        {"X, X + noise": partial(linear, strength=1.0)},
        tests("8 sqrt"),
        (20, 40, 60, 80, 100, 150, 200, 300, 400, 500),
        small={"sizes": [20, 40], "runs": 2},
    ),
    curves.study(
        "kalinke_szabo_4",
        "Figure 4 of Kalinke and Szabo: power on songs?",
        {"Million Song": songs},
        tests("2 sqrt"),
        (250, 500, 750, 1000, 1500, 2000),
        0.01,
        small={"methods": ["default", "v-hsic"], "sizes": [40], "runs": 2},
    ),
)
