"""Test, estimate, compare and scan the dependence of given variables, and plan these.

`independence_test`, `hsic`, `witness_functions` and their plan come first, then the difference of
two dependences, then the scan of the lags of two series.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal, Unpack, get_args

import numpy as np
import scipy
from numpy.typing import NDArray

from dhsic import plots
from dhsic._arguments import (
    Kernels,
    Order,
    RowLabels,
    RunArguments,
    RunOptions,
    UntimedArguments,
    assess,
    choose_measure,
    choose_method,
    plan_measure,
    read_single_kernels,
    result_fields,
    run_batch,
    run_fields,
    takes_run,
    tested_fields,
    variable_summary,
)
from dhsic._validation import check_choice, check_level, shown
from dhsic.engine.plan import Plan, plans
from dhsic.engine.session import Deletion, Session
from dhsic.engine.units import format_count
from dhsic.errors import InvalidArgumentError
from dhsic.estimators import COCO, Estimator, EstimatorName, Null, NullName, WitnessFunctions
from dhsic.estimators.base import GridOutcome
from dhsic.estimators.choose import (
    Intervals,
    assessments,
    choose_estimator,
    plan_of_blocks,
    plan_once,
    run_null,
)
from dhsic.estimators.exact import VHSIC
from dhsic.estimators.features import NystromHSIC
from dhsic.io.variables import GapTreatment, Missing
from dhsic.kernels import Grid
from dhsic.kernels.grid import Combinations
from dhsic.nulls import Shifts, TimeOrder, pvalues
from dhsic.report import Findings
from dhsic.results import (
    DependenceEstimate,
    IndependenceTestResult,
    Interval,
    RunFields,
    VariableSummary,
    pvalue_text,
)
from dhsic.statistics.jackknife import Jackknifed, Parts, jackknife
from dhsic.statistics.neighbours import Neighbours
from dhsic.statistics.orbit import Orbit, Series


@takes_run
def independence_test(
    *variables: Any,
    kernels: Kernels | Grid | None = None,
    estimator: EstimatorName | Estimator = "auto",
    null: NullName | Null = "auto",
    n_resamples: int | None = None,
    names: Sequence[str] | None = None,
    data: Any = None,
    missing: GapTreatment = "refuse",
    strata: Any = None,
    groups: Any = None,
    order: Order | None = None,
    weights: Any = None,
    confidence: float | None = None,
    minimum: float | None = None,
    **options: Unpack[RunArguments],
) -> IndependenceTestResult:
    """Test whether two or more variables are jointly independent.

    Parameters
    ----------
    *variables : array-like, shapes (n,) or (n, d_m)
        Arrays of NumPy, Dask, zarr, xarray or SciPy's sparse module, objects that NumPy converts by
        ``__array__`` or DLPack, zarr paths or URLs, columns or data frames of pandas, polars,
        Arrow, Dask and others; with `data`, names of its columns. A single table or matrix is split
        into its columns, one variable each. Row i of each variable belongs to observation i. Rows
        are assumed exchangeable unless `strata`, `groups` or `order` is given. Row labels, such as
        those of pandas and xarray, must agree.
    kernels : str, Kernel, a sequence of them, or Grid, optional
        One kernel for all variables, one for each variable, or a grid of kernels. By default text,
        categories and booleans have the delta kernel, numbers have several kernels, see
        `Grid.auto`, and a variable with columns of both kinds has the product. The p-value accounts
        for the choice among several kernels. An estimator or a null that supports one kernel takes
        "gaussian", unless the estimator has a kernel of its own. The result lists the kernels. A
        bandwidth that is not given follows the median heuristic, for the Gaussian gamma = 1 /
        (median distance)^2, on up to 1,000 rows drawn for the variable. If these rows are all
        equal, as those of a rare flag, a scan of the data finds rows that differ.
    estimator : str or Estimator, optional
        A name, a text with options such as "nystrom-m:n_landmarks=2000", or a value with options.
        "auto" takes "v-hsic", quadratic in n, up to 1,000 rows of two single columns (500 with one
        kernel) and of three or more variables, and up to 1,500 rows of more columns, if it fits the
        memory. Beyond, it takes "nystrom-hsic" with principal features of 256 landmarks, linear in
        n. If these exceed the memory or the time, "auto" takes fewer landmarks, or one kernel for
        each variable. "auto" tests each of three or more variables against the earlier variables,
        see `Chain`; "v-hsic" and "nystrom-m" by name test all variables jointly. Another name takes
        its usual number of landmarks or features, or as many as fit, at least 64; a value is not
        changed. The result has the choice and the reason.
    null : str or a value of a null, optional
        A name, a text with options such as "shifts:100000", or a value with options. "auto" takes a
        null that is exact for exchangeable rows: `Shifts` for two variables, a `Chain` for more,
        and `Permutation` if an estimator of three variables is named or has no shifts. "block-hsic"
        has no exact null and takes `Normal`. The other nulls are approximations, and warn if the
        data do not suit them. The result has the null and the reason. If an estimator does not
        support a null, the error lists the nulls that it supports; `dhsic.register` adds nulls,
        estimators and kernels by name.
    n_resamples : int, optional
        The least number of replicates. The default is 1,000 shifts, or 250 permutations if `null`
        is "permutation". Omit it if `null` is a value, which has its own number, or has no
        replicates: "gamma", "spectral", "normal", "chi-square",
        "martingale".
    names : sequence of str, optional
        Names of the variables. The default is the names in the data, or x1, x2, ...
    data : data frame, Dataset, dict or zarr group, optional
        The table whose columns the variables name: "x", or ["a", "b"] for columns that form one
        variable. Without variables, all columns are variables.
    missing : {"refuse", "drop", "pairwise"}, optional
        Treatment of rows with a missing value: raise an error, drop the rows and count them in the
        result, or compare two variables by the rows in which both have values. With "pairwise" a
        row with a gap has the mean feature of up to 256 other rows, which is nearly 0 after
        centring. The kernel remains positive definite. The null remains exact for the hypothesis
        that the values and the gaps of a variable are jointly independent of the other variables.
        The test rarely detects gaps that depend on another variable. Estimates shrink by about the
        squared share of complete rows. Stored data are read once more to count the gaps.
    strata : array-like or str, optional
        A label for every row, in one or several columns, or names of columns of `data`. The null
        permutes rows only within their stratum: the test is one of independence given the stratum,
        exact at every n if the rows of a stratum are exchangeable. Numbers are standardised within
        their stratum, since differences between strata would hide dependence within them; strata of
        two rows share one standard deviation. Categories and booleans are not changed.
    groups : array-like or str, optional
        A label for every row: rows of a group belong together, such as songs of an artist, and may
        depend on each other in any way. The null permutes whole groups of the same size, within
        `strata` if these are given, and keeps the order of rows in a group: exact if such groups
        are exchangeable. A group of a unique size stays in place; if nine rows in ten would stay,
        the test is refused.
    order : "time" or TimeOrder, optional
        Declare that the rows in their stored order, or the rows of every group, are a time series.
        The null shifts one variable cyclically against the others, by multiples of the lag, so that
        each variable keeps its serial dependence. Asymptotic, see `TimeOrder`.
    weights : array-like or str, optional
        A positive number for every row, in any unit: how much of a population the row represents,
        such as one over the probability that it was drawn [2]_, or the ratio of the densities of
        the population and of the draws. The rows must be independent draws; the test is one of
        independence of two variables in the population, and weights all means. Asymptotic, by the
        limit law of the weighted products of features, with one kernel for each variable. Omit
        weights that depend on one variable alone: the hypothesis without weights is the same, and
        its test is exact. Do not pass counts of equal rows: repeat the rows.
    confidence : float, optional
        The level of an interval of the estimate, as 0.95; none where not given. The interval comes
        from up to 50 blocks of rows that are left out one by one [3]_, and needs 40 independent
        rows or more. Replicates of features need no other pass over the data for it, other tests
        one more. It is of the measure in the population by the kernels of the reference, whose
        bandwidths count as known, or of what landmarks hold of them, and shrinks towards 0 for
        independent variables. The p-value stays as it is. Roots of measures, random features and
        blocks have no intervals.
    minimum : float, optional
        The smallest dependence that matters, of two variables: the result tests whether CKA by the
        kernels of the reference, or dCor by the estimator "dcor", is at most that, and whether it
        is at least that, from one more pass over the data. Of many rows a p-value says that
        variables depend a little; the minimum says whether they depend enough.
    rng : int, SeedSequence, BitGenerator, Generator or None, optional
        Seed. The same seed gives the same draws whatever the chunks, workers or retries.
    precision : {"float64", "float32"}, optional
        Precision of the tiles. Sums are always float64.
    client : distributed.Client, optional
        Client of the cluster that runs the test. The default is threads of this process, or for
        Dask arrays the current client, if there is one.
    threads : int, optional
        Number of threads of this process. The default is the number of processors.
    memory : int or str, optional
        Bytes that one process may use, such as "2GiB".
    time : float or str, optional
        Seconds that the run may take, such as 600 or "1h", if you left the number of landmarks,
        features or kernels open. The run times a block of the data and takes the largest number
        whose predicted time is within the limit. This choice depends on the machine: the result
        names the number that repeats the run, and a checkpoint keeps it. No limit by default.
    progress : bool or callable, optional
        Whether to show a progress bar, or a function that receives the events of
        `dhsic.engine.events`. By default a bar appears after two seconds in terminals and
        notebooks.
    checkpoint : str, optional
        Path or URL of a folder for finished parts of the passes. After an interrupt, the same call
        resumes from the folder and returns the same result; if an argument or the data differ, an
        error says which. The run removes the folder when it is done; with
        ``dask.config.set({"dhsic.keep-checkpoints": True})`` the folder stays, and the same call
        returns at once. The folder contains rows of the data; on a disk only its owner can read it.
        Every worker must be able to access the folder. A checksum of all rows identifies data in
        memory and Dask arrays, which are computed once more for it. Sizes of chunks and times of
        writing, or ETags, identify stored arrays, so a copy must keep the times. If a store does
        not list chunks, as https, a checksum of some rows identifies the array.

    Returns
    -------
    IndependenceTestResult

    Raises
    ------
    InvalidArgumentError
        An option cannot be used.
    DataError
        The data cannot be tested: NaN, dates, unequal lengths, a constant variable, a broken chunk,
        absent chunks (see `stored_array`); or stored data changed during the run.
    MemoryBudgetError
        The plan needs more memory than allowed. The message names the largest numbers that fit.

    References
    ----------
    .. [1] F. Kalinke, Z. Szabo. Nystrom M-Hilbert-Schmidt independence criterion. UAI 2023.
    .. [2] D. Horvitz, D. Thompson. A generalization of sampling without replacement from a finite
       universe. JASA 47, 1952.
    .. [3] F. Busing, E. Meijer, R. Van der Leeden. Delete-m jackknife for unequal m. Statistics and
       Computing 9, 1999.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.standard_normal((2, 500))
    >>> z = np.sign(x * y) * np.abs(rng.standard_normal(500))
    >>> dhsic.independence_test(x, y, rng=0).pvalue > 0.05
    True
    >>> dhsic.independence_test(x, y, z, rng=0).pvalue < 0.01
    True
    """
    run = RunOptions(**options)
    rows = RowLabels(strata, groups, order, weights=weights)
    session = run.open(variables, names, data, missing, rows, pairwise=True)
    rows.check_confidence(confidence, minimum)
    method = choose_method(session, kernels, estimator, null, n_resamples)
    asked = assessments(session, *method.estimated, confidence, minimum, method.planner)
    session.begin(method.plan(session, asked))
    session.resume(computes="independence test", **method.described, assessed=asked)
    neighbours = Neighbours(session)
    result = IndependenceTestResult(**tested_fields(session, method, asked))
    neighbours.warn()
    return result


@takes_run
def hsic(
    *variables: Any,
    kernels: Kernels | None = None,
    estimator: EstimatorName | Estimator = "auto",
    names: Sequence[str] | None = None,
    data: Any = None,
    missing: GapTreatment = "refuse",
    weights: Any = None,
    confidence: float | None = None,
    minimum: float | None = None,
    **options: Unpack[RunArguments],
) -> DependenceEstimate:
    """Estimate the squared HSIC of two or more variables.

    Parameters
    ----------
    *variables : array-like, shapes (n,) or (n, d_m)
        As for `independence_test`, with at least two rows; "u-hsic" and other unbiased estimates
        need four, and "block-hsic" eight. The estimate is 0 if a variable is constant.
    kernels : str, Kernel or a sequence of them, optional
        One kernel for all variables, or one for each variable. The default is "gaussian", unless
        the estimator has a kernel of its own.
    estimator, names, data, missing
        As for `independence_test`. For two variables "auto" is unbiased: "u-hsic" of up to 5,000
        rows, or features. "cka" is "u-cka" of as many rows, or features.
    weights : array-like or str, optional
        As for `independence_test`, for two variables: estimate HSIC of the population, by features
        and weighted means. With equal weights and all rows as landmarks the estimate equals
        "v-hsic". It is biased.
    confidence : float, optional
        As for `independence_test`; the estimate and its interval come from the same pass.
    minimum : float, optional
        As for `independence_test`.
    rng, precision, client, threads, memory, time, progress, checkpoint
        As for `independence_test`.

    Returns
    -------
    DependenceEstimate

    Raises
    ------
    InvalidArgumentError, DataError, MemoryBudgetError
        As for `independence_test`.

    References
    ----------
    .. [1] F. Kalinke, Z. Szabo. Nystrom M-Hilbert-Schmidt independence criterion. UAI 2023,
       Lemma 4.2 for "nystrom-m", equation 5 for "v-hsic".

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x = np.random.default_rng(0).standard_normal(300)
    >>> round(dhsic.hsic(x, x**2, estimator="v-hsic", rng=0).estimate, 4)
    0.0447
    """
    run = RunOptions(**options)
    rows = RowLabels(weights=weights)
    # Of a constant it is 0, where a test could reject nothing.
    kept: Any = {"pairwise": True, "takes_constants": True, "fewest": 2}
    what = "an estimate of dependence"
    session = run.open(variables, names, data, missing, rows, what=what, **kept)
    rows.check_confidence(confidence, minimum)
    planner = None if confidence is None else plan_of_blocks
    chosen, choice, fitting = choose_measure(session, kernels, estimator, planner=planner)
    asked = assessments(session, chosen, fitting, confidence, minimum)
    session.begin(plan_measure(session, chosen, fitting, asked))
    session.resume(computes="estimate", estimator=chosen, kernels=fitting, assessed=asked)
    made, assessed = assess(session, asked)
    # An interval comes with the estimate.
    with_it = [each for one, each in zip(asked, made, strict=True) if one.estimator == chosen]
    estimate = with_it[0] if with_it else chosen.estimate(session, fitting)
    return DependenceEstimate(**result_fields(session, chosen, choice, estimate), **assessed)


@takes_run
def witness_functions(
    x: Any,
    y: Any,
    *,
    kernels: Kernels | None = None,
    estimator: EstimatorName | Estimator = "coco",
    names: Sequence[str] | None = None,
    data: Any = None,
    missing: Missing = "refuse",
    **options: Unpack[RunArguments],
) -> WitnessFunctions:
    """Find the smooth functions of two variables whose covariance is largest.

    The two functions show where the dependence lies that `COCO` measures.

    Parameters
    ----------
    x, y : array-like, shapes (n,) or (n, d)
        As for `independence_test`.
    kernels : str, Kernel or a sequence of them, optional
        As for `hsic`.
    estimator : str or COCO, optional
        "coco", or a `COCO` value with options.
    names, data, missing, rng, precision, client, threads, memory, time, progress, checkpoint
        As for `independence_test`.

    Returns
    -------
    WitnessFunctions

    Raises
    ------
    InvalidArgumentError, DataError, MemoryBudgetError
        As for `independence_test`.

    References
    ----------
    .. [1] A. Gretton. Notes on mean embeddings and covariance operators. 2020, section 4.1.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x, noise = np.random.default_rng(0).standard_normal((2, 500))
    >>> found = dhsic.witness_functions(x, x**2 + noise, rng=0)
    >>> f = found.first(np.array([[-1.5], [0.0], [1.5]]))
    >>> bool(abs(f[0] - f[1]) > 3 * abs(f[0] - f[2]))  # nearly even, as the square is
    True
    """
    run = RunOptions(**options)
    session = run.open((x, y), names, data, missing)
    chosen, reason, fitting = choose_measure(session, kernels, estimator)
    if not isinstance(chosen, COCO):
        msg = f"witness functions need estimator 'coco' or a COCO value, got {shown(estimator)}"
        raise InvalidArgumentError(msg)
    session.begin(plan_measure(session, chosen, fitting))
    session.resume(computes="witness functions", estimator=chosen, kernels=fitting)
    functions = chosen.witness_functions(session, fitting)
    # Stored data may have been written to meanwhile.
    session.verify()
    return replace(functions, estimator_reason=reason)


@plans(independence_test)
def plan() -> None:
    """Plan `independence_test`: its steps, their memory and their time.

    Parameters
    ----------
    *variables : array-like, shapes (n,) or (n, d_m)
        As for `independence_test`.
    kernels, estimator, null, n_resamples, names, data, missing, strata, groups, order, weights
        As for `independence_test`.
    confidence, minimum, precision, client, threads, memory, time
        As for `independence_test`.

    Returns
    -------
    Plan
        Its `processor_seconds` and `seconds` are predictions. The first access to either reads and
        computes one block of each pass.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> dhsic.plan(np.zeros((10_000, 3)), np.zeros(10_000), threads=1).n_landmarks
    256
    """


_ROUNDING = 1e-9  # of the measures
_WHAT = "a difference of dependences"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class DependenceDifference(RunFields):
    """How much more a variable depends on one variable than on another.

    Parameters
    ----------
    n, precision, seed, passes, seconds, version, dropped, data, missing
        Of the run, see `dhsic.results.RunFields`.
    names : tuple of str
        Names of x1, x2 and y.
    estimator : str
        The name of the measure of dependence.
    estimates : tuple of float
        The measures of x1 and y, and of x2 and y, less their bias: the centres of their intervals.
    intervals : tuple of Interval
        Theirs.
    difference : float
        The first less the second, the centre of its interval.
    interval : Interval
        That of the difference.
    pvalue : float
        Of the hypothesis that the difference of the population is 0, of either sign.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> a, b, e = np.random.default_rng(0).standard_normal((3, 500))
    >>> found = dhsic.dependence_difference(a, b, 2 * a + b + e, rng=0)
    >>> found.difference > 0, found.interval.low > 0
    (True, True)
    """

    _tabular: ClassVar[bool] = False

    names: tuple[str, ...]
    estimator: str
    estimates: tuple[float, float]
    intervals: tuple[Interval, Interval]
    difference: float
    interval: Interval
    pvalue: float

    def summary(self) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads."""
        return [
            ("n", self._rows_told),
            ("measure", self.estimator),
            *((term, interval.told) for term, interval in self._measures),
            ("p-value", pvalue_text(self.pvalue, None, 0)),
            *self._tail(),
        ]

    def records(self) -> list[dict[str, Any]]:
        """A row a measure, and one of the difference."""
        each = zip(self._measures, (None, None, self.pvalue), strict=True)
        return [
            {"term": term, "method": self.estimator, "p_value": p, "n": self.n}
            | {"estimate": interval.centre, **interval.columns}
            for (term, interval), p in each
        ]

    @property
    def _measures(self) -> list[tuple[str, Interval]]:
        """Name and interval of both measures, and of their difference."""
        x1, x2, y = self.names
        terms = f"{x1}, {y}", f"{x2}, {y}", "difference"
        return list(zip(terms, (*self.intervals, self.interval), strict=True))

    def findings(self, alpha: float, control: str) -> Findings:
        del control
        x1, x2, y = self.names
        more, less = (x1, x2) if self.difference > 0.0 else (x2, x1)
        lead = f"{y} depends more on {more} than on {less} (p = {self.pvalue:.3g})"
        if self.pvalue > alpha:
            lead = f"Whether {y} depends more on {x1} or on {x2} is open (p = {self.pvalue:.3g})"
        title = f"Dependence of {y} on {x1} and on {x2}"
        words = "The measures and their difference, with their intervals."
        return Findings(title, lead, {words: self.plot}, {"Measures": self.records()})

    def plot(self, ax: plots.Axes | None = None) -> plots.Axes:
        """Draw the measures and their difference with their intervals.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure where not given.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        MissingDependencyError
            matplotlib is not installed.
        """
        terms, intervals = zip(*self._measures, strict=True)
        centres = [one.centre for one in intervals]
        axes = plots.draw_bars(ax, terms, centres, f"{self.estimator}, corrected for bias")
        plots.draw_intervals(axes, np.array([(one.low, one.high) for one in intervals]))
        return axes


