"""Define kernels of rows, fit them to a sample, and evaluate them tile by tile.

The base comes first, then functions of the distance between rows, inner products, and sums and
products of kernels; then how bandwidths follow a sample, and how tiles of distances are computed.

One matrix product computes Euclidean distances between prepared rows, -|x - z|^2 = <(2x, -|x|^2,
1), (z, 1, -|z|^2)>. A single column is not expanded: its differences are exact, and the expanded
square is not.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, lru_cache
from itertools import count
from typing import Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
import scipy
from numpy.typing import DTypeLike, NDArray

from dhsic._validation import check_number
from dhsic.errors import DataError, InvalidArgumentError

Matrix = NDArray[np.floating[Any]]
Vector = NDArray[np.float64]
ColumnNumbers: TypeAlias = "range | tuple[int, ...]"

_FEWEST_ON_LINE = 2**7  # of fewer numbers all pairs are taken
_MANY, _SOME = 2**16, 2**13  # distances, of which so many bound the median
# float64 holds the square of it and of its inverse, as gamma = 1 / median^2 needs.
_TINY = 1e-100
# Beyond, exponentials come near the least float64 and take three times as long. 7e-218 is 0 enough.
_FAR = 500.0
_HARMLESS = 1e-4  # exp of it is no worse than a float32 tile; dropping signs would cost time
_STRIP = 32  # rows of a tile whose distances are looked at in double precision


@dataclass(frozen=True)
class Kernel(ABC):
    """A positive definite kernel on rows of real numbers.

    A kernel is a frozen value. `fit` replaces parameters that are None by values from a sample of
    the variable, so that they follow its units. Prepared rows and columns are plain 2-d arrays;
    slices along axis 0 are the prepared slices of the data. `tile` computes a tile of the Gram
    matrix from such slices, in place. Kernels can be added and multiplied: ``k1 + k2``,
    ``k1 * k2``.

    Parameters
    ----------
    origin : tuple of float, optional
        Row that is subtracted from every row. For translation-invariant kernels it affects rounding
        only; for other kernels it is part of the kernel. `fit` sets it to the median of the sample.

    Examples
    --------
    A kernel of one's own is a subclass, see the page on extending; those that are there are values.

    >>> import numpy as np
    >>> from dhsic.kernels import Gaussian, Linear
    >>> kernel = Gaussian(gamma=1.0) + Linear()
    >>> kernel(np.array([[0.0], [2.0]])).round(4)
    array([[1.    , 0.0183],
           [0.0183, 5.    ]])
    >>> Gaussian().fit(np.array([[0.0], [2.0], [4.0]])).gamma
    0.25
    """

    origin: tuple[float, ...] | None = field(default=None, kw_only=True)

    name: ClassVar[str]
    scale_name: ClassVar[str] = ""
    """The parameter that is fitted to how far apart the rows of a sample are; "" where none is."""
    # By which power of a length it goes: -2 of a factor of squared distances.
    power: ClassVar[int] = -2
    # Whether it is exp(-gamma r), so that the kernel of another gamma is a power of it.
    exponential: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.scale_name:
            self._check(self.scale_name, "a finite number > 0", positive)
        if self.origin is None:
            return
        origin = tuple(float(coordinate) for coordinate in self.origin)
        if not all(map(math.isfinite, origin)):
            msg = f"{self.name}: origin must be finite; got {origin}: leave it out for the median"
            raise InvalidArgumentError(msg)
        object.__setattr__(self, "origin", origin)

    def fit(self, sample: Vector) -> Self:
        """Fill the parameters that are None from a sample of the variable.

        Parameters
        ----------
        sample : ndarray, shape (s, d)
            Rows of the variable, finite.

        Returns
        -------
        Kernel
            Kernel of the same class, with every parameter set.
        """
        sample = as_sample(sample)
        changed: dict[str, Any] = {}
        # Tiles of distances expand |x - z|^2 into norms. About the median these are small, so that
        # float32 keeps digits of the difference. A kernel that is fitted already stays as it is.
        if self.origin is None:
            changed["origin"] = tuple(np.median(sample, axis=0).tolist())
        if self._unset:
            changed[self.scale_name] = self._scale_of(sample)
        return replace(self, **changed) if changed else self

    def _scale_of(self, sample: Vector) -> float:
        """The scale by the median heuristic, about the origin or the median of the sample."""
        return median_distance(sample) ** self.power

    def _with_scale(self, value: float) -> Self:
        changed: dict[str, Any] = {self.scale_name: value}
        return replace(self, **changed)

    @property
    def _unset(self) -> bool:
        """Whether there is a scale to be fitted."""
        return bool(self.scale_name) and getattr(self, self.scale_name) is None

    def scale_columns(self, d: int) -> tuple[tuple[int, ...], ...]:
        """Sets of columns, each of which should vary in the sample that a scale is fitted to.

        Parameters
        ----------
        d : int
            Columns of the variable.

        Returns
        -------
        tuple of tuple of int
            None where there is no scale to be fitted.
        """
        return (tuple(range(d)),) if self._unset else ()

    def measured(self, d: int) -> frozenset[int]:
        """The columns, of d, whose values it compares as numbers."""
        return frozenset(range(d))

    @property
    def has_length(self) -> bool:
        """Whether the kernel has a length scale that `widened` multiplies."""
        return bool(self.scale_name)

    def widened(self, factor: float) -> Self:
        """Return the fitted kernel with its length scale multiplied; itself if it has none."""
        if not self.has_length:
            return self
        value = self._fitted(self.scale_name)
        return self._with_scale(value * factor if self.power == 1 else value / factor**-self.power)

    def as_power(self) -> tuple[Kernel, float]:
        """A kernel and the exponent with which its values are this one's; itself and 1 at least."""
        if not self.exponential or self._unset:
            return self, 1.0
        return self._with_scale(1.0), self._fitted(self.scale_name)

    @property
    def work_tiles(self) -> int:
        """Number of scratch tiles with the shape and dtype of the output that `tile` needs."""
        return 0

    def width(self, d: int) -> int:
        """Columns of the prepared arrays for a variable with `d` columns."""
        return d

    def rows(self, x: NDArray[Any], dtype: DTypeLike = np.float64) -> Matrix:
        """Prepare rows of data for `tile`: (b, d) to (b, width(d)), C-contiguous."""
        return self._scaled(x, dtype)[0]

    def as_columns(self, rows: Matrix) -> Matrix:
        """Prepared rows (b, w) as the other argument of `tile`, shape (b, w)."""
        return rows

    def columns(self, z: NDArray[Any], dtype: DTypeLike = np.float64) -> Matrix:
        """Prepare landmarks for `tile`: (p, d) to (p, width(d)), C-contiguous."""
        return self.as_columns(self.rows(z, dtype))

    def rows_and_columns(
        self, x: NDArray[Any], dtype: DTypeLike = np.float64
    ) -> tuple[Matrix, Matrix]:
        """Prepare data as `rows` and as `columns`, at less than the price of both."""
        rows = self.rows(x, dtype)
        return rows, self.as_columns(rows)

    @property
    def _scale(self) -> float:
        """Factor of the centred rows."""
        if not self.scale_name:
            return 1.0
        value = self._fitted(self.scale_name)
        return math.sqrt(value) if self.power == -2 else value**-self.power

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

    def gram(self, rows: Matrix, columns: Matrix, dtype: DTypeLike = np.float64) -> Matrix:
        """Compute the Gram matrix of prepared rows and columns, by `tile`, in a new array.

        Parameters
        ----------
        rows, columns : ndarray, shapes (b, w) and (p, w)
            From `rows` and `columns`, or slices of them along axis 0.
        dtype : dtype, optional
            Precision, that of `rows`.

        Returns
        -------
        ndarray, shape (b, p)
        """
        out = np.empty((len(rows), len(columns)), dtype)
        self.tile(rows, columns, out, np.empty((self.work_tiles, *out.shape), dtype))
        return out

    @property
    def differentiable(self) -> bool:
        """Whether the kernel has a `gradient`."""
        return type(self).gradient is not Kernel.gradient

    @property
    def gradient_tiles(self) -> int:
        """How many scratch tiles of the shape and dtype of the weights `gradient` needs."""
        return 2

    def gradient(
        self, rows: Matrix, columns: Matrix, gram: Matrix, weights: Matrix, work: Matrix
    ) -> Matrix:
        """Compute gradients sum_j weights_ij grad_x k(x_i, z_j) with respect to the first argument.

        Parameters
        ----------
        rows, columns : ndarray, shapes (b, w) and (p, w)
            From `rows` and `columns`, or slices of them along axis 0.
        gram : ndarray, shape (b, p)
            Gram matrix that `tile` writes for them.
        weights : ndarray, shape (b, p)
            In the precision of the tiles.
        work : ndarray, shape (gradient_tiles, b, p)
            Scratch, with the dtype of the weights.

        Returns
        -------
        ndarray, shape (b, d)
            In units of the kernel per unit of the variable. At a kink of a kernel at equal rows or
            columns the derivative counts as 0.

        Raises
        ------
        InvalidArgumentError
            The kernel has no derivative.
        """
        msg = (
            f"a gradient needs a differentiable kernel, got {self.spec()!r}: take 'gaussian' or "
            "another function of distances or products"
        )
        raise InvalidArgumentError(msg)

    def rounding(self, columns: Matrix) -> float:
        """Bound the error that cancellation leaves in the kernel near prepared landmarks.

        Parameters
        ----------
        columns : ndarray, shape (p, w)
            From `columns`; its dtype is the precision in question.

        Returns
        -------
        float
            Error of k(x, z) over sqrt(k(x, x) k(z, z)); 0 for kernels that cancel no digits.
        """
        return 0.0

    def spectral_scales(self, rng: np.random.Generator, count: int, d: int) -> Vector:
        """Draw s so that k(x, y) = E cos(<s * g, x - y>) for normal g: frequencies are s * g.

        Every translation-invariant kernel of dhsic but `Delta` is such a mixture of Gaussians, by
        the theorem of Bochner.

        Parameters
        ----------
        rng : Generator
            Draws them.
        count : int
            Number of frequencies.
        d : int
            Columns of the variable.

        Returns
        -------
        ndarray, shape (count, d)
            In 1 / units of the variable.

        Raises
        ------
        InvalidArgumentError
            The kernel has no spectral law.
        """
        msg = (
            "random frequencies need a kernel with a spectral law: gaussian, laplacian, matern12, "
            f"matern32, matern52, imq, rq or a product of them; got {self.spec()!r}: take "
            "estimator='nystrom-m' or 'nystrom-hsic' with this kernel"
        )
        raise InvalidArgumentError(msg)

    def spec(self) -> str:
        """Write the kernel as text that `dhsic.kernels.parse` reads, without the origin."""
        values = (getattr(self, name) for name in self.parameters())
        return ":".join([self.name, *(repr(value) for value in values if value is not None)])

    @classmethod
    @lru_cache
    def parameters(cls) -> tuple[str, ...]:
        """Names of the parameters that the text of a kernel gives after colons, in that order."""
        return tuple(f.name for f in fields(cls) if not f.kw_only and f.name != "origin")

    def __call__(self, x: NDArray[Any], y: NDArray[Any] | None = None) -> Vector:
        """Gram matrix of the rows of `x` and `y` in float64.

        Parameters
        ----------
        x : ndarray, shape (b, d)
            Rows.
        y : ndarray, shape (p, d), optional
            Rows. The default is `x`.

        Returns
        -------
        ndarray, shape (b, p)
        """
        rows, columns = self.rows_and_columns(x)
        if y is not None and (columns := self.columns(y)).shape[1] != rows.shape[1]:
            msg = f"x and y must have equally many columns; got shapes {x.shape} and {y.shape}"
            raise InvalidArgumentError(msg)
        return self.gram(rows, columns).astype(np.float64, copy=False)

    def __add__(self, other: Kernel) -> Kernel:
        return Sum((self, other)) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: Kernel) -> Kernel:
        return Product((self, other)) if isinstance(other, Kernel) else NotImplemented

    def _scaled(self, x: NDArray[Any], dtype: DTypeLike) -> tuple[Matrix, Vector]:
        """Centred rows in units of the kernel (b, d), C-contiguous, and their squared norms."""
        return self._in_units(self._centred(x), self._scale, dtype)

    def _in_units(
        self, centred: Vector, scale: float | Vector, dtype: DTypeLike
    ) -> tuple[Matrix, Vector]:
        scaled = np.empty(centred.shape, dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            # Rows are centred in float64 and rounded once: in float32 the difference would lose the
            # digits that rows and origin share.
            np.multiply(centred, scale, out=scaled, casting="same_kind")
            # Norms add up in float64, since a distance is what is left of them.
            norms = np.einsum("ij,ij->i", scaled, scaled, dtype=np.float64)
        self._check_range(norms, dtype)
        return scaled, norms

    def _centred(self, x: NDArray[Any]) -> Vector:
        x = np.asarray(x)
        self._check_shape(x)
        if self.origin is None:
            return x.astype(np.float64, copy=False)
        centred: Vector = np.subtract(x, self.origin, dtype=np.float64)
        return centred

    @property
    def _columns(self) -> int | None:
        """How many columns rows must have, where that is known."""
        return None if self.origin is None else len(self.origin)

    def _check_shape(self, x: NDArray[Any]) -> None:
        expected = x.shape[1:] if self._columns is None else (self._columns,)
        if x.ndim != 2 or x.shape[1:] != expected:
            msg = (
                f"{self.name}: rows must have shape (n, {expected[0] if expected else 1}); got "
                f"{x.shape}: pass x[:, None] for one column, and fit a kernel for each variable"
            )
            raise InvalidArgumentError(msg)

    def _check_range(self, sizes: Vector, dtype: DTypeLike) -> None:
        """Refuse rows whose kernel values would overflow into inf and NaN."""
        # A squared distance is at most four such norms, and a factor of 2 is to spare.
        largest, limit = float(sizes.max(initial=0.0)), float(np.finfo(dtype).max) / 8
        # NaN is smaller than nothing, so that it is refused here as well.
        if not largest < limit:
            msg = (
                f"{self.name}: rows must be finite, and smaller than {limit:.0e} when centred, "
                f"scaled and squared in {np.dtype(dtype)}; got {largest:.3g}: "
                "drop missing values, use float64, or transform the variable (to ranks, say)"
            )
            raise DataError(msg)

    def _check(self, parameter: str, requirement: str, allowed: Callable[[float], bool]) -> None:
        """Require of a parameter that is not at its default, and make it a float."""
        value, default = getattr(self, parameter), getattr(type(self), parameter)
        # Most are of a kernel that was fitted or widened.
        if value is default or (type(value) is float and allowed(value)):
            return
        instead = "its value from the data" if default is None else repr(default)
        what, remedy = f"{self.name}: {parameter}", f"leave it out for {instead}"
        number = check_number(what, value, requirement, allowed, remedy)
        # The value is frozen, but is still being made here.
        object.__setattr__(self, parameter, number)

    def _fitted(self, parameter: str) -> float:
        value: float | None = getattr(self, parameter)
        if value is None:
            msg = f"{self.name}: {parameter} must be set before use; got None: call fit(sample)"
            raise InvalidArgumentError(msg)
        return value


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
        return 1 if d == 1 else d + 2

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
        # Above 0 by harmless rounding at most, one product of augmented rows gives -|x - z|^2,
        # without norms to be added afterwards.
        if rows.shape[1] > 1 and cancellation(rows) + cancellation(columns) < _HARMLESS:
            np.matmul(rows, columns.T, out=out)
        else:
            squared_distances(rows, columns, out)
            np.negative(out, out=out)
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
        if rows.shape[1] == 1:
            distances(rows, columns, out)
        else:
            z = columns.astype(np.float64, copy=False)
            for start in range(0, len(rows), _STRIP):  # `cdist` returns float64 only
                at = slice(start, start + _STRIP)
                out[at] = scipy.spatial.distance.cdist(rows[at], z, "cityblock")
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
        return 2 if d == 1 else d + 3

    def rows(self, x: NDArray[Any], dtype: DTypeLike = np.float64) -> Matrix:
        scaled, norms = self._scaled(x, dtype)
        # Beside prepared rows, |x - o|^q / 2.
        halves = 0.5 * norms ** (0.5 * self.exponent)
        return np.column_stack([prepare_rows(scaled, norms), halves.astype(scaled.dtype)])

    def as_columns(self, rows: Matrix) -> Matrix:
        return np.column_stack([as_columns(rows[:, :-1]), rows[:, -1]])

    def tile(self, rows: Matrix, columns: Matrix, out: Matrix, work: Matrix) -> None:
        distances(rows[:, :-1], columns[:, :-1], out)
        if self.exponent != 1.0:
            with np.errstate(divide="ignore"):  # exp(q log 0) = 0; np.power is seven times slower
                np.log(out, out=out)
            np.multiply(out, self.exponent, out=out)
            np.exp(out, out=out)
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
    >>> from dhsic.kernels.base import Codes
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
        if self.origin is None:
            centred = centred - np.median(sample, axis=0)
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
        self._write_power(rows, columns, self.degree, out, work[0])

    def _write_power(
        self, rows: Matrix, columns: Matrix, degree: int, out: Matrix, work: Matrix
    ) -> None:
        """Write (<x, z> + coef0)^degree into `out`."""
        _inner_products(rows, columns, work)
        np.add(work, self.coef0, out=work)
        out.fill(1)
        for _ in range(degree):
            np.multiply(out, work, out=out)

    def gradient(
        self, rows: Matrix, columns: Matrix, gram: Matrix, weights: Matrix, work: Matrix
    ) -> Matrix:
        slope = work[0]
        self._write_power(rows, columns, self.degree - 1, slope, work[1])
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


class Composite(Kernel):
    """A kernel made of others of the rows, or of columns of them, prepared side by side.

    A subclass says which columns its kernels see, by `placed`, and what they see of these, by
    `_seen`. What several of them give is added, or multiplied, as `_combine` says.
    """

    parts: Any
    _combine: ClassVar[np.ufunc] = np.add

    @property
    def _given(self) -> tuple[Kernel | None, ...]:
        """The kernels, of which those that are None do not count."""
        parts: tuple[Kernel | None, ...] = self.parts
        return parts

    def _of(self, kernels: Iterable[Kernel | None]) -> Self:
        """The same of other kernels."""
        changed: dict[str, Any] = {"parts": tuple(kernels)}
        return replace(self, **changed)

    @cached_property
    def _known(self) -> tuple[Kernel, ...]:
        return tuple(part for part in self._given if part is not None)

    def placed(self, d: int) -> Iterable[tuple[Kernel, ColumnNumbers]]:
        """The kernels that count, with the columns, of d, that are theirs."""
        return [(part, range(d)) for part in self._known]

    def _seen(self, x: NDArray[Any]) -> NDArray[Any]:
        """Rows of these columns as a kernel sees them."""
        return x

    def dimension(self, width: int) -> int:
        """Columns of the variable behind prepared arrays of so many columns, once fitted."""
        return _dimension(self, width)

    def _split(self, width: int) -> Iterator[tuple[Kernel, ColumnNumbers, slice]]:
        """Kernels with their columns of the variable, and of prepared arrays."""
        start = 0
        for part, of in self.placed(self.dimension(width)):
            yield part, of, slice(start, start := start + part.width(len(of)))

    def scale_columns(self, d: int) -> tuple[tuple[int, ...], ...]:
        sets = (
            tuple(of[j] for j in columns)
            for part, of in self.placed(d)
            for columns in part.scale_columns(len(of))
        )
        return tuple(dict.fromkeys(sets))

    def measured(self, d: int) -> frozenset[int]:
        return frozenset(of[j] for part, of in self.placed(d) for j in part.measured(len(of)))

    @property
    def has_length(self) -> bool:
        return any(part.has_length for part in self._known)

    def widened(self, factor: float) -> Self:
        return self._of(part and part.widened(factor) for part in self._given)

    def width(self, d: int) -> int:
        return sum(part.width(len(of)) for part, of in self.placed(d))

    def rows(self, x: NDArray[Any], dtype: DTypeLike = np.float64) -> Matrix:
        x = np.asarray(x)
        self._check_shape(x)
        placed = self.placed(x.shape[1])
        return _side_by_side([part.rows(self._seen(x[:, of]), dtype) for part, of in placed])

    def as_columns(self, rows: Matrix) -> Matrix:
        split = self._split(rows.shape[1])
        return _side_by_side([part.as_columns(rows[:, at]) for part, _, at in split])

    @property
    def work_tiles(self) -> int:
        first, *others = (part.work_tiles for part in self._known)
        # The first part writes into the output; each other one needs a tile besides its own
        # scratch.
        return max(first, 1 + max(others, default=-1))

    def tile(self, rows: Matrix, columns: Matrix, out: Matrix, work: Matrix) -> None:
        for k, (part, _, at) in enumerate(self._split(rows.shape[1])):
            if k == 0:
                part.tile(rows[:, at], columns[:, at], out, work)
            else:
                part.tile(rows[:, at], columns[:, at], work[0], work[1:])
                self._combine(out, work[0], out=out)

    @property
    def differentiable(self) -> bool:
        return all(part.differentiable for part in self._known)

    @property
    def gradient_tiles(self) -> int:
        return 2 + max(max(part.work_tiles, part.gradient_tiles) for part in self._known)

    def gradient(
        self, rows: Matrix, columns: Matrix, gram: Matrix, weights: Matrix, work: Matrix
    ) -> Matrix:
        if not self.differentiable:
            return super().gradient(rows, columns, gram, weights, work)
        split = tuple(self._split(rows.shape[1]))
        gradients = np.zeros((len(rows), self.dimension(rows.shape[1])))
        for k, (part, of, at) in enumerate(split):
            weighted = weights
            if self._combine is np.multiply:
                # The product rule: the gradient of a factor, weighted by the values of the others.
                # Their tiles are computed again for each factor: holding them all would take a
                # tile more for every kernel of the product.
                weighted = work[1]
                np.copyto(weighted, weights)
                for other, _, its in split[:k] + split[k + 1 :]:
                    other.tile(rows[:, its], columns[:, its], work[0], work[2:])
                    np.multiply(weighted, work[0], out=weighted)
            part.tile(rows[:, at], columns[:, at], work[0], work[2:])
            gradients[:, of] += part.gradient(
                rows[:, at], columns[:, at], work[0], weighted, work[2:]
            )
        return gradients


@lru_cache
def _dimension(kernel: Composite, width: int) -> int:
    # The number of columns is not stored: it is the one for which the prepared widths add up.
    return next(d for d in count(1) if kernel.width(d) == width)


def _side_by_side(prepared: Sequence[Matrix]) -> Matrix:
    return prepared[0] if len(prepared) == 1 else np.hstack(prepared)


@dataclass(frozen=True)
class _Combination(Composite):
    """Kernels of the same variable."""

    parts: tuple[Kernel, ...]
    origin: tuple[float, ...] | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        parts = tuple(self.parts)
        if len(parts) < 2 or not all(isinstance(part, Kernel) for part in parts):
            msg = f"a {self.name} needs two kernels or more; got {parts}: use the kernel itself"
            raise InvalidArgumentError(msg)
        # Parts of the same kind are taken apart, so that (a + b) + c is a + b + c.
        nested = [part.parts if isinstance(part, type(self)) else (part,) for part in parts]
        object.__setattr__(self, "parts", sum(nested, ()))

    def fit(self, sample: Vector) -> Self:
        return self._of(part.fit(sample) for part in self.parts)


class Sum(_Combination):
    """Sum of kernels on the same variable.

    The parts should not change with the units of the variable, or else the units determine which
    part dominates: add ``Polynomial(degree=1, coef0=0)`` to a Gaussian, not ``Linear()``.

    Parameters
    ----------
    parts : tuple of Kernel
        Two or more; sums among them are flattened.

    References
    ----------
    .. [1] B. Schoelkopf, A. Smola. Learning with kernels. MIT Press, 2002.

    Examples
    --------
    >>> from dhsic.kernels import Delta, Gaussian, Sum
    >>> Sum((Gaussian(gamma=0.5), Delta())) == Gaussian(gamma=0.5) + Delta()
    True
    >>> (Gaussian(gamma=0.5) + Delta()).spec()
    'gaussian:0.5+delta'
    """

    name: ClassVar[str] = "sum"

    def rounding(self, columns: Matrix) -> float:
        # by Cauchy and Schwarz the parts' sqrt(k(x, x) k(z, z)) add up to no more than the sum's
        return max(k.rounding(columns[:, at]) for k, _, at in self._split(columns.shape[1]))

    def spec(self) -> str:
        return "+".join(part.spec() for part in self.parts)


class Product(_Combination):
    """Product of kernels on the same variable.

    Parameters
    ----------
    parts : tuple of Kernel
        Two or more; products among them are flattened.

    References
    ----------
    .. [1] B. Schoelkopf, A. Smola. Learning with kernels. MIT Press, 2002.

    Examples
    --------
    >>> from dhsic.kernels import Delta, Gaussian, Linear
    >>> ((Gaussian(gamma=0.5) + Linear()) * Delta()).spec()
    '(gaussian:0.5+linear)*delta'
    """

    name: ClassVar[str] = "product"
    _combine: ClassVar[np.ufunc] = np.multiply

    def rounding(self, columns: Matrix) -> float:
        # |a b - a' b'| <= |a - a'| + |b - b'| for values of at most 1.
        return sum(k.rounding(columns[:, at]) for k, _, at in self._split(columns.shape[1]))

    def spectral_scales(self, rng: np.random.Generator, count: int, d: int) -> Vector:
        # frequencies of a product add up, and so do the variances of normals
        variances = [part.spectral_scales(rng, count, d) ** 2 for part in self.parts]
        scales: Vector = np.sqrt(np.sum(variances, axis=0))
        return scales

    def spec(self) -> str:
        specs = [f"({k.spec()})" if isinstance(k, Sum) else k.spec() for k in self.parts]
        return "*".join(specs)


def positive(number: float) -> bool:
    """Say whether a number is finite and > 0."""
    return 0.0 < number < math.inf


def as_sample(sample: NDArray[Any]) -> Vector:
    """Check that a sample of a variable is (s, d), not empty and finite."""
    sample = np.asarray(sample, dtype=np.float64)
    if sample.ndim != 2 or not sample.size:
        msg = f"a sample must have shape (s, d) with s, d >= 1; got {sample.shape}: pass x[:, None]"
        raise DataError(msg)
    if not np.isfinite(sample).all():
        bad = int((~np.isfinite(sample)).any(axis=1).sum())
        msg = (
            f"a sample must hold finite numbers, in units of its spread too; {bad} of "
            f"{len(sample)} rows do not: drop or impute them, or rescale the column"
        )
        raise DataError(msg)
    return sample


def median_distance(
    sample: Vector, metric: Literal["euclidean", "cityblock"] = "euclidean"
) -> float:
    """Compute the median distance between the rows of a sample.

    Parameters
    ----------
    sample : ndarray, shape (s, d)
        Rows of one variable, finite.
    metric : {"euclidean", "cityblock"}, optional
        The distance.

    Returns
    -------
    float
        The median; if it is 0 because of ties, the mean of the distances that are not 0.

    Raises
    ------
    DataError
        All rows of the sample are the same, or their distances leave the range of float64.

    References
    ----------
    .. [1] D. Garreau, W. Jitkrittum, M. Kanagawa. Large sample analysis of the median
       heuristic. 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.kernels import median_distance
    >>> median_distance(np.array([[0.0], [1.0], [3.0]]))
    2.0
    >>> median_distance(np.array([[0.0], [0.0], [0.0], [0.0], [5.0]]))  # most are ties
    5.0
    """
    sample = as_sample(sample)
    if (sample == sample[0]).all():
        msg = (
            f"a bandwidth needs at least two distinct rows; all {len(sample)} sampled rows are "
            "the same: drop the variable, or give the kernel's bandwidth"
        )
        raise DataError(msg)
    if sample.shape[1] > 1:
        return median_or_mean(scipy.spatial.distance.pdist(sample, metric))
    return _median_distance_on_line(np.sort(sample[:, 0]).tobytes())


@lru_cache(maxsize=16)
def _median_distance_on_line(ascending: bytes) -> float:
    """That of ascending numbers; ranks of so many numbers without ties are often the same."""
    # On a line the order of the numbers bounds the median, without most of the distances: of 1,000
    # numbers it takes .4 ms, and all pairs 11.
    x = np.frombuffer(ascending)
    median = _median_on_line(x) if len(x) >= _FEWEST_ON_LINE else None
    return median_or_mean(scipy.spatial.distance.pdist(x[:, None])) if median is None else median


def median_or_mean(sizes: Vector) -> float:
    """Median of sizes >= 0; where that is 0, the mean of those that are not.

    The bounds leave room for the square of the result and of its inverse.
    """
    ties = len(sizes) - np.count_nonzero(sizes)
    with np.errstate(over="ignore"):
        # Where more than half are 0, so is the median.
        typical = 0.0 if 2 * ties > len(sizes) else _median(sizes)
        # A median of 0 is no scale, but the mean of the distances that are not 0 is one.
        if typical == 0.0 and ties < len(sizes):
            typical = float(sizes[sizes > 0.0].mean())
    if not _TINY < typical < 1.0 / _TINY:
        msg = (
            "a bandwidth needs rows that differ by 1e-100 to 1e+100; the typical difference is "
            f"{typical:.3g}: rescale the variable, or give the kernel's bandwidth"
        )
        raise DataError(msg)
    return typical


def _median(sizes: Vector) -> float:
    """The median: of many, of those between bounds from some, in a quarter of the time."""
    if len(sizes) >= _MANY:
        low, high = np.quantile(sizes[:: len(sizes) // _SOME], [0.48, 0.52])
        near = sizes[(sizes >= low) & (sizes <= high)]
        below = int(np.count_nonzero(sizes < low))
        found = _middle(near, len(sizes), below, low, high)
        if found is not None:
            return found
    return float(np.median(sizes))


def _middle(near: Vector, total: int, below: int, low: float, high: float) -> float | None:
    """The median of so many numbers, of those near it and how many are below them.

    None where it does not lie between bounds.
    """
    first, last = (total - 1) // 2 - below, total // 2 - below
    if not 0 <= first <= last < len(near):
        return None
    both = np.partition(near, (first, last))[[first, last]]
    return float(both.mean()) if low <= both[0] and both[1] <= high else None


def _median_on_line(x: Vector) -> float | None:
    """Median distance of sorted numbers, without most of the distances; None where bounds miss it.

    Distances between ranks some steps apart bound the median. Searches count the pairs below the
    bounds, so that only those between them are computed, a twenty-fifth of all.
    """
    s = len(x)
    # Distances between ranks k apart, for a few k, are an even sample of all distances: their 48
    # and 52 % quantiles lie on both sides of the median.
    steps = range(1 + s // 96, s, 1 + s // 48)
    some = np.concatenate([x[k:] - x[:-k] for k in steps])
    low, high = np.quantile(some, [0.48, 0.52])
    # Partners of a number are searched behind it, so that a pair counts once.
    starts = np.maximum(np.searchsorted(x, x + low), np.arange(1, s + 1))
    counts = np.maximum(np.searchsorted(x, x + high, "right") - starts, 0)
    # Of number i there are starts_i - i - 1 pairs below the lower bound.
    below = int(starts.sum()) - s * (s + 1) // 2
    # Every pair between the bounds, flat: number i has counts_i of them, from starts_i on.
    seconds = np.arange(counts.sum()) + np.repeat(starts + counts - np.cumsum(counts), counts)
    near = x[seconds] - np.repeat(x, counts)
    # The searches compare x with x + low, and the distances are x - x: they round differently, and
    # pairs at the bounds may be on either side of them.
    rounding = 4.0 * np.finfo(np.float64).eps * (np.abs(x).max() + high)
    bounds = max(low + rounding, _TINY), min(high - rounding, 1.0 / _TINY)
    return _middle(near, s * (s - 1) // 2, below, *bounds)


def _inner_products(rows: Matrix, columns: Matrix, out: Matrix) -> None:
    if rows.shape[1] == 1:  # a matrix product of rank one is four times slower
        np.multiply(rows, columns[:, 0].copy(), out=out)
    else:
        np.matmul(rows, columns.T, out=out)


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


def squared_distances(rows: Matrix, columns: Matrix, out: Matrix) -> None:
    """Write |x - z|^2 into `out`; the sign that rounding may leave is dropped."""
    if rows.shape[1] == 1:
        np.subtract(rows, columns[:, 0].copy(), out=out)  # contiguous, for the inner loop
        np.square(out, out=out)
    else:
        np.matmul(rows, columns.T, out=out)
        np.abs(out, out=out)


def distances(rows: Matrix, columns: Matrix, out: Matrix) -> None:
    """Write |x - z| into `out`."""
    if rows.shape[1] == 1:
        np.subtract(rows, columns[:, 0].copy(), out=out)
        np.abs(out, out=out)
    else:
        squared_distances(rows, columns, out)
        # 0 for what may be rounding: equal rows must not lie the root of the epsilon apart.
        bound = relative_cancellation(rows)
        left, right = -bound * rows[:, -2], -bound * columns[:, -1]  # from -|x|^2 and -|z|^2
        for start in range(0, len(rows), _STRIP):
            at = slice(start, start + _STRIP)
            np.copyto(out[at], 0, where=out[at] <= np.add.outer(left[at], right))
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
