"""Nystrom HSIC: landmarks of their own for either variable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

from dhsic.engine.plan import Plan
from dhsic.engine.session import Session
from dhsic.estimators.base import (
    Estimate,
    FeatureEstimates,
    FeatureOutcome,
    GridOutcome,
    Null,
    Outcome,
    Resampling,
)
from dhsic.estimators.feature_basis import SQUARED_HSIC, Basis
from dhsic.estimators.feature_sums import MomentsPass
from dhsic.estimators.feature_tests import (
    estimate_by_moments,
    feature_outcome,
    grid_outcome,
)
from dhsic.estimators.landmark_features import (
    LandmarkFeatures,
    draw_landmarks_of_each,
    plan_landmark_features,
)
from dhsic.estimators.ranked_features import (
    estimate_features,
    plan_ranked_features,
    rank_features,
)
from dhsic.estimators.resample import exact_null
from dhsic.kernels import Combinations, Gaussian, Kernel
from dhsic.landmarks import check_landmark_options, landmark_count

__all__ = ["NystromHSIC"]


@final
@dataclass(frozen=True)
class NystromHSIC:
    """Nystrom HSIC of Zhang et al. (2018), for two variables.

    With L_m the Cholesky factor of the Gram matrix of the landmarks of variable m, its features
    are phi_m(x) = L_m^-1 k_m(z_m, x), and HSIC is the squared norm of their cross-covariance C.
    The test statistic is n |C|^2 ([1] equation 31). Landmarks are drawn independently for either
    variable, so that they know nothing of the pairing.

    For more than two variables the cross-covariance becomes a tensor with as many entries as the
    product of the numbers of landmarks. Its values at landmark tuples alone are what
    `NystromMHSIC` works with: take that.

    Parameters
    ----------
    n_landmarks : int or str, optional
        Landmarks to draw for either variable: a number, or a multiple of sqrt(n) as "2sqrt".
    replace : bool, optional
        Draw landmarks with replacement.
    tolerance : float, optional
        A landmark is dropped where its squared distance to the span of the others, relative to
        the largest, is below it. The default follows the precision: 1e-8 for float64 features,
        1e-4 for float32.

    References
    ----------
    .. [1] Q. Zhang, S. Filippi, A. Gretton, D. Sejdinovic. Large-scale kernel methods for
       independence testing. Statistics and Computing 28, 2018, section 4.1.

    Examples
    --------
    >>> NystromHSIC(n_landmarks=200)
    NystromHSIC(n_landmarks=200, replace=False, tolerance=None)
    """

    n_landmarks: int | str = "2sqrt"
    replace: bool = False
    tolerance: float | None = None

    name: ClassVar[str] = "nystrom-hsic"

    def __post_init__(self) -> None:
        check_landmark_options(self.n_landmarks, self.tolerance)

    def kernel(self, given: Kernel | None) -> Kernel:
        """Any, Gaussian where not given."""
        return given or Gaussian()

    def choose_null(self, session: Session, n_resamples: int) -> tuple[Null, str]:
        """Shifts within groups of rows."""
        return exact_null(len(session.sources), n_resamples)

    def plan(self, session: Session, kernels: Sequence[Kernel], null: Null | None) -> Plan:
        """What would run, with the landmarks as drawn: pruning can only make it less."""
        return self._plan(session, Combinations.single(kernels), null)

    def plan_grid(self, session: Session, combinations: Combinations, null: Resampling) -> Plan:
        """What a test of several combinations would run, with the landmarks as drawn."""
        return self._plan(session, combinations, null)

    def plan_features(
        self, session: Session, combinations: Combinations, null: Resampling | None
    ) -> Plan:
        """What a test of many features, or estimates where `null` is None, would run."""
        return plan_ranked_features(session, combinations, null, self._count(session))

    def estimate(self, session: Session, kernels: Sequence[Kernel]) -> Estimate:
        """|C|^2, in one pass."""
        basis = self._basis(session, kernels)
        return estimate_by_moments(basis, SQUARED_HSIC, session.run(MomentsPass(basis.features)))

    def test(self, session: Session, kernels: Sequence[Kernel], null: Null) -> Outcome:
        """The statistic, n |C|^2, and its null distribution, in one pass."""
        return feature_outcome(session, self._basis(session, kernels), SQUARED_HSIC, null)

    def test_grid(
        self, session: Session, combinations: Combinations, null: Resampling
    ) -> GridOutcome:
        """The statistics of several combinations and their replicates."""
        drawn = self._drawn(session, combinations)
        return grid_outcome(session, drawn.combinations, drawn.bases(), SQUARED_HSIC, null)

    def test_features(
        self, session: Session, combinations: Combinations, null: Resampling
    ) -> FeatureOutcome:
        """The statistics of many features and their replicates."""
        return rank_features(session, self._drawn(session, combinations), null)

    def estimate_features(self, session: Session, combinations: Combinations) -> FeatureEstimates:
        """The estimates of all features, in one pass."""
        return estimate_features(session, self._drawn(session, combinations))

    def _basis(self, session: Session, kernels: Sequence[Kernel]) -> Basis:
        (basis,) = self._drawn(session, Combinations.single(kernels)).bases()
        return basis

    def _drawn(self, session: Session, combinations: Combinations) -> LandmarkFeatures:
        return draw_landmarks_of_each(
            session,
            combinations,
            self.n_landmarks,
            replace=self.replace,
            tolerance=self.tolerance,
        )

    def _plan(self, session: Session, combinations: Combinations, null: Null | None) -> Plan:
        return plan_landmark_features(
            session, combinations, null, self.n_landmarks, replace=self.replace
        )

    def _count(self, session: Session) -> int:
        return landmark_count(self.n_landmarks, session.n, replace=self.replace)
