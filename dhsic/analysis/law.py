"""The normal law of estimates of HSIC where variables are dependent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from dhsic._validation import check_integer, check_number, named_arguments
from dhsic.analysis.spectrum import grams_of_pilot
from dhsic.errors import DataError
from dhsic.kernels import Kernel
from dhsic.linalg import u_centred
from dhsic.results import BarResult


@dataclass(frozen=True, repr=False)
class DependenceLaw(BarResult):
    """The law of estimates of squared HSIC of two variables, normal where they are dependent.

    The unbiased estimate of n rows has the mean `squared_hsic` and the variance sigma^2 / n +
    tau^2 / (n (n - 1)) + O(n^-3), by its Hoeffding decomposition [2]_; the mean over blocks of b
    rows has sigma^2 / n + tau^2 / (n (b - 1)). Where sigma^2 is above 0, n^1/2 times the error
    converges to the normal law of variance sigma^2 ([1]_, equation 12), and so does that of the
    V-statistic, whose difference from the unbiased estimate is O(1 / n). An estimate that is HSIC
    of approximate kernels has the law of these kernels.

    Parameters
    ----------
    squared_hsic : float
        The mean.
    variance : float
        sigma^2, that of [1]_, equation 13. It is 0 at independence.
    degenerate_variance : float
        tau^2, which is left at independence: there it is 2 E k^2 E l^2 of the centred kernels, the
        variance of [1]_, equations 17 and 18, and the law is normal for means over blocks alone.

    References
    ----------
    .. [1] Q. Zhang, S. Filippi, A. Gretton, D. Sejdinovic. Large-scale kernel methods for
       independence testing. Statistics and Computing 28, 2018, equations 12 and 13.
    .. [2] R. Serfling. Approximation theorems of mathematical statistics. Wiley, 1980, section
       5.2.1, lemma A.

    Examples
    --------
    >>> law = DependenceLaw(squared_hsic=0.02, variance=0.01, degenerate_variance=0.04)
    >>> round(law.standard_error(10_000), 5), round(law.quantile(0.975, 10_000), 5)
    (0.001, 0.02196)
    >>> round(law.standard_error(10_000, block_rows=5), 5)
    0.00141
    """

    squared_hsic: float
    variance: float
    degenerate_variance: float

    def summary(self) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads."""
        return [(name.replace("_", " "), f"{value:.4g}") for name, value in asdict(self).items()]

    def records(self) -> list[dict[str, Any]]:
        """One row."""
        return [asdict(self)]

    def _bars(self) -> tuple[Sequence[str], Sequence[float], str]:
        errors = {f"{n:,} rows": self.standard_error(n) for n in (10**3, 10**4, 10**5, 10**6)}
        return list(errors), list(errors.values()), "standard errors"

    def standard_error(self, n: int, block_rows: int | None = None) -> float:
        """Standard deviation of the unbiased estimate of n rows.

        Parameters
        ----------
        n : int
            Rows, at least 4.
        block_rows : int, optional
            Rows b of a block, from 4 to n, for the mean over blocks; one of all n rows where not
            given.

        Returns
        -------
        float

        Raises
        ------
        InvalidArgumentError
            A number is not in its range.
        """
        # Song et al. (2012), equation 5: the unbiased estimate divides by n (n - 3).
        check_integer("n", n, minimum=4)
        b = n if block_rows is None else block_rows
        check_integer("block_rows", b, minimum=4, maximum=n)
        # Variance of a mean of n / b independent terms sigma^2 / b + tau^2 / (b (b - 1)).
        return math.sqrt(self.variance / n + self.degenerate_variance / (n * (b - 1.0)))

    def quantile(self, level: float, n: int, block_rows: int | None = None) -> float:
        """Quantile of the normal law of the unbiased estimate of n rows.

        Parameters
        ----------
        level : float
            Between 0 and 1.
        n, block_rows
            As for `standard_error`.

        Returns
        -------
        float

        Raises
        ------
        InvalidArgumentError
            A number is not in its range.
        """
        check_number("level", level, "between 0 and 1", lambda x: 0.0 < x < 1.0, "as 0.95")
        # Zhang et al. (2018), equation 12.
        return self.squared_hsic + float(ndtri(level)) * self.standard_error(n, block_rows)


