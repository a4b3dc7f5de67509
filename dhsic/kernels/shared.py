"""Tiles of several kernels at the same rows: a narrower kernel is often a power of a wider one."""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dhsic.kernels.base import Kernel, Matrix
from dhsic.kernels.wrap import OnColumns

Tile = NDArray[Any]
T = TypeVar("T")

_MOST_SQUARINGS = 6  # in float32 errors up to 2e-5; a tile that is computed has up to 8e-6


class TileKernel(Protocol):
    """Function that computes tiles: a `Kernel`, or any function of rows and landmarks like it."""

    @property
    def work_tiles(self) -> int:
        """How many scratch tiles `tile` needs."""
        ...

    def rows(self, x: NDArray[Any], dtype: DTypeLike) -> Matrix:
        """Prepare rows of data (b, d) for `tile`."""
        ...

    def tile(self, rows: Matrix, columns: Matrix, out: Tile, work: Tile) -> None:
        """Write the values (b, p) at prepared rows and landmarks into `out`."""
        ...


class Power(NamedTuple):
    """A tile that is another one squared some times."""

    k: int
    """The number of its kernel."""
    source: int
    """The number of the wider kernel."""
    squarings: int
    """1 or more."""

    def write(self, outs: Sequence[Tile]) -> None:
        """Fill the tile from the other one."""
        self.of(outs[self.source], outs[self.k])

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
    kernels : tuple of TileKernel
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

    kernels: tuple[TileKernel, ...]
    variables: tuple[int, ...]

    @cached_property
    def roots(self) -> tuple[int, ...]:
        """Numbers of the kernels whose tiles are computed by themselves, ascending."""
        powers = {power.k for power in self.powers}
        return tuple(k for k in range(len(self.kernels)) if k not in powers)

    @cached_property
    def places(self) -> dict[int, int]:
        """Where each of them is among `roots`."""
        return {k: place for place, k in enumerate(self.roots)}

    @cached_property
    def powers(self) -> tuple[Power, ...]:
        """The other kernels, each after the one that it follows from."""
        families = [(m, *family_of(k)) for m, k in zip(self.variables, self.kernels, strict=True)]
        return powers_among(self.kernels, _squarings, families)

    @cached_property
    def work_tiles(self) -> int:
        """How many scratch tiles `tiles` needs."""
        return max(self.kernels[k].work_tiles for k in self.roots)

    def width(self, dims: Sequence[int]) -> int:
        """Columns of all prepared arrays for variables of so many columns each."""
        return sum(
            kernel.width(dims[self.variables[k]])
            for k in self.roots
            if isinstance(kernel := self.kernels[k], Kernel)
        )

    def rows(self, values: Sequence[NDArray[Any]], dtype: DTypeLike) -> list[Matrix]:
        """Prepare rows (b, d_m) of every variable for `tiles`: an array for every root."""
        return [self.kernels[k].rows(values[self.variables[k]], dtype) for k in self.roots]

    def columns(self, values: Sequence[NDArray[Any]], dtype: DTypeLike) -> list[Matrix]:
        """Prepare landmarks (p, d_m) of every variable for `tiles`: an array for every root."""
        return [
            kernel.columns(values[self.variables[k]], dtype)
            for k in self.roots
            if isinstance(kernel := self.kernels[k], Kernel)
        ]

    def rows_and_columns(
        self,
        values: Sequence[NDArray[Any]],
        dtype: DTypeLike,
        needed: Container[int] | None = None,
    ) -> tuple[list[Matrix], list[Matrix]]:
        """Prepare rows as both arguments of `tiles`, where all are of kernels.

        Kernels that are not needed have arrays without columns.
        """
        kernels = ((k, self.kernels[k]) for k in self.roots)
        none = np.empty((len(values[0]), 0), dtype)
        both = [
            kernel.rows_and_columns(values[self.variables[k]], dtype)
            if needed is None or k in needed
            else (none, none)
            for k, kernel in kernels
            if isinstance(kernel, Kernel)
        ]
        return [rows for rows, _ in both], [columns for _, columns in both]

    def sources(self, wanted: Iterable[int]) -> frozenset[int]:
        """Some kernels, and those that their tiles follow from."""
        needed = set(wanted)
        # From the last to the first, since a source may follow from another one.
        for k, source, *_ in reversed(self.powers):
            if k in needed:
                needed.add(source)
        return frozenset(needed)

    def tiles(
        self,
        rows: Sequence[Matrix],
        columns: Sequence[Matrix],
        outs: Sequence[Tile],
        work: Tile,
        needed: Container[int] | None = None,
    ) -> None:
        """Write the tiles of the kernels that are needed.

        Parameters
        ----------
        rows, columns : sequence of ndarray, shapes (b, w_k) and (p, w_k)
            One for every root, from `rows` and `columns`, or slices of them along axis 0.
        outs : sequence of ndarray, shapes (b, p)
            All K of them. Overwritten, but for those that are not needed.
        work : ndarray, shape (work_tiles, b, p)
            Scratch, with the dtype of `outs`.
        needed : container of int, optional
            Kernels, with all that they follow from, as `sources` says; all where not given.
        """
        # Roots first, since the others are squares of them.
        for k, x, z in zip(self.roots, rows, columns, strict=True):
            if needed is None or k in needed:
                self.kernels[k].tile(x, z, outs[k], work)
        for power in self.powers:
            if needed is None or power.k in needed:
                power.write(outs)


