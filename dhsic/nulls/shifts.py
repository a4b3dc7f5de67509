"""Exact nulls: rows are shifted within groups, and chains of such tests for three variables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from dhsic._validation import check_choice, check_integer

CombinedBy = Literal["fisher", "sidak"]


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
