"""Features of a mean over columns of kernels, at landmarks of every column by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy
from numpy.typing import DTypeLike, NDArray

from dhsic.features.base import Matrix
from dhsic.kernels import Columns
from dhsic.linalg import pivoted_cholesky

Vector = NDArray[np.float64]


def at_quantiles(column: Vector, count: int) -> Vector:
    """Different values of a column, shape (p, 1), at evenly spaced ranks, at most `count`.

    Examples
    --------
    >>> import numpy as np
    >>> at_quantiles(np.array([[3.0], [1.0], [2.0], [2.0]]), 2)
    array([[2.],
           [3.]])
    """
    # The middles of `count` equal shares of the ranks.
    ranks = ((np.arange(count) + 0.5) / count * len(column)).astype(np.intp)
    return np.unique(np.sort(column, axis=0)[ranks], axis=0)


@dataclass(frozen=True)
class LandmarksByColumn:
    """The kernels of a mean over d columns, k_j(x_j, z) / sqrt(d) at landmarks z of column j.

    A few values of every column serve where many rows would be needed to stand for all columns at
    once: the columns add up in the kernel, so that their features are side by side.

    Parameters
    ----------
    kernel : Columns
        Fitted to the variable.
    landmarks : tuple of ndarray, shapes (r_j, w_j)
        Prepared, one for every column that counts in the mean, in the precision of the features.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.kernels import Columns, Linear
    >>> x = np.array([[1.0, 5.0], [2.0, 6.0]])
    >>> features, _ = LandmarksByColumn.of(Columns(Linear()), x, 1, 0.0, np.float64)
    >>> features(np.array([[3.0, 1.0]])) * np.sqrt(2)
    array([[6., 6.]])
    """

    kernel: Columns
    landmarks: tuple[Matrix, ...]

    @classmethod
    def of(
        cls, kernel: Columns, sample: Vector, count: int, tolerance: float, dtype: DTypeLike
    ) -> tuple[Self, Vector]:
        """At quantiles of every column of a sample.

        Parameters
        ----------
        kernel : Columns
            Fitted.
        sample : ndarray, shape (p, d)
            Rows.
        count : int
            Landmarks of a column before those are dropped that are equal or nearly dependent.
        tolerance : float
            See `dhsic.linalg.pivoted_cholesky`.
        dtype : dtype
            Precision of the features.

        Returns
        -------
        features : LandmarksByColumn
        factor : ndarray, shape (D, D)
            Lower triangular; its inverse times the features are Nystrom features (Zhang et al.
            2018, section 4.1), column by column.
        """
        landmarks, factors = [], []
        for part, at in kernel.counted(sample.shape[1]):
            z = at_quantiles(sample[:, at], count)
            kept = pivoted_cholesky(part(z), tolerance).in_order()
            landmarks.append(part.columns(z[kept.kept], dtype))
            factors.append(kept.factor)
        # Kernels of other columns have no product in common, so that the factor has a block a
        # column.
        return cls(kernel, tuple(landmarks)), scipy.linalg.block_diag(*factors)

    @classmethod
    def likely(cls, kernel: Columns, d: int, count: int, dtype: DTypeLike) -> Self:
        """A map of a variable of d columns, for plans: with landmarks that take no memory."""
        zero = np.dtype(dtype).type(0)
        shapes = ((count, part.width(1)) for part, _ in kernel.counted(d))
        # A plan asks for sizes and bytes alone: one zero stands for all values.
        return cls(kernel, tuple(np.broadcast_to(zero, shape) for shape in shapes))

    @property
    def n_features(self) -> int:
        """Landmarks of all columns."""
        return sum(map(len, self.landmarks))

    @property
    def width(self) -> int:
        """Columns of prepared rows."""
        return sum(z.shape[1] for z in self.landmarks)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the landmarks."""
        return self.landmarks[0].dtype

    @property
    def nbytes(self) -> int:
        """Bytes of the prepared landmarks."""
        return sum(z.nbytes for z in self.landmarks)

    def scratch(self, rows: int) -> int:
        """Bytes of the kernels' work tiles and of prepared rows."""
        one = self.n_features if self.kernel.of_laplacians else max(map(len, self.landmarks))
        tiles = self.kernel.work_tiles * rows * one
        return tiles * self.dtype.itemsize + 3 * 8 * rows * self.width

    def __call__(self, x: NDArray[Any]) -> Matrix:
        """Map rows (b, d) to features (b, D)."""
        out = self.kernel.side_by_side(self.kernel.rows(x, self.dtype), self.landmarks)
        # The kernel is a mean over d columns, so features of each are divided by the root of d.
        out *= self.dtype.type(x.shape[1] ** -0.5)
        return out
