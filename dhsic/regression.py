"""Regress variables on others, by splines in one pass over the rows, or on all rows at once.

The regressions that a user names come first, then designs and folds, then sums of squares and ridge
regressions from these. Residuals are variables. Those of splines are computed when they are read. A
design makes features of rows: splines of columns, kernels at landmarks, products. One pass sums the
features and their products, by fold; every regression among them, with its penalty and with or
without a fold, is then a matter of these sums, and so are means and their limit law.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self, get_args, runtime_checkable

import numpy as np
import scipy
from numpy.typing import NDArray

from dhsic._arguments import ALL_ROWS, RowLabels, RunOptions
from dhsic._random import generator, random_keys
from dhsic._validation import (
    check_choice,
    check_integer,
    check_numbers,
    method_of_name,
    name_methods,
    named_arguments,
    shown,
)
from dhsic.engine.passes import Footprint, Pass, RowBlock, Source, kinds_of
from dhsic.engine.plan import DriverStep, PassPlan
from dhsic.engine.session import Session
from dhsic.errors import DataError, InvalidArgumentError, needing
from dhsic.estimators.base import plan_of
from dhsic.io.variables import Missing, Variable, derived

Vector = NDArray[np.float64]
Indices = NDArray[np.intp]
Design = Callable[[Sequence[NDArray[Any]], int], Vector]
Extrapolation = Literal["constant", "linear"]
Penalty = Literal["curvature", "ridge"]
RegressionName = Literal["splines", "random-forest", "gaussian-process"]
Regressions = Mapping[int, Sequence[tuple[int, ...]]]
"""Sets of regressors of every variable that is regressed, by number."""
Residuals = Callable[..., list[Source]]
OneTarget = Callable[[str, int, Sequence[tuple[int, ...]]], Source]
"""From a name, the number of a variable and sets of regressors to its residuals, side by side."""

FEWEST_ROWS = 4
_PILOT_ROWS = 10_000
# Four weights for every factor of 10.
_WEIGHTS = np.logspace(-9.0, 9.0, 73)
# The integral of a squared second derivative goes with 1 / span^3.
_SPANS = (1e-70, 1e70)
_MOST_FOLDS = 1000
_REMEDY = "take fewer variables, n_knots or threads, or regression='splines'"
_ROUNDING = 1e-12  # of the variance
_MATRICES = 10  # of all pairs of rows
_BYTES_OF_TREES = 3000  # a row, of 100 trees with five rows a leaf
_TILE_ROWS = 2048
RIDGES = 10.0 ** np.arange(-6.0, 1.01, 0.5)
MOST_FREEDOM = 0.4  # of the rows
_LEAST_LEFT = 0.1  # of 1 - h
_RANK = 1e-11


@runtime_checkable
class Regression(Protocol):
    """A regression, as a frozen value that computes residuals.

    Any object with `name` and `residuals` can be passed as `regression`.

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
class Splines:
    """Additive regression on penalised B-splines, the penalty by generalised cross-validation.

    A target is regressed on the sum of a smooth function of every column of the given variables.
    All sums come from one pass over the rows, whatever the number of regressions.

    Parameters
    ----------
    n_knots : int, optional
        Number of knots of a column, at quantiles of up to 10,000 rows.
    degree : int, optional
        Degree of the polynomials between knots, 2 or more.
    penalty : {"curvature", "ridge"}, optional
        Penalise the integrals of squared second derivatives, which does not shrink linear
        functions, or the squared coefficients.
    extrapolation : {"linear", "constant"}, optional
        Extrapolation of a function beyond the range of the rows.
    n_folds : int, optional
        If more than 1, the residual of a row comes from a regression without the fold of the row;
        row i is in fold i mod n_folds. 1 fits all rows at once; at most 1,000.

    Raises
    ------
    InvalidArgumentError
        An option is out of its range.

    References
    ----------
    .. [1] P. Craven, G. Wahba. Smoothing noisy data with spline functions. Numerische Mathematik
       31, 1979.
    .. [2] P. Eilers, B. Marx. Flexible smoothing with B-splines and penalties. Statistical Science
       11, 1996.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.causal import Splines
    >>> rng = np.random.default_rng(0)
    >>> x, noise = rng.standard_normal((2, 500, 1))
    >>> residuals = Splines().residuals(np.sin(2 * x) + 0.1 * noise, [x], rng)
    >>> bool(np.corrcoef(residuals.T, noise.T)[0, 1] > 0.95)
    True
    """

    name: ClassVar[str] = "splines"

    n_knots: int = 20
    degree: int = 3
    penalty: Penalty = "curvature"
    extrapolation: Extrapolation = "linear"
    n_folds: int = 1

    def __post_init__(self) -> None:
        for name, value, most in (("n_knots", self.n_knots, 10_000), ("degree", self.degree, 20)):
            # Bounds far from any sensible value: a slip is refused before it takes all memory.
            check_integer(name, value, minimum=2, maximum=most)
        check_choice("penalty", self.penalty, get_args(Penalty))
        check_integer("n_folds", self.n_folds, minimum=1, maximum=_MOST_FOLDS)
        check_choice("extrapolation", self.extrapolation, get_args(Extrapolation))

    def moments(
        self, dims: Sequence[int], regressors: Sequence[int], targets: Sequence[int]
    ) -> SecondMomentsPass:
        """The pass of regressions among variables of so many columns, by their numbers."""
        # Where values repeat there are fewer knots.
        functions = (self.n_knots + self.degree - 2) * sum(dims[j] for j in regressors)
        q = functions + sum(dims[j] for j in targets)
        payload = 8 * (q + functions + 3 * self.degree * sum(dims))
        return SecondMomentsPass(q, payload, 3 * 8 * q, Folds(self.n_folds), by_fold=True)

    def design(
        self,
        samples: Sequence[NDArray[Any]],
        names: Sequence[str],
        regressors: Sequence[int],
        targets: Sequence[int],
    ) -> SplineDesign:
        """The design whose sums regress targets on regressors, both numbers of variables.

        Parameters
        ----------
        samples : sequence of ndarray, shapes (s, d_m)
            Rows of every variable, for the knots, which are their quantiles.
        names : sequence of str
            Names of every variable.
        regressors, targets : sequence of int
            Numbers of variables.

        Raises
        ------
        DataError
            A regressor is constant, or the values of a column are too near or too far apart.
        """
        for j in sorted({*regressors, *targets}):
            _check_spans(samples[j], names[j])
        for j in regressors:
            _check_varied(samples[j], names[j])
        options = self.n_knots, self.degree, self.extrapolation
        bases = (
            (j, tuple(SplineBasis.fit(column, *options) for column in samples[j].T))
            for j in regressors
        )
        plain = SplineDesign(tuple(bases), tuple((t, samples[t].shape[1]) for t in targets))
        return replace(plain, centre=plain(samples).mean(axis=0))

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
            Chooses the rows for the knots, where there are more than 10,000.

        Returns
        -------
        ndarray, shape (n, d)

        Raises
        ------
        DataError
            A column of the given is constant, or there are too few rows.
        """
        n = len(target)
        # Knots are quantiles, for which a sample of rows is as good as all.
        pilot = np.arange(n) if n <= _PILOT_ROWS else rng.choice(n, _PILOT_ROWS, replace=False)
        values, numbers, last = (*given, target), tuple(range(len(given))), len(given)
        names = [*(f"given {j + 1}" for j in numbers), "target"]
        design = self.design([x[pilot] for x in values], names, numbers, (last,))
        moments = self.moments([x.shape[1] for x in values], numbers, (last,))
        sums = replace(moments, design=design).chunk(RowBlock(0, values))
        function = self.regressed(design, sums, last, [numbers], "target")
        return function(np.arange(n), [values[j] for j in function.variables])

    def regressed(
        self,
        design: SplineDesign,
        sums: SecondMoments,
        target: int,
        sets: Sequence[Sequence[int]],
        name: str,
    ) -> SplineResiduals:
        """Residuals of a target by regressions on sets of variables, from sums of the design.

        Raises
        ------
        DataError
            There are not more rows than coefficients.
        """
        # One regression of all rows, or one a fold without it.
        parts = [sums.whole()] if self.n_folds == 1 else [others for others, _ in sums.splits()]
        d, bases = dict(design.targets)[target], dict(design.bases)
        coefficients = np.zeros((len(parts), sums.totals.shape[-1], d * len(sets)))
        constant, left = np.zeros((len(parts), d * len(sets))), np.empty((len(parts), len(sets)))
        targets = design.places((), target)
        for r, given in enumerate(sets):
            at, functions = slice(d * r, d * (r + 1)), design.places(given)
            # Coefficients shrink to 0, and not their differences (Eilers and Marx 1996) to those
            # of a line.
            penalties = [
                np.eye(one.size) if self.penalty == "ridge" else one.roughness
                for j in given
                for one in bases[j]
            ]
            for f, part in enumerate(parts):
                # GCV divides by n less the degrees of freedom, of which there may be p + 1.
                if part.rows <= len(functions) + 1:
                    msg = (
                        f"a regression of {name!r} on {len(given)} variables has "
                        f"{len(functions) + 1} coefficients and needs more rows than that, got "
                        f"{part.rows:.0f}: give fewer n_knots, or fewer variables"
                    )
                    raise DataError(msg)
                free: Any = {"weights": _WEIGHTS, "most_freedom": math.inf}
                fit = Ridges.fit(part, functions, targets, penalties=penalties, **free)
                coefficients[f, functions, at] = -fit.slopes
                coefficients[f, targets, at] = np.eye(d)
                constant[f, at] = fit.target_mean - fit.mean @ fit.slopes
                left[f, r] = fit.left.min()
        # Functions that no regression takes are not computed.
        some = tuple(one for one in design.bases if any(one[0] in given for given in sets))
        kept = design.places([j for j, _ in some], target)
        own = SplineDesign(some, ((target, d),), np.asarray(design.centre)[kept])
        least = left.min(axis=0).tolist()  # NaN where any is
        return SplineResiduals(own, coefficients[:, kept], constant, tuple(least))


@dataclass(frozen=True)
class CrossFitted:
    """Residuals of a scikit-learn regressor, each from a fit to other rows.

    Parameters
    ----------
    regressor : str or scikit-learn regressor
        "random-forest", "gaussian-process", or an object with `fit` and `predict`, which is cloned.
    n_folds : int, optional
        Number of random folds.

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
        if known:
            with needing("scikit-learn", "causal", f"regression {self.regressor!r}"):
                import sklearn  # noqa: F401
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
                with warnings.catch_warnings():
                    # scikit-learn warns of bounds that an optimiser met.
                    warnings.filterwarnings("ignore", category=UserWarning, module="sklearn")
                    fitted = self._made(seed).fit(x[rest], y[rest, column])
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


