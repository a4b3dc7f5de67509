"""Define the base class of estimators, fit their kernels, and guard their nulls.

Kernels are fitted to samples of rows, which vary wherever the data do. Those of a grid are left out
that compare no rows, 1 between a row and itself and 0 between it and all others, as narrow kernels
of many columns. Their statistic is rounding, or that of a few pairs of rows that happen to lie near
each other; its replicates have heavy tails, which cost the other kernels of a grid their power.
Whether a kernel is so is seen in its own variable, which leaves a null of permutations exact.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache, partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic._random import generator
from dhsic.engine.passes import filled
from dhsic.engine.plan import DriverStep, PassPlan, Plan
from dhsic.engine.session import Differing, Session, Still
from dhsic.engine.units import format_bytes
from dhsic.errors import ApproximateNullWarning, DataError, InvalidArgumentError
from dhsic.kernels import Combinations, Gaussian, Kernel, Ranked
from dhsic.kernels.grid import SharedTiles
from dhsic.kernels.wrap import of_rows
from dhsic.linalg import solve_lower, squared_norms
from dhsic.nulls import (
    Chain,
    ChiSquare,
    Distribution,
    FromReplicates,
    Gamma,
    GammaDistribution,
    KernelMoments,
    Martingale,
    Needs,
    Normal,
    Permutation,
    Replicates,
    Resampling,
    Shifts,
    Spectral,
    Strength,
    check_no_overflow,
    guard,
    joint_spread,
    kernel_moments,
)
from dhsic.results import FeatureSummary, LandmarkSummary
from dhsic.statistics.jackknife import Parts
from dhsic.statistics.martingale import MartingaleSums
from dhsic.statistics.orbit import (
    SHARE_OF_MANY,
    Replicated,
    Statistic,
    replicate,
    replicate_steps,
)
from dhsic.statistics.outer import Features

Vector = NDArray[np.float64]
Null = Resampling | Chain | Gamma | Spectral | Normal | ChiSquare | Martingale | FromReplicates

BANDWIDTH_ROWS = 1000
_LOOKED_AT = 64  # of them, at which fitted kernels are looked
# Differences of a kernel's values of which statistics, laws and features of all estimators keep
# their digits, by precision: at scales 1e-320 to 1e300 of linear and distance kernels those beyond
# gave p-values of 1 or 1e-17 for .01 without a word, from 1e-21 on and beyond 1e18 in float32, and
# beyond 1e-80 and 1e75 in float64. Estimates alone keep them beyond 1e-90 and 1e90 in float64.
_MOST_VALUE = {"float32": 1e17, "float64": 1e70}
_MOST_OF_ESTIMATES = {"float32": 1e17, "float64": 1e87}
# Of an eigenvalue over the largest value, for each row: less is rounding. Kernels of float32, and
# of |x|^2 + |y|^2 - 2 xy where x is 1e4 deviations from 0, had up to 1e-8.
_NEGATIVE = 1e-6

_MOST_OF_A_CHUNK = 4  # parts of the memory


class Prepared(NamedTuple):
    """A statistic of the data, with all that permutations leave as it is."""

    combinations: Combinations
    """As fitted, those that are compared."""
    statistic: Statistic[Any]
    """One for each."""
    estimate: Callable[[Replicated, int], Estimate]
    """The measure of dependence by a combination, given its number."""
    detail: str = ""
    """What a result says of it."""
    own: Callable[[Replicated], Vector] | None = None
    """HSIC of every variable of a combination with itself, shape (G, M)."""
    session: Session | None = None
    """The run over the rows that are tested, where these are not all."""


class Guess(NamedTuple):
    """What a plan knows of `Prepared` before the data are read."""

    steps: list[DriverStep | PassPlan]
    """Those that prepare it."""
    statistic: Statistic[Any] | None
    """Of functions that have shapes and take no memory; None where the steps hold all passes."""
    closing: Sequence[DriverStep | PassPlan] = ()
    """Steps after all passes."""
    n_landmarks: int | None = None
    """Landmarks before pruning."""
    session: Session | None = None
    """The run over the rows that are tested, where these are not all."""


class Estimator(ABC):
    """A statistic of dependence with its options, as a frozen dataclass.

    An estimator says what it prepares of each variable by itself, and which `Statistic` it makes of
    it. Plans, tests of one combination of kernels or many, and estimates are made of that here.
    """

    name: ClassVar[str]
    most_variables: ClassVar[int | None] = 2
    """The largest number of variables that it takes; any where it is None."""
    nulls: ClassVar[tuple[type[Any], ...]] = (Shifts, Permutation)
    """The null distributions that stand with it."""
    cost: ClassVar[str] = "?"
    """How its time grows with the rows n."""
    ranks: ClassVar[bool] = False
    """Whether it says HSIC of every variable with itself, as rankings of features need."""
    takes_one_kernel: ClassVar[bool] = False
    """Whether it takes one kernel of each variable, where a statistic takes several."""
    tries_grids: ClassVar[bool] = False
    """Whether tests try several kernels where none are given."""
    tests_all_rows: ClassVar[bool] = True
    """Whether none are left out, so that strata, groups and series are those of all."""
    takes_missing: ClassVar[bool] = False
    """Whether it takes kernels of rows with gaps."""
    largest: ClassVar[float] = math.inf
    """The largest value of the estimate."""
    has_intervals: bool = False
    """Whether the estimate is a smooth function of sums of its passes, less its bias.

    Then blocks of rows can be left out. Roots of measures are not smooth at independence, and of
    random features the draw varies more than the rows.
    """
    remedy: ClassVar[str] = "take fewer resamples, fewer kernels ('gaussian' is one) or threads"
    """Advice where it needs too much memory."""

    @classmethod
    def lacks(cls, *methods: str) -> list[str]:
        """Those of some methods that only this base class has."""
        return [name for name in methods if getattr(cls, name) is getattr(Estimator, name)]

    @classmethod
    def prepares(cls) -> bool:
        """Whether it makes a statistic, of which all else is made."""
        return not cls.lacks("guess", "prepare")

    keeps_blocks: ClassVar[bool] = False
    """Whether the passes of its tests and estimates keep sums of blocks of rows by themselves."""

    @classmethod
    def takes_grids(cls) -> bool:
        """Whether a test takes several kernels of a variable."""
        return cls.prepares() and not cls.takes_one_kernel

    @classmethod
    def moves_sets(cls) -> bool:
        """Whether replicates keep to the strata, groups or series of a session."""
        return cls.prepares() and cls.tests_all_rows

    def kernel(self, given: Kernel | None) -> Kernel:
        """Return the kernel of a variable: the given one, or the Gaussian one."""
        return given or Gaussian()

    def choose_null(self, session: Session, n_resamples: int) -> tuple[Null, str]:
        """The null distribution for `null="auto"`, and why."""
        # Of more variables than it takes, each pair is tested by itself.
        m = len(session.sources)
        if min(m, self.most_variables or m) == 2:
            return Shifts(), "exact for exchangeable rows"
        return Permutation(n_resamples), "exact where all variables but one are exchangeable"

    def guess(self, session: Session, combinations: Combinations, null: Null | None) -> Guess:
        """The steps of `prepare`, and the shapes of what it makes."""
        raise NotImplementedError

    def prepare(self, session: Session, combinations: Combinations, null: Null | None) -> Prepared:
        """Fit the kernels, and all else that is made of each variable by itself."""
        raise NotImplementedError

    def plan(self, session: Session, combinations: Combinations, null: Null | None) -> Plan:
        """The plan of a test of all combinations, or of estimates where `null` is None."""
        guess = self.guess(session, combinations, null)
        tested, passes = guess.session or session, []
        if guess.statistic is not None:
            orbit = guess.statistic.orbit(tested, null if isinstance(null, Resampling) else None)
            passes = replicate_steps(tested, guess.statistic, orbit, _share(combinations))
        steps = [*guess.steps, *passes, *guess.closing]
        return plan_of(session, steps, self.remedy, guess.n_landmarks)

    def estimate(self, session: Session, kernels: Sequence[Kernel]) -> Estimate:
        """The measure of dependence."""
        return self.test_grid(session, Combinations.single(kernels), None).estimate(0)

    def test(self, session: Session, kernels: Sequence[Kernel], null: Null) -> Outcome:
        """The statistic and its null distribution."""
        combinations = Combinations.single(kernels)
        if isinstance(null, Resampling):
            return self.test_grid(session, combinations, null).only
        return self.test_each(session, combinations, null)[0]

    def test_grid(
        self, session: Session, combinations: Combinations, null: Resampling | None
    ) -> GridOutcome:
        """The statistics of several combinations, and replicates that they share.

        Without a null there are none, and the measures of dependence alone.
        """
        prepared = self.prepare(session, combinations, null)
        tested = prepared.session or session
        orbit = prepared.statistic.orbit(tested, null)
        found = replicate(tested, prepared.statistic, orbit, _share(combinations))
        return GridOutcome(
            prepared.combinations,
            found.statistics,
            found.replicates,
            partial(prepared.estimate, found),
            "; ".join(filter(None, (orbit.detail, prepared.detail))),
            found.rounding,
            None if prepared.own is None else prepared.own(found),
        )

    def test_each(self, session: Session, combinations: Combinations, null: Any) -> list[Outcome]:
        """The outcome of every combination by itself, by a law that is no replicates'."""
        raise NotImplementedError


