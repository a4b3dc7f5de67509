"""Nystrom HSIC: landmarks of their own for either variable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from dhsic.engine.plan import Plan
from dhsic.engine.session import Session
from dhsic.estimators.base import FeatureEstimates, FeatureOutcome, GridOutcome, Null, Resampling
from dhsic.estimators.feature.landmarks import OnLandmarks
from dhsic.estimators.feature.ranking import (
    estimate_features,
    plan_ranked_features,
    rank_features,
)
from dhsic.estimators.feature.tests import grid_outcome
from dhsic.kernels import Combinations

__all__ = ["NystromHSIC"]


@final
@dataclass(frozen=True)
class NystromHSIC(OnLandmarks):
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

    def plan(self, session: Session, combinations: Combinations, null: Null | None) -> Plan:
        """The steps that would run; of features those of their estimates besides."""
        if not combinations.features:
            return super().plan(session, combinations, null)
        assert null is None or isinstance(null, Resampling)
        return plan_ranked_features(session, combinations, null, self.n_drawn(session))

    def test_grid(
        self, session: Session, combinations: Combinations, null: Resampling
    ) -> GridOutcome:
        """The statistics of several combinations and their replicates."""
        drawn = self.draw(session, combinations)
        return grid_outcome(session, drawn.combinations, drawn.bases, self.measure, null)

    def test_features(
        self, session: Session, combinations: Combinations, null: Resampling
    ) -> FeatureOutcome:
        """The statistics of many features and their replicates."""
        return rank_features(session, self.draw(session, combinations), null)

    def estimate_features(self, session: Session, combinations: Combinations) -> FeatureEstimates:
        """The estimates of all features, in one pass."""
        return estimate_features(session, self.draw(session, combinations))