name_methods(
    "regression",
    {Splines.name: Splines, **{name: partial(CrossFitted, name) for name in _REGRESSORS}},
)


@named_arguments
def find_regression(regression: RegressionName | Regression) -> Regression:
    """Return a regression by its name, or as it is.

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
    made: Any = regression
    if isinstance(regression, str):
        made = method_of_name("regression", regression)()
    # A class has the methods too, and is no regression yet.
    if isinstance(made, type) or not isinstance(made, Regression):
        msg = f"regression must be a name or a value of one, got {shown(regression)}: as 'splines'"
        raise InvalidArgumentError(msg)
    return made


def described_regression(regression: Regression) -> dict[str, Any]:
    """The regression, with the version of the library behind it, for a checkpoint."""
    if not isinstance(regression, CrossFitted):
        return {"regression": regression}
    import sklearn

    # Another version may grow other trees from the same seed.
    return {"regression": regression, "scikit-learn": sklearn.__version__}


def open_nodes(
    run: RunOptions,
    variables: Sequence[Any],
    names: Sequence[str] | None,
    data: Any,
    missing: Missing,
    rows: RowLabels = ALL_ROWS,
    *,
    most: int | None = None,
) -> Session:
    """A session over variables that are nodes of a graph, or the columns of one of them.

    Parameters
    ----------
    run : RunOptions
        Where it runs, and how.
    variables : sequence of array-like
        As for `dhsic.independence_test`; one of two columns or more stands for its columns.
    names : sequence of str or None
        Names of the nodes. The default is the names in the data.
    data, missing
        As for `dhsic.independence_test`.
    rows : RowLabels, optional
        Groups and order of the rows.
    most : int, optional
        Nodes that are taken.

    Returns
    -------
    Session

    Raises
    ------
    InvalidArgumentError
        Fewer than two nodes, or too many, or names that do not fit.
    DataError
        As for `dhsic.io.open.open_labelled_data`; categories, which have no residuals; or fewer
        than 4 rows.
    """
    what = "a test of residuals"
    session = run.open(variables, names, data, missing, rows, what=what, fewest=FEWEST_ROWS)
    # Before anything is regressed: the number of graphs grows faster than the factorial.
    if most is not None and len(session.sources) > most:
        msg = (
            f"all graphs are scored over 2 to {most} nodes, got {len(session.sources)}: leave some "
            "out, or search for one graph by dhsic.causal.search_dag"
        )
        raise InvalidArgumentError(msg)
    for source in session.sources:
        # Codes of categories have no order that a regression could fit.
        if "category" in kinds_of(source):
            msg = (
                f"a regression needs numbers, and variable {source.name!r} holds categories: give "
                "an indicator of each as columns"
            )
            raise DataError(msg)
    return session


def run_regressions(
    session: Session, regression: Regression, wanted: Regressions, **described: Any
) -> Residuals:
    """Plan and fit regressions as the first part of a run, whose residuals have a later plan.

    Parameters
    ----------
    session, regression, wanted
        As for `fit_regressions`.
    **described : object
        The run, for its checkpoint.
    """
    session.begin(plan_of(session, plan_regressions(session, regression, wanted), _REMEDY))
    session.resume(**described, **described_regression(regression))
    return fit_regressions(session, regression, wanted)


def plan_regressions(
    session: Session, regression: Regression, wanted: Regressions
) -> list[DriverStep | PassPlan]:
    """The steps of `fit_regressions` and of all residuals that are wanted."""
    n, dims = session.n, session.dims
    if isinstance(regression, Splines):
        reduction = regression.moments(dims, _regressors(wanted), tuple(wanted))
        rows = 8 * min(n, _PILOT_ROWS) * (sum(dims) + reduction.size)
        fetch = 3 * rows + max(source.take_bytes for source in session.sources)
        square = 8 * regression.n_folds * reduction.size**2
        solving = DriverStep("solve", 5 * square, square)
        return [DriverStep("pilot rows", fetch), session.plan(reduction), solving]
    made = sum(8 * n * dims[target] * len(sets) for target, sets in wanted.items())
    # Nothing is known of the regressions of a user.
    beside = regression.working_bytes(n) if isinstance(regression, CrossFitted) else 0
    return [
        DriverStep("read all rows", 3 * 8 * n * sum(dims), 8 * n * sum(dims)),
        *(
            DriverStep(_named(session, target, own), 2 * made + beside, 8 * n * dims[target])
            for target, sets in wanted.items()
            for own in sets
        ),
    ]


def fit_regressions(session: Session, regression: Regression, wanted: Regressions) -> Residuals:
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
    callable
        For everything that is regressed its residuals given every set, side by side, called as
        their variable, whose name stands in the braces of a text.

    Raises
    ------
    DataError
        A column of what others are regressed on is constant.
    """
    streamed = isinstance(regression, Splines)
    one = (_of_splines if streamed else _of_all_rows)(session, regression, wanted)

    def residuals(wanted: Regressions, called: str = "{}") -> list[Source]:
        names = session.names
        return [one(called.format(names[m]), m, sets) for m, sets in wanted.items()]

    return residuals


