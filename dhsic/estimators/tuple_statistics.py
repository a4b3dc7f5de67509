"""Statistics at landmark tuples under all permutations of an orbit, from the sums of a pass."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from dhsic.engine.plan import DriverStep, PassPlan, baseline_bytes
from dhsic.engine.session import Session
from dhsic.estimators.landmark_shifts import ShiftedSums, ShiftedTuples
from dhsic.estimators.resample import Orbit, Resampled, tie_tolerance, tile_error, transform_error
from dhsic.estimators.tuples import Tuples
from dhsic.linalg import squared_norms

__all__ = ["ResampledTuples", "plan_tuples", "resample_tuples"]

Vector = NDArray[np.float64]
Whiten = Callable[[Vector], Vector]

_SAFETY = 4.0
_PROBES = 8
_FUNCTIONS = 4  # copies of the functions of a combination while they are solved for


class ResampledTuples(NamedTuple):
    """Statistics T = n |L^-1 u|^2 of all pairs under all permutations of an orbit."""

    resampled: Resampled
    """The statistics."""
    kappa: Vector
    """Means of the kernels where statistics need them, shape (K, p)."""
    squares: Vector
    """Means of their squares."""
    u: list[Vector]
    """kappa_J - prod_m kappa_m of every statistic, shapes (q,)."""


def resample_tuples(
    session: Session,
    tuples: Tuples,
    whiten: Sequence[Whiten],
    orbit: Orbit,
    *,
    joint: bool = False,
) -> ResampledTuples:
    """T of all statistics and all permutations, in one pass, or as few as fit in memory.

    Parameters
    ----------
    session : Session
        The run.
    tuples : Tuples
        The statistics.
    whiten : sequence of callable
        L^-1 of every statistic, from (q,) or (q, b) to the same shape.
    orbit : Orbit
        The permutations.
    joint : bool, optional
        T is of the mean of the product of all kernels less the product of their means, and cosets
        permute all variables but the first; otherwise of the covariance of both sides.

    Returns
    -------
    ResampledTuples
    """
    b, count, n = orbit.groups.size, len(tuples.pairs), session.n
    values, errors = np.empty((len(orbit), count)), np.empty(count)
    kappa, squares = np.zeros((2, len(tuples.kernels), tuples.n_landmarks))
    u: list[Vector] = [np.empty(0)] * count
    for numbers, cosets in _parts(session, tuples, orbit, joint=joint):
        part = tuples.part(numbers)
        sums = session.run_groups(ShiftedTuples(part, orbit, cosets, joint))
        session.step("solve")
        _add_moments(part, sums, n, kappa, squares)
        for place, c in enumerate(numbers):
            pair, kept = part.pairs[place], part.kept[place]
            means = kappa[list(pair.left)][:, kept].prod(axis=0), kappa[pair.right, kept]
            for r, coset in enumerate(cosets):
                found = _covariances(part, sums, place, r, b, n)
                offset = (_left_mean(part, sums, place, r, n) - means[0]) * means[1]
                at = found + offset[:, None] if joint else found
                values[coset * b : (coset + 1) * b, c] = n * squared_norms(whiten[c](at))
                if coset == 0:
                    u[c] = found[:, 0] + offset
            errors[c] = math.sqrt(n) * _norm_of_errors(whiten[c], _errors(part, sums, place, b, n))
    resampled = Resampled.of(values, tie_tolerance(values[0], errors))
    return ResampledTuples(resampled, kappa, squares, u)


def _covariances(part: Tuples, sums: ShiftedSums, c: int, r: int, b: int, n: int) -> Vector:
    """Of both sides under every shift of a coset, shape (q, b).

    With f and h the sides about their pilots the covariance under a permutation s is
    (1/n) sum_i f_i h_s(i) less the product of the means of f and h, which no shift changes.
    """
    pair, at = part.pairs[c], slice(part.starts[c], part.starts[c + 1])
    found: Vector = fft.irfft(sums.spectra[r, at], b, axis=1)
    found += sums.left_over[at, None]
    found /= n
    left, right = (_mean_about_pilot(part, sums, c, s, r, n) for s in (pair.left, (pair.right,)))
    found -= (left * right)[:, None]
    return found


def _mean_about_pilot(
    part: Tuples, sums: ShiftedSums, c: int, side: tuple[int, ...], r: int, n: int
) -> Vector:
    """The mean of a side less its pilot at the landmarks of a statistic, shape (q,)."""
    at = np.searchsorted(part.sides[side], part.kept[c])
    means: Vector = sums.sides[r, part.side_places[side]][at] / n
    return means


def _left_mean(part: Tuples, sums: ShiftedSums, c: int, r: int, n: int) -> Vector:
    """The mean of the left side, shape (q,)."""
    left = part.pairs[c].left
    pilot = math.prod(part.pilots[k][part.kept[c]] for k in left)
    mean: Vector = pilot + _mean_about_pilot(part, sums, c, left, r, n)
    return mean


def _add_moments(part: Tuples, sums: ShiftedSums, n: int, kappa: Vector, squares: Vector) -> None:
    """Write the means of single kernels and of their squares."""
    for side, at in part.sides.items():
        if len(side) == 1:
            (k,), place, pilot = side, part.side_places[side], part.pilots[side[0]][at]
            about = sums.sides[0, place] / n
            kappa[k, at] = pilot + about
            squares[k, at] = sums.side_squares[place] / n + pilot * (pilot + 2.0 * about)


def _errors(part: Tuples, sums: ShiftedSums, c: int, b: int, n: int) -> Vector:
    """About how large the rounding errors of a covariance are, shape (q,).

    Those of a transform grow with the logarithm of its length; those of groups are independent.
    """
    at = slice(part.starts[c], part.starts[c + 1])
    unit = transform_error(part.dtype, b) + tile_error(part.dtype)
    errors: Vector = unit * np.sqrt(sums.squares[at]) / n
    return errors


def _norm_of_errors(whiten: Whiten, errors: Vector) -> float:
    """The norm of L^-1 e for independent errors of these sizes, times a factor for safety.

    |L^-1 diag(errors)|_F by a few random signs (Hutchinson 1990).
    """
    signs = np.random.Generator(np.random.Philox(0)).choice([-1.0, 1.0], (len(errors), _PROBES))
    return _SAFETY * math.sqrt(float(squared_norms(whiten(errors[:, None] * signs)).mean()))


def plan_tuples(
    session: Session, tuples: Tuples, orbit: Orbit, *, joint: bool = False
) -> list[DriverStep | PassPlan]:
    """The passes of `resample_tuples` and the step after each."""
    steps: list[DriverStep | PassPlan] = []
    for numbers, cosets in _parts(session, tuples, orbit, joint=joint):
        part = tuples.part(numbers)
        steps.append(session.plan_groups(ShiftedTuples(part, orbit, cosets, joint)))
        steps.append(DriverStep("solve", _solve_bytes(part, orbit)))
    return steps


def _solve_bytes(part: Tuples, orbit: Orbit) -> int:
    """Of the functions of one statistic, and of a factor beside them."""
    q = max(map(len, part.kept))
    return 8 * q * (_FUNCTIONS * orbit.groups.size + 2 * q)


def _parts(
    session: Session, tuples: Tuples, orbit: Orbit, *, joint: bool
) -> list[tuple[range, tuple[int, ...]]]:
    """Statistics and cosets that one pass takes: all where they fit in memory, else as many as do.

    The driver may hold factors beside a pass and a solve, see `NystromMHSIC`.
    """
    allowed = session.runtime.memory - baseline_bytes() - session.runtime.memory // 8

    def fits(numbers: range, cosets: tuple[int, ...]) -> bool:
        part = tuples.part(numbers)
        plan = session.plan_groups(ShiftedTuples(part, orbit, cosets, joint))
        return bool(plan.worker_bytes + _solve_bytes(part, orbit) <= allowed)

    def cut(numbers: range, cosets: tuple[int, ...]) -> list[tuple[range, tuple[int, ...]]]:
        if (len(numbers) == 1 and len(cosets) == 1) or fits(numbers, cosets):
            return [(numbers, cosets)]
        if len(numbers) > 1:
            middle = len(numbers) // 2
            return cut(numbers[:middle], cosets) + cut(numbers[middle:], cosets)
        middle = len(cosets) // 2
        return cut(numbers, cosets[:middle]) + cut(numbers, cosets[middle:])

    return cut(range(len(tuples.pairs)), tuple(range(orbit.cosets)))
