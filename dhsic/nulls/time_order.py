"""Rows in the order of time, as a value."""

from __future__ import annotations

from dataclasses import dataclass

from dhsic._validation import check_integer
from dhsic.errors import InvalidArgumentError


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
