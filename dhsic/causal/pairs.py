"""Which of two variables is the cause: residuals of either regression, and what they depend on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from dhsic._arguments import check_seeded, read_kernel
from dhsic._progress import Progress, shows_progress
from dhsic._random import RngLike, resolve_seed
from dhsic._validation import named_arguments
from dhsic.causal.decisions import CausalDirection, CausalDirections, DirectionCriterion
from dhsic.causal.directed import Directed
from dhsic.causal.measure import ResidualMeasure
from dhsic.causal.nodes import open_nodes
from dhsic.causal.pair_residuals import decided
from dhsic.engine.events import StepStarted
from dhsic.engine.plan import Plan
from dhsic.errors import DhsicError, InvalidArgumentError
from dhsic.estimators import Estimator, EstimatorName, Null, NullName
from dhsic.estimators.base import passes_of
from dhsic.io.folder import Folder
from dhsic.io.missing import Missing
from dhsic.kernels import Kernel, KernelName
from dhsic.regression.residuals import (
    Regression,
    RegressionName,
    described_regression,
    find_regression,
)


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
    measure = ResidualMeasure(
        criterion=criterion,
        estimator=estimator,
        null=null,
        n_resamples=n_resamples,
        kernel=kernel,
    )
    place = client, threads, memory, progress, checkpoint
    fitted = find_regression(regression)
    session = open_nodes((x, y), names, data, missing, rng, "float64", *place, time=time)
    asked = Directed(session, fitted, measure)
    # As many rows as the regression and the measure can take: drawn at random, told by the result.
    rows = asked.rows(max_rows)
    run, reason = asked.settled(rows.number)
    session.begin(run.told(rows.number))
    session.resume(
        computes="causal direction",
        criterion=criterion,
        estimator=run.measure.estimator,
        null=null,
        n_resamples=n_resamples,
        kernel=read_kernel(kernel),
        rows_used=rows.number,
        **described_regression(fitted),
    )
    forward, backward = run.measured(rows.number)
    first, second = session.names
    return decided(
        forward,
        backward,
        measure,
        names=(first, second),
        estimator_reason=reason,
        regression=fitted.name,
        n=rows.number,
        rows_reason=rows.reason,
        seed=session.seed,
        dropped=session.dropped,
        data=session.verify(),
        passes=passes_of(session),
        seconds=perf_counter() - began,
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
    measure = ResidualMeasure(
        criterion=criterion,
        estimator=estimator,
        null=null,
        n_resamples=n_resamples,
        kernel=kernel,
    )
    place = client, threads, memory, None
    session = open_nodes((x, y), names, data, missing, 0, "float64", *place, time=time)
    run = Directed(session, find_regression(regression), measure)
    return run.told(run.rows(max_rows).number)


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
