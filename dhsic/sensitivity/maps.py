"""The public function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from dhsic._arguments import Precision, RunOptions, choose_measure
from dhsic._fields import result_fields
from dhsic._progress import Progress, shows_progress
from dhsic._random import RngLike
from dhsic._validation import check_choice, named_arguments, nearest
from dhsic.api import Kernels
from dhsic.engine.blocks import kinds_of
from dhsic.engine.plan import DriverStep, Plan
from dhsic.engine.session import Session
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.estimators import Estimator, EstimatorName
from dhsic.estimators.reach import planned
from dhsic.io.missing import Missing
from dhsic.io.zarr_output import chunk_bytes
from dhsic.kernels import Combinations, Kernel
from dhsic.results import DependenceEstimate
from dhsic.sensitivity.forms import Measured, Of, closed_form
from dhsic.sensitivity.passes import MapPass, SquaresPass
from dhsic.sensitivity.result import SensitivityMap, map_columns


@named_arguments
@shows_progress
def sensitivity_map(
    *variables: Any,
    of: Of = "statistic",
    wrt: Sequence[str] | None = None,
    kernels: Kernels | None = None,
    estimator: EstimatorName | Estimator = "nystrom-m",
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
) -> SensitivityMap:
    """How a measure of dependence changes with every entry of the data.

    The map S of a variable holds the derivatives of the measure in its entries, with landmarks,
    frequencies and bandwidths held. Large means squares over the rows mark the columns, and over
    the columns the rows, that matter most to the dependence. The data are read once more than for
    the measure itself, block by block; the map is computed when it is asked for.

    Parameters
    ----------
    *variables : array-like, shapes (n,) or (n, d_m)
        As for `independence_test`.
    of : {"statistic", "estimate"}, optional
        Quantity to differentiate: the statistic of `independence_test` or the estimate of `hsic`,
        with the same seed and kernels. For "v-hsic" and "rff-hsic" one is n times the other; for
        "nystrom-m" they have landmarks of their own, see `NystromMHSIC`.
    wrt : sequence of str, optional
        Names of the variables whose entries are varied; where not given all that hold numbers.
        Their kernels must be differentiable; of kernels with a kink, as the Laplacian, the
        derivative at it counts as 0.
    kernels : str, Kernel or a sequence of them, optional
        As for `hsic`.
    estimator : str or Estimator, optional
        "nystrom-m", "rff-hsic" ([1]_ equations 10 and 11, and for more than two variables), or
        "v-hsic" ([1]_ equations 8 and 9), whose cost is quadratic and which holds all rows in
        memory; or a value with its options.
    rng, names, data, missing, precision, client, threads, memory, time, progress, checkpoint
        As for `independence_test`. The map is returned in the given precision.

    Returns
    -------
    SensitivityMap

    Raises
    ------
    InvalidArgumentError, DataError, MemoryBudgetError
        As for `independence_test`; or the estimator has no map, or a kernel no derivative.

    References
    ----------
    .. [1] A. Perez-Suay, G. Camps-Valls. Sensitivity maps of the Hilbert-Schmidt independence
       criterion. Applied Soft Computing 70, 2018.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x = np.random.default_rng(0).standard_normal((400, 4))
    >>> found = dhsic.sensitivity_map(x, x[:, 2] ** 2, names=["x", "y"], rng=0)
    >>> found.features["x"].argmax()
    np.int64(2)
    >>> found.maps["x"].compute().shape
    (400, 4)
    """
    run = RunOptions(rng, precision, client, threads, memory, time, progress, checkpoint)
    check_choice("of", of, get_args(Of))
    session = run.open(variables, names, data, missing)
    planner = partial(plan_map, of=of, wrt=wrt)
    chosen, choice, fitting = choose_measure(
        session, kernels, estimator, unbiased=False, planner=planner
    )
    varied = _varied(session, wrt, fitting)
    session.begin(planned(planner, chosen, session, Combinations.single(fitting)))
    session.resume(
        computes=f"sensitivity map of the {of}", estimator=chosen, kernels=fitting, wrt=varied
    )
    measured, squares = column_sensitivities(session, chosen, of, fitting, varied)
    splits = np.cumsum(measured.gradient.dims)[:-1]
    parts = zip(varied, np.split(squares, splits), strict=True)
    written = MapPass(measured.gradient, session.dtype)
    return SensitivityMap(
        of=of,
        value=measured.value,
        features={session.names[m]: squares_of_variable for m, squares_of_variable in parts},
        measured=DependenceEstimate(**result_fields(session, chosen, choice, measured.estimate)),
        # The map is as large as the data: it is computed when it is asked for, block by block.
        rows=session.lazy(written, session.plan(written)),
    )


def column_sensitivities(
    session: Session,
    estimator: Estimator,
    of: Of,
    kernels: Sequence[Kernel],
    varied: tuple[int, ...],
) -> tuple[Measured, NDArray[np.float64]]:
    """The measure, and the sensitivities of the columns of the varied variables side by side.

    Raises
    ------
    DataError
        A derivative overflows, or the data cannot be used.
    """
    form = closed_form(estimator, of)
    # Numbers that become infinite are refused below, in words.
    with np.errstate(over="ignore", invalid="ignore"):
        measured = form.measure(session, kernels, varied)
        # The map itself is n x d: of it only the mean squares of columns are kept.
        squares = session.reduce(SquaresPass(measured.gradient)).squares / session.n
    if not np.isfinite(squares).all():
        msg = (
            f"the derivatives must be finite in {session.dtype}, and overflow: use "
            "precision='float64', or scale the variables"
        )
        raise DataError(msg)
    return measured, squares


def map_passes(
    session: Session,
    estimator: Estimator,
    of: Of,
    kernels: Sequence[Kernel],
    varied: tuple[int, ...],
) -> Plan:
    """The plan of `column_sensitivities`."""
    form = closed_form(estimator, of)
    squares = session.plan(SquaresPass(form.expected(session, kernels, varied)))
    plan = form.plan(session, kernels)
    return replace(plan, steps=(*plan.steps, squares))


def _varied(
    session: Session, wrt: Sequence[str] | None, kernels: Sequence[Kernel]
) -> tuple[int, ...]:
    """Numbers of the variables whose entries are varied; not of labels where none are named."""
    if (
        isinstance(wrt, str)
        or not isinstance(wrt, Sequence | None)
        or (wrt is not None and not wrt)
    ):
        msg = f"wrt must be a sequence of names of variables, got {wrt!r}: leave it out for all"
        raise InvalidArgumentError(msg)
    for name in wrt or ():
        if not isinstance(name, str) or name not in session.names:
            known = ", ".join(map(repr, session.names))
            close = nearest(str(name), session.names)
            msg = f"wrt must name variables, got {name!r}; there are {known}{close}"
            raise InvalidArgumentError(msg)
    if wrt is not None:
        # In the order of the variables, whatever that of the names.
        return tuple(m for m, name in enumerate(session.names) if name in wrt)
    kinds = [set(kinds_of(source)) for source in session.sources]
    # Numbers, and what has a smooth kernel; labels have no entries to vary.
    numbers = tuple(
        m for m, kinds_of_variable in enumerate(kinds) if kinds_of_variable == {"number"}
    )
    smooth = tuple(m for m, kernel in enumerate(kernels) if kernel.differentiable)
    return tuple(sorted({*numbers, *smooth})) or tuple(range(len(kernels)))


def _check_differentiable(
    session: Session, kernels: Sequence[Kernel], varied: Sequence[int]
) -> None:
    """Refuse to vary what has a kernel without derivatives.

    Raises
    ------
    InvalidArgumentError
        Names the variable.
    """
    for m in varied:
        if not kernels[m].differentiable:
            smooth = [
                name
                for name, kernel in zip(session.names, kernels, strict=True)
                if kernel.differentiable
            ]
            instead = f"wrt={smooth!r}" if smooth else "another kernel"
            msg = (
                f"variable {session.names[m]!r} must have a differentiable kernel to be varied, "
                f"got {kernels[m].spec()!r}: take {instead}"
            )
            raise InvalidArgumentError(msg)


def plan_map(
    estimator: Estimator,
    session: Session,
    combinations: Combinations,
    of: Of,
    wrt: Sequence[str] | None,
) -> Plan:
    """The plan: steps of the estimator, the pass of the map, and writing the map."""
    kernels = combinations.kernels
    varied = _varied(session, wrt, kernels)
    _check_differentiable(session, kernels, varied)
    form = closed_form(estimator, of)
    measured = form.plan(session, kernels)
    if not measured.fits:  # what is far too large is not even guessed at
        return measured
    plan = map_passes(session, estimator, of, kernels, varied)
    gradient = form.expected(session, kernels, varied)
    columns = map_columns({str(m): d for m, d in zip(varied, gradient.dims, strict=True)})
    written = session.plan(MapPass(gradient, session.dtype))
    buffers = 3 * chunk_bytes(columns, session.dtype)
    writing = DriverStep("write the map", written.worker_bytes + buffers)
    return replace(plan, steps=(*plan.steps, writing))
