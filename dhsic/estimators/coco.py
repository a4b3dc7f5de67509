"""COCO: the largest covariance of smooth functions of two variables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from dhsic import plots
from dhsic._validation import check_choice
from dhsic.engine.session import Session
from dhsic.estimators.features import OnLandmarks
from dhsic.kernels import Kernel
from dhsic.nulls import Permutation, Shifts
from dhsic.report import Pictures
from dhsic.results import AS_ASKED, BarResult, kernel_text
from dhsic.statistics.features import Features
from dhsic.statistics.outer import Measure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class WitnessFunction:
    """A function in the RKHS of a kernel, f(x) = sum_j weights_j k(x, z_j).

    Parameters
    ----------
    kernel : Kernel
        As fitted.
    points : ndarray, shape (r, d)
        z_j.
    weights : ndarray, shape (r,)
        Those of a function of norm 1.

    References
    ----------
    .. [1] A. Gretton, R. Herbrich, A. Smola, O. Bousquet, B. Schoelkopf. Kernel methods for
       measuring independence. JMLR 6, 2005.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.kernels import Linear
    >>> f = WitnessFunction(Linear(), np.array([[2.0]]), np.array([0.5]))
    >>> f(np.array([[3.0], [4.0]]))
    array([3., 4.])
    """

    kernel: Kernel
    points: Vector
    weights: Vector

    def __call__(self, x: NDArray[Any]) -> Vector:
        """Values at rows: (n, d) to (n,)."""
        values: Vector = self.kernel(x, self.points) @ self.weights
        return values


@dataclass(frozen=True, eq=False, repr=False)
class WitnessFunctions(BarResult):
    """The functions of two variables whose covariance is largest.

    Parameters
    ----------
    coco : float
        Their covariance over the data.
    first, second : WitnessFunction
        Callables from rows (n, d) to values (n,), each of norm 1 in the RKHS of its kernel; both
        may change sign together.
    estimator_reason : str
        Why the estimator, and why fewer landmarks than usual where the usual ones do not fit.

    References
    ----------
    .. [1] A. Gretton, A. Smola, O. Bousquet, R. Herbrich, A. Belitski, M. Augath, Y. Murayama,
       J. Pauls, B. Schoelkopf, N. Logothetis. Kernel constrained covariance for dependence
       measurement. AISTATS 2005.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x = np.random.default_rng(0).standard_normal(200)
    >>> found = dhsic.witness_functions(x, x, kernels="linear", rng=0)
    >>> print(round(found.coco / x.var(), 6))
    1.0
    """

    _tabular: ClassVar[bool] = True

    coco: float
    first: WitnessFunction
    second: WitnessFunction
    estimator_reason: str = AS_ASKED

    def summary(self) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads."""
        both = (("first", self.first), ("second", self.second))
        reason = [] if self.estimator_reason == AS_ASKED else [("estimator", self.estimator_reason)]
        return [
            ("COCO", f"{self.coco:.6g}"),
            *(
                (name, f"{kernel_text(f.kernel.spec())}, {len(f.points):,} points")
                for name, f in both
            ),
            *reason,
        ]

    def records(self) -> list[dict[str, Any]]:
        """Every point of both functions with its weight and the value of the function there."""
        both = (("first", self.first), ("second", self.second))
        return [
            {"function": name, "point": j, "weight": weight, "value": value}
            for name, f in both
            for j, (weight, value) in enumerate(
                zip(f.weights.tolist(), f(f.points).tolist(), strict=True)
            )
        ]

    def plot(self, ax: Axes | None = None, *, of: str = "first") -> Axes:
        """A function of one or two columns as a line or colours; of more, its largest values.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure where not given.
        of : {"first", "second"}, optional
            The function.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        InvalidArgumentError
            Another word.
        MissingDependencyError
            matplotlib is not installed.
        """
        function = getattr(self, check_choice("of", of, ("first", "second")))
        if function.points.shape[1] > 2:
            return super().plot(ax)
        columns = range(function.points.shape[1])
        names = [f"{of} variable"] if len(columns) == 1 else [f"{of}[{j}]" for j in columns]
        return plots.witness_function(function, function.points, names=names, ax=ax)

    def _pictures(self) -> Pictures:
        both = ("first", "second")
        return {f"The {of} function over its points.": partial(self.plot, of=of) for of in both}

    def _bars(self) -> tuple[Sequence[str], Sequence[float], str]:
        rows = sorted(self.records(), key=lambda row: -abs(row["value"]))
        names = [f"{row['function']}, point {row['point']}" for row in rows]
        return names, [row["value"] for row in rows], "values of the functions at their points"


