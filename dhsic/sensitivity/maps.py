"""The public function, its plan, and what of it rankings and directions take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
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
from dhsic.engine.plan import DriverStep, PassPlan, Plan
from dhsic.engine.session import Session
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.estimators import Estimator, EstimatorName
from dhsic.estimators.reach import planned
from dhsic.io.missing import Missing
from dhsic.io.zarr_output import chunk_bytes
from dhsic.kernels import Combinations, Kernel
from dhsic.results import DependenceEstimate
from dhsic.sensitivity.forms import Measured, Of, closed_form
from dhsic.sensitivity.gradients import MapPass, SquaresPass
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

    def plan(one: Estimator, some: Session, combinations: Combinations) -> Plan:
        varied = _varied(some, wrt, combinations.kernels)
        return map_passes(some, one, of, combinations.kernels, varied, written=True)

    chosen, choice, fitting = choose_measure(
        session, kernels, estimator, unbiased=False, planner=plan
    )
    varied = _varied(session, wrt, fitting)
    session.begin(planned(plan, chosen, session, Combinations.single(fitting)))
    session.resume(
        computes=f"sensitivity map of the {of}", estimator=chosen, kernels=fitting, wrt=varied
    )
    measured, squares = column_sensitivities(session, chosen, of, fitting, varied)
    parts = np.split(squares, np.cumsum(measured.gradient.dims)[:-1])
    written = MapPass(measured.gradient, session.dtype)
    return SensitivityMap(
        of=of,
        value=measured.value,
        features={session.names[m]: part for m, part in zip(varied, parts, strict=True)},
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
        squares = session.reduce(SquaresPass(measured.gradient)) / session.n
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
    *,
    written: bool = False,
) -> Plan:
    """The plan of `column_sensitivities`, and where it is asked for of writing the map."""
    _check_differentiable(session, kernels, varied)
    form = closed_form(estimator, of)
    plan = form.plan(session, kernels)
    if not plan.fits:  # what is far too large is not even guessed at
        return plan
    gradient = form.expected(session, kernels, varied)
    steps: list[DriverStep | PassPlan] = [session.plan(SquaresPass(gradient))]
    if written:
        columns = map_columns({str(m): d for m, d in zip(varied, gradient.dims, strict=True)})
        buffers = 3 * chunk_bytes(columns, session.dtype)
        worker_bytes = session.plan(MapPass(gradient, session.dtype)).worker_bytes
        steps.append(DriverStep("write the map", worker_bytes + buffers))
    return replace(plan, steps=(*plan.steps, *steps))


def _varied(
    session: Session, wrt: Sequence[str] | None, kernels: Sequence[Kernel]
) -> tuple[int, ...]:
    """Numbers of the variables whose entries are varied; not of labels where none are named."""
    if not (wrt is None or (isinstance(wrt, Sequence) and not isinstance(wrt, str) and wrt)):
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
    # Numbers, and what has a smooth kernel; labels have no entries to vary.
    pairs = enumerate(zip(session.sources, kernels, strict=True))
    varied = [m for m, (x, k) in pairs if set(kinds_of(x)) == {"number"} or k.differentiable]
    return tuple(varied) or tuple(range(len(kernels)))


def _check_differentiable(
    session: Session, kernels: Sequence[Kernel], varied: Sequence[int]
) -> None:
    """Refuse to vary what has a kernel without derivatives.

    Raises
    ------
    InvalidArgumentError
        Names the variable.
    """
    pairs = zip(session.names, kernels, strict=True)
    smooth = [name for name, kernel in pairs if kernel.differentiable]
    for m in varied:
        if session.names[m] not in smooth:
            instead = f"wrt={smooth!r}" if smooth else "another kernel"
            msg = (
                f"variable {session.names[m]!r} must have a differentiable kernel to be varied, "
                f"got {kernels[m].spec()!r}: take {instead}"
            )
            raise InvalidArgumentError(msg)
