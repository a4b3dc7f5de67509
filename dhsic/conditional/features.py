"""Features of the variables of a conditional test: few of x and y, many of what is given.

*Features of what is given that suit one variable* are functions of its first predictions. The
features of x are many functions of one thing, as of a sum of functions of z and noise. All that
z says of it is in the predictions of the two features that vary most, found with few degrees of
freedom; functions of these two serve all features. Where the features are of x less its own
prediction, they depend on z by that prediction too, errors and all, so that it joins the two.
Predictions of x serve x alone, so that given z and under the null hypothesis the residuals of x
and of y stay independent.

The predictions of features, of a row, are by regressions on the rows of the other folds
([1] section 3). Regressors that rows choose take more of these rows' noise than leverages tell,
which count functions that are linear in given regressors alone ([2] section 2). That of the
variable itself is the one that its features are about, by all rows.
The functions stand less their linear parts. The features of z hold the predictions by all rows,
which differ from those by other folds by a sum over the noise of the fold's own rows, so that with
both the second regression would predict this noise.

References
----------
.. [1] V. Chernozhukov, D. Chetverikov, M. Demirer, E. Duflo, C. Hansen, W. Newey, J. Robins.
   Double/debiased machine learning for treatment and structural parameters. Econometrics Journal
   21, 2018.
.. [2] J. Ye. On measuring and correcting the effects of data mining and model selection. JASA 93,
   1998.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import scipy
from numpy.typing import DTypeLike, NDArray

from dhsic.engine.blocks import ValueKind
from dhsic.features import ColumnFeatures, KernelFeatures, LandmarksByColumn, rows_at_quantiles
from dhsic.kernels import Columns, Gaussian, Kernel, OnColumns, by_column, by_type
from dhsic.linalg import pivoted_cholesky, row_products, solve_lower
from dhsic.regression.ridge import Ridges, SecondMoments

Vector = NDArray[np.float64]
Indices = NDArray[np.intp]

_LANDMARKS = 128
_QUANTILES = 48
MOST_DIRECTIONS = 6  # of x and of y
_MOST_WEIGHTS = 3  # besides the constant
_SHARE = 0.999  # of the variance of a kernel
_TOLERANCE = 1e-8
_WIDTHS = (1.0, 0.3)  # of the median heuristic
_SLOPE = 2.0  # deviation of a column where that of a kernel is less than 1
_OF_A_COLUMN = (4, 24)
_OF_ALL_COLUMNS = 120
_MOST_PRODUCTS = 210  # of 20 columns
_FAR = 6.0  # deviations of a column, beyond which products hardly grow
_MOST_COLUMNS = 64
_PREDICTIONS = 2  # of features, and as many of columns
_OF_FEATURES = 2.0  # they gain less than columns do
_LEVERED_ROWS = 50  # for each regressor


def joint_kernel(kinds: Sequence[str]) -> Kernel:
    """The kernel of all columns of some kinds at once, each in units of its deviation.

    As they are, a column of large numbers would hide the others: distances would be its own.
    """
    kernel = by_type(kinds, Gaussian())
    return kernel if len(kinds) == 1 else OnColumns(kernel, tuple(range(len(kinds))), scaled=True)


def centred_columns(
    kernel: Kernel, kinds: Sequence[ValueKind], sample: Vector | None = None
) -> tuple[int, ...]:
    """The columns of a variable that its kernel sees about their predictions.

    They are numbers whose distances have a length in the kernel, and most of whose values differ:
    what is left of few values, as of a flag or a count, tells of the predictions more than of
    the values. None of more than 64, whose products with each other would fill the memory.

    Parameters
    ----------
    kernel : Kernel
        That of the variable.
    kinds : sequence of str
        Kinds of its columns.
    sample : ndarray, shape (s, d), optional
        Rows; without any, values count as different, which is the most that there can be.

    Returns
    -------
    tuple of int
    """
    measured = sorted(kernel.measured(len(kinds))) if kernel.has_length else []
    numbers = [j for j in measured if kinds[j] == "number"]
    if sample is not None:
        numbers = [j for j in numbers if 2 * len(np.unique(sample[:, j])) > len(sample)]
    return tuple(numbers) if len(numbers) <= _MOST_COLUMNS else ()


class Sizes(NamedTuple):
    """The most that the designs of a test take, from shapes alone."""

    given: int
    """Features of what is given."""
    passes: tuple[int, int, int]
    """Features of a row in each pass."""
    payload: int
    """Bytes of a design."""
    row: int
    """Bytes that a row needs besides its features."""

    @classmethod
    def of(
        cls, dims: Sequence[int], kinds: Sequence[str], predicted: Sequence[Sequence[int]], n: int
    ) -> Self:
        """Those of n rows, of which columns of x and y are predicted by given columns of kinds."""
        numbers, d = sum(kind == "number" for kind in kinds), len(kinds)
        products = numbers * (numbers + 1) // 2 if d > 1 else 0
        given = numbers + products * (products <= _MOST_PRODUCTS) + _most_projections(d)
        predictions = [_PREDICTIONS + min(len(at), _PREDICTIONS) for at in predicted]
        own = [_most_projections(count) for count in predictions]
        t, weights = MOST_DIRECTIONS, 1 + _MOST_WEIGHTS
        # Besides what is given: x, y and their columns that are predicted; then functions of the
        # predictions of either, x at weights and y; then products of residuals at all weights.
        first = given + 2 * t + sum(map(len, predicted))
        second = given + sum(own) + t * (1 + weights)
        p, ways, m = given + max(own), 4 if d > 1 else 1, t**2 * weights
        # Kernels at landmarks of one variable at a time, with the tiles of their work.
        widest = max(_LANDMARKS, d * _landmarks_of_a_column(d))
        row = 5 * widest + 3 * (sum(dims) + d + given + sum(own) + m) + 4 * t
        row += 2 * max(first, second) + (2 + ways) * p
        payload = 2 * given**2 + 3 * _LANDMARKS * (t + sum(dims) + 2 * d)
        payload += sum(
            3 * given * k + 2 * size**2 for k, size in zip(predictions, own, strict=True)
        )
        # Every regression is the best of some, of which each has its vectors.
        payload += 2 * (ways * p * (p + t) + p * t)
        return cls(given, (first, second, m * (1 + levered(n, p)) + 1), 8 * payload, 8 * row)


def levered(n: int, p: int) -> bool:
    """Whether leverages count: beyond 50 rows a regressor they have a mean of at most 1/50."""
    return n <= _LEVERED_ROWS * p


def _most_projections(d: int) -> int:
    """The most that `projections` finds of d columns."""
    return len(_WIDTHS) * d * _landmarks_of_a_column(d) + (_LANDMARKS if d > 1 else 0)


def _landmarks_of_a_column(d: int) -> int:
    return min(max(_OF_ALL_COLUMNS // d, _OF_A_COLUMN[0]), _OF_A_COLUMN[1])


@dataclass(frozen=True)
class ColumnProducts:
    """Products of two columns of numbers, squares among them, which far values do not rule.

    Parameters
    ----------
    columns : ColumnFeatures
        Columns in units of their deviations.
    left, right : ndarray of int
        Numbers of the two columns of every product.
    """

    columns: ColumnFeatures
    left: Indices
    right: Indices

    def __call__(self, x: NDArray[Any]) -> NDArray[Any]:
        """Map rows (b, d) to products (b, D)."""
        units = self.columns(x)
        units /= np.sqrt(1.0 + np.square(units / _FAR))
        return units[:, self.left] * units[:, self.right]


@dataclass(frozen=True)
class Projection:
    """Linear functions of features, about their mean in a sample.

    Parameters
    ----------
    map : callable
        D numbers of rows, as a kernel at landmarks.
    centre : ndarray, shape (D,)
        Subtracted.
    axes : ndarray, shape (D, r)
        A column times the centred kernel is a function.
    """

    map: Callable[[NDArray[Any]], NDArray[Any]]
    centre: Vector
    axes: Vector

    @classmethod
    def principal(cls, kernel: Kernel, sample: Vector, most: int, dtype: DTypeLike) -> Self:
        """The directions of a kernel that vary most in a sample, at most so many.

        Parameters
        ----------
        kernel : Kernel
            Fitted.
        sample : ndarray, shape (s, d)
            Rows, of which the first are the landmarks; of a single number quantiles are.
        most : int
            Directions; fewer where they hold 99.9 % of the variance.
        dtype : dtype
            Precision of the kernel.

        Returns
        -------
        Projection
            Uncorrelated in the sample, with the variances of the directions.
        """
        one = sample.shape[1] == 1 and bool(kernel.measured(1))
        rows = rows_at_quantiles(sample[:, 0], _QUANTILES) if one else slice(_LANDMARKS)
        landmarks = sample[rows]
        features, factor = _at_landmarks(kernel, landmarks, dtype)
        values = np.asarray(features(sample), np.float64)
        centre = values.mean(axis=0)
        # L^-1 k about its mean, whose covariance has the eigenvalues of the kernel.
        whitened = solve_lower(factor, (values - centre).T)
        variances, vectors = scipy.linalg.eigh(whitened @ whitened.T / len(sample))
        # `eigh` sorts them ascending: the last ones lead.
        shares = np.cumsum(variances[::-1]) / variances.sum()
        count = min(most, int(np.searchsorted(shares, _SHARE)) + 1, len(shares))
        leading = vectors[:, ::-1][:, :count]
        return cls(features, centre, solve_lower(factor, leading, transposed=True))

    @classmethod
    def about(cls, features: Any, axes: Vector, sample: Vector) -> Self:
        """Linear functions of features about their mean in a sample."""
        return cls(features, np.asarray(features(sample), np.float64).mean(axis=0), axes)

    @property
    def size(self) -> int:
        """Number of functions, r."""
        return int(self.axes.shape[1])

    def __call__(self, x: NDArray[Any]) -> Vector:
        """The functions of rows (b, d), shape (b, r)."""
        values: Vector = np.subtract(self.map(x), self.centre, dtype=np.float64) @ self.axes
        return values


def _at_landmarks(
    kernel: Kernel, landmarks: Vector, dtype: DTypeLike
) -> tuple[KernelFeatures, Vector]:
    """A kernel at those landmarks that span the others, and the factor of their Gram matrix."""
    kept = pivoted_cholesky(kernel(landmarks), _TOLERANCE).in_order()
    return KernelFeatures.at(landmarks[kept.kept], kernel, dtype), kept.factor


def projections(sample: Vector, kinds: Sequence[str], dtype: DTypeLike) -> tuple[Projection, ...]:
    """Nystrom features of every column by itself, wide and narrow, and of several together.

    Parameters
    ----------
    sample : ndarray, shape (s, d)
        Rows, of which the first are landmarks.
    kinds : sequence of str
        Kinds of the columns.
    dtype : dtype
        Precision of the kernels.
    """
    d = len(kinds)
    single = by_column(kinds, Columns(Gaussian())).fit(sample)
    widths = [single.widened(one) for one in _WIDTHS] if single.has_length else [single]
    count = _landmarks_of_a_column(d)
    found: list[tuple[Any, Vector]] = [
        LandmarksByColumn.of(one, sample, count, _TOLERANCE, dtype) for one in widths
    ]
    if d > 1:
        found.append(_at_landmarks(joint_kernel(kinds).fit(sample), sample[:_LANDMARKS], dtype))
    # Nystrom features L^-1 k.
    return tuple(
        Projection.about(
            features, solve_lower(factor, np.eye(len(factor)), transposed=True), sample
        )
        for features, factor in found
    )


def _linear(sample: Vector, kinds: Sequence[str], dtype: DTypeLike) -> list[Projection]:
    """The columns of numbers, in units of their deviations, and products; none without any."""
    numbers = [j for j, kind in enumerate(kinds) if kind == "number"]
    if not numbers:
        return []
    columns = ColumnFeatures.of(sample, dtype)
    axes = np.eye(len(kinds))[:, numbers] * (_SLOPE / len(kinds) ** 0.5)
    found = [Projection.about(columns, axes, sample)]
    left, right = (np.array(numbers)[one] for one in np.triu_indices(len(numbers)))
    if len(kinds) > 1 and len(left) <= _MOST_PRODUCTS:
        axes = np.eye(len(left)) / len(left) ** 0.5
        found.append(Projection.about(ColumnProducts(columns, left, right), axes, sample))
    return found


class FeatureRows(NamedTuple):
    """Features of some rows."""

    given: Vector
    """Of what is given, shape (b, p)."""
    own_x: Vector
    """Regressors of x alone, or in the first pass its columns, shape (b, k_x)."""
    own_y: Vector
    """The same of y, shape (b, k_y)."""
    x: Vector
    """Shape (b, r_x)."""
    y: Vector
    """Shape (b, r_y)."""
    weights: Vector
    """The constant 1 and functions of what is given, shape (b, r_w)."""


class FirstFits(NamedTuple):
    """First regressions of one variable on features (b, p) of what is given."""

    mean: Vector
    """Mean of these features, shape (p,)."""
    columns: Vector
    """Slopes of its columns, in units of their deviations, shape (p, k)."""
    leading: Vector
    """Slopes of the features of it that vary most, at most two, shape (p, 2)."""
    crossed: tuple[Vector, ...]
    """The same by the rows outside of every fold."""
    explained: float
    """Share of the variance of its columns that this explains."""
    gained: float
    """How much more of it all rows explain than the rows of other folds do of a fold's."""


