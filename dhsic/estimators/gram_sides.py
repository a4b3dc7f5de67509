"""Both sides of statistics from Gram matrices, about means over a few rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.reduction import GroupBlock
from dhsic.engine.tiles import Matrix
from dhsic.estimators.resample import Orbit, TwoSided
from dhsic.kernels import Combinations
from dhsic.kernels.shared import SharedTiles
from dhsic.linalg import hadamard

__all__ = ["GramSides", "Rows", "Side", "product_of"]

Vector = NDArray[np.float64]
Indices = NDArray[np.intp]
Side = tuple[int, ...]

_PILOTS = 32  # rows whose mean is taken off: the squares of what is left grow by 1 in 16
_PILOT_ROWS = 1024  # whose kernels at the pilots are computed at a time


class Rows(NamedTuple):
    """Rows in the order of a coset, prepared for tiles."""

    places: Indices
    """Where they are among all rows in the order of their groups, those left over last."""
    rows: list[Matrix]
    """One array a kernel that is no power of another."""
    columns: list[Matrix]
    """The same as the other argument."""
    offsets: dict[Side, Matrix]
    """a of every side."""

    def part(self, start: int, stop: int) -> Rows:
        """Some of them."""
        at = slice(start, stop)
        return Rows(
            self.places[at],
            [x[at] for x in self.rows],
            [x[at] for x in self.columns],
            {side: values[at] for side, values in self.offsets.items()},
        )


@dataclass(frozen=True)
class GramSides:
    """Statistics of two Gram matrices A and B each, of products of kernels on one side.

    They are centred, so that A_ij stands for A_ij - a_i - a_j whatever a is. From means over a few
    rows a is such that no digits cancel.

    Parameters
    ----------
    combinations : Combinations
        With the fitted kernels.
    pairs : tuple of TwoSided
        The statistics, C of them.
    pilots : tuple of ndarray, shapes (p, d_m)
        Rows of every variable, drawn independently of the others'.
    orbit : Orbit
        The permutations.
    dtype : dtype
        Precision of the tiles.
    unbiased : bool
        Diagonals count as zero.
    joint : bool
        Cosets permute the variables of the left sides as well, but for the first.
    """

    combinations: Combinations
    pairs: tuple[TwoSided, ...]
    pilots: tuple[Vector, ...]
    orbit: Orbit
    dtype: np.dtype[Any]
    unbiased: bool
    joint: bool

    @classmethod
    def of(
        cls,
        combinations: Combinations,
        pairs: Sequence[TwoSided],
        samples: Sequence[Vector],
        orbit: Orbit,
        dtype: np.dtype[Any],
        *,
        unbiased: bool,
        joint: bool,
    ) -> Self:
        """With pilots from samples (s, d_m) of every variable."""
        pilots = tuple(sample[:_PILOTS] for sample in samples)
        return cls(combinations, tuple(pairs), pilots, orbit, dtype, unbiased, joint)

    @cached_property
    def shared(self) -> SharedTiles:
        """How the tiles of the kernels come from each other."""
        return SharedTiles(self.combinations.kernels, self.combinations.variables)

    @cached_property
    def sides(self) -> tuple[Side, ...]:
        """The kernels whose product a side is, of all statistics, and each kernel by itself."""
        sides = ((left, (right,), *((k,) for k in left)) for left, right in self.pairs)
        return tuple(dict.fromkeys(side for some in sides for side in some))

    @cached_property
    def moved(self) -> tuple[Side, ...]:
        """Those that cosets permute."""
        rights = [(right,) for _, right in self.pairs]
        lefts = [left for left, _ in self.pairs if self.joint and len(left) > 1]
        return tuple(dict.fromkeys([*rights, *lefts]))

    @cached_property
    def numbers(self) -> dict[tuple[int, Side], int]:
        """Numbers of the Gram matrices whose row sums are kept, Q of them, by coset and side.

        A coset permutes the row sums of one kernel, but it makes another matrix of a product.
        """
        own = [(0, side) for side in self.sides]
        products = [side for side in self.moved if len(side) > 1]
        moved = [(coset, side) for coset in range(1, self.orbit.cosets) for side in products]
        return {key: number for number, key in enumerate([*own, *moved])}

    def of_coset(self, coset: int) -> tuple[Side, ...]:
        """The sides that are computed in the order of a coset."""
        return self.moved if coset else self.sides

    def needed(self, coset: int) -> frozenset[int]:
        """The kernels of these, and those that they are powers of."""
        return self._needed[min(coset, 1)]

    def roots(self, coset: int) -> list[tuple[int, int]]:
        """Those of them that are no powers, each with its place among all such kernels."""
        return self._roots[min(coset, 1)]

    @cached_property
    def _needed(self) -> list[frozenset[int]]:
        """In the order of the data, and in any other."""
        sides = self.sides, self.moved
        return [self.shared.sources(k for side in some for k in side) for some in sides]

    @cached_property
    def _roots(self) -> list[list[tuple[int, int]]]:
        places = list(enumerate(self.shared.roots))
        return [[(place, k) for place, k in places if k in needed] for needed in self._needed]

    @property
    def dims(self) -> list[int]:
        """Columns of every variable."""
        return [pilots.shape[1] for pilots in self.pilots]

    def width(self, coset: int) -> int:
        """Columns of all prepared arrays that a coset needs."""
        kernels, dims = self.combinations.kernels, self.combinations.spread(self.dims)
        return sum(kernels[k].width(dims[k]) for _, k in self.roots(coset))

    @cached_property
    def pilot_columns(self) -> list[Matrix]:
        """The pilots, prepared for tiles."""
        return self.shared.columns(self.pilots, self.dtype)

    @cached_property
    def centres(self) -> dict[Side, float]:
        """Half the mean of every side over pairs of different pilots."""
        tiles = self._pilot_tiles(self.shared.rows(self.pilots, self.dtype), 0)
        pairs = max(len(tiles[0]) * (len(tiles[0]) - 1), 1)
        centres = {}
        for side in self.sides:
            product = product_of(tiles, side).astype(np.float64)
            centres[side] = 0.5 * float(product.sum() - product.trace()) / pairs
        return centres

    def prepare(self, block: GroupBlock, coset: int) -> Rows:
        """The rows of a block in the order of a coset."""
        values = [self._in_order(x, block, coset, m) for m, x in enumerate(block.values)]
        rows, columns = (f(values, self.dtype) for f in (self.shared.rows, self.shared.columns))
        offsets = {side: np.empty(block.rows, self.dtype) for side in self.of_coset(coset)}
        for start in range(0, block.rows, _PILOT_ROWS):
            at = slice(start, start + _PILOT_ROWS)
            tiles = self._pilot_tiles([x[at] for x in rows], coset)
            for side, own in offsets.items():
                means = product_of(tiles, side).mean(axis=1, dtype=np.float64)
                own[at] = means - self.centres[side]
        return Rows(self._places(block), rows, columns, offsets)

    def prepared_entries(self, rows: int) -> tuple[int, int]:
        """Entries of what is prepared of so many rows in all orders, and of what that takes."""
        cosets, kernels = self.orbit.cosets, len(self.combinations.kernels)
        sides = len(self.sides) + (cosets - 1) * len(self.moved)
        tiles = (kernels + self.shared.work_tiles) * min(rows, _PILOT_ROWS) * len(self.pilots[0])
        work = tiles + rows * (4 * sum(self.dims) + 3 * self.width(0))
        return rows * (2 * self.width(0) * cosets + sides), work

    def _pilot_tiles(self, rows: Sequence[Matrix], coset: int) -> list[Matrix]:
        """Kernels between prepared rows and the pilots; of those that a coset needs."""
        shape = len(rows[0]), len(self.pilots[0])
        tiles = list(np.empty((len(self.combinations.kernels), *shape), self.dtype))
        work = np.empty((self.shared.work_tiles, *shape), self.dtype)
        self.shared.tiles(rows, self.pilot_columns, tiles, work, self.needed(coset))
        return tiles

    def _in_order(self, values: Matrix, block: GroupBlock, coset: int, m: int) -> Matrix:
        """Rows of variable m, permuted within groups but for those left over."""
        if coset == 0 or m == 0:
            return values
        orders = self.orbit.orders(coset, block.first, block.n_groups, m)
        starts = self.orbit.groups.size * np.arange(block.n_groups)
        order = (orders + starts[:, None]).ravel()
        return np.concatenate([values[order], values[len(order) :]])

    def _places(self, block: GroupBlock) -> Indices:
        """Where the rows of a block are among all rows in the order of their groups."""
        groups, b = block.groups, block.groups.size
        ranges = groups.ranges(block.first, block.first + block.n_groups)
        left = [np.arange(*np.searchsorted(groups.left, one)) for one in ranges]
        grouped = block.first * b + np.arange(block.n_groups * b)
        return np.concatenate([grouped, *(groups.count * b + one for one in left)])


def product_of(tiles: Sequence[Matrix], side: Side) -> Matrix:
    """The product of the kernels of a side."""
    if len(side) == 1:
        return tiles[side[0]]
    return hadamard([tiles[side[0]].copy(), *(tiles[k] for k in side[1:])])
