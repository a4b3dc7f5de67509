"""Nystrom features of either variable, from landmarks of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace as changed
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.plan import DriverStep, PassPlan, Plan
from dhsic.engine.session import Session
from dhsic.estimators.base import BANDWIDTH_ROWS, Null, bandwidth_rows, fit_combinations
from dhsic.estimators.feature_basis import SQUARED_HSIC, Basis, Measure, Side
from dhsic.estimators.feature_tests import plan_features
from dhsic.features import KernelFeatures
from dhsic.kernels import Combinations, Kernel, OnColumns
from dhsic.landmarks import (
    landmark_count,
    tolerance_for,
    uniform_rows,
    warn_of_rounding,
    warn_of_zeros,
)
from dhsic.linalg import PivotedCholesky, pivoted_cholesky
from dhsic.nulls import Shifts
from dhsic.results import LandmarkSummary

__all__ = [
    "REMEDY",
    "LandmarkFeatures",
    "draw_landmark_features",
    "draw_landmarks_of_each",
    "landmark_steps",
    "likely_counts",
    "plan_landmark_features",
    "unpruned",
]

Vector = NDArray[np.float64]

_KEPT = 32

REMEDY = "take fewer landmarks, fewer resamples or fewer threads"


def plan_landmark_features(
    session: Session,
    combinations: Combinations,
    null: Null | None,
    n_landmarks: int | str,
    *,
    replace: bool,
    measure: Measure = SQUARED_HSIC,
) -> Plan:
    """What would run, with the landmarks as drawn: pruning can only make it less.

    By shifts, passes are as many as fit the memory, and are counted for what is likely to be kept.
    """
    p = landmark_count(n_landmarks, session.n, replace=replace)
    kept = [p] * len(combinations.kernels)
    if isinstance(null, Shifts):
        kept = likely_counts(session, combinations, p)
    maps = unpruned(session, combinations, kept)
    return plan_features(
        session,
        maps,
        null,
        landmark_steps(session, combinations, p, maps),
        REMEDY,
        whitened=True,
        n_landmarks=p,
        chosen=combinations.chosen,
        measure=measure,
    )


def unpruned(
    session: Session, combinations: Combinations, kept: Sequence[int]
) -> list[KernelFeatures]:
    """Features that cost what those of so many landmarks a kernel do, for plans."""
    zero = session.dtype.type(0)
    dims = combinations.spread(session.dims)
    return [
        KernelFeatures(kernel, np.broadcast_to(zero, (r, kernel.width(d))))
        for kernel, d, r in zip(combinations.kernels, dims, kept, strict=True)
    ]


def likely_counts(session: Session, combinations: Combinations, p: int) -> list[int]:
    """Landmarks of p that every kernel is likely to keep: 32 where it is of one column, or all.

    Smooth kernels of one column keep 10 to 20.
    """
    widths = [
        len(kernel.at) if isinstance(kernel, OnColumns) else session.dims[m]
        for kernel, m in zip(combinations.kernels, combinations.variables, strict=True)
    ]
    return [min(p, _KEPT) if d == 1 else p for d in widths]


def landmark_steps(
    session: Session, combinations: Combinations, p: int, maps: Sequence[KernelFeatures]
) -> list[DriverStep | PassPlan]:
    """What drawing p landmarks takes, of which those of the maps are kept."""
    rows = 8 * sum(session.dims) * (p + BANDWIDTH_ROWS)
    fetch = 3 * rows + max(source.take_bytes for source in session.sources)
    held = 8 * sum(
        one.n_features * (one.n_features + d)
        for one, d in zip(maps, combinations.spread(session.dims), strict=True)
    )
    return [
        DriverStep("fetch landmarks", fetch, rows),
        DriverStep("prune landmarks", 4 * 8 * p * p, held),
    ]


def draw_landmark_features(
    session: Session,
    kernels: Sequence[Kernel],
    n_landmarks: int | str,
    *,
    replace: bool,
    tolerance: float | None,
) -> tuple[Basis, tuple[Vector, Vector]]:
    """Draw, fetch and prune the landmarks of either variable; fit its kernel.

    Parameters
    ----------
    session : Session
        Of two variables.
    kernels : sequence of Kernel
        One a variable, to be fitted to rows fetched with the landmarks.
    n_landmarks : int or str
        Landmarks of either variable.
    replace : bool
        Draw with replacement.
    tolerance : float or None
        See `dhsic.linalg.pivoted_cholesky`.

    Returns
    -------
    Basis
        The kernels at the kept landmarks, with the factors of their Gram matrices.
    tuple of ndarray, shapes (r_m, d_m)
        The kept landmarks.
    """
    drawn = draw_landmarks_of_each(
        session,
        Combinations.single(kernels),
        n_landmarks,
        replace=replace,
        tolerance=tolerance,
    )
    (basis,) = drawn.bases()
    return basis, (drawn.points[0], drawn.points[1])


class LandmarkFeatures(NamedTuple):
    """Nystrom features of every kernel, from landmarks of its own of those of its variable."""

    combinations: Combinations
    """As fitted."""
    maps: tuple[KernelFeatures, ...]
    """The kernels at the kept landmarks."""
    factors: tuple[Vector, ...]
    """Lower triangular factors of their Gram matrices, shapes (r_m, r_m)."""
    points: tuple[Vector, ...]
    """The kept landmarks, shapes (r_m, d_m)."""
    samples: list[Vector]
    """Other rows of every variable, shapes (s, d_m)."""
    summary: LandmarkSummary
    """What the result tells of them."""

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """As fitted."""
        return self.combinations.kernels

    def bases(self) -> list[Basis]:
        """The features of every combination of two kernels."""
        samples = self.combinations.spread(self.samples)
        described = list(map(Side.of, self.maps, samples, self.factors))
        counts = [one.n_features for one in self.maps]
        return [
            Basis.joining(
                self.combinations.kernels_of(c),
                self.combinations.of(described, c),
                changed(self.summary, kept=tuple(self.combinations.of(counts, c))),
            )
            for c in range(len(self.combinations))
        ]


def draw_landmarks_of_each(
    session: Session,
    combinations: Combinations,
    n_landmarks: int | str,
    *,
    replace: bool,
    tolerance: float | None,
) -> LandmarkFeatures:
    """Draw and fetch the landmarks of any number of variables; fit and prune for every kernel.

    As `draw_landmark_features`. Kernels of one variable prune the same landmarks.
    """
    p = landmark_count(n_landmarks, session.n, replace=replace)
    session.step("fetch landmarks")
    m = len(session.sources)
    drawn = uniform_rows(session.seed, session.n, p, m, pairing="independent", replace=replace)
    sampled = bandwidth_rows(session)
    rows = session.take([np.append(z, x) for z, x in zip(drawn, sampled, strict=True)])
    samples = [x[p:] for x in rows]
    fitted = fit_combinations(session, combinations, samples)
    session.step("prune landmarks")
    tolerance = tolerance_for(tolerance, session.dtype)
    names, landmarks = fitted.spread(session.names), fitted.spread([x[:p] for x in rows])
    factors = [
        _factor(name, kernel, z, tolerance)
        for name, kernel, z in zip(names, fitted.kernels, landmarks, strict=True)
    ]
    points = tuple(z[factor.kept] for z, factor in zip(landmarks, factors, strict=True))
    maps = tuple(
        KernelFeatures.at(z, kernel, session.dtype)
        for z, kernel in zip(points, fitted.kernels, strict=True)
    )
    warn_of_rounding(names, fitted.kernels, [one.columns for one in maps], session.dtype)
    summary = LandmarkSummary(
        drawn=p,
        kept=tuple(factor.rank for factor in factors),
        pairing="independent",
        replace=replace,
        tolerance=factors[0].tolerance,
    )
    lower = tuple(factor.factor for factor in factors)
    return LandmarkFeatures(fitted, maps, lower, points, samples, summary)


def _factor(name: str, kernel: Kernel, landmarks: Vector, tolerance: float) -> PivotedCholesky:
    gram = kernel(landmarks)
    warn_of_zeros(gram, f"the kernel of variable {name!r}")
    return pivoted_cholesky(gram, tolerance)