@partial(takes_run, taken=UntimedArguments)
def dependence_difference(
    *variables: Any,
    kernels: Kernels | None = None,
    estimator: EstimatorName | Estimator = "cka",
    confidence: float = 0.95,
    names: Sequence[str] | None = None,
    data: Any = None,
    missing: Missing = "refuse",
    **options: Unpack[UntimedArguments],
) -> DependenceDifference:
    """Estimate how much more y depends on x1 than on x2.

    Both measures are of the same rows, so that their errors go together: the jackknife leaves the
    same blocks of rows out of both [1]_, and the interval of the difference is narrower than those
    of the measures suggest.

    Parameters
    ----------
    *variables : array-like, shapes (n,) or (n, d_m)
        x1, x2 and y, as for `independence_test`.
    kernels : str, Kernel or three of them, optional
        As for `hsic`.
    estimator : str or Estimator, optional
        A measure whose values can be compared between variables: "cka", which compares all pairs
        of up to 5,000 rows and takes landmarks of more, or "dcor". Squared HSIC can, where x1 and
        x2 have the same kernel and the same law.
    confidence : float, optional
        The level of the intervals.
    names, data, missing, rng, precision, client, threads, memory, progress, checkpoint
        As for `independence_test`.

    Returns
    -------
    DependenceDifference
        The p-value is that of Student's t of the difference over its standard error. It is not
        exact, and is cautious where y depends on neither.

    Raises
    ------
    InvalidArgumentError, DataError, MemoryBudgetError
        As for `independence_test`; fewer than 40 rows, or an estimator without intervals.

    References
    ----------
    .. [1] F. Busing, E. Meijer, R. Van der Leeden. Delete-m jackknife for unequal m. Statistics and
       Computing 9, 1999.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> a, b, e = np.random.default_rng(0).standard_normal((3, 500))
    >>> dhsic.dependence_difference(a, b, a + b + e, rng=0).pvalue > 0.05
    True
    >>> dhsic.dependence_difference(a, b, a + e, rng=0).pvalue < 0.01
    True
    """
    check_level(confidence, "confidence", "as 0.95")
    run = RunOptions(**options)
    session = run.open(variables, names, data, missing, what=_WHAT)
    if len(session.sources) != 3:
        msg = f"{_WHAT} takes three variables, x1, x2 and y, got {len(session.sources)}"
        raise InvalidArgumentError(msg)
    asked, chosen = read_single_kernels(kernels, 3, _WHAT), estimator
    each = list[Intervals]()
    # Both by one estimator: what fits the memory for the wider variable fits it for the other.
    for first in sorted((0, 1), key=lambda m: -session.dims[m]):
        pair, some = _pair(session, first), (asked[first], asked[2])
        chosen, _, fitting = choose_measure(pair, some, chosen, planner=plan_of_blocks)
        each.insert(first, Intervals.of(pair, chosen, Combinations.single(fitting), confidence))
    # The same blocks are left out of both.
    blocks = min(one.blocks for one in each)
    each = [replace(one, blocks=blocks) for one in each]

    def measure(part: Session) -> list[Sequence[Parts]]:
        return [one.measure(_pair(part, first)).parts for first, one in enumerate(each)]

    def assess(run: Session) -> Jackknifed:
        return jackknife(run.leaving_out(Deletion(blocks)), measure)

    pilot = partial(session.timed, assess)
    first_plan, second = (one.plan(_pair(session, first)) for first, one in enumerate(each))
    steps = *first_plan.steps[:-1], *second.steps  # blocks are left out of both at once
    plan = replace(first_plan, variables=session.names, steps=steps, pilot=pilot)
    session.begin(plan)
    session.resume(computes=_WHAT, measures=each)
    both = assess(session)
    intervals = each[0].interval(both, 0), each[1].interval(both, 1)
    measured = both.difference.measured(unbiased=each[0].unbiased)
    interval = measured.signed_interval(confidence, each[0].estimator.largest)
    # Measures that are equal but for rounding differ by nothing.
    apart = abs(interval.centre) > _ROUNDING * max(map(abs, both.values))
    t = interval.centre / interval.error if apart and interval.error else (np.inf if apart else 0.0)
    return DependenceDifference(
        names=session.names,
        estimator=each[0].estimator.name,
        estimates=(intervals[0].centre, intervals[1].centre),
        intervals=intervals,
        difference=interval.centre,
        interval=interval,
        pvalue=float(2.0 * scipy.stats.t.sf(abs(t), interval.degrees)),
        **run_fields(session),
    )


