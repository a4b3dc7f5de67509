"""By how much HSIC of kernels exceeds that of their features, from blocks of rows.

Features leave out what they do not hold of a kernel, and |C|^2 is larger than HSIC in expectation.
Both are put right without bias by a sample of pairs of rows: in blocks, the unbiased HSIC of the
kernels less that of the features. The part that features hold has little variance, since it is
summed over all rows; the rest is small in most kernels.

A pass keeps the rows of the blocks, so that only the kernels that are reported are computed there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.plan import DriverStep
from dhsic.engine.reduction import GroupBlock, RowGroups
from dhsic.engine.session import Session
from dhsic.features import KernelFeatures, LandmarksByColumn
from dhsic.kernels import Kernel
from dhsic.linalg import squared_norms, u_centred
from dhsic.statistics.exchangeable import Groups
from dhsic.statistics.features import Features

Matrix = NDArray[np.floating[Any]]
Vector = NDArray[np.float64]
_Block = tuple[Matrix, ...]
"""Rows of one variable: features about their provisional mean, and both arguments of the kernel."""

ESTIMATE = "unbiased estimate"
"""The step of the driver."""
_ROWS = 256
_GROUP = 1024  # rows
_FEWEST = 32
_FEW_ROWS = 2**15  # of all, beside which wider blocks take little time
_COLUMNS = 8  # of a mean over columns, whose blocks are smaller where there are more
_MOST_BLOCKS = 256
_LEAST_BLOCKS = 4
_KEPT = 2**21  # values; most of them where variables have many columns
_AT_A_TIME = 2048  # rows that are prepared


@dataclass(frozen=True)
class KeptBlocks:
    """Rows of blocks that a pass over groups keeps.

    A block is the first rows of a group, which stands for all rows; the groups lie evenly.

    Parameters
    ----------
    groups : RowGroups
        Those of the pass.
    dims : tuple of int
        Columns of every variable.
    itemsize : int
        Bytes of a value.
    """

    groups: RowGroups
    dims: tuple[int, ...]
    itemsize: int = 8

    @classmethod
    def of(cls, session: Session, groups: RowGroups | None = None) -> Self:
        """Those of the variables of a session; where no pass keeps them of groups of all rows."""
        groups = groups or Groups.of(session.n, _GROUP, session.seed)
        pairs = zip(session.sources, session.dims, strict=True)
        return cls(groups, session.dims, min(8, max(source.row_bytes // d for source, d in pairs)))

    @property
    def rows(self) -> int:
        """Rows of a block: wider ones beside few rows, fewer of very many columns."""
        held = _KEPT // (_LEAST_BLOCKS * sum(self.dims))
        return min(self.groups.size, self._wanted, max(_FEWEST, held))

    def rows_for(self, features: Sequence[Features]) -> int:
        """Rows of a block that a pair of kernels needs.

        Half as many where features hold the kernels but for what rounding leaves, and fewer for a
        mean over many columns, which takes an exponential of each.
        """
        wanted = self._wanted // (1 + all(one.spanned for one in features))
        maps: Iterator[Any] = (one.map for one in features)
        dear = max(1.0, max(len(one.landmarks) for one in maps) / _COLUMNS)
        # A block takes b^2 exponentials for each column of such a mean: b falls with the root of
        # their number, so that the work stays.
        return min(self.rows, max(_FEWEST, int(wanted / math.sqrt(dear))))

    @property
    def _wanted(self) -> int:
        return _ROWS * (1 + (self.groups.n <= _FEW_ROWS))

    @property
    def count(self) -> int:
        """Blocks; more would take long, or much memory."""
        held = _KEPT // (self.rows * sum(self.dims))
        return min(self.groups.count, _MOST_BLOCKS, max(_LEAST_BLOCKS, held))

    def nbytes(self, rows: int) -> int:
        """Bytes of what is kept of so many rows."""
        # Blocks lie evenly, so that a share of the rows has that share of them.
        blocks = min(self.count, math.ceil(self.count * rows / self.groups.n))
        return blocks * self.rows * sum(self.dims) * self.itemsize

    @cached_property
    def _numbers(self) -> NDArray[np.intp]:
        return np.arange(self.count) * self.groups.count // self.count

    def rows_of(self, block: GroupBlock) -> NDArray[Any]:
        """Those among a run of groups, shape (blocks, rows, columns of all variables)."""
        first, last = block.first, block.first + block.n_groups
        # Those of the groups of this run.
        numbers = self._numbers[np.searchsorted(self._numbers, first) :]
        numbers = numbers[: np.searchsorted(numbers, last)] - first
        at = numbers[:, None] * self.groups.size + np.arange(self.rows)
        return np.concatenate([x[at] for x in block.values], axis=2)

    def drawn(self, session: Session) -> NDArray[Any]:
        """The same rows where no pass keeps them: read once more, shape as of `rows_of`."""
        # The first rows of the groups, as `rows_of` takes them.
        numbers = [self.groups.members(g, g + 1)[: self.rows] for g in self._numbers.tolist()]
        values = session.take([np.concatenate(numbers)] * len(self.dims))
        return np.concatenate(values, axis=1).reshape(self.count, self.rows, -1)

    def variable(self, kept: NDArray[Any], number: int) -> NDArray[Any]:
        """The values of one variable, shape (blocks, rows, d)."""
        start, stop = (sum(self.dims[:end]) for end in (number, number + 1))
        return kept[:, :, start:stop]


def block_means(
    features: Sequence[Features], blocks: KeptBlocks, kept: NDArray[Any]
) -> Sequence[float]:
    """Means over blocks of rows of what makes HSIC of two kernels unbiased.

    Parameters
    ----------
    features : sequence of Features
        Those of either kernel.
    blocks : KeptBlocks
        Which rows are kept.
    kept : ndarray, shape (blocks, rows, columns of all variables)
        These.
    """
    rows, terms = blocks.rows_for(features), list[tuple[float, ...]]()
    step = max(1, _AT_A_TIME // rows)
    # Rows of several blocks are prepared together.
    for at in range(0, len(kept), step):
        some = kept[at : at + step, :rows]
        prepared = [_prepared(one, blocks.variable(some, one.variable)) for one in features]
        terms += [_of_block(features, both) for both in zip(*prepared, strict=True)]
    means: list[float] = np.mean(terms, axis=0).tolist()
    return means


def unbiased_hsic(n: int, size: float, means: Sequence[float]) -> float:
    """Unbiased HSIC of n rows, from |C|^2 of their features and the means over blocks."""
    difference, of_both, first, second = means
    # sums over all n rows about their mean, whose squared norms are smaller by (n - 1) / n
    products = (n - 1) ** 2 / n * of_both
    totals = (n - 1) ** 2 * first * second
    return _of_features(n, size, products, totals) + difference


def own_hsic(features: Features) -> float:
    """Unbiased squared HSIC of the sample of the features with itself."""
    summed = features.summed((features.values() - features.centre).astype(np.float64))
    n, covariance = len(summed), summed.T @ summed / len(summed)
    norms = squared_norms(summed.T)
    size, total = float(np.vdot(covariance, covariance)), float(norms.sum())
    return _of_features(n, size, float(norms @ norms), total**2)


def unbiased_step(session: Session, features: Sequence[Features]) -> DriverStep:
    """The bytes of `block_means` for the dearest pair of kernels."""
    blocks, itemsize = KeptBlocks.of(session), session.dtype.itemsize
    b, by_variable = blocks.rows, dict[int, int]()
    for one in features:
        kernel = _kernel(one)
        width = kernel.width(session.dims[one.variable])
        bytes_ = b * (itemsize * (2 + kernel.work_tiles) * b + 3 * 8 * one.n_features)
        bytes_ += max(b, _AT_A_TIME) * itemsize * 2 * (one.n_features + width)
        by_variable[one.variable] = max(by_variable.get(one.variable, 0), bytes_)
    # Of a chain a pair is of any two variables.
    dearest = sum(sorted(by_variable.values())[-2:])
    return DriverStep(ESTIMATE, dearest + blocks.nbytes(session.n))


def _prepared(features: Features, values: NDArray[Any]) -> Iterator[_Block]:
    """One variable in every block (blocks, b, d): its features, rows and columns for the kernel."""
    x, b = values.reshape(-1, values.shape[2]), values.shape[1]
    whole = (
        features.map(x) - features.centre,
        *_kernel(features).rows_and_columns(x, features.map.dtype),
    )
    for start in range(0, len(x), b):
        yield tuple(values_of[start : start + b] for values_of in whole)


def _of_block(features: Sequence[Features], blocks: Sequence[_Block]) -> tuple[float, ...]:
    """Terms that a block adds to the estimate of a pair of kernels.

    They are the unbiased HSIC of the kernels less that of the features; the mean of the products of
    the squared norms of both features about their means; and the means of either.
    """
    (raw, *_), _ = blocks
    b = len(raw)
    summed = [
        one.summed(values.astype(np.float64))
        for one, (values, *_) in zip(features, blocks, strict=True)
    ]
    first, second = (values - values.mean(axis=0) for values in summed)
    # k_i and q_i, the squared norms about the mean, see `_of_features`.
    k, q = (np.einsum("ij,ij->i", x, x) for x in (first, second))
    cross = first.T @ second / b
    held = _of_features(b, float(np.vdot(cross, cross)), float(k @ q), float(k.sum() * q.sum()))
    grams = [
        _kernel(one).gram(rows, columns, rows.dtype)
        for one, (_, rows, columns) in zip(features, blocks, strict=True)
    ]
    # <K, L> / (b (b - 3)) for U-centred matrices is the unbiased HSIC (Song et al. 2012).
    whole = float(np.vdot(u_centred(grams[0]), grams[1])) / (b * (b - 3))
    unbiased = b / (b - 1)  # of squared norms about the mean of the block
    return (
        whole - held,
        unbiased**2 * float(k @ q) / b,
        unbiased * float(k.mean()),
        unbiased * float(q.mean()),
    )


def _of_features(n: int, size: float, products: float, totals: float) -> float:
    """Unbiased HSIC of n rows of features.

    With k_i = |phi_i - mu|^2 and q_i of the other variable, features about their means have Gram
    matrices of row sums 0, so that without their diagonals 1'K1 = -sum_i k_i, 1'KL1 =
    sum_i k_i q_i and tr(KL) = n^2 |C|^2 - sum_i k_i q_i in the unbiased estimate (Song et al. 2012,
    equation 5; Zhang et al. 2018, equation 6). `products` is sum_i k_i q_i, and `totals` is
    sum_i k_i sum_i q_i.
    """
    total = n**2 * size - products + totals / ((n - 1) * (n - 2)) - 2.0 * products / (n - 2)
    return total / (n * (n - 3))


def _kernel(features: Features) -> Kernel:
    """Blocks are of features that hold a part of a kernel."""
    assert isinstance(features.map, KernelFeatures | LandmarksByColumn)
    return features.map.kernel