def _share(combinations: Combinations) -> int:
    """One part in how many of the memory a pass takes."""
    return SHARE_OF_MANY if combinations.features else 1


def bandwidth_rows(session: Session) -> list[NDArray[np.intp]]:
    """Rows of every variable from which its kernel is fitted, drawn independently for each.

    One draw for all would let the kernels know of the pairing.
    """
    s = min(session.n, BANDWIDTH_ROWS)
    return [
        generator(session.seed, "bandwidth", m).choice(session.n, size=s, replace=False)
        for m in range(len(session.sources))
    ]


def fit_combinations(
    session: Session,
    combinations: Combinations,
    samples: Sequence[NDArray[Any]],
    *,
    scale: bool = True,
) -> Combinations:
    """Fit every kernel to the sample of its variable, with rows that vary where it does not.

    Raises
    ------
    DataError
        A variable is constant, where the session does not take constants, or has no scale, or its
        scale leaves the precision, where that counts.
    InvalidArgumentError
        A kernel of the user is not positive definite.
    """
    pairs = list(zip(combinations.kernels, combinations.variables, strict=True))
    # A kernel that several combinations share is fitted once.
    distinct = list(dict.fromkeys(pairs))
    fitted = dict[tuple[Kernel, int], Kernel]()
    for (k, m), x in zip(distinct, fitting_samples(session, distinct, samples), strict=True):
        try:
            kernel = k.fit(x)
        except DataError as error:
            # A kernel does not know the name of its variable, which the user needs.
            msg = f"variable {session.names[m]!r}: {error}"
            raise DataError(msg) from error
        # Rows that were put in so that there is a scale are none of the variable.
        fitted[k, m] = kernel if x is samples[m] else of_rows(kernel, samples[m])
    most = (_MOST_OF_ESTIMATES if session.takes_constants else _MOST_VALUE)[session.dtype.name]
    for (given, m), kernel in fitted.items():
        # Kernels with a length follow the scale of the variable, and are fitted within their range.
        if (own := _is_own(given)) or not kernel.has_length:
            rows = filled(samples[m])[:_LOOKED_AT]
            _check_kernel(session, m, kernel, own, rows, most if scale else None)
    return combinations.fitted(fitted[pair] for pair in pairs)


