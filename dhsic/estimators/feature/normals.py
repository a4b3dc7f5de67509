"""Principal features of normal variables, for plans, which see no data.

How long replicates take goes by how many directions every kernel has and which kernels of a grid
stay in it. Plans take both from normal columns that are independent of each other. Columns that
depend on each other have fewer heavy directions, and narrow kernels compare more of their rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from dhsic.estimators.feature.principal import Directions
from dhsic.estimators.identities import is_held, is_identity, nearness
from dhsic.features import at_quantiles
from dhsic.kernels import Columns, Combinations, Kernel
from dhsic.linalg import pivoted_cholesky, solve_lower

Vector = NDArray[np.float64]

_MOST_LANDMARKS = 512  # beyond, and of more columns, plans would take long
_MOST_COLUMNS = 256
_SAMPLE = 512  # rows, of which some fit the kernels
_FITTED = 256
_FEW = 8


class NormalFeatures(NamedTuple):
    """Features of one kernel."""

    directions: Directions
    """As many as landmarks are kept."""
    near: float
    """See `nearness`."""
    held: bool
    """See `is_held`."""
    spanned: bool
    """Whether they hold the kernel but for what rounding leaves."""

    def compares(self, n: int) -> bool:
        """Whether they tell n rows apart by more than which of them are equal."""
        return self.held and not is_identity(self.near, n)


def features_of_normals(
    combinations: Combinations,
    dims: Sequence[int],
    p: int,
    by_column: Sequence[int],
    tolerance: float,
) -> list[NormalFeatures | None]:
    """Those of every kernel; None of what a guess would take long for, or of categories.

    Parameters
    ----------
    combinations : Combinations
        Kernels as given, not fitted.
    dims : sequence of int
        Columns of every variable.
    p : int
        Landmarks before pruning.
    by_column : sequence of int
        How many of them are quantiles of a column, for every kernel; 0 where they are rows.
    tolerance : float
        See `dhsic.linalg.pivoted_cholesky`.

    Returns
    -------
    list of NormalFeatures or None
    """
    of = (combinations.kernels, combinations.factors, combinations.spread(dims), by_column)
    return [
        normal_features(kernel, factor, d, min(count, p), p, tolerance)
        for kernel, factor, d, count in zip(*of, strict=True)
    ]


def normal_features(
    kernel: Kernel, factor: float, d: int, quantiles: int, p: int, tolerance: float
) -> NormalFeatures | None:
    """Those of one kernel, as `features_of_normals` has them."""
    if isinstance(kernel, Columns) and quantiles:
        return _of_columns(kernel, factor, d, quantiles, p, tolerance)
    numbers = kernel.measured(d) == frozenset(range(d))  # values of categories are often equal
    if not numbers or p > _MOST_LANDMARKS or d > _MOST_COLUMNS or not _has_no_unit(kernel, d):
        return None
    return _of_kernel(kernel, factor, d, quantiles, p, tolerance)


@lru_cache(maxsize=128)
def _of_kernel(
    kernel: Kernel, factor: float, d: int, quantiles: int, p: int, tolerance: float
) -> NormalFeatures:
    rows = _rows(d)
    sample, drawn = rows[:_SAMPLE], rows[_SAMPLE:][:p]
    fitted = _fitted(kernel, d).widened(factor)
    landmarks = at_quantiles(drawn, quantiles) if quantiles else drawn
    kept = pivoted_cholesky(fitted(landmarks), tolerance)
    values = fitted(sample, landmarks[kept.kept])
    return NormalFeatures(
        Directions.unseen(_variances(values, kept.factor)),
        nearness(values),
        is_held(fitted, sample, values, kept.factor),
        kept.rank < len(landmarks),
    )


def _variances(values: Vector, factor: Vector) -> Vector:
    """Those of `Directions.of`, descending, without what they are the variances of."""
    # the features L^-1 k(z, x), whose covariance has them as eigenvalues
    whitened = solve_lower(factor, (values - values.mean(axis=0)).T)
    found = scipy.linalg.eigvalsh(whitened @ whitened.T / len(values), check_finite=False)
    variances: Vector = np.maximum(found[::-1], 0.0)
    return variances


def _of_columns(
    kernel: Columns, factor: float, d: int, quantiles: int, p: int, tolerance: float
) -> NormalFeatures | None:
    """Those of a mean over columns: independent ones each have a block of the covariance."""
    kinds = {type(part): part for part, _ in kernel.counted(d)}
    counts = [sum(type(part) is kind for part, _ in kernel.counted(d)) for kind in kinds]
    parts = [normal_features(part, factor, 1, quantiles, p, tolerance) for part in kinds.values()]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    variances = [
        np.repeat(part.directions.variances, count) / d
        for part, count in zip(known, counts, strict=True)
    ]
    ordered = np.sort(np.concatenate(variances))[::-1]
    # Columns of single numbers have neighbours, and landmarks of each hold them.
    return NormalFeatures(Directions.unseen(ordered), near=1.0, held=True, spanned=False)


@lru_cache(maxsize=128)
def _has_no_unit(kernel: Kernel, d: int) -> bool:
    """Whether it follows the scale of its variable, as one of a given bandwidth does not."""
    some = _rows(d)[:_FEW]
    whole, half = (kernel.fit(rows)(rows) for rows in (some, 0.25 + some / 2.0))
    # A linear kernel has another size in another unit, and the same directions.
    return np.allclose(whole / np.abs(whole).max(), half / np.abs(half).max())


@lru_cache(maxsize=32)
def _fitted(kernel: Kernel, d: int) -> Kernel:
    """To fewer rows than a test takes: the median distance is near that of many."""
    return kernel.fit(_rows(d)[:_FITTED])


@lru_cache(maxsize=4)
def _rows(d: int) -> Vector:
    """Normal rows, the sample first and then landmarks, within 0 and 1 where some kernels are."""
    normal = np.random.default_rng(0).standard_normal((_SAMPLE + _MOST_LANDMARKS, d))
    return 0.5 + normal / 12.0
