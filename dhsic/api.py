"""The public functions."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from dhsic._random import resolve_seed
from dhsic._validation import check_choice, parse_bytes
from dhsic._version import __version__
from dhsic.engine.blocks import Source
from dhsic.engine.events import Listener
from dhsic.engine.plan import Plan
from dhsic.engine.runtime import Runtime, current_client
from dhsic.engine.session import Session
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.estimators import Estimate, Estimator, Null, find_estimator, find_null
from dhsic.io.open import open_variables
from dhsic.kernels import Delta, Kernel, parse
from dhsic.nulls import monte_carlo_error, pvalue
from dhsic.results import (
    DependenceEstimate,
    IndependenceTestResult,
    PassSummary,
    VariableSummary,
)

__all__ = ["hsic", "independence_test", "plan"]

Precision = Literal["float64", "float32"]
Kernels = str | Kernel | Sequence[str | Kernel]


def independence_test(
    *variables: Any,
    kernels: Kernels = "gaussian",
    estimator: str | Estimator = "nystrom-m",
    null: str | Null = "auto",
    n_resamples: int | None = None,
    rng: int | np.random.Generator | None = None,
    names: Sequence[str] | None = None,
    precision: Precision = "float64",
    client: Any = None,
    threads: int | None = None,
    memory: int | str = "2GiB",
    progress: Listener | None = None,
) -> IndependenceTestResult:
    """Test whether two or more variables are jointly independent.

    Parameters
    ----------
    *variables : array-like, shapes (n,) or (n, d_m)
        NumPy, Dask or zarr arrays, zarr paths or URLs, xarray, pandas or Dask dataframe columns.
        Row i of each belongs to observation i; rows are exchangeable draws.
    kernels : str, Kernel or a sequence of them, optional
        One for all variables or one a variable. Bandwidths that are not given follow the median
        heuristic of that variable, for the Gaussian gamma = 1 / (median distance)^2, on up to
        1,000 rows drawn independently for every variable.
    estimator : str or Estimator, optional
        "nystrom-m", linear in n; or "v-hsic", quadratic and in memory.
    null : str, Multiplier or Permutation, optional
        "auto" chooses, and says which and why in the result.
    n_resamples : int, optional
        Replicates, 250 where not given; to be left out where `null` is a value, which has its
        own.
    rng : int, Generator or None, optional
        Seed. The same seed gives the same draws whatever the chunks, workers or retries.
    names : sequence of str, optional
        Names of the variables.
    precision : {"float64", "float32"}, optional
        Of the tiles; sums are float64 always.
    client : distributed.Client, optional
        Where to run. Where not given, threads of this process, or for Dask arrays the current
        client, if there is one.
    threads : int, optional
        Threads of this process; as many as it has processors where not given.
    memory : int or str, optional
        Bytes that one process may use, as "2GiB".
    progress : callable, optional
        Receives events of `dhsic.engine.events`.

    Returns
    -------
    IndependenceTestResult

    Raises
    ------
    InvalidArgumentError
        An option cannot be used.
    DataError
        The data cannot be tested: NaN, unequal lengths, a constant variable, a broken chunk.
    MemoryBudgetError
        The plan needs more memory than allowed.

    References
    ----------
    .. [1] F. Kalinke, Z. Szabo. Nystrom M-Hilbert-Schmidt independence criterion. UAI 2023.

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
    began = time.perf_counter()
    session = _session(variables, names, rng, precision, client, threads, memory, progress)
    fitting = _kernels(kernels, session.sources)
    chosen = find_estimator(estimator)
    distribution, reason = find_null(null, chosen, session, n_resamples)
    chosen.plan(session, fitting, distribution).check()
    outcome = chosen.test(session, fitting, distribution)
    p = pvalue(outcome.statistic, outcome.replicates, session.dtype, outcome.rounding)
    return IndependenceTestResult(
        statistic=outcome.statistic,
        pvalue=p,
        pvalue_error=monte_carlo_error(p, len(outcome.replicates)),
        null_distribution=outcome.replicates,
        null=distribution.name,
        null_reason=f"{reason}; {outcome.detail}" if outcome.detail else reason,
        **_common(session, chosen, outcome.estimate, began),
    )


