"""Many features against one target by the features of their kernels.

The landmarks of a feature and the target are a grid: every one that the feature keeps with every
one that the target keeps. Its Gram matrix is a Kronecker product, so that what is summed over the
rows are the features of all kernels side by side times those of the target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.plan import DriverStep, Plan
from dhsic.engine.reduction import Footprint, RowBlock, add
from dhsic.engine.session import Session
from dhsic.estimators.base import FeatureEstimates, FeatureOutcome, Resampling, plan_of
from dhsic.estimators.feature_basis import SQUARED_HSIC, Basis, Side, factors_of, whiten
from dhsic.estimators.feature_replicates import Patch, replicate_steps
from dhsic.estimators.feature_shifts import resampling_steps
from dhsic.estimators.feature_sums import FeaturePair, covariances
from dhsic.estimators.feature_tests import grid_outcome, sample_step, unseen_sides
from dhsic.estimators.landmark_features import (
    REMEDY,
    LandmarkFeatures,
    landmark_steps,
    likely_counts,
    unpruned,
)
from dhsic.features import KernelFeatures, StackedFeatures, side_by_side
from dhsic.kernels import Combinations
from dhsic.nulls import Shifts

__all__ = [
    "OwnMoments",
    "OwnMomentsPass",
    "estimate_features",
    "plan_ranked_features",
    "rank_features",
]

Vector = NDArray[np.float64]

_ROWS = 1024


class OwnMoments(NamedTuple):
    """Sums over rows of products of features, with a one beside them."""

    cross: Vector
    """sum_i a_1i a_2i', shape (D_1 + 1, D_2 + 1)."""
    own: Vector
    """sum_i a_1i a_1i' of every kernel by itself, one after another, shape (sum_k D_k^2,)."""
    second: Vector
    """sum_i a_2i a_2i', shape (D_2 + 1, D_2 + 1)."""


@dataclass(frozen=True)
class OwnMomentsPass:
    """As `MomentsPass`, but of the first variable only the products within a kernel.

    Parameters
    ----------
    features : FeaturePair
        Of the two variables, the kernels of the first side by side.
    """

    features: FeaturePair
    name: str = "feature moments"
    row_multiple: int = 1

    @property
    def places(self) -> tuple[tuple[slice, slice], ...]:
        """Where the features of every kernel are, and their products."""
        first = self.features.maps[0]
        parts = first.parts if isinstance(first, StackedFeatures) else (first,)
        counts = [part.n_features for part in parts]
        return tuple(zip(side_by_side(counts), side_by_side(d * d for d in counts), strict=True))

    def footprint(self, rows: int) -> Footprint:
        """Cost of a block of so many rows."""
        f, tile = self.features, min(rows, _ROWS)
        own, second = self.places[-1][1].stop, (f.counts[1] + 1) ** 2
        doubled = tile * (sum(f.counts) + 2) + f.products + max(f.counts) ** 2
        return Footprint(
            payload=f.nbytes,
            scratch=f.scratch(tile) + 8 * doubled,
            state=8 * (f.products + own + second),
            operations=f.operations + 2.0 * (f.products + own + second),
        )

    def chunk(self, block: RowBlock) -> OwnMoments:
        """Sums over one block."""
        (d1, d2), places = self.features.counts, self.places
        own = np.zeros(places[-1][1].stop)
        sums = OwnMoments(np.zeros((d1 + 1, d2 + 1)), own, np.zeros((d2 + 1, d2 + 1)))
        for _, tiles in self.features.tiles(block.values, _ROWS):
            a1, a2 = (a.astype(np.float64, copy=False) for a in tiles)
            sums.cross[:] += a1.T @ a2
            sums.second[:] += a2.T @ a2
            for at, products in places:
                own[products] += (a1[:, at].T @ a1[:, at]).ravel()
        return sums

    def combine(self, left: OwnMoments, right: OwnMoments) -> OwnMoments:
        """Add."""
        return add(left, right)


