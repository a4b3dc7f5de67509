"""Tests at landmark tuples: what `NystromMHSIC` runs and plans for every null distribution."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.plan import DriverStep, Plan
from dhsic.engine.session import Session
from dhsic.estimators.approximate import guard_landmarks
from dhsic.estimators.base import Null, Resampling, plan_of
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
from dhsic.estimators.landmark.tuples import Tuples
from dhsic.estimators.outcomes import (
    ColumnEstimates,
    ColumnOutcome,
    Estimate,
    GridOutcome,
    Outcome,
)
from dhsic.estimators.resample import Resampled, TwoSided
from dhsic.kernels import Combinations
from dhsic.landmarks import Pairing
from dhsic.nulls import Gamma, Spectral

Vector = NDArray[np.float64]

_REMEDY = "take fewer landmarks, fewer kernels ('gaussian' is one), features, resamples or threads"


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
        (basis, *_), resampled, moments, detail = self._resampled(session, combinations, null)

        def estimate(c: int) -> Estimate:
            # Estimates at the landmarks of the test: none of them is drawn twice.
            return self.estimate(session, basis, c, moments)

        return GridOutcome(
            basis.combinations,
            resampled.statistics,
            resampled.replicates,
            estimate,
            detail,
            resampled.rounding,
        )

    def each(
        self, session: Session, combinations: Combinations, null: Gamma | Spectral
    ) -> list[Outcome]:
        """The outcome of every combination by itself."""
        basis, tuples, whiten = self.prepare(session, combinations, null)
        note = guard_landmarks(session, basis.combinations, basis.samples, null)
        tested, moments = fit_tuples(session, tuples, whiten, null)
        return [
            Outcome(*statistic, self.estimate(session, basis, c, moments), note)
            for c, statistic in enumerate(tested)
        ]

    def features(
        self, session: Session, combinations: Combinations, null: Resampling
    ) -> ColumnOutcome:
        """T of every feature with the target and its replicates."""
        (basis, *_), resampled, moments, detail = self._resampled(session, combinations, null)
        estimates = self._features(session, basis, moments)
        return ColumnOutcome(
            estimates, resampled.statistics, resampled.replicates, detail, resampled.rounding
        )

    def measure(
        self, session: Session, combinations: Combinations
    ) -> tuple[LandmarkBasis, Moments]:
        """The landmarks, and what the data say at them, in one pass."""
        basis, tuples, _ = self.prepare(session, combinations)
        return basis, measure_tuples(session, tuples)

    def measured_features(self, session: Session, combinations: Combinations) -> ColumnEstimates:
        """The estimates of all features, in one pass."""
        return self._features(session, *self.measure(session, combinations))

    def estimate(
        self, session: Session, basis: LandmarkBasis, c: int, moments: Moments
    ) -> Estimate:
        """The estimate of a combination, at the landmarks of a test."""
        # kappa, the means of the kernels at the landmarks: Kalinke and Szabo (2023), lemma 4.2.
        means = basis.means(c, moments.kappa)
        return self.draw.estimate(session, basis, c, means, moments.u[c], self.pairing)

    def _features(
        self, session: Session, basis: LandmarkBasis, moments: Moments
    ) -> ColumnEstimates:
        session.step("estimate")
        measures = measure_features(basis, moments)
        kept = tuple(map(len, basis.kept))
        summary = self.draw.summary(session, basis, kept, self.pairing)
        return ColumnEstimates(basis.combinations, *measures, summary)

    def plan(self, session: Session, combinations: Combinations, null: Null | None) -> Plan:
        """The steps that would run, with the landmarks as drawn: pruning makes none larger."""
        assert null is None or isinstance(null, TupleNull)
        p, guessed = self.draw.most(session), combinations.guessed(session.dims)
        pairs = list(map(TwoSided.of, combinations.chosen))
        # Shapes of the largest tuples, which take no memory.
        tuples = Tuples.unseen(guessed, session.dims, p, pairs, session.dtype)
        first = self.draw.steps(session, guessed, self.draw.held_bytes(session, len(pairs)))
        estimates = len(combinations) if isinstance(null, Gamma | Spectral) else 1
        # One solve a combination with a law of its own; replicates share the first.
        last = [DriverStep("estimate", 3 * 8 * p * p)] * estimates
        passes = plan_tuples(session, tuples, null)
        steps = [*first, *passes, *last]
        return plan_of(session, steps, _REMEDY, n_landmarks=p)

    def _resampled(
        self, session: Session, combinations: Combinations, null: Resampling
    ) -> tuple[Prepared, Resampled, Moments, str]:
        """The landmarks, T of every statistic with its replicates, and how these were made."""
        prepared = self.prepare(session, combinations, null)
        _, tuples, whiten = prepared
        return prepared, *resample_tuples(session, tuples, whiten, null)

    def prepare(
        self, session: Session, combinations: Combinations, null: Null | None = None
    ) -> Prepared:
        """Landmarks, and the statistics of a test or of estimates at them."""
        pairs = list(map(TwoSided.of, combinations.chosen))
        basis = self.draw.basis(
            session,
            combinations,
            self.pairing,
            hold=self.draw.holds(session, len(pairs)),
        )
        basis.warn_of_rounding(session)
        tuples = Tuples.at(basis, pairs, session.dtype)
        return Prepared(basis, tuples, [partial(basis.whiten, c) for c in range(len(pairs))])
