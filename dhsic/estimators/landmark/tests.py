"""Tests at landmark tuples: what `NystromMHSIC` runs and plans for every null distribution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.plan import DriverStep, Plan
from dhsic.engine.session import Session
from dhsic.estimators.approximate import guard_landmarks
from dhsic.estimators.base import (
    ChainOutcome,
    Estimate,
    FeatureEstimates,
    FeatureOutcome,
    GridOutcome,
    Null,
    Outcome,
    Resampling,
    plan_of,
    stages_of,
)
from dhsic.estimators.landmark.basis import LandmarkBasis
from dhsic.estimators.landmark.draws import LandmarkDraw
from dhsic.estimators.landmark.measures import measure_features
from dhsic.estimators.landmark.moments import Moments
from dhsic.estimators.landmark.statistics import (
    TupleNull,
    fit_tuples,
    measure_tuples,
    plan_tuples,
    resample_tuples,
)
from dhsic.estimators.landmark.tuples import Form, Tuples
from dhsic.estimators.resample import TwoSided, chain_of
from dhsic.kernels import Combinations
from dhsic.landmarks import Pairing
from dhsic.nulls import Chain, Gamma, Spectral

__all__ = ["LandmarkTests", "Prepared"]

Vector = NDArray[np.float64]

_REMEDY = "take fewer landmarks, fewer kernels ('gaussian' is one), resamples or threads"


class Prepared(NamedTuple):
    """The landmarks and the statistics at them."""

    basis: LandmarkBasis
    tuples: Tuples
    whiten: list[partial[Vector]]


@dataclass(frozen=True)
class LandmarkTests:
    """Statistics T = n |L^-1 u|^2 at landmarks, and estimates.

    Parameters
    ----------
    draw : LandmarkDraw
        The draw of the landmarks.
    pairing : {"independent", "joint"}
        As they are drawn.
    """

    draw: LandmarkDraw
    pairing: Pairing

    def grid(self, session: Session, combinations: Combinations, null: Resampling) -> GridOutcome:
        """T of every combination and its replicates."""
        basis, tuples, whiten = self.prepare(session, combinations)
        note = guard_landmarks(session, basis.combinations, basis.samples, null)
        (statistics, replicates, rounding), moments, detail = resample_tuples(
            session, tuples, whiten, null
        )

        def estimate(c: int) -> Estimate:
            return self.estimate(session, basis, c, moments)

        return GridOutcome(
            basis.combinations, statistics, replicates, estimate, note or detail, rounding
        )

    def chain(self, session: Session, combinations: Combinations, null: Chain) -> ChainOutcome:
        """T of every stage of a chain of tests."""
        pairs = [pair for stage in chain_of(combinations.chosen) for pair in stage]
        basis, tuples, whiten = self.prepare(session, combinations, pairs)
        resampled, moments, detail = resample_tuples(session, tuples, whiten, null)

        def estimate(c: int) -> Estimate:
            *others, last = combinations.chosen[c]
            return self.estimate(
                session, basis, pairs.index(TwoSided(tuple(others), last)), moments
            )

        return ChainOutcome(
            replace(basis.combinations, chosen=combinations.chosen),
            stages_of(combinations.chosen, resampled),
            estimate,
            detail,
        )

    def each(
        self, session: Session, combinations: Combinations, null: Gamma | Spectral
    ) -> list[Outcome]:
        """The outcome of every combination by itself."""
        basis, tuples, whiten = self.prepare(session, combinations)
        note = guard_landmarks(session, basis.combinations, basis.samples, null)
        tested, moments = fit_tuples(session, tuples, whiten, null)
        return [
            Outcome(*one, self.estimate(session, basis, c, moments), note)
            for c, one in enumerate(tested)
        ]

    def features(
        self, session: Session, combinations: Combinations, null: Resampling
    ) -> FeatureOutcome:
        """T of every feature with the target and its replicates."""
        basis, tuples, whiten = self.prepare(session, combinations)
        note = guard_landmarks(session, basis.combinations, basis.samples, null)
        (statistics, replicates, rounding), moments, detail = resample_tuples(
            session, tuples, whiten, null
        )
        estimates = self._features(session, basis, moments)
        return FeatureOutcome(estimates, statistics, replicates, note or detail, rounding)

    def measure(
        self, session: Session, combinations: Combinations
    ) -> tuple[LandmarkBasis, Moments]:
        """The landmarks, and what the data say at them, in one pass."""
        basis, tuples, _ = self.prepare(session, combinations)
        return basis, measure_tuples(session, tuples)

    def measured_features(self, session: Session, combinations: Combinations) -> FeatureEstimates:
        """The estimates of all features, in one pass."""
        return self._features(session, *self.measure(session, combinations))

    def estimate(
        self, session: Session, basis: LandmarkBasis, c: int, moments: Moments
    ) -> Estimate:
        """The estimate of a combination, at the landmarks of a test."""
        means = basis.means(c, moments.kappa)
        return self.draw.estimate(session, basis, c, means, moments.u[c], self.pairing)

    def _features(
        self, session: Session, basis: LandmarkBasis, moments: Moments
    ) -> FeatureEstimates:
        session.step("estimate")
        measures = measure_features(basis, moments)
        kept = tuple(map(len, basis.kept))
        summary = self.draw.summary(session, basis, kept, self.pairing)
        return FeatureEstimates(basis.combinations, *measures, summary)

    def plan(
        self,
        session: Session,
        combinations: Combinations,
        null: Null | None,
        remedy: str = _REMEDY,
    ) -> Plan:
        """The steps that would run, with the landmarks as drawn: pruning makes none larger."""
        assert null is None or isinstance(null, TupleNull)
        p, guessed = self.draw.most(session), combinations.guessed(session.dims)
        pairs = _pairs(combinations)
        if isinstance(null, Chain):
            pairs = [pair for stage in chain_of(combinations.chosen) for pair in stage]
        form: Form = "product" if isinstance(null, Chain) else "joint"
        tuples = Tuples.unseen(guessed, session.dims, p, pairs, session.dtype, form)
        first = self.draw.steps(session, guessed, self.draw.held_bytes(session, len(pairs)))
        last = DriverStep("estimate", 3 * 8 * p * p)
        steps = [*first, *plan_tuples(session, tuples, null), last]
        return plan_of(session, steps, remedy, n_landmarks=p)

    def prepare(
        self,
        session: Session,
        combinations: Combinations,
        pairs: Sequence[TwoSided] | None = None,
    ) -> Prepared:
        """Landmarks, and at them the combinations as joint statistics, or others of them."""
        own = pairs or _pairs(combinations)
        basis = self.draw.basis(
            session,
            combinations,
            self.pairing,
            hold=self.draw.holds(session, len(own)),
            chosen=[(*pair.left, pair.right) for pair in own],
        )
        basis.warn_of_rounding(session)
        tuples = Tuples.at(basis, own, session.dtype, "product" if pairs else "joint")
        return Prepared(basis, tuples, [partial(basis.whiten, c) for c in range(len(own))])


def _pairs(combinations: Combinations) -> list[TwoSided]:
    """The last variable against all others."""
    return [TwoSided(one[:-1], one[-1]) for one in combinations.chosen]
