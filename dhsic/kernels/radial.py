"""Translation-invariant kernels of the distance between rows."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import scipy
from numpy.typing import DTypeLike, NDArray

from dhsic.kernels.bandwidth import median_distance
from dhsic.kernels.base import Kernel, positive
from dhsic.kernels.centred import Matrix
from dhsic.kernels.euclidean import (
    cancellation,
    distances,
    minus_squared_distances,
    prepare_columns,
    prepare_rows,
    prepared_width,
    squared_distances,
    weighted_differences,
)

# Beyond, exponentials come near the least float64 and take three times as long. 7e-218 is 0 enough.
_FAR = 500.0


class Radial(Kernel):
    """A function of the Euclidean distance in units of the kernel."""

    @property
    def has_length(self) -> bool:
        return True

    def width(self, d: int) -> int:
        return prepared_width(d)

    def rows(self, x: NDArray[Any], dtype: DTypeLike = np.float64) -> Matrix:
        return prepare_rows(*self._scaled(x, dtype))

    def columns(self, z: NDArray[Any], dtype: DTypeLike = np.float64) -> Matrix:
        return prepare_columns(*self._scaled(z, dtype))

    def rows_and_columns(
        self, x: NDArray[Any], dtype: DTypeLike = np.float64
    ) -> tuple[Matrix, Matrix]:
        scaled = self._scaled(x, dtype)
        return prepare_rows(*scaled), prepare_columns(*scaled)

    def rounding(self, columns: Matrix) -> float:
        return min(1.0, cancellation(columns))

    @property
    def differentiable(self) -> bool:
        return True

    @property
    def gradient_tiles(self) -> int:
        return 1

    def gradient(
        self, rows: Matrix, columns: Matrix, gram: Matrix, weights: Matrix, work: Matrix
    ) -> Matrix:
        slope = work[0]
        self._slope(rows, columns, gram, slope, work[1:])
        np.multiply(slope, weights, out=slope)
        return -self._scale * weighted_differences(rows, columns, slope)

    @abstractmethod
    def _slope(
        self, rows: Matrix, columns: Matrix, gram: Matrix, out: Matrix, work: Matrix
    ) -> None:
        """Write f, where the gradient in units of the kernel is -f (x - z)."""


class SquaredRadial(Radial):
    """A function of gamma |x - y|^2, whose `gamma` is 1 / (median distance)^2 where not given."""

    gamma: float | None

    _scale_name: ClassVar[str] = "gamma"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check("gamma", "a finite number > 0", positive)

    def fit(self, sample: NDArray[np.float64]) -> Self:
        fitted = super().fit(sample)
        if fitted.gamma is not None:
            return fitted
        return fitted._of(median_distance(sample) ** -2)

    def widened(self, factor: float) -> Self:
        return self._of(self._fitted("gamma") / factor**2)

    def _of(self, gamma: float) -> Self:
        changed: dict[str, Any] = {"gamma": gamma}
        return replace(self, **changed)

    @property
    def _scale(self) -> float:
        return math.sqrt(self._fitted("gamma"))


@dataclass(frozen=True)
class Gaussian(SquaredRadial):
    """Gaussian kernel, exp(-gamma |x - y|^2).

    Parameters
    ----------
    gamma : float, optional
        Inverse squared length, in 1 / (units of the variable)^2. Where not given, `fit` takes
        1 / (median distance)^2 of the sample.
    origin : tuple of float, optional
        Subtracted from every row first; changes rounding only.

    Raises
    ------
    InvalidArgumentError
        `gamma` is no finite number greater than 0.

    References
    ----------
    .. [1] B. Schoelkopf, A. Smola. Learning with kernels. MIT Press, 2002.

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

    def squarings(self, wide: Kernel) -> int:
        return _squarings(self, wide)

    def tile(self, rows: Matrix, columns: Matrix, out: Matrix, work: Matrix) -> None:
        minus_squared_distances(rows, columns, out)
        # Rows of many columns are nowhere so near and so far at once.
        if rows.shape[1] == 1 and out.dtype == np.float64 and _reach(rows, columns) ** 2 > _FAR:
            np.maximum(out, -_FAR, out=out)
        np.exp(out, out=out)

    def _slope(
        self, rows: Matrix, columns: Matrix, gram: Matrix, out: Matrix, work: Matrix
    ) -> None:
        np.multiply(gram, 2, out=out)  # the gradient is -2 k (x - z)

    def spectral_scales(self, rng: np.random.Generator, count: int, d: int) -> NDArray[np.float64]:
        return np.full((count, d), math.sqrt(2.0) * self._scale)  # N(0, 2 gamma), by Bochner

    def spec(self) -> str:
        return self._spec(self.name, self.gamma)


