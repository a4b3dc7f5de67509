"""What an estimator is: a statistic, and the tests and estimates that are made of it."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import lru_cache, partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic._random import generator
from dhsic.engine.gaps import filled
from dhsic.engine.plan import DriverStep, PassPlan, Plan
from dhsic.engine.session import Session
from dhsic.engine.units import format_bytes
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.estimators.fitting_samples import FittingSamples
from dhsic.estimators.outcomes import Estimate, GridOutcome, Outcome
from dhsic.kernels import Combinations, Gaussian, Kernel, Ranked
from dhsic.kernels.wrap import of_rows
from dhsic.nulls import (
    Chain,
    ChiSquare,
    FromReplicates,
    Gamma,
    Normal,
    Permutation,
    Resampling,
    Shifts,
    Spectral,
)
from dhsic.statistics.orbit import Replicated, exact_null
from dhsic.statistics.replicate import SHARE_OF_MANY, Statistic, replicate, replicate_steps

Vector = NDArray[np.float64]
Null = Resampling | Chain | Gamma | Spectral | Normal | ChiSquare | FromReplicates

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
    takes_missing: ClassVar[bool] = False
    """Whether it takes kernels of rows with gaps."""
    remedy: ClassVar[str] = "take fewer resamples, fewer kernels ('gaussian' is one) or threads"
    """Advice where it needs too much memory."""

    def kernel(self, given: Kernel | None) -> Kernel:
        """The kernel of a variable: what was given, or the Gaussian one."""
        return given or Gaussian()

    def choose_null(self, session: Session, n_resamples: int) -> tuple[Null, str]:
        """The null distribution for `null="auto"`, and why."""
        # Of more variables than it takes, each pair is tested by itself.
        m = len(session.sources)
        return exact_null(min(m, self.most_variables or m), n_resamples)

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
        return self.estimates(session, Combinations.single(kernels)).estimate(0)

    def test(self, session: Session, kernels: Sequence[Kernel], null: Null) -> Outcome:
        """The statistic and its null distribution."""
        combinations = Combinations.single(kernels)
        if isinstance(null, Resampling):
            return self.test_grid(session, combinations, null).only
        return self.test_each(session, combinations, null)[0]

    def test_grid(
        self, session: Session, combinations: Combinations, null: Resampling
    ) -> GridOutcome:
        """The statistics of several combinations, and replicates that they share."""
        return self._found(session, combinations, null)

    def estimates(self, session: Session, combinations: Combinations) -> GridOutcome:
        """The measures of dependence by several combinations, and no replicates."""
        return self._found(session, combinations, None)

    def _found(
        self, session: Session, combinations: Combinations, null: Resampling | None
    ) -> GridOutcome:
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


def check_gaps(session: Session, estimator: Estimator) -> None:
    """Refuse an estimator that takes no kernel of rows with gaps, where there are any.

    Raises
    ------
    InvalidArgumentError
        Names those that do.
    """
    if session.gaps and not estimator.takes_missing:
        msg = (
            "missing='pairwise' needs estimator 'auto', 'v-hsic', 'u-hsic', 'nystrom-m' or "
            f"'nystrom-hsic', got {estimator.name!r}: take one of them, or missing='drop'"
        )
        raise InvalidArgumentError(msg)


def bandwidth_rows(session: Session) -> list[NDArray[np.intp]]:
    """Rows of every variable from which its kernel is fitted, drawn independently for each.

    One draw for all would let the kernels know of the pairing.
    """
    s = min(session.n, BANDWIDTH_ROWS)
    return [
        generator(session.seed, "bandwidth", m).choice(session.n, size=s, replace=False)
        for m in range(len(session.sources))
    ]


def fit_kernels(
    session: Session, kernels: Sequence[Kernel], samples: Sequence[NDArray[Any]]
) -> tuple[Kernel, ...]:
    """Fit every kernel to the sample of its variable, as `fit_combinations`."""
    return fit_combinations(session, Combinations.single(kernels), samples).kernels


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
    distinct = dict.fromkeys(pairs)
    whole = FittingSamples.of(session, distinct, samples)
    fitted = {(k, m): _fit_to(whole, k, m, session.names[m]) for k, m in distinct}
    most = (_MOST_OF_ESTIMATES if session.takes_constants else _MOST_VALUE)[session.dtype.name]
    for (given, m), kernel in fitted.items():
        if _needs_a_look(given) or not kernel.has_length:
            rows, name = filled(samples[m])[:_LOOKED_AT], session.names[m]
            _check_kernel(kernel, rows, most if scale else None, name, session.dtype)
    return combinations.fitted(fitted[pair] for pair in pairs)


def _fit_to(samples: FittingSamples, kernel: Kernel, m: int, name: str) -> Kernel:
    sample = samples.of_kernel(kernel, m)
    fitted = _fit_kernel(kernel, sample, name)
    # Rows that were put in so that there is a scale are none of the variable.
    return fitted if sample is samples.drawn[m] else of_rows(fitted, samples.drawn[m])


def _fit_kernel(kernel: Kernel, sample: NDArray[Any], name: str) -> Kernel:
    try:
        return kernel.fit(sample)
    except DataError as error:
        # A kernel does not know the name of its variable, which the user needs.
        msg = f"variable {name!r}: {error}"
        raise DataError(msg) from error


def _check_kernel(
    kernel: Kernel, rows: NDArray[Any], most: float | None, name: str, dtype: np.dtype[Any]
) -> None:
    """Refuse kernels of a variable that are no inner products, or whose products would be lost.

    Raises
    ------
    DataError
        Statistics of such values would overflow or become 0.
    InvalidArgumentError
        The kernel is not positive definite.
    """
    own = _is_own(kernel)
    # Kernels with a length follow the scale of the variable, and are fitted within their range; of
    # ranks, which have none, kernels may be 0, as that of the spread of balanced numbers 0 and 1.
    if not own and (kernel.has_length or _is_scaleless(kernel) or most is None):
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
            f"variable {name!r}: kernel {kernel.spec()!r} differs by {largest:.1g} between rows, "
            f"and its products keep their digits in {dtype} from {1.0 / most:.0e} to {most:.0e}: "
            "rescale the variable, take precision='float64', or ranks of it, as 'ranks(gaussian)'"
        )
        raise DataError(msg)
    if not own or not np.isfinite(gram).all():  # what overflows is refused in its statistic
        return
    least, unit = float(np.linalg.eigvalsh((gram + gram.T) / 2.0)[0]), np.abs(gram).max()
    if least < -_NEGATIVE * unit * len(gram) or np.abs(gram - gram.T).max() > _NEGATIVE * unit:
        msg = (
            f"a kernel must be symmetric and positive definite, and {kernel.spec()!r} is not on "
            f"{len(gram)} rows of variable {name!r}: the least eigenvalue of its Gram matrix is "
            f"{least:.3g}. Correct the kernel; of a distance take k(x, o) + k(o, y) - k(x, y), as "
            "'distance' does"
        )
        raise InvalidArgumentError(msg)


@lru_cache(maxsize=1024)
def _needs_a_look(kernel: Kernel) -> bool:
    """Whether it is one of the user, which may be no inner product."""
    return _is_own(kernel)


def _is_own(kernel: Kernel) -> bool:
    """Whether it, or a part of it, is a kernel of the user."""
    return not type(kernel).__module__.startswith("dhsic.") or any(map(_is_own, _parts(kernel)))


def _is_scaleless(kernel: Kernel) -> bool:
    """Whether it compares labels, and numbers by their ranks alone."""
    parts = _parts(kernel)
    return isinstance(kernel, Ranked) or (
        all(map(_is_scaleless, parts)) if parts else not kernel.measured(1)
    )


def _parts(kernel: Kernel) -> list[Kernel]:
    values = [getattr(kernel, field.name) for field in fields(kernel)]
    parts = [part for value in values for part in (value if isinstance(value, tuple) else (value,))]
    return [part for part in parts if isinstance(part, Kernel)]


def fit_combinations_on_sample(
    session: Session, combinations: Combinations, *, scale: bool = True
) -> tuple[Combinations, list[NDArray[np.float64]]]:
    """The kernels as fitted on rows drawn for each variable, and these rows without gaps."""
    session.step("fit kernels")
    samples = session.take(bandwidth_rows(session))
    fitted = fit_combinations(session, combinations, samples, scale=scale)
    return fitted, list(map(filled, samples))


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
    >>> session = Session([Variable("x", x)], Runtime.here(1, 2**30), seed=0)
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
    >>> session = Session([Variable("x", np.zeros((9, 1)))], Runtime.here(1, 2**30), seed=0)
    >>> plan = plan_of(session, [DriverStep("statistic", working_bytes=2**20)], "take fewer rows")
    >>> plan.n, plan.peak_bytes - plan.baseline_bytes
    (9, 1048576)
    """
    return Plan(
        session.n,
        session.names,
        n_landmarks,
        session.runtime,
        tuple(steps),
        session.runtime.libraries_bytes,
        _of_chunks(session) + remedy,
    )


def _of_chunks(session: Session) -> str:
    """Remedy where a stored chunk alone takes a large part of the memory."""
    stored = [source for source in session.sources if source.chunk_rows is not None]
    sizes = [source.decode_bytes(source.chunk_rows or 1) for source in stored]
    if max(sizes, default=0) < session.runtime.memory / _MOST_OF_A_CHUNK:
        return ""
    size, name = max(zip(sizes, (source.name for source in stored), strict=True))
    return f"store variable {name!r} in smaller chunks, each takes {format_bytes(size)} to decode, "
