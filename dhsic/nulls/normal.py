"""The normal null: for means of many independent statistics of blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from dhsic._validation import check_choice

__all__ = ["Normal", "Variance"]

Variance = Literal["direct", "permutation", "empirical"]


@dataclass(frozen=True)
class Normal:
    """A normal distribution, as the mean over many blocks of rows has under the null.

    Parameters
    ----------
    variance : {"direct", "permutation", "empirical"}, optional
        Where the variance under the null comes from: the moments of the Gram matrices of every
        block, block statistics with permuted rows, or the block statistics themselves, which
        dependence inflates.

    References
    ----------
    .. [1] Q. Zhang, S. Filippi, A. Gretton, D. Sejdinovic. Large-scale kernel methods for
       independence testing. Statistics and Computing 28, 2018, section 3.

    Examples
    --------
    >>> Normal("permutation")
    Normal(variance='permutation')
    """

    variance: Variance = "direct"

    name: ClassVar[str] = "normal"

    def __post_init__(self) -> None:
        check_choice("variance", self.variance, get_args(Variance))
