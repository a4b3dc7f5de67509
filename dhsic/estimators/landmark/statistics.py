"""Statistics at landmark tuples with their null distributions, from the sums of passes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.plan import DriverStep, PassPlan
from dhsic.engine.session import Session
from dhsic.engine.tiles import Tile
from dhsic.estimators.landmark.moments import (
    Moments,
    functions_of,
    measured,
    no_moments,
    write_means,
)
from dhsic.estimators.landmark.orbits import MeansPass, TupleOrbitPass, TupleSums
from dhsic.estimators.landmark.terms import SpectrumPass
from dhsic.estimators.landmark.tuples import Tuples
from dhsic.estimators.resample import (
    Orbit,
    Resampled,
    orbit_of,
    suits_one_task,
    tie_tolerance,
    tile_error,
    transform_error,
)
from dhsic.linalg import spectrum, squared_norms
from dhsic.nulls import (
    ChiSquareMixture,
    Distribution,
    Gamma,
    GammaDistribution,
    Permutation,
    Shifts,
    Spectral,
    check_no_overflow,
)

Vector = NDArray[np.float64]
Whiten = Callable[[Tile], Vector]
TupleResampling = Shifts | Permutation
TupleNull = TupleResampling | Gamma | Spectral
PlannedStep = DriverStep | PassPlan
TuplePass = TypeVar("TuplePass", bound=TupleOrbitPass | SpectrumPass)

_SAFETY = 4.0
_PROBES = 8
_FUNCTIONS = 4  # copies of the functions of a statistic while they are solved for


class ResampledTuples(NamedTuple):
    """Statistics T = n |L^-1 u|^2 and their replicates."""

    resampled: Resampled
    """The statistics."""
    moments: Moments
    """The moments of the data."""
    detail: str
    """How the replicates were made, where the null leaves a choice."""


class StatisticWithLaw(NamedTuple):
    """A statistic with a null distribution that needs no replicates."""

    statistic: float
    """T = n |L^-1 u|^2."""
    distribution: Distribution
    """The law of T under the null hypothesis."""


def measure_tuples(session: Session, tuples: Tuples) -> Moments:
    """The means of the kernels and of their products, in one pass."""
    return measured(tuples, session.reduce(MeansPass(tuples)), session.n)


def resample_tuples(
    session: Session, tuples: Tuples, whiten: Sequence[Whiten], null: TupleResampling
) -> ResampledTuples:
    """T of all statistics and their replicates, in one pass, or as few as fit in memory.

    Parameters
    ----------
    session : Session
        The run.
    tuples : Tuples
        The statistics.
    whiten : sequence of callable
        L^-1 of every statistic, from (q,) or (q, b) to the same shape: the norm of a function is
        that of its whitened values at the landmarks.
    null : Shifts or Permutation
        How replicates are made.

    Returns
    -------
    ResampledTuples
    """
    orbit = _shared_orbit(session, tuples, null)
    b, n = orbit.n_shifts, session.n
    values, errors = np.empty((len(orbit), len(tuples.pairs))), np.empty(len(tuples.pairs))
    moments = no_moments(tuples)
    for numbers, cosets, reduction in _program_pieces(session, _Orbiting(tuples, orbit)):
        part, sums = reduction.tuples, session.reduce(reduction)
        session.step("solve")
        write_means(moments, part, sums, n)
        for place, c in enumerate(numbers):
            for r, coset in enumerate(cosets):
                at = functions_of(part, sums, moments.kappa, place, r, b, n)
                # T = n |L^-1 u|^2 under all shifts of a coset at once.
                values[coset * b : (coset + 1) * b, c] = n * squared_norms(whiten[c](at))
                if coset == 0:
                    moments.u[c] = at[:, 0].copy()
            errors[c] = error_of_root(part, sums, place, orbit, n, whiten[c])
        del sums, at  # the next pass has sums of its own
    resampled = Resampled.of(values, tie_tolerance(values[0], errors))
    return ResampledTuples(resampled, moments, orbit.detail)


def fit_tuples(
    session: Session, tuples: Tuples, whiten: Sequence[Whiten], null: Gamma | Spectral
) -> tuple[list[StatisticWithLaw], Moments]:
    """T of every statistic and its fitted null distribution, in two passes where they fit."""
    moments = no_moments(tuples)
    sums = session.reduce(MeansPass(tuples, products=False))
    write_means(moments, tuples, sums, session.n)
    fitting = _Fitting(tuples.about(list(moments.kappa)), null)
    tested: list[StatisticWithLaw] = []
    for numbers, _, reduction in _program_pieces(session, fitting):
        for c, both in zip(numbers, reduction.of(session.reduce(reduction)), strict=True):
            tested.append(_fitted(session, *both, whiten[c], null))
            moments.u[c] = both[0] / session.n
        del both  # the next pass has sums of its own
    return tested, moments


def plan_tuples(session: Session, tuples: Tuples, null: TupleNull | None) -> list[PlannedStep]:
    """The passes of `resample_tuples`, `fit_tuples` or `measure_tuples` and what follows each."""
    if isinstance(null, TupleResampling):
        return _tuple_steps(session, _Orbiting(tuples, _shared_orbit(session, tuples, null)))
    first = session.plan(MeansPass(tuples, products=null is None))
    return [first] if null is None else [first, *_tuple_steps(session, _Fitting(tuples, null))]


@dataclass(frozen=True)
class _Orbiting:
    """Passes over some statistics and cosets."""

    tuples: Tuples
    orbit: Orbit

    @property
    def cosets(self) -> tuple[int, ...]:
        return tuple(range(self.orbit.cosets))

    def reduction(self, numbers: range, cosets: tuple[int, ...]) -> TupleOrbitPass:
        return TupleOrbitPass(self.tuples.part(numbers), self.orbit, cosets)

    def after(self, reduction: TupleOrbitPass) -> list[DriverStep]:
        """The permutations of one coset and statistic at a time."""
        return [_solve_step(reduction.tuples, self.orbit.n_shifts)]


@dataclass(frozen=True)
class _Fitting:
    """Passes over the second moments of some statistics."""

    tuples: Tuples
    null: Gamma | Spectral
    cosets: tuple[int, ...] = (0,)

    def reduction(self, numbers: range, cosets: tuple[int, ...]) -> SpectrumPass:
        del cosets
        return SpectrumPass(self.tuples.part(numbers), f"{self.null.name} null")

    def after(self, reduction: SpectrumPass) -> list[DriverStep]:
        """The covariance of one statistic after another, beside the moments of all."""
        matrix = 8 * max(reduction.sizes) ** 2
        held = matrix * (len(reduction.sizes) - 1)
        steps = [DriverStep("whiten", held + 6 * matrix)]
        if isinstance(self.null, Spectral):
            steps.append(DriverStep("eigenvalues", held + 5 * matrix))
        return steps * len(reduction.sizes)


class _Program(Protocol[TuplePass]):
    """Passes that each take some statistics and cosets, and what follows them."""

    @property
    def tuples(self) -> Tuples: ...

    @property
    def cosets(self) -> tuple[int, ...]: ...

    def reduction(self, numbers: range, cosets: tuple[int, ...]) -> TuplePass: ...

    def after(self, reduction: TuplePass) -> list[DriverStep]: ...


class _TuplePiece(NamedTuple, Generic[TuplePass]):
    """What one pass takes."""

    numbers: range
    """Numbers of the statistics."""
    cosets: tuple[int, ...]
    reduction: TuplePass


def _tuple_steps(session: Session, program: _Program[TuplePass]) -> list[PlannedStep]:
    """The steps of all pieces, for a plan."""
    steps: list[PlannedStep] = []
    for piece in _program_pieces(session, program):
        steps += [session.plan(piece.reduction), *program.after(piece.reduction)]
    return steps


def _solve_step(part: Tuples, count: int) -> DriverStep:
    """So many functions of one statistic, and a factor beside them."""
    sizes = [len(kept) for kept in part.kept]
    working = 8 * max(sizes) * (_FUNCTIONS * count + 2 * max(sizes))
    return DriverStep("solve", working)


def _program_pieces(
    session: Session, program: _Program[TuplePass]
) -> Iterator[_TuplePiece[TuplePass]]:
    """Statistics and cosets that one pass takes: all where they fit in memory, else halves.

    The driver may hold factors beside a pass and a solve, see `NystromMHSIC`.
    """
    left = [(range(len(program.tuples.pairs)), program.cosets)]
    while left:
        numbers, cosets = left.pop(0)
        reduction = program.reduction(numbers, cosets)
        solve = max(step.working_bytes for step in program.after(reduction))
        fits = session.plan(reduction).worker_bytes + solve <= session.runtime.pass_bytes
        if fits or len(numbers) == len(cosets) == 1:
            yield _TuplePiece(numbers, cosets, reduction)
        elif len(numbers) > 1:
            middle = len(numbers) // 2
            left[:0] = [(numbers[:middle], cosets), (numbers[middle:], cosets)]
        else:
            middle = len(cosets) // 2
            left[:0] = [(numbers, cosets[:middle]), (numbers, cosets[middle:])]


def _shared_orbit(session: Session, tuples: Tuples, null: TupleResampling) -> Orbit:
    """The permutations, which all statistics share."""

    def suits(orbit: Orbit) -> bool:
        return suits_one_task(session, TupleOrbitPass(tuples, orbit, tuple(range(orbit.cosets))))

    return orbit_of(session, null, suits)


def error_of_root(
    part: Tuples, sums: TupleSums, c: int, orbit: Orbit, n: int, whiten: Whiten
) -> float:
    """Up to how much the root of a statistic, sqrt(n) |L^-1 u|, may be wrong by rounding."""
    return math.sqrt(n) * _norm_of_errors(whiten, _errors(part, sums, c, orbit, n))


def _errors(part: Tuples, sums: TupleSums, c: int, orbit: Orbit, n: int) -> Vector:
    """About how large the rounding errors of a covariance are, shape (q,).

    Those of a transform grow with the logarithm of its length, and so do those of sums in double
    precision; errors of groups are independent.
    """
    at = slice(part.starts[c], part.starts[c + 1])
    summed = part.dtype if orbit.shifted else np.float64
    unit = transform_error(summed, orbit.groups.size) + tile_error(part.dtype)
    errors: Vector = unit * np.sqrt(sums.squares[at]) / n
    return errors


def _norm_of_errors(whiten: Whiten, errors: Vector) -> float:
    """The norm of L^-1 e for independent errors of these sizes, times a factor for safety.

    |L^-1 diag(errors)|_F by a few random signs (Hutchinson 1990).
    """
    # A fixed seed: the bound is the same in every run.
    signs = np.random.Generator(np.random.Philox(0)).choice([-1.0, 1.0], (len(errors), _PROBES))
    return _SAFETY * math.sqrt(float(squared_norms(whiten(errors[:, None] * signs)).mean()))


def _fitted(
    session: Session, plain: Vector, squares: Vector, whiten: Whiten, null: Gamma | Spectral
) -> StatisticWithLaw:
    """T, and its limit law: of a normal U of the same covariance.

    T = sum_k lambda_k z_k^2 with lambda_k the eigenvalues of L^-1 Cov(xi) L^-T, whose trace and
    squared Frobenius norm are the mean and half the variance of T. The mean of this law over
    permutations is (n - 2) / n times that of T: exactly for M = 2, as follows from
    E T = tr(HK_1) tr(HK_2) / (n (n - 1)), and closely for M > 2. The factor n / (n - 2) removes
    the excess of rejections that it causes at small n.
    """
    n = session.n
    u = plain / n
    session.step("whiten")
    covariance = whiten(whiten((squares / n - np.outer(u, u)) * (n / (n - 2))).T)
    check_no_overflow(covariance)
    statistic = n * float(squared_norms(whiten(u)))
    if isinstance(null, Spectral):
        session.step("eigenvalues")
        # Along directions near the pruning tolerance the covariance may be negative by rounding.
        mixture = ChiSquareMixture.of(spectrum(covariance).clip(min=0.0))
        return StatisticWithLaw(statistic, null.distribution(mixture, session.seed))
    variance = 2.0 * float(np.vdot(covariance, covariance))
    return StatisticWithLaw(statistic, GammaDistribution(float(covariance.trace()), variance))
