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
from dhsic.regression.ridge import Bound, Ridges, SumsByFold

Vector = NDArray[np.float64]
Indices = NDArray[np.intp]

_LANDMARKS = 128
_QUANTILES = 48
_MOST_DIRECTIONS = 6  # of x and of y
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
    """The most features that a test takes, from shapes alone."""

    given: int
    """Of what is given."""
    first: Bound
    """Of the first pass: besides x, y and their columns that are predicted."""
    second: Bound
    """Of the second: besides functions of either variable's predictions, x at weights and y."""
    regressors: int
    """Those of x or of y."""
    ways: int
    """Regressions that each of them takes the best of."""
    products: int
    """Products of the residuals of x and of y, at all weights."""

    @property
    def regressed_bytes(self) -> int:
        """Bytes of the regressions of x and of y."""
        p, t = self.regressors, _MOST_DIRECTIONS
        return 2 * 8 * (self.ways * p * (p + t) + p * t)

    @classmethod
    def of(
        cls, dims: Sequence[int], kinds: Sequence[str], predicted: Sequence[Sequence[int]]
    ) -> Self:
        """Those of x and y of so many columns, of which some are predicted by columns of kinds."""
        numbers, d = sum(kind == "number" for kind in kinds), len(kinds)
        products = numbers * (numbers + 1) // 2 if d > 1 else 0
        given = numbers + products * (products <= _MOST_PRODUCTS) + _most_projections(d)
        predictions = [_PREDICTIONS + min(len(at), _PREDICTIONS) for at in predicted]
        own = [_most_projections(count) for count in predictions]
        weights = 1 + _MOST_WEIGHTS
        tested, at_weights = 2 * _MOST_DIRECTIONS, _MOST_DIRECTIONS * (1 + weights)
        first = given + tested + sum(map(len, predicted))
        second = given + sum(own) + at_weights
        # Kernels at landmarks of one variable at a time, with the tiles of their work.
        widest = max(_LANDMARKS, d * _landmarks_of_a_column(d))
        row = 8 * (5 * widest + 3 * (sum(dims) + d) + 2 * tested)
        payload = 16 * given**2 + 8 * 3 * _LANDMARKS * (_MOST_DIRECTIONS + sum(dims) + 2 * d)
        later = payload + sum(
            8 * (3 * given * k + 2 * size**2) for k, size in zip(predictions, own, strict=True)
        )
        return cls(
            given,
            Bound(first, payload, row + 8 * (2 * given + first)),
            Bound(second, later, row + 8 * (3 * given + 3 * sum(own) + 2 * second)),
            given + max(own),
            4 if d > 1 else 1,
            _MOST_DIRECTIONS**2 * weights,
        )


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
        one = sample.shape[1] == 1 and not kernel.nominal
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
    def whole(cls, features: Any, factor: Vector, sample: Vector) -> Self:
        """Nystrom features L^-1 k, about their mean in a sample."""
        centre = np.asarray(features(sample), np.float64).mean(axis=0)
        return cls(features, centre, solve_lower(factor, np.eye(len(factor)), transposed=True))

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
    return tuple(Projection.whole(*one, sample) for one in found)


def _linear(sample: Vector, kinds: Sequence[str], dtype: DTypeLike) -> list[Projection]:
    """The columns of numbers, in units of their deviations, and products; none without any."""
    numbers = [j for j, kind in enumerate(kinds) if kind == "number"]
    if not numbers:
        return []
    columns = ColumnFeatures.of(sample, dtype)
    axes = np.eye(len(kinds))[:, numbers] * (_SLOPE / len(kinds) ** 0.5)
    found = [Projection(columns, columns(sample).mean(axis=0, dtype=np.float64), axes)]
    left, right = (np.array(numbers)[one] for one in np.triu_indices(len(numbers)))
    if len(kinds) > 1 and len(left) <= _MOST_PRODUCTS:
        products = ColumnProducts(columns, left, right)
        axes = np.eye(len(left)) / len(left) ** 0.5
        found.append(Projection(products, products(sample).mean(axis=0, dtype=np.float64), axes))
    return found


@dataclass(frozen=True)
class Centre:
    """The prediction of some columns of a variable by features of what is given.

    Parameters
    ----------
    at : tuple of int
        Numbers of the columns; the others stay as they are.
    mean : ndarray, shape (p,)
        Mean of the features.
    slopes : ndarray, shape (p, k)
        Coefficients, in units of the columns.
    """

    at: tuple[int, ...] = ()
    mean: Vector = field(default_factory=lambda: np.zeros(0))
    slopes: Vector = field(default_factory=lambda: np.zeros((0, 0)))

    def __call__(self, x: NDArray[Any], given: Vector) -> NDArray[Any]:
        """Rows (b, d) less their predictions from features (b, p) of what is given."""
        if not self.at:
            return x
        centred = x.astype(np.float64)
        centred[:, self.at] -= (given - self.mean) @ self.slopes
        return centred


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

    @property
    def products(self) -> Vector:
        """Features of x times the weights, shape (b, r_x r_w)."""
        return row_products(self.x, self.weights)


