"""Features of what is given that suit one variable: functions of its first predictions.

The features of x are many functions of one thing, as of a sum of functions of z and noise. All that
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

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import scipy
from numpy.typing import DTypeLike, NDArray

from dhsic.conditional.design import ConditionalDesign, FeatureRows, Projection, projections
from dhsic.conditional.folds import FOLDS
from dhsic.conditional.ridge import Ridges

Vector = NDArray[np.float64]
Indices = NDArray[np.intp]

_PREDICTIONS = 2  # of features, and as many of columns


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
    def of(
        cls,
        ridges: Ridges,
        folds: Sequence[Ridges],
        features: slice,
        columns: slice,
        given: Vector,
        dtype: DTypeLike,
    ) -> Self:
        """From first regressions, with landmarks among rows (s, p) of what is given.

        Parameters
        ----------
        ridges : Ridges
            The regressions, by all rows, of whose predictions the functions are.
        folds : sequence of Ridges
            The same by the rows outside of every fold.
        features, columns : slice
            Which targets are features of the variable, and which its columns that are predicted.
        given : ndarray, shape (s, p)
            Rows.
        dtype : dtype
            Precision of the kernels.
        """
        about = given - ridges.mean
        crossed = slice(features.start, min(features.start + _PREDICTIONS, features.stop))
        leading = ridges.slopes[:, crossed]
        own = _principal(about, ridges.slopes[:, columns])
        spreads = [(about @ one).std(axis=0).max(initial=0.0) for one in (leading, own)]
        if min(spreads) > 0.0:  # so that the kernel of all predictions sees both kinds alike
            own = own * (spreads[0] / spreads[1])
        predictions = about @ np.append(leading, own, axis=1)
        # Predictions that are the same everywhere have no functions.
        varied = np.ptp(predictions, axis=0) > 0.0
        predictions = predictions[:, varied]
        kinds = ("number",) * predictions.shape[1]
        parts = projections(predictions, kinds, dtype) if kinds else ()
        slopes = np.array([np.append(one.slopes[:, crossed], own, axis=1) for one in folds])
        linear = _linear_parts(parts, predictions)
        return cls(ridges.mean, slopes[:, :, varied], parts, linear)

    @classmethod
    def likely(cls, p: int, columns: int, dtype: DTypeLike) -> Self:
        """One of the largest size, for plans, which takes no memory."""
        count = _PREDICTIONS + min(columns, _PREDICTIONS)
        slopes = np.broadcast_to(0.0, (FOLDS, p, count))
        kinds = ("number",) * count
        parts = projections(None, kinds, dtype)
        linear = np.broadcast_to(0.0, (count, sum(one.size for one in parts)))
        return cls(np.broadcast_to(0.0, (p,)), slopes, parts, linear)

    @property
    def size(self) -> int:
        """Number of features."""
        return sum(one.size for one in self.parts)

    @property
    def nbytes(self) -> int:
        """Bytes of all of it."""
        own = self.mean.size + self.slopes.size + self.linear.size
        return 8 * own + sum(one.nbytes for one in self.parts)

    def scratch(self, rows: int) -> int:
        """Bytes needed for so many rows, the features among them."""
        largest = max((one.scratch(rows) for one in self.parts), default=0)
        return largest + 8 * rows * (len(self.mean) + 3 * self.size)

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


class IndexedRows(NamedTuple):
    """Features of some rows."""

    base: FeatureRows
    """Those of all variables."""
    x: Vector
    """The regressors of x, shape (b, p_x)."""
    y: Vector
    """The regressors of y, shape (b, p_y)."""


class Places(NamedTuple):
    """Numbers of the columns of `IndexedDesign.joined`."""

    given_x: Indices
    """Those that x is regressed on."""
    given_y: Indices
    """Those that y is regressed on."""
    x: Indices
    """Features of x."""
    products: Indices
    """Features of x times the weights."""
    y: Indices
    """Features of y."""


@dataclass(frozen=True)
class IndexedDesign:
    """Features of all variables, with those that suit x and those that suit y.

    Parameters
    ----------
    base : ConditionalDesign
        Features of all variables.
    x, y : Index
        That of either variable.
    """

    base: ConditionalDesign
    x: Index
    y: Index

    @property
    def size(self) -> int:
        """Number of features, side by side."""
        r_x, r_y, p, r_w = self.base.sizes
        return p + self.x.size + self.y.size + r_x * r_w + r_y

    @cached_property
    def places(self) -> Places:
        """Numbers of the features, side by side."""
        r_x, r_y, p, r_w = self.base.sizes
        counts = p, self.x.size, self.y.size, r_x * r_w, r_y
        given, of_x, of_y, products, y = np.split(np.arange(self.size), np.cumsum(counts)[:-1])
        joined = np.append(given, of_x), np.append(given, of_y)
        # With the constant, which is the first weight, products are the features of x themselves.
        return Places(*joined, products[::r_w], products, y)

    @property
    def nbytes(self) -> int:
        """Bytes of all of it."""
        return self.base.nbytes + self.x.nbytes + self.y.nbytes

    def scratch(self, rows: int) -> int:
        """Bytes needed for so many rows, the features among them."""
        copies = 16 * rows * (self.size + self.base.sizes[2])
        return copies + sum(one.scratch(rows) for one in (self.base, self.x, self.y))

    def __call__(self, values: Sequence[NDArray[Any]], fold: int) -> IndexedRows:
        """Features of rows of a fold, of x, y and every given variable."""
        base = self.base(values)
        x, y = (np.append(base.given, one(base.given, fold), axis=1) for one in (self.x, self.y))
        return IndexedRows(base, x, y)

    def joined(self, values: Sequence[NDArray[Any]], fold: int) -> Vector:
        """Side by side: of what is given, of either index, x times the weights, y."""
        base = self.base(values)
        own = self.x(base.given, fold), self.y(base.given, fold)
        return np.concatenate([base.given, *own, base.products, base.y], axis=1)
