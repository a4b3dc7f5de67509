"""What a kernel is: fitted to a sample, prepared once, evaluated tile by tile."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from itertools import accumulate, count, pairwise
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dhsic.errors import InvalidArgumentError
from dhsic.kernels.bandwidth import as_sample
from dhsic.kernels.centred import Centred, Matrix
from dhsic.kernels.gradients import sum_of_gradients

__all__ = ["Kernel", "Matrix", "Product", "Sum", "positive"]


@dataclass(frozen=True)
class Kernel(Centred, ABC):
    """A positive definite kernel on rows of real numbers.

    A kernel is a frozen value. Parameters that are None are filled by `fit` from a sample of
    the variable, so that they follow its units. Prepared rows and columns are plain 2-d arrays
    whose slices along axis 0 are the prepared slices of the data; a tile of the Gram matrix is
    computed from such slices, in place. Kernels add and multiply: ``k1 + k2``, ``k1 * k2``.

    Parameters
    ----------
    origin : tuple of float, optional
        Subtracted from every row first. For translation-invariant kernels it changes rounding
        only; for the others it is part of the kernel. `fit` sets it to the median of the sample.
    """

    def fit(self, sample: NDArray[np.float64]) -> Self:
        """Fill the parameters that are None from a sample of the variable.

        Parameters
        ----------
        sample : ndarray, shape (s, d)
            Rows of the variable, finite.

        Returns
        -------
        Kernel
            Of the same class, with every parameter set.
        """
        sample = as_sample(sample)
        if self.origin is not None:
            return self
        return replace(self, origin=tuple(np.median(sample, axis=0).tolist()))

    @property
    def nominal(self) -> bool:
        """Whether it asks of values only if they are equal, as codes of categories need."""
        return False

    @property
    def has_length(self) -> bool:
        """Whether it has a length scale that `widened` multiplies."""
        return False

    def widened(self, factor: float) -> Self:
        """The fitted kernel with its length scale multiplied; itself where it has none."""
        del factor
        return self

    def squarings(self, wide: Kernel) -> int:
        """How often the values of a wider kernel are to be squared to give this one's.

        Parameters
        ----------
        wide : Kernel
            A fitted kernel of the same variable.

        Returns
        -------
        int
            0 where squares do not lead from the one to the other.
        """
        del wide
        return 0

    @property
    def work_tiles(self) -> int:
        """How many scratch tiles of the output's shape and dtype `tile` needs."""
        return 0

    def width(self, d: int) -> int:
        """Columns of the prepared arrays for a variable with `d` columns."""
        return d

    def rows(self, x: NDArray[Any], dtype: DTypeLike = np.float64) -> Matrix:
        """Prepare rows of data for `tile`: (b, d) to (b, width(d)), C-contiguous."""
        return self._scaled(x, dtype)[0]

    def columns(self, z: NDArray[Any], dtype: DTypeLike = np.float64) -> Matrix:
        """Prepare landmarks for `tile`: (p, d) to (p, width(d)), C-contiguous."""
        return self.rows(z, dtype)

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

    @property
    def differentiable(self) -> bool:
        """Whether it has a `gradient`."""
        return False

    @property
    def gradient_tiles(self) -> int:
        """How many scratch tiles of the shape and dtype of the weights `gradient` needs."""
        return 0

    def gradient(
        self, rows: Matrix, columns: Matrix, gram: Matrix, weights: Matrix, work: Matrix
    ) -> Matrix:
        """Gradients sum_j weights_ij grad_x k(x_i, z_j), where the second argument is held.

        Parameters
        ----------
        rows, columns : ndarray, shapes (b, w) and (p, w)
            From `rows` and `columns`, or slices of them along axis 0.
        gram : ndarray, shape (b, p)
            What `tile` writes for them.
        weights : ndarray, shape (b, p)
            In the precision of the tiles.
        work : ndarray, shape (gradient_tiles, b, p)
            Scratch, with the dtype of the weights.

        Returns
        -------
        ndarray, shape (b, d)
            In units of the kernel per unit of the variable. Where a kernel has a kink at equal
            rows or columns, the derivative there counts as 0.

        Raises
        ------
        InvalidArgumentError
            The kernel has no derivative.
        """
        del rows, columns, gram, weights, work
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

    def spectral_scales(self, rng: np.random.Generator, count: int, d: int) -> NDArray[np.float64]:
        """Draw s so that k(x, y) = E cos(<s * g, x - y>) for normal g: frequencies are s * g.

        Every translation-invariant kernel here but `Delta` is such a mixture of Gaussians, by the
        theorem of Bochner.

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
        return self._spec(self.name, *(getattr(self, f.name) for f in fields(self)[1:]))

    def __call__(self, x: NDArray[Any], y: NDArray[Any] | None = None) -> NDArray[np.float64]:
        """Gram matrix of the rows of `x` and `y` in float64.

        Parameters
        ----------
        x : ndarray, shape (b, d)
            Rows.
        y : ndarray, shape (p, d), optional
            Rows; `x` where not given.

        Returns
        -------
        ndarray, shape (b, p)
        """
        y = x if y is None else y
        rows, columns = self.rows(x), self.columns(y)
        if rows.shape[1] != columns.shape[1]:
            msg = f"x and y must have equally many columns; got shapes {x.shape} and {y.shape}"
            raise InvalidArgumentError(msg)
        out = np.empty((len(rows), len(columns)))
        self.tile(rows, columns, out, np.empty((self.work_tiles, *out.shape)))
        return out

    def __add__(self, other: Kernel) -> Sum:
        return Sum((self, other)) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: Kernel) -> Product:
        return Product((self, other)) if isinstance(other, Kernel) else NotImplemented

    def _check(self, parameter: str, requirement: str, allowed: Callable[[float], bool]) -> None:
        """Require of a parameter that is not at its default, and make it a float."""
        value, default = getattr(self, parameter), getattr(type(self), parameter)
        if value is default:
            return
        number = float(value) if isinstance(value, Real) else math.nan
        if not allowed(number):
            instead = "its value from the data" if default is None else repr(default)
            msg = (
                f"{self.name}: {parameter} must be {requirement}; got {value!r}: "
                f"leave it out for {instead}"
            )
            raise InvalidArgumentError(msg)
        object.__setattr__(self, parameter, number)

    @staticmethod
    def _spec(name: str, *values: float | None) -> str:
        return ":".join([name, *(repr(value) for value in values if value is not None)])

    def _fitted(self, parameter: str) -> float:
        value: float | None = getattr(self, parameter)
        if value is None:
            msg = f"{self.name}: {parameter} must be set before use; got None: call fit(sample)"
            raise InvalidArgumentError(msg)
        return value


def positive(number: float) -> bool:
    """Say whether a number is finite and > 0."""
    return 0.0 < number < math.inf


@dataclass(frozen=True)
class _Combination(Kernel):
    parts: tuple[Kernel, ...]
    origin: tuple[float, ...] | None = field(default=None, init=False, repr=False)

    symbol: ClassVar[str]
    combine: ClassVar[np.ufunc]
    multiplies: ClassVar[bool]

    def __post_init__(self) -> None:
        parts = tuple(self.parts)
        if len(parts) < 2 or not all(isinstance(part, Kernel) for part in parts):
            msg = f"a {self.name} needs two kernels or more; got {parts}: use the kernel itself"
            raise InvalidArgumentError(msg)
        nested = [part.parts if isinstance(part, type(self)) else (part,) for part in parts]
        object.__setattr__(self, "parts", sum(nested, ()))

    def fit(self, sample: NDArray[np.float64]) -> Self:
        return replace(self, parts=tuple(part.fit(sample) for part in self.parts))

    def scale_columns(self, d: int) -> tuple[tuple[int, ...], ...]:
        sets = (columns for part in self.parts for columns in part.scale_columns(d))
        return tuple(dict.fromkeys(sets))

    @property
    def has_length(self) -> bool:
        return any(part.has_length for part in self.parts)

    def widened(self, factor: float) -> Self:
        return replace(self, parts=tuple(part.widened(factor) for part in self.parts))

    @property
    def work_tiles(self) -> int:
        first, *others = (part.work_tiles for part in self.parts)
        return max(first, 1 + max(others))

    def width(self, d: int) -> int:
        return sum(part.width(d) for part in self.parts)

    def rows(self, x: NDArray[Any], dtype: DTypeLike = np.float64) -> Matrix:
        return np.hstack([part.rows(x, dtype) for part in self.parts])

    def columns(self, z: NDArray[Any], dtype: DTypeLike = np.float64) -> Matrix:
        return np.hstack([part.columns(z, dtype) for part in self.parts])

    def tile(self, rows: Matrix, columns: Matrix, out: Matrix, work: Matrix) -> None:
        (first, at), *others = self._split(rows.shape[1])
        first.tile(rows[:, at], columns[:, at], out, work)
        for part, at in others:
            part.tile(rows[:, at], columns[:, at], work[0], work[1:])
            self.combine(out, work[0], out=out)

    @property
    def differentiable(self) -> bool:
        return all(part.differentiable for part in self.parts)

    @property
    def gradient_tiles(self) -> int:
        return 2 + max(max(part.work_tiles, part.gradient_tiles) for part in self.parts)

    def gradient(
        self, rows: Matrix, columns: Matrix, gram: Matrix, weights: Matrix, work: Matrix
    ) -> Matrix:
        del gram
        parts = self._split(rows.shape[1])
        return sum_of_gradients(parts, rows, columns, weights, work, product=self.multiplies)

    def _split(self, width: int) -> tuple[tuple[Kernel, slice], ...]:
        return _split(self.parts, width)


@lru_cache
def _split(parts: tuple[Kernel, ...], width: int) -> tuple[tuple[Kernel, slice], ...]:
    """Parts with the slices of the prepared columns that are theirs."""
    widths = ([part.width(d) for part in parts] for d in count(1))
    ends = accumulate(next(w for w in widths if sum(w) == width), initial=0)
    return tuple(zip(parts, (slice(*ends) for ends in pairwise(ends)), strict=True))


class Sum(_Combination):
    """Sum of kernels on the same variable.

    Its parts should not change with the units of the variable, or the units decide which part
    counts: add ``Polynomial(degree=1, coef0=0)`` to a Gaussian, not ``Linear()``.

    Parameters
    ----------
    parts : tuple of Kernel
        Two or more; sums among them are flattened.

    Examples
    --------
    >>> from dhsic.kernels import Delta, Gaussian, Sum
    >>> Sum((Gaussian(gamma=0.5), Delta())) == Gaussian(gamma=0.5) + Delta()
    True
    >>> (Gaussian(gamma=0.5) + Delta()).spec()
    'gaussian:0.5+delta'
    """

    name: ClassVar[str] = "sum"
    symbol: ClassVar[str] = "+"
    combine: ClassVar[np.ufunc] = np.add
    multiplies: ClassVar[bool] = False

    def rounding(self, columns: Matrix) -> float:
        # by Cauchy and Schwarz the parts' sqrt(k(x, x) k(z, z)) add up to no more than the sum's
        return max(k.rounding(columns[:, at]) for k, at in self._split(columns.shape[1]))

    def spec(self) -> str:
        return self.symbol.join(part.spec() for part in self.parts)


class Product(_Combination):
    """Product of kernels on the same variable.

    Parameters
    ----------
    parts : tuple of Kernel
        Two or more; products among them are flattened.

    Examples
    --------
    >>> from dhsic.kernels import Delta, Gaussian, Linear
    >>> ((Gaussian(gamma=0.5) + Linear()) * Delta()).spec()
    '(gaussian:0.5+linear)*delta'
    """

    name: ClassVar[str] = "product"
    symbol: ClassVar[str] = "*"
    combine: ClassVar[np.ufunc] = np.multiply
    multiplies: ClassVar[bool] = True

    def rounding(self, columns: Matrix) -> float:
        return sum(k.rounding(columns[:, at]) for k, at in self._split(columns.shape[1]))

    def spectral_scales(self, rng: np.random.Generator, count: int, d: int) -> NDArray[np.float64]:
        # frequencies of a product add up, and so do the variances of normals
        variances = [part.spectral_scales(rng, count, d) ** 2 for part in self.parts]
        scales: NDArray[np.float64] = np.sqrt(np.sum(variances, axis=0))
        return scales

    def spec(self) -> str:
        specs = [f"({k.spec()})" if isinstance(k, Sum) else k.spec() for k in self.parts]
        return self.symbol.join(specs)
