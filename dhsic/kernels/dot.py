"""Kernels that are inner products of centred rows, of indicators, or of trends."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dhsic.errors import DataError, InvalidArgumentError
from dhsic.kernels.base import Kernel, Matrix, Vector, as_sample, median_or_mean


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

    def fit(self, sample: Vector) -> Self:
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
        In 1 / (units of the variable)^2. By default `fit` takes 1 / (median of |x - origin|^2) of
        the sample, so that units do not affect the weights of the degrees.
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
    work_tiles = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check("degree", "an integer >= 1", lambda m: m >= 1 and m.is_integer())
        object.__setattr__(self, "degree", int(self.degree))
        self._check("coef0", "a finite number >= 0", lambda c: 0.0 <= c < math.inf)

    def _scale_of(self, sample: Vector) -> float:
        centred = self._centred(sample)
        # A typical inner product is then about 1, in any units.
        return 1.0 / median_or_mean(np.einsum("ij,ij->i", centred, centred))

    @property
    def has_length(self) -> bool:
        return self.coef0 > 0.0

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

    def gradient(
        self, rows: Matrix, columns: Matrix, gram: Matrix, weights: Matrix, work: Matrix
    ) -> Matrix:
        slope = work[0]
        _inner_products(rows, columns, slope)
        np.add(slope, self.coef0, out=slope)
        _raise(slope, self.degree - 1, work[1:])
        np.multiply(slope, weights, out=slope)
        # degree (<x, z> + c)^(degree - 1) z in scaled rows, whose scale is the inner derivative.
        gradients: Matrix = self._scale * self.degree * (slope @ columns).astype(np.float64)
        return gradients


@dataclass(frozen=True)
class Delta(Kernel):
    """Kernel of categories: 1 where all columns of two rows are equal, else 0.

    References
    ----------
    .. [1] L. Song, A. Smola, A. Gretton, J. Bedo, K. Borgwardt. Feature selection via dependence
       maximization. JMLR 13, 2012, for kernels of labels.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.kernels import Delta
    >>> Delta()(np.array([[1], [2], [1]]))
    array([[1., 0., 1.],
           [0., 1., 0.],
           [1., 0., 1.]])
    """

    origin: tuple[float, ...] | None = field(default=None, init=False, repr=False)

    name: ClassVar[str] = "delta"
    work_tiles = 1

    def fit(self, sample: Vector) -> Self:
        return self

    def measured(self, d: int) -> frozenset[int]:
        return frozenset()

    def rows(self, x: NDArray[Any], dtype: DTypeLike = np.float64) -> Matrix:
        x = np.asarray(x)
        self._check_shape(x)
        with np.errstate(over="ignore", invalid="ignore"):
            codes = x.astype(dtype, order="C", copy=False)
            # A code that the precision does not hold would fall together with another: 2^24 + 1 is
            # 2^24 in float32.
            kept = codes.astype(x.dtype, copy=False) == x
        if not np.isfinite(codes).all():
            msg = "delta: categories must be finite; got NaN or inf: give missing values a number"
            raise DataError(msg)
        if not kept.all():
            msg = (
                f"delta: categories must be numbers that {np.dtype(dtype)} holds exactly; got "
                f"{x[~kept][0].item()!r}: recode them as small integers, or use float64"
            )
            raise InvalidArgumentError(msg)
        return codes

    def tile(self, rows: Matrix, columns: Matrix, out: Matrix, work: Matrix) -> None:
        # The copy makes the inner loop contiguous.
        np.equal(rows[:, :1], columns[:, 0].copy(), out=out)
        for j in range(1, rows.shape[1]):
            np.equal(rows[:, j : j + 1], columns[:, j].copy(), out=work[0])
            np.multiply(out, work[0], out=out)


@dataclass(frozen=True)
class AndersonDarling(Kernel):
    """Anderson-Darling kernel, -log max(u, v) - log(1 - min(u, v)) - 1, of numbers within 0 and 1.

    It is the inner product of indicators, int (1[u <= t] - t) (1[v <= t] - t) / (t (1 - t)) dt,
    with the weight of the tails by Anderson and Darling [1]; for several columns it is the mean
    over columns. With `Ranked` it detects monotone dependence and differences in the tails.

    References
    ----------
    .. [1] T. Anderson, D. Darling. Asymptotic theory of certain goodness of fit criteria based on
       stochastic processes. Annals of Mathematical Statistics 23, 1952.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.kernels import AndersonDarling
    >>> AndersonDarling()(np.array([[0.5], [0.75]])).round(4)
    array([[ 0.3863, -0.0192],
           [-0.0192,  0.674 ]])
    """

    origin: tuple[float, ...] | None = field(default=None, init=False, repr=False)

    name: ClassVar[str] = "anderson-darling"
    work_tiles = 1

    def fit(self, sample: Vector) -> Self:
        # There is nothing to fit: values are only checked.
        self.rows(as_sample(sample))
        return self

    def width(self, d: int) -> int:
        return 2 * d

    def rows(self, x: NDArray[Any], dtype: DTypeLike = np.float64) -> Matrix:
        x = np.asarray(x)
        self._check_shape(x)
        if not ((x > 0.0) & (x < 1.0)).all():
            msg = (
                f"{self.name}: values must lie within 0 and 1; got {float(x.min()):.3g} to "
                f"{float(x.max()):.3g}: take 'ranks({self.name})'"
            )
            raise DataError(msg)
        x = x.astype(np.float64, copy=False)
        # -log u and -log(1 - u) of every column; log1p keeps the digits of the lower tail.
        return np.ascontiguousarray(np.concatenate([-np.log(x), -np.log1p(-x)], axis=1), dtype)

    def tile(self, rows: Matrix, columns: Matrix, out: Matrix, work: Matrix) -> None:
        # -log max(u, v) is the smaller of -log u and -log v, and so for 1 - u and 1 - v
        w = rows.shape[1]
        for j in range(w):
            to = work[0] if j else out
            # Copies, since loops over numbers that are side by side are quicker.
            np.minimum(rows[:, j].copy()[:, None], columns[:, j].copy(), out=to)
            if j:
                np.add(out, to, out=out)
        # Two logarithms are prepared for each column, so that w / 2 columns are averaged.
        if w > 2:
            np.multiply(out, 2.0 / w, out=out)
        np.subtract(out, 1.0, out=out)


def _raise(out: Matrix, degree: int, work: Matrix) -> None:
    """Raise a tile to a whole power, in place."""
    np.copyto(work[0], out)
    out.fill(1)
    for _ in range(degree):
        np.multiply(out, work[0], out=out)


def _inner_products(rows: Matrix, columns: Matrix, out: Matrix) -> None:
    if rows.shape[1] == 1:  # a matrix product of rank one is four times slower
        np.multiply(rows, columns[:, 0].copy(), out=out)
    else:
        np.matmul(rows, columns.T, out=out)