@dataclass(frozen=True)
class InverseMultiquadric(SquaredRadial):
    """Inverse multiquadric kernel, (1 + gamma |x - y|^2)^(-1/2) [1]_, with heavier tails.

    Parameters
    ----------
    gamma : float, optional
        Inverse squared length, in 1 / (units of the variable)^2. Where not given, `fit` takes
        1 / (median distance)^2 of the sample.
    origin : tuple of float, optional
        Subtracted from every row first; changes rounding only.

    References
    ----------
    .. [1] C. Micchelli. Interpolation of scattered data: distance matrices and conditionally
       positive definite functions. Constructive Approximation 2, 1986.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.kernels import InverseMultiquadric
    >>> InverseMultiquadric(gamma=3.0)(np.array([[0.0], [1.0]]))
    array([[1. , 0.5],
           [0.5, 1. ]])
    """

    gamma: float | None = None

    name: ClassVar[str] = "imq"

    def tile(self, rows: Matrix, columns: Matrix, out: Matrix, work: Matrix) -> None:
        squared_distances(rows, columns, out)
        np.add(out, 1, out=out)
        np.sqrt(out, out=out)
        np.reciprocal(out, out=out)

    def _slope(
        self, rows: Matrix, columns: Matrix, gram: Matrix, out: Matrix, work: Matrix
    ) -> None:
        np.square(gram, out=out)  # the gradient is -k^3 (x - z)
        np.multiply(out, gram, out=out)

    def spectral_scales(self, rng: np.random.Generator, count: int, d: int) -> NDArray[np.float64]:
        # (1 + r)^(-1/2) = E exp(-r t), t gamma distributed with shape 1/2
        scales: NDArray[np.float64] = self._scale * np.sqrt(2.0 * rng.gamma(0.5, size=(count, 1)))
        return np.broadcast_to(scales, (count, d))

    def spec(self) -> str:
        return self._spec(self.name, self.gamma)


@dataclass(frozen=True)
class Laplacian(Kernel):
    """Laplacian kernel, exp(-gamma |x - y|_1), of the city-block distance [1]_.

    Parameters
    ----------
    gamma : float, optional
        Inverse length, in 1 / units of the variable. Where not given, `fit` takes 1 / (median
        city-block distance) of the sample.
    origin : tuple of float, optional
        Subtracted from every row first; changes rounding only.

    Raises
    ------
    InvalidArgumentError
        `gamma` is no finite number greater than 0.

    References
    ----------
    .. [1] A. Rahimi, B. Recht. Random features for large-scale kernel machines. NeurIPS 2007, for
       its frequencies.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.kernels import Laplacian
    >>> Laplacian(gamma=1.0)(np.array([[0.0, 0.0], [0.5, 0.5]])).round(4)
    array([[1.    , 0.3679],
           [0.3679, 1.    ]])
    """

    gamma: float | None = None

    name: ClassVar[str] = "laplacian"
    _scale_name: ClassVar[str] = "gamma"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check("gamma", "a finite number > 0", positive)

    def fit(self, sample: NDArray[np.float64]) -> Self:
        fitted = super().fit(sample)
        if fitted.gamma is not None:
            return fitted
        return replace(fitted, gamma=1.0 / median_distance(sample, "cityblock"))

    @property
    def has_length(self) -> bool:
        return True

    def widened(self, factor: float) -> Self:
        return replace(self, gamma=self._fitted("gamma") / factor)

    def squarings(self, wide: Kernel) -> int:
        return _squarings(self, wide)

    @property
    def _scale(self) -> float:
        return self._fitted("gamma")

    def tile(self, rows: Matrix, columns: Matrix, out: Matrix, work: Matrix) -> None:
        (distances if rows.shape[1] == 1 else _cityblock)(rows, columns, out)
        np.negative(out, out=out)
        np.exp(out, out=out)

    @property
    def differentiable(self) -> bool:
        return True

    @property
    def gradient_tiles(self) -> int:
        return 2

    def gradient(
        self, rows: Matrix, columns: Matrix, gram: Matrix, weights: Matrix, work: Matrix
    ) -> Matrix:
        weighted, signs = work[0], work[1]
        np.multiply(weights, gram, out=weighted)
        out = np.empty(rows.shape)
        for j in range(rows.shape[1]):
            np.subtract(rows[:, j : j + 1], columns[:, j].copy(), out=signs)
            np.sign(signs, out=signs)  # 0 at the kink, x_j = z_j
            out[:, j] = np.einsum("ij,ij->i", weighted, signs)
        return -self._scale * out

    def spectral_scales(self, rng: np.random.Generator, count: int, d: int) -> NDArray[np.float64]:
        # a ratio of normals is Cauchy, independently in every column
        return self._scale / np.abs(rng.standard_normal((count, d)))

    def spec(self) -> str:
        return self._spec(self.name, self.gamma)


def _squarings(narrow: Gaussian | Laplacian, wide: Kernel) -> int:
    """exp(-gamma r) squared is exp(-2 gamma r)."""
    if not isinstance(wide, type(narrow)) or narrow.origin != wide.origin:
        return 0
    doublings = math.log2(narrow._fitted("gamma") / wide._fitted("gamma"))
    near = round(doublings)
    return near if near > 0 and math.isclose(doublings, near, rel_tol=1e-12) else 0


def _reach(rows: Matrix, columns: Matrix) -> float:
    """The largest difference between numbers of two columns; 0 where either has none."""
    if not (rows.size and columns.size):
        return 0.0
    return float(max(rows.max() - columns.min(), columns.max() - rows.min()))


def _cityblock(rows: Matrix, columns: Matrix, out: Matrix, strip: int = 32) -> None:
    """Write |x - z|_1 into `out`, by strips, because `cdist` returns float64 only."""
    columns, distances = columns.astype(np.float64, copy=False), scipy.spatial.distance.cdist
    for first in range(0, len(rows), strip):
        out[first : first + strip] = distances(rows[first : first + strip], columns, "cityblock")
