"""How often all pairs of rows, and landmarks, find the causal graph behind simulated data.

As section 5.1 of F. Kalinke and Z. Szabo, Nystrom M-Hilbert-Schmidt independence criterion (2023):
four nodes of a fully connected graph drawn at random, each the sum of a function of every parent
and normal noise whose variance is uniform between 1 and sqrt(2). As in N. Pfister et al. (2018),
functions are drawn from a Gaussian process of a Gaussian kernel of bandwidth 1. Each of the 24
fully connected graphs is scored by the p-value of joint independence of its residuals, with the
gamma null; the graph is found where its own is the largest. `seconds` is the mean processor time
of the scores of one data set.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.shared import curves
from benchmarks.study import Cell, Row, Study
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


def measure(cell: Cell, run: int) -> tuple[float, float]:
    """Whether the graph of a data set is found, and the processor seconds."""
    x, dag = draw(cell.n, run)
    began = time.process_time()
    scores = score_dags(x, dags="complete", estimator=cell.test, null="gamma", threads=1, rng=run)
    return float(scores.best.dag == dag), time.process_time() - began


def rows(cell: Cell, found: Sequence[tuple[float, float]]) -> Iterator[Row]:
    share, seconds = np.mean(found, axis=0).tolist()
    error = float(np.sqrt(share * (1.0 - share) / len(found)))
    yield {"power": share, "error": error, "seconds": seconds}


STUDY = Study(
    name="dag_search",
    title="Figure 3 of Kalinke and Szabo: how often is the causal graph found?",
    data={"complete graphs of 4 nodes": None},
    methods=ESTIMATORS,
    sizes=(500, 1000, 1500),
    measure=measure,
    columns=("power", "error", "seconds"),
    runs=100,
    rows=rows,
    small={"sizes": [80], "runs": 2},
    picture=curves.picture,
)
