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
the large-scale tests; the pictures leave them out. Writes zhang_1.csv, zhang_2.csv (figures 2 and
3) and zhang_4.csv (4 and 5), whose rows are kept, and pictures beside them.

    python -m benchmarks run zhang --figure 1
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click

import dhsic
from benchmarks.shared import curves
from benchmarks.shared.cases import Data, Rng, linear_in_one, paired_signs, sine_of_radius
from benchmarks.shared.output import read_csv, write_csv
from dhsic.estimators import Estimator
from dhsic.kernels import Distance, Kernel

LEVEL = 0.05
INDEPENDENT = ", independent"


@dataclass(frozen=True)
class Experiment:
    """What a figure compares."""

    data: Mapping[str, tuple[curves.Draw, tuple[int, ...]]]
    """Kinds, each with the rows that are drawn."""
    large_scale: Mapping[str, Mapping[str, Any]]
    """Options of the tests whose level is taken too."""
    others: Mapping[str, Mapping[str, Any]]
    level_size: int
    """Rows of the data that give the level."""
    most_rows: int | None = None
    """For the tests that are not large-scale."""
    scale: str = "linear"

    def power(self, kind: str) -> curves.Study:
        """All tests, on dependent data."""
        largest = dict.fromkeys(self.others, self.most_rows) if self.most_rows else {}
        methods = _tests({**self.large_scale, **self.others})
        return curves.Study({kind: self.data[kind][0]}, methods, LEVEL, largest)

    def level(self, kind: str) -> curves.Study:
        """The large-scale tests, on independent data."""
        draw = partial(apart, draw=self.data[kind][0])
        return curves.Study({f"{kind}{INDEPENDENT}": draw}, _tests(self.large_scale), LEVEL)


def apart(n: int, rng: Rng, draw: curves.Draw) -> Data:
    """The first variable of one draw and the second of another."""
    return [draw(n, rng)[0], draw(n, rng)[1]]


def _tests(options: Mapping[str, Mapping[str, Any]]) -> dict[str, curves.Test]:
    return {name: partial(curves.dhsic_pvalue, **chosen) for name, chosen in options.items()}


def permuted(estimator: str | Estimator, kernels: str | None = "gaussian") -> dict[str, Any]:
    """Options of a test by 250 permutations of all rows."""
    null = dhsic.Permutation(250, within="all")
    return {"estimator": estimator, "kernels": kernels, "null": null}


def spectral(estimator: Estimator, kernels: str | Kernel = "gaussian") -> dict[str, Any]:
    """Options of a test by the spectral null."""
    return {"estimator": estimator, "kernels": kernels, "null": "spectral"}


EXPERIMENTS = {
    "1": Experiment(
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


def run(
    figure: str, sizes: tuple[int, ...], level_size: int | None, runs: int, processes: int, out: str
) -> None:
    """Measure the level, then the power, and draw the latter."""
    experiment = EXPERIMENTS[figure]
    for kind, (_, own) in experiment.data.items():
        level = (experiment.level(kind), [level_size or experiment.level_size])
        for study, counts in (level, (experiment.power(kind), sizes or own)):
            write_csv(out, curves.rows(study, counts, runs, processes, read_csv(out)))
    table = read_csv(out)
    shown = [row for kind in experiment.data for row in experiment.power(kind).own(table, runs)]
    curves.picture(shown, Path(out).with_suffix(".png"), experiment.scale)


@click.command(help=__doc__)
@click.option(
    "--figure", "figures", multiple=True, type=click.Choice(list(EXPERIMENTS)), default=EXPERIMENTS
)
@click.option("--size", "sizes", multiple=True, type=int, help="Rows; the figure's own if none.")
@click.option("--level-size", type=int, help="Rows of the independent data.")
@click.option("--runs", type=click.IntRange(1), default=100)
@click.option("--processes", default=1)
@click.option("--out", default="benchmarks/results", help="Folder.")
def main(
    figures: tuple[str, ...],
    sizes: tuple[int, ...],
    level_size: int | None,
    runs: int,
    processes: int,
    out: str,
) -> None:
    for figure in figures:
        run(figure, sizes, level_size, runs, processes, str(Path(out) / f"zhang_{figure}.csv"))


if __name__ == "__main__":
    main()