@dataclass(frozen=True)
class Index:
    """Features of the predictions of the leading features and of the columns of one variable.

    Parameters
    ----------
    mean : ndarray, shape (p,)
        Mean of the features of what is given.
    slopes : ndarray, shape (FOLDS, p, k)
        Coefficients of the predictions of the rows of every fold, at most two of features, by the
        rows of other folds, and two of columns, which are the same in every fold.
    parts : tuple of Projection
        Features of the predictions; none where they are constant.
    linear : ndarray, shape (k, size)
        Linear parts of the features in the predictions, which are taken off.
    """

    mean: Vector
    slopes: Vector
    parts: tuple[Projection, ...]
    linear: Vector

    @classmethod
    def of(cls, fits: FirstFits, given: Vector, dtype: DTypeLike) -> Self:
        """From first regressions, with landmarks among rows (s, p) of what is given."""
        about = given - fits.mean
        own = _principal(about, fits.columns)
        spreads = [(about @ one).std(axis=0).max(initial=0.0) for one in (fits.leading, own)]
        if min(spreads) > 0.0:  # so that the kernel of all predictions sees both kinds alike
            own = own * (spreads[0] / spreads[1])
        predictions = about @ np.append(fits.leading, own, axis=1)
        # Predictions that are the same everywhere have no functions.
        varied = np.ptp(predictions, axis=0) > 0.0
        predictions = predictions[:, varied]
        kinds = ("number",) * predictions.shape[1]
        parts = projections(predictions, kinds, dtype) if kinds else ()
        slopes = np.array([np.append(one, own, axis=1) for one in fits.crossed])
        linear = _linear_parts(parts, predictions)
        return cls(fits.mean, slopes[:, :, varied], parts, linear)

    @property
    def size(self) -> int:
        """Number of features."""
        return sum(one.size for one in self.parts)

    def __call__(self, given: Vector, fold: int) -> Vector:
        """Features of the predictions from given features (b, p) of a fold, shape (b, size)."""
        values = (given - self.mean) @ self.slopes[fold]
        functions: Vector = _joined(self.parts, values) - values @ self.linear
        return functions


