"""The null distribution of a test."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dhsic.errors import InvalidArgumentError
from dhsic.results import IndependenceTestResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def null_distribution(
    result: IndependenceTestResult, *, alpha: float = 0.05, ax: Axes | None = None
) -> Axes:
    """Histogram of the null distribution with the statistic and the critical value.

    Parameters
    ----------
    result : IndependenceTestResult
        Result of a test.
    alpha : float, optional
        The level of the critical value. Among replicates the observed value counts as one; where
        the law is known in closed form, the value is a quantile of 1,000 draws from it.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure where not given.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    InvalidArgumentError
        The level is not between 0 and 1, or it is no result of a test.
    MissingDependencyError
        matplotlib is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x, y = np.random.default_rng(0).standard_normal((2, 100))
    >>> ax = null_distribution(dhsic.independence_test(x, y, rng=0))
    >>> ax.get_ylabel()
    'replicates'
    """
    # Estimates have no null distribution, and would fail within the picture.
    _check_tested(result)
    return result.plot(ax, alpha=alpha)


def _check_tested(result: object) -> None:
    if not isinstance(result, IndependenceTestResult):
        msg = (
            f"a null distribution is drawn of an IndependenceTestResult, got a "
            f"{type(result).__name__}: give what dhsic.independence_test returns"
        )
        raise InvalidArgumentError(msg)
