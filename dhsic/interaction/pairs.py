"""The Lancaster statistic from all pairs of rows, with Gram matrices that are held in memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dhsic._random import random_signs
from dhsic.engine.plan import DriverStep, PassPlan, Plan
from dhsic.engine.session import Session
from dhsic.engine.tiles import Matrix
from dhsic.estimators.approximate import guard_interaction
from dhsic.estimators.base import (
    fit_combinations_on_sample,
    fitting_step,
    plan_of,
    rounding_unit,
)
from dhsic.estimators.gram_centring import Centring, PermutedStatistics
from dhsic.estimators.gram_held import PermutedGrams, gram_matrices
from dhsic.estimators.gram_products import PermutedProducts
from dhsic.estimators.gram_sums import GridSums
from dhsic.interaction.landmarks import FACTORISATIONS, Replicated
from dhsic.kernels import Combinations, Kernel
from dhsic.kernels.shared import SharedTiles
from dhsic.nulls import Multiplier, Permutation

__all__ = ["plan_of_pairs", "replicate_pairs"]

Vector = NDArray[np.float64]
Asked = Multiplier | Permutation

_UNCENTRED = 32.0
_PAIR = PermutedProducts((0, 1), ((0, 1),))
_REMEDY = "take estimator='nystrom-lancaster', fewer rows, or fewer resamples"


def replicate_pairs(session: Session, kernels: Sequence[Kernel], null: Asked) -> Replicated:
    """T = n |mu_L|^2 = (1/n) sum_ij A_ij B_ij C_ij of centred Gram matrices, with replicates.

    Under (a, b) _||_ s it is n HSIC of s and of a variable whose Gram matrix is the product of
    those of a and b, centred: what permutes s, or puts signs on rows, is that of two variables.
    """
    fitted, samples = fit_combinations_on_sample(session, Combinations.single(kernels))
    note = guard_interaction(session, fitted, samples, null)
    grams = gram_matrices(session, fitted)
    sums = GridSums.of(grams, fitted.chosen)
    centring = Centring.of(sums, unbiased=False)
    scale = float(np.abs(sums.rows / sums.n).mean(axis=1).prod())
    everywhere = slice(0, session.n)
    for k, gram in enumerate(grams):
        centring.centre(k, gram, everywhere, everywhere)
    rows = [_values(session, grams[a] * grams[b], grams[s], null) for a, b, s in FACTORISATIONS]
    values = np.transpose(rows)
    return Replicated(
        values[0],
        values[1:],
        fitted.kernels,
        None,
        null.detail(over_all=True) if isinstance(null, Permutation) else note,
        _UNCENTRED * rounding_unit(session.dtype) * session.n * scale,
    )


def plan_of_pairs(session: Session, kernels: Sequence[Kernel], null: Asked) -> Plan:
    """What `replicate_pairs` would run."""
    n, b, size = session.n, null.n_resamples, session.dtype.itemsize
    guessed = Combinations.single(kernels).guessed(session.dims)
    shared = SharedTiles(guessed.kernels, guessed.variables)
    rows, square = 8 * n * sum(session.dims), size * n * n
    if isinstance(null, Permutation):
        strips = session.runtime.threads * size * _PAIR.scratch_entries(n, n)
        replicates = 2 * square + 2 * 8 * n * b + strips
    else:
        replicates = square + 2 * size * n * b
    steps: list[DriverStep | PassPlan] = [
        fitting_step(session),
        DriverStep("read all rows", 3 * rows, rows),
        DriverStep("Gram matrices", (3 + shared.work_tiles) * square, 3 * square),
        DriverStep(f"{null.name} null", replicates),
    ]
    return plan_of(session, steps, _REMEDY)


def _values(session: Session, together: Matrix, separated: Matrix, null: Asked) -> Vector:
    """The statistic and its replicates from Gram matrices of two variables, shape (b + 1,).

    The first is overwritten. With signs the factor is n / (n - 2), see
    `dhsic.estimators.landmark_tests`.
    """
    n, seed = session.n, session.seed
    grams = [together, separated]
    centring = Centring.of(GridSums.of(grams, _PAIR.chosen), unbiased=False)
    if isinstance(null, Permutation):
        permuted = PermutedGrams.of(grams, PermutedStatistics(_PAIR, centring), null, seed)
        ranges = session.map("permutation null", permuted, null.n_resamples)
        return np.concatenate([permuted.observed(), *ranges], axis=None)
    session.step("multiplier null")
    h = centring.centre(0, together, slice(0, n), slice(0, n))
    h *= separated
    signs = random_signs(seed, 0, n, null.n_resamples).astype(h.dtype)
    signs -= signs.mean(axis=0)
    forms = np.einsum("ib,ib->b", signs, h @ signs, dtype=np.float64)
    return np.append(h.sum(dtype=np.float64) / n, forms / (n - 2))
