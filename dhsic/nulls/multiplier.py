"""The multiplier null: random signs on the terms of the statistic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dhsic._validation import check_integer


@dataclass(frozen=True)
class Multiplier:
    """Replicates by random signs on the centred terms of the statistic: an approximation.

    Needs no shuffle: one matrix product in the second pass gives every replicate. It imitates the
    null distribution as n grows, where many rows show how the variables vary together, and then
    holds its level from about 50 rows.

    It fails where hardly any row does: the terms then vary far less in the sample than they would
    under the null, and true nulls are rejected at level 5 % in 67 % of samples of two dummies with
    2 % ones at 1,000 rows, in 90 % with 0.3 % at 16,000, in 52 % of Poisson counts of mean 0.03,
    and in 45 to 56 % of three variables of 3 normal columns by a grid that has narrow kernels. By
    all pairs of rows it rejects too rarely where kernels vary in far more directions than there are
    rows. `dhsic.ApproximateNullWarning` tells of both, from the marginals; below 0.02 such rows it
    is refused. `Shifts` and `Permutation` are exact.

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
    .. [1] K. Chwialkowski, D. Sejdinovic, A. Gretton. A wild bootstrap for degenerate kernel
       tests. NeurIPS 2014.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x, noise = np.random.default_rng(0).standard_normal((2, 500))
    >>> result = dhsic.independence_test(x, x**2 + noise, null=Multiplier(999), rng=0)
    >>> result.pvalue < 0.01
    True
    """

    n_resamples: int = 250

    name: ClassVar[str] = "multiplier"

    def __post_init__(self) -> None:
        check_integer("n_resamples", self.n_resamples, minimum=1)
