"""Tests from all pairs of rows, streamed: what the V-, U- and distance statistics share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.plan import DriverStep, PassPlan, Plan
from dhsic.engine.session import Session
from dhsic.errors import InvalidArgumentError
from dhsic.estimators.base import (
    Estimate,
    Null,
    Outcome,
    fit_on_sample,
    fitting_step,
    plan_of,
    rounding_unit,
)
from dhsic.estimators.gram_centring import STRIP, Centring
from dhsic.estimators.gram_held import PermutedGrams, gram_matrices, limit_mixture
from dhsic.estimators.gram_pairs import (
    CentredGramPass,
    CentredGramSums,
    GramPass,
    GramTiling,
    PermutedGramPass,
)
from dhsic.estimators.gram_sums import GramSums, hsic
from dhsic.estimators.null_moments import null_moments
from dhsic.kernels import Gaussian, Kernel
from dhsic.nulls import (
    Gamma,
    GammaDistribution,
    Multiplier,
    Permutation,
    Replicates,
    Spectral,
)

__all__ = ["Quadratic"]

Vector = NDArray[np.float64]

_QUICK_PRODUCTS = 4e9
_UNCENTRED = 32.0
_REMEDY = "take estimator='nystrom-m', fewer rows, or fewer resamples"


class Quadratic:
    """Estimate and test of a multiple of the squared HSIC by all pairs of rows.

    Estimators derive from it: they say what the multiple is, and which kernels it takes.
    """

    quantity: ClassVar[str] = "squared HSIC"

    @property
    def unbiased(self) -> bool:
        """The U-statistic, for two variables; else the V-statistic."""
        return False

    def factor(self, sums: GramSums) -> float:
        """What the squared HSIC is multiplied by; permutations must leave it as it is."""
        del sums
        return 1.0

    def kernel(self, given: Kernel | None) -> Kernel:
        """Any, Gaussian where not given."""
        return given or Gaussian()

    def choose_null(self, session: Session, n_resamples: int) -> tuple[Null, str]:
        """Permutations of all rows where they are quick and fit, random signs beyond."""
        others = len(session.sources) - 1
        quick = session.n**2 * n_resamples * others <= _QUICK_PRODUCTS
        if quick and self._held_bytes(session, n_resamples) <= session.runtime.memory // 2:
            return Permutation(n_resamples, within="all"), "exact, and quick at this size"
        return Multiplier(n_resamples), "permutations of all rows would take longer"

    def plan(self, session: Session, kernels: Sequence[Kernel], null: Null | None) -> Plan:
        """What would run."""
        self._check_null(null)
        steps: list[DriverStep | PassPlan] = [fitting_step(session)]
        if null is not None and self._holds_all(session, null):
            steps += self._held_steps(session, kernels, null)
        else:
            tiling = GramTiling(tuple(kernels), session.dims, session.dtype)
            steps.append(session.plan_pairs(GramPass(tiling, session.n)))
            if isinstance(null, Multiplier | Permutation):
                means = np.broadcast_to(0.0, (len(kernels), session.n))
                centring = Centring(means, self.unbiased)
                steps.append(session.plan_pairs(_null_pass(tiling, centring, null, session.seed)))
        return plan_of(session, steps, _REMEDY)

    def _check_null(self, null: Null | None) -> None:
        """Refuse a gamma distribution for a statistic that is negative at times."""
        if isinstance(null, Gamma) and self.unbiased:
            msg = (
                "null 'gamma' needs a statistic that is never negative, got an unbiased one: take "
                "unbiased=False, or null 'permutation', 'multiplier' or 'spectral'"
            )
            raise InvalidArgumentError(msg)

    def estimate(self, session: Session, kernels: Sequence[Kernel]) -> Estimate:
        """In one pass."""
        fitted, _ = fit_on_sample(session, kernels)
        tiling = GramTiling(fitted, session.dims, session.dtype)
        return self._estimate(session.run_pairs(GramPass(tiling, session.n)), fitted)

    def test(self, session: Session, kernels: Sequence[Kernel], null: Null) -> Outcome:
        """The estimate times n, and its null distribution."""
        self._check_null(null)
        fitted, _ = fit_on_sample(session, kernels)
        if self._holds_all(session, null):
            return self._test_held(session, fitted, null)
        tiling = GramTiling(fitted, session.dims, session.dtype)
        sums = session.run_pairs(GramPass(tiling, session.n))
        estimate, factor = self._estimate(sums, fitted), self.factor(sums)
        rounding = factor * _rounding(sums, session.dtype)
        if isinstance(null, Gamma):
            return Outcome(session.n * estimate.value, self._gamma(sums), estimate, "", rounding)
        assert isinstance(null, Multiplier | Permutation)
        centring = Centring.of(sums, unbiased=self.unbiased)
        reduction = _null_pass(tiling, centring, null, session.seed)
        if isinstance(reduction, CentredGramPass):
            statistic, replicates = self._signed(session.run_pairs(reduction), session.n)
            detail = ""
        else:
            values = centring.statistics(*session.run_pairs(reduction))
            statistic, replicates = values[0], values[1:]
            detail = reduction.null.detail(over_all=False)
        distribution = Replicates(factor * replicates)
        return Outcome(factor * statistic, distribution, estimate, detail, rounding)

    def _estimate(self, sums: GramSums, kernels: tuple[Kernel, ...]) -> Estimate:
        value = self.factor(sums) * hsic(sums, unbiased=self.unbiased)
        return Estimate(value, kernels, quantity=self.quantity)

    def _gamma(self, sums: GramSums) -> GammaDistribution:
        mean, variance = null_moments(sums, unbiased=False)
        factor = self.factor(sums)
        return GammaDistribution(factor * mean, factor**2 * variance)

    def _signed(self, sums: CentredGramSums, n: int) -> tuple[float, Vector]:
        """HSIC times n, and (w - mean w)' H (w - mean w) over the same divisor.

        With the factor n / (n - 2) the mean over signs is that over permutations, see
        `dhsic.estimators.nystrom_m`; the mean of the U-statistic is 0 already.
        """
        mean = sums.signs / n
        forms = sums.quadratic - 2.0 * mean * sums.linear + mean**2 * sums.total
        if self.unbiased:
            return sums.total / (n - 3), forms / (n - 3)
        return sums.total / n, forms / (n - 2)

    def _holds_all(self, session: Session, null: Null) -> bool:
        """Whether the Gram matrices are needed as a whole."""
        if isinstance(null, Permutation) and null.within == "auto":
            return self._held_bytes(session, null.n_resamples) <= session.runtime.memory // 2
        all_rows = isinstance(null, Permutation) and null.within == "all"
        return all_rows or isinstance(null, Spectral)

    def _held_bytes(self, session: Session, n_resamples: int) -> int:
        n, m = session.n, len(session.sources)
        return session.dtype.itemsize * n * n * (m + 1) + 8 * n * n_resamples * (m - 1)

    def _held_steps(
        self, session: Session, kernels: Sequence[Kernel], null: Null
    ) -> list[DriverStep]:
        n, m, size = session.n, len(kernels), session.dtype.itemsize
        rows = 8 * n * sum(session.dims)
        held = size * n * n * m
        work = size * n * n * max(kernel.work_tiles for kernel in kernels)
        steps = [
            DriverStep("read all rows", 3 * rows, rows),
            DriverStep("Gram matrices", held + work, held),
        ]
        if isinstance(null, Permutation):
            orders = 2 * 8 * n * null.n_resamples * (m - 1)
            strips = session.runtime.threads * size * n * STRIP * (2 * m)
            return [*steps, DriverStep("permutation null", size * n * n // 2 + orders + strips)]
        return [*steps, DriverStep("eigenvalues", 8 * n * n * (2 if m == 2 else 8))]

    def _test_held(self, session: Session, kernels: tuple[Kernel, ...], null: Null) -> Outcome:
        grams = gram_matrices(session, kernels)
        sums = GramSums.of(grams)
        estimate, factor = self._estimate(sums, kernels), self.factor(sums)
        rounding = factor * _rounding(sums, session.dtype)
        if isinstance(null, Spectral):
            session.step("eigenvalues")
            mean, variance = null_moments(sums, unbiased=self.unbiased)
            limit = limit_mixture(grams, Centring.of(sums, unbiased=False), factor)
            mixture = limit.with_moments(factor * mean, factor**2 * variance)
            distribution = null.distribution(mixture, session.seed)
            return Outcome(session.n * estimate.value, distribution, estimate, rounding=rounding)
        assert isinstance(null, Permutation)
        centring = Centring.of(sums, unbiased=self.unbiased)
        permuted = PermutedGrams.of(grams, centring, null, session.seed)
        statistic = permuted.observed()
        ranges = session.map("permutation null", permuted, null.n_resamples)
        replicates = Replicates(factor * np.concatenate(ranges))
        detail = null.detail(over_all=True)
        return Outcome(factor * statistic, replicates, estimate, detail, rounding)


def _null_pass(
    tiling: GramTiling, centring: Centring, null: Multiplier | Permutation, seed: int
) -> CentredGramPass | PermutedGramPass:
    if isinstance(null, Multiplier):
        return CentredGramPass(tiling, centring, null.n_resamples, seed)
    return PermutedGramPass(tiling, centring, null, seed)


def _rounding(sums: GramSums, dtype: np.dtype[Any]) -> float:
    """What the terms of n times HSIC leave where they cancel."""
    scale = float(np.abs(sums.rows / sums.n).mean(axis=1).prod())
    return _UNCENTRED * rounding_unit(dtype) * sums.n * scale