def _of_splines(session: Session, regression: Any, wanted: Regressions) -> OneTarget:
    """What makes residuals of splines, which their sums determine."""
    n, names = session.n, session.names
    session.step("pilot rows")
    pilot = np.arange(n)
    # Knots and provisional means need a sample of the rows alone.
    if n > _PILOT_ROWS:
        pilot = generator(session.seed, "regression").choice(n, _PILOT_ROWS, replace=False)
    numbers = _regressors(wanted), tuple(wanted)
    design = regression.design(session.take([pilot] * len(names)), names, *numbers)
    sums = session.reduce(replace(regression.moments(session.dims, *numbers), design=design))
    session.step("solve")

    def made(name: str, target: int, sets: Sequence[tuple[int, ...]]) -> Source:
        function = regression.regressed(design, sums, target, sets, names[target])
        for own, left in zip(sets, function.left, strict=True):
            _check_noise(session, target, own, left)
        others = tuple(session.sources[j] for j in function.variables)
        return derived(name, others, function, function.constant.shape[1])

    return made


def _of_all_rows(session: Session, regression: Regression, wanted: Regressions) -> OneTarget:
    """What makes residuals of regressions that need all rows at once, in one block."""
    session.step("read all rows")
    values = session.take([np.arange(session.n)] * len(session.names))
    for x, name in zip(values, session.names, strict=True):
        _check_varied(x, name)
        x.flags.writeable = False  # a regression of a user may write into what it gets

    def left_of(target: int, given: tuple[int, ...]) -> Vector:
        name = _named(session, target, given)
        session.step(name)
        # The same draws for the same regression, in whatever order they come.
        rng = generator(session.seed, "regression", target, *given)
        y, x = values[target], [values[j] for j in given]

        def regress() -> Vector:
            left = regression.residuals(y, x, rng)
            what = f"residuals of regression {regression.name!r}"
            remedy = "return target - predictions, a row each"
            return check_numbers(what, left, *y.shape, remedy=remedy)

        left = session.keep(name, regress, (regression, target, given))
        # As shares of the variance, so that units do not matter.
        _check_noise(session, target, given, np.min(left.var(axis=0) / y.var(axis=0)))
        return left

    def made(name: str, target: int, sets: Sequence[tuple[int, ...]]) -> Source:
        return Variable(name, np.concatenate([left_of(target, own) for own in sets], axis=1))

    return made


