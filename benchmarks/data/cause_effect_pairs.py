"""Which of two variables is the cause, on the Tuebingen cause-effect pairs.

In the manner of section 4.5 of A. Perez-Suay and G. Camps-Valls, Sensitivity maps of the
Hilbert-Schmidt independence criterion: residuals of either variable given the other, the score C by
HSIC of residuals and cause and C_s by its sensitivity maps, of all pairs of rows (HSIC) or D random
features (RHSIC), on n_max rows of a pair at most, drawn anew in every realisation. Needs the pairs
of J. Mooij et al. (JMLR 17(32), 2016) in the folder DHSIC_DATA, without which nothing is run; pairs
that weigh 0 are left out. Writes the score of every pair into
benchmarks/results/cause_effect_scores.csv, keeping rows that it holds already, and the areas under
the curves into benchmarks/results/cause_effect_pairs.csv, with pictures of the curves beside it.

    python -m benchmarks run cause_effect_pairs
"""

from __future__ import annotations

import csv
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

import dhsic
from benchmarks.shared.output import read_csv, write_csv
from dhsic.causal import (
    CausalDirection,
    Regression,
    accuracy_curve,
    precision_recall_curve,
    roc_curve,
)
from dhsic.causal.measure import ResidualMeasure
from dhsic.causal.pair_residuals import PairResiduals, pair_residuals
from dhsic.causal.regression import RegressionName
from dhsic.estimators import Estimator
from dhsic.plots import precision_recall_curves, roc_curves

FOLDER = Path(os.environ.get("DHSIC_DATA", "../shared/data"))
KEYS = ("regression", "n_max", "realisation", "pair")
ESTIMATORS: dict[str, Estimator] = {
    "HSIC": dhsic.VHSIC(),
    **{f"RHSIC, D = {d}": dhsic.RFFHSIC(d, "complex") for d in (10, 50, 100)},
    "nystrom-m": dhsic.NystromMHSIC(),
}
PAPER = {
    "C, HSIC": 0.6562,
    "C, RHSIC, D = 10": 0.5704,
    "C, RHSIC, D = 50": 0.6111,
    "C, RHSIC, D = 100": 0.6344,
}
BOOTSTRAPS = 500
CRITERIA = {"C": "#0072B2", "C_s": "#D55E00"}
THIN_AND_THICK = ("200", "2000")
ABOVE = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "frameon": False, "fontsize": 8}
AS_PAPER = ("random-forest", "forest-in-sample")

Vector = NDArray[np.float64]
Row = Mapping[str, Any]


class InSample:
    """A random forest whose residuals are of the rows that it has seen."""

    name = "forest-in-sample"

    def residuals(
        self, target: Vector, given: Sequence[Vector], rng: np.random.Generator
    ) -> Vector:
        from sklearn.ensemble import RandomForestRegressor

        forest = RandomForestRegressor(min_samples_leaf=5, random_state=int(rng.integers(2**31)))
        fitted = forest.fit(np.hstack(list(given)), target.ravel()).predict(np.hstack(list(given)))
        left: Vector = target - fitted[:, None]
        return left


REGRESSIONS: dict[str, RegressionName | Regression] = {
    **{name: name for name in ("random-forest", "splines", "gaussian-process")},
    InSample.name: InSample(),
}


class Pair(NamedTuple):
    name: str
    number: int
    group: str
    weight: float
    first_is_cause: bool
    x: Vector
    y: Vector


def pairs(folder: Path) -> list[Pair]:
    """Pairs that weigh something, the first columns of the file as x."""
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
        found.append(Pair(name, number, one["group"], weight, forward, x, y))
    return found


def spread(data: Sequence[Pair], count: int | None) -> Sequence[Pair]:
    """So many of the pairs, the first and the last among them; all where no number is given."""
    if count is None or count >= len(data):
        return data
    # The first 39 of the collection have one direction, and no curve.
    return [data[k] for k in np.linspace(0, len(data) - 1, count).round().astype(int)]


def scores(found: PairResiduals) -> dict[str, float]:
    """All scores of a pair, positive where the first variable is believed to be the cause."""
    tested = found.decide(ResidualMeasure(criterion="p-value"))
    out = {"p-value, HSIC": tested.score}
    for name, estimator in ESTIMATORS.items():
        one = found.decide(ResidualMeasure(criterion="sensitivity", estimator=estimator))
        out[f"C, {name}"] = one.backward.hsic - one.forward.hsic
        out[f"C_s, {name}"] = one.score
        if name == "HSIC":
            out |= variants(found, one)
    return out


def variants(found: PairResiduals, one: CausalDirection) -> dict[str, float]:
    """C_s by mean squares of the derivatives of HSIC itself, and in units of the residuals."""
    sides = (one.backward, found.of_first), (one.forward, found.of_second)
    squares, scaled = [], []
    for side, residuals in sides:
        assert side.sensitivity is not None
        cause, left = side.sensitivity
        squares.append((cause**2 + left**2) / one.n**2)
        scaled.append(cause + left * float(residuals.std()))
    return {
        "C_s of squares, HSIC": squares[0] - squares[1],
        "C_s, residuals scaled, HSIC": scaled[0] - scaled[1],
    }


