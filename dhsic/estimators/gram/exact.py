"""HSIC from every pair of rows: what the linear-time estimators approximate."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from dhsic._validation import check_flag
from dhsic.engine.groups import Groups, RowGroups
from dhsic.engine.plan import DriverStep, PassPlan, Plan
from dhsic.engine.reduction import GroupBlock
from dhsic.engine.session import Session
from dhsic.engine.tiles import Matrix
from dhsic.errors import InvalidArgumentError
from dhsic.estimators.approximate import guard_grams
from dhsic.estimators.base import (
    BANDWIDTH_ROWS,
    Null,
    Resampling,
    fit_combinations_on_sample,
    fitting_step,
    plan_of,
)
from dhsic.estimators.gram.contraction import (
    BATCH,
    GramOrbit,
    GramPass,
    PairSums,
    RowPiece,
    rows_in_order,
)
from dhsic.estimators.gram.sums import (
    Centring,
    GramSums,
    check_rows,
    gram_hsic,
    limit_mixture,
    marginal_hsic,
)
from dhsic.estimators.identities import compared_in_samples, left_out_text
from dhsic.estimators.null_moments import null_moments
from dhsic.estimators.outcomes import (
    ColumnEstimates,
    Estimate,
    GridOutcome,
    Outcome,
)
from dhsic.estimators.resample import (
    Orbit,
    exact_null,
    keeping_replicates,
    orbit_of,
    whole_group,
)
from dhsic.kernels import Columns, Combinations, Gaussian, Kernel
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

_FEWEST = 512  # rows of a group: tiles of fewer take longer for a row
_VECTORS = 8  # of all rows, for every statistic
_REMEDY = (
    "take estimator='nystrom-m', fewer rows, fewer kernels ('gaussian' is one), or fewer resamples"
)


class CostedStep(NamedTuple):
    """A step with its cost."""

    cost: DriverStep | PassPlan
    """Its name, and the bytes that it takes."""
    run: Callable[[Any], Any]
    """Takes what the step before it returned, or None."""


class HeldGrams(NamedTuple):
    """Gram matrices of all rows that are held."""

    sums: PairSums
    """Their sums."""
    grams: list[Matrix]
    """One a kernel, shapes (n, n), about the pilots."""
    piece: RowPiece
    """The rows."""


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

    def reported(self, size: float) -> float:
        """The estimate, from the multiple of the squared HSIC."""
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

    def estimate(self, session: Session, kernels: Sequence[Kernel]) -> Estimate:
        """In one pass."""
        # One combination is one part, which is all that is unpacked here.
        fitted, _, ((_, grams),) = self._run(session, Combinations.single(kernels), None)
        return self._estimate(grams.sums_of(fitted.chosen[0]), fitted.kernels)

    def fit(self, session: Session, kernels: Sequence[Kernel]) -> GramFit:
        """The estimate with all that it is made of."""
        fitted, _, ((_, grams),) = self._run(session, Combinations.single(kernels), None)
        estimate = self._estimate(grams.sums_of(fitted.chosen[0]), fitted.kernels)
        return GramFit(grams.row_means(range(len(kernels))), estimate)

    def sizes(
        self, session: Session, combinations: Combinations
    ) -> tuple[Vector, Vector, Combinations]:
        """The sizes of all combinations, HSIC of every variable with itself, and the kernels."""
        fitted, _, parts = self._run(session, combinations, None)
        sums = [grams.sums_of(one) for part, grams in parts for one in part.chosen]
        own = np.array([marginal_hsic(one, unbiased=self.unbiased) for one in sums])
        return np.array([self._size(one, self.unbiased) for one in sums]), own, fitted

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
            for c, (one, error) in enumerate(zip(part.chosen, grams.rounding(), strict=True)):
                sums = grams.sums_of(one)
                factor, statistic = self.factor(sums), session.n * self._size(sums, self.unbiased)
                law = self._law(null, sums, grams.limit, session.seed)
                estimate = self._estimate(sums, part.kernels_of(c))
                outcomes.append(Outcome(statistic, law, estimate, note, factor * error))
        return outcomes

    def test_grid(
        self, session: Session, combinations: Combinations, null: Resampling
    ) -> GridOutcome:
        """Statistics of all combinations, and replicates that they share.

        As many combinations are taken at a time as fit in memory.
        """
        fitted, note, parts = self._run(session, combinations, null)
        found, replicates, done = [], np.empty((0, 0)), 0
        told: list[GramSums] = []
        for part, grams in parts:
            each = [grams.sums_of(one) for one in part.chosen]
            factors = np.array([self.factor(sums) for sums in each])
            used, at = np.unique(part.chosen, return_inverse=True)  # some may be in no combination
            own = marginal_hsic(grams.sums_of_kernels(used.tolist()), unbiased=self.unbiased)
            statistics, values, errors = grams.resampled()
            found.append((factors * statistics, factors * errors, own[at.reshape(len(part), -1)]))
            values *= factors
            note = note or grams.detail
            # An estimate of its own is told of one combination, and of those of columns none is.
            if self.unbiased_estimate != self.unbiased and not part.features:
                told += each
            # Each part has the replicates of some columns: all of them are held once alone.
            if not done:
                whole = len(part) == len(fitted)
                replicates = values if whole else np.empty((len(values), len(fitted)))
            if values is not replicates:
                replicates[:, done : done + len(part)] = values
            done += len(part)
            del values, grams
        statistics, errors, with_itself = (
            np.concatenate(some) for some in zip(*found, strict=True)
        )

        def estimate(c: int) -> Estimate:
            kernels = fitted.kernels_of(c)
            if told:
                return self._estimate(told[c], kernels)
            return Estimate(
                self.reported(statistics[c] / session.n), kernels, quantity=self.quantity
            )

        left_out = left_out_text(len(combinations) - len(fitted))
        detail = "; ".join(filter(None, (note, left_out)))
        columns = None
        if fitted.features:
            columns = ColumnEstimates(fitted, statistics / session.n, *with_itself.T)
        return GridOutcome(fitted, statistics, replicates, estimate, detail, errors, columns)

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

    def _size(self, sums: GramSums, unbiased: bool) -> float:
        """The multiple of the squared HSIC; n times it is the statistic."""
        return self.factor(sums) * gram_hsic(sums, unbiased=unbiased)

    def _estimate(self, sums: GramSums, kernels: tuple[Kernel, ...]) -> Estimate:
        value = self.reported(self._size(sums, self.unbiased_estimate))
        return Estimate(value, kernels, quantity=self.quantity)

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

    def _run(
        self, session: Session, combinations: Combinations, null: Null | None
    ) -> tuple[Combinations, str, Iterator[tuple[Combinations, Any]]]:
        """Fit the kernels, guard the null, and run the steps of part after part."""
        self._check(session, combinations, null)
        fitted, samples = fit_combinations_on_sample(session, combinations)
        parts, planned = self._planned(session, combinations, null)
        # Kernels that are 0 between nearly all rows are left out of a grid: their replicates have
        # heavy tails, which cost the others their power.
        if len(fitted) > 1 and isinstance(null, Resampling) and not fitted.features:
            numbers = compared_in_samples(fitted, samples, session.n)
            if len(numbers) < len(fitted):
                left = (sum(c in part for c in numbers) for part in parts)
                ends = accumulate(filter(None, left), initial=0)
                fitted, parts = fitted.part(numbers), [range(*both) for both in pairwise(ends)]
        note = ""
        if isinstance(null, Gamma | Spectral):
            note = guard_grams(session, fitted, samples, null)
        cut = _cut(fitted, parts)
        # Generators: a part is read and summed only once the one before it is done.
        steps = (self._steps(session, part, samples, null, planned) for part in cut)
        runs = (run_steps(session, some) for some in steps)
        return fitted, note, zip(cut, runs, strict=True)

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
        samples = [np.zeros((min(session.n, BANDWIDTH_ROWS), d)) for d in session.dims]

        def planned(size: int) -> _Planned:
            parts = [range(at, min(at + size, count)) for at in range(0, count, size)]
            # Kernels are not fitted yet: bytes depend on no value.
            guessed = (part.guessed(session.dims) for part in _cut(combinations, parts))
            steps = (self._steps(session, part, samples, null) for part in guessed)
            plan = plan_steps(session, steps)
            return _Planned(parts, keeping_replicates(plan, combinations, null))

        if isinstance(null, Spectral):
            return planned(1)
        whole = planned(count)
        if count == 1 or whole.plan.fits:
            return whole
        # As many at a time as fit, where the dearest of the parts decides: kernels of some take
        # more than those of others.
        sizes = range(1, count)
        return planned(max(bisect_left(sizes, True, key=lambda k: not planned(k).plan.fits), 1))

    def _steps(
        self,
        session: Session,
        fitted: Combinations,
        samples: Sequence[Vector],
        null: Null | None,
        planned: Plan | None = None,
    ) -> list[CostedStep]:
        """All that a run does once kernels are fitted; the last step returns a `GramOrbit`.

        Gram matrices of permutations of all rows, and those that eigenvalues are taken of, are
        held, others pass by in tiles.
        """
        if isinstance(null, Spectral):
            return _spectral_steps(session, fitted, samples)
        unbiased = self.unbiased and isinstance(null, Resampling)
        orbit = _orbit(session, fitted, null)
        reduction = GramPass.of(session, fitted, samples, orbit, unbiased=unbiased)
        if isinstance(null, Permutation) and orbit.groups.count == 1:
            return [*_permuting_steps(session, reduction), _statistics(session, reduction)]
        # The plan of one block is that of all, also of fewer kernels: it was made when the
        # estimator was chosen.
        known = () if planned is None else planned.passes
        one = len(known) == 1 and known[0].blocks == 1 and reduction.one_block
        plan = known[0] if one else session.plan(reduction)
        step = CostedStep(plan, lambda _: session.reduce(reduction, plan))
        return [step, _statistics(session, reduction)]


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
    takes_missing: ClassVar[bool] = True

    def estimate_features(self, session: Session, combinations: Combinations) -> ColumnEstimates:
        """The estimates of as many features at a time as fit in memory."""
        values, with_itself, fitted = self.sizes(session, combinations)
        return ColumnEstimates(fitted, values, *with_itself.T)


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
    takes_missing: ClassVar[bool] = True

    @property
    def unbiased(self) -> bool:
        """The U-statistic."""
        return True


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

    @property
    def quantity(self) -> str:
        """The name of the estimate."""
        return "mean squared HSIC of columns"

    def kernel(self, given: Kernel | None) -> Kernel:
        """The mean over columns of any kernel of one column, Gaussian where not given."""
        return Columns(given or Gaussian())


def _cut(combinations: Combinations, parts: Sequence[range]) -> list[Combinations]:
    return [combinations.part(numbers) for numbers in parts] if len(parts) > 1 else [combinations]


def _orbit(session: Session, combinations: Combinations, null: Null | None) -> Orbit:
    """The permutations of a null; of none the data alone."""
    if isinstance(null, Permutation):
        # All rows are permuted where half the memory holds what that takes for one combination, of
        # which as many are taken at a time as fit, and the orders of a batch of permutations.
        held = _gram_bytes(session, combinations.part([0]))
        held += 8 * session.n * BATCH * (len(session.sources) - 1)
        return orbit_of(session, null, lambda _: held <= session.runtime.memory // 2)
    if isinstance(null, Shifts):
        # More shifts than rows of a small group are of several cosets. They are more than were
        # asked for where fewer would take longer.
        asked = replace(null, n_resamples=max(null.n_resamples, min(session.n, _FEWEST)))
        return session.once(("orbit", asked), lambda: orbit_of(session, asked))
    return Orbit(Groups.of(session.n, min(session.n, _FEWEST), session.seed), 1, shifted=False)


def _permuting_steps(session: Session, reduction: GramPass) -> list[CostedStep]:
    """Hold the Gram matrices, and take their permutations by number, where tasks run."""

    def permute(held: HeldGrams) -> PairSums:
        grams: dict[tuple[int, ...], Matrix] = {(k,): x for k, x in enumerate(held.grams)}
        function = reduction.permuted(grams, held.piece, held.piece)
        parts = session.map(reduction.name, function, reduction.orbit.cosets - 1)
        # The data were summed when the matrices were made.
        held.sums.products[1:, :, 0] = np.concatenate(parts)
        return held.sums

    working = session.runtime.threads * reduction.permuting_bytes(session.n)
    cost = DriverStep(reduction.name, working + reduction.state_bytes())
    return [*held_steps(session, reduction), CostedStep(cost, permute)]


def _spectral_steps(
    session: Session, combinations: Combinations, samples: Sequence[Vector]
) -> list[CostedStep]:
    """Hold the Gram matrices of one combination, and take their eigenvalues."""
    reduction = held_pass(session, combinations, samples)

    def solve(held: HeldGrams) -> GramOrbit:
        grams = GramOrbit(reduction, held.sums)
        centring = Centring.of(grams.sums_of(combinations.chosen[0]), unbiased=False)
        return replace(grams, limit=limit_mixture(held.grams, centring))

    # Eigenvalues of products of many kernels take workspaces for each centred matrix.
    working = 8 * session.n**2 * (2 if len(session.sources) == 2 else 8)
    cost = DriverStep("eigenvalues", working)
    return [*held_steps(session, reduction), CostedStep(cost, solve)]


def _statistics(session: Session, reduction: GramPass) -> CostedStep:
    values = 8 * len(reduction.statistics) * (3 * len(reduction.orbit) + _VECTORS * session.n)
    cost = DriverStep("statistics", reduction.state_bytes() + values)
    return CostedStep(cost, lambda sums: GramOrbit(reduction, sums))


def _gram_bytes(session: Session, combinations: Combinations) -> int:
    """Bytes of the Gram matrices of all rows."""
    return session.dtype.itemsize * session.n**2 * len(combinations.kernels)


def run_steps(session: Session, steps: Iterable[CostedStep]) -> Any:
    """Run one step after another, and return what the last one returns.

    Passes over data and over resamples tell of themselves when they start.
    """
    value = None
    for cost, run in steps:
        if isinstance(cost, DriverStep):
            session.step(cost.name)
        value = run(value)
    return value


def plan_steps(
    session: Session, parts: Iterable[Sequence[CostedStep]], remedy: str = _REMEDY
) -> Plan:
    """The plan of steps in parts, after the kernels of combinations are fitted.

    Whatever a part holds is gone when the next one starts, so its steps count what is held by them.
    """
    costs: list[DriverStep | PassPlan] = [fitting_step(session)]
    for part in parts:
        # A step holds its bytes for those of its own part, and parts come one after another.
        held = 0
        for cost, _ in part:
            if isinstance(cost, PassPlan):
                costs.append(replace(cost, worker_bytes=cost.worker_bytes + held))
            else:
                costs.append(replace(cost, working_bytes=cost.working_bytes + held, held_bytes=0))
                held += cost.held_bytes
    return plan_of(session, costs, remedy)


def read_step(session: Session, groups: RowGroups) -> CostedStep:
    """Read all rows, into one `GroupBlock`."""
    # Read once, since all pairs of rows meet.
    rows = 8 * session.n * sum(session.dims)

    def read(_: None) -> GroupBlock:
        numbers = [rows_in_order(groups)] * len(session.sources)
        return GroupBlock(0, groups, tuple(session.take(numbers)))

    return CostedStep(DriverStep("read all rows", 3 * rows, rows), read)


def held_pass(session: Session, combinations: Combinations, samples: Sequence[Vector]) -> GramPass:
    """All rows as one group, and no permutation of them."""
    orbit = Orbit(whole_group(session), 1, shifted=False)
    return GramPass.of(session, combinations, samples, orbit)


def held_steps(session: Session, reduction: GramPass) -> list[CostedStep]:
    """Read all rows, and compute their Gram matrices, into `HeldGrams`."""
    held = _gram_bytes(session, reduction.combinations)
    kept = held + reduction.state_bytes()

    def compute(block: GroupBlock) -> HeldGrams:
        # One piece: all rows are one group.
        sums, (piece,) = reduction.zeros(), reduction.pieces(block)
        grams = reduction.add_plain(sums, piece, piece)
        sums.products[0, :, 0] += reduction.joint_sums(grams)
        return HeldGrams(sums, [grams[k,] for k in range(len(grams))], piece)

    scratch = reduction.footprint(session.n).scratch
    cost = DriverStep("Gram matrices", scratch + kept - held, kept)
    return [read_step(session, reduction.groups), CostedStep(cost, compute)]
