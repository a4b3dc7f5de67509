"""Permutations of the rows behind Gram matrices, of every variable but the first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.reduction import GroupBlock
from dhsic.estimators.resample import Orbit

Indices = NDArray[np.intp]


@dataclass(frozen=True)
class RowOrders:
    """Permutations of the rows of some groups, and of rows left over, which stay.

    Parameters
    ----------
    orbit : Orbit
        The permutations.
    n_variables : int
        Number of variables, M; the first stays.
    first, count : int
        Which groups.
    n_left : int
        Rows left over, after those of the groups.
    """

    orbit: Orbit
    n_variables: int
    first: int
    count: int
    n_left: int

    @classmethod
    def of(cls, orbit: Orbit, block: GroupBlock) -> Self:
        """Those of the rows of a block."""
        return cls(orbit, len(block.values), block.first, block.n_groups, block.n_left)

    def __len__(self) -> int:
        return self.count * self.orbit.groups.size + self.n_left

    def of_variable(self, coset: int, m: int) -> Indices:
        """The order of the rows of a variable in a coset, shape (rows,)."""
        one: Indices = self.of_cosets(range(coset, coset + 1), m)[0]
        return one

    def of_cosets(self, cosets: range, m: int) -> Indices:
        """Those in several cosets, shape (R, rows)."""
        orders = np.tile(np.arange(len(self)), (len(cosets), 1))
        if m > 0 and self.count > 0:
            starts = self.orbit.groups.size * np.arange(self.count)[:, None]
            moved = self.orbit.orders_of(cosets, self.first, self.count, m) + starts
            # Rows that are left over come last, and stay.
            orders[:, : len(self) - self.n_left] = moved.reshape(len(cosets), -1)
        return orders

    def drawn(self, cosets: range) -> Indices:
        """A batch of permutations of all variables but the first, shape (r, M - 1, rows).

        Whoever takes permutations one batch after another draws them here.
        """
        others = range(1, self.n_variables)
        return np.stack([self.of_cosets(cosets, m) for m in others], axis=1)

    def pieces(self) -> Iterator[tuple[slice, RowOrders]]:
        """Each group, and the rows left over: where they are, and their permutations."""
        b = self.orbit.groups.size
        for g in range(self.count):
            yield slice(g * b, (g + 1) * b), replace(self, first=self.first + g, count=1, n_left=0)
        if self.n_left:
            yield slice(self.count * b, len(self)), replace(self, count=0)
