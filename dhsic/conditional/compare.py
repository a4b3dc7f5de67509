"""Tests of conditional independence, and their plans."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar, Literal, NamedTuple, get_args

from dhsic._arguments import (
    DROP_MISSING,
    Precision,
    check_kernel,
    choose_method,
    read_given,
    read_kernel,
    session_over,
)
from dhsic._fields import result_fields, tested_fields
from dhsic._progress import Progress, shows_progress
from dhsic._random import RngLike, generator
from dhsic._validation import check_choice, named_arguments, shown
from dhsic.conditional.features import joint_kernel
from dhsic.conditional.kernel import KernelResiduals, warn_of_limits
from dhsic.engine.blocks import kinds_of
from dhsic.engine.graphs import graphs_on
from dhsic.engine.plan import Plan
from dhsic.engine.session import Session
from dhsic.engine.units import parse_bytes
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.estimators import Estimate
from dhsic.io.held import held_sources
from dhsic.io.missing import Missing
from dhsic.io.open import names_of, open_data
from dhsic.kernels import Kernel, KernelName
from dhsic.nulls import pvalue
from dhsic.results import AS_ASKED, FeatureSummary, IndependenceTestResult
from dhsic.statistics.exchangeable import check_codes, codes_of, joined_codes, moves_of
from dhsic.statistics.neighbours import Neighbours

ConditionalMethod = Literal["auto", "kernel", "strata"]
Kernels = KernelName | str | Kernel | Sequence[KernelName | str | Kernel | None]

_FEWEST_ROWS = 20
_WIDTH = 1.75  # of the median distance, where no kernel is given
_SHOWN = 1000  # draws from the limit, to look at
_LIMIT = "the limit law, by the second moments of the products of residuals"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ConditionalIndependenceTestResult(IndependenceTestResult):
    """The outcome of a test that two variables are independent given others.

    All fields are as in `IndependenceTestResult`, with two variables and these.

    Parameters
    ----------
    estimate : float
        With method "kernel" the kernel partial correlation coefficient of x and y, less its
        prediction by the others, given the others: from 0 for conditional independence to 1 where
        y is a function of x and the others. With "strata" the squared HSIC of the variables within
        strata.
    given : tuple of str
        Names of the given variables.
    method : str
        "kernel" or "strata".
    method_reason : str
        Why this one.
    explained : tuple of float
        Shares of the variances of x and of y that the given variables explain: the prediction of
        their numbers, and of the rest the regression of their features. Empty with "strata".
    gained : tuple of float
        How much larger the shares are that all rows explain of x and of y than those that either
        half of the rows explains of the other; of numbers at most twice those of features, which
        far values do not rule. Where both are large, more rows would explain more
        (`dhsic.errors.UnexplainedWarning`). Empty with "strata".

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
        told = {"given": ", ".join(self.given), "method": self.method}
        return [{**super().records()[0], **told}]


