"""From the null distribution to a p-value: the one place where it is done."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dhsic.nulls.laws import Distribution, Replicates, check_no_overflow

Vector = NDArray[np.float64]

# A p-value of 0 would claim certainty, where the tail of a law only underflows.
_SMALLEST = float(np.finfo(np.float64).tiny)


def pvalue(
    statistic: float,
    distribution: Distribution,
    dtype: DTypeLike = np.float64,
    rounding: float = 0.0,
) -> float:
    """Upper-tail p-value of a statistic, never 0.

    Among replicates the observed value counts as one of them (Phipson and Smyth 2010), and a
    replicate that equals it up to rounding counts as at least as large, so that ties are no
    evidence.

    Parameters
    ----------
    statistic : float
        The observed value.
    distribution : Distribution
        Its law under the null hypothesis.
    dtype : dtype, optional
        The precision in which replicates were computed; those within the square root of its
        epsilon, relative to the statistic, are ties.
    rounding : float, optional
        An absolute difference up to which values are equal.

    Returns
    -------
    float
        At least 2.2e-308, the smallest number with all its digits.

    Raises
    ------
    DataError
        The statistic is NaN or infinite, as where products of unbounded kernels overflow.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.nulls import Replicates
    >>> pvalue(3.0, Replicates(np.array([1.0, 2.0, 4.0])))
    0.5
    """
    check_no_overflow(statistic)
    if isinstance(distribution, Replicates):
        least = tie_threshold(statistic, dtype, rounding)
    else:
        # The tail begins where rounding may have moved the statistic from: it never makes p
        # smaller.
        least = statistic - rounding
    return max(float(distribution.sf(least)), _SMALLEST)


def pvalues(statistics: Vector, replicates: Vector, dtype: DTypeLike, rounding: Vector) -> Vector:
    """As `pvalue`, of several statistics with replicates in the columns.

    Parameters
    ----------
    statistics : ndarray, shape (G,)
        The observed values.
    replicates : ndarray, shape (b, G)
        Replicates of each, finite.
    dtype : dtype
        The precision in which replicates were computed.
    rounding : ndarray, shape (G,)
        Absolute differences up to which values are equal.

    Returns
    -------
    ndarray, shape (G,)
    """
    size = math.sqrt(np.finfo(dtype).eps) * np.abs(statistics)
    # Ties count against the data: rounding must not turn equal statistics into evidence.
    least = statistics - np.maximum(rounding, size)
    counts = np.count_nonzero(replicates >= least, axis=0)
    # Phipson and Smyth (2010): the data count as one, so that p is never 0 and the test keeps its
    # level.
    p: Vector = (1 + counts) / (len(replicates) + 1)
    return p


def tie_threshold(statistic: float, dtype: DTypeLike, rounding: float) -> float:
    """The least replicate that counts as at least as large as the statistic, as `pvalue`."""
    return statistic - max(rounding, math.sqrt(np.finfo(dtype).eps) * abs(statistic))


def monte_carlo_error(p: float, n_resamples: int) -> float:
    """Standard error of a p-value that comes from `n_resamples` random replicates."""
    # Replicates exceed the data independently, so that their number is binomial.
    return math.sqrt(p * (1.0 - p) / n_resamples)
