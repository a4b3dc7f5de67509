"""A kernel of some columns of a variable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dhsic.errors import DataError, InvalidArgumentError
from dhsic.kernels.base import Kernel
from dhsic.kernels.combined import Product, Sum
from dhsic.kernels.of_kernel import OfKernel


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

    def squarings(self, wide: Kernel) -> int:
        # Kernels of other columns compare other distances.
        same = isinstance(wide, OnColumns) and wide.at == self.at
        return self.kernel.squarings(wide.kernel) if same else 0  # type: ignore[attr-defined]

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
class _Widened(OfKernel):
    """A kernel that is stretched as soon as it is fitted."""

    factor: float

    name: ClassVar[str] = "widened"

    def fit(self, sample: NDArray[np.float64]) -> Kernel:  # type: ignore[override]
        return self.kernel.fit(sample).widened(self.factor)

    def spec(self) -> str:
        return self.kernel.spec()


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