def _regressors(wanted: Regressions) -> tuple[int, ...]:
    """Numbers of what any variable is regressed on, ascending."""
    return tuple(sorted({j for sets in wanted.values() for given in sets for j in given}))


def _named(session: Session, target: int, given: tuple[int, ...]) -> str:
    return f"regression of {session.names[target]} on {len(given)} others"


def _check_noise(session: Session, target: int, given: tuple[int, ...], left: float) -> None:
    """Refuse residuals that are nothing but rounding, by the share of a variance that they have."""
    # In this form it refuses NaN, too.
    if given and not left > _ROUNDING:
        others = ", ".join(repr(session.names[j]) for j in given)
        msg = (
            f"variable {session.names[target]!r} is a function of {others} up to rounding, so its "
            "residuals are rounding errors: leave one of them out"
        )
        raise DataError(msg)


@dataclass(frozen=True)
class SplineDesign:
    """Splines of regressors, one variable after another, then targets; about provisional means.

    Parameters
    ----------
    bases : tuple of int and tuple of SplineBasis
        Numbers of the regressors, with those of every column.
    targets : tuple of int and int
        Numbers of the variables that are regressed, with their columns.
    centre : ndarray, shape (q,)
        Means of a sample: sums about them are small, and keep their digits.
    """

    bases: tuple[tuple[int, tuple[SplineBasis, ...]], ...]
    targets: tuple[tuple[int, int], ...]
    centre: Vector | float = 0.0

    def __call__(
        self, values: Sequence[NDArray[Any]] | Mapping[int, NDArray[Any]], fold: int = 0
    ) -> Vector:
        """Rows (b, q), of variables (b, d_m) by their numbers; alike in all folds."""
        parts = [one(x) for j, own in self.bases for one, x in zip(own, values[j].T, strict=True)]
        joined = np.concatenate([*parts, *(values[t] for t, _ in self.targets)], axis=1)
        centred: Vector = np.subtract(joined, self.centre, dtype=np.float64)
        return centred

    def places(self, given: Sequence[int], target: int | None = None) -> Indices:
        """Places of the functions of some regressors, then those of a target."""
        sizes = [sum(one.size for one in own) for _, own in self.bases]
        sizes += [columns for _, columns in self.targets]
        every = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
        functions = {j: at for (j, _), at in zip(self.bases, every, strict=False)}
        columns = every[len(self.bases) :]
        some = [functions[j] for j in given]
        some += [at for (t, _), at in zip(self.targets, columns, strict=True) if t == target]
        return np.concatenate([np.empty(0, np.intp), *some])