def plan_ranked_features(
    session: Session, combinations: Combinations, null: Resampling | None, p: int
) -> Plan:
    """What would run with as many landmarks as are likely to be kept.

    Where more are kept, `rank_features` looks whether they fit before it reads the data.
    """
    guessed = combinations.guessed(session.dims)
    kept = likely_counts(session, guessed, p)
    return _plan(session, guessed, null, p, unpruned(session, guessed, kept))


def rank_features(session: Session, drawn: LandmarkFeatures, null: Resampling) -> FeatureOutcome:
    """The statistics, n |C|^2, of every feature and its replicates, with the estimates."""
    _plan(session, drawn.combinations, null, drawn.summary.drawn, drawn.maps).check()
    bases = drawn.bases()
    estimates = _estimates(session, drawn, bases)
    found = grid_outcome(session, drawn.combinations, bases, SQUARED_HSIC, null)
    return FeatureOutcome(
        estimates, found.statistics, found.replicates, found.detail, found.rounding
    )


def estimate_features(session: Session, drawn: LandmarkFeatures) -> FeatureEstimates:
    """|C|^2 of every feature with the target, and of either with itself, in one pass."""
    _plan(session, drawn.combinations, None, drawn.summary.drawn, drawn.maps).check()
    return _estimates(session, drawn, drawn.bases())


def _estimates(
    session: Session, drawn: LandmarkFeatures, bases: Sequence[Basis]
) -> FeatureEstimates:
    firsts = {c: basis.sides[0] for c, basis in enumerate(bases)}
    second = bases[0].sides[1]
    hsic, own, target = [], [], 0.0
    for patch in _patches(session, Patch(firsts, {len(firsts): second})):
        reduction = OwnMomentsPass(patch.features)
        sums = session.run(reduction)
        session.step("estimate")
        hsic += patch.sizes(SQUARED_HSIC, covariances(sums.cross[None]))[0].tolist()
        target = _own_size(second, covariances(sums.second))
        means = sums.cross[:-1, -1] / session.n
        for side, (at, products) in zip(patch.firsts.values(), reduction.places, strict=True):
            moments = sums.own[products].reshape(side.map.n_features, -1) / session.n
            own.append(_own_size(side, moments - np.outer(means[at], means[at])))
    summary = replace(drawn.summary, kept=tuple(one.n_features for one in drawn.maps[:-1]))
    return FeatureEstimates(
        drawn.combinations, np.array(hsic), np.array(own), np.full(len(own), target), summary
    )


def _own_size(side: Side, covariance: Vector) -> float:
    """Squared HSIC of a variable with itself."""
    return float(SQUARED_HSIC.size(whiten(covariance[None], factors_of(side, side)))[0])


def _patches(session: Session, whole: Patch) -> list[Patch]:
    """As many features at a time as take a small part of the memory, and one at least."""

    def fits(features: FeaturePair) -> bool:
        return session.plan(OwnMomentsPass(features)).worker_bytes <= session.runtime.memory // 8

    return list(whole.cut(fits))


def _plan(
    session: Session,
    combinations: Combinations,
    null: Resampling | None,
    p: int,
    maps: Sequence[KernelFeatures],
) -> Plan:
    """What would run with the features that the maps make."""
    steps = [*landmark_steps(session, combinations, p, maps), sample_step(maps)]
    sides = unseen_sides(maps)
    *firsts, second = sides.items()
    for patch in _patches(session, Patch(dict(firsts), dict([second]))):
        features = patch.features
        widest = max(side.map.n_features for side in (*patch.firsts.values(), second[1]))
        steps.append(session.plan(OwnMomentsPass(features)))
        steps.append(DriverStep("estimate", 8 * (4 * features.products + 6 * widest**2)))
    if isinstance(null, Shifts):
        sides = unseen_sides(maps, whitened=True)
        steps += resampling_steps(session, sides, combinations.chosen, SQUARED_HSIC, null)
    elif null is not None:
        steps += replicate_steps(session, sides, combinations.chosen, null)
    return plan_of(session, steps, REMEDY, p)
