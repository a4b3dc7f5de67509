"""Compute p-values: laws of statistics, nulls, combined statistics, adjustments, and a guard.

Only this module computes p-values. Laws and p-values come first, then the nulls that a user names.
Then several statistics with shared replicates are combined to one test, and p-values of many tests
are adjusted. The guard of approximate nulls comes last.

The guard checks the assumption of approximate null distributions that many rows show how the
variables vary together. Two dummies with 2 % ones are both 1 in 0.4 of 1,000 rows, that is, mostly
in none; then the sample does not show how far their covariance would reach under independence. The
same applies to narrow kernels of several columns. The marginals suffice for this check.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from itertools import accumulate, count
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self, get_args

import numpy as np
import scipy
from numpy.typing import ArrayLike, DTypeLike, NDArray

from dhsic._random import generator
from dhsic._validation import check_choice, check_integer
from dhsic.errors import ApproximateNullWarning, DataError, InvalidArgumentError
from dhsic.kernels import Aggregate

Vector = NDArray[np.float64]
CombinedBy = Literal["fisher", "sidak"]
Within = Literal["auto", "all", "groups"]
MixtureMethod = Literal["inversion", "simulation"]
Variance = Literal["direct", "permutation", "empirical"]
Control = Literal["bh", "by", "bonferroni", "holm", "max-t"]
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
_FACTORS_AT_ONCE = 2**14  # of some points of the contours, which the cache holds
_WEIGHTS_AT_ONCE = 2**13  # of all laws that are inverted together
# The series of log(1 - u) leaves u^13 / 13, 1e-9 where the integrand has decayed by 1e-17.
_SMALL_FACTOR, _POWERS = 0.25, 12
_GAP = 1e-8  # of the logarithm: any contour beside the saddle gives the same value
_MOST_PRODUCTS = 5000
# Products of two spectra are kept until no more than this share of the variance is left out.
_LOST_VARIANCE = 1e-6
# These take 8 MiB.
_NORMALS_AT_ONCE = 2**20
# A p-value of 0 would claim certainty, where the tail of a law only underflows.
_SMALLEST = float(np.finfo(np.float64).tiny)
# Scores that are logarithms of ranks are equal, or differ by far more.
_SAME = 1e-9
_BUNCH_BYTES = 8 * 2**20  # of the values of some columns
_SHARPNESS = 2.0  # of power 1 took two points more, and 3 about one, over 20 shapes
# In units of the largest k(x, x): rows whose kernel values agree so closely are equal to it.
_EQUAL = 1e-12
# Norms k(x, x) of all rows whose spread is below this share are the same number.
_ALIKE = 1e-6
_UNSEEN = 1e-24  # of the squared kernel: less is rounding


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
        Mean and variance. A law with variance 0 gives no evidence: all its tail probabilities are
        1.

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
        # Shape mean^2 / variance and scale variance / mean: Gretton et al. (2007), equation 9. The
        # tail by itself, not one less the rest, which has no digits left where p is small.
        shape, scale = self.mean**2 / self.variance, self.variance / self.mean
        return float(scipy.special.gammaincc(shape, statistic / scale))

    def draws(self, rng: np.random.Generator, size: int) -> Vector:
        """Independent values, shape (size,)."""
        if self._degenerate:
            # A law without spread is a point.
            return np.full(size, self.mean)
        return rng.gamma(self.mean**2 / self.variance, self.variance / self.mean, size)

    @property
    def _degenerate(self) -> bool:
        return self.mean <= 0.0 or self.variance <= 0.0


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
        At least 0. If all weights are 0, the law gives no evidence: all its tail probabilities are
        1.
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
        return float(upper_tails([self], np.array([statistic]))[0])

    def draws(self, rng: np.random.Generator, size: int) -> Vector:
        """Independent values, shape (size,)."""
        values = np.full(size, self.shift)
        # The heaviest first: whether rounding left a few of the lightest changes no other normal.
        weights, step = np.sort(self.weights)[::-1], max(1, _NORMALS_AT_ONCE // max(1, size))
        for start in range(0, len(weights), step):
            # A few weights at a time, or k x size normals would not fit in memory.
            some = weights[start : start + step, None]
            squares = rng.standard_normal((len(some), size)) ** 2
            squares *= some
            # Products of matrices would have other bits for other numbers of BLAS threads.
            values += squares.sum(axis=0)
        return values


def _largest_products(left: Vector, right: Vector, most: int) -> Vector:
    """The largest entries of the outer product of two descending vectors, at most so many."""
    # Entry (i, j), counted from 1, is no larger than the i j entries above and before it.
    rows = enumerate(left[:most], start=1)
    products = np.concatenate([value * right[: most // i] for i, value in rows])
    most = min(most, len(products))
    return np.partition(products, len(products) - most)[len(products) - most :]


def upper_tails(mixtures: Sequence[ChiSquareMixture], statistics: Vector) -> Vector:
    """Probabilities of values at least as large, of a mixture and a statistic each, in one call."""
    tails = np.ones(len(mixtures))
    x = statistics - [law.shift for law in mixtures]
    largest = np.array([law.weights.max(initial=0.0) for law in mixtures])
    # P(sum_k w_k chi^2_1 <= x) <= P(max_k w_k chi^2_1 <= x) <= (x / max_k w_k)^1/2, of which
    # nothing is left beside 1 here, where powers of weights would be 0.
    far = np.flatnonzero((x > _TINY * largest) & (largest > 0.0))
    # Those of about as many weights together, as others count as 0 and take their time.
    counts = np.array([len(law.weights) for law in mixtures])
    far = far[np.argsort(counts[far], kind="stable")]
    while len(far):
        # The last ones have the most weights.
        some = far[-max(1, _WEIGHTS_AT_ONCE // int(counts[far[-1]])) :]
        far = far[: len(far) - len(some)]
        weights = np.zeros((len(some), counts[some].max()))
        for row, c in zip(weights, some, strict=True):
            row[: counts[c]] = np.sort(mixtures[c].weights)[::-1] / largest[c]
        tails[some] = _Contours.through_saddles(weights, x[some] / largest[some]).upper_tails()
    return tails


@dataclass(frozen=True, eq=False)
class _Contours:
    """sf(x) = (1 / 2 pi i) int exp(K(s) - s x) / s ds along contours that pass 0 on the right.

    One for each of P laws. K(s) = -1/2 sum_k log(1 - 2 w_k s), with branch points from s = 1/2 on
    where the largest weight is 1. A contour that passes 0 on the left gives sf(x) - 1. Here it is a
    branch of a hyperbola, s = s_0 + beta (cosh t - 1 + i sinh t), through the saddle s_0 of
    K(s) - s x, with the curvature of the steepest descent, beta = 3 K'' / K'''. No factor of
    exp(K(s) - s x) exceeds its value at s_0 on it, so that nothing cancels, and the trapezoidal
    rule in t converges exponentially.

    The routines in use for such mixtures, after Davies (1980), bound the absolute error, which
    leaves a p-value of 1e-20 no digit.
    """

    tilted: Vector
    """w_k / (1 - 2 w_k s_0), descending, shape (P, k)."""
    x: Vector
    """Shape (P,), as of the others."""
    start: Vector
    """s_0."""
    log_peak: Vector
    """K(s_0) - s_0 x."""
    beta: Vector

    @classmethod
    def through_saddles(cls, weights: Vector, x: Vector) -> Self:
        """Tail probabilities with weights (P, k), descending from 1, and x > 0."""
        # Scaled to a largest weight of 1, all branch points lie at 1/2 or beyond, whatever the
        # units.
        gap = _saddle_gaps(weights, x)
        least = _LEAST_TILT / np.sqrt(2.0 * (weights**2).sum(axis=1))
        gap = np.where(np.abs(0.5 - gap) < least, 0.5 - least, gap)  # away from the pole at 0
        # 1 - 2 w s_0, written in 1/2 - s_0, which is tiny in the far tail.
        factors = (1.0 - weights) + 2.0 * weights * gap[:, None]
        tilted, start = weights / factors, 0.5 - gap
        # 3 K'' / K''' with K'' = 2 sum t^2 and K''' = 8 sum t^3, t the tilted weights.
        beta = 0.75 * (tilted**2).sum(axis=1) / (tilted**3).sum(axis=1)
        return cls(tilted, x, start, -0.5 * np.log(factors).sum(axis=1) - start * x, beta)

    def upper_tails(self) -> Vector:
        """sf(x), shape (P,): the step is halved until two sums agree."""
        # A saddle on the left of the pole at 0 leaves its residue, 1, outside of the integral.
        outside = (self.start < 0.0).astype(np.float64)
        steps, reach = 8, self._reaches()
        total = self._terms(reach, np.arange(steps) / steps).sum(axis=1)
        # The trapezoidal rule counts the end point t = 0, where the halves of the contour meet, by
        # half.
        total -= 0.5 * self._terms(reach, np.zeros(1))[:, 0]
        value, left = outside + total * reach / steps, np.arange(len(reach))
        while len(left) and steps < _MOST_STEPS:
            some, previous = self._of(left), value[left]
            between = (np.arange(steps) + 0.5) / steps
            total[left] += some._terms(reach[left], between).sum(axis=1)
            steps *= 2
            value[left] = outside[left] + total[left] * reach[left] / steps
            left = left[np.abs(value[left] - previous) > _AGREEMENT * np.abs(value[left])]
        tails: Vector = np.minimum(value, 1.0)
        return tails

    def _of(self, some: NDArray[np.intp]) -> Self:
        """Those of some of the laws."""
        return type(self)(*(getattr(self, one.name)[some] for one in fields(self)))

    def _reaches(self) -> Vector:
        """Values of t where the integrands have decayed, shape (P,)."""
        # Candidates up to 7 at once: hardly a law needs more, and cosh of much more has no float.
        reaches = np.cumprod([1.0 / 64.0, *[1.5] * 15])
        while (far := self._exponents(self._moved(reaches[None])).real > -_DECAY).all(axis=1).any():
            reaches = np.append(reaches, reaches[-1] * 1.5)
        found: Vector = reaches[far.argmin(axis=1)]
        return found

    # For real weights the integrand at the conjugate is the conjugate, so one half is summed.
    def _terms(self, reach: Vector, shares: Vector) -> Vector:
        """Im[exp(K(s) - s x) / s ds/dt] / pi; the lower half of the contour is folded on it."""
        t, beta = np.multiply.outer(reach, shares), self.beta[:, None]
        moved = self._moved(t)
        slope = beta * (np.sinh(t) + 1j * np.cosh(t))
        peaks = self.log_peak[:, None] + self._exponents(moved)
        values = np.exp(peaks) / (self.start[:, None] + moved) * slope
        terms: Vector = values.imag / np.pi
        return terms

    def _moved(self, t: NDArray[np.floating[Any]]) -> Complexes:
        """The way from s_0 to s, shape (P, J)."""
        # cosh t - 1 = 2 sinh^2(t / 2), which keeps its digits near t = 0.
        ways: Complexes = 2.0 * np.sinh(t / 2.0) ** 2 + 1j * np.sinh(t)
        return self.beta[:, None] * ways

    def _exponents(self, moved: Complexes) -> Complexes:
        """K(s) - s x less its value at s_0."""
        # log(1 - u) of small u is a series of few terms, whose sums of powers serve all points.
        small = 2.0 * self.tilted * np.abs(moved).max(axis=1)[:, None] < _SMALL_FACTOR
        large = int(np.count_nonzero(~small.all(axis=0)))  # weights descend
        step = max(1, _FACTORS_AT_ONCE // max(1, len(moved) * large))
        parts = [
            _log_factors(self.tilted[:, :large], moved[:, at : at + step])
            for at in range(0, moved.shape[1], step)
        ]
        # -log(1 - u) = sum_m u^m / m, of all weights by the sums of their powers.
        rest, doubled = self.tilted[:, large:], 2.0 * moved
        powers = list(accumulate([rest] * (_POWERS if rest.size else 0), np.multiply))
        series = np.zeros_like(moved)
        for m in range(len(powers), 0, -1):  # Horner
            series = doubled * (powers[m - 1].sum(axis=1)[:, None] / m + series)
        exponents: Complexes = 0.5 * series - np.concatenate(parts, axis=1)
        return exponents - moved * self.x[:, None]


def _log_factors(tilted: Vector, moved: Complexes) -> Complexes:
    """1/2 sum_k log(1 - 2 t_k z) at P x J points; real numbers take a tenth of the time."""
    # 1 - 2 w s = (1 - 2 w s_0) (1 - 2 t z) with the tilted weight t and z = s - s_0.
    real = 1.0 - 2.0 * moved.real[..., None] * tilted[:, None]
    imaginary = -2.0 * moved.imag[..., None] * tilted[:, None]
    angles = np.arctan2(imaginary, real).sum(axis=-1)
    real *= real
    imaginary *= imaginary
    real += imaginary
    logs: Complexes = 0.5 * (0.5 * np.log(real).sum(axis=-1) + 1j * angles)
    return logs


def _saddle_gaps(weights: Vector, x: Vector) -> Vector:
    """1/2 - s_0 where K'(s_0) = sum_k w_k / (1 - 2 w_k s_0) = x, for largest weights of 1."""
    rest = 1.0 - weights
    # K' lies between its largest term, 1 / (2 gap), and as many of those as there are weights.
    low, high = np.log(0.25 / x), np.log(np.count_nonzero(weights, axis=1) / x)
    # The gap shrinks as 1 / x in the far tail: its logarithm is found to a relative error.
    gap, step = 0.5 * (low + high), np.inf
    while np.abs(step).max() > _GAP:
        doubled = 2.0 * weights * np.exp(gap)[:, None]
        terms = weights / (rest + doubled)
        total = terms.sum(axis=1)
        excess = np.log(total / x)
        low, high = np.where(excess > 0.0, gap, low), np.where(excess > 0.0, high, gap)
        # Newton's step, or the middle where that would leave the bounds.
        new = gap + excess * total / (terms * doubled / (rest + doubled)).sum(axis=1)
        new = np.where((low <= new) & (new <= high), new, 0.5 * (low + high))
        gap, step = new, new - gap
    gaps: Vector = np.exp(gap)
    return gaps


@dataclass(frozen=True)
class SmallestPvalue:
    """The law of -log10 min_k p_k of independent uniform p-values (Sidak 1967).

    Parameters
    ----------
    stages : int
        Number of p-values, K.

    Examples
    --------
    >>> round(SmallestPvalue(2).sf(2.0), 4)
    0.0199
    """

    stages: int

    def sf(self, statistic: float) -> float:
        """Probability of a value at least as large."""
        # 1 - (1 - 10^-s)^M by expm1 and log1p, or a small p-value would lose its digits; the bound
        # of 1 - 1e-16 keeps log1p away from log 0.
        return -math.expm1(self.stages * math.log1p(-min(10.0**-statistic, 1.0 - 1e-16)))

    def draws(self, rng: np.random.Generator, size: int) -> Vector:
        """Independent values, shape (size,)."""
        # 1 - U lies in (0, 1], so that no logarithm is infinite.
        logs = np.log(1.0 - rng.random((size, self.stages)))
        values: Vector = -logs.min(axis=1) / math.log(10.0)
        return values


def combine_pvalues(
    pvalues: Sequence[float], combined_by: CombinedBy
) -> tuple[float, Distribution]:
    """One statistic of the p-values of a chain, and its law if all of its hypotheses are true.

    The p-value of every stage is uniform or larger given those before it, so that this law is that
    of the statistic or larger.

    Parameters
    ----------
    pvalues : sequence of float
        P-values of every stage, greater than 0.
    combined_by : {"fisher", "sidak"}
        The statistic: -2 sum_k log p_k (Fisher 1932), or -log10 min_k p_k (Sidak 1967).

    Returns
    -------
    float
        The statistic.
    Distribution
        Its law.

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
    stages = len(pvalues)
    if combined_by == "fisher":
        # Fisher (1925): a chi-square law of 2 M degrees of freedom, which is a gamma law.
        return -2.0 * sum(map(math.log, pvalues)), GammaDistribution(2.0 * stages, 4.0 * stages)
    # Sidak (1967): P(min p <= a) = 1 - (1 - a)^M.
    return -math.log10(min(pvalues)), SmallestPvalue(stages)


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
        of_one = np.array([statistic]), distribution.values[:, None], dtype, np.array([rounding])
        return float(pvalues(*of_one)[0])
    # The tail begins where rounding may have moved the statistic from: it never makes p smaller.
    return max(float(distribution.sf(statistic - rounding)), _SMALLEST)


def pvalues(statistics: Vector, replicates: Vector, dtype: DTypeLike, rounding: Vector) -> Vector:
    """As `pvalue`, of several statistics with replicates in the columns.

    Parameters
    ----------
    statistics : ndarray, shape (G,)
        The observed values.
    replicates : ndarray, shape (b, G)
        Replicates of each.
    dtype : dtype
        The precision in which replicates were computed.
    rounding : ndarray, shape (G,)
        Absolute differences up to which values are equal.

    Returns
    -------
    ndarray, shape (G,)

    Raises
    ------
    DataError
        A value is NaN or infinite.
    """
    check_no_overflow(statistics, replicates)
    size = math.sqrt(np.finfo(dtype).eps) * np.abs(statistics)
    # Ties count against the data: rounding must not turn equal statistics into evidence.
    least = statistics - np.maximum(rounding, size)
    counts = np.count_nonzero(replicates >= least, axis=0)
    # Phipson and Smyth (2010): the data count as one, so that p is never 0 and the test keeps its
    # level.
    p: Vector = (1 + counts) / (len(replicates) + 1)
    return p


def mixture_pvalues(
    statistics: Vector, mixtures: Sequence[ChiSquareMixture], rounding: Vector
) -> Vector:
    """As `pvalue`, of several statistics with a mixture each, in one call."""
    check_no_overflow(statistics)
    return np.maximum(upper_tails(mixtures, statistics - rounding), _SMALLEST)


def monte_carlo_error(p: float, n_resamples: int) -> float:
    """Standard error of a p-value that comes from `n_resamples` random replicates."""
    # Replicates exceed the data independently, so that their number is binomial.
    return math.sqrt(p * (1.0 - p) / n_resamples)


@dataclass(frozen=True)
class Permutation:
    """Replicates by permuting the rows of every variable but the first.

    Parameters
    ----------
    n_resamples : int, optional
        Number of replicates.
    within : {"auto", "all", "groups"}, optional
        Permute over all rows, which must fit in memory, or within groups of rows that lie far apart
        in the data, which streams and is also exact. "auto" takes all rows if there are at most
        32,768 and one task can hold them in half of the memory.
    group_rows : int, optional
        Approximate number of rows in a group.

    Raises
    ------
    InvalidArgumentError
        `n_resamples` is no positive integer, `group_rows` is less than 2, or `within` is no such
        name.

    References
    ----------
    .. [1] J. Hemerik, J. Goeman. Exact testing with random permutations. TEST 27, 2018.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x, noise = np.random.default_rng(0).standard_normal((2, 500))
    >>> null = Permutation(999, within="groups", group_rows=100)
    >>> result = dhsic.independence_test(x, x**2 + noise, null=null, rng=0)
    >>> result.pvalue < 0.01
    True
    """

    n_resamples: int = 250
    within: Within = "auto"
    group_rows: int = 4096

    name: ClassVar[str] = "permutation"

    def __post_init__(self) -> None:
        check_integer("n_resamples", self.n_resamples, minimum=1)
        check_integer("group_rows", self.group_rows, minimum=2)
        check_choice("within", self.within, get_args(Within))


def draw_permutations(
    seed: int, start: int, rows: int, n_resamples: int, n_variables: int
) -> NDArray[np.intp]:
    """Independent permutations of a group of rows for every variable but the first.

    Parameters
    ----------
    seed : int
        The seed of the test.
    start : int
        First row of the group in the whole data set.
    rows : int
        Rows of the group.
    n_resamples, n_variables : int
        Replicates and variables.

    Returns
    -------
    ndarray of int, shape (n_resamples, n_variables - 1, rows)
        More replicates leave the first ones as they are.

    References
    ----------
    .. [1] N. Pfister, P. Buehlmann, B. Schoelkopf, J. Peters. Kernel-based tests for joint
       independence. Journal of the Royal Statistical Society B 80, 2018, section 3.

    Examples
    --------
    >>> draw_permutations(seed=0, start=0, rows=4, n_resamples=2, n_variables=3).shape
    (2, 2, 4)
    >>> sorted(draw_permutations(0, 0, 4, 1, 2)[0, 0].tolist())
    [0, 1, 2, 3]
    """
    # The key is the first row of the group, so that it draws the same in any task and on any
    # worker.
    rng = generator(seed, "permutation", start)
    order = np.broadcast_to(np.arange(rows), (n_resamples, n_variables - 1, rows))
    # Rows of a variable move as wholes: its columns permuted one by one would lose their own
    # dependence, and the null hypothesis would say more than independence.
    return rng.permuted(order, axis=-1)


@dataclass(frozen=True)
class Shifts:
    """Replicates by cyclic shifts of one variable within groups of rows.

    Rows are divided into groups of b rows that lie far apart in the data, each in a random order.
    Replicate k shifts the last variable by k rows within all groups at once. These permutations
    form a group that contains the identity, so the p-value #{k : T_k >= T_0} / b is exact for
    exchangeable rows, for all data and any number of rows [1]_ [2]_. If b is less than
    `n_resamples`, all variables but the first are also permuted at random within groups,
    independently, and shifted again: r such cosets and the data give (r + 1) b replicates, which
    are exact as well. One Fourier transform computes all shifts, so replicates cost little time.

    For three or more variables every coset permutes all variables but the first. Only cosets then
    resolve a dependence that does not involve the last variable, to about 1 / (r + 1): `Chain` is
    the better choice.

    Rows must be exchangeable: for serial data, such as time series, p-values are too small.

    Parameters
    ----------
    n_resamples : int, optional
        The least number of replicates, including the data; the smallest p-value is 1 over the
        number of replicates. A test takes all shifts of a group, which are often more, at no
        further cost.

    Raises
    ------
    InvalidArgumentError
        The number is less than 2.

    References
    ----------
    .. [1] J. Hemerik, J. Goeman. Exact testing with random permutations. TEST 27, 2018.
    .. [2] N. Koning, J. Hemerik. More efficient exact group invariance testing: using a
       representative subgroup. Biometrika 111, 2024.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x, noise = np.random.default_rng(0).standard_normal((2, 500))
    >>> result = dhsic.independence_test(x, x**2 + noise, null=Shifts(10_000), rng=0)
    >>> result.pvalue < 0.01
    True
    """

    n_resamples: int = 1000

    name: ClassVar[str] = "shifts"

    def __post_init__(self) -> None:
        check_integer("n_resamples", self.n_resamples, minimum=2)


Resampling = Permutation | Shifts
"""Nulls that are made of replicates, which combinations of kernels share."""


@dataclass(frozen=True)
class Chain:
    """Joint independence as a chain of exact tests of two variables each.

    X_1, ..., X_M are jointly independent if and only if X_m is independent of (X_1, ..., X_{m-1})
    for m = 2, ..., M. Stage m tests two variables by shifts of X_m, see `Shifts`. It tries the
    earlier variables joined to one variable of all their columns, each in its own unit, the product
    of their kernels, and each earlier variable alone. The p-value p_m satisfies P(p_m <= a |
    earlier stages) <= a, so that the combination of p-values is exact, also for discrete data. The
    result shows at which variable the dependence enters.

    Parameters
    ----------
    n_resamples : int, optional
        The least number of replicates of a stage, for each of the M - 1 stages.
    combined_by : {"sidak", "fisher"}, optional
        "sidak" takes the smallest p-value of the stages, which can be as small as 1 / n_resamples,
        and has the most power if one stage shows dependence. "fisher" takes the sum of the
        logarithms of the p-values, and has the most power if several stages show dependence.

    Raises
    ------
    InvalidArgumentError
        An option cannot be used.

    References
    ----------
    .. [1] R. A. Fisher. Statistical methods for research workers. Oliver and Boyd, 1925.
    .. [2] Z. Sidak. Rectangular confidence regions for the means of multivariate normal
       distributions. Journal of the American Statistical Association 62, 1967.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x, y = np.random.default_rng(0).standard_normal((2, 500))
    >>> result = dhsic.independence_test(x, y, np.sign(x * y), null=Chain(2000), rng=0)
    >>> result.pvalue < 0.01, len(result.stages)
    (True, 2)
    """

    n_resamples: int = 1000
    combined_by: CombinedBy = "sidak"

    name: ClassVar[str] = "chain"

    def __post_init__(self) -> None:
        check_integer("n_resamples", self.n_resamples, minimum=2)
        check_choice("combined_by", self.combined_by, get_args(CombinedBy))


@dataclass(frozen=True)
class FromReplicates(ABC):
    """Base class of null distributions that are computed from replicates of the statistic.

    Every estimator that supports the null `replicates` supports the derived null. A derived class
    is a frozen dataclass with a `name` and a method `distribution`; `dhsic.register` registers its
    name. The test takes one kernel for each variable.

    Parameters
    ----------
    n_resamples : int, optional
        Number of replicates.

    Raises
    ------
    InvalidArgumentError
        `n_resamples` is no positive integer.

    References
    ----------
    .. [1] A. Gretton, K. Fukumizu, C. H. Teo, L. Song, B. Schoelkopf, A. J. Smola. A kernel
       statistical test of independence. NeurIPS 2007.

    Examples
    --------
    A normal law with the mean and the standard deviation of 99 permutations:

    >>> from dataclasses import dataclass
    >>> from statistics import NormalDist
    >>> import numpy as np
    >>> import dhsic
    >>> class Bell:
    ...     def __init__(self, values):
    ...         self.law = NormalDist(values.mean(), values.std())
    ...     def sf(self, statistic):
    ...         return 1.0 - self.law.cdf(statistic)
    ...     def draws(self, rng, size):
    ...         return rng.normal(self.law.mean, self.law.stdev, size)
    >>> @dataclass(frozen=True)
    ... class Fitted(dhsic.FromReplicates):
    ...     name = "fitted-normal"
    ...     def distribution(self, values):
    ...         return Bell(values)
    >>> x = np.random.default_rng(0).standard_normal(100)
    >>> dhsic.independence_test(x, x**2, null=Fitted(99), rng=0).pvalue < 1e-6
    True
    """

    n_resamples: int = 999

    name: ClassVar[str]

    def __post_init__(self) -> None:
        check_integer("n_resamples", self.n_resamples, minimum=1)

    @property
    def replicates(self) -> Permutation | Shifts:
        """The null that draws the replicates; by default `Permutation`."""
        return Permutation(self.n_resamples)

    @abstractmethod
    def distribution(self, values: NDArray[np.float64]) -> Distribution:
        """The law of the statistic.

        Parameters
        ----------
        values : ndarray, shape (b,)
            The replicates, without the observed value.

        Returns
        -------
        Distribution
            With ``sf(statistic)``, the probability of a value at least as large, and
            ``draws(rng, size)``, values of this law.
        """


@dataclass(frozen=True)
class Spectral:
    """The law of a weighted sum of squared normals, with eigenvalues as weights: an approximation.

    This law is the limit of the statistic under the null as n grows. At a few hundred rows its far
    tail is somewhat heavier than that of permutations.

    The approximation fails if values are rare, kernels narrow or tails heavy, so that the limit is
    far away. With landmarks, with weights, and with three variables at shared frequencies, the law
    is estimated from the rows as they are paired: at level 5 % and 1,000 rows 66 % of pairs of 2 %
    dummies are rejected. In these cases it also rejects too rarely, or never, if kernels vary in
    far more directions than there are rows. In other cases the law is estimated from the marginals:
    if fewer than 4 rows show how the variables vary together, it rejects up to 11 % at level 5 %,
    and 6 % at level 1 %; with features that vary in more than n^2 / 50 directions, 30 to 40 %. An
    `ApproximateNullWarning` reports all these cases. `Shifts` and `Permutation` are exact.

    Parameters
    ----------
    method : {"inversion", "simulation"}, optional
        Compute the tail of the mixture, accurately at any distance, or count draws from the
        mixture.
    n_resamples : int, optional
        Number of draws, only for "simulation".

    Raises
    ------
    InvalidArgumentError
        `method` is no such name, or `n_resamples` is no positive integer.

    References
    ----------
    .. [1] Q. Zhang, S. Filippi, A. Gretton, D. Sejdinovic. Large-scale kernel methods for
       independence testing. Statistics and Computing 28, 2018, theorem 1.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x, noise = np.random.default_rng(0).standard_normal((2, 500))
    >>> null = Spectral()
    >>> result = dhsic.independence_test(x, x**2 + noise, estimator="v-hsic", null=null, rng=0)
    >>> result.pvalue < 0.01
    True
    """

    method: MixtureMethod = "inversion"
    n_resamples: int = 10_000

    name: ClassVar[str] = "spectral"

    def __post_init__(self) -> None:
        check_choice("method", self.method, get_args(MixtureMethod))
        check_integer("n_resamples", self.n_resamples, minimum=1)

    def distribution(self, mixture: ChiSquareMixture, seed: int) -> Distribution:
        """The mixture itself, or draws from it.

        Parameters
        ----------
        mixture : ChiSquareMixture
            The limit of the statistic.
        seed : int
            The seed of the test.

        Returns
        -------
        Distribution
        """
        if self.method == "inversion":
            return mixture
        # Zhang et al. (2018), section 2.4.2, simulate the law; inversion has no Monte Carlo error.
        return Replicates(mixture.draws(generator(seed, "simulation"), self.n_resamples))


@dataclass(frozen=True)
class Gamma:
    """A gamma distribution with the mean and the variance of the statistic: an approximation.

    The null needs no replicates. Its p-values are good approximations down to about 0.01, for
    distance covariance 0.05; smaller p-values are too small, and `Spectral` is more accurate.

    The approximation fails if values are rare, kernels narrow or tails heavy. With landmarks, and
    with three variables at shared frequencies, the law is estimated from the rows as they are
    paired, and fails like `Spectral`: at level 5 % and 1,000 rows 66 % of pairs of 2 % dummies are
    rejected. In these cases it also rejects too rarely, or never, if kernels vary in far more
    directions than there are rows. In other cases the law is estimated from the marginals: if fewer
    than 4 rows show how the variables vary together, it rejects up to 13 % at level 5 %, and 10 %
    at level 1 %. An `ApproximateNullWarning` reports these cases. `Shifts` and `Permutation` are
    exact.

    References
    ----------
    .. [1] A. Gretton, K. Fukumizu, C. H. Teo, L. Song, B. Schoelkopf, A. J. Smola. A kernel
       statistical test of independence. NIPS 2007, equation 9.
    .. [2] N. Pfister, P. Buehlmann, B. Schoelkopf, J. Peters. Kernel-based tests for joint
       independence. JRSS B 80, 2018, section 3.3.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x, noise = np.random.default_rng(0).standard_normal((2, 500))
    >>> result = dhsic.independence_test(x, x**2 + noise, estimator="v-hsic", null=Gamma(), rng=0)
    >>> result.pvalue < 0.01
    True
    """

    name: ClassVar[str] = "gamma"


@dataclass(frozen=True)
class Normal:
    """A normal distribution, as the mean over many blocks has under the null: an approximation.

    The approximation fails if few rows show how the variables vary together, since the statistics
    of blocks are then far from normal: with fewer such rows than 2 sqrt(number of blocks) it
    rejects up to 6 % at level 1 %, and with none it hardly ever rejects. In other cases it rejects
    up to 2 % at level 1 %, since blocks are few. An `ApproximateNullWarning` reports this. Other
    estimators support exact nulls.

    Parameters
    ----------
    variance : {"direct", "permutation", "empirical"}, optional
        Where the variance under the null comes from: the moments of the Gram matrices of every
        block, block statistics with permuted rows, or the block statistics themselves, which
        dependence inflates.

    Raises
    ------
    InvalidArgumentError
        `variance` is no such name.

    References
    ----------
    .. [1] Q. Zhang, S. Filippi, A. Gretton, D. Sejdinovic. Large-scale kernel methods for
       independence testing. Statistics and Computing 28, 2018, section 3.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x, noise = np.random.default_rng(0).standard_normal((2, 5000))
    >>> null = Normal("permutation")
    >>> result = dhsic.independence_test(x, x**2 + noise, estimator="block-hsic", null=null, rng=0)
    >>> result.pvalue < 0.01
    True
    """

    variance: Variance = "direct"

    name: ClassVar[str] = "normal"

    def __post_init__(self) -> None:
        check_choice("variance", self.variance, get_args(Variance))


@dataclass(frozen=True)
class ChiSquare:
    """The chi-square law of a statistic that is divided by its own covariance: an approximation.

    This law is the limit as n grows, with as many degrees of freedom as the statistic has terms; if
    the covariance is regularised, it is a weighted sum of squared normals. The null needs no
    replicates. The approximation fails if a category is rare, rows are few, variables many or
    locations far from the rows: at level 1 % a test of three normal variables with 200 rows rejects
    5 %; at level 5 % a test of two variables of five columns at optimised locations, with 2,000
    rows, rejects 15 %. An `ApproximateNullWarning` says that the terms of the statistic are too
    skew at its locations. In a study of 180 tests at optimised locations of normal variables 115
    warned, of which 19 % rejected at level 5 %; of the others 2 % rejected. `Shifts` and
    `Permutation` are exact.

    References
    ----------
    .. [1] W. Jitkrittum, Z. Szabo, A. Gretton. An adaptive test of independence with analytic
       kernel embeddings. ICML 2017, theorem 5.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x, noise = np.random.default_rng(0).standard_normal((2, 1000))
    >>> null = ChiSquare()
    >>> result = dhsic.independence_test(x, x**2 + noise, estimator="nfsic", null=null, rng=0)
    >>> result.pvalue < 0.01
    True
    """

    name: ClassVar[str] = "chi-square"


@dataclass(frozen=True)
class Martingale:
    """The standard normal law of a self-normalised martingale, with no replicates: approximate.

    Rows are put in an order that the seed draws; another seed is another order, with another
    p-value. With the centred Gram matrices K and L of two variables, M_i = sum_{j<i} K_ij L_ij - c
    compares row i with those before it [1]_, where c, their mean over all permutations, is 0 in
    [1]_. Under independence the mean of M_i given the rows before is 0, so that the statistic
    sum_i M_i / sqrt(sum_i M_i^2) is standard normal in the limit of many rows, and of many
    directions in which the kernels vary. Large values are evidence. Features take two passes and no
    Gram matrix. Rows must be exchangeable, as for `Shifts`, which are exact and as quick for one
    pair of variables; strata, groups and series are refused.

    Of kernels that vary in few directions fewer are rejected [2]_: with four features of either
    variable 2.5, 0.45, 0.04 and 0.003 % of a million data sets of 1,000 rows at levels 5, 1, 0.1
    and 0.01 %. Below a p-value of 0.0001 the law is not known. It fails where values are rare: at
    1,000 rows and level 1 % of values that are mostly 0 it rejects 40 %, and of 5 % dummies 9 %.
    Where 64 rows show how the variables vary together it rejects 0.08 % at level 0.1 % and 0.025 %
    at 0.01 %; `dhsic.ApproximateNullWarning` tells of fewer.

    References
    ----------
    .. [1] F. Laumann, Z. Liu, M. Barahona. A martingale kernel independence test. arXiv 2605.22549,
       2026.
    .. [2] D. Dickey, W. Fuller. Distribution of the estimators for autoregressive time series with
       a unit root. JASA 74, 1979: the law of a single direction.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x, noise = np.random.default_rng(0).standard_normal((2, 500))
    >>> null = Martingale()
    >>> result = dhsic.independence_test(x, x**2 + noise, estimator="v-hsic", null=null, rng=0)
    >>> result.pvalue < 0.01
    True
    """

    name: ClassVar[str] = "martingale"

    @property
    def distribution(self) -> Distribution:
        """The standard normal law."""
        return StudentT(math.inf)


@dataclass(frozen=True)
class TimeOrder:
    """Declare that rows are a time series: the null shifts the series, and does not permute rows.

    Replicates compare the first variable with the last one shifted around by a multiple of L rows,
    so that both keep their own serial dependence [1]_. These shifts are a group that contains the
    identity. The p-value is asymptotic: it is valid for series that are much longer than their
    memory. It assumes that one variable of each pair is stationary (its law does not change with
    time, except within the given period), and that distant rows of this variable are nearly
    independent. With a trend in both variables the p-value is not valid: take differences first.

    There are at most n / L shifts, so the smallest p-value is at least L / n.

    Parameters
    ----------
    lag : int, optional
        The least L. It should exceed the length of the memory of the series, since shorter shifts
        keep a part of the dependence, which costs power; a longer lag than needed leaves fewer
        shifts. The default is about sqrt(n) / 4.
    period : int, optional
        Rows of a cycle, such as 24 for hourly data. L is a multiple of the period, so that the
        cycle stays in place.

    Raises
    ------
    InvalidArgumentError
        A number is less than 1, or the lag is given and less than the period.

    References
    ----------
    .. [1] K. Chwialkowski, A. Gretton. A kernel independence test for random processes. ICML 2014,
       section 4.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x = np.cumsum(np.random.default_rng(0).standard_normal((600, 2)), axis=0)
    >>> x[1:] -= 0.9 * x[:-1]  # series that remember some rows
    >>> result = dhsic.independence_test(*x.T, order=dhsic.TimeOrder(lag=10), rng=0)
    >>> result.pvalue > 0.05
    True
    """

    lag: int | None = None
    period: int = 1

    def __post_init__(self) -> None:
        check_integer("period", self.period, minimum=1)
        if self.lag is not None:
            check_integer("lag", self.lag, minimum=1)
            if self.lag < self.period:
                msg = (
                    f"lag must be at least the period, got {self.lag} and {self.period}: leave the "
                    "lag out, or raise it"
                )
                raise InvalidArgumentError(msg)

    def least_lag(self, n: int) -> int:
        """The least L of a series of n rows.

        Examples
        --------
        >>> TimeOrder().least_lag(10_000), TimeOrder(period=24).least_lag(10_000)
        (25, 25)
        """
        return max(self.period, round(n**0.5 / 4)) if self.lag is None else self.lag


class Strength(NamedTuple):
    """How far the strongest of several statistics lies above its replicates."""

    statistic: float
    """max_c (T_c - mean of the replicates of c) / their standard deviation."""
    replicates: Vector
    """The same of every replicate among all others and the data, shape (b,)."""

    @classmethod
    def largest(cls, several: Sequence[Strength]) -> Strength:
        """The largest of several tests that share their replicates."""
        replicates = np.maximum.reduce([strength.replicates for strength in several])
        return cls(max(strength.statistic for strength in several), replicates)


class Aggregated(NamedTuple):
    """A statistic that looks at all kernels, and what each of them says by itself."""

    statistic: float
    """The score of the data."""
    distribution: Replicates
    """The scores of the replicates."""
    rounding: float
    """Differences of the statistic up to it are rounding."""
    strongest: int
    """The number of the combination that decided."""
    standardised: Vector
    """(T - mean) / standard deviation of the replicates, shape (G,)."""
    pvalues: Vector
    """P-values of every combination by itself, not corrected for the choice, shape (G,)."""
    strength: Strength
    """The strongest statistic, which grows on where the score, a rank, has reached its end."""


class _Scores(NamedTuple):
    """One number a row; the larger, the more evidence."""

    values: Vector
    """Row 0 is the data."""
    rounding: float
    """Differences up to it are rounding."""
    strongest: int
    """The number of the combination that gave that of the data."""
    largest: float
    """Its own."""

    def beside(
        self, each: Vector, errors: Vector, numbers: NDArray[np.intp], *, soft: bool
    ) -> _Scores:
        """By some more columns, shape (b + 1, g): parts are joined as they come, and none held."""
        join, best = (np.logaddexp if soft else np.maximum), int(each[0].argmax())
        values = join(self.values, join.reduce(each, axis=1))
        joined = self._replace(values=values, rounding=max(self.rounding, float(errors.max())))
        largest = float(each[0, best])
        if largest <= self.largest:
            return joined
        return joined._replace(strongest=int(numbers[best]), largest=largest)


def aggregate(
    statistics: Vector,
    replicates: Vector,
    how: Aggregate,
    rounding: Vector,
    dtype: DTypeLike = np.float64,
    *,
    reference: int | list[int] = 0,
    share: float = 0.0,
) -> Aggregated:
    """Compare one score of all statistics of the data with the same score of every replicate.

    With "max" or "min-p" and a share the scores are ranks among b + 1 rows, which end where the
    data lie above all replicates: the score of strong evidence is -log10(1 / (2 (b + 1) share)),
    whatever its strength. `Aggregated.strength` goes on growing.

    Data and replicates are b + 1 rows, exchangeable under the null hypothesis. Every score is a
    function of its row and of the set of all rows, so the rank of the data's is uniform and the
    test exact, however the combinations depend on each other (Westfall and Young 1993, section
    2.3).

    Parameters
    ----------
    statistics : ndarray, shape (G,)
        Statistics of the data.
    replicates : ndarray, shape (b, G)
        Under the null hypothesis; a row is one draw for all combinations.
    how : {"soft", "max", "min-p"}
        The score of a row in a combination: its distance z from the mean of the other rows in
        their standard deviations; or the number of rows below it, as in a p-value, where ties
        between combinations are broken by that distance. That of a row is the largest of these,
        or with "soft" log sum_c w_c exp(2 z_c).
    rounding : ndarray, shape (G,)
        Differences of the statistics up to it are rounding.
    dtype : dtype, optional
        The precision in which they were computed, see `pvalue`.
    reference : int or list of int, optional
        The number of a combination that is weighed against all the others together, or of several.
    share : float, optional
        Share of the weights of "soft", or of the level, that the reference has to itself; with 0 it
        is one of all. With "soft" the first of several has the most, of two 3/5 of the weight. With
        "max" and "min-p" the ranks of a row by the reference and by the others become p-values p
        and q, and its score is -log10 of the smaller of p / share and q / (1 - share).

    Returns
    -------
    Aggregated

    Raises
    ------
    DataError
        A value is NaN or infinite.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> shared = rng.chisquare(1, size=(99, 2))
    >>> found = aggregate(np.array([1.0, 20.0]), shared, "max", np.zeros(2))
    >>> found.strongest, bool(found.distribution.sf(found.statistic) <= 0.05)
    (1, True)
    """
    count = len(statistics)
    soft, first = how == "soft", np.zeros(count, np.bool_)
    first[reference] = share > 0.0 and count > np.size(reference) and not soft
    weights = _combination_weights(count, reference, share)
    own, strongest = np.empty(count), np.full(len(replicates), -np.inf)
    parts = [_Scores(np.full(len(replicates) + 1, -np.inf), 0.0, 0, -np.inf)] * 2
    # Of millions of replicates each array takes as much as all of them: a few are of a bunch.
    step = max(_BUNCH_BYTES // (8 * (len(replicates) + 1)), 1)
    for start in range(0, count, step):
        columns = slice(start, start + step)
        # Column after column, which are reduced in half the time.
        rows = np.asfortranarray(np.vstack([statistics[columns], replicates[:, columns]]))
        distances, errors, ties, spread = standardised(rows, rounding[columns], dtype)
        # Of the data by itself: the formula of all rows cancels its digits where it lies far out.
        rest, told = rows[1:], spread > ties
        # Where all replicates are equal their deviation is 0, and the distance would be infinite.
        least = math.sqrt(np.finfo(np.float64).eps) * spread
        deviation = np.where(told, np.maximum(rest.std(axis=0), least), 1.0)
        own[columns] = np.where(told, (rows[0] - rest.mean(axis=0)) / deviation, 0.0)
        np.maximum(strongest, distances[1:].max(axis=1), out=strongest)
        if soft:
            # log sum_c w_c exp(2 z_c) (Biggs et al. 2023, section 3). No derivative by a distance
            # is larger than the sharpness, and all together are no larger.
            distances *= _SHARPNESS
            distances += np.log(weights[columns])
            errors *= _SHARPNESS
        elif how == "min-p":
            # Ranks tie at the top; a fraction below 1 orders rows of one rank by their distance.
            # The slope of the arctangent is at most 1, so an error counts 1 / pi at most.
            distances = _counts_below(rows, ties) + 0.5 + np.arctan(distances) / math.pi
            errors /= math.pi
        numbers = np.arange(count)[columns]
        for k, taken in enumerate((first[columns], ~first[columns])):
            if taken.any():
                some = distances[:, taken], errors[taken], numbers[taken]
                parts[k] = parts[k].beside(*some, soft=soft)
    alone, others = parts
    scores = _shared(alone, others, share) if first.any() else others
    return Aggregated(
        float(scores.values[0]),
        Replicates(scores.values[1:]),
        scores.rounding,
        scores.strongest,
        own,
        pvalues(statistics, replicates, dtype, rounding),
        Strength(float(own.max()), strongest),
    )


def standardised(
    rows: Vector, rounding: Vector, dtype: DTypeLike = np.float64
) -> tuple[Vector, Vector, Vector, Vector]:
    """Distances of every row from the mean of the others, in their standard deviations.

    Parameters
    ----------
    rows : ndarray, shape (b + 1, G)
        Statistics of the data and their replicates.
    rounding : ndarray, shape (G,)
        Differences of the statistics up to it are rounding.
    dtype : dtype, optional
        The precision in which they were computed, see `pvalue`.

    Returns
    -------
    distances : ndarray, shape (b + 1, G)
        0 where all rows of a column are equal but for rounding.
    errors, ties : ndarray, shapes (G,)
        Differences of the distances and of the rows up to it are rounding.
    spread : ndarray, shape (G,)
        Standard deviations of the rows.

    Raises
    ------
    DataError
        A value is NaN or infinite.
    """
    check_no_overflow(rows)
    # A tie is a difference below the bound on rounding, or beyond half of the digits, as in
    # `pvalue`.
    ties = np.maximum(rounding, math.sqrt(np.finfo(dtype).eps) * np.abs(rows).max(axis=0))
    # The data are one row among the others: scores of all rows are made alike, so that they stay
    # exchangeable under the null hypothesis, and the test exact.
    spread = rows.std(axis=0)
    # A column that does not vary beyond its ties is 0 in all rows, without an error.
    n, told = len(rows), spread > ties
    scale = np.where(told, spread, 1.0)
    # With z the distance from the mean of all N rows that from the others is z sqrt(N / (N - 1 -
    # z^2)).
    z = np.where(told, (rows - rows.mean(axis=0)) / scale, 0.0)
    # z^2 is at most N - 1, where all other rows are equal; rounding must not make the root
    # negative.
    distances = z * np.sqrt(n / np.maximum(n - 1 - z**2, n * np.finfo(np.float64).eps))
    return distances, np.where(told, ties, 0.0) / scale, ties, spread


def _combination_weights(count: int, reference: int | list[int], share: float) -> Vector:
    """Weights of the combinations, which add up to 1, shape (G,)."""
    parts = np.arange(np.size(reference) + 1.0, 1.0, -1.0)  # of two 3/5 and 2/5 of the share
    if share == 0.0 or count == len(parts):
        return np.full(count, 1.0 / count)
    weights = np.full(count, (1.0 - share) / (count - len(parts)))
    weights[np.atleast_1d(reference)] = share * parts / parts.sum()
    return weights


def _shared(alone: _Scores, others: _Scores, share: float) -> _Scores:
    """Scores where the reference has a share of the level to itself."""
    # A p-value over its share of the level: the smaller quotient decides, as in a weighted
    # Bonferroni test. The rank of that score among all rows makes the level exact.
    weighed = _evidence(alone, share), _evidence(others, 1.0 - share)
    # Where the data lie above all replicates in both, ranks tell no more.
    first = all(one.values[0] - one.rounding > one.values[1:].max() for one in (alone, others))
    ours, theirs = (alone.values, others.values) if first else weighed
    decided = alone if ours[0] >= theirs[0] else others
    return decided._replace(values=np.maximum(*weighed), rounding=_SAME)


def _evidence(scores: _Scores, share: float) -> Vector:
    """-log10 of the p-value of every row among all, over its share of the level.

    Half a row is taken off the rank, so that with a share of 2/3 the two never tie.
    """
    n = len(scores.values)
    # A row that lies less than the rounding below another ties with it, and does not raise its
    # rank.
    below = np.searchsorted(np.sort(scores.values), scores.values - scores.rounding)
    evidence: Vector = -np.log10((n - below - 0.5) / n / share)
    return evidence


def _counts_below(rows: Vector, ties: Vector) -> Vector:
    """How many rows lie below each, in every column."""
    columns = zip(rows.T, ties, strict=True)
    # Rows that are equal but for rounding do not lie below each other.
    return np.array([np.searchsorted(np.sort(x), x - tie) for x, tie in columns], np.float64).T


def adjust(pvalues: Vector, control: Literal["bh", "by", "bonferroni", "holm"]) -> Vector:
    """Adjust p-values: a level rejects the hypotheses whose adjusted p-value is at most the level.

    Parameters
    ----------
    pvalues : ndarray, shape (G,)
        P-value of every single hypothesis.
    control : {"bh", "by", "bonferroni", "holm"}
        Benjamini and Hochberg (1995) control the expected share of false discoveries among all,
        for independent or positively dependent tests; Benjamini and Yekutieli (2001) for any.
        Bonferroni and Holm (1979) control the probability of any false discovery; Holm rejects all
        that Bonferroni does, and more.

    Returns
    -------
    ndarray, shape (G,)

    References
    ----------
    .. [1] Y. Benjamini, Y. Hochberg. Controlling the false discovery rate. Journal of the Royal
       Statistical Society B 57, 1995.
    .. [2] Y. Benjamini, D. Yekutieli. The control of the false discovery rate in multiple testing
       under dependency. Annals of Statistics 29, 2001.
    .. [3] S. Holm. A simple sequentially rejective multiple test procedure. Scandinavian Journal of
       Statistics 6, 1979.

    Examples
    --------
    >>> import numpy as np
    >>> p = np.array([0.01, 0.02, 0.5])
    >>> adjust(p, "bonferroni"), adjust(p, "holm"), adjust(p, "bh")
    (array([0.03, 0.06, 1.  ]), array([0.03, 0.04, 0.5 ]), array([0.03, 0.03, 0.5 ]))
    """
    return adjustment(pvalues, control)(pvalues)


class Adjustment(NamedTuple):
    """How the p-values of many tests are adjusted: any of them at a time, where they are many."""

    ordered: Vector
    """All p-values, ascending."""
    steps: Vector
    """The same as adjusted."""

    def __call__(self, some: Vector) -> Vector:
        """The adjusted values of some of the p-values."""
        order, adjusted = np.argsort(some), np.empty(len(some))
        # Searches in order find their places in the cache.
        adjusted[order] = self.steps[np.searchsorted(self.ordered, some[order])]
        return adjusted

    def rejected(self, alpha: float) -> int:
        """How many adjusted p-values are at most alpha."""
        return int(np.searchsorted(self.steps, alpha, side="right"))


def adjustment(pvalues: Vector, control: Literal["bh", "by", "bonferroni", "holm"]) -> Adjustment:
    """As `adjust`, by one sort and in no more memory than twice the p-values."""
    count, ordered = len(pvalues), np.sort(pvalues)
    if control == "bonferroni":
        steps = np.full(count, float(count))
    elif control == "holm":
        # Holm (1979): the k-th smallest p-value times the hypotheses that are left.
        steps = np.arange(count, 0.0, -1.0)
    else:
        # Benjamini and Hochberg (1995); Benjamini and Yekutieli (2001) for any dependence.
        steps = np.arange(1.0, count + 1.0)
        np.divide(count, steps, out=steps)
        steps *= steps.sum() / count if control == "by" else 1.0
    steps *= ordered
    # Adjusted p-values never fall along the order: from the largest down, or from the smallest up.
    if control in ("bh", "by"):
        np.minimum.accumulate(steps[::-1], out=steps[::-1])
    else:
        np.maximum.accumulate(steps, out=steps)
    return Adjustment(ordered, np.minimum(steps, 1.0, out=steps))


def normal_pvalues(statistics: NDArray[np.floating[Any]]) -> Vector:
    """Upper-tail p-values of many statistics by the standard normal law, never 0."""
    p = -statistics.astype(np.float64)
    scipy.special.ndtr(p, out=p)
    return np.maximum(p, _SMALLEST, out=p)


def step_down(
    statistics: Vector, replicates: Vector, rounding: Vector, dtype: DTypeLike = np.float64
) -> Vector:
    """Adjusted p-values by the maximum of standardised statistics, step by step.

    The largest statistic is compared with the largest of all in every replicate, the next with the
    largest of the others, and so on, so that dependence between the tests costs nothing: Westfall
    and Young (1993), algorithm 4.1, with the maximum in place of the smallest p-value. It controls
    the probability of any false discovery. Data and replicates are standardised by the mean and
    the standard deviation of the other rows, as in `aggregate`.

    Parameters
    ----------
    statistics : ndarray, shape (G,)
        Statistics of the data.
    replicates : ndarray, shape (b, G)
        Under the null hypothesis; a row is one draw for all tests.
    rounding : ndarray, shape (G,)
        Differences of the statistics up to it are rounding.
    dtype : dtype, optional
        The precision in which they were computed, see `pvalue`.

    Returns
    -------
    ndarray, shape (G,)
        At least 1 / (b + 1).

    Raises
    ------
    DataError
        A value is NaN or infinite.

    Examples
    --------
    >>> import numpy as np
    >>> replicates = np.random.default_rng(0).chisquare(1, size=(99, 3))
    >>> step_down(np.array([0.5, 30.0, 20.0]), replicates, np.zeros(3))
    array([0.48, 0.01, 0.01])
    """
    distances, errors, *_ = standardised(np.vstack([statistics, replicates]), rounding, dtype)
    order = np.argsort(-distances[0], kind="stable")
    # From the weakest upwards, so that one cumulative maximum serves all steps.
    upwards = np.maximum.accumulate(distances[:, order[::-1]], axis=1)
    largest_left = upwards[1:, ::-1]
    reached = largest_left >= distances[0, order] - errors[order]
    # The data are one of the b + 1 rows, as in every p-value of replicates.
    steps = (1.0 + np.count_nonzero(reached, axis=0)) / len(distances)
    # A step is not rejected before those above it, so adjusted p-values never fall along the order.
    adjusted: Vector = np.maximum.accumulate(steps)[np.argsort(order)]
    return adjusted


class KernelMoments(NamedTuple):
    """Moments of the kernel k(x, x') of a variable between two of its rows.

    With A(x, x') = k(x, x') - E k(x, .) - E k(., x') + E k, the centred kernel.
    """

    mean: float
    """E k."""
    square: float
    """E A^2, 0 where the rows show no variation."""
    cube: float
    """E A^3."""
    norm: float
    """E k(x, x) - E k."""
    alike: bool = True
    """Whether k(x, x) is the same for all rows, as of radial kernels and of categories."""


class JointSpread(NamedTuple):
    """How much of their joint variation a sample of independent variables shows.

    With xi the centred product of the features of a row, for two variables that of both about
    their means, and h = <xi, xi'> of two rows.
    """

    rows: float
    """n (E h^2)^(3/2) / |E h^3|: about n p q for two dummies with few ones, of shares p and q."""
    directions: float
    """(E |xi|^2)^2 / E h^2: in how many the features vary, as if in all of them alike."""
    certain: bool = True
    """Whether few rows mean rare values or narrow kernels, and not extreme ones."""


@dataclass(frozen=True)
class Needs:
    """Condition of an approximate null distribution on the data.

    Parameters
    ----------
    rows : float
        Rows that show the joint variation.
    meaningless : float, optional
        Fewer rows than these leave it without any meaning.
    directions : float, optional
        The most in which features may vary.
    crowded : str, optional
        Consequence beyond the limit.
    remedy : str, optional
        Advice that ends the message.
    """

    rows: float
    meaningless: float = 0.0
    directions: float = math.inf
    crowded: str = "it rejects too rarely"
    remedy: str = "take null='auto' in tests of independence, or null='permutation': both are exact"


@np.errstate(all="ignore")
def kernel_moments(gram: NDArray[np.floating[Any]]) -> KernelMoments:
    """The moments of a kernel, from its Gram matrix (s, s) of rows of one variable.

    Pairs of a row with itself are left out. They stay where most rows equal another one: a row
    that equals none then has a value that is rare in the data, and meets it in them.
    """
    s = len(gram)
    centred = np.array(gram, np.float64)
    norms = centred.diagonal().copy()
    largest = np.float64(np.abs(norms).max())
    # |phi(x) - phi(z)|^2 = k(x, x) + k(z, z) - 2 k(x, z) is 0 where all three agree.
    equal = np.abs(centred - norms) <= _EQUAL * largest
    equal &= np.abs(centred - norms[:, None]) <= _EQUAL * largest
    whole = bool((equal.sum(axis=1) > 1).mean() >= 0.5)
    # A row without itself meets s - 1 others.
    count = s if whole else s - 1
    np.fill_diagonal(centred, norms if whole else 0.0)
    means = centred.sum(axis=1) / count
    mean = float(means.mean())
    # A_ij = k_ij - mean_i - mean_j + mean, in place, since s^2 entries are many.
    centred -= means[:, None]
    centred -= means - mean
    if not whole:
        # Centring wrote on the diagonal, which takes no part.
        np.fill_diagonal(centred, 0.0)
    squares = centred**2
    square = float(squares.sum()) / (s * count)
    # sum A^3 = <A^2, A>, without a third array of this size.
    cube = float(np.vdot(squares, centred)) / (s * count)
    # Variation below the rounding of the squared kernel is none.
    if square <= _UNSEEN * largest**2:
        square = cube = 0.0
    alike = bool(np.ptp(norms) <= _ALIKE * largest)
    return KernelMoments(mean, square, cube, float(norms.mean()) - mean, alike)


@np.errstate(all="ignore")
def joint_spread(moments: Sequence[KernelMoments], n: int) -> JointSpread:
    """Spread on n rows of independent variables, from the moments of the kernel of each.

    The limits that approximate nulls take for the law of a statistic know E h^2. Its third cumulant
    holds E h^3 / n besides, which is what they leave out, and which is large where h is, in few
    pairs of rows: for rare values and narrow kernels.

    Parameters
    ----------
    moments : sequence of KernelMoments
        One a variable, two or more. Means of 0 leave the term of all variables together.
    n : int
        Rows of the data.

    Returns
    -------
    JointSpread
        Without any rows where a kernel shows no variation; without limits where the moments
        overflow, as the statistic then does, which the test refuses.
    """
    means, squares, cubes, norms = np.transpose(
        [moments_of_kernel[:4] for moments_of_kernel in moments]
    )
    # xi centres the product of the features: sets of two variables and more are left.
    pairs = (squares, means**2), (cubes, means**3), (norms, means)
    square, cube, norm = (expanded(*both)[0] for both in pairs)
    # Moments that overflow tell nothing here; the statistic itself is checked for it.
    if not np.isfinite([square**1.5, cube, norm**2]).all():
        return JointSpread(math.inf, 0.0)
    if square == 0.0:
        return JointSpread(0.0, 0.0)
    # E h^3 / n against (E h^2)^1.5: the part of the third cumulant that the limits leave out.
    rows = n * square**1.5 / abs(cube) if cube else math.inf
    return JointSpread(
        float(rows),
        float(norm**2 / square),
        all(moments_of_kernel.alike for moments_of_kernel in moments),
    )


def expanded(about: Iterable[Any], centres: Iterable[Any]) -> tuple[Any, Any]:
    """prod_m (about_m + c_m) - prod_m c_m: what is not linear in about_m, and what is.

    The first is prod_m k_m - sum_m k_m prod_{l != m} c_l + (M-1) prod_l c_l of k_m = about_m + c_m,
    of which the mean over rows is u where the centres are the means; for M = 2 it is the product
    of both about their centres. No term is the difference of large ones.

    Parameters
    ----------
    about : sequence of ndarray, shapes (..., J), or of numbers
        Kernels of every variable about their centres.
    centres : sequence of ndarray, shapes (..., J), or of numbers
        c_m.

    Returns
    -------
    tuple of ndarray, shapes (..., J)
    """
    rest: Any = np.float64(0.0)
    linear, product = rest, 1.0 + rest
    for a, c in zip(about, centres, strict=True):
        # One more variable: what was linear stays so with its constant alone.
        rest = rest * (a + c) + linear * a
        linear, product = linear * c + product * a, product * c
    return rest, linear


@np.errstate(all="ignore")
def spread_at_locations(kernels: Sequence[NDArray[np.floating[Any]]], n: int) -> JointSpread:
    """Spread on n rows of statistics made of the centred products xi at a few locations.

    Parameters
    ----------
    kernels : sequence of ndarray, shapes (s, J)
        Kernels of rows of every variable, at its part of the locations.
    n : int
        Rows of the data.

    Returns
    -------
    JointSpread
        n over the mean of the squared skewness (E xi^3)^2 / (E xi^2)^3 at the locations.
    """
    means = np.array([tile.mean(axis=0, dtype=np.float64) for tile in kernels])
    centred = [tile - mean for tile, mean in zip(kernels, means, strict=True)]
    second = np.array([(tile**2).mean(axis=0) for tile in centred])
    third = np.array([(tile**3).mean(axis=0) for tile in centred])
    # An uncentred variable has k^2 in the square of a product, and a centred one its variance.
    squares, cubes = expanded(second, means**2)[0], _cubes_of_products(means, second, third)
    if not np.isfinite([squares, cubes]).all():
        return JointSpread(math.inf, 0.0)
    # Where nothing varies at a location, no row shows anything there.
    if not (squares > 0.0).all():
        return JointSpread(0.0, 0.0)
    # The squared skewness, kappa_3^2 / kappa_2^3, as a mean over the locations.
    skewness = float(((cubes / squares) ** 2 / squares).mean())
    return JointSpread(n / skewness if skewness else math.inf, 0.0)


def _cubes_of_products(means: Vector, second: Vector, third: Vector) -> Vector:
    """E xi^3 at J locations, from the moments (M, J) of every variable's kernel.

    In a product of copies of xi a variable is centred in none, in two or in all three: in one its
    mean is 0. Copies take part where two variables or more are centred in them.
    """
    triples = np.zeros((3, 3, 3, *means.shape[1:]))
    # The empty product of no variable; indices count centred variables in each copy, 2 for more.
    triples[0, 0, 0] = 1.0
    for k, v, t in zip(means, second, third, strict=True):
        some = sum(_raised(triples, two) for two in ((0, 1), (0, 2), (1, 2)))
        # Three copies hold it uncentred, centred in two of them, or in all, with its third moment.
        triples = k**3 * triples + v * k * some + t * _raised(triples, (0, 1, 2))
    cubes: Vector = triples[2, 2, 2]
    return cubes


def _raised(sums: Vector, copies: tuple[int, ...]) -> Vector:
    """With one more centred variable in some copies, counted as 0, 1, and 2 or more."""
    for axis in copies:
        none, single, more = np.moveaxis(sums, axis, 0)
        sums = np.stack([np.zeros_like(none), none, single + more], axis=axis)
    return sums


def guard(null: str, spreads: Sequence[JointSpread], n: int, needs: Needs) -> str:
    """Warn where an approximate null distribution misleads, and say why.

    Parameters
    ----------
    null : str
        Its name.
    spreads : sequence of JointSpread
        Spreads of every combination of kernels that is tested; the worst decides.
    n : int
        Rows of the data.
    needs : Needs
        Needs of this null distribution.

    Returns
    -------
    str
        Warning for the result; empty where there is none.

    Raises
    ------
    InvalidArgumentError
        No combination leaves rows that would show joint variation.
    """
    if all(spread.certain and 0.0 < spread.rows < needs.meaningless for spread in spreads):
        msg = (
            f"null {null!r} needs rows that show how the variables vary together, and if they are "
            f"independent none of {n:,} does: {needs.remedy}"
        )
        raise InvalidArgumentError(msg)
    reasons = []
    few = [spread.rows for spread in spreads if spread.rows < needs.rows]
    if few:
        reasons.append(
            f"{_some(few, spreads)}about {_short(min(few))} of {n:,} rows show how independent "
            f"variables vary together, and it needs {_short(needs.rows)}, so that p-values may be "
            "far too small"
        )
    crowds = [spread.directions for spread in spreads if spread.directions > needs.directions]
    if crowds:
        reasons.append(
            f"{_some(crowds, spreads)}kernels vary in about {_short(max(crowds))} directions, more "
            f"than {_short(needs.directions)}, so that {needs.crowded}"
        )
    if reasons:
        msg = f"null {null!r} is an approximation: {'; and '.join(reasons)}; {needs.remedy}"
        warnings.warn(msg, ApproximateNullWarning, stacklevel=3)
    return "; ".join(reasons)


def _some(few: Sequence[float], spreads: Sequence[JointSpread]) -> str:
    return f"in {len(few):,} of {len(spreads):,} combinations " if len(spreads) > 1 else ""


def _short(value: float) -> str:
    """Two digits of it."""
    return f"{float(f'{value:.2g}'):,g}"
