"""Permutations that are drawn until the p-value is clear, where Gram matrices are held."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.groups import Groups
from dhsic.engine.plan import Plan
from dhsic.engine.session import Session
from dhsic.estimators.base import Null, fit_combinations_on_sample
from dhsic.estimators.gram.orbits import GramOrbit
from dhsic.estimators.gram.permutations import PermutedGramPass
from dhsic.estimators.gram.quadratic import Quadratic
from dhsic.estimators.gram.sides import GramSides
from dhsic.estimators.gram.steps import held_steps, run_steps
from dhsic.estimators.outcomes import Outcome
from dhsic.estimators.resample import Orbit
from dhsic.estimators.sequential import batches_of, draw_sequentially, largest_batch
from dhsic.kernels import Combinations, Kernel
from dhsic.nulls import Sequential, tie_threshold

Vector = NDArray[np.float64]


class HeldQuadratic(Quadratic):
    """All pairs of rows, with `Sequential` permutations besides the other nulls."""

    def plan(self, session: Session, combinations: Combinations, null: Null | None) -> Plan:
        """The plan, if the largest batch were drawn."""
        drawn = largest_batch(null) if isinstance(null, Sequential) else null
        return super().plan(session, combinations, drawn)

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
            for numbers, products in batches_of(session, null, permuted):
                # Number 0 is the data.
                cosets = range(1 + numbers.start, 1 + numbers.stop)
                held.sums.products[cosets.start : cosets.stop, :, 0] = products
                yield factor * grams.permuted(cosets)[:, 0]

        least = tie_threshold(statistic, session.dtype, rounding)
        law, detail = draw_sequentially(null, least, batches())
        session.step("statistics")
        estimate = self._estimated(statistic / n, fitted.kernels)
        return Outcome(statistic, law, estimate, detail, rounding)
