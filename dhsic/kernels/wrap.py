"""Wrap kernels, for chosen columns, rows with gaps and ranks, and read and write all kernels.

The wrappers come first; then `parse`, which reads a kernel from text, and the plain values by which
JSON stores a kernel.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from functools import cached_property, lru_cache, partial
from itertools import accumulate, pairwise
from typing import Any, ClassVar, Literal, Self, TypeAlias, get_args

import numpy as np
import scipy
from numpy.typing import DTypeLike, NDArray

from dhsic._validation import check_choice, load_plugins, read_fields
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.kernels.base import (
    AndersonDarling,
    ColumnNumbers,
    Composite,
    Delta,
    Distance,
    Gaussian,
    InverseMultiquadric,
    Kernel,
    Laplacian,
    Linear,
    Matern,
    Matrix,
    Polynomial,
    Product,
    RationalQuadratic,
    Sum,
    Vector,
    as_sample,
)
from dhsic.results import CODECS, plain_value

_MEAN_ROWS = 256  # whose mean a missing row has: what is left of it when centred is 1/16 of a row
_MEANS = 512  # prepared rows whose mean kernel is computed at a time
# Beyond, exponentials of prepared numbers and their products could overflow.
_REACH = {np.dtype(np.float32): 40.0, np.dtype(np.float64): 340.0}
_FEWEST_OF_TILE = 8  # rows of either side of a tile for which they pay

_MOST_KNOTS = 512
_FEW_ROWS = 2**7  # which it takes longer to order than to look up

Scale = Literal["ranks", "scores", "spread"]
Indices = NDArray[np.intp]
Found: TypeAlias = dict[int | None, Any]
_Knots: TypeAlias = tuple[tuple[float, ...], tuple[float, ...]]
_Arrays: TypeAlias = list[tuple[Vector, Vector]]


@dataclass(frozen=True)
class OfKernel(Composite):
    """Base of kernels that change rows, and leave what they are then to another kernel.

    Lengths and scales are those of that kernel, which also centres the changed rows.

    Parameters
    ----------
    kernel : Kernel
        Kernel of the changed rows.
    """

    kernel: Kernel
    origin: tuple[float, ...] | None = field(default=None, init=False, repr=False)
    differentiable = False

    @property
    def _given(self) -> tuple[Kernel]:
        return (self.kernel,)

    def _of(self, kernels: Iterable[Kernel | None]) -> Self:
        (changed,) = kernels
        return self if changed is None else replace(self, kernel=changed)

    def as_power(self) -> tuple[Kernel, float]:
        inner, exponent = self.kernel.as_power()
        return self if inner is self.kernel else self._of([inner]), exponent

    def as_columns(self, rows: Matrix) -> Matrix:
        return self.kernel.as_columns(rows)

    def tile(self, rows: Matrix, columns: Matrix, out: Matrix, work: Matrix) -> None:
        self.kernel.tile(rows, columns, out, work)

    def rounding(self, columns: Matrix) -> float:
        return self.kernel.rounding(columns)

    def spec(self) -> str:
        return self.kernel.spec()


@dataclass(frozen=True)
class OnColumns(OfKernel):
    """A kernel of some columns of a variable.

    Several such kernels of one variable share its rows, such as the features of a ranking.

    Parameters
    ----------
    kernel : Kernel
        Kernel of these columns.
    at : tuple of int
        Numbers of these columns, without repeats.
    scaled : bool, optional
        Divide every column by its standard deviation in the sample to which the kernel is fitted,
        so that units of the columns have no effect.
    scales : tuple of float, optional
        Divisors of the columns; `fit` sets them if `scaled`.

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

    def fit(self, sample: Vector) -> Self:
        # The kernel checks its columns: rows that miss a value in others are as good as any.
        sample = np.asarray(sample, np.float64)
        self._check_shape(sample)
        own, scaled = sample[:, self.at], self
        if self.scaled and self.scales is None:
            spread = _complete(own).std(axis=0)
            # Codes of categories stay as they are, and a constant column, where it would be divided
            # by 0.
            compared = np.isin(range(len(self.at)), [*self.kernel.measured(len(self.at))])
            scales = np.where(compared & (spread > 0.0), spread, 1.0)
            scaled = replace(self, scales=tuple(scales.tolist()))
        try:
            return scaled._of([self.kernel.fit(scaled._seen(own))])
        except DataError as error:
            listed = ", ".join(map(str, self.at))
            msg = f"column{'s' if len(self.at) > 1 else ''} {listed}: {error}"
            raise DataError(msg) from error

    def scale_columns(self, d: int) -> tuple[tuple[int, ...], ...]:
        own_scales = self.scaled and self.scales is None
        return tuple((j,) for j in self.at) if own_scales else super().scale_columns(d)

    def placed(self, d: int) -> Iterable[tuple[Kernel, ColumnNumbers]]:
        return [(self.kernel, self.at)]

    def spec(self) -> str:
        inner = self.kernel.spec()
        # Without parentheses the columns would be those of the last part alone.
        inner = f"({inner})" if isinstance(self.kernel, Sum | Product) else inner
        return f"{inner}@{','.join(map(str, self.at))}"

    def _seen(self, x: NDArray[Any]) -> NDArray[Any]:
        return x if self.scales is None else x / self.scales

    def _check_shape(self, x: NDArray[Any]) -> None:
        if x.ndim != 2 or x.shape[1] <= max(self.at):
            msg = f"rows must have shape (n, d) with d > {max(self.at)}; got {x.shape}"
            raise InvalidArgumentError(msg)


