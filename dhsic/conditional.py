"""Test conditional independence, by residuals of kernel features or within strata.

x and y have few features, and the given variables z have many. *Features of z for one variable* are
functions of the first predictions of that variable. The features of x are many functions of one
quantity, such as a sum of functions of z and noise. The predictions of the two features that vary
most contain the dependence of this quantity on z, with few degrees of freedom; functions of these
two predictions are regressors of all features. Features of x less its own prediction depend on z
also through that prediction and its errors, so the prediction is added to the two. Predictions of x
are used for x alone, so that given z and under the null hypothesis the residuals of x and of y
remain independent.

The predictions of features of a row come from regressions on the rows of the other folds ([1]
section 3). Regressors that depend on the rows absorb more of the noise of these rows than leverages
account for, since leverages count only functions that are linear in fixed regressors ([2] section
2). The prediction of the variable itself is fitted to all rows; its features are centred by this
prediction. The functions of predictions have their linear parts subtracted. The features of z
contain the predictions from all rows, which differ from those from other folds by a sum over the
noise of the fold's own rows; with both, the second regression would predict this noise.

References
----------
.. [1] V. Chernozhukov, D. Chetverikov, M. Demirer, E. Duflo, C. Hansen, W. Newey, J. Robins.
   Double/debiased machine learning for treatment and structural parameters. Econometrics Journal
   21, 2018.
.. [2] J. Ye. On measuring and correcting the effects of data mining and model selection. JASA 93,
   1998.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, reduce
from math import isqrt
from typing import Any, ClassVar, Literal, NamedTuple, Self, Unpack, get_args

import numpy as np
import scipy
from numpy.typing import DTypeLike, NDArray

from dhsic._arguments import (
    Kernels,
    RunOptions,
    UntimedArguments,
    check_kernel,
    choose_method,
    read_given,
    read_single_kernels,
    result_fields,
    takes_run,
    tested_fields,
)
from dhsic._random import generator
from dhsic._validation import check_choice
from dhsic.engine.passes import ValueKind, kinds_of
from dhsic.engine.plan import DriverStep, PassPlan, Plan, plans
from dhsic.engine.runtime import graphs_on
from dhsic.engine.session import Session
from dhsic.engine.units import parse_bytes
from dhsic.errors import ApproximateNullWarning, UnexplainedWarning
from dhsic.estimators import Estimate
from dhsic.estimators.base import BANDWIDTH_ROWS, fitting_samples, plan_of
from dhsic.features import ColumnFeatures, KernelFeatures, LandmarksByColumn, rows_at_quantiles
from dhsic.io.variables import Missing, held_sources
from dhsic.kernels import Columns, Gaussian, Kernel, OnColumns, by_column, by_type
from dhsic.kernels.wrap import stretched
from dhsic.linalg import pivoted_cholesky, row_products, solve_lower
from dhsic.nulls import ChiSquareMixture, pvalue
from dhsic.regression import Folds, Ridges, SecondMoments, SecondMomentsPass
from dhsic.results import AS_ASKED, FeatureSummary, IndependenceTestResult
from dhsic.statistics.neighbours import Neighbours
from dhsic.statistics.orbit import check_codes, codes_of, joined_codes, moves_of

Vector = NDArray[np.float64]
Indices = NDArray[np.intp]
ConditionalMethod = Literal["auto", "kernel", "strata"]

_FEWEST_ROWS = 20
_WIDTH = 1.75  # of the median distance, where no kernel is given
_SHOWN = 1000  # draws from the limit, to look at
_LIMIT = "the limit law, by the second moments of the products of residuals"
FOLDS = 2  # five cost a half more time, and neither level nor power differed
_REMEDY = "take fewer given columns or fewer threads"
_SOLVING = "solve", "solve again", "spectrum"  # after each pass
_FEWEST_OF_LIMIT = 50
# With 10 to 25 the test is cautious: it rejected 2 of 233 true nulls of 100 and 200 rows at 5 %.
_DECIDING_ROWS = 10
_LEFT_OF_VARIANCE = 1e-3  # of the variance of the features
# The square root of n times the geometric mean of what x and y gain. Of 300 rows it was 3.2 to 7.1
# for sums of functions of 20 columns, of which half were rejected, and less than 2 for 113 of 114
# data sets that regressions follow (the study `level`, benchmarks/shared/conditional_data.py).
_MOST_GAIN = 2.0
_EXCESS = 0.1  # of the error of residuals, for predictions of less bias
_REGRESSION_ROWS = 200_000
_REGRESSION_ROOTS = 200
_LANDMARKS = 128
_QUANTILES = 48
MOST_DIRECTIONS = 6  # of x and of y
_MOST_WEIGHTS = 3  # besides the constant
_SHARE_OF_VARIANCE = 0.999  # of the variance of a kernel
_TOLERANCE = 1e-8
_WIDTHS = (1.0, 0.3)  # of the median heuristic
_SLOPE = 2.0  # deviation of a column where that of a kernel is less than 1
_OF_A_COLUMN = (4, 24)
_OF_ALL_COLUMNS = 120
_MOST_PRODUCTS = 210  # of 20 columns
_FAR = 6.0  # deviations of a column, beyond which products hardly grow
_MOST_COLUMNS = 64
_PREDICTIONS = 2  # of features, and as many of columns
_OF_FEATURES = 2.0  # they gain less than columns do
_LEVERED_ROWS = 50  # for each regressor


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ConditionalIndependenceTestResult(IndependenceTestResult):
    """The outcome of a test that two variables are independent given others.

    All fields are as in `IndependenceTestResult`, with two variables, except these.

    Parameters
    ----------
    estimate : float
        With method "kernel" the kernel partial correlation coefficient of x and y given z, with y
        less its prediction from z: from 0 for conditional independence to 1 if y is a function of x
        and z. With "strata" the squared HSIC of the variables within strata.
    given : tuple of str
        Names of the given variables z.
    method : str
        "kernel" or "strata".
    method_reason : str
        Why this method was chosen.
    explained : tuple of float
        Shares of the variances of x and of y that z explains: by the prediction of numbers, and of
        the remainder by the regression of features. Empty with "strata".
    gained : tuple of float
        By how much the shares of x and of y that regressions on all rows explain exceed those that
        regressions on one half of the rows explain of the other half. The gain of numbers counts at
        most twice that of features, which extreme values do not dominate. If both gains are large,
        more rows would explain more (`dhsic.errors.UnexplainedWarning`). Empty with "strata".

    References
    ----------
    .. [1] Z. Huang, N. Deb, B. Sen. Kernel partial correlation coefficient: a measure of
       conditional dependence. JMLR 23, 2022.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> z, a, b = np.random.default_rng(0).standard_normal((3, 300))
    >>> result = dhsic.conditional_independence_test(z + a, z + b, given=z, rng=0)
    >>> result.pvalue > 0.05, result.n
    (True, 300)
    """

    hypothesis: ClassVar[str] = "conditional independence"
    question: ClassVar[str] = "Are {} conditionally independent?"

    given: tuple[str, ...] = ()
    method: str = ""
    method_reason: str = ""
    explained: tuple[float, ...] = ()
    gained: tuple[float, ...] = ()

    def summary(self) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads."""
        names = (one.name for one in self.variables)
        shares = [
            f"{100 * share:.3g} % of the variance of {name}"
            for name, share in zip(names, self.explained, strict=False)
        ]
        told = f", which explain {' and '.join(shares)}" if shares else ""
        first, *others = super().summary()
        return [
            first,
            ("given", ", ".join(self.given) + told),
            ("method", f"{self.method}: {self.method_reason}"),
            *others,
        ]

    def records(self) -> list[dict[str, Any]]:
        (row,) = super().records()
        method = f"{self.method}, {row['method']}"
        return [{**row, "given": ", ".join(self.given), "method": method}]


