"""Sizes of cross-covariances of features under many permutations, and what rounding leaves."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.session import Session
from dhsic.estimators.base import rounding_unit
from dhsic.estimators.feature.basis import Factors, Measure, Side, whiten
from dhsic.estimators.feature.layout import Pair, ProductPlace
from dhsic.estimators.feature.orbits import OrbitPass, OrbitSums
from dhsic.estimators.resample import tile_error, transform_error
from dhsic.linalg import solve_lower, squared_norms

Matrix = NDArray[np.floating[Any]]
Vector = NDArray[np.float64]

SLAB_BYTES = 2**21  # of cross-covariances that are whitened at a time
_SAFETY = 4.0


@dataclass(frozen=True)
class ReplicateSizes:
    """Sizes of cross-covariances under many permutations.

    Parameters
    ----------
    cross : ndarray, shape (N, P)
        Cross-covariances of the features of all combinations.
    places : tuple of ProductPlace
        Those of the combinations.
    factors : tuple of (ndarray or None, ndarray or None)
        Factors that still whiten them.
    measure : Measure
        The size of cross-covariances.
    """

    cross: Matrix
    places: tuple[ProductPlace, ...]
    factors: tuple[Factors, ...]
    measure: Measure

    def __call__(self, permutations: range) -> Vector:
        """Sizes under some of the permutations, shape (permutations, combinations)."""
        cross = self.cross[permutations.start : permutations.stop]
        pairs = zip(self.places, self.factors, strict=True)
        return np.stack([self._sizes(place.of(cross), factors) for place, factors in pairs], axis=1)

    def _sizes(self, whole: Vector, factors: Factors) -> Vector:
        step = max(1, SLAB_BYTES // (8 * math.prod(whole.shape[1:])))
        starts = range(0, len(whole), step)
        # In float64, since whitening magnifies what rounding leaves.
        slabs = (whole[start : start + step].astype(np.float64, copy=False) for start in starts)
        return np.concatenate([self.measure.size(whiten(slab, factors)) for slab in slabs])


def independent_rounding(session: Session, sides: Iterable[Side]) -> float:
    """How far rounding alone may bring a statistic where features have no covariance."""
    spread = math.prod(side.spread for side in sides)
    # Both sides are rounding here, so that their product has its square.
    return session.n * rounding_unit(session.dtype) ** 2 * spread


def rounding_error(
    reduction: OrbitPass, sums: OrbitSums, sides: Mapping[int, Side], pair: Pair
) -> float:
    """The most that rounding may leave in the root of a statistic, in any permutation.

    The error of a transform is relative to the norm of the features in a group, and errors of
    groups are independent, since their rows are in other orders: their squares add up. Those of
    the features themselves come before they are whitened. With a factor for safety.
    """
    dtype, orbit = reduction.layout.dtype, reduction.orbit
    i, j = (list(reduction.layout.places).index(number) for number in pair)
    spread = np.sqrt(sums.norms[i] * sums.norms[j])
    # sqrt(sum_g |f_g|^2 |h_g|^2) / (|f| |h|), about 1 / sqrt(groups) where groups are alike.
    share = np.sqrt(sums.products[i, j]) / spread if spread else 0.0
    (raw, norm), (other_raw, other_norm) = (
        _norms(reduction, sums, sides[number], number) for number in pair
    )
    errors = transform_error(dtype, orbit.n_shifts) * norm * other_norm
    errors += tile_error(dtype) * (raw * other_norm + norm * other_raw)
    error = _SAFETY * float(share * errors) / math.sqrt(orbit.groups.n)
    # Features that overflow have no error that is known: all replicates tie.
    return math.inf if math.isnan(error) else error


def _norms(reduction: OrbitPass, sums: OrbitSums, side: Side, number: int) -> tuple[float, float]:
    """Norms of the features about 0, and about their means as the sums hold them.

    Errors of features that are whitened afterwards grow as if they were independent.
    """
    layout = reduction.layout
    kernel, squares = dict(layout.kernels)[number], sums.raw[layout.raw_places[number]]
    # Squares about 0, from those about the provisional mean, from which the sums are about 0.
    about = squares + reduction.groups.n * np.square(kernel.centre, dtype=np.float64)
    if kernel.whitening is not None:
        weights = np.square(kernel.whitening, dtype=np.float64).sum(axis=0)
        norm = sums.norms[list(layout.places).index(number)]
        return math.sqrt(weights @ about), math.sqrt(norm)
    if side.factor is None:
        return math.sqrt(about[kernel.rows].sum()), math.sqrt(squares[kernel.rows].sum())
    # sum_a (L^-1)_aj^2 is what whitening makes of an independent error of feature j.
    weights = squared_norms(solve_lower(side.factor, np.eye(len(side.factor))))
    return math.sqrt(weights @ about), math.sqrt(weights @ squares)
