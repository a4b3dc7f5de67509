"""Features of the variables of a conditional test: few of x and y, many of what is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import scipy
from numpy.typing import DTypeLike, NDArray

from dhsic.conditional.centre import Centre
from dhsic.features import (
    ColumnFeatures,
    FeatureMap,
    KernelFeatures,
    LandmarksByColumn,
    at_quantiles,
)
from dhsic.kernels import Columns, Gaussian, Kernel, OnColumns, by_column, by_type
from dhsic.linalg import pivoted_cholesky, row_products, solve_lower

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

    @property
    def n_features(self) -> int:
        """Number of products."""
        return len(self.left)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Their precision."""
        return self.columns.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of all of it."""
        return self.columns.nbytes + 2 * self.left.nbytes

    def scratch(self, rows: int) -> int:
        """Bytes needed for so many rows besides the result."""
        width = 2 * self.n_features + 3 * self.columns.n_features
        return self.columns.scratch(rows) + 8 * rows * width

    def __call__(self, x: NDArray[Any]) -> NDArray[Any]:
        """Map rows (b, d) to products (b, D)."""
        units = self.columns(x)
        units /= np.sqrt(1.0 + np.square(units / _FAR))
        return units[:, self.left] * units[:, self.right]


_OF_NUMBERS = (ColumnFeatures, ColumnProducts)


@dataclass(frozen=True)
class Projection:
    """Linear functions of features, about their mean in a sample.

    Parameters
    ----------
    map : FeatureMap
        The kernel at D landmarks.
    centre : ndarray, shape (D,)
        Subtracted.
    axes : ndarray, shape (D, r)
        A column times the centred kernel is a function.
    """

    map: FeatureMap
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
        landmarks = at_quantiles(sample, _QUANTILES) if one else sample[:_LANDMARKS]
        kept = pivoted_cholesky(kernel(landmarks), _TOLERANCE).in_order()
        features = KernelFeatures.at(landmarks[kept.kept], kernel, dtype)
        values = np.asarray(features(sample), np.float64)
        centre = values.mean(axis=0)
        # L^-1 k about its mean, whose covariance has the eigenvalues of the kernel.
        whitened = solve_lower(kept.factor, (values - centre).T)
        variances, vectors = scipy.linalg.eigh(whitened @ whitened.T / len(sample))
        # `eigh` sorts them ascending: the last ones lead.
        shares = np.cumsum(variances[::-1]) / variances.sum()
        count = min(most, int(np.searchsorted(shares, _SHARE)) + 1, len(shares))
        leading = vectors[:, ::-1][:, :count]
        return cls(features, centre, solve_lower(kept.factor, leading, transposed=True))

    @classmethod
    def whole(cls, features: FeatureMap, factor: Vector, sample: Vector) -> Self:
        """Nystrom features L^-1 k, about their mean in a sample."""
        centre = np.asarray(features(sample), np.float64).mean(axis=0)
        return cls(features, centre, solve_lower(factor, np.eye(len(factor)), transposed=True))

    @classmethod
    def likely(cls, features: FeatureMap, count: int) -> Self:
        """One of so many functions that takes no memory, for plans."""
        d = features.n_features
        return cls(features, np.broadcast_to(0.0, (d,)), np.broadcast_to(0.0, (d, count)))

    @property
    def size(self) -> int:
        """Number of functions, r."""
        return int(self.axes.shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes of all of it."""
        return self.map.nbytes + 8 * (self.axes.size + self.centre.size)

    def scratch(self, rows: int) -> int:
        """Bytes needed for so many rows besides the result."""
        return self.map.scratch(rows) + 16 * rows * self.map.n_features

    def __call__(self, x: NDArray[Any]) -> Vector:
        """The functions of rows (b, d), shape (b, r)."""
        values = np.subtract(self.map(x), self.centre, dtype=np.float64)
        return values @ self.axes


class FeatureRows(NamedTuple):
    """Features of some rows."""

    x: Vector
    """Shape (b, r_x)."""
    y: Vector
    """Shape (b, r_y)."""
    given: Vector
    """The regressors of x and y, shape (b, p)."""
    weights: Vector
    """The constant 1 and functions of what is given, shape (b, r_w)."""

    @property
    def products(self) -> Vector:
        """Features of x times the weights, shape (b, r_x r_w)."""
        return row_products(self.x, self.weights)