def score_rows(
    data: Sequence[Pair],
    regressions: Sequence[str],
    sizes: Sequence[int],
    realisations: Sequence[int],
    done: list[Row],
) -> Iterator[Row]:
    yield from done
    known = {tuple(str(row[key]) for key in KEYS) for row in done}
    for realisation in realisations:
        for regression in regressions:
            for n_max in sizes:
                for pair in data:
                    keys = dict(zip(KEYS, (regression, n_max, realisation, pair.name), strict=True))
                    if tuple(map(str, keys.values())) in known:
                        continue
                    found = pair_residuals(
                        pair.x,
                        pair.y,
                        regression=REGRESSIONS[regression],
                        max_rows=n_max,
                        rng=1000 * realisation + pair.number,
                    )
                    values = {name: f"{one:.5g}" for name, one in scores(found).items()}
                    yield {**keys, "n": len(found.first), **values}


def areas(data: Sequence[Pair], table: Sequence[Row]) -> Iterator[Row]:
    """Areas under the curves of every method, means over realisations, and how sure they are."""
    truth = np.array([pair.first_is_cause for pair in data])
    weights = np.array([pair.weight for pair in data])
    draws = bootstrap_draws([pair.group for pair in data], truth)
    for regression, n_max in settings(data, table):
        for method in methods(table):
            every = score_matrix(data, table, regression, n_max, method)
            found = [roc_curve(one, truth, weights).auc for one in every]
            drawn = bootstrapped(every, truth, weights, draws)
            low, high = np.quantile(drawn, [0.05, 0.95])
            plain = score_matrix(data, table, regression, n_max, f"C, {estimator_of(method)}")
            over = drawn - bootstrapped(plain, truth, weights, draws)
            least, most = np.quantile(over, [0.05, 0.95])
            either = mean_auc(
                np.hstack([every, -every]), np.concatenate([truth, ~truth]), np.tile(weights, 2)
            )
            right = [accuracy_curve(one, truth, weights).accuracy[-1] for one in every]
            recalled = [precision_recall_curve(one, truth, weights) for one in every]
            as_paper = regression in AS_PAPER and n_max == "2000"
            yield {
                "regression": regression,
                "n_max": n_max,
                "method": method,
                "pairs": len(data),
                "realisations": len(every),
                "AUC": float(np.mean(found)),
                "smallest": min(found),
                "largest": max(found),
                "5%": float(low),
                "95%": float(high),
                "5% over C": float(least),
                "95% over C": float(most),
                "AUC of either order": either,
                "accuracy": float(np.mean(right)),
                "average precision": float(np.mean([one.average_precision for one in recalled])),
                "AUC of the paper": PAPER.get(method, "") if as_paper else "",
            }


def settings(data: Sequence[Pair], table: Sequence[Row]) -> list[tuple[str, str]]:
    """Regressions and numbers of rows that have a realisation of all pairs."""
    scored: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for row in table:
        scored[str(row["regression"]), str(row["n_max"]), row["realisation"]].add(row["pair"])
    wanted = {pair.name for pair in data}
    whole = (setting[:2] for setting, names in scored.items() if wanted <= names)
    return list(dict.fromkeys(whole))


def methods(table: Sequence[Row]) -> list[str]:
    return [name for name in table[0] if name not in (*KEYS, "n")]


def score_matrix(
    data: Sequence[Pair], table: Sequence[Row], regression: str, n_max: str, method: str
) -> Vector:
    """Scores, a row a realisation that has all pairs."""
    own = {
        (row["realisation"], row["pair"]): float(row[method])
        for row in table
        if (str(row["regression"]), str(row["n_max"])) == (regression, n_max)
    }
    realisations = dict.fromkeys(realisation for realisation, _ in own)
    whole = [
        [own[realisation, pair.name] for pair in data]
        for realisation in realisations
        if all((realisation, pair.name) in own for pair in data)
    ]
    return np.array(whole)


def bootstrap_draws(groups: Sequence[str], truth: NDArray[np.bool_]) -> list[NDArray[np.intp]]:
    """Pairs of groups that are drawn with replacement: pairs of one origin tell much the same."""
    rng = np.random.default_rng(0)
    names, members = np.unique(groups, return_inverse=True)
    draws: list[NDArray[np.intp]] = []
    while len(draws) < BOOTSTRAPS:
        drawn = rng.integers(len(names), size=len(names))
        rows = np.concatenate([np.flatnonzero(members == group) for group in drawn])
        if 0 < truth[rows].sum() < len(rows):
            draws.append(rows)
    return draws


def bootstrapped(
    every: Vector, truth: NDArray[np.bool_], weights: Vector, draws: list[NDArray[np.intp]]
) -> Vector:
    return np.array([mean_auc(every[:, rows], truth[rows], weights[rows]) for rows in draws])


def estimator_of(method: str) -> str:
    """The longest name that a method ends with."""
    return max((name for name in ESTIMATORS if method.endswith(name)), key=len)