def squared_largest_singular_values(cross: NDArray[Any]) -> Vector:
    """For every cross-covariance C: (b, D_1, D_2) to (b,).

    The largest eigenvalues of C C' or C'C, whichever is smaller, which takes half the time.
    """
    turned = cross.swapaxes(1, 2)
    gram = cross @ turned if cross.shape[1] <= cross.shape[2] else turned @ cross
    # Rounding may leave it below 0 where C is 0.
    values: Vector = np.maximum(np.linalg.eigvalsh(gram)[:, -1], 0.0)
    return values


@final
@dataclass(frozen=True)
class COCO(OnLandmarks):
    """The largest covariance of functions in the unit balls of their RKHS, for two variables.

    It is the largest singular value of the cross-covariance of the features of `NystromHSIC`, of
    which HSIC is the sum of squares ([1] section 4.1). The test statistic is n COCO^2, whose
    null distribution has a limit, as that of n HSIC.

    Parameters
    ----------
    n_landmarks : int or str, optional
        Landmarks to draw for either variable: a number, or a multiple of sqrt(n) as "2sqrt".
        With all rows COCO is exact.
    replace : bool, optional
        Draw landmarks with replacement.
    tolerance : float, optional
        As in `NystromHSIC`.

    Raises
    ------
    InvalidArgumentError
        A number of landmarks, a tolerance or `replace` that cannot be.

    References
    ----------
    .. [1] A. Gretton. Notes on mean embeddings and covariance operators. 2020, section 4.1.
    .. [2] A. Gretton, R. Herbrich, A. Smola, O. Bousquet, B. Schoelkopf. Kernel methods for
       measuring independence. JMLR 6, 2005.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x, noise = np.random.default_rng(0).standard_normal((2, 500))
    >>> result = dhsic.independence_test(x, x**2 + noise, estimator=COCO(n_landmarks=100), rng=0)
    >>> result.pvalue < 0.01
    True
    """

    name: ClassVar[str] = "coco"
    nulls: ClassVar[tuple[type[Any], ...]] = (Shifts, Permutation)
    takes_one_kernel: ClassVar[bool] = True
    measure: ClassVar[Measure] = Measure("COCO", squared_largest_singular_values, math.sqrt)

    def witness_functions(self, session: Session, kernels: Sequence[Kernel]) -> WitnessFunctions:
        """The functions of unit norm whose covariance is COCO, in one pass.

        Parameters
        ----------
        session : Session
            The run, over two variables.
        kernels : sequence of Kernel
            One a variable.

        Returns
        -------
        WitnessFunctions
        """
        fitted = self.fit(session, kernels)
        # The largest singular value is COCO, and its vectors are the functions that reach it
        # (Gretton 2020, section 4.1).
        left, values, right = np.linalg.svd(fitted.moments.covariance(0, 1), full_matrices=False)
        first, second = (
            # The function u' L^-1 k(z, .) has the weights L^-T u at the landmarks.
            WitnessFunction(kernel, _points(features), features.inverse.T @ u)
            for kernel, features, u in zip(
                fitted.estimate.kernels, fitted.drawn.features, (left[:, 0], right[0]), strict=True
            )
        )
        return WitnessFunctions(float(values[0]), first, second)


def _points(features: Features) -> Vector:
    assert features.landmarks is not None
    rows, kept = features.landmarks
    points: Vector = rows[kept]
    return points
