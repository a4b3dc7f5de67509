"""Regressions, and their residuals as variables, streamed where the regression is."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, Literal, Protocol, get_args, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dhsic._random import generator
from dhsic._spec import name_methods
from dhsic._validation import check_integer, named_arguments, nearest, shown
from dhsic.engine.blocks import Source
from dhsic.engine.plan import DriverStep, PassPlan
from dhsic.engine.session import Session
from dhsic.errors import DataError, InvalidArgumentError, require
from dhsic.estimators.base import plan_of
from dhsic.io.variables import JoinRows, Variable, derived
from dhsic.regression.ridge import SecondMoments
from dhsic.regression.splines import PILOT_ROWS, SplineDesign, Splines, check_varied

Vector = NDArray[np.float64]
Regressions = Mapping[int, Sequence[tuple[int, ...]]]
"""Sets of regressors of every variable that is regressed, by number."""

_REMEDY = "take fewer variables, n_knots or threads, or regression='splines'"
_ROUNDING = 1e-12  # of the variance
_MATRICES = 10  # of all pairs of rows
_BYTES_OF_TREES = 3000  # a row, of 100 trees with five rows a leaf


@runtime_checkable
class Regression(Protocol):
    """A regression, as a frozen value that computes residuals.

    Whatever has a name and `residuals` can be given as `regression`.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.causal import Regression
    >>> class Lines:
    ...     name = "lines"
    ...
    ...     def residuals(self, target, given, rng):
    ...         rows = np.column_stack([np.ones(len(target)), *given])
    ...         return target - rows @ np.linalg.lstsq(rows, target)[0]
    >>> isinstance(Lines(), Regression)
    True
    """

    @property
    def name(self) -> str:
        """Name of the regression in results."""
        ...

    def residuals(
        self, target: Vector, given: Sequence[Vector], rng: np.random.Generator
    ) -> Vector:
        """Residuals of a target (n, d) regressed on arrays (n, d_j), shape (n, d)."""
        ...


@dataclass(frozen=True)
class CrossFitted:
    """Residuals of a scikit-learn regressor, each from a fit that has not seen its row.

    Parameters
    ----------
    regressor : str or scikit-learn regressor
        "random-forest", "gaussian-process", or whatever has `fit` and `predict`, which is cloned.
    n_folds : int, optional
        Parts that the rows are cut into at random.

    Raises
    ------
    InvalidArgumentError
        The regressor is none, or there are fewer than two folds.
    MissingDependencyError
        scikit-learn is not installed.

    References
    ----------
    .. [1] V. Chernozhukov et al. Double/debiased machine learning for treatment and structural
       parameters. The Econometrics Journal 21, 2018.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from dhsic.causal import CrossFitted
    >>> rng = np.random.default_rng(0)
    >>> x, noise = rng.standard_normal((2, 500, 1))
    >>> residuals = CrossFitted(LinearRegression()).residuals(x + noise, [x], rng)
    >>> bool(np.corrcoef(residuals.T, noise.T)[0, 1] > 0.99)
    True
    """

    regressor: Any = "random-forest"
    n_folds: int = 5

    def __post_init__(self) -> None:
        check_integer("n_folds", self.n_folds, minimum=2)
        known = isinstance(self.regressor, str) and self.regressor in _REGRESSORS
        if known and find_spec("sklearn") is None:
            module, extra = "scikit-learn", "causal"
            raise require(module, extra, f"regression {self.regressor!r}")
        made = not isinstance(self.regressor, type) and all(
            hasattr(self.regressor, method) for method in ("fit", "predict", "get_params")
        )
        if not (known or made):
            listed = ", ".join(map(repr, _REGRESSORS))
            msg = (
                f"regressor must be one of {listed} or a scikit-learn regressor, as "
                f"LinearRegression(), got {self.regressor!r}"
            )
            raise InvalidArgumentError(msg)

    @property
    def name(self) -> str:
        """The regressor's, and that it is cross-fitted."""
        known = isinstance(self.regressor, str)
        regressor = self.regressor if known else type(self.regressor).__name__
        return f"{regressor}, {self.n_folds} folds"

    def residuals(
        self, target: Vector, given: Sequence[Vector], rng: np.random.Generator
    ) -> Vector:
        """Residuals of a target.

        Parameters
        ----------
        target : ndarray, shape (n, d)
            Variable that is regressed.
        given : sequence of ndarray, shapes (n, d_j)
            Regressors; where there are none, the mean is taken.
        rng : numpy.random.Generator
            Cuts the folds and seeds the regressor.

        Returns
        -------
        ndarray, shape (n, d)
        """
        y = np.asarray(target, np.float64)
        # Without regressors a constant is all that there is to fit.
        if not given:
            centred: Vector = y - y.mean(axis=0)
            return centred
        x = np.concatenate([np.asarray(values, np.float64) for values in given], axis=1)
        check_integer(f"rows for {self.n_folds} folds", len(y), minimum=2 * self.n_folds)
        out = np.empty_like(y)
        # Folds are of rows in a random order, since data are often stored sorted.
        for fold in np.array_split(rng.permutation(len(y)), self.n_folds):
            rest = np.delete(np.arange(len(y)), fold)
            seed = int(rng.integers(2**31))
            for column in range(y.shape[1]):
                # A row is predicted without itself: a flexible regressor would take noise for
                # function, and the residuals would not be those of the model.
                fitted = _fit_quietly(self._made(seed), x[rest], y[rest, column])
                out[fold, column] = y[fold, column] - fitted.predict(x[fold])
        return out

    def working_bytes(self, n: int) -> int:
        """Bytes beside n rows and their residuals; regressors of your own as those of a forest."""
        rows = n - n // self.n_folds
        gaussian = self.regressor == "gaussian-process"
        return 8 * _MATRICES * rows**2 if gaussian else _BYTES_OF_TREES * rows

    def _made(self, seed: int) -> Any:
        """A fresh regressor, seeded."""
        if isinstance(self.regressor, str):
            return _REGRESSORS[self.regressor](seed)
        from sklearn.base import clone

        # A clone, so that no fit of one regression is a start of the next.
        fresh = clone(self.regressor)
        # Parts of a pipeline have seeds too, behind two underscores.
        seeds = [key for key in fresh.get_params() if key.split("__")[-1] == "random_state"]
        return fresh.set_params(**dict.fromkeys(seeds, seed))


