"""From replicates under the null hypothesis to a p-value: the one place where it is done."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dhsic.errors import DataError

__all__ = ["monte_carlo_error", "pvalue"]


def pvalue(
    statistic: float,
    replicates: NDArray[np.float64],
    dtype: DTypeLike = np.float64,
    rounding: float = 0.0,
) -> float:
    """Upper-tail p-value of a statistic among its replicates, never 0.

    The observed value counts as one of the replicates (Phipson and Smyth 2010), and a replicate
    that equals it up to rounding counts as at least as large, so that ties are no evidence.

    Parameters
    ----------
    statistic : float
        The observed value.
    replicates : ndarray, shape (b,)
        Values under the null hypothesis.
    dtype : dtype, optional
        The precision in which both were computed; values within the square root of its epsilon,
        relative to the statistic, are ties.
    rounding : float, optional
        An absolute difference up to which values are ties too.

    Returns
    -------
    float
        ``(1 + count) / (b + 1)``.

    Raises
    ------
    DataError
        A value is NaN or infinite, as where products of unbounded kernels overflow.

    Examples
    --------
    >>> import numpy as np
    >>> pvalue(3.0, np.array([1.0, 2.0, 4.0]))
    0.5
    """
    if not np.isfinite(statistic) or not np.isfinite(replicates).all():
        msg = (
            "the statistic and its replicates must be finite, but products of the kernels "
            "overflow: use precision='float64', transform the variables (to ranks, say), or take "
            "bounded kernels such as 'gaussian'"
        )
        raise DataError(msg)
    rounding = max(rounding, math.sqrt(np.finfo(dtype).eps) * abs(statistic))
    return float((1 + np.count_nonzero(replicates >= statistic - rounding)) / (len(replicates) + 1))


def monte_carlo_error(p: float, n_resamples: int) -> float:
    """Standard error of a p-value that comes from `n_resamples` random replicates."""
    return math.sqrt(p * (1.0 - p) / n_resamples)