@dataclass(frozen=True)
class ConditionalDesign:
    """Features of all variables of a conditional test.

    Parameters
    ----------
    x, y : Projection
        Principal directions of their kernels.
    centres : tuple of Centre
        Predictions of x and of y, about which their kernels see them.
    given : tuple of Projection
        Features on which they are regressed: the columns, products of two, kernels of every column
        by itself, wide and narrow, and of all columns together where there are several.
    weights : Projection
        Principal directions of the kernel of all given columns.
    """

    x: Projection
    y: Projection
    centres: tuple[Centre, Centre]
    given: tuple[Projection, ...]
    weights: Projection

    @classmethod
    def of(
        cls,
        kernels: Sequence[Kernel],
        samples: Sequence[Vector],
        kinds: Sequence[str],
        dtype: DTypeLike,
    ) -> Self:
        """Features that suit samples, of x and y as they are.

        Parameters
        ----------
        kernels : sequence of Kernel
            Those of x and y, fitted.
        samples : sequence of ndarray, shapes (s, d_x), (s, d_y) and (s, d_z)
            Rows of x, of y and of all given columns, drawn independently.
        kinds : sequence of str
            Kinds of the given columns.
        dtype : dtype
            Precision of the kernels.
        """
        x, y = (
            Projection.principal(kernel, sample, _MOST_DIRECTIONS, dtype)
            for kernel, sample in zip(kernels, samples[:2], strict=True)
        )
        z = samples[2]
        joint = joint_kernel(kinds).fit(z)
        weights = Projection.principal(joint, z, _MOST_WEIGHTS, dtype)
        given = (*_linear(z, kinds, dtype), *projections(z, kinds, dtype))
        p = sum(one.size for one in given)
        none, other = (Centre.likely((), one.shape[1], p) for one in samples[:2])
        return cls(x, y, (none, other), given, weights)

    @classmethod
    def likely(
        cls,
        kernels: Sequence[Kernel],
        dims: Sequence[int],
        kinds: Sequence[str],
        predicted: Sequence[tuple[int, ...]],
        dtype: DTypeLike,
    ) -> Self:
        """One of the largest size that `of` and `about` can make, for plans; takes no memory."""
        d = len(kinds)
        joint = joint_kernel(kinds).fit(_guess(d))
        x, y = (
            Projection.likely(_likely_landmarks(kernel, columns, dtype), _MOST_DIRECTIONS)
            for kernel, columns in zip(kernels, dims[:2], strict=True)
        )
        weights = Projection.likely(_likely_landmarks(joint, d, dtype), _MOST_WEIGHTS)
        given = (*_linear(_guess(d), kinds, dtype), *projections(None, kinds, dtype))
        p = sum(one.size for one in given)
        of_x, of_y = (
            Centre.likely(at, columns, p) for at, columns in zip(predicted, dims[:2], strict=True)
        )
        return cls(x, y, (of_x, of_y), given, weights)

    @property
    def parts(self) -> tuple[Projection, ...]:
        """All projections."""
        return (self.x, self.y, *self.given, self.weights)

    @cached_property
    def sizes(self) -> tuple[int, int, int, int]:
        """Numbers of features of x, of y, of what is given, and of weights with the constant."""
        return (
            self.x.size,
            self.y.size,
            sum(one.size for one in self.given),
            1 + self.weights.size,
        )

    @property
    def size(self) -> int:
        """Number of features of what is given, of x and of y."""
        return sum(self.sizes[:3])

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
        wide, *finer = (k for k, one in enumerate(maps) if not isinstance(one, _OF_NUMBERS))
        if not any(isinstance(one, KernelFeatures) for one in maps):
            return ()
        ways = [[*finer, *products], products, *([finer, [wide, *finer]] if products else [])]
        return tuple(
            np.concatenate([np.empty(0, np.intp), *(every[k] for k in one)]) for one in ways
        )

    @property
    def nbytes(self) -> int:
        """Bytes of all of it."""
        return sum(one.nbytes for one in self.parts) + sum(one.nbytes for one in self.centres)

    def scratch(self, rows: int) -> int:
        """Bytes needed for so many rows, the features among them."""
        predicted = sum(one.scratch(rows) for one in self.centres)
        largest = max(one.scratch(rows) for one in self.parts)
        return largest + predicted + 16 * rows * sum(self.sizes)

    def __call__(self, values: Sequence[NDArray[Any]]) -> FeatureRows:
        """Features of rows of x, y and every given variable."""
        x, y, *others = values
        z = others[0] if len(others) == 1 else np.concatenate(others, axis=1)
        given = self.of_given(z)
        # The constant comes first, so that the plain products are among those with weights.
        weights = np.concatenate([np.ones((len(z), 1)), self.weights(z)], axis=1)
        x, y = (centre(one, given) for centre, one in zip(self.centres, (x, y), strict=True))
        return FeatureRows(self.x(x), self.y(y), given, weights)

    def of_given(self, z: NDArray[Any]) -> Vector:
        """Features of rows (b, d_z) of all given columns, shape (b, p)."""
        return np.concatenate([one(z) for one in self.given], axis=1)

    def joined(self, values: Sequence[NDArray[Any]]) -> Vector:
        """Side by side: of what is given, of x, of y."""
        rows = self(values)
        return np.concatenate([rows.given, rows.x, rows.y], axis=1)

    def about(
        self, kernels: Sequence[Kernel], centres: tuple[Centre, Centre], samples: Sequence[Vector]
    ) -> Self:
        """With features of x and y about their predictions.

        Parameters
        ----------
        kernels : sequence of Kernel
            Those of x and y, fitted to the samples.
        centres : tuple of Centre
            The predictions.
        samples : sequence of ndarray, shapes (s, d_x) and (s, d_y)
            Rows of x and of y, less their predictions.
        """
        dtype = self.x.map.dtype
        x, y = (
            Projection.principal(kernel, sample, _MOST_DIRECTIONS, dtype)
            for kernel, sample in zip(kernels, samples, strict=True)
        )
        return replace(self, x=x, y=y, centres=centres)