@dataclass(frozen=True)
class PredictedColumns:
    """Columns of a variable that are predicted, in units of their deviations.

    Parameters
    ----------
    at : tuple of int
        Their numbers.
    units : ColumnFeatures
        Centres and deviations of all columns of the variable.
    varied : int
        How many columns of the variable are not constant.
    """

    at: tuple[int, ...]
    units: ColumnFeatures
    varied: int

    @classmethod
    def of(cls, at: tuple[int, ...], sample: Vector, dtype: DTypeLike) -> Self:
        """In units of a sample (s, d)."""
        varied = int(np.count_nonzero(np.ptp(sample, axis=0)))
        return cls(at, ColumnFeatures.of(sample, dtype), varied)

    @property
    def size(self) -> int:
        """How many are predicted."""
        return len(self.at)

    def __call__(self, x: NDArray[Any]) -> Vector:
        """Columns of rows (b, d), shape (b, k)."""
        return np.asarray(self.units(x)[:, self.at], np.float64)

    def centre(self, ridges: Ridges, targets: slice) -> Centre:
        """The prediction by regressions, of which some targets are these columns."""
        slopes = ridges.slopes[:, targets] * self.units.scale[list(self.at)]
        return Centre(self.at, ridges.mean, slopes)


class FirstFits(NamedTuple):
    """First regressions on what is given, as far as they are of one variable."""

    ridges: Ridges
    """Those of both variables, by all rows."""
    folds: tuple[Ridges, ...]
    """The same by the rows outside of every fold, about the means of all rows."""
    features: slice
    """Targets that are features of the variable as it is."""
    columns: slice
    """Targets that are its columns."""
    centre: Centre
    """The prediction of its columns."""
    explained: float
    """Share of the variance of its columns that this explains, on average of those that vary."""
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
        ridges, features = fits.ridges, fits.features
        about = given - ridges.mean
        crossed = slice(features.start, min(features.start + _PREDICTIONS, features.stop))
        leading = ridges.slopes[:, crossed]
        own = _principal(about, ridges.slopes[:, fits.columns])
        spreads = [(about @ one).std(axis=0).max(initial=0.0) for one in (leading, own)]
        if min(spreads) > 0.0:  # so that the kernel of all predictions sees both kinds alike
            own = own * (spreads[0] / spreads[1])
        predictions = about @ np.append(leading, own, axis=1)
        # Predictions that are the same everywhere have no functions.
        varied = np.ptp(predictions, axis=0) > 0.0
        predictions = predictions[:, varied]
        kinds = ("number",) * predictions.shape[1]
        parts = projections(predictions, kinds, dtype) if kinds else ()
        slopes = np.array([np.append(one.slopes[:, crossed], own, axis=1) for one in fits.folds])
        linear = _linear_parts(parts, predictions)
        return cls(ridges.mean, slopes[:, :, varied], parts, linear)

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


class Places(NamedTuple):
    """Numbers of the columns of `ConditionalDesign.joined`."""

    given: Indices
    own_x: Indices
    own_y: Indices
    x: Indices
    """Features of x, in the second pass times the weights."""
    y: Indices


