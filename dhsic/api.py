"""The public functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dhsic._arguments import Precision, RunOptions, choose_measure, choose_method, plan_measure
from dhsic._fields import result_fields, tested_fields
from dhsic._progress import Progress, shows_progress
from dhsic._random import RngLike
from dhsic._rows import Order, RowLabels
from dhsic._validation import named_arguments
from dhsic.engine.plan import plans
from dhsic.errors import InvalidArgumentError
from dhsic.estimators import COCO, Estimator, EstimatorName, Null, NullName, WitnessFunctions
from dhsic.io.missing import GapTreatment, Missing
from dhsic.kernels import Grid, Kernel, KernelName
from dhsic.results import DependenceEstimate, IndependenceTestResult
from dhsic.statistics.neighbours import Neighbours

Kernels = KernelName | str | Kernel | Sequence[KernelName | str | Kernel | None]


@named_arguments
@shows_progress
def independence_test(
    *variables: Any,
    kernels: Kernels | Grid | None = None,
    estimator: EstimatorName | Estimator = "auto",
    null: NullName | Null = "auto",
    n_resamples: int | None = None,
    rng: RngLike = None,
    names: Sequence[str] | None = None,
    data: Any = None,
    missing: GapTreatment = "refuse",
    strata: Any = None,
    groups: Any = None,
    order: Order | None = None,
    weights: Any = None,
    precision: Precision = "float64",
    client: Any = None,
    threads: int | None = None,
    memory: int | str = "2GiB",
    time: float | str | None = None,
    progress: Progress = None,
    checkpoint: str | None = None,
) -> IndependenceTestResult:
    """Test whether two or more variables are jointly independent.

    Parameters
    ----------
    *variables : array-like, shapes (n,) or (n, d_m)
        Arrays of NumPy, Dask, zarr, xarray or SciPy's sparse module, what NumPy reads by
        ``__array__`` or DLPack, zarr paths or URLs, columns or data frames of pandas, polars,
        Arrow, Dask and others; or names where `data` is given. A table or matrix alone stands for
        its columns. Row i of each belongs to observation i. Rows are exchangeable unless `strata`,
        `groups` or `order` say otherwise. Labels of rows, as of pandas and xarray, must agree.
    kernels : str, Kernel, a sequence of them, or Grid, optional
        One for all variables, one for each variable, or a grid of them. By default text, categories
        and booleans have the delta kernel, numbers several kernels, see `Grid.auto`, and a variable
        of both has the product. The p-value accounts for the choice among several kernels. An
        estimator or a null that supports one kernel has "gaussian", unless the estimator names
        another. The result says which kernels the test took. A bandwidth that is not given follows
        the median heuristic, for the Gaussian gamma = 1 / (median distance)^2, on up to 1,000 rows
        drawn for the variable. If these rows are all equal, as of a rare flag, a scan of the data
        finds others.
    estimator : str or Estimator, optional
        A name, a text with options as "nystrom-m:n_landmarks=2000", or a value with options. "auto"
        takes "v-hsic", quadratic in n, up to 1,000 rows of two single columns (500 with one kernel)
        and of three or more variables, and up to 1,500 rows of more columns, if it fits the memory.
        Beyond, it takes "nystrom-hsic" with principal features of 256 landmarks, linear in n. If
        these exceed the memory or the time, it takes fewer landmarks, or one kernel for each
        variable. It tests three or more variables one after another against the earlier ones, see
        `Chain`; "v-hsic" and "nystrom-m" by name test all jointly. Another name takes its usual
        number of landmarks or features, or as many as fit, at least 64; a value is taken as it is.
        The result says the choice and the reason.
    null : str or a value of a null, optional
        A name, a text with options as "shifts:100000", or a value with options.
        "auto" takes a null that is exact for exchangeable rows: `Shifts` for two variables, a
        `Chain` for more, and `Permutation` if an estimator of three variables is named or has no
        shifts. "block-hsic" has no exact null and takes `Normal`. The other nulls are
        approximations, which warn if the data do not suit them. The result says the null and the
        reason. If an estimator does not support a null, the error lists those that it supports;
        `dhsic.register` adds nulls, estimators and kernels by name.
    n_resamples : int, optional
        The least number of replicates: 1,000 shifts, or 250 permutations that are asked for by
        name, where not given. Leave it out if `null` is a value, which has its own number, or has
        no replicates: "gamma", "spectral", "normal", "chi-square", "martingale".
    rng : int, SeedSequence, BitGenerator, Generator or None, optional
        Seed. The same seed gives the same draws whatever the chunks, workers or retries.
    names : sequence of str, optional
        Names of the variables; where not given those that the data have, or x1, x2, ...
    data : data frame, Dataset, dict or zarr group, optional
        The table whose columns the variables name: "x", or ["a", "b"] for columns that make one
        variable. All of its columns where no variable is given.
    missing : {"refuse", "drop", "pairwise"}, optional
        Treatment of rows with a missing value: raise an error, drop the rows and count them in the
        result, or compare two variables by the rows in which neither misses a value. With
        "pairwise" the feature of a row with a gap is the mean feature of up to 256 other rows,
        which is nearly 0 after centring. The kernel stays positive definite. The null stays exact
        for the hypothesis that the values and the gaps of a variable are together independent of
        the other variables. The test hardly finds gaps that depend on another variable. Estimates
        shrink by about the squared share of complete rows. Stored data are read once more to count
        the gaps.
    strata : array-like or str, optional
        A label for every row, of one column or several, or names of columns of `data`. Rows change
        places within their stratum alone: the test is one of independence given the stratum, exact
        at every n if the rows of a stratum are exchangeable. Numbers are standardised within their
        stratum, since differences between strata would hide dependence within them; strata of two
        rows share one standard deviation. Categories and booleans stay as they are.
    groups : array-like or str, optional
        A label for every row: rows of a group belong together, as songs of an artist, and may
        depend on each other in any way. Whole groups change places with groups of the same size,
        within `strata` if these are given, row by row in the order of storage: exact if such groups
        are exchangeable. A group of a unique size stays in place; if nine rows in ten would stay,
        the test is refused.
    order : "time" or TimeOrder, optional
        Rows as they are stored, or those of every group, are a series in the order of time: one
        variable is shifted around against the others, by multiples of some rows, and keeps its
        serial dependence. Asymptotic, see `TimeOrder`. Where none of the three is given, all rows
        are exchangeable draws.
    weights : array-like or str, optional
        A positive number for every row, in any unit: how much of a population it stands for, as
        one over the probability that it was drawn [2]_, or the ratio of the densities of the
        population and of the draws. The test is then one of independence of two variables in the
        population, from independent draws: all means are weighted. Asymptotic, by the limit law of
        the weighted products of features, one kernel a variable. Leave out weights that depend on
        one variable alone: the hypothesis is then the same without them, and the test exact. Counts
        of equal rows are no weights: repeat the rows.
    precision : {"float64", "float32"}, optional
        Precision of the tiles; sums are float64 always.
    client : distributed.Client, optional
        Where to run. Where not given, threads of this process, or for Dask arrays the current
        client, if there is one.
    threads : int, optional
        Threads of this process; as many as it has processors where not given.
    memory : int or str, optional
        Bytes that one process may use, as "2GiB".
    time : float or str, optional
        Seconds that the run may take, as 600 or "1h", if landmarks, features or kernels are left
        open. The run times a block of the data and takes the most whose predicted time is within
        the limit. This choice depends on the machine: the result names the number that repeats it,
        and a checkpoint keeps it. No limit by default.
    progress : bool or callable, optional
        Whether a bar shows how far the run is; where not given, one comes after two seconds in
        terminals and notebooks. Or what receives events of `dhsic.engine.events`.
    checkpoint : str, optional
        Path or URL of a folder where parts of the passes are kept as they finish. A run that was
        cut short goes on from there when it is called again with the same arguments, and returns
        the same result; where an argument or the data differ, it says which. It is removed when
        the run is done; with ``dask.config.set({"dhsic.keep-checkpoints": True})`` it stays, and
        the same call returns at once. It holds rows of the data, and on a disk is for its user
        alone. Every worker must see the folder. Data in memory are known by all their rows, Dask
        arrays, too, which are computed once more for it; stored arrays by the sizes of their chunks
        and the times when they were written, or their ETags: copy them with their times. Where a
        store lists nothing, as https, some rows stand for all.

    Returns
    -------
    IndependenceTestResult

    Raises
    ------
    InvalidArgumentError
        An option cannot be used.
    DataError
        The data cannot be tested: NaN, dates, unequal lengths, a constant variable, a broken chunk,
        chunks that are absent and not allowed to be, see `stored_array`; or stored data changed
        during the run.
    MemoryBudgetError
        The plan needs more memory than allowed. The message tells the largest numbers that fit.

    References
    ----------
    .. [1] F. Kalinke, Z. Szabo. Nystrom M-Hilbert-Schmidt independence criterion. UAI 2023.
    .. [2] D. Horvitz, D. Thompson. A generalization of sampling without replacement from a finite
       universe. JASA 47, 1952.

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
    run = RunOptions(rng, precision, client, threads, memory, time, progress, checkpoint)
    rows = RowLabels(strata, groups, order, weights=weights)
    session = run.open(variables, names, data, missing, rows, pairwise=True)
    method = choose_method(session, kernels, estimator, null, n_resamples)
    session.begin(method.plan(session))
    session.resume(computes="independence test", **method.described)
    neighbours = Neighbours(session)
    result = IndependenceTestResult(**tested_fields(session, method))
    neighbours.warn()
    return result


