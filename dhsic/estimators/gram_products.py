"""Products of Gram matrices of permuted rows, summed for many combinations of kernels at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.tiles import Matrix
from dhsic.kernels import Combinations
from dhsic.kernels.shared import Power, SharedTiles
from dhsic.linalg import hadamard

__all__ = ["PermutedProducts"]

Vector = NDArray[np.float64]

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
        """Of combinations of fitted kernels."""
        variables = combinations.variables
        powers = SharedTiles(combinations.kernels, variables).powers
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
        return tuple(dict.fromkeys(one[1:] for one in self.chosen))

    def scratch_entries(self, rows: int, columns: int) -> int:
        """Entries that `sums` holds besides what it is given."""
        own_tails = len(self.tails) if self.n_variables > 2 else 0
        tiles = 1 + len(self.variables) + own_tails
        return tiles * min(rows, _strip_rows(columns)) * columns

    def sums(
        self,
        firsts: Sequence[Matrix],
        others: Sequence[Matrix],
        rows: NDArray[np.intp],
        columns: NDArray[np.intp],
    ) -> Vector:
        """Sums of the product of the Gram matrices of every combination.

        Parameters
        ----------
        firsts : sequence of ndarray, shapes (b, c)
            Of the variable that stays, by every kernel.
        others : sequence of ndarray
            From which rows and columns are taken, by the kernels `gathered`.
        rows, columns : ndarray of int, shapes (r, M - 1, b) and (r, M - 1, c)
            One replicate a row.

        Returns
        -------
        ndarray, shape (r, G)
        """
        (b, c), dtype = firsts[0].shape, firsts[0].dtype
        sums = np.zeros((len(rows), len(self.tails), len(firsts)))
        step = _strip_rows(c)
        for start in range(0, b, step):
            at = slice(start, start + step)
            strip = np.stack([first[at] for first in firsts])
            by_row = np.empty((strip.shape[1], others[0].shape[1]), dtype)
            moved = np.empty((len(self.variables) - len(firsts), *strip.shape[1:]), dtype)
            tiles = [*strip, *moved]
            for replicate, (row, column) in enumerate(zip(rows[:, :, at], columns, strict=True)):
                for k, gram in zip(self.gathered, others, strict=True):
                    m = self.variables[k] - 1
                    np.take(gram, row[m], axis=0, out=by_row, mode="clip")
                    np.take(by_row, column[m], axis=1, out=tiles[k], mode="clip")
                for power in self.powers:
                    power.write(tiles)
                _add_inner_products(self._multiplied(moved), strip, sums[replicate])
        return self._of_combinations(sums)

    def mixed_sums(self, means: Vector, orders: NDArray[np.intp]) -> Vector:
        """sum_i prod_m of the row means of every combination.

        Parameters
        ----------
        means : ndarray, shape (K, b)
            Row means of the Gram matrices.
        orders : ndarray of int, shape (r, M - 1, b)
            The permutations of all variables but the first.

        Returns
        -------
        ndarray, shape (r, G)
        """
        firsts = means[: self.n_firsts]
        sums = np.empty((len(orders), len(self.tails), len(firsts)))
        for number, tail in enumerate(self.tails):
            moved = [means[k][orders[:, self.variables[k] - 1]] for k in tail]
            sums[:, number] = hadamard(moved) @ firsts.T
        return self._of_combinations(sums)

    @cached_property
    def _tails_and_firsts(self) -> tuple[list[int], list[int]]:
        """The tail and the first kernel of every combination."""
        tails = {tail: number for number, tail in enumerate(self.tails)}
        return [tails[one[1:]] for one in self.chosen], [one[0] for one in self.chosen]

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

    def _of_combinations(self, sums: Vector) -> Vector:
        """From the sums of all tails and first kernels (r, T, K_1) those that are wanted."""
        tails, firsts = self._tails_and_firsts
        return sums[:, tails, firsts]


def _strip_rows(columns: int) -> int:
    return max(8, _STRIP // columns)


def _add_inner_products(left: Matrix, right: Matrix, sums: Vector) -> None:
    """Add sum_ij of left (T, b, c) times right (K, b, c) to sums (T, K)."""
    left, right = left.reshape(len(left), -1), right.reshape(len(right), -1)
    step = _CHUNK // sums.size
    for start in range(0, left.shape[1], step):
        at = slice(start, start + step)
        sums += left[:, at] @ right[:, at].T
