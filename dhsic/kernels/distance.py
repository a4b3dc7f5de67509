"""The kernel that the distance between rows induces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dhsic.kernels.base import Kernel
from dhsic.kernels.centred import Matrix
from dhsic.kernels.euclidean import (
    distances,
    prepare_columns,
    prepare_rows,
    prepared_width,
    relative_cancellation,
    weighted_differences,
)


@dataclass(frozen=True)
class Distance(Kernel):
    """Distance-induced kernel, (|x - o|^q + |y - o|^q - |x - y|^q) / 2.

    The covariance of fractional Brownian motion with Hurst index q/2 (Zhang et al. 2018, section
    2). With exponent 1, four times HSIC is the squared distance covariance, whatever the origin o
    (Sejdinovic et al. 2013, Annals of Statistics 41; Zhang et al. 2018, appendix A).

    Parameters
    ----------
    exponent : float, optional
        q, in (0, 2]; with 2 the kernel is linear and sees linear dependence only.
    origin : tuple of float, optional
        The row that is 0 in feature space; `fit` takes the median of the sample.

    Raises
    ------
    InvalidArgumentError
        `exponent` is not in (0, 2].

    References
    ----------
    .. [1] D. Sejdinovic, B. Sriperumbudur, A. Gretton, K. Fukumizu. Equivalence of distance-
       based and RKHS-based statistics in hypothesis testing. Annals of Statistics 41, 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.kernels import Distance
    >>> Distance()(np.array([[-2.0], [1.0], [3.0]]))
    array([[2., 0., 0.],
           [0., 1., 1.],
           [0., 1., 3.]])
    """

    exponent: float = 1.0

    name: ClassVar[str] = "distance"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check("exponent", "a number in (0, 2]", lambda q: 0.0 < q <= 2.0)

    def width(self, d: int) -> int:
        return prepared_width(d) + 1

    def rows(self, x: NDArray[Any], dtype: DTypeLike = np.float64) -> Matrix:
        scaled, norms = self._scaled(x, dtype)
        return self._with_halves(prepare_rows(scaled, norms), norms)

    def columns(self, z: NDArray[Any], dtype: DTypeLike = np.float64) -> Matrix:
        scaled, norms = self._scaled(z, dtype)
        return self._with_halves(prepare_columns(scaled, norms), norms)

    def _with_halves(self, prepared: Matrix, norms: NDArray[np.float64]) -> Matrix:
        """Beside prepared rows, |x - o|^q / 2."""
        halves = 0.5 * norms ** (0.5 * self.exponent)
        return np.column_stack([prepared, halves.astype(prepared.dtype)])

    def tile(self, rows: Matrix, columns: Matrix, out: Matrix, work: Matrix) -> None:
        distances(rows[:, :-1], columns[:, :-1], out)
        _raise(out, self.exponent)
        # (|x|^q + |z|^q - |x - z|^q) / 2 with halves that were prepared: Zhang et al. (2018),
        # section 2.
        np.multiply(out, -0.5, out=out)
        np.add(out, rows[:, -1:], out=out)
        np.add(out, columns[:, -1].copy(), out=out)

    @property
    def differentiable(self) -> bool:
        return True

    @property
    def gradient_tiles(self) -> int:
        return 2

    def gradient(
        self, rows: Matrix, columns: Matrix, gram: Matrix, weights: Matrix, work: Matrix
    ) -> Matrix:
        # The gradient in x is q / 2 (|x|^(q - 2) x - |x - z|^(q - 2) (x - z)).
        q, prepared = self.exponent, rows[:, :-1]
        slope, away = work[0], work[1]
        distances(prepared, columns[:, :-1], slope)
        # Equal rows have no direction: their term is 0, and 0^(q - 2) must not be formed.
        np.greater(slope, 0, out=away)
        if q == 2.0:
            slope.fill(1)
        else:
            # 1 in the place of 0, so that the power is finite; `away` makes it 0 again.
            np.copyto(slope, 1, where=away == 0)
            _raise(slope, q - 2.0)
            np.multiply(slope, away, out=slope)
        np.multiply(slope, weights, out=slope)
        x = prepared if prepared.shape[1] == 1 else 0.5 * prepared[:, :-2]
        norms = np.linalg.norm(x.astype(np.float64), axis=1)
        of_rows = np.power(norms, q - 2.0, out=np.zeros(len(x)), where=norms > 0)
        of_rows *= weights.sum(axis=1)
        apart = weighted_differences(prepared, columns[:, :-1], slope)
        gradients: Matrix = 0.5 * q * (of_rows[:, None] * x - apart)
        return gradients

    def rounding(self, columns: Matrix) -> float:
        # |a^q - b^q| <= |a^2 - b^2|^(q/2), over |z - o|^q
        return float(0.5 * relative_cancellation(columns[:, :-1]) ** (0.5 * self.exponent))

    def spec(self) -> str:
        return self._spec(self.name, self.exponent)


def _raise(out: Matrix, exponent: float) -> None:
    """Raise a tile of distances to a power, in place."""
    if exponent == 1.0:
        return
    with np.errstate(divide="ignore"):  # exp(q log 0) = 0; np.power is seven times slower
        np.log(out, out=out)
    np.multiply(out, exponent, out=out)
    np.exp(out, out=out)
