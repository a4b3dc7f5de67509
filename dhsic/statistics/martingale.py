"""Compute the martingale of mHSIC: every row against those before it, in a random order.

With the centred Gram matrices K and L of two variables and rows in a random order,

    M_i = sum_{j<i} (K_ij L_ij - c),  T = sum_i M_i / sqrt(sum_i M_i^2).

Under independence M_i has the mean 0 given the rows before, so that T is standard normal in the
limit of many rows and of many directions of the kernels (Laumann, Liu and Barahona 2026). With them
c is 0; here it is the mean of K_ij L_ij over all permutations, tr K tr L / (n (n - 1))^2. It counts
where kernels vary in about as many directions as there are pairs of rows: of 90 + 90 normal columns
59 % of 100 rows and 23 % of 200 were rejected at 5 % without it, and 5 and 4 % with it.

With features f and g about their means, sum_{j<i} K_ij L_ij is f_i' S_i g_i, S_i the sum of
f_j g_j' over the rows before. So two passes stream it. Rows are cut into pieces that follow each
other in a random order: the first pass sums products over every piece, the second one begins each
with the sum of those before it.

Of all pairs of many variables, in the second half of the file, products of matrices make it. Of row
i of the Gram matrices, up to column i, A_i has a row a variable, so that A_i A_i' holds the sums of
all pairs. Blocks of variables are compared with one another, a band of rows at a time, so that
memory does not grow with the variables; their Gram matrices are computed anew for every other
block, in less than a fifth of the time of the products.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations_with_replacement, product
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dhsic._random import generator
from dhsic.engine.passes import Footprint, Pass, RowBlock
from dhsic.engine.plan import DriverStep, PassPlan
from dhsic.engine.session import Session
from dhsic.kernels import Kernel
from dhsic.linalg import centre
from dhsic.statistics.orbit import whole_group
from dhsic.statistics.outer import BOTH, Features, Layout, MomentsPass, MomentSums, laid_out

Matrix = NDArray[np.floating[Any]]
Vector = NDArray[np.float64]

_FEWEST_ROWS = 1024  # of a piece
_PIECES = 64  # or more, where these would be larger
_VALUES = 2**22  # of a piece
_TILE = 512  # rows whose features are made at a time
_COMPARED = 64  # of these, which are compared with each other

# Kernels of 1,024 variables take 0.2 of the time of their products with as many others.
_MOST_TOGETHER, _FEWEST_TOGETHER = 1024, 64
_BLOCKS = 4  # at least, of many variables, so that threads share them
_PRODUCT = 512  # rows and columns of a product, whose sums stay in the cache
_BAND_BYTES = 2**27  # of rows of the Gram matrices of a block


class MartingaleSums(NamedTuple):
    """Sums over the rows."""

    total: float
    """sum_i M_i."""
    squares: float
    """sum_i M_i^2."""


def chance(n: int, traces: Sequence[float]) -> float:
    """The mean of K_ij L_ij, i != j, over all permutations, from the traces of K and L."""
    return math.prod(traces) / (n * (n - 1.0)) ** 2


def martingale_of_grams(grams: Sequence[Matrix], means: Vector) -> MartingaleSums:
    """That of rows in their order; overwrites Gram matrices of row means, shape (2, n)."""
    n, (first, second) = len(grams[0]), map(centre, grams, means)
    mean = chance(n, [float(gram.trace()) for gram in (first, second)])
    first *= second
    values = np.tril(first, -1).sum(axis=1, dtype=np.float64) - mean * np.arange(n)
    return MartingaleSums(float(values.sum()), float(values @ values))


@dataclass(frozen=True)
class PieceSumsPass(Pass[MomentSums]):
    """Sums of (f, |f|^2) and (g, |g|^2), and of the products of both, over every piece.

    Pieces are of consecutive rows, and follow each other in a random order, as their rows do. Where
    rows are exchangeable, their order says nothing. Where they are stored sorted, or drift, rows
    that follow each other are of one part of the data, and the parts in a random order.

    Parameters
    ----------
    layout : Layout
        The features f and g with their squared norms, about provisional means.
    n, size : int
        Rows of the data, and of a piece; the last one may have fewer.
    seed : int
        The seed of the test.
    name : str, optional
        Name of the pass in progress reports.
    """

    layout: Layout
    n: int
    size: int
    seed: int
    name: str = "sums of pieces"

    @classmethod
    def of(cls, session: Session, features: Sequence[Features]) -> Self:
        """64 pieces, fewer of few rows, and more where rows are so many that tasks would be large.

        They depend on the rows, the columns and the seed alone.
        """
        most = _VALUES // sum(session.dims)
        size = max(_FEWEST_ROWS, min(-(-session.n // _PIECES), most))
        return cls(laid_out(features, BOTH[:1], norms=True)[1], session.n, size, session.seed)

    @property
    def row_multiple(self) -> int:
        """Blocks are whole pieces, whatever the chunks."""
        return self.size

    @property
    def count(self) -> int:
        """Pieces."""
        return -(-self.n // self.size)

    @cached_property
    def order(self) -> NDArray[np.intp]:
        """The pieces one after another, shape (count,)."""
        return generator(self.seed, "groups").permutation(self.count)

    def within(self, block: RowBlock) -> Iterator[tuple[int, Iterator[list[Matrix]]]]:
        """Every piece in a block with its number, and its rows in their order, a tile at a time."""
        for start in range(0, block.rows, self.size):
            piece = (block.start + start) // self.size
            rows = min(self.size, block.rows - start)
            order = start + generator(self.seed, "groups", 1, piece).permutation(rows)
            tiles = (order[at : at + _TILE] for at in range(0, rows, _TILE))
            yield piece, ([x[tile] for x in block.values] for tile in tiles)

    @cached_property
    def moments(self) -> MomentsPass:
        """What is summed over a piece."""
        return MomentsPass(self.layout, self.n)

    @property
    def sums_bytes(self) -> int:
        """Bytes of the sums of all pieces."""
        return 8 * self.count * sum(self.moments.sizes)

    def footprint(self, rows: int) -> Footprint:
        """Cost of a block of so many rows; what comes of all blocks stays until the end."""
        one = self.moments.footprint(min(rows, self.size))
        payload = self.layout.nbytes + 2 * self.sums_bytes
        return replace(one, payload=payload, state=-(-rows // self.size) * one.state)

    def chunk(self, block: RowBlock) -> MomentSums:
        """Of the pieces in one block, shapes (pieces, D) and (pieces, P)."""
        starts = range(0, block.rows, self.size)
        pieces = (tuple(x[at : at + self.size] for x in block.values) for at in starts)
        found = [self.moments.chunk(RowBlock(block.start, piece)) for piece in pieces]
        return MomentSums(*map(np.array, zip(*found, strict=True)))

    def combine(self, left: MomentSums, right: MomentSums) -> MomentSums:
        """Pieces follow each other as they are stored."""
        return MomentSums(*map(np.concatenate, zip(left, right, strict=True)))


@dataclass(frozen=True)
class MartingalePass(Pass[MartingaleSums]):
    """sum_i M_i and its squares, from the sums over pieces.

    Parameters
    ----------
    sums : PieceSumsPass
        The features and the order of the rows.
    means : tuple of ndarray, shapes (r,) and (s,)
        Those of f and g.
    before : ndarray, shape (pieces, r, s)
        For every piece the sum of f g', about these means, over the pieces before it.
    ranks : ndarray, shape (pieces,)
        Rows before it.
    mean : float
        c.
    name : str, optional
        Name of the pass in progress reports.
    """

    sums: PieceSumsPass
    means: tuple[Vector, Vector]
    before: Vector
    ranks: Vector
    mean: float
    name: str = "martingale"

    @classmethod
    def after(cls, sums: PieceSumsPass, found: MomentSums) -> tuple[Self, Vector]:
        """The pass after the first one, and the cross-covariance of the features."""
        (crossing,), n = sums.layout.crossings, sums.n
        f, g = found.sums[:, crossing.first], found.sums[:, crossing.second]
        products = crossing.of(found.products)
        # The last feature is the squared norm.
        mu, nu = f.sum(axis=0) / n, g.sum(axis=0) / n
        # sum |f - mu|^2 = sum |f|^2 - n |mu|^2, about provisional means that leave mu small.
        traces = [n * float(mean[-1] - mean[:-1] @ mean[:-1]) for mean in (mu, nu)]
        before, ranks = np.empty((sums.count, len(mu), len(nu))), np.empty(sums.count)
        so_far, rank = np.zeros(crossing.shape), 0
        for piece in sums.order.tolist():
            before[piece], ranks[piece] = so_far, rank
            # A run that is timed has the pieces of one block, which stand for all.
            k, rows = piece % len(f), min(sums.size, n - piece * sums.size)
            # sum (f - mu)(g - nu)' follows from the sums of f g', f, g and 1.
            so_far += products[k] - np.outer(f[k], nu) - np.outer(mu, g[k] - rows * nu)
            rank += rows
        means = mu[:-1], nu[:-1]
        cross = so_far[:-1, :-1] / n
        return cls(sums, means, before[:, :-1, :-1], ranks, chance(n, traces)), cross

    @property
    def row_multiple(self) -> int:
        """Blocks are whole pieces, whatever the chunks."""
        return self.sums.row_multiple

    def footprint(self, rows: int) -> Footprint:
        """Cost of a block of so many rows."""
        layout, shape = self.sums.layout, self.sums.layout.crossings[0].shape
        values = 2 * (math.prod(shape) + rows) + 4 * _TILE * sum(shape)
        return Footprint(
            layout.nbytes + self.sums.sums_bytes, layout.scratch(_TILE) + 8 * values, 16
        )

    def chunk(self, block: RowBlock) -> MartingaleSums:
        """Sums over the pieces in one block."""
        sums, layout = np.zeros(2), self.sums.layout
        (crossing,) = layout.crossings
        for piece, tiles in self.sums.within(block):
            before, rank = self.before[piece].copy(), self.ranks[piece]
            for values in tiles:
                features = layout.features(values, np.float64)
                both = zip((crossing.first, crossing.second), self.means, strict=True)
                first, second = (features[:, at][:, :-1] - mean for at, mean in both)
                for at in range(0, len(first), _COMPARED):
                    f, g = (part[at : at + _COMPARED] for part in (first, second))
                    # Rows before these, those among them, and c for each of both.
                    m = np.vecdot(f @ before, g) + np.tril((f @ f.T) * (g @ g.T), -1).sum(axis=1)
                    m -= self.mean * (rank + np.arange(len(m)))
                    sums += m.sum(), m @ m
                    before += f.T @ g
                    rank += len(m)
        return MartingaleSums(*sums.tolist())


def martingale(session: Session, features: Sequence[Features]) -> tuple[Vector, MartingaleSums]:
    """The cross-covariance of the features of two kernels, and their martingale, in two passes."""
    sums = PieceSumsPass.of(session, features)
    found = session.reduce(sums)
    session.step("sums before pieces")
    second, cross = MartingalePass.after(sums, found)
    return cross, session.reduce(second)


def martingale_steps(session: Session, features: Sequence[Features]) -> list[DriverStep | PassPlan]:
    """The passes of `martingale`, and the step between."""
    sums = PieceSumsPass.of(session, features)
    (r, s), zero = sums.layout.crossings[0].shape, np.broadcast_to(0.0, 1)
    before = np.broadcast_to(0.0, (sums.count, r - 1, s - 1))
    second = MartingalePass(sums, (zero, zero), before, zero, 0.0)
    return [
        session.plan(sums),
        DriverStep("sums before pieces", 2 * sums.sums_bytes + 6 * 8 * r * s, sums.sums_bytes),
        session.plan(second),
    ]


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
        for start in range(0, n, b):
            stop = min(start + b, n)
            bands = [out[: stop - start, :, :stop] for out in whole]
            for side, band, shift, ready in zip(sides, bands, shifts, prepared, strict=True):
                for k, m in enumerate(side):
                    rows, columns = ready[k]
                    gram = self.rows.kernels[m].gram(rows[start:stop], columns[:stop], dtype)
                    gram -= shift[k, :stop]
                    np.subtract(gram, shift[k, start:stop, None], out=band[:, k])
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
