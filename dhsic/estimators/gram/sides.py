"""Both sides of statistics from Gram matrices, about means over a few rows, and their sums."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.groups import RowGroups
from dhsic.engine.reduction import GroupBlock, Pass
from dhsic.engine.session import Session
from dhsic.engine.tiles import Matrix, column_sums
from dhsic.estimators.gram.orders import RowOrders
from dhsic.estimators.resample import Orbit, TwoSided
from dhsic.kernels import Combinations
from dhsic.kernels.shared import SharedTiles
from dhsic.linalg import hadamard

Vector = NDArray[np.float64]
Indices = NDArray[np.intp]
Members = tuple[int, ...]

_PILOTS = 32  # rows whose mean is taken off: the squares of what is left grow by 1 in 16
_PILOT_ROWS = 1024  # whose kernels at the pilots are computed at a time


class CosetRows(NamedTuple):
    """Rows in the order of a coset, prepared for tiles."""

    places: Indices
    """Where they are among all rows in the order of their groups, those left over last."""
    rows: list[Matrix]
    """One array a kernel that is no power of another."""
    columns: list[Matrix]
    """The same as the other argument."""
    offsets: dict[Members, Matrix]
    """a of every side."""

    def part(self, start: int, stop: int) -> CosetRows:
        """Some of them."""
        at = slice(start, stop)
        return CosetRows(
            self.places[at],
            [x[at] for x in self.rows],
            [x[at] for x in self.columns],
            {side: values[at] for side, values in self.offsets.items()},
        )


RowPart = tuple[CosetRows, RowOrders]


@dataclass(frozen=True)
class GramSides:
    """Statistics of two Gram matrices A and B each, of products of kernels on one side.

    They are centred, so that A_ij stands for A_ij - a_i - a_j whatever a is. From means over a few
    rows a is such that no digits cancel. Without shifts only the first of two variables is taken
    about them, which is enough, so that the other's narrower kernels stay powers of wider ones.

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
    """

    combinations: Combinations
    pairs: tuple[TwoSided, ...]
    pilots: tuple[Vector, ...]
    orbit: Orbit
    dtype: np.dtype[Any]
    unbiased: bool

    @classmethod
    def of(
        cls,
        session: Session,
        combinations: Combinations,
        samples: Sequence[Vector],
        orbit: Orbit,
        *,
        unbiased: bool = False,
    ) -> Self:
        """For the joint independence of the variables of each combination.

        Pilots come from samples (s, d_m) of every variable.
        """
        pilots = tuple(sample[:_PILOTS] for sample in samples)
        pairs = tuple(map(TwoSided.of, combinations.chosen))
        return cls(combinations, pairs, pilots, orbit, session.dtype, unbiased)

    @property
    def joint(self) -> bool:
        """Whether cosets permute the variables of the left sides as well, but for the first."""
        # Of two variables joint independence is that of two sides.
        return len(self.pairs[0].left) > 1

    @cached_property
    def shared(self) -> SharedTiles:
        """How the tiles of the kernels come from each other."""
        return SharedTiles(self.combinations.kernels, self.combinations.variables)

    @cached_property
    def statistics(self) -> dict[TwoSided, int]:
        """Numbers of the statistics."""
        return {pair: c for c, pair in enumerate(self.pairs)}

    @cached_property
    def sides(self) -> tuple[Members, ...]:
        """The kernels whose product a side is, of all statistics, and each kernel by itself."""
        if not self.orbit.shifted:
            return tuple((k,) for k in range(len(self.combinations.kernels)))
        sides = ((left, (right,), *((k,) for k in left)) for left, right in self.pairs)
        return tuple(dict.fromkeys(side for some in sides for side in some))

    def about_pilots(self, side: Members) -> bool:
        """Whether means over a few rows are taken off a side."""
        first = len(self.pilots) == 2 and self.combinations.variables[side[0]] == 0
        return self.orbit.shifted or first

    @cached_property
    def moved(self) -> tuple[Members, ...]:
        """Those that cosets permute."""
        rights = [(right,) for _, right in self.pairs]
        lefts = [left for left, _ in self.pairs if self.joint and len(left) > 1]
        return tuple(dict.fromkeys([*rights, *lefts]))

    @cached_property
    def numbers(self) -> dict[tuple[int, Members], int]:
        """Numbers of the Gram matrices whose row sums are kept, Q of them, by coset and side.

        A coset permutes the row sums of one kernel, but it makes another matrix of a product.
        """
        plain = [(0, side) for side in self.sides]
        products = [side for side in self.moved if len(side) > 1 and self.orbit.shifted]
        moved = [(coset, side) for coset in range(1, self.orbit.cosets) for side in products]
        return {key: number for number, key in enumerate([*plain, *moved])}

    @property
    def n_ordered(self) -> int:
        """Sides in every order in which they are computed."""
        return len(self.sides) + (self._n_orders - 1) * len(self.moved)

    @property
    def _n_orders(self) -> int:
        """Orders of the rows in which kernels are computed."""
        return self.orbit.cosets if self.orbit.shifted else 1

    def of_coset(self, coset: int) -> tuple[Members, ...]:
        """The sides that are computed in the order of a coset."""
        return self.moved if coset else self.sides

    def needed(self, coset: int) -> frozenset[int]:
        """The kernels of these, and those that they are powers of."""
        return self._needed[min(coset, 1)]

    @cached_property
    def _needed(self) -> list[frozenset[int]]:
        """In the order of the data, and in any other."""
        sides = self.sides, self.moved
        return [self.shared.sources(k for side in some for k in side) for some in sides]

    def roots(self, coset: int) -> list[tuple[int, int]]:
        """Those of them that are no powers, each with its place among all such kernels."""
        return self._roots[min(coset, 1)]

    @cached_property
    def _roots(self) -> list[list[tuple[int, int]]]:
        """In the order of the data, and in any other."""
        places = self.shared.places
        return [sorted((places[k], k) for k in needed if k in places) for needed in self._needed]

    def of_statistics(self, numbers: Sequence[int]) -> Self:
        """Those of some of the statistics; kernels keep their numbers and places."""
        part = replace(self, pairs=tuple(self.pairs[c] for c in numbers))
        # Found once for all kernels, of which there may be thousands.
        part.__dict__["shared"] = self.shared
        return part

    @property
    def dims(self) -> list[int]:
        """Columns of every variable."""
        return [pilots.shape[1] for pilots in self.pilots]

    def widths(self, coset: int) -> dict[int, int]:
        """Columns of the prepared arrays of every root that a coset needs."""
        kernels, dims = self.combinations.kernels, self.combinations.spread(self.dims)
        return {k: kernels[k].width(dims[k]) for _, k in self.roots(coset)}

    @property
    def pilot_columns(self) -> list[Matrix]:
        """The pilots, prepared for tiles."""
        return self._prepared_pilots[1]

    @cached_property
    def _prepared_pilots(self) -> tuple[list[Matrix], list[Matrix]]:
        """As rows and as columns."""
        return self.shared.rows_and_columns(self.pilots, self.dtype)

    @cached_property
    def centres(self) -> dict[Members, float]:
        """Half the mean of every side over pairs of different pilots."""
        tiles = self._tiles(*self._prepared_pilots, 0)
        pairs = max(len(tiles[0]) * (len(tiles[0]) - 1), 1)
        centres = {}
        for side in filter(self.about_pilots, self.sides):
            product = _product_of(tiles, side).astype(np.float64)
            # Over pairs of different rows, since k(x, x) is no typical value of a narrow kernel.
            centres[side] = 0.5 * float(product.sum() - product.trace()) / pairs
        return centres

    def prepare(self, block: GroupBlock, coset: int) -> CosetRows:
        """The rows of a block in the order of a coset."""
        rows = self.prepare_plain(block, coset)
        centred = [side for side in rows.offsets if self.about_pilots(side)]
        for start in range(0, block.rows if centred else 0, _PILOT_ROWS):
            at = slice(start, start + _PILOT_ROWS)
            tiles = self._tiles([x[at] for x in rows.rows], self.pilot_columns, coset)
            for side in centred:
                means = _product_of(tiles, side).mean(axis=1, dtype=np.float64)
                rows.offsets[side][at] = means - self.centres[side]
        return rows

    def prepare_plain(self, block: GroupBlock, coset: int) -> CosetRows:
        """The same about 0."""
        orders = RowOrders.of(self.orbit, block)
        values = [x[orders.of_variable(coset, m)] for m, x in enumerate(block.values)]
        both = self.shared.rows_and_columns(values, self.dtype, self.needed(coset))
        offsets = {side: np.zeros(block.rows, self.dtype) for side in self.of_coset(coset)}
        return CosetRows(self._places(block), *both, offsets)

    def pieces(self, block: GroupBlock) -> list[RowPart]:
        """The rows of every group, and those left over, with their permutations."""
        rows, orders = self.prepare(block, 0), RowOrders.of(self.orbit, block)
        return [
            (rows.part(at.start, at.stop), orders_of_piece)
            for at, orders_of_piece in orders.pieces()
        ]

    def part_pairs(self, left: GroupBlock, right: GroupBlock) -> Iterator[tuple[RowPart, RowPart]]:
        """Those of two blocks, or of one; each pair once."""
        first = self.pieces(left)
        if left.first != right.first:
            return itertools.product(first, self.pieces(right))
        return itertools.combinations_with_replacement(first, 2)

    def plain_bytes(self, rows: int, piece: int) -> int:
        """Bytes of `grams` for pieces of blocks of so many rows."""
        prepared, work = self.prepared_entries(rows)
        tiles = len(self.combinations.kernels) + self.shared.work_tiles + (len(self.pilots) > 2)
        return self.dtype.itemsize * (2 * prepared + tiles * piece**2) + 8 * work

    def grams(self, first: CosetRows, second: CosetRows) -> dict[Members, Matrix]:
        """Gram matrices of all sides, of rows as they are and of every pair of them."""
        tiles, grams = self._tiles(first.rows, second.columns, 0), {}
        for side in sorted(self.sides, key=len, reverse=True):  # products of kernels as they are
            grams[side] = _product_of(tiles, side)
            if self.about_pilots(side):
                grams[side] -= first.offsets[side][:, None]
                grams[side] -= second.offsets[side]
            # A U-statistic leaves out the pair of a row with itself.
            if self.unbiased and first is second:
                np.fill_diagonal(grams[side], 0.0)
        return grams

    def add(
        self, sums: PairSums, grams: dict[Members, Matrix], first: CosetRows, second: CosetRows
    ) -> Vector:
        """Add what such matrices sum to; return the sums of their products, shape (C,)."""
        # A tile of two pieces stands for its transpose, too.
        weight = 1.0 if first is second else 2.0
        for (_, side), number in self.numbers.items():
            gram = grams[side]
            # In double precision, since HSIC is a difference of such sums.
            sums.rows[number, first.places] += gram.sum(axis=1, dtype=np.float64)
            if first is second:
                sums.diagonal[number, first.places] = gram.diagonal()
            else:
                # The rows of the second piece have their sums in the transposed tile.
                sums.rows[number, second.places] += column_sums(gram)
            sums.squares[number] += weight * float(np.vdot(gram, gram))
        joint = []
        for left, right in self.pairs:
            parts = [grams[left]] if left in grams else [grams[k,] for k in left]
            # The product is written into a copy of the first.
            whole = parts[0] if len(parts) == 1 else hadamard([parts[0].copy(), *parts[1:]])
            # In float64, and without an array for the product.
            joint.append(np.einsum("ij,ij->", whole, grams[right,], dtype=np.float64))
        return weight * np.array(joint)

    def add_offsets(self, sums: PairSums, rows: CosetRows, coset: int) -> None:
        """Keep those of rows in the order of a coset."""
        for side, values in rows.offsets.items():
            if (number := self.numbers.get((coset, side))) is not None:
                sums.offsets[number, rows.places] = values

    def prepared_entries(self, rows: int) -> tuple[int, int]:
        """Entries of what is prepared of so many rows in all orders, and of what that takes."""
        kernels = len(self.combinations.kernels)
        orders = self._n_orders
        tiles = (kernels + self.shared.work_tiles) * min(rows, _PILOT_ROWS) * len(self.pilots[0])
        width, moved = (sum(self.widths(coset).values()) for coset in (0, 1))
        work = tiles + rows * (4 * sum(self.dims) + 3 * width)
        return rows * (2 * (width + (orders - 1) * moved) + self.n_ordered), work

    def _tiles(self, rows: Sequence[Matrix], columns: Sequence[Matrix], coset: int) -> list[Matrix]:
        """Kernels between prepared rows and columns; of those that a coset needs."""
        shape = len(rows[0]), len(columns[0])
        tiles = list(np.empty((len(self.combinations.kernels), *shape), self.dtype))
        work = np.empty((self.shared.work_tiles, *shape), self.dtype)
        self.shared.tiles(rows, columns, tiles, work, self.needed(coset))
        return tiles

    def _places(self, block: GroupBlock) -> Indices:
        """Where the rows of a block are among all rows in the order of their groups."""
        groups, b = block.groups, block.groups.size
        left = np.arange(groups.n_left)[groups.left_of(block.first, block.first + block.n_groups)]
        grouped = block.first * b + np.arange(block.n_groups * b)
        return np.concatenate([grouped, groups.count * b + left])


@dataclass(frozen=True)
class GramPass(Pass[Any]):
    """A pass over pairs of groups of rows, which adds sums up.

    Parameters
    ----------
    sides : GramSides
        The statistics.
    """

    pairs: ClassVar[bool] = True

    sides: GramSides

    @property
    def groups(self) -> RowGroups:
        """The groups of all rows."""
        return self.sides.orbit.groups

    @property
    def one_block(self) -> bool:
        """Whether one task takes all rows."""
        return self.groups.count == 1


class PairSums(NamedTuple):
    """Sums over pairs of rows for C statistics under R cosets, and of Q Gram matrices.

    Those are about their pilots, A_ij - a_i - a_j, of rows in the order of their groups and then
    those left over.
    """

    products: NDArray[Any]
    """Cross-spectra of all lines, shape (R, C, F); without shifts the sums, F = 1."""
    constants: Vector
    """Sums over pairs of rows that stay where they are, shape (C,)."""
    rows: Vector
    """Sums of the rows, shape (Q, n)."""
    offsets: Vector
    """a, shape (Q, n)."""
    diagonal: Vector
    """A_ii - 2 a_i, shape (Q, n)."""
    squares: Vector
    """Sums of the squared entries, shape (Q,)."""

    @classmethod
    def zeros(cls, sides: GramSides, frequencies: int) -> PairSums:
        """Nothing summed yet."""
        q, c, n = len(sides.numbers), len(sides.pairs), sides.orbit.groups.n
        kind = complex if sides.orbit.shifted else float
        products = np.zeros((sides.orbit.cosets, c, frequencies), kind)
        rows, offsets, diagonal = np.zeros((3, q, n))
        return cls(products, np.zeros(c), rows, offsets, diagonal, np.zeros(q))

    @staticmethod
    def nbytes_of(sides: GramSides, frequencies: int) -> int:
        """Bytes of such sums."""
        q, c, n = len(sides.numbers), len(sides.pairs), sides.orbit.groups.n
        size = 16 if sides.orbit.shifted else 8
        return size * sides.orbit.cosets * c * frequencies + 8 * (c + q * (3 * n + 1))


def _product_of(tiles: Sequence[Matrix], side: Members) -> Matrix:
    """The product of the kernels of a side."""
    if len(side) == 1:
        return tiles[side[0]]
    return hadamard([tiles[side[0]].copy(), *(tiles[k] for k in side[1:])])
