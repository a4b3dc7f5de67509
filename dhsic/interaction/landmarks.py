"""The Lancaster statistic at landmarks, and its replicates under every factorisation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.plan import DriverStep, PassPlan, Plan
from dhsic.engine.reduction import RowReduction
from dhsic.engine.session import Session
from dhsic.engine.tiles import Tiling
from dhsic.estimators import NystromMHSIC
from dhsic.estimators.approximate import guard_interaction
from dhsic.estimators.base import Resampling, plan_of
from dhsic.estimators.landmark_basis import LandmarkBasis
from dhsic.estimators.landmark_draws import LandmarkDraw
from dhsic.estimators.landmark_sums import MultiplierPass, SumsPass
from dhsic.estimators.landmark_tests import kernel_means, multiplier_functions, suits_one_task
from dhsic.estimators.resample import TwoSided, orbit_of
from dhsic.estimators.tuple_statistics import plan_tuples, resample_tuples
from dhsic.estimators.tuples import Tuples
from dhsic.interaction.products import (
    FACTORISATIONS,
    FactorisedProducts,
    MomentsPass,
    SeparatedPermutationPass,
)
from dhsic.kernels import Combinations, Kernel
from dhsic.linalg import squared_norms
from dhsic.nulls import Multiplier, Permutation, Shifts
from dhsic.results import LandmarkSummary

__all__ = ["Replicated", "plan_at_landmarks", "replicate_at_landmarks"]

Vector = NDArray[np.float64]

_PAIRS = tuple(TwoSided((a, b), s) for a, b, s in FACTORISATIONS)
_REMEDY = "take fewer landmarks, resamples or threads"


class Replicated(NamedTuple):
    """The statistic of the data, and what becomes of it where one variable is independent."""

    statistics: Vector
    """n |mu_L|^2 as computed beside the replicates of each factorisation, shape (3,)."""
    replicates: Vector
    """Under every factorisation, shape (b, 3)."""
    kernels: tuple[Kernel, ...]
    """As fitted."""
    landmarks: LandmarkSummary | None
    """Where there are any."""
    detail: str
    """How the replicates were made, where the null leaves a choice."""
    rounding: float | Vector = 0.0
    """Differences of the statistics up to it are rounding; or those of each, shape (3,)."""


def replicate_at_landmarks(
    session: Session, estimator: NystromMHSIC, kernels: Sequence[Kernel], null: Resampling
) -> Replicated:
    """T = n v' K_J^-1 v with v_j = <mu_L, k_J(z_j)> the mean of the centred products, two passes.

    Under (a, b) _||_ s, with d_m centred and c_ab the mean of d_a d_b, the means of d_a d_s and
    d_b d_s are O(n^-1/2), as are the errors of the centring, so that v is the mean of
    xi = (d_a d_b - c_ab) d_s but for O(1/n): the cross-covariance of d_a d_b and d_s. Signs on the
    rows of xi therefore imitate v as they do for two variables, and permuting s, which leaves
    d_a d_b and every mean as they are, gives v of the permuted data exactly.
    """
    draw = _draw(estimator)
    basis = draw.basis(session, Combinations.single(kernels), "independent", hold=True)
    if isinstance(null, Shifts):
        return _shifted(session, draw, basis, null)
    note = guard_interaction(session, basis.combinations, basis.samples, null)
    tiling = basis.tiling(session)
    if isinstance(null, Multiplier):
        means: Vector = session.run(MomentsPass(tiling)).means(session.n)
    else:
        means = kernel_means(session, tiling)
    products = FactorisedProducts.at(tiling, list(means.astype(session.dtype)))
    null = _resolved(session, products, null)
    functions = _functions(session, products, null)
    session.step("solve")
    parts = products.parts_of(functions)
    norms = session.n * np.array([squared_norms(basis.whiten(0, part)) for part in parts])
    detail = null.detail(over_all=null.within == "all") if isinstance(null, Permutation) else note
    return Replicated(
        norms[:, 0],
        norms[:, 1:].T,
        basis.combinations.kernels_of(0),
        draw.summary(session, basis, basis.factor(0).rank, "independent"),
        detail,
    )


def _shifted(
    session: Session, draw: LandmarkDraw, basis: LandmarkBasis, null: Shifts
) -> Replicated:
    """By shifts of s, which leave d_a d_b and every mean as they are: exact under (a, b) _||_ s."""
    kappa = kernel_means(session, basis.tiling(session))
    orbit = orbit_of(session, null)
    found = resample_tuples(session, _tuples(basis, kappa, session), [_whiten(basis)] * 3, orbit)
    statistics, replicates, rounding = found.resampled
    return Replicated(
        statistics,
        replicates,
        basis.combinations.kernels_of(0),
        draw.summary(session, basis, basis.factor(0).rank, "independent"),
        orbit.detail,
        rounding,
    )


def _whiten(basis: LandmarkBasis) -> Callable[[Vector], Vector]:
    return partial(basis.whiten, 0)


def _tuples(basis: LandmarkBasis, kappa: Vector, session: Session) -> Tuples:
    """The products d_a d_b against d_s of every factorisation, about the means of the kernels."""
    c = basis.combinations
    return Tuples(
        c.kernels,
        c.variables,
        basis.landmarks.points,
        _PAIRS,
        basis.kept * len(_PAIRS),
        tuple(kappa),
        session.dtype,
        centred=True,
    )


def plan_at_landmarks(
    session: Session, estimator: NystromMHSIC, kernels: Sequence[Kernel], null: Resampling
) -> Plan:
    """What `replicate_at_landmarks` would run, with the landmarks as drawn."""
    draw, guessed = _draw(estimator), Combinations.single(kernels).guessed(session.dims)
    p = draw.most(session)
    gram = 8 * p * p
    tiling = Tiling.prepare(guessed, [np.zeros((p, d)) for d in session.dims], session.dtype)
    if isinstance(null, Shifts):
        tuples = Tuples.unseen(guessed, session.dims, p, _PAIRS, session.dtype)
        shifted = [
            *draw.steps(session, guessed, gram),
            session.plan(SumsPass(tiling, joint=False)),
            *plan_tuples(session, tuples, orbit_of(session, null)),
        ]
        return plan_of(session, shifted, _REMEDY, n_landmarks=p)
    signed = isinstance(null, Multiplier)
    mean = np.broadcast_to(session.dtype.type(0), p)
    products = FactorisedProducts.at(tiling, [mean] * (6 if signed else 3))
    functions = 8 * products.n_values * (null.n_resamples + 1)
    steps: list[DriverStep | PassPlan] = [
        *draw.steps(session, guessed, gram),
        session.plan(MomentsPass(tiling) if signed else SumsPass(tiling, joint=False)),
        session.plan(_null_pass(session, products, _resolved(session, products, null))),
        DriverStep("solve", 4 * functions + 2 * gram),
    ]
    return plan_of(session, steps, _REMEDY, n_landmarks=p)


def _draw(estimator: NystromMHSIC) -> LandmarkDraw:
    return LandmarkDraw(
        estimator.n_landmarks,
        estimator.replace,
        estimator.tolerance,
        estimator.selection,
        estimator.pool,
    )


def _resolved(
    session: Session, products: FactorisedProducts, null: Multiplier | Permutation
) -> Multiplier | Permutation:
    """The null with its choice of rows made."""
    if isinstance(null, Multiplier) or null.within != "auto":
        return null
    whole = SeparatedPermutationPass(products, null, True, session.seed)
    return replace(null, within="all" if suits_one_task(session, whole, null) else "blocks")


def _null_pass(
    session: Session, products: FactorisedProducts, null: Multiplier | Permutation
) -> RowReduction[Any]:
    if isinstance(null, Multiplier):
        return MultiplierPass(products, null.n_resamples, session.seed)
    return SeparatedPermutationPass(products, null, null.within == "all", session.seed)


def _functions(
    session: Session, products: FactorisedProducts, null: Multiplier | Permutation
) -> Vector:
    """v, and V_b of every replicate, for the three factorisations, shape (3 p, b + 1)."""
    sums = session.run(_null_pass(session, products, null))
    if isinstance(null, Multiplier):
        return multiplier_functions(sums, session.n)
    functions: Vector = sums.centred.T / session.n
    return functions