def _check_kernel(
    session: Session, m: int, kernel: Kernel, own: bool, rows: NDArray[Any], most: float | None
) -> None:
    """Refuse kernels of a variable that are no inner products, or whose products would be lost.

    Raises
    ------
    DataError
        Statistics of such values would overflow or become 0.
    InvalidArgumentError
        The kernel is not positive definite.
    """
    # Kernels of ranks may be 0, as that of the spread of balanced numbers 0 and 1.
    if not own and (_is_scaleless(kernel) or most is None):
        return
    with np.errstate(all="ignore"):
        gram = kernel(rows)
        largest = float(np.abs(gram - gram.mean(axis=0)).max())
        scaled = own or most is None or 1.0 / most <= largest <= most
        # One number in any unit, as the square of a sign, has no scale.
        if not scaled and not largest:
            scaled = not np.ptp(kernel(rows / (np.abs(rows).max() or 1.0)), axis=0).any()
    if not scaled and most is not None:
        msg = (
            f"variable {session.names[m]!r}: kernel {kernel.spec()!r} differs by {largest:.1g} "
            f"between rows, and its products keep their digits in {session.dtype} from "
            f"{1.0 / most:.0e} to {most:.0e}: "
            "rescale the variable, take precision='float64', or ranks of it, as 'ranks(gaussian)'"
        )
        raise DataError(msg)
    if not own or not np.isfinite(gram).all():  # what overflows is refused in its statistic
        return
    least, unit = float(np.linalg.eigvalsh((gram + gram.T) / 2.0)[0]), np.abs(gram).max()
    if least < -_NEGATIVE * unit * len(gram) or np.abs(gram - gram.T).max() > _NEGATIVE * unit:
        msg = (
            f"a kernel must be symmetric and positive definite, and {kernel.spec()!r} is not on "
            f"{len(gram)} rows of variable {session.names[m]!r}: the least eigenvalue of its Gram "
            f"matrix is {least:.3g}. Correct the kernel; of a distance take "
            "k(x, o) + k(o, y) - k(x, y), as 'distance' does"
        )
        raise InvalidArgumentError(msg)


@lru_cache(maxsize=1024)
def _is_own(kernel: Kernel) -> bool:
    """Whether it, or a part of it, is a kernel of the user, which may be no inner product."""
    return not type(kernel).__module__.startswith("dhsic.") or any(map(_is_own, _parts(kernel)))


def _is_scaleless(kernel: Kernel) -> bool:
    """Whether it compares labels, and numbers by their ranks alone."""
    if isinstance(kernel, Ranked):
        return True
    parts = _parts(kernel)
    return all(map(_is_scaleless, parts)) if parts else not kernel.measured(1)


def _parts(kernel: Kernel) -> list[Kernel]:
    values = [getattr(kernel, field.name) for field in fields(kernel)]
    parts = [part for value in values for part in (value if isinstance(value, tuple) else (value,))]
    return [part for part in parts if isinstance(part, Kernel)]


