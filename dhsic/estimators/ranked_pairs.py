"""Many features against one target by all pairs of rows, as many at a time as fit in memory."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.plan import DriverStep, PassPlan, Plan
from dhsic.engine.session import Session
from dhsic.estimators.base import (
    FeatureEstimates,
    FeatureOutcome,
    Resampling,
    fit_combinations_on_sample,
)
from dhsic.estimators.gram_pairs import GramPass, GramTiling
from dhsic.estimators.gram_sums import hsic, marginal_hsic
from dhsic.estimators.quadratic import Quadratic
from dhsic.kernels import Combinations
from dhsic.nulls import Permutation

__all__ = ["estimate_ranked_pairs", "plan_ranked_pairs", "rank_pairs"]

Vector = NDArray[np.float64]


def plan_ranked_pairs(
    estimator: Quadratic, session: Session, combinations: Combinations, null: Resampling | None
) -> Plan:
    """What would run, part of the features after part."""
    if null is not None:
        null = _resolved(estimator, session, combinations, null)
    parts = _parts(estimator, session, combinations, null)
    plans = [_plan(estimator, session, combinations, null, numbers) for numbers in parts]
    return replace(plans[0], steps=tuple(step for plan in plans for step in _released(plan)))


def rank_pairs(
    estimator: Quadratic, session: Session, combinations: Combinations, null: Resampling
) -> FeatureOutcome:
    """Statistics of all features, and replicates that they share."""
    null = _resolved(estimator, session, combinations, null)
    outcomes = [
        estimator.test_grid(session, combinations.part(numbers), null)
        for numbers in _parts(estimator, session, combinations, null)
    ]
    values = [o.estimate(c).value for o in outcomes for c in range(len(o.combinations))]
    own = np.vstack([outcome.own for outcome in outcomes if outcome.own is not None])
    return FeatureOutcome(
        _estimates([outcome.combinations for outcome in outcomes], values, own),
        np.concatenate([outcome.statistics for outcome in outcomes]),
        np.hstack([outcome.replicates for outcome in outcomes]),
        outcomes[0].detail,
        np.concatenate([outcome.rounding for outcome in outcomes]),
    )


def estimate_ranked_pairs(
    estimator: Quadratic, session: Session, combinations: Combinations
) -> FeatureEstimates:
    """The estimates of all features."""
    parts, sums = [], []
    for numbers in _parts(estimator, session, combinations, None):
        fitted, _ = fit_combinations_on_sample(session, combinations.part(numbers))
        tiling = GramTiling(fitted, session.dims, session.dtype)
        found = session.run_pairs(GramPass(tiling, session.n))
        parts.append(fitted)
        sums += [found.of_combination(fitted.chosen, c) for c in range(len(fitted))]
    values = [hsic(one, unbiased=estimator.unbiased) for one in sums]
    own = np.array([marginal_hsic(one, unbiased=estimator.unbiased) for one in sums])
    return _estimates(parts, values, own)


def _estimates(
    parts: Sequence[Combinations], values: Sequence[float], own: Vector
) -> FeatureEstimates:
    features = [kernel for part in parts for kernel in part.kernels[:-1]]
    fitted = Combinations.against(features, parts[0].kernels[-1])
    return FeatureEstimates(fitted, np.array(values), own[:, 0], own[:, 1])


def _plan(
    estimator: Quadratic,
    session: Session,
    combinations: Combinations,
    null: Resampling | None,
    numbers: range,
) -> Plan:
    part = combinations.part(numbers)
    if null is not None:
        return estimator.plan_grid(session, part, null)
    return estimator.plan_sums(session, part)


def _released(plan: Plan) -> Iterator[DriverStep | PassPlan]:
    """The steps of a part, whose results are gone when the next part starts."""
    held = 0
    for step in plan.steps:
        if isinstance(step, PassPlan):
            yield replace(step, worker_bytes=step.worker_bytes + held)
        else:
            yield DriverStep(step.name, step.working_bytes + held)
            held += step.held_bytes


def _resolved(
    estimator: Quadratic, session: Session, combinations: Combinations, null: Resampling
) -> Resampling:
    """The null with its choice made once for all features, which must share replicates."""
    if not isinstance(null, Permutation) or null.within != "auto":
        return null
    whole = estimator.over_all(session, combinations.part([0]), null) is not None
    return replace(null, within="all" if whole else "blocks")


def _parts(
    estimator: Quadratic, session: Session, combinations: Combinations, null: Resampling | None
) -> list[range]:
    """Features that are taken at a time: as many as fit in memory, and one at least."""
    count = len(combinations)

    def exceeds(size: int) -> bool:
        plan = _plan(estimator, session, combinations, null, range(size))
        return max(plan.peak_worker_bytes, plan.peak_driver_bytes) > session.runtime.memory

    fitting = bisect_left(range(1, count + 1), True, key=exceeds)
    size = max(fitting, 1)
    return [range(start, min(start + size, count)) for start in range(0, count, size)]
