"""The Matern kernels, whose samples are rougher than those of a Gaussian kernel."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dhsic.kernels.bandwidth import median_distance
from dhsic.kernels.base import positive
from dhsic.kernels.centred import Matrix
from dhsic.kernels.euclidean import distances
from dhsic.kernels.radial import Radial


@dataclass(frozen=True)
class Matern(Radial):
    """Matern kernel of smoothness nu, a function of t = sqrt(2 nu) |x - y| / length [1]_.

    It is exp(-t) for nu = 1/2, (1 + t) exp(-t) for 3/2 and (1 + t + t^2/3) exp(-t) for 5/2.

    Parameters
    ----------
    nu : {0.5, 1.5, 2.5}, optional
        Smoothness; written matern12, matern32 and matern52 in text.
    length : float, optional
        Length scale, in units of the variable. Where not given, `fit` takes the median distance
        of the sample.
    origin : tuple of float, optional
        Subtracted from every row first; changes rounding only.

    Raises
    ------
    InvalidArgumentError
        `nu` is not 0.5, 1.5 or 2.5, or `length` is no finite number greater than 0.

    References
    ----------
    .. [1] C. Rasmussen, C. Williams. Gaussian processes for machine learning. MIT Press 2006,
       section 4.2.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.kernels import Matern
    >>> Matern(nu=0.5, length=2.0)(np.array([[0.0], [2.0]])).round(4)
    array([[1.    , 0.3679],
           [0.3679, 1.    ]])
    """

    nu: float = 1.5
    length: float | None = None

    name: ClassVar[str] = "matern"
    _scale_name: ClassVar[str] = "length"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check("nu", "0.5, 1.5 or 2.5", lambda nu: nu in (0.5, 1.5, 2.5))
        self._check("length", "a finite number > 0", positive)

    def fit(self, sample: NDArray[np.float64]) -> Self:
        fitted = super().fit(sample)
        if fitted.length is not None:
            return fitted
        return replace(fitted, length=median_distance(sample))

    def widened(self, factor: float) -> Self:
        return replace(self, length=self._fitted("length") * factor)

    @property
    def _scale(self) -> float:
        return math.sqrt(2.0 * self.nu) / self._fitted("length")

    @property
    def work_tiles(self) -> int:
        return 0 if self.nu == 0.5 else 1

    def tile(self, rows: Matrix, columns: Matrix, out: Matrix, work: Matrix) -> None:
        distances(rows, columns, out)
        if self.nu > 0.5:
            self._polynomial(out, work[0])
        np.negative(out, out=out)
        np.exp(out, out=out)
        if self.nu > 0.5:
            np.multiply(out, work[0], out=out)

    def _polynomial(self, t: Matrix, out: Matrix) -> None:
        if self.nu == 1.5:  # (4.17) of the reference: 1 + t
            np.add(t, 1, out=out)
        else:
            np.multiply(t, 1 / 3, out=out)  # 1 + t + t^2 / 3, by Horner
            np.add(out, 1, out=out)
            np.multiply(out, t, out=out)
            np.add(out, 1, out=out)

    @property
    def gradient_tiles(self) -> int:
        return 1 if self.nu == 1.5 else 2

    def _slope(
        self, rows: Matrix, columns: Matrix, gram: Matrix, out: Matrix, work: Matrix
    ) -> None:
        # minus the derivative in t, over t: exp(-t)/t, exp(-t), (1 + t) exp(-t)/3
        distances(rows, columns, out)
        if self.nu == 0.5:
            np.divide(gram, out, out=work[0], where=out > 0)  # a kink at 0, where it is 0
            np.copyto(work[0], 0, where=out <= 0)
            np.copyto(out, work[0])
            return
        if self.nu == 2.5:
            np.add(out, 1, out=work[0])
        np.negative(out, out=out)
        np.exp(out, out=out)
        if self.nu == 2.5:
            np.multiply(out, work[0], out=out)
            np.multiply(out, 1 / 3, out=out)

    def rounding(self, columns: Matrix) -> float:
        error = super().rounding(columns)  # of the squared distance
        return math.sqrt(error) if self.nu == 0.5 else error

    def spectral_scales(self, rng: np.random.Generator, count: int, d: int) -> NDArray[np.float64]:
        # the multivariate t distribution with 2 nu degrees of freedom
        scales: NDArray[np.float64] = self._scale / np.sqrt(
            rng.chisquare(2.0 * self.nu, size=(count, 1))
        )
        return np.broadcast_to(scales, (count, d))

    def spec(self) -> str:
        return self._spec(f"{self.name}{2 * self.nu:.0f}2", self.length)
