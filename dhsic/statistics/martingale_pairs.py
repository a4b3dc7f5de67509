"""Self-normalised martingales of all pairs of many variables, by products of matrices.

With the centred Gram matrices K and L of a pair, M_i = sum_{j<i} (K_ij L_ij - c), see
`dhsic.statistics.martingale`. Of row i of the Gram matrices, up to column i, A_i has a row a
variable, so that A_i A_i' holds the sums of all pairs. Blocks of variables are compared with one
another, a band of rows at a time, so that memory does not grow with the variables; their Gram
matrices are computed anew for every other block, in less than a fifth of the time of the products.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement, product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.plan import DriverStep
from dhsic.engine.session import Session
from dhsic.kernels import Kernel
from dhsic.linalg import centre
from dhsic.statistics.martingale import chance
from dhsic.statistics.orbit import whole_group
from dhsic.statistics.tiles import Matrix

Vector = NDArray[np.float64]

# Kernels of 1,024 variables take 0.2 of the time of their products with as many others.
_MOST_TOGETHER, _FEWEST_TOGETHER = 1024, 64
_BLOCKS = 4  # at least, of many variables, so that threads share them
_PRODUCT = 512  # rows and columns of a product, whose sums stay in the cache
_BAND_BYTES = 2**27  # of rows of the Gram matrices of a block


class CentredGrams(NamedTuple):
    """What the centred Gram matrices of some variables say of each by itself."""

    means: Vector
    """Row means of the Gram matrices, shape (M, n)."""
    own: Vector
    """Squared HSIC of a variable with itself, shape (M,)."""
    traces: Vector
    """Traces, shape (M,)."""


@dataclass(frozen=True)
class VariableRows:
    """Rows of variables with their kernels.

    Parameters
    ----------
    kernels : tuple of Kernel
        One a variable, fitted.
    values : tuple of ndarray, shapes (n, d_m)
        In the order of the martingale.
    dtype : dtype
        Precision of Gram matrices and products.
    """

    kernels: tuple[Kernel, ...]
    values: tuple[Vector, ...]
    dtype: np.dtype[Any]

    @property
    def n(self) -> int:
        """Rows."""
        return len(self.values[0])

    def __call__(self, numbers: range) -> CentredGrams:
        """Means and sums of the Gram matrices of some variables, for `Session.map`."""
        found = []
        for m in numbers:
            kernel = self.kernels[m]
            prepared = kernel.rows_and_columns(self.values[m], self.dtype)
            gram = kernel.gram(*prepared, self.dtype)
            means = gram.mean(axis=1, dtype=np.float64)
            gram = centre(gram, means)
            found.append((means, np.vdot(gram, gram) / self.n**2, np.trace(gram)))
        return CentredGrams(*map(np.array, zip(*found, strict=True)))


@dataclass(frozen=True)
class MartingalePairs:
    """Statistics of the pairs of two blocks of variables each, for `Session.map`.

    Parameters
    ----------
    rows : VariableRows
        The variables.
    means, traces : ndarray, shapes (M, n) and (M,)
        As of `CentredGrams`.
    """

    rows: VariableRows
    means: Vector
    traces: Vector

    @cached_property
    def blocks(self) -> list[tuple[range, range]]:
        """Pairs of blocks of variables, of which the first has no larger numbers."""
        m = len(self.rows.kernels)
        step = _together(m)
        blocks = [range(start, min(start + step, m)) for start in range(0, m, step)]
        return list(combinations_with_replacement(blocks, 2))

    def __call__(self, numbers: range) -> list[Matrix]:
        """sum_i M_i / sqrt(sum_i M_i^2) and squared HSIC, shape (2, T, T), for pairs of blocks."""
        return [self._compared(*self.blocks[number]) for number in numbers]

    def condensed(self, found: list[Matrix]) -> list[Matrix]:
        """Both values of all pairs, row by row of their matrices; takes those of blocks away."""
        m = len(self.rows.kernels)
        whole = [np.empty(m * (m - 1) // 2, self.rows.dtype) for _ in range(2)]
        for left, right in reversed(self.blocks):
            for values, block in zip(whole, found.pop(), strict=True):
                for k, i in enumerate(left):
                    j = max(right.start, i + 1)
                    # Where pair (i, j) is, after all of the variables before i.
                    at = m * i + j - (i + 1) * (i + 2) // 2
                    values[at : at + right.stop - j] = block[k, j - right.start :]
        return whole

    def _compared(self, left: range, right: range) -> Matrix:
        sums = np.zeros((2, len(left), len(right)), self.rows.dtype)
        sides = [left] if left == right else [left, right]
        diagonals = [np.empty((len(side), self.rows.n), self.rows.dtype) for side in sides]
        traces: Any = np.ix_(*(self.traces[side.start : side.stop] for side in (left, right)))
        n, means = self.rows.n, np.asarray(chance(self.rows.n, traces), self.rows.dtype)
        for start, bands in self._bands(sides):
            for band, diagonal in zip(bands, diagonals, strict=True):
                stop = start + len(band)
                diagonal[:, start:stop] = band.diagonal(start, 0, 2)
            self._add(sums, bands[0], bands[-1], start, means)
        total, squares = sums
        # Twice the sum of all M_i, without what was taken off, and the entries of i = j.
        products = diagonals[0] @ diagonals[-1].T
        products += 2.0 * total + n * (n - 1) * means
        np.sqrt(squares, out=squares)
        np.divide(total, squares, out=total, where=squares > 0.0)
        total[squares == 0.0] = -np.inf  # no pair of rows shows anything
        np.divide(products, n**2, out=squares)
        return sums

    @staticmethod
    def _add(sums: Matrix, left: Matrix, right: Matrix, start: int, means: Matrix) -> None:
        """Add M_i and M_i^2 of the rows of a band, of each of two blocks, shapes (b, T, stop)."""
        pieces = [
            (slice(i, i + _PRODUCT), slice(j, j + _PRODUCT))
            for i in range(0, left.shape[1], _PRODUCT)
            # Of a block with itself what is above the diagonal.
            for j in range(i if left is right else 0, right.shape[1], _PRODUCT)
        ]
        work = np.empty((2, _PRODUCT, _PRODUCT), sums.dtype)
        for r, at in product(range(len(left)), pieces):
            # M_i of every pair: the sum over the rows before row i, less their means.
            before, after = left[r, at[0], : start + r], right[r, at[1], : start + r]
            products, mean = work[:, : len(before), : len(after)]
            np.matmul(before, after.T, out=products)
            products -= np.multiply(means[at], start + r, out=mean)
            sums[0][at] += products
            products *= products
            sums[1][at] += products

    def _bands(self, sides: list[range]) -> Iterator[tuple[int, list[Matrix]]]:
        """Bands of rows of the centred Gram matrices up to their last row, shapes (b, T, stop)."""
        n, dtype = self.rows.n, self.rows.dtype
        prepared = [
            [self.rows.kernels[m].rows_and_columns(self.rows.values[m], dtype) for m in side]
            for side in sides
        ]
        # Half of the total mean in either term, as in `centre`.
        shifts = [
            (of_side - 0.5 * of_side.mean(axis=1, keepdims=True)).astype(dtype)
            for of_side in (self.means[side.start : side.stop] for side in sides)
        ]
        b = _band_rows(n, max(map(len, sides)), dtype)
        whole = [np.empty((b, len(side), n), dtype) for side in sides]
        work_tiles = max(kernel.work_tiles for kernel in self.rows.kernels)
        tiles = np.empty((1 + work_tiles, b * n), dtype)
        for start in range(0, n, b):
            stop = min(start + b, n)
            scratch = tiles[:, : (stop - start) * stop].reshape(-1, stop - start, stop)
            bands = [out[: stop - start, :, :stop] for out in whole]
            for side, band, shift, ready in zip(sides, bands, shifts, prepared, strict=True):
                for k, m in enumerate(side):
                    rows, columns = ready[k]
                    self.rows.kernels[m].tile(
                        rows[start:stop], columns[:stop], scratch[0], scratch[1:]
                    )
                    scratch[0] -= shift[k, :stop]
                    np.subtract(scratch[0], shift[k, start:stop, None], out=band[:, k])
            yield start, bands


def _together(m: int) -> int:
    """Variables of a block, of m in all."""
    return min(m, max(_FEWEST_TOGETHER, min(_MOST_TOGETHER, -(-m // _BLOCKS))))


def _band_rows(n: int, count: int, dtype: np.dtype[Any]) -> int:
    """Rows of the Gram matrices of so many variables that are held at a time."""
    return max(1, min(n, _BAND_BYTES // (count * n * dtype.itemsize)))


def pairs_steps(session: Session, kernels: Sequence[Kernel]) -> list[DriverStep]:
    """The steps of `martingales_of_pairs`."""
    n, m, dtype = session.n, len(kernels), session.dtype
    rows, work = 8 * n * sum(session.dims), max(kernel.work_tiles for kernel in kernels)
    count = _together(m)
    b = _band_rows(n, count, dtype)
    # Of a thread: a Gram matrix with its centred products; bands, diagonals, sums, prepared rows.
    gram = (2 + work) * n**2
    pair = n * ((2 * count + 1 + work) * b + 8 * count) + 6 * count**2 + 2 * _PRODUCT**2
    threads, found = session.runtime.threads * dtype.itemsize, dtype.itemsize * m * (m + 2 * count)
    return [
        DriverStep("read the rows", 3 * rows, rows),
        DriverStep("row means", threads * gram + 8 * m * n, 8 * m * n),
        DriverStep("martingales", threads * pair + found),
        DriverStep("estimate", 2 * found),
    ]


def martingales_of_pairs(
    session: Session, kernels: tuple[Kernel, ...]
) -> tuple[CentredGrams, Matrix, Matrix]:
    """What Gram matrices say of every variable; statistics and squared HSIC of all pairs."""
    session.step("read the rows")
    order, m = whole_group(session).members(0, 1), len(kernels)
    rows = VariableRows(kernels, tuple(session.take([order] * m)), session.dtype)
    parts = session.map("row means", rows, m, "variables")
    alone = CentredGrams(*map(np.concatenate, zip(*parts, strict=True)))
    martingales = MartingalePairs(rows, alone.means, alone.traces)
    found = session.map("martingales", martingales, len(martingales.blocks), "blocks of pairs")
    session.step("estimate")
    blocks = [block for part in found for block in part]
    del found  # blocks give their memory back one by one
    statistics, hsic = martingales.condensed(blocks)
    return alone, statistics, hsic
