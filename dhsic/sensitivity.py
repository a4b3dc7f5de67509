"""Compute sensitivity maps, the gradients of a measure of dependence with respect to the rows.

The result comes first, then the function, closed forms of gradients, and the passes that sum them.
The closed form of an estimator has the steps besides those of the estimate, a gradient for plans
that costs at least as much as the measured one, and the measure with its gradient.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Unpack, cast, get_args

import numpy as np
from numpy.typing import NDArray

from dhsic import plots
from dhsic._arguments import (
    Kernels,
    RunArguments,
    RunOptions,
    choose_measure,
    result_fields,
    takes_run,
)
from dhsic._validation import check_choice, check_integer, nearest, shown
from dhsic.engine.graph import LazyRows
from dhsic.engine.passes import Footprint, Pass, RowBlock, kinds_of
from dhsic.engine.plan import DriverStep, PassPlan, Plan
from dhsic.engine.session import Session
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.estimators import RFFHSIC, VHSIC, Estimate, Estimator, EstimatorName, NystromMHSIC
from dhsic.estimators.choose import planned
from dhsic.estimators.features import Form
from dhsic.estimators.pointwise import LandmarkBasis
from dhsic.features import FourierFeatures
from dhsic.io.variables import Missing
from dhsic.io.zarr_output import WrittenGroup, chunk_bytes, write_group
from dhsic.kernels import Combinations, Kernel
from dhsic.linalg import pivoted_cholesky
from dhsic.report import Findings, Pictures
from dhsic.results import TRANSIENT, DependenceEstimate, Result
from dhsic.statistics.gram import ROW_TILE, Tiling, products_of_others

Vector = NDArray[np.float64]
Arrays = tuple[NDArray[Any], ...]
Numbers = tuple[int, ...]
Of = Literal["statistic", "estimate"]

SAMPLES = "sample_sensitivity"
_ROWS = 1024
_SHOWN = 5
_POINTS = 5000
_MOST = 40
_MEANING = (
    "The sensitivity of a column is the mean square over the rows of the derivatives of the "
    "measure in its entries. It depends on the unit of the column: compare columns of one scale. "
    "It is exploratory: a column that the variables do not depend on has a small "
    "one, and no p-value."
)


class MapPoints(NamedTuple):
    """Some rows of two variables, with the derivatives of the measure in them."""

    x: Vector
    y: Vector
    in_x: Vector
    in_y: Vector


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SensitivityMap(Result):
    """The derivatives of a measure of dependence with respect to every entry of the data.

    With S the map of all variables side by side, shape (n, d), the sensitivity of column j is
    s_j = (1/n) sum_i S_ij^2 and that of row i is s_i = (1/d) sum_j S_ij^2 ([1] section 3.2).

    Parameters
    ----------
    of : {"statistic", "estimate"}
        Quantity that is differentiated.
    value : float
        Its value, that of `dhsic.independence_test` or `dhsic.hsic` with the same seed.
    features : mapping of str to ndarray, shapes (d_m,)
        The sensitivities s_j of the columns of each variable, by the name of the variable.
    measured : DependenceEstimate
        The estimate with its kernels, landmarks and run.
    rows : LazyRows or None
        The map, which is computed block by block on first access. None for a map that was pickled
        or read from JSON, which has no data.

    Raises
    ------
    InvalidArgumentError
        By methods that compute the map: the map was pickled or read from JSON, and has no data.

    References
    ----------
    .. [1] A. Perez-Suay, G. Camps-Valls. Sensitivity maps of the Hilbert-Schmidt independence
       criterion. Applied Soft Computing 70, 2018.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x = np.random.default_rng(0).standard_normal((200, 3))
    >>> found = dhsic.sensitivity_map(x, np.sin(x[:, 1]), names=["x", "y"], rng=0)
    >>> found.top("x", 1)
    [1]
    >>> found.maps["x"].shape, found.samples.shape
    ((200, 3), (200,))
    """

    of: Of
    value: float
    features: Mapping[str, Vector]
    measured: DependenceEstimate
    # Computed from the data, which neither JSON nor a pickle of a result holds.
    rows: LazyRows | None = field(default=None, metadata=TRANSIENT)

    def __post_init__(self) -> None:
        # A copy, which no one else can change.
        features = {name: np.array(values, np.float64) for name, values in self.features.items()}
        for values in features.values():
            values.flags.writeable = False
        object.__setattr__(self, "features", MappingProxyType(features))

    @property
    def _rows(self) -> LazyRows:
        if self.rows is None:
            msg = (
                "the map of the rows needs the data, got a map that was pickled or read from JSON "
                "with the sensitivities alone: call dhsic.sensitivity_map again"
            )
            raise InvalidArgumentError(msg)
        return self.rows

    @property
    def origin(self) -> DependenceEstimate:
        return self.measured

    @property
    def names(self) -> tuple[str, ...]:
        """The variables whose entries are varied."""
        return tuple(self.features)

    @cached_property
    def columns(self) -> Mapping[str, tuple[str, ...]]:
        """Names of the columns of every variable.

        By their own names, or as x[0], x[1]; a variable of one column is called x.
        """
        known = {
            v.name: v.column_names or ((v.name,) if v.columns == 1 else None)
            for v in self.measured.variables
        }
        return MappingProxyType(
            {
                name: known[name] or tuple(f"{name}[{j}]" for j in range(len(values)))
                for name, values in self.features.items()
            }
        )

    @cached_property
    def maps(self) -> Mapping[str, Any]:
        """The map of every variable by its name, a lazy Dask array of shape (n, d_m).

        Units are those of the measure per unit of the variable; the dtype follows `precision`.
        Arrays that are computed together share their work.
        """
        dtype = np.dtype(self.measured.precision)
        named = enumerate(self.features.items())
        return MappingProxyType(
            {name: self._rows.array(m, len(values), dtype) for m, (name, values) in named}
        )

    @cached_property
    def samples(self) -> Any:
        """The sensitivities s_i of all rows, a lazy Dask array of shape (n,)."""
        return self._rows.array(len(self.features), None, np.dtype(self.measured.precision))

    def top(self, name: str, count: int = _SHOWN) -> list[int]:
        """Return columns of a variable, the most sensitive first.

        Parameters
        ----------
        name : str
            Name of the variable.
        count : int, optional
            The largest number of columns.

        Returns
        -------
        list of int

        Raises
        ------
        InvalidArgumentError
            There is no such variable, or the count is not a positive integer.
        """
        check_choice("name", name, self.names)
        count = check_integer("count", count, minimum=1)
        # A stable order: equal columns stay in the order of the data.
        order = np.argsort(-self.features[name], kind="stable")[:count]
        return [int(j) for j in order]

    def called(self, name: str, column: int) -> str:
        """The name of a column of a variable, or its number where it has none."""
        label = self.columns[name][column]
        return str(column) if label == f"{name}[{column}]" else label

    @property
    def flat(self) -> bool:
        """Whether it is of two variables, of a column each, of which both are varied."""
        dims = [v.columns for v in self.measured.variables]
        return dims == [1, 1] and len(self.features) == len(dims)

    def points(self, most: int = _POINTS) -> MapPoints:
        """Return equally spaced rows of two variables of one column each, with their derivatives.

        The map is computed block by block.

        Parameters
        ----------
        most : int, optional
            The largest number of rows.

        Returns
        -------
        MapPoints
            Each of shape (k,).

        Raises
        ------
        InvalidArgumentError
            The variables are more than two, have several columns, or not both are varied.
        """
        if not self.flat:
            msg = (
                "points need the map of two variables of a column each, both varied; got "
                f"{', '.join(f'{v.name!r} with {v.columns}' for v in self.measured.variables)}"
            )
            raise InvalidArgumentError(msg)
        # Rounded up, so that there are no more points than were asked for.
        step = -(-self.measured.n // check_integer("most", most, minimum=1))
        x, y = (rows[:, 0] for rows in self._rows.data(step))
        start, derivatives = 0, []
        for first, second, samples in self._rows.blocks():
            # The first row of this block whose number is a multiple of the step.
            at = slice(-start % step, None, step)
            derivatives.append(np.column_stack([first[at], second[at]]))
            start += len(samples)
        return MapPoints(x, y, *np.vstack(derivatives).astype(np.float64).T)

    @cached_property
    def drawn(self) -> MapPoints:
        """The points of the picture, computed once for all pictures."""
        return self.points()

    def plot(
        self, ax: plots.Axes | None = None, *, of: str | None = None, most: int = _MOST
    ) -> plots.Axes:
        """Draw the points of two variables of one column each, or bars of columns.

        The map is computed for points, see `points`; arrows show the direction in which the measure
        grows.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw in. The default is a new figure.
        of : str, optional
            Name of the variable whose columns are bars. The default is the points, if both
            variables have one column, or else the variable with the most columns.
        most : int, optional
            The largest number of bars.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        InvalidArgumentError
            There is no such variable.
        MissingDependencyError
            matplotlib is not installed.
        """
        # A result that was read from a file has no rows any more.
        if of is None and self.flat and self.rows is not None:
            points = self.drawn
            return plots.sensitivity_field(points.x, points.y, points[2:], names=self.names, ax=ax)
        widest = max(self.names, key=lambda name: len(self.features[name]))
        name = check_choice("of", of or widest, self.names)
        sizes = self.features[name]
        return plots.ranking(
            sizes, self.columns[name], quantity=f"sensitivity of the {self.of}", most=most, ax=ax
        )

    def to_zarr(
        self, path: str | os.PathLike[str], *, overwrite: bool = False, compress: bool = True
    ) -> WrittenGroup:
        """Write the map block by block to a new zarr group, one array (n, d_m) for each variable.

        The array ``sample_sensitivity``, shape (n, 1), has the sensitivities of the rows;
        attributes of the arrays have those of the columns. The group appears when it is complete;
        an interrupt leaves no group.

        Parameters
        ----------
        path : path or URL
            A new path in an existing folder, or an unused URL in an object store.
        overwrite : bool, optional
            Replace a zarr group. Not for URLs.
        compress : bool, optional
            Compress by Zstandard.

        Returns
        -------
        WrittenGroup

        Raises
        ------
        InvalidArgumentError
            The path exists, or a variable has a name that no array can have.
        DataError
            The disk or the store refuses, or the data cannot be read.
        """
        columns = map_columns({name: len(values) for name, values in self.features.items()})
        dtype = self.measured.precision
        blocks = (
            dict(zip(columns, (*maps, samples[:, None]), strict=True))
            for *maps, samples in self._rows.blocks()
        )
        told = {
            name: {
                "of": self.of,
                "value": self.value,
                "sensitivity": values.tolist(),
                "columns": list(self.columns[name]),
            }
            for name, values in self.features.items()
        }
        options: Any = {"compress": compress, "overwrite": overwrite}
        return write_group(path, columns, blocks, lambda: told, dtype=dtype, **options)

    def records(self) -> list[dict[str, Any]]:
        """Every column, those of a variable by their sensitivity."""
        rows, method = [], f"sensitivity of the {self.of}, {self.measured.estimator}"
        for name, sizes in self.features.items():
            # A map of zeros has no shares, as that of a constant variable.
            total = float(sizes.sum()) or 1.0
            for j in self.top(name, len(sizes)):
                size = float(sizes[j])
                told = {"variable": name, "term": self.called(name, j), "estimate": size}
                rows.append({**told, "share": size / total, "method": method})
        return rows

    def findings(self, alpha: float, control: str) -> Findings:
        del alpha, control
        wide = [name for name in self.names if len(self.features[name]) > 1]
        firsts = [f"column {self.called(name, self.top(name, 1)[0])} of {name}" for name in wide]
        lead = f"The {self.of} of dependence is {self.value:.6g}"
        lead += f", most sensitive to {' and '.join(firsts)}" if firsts else ""
        names = ", ".join(v.name for v in self.measured.variables)
        return Findings(
            f"Which columns does the dependence of {names} rest on?",
            lead,
            self._pictures(),
            {"Columns": self.records(), "Variables": self.measured.variable_records()},
            [_MEANING],
        )

    def _pictures(self) -> Pictures:
        pictures: dict[str, Any] = {
            f"Bars of the columns of {name} by their sensitivity.": partial(self.plot, of=name)
            for name in self.names
            if len(self.features[name]) > 1
        }
        if self.flat and self.rows is not None:
            points = "Rows of both variables, coloured by the norm of the gradient"
            pictures[f"{points}, with arrows along it."] = self.plot
        return pictures

    def _brief(self) -> list[str]:
        firsts = [
            f"{name}: column {self.called(name, self.top(name, 1)[0])}" for name in self.names
        ]
        return [f"{self.of} = {self.value:.4g}", f"n = {self.measured.n:,}", *firsts[:4]]

    def summary(self, top: int = _SHOWN) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads, with so many columns a variable."""
        head = self.measured.summary()
        measure = [(self.of, f"{self.value:.6g}")] if self.of == "statistic" else []
        when = "not kept" if self.rows is None else "computed when asked for"
        columns = []
        for name in self.names:
            # The most sensitive with their shares of the variable's sensitivity.
            rows = [row for row in self.records() if row["variable"] == name]
            listed = [f"{row['term']} ({row['share']:.1%})" for row in rows[:top]]
            more = [f"{len(rows) - top:,} more"] if len(rows) > top else []
            columns.append((f"columns of {name}", ", ".join([*listed, *more])))
        return [
            *head[:-2],
            *measure,
            ("map", f"of the {self.of}, {self.measured.n:,} rows, {when}"),
            *columns,
            *head[-2:],
        ]


