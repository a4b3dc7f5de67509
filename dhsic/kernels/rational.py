"""The rational quadratic kernel, whose tails fall as a power of the distance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dhsic.kernels.base import positive
from dhsic.kernels.centred import Matrix
from dhsic.kernels.euclidean import cancellation, squared_distances
from dhsic.kernels.radial import SquaredRadial


@dataclass(frozen=True)
class RationalQuadratic(SquaredRadial):
    """Rational quadratic kernel, (1 + gamma |x - y|^2 / alpha)^(-alpha).

    A mixture of Gaussian kernels of all lengths, so that dependence at several scales shows by one
    kernel; characteristic for every alpha. With alpha 1 it is the Cauchy kernel, with alpha 1/2
    the inverse multiquadric one, and the Gaussian kernel of the same gamma is its limit as alpha
    grows [1]_.

    Parameters
    ----------
    alpha : float, optional
        How fast the tails fall; the smaller, the heavier.
    gamma : float, optional
        Inverse squared length, in 1 / (units of the variable)^2. Where not given, `fit` takes
        1 / (median distance)^2 of the sample.
    origin : tuple of float, optional
        Subtracted from every row first; changes rounding only.

    Raises
    ------
    InvalidArgumentError
        A parameter is not a finite number > 0.

    References
    ----------
    .. [1] C. Rasmussen, C. Williams. Gaussian processes for machine learning. MIT Press 2006,
       section 4.2.1.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.kernels import RationalQuadratic
    >>> RationalQuadratic(gamma=3.0)(np.array([[0.0], [1.0]]))
    array([[1.  , 0.25],
           [0.25, 1.  ]])
    """

    alpha: float = 1.0
    gamma: float | None = None

    name: ClassVar[str] = "rq"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check("alpha", "a finite number > 0", positive)

    @property
    def _scale(self) -> float:
        # the root of a quotient would lose numbers whose quotient is too small
        return super()._scale / math.sqrt(self.alpha)

    def tile(self, rows: Matrix, columns: Matrix, out: Matrix, work: Matrix) -> None:
        squared_distances(rows, columns, out)
        if self.alpha == 1.0:
            np.add(out, 1, out=out)
            np.reciprocal(out, out=out)
            return
        # (1 + r)^(-alpha) as exp(-alpha log1p(r)), which keeps the digits of small distances.
        np.log1p(out, out=out)
        np.multiply(out, -self.alpha, out=out)
        np.exp(out, out=out)

    def _slope(
        self, rows: Matrix, columns: Matrix, gram: Matrix, out: Matrix, work: Matrix
    ) -> None:
        # minus twice the derivative in the squared distance r: 2 alpha (1 + r)^(-alpha - 1)
        squared_distances(rows, columns, out)
        np.add(out, 1, out=out)
        np.divide(gram, out, out=out)
        np.multiply(out, 2 * self.alpha, out=out)

    def rounding(self, columns: Matrix) -> float:
        # the steepest derivative of (1 + r)^(-alpha) is alpha, where that of exp(-r) is 1
        return min(1.0, max(1.0, self.alpha) * cancellation(columns))

    def spectral_scales(self, rng: np.random.Generator, count: int, d: int) -> NDArray[np.float64]:
        # (1 + r)^(-alpha) = E exp(-r t), t gamma distributed with shape alpha
        t = rng.gamma(self.alpha, size=(count, 1))
        scales: NDArray[np.float64] = self._scale * np.sqrt(2.0 * t)
        return np.broadcast_to(scales, (count, d))