def fit_combinations_on_sample(
    session: Session, combinations: Combinations, *, scale: bool = True
) -> tuple[Combinations, list[NDArray[np.float64]]]:
    """The kernels as fitted on rows drawn for each variable, and these rows without gaps."""

    def fit() -> tuple[Combinations, list[NDArray[np.float64]]]:
        session.step("fit kernels")
        samples = session.take(bandwidth_rows(session))
        fitted = fit_combinations(session, combinations, samples, scale=scale)
        return fitted, list(map(filled, samples))

    return session.fixed(fit)


def fetch_landmarks(
    session: Session, combinations: Combinations, drawn: Sequence[NDArray[np.intp]]
) -> tuple[Combinations, list[Vector], list[Vector]]:
    """Landmarks of every variable, read together with the rows that kernels are fitted to.

    Returns
    -------
    Combinations
        The kernels as fitted.
    points, samples : list of ndarray, shapes (p, d_m) and (s, d_m)
        Without gaps: a landmark that misses a value is made of values of others.
    """
    session.step("fetch landmarks")
    sampled, p = bandwidth_rows(session), len(drawn[0])
    rows = session.take([np.append(z, x) for z, x in zip(drawn, sampled, strict=True)])
    fitted = fit_combinations(session, combinations, [x[p:] for x in rows])
    rows = list(map(filled, rows))
    return fitted, [x[:p] for x in rows], [x[p:] for x in rows]


def fetching_step(session: Session, p: int) -> DriverStep:
    """Bytes of `fetch_landmarks`, of p of them."""
    rows = 8 * sum(session.dims) * (p + BANDWIDTH_ROWS)
    fetch = 3 * rows + max(source.take_bytes for source in session.sources)
    return DriverStep("fetch landmarks", fetch, rows)


def fit_on_sample(
    session: Session, kernels: Sequence[Kernel]
) -> tuple[tuple[Kernel, ...], list[NDArray[np.float64]]]:
    """The kernels as fitted on rows drawn for each, and these rows.

    Parameters
    ----------
    session : Session
        The run.
    kernels : sequence of Kernel
        One for each variable.

    Returns
    -------
    tuple of Kernel, list of ndarray, shapes (s, d_m)

    Raises
    ------
    DataError
        A sample has NaN or infinity.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.engine.runtime import Runtime
    >>> from dhsic.engine.session import Session
    >>> from dhsic.estimators import fit_on_sample
    >>> from dhsic.io.variables import Variable
    >>> from dhsic.kernels import Gaussian
    >>> x = np.array([[0.0], [2.0], [4.0]])
    >>> session = Session((Variable("x", x),), Runtime(1, 2**30), seed=0)
    >>> (kernel,), (sample,) = fit_on_sample(session, [Gaussian()])
    >>> kernel.gamma, sample.shape
    (0.25, (3, 1))
    """
    fitted, samples = fit_combinations_on_sample(session, Combinations.single(kernels))
    return fitted.kernels, samples


def fitting_step(session: Session) -> DriverStep:
    """Bytes of `fit_combinations_on_sample`."""
    rows = 8 * BANDWIDTH_ROWS * sum(session.dims)
    distances = 8 * BANDWIDTH_ROWS**2  # of all pairs, and a copy for the median
    return DriverStep("fit kernels", 3 * rows + distances, rows)


def plan_of(
    session: Session,
    steps: Sequence[DriverStep | PassPlan],
    remedy: str,
    n_landmarks: int | None = None,
) -> Plan:
    """The plan of a session.

    Parameters
    ----------
    session : Session
        The run.
    steps : sequence of DriverStep or PassPlan
        In order.
    remedy : str
        Advice where the plan needs too much memory.
    n_landmarks : int, optional
        Landmarks before pruning.

    Returns
    -------
    Plan

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.engine.plan import DriverStep
    >>> from dhsic.engine.runtime import Runtime
    >>> from dhsic.engine.session import Session
    >>> from dhsic.estimators import plan_of
    >>> from dhsic.io.variables import Variable
    >>> session = Session((Variable("x", np.zeros((9, 1))),), Runtime(1, 2**30), seed=0)
    >>> plan = plan_of(session, [DriverStep("statistic", working_bytes=2**20)], "take fewer rows")
    >>> plan.n, plan.peak_bytes - plan.baseline_bytes
    (9, 1048576)
    """
    chunks = ((s.decode_bytes(s.chunk_rows), s.name) for s in session.sources if s.chunk_rows)
    size, name = max(chunks, default=(0, ""))
    if size >= session.runtime.memory / _MOST_OF_A_CHUNK:
        # A stored chunk alone takes a large part of the memory.
        remedy = (
            f"store variable {name!r} in smaller chunks, each takes {format_bytes(size)} to "
            f"decode, {remedy}"
        )
    return Plan(
        session.n,
        session.names,
        n_landmarks,
        session.runtime,
        tuple(steps),
        session.runtime.libraries_bytes,
        remedy,
        possible=(session.scan,),
    )


_FEWEST_DIFFERING = 5

Sample = NDArray[Any]
ColumnNumbers = tuple[int, ...]


