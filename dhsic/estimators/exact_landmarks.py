"""Exact tests at landmarks: by shifts of rows, and by chains of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.plan import DriverStep, PassPlan, Plan
from dhsic.engine.session import Session
from dhsic.estimators.base import ChainOutcome, ChainStage, Estimate, GridOutcome, plan_of
from dhsic.estimators.landmark_basis import LandmarkBasis
from dhsic.estimators.landmark_draws import LandmarkDraw
from dhsic.estimators.resample import TwoSided, chain_of, orbit_of
from dhsic.estimators.tuple_statistics import ResampledTuples, plan_tuples, resample_tuples
from dhsic.estimators.tuples import Tuples
from dhsic.kernels import Combinations
from dhsic.landmarks import Pairing
from dhsic.nulls import Chain, Shifts

__all__ = ["REMEDY", "ExactLandmarkTests", "planned"]

Vector = NDArray[np.float64]

REMEDY = "take fewer landmarks, fewer kernels ('gaussian' is one), resamples or threads"


@dataclass(frozen=True)
class ExactLandmarkTests:
    """Statistics T = n |L^-1 u|^2 at landmarks, under all permutations of an orbit, in one pass.

    Parameters
    ----------
    draw : LandmarkDraw
        Of the landmarks.
    pairing : {"independent", "joint"}
        As they are drawn.
    """

    draw: LandmarkDraw
    pairing: Pairing

    def grid(self, session: Session, combinations: Combinations, null: Shifts) -> GridOutcome:
        """T of every combination; of three variables or more all but the first are permuted."""
        basis, found = self.statistics(session, combinations, null)
        statistics, replicates, rounding = found.resampled

        def estimate(c: int) -> Estimate:
            return self.estimate(session, basis, c, basis.means(c, found.kappa), found.u[c])

        detail = orbit_of(session, null).detail
        return GridOutcome(basis.combinations, statistics, replicates, estimate, detail, rounding)

    def chain(self, session: Session, combinations: Combinations, null: Chain) -> ChainOutcome:
        """T of every stage of a chain of tests."""
        basis, found = self.statistics(session, combinations, null)
        stages = chain_of(combinations.chosen)
        pairs = [pair for stage in stages for pair in stage]
        whole = ChainStage(tuple(pairs), found.resampled)
        ends = accumulate(map(len, stages), initial=0)

        def estimate(c: int) -> Estimate:
            *others, last = combinations.chosen[c]
            at = pairs.index(TwoSided(tuple(others), last))
            return self.estimate(session, basis, at, basis.means(at, found.kappa), found.u[at])

        return ChainOutcome(
            replace(basis.combinations, chosen=combinations.chosen),
            tuple(whole.part(range(*both)) for both in pairwise(ends)),
            estimate,
            orbit_of(session, null).detail,
        )

    def statistics(
        self, session: Session, combinations: Combinations, null: Shifts | Chain
    ) -> tuple[LandmarkBasis, ResampledTuples]:
        """All of them, with the landmarks at which they are."""
        pairs = _pairs(combinations, null)
        basis = self.draw.basis(
            session,
            combinations,
            self.pairing,
            hold=self.draw.holds(session, len(pairs)),
            chosen=[(*pair.left, pair.right) for pair in pairs],
        )
        basis.warn_of_rounding(session)
        tuples = Tuples.at(basis, pairs, session.dtype)
        whiten = [partial(basis.whiten, c) for c in range(len(pairs))]
        orbit, joint = orbit_of(session, null), isinstance(null, Shifts)
        return basis, resample_tuples(session, tuples, whiten, orbit, joint=joint)

    def plan(self, session: Session, combinations: Combinations, null: Shifts | Chain) -> Plan:
        """What would run, with the landmarks as drawn: pruning can only make it less."""
        p, guessed = self.draw.most(session), combinations.guessed(session.dims)
        pairs = _pairs(combinations, null)
        tuples = Tuples.unseen(guessed, session.dims, p, pairs, session.dtype)
        orbit, joint = orbit_of(session, null), isinstance(null, Shifts)
        first = self.draw.steps(session, guessed, self.draw.held_bytes(session, len(pairs)))
        return planned(session, [*first, *plan_tuples(session, tuples, orbit, joint=joint)], p)

    def estimate(
        self, session: Session, basis: LandmarkBasis, c: int, means: Vector, u: Vector
    ) -> Estimate:
        """At the landmarks of a test."""
        return self.draw.estimate(session, basis, c, means, u, self.pairing)


def _pairs(combinations: Combinations, null: Shifts | Chain) -> list[TwoSided]:
    """The last variable against all others, or the stages of a chain."""
    if isinstance(null, Chain):
        return [pair for stage in chain_of(combinations.chosen) for pair in stage]
    return [TwoSided(one[:-1], one[-1]) for one in combinations.chosen]


def planned(session: Session, steps: Sequence[DriverStep | PassPlan], p: int) -> Plan:
    """The plan of a test at p landmarks, with the estimate in the end."""
    last = DriverStep("estimate", 3 * 8 * p * p)
    return plan_of(session, [*steps, last], REMEDY, n_landmarks=p)
