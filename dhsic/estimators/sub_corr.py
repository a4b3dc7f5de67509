"""The mean squared correlation of columns: a linear baseline."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.plan import Plan
from dhsic.engine.session import Session
from dhsic.errors import InvalidArgumentError
from dhsic.estimators.base import Estimator, Null, fit_combinations_on_sample, fitting_step
from dhsic.estimators.outcomes import Estimate, Outcome
from dhsic.estimators.tests import (
    column_outcome,
    describe_sides,
    estimate_by_moments,
    plan_features,
)
from dhsic.features import ColumnFeatures
from dhsic.kernels import Combinations, Kernel, Linear
from dhsic.results import FeatureSummary
from dhsic.statistics.moments import Covariances, feature_moments, moments_layout
from dhsic.statistics.orbit import exact_null
from dhsic.statistics.sides import Basis, Measure, squared_frobenius_norms

Vector = NDArray[np.float64]

_REMEDY = "take fewer resamples or fewer threads"
_MEASURE = Measure("mean squared correlation", squared_frobenius_norms, adds=True)


@final
@dataclass(frozen=True)
class SubCorr(Estimator):
    """Mean squared Pearson correlation of all pairs of columns, one of either variable.

    It is HSIC with linear kernels of standardised columns over the product of the numbers of
    columns, and sees linear dependence only. The test statistic is n times it. A column that is
    constant has correlation 0 with all others. The gamma and spectral nulls need columns with
    fourth moments: where tails are heavy take permutations, or ranks.

    References
    ----------
    .. [1] Q. Zhang, S. Filippi, A. Gretton, D. Sejdinovic. Large-scale kernel methods for
       independence testing. Statistics and Computing 28, 2018, section 5.1.

    Examples
    --------
    One of five columns depends on y, and linearly.

    >>> import numpy as np
    >>> import dhsic
    >>> x = np.random.default_rng(0).standard_normal((300, 5))
    >>> y = x[:, 2] + np.random.default_rng(1).standard_normal(300)
    >>> dhsic.independence_test(x, y, estimator=SubCorr(), rng=0).pvalue < 0.01
    True
    """

    name: ClassVar[str] = "sub-corr"
    needs_numbers: ClassVar[bool] = True

    def kernel(self, given: Kernel | None) -> Kernel:
        """The linear one."""
        if given is not None:
            msg = (
                f"{self.name} has the linear kernel of standardised columns, so kernels must be "
                f"left out, got {given.spec()!r}: leave it out, or take estimator='sub-hsic'"
            )
            raise InvalidArgumentError(msg)
        return Linear()

    def choose_null(self, session: Session, n_resamples: int) -> tuple[Null, str]:
        """Shifts within groups of rows."""
        return exact_null(len(session.sources), n_resamples)

    def plan(self, session: Session, combinations: Combinations, null: Null | None) -> Plan:
        """The steps that would run."""
        # Columns themselves are the features, standardised by their moments.
        maps = [ColumnFeatures(np.zeros(d), np.ones(d), session.dtype) for d in session.dims]
        steps = [fitting_step(session)]
        return plan_features(
            session, maps, null, steps, _REMEDY, whitened=True, measure=_MEASURE, measured=True
        )

    def estimate(self, session: Session, kernels: Sequence[Kernel]) -> Estimate:
        """The mean over pairs, in one pass."""
        basis, covariances = _standardised(session, kernels)
        return estimate_by_moments(session, basis, _MEASURE, covariances)

    def test(self, session: Session, kernels: Sequence[Kernel], null: Null) -> Outcome:
        """The statistic, n times the mean, and its null distribution, in one pass or two."""
        basis, covariances = _standardised(session, kernels)
        return column_outcome(session, basis, _MEASURE, null, covariances)


def _standardised(session: Session, kernels: Sequence[Kernel]) -> tuple[Basis, Covariances]:
    """The columns, with factors that divide them by their standard deviations over all rows."""
    # The features are standardised, in whatever unit.
    combinations = Combinations.single(kernels)
    fitted, samples = fit_combinations_on_sample(session, combinations, scale=False)
    maps = [ColumnFeatures.of(sample, session.dtype) for sample in samples]
    sides = describe_sides(session, maps, samples)
    covariances = feature_moments(session, moments_layout(dict(enumerate(sides))))
    session.step("normalise features")
    scaled = tuple(
        # The covariance over both deviations is the correlation.
        side._replace(factor=_scales(covariances.of(m, m).diagonal()), known_spread=1.0)
        for m, side in enumerate(sides)
    )
    return Basis(
        fitted.kernels, scaled, summary=FeatureSummary("columns", session.dims)
    ), covariances


def _scales(variances: Vector) -> Vector:
    """Standard deviations times the root of their number, 1 for what is constant; diagonal."""
    deviations = np.sqrt(np.where(variances > 0.0, variances, 1.0))
    # Over d_1 d_2 pairs of columns the mean has the root of either number in its factor (Zhang et
    # al. 2018, section 5.1).
    return np.diag(deviations * math.sqrt(len(deviations)))