@dataclass(frozen=True)
class _Widened(OfKernel):
    """A kernel that is stretched as soon as it is fitted."""

    factor: float

    name: ClassVar[str] = "widened"

    def fit(self, sample: Vector) -> Kernel:  # type: ignore[override]
        return self.kernel.fit(sample).widened(self.factor)


def product_of(
    kernels: Sequence[Kernel], widths: Sequence[int], factors: Sequence[float] | None = None
) -> Kernel:
    """The product of one kernel a variable, of the row that holds all of them side by side.

    Parameters
    ----------
    kernels : sequence of Kernel
        One a variable.
    widths : sequence of int
        Columns of every variable.
    factors : sequence of float, optional
        Multiples of the length scale of each when it is fitted.

    Returns
    -------
    Kernel

    Examples
    --------
    >>> from dhsic.kernels import Delta, Gaussian
    >>> product_of((Gaussian(gamma=0.5), Delta()), (2, 1)).spec()
    'gaussian:0.5@0,1*delta@2'
    """
    of = map(stretched, kernels, factors or (1.0,) * len(kernels))
    runs = (tuple(range(*both)) for both in pairwise(accumulate(widths, initial=0)))
    return Product(tuple(map(OnColumns, of, runs)))


def stretched(kernel: Kernel, factor: float) -> Kernel:
    """The kernel that is fitted, and then has a multiple of its length scale."""
    return kernel if factor == 1.0 else _Widened(kernel, factor)


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
    present: Any = field(default=None, repr=False, compare=False)

    name: ClassVar[str] = "with-missing"

    def fit(self, sample: Vector) -> Self:
        sample = np.asarray(sample, np.float64)
        present = _complete(sample)
        if not len(present):
            msg = (
                f"a kernel is fitted to complete rows, and none of {len(sample):,} that were drawn "
                "is complete: leave out the columns with the most gaps"
            )
            raise DataError(msg)
        return replace(self, kernel=self.kernel.fit(present), present=present[:_MEAN_ROWS].copy())

    def as_power(self) -> tuple[Kernel, float]:
        # A mean of squares is no square of a mean.
        return self, 1.0

    def width(self, d: int) -> int:
        # Those of the kernel, the mean kernel with the present rows, and whether it is missing.
        return self.kernel.width(d) + 2

    def rows(self, x: NDArray[Any], dtype: DTypeLike = np.float64) -> Matrix:
        x = np.asarray(x)
        missing = np.isnan(x).any(axis=1)
        # One that is there is in place of those that are missing.
        there = np.where(missing[:, None], self.present[0], x) if missing.any() else x
        return _joined(self.kernel.rows(there, dtype), np.nan, missing)

    def as_columns(self, rows: Matrix) -> Matrix:
        # Noted in the rows as well: where all pairs of rows are compared, tiles are many.
        rows[:, -2] = self._means(rows)
        return _joined(self.kernel.as_columns(rows[:, :-2]), rows[:, -2], rows[:, -1])

    def tile(self, rows: Matrix, columns: Matrix, out: Matrix, work: Matrix) -> None:
        self.kernel.tile(rows[:, :-2], columns[:, :-2], out, work)
        missing_rows, missing_columns = (np.flatnonzero(x[:, -1]) for x in (rows, columns))
        if len(missing_columns):
            known = len(rows) and not np.isnan(rows[0, -2])
            out[:, missing_columns] = (rows[:, -2] if known else self._means(rows))[:, None]
        if len(missing_rows):
            out[missing_rows] = columns[:, -2]

    def rounding(self, columns: Matrix) -> float:
        return self.kernel.rounding(columns[:, :-2])

    @cached_property
    def _prepared(self) -> dict[np.dtype[Any], tuple[Matrix, float]]:
        """The present rows as columns, and the mean of their kernel, by precision."""
        return {}

    def _means(self, rows: Matrix) -> Vector:
        """k(x, missing) of prepared rows."""
        dtype = rows.dtype
        if dtype not in self._prepared:
            own, columns = self.kernel.rows_and_columns(self.present, dtype)
            mean = self.kernel.gram(own, columns, dtype).mean(dtype=np.float64)
            self._prepared[dtype] = columns, float(mean)
        columns, missing = self._prepared[dtype]
        means = np.empty(len(rows))
        for start in range(0, len(rows), _MEANS):
            at = slice(start, start + _MEANS)
            # In double precision, as all sums.
            gram = self.kernel.gram(rows[at, :-2], columns, dtype)
            means[at] = gram.mean(axis=1, dtype=np.float64)
        return np.where(rows[:, -1] > 0.0, missing, means)


