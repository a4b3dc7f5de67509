"""Permutations of all rows that are drawn until the p-value is clear, where rows are held."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.groups import Groups
from dhsic.engine.plan import DriverStep
from dhsic.engine.reduction import GroupBlock
from dhsic.engine.session import Session
from dhsic.estimators.landmark.moments import functions_of
from dhsic.estimators.landmark.orbits import TupleOrbitPass
from dhsic.estimators.landmark.statistics import error_of_root
from dhsic.estimators.landmark.tuples import Tuples
from dhsic.estimators.location.sums import Norm
from dhsic.estimators.resample import Orbit, tie_tolerance
from dhsic.estimators.sequential import batches_of, draw_sequentially
from dhsic.linalg import squared_norms
from dhsic.nulls import Sequential, SequentialReplicates, tie_threshold

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class HeldOrbit:
    """T under permutations of rows that are held.

    Parameters
    ----------
    tuples : Tuples
        One joint statistic, about the means of the kernels.
    orbit : Orbit
        Permutations of all rows.
    values : tuple of ndarray, shapes (n, d_m)
        The rows of every variable, in the order of the one group.
    norm : Norm
        Norm of u.
    """

    tuples: Tuples
    orbit: Orbit
    values: tuple[NDArray[np.float64], ...]
    norm: Norm

    def __call__(self, numbers: range) -> Vector:
        """Statistics of some permutations besides the identity."""
        return self.measured([1 + number for number in numbers])[0]

    def measured(self, cosets: list[int]) -> tuple[Vector, float]:
        """Statistics of some permutations, and how much the root of T may be wrong by rounding."""
        t, n = self.tuples, len(self.values[0])
        # All rows are one group, so that no permutation is left out.
        block = GroupBlock(0, self.orbit.groups, self.values)
        sums = TupleOrbitPass(t, self.orbit, tuple(cosets)).chunk(block)
        # `NFSIC` has put the means of the kernels in the place of the pilots.
        kappa = np.array(t.pilots)
        u = [functions_of(t, sums, kappa, 0, r, 1, n)[:, 0] for r in range(len(cosets))]
        error = error_of_root(t, sums, 0, self.orbit, n, self.norm.whiten)
        return n * squared_norms(self.norm.whiten(np.transpose(u))), error


class HeldTest(NamedTuple):
    """T with the permutations that were drawn."""

    statistic: float
    """Statistic of the data as they are."""
    law: SequentialReplicates
    """The permutations up to the last that counts."""
    detail: str
    """How many they are."""
    rounding: float
    """Differences of T up to it are ties."""


def held_test(session: Session, tuples: Tuples, norm: Norm, null: Sequential) -> HeldTest:
    """Draw permutations of all rows of a session until the p-value is clear.

    Parameters
    ----------
    session : Session
        The run.
    tuples : Tuples
        One joint statistic, about the means of the kernels.
    norm : Norm
        Norm of u.
    null : Sequential
        When to stop.
    """
    session.step("rows in memory")
    orbit = _orbit_of_all_rows(session, null)
    ranges, places = orbit.groups.arrange(0, 1)
    # The rows in the order in which their group has them.
    rows = np.concatenate([np.arange(*span) for span in ranges])[places]
    values = tuple(session.take([rows] * len(session.sources)))
    held = HeldOrbit(tuples, orbit, values, norm)
    (statistic,), error = held.measured([0])
    (rounding,) = tie_tolerance([statistic], [error]).tolist()
    least = tie_threshold(float(statistic), session.dtype, rounding)
    batches = (measured for _, measured in batches_of(session, null, held))
    return HeldTest(float(statistic), *draw_sequentially(null, least, batches), rounding)


def held_location_steps(session: Session, tuples: Tuples, null: Sequential) -> list[DriverStep]:
    """The steps of `held_test`, for a plan."""
    largest = tuple(range(max(null.batches)))
    cost = TupleOrbitPass(tuples, _orbit_of_all_rows(session, null), largest).footprint(session.n)
    rows = 8 * session.n * sum(session.dims)
    work = cost.payload + session.runtime.threads * (cost.scratch + cost.state)
    return [DriverStep("rows in memory", 2 * rows, rows), DriverStep("permutation null", work)]


def _orbit_of_all_rows(session: Session, null: Sequential) -> Orbit:
    """The identity and permutations of all rows."""
    return Orbit(Groups(session.n, session.n, session.seed), null.n_resamples + 1, shifted=False)