@partial(takes_run, taken=UntimedArguments)
def conditional_independence_test(
    x: Any,
    y: Any,
    given: Any,
    *,
    method: ConditionalMethod = "auto",
    kernels: Kernels | None = None,
    names: Sequence[str] | None = None,
    data: Any = None,
    missing: Missing = "refuse",
    **options: Unpack[UntimedArguments],
) -> ConditionalIndependenceTestResult:
    """Test whether two variables are independent given others.

    Method "kernel" regresses features of x and features of y on features of z, the given variables,
    and tests whether products of the residuals and functions of z have mean 0 ([1]_, [2]_).
    Features of a column of numbers are kernels of its residual from a prediction by z, so that they
    describe the noise and little of the mean; numbers whose values mostly repeat, and kernels
    without a length, are not changed. The features of z include functions of predictions of
    features. These are cross-fitted: for one half of the rows, drawn at random, they come from
    regressions on the other half [5]_. The test assumes nothing about how x and y depend on z or
    about the noise, whose spread and shape may follow z. The regressions must be able to fit the
    means of the features given z; no test keeps its level for all laws without such a condition
    [3]_. They are ridge regressions on kernel features, wide and narrow, of every column alone and
    of all columns together, and on products of two of up to 20 columns of numbers. Each feature of
    x and y takes the best of four sets of regressors by generalised cross-validation, and the
    smallest ridge whose error is within a tenth of the least, which loses a little power for less
    bias. With more than 200,000 rows the regressions are fitted to max(200,000, 200 sqrt(n)) rows,
    drawn at random. Leverages correct the residuals, and the p-value comes from the limit law of
    the statistic over all rows: an approximation, in three passes over the data. If all rows
    explain much more of x and of y than half of the rows do, an `UnexplainedWarning` says that the
    regressions miss a part of the dependence on z.

    Method "strata" is for z with few values: it calls `dhsic.independence_test` with `strata`,
    which permutes rows only within a stratum and is exact at every n.

    Parameters
    ----------
    x, y : array-like, shapes (n,) or (n, d)
        As for `dhsic.independence_test`.
    given : array-like, or a list or tuple of them
        The variables z, shapes (n,) or (n, d_j); with `data`, names of columns.
    method : {"auto", "kernel", "strata"}, optional
        "auto" takes "strata" if all given columns are categories or booleans, else "kernel".
    kernels : str, Kernel, or two of them, optional
        Kernels of x and y. The default is "delta" for categories, and for numbers "gaussian" with
        1.75 times its usual length, which finds more common spreads of the noise. Lengths that are
        not given follow the residuals from predictions. With "strata" as for
        `dhsic.independence_test`.
    names : sequence of str, optional
        Names of x, y and the given variables.
    data, missing
        As for `dhsic.independence_test`; with `data`, each name in a list `given` is a variable.
    rng, precision, client, threads, memory, progress, checkpoint
        As for `dhsic.independence_test`.

    Returns
    -------
    ConditionalIndependenceTestResult
        Its estimate is the kernel partial correlation coefficient [4]_.

    Raises
    ------
    InvalidArgumentError
        No variable is given, or an option cannot be used.
    DataError, MemoryBudgetError
        As for `dhsic.independence_test`; fewer than 20 rows.

    References
    ----------
    .. [1] K. Zhang, J. Peters, D. Janzing, B. Schoelkopf. Kernel-based conditional independence
       test and application in causal discovery. UAI 2011.
    .. [2] E. Strobl, K. Zhang, S. Visweswaran. Approximate kernel-based conditional independence
       tests for fast non-parametric causal discovery. Journal of Causal Inference 7, 2019.
    .. [3] R. Shah, J. Peters. The hardness of conditional independence testing and the
       generalised covariance measure. Annals of Statistics 48, 2020.
    .. [4] Z. Huang, N. Deb, B. Sen. Kernel partial correlation coefficient, a measure of
       conditional dependence. JMLR 23, 2022.
    .. [5] V. Chernozhukov, D. Chetverikov, M. Demirer, E. Duflo, C. Hansen, W. Newey, J. Robins.
       Double/debiased machine learning for treatment and structural parameters. Econometrics
       Journal 21, 2018.

    Examples
    --------
    The spread of the noise follows z, so residuals are dependent, although x and y are independent
    given z:

    >>> import numpy as np
    >>> import dhsic
    >>> z, e, f = np.random.default_rng(0).standard_normal((3, 300))
    >>> x, y = z + np.abs(z) * e, z + np.abs(z) * f
    >>> dhsic.independence_test(x, y, null="gamma", rng=0).pvalue < 0.01
    True
    >>> dhsic.conditional_independence_test(x, y, given=z, rng=0).pvalue > 0.05
    True
    >>> dhsic.conditional_independence_test(x, y + e, given=z, rng=0).pvalue < 0.01
    True
    """
    run = RunOptions(**options)
    check_choice("method", method, get_args(ConditionalMethod))
    variables, names = read_given(x, y, given, names, data)
    # Opened together, so that a row is left out of all where one of them misses a value.
    what = "a conditional test"
    session = run.open(variables, names, data, missing, what=what, fewest=_FEWEST_ROWS)
    conditions = session.sources[2:]
    # One column of numbers is enough: few rows share a value, and strata would be of one row
    # each.
    reason = AS_ASKED
    if method == "auto":
        numbers = any("number" in kinds_of(source) for source in conditions)
        method = "kernel" if numbers else "strata"
        exact = "categories are given, within which a test is exact"
        reason = "numbers are given" if numbers else exact
    fields: dict[str, Any] = {"given": tuple(source.name for source in conditions)}
    fields |= {"method": method, "method_reason": reason}
    if method == "kernel":
        return ConditionalIndependenceTestResult(**fields, **_by_kernels(session, kernels))
    session = _within_strata(run, session)
    chosen = choose_method(session, kernels, "auto", "auto", None)
    session.begin(chosen.plan(session))
    session.resume(computes="conditional test", method="strata", **chosen.described)
    return ConditionalIndependenceTestResult(**fields, **tested_fields(session, chosen, ()))


