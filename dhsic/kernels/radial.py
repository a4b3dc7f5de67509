"""Kernels of the distance between rows: a profile for each, and shared tiles of distances.

One matrix product computes Euclidean distances between prepared rows, -|x - z|^2 = <(2x, -|x|^2,
1), (z, 1, -|z|^2)>. A single column is not expanded: its differences are exact, and the expanded
square is not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy
from numpy.typing import DTypeLike, NDArray

from dhsic.kernels.base import Kernel, Matrix, Vector, median_distance, positive

# Beyond, exponentials come near the least float64 and take three times as long. 7e-218 is 0 enough.
_FAR = 500.0
_HARMLESS = 1e-4  # exp of it is no worse than a float32 tile; dropping signs would cost time


class Radial(Kernel):
    """A function of the Euclidean distance in units of the kernel.

    A subclass has a `profile`, and a parameter, named by `scale_name`, that follows the median
    distance of a sample. A subclass with `slope` has a gradient, and one with `mixing` has random
    frequencies.

    Parameters
    ----------
    origin : tuple of float, optional
        Row that is subtracted from every row; affects rounding only.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> from dhsic.kernels import Radial
    >>> @dataclass(frozen=True)
    ... class Wendland(Radial):
    ...     gamma: float | None = None
    ...     name = "wendland"
    ...     def profile(self, out, work):
    ...         np.subtract(1, np.sqrt(out), out=out)
    ...         np.maximum(out, 0, out=out)
    ...         np.square(out, out=out)
    >>> Wendland(gamma=0.25)(np.array([[0.0], [1.0], [3.0]]))
    array([[1.  , 0.25, 0.  ],
           [0.25, 1.  , 0.  ],
           [0.  , 0.  , 1.  ]])
    """

    scale_name: ClassVar[str] = "gamma"
    squared: ClassVar[bool] = True  # whether `profile` takes squared distances

    def profile(self, out: Matrix, work: Matrix) -> None:
        """Write the kernel over the distances, squared or not, in units of the kernel, in place."""
        raise NotImplementedError

    def slope(self, rows: Matrix, columns: Matrix, gram: Matrix, out: Matrix, work: Matrix) -> None:
        """Write f into `out`, where the gradient in units of the kernel is -f (x - z)."""
        raise NotImplementedError

    def _distances(self, rows: Matrix, columns: Matrix, out: Matrix) -> None:
        (squared_distances if self.squared else distances)(rows, columns, out)

    def tile(self, rows: Matrix, columns: Matrix, out: Matrix, work: Matrix) -> None:
        self._distances(rows, columns, out)
        self.profile(out, work)

    def width(self, d: int) -> int:
        return prepared_width(d)

    def rows(self, x: NDArray[Any], dtype: DTypeLike = np.float64) -> Matrix:
        return prepare_rows(*self._scaled(x, dtype))

    def as_columns(self, rows: Matrix) -> Matrix:
        return as_columns(rows)

    def rounding(self, columns: Matrix) -> float:
        return min(1.0, cancellation(columns))

    def mixing(self, rng: np.random.Generator, count: int) -> Vector:
        """Draw t so that the kernel is E exp(-t r), of squared distances r in its units.

        Radial kernels of any number of columns are such mixtures of Gaussian ones (Schoenberg).
        """
        return super().spectral_scales(rng, count, 1)[:, 0]

    def spectral_scales(self, rng: np.random.Generator, count: int, d: int) -> Vector:
        # exp(-t r) has frequencies of the law N(0, 2 t), by Bochner.
        scales: Vector = self._scale * np.sqrt(2.0 * self.mixing(rng, count))
        return np.broadcast_to(scales[:, None], (count, d))

    @property
    def differentiable(self) -> bool:
        return type(self).slope is not Radial.slope

    def gradient(
        self, rows: Matrix, columns: Matrix, gram: Matrix, weights: Matrix, work: Matrix
    ) -> Matrix:
        if not self.differentiable:
            return super().gradient(rows, columns, gram, weights, work)
        slope = work[0]
        self.slope(rows, columns, gram, slope, work[1:])
        np.multiply(slope, weights, out=slope)
        return -self._scale * weighted_differences(rows, columns, slope)


@dataclass(frozen=True)
class Gaussian(Radial):
    """Gaussian kernel, exp(-gamma |x - y|^2).

    Parameters
    ----------
    gamma : float, optional
        Inverse squared length, in 1 / (units of the variable)^2. By default `fit` takes
        1 / (median distance)^2 of the sample.
    origin : tuple of float, optional
        Row that is subtracted from every row; affects rounding only.

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
    exponential: ClassVar[bool] = True

    def tile(self, rows: Matrix, columns: Matrix, out: Matrix, work: Matrix) -> None:
        minus_squared_distances(rows, columns, out)
        # Rows of many columns are nowhere so near and so far at once.
        single = rows.shape[1] == 1 and out.dtype == np.float64 and out.size > 0
        if single and np.ptp(np.concatenate([rows, columns])) ** 2 > _FAR:
            np.maximum(out, -_FAR, out=out)
        np.exp(out, out=out)

    def slope(self, rows: Matrix, columns: Matrix, gram: Matrix, out: Matrix, work: Matrix) -> None:
        np.multiply(gram, 2, out=out)  # the gradient is -2 k (x - z)

    def mixing(self, rng: np.random.Generator, count: int) -> Vector:
        return np.ones(count)


