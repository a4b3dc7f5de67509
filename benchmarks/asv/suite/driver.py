"""What the driver does alone: landmarks, solves, and the tail of the null distribution."""

from __future__ import annotations

from functools import partial
from typing import ClassVar, get_args

import numpy as np

from dhsic.landmarks import Landmarks, Pool, Selection, prune, select, tolerance_for
from dhsic.linalg import pivoted_cholesky, spectrum
from dhsic.nulls import ChiSquareMixture, draw_permutations

from .data import COLUMNS, PRECISIONS, RESAMPLES, gaussians, normal


class Pruning:
    """Pivots of the Gram matrix of 1,000 landmarks."""

    param_names: ClassVar = ["precision", "columns"]
    params: ClassVar = [PRECISIONS, COLUMNS]

    def setup(self, precision: str, columns: int) -> None:
        points = normal(1000, columns)
        numbers = np.arange(1000)
        self.prune = partial(
            prune,
            Landmarks(points, (numbers, numbers)),
            gaussians(columns),
            tolerance_for(None, precision),
        )

    def time_prune(self, precision: str, columns: int) -> None:
        self.prune()


class Selecting:
    """100 landmarks of a pool of 400 rows."""

    param_names: ClassVar = ["selection"]
    params: ClassVar = [list(get_args(Selection))]

    def setup(self, selection: Selection) -> None:
        self.pool = Pool(gaussians(10), normal(400, 10))

    def time_select(self, selection: Selection) -> None:
        select(selection, self.pool, 100, np.random.default_rng(0))


class Solve:
    """Norms of replicates, and eigenvalues, at so many landmarks."""

    param_names: ClassVar = ["landmarks"]
    params: ClassVar = [[100, 1000]]

    def setup(self, landmarks: int) -> None:
        (x, _), kernel = normal(landmarks, 10), gaussians(10)[0]
        self.gram = kernel(x)
        self.factor = pivoted_cholesky(self.gram.copy(), 0.0)
        self.values = np.random.default_rng(0).standard_normal((landmarks, RESAMPLES + 1))

    def time_squared_norms(self, landmarks: int) -> None:
        self.factor.squared_norm(self.values[: self.factor.rank])

    def time_spectrum(self, landmarks: int) -> None:
        spectrum(self.gram)


class Tail:
    """Far tail of a mixture of chi-squares."""

    param_names: ClassVar = ["weights"]
    params: ClassVar = [[10, 1000]]

    def setup(self, weights: int) -> None:
        self.mixture = ChiSquareMixture.of(1.0 / np.arange(1, weights + 1) ** 2)

    def time_sf(self, weights: int) -> None:
        self.mixture.sf(40.0)


class Permutations:
    """Of a group of rows."""

    param_names: ClassVar = ["rows"]
    params: ClassVar = [[512, 4096]]

    def time_draw(self, rows: int) -> None:
        draw_permutations(0, 0, rows, RESAMPLES, 2)
