"""Errors of mean embeddings against the number of landmarks, for every way to choose these.

In the manner of figures 1 and 2 of Chatalic et al. (2022). `--data clouds`: a mixture of 8 normal
clouds in 10 dimensions with centres from N(0, 5 I), the error exact by the closed forms of their
appendix G. Tables of real data (`--data casp` and others, in the folder DHSIC_DATA): the law is the
uniform one on 20,000 of their rows, from which n rows are drawn. The kernel is Gaussian with the
median distance of 1,000 rows as its scale. `empirical` is the root mean squared error that all n
rows leave, and `reached` that over the strategy's mean error. Landmarks are chosen
from all rows, or from a pool of so many of them. All ways but leverage scores take one landmark
after another, so that a trial chooses once and the first m are its choice of m; leverage scores
choose anew for every number. Writes benchmarks/results/embedding_error.csv and
a picture beside it; rows that the file holds already are kept.

    python -m benchmarks run embedding_error
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any, get_args

import click
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from benchmarks.shared.embeddings import Empirical, Mixture, floor, kernel_means, nested_errors
from benchmarks.shared.output import parallel_map, read_csv, write_csv
from dhsic.kernels import Gaussian
from dhsic.landmarks import Pool, Selection
from dhsic.landmarks.selection import in_turn

SELECTIONS = get_args(Selection)
COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)
LOOKS: dict[str, tuple[str, str]] = {
    "uniform": ("#0072B2", "o"),
    "rpcholesky": ("#D55E00", "s"),
    "leverage": ("#009E73", "^"),
    "kmeans++": ("#CC79A7", "v"),
    "coherence": ("#E69F00", "D"),
    "determinant": ("#56B4E9", "X"),
}
KEYS = ("data", "n", "selection", "landmarks", "trials")
TABLE_ROWS = 20_000
COLUMNS = 4
FOLDER = Path(os.environ.get("DHSIC_DATA", "../shared/data"))

Indices = NDArray[np.intp]
Setting = tuple[str, int, list[Selection], list[int], int, int]
Vector = NDArray[np.float64]


def standardised(file: str, columns: list[str] | None = None) -> Empirical:
    """Columns of a table, each of unit variance, at TABLE_ROWS rows or all."""
    table = pd.read_parquet(FOLDER / file, columns=columns).select_dtypes("number").dropna()
    x = table.to_numpy(np.float64)
    rng = np.random.default_rng(0)
    x = x[rng.permutation(len(x))[:TABLE_ROWS]]
    x = x[:, x.std(axis=0) > 0]
    x /= x.std(axis=0)
    gamma = Gaussian().fit(x[:1000]).gamma
    assert gamma is not None
    return Empirical(x, gamma / 2.0)


LAWS: dict[str, Callable[[], Mixture | Empirical]] = {
    "clouds": partial(Mixture.clouds, 8, 10),
    "casp": partial(standardised, "casp/casp.parquet"),
    "ccpp": partial(standardised, "ccpp/ccpp.parquet"),
    "msd": partial(standardised, "msd/msd_random7000.parquet"),
    "air": partial(
        standardised,
        "beijing_air/beijing_air.parquet",
        ["PM2_5", "PM10", "SO2", "NO2", "TEMP", "PRES", "DEWP"],
    ),
}


@cache
def law_of(data: str) -> Mixture | Empirical:
    return LAWS[data]()


def one_trial(setting: Setting) -> Vector:
    """The errors (selections, counts), by data and kernel means that all selections share."""
    data, n, selections, counts, pool, seed = setting
    law = law_of(data)
    seeds = [list(LAWS).index(data), n, seed]
    x = law.draw(n, np.random.default_rng(seeds))
    rows = x[: min(n, pool)]
    choices = []
    for selection in selections:
        rng = np.random.default_rng([*seeds, SELECTIONS.index(selection)])
        choices.append(chosen(selection, Pool((Gaussian(gamma=law.gamma),), (rows,)), counts, rng))
    used = np.unique(np.concatenate([taken for some in choices for taken, _ in some]))
    means = np.full(len(rows), np.nan)
    means[used] = kernel_means(law.gamma, rows[used], x)
    return np.stack(
        [
            np.concatenate([nested_errors(law, rows[t], means[t], sizes) for t, sizes in some])
            for some in choices
        ]
    )


def chosen(
    selection: Selection, pool: Pool, counts: list[int], rng: np.random.Generator
) -> list[tuple[Indices, list[int]]]:
    """Rows in turn, and the numbers of landmarks for which the first so many are the choice."""
    if selection == "leverage":
        return [(in_turn(selection, pool, p, rng), [p]) for p in counts]
    return [(in_turn(selection, pool, max(counts), rng), counts)]


def rows(
    data: list[str],
    sizes: list[int],
    selections: list[Selection],
    counts: list[int],
    trials: int,
    pool: int,
    processes: int,
    done: list[Mapping[str, Any]],
) -> Iterator[Mapping[str, Any]]:
    yield from done
    known = {tuple(str(row[key]) for key in KEYS) for row in done}
    for name, n in product(data, sizes):
        numbers = [p for p in counts if p <= min(n, pool)]
        keys = [
            [dict(zip(KEYS, (name, n, one, p, trials), strict=True)) for p in numbers]
            for one in selections
        ]
        if all(tuple(map(str, key.values())) in known for some in keys for key in some):
            continue
        settings = [(name, n, selections, numbers, pool, seed) for seed in range(trials)]
        errors = np.array(parallel_map(one_trial, settings, processes))
        lowest = floor(law_of(name), n)
        for i, some in enumerate(keys):
            for j, key in enumerate(some):
                if tuple(map(str, key.values())) not in known:
                    yield {**key, **summary(lowest, errors[:, i, j])}


def summary(empirical: float, errors: Vector) -> dict[str, float]:
    low, high = np.quantile(errors, [0.05, 0.95])
    return {
        "error": float(errors.mean()),
        "5%": float(low),
        "95%": float(high),
        "empirical": empirical,
        "reached": empirical / float(errors.mean()),
    }


def draw(table: list[Mapping[str, Any]], path: Path) -> None:
    """A panel a law and number of rows."""
    laws = list(dict.fromkeys((row["data"], int(row["n"])) for row in table))
    width = min(len(laws), COLUMNS)
    height = -(-len(laws) // width)
    figure = Figure(figsize=(4.0 * width, 3.4 * height + 0.4), layout="constrained")
    panels = figure.subplots(height, width, sharex=True, sharey=True, squeeze=False).ravel()
    for axes, law in zip(panels, laws, strict=False):
        _panel(axes, *law, [row for row in table if (row["data"], int(row["n"])) == law])
    for number, axes in enumerate(panels):
        axes.set_visible(number < len(laws))
        axes.tick_params(labelbottom=number + width >= len(laws))
    figure.supxlabel("landmarks", fontsize=11)
    figure.supylabel("error of the mean embedding (norm in the RKHS)", fontsize=11)
    lines = {
        label: line
        for axes in panels
        for line, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(lines.values(), lines.keys(), loc="outside upper center", ncols=8, frameon=False)
    figure.savefig(path, dpi=130)


def _panel(axes: Axes, data: str, n: int, table: list[Mapping[str, Any]]) -> None:
    for selection in dict.fromkeys(row["selection"] for row in table):
        colour, marker = LOOKS[selection]
        lines = [row for row in table if row["selection"] == selection]
        lines.sort(key=lambda row: int(row["landmarks"]))
        p, error, low, high = (
            [float(row[key]) for row in lines] for key in ("landmarks", "error", "5%", "95%")
        )
        axes.plot(p, error, marker=marker, markersize=4, lw=1.2, label=selection, color=colour)
        axes.fill_between(p, low, high, alpha=0.12, color=colour, linewidth=0)
    axes.axhline(float(table[0]["empirical"]), color="black", ls="--", label="all rows")
    line = math.sqrt(n) * math.log(math.sqrt(n))
    axes.axvline(line, color="grey", ls=":", label="sqrt(n) log sqrt(n)")
    axes.set(xscale="log", yscale="log", title=f"{data}, n = {n:,}")


@click.command(help=__doc__)
@click.option("--data", multiple=True, type=click.Choice(list(LAWS)), default=("clouds",))
@click.option("--rows", "sizes", multiple=True, type=int, default=(1000, 10_000, 100_000))
@click.option(
    "--selection",
    "selections",
    multiple=True,
    type=click.Choice(SELECTIONS),
    default=SELECTIONS,
)
@click.option("--landmarks", "counts", multiple=True, type=int, default=COUNTS)
@click.option("--trials", default=100)
@click.option("--pool", default=10_000, help="Rows to select from, at most.")
@click.option("--processes", default=1)
@click.option("--out", default="benchmarks/results/embedding_error.csv")
def main(
    data: tuple[str, ...],
    sizes: tuple[int, ...],
    selections: tuple[Selection, ...],
    counts: tuple[int, ...],
    trials: int,
    pool: int,
    processes: int,
    out: str,
) -> None:
    every = (list(data), list(sizes), list(selections), list(counts))
    write_csv(out, rows(*every, trials, pool, processes, read_csv(out)))
    draw(read_csv(out), Path(out).with_suffix(".png"))


if __name__ == "__main__":
    main()
