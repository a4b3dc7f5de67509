"""Replicates by shifts within groups of rows: what every family of estimators shares."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dhsic.engine.plan import Plan
from dhsic.engine.reduction import Pass, RowGroups
from dhsic.engine.session import Session
from dhsic.kernels import Combinations
from dhsic.nulls import Permutation, Shifts
from dhsic.statistics.exchangeable import Groups, MovedGroups, RowSets

Vector = NDArray[np.float64]
State = TypeVar("State")

_CLOSING = 8  # columns of replicates that a p-value takes beside all, a few of each array
# Times the replicates of all features that their ranking takes beside them, which standardises all:
# of 200 features and 100,000 replicates 5.4.
_RANKING = 6
_WIDEST = 4096  # rows of a group; beyond, more cosets do as well and hold less


class Pair(NamedTuple):
    """A statistic of the dependence of one variable and others, by a kernel of each."""

    left: tuple[int, ...]
    """Numbers of kernels that are multiplied, each of another variable."""
    right: int
    """Number of the kernel of the variable that is shifted."""

    @classmethod
    def of(cls, combination: tuple[int, ...]) -> Self:
        """The last kernel of a combination and all others."""
        return cls(combination[:-1], combination[-1])


class Replicated(NamedTuple):
    """C statistics with the replicates that they share."""

    statistics: Vector
    """Shape (C,)."""
    replicates: Vector
    """Statistics of the rest of the orbit, shape (N - 1, C); a row is one permutation for all."""
    rounding: Vector
    """Differences of the statistics up to it are ties, shape (C,)."""
    data: tuple[tuple[Sequence[int], Any], ...] = ()
    """What else the sums say of the data as they are, with the numbers of the statistics."""

    @property
    def told(self) -> list[Any]:
        """What the sums say of every statistic, in their order."""
        each = (zip(numbers, some, strict=True) for numbers, some in self.data)
        found = dict(chain(*each))
        return [found[c] for c in sorted(found)]


@dataclass(frozen=True)
class Orbit:
    """The permutations of rows by which a test compares the data with itself.

    Permutation number r b + k permutes within groups at random, in the way of coset r, and then
    shifts by k, so that row i of a group meets row (i + k) mod b of the shifted variable. Number 0
    is the identity. Without shifts, permutation number r is that of coset r alone.

    Parameters
    ----------
    groups : RowGroups
        Within which rows move, b in each.
    cosets : int
        How many, R; the first is that of the identity.
    shifted : bool, optional
        Whether every coset is shifted by all k < b.
    """

    groups: RowGroups
    cosets: int
    shifted: bool = True

    def __len__(self) -> int:
        return self.cosets * self.n_shifts

    @property
    def n_shifts(self) -> int:
        """Permutations of a coset."""
        return self.groups.size if self.shifted else 1

    @property
    def detail(self) -> str:
        """How the replicates are made, for a result."""
        groups, b, count = self.groups, self.groups.size, self.groups.count
        of = f" of {self.cosets:,}" if self.cosets > 1 else ""
        if isinstance(groups, MovedGroups):
            stay = f"; {groups.n_left:,} of {groups.n:,} rows stay" if groups.n_left else ""
            if not self.shifted:
                return f"{groups.what} shuffled{stay}"
            return f"all {b:,} shifts{of and f'{of} orders'} of {groups.what}{stay}"
        if not self.shifted:
            return "all rows shuffled" if count == 1 else f"shuffled in groups of {b:,} rows"
        within = "all rows" if count == 1 else f"{count:,} groups of rows"
        return f"all {b:,} shifts{of and f'{of} random orders'} within {within}"

    def places(self, cosets: range, variable: int, *span: int) -> NDArray[np.intp]:
        """Where rows of a variable come from in some cosets, shape (R, rows).

        The span has the first group, how many, and how many rows that stay come after them; of all
        rows it is not given. Coset 0 holds the data, as its shift by 0: its rows stay.
        """
        groups, b = self.groups, self.groups.size
        first, count, n_left = span or (0, groups.count, groups.n_left)
        moving = count * b
        places = np.tile(np.arange(moving + n_left), (len(cosets), 1))
        if count and (drawn := cosets[1:] if 0 in cosets else cosets):
            # A variable that moves has orders of its own. Several orders of one pairing, with the
            # data counted once, are not exact: 8.5 % of true nulls rejected at 1 % for n = 10.
            orders = groups.orders(drawn, first, count, variable)
            orders = orders + b * np.arange(count)[:, None]
            places[-len(drawn) :, :moving] = orders.reshape(len(drawn), -1)
        return places


class PermutedPass(Pass[State]):
    """A pass over groups of rows under the permutations of an orbit."""

    orbit: Orbit
    cosets: range
    """Those of the orbit that are summed."""

    @property
    def name(self) -> str:
        """Name of the pass."""
        return "shifts" if self.orbit.shifted else "permutation null"

    @property
    def groups(self) -> RowGroups:
        """The groups of all rows."""
        return self.orbit.groups


def transform_error(dtype: DTypeLike, length: int) -> float:
    """Rounding error of Fourier transforms of a length, relative to the values."""
    # A transform of length b has an error of about eps log2(b), relative to the norm.
    return float(np.finfo(dtype).eps) * math.log2(length + 1)


def tile_error(dtype: DTypeLike) -> float:
    """How much kernels of equal rows differ by their place in a tile: as measured, 90 columns."""
    return 3e-7 if np.dtype(dtype) == np.float32 else 4e-15


def tie_tolerance(statistics: Any, errors: Any) -> Vector:
    """How far below a statistic T a replicate may lie and still be a tie.

    Roots of T are norms. Where each is known up to an error d, replicates with
    sqrt(T_k) >= sqrt(T) - 2 d count, that is T_k >= T - 4 d sqrt(T) + 4 d^2.

    Parameters
    ----------
    statistics : array-like, shape (G,)
        T >= 0.
    errors : array-like, shape (G,)
        d.

    Returns
    -------
    ndarray, shape (G,)
    """
    # Without a tolerance p-values of 82 to 100 % of discrete data sets were too small.
    # Errors are of the norm, the root of T; squared they would be many times too wide at small T.
    roots = np.sqrt(np.maximum(np.asarray(statistics, np.float64), 0.0))
    least = np.maximum(roots - 2.0 * np.asarray(errors, np.float64), 0.0)
    tolerance: Vector = roots**2 - least**2
    return tolerance


def keeping_replicates(plan: Plan, combinations: Combinations, null: object) -> Plan:
    """The plan with the bytes of replicates, of all statistics, until the p-value is known."""
    values = 8 * getattr(null, "n_resamples", 0)  # an orbit has at least so many permutations
    kept = values * len(combinations)
    closing = max(values * _CLOSING, kept * _RANKING if combinations.features else 0)
    return replace(plan, kept_bytes=kept, closing_bytes=closing)


def orbit_of(
    session: Session,
    null: Shifts | Permutation,
    suits: Callable[[Orbit], bool] = lambda _: True,
) -> Orbit:
    """The permutations that a null takes of the rows of a session.

    Parameters
    ----------
    session : Session
        The run.
    null : Shifts or Permutation
        The null distribution.
    suits : callable, optional
        Whether permutations of all rows, in one task, are quick and fit in memory: asked where the
        null leaves the choice and rows are many.
    """
    if isinstance(null, Shifts):
        return shifted_orbit(session, null.n_resamples)
    n = session.n
    # One more, since the identity is the data.
    whole = Orbit(whole_group(session), null.n_resamples + 1, shifted=False)
    # All rows are permuted where one task holds them; within groups the test is as exact.
    if null.within == "all" or n <= null.group_rows or (null.within == "auto" and suits(whole)):
        return whole
    groups: RowGroups
    if session.moves is None:
        # Groups as near to the size as the rows divide.
        groups = Groups(n, n // round(n / null.group_rows), session.seed)
    else:
        groups = session.moves.groups(null.group_rows)
    return replace(whole, groups=groups)


def shifted_orbit(session: Session, n_resamples: int, most: int | None = None) -> Orbit:
    """At least so many shifts, in groups of at most so many rows or not many more."""
    # Rows of a series keep their order: there is one circle of shifts, and no coset of it makes up
    # for a smaller one.
    moves = session.moves
    serial = moves is not None and moves.serial
    # A group of b rows has b shifts: a larger one would make more than were asked for.
    size = min(n_resamples, most or (n_resamples if serial else _WIDEST))
    groups = Groups.of(session.n, size, session.seed) if moves is None else moves.groups(size)
    # Whole cosets, and as many as give the number that was asked for.
    return Orbit(groups, 1 if serial else -(-n_resamples // groups.size))


def whole_group(session: Session) -> RowGroups:
    """All rows of a session as one group."""
    moves = session.moves
    if moves is None:
        return Groups(session.n, session.n, session.seed)
    assert isinstance(moves, RowSets), "rows of series are not permuted"
    return moves.whole
