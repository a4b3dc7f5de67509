"""Tests from all pairs of rows, streamed: what the V-, U- and distance statistics share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.plan import DriverStep, PassPlan, Plan
from dhsic.engine.session import Session
from dhsic.errors import InvalidArgumentError
from dhsic.estimators.approximate import guard_grams
from dhsic.estimators.base import (
    ChainOutcome,
    ChainStage,
    Estimate,
    GridOutcome,
    Null,
    Outcome,
    Resampling,
    fit_combinations_on_sample,
    fitting_step,
    plan_of,
    rounding_unit,
)
from dhsic.estimators.gram_centring import Centring, PermutedStatistics
from dhsic.estimators.gram_held import PermutedGrams, gram_matrices, limit_mixture
from dhsic.estimators.gram_orbits import pairs_of, plan_orbit, run_orbit
from dhsic.estimators.gram_pairs import (
    CentredGramPass,
    CentredGramSums,
    GramPass,
    GramTiling,
    PermutedGramPass,
)
from dhsic.estimators.gram_products import PermutedProducts
from dhsic.estimators.gram_sums import GramSums, GridSums, check_rows, hsic, marginal_hsic
from dhsic.estimators.null_moments import null_moments
from dhsic.estimators.resample import chain_of, exact_null
from dhsic.kernels import Combinations, Gaussian, Kernel
from dhsic.kernels.shared import SharedTiles
from dhsic.nulls import (
    Chain,
    Gamma,
    GammaDistribution,
    Multiplier,
    Permutation,
    Shifts,
    Spectral,
)

__all__ = ["GramFit", "Quadratic", "gram_rounding"]

Vector = NDArray[np.float64]

_UNCENTRED = 32.0
_REMEDY = (
    "take estimator='nystrom-m', fewer rows, fewer kernels ('gaussian' is one), or fewer resamples"
)


class GramFit(NamedTuple):
    """An estimate from all pairs of rows, with all that it is made of."""

    sums: GramSums
    """Of the Gram matrices."""
    estimate: Estimate
    """The estimate."""


class Quadratic:
    """Estimate and test of a multiple of the squared HSIC by all pairs of rows.

    Estimators derive from it: they say what the multiple is, and which kernels it takes.
    """

    @property
    def quantity(self) -> str:
        """What the estimate is."""
        return "squared HSIC"

    @property
    def unbiased(self) -> bool:
        """The U-statistic, for two variables; else the V-statistic."""
        return False

    def factor(self, sums: GramSums) -> float:
        """What the squared HSIC is multiplied by; permutations must leave it as it is."""
        del sums
        return 1.0

    def size(self, sums: GramSums) -> float:
        """The multiple of the squared HSIC; n times it is the statistic."""
        return self.factor(sums) * hsic(sums, unbiased=self.unbiased)

    def reported(self, size: float) -> float:
        """The estimate, from its size."""
        return size

    def kernel(self, given: Kernel | None) -> Kernel:
        """Any, Gaussian where not given."""
        return given or Gaussian()

    def choose_null(self, session: Session, n_resamples: int) -> tuple[Null, str]:
        """Shifts of rows; of three variables or more as a chain."""
        return exact_null(len(session.sources), n_resamples)

    def plan(self, session: Session, kernels: Sequence[Kernel], null: Null | None) -> Plan:
        """What would run."""
        combinations = Combinations.single(kernels)
        if isinstance(null, Resampling):
            return self.plan_grid(session, combinations, null)
        if isinstance(null, Chain):
            return self.plan_chain(session, combinations, null)
        check_rows(session.n, unbiased=self.unbiased)
        self._check_null(null)
        if not isinstance(null, Spectral):
            return self.plan_sums(session, combinations)
        combinations = combinations.guessed(session.dims)
        steps: list[DriverStep | PassPlan] = [fitting_step(session)]
        steps += [*_gram_steps(session, combinations), _eigenvalues_step(session)]
        return plan_of(session, steps, _REMEDY)

    def plan_sums(self, session: Session, combinations: Combinations) -> Plan:
        """What estimates by several combinations would run."""
        tiling = _tiling(session, combinations.guessed(session.dims))
        gram_pass = session.plan_pairs(GramPass(tiling, session.n))
        return plan_of(session, [fitting_step(session), gram_pass], _REMEDY)

    def plan_grid(self, session: Session, combinations: Combinations, null: Resampling) -> Plan:
        """What a test of several combinations would run."""
        if isinstance(null, Shifts):
            return self._plan_shifts(session, combinations, null)
        guessed = combinations.guessed(session.dims)
        steps: list[DriverStep | PassPlan] = [fitting_step(session)]
        whole = self.over_all(session, guessed, null)
        if whole:
            steps += [*_gram_steps(session, guessed), _permutation_step(session, guessed, whole)]
        else:
            tiling = _tiling(session, guessed)
            means = np.broadcast_to(0.0, (tiling.n_kernels, session.n))
            centring = Centring(means, self.unbiased)
            steps.append(session.plan_pairs(GramPass(tiling, session.n)))
            steps.append(session.plan_pairs(_null_pass(tiling, centring, null, session.seed)))
        return plan_of(session, steps, _REMEDY)

    def plan_chain(self, session: Session, combinations: Combinations, null: Chain) -> Plan:
        """What a chain of tests would run."""
        return self._plan_shifts(session, combinations, null)

    def _plan_shifts(
        self, session: Session, combinations: Combinations, null: Shifts | Chain
    ) -> Plan:
        check_rows(session.n, unbiased=self.unbiased)
        guessed = combinations.guessed(session.dims)
        steps = plan_orbit(session, guessed, null, unbiased=self.unbiased)
        return plan_of(session, [fitting_step(session), *steps], _REMEDY)

    def plan_each(
        self, session: Session, combinations: Combinations, null: Gamma | Spectral
    ) -> Plan:
        """What tests of several combinations, each by itself, would run."""
        if isinstance(null, Spectral):
            return self.plan(session, combinations.kernels_of(0), null)
        self._check_null(null)
        return self.plan_sums(session, combinations)

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
        return self.fit(session, kernels).estimate

    def fit(self, session: Session, kernels: Sequence[Kernel]) -> GramFit:
        """The estimate with all that it is made of."""
        fitted, _ = fit_combinations_on_sample(session, Combinations.single(kernels))
        sums = session.run_pairs(GramPass(_tiling(session, fitted), session.n))
        own = sums.of_combination(fitted.chosen, 0)
        return GramFit(own, self._estimate(own, fitted.kernels))

    def test(self, session: Session, kernels: Sequence[Kernel], null: Null) -> Outcome:
        """The size of the estimate times n, and its null distribution."""
        combinations = Combinations.single(kernels)
        if isinstance(null, Resampling):
            return self.test_grid(session, combinations, null).only
        self._check_null(null)
        assert isinstance(null, Gamma | Spectral)
        return self.test_each(session, combinations, null)[0]

    def test_each(
        self, session: Session, combinations: Combinations, null: Gamma | Spectral
    ) -> list[Outcome]:
        """The outcome of every combination by itself, from Gram tiles that they share."""
        self._check_null(null)
        fitted, samples = fit_combinations_on_sample(session, combinations)
        note = guard_grams(session, fitted, samples, null)
        found = (
            self._test_gamma(session, fitted)
            if isinstance(null, Gamma)
            else [self._test_spectral(session, fitted.part([c]), null) for c in range(len(fitted))]
        )
        return [replace(one, detail=note) for one in found]

    def test_grid(
        self, session: Session, combinations: Combinations, null: Resampling
    ) -> GridOutcome:
        """Statistics of all combinations, and replicates that they share."""
        if isinstance(null, Shifts):
            return self._shift(session, combinations, null)
        fitted, samples = fit_combinations_on_sample(session, combinations)
        note = guard_grams(session, fitted, samples, null)
        whole = self.over_all(session, fitted, null)
        sums, statistics, replicates = (
            self._permute_held(session, fitted, whole)
            if whole
            else self._stream(session, fitted, null)
        )
        each = [sums.of_combination(fitted.chosen, c) for c in range(len(fitted))]
        factors = np.array([self.factor(one) for one in each])
        rounding = np.array([gram_rounding(one, session.dtype) for one in each])

        def estimate(c: int) -> Estimate:
            return self._estimate(each[c], fitted.kernels_of(c))

        return GridOutcome(
            fitted,
            factors * statistics,
            factors * replicates,
            estimate,
            null.detail(over_all=whole is not None) if isinstance(null, Permutation) else note,
            factors * rounding,
            np.array([marginal_hsic(one, unbiased=self.unbiased) for one in each]),
        )

    def test_chain(self, session: Session, combinations: Combinations, null: Chain) -> ChainOutcome:
        """Statistics of every stage of a chain of tests, and replicates that they share."""
        fitted, samples = fit_combinations_on_sample(session, combinations)
        orbit = run_orbit(session, fitted, samples, null, unbiased=False)
        whole = ChainStage(pairs_of(fitted, null), orbit.resampled())
        ends = accumulate(map(len, chain_of(fitted.chosen)), initial=0)

        def estimate(c: int) -> Estimate:
            return self._estimated(orbit.joint_hsic(fitted.chosen[c]), fitted.kernels_of(c))

        stages = tuple(whole.part(range(*both)) for both in pairwise(ends))
        return ChainOutcome(fitted, stages, estimate, orbit.orbit.detail)

    def _shift(self, session: Session, combinations: Combinations, null: Shifts) -> GridOutcome:
        """Statistics and replicates by shifts, in one pass over pairs of groups of rows."""
        fitted, samples = fit_combinations_on_sample(session, combinations)
        orbit = run_orbit(session, fitted, samples, null, unbiased=self.unbiased)
        statistics, replicates, rounding = orbit.resampled()
        each = [orbit.sums_of(one) for one in fitted.chosen]
        factors = np.array([self.factor(one) for one in each])

        def estimate(c: int) -> Estimate:
            size = factors[c] * statistics[c] / session.n
            return self._estimated(size, fitted.kernels_of(c))

        return GridOutcome(
            fitted,
            factors * statistics,
            factors * replicates,
            estimate,
            orbit.orbit.detail,
            factors * rounding,
            np.array([marginal_hsic(one, unbiased=self.unbiased) for one in each]),
        )

    def _permute_held(
        self, session: Session, combinations: Combinations, null: Permutation
    ) -> tuple[GridSums, Vector, Vector]:
        """Gram sums, statistics and replicates from Gram matrices that are held as a whole."""
        grams = gram_matrices(session, combinations)
        sums = GridSums.of(grams, combinations.chosen)
        statistics = PermutedStatistics.of(combinations, self._centring(sums))
        permuted = PermutedGrams.of(grams, statistics, null, session.seed)
        observed = permuted.observed()
        ranges = session.map("permutation null", permuted, null.n_resamples)
        return sums, observed, np.concatenate(ranges)

    def _stream(
        self, session: Session, combinations: Combinations, null: Multiplier | Permutation
    ) -> tuple[GridSums, Vector, Vector]:
        """Gram sums, statistics and replicates from passes over pairs of rows."""
        tiling = _tiling(session, combinations)
        sums = session.run_pairs(GramPass(tiling, session.n))
        reduction = _null_pass(tiling, self._centring(sums), null, session.seed)
        if isinstance(reduction, CentredGramPass):
            return sums, *self._signed(session.run_pairs(reduction), session.n)
        values = reduction.permuted.statistics(*session.run_pairs(reduction))
        return sums, values[0], values[1:]

    def _centring(self, sums: GridSums) -> Centring:
        return Centring.of(sums, unbiased=self.unbiased)

    def _estimate(self, sums: GramSums, kernels: tuple[Kernel, ...]) -> Estimate:
        return self._estimated(self.size(sums), kernels)

    def _estimated(self, size: float, kernels: tuple[Kernel, ...]) -> Estimate:
        return Estimate(self.reported(float(size)), kernels, quantity=self.quantity)

    def _gamma(self, sums: GramSums) -> GammaDistribution:
        mean, variance = null_moments(sums, unbiased=False)
        factor = self.factor(sums)
        return GammaDistribution(factor * mean, factor**2 * variance)

    def _signed(self, sums: CentredGramSums, n: int) -> tuple[Vector, Vector]:
        """HSIC times n, and (w - mean w)' H (w - mean w) over the same divisor.

        With the factor n / (n - 2) the mean over signs is that over permutations, see
        `dhsic.estimators.nystrom_m`; the mean of the U-statistic is 0 already.
        """
        mean = sums.signs[:, None] / n
        forms = sums.quadratic - 2.0 * mean * sums.linear + mean**2 * sums.total
        if self.unbiased:
            return sums.total / (n - 3), forms / (n - 3)
        return sums.total / n, forms / (n - 2)

    def over_all(
        self, session: Session, combinations: Combinations, null: Multiplier | Permutation
    ) -> Permutation | None:
        """The permutations of all rows, where they are asked for or fit in memory."""
        if isinstance(null, Multiplier) or null.within == "blocks":
            return None
        if null.within == "all":
            return null
        firsts = combinations.variables.count(0)
        held = self._held_bytes(session, null.n_resamples, len(combinations.kernels), firsts)
        return null if held <= session.runtime.memory // 2 else None

    def _held_bytes(self, session: Session, n_resamples: int, kernels: int, firsts: int) -> int:
        """Bytes of the Gram matrices, of the strips of the first variable's, and of orders."""
        n, m = session.n, len(session.sources)
        matrices = session.dtype.itemsize * n * n * (kernels + max(1, -(-firsts // 2)))
        return matrices + 8 * n * n_resamples * (m - 1)

    def _test_gamma(self, session: Session, combinations: Combinations) -> list[Outcome]:
        grid = session.run_pairs(GramPass(_tiling(session, combinations), session.n))
        outcomes = []
        for c in range(len(combinations)):
            sums = grid.of_combination(combinations.chosen, c)
            estimate = self._estimate(sums, combinations.kernels_of(c))
            rounding = self.factor(sums) * gram_rounding(sums, session.dtype)
            statistic = session.n * self.size(sums)
            outcomes.append(Outcome(statistic, self._gamma(sums), estimate, rounding=rounding))
        return outcomes

    def _test_spectral(
        self, session: Session, combinations: Combinations, null: Spectral
    ) -> Outcome:
        grams = gram_matrices(session, combinations)
        sums = GramSums.of(grams)
        estimate, factor = self._estimate(sums, combinations.kernels), self.factor(sums)
        session.step("eigenvalues")
        mean, variance = null_moments(sums, unbiased=self.unbiased)
        limit = limit_mixture(grams, Centring.of(sums, unbiased=False), factor)
        mixture = limit.with_moments(factor * mean, factor**2 * variance)
        distribution = null.distribution(mixture, session.seed)
        rounding = factor * gram_rounding(sums, session.dtype)
        return Outcome(session.n * self.size(sums), distribution, estimate, rounding=rounding)


def _tiling(session: Session, combinations: Combinations) -> GramTiling:
    return GramTiling(combinations, session.dims, session.dtype)


def _gram_steps(session: Session, combinations: Combinations) -> list[DriverStep]:
    n = session.n
    shared = SharedTiles(combinations.kernels, combinations.variables)
    rows, square = 8 * n * sum(session.dims), session.dtype.itemsize * n * n
    held = square * len(combinations.kernels)
    return [
        DriverStep("read all rows", 3 * rows, rows),
        DriverStep("Gram matrices", held + square * shared.work_tiles, held),
    ]


def _permutation_step(
    session: Session, combinations: Combinations, null: Permutation
) -> DriverStep:
    n, size = session.n, session.dtype.itemsize
    products = PermutedProducts.of(combinations)
    firsts = size * n * n * products.n_firsts // 2
    orders = 2 * 8 * n * null.n_resamples * (products.n_variables - 1)
    strips = session.runtime.threads * size * products.scratch_entries(n, n)
    return DriverStep("permutation null", firsts + orders + strips)


def _eigenvalues_step(session: Session) -> DriverStep:
    return DriverStep("eigenvalues", 8 * session.n**2 * (2 if len(session.sources) == 2 else 8))


def _null_pass(
    tiling: GramTiling, centring: Centring, null: Multiplier | Permutation, seed: int
) -> CentredGramPass | PermutedGramPass:
    if isinstance(null, Multiplier):
        return CentredGramPass(tiling, centring, null.n_resamples, seed)
    return PermutedGramPass(tiling, centring, null, seed)


def gram_rounding(sums: GramSums, dtype: np.dtype[Any]) -> float:
    """What the terms of n times HSIC leave where they cancel."""
    scale = float(np.abs(sums.rows / sums.n).mean(axis=1).prod())
    return _UNCENTRED * rounding_unit(dtype) * sums.n * scale
