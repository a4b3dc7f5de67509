"""Decide which of two variables is the cause, test residuals, and score and search graphs.

Where an effect is a function of its causes plus noise that is independent of them, its residuals
are independent of the causes. Every function regresses variables, see `dhsic.regression`, and tests
the independence of what is left. Directions of one pair and of many come first, then the test of
residuals, then graphs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import combinations, permutations, product
from time import perf_counter
from typing import Any, ClassVar, Literal, NamedTuple, Self, Unpack, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dhsic import plots
from dhsic._arguments import (
    Kernels,
    Order,
    RowLabels,
    RunArguments,
    RunOptions,
    check_seeded,
    choose_measure,
    choose_method,
    read_given,
    read_kernel,
    read_single_kernels,
    run_fields,
    takes_run,
    tested_fields,
)
from dhsic._progress import Progress, shows_progress
from dhsic._random import RngLike, generator, resolve_seed
from dhsic._validation import (
    check_choice,
    check_integer,
    check_level,
    check_numbers,
    named_arguments,
    no_attribute,
    shown,
)
from dhsic.engine.events import StepStarted
from dhsic.engine.passes import Source
from dhsic.engine.plan import DriverStep, PassPlan, Plan, plans
from dhsic.engine.runtime import graphs_on
from dhsic.engine.session import Session
from dhsic.engine.units import format_count
from dhsic.errors import DataError, DhsicError, InvalidArgumentError, needing, printable
from dhsic.estimators import VHSIC, Estimator, EstimatorName, Null, NullName, NystromMHSIC
from dhsic.estimators.base import plan_of
from dhsic.estimators.choose import (
    choose_among,
    find_estimator,
    find_null,
    first_that_fits,
    plan_once,
    plan_test,
    planned,
    powers_below,
    telling,
)
from dhsic.features import ColumnFeatures
from dhsic.io.urls import Folder
from dhsic.io.variables import Missing, Variable, derived, held_in_memory, join_rows, joined_source
from dhsic.kernels import Combinations, Gaussian, Grid, Kernel, KernelName, OnColumns
from dhsic.kernels.base import Linear
from dhsic.nulls import Gamma, Permutation, Resampling, Spectral, pvalue, pvalues
from dhsic.regression import (
    FEWEST_ROWS,
    CrossFitted,
    Folds,
    Regression,
    RegressionName,
    Regressions,
    SecondMomentsPass,
    Splines,
    described_regression,
    find_regression,
    fit_regressions,
    open_nodes,
    plan_regressions,
    run_regressions,
)
from dhsic.report import Findings
from dhsic.results import AS_ASKED, BarResult, IndependenceTestResult, Result, RunFields
from dhsic.sensitivity import column_sensitivities, map_passes
from dhsic.statistics.neighbours import Neighbours

__all__ = [
    "DAG",
    "AccuracyCurve",
    "CausalDirection",
    "CausalDirections",
    "CrossFitted",
    "DAGScores",
    "DAGSearch",
    "Regression",
    "ResidualIndependenceTestResult",
    "ScoredDAG",
    "Splines",
    "accuracy_curve",
    "direction",
    "directions",
    "find_regression",
    "plan_direction",
    "residual_independence_test",
    "score_dags",
    "search_dag",
]


def __getattr__(name: str) -> Any:
    raise no_attribute(__name__, name)


Vector = NDArray[np.float64]
DirectionCriterion = Literal["p-value", "larger-p-value", "hsic", "sensitivity"]
DependenceMeasure = VHSIC | NystromMHSIC
MeasureName = Literal["auto", "v-hsic", "nystrom-m"]
"""Estimators whose test takes two or more variables and several graphs at a time."""
Parents = tuple[tuple[int, ...], ...]
"""Numbers of the parents of every node, ascending."""

_UNIT_ROWS = 1000
_UNITS = "sample rows"
_BY_PVALUE = ("p-value", "larger-p-value")
_FEWEST_CHOSEN = 256
_GAUSSIAN_PROCESS_ROWS, _ALL_PAIRS_ROWS = 2048, 2**17  # of a run of minutes
_REMEDY = "take fewer rows by max_rows, fewer landmarks or threads, or regression='splines'"
_EFFECT_GIVEN = {1: [(0,)]}  # the effect given the cause
_RESIDUALS = "residuals of {}"
_MINIMAL_SHOWN = 5
_MOST_DRAWN = 30
_LEVEL = 0.05
# There are 29,281 graphs of five nodes, and 3,781,503 of six.
MOST_NODES = 5
_VHSIC_ROWS = 2000
_VHSIC_ROWS_OF_MANY = 10_000
_MANY_GRAPHS = 100


@dataclass(frozen=True)
class DirectionEvidence:
    """How the residuals of the effect depend on the cause, in one direction.

    Parameters
    ----------
    hsic : float
        Squared HSIC of the cause and the residuals of the effect, or the measure of the estimator.
    pvalue : float or None
        P-value of their independence, if the criterion uses it.
    sensitivity : tuple of float or None
        If the criterion uses them, the root mean squares of the derivatives of n HSIC with respect
        to the cause and to the residuals, both in units of the standardised variables.
    """

    hsic: float
    pvalue: float | None = None
    sensitivity: tuple[float, float] | None = None

    def __str__(self) -> str:
        said = [f"HSIC {plots.rounded(self.hsic)}"]
        if self.pvalue is not None:
            said.append(f"p-value {plots.rounded(self.pvalue)}")
        if self.sensitivity is not None:
            cause, residuals = map(plots.rounded, self.sensitivity)
            said.append(f"sensitivity to the cause {cause}, to the residuals {residuals}")
        return ", ".join(said)


_Side = tuple[DirectionEvidence, str, str | None]
"""A direction, with the names of the estimator and of the null that measured it."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CausalDirection(RunFields, BarResult):
    """Which of two variables is the cause of the other, under additive noise.

    Parameters
    ----------
    n, precision, seed, passes, seconds, version, dropped, data, missing
        Of the run, see `dhsic.results.RunFields`.
    names : tuple of str
        Names of both variables.
    score : float
        Positive if the first variable is inferred to be the cause, negative if the second is; its
        absolute value ranks the confidence among pairs.
    forward, backward : DirectionEvidence
        The first variable as the cause of the second, and the second as the cause of the first.
    criterion : {"p-value", "larger-p-value", "hsic", "sensitivity"}
        Quantity that the score compares.
    estimator : str
        Estimator of the dependence.
    null : str or None
        Null distribution of the p-values, if the criterion uses them.
    regression : str
        Regression that left the residuals.
    estimator_reason : str
        Why this estimator was chosen.
    rows_reason : str
        Why this number of rows was used.

    References
    ----------
    .. [1] J. Mooij, J. Peters, D. Janzing, J. Zscheischler, B. Schoelkopf. Distinguishing cause
       from effect using observational data: methods and benchmarks. Journal of Machine
       Learning Research 17, 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic import causal
    >>> x, noise = np.random.default_rng(0).uniform(-1.0, 1.0, (2, 300))
    >>> found = causal.direction(x, x + x**3 + 0.5 * noise, names=["x", "y"], rng=0)
    >>> found.direction, found.score > 0
    ('x -> y', True)
    """

    _tabular: ClassVar[bool] = False

    names: tuple[str, str]
    score: float
    forward: DirectionEvidence
    backward: DirectionEvidence
    criterion: DirectionCriterion
    estimator: str
    null: str | None
    regression: str
    estimator_reason: str = AS_ASKED
    rows_reason: str = AS_ASKED

    @property
    def direction(self) -> str:
        """The names with an arrow, as "x -> y"; "undecided" where the score is 0."""
        # Scores of 0 are those of equal evidence, which decides nothing.
        if self.score == 0.0:
            return "undecided"
        cause, effect = self.names if self.score > 0.0 else self.names[::-1]
        return f"{cause} -> {effect}"

    def summary(self) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads."""
        first, second = self.names
        by = self.criterion if self.null is None else f"{self.criterion}, {self.null} null"
        return [
            ("direction", self.direction),
            ("score", f"{self.score:.6g} (by {by})"),
            (f"{first} -> {second}", str(self.forward)),
            (f"{second} -> {first}", str(self.backward)),
            ("estimator", _because(self.estimator, self.estimator_reason)),
            ("regression", self.regression),
            ("n", _because(self._rows_told, self.rows_reason)),
            *self._tail(),
        ]

    def records(self) -> list[dict[str, Any]]:
        """One row."""
        first, second = self.names
        sides = {
            f"{name}_{way}": value
            # The same quantities of both directions, side by side.
            for way, side in (("forward", self.forward), ("backward", self.backward))
            for name, value in (("hsic", side.hsic), ("p", side.pvalue))
        }
        told = {"x": first, "y": second, "direction": self.direction, "statistic": self.score}
        how = (self.criterion, self.regression, self.estimator, self.null)
        return [{**told, **sides, "n": self.n, "method": ", ".join(filter(None, how))}]

    def _bars(self) -> tuple[Sequence[str], Sequence[float], str]:
        first, second = self.names
        # All criteria have HSIC, and only some have p-values or maps.
        sizes = [self.forward.hsic, self.backward.hsic]
        return [f"{first} -> {second}", f"{second} -> {first}"], sizes, "HSIC with the residuals"


@takes_run
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
    names: Sequence[str] | None = None,
    data: Any = None,
    missing: Missing = "refuse",
    **options: Unpack[RunArguments],
) -> CausalDirection:
    """Find which of two variables is the cause of the other, under additive noise.

    If y = f(x) + noise with noise independent of x, the residuals of y given x are independent of
    x, while the residuals of x given y depend on y, except in cases such as linear f with normal
    noise [1]_. So the function chooses the direction with the less dependent residuals. It assumes
    that one of the variables is the cause of the other, without a common cause or feedback.

    Parameters
    ----------
    x, y : array-like, shapes (n,) or (n, d)
        As for `independence_test`; each column is standardised. With spline regressions all rows
        are streamed; other regressions, and a random subset of the rows, are held in memory.
    criterion : {"p-value", "larger-p-value", "hsic", "sensitivity"}, optional
        Quantity to compare. "p-value": the score is the difference of the logarithms of both
        p-values; "larger-p-value": the larger p-value, with the sign of its direction, which is
        small if neither direction fits; see [2]_ for a comparison of such scores. "hsic": the
        difference of HSIC, -C of [3]_. "sensitivity": the difference of the norms of the
        sensitivity maps, C_s of [3]_, each norm the root mean square over the rows of the
        derivatives of n HSIC.
    estimator : str or Estimator, optional
        "v-hsic", "rff-hsic", "nystrom-m", or another estimator that supports the criterion. "auto"
        takes "v-hsic" if all pairs of rows fit the memory and the time, and otherwise "nystrom-m",
        the same for both directions.
    regression : str or Regression, optional
        "splines", "random-forest", "gaussian-process", or a value.
    null : str or Null, optional
        Null of the p-values, for criteria that compare p-values; the default is "gamma". Residuals
        are estimates, so p-values are always approximate. Permutations cannot distinguish p-values
        far below 1 / n_resamples. No p-value is below 2.2e-308: if both directions reach it, as
        with thousands of rows of heteroscedastic noise, the score is 0; the criterion "hsic" still
        ranks such pairs.
    n_resamples : int, optional
        As for `independence_test`.
    kernel : str, Kernel or None, optional
        Kernel of variables and residuals; "linear" is refused, since residuals of a regression are
        uncorrelated with the cause. None for estimators with their own kernel, such as "dcov".
    max_rows : int, optional
        The largest number of rows, drawn at random. The default is all rows, if they fit the memory
        and the time by the plan, or otherwise the largest power of two that fits, for example for a
        Gaussian process, whose cost is cubic. The result has the number and the reason.
    names, data, missing, rng, precision, client, threads, memory
        As for `independence_test`.
    time : float or str, optional
        Seconds that the run may take, as for `independence_test`, if you left the number of rows or
        the estimator open.
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
        The plan needs more memory than allowed. The message says how many rows would fit.
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
    run = RunOptions(**options)
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
    (forward, measured, law), (backward, *_) = chosen.run(rows)
    first, second = session.names
    return CausalDirection(
        names=(first, second),
        score=chosen.score(forward, backward),
        forward=forward,
        backward=backward,
        criterion=criterion,
        estimator=measured,
        estimator_reason=reason,
        null=law,
        regression=fitted.name,
        rows_reason=rows_reason,
        **{**run_fields(session), "n": rows},
    )


