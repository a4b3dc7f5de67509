"""Power of the null that is taken without options beside plain permutations, on the same data sets.

All tests are of "nystrom-m" with the kernels that are taken without options. With two variables
they have the same statistic too, so that only the null differs: `null="auto"` or 499 permutations
of all rows. With three and four variables the joint null by shifts, with the statistic that
permutations have, and the chain of tests of two sides are beside them, where they exist. Where
there are more than 200 rows only sqrt(200 n), drawn at random, are dependent: the others have lost
their partners, so that the power stays away from 1. `low` and `high` are exact 95 % limits of the
power. Writes benchmarks/results/exact_power.csv, whose rows are kept, and a picture of it beside.

    python -m benchmarks run exact_power
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import click
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.stats import beta

import dhsic
from benchmarks.shared import cases, curves
from benchmarks.shared.cases import Data, Rng
from benchmarks.shared.output import read_csv, write_csv
from dhsic.estimators.registry import NULLS

Array = NDArray[Any]

DEPENDENT_ROWS = 200
RESAMPLES = 499


def quadratic(n: int, rng: Rng, strength: float) -> Data:
    x, noise = rng.standard_normal((2, n))
    return [x, strength * x**2 + noise]


def heavy_tailed(n: int, rng: Rng, strength: float) -> Data:
    """Both Cauchy."""
    x, noise = rng.standard_cauchy((2, n))
    return [x, strength * x + noise]


def dummy(n: int, rng: Rng, share: float) -> Array:
    """1 with the probability `share`, else 0; drawn again where it comes out constant."""
    while not 0 < np.count_nonzero(x := rng.random(n) < share) < n:
        pass
    return x.astype(np.float64)


def rare_event(n: int, rng: Rng, shift: float) -> Data:
    """In 3 % of the rows x is 1, and y is shifted."""
    x = dummy(n, rng, 0.03)
    return [x, shift * x + rng.standard_normal(n)]


def rare_events(n: int, rng: Rng, share: float) -> Data:
    """Two dummies of 5 %, the same in a share of the rows."""
    x, y = (dummy(n, rng, 0.05) for _ in range(2))
    return [x, np.where(rng.random(n) < share, x, y)]


def one_of_columns(n: int, rng: Rng, strength: float, d: int) -> Data:
    """Of d columns of x the first matters."""
    x = rng.standard_normal((n, d))
    return [x, strength * x[:, 0] + rng.standard_normal(n)]


def contingency(n: int, rng: Rng, share: float) -> Data:
    """Categories 0 to 4, of which y has that of x, in another order, in a share of the rows."""
    x, other = rng.integers(5, size=(2, n))
    y = np.where(rng.random(n) < share, 2 * x % 5, other)
    return [x.astype(np.float64), y.astype(np.float64)]


def common_cause(n: int, rng: Rng, strength: float, m: int) -> Data:
    return list(strength * rng.standard_normal(n) + rng.standard_normal((m, n)))


def one_pair(n: int, rng: Rng, strength: float, m: int, first: int) -> Data:
    """Two neighbours depend linearly, all others are independent."""
    data = list(rng.standard_normal((m, n)))
    data[first + 1] += strength * data[first]
    return data


KINDS: dict[str, curves.Draw] = {
    "linear": partial(cases.linear, strength=0.18),
    "quadratic": partial(quadratic, strength=0.18),
    "sine, w = 1": partial(cases.sine, strength=0.4, frequency=1),
    "sine, w = 2": partial(cases.sine, strength=0.8, frequency=2),
    "sine, w = 4": partial(cases.sine, strength=1.0, frequency=4),
    "circle": partial(cases.circle, noise=0.45),
    "heteroscedastic": partial(cases.heteroscedastic, strength=0.25),
    "heavy tails": partial(heavy_tailed, strength=0.1),
    "rare event": partial(rare_event, shift=1.0),
    "two rare events": partial(rare_events, share=0.25),
    "1 of 20 columns": partial(one_of_columns, strength=0.3, d=20),
    "contingency": partial(contingency, share=0.17),
    "xor of 3": partial(cases.joint_triple, strength=0.4),
    "common cause of 3": partial(common_cause, strength=0.5, m=3),
    "common cause of 4": partial(common_cause, strength=0.45, m=4),
    "first pair of 3": partial(one_pair, strength=0.3, m=3, first=0),
    "late pair of 3": partial(one_pair, strength=0.3, m=3, first=1),
    "late pair of 4": partial(one_pair, strength=0.45, m=4, first=2),
}
SEVERAL = [kind for kind in KINDS if kind.endswith((" of 3", " of 4"))]


@dataclass(frozen=True)
class Weakened:
    """Data of which so many rows are dependent that the power hardly grows with all rows."""

    draw: curves.Draw

    def __call__(self, n: int, rng: Rng) -> Data:
        data = self.draw(n, rng)
        alone = rng.permutation(n)[round(math.sqrt(DEPENDENT_ROWS * n)) :]
        for x in data[1:]:
            x[alone] = x[rng.permutation(alone)]
        return data


def methods(several: bool) -> dict[str, curves.Test]:
    """Tests by their nulls; those of several variables where they exist."""
    named = [name for name in ("shifts", "chain") if several and name in NULLS]
    nulls: dict[str, Any] = {
        "permutation": dhsic.Permutation(RESAMPLES, within="all"),
        "default": "auto",
        **dict(zip(named, named, strict=True)),
    }
    test = partial(curves.dhsic_pvalue, estimator="nystrom-m")
    return {name: partial(test, null=null) for name, null in nulls.items()}


def with_limits(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """With the limits that Clopper and Pearson give to the power."""
    runs = int(row["runs"])
    found = round(float(row["power"]) * runs)
    low = float(beta.ppf(0.025, found, runs - found + 1)) if found else 0.0
    high = float(beta.ppf(0.975, found + 1, runs - found)) if found < runs else 1.0
    return {**row, "low": low, "high": high}


def rows(
    kinds: Sequence[str],
    sizes: Sequence[int],
    runs: int,
    level: float,
    processes: int,
    done: curves.Table,
) -> Iterator[Mapping[str, Any]]:
    yield from done
    for kind in kinds:
        data = {kind: Weakened(KINDS[kind])}
        study = curves.Study(data, methods(kind in SEVERAL), level)
        own = study.own(done, runs)
        found = curves.rows(study, sizes, runs, processes, own)
        yield from map(with_limits, islice(found, len(own), None))


def draw(table: curves.Table, path: Path) -> None:
    """Power and its limits, a panel a number of rows, a line a kind of data."""
    kinds = [kind for kind in KINDS if kind in {row["data"] for row in table}]
    sizes = sorted({int(row["n"]) for row in table})
    names = list(dict.fromkeys(row["method"] for row in table))
    size = (2.0 + 3.6 * len(sizes), 1.4 + 0.34 * len(kinds))
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(1, len(sizes), sharey=True, squeeze=False)[0]
    for axes, n in zip(panels, sizes, strict=True):
        for number, name in enumerate(names):
            own = [row for row in table if (int(row["n"]), row["method"]) == (n, name)]
            power, low, high = (
                np.array([float(row[key]) for row in own]) for key in ("power", "low", "high")
            )
            style = curves.style(number)
            axes.errorbar(
                power,
                [
                    kinds.index(row["data"]) + 0.18 * (number - 0.5 * (len(names) - 1))
                    for row in own
                ],
                xerr=[power - low, high - power],
                color=style["color"],
                marker=style["marker"],
                markersize=4,
                linestyle="none",
                label=name,
            )
        axes.set(title=f"{n:,} rows", xlim=(-0.03, 1.03))
        axes.grid(axis="y", color="0.92")
        axes.set_axisbelow(True)
    panels[0].set_yticks(range(len(kinds)), kinds)
    panels[0].set_ylim(len(kinds) - 0.5, -0.7)
    figure.supxlabel("power, with 95 % limits", fontsize=10)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=4, frameon=False)
    figure.savefig(path, dpi=150)


@click.command(help=__doc__)
@click.option("--data", "kinds", multiple=True, type=click.Choice(list(KINDS)), default=KINDS)
@click.option("--n", "sizes", multiple=True, type=int, default=(200, 1000))
@click.option("--runs", type=click.IntRange(1), default=300)
@click.option("--level", default=0.05)
@click.option("--processes", default=1)
@click.option("--out", default="benchmarks/results/exact_power.csv")
def main(out: str, runs: int, level: float, **options: Any) -> None:
    write_csv(out, rows(runs=runs, level=level, done=read_csv(out), **options))
    shown = [
        row for row in read_csv(out) if (int(row["runs"]), float(row["level"])) == (runs, level)
    ]
    draw(shown, Path(out).with_suffix(".png"))


if __name__ == "__main__":
    main()
