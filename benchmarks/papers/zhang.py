"""The experiments of Zhang et al. on large-scale tests of two variables.

From Q. Zhang, S. Filippi, A. Gretton, D. Sejdinovic, Large-scale kernel methods for independence
testing, Statistics and Computing 28 (2018), section 5, at level 5 % with normal x of d columns and
normal noise z:

- Figure 1 (5.1, linear): y = x_1 + z, d = 10; 10 frequencies and 10 landmarks; all tests permute.
- Figures 2 and 3 (5.2, sine): y = 20 sin(4 pi (x_1^2 + x_2^2)) + z, here with d = 2; 50 frequencies
  and 50 landmarks with the spectral null, landmarks for the Brownian kernel too. With permutations
  the distance correlation of Gaussian kernels has the p-value of HSIC, so it has no line.
- Figures 4 and 5 (5.3, large scale): y = sqrt(2 / d) sum_j sign(x_2j-1 x_2j) |z_j| + z_0 over the
  d / 2 pairs of columns, d = 50 and 100; no column of x alone tells of y. 200 frequencies or
  landmarks with the spectral null, blocks of 200 rows with the normal one.

Kernels are Gaussian with the median heuristic, replicates 250, landmarks rows of the data where the
paper draws new ones. Rows whose data are `independent`, with y from another draw, give the level of
the large-scale tests; the pictures leave them out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import dhsic
from benchmarks.shared import curves
from benchmarks.shared.cases import Data, Rng, linear_in_one, paired_signs, sine_of_radius
from benchmarks.study import Cell, Study, Table
from dhsic.estimators import Estimator
from dhsic.kernels import Distance, Kernel

LEVEL = 0.05
INDEPENDENT = ", independent"


@dataclass(frozen=True)
class Experiment:
    """What a figure compares."""

    title: str
    data: Mapping[str, tuple[curves.Draw, tuple[int, ...]]]
    """Kinds, each with the rows that are drawn."""
    large_scale: Mapping[str, Mapping[str, Any]]
    """Options of the tests whose level is taken too."""
    others: Mapping[str, Mapping[str, Any]]
    level_size: int
    """Rows of the data that give the level."""
    most_rows: float = float("inf")
    """For the tests that are not large-scale."""
    scale: str = "linear"

    def takes(self, cell: Cell) -> bool:
        """Whether a test is given so many rows of a kind."""
        kind = cell.data.removesuffix(INDEPENDENT)
        if kind != cell.data:
            return cell.n == self.level_size and cell.method in self.large_scale
        return cell.n in self.data[kind][1] and (
            cell.method in self.large_scale or cell.n <= self.most_rows
        )

    def study(self, name: str) -> Study:
        """Power on dependent data, and level of the large-scale tests on independent data."""
        draws = {kind: draw for kind, (draw, _) in self.data.items()}
        apart_too = {f"{kind}{INDEPENDENT}": partial(apart, draw=d) for kind, d in draws.items()}
        sizes = {n for _, own in self.data.values() for n in own} | {self.level_size}
        methods = {**self.large_scale, **self.others}
        return curves.study(
            name,
            self.title,
            {**draws, **apart_too},
            {one: partial(curves.dhsic_pvalue, **chosen) for one, chosen in methods.items()},
            sorted(sizes),
            LEVEL,
            takes=self.takes,
            picture=self.picture,
            small={"sizes": [min(sizes)], "runs": 1, "methods": list(self.large_scale)[:1]},
        )

    def picture(self, table: Table, path: Path) -> None:
        """Without the independent data."""
        curves.picture([row for row in table if row["data"] in self.data], path, self.scale)


def apart(n: int, rng: Rng, draw: curves.Draw) -> Data:
    """The first variable of one draw and the second of another."""
    return [draw(n, rng)[0], draw(n, rng)[1]]


def permuted(estimator: str | Estimator, kernels: str | None = "gaussian") -> dict[str, Any]:
    """Options of a test by 250 permutations of all rows."""
    null = dhsic.Permutation(250, within="all")
    return {"estimator": estimator, "kernels": kernels, "null": null}


def spectral(estimator: Estimator, kernels: str | Kernel = "gaussian") -> dict[str, Any]:
    """Options of a test by the spectral null."""
    return {"estimator": estimator, "kernels": kernels, "null": "spectral"}


EXPERIMENTS = {
    "1": Experiment(
        title="Figure 1 of Zhang et al.: power where y is x_1 plus noise?",
        data={
            "linear, d = 10": (
                partial(linear_in_one, d=10),
                (20, 40, 60, 80, 100, 150, 200, 300, 400, 500),
            )
        },
        large_scale={
            "rff-hsic, 10": permuted(dhsic.RFFHSIC(n_features=10)),
            "nystrom-hsic, 10": permuted(dhsic.NystromHSIC(n_landmarks=10)),
        },
        others={
            "v-hsic": permuted("v-hsic"),
            "sub-hsic": permuted("sub-hsic"),
            "sub-corr": permuted("sub-corr", None),
        },
        level_size=200,
    ),
    "2": Experiment(
        title="Figures 2 and 3 of Zhang et al.: power and time for a sine of the radius?",
        data={"sine, d = 2": (partial(sine_of_radius, d=2), (500, 1000, 1500, 2000, 3000, 4000))},
        large_scale={
            "rff-hsic, 50": spectral(dhsic.RFFHSIC(n_features=50)),
            "nystrom-hsic, 50": spectral(dhsic.NystromHSIC(n_landmarks=50)),
            "nystrom-hsic, 50, Brownian": spectral(dhsic.NystromHSIC(n_landmarks=50), Distance()),
        },
        others={"v-hsic": permuted("v-hsic"), "dcor": permuted("dcor", None)},
        level_size=1000,
        most_rows=2000,
    ),
    "4": Experiment(
        title="Figures 4 and 5 of Zhang et al.: power of large-scale tests?",
        data={
            "large scale, d = 50": (partial(paired_signs, d=50), (5_000, 10_000, 20_000, 40_000)),
            "large scale, d = 100": (partial(paired_signs, d=100), (20_000, 50_000, 100_000)),
        },
        large_scale={
            "rff-hsic, 200": spectral(dhsic.RFFHSIC(n_features=200)),
            "nystrom-hsic, 200": spectral(dhsic.NystromHSIC(n_landmarks=200)),
            "block-hsic, 200": {
                "estimator": dhsic.BlockHSIC(block_rows=200),
                "kernels": "gaussian",
                "null": "normal",
            },
        },
        others={},
        level_size=10_000,
        scale="log",
    ),
}


STUDIES = tuple(one.study(f"zhang_{figure}") for figure, one in EXPERIMENTS.items())