def with_missing(kernel: Kernel) -> Kernel:
    """The kernel of rows that may be missing; of some columns, where one of these is missing."""
    if isinstance(kernel, OnColumns):
        return kernel._of([with_missing(kernel.kernel)])
    return kernel if isinstance(kernel, WithMissing) else WithMissing(kernel)


def of_rows(kernel: Kernel, sample: Vector) -> Kernel:
    """A fitted kernel with the mean embedding of other rows than those that it was fitted to."""
    if isinstance(kernel, OnColumns):
        return kernel._of([of_rows(kernel.kernel, sample[:, kernel.at])])
    if isinstance(kernel, WithMissing):
        return replace(kernel, present=_complete(sample)[:_MEAN_ROWS].copy())
    return kernel


def _complete(sample: Vector) -> Vector:
    """The rows that miss nothing."""
    missing = np.isnan(sample).any(axis=-1)
    return sample[~missing] if missing.any() else sample


def of_present(kernel: Kernel) -> Kernel:
    """The kernel of the rows that are there; another kernel as it is."""
    return kernel.kernel if isinstance(kernel, WithMissing) else kernel


def _joined(prepared: Matrix, means: Matrix | float, missing: NDArray[Any]) -> Matrix:
    """Prepared rows, their mean kernel where it is known yet, and whether they are missing."""
    joined = np.empty((len(prepared), prepared.shape[1] + 2), prepared.dtype)
    joined[:, :-2], joined[:, -2], joined[:, -1] = prepared, means, missing
    return joined


