"""The normal null: for means of many independent statistics of blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from dhsic._validation import check_choice

Variance = Literal["direct", "permutation", "empirical"]


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