def _joined(parts: tuple[Projection, ...], predictions: Vector) -> Vector:
    """Features of predictions (b, k), side by side."""
    none = np.empty((len(predictions), 0))
    return np.concatenate([none, *(one(predictions) for one in parts)], axis=1)


def _linear_parts(parts: tuple[Projection, ...], predictions: Vector) -> Vector:
    """Slopes (k, size) of regressions of the features on the predictions of rows (s, k)."""
    features, about = (one - one.mean(axis=0) for one in (_joined(parts, predictions), predictions))
    slopes: Vector = scipy.linalg.lstsq(about, features)[0]
    return slopes


def _principal(about: Vector, slopes: Vector) -> Vector:
    """The combinations of several predictions that vary most in rows (s, p), at most two."""
    if slopes.shape[1] <= _PREDICTIONS:
        return slopes
    predictions = about @ slopes
    _, vectors = scipy.linalg.eigh(predictions.T @ predictions)
    # `eigh` sorts them ascending.
    leading: Vector = slopes @ vectors[:, -_PREDICTIONS:]
    return leading


@dataclass(frozen=True)
class TestedFeatures:
    """Features of x or of y.

    Parameters
    ----------
    features : Projection
        Principal directions of its kernel.
    own : Projection or Index
        Its columns that the first pass predicts; regressors of it alone in the second.
    at : tuple of int
        Numbers of these columns; the others stay as they are.
    mean : ndarray, shape (p,)
        Mean of the features of what is given.
    slopes : ndarray, shape (p, k)
        Coefficients of the predictions of columns, about which its kernel sees it in the second
        pass; none in the first.
    """

    features: Projection
    own: Projection | Index
    at: tuple[int, ...]
    mean: Vector = field(default_factory=lambda: np.zeros(0))
    slopes: Vector = field(default_factory=lambda: np.zeros((0, 0)))

    @classmethod
    def of(cls, kernel: Kernel, sample: Vector, at: tuple[int, ...], dtype: DTypeLike) -> Self:
        """Those of rows (s, d) as they are, with columns in units of their deviations."""
        d = sample.shape[1]
        columns = Projection(ColumnFeatures.of(sample, dtype), np.zeros(d), np.eye(d)[:, at])
        return cls(Projection.principal(kernel, sample, MOST_DIRECTIONS, dtype), columns, at)

    def predicted(self, fits: FirstFits) -> Self:
        """With the prediction of its columns."""
        assert isinstance(self.own, Projection)
        units: Any = self.own.map
        return replace(self, mean=fits.mean, slopes=fits.columns * units.scale[list(self.at)])

    def centre(self, x: NDArray[Any], given: Vector) -> NDArray[Any]:
        """Rows (b, d) less their predictions from features (b, p) of what is given."""
        if not self.slopes.size:
            return x
        centred = x.astype(np.float64)
        centred[:, self.at] -= (given - self.mean) @ self.slopes
        return centred

    def about(
        self, fits: FirstFits, kernel: Kernel, left: Vector, given: Vector, dtype: DTypeLike
    ) -> Self:
        """Features about its predictions, with regressors of it alone.

        Parameters
        ----------
        fits : FirstFits
            Its own.
        kernel : Kernel
            Fitted to what is left.
        left : ndarray, shape (s, d)
            Rows less their predictions.
        given : ndarray, shape (s, p)
            Features of rows of what is given.
        dtype : dtype
            Precision of the kernels.
        """
        directions = Projection.principal(kernel, left, MOST_DIRECTIONS, dtype)
        return replace(self, features=directions, own=Index.of(fits, given, dtype))