@dataclass(frozen=True)
class Columns(Composite):
    """Mean over the columns of kernels of single columns, each fitted to its column.

    HSIC is linear in a kernel, so HSIC with this kernel is the mean of HSIC over the columns
    (SubHSIC of Zhang et al. 2018, section 5.1).

    Parameters
    ----------
    parts : Kernel or tuple of Kernel
        One kernel for all columns, or one for each column. `fit` fits a kernel to each column. None
        marks a column whose scale cannot be fitted because it is constant in the sample; it counts
        as 0 in the mean.

    Raises
    ------
    InvalidArgumentError
        A part is no kernel, or all are None.

    References
    ----------
    .. [1] Q. Zhang, S. Filippi, A. Gretton, D. Sejdinovic. Large-scale kernel methods for
       independence testing. Statistics and Computing 28, 2018, section 5.1.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.kernels import Columns, Delta
    >>> Columns(Delta())(np.array([[1, 2], [1, 3], [0, 3]]))
    array([[1. , 0.5, 0. ],
           [0.5, 1. , 0.5],
           [0. , 0.5, 1. ]])
    """

    parts: Kernel | tuple[Kernel | None, ...]
    origin: tuple[float, ...] | None = field(default=None, init=False, repr=False)

    name: ClassVar[str] = "columns"

    def __post_init__(self) -> None:
        parts = (self.parts,) if isinstance(self.parts, Kernel) else tuple(self.parts)
        known = all(part is None or isinstance(part, Kernel) for part in parts)
        if not known or not any(parts):
            msg = (
                "columns needs a kernel for all columns or one for each, not None for all; got "
                f"{self.parts}: pass a kernel of one column"
            )
            raise InvalidArgumentError(msg)
        object.__setattr__(self, "parts", parts)

    def fit(self, sample: Vector) -> Self:
        sample = as_sample(sample)
        self._check_shape(sample)
        fitted = list[Kernel | None]()
        for part, x in zip(self._each(sample.shape[1]), sample.T, strict=True):
            try:
                fitted.append(part and part.fit(x[:, None]))
            except DataError:
                # A constant column tells nothing, and takes no part in the mean.
                if (x != x[0]).any():
                    raise
                fitted.append(None)
        if not any(fitted):
            msg = "columns: a sample must have a column that is not constant: drop the variable"
            raise DataError(msg)
        return self._of(fitted)

    @property
    def work_tiles(self) -> int:
        return 2 if self._laplacians else 1 + max(part.work_tiles for part in self._known)

    def rows(self, x: NDArray[Any], dtype: DTypeLike = np.float64) -> Matrix:
        if self._laplacians is None:
            return super().rows(x, dtype)
        x = np.asarray(x)
        self._check_shape(x)
        # One multiplication in place of one a column; what rows of either kind are is the same.
        at, origins, scales = self._laplacians
        return self._in_units(np.subtract(x[:, at], origins, dtype=np.float64), scales, dtype)[0]

    def tile(self, rows: Matrix, columns: Matrix, out: Matrix, work: Matrix) -> None:
        if self._laplacians is None:
            super().tile(rows, columns, out, work)
        else:
            self._add_laplacians(rows, columns, out, work)
        # HSIC is linear in a kernel: with the mean over columns it is the mean of theirs, SubHSIC
        # of Zhang et al. (2018), section 5.1.
        d = self.dimension(rows.shape[1])
        if d > 1:
            np.multiply(out, 1.0 / d, out=out)

    def _add_laplacians(self, rows: Matrix, columns: Matrix, out: Matrix, work: Matrix) -> None:
        """Write the sum of Laplacian kernels of prepared columns.

        exp(-|x - z|) is the smaller one of exp(x) exp(-z) and exp(-x) exp(z), so that exponentials
        are of rows and not of pairs of them.
        """
        far = np.maximum(*(np.abs(x).max(axis=0, initial=0.0) for x in (rows, columns)))
        # Exponentials of one side are as many as those of pairs where the other has a row or two.
        many = min(len(rows), len(columns)) >= _FEWEST_OF_TILE
        each = rows.T, np.ascontiguousarray(columns.T)
        with np.errstate(over="ignore"):  # where columns are not near
            rising, falling = ([np.exp(sign * x) for x in each] for sign in (1, -1))
        for j, part in enumerate(self._known):
            to = work[0] if j else out
            if many and far[j] <= _REACH[rows.dtype]:
                np.multiply(rising[0][j][:, None], falling[1][j], out=to)
                np.multiply(falling[0][j][:, None], rising[1][j], out=work[1])
                np.minimum(to, work[1], out=to)
            else:
                part.tile(rows[:, j : j + 1], columns[:, j : j + 1], to, work[1:])
            if j:
                np.add(out, to, out=out)

    def gradient(
        self, rows: Matrix, columns: Matrix, gram: Matrix, weights: Matrix, work: Matrix
    ) -> Matrix:
        summed = super().gradient(rows, columns, gram, weights, work)
        return summed / self.dimension(rows.shape[1])

    def side_by_side(self, rows: Matrix, columns: Sequence[Matrix]) -> Matrix:
        """The kernel of every column that counts, at points of that column.

        Parameters
        ----------
        rows : ndarray, shape (b, w)
            Prepared.
        columns : sequence of ndarray, shapes (p_j, w_j)
            Prepared, of every column that counts.

        Returns
        -------
        ndarray, shape (b, sum of p_j)
        """
        if self._laplacians is None:
            pairs = zip(self._split(rows.shape[1]), columns, strict=True)
            return np.hstack([part.gram(rows[:, at], z, rows.dtype) for (part, _, at), z in pairs])
        # One call for all columns: a call for each takes longer than its few numbers.
        out = rows.take(np.repeat(np.arange(len(columns)), [len(z) for z in columns]), axis=1)
        out -= np.concatenate(columns)[:, 0]
        np.negative(np.abs(out, out=out), out=out)
        return np.exp(out, out=out)

    @cached_property
    def _laplacians(self) -> tuple[Indices, Vector, Vector] | None:
        """The columns that count, their origins and scales, where all kernels are Laplacian."""
        if self.alike or not all(isinstance(p, Laplacian) and p.origin for p in self._known):
            return None
        parts = ((j, part) for j, part in enumerate(self._given) if part is not None)
        numbers = [(j, part.origin, part._scale) for j, part in parts]
        at, origins, scales = map(np.array, zip(*numbers, strict=True))
        return at, origins[:, 0], scales

    def placed(self, d: int) -> Iterable[tuple[Kernel, ColumnNumbers]]:
        """The kernels that count in the mean, with the one column each that is theirs."""
        each = enumerate(self._each(d))
        return [(part, range(j, j + 1)) for j, part in each if part is not None]

    @property
    def alike(self) -> bool:
        """Whether one kernel is for all columns."""
        return len(self._given) == 1

    def spectral_scales(self, rng: np.random.Generator, count: int, d: int) -> Vector:
        # a mean of kernels is a mixture of their laws: every frequency is along one column
        parts, scales = self._each(d), np.zeros((count, d))
        along = rng.integers(d, size=count)
        for j, part in enumerate(parts):
            chosen = along == j
            # Frequencies of a column that does not count stay 0: their waves are constant.
            if part is not None and chosen.any():
                scales[chosen, j] = part.spectral_scales(rng, int(chosen.sum()), 1)[:, 0]
        return scales

    def spec(self) -> str:
        specs = ["none" if part is None else part.spec() for part in self._given]
        return f"{self.name}({','.join(specs[:1] if len(set(specs)) == 1 else specs)})"

    def _each(self, d: int) -> tuple[Kernel | None, ...]:
        return self._given * d if self.alike else self._given

    def dimension(self, width: int) -> int:
        """Columns of the variable behind prepared arrays of so many columns, once fitted."""
        return width // self._known[0].width(1) if self.alike else len(self._given)

    @property
    def _columns(self) -> int | None:
        return None if self.alike else len(self._given)


