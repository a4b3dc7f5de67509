"""Many pairs of kernels, each measured by itself: features against one target, or all of a matrix.

The landmarks of a pair are a grid: every one that the first kernel keeps with every one that the
second keeps. Its Gram matrix is a Kronecker product, so that what is summed over the rows are the
features of all kernels side by side, times each other. Pairs come in batches of a small part of the
memory, whose replicates may go before those of the next are made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.plan import DriverStep, PassPlan, Plan
from dhsic.engine.session import Session
from dhsic.estimators.base import Null, Resampling, plan_of
from dhsic.estimators.feature.basis import SQUARED_HSIC, Side, whiten
from dhsic.estimators.feature.landmarks import REMEDY, LandmarkFeatures, landmark_steps
from dhsic.estimators.feature.layout import Layout, Pair
from dhsic.estimators.feature.moments import (
    Covariances,
    MomentsPass,
    feature_moments,
    moments_layout,
)
from dhsic.estimators.feature.replicates import FeatureResampling, fewest_parts
from dhsic.estimators.feature.tests import sample_step
from dhsic.estimators.outcomes import ColumnEstimates, Estimate, GridOutcome
from dhsic.kernels import Combinations
from dhsic.linalg import spectrum

Vector = NDArray[np.float64]

# Of the memory, that pairs take at a time: 1,000 pairs of features of 10,000 rows took 1.5 GiB of
# 2 GiB in four passes and 15.5 s, and now take 0.4 GiB in as long.
_SHARE = 6


class PairEstimates(NamedTuple):
    """Squared HSIC of G pairs of K kernels, and what the covariances of either tell."""

    hsic: Vector
    """Shape (G,)."""
    own: Vector
    """Squared HSIC of every variable with itself, shape (K,)."""
    traces: Vector
    """Traces of the covariance operators, shape (K,)."""
    spectra: list[Vector]
    """Their eigenvalues, where these are asked for."""


def plan_pairs(
    session: Session,
    combinations: Combinations,
    sides: Mapping[int, Side],
    null: Null | None,
    p: int,
) -> Plan:
    """The steps that would run with some features, of p landmarks."""
    maps = [side.map for side in sides.values()]
    steps = [*landmark_steps(session, combinations, p, maps), sample_step(session.n, maps)]
    for _, layout in _layouts(session, combinations, sides):
        steps += _steps(session, layout)
    if isinstance(null, Resampling):
        steps += pair_resampling(session, combinations, sides, null).steps()
    return plan_of(session, steps, REMEDY, p)


def check_pairs(session: Session, drawn: LandmarkFeatures, null: Null | None) -> dict[int, Side]:
    """The features as drawn, on which the memory depends.

    Raises
    ------
    MemoryBudgetError
        They are more than were expected, and do not fit.
    """
    sides = dict(enumerate(drawn.sides))
    plan_pairs(session, drawn.combinations, sides, null, drawn.summary.drawn).check()
    return sides


def estimate_pairs(
    session: Session,
    combinations: Combinations,
    sides: Mapping[int, Side],
    *,
    spectra: bool = False,
) -> PairEstimates:
    """|C|^2 of every pair, and of every kernel with itself, of all features, in one pass or few."""
    hsic: dict[Pair, float] = {}
    own: dict[int, float] = {}
    traces: dict[int, float] = {}
    eigenvalues: dict[int, Vector] = {}
    for pairs, layout in _layouts(session, combinations, sides):
        covariances = feature_moments(session, layout)
        session.step("estimate")
        # Squared HSIC: the norm of the whitened cross-covariance, Zhang et al. (2018), section 4.1.
        hsic |= {pair: _squared_norm(_whitened(covariances, sides, pair)) for pair in pairs}
        for k in layout.places.keys() - own.keys():
            # A variable with itself: the whitened block is its covariance operator.
            block = _whitened(covariances, sides, (k, k))
            own[k], traces[k] = _squared_norm(block), np.trace(block)
            if spectra:
                eigenvalues[k] = spectrum(block)
    return PairEstimates(
        np.array([hsic[pair] for pair in combinations.chosen]),
        np.array([own[k] for k in sides]),
        np.array([traces[k] for k in sides]),
        [eigenvalues[k] for k in sides if spectra],
    )


def pair_resampling(
    session: Session, combinations: Combinations, sides: Mapping[int, Side], null: Resampling
) -> FeatureResampling:
    """How replicates of every pair are made, of which the second variable moves."""
    variables = dict(enumerate(combinations.variables))
    return FeatureResampling.of(
        session, sides, combinations.chosen, SQUARED_HSIC, null, variables, share=_SHARE
    )


def directions_text(sides: Mapping[int, Side]) -> str:
    """How many directions replicates are made of, where not of all features."""
    counts = [side.n_summed for side in sides.values() if side.projection is not None]
    return f"{min(counts):,} to {max(counts):,} principal features" if counts else ""


def ranked_outcome(session: Session, drawn: LandmarkFeatures, null: Resampling) -> GridOutcome:
    """The statistics, n |C|^2, of every feature and its replicates, with the estimates."""
    sides = check_pairs(session, drawn, null)
    columns = _ranked_estimates(session, drawn, sides)
    found, _, detail = pair_resampling(session, drawn.combinations, sides, null).run()
    detail = "; ".join(filter(None, (detail, directions_text(sides))))

    def estimate(g: int) -> Estimate:
        kernels = drawn.combinations.kernels_of(g)
        return Estimate(float(columns.hsic[g]), kernels, columns.landmarks)

    return GridOutcome(
        drawn.combinations,
        found.statistics,
        found.replicates,
        estimate,
        detail,
        found.rounding,
        columns,
    )


def ranked_estimates(session: Session, drawn: LandmarkFeatures) -> ColumnEstimates:
    """|C|^2 of every feature with the target, and of either with itself."""
    return _ranked_estimates(session, drawn, check_pairs(session, drawn, None))


def _ranked_estimates(
    session: Session, drawn: LandmarkFeatures, sides: Mapping[int, Side]
) -> ColumnEstimates:
    found = estimate_pairs(session, drawn.combinations, sides)
    summary = replace(drawn.summary, kept=tuple(side.n_features for side in drawn.sides[:-1]))
    own, target = (found.own[list(one)] for one in zip(*drawn.combinations.chosen, strict=True))
    return ColumnEstimates(drawn.combinations, found.hsic, own, target, summary)


def _whitened(covariances: Covariances, sides: Mapping[int, Side], pair: Pair) -> Vector:
    first, second = (sides[k].factor for k in pair)
    block: Vector = whiten(covariances.of(*pair)[None], (first, second))[0]
    return block


def _squared_norm(block: Vector) -> float:
    return float(SQUARED_HSIC.size(block[None])[0])


def _layouts(
    session: Session, combinations: Combinations, sides: Mapping[int, Side]
) -> Iterator[tuple[Sequence[Pair], Layout]]:
    """As few parts of the pairs as take a small part of the memory each, and one pair at least."""

    def layout(pairs: Sequence[Pair]) -> Layout:
        return moments_layout(sides, pairs, combinations.variables)

    def fits(pairs: Sequence[Pair]) -> bool:
        planned = session.plan(MomentsPass(layout(pairs)))
        # Other threads hold sums of their own.
        return planned.worker_bytes <= session.runtime.memory // _SHARE

    return ((pairs, layout(pairs)) for pairs in fewest_parts(combinations.chosen, fits))


def _steps(session: Session, layout: Layout) -> list[DriverStep | PassPlan]:
    """The pass over some of the pairs and the step after it."""
    widest = max(side.n_summed for _, side in layout.kernels)
    estimate = DriverStep("estimate", 8 * (4 * layout.n_products + 6 * widest**2))
    return [session.plan(MomentsPass(layout)), estimate]
