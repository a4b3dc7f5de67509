"""The landmarks of one kernel of a variable: rows that span it, or values of every column."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dhsic.features import FeatureMap, KernelFeatures, LandmarksByColumn
from dhsic.kernels import Columns, Kernel
from dhsic.landmarks import warn_of_rounding, warn_of_zeros
from dhsic.linalg import pivoted_cholesky

Vector = NDArray[np.float64]


class KernelLandmarks(NamedTuple):
    """Features of a kernel at its landmarks."""

    map: FeatureMap
    """Makes the features."""
    factor: Vector
    """Lower triangular L that whitens them, shape (D, D)."""
    points: Vector
    """Rows."""
    spanned: bool
    """Whether they hold the kernel."""

    @classmethod
    def of_rows(
        cls,
        name: str,
        kernel: Kernel,
        m: int,
        rows: Vector,
        tolerance: float,
        dtype: DTypeLike,
        *,
        leads: bool,
    ) -> Self:
        """The rows that span the kernel at all of them.

        Parameters
        ----------
        name : str
            Name of the variable.
        kernel : Kernel
            Fitted.
        m : int
            Number of the variable.
        rows : ndarray, shape (p, d)
            As drawn.
        tolerance : float
            See `dhsic.linalg.pivoted_cholesky`.
        dtype : dtype
            Precision of the features.
        leads : bool
            Whether it is the reference of a grid, or alone. Others may be 0 at all rows, as a
            linear kernel about the median of a rare flag is: the grid has more to compare.
        """
        gram = kernel(rows)
        if leads:
            warn_of_zeros(gram, f"the kernel of variable {name!r}")
        factor = pivoted_cholesky(gram, tolerance)
        spanned = factor.rank < len(rows)
        factor = factor if spanned else factor.in_order()
        points = rows[factor.kept]
        features = KernelFeatures.at(points, kernel, dtype, (m, *factor.kept.tolist()))
        warn_of_rounding([name], [kernel], [features.columns], dtype)
        return cls(features, factor.factor, points, spanned)

    @classmethod
    def of_columns(
        cls, kernel: Columns, rows: Vector, count: int, tolerance: float, dtype: DTypeLike
    ) -> Self:
        """Some of the values of every column, see `LandmarksByColumn.of`."""
        features, factor = LandmarksByColumn.of(kernel, rows, count, tolerance, dtype)
        return cls(features, factor, rows, spanned=False)
