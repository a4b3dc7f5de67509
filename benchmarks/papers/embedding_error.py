"""Errors of mean embeddings against the number of landmarks, for several ways to choose these.

In the manner of figures 1 and 2 of Chatalic et al. (2022). `clouds`: a mixture of 8 normal clouds
in 10 dimensions with centres from N(0, 5 I), the error exact by the closed forms of their
appendix G. Tables of real data, in the folder DHSIC_DATA: the law is the uniform one on 20,000 of
their rows, from which n rows are drawn. The kernel is Gaussian with the median distance of 1,000
rows as its scale. `empirical` is the root mean squared error that all n rows leave, and `reached`
that over the mean error. Methods are a choice of landmarks and their number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import dhsic
from benchmarks.shared.curves import style
from benchmarks.shared.embeddings import Empirical, Mixture, floor
from benchmarks.shared.songs import FOLDER
from benchmarks.study import Cell, Row, Study, Table
from dhsic.kernels import Gaussian

SELECTIONS = ("uniform", "rpcholesky", "leverage")
COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)
POOL_ROWS = 10_000
TABLE_ROWS = 20_000
COLUMNS = 4


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


def error(law: Mixture | Empirical, found: dhsic.MeanEmbedding) -> float:
    """|found - mu|, the norm of the difference to the embedding of the law."""
    z, weights = found.landmarks, found.weights
    own = float(weights @ found.kernel(z) @ weights)
    return math.sqrt(max(0.0, own - 2.0 * float(weights @ law.mean(z)) + law.squared_norm))


def measure(cell: Cell, run: int) -> float:
    """The error on one draw of the data and of the landmarks."""
    law, (selection, count) = law_of(cell.data), cell.test
    x = law.draw(cell.n, np.random.default_rng([list(LAWS).index(cell.data), cell.n, run]))
    found = dhsic.mean_embedding(
        x,
        Gaussian(gamma=law.gamma),
        count,
        selection=selection,
        pool=max(1, min(cell.n, POOL_ROWS) // count),
        rng=run,
        threads=1,
    )
    return error(law, found)


def rows(cell: Cell, found: Sequence[float]) -> Iterator[Row]:
    low, high = np.quantile(found, [0.05, 0.95])
    empirical = floor(law_of(cell.data), cell.n)
    yield {
        "error": float(np.mean(found)),
        "5%": float(low),
        "95%": float(high),
        "empirical": empirical,
        "reached": empirical / float(np.mean(found)),
    }


def takes(cell: Cell) -> bool:
    selection, count = cell.test
    if cell.data != "clouds" and cell.n != 10_000:
        return False
    return bool(count <= cell.n and not (selection == "leverage" and cell.n > 10_000))


def draw(table: Table, path: Path) -> None:
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


def _panel(axes: Axes, data: str, n: int, table: Table) -> None:
    by: dict[str, list[tuple[int, Any]]] = {}
    for row in table:
        selection, count = row["method"].rsplit(", ", 1)
        by.setdefault(selection, []).append((int(count), row))
    for number, (selection, own) in enumerate(by.items()):
        p, found = zip(*sorted(own, key=lambda one: one[0]), strict=True)
        values, low, high = ([float(row[key]) for row in found] for key in ("error", "5%", "95%"))
        look = style(number)
        axes.plot(p, values, markersize=4, lw=1.2, label=selection, **look)
        axes.fill_between(p, low, high, alpha=0.12, color=look["color"], linewidth=0)
    axes.axhline(float(table[0]["empirical"]), color="black", ls="--", label="all rows")
    line = math.sqrt(n) * math.log(math.sqrt(n))
    axes.axvline(line, color="grey", ls=":", label="sqrt(n) log sqrt(n)")
    axes.set(xscale="log", yscale="log", title=f"{data}, n = {n:,}")


STUDY = Study(
    name="embedding_error",
    title="Figures 1 and 2 of Chatalic et al.: how many landmarks embed a mean?",
    data=LAWS,
    methods={f"{one}, {p}": (one, p) for one, p in product(SELECTIONS, COUNTS)},
    sizes=(1000, 10_000, 100_000),
    measure=measure,
    columns=("error", "5%", "95%", "empirical", "reached"),
    runs=100,
    rows=rows,
    takes=takes,
    small={"data": ["clouds"], "methods": ["uniform, 2", "rpcholesky, 128"], "sizes": [300]},
    picture=draw,
)
