"""The gamma null: two moments of the null distribution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


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
