"""Tests from the centred products at landmarks: what the estimators on product kernels run."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.plan import DriverStep, PassPlan
from dhsic.engine.session import Session
from dhsic.engine.tiles import Matrix, Tiling
from dhsic.estimators.base import Null
from dhsic.estimators.landmark_sums import (
    CentredSums,
    MultiplierPass,
    PermutationPass,
    ProductSums,
    SpectrumPass,
    SumsPass,
)
from dhsic.linalg import spectrum, squared_norms
from dhsic.nulls import (
    ChiSquareMixture,
    Distribution,
    GammaDistribution,
    Multiplier,
    Permutation,
    Replicates,
    Spectral,
    check_finite,
)

__all__ = ["Tested", "kernel_means", "permutes_quickly", "plan_null", "run_null"]

Vector = NDArray[np.float64]
Whiten = Callable[[Vector], Vector]

_QUICK_PRODUCTS = 1e9
_PATIENT_OPERATIONS = 1e11


class Tested(NamedTuple):
    """What the pass of a null distribution finds."""

    u: Vector
    """kappa_J - prod_m kappa_m, shape (p,)."""
    statistic: float
    """T = n |L^-1 u|^2."""
    distribution: Distribution
    """Of T under the null hypothesis."""
    detail: str
    """How the distribution was made, where the null leaves a choice."""


def kernel_means(session: Session, tiling: Tiling) -> tuple[Vector, Vector]:
    """kappa_m, shape (M, p), and kappa_J, shape (p,), in one pass."""
    sums = session.run(SumsPass(tiling))
    return sums.marginal / session.n, sums.joint / session.n


def permutes_quickly(session: Session, p: int, n_resamples: int) -> bool:
    """Whether permutations of all rows take about a second and fit, for p real numbers a row."""
    orders = session.n * n_resamples * (len(session.sources) - 1)
    return orders * p <= _QUICK_PRODUCTS and 16 * orders <= session.runtime.memory // 2


def plan_null(session: Session, tiling: Tiling, null: Null) -> list[DriverStep | PassPlan]:
    """The pass of a null distribution and what follows it."""
    zero = tiling.precision.type(0)
    means = tuple(np.broadcast_to(zero, tiling.n_values) for _ in tiling.kernels)
    steps: list[DriverStep | PassPlan] = [session.plan(_null_pass(session, tiling, means, null))]
    if isinstance(null, Multiplier | Permutation):
        return [*steps, DriverStep("solve", 8 * tiling.n_values * 4 * null.n_resamples)]
    matrix = 8 * tiling.n_values**2
    steps.append(DriverStep("whiten", 6 * matrix, matrix))
    if isinstance(null, Spectral):
        steps.append(DriverStep("eigenvalues", 4 * matrix))
    return steps


def run_null(session: Session, tiling: Tiling, kappa: Vector, whiten: Whiten, null: Null) -> Tested:
    """T and its null distribution, in one pass.

    Parameters
    ----------
    session : Session
        The run.
    tiling : Tiling
        Kernels and landmarks.
    kappa : ndarray, shape (M, p)
        The means of the kernels at the landmarks.
    whiten : callable
        L^-1, from (p,) or (p, b) to the same shape: the norm of a function is that of its
        whitened values at the landmarks.
    null : Null
        The null distribution.

    Returns
    -------
    Tested
    """
    reduction = _null_pass(session, tiling, tuple(kappa.astype(session.dtype)), null)
    distribution: Distribution
    detail = ""
    if isinstance(reduction, SpectrumPass):
        u, distribution = _fitted_distribution(session, session.run(reduction), whiten, null)
    else:
        if isinstance(reduction, MultiplierPass):
            u, replicates = _multiplier_functions(session.run(reduction), session.n)
        else:
            detail = reduction.null.detail(over_all=reduction.over_all)
            functions = session.run(reduction).centred.T / session.n
            u, replicates = functions[:, 0], functions[:, 1:]
        session.step("solve")
        distribution = Replicates(session.n * squared_norms(whiten(replicates)))
    statistic = session.n * float(squared_norms(whiten(u)))
    return Tested(u, statistic, distribution, detail)


def _null_pass(
    session: Session, tiling: Tiling, means: tuple[Matrix, ...], null: Null
) -> MultiplierPass | PermutationPass | SpectrumPass:
    if isinstance(null, Multiplier):
        return MultiplierPass(tiling, means, null.n_resamples, session.seed)
    if not isinstance(null, Permutation):
        return SpectrumPass(tiling, means, f"{null.name} null")
    whole = PermutationPass(tiling, means, null, True, session.seed)
    if null.within == "all" or (null.within == "auto" and _suits_one_task(session, whole)):
        return whole
    return replace(whole, over_all=False)


def _suits_one_task(session: Session, reduction: PermutationPass) -> bool:
    """Whether permutations of all rows fit in memory and take one thread less than a minute."""
    fits = session.plan(reduction).worker_bytes <= session.runtime.memory // 2
    work = session.n * reduction.footprint(session.n).operations
    return session.n <= reduction.null.block_rows or (fits and work <= _PATIENT_OPERATIONS)


def _multiplier_functions(sums: CentredSums, n: int) -> tuple[Vector, Vector]:
    """u, and U_b = (1/n) sum_i (w_ib - mean_i w_ib) xi_i for every replicate.

    The mean of T_b over signs and permutations is (n - 2) / n times that of T over permutations:
    exactly for M = 2, as follows from E T = tr(HK_1) tr(HK_2) / (n (n - 1)), and closely for
    M > 2. The factor removes the excess of rejections that it causes at small n.
    """
    u = sums.plain / n
    return u, (sums.signed - np.outer(u, sums.signs)) / n * math.sqrt(n / (n - 2))


def _fitted_distribution(
    session: Session, sums: ProductSums, whiten: Whiten, null: Null
) -> tuple[Vector, Distribution]:
    """u, and the distribution that the multipliers imitate: of a normal U of the same covariance.

    T = sum_k lambda_k z_k^2 with lambda_k the eigenvalues of L^-1 Cov(xi) L^-T, whose trace and
    squared Frobenius norm are the mean and half the variance of T. The factor n / (n - 2) is that
    of the multipliers.
    """
    n = session.n
    u = sums.plain / n
    session.step("whiten")
    covariance = whiten(whiten((sums.squares / n - np.outer(u, u)) * (n / (n - 2))).T)
    check_finite(covariance)
    if isinstance(null, Spectral):
        session.step("eigenvalues")
        # Along directions near the pruning tolerance the covariance may be negative by rounding.
        mixture = ChiSquareMixture.of(spectrum(covariance).clip(min=0.0))
        return u, null.distribution(mixture, session.seed)
    variance = 2.0 * float(np.vdot(covariance, covariance))
    return u, GammaDistribution(float(covariance.trace()), variance)
