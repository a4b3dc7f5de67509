"""Permutations that are drawn until the p-value is clear, where Gram matrices are held."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.groups import Groups
from dhsic.engine.plan import Plan
from dhsic.engine.session import Session
from dhsic.estimators.base import Null, Outcome, fit_combinations_on_sample
from dhsic.estimators.gram_orbits import GramOrbit
from dhsic.estimators.gram_permutations import PermutedGramPass
from dhsic.estimators.gram_sides import GramSides
from dhsic.estimators.gram_steps import held_steps, run_steps
from dhsic.estimators.quadratic import Quadratic
from dhsic.estimators.resample import Orbit
from dhsic.kernels import Combinations, Kernel
from dhsic.nulls import Permutation, Sequential, SequentialReplicates, tie_threshold

__all__ = ["HeldQuadratic", "draw_sequentially", "largest_batch"]

Vector = NDArray[np.float64]


def largest_batch(null: Sequential) -> Permutation:
    """The permutations of all rows that are held at a time, for a plan."""
    return Permutation(max(null.batches), within="all")


def draw_sequentially(
    null: Sequential, least: float, batches: Iterable[Vector]
) -> tuple[SequentialReplicates, str]:
    """Replicates up to the last that counts, and how many they are, in words.

    Parameters
    ----------
    null : Sequential
        When to stop.
    least : float
        The least replicate that counts as at least as large as the observed statistic.
    batches : iterable of ndarray, shapes (b,)
        Replicates, which are computed as they are asked for.

    Returns
    -------
    replicates : SequentialReplicates
    detail : str
    """
    found = SequentialReplicates(np.empty(0), null.n_exceed)
    for values in batches:
        found = SequentialReplicates(np.concatenate([found.values, values]), null.n_exceed)
        if found.decides(least):
            break
    used = replace(found, values=found.values[: found.drawn(least)])
    how = f"{len(used.values):,} of at most {null.n_resamples:,} permutations of all rows"
    return used, how


@dataclass(frozen=True)
class _From:
    """A function of ranges of numbers, counted from another first one."""

    first: int
    function: Callable[[range], Vector]

    def __call__(self, numbers: range) -> Vector:
        return self.function(range(self.first + numbers.start, self.first + numbers.stop))


class HeldQuadratic(Quadratic):
    """All pairs of rows, with `Sequential` permutations besides the other nulls."""

    def plan(self, session: Session, kernels: Sequence[Kernel], null: Null | None) -> Plan:
        """What would run, if the largest batch were drawn."""
        if isinstance(null, Sequential):
            return self.plan_grid(session, Combinations.single(kernels), largest_batch(null))
        return super().plan(session, kernels, null)

    def test(self, session: Session, kernels: Sequence[Kernel], null: Null) -> Outcome:
        """The size of the estimate times n, and its null distribution."""
        if not isinstance(null, Sequential):
            return super().test(session, kernels, null)
        n = session.n
        fitted, samples = fit_combinations_on_sample(session, Combinations.single(kernels))
        orbit = Orbit(Groups(n, n, session.seed), null.n_resamples + 1, shifted=False)
        reduction = PermutedGramPass(
            GramSides.of(session, fitted, samples, orbit, unbiased=self.unbiased)
        )
        held = run_steps(session, held_steps(session, reduction))
        permuted = reduction.permuted(held.grams, held.piece, held.piece)
        grams = GramOrbit(reduction, held.sums)
        factor = self.factor(grams.sums_of(fitted.chosen[0]))
        statistic = factor * float(grams.permuted(range(1))[0, 0])
        rounding = factor * float(grams.rounding()[0])

        def batches() -> Iterator[Vector]:
            start = 1  # after the identity
            for size in null.batches:
                cosets = range(start, start + size)
                parts = session.map("permutation null", _From(start - 1, permuted), size)
                held.sums.products[start : cosets.stop, :, 0] = np.concatenate(parts)
                yield factor * grams.permuted(cosets)[:, 0]
                start = cosets.stop

        least = tie_threshold(statistic, session.dtype, rounding)
        law, detail = draw_sequentially(null, least, batches())
        estimate = self._estimated(statistic / n, fitted.kernels)
        return Outcome(statistic, law, estimate, detail, rounding)
