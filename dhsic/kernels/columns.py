"""The mean over columns of a kernel of one column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dhsic.errors import DataError, InvalidArgumentError
from dhsic.kernels.bandwidth import as_sample, median_distances
from dhsic.kernels.base import Kernel, Matrix, Parts
from dhsic.kernels.radial import Laplacian

# Beyond, exponentials of prepared numbers and their products could overflow.
_REACH = {np.dtype(np.float32): 40.0, np.dtype(np.float64): 340.0}
_FEWEST = 8  # rows of either side of a tile for which they pay

Indices = NDArray[np.intp]
Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Columns(Parts):
    """Mean over the columns of a kernel of one column, each fitted to its own column.

    HSIC is linear in a kernel, so with it HSIC is the mean over columns of their HSIC (SubHSIC of
    Zhang et al. 2018, section 5.1).

    Parameters
    ----------
    parts : Kernel or tuple of Kernel
        One for all columns, or one a column. `fit` gives every column its own; None stands for a
        column whose scale cannot be fitted because it is constant in the sample, and counts as 0
        in the mean.

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

    def fit(self, sample: NDArray[np.float64]) -> Self:
        sample = as_sample(sample)
        self._check_shape(sample)
        # The usual case, which needs no call for each column.
        if self._given == (Laplacian(),):
            fitted = _fit_laplacians(sample)
        else:
            parts = zip(self._each(sample.shape[1]), sample.T, strict=True)
            fitted = tuple(_fit(part, x[:, None]) for part, x in parts)
        if not any(fitted):
            msg = "columns: a sample must have a column that is not constant: drop the variable"
            raise DataError(msg)
        return replace(self, parts=fitted)

    @property
    def work_tiles(self) -> int:
        if self.of_laplacians:
            return 2
        return 1 + max(part.work_tiles for part in self._known)

    def rows(self, x: NDArray[Any], dtype: DTypeLike = np.float64) -> Matrix:
        if self._laplacians is None:
            return super().rows(x, dtype)
        x = np.asarray(x)
        self._check_shape(x)
        # one multiplication in place of one a column; what rows of either kind are is the same
        at, origins, scales = self._laplacians
        centred = np.subtract(x[:, at], origins, dtype=np.float64)
        scaled = np.empty(centred.shape, dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            np.multiply(centred, scales, out=scaled, casting="same_kind")
            self._check_range(np.square(scaled, dtype=np.float64), dtype)
        return scaled

    def columns(self, z: NDArray[Any], dtype: DTypeLike = np.float64) -> Matrix:
        # Those of Laplacian kernels are the rows, which are made at once.
        return super().columns(z, dtype) if self._laplacians is None else self.rows(z, dtype)

    def rows_and_columns(
        self, x: NDArray[Any], dtype: DTypeLike = np.float64
    ) -> tuple[Matrix, Matrix]:
        rows = self.rows(x, dtype)
        return rows, rows if self._laplacians is not None else self.columns(x, dtype)

    def tile(self, rows: Matrix, columns: Matrix, out: Matrix, work: Matrix) -> None:
        if self._laplacians is None:
            super().tile(rows, columns, out, work)
        else:
            _add_laplacians(rows, columns, out, work)
        # HSIC is linear in a kernel: with the mean over columns it is the mean of theirs, SubHSIC
        # of Zhang et al. (2018), section 5.1.
        d = self.dimension(rows.shape[1])
        if d > 1:
            np.multiply(out, 1.0 / d, out=out)

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
        counts, widths = zip(*(z.shape for z in columns), strict=True)
        if self._laplacians is not None:
            # one call for all columns: a call for each takes longer than its few numbers
            at = np.repeat(np.arange(len(counts)), counts)
            return _laplacians_at(rows, at, np.concatenate(columns)[:, 0])
        out = np.empty((len(rows), sum(counts)), rows.dtype)
        places = (pairwise(accumulate(sizes, initial=0)) for sizes in (widths, counts))
        parts = self.counted(self.dimension(rows.shape[1]))
        for (part, _), z, of, to in zip(parts, columns, *places, strict=True):
            work = np.empty((part.work_tiles, len(rows), len(z)), rows.dtype)
            part.tile(rows[:, slice(*of)], z, out[:, slice(*to)], work)
        return out

    @property
    def of_laplacians(self) -> bool:
        """Whether fitted kernels take exponentials of rows alone, and none of pairs of them."""
        return all(isinstance(part, Laplacian) and part.origin is not None for part in self._known)

    @cached_property
    def _laplacians(self) -> tuple[Indices, Vector, Vector] | None:
        """The columns that count, their origins and scales, where all kernels are Laplacian."""
        if self.alike or not self.of_laplacians:
            return None
        parts = [
            (j, part.origin[0], part._scale)
            for j, part in enumerate(self._given)
            if isinstance(part, Laplacian) and part.origin is not None
        ]
        at, origins, scales = map(np.array, zip(*parts, strict=True))
        return at, origins, scales

    def counted(self, d: int) -> Iterator[tuple[Kernel, slice]]:
        """The kernels that count in the mean, with the one column each that is theirs."""
        for j, part in enumerate(self._each(d)):
            if part is not None:
                yield part, slice(j, j + 1)

    @property
    def alike(self) -> bool:
        """Whether one kernel is for all columns."""
        return len(self._given) == 1

    def spectral_scales(self, rng: np.random.Generator, count: int, d: int) -> NDArray[np.float64]:
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

    @property
    def _given(self) -> tuple[Kernel | None, ...]:
        assert isinstance(self.parts, tuple)
        return self.parts

    def _each(self, d: int) -> tuple[Kernel | None, ...]:
        return self._given * d if self.alike else self._given

    def dimension(self, width: int) -> int:
        """Columns of the variable behind prepared arrays of so many columns, once fitted."""
        return width // self._known[0].width(1) if self.alike else len(self._given)

    @property
    def _columns(self) -> int | None:
        return None if self.alike else len(self._given)


def _add_laplacians(rows: Matrix, columns: Matrix, out: Matrix, work: Matrix) -> None:
    """Write the sum of Laplacian kernels of prepared columns, without what a call of each takes.

    exp(-|x - z|) is the smaller one of exp(x) exp(-z) and exp(-x) exp(z), so that exponentials are
    of rows and not of pairs of them.
    """
    each = rows.T, np.ascontiguousarray(columns.T)
    # Exponentials of one side are as many as those of pairs where the other has a row or two.
    many = min(len(rows), len(columns)) >= _FEWEST
    near = _are_near(rows) & _are_near(columns) & many
    with np.errstate(over="ignore"):  # where columns are not near
        rising, falling = ([np.exp(sign * x) for x in each] for sign in (1, -1))
    for j, (x, z) in enumerate(zip(*each, strict=True)):
        to = work[0] if j else out
        if near[j]:
            np.multiply(rising[0][j][:, None], falling[1][j], out=to)
            np.multiply(falling[0][j][:, None], rising[1][j], out=work[1])
            np.minimum(to, work[1], out=to)
        else:
            _write_laplacian(x[:, None], z, to)
        if j:
            np.add(out, to, out=out)


def _laplacians_at(rows: Matrix, at: Indices, z: Matrix) -> Matrix:
    """Laplacian kernels of prepared columns, by their numbers, at a point each, shape (b, p)."""
    if _are_near(rows).all() and _are_near(z).all():
        # The smaller one of two products, as in `_add_laplacians`.
        out, other = np.exp(rows).take(at, axis=1), np.exp(-rows).take(at, axis=1)
        out *= np.exp(-z)
        other *= np.exp(z)
        return np.minimum(out, other, out=out)
    out = rows.take(at, axis=1)
    _write_laplacian(out, z, out)
    return out


def _write_laplacian(x: Matrix, z: Matrix, out: Matrix) -> None:
    """exp(-|x - z|), of numbers however far apart."""
    np.subtract(x, z, out=out)
    np.abs(out, out=out)
    np.negative(out, out=out)
    np.exp(out, out=out)


def _are_near(prepared: Matrix) -> NDArray[np.bool_]:
    """Whether exponentials of the numbers of a column may be multiplied."""
    near: NDArray[np.bool_] = np.abs(prepared).max(axis=0, initial=0.0) <= _REACH[prepared.dtype]
    return near


def _fit_laplacians(sample: Vector) -> tuple[Kernel | None, ...]:
    """As `_fit` of every column, without what a call of each takes."""
    origins, lengths = np.median(sample, axis=0).tolist(), median_distances(sample)
    return tuple(
        Laplacian(gamma=1.0 / length, origin=(origin,)) if length else None
        for origin, length in zip(origins, lengths, strict=True)
    )


def _fit(part: Kernel | None, column: NDArray[np.float64]) -> Kernel | None:
    try:
        return None if part is None else part.fit(column)
    except DataError:
        # A constant column tells nothing, and takes no part in the mean.
        if (column == column[0]).all():
            return None
        raise
