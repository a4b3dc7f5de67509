"""Tests of independence in the population that weighted rows stand for.

Rows are draws from a law Q, and their weights are proportional to dP/dQ, of the law P of the
population, as inverse probabilities of selection are. With weights of mean 1, features phi and psi
of two variables, and their weighted means, the weighted cross-covariance is

C = (1/n) sum_i w_i (phi_i - mu) (x) (psi_i - nu)

Where the variables are independent under P, its errors in mu and nu enter as their product, which
is of the order 1/n. So sqrt(n) C is in the limit normal, with the second moment under Q of the
terms of the sum, and n |C|^2 a mixture of chi-squares whose weights are the eigenvalues of it.
Permutations do not serve: they would leave weights that depend on both variables with rows of
other values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.plan import DriverStep, PassPlan
from dhsic.engine.reduction import Footprint, Pass, RowBlock
from dhsic.engine.session import Session
from dhsic.estimators.approximate import guard_weighted
from dhsic.estimators.outcomes import Estimate, Outcome
from dhsic.linalg import row_products
from dhsic.nulls import ChiSquareMixture, Spectral
from dhsic.statistics.layout import KernelSide, Layout
from dhsic.statistics.moments import with_weights
from dhsic.statistics.outer import independent_rounding
from dhsic.statistics.sides import SQUARED_HSIC, Basis, Side

Vector = NDArray[np.float64]

MOST_WEIGHTED_PRODUCTS = 256
"""Products of features, between all pairs of which there are covariances."""

_ROWS = 1024


class WeightedSums(NamedTuple):
    """Sums over rows of products of (1, phi) and (1, psi), m of them."""

    totals: Vector
    """Times weights, shape (m,)."""
    products: Vector
    """Products of two, times squared weights, scaled for their law, shape (m, m)."""


@dataclass(frozen=True)
class WeightedProductsPass(Pass[WeightedSums]):
    """All that the statistic of weighted rows and its law need, in one pass.

    Means are known only after it. So every feature vector has the constant 1 before it: what is
    centred is a linear function of products of such vectors.

    Parameters
    ----------
    layout : Layout
        Features of two variables; a third one is the weights, of mean 1.
    squares : float
        Mean square of the weights.
    n : int
        Rows of the data.
    """

    layout: Layout
    squares: float
    n: int
    name: str = "weighted products"

    @property
    def shape(self) -> tuple[int, int]:
        """Features of either variable, with the constant."""
        # With the constant: the means of the features are among the products.
        first, second = self.layout.crossings[0].shape
        return first + 1, second + 1

    @property
    def size(self) -> int:
        """Number of products, m."""
        first, second = self.shape
        return first * second

    def footprint(self, rows: int) -> Footprint:
        """Cost of a block of so many rows."""
        m, tile = self.size, min(rows, _ROWS)
        state = 8 * m * (m + 1)
        # Features twice with their constants, in double and single precision; products in single.
        rows = 4 * tile * (m + 6 * (self.layout.n_features + 2))
        scratch = self.layout.scratch(tile) + rows + 8 * m + 4 * m * m
        return Footprint(self.layout.nbytes, scratch, state)

    def chunk(self, block: RowBlock) -> WeightedSums:
        """Sums over one block."""
        sums = WeightedSums(np.zeros(self.size), np.zeros((self.size, self.size)))
        (crossing,) = self.layout.crossings
        for start in range(0, block.rows, _ROWS):
            values = [x[start : start + _ROWS] for x in block.values]
            features = self.layout.features(values).astype(np.float64, copy=False)
            first, second = (
                np.insert(features[:, at], 0, 1.0, axis=1)
                for at in (crossing.first, crossing.second)
            )
            # The weights travel as the last variable of the pass.
            weights = values[-1]
            sums.totals[:] += (first.T @ (weights * second)).ravel()
            # Terms enter the law by their squares, each over the part of its variance that is left.
            first *= weights / np.sqrt(self.left(weights))
            # In single precision, at half of the cost: the law needs few digits, and tiles are
            # added up in double precision.
            rows = row_products(first.astype(np.float32), second.astype(np.float32))
            sums.products[:] += rows.T @ rows
        return sums

    def left(self, weights: Vector) -> Vector:
        """The variance that is left of an error of variance 1 about the weighted mean, as weights.

        With shares s = w / sum w it is v_i = 1 - 2 s_i + sum_j s_j^2. For independent errors of
        both variables, A = diag(w) - w w' / sum w makes the sum of products of what is left, whose
        variance is |A|^2 = sum_i w_i^2 v_i. The squares of the terms have the expectation
        sum_i w_i^2 v_i^2, and divided by v_i the same.
        """
        return 1.0 - (2.0 * weights - self.squares) / self.n

    def centred(self, sums: WeightedSums) -> tuple[Vector, Vector]:
        """C, shape (r, s), and the second moment of its terms, shape (r s, r s)."""
        means = sums.totals.reshape(self.shape) / sums.totals[0]
        # Centring is linear: the second moment of centred terms follows from that of the plain
        # ones.
        # phi - mu = (-mu, I) (1, phi), and the same of psi.
        first = np.insert(np.eye(self.shape[0] - 1), 0, -means[1:, 0], axis=1)
        second = np.insert(np.eye(self.shape[1] - 1), 0, -means[0, 1:], axis=1)
        both = np.kron(first, second)
        return first @ means @ second.T, both @ (sums.products / self.n) @ both.T


def weighted_steps(session: Session, sides: Mapping[int, Side]) -> list[DriverStep | PassPlan]:
    """The pass of `weighted_outcome` and the step after it."""
    reduction = _reduction(session, sides)
    m = reduction.size
    return [
        with_weights(session).plan(reduction),
        DriverStep("spectrum", 5 * 8 * m * m, 8 * m * m),
    ]


def weighted_outcome(session: Session, basis: Basis, null: Spectral) -> Outcome:
    """The statistic n |C|^2 of weighted rows, with its limit law.

    Parameters
    ----------
    session : Session
        A run over two variables, with weights.
    basis : Basis
        Their features.
    null : Spectral
        How the law is computed.

    Returns
    -------
    Outcome
    """
    sides = dict(enumerate(basis.sides))
    note = guard_weighted(session, sides)
    reduction = _reduction(session, sides)
    sums = with_weights(session).reduce(reduction)
    session.step("spectrum")
    cross, moment = reduction.centred(sums)
    mixture = ChiSquareMixture.of_covariance(moment)
    # |C|^2, the squared norm of the weighted cross-covariance.
    size = float(np.vdot(cross, cross))
    estimate = Estimate(size, basis.kernels, basis.landmarks, basis.summary, SQUARED_HSIC.quantity)
    law, rounding = (
        null.distribution(mixture, session.seed),
        independent_rounding(session, basis.sides),
    )
    return Outcome(session.n * size, law, estimate, note, rounding)


def _reduction(session: Session, sides: Mapping[int, Side]) -> WeightedProductsPass:
    assert session.weights is not None
    layout = Layout.of({m: _kernel(m, side) for m, side in sides.items()}, [(0, 1)])
    return WeightedProductsPass(layout, session.weights.squares, session.n)


def _kernel(variable: int, side: Side) -> KernelSide:
    """The principal features of a kernel."""
    assert side.projection is not None
    rows = slice(0, side.n_summed)
    whitening = side.projection.astype(side.map.dtype, copy=False)
    return KernelSide(variable, side.map, side.centre, rows, whitening)
