"""Tiles of several kernels at the same rows: a narrower kernel is often a power of a wider one."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dhsic.kernels.base import Kernel, Matrix
from dhsic.kernels.wrap import Found, rows_beside

Tile = NDArray[Any]
Values: TypeAlias = Sequence[NDArray[Any]]

_MOST_SQUARINGS = 6  # in float32 errors up to 2e-5; a tile that is computed has up to 8e-6


class Power(NamedTuple):
    """A tile that is another one squared some times."""

    k: int  # the number of its kernel
    source: int  # the number of the wider kernel
    squarings: int  # 1 or more

    def of(self, wide: Tile, out: Tile | None = None) -> Tile:
        """The tile, from the other one."""
        out = np.square(wide, out=out)
        for _ in range(self.squarings - 1):
            np.square(out, out=out)
        return out


@dataclass(frozen=True)
class SharedTiles:
    """Tiles of K kernels on M variables, of which some are powers of others.

    exp(-r) squared is exp(-2 r): halving the length of a Gaussian kernel is squaring its tile
    twice. So the widest of such kernels is computed, and the others follow from one another.
    Every squaring doubles the relative error that the exponential leaves; the error of the
    distances, which is larger in many columns, is the same for tiles that are computed.

    Parameters
    ----------
    kernels : tuple of Kernel
        All K of them, fitted.
    variables : tuple of int
        The number of the variable that each is for, shape (K,).

    Examples
    --------
    >>> from dhsic.kernels import Gaussian
    >>> shared = SharedTiles((Gaussian(gamma=4.0), Gaussian(gamma=1.0)), (0, 0))
    >>> shared.roots, shared.powers
    ((1,), (Power(k=0, source=1, squarings=2),))
    """

    kernels: tuple[Kernel, ...]
    variables: tuple[int, ...]

    @cached_property
    def roots(self) -> tuple[int, ...]:
        """Numbers of the kernels whose tiles are computed by themselves, ascending."""
        powers = {power.k for power in self.powers}
        return tuple(k for k in range(len(self.kernels)) if k not in powers)

    @cached_property
    def powers(self) -> tuple[Power, ...]:
        """The other kernels, each after the one that it follows from."""
        each = zip(self.variables, (kernel.as_power() for kernel in self.kernels), strict=True)
        return powers_among([((m, base), exponent) for m, (base, exponent) in each])

    @cached_property
    def work_tiles(self) -> int:
        """How many scratch tiles `tiles` needs."""
        return max(self.kernels[k].work_tiles for k in self.roots)

    def width(self, dims: Sequence[int]) -> int:
        """Columns of all prepared arrays for variables of so many columns each."""
        return sum(self.kernels[k].width(dims[self.variables[k]]) for k in self.roots)

    def rows(self, values: Values, dtype: DTypeLike) -> list[Matrix]:
        """Prepare rows (b, d_m) of every variable for `tiles`: an array for every root."""
        found: list[Found] = [{} for _ in values]
        each = [(self.kernels[k], self.variables[k]) for k in self.roots]
        return [rows_beside(kernel, values[m], dtype, found[m]) for kernel, m in each]

    def rows_and_columns(
        self, values: Values, dtype: DTypeLike
    ) -> tuple[list[Matrix], list[Matrix]]:
        """Prepare rows as both arguments of `tiles`, as `rows`."""
        rows = self.rows(values, dtype)
        return rows, [self.kernels[k].as_columns(x) for k, x in zip(self.roots, rows, strict=True)]

    def tiles(
        self,
        rows: Sequence[Matrix],
        columns: Sequence[Matrix],
        outs: Sequence[Tile],
        work: Tile,
    ) -> None:
        """Write the tiles of all kernels.

        Parameters
        ----------
        rows, columns : sequence of ndarray, shapes (b, w_k) and (p, w_k)
            One for every root, from `rows` and `columns`, or slices of them along axis 0.
        outs : sequence of ndarray, shapes (b, p)
            All K of them. Overwritten.
        work : ndarray, shape (work_tiles, b, p)
            Scratch, with the dtype of `outs`.
        """
        # Roots first, since the others are squares of them.
        for k, x, z in zip(self.roots, rows, columns, strict=True):
            self.kernels[k].tile(x, z, outs[k], work)
        for power in self.powers:
            power.of(outs[power.source], outs[power.k])


def powers_among(tiles: Sequence[tuple[Hashable, float]]) -> tuple[Power, ...]:
    """Tiles that are powers of others, each after the one that it follows from.

    Parameters
    ----------
    tiles : sequence of (Hashable, float)
        What all powers of one tile share, and the exponent of each.

    Returns
    -------
    tuple of Power
    """
    families: dict[Hashable, list[tuple[float, int]]] = {}
    for k, (family, exponent) in enumerate(tiles):
        families.setdefault(family, []).append((exponent, k))
    powers = []
    for some in families.values():
        depths: dict[int, int] = {}
        for exponent, k in sorted(some):  # the widest first
            wider = ((_doublings(exponent / wide), j) for wide, j in some if j in depths)
            # The nearest of the wider ones takes the fewest squarings, and loses the fewest digits.
            squarings, source = min((one for one in wider if one[0]), default=(0, k))
            depth = depths.get(source, 0) + squarings
            # A chain that got too long begins anew, with a tile that is computed.
            depths[k] = depth if depth <= _MOST_SQUARINGS else 0
            if depths[k]:
                powers.append(Power(k, source, squarings))
    return tuple(powers)


def _doublings(ratio: float) -> int:
    """The whole number of times that 1 is doubled to give a ratio; 0 where there is none."""
    doublings = math.log2(ratio)
    near = round(doublings)
    return near if near > 0 and math.isclose(doublings, near, rel_tol=1e-12) else 0