@dataclass(frozen=True)
class ConditionalDesign:
    """Features of all variables of a conditional test.

    Parameters
    ----------
    x, y : Projection
        Principal directions of their kernels.
    given : tuple of Projection
        Features on which they are regressed: the columns, products of two, kernels of every column
        by itself, wide and narrow, and of all columns together where there are several.
    weights : Projection
        Principal directions of the kernel of all given columns.
    columns : tuple of PredictedColumns
        Columns of x and of y that the first pass predicts.
    dtype : dtype
        Precision of the kernels.
    centres : tuple of Centre
        Predictions of x and of y, about which their kernels see them in the second pass.
    indices : tuple of Index
        Regressors of x and of y alone, in the second pass.
    """

    x: Projection
    y: Projection
    given: tuple[Projection, ...]
    weights: Projection
    columns: tuple[PredictedColumns, ...]
    dtype: DTypeLike
    centres: tuple[Centre, ...] = (Centre(), Centre())
    indices: tuple[Index, ...] = ()

    @classmethod
    def of(
        cls,
        kernels: Sequence[Kernel],
        samples: Sequence[Vector],
        kinds: Sequence[str],
        predicted: Sequence[tuple[int, ...]],
        dtype: DTypeLike,
    ) -> Self:
        """Features of x and y as they are, with their columns.

        Parameters
        ----------
        kernels : sequence of Kernel
            Those of x and y, fitted.
        samples : sequence of ndarray, shapes (s, d_x), (s, d_y) and (s, d_z)
            Rows of x, of y and of all given columns, drawn independently.
        kinds : sequence of str
            Kinds of the given columns.
        predicted : sequence of tuple of int
            Columns of x and of y.
        dtype : dtype
            Precision of the kernels.
        """
        *both, z = samples
        x, y = (
            Projection.principal(kernel, sample, _MOST_DIRECTIONS, dtype)
            for kernel, sample in zip(kernels, both, strict=True)
        )
        weights = Projection.principal(joint_kernel(kinds).fit(z), z, _MOST_WEIGHTS, dtype)
        given = (*_linear(z, kinds, dtype), *projections(z, kinds, dtype))
        columns = (PredictedColumns.of(*one, dtype) for one in zip(predicted, both, strict=True))
        return cls(x, y, given, weights, tuple(columns), dtype)

    def about(
        self,
        fits: Sequence[FirstFits],
        kernels: Sequence[Kernel],
        samples: Sequence[Vector],
        given: Vector,
    ) -> Self:
        """Features of x and y about their predictions, with regressors of either.

        Parameters
        ----------
        fits : sequence of FirstFits
            Those of x and of y.
        kernels : sequence of Kernel
            Those of x and y, fitted to the samples.
        samples : sequence of ndarray, shapes (s, d_x) and (s, d_y)
            Rows of x and of y, less their predictions.
        given : ndarray, shape (s, p)
            Features of rows of what is given.
        """
        x, y = (
            Projection.principal(kernel, sample, _MOST_DIRECTIONS, self.dtype)
            for kernel, sample in zip(kernels, samples, strict=True)
        )
        indices = tuple(Index.of(one, given, self.dtype) for one in fits)
        centres = tuple(one.centre for one in fits)
        return replace(self, x=x, y=y, centres=centres, indices=indices)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Numbers of features of x, of y, and of what is given."""
        return self.x.size, self.y.size, sum(one.size for one in self.given)

    @cached_property
    def places(self) -> Places:
        """Numbers of the features, side by side."""
        r_x, r_y, p = self.sizes
        own = [one.size for one in self.indices or self.columns]
        at_weights = r_x * (1 + self.weights.size if self.indices else 1)
        counts = np.cumsum([p, *own, at_weights, r_y])
        return Places(*np.split(np.arange(counts[-1]), counts[:-1]))

    @property
    def size(self) -> int:
        """Number of features, side by side."""
        return sum(map(len, self.places))

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

    def __call__(self, values: Sequence[NDArray[Any]], fold: int) -> FeatureRows:
        """Features of rows of a fold, of x, y and every given variable."""
        *both, z = *values[:2], np.concatenate(values[2:], axis=1)
        given = self.of_given(z)
        if self.indices:
            own_x, own_y = (one(given, fold) for one in self.indices)
        else:
            own_x, own_y = (one(x) for one, x in zip(self.columns, both, strict=True))
        # The constant comes first, so that the plain products are among those with weights.
        weights = np.concatenate([np.ones((len(z), 1)), self.weights(z)], axis=1)
        x, y = (centre(one, given) for centre, one in zip(self.centres, both, strict=True))
        return FeatureRows(given, own_x, own_y, self.x(x), self.y(y), weights)

    def of_given(self, z: NDArray[Any]) -> Vector:
        """Features of rows (b, d_z) of all given columns, shape (b, p)."""
        return np.concatenate([one(z) for one in self.given], axis=1)

    def joined(self, values: Sequence[NDArray[Any]], fold: int) -> Vector:
        """Side by side: of what is given, own ones of x and of y, of x, of y."""
        rows = self(values, fold)
        x = rows.products if self.indices else rows.x
        return np.concatenate([*rows[:3], x, rows.y], axis=1)

    def first_fits(self, sums: SumsByFold) -> tuple[FirstFits, FirstFits]:
        """Regressions of x and of y, by the sums of the first pass."""
        given, *parts = self.places
        targets, left_out = np.concatenate(parts), self.left_out
        whole = sums.whole()
        ridges = Ridges.fit(whole, given, targets, left_out=left_out)
        errors, folds = np.zeros(len(targets)), []
        for others, held in sums.splits():
            fold = Ridges.fit(others, given, targets, left_out=left_out, held=held)
            errors += held.rows / whole.rows * fold.tried
            folds.append(replace(fold, mean=ridges.mean))
        half = replace(ridges, errors=errors)

        def gain(at: slice) -> float:
            return max(0.0, ridges.explained(at) - half.explained(at))

        def of(columns: slice, features: slice, one: PredictedColumns) -> FirstFits:
            share = ridges.explained(columns) * one.size / max(one.varied, 1)
            gained = gain(features)
            # Far values of columns feign a gain that features, which are bounded, do not show.
            if one.size:
                gained = min(gain(columns), _OF_FEATURES * gained)
            centre = one.centre(ridges, columns)
            return FirstFits(ridges, tuple(folds), features, columns, centre, share, gained)

        ends = np.cumsum([0, *map(len, parts)])
        own_x, own_y, x, y = (slice(*ends[k : k + 2]) for k in range(4))
        return of(own_x, x, self.columns[0]), of(own_y, y, self.columns[1])