def fitting_samples(
    session: Session, kernels: Sequence[tuple[Kernel, int]], drawn: Sequence[Sample]
) -> list[Sample]:
    """Rows to which kernels are fitted: drawn ones, and others for columns that these hold equal.

    Such columns are rare flags, as a rule: few rows of the data hold anything else, and none of
    these was drawn. They are looked for among all rows of that variable, whatever the others hold
    there, so that kernels do not come to know of the pairing.

    Parameters
    ----------
    session : Session
        The run, which takes a pass where a sample is the same.
    kernels : sequence of (Kernel, int)
        With the numbers of their variables.
    drawn : sequence of ndarray, shapes (s, d_m)
        Rows of every variable.

    Returns
    -------
    list of ndarray
        One a kernel, that of its variable where nothing is added.

    Raises
    ------
    DataError
        A variable is constant, where the session does not take constants.
    """
    there = list(map(filled, drawn))  # a column is the same where its values are
    same = [(sample == sample[0]).all(axis=0) for sample in there]
    whole = {m: tuple(range(len(columns))) for m, columns in enumerate(same) if columns.all()}
    # The sets of columns from which a kernel takes a scale, and which are the same in the sample.
    parts = [
        (m, at)
        for kernel, m in kernels
        if same[m].any()
        for at in kernel.scale_columns(len(same[m]))
        if max(at) < len(same[m]) and same[m][list(at)].all()
    ]
    found = beyond(session, there, list(dict.fromkeys([*whole.items(), *parts])))
    constant = {m for m, columns in whole.items() if not found[m, columns].total}
    if constant and not session.takes_constants:
        m = min(constant)
        within = getattr(session.sources[m], "strata", None) is not None
        where = "in every stratum all" if within else f"all {session.n}"
        msg = (
            f"variable {session.names[m]!r} is constant: {where} rows are the same, so it is "
            "independent of everything; leave it out"
        )
        raise DataError(msg)

    def sample_of(kernel: Kernel, m: int) -> Sample:
        if m in constant:
            # Any scale will do, and the median stays what the rows hold: the added row is another
            # value, so that the kernel finds a scale.
            value = there[m][0]
            return np.vstack([drawn[m], value + np.maximum(1.0, np.abs(value))])
        if not found:
            return drawn[m]
        sample, d, start = drawn[m], drawn[m].shape[1], 0
        sets = kernel.scale_columns(d) or (tuple(range(d)),)
        missed = {at: found[m, at] for at in sets if (m, at) in found}
        if not any(differing.total for differing in missed.values()):
            return sample
        # Rows that differ are as many as their share of all, and five where that is less, which is
        # enough for a typical distance; each set of columns has them in other rows of the sample.
        sample = sample.copy()
        for columns, differing in missed.items():
            share = round(len(sample) * differing.total / session.n)
            # One row stays as it was, or the column would be the same in all again.
            count = min(max(share, _FEWEST_DIFFERING), len(differing.values), len(sample) - 1)
            rows = np.arange(start, start + count) % len(sample)
            sample[rows[:, None], np.array(columns)] = differing.values[:count]
            start += count
        return sample

    return [sample_of(*one) for one in kernels]


def beyond(
    session: Session, drawn: Sequence[Sample], still: Sequence[tuple[int, ColumnNumbers]]
) -> dict[tuple[int, ColumnNumbers], Differing]:
    """Rows that differ from samples in columns that are the same there, by variable and columns."""
    sought = [Still(m, at, np.array(drawn[m][0, list(at)], np.float64)) for m, at in still]
    return dict(zip(still, session.differing(sought), strict=True))


@dataclass(frozen=True)
class Estimate:
    """A measure of dependence and what it was computed with.

    Parameters
    ----------
    value : float
        The estimate.
    kernels : tuple of Kernel
        As fitted.
    landmarks : LandmarkSummary or None
        Where the estimator has any.
    features : FeatureSummary or None
        Where the estimator has any.
    quantity : str, optional
        Quantity that is estimated.
    made_of : sequence of Parts, optional
        Dividend and divisors of the value, where its bias is put right one by one; and of the
        value without each of the blocks of rows, where the statistic keeps these.

    Examples
    --------
    >>> from dhsic.estimators import Estimate
    >>> from dhsic.kernels import Gaussian
    >>> Estimate(0.02, (Gaussian(gamma=1.0), Gaussian(gamma=0.5))).quantity
    'squared HSIC'
    """

    value: float
    kernels: tuple[Kernel, ...]
    landmarks: LandmarkSummary | None = None
    features: FeatureSummary | None = None
    quantity: str = "squared HSIC"
    made_of: Sequence[Parts] = ()

    @property
    def parts(self) -> Sequence[Parts]:
        """What its interval is made of: of all rows, and of those without each block if known."""
        return self.made_of or [Parts(self.value, self.value)]


