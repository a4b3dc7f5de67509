"""What a kernel is: fitted to a sample, prepared once, evaluated tile by tile."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

__all__ = ["Kernel", "Matrix"]

Matrix = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Kernel(ABC):
    """A positive definite kernel on rows of real numbers.

    A kernel is a frozen value. Parameters that are None are filled by `fit` from a sample of
    the variable, so that they follow its units. Prepared rows and columns are plain 2-d arrays
    whose slices along axis 0 are the prepared slices of the data; a tile of the Gram matrix is
    computed from such slices, in place.

    Parameters
    ----------
    origin : tuple of float, optional
        Subtracted from every row first. For translation-invariant kernels it changes rounding
        only; for the others it is part of the kernel. `fit` sets it to the median of the sample.
    """

    origin: tuple[float, ...] | None = None

    name: ClassVar[str]
    work_tiles: ClassVar[int] = 0
    """How many scratch tiles of the output's shape and dtype `tile` needs."""

    def fit(self, sample: NDArray[np.float64]) -> Self:
        """Fill the parameters that are None from a sample of the variable.

        Parameters
        ----------
        sample : ndarray, shape (s, d)
            Rows of the variable, finite.

        Returns
        -------
        Kernel
            Of the same class, with every parameter set.
        """
        if self.origin is not None:
            return self
        return replace(self, origin=tuple(np.median(sample, axis=0).tolist()))

    def width(self, d: int) -> int:
        """Columns of the prepared arrays for a variable with `d` columns."""
        return d

    def rows(self, x: NDArray[Any], dtype: DTypeLike = np.float64) -> Matrix:
        """Prepare rows of data for `tile`: (b, d) to (b, width(d)), C-contiguous."""
        return self._centred(x).astype(dtype, order="C", copy=False)

    def columns(self, z: NDArray[Any], dtype: DTypeLike = np.float64) -> Matrix:
        """Prepare landmarks for `tile`: (p, d) to (p, width(d)), C-contiguous."""
        return self.rows(z, dtype)

    @abstractmethod
    def tile(self, rows: Matrix, columns: Matrix, out: Matrix, work: Matrix) -> None:
        """Write the Gram matrix of prepared rows and columns into `out`.

        Parameters
        ----------
        rows, columns : ndarray, shapes (b, w) and (p, w)
            From `rows` and `columns`, or slices of them along axis 0.
        out : ndarray, shape (b, p)
            Overwritten. C-contiguous, with the dtype of `rows`.
        work : ndarray, shape (work_tiles, b, p)
            Scratch, with the dtype of `out`.
        """

    @abstractmethod
    def spec(self) -> str:
        """Write the kernel as text that `dhsic.kernels.parse` reads, without the origin."""

    def __call__(self, x: NDArray[Any], y: NDArray[Any] | None = None) -> NDArray[np.float64]:
        """Gram matrix of the rows of `x` and `y` in float64.

        Parameters
        ----------
        x : ndarray, shape (b, d)
            Rows.
        y : ndarray, shape (p, d), optional
            Rows; `x` where not given.

        Returns
        -------
        ndarray, shape (b, p)
        """
        rows = self.rows(x)
        columns = self.columns(x if y is None else y)
        out = np.empty((len(rows), len(columns)))
        self.tile(rows, columns, out, np.empty((self.work_tiles, *out.shape)))
        return out

    def _centred(self, x: NDArray[Any]) -> NDArray[np.float64]:
        x = np.asarray(x, dtype=np.float64)
        return x if self.origin is None else x - np.asarray(self.origin)
