"""HSIC from every pair of rows: what the linear-time estimators approximate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from dhsic._validation import check_flag
from dhsic.engine.session import Session
from dhsic.errors import InvalidArgumentError
from dhsic.estimators.approximate import guard_grams
from dhsic.estimators.base import (
    Estimator,
    Guess,
    Null,
    Prepared,
    fit_combinations_on_sample,
    fitting_step,
)
from dhsic.estimators.identities import compared_in_samples, left_out_text
from dhsic.estimators.outcomes import Estimate, Outcome
from dhsic.kernels import Columns, Combinations, Gaussian, Kernel
from dhsic.nulls import (
    Chain,
    ChiSquareMixture,
    Distribution,
    Gamma,
    GammaDistribution,
    Permutation,
    Resampling,
    Shifts,
    Spectral,
)
from dhsic.statistics.gram import GramFound, GramStatistic, rows_in_order
from dhsic.statistics.gram_sums import GramSums, check_rows, null_moments
from dhsic.statistics.orbit import Replicated
from dhsic.statistics.replicate import Statistic, replicate

Vector = NDArray[np.float64]
Tell = Callable[[GramFound], Any]


class GramFit(NamedTuple):
    """An estimate from all pairs of rows, with all that it is made of."""

    means: Vector
    """Row means of the Gram matrices, shape (M, n)."""
    estimate: Estimate
    """The estimate."""


class GramSizes(NamedTuple):
    """What all pairs of rows say of C combinations."""

    estimates: Vector
    """The multiple of squared HSIC, shape (C,)."""
    own: Vector
    """Squared HSIC of every variable with itself, shape (C, M)."""


class Quadratic(Estimator):
    """Estimate and test of a multiple of the squared HSIC by all pairs of rows.

    Estimators derive from it: they say what the multiple is, and which kernels it takes.
    """

    nulls: ClassVar[tuple[type[Any], ...]] = (Shifts, Permutation, Gamma, Spectral)
    cost: ClassVar[str] = "n^2"
    remedy: ClassVar[str] = (
        "take estimator='nystrom-m', fewer rows, fewer kernels ('gaussian' is one), or fewer "
        "resamples"
    )

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

    def factor(self, sums: GramSums) -> Vector | float:
        """The factors of the squared HSIC; permutations must leave them as they are."""
        del sums
        return 1.0

    def reported(self, size: float) -> float:
        """The estimate, from the multiple of the squared HSIC."""
        return size

    def statistic(
        self,
        session: Session,
        combinations: Combinations,
        samples: Sequence[Vector],
        null: Null | None,
        tell: Tell,
    ) -> Statistic[Any]:
        """The statistic of kernels that are fitted; a limit law needs the diagonal."""
        return GramStatistic(
            combinations,
            tuple(samples),
            session.dims,
            session.dtype,
            unbiased=self.unbiased and isinstance(null, Resampling),
            limit=isinstance(null, Spectral),
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
        tell = partial(self.tell, ranked=combinations.features)
        return self._prepare(session, combinations, null, tell)[0]

    def tell(self, found: GramFound, *, ranked: bool = False) -> GramSizes:
        """What is kept of the sums of the data; a ranking divides by V-statistics."""
        unbiased = self.unbiased if ranked else self.unbiased_estimate
        sizes = self.factor(found.sums) * found.sums.hsic(unbiased=unbiased)
        return GramSizes(sizes, found.sums.own(unbiased=self.unbiased))

    def fit(self, session: Session, kernels: Sequence[Kernel]) -> GramFit:
        """The estimate with all that it is made of."""

        def tell(found: GramFound) -> tuple[GramSizes, Vector]:
            means = found.sums.rows / session.n + found.centres[:, None]
            return self.tell(found), means

        prepared, _ = self._prepare(session, Combinations.single(kernels), None, tell)
        orbit = prepared.statistic.orbit(session, None)
        ((_, (sizes, means)),) = replicate(session, prepared.statistic, orbit).data
        in_order = np.empty_like(means)
        in_order[:, rows_in_order(orbit.groups)] = means
        estimate = self._estimate(sizes.estimates[0], prepared.combinations.kernels)
        return GramFit(in_order, estimate)

    def test_each(
        self, session: Session, combinations: Combinations, null: Gamma | Spectral
    ) -> list[Outcome]:
        """The outcome of every combination by itself, by a law of its own."""
        tell = partial(self._laws, null, session.seed)
        prepared, samples = self._prepare(session, combinations, null, tell)
        fitted = prepared.combinations
        note = guard_grams(session, fitted, samples, null)
        found = replicate(session, prepared.statistic, prepared.statistic.orbit(session, None))
        outcomes, told = [], chain.from_iterable(some for _, some in found.data)
        for c, (size, estimate, law) in enumerate(told):
            value = self._estimate(estimate, fitted.kernels_of(c))
            statistic, rounding = session.n * size, float(found.rounding[c])
            outcomes.append(Outcome(statistic, law, value, note, rounding))
        return outcomes

    def _prepare(
        self, session: Session, combinations: Combinations, null: Null | None, tell: Tell
    ) -> tuple[Prepared, list[Vector]]:
        self._check(session, combinations, null)
        fitted, samples = fit_combinations_on_sample(session, combinations)
        # Kernels that are 0 between nearly all rows are left out of a grid: their replicates have
        # heavy tails, which cost the others their power.
        if len(fitted) > 1 and isinstance(null, Resampling) and not fitted.features:
            numbers = compared_in_samples(fitted, samples, session.n)
            fitted = fitted.part(numbers) if len(numbers) < len(fitted) else fitted

        def estimate(found: Replicated, c: int) -> Estimate:
            return self._estimate(_gram_sizes(found).estimates[c], fitted.kernels_of(c))

        return Prepared(
            fitted,
            self.statistic(session, fitted, samples, null, tell),
            estimate,
            left_out_text(len(combinations) - len(fitted)),
            lambda found: _gram_sizes(found).own,
        ), samples

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

    def _estimate(self, size: float, kernels: tuple[Kernel, ...]) -> Estimate:
        return Estimate(self.reported(float(size)), kernels, quantity=self.quantity)

    def _laws(
        self, null: Gamma | Spectral, seed: int, found: GramFound
    ) -> list[tuple[float, float, Distribution]]:
        """The size, the estimate and the law of n times the size of every combination."""
        laws = []
        for c in range(len(found.sums.chosen)):
            sums = found.sums.only(c)
            factor = float(np.ravel(self.factor(sums))[0])
            (size,), (estimate,) = (
                factor * sums.hsic(unbiased=unbiased)
                for unbiased in (self.unbiased, self.unbiased_estimate)
            )
            # Mean and variance over all permutations, as of the sums at hand; of a multiple the
            # variance goes with the square of the factor.
            mean, variance = null_moments(sums, unbiased=self.unbiased)
            moments = factor * mean, factor**2 * variance
            law: Distribution = GammaDistribution(*moments)
            if isinstance(null, Spectral) and (limit := found.limit) is not None:
                mixture = ChiSquareMixture(factor * limit.weights, factor * limit.shift)
                # Eigenvalues of a sample spread too far; the mean and the variance are those under
                # independence.
                law = null.distribution(mixture.with_moments(*moments), seed)
            laws.append((float(size), float(estimate), law))
        return laws


def _gram_sizes(found: Replicated) -> GramSizes:
    """Those of all combinations."""
    some = [sizes for _, sizes in found.data]
    return some[0] if len(some) == 1 else GramSizes(*map(np.concatenate, zip(*some, strict=True)))


@final
@dataclass(frozen=True)
class VHSIC(Quadratic):
    """V-statistic HSIC for two or more variables.

    The cost is quadratic in the rows: Gram tiles of pairs of row blocks are computed once, used
    and forgotten, in memory that does not grow with their number. The test statistic is n times
    the estimate. Shifts of rows, alone or in a chain, take one pass over pairs of groups of rows,
    with a Fourier transform of every tile. Permutations of all rows and the spectrum hold whole
    Gram matrices.

    Parameters
    ----------
    unbiased_estimate : bool, optional
        Whether the estimate is the unbiased one of `UHSIC`, negative at times, for two variables;
        the statistic stays. That is larger in expectation by a share of 1 / n, and finds more
        where data have heavy tails.

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
    nulls: ClassVar[tuple[type[Any], ...]] = (Shifts, Permutation, Chain, Gamma, Spectral)
    most_variables: ClassVar[int | None] = None
    takes_missing: ClassVar[bool] = True


@final
@dataclass(frozen=True)
class UHSIC(Quadratic):
    """U-statistic HSIC for two variables, unbiased and therefore negative at times.

    Computed as `VHSIC`, from Gram matrices whose diagonal is zero. The test statistic is n times
    the estimate.

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
    unbiased = True


@final
@dataclass(frozen=True)
class SubHSIC(Quadratic):
    """Mean squared HSIC of all pairs of columns, one of either variable: a simple baseline.

    It is V-HSIC with kernels that are means over columns, since HSIC is linear in either kernel.

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
    quantity = "mean squared HSIC of columns"

    def kernel(self, given: Kernel | None) -> Kernel:
        """The mean over columns of any kernel of one column, Gaussian where not given."""
        return Columns(given or Gaussian())