def mean_auc(every: Vector, truth: NDArray[np.bool_], weights: Vector) -> float:
    return float(np.mean([roc_curve(one, truth, weights).auc for one in every]))


def draw(data: Sequence[Pair], table: Sequence[Row], found: Sequence[Row], folder: Path) -> None:
    """Figures 6 (above) and 7 (below) of the paper, curves of all realisations taken together."""
    for regression in dict.fromkeys(regression for regression, _ in settings(data, table)):
        sizes = sorted(
            (n_max for own, n_max in settings(data, table) if own == regression), key=int
        )
        figure = Figure(figsize=(10.0, 10.6), layout="constrained")
        features, recalled, criteria, against = figure.subplots(2, 2).ravel()
        chosen = {
            name: pooled(data, table, regression, sizes[-1], f"C, {name}") for name in ESTIMATORS
        }
        roc_curves({name: roc_curve(*one) for name, one in chosen.items()}, ax=features)
        precision_recall_curves(
            {name: precision_recall_curve(*one) for name, one in chosen.items()}, ax=recalled
        )
        shown = [n_max for n_max in sizes if n_max in THIN_AND_THICK] or sizes[-1:]
        both = list(product(shown, CRITERIA))
        compared = {
            f"{one}, n_max = {n_max}": pooled(data, table, regression, n_max, f"{one}, HSIC")
            for n_max, one in both
        }
        roc_curves({name: roc_curve(*one) for name, one in compared.items()}, ax=criteria)
        for line, (n_max, one) in zip(criteria.get_lines()[1:], both, strict=True):
            line.set(color=CRITERIA[one], linewidth=2.2 if n_max == shown[-1] else 0.9)
        criteria.legend(**ABOVE)
        _areas(against, [row for row in found if row["regression"] == regression])
        figure.suptitle(f"{regression}; above: C, n_max = {sizes[-1]}; below: HSIC")
        figure.savefig(folder / f"cause_effect_{regression}.png", dpi=110)


def _areas(axes: Axes, found: Sequence[Row]) -> None:
    for shift, (one, colour) in zip((0.97, 1.03), CRITERIA.items(), strict=True):
        own = [row for row in found if row["method"] == f"{one}, HSIC"]
        own.sort(key=lambda row: int(row["n_max"]))
        n, auc, low, high = (
            np.array([float(row[key]) for row in own]) for key in ("n_max", "AUC", "5%", "95%")
        )
        axes.errorbar(
            n * shift, auc, (auc - low, high - auc), color=colour, marker="o", capsize=3, label=one
        )
    axes.axhline(0.5, color="0.7", linewidth=1.0, linestyle=":")
    axes.set_xscale("log")
    axes.set_xticks(n, [f"{int(size):,}" for size in n])
    axes.minorticks_off()
    axes.set(xlim=(n[0] / 1.3, n[-1] * 1.3), ylim=(-0.01, 1.01), xlabel="n_max")
    axes.set_ylabel("area under the curve, 5 to 95 %")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(**ABOVE)


def pooled(
    data: Sequence[Pair], table: Sequence[Row], regression: str, n_max: str, method: str
) -> tuple[Vector, NDArray[np.bool_], Vector]:
    """Scores, truth and weights of all realisations."""
    every = score_matrix(data, table, regression, n_max, method)
    truth = np.array([pair.first_is_cause for pair in data])
    weights = np.array([pair.weight for pair in data])
    return every.ravel(), np.tile(truth, len(every)), np.tile(weights, len(every))


@click.command(help=__doc__)
@click.option(
    "--regression",
    "regressions",
    multiple=True,
    type=click.Choice(list(REGRESSIONS)),
    default=("random-forest", "forest-in-sample", "splines"),
    help="Forests and processes are cross-fitted, but for the one in sample.",
)
@click.option("--rows", "sizes", multiple=True, type=int, default=(50, 100, 200, 500, 2000))
@click.option("--realisations", default=10, help="Of rows, folds and features.")
@click.option(
    "--pairs", "count", type=click.IntRange(min=2), help="So many, equally far apart in the list."
)
@click.option("--scores", "path", default="benchmarks/results/cause_effect_scores.csv")
@click.option("--out", default="benchmarks/results/cause_effect_pairs.csv")
def main(
    regressions: tuple[str, ...],
    sizes: tuple[int, ...],
    realisations: int,
    count: int | None,
    path: str,
    out: str,
) -> None:
    if not (FOLDER / "cep" / "pairs.npz").exists():
        msg = f"there are no pairs in {FOLDER / 'cep'}: name the folder of data in DHSIC_DATA"
        raise click.ClickException(msg)
    data = spread(pairs(FOLDER), count)
    if len({pair.first_is_cause for pair in data}) < 2:
        msg = f"areas need pairs of both directions, got {len(data)} of one: take more --pairs"
        raise click.ClickException(msg)
    write_csv(path, score_rows(data, regressions, sizes, range(realisations), read_csv(path)))
    write_csv(out, areas(data, read_csv(path)))
    draw(data, read_csv(path), read_csv(out), Path(out).parent)


if __name__ == "__main__":
    main()