@dataclass(frozen=True)
class ConditionalDesign:
    """Features of all variables of a conditional test, as a design.

    Parameters
    ----------
    sides : tuple of TestedFeatures
        Those of x and of y.
    given : tuple of Projection
        Features on which they are regressed: the columns, products of two, kernels of every column
        by itself, wide and narrow, and of all columns together where there are several.
    weights : Projection
        Principal directions of the kernel of all given columns.
    """

    sides: tuple[TestedFeatures, ...]
    given: tuple[Projection, ...]
    weights: Projection

    @classmethod
    def of(
        cls,
        sides: Sequence[TestedFeatures],
        z: Vector,
        kinds: Sequence[str],
        dtype: DTypeLike,
    ) -> Self:
        """Of rows (s, d_z) of all given columns, and their kinds."""
        weights = Projection.principal(joint_kernel(kinds).fit(z), z, _MOST_WEIGHTS, dtype)
        given = (*_linear(z, kinds, dtype), *projections(z, kinds, dtype))
        return cls(tuple(sides), given, weights)

    @property
    def second(self) -> bool:
        """Whether it is of the second pass, where features of x are taken at weights."""
        return isinstance(self.sides[0].own, Index)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Numbers of features of x, of y, and of what is given."""
        x, y = (side.features.size for side in self.sides)
        return x, y, sum(one.size for one in self.given)

    @cached_property
    def places(self) -> list[Indices]:
        """Numbers of the features of a row: of what is given, own ones of x and of y, of x, of y.

        Those of x are in the second pass its features times the weights.
        """
        x, y, p = self.sizes
        at_weights = x * (1 + self.weights.size if self.second else 1)
        counts = np.cumsum([p, *(side.own.size for side in self.sides), at_weights, y])
        return np.split(np.arange(counts[-1]), counts[:-1])

    @cached_property
    def left_out(self) -> tuple[Indices, ...]:
        """Features of what is given that each of several regressions does without.

        With many columns and few rows, kernels of all columns take the freedom that a sum of
        functions of each needs, and they follow products of two columns too slowly. So there are
        regressions on wide kernels of every column, on all kernels, and on products, with the wide
        kernels and without; one on everything where no columns stand together.
        """
        ends = np.cumsum([0, *(one.size for one in self.given)])
        every = [np.arange(*ends[k : k + 2]) for k in range(len(self.given))]
        maps = [one.map for one in self.given]
        products = [k for k, one in enumerate(maps) if isinstance(one, ColumnProducts)]
        wide, *finer = (
            k for k, one in enumerate(maps) if not isinstance(one, ColumnFeatures | ColumnProducts)
        )
        if not any(isinstance(one, KernelFeatures) for one in maps):
            return ()
        ways = [[*finer, *products], products, *([finer, [wide, *finer]] if products else [])]
        return tuple(
            np.concatenate([np.empty(0, np.intp), *(every[k] for k in one)]) for one in ways
        )

    def of_given(self, z: NDArray[Any]) -> Vector:
        """Features of rows (b, d_z) of all given columns, shape (b, p)."""
        return np.concatenate([one(z) for one in self.given], axis=1)

    def features(self, values: Sequence[NDArray[Any]], fold: int) -> FeatureRows:
        """Features of rows of a fold, of x, y and every given variable."""
        pairs, z = list(zip(self.sides, values, strict=False)), np.concatenate(values[2:], axis=1)
        given = self.of_given(z)
        own_x, own_y = (
            side.own(given, fold) if isinstance(side.own, Index) else side.own(x)
            for side, x in pairs
        )
        phi, psi = (side.features(side.centre(x, given)) for side, x in pairs)
        # The constant comes first, so that the plain products are among those with weights.
        weights = np.concatenate([np.ones((len(z), 1)), self.weights(z)], axis=1)
        return FeatureRows(given, own_x, own_y, phi, psi, weights)

    def __call__(self, values: Sequence[NDArray[Any]], fold: int) -> Vector:
        """Features of rows of a fold side by side, see `places`."""
        rows = self.features(values, fold)
        x = row_products(rows.x, rows.weights) if self.second else rows.x
        return np.concatenate([*rows[:3], x, rows.y], axis=1)

    def first_fits(self, sums: SecondMoments) -> list[FirstFits]:
        """Regressions of x and of y, by the sums of the first pass."""
        given, own_x, own_y, x, y = self.places
        targets, whole = np.concatenate([own_x, own_y, x, y]), sums.whole()
        ridges = Ridges.fit(whole, given, targets, left_out=self.left_out)
        errors, folds = np.zeros(len(targets)), []
        for others, held in sums.splits():
            fold = Ridges.fit(others, given, targets, left_out=self.left_out, held=held)
            errors += held.rows / whole.rows * fold.tried
            folds.append(fold)
        half, found = replace(ridges, errors=errors), []
        for own, features in ((own_x, x), (own_y, y)):
            # Places among all features are those among the targets, but for what is given.
            columns, every = own - len(given), features - len(given)
            gained, of_columns = (
                max(0.0, ridges.explained(at) - half.explained(at)) for at in (every, columns)
            )
            # Far values of columns feign a gain that features, which are bounded, do not show.
            if len(columns):
                gained = min(of_columns, _OF_FEATURES * gained)
            slopes, leading = ridges.slopes[:, columns], every[:_PREDICTIONS]
            crossed = tuple(fold.slopes[:, leading] for fold in folds)
            share = ridges.explained(columns)
            found.append(
                FirstFits(ridges.mean, slopes, ridges.slopes[:, leading], crossed, share, gained)
            )
        return found