@dataclass(frozen=True)
class Ranked(OfKernel):
    """A kernel of the ranks of every column, of their normal scores, or of their spread.

    The rank of a value is the share of a sample that lies below it, where ties count by half: its
    mid-distribution function. Ranks are interpolated between values of the sample, so that each row
    is transformed separately, and constant beyond the sample. HSIC with such a kernel is a
    dependence measure of the copula (Poczos et al. 2012); increasing transformations of columns do
    not change it if the sample contains all rows. The spread of a value is the rank of the distance
    of its rank from 1/2: small at the median, near 1 at both ends. A trend of the spread is a trend
    of the scale of the variable.

    Parameters
    ----------
    kernel : Kernel
        Kernel of the transformed columns.
    scale : {"ranks", "scores", "spread"}, optional
        Ranks from 0 to 1, normal quantiles of the ranks, or the ranks of their distances from 1/2.
    knots : tuple of tuple of tuple of float, optional
        For each column up to 512 ascending values, and their transforms; `fit` sets them.

    Raises
    ------
    InvalidArgumentError
        `kernel` is no kernel, or `scale` is no such name.

    References
    ----------
    .. [1] B. Poczos, Z. Ghahramani, J. Schneider. Copula-based kernel dependency measures.
       ICML 2012.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.kernels import Gaussian, Ranked
    >>> x = np.array([[1.0], [10.0], [1000.0]])
    >>> Ranked(Gaussian(gamma=1.0)).fit(x)(x).round(4)
    array([[1.    , 0.8948, 0.6412],
           [0.8948, 1.    , 0.8948],
           [0.6412, 0.8948, 1.    ]])
    """

    scale: Scale = "ranks"
    # Kernels with other knots are others, but to hash thousands of numbers would take long.
    knots: tuple[_Knots, ...] | None = field(default=None, repr=False, hash=False)

    name: ClassVar[str] = "ranks"

    def __post_init__(self) -> None:
        given: Any = self.kernel
        if not isinstance(given, Kernel):
            msg = f"ranks need a kernel, got {given!r}: pass Gaussian(), for instance"
            raise InvalidArgumentError(msg)
        check_choice("scale", self.scale, get_args(Scale))

    def fit(self, sample: Vector) -> Self:
        sample, arrays, knots = as_sample(sample), self._arrays, self.knots
        self._check_shape(sample)
        if knots is None:
            arrays, knots = _all_knots(sample.tobytes(), sample.shape[1], self.scale)
        kernel = self.kernel.fit(_interpolated(*_ordered(sample, arrays), arrays))
        fitted = replace(self, kernel=kernel, knots=knots)
        # Tuples make the value comparable, arrays beside them make it quick.
        fitted.__dict__["_arrays"] = arrays
        return fitted

    def _of(self, kernels: Iterable[Kernel | None]) -> Self:
        """The same knots with another kernel; arrays are kept, since many columns have many."""
        other = super()._of(kernels)
        other.__dict__["_arrays"] = self._arrays
        return other

    def spec(self) -> str:
        return f"{self.scale}({self.kernel.spec()})"

    def _seen(self, x: NDArray[Any]) -> Vector:
        return self.heights(x, {})

    def heights(self, x: NDArray[Any], found: Found) -> Vector:
        """Ranks, scores or spreads of rows.

        Parameters
        ----------
        x : ndarray, shape (b, d)
            Rows.
        found : dict
            The order of these rows, and their heights on scales; what is missing is added.

        Returns
        -------
        ndarray, shape (b, d)
        """
        self._check_shape(x)
        if self.knots is None:
            msg = f"{self.scale}: knots must be set before use; got None: call fit(sample)"
            raise InvalidArgumentError(msg)
        if None not in found:
            found[None] = _ordered(x, self._arrays)
        # Kernels of other lengths have the same knots, and heights are found once for all.
        if id(self._arrays) not in found:
            columns, orders = found[None]
            found[id(self._arrays)] = _interpolated(columns, orders, self._arrays)
        heights: Vector = found[id(self._arrays)]
        return heights

    @cached_property
    def _arrays(self) -> _Arrays:
        return [(np.array(values), np.array(heights)) for values, heights in self.knots or ()]

    @property
    def _columns(self) -> int | None:
        return None if self.knots is None else len(self.knots)


