"""The mean squared correlation of columns: a linear baseline."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.plan import DriverStep, PassPlan, Plan
from dhsic.engine.session import Session
from dhsic.errors import InvalidArgumentError
from dhsic.estimators.base import Estimate, Null, Outcome, fit_on_sample, fitting_step
from dhsic.estimators.feature_basis import Basis, Measure, squared_frobenius_norms
from dhsic.estimators.feature_sums import FeaturePair, MomentsPass, MomentSums, covariances
from dhsic.estimators.feature_tests import (
    estimate_by_moments,
    feature_outcome,
    plan_features,
)
from dhsic.estimators.resample import exact_null
from dhsic.features import ColumnFeatures
from dhsic.kernels import Kernel, Linear
from dhsic.nulls import Spectral
from dhsic.results import FeatureSummary

__all__ = ["SubCorr"]

Vector = NDArray[np.float64]

_REMEDY = "take fewer resamples or fewer threads"
_MEASURE = Measure("mean squared correlation", squared_frobenius_norms, adds=True)


@final
@dataclass(frozen=True)
class SubCorr:
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
    >>> SubCorr()
    SubCorr()
    """

    name: ClassVar[str] = "sub-corr"

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

    def plan(self, session: Session, kernels: Sequence[Kernel], null: Null | None) -> Plan:
        """What would run."""
        first, second = (
            ColumnFeatures(np.zeros(d), np.ones(d), session.dtype) for d in session.dims
        )
        preparation: list[DriverStep | PassPlan] = [fitting_step(session)]
        if null is not None and not isinstance(null, Spectral):
            centres = first.centre.astype(session.dtype), second.centre.astype(session.dtype)
            moments = MomentsPass(FeaturePair((first, second), centres))
            preparation.append(session.plan(moments))
        return plan_features(session, (first, second), null, preparation, _REMEDY, whitened=True)

    def estimate(self, session: Session, kernels: Sequence[Kernel]) -> Estimate:
        """The mean over pairs, in one pass."""
        basis, sums = _standardised(session, kernels)
        return estimate_by_moments(basis, _MEASURE, sums)

    def test(self, session: Session, kernels: Sequence[Kernel], null: Null) -> Outcome:
        """The statistic, n times the mean, and its null distribution, in one pass or two."""
        basis, sums = _standardised(session, kernels)
        return feature_outcome(session, basis, _MEASURE, null, sums)


def _standardised(session: Session, kernels: Sequence[Kernel]) -> tuple[Basis, MomentSums]:
    """The columns, with factors that divide them by their standard deviations over all rows."""
    fitted, samples = fit_on_sample(session, kernels)
    first, second = (ColumnFeatures.of(sample, session.dtype) for sample in samples)
    summary = FeatureSummary("columns", session.dims)
    basis = Basis.of(fitted, (first, second), samples, summary=summary)
    sums = session.run(MomentsPass(basis.features))
    factors = _scales(sums.first), _scales(sums.second)
    return replace(basis, factors=factors, spread=1.0), sums


def _scales(sums: Vector) -> Vector:
    """Standard deviations times the root of their number, 1 for what is constant; diagonal."""
    variances = covariances(sums).diagonal()
    deviations = np.sqrt(np.where(variances > 0.0, variances, 1.0))
    return np.diag(deviations * math.sqrt(len(deviations)))