@plans(conditional_independence_test)
def plan_conditional() -> None:
    """Plan `conditional_independence_test`: its steps and their memory; runs nothing.

    Parameters
    ----------
    x, y, given, method, kernels, names, data, missing
        As for `conditional_independence_test`.
    precision, client, threads, memory
        As for `conditional_independence_test`.

    Returns
    -------
    Plan

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> plan = dhsic.plan_conditional(
    ...     np.zeros(9_000), np.zeros(9_000), given=np.zeros((9_000, 5)), threads=1
    ... )
    >>> [step.name for step in plan.passes]
    ['first regressions', 'regressions', 'products of residuals']
    """


def _within_strata(run: RunOptions, session: Session) -> Session:
    """The session over x and y, whose rows move within strata of all given variables."""
    conditions, memory = session.sources[2:], parse_bytes(run.memory)
    with graphs_on(run.client, run.threads):
        check_codes(conditions, memory)
        # A stratum is a combination of values of all given variables: found by and by, so that no
        # more than two of them are in memory.
        codes = reduce(joined_codes, (codes_of(z, f"given {z.name!r}") for z in conditions))
        # Rows move within strata between any places, so that x and y are held in memory.
        held = held_sources(session.sources[:2], memory, codes)
    over = run.over(held, session.dropped)
    return replace(over, moves=moves_of(over.n, codes, None, None, over.seed))


def _by_kernels(session: Session, given: Any) -> dict[str, Any]:
    """Run the test on residuals, and return the fields that its result has."""
    asked, kernels = read_single_kernels(given, 2, "a conditional test"), list[Kernel]()
    for one, source in zip(asked, session.sources, strict=False):
        kinds = kinds_of(source)
        if one is not None:
            check_kernel(one, kinds, f"variable {source.name!r}")
        # Factors concern lengths that the test fits; a kernel that was given keeps its own.
        kernels.append(one or stretched(joint_kernel(kinds), _WIDTH))
    test = KernelResiduals(tuple(kernels))
    session.begin(test.plan(session))
    session.resume(computes="conditional test", method="kernel", kernels=test.kernels)
    neighbours = Neighbours(session, (), tested=2)
    found = test.run(session)
    neighbours.warn()
    warned = _warn_of_limits(found, session.names, session.n)
    features = FeatureSummary("kernel", found.design.sizes)
    fitted = tuple(side.features.map.kernel for side in found.design.sides)
    told = None, features, "kernel partial correlation"
    estimate = Estimate(found.correlation, fitted, *told)
    return {
        "explained": found.explained,
        "gained": found.gained,
        "statistic": found.statistic,
        "pvalue": pvalue(found.statistic, found.law, session.dtype),
        "pvalue_error": None,
        "null_distribution": found.law.draws(generator(session.seed, "simulation"), _SHOWN),
        "null": "spectral",
        # The limit law is by Strobl et al. (2019); the reason tells where it may be far.
        "null_reason": "; ".join(filter(None, (_LIMIT, warned))),
        **result_fields(session, test, AS_ASKED, estimate),
    }


def predicted_columns(
    session: Session, kernels: Sequence[Kernel], samples: Sequence[Vector | None] = (None, None)
) -> list[tuple[int, ...]]:
    """The columns of x and of y that their kernels see about their predictions by what is given.

    They are numbers whose distances have a length in the kernel, and most of whose values differ:
    what is left of few values, as of a flag or a count, tells of the predictions more than of
    the values. None of more than 64, whose products with each other would fill the memory. Without
    samples, of shapes (s, d), values count as different, which is the most that there can be.
    """
    found = []
    for kernel, source, sample in zip(kernels, session.sources, samples, strict=False):
        kinds = kinds_of(source)
        measured = sorted(kernel.measured(len(kinds))) if kernel.has_length else []
        numbers = [j for j in measured if kinds[j] == "number"]
        if sample is not None:
            numbers = [j for j in numbers if 2 * len(np.unique(sample[:, j])) > len(sample)]
        found.append(tuple(numbers) if len(numbers) <= _MOST_COLUMNS else ())
    return found


@dataclass(frozen=True)
class ResidualProducts:
    """Products of the residuals of x and of y, and of the weights, as a design of rows.

    With M the map from errors to residuals, of which 1 - h is the diagonal, a sum of products of
    residuals of independent errors of variance 1 has the variance |M|^2, which is the sum of 1 - h
    for a projection, and that of their squares has the expectation sum (1 - h)^2. So the squares
    are divided by 1 - h, of which x and y take a half each: where leverages count, the products
    stand here scaled for their law as well. Last come the squared norms of the products.

    Parameters
    ----------
    design : ConditionalDesign
        Features of rows.
    regressions : tuple of Ridges
        Those of the features of x and of y.
    n : int
        Rows of the data.
    """

    design: ConditionalDesign
    regressions: tuple[Ridges, Ridges]
    n: int

    @property
    def scaled(self) -> bool:
        """Whether they stand there scaled as well."""
        p = max(len(one.mean) for one in self.regressions)
        return levered(self.n, p) and self.regressions[0].rows == self.n

    def __call__(self, values: Sequence[NDArray[Any]], fold: int) -> Vector:
        """Products of rows of a fold side by side: m, m scaled ones, and a norm."""
        given, *own, phi, psi, weights = self.design.features(values, fold)
        given_x, given_y = (np.append(given, one, axis=1) for one in own)
        of_x, of_y = self.regressions
        x, y = of_x.residuals(given_x, phi), of_y.residuals(given_y, psi)
        parts = [row_products(row_products(x, weights), y)]
        norms = np.einsum("ij,ij->i", parts[0], parts[0])
        if self.scaled:
            # Of a product (1 - h)^(1/2) in all, and of its square 1 - h.
            x /= of_x.unlevered(given_x) ** 0.25
            y /= of_y.unlevered(given_y) ** 0.25
            parts.append(row_products(row_products(x, weights), y))
        return np.concatenate([*parts, norms[:, None]], axis=1)