class _Rational(Radial):
    """(1 + r)^(-alpha) of squared distances r."""

    alpha: ClassVar[float]

    def profile(self, out: Matrix, work: Matrix) -> None:
        if self.alpha in (0.5, 1.0):
            np.add(out, 1, out=out)
            np.reciprocal(np.sqrt(out, out=out) if self.alpha == 0.5 else out, out=out)
            return
        # (1 + r)^(-alpha) as exp(-alpha log1p(r)), which keeps the digits of small distances.
        np.log1p(out, out=out)
        np.multiply(out, -self.alpha, out=out)
        np.exp(out, out=out)

    def slope(self, rows: Matrix, columns: Matrix, gram: Matrix, out: Matrix, work: Matrix) -> None:
        # minus twice the derivative in the squared distance r: 2 alpha (1 + r)^(-alpha - 1)
        self._distances(rows, columns, out)
        np.add(out, 1, out=out)
        np.divide(gram, out, out=out)
        np.multiply(out, 2 * self.alpha, out=out)

    def rounding(self, columns: Matrix) -> float:
        # the steepest derivative of (1 + r)^(-alpha) is alpha, where that of exp(-r) is 1
        return min(1.0, max(1.0, self.alpha) * cancellation(columns))

    def mixing(self, rng: np.random.Generator, count: int) -> Vector:
        return rng.gamma(self.alpha, size=count)


@dataclass(frozen=True)
class InverseMultiquadric(_Rational):
    """Inverse multiquadric kernel, (1 + gamma |x - y|^2)^(-1/2) [1]_, with heavier tails.

    Parameters
    ----------
    gamma : float, optional
        Inverse squared length, in 1 / (units of the variable)^2. By default `fit` takes
        1 / (median distance)^2 of the sample.
    origin : tuple of float, optional
        Row that is subtracted from every row; affects rounding only.

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
    alpha: ClassVar[float] = 0.5


@dataclass(frozen=True)
class RationalQuadratic(_Rational):
    """Rational quadratic kernel, (1 + gamma |x - y|^2 / alpha)^(-alpha).

    It is a mixture of Gaussian kernels of all lengths, so that one kernel detects dependence at
    several scales; it is characteristic for every alpha. With alpha 1 it is the Cauchy kernel, with
    alpha 1/2 the inverse multiquadric kernel, and the Gaussian kernel with the same gamma is its
    limit as alpha grows [1]_.

    Parameters
    ----------
    alpha : float, optional
        Decay of the tails; a smaller alpha means heavier tails.
    gamma : float, optional
        Inverse squared length, in 1 / (units of the variable)^2. By default `fit` takes
        1 / (median distance)^2 of the sample.
    origin : tuple of float, optional
        Row that is subtracted from every row; affects rounding only.

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

    alpha: float = 1.0  # type: ignore[misc]
    gamma: float | None = None

    name: ClassVar[str] = "rq"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check("alpha", "a finite number > 0", positive)

    @property
    def _scale(self) -> float:
        # the root of a quotient would lose numbers whose quotient is too small
        return super()._scale / math.sqrt(self.alpha)