@dataclass(frozen=True)
class Outcome:
    """A test statistic with its distribution under the null hypothesis.

    Parameters
    ----------
    statistic : float
        The observed value.
    distribution : Distribution
        Distribution of the statistic under the null hypothesis.
    estimate : Estimate
        The measure of dependence.
    detail : str, optional
        How the distribution was made, where the null leaves a choice.
    rounding : float, optional
        Differences of the statistic up to it are rounding.
    strength : Strength or None, optional
        The largest of several statistics, where `statistic` is the score that combines them.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.estimators import Estimate, Outcome
    >>> from dhsic.nulls import Replicates
    >>> outcome = Outcome(2.5, Replicates(np.array([0.5, 1.0, 3.0])), Estimate(0.02, ()))
    >>> outcome.distribution.sf(outcome.statistic)
    0.5
    """

    statistic: float
    distribution: Distribution
    estimate: Estimate
    detail: str = ""
    rounding: float = 0.0
    strength: Strength | None = None


_TAIL = (
    "an approximation for rows in a random order, checked down to p = 0.0001; how far its smaller "
    "p-values are right is not known"
)


def martingale_outcome(
    session: Session, sums: MartingaleSums, rounding: float, estimate: Estimate, note: str
) -> Outcome:
    """The outcome by a martingale; `rounding` is up to how much of n |C|^2 is."""
    check_no_overflow(*sums)
    norm, detail = math.sqrt(sums.squares), "; ".join(filter(None, (_TAIL, note)))
    if not norm > 0.0:  # no pair of rows shows anything
        return Outcome(0.0, GammaDistribution(0.0, 0.0), estimate, detail)
    # The sum over all pairs of rows is n^2 |C|^2, of which half the pairs are taken.
    rounding *= 0.5 * session.n / norm
    return Outcome(sums.total / norm, Martingale().distribution, estimate, detail, rounding)


@dataclass(frozen=True)
class GridOutcome:
    """Statistics of several combinations of kernels, with replicates that they share.

    Parameters
    ----------
    combinations : Combinations
        As fitted.
    statistics : ndarray, shape (G,)
        The observed values.
    replicates : ndarray, shape (b, G)
        Under the null hypothesis; a row is one draw for all combinations.
    estimate : callable
        The measure of dependence by a combination, given its number.
    detail : str, optional
        How the replicates were made, where the null leaves a choice.
    rounding : ndarray, shape (G,)
        Differences of the statistics up to it are rounding.
    own : ndarray, shape (G, M), optional
        Squared HSIC of every variable with itself, where the estimator has it.
    """

    combinations: Combinations
    statistics: Vector
    replicates: Vector
    estimate: Callable[[int], Estimate]
    detail: str
    rounding: Vector
    own: Vector | None = None

    @property
    def only(self) -> Outcome:
        """That of a single combination."""
        (statistic,), (rounding,) = self.statistics.tolist(), self.rounding.tolist()
        distribution = Replicates(self.replicates[:, 0])
        return Outcome(statistic, distribution, self.estimate(0), self.detail, rounding)

    def part(self, numbers: Sequence[int]) -> GridOutcome:
        """Those of some of the combinations."""
        at = list(numbers)
        return replace(
            self,
            combinations=self.combinations.part(at),
            statistics=self.statistics[at],
            replicates=self.replicates[:, at],
            rounding=self.rounding[at],
            own=None if self.own is None else self.own[at],
        )

    @cached_property
    def estimates(self) -> list[Estimate]:
        """The measures of dependence by all combinations."""
        return [self.estimate(c) for c in range(len(self.combinations))]

    @property
    def hsic(self) -> Vector:
        """Their values, shape (G,)."""
        return np.array([one.value for one in self.estimates])

    @property
    def landmarks(self) -> LandmarkSummary | None:
        """Those of features against one target, with one number kept a feature."""
        summaries = [one.landmarks for one in self.estimates if one.landmarks is not None]
        kept = tuple(int(np.ravel(summary.kept)[0]) for summary in summaries)
        return replace(summaries[0], kept=kept) if summaries else None

    def cka(self, chance: Vector | float = 0.0) -> Vector:
        """(HSIC(x, y) - b) / (sqrt(HSIC(x, x) HSIC(y, y)) - b), 0 where that is 0; shape (G,).

        Parameters
        ----------
        chance : ndarray, shape (G,), or float, optional
            b, the mean of HSIC(x, y) under independence: then so CKA has the mean 0, and that of a
            copy is still 1.
        """
        assert self.own is not None
        # Unbiased estimates fall below 0 at times, where a root would be NaN.
        scale = np.sqrt(np.maximum(self.own, 0.0)).prod(axis=1) - chance
        values: Vector = np.divide(
            self.hsic - chance, scale, out=np.zeros(len(scale)), where=scale > 0.0
        )
        return values


NORMED_ROWS = 16
"""Rows whose norms in a kernel are looked at: in most kernels all have 1."""

