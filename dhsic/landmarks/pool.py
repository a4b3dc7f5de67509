"""Rows from which landmarks are chosen, and their Gram matrix a few columns at a time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhsic.kernels import Kernel
from dhsic.linalg import hadamard

POOL_TILE_ROWS = 2048
# A kernel is asked for tiles, of which the diagonal is one entry a row: small ones waste less.
_DIAGONAL_TILE = 64

Matrix64 = NDArray[np.float64]
RowChoice = NDArray[np.intp] | slice


@dataclass(frozen=True)
class Pool:
    """Rows to choose landmarks from, with the product of their kernels.

    Its Gram matrix (s, s) is the Hadamard product of those of the variables, in float64. It is
    evaluated where asked and never held.

    Parameters
    ----------
    kernels : tuple of Kernel
        One fitted kernel a variable.
    points : tuple of ndarray, shapes (s, d_m)
        The same rows of every variable.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.kernels import Delta, Linear
    >>> x, y = np.array([[1.0], [2.0], [3.0]]), np.array([[0], [0], [1]])
    >>> pool = Pool((Linear(), Delta()), (x, y))
    >>> pool.columns(np.array([1]))
    array([[2.],
           [4.],
           [0.]])
    >>> pool.diagonal()
    array([1., 4., 9.])
    """

    kernels: tuple[Kernel, ...]
    points: tuple[NDArray[Any], ...]

    def __len__(self) -> int:
        return len(self.points[0])

    def columns(self, indices: NDArray[np.intp]) -> Matrix64:
        """Columns of the Gram matrix, shape (s, len(indices))."""
        return self.gram(slice(None), indices)

    def diagonal(self) -> Matrix64:
        """k(x, x) of every row, shape (s,)."""
        starts = range(0, len(self), _DIAGONAL_TILE)
        tiles = [slice(start, start + _DIAGONAL_TILE) for start in starts]
        return np.concatenate([self.gram(rows, rows).diagonal() for rows in tiles])

    def gram(self, rows: RowChoice, columns: RowChoice) -> Matrix64:
        """Gram matrix between some rows and some others, shape (b, c)."""
        parts = [
            (kernel, x[rows], z[columns])
            for kernel, (x, z) in zip(self.kernels, self._prepared, strict=True)
        ]
        gram = np.empty((len(parts[0][1]), len(parts[0][2])))
        for start in range(0, len(gram), POOL_TILE_ROWS):
            at = slice(start, start + POOL_TILE_ROWS)
            gram[at] = hadamard(kernel.gram(x[at], z) for kernel, x, z in parts)
        return gram

    def tolerance(self) -> float:
        """Largest squared distance in feature space that may be rounding, more than 0."""
        prepared = zip(self.kernels, self._prepared, strict=True)
        # |phi(x) - phi(z)|^2 is a sum of four values of the kernel, each with its own rounding.
        rounding = sum(kernel.rounding(columns) for kernel, (_, columns) in prepared)
        share = len(self) * float(np.finfo(np.float64).eps) + rounding
        return max(4.0 * share * float(self.diagonal().max()), float(np.finfo(np.float64).tiny))

    @cached_property
    def _prepared(self) -> list[tuple[NDArray[Any], NDArray[Any]]]:
        # Prepared once: selections ask for columns again and again.
        return [(k.rows(x), k.columns(x)) for k, x in zip(self.kernels, self.points, strict=True)]
