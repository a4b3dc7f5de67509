"""Tests from all pairs of rows, streamed: what the V-, U- and distance statistics share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.plan import DriverStep, PassPlan, Plan, baseline_bytes
from dhsic.engine.session import Session
from dhsic.errors import InvalidArgumentError
from dhsic.estimators.base import (
    BANDWIDTH_ROWS,
    Estimate,
    Null,
    Outcome,
    bandwidth_rows,
    fit_kernels,
)
from dhsic.estimators.gram_pairs import (
    CentredGramPass,
    CentredGramSums,
    GramPass,
    PermutedGramPass,
)
from dhsic.estimators.gram_sums import (
    Centring,
    GramSums,
    centred_pairs,
    hsic,
    null_moments,
    permuted_sums,
)
from dhsic.kernels import Gaussian, Kernel
from dhsic.linalg import spectrum
from dhsic.nulls import (
    ChiSquareMixture,
    Gamma,
    GammaDistribution,
    Multiplier,
    Permutation,
    Replicates,
    Spectral,
    draw_permutations,
)

__all__ = ["PermutedGrams", "Quadratic", "fit"]

Vector = NDArray[np.float64]
Matrix = NDArray[np.floating[Any]]

_QUICK_PRODUCTS = 4e9
_REMEDY = "take estimator='nystrom-m', fewer rows, or fewer resamples"
_STRIP = 32


class Quadratic:
    """Estimate and test of a multiple of the squared HSIC by all pairs of rows.

    Estimators derive from it: they say what the multiple is, and which kernels it takes.
    """

    quantity: ClassVar[str] = "squared HSIC"

    @property
    def biased(self) -> bool:
        """The V-statistic; else the U-statistic, for two variables."""
        return True

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
        self.check(null)
        sample = sum(16 * BANDWIDTH_ROWS * d for d in session.dims)
        steps: list[DriverStep | PassPlan] = [DriverStep("fit kernels", sample)]
        if null is not None and self._holds_all(session, null):
            steps += self._held_steps(session, kernels, null)
        else:
            steps.append(session.plan_pairs(_gram_pass(session, kernels)))
            if isinstance(null, Multiplier | Permutation):
                centring = Centring(
                    np.broadcast_to(0.0, (len(kernels), session.n)), not self.biased
                )
                steps.append(session.plan_pairs(_null_pass(session, kernels, centring, null)))
        return Plan(
            session.n, session.names, None, session.runtime, tuple(steps), baseline_bytes(), _REMEDY
        )

    def check(self, null: Null | None) -> None:
        """Refuse a gamma distribution for a statistic that is negative at times."""
        if isinstance(null, Gamma) and not self.biased:
            msg = (
                "null 'gamma' needs a statistic that is never negative, got an unbiased one: take "
                "unbiased=False, or null 'permutation', 'multiplier' or 'spectral'"
            )
            raise InvalidArgumentError(msg)

    def estimate(self, session: Session, kernels: Sequence[Kernel]) -> Estimate:
        """In one pass."""
        fitted = fit(session, kernels)
        sums = session.run_pairs(_gram_pass(session, fitted))
        return self._estimate(sums, fitted)

    def test(self, session: Session, kernels: Sequence[Kernel], null: Null) -> Outcome:
        """The estimate times n, and its null distribution."""
        fitted = fit(session, kernels)
        if self._holds_all(session, null):
            return self._test_held(session, fitted, null)
        sums = session.run_pairs(_gram_pass(session, fitted))
        estimate, factor = self._estimate(sums, fitted), self.factor(sums)
        rounding = factor * _rounding(sums, session.dtype)
        if isinstance(null, Gamma):
            mean, variance = null_moments(sums)
            fitted_law = GammaDistribution(factor * mean, factor**2 * variance)
            return Outcome(session.n * estimate.value, fitted_law, estimate, rounding=rounding)
        assert isinstance(null, Multiplier | Permutation)
        centring = Centring.of(sums, unbiased=not self.biased)
        reduction = _null_pass(session, fitted, centring, null)
        if isinstance(reduction, CentredGramPass):
            statistic, replicates = self._signed(session.run_pairs(reduction), session.n)
            detail = ""
        else:
            values = centring.statistics(*session.run_pairs(reduction))
            statistic, replicates = values[0], values[1:]
            detail = f"permutes within groups of {reduction.null.block_rows} rows"
        law = Replicates(factor * replicates)
        return Outcome(factor * statistic, law, estimate, detail, rounding)

    def _estimate(self, sums: GramSums, kernels: tuple[Kernel, ...]) -> Estimate:
        value = self.factor(sums) * hsic(sums, unbiased=not self.biased)
        return Estimate(value, kernels, quantity=self.quantity)

    def _signed(self, sums: CentredGramSums, n: int) -> tuple[float, Vector]:
        """N HSIC, and (w - mean w)' H (w - mean w) over the same divisor.

        With the factor n / (n - 2) the mean over signs is that over permutations, see
        `dhsic.estimators.nystrom_m`; the mean of the U-statistic is 0 already.
        """
        mean = sums.signs / n
        forms = sums.quadratic - 2.0 * mean * sums.linear + mean**2 * sums.total
        if not self.biased:
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
            strips = session.runtime.threads * size * n * _STRIP * (2 * m)
            return [*steps, DriverStep("permutation null", size * n * n // 2 + orders + strips)]
        return [*steps, DriverStep("eigenvalues", 8 * n * n * (2 if m == 2 else 8))]

    def _test_held(self, session: Session, kernels: tuple[Kernel, ...], null: Null) -> Outcome:
        grams = _gram_matrices(session, kernels)
        sums = GramSums.of(grams)
        estimate, factor = self._estimate(sums, kernels), self.factor(sums)
        rounding = factor * _rounding(sums, session.dtype)
        if isinstance(null, Spectral):
            session.step("eigenvalues")
            mean, variance = null_moments(sums)
            mixture = _mixture(grams, Centring.of(sums, unbiased=False), factor).with_moments(
                factor * mean if self.biased else 0.0, factor**2 * variance
            )
            law = null.distribution(mixture, session.seed)
            return Outcome(session.n * estimate.value, law, estimate, rounding=rounding)
        assert isinstance(null, Permutation)
        centring = Centring.of(sums, unbiased=not self.biased)
        permuted = PermutedGrams.of(grams, centring, null, session.seed)
        statistic = permuted.observed()
        ranges = session.map("permutation null", permuted, null.n_resamples)
        law = Replicates(factor * np.concatenate(ranges))
        detail = "permutes within all rows"
        return Outcome(factor * statistic, law, estimate, detail, rounding)


@dataclass(frozen=True)
class PermutedGrams:
    """n times HSIC with all variables but the first permuted over all rows.

    Parameters
    ----------
    strips : tuple of ndarray
        Rows of the first Gram matrix from the diagonal on, entries off it doubled.
    others : tuple of ndarray, shapes (n, n)
        The Gram matrices of the other variables.
    centring : Centring
        From the Gram sums.
    orders : ndarray of int, shape (b, M - 1, n)
        The permutations.
    """

    strips: tuple[Matrix, ...]
    others: tuple[Matrix, ...]
    centring: Centring
    orders: NDArray[np.intp]

    @classmethod
    def of(
        cls, grams: Sequence[Matrix], centring: Centring, null: Permutation, seed: int
    ) -> PermutedGrams:
        """From Gram matrices, of which the first is overwritten."""
        first, *others = grams
        n = len(first)
        everywhere = slice(0, n)
        centring.centre_first(first, everywhere, everywhere)
        strips = tuple(_upper(first, start) for start in range(0, n, _STRIP))
        orders = draw_permutations(seed, 0, n, null.n_resamples, len(grams))
        return cls(strips, tuple(others), centring, orders)

    def observed(self) -> float:
        """The statistic of the data."""
        n = self.orders.shape[2]
        return float(
            self._statistics(np.broadcast_to(np.arange(n), (1, *self.orders.shape[1:])))[0]
        )

    def __call__(self, replicates: range) -> Vector:
        """The statistic of some of the permutations."""
        return self._statistics(self.orders[replicates.start : replicates.stop])

    def _statistics(self, orders: NDArray[np.intp]) -> Vector:
        joint = np.zeros(len(orders))
        start = 0
        for strip in self.strips:
            rows = orders[:, :, start : start + len(strip)]
            joint += permuted_sums(strip, self.others, rows, orders[:, :, start:])
            start += len(strip)
        mixed = self.centring.mixed_sums(slice(0, start), orders)
        return self.centring.statistics(joint, mixed)


def _upper(gram: Matrix, start: int) -> Matrix:
    """Rows from `start` on of twice the upper triangle, the diagonal once."""
    strip = np.triu(gram[start : start + _STRIP, start:])
    strip *= 2
    diagonal = np.arange(len(strip))
    strip[diagonal, diagonal] *= 0.5
    return strip


def _mixture(grams: Sequence[Matrix], centring: Centring, factor: float) -> ChiSquareMixture:
    """The limit of a multiple of n V-HSIC under independence; overwrites the Gram matrices.

    For M = 2 the weights are the products of the eigenvalues of either centred Gram matrix
    (Zhang et al. 2018, section 2.4.2), for M > 2 the eigenvalues of that of the centred products.
    """
    n = len(grams[0])
    everywhere = slice(0, n)
    if len(grams) > 2:
        h = centred_pairs(grams, centring, everywhere, everywhere)
        return ChiSquareMixture.of(factor / n * spectrum(h))
    first, second = (
        spectrum(centring.centre(m, gram, everywhere, everywhere)) / n
        for m, gram in enumerate(grams)
    )
    return ChiSquareMixture.of_products(factor * first, second)


def fit(session: Session, kernels: Sequence[Kernel]) -> tuple[Kernel, ...]:
    """Fit the kernels on rows drawn for each."""
    session.step("fit kernels")
    return fit_kernels(session, kernels, session.take(bandwidth_rows(session)))


def _gram_pass(session: Session, kernels: Sequence[Kernel]) -> GramPass:
    return GramPass(tuple(kernels), session.dims, session.n, session.dtype)


def _null_pass(
    session: Session, kernels: Sequence[Kernel], centring: Centring, null: Multiplier | Permutation
) -> CentredGramPass | PermutedGramPass:
    shared = (tuple(kernels), session.dims, centring)
    if isinstance(null, Multiplier):
        return CentredGramPass(*shared, null.n_resamples, session.seed, session.dtype)
    return PermutedGramPass(*shared, null, session.seed, session.dtype)


def _gram_matrices(session: Session, kernels: Sequence[Kernel]) -> list[Matrix]:
    session.step("read all rows")
    values = session.take([np.arange(session.n)] * len(session.sources))
    session.step("Gram matrices")
    return [_gram(kernel, x, session.dtype) for kernel, x in zip(kernels, values, strict=True)]


def _gram(kernel: Kernel, x: Vector, dtype: np.dtype[Any]) -> Matrix:
    out = np.empty((len(x), len(x)), dtype)
    work = np.empty((kernel.work_tiles, *out.shape), dtype)
    kernel.tile(kernel.rows(x, dtype), kernel.columns(x, dtype), out, work)
    return out


def _rounding(sums: GramSums, dtype: np.dtype[Any]) -> float:
    """What the terms of n times HSIC leave where they cancel."""
    scale = float(np.abs(sums.rows / sums.n).mean(axis=1).prod())
    return 32.0 * float(np.finfo(dtype).eps) * sums.n * scale
