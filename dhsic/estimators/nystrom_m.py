"""Nystrom M-HSIC, and the test built on it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from dhsic._random import generator
from dhsic._validation import check_choice, check_flag, check_integer
from dhsic.engine.plan import DriverStep, PassPlan
from dhsic.engine.session import Session
from dhsic.errors import InvalidArgumentError
from dhsic.estimators.base import (
    PAIRED,
    Estimate,
    Estimator,
    Guess,
    Null,
    Outcome,
    Prepared,
    fetch_landmarks,
    fetching_step,
    guard_kernels,
    rows_there,
)
from dhsic.kernels import Combinations, Kernel
from dhsic.landmarks import (
    Pairing,
    Pool,
    Selection,
    check_landmark_options,
    landmark_count,
    prune,
    select,
    select_bytes,
    tolerance_for,
    uniform_rows,
    warn_of_rounding,
)
from dhsic.linalg import PivotedCholesky, hadamard, pivoted_cholesky, solve_lower, squared_norms
from dhsic.nulls import Chain, Gamma, Needs, Permutation, Shifts, Spectral
from dhsic.results import LandmarkSummary
from dhsic.statistics.orbit import Pair, Replicated
from dhsic.statistics.pointwise import LimitLaws, PointMoments, Pointwise, Tuples, means_of
from dhsic.statistics.replicate import measure, replicate_steps

_CROWDED = 10.0  # directions a row, beyond which a null is no limit

Indices = NDArray[np.intp]
Vector = NDArray[np.float64]


@dataclass(frozen=True)
class LandmarkBasis:
    """Landmarks that span those drawn in the RKHS of every combination of kernels.

    Parameters
    ----------
    combinations : Combinations
        As fitted.
    landmarks : tuple of ndarray, shapes (p, d_m)
        Those of every variable that any combination keeps.
    kept : tuple of ndarray of int
        Those that each combination keeps, ascending.
    tolerance : float
        See `dhsic.linalg.pivoted_cholesky`.
    held : tuple of PivotedCholesky
        The factor of every combination, where all of them fit; else of none, and they are computed
        again when they are needed.
    drawn : int
        Landmarks before pruning.
    samples : tuple of ndarray, shapes (s, d_m)
        Other rows of every variable.
    pairing : {"independent", "joint"}
        As they were drawn.
    """

    combinations: Combinations
    landmarks: tuple[Vector, ...]
    kept: tuple[Indices, ...]
    tolerance: float
    held: tuple[PivotedCholesky, ...]
    drawn: int
    samples: tuple[Vector, ...]
    pairing: Pairing

    def statistic(self, pairs: Iterable[Pair], dtype: np.dtype[Any]) -> Pointwise:
        """T = n u' K_J^-1 u of every combination."""
        kernels, variables = self.combinations.kernels, self.combinations.variables
        points, listed = self.combinations.spread(self.landmarks), list(pairs)
        # Statistics of one combination share its landmarks, as three factorisations do.
        numbers = [*range(len(self.kept))] * (len(listed) // len(self.kept))
        kept = [self.kept[c] for c in numbers]
        tuples = Tuples.at(kernels, variables, points, listed, kept, self.samples, dtype)
        return Pointwise(tuples, tuple(partial(self.norm, c) for c in numbers))

    def points(self, c: int) -> tuple[Vector, ...]:
        """The landmarks (r, d_m) of a combination."""
        points = self.combinations.spread(_kept(self.landmarks, self.kept[c]))
        return tuple(self.combinations.of(points, c))

    def factor(self, c: int) -> PivotedCholesky:
        """Factor of K_J of a combination, on landmarks numbered among those that it keeps."""
        # Held where the memory allows it; else it is made again whenever it is asked for.
        if self.held:
            return self.held[c]
        # K_J is the Hadamard product of the Gram matrices: Kalinke and Szabo (2023), (17).
        pairs = zip(self.combinations.kernels_of(c), self.points(c), strict=True)
        return pivoted_cholesky(hadamard(kernel(z) for kernel, z in pairs), self.tolerance)

    def whiten(self, c: int, values: Vector) -> Vector:
        """L^-1 of functions given by their values at the landmarks of a combination."""
        factor = self.factor(c)
        return solve_lower(factor.factor, values[factor.kept])

    def norm(self, c: int, values: Vector) -> Vector:
        """U' K_J^-1 u = |L^-1 u|^2 of such functions."""
        return squared_norms(self.whiten(c, values))

    def squared_hsic(self, c: int, moments: PointMoments) -> float:
        """The estimate of a combination: Kalinke and Szabo (2023), lemma 4.2."""
        pairs = zip(self.combinations.kernels_of(c), self.points(c), strict=True)
        grams = (kernel(z) for kernel, z in pairs)
        return squared_hsic(grams, self.factor(c), moments.means, moments.u, self.tolerance)

    def own(self, found: Replicated) -> Vector:
        """HSIC of every feature with itself, and of the target, shape (G, 2)."""
        target = np.zeros((2, len(self.landmarks[0])))
        own = []
        for c, (_, means, squares) in enumerate(found.told):
            kernel, z = self.combinations.kernels_of(c)[0], self.points(c)[0]
            own.append(own_hsic(kernel, z, means[0], squares[0], self.tolerance))
            # The target has landmarks that any feature keeps.
            target[:, self.kept[c]] = means[1], squares[1]
        z, kernel = self.landmarks[1], self.combinations.kernels[-1]
        of_target = own_hsic(kernel, z, target[0], target[1], self.tolerance)
        return np.column_stack([own, np.full(len(own), of_target)])


def _kept(landmarks: Iterable[Vector], kept: Indices) -> tuple[Vector, ...]:
    """Some of the landmarks of every variable."""
    return tuple(z[kept] for z in landmarks)


def squared_hsic(
    grams: Iterable[Vector], joint: PivotedCholesky, means: Vector, u: Vector, tolerance: float
) -> float:
    """Kalinke and Szabo (2023), Lemma 4.2, as u' K_J^-1 u + |(I - P_J) (x)_m P_m mu_m|^2.

    In this form nothing cancels. P_J and P_m project on the span of the landmarks' features;
    P_m mu_m agrees with mu_m at the landmarks.

    Parameters
    ----------
    grams : iterable of ndarray, shapes (r, r)
        K_m at the landmarks. Overwritten, one after another.
    joint : PivotedCholesky
        Factor of their product K_J.
    means : ndarray, shape (M, r)
        kappa_m.
    u : ndarray, shape (r,)
        kappa_J - prod_m kappa_m.
    tolerance : float
        See `dhsic.linalg.pivoted_cholesky`.

    Returns
    -------
    float
    """

    def norm(gram: Vector, values: Vector) -> float:
        factor = pivoted_cholesky(gram, tolerance)
        return float(factor.squared_norm(values[factor.kept]))

    # |(x)_m P_m mu_m|^2 = prod_m alpha_m' K_m alpha_m, the second term of the lemma.
    marginal = math.prod(map(norm, grams, means))  # which holds no matrix while it makes the next
    # Less its part in the span of the joint landmarks: the constant that no permutation changes.
    outside = marginal - float(joint.squared_norm(means.prod(axis=0)[joint.kept]))
    # A squared norm is not negative; differences below 0 are the rounding of two equal norms.
    return float(joint.squared_norm(u[joint.kept])) + max(0.0, outside)


def own_hsic(kernel: Kernel, z: Vector, means: Vector, squares: Vector, tolerance: float) -> float:
    """Squared HSIC of a variable with itself, by the means of k and of k^2 at landmarks.

    The pair (x, x) has the landmark tuples (z_j, z_j), so that its product kernel is k^2 and its
    means are those of k^2.
    """
    gram = kernel(z)
    joint = pivoted_cholesky(gram**2, tolerance)
    both = np.array([means, means])
    # u = E k^2 - (E k)^2, that of the pair (x, x).
    return squared_hsic((gram.copy(), gram), joint, both, squares - means**2, tolerance)


@dataclass(frozen=True)
class NystromMHSIC(Estimator):
    """Nystrom M-HSIC of Kalinke and Szabo (2023), for two or more variables.

    The cost is linear in the number of rows. Let z_j = (z_1j, ..., z_Mj), j = 1..p, be landmarks,
    kappa_m(z_j) the mean over all rows of k_m(z_mj, x_m), kappa_J(z_j) that of the product of the
    kernels, and K_J the Hadamard product of the landmarks' Gram matrices. With u = kappa_J - prod_m
    kappa_m, the test statistic is T = n u' K_J^-1 u. It differs from n times the estimate of Lemma
    4.2 of [1]_ by a term that depends on the marginals alone.

    Parameters
    ----------
    n_landmarks : int or str, optional
        Landmarks to draw, the n' of the paper: a number, or a multiple of sqrt(n) such as "8sqrt".
    pairing : {"independent", "joint"}, optional
        Draw landmarks independently for each variable, the default for tests; or draw rows of the
        data as in the paper, the default for estimates, which need landmarks where the joint
        distribution has mass. With independent landmarks a permutation test with fixed landmarks is
        exact. Joint landmarks depend on the pairing of rows, and with few rows the test rejects
        true nulls too often. The estimate in the result of a test is that at the landmarks of the
        test.
    replace : bool, optional
        Draw landmarks with replacement, as the paper does.
    tolerance : float, optional
        A landmark is dropped if its squared distance to the span of the others, relative to the
        largest, is below the tolerance. The default follows the precision: 1e-8 for float64 tiles,
        1e-4 for float32.
    selection : str, optional
        "uniform", or a method that selects landmarks from a pool of uniformly drawn rows, for each
        variable separately unless pairing is joint: "rpcholesky" or "leverage", see
        `dhsic.landmarks.select`. The selection depends only on the pool, so permutation tests
        remain exact. If a variable has several kernels, the kernel nearest to the median heuristic
        is used.
    pool : int, optional
        Rows of the pool, as a multiple of the landmarks.

    Raises
    ------
    InvalidArgumentError
        A number of landmarks, tolerance, flag, selection or pairing is not valid; or `replace` is
        combined with a selection.

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
    most_variables: ClassVar[int | None] = None
    ranks: ClassVar[bool] = True
    tries_grids: ClassVar[bool] = True
    nulls: ClassVar[tuple[type[Any], ...]] = Shifts, Permutation, Chain, Gamma, Spectral
    cost: ClassVar[str] = "n"
    has_intervals = True
    takes_missing: ClassVar[bool] = True
    remedy = "take fewer landmarks, kernels ('gaussian' is one), features, resamples or threads"

    def __post_init__(self) -> None:
        check_landmark_options(self.n_landmarks, self.tolerance)
        if self.pairing is not None:
            check_choice("pairing", self.pairing, get_args(Pairing))
        check_choice("selection", self.selection, get_args(Selection))
        check_integer("pool", self.pool, minimum=1)
        check_flag("replace", self.replace)
        if self.replace and self.selection != "uniform":
            msg = (
                "replace must be False where landmarks are selected from a pool, got True beside "
                f"selection={self.selection!r}: drop one of them"
            )
            raise InvalidArgumentError(msg)

    def choose_null(self, session: Session, n_resamples: int) -> tuple[Null, str]:
        """Shifts of rows; permutations of three variables or more."""
        null, reason = super().choose_null(session, n_resamples)
        return null, "not exact with joint landmarks" if self.pairing == "joint" else reason

    def guess(self, session: Session, combinations: Combinations, null: Null | None) -> Guess:
        """With the landmarks as drawn: pruning can only make them fewer."""
        self._check_shared(combinations)
        p, count = self.most_landmarks(session), len(combinations)
        statistic = self.guessed(session, combinations, map(Pair.of, combinations.chosen))
        # One solve a combination with a law of its own; replicates share the first.
        closing: list[DriverStep | PassPlan] = [DriverStep("estimate", 3 * 8 * p * p)]
        if isinstance(null, Gamma | Spectral):
            laws = LimitLaws(statistic.tuples, statistic.norms, null)
            law_steps = replicate_steps(session, laws, laws.orbit(session, None))
            closing = [*law_steps, *closing * count]
        steps = self.drawing_steps(session, combinations, 8 * p * p * self._held(session, count))
        return Guess(steps, statistic, tuple(closing), p)

    def prepare(self, session: Session, combinations: Combinations, null: Null | None) -> Prepared:
        """The landmarks, and the statistic of every combination at them."""
        self._check_shared(combinations)
        tests = null is not None
        basis = session.fixed(partial(self.draw, session, combinations, tests=tests))
        return Prepared(
            basis.combinations,
            basis.statistic(map(Pair.of, combinations.chosen), session.dtype),
            lambda found, c: self._estimate(session, basis, found.told[c], c),
            own=basis.own if combinations.features else None,
        )

    def fit(
        self, session: Session, kernels: Sequence[Kernel], of: Literal["statistic", "estimate"]
    ) -> tuple[LandmarkBasis, PointMoments, float, Estimate]:
        """Landmarks, what the sums say there, T as a test computes it or the estimate, and that."""
        single = Combinations.single(kernels)
        basis = self.draw(session, single, tests=of == "statistic")
        found = measure(session, basis.statistic([Pair.of(single.chosen[0])], session.dtype))
        (moments,) = found.told
        estimate = self._estimate(session, basis, moments, 0)
        value = float(found.statistics[0]) if of == "statistic" else estimate.value
        return basis, moments, value, estimate

    def test_each(
        self, session: Session, combinations: Combinations, null: Gamma | Spectral
    ) -> list[Outcome]:
        """The outcome of every combination by itself, in two passes where they fit in memory."""
        basis = self.draw(session, combinations, tests=True)
        # A covariance of n rows has rank n at most, on which a law of its eigenvalues rests.
        needs = Needs(*PAIRED, _CROWDED * rows_there(session))
        note = guard_kernels(session, basis.combinations, basis.samples, null.name, needs)
        statistic = basis.statistic(map(Pair.of, combinations.chosen), session.dtype)
        moments = measure(session, statistic).told
        tuples = statistic.tuples.about(means_of(statistic.tuples, moments))
        whiten = tuple(partial(basis.whiten, c) for c in range(len(combinations)))
        laws = measure(session, LimitLaws(tuples, whiten, null)).told
        return [
            Outcome(statistic, law, self._estimate(session, basis, moments[c], c), note)
            for c, (statistic, law) in enumerate(laws)
        ]

    def most_landmarks(self, session: Session) -> int:
        """Landmarks before pruning, at most."""
        return landmark_count(self.n_landmarks, session.n, replace=self.replace)

    def guessed(
        self, session: Session, combinations: Combinations, pairs: Iterable[Pair]
    ) -> Pointwise:
        """A statistic of the largest shapes, which take no memory."""
        kernels, p = combinations.guessed(session.dims), self.most_landmarks(session)
        tuples = Tuples.unseen(
            kernels.kernels, kernels.variables, session.dims, p, pairs, session.dtype
        )
        return Pointwise(tuples, (squared_norms,) * len(tuples.pairs))

    def drawing_steps(
        self, session: Session, combinations: Combinations, held: int
    ) -> list[DriverStep | PassPlan]:
        """Steps of `draw`; `held` are the bytes of the factors that stay."""
        s, p = self._drawn(session), self.most_landmarks(session)
        steps: list[DriverStep | PassPlan] = [fetching_step(session, s)]
        if self.selection != "uniform":
            kernels = combinations.guessed(session.dims).kernels
            pairs = zip(combinations.typical(), session.dims, strict=True)
            width = sum(kernels[k].width(d) for k, d in pairs)
            steps.append(DriverStep("select landmarks", select_bytes(self.selection, s, p, width)))
        gram = 8 * p * p
        return [*steps, DriverStep("prune landmarks", 3 * gram + max(0, held - gram), held)]

    def draw(self, session: Session, combinations: Combinations, *, tests: bool) -> LandmarkBasis:
        """Draw, fetch and prune the landmarks; fit the kernels on rows fetched with them."""
        # Tests need landmarks that know nothing of the pairing. With rows of the data and four
        # variables 7.6 and 8.7 % of true nulls were rejected at level 5 %. Estimates take tuples
        # that are rows of the data: Kalinke and Szabo (2023), (14).
        pairing = self.pairing or ("independent" if tests else "joint")
        s, m = self._drawn(session), len(session.sources)
        drawn = uniform_rows(session.seed, session.n, s, m, pairing=pairing, replace=self.replace)
        fitted, points, samples = fetch_landmarks(session, combinations, drawn)
        if self.selection != "uniform":
            session.step("select landmarks")
            # Landmarks are shared, so that the kernels nearest to the median heuristic choose them
            # for all.
            typical = [fitted.kernels[k] for k in combinations.typical()]
            points = self._select(session, points, typical, pairing)
        session.step("prune landmarks")
        tolerance, reference = tolerance_for(self.tolerance, session.dtype), fitted.reference()
        each, held = list[Indices](), list[PivotedCholesky]()
        for c in range(len(fitted)):
            # K_J depends on the kernels of a combination, and so does which landmarks span the
            # others.
            kernels, leads = fitted.kernels_of(c), c == reference
            rows = fitted.of(fitted.spread(points), c)
            factor = prune(rows, kernels, tolerance, leads=leads)
            # Ascending, so that the landmarks of a strip are a slice.
            each.append(np.sort(factor.kept))
            if self._held(session, len(fitted)):
                # The factor counts landmarks among those that are kept.
                held.append(replace(factor, kept=np.searchsorted(each[-1], factor.kept)))
        # Combinations share the tiles of the landmarks that any of them keeps.
        union = np.unique(np.concatenate(each))
        basis = LandmarkBasis(
            fitted,
            _kept(points, union),
            tuple(np.searchsorted(union, kept) for kept in each),
            factor.tolerance,
            tuple(held),
            len(points[0]),
            tuple(samples),
            pairing,
        )
        spread = fitted.spread(basis.landmarks)
        columns = [k.columns(z, session.dtype) for k, z in zip(fitted.kernels, spread, strict=True)]
        warn_of_rounding(fitted.spread(session.names), fitted.kernels, columns, session.dtype)
        return basis

    def summary(self, session: Session, basis: LandmarkBasis, kept: int) -> LandmarkSummary:
        """The landmarks in a result."""
        return LandmarkSummary(
            drawn=basis.drawn,
            kept=kept,
            pairing=basis.pairing,
            replace=self.replace,
            tolerance=basis.tolerance,
            selection=self.selection,
            pool=None if self.selection == "uniform" else self._drawn(session),
        )

    def _select(
        self, session: Session, pool: Sequence[Vector], kernels: Sequence[Kernel], pairing: Pairing
    ) -> list[Vector]:
        """Choose landmark tuples: of every variable by itself, or of the rows that they share."""
        p, whole = self.most_landmarks(session), range(len(kernels))
        points = list(pool)
        # Every variable by itself: landmarks chosen together would know of the pairing.
        for variables in [whole] if pairing == "joint" else [[m] for m in whole]:
            rows = Pool(tuple(kernels[m] for m in variables), tuple(pool[m] for m in variables))
            rng = generator(session.seed, "selection", variables[0])
            chosen = select(self.selection, rows, p, rng)
            for m in variables:
                points[m] = points[m][chosen]
        return points

    def _drawn(self, session: Session) -> int:
        """Rows from which the landmarks are taken."""
        p = self.most_landmarks(session)
        return p if self.selection == "uniform" else min(session.n, self.pool * p)

    def _held(self, session: Session, count: int) -> int:
        """How many factors of so many Gram matrices are held: all or none."""
        # An eighth of the memory, which passes leave free for them.
        held = 8 * self.most_landmarks(session) ** 2 * count
        return count if count == 1 or held <= session.runtime.memory // 8 else 0

    def _check_shared(self, combinations: Combinations) -> None:
        """Features share the rows that landmarks are; selected ones would be those of one."""
        if combinations.features and self.selection != "uniform":
            msg = (
                "features share their landmarks, which must be drawn uniformly; got "
                f"selection={self.selection!r}: take selection='uniform'"
            )
            raise InvalidArgumentError(msg)

    def _estimate(
        self, session: Session, basis: LandmarkBasis, moments: PointMoments, c: int
    ) -> Estimate:
        """That of a combination, at the landmarks: Kalinke and Szabo (2023), Lemma 4.2."""
        session.step("estimate")
        return Estimate(
            basis.squared_hsic(c, moments),
            basis.combinations.kernels_of(c),
            self.summary(session, basis, basis.factor(c).rank),
        )
