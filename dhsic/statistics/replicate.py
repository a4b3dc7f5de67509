"""Statistics of the data and of all permutations of an orbit, in as few passes as fit in memory.

A contraction is a `Statistic`: it defines how a pass sums for C statistics under some cosets of an
orbit, and how sums become values. This module has the parts that do not depend on the contraction:
which permutations a null takes, how work is split if sums do not fit in memory, and how the parts
become statistics, replicates and ties.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.passes import Pass
from dhsic.engine.plan import DriverStep, PassPlan
from dhsic.engine.session import Session
from dhsic.nulls import Permutation, Resampling
from dhsic.statistics.exchangeable import Groups
from dhsic.statistics.orbit import (
    Orbit,
    Replicated,
    orbit_of,
    shifted_orbit,
    tie_tolerance,
)

State = TypeVar("State")
Vector = NDArray[np.float64]

_LEAST_GROUP = 16  # rows
_ROWS_OF_A_TASK = 2**15  # that permutations of all rows take, where no other thread can help
SHARE_OF_MANY = 6
"""Of the memory, that many statistics that are measured each by itself take at a time.

1,000 pairs of features of 10,000 rows took 1.5 GiB of 2 GiB in four passes and 15.5 s, and take
0.4 GiB in as long.
"""


class Permuted(NamedTuple):
    """What the sums of a pass say of C statistics."""

    permuted: Vector
    """Statistics under the permutations of the cosets that were summed, shape (R b, C)."""
    errors: Vector
    """Up to how much rounding may have changed a statistic or its root, shape (C,)."""
    data: Any = None
    """What else the sums of coset 0 say of the data as they are."""


class Statistic(ABC, Generic[State]):
    """C statistics of the same rows, whose sums share a pass."""

    identity_rows: ClassVar[int] = 1024
    """Rows of a group where nothing is permuted."""
    errors_of_roots: ClassVar[bool] = True
    """Whether the errors that are known are those of the roots of statistics, which are norms."""

    @property
    def adds(self) -> bool:
        """Whether a statistic is a sum of those of parts of its functions, see `addends`."""
        return False

    @abstractmethod
    def __len__(self) -> int:
        """C."""

    def most(self, orbit: Orbit) -> tuple[int, int]:
        """How many statistics and cosets may share a pass."""
        return len(self), orbit.cosets

    @abstractmethod
    def part(self, numbers: Sequence[int]) -> Self:
        """Some of the statistics."""

    def ordered(self, numbers: Sequence[int]) -> Sequence[int]:
        """Some of the statistics in an order in which neighbours share functions."""
        return numbers

    @abstractmethod
    def over(self, orbit: Orbit, cosets: range) -> Pass[State]:
        """The pass that sums for the permutations of some cosets."""

    @abstractmethod
    def step(self, session: Session, reduction: Any) -> DriverStep:
        """The bytes of `values`, with those of the sums."""

    @abstractmethod
    def values(self, session: Session, reduction: Any, sums: Any) -> Permuted:
        """The statistics of the sums of a pass that `over` made, which may be overwritten."""

    def addends(self, fits: Callable[[Self], bool]) -> list[Self]:
        """Parts that fit, whose statistics add up to that of the only one; none where it has none.

        A squared norm is a sum over features.
        """
        del fits
        return []

    def largest(self) -> Self:
        """The statistic whose sums are largest."""
        return self.part(range(1))

    def bare(self) -> Self:
        """The same without sums of blocks of rows, by which no replicate may change.

        So they decide neither groups nor passes of these.
        """
        return self

    def orbit(self, session: Session, null: Resampling | None) -> Orbit:
        """The permutations of a null; without one the identity.

        Groups are smaller where a statistic does not fit otherwise: they have fewer frequencies,
        and more cosets make up for the shifts.
        """
        if null is None:
            groups = Groups.of(session.n, min(session.n, self.identity_rows), session.seed)
            return Orbit(groups, 1, shifted=False)
        largest = self.largest().bare()

        def suits(orbit: Orbit) -> bool:
            """Whether one task can take all permutations of a statistic by itself."""
            if session.n > _ROWS_OF_A_TASK:
                return False
            plan = session.plan(largest.over(orbit, range(orbit.cosets)))
            return plan.worker_bytes <= session.runtime.memory // 2

        orbit = orbit_of(session, null, suits)
        if isinstance(null, Permutation) or self.adds:
            return orbit

        def fits(some: Self) -> bool:
            return _planned(session, orbit, some, range(orbit.cosets)[-1:]).fits(session)

        while orbit.groups.size >= 2 * _LEAST_GROUP and not fits(largest):
            orbit = shifted_orbit(session, null.n_resamples, orbit.groups.size // 2)
        return orbit


def replicate(
    session: Session, statistic: Statistic[Any], orbit: Orbit, share: int = 1
) -> Replicated:
    """The statistics of the data and of all other permutations of an orbit, by their parts."""
    count = len(statistic)
    whole: Replicated | None = None
    for numbers, part in replicate_parts(session, statistic, orbit, share):
        if len(numbers) == count:
            return part
        if whole is None:
            values = np.empty((len(orbit), count))
            whole = Replicated(values[0], values[1:], np.empty(count))
        for every, some in zip(whole[:3], part[:3], strict=True):
            every[..., list(numbers)] = some
        whole = whole._replace(data=whole.data + part.data)
    assert whole is not None
    return whole


def replicate_parts(
    session: Session, statistic: Statistic[Any], orbit: Orbit, share: int = 1
) -> Iterator[tuple[Sequence[int], Replicated]]:
    """Some of the statistics after others, by their numbers, with all of their replicates.

    Several share a pass where that takes one part in `share` of the memory; replicates may go
    before those of the next are made.
    """
    pieces = _pieces(session, statistic, orbit, share)
    for numbers, group in groupby(pieces, key=lambda piece: piece.numbers):
        values, squares, data = np.empty((0, 0)), np.zeros(len(numbers)), None
        for piece in group:
            cosets, sums = piece.cosets, session.reduce(piece.reduction, piece.plan)
            session.step(piece.step.name)
            found = piece.statistic.values(session, piece.reduction, sums)
            if cosets.start == 0:
                # Errors are of roots, whose squares add up over parts of a norm.
                squares += found.errors**2
                data = found.data if data is None else data
            if not values.size and len(found.permuted) == len(orbit):
                values = found.permuted
                continue
            values = values if values.size else np.zeros((len(orbit), len(numbers)))
            # Statistics of parts of the features add up.
            b = orbit.n_shifts
            values[b * cosets.start : b * cosets.stop] += found.permuted
        tolerance = np.sqrt(squares)
        if statistic.errors_of_roots:
            tolerance = tie_tolerance(values[0], tolerance)
        yield numbers, Replicated(values[0], values[1:], tolerance, ((numbers, data),))


def measure(session: Session, statistic: Statistic[Any]) -> Replicated:
    """The statistics of the data alone."""
    return replicate(session, statistic, statistic.orbit(session, None))


def replicate_steps(
    session: Session, statistic: Statistic[Any], orbit: Orbit, share: int = 1
) -> list[DriverStep | PassPlan]:
    """The passes of `replicate_parts`, and the step after each."""
    pieces = _pieces(session, statistic, orbit, share)
    return [step for piece in pieces for step in (piece.plan, piece.step)]


class _Part(NamedTuple):
    """The part of the work that one pass takes."""

    statistic: Statistic[Any]
    numbers: Sequence[int]
    """Those of its statistics."""
    cosets: range
    reduction: Pass[Any]
    plan: PassPlan
    step: DriverStep
    needed: int
    """Bytes of the pass, or of the step after it, without sums of blocks of rows."""

    def fits(self, session: Session) -> bool:
        """Whether it leaves memory for what the driver holds."""
        return self.needed <= session.runtime.pass_bytes


def _planned(
    session: Session,
    orbit: Orbit,
    statistic: Statistic[Any],
    cosets: range,
    numbers: Sequence[int] = range(1),
) -> _Part:
    reduction = statistic.over(orbit, cosets)
    plan, step = session.plan(reduction), statistic.step(session, reduction)
    needed = max(plan.worker_bytes, step.working_bytes)
    bare = statistic.bare() if len(orbit) > 1 else statistic
    # What takes little with them takes little without, too.
    if bare is not statistic and needed > session.runtime.pass_bytes // SHARE_OF_MANY:
        needed = _planned(session, orbit, bare, cosets).needed
    return _Part(statistic, numbers, cosets, reduction, plan, step, needed)


def _pieces(
    session: Session, statistic: Statistic[Any], orbit: Orbit, share: int, *part: Any
) -> Iterator[_Part]:
    """All at once where the sums fit in memory; else parts of the statistics, then of the cosets.

    Of one statistic and one coset they are parts that add up to it. What is too large even then is
    taken as it is, and the plan says so. A part is some of the statistics, their numbers and some
    of the cosets, by default all.
    """
    some, numbers, cosets = part or (statistic, range(len(statistic)), range(orbit.cosets))
    planned = partial(_planned, session, orbit)
    # Not a function within this one: that would refer to itself, and so hold the data of a test
    # that has ended until cycles are collected.
    again = partial(_pieces, session, statistic, orbit, share)
    (most, together), count = some.most(orbit), len(numbers)
    allowed = session.runtime.pass_bytes // (share if count > 1 else 1)
    # The last cosets take more than the first: they move rows.
    piece = planned(some, cosets[-together:], numbers) if count <= most else None
    if piece is not None and piece.needed <= allowed:
        for few in _cut(cosets, -(-len(cosets) // together)):
            yield piece if few == piece.cosets else planned(some, few, numbers)
    elif count > 1:
        parts = -(-count // most)
        if piece is not None:
            parts = min(-(-piece.needed // max(allowed, 1)), count)
        for few_numbers in _cut(statistic.ordered(numbers), parts):
            yield from again(statistic.part(few_numbers), few_numbers, cosets)
    else:
        assert piece is not None
        one = planned(some, cosets[-1:], numbers)
        fits = one.fits(session)
        addends = (
            [] if fits else some.addends(lambda part: planned(part, cosets[-1:]).fits(session))
        )
        for addend in addends:
            yield from again(addend, numbers, cosets)
        if fits:
            for few in _cut(cosets, 2):
                yield from again(some, numbers, few)
        elif not addends:
            # Nothing fits: the plan says about how much one coset takes.
            parts = max(-(-len(cosets) // together), -(-piece.needed // one.needed))
            # One coset fits where the driver holds less than is kept for it.
            room = session.runtime.memory - session.runtime.libraries_bytes
            while parts < len(cosets) and one.needed <= room:
                if planned(some, next(_cut(cosets, parts))).needed <= room:
                    break
                parts *= 2
            for few in _cut(cosets, parts):
                yield planned(some, few, numbers)


def _cut(numbers: Any, parts: int) -> Iterator[Any]:
    """So many parts, of which the first is the longest: what fits for it fits for all."""
    size = -(-len(numbers) // parts)
    return (numbers[at : at + size] for at in range(0, len(numbers), size))