def family_of(kernel: TileKernel) -> tuple[type[TileKernel], tuple[int, ...]]:
    """The class and the columns of a kernel, which kernels that are powers of it have, too."""
    return type(kernel), kernel.at if isinstance(kernel, OnColumns) else ()


def powers_among(
    tiles: Sequence[T], squarings: Callable[[T, T], int], families: Sequence[Hashable]
) -> tuple[Power, ...]:
    """Tiles that are powers of others, each after the one that it follows from.

    Parameters
    ----------
    tiles : sequence
        Whatever tells a tile.
    squarings : callable
        How often the second tile is to be squared to give the first; 0 if never.
    families : sequence of Hashable
        One for each tile; only tiles of one family may be powers of each other. To compare all
        pairs of tiles would take minutes for thousands of columns.

    Returns
    -------
    tuple of Power
    """
    alike: dict[Hashable, list[int]] = {}
    for k, family in enumerate(families):
        alike.setdefault(family, []).append(k)
    return tuple(
        Power(some[power.k], some[power.source], power.squarings)
        for some in alike.values()
        for power in _powers_in_family([tiles[k] for k in some], squarings)
    )


def _powers_in_family(tiles: Sequence[T], squarings: Callable[[T, T], int]) -> list[Power]:
    powers = []
    depths: dict[int, int] = {}
    all_wider = [
        {
            j: count
            for j, wide in enumerate(tiles)
            if j != k and (count := squarings(tile, wide)) > 0
        }
        for k, tile in enumerate(tiles)
    ]
    # Kernels with few wider ones come first, so that each finds those it may follow from.
    for k in sorted(range(len(tiles)), key=lambda k: len(all_wider[k])):
        wider = all_wider[k]
        # The nearest of the wider ones takes the fewest squarings, and loses the fewest digits.
        near = min((j for j in wider if j in depths), key=wider.__getitem__, default=None)
        depth = 0 if near is None else depths[near] + wider[near]
        # A chain that got too long begins anew, with a tile that is computed.
        depths[k] = depth if depth <= _MOST_SQUARINGS else 0
        if near is not None and depths[k] > 0:
            powers.append(Power(k, near, wider[near]))
    return powers


def _squarings(narrow: TileKernel, wide: TileKernel) -> int:
    """Squarings between kernels of a variable."""
    if isinstance(narrow, Kernel) and isinstance(wide, Kernel):
        return narrow.squarings(wide)
    return 0
