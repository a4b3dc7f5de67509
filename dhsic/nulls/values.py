"""Null distributions as values, of replicates and of laws."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from dhsic._random import generator
from dhsic._validation import check_choice, check_integer
from dhsic.errors import InvalidArgumentError
from dhsic.nulls.laws import ChiSquareMixture, CombinedBy, Distribution, Replicates

Within = Literal["auto", "all", "groups"]
MixtureMethod = Literal["inversion", "simulation"]
Variance = Literal["direct", "permutation", "empirical"]


@dataclass(frozen=True)
class Permutation:
    """Replicates by permuting the rows of every variable but the first.

    Parameters
    ----------
    n_resamples : int, optional
        Number of replicates.
    within : {"auto", "all", "groups"}, optional
        Permute over all rows, which must fit in memory; or within groups of rows that lie far apart
        in the data, which streams and is as exact. "auto" takes all rows where they fit and it
        takes no minute.
    group_rows : int, optional
        Rows of a group, about.

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

    Rows are put in groups of b rows that lie far apart in the data, each in a random order.
    Replicate k shifts the last variable by k rows within all groups at once. These permutations
    form a group that holds the identity, so the p-value #{k : T_k >= T_0} / b is exact for
    exchangeable rows, whatever the data and however few the rows [1]_ [2]_. Where b is less than
    `n_resamples`, the variables but the first are permuted at random within groups, anew and
    independently, and shifted again: r such cosets and the data give (r + 1) b replicates, exact
    as well. All shifts together cost a Fourier transform, so that replicates are nearly free.

    Where three variables or more are tested, every coset permutes all but the first. Then a
    dependence that does not involve the last variable is resolved by the cosets alone, to about
    1 / (r + 1): `Chain` is the better choice.

    Rows must be exchangeable: of serial data, such as time series, p-values are too small.

    Parameters
    ----------
    n_resamples : int, optional
        The least number of replicates, the data among them; the smallest p-value is 1 over their
        number. There are often more, which cost nothing: all shifts of a group.

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


@dataclass(frozen=True)
class Chain:
    """Joint independence as a chain of exact tests of two sides each.

    X_1, ..., X_M are jointly independent if and only if X_m is independent of (X_1, ..., X_{m-1})
    for m = 2, ..., M. Stage m tests this as two variables, by the shifts of X_m, see `Shifts`: the
    earlier ones joined as one of all their columns, each in units of its own, the product of their
    kernels, and each of them by itself are tried. Its p-value p_m satisfies
    P(p_m <= a | earlier stages) <= a, so that combining them is exact, for discrete data too. The
    result says at which variable the dependence enters.

    Parameters
    ----------
    n_resamples : int, optional
        The least number of replicates of a stage, for each of the M - 1 stages.
    combined_by : {"sidak", "fisher"}, optional
        The smallest of the p-values, which gains where one stage shows dependence, and resolves it
        down to 1 / n_resamples; or the sum of their logarithms, which gains where several do.

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
    """A null distribution that is made of replicates of the statistic; to derive from.

    Any estimator that stands with what `replicates` returns stands with it. A class that derives
    from it is a frozen dataclass with a `name` and a method `distribution`; `dhsic.register` makes
    its name known. One kernel for each variable is tested.

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
        """How the replicates are made: by permutations, where a class does not say otherwise."""
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

    The limit of the statistic under the null as n grows. At a few hundred rows its far tail is
    somewhat heavier than that of permutations.

    It fails where values are rare, kernels narrow or tails heavy, and the limit is far away. At
    landmarks, for rows with weights, and for three variables at shared frequencies, it is made of
    the rows as they are paired: at level 5 % and 1,000 rows 66 % of pairs of 2 % dummies are
    rejected. There it also rejects too rarely, or never, where kernels vary in far more directions
    than there are rows. Elsewhere it is made of the marginals: where
    fewer than 4 rows show how the variables vary together it rejects up to 11 %, and 6 % at level
    1 %; by features in more than n^2 / 50 directions, 30 to 40 %. `dhsic.ApproximateNullWarning`
    tells of all this. `Shifts` and `Permutation` are exact.

    Parameters
    ----------
    method : {"inversion", "simulation"}, optional
        Compute the tail of the mixture, accurately however far out; or count draws from it.
    n_resamples : int, optional
        Draws, for "simulation" alone.

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

    Needs no replicates. Its p-values are good approximations where they are not far below 0.01,
    for distance covariance 0.05; deeper in the tail they claim too much evidence, and `Spectral` is
    the more faithful.

    It fails where values are rare, kernels narrow or tails heavy. At landmarks, and for three
    variables at shared frequencies, it is made of the rows as they are paired, and fails as
    `Spectral` does: at level 5 % and 1,000 rows 66 % of pairs of 2 % dummies are rejected. There
    it also rejects too rarely, or never, where kernels vary in far more directions than there are
    rows. Elsewhere it is made of the marginals: where fewer than 4 rows show how the variables vary
    together it rejects up to 13 %, and 10 % at level 1 %. `dhsic.ApproximateNullWarning` tells of
    both. `Shifts` and `Permutation` are exact.

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

    It fails where few rows show how the variables vary together, for the statistics of blocks are
    far from normal then: where these rows are fewer than twice the root of the number of blocks, it
    rejects up to 6 % at level 1 %, and hardly ever where there are none. Elsewhere it rejects up to
    2 % there, since blocks are few. `dhsic.ApproximateNullWarning` tells of it. Other estimators
    stand with exact nulls.

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

    The limit as n grows, with as many degrees of freedom as the statistic has terms; where the
    covariance is regularised, the sum of weighted squares that is left. Needs no replicates.
    It fails where a category is rare, rows are few, variables many or locations far from the rows:
    at level 1 % a test of three normal variables at 200 rows rejects 5 %, one of two variables of
    five columns at optimised locations, at 2,000 rows and level 5 %, 15 %.
    `dhsic.ApproximateNullWarning` tells where the terms of the statistic are too skew at its
    locations; of 180 tests at optimised locations of normal variables it named 115, which rejected
    19 % at level 5 %, and the others 2 %. `Shifts`, `Chain` and `Permutation` are exact.

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
class TimeOrder:
    """Rows are a series in the order of time: the null shifts it, and does not permute rows.

    Replicates compare the first variable with the last one shifted around by a multiple of L rows,
    so that both keep their own serial dependence [1]_. These shifts are a group that holds the
    identity. The p-value is asymptotic: it is right for series that are long beside their memory.
    It assumes that one variable of each pair is stationary (its law does not change with time, but
    for the period that is given), and that its rows far apart are nearly independent. A trend in
    both variables breaks it: take differences first.

    Shifts are n / L at most, and so is 1 over the smallest p-value.

    Parameters
    ----------
    lag : int, optional
        The least L. It should exceed the number of rows over which the series remember themselves,
        since shifts by less find much of a dependence again, which costs power; a longer lag than
        needed leaves fewer shifts. Where not given, about a quarter of the root of n.
    period : int, optional
        L is a multiple of it: rows of a cycle, as 24 of hourly data, which stays in place.

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