@dataclass(frozen=True)
class SplineBasis:
    """B-splines of a column, but for the last.

    They add up to 1, so that the last is what the others and a constant make.

    Parameters
    ----------
    knots : ndarray
        Increasing: those within the range of the column, and as many on either side of it as the
        degree.
    degree : int
        Degree of the polynomials between knots.
    extrapolation : {"constant", "linear"}
        Continuation beyond the range: the value at its end, or the value and the slope.

    References
    ----------
    .. [1] P. Eilers, B. Marx. Flexible smoothing with B-splines and penalties. Statistical Science
       11, 1996.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(0.0, 1.0, 101)
    >>> basis = SplineBasis.fit(x, 3, 2, "constant")
    >>> basis(x).shape
    (101, 3)
    """

    knots: Vector
    degree: int
    extrapolation: Extrapolation

    @classmethod
    def fit(cls, sample: Vector, n_knots: int, degree: int, extrapolation: Extrapolation) -> Self:
        """Knots at quantiles of a column that is not constant, fewer where values repeat.

        The outermost are the least and the largest value of the sample.
        """
        # Values that repeat would put knots on top of each other.
        inner = np.unique(np.quantile(sample, np.linspace(0.0, 1.0, n_knots)))
        # Knots beyond the ends, so that the functions add up to 1 there, too, as far apart as the
        # outermost are.
        steps = np.arange(1, degree + 1)
        before = inner[0] - (inner[1] - inner[0]) * steps[::-1]
        after = inner[-1] + (inner[-1] - inner[-2]) * steps
        return cls(np.concatenate([before, inner, after]), degree, extrapolation)

    @property
    def size(self) -> int:
        """How many functions."""
        # There are len(knots) - degree - 1, and the last is left out.
        return len(self.knots) - self.degree - 2

    def __call__(self, x: Vector) -> Vector:
        """The functions at values (b,), shape (b, size)."""
        low, high = self.knots[self.degree], self.knots[-self.degree - 1]
        x = np.asarray(x, np.float64)
        # Knots come from a sample, so that other rows may lie beyond them.
        out: Vector = self._splines(np.clip(x, low, high))
        # Beyond the knots functions go on along their slopes, where a polynomial would run away.
        if self.extrapolation == "linear":
            for end, beyond in ((low, x < low), (high, x > high)):
                if beyond.any():
                    out[beyond] += np.outer(x[beyond] - end, self._splines(end, 1))
        return out

    @cached_property
    def roughness(self) -> Vector:
        """Integrals of products of second derivatives within the range, shape (size, size)."""
        # Products of second derivatives have degree 2 d - 4, and d points are exact up to 2 d - 1:
        # between two knots a polynomial, of which Gauss and Legendre's rule has the integral.
        places, weights = np.polynomial.legendre.leggauss(self.degree)
        inner = self.knots[self.degree : -self.degree]
        half = np.diff(inner)[:, None] / 2.0
        values = self._splines.derivative(2)((inner[:-1, None] + half * (places + 1.0)).ravel())
        total: Vector = (values.T * (half * weights).ravel()) @ values
        return total

    @property
    def _splines(self) -> Any:
        """All functions but the last, as one spline."""
        from scipy.interpolate import BSpline  # slow to import

        return BSpline(self.knots, np.eye(self.size + 1)[:, :-1], self.degree)


@dataclass(frozen=True)
class SplineResiduals:
    """Residuals of several regressions of one target, side by side, as a `RowFunction`.

    They are y - mean y - (f - mean f)' s with the functions f and slopes s of a regression, and so
    linear in the rows of a design, but for a constant.

    Parameters
    ----------
    design : SplineDesign
        Functions of the regressors and the target, q in all.
    coefficients : ndarray, shape (n_folds, q, r d)
        Those of the residuals of the r regressions, in every fold.
    constant : ndarray, shape (n_folds, r d)
        Subtracted.
    left : tuple of float
        The least share of a variance that the residuals of every regression have.
    """

    design: SplineDesign
    coefficients: Vector
    constant: Vector
    left: tuple[float, ...]

    @property
    def variables(self) -> tuple[int, ...]:
        """Numbers of the variables whose rows it takes: the target, and what it is regressed on."""
        return tuple(j for j, _ in (*self.design.targets, *self.design.bases))

    def __call__(self, rows: Indices, values: Sequence[NDArray[Any]]) -> Vector:
        """The residuals (b, r d) of rows by number, given those of `variables`."""
        joined = self.design(dict(zip(self.variables, values, strict=True)))
        out = np.empty((len(rows), self.constant.shape[1]))
        # A row is predicted by the fit of its fold, which has not seen it.
        folds = rows % len(self.constant)
        for f, (coefficients, constant) in enumerate(
            zip(self.coefficients, self.constant, strict=True)
        ):
            out[folds == f] = joined[folds == f] @ coefficients - constant
        return out