@plans(direction)
def plan_direction() -> None:
    """Plan `direction`: its steps, their memory and their time; runs nothing.

    Parameters
    ----------
    x, y : array-like, shapes (n,) or (n, d)
        As for `direction`.
    criterion, estimator, regression, null, n_resamples, kernel, max_rows, names, data, missing
        As for `direction`.
    precision, client, threads, memory, time
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


def _because(text: str, reason: str) -> str:
    return text if reason == AS_ASKED else f"{text}: {reason}"


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
                "kernel must detect more than correlation, of which a regression leaves none, got "
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
        offers = [(k, f"{k:,} rows") for k in powers_below(n, min(n, _FEWEST_CHOSEN))]
        number, reason = first_that_fits(self.session, [offers], self._plan_of, self._timed)
        if not reason and number < self.session.n:
            reason = f"{number:,} rows, since more would take long: set max_rows for them"
        return number, reason or AS_ASKED

    def choose(self, rows: int) -> tuple[_Directed, str]:
        """With the estimator for so many rows, the same for both directions, and why this one."""
        if not isinstance(self.estimator, str):
            return self, AS_ASKED

        session = self._selected(rows, read=False)
        both = VHSIC.name, NystromMHSIC.name
        names = both if self.estimator == "auto" else (self.estimator,)
        chosen, _, reason = choose_among(
            names,
            session,
            self._kernels(find_estimator(names[0], session)),
            # Of all that runs, whichever variable is the effect.
            lambda one, *_: replace(self, estimator=one)._plan_of(rows),
            lambda one, some, _: self._timed(rows, some, estimator=one),
        )
        return replace(self, estimator=chosen), reason

    def plan(self, rows: int) -> Plan:
        """The plan, whose refusal names the most rows that fit."""
        ways = [("rows", rows, self._plan_of, min(rows, _FEWEST_CHOSEN))]
        pilot = partial(self.session.timed, partial(self._timed, rows))
        return replace(telling(self._plan_of(rows), ways), pilot=pilot)

    def _plan_of(self, rows: int) -> Plan:
        """All steps with so many rows, of both directions."""
        if isinstance(self.estimator, str):
            return self.choose(rows)[0]._plan_of(rows)
        session, steps = self._selected(rows, read=False), list[DriverStep | PassPlan]()
        estimator = find_estimator(self.estimator, session)
        kernels = self._kernels(estimator)
        fetch = max(source.take_bytes for source in self.session.sources)
        if rows < self.session.n:
            size = 8 * rows * sum(session.dims)
            steps.append(DriverStep("select rows", 2 * size + fetch, size))
            fetch = 0
        sample = 8 * min(rows, _UNIT_ROWS) * sum(session.dims)
        steps += [DriverStep(_UNITS, 3 * sample + fetch), session.plan(_moments(session))]
        # Variables of the shapes of those that are standardised.
        both = [derived(one.name, (one,), join_rows, one.shape[1]) for one in session.sources]
        landmarks = None
        for cause, effect in (both, both[::-1]):
            pair = session.over([cause, effect])
            name, d = _RESIDUALS.format(effect.name), effect.shape[1]
            left = derived(name, (effect, cause), join_rows, d)
            after = session.over([cause, left])
            if self.criterion == "sensitivity":
                # The map is summed up here, and never written.
                measured = map_passes(after, estimator, "statistic", kernels.kernels, (0, 1))
            else:
                measured = plan_test(estimator, after, kernels, self._null, self.n_resamples)
            steps += [*plan_regressions(pair, self.regression, _EFFECT_GIVEN), *measured.steps]
            landmarks = measured.n_landmarks
        return plan_of(session, steps, _REMEDY, landmarks)

    def _kernels(self, estimator: Estimator) -> Combinations:
        return Combinations.single([estimator.kernel(read_kernel(self.kernel))] * 2)

    @property
    def _null(self) -> str | Null | None:
        # A law has p-values of any size, which the score compares; those of replicates end at one
        # over their number.
        return "gamma" if self.null is None and self.criterion in _BY_PVALUE else self.null

    def _selected(self, rows: int, *, read: bool) -> Session:
        """The session over so many rows, drawn at random and held where they are not all."""
        whole = self.session
        if rows == whole.n:
            return whole
        # A plan asks for shapes, so that the rows take no memory.
        values: list[Any] = [np.broadcast_to(np.float64(0.0), (rows, d)) for d in whole.dims]
        if read:
            whole.step("select rows")
            # At random and not the first ones: data are often stored sorted.
            drawn = generator(whole.seed, "selection").choice(whole.n, rows, replace=False)
            # In order, so that chunks are read one after another.
            values = whole.take([np.sort(drawn)] * len(whole.sources))
        return whole.over(list(map(Variable, whole.names, values)), "selected rows")

    def _timed(self, rows: int, session: Session, **options: Any) -> object:
        """What runs in a session, for its seconds."""
        whole = session.over(self.session.sources)
        return replace(self, session=whole, **options).choose(rows)[0].run(rows)

    def run(self, rows: int) -> tuple[_Side, _Side]:
        """The first variable as the cause, and the second."""
        session = self._selected(rows, read=True)
        first, second = _standardised(session)
        # One after the other by the same draws, so that exchanged variables give the opposite.
        forward = self._side(session.over([first, second], "forward"))
        return forward, self._side(session.over([second, first], "backward"))

    def _side(self, both: Session) -> _Side:
        """The dependence of residuals of the second variable on the first, their cause.

        As much of it as the criterion needs.
        """
        (left,) = fit_regressions(both, self.regression, _EFFECT_GIVEN)(_EFFECT_GIVEN, _RESIDUALS)
        session = both.over([both.sources[0], left], "residuals")
        if self._null is not None:
            options = self.kernel, self.estimator, self._null, self.n_resamples
            method = choose_method(session, *options)
            neighbours = Neighbours(session, arguments=())
            fields = tested_fields(session, method, ())
            neighbours.warn()
            side = DirectionEvidence(fields["estimate"], fields["pvalue"])
            return side, method.estimator.name, method.null.name
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
        return side, chosen.name, None

    def score(self, forward: DirectionEvidence, backward: DirectionEvidence) -> float:
        """Score that is positive where the first variable is believed to be the cause.

        References
        ----------
        .. [1] J. Mooij, J. Peters, D. Janzing, J. Zscheischler, B. Schoelkopf. Distinguishing cause
           from effect using observational data. JMLR 17(32), 2016.
        .. [2] A. Perez-Suay, G. Camps-Valls. Sensitivity maps of the Hilbert-Schmidt independence
           criterion. Applied Soft Computing 70, 2018, section 4.5.
        """
        score = self._dependence(backward) - self._dependence(forward)  # -C or C_s of [2]
        if self.criterion != "larger-p-value":
            return score
        # Equal p-values decide nothing.
        return max(forward.pvalue or 0.0, backward.pvalue or 0.0) * float(np.sign(score))

    def _dependence(self, side: DirectionEvidence) -> float:
        """The quantity that is smaller in the direction of the cause."""
        if self.criterion == "sensitivity":
            return sum(side.sensitivity or ())
        if self.criterion == "hsic":
            return side.hsic
        assert side.pvalue is not None
        return -math.log(side.pvalue) if self.criterion == "p-value" else -side.pvalue


@dataclass(frozen=True)
class _InUnits:
    """Columns of all variables in units of a sample, as a design."""

    units: tuple[ColumnFeatures, ...]

    def __call__(self, values: Sequence[NDArray[Any]], fold: int) -> Vector:
        """Columns of rows, shape (b, d)."""
        return np.concatenate([one(x) for one, x in zip(self.units, values, strict=True)], axis=1)


@dataclass(frozen=True)
class _Standardise:
    """Rows in units of the standard deviations, about the means, as a `RowFunction`."""

    units: ColumnFeatures

    def __call__(self, rows: NDArray[np.intp], values: Sequence[NDArray[Any]]) -> Vector:
        """Shift and divide."""
        return np.asarray(self.units(values[0]), np.float64)


def _moments(session: Session) -> SecondMomentsPass:
    """The pass of means and mean squares, to which a run adds the columns."""
    d, name = sum(session.dims), "means and standard deviations"
    return SecondMomentsPass(d, 16 * d, 8 * 3 * d, Folds(1), name)


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
    samples = session.take([rows] * len(session.sources))
    # About the medians, from which a mean is at most a standard deviation away.
    units = [ColumnFeatures.of(one.astype(np.float64), np.float64) for one in samples]
    design = _InUnits(tuple(units))
    sums = session.reduce(replace(_moments(session), design=design)).whole()
    mean = sums.totals / session.n
    deviation = np.sqrt(np.maximum(sums.covariance().diagonal(), 0.0))
    parts = (np.split(one, [session.dims[0]]) for one in (mean, deviation))
    out: list[Source] = []
    for source, one, about, spread in zip(session.sources, units, *parts, strict=True):
        (constant,) = np.nonzero(spread == 0.0)
        if len(constant):
            msg = f"variable {source.name!r} is constant in column {constant[0]}: leave it out"
            raise DataError(msg)
        whole = replace(one, centre=one.centre + one.scale * about, scale=one.scale * spread)
        out.append(derived(source.name, (source,), _Standardise(whole), len(about)))
    return out


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CausalDirections(BarResult):
    """The directions of many pairs.

    Parameters
    ----------
    pairs : tuple of str
        Names of the pairs.
    results : tuple of CausalDirection
        Result of each pair.
    seed : int
        Seed of every random draw; each result has its own seed, which repeats it.
    seconds : float
        Wall time.

    References
    ----------
    .. [1] J. Mooij, J. Peters, D. Janzing, J. Zscheischler, B. Schoelkopf. Distinguishing cause
       from effect using observational data: methods and benchmarks. Journal of Machine
       Learning Research 17, 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic import causal
    >>> x, noise = np.random.default_rng(0).uniform(-1.0, 1.0, (2, 300))
    >>> y = x + x**3 + 0.5 * noise
    >>> found = causal.directions({"up": (x, y), "down": (y, x)}, criterion="hsic", rng=0)
    >>> [one.direction for one in found.results]
    ['x1 -> x2', 'x2 -> x1']
    """

    _leading: ClassVar[int] = 1
    _shown: ClassVar[Sequence[str]] = (
        *("term", "direction", "statistic", "hsic_forward", "hsic_backward"),
    )

    pairs: tuple[str, ...]
    results: tuple[CausalDirection, ...]
    seed: int
    seconds: float

    @property
    def scores(self) -> NDArray[np.float64]:
        """Scores of all pairs, shape (k,); positive where the first variable is the cause."""
        return np.array([result.score for result in self.results])

    def accuracy_curve(self, truth: ArrayLike, weights: ArrayLike | None = None) -> AccuracyCurve:
        """Share of right decisions against that of decided pairs, see `accuracy_curve`."""
        return accuracy_curve(self.scores, truth, weights)

    def records(self) -> list[dict[str, Any]]:
        """Every pair, by confidence."""
        # A stable sort keeps pairs of the same confidence in their order.
        order = np.argsort(-np.abs(self.scores), kind="stable")
        return [{"term": self.pairs[k], **self.results[k].records()[0]} for k in order]

    def _bars(self) -> tuple[Sequence[str], Sequence[float], str]:
        rows = self.records()
        names = [f"{row['term']}: {row['direction']}" for row in rows]
        return names, [row["statistic"] for row in rows], "score"

    def summary(self) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads."""
        first = self.results[0]
        decided = np.sign(self.scores)
        counts = f"{int((decided > 0).sum()):,} forward, {int((decided < 0).sum()):,} backward"
        return [
            ("pairs", f"{len(self.pairs):,}"),
            ("directions", f"{counts}, {int((decided == 0).sum()):,} undecided"),
            ("criterion", first.criterion),
            ("estimator", first.estimator),
            ("regression", first.regression),
            ("seed", str(self.seed)),
            ("time", f"{self.seconds:.2f} s"),
        ]


