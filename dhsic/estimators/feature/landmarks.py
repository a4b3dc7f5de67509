"""Nystrom features of either variable, from landmarks of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace as changed
from typing import ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dhsic.engine.gaps import filled
from dhsic.engine.plan import DriverStep, PassPlan, Plan
from dhsic.engine.session import Session
from dhsic.estimators.base import (
    BANDWIDTH_ROWS,
    Null,
    Resampling,
    bandwidth_rows,
    fit_combinations,
)
from dhsic.estimators.feature.basis import SQUARED_HSIC, Basis, Measure, Side
from dhsic.estimators.feature.moments import Covariances
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
from dhsic.features import FeatureMap, KernelFeatures, LandmarksByColumn, rows_at_quantiles
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
from dhsic.kernels.wrap import of_present
from dhsic.landmarks import (
    check_landmark_options,
    landmark_count,
    tolerance_for,
    uniform_rows,
    warn_of_rounding,
    warn_of_zeros,
)
from dhsic.linalg import pivoted_cholesky
from dhsic.results import FeatureSummary, LandmarkSummary

Vector = NDArray[np.float64]

# Landmarks of a single number: they serve as well as 256 of its rows.
_KEPT = 48
_KEPT_OF_TRENDS = 24  # of which tests take four directions or five
_ALIKE = 2.0  # factors up to it; kernels of a variable keep the same landmarks then

REMEDY = "take fewer landmarks, fewer resamples or fewer threads"


def landmarks_by_column(combinations: Combinations, dims: Sequence[int], p: int) -> list[int]:
    """Landmarks of a column, at its quantiles, for every kernel: 0 where its landmarks are rows.

    Means over columns have as many as make 2 p features, and 2 to 48 a column; rows in their place
    where that would make more than 4 p. Kernels of a single number have 48, which serve as well as
    256 of its rows, and those of trends 24.
    """
    columns = zip(combinations.kernels, _widths(combinations, dims), strict=True)
    return [
        min(_kept(kernel), max(2, 2 * p // d))
        if (isinstance(kernel, Columns) and d <= 2 * p) or (d == 1 and not kernel.nominal)
        else 0
        for kernel, d in columns
    ]


def _widths(combinations: Combinations, dims: Sequence[int]) -> list[int]:
    """Columns that every kernel sees of its variable."""
    pairs = zip(combinations.kernels, combinations.spread(dims), strict=True)
    return [len(kernel.at) if isinstance(kernel, OnColumns) else d for kernel, d in pairs]


def _likely_maps(
    session: Session,
    combinations: Combinations,
    p: int,
    by_column: Sequence[int],
    *,
    pruned: bool,
) -> list[FeatureMap]:
    """Features at p landmarks, or those that are likely to be kept, of no memory, for plans."""
    zero = session.dtype.type(0)
    maps: list[FeatureMap] = []
    widths = _widths(combinations, session.dims)
    of = (combinations.kernels, combinations.variables, combinations.factors, widths, by_column)
    for kernel, m, factor, d, count in zip(*of, strict=True):
        if count and isinstance(kernel, Columns):
            maps.append(LandmarksByColumn.likely(kernel, d, count, session.dtype))
            continue
        r = min(p, count or p)
        r = _likely_kept(kernel, d, r, factor, session.dtype) if pruned else r
        points = np.broadcast_to(zero, (r, kernel.width(session.dims[m])))
        # The widest kernels keep fewer landmarks than others, which then are no powers of them.
        maps.append(KernelFeatures(kernel, points, (m, r, factor > _ALIKE)))
    return maps


def _likely_kept(kernel: Kernel, d: int, p: int, factor: float, dtype: DTypeLike) -> int:
    """Landmarks of p that a kernel keeps: few of a single number where it is smooth."""
    kernel = kernel.kernel if isinstance(kernel, OnColumns) else kernel
    if d > 1 or isinstance(of_present(kernel), Distance | Laplacian | Matern):
        return p
    # A Gaussian kernel of a normal variable keeps 14, 24, 43 and 76 of 256 rows in float32 at 1,
    # 1/2, 1/4 and 1/8 of its length, 19, 33, 57 and 100 in float64.
    most = 14.0 if dtype == np.float32 else 19.0
    return min(p, math.ceil(most * math.pow(factor, -0.8)))


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
    return [
        DriverStep("fetch landmarks", fetch, rows),
        DriverStep("prune landmarks", 4 * 8 * p * p, held),
    ]


class KeptRows(NamedTuple):
    """Some of the rows drawn of a variable."""

    rows: Vector
    """Shape (p, d_m), which its kernels share."""
    kept: NDArray[np.intp] | slice
    """Numbers of those that are landmarks."""


class LandmarkFeatures(NamedTuple):
    """Nystrom features of every kernel, from landmarks of its own of those of its variable."""

    combinations: Combinations
    """As fitted."""
    sides: tuple[Side, ...]
    """The kernels at the kept landmarks, with lower triangular factors of their Gram matrices."""
    landmarks: tuple[KeptRows, ...]
    """Where the kept landmarks are."""
    summary: LandmarkSummary
    """Their summary in a result."""

    def part(self, numbers: Sequence[int]) -> LandmarkFeatures:
        """Those of some of the combinations."""
        used = self.combinations.used
        sides, rows = tuple(used(self.sides, numbers)), tuple(used(self.landmarks, numbers))
        return LandmarkFeatures(self.combinations.part(numbers), sides, rows, self.summary)

    @property
    def points(self) -> list[Vector]:
        """The kept landmarks, shapes (r_m, d_m)."""
        # Not held: of a thousand features each would have rows of all columns.
        return [rows[numbers] for rows, numbers in self.landmarks]

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


# The features, the lower triangular L that whitens them, their rows, and whether these hold the
# kernel.
_Kept: TypeAlias = tuple[FeatureMap, Vector, KeptRows, bool]


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
        del session
        return exact_null(2, n_resamples)  # of several variables each pair is tested by itself

    def plan(self, session: Session, combinations: Combinations, null: Null | None) -> Plan:
        """The steps that would run, with the landmarks as drawn: pruning can only make it less.

        Of a single number smooth kernels keep few, and directions are guessed from the number of
        columns: replicates take as many passes as these need, and runs by what they find.
        """
        p, guessed, maps, counts = self.expected(session, combinations, null)
        return plan_features(
            session,
            maps,
            null,
            landmark_steps(session, guessed, p, maps),
            REMEDY,
            whitened=True,
            n_landmarks=p,
            chosen=guessed.chosen,
            measure=self.measure,
            measured=self.measured,
            counts=counts,
            unbiased=self.unbiased_estimate,
        )

    def expected(
        self, session: Session, combinations: Combinations, null: Null | None
    ) -> tuple[int, Combinations, list[FeatureMap], list[int] | None]:
        """Landmarks, kernels, features and directions as far as a plan can know them."""
        p, guessed = self.n_drawn(session), combinations.guessed(session.dims)
        by_column = self.by_column(guessed, session.dims, p)
        resampled = isinstance(null, Resampling)
        # Other steps need as much memory as the landmarks that are drawn take.
        pruned = resampled or self.unbiased_estimate or combinations.features
        maps = _likely_maps(session, guessed, p, by_column, pruned=pruned)
        counts = None
        if resampled or (null and session.weights):
            of = zip(maps, guessed.factors, _widths(guessed, session.dims), strict=True)
            directions = [Directions.guessed(map_.n_features, f, d) for map_, f, d in of]
            counts = self.counts(session, guessed, directions)
        return p, guessed, maps, counts

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
        leading, dtype = fitted.kept_kernels, session.dtype
        kept = []
        of = (names, fitted.kernels, fitted.variables, landmarks, by_column)
        for k, (name, kernel, m, z, count) in enumerate(zip(*of, strict=True)):
            one: _Kept
            if count and isinstance(kernel, Columns):
                whole = KeptRows(z, slice(None))
                one = *LandmarksByColumn.of(kernel, z, count, tolerance, dtype), whole, False
            else:
                some = np.arange(len(z))
                if count:
                    # A kernel of one column of several takes whole rows, at the quantiles of it.
                    at = kernel.at[0] if isinstance(kernel, OnColumns) else 0
                    some = rows_at_quantiles(z[:, at], count)
                one = _spanning(name, kernel, m, z, some, tolerance, dtype, leads=k in leading)
            kept.append(one)
        maps, factors, held, spanned = zip(*kept, strict=True)
        sides = describe_sides(session, maps, fitted.spread(samples), factors)
        summary = LandmarkSummary(
            drawn=p,
            kept=tuple(features.n_features for features in maps),
            pairing="independent",
            replace=self.replace,
            tolerance=tolerance,
        )
        sides = [side._replace(spanned=whole) for side, whole in zip(sides, spanned, strict=True)]
        return LandmarkFeatures(fitted, tuple(sides), tuple(held), summary)


def _spanning(
    name: str,
    kernel: Kernel,
    m: int,
    drawn: Vector,
    some: NDArray[np.intp],
    tolerance: float,
    dtype: DTypeLike,
    *,
    leads: bool,
) -> _Kept:
    """Those of some of the rows drawn of variable m that span a fitted kernel at all of them."""
    rows = drawn[some]
    gram = kernel(rows)
    # Kernels beside the reference of a grid may be 0 at all rows, as a linear kernel about the
    # median of a rare flag is: the grid has more to compare.
    if leads:
        warn_of_zeros(gram, f"the kernel of variable {name!r}")
    factor = pivoted_cholesky(gram, tolerance)
    spanned = factor.rank < len(rows)
    factor = factor if spanned else factor.in_order()
    features = KernelFeatures.at(rows[factor.kept], kernel, dtype, (m, *factor.kept.tolist()))
    warn_of_rounding([name], [kernel], [features.columns], dtype)
    return features, factor.factor, KeptRows(drawn, some[factor.kept]), spanned


def _kept(kernel: Kernel) -> int:
    inner = kernel.kernel if isinstance(kernel, Ranked) else kernel
    return _KEPT_OF_TRENDS if isinstance(inner, AndersonDarling) else _KEPT


def _principal(sides: Sequence[Side]) -> FeatureSummary | None:
    """How many directions are summed, where not all are."""
    if any(side.projection is None for side in sides):
        return None
    return FeatureSummary("principal", tuple(side.n_summed for side in sides))