def _check_spans(rows: NDArray[Any], name: str) -> None:
    """Refuse columns of which sums of squared second derivatives would overflow."""
    with np.errstate(over="ignore"):
        spans = np.ptp(rows.astype(np.float64), axis=0)
    # Constant columns are refused elsewhere, with words of their own.
    (outside,) = np.nonzero((spans > 0.0) & ((spans < _SPANS[0]) | (spans > _SPANS[1])))
    if len(outside):
        msg = (
            f"variable {name!r}: column {outside[0]}: splines need values that span "
            f"{_SPANS[0]:g} to {_SPANS[1]:g}, got {spans[outside[0]]:.3g}: rescale the variable"
        )
        raise DataError(msg)


def _check_varied(rows: NDArray[Any], name: str) -> None:
    """Refuse a variable of which a column is constant."""
    # Exactly equal values: a small spread is no fault, and is scaled away.
    (constant,) = np.nonzero((rows == rows[0]).all(axis=0))
    if len(constant):
        msg = (
            f"a regression on variable {name!r} needs columns that vary, got column "
            f"{constant[0]} constant over {len(rows)} rows: leave it out"
        )
        raise DataError(msg)


@dataclass(frozen=True)
class Folds:
    """Rows in folds, so that predictions of the rows of a fold are by the rows of the others.

    Parameters
    ----------
    count : int
        How many.
    seed : int, optional
        Draws the fold of every row; where not given, row i is in fold i mod count. Either goes by
        the number of a row, so that folds do not depend on blocks.
    share : float, optional
        Of the rows that count, each drawn by itself by the seed.
    """

    count: int
    seed: int | None = None
    share: float = 1.0

    def tiles(self, block: RowBlock) -> Iterator[tuple[int, Indices]]:
        """Tiles of rows of one fold each: the fold, and numbers of at most 2048 of its rows."""
        span = block.start, block.start + block.rows
        folds = np.arange(*span) % self.count
        if self.seed is not None:
            keys = random_keys(self.seed, *span, "folds")
            folds = (keys % np.uint64(self.count)).astype(np.intp)
            if self.share < 1.0:
                keys = random_keys(self.seed, *span, "regression")
                folds[keys >= self.share * 2.0**64] = -1
        for fold in range(self.count):
            own = np.flatnonzero(folds == fold)
            for start in range(0, len(own), _TILE_ROWS):
                yield fold, own[start : start + _TILE_ROWS]


class SecondMoments(NamedTuple):
    """Sums over rows of q features and of their products: of some rows, or by fold.

    Parameters
    ----------
    rows : int or ndarray
        How many; by fold shape (k,), and so before the shapes of the others.
    totals : ndarray
        Shape (q,).
    products : ndarray
        Shape (q, q).
    """

    rows: Any
    totals: Vector
    products: Vector

    def whole(self) -> SecondMoments:
        """Sums over the rows of all folds."""
        return SecondMoments(*(part.sum(axis=0) for part in self))

    def splits(self) -> Iterator[tuple[SecondMoments, SecondMoments]]:
        """Sums over the rows outside of every fold and over its own, one after the other."""
        # Sums are additive: those without a fold need no other pass over the data.
        whole = self.whole()
        for own in map(SecondMoments._make, zip(*self, strict=True)):
            others = SecondMoments._make(every - one for every, one in zip(whole, own, strict=True))
            # Of 20 rows one in a million draws has all of them in one fold.
            yield (others, own) if others.rows and own.rows else (whole, whole)

    def covariance(self) -> Vector:
        """Covariance of the features, shape (q, q)."""
        mean = self.totals / self.rows
        # Features are about the means of a sample, so that little cancels.
        covariance: Vector = self.products / self.rows - np.outer(mean, mean)
        return covariance

    def missed(self, mean: Vector, regressors: Indices, targets: Indices, slopes: Vector) -> Vector:
        """Mean squared errors (t,) of predictions about means (q,) of other rows.

        Parameters
        ----------
        mean : ndarray, shape (q,)
            The means of all features.
        regressors, targets : ndarray of int
            Numbers of p and of t features.
        slopes : ndarray, shape (p, t)
            Coefficients of predictions.
        """
        off = self.totals / self.rows - mean
        moments = self.covariance() + np.outer(off, off)
        predicted = moments[np.ix_(regressors, regressors)] @ slopes
        left = predicted - 2.0 * moments[np.ix_(regressors, targets)]
        found: Vector = moments[targets, targets] + (slopes * left).sum(axis=0)
        return found