@shows_progress
def directions(
    pairs: Sequence[tuple[Any, Any]] | Mapping[str, tuple[Any, Any]],
    *,
    rng: RngLike = None,
    progress: Progress = None,
    checkpoint: str | None = None,
    **options: Any,
) -> CausalDirections:
    """Find the direction of each of many pairs.

    Parameters
    ----------
    pairs : sequence or mapping of pairs of array-like, shapes (n,) or (n, d)
        Each (x, y) as for `direction`; the keys of a mapping are names of the pairs.
    rng : int, SeedSequence, BitGenerator, Generator or None, optional
        One seed for all pairs. Every pair has its own seed, which is in its result.
    progress : bool or callable, optional
        As for `dhsic.independence_test`; a callable receives an event for each pair, followed by
        the events of the pair.
    checkpoint : str, optional
        Path or URL of a folder for the checkpoints of all pairs, see `direction`.
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


@dataclass(frozen=True, eq=False, repr=False)
class AccuracyCurve(Result):
    """Share of right decisions among the most confident ones.

    Parameters
    ----------
    decision_rate : ndarray, shape (k,)
        Share of the weight that is decided, in the order of decreasing absolute scores.
    accuracy : ndarray, shape (k,)
        Share of the decided weight for which the sign of the score is right; a score of 0 counts as
        half right.
    area : float
        Mean accuracy over the decision rates: sum_k (rate_k - rate_{k-1}) accuracy_k.

    References
    ----------
    .. [1] J. Mooij, J. Peters, D. Janzing, J. Zscheischler, B. Schoelkopf. Distinguishing cause
       from effect using observational data: methods and benchmarks. Journal of Machine
       Learning Research 17, 2016.

    Examples
    --------
    >>> from dhsic.causal import accuracy_curve
    >>> curve = accuracy_curve([-3.0, 2.0, 1.0], [False, True, False])
    >>> curve.accuracy.round(2)
    array([1.  , 1.  , 0.67])
    """

    decision_rate: Vector
    accuracy: Vector
    area: float

    def records(self) -> list[dict[str, Any]]:
        """Every point of the curve."""
        points = zip(self.decision_rate.tolist(), self.accuracy.tolist(), strict=True)
        return [{"decision_rate": rate, "accuracy": right} for rate, right in points]

    def summary(self) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads."""
        return [("area", f"{self.area:.6g}"), ("points", f"{len(self.accuracy):,}")]

    def plot(self, ax: plots.Axes | None = None) -> plots.Axes:
        """Draw the curve."""
        axes = plots.axes_of(ax, (4.8, 4.2))
        axes.plot(self.decision_rate, self.accuracy, color=plots.BLUE, marker=".", label="accuracy")
        axes.axhline(0.5, color="0.6", linestyle="--", linewidth=1.0, label="tossed coins")
        axes.set(xlabel="share that is decided", ylabel="share that is right", ylim=(-0.02, 1.02))
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(loc="lower right", fontsize=9, frameon=False)
        return axes


