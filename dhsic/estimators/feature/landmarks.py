"""Nystrom features of either variable, from landmarks of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace as changed
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.gaps import filled
from dhsic.engine.plan import Plan
from dhsic.engine.session import Session
from dhsic.estimators.base import Null, Resampling, bandwidth_rows, fit_combinations
from dhsic.estimators.feature.basis import SQUARED_HSIC, Basis, Measure, Side
from dhsic.estimators.feature.kernel_landmarks import KernelLandmarks
from dhsic.estimators.feature.likely import (
    landmark_steps,
    likely_counts,
    likely_directions,
    likely_tried,
    unpruned,
)
from dhsic.estimators.feature.moments import Covariances
from dhsic.estimators.feature.normals import NormalFeatures, features_of_normals
from dhsic.estimators.feature.principal import Directions
from dhsic.estimators.feature.tests import (
    column_outcome,
    describe_sides,
    estimate_by_moments,
    plan_features,
    unbiased_estimate,
)
from dhsic.estimators.outcomes import Estimate, Outcome
from dhsic.estimators.resample import exact_null
from dhsic.features import FeatureMap, at_quantiles
from dhsic.kernels import (
    AndersonDarling,
    Columns,
    Combinations,
    Gaussian,
    Kernel,
    Ranked,
)
from dhsic.landmarks import (
    check_landmark_options,
    landmark_count,
    tolerance_for,
    uniform_rows,
)
from dhsic.results import FeatureSummary, LandmarkSummary

Vector = NDArray[np.float64]

# Landmarks of a single number: they serve as well as 256 of its rows.
_KEPT = 48
_KEPT_OF_TRENDS = 24  # of which tests take four directions or five

REMEDY = "take fewer landmarks, fewer resamples or fewer threads"


def landmarks_by_column(combinations: Combinations, dims: Sequence[int], p: int) -> list[int]:
    """Landmarks of a column, at its quantiles, for every kernel: 0 where its landmarks are rows.

    Means over columns have as many as make 2 p features, and 2 to 48 a column; rows in their place
    where that would make more than 4 p. Kernels of a single number have 48, which serve as well as
    256 of its rows, and those of trends 24.
    """
    columns = zip(combinations.kernels, combinations.spread(dims), strict=True)
    return [
        min(_kept(kernel), max(2, 2 * p // d))
        if (isinstance(kernel, Columns) and d <= 2 * p) or (d == 1 and not kernel.nominal)
        else 0
        for kernel, d in columns
    ]


class LandmarkFeatures(NamedTuple):
    """Nystrom features of every kernel, from landmarks of its own of those of its variable."""

    combinations: Combinations
    """As fitted."""
    sides: tuple[Side, ...]
    """The kernels at the kept landmarks, with lower triangular factors of their Gram matrices."""
    points: tuple[Vector, ...]
    """The kept landmarks, shapes (r_m, d_m)."""
    summary: LandmarkSummary
    """Their summary in a result."""

    def part(self, numbers: Sequence[int]) -> LandmarkFeatures:
        """Those of some of the combinations."""
        used = self.combinations.used
        sides, points = tuple(used(self.sides, numbers)), tuple(used(self.points, numbers))
        return LandmarkFeatures(self.combinations.part(numbers), sides, points, self.summary)

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """As fitted."""
        return self.combinations.kernels

    @property
    def maps(self) -> list[FeatureMap]:
        """Those of the sides."""
        return [side.map for side in self.sides]

    @property
    def bases(self) -> list[Basis]:
        """The features of every combination of two kernels."""
        return [
            Basis(
                self.combinations.kernels_of(c),
                tuple(sides := self.combinations.of(self.sides, c)),
                changed(self.summary, kept=tuple(side.n_features for side in sides)),
                _principal(sides),
            )
            for c in range(len(self.combinations))
        ]


class OnLandmarks:
    """Options and methods of estimators on Nystrom features of two variables."""

    measure: ClassVar[Measure] = SQUARED_HSIC
    measured: ClassVar[bool] = False  # whether covariances over all rows go into the factors
    unbiased_estimate: bool = False

    n_landmarks: int | str
    replace: bool
    tolerance: float | None

    def __post_init__(self) -> None:
        check_landmark_options(self.n_landmarks, self.tolerance)

    def kernel(self, given: Kernel | None) -> Kernel:
        """Any, Gaussian where not given."""
        return given or Gaussian()

    def choose_null(self, session: Session, n_resamples: int) -> tuple[Null, str]:
        """Shifts within groups of rows."""
        return exact_null(len(session.sources), n_resamples)

    def plan(self, session: Session, combinations: Combinations, null: Null | None) -> Plan:
        """The steps that would run, with the landmarks as drawn: pruning can only make it less.

        Replicates take as many passes as fit the memory, and are counted for the landmarks that
        are likely to be kept. Principal features are those of normal variables of independent
        columns, and so are the combinations of kernels that stay in a grid.
        """
        p, given = self.n_drawn(session), combinations
        combinations = given.guessed(session.dims)
        by_column = self.by_column(combinations, session.dims, p)
        normals = self._normals(session, given, by_column, p)
        kept = self._likely_kept(session, given, null, normals, p)
        maps = unpruned(session, combinations, kept, by_column)
        chosen: Sequence[int] = range(len(combinations))
        counts = None
        if isinstance(null, Resampling) or (null and session.weights):
            chosen, counts = self._likely_features(session, combinations, maps, normals)
        return plan_features(
            session,
            maps,
            null,
            landmark_steps(session, combinations, p, maps),
            REMEDY,
            whitened=True,
            n_landmarks=p,
            chosen=[combinations.chosen[c] for c in chosen],
            measure=self.measure,
            measured=self.measured,
            counts=counts,
            spanned=[
                likely.spanned if likely else count < p
                for likely, count in zip(normals, kept, strict=True)
            ],
            unbiased=self.unbiased_estimate,
        )

    def _normals(
        self, session: Session, given: Combinations, by_column: Sequence[int], p: int
    ) -> list[NormalFeatures | None]:
        """Features of normal variables by every kernel, where directions are to be found."""
        if not self.takes_directions(session):
            return [None] * len(by_column)
        tolerance = tolerance_for(self.tolerance, session.dtype)
        return features_of_normals(given, session.dims, p, by_column, tolerance)

    def _likely_kept(
        self,
        session: Session,
        combinations: Combinations,
        null: Null | None,
        normals: Sequence[NormalFeatures | None],
        p: int,
    ) -> list[int]:
        """Landmarks of p that every kernel keeps."""
        usual = [p] * len(normals)
        if isinstance(null, Resampling) or self.unbiased_estimate:
            usual = likely_counts(session, combinations, p)
        pairs = zip(normals, usual, strict=True)
        return [len(likely.directions.variances) if likely else count for likely, count in pairs]

    def _likely_features(
        self,
        session: Session,
        combinations: Combinations,
        maps: Sequence[FeatureMap],
        normals: Sequence[NormalFeatures | None],
    ) -> tuple[list[int], list[int] | None]:
        """The combinations that are likely to be tried, and principal features of every kernel."""
        directions = likely_directions(maps, combinations.spread(session.dims), normals)
        tried = likely_tried(combinations, normals, session.n)
        some = combinations.used(range(len(maps)), tried)
        part = combinations.part(tried)
        counts = self.counts(session, part, [directions[k] for k in some])
        if counts is None:
            return tried, None
        # A kernel that is not tried has as many as take no time.
        of = dict(zip(some, counts, strict=True))
        return tried, [of.get(k, 1) for k in range(len(maps))]

    def estimate(self, session: Session, kernels: Sequence[Kernel]) -> Estimate:
        """The measure of the data, in one pass."""
        basis, covariances = self.features(session, kernels)
        if self.unbiased_estimate:
            return unbiased_estimate(session, basis)
        return estimate_by_moments(session, basis, self.measure, covariances)

    def test(self, session: Session, kernels: Sequence[Kernel], null: Null) -> Outcome:
        """The statistic, n times what is measured, and its null distribution, in a pass or two."""
        basis, covariances = self.features(session, kernels)
        return column_outcome(session, basis, self.measure, null, covariances)

    def features(
        self, session: Session, kernels: Sequence[Kernel]
    ) -> tuple[Basis, Covariances | None]:
        """Those of two variables, with their covariances where these go into the factors."""
        return self.draw(session, Combinations.single(kernels)).bases[0], None

    def takes_directions(self, session: Session) -> bool:
        """Whether tests are made of principal features."""
        del session
        return False

    def counts(
        self, session: Session, combinations: Combinations, directions: Sequence[Directions]
    ) -> list[int] | None:
        """Principal features of every kernel that replicates are made of; None for all."""
        del session, combinations, directions
        return None

    def by_column(self, combinations: Combinations, dims: Sequence[int], p: int) -> list[int]:
        """Landmarks of a column for every kernel that has them by column, 0 for the others."""
        del dims, p
        return [0] * len(combinations.kernels)

    def n_drawn(self, session: Session) -> int:
        """Landmarks of every variable before pruning."""
        return landmark_count(self.n_landmarks, session.n, replace=self.replace)

    def draw(self, session: Session, combinations: Combinations) -> LandmarkFeatures:
        """Draw and fetch the landmarks of any number of variables; fit and prune for every kernel.

        Kernels of one variable prune the same landmarks.

        Parameters
        ----------
        session : Session
            The run.
        combinations : Combinations
            Kernels, to be fitted to rows fetched with the landmarks.

        Returns
        -------
        LandmarkFeatures
        """
        p = self.n_drawn(session)
        session.step("fetch landmarks")
        m = len(session.sources)
        drawn = uniform_rows(
            session.seed, session.n, p, m, pairing="independent", replace=self.replace
        )
        sampled = bandwidth_rows(session)
        # Landmarks and the sample are read together.
        rows = session.take([np.append(z, x) for z, x in zip(drawn, sampled, strict=True)])
        fitted = fit_combinations(session, combinations, [x[p:] for x in rows])
        # No landmark is missing: one that was is made of values of others.
        rows = list(map(filled, rows))
        samples = [x[p:] for x in rows]
        session.step("prune landmarks")
        tolerance = tolerance_for(self.tolerance, session.dtype)
        names, landmarks = fitted.spread(session.names), fitted.spread([x[:p] for x in rows])
        by_column = self.by_column(fitted, session.dims, p)
        leading, of = fitted.kept_kernels, (tolerance, session.dtype)
        each = [
            KernelLandmarks.of_columns(kernel, z, count, *of)
            if count and isinstance(kernel, Columns)
            else KernelLandmarks.of_rows(
                name, kernel, m, at_quantiles(z, count) if count else z, *of, leads=k in leading
            )
            for k, (name, kernel, m, z, count) in enumerate(
                zip(names, fitted.kernels, fitted.variables, landmarks, by_column, strict=True)
            )
        ]
        sides = [
            side._replace(spanned=kept.spanned)
            for side, kept in zip(
                describe_sides(
                    session,
                    [kept.map for kept in each],
                    fitted.spread(samples),
                    [kept.factor for kept in each],
                ),
                each,
                strict=True,
            )
        ]
        summary = LandmarkSummary(
            drawn=p,
            kept=tuple(kept.map.n_features for kept in each),
            pairing="independent",
            replace=self.replace,
            tolerance=tolerance,
        )
        return LandmarkFeatures(fitted, tuple(sides), tuple(kept.points for kept in each), summary)


def _kept(kernel: Kernel) -> int:
    inner = kernel.kernel if isinstance(kernel, Ranked) else kernel
    return _KEPT_OF_TRENDS if isinstance(inner, AndersonDarling) else _KEPT


def _principal(sides: Sequence[Side]) -> FeatureSummary | None:
    """How many directions are summed, where not all are."""
    if any(side.projection is None for side in sides):
        return None
    return FeatureSummary("principal", tuple(side.n_summed for side in sides))
