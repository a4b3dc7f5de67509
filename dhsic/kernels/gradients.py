"""Gradients of sums and products of kernels on the same variable."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dhsic.kernels.centred import Matrix


class _Part(Protocol):
    def tile(self, rows: Matrix, columns: Matrix, out: Matrix, work: Matrix) -> None: ...

    def gradient(
        self, rows: Matrix, columns: Matrix, gram: Matrix, weights: Matrix, work: Matrix
    ) -> Matrix: ...


def sum_of_gradients(
    parts: tuple[tuple[_Part, slice], ...],
    rows: Matrix,
    columns: Matrix,
    weights: Matrix,
    work: Matrix,
    *,
    product: bool,
) -> Matrix:
    """The gradient of a sum of kernels, or of their product.

    Parameters
    ----------
    parts : tuple of tuple of kernel and slice
        With the slices of the prepared columns that are theirs.
    rows, columns, weights : ndarray, shapes (b, w), (p, w) and (b, p)
        As for `Kernel.gradient`.
    work : ndarray, shape (2 + k, b, p)
        Scratch, with k tiles for the parts.
    product : bool
        Whether the kernel is the product; the weights of a part are then times all others.

    Returns
    -------
    ndarray, shape (b, d)
    """
    weighted, gram, scratch = work[0], work[1], work[2:]
    gradients: list[NDArray[Any]] = []
    for k, (part, at) in enumerate(parts):
        np.copyto(weighted, weights)
        # The product rule: the gradient of a factor, weighted by the values of the others.
        # Tiles of the others are computed again for each factor: holding them all would take a tile
        # more for every kernel of the product.
        for other, its in parts[:k] + parts[k + 1 :] if product else ():
            other.tile(rows[:, its], columns[:, its], gram, scratch)
            np.multiply(weighted, gram, out=weighted)
        part.tile(rows[:, at], columns[:, at], gram, scratch)
        gradients.append(part.gradient(rows[:, at], columns[:, at], gram, weighted, scratch))
    total: Matrix = np.sum(gradients, axis=0)
    return total
