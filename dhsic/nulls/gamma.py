"""The gamma null: two moments of the null distribution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

__all__ = ["Gamma"]


@dataclass(frozen=True)
class Gamma:
    """A gamma distribution with the mean and the variance of the statistic under the null.

    Needs no replicates. Its p-values are good approximations where they are not far below 0.01,
    for distance covariance 0.05; deeper in the tail they claim too much evidence, and `Spectral` is
    the more faithful. Where tails are heavy or a category is rare, permutations alone are exact.

    References
    ----------
    .. [1] A. Gretton, K. Fukumizu, C. H. Teo, L. Song, B. Schoelkopf, A. J. Smola. A kernel
       statistical test of independence. NIPS 2007, equation 9.
    .. [2] N. Pfister, P. Buehlmann, B. Schoelkopf, J. Peters. Kernel-based tests for joint
       independence. JRSS B 80, 2018, section 3.3.

    Examples
    --------
    >>> Gamma()
    Gamma()
    """

    name: ClassVar[str] = "gamma"
