"""The law of the p-values of a chain of tests, combined."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from dhsic.nulls.shifts import CombinedBy

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class CombinedPvalues:
    """The law of the combined p-values of a chain, if all of its hypotheses are true.

    The p-value of every stage is uniform or larger given those before it, so that this law is that
    of the statistic or larger.

    Parameters
    ----------
    stages : int
        Number of p-values, K.
    combined_by : {"fisher", "sidak"}
        The statistic: -2 sum_k log p_k (Fisher 1932), or -log10 min_k p_k (Sidak 1967).

    Examples
    --------
    >>> round(CombinedPvalues(2, "sidak").sf(2.0), 4)
    0.0199
    """

    stages: int
    combined_by: CombinedBy

    def sf(self, statistic: float) -> float:
        """Probability of a value at least as large."""
        if self.combined_by == "fisher":
            # P(chi-square of 2 M degrees >= s) = Q(M, s / 2), the upper incomplete gamma function.
            return float(scipy.special.gammaincc(self.stages, max(statistic, 0.0) / 2.0))
        # 1 - (1 - 10^-s)^M by expm1 and log1p, or a small p-value would lose its digits; the bound
        # of 1 - 1e-16 keeps log1p away from log 0.
        return -math.expm1(self.stages * math.log1p(-min(10.0**-statistic, 1.0 - 1e-16)))

    def draws(self, rng: np.random.Generator, size: int) -> Vector:
        """Independent values, shape (size,)."""
        # 1 - U lies in (0, 1], so that no logarithm is infinite.
        logs = np.log(1.0 - rng.random((size, self.stages)))
        if self.combined_by == "fisher":
            values: Vector = -2.0 * logs.sum(axis=1)
        else:
            values = -logs.min(axis=1) / math.log(10.0)
        return values


def combine_pvalues(
    pvalues: Sequence[float], combined_by: CombinedBy
) -> tuple[float, CombinedPvalues]:
    """The statistic of some p-values, and its law.

    Parameters
    ----------
    pvalues : sequence of float
        P-values of every stage, greater than 0.
    combined_by : {"fisher", "sidak"}
        See `CombinedPvalues`.

    Returns
    -------
    float
        The statistic.
    CombinedPvalues
        Its law where all hypotheses are true.

    References
    ----------
    .. [1] R. Fisher. Statistical methods for research workers. Oliver and Boyd 1932, section 21.1.
    .. [2] Z. Sidak. Rectangular confidence regions for the means of multivariate normal
       distributions. JASA 62, 1967.

    Examples
    --------
    >>> statistic, law = combine_pvalues([0.01, 0.5], "fisher")
    >>> round(law.sf(statistic), 4)
    0.0315
    """
    law = CombinedPvalues(len(pvalues), combined_by)
    if combined_by == "fisher":
        # Fisher (1925): under the null hypotheses at most chi-square of 2 M degrees, as each
        # p-value given those before it is at most uniform.
        return -2.0 * sum(map(math.log, pvalues)), law
    # Sidak (1967): P(min p <= a) = 1 - (1 - a)^M.
    return -math.log10(min(pvalues)), law