@named_arguments
def accuracy_curve(
    scores: ArrayLike, truth: ArrayLike, weights: ArrayLike | None = None
) -> AccuracyCurve:
    """Compute the share of right decisions among the most confident ones.

    A decision is the sign of the score, and its confidence the absolute value.

    Parameters
    ----------
    scores : array-like, shape (n,)
        Positive if the first variable is inferred to be the cause, such as the scores of
        `directions`.
    truth : array-like of bool, shape (n,)
        Whether the first variable is the cause.
    weights : array-like, shape (n,), optional
        At least 0; the default is 1. Pairs of weight 0 are left out.

    Returns
    -------
    AccuracyCurve

    Raises
    ------
    InvalidArgumentError
        Lengths differ, a number is not finite, or a weight is negative.

    References
    ----------
    .. [1] J. Mooij, J. Peters, D. Janzing, J. Zscheischler, B. Schoelkopf. Distinguishing cause
       from effect using observational data: methods and benchmarks. Journal of Machine
       Learning Research 17, 2016.

    Examples
    --------
    >>> accuracy_curve([-3.0, 2.0, 1.0], [False, True, False]).accuracy
    array([1.        , 1.        , 0.66666667])
    """
    sizes = check_numbers("scores", scores, None)
    positive = check_numbers("truth", truth, len(sizes)) > 0.0
    if np.asarray(truth).dtype != bool:
        msg = (
            f"truth must be {len(sizes)} booleans, one a score, got {shown(truth)}: True where the "
            "first variable is the cause"
        )
        raise InvalidArgumentError(msg)
    given = np.ones(len(sizes)) if weights is None else weights
    shares = check_numbers("weights", given, len(sizes), least=0.0)
    if not shares.any():
        msg = "weights must not all be 0: leave them out for equal ones"
        raise InvalidArgumentError(msg)
    kept = shares > 0.0
    sizes, positive, shares = sizes[kept], positive[kept], shares[kept]
    # A score of 0 decides nothing, and is right half of the time.
    right = np.where(sizes == 0.0, 0.5, (sizes > 0.0) == positive)
    order = np.argsort(-np.abs(sizes), kind="stable")
    # Equal confidences are decided together, or their order in the data would shape the curve.
    last = np.append(np.diff(np.abs(sizes)[order]) != 0.0, True)
    decided = np.cumsum(shares[order])[last]
    rate = decided / decided[-1]
    accuracy = np.cumsum((shares * right)[order])[last] / decided
    # Each share of the decisions counts with the accuracy at its end.
    return AccuracyCurve(rate, accuracy, float(np.diff(rate, prepend=0.0) @ accuracy))


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ResidualIndependenceTestResult(IndependenceTestResult):
    """The outcome of a test that the residuals of two variables given others are independent.

    All fields are as in `IndependenceTestResult`, for the residuals, except these.

    Parameters
    ----------
    given : tuple of str
        Regressors of the variables.
    regression : str
        The regression.

    References
    ----------
    .. [1] J. Peters, J. Mooij, D. Janzing, B. Schoelkopf. Causal discovery with continuous
       additive noise models. Journal of Machine Learning Research 15, 2014.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.causal import residual_independence_test
    >>> z, a, b = np.random.default_rng(0).standard_normal((3, 300))
    >>> result = residual_independence_test(np.sin(z) + a, z**2 + b, given=z, rng=0)
    >>> result.pvalue > 0.05, result.n
    (True, 300)
    """

    hypothesis: ClassVar[str] = "independence of residuals"
    question: ClassVar[str] = "Are the residuals of {} independent?"

    given: tuple[str, ...] = ()
    regression: str = ""

    def summary(self) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads."""
        residuals = f"given {', '.join(self.given)}, by {self.regression}; p-value approximate"
        first, *others = super().summary()
        return [first, ("residuals", residuals), *others]

    def records(self) -> list[dict[str, Any]]:
        (row,) = super().records()
        method = f"{self.regression}, {row['method']}"
        return [{**row, "given": ", ".join(self.given), "method": method}]


@takes_run
def residual_independence_test(
    x: Any,
    y: Any,
    *,
    given: Any,
    names: Sequence[str] | None = None,
    data: Any = None,
    missing: Missing = "refuse",
    groups: Any = None,
    order: Order | None = None,
    regression: RegressionName | Regression = "splines",
    kernels: Kernels | Grid | None = None,
    estimator: EstimatorName | Estimator = "nystrom-m",
    null: NullName | Null = "auto",
    n_resamples: int | None = None,
    **options: Unpack[RunArguments],
) -> ResidualIndependenceTestResult:
    """Test whether the residuals of two variables, regressed on others, are independent.

    The generalised covariance measure [1]_ tests whether the residuals of x and of y given z are
    uncorrelated; this function tests by HSIC whether they are independent.

    If x and y are smooth functions of z plus noise that is independent of z, independence of the
    residuals is conditional independence given z. Otherwise the hypotheses differ in both
    directions: if the spread of the noise of x and y follows z, residuals are dependent although x
    and y are conditionally independent; and the test does not detect a dependence that cancels over
    z. No test keeps its level for all distributions without such assumptions [1]_.

    P-values are approximate, since residuals are estimated, and the regressions must be able to fit
    the functions. With x = sin 3z and y = cos 2z plus normal noise and 200 rows, the gamma null of
    V-HSIC rejected 5.4 % of 800 data sets at level 5 %, and 6.0 % with the noise itself in place of
    residuals. With the same square wave of z in x and y, of twelve periods where the splines have
    twenty knots, it rejected all of 400 data sets: both residuals contain the same part of the
    wave. With the wave in x alone it rejected 6.0 %. This test does not warn of such a misfit;
    `dhsic.conditional_independence_test` does.

    Parameters
    ----------
    x, y : array-like, shapes (n,) or (n, d)
        As for `dhsic.independence_test`.
    given : array-like, or a list or tuple of them
        Variables that both are regressed on, shapes (n,) or (n, d_j).
    names : sequence of str, optional
        Names of x, y and the given variables.
    data, missing
        As for `dhsic.independence_test`; with `data`, each name in a list `given` is a variable.
    groups, order
        As for `dhsic.independence_test`, for the residuals: the null permutes whole groups of rows,
        or shifts the residuals of y in time. The regressions treat all rows alike; dependence on
        the given variables that they miss remains in the residuals. Approximate for many groups or
        a long series. There is no `strata`: pass strata as indicators among the given variables, or
        test each stratum separately.
    regression : str or Regression, optional
        As for `score_dags`.
    kernels, estimator, null, n_resamples
        For the residuals, as for `dhsic.independence_test`.
    rng, precision, client, threads, memory, time, progress, checkpoint
        As for `dhsic.independence_test`.

    Returns
    -------
    ResidualIndependenceTestResult

    Raises
    ------
    InvalidArgumentError
        No variable is given, or an option cannot be used.
    DataError, MemoryBudgetError
        As for `score_dags`.

    References
    ----------
    .. [1] R. Shah, J. Peters. The hardness of conditional independence testing and the
       generalised covariance measure. Annals of Statistics 48, 2020.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> from dhsic.causal import residual_independence_test
    >>> z, a, b = np.random.default_rng(0).standard_normal((3, 400))
    >>> x, y = np.sin(z) + 0.5 * a, z**2 + b
    >>> dhsic.independence_test(x, y, null="gamma", rng=0).pvalue < 0.01
    True
    >>> residual_independence_test(x, y, given=z, null="gamma", rng=0).pvalue > 0.05
    True
    """
    run = RunOptions(**options)
    variables, names = read_given(x, y, given, names, data)
    rows = RowLabels(None, groups, order)
    session = open_nodes(run, variables, names, data, missing, rows)
    regressor = find_regression(regression)
    others = tuple(range(2, len(session.sources)))
    # The same set for both, so that one design of splines serves either regression.
    wanted = {0: [others], 1: [others]}
    asked = {"kernels": kernels, "estimator": estimator, "null": null, "n_resamples": n_resamples}
    fitted = run_regressions(session, regressor, wanted, computes="test of residuals", **asked)
    residuals = fitted(wanted)
    if session.moves is not None:  # rows are read in any order, and computed once
        with graphs_on(run.client, run.threads):
            residuals = [held_in_memory(source) for source in residuals]
    tested = session.over(residuals, "residuals")
    # By the residuals, whose spreads set the bandwidths.
    method = choose_method(tested, kernels, estimator, null, n_resamples)
    # Planned only now, when the variables that are tested, the residuals, are there.
    tested.begin(method.plan(tested))
    neighbours = Neighbours(tested, ("order", "groups"))
    fields = tested_fields(tested, method, ())
    neighbours.warn()
    return ResidualIndependenceTestResult(
        given=session.names[2:], regression=regressor.name, **fields
    )


@dataclass(frozen=True, eq=False, repr=False)
class DAG(Result):
    """A directed acyclic graph.

    Parameters
    ----------
    names : tuple of str
        Names of the nodes.
    parents : tuple of tuple of int
        Numbers of the parents of every node.

    Raises
    ------
    InvalidArgumentError
        There is a cycle, or a parent that is no other node.

    References
    ----------
    .. [1] J. Peters, J. Mooij, D. Janzing, B. Schoelkopf. Causal discovery with continuous
       additive noise models. Journal of Machine Learning Research 15, 2014.

    Examples
    --------
    >>> from dhsic.causal import DAG
    >>> dag = DAG(("a", "b", "c"), ((), (0,), (0, 1)))
    >>> print(dag)
    a -> b, a -> c, b -> c
    >>> DAG.of(("a", "b", "c"), [("a", "b"), ("a", "c"), ("b", "c")]) == dag
    True
    >>> dag
    <DAG: a -> b, a -> c, b -> c, 3 nodes>
    """

    names: tuple[str, ...]
    parents: Parents

    def __post_init__(self) -> None:
        super().__post_init__()
        edges, _ = plots.causal_order(self.parents)
        ascending = [tuple(sorted({*own})) for own in edges]
        named = np.shape(self.names) == (len(edges),)
        if not named or ascending != edges:
            msg = (
                "a DAG needs a name for every node, and numbers of parents that ascend, got "
                f"{shown(self.names)} and {shown(self.parents)}"
            )
            raise InvalidArgumentError(msg)

    @classmethod
    def of(cls, names: Iterable[str], edges: Iterable[tuple[str, str]]) -> DAG:
        """The graph of edges, each from a cause to its effect by their names."""
        names, edges = tuple(names), tuple(edges)  # iterators, too, which are read more than once
        if len(set(names)) < len(names):
            msg = f"the names of nodes must be different, got {', '.join(names)}"
            raise InvalidArgumentError(msg)
        unknown = sorted({str(node) for edge in edges for node in edge} - set(names))
        if unknown:
            msg = f"edges must join the nodes {', '.join(names)}; got {', '.join(unknown)}"
            raise InvalidArgumentError(msg)
        places = {name: number for number, name in enumerate(names)}
        parents = (
            tuple(sorted({places[cause] for cause, effect in edges if effect == name}))
            for name in names
        )
        return cls(names, tuple(parents))

    @property
    def edges(self) -> tuple[tuple[str, str], ...]:
        """From causes to effects, by name."""
        numbers = sorted((j, node) for node, parents in enumerate(self.parents) for j in parents)
        return tuple((self.names[cause], self.names[effect]) for cause, effect in numbers)

    def to_networkx(self) -> Any:
        """Return the graph as a `networkx.DiGraph`.

        Raises
        ------
        MissingDependencyError
            networkx is not installed.
        """
        with needing("networkx", "causal", "A graph as networkx.DiGraph"):
            import networkx as nx
        graph = nx.DiGraph()
        graph.add_nodes_from(self.names)
        graph.add_edges_from(self.edges)
        return graph

    def plot(self, ax: plots.Axes | None = None) -> plots.Axes:
        """Draw the graph, see `dhsic.plots.causal_graph`."""
        return plots.causal_graph(self.parents, self.names, ax=ax)

    def records(self) -> list[dict[str, Any]]:
        """Every edge."""
        return [{"cause": cause, "effect": effect} for cause, effect in self.edges]

    def summary(self) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads."""
        return [("graph", str(self)), ("nodes", ", ".join(self.names))]

    def _brief(self) -> list[str]:
        return [str(self), format_count(len(self.names), "node")]

    def __hash__(self) -> int:  # type: ignore[override]
        return hash((self.names, self.parents))

    def __str__(self) -> str:
        edges = ", ".join(f"{cause} -> {effect}" for cause, effect in self.edges)
        return printable(edges) or "no edges"


