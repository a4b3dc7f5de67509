"""How often all pairs of rows, and landmarks, find the causal graph behind simulated data.

As section 5.1 of F. Kalinke and Z. Szabo, Nystrom M-Hilbert-Schmidt independence criterion (2023):
four nodes of a fully connected graph drawn at random, each the sum of a function of every parent
and normal noise whose variance is uniform between 1 and sqrt(2). As in N. Pfister et al. (2018),
functions are drawn from a Gaussian process of a Gaussian kernel of bandwidth 1. Each of the 24
fully connected graphs is scored by the p-value of joint independence of its residuals, with the
gamma null; the graph is found where its own is the largest. `seconds` is the mean processor time
of the scores of one data set. Writes benchmarks/results/dag_search.csv, and beside it
a picture of both, as their figure 3.

    python -m benchmarks run dag_search
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from benchmarks.shared.curves import style
from benchmarks.shared.output import read_csv, write_csv
from dhsic.causal import DAG, score_dags
from dhsic.estimators import VHSIC, NystromMHSIC

Vector = NDArray[np.float64]

NODES = 4
_JITTER = 1e-6

ESTIMATORS: dict[str, VHSIC | NystromMHSIC] = {"v-hsic": VHSIC()} | {
    f"nystrom-m {m}sqrt": NystromMHSIC(n_landmarks=f"{m}sqrt") for m in (1, 2, 4, 8)
}


def smooth(x: Vector, rng: np.random.Generator) -> Vector:
    """A draw from the Gaussian process at points (n,)."""
    gram = np.exp(-0.5 * (x[:, None] - x) ** 2)
    factor = np.linalg.cholesky(gram + _JITTER * np.eye(len(x)))
    drawn: Vector = factor @ rng.standard_normal(len(x))
    return drawn


def draw(n: int, seed: int) -> tuple[Vector, DAG]:
    """Rows (n, 4), and the graph that they are from."""
    rng = np.random.default_rng([n, seed])
    order = rng.permutation(NODES)
    x = np.empty((n, NODES))
    for place, node in enumerate(order):
        x[:, node] = np.sqrt(rng.uniform(1.0, np.sqrt(2.0))) * rng.standard_normal(n)
        for parent in order[:place]:
            x[:, node] += smooth(x[:, parent], rng)
    before = [tuple(sorted(order[: list(order).index(j)].tolist())) for j in range(NODES)]
    return x, DAG(tuple(f"x{j + 1}" for j in range(NODES)), tuple(before))


def rows(sizes: Sequence[int], runs: int, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    for n in sizes:
        data = [draw(n, seed) for seed in range(runs)]
        for name in names:
            began, found = time.process_time(), 0
            for seed, (x, dag) in enumerate(data):
                scores = score_dags(
                    x, dags="complete", estimator=ESTIMATORS[name], threads=1, rng=seed
                )
                found += scores.best.dag == dag
            share = found / runs
            yield {
                "n": n,
                "estimator": name,
                "runs": runs,
                "found": share,
                "standard error": float(np.sqrt(share * (1.0 - share) / runs)),
                "seconds": (time.process_time() - began) / runs,
            }


def picture(table: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Graphs found, with bands of one standard error up and down, and seconds against rows."""
    figure = Figure(figsize=(9.0, 3.9), layout="constrained")
    left, right = figure.subplots(1, 2)
    for number, name in enumerate(dict.fromkeys(row["estimator"] for row in table)):
        chosen = sorted((r for r in table if r["estimator"] == name), key=lambda r: int(r["n"]))
        n, found, error, seconds = (
            np.array([float(row[key]) for row in chosen])
            for key in ("n", "found", "standard error", "seconds")
        )
        drawn = style(number)
        left.plot(n, found, label=name, markersize=4, **drawn)
        left.fill_between(
            n, found - error, found + error, color=drawn["color"], alpha=0.15, linewidth=0
        )
        right.plot(n, seconds, markersize=4, **drawn)
    left.set(xlabel="rows", ylabel="share of graphs found", ylim=(-0.03, 1.03))
    right.set(xlabel="rows", ylabel="processor seconds of 24 scores", ylim=0)
    figure.legend(loc="outside lower center", ncols=5, frameon=False)
    figure.savefig(path, dpi=150)


@click.command(help=__doc__)
@click.option("--rows", "sizes", multiple=True, type=int, default=(500, 1000, 1500))
@click.option("--runs", default=100)
@click.option("--estimator", "names", multiple=True, type=click.Choice(list(ESTIMATORS)))
@click.option("--out", default="benchmarks/results/dag_search.csv")
def main(sizes: tuple[int, ...], runs: int, names: tuple[str, ...], out: str) -> None:
    write_csv(out, rows(sizes, runs, names or tuple(ESTIMATORS)))
    picture(read_csv(out), Path(out).with_suffix(".png"))


if __name__ == "__main__":
    main()
