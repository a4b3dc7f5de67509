"""The columns of a variable as features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dhsic.features.base import Matrix


@dataclass(frozen=True)
class ColumnFeatures:
    """Columns about a centre, in units of a scale.

    Parameters
    ----------
    centre, scale : ndarray, shapes (d,)
        In units of the variable.
    dtype : dtype
        Precision of the features.

    Examples
    --------
    >>> import numpy as np
    >>> ColumnFeatures.of(np.array([[1.0, 5.0], [3.0, 5.0]]), np.float64)(np.array([[4.0, 6.0]]))
    array([[2., 1.]])
    """

    centre: NDArray[np.float64]
    scale: NDArray[np.float64]
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, sample: NDArray[np.float64], dtype: DTypeLike) -> Self:
        """About the medians of a sample (s, d), by its standard deviations where these are not 0.

        The centre of a constant column is its value, which a mean would miss by rounding.
        """
        # In units of a power of two, which rounds nothing: squares of large and small values would
        # leave the range. Values are compared, since the deviation of a constant may be rounding.
        _, power = np.frexp(np.abs(sample).max(axis=0))
        deviations = np.ldexp(np.ldexp(sample, -power).std(axis=0), power)
        deviations = np.where((sample == sample[0]).all(axis=0), 1.0, deviations)
        return cls(np.median(sample, axis=0), deviations, np.dtype(dtype))

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return len(self.centre)

    @property
    def nbytes(self) -> int:
        """Bytes of centre and scale."""
        return self.centre.nbytes + self.scale.nbytes

    def scratch(self, rows: int) -> int:
        """Bytes of the centred rows."""
        return 16 * rows * self.n_features

    def __call__(self, x: NDArray[Any]) -> Matrix:
        """Map rows (b, d) to features (b, d)."""
        # Centred in float64, and rounded once.
        centred = np.subtract(x, self.centre, dtype=np.float64)
        features: Matrix = np.divide(centred, self.scale).astype(self.dtype, copy=False)
        return features