def rows_beside(kernel: Kernel, x: NDArray[Any], dtype: DTypeLike, found: Found) -> Matrix:
    """Prepared rows of a kernel, with what other kernels of their ranks have found."""
    if not isinstance(kernel, Ranked):
        return kernel.rows(x, dtype)
    return kernel.kernel.rows(kernel.heights(np.asarray(x), found), dtype)


def _ordered(x: NDArray[Any], arrays: _Arrays) -> tuple[Matrix, Indices]:
    """Columns (d, b) of rows, and an order of each in which the search for knots is quick."""
    # Knots are in double precision, and so is the interpolation between them.
    columns = np.ascontiguousarray(x.T if x.itemsize <= 8 else x.T.astype(np.float64))
    if len(x) <= _FEW_ROWS:
        return columns, np.broadcast_to(np.arange(len(x)), columns.shape)
    middles = np.array([values[len(values) // 2] for values, _ in arrays], np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        # About the middle knot, or numbers that share their leading digits, as years do, would
        # come in no order at all.
        near = (columns - middles[:, None]).astype(np.float32, copy=False)
    # By the upper half of a float32, its sign, exponent and seven digits, which a radix sort orders
    # in a fifth of the time that all digits take. Its lowest byte comes first.
    halves = np.ascontiguousarray(near.view(np.uint16)[:, 1::2])
    return columns, np.argsort(halves, axis=1, kind="stable")


def _interpolated(columns: Matrix, orders: Indices, arrays: _Arrays) -> Vector:
    """Heights (b, d) of columns that are looked up in these orders."""
    heights = np.empty(columns.shape)
    for row, column, order, knots in zip(heights, columns, orders, arrays, strict=True):
        # Near each other the search for knots takes a tenth of the time. Beyond the first and the
        # last one the interpolation stays at their heights.
        row[order] = np.interp(column[order], *knots)
    return heights.T


@lru_cache(maxsize=4)
def _all_knots(sample: bytes, columns: int, scale: Scale) -> tuple[_Arrays, tuple[_Knots, ...]]:
    """Values of every column, all or at quantiles, and their heights, which many have in common.

    They come as arrays and as tuples. Kernels of the same ranks share them, and so find the heights
    of rows once.
    """
    arrays, tuples = [], []
    for column in np.frombuffer(sample).reshape(-1, columns).T:
        values, counts = np.unique(column, return_counts=True)
        places, heights, same = _heights(counts.tobytes(), scale)
        values = values[places]
        arrays.append((values, heights))
        tuples.append((tuple(values.tolist()), same))
    return arrays, tuple(tuples)


@lru_cache(maxsize=8)
def _heights(of_values: bytes, scale: Scale) -> tuple[Indices, Vector, tuple[float, ...]]:
    """Places of the knots among values that come so often, ascending, and what they become.

    They come as an array and as a tuple. Columns without ties share them.
    """
    counts = np.frombuffer(of_values, np.intp)
    upto = np.cumsum(counts)
    n = int(upto[-1])
    middles = 2 * upto - counts  # twice the mid-ranks, whole numbers so that ties stay ties
    if scale == "spread":
        # The distance of a mid-rank from the middle, and of that again the mid-rank.
        distances, of = np.unique(np.abs(middles - n), return_inverse=True)
        shares = np.bincount(of, counts, len(distances))
        middles = (2 * np.cumsum(shares) - shares)[of]
    heights = middles / (2 * n)
    if scale == "scores":
        # Mid-ranks lie strictly between 0 and 1, so that no score is infinite.
        heights = scipy.special.ndtri(heights)
    places = np.arange(len(counts))
    if len(counts) > _MOST_KNOTS:
        # at these ranks, so that a value which many rows share is a knot
        places = np.unique(np.searchsorted(upto, np.linspace(1.0, n, _MOST_KNOTS)))
    heights = heights[places]
    return places, heights, tuple(heights.tolist())


_CLASSES = (Gaussian, Laplacian, InverseMultiquadric, RationalQuadratic, Linear, Polynomial)
# What makes a kernel of a name, and its parameters after colons; every kernel stands here once.
FORMS: dict[str, tuple[Callable[..., Kernel], tuple[str, ...]]] = {
    **{cls.name: (cls, cls.parameters()) for cls in (*_CLASSES, Distance, Delta, AndersonDarling)},
    **{f"matern{2 * nu:.0f}2": (partial(Matern, nu=nu), ("length",)) for nu in (0.5, 1.5, 2.5)},
}
KernelName: TypeAlias = Literal[
    "gaussian",
    "laplacian",
    "matern12",
    "matern32",
    "matern52",
    "imq",
    "rq",
    "linear",
    "polynomial",
    "distance",
    "delta",
    "anderson-darling",
]
"""The names alone: a kernel is any text that `parse` reads, of which a checker knows none wrong."""
# A comma before digits goes on with a list of columns; the + of 1e+5 is not a sum.
# A comma before a name and an equals sign goes on with the parameters.
_TOKEN = re.compile(
    r"@\d+(?:,\d+)*|@[^+*(),]*|[+*()]|(?:[^+*(),@]|(?<=[\d.]e)\+|,(?=[a-z_]\w*=))+|,"
)


def parse(text: str) -> Kernel:
    """Read a kernel from text.

    Parameters
    ----------
    text : str
        A name with parameters after colons, in the order of the table or by name, as in
        "rq:gamma=2"; omitted parameters keep their defaults. "+", "*" and parentheses combine
        kernels of the same variable.

        ================================  =====================================
        text                              kernel
        ================================  =====================================
        gaussian[:gamma]                  `Gaussian`
        laplacian[:gamma]                 `Laplacian`
        matern12[:length], 32, 52         `Matern` with nu 1/2, 3/2, 5/2
        imq[:gamma]                       `InverseMultiquadric`
        rq[:alpha:gamma]                  `RationalQuadratic`
        linear                            `Linear`
        polynomial[:degree:coef0:gamma]   `Polynomial`
        distance[:exponent]               `Distance`
        delta                             `Delta`
        anderson-darling                  `AndersonDarling`
        columns(kernel, ...)              `Columns`
        ranks(kernel), scores, spread     `Ranked`
        kernel@0,2                        `OnColumns`, of these columns alone
        ================================  =====================================

        `dhsic.register` adds names.

    Returns
    -------
    Kernel
        `Kernel.fit` fills omitted parameters. ``parse(k.spec())`` is k without origin.

    Raises
    ------
    InvalidArgumentError
        The name is unknown, a parameter is out of range, or the expression is malformed.

    Examples
    --------
    >>> from dhsic.kernels import parse
    >>> parse("gaussian:0.5")
    Gaussian(origin=None, gamma=0.5)
    >>> parse("(gaussian + linear) * delta").spec()
    '(gaussian+linear)*delta'
    """
    tokens = _TOKEN.findall(re.sub(r"\s", "", text.lower()))
    kernel = _sum(tokens)
    if tokens:
        raise _malformed(tokens[0])
    return kernel


def _sum(tokens: list[str], symbols: str = "+*") -> Kernel:
    """Take operands joined by the first symbol off the tokens; those of the others bind before."""
    if not symbols:
        return _operand(tokens)
    symbol, inner = symbols[0], symbols[1:]
    kernel = _sum(tokens, inner)
    while tokens[:1] == [symbol]:
        tokens.pop(0)
        other = _sum(tokens, inner)
        kernel = kernel + other if symbol == "+" else kernel * other
    return kernel


def _operand(tokens: list[str]) -> Kernel:
    token = tokens.pop(0) if tokens else ""
    if token == "(" or (token in _AROUND and tokens[:1] == ["("]):
        if token != "(":
            tokens.pop(0)
        kernel = _AROUND[token](tokens)
        if not tokens or tokens.pop(0) != ")":
            opening = "("
            raise _malformed(opening)
    else:
        kernel = _simple(token)
    if tokens and re.fullmatch(r"@[\d,]+", tokens[0]):
        kernel = OnColumns(kernel, tuple(map(int, tokens.pop(0)[1:].split(","))))
    return kernel


def _ranked(tokens: list[str], scale: Scale) -> Kernel:
    return Ranked(_sum(tokens), scale)


def _columns(tokens: list[str]) -> Kernel:
    """Take kernels of columns, or "none", and the commas between them off the tokens."""
    parts: list[Kernel | None] = []
    while not parts or (tokens[:1] == [","] and tokens.pop(0)):
        if tokens[:1] == ["none"]:
            tokens.pop(0)
            parts.append(None)
        else:
            parts.append(_sum(tokens))
    return Columns(tuple(parts))


# What reads the inside of parentheses behind a word, or of those alone.
_AROUND: dict[str, Callable[[list[str]], Kernel]] = {
    **{scale: partial(_ranked, scale=scale) for scale in get_args(Scale)},
    Columns.name: _columns,
    "(": _sum,
}


def _simple(token: str) -> Kernel:
    name, colon, text = token.partition(":")
    if name not in FORMS:
        # A name that is not known may be one of a plugin: these are loaded only now.
        load_plugins()
    if name not in FORMS:
        around = [word for word in _AROUND if word != "("]
        near = get_close_matches(name, [*FORMS, *around], n=1)
        shown = [f"{form}(gaussian)" if form in around else form for form in near]
        remedy = f"did you mean {shown[0]!r}?" if near else "write 'gaussian', for instance"
        msg = (
            f"a kernel must be one of {', '.join(FORMS)}, or {', '.join(around)} of one, as "
            f"'ranks(gaussian)'; got {name!r}: {remedy}"
        )
        raise InvalidArgumentError(msg)
    build, parameters = FORMS[name]
    return build(**(read_fields(text, parameters, f"kernel {name}", _number) if colon else {}))


def _number(value: str) -> float | str:
    """Read a number; what is not one is left for the kernel to refuse."""
    try:
        return float(value)
    except ValueError:
        return value


def _malformed(token: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        "kernels must be joined by + or * and parentheses must pair; "
        f"got an unexpected {token!r}: write '(gaussian+linear)*delta', for instance"
    )


_INNER = "inner"  # a kernel of a kernel, since "kernel" tells the class
# Classes that a file may name.
_BY_NAME: dict[str, type[Kernel]] = {
    cls.__name__: cls
    for cls in (
        *(build for build, _ in FORMS.values() if isinstance(build, type)),
        *(Matern, Columns, OnColumns, Product, Ranked, Sum),
    )
}


def plain_kernel(kernel: Kernel) -> dict[str, Any]:
    """Write a fitted kernel of this package, with its origin, as plain types.

    Parameters
    ----------
    kernel : Kernel
        As fitted.

    Returns
    -------
    dict

    Raises
    ------
    InvalidArgumentError
        The kernel is of another package.

    Examples
    --------
    >>> from dhsic.kernels import Gaussian
    >>> plain_kernel(Gaussian(gamma=0.5, origin=(1.0,)))
    {'kernel': 'Gaussian', 'origin': [1.0], 'gamma': 0.5}
    """
    name = type(kernel).__name__
    if _BY_NAME.get(name) is not type(kernel):
        msg = f"only kernels of dhsic.kernels can be saved, got {kernel!r}: take one of them"
        raise InvalidArgumentError(msg)
    values = {
        _INNER if field.name == "kernel" else field.name: plain_value(getattr(kernel, field.name))
        for field in fields(kernel)
    }
    return {"kernel": name, **values}


def kernel_of_plain(plain: Any) -> Kernel:
    """Read what `plain_kernel` made.

    Parameters
    ----------
    plain : dict
        Its class and its fields.

    Returns
    -------
    Kernel

    Raises
    ------
    TypeError
        It is something else.

    Examples
    --------
    >>> kernel_of_plain({"kernel": "Gaussian", "origin": [1.0], "gamma": 0.5})
    Gaussian(origin=(1.0,), gamma=0.5)
    """
    kernel: Any = None
    with suppress(KeyError):  # no class is named, or one that is not there
        kernel = _value(plain)
    if not isinstance(kernel, Kernel):
        msg = f"kernel must be a kernel of dhsic.kernels, got {str(plain)[:40]!r}"
        raise TypeError(msg)
    return kernel


def _value(plain: Any) -> Any:
    if isinstance(plain, list):
        return tuple(_value(item) for item in plain)
    if not isinstance(plain, dict):
        return plain
    # Names are looked up here alone, so that a file can have nothing else made.
    cls = _BY_NAME[plain["kernel"]]
    values = {**plain, "kernel": plain.get(_INNER)}
    # Fields that are no arguments are made anew.
    names = [f.name for f in fields(cls) if f.init and values.get(f.name) is not None]
    return cls(**{name: _value(values[name]) for name in names})


CODECS[Kernel] = plain_kernel, kernel_of_plain