@named_arguments
def dependence_law(
    x: ArrayLike,
    y: ArrayLike,
    *,
    kernels: str | Kernel | Sequence[str | Kernel] = "gaussian",
) -> DependenceLaw:
    """Estimate the law of estimates of HSIC from a pilot sample.

    With the centred kernels k and l and g(x, y) = E k(x, X) l(y, Y), the mean of the kernel h of
    the U-statistic over all rows but one is (g + HSIC^2) / 2, so that sigma^2 = 16 Var E h
    ([1]_, equation 13) is 4 Var g(X, Y): no sum over four rows is left.

    Parameters
    ----------
    x, y : array-like, shape (s,) or (s, d)
        The same rows of both variables, 4 or more; a few thousand, drawn at random. Matrices
        (s, s) are held.
    kernels : str, Kernel or a sequence of two, optional
        As for `covariance_spectrum`.

    Returns
    -------
    DependenceLaw
        Its errors are of order s^-1/2. Estimates of sigma^2 below 0 become 0, so that at
        independence it is of order tau^2 / s in the mean: standard errors of as many rows as the
        pilot has, or more, are then too large.

    Raises
    ------
    DataError
        The rows do not align, are fewer than 4, or have NaN or infinity; or values of kernels are
        1e70 or more.
    InvalidArgumentError
        Two kernels are needed, or one for both variables.

    References
    ----------
    .. [1] Q. Zhang, S. Filippi, A. Gretton, D. Sejdinovic. Large-scale kernel methods for
       independence testing. Statistics and Computing 28, 2018, equations 12 and 13.

    Examples
    --------
    >>> import numpy as np
    >>> x, noise = np.random.default_rng(0).standard_normal((2, 1000))
    >>> law = dependence_law(x, x + noise, kernels="gaussian:0.5")
    >>> round(law.squared_hsic, 3), round(law.standard_error(100_000), 5)
    (0.024, 0.0002)
    """
    k, q = (_u_centred_gram(gram) for gram in grams_of_pilot((x, y), kernels))
    s = len(k)
    carried, products = k @ q / s, k * q
    # g of every row; the mean is the unbiased estimate (Szekely and Rizzo 2014, proposition 1).
    slopes = products.sum(axis=1) / (s - 3.0)
    hsic = float(slopes.mean())
    # The part of h of two rows i, j that no single row explains is (k l - g_i - g_j + HSIC^2 -
    # c_ij - c_ji) / 6, c_ij = E k(x_i, X) l(Y, y_j); its variance enters 72 / (n (n - 1)) times.
    rest = products - slopes[:, None] - slopes + hsic - carried - carried.T
    np.fill_diagonal(rest, 0.0)
    degenerate = 2.0 * float(np.square(rest).sum()) / (s * (s - 1.0))
    # Estimates of g vary by more than g does: twice the second term of the variance of s rows.
    variance = 4.0 * float(slopes.var(ddof=1)) - 2.0 * degenerate / s
    return DependenceLaw(hsic, max(0.0, variance), degenerate)


def _u_centred_gram(gram: NDArray[np.float64]) -> NDArray[np.float64]:
    """A Gram matrix with a diagonal and row sums of 0 (Szekely and Rizzo 2014, definition 2)."""
    s = len(gram)
    # The fourth power of 1e70, summed over pairs of rows, is finite.
    if s < 4 or not np.abs(gram).max() < 1e70:
        msg = f"a pilot needs 4 rows and kernels below 1e70, got {s} rows: add rows, or rescale"
        raise DataError(msg)
    return u_centred(gram)