class ScoredDAG(NamedTuple):
    """A graph with the test that its residuals are independent.

    Parameters
    ----------
    dag : DAG
        The graph.
    statistic : float
        Statistic of the test that the residuals of all nodes are jointly independent.
    pvalue : float
        P-value of that test.

    References
    ----------
    .. [1] J. Peters, J. Mooij, D. Janzing, B. Schoelkopf. Causal discovery with continuous
       additive noise models. Journal of Machine Learning Research 15, 2014.

    Examples
    --------
    >>> from dhsic.causal import DAG, ScoredDAG
    >>> ScoredDAG(DAG(("a", "b"), ((), (0,))), 0.4, 0.3).dag.edges
    (('a', 'b'),)
    """

    dag: DAG
    statistic: float
    pvalue: float


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class DAGScores(RunFields):
    """Causal graphs, scored by the joint independence of their residuals.

    Parameters
    ----------
    n, precision, seed, passes, seconds, version, dropped, data, missing
        Of the run, see `dhsic.results.RunFields`.
    names : tuple of str
        Names of the nodes.
    parents : tuple of Parents
        For every graph the numbers of the parents of every node.
    statistics : tuple of float
        Statistics of every graph.
    pvalues : tuple of float
        P-values of every graph; approximate, since residuals are estimated.
    kernels : tuple of str
        Kernels of the residuals of every node, as given.
    regression : str
        Regression of nodes on their parents.
    n_regressions : int
        Number of regressions, which the graphs share.
    estimator : str
        Estimator of the dependence.
    estimator_reason : str
        Why this estimator was chosen.
    null : str
        The null distribution.
    null_reason : str
        Why this null was chosen.

    References
    ----------
    .. [1] J. Peters, J. Mooij, D. Janzing, B. Schoelkopf. Causal discovery with continuous
       additive noise models. Journal of Machine Learning Research 15, 2014.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.causal import DAGScores, score_dags
    >>> x, noise = np.random.default_rng(0).uniform(-1.0, 1.0, (2, 300))
    >>> scores = score_dags(x, x + x**3 + noise, names=("x", "y"), rng=0)
    >>> print(scores.best.dag)
    x -> y
    >>> [str(one.dag) for one in scores.accepted(0.05)]
    ['x -> y']
    >>> DAGScores.from_json(scores.to_json()) == scores
    True
    """

    _leading: ClassVar[int] = 1

    names: tuple[str, ...]
    parents: tuple[Parents, ...]
    statistics: tuple[float, ...]
    pvalues: tuple[float, ...]
    kernels: tuple[str, ...]
    regression: str
    n_regressions: int
    estimator: str
    estimator_reason: str
    null: str
    null_reason: str

    def __len__(self) -> int:
        return len(self.parents)

    def __getitem__(self, number: int) -> ScoredDAG:
        # Made when it is asked for: there may be 29,281 of them.
        dag = DAG(self.names, self.parents[number])
        return ScoredDAG(dag, self.statistics[number], self.pvalues[number])

    def __iter__(self) -> Iterator[ScoredDAG]:
        return (self[number] for number in range(len(self)))

    @property
    def ranked(self) -> tuple[ScoredDAG, ...]:
        """All graphs, the largest p-value first; ties are ordered by the smallest statistic."""
        return tuple(self[number] for number in self._order)

    @property
    def best(self) -> ScoredDAG:
        """The graph with the largest p-value."""
        return self[self._order[0]]

    def accepted(self, alpha: float = 0.05) -> tuple[ScoredDAG, ...]:
        """Return the graphs that are not rejected at a level, the largest p-value first.

        Parameters
        ----------
        alpha : float, optional
            The level of every single test.

        Returns
        -------
        tuple of ScoredDAG

        Raises
        ------
        InvalidArgumentError
            The level is not between 0 and 1.
        """
        level = check_level(alpha)
        return tuple(self[number] for number in self._order if self.pvalues[number] > level)

    def minimal(self, alpha: float = 0.05) -> tuple[ScoredDAG, ...]:
        """Return the graphs not rejected at a level that contain no other such graph.

        A regression on more parents than a node has also leaves independent residuals, so graphs
        that contain the true graph are accepted with it.

        Parameters
        ----------
        alpha : float, optional
            The level of every single test.

        Returns
        -------
        tuple of ScoredDAG
            The largest p-value first.

        Raises
        ------
        InvalidArgumentError
            The level is not between 0 and 1.
        """
        accepted = self.accepted(alpha)
        least: list[set[tuple[str, str]]] = []
        # Small graphs first: a larger one that holds one of them is not minimal.
        for edges in sorted((set(graph.dag.edges) for graph in accepted), key=len):
            if not any(fewer <= edges for fewer in least):
                least.append(edges)
        return tuple(graph for graph in accepted if set(graph.dag.edges) in least)

    def plot(
        self, ax: plots.Axes | None = None, *, alpha: float = 0.05, most: int = _MOST_DRAWN
    ) -> plots.Axes:
        """Bars of the p-values beside the best graph, see `dhsic.plots.dag_scores`."""
        ranked = self._order
        return plots.dag_scores(
            [self.pvalues[number] for number in ranked],
            [self.parents[number] for number in ranked],
            self.names,
            alpha=alpha,
            most=most,
            ax=ax,
        )

    def records(self) -> list[dict[str, Any]]:
        """Every graph, the largest p-value first."""
        method = f"{self.regression}, {self.estimator}, {self.null}"
        return [
            {
                "rank": place,
                "term": str(graph.dag),
                "edges": len(graph.dag.edges),
                "statistic": graph.statistic,
                "p_value": graph.pvalue,
                "method": method,
            }
            for place, graph in enumerate(self.ranked, 1)
        ]

    def findings(self, alpha: float, control: str) -> Findings:
        del control
        words = "Bars of the p-values of the graphs, the largest first."
        pictures = {words: partial(self.plot, alpha=alpha)}
        lead = f"Best: {_score_line(self.best)}. {self._accepted(alpha)}"
        return Findings(self._title, lead, pictures, {self._title: self.records()})

    def _accepted(self, alpha: float) -> str:
        kept = len(self.accepted(alpha))
        return f"{kept:,} of {len(self):,} graphs are not rejected at level {alpha:g}"

    @property
    def _order(self) -> list[int]:
        # P-values of replicates tie at their smallest and at 1; statistics go on to tell them
        # apart.
        return sorted(range(len(self)), key=lambda c: (-self.pvalues[c], self.statistics[c]))

    def summary(self, alpha: float = _LEVEL) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads, with the decisions at a level."""
        return [
            ("nodes", f"{', '.join(self.names)}; n = {self._rows_told}"),
            ("best", _score_line(self.best)),
            ("accepted", self._accepted(alpha)),
            *(("minimal", _score_line(graph)) for graph in self.minimal(alpha)[:_MINIMAL_SHOWN]),
            ("regression", f"{self.regression}, {self.n_regressions:,} in all"),
            ("statistic", f"{self.estimator}: {self.estimator_reason}"),
            ("null", f"{self.null}: {self.null_reason}"),
            ("caution", "p-values are approximate: the residuals are estimated"),
            *self._tail(),
        ]


@takes_run
def score_dags(
    *variables: Any,
    names: Sequence[str] | None = None,
    data: Any = None,
    missing: Missing = "refuse",
    dags: str | Sequence[DAG] = "all",
    regression: RegressionName | Regression = "splines",
    kernels: KernelName | str | Kernel | Sequence[KernelName | str | Kernel] = "gaussian",
    estimator: MeasureName | DependenceMeasure = "auto",
    null: NullName | Null = "auto",
    n_resamples: int | None = None,
    **options: Unpack[RunArguments],
) -> DAGScores:
    """Score every causal graph over up to five nodes [1]_ [2]_.

    If every node is a smooth function of its parents plus noise, and the noise of all nodes is
    jointly independent, the residuals of the nodes given their parents in the true graph are
    jointly independent. The score of a graph is the p-value of the test of this independence. The
    graph with the largest p-value is the best; the data are compatible with every graph that is not
    rejected at the level.

    Graphs share regressions, one for each node and set of parents, and the kernels of their
    residuals. With splines one pass over the rows fits all regressions, and residuals are computed
    when they are read: data may be larger than memory.

    P-values are approximate. Residuals are estimated from the tested rows, so the test does not
    keep its level exactly: an error of the regression that is not small relative to n^-1/2 makes
    residuals dependent, so that true graphs are rejected; fitting many coefficients to few rows has
    the opposite effect. `Splines(n_folds=5)` and `CrossFitted` take each residual from a fit to
    other rows. Compare p-values between graphs, and do not rely on a single one.

    Parameters
    ----------
    *variables : array-like, shapes (n,) or (n, d_m)
        The nodes, two to five, as for `dhsic.independence_test`; or one variable of several
        columns, each of which is a node.
    names : sequence of str, optional
        Names of the nodes.
    data, missing
        As for `dhsic.independence_test`.
    dags : "all", "complete" or sequence of DAG, optional
        Graphs to score: all (3, 25, 543, 29,281 for 2, 3, 4, 5 nodes), the fully connected ones,
        or these.
    regression : str or Regression, optional
        "splines", "random-forest", "gaussian-process", or a value such as `Splines(n_folds=5)`. All
        but splines hold all rows in the memory of this process.
    kernels : str, Kernel or a sequence of them, optional
        Kernels of residuals: one for all nodes, or one a node.
    estimator : {"auto", "v-hsic", "nystrom-m"}, VHSIC or NystromMHSIC, optional
        "auto" takes all pairs of rows up to 2,000 rows, or up to 10,000 rows if more than 100
        graphs share them, and landmarks for more rows.
    null : str, Gamma, Spectral, Shifts or Permutation, optional
        "auto" takes "gamma", whose p-values are continuous, so that graphs can be compared; with
        `n_resamples` it takes permutations, which graphs share.
    n_resamples : int, optional
        Number of replicates, if the null has any.
    rng, precision, client, threads, memory, time, progress, checkpoint
        As for `dhsic.independence_test`.

    Returns
    -------
    DAGScores

    Raises
    ------
    InvalidArgumentError
        More than five nodes, or an option that cannot be used.
    DataError
        The data cannot be used: NaN, unequal lengths, a constant column, too few rows.
    MemoryBudgetError
        The plan needs more memory than allowed.

    References
    ----------
    .. [1] N. Pfister, P. Buehlmann, B. Schoelkopf, J. Peters. Kernel-based tests for joint
       independence. JRSS B 80, 2018, section 5.
    .. [2] F. Kalinke, Z. Szabo. Nystrom M-Hilbert-Schmidt independence criterion. UAI 2023,
       section 5.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.causal import score_dags
    >>> rng = np.random.default_rng(0)
    >>> a, b, c = rng.uniform(-1.0, 1.0, (3, 300))
    >>> b += 2.0 * a**2
    >>> c += np.tanh(2.0 * b)
    >>> scores = score_dags(a, b, c, names=("a", "b", "c"), rng=0)
    >>> len(scores), "a -> b, b -> c" in [str(one.dag) for one in scores.accepted()]
    (25, True)
    """
    run = RunOptions(**options)
    # More nodes are refused before anything is read: their graphs outgrow any memory.
    session = open_nodes(run, variables, names, data, missing, most=MOST_NODES)
    graphs = _read_dags(dags, session.names)
    regressor = find_regression(regression)
    # A regression is one of a node on a set of parents, and serves all graphs that have both.
    by_size = partial(sorted, key=lambda given: (len(given), given))  # the smaller sets first
    sets = {j: by_size({one[j] for one in graphs}) for j in range(len(session.sources))}
    kernel_of = _kernels_of_nodes(kernels, session)
    chosen = _kernels_of_graphs(graphs, sets, session.dims, kernel_of)
    method = _ResidualTest.choose(session, estimator, null, n_resamples, len(graphs))
    told = {"computes": "causal graph scores", "graphs": graphs, "kernels": kernel_of}
    residuals_of = run_regressions(session, regressor, sets, **told, **method.described)
    tested = session.over(residuals_of(sets), "residuals")
    # Only now: which estimator fits depends on the kernels of residuals, a set of parents each.
    scores, method = method.test(tested, chosen, tested.begin)
    return DAGScores(
        **run_fields(session),
        names=session.names,
        regression=regressor.name,
        parents=graphs,
        statistics=tuple(statistic for statistic, _ in scores),
        pvalues=tuple(p for _, p in scores),
        kernels=tuple(kernel.spec() for kernel in kernel_of),
        n_regressions=sum(map(len, sets.values())),
        estimator=method.estimator.name,
        estimator_reason=method.estimator_reason,
        null=method.null.name,
        null_reason=method.null_reason,
    )


def _score_line(graph: ScoredDAG) -> str:
    return f"{graph.dag}  (p = {graph.pvalue:.4g})"


class SearchTest(NamedTuple):
    """A test of the search.

    Parameters
    ----------
    node : str
        The node whose residual was tested.
    given : tuple of str
        Names of its regressors.
    statistic : float
        Statistic of the dependence of the residual on the earlier nodes, or in the first phase on
        the other remaining nodes.
    pvalue : float
        P-value of the test of their independence.
    """

    node: str
    given: tuple[str, ...]
    statistic: float
    pvalue: float


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class DAGSearch(RunFields):
    """The causal graph that a search found, and the tests of the search.

    Parameters
    ----------
    n, precision, seed, passes, seconds, version, dropped, data, missing
        Of the run, see `dhsic.results.RunFields`.
    names : tuple of str
        Names of the nodes.
    parents : Parents
        Numbers of the parents of every node in the graph.
    order : tuple of str
        The nodes, causes before effects.
    ordering : tuple of SearchTest
        A test for every remaining node at every step of the first phase: the node with the largest
        p-value comes last among the remaining nodes.
    pruning : tuple of SearchTest
        A test for every edge of the second phase; the edge was dropped if the p-value is above
        alpha.
    alpha : float
        The level of the second phase.
    statistic, pvalue : float
        Statistic and p-value of the test that the residuals of the graph are jointly independent;
        approximate, since residuals are estimated, and since the search chose the graph by them.
    regression : str
        Regression of the nodes.
    estimator : str
        Estimator of the test of all residuals.
    null : str
        Null distribution of this test.
    estimator_reason : str
        Why this estimator was chosen for the test of all residuals, and why it takes fewer
        landmarks than usual if the usual number does not fit; the tests of the search choose in the
        same way.

    References
    ----------
    .. [1] J. Peters, J. Mooij, D. Janzing, B. Schoelkopf. Causal discovery with continuous
       additive noise models. Journal of Machine Learning Research 15, 2014.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.causal import search_dag
    >>> x, noise = np.random.default_rng(0).uniform(-1.0, 1.0, (2, 200))
    >>> found = search_dag(x, noise + x**2, names=("x", "y"), rng=0)
    >>> found.order, len(found.ordering), len(found.pruning)
    (('x', 'y'), 2, 1)
    """

    names: tuple[str, ...]
    parents: Parents
    order: tuple[str, ...]
    ordering: tuple[SearchTest, ...]
    pruning: tuple[SearchTest, ...]
    alpha: float
    statistic: float
    pvalue: float
    regression: str
    estimator: str
    null: str
    estimator_reason: str = AS_ASKED

    @property
    def dag(self) -> DAG:
        """The graph that the search found."""
        return DAG(self.names, self.parents)

    def records(self) -> list[dict[str, Any]]:
        """Every test on the way, first those of the order and then those of the edges."""
        method = f"{self.regression}, {self.estimator}, {self.null}"
        phases = (("order", self.ordering), ("edges", self.pruning))
        return [
            {
                "phase": phase,
                "term": test.node,
                "given": ", ".join(test.given),
                "statistic": test.statistic,
                "p_value": test.pvalue,
                "method": method,
            }
            for phase, tests in phases
            for test in tests
        ]

    def plot(self, ax: plots.Axes | None = None) -> plots.Axes:
        """Draw the graph, see `dhsic.plots.causal_graph`."""
        return plots.causal_graph(self.parents, self.names, ax=ax)

    def summary(self) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads."""
        count = len(self.ordering) + len(self.pruning)
        return [
            ("graph", str(self.dag)),
            ("order", ", ".join(self.order)),
            ("residuals", f"p = {self.pvalue:.4g} of their joint independence, approximate"),
            ("tests", f"{count:,}, edges dropped at level {self.alpha:g}; n = {self._rows_told}"),
            ("regression", self.regression),
            ("statistic", f"{self.estimator}: {self.estimator_reason}"),
            ("null", self.null),
            *self._tail(),
        ]


