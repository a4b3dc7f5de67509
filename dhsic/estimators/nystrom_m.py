"""Nystrom M-HSIC, and the test built on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, get_args

import numpy as np
from numpy.typing import NDArray

from dhsic._validation import check_choice, check_integer
from dhsic.engine.plan import DriverStep, PassPlan, Plan
from dhsic.engine.session import Session
from dhsic.engine.tiles import Tiling
from dhsic.errors import InvalidArgumentError
from dhsic.estimators.base import (
    BANDWIDTH_ROWS,
    Estimate,
    GridOutcome,
    Null,
    Outcome,
    bandwidth_rows,
    fit_combinations,
    plan_of,
)
from dhsic.estimators.landmark_basis import LandmarkBasis, select_landmarks
from dhsic.estimators.landmark_products import CentredProducts
from dhsic.estimators.landmark_sums import SumsPass
from dhsic.estimators.landmark_tests import (
    kernel_means,
    permutes_quickly,
    plan_fitted,
    plan_replicates,
    run_fitted,
    run_replicates,
)
from dhsic.kernels import Combinations, Gaussian, Kernel
from dhsic.landmarks import (
    Landmarks,
    Pairing,
    Selection,
    check_landmark_options,
    landmark_count,
    select_bytes,
    tolerance_for,
    uniform_rows,
)
from dhsic.linalg import pivoted_cholesky
from dhsic.nulls import Multiplier, Permutation
from dhsic.results import LandmarkSummary

__all__ = ["NystromMHSIC"]

Vector = NDArray[np.float64]

_REMEDY = "take fewer landmarks, fewer kernels ('gaussian' is one), resamples or threads"


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
    selection : str, optional
        "uniform", or how they are chosen from a pool of uniformly drawn rows, of every variable by
        itself unless they are joint: "rpcholesky", "leverage", "kmeans++", "coherence" or
        "determinant", see `dhsic.landmarks.select`. The pool alone decides, so that permutation
        tests stay exact. Of several kernels of a variable the one nearest to the median heuristic
        selects.
    pool : int, optional
        Rows of the pool, as a multiple of the landmarks.

    References
    ----------
    .. [1] F. Kalinke, Z. Szabo. Nystrom M-Hilbert-Schmidt independence criterion. UAI 2023.

    Examples
    --------
    >>> NystromMHSIC(n_landmarks="4sqrt", selection="rpcholesky").pool
    4
    """

    n_landmarks: int | str = "8sqrt"
    pairing: Pairing | None = None
    replace: bool = False
    tolerance: float | None = None
    selection: Selection = "uniform"
    pool: int = 4

    name: ClassVar[str] = "nystrom-m"

    def __post_init__(self) -> None:
        check_landmark_options(self.n_landmarks, self.tolerance)
        if self.pairing is not None:
            check_choice("pairing", self.pairing, get_args(Pairing))
        check_choice("selection", self.selection, get_args(Selection))
        check_integer("pool", self.pool, minimum=1)
        if self.replace and self.selection != "uniform":
            msg = (
                "replace must be False where landmarks are selected from a pool, got True beside "
                f"selection={self.selection!r}: drop one of them"
            )
            raise InvalidArgumentError(msg)

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
        return self._plan(session, Combinations.single(kernels), null)

    def plan_grid(
        self, session: Session, combinations: Combinations, null: Multiplier | Permutation
    ) -> Plan:
        """What a test of several combinations would run."""
        return self._plan(session, combinations, null)

    def estimate(self, session: Session, kernels: Sequence[Kernel]) -> Estimate:
        """The estimate of [1] Lemma 4.2, in one pass."""
        pairing = self.pairing or "joint"
        basis = self._basis(session, Combinations.single(kernels), pairing)
        sums = session.run(SumsPass(basis.tiling(session), joint=True))
        kappa, kappa_joint = sums.marginal / session.n, sums.joint / session.n
        u = kappa_joint - kappa.prod(axis=0)
        return self._estimate(session, basis, 0, kappa, u, pairing)

    def test(self, session: Session, kernels: Sequence[Kernel], null: Null) -> Outcome:
        """T and its null distribution, in two passes."""
        combinations = Combinations.single(kernels)
        if isinstance(null, Multiplier | Permutation):
            return self.test_grid(session, combinations, null).only
        basis, kappa, products = self._products(session, combinations)
        tested = run_fitted(session, products, partial(basis.whiten, 0), null)
        estimate = self._estimate(session, basis, 0, kappa, tested.u, self._tested_pairing)
        return Outcome(tested.statistic, tested.distribution, estimate)

    def test_grid(
        self, session: Session, combinations: Combinations, null: Multiplier | Permutation
    ) -> GridOutcome:
        """T of every combination and its replicates, in two passes."""
        basis, kappa, products = self._products(session, combinations)
        whiten = [partial(basis.whiten, c) for c in range(len(combinations))]
        found = run_replicates(session, products, whiten, null)

        def estimate(c: int) -> Estimate:
            return self._estimate(session, basis, c, kappa, found.u[c], self._tested_pairing)

        return GridOutcome(
            basis.combinations,
            found.statistics,
            found.replicates,
            estimate,
            found.detail,
            np.zeros(len(combinations)),
        )

    @property
    def _tested_pairing(self) -> Pairing:
        return self.pairing or "independent"

    def _count(self, session: Session) -> int:
        return landmark_count(self.n_landmarks, session.n, replace=self.replace)

    def _holds(self, session: Session, combinations: Combinations) -> bool:
        """Whether the factors of all Gram matrices are held."""
        grams = 8 * self._count(session) ** 2 * len(combinations)
        return len(combinations) == 1 or grams <= session.runtime.memory // 8

    def _drawn(self, session: Session) -> int:
        """Rows from which the landmarks are selected."""
        p = self._count(session)
        return p if self.selection == "uniform" else min(session.n, self.pool * p)

    def _selection_steps(self, session: Session, guessed: Combinations) -> list[DriverStep]:
        if self.selection == "uniform":
            return []
        pairs = zip(guessed.typical(), session.dims, strict=True)
        width = sum(guessed.kernels[k].width(d) for k, d in pairs)
        s, p = self._drawn(session), self._count(session)
        return [DriverStep("select landmarks", select_bytes(self.selection, s, p, width))]

    def _plan(self, session: Session, combinations: Combinations, null: Null | None) -> Plan:
        p = self._count(session)
        guessed = combinations.guessed(session.dims)
        points = [np.zeros((p, d)) for d in session.dims]
        tiling = Tiling.prepare(guessed, points, session.dtype)
        rows = 8 * sum(session.dims) * (self._drawn(session) + BANDWIDTH_ROWS)
        fetch = 3 * rows + max(source.take_bytes for source in session.sources)
        gram = 8 * p * p
        held = gram * len(combinations) * self._holds(session, combinations)
        steps: list[DriverStep | PassPlan] = [
            DriverStep("fetch landmarks", fetch, rows),
            *self._selection_steps(session, guessed),
            DriverStep("prune landmarks", 3 * gram + max(0, held - gram), held),
            session.plan(SumsPass(tiling, joint=null is None)),
        ]
        if isinstance(null, Multiplier | Permutation):
            steps += plan_replicates(session, tiling, combinations.chosen, null)
        elif null is not None:
            steps += plan_fitted(session, tiling, null)
        steps.append(DriverStep("estimate", 3 * gram))
        return plan_of(session, steps, _REMEDY, n_landmarks=p)

    def _products(
        self, session: Session, combinations: Combinations
    ) -> tuple[LandmarkBasis, Vector, CentredProducts]:
        """The landmarks of a test, the means of the kernels at them, and the products of these."""
        basis = self._basis(session, combinations, self._tested_pairing)
        tiling = basis.tiling(session)
        kappa = kernel_means(session, tiling)
        means = list(kappa.astype(session.dtype))
        return basis, kappa, CentredProducts.of(tiling, means, combinations.chosen, basis.kept)

    def _basis(
        self, session: Session, combinations: Combinations, pairing: Pairing
    ) -> LandmarkBasis:
        """Draw, fetch and prune the landmarks; fit the kernels on rows fetched with them."""
        s = self._drawn(session)
        session.step("fetch landmarks")
        drawn = uniform_rows(
            session.seed,
            session.n,
            s,
            len(session.sources),
            pairing=pairing,
            replace=self.replace,
        )
        sampled = bandwidth_rows(session)
        rows = session.take([np.append(z, x) for z, x in zip(drawn, sampled, strict=True)])
        fitted = fit_combinations(session, combinations, [x[s:] for x in rows])
        landmarks = Landmarks(tuple(x[:s] for x in rows), tuple(drawn))
        if self.selection != "uniform":
            session.step("select landmarks")
            kernels = tuple(fitted.kernels[k] for k in combinations.typical())
            landmarks = select_landmarks(
                self.selection, landmarks, kernels, self._count(session), pairing, session.seed
            )
        session.step("prune landmarks")
        tolerance = tolerance_for(self.tolerance, session.dtype)
        hold = self._holds(session, combinations)
        return LandmarkBasis.of(fitted, landmarks, tolerance, hold=hold)

    def _estimate(
        self,
        session: Session,
        basis: LandmarkBasis,
        c: int,
        kappa: Vector,
        u: Vector,
        pairing: Pairing,
    ) -> Estimate:
        """[1] Lemma 4.2 as u' K_J^-1 u + |(I - P_J) (x)_m P_m mu_m|^2, in which nothing cancels.

        P_J and P_m project on the span of the landmarks' features; P_m mu_m agrees with mu_m at
        the landmarks.
        """
        session.step("estimate")
        kernels, joint = basis.combinations.kernels_of(c), basis.factor(c)
        means = kappa[list(basis.combinations.chosen[c])][:, basis.kept[c]]
        marginal = 1.0
        for kernel, z, values in zip(kernels, basis.points(c), means, strict=True):
            factor = pivoted_cholesky(kernel(z), basis.tolerance)
            marginal *= float(factor.squared_norm(values[factor.kept]))
        outside = marginal - float(joint.squared_norm(means.prod(axis=0)[joint.kept]))
        value = float(joint.squared_norm(u[joint.kept])) + max(0.0, outside)
        summary = LandmarkSummary(
            drawn=self._count(session),
            kept=joint.rank,
            pairing=pairing,
            replace=self.replace,
            tolerance=basis.tolerance,
            selection=self.selection,
            pool=None if self.selection == "uniform" else self._drawn(session),
        )
        return Estimate(value, kernels, summary)
