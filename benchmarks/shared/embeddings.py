"""Laws whose embeddings in the space of a Gaussian kernel are known, and errors against them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dhsic.kernels import Gaussian
from dhsic.linalg import pivoted_cholesky, solve_lower, squared_norms

TILE = 4096

Vector = NDArray[np.float64]
Rng = np.random.Generator


@dataclass(frozen=True, eq=False)
class Mixture:
    """Equal shares of N(c_i, I), and the kernel exp(-gamma |x - y|^2).

    With exp(-gamma |x - y|^2) proportional to a normal density of variance 1 / (2 gamma), integrals
    over one or two clouds are normal densities of the sum of variances (Chatalic et al. 2022,
    appendix G).
    """

    centres: Vector
    gamma: float

    @classmethod
    def normal(cls) -> Mixture:
        return cls(np.zeros((1, 1)), 0.5)

    @classmethod
    def clouds(cls, count: int, d: int) -> Mixture:
        """Centres from N(0, 5 I), the same at every call; the median heuristic of 1,000 rows."""
        rng = np.random.default_rng(0)
        law = cls(math.sqrt(5.0) * rng.standard_normal((count, d)), 1.0)
        gamma = Gaussian().fit(law.draw(1000, rng)).gamma
        assert gamma is not None
        return cls(law.centres, gamma / 2.0)  # sigma, not the distance, is the median

    def draw(self, n: int, rng: Rng) -> Vector:
        which = rng.integers(len(self.centres), size=n)
        return self.centres[which] + rng.standard_normal((n, self.centres.shape[1]))

    def mean(self, x: Vector) -> Vector:
        """The embedding mu at points (s, d)."""
        values: Vector = self._smoothed(x, 1).mean(axis=1)
        return values

    @cached_property
    def squared_norm(self) -> float:
        """|mu|^2."""
        return float(self._smoothed(self.centres, 2).mean())

    def _smoothed(self, x: Vector, times: int) -> Vector:
        """The kernel at the centres, smoothed by so many clouds, shape (s, p)."""
        widening = 1.0 + 2.0 * self.gamma * times
        share = math.pow(widening, -0.5 * self.centres.shape[1])
        values: Vector = Gaussian(gamma=self.gamma / widening)(x, self.centres)
        return share * values


@dataclass(frozen=True, eq=False)
class Empirical:
    """The uniform law on the rows of a table, and the kernel exp(-gamma |x - y|^2)."""

    points: Vector
    gamma: float

    def draw(self, n: int, rng: Rng) -> Vector:
        return self.points[rng.integers(len(self.points), size=n)]

    def mean(self, x: Vector) -> Vector:
        """The embedding mu at points (s, d)."""
        return kernel_means(self.gamma, x, self.points)

    @cached_property
    def squared_norm(self) -> float:
        """|mu|^2."""
        starts = range(0, len(self.points), TILE)
        return sum(
            float(self.mean(self.points[start : start + TILE]).sum()) for start in starts
        ) / len(self.points)


@dataclass(frozen=True, eq=False)
class NormalPairs:
    """Normal columns of a covariance, with the kernel exp(-gamma_m |x - y|^2) on each."""

    covariance: Vector
    gammas: tuple[float, ...]

    def draw(self, n: int, rng: Rng) -> list[Vector]:
        lower = np.linalg.cholesky(self.covariance)
        return [x[:, None] for x in lower @ rng.standard_normal((len(lower), n))]

    def squared_hsic(self) -> float:
        """E k(x, x') - 2 E prod_m mu_m(x_m) + prod_m |mu_m|^2.

        All by E exp(-x' G x) = |I + 2 S G|^-1/2; the difference of two rows has covariance 2 S.
        """
        gammas, variances = np.array(self.gammas), self.covariance.diagonal()
        single = 1.0 + 2.0 * gammas * variances
        joint = self._gaussian(2.0 * gammas)
        cross = 1.0 / math.sqrt(single.prod()) * self._gaussian(gammas / single)
        marginal = 1.0 / math.sqrt((1.0 + 4.0 * gammas * variances).prod())
        return max(0.0, joint - 2.0 * cross + marginal)

    def _gaussian(self, gammas: Vector) -> float:
        """E exp(-sum_m gamma_m x_m^2)."""
        widened = np.eye(len(gammas)) + 2.0 * self.covariance * gammas
        return 1.0 / math.sqrt(np.linalg.det(widened))


def kernel_means(gamma: float, z: Vector, x: Vector) -> Vector:
    """Means over the rows of x of the kernel at z, shape (p,)."""
    kernel, sums = Gaussian(gamma=gamma), np.zeros(len(z))
    for start in range(0, len(x), TILE):
        sums += kernel(x[start : start + TILE], z).sum(axis=0)
    return sums / len(x)


def nystrom_error(law: Mixture | Empirical, x: Vector, z: Vector, tolerance: float) -> float:
    """|mu - P mean_i phi(x_i)| with P the projection on the span of the landmarks z.

    The part of mu outside the span, and the error in it, are orthogonal.
    """
    factor = pivoted_cholesky(Gaussian(gamma=law.gamma)(z), tolerance)
    kept = z[factor.kept]
    values = np.stack([law.mean(kept), kernel_means(law.gamma, kept, x)], axis=1)
    true, found = solve_lower(factor.factor, values).T
    outside = max(0.0, law.squared_norm - float(true @ true))
    return math.sqrt(outside + float(squared_norms(true - found)))


def floor(law: Mixture | Empirical, n: int) -> float:
    """Root mean squared error of the mean of n rows: k(x, x) = 1."""
    return math.sqrt((1.0 - law.squared_norm) / n)
