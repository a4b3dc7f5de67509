"""How landmarks and random features approach V-HSIC, its estimates and its sensitivity maps.

`convergence`: the root of the mean squared relative error of the estimate over draws of the
features, on the same data. `sensitivity_convergence`, Perez-Suay and Camps-Valls (2018), figure 2c:
the mean Frobenius norm of the difference of the maps of V-HSIC and of random features, relative to
the norm of the former, against their number. The bound of their appendix (equation 12) falls with
its root. Beside them are the maps of Nystrom M-HSIC. Kernels of maps are Gaussian, and sigma is the
average distance between rows, as there. `n` is the number of features or landmarks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import dask
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.spatial.distance import pdist

import dhsic
from benchmarks.shared.cases import with_dimensions
from benchmarks.study import Cell, Row, Study, Table
from dhsic.estimators import Estimator
from dhsic.kernels import Gaussian

ROWS = 1000
METHODS: dict[str, Callable[[int], Estimator]] = {
    "rff-hsic": lambda p: dhsic.RFFHSIC(n_features=p),
    "rff-hsic, complex": lambda p: dhsic.RFFHSIC(n_features=p, form="complex"),
    "rff-hsic, orthogonal": lambda p: dhsic.RFFHSIC(n_features=p, orthogonal=True),
    "nystrom-hsic": lambda p: dhsic.NystromHSIC(n_landmarks=p),
    "nystrom-m": lambda p: dhsic.NystromMHSIC(n_landmarks=p),
}
DIMENSIONS = {"5 + 1 columns": (5, 1), "3 + 1 + 1 columns": (3, 1, 1)}
OF_MAPS = {"uniform": (1, 1), "mixed": (3, 1)}
TITLES = {"uniform": "independent uniform variables", "mixed": "dependent, 3 and 1 columns"}


@cache
def whole(dims: tuple[int, ...]) -> tuple[list[Any], list[Gaussian], float]:
    """Data, kernels and the estimate of V-HSIC."""
    data = with_dimensions(dims, ROWS, np.random.default_rng(0), 0.7)
    kernels = [Gaussian(gamma=0.5 / d) for d in dims]
    return data, kernels, dhsic.hsic(*data, kernels=kernels, estimator="v-hsic").estimate


def squared_error(cell: Cell, run: int) -> float:
    """The square of the relative error of an estimate."""
    data, kernels, exact = whole(cell.draw)
    found = dhsic.hsic(*data, kernels=kernels, estimator=cell.test(cell.n), rng=run).estimate
    return (found / exact - 1.0) ** 2


def root_mean(cell: Cell, found: Sequence[float]) -> Iterator[Row]:
    yield {"relative error": float(np.sqrt(np.mean(found)))}


def takes(cell: Cell) -> bool:
    return len(cell.draw) == 2 or cell.method == "nystrom-m"


def data_of(case: str, n: int) -> list[NDArray[Any]]:
    """Independent uniform variables as in the figure, or dependent ones of three and one column."""
    rng = np.random.default_rng(0)
    if case == "uniform":
        return [rng.uniform(size=(n, d)) for d in OF_MAPS[case]]
    return with_dimensions(OF_MAPS[case], n, rng, 0.7)


def average_distance_kernel(x: NDArray[Any]) -> Gaussian:
    """The kernel of the paper, exp(-|x - x'|^2 / (2 sigma^2)), by the distances of 1,000 rows."""
    return Gaussian(gamma=0.5 / float(pdist(x[:1000]).mean()) ** 2)


def map_of(case: str, estimator: Any, seed: int) -> NDArray[Any]:
    """The maps of all variables side by side."""
    data = data_of(case, ROWS)
    kernels = [average_distance_kernel(x) for x in data]
    found = dhsic.sensitivity_map(
        *data, of="estimate", kernels=kernels, estimator=estimator, rng=seed
    )
    return np.hstack(dask.compute(*found.maps.values()))


exact_map = cache(partial(map_of, estimator="v-hsic", seed=0))


def map_error(cell: Cell, run: int) -> float:
    """The relative error of a map."""
    exact = exact_map(cell.data)
    difference = map_of(cell.data, cell.test(cell.n), run) - exact
    return float(np.linalg.norm(difference) / np.linalg.norm(exact))


def mean(cell: Cell, found: Sequence[float]) -> Iterator[Row]:
    yield {"relative error": float(np.mean(found))}


def draw(table: Table, path: Path) -> None:
    """A panel for each kind of data, with a line of slope -1/2."""
    cases = list(dict.fromkeys(row["data"] for row in table))
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    panels = figure.subplots(1, len(cases), sharey=True, squeeze=False)[0]
    for axes, case in zip(panels, cases, strict=True):
        own = [row for row in table if row["data"] == case]
        for name in dict.fromkeys(row["method"] for row in own):
            found = [(int(r["n"]), float(r["relative error"])) for r in own if r["method"] == name]
            line = "o--" if name.endswith("complex") else "o-"  # one covers the other
            axes.plot(*zip(*sorted(found), strict=True), line, label=name)
        counts = np.array(sorted({int(row["n"]) for row in own}))
        falling = float(own[0]["relative error"]) * np.sqrt(counts[0] / counts)
        axes.plot(counts, falling, color="0.6", linestyle=":", label="slope -1/2")
        axes.set(xscale="log", yscale="log", xlabel="features or landmarks")
        axes.set_title(TITLES.get(case, case))
    panels[0].set_ylabel("relative error")
    panels[0].legend(frameon=False)
    figure.savefig(path, dpi=150)


STUDIES = (
    Study(
        name="convergence",
        title="Do features converge to V-HSIC?",
        data=DIMENSIONS,
        methods=METHODS,
        sizes=(25, 50, 100, 200, 400),
        measure=squared_error,
        columns=("relative error",),
        runs=30,
        rows=root_mean,
        takes=takes,
        small={"sizes": [10, 80], "runs": 2},
    ),
    Study(
        name="sensitivity_convergence",
        title="Figure 2c of Perez-Suay and Camps-Valls: do sensitivity maps converge?",
        data=OF_MAPS,
        methods={name: METHODS[name] for name in ("rff-hsic", "rff-hsic, complex", "nystrom-m")},
        sizes=(10, 30, 100, 300, 1000),
        measure=map_error,
        columns=("relative error",),
        runs=10,
        rows=mean,
        small={"sizes": [10, 40], "runs": 1},
        picture=draw,
    ),
)
