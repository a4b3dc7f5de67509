"""The norm of covariances at test locations, and the pass that it takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.reduction import Footprint, Pass, RowBlock
from dhsic.estimators.landmark.pointwise import (
    LANDMARK_TILE_ROWS,
    MeansPass,
    Tuples,
    TupleSums,
    TupleTiles,
)
from dhsic.linalg import squared_norms
from dhsic.nulls import ChiSquareMixture

Vector = NDArray[np.float64]


def joint_terms(about: Sequence[Vector], centres: Sequence[Vector]) -> Vector:
    """Products of kernels, less their linear part about the centres.

    With k_m = about_m + c_m it is prod_m k_m - sum_m k_m prod_{l != m} c_l + (M-1) prod_l c_l,
    of which the mean over rows is u where the centres are the means; for M = 2 it is the product
    of both about their centres. No term is the difference of large ones.

    Parameters
    ----------
    about : sequence of ndarray, shapes (..., J)
        Kernels of every variable about their centres.
    centres : sequence of ndarray, shapes (..., J)
        c_m.

    Returns
    -------
    ndarray, shape (..., J)
    """
    return expanded(about, centres)[0]


def expanded(about: Sequence[Vector], centres: Sequence[Vector]) -> tuple[Vector, Vector]:
    """prod_m (about_m + c_m) - prod_m c_m: what is not linear in about_m, and what is."""
    rest, linear, product = np.zeros(1), np.zeros(1), np.ones(1)
    for a, c in zip(about, centres, strict=True):
        # One more variable: what was linear stays so with its constant alone.
        rest = rest * (a + c) + linear * a
        linear, product = linear * c + product * a, product * c
    return rest, linear


def independent_covariance(covariances: Sequence[Vector], means: Sequence[Vector]) -> Vector:
    """S, from the covariances (J, J) and means (J,) of the kernels of every variable.

    The covariance of a product of independent variables, less its linear part.
    """
    return joint_terms(covariances, [np.outer(k, k) for k in means])


@dataclass(frozen=True)
class Norm:
    """u'(S + r t I)^-1 u, with S the covariance of sqrt(n) u under independence.

    Jitkrittum et al. (2017), equation 6, with t the mean of the diagonal of S.

    Parameters
    ----------
    whitening : ndarray, shape (J, J)
        W with W'W = (S + r t I)^-1; 0 where S is.
    weights : ndarray, shape (J,)
        The eigenvalues of W S W', of chi-squares in the limit of T = n |W u|^2 under the null.
    """

    whitening: Vector
    weights: Vector

    @classmethod
    def of(cls, covariance: Vector, regularisation: float) -> Self:
        """From S, shape (J, J), and r."""
        scale = float(covariance.diagonal().mean())
        if not np.isfinite(covariance).all():  # of unbounded kernels, refused in words later
            return cls(np.full_like(covariance, np.nan), np.ones(len(covariance)))
        # Kernels that do not vary have no covariance to be normalised by, and no statistic.
        if scale <= 0.0:
            return cls(np.zeros_like(covariance), np.zeros(len(covariance)))
        # In units of t, so that the ridge is r whatever the units of the kernels.
        values, vectors = np.linalg.eigh(covariance / scale)
        values = values.clip(min=0.0)  # below it by rounding
        # W = (t (D + r))^(-1/2) V' of S / t = V D V', so that |W u|^2 = u' (S + r t I)^-1 u.
        whitening = (vectors / np.sqrt(scale * (values + regularisation))).T
        # W S W' is diagonal in the same basis: S / (S + r), all about 1 where r is small.
        return cls(whitening, values / (values + regularisation))

    def whiten(self, u: Vector) -> Vector:
        """W u of values (J,) or (J, b), whose sums of squares are the norm."""
        whitened: Vector = self.whitening @ u
        return whitened

    def solve(self, u: Vector) -> Vector:
        """(S + r t I)^-1 u."""
        solved: Vector = self.whitening.T @ (self.whitening @ u)
        return solved

    def __call__(self, u: Vector) -> float:
        """The norm of u (J,)."""
        return float(squared_norms(self.whiten(u)))

    @property
    def law(self) -> ChiSquareMixture:
        """The limit of T under the null; chi-square without a ridge."""
        return ChiSquareMixture.of(self.weights)


class LocationSums(NamedTuple):
    """Sums over rows for two-sided statistics at locations."""

    tuples: TupleSums
    """Those of the data as they are."""
    second: Vector
    """Products of every side about its pilot at two locations, shape (S, J, J)."""

    def covariances(self, n: int) -> Iterator[Vector]:
        """Covariances of every side at the locations, shapes (J, J)."""
        means = self.tuples.sides[0].reshape(self.second.shape[:2]) / n
        for mean, products in zip(means, self.second / n, strict=True):
            # About pilots, so that the means are small and little cancels.
            yield products - np.outer(mean, mean)


@dataclass(frozen=True)
class LocationPass(Pass[LocationSums]):
    """Means of kernels at locations, and covariances of every side of the statistics.

    Parameters
    ----------
    tuples : Tuples
        The statistics, which keep all locations; so few that they are one strip.
    """

    tuples: Tuples
    name: str = "test locations"

    @cached_property
    def tiles(self) -> TupleTiles:
        """Tiles of some rows."""
        return TupleTiles(self.tuples, 1)

    def footprint(self, rows: int) -> Footprint:
        """Cost of a block of so many rows."""
        sums = MeansPass(self.tuples).footprint(rows)
        sides, j = self.tuples.n_side_values, self.tuples.n_landmarks
        return Footprint(
            payload=sums.payload,
            scratch=self.tiles.scratch_bytes(min(rows, LANDMARK_TILE_ROWS))
            + 8 * min(rows, LANDMARK_TILE_ROWS) * j,
            state=sums.state + 8 * sides * j,
        )

    def chunk(self, block: RowBlock) -> LocationSums:
        """Sums over one block."""
        t, j = self.tuples, self.tuples.n_landmarks
        sums = LocationSums(TupleSums.zeros(t, 1), np.zeros((len(t.sides), j, j)))
        for start in range(0, block.rows, LANDMARK_TILE_ROWS):
            ((strip, tiles),) = self.tiles.of(
                [x[start : start + LANDMARK_TILE_ROWS] for x in block.values]
            )
            sides = self.tiles.sides(strip, tiles)
            sums.tuples.add_still(t, strip, sides)
            for products, side in zip(sums.second, sides.values(), strict=True):
                # Covariances are differences of these sums, so that they are made in double
                # precision.
                values = side.astype(np.float64, copy=False)
                products += values @ values.T
        return sums
