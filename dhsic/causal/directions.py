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

from dhsic._arguments import check_seeded, choose_measure, choose_method, read_kernel
from dhsic._fields import tested_fields
from dhsic._progress import Progress, shows_progress
from dhsic._random import RngLike, generator, resolve_seed
from dhsic._validation import check_choice, check_integer, named_arguments
from dhsic._version import __version__
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
from dhsic.engine.reduction import Footprint, Pass, RowBlock
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
from dhsic.estimators.base import passes_of, plan_of
from dhsic.estimators.choose import Runner, choose_among, plan_test
from dhsic.estimators.reach import (
    Offer,
    Planner,
    Way,
    first_that_fits,
    plan_once,
    powers_below,
    telling,
)
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
from dhsic.results import AS_ASKED
from dhsic.sensitivity.maps import column_sensitivities, plan_map
from dhsic.statistics.neighbours import Neighbours

Vector = NDArray[np.float64]
Exponents = NDArray[np.int32]

_UNIT_ROWS = 1000
_UNITS = "sample rows"
_BY_PVALUE = ("p-value", "larger-p-value")
_NOT_RUN = "write the map"
_FEWEST_CHOSEN = 256
_GAUSSIAN_PROCESS_ROWS, _ALL_PAIRS_ROWS = 2048, 2**17  # of a run of minutes
_REMEDY = "take fewer rows by max_rows, fewer landmarks or threads, or regression='splines'"
_GIVEN = {1: [(0,)]}  # the effect given the cause


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
    began = perf_counter()
    measure = _ResidualMeasure(criterion, estimator, null, n_resamples, kernel)
    place = client, threads, memory, progress, checkpoint
    fitted = find_regression(regression)
    session = open_nodes((x, y), names, data, missing, rng, "float64", *place, time=time)
    asked = _Directed(session, fitted, measure)
    # As many rows as the regression and the measure can take: drawn at random, told by the result.
    rows, rows_reason = asked.rows(max_rows)
    run, reason = asked.settled(rows)
    session.begin(run.told(rows))
    session.resume(
        computes="causal direction",
        criterion=criterion,
        estimator=run.measure.estimator,
        null=null,
        n_resamples=n_resamples,
        kernel=read_kernel(kernel),
        rows_used=rows,
        **described_regression(fitted),
    )
    forward, backward = run.measured(rows)
    first, second = session.names
    return CausalDirection(
        names=(first, second),
        score=measure.score(forward.evidence, backward.evidence),
        forward=forward.evidence,
        backward=backward.evidence,
        criterion=criterion,
        estimator=forward.estimator,
        estimator_reason=reason,
        null=forward.null,
        regression=fitted.name,
        n=rows,
        rows_reason=rows_reason,
        seed=session.seed,
        dropped=session.dropped,
        data=session.verify(),
        passes=passes_of(session),
        seconds=perf_counter() - began,
        version=__version__,
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
    measure = _ResidualMeasure(criterion, estimator, null, n_resamples, kernel)
    place = client, threads, memory, None
    session = open_nodes((x, y), names, data, missing, 0, "float64", *place, time=time)
    run = _Directed(session, find_regression(regression), measure)
    return run.told(run.rows(max_rows)[0])


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
        try:
            results.append(
                direction(
                    x,
                    y,
                    # A seed and a folder of its own, so that a pair which is run alone has the same
                    # result.
                    rng=_own_seed(seed, number),
                    progress=progress,
                    checkpoint=_own_folder(checkpoint, number),
                    **options,
                )
            )
        except DhsicError as error:
            # An error of the same class, which says of which pair it is.
            msg = f"pair {name!r}: {error}"
            raise type(error)(msg) from error
    return CausalDirections(
        pairs=tuple(named),
        results=tuple(results),
        seed=seed,
        seconds=perf_counter() - began,
    )


def _own_folder(checkpoint: str | None, number: int) -> str | None:
    """The folder of one of many pairs."""
    return (
        None
        if checkpoint is None
        else Folder.at(checkpoint, "checkpoint").inner(f"pair{number + 1:04d}").url
    )


def _own_seed(seed: int, number: int) -> int:
    """The seed of one of many pairs."""
    # Spawned seeds are independent, and a pair keeps its own whatever is run beside it.
    return int(np.random.SeedSequence(seed, spawn_key=(number,)).generate_state(1, np.uint64)[0])


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
class _ResidualMeasure:
    """How the dependence of residuals is measured, and what of it is compared.

    Parameters
    ----------
    criterion, estimator, null, n_resamples, kernel
        As for `direction`.

    Raises
    ------
    InvalidArgumentError
        The criterion is unknown, or compares no p-values and a null is given; or the kernel is
        linear.
    """

    criterion: DirectionCriterion = "p-value"
    estimator: EstimatorName | Estimator = "auto"
    null: NullName | Null | None = None
    n_resamples: int | None = None
    kernel: KernelName | str | Kernel | None = "gaussian"

    def __post_init__(self) -> None:
        check_choice("criterion", self.criterion, get_args(DirectionCriterion))
        if isinstance(read_kernel(self.kernel), Linear):
            # Rounding errors would decide.
            msg = (
                "kernel must see more than correlation, of which a regression leaves none, got "
                "'linear': take 'gaussian'"
            )
            raise InvalidArgumentError(msg)
        if self.criterion in _BY_PVALUE:
            return
        for name in ("null", "n_resamples"):
            if getattr(self, name) is not None:
                msg = (
                    f"{name} must be left out with criterion={self.criterion!r}, which compares no "
                    f"p-values, got {getattr(self, name)!r}: drop it, or take criterion='p-value'"
                )
                raise InvalidArgumentError(msg)

    def settled(
        self, session: Session, planner: Planner | None = None, runner: Runner | None = None
    ) -> tuple[_ResidualMeasure, str]:
        """With the estimator for two variables and the residuals of either, and why this one.

        Parameters
        ----------
        session : Session
            Over two variables of these shapes.
        planner, runner : callable, optional
            Functions that plan and run, where that is not the measure of one side alone.

        Returns
        -------
        measure : _ResidualMeasure
            The same for both directions.
        reason : str
            Why this estimator.
        """
        if not isinstance(self.estimator, str):
            return self, AS_ASKED
        # The plan is that of the wider variable, whichever is the effect.
        widest = session.over(sorted(session.sources, key=lambda x: x.shape[1]))
        auto = self.estimator == "auto"
        names = (VHSIC.name, NystromMHSIC.name) if auto else (self.estimator,)
        first, _ = find_estimator(names[0], widest)
        asked = self._single(first), planner or self._plan, runner
        chosen, _, reason = choose_among(names, widest, *asked)
        return replace(self, estimator=chosen), reason

    def plan(self, session: Session) -> Plan:
        """The plan of `side`, of a measure that is settled."""
        estimator, _ = find_estimator(self.estimator, session)
        return self._plan(estimator, session, self._single(estimator))

    def _single(self, estimator: Estimator) -> Combinations:
        return Combinations.single([estimator.kernel(read_kernel(self.kernel))] * 2)

    def _plan(self, estimator: Estimator, session: Session, combinations: Combinations) -> Plan:
        if self.criterion == "sensitivity":
            plan = plan_map(estimator, session, combinations, "statistic", session.names)
            # The map is summed up here, and never written.
            run = tuple(step for step in plan.steps if step.name != _NOT_RUN)
            return replace(plan, steps=run)
        if self.criterion == "hsic":
            return plan_once(estimator, session, combinations, None)
        return plan_test(estimator, session, combinations, self._null, self.n_resamples)

    @property
    def _null(self) -> str | Null:
        # A law has p-values of any size, which the score compares; those of replicates end at one
        # over their number.
        return "gamma" if self.null is None else self.null

    def side(self, session: Session) -> _MeasuredSide:
        """The dependence of residuals on the cause, as much of it as the criterion needs.

        Parameters
        ----------
        session : Session
            Over the cause and the residuals, in this order.

        Returns
        -------
        _MeasuredSide
        """
        if self.criterion in _BY_PVALUE:
            method = choose_method(
                session, self.kernel, self.estimator, self._null, self.n_resamples
            )
            neighbours = Neighbours(session, arguments=())
            fields = tested_fields(session, method, perf_counter())
            neighbours.warn()
            side = DirectionEvidence(fields["estimate"], fields["pvalue"])
            return _MeasuredSide(side, method.estimator.name, method.null.name)
        maps = self.criterion == "sensitivity"
        chosen, _, kernels = choose_measure(session, self.kernel, self.estimator, unbiased=not maps)
        if maps:
            # The statistic n HSIC, since its derivative in one entry does not shrink with n.
            measured, squares = column_sensitivities(session, chosen, "statistic", kernels, (0, 1))
            parts = np.split(squares, [measured.gradient.dims[0]])
            norms = [math.sqrt(float(part.sum())) for part in parts]
            side = DirectionEvidence(float(measured.estimate.value), None, (norms[0], norms[1]))
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
class _Directed:
    """Regressions of two variables on each other, and how their residuals are measured.

    Parameters
    ----------
    session : Session
        Over the two variables.
    regression : Regression
        How each is regressed on the other.
    measure : _ResidualMeasure
        How the dependence of residuals is measured.
    """

    session: Session
    regression: Regression
    measure: _ResidualMeasure

    def rows(self, most: int | None) -> tuple[int, str]:
        """As many rows as were asked for, or as fit the memory and the time; and why so many."""
        n = self.session.n
        if most is not None:
            return min(n, check_integer("max_rows", most, minimum=FEWEST_ROWS)), AS_ASKED
        if getattr(self.regression, "regressor", "") == "gaussian-process":
            n = min(n, _GAUSSIAN_PROCESS_ROWS)
        elif isinstance(self.measure.estimator, VHSIC) or str(self.measure.estimator) == VHSIC.name:
            n = min(n, _ALL_PAIRS_ROWS)
        # All rows, or the powers of two below, until the plan fits.
        offers = [
            Offer(k, f"{k:,} rows", partial(self.plan, k), partial(self._run, k))
            for k in powers_below(n, min(n, _FEWEST_CHOSEN))
        ]
        number, reason = first_that_fits(self.session, [offers])
        if not reason and number < self.session.n:
            reason = f"{number:,} rows, since more would take long: set max_rows for them"
        return number, reason or AS_ASKED

    def _run(self, rows: int, session: Session) -> object:
        return replace(self, session=session).settled(rows)[0].measured(rows)

    def settled(self, rows: int) -> tuple[_Directed, str]:
        """With the estimator for so many rows, the same for both directions, and why this one."""

        def planner(estimator: Estimator, session: Session, combinations: Combinations) -> Plan:
            del session, combinations  # of one side, where the plan is of all that runs
            return replace(self, measure=replace(self.measure, estimator=estimator))._plan(rows)

        def runner(estimator: Estimator, some: Session, combinations: Combinations) -> object:
            del combinations
            measure = replace(self.measure, estimator=estimator)
            whole = some.over(self.session.sources)
            return replace(self, session=whole, measure=measure).measured(rows)

        session, _ = self._selected(rows)
        side = _residual_session(session, *_stand_ins(session))
        measure, reason = self.measure.settled(side, planner, runner)
        return replace(self, measure=measure), reason

    def told(self, rows: int) -> Plan:
        """The plan, whose refusal names the most rows that fit."""
        ways = [Way("rows", rows, self.plan, min(rows, _FEWEST_CHOSEN))]
        pilot = partial(self.session.timed, partial(self._run, rows))
        return replace(telling(self.plan(rows), ways), pilot=pilot)

    def plan(self, rows: int) -> Plan:
        """All steps with so many rows."""
        return self.settled(rows)[0]._plan(rows)

    def _plan(self, rows: int) -> Plan:
        session, steps = self._selected(rows)
        steps = [*steps, *_plan_units(session)]
        landmarks = None
        first, second = _stand_ins(session)
        for cause, effect in ((first, second), (second, first)):
            steps += plan_regressions(session.over([cause, effect]), self.regression, _GIVEN)
            measured = self.measure.plan(_residual_session(session, cause, effect))
            steps += measured.steps
            landmarks = measured.n_landmarks
        return plan_of(session, steps, _REMEDY, landmarks)

    def _selected(self, rows: int) -> tuple[Session, list[DriverStep | PassPlan]]:
        """Stand-ins of the selected rows, which are held, and the step that reads them."""
        whole = self.session
        if rows == whole.n:
            return whole, []
        size = 8 * rows * sum(whole.dims)
        fetch = size + max(source.take_bytes for source in whole.sources)
        # A plan asks for shapes, so that the rows take no memory.
        zero = np.float64(0.0)
        stand_ins = [
            Variable(source.name, np.broadcast_to(zero, (rows, source.shape[1])))
            for source in whole.sources
        ]
        return whole.over(stand_ins), [DriverStep("select rows", size + fetch, size)]

    def select(self, rows: int) -> Session:
        """The session over so many rows, drawn at random and held where they are not all."""
        whole = self.session
        if rows == whole.n:
            return whole
        whole.step("select rows")
        # At random and not the first ones: data are often stored sorted.
        drawn = generator(whole.seed, "selection").choice(whole.n, rows, replace=False)
        # In order, so that chunks are read one after another.
        numbers = np.sort(drawn)
        values = whole.take([numbers] * len(whole.sources))
        pairs = zip(whole.names, values, strict=True)
        return whole.over([Variable(name, x) for name, x in pairs], "selected rows")

    def measured(self, rows: int) -> tuple[_MeasuredSide, _MeasuredSide]:
        """The first variable as the cause, and the second."""
        session = self.select(rows)
        first, second = _standardised(session)
        # One after the other by the same draws, so that exchanged variables give the opposite.
        forward = self._side(session, first, second, "forward")
        return forward, self._side(session, second, first, "backward")

    def _side(self, session: Session, cause: Source, effect: Source, way: str) -> _MeasuredSide:
        return self.measure.side(self._regressed(session, cause, effect, way))

    def _regressed(self, session: Session, cause: Source, effect: Source, way: str) -> Session:
        """The session over a cause and the residuals of its effect."""
        both = session.over([cause, effect], way)
        (left,) = fit_regressions(both, self.regression, _GIVEN).variables(_GIVEN)
        named: Any = replace(left, name=_residuals_of(effect))  # type: ignore[type-var]
        return both.over([cause, named], "residuals")


def _stand_ins(session: Session) -> tuple[Source, Source]:
    """The standardised variables, for plans."""
    first, second = (_shaped(one.name, (one,), one.shape[1]) for one in session.sources)
    return first, second


def _residual_session(session: Session, cause: Source, effect: Source) -> Session:
    """The session over a cause and the residuals of its effect, for plans."""
    left = _shaped(_residuals_of(effect), (effect, cause), effect.shape[1])
    return session.over([cause, left])


def _residuals_of(effect: Source) -> str:
    return f"residuals of {effect.name}"


def _shaped(name: str, others: tuple[Source, ...], width: int) -> Source:
    """A variable that is to be made of others, of which a plan reads no row."""
    return derived(name, others, JoinRows(), width)


class _CentredSums(NamedTuple):
    """Sums over rows of what is about the centres, one after another variable."""

    sums: Vector
    """Shape (d,)."""
    squares: Vector
    """Shape (d,)."""


@dataclass(frozen=True)
class _ScalesPass(Pass[_CentredSums]):
    """Means and mean squares of all columns about provisional centres, in powers of two.

    Parameters
    ----------
    dims : tuple of int
        Columns of every variable.
    centres : tuple of ndarray, shapes (d_m,), optional
        Medians of a sample, which a run has, from which a mean is at most a standard deviation
        away, so that no digits cancel; those of a constant column are exactly its value.
    exponents : tuple of ndarray, shapes (d_m,), optional
        Powers of two that the columns are divided by, which is exact, so that no square overflows
        or vanishes.
    """

    dims: tuple[int, ...]
    centres: tuple[Vector, ...] = ()
    exponents: tuple[Exponents, ...] = ()
    name: str = "means and standard deviations"

    def footprint(self, rows: int) -> Footprint:
        """Cost of a block of so many rows."""
        d = sum(self.dims)
        return Footprint(16 * d, 3 * 8 * rows * max(self.dims), 16 * d)

    def chunk(self, block: RowBlock) -> _CentredSums:
        """Sums over one block."""
        parts = zip(block.values, self.centres, self.exponents, strict=True)
        # Powers of two scale without rounding, so that squares neither overflow nor vanish.
        even = [np.ldexp(x - centre, -exponent) for x, centre, exponent in parts]
        sums = np.concatenate([x.sum(axis=0) for x in even])
        return _CentredSums(sums, np.concatenate([np.einsum("ij,ij->j", x, x) for x in even]))


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


def _standardised(session: Session) -> list[Source]:
    """All variables, each column of mean 0 and variance 1.

    Parameters
    ----------
    session : Session
        Over the variables.

    Returns
    -------
    list of source
        Computed when they are read.

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
    samples = session.take([rows] * len(session.sources))
    centres = tuple(np.median(x, axis=0) for x in samples)
    pairs = zip(samples, centres, strict=True)
    # The power of two that brings what the sample holds of a column to about 1.
    exponents = tuple(np.frexp(np.abs(x - c).max(axis=0))[1].astype(np.int32) for x, c in pairs)
    moments = session.reduce(_ScalesPass(session.dims, centres, exponents))
    means = moments.sums / session.n
    # The centre is near the mean, so that little cancels.
    deviations = np.sqrt(np.maximum(moments.squares / session.n - means**2, 0.0))
    out: list[Source] = []
    edges = np.cumsum([0, *session.dims])
    for m, source in enumerate(session.sources):
        columns = slice(edges[m], edges[m + 1])
        _check_deviations(source.name, deviations[columns])
        function = _Standardise(centres[m], exponents[m], means[columns], deviations[columns])
        out.append(derived(source.name, (source,), function, source.shape[1]))
    return out


def _plan_units(session: Session) -> list[DriverStep | PassPlan]:
    """The plan of `_standardised`."""
    size = 8 * min(session.n, _UNIT_ROWS) * sum(session.dims)
    fetch = 3 * size + max(source.take_bytes for source in session.sources)
    return [DriverStep(_UNITS, fetch), session.plan(_ScalesPass(session.dims))]


def _check_deviations(name: str, deviations: Vector) -> None:
    (constant,) = np.nonzero(deviations == 0.0)
    if len(constant):
        msg = f"variable {name!r} is constant in column {int(constant[0])}: leave the column out"
        raise DataError(msg)
