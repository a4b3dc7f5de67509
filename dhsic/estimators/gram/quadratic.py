"""Tests from all pairs of rows, streamed: what the V-, U- and distance statistics share."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.plan import Plan
from dhsic.engine.session import Session
from dhsic.errors import InvalidArgumentError
from dhsic.estimators.approximate import guard_grams
from dhsic.estimators.base import BANDWIDTH_ROWS, Null, Resampling, fit_combinations_on_sample
from dhsic.estimators.gram.orbits import GramOrbit
from dhsic.estimators.gram.steps import (
    CostedStep,
    orbit_steps,
    plain_steps,
    plan_steps,
    run_steps,
    spectral_steps,
)
from dhsic.estimators.gram.sums import GramSums, check_rows, gram_hsic, marginal_hsic
from dhsic.estimators.identities import compared_in_samples, left_out_text
from dhsic.estimators.null_moments import null_moments
from dhsic.estimators.outcomes import Estimate, GridOutcome, Outcome
from dhsic.estimators.resample import exact_null, keeping_replicates
from dhsic.kernels import Combinations, Gaussian, Kernel
from dhsic.nulls import (
    ChiSquareMixture,
    Distribution,
    Gamma,
    GammaDistribution,
    Permutation,
    Shifts,
    Spectral,
)

Vector = NDArray[np.float64]


class GramFit(NamedTuple):
    """An estimate from all pairs of rows, with all that it is made of."""

    means: Vector
    """Row means of the Gram matrices, shape (M, n)."""
    estimate: Estimate
    """The estimate."""


class _Planned(NamedTuple):
    """Decisions about a run."""

    parts: list[range]
    """The combinations that are taken at a time."""
    plan: Plan
    """Its steps."""


class Quadratic:
    """Estimate and test of a multiple of the squared HSIC by all pairs of rows.

    Estimators derive from it: they say what the multiple is, and which kernels it takes.
    """

    @property
    def quantity(self) -> str:
        """The name of the estimate."""
        return "squared HSIC"

    @property
    def unbiased(self) -> bool:
        """The U-statistic, for two variables; else the V-statistic."""
        return False

    @property
    def unbiased_estimate(self) -> bool:
        """The U-statistic as the estimate, whatever the statistic of a test is."""
        return self.unbiased

    def factor(self, sums: GramSums) -> float:
        """The factor of the squared HSIC; permutations must leave it as it is."""
        del sums
        return 1.0

    def size(self, sums: GramSums) -> float:
        """The multiple of the squared HSIC; n times it is the statistic."""
        return self.factor(sums) * gram_hsic(sums, unbiased=self.unbiased)

    def estimated(self, sums: GramSums) -> float:
        """The multiple of the squared HSIC that the estimate tells."""
        return self.factor(sums) * gram_hsic(sums, unbiased=self.unbiased_estimate)

    def reported(self, size: float) -> float:
        """The estimate, from its size."""
        return size

    def kernel(self, given: Kernel | None) -> Kernel:
        """Any, Gaussian where not given."""
        return given or Gaussian()

    def choose_null(self, session: Session, n_resamples: int) -> tuple[Null, str]:
        """Shifts of rows; permutations of three variables or more."""
        return exact_null(len(session.sources), n_resamples)

    def plan(self, session: Session, combinations: Combinations, null: Null | None) -> Plan:
        """The steps that would run."""
        self._check(session, combinations, null)
        return self._planned(session, combinations, null).plan

    def _check(self, session: Session, combinations: Combinations, null: Null | None) -> None:
        """Refuse what is not defined: few rows, many variables, a law of what may be negative."""
        # An unbiased estimate divides by n - 3 (Song et al. 2012, equation 5).
        check_rows(session.n, unbiased=self.unbiased_estimate)
        n_variables = len(combinations.chosen[0])
        if self.unbiased_estimate and n_variables > 2:
            msg = (
                f"an unbiased estimate needs two variables, got {n_variables}: take "
                "unbiased_estimate=False"
            )
            raise InvalidArgumentError(msg)
        if isinstance(null, Gamma) and self.unbiased:
            # A gamma law is one of positive values.
            msg = (
                "null 'gamma' needs a statistic that is never negative, got an unbiased one: take "
                "unbiased=False, or null 'shifts', 'permutation' or 'spectral'"
            )
            raise InvalidArgumentError(msg)

    def estimate(self, session: Session, kernels: Sequence[Kernel]) -> Estimate:
        """In one pass."""
        # One combination is one part, which is all that is unpacked here.
        fitted, _, ((_, grams),) = self._run(session, Combinations.single(kernels), None)
        return self._estimated(self.estimated(grams.sums_of(fitted.chosen[0])), fitted.kernels)

    def fit(self, session: Session, kernels: Sequence[Kernel]) -> GramFit:
        """The estimate with all that it is made of."""
        fitted, _, ((_, grams),) = self._run(session, Combinations.single(kernels), None)
        value = self.estimated(grams.sums_of(fitted.chosen[0]))
        means = grams.row_means(range(len(kernels)))
        return GramFit(means, self._estimated(value, fitted.kernels))

    def sizes(
        self, session: Session, combinations: Combinations
    ) -> tuple[Vector, Vector, Combinations]:
        """The sizes of all combinations, HSIC of every variable with itself, and the kernels."""
        fitted, _, parts = self._run(session, combinations, None)
        sums = [grams.sums_of(gram_sums) for part, grams in parts for gram_sums in part.chosen]
        with_itself = np.array(
            [marginal_hsic(gram_sums, unbiased=self.unbiased) for gram_sums in sums]
        )
        return np.array([self.size(gram_sums) for gram_sums in sums]), with_itself, fitted

    def test(self, session: Session, kernels: Sequence[Kernel], null: Null) -> Outcome:
        """The size of the estimate times n, and its null distribution."""
        combinations = Combinations.single(kernels)
        if isinstance(null, Resampling):
            return self.test_grid(session, combinations, null).only
        assert isinstance(null, Gamma | Spectral)
        return self.test_each(session, combinations, null)[0]

    def test_each(
        self, session: Session, combinations: Combinations, null: Gamma | Spectral
    ) -> list[Outcome]:
        """The outcome of every combination by itself, from Gram tiles that they share."""
        _, note, parts = self._run(session, combinations, null)
        outcomes = []
        for part, grams in parts:
            for c, (combination, error) in enumerate(
                zip(part.chosen, grams.rounding(), strict=True)
            ):
                sums = grams.sums_of(combination)
                factor, size = self.factor(sums), self.size(sums)
                law = self._law(null, sums, grams.limit, session.seed)
                estimate = self._estimated(self.estimated(sums), part.kernels_of(c))
                outcomes.append(Outcome(session.n * size, law, estimate, note, factor * error))
        return outcomes

    def test_grid(
        self, session: Session, combinations: Combinations, null: Resampling
    ) -> GridOutcome:
        """Statistics of all combinations, and replicates that they share.

        As many combinations are taken at a time as fit in memory.
        """
        fitted, note, parts = self._run(session, combinations, null)
        left_out = left_out_text(len(combinations) - len(fitted))
        scaled, replicates, done = [], np.empty((0, 0)), 0
        for part, grams in parts:
            values, own = self._scaled(grams, part)
            scaled.append(values)
            note = note or grams.detail
            # Each part has the replicates of some columns: all of them are held once alone.
            if not done:
                whole = len(part) == len(fitted)
                replicates = own if whole else np.empty((len(own), len(fitted)))
            if own is not replicates:
                replicates[:, done : done + len(part)] = own
            done += len(part)
            del own, grams
        # Parts of combinations come one after another, and each has the sums of its own.
        *each, with_itself, sums = zip(*scaled, strict=True)
        statistics, sizes, errors = map(np.concatenate, each)
        of_estimates = list(chain.from_iterable(sums))

        def estimate(c: int) -> Estimate:
            size = self.estimated(of_estimates[c]) if of_estimates else sizes[c]
            return self._estimated(size, fitted.kernels_of(c))

        return GridOutcome(
            fitted,
            statistics,
            replicates,
            estimate,
            "; ".join(filter(None, (note, left_out))),
            errors,
            np.vstack(with_itself),
        )

    def _run(
        self, session: Session, combinations: Combinations, null: Null | None
    ) -> tuple[Combinations, str, Iterator[tuple[Combinations, Any]]]:
        """Fit the kernels, guard the null, and run the steps of part after part."""
        self._check(session, combinations, null)
        fitted, samples = fit_combinations_on_sample(session, combinations)
        numbered, planned = self._planned(session, combinations, null)
        # Kernels that are 0 between nearly all rows are left out of a grid: their replicates have
        # heavy tails, which cost the others their power.
        if len(fitted) > 1 and isinstance(null, Resampling) and not fitted.features:
            numbers = compared_in_samples(fitted, samples, session.n)
            if len(numbers) < len(fitted):
                fitted, numbered = fitted.part(numbers), _ranges_left(numbered, numbers)
        note = ""
        if isinstance(null, Gamma | Spectral):
            note = guard_grams(session, fitted, samples, null)
        parts = _cut_combinations(fitted, numbered)
        # Generators: a part is read and summed only once the one before it is done.
        steps = (self._steps(session, part, samples, null, planned) for part in parts)
        runs = (run_steps(session, part) for part in steps)
        return fitted, note, zip(parts, runs, strict=True)

    def _estimated(self, size: float, kernels: tuple[Kernel, ...]) -> Estimate:
        return Estimate(self.reported(float(size)), kernels, quantity=self.quantity)

    def _law(
        self, null: Gamma | Spectral, sums: GramSums, limit: ChiSquareMixture | None, seed: int
    ) -> Distribution:
        """The law of the statistic, by its moments and for a spectral null by its limit."""
        factor = self.factor(sums)
        # Mean and variance over all permutations, as of the sums at hand.
        mean, variance = null_moments(sums, unbiased=self.unbiased)
        # Of a multiple: the variance goes with the square of the factor.
        moments = factor * mean, factor**2 * variance
        if isinstance(null, Gamma) or limit is None:
            return GammaDistribution(*moments)
        mixture = ChiSquareMixture(factor * limit.weights, factor * limit.shift)
        # Eigenvalues of a sample spread too far; the mean and the variance are those under
        # independence.
        return null.distribution(mixture.with_moments(*moments), seed)

    def _scaled(
        self, grams: GramOrbit, part: Combinations
    ) -> tuple[tuple[Vector, Vector, Vector, Vector, list[GramSums]], Vector]:
        """Statistics, sizes, rounding, HSIC of every variable with itself, sums; and replicates.

        The sums are those that estimates come from where they are others than the sizes: one is
        told of all combinations, of those of columns none is.
        """
        each = [grams.sums_of(gram_sums) for gram_sums in part.chosen]
        factors = np.array([self.factor(sums) for sums in each])
        used, at = np.unique(part.chosen, return_inverse=True)  # some may be in no combination
        kernels = grams.sums_of_kernels(used.tolist())
        with_itself = marginal_hsic(kernels, unbiased=self.unbiased)[at.reshape(len(part), -1)]
        statistics, replicates, errors = grams.resampled()
        others = self.unbiased_estimate and not self.unbiased and not part.features
        replicates *= factors
        values = (
            factors * statistics,
            # The estimate is the statistic over n.
            factors * (statistics / each[0].n),
            factors * errors,
            with_itself,
            each if others else [],
        )
        return values, replicates

    def _planned(self, session: Session, combinations: Combinations, null: Null | None) -> _Planned:
        """Decisions about the run, found once: planning takes as long as a test of few rows."""
        key = self, combinations, null
        return session.once(key, lambda: self._plan_parts(session, combinations, null))

    def _plan_parts(
        self, session: Session, combinations: Combinations, null: Null | None
    ) -> _Planned:
        """Combinations that are taken at a time: as many as fit in memory, and one at least.

        Eigenvalues are those of one.
        """
        count = len(combinations)

        def plan_of_parts(*parts: Combinations) -> Plan:
            steps = (self._guessed(session, part, null) for part in parts)
            plan = plan_steps(session, steps)
            return keeping_replicates(plan, combinations, null)

        def parts_of(size: int) -> list[range]:
            return [range(start, min(start + size, count)) for start in range(0, count, size)]

        def exceeds(size: int) -> bool:  # kernels of some parts take more than those of others
            return not plan_of_parts(*_cut_combinations(combinations, parts_of(size))).fits

        if count == 1:
            return _Planned([range(count)], plan_of_parts(combinations))
        # A spectral law takes the eigenvalues of one combination at a time.
        size = 1
        if not isinstance(null, Spectral):
            whole = plan_of_parts(combinations)
            if whole.fits:
                return _Planned([range(count)], whole)
            # As many combinations at a time as fit, where the dearest of the parts decides.
            size = max(bisect_left(range(1, count), True, key=exceeds), 1)
        parts = parts_of(size)
        return _Planned(parts, plan_of_parts(*_cut_combinations(combinations, parts)))

    def _guessed(
        self, session: Session, combinations: Combinations, null: Null | None
    ) -> list[CostedStep]:
        """The steps for kernels that are not fitted yet: costs depend on no value."""
        samples = [np.zeros((min(session.n, BANDWIDTH_ROWS), d)) for d in session.dims]
        return self._steps(session, combinations.guessed(session.dims), samples, null)

    def _steps(
        self,
        session: Session,
        fitted: Combinations,
        samples: Sequence[Vector],
        null: Null | None,
        planned: Plan | None = None,
    ) -> list[CostedStep]:
        """All that a run does once kernels are fitted; the last step returns its sums."""
        if isinstance(null, Shifts | Permutation):
            unbiased = self.unbiased
            return orbit_steps(session, fitted, samples, null, unbiased=unbiased, planned=planned)
        if isinstance(null, Spectral):
            return spectral_steps(session, fitted, samples)
        return plain_steps(session, fitted, samples, planned)


def _ranges_left(parts: Sequence[range], numbers: Sequence[int]) -> list[range]:
    """The parts that are left of some combinations, which are numbered anew."""
    counts = (sum(c in part for c in numbers) for part in parts)
    ends = list(accumulate(filter(None, counts), initial=0))
    return [range(*both) for both in pairwise(ends)]


def _cut_combinations(combinations: Combinations, parts: Sequence[range]) -> list[Combinations]:
    return [combinations.part(numbers) for numbers in parts] if len(parts) > 1 else [combinations]
