"""P-values of the 25 causal graphs over altitude, temperature and sunshine.

As figure 5 of F. Kalinke and Z. Szabo, Nystrom M-Hilbert-Schmidt independence criterion (2023), on
the weather of 349 places in Germany of J. Mooij et al. (2016), by all pairs of rows and by
landmarks, with the gamma null. Needs `weather/data.csv` in the folder DHSIC_DATA. The best graph is
the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import click
import numpy as np
from matplotlib.figure import Figure

from benchmarks.shared.songs import FOLDER
from benchmarks.study import Cell, Row, Study, Table
from dhsic.causal import DAG, score_dags
from dhsic.plots import causal_graph, dag_scores

NAMES = ("altitude", "temperature", "sunshine")
ESTIMATORS: Mapping[str, Any] = {"v-hsic": "v-hsic", "nystrom-m": "nystrom-m"}
PLACES = 349


@cache
def places(path: Path) -> Any:
    """Altitude, temperature and sunshine of all."""
    if not path.exists():
        msg = f"there is no weather in {path}: name the folder of data in DHSIC_DATA"
        raise click.ClickException(msg)
    return np.loadtxt(path, skiprows=1)


def measure(cell: Cell, run: int) -> list[tuple[str, float]]:
    data = places(FOLDER / "weather" / "data.csv")[: cell.n]
    scores = score_dags(data, names=NAMES, estimator=cell.test, null="gamma", rng=run)
    return [(str(one.dag), one.pvalue) for one in scores.ranked]


def rows(cell: Cell, found: Sequence[list[tuple[str, float]]]) -> Iterator[Row]:
    for graph, pvalue in found[0]:
        yield {"graph": graph, "p-value": pvalue}


def draw(table: Table, path: Path) -> None:
    """Bars of both estimators, and the best graph."""
    by = {
        name: {row["graph"]: float(row["p-value"]) for row in table if row["method"] == name}
        for name in ESTIMATORS
    }
    best = max(by.values(), key=len)
    graphs = [DAG.of(NAMES, edges(graph)).parents for graph in best]
    figure = Figure(figsize=(17.0, 6.0), layout="constrained")
    *bars, beside = figure.subplots(1, 1 + len(ESTIMATORS), width_ratios=(3, 3, 2))
    for axes, name in zip(bars, ESTIMATORS, strict=True):
        dag_scores([by[name].get(graph, 0.0) for graph in best], graphs, NAMES, ax=axes)
        axes.set_xlabel(f"p-value of {name}")
    causal_graph(graphs[0], NAMES, ax=beside)
    figure.savefig(path, dpi=110)


def edges(graph: str) -> list[tuple[str, str]]:
    pairs = [edge.split(" -> ") for edge in graph.split(", ") if " -> " in edge]
    return [(cause, effect) for cause, effect in pairs]


STUDY = Study(
    name="weather_dags",
    title="Figure 5 of Kalinke and Szabo: which causal graph of the weather is the best?",
    data={"weather of places": None},
    methods=ESTIMATORS,
    sizes=(PLACES,),
    measure=measure,
    columns=("graph", "p-value"),
    rows=rows,
    picture=draw,
)