def partial_correlation(design: ConditionalDesign, sums: SecondMoments, alone: Ridges) -> float:
    """The share of the variance of y that is left by z and explained by x, between 0 and 1.

    With the feature phi of y, Huang et al. [1] define

    rho^2 = E |E[phi | x, z] - E[phi | z]|^2 / E |phi - E[phi | z]|^2

    which is 0 if and only if y is independent of x given z, and 1 if y is a function of x and z. It
    equals 1 - E |phi - E[phi | x, z]|^2 / E |phi - E[phi | z]|^2, of which either expectation is
    estimated by the generalised cross-validation of a ridge regression: on the features of z, and
    on these and products of features of x with weights.

    Parameters
    ----------
    design : ConditionalDesign
        That of the second pass.
    sums : SecondMoments
        Its sums.
    alone : Ridges
        Regressions of y on what is given.

    Returns
    -------
    float
        Estimates below 0 are 0.

    References
    ----------
    .. [1] Z. Huang, N. Deb, B. Sen. Kernel partial correlation coefficient, a measure of
       conditional dependence. JMLR 23, 2022.
    """
    given, _, own_y, x, y = design.places
    regressors = np.concatenate([given, own_y, x])
    both = Ridges.fit(sums, regressors, y, left_out=design.left_out).least.sum()
    least = alone.least.sum()
    # Where nothing is left of y, nothing more can be explained.
    if least <= 0.0:
        return 0.0
    # Both errors are estimates, so that their quotient may lie outside.
    return float(np.clip(1.0 - both / least, 0.0, 1.0))


class FoundResiduals(NamedTuple):
    """What the passes found, with their design.

    Parameters
    ----------
    design : ConditionalDesign
        The features.
    statistic : float
        N times the squared norm of the mean product of residuals.
    law : ChiSquareMixture
        Its limit, from the second moments of the products.
    deciding : float
        How many rows of equal norm would vary as much: few where a few rows decide.
    explained : tuple of float
        Shares of the variances of x and of y that predictions and regressions explain.
    gained : tuple of float
        How much more of x and of y is explained by all rows than by half of them.
    correlation : float
        The kernel partial correlation coefficient.
    """

    design: ConditionalDesign
    statistic: float
    law: ChiSquareMixture
    deciding: float
    explained: tuple[float, ...]
    gained: tuple[float, ...]
    correlation: float


