"""Kernels of ranks: what units, outliers and monotone transformations of a column do not change."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeAlias, get_args

import numpy as np
import scipy
from numpy.typing import DTypeLike, NDArray

from dhsic._validation import check_choice
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.kernels.bandwidth import as_sample
from dhsic.kernels.base import Kernel, Matrix
from dhsic.kernels.wrap import OfKernel

Scale = Literal["ranks", "scores", "spread"]

_MOST_KNOTS = 512
_FEW = 2**7  # rows, which it takes longer to order than to look up

_Knots: TypeAlias = tuple[tuple[float, ...], tuple[float, ...]]
_Arrays: TypeAlias = list[tuple[NDArray[np.float64], NDArray[np.float64]]]


class OrderedColumns(NamedTuple):
    """Columns of rows (b, d) whose near numbers follow each other, for ranks on any scale."""

    values: Matrix
    """Shape (d, b)."""
    orders: NDArray[np.intp]
    """Where in the rows they are, shape (d, b)."""


@dataclass(frozen=True)
class Ranked(OfKernel):
    """A kernel of the ranks of every column, of their normal scores, or of their spread.

    The rank of a value is the share of a sample that lies below it, where ties count by half: its
    mid-distribution function. Between values of the sample it is interpolated, so that each row
    is transformed by itself, and beyond them it stays. HSIC with such a kernel is a dependence
    measure of the copula (Poczos et al. 2012), which increasing transformations of columns do not
    change where the sample holds all rows. The spread of a value is the rank of its distance from
    the middle, in ranks: small at the median, near 1 at both ends. A trend of it is one of how
    much a variable varies.

    Parameters
    ----------
    kernel : Kernel
        Kernel of the transformed columns.
    scale : {"ranks", "scores", "spread"}, optional
        Ranks from 0 to 1, the normal quantiles of them, or the ranks of their distances from 1/2.
    knots : tuple of tuple of tuple of float, optional
        For every column up to 512 values, ascending, and what they become; `fit` sets them.

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
    knots: tuple[_Knots, ...] | None = field(default=None, repr=False)

    name: ClassVar[str] = "ranks"

    def __post_init__(self) -> None:
        given: Any = self.kernel
        if not isinstance(given, Kernel):
            msg = f"ranks need a kernel, got {given!r}: pass Gaussian(), for instance"
            raise InvalidArgumentError(msg)
        check_choice("scale", self.scale, get_args(Scale))

    def fit(self, sample: NDArray[np.float64]) -> Self:
        sample = as_sample(sample)
        ranked = self
        if self.knots is None:
            arrays = _all_knots(sample, self.scale)
            ranked = replace(self, knots=_as_tuples(arrays))
            # Tuples make the value hashable, arrays beside them make it quick.
            ranked.__dict__["_arrays"] = arrays
        return ranked._of(self.kernel.fit(ranked._changed(sample)))

    def _of(self, kernel: Kernel) -> Self:
        """The same knots with another kernel; arrays are kept, since many columns have many."""
        other = replace(self, kernel=kernel)
        other.__dict__["_arrays"] = self._arrays
        return other

    def rows_of(self, ordered: OrderedColumns, dtype: DTypeLike = np.float64) -> Matrix:
        """Those of rows in whose order other kernels of the variable are interested, too.

        Parameters
        ----------
        ordered : OrderedColumns
            As `ordered` gives them for any scale of ranks.
        dtype : dtype, optional
            Precision.

        Returns
        -------
        ndarray, shape (b, w)
        """
        return self.kernel.rows(self._interpolated(ordered), dtype)

    def spec(self) -> str:
        return f"{self.scale}({self.kernel.spec()})"

    def _changed(self, x: NDArray[Any]) -> NDArray[np.float64]:
        """Ranks or scores of rows (b, d), each column by its own knots."""
        return self._interpolated(self.ordered(x))

    def ordered(self, x: NDArray[Any]) -> OrderedColumns:
        """The columns of rows (b, d) in an order in which the search for knots is quick.

        Raises
        ------
        InvalidArgumentError
            The kernel is not fitted, or was to another number of columns.
        """
        x = np.asarray(x)
        if self.knots is None:
            msg = f"{self.scale}: knots must be set before use; got None: call fit(sample)"
            raise InvalidArgumentError(msg)
        if x.ndim != 2 or x.shape[1] != len(self.knots):
            msg = (
                f"{self.scale}: rows must have shape (n, {len(self.knots)}); got {x.shape}: pass "
                "x[:, None] for one column, and fit a kernel for each variable"
            )
            raise InvalidArgumentError(msg)
        # Knots are in double precision, and so is the interpolation between them.
        columns = np.ascontiguousarray(x.T if x.itemsize <= 8 else x.T.astype(np.float64))
        if len(x) <= _FEW:
            return OrderedColumns(columns, np.broadcast_to(np.arange(len(x)), columns.shape))
        with np.errstate(over="ignore", invalid="ignore"):
            # About the middle knot, or numbers that share their leading digits, as years do, would
            # come in no order at all.
            orders = _nearly_ascending(columns - self._middles[:, None])
        # near each other the search for knots takes a tenth of the time
        return OrderedColumns(np.take_along_axis(columns, orders, axis=1), orders)

    def _interpolated(self, ordered: OrderedColumns) -> NDArray[np.float64]:
        """Ranks or scores, shape (b, d)."""
        out = np.empty(ordered.values.shape)
        for row, values, order, knots in zip(out, *ordered, self._arrays, strict=True):
            # Beyond the first and the last knot the interpolation stays at their heights.
            row[order] = np.interp(values, *knots)
        return out.T

    @cached_property
    def _middles(self) -> NDArray[np.float32]:
        """The knot in the middle of every column."""
        return np.array([values[len(values) // 2] for values, _ in self.knots or ()], np.float32)

    @cached_property
    def _arrays(self) -> _Arrays:
        return [(np.array(values), np.array(heights)) for values, heights in self.knots or ()]


def _nearly_ascending(columns: NDArray[Any]) -> NDArray[np.intp]:
    """Orders in which near numbers follow each other, shape (d, b); signs may come in any order.

    By the upper half of a float32, its sign, exponent and seven digits, which a radix sort orders
    in a fifth of the time that all digits take.
    """
    # The upper halves of numbers that begin with their lowest byte.
    halves = columns.astype(np.float32, copy=False).view(np.uint16)[:, 1::2]
    return np.argsort(np.ascontiguousarray(halves), axis=1, kind="stable")


def _all_knots(sample: NDArray[np.float64], scale: Scale) -> _Arrays:
    """Those of every column; columns without ties have the same heights."""
    ordered = np.ascontiguousarray(np.sort(sample, axis=0).T)
    untied = np.logical_and.reduce(ordered[:, 1:] > ordered[:, :-1], axis=1)
    # Without ties the ranks are the same for all columns.
    places, heights = _heights(np.ones(len(sample), np.intp), scale)
    return [
        (column[places], heights) if whole else _knots(column, scale)
        for column, whole in zip(ordered, untied, strict=True)
    ]


def _knots(
    column: NDArray[np.float64], scale: Scale
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Values of a column, all or at quantiles, and their ranks or scores."""
    values, counts = np.unique(column, return_counts=True)
    places, heights = _heights(counts, scale)
    return values[places], heights


def _as_tuples(arrays: _Arrays) -> tuple[_Knots, ...]:
    """The same, of which columns without ties share their heights."""
    heights = {id(ys): tuple(ys.tolist()) for _, ys in arrays}
    return tuple((tuple(xs.tolist()), heights[id(ys)]) for xs, ys in arrays)


def _heights(
    counts: NDArray[np.intp], scale: Scale
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Places of the knots among values that come so often, ascending, and what they become."""
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
    if len(counts) <= _MOST_KNOTS:
        return np.arange(len(counts)), heights
    # at these ranks, so that a value which many rows share is a knot
    places = np.unique(np.searchsorted(upto, np.linspace(1.0, n, _MOST_KNOTS)))
    return places, heights[places]


@dataclass(frozen=True)
class AndersonDarling(Kernel):
    """Anderson-Darling kernel, -log max(u, v) - log(1 - min(u, v)) - 1, of numbers within 0 and 1.

    It is the inner product of indicators, int (1[u <= t] - t) (1[v <= t] - t) / (t (1 - t)) dt,
    with the weight that Anderson and Darling [1] give to the tails; of several columns it is their
    mean. Its feature space is that of trends: with `Ranked` it finds monotone dependence and
    differences in the tails.

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

    def fit(self, sample: NDArray[np.float64]) -> Self:
        # There is nothing to fit: values are only checked.
        self._logarithms(as_sample(sample), np.float64)
        return self

    @property
    def work_tiles(self) -> int:
        return 1

    def width(self, d: int) -> int:
        return 2 * d

    def rows(self, x: NDArray[Any], dtype: DTypeLike = np.float64) -> Matrix:
        return self._logarithms(np.asarray(x), dtype)

    def tile(self, rows: Matrix, columns: Matrix, out: Matrix, work: Matrix) -> None:
        # -log max(u, v) is the smaller of -log u and -log v, and so for 1 - u and 1 - v
        w = rows.shape[1]
        for j, (u, v) in enumerate(zip(*map(_side_by_side, (rows, columns)), strict=True)):
            to = work[0] if j else out
            np.minimum(u[:, None], v, out=to)
            if j:
                np.add(out, to, out=out)
        # Two logarithms are prepared for each column, so that w / 2 columns are averaged.
        if w > 2:
            np.multiply(out, 2.0 / w, out=out)
        np.subtract(out, 1.0, out=out)

    def _logarithms(self, x: NDArray[Any], dtype: DTypeLike) -> Matrix:
        """-log u and -log(1 - u) of every column, shape (b, 2 d)."""
        if x.ndim != 2:
            msg = f"{self.name}: rows must have shape (n, d); got {x.shape}: pass x[:, None]"
            raise InvalidArgumentError(msg)
        if not ((x > 0.0) & (x < 1.0)).all():
            msg = (
                f"{self.name}: values must lie within 0 and 1; got {float(x.min()):.3g} to "
                f"{float(x.max()):.3g}: take 'ranks({self.name})'"
            )
            raise DataError(msg)
        x = x.astype(np.float64, copy=False)
        # log1p keeps the digits of small numbers, which are the lower tail.
        return np.ascontiguousarray(np.hstack([-np.log(x), -np.log1p(-x)]), dtype)


def _side_by_side(prepared: Matrix) -> Matrix:
    """The numbers of a column next to each other, shape (w, b): loops over them are quicker."""
    return np.ascontiguousarray(prepared.T)