def map_columns(dims: Mapping[str, int]) -> dict[str, int]:
    """Columns of the arrays that a map is written to.

    Raises
    ------
    InvalidArgumentError
        A variable has the name of the sensitivities of the rows.
    """
    if SAMPLES in dims:
        msg = f"a variable of a map that is written must not be called {SAMPLES!r}: rename it"
        raise InvalidArgumentError(msg)
    return {**dims, SAMPLES: 1}


@takes_run
def sensitivity_map(
    *variables: Any,
    of: Of = "statistic",
    wrt: Sequence[str] | None = None,
    kernels: Kernels | None = None,
    estimator: EstimatorName | Estimator = "nystrom-m",
    names: Sequence[str] | None = None,
    data: Any = None,
    missing: Missing = "refuse",
    **options: Unpack[RunArguments],
) -> SensitivityMap:
    """Compute the derivatives of a measure of dependence by each entry of the data.

    The map S of a variable contains the derivatives of the measure with respect to its entries,
    with landmarks, frequencies and bandwidths fixed. Large mean squares over the rows mark the
    columns that matter most to the dependence, and large mean squares over the columns mark the
    rows. The function reads the data once more than the measure itself, block by block; the map is
    computed on first access.

    Parameters
    ----------
    *variables : array-like, shapes (n,) or (n, d_m)
        As for `independence_test`.
    of : {"statistic", "estimate"}, optional
        Quantity to differentiate: the statistic of `independence_test` or the estimate of `hsic`,
        with the same seed and kernels. For "v-hsic" and "rff-hsic" the statistic is n times the
        estimate; for "nystrom-m" the two have different landmarks, see `NystromMHSIC`.
    wrt : sequence of str, optional
        Names of the variables whose entries are varied. The default is all variables of numbers.
        Their kernels must be differentiable; at the kink of a kernel such as the Laplacian the
        derivative counts as 0.
    kernels : str, Kernel or a sequence of them, optional
        As for `hsic`.
    estimator : str or Estimator, optional
        "nystrom-m"; "v-hsic" ([1]_ equations 8 and 9, and for more than two variables), whose cost
        is quadratic and which holds all rows in memory; or "rff-hsic" of two variables ([1]_
        equations 10 and 11); or a value with options.
    names, data, missing, rng, precision, client, threads, memory, time, progress, checkpoint
        As for `independence_test`. The map is returned in the given precision.

    Returns
    -------
    SensitivityMap

    Raises
    ------
    InvalidArgumentError, DataError, MemoryBudgetError
        As for `independence_test`; the estimator has no map; or a kernel has no derivative.

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
    run = RunOptions(**options)
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
        rows=session.lazy(written),
    )


def column_sensitivities(
    session: Session,
    estimator: Estimator,
    of: Of,
    kernels: Sequence[Kernel],
    varied: tuple[int, ...],
) -> tuple[Measured, Vector]:
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
    """The plan of `column_sensitivities`, and where it is asked for of writing the map.

    Raises
    ------
    InvalidArgumentError
        A variable that is varied has a kernel without derivatives, or the estimator has no map.
    """
    for m in varied:
        if not kernels[m].differentiable:
            msg = (
                f"variable {session.names[m]!r} must have a differentiable kernel to be varied, "
                f"got {kernels[m].spec()!r}: take another kernel, or vary other variables"
            )
            raise InvalidArgumentError(msg)
    form = closed_form(estimator, of)
    plan = estimator.plan(session, Combinations.single(kernels), None)
    plan = replace(plan, steps=(*plan.steps, *form.steps(session, plan)))
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
    if wrt is not None:
        listed = list(wrt) if isinstance(wrt, Sequence) and not isinstance(wrt, str) else []
        unknown = [one for one in listed if not isinstance(one, str) or one not in session.names]
        if unknown or not listed:
            got: Any = unknown[0] if unknown else wrt
            known = ", ".join(map(repr, session.names))
            close = nearest(str(got), session.names) if unknown else ""
            msg = f"wrt must be a list of variables, got {shown(got)}; there are {known}{close}"
            raise InvalidArgumentError(msg)
        # In the order of the variables, whatever that of the names.
        return tuple(m for m, name in enumerate(session.names) if name in wrt)
    # Numbers, and what has a smooth kernel; labels have no entries to vary.
    pairs = enumerate(zip(session.sources, kernels, strict=True))
    varied = [m for m, (x, k) in pairs if set(kinds_of(x)) == {"number"} or k.differentiable]
    return tuple(varied) or tuple(range(len(kernels)))


class Measured(NamedTuple):
    """A measure of dependence and its gradient.

    Parameters
    ----------
    value : float
        The measure.
    gradient : BlockGradient
        In the rows of some variables.
    estimate : Estimate
        The estimate, which may be the measure.
    """

    value: float
    gradient: BlockGradient
    estimate: Estimate


@dataclass(frozen=True)
class LandmarkForm:
    """Nystrom M-HSIC with its landmarks and bandwidths held.

    All of it depends on the data by the means kappa_m and kappa_J alone. With v = K_J^-1 u,
    K_J^-1 kappa_J = alpha_J and P_m = prod_{l != m} kappa_l, the derivatives of T are 2 n v in
    kappa_J and -2 n v P_m in kappa_m. Those of the estimate are 2 v, and with
    alpha_m = K_m^-1 kappa_m they are 2 prod_{l != m} (alpha_l' kappa_l) alpha_m - 2 alpha_J P_m.
    """

    estimator: NystromMHSIC
    of: Of

    def steps(self, session: Session, plan: Plan) -> list[DriverStep]:
        assert plan.n_landmarks is not None
        return [DriverStep("coefficients", 3 * 8 * plan.n_landmarks**2)]

    def expected(self, session: Session, kernels: Sequence[Kernel], wrt: Numbers) -> BlockGradient:
        return _unseen(session, kernels, self.estimator.most_landmarks(session), wrt)

    def measure(self, session: Session, kernels: Sequence[Kernel], wrt: Numbers) -> Measured:
        basis, moments, value, estimate = self.estimator.fit(session, kernels, self.of)
        session.step("coefficients")
        # v = K_J^-1 u, and P_m, the products of the other means.
        v, others = basis.factor(0).solve(moments.u), products_of_others(moments.means)
        # Derivatives in sums over the rows, which are those in the means over n.
        joint, marginal = 2.0 * v, -2.0 * v * others
        # T leaves out a term of the marginals, which the estimate has and which has derivatives.
        if self.of == "estimate":
            joint, marginal = joint / session.n, marginal / session.n
            marginal += _outside(basis, moments.means, others) / session.n
        tiling = Tiling.prepare(basis.combinations.kernels, basis.landmarks, session.dtype)
        gradient = TileGradient(tiling, joint, marginal, None, wrt, _dims(session, wrt))
        return Measured(value, gradient, estimate)


def _outside(basis: LandmarkBasis, kappa: Vector, others: Vector) -> Vector:
    """Derivatives in kappa_m of prod_m kappa_m' K_m^-1 kappa_m - P' K_J^-1 P, P = prod_m kappa_m.

    The estimate counts it as 0 where rounding makes it negative.
    """
    product, kernels = kappa.prod(axis=0), basis.combinations.kernels_of(0)
    # alpha_m = K_m^-1 kappa_m: Kalinke and Szabo (2023), (16).
    each = zip(kernels, basis.points(0), kappa, strict=True)
    factors = ((pivoted_cholesky(kernel(z), basis.tolerance), mean) for kernel, z, mean in each)
    alphas = np.array([factor.solve(mean) for factor, mean in factors])
    norms = np.einsum("mj,mj->m", alphas, kappa)
    # K_J^-1 P, for the part of the marginals that the joint landmarks hold.
    w = basis.factor(0).solve(product)
    # The estimate is cut off at 0, where it has no slope.
    if norms.prod() <= product @ w:
        return np.zeros_like(kappa)
    derivatives: Vector = 2.0 * (products_of_others(norms)[:, None] * alphas - w * others)
    return derivatives


@dataclass(frozen=True)
class PairForm:
    """V-HSIC, with its bandwidths held: every row is a landmark, and moves with the data.

    With r_m the row means of K_m and g_m = prod_{l != m} r_l, the derivative in K_m,ij is
    (prod_{l != m} K_l,ij + prod_{l != m} mean(K_l) - g_mi - g_mj) / n^2. For two variables it is
    the centred Gram matrix of the other one, as in [1].

    References
    ----------
    .. [1] A. Perez-Suay, G. Camps-Valls. Sensitivity maps of the Hilbert-Schmidt independence
       criterion. Applied Soft Computing 70, 2018, equations 8 and 9.
    """

    estimator: VHSIC
    of: Of

    def steps(self, session: Session, plan: Plan) -> list[DriverStep]:
        rows = 8 * session.n * sum(session.dims)
        return [DriverStep("read all rows", 3 * rows, rows)]

    def expected(self, session: Session, kernels: Sequence[Kernel], wrt: Numbers) -> BlockGradient:
        offsets = np.broadcast_to(0.0, (len(kernels), session.n))
        return replace(_unseen(session, kernels, session.n, wrt), offsets=offsets)

    def measure(self, session: Session, kernels: Sequence[Kernel], wrt: Numbers) -> Measured:
        n = session.n
        means, estimate = self.estimator.fit(session, kernels)
        session.step("read all rows")
        # Every row is a landmark, so that all rows are held.
        values = session.take([np.arange(n)] * len(session.sources))
        tiling = Tiling.prepare(estimate.kernels, values, session.dtype)
        # A row moves its row and its column of the Gram matrix, hence the 2.
        scale = 2.0 / n if self.of == "statistic" else 2.0 / n**2
        others = scale * products_of_others(means)
        totals = scale * products_of_others(means.mean(axis=1))
        # For two variables: Perez-Suay and Camps-Valls (2018), (8) and (9).
        parts = np.full(n, scale), totals[:, None] - others, -others
        gradient = TileGradient(tiling, *parts, wrt, _dims(session, wrt))
        return _times_n(estimate, gradient, session, self.of)


@dataclass(frozen=True)
class FeatureForm:
    """HSIC of random Fourier features, with frequencies and bandwidths held.

    References
    ----------
    .. [1] A. Perez-Suay, G. Camps-Valls. Sensitivity maps of the Hilbert-Schmidt independence
       criterion. Applied Soft Computing 70, 2018, equations 10 and 11 for form="complex".
    """

    estimator: RFFHSIC
    of: Of

    def steps(self, session: Session, plan: Plan) -> list[DriverStep]:
        return []

    def expected(self, session: Session, kernels: Sequence[Kernel], wrt: Numbers) -> BlockGradient:
        maps = tuple(self.estimator.planned(d, session) for d in session.dims)
        counts = [features.n_features for features in maps]
        means = tuple(np.broadcast_to(0.0, count) for count in counts)
        return FeatureGradient(maps, means, np.broadcast_to(0.0, counts), wrt, _dims(session, wrt))

    def measure(self, session: Session, kernels: Sequence[Kernel], wrt: Numbers) -> Measured:
        drawn, moments, estimate = self.estimator.fit(session, kernels)
        # Perez-Suay and Camps-Valls (2018), (10) and (11): the chain rule by the cross-covariance.
        derivative = _norm_derivative(moments.plain(0, 1), self.estimator.form)
        # Every row is in C by 1 / n, and the statistic is n times the norm, so that both cancel.
        if self.of == "estimate":
            derivative /= session.n
        maps = tuple(cast(FourierFeatures, one.map) for one in drawn.features)
        # Means over all rows, from those about the provisional ones.
        means = tuple(one.centre + moments.mean(m) for m, one in enumerate(drawn.features))
        gradient = FeatureGradient(maps, means, derivative, wrt, _dims(session, wrt))
        return _times_n(estimate, gradient, session, self.of)


def closed_form(estimator: Estimator, of: Of) -> LandmarkForm | PairForm | FeatureForm:
    """The closed form of an estimator.

    Raises
    ------
    InvalidArgumentError
        It has none.
    """
    if isinstance(estimator, NystromMHSIC):
        return LandmarkForm(estimator, of)
    if isinstance(estimator, VHSIC):
        return PairForm(estimator, of)
    if isinstance(estimator, RFFHSIC):
        return FeatureForm(estimator, of)
    msg = (
        f"a sensitivity map needs estimator 'nystrom-m', 'v-hsic' or 'rff-hsic', got "
        f"{estimator.name!r}: take one of them"
    )
    raise InvalidArgumentError(msg)


def _norm_derivative(cross: Vector, form: Form) -> Vector:
    """The derivative of the squared norm of a cross-covariance C of [cos, sin] in C.

    In the complex form the norm is |cc + ss|^2 + |sc - cs|^2 of the blocks of C.
    """
    # d |C|^2 / dC = 2 C.
    if form == "cos-sin":
        return 2.0 * cross
    d1, d2 = (count // 2 for count in cross.shape)
    real = cross[:d1, :d2] + cross[d1:, d2:]
    imaginary = cross[d1:, :d2] - cross[:d1, d2:]
    # The chain rule from the real and the imaginary part to their four blocks.
    return 2.0 * np.block([[real, -imaginary], [imaginary, real]])


def _times_n(estimate: Estimate, gradient: BlockGradient, session: Session, of: Of) -> Measured:
    """The statistic is n times the estimate."""
    value = estimate.value * (session.n if of == "statistic" else 1)
    return Measured(value, gradient, estimate)


def _dims(session: Session, wrt: Numbers) -> Numbers:
    return tuple(session.dims[m] for m in wrt)


def _unseen(session: Session, kernels: Sequence[Kernel], p: int, wrt: Numbers) -> TileGradient:
    """A gradient at p landmarks that costs as much, with coefficients that take no memory."""
    guessed = Combinations.single(kernels).guessed(session.dims).kernels
    tiling = Tiling.prepare(guessed, [np.zeros((p, d)) for d in session.dims], session.dtype)
    zero = tiling.dtype.type(0)
    joint, marginal = np.broadcast_to(zero, p), np.broadcast_to(zero, (len(tiling.kernels), p))
    return TileGradient(tiling, joint, marginal, None, wrt, _dims(session, wrt))


@dataclass(frozen=True)
class TileGradient:
    """The gradient of a measure that is a function of sums of kernels at landmarks.

    The derivative in row i of variable m is

        sum_j (a_j prod_{l != m} k_l(z_lj, x_li) + b_mj + e_mi) grad k_m(z_mj, x_mi),

    with a the derivatives in sum_i prod_m k_m(z_mj, x_mi), and b in sum_i k_m(z_mj, x_mi).

    Parameters
    ----------
    tiling : Tiling
        One differentiable kernel a variable, and landmarks.
    joint : ndarray, shape (p,)
        a.
    marginal : ndarray, shape (M, p)
        b.
    offsets : ndarray, shape (M, n), or None
        e, for all rows of the data.
    wrt : tuple of int
        The variables whose rows are varied, ascending.
    dims : tuple of int
        Their columns.
    """

    tiling: Tiling
    joint: NDArray[Any]
    marginal: NDArray[Any]
    offsets: Vector | None
    wrt: tuple[int, ...]
    dims: tuple[int, ...]

    def footprint(self, rows: int, state: int) -> Footprint:
        """Cost of a block of so many rows, of which a pass keeps so many bytes."""
        t, coefficients = self.tiling, self.joint.nbytes + self.marginal.nbytes
        offsets = 0 if self.offsets is None else self.offsets.nbytes
        gradients = 8 * sum(self.dims) * (3 * ROW_TILE + rows)
        scratch = t.scratch_bytes + self._own * t.tile_bytes + gradients + coefficients
        return Footprint(t.nbytes + coefficients + offsets, scratch, state)

    def __call__(self, block: RowBlock) -> list[Vector]:
        """The gradient in the rows of a block."""
        t = self.tiling
        gradients = [np.zeros((block.rows, d)) for d in self.dims]
        joint, marginal = self.joint.astype(t.dtype), self.marginal.astype(t.dtype)
        scratch = np.empty((self._own, t.tile_bytes // t.dtype.itemsize), t.dtype)
        for at, rows, z, tiles in t.of(block.values):
            weights, *_ = views = scratch[:, : tiles[0].size].reshape(-1, *tiles[0].shape)
            for out, m in zip(gradients, self.wrt, strict=True):
                # a_j prod_{l != m} k_l + b_mj + e_mi, tile by tile; not the product of all over
                # the own tile, which may be 0.
                weights[:] = joint[z]
                for tile in (*tiles[:m], *tiles[m + 1 :]):
                    weights *= tile
                weights += marginal[m, z]
                if self.offsets is not None:
                    numbers = slice(block.start + at.start, block.start + at.stop)
                    weights += self.offsets[m, numbers].astype(t.dtype)[:, None]
                points = t.columns[m][z]
                out[at] += t.kernels[m].gradient(rows[m], points, tiles[m], weights, views[1:])
        return gradients

    @property
    def _own(self) -> int:
        """Tiles besides those of the kernels."""
        return 1 + max(self.tiling.kernels[m].gradient_tiles for m in self.wrt)


@dataclass(frozen=True)
class FeatureGradient:
    """The gradient of a function of the cross-covariance C of random Fourier features.

    The derivative in the features of row i of the first variable is D (phi_2i - mu_2) / n, with D
    the derivative in C; in those of the second it is D' (phi_1i - mu_1) / n.

    Parameters
    ----------
    maps : tuple of FourierFeatures
        Those of the two variables.
    means : tuple of ndarray, shapes (D_m,)
        Means of the features.
    derivative : ndarray, shape (D_1, D_2)
        D / n.
    wrt : tuple of int
        The variables whose rows are varied, ascending.
    dims : tuple of int
        Their columns.
    """

    maps: tuple[FourierFeatures, ...]
    means: tuple[Vector, ...]
    derivative: Vector
    wrt: tuple[int, ...]
    dims: tuple[int, ...]

    def footprint(self, rows: int, state: int) -> Footprint:
        """Cost of a block of so many rows, of which a pass keeps so many bytes."""
        held = sum(one.nbytes for one in self.maps) + sum(mean.nbytes for mean in self.means)
        # The features, their weights and the slopes, of some rows at a time.
        some, most = min(rows, _ROWS), max(one.n_features for one in self.maps)
        size = some * self.maps[0].dtype.itemsize
        made = sum(one.scratch(some) + 3 * size * one.n_features for one in self.maps)
        gradients = 8 * (rows * sum(self.dims) + 4 * some * most + self.derivative.size)
        return Footprint(held + self.derivative.nbytes, made + gradients, state)

    def __call__(self, block: RowBlock) -> list[Vector]:
        """The gradient in the rows of a block."""
        gradients = [np.empty((block.rows, d)) for d in self.dims]
        for start in range(0, block.rows, _ROWS):
            at = slice(start, min(start + _ROWS, block.rows))
            pairs = zip(self.maps, block.values, strict=True)
            features = [features_of(x[at]) for features_of, x in pairs]
            for out, m in zip(gradients, self.wrt, strict=True):
                # The derivative of C = E f h' in f is D h, and in h it is D' f.
                derivative = self.derivative if m == 1 else self.derivative.T
                # About the mean: d C / d f_i = (h_i - mean h) / n, as C is centred.
                weights = (features[1 - m] - self.means[1 - m]) @ derivative
                out[at] = self.maps[m].gradient(features[m], weights)
        return gradients


BlockGradient = TileGradient | FeatureGradient


@dataclass(frozen=True)
class SquaresPass(Pass[Vector]):
    """The sums of squares of a map over the rows; the map itself is forgotten.

    Parameters
    ----------
    gradient : BlockGradient
        The map of a block.
    """

    gradient: BlockGradient
    name: str = "sensitivities"

    def footprint(self, rows: int) -> Footprint:
        """Cost of a block of so many rows."""
        return self.gradient.footprint(rows, 8 * sum(self.gradient.dims))

    def chunk(self, block: RowBlock) -> Vector:
        """sum_i S_ij^2 over one block, shape (d,), of all variables one after another."""
        # s_j = (1 / n) sum_i S_ij^2 but for 1 / n: Perez-Suay and Camps-Valls (2018), section 3.2.
        return np.concatenate([np.einsum("ij,ij->j", s, s) for s in self.gradient(block)])


@dataclass(frozen=True)
class MapPass(Pass[Arrays]):
    """The map itself, with the mean over its columns of its square in every row.

    Parameters
    ----------
    gradient : BlockGradient
        The map of a block.
    dtype : dtype
        Precision of what is returned.
    """

    gradient: BlockGradient
    dtype: np.dtype[Any]
    name: str = "sensitivity map"

    def footprint(self, rows: int) -> Footprint:
        """Cost of a block of so many rows."""
        state = rows * (sum(self.gradient.dims) + 1) * self.dtype.itemsize
        return self.gradient.footprint(rows, state)

    def chunk(self, block: RowBlock) -> Arrays:
        """The map of every variable, shapes (b, d_m), and the mean squares, shape (b,)."""
        maps = self.gradient(block)
        squares = sum(np.einsum("ij,ij->i", s, s) for s in maps)
        # s_i = (1 / d) sum_j S_ij^2 of all columns, from the same section.
        arrays = (*maps, squares / sum(self.gradient.dims))
        return tuple(array.astype(self.dtype, copy=False) for array in arrays)

    def combine(self, left: Arrays, right: Arrays) -> Arrays:
        """Join neighbours."""
        return tuple(np.concatenate(pair) for pair in zip(left, right, strict=True))
