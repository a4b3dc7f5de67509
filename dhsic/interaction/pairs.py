"""The Lancaster statistic from all pairs of rows, with Gram matrices that are held in memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.plan import DriverStep, Plan
from dhsic.engine.session import Session
from dhsic.engine.tiles import Matrix
from dhsic.estimators import VHSIC
from dhsic.estimators.base import fit_combinations_on_sample
from dhsic.estimators.exact import (
    CostedStep,
    HeldGrams,
    held_pass,
    held_steps,
    plan_steps,
    run_steps,
)
from dhsic.interaction.landmarks import FACTORISATIONS, LancasterReplicates
from dhsic.kernels import Combinations
from dhsic.nulls import Permutation
from dhsic.statistics.gram import GramOrbit, PermutedGrams
from dhsic.statistics.gram_sums import Centring, GramSums
from dhsic.statistics.orbit import orbit_of

Vector = NDArray[np.float64]

_REMEDY = "take estimator='nystrom-lancaster', fewer rows, or fewer resamples"


def replicate_pairs(
    estimator: VHSIC, session: Session, kernels: Combinations, null: Permutation
) -> LancasterReplicates:
    """T = n |mu_L|^2 = (1/n) sum_ij A_ij B_ij C_ij of centred Gram matrices, with replicates.

    Under (a, b) _||_ s it is n HSIC of s and of a variable whose Gram matrix is the product of
    those of a and b, centred: what permutes s is that of two variables.
    """
    del estimator  # its option is of the estimate of two variables
    fitted, _ = fit_combinations_on_sample(session, kernels)
    values, error = run_steps(session, _pair_steps(session, fitted, null))
    detail = orbit_of(session, null).detail
    return LancasterReplicates(values[0], values[1:], fitted.kernels, None, detail, error)


def plan_of_pairs(
    estimator: VHSIC, session: Session, kernels: Combinations, null: Permutation
) -> Plan:
    """The steps that `replicate_pairs` would run."""
    del estimator
    guessed = kernels.guessed(session.dims)
    return plan_steps(session, [_pair_steps(session, guessed, null)], _REMEDY)


def _pair_steps(
    session: Session, combinations: Combinations, null: Permutation
) -> list[CostedStep]:
    """Hold the Gram matrices, and replicate; of values (b + 1, 3) and their rounding."""
    n, size = session.n, session.dtype.itemsize
    # The matrices are centred when they are whole, so that any pilots will do.
    unseen = [np.zeros((1, d)) for d in session.dims]
    reduction = held_pass(session, combinations, unseen)

    def replicate(held: HeldGrams) -> tuple[Vector, float]:
        found = GramOrbit(reduction, held.sums)
        centring = Centring.of(found.sums_of(combinations.chosen[0]), unbiased=False)
        for k, gram in enumerate(held.grams):
            centring.centre(k, gram)
        # Rubenstein et al. (2016): under (a, b) _||_ s the statistic is HSIC of s and the pair (a,
        # b).
        pair = Combinations.single(combinations.kernels[:2])
        pairs = ([held.grams[a] * held.grams[b], held.grams[s]] for a, b, s in FACTORISATIONS)
        # One after another, so that two working matrices are held and not six.
        values = [_pair_replicates(session, grams, pair, held, null) for grams in pairs]
        return np.transpose(values), float(found.rounding()[0])

    task = size * PermutedGrams.scratch_entries(combinations, n)
    working = 2 * size * n * n + session.runtime.threads * task + 16 * n * null.n_resamples
    last = CostedStep(DriverStep(f"{null.name} null", working), replicate)
    return [*held_steps(session, reduction), last]


def _pair_replicates(
    session: Session,
    grams: list[Matrix],
    pair: Combinations,
    held: HeldGrams,
    null: Permutation,
) -> Vector:
    """The statistic and its replicates from Gram matrices of two variables, shape (b + 1,).

    The first is overwritten.
    """
    n = session.n
    # The product of two centred Gram matrices is not centred itself; HSIC with s needs it to be.
    h = Centring.of(GramSums.of(grams), unbiased=False).centre(0, grams[0])
    # (1 / n) sum_ij A_ij B_ij C_ij of centred Gram matrices.
    observed = np.sum(h * grams[1], dtype=np.float64) / n
    # Two variables are left: the first stays where it is, and s is permuted.
    orders = replace(held.piece.orders, orbit=orbit_of(session, null))
    permuted = PermutedGrams(pair, (), tuple(grams), orders)
    ranges = session.map("permutation null", permuted, null.n_resamples)
    return np.concatenate([[observed], *(part[:, 0] / n for part in ranges)])
