"""NFSIC: covariances of analytic kernels at a few locations, normalised.

Locations maximise the statistic on training rows, which the test leaves out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple, Self, get_args

import numpy as np
from numpy.typing import NDArray

from dhsic._random import generator
from dhsic._validation import check_choice, check_integer, check_level
from dhsic.engine.plan import DriverStep, PassPlan
from dhsic.engine.session import Session
from dhsic.errors import DataError
from dhsic.estimators.base import (
    Estimate,
    Estimator,
    Guess,
    Null,
    Outcome,
    Prepared,
    fit_on_sample,
    fitting_step,
)
from dhsic.io.variables import without_rows
from dhsic.kernels import (
    Combinations,
    Gaussian,
    InverseMultiquadric,
    Kernel,
    Laplacian,
    Matern,
    RationalQuadratic,
)
from dhsic.landmarks import uniform_rows, warn_of_rounding
from dhsic.linalg import rounding_unit, squared_norms
from dhsic.nulls import (
    ChiSquare,
    ChiSquareMixture,
    Needs,
    Permutation,
    Resampling,
    Shifts,
    expanded,
    guard,
    spread_at_locations,
)
from dhsic.results import FeatureSummary
from dhsic.statistics.orbit import Pair
from dhsic.statistics.pointwise import Pointwise, Tuples, term_moments

Vector = NDArray[np.float64]
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
        steps.append(rest.plan(term_moments(rest.n, tuples, _PASS)))
        steps.append(DriverStep("solve", 64 * count * (tuples.n_values + count)))
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
        # The means of a sample are pilots, from which the pass takes small differences.
        pilots, every = [k.mean(axis=0) for k in sampled], np.arange(self._count(session))
        tuples = Tuples(
            placed.kernels,
            tuple(range(m)),
            placed.points,
            _pairs(m),
            (every,) * (m + 1),
            tuple(pilots),
            session.dtype,
        )
        terms = term_moments(rest.n, tuples, _PASS)
        (joint, _), *each = terms.of(rest.reduce(terms))
        session.step("solve")
        n = rest.n
        about = [plain / n for plain, _ in each]
        means = [pilot + mean for pilot, mean in zip(pilots, about, strict=True)]
        second = zip(each, about, strict=True)
        covariances = [squares / n - np.outer(mean, mean) for (_, squares), mean in second]
        # The mean of the terms about the pilots, less what they have by the means that are others.
        u = joint / n - expanded(about, pilots)[0]
        norm = Norm.of(independent_covariance(covariances, means), self.regularisation)
        summary = FeatureSummary(f"{self.placement} locations", (len(every),))
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


def independent_covariance(covariances: Sequence[Vector], means: Sequence[Vector]) -> Vector:
    """S, from the covariances (J, J) and means (J,) of the kernels of every variable.

    The covariance of a product of independent variables, less its linear part.
    """
    covariance: Vector = expanded(covariances, [np.outer(k, k) for k in means])[0]
    return covariance


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
    def of(cls, covariance: Vector, regularisation: float) -> Self:
        """From S, shape (J, J), and r."""
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

    def solve(self, u: Vector) -> Vector:
        """(S + r t I)^-1 u."""
        solved: Vector = self.whitening.T @ (self.whitening @ u)
        return solved

    def __call__(self, u: Vector) -> Vector:
        """The squared norms of values (J,) or (J, b)."""
        return squared_norms(self.whitening @ u)


class Placed(NamedTuple):
    """Kernels and locations of every variable."""

    kernels: tuple[Kernel, ...]
    """As fitted, or with other bandwidths."""
    points: tuple[Vector, ...]
    """Shapes (J, d_m)."""


def criterion(
    placed: Placed, rows: Sequence[Vector], regularisation: float
) -> tuple[float, list[Vector], list[float]]:
    """T / n on training rows with its gradients.

    Parameters
    ----------
    placed : Placed
        Kernels and locations.
    rows : sequence of ndarray, shapes (n, d_m)
        The training rows.
    regularisation : float
        Regularisation of the statistic.

    Returns
    -------
    float
        u'(S + r t I)^-1 u.
    list of ndarray, shapes (J, d_m)
        Gradients in the locations; 0 of kernels that have none.
    list of float
        Derivatives in the logarithms of the length scales; 0 of kernels other than radial ones.
    """
    grams = [kernel(x, z) for kernel, z, x in zip(*placed, rows, strict=True)]
    about, means, covariances, u = _moments(grams)
    norm = Norm.of(independent_covariance(covariances, means), regularisation)
    # With a = (S + r t I)^-1 u the norm of u changes by 2 a'du - a'(dS + r dt I) a.
    a = norm.solve(u)
    # t is the mean of the diagonal of S, so that dt is spread over the diagonal.
    form = np.outer(a, a) + (regularisation * float(a @ a) / len(a)) * np.eye(len(a))
    gradients, lengths = [], []
    for m, (kernel, z, x, gram) in enumerate(zip(*placed, rows, grams, strict=True)):
        weights = _derivative_weights(m, about, means, covariances, a, form)
        in_points, in_length = _slopes(kernel, x, z, gram, weights)
        gradients.append(in_points)
        lengths.append(in_length)
    return float(norm(u)), gradients, lengths


def value_of(placed: Placed, rows: Sequence[Vector], regularisation: float) -> float:
    """The same without gradients."""
    grams = [kernel(x, z) for kernel, z, x in zip(*placed, rows, strict=True)]
    _, means, covariances, u = _moments(grams)
    return float(Norm.of(independent_covariance(covariances, means), regularisation)(u))


def _moments(values: Sequence[Vector]) -> tuple[list[Vector], list[Vector], list[Vector], Vector]:
    """Kernel values about their means, the means, the covariances and u, from values (n, J)."""
    means = [k.mean(axis=0) for k in values]
    about = [_about(k, c) for k, c in zip(values, means, strict=True)]
    # With 1 / n, as the covariances of the rows that are tested.
    covariances = [a.T @ a / len(a) for a in about]
    return about, means, covariances, expanded(about, means)[0].mean(axis=0)


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
        widths = moved[: len(self.rows)]
        kernels = (
            kernel.widened(math.exp(width)) if isinstance(kernel, _RADIAL) else kernel
            for kernel, width in zip(self.kernels, widths, strict=True)
        )
        parts = self._parts(moved)
        points = (c + s * z for (c, s), z in zip(self._units, parts, strict=True))
        return Placed(tuple(kernels), tuple(points))

    def start(self, at: NDArray[np.intp], factor: float) -> Vector:
        """The vector of some training rows, with bandwidths times a factor."""
        widths = np.full(len(self.rows), math.log(factor))
        units = zip(self.rows, self._units, strict=True)
        return np.concatenate([widths, *(((x[at] - c) / s).ravel() for x, (c, s) in units)])

    def loss(self, moved: Vector) -> tuple[float, Vector]:
        """- log(T / n), with its gradient."""
        placed = self.placed(moved)
        with np.errstate(over="ignore", invalid="ignore"):  # of kernels that hardly vary
            value, gradients, lengths = criterion(placed, self.rows, self.regularisation)
            scaled = (s * g for (_, s), g in zip(self._units, gradients, strict=True))
            whole = np.concatenate([lengths, *(g.ravel() for g in scaled)])
        # A place without a statistic has no direction to climb.
        if value <= 0.0 or not np.isfinite(whole).all():
            return math.inf, np.zeros_like(moved)
        return -math.log(value), -whole / value

    def split(self, count: int, rng: np.random.Generator) -> tuple[Training, tuple[Vector, ...]]:
        """Two thirds of the rows, and the others; all rows twice where that is too few."""
        order = rng.permutation(len(self.rows[0]))
        cut = len(order) // _HELD_OUT
        if len(order) - cut < count or cut == 0:
            return self, self.rows
        part = replace(self, rows=tuple(x[order[cut:]] for x in self.rows))
        return part, tuple(x[order[:cut]] for x in self.rows)

    def way(self, drawn: Sequence[NDArray[np.intp]], factor: float) -> list[Vector]:
        """From the best of some rows upwards; nothing where none has a statistic."""
        from scipy.optimize import minimize  # slow to import

        starts = [self.start(at, factor) for at in drawn]
        values = [self._value(start) for start in starts]
        if max(values) <= 0.0:
            return []
        # Of the rows drawn those with the largest statistic are climbed from.
        start = starts[values.index(max(values))]
        # All places on the way are kept, since the largest on these rows is often none on others.
        passed = [start]
        minimize(
            self.loss,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=self.bounds(len(drawn[0])),
            options={"maxiter": _MOST_STEPS},
            callback=lambda moved: passed.append(moved.copy()),
        )
        return passed

    def _value(self, moved: Vector) -> float:
        """T / n, 0 where there is none."""
        with np.errstate(over="ignore", invalid="ignore"):  # of kernels that hardly vary
            value = value_of(self.placed(moved), self.rows, self.regularisation)
        return value if math.isfinite(value) else 0.0

    def bounds(self, count: int) -> list[tuple[float, float]]:
        """Bounds of every entry of the vector."""
        wide = math.log(_WIDEST)
        bounds = [(-wide, wide)] * len(self.rows)
        for x, (c, s) in zip(self.rows, self._units, strict=True):
            low, high = (x.min(axis=0) - c) / s, (x.max(axis=0) - c) / s
            bounds += list(zip(low.tolist(), high.tolist(), strict=True)) * count
        return bounds

    @cached_property
    def _units(self) -> list[tuple[Vector, Vector]]:
        """Centre and scale of the columns of every variable."""
        deviations = (x.std(axis=0) for x in self.rows)
        # A constant column has no deviation, and any unit will do.
        return [
            (np.median(x, axis=0), np.where(s > 0.0, s, 1.0))
            for x, s in zip(self.rows, deviations, strict=True)
        ]

    def _parts(self, moved: Vector) -> list[Vector]:
        dims = [x.shape[1] for x in self.rows]
        count = (len(moved) - len(dims)) // sum(dims)
        ends = np.cumsum([count * d for d in dims])[:-1]
        parts = np.split(moved[len(dims) :], ends)
        return [part.reshape(count, d) for part, d in zip(parts, dims, strict=True)]


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
    climbed, held = training.split(count, rng)
    n = len(climbed.rows[0])
    drawn = [rng.choice(n, size=count, replace=False) for _ in range(_DRAWS)]
    ways = (climbed.way(drawn, factor) for factor in _FACTORS)
    places = [climbed.placed(moved) for way in ways for moved in way]
    # Where no start has a statistic, one is as good as another.
    if not places:
        return climbed.placed(climbed.start(drawn[0], 1.0))
    return max(places, key=lambda placed: value_of(placed, held, training.regularisation))