@takes_run
def search_dag(
    *variables: Any,
    names: Sequence[str] | None = None,
    data: Any = None,
    missing: Missing = "refuse",
    alpha: float = 0.05,
    regression: RegressionName | Regression = "splines",
    kernels: KernelName | str | Kernel | Sequence[KernelName | str | Kernel] = "gaussian",
    estimator: MeasureName | DependenceMeasure = "auto",
    null: NullName | Null = "auto",
    n_resamples: int | None = None,
    **options: Unpack[RunArguments],
) -> DAGSearch:
    """Search a causal graph by regression with subsequent independence test, RESIT [1]_.

    The first phase finds an order: among the remaining nodes, the node whose residual given all
    others depends least on the others has no effect among them; it is removed, and the step is
    repeated. The second phase finds edges: a parent of a node is dropped if the residual of the
    node without it is still independent of all earlier nodes. For p nodes the phases take p (p + 1)
    / 2 - 1 and up to p (p - 1) / 2 tests. With splines all regressions come from one pass over the
    rows.

    P-values are approximate, as in `score_dags`; only the second phase needs a level. If the
    residuals of the final graph are dependent, the assumptions of the search do not hold.

    Parameters
    ----------
    *variables : array-like, shapes (n,) or (n, d_m)
        The nodes, two or more, as for `dhsic.independence_test`; or one variable of several
        columns, each of which is a node.
    names : sequence of str, optional
        Names of the nodes.
    data, missing
        As for `dhsic.independence_test`.
    alpha : float, optional
        An edge is dropped if the p-value without it is larger.
    regression : str or Regression, optional
        As for `score_dags`.
    kernels : str, Kernel or a sequence of them, optional
        Kernels of residuals: one for all nodes, or one for each node. The nodes against which a
        residual is tested have a joint Gaussian kernel, in units of their standard deviations.
    estimator, null, n_resamples, rng, precision
        As for `score_dags`.
    client, threads, memory, time, progress, checkpoint
        As for `score_dags`. Tests share the time equally.

    Returns
    -------
    DAGSearch

    Raises
    ------
    InvalidArgumentError, DataError, MemoryBudgetError
        As for `score_dags`.

    References
    ----------
    .. [1] J. Peters, J. Mooij, D. Janzing, B. Schoelkopf. Causal discovery with continuous
       additive noise models. JMLR 15, 2014, algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.causal import search_dag
    >>> a, b, c = np.random.default_rng(0).uniform(-1.0, 1.0, (3, 300))
    >>> b += 2.0 * a**2
    >>> c += np.tanh(2.0 * b)
    >>> print(search_dag(a, b, c, names=("a", "b", "c"), rng=0).dag)
    a -> b, b -> c
    """
    run = RunOptions(**options)
    level = check_level(alpha)
    session = open_nodes(run, variables, names, data, missing)
    p, runtime = len(session.sources), session.runtime
    regressor = find_regression(regression)
    kernel_of = _kernels_of_nodes(kernels, session)
    method = _ResidualTest.choose(session, estimator, null, n_resamples, 1)
    # One design over all nodes has the sums of every regression that the search may ask for.
    wanted = {j: [_without(range(p), j)] for j in range(p)}
    told = {"computes": "causal graph search", "alpha": level, "kernels": kernel_of}
    residuals_of = run_regressions(session, regressor, wanted, **told, **method.described)
    # p (p + 1) / 2 - 1 tests of the order, at most p (p - 1) / 2 of edges, and one of the graph.
    if runtime.seconds is not None:
        session = session.within(runtime.seconds / p**2)

    def tested(
        variables: Sequence[Source], kernels: Sequence[Kernel], part: Any
    ) -> tuple[tuple[float, float], _ResidualTest]:
        """Statistic and p-value of the test that variables are independent, and its method."""
        over, chosen = session.over(variables, part), Combinations.single(kernels)
        (score,), settled = method.test(over, chosen, over.expect)
        return score, settled

    def test(node: int, given: tuple[int, ...], against: tuple[int, ...]) -> SearchTest:
        # Independence of the nodes together, which is more than that of each.
        (residual,) = residuals_of({node: [given]})
        joined = joined_source([session.sources[j] for j in against])
        # Nodes have units of their own.
        usual, columns = method.estimator.kernel(None), tuple(range(joined.shape[1]))
        kernels = kernel_of[node], OnColumns(usual, columns, scaled=True)
        score, _ = tested([residual, joined], kernels, ("test", node, given, against))
        return SearchTest(session.names[node], tuple(session.names[j] for j in given), *score)

    left, order, ordering = list(range(p)), list[int](), list[SearchTest]()
    while len(left) > 1:
        tests = [test(j, rest := _without(left, j), rest) for j in left]
        ordering += tests
        # Phase 1 of RESIT: the node with the least dependent residual has no effect among those
        # left.
        last, _ = min(zip(left, tests, strict=True), key=lambda x: (-x[1].pvalue, x[1].statistic))
        # What is taken away comes before all that was taken away earlier.
        order.insert(0, last)
        left.remove(last)
    order = left + order
    kept, pruning = dict[int, tuple[int, ...]](), list[SearchTest]()
    for place, node in enumerate(order):
        # Only nodes that come before it can be its parents: with all of them it is the complete
        # graph of the order, from which edges are taken away.
        before = kept[node] = tuple(sorted(order[:place]))
        for candidate in before:
            pruning.append(test(node, _without(kept[node], candidate), before))
            # Phase 2: the residual is independent without this one, which is no parent then.
            if pruning[-1].pvalue > level:
                kept[node] = _without(kept[node], candidate)
    parents = tuple(kept[node] for node in range(p))
    residuals = residuals_of({j: [given] for j, given in enumerate(parents)})
    (statistic, pvalue_of_all), settled = tested(residuals, kernel_of, ("residuals", parents))
    return DAGSearch(
        **run_fields(session),
        names=session.names,
        regression=regressor.name,
        parents=parents,
        order=tuple(session.names[j] for j in order),
        ordering=tuple(ordering),
        pruning=tuple(pruning),
        alpha=level,
        statistic=statistic,
        pvalue=pvalue_of_all,
        estimator=settled.estimator.name,
        estimator_reason=settled.estimator_reason,
        null=settled.null.name,
    )