@dataclass(frozen=True)
class KernelResiduals:
    """The test that residuals of features of x and of y given z are uncorrelated, at any weight.

    With phi the features of x, psi those of y and w the weights, functions of z with the constant
    among them, x and y are independent given z if and only if for rich enough features

    E[(phi - E[phi | z]) (x) (psi - E[psi | z]) (x) w(z)] = 0

    Columns of numbers stand in phi and psi less their predictions by z, which leaves the hypothesis
    as it is and lets the kernels see the noise apart from the mean. The expectations given z are
    ridge regressions on features of z. The statistic is n times the squared norm of the mean of
    these products of residuals. In the limit it is a mixture of chi-squares with the eigenvalues of
    their second moments as weights ([2]), which takes noise whose spread follows z as it is.

    Parameters
    ----------
    kernels : tuple of Kernel
        Those of x and of y, to be fitted.

    References
    ----------
    .. [1] R. Pogodin, A. Schrab, Y. Li, D. Sutherland, A. Gretton. Practical kernel tests of
       conditional independence. 2024.
    .. [2] E. Strobl, K. Zhang, S. Visweswaran. Approximate kernel-based conditional independence
       tests for fast non-parametric causal discovery. Journal of Causal Inference 7, 2019.
    """

    kernels: tuple[Kernel, ...]

    name: ClassVar[str] = "kernel-residuals"

    def plan(self, session: Session) -> Plan:
        """The steps that would run, with features of the largest size."""
        given, passes = self._passes(session)
        rows = 8 * min(session.n, BANDWIDTH_ROWS) * (3 * sum(session.dims) + given)
        fetch = 3 * rows + max(source.take_bytes for source in session.sources)
        steps: list[DriverStep | PassPlan] = [
            DriverStep("fetch landmarks", fetch, rows + passes[1].payload)
        ]
        for one, solving in zip(passes, _SOLVING, strict=True):
            square = 8 * one.size**2
            steps += [session.plan(one), DriverStep(solving, 12 * square, square)]
        return plan_of(session, steps, _REMEDY)

    def _passes(self, session: Session) -> tuple[int, list[SecondMomentsPass]]:
        """The most features of what is given, and the passes; a run draws rows for the designs."""
        n, kinds, every = session.n, _given_kinds(session), Folds(FOLDS, session.seed)
        numbers, d = kinds.count("number"), len(kinds)
        products = numbers * (numbers + 1) // 2 if d > 1 else 0
        given = numbers + products * (products <= _MOST_PRODUCTS) + _most_projections(d)
        predicted = predicted_columns(session, self.kernels)
        predictions = [_PREDICTIONS + min(len(at), _PREDICTIONS) for at in predicted]
        own = [_most_projections(count) for count in predictions]
        t, weights = MOST_DIRECTIONS, 1 + _MOST_WEIGHTS
        # Besides what is given: x, y and their columns that are predicted; then functions of the
        # predictions of either, x at weights and y; then products of residuals at all weights.
        first = given + 2 * t + sum(map(len, predicted))
        second = given + sum(own) + t * (1 + weights)
        p, ways, m = given + max(own), 4 if d > 1 else 1, t**2 * weights
        # Kernels at landmarks of one variable at a time, with the tiles of their work.
        widest, columns = max(_LANDMARKS, d * _landmarks_of_a_column(d)), sum(session.dims)
        row = 8 * (5 * widest + 3 * (columns + d) + 4 * t)
        payload = 16 * given**2 + 8 * 3 * _LANDMARKS * (t + columns + 2 * d)
        # All rows up to 200,000, then 200 sqrt(n). Errors of predictions of x and of y, fitted to m
        # rows with df degrees of freedom, have products whose mean over n rows has the variance
        # df / m^2, to 1 / n of the noise: 1.3 % where df is 500. Errors that more rows do not
        # lessen, of functions that the features cannot follow, are the same.
        fitted = min(n, max(_REGRESSION_ROWS, _REGRESSION_ROOTS * isqrt(n)))
        some, beside = replace(every, share=fitted / n), row + 8 * (2 * given + first)
        one = SecondMomentsPass(first, payload, beside, some, "first regressions", by_fold=True)
        payload += sum(
            8 * (3 * given * k + 2 * size**2) for k, size in zip(predictions, own, strict=True)
        )
        row += 8 * (3 * given + 3 * sum(own) + 2 * second)
        two = SecondMomentsPass(second, payload, row, some)
        # Every regression is the best of some, of which each has its vectors.
        payload += 2 * 8 * (ways * p * (p + t) + p * t)
        size, row = m * (1 + levered(n, p)) + 1, row + 8 * (3 * m + (2 + ways) * p)
        last = SecondMomentsPass(size, payload, row, every, "products of residuals")
        return given, [one, two, last]

    def run(self, session: Session) -> FoundResiduals:
        """All passes, over x, y and the given variables."""
        n, (_, (first, second, third)) = session.n, self._passes(session)
        # The first pass predicts columns of numbers, whose residuals stand in phi and psi of the
        # second.
        session.step("fetch landmarks")
        both, of_pairs, z = _draw(session, self.kernels)
        fitted = [kernel.fit(x) for kernel, x in zip(self.kernels, both, strict=True)]
        at, dtype = predicted_columns(session, fitted, both), session.dtype
        sides = [TestedFeatures.of(*one, dtype) for one in zip(fitted, both, at, strict=True)]
        kinds = _given_kinds(session)
        weights = Projection.principal(joint_kernel(kinds).fit(z), z, _MOST_WEIGHTS, dtype)
        regressors = *_linear(z, kinds, dtype), *projections(z, kinds, dtype)
        design = ConditionalDesign(tuple(sides), regressors, weights)
        by_fold = session.reduce(replace(first, design=design))
        session.step("solve")
        fits = design.first_fits(by_fold)
        given = design.of_given(z)
        sides = [
            side.about(fit, kernel, x, design.of_given(its_z), given, dtype)
            for side, fit, kernel, x, its_z in zip(
                sides, fits, self.kernels, both, of_pairs, strict=True
            )
        ]
        design = replace(design, sides=tuple(sides))
        sums = session.reduce(replace(second, design=design)).whole()
        session.step("solve again")
        given_at, own_x, own_y, x_at, y_at = design.places
        # With the constant, which is the first weight, products are the features of x themselves.
        asked = (own_x, x_at[:: 1 + design.weights.size]), (own_y, y_at)
        x, y = (
            Ridges.fit(sums, np.append(given_at, own), targets, _EXCESS, design.left_out)
            for own, targets in asked
        )
        explained = [
            # Unexplained is what the first leaves, times what the second leaves of that.
            1.0 - (1.0 - fit.explained * _share(side.at, sample)) * (1.0 - ridges.explained())
            for fit, side, sample, ridges in zip(fits, design.sides, both, (x, y), strict=True)
        ]
        correlation = partial_correlation(design, sums, y)
        # Products of residuals need the regressions, and so a pass of their own: E[phi | z] first.
        residuals = ResidualProducts(design, (x, y), n)
        _, totals, products = session.reduce(replace(third, design=residuals)).whole()
        session.step("spectrum")
        m = len(x_at) * len(y_at)
        squares, fourths = totals[-1], products[-1, -1]
        return FoundResiduals(
            design,
            float(totals[:m] @ totals[:m]) / n,
            # Of the last m, which are scaled for their law where leverages count.
            ChiSquareMixture.of_covariance(products[-1 - m : -1, -1 - m : -1] / n),
            float(squares**2 / fourths) if fourths > 0.0 else 0.0,
            tuple(explained),
            tuple(fit.gained for fit in fits),
            correlation,
        )


def _given_kinds(session: Session) -> tuple[ValueKind, ...]:
    """Kinds of all given columns."""
    return tuple(kind for source in session.sources[2:] for kind in kinds_of(source))


def _share(at: Sequence[int], sample: Vector) -> float:
    """The share of the columns that vary in rows (s, d) which these are."""
    return len(at) / max(int(np.count_nonzero(np.ptp(sample, axis=0))), 1)


def _draw(session: Session, kernels: Sequence[Kernel]) -> tuple[list[Vector], list[Vector], Vector]:
    """Drawn rows of x and of y; all given columns at either; and these at rows drawn for them.

    One draw for all would let the features know of the pairing.
    """
    s = min(session.n, BANDWIDTH_ROWS)
    generators = [generator(session.seed, "landmarks", number) for number in range(3)]
    draws = [one.choice(session.n, size=s, replace=False) for one in generators]
    given = range(2, len(session.sources))
    # The given variables share their rows, and are taken at those of x and of y as well.
    every_z = np.concatenate([draws[2], *draws[:2]])
    taken = session.take([*draws[:2], *(every_z for _ in given)])
    of_pairs = [np.concatenate([one[k : k + s] for one in taken[2:]], axis=1) for k in (s, 2 * s)]
    taken[2:] = [one[:s] for one in taken[2:]]
    columns = [by_column(kinds_of(session.sources[m]), Columns(Gaussian())) for m in given]
    numbered = [(kernel, m) for m, kernel in enumerate((*kernels, *columns))]
    x, y, *others = fitting_samples(session, numbered, taken)
    return [x, y], of_pairs, np.concatenate(others, axis=1)


