"""Kernels of rows that are changed, chosen or missing before another kernel sees them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dhsic.errors import DataError, InvalidArgumentError
from dhsic.kernels.base import Kernel, Matrix, Product, Sum

_ROWS = 256  # whose mean a missing row has: what is left of it when centred is 1/16 of a row
_MEANS = 512  # prepared rows whose mean kernel is computed at a time


@dataclass(frozen=True)
class OfKernel(Kernel):
    """Base of kernels that change rows, and leave what they are then to another kernel.

    Lengths and scales are those of that kernel, which also centres the changed rows.

    Parameters
    ----------
    kernel : Kernel
        Kernel of the changed rows.
    """

    kernel: Kernel
    origin: tuple[float, ...] | None = field(default=None, init=False, repr=False)

    def scale_columns(self, d: int) -> tuple[tuple[int, ...], ...]:
        return self.kernel.scale_columns(d)

    def measured(self, d: int) -> frozenset[int]:
        return self.kernel.measured(d)

    @property
    def has_length(self) -> bool:
        return self.kernel.has_length

    def widened(self, factor: float) -> Self:
        return self._of(self.kernel.widened(factor))

    def _of(self, kernel: Kernel) -> Self:
        """The same changes of rows with another kernel."""
        return replace(self, kernel=kernel)

    def squarings(self, wide: Kernel) -> int:
        # Kernels of rows that are changed otherwise compare other distances.
        if not isinstance(wide, type(self)):
            return 0
        others = (f.name for f in fields(self) if f.name != "kernel")
        same = all(getattr(self, name) == getattr(wide, name) for name in others)
        return self.kernel.squarings(wide.kernel) if same else 0

    @property
    def work_tiles(self) -> int:
        return self.kernel.work_tiles

    def width(self, d: int) -> int:
        return self.kernel.width(d)

    def rows(self, x: NDArray[Any], dtype: DTypeLike = np.float64) -> Matrix:
        return self.kernel.rows(self._changed(x), dtype)

    def columns(self, z: NDArray[Any], dtype: DTypeLike = np.float64) -> Matrix:
        return self.kernel.columns(self._changed(z), dtype)

    def rows_and_columns(
        self, x: NDArray[Any], dtype: DTypeLike = np.float64
    ) -> tuple[Matrix, Matrix]:
        return self.kernel.rows_and_columns(self._changed(x), dtype)

    def _changed(self, x: NDArray[Any]) -> NDArray[Any]:
        """Rows (b, d) as the kernel sees them."""
        return x

    def tile(self, rows: Matrix, columns: Matrix, out: Matrix, work: Matrix) -> None:
        self.kernel.tile(rows, columns, out, work)

    def rounding(self, columns: Matrix) -> float:
        return self.kernel.rounding(columns)


@dataclass(frozen=True)
class OnColumns(OfKernel):
    """A kernel that sees some columns of a variable, as if they were all of it.

    Several of them on one variable share its rows, as the features of a ranking do.

    Parameters
    ----------
    kernel : Kernel
        Kernel of these columns.
    at : tuple of int
        Their numbers, each once.
    scaled : bool, optional
        Divide every column by its standard deviation in the sample that the kernel is fitted to,
        so that units of the columns make no difference.
    scales : tuple of float, optional
        Divisors of the columns; `fit` sets them where columns are to be scaled.

    Raises
    ------
    InvalidArgumentError
        The numbers of columns are not different whole numbers of at least 0.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.kernels import Gaussian, OnColumns
    >>> OnColumns(Gaussian(gamma=1.0), (1,))(np.array([[5.0, 0.0], [7.0, 1.0]])).round(4)
    array([[1.    , 0.3679],
           [0.3679, 1.    ]])
    """

    at: tuple[int, ...]
    scaled: bool = False
    scales: tuple[float, ...] | None = None

    name: ClassVar[str] = "on-columns"

    def __post_init__(self) -> None:
        numbers = all(isinstance(j, int | np.integer) and not isinstance(j, bool) for j in self.at)
        if not (self.at and numbers and min(self.at) >= 0 and len(set(self.at)) == len(self.at)):
            msg = f"columns must be different numbers >= 0, one or more; got {self.at!r}"
            raise InvalidArgumentError(msg)

    def fit(self, sample: NDArray[np.float64]) -> Self:
        # The kernel checks its columns: rows that miss a value in others are as good as any.
        sample = np.asarray(sample, np.float64)
        scaled = self
        if self.scaled and self.scales is None:
            chosen = self._changed(sample)
            there = ~np.isnan(chosen).any(axis=1)
            spread = (chosen if there.all() else chosen[there]).std(axis=0)
            # A constant column stays as it is, where it would be divided by 0.
            scaled = replace(self, scales=tuple(np.where(spread > 0.0, spread, 1.0).tolist()))
        try:
            return replace(scaled, kernel=self.kernel.fit(scaled._changed(sample)))
        except DataError as error:
            listed = ", ".join(map(str, self.at))
            msg = f"column{'s' if len(self.at) > 1 else ''} {listed}: {error}"
            raise DataError(msg) from error

    def scale_columns(self, d: int) -> tuple[tuple[int, ...], ...]:
        if self.scaled and self.scales is None:
            return tuple((j,) for j in self.at)
        inner = self.kernel.scale_columns(len(self.at))
        return tuple(tuple(self.at[j] for j in columns) for columns in inner)

    def measured(self, d: int) -> frozenset[int]:
        del d
        return frozenset(self.at[j] for j in self.kernel.measured(len(self.at)))

    def width(self, d: int) -> int:
        del d
        return self.kernel.width(len(self.at))

    def spec(self) -> str:
        inner = self.kernel.spec()
        # Without parentheses the columns would be those of the last part alone.
        inner = f"({inner})" if isinstance(self.kernel, Sum | Product) else inner
        return f"{inner}@{','.join(map(str, self.at))}"

    def _changed(self, x: NDArray[Any]) -> NDArray[Any]:
        """These columns of rows (b, d), a view where there is one."""
        x = np.asarray(x)
        if x.ndim != 2 or x.shape[1] <= max(self.at):
            msg = f"rows must have shape (n, d) with d > {max(self.at)}; got {x.shape}"
            raise InvalidArgumentError(msg)
        # A slice of one column is a view; numbers of columns would copy.
        chosen = x[:, self.at[0] : self.at[0] + 1] if len(self.at) == 1 else x[:, self.at]
        return chosen if self.scales is None else chosen / self.scales


@dataclass(frozen=True)
class WithMissing(OfKernel):
    """A kernel of rows of which some are missing: NaN in any of their columns.

    The feature of a missing row is the mean embedding [1]_ of up to 256 rows u_1, ..., u_s of the
    sample that the kernel is fitted to,

        k(missing, z) = (1/s) sum_j k(u_j, z),  k(missing, missing) = (1/s^2) sum_jl k(u_j, u_l),

    so that the kernel stays positive definite, and the same whatever rows it is compared with. Its
    centred feature is nearly 0: in a statistic of two variables a row counts where both are there.

    Parameters
    ----------
    kernel : Kernel
        Kernel of the rows that are there.
    present : ndarray, shape (s, d), optional
        u_1, ..., u_s; `fit` sets them.

    References
    ----------
    .. [1] A. Smola, A. Gretton, L. Song, B. Schoelkopf. A Hilbert space embedding for
       distributions. ALT 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.kernels import Linear
    >>> x = np.array([[1.0], [3.0], [np.nan]])
    >>> WithMissing(Linear(origin=(0.0,))).fit(x)(x)
    array([[1., 3., 2.],
           [3., 9., 6.],
           [2., 6., 4.]])
    """

    # It follows from the sample that the kernel is fitted to, and is no part of its value.
    present: NDArray[np.float64] | None = field(default=None, repr=False, compare=False)

    name: ClassVar[str] = "with-missing"

    def fit(self, sample: NDArray[np.float64]) -> Self:
        sample = np.asarray(sample, np.float64)
        present = _complete(sample)
        if not len(present):
            msg = (
                f"a kernel is fitted to complete rows, and none of {len(sample):,} that were drawn "
                "is complete: leave out the columns that miss the most"
            )
            raise DataError(msg)
        return replace(self, kernel=self.kernel.fit(present), present=present[:_ROWS].copy())

    def squarings(self, wide: Kernel) -> int:
        # A mean of squares is no square of a mean.
        return 0

    def width(self, d: int) -> int:
        # Those of the kernel, the mean kernel with the present rows, and whether it is missing.
        return self.kernel.width(d) + 2

    def rows(self, x: NDArray[Any], dtype: DTypeLike = np.float64) -> Matrix:
        values, missing = self._split(x)
        return _joined(self.kernel.rows(values, dtype), missing)

    def columns(self, z: NDArray[Any], dtype: DTypeLike = np.float64) -> Matrix:
        values, missing = self._split(z)
        return _joined(self.kernel.columns(values, dtype), missing)

    def rows_and_columns(
        self, x: NDArray[Any], dtype: DTypeLike = np.float64
    ) -> tuple[Matrix, Matrix]:
        values, missing = self._split(x)
        inner = self.kernel.rows_and_columns(values, dtype)
        rows, columns = (_joined(prepared, missing) for prepared in inner)
        # Computed once here, where all pairs of rows are compared, and tiles are many.
        rows[:, -2] = columns[:, -2] = self._means_of_columns(columns)
        return rows, columns

    def tile(self, rows: Matrix, columns: Matrix, out: Matrix, work: Matrix) -> None:
        self.kernel.tile(rows[:, :-2], columns[:, :-2], out, work)
        missing_rows, missing_columns = (np.flatnonzero(x[:, -1]) for x in (rows, columns))
        if len(missing_columns):
            out[:, missing_columns] = self._means_of_rows(rows)[:, None]
        if len(missing_rows):
            out[missing_rows] = self._means_of_columns(columns)

    def rounding(self, columns: Matrix) -> float:
        return self.kernel.rounding(columns[:, :-2])

    def spectral_scales(self, rng: np.random.Generator, count: int, d: int) -> NDArray[np.float64]:
        del rng, count, d
        msg = (
            "random frequencies need rows without gaps, got missing='pairwise': take "
            "estimator='nystrom-hsic' or 'nystrom-m', or missing='drop'"
        )
        raise InvalidArgumentError(msg)

    def spec(self) -> str:
        return self.kernel.spec()

    def _split(self, x: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Rows with one that is there in place of those that are missing, and which these are."""
        x = np.asarray(x)
        missing = np.isnan(x).any(axis=1)
        return np.where(missing[:, None], self._there[0], x) if missing.any() else x, missing

    @property
    def _there(self) -> NDArray[np.float64]:
        if self.present is None:
            msg = f"{self.name}: rows must be set before use; got None: call fit(sample)"
            raise InvalidArgumentError(msg)
        return self.present

    @cached_property
    def _prepared(self) -> dict[np.dtype[Any], tuple[Matrix, Matrix, float]]:
        """The present rows as rows and as columns, and the mean of their kernel, by precision."""
        return {}

    def _present_as(self, dtype: np.dtype[Any]) -> tuple[Matrix, Matrix, float]:
        if dtype not in self._prepared:
            rows, columns = self.kernel.rows_and_columns(self._there, dtype)
            mean = float(self._mean_tiles(len(columns), lambda at: (rows, columns[at]), 0).mean())
            self._prepared[dtype] = rows, columns, mean
        return self._prepared[dtype]

    def _means_of_rows(self, rows: Matrix) -> Matrix:
        """k(x, missing) of prepared rows, shape (b,)."""
        _, present, mean = self._present_as(rows.dtype)
        return self._means(rows, lambda at: (rows[at, :-2], present), 1, mean)

    def _means_of_columns(self, columns: Matrix) -> Matrix:
        """k(missing, z) of prepared columns, shape (p,)."""
        present, _, mean = self._present_as(columns.dtype)
        return self._means(columns, lambda at: (present, columns[at, :-2]), 0, mean)

    def _means(
        self,
        prepared: Matrix,
        pair: Callable[[slice], tuple[Matrix, Matrix]],
        axis: int,
        missing: float,
    ) -> Matrix:
        """Those that are prepared, or computed here."""
        known = prepared[:, -2]
        if len(known) and not np.isnan(known[0]):
            return known
        means = self._mean_tiles(len(prepared), pair, axis)
        means[prepared[:, -1] > 0.0] = missing
        return means.astype(prepared.dtype)

    def _mean_tiles(
        self, count: int, pair: Callable[[slice], tuple[Matrix, Matrix]], axis: int
    ) -> NDArray[np.float64]:
        """Means along an axis of the tiles of some rows with the present ones, shape (count,)."""
        means = np.empty(count)
        for start in range(0, count, _MEANS):
            at = slice(start, min(start + _MEANS, count))
            rows, columns = pair(at)
            # In double precision, as all sums.
            gram = self.kernel.gram(rows, columns, rows.dtype)
            means[at] = gram.mean(axis=axis, dtype=np.float64)
        return means