@named_arguments
@shows_progress
def conditional_independence_test(
    x: Any,
    y: Any,
    given: Any,
    *,
    method: ConditionalMethod = "auto",
    kernels: Kernels | None = None,
    rng: RngLike = None,
    names: Sequence[str] | None = None,
    data: Any = None,
    missing: Missing = "refuse",
    precision: Precision = "float64",
    client: Any = None,
    threads: int | None = None,
    memory: int | str = "2GiB",
    progress: Progress = None,
    checkpoint: str | None = None,
) -> ConditionalIndependenceTestResult:
    """Test whether two variables are independent given others.

    Method "kernel" regresses features of x and features of y on features of z, the given
    variables, and asks whether products of the residuals have mean 0 at every weight that is a
    function of z ([1]_, [2]_). Features of a number are kernels of what is left of it by its
    prediction from z, so that they tell of the noise and little of the mean; numbers most of whose
    values repeat, and kernels without a length, are taken as they are. Functions of predictions of
    features are among the features of z; they are cross-fitted: those of a half of the rows, drawn
    at random, are by regressions on the other half [5]_. Nothing is assumed of how x and y depend
    on z or of the noise: its spread and shape may follow z. The regressions must be able to follow
    the means of the features given z, and no test keeps its level for all laws without such a
    condition [3]_. They are ridge regressions on kernel features of every column by itself, wide
    and narrow, of all columns together, and on products of two of up to 20 columns of numbers.
    Each feature of x and y takes the best of four sets of these by generalised cross-validation,
    and the smallest ridge whose error is within a tenth of the least: a little less power for less
    bias. Beyond 200,000 rows they are fitted to 200,000 or to 200 sqrt(n), drawn at random.
    Residuals are put right for the rows' own share in their predictions, and the p-value is of the
    limit law of the statistic over all rows: an approximation, in three passes over the data. Where
    all rows explain much more of x and of y than half of them do, an `UnexplainedWarning` tells
    that the regressions miss what z says.

    Method "strata" is for a z of few values: `dhsic.independence_test` with `strata`, where rows
    change places within a stratum alone, which is exact at every n.

    Parameters
    ----------
    x, y : array-like, shapes (n,) or (n, d)
        As for `dhsic.independence_test`.
    given : array-like, or a list or tuple of them
        The variables z, shapes (n,) or (n, d_j); with `data`, names of columns.
    method : {"auto", "kernel", "strata"}, optional
        "auto" takes "strata" where all given columns are categories or booleans, else "kernel".
    kernels : str, Kernel, or two of them, optional
        For x and y. Where none is given, "delta" of categories, and of numbers "gaussian" with
        1.75 times its usual length, which finds more of what noise shares. Lengths that you leave
        out are of what is left by predictions. With "strata" as for `dhsic.independence_test`.
    rng : int, SeedSequence, BitGenerator, Generator or None, optional
        As for `dhsic.independence_test`.
    names : sequence of str, optional
        Names of x, y and the given variables.
    data, missing
        As for `dhsic.independence_test`; a list that is given names a variable each.
    precision, client, threads, memory, progress, checkpoint
        As for `dhsic.independence_test`.

    Returns
    -------
    ConditionalIndependenceTestResult
        Its estimate is the kernel partial correlation coefficient [4]_.

    Raises
    ------
    InvalidArgumentError
        Nothing is given, or an option cannot be used.
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
    Noise whose spread follows z leaves residuals that depend on each other, and yet x and y are
    independent given z:

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
    began = time.perf_counter()
    place = client, threads, memory, progress, checkpoint
    with graphs_on(client, threads):
        asked = _open(x, y, given, method, names, data, missing, rng, precision, *place)
    session, *told = asked
    fields: dict[str, Any] = dict(zip(("given", "method", "method_reason"), told, strict=True))
    if asked.method == "kernel":
        fields |= _by_kernels(session, kernels, began)
        return ConditionalIndependenceTestResult(**fields)
    chosen = choose_method(session, kernels, "auto", "auto", None)
    session.begin(chosen.plan(session))
    session.resume(computes="conditional test", method=asked.method, **chosen.described)
    return ConditionalIndependenceTestResult(**fields, **tested_fields(session, chosen, began))


@named_arguments
def plan_conditional(
    x: Any,
    y: Any,
    given: Any,
    *,
    method: ConditionalMethod = "auto",
    kernels: Kernels | None = None,
    names: Sequence[str] | None = None,
    data: Any = None,
    missing: Missing = "refuse",
    precision: Precision = "float64",
    client: Any = None,
    threads: int | None = None,
    memory: int | str = "2GiB",
) -> Plan:
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
    place = client, threads, memory, None, None
    with graphs_on(client, threads):
        asked = _open(x, y, given, method, names, data, missing, 0, precision, *place)
    if asked.method == "strata":
        return choose_method(asked.session, kernels, "auto", "auto", None).plan(asked.session)
    read, widths = _read_kernels(kernels, asked.session)
    return KernelResiduals(widths).plan(asked.session, read)


class _Asked(NamedTuple):
    """What is tested."""

    session: Session
    """Over all variables; with strata over x and y, whose rows move within them."""
    given: tuple[str, ...]
    """Names of the given variables."""
    method: str
    """"kernel" or "strata"."""
    reason: str
    """Why this one."""


def _open(
    x: Any,
    y: Any,
    given: Any,
    method: str,
    names: Sequence[str] | None,
    data: Any,
    missing: Missing,
    rng: RngLike,
    precision: str,
    *place: Any,
) -> _Asked:
    """Check and open what the user passed."""
    check_choice("method", method, get_args(ConditionalMethod))
    conditions = read_given(given)
    # A variable without a name of its own is known by its part in the question.
    if names is None and data is None:
        several = [f"z{j}" for j in range(1, len(conditions) + 1)]
        usual = ["x", "y", *(several if len(conditions) > 1 else ["z"])]
        names = names_of((x, y, *conditions), usual)
    # Opened together, so that a row is left out of all where one of them misses a value.
    sources, dropped = open_data((x, y, *conditions), names, data, missing)
    n = sources[0].shape[0]
    if n < _FEWEST_ROWS:
        msg = f"a conditional test needs at least {_FEWEST_ROWS} rows, got {n}: add rows"
        raise DataError(msg)
    # One column of numbers is enough: few rows share a value, and strata would be of one row
    # each.
    numbers = any("number" in kinds_of(source) for source in sources[2:])
    if method != "auto":
        reason = AS_ASKED
    elif numbers:
        method, reason = "kernel", "numbers are given"
    else:
        method, reason = "strata", "categories are given, within which a test is exact"
    if method == "kernel":
        session = session_over(sources, rng, precision, *place)
    else:
        allowed = parse_bytes(place[2])
        check_codes(sources[2:], allowed)
        # A stratum is a combination of values of all given variables: found by and by, so that no
        # more than two of them are in memory.
        each = (codes_of(source, f"given {source.name!r}") for source in sources[2:])
        codes = reduce(joined_codes, each)
        # Rows move within strata between any places, so that x and y are held in memory.
        held = held_sources(list(sources[:2]), allowed, codes)
        session = session_over(held, rng, precision, *place)
        session.moves = moves_of(session.n, codes, None, None, session.seed)
    session.dropped, session.remedy = dropped, DROP_MISSING
    return _Asked(session, tuple(source.name for source in sources[2:]), method, reason)


def _read_kernels(given: Any, session: Session) -> tuple[tuple[Kernel, ...], tuple[float, float]]:
    """The kernels of x and of y, to be fitted, and factors of their lengths."""
    listed = [given] * 2 if given is None or isinstance(given, str | Kernel | type) else given
    if not isinstance(listed, Sequence) or len(listed) != 2:
        msg = f"kernels must be one, or one of x and one of y, got {shown(given)}"
        raise InvalidArgumentError(msg)
    fitted = []
    for asked, source in zip(listed, session.sources, strict=False):
        kinds = kinds_of(source)
        kernel = read_kernel(asked) or joint_kernel(kinds)
        check_kernel(kernel, kinds, f"variable {source.name!r}")
        fitted.append(kernel)
    # Factors concern lengths that the test fits; a kernel that was given keeps its own.
    x, y = (_WIDTH if asked is None else 1.0 for asked in listed)
    return tuple(fitted), (x, y)


def _by_kernels(session: Session, given: Any, began: float) -> dict[str, Any]:
    """Run the test on residuals, and return the fields that its result has."""
    kernels, widths = _read_kernels(given, session)
    test = KernelResiduals(widths)
    session.begin(test.plan(session, kernels))
    session.resume(computes="conditional test", method="kernel", kernels=kernels, widths=widths)
    neighbours = Neighbours(session, (), tested=2)
    products = test.run(session, kernels)
    neighbours.warn()
    statistic, law = products.sums.statistic(session.n), products.sums.law(session.n)
    warned = warn_of_limits(products, session.names, session.n)
    features = FeatureSummary("kernel", products.design.sizes)
    estimate = Estimate(
        products.correlation, products.kernels, None, features, "kernel partial correlation"
    )
    return {
        "explained": products.explained,
        "gained": products.gained,
        "statistic": statistic,
        "pvalue": pvalue(statistic, law, session.dtype),
        "pvalue_error": None,
        "null_distribution": law.draws(generator(session.seed, "simulation"), _SHOWN),
        "null": "spectral",
        # The limit law is by Strobl et al. (2019); the reason tells where it may be far.
        "null_reason": "; ".join(filter(None, (_LIMIT, warned))),
        **result_fields(session, test, AS_ASKED, estimate, began),
    }
