"""Permutations that are drawn until the p-value is clear, where Gram matrices are held."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.plan import Plan
from dhsic.engine.session import Session
from dhsic.estimators.base import Null, Outcome, fit_combinations_on_sample
from dhsic.estimators.gram_centring import PermutedStatistics
from dhsic.estimators.gram_held import PermutedGrams, gram_matrices
from dhsic.estimators.gram_sums import GridSums
from dhsic.estimators.quadratic import Quadratic, gram_rounding
from dhsic.kernels import Combinations, Kernel
from dhsic.nulls import Permutation, Sequential, SequentialReplicates, tie_threshold

__all__ = ["HeldQuadratic", "draw_sequentially", "largest_batch"]

Vector = NDArray[np.float64]


def largest_batch(null: Sequential) -> Permutation:
    """The permutations of all rows that are held at a time, for a plan."""
    return Permutation(max(null.batches), within="all")


def draw_sequentially(
    session: Session,
    null: Sequential,
    rows: int,
    least: float,
    statistics: Callable[[NDArray[np.intp]], Vector],
) -> tuple[SequentialReplicates, str]:
    """Replicates up to the last that counts, and how many they are, in words.

    Parameters
    ----------
    session : Session
        The run.
    null : Sequential
        When to stop.
    rows : int
        Rows that are permuted.
    least : float
        The least replicate that counts as at least as large as the observed statistic.
    statistics : callable
        From permutations, shape (b, M - 1, rows), to replicates, shape (b,).

    Returns
    -------
    replicates : SequentialReplicates
    detail : str
    """
    found = SequentialReplicates(np.empty(0), null.n_exceed)
    for orders in null.draws(session.seed, rows, len(session.sources)):
        values = np.concatenate([found.values, statistics(orders)])
        found = SequentialReplicates(values, null.n_exceed)
        if found.decides(least):
            break
    used = replace(found, values=found.values[: found.drawn(least)])
    how = f"{len(used.values):,} of at most {null.n_resamples:,} permutations of all rows"
    return used, how


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
        fitted, _ = fit_combinations_on_sample(session, Combinations.single(kernels))
        grams = gram_matrices(session, fitted)
        grid = GridSums.of(grams, fitted.chosen)
        sums = grid.of_combination(fitted.chosen, 0)
        centred = PermutedStatistics.of(fitted, self._centring(grid))
        permuted = PermutedGrams.of(grams, centred, Permutation(1), session.seed)
        factor, rounding = self.factor(sums), gram_rounding(sums, session.dtype)
        statistic = float(permuted.observed()[0])

        def statistics(orders: NDArray[np.intp]) -> Vector:
            batch = replace(permuted, orders=orders)
            parts = session.map("permutation null", batch, len(orders))
            values: Vector = factor * np.concatenate(parts)[:, 0]
            return values

        least = tie_threshold(factor * statistic, session.dtype, factor * rounding)
        law, detail = draw_sequentially(session, null, session.n, least, statistics)
        estimate = self._estimate(sums, fitted.kernels)
        return Outcome(factor * statistic, law, estimate, detail, factor * rounding)