@dataclass(frozen=True)
class SecondMomentsPass(Pass[SecondMoments]):
    """First and second moments of features of rows: all that regressions on each other need.

    Parameters
    ----------
    size : int
        Features of a row, q, at most.
    payload : int
        Bytes of the design, at most.
    row : int
        Bytes that a row needs besides its features, at most.
    folds : Folds
        Which rows count, and their folds.
    name : str
        Name of the pass in progress reports.
    design : callable, optional
        Features (b, q) of rows of every variable that are all of a fold; a run has them.
    by_fold : bool, optional
        Whether the sums of every fold stay apart.
    """

    size: int
    payload: int
    row: int
    folds: Folds
    name: str = "regressions"
    design: Design | None = None
    by_fold: bool = False

    def footprint(self, rows: int) -> Footprint:
        """Cost of a block of so many rows."""
        tile, square = min(rows, _TILE_ROWS), self.size**2
        state = 8 * self._parts * (square + self.size + 1)
        # Keys of all rows, twice, and numbers of the drawn ones.
        scratch = tile * (self.row + 8 * self.size) + 8 * square + 24 * rows + state
        return Footprint(self.payload, scratch, state)

    def chunk(self, block: RowBlock) -> SecondMoments:
        """Sums over the rows of one block that count, by fold."""
        assert self.design is not None
        parts, q = self._parts, self.design([x[:1] for x in block.values], 0).shape[1]
        found = SecondMoments(np.zeros(parts), np.zeros((parts, q)), np.zeros((parts, q, q)))
        for fold, some in self.folds.tiles(block):
            rows = self.design([x[some] for x in block.values], fold)
            at = fold % parts
            found.rows[at] += len(some)
            found.totals[at] += rows.sum(axis=0)
            found.products[at] += rows.T @ rows
        return found

    @property
    def _parts(self) -> int:
        return self.folds.count if self.by_fold else 1


@dataclass(frozen=True)
class Ridges:
    """Ridge regressions of targets, each with a penalty by generalised cross-validation.

    With the covariance S of the regressors, a penalty P, columns of V with V'SV = diag(s) and
    V'PV = diag(m), and c the covariances of a target with them, the regression of weight w has
    coefficients V c / (s + w m), tr S (S + w P)^-1 + 1 degrees of freedom df, and

    GCV(w) = n RSS(w) / (n - df)^2    ([1] section 1, [2])

    The constant is not shrunk. The weight of the least GCV balances the bias of predictions and
    their variance. A mean of products of residuals of x and of y has the product of their biases,
    and no share of their variances, where the errors of x and of y are independent: so smaller
    weights suit it, whose cost is the larger error of residuals ([3] section 3 has the condition
    on the product).

    Parameters
    ----------
    mean : ndarray, shape (p,)
        Mean of the regressors.
    slopes : ndarray, shape (p, t)
        Coefficients of every target.
    target_mean : ndarray, shape (t,)
        Mean of the targets.
    vectors : ndarray, shape (p, k)
        V, of the directions whose variance is not 0.
    spread : ndarray, shape (k, t)
        1 / (n (s + w m)).
    errors : ndarray, shape (t,)
        Estimates of the mean squared error of a prediction, GCV at the weight taken.
    least : ndarray, shape (t,)
        The same at the best weight.
    tried : ndarray, shape (t,)
        Mean squared errors of predictions of other rows, at the weight that is best for them; where
        there are none, the least GCV.
    left : ndarray, shape (t,)
        Shares of the variances that the residuals have.
    variances : ndarray, shape (t,)
        Variances of the targets.
    rows : int
        Rows that they are fitted to, n.

    References
    ----------
    .. [1] G. Golub, M. Heath, G. Wahba. Generalized cross-validation as a method for choosing a
       good ridge parameter. Technometrics 21, 1979.
    .. [2] P. Craven, G. Wahba. Smoothing noisy data with spline functions. Numerische Mathematik
       31, 1979.
    .. [3] R. Shah, J. Peters. The hardness of conditional independence testing and the
       generalised covariance measure. Annals of Statistics 48, 2020.
    """

    mean: Vector
    slopes: Vector
    target_mean: Vector
    vectors: Vector
    spread: Vector
    errors: Vector
    least: Vector
    tried: Vector
    left: Vector
    variances: Vector
    rows: int

    @staticmethod
    def fit(
        sums: SecondMoments,
        regressors: Indices,
        targets: Indices,
        excess: float = 0.0,
        left_out: Sequence[Indices] = (),
        held: SecondMoments | None = None,
        penalties: Sequence[Vector] | None = None,
        weights: Vector = RIDGES,
        most_freedom: float = MOST_FREEDOM,
    ) -> Ridges:
        """Regress features on features, both by their numbers.

        Parameters
        ----------
        sums : SecondMoments
            Sums over rows.
        regressors, targets : ndarray of int
            Numbers of features.
        excess : float, optional
            A target takes the smallest weight whose GCV exceeds the least by at most this share.
        left_out : sequence of ndarray of int, optional
            Numbers of features that one of several regressions does without. A target takes that of
            the least GCV; where there are none, that on all regressors.
        held : SecondMoments, optional
            Sums over other rows, on which predictions are tried.
        penalties : sequence of ndarray, optional
            A matrix for every run of regressors; the identity where not given.
        weights : ndarray, optional
            They ascend.
        most_freedom : float, optional
            Degrees of freedom at most, as a share of the rows.
        """
        covariance, mean, n = sums.covariance(), sums.totals / sums.rows, int(sums.rows)
        variances = covariance[targets, targets]

        def on(kept: NDArray[np.bool_]) -> tuple[Vector, ...]:
            """What the regression on some of the regressors has; others have coefficients 0."""
            some = regressors[kept]
            vectors, s, m = _diagonalised(covariance[np.ix_(some, some)], penalties)
            c = vectors.T @ covariance[np.ix_(some, targets)]
            shrunk = s[:, None] + np.multiply.outer(m, weights)  # (k, weights)
            # 1 + tr S (S + w P)^-1.
            freedom = 1.0 + (s[:, None] / shrunk).sum(axis=0)
            # c^2 (2 / (s + w m) - s / (s + w m)^2) of the variance is explained.
            explained = 2.0 / shrunk - s[:, None] / shrunk**2
            # Rounding may take it below zero where the fit is exact.
            left = np.maximum(variances[:, None] - (c**2).T @ explained, 0.0)  # (t, weights)
            errors = left / np.maximum(1.0 - freedom / n, 1e-3) ** 2
            # Too many degrees of freedom are refused, but for the largest weight.
            errors[:, freedom > max(most_freedom * n, freedom[-1])] = np.inf
            least = errors.min(axis=1, keepdims=True)
            chosen = (errors <= (1.0 + excess) * least).argmax(axis=1)  # weights ascend
            inverse = 1.0 / shrunk[:, chosen]
            tried = least[:, 0]
            if held is not None:
                every = (vectors @ (c / one[:, None]) for one in shrunk.T)
                missed = [held.missed(mean, some, targets, slopes) for slopes in every]
                tried = np.where(np.isfinite(errors.T), missed, np.inf).min(axis=0)
            padded = np.zeros((len(regressors), len(s)))
            padded[kept] = vectors
            at = np.arange(len(targets)), chosen
            share = np.zeros(len(targets))
            np.divide(left[at], variances, out=share, where=variances > 0.0)
            slopes = padded @ (c * inverse)
            return padded, inverse / n, tried, slopes, errors[at], least[:, 0], share

        kept = [~np.isin(regressors, one) for one in left_out] or [np.full(len(regressors), True)]
        vectors, spread, tried, *others = zip(*map(on, kept), strict=True)
        # The best of them on the same rows, for every target.
        better = np.argmin(others[2], axis=0) == np.arange(len(kept))[:, None]
        slopes, errors, least, left = (np.select(better, one) for one in others)
        return Ridges(
            mean=mean[regressors],
            slopes=slopes,
            target_mean=mean[targets],
            vectors=np.hstack(vectors),
            spread=np.vstack([one * at for one, at in zip(spread, better, strict=True)]),
            errors=errors,
            least=least,
            tried=np.min(tried, axis=0),
            left=left,
            variances=variances,
            rows=n,
        )

    def explained(self, targets: slice | Indices = slice(None)) -> float:
        """The share of the variance of some targets together that is explained, at least 0."""
        whole = float(self.variances[targets].sum())
        return max(0.0, 1.0 - float(self.errors[targets].sum()) / whole) if whole > 0.0 else 0.0

    def residuals(self, regressors: Vector, targets: Vector) -> Vector:
        """Residuals of targets (b, t), of regressors (b, p)."""
        return targets - self.target_mean - (regressors - self.mean) @ self.slopes

    def unlevered(self, regressors: Vector) -> Vector:
        """1 - h of rows, with h the leverage: the share of a target in its own prediction.

        Parameters
        ----------
        regressors : ndarray, shape (b, p)
            Regressors of rows that the regression is fitted to.

        Returns
        -------
        ndarray, shape (b, t)
            At least 0.1.
        """
        turned = (regressors - self.mean) @ self.vectors
        # h_i = 1 / n + x_i' (S + w P)^-1 x_i / n.
        leverage = 1.0 / self.rows + np.square(turned, out=turned) @ self.spread
        return np.maximum(1.0 - leverage, _LEAST_LEFT)


