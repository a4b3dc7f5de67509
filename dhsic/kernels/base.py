"""Kernels: fitted to a sample, prepared once, evaluated tile by tile; they add and multiply."""

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
        # Tiles of distances expand |x - z|^2 into norms. About the median these are small, so that
        # float32 keeps digits of the difference. A kernel that is fitted already stays as it is.
        fitted = self
        if self.origin is None:
            fitted = replace(self, origin=tuple(np.median(sample, axis=0).tolist()))
        return fitted._with_scale(fitted._scale_of(sample)) if fitted._unset else fitted

    def _scale_of(self, sample: Vector) -> float:
        """The scale by the median heuristic."""
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
