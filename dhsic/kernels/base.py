"""Kernels: fitted to a sample, prepared once, evaluated tile by tile."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dhsic.errors import InvalidArgumentError
from dhsic.kernels.bandwidth import as_sample
from dhsic.kernels.centred import Centred, Matrix


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

    def fit(self, sample: NDArray[np.float64]) -> Self:
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
        # A kernel that is fitted already stays as it is.
        if self.origin is not None:
            return self
        # Tiles of distances expand |x - z|^2 into norms. About the median these are small, so that
        # float32 keeps digits of the difference.
        return replace(self, origin=tuple(np.median(sample, axis=0).tolist()))

    @property
    def nominal(self) -> bool:
        """Whether it asks of values only if they are equal, as codes of categories need."""
        return not self.measured(1)

    def measured(self, d: int) -> frozenset[int]:
        """The columns, of d, whose values it compares as numbers."""
        return frozenset(range(d))

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

    def rows_and_columns(
        self, x: NDArray[Any], dtype: DTypeLike = np.float64
    ) -> tuple[Matrix, Matrix]:
        """Prepare data as `rows` and as `columns`, at less than the price of both."""
        rows = self.rows(x, dtype)
        # Kernels whose columns are their rows are prepared once.
        same = type(self).columns is Kernel.columns
        return rows, rows if same else self.columns(x, dtype)

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
        """Gram matrix of prepared rows and columns, by `tile`, in an array of its own.

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
            Gram matrix that `tile` writes for them.
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
        return self.gram(rows, columns).astype(np.float64, copy=False)

    def __add__(self, other: Kernel) -> Kernel:
        from dhsic.kernels.combined import Sum

        return Sum((self, other)) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: Kernel) -> Kernel:
        from dhsic.kernels.combined import Product

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
        # The value is frozen, but is still being made here.
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
