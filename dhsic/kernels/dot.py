"""Kernels of the inner product between centred rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dhsic.kernels.bandwidth import median_or_mean
from dhsic.kernels.base import Kernel, Matrix


@dataclass(frozen=True)
class Linear(Kernel):
    """Linear kernel, <x - origin, y - origin>.

    Parameters
    ----------
    origin : tuple of float, optional
        The row that is 0 in feature space; `fit` takes the median of the sample.

    References
    ----------
    .. [1] B. Schoelkopf, A. Smola. Learning with kernels. MIT Press, 2002.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.kernels import Linear
    >>> Linear()(np.array([[1.0, 2.0], [3.0, 0.0]]))
    array([[5., 3.],
           [3., 9.]])
    """

    name: ClassVar[str] = "linear"

    def tile(self, rows: Matrix, columns: Matrix, out: Matrix, work: Matrix) -> None:
        _inner_products(rows, columns, out)

    def gradient(
        self, rows: Matrix, columns: Matrix, gram: Matrix, weights: Matrix, work: Matrix
    ) -> Matrix:
        return (weights @ columns).astype(np.float64, copy=False)


@dataclass(frozen=True)
class Codes(Linear):
    """Inner product of codes, <x, y>, which no sample moves: they are features as they are.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.kernels.dot import Codes
    >>> Codes().fit(np.array([[3.0], [3.0]]))(np.array([[3.0], [-1.0]]))
    array([[ 9., -3.],
           [-3.,  1.]])
    """

    name: ClassVar[str] = "codes"

    def fit(self, sample: NDArray[np.float64]) -> Self:
        return self


@dataclass(frozen=True)
class Polynomial(Kernel):
    """Polynomial kernel, (gamma <x - origin, y - origin> + coef0)^degree.

    Parameters
    ----------
    degree : int, optional
        At least 1.
    coef0 : float, optional
        Weight of the lower degrees, at least 0.
    gamma : float, optional
        In 1 / (units of the variable)^2. Where not given, `fit` takes 1 / (median of
        |x - origin|^2) of the sample, so that the units do not weigh the degrees.
    origin : tuple of float, optional
        The row that is 0 before coef0 is added; `fit` takes the median of the sample.

    Raises
    ------
    InvalidArgumentError
        `degree` is no whole number of at least 1, `coef0` is negative, or `gamma` is not positive.

    References
    ----------
    .. [1] B. Schoelkopf, A. Smola. Learning with kernels. MIT Press, 2002.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.kernels import Polynomial
    >>> Polynomial(degree=2, gamma=1.0)(np.array([[1.0], [2.0]]))
    array([[ 4.,  9.],
           [ 9., 25.]])
    """

    degree: int = 3
    coef0: float = 1.0
    gamma: float | None = None

    name: ClassVar[str] = "polynomial"
    scale_name: ClassVar[str] = "gamma"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check("degree", "an integer >= 1", lambda m: m >= 1 and m.is_integer())
        object.__setattr__(self, "degree", int(self.degree))
        self._check("coef0", "a finite number >= 0", lambda c: 0.0 <= c < math.inf)

    def _scale_of(self, sample: NDArray[np.float64]) -> float:
        centred = self._centred(sample)
        # A typical inner product is then about 1, in any units.
        return 1.0 / median_or_mean(np.einsum("ij,ij->i", centred, centred))

    @property
    def has_length(self) -> bool:
        return self.coef0 > 0.0

    @property
    def work_tiles(self) -> int:
        # A power of two takes squarings alone; for other degrees the tile itself is kept.
        return 0 if self.degree.bit_count() == 1 else 1

    def rows(self, x: NDArray[Any], dtype: DTypeLike = np.float64) -> Matrix:
        scaled, norms = self._scaled(x, dtype)
        # By Cauchy and Schwarz no value exceeds that of the farthest row with itself.
        with np.errstate(over="ignore"):
            self._check_range((norms + self.coef0) ** self.degree, dtype)
        return scaled

    def tile(self, rows: Matrix, columns: Matrix, out: Matrix, work: Matrix) -> None:
        _inner_products(rows, columns, out)
        np.add(out, self.coef0, out=out)
        _raise(out, self.degree, work)

    @property
    def gradient_tiles(self) -> int:
        return 2

    def gradient(
        self, rows: Matrix, columns: Matrix, gram: Matrix, weights: Matrix, work: Matrix
    ) -> Matrix:
        slope = work[0]
        if self.degree == 1:
            np.copyto(slope, weights)
        else:
            _inner_products(rows, columns, slope)
            np.add(slope, self.coef0, out=slope)
            _raise(slope, self.degree - 1, work[1:])
            np.multiply(slope, weights, out=slope)
        # degree (<x, z> + c)^(degree - 1) z in scaled rows, whose scale is the inner derivative.
        gradients: Matrix = self._scale * self.degree * (slope @ columns).astype(np.float64)
        return gradients


def _raise(out: Matrix, degree: int, work: Matrix) -> None:
    """Raise a tile to a power of 1 or more, in place."""
    work[:1] = out
    # The bits of the degree after the first: square for each, and multiply for a 1.
    for bit in f"{degree:b}"[1:]:
        np.square(out, out=out)
        if bit == "1":
            np.multiply(out, work[0], out=out)


def _inner_products(rows: Matrix, columns: Matrix, out: Matrix) -> None:
    if rows.shape[1] == 1:  # a matrix product of rank one is four times slower
        np.multiply(rows, columns[:, 0].copy(), out=out)
    else:
        np.matmul(rows, columns.T, out=out)
