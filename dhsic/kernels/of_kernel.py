"""Kernels of rows that are changed before another kernel sees them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dhsic.kernels.base import Kernel, Matrix


@dataclass(frozen=True)
class OfKernel(Kernel):
    """Base of kernels that change rows, and leave what they are then to another kernel.

    Lengths and scales are those of that kernel, which also centres the changed rows.

    Parameters
    ----------
    kernel : Kernel
        Kernel of the changed rows.
    """

    kernel: Kernel
    origin: tuple[float, ...] | None = field(default=None, init=False, repr=False)

    def scale_columns(self, d: int) -> tuple[tuple[int, ...], ...]:
        return self.kernel.scale_columns(d)

    def measured(self, d: int) -> frozenset[int]:
        return self.kernel.measured(d)

    @property
    def has_length(self) -> bool:
        return self.kernel.has_length

    def widened(self, factor: float) -> Self:
        return self._of(self.kernel.widened(factor))

    def _of(self, kernel: Kernel) -> Self:
        """The same changes of rows with another kernel."""
        return replace(self, kernel=kernel)

    @property
    def work_tiles(self) -> int:
        return self.kernel.work_tiles

    def width(self, d: int) -> int:
        return self.kernel.width(d)

    def rows(self, x: NDArray[Any], dtype: DTypeLike = np.float64) -> Matrix:
        return self.kernel.rows(self._changed(x), dtype)

    def columns(self, z: NDArray[Any], dtype: DTypeLike = np.float64) -> Matrix:
        return self.kernel.columns(self._changed(z), dtype)

    def rows_and_columns(
        self, x: NDArray[Any], dtype: DTypeLike = np.float64
    ) -> tuple[Matrix, Matrix]:
        return self.kernel.rows_and_columns(self._changed(x), dtype)

    def _changed(self, x: NDArray[Any]) -> NDArray[Any]:
        """Rows (b, d) as the kernel sees them."""
        return x

    def tile(self, rows: Matrix, columns: Matrix, out: Matrix, work: Matrix) -> None:
        self.kernel.tile(rows, columns, out, work)

    def rounding(self, columns: Matrix) -> float:
        return self.kernel.rounding(columns)
