"""Which of two variables is the cause, on the Tuebingen cause-effect pairs.

In the manner of section 4.5 of A. Perez-Suay and G. Camps-Valls, Sensitivity maps of the
Hilbert-Schmidt independence criterion, figures 6 and 7: residuals of either variable given the
other, the score C by HSIC of residuals and cause and C_s by its sensitivity maps, of all pairs of
rows (HSIC) or D random features (RHSIC), on n rows of a pair at most, drawn anew in every run.
`AUC` is the mean area under the ROC curve of all pairs by their weights, with its 5 and 95 % limits
over draws of origins of pairs, as pairs of one origin tell much the same. The kind of data is the
regression; forests and processes are cross-fitted. Needs the pairs of
J. Mooij et al. (JMLR 17(32), 2016) in the folder DHSIC_DATA; pairs that weigh 0 are left out.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

import dhsic
from benchmarks.shared.curves import style
from benchmarks.shared.songs import FOLDER
from benchmarks.study import Cell, Row, Study, Table
from dhsic import causal
from dhsic.estimators import Estimator

ESTIMATORS: dict[str, Estimator] = {
    "HSIC": dhsic.VHSIC(),
    **{f"RHSIC, D = {d}": dhsic.RFFHSIC(d, "complex") for d in (10, 50, 100)},
    "nystrom-m": dhsic.NystromMHSIC(),
}
CRITERIA = ("C", "C_s")
BOOTSTRAPS = 500

Vector = NDArray[np.float64]


REGRESSIONS = {name: name for name in ("random-forest", "splines", "gaussian-process")}


class Pair(NamedTuple):
    number: int
    group: str
    weight: float
    first_is_cause: bool
    x: Vector
    y: Vector


@cache
def pairs(folder: Path) -> list[Pair]:
    """Pairs that weigh something, the first columns of the file as x."""
    if not (folder / "cep" / "pairs.npz").exists():
        msg = f"there are no pairs in {folder / 'cep'}: name the folder of data in DHSIC_DATA"
        raise click.ClickException(msg)
    arrays = np.load(folder / "cep" / "pairs.npz")
    with (folder / "cep" / "pairs.csv").open(newline="") as file:
        listed = [one for one in csv.DictReader(file) if float(one["weight"]) > 0.0]
    found = []
    for one in listed:
        name, data = one["pair"], arrays[one["pair"]]
        cause = data[:, int(one["cause_first"]) - 1 : int(one["cause_last"])]
        effect = data[:, int(one["effect_first"]) - 1 : int(one["effect_last"])]
        forward = int(one["cause_first"]) < int(one["effect_first"])
        x, y = (cause, effect) if forward else (effect, cause)
        number, weight = int(name.removeprefix("pair")), float(one["weight"])
        found.append(Pair(number, one["group"], weight, forward, x, y))
    return found


def spread(data: Sequence[Pair], count: int) -> list[Pair]:
    """So many of the pairs, the first and the last among them, as one direction has no curve."""
    return [data[k] for k in np.linspace(0, len(data) - 1, count).round().astype(int)]


def measure(cell: Cell, run: int) -> tuple[list[Pair], Vector]:
    """Scores of all pairs, positive where the first variable is believed to be the cause."""
    criterion, _, estimator = cell.method.partition(", ")
    data = pairs(FOLDER)
    if cell.n < 50:  # of a small run
        data = spread(data, 9)
    scores = []
    for pair in data:
        found = causal.direction(
            pair.x,
            pair.y,
            criterion="p-value" if criterion == "p-value" else "sensitivity",
            estimator=ESTIMATORS[estimator],
            regression=cell.draw,
            max_rows=cell.n,
            rng=1000 * run + pair.number,
            threads=1,
        )
        scores.append(found.backward.hsic - found.forward.hsic if criterion == "C" else found.score)
    return data, np.array(scores)


def area(scores: Vector, truth: Vector, weights: Vector) -> float:
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(truth, scores, sample_weight=weights))


def rows(cell: Cell, found: Sequence[tuple[list[Pair], Vector]]) -> Iterator[Row]:
    """Area under the curve, mean of all runs, and how sure it is."""
    data = found[0][0]
    truth = np.array([pair.first_is_cause for pair in data])
    weights = np.array([pair.weight for pair in data])
    areas = [area(scores, truth, weights) for _, scores in found]
    drawn = [
        np.mean([area(scores[some], truth[some], weights[some]) for _, scores in found])
        for some in draws([pair.group for pair in data], truth)
    ]
    low, high = np.quantile(drawn, [0.05, 0.95])
    right = [float(np.average((scores > 0) == truth, weights=weights)) for _, scores in found]
    yield {
        "pairs": len(data),
        "AUC": float(np.mean(areas)),
        "smallest": min(areas),
        "largest": max(areas),
        "5%": float(low),
        "95%": float(high),
        "accuracy": float(np.mean(right)),
    }


def draws(groups: Sequence[str], truth: NDArray[np.bool_]) -> Iterator[NDArray[np.intp]]:
    """Pairs of groups that are drawn with replacement, of both directions."""
    rng = np.random.default_rng(0)
    names, members = np.unique(groups, return_inverse=True)
    count = 0
    while count < BOOTSTRAPS:
        drawn = rng.integers(len(names), size=len(names))
        some = np.concatenate([np.flatnonzero(members == group) for group in drawn])
        if 0 < truth[some].sum() < len(some):
            count += 1
            yield some


def draw(table: Table, path: Path) -> None:
    """Areas against rows, with their limits, a panel a regression."""
    names = list(dict.fromkeys(row["data"] for row in table))
    figure = Figure(figsize=(1.0 + 3.4 * len(names), 4.2), layout="constrained")
    panels = figure.subplots(1, len(names), sharey=True, squeeze=False)[0]
    for axes, name in zip(panels, names, strict=True):
        own = [row for row in table if row["data"] == name]
        for number, method in enumerate(dict.fromkeys(row["method"] for row in own)):
            some = sorted((r for r in own if r["method"] == method), key=lambda row: int(row["n"]))
            n, auc, low, high = (
                np.array([float(row[key]) for row in some]) for key in ("n", "AUC", "5%", "95%")
            )
            shift = 1.02 ** (number - 3)
            axes.errorbar(n * shift, auc, (auc - low, high - auc), label=method, **style(number))
        axes.axhline(0.5, color="0.7", linewidth=1.0, linestyle=":")
        axes.set(xscale="log", ylim=(-0.01, 1.01), xlabel="rows at most", title=name)
    panels[0].set_ylabel("area under the curve, 5 to 95 %")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=6, frameon=False, fontsize=8)
    figure.savefig(path, dpi=110)


STUDY = Study(
    name="cause_effect_pairs",
    title="Figures 6 and 7 of Perez-Suay and Camps-Valls: which of two variables is the cause?",
    data=REGRESSIONS,
    methods=dict.fromkeys(
        ["p-value, HSIC", *(f"{one}, {name}" for name, one in product(ESTIMATORS, CRITERIA))]
    ),
    sizes=(50, 100, 200, 500, 2000),
    measure=measure,
    columns=("pairs", "AUC", "smallest", "largest", "5%", "95%", "accuracy"),
    runs=10,
    rows=rows,
    small={"data": ["splines"], "methods": ["C, HSIC", "C_s, HSIC"], "sizes": [40]},
    picture=draw,
)
