"""Distributions of a statistic under the null hypothesis, as values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from dhsic.errors import DataError

Vector = NDArray[np.float64]


class Distribution(Protocol):
    """The law of a statistic under the null hypothesis."""

    def sf(self, statistic: float) -> float:
        """Probability of a value at least as large."""
        ...

    def draws(self, rng: np.random.Generator, size: int) -> Vector:
        """Independent values, shape (size,)."""
        ...


def check_no_overflow(*values: ArrayLike) -> None:
    """Refuse a statistic, or what its null distribution is made of, where it overflowed.

    Raises
    ------
    DataError
        A value is NaN or infinite.
    """
    if not all(np.isfinite(value).all() for value in values):
        msg = (
            "the statistic and its null distribution must be finite, but products of the kernels "
            "overflow: use precision='float64', transform the variables (to ranks, say), or take "
            "bounded kernels such as 'gaussian'"
        )
        raise DataError(msg)


@dataclass(frozen=True, eq=False)
class Replicates:
    """Values of the statistic under the null hypothesis.

    Parameters
    ----------
    values : ndarray, shape (b,)
        The replicates, finite.

    Raises
    ------
    DataError
        A value is NaN or infinite, as where products of unbounded kernels overflow.

    References
    ----------
    .. [1] B. Phipson, G. Smyth. Permutation p-values should never be zero. Statistical Applications
       in Genetics and Molecular Biology 9, 2010.

    Examples
    --------
    >>> import numpy as np
    >>> Replicates(np.array([1.0, 2.0, 4.0])).sf(3.0)
    0.5
    """

    values: Vector

    def __post_init__(self) -> None:
        check_no_overflow(self.values)

    def sf(self, statistic: float) -> float:
        """Share of values at least as large; the observed one counts (Phipson and Smyth 2010)."""
        return float((1 + np.count_nonzero(self.values >= statistic)) / (len(self.values) + 1))

    def draws(self, rng: np.random.Generator, size: int) -> Vector:
        """Replicates drawn with replacement."""
        return rng.choice(self.values, size)


@dataclass(frozen=True)
class GammaDistribution:
    """The gamma distribution of a mean and a variance.

    Parameters
    ----------
    mean, variance : float
        Its moments. A law without spread says nothing: all its tail probabilities are 1.

    Raises
    ------
    DataError
        A moment is NaN or infinite.

    Examples
    --------
    >>> round(GammaDistribution(mean=1.0, variance=2.0).sf(3.841459), 6)
    0.05
    """

    mean: float
    variance: float

    def __post_init__(self) -> None:
        check_no_overflow(self.mean, self.variance)

    def sf(self, statistic: float) -> float:
        """Probability of a value at least as large."""
        if statistic <= 0.0 or self._degenerate:
            return 1.0
        # The tail by itself, not one less the rest, which has no digits left where p is small.
        return float(scipy.special.gammaincc(self._shape, statistic / self._scale))

    def draws(self, rng: np.random.Generator, size: int) -> Vector:
        """Independent values, shape (size,)."""
        if self._degenerate:
            # A law without spread is a point.
            return np.full(size, self.mean)
        return rng.gamma(self._shape, self._scale, size)

    @property
    def _degenerate(self) -> bool:
        return self.mean <= 0.0 or self.variance <= 0.0

    @property
    def _shape(self) -> float:
        # Shape mean^2 / variance, scale variance / mean: Gretton et al. (2007), equation 9.
        return self.mean**2 / self.variance

    @property
    def _scale(self) -> float:
        return self.variance / self.mean


@dataclass(frozen=True)
class StudentT:
    """Student's t distribution, for a statistic divided by its standard error.

    Parameters
    ----------
    df : float
        Degrees of freedom; infinity gives the normal distribution.

    Examples
    --------
    >>> import math
    >>> round(StudentT(math.inf).sf(1.644854), 6)
    0.05
    """

    df: float

    def sf(self, statistic: float) -> float:
        """Probability of a value at least as large."""
        if math.isinf(self.df):
            # P(Z >= t) = P(Z <= -t): small p-values keep their digits.
            return float(scipy.special.ndtr(-statistic))
        # The law is symmetric: the lower tail at -t keeps the digits of small p-values.
        return float(scipy.special.stdtr(self.df, -statistic))

    def draws(self, rng: np.random.Generator, size: int) -> Vector:
        """Independent values, shape (size,)."""
        if math.isinf(self.df):
            return rng.standard_normal(size)
        return rng.standard_t(self.df, size)
