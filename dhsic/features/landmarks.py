"""Features of a kernel at landmarks."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dhsic.features.base import FeatureMap, Matrix
from dhsic.kernels import Kernel


@dataclass(frozen=True)
class KernelFeatures:
    """The kernel at landmarks, k(x, z_j).

    Times the inverse of a Cholesky factor of the landmarks' Gram matrix they are the Nystrom
    features; that step is linear, so it is taken once, on sums over all rows.

    Parameters
    ----------
    kernel : Kernel
        Fitted to the variable.
    columns : ndarray, shape (D, w)
        The prepared landmarks, in the precision of the features.
    rows : hashable, optional
        Tells the landmarks: features of two kernels where it is equal are at the same ones.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.kernels import Linear
    >>> KernelFeatures.at(np.array([[1.0], [2.0]]), Linear(), np.float64)(np.array([[3.0]]))
    array([[3., 6.]])
    """

    kernel: Kernel
    columns: Matrix
    rows: Hashable = None

    @classmethod
    def at(
        cls, landmarks: NDArray[Any], kernel: Kernel, dtype: DTypeLike, rows: Hashable = None
    ) -> Self:
        """At landmarks (D, d)."""
        return cls(kernel, kernel.columns(landmarks, dtype), rows)

    def squarings(self, wide: FeatureMap) -> int:
        """How often features of a wider kernel are to be squared to give these; 0 if never."""
        # Values are squares of one another at the same landmarks only.
        if not isinstance(wide, KernelFeatures) or self.rows is None or self.rows != wide.rows:
            return 0
        return self.kernel.squarings(wide.kernel)

    @property
    def n_features(self) -> int:
        """Number of landmarks."""
        return len(self.columns)

    @property
    def width(self) -> int:
        """Columns of prepared rows."""
        return int(self.columns.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the landmarks."""
        return self.columns.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of the prepared landmarks."""
        return self.columns.nbytes

    def scratch(self, rows: int) -> int:
        """Bytes of the kernel's work tiles and of prepared rows."""
        tiles = self.kernel.work_tiles * rows * self.n_features * self.dtype.itemsize
        return tiles + 3 * 8 * rows * self.width

    def __call__(self, x: NDArray[Any]) -> Matrix:
        """Map rows (b, d) to features (b, D)."""
        return self.of_rows(self.kernel.rows(x, self.dtype), single=x.shape[1] == 1)

    def of_rows(self, rows: Matrix, *, single: bool) -> Matrix:
        """Features of rows as the kernel prepares them, (b, w), whether of a single column or not.

        Returns
        -------
        ndarray, shape (b, D)
        """
        shape = len(rows), self.n_features
        out = _empty(shape, self.dtype, single=single)
        work = _empty((self.kernel.work_tiles, *shape), self.dtype, single=single)
        self.kernel.tile(rows, self.columns, out, work)
        return out


def _empty(shape: tuple[int, ...], dtype: DTypeLike, *, single: bool) -> Matrix:
    """Tiles (..., b, p); of single numbers rows are side by side, as loops over few p are slow."""
    if not single:
        return np.empty(shape, dtype)
    *several, b, p = shape
    return np.empty((*several, p, b), dtype).swapaxes(-1, -2)
