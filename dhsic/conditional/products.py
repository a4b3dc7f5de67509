"""Products of residuals of features, whose mean is 0 under conditional independence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic.conditional.folds import TILE_ROWS, tiles_of_folds
from dhsic.conditional.indices import IndexedDesign
from dhsic.conditional.ridge import Ridges
from dhsic.engine.reduction import Footprint, Pass, RowBlock
from dhsic.linalg import row_products
from dhsic.nulls import ChiSquareMixture

Vector = NDArray[np.float64]

_LEVERED_ROWS = 50  # for each regressor


class ProductSums(NamedTuple):
    """Sums over rows of products of residuals."""

    totals: Vector
    """Shape (m,)."""
    products: Vector
    """Sums of products of two of them, scaled for their law, shape (m, m)."""
    squares: float
    """Sum of the squared norms of the rows."""
    fourths: float
    """Sum of the squares of these."""

    def statistic(self, n: int) -> float:
        """N times the squared norm of the mean."""
        return float(self.totals @ self.totals) / n

    def law(self, n: int) -> ChiSquareMixture:
        """The limit of the statistic, from the second moments of the products."""
        return ChiSquareMixture.of_covariance(self.products / n)

    @property
    def rows(self) -> float:
        """How many rows of equal norm would vary as much: few where a few rows decide."""
        return self.squares**2 / self.fourths if self.fourths > 0.0 else 0.0


@dataclass(frozen=True)
class ProductsPass(Pass[ProductSums]):
    """Products of the residuals of x and of y, and of the weights.

    Parameters
    ----------
    design : IndexedDesign
        Features of rows.
    x, y : Ridges
        Regressions of the features of either variable.
    n : int
        Rows of the data.
    seed : int
        Fixes the folds.
    name : str, optional
        Name of the pass in progress reports.
    """

    design: IndexedDesign
    x: Ridges
    y: Ridges
    n: int
    seed: int
    name: str = "products of residuals"

    @property
    def size(self) -> int:
        """Number of products, m."""
        r_x, r_y, _, r_w = self.design.base.sizes
        return r_x * r_w * r_y

    @property
    def levered(self) -> bool:
        """Whether leverages count, whose mean is at most 1/50 beyond so many rows."""
        p = max(len(self.x.mean), len(self.y.mean))
        return self.n <= _LEVERED_ROWS * p and self.x.rows == self.n

    def footprint(self, rows: int) -> Footprint:
        """Cost of a block of so many rows."""
        m, tile = self.size, min(rows, TILE_ROWS)
        state = 8 * (m * (m + 1) + 2)
        operations, width = 2.0 * m * m, 0
        for one in (self.x, self.y):
            operations += 2.0 * one.slopes.size
            operations += 2.0 * (one.vectors.size + one.spread.size) * self.levered
            width = max(width, 3 * len(one.mean))
        # Keys of all rows, twice, and their numbers.
        scratch = self.design.scratch(tile) + 8 * tile * (3 * m + width) + 24 * rows + state
        return Footprint(
            self.design.nbytes + self.x.nbytes + self.y.nbytes,
            scratch,
            state,
        )

    def chunk(self, block: RowBlock) -> ProductSums:
        """Sums over one block."""
        totals, products = np.zeros(self.size), np.zeros((self.size, self.size))
        squares = fourths = 0.0
        for fold, tile in tiles_of_folds(self.seed, block):
            some, scaled = self.products(fold, [x[tile] for x in block.values])
            norms = np.einsum("ij,ij->i", some, some)
            totals += some.sum(axis=0)
            products += scaled.T @ scaled
            squares += float(norms.sum())
            fourths += float(norms @ norms)
        return ProductSums(totals, products, squares, fourths)

    def products(self, fold: int, values: Sequence[NDArray[Any]]) -> tuple[Vector, Vector]:
        """Products by row of a fold, shape (b, m), and scaled for their law.

        With M the map from errors to residuals, of which 1 - h is the diagonal, a sum of products
        of residuals of independent errors of variance 1 has the variance |M|^2, which is the sum of
        1 - h for a projection, and that of their squares has the expectation sum (1 - h)^2. So the
        squares are divided by 1 - h, of which x and y take a half each.
        """
        rows = self.design(values, fold)
        x = self.x.residuals(rows.x, rows.base.x)
        y = self.y.residuals(rows.y, rows.base.y)
        plain = row_products(rows.base._replace(x=x).products, y)
        if not self.levered:
            return plain, plain
        # Of a product (1 - h)^(1/2) in all, and of its square 1 - h.
        x /= self.x.left(rows.x) ** 0.25
        y /= self.y.left(rows.y) ** 0.25
        return plain, row_products(rows.base._replace(x=x).products, y)