def _warn_of_limits(found: FoundResiduals, names: Sequence[str], n: int) -> str:
    """Warn where the limit law or the regressions may mislead, and say why.

    Parameters
    ----------
    found : FoundResiduals
        Those of the run.
    names : sequence of str
        Names of the variables.
    n : int
        Rows of the data.

    Returns
    -------
    str
        For the result; empty where nothing is amiss.
    """
    told = []
    if n < _FEWEST_OF_LIMIT:
        told.append(f"n = {n} is less than {_FEWEST_OF_LIMIT}: the limit law may be inaccurate")
    elif found.deciding < _DECIDING_ROWS:
        told.append(
            f"about {found.deciding:.2g} of {n:,} rows decide, so that the limit law may be "
            "inaccurate: take ranks, or leave out rare values"
        )
    for name, share in zip(names, found.explained, strict=False):
        if 1.0 - share < _LEFT_OF_VARIANCE:
            told.append(
                f"{name} is nearly a function of the given variables, so that errors of the "
                "regression may appear as dependence"
            )
    text = "; ".join(told)
    if text:
        warnings.warn(f"conditional test: {text}", ApproximateNullWarning, stacklevel=6)
    gained_x, gained_y = found.gained
    if (n * gained_x * gained_y) ** 0.5 <= _MOST_GAIN:
        return text
    x, y = names[:2]
    unexplained = (
        f"the regressions miss a part of the dependence of {x} and {y} on the given variables: all "
        f"rows explain {100 * gained_x:.2g} and {100 * gained_y:.2g} % more of them than half of "
        "the rows. The missed parts may appear as dependence, so do not rely on a small p-value; "
        "take more rows or fewer given columns"
    )
    warnings.warn(f"conditional test: {unexplained}", UnexplainedWarning, stacklevel=6)
    return "; ".join(filter(None, (text, unexplained)))


def joint_kernel(kinds: Sequence[str]) -> Kernel:
    """The kernel of all columns of some kinds at once, each in units of its deviation.

    As they are, a column of large numbers would hide the others: distances would be its own.
    """
    kernel = by_type(kinds, Gaussian())
    return kernel if len(kinds) == 1 else OnColumns(kernel, tuple(range(len(kinds))), scaled=True)


def levered(n: int, p: int) -> bool:
    """Whether leverages count: beyond 50 rows a regressor they have a mean of at most 1/50."""
    return n <= _LEVERED_ROWS * p


def _most_projections(d: int) -> int:
    """The most that `projections` finds of d columns."""
    return len(_WIDTHS) * d * _landmarks_of_a_column(d) + (_LANDMARKS if d > 1 else 0)


