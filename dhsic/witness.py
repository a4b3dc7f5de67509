"""The functions of two variables that covary most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dhsic._arguments import Precision, RunOptions, choose_measure, plan_measure
from dhsic._progress import Progress, shows_progress
from dhsic._random import RngLike
from dhsic._validation import named_arguments
from dhsic.api import Kernels
from dhsic.errors import InvalidArgumentError
from dhsic.estimators import COCO, Estimator, EstimatorName, WitnessFunctions
from dhsic.io.missing import Missing


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