def with_missing(kernel: Kernel) -> Kernel:
    """The kernel of rows that may be missing; of some columns, where one of these is missing."""
    if isinstance(kernel, WithMissing):
        return kernel
    if isinstance(kernel, OnColumns):
        return replace(kernel, kernel=with_missing(kernel.kernel))
    return WithMissing(kernel)


def of_rows(kernel: Kernel, sample: NDArray[np.float64]) -> Kernel:
    """A fitted kernel with the mean embedding of other rows than those that it was fitted to."""
    if isinstance(kernel, OnColumns):
        return replace(kernel, kernel=of_rows(kernel.kernel, sample[:, kernel.at]))
    if isinstance(kernel, WithMissing):
        return replace(kernel, present=_complete(sample)[:_ROWS].copy())
    return kernel


def _complete(sample: NDArray[np.float64]) -> NDArray[np.float64]:
    """The rows that miss nothing."""
    return sample[~np.isnan(sample).any(axis=1)] if sample.ndim == 2 else sample


def of_present(kernel: Kernel) -> Kernel:
    """The kernel of the rows that are there; another kernel as it is."""
    return kernel.kernel if isinstance(kernel, WithMissing) else kernel


def _joined(prepared: Matrix, missing: NDArray[np.bool_]) -> Matrix:
    """Prepared rows, a mean kernel that is not known yet, and whether they are missing."""
    joined = np.empty((len(prepared), prepared.shape[1] + 2), prepared.dtype)
    joined[:, :-2] = prepared
    joined[:, -2] = np.nan
    joined[:, -1] = missing
    return joined
