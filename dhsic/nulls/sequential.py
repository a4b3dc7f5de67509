"""Sequential permutation p-values: as few permutations as the answer needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dhsic._validation import check_integer
from dhsic.errors import InvalidArgumentError
from dhsic.nulls.distributions import Replicates


@dataclass(frozen=True)
class Sequential:
    """Permutations of all rows that stop as soon as the p-value is clear.

    Permutations are drawn until `n_exceed` of their statistics are at least as large as the
    observed one. If this takes L of them, the p-value is n_exceed / L; where `n_resamples` were
    drawn before, of which fewer than that are as large, it is (1 + their number) /
    (n_resamples + 1), as of `Permutation`. It is exact for exchangeable rows, however few the rows
    or the permutations [1]_, and its relative standard error is at most 1 / sqrt(n_exceed). Where
    the p-value is p, about n_exceed / p permutations are drawn: most of them where most is at
    stake.

    Permutations are drawn in batches that grow, so that some are drawn beyond the last that
    counts. The whole data and, in "v-hsic" and its kin, the Gram matrices are held in memory. One
    kernel for each variable is tested.

    Parameters
    ----------
    n_exceed : int, optional
        How many permuted statistics decide. A p-value of n_exceed / L is never above 1.
    n_resamples : int, optional
        The largest number of permutations; the smallest p-value is 1 / (n_resamples + 1).

    Raises
    ------
    InvalidArgumentError
        A number is less than 1, or `n_exceed` is more than `n_resamples`.

    References
    ----------
    .. [1] J. Besag, P. Clifford. Sequential Monte Carlo p-values. Biometrika 78, 1991.

    Examples
    --------
    Independent variables take a few dozen permutations of the 9,999 allowed.

    >>> import numpy as np
    >>> import dhsic
    >>> x, y = np.random.default_rng(0).standard_normal((2, 100))
    >>> null = dhsic.Sequential(n_exceed=20, n_resamples=9999)
    >>> result = dhsic.independence_test(x, y, estimator="v-hsic", null=null, rng=0)
    >>> result.pvalue > 0.1, len(result.null_distribution) < 200
    (True, True)
    """

    n_exceed: int = 20
    n_resamples: int = 9999

    name: ClassVar[str] = "sequential"

    def __post_init__(self) -> None:
        check_integer("n_exceed", self.n_exceed, minimum=1)
        check_integer("n_resamples", self.n_resamples, minimum=1)
        if self.n_exceed > self.n_resamples:
            msg = (
                f"n_exceed must be at most n_resamples, got {self.n_exceed} and "
                f"{self.n_resamples}: lower n_exceed, or raise n_resamples"
            )
            raise InvalidArgumentError(msg)

    @property
    def batches(self) -> list[int]:
        """How many permutations are drawn at a time, until all are."""
        sizes: list[int] = []
        left = self.n_resamples
        while left:
            # Half of what was drawn before: at most a third of all are in vain.
            sizes.append(min(left, max(2 * self.n_exceed, sum(sizes) // 2)))
            left -= sizes[-1]
        return sizes


@dataclass(frozen=True, eq=False)
class SequentialReplicates(Replicates):
    """Values of the statistic under the null hypothesis, in the order in which they were drawn.

    Parameters
    ----------
    values : ndarray, shape (b,)
        The replicates, finite.
    n_exceed : int
        How many of them decide.

    Raises
    ------
    DataError
        A value is NaN or infinite.

    Examples
    --------
    >>> import numpy as np
    >>> SequentialReplicates(np.array([1.0, 4.0, 2.0, 5.0, 0.0]), n_exceed=2).sf(3.0)
    0.5
    """

    n_exceed: int

    def drawn(self, statistic: float) -> int:
        """How many values it takes until `n_exceed` are at least as large; all where fewer are."""
        at = np.flatnonzero(self.values >= statistic)
        return len(self.values) if len(at) < self.n_exceed else int(at[self.n_exceed - 1]) + 1

    def decides(self, statistic: float) -> bool:
        """Whether so many values are at least as large."""
        return bool(np.count_nonzero(self.values >= statistic) >= self.n_exceed)

    def sf(self, statistic: float) -> float:
        """The p-value of Besag and Clifford."""
        if self.decides(statistic):
            # Besag and Clifford (1991): h over the number drawn when the h-th replicate reached the
            # data.
            return self.n_exceed / self.drawn(statistic)
        return super().sf(statistic)
