"""Dependent data that others published or that are at hand, for the leaderboard of tests.

Groups of them, with their sources:

- `shapes`: hyppo's 20 of one column and 100 rows (`benchmarks/shared/shapes.py`); `shapes, d = 3`
  and so on of more columns, without the joint normal one where it has no covariance.
- `perturbed uniforms`: density 1 + exp(d) / m sum_j theta_j prod_r G(p x_r - j_r) on the unit cube,
  with the bump G of [1], equation 17, and signs theta; the first column is x, the others y. p, m,
  the numbers of rows and columns, and the signs are those of the experiments of HSICAggInc [2].
- `mixtures`: HDGM-d, d / 2 columns either side, after the two-sample problem of [3]: x has a mean
  of 0 or 1/2 in every column by chance, and the correlation of the first columns of x and y is 1/2
  in the one cluster and -1/2 in the other.
- `others`: the sinusoid 1 + s sin(w x) sin(w y) on a square [4]; rotated mixtures among normal
  columns, as of independent subspace analysis [5], with angles as of [6]; the generalised sign
  |z| prod_j sign x_j [7]; a fast sine of x_1^2 + x_2^2, and linear dependence on one of the columns
  of x [8]; and each of 50 columns on one.
- `real`: random rows of tables: songs and their years; pixels of scikit-learn's digits and their
  labels, most of which are drawn anew; of the folder DHSIC_DATA proteins (casp), a power plant
  (ccpp), air in Beijing and flights from Houston.

1. A. Schrab, I. Kim, M. Albert et al. MMD aggregated two-sample test. JMLR 24, 2023.
2. A. Schrab, I. Kim, B. Guedj, A. Gretton. Efficient aggregated kernel tests using incomplete
   U-statistics. NeurIPS 2022; experiments.ipynb of its repository agginc-paper.
3. F. Liu, W. Xu, J. Lu et al. Learning deep kernels for non-parametric two-sample tests. ICML 2020.
4. D. Sejdinovic, B. Sriperumbudur, A. Gretton, K. Fukumizu. Equivalence of distance-based and
   RKHS-based statistics in hypothesis testing. Annals of Statistics 41, 2013.
5. A. Gretton, K. Fukumizu, C. Teo et al. A kernel statistical test of independence. NIPS 2007.
6. Y. Ren, Y. Xia, H. Zhang et al. Learning adaptive kernels for statistical independence tests.
   AISTATS 2024; dataset.py of its repository HSIC-LK.
7. W. Jitkrittum, Z. Szabo, A. Gretton. An adaptive test of independence with analytic kernel
   embeddings. ICML 2017, section 4.
8. Q. Zhang, S. Filippi, A. Gretton, D. Sejdinovic. Large-scale kernel methods for independence
   testing. Statistics and Computing 28, 2018, section 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import ortho_group

from benchmarks.shared import cases
from benchmarks.shared.cases import Data, Rng
from benchmarks.shared.dependence import Draw, each_of, one_of_columns
from benchmarks.shared.shapes import SHAPES, Shape
from benchmarks.shared.songs import FOLDER, songs

Array = NDArray[np.float64]

_SIGNS = (-1.0, 1.0, 1.0, -1.0)
"""Of the first cells of the cube, as the experiments of HSICAggInc draw them with seed 0."""


@dataclass(frozen=True)
class Scenario:
    """Dependent data of so many rows."""

    group: str
    n: int
    draw: Draw


def _bump(t: Array) -> Array:
    """G of Schrab et al. (2023), equation 17, at t - 1, for t from 0 to 1: up, then down."""
    inside = 1.0 - (4.0 * t - np.where(t < 0.5, 1.0, 3.0)) ** 2
    height = np.exp(-1.0 / np.maximum(inside, 1e-9))
    return np.where(t < 0.5, height, -height)


def perturbed_uniform(n: int, rng: Rng, d: int, perturbations: int, scale: float) -> Data:
    """Uniform on the unit cube of d columns, but for bumps up and down in every cell.

    The largest perturbation of the density is 1 / scale.
    """
    found: list[Array] = []
    while sum(map(len, found)) < n:
        z = rng.uniform(size=(2 * n, d))
        cells = np.floor(z * perturbations)
        signs = np.array(_SIGNS)[(cells @ perturbations ** np.arange(d)[::-1]).astype(int)]
        bumps = signs * _bump(z * perturbations - cells).prod(axis=1)
        density = 1.0 + np.exp(d) / scale * bumps
        found.append(z[rng.uniform(0.0, 1.0 + 1.0 / scale, 2 * n) < density])
    z = np.vstack(found)[:n]
    return [z[:, :1], z[:, 1:]]


def mixture(n: int, rng: Rng, d: int) -> Data:
    """Two clusters, of which d / 2 columns tell a little, with opposite correlations of a pair."""
    x, y = rng.standard_normal((2, n, d // 2))
    cluster = rng.integers(2, size=n)
    correlation = np.where(cluster, 0.5, -0.5)
    y[:, 0] = correlation * x[:, 0] + np.sqrt(0.75) * y[:, 0]
    return [x + 0.5 * cluster[:, None], y]


def rotated_mixtures(n: int, rng: Rng, d: int, angle: float, spread: float = 0.1) -> Data:
    """Two variables of two clusters each, rotated together by an angle, among normal columns.

    Both sets of columns are rotated at random.
    """
    pair = rng.choice([-1.0, 1.0], (2, n)) + spread * rng.standard_normal((2, n))
    cosine, sine = np.cos(angle), np.sin(angle)
    mixed = np.array([[cosine, -sine], [sine, cosine]]) @ pair
    sides = [np.column_stack([side, rng.standard_normal((n, d - 1))]) for side in mixed]
    return [side @ ortho_group.rvs(d, random_state=rng) for side in sides]


def generalised_sign(n: int, rng: Rng, d: int) -> Data:
    """The sign of the product of all columns, of a random size."""
    x = rng.standard_normal((n, d))
    return [x, np.abs(rng.standard_normal(n)) * np.sign(x).prod(axis=1)]


def digits(n: int, rng: Rng, kept: float) -> Data:
    """Pixels and labels, of which a share is kept and the others are drawn anew."""
    pixels, labels = _digits()
    rows = rng.choice(len(labels), n, replace=False)
    y = np.where(rng.random(n) < kept, labels[rows], rng.integers(10, size=n))
    return [pixels[rows], y.astype(np.float64)]


@cache
def _digits() -> tuple[Array, Array]:
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    return pixels, labels


def rows_of(n: int, rng: Rng, path: str, x: tuple[str, ...], y: str) -> Data:
    """Random rows of a table, without those that lack a value."""
    both = _table(FOLDER / path, (*x, y))
    rows = both[rng.choice(len(both), n, replace=False)]
    return [rows[:, :-1], rows[:, -1:]]


@cache
def _table(path: Path, columns: tuple[str, ...]) -> Array:
    if not path.exists():
        msg = f"there is no table {path}: name the folder of data in DHSIC_DATA"
        raise click.ClickException(msg)
    return pd.read_parquet(path, columns=list(columns)).dropna().to_numpy(np.float64)


@dataclass(frozen=True)
class OfColumns:
    """A shape of so many columns."""

    shape: str
    d: int

    def __call__(self, n: int, rng: Rng) -> Data:
        draw: Shape = SHAPES[self.shape]
        return draw(n, rng, self.d)


def _of_shapes(d: int, shapes: tuple[str, ...]) -> dict[str, Scenario]:
    group = "shapes" if d == 1 else f"shapes, d = {d}"
    end = "" if d == 1 else f", d = {d}"
    return {f"{shape}{end}": Scenario(group, 100, OfColumns(shape, d)) for shape in shapes}


def _perturbed(n: int, d: int, perturbations: int, scale: float) -> dict[str, Scenario]:
    draw = partial(perturbed_uniform, d=d, perturbations=perturbations, scale=scale)
    name = f"perturbed, d = {d}, p = {perturbations}, m = {scale:g}, n = {n:,}"
    return {name: Scenario("perturbed uniforms", n, draw)}


def _mixture(n: int, d: int) -> dict[str, Scenario]:
    return {f"HDGM-{d}, n = {n:,}": Scenario("mixtures", n, partial(mixture, d=d))}


def _table_of(n: int, path: str, x: str, y: str) -> Scenario:
    return Scenario("real", n, partial(rows_of, path=path, x=tuple(x.split()), y=y))


def _others() -> dict[str, Any]:
    found: dict[str, tuple[int, Draw]] = {
        "sinusoid, w = 1": (200, partial(cases.sine, strength=0.5, frequency=1)),
        "sinusoid, w = 4": (1000, partial(cases.sine, strength=1.0, frequency=4)),
        "ISA, d = 2": (128, partial(rotated_mixtures, d=2, angle=np.pi / 12.0)),
        "ISA, d = 4": (512, partial(rotated_mixtures, d=4, angle=np.pi / 8.0)),
        "sign of 2": (100, partial(generalised_sign, d=2)),
        "sign of 3": (300, partial(generalised_sign, d=3)),
        "sine of radius, d = 2": (200, partial(cases.sine_of_radius, d=2)),
        "sine of radius, d = 5": (1000, partial(cases.sine_of_radius, d=5)),
        "linear in 1 of 20": (100, partial(one_of_columns, strength=0.5, d=20)),
        "50 + 50 columns": (100, partial(each_of, strength=0.2, d=50)),
    }
    return {name: Scenario("others", n, draw) for name, (n, draw) in found.items()}


_ALL_SHAPES = tuple(SHAPES)
_OF_MANY = tuple(shape for shape in SHAPES if shape not in ("joint normal",))
PROTEIN = " ".join(f"F{j}" for j in range(1, 10))

SCENARIOS: Mapping[str, Scenario] = {
    **_of_shapes(1, _ALL_SHAPES),
    **_of_shapes(3, _ALL_SHAPES),
    **_of_shapes(10, _ALL_SHAPES),
    **_of_shapes(20, _OF_MANY),
    **_perturbed(1000, 2, 1, 1.0),
    **_perturbed(1000, 3, 1, 1.0),
    **_perturbed(1000, 4, 1, 1.0),
    **_perturbed(1000, 2, 1, 2.0),
    **_perturbed(1000, 2, 1, 3.0),
    **_perturbed(600, 2, 2, 2.0),
    **_perturbed(1000, 2, 2, 2.0),
    **_mixture(300, 4),
    **_mixture(600, 8),
    **_mixture(1000, 10),
    **_mixture(4000, 10),
    **_mixture(2000, 20),
    **_mixture(4000, 30),
    **_mixture(16_000, 30),
    **_others(),
    "songs": Scenario("real", 200, songs),
    "digits, 20 % kept": Scenario("real", 200, partial(digits, kept=0.2)),
    "proteins": _table_of(50, "casp/casp.parquet", PROTEIN, "RMSD"),
    "power plant": _table_of(50, "ccpp/ccpp.parquet", "AP RH", "PE"),
    "air and wind": _table_of(100, "beijing_air/beijing_air.parquet", "WSPM", "SO2"),
    "air and hour": _table_of(50, "beijing_air/beijing_air.parquet", "hour", "O3"),
    "flights": _table_of(100, "hflights/hflights.parquet", "DepTime", "ArrDelay"),
}