def _fit_quietly(regressor: Any, x: Vector, y: Vector) -> Any:
    """Fit without what scikit-learn warns of bounds that an optimiser met."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=UserWarning, module="sklearn")
        return regressor.fit(x, y)


def _random_forest(seed: int) -> Any:
    from sklearn.ensemble import RandomForestRegressor

    return RandomForestRegressor(n_estimators=100, min_samples_leaf=5, random_state=seed)


def _gaussian_process(seed: int) -> Any:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, WhiteKernel
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    # The likelihood chooses the length and the share of noise within these bounds.
    kernel = 1.0 * RBF(1.0, (1e-2, 1e3)) + WhiteKernel(0.5, (1e-5, 1e1))
    process = GaussianProcessRegressor(kernel, normalize_y=True, random_state=seed)
    # The kernel has one length for all columns, which are brought to one unit first.
    return make_pipeline(StandardScaler(), process)


_REGRESSORS: dict[str, Callable[[int], Any]] = {
    "random-forest": _random_forest,
    "gaussian-process": _gaussian_process,
}


def described_regression(regression: Regression) -> dict[str, Any]:
    """The regression, with the version of the library behind it, for a checkpoint."""
    if not isinstance(regression, CrossFitted):
        return {"regression": regression}
    # Another version may grow other trees from the same seed.
    return {"regression": regression, "scikit-learn": version("scikit-learn")}


RegressionName = Literal["splines", "random-forest", "gaussian-process"]
REGRESSIONS = get_args(RegressionName)
name_methods("regression", {name: partial(CrossFitted, name) for name in _REGRESSORS})
name_methods("regression", {Splines.name: Splines})


@named_arguments
def find_regression(regression: RegressionName | Regression) -> Regression:
    """A regression by its name, or as it is.

    Parameters
    ----------
    regression : str or Regression
        "splines", "random-forest", "gaussian-process", or a value such as `Splines(n_knots=6)`.

    Returns
    -------
    Regression

    Raises
    ------
    InvalidArgumentError
        There is none of that name, or it has no residuals.

    Examples
    --------
    >>> find_regression("splines").n_knots
    20
    """
    if isinstance(regression, str) and regression == "splines":
        return Splines()
    if isinstance(regression, str) and regression in _REGRESSORS:
        return CrossFitted(regression)
    # A class has the methods too, and is no regression yet.
    if isinstance(regression, Regression) and not isinstance(regression, type):
        return regression
    listed = ", ".join(map(repr, REGRESSIONS))
    near = nearest(regression, REGRESSIONS) if isinstance(regression, str) else ""
    msg = f"regression must be one of {listed} or a value of one, got {shown(regression)}{near}"
    raise InvalidArgumentError(msg)


def plan_regressions(
    session: Session, regression: Regression, wanted: Regressions, called: str = "{}"
) -> tuple[list[DriverStep | PassPlan], list[Source]]:
    """The steps of `fit_regressions` and of all residuals that are wanted, and their shapes.

    Parameters
    ----------
    session, regression, wanted
        As for `fit_regressions`.
    called : str, optional
        Name of residuals, with that of their variable in braces.

    Returns
    -------
    steps : list of DriverStep and PassPlan
    residuals : list of Source
        Of the shapes of `FittedRegressions.variables`, for plans, which read no row.
    """
    n, dims = session.n, session.dims
    residuals: list[Source] = []
    for target, sets in wanted.items():
        numbers = target, *_regressors({target: sets})
        others = tuple(session.sources[j] for j in numbers)
        name, width = called.format(session.names[target]), dims[target] * len(sets)
        residuals.append(derived(name, others, JoinRows(), width))
    if isinstance(regression, Splines):
        reduction = regression.moments(dims, _regressors(wanted), tuple(wanted))
        size = reduction.bound.size
        rows = 8 * min(n, PILOT_ROWS) * (sum(dims) + size)
        fetch = 3 * rows + max(source.take_bytes for source in session.sources)
        square = 8 * regression.n_folds * size**2
        solving = DriverStep("solve", 5 * square, square)
        return [DriverStep("pilot rows", fetch), session.plan(reduction), solving], residuals
    made = sum(8 * n * dims[target] * len(sets) for target, sets in wanted.items())
    # Nothing is known of the regressions of a user.
    beside = regression.working_bytes(n) if isinstance(regression, CrossFitted) else 0
    steps: list[DriverStep | PassPlan] = [
        DriverStep("read all rows", 3 * 8 * n * sum(dims), 8 * n * sum(dims)),
        *(
            DriverStep(_named(session, target, own), 2 * made + beside, 8 * n * dims[target])
            for target, sets in wanted.items()
            for own in sets
        ),
    ]
    return steps, residuals


def _regressors(wanted: Regressions) -> tuple[int, ...]:
    """Numbers of what any variable is regressed on, ascending."""
    return tuple(sorted({j for sets in wanted.values() for given in sets for j in given}))


def _named(session: Session, target: int, given: tuple[int, ...]) -> str:
    return f"regression of {session.names[target]} on {len(given)} others"


@dataclass(frozen=True)
class FittedRegressions:
    """Regressions among the variables of a session, with all that their residuals need.

    Parameters
    ----------
    session : Session
        Over the variables.
    regression : Regression
        How they are regressed.
    design, sums : SplineDesign and SecondMoments, optional
        Of splines, which their sums determine.
    values : tuple of ndarray, optional
        One block of all rows, of regressions that need them at once.
    """

    session: Session
    regression: Regression
    design: SplineDesign | None = None
    sums: SecondMoments | None = None
    values: tuple[Vector, ...] = ()

    def variables(self, wanted: Regressions, called: str = "{}") -> list[Source]:
        """For everything that is regressed its residuals given every set, side by side.

        Those of splines are computed when they are read; `called` is as for `plan_regressions`.
        """
        session, regression = self.session, self.regression
        sources: list[Source] = []
        for target, sets in wanted.items():
            name = called.format(session.names[target])
            if not isinstance(regression, Splines):
                parts = [self._of_all_rows(target, own) for own in sets]
                sources.append(Variable(name, np.concatenate(parts, axis=1)))
                continue
            assert self.design is not None
            assert self.sums is not None
            function = regression.regressed(self.design, self.sums, target, sets)
            for own, left in zip(sets, function.left, strict=True):
                self._check_noise(target, own, left)
            others = tuple(session.sources[j] for j in function.variables)
            sources.append(derived(name, others, function, function.width))
        return sources

    def _of_all_rows(self, target: int, given: tuple[int, ...]) -> Vector:
        """The same draws for the same regression, in whatever order they come."""
        name = _named(self.session, target, given)
        self.session.step(name)
        rng = generator(self.session.seed, "regression", target, *given)
        y, x = self.values[target], [self.values[j] for j in given]

        def regress() -> Vector:
            return _checked(self.regression.residuals(y, x, rng), self.regression.name, y.shape)

        left = self.session.keep(name, regress, (self.regression, target, given))
        # As shares of the variance, so that units do not matter.
        self._check_noise(target, given, np.min(left.var(axis=0) / y.var(axis=0)))
        return left

    def _check_noise(self, target: int, given: tuple[int, ...], left: float) -> None:
        """Refuse residuals that are nothing but rounding."""
        # In this form it refuses NaN, too.
        if given and not left > _ROUNDING:
            names = self.session.names
            others = ", ".join(repr(names[j]) for j in given)
            msg = (
                f"variable {names[target]!r} is a function of {others} up to rounding, so its "
                "residuals say nothing: leave one of them out"
            )
            raise DataError(msg)


def _checked(left: Any, name: str, shape: tuple[int, ...]) -> Vector:
    """Residuals as a regression returned them, which may be one of a user."""
    try:
        residuals = np.asarray(left, np.float64)
        found = f"shape {residuals.shape}"
    except (TypeError, ValueError):
        residuals, found = np.empty(0), type(left).__name__
    if residuals.shape == shape and not np.isfinite(residuals).all():
        found = f"{residuals[~np.isfinite(residuals)][0]} among them"
    elif residuals.shape == shape:
        return residuals
    msg = (
        f"regression {name!r} must return finite residuals of the shape of its target, {shape}, "
        f"got {found}: return target - predictions, a row each"
    )
    raise InvalidArgumentError(msg)


def fit_regressions(
    session: Session, regression: Regression, wanted: Regressions
) -> FittedRegressions:
    """Sums or rows that all regressions among some variables need.

    Parameters
    ----------
    session : Session
        Over the variables.
    regression : Regression
        How they are regressed: splines in one pass, and their residuals are computed when they are
        read; others on all rows, in the memory of this process.
    wanted : mapping of int to sequence of tuple of int
        Targets, with regressors of any kind.

    Returns
    -------
    FittedRegressions

    Raises
    ------
    DataError
        A column of what others are regressed on is constant.
    """
    n, names = session.n, session.names
    if not isinstance(regression, Splines):
        session.step("read all rows")
        values = session.take([np.arange(n)] * len(names))
        for x, name in zip(values, names, strict=True):
            check_varied(x, name)
            x.flags.writeable = False  # a regression of a user may write into what it gets
        return FittedRegressions(session, regression, values=tuple(values))
    session.step("pilot rows")
    pilot = np.arange(n)
    # Knots and provisional means need a sample of the rows alone.
    if n > PILOT_ROWS:
        pilot = generator(session.seed, "regression").choice(n, PILOT_ROWS, replace=False)
    numbers = _regressors(wanted), tuple(wanted)
    design = regression.design(session.take([pilot] * len(names)), names, *numbers)
    sums = session.reduce(replace(regression.moments(session.dims, *numbers), design=design))
    session.step("solve")
    return FittedRegressions(session, regression, design, sums)


def run_regressions(
    session: Session, regression: Regression, wanted: Regressions, **described: Any
) -> FittedRegressions:
    """Plan and fit regressions as the first part of a run, whose residuals have a later plan.

    Parameters
    ----------
    session, regression, wanted
        As for `fit_regressions`.
    **described : object
        The run, for its checkpoint.
    """
    steps, _ = plan_regressions(session, regression, wanted)
    session.begin(plan_of(session, steps, _REMEDY))
    session.resume(**described, **described_regression(regression))
    return fit_regressions(session, regression, wanted)