@named_arguments
@shows_progress
def hsic(
    *variables: Any,
    kernels: Kernels | None = None,
    estimator: EstimatorName | Estimator = "auto",
    rng: RngLike = None,
    names: Sequence[str] | None = None,
    data: Any = None,
    missing: GapTreatment = "refuse",
    weights: Any = None,
    precision: Precision = "float64",
    client: Any = None,
    threads: int | None = None,
    memory: int | str = "2GiB",
    time: float | str | None = None,
    progress: Progress = None,
    checkpoint: str | None = None,
) -> DependenceEstimate:
    """Estimate the squared HSIC of two or more variables.

    Parameters
    ----------
    *variables : array-like, shapes (n,) or (n, d_m)
        As for `independence_test`, of two rows or more; "u-hsic" and other unbiased estimates need
        four, and "block-hsic" eight. The estimate is 0 where a variable is constant.
    kernels : str, Kernel or a sequence of them, optional
        One for all variables, or one a variable; "gaussian" where the estimator does not say
        otherwise.
    estimator, rng, names, data, missing
        As for `independence_test`; of two variables "auto" is unbiased: "u-hsic" or features.
    weights : array-like or str, optional
        As for `independence_test`, of two variables: the estimate is of the population, by features
        and with weighted means, "v-hsic" where weights are equal and all rows are landmarks. It is
        not unbiased.
    precision, client, threads, memory, time, progress, checkpoint
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
    run = RunOptions(rng, precision, client, threads, memory, time, progress, checkpoint)
    rows = RowLabels(weights=weights)
    # Of a constant it is 0, where a test could reject nothing.
    options: Any = {"pairwise": True, "takes_constants": True, "fewest": 2}
    what = "an estimate of dependence"
    session = run.open(variables, names, data, missing, rows, what=what, **options)
    chosen, choice, fitting = choose_measure(session, kernels, estimator)
    session.begin(plan_measure(session, chosen, fitting))
    session.resume(computes="estimate", estimator=chosen, kernels=fitting)
    estimate = chosen.estimate(session, fitting)
    return DependenceEstimate(**result_fields(session, chosen, choice, estimate))


@named_arguments
@shows_progress
def witness_functions(
    x: Any,
    y: Any,
    *,
    kernels: Kernels | None = None,
    estimator: EstimatorName | Estimator = "coco",
    rng: RngLike = None,
    names: Sequence[str] | None = None,
    data: Any = None,
    missing: Missing = "refuse",
    precision: Precision = "float64",
    client: Any = None,
    threads: int | None = None,
    memory: int | str = "2GiB",
    time: float | str | None = None,
    progress: Progress = None,
    checkpoint: str | None = None,
) -> WitnessFunctions:
    """Find the smooth functions of two variables whose covariance is largest.

    They show where the dependence lies that `COCO` measures.

    Parameters
    ----------
    x, y : array-like, shapes (n,) or (n, d)
        As for `independence_test`.
    kernels : str, Kernel or a sequence of them, optional
        As for `hsic`.
    estimator : str or COCO, optional
        "coco", or a value with its options.
    rng, names, data, missing, precision, client, threads, memory, time, progress, checkpoint
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
    run = RunOptions(rng, precision, client, threads, memory, time, progress, checkpoint)
    session = run.open((x, y), names, data, missing)
    chosen, reason, fitting = choose_measure(session, kernels, estimator)
    if not isinstance(chosen, COCO):
        msg = f"witness functions need estimator 'coco' or a COCO value, got {estimator!r}"
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
    precision, client, threads, memory, time
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
