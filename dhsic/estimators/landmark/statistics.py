"""Statistics at landmark tuples with their null distributions, from the sums of passes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dhsic._work import Work
from dhsic.engine.plan import DriverStep, PassPlan
from dhsic.engine.session import Session
from dhsic.engine.tiles import Tile
from dhsic.estimators.landmark.moments import (
    Moments,
    functions_of,
    mean_about_pilot,
    measured,
    no_moments,
    write_means,
)
from dhsic.estimators.landmark.orbits import MeansPass, TupleOrbitPass, TupleSums
from dhsic.estimators.landmark.terms import SignedPass, SignedTupleSums, SpectrumPass
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
    Multiplier,
    Permutation,
    Shifts,
    Spectral,
    check_no_overflow,
)

Vector = NDArray[np.float64]
Whiten = Callable[[Tile], Vector]
TupleResampling = Shifts | Permutation | Multiplier
TupleNull = TupleResampling | Gamma | Spectral
PlannedStep = DriverStep | PassPlan
TuplePass = TypeVar("TuplePass", bound=TupleOrbitPass | SignedPass | SpectrumPass)

_SAFETY = 4.0
_PROBES = 8
_SHORT = 300  # values of a function, of which solves take as long as of twice as many would
_SOLVED = 30.0  # passes over a value of a function that is solved for
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
    return measured(tuples, session.run(MeansPass(tuples)), session.n)


def resample_tuples(
    session: Session, tuples: Tuples, whiten: Sequence[Whiten], null: TupleResampling
) -> ResampledTuples:
    """T of all statistics and their replicates, in one pass, or as few as fit in memory.

    Random signs take another pass before, for the means of the kernels.

    Parameters
    ----------
    session : Session
        The run.
    tuples : Tuples
        The statistics.
    whiten : sequence of callable
        L^-1 of every statistic, from (q,) or (q, b) to the same shape: the norm of a function is
        that of its whitened values at the landmarks.
    null : Shifts, Permutation or Multiplier
        How replicates are made.

    Returns
    -------
    ResampledTuples
    """
    if isinstance(null, Multiplier):
        return _by_signs(session, tuples, whiten, null)
    orbit = _shared_orbit(session, tuples, null)
    b, n = orbit.n_shifts, session.n
    values, errors = np.empty((len(orbit), len(tuples.pairs))), np.empty(len(tuples.pairs))
    moments = no_moments(tuples)
    for numbers, cosets, reduction in _program_pieces(session, _Orbiting(tuples, orbit)):
        part, sums = reduction.tuples, session.run_groups(reduction)
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


def _by_signs(
    session: Session, tuples: Tuples, whiten: Sequence[Whiten], null: Multiplier
) -> ResampledTuples:
    about, left_means, moments = _about_means(session, tuples)
    norms: list[Vector] = []
    signing = _Signing(about, left_means, null.n_resamples, session.seed)
    for numbers, _, reduction in _program_pieces(session, signing):
        part, sums = reduction.tuples, session.run(reduction)
        session.step("solve")
        functions = _signed_functions(sums, session.n)
        for c, start, stop in zip(numbers, part.starts, part.starts[1:], strict=False):
            moments.u[c] = functions[start:stop, 0].copy()
            norms.append(session.n * squared_norms(whiten[c](functions[start:stop])))
        del sums, functions  # the next pass has its own
    whole = np.transpose(norms)
    return ResampledTuples(Resampled.of(whole, np.zeros(len(norms))), moments, "")


def fit_tuples(
    session: Session, tuples: Tuples, whiten: Sequence[Whiten], null: Gamma | Spectral
) -> tuple[list[StatisticWithLaw], Moments]:
    """T of every statistic and its fitted null distribution, in two passes where they fit."""
    about, left_means, moments = _about_means(session, tuples)
    tested: list[StatisticWithLaw] = []
    for numbers, _, reduction in _program_pieces(session, _Fitting(about, left_means, null)):
        for c, both in zip(numbers, reduction.of(session.run(reduction)), strict=True):
            tested.append(_fitted(session, *both, whiten[c], null))
            moments.u[c] = both[0] / session.n
        del both  # the next pass has sums of its own
    return tested, moments


def plan_tuples(session: Session, tuples: Tuples, null: TupleNull | None) -> list[PlannedStep]:
    """The passes of `resample_tuples`, `fit_tuples` or `measure_tuples` and what follows each."""
    if isinstance(null, Shifts | Permutation):
        return _tuple_steps(session, _Orbiting(tuples, _shared_orbit(session, tuples, null)))
    first = session.plan(MeansPass(tuples, products=null is None))
    if null is None:
        return [first]
    means = np.broadcast_to(tuples.sums.type(0), tuples.starts[-1])
    if isinstance(null, Multiplier):
        signing = _Signing(tuples, means, null.n_resamples, session.seed)
        return [first, *_tuple_steps(session, signing)]
    return [first, *_tuple_steps(session, _Fitting(tuples, means, null))]


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
class _Signing:
    """Passes over some statistics with signs."""

    tuples: Tuples
    left_means: Tile
    n_resamples: int
    seed: int
    cosets: tuple[int, ...] = (0,)

    def reduction(self, numbers: range, cosets: tuple[int, ...]) -> SignedPass:
        del cosets
        part, means = self.tuples.part(numbers), _of_part(self.left_means, self.tuples, numbers)
        return SignedPass(part, means, self.n_resamples, self.seed)

    def after(self, reduction: SignedPass) -> list[DriverStep]:
        """The functions of all statistics, and copies of those of one."""
        part, count = reduction.tuples, self.n_resamples + 1
        functions, solve = part.sums.itemsize * part.starts[-1] * count, _solve_step(part, count)
        return [replace(solve, working_bytes=2 * functions + solve.working_bytes)]


@dataclass(frozen=True)
class _Fitting:
    """Passes over the second moments of some statistics."""

    tuples: Tuples
    left_means: Tile
    null: Gamma | Spectral
    cosets: tuple[int, ...] = (0,)

    def reduction(self, numbers: range, cosets: tuple[int, ...]) -> SpectrumPass:
        del cosets
        part, means = self.tuples.part(numbers), _of_part(self.left_means, self.tuples, numbers)
        return SpectrumPass(part, means, f"{self.null.name} null")

    def after(self, reduction: SpectrumPass) -> list[DriverStep]:
        """The covariance of one statistic after another, beside the moments of all."""
        matrix = 8 * max(reduction.sizes) ** 2
        held = matrix * (len(reduction.sizes) - 1)
        q = max(reduction.sizes)
        solves = Work.of(factors=2.0 * q**3, entries=40.0 * q**2)
        steps = [DriverStep("whiten", held + 6 * matrix, work=solves)]
        if isinstance(self.null, Spectral):
            values = Work.of(eigenvalues=q**3)
            steps.append(DriverStep("eigenvalues", held + 5 * matrix, work=values))
        return steps * len(reduction.sizes)


class _Program(Protocol[TuplePass]):
    """Passes that each take some statistics and cosets, and what follows them."""

    @property
    def tuples(self) -> Tuples: ...

    @property
    def cosets(self) -> tuple[int, ...]: ...

    def reduction(self, numbers: range, cosets: tuple[int, ...]) -> TuplePass: ...

    def after(self, reduction: TuplePass) -> list[DriverStep]: ...


class _Pass(NamedTuple, Generic[TuplePass]):
    """The work of one pass."""

    numbers: range
    """Numbers of the statistics."""
    cosets: tuple[int, ...]
    reduction: TuplePass


def _tuple_steps(session: Session, program: _Program[TuplePass]) -> list[PlannedStep]:
    """The steps of all pieces, for a plan."""
    steps: list[PlannedStep] = []
    for piece in _program_pieces(session, program):
        steps += [_planned(session, piece.reduction), *program.after(piece.reduction)]
    return steps


def _planned(session: Session, reduction: TupleOrbitPass | SignedPass | SpectrumPass) -> PassPlan:
    if isinstance(reduction, TupleOrbitPass):
        return session.plan_groups(reduction)
    return session.plan(reduction)


def _solve_step(part: Tuples, count: int) -> DriverStep:
    """So many functions of one statistic, and a factor beside them."""
    sizes = [part.parts * len(kept) for kept in part.kept]
    working = 8 * max(sizes) * (_FUNCTIONS * count + 2 * max(sizes))
    solves = sum(q * (q + _SHORT) for q in sizes)
    back = Work.of(transforms=sum(sizes), entries=_SOLVED * sum(sizes))
    return DriverStep("solve", working, work=count * (Work.of(factors=solves) + back))


def _program_pieces(session: Session, program: _Program[TuplePass]) -> Iterator[_Pass[TuplePass]]:
    """Statistics and cosets that one pass takes: all where they fit in memory, else halves.

    The driver may hold factors beside a pass and a solve, see `NystromMHSIC`.
    """
    left = [(range(len(program.tuples.pairs)), program.cosets)]
    while left:
        numbers, cosets = left.pop(0)
        reduction = program.reduction(numbers, cosets)
        solve = max(step.working_bytes for step in program.after(reduction))
        fits = _planned(session, reduction).worker_bytes + solve <= session.runtime.pass_bytes
        if fits or len(numbers) == len(cosets) == 1:
            yield _Pass(numbers, cosets, reduction)
        elif len(numbers) > 1:
            middle = len(numbers) // 2
            left[:0] = [(numbers[:middle], cosets), (numbers[middle:], cosets)]
        else:
            middle = len(cosets) // 2
            left[:0] = [(numbers, cosets[:middle]), (numbers, cosets[middle:])]


def _shared_orbit(session: Session, tuples: Tuples, null: Shifts | Permutation) -> Orbit:
    """The permutations, which all statistics share."""

    def suits(orbit: Orbit) -> bool:
        return suits_one_task(session, TupleOrbitPass(tuples, orbit, tuple(range(orbit.cosets))))

    return orbit_of(session, null, suits)


def _about_means(session: Session, tuples: Tuples) -> tuple[Tuples, Tile, Moments]:
    """The statistics about the means of the kernels, the means of left sides, and the moments."""
    sums = session.run(MeansPass(tuples, products=False))
    moments = no_moments(tuples)
    write_means(moments, tuples, sums, session.n)
    left_means = np.zeros(tuples.starts[-1], tuples.sums)
    for c, (left, _) in enumerate(tuples.pairs):
        if tuples.form == "centred" and len(left) > 1:
            # The mean of the product of two centred kernels is their covariance.
            a, b = (mean_about_pilot(tuples, sums, c, (k,), 0, session.n) for k in left)
            covariance = mean_about_pilot(tuples, sums, c, left, 0, session.n) - a * b
            left_means[tuples.starts[c] : tuples.starts[c + 1]] = covariance
    return tuples.about(list(moments.kappa)), left_means, moments


def _of_part(values: Tile, tuples: Tuples, numbers: range) -> Tile:
    return values[tuples.starts[numbers[0]] : tuples.starts[numbers[-1] + 1]]


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


def _signed_functions(sums: SignedTupleSums, n: int) -> Tile:
    """u, and U_b = (1/n) sum_i (w_ib - mean_i w_ib) xi_i for every replicate, shape (Q, b + 1).

    The mean of T_b over signs and permutations is (n - 2) / n times that of T over permutations:
    exactly for M = 2, as follows from E T = tr(HK_1) tr(HK_2) / (n (n - 1)), and closely for
    M > 2. The factor removes the excess of rejections that it causes at small n.
    """
    u = sums.plain / n
    signed = (sums.signed - np.outer(u, sums.signs)) / n * math.sqrt(n / (n - 2))
    return np.column_stack([u, signed])


def _fitted(
    session: Session, plain: Vector, squares: Vector, whiten: Whiten, null: Gamma | Spectral
) -> StatisticWithLaw:
    """T, and the distribution that the multipliers imitate: of a normal U of the same covariance.

    T = sum_k lambda_k z_k^2 with lambda_k the eigenvalues of L^-1 Cov(xi) L^-T, whose trace and
    squared Frobenius norm are the mean and half the variance of T. The factor n / (n - 2) is that
    of the multipliers.
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
