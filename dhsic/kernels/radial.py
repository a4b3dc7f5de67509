"""Translation-invariant kernels of the distance between rows."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dhsic.kernels.bandwidth import median_distance
from dhsic.kernels.base import Kernel, Matrix

__all__ = ["Gaussian"]


class _Euclidean(Kernel):
    """A function of the Euclidean distance in units of a length scale."""

    @property
    @abstractmethod
    def _inverse_scale(self) -> float: ...

    def width(self, d: int) -> int:
        return 1 if d == 1 else d + 2

    def rows(self, x: NDArray[Any], dtype: DTypeLike = np.float64) -> Matrix:
        scaled, norms = self._scaled(x, dtype)
        if scaled.shape[1] == 1:
            return scaled
        return np.hstack([np.sqrt(2.0).astype(dtype) * scaled, -norms, np.ones_like(norms)])

    def columns(self, z: NDArray[Any], dtype: DTypeLike = np.float64) -> Matrix:
        scaled, norms = self._scaled(z, dtype)
        if scaled.shape[1] == 1:
            return scaled
        return np.hstack([np.sqrt(2.0).astype(dtype) * scaled, np.ones_like(norms), -norms])

    def _scaled(self, x: NDArray[Any], dtype: DTypeLike) -> tuple[Matrix, Matrix]:
        scaled = (self._centred(x) * self._inverse_scale).astype(dtype, order="C", copy=False)
        norms = np.square(scaled, dtype=np.float64).sum(axis=1, keepdims=True)
        return scaled, norms.astype(dtype)

    @staticmethod
    def _minus_squared_distances(rows: Matrix, columns: Matrix, out: Matrix) -> None:
        if rows.shape[1] == 1:  # differences are exact; the expanded square is not
            np.subtract(rows, columns.T, out=out)
            np.square(out, out=out)
            np.negative(out, out=out)
        else:
            np.matmul(rows, columns.T, out=out)
            np.minimum(out, 0, out=out)


@dataclass(frozen=True)
class Gaussian(_Euclidean):
    """Gaussian kernel, exp(-gamma |x - y|^2).

    Parameters
    ----------
    gamma : float, optional
        Inverse squared length, in 1 / (units of the variable)^2. Where not given, `fit` takes
        1 / (median distance)^2 of the sample.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.kernels import Gaussian
    >>> Gaussian(gamma=0.5)(np.array([[0.0], [2.0]])).round(4)
    array([[1.    , 0.1353],
           [0.1353, 1.    ]])
    """

    gamma: float | None = None

    name: ClassVar[str] = "gaussian"

    def fit(self, sample: NDArray[np.float64]) -> Self:
        fitted = super().fit(sample)
        if fitted.gamma is not None:
            return fitted
        return replace(fitted, gamma=median_distance(sample) ** -2)

    @property
    def _inverse_scale(self) -> float:
        return float(np.sqrt(self.gamma))

    def tile(self, rows: Matrix, columns: Matrix, out: Matrix, work: Matrix) -> None:
        self._minus_squared_distances(rows, columns, out)
        np.exp(out, out=out)

    def spec(self) -> str:
        return self.name if self.gamma is None else f"{self.name}:{self.gamma!r}"
