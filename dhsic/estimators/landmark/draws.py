"""Landmarks of Nystrom M-HSIC: drawn, and grown or selected from what is drawn."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from dhsic._work import NOTHING, Work
from dhsic.engine.gaps import filled
from dhsic.engine.plan import DriverStep
from dhsic.engine.session import Session
from dhsic.estimators.base import (
    BANDWIDTH_ROWS,
    bandwidth_rows,
    factor_work,
    fit_combinations,
    fitting_work,
)
from dhsic.estimators.landmark.basis import LandmarkBasis, select_landmarks
from dhsic.estimators.outcomes import Estimate
from dhsic.kernels import Combinations, Gaussian, Kernel
from dhsic.kernels.shared import tile_work
from dhsic.landmarks import (
    FEWEST,
    Landmarks,
    Pairing,
    Selection,
    grow,
    landmark_count,
    select_bytes,
    tolerance_for,
    uniform_rows,
)
from dhsic.results import LandmarkSummary

AUTO: Final[Literal["auto"]] = "auto"
# The experiments of Kalinke and Szabo (2023), figure 3, go up to 8 sqrt(n).
MOST = "8sqrt"
# What landmarks may miss of the null's spread, in its standard deviations.
ALLOWED = 0.02

_RANKS = {1: 17, 2: 270, 3: 1000}  # of normal data in so many columns, at the median heuristic
_EASED = {"float64": 1.0, "float32": 1.8}  # by the tolerance of a precision
_PILOT_ROWS = 500
_FEWEST_PILOT_ROWS = 50


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
        asked = MOST if self.n_landmarks == AUTO else self.n_landmarks
        return landmark_count(asked, session.n, replace=self.replace)

    def likely(self, session: Session, guessed: Combinations) -> int:
        """Landmarks that are likely to be kept, as the work of a plan counts them; at most `most`.

        Products of Gaussian kernels of few columns have ranks that grow slowly with the landmarks.
        """
        p = self.most(session)
        if len(guessed) > 1:
            return p
        return _likely_rank(p, guessed.kernels, sum(session.dims), session.dtype)

    def estimate_work(self, session: Session, guessed: Combinations) -> Work:
        """Work of an estimate at the landmarks that are kept, where their factor is held."""
        r, typical = self.likely(session, guessed), guessed.typical()
        # Every variable has a Gram matrix of its own there, of which few landmarks span a line.
        ranks = (
            _likely_rank(r, [guessed.kernels[k]], d, session.dtype)
            for k, d in zip(typical, session.dims, strict=True)
        )
        grams = self._gram_work(session, guessed, [typical], r)
        return sum((factor_work(r, rank) for rank in ranks), grams)

    def _gram_work(
        self, session: Session, guessed: Combinations, chosen: Iterable[Sequence[int]], p: int
    ) -> Work:
        """Work of the Gram matrices of p landmarks, of the kernels of some combinations."""
        dims = guessed.spread(session.dims)
        tiles = (
            times * tile_work(guessed.kernels[k], np.float64, guessed.kernels[k].width(dims[k]))
            for k, times in Counter(chain.from_iterable(chosen)).items()
        )
        return p**2 * sum(tiles, NOTHING)

    def steps(
        self, session: Session, guessed: Combinations, held: int, n_factors: int = 1
    ) -> list[DriverStep]:
        """Steps before the passes; `held` are the bytes of the factors that stay."""
        s, e, p = self._drawn(session), self._pilot(session), self.most(session)
        rows = 8 * sum(session.dims) * (s + e + BANDWIDTH_ROWS)
        fetch = 3 * rows + max(source.take_bytes for source in session.sources)
        steps = [DriverStep("fetch landmarks", fetch, rows, fitting_work(session, guessed))]
        if e > 0:
            tiles = len(session.sources) + 3
            steps.append(DriverStep("grow landmarks", 8 * (3 * p * p + tiles * e * (p + e))))
        if self.selection != "uniform":
            pairs = zip(guessed.typical(), session.dims, strict=True)
            width = sum(guessed.kernels[k].width(d) for k, d in pairs)
            steps.append(DriverStep("select landmarks", select_bytes(self.selection, s, p, width)))
        gram = 8 * p * p
        grams = 1 / len(guessed) * self._gram_work(session, guessed, guessed.chosen, p)
        work = n_factors * (grams + factor_work(p, self.likely(session, guessed)))
        prune = DriverStep("prune landmarks", 3 * gram + max(0, held - gram), held, work)
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
        s, e = self._drawn(session), self._pilot(session)
        session.step("fetch landmarks")
        drawn = uniform_rows(
            session.seed,
            session.n,
            s + e,
            len(session.sources),
            pairing=pairing,
            replace=self.replace,
        )
        sampled = bandwidth_rows(session)
        # One fetch for the landmarks, the judges and the bandwidths.
        rows = session.take([np.append(z, x) for z, x in zip(drawn, sampled, strict=True)])
        fitted = fit_combinations(session, combinations, [x[s + e :] for x in rows])
        # No landmark is missing: one that was is made of values of others.
        rows = list(map(filled, rows))
        landmarks = Landmarks(tuple(x[:s] for x in rows), tuple(z[:s] for z in drawn))
        tolerance, choice = tolerance_for(self.tolerance, session.dtype), ""
        if self.n_landmarks == AUTO:
            session.step("grow landmarks")
            # Rows that no landmark was drawn from judge how many landmarks are enough.
            pilot = [x[s : s + e] for x in rows]
            landmarks, choice = _grown(fitted, landmarks, pilot, tolerance)
        if self.selection != "uniform":
            session.step("select landmarks")
            # Landmarks are shared, so that the kernels nearest to the median heuristic choose them
            # for all.
            kernels = tuple(fitted.kernels[k] for k in combinations.typical())
            landmarks = select_landmarks(
                self.selection, landmarks, kernels, self.most(session), pairing, session.seed
            )
        session.step("prune landmarks")
        others = [x[s + e :] for x in rows]
        return LandmarkBasis.of(
            fitted, landmarks, tolerance, hold=hold, choice=choice, samples=others
        )

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
            choice=basis.choice,
        )

    def _drawn(self, session: Session) -> int:
        """Rows from which the landmarks are taken."""
        p = self.most(session)
        return p if self.selection == "uniform" else min(session.n, self.pool * p)

    def _pilot(self, session: Session) -> int:
        """Rows by which the number of landmarks is chosen: some that no landmark is drawn from."""
        if self.n_landmarks != AUTO:
            return 0
        left = session.n if self.replace else session.n - self._drawn(session)
        return min(_PILOT_ROWS, left)


def _grown(
    fitted: Combinations, landmarks: Landmarks, pilot: list[NDArray[np.float64]], tolerance: float
) -> tuple[Landmarks, str]:
    """As many landmarks as the neediest combination of kernels takes, and why so many."""
    most, judges = len(landmarks), len(pilot[0])
    if judges < _FEWEST_PILOT_ROWS:
        return landmarks, f"auto takes {MOST} where only {judges} other rows are left to judge by"
    count, missed = FEWEST, 0.0
    # Each combination begins where those before it have stopped.
    for c in range(len(fitted)):
        kernels = fitted.kernels_of(c)
        grown = grow(kernels, landmarks.points, pilot, ALLOWED, tolerance, fewest=count)
        if grown.missed is None:
            return landmarks, f"auto takes {MOST} where the {judges} rows to judge by are all alike"
        count, missed = grown.count, max(missed * (grown.count == count), grown.missed)
        if missed > ALLOWED:
            break
    why = f"auto: on {judges} other rows they miss {missed:.2g} of the null's standard deviation"
    if missed > ALLOWED:
        why += f", more than {ALLOWED:g}, but are as many as it takes ({MOST})"
    elif count < most:
        why += f", at most {ALLOWED:g}"
    return landmarks.keep(np.arange(count)), why


def _likely_rank(p: int, kernels: Iterable[Kernel], columns: int, dtype: np.dtype[Any]) -> int:
    """Landmarks of p that are likely to be kept by a product of kernels of so many columns."""
    smooth = all(isinstance(kernel, Gaussian) for kernel in kernels)
    most = _RANKS.get(columns) if smooth else None
    if most is None:
        return p
    # The smaller of both, and less where they are alike.
    return round(1.0 / math.hypot(1.0 / p, _EASED[dtype.name] / most))
