"""P-values of the 25 causal graphs over altitude, temperature and sunshine.

As figure 5 of F. Kalinke and Z. Szabo, Nystrom M-Hilbert-Schmidt independence criterion (2023), on
the weather of 349 places in Germany of J. Mooij et al. (2016), by all pairs of rows and by
landmarks, with the gamma null. Needs `weather/data.csv` in the folder that is given. Writes
benchmarks/results/weather_dags.csv, the best graph by all pairs of rows first, and a picture beside
it.

    python -m benchmarks run weather_dags --data FOLDER
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
from matplotlib.figure import Figure

from benchmarks.shared.output import read_csv, write_csv
from dhsic.causal import DAG, score_dags
from dhsic.causal.scoring import MeasureName
from dhsic.plots import causal_graph, dag_scores

NAMES = ("altitude", "temperature", "sunshine")
ESTIMATORS: tuple[MeasureName, ...] = ("v-hsic", "nystrom-m")


def rows(path: Path, seed: int) -> Iterator[dict[str, Any]]:
    data = np.loadtxt(path, skiprows=1)
    by = {name: score_dags(data, names=NAMES, estimator=name, rng=seed) for name in ESTIMATORS}
    pvalues = {name: {str(one.dag): one.pvalue for one in scores} for name, scores in by.items()}
    for one in by["v-hsic"].ranked:
        graph = str(one.dag)
        yield {"graph": graph} | {name: pvalues[name][graph] for name in ESTIMATORS}


def draw(table: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Bars of both estimators, and the best graph."""
    graphs = [DAG.of(NAMES, edges(row["graph"])).parents for row in table]
    figure = Figure(figsize=(17.0, 6.0), layout="constrained")
    *bars, beside = figure.subplots(1, 1 + len(ESTIMATORS), width_ratios=(3, 3, 2))
    for axes, name in zip(bars, ESTIMATORS, strict=True):
        dag_scores([float(row[name]) for row in table], graphs, NAMES, ax=axes)
        axes.set_xlabel(f"p-value of {name}")
    causal_graph(graphs[0], NAMES, ax=beside)
    figure.savefig(path, dpi=110)


def edges(graph: str) -> list[tuple[str, str]]:
    pairs = [edge.split(" -> ") for edge in graph.split(", ") if " -> " in edge]
    return [(cause, effect) for cause, effect in pairs]


@click.command(help=__doc__)
@click.option(
    "--data",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=os.environ.get("DHSIC_DATA", "../shared/data"),
)
@click.option("--seed", default=0)
@click.option("--out", default="benchmarks/results/weather_dags.csv")
def main(data: Path, seed: int, out: str) -> None:
    write_csv(out, rows(data / "weather" / "data.csv", seed))
    draw(read_csv(out), Path(out).with_suffix(".png"))


if __name__ == "__main__":
    main()
