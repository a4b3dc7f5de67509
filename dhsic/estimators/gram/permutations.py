"""Statistics from Gram matrices whose rows are permuted: tiles are computed once and gathered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.reduction import Footprint, GroupBlock
from dhsic.engine.tiles import Matrix
from dhsic.estimators.gram.orders import RowOrders
from dhsic.estimators.gram.sides import GramPass, PairSums, RowPart
from dhsic.kernels import Combinations
from dhsic.kernels.shared import Power, SharedTiles
from dhsic.linalg import hadamard

Vector = NDArray[np.float64]

BATCH = 64  # permutations that are drawn and held at a time

_STRIP = 2**15  # entries of a strip: those of all kernels stay in the cache
_CHUNK = 2**17  # products of a matrix product: of longer ones the BLAS is several times slower


@dataclass(frozen=True)
class PermutedProducts:
    """Which Gram matrices are multiplied, the first variable's as it is and the others permuted.

    Every permuted matrix is gathered once a replicate, or is the power of one that is. The product
    of those of a combination is its tail; first kernels and tails meet in a matrix product.

    Parameters
    ----------
    variables : tuple of int
        The number of the variable that each of K kernels is for, shape (K,), ascending.
    chosen : tuple of tuple of int
        G combinations, each the numbers of M kernels in the order of the variables.
    powers : tuple of Power, optional
        Which matrices of the permuted variables are powers of others.
    """

    variables: tuple[int, ...]
    chosen: tuple[tuple[int, ...], ...]
    powers: tuple[Power, ...] = ()

    @classmethod
    def of(cls, combinations: Combinations) -> Self:
        """From combinations of fitted kernels."""
        variables = combinations.variables
        powers = SharedTiles(combinations.kernels, variables).powers
        # Kernels of the first variable stay where they are, and their powers with them.
        permuted = tuple(power for power in powers if variables[power.k] > 0)
        return cls(variables, combinations.chosen, permuted)

    @property
    def n_variables(self) -> int:
        """Number of variables, M."""
        return len(self.chosen[0])

    @property
    def n_firsts(self) -> int:
        """Kernels of the first variable."""
        return self.variables.count(0)

    @cached_property
    def gathered(self) -> tuple[int, ...]:
        """Kernels of the permuted variables whose matrices are no powers, ascending."""
        powers = {power.k for power in self.powers}
        others = range(self.n_firsts, len(self.variables))
        return tuple(k for k in others if k not in powers)

    @cached_property
    def tails(self) -> tuple[tuple[int, ...], ...]:
        """Kernels of all variables but the first that combinations have."""
        if self.n_variables == 2:
            return tuple((k,) for k in range(self.n_firsts, len(self.variables)))
        return tuple(dict.fromkeys(combination[1:] for combination in self.chosen))

    def scratch_entries(self, rows: int, columns: int) -> int:
        """Entries that `add_strip` holds besides what it is given."""
        own_tails = len(self.tails) if self.n_variables > 2 else 0
        tiles = 1 + len(self.variables) + own_tails
        return tiles * min(rows, _strip_rows(columns)) * columns

    def zeros(self, replicates: int) -> Vector:
        """Sums of nothing yet, of all tails and first kernels, shape (r, T, K_1)."""
        return np.zeros((replicates, len(self.tails), self.n_firsts))

    def add_strip(
        self,
        sums: Vector,
        firsts: Matrix,
        others: Sequence[Matrix],
        rows: NDArray[np.intp],
        columns: NDArray[np.intp],
    ) -> None:
        """Add the sums of the products of Gram matrices, of all tails and first kernels.

        Parameters
        ----------
        sums : ndarray, shape (r, T, K_1)
            Is added to.
        firsts : ndarray, shape (K_1, b, c)
            The variable that stays, by every kernel.
        others : sequence of ndarray
            From which rows and columns are taken, by the kernels `gathered`.
        rows, columns : ndarray of int, shapes (r, M - 1, b) and (r, M - 1, c)
            One replicate a row.
        """
        by_row = np.empty((firsts.shape[1], others[0].shape[1]), firsts.dtype)
        moved = np.empty((len(self.variables) - len(firsts), *firsts.shape[1:]), firsts.dtype)
        tiles = [*firsts, *moved]
        for total, row, column in zip(sums, rows, columns, strict=True):
            for k, gram in zip(self.gathered, others, strict=True):
                m = self.variables[k] - 1
                # With "clip" it writes into the array at once; all orders are within bounds.
                np.take(gram, row[m], axis=0, out=by_row, mode="clip")
                np.take(by_row, column[m], axis=1, out=tiles[k], mode="clip")
            # A power of what was moved is the power moved, and squaring takes less than gathering.
            for power in self.powers:
                power.write(tiles)
            _add_inner_products(self._multiplied(moved), firsts, total)

    def mixed_sums(self, values: Vector, orders: NDArray[np.intp]) -> Vector:
        """sum_i prod_m of values of rows, as permuted, of every combination.

        Parameters
        ----------
        values : ndarray, shape (K, b)
            One for every row, by every kernel.
        orders : ndarray of int, shape (r, M - 1, b)
            The permutations of all variables but the first.

        Returns
        -------
        ndarray, shape (r, G)
        """
        sums = self.zeros(len(orders))
        for number, tail in enumerate(self.tails):
            moved = [values[k][orders[:, self.variables[k] - 1]] for k in tail]
            sums[:, number] = hadamard(moved) @ values[: self.n_firsts].T
        return self.of_combinations(sums)

    def of_combinations(self, sums: Vector) -> Vector:
        """From the sums of all tails and first kernels (r, T, K_1) those that are wanted."""
        tails, firsts = self._tails_and_firsts
        return sums[:, tails, firsts]

    @cached_property
    def _tails_and_firsts(self) -> tuple[list[int], list[int]]:
        """The tail and the first kernel of every combination."""
        tails = {tail: number for number, tail in enumerate(self.tails)}
        return [tails[combination[1:]] for combination in self.chosen], [
            combination[0] for combination in self.chosen
        ]

    def _multiplied(self, moved: Matrix) -> Matrix:
        """The product of every tail, shape (T, b, c)."""
        if self.n_variables == 2:
            return moved
        products = np.empty((len(self.tails), *moved.shape[1:]), moved.dtype)
        for (first, second, *rest), out in zip(self.tails, products, strict=True):
            np.multiply(moved[first - self.n_firsts], moved[second - self.n_firsts], out=out)
            for k in rest:
                out *= moved[k - self.n_firsts]
        return products


@dataclass(frozen=True)
class PermutedGrams:
    """Sums of the products of two pieces of Gram matrices under permutations of their rows.

    Parameters
    ----------
    products : PermutedProducts
        The matrices that are multiplied.
    firsts : tuple of ndarray, shapes (b, c)
        The first variable's, by every kernel.
    others : tuple of ndarray, shapes (b, c)
        The permuted variables', by the kernels that are gathered.
    rows : RowOrders
        The permutations of the rows.
    columns : RowOrders or None
        Those of the columns, or None where these are the rows. The matrices are symmetric then, and
        the entries of `firsts` off the diagonal are taken once and count twice.
    """

    products: PermutedProducts
    firsts: tuple[Matrix, ...]
    others: tuple[Matrix, ...]
    rows: RowOrders
    columns: RowOrders | None = None

    @classmethod
    def of(
        cls,
        products: PermutedProducts,
        grams: Sequence[Matrix],
        rows: RowOrders,
        columns: RowOrders | None = None,
    ) -> Self:
        """From Gram matrices of K kernels; those of the first variable are overwritten."""
        firsts = tuple(grams[: products.n_firsts])
        # Both matrices are symmetric and permuted alike on both sides: half of the entries, twice.
        for first in firsts if columns is None else []:
            _fold(first)
        return cls(products, firsts, tuple(grams[k] for k in products.gathered), rows, columns)

    def __call__(self, replicates: range) -> Vector:
        """The sums under some permutations after the first, the identity; shape (r, G)."""
        # Number 0 is the identity, and so the data.
        cosets = range(replicates.start + 1, replicates.stop + 1)
        return np.concatenate([self._drawn(batch) for batch in batches(cosets)])

    def _drawn(self, cosets: range) -> Vector:
        """The same of few enough cosets to hold their permutations."""
        rows = self.rows.drawn(cosets)
        columns = rows if self.columns is None else self.columns.drawn(cosets)
        sums = self.products.zeros(len(cosets))
        step = _strip_rows(columns.shape[2])
        for start in range(0, rows.shape[2], step):
            at, on = slice(start, start + step), slice(start if self.columns is None else 0, None)
            strip = np.stack([first[at, on] for first in self.firsts])
            self.products.add_strip(sums, strip, self.others, rows[:, :, at], columns[:, :, on])
        return self.products.of_combinations(sums)


@dataclass(frozen=True)
class PermutedGramPass(GramPass):
    """All sums of `PairSums` without shifts, in one pass over pairs of groups of rows.

    A pair of groups holds its own permutations, so every Gram tile is computed once and gathered
    for each coset.

    Parameters
    ----------
    sides : GramSides
        The statistics.
    """

    frequencies: int = 1

    @property
    def name(self) -> str:
        """Sums of the data alone, or of their permutations too."""
        return "permutation null" if self.sides.orbit.cosets > 1 else "Gram sums"

    @cached_property
    def products(self) -> PermutedProducts:
        """The combinations."""
        return PermutedProducts.of(self.sides.combinations)

    def footprint(self, rows: int) -> Footprint:
        """Cost of a pair of blocks of so many rows."""
        sides, b = self.sides, self.groups.size
        return Footprint(
            payload=sum(pilots.nbytes for pilots in sides.pilots),
            scratch=sides.plain_bytes(rows, b) + self.permuting_bytes(b),
            state=PairSums.nbytes_of(sides, 1),
        )

    def permuting_bytes(self, rows: int) -> int:
        """Bytes that a task takes to permute two pieces of so many rows."""
        count = min(BATCH, self.sides.orbit.cosets - 1)
        entries = self.products.scratch_entries(rows, rows) if count else 0
        orders = 2 * 8 * 2 * count * (self.products.n_variables - 1) * rows
        return self.sides.dtype.itemsize * entries + orders

    def chunk(self, left: GroupBlock, right: GroupBlock) -> PairSums:
        """Sums over one pair of blocks and its transpose."""
        sums = PairSums.zeros(self.sides, 1)
        for first, other in self.sides.part_pairs(left, right):
            grams = self.add_plain(sums, first, other)
            if self.sides.orbit.cosets > 1:
                # A pair of different groups stands for its mirror image, too.
                weight = 1.0 if first is other else 2.0
                every = range(self.sides.orbit.cosets - 1)
                sums.products[1:, :, 0] += weight * self.permuted(grams, first, other)(every)
        return sums

    def add_plain(self, sums: PairSums, piece: RowPart, other: RowPart) -> list[Matrix]:
        """Add what two pieces of rows sum to as they are; return the matrices of all kernels."""
        (first, _), (second, _) = piece, other
        grams = self.sides.grams(first, second)
        sums.products[0, :, 0] += self.sides.add(sums, grams, first, second)
        if piece is other:
            self.sides.add_offsets(sums, first, 0)
        return [grams[k,] for k in range(len(self.sides.combinations.kernels))]

    def permuted(self, grams: Sequence[Matrix], piece: RowPart, other: RowPart) -> PermutedGrams:
        """The sums of these matrices under permutations, to be taken."""
        columns = None if piece is other else other[1]
        return PermutedGrams.of(self.products, grams, piece[1], columns)


def batches(cosets: range) -> list[range]:
    """As many permutations at a time as are held."""
    return [cosets[start : start + BATCH] for start in range(0, len(cosets), BATCH)]


def _strip_rows(columns: int) -> int:
    """Rows of a strip of so many columns."""
    return max(8, _STRIP // columns)


def _fold(gram: Matrix) -> None:
    """Double the entries above the diagonal and zero those below it, as far as strips hold any."""
    step = _strip_rows(len(gram))
    for start in range(0, len(gram), step):
        strip = gram[start : start + step, start:]
        diagonal = strip.diagonal().copy()
        # What is above the diagonal counts twice, and what is below it not at all.
        strip[...] = np.triu(strip, 1)
        strip *= 2
        np.fill_diagonal(strip, diagonal)


def _add_inner_products(left: Matrix, right: Matrix, sums: Vector) -> None:
    """Add sum_ij of left (T, b, c) times right (K, b, c) to sums (T, K)."""
    left, right = left.reshape(len(left), -1), right.reshape(len(right), -1)
    step = _CHUNK // sums.size
    for start in range(0, left.shape[1], step):
        at = slice(start, start + step)
        sums += left[:, at] @ right[:, at].T