_NEAR = 1e-3
_NEAR_ALONE = 2.0  # rows of all that a row is near, of which it is one itself
_NEIGHBOUR_ROWS = 64  # whose neighbours in a sample are counted
_HELD = 0.05  # of a kernel
_OF_ROWS = 0.75  # so that rows which are landmarks themselves do not decide


def nearness(values: NDArray[Any]) -> float:
    """The share of pairs of rows between which a kernel is above 0.001, from its values."""
    return float(np.count_nonzero(values > _NEAR) / values.size)


def is_identity(near: float, n: int) -> bool:
    """Whether hardly any of n rows has a neighbour, of a kernel with such a `nearness`."""
    return near * n < _NEAR_ALONE


def is_held(
    kernel: Kernel, sample: NDArray[Any], values: NDArray[Any], factor: NDArray[np.float64]
) -> bool:
    """Whether landmarks hold a twentieth of a kernel, at a quarter of the rows or more.

    The Nystrom features L^-1 k(z, x) of a row have the squared norm k(x, x), less its distance to
    the span of the landmarks (Zhang et al. 2018, section 4.1). Next to nothing is left of it where
    kernels are so narrow that few rows are near a landmark.

    Parameters
    ----------
    kernel : Kernel
        Fitted.
    sample : ndarray, shape (s, d)
        Rows.
    values : ndarray, shape (s, D)
        The kernel between these and the landmarks.
    factor : ndarray, shape (D, D)
        The lower triangular L of the landmarks.
    """
    few, some = (
        slice(None, None, -(-len(sample) // rows)) for rows in (NORMED_ROWS, _NEIGHBOUR_ROWS)
    )
    whole = kernel(sample[few]).diagonal()
    held = squared_norms(solve_lower(factor, values[some].T.astype(np.float64)))
    return float(np.quantile(held, _OF_ROWS)) >= _HELD * float(np.quantile(whole, _OF_ROWS))


def compared(combinations: Combinations, left_out: Container[int]) -> list[int]:
    """Numbers of the combinations without any of some kernels; the reference.

    Examples
    --------
    >>> from dhsic.kernels import Gaussian
    >>> kernels = Gaussian(gamma=1.0), Gaussian(gamma=900.0), Gaussian(gamma=1.0)
    >>> compared(Combinations(kernels, (0, 0, 1), ((0, 2), (1, 2)), (1.0,) * 3), {1})
    [0]
    """
    kept = combinations.kept
    return [
        c
        for c, pair in enumerate(combinations.chosen)
        if c in kept or not any(k in left_out for k in pair)
    ]


def compared_in_samples(
    combinations: Combinations, samples: Sequence[NDArray[np.float64]], n: int
) -> list[int]:
    """Those without a kernel that is the identity on n rows, fitted to samples of its variable.

    Kernels without a length are not looked at: they compare all rows.
    """
    looked = [k for k, kernel in enumerate(combinations.kernels) if kernel.has_length]
    if not looked:
        return [*range(len(combinations))]
    given, of = combinations.kernels, combinations.variables
    shared = SharedTiles(tuple(given[k] for k in looked), tuple(of[k] for k in looked))
    s, left_out = len(samples[0]), set[int]()
    rows, columns = shared.rows_and_columns(samples, np.float64)
    # Neighbours of some rows are counted, evenly over the sample.
    some = [np.ascontiguousarray(x[:: -(-s // _NEIGHBOUR_ROWS)]) for x in rows]
    for k, tile in zip(looked, shared.tiles(some, columns, np.float64), strict=True):
        others = nearness(tile) * s - 1.0  # of the sample, on average
        # A row is near itself, and near the share of the other rows that it is near in the sample.
        if is_identity((1.0 + others * (n - 1) / max(1, s - 1)) / n, n):
            left_out.add(k)
    return compared(combinations, left_out)


def left_out_text(count: int) -> str:
    """Note on the combinations that were left out; empty for none."""
    return (
        f"combinations left out, with kernels that compare hardly any rows: {count}"
        if count
        else ""
    )


Samples = Sequence[NDArray[np.floating[Any]]]

# Limits of the guard are from independent data of 220 kinds: normals of 1 to 20 columns, two to
# four variables, dummies, counts, values that are mostly 0, heavy tails, categories; bandwidths of
# 1/8 to 4 times the median heuristic; 300 to 16,000 rows. Where it is silent the nulls reject 5 %
# at level 5 % but for the noise of such a study; with half of the rows that they need up to 10 %,
# and 5 % at level 1 %; with fewer, up to 90 %.
PAIRED = 25.0, 0.02  # rows, for nulls made of the rows as they are paired; fewer say nothing
MARGINAL = 4.0  # for those made of the marginals
# Of independent flags of 300 to 3,000 rows, by the rows that show dependence, the martingale null
# rejected at levels 1 and 0.1 %: of 3 rows 13 and 13 %, of 15 1.8 and 0.9, of 39 0.8 and 0.2, of 64
# 0.7 and 0.08 %.
MARTINGALE = 64.0
_SPECTRAL = 0.02  # directions a pair of rows
_DECIDING = 20.0  # rows of equal weight
_OF_WEIGHTS = "weights have no exact null: take ranks or coarser values, or fewer columns"
_SAMPLED = 10.0  # rows, times the root of n: about 50 have a value that is just not too rare
# Entries of the Gram matrices of all kernels, together.
_ENTRIES = 2e7
_FEWEST_ROWS, _MOST_ROWS = 250, 1000


def guard_kernels(
    session: Session, combinations: Combinations, samples: Samples, null: str, needs: Needs
) -> str:
    """Guard of the kernels of a test.

    Parameters
    ----------
    session : Session
        The run.
    combinations : Combinations
        As fitted.
    samples : sequence of ndarray, shapes (s, d_m)
        Rows of every variable, drawn independently.
    null : str
        The name of the null distribution.
    needs : Needs
        What it needs.

    Returns
    -------
    str
        See `guard`.
    """
    pairs = list(zip(combinations.kernels, combinations.variables, strict=True))
    rows, n = _rows_looked_at(session.n, len(pairs)), rows_there(session)
    moments = [kernel_moments(kernel(samples[m][:rows])) for kernel, m in pairs]
    each = range(len(combinations))
    return guard(null, [joint_spread(combinations.of(moments, c), n) for c in each], n, needs)


def needs_of(null: Gamma | Spectral | Martingale) -> Needs:
    """What an approximation needs that is made of the marginals, or of them and the order."""
    return Needs(MARTINGALE if isinstance(null, Martingale) else MARGINAL)


def guard_martingales(session: Session, kernels: Sequence[Kernel], samples: Samples) -> str:
    """Guard of the martingales of all pairs of variables, by the two that show least."""
    rows, n = _rows_looked_at(session.n, len(kernels)), rows_there(session)
    moments = [kernel_moments(k(x[:rows])) for k, x in zip(kernels, samples, strict=True)]
    # Of two variables the rows that show are a product of a number of either.
    moments.sort(key=lambda one: joint_spread([one, one], n).rows)
    spread, null = joint_spread(moments[:2], n), Martingale()
    return "; ".join(filter(None, (_TAIL, guard(null.name, [spread], n, needs_of(null)))))


def guard_features(
    session: Session,
    features: Sequence[Features],
    chosen: Iterable[Sequence[int]],
    null: Gamma | Spectral | Martingale,
    remedy: str = Needs.remedy,
) -> str:
    """Guard of pairs of the features of variables, by their numbers, as `guard_kernels`."""
    n, rows = rows_there(session), _rows_looked_at(session.n, len(features))
    moments = [_feature_moments(one, rows) for one in features]
    spreads = [joint_spread([moments[k] for k in pair], n) for pair in chosen]
    needs = replace(needs_of(null), remedy=remedy)
    if isinstance(null, Spectral):
        crowded = "p-values may be far too small"
        needs = replace(needs, directions=_SPECTRAL * n**2, crowded=crowded)
    return guard(null.name, spreads, n, needs)


def guard_weighted(session: Session, features: Sequence[Features]) -> str:
    """Guard of the limit law of weighted rows, by features of two variables, as `guard`.

    It is made of the rows as they are paired, of which there are as many as of equal weight. Where
    a few rows have most of the weight, others like them are likely to be missing.
    """
    weights = session.weights
    assert weights is not None
    rows = _rows_looked_at(session.n, len(features))
    moments = [_feature_moments(one, rows) for one in features]
    needs = Needs(*PAIRED, remedy=_OF_WEIGHTS)
    told = guard(Spectral.name, [joint_spread(moments, round(weights.rows))], session.n, needs)
    few = ""
    if weights.deciding < _DECIDING:
        few = (
            f"about {weights.deciding:.2g} of {session.n:,} rows have so much of the weight that "
            "the limit law may be inaccurate"
        )
        msg = f"{few}: test the part of the population whose rows are likely to be drawn"
        warnings.warn(msg, ApproximateNullWarning, stacklevel=2)
    share = f"weights as of {weights.rows:,.0f} equal ones of {session.n:,}"
    return "; ".join(filter(None, (share, told, few)))


def _feature_moments(features: Features, rows: int) -> KernelMoments:
    assert features.sample is not None
    values = features.map(features.sample[:rows]).astype(np.float64, copy=False)
    # Whitened features have the inner products of the kernel that the statistic uses.
    whitened = features.whitened(values)
    return kernel_moments(whitened @ whitened.T)


def _rows_looked_at(n: int, kernels: int) -> int:
    """Rows of a sample that are looked at: more of many, where rarer values matter."""
    most = min(_SAMPLED * math.sqrt(n), math.sqrt(_ENTRIES / kernels), _MOST_ROWS)
    return round(max(most, _FEWEST_ROWS))


def rows_there(session: Session) -> int:
    """Rows in which no variable misses a value, where gaps of one are independent of the others."""
    return round(session.n * math.prod(1.0 - gaps.rows / session.n for gaps in session.gaps))
