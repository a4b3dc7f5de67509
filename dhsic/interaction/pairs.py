"""The Lancaster statistic from all pairs of rows, with Gram matrices that are held in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.plan import DriverStep, Plan
from dhsic.engine.session import Session
from dhsic.estimators.base import fit_combinations_on_sample, fitting_step, plan_of
from dhsic.interaction.landmarks import FACTORISATIONS, LancasterReplicates
from dhsic.kernels import Combinations, Kernel
from dhsic.nulls import Permutation
from dhsic.statistics.gram import GramPass, OfRows, PermutedGrams, RowsPass, RowsSum
from dhsic.statistics.gram_sums import Centring, GramSums
from dhsic.statistics.orbit import Orbit, orbit_of
from dhsic.statistics.replicate import Permuted, replicate, replicate_steps

Vector = NDArray[np.float64]

_REMEDY = "take estimator='nystrom-lancaster', fewer rows, or fewer resamples"


@dataclass(frozen=True)
class PairsStatistic(OfRows):
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
    factorisations : tuple of tuple of int, optional
        The variables a and b, and the one s that is independent of both.
    """

    combinations: Combinations
    dims: tuple[int, ...]
    dtype: np.dtype[Any]
    factorisations: tuple[tuple[int, int, int], ...] = FACTORISATIONS

    def __len__(self) -> int:
        return len(self.factorisations)

    def part(self, numbers: range) -> Self:
        """Some of the factorisations."""
        return replace(self, factorisations=tuple(self.factorisations[c] for c in numbers))

    def over(self, orbit: Orbit, cosets: range) -> RowsPass:
        """All rows are held by this process."""
        return RowsPass(orbit, cosets, self.dims)

    def _pairs(self, reduction: RowsPass, kernels: int = 3) -> GramPass:
        """Over pairs of rows of all variables, or of two of which the second is permuted."""
        return GramPass(
            self.combinations.kernels[:kernels],
            tuple(range(kernels)),
            (tuple(range(kernels)),),
            (0.0,) * kernels,
            self.dims,
            self.dtype,
            False,
            reduction.orbit,
            reduction.cosets,
        )

    def step(self, session: Session, reduction: RowsPass) -> DriverStep:  # type: ignore[override]
        """Bytes of the matrices, of two that are worked with, and of permuting them."""
        n, grams = session.n, self._pairs(reduction)
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
        n, three = session.n, self._pairs(reduction)
        found, piece, grams, _ = three.hold(sums.values)
        about = GramSums(*found[1:], np.zeros(1), three.chosen)
        centring = Centring(found.rows / n, unbiased=False)
        for k, gram in enumerate(grams):
            centring.centre(k, gram)
        # Rubenstein et al. (2016): under (a, b) _||_ s the statistic is HSIC of s and the pair (a,
        # b).
        values = np.empty((len(reduction.cosets), len(self)))
        # One after another, so that two working matrices are held and not six.
        for number, (a, b, s) in enumerate(self.factorisations):
            product = grams[a] * grams[b]
            # The product of two centred Gram matrices is not centred itself; HSIC with s needs it
            # to be.
            both = GramSums.of([product, grams[s]])
            h = Centring.of(both, unbiased=False).centre(0, product)
            # (1 / n) sum_ij A_ij B_ij C_ij of centred Gram matrices.
            values[0, number] = np.sum(h * grams[s], dtype=np.float64) / n
            # Two variables are left: the first stays where it is, and s is permuted.
            if three.drawn:
                permuted = PermutedGrams(self._pairs(reduction, 2), [h, grams[s]], piece.orders)
                ranges = session.map("permutation null", permuted, len(three.drawn))
                values[-len(three.drawn) :, number] = np.concatenate(ranges)[:, 0] / n
        return Permuted(values, np.repeat(about.rounding(self.dtype), len(self)))


def replicate_pairs(
    session: Session, kernels: Sequence[Kernel], null: Permutation
) -> LancasterReplicates:
    """T from all pairs of rows, with its replicates under every factorisation."""
    fitted, _ = fit_combinations_on_sample(session, Combinations.single(kernels))
    orbit = orbit_of(session, null)
    statistic = PairsStatistic(fitted, session.dims, session.dtype)
    found = replicate(session, statistic, orbit)
    return LancasterReplicates(
        found.statistics, found.replicates, fitted.kernels, None, orbit.detail, found.rounding
    )


def plan_of_pairs(session: Session, kernels: Sequence[Kernel], null: Permutation) -> Plan:
    """The steps that `replicate_pairs` would run."""
    guessed = Combinations.single(kernels).guessed(session.dims)
    statistic = PairsStatistic(guessed, session.dims, session.dtype)
    steps = replicate_steps(session, statistic, orbit_of(session, null))
    return plan_of(session, [fitting_step(session), *steps], _REMEDY)
