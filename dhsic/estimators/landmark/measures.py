"""Squared HSIC of many features with one target and of either with itself, at landmarks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic.estimators.landmark.basis import LandmarkBasis, squared_hsic
from dhsic.estimators.landmark.moments import Moments
from dhsic.kernels import Kernel
from dhsic.linalg import pivoted_cholesky

Vector = NDArray[np.float64]


class ColumnMeasures(NamedTuple):
    """Squared HSIC, shapes (G,)."""

    hsic: Vector
    """Every feature with the target."""
    own: Vector
    """Every feature with itself."""
    target: Vector
    """The target with itself."""


def measure_features(basis: LandmarkBasis, moments: Moments) -> ColumnMeasures:
    """The estimates of Kalinke and Szabo (2023), Lemma 4.2, for (x, y), (x, x) and (y, y).

    The pair (x, x) has the landmark tuples (z_j, z_j), so that its product kernel is k^2 and its
    means are those of k^2.

    Parameters
    ----------
    basis : LandmarkBasis
        The landmarks of all features, each with the target.
    moments : Moments
        Moments of the data at the landmarks.

    Returns
    -------
    ColumnMeasures
    """
    kappa, squares = moments.kappa, moments.squares
    hsic, with_itself = [], []
    for c, kept in enumerate(basis.kept):
        # Kalinke and Szabo (2023), lemma 4.2, from sums that one pass has made for all columns.
        hsic.append(basis.squared_hsic(c, basis.means(c, kappa), moments.u[c]))
        (feature, _), z = basis.combinations.kernels_of(c), basis.points(c)[0]
        k = basis.combinations.chosen[c][0]
        with_itself.append(_own_hsic(feature, z, kappa[k, kept], squares[k, kept], basis.tolerance))
    # The target has landmarks that any feature keeps.
    z, target = basis.landmarks.points[1], basis.combinations.kernels[-1]
    of_target = _own_hsic(target, z, kappa[-1], squares[-1], basis.tolerance)
    return ColumnMeasures(
        np.array(hsic), np.array(with_itself), np.full(len(with_itself), of_target)
    )


def _own_hsic(kernel: Kernel, z: Vector, means: Vector, squares: Vector, tolerance: float) -> float:
    """Squared HSIC of a variable with itself, by the means of k and of k^2 at landmarks."""
    gram = kernel(z)
    joint = pivoted_cholesky(gram**2, tolerance)
    both = np.array([means, means])
    # u = E k^2 - (E k)^2, that of the pair (x, x).
    return squared_hsic((gram.copy(), gram), joint, both, squares - means**2, tolerance)
