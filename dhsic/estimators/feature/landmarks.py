"""Nystrom features of either variable, from landmarks of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace as changed
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic._work import NOTHING, Work
from dhsic.engine.gaps import filled
from dhsic.engine.plan import DriverStep, PassPlan, Plan
from dhsic.engine.session import Session
from dhsic.estimators.base import (
    BANDWIDTH_ROWS,
    Estimate,
    Null,
    Outcome,
    Resampling,
    bandwidth_rows,
    factor_work,
    fit_combinations,
    fitting_work,
)
from dhsic.estimators.feature.basis import SQUARED_HSIC, Basis, Measure, Side
from dhsic.estimators.feature.kernel_landmarks import KernelLandmarks
from dhsic.estimators.feature.moments import Covariances
from dhsic.estimators.feature.principal import Directions, directions_of_normals
from dhsic.estimators.feature.tests import (
    column_outcome,
    describe_sides,
    estimate_by_moments,
    plan_features,
    unbiased_estimate,
)
from dhsic.estimators.resample import exact_null
from dhsic.features import FeatureMap, KernelFeatures, LandmarksByColumn, at_quantiles
from dhsic.kernels import (
    AndersonDarling,
    Columns,
    Combinations,
    Distance,
    Gaussian,
    Kernel,
    Laplacian,
    Matern,
    OnColumns,
    Ranked,
)
from dhsic.kernels.missing import of_present
from dhsic.landmarks import (
    check_landmark_options,
    landmark_count,
    tolerance_for,
    uniform_rows,
)
from dhsic.results import FeatureSummary, LandmarkSummary

__all__ = [
    "REMEDY",
    "LandmarkFeatures",
    "OnLandmarks",
    "landmark_steps",
    "landmarks_by_column",
    "likely_counts",
    "unpruned",
]

Vector = NDArray[np.float64]

# Landmarks of a single number: they serve as well as 256 of its rows.
_KEPT = 48
# Smooth kernels of one column keep 10 to 20.
_SMOOTH = 24
_KEPT_OF_TRENDS = 24  # of which tests take four directions or five
_ALIKE = 2.0  # factors up to it; kernels of a variable keep the same landmarks then
_COMBINED = 1200.0  # small functions that are called to plan for a combination

REMEDY = "take fewer landmarks, fewer resamples or fewer threads"


def unpruned(
    session: Session,
    combinations: Combinations,
    kept: Sequence[int],
    by_column: Sequence[int] | None = None,
) -> list[FeatureMap]:
    """Features that cost what those of so many landmarks a kernel or a column do, for plans."""
    zero = session.dtype.type(0)
    dims = combinations.spread(session.dims)
    of = (combinations.kernels, combinations.variables, combinations.factors, dims, kept)
    # The widest kernels keep fewer landmarks than others, which then are no powers of them.
    maps: list[FeatureMap] = [
        KernelFeatures(kernel, np.broadcast_to(zero, (r, kernel.width(d))), (m, r, factor > _ALIKE))
        for kernel, m, factor, d, r in zip(*of, strict=True)
    ]
    for k, count in enumerate(by_column or ()):
        kernel = combinations.kernels[k]
        if count and isinstance(kernel, Columns):
            maps[k] = LandmarksByColumn.likely(kernel, dims[k], count, session.dtype)
        elif count:
            points = np.broadcast_to(zero, (min(count, kept[k]), kernel.width(1)))
            maps[k] = KernelFeatures(kernel, points, (combinations.variables[k], len(points)))
    return maps


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


def likely_counts(session: Session, combinations: Combinations, p: int) -> list[int]:
    """Landmarks of p that every kernel is likely to keep: 24 where one column is smooth, or all.

    Smooth kernels of one column keep 10 to 20, narrower ones twice as many or more; those with a
    corner at 0 keep all.
    """
    dims = combinations.spread(session.dims)
    kernels = zip(combinations.kernels, dims, combinations.factors, strict=True)
    return [_likely(kernel, d, p, factor) for kernel, d, factor in kernels]


def landmark_steps(
    session: Session, combinations: Combinations, p: int, maps: Sequence[FeatureMap]
) -> list[DriverStep | PassPlan]:
    """Drawing p landmarks, of which those of the maps are kept."""
    rows = 8 * sum(session.dims) * (p + BANDWIDTH_ROWS)
    fetch = 3 * rows + max(source.take_bytes for source in session.sources)
    held = 8 * sum(
        features.n_features * (features.n_features + d)
        for features, d in zip(maps, combinations.spread(session.dims), strict=True)
    )
    fitting = fitting_work(session, combinations.kernels)
    fitting += Work.of(calls=_COMBINED * (len(combinations) - 1))
    grams = (_gram_rows(features, p) * features.work for features in maps)
    work = sum((factor_work(p, features.n_features) for features in maps), sum(grams, NOTHING))
    return [
        DriverStep("fetch landmarks", fetch, rows, fitting),
        DriverStep("prune landmarks", 4 * 8 * p * p, held, work),
    ]


def _gram_rows(features: FeatureMap, p: int) -> float:
    """Rows whose features cost what the Gram matrix of p landmarks does, or one of each column."""
    if isinstance(features, LandmarksByColumn):
        return max(map(len, features.landmarks))
    return p * p / features.n_features


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
        are likely to be kept: of a single number those that are kept of a normal variable.
        """
        p, given = self.n_drawn(session), combinations
        combinations = given.guessed(session.dims)
        kept, counts = [p] * len(combinations.kernels), None
        if isinstance(null, Resampling) or self.unbiased_estimate:
            kept = likely_counts(session, combinations, p)
        by_column = self.by_column(combinations, session.dims, p)
        normal = [
            directions_of_normals(kernel, factor, min(count, p))
            if count and not isinstance(kernel, Columns)
            else None
            for kernel, factor, count in zip(given.kernels, given.factors, by_column, strict=True)
        ]
        kept = [len(d.variances) if d else r for d, r in zip(normal, kept, strict=True)]
        maps = unpruned(session, combinations, kept, by_column)
        if isinstance(null, Resampling) or (null and session.weights):
            each = zip(normal, maps, combinations.spread(session.dims), strict=True)
            directions = [known or _guessed_directions(features, d) for known, features, d in each]
            counts = self.counts(session, combinations, directions)
        return plan_features(
            session,
            maps,
            null,
            landmark_steps(session, combinations, p, maps),
            REMEDY,
            whitened=True,
            n_landmarks=p,
            chosen=combinations.chosen,
            measure=self.measure,
            measured=self.measured,
            counts=counts,
            spanned=[count < p for count in kept],
            unbiased=self.unbiased_estimate,
        )

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
        leading, of = fitted.chosen[fitted.reference()], (tolerance, session.dtype)
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


def _guessed_directions(features: FeatureMap, d: int) -> Directions:
    """Those of a mean over columns are alike; of other kernels those of the columns weigh most."""
    heavy = None if d == 1 or isinstance(features, LandmarksByColumn) else d
    return Directions.guessed(features.n_features, heavy)


def _likely(kernel: Kernel, d: int, p: int, factor: float) -> int:
    if isinstance(kernel, OnColumns):
        d, kernel = len(kernel.at), kernel.kernel
    kernel = of_present(kernel)
    if d > 1 or isinstance(kernel, Distance | Laplacian | Matern):
        return p
    return min(p, _SMOOTH if factor >= 1.0 else _KEPT)


def _principal(sides: Sequence[Side]) -> FeatureSummary | None:
    """How many directions are summed, where not all are."""
    if any(side.projection is None for side in sides):
        return None
    return FeatureSummary("principal", tuple(side.n_summed for side in sides))
