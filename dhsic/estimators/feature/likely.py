"""Landmarks and directions that are likely to be kept, for plans, which see no data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dhsic.engine.plan import DriverStep, PassPlan
from dhsic.engine.session import Session
from dhsic.estimators.base import (
    BANDWIDTH_ROWS,
)
from dhsic.estimators.feature.normals import NormalFeatures, normal_features
from dhsic.estimators.feature.principal import Directions
from dhsic.estimators.identities import compared
from dhsic.features import FeatureMap, KernelFeatures, LandmarksByColumn
from dhsic.kernels import Columns, Combinations, Distance, Kernel, Laplacian, Matern, OnColumns
from dhsic.kernels.wrap import of_present
from dhsic.landmarks import tolerance_for

# Landmarks of kernels of one column whose bandwidth is given, or that compare categories.
_SMOOTH, _KEPT = 24, 48
_ENOUGH = 256
_ALIKE = 2.0  # factors up to it; kernels of a variable keep the same landmarks then


def unpruned(
    session: Session,
    combinations: Combinations,
    kept: Sequence[int],
    by_column: Sequence[int] | None = None,
) -> list[FeatureMap]:
    """Features that cost what those of so many landmarks a kernel or a column do, for plans."""
    zero = session.dtype.type(0)
    dims = combinations.spread(session.dims)
    of = (combinations.kernels, combinations.variables, combinations.factors, dims, kept)
    # The widest kernels keep fewer landmarks than others, which then are no powers of them.
    maps: list[FeatureMap] = [
        KernelFeatures(kernel, np.broadcast_to(zero, (r, kernel.width(d))), (m, r, factor > _ALIKE))
        for kernel, m, factor, d, r in zip(*of, strict=True)
    ]
    for k, count in enumerate(by_column or ()):
        kernel = combinations.kernels[k]
        if count and isinstance(kernel, Columns):
            maps[k] = LandmarksByColumn.likely(kernel, dims[k], count, session.dtype)
        elif count:
            points = np.broadcast_to(zero, (min(count, kept[k]), kernel.width(1)))
            maps[k] = KernelFeatures(kernel, points, (combinations.variables[k], len(points)))
    return maps


def likely_counts(session: Session, combinations: Combinations, p: int) -> list[int]:
    """Landmarks of p that every kernel is likely to keep, of kernels as given.

    A smooth kernel of one column keeps as many as of a normal variable, 10 to 20 at the median
    heuristic; others, and those with a corner at 0, keep all.
    """
    tolerance = tolerance_for(None, session.dtype)
    dims = combinations.spread(session.dims)
    kernels = zip(combinations.kernels, dims, combinations.factors, strict=True)
    return [_likely(kernel, d, p, factor, tolerance) for kernel, d, factor in kernels]


def likely_directions(
    maps: Sequence[FeatureMap], dims: Sequence[int], normals: Sequence[NormalFeatures | None]
) -> list[Directions]:
    """Directions of every kernel: those of normal variables, or a guess where none are known."""
    return [
        likely.directions if likely else _guessed_directions(features, d)
        for features, d, likely in zip(maps, dims, normals, strict=True)
    ]


def likely_tried(
    combinations: Combinations, normals: Sequence[NormalFeatures | None], n: int
) -> list[int]:
    """Numbers of the combinations whose kernels are likely to tell n rows apart."""
    alone = {k for k, likely in enumerate(normals) if likely and not likely.compares(n)}
    return compared(combinations, alone.difference(combinations.kept_kernels))


def landmark_steps(
    session: Session, combinations: Combinations, p: int, maps: Sequence[FeatureMap]
) -> list[DriverStep | PassPlan]:
    """Drawing p landmarks, of which those of the maps are kept."""
    rows = 8 * sum(session.dims) * (p + BANDWIDTH_ROWS)
    fetch = 3 * rows + max(source.take_bytes for source in session.sources)
    held = 8 * sum(
        features.n_features * (features.n_features + d)
        for features, d in zip(maps, combinations.spread(session.dims), strict=True)
    )
    return [
        DriverStep("fetch landmarks", fetch, rows),
        DriverStep("prune landmarks", 4 * 8 * p * p, held),
    ]


def _guessed_directions(features: FeatureMap, d: int) -> Directions:
    """Those of a mean over columns are alike; of other kernels those of the columns weigh most."""
    heavy = None if d == 1 or isinstance(features, LandmarksByColumn) else d
    return Directions.guessed(features.n_features, heavy)


def _likely(kernel: Kernel, d: int, p: int, factor: float, tolerance: float) -> int:
    if isinstance(kernel, OnColumns):
        d, kernel = len(kernel.at), kernel.kernel
    kernel = of_present(kernel)
    if d > 1 or isinstance(kernel, Distance | Laplacian | Matern):
        return p
    # More rows of a line add next to none to those that span a smooth kernel.
    normal = normal_features(kernel, factor, 1, 0, min(p, _ENOUGH), tolerance)
    if normal is not None:
        return len(normal.directions.variances)
    return min(p, _SMOOTH if factor >= 1.0 else _KEPT)
