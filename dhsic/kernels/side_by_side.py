"""Kernels of several variables side by side, each a run of the columns of one row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dhsic.kernels.bandwidth import median_distance
from dhsic.kernels.base import Kernel
from dhsic.kernels.combined import Product
from dhsic.kernels.of_kernel import OfKernel
from dhsic.kernels.on_columns import OnColumns


def columns_of(widths: Sequence[int]) -> list[tuple[int, ...]]:
    """The columns of each of some variables side by side.

    Examples
    --------
    >>> columns_of((2, 1))
    [(0, 1), (2,)]
    """
    return [tuple(range(*both)) for both in pairwise(accumulate(widths, initial=0))]


@dataclass(frozen=True)
class SideBySide(OfKernel):
    """A kernel of several variables as one, each in units of its median distance.

    In their own units the variable with the largest would decide: 40 of 40 dependences that were
    found became 1 of 40 where one column was multiplied by 1,000.

    Parameters
    ----------
    kernel : Kernel
        Kernel of all columns.
    widths : tuple of int
        Columns of every variable.
    scales : tuple of float, optional
        Divisors of the columns; `fit` sets them.
    """

    widths: tuple[int, ...]
    scales: tuple[float, ...] | None = None

    name: ClassVar[str] = "side-by-side"

    def fit(self, sample: NDArray[np.float64]) -> Self:
        scaled = self
        if self.scales is None:
            parts = [np.asarray(sample, np.float64)[:, at] for at in columns_of(self.widths)]
            # A constant variable stays as it is, where it would be divided by 0.
            scales = [median_distance(x) if np.ptp(x, axis=0).any() else 1.0 for x in parts]
            scaled = replace(self, scales=tuple(np.repeat(scales, self.widths).tolist()))
        return scaled._of(self.kernel.fit(scaled._changed(sample)))

    def scale_columns(self, d: int) -> tuple[tuple[int, ...], ...]:
        return (*columns_of(self.widths), *self.kernel.scale_columns(d))

    def squarings(self, wide: Kernel) -> int:
        same = isinstance(wide, SideBySide) and wide.scales == self.scales
        return self.kernel.squarings(wide.kernel) if same else 0  # type: ignore[attr-defined]

    def spec(self) -> str:
        return self.kernel.spec()

    def _changed(self, x: NDArray[Any]) -> NDArray[Any]:
        return x if self.scales is None else np.asarray(x) / self.scales


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
    return Product(tuple(map(OnColumns, of, columns_of(widths))))


def stretched(kernel: Kernel, factor: float) -> Kernel:
    """The kernel that is fitted, and then has a multiple of its length scale."""
    return kernel if factor == 1.0 else _Widened(kernel, factor)
