"""Many features against one target by the features of their kernels.

The landmarks of a feature and the target are a grid: every one that the feature keeps with every
one that the target keeps. Its Gram matrix is a Kronecker product, so that what is summed over the
rows are the features of all kernels side by side times those of the target.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.plan import DriverStep, PassPlan, Plan
from dhsic.engine.session import Session
from dhsic.estimators.base import plan_of
from dhsic.estimators.landmarks import (
    REMEDY,
    LandmarkFeatures,
    landmark_steps,
    likely_maps,
)
from dhsic.estimators.outcomes import ColumnEstimates, ColumnOutcome
from dhsic.estimators.tests import grid_outcome, sample_step
from dhsic.features import FeatureMap
from dhsic.kernels import Combinations
from dhsic.nulls import Resampling
from dhsic.statistics.layout import KernelSide, Layout, Rectangle
from dhsic.statistics.moments import Covariances, MomentsPass, feature_moments
from dhsic.statistics.outer import FeatureResampling, fewest_parts
from dhsic.statistics.sides import SQUARED_HSIC, Side, unseen_sides, whiten

Vector = NDArray[np.float64]


def plan_ranked_features(
    session: Session, combinations: Combinations, null: Resampling | None, p: int
) -> Plan:
    """The steps that would run with as many landmarks as are likely to be kept.

    Where more are kept, `measure_columns` looks whether they fit before it reads the data.
    """
    guessed = combinations.guessed(session.dims)
    return _plan(session, guessed, null, p, likely_maps(session, guessed, p))


def measure_columns(session: Session, drawn: LandmarkFeatures, null: Resampling) -> ColumnOutcome:
    """The statistics, n |C|^2, of every feature and its replicates, with the estimates."""
    # Once more with the landmarks as drawn, on which the memory depends.
    _plan(session, drawn.combinations, null, drawn.summary.drawn, drawn.maps).check()
    estimates = _estimates(session, drawn)
    outcome = grid_outcome(session, drawn.combinations, drawn.bases, SQUARED_HSIC, null)
    return ColumnOutcome(
        estimates, outcome.statistics, outcome.replicates, outcome.detail, outcome.rounding
    )


def estimate_features(session: Session, drawn: LandmarkFeatures) -> ColumnEstimates:
    """|C|^2 of every feature with the target, and of either with itself, in one pass."""
    _plan(session, drawn.combinations, None, drawn.summary.drawn, drawn.maps).check()
    return _estimates(session, drawn)


def _plan(
    session: Session,
    combinations: Combinations,
    null: Resampling | None,
    p: int,
    maps: Sequence[FeatureMap],
) -> Plan:
    """The steps that would run with the features that the maps make."""
    # Of features that take no memory: the plan needs their shapes.
    sides = unseen_sides(maps, whitened=True)
    steps = [*landmark_steps(session, combinations, p, maps), sample_step(session.n, maps)]
    steps += [step for layout in _layouts(session, sides) for step in _steps(session, layout)]
    if null is not None:
        steps += FeatureResampling.of(
            session, sides, combinations.chosen, SQUARED_HSIC, null
        ).steps()
    return plan_of(session, steps, REMEDY, p)


def _layouts(session: Session, sides: Mapping[int, Side]) -> list[Layout]:
    """As many features at a time as take a small part of the memory, and one at least."""
    *features, target = sides
    kernels = {k: KernelSide.plain(int(k == target), side) for k, side in sides.items()}

    def layout(some: Sequence[int]) -> Layout:
        """Products with the target, and within every kernel."""
        numbers = (*some, target)
        # Products within a kernel give HSIC of a variable with itself.
        within = (Rectangle((k,), (k,)) for k in numbers)
        whole = Rectangle(tuple(some), (target,))
        return Layout(tuple((k, kernels[k]) for k in numbers), (whole, *within))

    def fits(some: Sequence[int]) -> bool:
        planned = session.plan(MomentsPass(layout(some)))
        # An eighth of the memory, since other threads hold sums of their own.
        return planned.worker_bytes <= session.runtime.memory // 8

    return list(map(layout, fewest_parts(features, fits)))


def _steps(session: Session, layout: Layout) -> list[DriverStep | PassPlan]:
    """The pass over some of the features and the step after it."""
    widest = max(side.n_summed for _, side in layout.kernels)
    estimate = DriverStep("estimate", 8 * (4 * layout.n_products + 6 * widest**2))
    return [session.plan(MomentsPass(layout)), estimate]


def _estimates(session: Session, drawn: LandmarkFeatures) -> ColumnEstimates:
    sides = dict(enumerate(drawn.sides))
    *features, target = sides
    sizes: dict[tuple[int, int], float] = {}
    for layout in _layouts(session, sides):
        covariances = feature_moments(session, layout)
        session.step("estimate")
        # The last of the places is that of the target.
        *some, _ = layout.places
        pairs = [*((k, target) for k in some), *((k, k) for k in (*some, target))]
        sizes |= {pair: _size(covariances, sides, *pair) for pair in pairs}
    hsic, with_itself = (
        np.array([sizes[k, other] for k, other in zip(features, others, strict=True)])
        # With the target for HSIC, with itself for the scale of CKA.
        for others in ([target] * len(features), features)
    )
    summary = replace(drawn.summary, kept=tuple(side.n_features for side in drawn.sides[:-1]))
    targets = np.full(len(with_itself), sizes[target, target])
    return ColumnEstimates(drawn.combinations, hsic, with_itself, targets, summary)


def _size(covariances: Covariances, sides: Mapping[int, Side], first: int, second: int) -> float:
    """Squared HSIC of two kernels."""
    factors = sides[first].factor, sides[second].factor
    return float(SQUARED_HSIC.size(whiten(covariances.of(first, second)[None], factors))[0])
