"""The Lancaster statistic from all pairs of rows, with Gram matrices that are held in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.plan import DriverStep, Plan
from dhsic.engine.session import Session
from dhsic.estimators import VHSIC
from dhsic.estimators.base import fit_combinations_on_sample, fitting_step, plan_of
from dhsic.interaction.landmarks import FACTORISATIONS, LancasterReplicates
from dhsic.kernels import Combinations
from dhsic.nulls import Permutation
from dhsic.statistics.gram import (
    GramPass,
    GramStatistic,
    PermutedGrams,
    RowOrders,
    RowsPass,
    RowsSum,
)
from dhsic.statistics.gram_sums import Centring, GramSums
from dhsic.statistics.orbit import Orbit, orbit_of
from dhsic.statistics.replicate import Permuted, Statistic, replicate, replicate_steps

Vector = NDArray[np.float64]

_REMEDY = "take estimator='nystrom-lancaster', fewer rows, or fewer resamples"


@dataclass(frozen=True)
class PairsStatistic(Statistic[RowsSum]):
    """T = n |mu_L|^2 = (1/n) sum_ij A_ij B_ij C_ij of centred Gram matrices, of three variables.

    Under (a, b) _||_ s it is n HSIC of s and of a variable whose Gram matrix is the product of
    those of a and b, centred: what permutes s is that of two variables.

    Parameters
    ----------
    combinations : Combinations
        A fitted kernel of every variable.
    dims : tuple of int
        Columns of the variables.
    dtype : dtype
        Precision of the matrices.
    """

    combinations: Combinations
    dims: tuple[int, ...]
    dtype: np.dtype[Any]

    def __len__(self) -> int:
        return len(FACTORISATIONS)

    def part(self, numbers: Sequence[int]) -> Self:
        """All, since they share their matrices."""
        del numbers
        return self

    def over(self, orbit: Orbit, cosets: range) -> RowsPass:
        """All rows are held by this process."""
        return RowsPass(orbit, cosets, self.dims)

    def _grams(self, orbit: Orbit) -> GramPass:
        # The matrices are centred when they are whole.
        alone, cosets = replace(orbit, cosets=1), range(1)
        return GramStatistic(self.combinations, (), self.dims, self.dtype).pairs(alone, cosets)

    def step(self, session: Session, reduction: RowsPass) -> DriverStep:  # type: ignore[override]
        """Bytes of the matrices, of two that are worked with, and of permuting them."""
        n, grams = session.n, self._grams(reduction.orbit)
        matrices = 5 + grams.shared.work_tiles
        task = self.dtype.itemsize * 4 * max(8 * n, 2**15)
        needed = self.dtype.itemsize * n * (matrices * n + 2 * grams.width)
        needed += 4 * reduction.rows_bytes + session.runtime.threads * task
        return DriverStep("statistics", needed + 6 * 8 * len(reduction.orbit))

    def values(  # type: ignore[override]
        self, session: Session, reduction: RowsPass, sums: RowsSum
    ) -> Permuted:
        """T and its replicates under every factorisation."""
        session.step("statistics")
        n, orbit, three = session.n, reduction.orbit, self._grams(reduction.orbit)
        found, _, grams, _ = three.hold(sums.values)
        about = GramSums(*found[1:], np.zeros(1), three.chosen)
        centring = Centring(found.rows / n, unbiased=False)
        for k, gram in enumerate(grams):
            centring.centre(k, gram)
        # Rubenstein et al. (2016): under (a, b) _||_ s the statistic is HSIC of s and the pair (a,
        # b).
        values = np.empty((len(orbit), len(self)))
        # One after another, so that two working matrices are held and not six.
        for number, (a, b, s) in enumerate(FACTORISATIONS):
            product = grams[a] * grams[b]
            # The product of two centred Gram matrices is not centred itself; HSIC with s needs it
            # to be.
            both = GramSums.of([product, grams[s]])
            h = Centring.of(both, unbiased=False).centre(0, product)
            # (1 / n) sum_ij A_ij B_ij C_ij of centred Gram matrices.
            values[0, number] = np.sum(h * grams[s], dtype=np.float64) / n
            # Two variables are left: the first stays where it is, and s is permuted.
            orders = RowOrders.of_all(orbit)
            permuted = PermutedGrams((0, 1), ((0, 1),), (), (h, grams[s]), orders)
            ranges = session.map("permutation null", permuted, len(orbit) - 1)
            values[1:, number] = np.concatenate(ranges)[:, 0] / n
        return Permuted(values, np.repeat(about.rounding(self.dtype), len(self)))

    def tolerance(self, statistics: Vector, errors: Vector) -> Vector:
        """Errors are those of the statistics themselves."""
        del statistics
        return errors


def replicate_pairs(
    estimator: VHSIC, session: Session, kernels: Combinations, null: Permutation
) -> LancasterReplicates:
    """T from all pairs of rows, with its replicates under every factorisation."""
    del estimator  # its option is of the estimate of two variables
    fitted, _ = fit_combinations_on_sample(session, kernels)
    orbit = orbit_of(session, null)
    statistic = PairsStatistic(fitted, session.dims, session.dtype)
    found = replicate(session, statistic, orbit)
    return LancasterReplicates(
        found.statistics, found.replicates, fitted.kernels, None, orbit.detail, found.rounding
    )


def plan_of_pairs(
    estimator: VHSIC, session: Session, kernels: Combinations, null: Permutation
) -> Plan:
    """The steps that `replicate_pairs` would run."""
    del estimator
    guessed = kernels.guessed(session.dims)
    statistic = PairsStatistic(guessed, session.dims, session.dtype)
    steps = replicate_steps(session, statistic, orbit_of(session, null))
    return plan_of(session, [fitting_step(session), *steps], _REMEDY)
