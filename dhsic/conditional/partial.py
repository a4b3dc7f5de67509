"""The kernel partial correlation coefficient, from the sums that the regressions are made of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dhsic.conditional.indices import Places
from dhsic.conditional.ridge import DesignSums, Ridges

Indices = NDArray[np.intp]


def partial_correlation(
    places: Places, sums: DesignSums, alone: Ridges, left_out: Sequence[Indices] = ()
) -> float:
    """The share of the variance of y that is left by z and explained by x, between 0 and 1.

    With the feature phi of y, Huang et al. [1] define

    rho^2 = E |E[phi | x, z] - E[phi | z]|^2 / E |phi - E[phi | z]|^2

    which is 0 if and only if y is independent of x given z, and 1 if y is a function of x and z. It
    equals 1 - E |phi - E[phi | x, z]|^2 / E |phi - E[phi | z]|^2, of which either expectation is
    estimated by the generalised cross-validation of a ridge regression: on the features of z, and
    on these and products of features of x with weights.

    Parameters
    ----------
    places : Places
        Numbers of the features.
    sums : DesignSums
        Sums over rows.
    alone : Ridges
        Regressions of y on what is given.
    left_out : sequence of ndarray of int, optional
        Features that each of several regressions does without.

    Returns
    -------
    float
        Estimates below 0 are 0.

    References
    ----------
    .. [1] Z. Huang, N. Deb, B. Sen. Kernel partial correlation coefficient, a measure of
       conditional dependence. JMLR 23, 2022.
    """
    regressors = np.append(places.given_y, places.products)
    both = Ridges.fit(sums, regressors, places.y, left_out=left_out).least.sum()
    least = alone.least.sum()
    # Where nothing is left of y, nothing more can be explained.
    if least <= 0.0:
        return 0.0
    # Both errors are estimates, so that their quotient may lie outside.
    return float(np.clip(1.0 - both / least, 0.0, 1.0))
