"""Regressions whose residuals are tested."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, Literal, Protocol, get_args, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dhsic._validation import check_integer, named_arguments, nearest, shown
from dhsic.causal.splines import Splines
from dhsic.errors import InvalidArgumentError, require

Vector = NDArray[np.float64]

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
