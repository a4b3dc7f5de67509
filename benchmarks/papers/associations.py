"""What measures of dependence say of 14 associations of two variables.

In the manner of figure 3 of A. Perez-Suay and G. Camps-Valls, Sensitivity maps of the
Hilbert-Schmidt independence criterion: seven normal pairs of falling correlation, of which Pearson,
Spearman and Kendall tell all, and seven pairs without correlation. HSIC is the V-statistic, RHSIC
that of random Fourier features, both with the median heuristic; mutual information is in nats, by
the distances to 3 neighbours. The picture has the sensitivity of every row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.stats import kendalltau, pearsonr, spearmanr

import dhsic
from benchmarks.study import Cell, Row, Study, Table
from dhsic.plots import sensitivity_field

COLUMNS = 7
NEIGHBOURS = 3
RANDOM_FEATURES = 200

Vector = NDArray[np.float64]
Pair = tuple[Vector, Vector]
Rng = np.random.Generator


def normal(n: int, rng: Rng, correlation: float) -> Pair:
    x, noise = rng.standard_normal((2, n))
    return x, correlation * x + np.sqrt(1.0 - correlation**2) * noise


def wave(n: int, rng: Rng) -> Pair:
    x = rng.uniform(-1.0, 1.0, n)
    return x, 4.0 * (x**2 - 0.5) ** 2 + rng.uniform(0.0, 1.0, n) / 3.0


def turned_square(n: int, rng: Rng, angle: float) -> Pair:
    u, v = rng.uniform(-1.0, 1.0, (2, n))
    return np.cos(angle) * u - np.sin(angle) * v, np.sin(angle) * u + np.cos(angle) * v


def parabola(n: int, rng: Rng) -> Pair:
    x = rng.uniform(-1.0, 1.0, n)
    return x, 2.0 * x**2 + rng.uniform(0.0, 1.0, n)


def two_parabolas(n: int, rng: Rng) -> Pair:
    x = rng.uniform(-1.0, 1.0, n)
    return x, (x**2 + rng.uniform(0.0, 0.5, n)) * rng.choice([-1.0, 1.0], n)


def ring(n: int, rng: Rng) -> Pair:
    angle, radius = rng.uniform(-np.pi, np.pi, n), 1.0 + 0.125 * rng.standard_normal(n)
    return radius * np.sin(angle), radius * np.cos(angle)


def four_clouds(n: int, rng: Rng) -> Pair:
    """Independent: the corners are drawn coordinate by coordinate."""
    x, y = 3.0 * rng.choice([-1.0, 1.0], (2, n)) + rng.standard_normal((2, n))
    return x, y


ASSOCIATIONS: dict[str, Callable[[int, Rng], Pair]] = {
    **{
        f"normal, r = {r:g}": partial(normal, correlation=r)
        for r in (1.0, 0.8, 0.4, 0.0, -0.4, -0.8, -1.0)
    },
    "wave": wave,
    "turned square": partial(turned_square, angle=np.pi / 8),
    "diamond": partial(turned_square, angle=np.pi / 4),
    "parabola": parabola,
    "two parabolas": two_parabolas,
    "ring": ring,
    "four clouds": four_clouds,
}


def mutual_information(x: Vector, y: Vector) -> float:
    """Kraskov, Stoegbauer and Grassberger (2004), in nats."""
    from sklearn.feature_selection import mutual_info_regression

    found = mutual_info_regression(x[:, None], y, n_neighbors=NEIGHBOURS, random_state=0)
    return float(found[0])


def hsic(x: Vector, y: Vector, estimator: Any) -> float:
    return dhsic.hsic(x, y, kernels="gaussian", estimator=estimator, rng=0, threads=1).estimate


MEASURES: dict[str, Callable[[Vector, Vector], float]] = {
    "Pearson": lambda x, y: float(pearsonr(x, y).statistic),
    "Kendall": lambda x, y: float(kendalltau(x, y).statistic),
    "Spearman": lambda x, y: float(spearmanr(x, y).statistic),
    "MI": mutual_information,
    "HSIC": partial(hsic, estimator="v-hsic"),
    "RHSIC": partial(hsic, estimator=dhsic.RFFHSIC(n_features=RANDOM_FEATURES)),
}


def data(case: str, n: int) -> Pair:
    return ASSOCIATIONS[case](n, np.random.default_rng([list(ASSOCIATIONS).index(case), n]))


def measure(cell: Cell, run: int) -> Row:
    return {"value": cell.test(*data(cell.data, cell.n))}


def gradients(x: Vector, y: Vector) -> Any:
    """Those of HSIC with respect to every value, (n, 1) of either variable."""
    return dhsic.sensitivity_map(x, y, estimator="v-hsic", rng=0).maps


def draw(table: Table, path: Path) -> None:
    """A panel an association."""
    n = int(table[0]["n"])
    values: dict[str, dict[str, Any]] = {}
    for row in table:
        own = values.setdefault(row["data"], {"data": row["data"]})
        own[row["method"]] = float(row["value"])
    height = -(-len(values) // COLUMNS)
    figure = Figure(figsize=(2.15 * COLUMNS, 2.75 * height), layout="constrained")
    panels = figure.subplots(height, COLUMNS, squeeze=False).ravel()
    for axes, row in zip(panels, values.values(), strict=False):
        _panel(axes, row, *data(row["data"], n))
    first, second = ", ".join(list(MEASURES)[:3]), ", ".join(list(MEASURES)[3:])
    figure.supxlabel(
        f"above each: {first} (first line), {second} (second line, MI in nats)\n"
        "colour: sensitivity of HSIC to the row, from the panel's smallest (blue) to its largest "
        "(yellow); arrows: where 60 of the rows would move to raise HSIC",
        fontsize=10,
    )
    figure.savefig(path, dpi=150)


def _panel(axes: Axes, row: Mapping[str, Any], x: Vector, y: Vector) -> None:
    maps = gradients(x, y)
    sensitivity_field(x, y, maps, names=("", ""), arrows=60, size=4.0, colorbar=False, ax=axes)
    first, second = (list(MEASURES)[:3], list(MEASURES)[3:])
    lines = ["  ".join(_rounded(row[name], 2) for name in first)]
    lines.append("  ".join(_rounded(row[name], 2 if name == "MI" else 4) for name in second))
    axes.set_title("\n".join([row["data"], *lines]), fontsize=9)
    axes.set(xticks=(), yticks=())
    axes.margins(0.08)


def _rounded(number: float, digits: int) -> str:
    return f"{round(number, digits) + 0.0:.{digits}f}"  # no -0.00


STUDY = Study(
    name="associations",
    title="Figure 3 of Perez-Suay and Camps-Valls: how do measures rate 14 associations?",
    data=ASSOCIATIONS,
    methods=MEASURES,
    sizes=(500,),
    measure=measure,
    columns=("value",),
    small={"sizes": [60]},
    picture=draw,
)
