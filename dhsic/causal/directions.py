"""Which of two variables is the cause: residuals of either regression, and what they depend on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from dhsic._arguments import RunOptions, check_seeded, choose_measure, choose_method, read_kernel
from dhsic._fields import run_fields, tested_fields
from dhsic._progress import Progress, shows_progress
from dhsic._random import RngLike, generator, resolve_seed
from dhsic._validation import check_choice, check_integer, named_arguments
from dhsic.causal.decisions import (
    CausalDirection,
    CausalDirections,
    DirectionCriterion,
    DirectionEvidence,
)
from dhsic.causal.nodes import FEWEST_ROWS, open_nodes
from dhsic.engine.blocks import Source
from dhsic.engine.events import StepStarted
from dhsic.engine.plan import DriverStep, PassPlan, Plan
from dhsic.engine.session import Session
from dhsic.errors import DataError, DhsicError, InvalidArgumentError
from dhsic.estimators import (
    VHSIC,
    Estimator,
    EstimatorName,
    Null,
    NullName,
    NystromMHSIC,
    find_estimator,
)
from dhsic.estimators.base import plan_of
from dhsic.estimators.choose import choose_among, plan_test
from dhsic.estimators.reach import Offer, Way, first_that_fits, plan_once, powers_below, telling
from dhsic.io.folder import Folder
from dhsic.io.missing import Missing
from dhsic.io.variables import JoinRows, Variable, derived
from dhsic.kernels import Combinations, Kernel, KernelName, Linear
from dhsic.regression.residuals import (
    Regression,
    RegressionName,
    described_regression,
    find_regression,
    fit_regressions,
    plan_regressions,
)
from dhsic.regression.ridge import Bound, Folds, SecondMomentsPass
from dhsic.results import AS_ASKED
from dhsic.sensitivity.maps import column_sensitivities, map_passes
from dhsic.statistics.neighbours import Neighbours

Vector = NDArray[np.float64]
Exponents = NDArray[np.int32]

_UNIT_ROWS = 1000
_UNITS = "sample rows"
_BY_PVALUE = ("p-value", "larger-p-value")
_FEWEST_CHOSEN = 256
_GAUSSIAN_PROCESS_ROWS, _ALL_PAIRS_ROWS = 2048, 2**17  # of a run of minutes
_REMEDY = "take fewer rows by max_rows, fewer landmarks or threads, or regression='splines'"
_GIVEN = {1: [(0,)]}  # the effect given the cause
_RESIDUALS = "residuals of {}"


@named_arguments
@shows_progress
def direction(
    x: Any,
    y: Any,
    *,
    criterion: DirectionCriterion = "p-value",
    estimator: EstimatorName | Estimator = "auto",
    regression: RegressionName | Regression = "splines",
    null: NullName | Null | None = None,
    n_resamples: int | None = None,
    kernel: KernelName | str | Kernel | None = "gaussian",
    max_rows: int | None = None,
    rng: RngLike = None,
    names: Sequence[str] | None = None,
    data: Any = None,
    missing: Missing = "refuse",
    client: Any = None,
    threads: int | None = None,
    memory: int | str = "2GiB",
    time: float | str | None = None,
    progress: Progress = None,
    checkpoint: str | None = None,
) -> CausalDirection:
    """Which of two variables is the cause of the other, under additive noise.

    If y = f(x) + noise with noise independent of x, the residuals of y given x are independent of
    x, while those of x given y depend on y but for exceptions, such as linear f with normal noise
    [1]_. So the direction with the less dependent residuals is preferred. That one of them is the
    cause is taken for granted: neither a common cause nor feedback is looked for.

    Parameters
    ----------
    x, y : array-like, shapes (n,) or (n, d)
        As for `independence_test`, each column standardised. All rows are streamed, with
        regressions on splines; others hold those that are used in memory, and so does a draw of
        some.
    criterion : {"p-value", "larger-p-value", "hsic", "sensitivity"}, optional
        Quantity to compare. "p-value": the score is the difference of the logarithms of both
        p-values; "larger-p-value": the larger p-value, with the sign of its direction, which is
        small where neither direction fits; see [2]_ for what such scores are worth. "hsic": the
        difference of HSIC, -C of [3]_. "sensitivity": the difference of the norms of the
        sensitivity maps, C_s of [3]_, each norm the root mean square over the rows of the
        derivatives of n HSIC.
    estimator : str or Estimator, optional
        "v-hsic", "rff-hsic", "nystrom-m", or another one that has what the criterion needs. "auto"
        takes "v-hsic" where all pairs of rows fit the memory and the time, and "nystrom-m" beyond,
        for both directions alike.
    regression : str or Regression, optional
        "splines", "random-forest", "gaussian-process", or a value.
    null : str or Null, optional
        Null of the p-values, for criteria that compare them: "gamma" where not given. Residuals are
        estimates, so that p-values are approximate in any case; those of permutations cannot rank
        what is far below 1 / n_resamples. None is below 2.2e-308: where both directions are
        rejected as strongly, as heteroscedastic noise does to thousands of rows, the score is 0,
        and "hsic" still ranks.
    n_resamples : int, optional
        As for `independence_test`.
    kernel : str, Kernel or None, optional
        Kernel of variables and residuals, but for "linear", which sees nothing in residuals; None
        for estimators with a kernel of their own, as "dcov".
    max_rows : int, optional
        Rows at most, drawn at random. Where not given all, if they fit the memory and the time by
        the plan, or the largest power of two that does, as of a Gaussian process, whose cost is
        cubic; the result says how many and why.
    rng, names, data, missing, client, threads, memory
        As for `independence_test`.
    time : float or str, optional
        Seconds that rows and an estimator which are left open may take, as for
        `independence_test`.
    progress, checkpoint
        As for `independence_test`.

    Returns
    -------
    CausalDirection
        Exchanging x and y changes the sign of the score and nothing else.

    Raises
    ------
    InvalidArgumentError
        An option cannot be used.
    DataError
        The data cannot be used: NaN, unequal lengths, a constant column, or a variable that is
        a function of the other without noise.
    MemoryBudgetError
        The plan needs more memory than allowed. The message tells how many rows would fit.
    MissingDependencyError
        The regression needs a library that is not installed.

    References
    ----------
    .. [1] P. Hoyer, D. Janzing, J. Mooij, J. Peters, B. Schoelkopf. Nonlinear causal discovery with
       additive noise models. NIPS 2008.
    .. [2] J. Mooij, J. Peters, D. Janzing, J. Zscheischler, B. Schoelkopf. Distinguishing cause
       from effect using observational data: methods and benchmarks. JMLR 17(32), 2016.
    .. [3] A. Perez-Suay, G. Camps-Valls. Sensitivity maps of the Hilbert-Schmidt independence
       criterion. Applied Soft Computing 70, 2018, section 4.5.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic import causal
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(-1.0, 1.0, 300)
    >>> y = x + x**3 + rng.uniform(-0.5, 0.5, 300)
    >>> causal.direction(x, y, names=["x", "y"], rng=0).direction
    'x -> y'
    """
    run = RunOptions(rng, "float64", client, threads, memory, time, progress, checkpoint)
    session = open_nodes(run, (x, y), names, data, missing)
    fitted, measure = find_regression(regression), (estimator, null, n_resamples, kernel)
    asked = _Directed(session, fitted, criterion, *measure)
    # As many rows as the regression and the measure can take: drawn at random, told by the result.
    rows, rows_reason = asked.choose_rows(max_rows)
    chosen, reason = asked.choose(rows)
    session.begin(chosen.plan(rows))
    session.resume(
        computes="causal direction",
        criterion=criterion,
        estimator=chosen.estimator,
        null=null,
        n_resamples=n_resamples,
        kernel=read_kernel(kernel),
        rows_used=rows,
        **described_regression(fitted),
    )
    forward, backward = chosen.run(rows)
    first, second = session.names
    return CausalDirection(
        names=(first, second),
        score=chosen.score(forward.evidence, backward.evidence),
        forward=forward.evidence,
        backward=backward.evidence,
        criterion=criterion,
        estimator=forward.estimator,
        estimator_reason=reason,
        null=forward.null,
        regression=fitted.name,
        rows_reason=rows_reason,
        **{**run_fields(session), "n": rows},
    )


@named_arguments
def plan_direction(
    x: Any,
    y: Any,
    *,
    criterion: DirectionCriterion = "p-value",
    estimator: EstimatorName | Estimator = "auto",
    regression: RegressionName | Regression = "splines",
    null: NullName | Null | None = None,
    n_resamples: int | None = None,
    kernel: KernelName | str | Kernel | None = "gaussian",
    max_rows: int | None = None,
    names: Sequence[str] | None = None,
    data: Any = None,
    missing: Missing = "refuse",
    client: Any = None,
    threads: int | None = None,
    memory: int | str = "2GiB",
    time: float | str | None = None,
) -> Plan:
    """Plan `direction`: its steps, their memory and their time; runs nothing.

    Parameters
    ----------
    x, y : array-like, shapes (n,) or (n, d)
        As for `direction`.
    criterion, estimator, regression, null, n_resamples, kernel, max_rows, names, data, missing
        As for `direction`.
    client, threads, memory, time
        As for `direction`.

    Returns
    -------
    Plan

    Raises
    ------
    InvalidArgumentError, DataError, MissingDependencyError
        As for `direction`.

    References
    ----------
    .. [1] J. Mooij, J. Peters, D. Janzing, J. Zscheischler, B. Schoelkopf. Distinguishing cause
       from effect using observational data: methods and benchmarks. Journal of Machine
       Learning Research 17, 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic import causal
    >>> x, y = np.zeros((2, 10_000))
    >>> [step.name for step in causal.plan_direction(x, y, threads=1).passes][:2]
    ['means and standard deviations', 'regressions']
    """
    run = RunOptions(0, "float64", client, threads, memory, time)
    session = open_nodes(run, (x, y), names, data, missing)
    measure = estimator, null, n_resamples, kernel
    asked = _Directed(session, find_regression(regression), criterion, *measure)
    return asked.plan(asked.choose_rows(max_rows)[0])


@shows_progress
def directions(
    pairs: Sequence[tuple[Any, Any]] | Mapping[str, tuple[Any, Any]],
    *,
    rng: RngLike = None,
    progress: Progress = None,
    checkpoint: str | None = None,
    **options: Any,
) -> CausalDirections:
    """The direction of each of many pairs.

    Parameters
    ----------
    pairs : sequence or mapping of pairs of array-like, shapes (n,) or (n, d)
        Each (x, y) as for `direction`; the keys of a mapping are names of the pairs.
    rng : int, SeedSequence, BitGenerator, Generator or None, optional
        One seed for all. Every pair draws from a seed of its own, which is in its result.
    progress : bool or callable, optional
        As for `dhsic.independence_test`; a callable hears of a step a pair, and then of those of
        the pair.
    checkpoint : str, optional
        Path or URL of a folder that takes the checkpoint of every pair, see `direction`.
    **options : object
        As for `direction`.

    Returns
    -------
    CausalDirections

    Raises
    ------
    InvalidArgumentError, DataError, MissingDependencyError
        As for `direction`; the message names the pair.

    References
    ----------
    .. [1] J. Mooij, J. Peters, D. Janzing, J. Zscheischler, B. Schoelkopf. Distinguishing cause
       from effect using observational data: methods and benchmarks. Journal of Machine
       Learning Research 17, 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic import causal
    >>> rng = np.random.default_rng(0)
    >>> x, noise = rng.uniform(-1.0, 1.0, (2, 300))
    >>> y = x + x**3 + 0.5 * noise
    >>> found = causal.directions({"up": (x, y), "down": (y, x)}, criterion="hsic", rng=0)
    >>> found.scores > 0
    array([ True, False])
    """
    began = perf_counter()
    named = _named_pairs(pairs)
    check_seeded(rng, checkpoint)
    seed = resolve_seed(rng)
    results = []
    for number, (name, (x, y)) in enumerate(named.items()):
        if callable(progress):
            progress(StepStarted(f"{name}, pair {number + 1} of {len(named)}"))
        # Spawned seeds are independent, so that a pair keeps its own whatever is run beside it, and
        # has the same result when it is run alone.
        spawned = np.random.SeedSequence(seed, spawn_key=(number,))
        own: dict[str, Any] = {"rng": int(spawned.generate_state(1, np.uint64)[0])}
        if checkpoint is not None:
            folder = Folder.at(checkpoint, "checkpoint").inner(f"pair{number + 1:04d}")
            own["checkpoint"] = folder.url
        try:
            results.append(direction(x, y, progress=progress, **own, **options))
        except DhsicError as error:
            # An error of the same class, which says of which pair it is.
            msg = f"pair {name!r}: {error}"
            raise type(error)(msg) from error
    seconds = perf_counter() - began
    return CausalDirections(pairs=tuple(named), results=tuple(results), seed=seed, seconds=seconds)


def _named_pairs(pairs: Any) -> dict[str, tuple[Any, Any]]:
    if isinstance(pairs, Mapping):
        named = {str(name): pair for name, pair in pairs.items()}
        # Keys such as 1 and "1" are one name.
        if len(named) < len(pairs):
            msg = f"names of pairs must differ as text, got {list(pairs)}: rename those that do not"
            raise InvalidArgumentError(msg)
    elif isinstance(pairs, Sequence) and not isinstance(pairs, str):
        named = {f"pair{number}": pair for number, pair in enumerate(pairs, 1)}
    else:
        named = {}
    wrong = [
        name for name, pair in named.items() if not isinstance(pair, tuple | list) or len(pair) != 2
    ]
    if wrong or not named:
        got = f"{wrong[0]!r} without" if wrong else f"{type(pairs).__name__} without any"
        msg = f"pairs must be one or more pairs (x, y) of arrays, got {got}: give a list of tuples"
        raise InvalidArgumentError(msg)
    return named


class _MeasuredSide(NamedTuple):
    """A direction, and how it was measured."""

    evidence: DirectionEvidence
    estimator: str
    null: str | None


@dataclass(frozen=True)
class _Directed:
    """Regressions of two variables on each other, and how their residuals are measured.

    Parameters
    ----------
    session : Session
        Over the two variables.
    regression : Regression
        How each is regressed on the other.
    criterion, estimator, null, n_resamples, kernel
        As for `direction`.

    Raises
    ------
    InvalidArgumentError
        The criterion is unknown, or compares no p-values and a null is given; or the kernel is
        linear.
    """

    session: Session
    regression: Regression
    criterion: DirectionCriterion
    estimator: EstimatorName | Estimator
    null: NullName | Null | None
    n_resamples: int | None
    kernel: KernelName | str | Kernel | None

    def __post_init__(self) -> None:
        check_choice("criterion", self.criterion, get_args(DirectionCriterion))
        if isinstance(read_kernel(self.kernel), Linear):
            # Rounding errors would decide.
            msg = (
                "kernel must see more than correlation, of which a regression leaves none, got "
                "'linear': take 'gaussian'"
            )
            raise InvalidArgumentError(msg)
        for name in ("null", "n_resamples"):
            if getattr(self, name) is not None and self.criterion not in _BY_PVALUE:
                msg = (
                    f"{name} must be left out with criterion={self.criterion!r}, which compares no "
                    f"p-values, got {getattr(self, name)!r}: drop it, or take criterion='p-value'"
                )
                raise InvalidArgumentError(msg)

    def choose_rows(self, most: int | None) -> tuple[int, str]:
        """As many rows as were asked for, or as fit the memory and the time; and why so many."""
        n = self.session.n
        if most is not None:
            return min(n, check_integer("max_rows", most, minimum=FEWEST_ROWS)), AS_ASKED
        if getattr(self.regression, "regressor", "") == "gaussian-process":
            n = min(n, _GAUSSIAN_PROCESS_ROWS)
        elif isinstance(self.estimator, VHSIC) or str(self.estimator) == VHSIC.name:
            n = min(n, _ALL_PAIRS_ROWS)
        # All rows, or the powers of two below, until the plan fits.
        offers = [
            Offer(k, f"{k:,} rows", partial(self._plan_of, k), partial(self._run_chosen, k))
            for k in powers_below(n, min(n, _FEWEST_CHOSEN))
        ]
        number, reason = first_that_fits(self.session, [offers])
        if not reason and number < self.session.n:
            reason = f"{number:,} rows, since more would take long: set max_rows for them"
        return number, reason or AS_ASKED

    def choose(self, rows: int) -> tuple[_Directed, str]:
        """With the estimator for so many rows, the same for both directions, and why this one."""
        if not isinstance(self.estimator, str):
            return self, AS_ASKED

        # Of all that runs, whichever variable is the effect.
        def planner(estimator: Estimator, some: Session, combinations: Combinations) -> Plan:
            del some, combinations
            return replace(self, estimator=estimator)._plan_of(rows)

        def runner(estimator: Estimator, some: Session, combinations: Combinations) -> object:
            del combinations
            whole = some.over(self.session.sources)
            return replace(self, session=whole, estimator=estimator).run(rows)

        session, _ = self._selected(rows)
        both = VHSIC.name, NystromMHSIC.name
        names = both if self.estimator == "auto" else (self.estimator,)
        combinations = self._kernels(find_estimator(names[0], session)[0])
        chosen, _, reason = choose_among(names, session, combinations, planner, runner)
        return replace(self, estimator=chosen), reason

    def plan(self, rows: int) -> Plan:
        """The plan, whose refusal names the most rows that fit."""
        ways = [Way("rows", rows, self._plan_of, min(rows, _FEWEST_CHOSEN))]
        pilot = partial(self.session.timed, partial(self._run_chosen, rows))
        return replace(telling(self._plan_of(rows), ways), pilot=pilot)

    def _plan_of(self, rows: int) -> Plan:
        """All steps with so many rows, of both directions."""
        if isinstance(self.estimator, str):
            return self.choose(rows)[0]._plan_of(rows)
        session, steps = self._selected(rows)
        estimator, _ = find_estimator(self.estimator, session)
        made, both = _plan_standardised(session)
        steps, landmarks = [*steps, *made], None
        for cause, effect in (both, both[::-1]):
            pair = session.over([cause, effect])
            made, (left,) = plan_regressions(pair, self.regression, _GIVEN, _RESIDUALS)
            measured = self._plan_measure(session.over([cause, left]), estimator)
            steps += [*made, *measured.steps]
            landmarks = measured.n_landmarks
        return plan_of(session, steps, _REMEDY, landmarks)

    def _plan_measure(self, session: Session, estimator: Estimator) -> Plan:
        """The plan of `_side`, after the regression."""
        combinations = self._kernels(estimator)
        if self.criterion == "sensitivity":
            # The map is summed up here, and never written.
            return map_passes(session, estimator, "statistic", combinations.kernels, (0, 1))
        if self.criterion == "hsic":
            return plan_once(estimator, session, combinations, None)
        return plan_test(estimator, session, combinations, self._null, self.n_resamples)

    def _kernels(self, estimator: Estimator) -> Combinations:
        return Combinations.single([estimator.kernel(read_kernel(self.kernel))] * 2)

    @property
    def _null(self) -> str | Null:
        # A law has p-values of any size, which the score compares; those of replicates end at one
        # over their number.
        return "gamma" if self.null is None else self.null

    def _selected(self, rows: int) -> tuple[Session, list[DriverStep | PassPlan]]:
        """The shapes of the selected rows, which are held, and the step that reads them."""
        whole = self.session
        if rows == whole.n:
            return whole, []
        size = 8 * rows * sum(whole.dims)
        fetch = size + max(source.take_bytes for source in whole.sources)
        # A plan asks for shapes, so that the rows take no memory.
        shapes = [np.broadcast_to(np.float64(0.0), (rows, d)) for d in whole.dims]
        held = map(Variable, whole.names, shapes)
        return whole.over(list(held)), [DriverStep("select rows", size + fetch, size)]

    def _select(self, rows: int) -> Session:
        """The session over so many rows, drawn at random and held where they are not all."""
        whole = self.session
        if rows == whole.n:
            return whole
        whole.step("select rows")
        # At random and not the first ones: data are often stored sorted.
        drawn = generator(whole.seed, "selection").choice(whole.n, rows, replace=False)
        # In order, so that chunks are read one after another.
        values = whole.take([np.sort(drawn)] * len(whole.sources))
        return whole.over(list(map(Variable, whole.names, values)), "selected rows")

    def _run_chosen(self, rows: int, session: Session) -> object:
        return replace(self, session=session).choose(rows)[0].run(rows)

    def run(self, rows: int) -> tuple[_MeasuredSide, _MeasuredSide]:
        """The first variable as the cause, and the second."""
        session = self._select(rows)
        first, second = _standardised(session)
        # One after the other by the same draws, so that exchanged variables give the opposite.
        forward = self._side(session.over([first, second], "forward"))
        return forward, self._side(session.over([second, first], "backward"))

    def _side(self, both: Session) -> _MeasuredSide:
        """The dependence of residuals of the second variable on the first, their cause.

        As much of it as the criterion needs.
        """
        (left,) = fit_regressions(both, self.regression, _GIVEN).variables(_GIVEN, _RESIDUALS)
        session = both.over([both.sources[0], left], "residuals")
        if self.criterion in _BY_PVALUE:
            options = self.kernel, self.estimator, self._null, self.n_resamples
            method = choose_method(session, *options)
            neighbours = Neighbours(session, arguments=())
            fields = tested_fields(session, method)
            neighbours.warn()
            side = DirectionEvidence(fields["estimate"], fields["pvalue"])
            return _MeasuredSide(side, method.estimator.name, method.null.name)
        maps = self.criterion == "sensitivity"
        chosen, _, kernels = choose_measure(session, self.kernel, self.estimator, unbiased=not maps)
        if maps:
            # The statistic n HSIC, since its derivative in one entry does not shrink with n.
            measured, squares = column_sensitivities(session, chosen, "statistic", kernels, (0, 1))
            parts = np.split(squares, [measured.gradient.dims[0]])
            cause, effect = (math.sqrt(float(part.sum())) for part in parts)
            side = DirectionEvidence(float(measured.estimate.value), None, (cause, effect))
        else:
            side = DirectionEvidence(float(chosen.estimate(session, kernels).value))
        return _MeasuredSide(side, chosen.name, None)

    def score(self, forward: DirectionEvidence, backward: DirectionEvidence) -> float:
        """Score that is positive where the first variable is believed to be the cause.

        References
        ----------
        .. [1] J. Mooij, J. Peters, D. Janzing, J. Zscheischler, B. Schoelkopf. Distinguishing cause
           from effect using observational data. JMLR 17(32), 2016.
        .. [2] A. Perez-Suay, G. Camps-Valls. Sensitivity maps of the Hilbert-Schmidt independence
           criterion. Applied Soft Computing 70, 2018, section 4.5.
        """
        if self.criterion == "sensitivity":
            assert forward.sensitivity is not None
            assert backward.sensitivity is not None
            return sum(backward.sensitivity) - sum(forward.sensitivity)  # C_s of [2]
        if self.criterion == "hsic":
            return backward.hsic - forward.hsic  # -C of [2]
        assert forward.pvalue is not None
        assert backward.pvalue is not None
        if self.criterion == "p-value":
            return math.log(forward.pvalue) - math.log(backward.pvalue)
        larger = max(forward.pvalue, backward.pvalue)
        # copysign takes 0 for positive: equal p-values decide nothing.
        return math.copysign(larger, forward.pvalue - backward.pvalue) * (
            forward.pvalue != backward.pvalue
        )


@dataclass(frozen=True)
class _EvenColumns:
    """All columns about provisional centres in powers of two, and their squares, as a design.

    Parameters
    ----------
    centre : ndarray, shape (d,)
        Medians of a sample, from which a mean is at most a standard deviation away, so that no
        digits cancel; those of a constant column are exactly its value.
    exponent : ndarray, shape (d,)
        Powers of two that the columns are divided by, which is exact, so that no square overflows
        or vanishes.
    """

    centre: Vector
    exponent: Exponents

    @property
    def size(self) -> int:
        """Columns and squares."""
        return 2 * len(self.centre)

    def joined(self, values: Sequence[NDArray[Any]], fold: int) -> Vector:
        """Columns and squares of rows, shape (b, 2 d)."""
        del fold
        even = np.ldexp(np.concatenate(values, axis=1) - self.centre, -self.exponent)
        return np.concatenate([even, np.square(even)], axis=1)


@dataclass(frozen=True)
class _Standardise:
    """Rows in units of the standard deviations, about the means, as a `RowFunction`."""

    centre: Vector
    exponent: Exponents
    mean: Vector
    scale: Vector

    def __call__(self, rows: NDArray[np.intp], values: Sequence[NDArray[Any]]) -> Vector:
        """Shift and divide."""
        del rows
        even = np.ldexp(np.asarray(values[0], np.float64) - self.centre, -self.exponent)
        out: Vector = (even - self.mean) / self.scale
        return out


def _moments(session: Session) -> SecondMomentsPass:
    """The pass of means and mean squares, to which a run adds the columns."""
    d = sum(session.dims)
    return SecondMomentsPass(
        Bound(2 * d, 16 * d, 8 * 3 * d),
        Folds(1),
        "means and standard deviations",
        products=False,
    )


def _standardised(session: Session) -> list[Source]:
    """All variables, each column of mean 0 and variance 1, computed when they are read.

    Raises
    ------
    DataError
        A column is constant.
    """
    session.step(_UNITS)
    rows = np.arange(session.n)
    if session.n > _UNIT_ROWS:
        # A second stream of this purpose: the first draws the rows of a pair.
        rows = generator(session.seed, "selection", 1).choice(session.n, _UNIT_ROWS, replace=False)
    sample = np.concatenate(session.take([rows] * len(session.sources)), axis=1)
    centre = np.median(sample, axis=0)
    # The power of two that brings what the sample holds of a column to about 1.
    exponent = np.frexp(np.abs(sample - centre).max(axis=0))[1].astype(np.int32)
    design = _EvenColumns(centre, exponent)
    sums = session.reduce(replace(_moments(session), design=design)).whole()
    mean, square = np.split(sums.totals / session.n, 2)
    # The centre is near the mean, so that little cancels.
    deviation = np.sqrt(np.maximum(square - mean**2, 0.0))
    out: list[Source] = []
    stop = 0
    for source, d in zip(session.sources, session.dims, strict=True):
        units: list[Any] = [one[stop : stop + d] for one in (centre, exponent, mean, deviation)]
        stop += d
        (constant,) = np.nonzero(units[-1] == 0.0)
        if len(constant):
            msg = (
                f"variable {source.name!r} is constant in column {int(constant[0])}: leave the "
                "column out"
            )
            raise DataError(msg)
        out.append(derived(source.name, (source,), _Standardise(*units), d))
    return out


def _plan_standardised(session: Session) -> tuple[list[DriverStep | PassPlan], list[Source]]:
    """The steps of `_standardised`, and variables of the shapes of what it makes."""
    size = 8 * min(session.n, _UNIT_ROWS) * sum(session.dims)
    fetch = 3 * size + max(source.take_bytes for source in session.sources)
    shapes: list[Source] = [
        derived(one.name, (one,), JoinRows(), one.shape[1]) for one in session.sources
    ]
    return [DriverStep(_UNITS, fetch), session.plan(_moments(session))], shapes