@dataclass(frozen=True)
class Matern(Radial):
    """Matern kernel of smoothness nu, a function of t = sqrt(2 nu) |x - y| / length [1]_.

    It is exp(-t) for nu = 1/2, (1 + t) exp(-t) for 3/2 and (1 + t + t^2/3) exp(-t) for 5/2.

    Parameters
    ----------
    nu : {0.5, 1.5, 2.5}, optional
        Smoothness; written matern12, matern32 and matern52 in text.
    length : float, optional
        Length scale, in units of the variable. By default `fit` takes the median distance
        of the sample.
    origin : tuple of float, optional
        Row that is subtracted from every row; affects rounding only.

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
    scale_name: ClassVar[str] = "length"
    power: ClassVar[int] = 1
    squared: ClassVar[bool] = False
    work_tiles = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check("nu", "0.5, 1.5 or 2.5", lambda nu: nu in (0.5, 1.5, 2.5))

    @property
    def _scale(self) -> float:
        return math.sqrt(2.0 * self.nu) / self._fitted("length")

    def profile(self, out: Matrix, work: Matrix) -> None:
        # (4.17) of the reference
        _damp(out, {0.5: (1.0,), 1.5: (1.0, 1.0), 2.5: (1.0, 1.0, 1 / 3)}[self.nu], work[0])

    def slope(self, rows: Matrix, columns: Matrix, gram: Matrix, out: Matrix, work: Matrix) -> None:
        # minus the derivative in t, over t: exp(-t)/t, exp(-t), (1 + t) exp(-t)/3
        self._distances(rows, columns, out)
        if self.nu == 0.5:
            np.divide(gram, out, out=out, where=out > 0)  # a kink at 0, where it is 0
        else:
            _damp(out, {1.5: (1.0,), 2.5: (1 / 3, 1 / 3)}[self.nu], work[0])

    def rounding(self, columns: Matrix) -> float:
        error = super().rounding(columns)  # of the squared distance
        return math.sqrt(error) if self.nu == 0.5 else error

    def mixing(self, rng: np.random.Generator, count: int) -> Vector:
        # Frequencies have the multivariate t distribution with 2 nu degrees of freedom.
        return 0.5 / rng.chisquare(2.0 * self.nu, size=count)

    def spec(self) -> str:
        return super().spec().replace(f"{self.name}:{self.nu}", f"{self.name}{2 * self.nu:.0f}2")


def _damp(t: Matrix, coefficients: tuple[float, ...], work: Matrix) -> None:
    """Write a polynomial of a tile t, times exp(-t), in its place."""
    work.fill(coefficients[-1])
    for coefficient in coefficients[-2::-1]:  # by Horner
        np.multiply(work, t, out=work)
        np.add(work, coefficient, out=work)
    np.negative(t, out=t)
    np.exp(t, out=t)
    np.multiply(t, work, out=t)


@dataclass(frozen=True)
class Laplacian(Kernel):
    """Laplacian kernel, exp(-gamma |x - y|_1), of the city-block distance [1]_.

    Parameters
    ----------
    gamma : float, optional
        Inverse length, in 1 / units of the variable. By default `fit` takes 1 / (median
        city-block distance) of the sample.
    origin : tuple of float, optional
        Row that is subtracted from every row; affects rounding only.

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
    exponential: ClassVar[bool] = True
    scale_name: ClassVar[str] = "gamma"
    power: ClassVar[int] = -1

    def _scale_of(self, sample: Vector) -> float:
        return 1.0 / median_distance(sample, "cityblock")

    def tile(self, rows: Matrix, columns: Matrix, out: Matrix, work: Matrix) -> None:
        (distances if rows.shape[1] == 1 else _cityblock)(rows, columns, out)
        np.negative(out, out=out)
        np.exp(out, out=out)

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

    def spectral_scales(self, rng: np.random.Generator, count: int, d: int) -> Vector:
        # a ratio of normals is Cauchy, independently in every column
        return self._scale / np.abs(rng.standard_normal((count, d)))