def hsic(
    *variables: Any,
    kernels: Kernels = "gaussian",
    estimator: str | Estimator = "nystrom-m",
    rng: int | np.random.Generator | None = None,
    names: Sequence[str] | None = None,
    precision: Precision = "float64",
    client: Any = None,
    threads: int | None = None,
    memory: int | str = "2GiB",
    progress: Listener | None = None,
) -> DependenceEstimate:
    """Estimate the squared HSIC of two or more variables.

    Parameters
    ----------
    *variables : array-like, shapes (n,) or (n, d_m)
        As for `independence_test`.
    kernels, estimator, rng, names, precision, client, threads, memory, progress
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
    began = time.perf_counter()
    session = _session(variables, names, rng, precision, client, threads, memory, progress)
    fitting = _kernels(kernels, session.sources)
    chosen = find_estimator(estimator)
    chosen.plan(session, fitting, None).check()
    return DependenceEstimate(**_common(session, chosen, chosen.estimate(session, fitting), began))


def plan(
    *variables: Any,
    kernels: Kernels = "gaussian",
    estimator: str | Estimator = "nystrom-m",
    null: str | Null = "auto",
    n_resamples: int | None = None,
    names: Sequence[str] | None = None,
    precision: Precision = "float64",
    client: Any = None,
    threads: int | None = None,
    memory: int | str = "2GiB",
) -> Plan:
    """What `independence_test` would run and in how much memory; runs nothing.

    Parameters
    ----------
    *variables : array-like, shapes (n,) or (n, d_m)
        As for `independence_test`.
    kernels, estimator, null, n_resamples, names, precision, client, threads, memory
        As for `independence_test`.

    Returns
    -------
    Plan
        With its passes, tasks, predicted peak bytes of a worker and bytes to the driver.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> dhsic.plan(np.zeros((10_000, 3)), np.zeros(10_000), threads=1).n_landmarks
    800
    """
    session = _session(variables, names, 0, precision, client, threads, memory, None)
    fitting = _kernels(kernels, session.sources)
    chosen = find_estimator(estimator)
    distribution, _ = find_null(null, chosen, session, n_resamples)
    return chosen.plan(session, fitting, distribution)


def _session(
    variables: Sequence[Any],
    names: Sequence[str] | None,
    rng: int | np.random.Generator | None,
    precision: str,
    client: Any,
    threads: int | None,
    memory: int | str,
    progress: Any,
) -> Session:
    check_choice("precision", precision, ("float64", "float32"))
    sources = open_variables(variables, names)
    if sources[0].shape[0] < 4:
        msg = f"a test of independence needs at least 4 rows, got {sources[0].shape[0]}"
        raise DataError(msg)
    if client is None and threads is None and any(s.place == "graph" for s in sources):
        client = current_client()
    if not callable(progress) and progress is not None:
        msg = f"progress must be callable with one event, got {progress!r}"
        raise InvalidArgumentError(msg)
    runtime = _runtime(client, threads, parse_bytes(memory))
    return Session(sources, runtime, resolve_seed(rng), precision, progress)


def _runtime(client: Any, threads: int | None, memory: int) -> Runtime:
    if client is None:
        return Runtime.here(threads, memory)
    if threads is not None:
        msg = "threads must be left out where a client is given: its workers have their own"
        raise InvalidArgumentError(msg)
    return Runtime.on(client, memory)


def _kernels(kernels: Any, sources: Sequence[Source]) -> tuple[Kernel, ...]:
    if isinstance(kernels, (str, Kernel)):
        kernels = [kernels] * len(sources)
    if not isinstance(kernels, Sequence):
        msg = f"kernels must be a name, a Kernel, or a sequence of them, got {kernels!r}"
        raise InvalidArgumentError(msg)
    listed = [_kernel(kernel) for kernel in kernels]
    if len(listed) != len(sources):
        msg = f"kernels must be one, or one for each of {len(sources)} variables, got {len(listed)}"
        raise InvalidArgumentError(msg)
    for kernel, source in zip(listed, sources, strict=True):
        if source.categorical and not isinstance(kernel, Delta):
            msg = (
                f"variable {source.name!r} holds categories, so its kernel must be 'delta', "
                f"got {kernel.spec()!r}"
            )
            raise InvalidArgumentError(msg)
    return tuple(listed)


def _kernel(kernel: Any) -> Kernel:
    if isinstance(kernel, str):
        return parse(kernel)
    if isinstance(kernel, Kernel):
        return kernel
    msg = f"kernels must be names or Kernel values, got {kernel!r}"
    raise InvalidArgumentError(msg)


def _common(
    session: Session, estimator: Estimator, estimate: Estimate, began: float
) -> dict[str, Any]:
    """The fields that every result has."""
    summaries = zip(session.names, session.dims, estimate.kernels, strict=True)
    return {
        "estimate": estimate.value,
        "estimator": estimator.name,
        "n": session.n,
        "variables": tuple(VariableSummary(name, d, k.spec()) for name, d, k in summaries),
        "landmarks": estimate.landmarks,
        "precision": session.dtype.name,
        "seed": session.seed,
        "passes": tuple(
            PassSummary(done.name, done.blocks, done.bytes_read, done.seconds)
            for done in session.finished
        ),
        "seconds": time.perf_counter() - began,
        "version": __version__,
    }
