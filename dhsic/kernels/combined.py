"""Sums and products of kernels on the same variable."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import accumulate, count, pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dhsic.errors import InvalidArgumentError
from dhsic.kernels.base import Kernel
from dhsic.kernels.centred import Matrix
from dhsic.kernels.gradients import sum_of_gradients


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
        # Parts of the same kind are taken apart, so that (a + b) + c is a + b + c.
        nested = [part.parts if isinstance(part, type(self)) else (part,) for part in parts]
        object.__setattr__(self, "parts", sum(nested, ()))

    def fit(self, sample: NDArray[np.float64]) -> Self:
        return replace(self, parts=tuple(part.fit(sample) for part in self.parts))

    def scale_columns(self, d: int) -> tuple[tuple[int, ...], ...]:
        sets = (columns for part in self.parts for columns in part.scale_columns(d))
        return tuple(dict.fromkeys(sets))

    def measured(self, d: int) -> frozenset[int]:
        return frozenset().union(*(part.measured(d) for part in self.parts))

    @property
    def has_length(self) -> bool:
        return any(part.has_length for part in self.parts)

    def widened(self, factor: float) -> Self:
        return replace(self, parts=tuple(part.widened(factor) for part in self.parts))

    @property
    def work_tiles(self) -> int:
        first, *others = (part.work_tiles for part in self.parts)
        # The first part writes into the output; each other one needs a tile besides its own
        # scratch.
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
        # The weights of a part and the tile of another, see `sum_of_gradients`.
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
    # The number of columns is not stored: it is the one for which the prepared widths add up.
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
    symbol: ClassVar[str] = "*"
    combine: ClassVar[np.ufunc] = np.multiply
    multiplies: ClassVar[bool] = True

    def rounding(self, columns: Matrix) -> float:
        # |a b - a' b'| <= |a - a'| + |b - b'| for values of at most 1.
        return sum(k.rounding(columns[:, at]) for k, at in self._split(columns.shape[1]))

    def spectral_scales(self, rng: np.random.Generator, count: int, d: int) -> NDArray[np.float64]:
        # frequencies of a product add up, and so do the variances of normals
        variances = [part.spectral_scales(rng, count, d) ** 2 for part in self.parts]
        scales: NDArray[np.float64] = np.sqrt(np.sum(variances, axis=0))
        return scales

    def spec(self) -> str:
        specs = [f"({k.spec()})" if isinstance(k, Sum) else k.spec() for k in self.parts]
        return self.symbol.join(specs)
