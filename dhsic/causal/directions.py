"""Which of two variables is the cause: residuals of either regression, and what they depend on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dhsic._arguments import (
    RunOptions,
    check_seeded,
    choose_measure,
    choose_method,
    read_kernel,
    run_fields,
    tested_fields,
)
from dhsic._progress import Progress, shows_progress
from dhsic._random import RngLike, generator, resolve_seed
from dhsic._validation import check_choice, check_integer, named_arguments, shown
from dhsic.engine.blocks import Source
from dhsic.engine.events import StepStarted
from dhsic.engine.plan import DriverStep, PassPlan, Plan, plans
from dhsic.engine.session import Session
from dhsic.errors import DataError, DhsicError, InvalidArgumentError
from dhsic.estimators import VHSIC, Estimator, EstimatorName, Null, NullName, NystromMHSIC
from dhsic.estimators.base import plan_of
from dhsic.estimators.choose import choose_among, first_that_fits, plan_test, powers_below, telling
from dhsic.estimators.registry import find_estimator
from dhsic.features import ColumnFeatures
from dhsic.io.folder import Folder
from dhsic.io.missing import Missing
from dhsic.io.variables import Variable, derived, join_rows
from dhsic.kernels import Combinations, Kernel, KernelName, Linear
from dhsic.plots import BLUE, axes_of, finite_numbers, rounded
from dhsic.regression.residuals import (
    FEWEST_ROWS,
    Regression,
    RegressionName,
    described_regression,
    find_regression,
    fit_regressions,
    open_nodes,
    plan_regressions,
)
from dhsic.regression.ridge import Folds, SecondMomentsPass
from dhsic.results import AS_ASKED, BarResult, Result, RunFields
from dhsic.sensitivity.maps import column_sensitivities, map_passes
from dhsic.statistics.neighbours import Neighbours

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Vector = NDArray[np.float64]
DirectionCriterion = Literal["p-value", "larger-p-value", "hsic", "sensitivity"]

_UNIT_ROWS = 1000
_UNITS = "sample rows"
_BY_PVALUE = ("p-value", "larger-p-value")
_FEWEST_CHOSEN = 256
_GAUSSIAN_PROCESS_ROWS, _ALL_PAIRS_ROWS = 2048, 2**17  # of a run of minutes
_REMEDY = "take fewer rows by max_rows, fewer landmarks or threads, or regression='splines'"
_GIVEN = {1: [(0,)]}  # the effect given the cause
_RESIDUALS = "residuals of {}"


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

    _tabular: ClassVar[bool] = True

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

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the curve."""
        axes = axes_of(ax, (4.8, 4.2))
        axes.plot(self.decision_rate, self.accuracy, color=BLUE, marker=".", label="accuracy")
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
    sizes = finite_numbers("scores", scores, None)
    try:
        positive = np.asarray(truth)
    except ValueError as error:
        msg = f"truth must be {len(sizes)} booleans, one a score, got {shown(truth)}"
        raise InvalidArgumentError(msg) from error
    if positive.dtype != bool or positive.shape != sizes.shape:
        msg = (
            f"truth must be {len(sizes)} booleans, one a score, got {positive.dtype} of shape "
            f"{positive.shape}: True where the first variable is the cause"
        )
        raise InvalidArgumentError(msg)
    given = np.ones(len(sizes)) if weights is None else weights
    shares = finite_numbers("weights", given, len(sizes))
    if shares.min() < 0.0 or not shares.any():
        msg = f"weights must be at least 0 and not all 0, got {shares.min():g} to {shares.max():g}"
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
        said = [f"HSIC {rounded(self.hsic)}"]
        if self.pvalue is not None:
            said.append(f"p-value {rounded(self.pvalue)}")
        if self.sensitivity is not None:
            cause, residuals = map(rounded, self.sensitivity)
            said.append(f"sensitivity to the cause {cause}, to the residuals {residuals}")
        return ", ".join(said)


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

    _tabular: ClassVar[bool] = True
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


def _because(text: str, reason: str) -> str:
    return text if reason == AS_ASKED else f"{text}: {reason}"


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
    rng, names, data, missing, client, threads, memory
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


_Side = tuple[DirectionEvidence, str, str | None]
"""A direction, with the names of the estimator and of the null that measured it."""


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
            self._kernels(find_estimator(names[0], session)[0]),
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
        fetch = max(source.take_bytes for source in self.session.sources)
        if rows < self.session.n:
            size = 8 * rows * sum(session.dims)
            steps.append(DriverStep("select rows", 2 * size + fetch, size))
            fetch = 0
        estimator, _ = find_estimator(self.estimator, session)
        sample = 8 * min(rows, _UNIT_ROWS) * sum(session.dims)
        steps += [DriverStep(_UNITS, 3 * sample + fetch), session.plan(_moments(session))]
        # Variables of the shapes of those that are standardised.
        both = [derived(one.name, (one,), join_rows, one.shape[1]) for one in session.sources]
        landmarks = None
        for cause, effect in (both, both[::-1]):
            pair = session.over([cause, effect])
            name, d = _RESIDUALS.format(effect.name), effect.shape[1]
            left = derived(name, (effect, cause), join_rows, d)
            measured = self._plan_measure(session.over([cause, left]), estimator)
            steps += [*plan_regressions(pair, self.regression, _GIVEN), *measured.steps]
            landmarks = measured.n_landmarks
        return plan_of(session, steps, _REMEDY, landmarks)

    def _plan_measure(self, session: Session, estimator: Estimator) -> Plan:
        """The plan of `_side`, after the regression."""
        combinations = self._kernels(estimator)
        if self.criterion == "sensitivity":
            # The map is summed up here, and never written.
            return map_passes(session, estimator, "statistic", combinations.kernels, (0, 1))
        return plan_test(estimator, session, combinations, self._null, self.n_resamples)

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
        (left,) = fit_regressions(both, self.regression, _GIVEN)(_GIVEN, _RESIDUALS)
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
