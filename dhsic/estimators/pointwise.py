"""Compute statistics from means of products of functions of rows, in time linear in the rows.

`Functions` is the base class that users can write estimators from in a few lines. Nystrom M-HSIC
takes values of kernels at landmark tuples. NFSIC takes values of analytic kernels at a few
locations, which maximise the statistic on training rows that the test leaves out.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Literal, NamedTuple, Self, get_args

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dhsic._random import generator
from dhsic._validation import check_choice, check_flag, check_integer, check_level
from dhsic.engine.plan import DriverStep, PassPlan
from dhsic.engine.session import Session
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.estimators.base import (
    BANDWIDTH_ROWS,
    PAIRED,
    Estimate,
    Estimator,
    Guess,
    Null,
    Outcome,
    Prepared,
    fetch_landmarks,
    fetching_step,
    fit_combinations_on_sample,
    fit_on_sample,
    fitting_step,
    guard_kernels,
    rows_there,
)
from dhsic.io.variables import without_rows
from dhsic.kernels import (
    Combinations,
    Gaussian,
    InverseMultiquadric,
    Kernel,
    Laplacian,
    Matern,
    OnColumns,
    RationalQuadratic,
)
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
from dhsic.linalg import (
    PivotedCholesky,
    pivoted_cholesky,
    rounding_unit,
    solve_lower,
    squared_norms,
)
from dhsic.nulls import (
    Chain,
    ChiSquare,
    ChiSquareMixture,
    Gamma,
    Needs,
    Permutation,
    Resampling,
    Shifts,
    Spectral,
    expanded,
    guard,
    spread_at_locations,
)
from dhsic.results import FeatureSummary, LandmarkSummary
from dhsic.statistics.orbit import Pair, Replicated, measure, replicate_steps
from dhsic.statistics.outer import MomentsPass
from dhsic.statistics.pointwise import (
    LimitLaws,
    PointMoments,
    Pointwise,
    Tuples,
    means_of,
)

Matrix = NDArray[Any]
Vector = NDArray[np.float64]
Indices = NDArray[np.intp]
RowFunction = Callable[[Matrix], Matrix]


class Functions(Estimator):
    """Base class of estimators that compare r functions of each variable.

    With f_mj function j of variable m, u_j = mean prod_m f_mj - prod_m mean f_mj has expectation 0
    under independence; the estimate is a squared norm of u, and the test statistic n times the
    estimate. A derived class is a frozen dataclass with a name and the method `function`. The base
    class provides plans, shifts and permutations, strata and groups of rows, several kernels,
    chains of tests, rankings, bounds on rounding, threads and clusters.

    Examples
    --------
    Of one column how often both values are at most some others.

    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> import dhsic
    >>> from dhsic.estimators import Functions
    >>> @dhsic.register
    ... @dataclass(frozen=True)
    ... class Hoeffding(Functions):
    ...     name = "hoeffding"
    ...     def function(self, kernel, sample, rng):
    ...         points = rng.choice(sample[:, 0], 100)
    ...         return lambda x: x[:, :1] <= points
    >>> x, noise = np.random.default_rng(0).standard_normal((2, 300))
    >>> dhsic.independence_test(x, x + noise, estimator="hoeffding", rng=0).pvalue < 0.01
    True
    >>> dhsic.unregister("hoeffding")
    """

    most_variables: ClassVar[int | None] = None
    ranks: ClassVar[bool] = True
    nulls: ClassVar[tuple[type[Any], ...]] = Shifts, Permutation, Chain
    cost: ClassVar[str] = "n"
    has_intervals = True
    quantity: ClassVar[str] = "dependence"
    """What the estimate measures, in words."""

    @abstractmethod
    def function(self, kernel: Kernel, sample: Vector, rng: np.random.Generator) -> RowFunction:
        """Return r functions of a variable, from a sample of its rows.

        Parameters
        ----------
        kernel : Kernel
            The fitted kernel of the variable, which the method may ignore.
        sample : ndarray, shape (s, d)
            At most 1,000 rows of the variable, drawn independently of the samples of other
            variables.
        rng : Generator
            Random stream of this variable.

        Returns
        -------
        callable
            Maps rows (b, d) to values (b, r), with the same r for all variables.
        """

    def norm(self, u: Vector) -> Vector:
        """The squares (N,) of the norms of N functions (r, N); by default the mean over r."""
        squares: Vector = np.square(u).mean(axis=0)
        return squares

    def guess(self, session: Session, combinations: Combinations, null: Null | None) -> Guess:
        """With functions of rows that are none of the data."""
        rng, rows = np.random.default_rng(0), min(session.n, BANDWIDTH_ROWS)
        samples = [rng.standard_normal((rows, d)) for d in session.dims]
        guessed = combinations.guessed(session.dims)
        return Guess([fitting_step(session)], self._statistic(session, guessed, samples))

    def prepare(self, session: Session, combinations: Combinations, null: Null | None) -> Prepared:
        """Make the functions of each variable by itself."""
        fitted, samples = fit_combinations_on_sample(session, combinations)

        def estimate(found: Replicated, c: int) -> Estimate:
            value = float(found.statistics[c]) / session.n
            return Estimate(value, fitted.kernels_of(c), quantity=self.quantity)

        return Prepared(fitted, self._statistic(session, fitted, samples), estimate, own=self._own)

    def _own(self, found: Replicated) -> Vector:
        """The estimate of every variable with itself, shape (G, M)."""
        moments = found.told
        return np.array([self.norm((m.squares - m.means**2).T) for m in moments])

    def _statistic(
        self, session: Session, combinations: Combinations, samples: Sequence[Vector]
    ) -> Pointwise:
        made = [
            _Function(self, kernel, samples[m], (session.seed, m))
            for kernel, m in zip(combinations.kernels, combinations.variables, strict=True)
        ]
        sizes = {one.size for one in made}
        if len(sizes) > 1:
            msg = (
                f"the functions of {self.name!r} must have as many values for all variables, got "
                f"{' and '.join(map(str, sorted(sizes)))}: make {min(sizes)} of each, for instance"
            )
            raise InvalidArgumentError(msg)
        numbers, pairs = np.arange(sizes.pop()), list(map(Pair.of, combinations.chosen))
        points: list[Matrix] = [numbers[:, None]] * len(made)
        kept = [numbers] * len(pairs)
        of = combinations.variables
        tuples = Tuples.at(made, of, points, pairs, kept, samples, session.dtype)
        return Pointwise(tuples, (self.norm,) * len(pairs))


@dataclass(frozen=True, eq=False)
class _Function:
    """Functions of the columns that a kernel sees, as a kernel at the numbers of their values.

    They are made of what a checkpoint can compare, since a lambda says nothing of what it does.
    """

    estimator: Functions
    kernel: Kernel
    sample: Vector
    seeds: tuple[int, int]
    work_tiles: ClassVar[int] = 0

    def seen(self, x: Matrix) -> Vector:
        """The columns that the kernel sees, in its units."""
        if not isinstance(self.kernel, OnColumns):
            return x.astype(np.float64)
        seen: Vector = x[:, self.kernel.at] / np.array(self.kernel.scales or 1.0)
        return seen

    @cached_property
    def function(self) -> RowFunction:
        seed, m = self.seeds
        kernel = self.kernel.kernel if isinstance(self.kernel, OnColumns) else self.kernel
        rng = generator(seed, "landmarks", m)
        return self.estimator.function(kernel, self.seen(self.sample), rng)

    @cached_property
    def size(self) -> int:
        rows = self.seen(self.sample[:2])
        shape = np.shape(self.function(rows))
        if len(shape) != 2 or shape[0] != 2:
            msg = (
                f"a function of {self.estimator.name!r} must take rows (b, d) to values (b, r), "
                f"got {shape} of {rows.shape}: return an array of one row for each"
            )
            raise InvalidArgumentError(msg)
        return int(shape[1])

    def as_power(self) -> tuple[_Function, float]:
        return self, 1.0

    def rows(self, x: Matrix, dtype: DTypeLike) -> Matrix:
        return x

    def columns(self, x: Matrix, dtype: DTypeLike) -> Matrix:
        return np.asarray(self.function(self.seen(x)), dtype)

    def width(self, d: int) -> int:
        return self.size + d

    def tile(self, rows: Matrix, columns: Matrix, out: Matrix, work: Matrix) -> None:
        out[:] = columns.T[rows[:, 0]]


_CROWDED = 10.0  # directions a row, beyond which a null is no limit


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
        kernels = self.combinations.kernels_of(c)
        return prune(self.points(c), kernels, self.tolerance, leads=False)

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
            own.append(_own_hsic(kernel, z, means[0], squares[0], self.tolerance))
            # The target has landmarks that any feature keeps.
            target[:, self.kept[c]] = means[1], squares[1]
        z, kernel = self.landmarks[1], self.combinations.kernels[-1]
        of_target = _own_hsic(kernel, z, target[0], target[1], self.tolerance)
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


def _own_hsic(kernel: Kernel, z: Vector, means: Vector, squares: Vector, tolerance: float) -> float:
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


Placement = Literal["optimised", "random"]

_PASS = "test locations"
_LOCATIONS = 10
_ROWS_A_LOCATION = 50
_FEWEST_ROWS = 2
_GUARDED = 10.0  # rows over the mean squared skewness of the products at the locations, at least


@dataclass(frozen=True)
class NFSIC(Estimator):
    """The normalised finite set independence criterion, for two or more variables.

    With kernels k_m at J locations v_j = (v_1j, ..., v_Mj) and their means kappa_mj, let
    u_j = mean(prod_m k_m(v_mj, .)) - prod_m kappa_mj, which is near 0 under independence; for two
    variables it is the covariance of both kernels at the location. The test statistic is
    T = n u'(S + r t I)^-1 u, with S the covariance of sqrt(n) u under independence, t the mean of
    its diagonal, and its limit chi-square with J degrees of freedom. The estimate is T / n.

    S follows from the covariances C_m and means of the kernels of each variable; for two variables
    it is the entrywise product of C_1 and C_2. [1]_ takes the covariance of the terms of u instead,
    which has the same limit under independence. But if kernels are so narrow that no row is near a
    location in both variables, that covariance is far too small, and the optimisation finds such
    locations. S also does not change under permutation.

    Parameters
    ----------
    n_locations : int or str, optional
        J. "auto" takes 10 locations, or fewer, so that there are 50 training rows for each.
    placement : {"optimised", "random"}, optional
        "optimised" maximises T over locations and bandwidths on training rows, which the test
        leaves out, so that the test remains exact. "random" draws rows of the data as locations,
        independently for each variable, keeps the bandwidths of the kernels, and tests all rows.
        Optimisation changes bandwidths only of radial kernels, and locations only of differentiable
        kernels.
    training_rows : int, optional
        The largest number of training rows; at most half of the rows.
    regularisation : float, optional
        r.

    Raises
    ------
    InvalidArgumentError
        A number of locations or rows is too small, the placement is unknown, or the regularisation
        is not between 0 and 1.

    References
    ----------
    .. [1] W. Jitkrittum, Z. Szabo, A. Gretton. An adaptive test of independence with analytic
       kernel embeddings. ICML 2017, equation 6 and theorem 5.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x, noise = np.random.default_rng(0).standard_normal((2, 1000))
    >>> y = np.cos(3 * x) + noise
    >>> dhsic.independence_test(x, y, estimator=NFSIC(n_locations=5), rng=0).pvalue < 0.01
    True
    """

    n_locations: int | str = "auto"
    placement: Placement = "optimised"
    training_rows: int = 10_000
    regularisation: float = 1e-3

    name: ClassVar[str] = "nfsic"
    most_variables: ClassVar[int | None] = None
    takes_one_kernel: ClassVar[bool] = True
    tests_all_rows: ClassVar[bool] = False
    nulls: ClassVar[tuple[type[Any], ...]] = Shifts, Permutation, ChiSquare
    cost: ClassVar[str] = "n"
    remedy: ClassVar[str] = "take fewer locations, training rows, resamples or threads"

    def __post_init__(self) -> None:
        if not isinstance(self.n_locations, str) or self.n_locations != "auto":
            check_integer("n_locations", self.n_locations, minimum=1)
        check_choice("placement", self.placement, get_args(Placement))
        check_integer("training_rows", self.training_rows, minimum=2)
        check_level(self.regularisation, "regularisation", "leave it out for 1e-3")

    def guess(self, session: Session, combinations: Combinations, null: Null | None) -> Guess:
        """The estimate is made before the replicates, by rows that are not those to train on."""
        count, trained = self._count(session), self._trained(session.n)
        if session.n - trained < _FEWEST_ROWS:
            msg = (
                f"{self.name} needs at least {_FEWEST_ROWS} rows besides those to train on, got "
                f"{session.n - trained}: add rows, or take NFSIC(placement='random')"
            )
            raise DataError(msg)
        steps: list[DriverStep | PassPlan] = [fitting_step(session)]
        if trained:
            rows = 8 * trained * sum(session.dims)
            tiles = 8 * trained * count * len(session.sources)
            steps.append(DriverStep("optimise locations", 6 * rows + 12 * tiles, rows))
        rest = _session_without(session, self._training(session))
        kernels, dims = combinations.guessed(session.dims).kernels, session.dims
        m = range(len(kernels))
        tuples = Tuples.unseen(kernels, m, dims, count, _pairs(len(kernels)), session.dtype)
        steps.append(rest.plan(MomentsPass(tuples, rest.n, name=_PASS)))
        steps.append(DriverStep("solve", 64 * count * (tuples.n_features + count)))
        tested = Pointwise(tuples.part([0]), (squared_norms,))
        replicated = tested if isinstance(null, Resampling) else None
        return Guess(steps, replicated, session=rest)

    def prepare(self, session: Session, combinations: Combinations, null: Null | None) -> Prepared:
        """Measure the rows that are tested."""
        rest, tuples, norm, estimate, _ = self._measured(session, combinations.kernels)
        return Prepared(
            Combinations.single(estimate.kernels),
            Pointwise(tuples, (norm,)),
            lambda replicated, c: estimate,
            session=rest,
        )

    def estimate(self, session: Session, kernels: Sequence[Kernel]) -> Estimate:
        """NFSIC over n, in one pass."""
        *_, estimate, _ = self._measured(session, kernels)
        return estimate

    def test_each(
        self, session: Session, combinations: Combinations, null: ChiSquare
    ) -> list[Outcome]:
        """T and its limit: chi-square without a ridge."""
        rest, _, norm, estimate, sampled = self._measured(session, combinations.kernels)
        n, law = rest.n, ChiSquareMixture.of(norm.weights)
        spread = spread_at_locations(sampled, n)
        detail = guard(
            null.name, [spread], n, Needs(_GUARDED, remedy="take null='auto', which is exact")
        )
        return [Outcome(n * estimate.value, law, estimate, detail)]

    def _measured(
        self, session: Session, kernels: Sequence[Kernel]
    ) -> tuple[Session, Tuples, Norm, Estimate, list[Vector]]:
        """Fit the kernels, place the locations and measure the other rows there.

        Returns the run over these rows, the statistic about the means of the kernels, its norm, the
        estimate, and kernels of some rows at the locations, shapes (s, J).
        """
        fitted, samples = fit_on_sample(session, kernels)
        # Locations are chosen by rows that are not tested.
        training, m = self._training(session), len(kernels)
        rest, placed = _session_without(session, training), self._place(session, fitted, training)
        columns = [k.columns(z, session.dtype) for k, z in zip(*placed, strict=True)]
        warn_of_rounding(session.names, placed.kernels, columns, session.dtype)
        sampled = [k(x, z) for k, z, x in zip(*placed, samples, strict=True)]
        kept = [np.arange(self._count(session))] * (m + 1)
        tuples = Tuples.at(
            placed.kernels, range(m), placed.points, _pairs(m), kept, samples, session.dtype
        )
        terms = MomentsPass(tuples, rest.n, name=_PASS)
        (joint, _), *each = terms.of(rest.reduce(terms))
        session.step("solve")
        about, covariances = zip(*each, strict=True)
        means = [pilot + mean for pilot, mean in zip(tuples.pilots, about, strict=True)]
        # The mean of the terms about the pilots, less what they have by the means that are others.
        u = joint - expanded(about, tuples.pilots)[0]
        norm = Norm.of(covariances, means, self.regularisation)
        summary = FeatureSummary(f"{self.placement} locations", (len(kept[0]),))
        estimate = Estimate(float(norm(u)), placed.kernels, features=summary, quantity="NFSIC / n")
        return rest, tuples.part([0]).about(means), norm, estimate, sampled

    def _place(
        self, session: Session, fitted: tuple[Kernel, ...], training: NDArray[np.intp]
    ) -> Placed:
        m, count = len(fitted), self._count(session)
        if not len(training):
            rows = uniform_rows(
                session.seed, session.n, count, m, pairing="independent", replace=False
            )
            return Placed(fitted, tuple(session.take(rows)))
        session.step("optimise locations")
        taken = tuple(session.take([training] * m))
        rng = generator(session.seed, "landmarks")
        return place(Training(fitted, taken, self.regularisation), count, rng)

    def _training(self, session: Session) -> NDArray[np.intp]:
        """Rows to train on, ascending."""
        rng = generator(session.seed, "selection")
        # Training rows are not tested: Jitkrittum et al. (2017), as the level needs.
        return np.sort(rng.choice(session.n, size=self._trained(session.n), replace=False))

    def _trained(self, n: int) -> int:
        # At least half of the rows are left for the test.
        return min(n // 2, self.training_rows) if self.placement == "optimised" else 0

    def _count(self, session: Session) -> int:
        """Locations, no more than rows to draw them from."""
        trained = self._trained(session.n)
        if self.n_locations != "auto":
            return min(int(self.n_locations), trained or session.n)
        most = trained // _ROWS_A_LOCATION if trained else session.n
        return min(_LOCATIONS, max(1, most))


def _session_without(session: Session, rows: NDArray[np.intp]) -> Session:
    """The run over all rows but these."""
    return session.over([without_rows(source, rows) for source in session.sources])


def _pairs(m: int) -> tuple[Pair, ...]:
    """The statistic of so many variables, and every kernel by itself."""
    return (Pair.of(tuple(range(m))), *(Pair((), k) for k in range(m)))


_FACTORS = (0.25, 0.5, 1.0, 2.0)
_DRAWS = 3
_MOST_STEPS = 30
_HELD_OUT = 3
_WIDEST = 4.0
_RADIAL = Gaussian | InverseMultiquadric | Laplacian | Matern | RationalQuadratic


@dataclass(frozen=True)
class Norm:
    """u'(S + r t I)^-1 u, with S the covariance of sqrt(n) u under independence.

    Jitkrittum et al. (2017), equation 6, with t the mean of the diagonal of S.

    Parameters
    ----------
    whitening : ndarray, shape (J, J)
        W with W'W = (S + r t I)^-1; 0 where S is.
    weights : ndarray, shape (J,)
        The eigenvalues of W S W', of chi-squares in the limit of T = n |W u|^2 under the null.
    """

    whitening: Vector
    weights: Vector

    @classmethod
    def of(
        cls, covariances: Sequence[Vector], means: Sequence[Vector], regularisation: float
    ) -> Self:
        """From the covariances (J, J) and means (J,) of the kernels of every variable, and r."""
        # S is the covariance of a product of independent variables, less its linear part.
        covariance: Vector = expanded(covariances, [np.outer(k, k) for k in means])[0]
        scale = float(covariance.diagonal().mean())
        if not np.isfinite(covariance).all():  # of unbounded kernels, refused in words later
            return cls(np.full_like(covariance, np.nan), np.ones(len(covariance)))
        # Kernels that do not vary have no covariance to be normalised by, and no statistic.
        if scale <= 0.0:
            return cls(np.zeros_like(covariance), np.zeros(len(covariance)))
        # In units of t, so that the ridge is r whatever the units of the kernels.
        values, vectors = np.linalg.eigh(covariance / scale)
        values = values.clip(min=0.0)  # below it by rounding
        # W = (t (D + r))^(-1/2) V' of S / t = V D V', so that |W u|^2 = u' (S + r t I)^-1 u.
        whitening = (vectors / np.sqrt(scale * (values + regularisation))).T
        # W S W' is diagonal in the same basis: S / (S + r), all about 1 where r is small.
        return cls(whitening, values / (values + regularisation))

    def __call__(self, u: Vector) -> Vector:
        """The squared norms of values (J,) or (J, b)."""
        return squared_norms(self.whitening @ u)


class Placed(NamedTuple):
    """Kernels and locations of every variable."""

    kernels: tuple[Kernel, ...]
    """As fitted, or with other bandwidths."""
    points: tuple[Vector, ...]
    """Shapes (J, d_m)."""


def _about(values: Vector, means: Vector) -> Vector:
    """About the means; 0 where all rows are the same but for rounding."""
    about = values - means
    flat = np.abs(about).max(axis=0) <= rounding_unit(np.float64) * np.abs(values).max(axis=0)
    about[:, flat] = 0.0
    return about


def _derivative_weights(
    m: int,
    about: Sequence[Vector],
    means: Sequence[Vector],
    covariances: Sequence[Vector],
    a: Vector,
    form: Vector,
) -> Vector:
    """Derivatives of T / n in the kernel values of variable m, shape (n, J).

    u, the covariance of the values and the outer product of their means change with a value.
    """
    others = [k for k in range(len(about)) if k != m]
    rest, slope = expanded([about[k] for k in others], [means[k] for k in others])
    squares = [np.outer(means[k], means[k]) for k in others]
    in_means, in_both = expanded([covariances[k] for k in others], squares)
    in_covariance = form * (in_means + in_both)
    constant = (form * in_means) @ means[m]
    # By way of u, of the covariances in S, and of the means in S.
    changed = a * (rest + slope) - about[m] @ in_covariance - constant
    weights: Vector = (2.0 / len(changed)) * changed
    return weights


def _slopes(
    kernel: Kernel, x: Vector, z: Vector, gram: Vector, weights: Vector
) -> tuple[Vector, float]:
    """Derivatives of sum_ij weights_ij k(x_i, z_j) in z, shape (J, d), and in log(length).

    They are 0 of a kernel that has no gradient, and in the length of others than radial ones. Those
    stay the same where rows, locations and length grow together, so that the derivative in the
    length is that in all rows and locations, with the opposite sign (Euler).
    """
    in_points = np.zeros_like(z)
    if kernel.differentiable:
        # As k is symmetric.
        in_points = _gradient(kernel, z, x, *map(np.ascontiguousarray, (gram.T, weights.T)))
    if not isinstance(kernel, _RADIAL):
        return in_points, 0.0
    in_rows = _gradient(kernel, x, z, gram, weights)
    centre = 0.0 if kernel.origin is None else np.array(kernel.origin)
    return in_points, -float(np.vdot(x - centre, in_rows) + np.vdot(z - centre, in_points))


def _gradient(kernel: Kernel, x: Vector, z: Vector, gram: Vector, weights: Vector) -> Vector:
    """sum_j weights_ij grad_x k(x_i, z_j), shape (n, d)."""
    rows, _ = kernel.rows_and_columns(x)
    _, columns = kernel.rows_and_columns(z)
    work = np.empty((kernel.gradient_tiles, *gram.shape))
    return kernel.gradient(rows, columns, gram, weights, work).astype(np.float64, copy=False)


@dataclass(frozen=True)
class Training:
    """Locations and bandwidths as one vector that an optimiser moves.

    Locations are in units of the standard deviations of their columns, about the medians, and
    stay among the training rows; bandwidths are logarithms of what they are multiplied by.

    Parameters
    ----------
    kernels : tuple of Kernel
        As fitted.
    rows : tuple of ndarray, shapes (n, d_m)
        The training rows.
    regularisation : float
        Regularisation of the statistic.
    """

    kernels: tuple[Kernel, ...]
    rows: tuple[Vector, ...]
    regularisation: float

    def placed(self, moved: Vector) -> Placed:
        """Parameters that a vector stands for."""
        dims = [x.shape[1] for x in self.rows]
        count = (len(moved) - len(dims)) // sum(dims)
        widths, *parts = np.split(moved, np.cumsum([len(dims), *(count * d for d in dims[:-1])]))
        kernels = (
            kernel.widened(math.exp(width)) if isinstance(kernel, _RADIAL) else kernel
            for kernel, width in zip(self.kernels, widths, strict=True)
        )
        units = zip(parts, self._units, strict=True)
        points = (c + s * part.reshape(count, -1) for part, (c, s) in units)
        return Placed(tuple(kernels), tuple(points))

    def start(self, at: NDArray[np.intp], factor: float) -> Vector:
        """The vector of some training rows, with bandwidths times a factor."""
        widths = np.full(len(self.rows), math.log(factor))
        units = zip(self.rows, self._units, strict=True)
        return np.concatenate([widths, *(((x[at] - c) / s).ravel() for x, (c, s) in units)])

    def loss(self, moved: Vector) -> tuple[float, Vector]:
        """- log(T / n), with its gradient: 0 where a kernel has none."""
        placed = self.placed(moved)
        with np.errstate(over="ignore", invalid="ignore"):  # of kernels that hardly vary
            grams, about, means, covariances, u, norm = self._measured(placed)
            # With a = (S + r t I)^-1 u the norm of u changes by 2 a'du - a'(dS + r dt I) a.
            a = norm.whitening.T @ (norm.whitening @ u)
            # t is the mean of the diagonal of S, so that dt is spread over the diagonal.
            diagonal = self.regularisation * float(a @ a) / len(a)
            form = np.outer(a, a) + diagonal * np.eye(len(a))
            lengths, gradients = [], []
            for m, (kernel, z, x, gram) in enumerate(zip(*placed, self.rows, grams, strict=True)):
                weights = _derivative_weights(m, about, means, covariances, a, form)
                in_points, in_length = _slopes(kernel, x, z, gram, weights)
                gradients.append((self._units[m][1] * in_points).ravel())
                lengths.append(in_length)
            value, whole = float(norm(u)), np.concatenate([lengths, *gradients])
        # A place without a statistic has no direction to climb.
        if value <= 0.0 or not np.isfinite(whole).all():
            return math.inf, np.zeros_like(moved)
        return -math.log(value), -whole / value

    def _measured(self, placed: Placed) -> tuple[Any, ...]:
        """Values of kernels, these about their means, the means, covariances, u and its norm."""
        grams = [kernel(x, z) for kernel, z, x in zip(*placed, self.rows, strict=True)]
        means = [gram.mean(axis=0) for gram in grams]
        about = [_about(gram, mean) for gram, mean in zip(grams, means, strict=True)]
        # With 1 / n, as the covariances of the rows that are tested.
        covariances = [a.T @ a / len(a) for a in about]
        u = expanded(about, means)[0].mean(axis=0)
        return grams, about, means, covariances, u, Norm.of(covariances, means, self.regularisation)

    def way(self, drawn: Sequence[NDArray[np.intp]], factor: float) -> list[Vector]:
        """From the best of some rows upwards; nothing where none has a statistic."""
        from scipy.optimize import minimize  # slow to import

        starts = [self.start(at, factor) for at in drawn]
        values = [self.value(self.placed(start)) for start in starts]
        if max(values) <= 0.0:
            return []
        # Of the rows drawn those with the largest statistic are climbed from.
        start = starts[values.index(max(values))]
        # Widths within a factor of the given ones, and locations among the rows.
        bounds = [(-math.log(_WIDEST), math.log(_WIDEST))] * len(self.rows)
        for x, (c, s) in zip(self.rows, self._units, strict=True):
            low, high = (x.min(axis=0) - c) / s, (x.max(axis=0) - c) / s
            bounds += list(zip(low.tolist(), high.tolist(), strict=True)) * len(drawn[0])
        # All places on the way are kept, since the largest on these rows is often none on others.
        passed = [start]
        minimize(
            self.loss,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxiter": _MOST_STEPS},
            callback=lambda moved: passed.append(moved.copy()),
        )
        return passed

    def value(self, placed: Placed) -> float:
        """T / n, 0 where there is none."""
        with np.errstate(over="ignore", invalid="ignore"):  # of kernels that hardly vary
            *_, u, norm = self._measured(placed)
            value = float(norm(u))
        return value if math.isfinite(value) else 0.0

    @cached_property
    def _units(self) -> list[tuple[Vector, Vector]]:
        """Centre and scale of the columns of every variable."""
        deviations = (x.std(axis=0) for x in self.rows)
        # A constant column has no deviation, and any unit will do.
        return [
            (np.median(x, axis=0), np.where(s > 0.0, s, 1.0))
            for x, s in zip(self.rows, deviations, strict=True)
        ]


def place(training: Training, count: int, rng: np.random.Generator) -> Placed:
    """Locations and bandwidths of a large statistic on the training rows.

    On two thirds of them the best of rows drawn with their pairing, at each of several bandwidths,
    are moved along the gradient of the logarithm of the statistic; of all places on these ways, the
    one of the largest statistic on the last third is taken. The largest on the rows that it climbs
    is often none but there, with narrow kernels in many columns.

    Parameters
    ----------
    training : Training
        Rows and kernels.
    count : int
        Locations J, no more than training rows.
    rng : Generator
        Draws the rows that are held out, and where to start.

    Returns
    -------
    Placed
    """
    order = rng.permutation(len(training.rows[0]))
    cut, climbed, held = len(order) // _HELD_OUT, training, training
    if len(order) - cut >= count and cut > 0:  # or all rows twice
        held = replace(training, rows=tuple(x[order[:cut]] for x in training.rows))
        climbed = replace(training, rows=tuple(x[order[cut:]] for x in training.rows))
    n = len(climbed.rows[0])
    drawn = [rng.choice(n, size=count, replace=False) for _ in range(_DRAWS)]
    ways = (climbed.way(drawn, factor) for factor in _FACTORS)
    places = [climbed.placed(moved) for way in ways for moved in way]
    # Where no start has a statistic, one is as good as another.
    if not places:
        return climbed.placed(climbed.start(drawn[0], 1.0))
    return max(places, key=held.value)