def _diagonalised(
    gram: Vector, penalties: Sequence[Vector] | None
) -> tuple[Vector, Vector, Vector]:
    """V, s and m with V'GV = diag(s) and V'PV = diag(m), without directions that have neither."""
    if penalties is None:
        s, vectors = scipy.linalg.eigh(gram, check_finite=False)
        # Below that the variance of a direction is rounding.
        varied = s > len(s) * np.finfo(np.float64).eps * s.max(initial=0.0)
        return vectors[:, varied], s[varied], np.ones(np.count_nonzero(varied))
    blocks, start = [np.empty((0, 0))], 0
    for penalty in penalties:
        stop = start + len(penalty)
        # Units of a column must not decide how smooth its function is.
        blocks.append(penalty * (np.trace(gram[start:stop, start:stop]) / np.trace(penalty)))
        start = stop
    penalty = np.asarray(scipy.linalg.block_diag(*blocks))
    total, directions = np.linalg.eigh(gram + penalty)
    # Splines of a column add up to a constant, so that G + P is singular before anything is fitted.
    kept = total > _RANK * total.max(initial=0.0)
    # (G + P)^(-1/2) in the directions that are left.
    whitened = directions[:, kept] / np.sqrt(total[kept])
    m, rotation = np.linalg.eigh(whitened.T @ penalty @ whitened)
    m = np.clip(m, 0.0, 1.0)  # rounding may leave them a little outside
    return whitened @ rotation, 1.0 - m, m