@plans(dependence_difference)
def plan_difference() -> None:
    """Plan `dependence_difference`: its steps and their memory; runs nothing.

    Parameters
    ----------
    *variables : array-like, shapes (n,) or (n, d_m)
        As for `dependence_difference`.
    kernels, estimator, confidence, names, data, missing
        As for `dependence_difference`.
    precision, client, threads, memory
        As for `dependence_difference`.

    Returns
    -------
    Plan

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> dhsic.plan_difference(*np.random.default_rng(0).standard_normal((3, 500))).n
    500
    """


def _pair(session: Session, first: int) -> Session:
    """The run over one of the two variables and the last one."""
    sources = session.sources[first], session.sources[2]
    return session.over(sources, f"variable {first} and the last")


LagEstimator = Literal["auto", "v-hsic", "nystrom-hsic"]
Vector = NDArray[np.float64]

_PIECE = 2**14  # rows at least
_TIMES = 64  # the largest lag, or the least L, of a piece


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LagScan(RunFields):
    """The dependence of y(t) on x(t - l) at every lag l.

    Parameters
    ----------
    n, precision, seed, passes, seconds, version, dropped, data, missing
        Of the run, see `dhsic.results.RunFields`.
    lags : tuple of int
        The W lags l, in rows, ascending.
    statistics : ndarray, shape (W,)
        T(l), the rows times the estimate.
    hsic : ndarray, shape (W,)
        Squared HSIC of x(t - l) and y(t).
    cka : ndarray, shape (W,)
        (HSIC(x, y) - c) / (sqrt(HSIC(x, x) HSIC(y, y)) - c) with c the mean of HSIC(x, y) over all
        shifts around, by whole periods: at most 1, and 0 on average without dependence.
    spread : ndarray, shape (W,)
        Standard deviation of CKA over these shifts.
    pvalues : ndarray, shape (W,)
        P-values of every lag by itself.
    adjusted : ndarray, shape (W,)
        P-values adjusted by max-T: those of at most alpha have any false discovery with a
        probability of at most alpha.
    null_distribution : ndarray, shape (b - 1,)
        For every replicate, the largest CKA of all lags over its `spread`.
    step : int
        Rows L of whose multiples these shifts are.
    names : tuple of str
        Those of x and y.
    variables : tuple of VariableSummary
        The same with their kernels.
    estimator, estimator_reason : str
        The estimator, and why this one.
    null, null_reason : str
        The null distribution, and how it was made.

    References
    ----------
    .. [1] P. Westfall, S. Young. Resampling-based multiple testing. Wiley 1993, for max-T.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x, y = np.random.default_rng(0).standard_normal((2, 400))
    >>> y[2:] += x[:-2]
    >>> scan = dhsic.lag_scan(x, y, 4, rng=0)
    >>> scan.lags[int(scan.cka.argmax())], scan.dependent()
    (2, (2,))
    """

    lags: tuple[int, ...]
    statistics: Vector
    hsic: Vector
    cka: Vector
    spread: Vector
    pvalues: Vector
    adjusted: Vector
    null_distribution: Vector
    step: int
    names: tuple[str, ...]
    variables: tuple[VariableSummary, ...]
    estimator: str
    estimator_reason: str
    null: str
    null_reason: str

    def dependent(self, alpha: float = 0.05) -> tuple[int, ...]:
        """Lags at which independence is rejected; any falsely with a probability of at most alpha.

        Parameters
        ----------
        alpha : float, optional
            The level.

        Raises
        ------
        InvalidArgumentError
            The level is not between 0 and 1.
        """
        return tuple(np.array(self.lags)[self.adjusted <= check_level(alpha)].tolist())

    def critical_values(self, alpha: float = 0.05) -> Vector:
        """The CKA that is exceeded at the lags of `dependent`, shape (W,).

        Parameters
        ----------
        alpha : float, optional
            The level.

        Returns
        -------
        ndarray
            NaN where replicates are too few for the level.

        Raises
        ------
        InvalidArgumentError
            The level is not between 0 and 1.
        """
        values, level = self.null_distribution, check_level(alpha)
        critical = plots.critical_value(values, level, resampled=True)
        exceeded = self.spread * (np.nan if critical is None else critical)
        # Shifts that meet a lag again reach its CKA but for rounding.
        return np.where(self.adjusted > level, np.maximum(exceeded, self.cka), exceeded)

    @property
    def least_adjusted(self) -> float:
        """The smallest adjusted p-value that shifts can attain.

        Shifts by the difference of two lags meet the strongest of them again, so that it is about
        the number of lags, or L where that is more, over the rows.
        """
        # T(l) is that of lag l - k L after a shift by k L.
        meeting = Counter(lag % self.step for lag in self.lags)
        return min(meeting.values()) / (len(self.null_distribution) + 1)

    def summary(self, alpha: float = 0.05) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads, with the decision at a level."""
        least = self.least_adjusted
        few = ": take fewer lags or more rows" if least > alpha else ""
        return [
            ("lags", f"{len(self.lags):,} of {' before '.join(self.names)}"),
            ("n", self._rows_told),
            ("dependent", self.decision(alpha)),
            ("p-values", f"{least:.3g} at least when adjusted{few}"),
            ("estimator", f"{self.estimator}: {self.estimator_reason}"),
            ("null", f"{self.null}: {self.null_reason}"),
            *self._tail(),
        ]

    def decision(self, alpha: float) -> str:
        """How many lags depend at a level, in words, and where CKA is largest."""
        found, count = len(self.dependent(alpha)), format_count(len(self.lags), "lag")
        most = f"CKA is largest at lag {self.lags[int(self.cka.argmax())]}"
        return f"{found:,} of {count} at level {alpha:g} by max-T; {most}"

    def records(self) -> list[dict[str, Any]]:
        """Every lag."""
        (x, y), method = self.names, f"{self.estimator}, {self.null}"
        names = "lag", "statistic", "estimate", "cka", "p_value", "p_adjusted"
        each = self.statistics, self.hsic, self.cka, self.pvalues, self.adjusted
        rows = zip(self.lags, *(one.tolist() for one in each), strict=True)
        return [
            {"x": x, "y": y, **dict(zip(names, row, strict=True)), "method": method} for row in rows
        ]

    def findings(self, alpha: float, control: str) -> Findings:
        del control
        x, y = self.names
        words = f"CKA of {y} and an earlier {x} by the lag; the broken line is the critical value."
        pictures = {words: partial(self.plot, alpha=alpha)}
        title = f"At which lags does {y} depend on {x}?"
        return Findings(title, self.decision(alpha), pictures, {"Lags": self.records()})

    def plot(self, ax: plots.Axes | None = None, *, alpha: float = 0.05) -> plots.Axes:
        """CKA by the lag, with the critical value of the largest of all lags.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure where not given.
        alpha : float, optional
            The level of the critical value.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        InvalidArgumentError
            The level is not between 0 and 1.
        MissingDependencyError
            matplotlib is not installed.
        """
        (x, y), critical = self.names, self.critical_values(alpha)
        axes, said = plots.axes_of(ax, (6.4, 3.8)), f"critical value at {100 * alpha:g} %, max-T"
        axes.stem(self.lags, self.cka, linefmt=plots.BLUE, basefmt=plots.GREY, label="CKA")
        axes.plot(self.lags, critical, color=plots.ORANGE, linestyle="--", label=said)
        axes.set(xlabel=f"rows by which {y} is behind {x}", ylabel="CKA")
        axes.spines[["top", "right"]].set_visible(False)
        plots.legend_above(axes)
        return axes


@takes_run
def lag_scan(
    x: Any,
    y: Any,
    lags: int | Sequence[int],
    *,
    kernels: Kernels | None = None,
    estimator: LagEstimator | VHSIC | NystromHSIC = "auto",
    n_resamples: int | None = None,
    names: Sequence[str] | None = None,
    data: Any = None,
    missing: GapTreatment = "refuse",
    order: Order = "time",
    **options: Unpack[RunArguments],
) -> LagScan:
    """Find the lags at which one series depends on another.

    The statistic T(l) of a lag l is that of x(t) and y(t + l), with y shifted around by l rows, so
    that l of its n pairs of rows join the end of one series and the start of the other. One pass
    over the data gives it at all shifts, since its sums are circular cross-correlations. A series
    of 32,768 rows or more is cut into pieces of 16,384 or more, at least 64 times the largest lag
    and L, which are shifted around each by itself and all alike.

    Shifts of the series are the replicates, as in `independence_test` with `order` [1]_: lag l of
    replicate k has T(l + k L). Where the series are independent and one of them is stationary and
    long beside its memory, the b shifts by multiples of L are exchangeable, whatever the serial
    dependence of either, and so is the largest T(l) of all lags. Max-T compares every T(l) with
    that, and so accounts for all lags however they depend on each other [2]_. Shifts that are
    nearer to the data than the lags span stay among the replicates, although they meet the
    strongest lag again: without them the level would not hold. So the smallest adjusted p-value is
    about the number of lags over that of rows, see `LagScan.least_adjusted`.

    Parameters
    ----------
    x, y : array-like, shapes (n,) or (n, d)
        As for `independence_test`, in the order of time, at equal intervals.
    lags : int or sequence of int
        Rows by which y is behind x; where y leads they are negative. A number m stands for all lags
        from -m to m. Up to a quarter of the rows.
    kernels : str, Kernel or a sequence of them, optional
        One for both series, or one a series; "gaussian" where not given, of categories "delta".
    estimator : str, VHSIC or NystromHSIC, optional
        "auto" takes "v-hsic", quadratic in n, for up to 2,000 rows, and "nystrom-hsic" with
        principal features of 256 landmarks beyond; or one of these by name or value.
    n_resamples : int, optional
        About how many shifts are replicates, 1,000 where not given, or as many as there are.
    names, data
        As for `independence_test`.
    missing : {"refuse", "drop", "pairwise"}, optional
        As for `independence_test`; rows with a gap cannot be dropped, since those behind them would
        have other lags.
    order : "time" or TimeOrder, optional
        The least L, one row or the period where not given, and the period of which it is a
        multiple.
    rng, precision, client, threads, memory, time, progress, checkpoint
        As for `independence_test`.

    Returns
    -------
    LagScan

    Raises
    ------
    InvalidArgumentError, DataError, MemoryBudgetError
        As for `independence_test`; lags that are no different integers, or are beyond a quarter of
        the rows; rows that would be dropped.

    References
    ----------
    .. [1] K. Chwialkowski, A. Gretton. A kernel independence test for random processes. ICML 2014,
       section 4.
    .. [2] P. Westfall, S. Young. Resampling-based multiple testing. Wiley 1993, section 2.3.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x, y = np.random.default_rng(0).standard_normal((2, 500))
    >>> y[3:] += x[:-3] ** 2
    >>> dhsic.lag_scan(x, y, range(6), rng=0).dependent()
    (3,)
    """
    run = RunOptions(**options)
    session = run.open((x, y), names, data, missing, RowLabels(order=order), pairwise=True)
    series, count = session.moves, Shifts() if n_resamples is None else Shifts(n_resamples)
    if session.dropped or not isinstance(series, Series):
        msg = (
            f"lags are of all rows in the order of time, got order={shown(order)} and "
            f"{session.dropped:,} rows left out: take order='time', and missing='pairwise' for gaps"
        )
        raise InvalidArgumentError(msg)
    asked, ordered = _read_lags(lags, session.n), TimeOrder() if order == "time" else order
    least = ordered.lag or ordered.period
    # Pieces of a long series, of a length whose features and transforms fit in memory.
    pieces = session.n // max(_PIECE, _TIMES * max(least, *map(abs, asked))) or 1
    length = session.n // pieces
    rows = np.arange(pieces * length).reshape(pieces, length)
    series = replace(series, series=tuple(rows), lag=least)
    steps = series.groups(count.n_resamples)
    step = series.step(length, steps.size)
    law = Shifts(step * steps.size)
    # By every number of rows, around those that the steps move.
    around = replace(series, series=tuple(rows[:, : law.n_resamples]), lag=1, period=1)
    session = replace(session, moves=around, remedy="; missing='pairwise' keeps their places")
    check_choice("estimator", getattr(estimator, "name", estimator), get_args(LagEstimator))
    _, _, fitting = choose_measure(session, kernels, VHSIC())
    pair = Combinations.against(fitting[:1], fitting[1])

    def planner(one: Estimator, some: Session, both: Combinations) -> Plan:
        plan = plan_once(one, some, both, law)
        # Replicates of all lags, in a few arrays.
        return replace(plan, closing_bytes=plan.closing_bytes + 64 * len(asked) * steps.size)

    method, _, reason = choose_estimator(estimator, session, pair, law, None, planner=planner)
    runner, of = partial(run_null, null=law), {"computes": "lag scan", "lags": asked}  # type: Any, Any
    found = run_batch(session, planner, runner, method, pair, law, fitting, **of)
    return LagScan(
        lags=asked,
        step=step,
        names=session.names,
        variables=tuple(map(variable_summary, session.sources, found.combinations.kernels)),
        estimator=method.name,
        estimator_reason=reason,
        null=law.name,
        null_reason=f"{series.assumption}; {Orbit(steps, 1).detail}",
        **_scanned(session, (step, series.period), asked, found),
        **run_fields(session),
    )


@plans(lag_scan)
def plan_lag_scan() -> None:
    """Plan `lag_scan`: its steps and their memory; runs nothing.

    Parameters
    ----------
    x, y, lags
        As for `lag_scan`.
    kernels, estimator, n_resamples, names, data, missing, order
        As for `lag_scan`.
    precision, client, threads, memory, time
        As for `lag_scan`.

    Returns
    -------
    Plan

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> dhsic.plan_lag_scan(*np.zeros((2, 10_000)), range(20), threads=1).n_landmarks
    256
    """


def _scanned(
    session: Session, steps: tuple[int, int], lags: Sequence[int], found: GridOutcome
) -> dict[str, Any]:
    """What a scan says of every lag."""
    n, every = session.n, np.append(found.statistics, found.replicates[:, 0])
    (step, period), dtype = steps, session.dtype
    # A row is one shift, a column one lag.
    at = (np.arange(0, len(every), step)[:, None] + np.array(lags)) % len(every)
    values = every[at]
    # Shifts by whole periods have one law, and all of them are standardised alike: a function of
    # the circle, which shifts leave as it is, so that the largest of the lags stays exact.
    cycles, phases = every.reshape(-1, period), at[0] % period
    mean, deviation = cycles.mean(axis=0)[phases], cycles.std(axis=0)[phases]
    unit = np.divide(1.0, deviation, out=0.0 * deviation, where=deviation > 0.0)
    distances = (values - mean) * unit
    largest = distances[1:].max(axis=1)
    # The bound is of lag 0; errors of roots are the same at all lags, see `tie_tolerance`.
    sizes = np.maximum(values[0] / (every[0] or 1.0), 1.0)
    rounding = 2.0 * found.rounding * np.sqrt(sizes)
    assert found.own is not None
    scale = float(np.sqrt(found.own).prod()) - mean / n
    units = np.divide(1.0, n * scale, out=0.0 * scale, where=scale > 0.0)
    return {
        "statistics": values[0],
        "hsic": values[0] / n,
        "cka": (values[0] - mean) * units,
        "spread": deviation * units,
        "pvalues": pvalues(values[0], values[1:], dtype, rounding),
        "adjusted": pvalues(distances[0], largest[:, None], dtype, rounding * unit),
        "null_distribution": largest,
    }


def _read_lags(lags: Any, rows: int) -> tuple[int, ...]:
    """Lags that were given one by one, or the largest of them."""
    most = rows // 4  # of a lag l, l of n pairs of rows are none
    listed: Any = lags if isinstance(lags, Sequence | np.ndarray) else ()
    if _is_whole(lags):
        listed = range(-lags, lags + 1)
    whole = all(_is_whole(one) and -most <= one <= most for one in listed)
    if not whole or not 0 < len(listed) == len(set(listed)):
        msg = (
            f"lags must be different whole numbers up to {most:,}, a quarter of the rows, or one "
            f"number, got {shown(lags)}: as 1, 2 and 3, or 10 for all from -10 to 10"
        )
        raise InvalidArgumentError(msg)
    return tuple(sorted(map(int, listed)))


def _is_whole(lag: Any) -> bool:
    return isinstance(lag, int | np.integer) and not isinstance(lag, bool)
