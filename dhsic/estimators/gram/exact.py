"""HSIC from every pair of rows: what the linear-time estimators approximate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from dhsic._validation import check_flag
from dhsic.engine.session import Session
from dhsic.estimators.base import Resampling
from dhsic.estimators.gram.quadratic import Quadratic
from dhsic.estimators.outcomes import ColumnEstimates, ColumnOutcome
from dhsic.kernels import Columns, Combinations, Gaussian, Kernel


@final
@dataclass(frozen=True)
class VHSIC(Quadratic):
    """V-statistic HSIC for two or more variables.

    The cost is quadratic in the rows: Gram tiles of pairs of row blocks are computed once, used
    and forgotten, in memory that does not grow with their number. The test statistic is n times
    the estimate. Shifts of rows, alone or in a chain, take one pass over pairs of groups of rows,
    with a Fourier transform of every tile. Permutations of all rows and the spectrum hold whole
    Gram matrices.

    Parameters
    ----------
    unbiased_estimate : bool, optional
        Whether the estimate is the unbiased one of `UHSIC`, negative at times, for two variables;
        the statistic stays. That is larger in expectation by a share of 1 / n, and finds more
        where data have heavy tails.

    Raises
    ------
    InvalidArgumentError
        `unbiased_estimate` is no boolean.

    References
    ----------
    .. [1] F. Kalinke, Z. Szabo. Nystrom M-Hilbert-Schmidt independence criterion. UAI 2023,
       equation 5.
    .. [2] N. Pfister, P. Buehlmann, B. Schoelkopf, J. Peters. Kernel-based tests for joint
       independence. JRSS B 80, 2018.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x, noise = np.random.default_rng(0).standard_normal((2, 300))
    >>> y = x**2 + noise
    >>> dhsic.hsic(x, y, estimator=VHSIC(unbiased_estimate=True), rng=0).estimate > 0.0
    True
    >>> dhsic.independence_test(x, y, estimator=VHSIC(), rng=0).pvalue < 0.01
    True
    """

    unbiased_estimate: bool = False

    def __post_init__(self) -> None:
        check_flag("unbiased_estimate", self.unbiased_estimate)

    name: ClassVar[str] = "v-hsic"
    takes_missing: ClassVar[bool] = True

    def test_features(
        self, session: Session, combinations: Combinations, null: Resampling
    ) -> ColumnOutcome:
        """Statistics and replicates of as many features at a time as fit in memory."""
        grid = self.test_grid(session, combinations, null)
        assert grid.own is not None
        values = grid.statistics / session.n
        estimates = ColumnEstimates(grid.combinations, values, *grid.own.T)
        return ColumnOutcome(
            estimates, grid.statistics, grid.replicates, grid.detail, grid.rounding
        )

    def estimate_features(self, session: Session, combinations: Combinations) -> ColumnEstimates:
        """The estimates of as many features at a time as fit in memory."""
        values, with_itself, fitted = self.sizes(session, combinations)
        return ColumnEstimates(fitted, values, *with_itself.T)


@final
@dataclass(frozen=True)
class UHSIC(Quadratic):
    """U-statistic HSIC for two variables, unbiased and therefore negative at times.

    Computed as `VHSIC`, from Gram matrices whose diagonal is zero. The test statistic is n times
    the estimate.

    References
    ----------
    .. [1] L. Song, A. Smola, A. Gretton, J. Bedo, K. Borgwardt. Feature selection via dependence
       maximization. JMLR 13, 2012.
    .. [2] Q. Zhang, S. Filippi, A. Gretton, D. Sejdinovic. Large-scale kernel methods for
       independence testing. Statistics and Computing 28, 2018, equations 6 and 11.

    Examples
    --------
    An unbiased estimate of independent variables is about 0, and may be negative.

    >>> import numpy as np
    >>> import dhsic
    >>> x, y = np.random.default_rng(0).standard_normal((2, 300))
    >>> abs(dhsic.hsic(x, y, estimator=UHSIC(), rng=0).estimate) < 0.002
    True
    """

    name: ClassVar[str] = "u-hsic"
    takes_missing: ClassVar[bool] = True

    @property
    def unbiased(self) -> bool:
        """The U-statistic."""
        return True


@final
@dataclass(frozen=True)
class SubHSIC(Quadratic):
    """Mean squared HSIC of all pairs of columns, one of either variable: a simple baseline.

    It is V-HSIC with kernels that are means over columns, since HSIC is linear in either kernel.

    References
    ----------
    .. [1] Q. Zhang, S. Filippi, A. Gretton, D. Sejdinovic. Large-scale kernel methods for
       independence testing. Statistics and Computing 28, 2018, section 5.1.

    Examples
    --------
    One of five columns depends on y.

    >>> import numpy as np
    >>> import dhsic
    >>> x = np.random.default_rng(0).standard_normal((300, 5))
    >>> dhsic.independence_test(x, x[:, 2] ** 2, estimator=SubHSIC(), rng=0).pvalue < 0.01
    True
    """

    name: ClassVar[str] = "sub-hsic"

    @property
    def quantity(self) -> str:
        """The name of the estimate."""
        return "mean squared HSIC of columns"

    def kernel(self, given: Kernel | None) -> Kernel:
        """The mean over columns of any kernel of one column, Gaussian where not given."""
        return Columns(given or Gaussian())
