"""Tests of independence, estimates of dependence, witness functions, and plans of tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Unpack

from dhsic._arguments import (
    Kernels,
    RunArguments,
    RunOptions,
    choose_measure,
    choose_method,
    plan_measure,
    takes_run,
)
from dhsic._fields import assess, result_fields, tested_fields
from dhsic._rows import Order, RowLabels
from dhsic._validation import shown
from dhsic.engine.plan import plans
from dhsic.errors import InvalidArgumentError
from dhsic.estimators import COCO, Estimator, EstimatorName, Null, NullName, WitnessFunctions
from dhsic.estimators.program import assessments, plan_of_blocks
from dhsic.io.variables import GapTreatment, Missing
from dhsic.kernels import Grid
from dhsic.results import DependenceEstimate, IndependenceTestResult
from dhsic.statistics.neighbours import Neighbours


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
