"""Squared distances in feature space between the rows of a pool and those taken from it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from dhsic.landmarks.pool import Pool
from dhsic.linalg import solve_lower, squared_norms

Indices = NDArray[np.intp]
Matrix64 = NDArray[np.float64]
Vector = NDArray[np.float64]


class Gram(Protocol):
    """A Gram matrix (s, s) that gives its columns."""

    def columns(self, indices: Indices) -> Matrix64:
        """Columns of the matrix, shape (s, len(indices))."""
        ...


@dataclass(frozen=True)
class Held:
    """A Gram matrix in memory.

    Parameters
    ----------
    matrix : ndarray, shape (b, b)
        The matrix.
    """

    matrix: Matrix64

    def columns(self, indices: Indices) -> Matrix64:
        """Columns of the matrix, shape (b, len(indices))."""
        return self.matrix[:, indices]


class Distances(Protocol):
    """Squared distances that shrink as rows are taken.

    Rows are taken from a pool in blocks: first a few candidates play it out among themselves with
    a small matrix in memory, then those that were taken are taken from the pool at once.
    """

    @property
    def squared(self) -> Vector:
        """The squared distances (s,), 0 where they are rounding and where a row is taken."""
        ...

    @property
    def taken(self) -> list[int]:
        """The rows taken so far, in order."""
        ...

    @property
    def tolerance(self) -> float:
        """Squared distances up to it are rounding."""
        ...

    def among(self, pool: Pool, candidates: Indices) -> Self:
        """The same for candidates (b,) alone, to take rows from without changing these."""
        ...

    def take(self, row: int) -> None:
        """Take one row."""
        ...

    def take_all(self, candidates: Indices, played: Self) -> None:
        """Take from the pool what was taken among the candidates."""
        ...


@dataclass(frozen=True)
class SpanDistances:
    """Squared distances to the span of the rows taken, by a partial Cholesky factorisation.

    Parameters
    ----------
    gram : Gram
        Inner products of the rows before any is taken.
    squared : ndarray, shape (s,)
        Its diagonal. Overwritten, as is the factor.
    tolerance : float
        Squared distances up to it are rounding.
    factor : ndarray, shape (s, p)
        Column j is the part of row j's feature that the rows before it do not span.
    taken : list of int
        The rows taken so far.
    """

    gram: Gram
    squared: Vector
    tolerance: float
    factor: Matrix64
    taken: list[int]

    @classmethod
    def start(cls, pool: Pool, p: int) -> Self:
        """None taken, with room for p."""
        return cls(pool, pool.diagonal(), pool.tolerance(), np.empty((len(pool), p)), [])

    def among(self, pool: Pool, candidates: Indices) -> Self:
        """Inner products of what the rows taken so far leave of the candidates."""
        b, squared = len(candidates), self.squared[candidates]
        known = self.factor[candidates, : len(self.taken)]
        # K - L L' holds the inner products of what is outside of the span of the rows taken.
        left = pool.gram(candidates, candidates) - known @ known.T
        return type(self)(Held(left), squared, self.tolerance, np.empty((b, b)), [])

    def take(self, row: int) -> None:
        self._extend(np.array([row]), np.full((1, 1), math.sqrt(self.squared[row])))

    def take_all(self, candidates: Indices, played: Self) -> None:
        rows = played.factor[played.taken, : len(played.taken)]
        self._extend(candidates[played.taken], rows)

    def _extend(self, rows: Indices, lower: Matrix64) -> None:
        """Append the columns of rows with a known Cholesky factor of what is left of them."""
        known, width = len(self.taken), len(rows)
        left = self.gram.columns(rows)
        # A block step of Cholesky: the Gram matrix less what earlier columns hold, then a
        # triangular solve.
        left -= self.factor[:, :known] @ self.factor[rows, :known].T
        new = solve_lower(lower, left.T)
        new[:, rows] = lower.T  # where rounding could leave a 0 on the diagonal
        self.factor[:, known : known + width] = new.T
        # By Pythagoras a new direction takes its squared coordinate off the squared distance.
        self.squared[:] -= squared_norms(new)
        self.taken.extend(rows.tolist())
        _drop_spanned(self.squared, rows, self.tolerance)


@dataclass(frozen=True)
class NearestDistances:
    """Squared distances k(x, x) + k(z, z) - 2 k(x, z) to the nearest of the rows taken.

    Parameters
    ----------
    gram : Gram
        Inner products of the rows.
    diagonal : ndarray, shape (s,)
        Its diagonal.
    squared : ndarray, shape (s,)
        A bound on all squared distances. Overwritten.
    tolerance : float
        Squared distances up to it are rounding.
    taken : list of int
        The rows taken so far.
    """

    gram: Gram
    diagonal: Vector
    squared: Vector
    tolerance: float
    taken: list[int]

    @classmethod
    def start(cls, pool: Pool) -> Self:
        """None taken: all rows are equally far, and no two rows are farther apart."""
        diagonal = pool.diagonal()
        # |phi(x) - phi(z)|^2 <= (|phi(x)| + |phi(z)|)^2 <= 4 max k(x, x).
        farthest = np.full(len(pool), 4.0 * diagonal.max())
        return cls(pool, diagonal, farthest, pool.tolerance(), [])

    def among(self, pool: Pool, candidates: Indices) -> Self:
        """Inner products of the candidates."""
        gram = Held(pool.gram(candidates, candidates))
        diagonal, squared = self.diagonal[candidates], self.squared[candidates]
        return type(self)(gram, diagonal, squared, self.tolerance, [])

    def take(self, row: int) -> None:
        self._extend(np.array([row]))

    def take_all(self, candidates: Indices, played: Self) -> None:
        self._extend(candidates[played.taken])

    def _extend(self, rows: Indices) -> None:
        apart = -2.0 * self.gram.columns(rows)
        apart += self.diagonal[rows]
        np.minimum(self.squared, self.diagonal + apart.min(axis=1), out=self.squared)
        self.taken.extend(rows.tolist())
        _drop_spanned(self.squared, rows, self.tolerance)


def _drop_spanned(squared: Vector, rows: Indices, tolerance: float) -> None:
    # Distances that are rounding would be divided by, and draw rows that are there already.
    squared[squared <= tolerance] = 0.0
    squared[rows] = 0.0
