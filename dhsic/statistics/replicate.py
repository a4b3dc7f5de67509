"""Statistics of the data and of all permutations of an orbit, in as few passes as fit in memory.

A contraction says how a pass sums for C statistics under some cosets of an orbit, and what the sums
make of them: a `Statistic`. All that does not depend on the contraction stands here: which
permutations a null takes, how the work is cut where sums do not fit in memory, and how parts become
statistics, replicates and ties.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.plan import DriverStep, PassPlan
from dhsic.engine.session import Session
from dhsic.nulls import Permutation, Resampling
from dhsic.statistics.groups import Groups
from dhsic.statistics.orbit import (
    Orbit,
    PermutedPass,
    Replicated,
    narrower,
    orbit_of,
    suits_one_task,
    tie_tolerance,
)

State = TypeVar("State")
Vector = NDArray[np.float64]

_LEAST_GROUP = 16  # rows


class Permuted(NamedTuple):
    """What the sums of a pass say of C statistics."""

    permuted: Vector
    """Statistics under the permutations of the cosets that were summed, shape (R b, C)."""
    errors: Vector
    """Up to how much rounding may have changed the root of a statistic, shape (C,)."""
    data: Any = None
    """What else the sums of coset 0 say of the data as they are."""


class Statistic(ABC, Generic[State]):
    """C statistics of the same rows, whose sums share a pass."""

    identity_rows: ClassVar[int] = 1024
    """Rows of a group where nothing is permuted."""

    @abstractmethod
    def __len__(self) -> int:
        """C."""

    @abstractmethod
    def part(self, numbers: range) -> Self:
        """Some of the statistics."""

    @abstractmethod
    def over(self, orbit: Orbit, cosets: range) -> PermutedPass[State]:
        """The pass that sums for the permutations of some cosets."""

    @abstractmethod
    def step(self, session: Session, reduction: PermutedPass[State]) -> DriverStep:
        """The bytes of `values`, with those of the sums."""

    @abstractmethod
    def values(self, session: Session, reduction: PermutedPass[State], sums: State) -> Permuted:
        """The statistics of the sums of `over`, which may be overwritten."""

    def addends(self, fits: Callable[[Self], bool]) -> list[Self]:
        """Parts that fit, whose statistics add up to that of the only one; none where it has none.

        A squared norm is a sum over features.
        """
        del fits
        return []

    def tolerance(self, statistics: Vector, errors: Vector) -> Vector:
        """How far below a statistic a replicate may lie and still be a tie, shape (C,)."""
        return tie_tolerance(statistics, errors)

    def largest(self) -> Self:
        """The statistic whose sums are largest."""
        return self.part(range(1))

    def orbit(self, session: Session, null: Resampling | None) -> Orbit:
        """The permutations of a null; without one the identity.

        Groups are smaller where a statistic does not fit otherwise: they have fewer frequencies,
        and more cosets make up for the shifts.
        """
        if null is None:
            groups = Groups.of(session.n, min(session.n, self.identity_rows), session.seed)
            return Orbit(groups, 1, shifted=False)
        largest = self.largest()

        def suits(orbit: Orbit) -> bool:
            """Whether one task can take all permutations of a statistic by itself."""
            return suits_one_task(session, largest.over(orbit, range(orbit.cosets)))

        orbit = orbit_of(session, null, suits)
        if isinstance(null, Permutation):
            return orbit

        def fits(some: Self) -> bool:
            return _planned(session, some, orbit, range(orbit.cosets)[-1:]).fits(session)

        while orbit.groups.size >= 2 * _LEAST_GROUP and not fits(largest):
            if largest.addends(fits):
                break
            orbit = narrower(session, orbit, null.n_resamples)
        return orbit


def replicate(session: Session, statistic: Statistic[Any], orbit: Orbit) -> Replicated:
    """The statistics of the data and of all other permutations of an orbit."""
    whole, squares = np.zeros((0, 0)), np.zeros(len(statistic))
    data: list[tuple[range, Any]] = []
    for piece in _pieces(session, statistic, orbit):
        reduction = piece.statistic.over(orbit, piece.cosets)
        found = piece.statistic.values(session, reduction, session.reduce(reduction, piece.plan))
        at = slice(piece.numbers.start, piece.numbers.stop)
        if piece.cosets.start == 0:
            # Errors are of roots, whose squares add up over parts of a norm.
            squares[at] += found.errors**2
            if not data or data[-1][0] != piece.numbers:
                data.append((piece.numbers, found.data))
        if found.permuted.shape == (len(orbit), len(statistic)) and not whole.size:
            whole = found.permuted
            continue
        whole = whole if whole.size else np.zeros((len(orbit), len(statistic)))
        # Statistics of parts of the features add up.
        b = orbit.n_shifts
        whole[b * piece.cosets.start : b * piece.cosets.stop, at] += found.permuted
    tolerance = statistic.tolerance(whole[0], np.sqrt(squares))
    return Replicated(whole[0], whole[1:], tolerance, tuple(data))


def measure(session: Session, statistic: Statistic[Any]) -> Replicated:
    """The statistics of the data alone."""
    return replicate(session, statistic, statistic.orbit(session, None))


def replicate_steps(
    session: Session, statistic: Statistic[Any], orbit: Orbit
) -> list[DriverStep | PassPlan]:
    """The passes of `replicate`, and the step after each."""
    pieces = _pieces(session, statistic, orbit)
    return [step for piece in pieces for step in (piece.plan, piece.step)]


class _Part(NamedTuple):
    """The part of the work that one pass takes."""

    statistic: Statistic[Any]
    numbers: range
    """Those of its statistics."""
    cosets: range
    plan: PassPlan
    step: DriverStep

    def fits(self, session: Session) -> bool:
        """Whether it leaves memory for what the driver holds."""
        return max(self.plan.worker_bytes, self.step.working_bytes) <= session.runtime.pass_bytes


def _planned(
    session: Session,
    statistic: Statistic[Any],
    orbit: Orbit,
    cosets: range,
    numbers: range = range(1),
) -> _Part:
    reduction = statistic.over(orbit, cosets)
    step = statistic.step(session, reduction)
    return _Part(statistic, numbers, cosets, session.plan(reduction), step)


def _pieces(session: Session, statistic: Statistic[Any], orbit: Orbit) -> Iterator[_Part]:
    """All at once where the sums fit in memory; else halves of the statistics, then of the cosets.

    Of one statistic and one coset they are parts that add up to it. What is too large even then is
    taken as it is, and the plan says so.
    """

    def cut(some: Statistic[Any], numbers: range, cosets: range) -> Iterator[_Part]:
        piece = _planned(session, some, orbit, cosets, numbers)
        if piece.fits(session):
            yield piece
            return
        if len(numbers) > 1:
            for half in _halves(numbers):
                yield from cut(statistic.part(half), half, cosets)
            return

        def fits(part: Statistic[Any]) -> bool:
            # The last coset takes more than the first: it moves rows.
            return _planned(session, part, orbit, cosets[-1:]).fits(session)

        alone = fits(some)
        parts = [] if alone else some.addends(fits)
        if len(cosets) > 1 and alone:
            for half in _halves(cosets):
                yield from cut(some, numbers, half)
        for part in parts:
            yield from cut(part, numbers, cosets)
        if not parts and not (len(cosets) > 1 and alone):
            yield piece

    return cut(statistic, range(len(statistic)), range(orbit.cosets))


def _halves(numbers: range) -> tuple[range, range]:
    """Two, of which the first is the longer: what fits for it fits for both."""
    middle = -(-len(numbers) // 2)
    return numbers[:middle], numbers[middle:]