def _landmarks_of_a_column(d: int) -> int:
    return min(max(_OF_ALL_COLUMNS // d, _OF_A_COLUMN[0]), _OF_A_COLUMN[1])


@dataclass(frozen=True)
class ColumnProducts:
    """Products of two columns of numbers, squares among them, which far values do not rule.

    Parameters
    ----------
    columns : ColumnFeatures
        Columns in units of their deviations.
    left, right : ndarray of int
        Numbers of the two columns of every product.
    """

    columns: ColumnFeatures
    left: Indices
    right: Indices

    def __call__(self, x: NDArray[Any]) -> NDArray[Any]:
        """Map rows (b, d) to products (b, D)."""
        units = self.columns(x)
        units /= np.sqrt(1.0 + np.square(units / _FAR))
        return units[:, self.left] * units[:, self.right]


@dataclass(frozen=True)
class Projection:
    """Linear functions of features, about their mean in a sample.

    Parameters
    ----------
    map : callable
        D numbers of rows, as a kernel at landmarks.
    centre : ndarray, shape (D,)
        Subtracted.
    axes : ndarray, shape (D, r)
        A column times the centred kernel is a function.
    """

    map: Any
    centre: Vector
    axes: Vector

    @classmethod
    def principal(cls, kernel: Kernel, sample: Vector, most: int, dtype: DTypeLike) -> Self:
        """The directions of a kernel that vary most in a sample, at most so many.

        Parameters
        ----------
        kernel : Kernel
            Fitted.
        sample : ndarray, shape (s, d)
            Rows, of which the first are the landmarks; of a single number quantiles are.
        most : int
            Directions; fewer where they hold 99.9 % of the variance.
        dtype : dtype
            Precision of the kernel.

        Returns
        -------
        Projection
            Uncorrelated in the sample, with the variances of the directions.
        """
        one = sample.shape[1] == 1 and bool(kernel.measured(1))
        rows = rows_at_quantiles(sample[:, 0], _QUANTILES) if one else slice(_LANDMARKS)
        landmarks = sample[rows]
        features, factor = _at_landmarks(kernel, landmarks, dtype)
        values = np.asarray(features(sample), np.float64)
        centre = values.mean(axis=0)
        # L^-1 k about its mean, whose covariance has the eigenvalues of the kernel.
        whitened = solve_lower(factor, (values - centre).T)
        variances, vectors = scipy.linalg.eigh(whitened @ whitened.T / len(sample))
        # `eigh` sorts them ascending: the last ones lead.
        shares = np.cumsum(variances[::-1]) / variances.sum()
        count = min(most, int(np.searchsorted(shares, _SHARE_OF_VARIANCE)) + 1, len(shares))
        leading = vectors[:, ::-1][:, :count]
        return cls(features, centre, solve_lower(factor, leading, transposed=True))

    @classmethod
    def about(cls, features: Any, axes: Vector, sample: Vector) -> Self:
        """Linear functions of features about their mean in a sample."""
        return cls(features, features(sample).mean(axis=0, dtype=np.float64), axes)

    @property
    def size(self) -> int:
        """Number of functions, r."""
        return int(self.axes.shape[1])

    def __call__(self, x: NDArray[Any]) -> Vector:
        """The functions of rows (b, d), shape (b, r)."""
        values: Vector = np.subtract(self.map(x), self.centre, dtype=np.float64) @ self.axes
        return values


def _at_landmarks(
    kernel: Kernel, landmarks: Vector, dtype: DTypeLike
) -> tuple[KernelFeatures, Vector]:
    """A kernel at those landmarks that span the others, and the factor of their Gram matrix."""
    kept = pivoted_cholesky(kernel(landmarks), _TOLERANCE).in_order()
    return KernelFeatures.at(landmarks[kept.kept], kernel, dtype), kept.factor


def projections(sample: Vector, kinds: Sequence[str], dtype: DTypeLike) -> tuple[Projection, ...]:
    """Nystrom features of every column by itself, wide and narrow, and of several together.

    Parameters
    ----------
    sample : ndarray, shape (s, d)
        Rows, of which the first are landmarks.
    kinds : sequence of str
        Kinds of the columns.
    dtype : dtype
        Precision of the kernels.
    """
    d = len(kinds)
    single = by_column(kinds, Columns(Gaussian())).fit(sample)
    widths = [single.widened(one) for one in _WIDTHS] if single.has_length else [single]
    options = sample, _landmarks_of_a_column(d), _TOLERANCE, dtype
    found: list[tuple[Any, Vector]] = [LandmarksByColumn.of(one, *options) for one in widths]
    if d > 1:
        found.append(_at_landmarks(joint_kernel(kinds).fit(sample), sample[:_LANDMARKS], dtype))
    # Nystrom features L^-1 k.
    inverses = [solve_lower(one, np.eye(len(one)), transposed=True) for _, one in found]
    pairs = zip(found, inverses, strict=True)
    return tuple(Projection.about(features, axes, sample) for (features, _), axes in pairs)


def _linear(sample: Vector, kinds: Sequence[str], dtype: DTypeLike) -> list[Projection]:
    """The columns of numbers, in units of their deviations, and products; none without any."""
    numbers = [j for j, kind in enumerate(kinds) if kind == "number"]
    if not numbers:
        return []
    columns = ColumnFeatures.of(sample, dtype)
    axes = np.eye(len(kinds))[:, numbers] * (_SLOPE / len(kinds) ** 0.5)
    found = [Projection.about(columns, axes, sample)]
    left, right = (np.array(numbers)[one] for one in np.triu_indices(len(numbers)))
    if len(kinds) > 1 and len(left) <= _MOST_PRODUCTS:
        axes = np.eye(len(left)) / len(left) ** 0.5
        found.append(Projection.about(ColumnProducts(columns, left, right), axes, sample))
    return found


class FirstFits(NamedTuple):
    """First regressions of one variable on features (b, p) of what is given.

    Parameters
    ----------
    mean : ndarray
        Mean of these features, shape (p,).
    columns : ndarray
        Slopes of its columns, in units of their deviations, shape (p, k).
    leading : ndarray
        Slopes of the features of it that vary most, at most two, shape (p, 2).
    crossed : tuple of ndarray
        The same by the rows outside of every fold.
    explained : float
        Share of the variance of its columns that this explains.
    gained : float
        How much more of it all rows explain than the rows of other folds do of a fold's.
    """

    mean: Vector
    columns: Vector
    leading: Vector
    crossed: tuple[Vector, ...]
    explained: float
    gained: float


@dataclass(frozen=True)
class Index:
    """Features of the predictions of the leading features and of the columns of one variable.

    Parameters
    ----------
    mean : ndarray, shape (p,)
        Mean of the features of what is given.
    slopes : ndarray, shape (FOLDS, p, k)
        Coefficients of the predictions of the rows of every fold, at most two of features, by the
        rows of other folds, and two of columns, which are the same in every fold.
    parts : tuple of Projection
        Features of the predictions; none where they are constant.
    linear : ndarray, shape (k, size)
        Linear parts of the features in the predictions, which are taken off.
    """

    mean: Vector
    slopes: Vector
    parts: tuple[Projection, ...]
    linear: Vector

    @classmethod
    def of(cls, fits: FirstFits, given: Vector, dtype: DTypeLike) -> Self:
        """From first regressions, with landmarks among rows (s, p) of what is given."""
        about = given - fits.mean
        own = _principal(about, fits.columns)
        spreads = [(about @ one).std(axis=0).max(initial=0.0) for one in (fits.leading, own)]
        if min(spreads) > 0.0:  # so that the kernel of all predictions sees both kinds alike
            own = own * (spreads[0] / spreads[1])
        predictions = about @ np.append(fits.leading, own, axis=1)
        # Predictions that are the same everywhere have no functions.
        varied = np.ptp(predictions, axis=0) > 0.0
        predictions = predictions[:, varied]
        kinds = ("number",) * predictions.shape[1]
        parts = projections(predictions, kinds, dtype) if kinds else ()
        slopes = np.array([np.append(one, own, axis=1) for one in fits.crossed])
        both = predictions, _joined(parts, predictions)
        linear = scipy.linalg.lstsq(*(one - one.mean(axis=0) for one in both))[0]
        return cls(fits.mean, slopes[:, :, varied], parts, linear)

    @property
    def size(self) -> int:
        """Number of features."""
        return sum(one.size for one in self.parts)

    def __call__(self, given: Vector, fold: int) -> Vector:
        """Features of the predictions from given features (b, p) of a fold, shape (b, size)."""
        values = (given - self.mean) @ self.slopes[fold]
        functions: Vector = _joined(self.parts, values) - values @ self.linear
        return functions


def _joined(parts: tuple[Projection, ...], predictions: Vector) -> Vector:
    """Features of predictions (b, k), side by side."""
    none = np.empty((len(predictions), 0))
    return np.concatenate([none, *(one(predictions) for one in parts)], axis=1)


def _principal(about: Vector, slopes: Vector) -> Vector:
    """The combinations of several predictions that vary most in rows (s, p), at most two."""
    if slopes.shape[1] <= _PREDICTIONS:
        return slopes
    predictions = about @ slopes
    _, vectors = scipy.linalg.eigh(predictions.T @ predictions)
    # `eigh` sorts them ascending.
    leading: Vector = slopes @ vectors[:, -_PREDICTIONS:]
    return leading


@dataclass(frozen=True)
class TestedFeatures:
    """Features of x or of y.

    Parameters
    ----------
    features : Projection
        Principal directions of its kernel.
    own : Projection or Index
        Its columns that the first pass predicts; regressors of it alone in the second.
    at : tuple of int
        Numbers of these columns; the others stay as they are.
    mean : ndarray, shape (p,)
        Mean of the features of what is given.
    slopes : ndarray, shape (p, k)
        Coefficients of the predictions of columns, about which its kernel sees it in the second
        pass; none in the first.
    """

    features: Projection
    own: Projection | Index
    at: tuple[int, ...]
    mean: Vector = field(default_factory=lambda: np.zeros(0))
    slopes: Vector = field(default_factory=lambda: np.zeros((0, 0)))

    @classmethod
    def of(cls, kernel: Kernel, sample: Vector, at: tuple[int, ...], dtype: DTypeLike) -> Self:
        """Those of rows (s, d) as they are, with columns in units of their deviations."""
        d = sample.shape[1]
        axes = np.equal.outer(np.arange(d), at).astype(np.float64)
        columns = Projection(ColumnFeatures.of(sample, dtype), np.zeros(d), axes)
        return cls(Projection.principal(kernel, sample, MOST_DIRECTIONS, dtype), columns, at)

    def centre(self, x: NDArray[Any], given: Vector) -> NDArray[Any]:
        """Rows (b, d) less their predictions from features (b, p) of what is given."""
        if not self.slopes.size:
            return x
        centred = x.astype(np.float64)
        centred[:, self.at] -= (given - self.mean) @ self.slopes
        return centred

    def about(
        self,
        fits: FirstFits,
        kernel: Kernel,
        sample: Vector,
        its_given: Vector,
        given: Vector,
        dtype: DTypeLike,
    ) -> Self:
        """Features about the predictions of its columns, with regressors of it alone.

        Parameters
        ----------
        fits : FirstFits
            Its own.
        kernel : Kernel
            Fitted here to what is left of the sample.
        sample, its_given : ndarray, shapes (s, d) and (s, p)
            Rows of it, with the features of what is given at them.
        given : ndarray, shape (s, p)
            Features of rows of what is given.
        dtype : dtype
            Precision of the kernels.
        """
        assert isinstance(self.own, Projection)
        slopes = fits.columns * self.own.map.scale[list(self.at)]
        side = replace(self, own=Index.of(fits, given, dtype), mean=fits.mean, slopes=slopes)
        left = side.centre(sample, its_given)
        options = left, MOST_DIRECTIONS, dtype
        return replace(side, features=Projection.principal(kernel.fit(left), *options))


@dataclass(frozen=True)
class ConditionalDesign:
    """Features of all variables of a conditional test, as a design.

    Parameters
    ----------
    sides : tuple of TestedFeatures
        Those of x and of y.
    given : tuple of Projection
        Features on which they are regressed: the columns, products of two, kernels of every column
        by itself, wide and narrow, and of all columns together where there are several.
    weights : Projection
        Principal directions of the kernel of all given columns.
    """

    sides: tuple[TestedFeatures, ...]
    given: tuple[Projection, ...]
    weights: Projection

    @property
    def second(self) -> bool:
        """Whether it is of the second pass, where features of x are taken at weights."""
        return isinstance(self.sides[0].own, Index)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Numbers of features of x, of y, and of what is given."""
        x, y = (side.features.size for side in self.sides)
        return x, y, sum(one.size for one in self.given)

    @cached_property
    def places(self) -> list[Indices]:
        """Numbers of the features of a row: of what is given, own ones of x and of y, of x, of y.

        Those of x are in the second pass its features times the weights.
        """
        x, y, p = self.sizes
        at_weights = x * (1 + self.weights.size if self.second else 1)
        counts = np.cumsum([p, *(side.own.size for side in self.sides), at_weights, y])
        return np.split(np.arange(counts[-1]), counts[:-1])

    @cached_property
    def left_out(self) -> tuple[Indices, ...]:
        """Features of what is given that each of several regressions does without.

        With many columns and few rows, kernels of all columns take the freedom that a sum of
        functions of each needs, and they follow products of two columns too slowly. So there are
        regressions on wide kernels of every column, on all kernels, and on products, with the wide
        kernels and without; one on everything where no columns stand together.
        """
        ends = np.cumsum([0, *(one.size for one in self.given)])
        every = [np.arange(*ends[k : k + 2]) for k in range(len(self.given))]
        maps = [one.map for one in self.given]
        products = [k for k, one in enumerate(maps) if isinstance(one, ColumnProducts)]
        wide, *finer = (
            k for k, one in enumerate(maps) if not isinstance(one, ColumnFeatures | ColumnProducts)
        )
        if not any(isinstance(one, KernelFeatures) for one in maps):
            return ()
        ways = [[*finer, *products], products, *([finer, [wide, *finer]] if products else [])]
        return tuple(
            np.concatenate([np.empty(0, np.intp), *(every[k] for k in one)]) for one in ways
        )

    def of_given(self, z: NDArray[Any]) -> Vector:
        """Features of rows (b, d_z) of all given columns, shape (b, p)."""
        return np.concatenate([one(z) for one in self.given], axis=1)

    def features(self, values: Sequence[NDArray[Any]], fold: int) -> list[Vector]:
        """Features of rows of a fold, of x, y and every given variable.

        Those of what is given; regressors of x alone and of y alone, in the first pass their
        columns; those of x and of y; the constant 1 and functions of what is given as weights.
        """
        pairs, z = list(zip(self.sides, values, strict=False)), np.concatenate(values[2:], axis=1)
        given = self.of_given(z)
        own = [
            side.own(given, fold) if isinstance(side.own, Index) else side.own(x)
            for side, x in pairs
        ]
        both = (side.features(side.centre(x, given)) for side, x in pairs)
        # The constant comes first, so that the plain products are among those with weights.
        return [given, *own, *both, np.insert(self.weights(z), 0, 1.0, axis=1)]

    def __call__(self, values: Sequence[NDArray[Any]], fold: int) -> Vector:
        """Features of rows of a fold side by side, see `places`."""
        *given, x, y, weights = self.features(values, fold)
        x = row_products(x, weights) if self.second else x
        return np.concatenate([*given, x, y], axis=1)

    def first_fits(self, sums: SecondMoments) -> list[FirstFits]:
        """Regressions of x and of y, by the sums of the first pass."""
        given, own_x, own_y, x, y = self.places
        targets, whole = np.concatenate([own_x, own_y, x, y]), sums.whole()
        ridges = Ridges.fit(whole, given, targets, left_out=self.left_out)
        errors, folds = np.zeros(len(targets)), []
        for others, held in sums.splits():
            fold = Ridges.fit(others, given, targets, left_out=self.left_out, held=held)
            errors += held.rows / whole.rows * fold.tried
            folds.append(fold)
        half, found = replace(ridges, errors=errors), []
        for own, features in ((own_x, x), (own_y, y)):
            # Places among all features are those among the targets, but for what is given.
            columns, every = own - len(given), features - len(given)
            gained, of_columns = (
                max(0.0, ridges.explained(at) - half.explained(at)) for at in (every, columns)
            )
            # Far values of columns feign a gain that features, which are bounded, do not show.
            if len(columns):
                gained = min(of_columns, _OF_FEATURES * gained)
            slopes, leading = ridges.slopes[:, columns], every[:_PREDICTIONS]
            crossed = tuple(fold.slopes[:, leading] for fold in folds)
            share = ridges.explained(columns)
            found.append(
                FirstFits(ridges.mean, slopes, ridges.slopes[:, leading], crossed, share, gained)
            )
        return found