def _without(nodes: Sequence[int], node: int) -> tuple[int, ...]:
    return tuple(j for j in nodes if j != node)


@cache
def enumerate_dags(m: int) -> tuple[Parents, ...]:
    """All directed acyclic graphs over m nodes: 1, 3, 25, 543, 29,281 for m = 1, ..., 5.

    Parameters
    ----------
    m : int
        Nodes, at most 5.

    Returns
    -------
    tuple of Parents
        Graphs of fewer edges first.

    References
    ----------
    .. [1] R. Robinson. Counting labeled acyclic digraphs. New directions in the theory of graphs,
       1973.

    Examples
    --------
    >>> enumerate_dags(2)
    (((), ()), ((), (0,)), ((1,), ()))
    """

    def subsets(own: tuple[int, ...]) -> list[tuple[int, ...]]:
        return [some for size in range(len(own) + 1) for some in combinations(own, size)]

    # Every graph is a part of a fully connected one, and may be one of several.
    graphs = {some for whole in complete_dags(m) for some in product(*map(subsets, whole))}
    # By edges first, so that a graph comes after those that it contains.
    return tuple(sorted(graphs, key=lambda parents: (sum(map(len, parents)), parents)))


def complete_dags(m: int) -> tuple[Parents, ...]:
    """The fully connected graphs over m nodes, one for every order of them.

    Parameters
    ----------
    m : int
        Nodes.

    Returns
    -------
    tuple of Parents
        As many as m!.

    Examples
    --------
    >>> complete_dags(2)
    (((), (0,)), ((1,), ()))
    """
    return tuple(
        tuple(tuple(sorted(order[: order.index(node)])) for node in range(m))
        for order in permutations(range(m))
    )


