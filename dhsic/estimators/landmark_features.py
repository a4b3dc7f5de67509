"""Nystrom features of either variable, from landmarks of its own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.plan import DriverStep, Plan
from dhsic.engine.session import Session
from dhsic.errors import DataError
from dhsic.estimators.base import BANDWIDTH_ROWS, Null, bandwidth_rows, fit_kernels
from dhsic.estimators.feature_basis import Basis
from dhsic.estimators.feature_tests import plan_features
from dhsic.features import KernelFeatures
from dhsic.kernels import Kernel
from dhsic.landmarks import landmark_count, tolerance_for, uniform_rows, warn_of_rounding
from dhsic.linalg import PivotedCholesky, pivoted_cholesky
from dhsic.results import LandmarkSummary

__all__ = ["draw_landmark_features", "plan_landmark_features"]

Vector = NDArray[np.float64]

_REMEDY = "take fewer landmarks, fewer resamples or fewer threads"


def plan_landmark_features(
    session: Session,
    kernels: Sequence[Kernel],
    null: Null | None,
    n_landmarks: int | str,
    *,
    replace: bool,
) -> Plan:
    """What would run, with the landmarks as drawn: pruning can only make it less."""
    p = landmark_count(n_landmarks, session.n, replace=replace)
    zero = session.dtype.type(0)
    first, second = (
        KernelFeatures(kernel, np.broadcast_to(zero, (p, kernel.width(d))))
        for kernel, d in zip(kernels, session.dims, strict=True)
    )
    rows = 8 * sum(session.dims) * (p + BANDWIDTH_ROWS)
    fetch = 3 * rows + max(source.take_bytes for source in session.sources)
    gram = 8 * p * p
    preparation = [
        DriverStep("fetch landmarks", fetch, rows),
        DriverStep("prune landmarks", 4 * gram, 2 * gram),
    ]
    return plan_features(
        session, (first, second), null, preparation, _REMEDY, whitened=True, n_landmarks=p
    )


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
    p = landmark_count(n_landmarks, session.n, replace=replace)
    session.step("fetch landmarks")
    drawn = uniform_rows(session.seed, session.n, p, 2, pairing="independent", replace=replace)
    sampled = bandwidth_rows(session)
    rows = session.take([np.append(z, x) for z, x in zip(drawn, sampled, strict=True)])
    samples = [x[p:] for x in rows]
    fitted = fit_kernels(session, kernels, samples)
    session.step("prune landmarks")
    tolerance = tolerance_for(tolerance, session.dtype)
    factors = [
        _factor(name, kernel, x[:p], tolerance)
        for name, kernel, x in zip(session.names, fitted, rows, strict=True)
    ]
    points = tuple(x[factor.kept] for x, factor in zip(rows, factors, strict=True))
    maps = tuple(
        KernelFeatures.at(z, kernel, session.dtype)
        for z, kernel in zip(points, fitted, strict=True)
    )
    warn_of_rounding(session.names, fitted, [one.columns for one in maps], session.dtype)
    summary = LandmarkSummary(
        drawn=p,
        kept=tuple(factor.rank for factor in factors),
        pairing="independent",
        replace=replace,
        tolerance=factors[0].tolerance,
    )
    basis = Basis.of(
        fitted,
        (maps[0], maps[1]),
        samples,
        factors=(factors[0].factor, factors[1].factor),
        landmarks=summary,
    )
    return basis, (points[0], points[1])


def _factor(name: str, kernel: Kernel, landmarks: Vector, tolerance: float) -> PivotedCholesky:
    factor = pivoted_cholesky(kernel(landmarks), tolerance)
    if factor.rank == 0:
        msg = f"the kernel of variable {name!r} must not be 0 at every landmark: choose another"
        raise DataError(msg)
    return factor
