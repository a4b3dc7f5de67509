"""The Lancaster statistic at landmarks, and its replicates under every factorisation."""

from __future__ import annotations

from functools import partial
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.plan import Plan
from dhsic.engine.session import Session
from dhsic.estimators import NystromMHSIC
from dhsic.estimators.base import plan_of
from dhsic.kernels import Combinations, Kernel
from dhsic.nulls import Resampling
from dhsic.results import LandmarkSummary
from dhsic.statistics.orbit import Pair
from dhsic.statistics.pointwise import Tuples, measure_tuples, plan_tuples, resample_tuples

Vector = NDArray[np.float64]

FACTORISATIONS: Final = ((1, 2, 0), (0, 2, 1), (0, 1, 2))
"""The variables a and b that stay together, and the one s that is independent of both."""

_PAIRS = tuple(Pair((a, b), s) for a, b, s in FACTORISATIONS)
_REMEDY = "take fewer landmarks, resamples or threads"


class LancasterReplicates(NamedTuple):
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
    estimator: NystromMHSIC, session: Session, kernels: Combinations, null: Resampling
) -> LancasterReplicates:
    """T = n v' K_J^-1 v with v_j = <mu_L, k_J(z_j)> the mean of the centred products, two passes.

    Under (a, b) _||_ s, with d_m centred and c_ab the mean of d_a d_b, the means of d_a d_s and
    d_b d_s are O(n^-1/2), as are the errors of the centring, so that v is the mean of
    xi = (d_a d_b - c_ab) d_s but for O(1/n): the cross-covariance of d_a d_b and d_s. Permuting s,
    which leaves d_a d_b and every mean as they are, gives v of the permuted data exactly.
    """
    # Of every variable by itself: landmarks of a test must not know of the pairing.
    basis = estimator.draw_landmarks(session, kernels, "independent", hold=True)
    tuples = Tuples.at(basis, _PAIRS, session.dtype, "centred")
    # About the means, products of small numbers lose no digits of their covariance.
    tuples = tuples.about(list(measure_tuples(session, tuples).kappa))
    # The three factorisations have one basis: their statistics are one norm of one vector.
    whiten = [partial(basis.whiten, 0)] * len(_PAIRS)
    (statistics, replicates, rounding, _), _, detail = resample_tuples(
        session, tuples, whiten, null
    )
    return LancasterReplicates(
        statistics,
        replicates,
        basis.combinations.kernels_of(0),
        estimator.summary(session, basis, basis.factor(0).rank),
        detail,
        rounding,
    )


def plan_at_landmarks(
    estimator: NystromMHSIC, session: Session, kernels: Combinations, null: Resampling
) -> Plan:
    """The plan of `replicate_at_landmarks`, with the landmarks as drawn."""
    p = estimator.most_landmarks(session)
    guessed = kernels.guessed(session.dims)
    # As many as are drawn: how many pruning keeps is known only when they are.
    tuples = Tuples.unseen(guessed, session.dims, p, _PAIRS, session.dtype, "centred")
    passes = [*plan_tuples(session, tuples, None), *plan_tuples(session, tuples, null)]
    steps = [*estimator.drawing_steps(session, guessed, 8 * p * p), *passes]
    return plan_of(session, steps, _REMEDY, n_landmarks=p)