def _read_dags(dags: Any, names: tuple[str, ...]) -> tuple[Parents, ...]:
    """The graphs that were asked for, by the parents of every node."""
    if isinstance(dags, str):
        which = check_choice("dags", dags, ("all", "complete"))
        return (enumerate_dags if which == "all" else complete_dags)(len(names))
    graphs = tuple(dags) if isinstance(dags, Sequence) else ()
    if not graphs or not all(isinstance(dag, DAG) and dag.names == names for dag in graphs):
        msg = (
            f"dags must be 'all', 'complete' or DAG values of the nodes {', '.join(names)} in this "
            f"order, got {shown(dags)}: make them by DAG.of(names, edges)"
        )
        raise InvalidArgumentError(msg)
    return tuple(dag.parents for dag in graphs)


def _kernels_of_graphs(
    graphs: Sequence[Parents], sets: Regressions, dims: Sequence[int], kernels: Sequence[Kernel]
) -> Combinations:
    """A kernel for every node and set of parents, and for every graph one a node."""
    regressions = [(node, given) for node, own in sets.items() for given in own]
    # Numbers of kernels by node and parents: graphs are combinations of them.
    numbers = {regression: number for number, regression in enumerate(regressions)}
    # The residuals of a node given every set of parents stand side by side; a kernel sees one set.
    every = tuple(
        OnColumns(kernels[node], tuple(range(dims[node] * r, dims[node] * (r + 1))))
        for node, own in sets.items()
        for r in range(len(own))
    )
    chosen = tuple(tuple(map(numbers.__getitem__, enumerate(parents))) for parents in graphs)
    variables = tuple(node for node, _ in regressions)
    return Combinations(every, variables, chosen, (1.0,) * len(every))


def _kernels_of_nodes(kernels: Any, session: Session) -> tuple[Kernel, ...]:
    """The kernel of the residuals of every node."""
    asked = read_single_kernels(kernels, len(session.sources), "a test of residuals")
    return tuple(kernel or Gaussian() for kernel in asked)


@dataclass(frozen=True)
class _ResidualTest:
    """How residuals are tested.

    Parameters
    ----------
    estimator : VHSIC or NystromMHSIC
        The statistic.
    estimator_reason : str
        Why this one.
    null : Null
        The null distribution.
    null_reason : str
        Why this one.
    names : tuple of str
        Names of the estimators to choose from, the better first, where a value was not given.
    """

    estimator: DependenceMeasure
    estimator_reason: str
    null: Gamma | Spectral | Resampling
    null_reason: str
    names: tuple[str, ...]

    @classmethod
    def choose(
        cls,
        session: Session,
        estimator: Any,
        null: str | Null,
        n_resamples: int | None,
        n_tests: int,
    ) -> Self:
        """What was asked for, or what suits so many tests of the variables of a session.

        Raises
        ------
        InvalidArgumentError
            Options exclude each other, or there is none of that name.
        """
        reason, names = AS_ASKED, tuple[str, ...]()
        # By name both may be tried; a value is taken as it is.
        if isinstance(estimator, str):
            names = (check_choice("estimator", estimator, ("auto", VHSIC.name, NystromMHSIC.name)),)
            if estimator == "auto":
                # Many tests of all pairs of rows share more: kernels of residuals, and no
                # replicates.
                most = _VHSIC_ROWS if n_tests <= _MANY_GRAPHS else _VHSIC_ROWS_OF_MANY
                quick = session.n <= most
                reason = f"{'up to' if quick else 'more than'} {most:,} rows"
                names = (VHSIC.name, NystromMHSIC.name)[not quick :]
            estimator = VHSIC() if names[0] == VHSIC.name else NystromMHSIC()
        if not isinstance(estimator, DependenceMeasure):
            msg = (
                "estimator must be 'auto', 'v-hsic', 'nystrom-m', or a VHSIC or NystromMHSIC "
                f"value, got {shown(estimator)}"
            )
            raise InvalidArgumentError(msg)
        chosen: Null
        if not (isinstance(null, str) and null == "auto"):
            # One combination at a time: a grid would be one test of all of them.
            combination = Combinations.single([estimator.kernel(None)] * len(session.sources))
            chosen, why = find_null(null, estimator, session, n_resamples, combination)
        elif n_resamples is not None:
            chosen, why = Permutation(n_resamples), "tests share its replicates"
        else:
            # Graphs are compared by p-values that may all be far below 1 / (b + 1).
            chosen, why = Gamma(), "p-values without a smallest step"
        if not isinstance(chosen, Gamma | Spectral | Resampling):
            msg = (
                f"graphs share replicates or need none, so null must not be {chosen.name!r}, which "
                "draws its own, or tests one variable after another: take 'permutation', or "
                "'shifts' for two nodes, for exact p-values"
            )
            raise InvalidArgumentError(msg)
        return cls(estimator, reason, chosen, why, names)

    @property
    def described(self) -> dict[str, Any]:
        """As it was asked for, for a checkpoint; passes know what it became."""
        return {"estimator": self.estimator, "null": self.null}

    def test(
        self, session: Session, combinations: Combinations, announce: Callable[[Plan], None]
    ) -> tuple[list[tuple[float, float]], _ResidualTest]:
        """Statistic and p-value of every combination by itself, and the method as it was settled.

        An estimator that was given is kept, and refused where it does not fit the memory; one that
        is left open is chosen so that it fits that and the time.
        """
        method, once = self, partial(plan_once, null=self.null)
        if self.names:
            choice = choose_among(self.names, session, combinations, once, self._scores)
            reasons = [one for one in (self.estimator_reason, choice.reason) if one != AS_ASKED]
            chosen: Any = choice.estimator
            told = "; ".join(reasons) or AS_ASKED
            method = replace(self, estimator=chosen, estimator_reason=told)
        announce(planned(once, method.estimator, session, combinations))
        return method._scores(method.estimator, session, combinations), method

    def _scores(
        self, estimator: Any, session: Session, combinations: Combinations
    ) -> list[tuple[float, float]]:
        if isinstance(self.null, Resampling):
            # All graphs share the tiles of the kernels, and the replicates.
            grid = estimator.test_grid(session, combinations, self.null)
            ps = pvalues(grid.statistics, grid.replicates, session.dtype, grid.rounding)
            return list(zip(grid.statistics.tolist(), ps.tolist(), strict=True))
        each = estimator.test_each(session, combinations, self.null)
        laws = ((float(one.statistic), one.distribution, one.rounding) for one in each)
        return [(t, pvalue(t, law, session.dtype, tie)) for t, law, tie in laws]
