"""Nystrom M-HSIC, and the test built on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, get_args

import numpy as np
from numpy.typing import NDArray

from dhsic._validation import check_choice
from dhsic.engine.plan import DriverStep, PassPlan, Plan
from dhsic.engine.session import Session
from dhsic.engine.tiles import Tiling
from dhsic.estimators.base import (
    BANDWIDTH_ROWS,
    Estimate,
    Null,
    Outcome,
    bandwidth_rows,
    fit_kernels,
    plan_of,
)
from dhsic.estimators.landmark_sums import SumsPass
from dhsic.estimators.landmark_tests import kernel_means, permutes_quickly, plan_null, run_null
from dhsic.kernels import Gaussian, Kernel
from dhsic.landmarks import (
    Landmarks,
    Pairing,
    check_landmark_options,
    landmark_count,
    prune,
    tolerance_for,
    uniform_rows,
    warn_of_rounding,
)
from dhsic.linalg import PivotedCholesky, pivoted_cholesky, solve_lower
from dhsic.nulls import Multiplier, Permutation
from dhsic.results import LandmarkSummary

__all__ = ["NystromMHSIC"]

Vector = NDArray[np.float64]

_REMEDY = "take fewer landmarks, fewer resamples or fewer threads"


@dataclass(frozen=True)
class NystromMHSIC:
    """Nystrom M-HSIC of Kalinke and Szabo (2023), for two or more variables.

    The cost is linear in the rows. Let z_j = (z_1j, ..., z_Mj), j = 1..p, be landmarks,
    kappa_m(z_j) the mean over all rows of k_m(z_mj, x_m), kappa_J(z_j) that of the product of the
    kernels, and K_J the Hadamard product of the landmarks' Gram matrices. With
    u = kappa_J - prod_m kappa_m, the test statistic is T = n u' K_J^-1 u. It differs from n times
    the estimate of their Lemma 4.2 by a term that depends on the marginals alone.

    Parameters
    ----------
    n_landmarks : int or str, optional
        Landmarks to draw, the n' of the paper: a number, or a multiple of sqrt(n) as "8sqrt".
    pairing : {"independent", "joint"}, optional
        Landmarks drawn independently for every variable, the default for tests; or rows of the
        data as in the paper, the default for estimates, which need landmarks where the data are.
        With independent landmarks a permutation test that keeps them is exact, over the draw of
        the seed too; landmarks that are rows of the data know of the pairing, and reject true
        nulls too often at small n. The estimate in the result of a test is the one at its
        landmarks.
    replace : bool, optional
        Draw landmarks with replacement, as the paper does.
    tolerance : float, optional
        A landmark is dropped where its squared distance to the span of the others, relative to
        the largest, is below it. The default follows the precision: 1e-8 for float64 tiles, 1e-4
        for float32.

    References
    ----------
    .. [1] F. Kalinke, Z. Szabo. Nystrom M-Hilbert-Schmidt independence criterion. UAI 2023.

    Examples
    --------
    >>> NystromMHSIC(n_landmarks=500)
    NystromMHSIC(n_landmarks=500, pairing=None, replace=False, tolerance=None)
    """

    n_landmarks: int | str = "8sqrt"
    pairing: Pairing | None = None
    replace: bool = False
    tolerance: float | None = None

    name: ClassVar[str] = "nystrom-m"

    def __post_init__(self) -> None:
        check_landmark_options(self.n_landmarks, self.tolerance)
        if self.pairing is not None:
            check_choice("pairing", self.pairing, get_args(Pairing))

    def kernel(self, given: Kernel | None) -> Kernel:
        """What was given, or the Gaussian."""
        return given or Gaussian()

    def choose_null(self, session: Session, n_resamples: int) -> tuple[Null, str]:
        """Exact permutations where they cost about a second, random signs beyond."""
        if permutes_quickly(session, self._count(session), n_resamples):
            exact = "not exact with joint landmarks" if self.pairing == "joint" else "exact"
            return Permutation(n_resamples, within="all"), f"{exact}, and quick for so few rows"
        reason = "too many rows to permute quickly; signs take one matrix product"
        return Multiplier(n_resamples), reason

    def plan(self, session: Session, kernels: Sequence[Kernel], null: Null | None) -> Plan:
        """What would run, with the landmarks as drawn: pruning can only make it less."""
        p = self._count(session)
        zero = session.dtype.type(0)
        shapes = [(p, k.width(d)) for k, d in zip(kernels, session.dims, strict=True)]
        tiling = Tiling(tuple(kernels), tuple(np.broadcast_to(zero, shape) for shape in shapes))
        rows = 8 * sum(session.dims) * (p + BANDWIDTH_ROWS)
        fetch = 3 * rows + max(source.take_bytes for source in session.sources)
        gram = 8 * p * p
        steps: list[DriverStep | PassPlan] = [
            DriverStep("fetch landmarks", fetch, rows),
            DriverStep("prune landmarks", 3 * gram, gram),
            session.plan(SumsPass(tiling)),
        ]
        if null is not None:
            steps += plan_null(session, tiling, null)
        steps.append(DriverStep("estimate", 3 * gram))
        return plan_of(session, steps, _REMEDY, n_landmarks=p)

    def estimate(self, session: Session, kernels: Sequence[Kernel]) -> Estimate:
        """The estimate of [1] Lemma 4.2, in one pass."""
        basis = self._basis(session, kernels, self.pairing or "joint")
        kappa, kappa_joint = kernel_means(session, basis.tiling)
        return self._estimate(session, basis, kappa, kappa_joint - kappa.prod(axis=0))

    def test(self, session: Session, kernels: Sequence[Kernel], null: Null) -> Outcome:
        """T and its null distribution, in two passes."""
        basis = self._basis(session, kernels, self.pairing or "independent")
        kappa, _ = kernel_means(session, basis.tiling)
        whiten = partial(solve_lower, basis.factor.factor)
        tested = run_null(session, basis.tiling, kappa, whiten, null)
        estimate = self._estimate(session, basis, kappa, tested.u)
        return Outcome(tested.statistic, tested.distribution, estimate, tested.detail)

    def _count(self, session: Session) -> int:
        return landmark_count(self.n_landmarks, session.n, replace=self.replace)

    def _basis(self, session: Session, kernels: Sequence[Kernel], pairing: Pairing) -> _Basis:
        """Draw, fetch and prune the landmarks; fit the kernels on rows fetched with them."""
        p = self._count(session)
        session.step("fetch landmarks")
        drawn = uniform_rows(
            session.seed,
            session.n,
            p,
            len(session.sources),
            pairing=pairing,
            replace=self.replace,
        )
        sampled = bandwidth_rows(session)
        rows = session.take([np.append(z, x) for z, x in zip(drawn, sampled, strict=True)])
        fitted = fit_kernels(session, kernels, [x[p:] for x in rows])
        session.step("prune landmarks")
        tolerance = tolerance_for(self.tolerance, session.dtype)
        landmarks = Landmarks(tuple(x[:p] for x in rows), tuple(drawn))
        kept, factor = prune(landmarks, fitted, tolerance)
        tiling = Tiling.prepare(fitted, kept.points, session.dtype)
        warn_of_rounding(session.names, fitted, tiling.columns, session.dtype)
        summary = LandmarkSummary(
            drawn=p,
            kept=factor.rank,
            pairing=pairing,
            replace=self.replace,
            tolerance=factor.tolerance,
        )
        return _Basis(fitted, kept, factor, tiling, summary)

    def _estimate(self, session: Session, basis: _Basis, kappa: Vector, u: Vector) -> Estimate:
        """[1] Lemma 4.2 as u' K_J^-1 u + |(I - P_J) (x)_m P_m mu_m|^2, in which nothing cancels.

        P_J and P_m project on the span of the landmarks' features; P_m mu_m agrees with mu_m at
        the landmarks.
        """
        session.step("estimate")
        marginal = 1.0
        for kernel, z, values in zip(basis.kernels, basis.landmarks.points, kappa, strict=True):
            factor = pivoted_cholesky(kernel(z), basis.factor.tolerance)
            marginal *= float(factor.squared_norm(values[factor.kept]))
        outside = marginal - float(basis.factor.squared_norm(kappa.prod(axis=0)))
        value = float(basis.factor.squared_norm(u)) + max(0.0, outside)
        return Estimate(value, basis.kernels, basis.summary)


@dataclass(frozen=True)
class _Basis:
    kernels: tuple[Kernel, ...]
    landmarks: Landmarks
    factor: PivotedCholesky
    tiling: Tiling
    summary: LandmarkSummary
