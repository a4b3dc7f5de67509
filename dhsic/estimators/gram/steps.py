"""The steps of tests from Gram matrices: the plan prints them, and the run goes through them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.groups import Groups, RowGroups
from dhsic.engine.plan import DriverStep, PassPlan, Plan
from dhsic.engine.reduction import GroupBlock
from dhsic.engine.session import Session
from dhsic.engine.tiles import Matrix
from dhsic.estimators.base import fitting_step, plan_of
from dhsic.estimators.gram.centring import Centring, limit_mixture
from dhsic.estimators.gram.orbits import GramOrbit, rows_in_order
from dhsic.estimators.gram.permutations import BATCH, PermutedGramPass
from dhsic.estimators.gram.shifts import ShiftedGramPass
from dhsic.estimators.gram.sides import GramSides, PairSums, RowPart
from dhsic.estimators.resample import Orbit, orbit_of, whole_group
from dhsic.kernels import Combinations
from dhsic.nulls import Permutation, Shifts

Vector = NDArray[np.float64]
Permuting = Shifts | Permutation

_FEWEST = 512  # rows of a group: tiles of fewer take longer for a row
_VECTORS = 8  # of all rows, for every statistic
_REMEDY = (
    "take estimator='nystrom-m', fewer rows, fewer kernels ('gaussian' is one), or fewer resamples"
)


class CostedStep(NamedTuple):
    """A step with its cost."""

    cost: DriverStep | PassPlan
    """Its name, and the bytes that it takes."""
    run: Callable[[Any], Any]
    """Takes what the step before it returned, or None."""


def run_steps(session: Session, steps: Iterable[CostedStep]) -> Any:
    """Run one step after another, and return what the last one returns.

    Passes over data and over resamples tell of themselves when they start.
    """
    value = None
    for cost, run in steps:
        if isinstance(cost, DriverStep):
            session.step(cost.name)
        value = run(value)
    return value


def plan_steps(
    session: Session,
    parts: Iterable[Sequence[CostedStep]],
    remedy: str = _REMEDY,
) -> Plan:
    """The plan of steps in parts, after the kernels of combinations are fitted.

    Whatever a part holds is gone when the next one starts, so its steps count what is held by them.
    """
    costs: list[DriverStep | PassPlan] = [fitting_step(session)]
    for part in parts:
        # A step holds its bytes for those of its own part, and parts come one after another.
        held = 0
        for cost, _ in part:
            if isinstance(cost, PassPlan):
                costs.append(replace(cost, worker_bytes=cost.worker_bytes + held))
            else:
                costs.append(replace(cost, working_bytes=cost.working_bytes + held, held_bytes=0))
                held += cost.held_bytes
    return plan_of(session, costs, remedy)


def read_step(session: Session, groups: RowGroups) -> CostedStep:
    """Read all rows, into one `GroupBlock`."""
    # Read once, since all pairs of rows meet.
    rows = 8 * session.n * sum(session.dims)

    def read(_: None) -> GroupBlock:
        numbers = [rows_in_order(groups)] * len(session.sources)
        return GroupBlock(0, groups, tuple(session.take(numbers)))

    return CostedStep(DriverStep("read all rows", 3 * rows, rows), read)


def orbit_steps(
    session: Session,
    combinations: Combinations,
    samples: Sequence[Vector],
    null: Permuting,
    *,
    unbiased: bool,
    planned: Plan | None = None,
) -> list[CostedStep]:
    """The steps of a test whose null permutes rows; the last one returns a `GramOrbit`.

    Gram matrices of permutations of all rows are held, others pass by in tiles.

    Parameters
    ----------
    session : Session
        The run.
    combinations : Combinations
        The fitted kernels.
    samples : sequence of ndarray, shapes (s, d_m)
        Rows of every variable in a random order, drawn independently of the others'.
    null : Shifts or Permutation
        The permutations.
    unbiased : bool
        U-statistics, for two variables.
    planned : Plan, optional
        That of the run, where these are all its steps.

    Returns
    -------
    list of Step
    """
    orbit = _orbit_in_memory(session, combinations, null)
    sides = GramSides.of(session, combinations, samples, orbit, unbiased=unbiased)
    if orbit.shifted:
        return _passing_steps(session, ShiftedGramPass(sides), planned)
    reduction = PermutedGramPass(sides)
    if orbit.groups.count > 1:
        return _passing_steps(session, reduction, planned)

    def permute(held: HeldGrams) -> PairSums:
        # Permutations are taken of the matrices that are held, by number, where tasks run.
        function = reduction.permuted(held.grams, held.piece, held.piece)
        parts = session.map(reduction.name, function, orbit.cosets - 1)
        # The data were summed when the matrices were made.
        held.sums.products[1:, :, 0] = np.concatenate(parts)
        return held.sums

    working = session.runtime.threads * reduction.permuting_bytes(session.n)
    # Half of the entries, by symmetry.
    bytes_ = working + PairSums.nbytes_of(sides, 1)
    cost = DriverStep(reduction.name, bytes_)
    return [
        *held_steps(session, reduction),
        CostedStep(cost, permute),
        _statistics(session, reduction),
    ]


def plain_steps(
    session: Session,
    combinations: Combinations,
    samples: Sequence[Vector],
    planned: Plan | None = None,
) -> list[CostedStep]:
    """The steps of an estimate; the last one returns a `GramOrbit`."""
    groups = Groups.of(session.n, min(session.n, _FEWEST), session.seed)
    sides = GramSides.of(session, combinations, samples, Orbit(groups, 1, shifted=False))
    return _passing_steps(session, PermutedGramPass(sides), planned)


def _passing_steps(
    session: Session,
    reduction: ShiftedGramPass | PermutedGramPass,
    planned: Plan | None = None,
) -> list[CostedStep]:
    """One pass over tiles that no one holds, and what follows from it.

    One block is one block of fewer kernels, too, so that it is not planned anew.
    """
    # The plan of one block is that of all: it was made when the estimator was chosen.
    known = () if planned is None else planned.passes
    if len(known) == 1 and known[0].blocks == 1 and reduction.one_block:
        plan = known[0]
    else:
        plan = session.plan(reduction)
    step = CostedStep(plan, lambda _: session.reduce(reduction, plan))
    return [step, _statistics(session, reduction)]


def _statistics(session: Session, reduction: ShiftedGramPass | PermutedGramPass) -> CostedStep:
    sides = reduction.sides
    values = 8 * len(sides.pairs) * (3 * len(sides.orbit) + _VECTORS * session.n)
    held = PairSums.nbytes_of(sides, reduction.frequencies) + values
    cost = DriverStep("statistics", held)
    return CostedStep(cost, lambda sums: GramOrbit(reduction, sums))


def _orbit_in_memory(session: Session, combinations: Combinations, null: Permuting) -> Orbit:
    """All rows are permuted where half the memory holds what that takes for one combination.

    As many combinations are taken at a time as fit. Shifts are more than were asked for where fewer
    would take longer.
    """
    if isinstance(null, Permutation):
        # The matrices of one combination, and the orders of a batch of permutations.
        held = _gram_bytes(session, combinations.part([0]))
        held += 8 * session.n * BATCH * (len(session.sources) - 1)
        return orbit_of(session, null, lambda _: held <= session.runtime.memory // 2)
    # More shifts than rows of a small group are of several cosets.
    least = max(null.n_resamples, min(session.n, _FEWEST))
    return session.once(
        ("orbit", null, least), lambda: orbit_of(session, replace(null, n_resamples=least))
    )


class HeldGrams(NamedTuple):
    """Gram matrices of all rows that are held."""

    sums: PairSums
    """Their sums."""
    grams: list[Matrix]
    """One a kernel, shapes (n, n), about the pilots."""
    piece: RowPart
    """The rows."""


def held_pass(
    session: Session, combinations: Combinations, samples: Sequence[Vector]
) -> PermutedGramPass:
    """All rows as one group, and no permutation of them."""
    orbit = Orbit(whole_group(session), 1, shifted=False)
    return PermutedGramPass(GramSides.of(session, combinations, samples, orbit))


def held_steps(session: Session, reduction: PermutedGramPass) -> list[CostedStep]:
    """Read all rows, and compute their Gram matrices, into `HeldGrams`."""
    sides, held = reduction.sides, _gram_bytes(session, reduction.sides.combinations)
    kept = held + PairSums.nbytes_of(sides, 1)

    def compute(block: GroupBlock) -> HeldGrams:
        # One piece: all rows are one group.
        sums, (piece,) = PairSums.zeros(sides, 1), sides.pieces(block)
        return HeldGrams(sums, reduction.add_plain(sums, piece, piece), piece)

    scratch = sides.plain_bytes(session.n, session.n)
    cost = DriverStep("Gram matrices", scratch + kept - held, kept)
    return [read_step(session, sides.orbit.groups), CostedStep(cost, compute)]


def spectral_steps(
    session: Session, combinations: Combinations, samples: Sequence[Vector]
) -> list[CostedStep]:
    """Hold the Gram matrices of one combination, and take their eigenvalues."""
    reduction = held_pass(session, combinations, samples)

    def solve(held: HeldGrams) -> GramOrbit:
        grams = GramOrbit(reduction, held.sums)
        centring = Centring.of(grams.sums_of(combinations.chosen[0]), unbiased=False)
        return replace(grams, limit=limit_mixture(held.grams, centring))

    # Eigenvalues of products of many kernels take workspaces for each centred matrix.
    working = 8 * session.n**2 * (2 if len(session.sources) == 2 else 8)
    cost = DriverStep("eigenvalues", working)
    return [*held_steps(session, reduction), CostedStep(cost, solve)]


def _gram_bytes(session: Session, combinations: Combinations) -> int:
    """Bytes of the Gram matrices of all rows."""
    return session.dtype.itemsize * session.n**2 * len(combinations.kernels)
