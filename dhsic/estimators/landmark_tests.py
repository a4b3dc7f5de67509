"""Tests from the centred products at landmarks: what the estimators on product kernels run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.plan import DriverStep, PassPlan, baseline_bytes
from dhsic.engine.reduction import RowReduction
from dhsic.engine.session import Session
from dhsic.engine.tiles import Tiling
from dhsic.estimators.base import Null
from dhsic.estimators.landmark_products import CentredProducts
from dhsic.estimators.landmark_sums import (
    CentredSums,
    MultiplierPass,
    PermutationPass,
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
    Spectral,
    check_finite,
)

__all__ = [
    "Replicated",
    "Tested",
    "kernel_means",
    "multiplier_functions",
    "plan_fitted",
    "plan_replicates",
    "run_fitted",
    "run_replicates",
    "suits_one_task",
]

Vector = NDArray[np.float64]
Whiten = Callable[[Vector], Vector]
Resampling = Multiplier | Permutation

_PATIENT_OPERATIONS = 1e11
_FEW = 64
_SOLVED = 4  # copies of what a pass returns


class Replicated(NamedTuple):
    """What replicates say of G combinations."""

    u: list[Vector]
    """kappa_J - prod_m kappa_m of every combination, shapes (q,)."""
    statistics: Vector
    """T = n |L^-1 u|^2, shape (G,)."""
    replicates: Vector
    """Of T under the null hypothesis, shape (b, G)."""
    detail: str
    """How they were made, where the null leaves a choice."""


class Tested(NamedTuple):
    """What a fitted null distribution says of one combination."""

    u: Vector
    """kappa_J - prod_m kappa_m, shape (q,)."""
    statistic: float
    """T = n |L^-1 u|^2."""
    distribution: Distribution
    """Of T under the null hypothesis."""


def kernel_means(session: Session, tiling: Tiling) -> Vector:
    """kappa_k of every kernel, shape (K, p), in one pass."""
    return session.run(SumsPass(tiling, joint=False)).marginal / session.n


def plan_replicates(
    session: Session, tiling: Tiling, chosen: Sequence[tuple[int, ...]], null: Resampling
) -> list[DriverStep | PassPlan]:
    """The passes of `run_replicates` and what follows each, with all landmarks kept."""
    whole = _unseen(tiling, chosen)
    null = _resolved(session, whole, null)
    steps: list[DriverStep | PassPlan] = []
    for numbers in _parts(session, whole, partial(_replicate_pass, session, null)):
        part = whole.part(numbers)
        functions = 8 * part.n_values * (null.n_resamples + 1)
        steps.append(session.plan(_replicate_pass(session, null, part)))
        steps.append(DriverStep("solve", _SOLVED * functions + 2 * 8 * tiling.n_values**2))
    return steps


def plan_fitted(
    session: Session, tiling: Tiling, chosen: Sequence[tuple[int, ...]], null: Null
) -> list[DriverStep | PassPlan]:
    """The passes of `run_fitted` and what follows each, with all landmarks kept."""
    whole, matrix = _unseen(tiling, chosen), 8 * tiling.n_values**2
    steps: list[DriverStep | PassPlan] = []
    for numbers in _parts(session, whole, partial(SpectrumPass, name=f"{null.name} null")):
        part = whole.part(numbers)
        held = matrix * (len(numbers) - 1)
        steps.append(session.plan(SpectrumPass(part, f"{null.name} null")))
        steps.append(DriverStep("whiten", held + 6 * matrix, matrix))
        if isinstance(null, Spectral):
            steps.append(DriverStep("eigenvalues", held + 4 * matrix))
    return steps


def _unseen(tiling: Tiling, chosen: Sequence[tuple[int, ...]]) -> CentredProducts:
    """Products with means that take no memory."""
    zero = tiling.precision.type(0)
    means = [np.broadcast_to(zero, tiling.n_values)] * len(tiling.kernels)
    return CentredProducts.of(tiling, means, chosen)


def run_replicates(
    session: Session, products: CentredProducts, whiten: Sequence[Whiten], null: Resampling
) -> Replicated:
    """T of every combination and its replicates, in one pass, or as few as fit in memory.

    Parameters
    ----------
    session : Session
        The run.
    products : CentredProducts
        Of the combinations.
    whiten : sequence of callable
        L^-1 of every combination, from (q,) or (q, b) to the same shape: the norm of a function is
        that of its whitened values at the landmarks.
    null : Multiplier or Permutation
        The null distribution.

    Returns
    -------
    Replicated
    """
    null = _resolved(session, products, null)
    u: list[Vector] = []
    norms: list[Vector] = []
    for numbers in _parts(session, products, partial(_replicate_pass, session, null)):
        part = products.part(numbers)
        functions = _functions(session, part, null)
        session.step("solve")
        for c, values in zip(numbers, part.parts_of(functions), strict=True):
            u.append(values[:, 0].copy())
            norms.append(session.n * squared_norms(whiten[c](values)))
    statistics, *replicates = np.transpose(norms)
    over_all = isinstance(null, Permutation) and null.within == "all"
    detail = null.detail(over_all=over_all) if isinstance(null, Permutation) else ""
    return Replicated(u, statistics, np.array(replicates), detail)


def _functions(session: Session, products: CentredProducts, null: Resampling) -> Vector:
    """u, and U_b of every replicate, shape (q, b + 1)."""
    reduction = _replicate_pass(session, null, products)
    if isinstance(reduction, MultiplierPass):
        return multiplier_functions(session.run(reduction), session.n)
    return session.run(reduction).centred.T / session.n


def _parts(
    session: Session,
    products: CentredProducts,
    reduction: Callable[[CentredProducts], RowReduction[Any]],
) -> list[range]:
    """Combinations that one pass takes: all where they fit in memory, else as many as do."""
    count = len(products.chosen)

    def fits(part: range) -> bool:
        plan = session.plan(reduction(products.part(part)))
        # The driver may hold factors beside a pass and a solve, see `NystromMHSIC`.
        allowed = session.runtime.memory - baseline_bytes() - session.runtime.memory // 8
        solve = _SOLVED * plan.bytes_to_driver + 2 * 8 * products.tiling.n_values**2
        return max(plan.worker_bytes, solve) <= allowed

    for size in _part_sizes(count):
        parts = [range(start, min(start + size, count)) for start in range(0, count, size)]
        if size == 1 or all(map(fits, parts)):
            break
    return parts


def _part_sizes(count: int) -> Iterator[int]:
    """Sizes to try, the largest first: every one of a few, and halves of many."""
    while count > _FEW:
        yield count
        count = -(-count // 2)
    yield from range(count, 0, -1)


def run_fitted(
    session: Session, products: CentredProducts, whiten: Sequence[Whiten], null: Null
) -> list[Tested]:
    """T of every combination and its fitted null distribution.

    It takes one pass, or as few as fit in memory.
    """
    tested: list[Tested] = []
    for numbers in _parts(session, products, partial(SpectrumPass, name=f"{null.name} null")):
        part = products.part(numbers)
        sums = session.run(SpectrumPass(part, f"{null.name} null"))
        for c, own in zip(numbers, sums.of(part), strict=True):
            u, distribution = _fitted_distribution(session, *own, whiten[c], null)
            statistic = session.n * float(squared_norms(whiten[c](u)))
            tested.append(Tested(u, statistic, distribution))
    return tested


def _resolved(session: Session, products: CentredProducts, null: Resampling) -> Resampling:
    """The null with its choice made once for all combinations, which must share replicates."""
    if isinstance(null, Multiplier) or null.within != "auto":
        return null
    whole = PermutationPass(products, null, True, session.seed)
    return replace(null, within="all" if suits_one_task(session, whole, null) else "blocks")


def _replicate_pass(
    session: Session, null: Resampling, products: CentredProducts
) -> MultiplierPass | PermutationPass:
    if isinstance(null, Multiplier):
        return MultiplierPass(products, null.n_resamples, session.seed)
    return PermutationPass(products, null, null.within == "all", session.seed)


def suits_one_task(session: Session, reduction: RowReduction[Any], null: Permutation) -> bool:
    """Whether permutations of all rows fit in memory and take one thread less than a minute."""
    fits = session.plan(reduction).worker_bytes <= session.runtime.memory // 2
    work = session.n * reduction.footprint(session.n).operations
    return session.n <= null.block_rows or (fits and work <= _PATIENT_OPERATIONS)


def multiplier_functions(sums: CentredSums, n: int) -> Vector:
    """u, and U_b = (1/n) sum_i (w_ib - mean_i w_ib) xi_i for every replicate.

    The mean of T_b over signs and permutations is (n - 2) / n times that of T over permutations:
    exactly for M = 2, as follows from E T = tr(HK_1) tr(HK_2) / (n (n - 1)), and closely for
    M > 2. The factor removes the excess of rejections that it causes at small n.
    """
    u = sums.plain / n
    signed = (sums.signed - np.outer(u, sums.signs)) / n * math.sqrt(n / (n - 2))
    return np.column_stack([u, signed])


def _fitted_distribution(
    session: Session, plain: Vector, squares: Vector, whiten: Whiten, null: Null
) -> tuple[Vector, Distribution]:
    """u, and the distribution that the multipliers imitate: of a normal U of the same covariance.

    T = sum_k lambda_k z_k^2 with lambda_k the eigenvalues of L^-1 Cov(xi) L^-T, whose trace and
    squared Frobenius norm are the mean and half the variance of T. The factor n / (n - 2) is that
    of the multipliers.
    """
    n = session.n
    u = plain / n
    session.step("whiten")
    covariance = whiten(whiten((squares / n - np.outer(u, u)) * (n / (n - 2))).T)
    check_finite(covariance)
    if isinstance(null, Spectral):
        session.step("eigenvalues")
        # Along directions near the pruning tolerance the covariance may be negative by rounding.
        mixture = ChiSquareMixture.of(spectrum(covariance).clip(min=0.0))
        return u, null.distribution(mixture, session.seed)
    variance = 2.0 * float(np.vdot(covariance, covariance))
    return u, GammaDistribution(float(covariance.trace()), variance)
