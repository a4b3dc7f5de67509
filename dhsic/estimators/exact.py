"""Compute statistics from all pairs of rows, which the linear-time estimators approximate.

HSIC comes first; then distance covariance and correlation, with an O(n log n) algorithm for single
columns; then the mean HSIC of blocks of rows, which is asymptotically normal under independence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dhsic._validation import check_flag, check_integer, check_level, check_number
from dhsic.engine.passes import Footprint, Pass, RowBlock, block_numbers
from dhsic.engine.plan import DriverStep, Plan
from dhsic.engine.session import Session
from dhsic.errors import InvalidArgumentError
from dhsic.estimators.base import (
    Estimate,
    Estimator,
    GridOutcome,
    Guess,
    Null,
    Outcome,
    Prepared,
    compared_in_samples,
    fit_combinations_on_sample,
    fit_on_sample,
    fitting_step,
    guard_kernels,
    left_out_text,
    martingale_outcome,
    needs_of,
    plan_of,
)
from dhsic.kernels import Columns, Combinations, Distance, Gaussian, Kernel
from dhsic.linalg import centre, rounding_unit
from dhsic.nulls import (
    Chain,
    ChiSquareMixture,
    Gamma,
    GammaDistribution,
    Martingale,
    Needs,
    Normal,
    Permutation,
    Resampling,
    Shifts,
    Spectral,
    StudentT,
    check_no_overflow,
    draw_permutations,
)
from dhsic.statistics.gram import (
    GramFound,
    GramStatistic,
    GramSums,
    Matrix,
    RowsPass,
    check_rows,
    column_sums,
    limit_mixture,
    null_moments,
)
from dhsic.statistics.jackknife import DeletedSums, Parts
from dhsic.statistics.martingale import martingale_of_grams
from dhsic.statistics.orbit import (
    Orbit,
    Permuted,
    Statistic,
    measure,
    orbit_of,
    replicate,
    whole_group,
)

Vector = NDArray[np.float64]
Tell = Callable[[GramFound], Any]

_LIMITS: dict[type[Any], Any] = {Martingale: martingale_of_grams, Spectral: limit_mixture}


class Quadratic(Estimator):
    """Estimate and test of a multiple of the squared HSIC by all pairs of rows.

    Estimators derive from it: they say what the multiple is, and which kernels it takes.
    """

    nulls: ClassVar[tuple[type[Any], ...]] = (Shifts, Permutation, Gamma, Spectral)
    cost: ClassVar[str] = "n^2"
    has_intervals = True
    remedy: ClassVar[str] = (
        "take estimator='nystrom-m', fewer rows, fewer kernels ('gaussian' is one), or fewer "
        "resamples"
    )

    quantity: str = "squared HSIC"
    """The name of the estimate."""
    unbiased: bool = False
    """Whether it is the U-statistic, for two variables, or else the V-statistic."""

    @property
    def unbiased_estimate(self) -> bool:
        """The U-statistic as the estimate, whatever the statistic of a test is."""
        return self.unbiased

    def factor(self, sums: GramSums) -> Vector | float:
        """The factors of the squared HSIC; permutations must leave them as they are.

        With divisors 1 / sqrt(HSIC(x, x) HSIC(y, y)); 0 where either is 0 but for rounding.
        """
        if not self.divided:
            return self.scale
        variances = sums.own(unbiased=self.unbiased)
        # A variance below the rounding of its terms would make the quotient anything.
        errors = rounding_unit(np.float64) * sums.squares[np.array(sums.chosen)] / sums.n**2
        varies = (variances > errors).all(axis=1)
        # Zhang et al. (2018), footnote 1: HSIC over the norms of both centred Gram matrices.
        inverse = 1.0 / np.sqrt(np.where(varies, variances.T, 1.0))
        factors: Vector = np.where(varies, inverse.prod(axis=0), 0.0)
        return factors

    root: bool = False
    """Whether the estimate is the root of the measure."""
    scale: ClassVar[float] = 1.0
    """Squared HSIC has this factor in the measure, which may have divisors besides."""
    divided: ClassVar[bool] = False
    """Whether HSIC of either variable with itself divides the measure."""
    sorting: ClassVar[bool] = False
    """Whether two single columns are sorted, in O(n log n)."""

    def parts(self, sums: GramSums) -> Parts:
        """What an estimate of one combination is made of: of two variables U-statistics."""
        if len(sums.chosen[0]) > 2:
            (value,) = self.factor(sums) * sums.hsic(unbiased=False)
            return Parts(float(value), float(value))
        (size,), (excess,) = (
            self.scale * sums.hsic(unbiased=unbiased) for unbiased in (True, False)
        )
        own = tuple((self.scale * sums.own(unbiased=True)[0]).tolist())
        return Parts(float(size), float(size), own, self.divided, float(excess - size))

    def statistic(
        self,
        session: Session,
        combinations: Combinations,
        samples: Sequence[Vector],
        null: Null | None,
        tell: Tell,
    ) -> Statistic[Any]:
        """The statistic of kernels that are fitted; a limit law needs the diagonal."""
        unbiased = self.unbiased and isinstance(null, Resampling)
        if self._sorts(session, combinations, null):
            return SortedStatistic(unbiased, self.factor, tell)
        return GramStatistic(
            combinations,
            tuple(samples),
            session.dims,
            session.dtype,
            unbiased=unbiased,
            # What a null takes of matrices that are held.
            limit=_LIMITS.get(type(null)),
            factor=self.factor,
            tell=tell,
        )

    def guess(self, session: Session, combinations: Combinations, null: Null | None) -> Guess:
        """The kernels, as if they were fitted."""
        self._check(session, combinations, null)
        guessed = combinations.guessed(session.dims)
        statistic = self.statistic(session, guessed, (), null, self.tell)
        return Guess([fitting_step(session)], statistic)

    def prepare(self, session: Session, combinations: Combinations, null: Null | None) -> Prepared:
        """Fit the kernels; those of a grid that are 0 between nearly all rows are left out."""
        self._check(session, combinations, null)
        fitted, samples = fit_combinations_on_sample(session, combinations)
        tell: Tell = partial(self.tell, ranked=combinations.features)
        detail = ""
        if isinstance(null, Gamma | Spectral | Martingale):
            detail = guard_kernels(session, fitted, samples, null.name, needs_of(null))
            tell = _by_combination
        elif len(fitted) > 1 and null is not None and not fitted.features:
            # Their replicates have heavy tails, which cost the others their power.
            numbers = compared_in_samples(fitted, samples, session.n)
            fitted = fitted.part(numbers) if len(numbers) < len(fitted) else fitted
            detail = left_out_text(len(combinations) - len(fitted))
        return Prepared(
            fitted,
            self.statistic(session, fitted, samples, null, tell),
            lambda found, c: self._estimate(found.told[c][0], fitted.kernels_of(c)),
            detail,
            lambda found: np.array([own for _, own in found.told]),
        )

    def plan(self, session: Session, combinations: Combinations, null: Null | None) -> Plan:
        """The plan of a test, or of estimates; of rows in blocks all are held."""
        if session.deletion is None:
            return super().plan(session, combinations, null)
        self._check(session, combinations, null)
        sums = DeletedSums.step(session, combinations)
        if self._sorts(session, combinations, None):
            sums = DriverStep("sums of distances", 8 * 20 * session.n)
        return plan_of(session, [fitting_step(session), sums], self.remedy)

    def test_grid(
        self, session: Session, combinations: Combinations, null: Resampling | None
    ) -> GridOutcome:
        """Statistics and replicates; estimates alone where a block of rows is left out."""
        if session.deletion is None:
            return super().test_grid(session, combinations, null)
        fitted, _ = fit_combinations_on_sample(session, combinations)
        sorts = self._sorts(session, fitted, None)
        without = sorted_without(session) if sorts else DeletedSums.of(session, fitted).without
        whole, none = GramFound(without(None), np.zeros(0)), np.zeros(len(fitted))
        told = self.tell(whole, ranked=combinations.features)
        each = map(without, (None, *range(session.deletion.blocks)))
        parts = [[self.parts(sums.only(c)) for c in range(len(fitted))] for sums in each]

        def estimate(c: int) -> Estimate:
            made = self._estimate(told[c][0], fitted.kernels_of(c))
            first, *others = (one[c] for one in parts)
            return replace(made, made_of=[first._replace(value=made.value), *others])

        return GridOutcome(
            fitted,
            none,
            np.empty((0, len(fitted))),
            estimate,
            "",
            none,
            np.array([own for _, own in told]),
        )

    def _sorts(self, session: Session, combinations: Combinations, null: Null | None) -> bool:
        """Whether one column each, plain distances and the null allow sorting, if the class does.

        Sorting gives the sums of the distances themselves, and of no power of them.
        """
        plain = [k for k in combinations.kernels if isinstance(k, Distance) and k.exponent == 1.0]
        all_rows = isinstance(null, Permutation) and null.within != "groups"
        allowed = self.sorting and (null is None or isinstance(null, Gamma) or all_rows)
        return allowed and session.dims == (1, 1) and len(combinations.kernels) == len(plain) == 2

    def tell(self, found: GramFound, *, ranked: bool = False) -> list[tuple[float, Vector]]:
        """The multiple of squared HSIC by every combination, and HSIC of variables with themselves.

        A ranking divides by V-statistics.
        """
        unbiased = self.unbiased if ranked else self.unbiased_estimate
        sizes = self.factor(found.sums) * found.sums.hsic(unbiased=unbiased)
        return list(zip(sizes.tolist(), found.sums.own(unbiased=self.unbiased), strict=True))

    def fit(self, session: Session, kernels: Sequence[Kernel]) -> tuple[Vector, Estimate]:
        """Row means of the Gram matrices, shape (M, n), and the estimate."""

        def tell(found: GramFound) -> list[tuple[float, Vector]]:
            ((size, _),) = self.tell(found)
            return [(size, found.sums.rows / session.n + found.centres[:, None])]

        prepared = self.prepare(session, Combinations.single(kernels), None)
        statistic: Any = prepared.statistic
        orbit = statistic.orbit(session, None)
        ((size, means),) = replicate(session, replace(statistic, tell=tell), orbit).told
        in_order = np.empty_like(means)
        in_order[:, orbit.groups.members(0, orbit.groups.count)] = means
        return in_order, self._estimate(size, prepared.combinations.kernels)

    def test_each(
        self, session: Session, combinations: Combinations, null: Gamma | Spectral | Martingale
    ) -> list[Outcome]:
        """The outcome of every combination by itself, by a law of its own."""
        prepared = self.prepare(session, combinations, null)
        found, note, outcomes = measure(session, prepared.statistic), prepared.detail, []
        for c, (sums, limit) in enumerate(found.told):
            factor, rounding = float(np.ravel(self.factor(sums))[0]), float(found.rounding[c])
            (size,), (estimate,) = (
                factor * sums.hsic(unbiased=unbiased)
                for unbiased in (self.unbiased, self.unbiased_estimate)
            )
            value = self._estimate(estimate, prepared.combinations.kernels_of(c))
            if isinstance(null, Martingale):  # which is another statistic
                outcomes.append(martingale_outcome(session, limit, rounding, value, note))
                continue
            # Mean and variance over all permutations, as of the sums at hand; of a multiple the
            # variance goes with the square of the factor.
            mean, variance = null_moments(sums, unbiased=self.unbiased)
            moments = factor * mean, factor**2 * variance
            law: Any = GammaDistribution(*moments)
            if isinstance(null, Spectral) and limit is not None:
                mixture = ChiSquareMixture(factor * limit.weights, factor * limit.shift)
                # Eigenvalues of a sample spread too far; the mean and the variance are those under
                # independence.
                law = null.distribution(mixture.with_moments(*moments), session.seed)
            outcomes.append(Outcome(session.n * float(size), law, value, note, rounding))
        return outcomes

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
        if isinstance(null, Martingale) and n_variables > 2:
            msg = (
                f"null 'martingale' needs two variables, got {n_variables}: take null 'chain', "
                "which tests one variable after another, or 'permutation'"
            )
            raise InvalidArgumentError(msg)
        if isinstance(null, Gamma) and self.unbiased:
            # A gamma law is one of positive values.
            msg = (
                "null 'gamma' needs a statistic that is never negative, got an unbiased one: take "
                "unbiased=False, or null 'shifts', 'permutation' or 'spectral'"
            )
            raise InvalidArgumentError(msg)

    def _estimate(self, size: float, kernels: tuple[Kernel, ...]) -> Estimate:
        # Rounding may leave a size below 0, of which there is no root, or above the largest.
        value = min(math.sqrt(max(size, 0.0)) if self.root else float(size), self.largest)
        return Estimate(value, kernels, quantity=self.quantity)


def _by_combination(found: GramFound) -> list[tuple[GramSums, Any]]:
    """The sums of every combination, and what a limit law or a martingale takes of matrices."""
    return [(found.sums.only(c), found.limit) for c in range(len(found.sums.chosen))]


@dataclass(frozen=True)
class VHSIC(Quadratic):
    """V-statistic HSIC for two or more variables.

    The cost is quadratic in the number of rows. Gram tiles of pairs of row blocks are computed once
    and not stored, so memory does not grow with the number of rows. The test statistic is n times
    the V-statistic. Shifts of rows, alone or in a chain, take one pass over pairs of groups of
    rows, with a Fourier transform of every tile. Permutations of all rows and the spectral null
    hold whole Gram matrices.

    Parameters
    ----------
    unbiased_estimate : bool, optional
        Whether to report the unbiased estimate of `UHSIC`, which may be negative, for two
        variables. The test statistic remains the V-statistic, which is larger in expectation by a
        share of 1 / n and has more power for heavy tails.

    Raises
    ------
    InvalidArgumentError
        `unbiased_estimate` is no boolean.

    References
    ----------
    .. [1] F. Kalinke, Z. Szabo. Nystrom M-Hilbert-Schmidt independence criterion. UAI 2023,
       equation 5.
    .. [2] N. Pfister, P. Buehlmann, B. Schoelkopf, J. Peters. Kernel-based tests for joint
       independence. JRSS B 80, 2018.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x, noise = np.random.default_rng(0).standard_normal((2, 300))
    >>> y = x**2 + noise
    >>> dhsic.hsic(x, y, estimator=VHSIC(unbiased_estimate=True), rng=0).estimate > 0.0
    True
    >>> dhsic.independence_test(x, y, estimator=VHSIC(), rng=0).pvalue < 0.01
    True
    """

    unbiased_estimate: bool = False

    def __post_init__(self) -> None:
        check_flag("unbiased_estimate", self.unbiased_estimate)

    name: ClassVar[str] = "v-hsic"
    ranks: ClassVar[bool] = True
    tries_grids: ClassVar[bool] = True
    nulls = Shifts, Permutation, Chain, Gamma, Spectral, Martingale
    most_variables: ClassVar[int | None] = None
    takes_missing: ClassVar[bool] = True


@dataclass(frozen=True)
class UHSIC(Quadratic):
    """U-statistic HSIC for two variables, which is unbiased and may be negative.

    It is computed like `VHSIC`, from Gram matrices whose diagonal is set to zero. The test
    statistic is n times the estimate.

    References
    ----------
    .. [1] L. Song, A. Smola, A. Gretton, J. Bedo, K. Borgwardt. Feature selection via dependence
       maximization. JMLR 13, 2012.
    .. [2] Q. Zhang, S. Filippi, A. Gretton, D. Sejdinovic. Large-scale kernel methods for
       independence testing. Statistics and Computing 28, 2018, equations 6 and 11.

    Examples
    --------
    An unbiased estimate of independent variables is about 0, and may be negative.

    >>> import numpy as np
    >>> import dhsic
    >>> x, y = np.random.default_rng(0).standard_normal((2, 300))
    >>> abs(dhsic.hsic(x, y, estimator=UHSIC(), rng=0).estimate) < 0.002
    True
    """

    name: ClassVar[str] = "u-hsic"
    nulls: ClassVar[tuple[type[Any], ...]] = (Shifts, Permutation, Chain, Spectral)
    takes_missing: ClassVar[bool] = True
    tries_grids: ClassVar[bool] = True
    unbiased = True


@dataclass(frozen=True)
class UCKA(Quadratic):
    """Centred kernel alignment of two variables by all pairs of rows, unbiased to the order 1/n.

    It is HSIC(x, y) / sqrt(HSIC(x, x) HSIC(y, y)) of the U-statistics of `UHSIC`: the cosine of
    the angle between the U-centred Gram matrices, at most 1, and about 0 for independent
    variables, where it may be negative. The V-statistics of [1]_ lie above the measure of the
    population by 0.1 and more where 500 rows have 10 columns; `CKA` with all rows as landmarks
    gives those. The name "cka" chooses "u-cka" for estimates of up to 5,000 rows, and in tests
    where "auto" takes all pairs; else landmarks. The test statistic is n times the estimate.
    Permutations do not change the denominator, so their p-values are those of `UHSIC`. If the
    unbiased HSIC of a variable with itself is 0, CKA is 0.

    References
    ----------
    .. [1] C. Cortes, M. Mohri, A. Rostamizadeh. Algorithms for learning kernels based on centered
       alignment. JMLR 13, 2012.
    .. [2] L. Song, A. Smola, A. Gretton, J. Bedo, K. Borgwardt. Feature selection via dependence
       maximization. JMLR 13, 2012, for the U-statistics.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x, noise = np.random.default_rng(0).standard_normal((2, 500, 10))
    >>> found = dhsic.hsic(x, x + noise, estimator="cka", confidence=0.95, rng=0)
    >>> found.estimator, found.interval.low < found.estimate < found.interval.high
    ('u-cka', True)
    """

    name: ClassVar[str] = "u-cka"
    nulls: ClassVar[tuple[type[Any], ...]] = (Shifts, Permutation, Spectral)
    takes_one_kernel: ClassVar[bool] = True
    unbiased = True
    quantity = "CKA"
    largest: ClassVar[float] = 1.0
    divided: ClassVar[bool] = True


@dataclass(frozen=True)
class SubHSIC(Quadratic):
    """Mean squared HSIC over all pairs of a column of x and a column of y: a simple baseline.

    It equals V-HSIC with kernels that are means over columns, since HSIC is linear in each kernel.

    References
    ----------
    .. [1] Q. Zhang, S. Filippi, A. Gretton, D. Sejdinovic. Large-scale kernel methods for
       independence testing. Statistics and Computing 28, 2018, section 5.1.

    Examples
    --------
    One of five columns depends on y.

    >>> import numpy as np
    >>> import dhsic
    >>> x = np.random.default_rng(0).standard_normal((300, 5))
    >>> dhsic.independence_test(x, x[:, 2] ** 2, estimator=SubHSIC(), rng=0).pvalue < 0.01
    True
    """

    name: ClassVar[str] = "sub-hsic"
    takes_one_kernel: ClassVar[bool] = True
    quantity = "mean squared HSIC of columns"

    def kernel(self, given: Kernel | None) -> Kernel:
        """The mean over columns of any kernel of one column, Gaussian where not given."""
        return Columns(given or Gaussian())


PlanePoints = NDArray[np.complex128]
Ranks = NDArray[np.intp]

_IN_CACHE = 2**14  # points

# Processor seconds of 1,000 shifts and of as many permutations by sorting: 0.24 and 1.1 at 4,000
# rows, 0.84 and 2.0 at 8,000, 1.8 and 2.9 at 12,000.
_SORTED_ROWS = 20_000


@dataclass(frozen=True)
class _DistanceStatistic(Quadratic):
    """Covariance and correlation share the kernel, and the fast way for single columns.

    Two variables of one column each with exponent 1 take O(n log n) time and O(n) memory on the
    driver for the estimate, the gamma null and every permutation of all rows.
    """

    name: ClassVar[str]
    takes_one_kernel: ClassVar[bool] = True
    needs_numbers: ClassVar[bool] = True
    sorting: ClassVar[bool] = True
    measures: ClassVar[str]
    exponent: float = 1.0
    unbiased: bool = False
    root: bool = False

    def __post_init__(self) -> None:
        check_flag("root", self.root)
        check_flag("unbiased", self.unbiased)
        if self.root and self.unbiased:
            msg = (
                f"root must be False if the estimate of {self.name} is unbiased, since it may be "
                "negative; got True beside unbiased=True: drop one of them"
            )
            raise InvalidArgumentError(msg)
        check_number(
            "exponent",
            self.exponent,
            "greater than 0 and less than 2",
            lambda q: 0.0 < q < 2.0,
            "take 1 for plain distances; exponents below 2 detect every kind of dependence",
        )

    @property
    def has_intervals(self) -> bool:  # type: ignore[override]
        """Whether blocks of rows can be left out of the estimate: not of a root."""
        return not self.root

    @property
    def quantity(self) -> str:  # type: ignore[override]
        """The name of the estimate."""
        return self.measures if self.root else f"squared {self.measures}"

    def kernel(self, given: Kernel | None) -> Kernel:
        """The distance-induced one."""
        if given is not None:
            msg = (
                f"{self.name} has the kernel of its distances, so kernels must be left out, got "
                f"{given.spec()!r}: leave it out, or take estimator='v-hsic'"
            )
            raise InvalidArgumentError(msg)
        return Distance(self.exponent)

    def choose_null(self, session: Session, n_resamples: int) -> tuple[Null, str]:
        """Shifts, or permutations of all rows of many single columns, by sorting."""
        if session.n > _SORTED_ROWS and session.dims == (1, 1) and self.exponent == 1.0:
            return Permutation(n_resamples, within="all"), "exact; n log n for single columns"
        return super().choose_null(session, n_resamples)


def _half(values: Matrix) -> Vector:
    """Half of a column: half the distances are the distance-induced kernel's, centred.

    About the median, for a mean misses by rounding what a constant holds.
    """
    half: Vector = 0.5 * (values[:, 0] - np.median(values))
    return half


@dataclass(frozen=True)
class DCov(_DistanceStatistic):
    """Squared distance covariance of two variables.

    Four times squared HSIC with the distance-induced kernel [2]_. The test statistic is n times
    the squared distance covariance.

    Parameters
    ----------
    exponent : float, optional
        q of the distances |x - x'|^q, in (0, 2).
    unbiased : bool, optional
        The U-centred estimate of [3]_, which may be negative.
    root : bool, optional
        Report the distance covariance, the root of the square. The test statistic and the p-value
        do not change.

    References
    ----------
    .. [1] G. Szekely, M. Rizzo, N. Bakirov. Measuring and testing dependence by correlation of
       distances. Annals of Statistics 35, 2007.
    .. [2] D. Sejdinovic, B. Sriperumbudur, A. Gretton, K. Fukumizu. Equivalence of distance-based
       and RKHS-based statistics in hypothesis testing. Annals of Statistics 41, 2013.
    .. [3] G. Szekely, M. Rizzo. Partial distance correlation with methods for dissimilarities.
       Annals of Statistics 42, 2014.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x = np.arange(9.0)
    >>> round(dhsic.hsic(x, x**2, estimator=DCov(root=True), rng=0).estimate, 2)
    5.45
    >>> dhsic.independence_test(x, x**2, estimator=DCov(exponent=0.5), rng=0).pvalue < 0.01
    True
    """

    name: ClassVar[str] = "dcov"
    measures: ClassVar[str] = "distance covariance"

    scale: ClassVar[float] = 4.0  # [2]: dCov^2 = 4 HSIC^2


@dataclass(frozen=True)
class DCor(_DistanceStatistic):
    """Squared distance correlation of two variables.

    It is HSIC(x, y) / sqrt(HSIC(x, x) HSIC(y, y)) of squared HSIC with the distance-induced kernel.
    The test statistic is n times the squared distance correlation. Permutations do not change the
    denominator, so their p-values are those of `DCov`. If the unbiased variance of a variable is 0,
    such as that of a column with one row that differs from all others, the correlation is 0.

    Parameters
    ----------
    exponent : float, optional
        q of the distances |x - x'|^q, in (0, 2).
    unbiased : bool, optional
        The bias-corrected estimate of [2]_, which may be negative.
    root : bool, optional
        Report the distance correlation, the root of the square, as [1]_ and other packages define
        it. The test statistic and the p-value do not change.

    References
    ----------
    .. [1] G. Szekely, M. Rizzo, N. Bakirov. Measuring and testing dependence by correlation of
       distances. Annals of Statistics 35, 2007.
    .. [2] G. Szekely, M. Rizzo. Partial distance correlation with methods for dissimilarities.
       Annals of Statistics 42, 2014.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x = np.arange(9.0)
    >>> for estimator in (DCor(), DCor(root=True)):
    ...     found = dhsic.hsic(x, x**2, estimator=estimator, rng=0)
    ...     print(found.quantity, round(found.estimate, 4))
    squared distance correlation 0.9558
    distance correlation 0.9777
    """

    name: ClassVar[str] = "dcor"
    largest: ClassVar[float] = 1.0
    divided: ClassVar[bool] = True
    measures: ClassVar[str] = "distance correlation"


def distance_sums(x: Vector, y: Vector) -> tuple[GramSums, SortedColumns]:
    """Sums of the matrices of distances |x_i - x_j| and |y_i - y_j|, and the sorted columns.

    `GramSums.hsic` is the squared distance covariance, as a V-statistic or U-centred, and
    `GramSums.own` gives the squared distance variances.

    Parameters
    ----------
    x, y : ndarray, shape (n,)
        Two columns, finite.

    Returns
    -------
    GramSums
        Those of two variables, with a diagonal of zeros.
    SortedColumns

    References
    ----------
    .. [1] X. Huo, G. Szekely. Fast computing for distance covariance. Technometrics 58, 2016.
    .. [2] A. Chaudhuri, W. Hu. A fast algorithm for computing distance correlation. Computational
       Statistics and Data Analysis 135, 2019.

    Examples
    --------
    >>> import numpy as np
    >>> sums, _ = distance_sums(np.array([0.0, 1.0, 3.0]), np.array([1.0, 0.0, 2.0]))
    >>> sums.rows
    array([[4., 3., 5.],
           [2., 3., 3.]])
    >>> sums.hsic(unbiased=False).round(4)
    array([0.5926])
    """
    columns = SortedColumns.of(x, y)
    rows = np.stack([_row_sums(x), _row_sums(y)])
    # sum_ij (v_i - v_j)^2 = 2 n sum_i (v_i - mean)^2, about the mean so that no digits cancel.
    squares = np.array([2.0 * len(v) * np.square(v - v.mean()).sum() for v in (x, y)])
    joint = np.array([columns.joint(np.arange(len(x)))])
    return GramSums(rows, np.zeros_like(rows), squares, joint, ((0, 1),)), columns


def sorted_without(session: Session) -> Callable[[int | None], GramSums]:
    """As `DeletedSums.without`, of the two single columns of a run, in blocks at random."""
    assert session.deletion is not None
    n, blocks = session.n, session.deletion.blocks
    numbers = block_numbers(session.seed, n, blocks)
    session.deletion.sizes[:] = np.bincount(numbers, minlength=blocks).tolist()
    whole = session.leaving_out(None)
    whole.step("sums of distances")
    columns = [_half(values) for values in whole.take([np.arange(n)] * 2)]

    def without(number: int | None) -> GramSums:
        x, y = columns if number is None else (column[numbers != number] for column in columns)
        return distance_sums(x, y)[0]

    return without


@dataclass(frozen=True)
class SortedColumns:
    """Two columns, sorted once for the sums of many pairings of their rows.

    Parameters
    ----------
    x : ndarray, shape (n,)
        The first column with mean 0, increasing.
    order : ndarray of int, shape (n,)
        The row of each of its values.
    y : ndarray, shape (n,)
        The second column with mean 0, in the order of the rows.
    ranks : ndarray of int, shape (n,)
        The place of each of its values when sorted, ties in any order.

    Examples
    --------
    >>> import numpy as np
    >>> columns = SortedColumns.of(np.array([0.0, 1.0, 3.0]), np.array([1.0, 0.0, 2.0]))
    >>> columns.joint(np.array([0, 1, 2])), columns.joint(np.array([2, 0, 1]))
    (16.0, 18.0)
    """

    x: Vector
    order: Ranks
    y: Vector
    ranks: Ranks

    @classmethod
    def of(cls, x: Vector, y: Vector) -> Self:
        """Sort two columns, shapes (n,)."""
        order = np.argsort(x)
        ranks = np.empty(len(y), np.intp)
        ranks[np.argsort(y)] = np.arange(len(y))
        # About the means, or the sums of products would cancel where values lie far from 0.
        return cls((x - x.mean())[order], order, y - y.mean(), ranks)

    def joint(self, pairing: NDArray[np.intp]) -> float:
        """sum_ij |x_i - x_j| |y_p(i) - y_p(j)| for a permutation p, shape (n,).

        Takes time O(n log n) and memory O(n). With x increasing a pair i < j has the product
        (x_j - x_i) |y_j - y_i|, so the sum is four times that of (x_j - x_i) (y_j - y_i) over the
        pairs with y_i < y_j, less twice that over all pairs. Ties add zero to either.
        """
        moved = pairing[self.order]
        y, ranks = self.y[moved], self.ranks[moved]
        n, products = len(y), self.x * y
        # A value is in n - 1 - place - rank + 2 c pairs with y_i < y_j, in c of them as the later.
        earlier = float(products @ (n - 1.0 - np.arange(n) - ranks))
        # One cumulative sum of complex numbers serves both columns.
        ordered = earlier + _later_terms(self.x + 1j * y, ranks)
        # sum_{i<j} (x_j - x_i)(y_j - y_i) = n sum x y - sum x sum y, without a loop over pairs.
        everything = n * products.sum() - self.x.sum() * y.sum()
        # |d| = 2 max(d, 0) - d for every pair, and both orders of it: 2 (2 ordered - everything).
        return float(4.0 * ordered - 2.0 * everything)


@dataclass(frozen=True)
class _Sorted:
    """n times squared distance covariance of two columns, the second permuted."""

    columns: SortedColumns
    sums: GramSums
    orbit: Orbit
    cosets: range
    """Those of the replicates."""
    unbiased: bool

    def __call__(self, replicates: range) -> Vector:
        """Under some permutations, shape (r,)."""
        values = []
        for coset in self.cosets[replicates.start : replicates.stop]:
            order = self.orbit.places(range(coset, coset + 1), 1)[0]
            # A permutation moves row sums along with rows, and changes the joint sum alone.
            rows = np.stack([self.sums.rows[0], self.sums.rows[1][order]])
            joint = np.array([self.columns.joint(order)])
            moved = self.sums._replace(rows=rows, joint=joint)
            values.append(moved.n * moved.hsic(unbiased=self.unbiased))
        return np.concatenate(values)


@dataclass(frozen=True)
class SortedStatistic(Statistic[tuple[Matrix, ...]]):
    """n times a multiple of the squared distance covariance of two columns, by sorting.

    Parameters
    ----------
    unbiased : bool
        U-statistics.
    factor : callable
        The multiple, from the sums.
    tell : callable
        What is to be kept of what is found of the data.
    """

    errors_of_roots: ClassVar[bool] = False

    unbiased: bool
    factor: Callable[[GramSums], Vector | float]
    tell: Tell

    def __len__(self) -> int:
        return 1

    def part(self, numbers: Sequence[int]) -> Self:
        """The only one."""
        return self

    def orbit(self, session: Session, null: Resampling | None) -> Orbit:
        """Permutations of all rows, or none."""
        if isinstance(null, Permutation):
            return orbit_of(session, null)
        return Orbit(whole_group(session), 1, shifted=False)

    def over(self, orbit: Orbit, cosets: range) -> RowsPass:
        """All rows are sorted by this process."""
        return RowsPass(orbit, cosets, (1, 1))

    def step(self, session: Session, reduction: RowsPass) -> DriverStep:
        """Bytes of the sorted columns and their sums."""
        permutes = len(reduction.orbit) > 1
        needed = session.n * (64 + 120 * (session.runtime.threads if permutes else 1))
        return DriverStep("permutation null" if permutes else "sums of distances", needed)

    def values(self, session: Session, reduction: RowsPass, sums: Any) -> Permuted:
        """The statistic and its replicates."""
        found, columns = distance_sums(*map(_half, sums))
        orbit, cosets = reduction.orbit, reduction.cosets
        values = [session.n * found.hsic(unbiased=self.unbiased)] if cosets.start == 0 else []
        if drawn := range(max(cosets.start, 1), cosets.stop):
            moved = _Sorted(columns, found, orbit, drawn, self.unbiased)
            values += session.map("permutation null", moved, len(drawn))
        factor = self.factor(found)
        errors = factor * found.rounding(np.dtype(np.float64))
        told = self.tell(GramFound(found, np.zeros(2)))
        return Permuted((factor * np.concatenate(values))[:, None], errors, told)


def _later_terms(points: PlanePoints, ranks: Ranks) -> float:
    """Sum of Im z_j (z_j - z_i) over the pairs i < j whose ranks increase.

    It is 2 x_j y_j - x_j y_i - x_i y_j with z = x + iy. The highest bit in which two ranks differ
    says which is larger. So points are split by one bit after the other, from the highest: those
    that share the higher bits stand together, in order, and the pairs of a bit are counted by
    cumulative sums over the points without it.
    """
    total = 0.0
    for bit in reversed(range((len(ranks) - 1).bit_length())):
        half = 1 << bit
        terms, low, high = _split_by_bit(points, ranks, half)
        total += terms
        # Halves that fit the cache are sorted further in place; larger ones are taken one after
        # another.
        if len(ranks) > _IN_CACHE:
            return total + _later_terms(*low) + _later_terms(*high)
        points, ranks = (_alternate(a, b, half) for a, b in zip(low, high, strict=True))
    return total


def _split_by_bit(
    points: PlanePoints, ranks: Ranks, half: int
) -> tuple[float, tuple[PlanePoints, Ranks], tuple[PlanePoints, Ranks]]:
    """The terms of one bit of the ranks, and the points without and with it.

    Points come in groups of 2 half ranks, of which the last may lack some. What takes memory here
    is freed before the halves are sorted further.
    """
    bit = (ranks & half).astype(bool)
    without, having = np.flatnonzero(~bit), np.flatnonzero(bit)
    low, high = points[without], points[having]
    sums = np.zeros(len(low) + 1, np.complex128)
    np.cumsum(low, out=sums[1:])
    number = np.arange(len(high))
    before = having - number  # points without the bit; `first` are those of earlier groups
    first = number & -half
    terms = (before - first) * high
    terms -= sums[before]
    terms += sums[first]
    return float((high @ terms).imag), (low, ranks[without]), (high, ranks[having])


def _alternate(low: NDArray[Any], high: NDArray[Any], half: int) -> NDArray[Any]:
    """Groups of `half` values in turns; only the last of either may lack some."""
    whole = len(high) // half * half
    pairs = np.stack([low[:whole].reshape(-1, half), high[:whole].reshape(-1, half)], axis=1)
    return np.concatenate([pairs.ravel(), low[whole:], high[whole:]])


def _row_sums(values: Vector) -> Vector:
    """sum_j |v_i - v_j|, shape (n,)."""
    n, order = len(values), np.argsort(values)
    # About the mean, where cumulative sums keep their digits.
    ordered = values[order] - values.mean()
    below = np.cumsum(ordered) - ordered
    sums = np.empty(n)
    # Sorted, |v_i - v_j| has no sign to decide: the sums below and above are cumulative ones.
    sums[order] = (2 * np.arange(n) - n) * ordered + ordered.sum() - 2.0 * below
    return sums


FEWEST_BLOCK_ROWS = 4  # of the unbiased estimate
# Where fewer rows show dependence than twice the root of the blocks, 6 % of true nulls were
# rejected at level 1 %.
_A_ROOT_OF_BLOCKS = 2.0
_ROUNDING = 1e-12  # of a sum of squares


@dataclass(frozen=True)
class BlockHSIC(Estimator):
    """Mean of the unbiased HSIC of blocks of consecutive rows, for two variables.

    The cost is n times the number of rows of a block, in one pass. The test statistic is the
    estimate over its standard error under the null hypothesis, under which the mean of many
    independent blocks is approximately normal. With fewer rows in a block the distribution is
    closer to the normal, but power is lower.

    With permuted pairs, the standard error is that of the same means over a random permutation
    within every block, whose expectation is 0; the direct one is the root of
    2 A_x A_y / (m b (b - 3)) for m blocks of b rows, where A is the mean over blocks of the
    unbiased HSIC of a variable with itself. With A of the block this is the variance over all
    permutations of the block, for every b.

    Parameters
    ----------
    block_rows : int, optional
        Rows of a block, 4 or more. Blocks take some rows more if rows would be left over.
    exponent : float, optional
        g of n^g rows in a block, in (0, 1), used if `block_rows` is not given.

    Raises
    ------
    InvalidArgumentError
        `block_rows` is less than 4, or `exponent` is not between 0 and 1.

    References
    ----------
    .. [1] Q. Zhang, S. Filippi, A. Gretton, D. Sejdinovic. Large-scale kernel methods for
       independence testing. Statistics and Computing 28, 2018, section 3.
    .. [2] L. Song, A. Smola, A. Gretton, J. Bedo, K. Borgwardt. Feature selection via dependence
       maximization. JMLR 13, 2012.
    .. [3] W. Zaremba, A. Gretton, M. Blaschko. B-test: a non-parametric, low variance kernel
       two-sample test. NIPS 2013.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x, noise = np.random.default_rng(0).standard_normal((2, 5000))
    >>> result = dhsic.independence_test(x, x**2 + noise, estimator=BlockHSIC(block_rows=50), rng=0)
    >>> result.pvalue < 0.01
    True
    """

    block_rows: int | None = None
    exponent: float = 0.5

    name: ClassVar[str] = "block-hsic"
    nulls: ClassVar[tuple[type[Any], ...]] = (Normal,)
    cost: ClassVar[str] = "n b"

    def __post_init__(self) -> None:
        if self.block_rows is not None:
            check_integer("block_rows", self.block_rows, minimum=FEWEST_BLOCK_ROWS)
        check_level(self.exponent, "exponent", "take 0.5 for as many blocks as rows of a block")

    def choose_null(self, session: Session, n_resamples: int) -> tuple[Null, str]:
        """The normal distribution: there is no other."""
        blocks, _ = self.blocks(session.n)
        return Normal(), f"the mean over {blocks:,} blocks of rows is nearly normal"

    def plan(self, session: Session, combinations: Combinations, null: Null | None) -> Plan:
        """The plan."""
        planned = session.plan(self._pass(session, combinations.kernels, null))
        return plan_of(
            session, [fitting_step(session), planned], "take smaller block_rows or fewer threads"
        )

    def estimate(self, session: Session, kernels: Sequence[Kernel]) -> Estimate:
        """The mean over blocks, in one pass."""
        self.blocks(session.n)  # refuses few rows before any are read
        fitted, _ = fit_on_sample(session, kernels)
        return Estimate(session.reduce(self._pass(session, fitted, None)).mean, fitted)

    def test(self, session: Session, kernels: Sequence[Kernel], null: Null) -> Outcome:
        """The estimate over its standard error, in one pass."""
        assert isinstance(null, Normal)
        count, _ = self.blocks(session.n)
        fitted, samples = fit_on_sample(session, kernels)
        remedy = "take another estimator, with null='auto', which is exact"
        needs = Needs(_A_ROOT_OF_BLOCKS * math.sqrt(count), remedy=remedy)
        note = guard_kernels(session, Combinations.single(fitted), samples, null.name, needs)
        reduction = self._pass(session, fitted, null)
        sums, b = session.reduce(reduction), reduction.block_rows
        variance, df = sums.null_variance(null, b)
        check_no_overflow(sums.mean, variance)
        left_out = session.n - sums.blocks * b
        detail = f"{sums.blocks:,} blocks of {b:,} rows, {left_out:,} rows left out"
        estimate = Estimate(sums.mean, fitted)
        if not variance > 0.0:  # a variable is constant but for one row in every block
            silent = f"{detail}, of which none can show dependence: take larger block_rows"
            return Outcome(0.0, GammaDistribution(0.0, 0.0), estimate, silent)
        detail = "; ".join(filter(None, (detail, note)))
        # The standard error of a mean over independent blocks: Zhang et al. (2018), (16).
        error = math.sqrt(variance / sums.blocks)
        # The statistic is the mean over its error, and so is its rounding, from independent errors
        # of every entry.
        size = sums.sizes / sums.blocks
        rounding = rounding_unit(session.dtype) * size / (b * math.sqrt(sums.blocks)) / error
        return Outcome(sums.mean / error, StudentT(df), estimate, detail, rounding)

    def _pass(self, session: Session, kernels: Sequence[Kernel], null: Null | None) -> BlockPass:
        _, b = self.blocks(session.n)
        permuted = isinstance(null, Normal) and null.variance == "permutation"
        seed = session.seed if permuted else None
        return BlockPass(tuple(kernels), session.dims, b, seed, session.dtype)

    def blocks(self, n: int) -> tuple[int, int]:
        """Number of blocks of n rows and rows of each, as even as they can be."""
        # n^g rows with 0 < g < 1: blocks grow, and so does their number (Zhang et al. 2018, section
        # 3.3).
        rows = self.block_rows or max(FEWEST_BLOCK_ROWS, round(n**self.exponent))
        blocks = n // rows
        # One block has no variance over blocks.
        if blocks < 2:
            msg = (
                f"{self.name} needs 2 blocks of {FEWEST_BLOCK_ROWS} rows or more, got {n} rows in "
                f"blocks of {rows}: take smaller block_rows, more rows, or estimator='u-hsic'"
            )
            raise InvalidArgumentError(msg)
        # Rows that are left over are shared among the blocks.
        return blocks, n // blocks


class BlockSums(NamedTuple):
    """Sums over blocks of rows, of their unbiased HSIC."""

    blocks: int
    """Number of blocks."""
    values: float
    """Of their HSIC."""
    squares: float
    """Of its squares."""
    permuted: float
    """Of the squares of their HSIC with permuted pairs."""
    norms: Vector
    """Of the HSIC of either variable with itself, shape (2,)."""
    sizes: float
    """Of the product of the sizes of either kernel, to tell what is rounding."""

    @property
    def mean(self) -> float:
        """Mean of the HSIC of blocks."""
        return float(self.values / self.blocks)

    def null_variance(self, null: Normal, block_rows: int) -> tuple[float, float]:
        """Variance of a block's HSIC under the null hypothesis, and its degrees of freedom.

        Parameters
        ----------
        null : Normal
            Where it comes from.
        block_rows : int
            Rows of a block, b.

        Returns
        -------
        variance, df : float
            "direct" is [1]_ (17)-(21) with the factor 2 / (b (b - 3)), the variance over all
            permutations of a block; "permutation" has the degrees of freedom of all blocks, since
            the mean over permutations is 0.

        References
        ----------
        .. [1] Q. Zhang, S. Filippi, A. Gretton, D. Sejdinovic. Large-scale kernel methods for
           independence testing. Statistics and Computing 28, 2018, section 3.
        """
        if null.variance == "direct":
            # Zhang et al. (2018), section 3: the norms of either U-centred Gram matrix,
            # each averaged over all blocks, which have one law.
            first, second = (self.norms / self.blocks).tolist()
            return 2.0 * first * second / (block_rows * (block_rows - 3)), math.inf
        if null.variance == "permutation":
            # Under the null hypothesis the mean is known to be 0, so that none is taken off.
            return self.permuted / self.blocks, self.blocks
        # This variance grows with HSIC, which costs power (Zhang et al. 2018, section 3.3). Where
        # all blocks are alike, their squares leave rounding, which is no variance.
        left = self.squares - self.values * self.mean
        deviations = left if left > _ROUNDING * self.squares else 0.0
        return deviations / (self.blocks - 1), self.blocks - 1


@dataclass(frozen=True)
class BlockPass(Pass[BlockSums]):
    """The unbiased HSIC of blocks of consecutive rows (Zhang et al. 2018, equation 14).

    Parameters
    ----------
    kernels : tuple of Kernel
        Two fitted kernels.
    dims : tuple of int
        Columns of both variables.
    block_rows : int
        Rows of a block, b; a last block of fewer is left out.
    seed : int or None
        The seed of the test, to permute the pairs within every block too.
    dtype : dtype
        Precision of the Gram matrices.
    """

    kernels: tuple[Kernel, ...]
    dims: tuple[int, ...]
    block_rows: int
    seed: int | None
    dtype: np.dtype[Any]
    name: str = "block HSIC"

    @property
    def row_multiple(self) -> int:
        """Blocks of rows are blocks of the statistic, or several."""
        return self.block_rows

    def footprint(self, rows: int) -> Footprint:
        """Gram matrices of both variables, what one is computed with, and prepared rows."""
        widths = sum(k.width(d) for k, d in zip(self.kernels, self.dims, strict=True))
        grams = 3 + max(kernel.work_tiles for kernel in self.kernels)
        scratch = grams * self.block_rows**2 * self.dtype.itemsize + 4 * 8 * rows * widths
        return Footprint(0, scratch, 128)

    def chunk(self, block: RowBlock) -> BlockSums:
        """Sums over the whole blocks among the rows."""
        b, pairs = self.block_rows, list(zip(self.kernels, block.values, strict=True))
        rows = [kernel.rows(x, self.dtype) for kernel, x in pairs]
        columns = [kernel.columns(x, self.dtype) for kernel, x in pairs]
        tiles = 2 + max(kernel.work_tiles for kernel in self.kernels)
        buffers = np.empty((tiles, b, b), self.dtype)
        first, second, work = buffers[0], buffers[1], buffers[2:]
        sums = BlockSums(0, 0.0, 0.0, 0.0, np.zeros(2), 0.0)
        # For U-centred matrices: Zhang et al. (2018), (6) and (14), in the form of Song et al.
        # (2012).
        scale = 1.0 / (b * (b - 3))
        # A task holds whole blocks of the statistic, which begin at multiples of b in the data.
        for start in range(0, block.rows - b + 1, b):
            at = slice(start, start + b)
            for kernel, x, y, out in zip(self.kernels, rows, columns, (first, second), strict=True):
                kernel.tile(x[at], y[at], out, work)
            sizes = _u_centre(first) * _u_centre(second)
            norms = np.array([np.vdot(gram, gram) for gram in (first, second)], np.float64)
            value, permuted = scale * float(np.vdot(first, second)), 0.0
            if self.seed is not None:
                # The key is the first row of the block, so that the order does not depend on tasks.
                order = draw_permutations(self.seed, block.start + start, b, 1, 2)[0, 0]
                permuted = scale * float(np.vdot(first, second[np.ix_(order, order)]))
            one = BlockSums(1, value, value**2, permuted**2, scale * norms, sizes)
            sums = self.combine(sums, one)
        return sums


def _u_centre(gram: Matrix) -> float:
    """U-centre a Gram matrix in place: rows without the diagonal sum to 0; return its size before.

    The mean product of two such matrices, over b (b - 3), is the unbiased HSIC of Song et al.
    (2012). Nothing large cancels in it, so that float32 keeps its digits.
    """
    np.fill_diagonal(gram, 0.0)
    # U-centring divides a row sum by b - 2, and the total by (b - 1) (b - 2).
    means = column_sums(gram).astype(np.float64) / (len(gram) - 2)
    centre(gram, means, unbiased=True)
    return float(np.abs(means).mean())
