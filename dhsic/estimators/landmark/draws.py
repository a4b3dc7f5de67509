"""Landmarks of Nystrom M-HSIC: drawn, or selected from what is drawn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.gaps import filled
from dhsic.engine.plan import DriverStep
from dhsic.engine.session import Session
from dhsic.estimators.base import (
    BANDWIDTH_ROWS,
    bandwidth_rows,
    fit_combinations,
)
from dhsic.estimators.landmark.basis import LandmarkBasis, select_landmarks
from dhsic.estimators.outcomes import Estimate
from dhsic.kernels import Combinations
from dhsic.landmarks import (
    Landmarks,
    Pairing,
    Selection,
    landmark_count,
    select_bytes,
    tolerance_for,
    uniform_rows,
)
from dhsic.results import LandmarkSummary


@dataclass(frozen=True)
class LandmarkDraw:
    """Options of `NystromMHSIC`, which describes them."""

    n_landmarks: int | str
    replace: bool
    tolerance: float | None
    selection: Selection
    pool: int

    def most(self, session: Session) -> int:
        """Landmarks before pruning, at most."""
        return landmark_count(self.n_landmarks, session.n, replace=self.replace)

    def steps(self, session: Session, guessed: Combinations, held: int) -> list[DriverStep]:
        """Steps before the passes; `held` are the bytes of the factors that stay."""
        s, p = self._drawn(session), self.most(session)
        rows = 8 * sum(session.dims) * (s + BANDWIDTH_ROWS)
        fetch = 3 * rows + max(source.take_bytes for source in session.sources)
        steps = [DriverStep("fetch landmarks", fetch, rows)]
        if self.selection != "uniform":
            pairs = zip(guessed.typical(), session.dims, strict=True)
            width = sum(guessed.kernels[k].width(d) for k, d in pairs)
            steps.append(DriverStep("select landmarks", select_bytes(self.selection, s, p, width)))
        gram = 8 * p * p
        prune = DriverStep("prune landmarks", 3 * gram + max(0, held - gram), held)
        return [*steps, prune]

    def basis(
        self,
        session: Session,
        combinations: Combinations,
        pairing: Pairing,
        *,
        hold: bool,
    ) -> LandmarkBasis:
        """Draw, fetch and prune the landmarks; fit the kernels on rows fetched with them.

        Landmarks are pruned for every combination.
        """
        s = self._drawn(session)
        session.step("fetch landmarks")
        drawn = uniform_rows(
            session.seed,
            session.n,
            s,
            len(session.sources),
            pairing=pairing,
            replace=self.replace,
        )
        sampled = bandwidth_rows(session)
        # One fetch for the landmarks and the bandwidths.
        rows = session.take([np.append(z, x) for z, x in zip(drawn, sampled, strict=True)])
        fitted = fit_combinations(session, combinations, [x[s:] for x in rows])
        # No landmark is missing: one that was is made of values of others.
        rows = list(map(filled, rows))
        landmarks = Landmarks(tuple(x[:s] for x in rows), tuple(drawn))
        tolerance = tolerance_for(self.tolerance, session.dtype)
        if self.selection != "uniform":
            session.step("select landmarks")
            # Landmarks are shared, so that the kernels nearest to the median heuristic choose them
            # for all.
            kernels = tuple(fitted.kernels[k] for k in combinations.typical())
            landmarks = select_landmarks(
                self.selection, landmarks, kernels, self.most(session), pairing, session.seed
            )
        session.step("prune landmarks")
        others = [x[s:] for x in rows]
        return LandmarkBasis.of(fitted, landmarks, tolerance, hold=hold, samples=others)

    def holds(self, session: Session, count: int) -> bool:
        """Whether the factors of so many Gram matrices are held."""
        # An eighth of the memory, which passes leave free for them.
        return count == 1 or 8 * self.most(session) ** 2 * count <= session.runtime.memory // 8

    def held_bytes(self, session: Session, count: int) -> int:
        """Bytes of the factors that are held."""
        return 8 * self.most(session) ** 2 * count * self.holds(session, count)

    def estimate(
        self,
        session: Session,
        basis: LandmarkBasis,
        c: int,
        means: NDArray[np.float64],
        u: NDArray[np.float64],
        pairing: Pairing,
    ) -> Estimate:
        """Kalinke and Szabo (2023), Lemma 4.2, from kappa (M, r) and u (r,) at the landmarks."""
        session.step("estimate")
        return Estimate(
            basis.squared_hsic(c, means, u),
            basis.combinations.kernels_of(c),
            self.summary(session, basis, basis.factor(c).rank, pairing),
        )

    def summary(
        self, session: Session, basis: LandmarkBasis, kept: int | tuple[int, ...], pairing: Pairing
    ) -> LandmarkSummary:
        """Their summary in a result."""
        return LandmarkSummary(
            drawn=basis.drawn,
            kept=kept,
            pairing=pairing,
            replace=self.replace,
            tolerance=basis.tolerance,
            selection=self.selection,
            pool=None if self.selection == "uniform" else self._drawn(session),
        )

    def _drawn(self, session: Session) -> int:
        """Rows from which the landmarks are taken."""
        p = self.most(session)
        return p if self.selection == "uniform" else min(session.n, self.pool * p)
