"""Laws of a statistic under the null hypothesis, and its p-value, which is made here alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Literal, Protocol, Self

import numpy as np
import scipy
from numpy.typing import ArrayLike, DTypeLike, NDArray

from dhsic.errors import DataError, InvalidArgumentError

Vector = NDArray[np.float64]
CombinedBy = Literal["fisher", "sidak"]
Complexes = NDArray[np.complex128]

# The share of the trace below which a weight counts as its mean.
_NEGLIGIBLE = 1e-12
# Negative eigenvalues below this share of the trace are rounding; others are an error.
_ROUNDING = 1e-6
# How near the saddle may come to the pole at 0, in units of 1 / (standard deviation).
_LEAST_TILT = 1.0 / 3.0
_TINY = 1e-40
# exp(-40) = 4e-18: below it a term no longer changes a sum in float64.
_DECAY = 40.0
_AGREEMENT = 1e-8  # halving the step squares the error
_MOST_STEPS = 2**14
_FACTORS_AT_ONCE = 2**14  # of some points of the contour, which the cache holds
_MOST_PRODUCTS = 5000
# Products of two spectra are kept until no more than this share of the variance is left out.
_LOST_VARIANCE = 1e-6
# These take 8 MiB.
_NORMALS_AT_ONCE = 2**20
# A p-value of 0 would claim certainty, where the tail of a law only underflows.
_SMALLEST = float(np.finfo(np.float64).tiny)


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


@dataclass(frozen=True, eq=False)
class ChiSquareMixture:
    """The law of ``sum_k weights_k z_k^2 + shift`` for independent standard normals z_k.

    Parameters
    ----------
    weights : ndarray, shape (k,)
        At least 0. Where all are 0 the law has no spread and says nothing: all its tail
        probabilities are 1.
    shift : float, optional
        The lower end.

    Raises
    ------
    DataError
        A weight is NaN or infinite.
    InvalidArgumentError
        A weight is negative.

    References
    ----------
    .. [1] J. P. Imhof. Computing the distribution of quadratic forms in normal variables.
       Biometrika 48, 1961.
    .. [2] S. O. Rice. Distribution of quadratic forms in normal random variables: evaluation by
       numerical integration. SIAM J. Sci. Stat. Comput. 1, 1980.
    .. [3] C. W. Helstrom. Distribution of the sum of squared normals by saddlepoint integration.
       IEEE Trans. Aerosp. Electron. Syst. 19, 1983.

    Examples
    --------
    >>> import numpy as np
    >>> round(ChiSquareMixture(np.array([1.0])).sf(3.841459), 6)
    0.05
    """

    weights: Vector
    shift: float = 0.0

    def __post_init__(self) -> None:
        check_no_overflow(self.weights, self.shift)
        if (self.weights < 0.0).any():
            msg = f"weights must be at least 0, got {float(self.weights.min())!r}"
            raise InvalidArgumentError(msg)

    @classmethod
    def of(cls, eigenvalues: Vector) -> Self:
        """A mixture of the eigenvalues of a covariance; rounding may have made some negative.

        Parameters
        ----------
        eigenvalues : ndarray, shape (k,)
            Those below 1e-12 of their sum are replaced by their mean.

        Returns
        -------
        ChiSquareMixture
        """
        check_no_overflow(eigenvalues)
        total = float(np.abs(eigenvalues).sum())
        if (eigenvalues < -_ROUNDING * total).any():
            low = float(eigenvalues.min())
            msg = f"eigenvalues must be at least 0 but for rounding, got {low!r}"
            raise InvalidArgumentError(msg)
        positive = eigenvalues[eigenvalues > 0.0]
        # Thousands of tiny weights have hardly any variance: their sum is as good as its mean, and
        # it is much cheaper to invert a law of few weights.
        small = positive < _NEGLIGIBLE * total
        return cls(positive[~small], float(positive[small].sum()))

    @classmethod
    def of_covariance(cls, covariance: NDArray[np.float64]) -> Self:
        """The law of the squared norm of a normal vector about 0.

        Parameters
        ----------
        covariance : ndarray, shape (m, m)
            That of the vector.

        Returns
        -------
        ChiSquareMixture
        """
        eigenvalues = scipy.linalg.eigvalsh(covariance, check_finite=False)
        # Rounding may leave small ones below 0.
        return cls.of(np.maximum(eigenvalues, 0.0))

    @classmethod
    def of_products(cls, left: Vector, right: Vector) -> Self:
        """A mixture from the products of two spectra, the eigenvalues of a Kronecker product.

        Parameters
        ----------
        left, right : ndarray, shapes (k,) and (l,)
            The spectra. The largest products are kept, 5,000 or as many more as hold all but 1e-6
            of the variance, and the others replaced by their mean.

        Returns
        -------
        ChiSquareMixture
        """
        # Zhang et al. (2018), theorem 2.1: the weights are lambda_i eta_j, of both centred kernels.
        left, right = (np.sort(cls.of(spectrum).weights)[::-1] for spectrum in (left, right))
        if not len(left) or not len(right):
            return cls(np.zeros(0))
        variance = float((left**2).sum() * (right**2).sum())
        for doublings in count():
            kept = _largest_products(left, right, _MOST_PRODUCTS * 2**doublings)
            # Var sum_k w_k chi^2_1 = 2 sum_k w_k^2; the factor 2 is on both sides of the
            # comparison.
            lost = variance - float((kept**2).sum())
            if lost <= _LOST_VARIANCE * variance or len(kept) == len(left) * len(right):
                break
        rest = float(left.sum() * right.sum() - kept.sum())
        return cls(kept, max(rest, 0.0))

    def with_moments(self, mean: float, variance: float) -> Self:
        """The mixture that has a given mean, and a given variance where that is smaller.

        Eigenvalues of a sample spread more than those of the law that it comes from, by a bulk of
        small ones. So the largest weights are kept as long as the variance allows, and what is
        left of the mean is added as a constant.

        Parameters
        ----------
        mean, variance : float
            Moments of the statistic.

        Returns
        -------
        ChiSquareMixture
        """
        descending = np.sort(self.weights)[::-1]
        # Largest first: they make the tail, on which small p-values rest.
        within = np.cumsum(2.0 * descending**2) <= max(variance, 0.0)
        within[:1] = True
        kept = descending[within]
        return type(self)(kept, mean - float(kept.sum()))

    def sf(self, statistic: float) -> float:
        """Probability of a value at least as large, to 9 of its digits however small it is."""
        x = statistic - self.shift
        largest = float(self.weights.max(initial=0.0))
        # P(sum_k w_k chi^2_1 <= x) <= P(max_k w_k chi^2_1 <= x) <= (x / max_k w_k)^1/2, of which
        # nothing is left beside 1 here, where powers of weights would be 0.
        if x <= _TINY * largest or largest == 0.0:
            return 1.0
        return _Contour.through_saddle(self.weights / largest, x / largest).upper_tail()

    def draws(self, rng: np.random.Generator, size: int) -> Vector:
        """Independent values, shape (size,)."""
        values = np.empty(size)
        step = max(1, _NORMALS_AT_ONCE // max(1, len(self.weights)))
        for start in range(0, size, step):
            part = values[start : start + step]
            # A few draws at a time, or size x k normals would not fit in memory.
            part[:] = rng.standard_normal((len(part), len(self.weights))) ** 2 @ self.weights
        return values + self.shift


def _largest_products(left: Vector, right: Vector, most: int) -> Vector:
    """The largest entries of the outer product of two descending vectors, at most so many."""
    # Entry (i, j), counted from 1, is no larger than the i j entries above and before it.
    rows = enumerate(left[:most], start=1)
    products = np.concatenate([value * right[: most // i] for i, value in rows])
    most = min(most, len(products))
    return np.partition(products, len(products) - most)[len(products) - most :]


@dataclass(frozen=True, eq=False)
class _Contour:
    """sf(x) = (1 / 2 pi i) int exp(K(s) - s x) / s ds along a contour that passes 0 on the right.

    K(s) = -1/2 sum_k log(1 - 2 w_k s), with branch points from s = 1/2 on where the largest
    weight is 1. A contour that passes 0 on the left gives sf(x) - 1. Here it is a branch of a
    hyperbola, s = s_0 + beta (cosh t - 1 + i sinh t), through the saddle s_0 of K(s) - s x, with
    the curvature of the steepest descent, beta = 3 K'' / K'''. No factor of exp(K(s) - s x)
    exceeds its value at s_0 on it, so that nothing cancels, and the trapezoidal rule in t
    converges exponentially.

    The routines in use for such mixtures, after Davies (1980), bound the absolute error, which
    leaves a p-value of 1e-20 no digit.
    """

    tilted: Vector
    """w_k / (1 - 2 w_k s_0)."""
    x: float
    start: float
    """s_0."""
    log_peak: float
    """K(s_0) - s_0 x."""
    beta: float

    @classmethod
    def through_saddle(cls, weights: Vector, x: float) -> Self:
        """Tail probability with weights of which the largest is 1, and x > 0."""
        # Scaled to a largest weight of 1, all branch points lie at 1/2 or beyond, whatever the
        # units.
        gap = _saddle_gap(weights, x)
        least = _LEAST_TILT / float(np.sqrt(2.0 * (weights**2).sum()))
        if abs(0.5 - gap) < least:  # keeps away from the pole at 0
            gap = 0.5 - least
        # 1 - 2 w s_0, written in 1/2 - s_0, which is tiny in the far tail.
        factors = (1.0 - weights) + 2.0 * weights * gap
        tilted, start = weights / factors, 0.5 - gap
        # 3 K'' / K''' with K'' = 2 sum t^2 and K''' = 8 sum t^3, t the tilted weights.
        beta = 0.75 * float((tilted**2).sum() / (tilted**3).sum())
        return cls(tilted, x, start, -0.5 * float(np.log(factors).sum()) - start * x, beta)

    def upper_tail(self) -> float:
        """sf(x): the step is halved until two sums agree."""
        # A saddle on the left of the pole at 0 leaves its residue, 1, outside of the integral.
        outside = float(self.start < 0.0)
        steps, reach = 8, self._reach()
        total = float(self._terms(np.arange(steps) * (reach / steps)).sum())
        # The trapezoidal rule counts the end point t = 0, where the halves of the contour meet, by
        # half.
        total -= 0.5 * float(self._terms(np.zeros(1))[0])
        value = outside + total * reach / steps
        previous = math.inf
        while abs(value - previous) > _AGREEMENT * abs(value) and steps < _MOST_STEPS:
            previous = value
            total += float(self._terms((np.arange(steps) + 0.5) * (reach / steps)).sum())
            steps *= 2
            value = outside + total * reach / steps
        return min(value, 1.0)

    def _reach(self) -> float:
        """A value of t where the integrand has decayed."""
        # Candidates up to 7 at once: hardly a law needs more, and cosh of much more has no float.
        reaches = np.cumprod([1.0 / 64.0, *[1.5] * 15])
        while (far := self._exponents(self._moved(reaches)).real > -_DECAY).all():
            reaches = reaches[-1:] * 1.5
        return float(reaches[far.argmin()])

    # For real weights the integrand at the conjugate is the conjugate, so one half is summed.
    def _terms(self, t: NDArray[np.floating[Any]]) -> Vector:
        """Im[exp(K(s) - s x) / s ds/dt] / pi; the lower half of the contour is folded on it."""
        moved = self._moved(t)
        slope = self.beta * (np.sinh(t) + 1j * np.cosh(t))
        values = np.exp(self.log_peak + self._exponents(moved)) / (self.start + moved) * slope
        terms: Vector = values.imag / np.pi
        return terms

    def _moved(self, t: NDArray[np.floating[Any]]) -> Complexes:
        """The way from s_0 to s."""
        # cosh t - 1 = 2 sinh^2(t / 2), which keeps its digits near t = 0.
        moved: Complexes = self.beta * (2.0 * np.sinh(t / 2.0) ** 2 + 1j * np.sinh(t))
        return moved

    def _exponents(self, moved: Complexes) -> Complexes:
        """K(s) - s x less its value at s_0."""
        step = max(1, _FACTORS_AT_ONCE // len(self.tilted))
        cumulants = [self._cumulants(moved[at : at + step]) for at in range(0, len(moved), step)]
        return np.concatenate(cumulants) - moved * self.x

    def _cumulants(self, moved: Complexes) -> Complexes:
        """K(s) - K(s_0), whose logarithms take a tenth of the time in real numbers."""
        # 1 - 2 w s = (1 - 2 w s_0) (1 - 2 t z) with the tilted weight t and z = s - s_0.
        real = 1.0 - 2.0 * np.multiply.outer(moved.real, self.tilted)
        imaginary = -2.0 * np.multiply.outer(moved.imag, self.tilted)
        logs = 0.5 * np.log(real**2 + imaginary**2).sum(axis=1)
        cumulants: Complexes = -0.5 * (logs + 1j * np.arctan2(imaginary, real).sum(axis=1))
        return cumulants


def _saddle_gap(weights: Vector, x: float) -> float:
    """1/2 - s_0 where K'(s_0) = sum_k w_k / (1 - 2 w_k s_0) = x, for a largest weight of 1."""
    from scipy.optimize import brentq  # slow to import

    rest = 1.0 - weights

    def excess(log_gap: float) -> float:
        return float(np.log((weights / (rest + 2.0 * weights * np.exp(log_gap))).sum() / x))

    # K' lies between its largest term, 1 / (2 gap), and as many of those as there are weights.
    low, high = math.log(0.25 / x), math.log(len(weights) / x)
    # The gap shrinks as 1 / x in the far tail: its logarithm is found to a relative error.
    return math.exp(brentq(excess, low, high, xtol=1e-10))


@dataclass(frozen=True)
class CombinedPvalues:
    """The law of the combined p-values of a chain, if all of its hypotheses are true.

    The p-value of every stage is uniform or larger given those before it, so that this law is that
    of the statistic or larger.

    Parameters
    ----------
    stages : int
        Number of p-values, K.
    combined_by : {"fisher", "sidak"}
        The statistic: -2 sum_k log p_k (Fisher 1932), or -log10 min_k p_k (Sidak 1967).

    Examples
    --------
    >>> round(CombinedPvalues(2, "sidak").sf(2.0), 4)
    0.0199
    """

    stages: int
    combined_by: CombinedBy

    def sf(self, statistic: float) -> float:
        """Probability of a value at least as large."""
        if self.combined_by == "fisher":
            # P(chi-square of 2 M degrees >= s) = Q(M, s / 2), the upper incomplete gamma function.
            return float(scipy.special.gammaincc(self.stages, max(statistic, 0.0) / 2.0))
        # 1 - (1 - 10^-s)^M by expm1 and log1p, or a small p-value would lose its digits; the bound
        # of 1 - 1e-16 keeps log1p away from log 0.
        return -math.expm1(self.stages * math.log1p(-min(10.0**-statistic, 1.0 - 1e-16)))

    def draws(self, rng: np.random.Generator, size: int) -> Vector:
        """Independent values, shape (size,)."""
        # 1 - U lies in (0, 1], so that no logarithm is infinite.
        logs = np.log(1.0 - rng.random((size, self.stages)))
        if self.combined_by == "fisher":
            values: Vector = -2.0 * logs.sum(axis=1)
        else:
            values = -logs.min(axis=1) / math.log(10.0)
        return values


def combine_pvalues(
    pvalues: Sequence[float], combined_by: CombinedBy
) -> tuple[float, CombinedPvalues]:
    """The statistic of some p-values, and its law.

    Parameters
    ----------
    pvalues : sequence of float
        P-values of every stage, greater than 0.
    combined_by : {"fisher", "sidak"}
        See `CombinedPvalues`.

    Returns
    -------
    float
        The statistic.
    CombinedPvalues
        Its law where all hypotheses are true.

    References
    ----------
    .. [1] R. Fisher. Statistical methods for research workers. Oliver and Boyd 1932, section 21.1.
    .. [2] Z. Sidak. Rectangular confidence regions for the means of multivariate normal
       distributions. JASA 62, 1967.

    Examples
    --------
    >>> statistic, law = combine_pvalues([0.01, 0.5], "fisher")
    >>> round(law.sf(statistic), 4)
    0.0315
    """
    law = CombinedPvalues(len(pvalues), combined_by)
    if combined_by == "fisher":
        # Fisher (1925): under the null hypotheses at most chi-square of 2 M degrees, as each
        # p-value given those before it is at most uniform.
        return -2.0 * sum(map(math.log, pvalues)), law
    # Sidak (1967): P(min p <= a) = 1 - (1 - a)^M.
    return -math.log10(min(pvalues)), law


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
        least = statistic - max(rounding, math.sqrt(np.finfo(dtype).eps) * abs(statistic))
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


def monte_carlo_error(p: float, n_resamples: int) -> float:
    """Standard error of a p-value that comes from `n_resamples` random replicates."""
    # Replicates exceed the data independently, so that their number is binomial.
    return math.sqrt(p * (1.0 - p) / n_resamples)
