"""Nulls that users write: a law that is made of replicates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dhsic._validation import check_integer
from dhsic.nulls.distributions import Distribution
from dhsic.nulls.permutation import Permutation
from dhsic.nulls.shifts import Shifts


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