@dataclass(frozen=True)
class Distance(Kernel):
    """Distance-induced kernel, (|x - o|^q + |y - o|^q - |x - y|^q) / 2.

    It is the covariance of fractional Brownian motion with Hurst index q/2 (Zhang et al. 2018,
    section 2). With exponent 1, four times HSIC is the squared distance covariance, whatever the
    origin o (Sejdinovic et al. 2013, Annals of Statistics 41; Zhang et al. 2018, appendix A).

    Parameters
    ----------
    exponent : float, optional
        q, in (0, 2]; with 2 the kernel is linear and detects linear dependence only.
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
        # Beside prepared rows, |x - o|^q / 2.
        halves = 0.5 * norms ** (0.5 * self.exponent)
        return np.column_stack([prepare_rows(scaled, norms), halves.astype(scaled.dtype)])

    def as_columns(self, rows: Matrix) -> Matrix:
        return np.column_stack([as_columns(rows[:, :-1]), rows[:, -1]])

    def tile(self, rows: Matrix, columns: Matrix, out: Matrix, work: Matrix) -> None:
        distances(rows[:, :-1], columns[:, :-1], out)
        _raise(out, self.exponent)
        # (|x|^q + |z|^q - |x - z|^q) / 2 with halves that were prepared: Zhang et al. (2018),
        # section 2.
        np.multiply(out, -0.5, out=out)
        np.add(out, rows[:, -1:], out=out)
        np.add(out, columns[:, -1].copy(), out=out)

    def gradient(
        self, rows: Matrix, columns: Matrix, gram: Matrix, weights: Matrix, work: Matrix
    ) -> Matrix:
        # The gradient in x is q / 2 (|x|^(q - 2) x - |x - z|^(q - 2) (x - z)).
        q, prepared, slope = self.exponent, rows[:, :-1], work[0]
        distances(prepared, columns[:, :-1], slope)
        # Equal rows have no direction: their term is 0, and 0^(q - 2) must not be formed.
        np.power(slope, q - 2.0, out=slope, where=slope > 0)
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


def _raise(out: Matrix, exponent: float) -> None:
    """Raise a tile of distances to a power, in place."""
    if exponent == 1.0:
        return
    with np.errstate(divide="ignore"):  # exp(q log 0) = 0; np.power is seven times slower
        np.log(out, out=out)
    np.multiply(out, exponent, out=out)
    np.exp(out, out=out)


def _cityblock(rows: Matrix, columns: Matrix, out: Matrix, strip: int = 32) -> None:
    """Write |x - z|_1 into `out`, by strips, because `cdist` returns float64 only."""
    columns, distances = columns.astype(np.float64, copy=False), scipy.spatial.distance.cdist
    for first in range(0, len(rows), strip):
        out[first : first + strip] = distances(rows[first : first + strip], columns, "cityblock")


def prepared_width(d: int) -> int:
    """Columns of the prepared arrays for rows of `d` numbers."""
    return 1 if d == 1 else d + 2


def prepare_rows(x: Matrix, norms: Vector) -> Matrix:
    """From (b, d) and the squared norms (b,) to (2x, -|x|^2, 1); doubling is exact."""
    if x.shape[1] == 1:
        return x
    prepared = np.empty((len(x), x.shape[1] + 2), x.dtype)
    np.multiply(x, 2, out=prepared[:, :-2])
    prepared[:, -2], prepared[:, -1] = -norms, 1
    return prepared


def as_columns(rows: Matrix) -> Matrix:
    """From (2x, -|x|^2, 1) to (x, 1, -|x|^2)."""
    if rows.shape[1] == 1:
        return rows
    columns: Matrix = rows * rows.dtype.type(0.5)
    columns[:, -2], columns[:, -1] = 1, rows[:, -2]
    return columns


def minus_squared_distances(rows: Matrix, columns: Matrix, out: Matrix) -> None:
    """Write -|x - z|^2 into `out`, above 0 by harmless rounding at most."""
    if rows.shape[1] > 1 and cancellation(rows) + cancellation(columns) < _HARMLESS:
        # One product of augmented rows gives the distances, without norms to be added afterwards.
        np.matmul(rows, columns.T, out=out)
    else:
        squared_distances(rows, columns, out)
        np.negative(out, out=out)


def squared_distances(rows: Matrix, columns: Matrix, out: Matrix) -> None:
    """Write |x - z|^2 into `out`; the sign that rounding may leave is dropped."""
    if rows.shape[1] == 1:
        _differences(rows, columns, out)
        np.square(out, out=out)
    else:
        np.matmul(rows, columns.T, out=out)
        np.abs(out, out=out)


def distances(rows: Matrix, columns: Matrix, out: Matrix) -> None:
    """Write |x - z| into `out`."""
    if rows.shape[1] == 1:
        _differences(rows, columns, out)
        np.abs(out, out=out)
    else:
        squared_distances(rows, columns, out)
        _drop_rounding(rows, columns, out)
        np.sqrt(out, out=out)


def weighted_differences(rows: Matrix, columns: Matrix, weights: Matrix) -> Vector:
    """sum_j weights_ij (x_i - z_j) from prepared rows and columns, shape (b, d).

    The one that stands beside z_j sums the weights in the same matrix product.
    """
    if rows.shape[1] == 1:
        x, sums, products = rows, weights.sum(axis=1, keepdims=True), weights @ columns
    else:
        both = weights @ columns[:, :-1]
        x, sums, products = 0.5 * rows[:, :-2], both[:, -1:], both[:, :-1]
    # The two nearly cancel where rows are near, and so are made in double precision.
    differences: Vector = np.multiply(x, sums, dtype=np.float64) - products
    return differences


def _drop_rounding(rows: Matrix, columns: Matrix, out: Matrix, strip: int = 32) -> None:
    """Write 0 for what may be rounding: equal rows must not lie the root of the epsilon apart."""
    bound = relative_cancellation(rows)
    left, right = -bound * rows[:, -2], -bound * columns[:, -1]  # from -|x|^2 and -|z|^2
    for start in range(0, len(rows), strip):
        at = slice(start, start + strip)
        np.copyto(out[at], 0, where=out[at] <= np.add.outer(left[at], right))


def _differences(rows: Matrix, columns: Matrix, out: Matrix) -> None:
    np.subtract(rows, columns[:, 0].copy(), out=out)  # the copy makes the inner loop contiguous


def cancellation(prepared: Matrix) -> float:
    """Error of the squared distance between rows as far from the origin as the farthest here.

    Rounding errors of either sign make it grow with the root of the number of terms.
    """
    if prepared.shape[1] == 1:
        return 0.0
    least = min(prepared[:, -2].min(initial=0.0), prepared[:, -1].min(initial=0.0))  # -|x|^2 or 1
    return relative_cancellation(prepared) * -float(least)


def relative_cancellation(prepared: Matrix) -> float:
    """Error of the squared distance between near rows over their squared norm."""
    if prepared.shape[1] == 1:
        return 0.0
    return 2.0 * math.sqrt(prepared.shape[1]) * float(np.finfo(prepared.dtype).eps)