def projections(
    sample: Vector | None, kinds: Sequence[str], dtype: DTypeLike
) -> tuple[Projection, ...]:
    """Nystrom features of every column by itself, wide and narrow, and of several together.

    Parameters
    ----------
    sample : ndarray, shape (s, d), or None
        Rows, of which the first are landmarks; none for features of the largest size, for plans,
        which take no memory.
    kinds : sequence of str
        Kinds of the columns.
    dtype : dtype
        Precision of the kernels.

    Returns
    -------
    tuple of Projection
    """
    d = len(kinds)
    count = min(max(_OF_ALL_COLUMNS // d, _OF_A_COLUMN[0]), _OF_A_COLUMN[1])
    rows = _guess(d) if sample is None else sample
    single = by_column(kinds, Columns(Gaussian())).fit(rows)
    widths = [single.widened(one) for one in _WIDTHS] if single.has_length else [single]
    joint = [joint_kernel(kinds).fit(rows)] if d > 1 else []
    if sample is None:
        maps: list[FeatureMap] = [LandmarksByColumn.likely(one, d, count, dtype) for one in widths]
        maps.extend(_likely_landmarks(one, d, dtype) for one in joint)
        return tuple(Projection.likely(one, one.n_features) for one in maps)
    found = [
        Projection.whole(*LandmarksByColumn.of(one, sample, count, _TOLERANCE, dtype), sample)
        for one in widths
    ]
    for kernel in joint:
        landmarks = sample[:_LANDMARKS]
        kept = pivoted_cholesky(kernel(landmarks), _TOLERANCE).in_order()
        features = KernelFeatures.at(landmarks[kept.kept], kernel, dtype)
        found.append(Projection.whole(features, kept.factor, sample))
    return tuple(found)


def joint_kernel(kinds: Sequence[str]) -> Kernel:
    """The kernel of all columns of some kinds at once, each in units of its deviation.

    As they are, a column of large numbers would hide the others: distances would be its own.
    """
    kernel = by_type(kinds, Gaussian())
    return kernel if len(kinds) == 1 else OnColumns(kernel, tuple(range(len(kinds))), scaled=True)


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


def _guess(d: int) -> Vector:
    """Rows of d columns to which every kernel can be fitted."""
    return np.arange(4.0)[:, None].repeat(d, axis=1)


def _likely_landmarks(kernel: Kernel, d: int, dtype: DTypeLike) -> KernelFeatures:
    """A kernel of d columns at landmarks that take no memory."""
    zero = np.dtype(dtype).type(0)
    return KernelFeatures(kernel, np.broadcast_to(zero, (_LANDMARKS, kernel.width(d))))
