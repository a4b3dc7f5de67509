"""Passes over the data that sum products of features for every replicate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import svd

from dhsic._random import random_signs
from dhsic.engine.reduction import Footprint, RowBlock, add
from dhsic.estimators.feature_sums import FeaturePair
from dhsic.nulls import Permutation, draw_permutations

__all__ = [
    "PermutedFeaturePass",
    "ReplicateSums",
    "SignedFeaturePass",
    "signed_covariances",
]

Matrix = NDArray[np.floating[Any]]
Vector = NDArray[np.float64]

_ROWS = 1024
_SORTED_ROWS = 2**14
_TERMS = 32
_TERM_BYTES = 2**25
_SEPARABLE = 64  # features; more take longer to separate than it spares


class ReplicateSums(NamedTuple):
    """Sums over rows of products of features with a one beside them, for every replicate."""

    cross: Vector
    """Shape (b + 1, D_1 + 1, D_2 + 1); entry 0 is the data as they are."""


@dataclass(frozen=True)
class SignedFeaturePass:
    """Products of features times random signs.

    sum_i w_i a_1i a_2i' takes a product of matrices for every feature of the second variable. Rows
    are taken in its order. Where it repeats, as years and classes do, a product for the rows of
    every value does instead, a tenth of the work; else the features of a smooth kernel span, over
    the narrow range of the rows of a tile, fewer dimensions than they have.

    Parameters
    ----------
    features : FeaturePair
        Of the two variables.
    n_resamples : int
        Replicates.
    seed : int
        The seed of the test.
    """

    features: FeaturePair
    n_resamples: int
    seed: int
    name: str = "multiplier null"
    row_multiple: int = 1

    def footprint(self, rows: int) -> Footprint:
        """Cost of a block of so many rows.

        Operations between those of few values and those of many, in the geometric mean.
        """
        f, b, (d1, d2) = self.features, self.n_resamples + 1, self.features.counts
        size, tile, sorted_rows = f.dtype.itemsize, min(rows, _ROWS), min(rows, _SORTED_ROWS)
        factors = tile * ((b + d1 + 1) * size + b + 4 * 8 * (d2 + 1)) + 4 * 8 * (d2 + 1) ** 2
        terms = self._terms * (b * (d1 + 1) * size + 8 * (d2 + 1))
        folded = 8 * (d1 + 1) * (d2 + 1 + self._terms)
        return Footprint(
            payload=f.nbytes,
            scratch=f.scratch(tile) + sorted_rows * (3 * b + 80) + factors + terms + folded,
            state=8 * b * f.products,
            operations=f.operations + 2.0 * b * (d1 + 1) * (d2 + 1) ** 0.5,
        )

    def chunk(self, block: RowBlock) -> ReplicateSums:
        """Sums over one block."""
        b, (d1, d2) = self.n_resamples + 1, self.features.counts
        cross = np.zeros((b, d1 + 1, d2 + 1))
        sums = np.empty((self._terms, b, d1 + 1), self.features.dtype)
        seconds = np.empty((self._terms, d2 + 1))
        filled = 0
        for signs, first, second in self._factors(block):
            np.matmul(signs.T, first, out=sums[filled])
            seconds[filled] = second
            filled += 1
            if filled == self._terms:
                _add_products(cross, sums, seconds)
                filled = 0
        _add_products(cross, sums[:filled], seconds[:filled])
        return ReplicateSums(cross)

    def combine(self, left: ReplicateSums, right: ReplicateSums) -> ReplicateSums:
        """Add."""
        return add(left, right)

    @property
    def _terms(self) -> int:
        """Products that wait for being added up, at a loss of time where they are few."""
        f = self.features
        size = f.dtype.itemsize * (self.n_resamples + 1) * (f.counts[0] + 1)
        return max(1, min(_TERMS, _TERM_BYTES // size))

    def _factors(self, block: RowBlock) -> Iterator[tuple[Matrix, Matrix, Matrix]]:
        """Signs (g, b + 1), features (g, D_1 + 1) and a vector (D_2 + 1,).

        The sum of signs' features, times the entries of the vector, is that over the rows.
        """
        for start in range(0, block.rows, _SORTED_ROWS):
            x, y = (values[start : start + _SORTED_ROWS] for values in block.values)
            first = block.start + start
            drawn = random_signs(self.seed, first, first + len(y), self.n_resamples)
            order = np.lexsort(y.T)
            for rows in np.split(order, range(_ROWS, len(order), _ROWS)):
                values = y[rows]
                a1, a2 = self.features.with_ones([x[rows], values])
                signs = np.ones((len(rows), self.n_resamples + 1), self.features.dtype)
                signs[:, 1:] = drawn[rows]
                runs = _runs(values)
                if len(runs) < a2.shape[1]:
                    yield from ((signs[at], a1[at], a2[at.start]) for at in runs)
                else:
                    for left, right in zip(*_separated(a2), strict=True):
                        yield signs, a1 * left[:, None], right


def _runs(values: NDArray[Any]) -> list[slice]:
    """Rows of sorted values (g, d) that are the same."""
    starts = 1 + np.flatnonzero((values[1:] != values[:-1]).any(axis=1))
    return [slice(*both) for both in pairwise([0, *starts.tolist(), len(values)])]


def _separated(features: Matrix) -> tuple[Matrix, Matrix]:
    """Left (k, g) and right (k, D) with features (g, D) = left' right to their last digit."""
    if features.shape[1] > _SEPARABLE:
        return features.T, np.eye(features.shape[1])
    u, sizes, right = svd(features.astype(np.float64), full_matrices=False)
    k = np.count_nonzero(sizes > np.finfo(features.dtype).eps * sizes[0])
    left = (u[:, :k] * sizes[:k]).T.astype(features.dtype, order="C")
    return left, right[:k]


def _add_products(cross: Vector, sums: Matrix, seconds: Vector) -> None:
    """Add sums (k, b, D_1 + 1) times what belongs to them (k, D_2 + 1), replicate by replicate."""
    for total, one in zip(cross, sums.swapaxes(0, 1), strict=True):
        total += one.T.astype(np.float64) @ seconds


@dataclass(frozen=True)
class PermutedFeaturePass:
    """Products of features with the second variable permuted within groups of rows.

    Parameters
    ----------
    features : FeaturePair
        Of the two variables.
    null : Permutation
        Replicates and rows of a group.
    seed : int
        The seed of the test.
    """

    features: FeaturePair
    null: Permutation
    seed: int
    name: str = "permutation null"

    @property
    def row_multiple(self) -> int:
        """Blocks hold whole groups."""
        return self.null.block_rows

    def footprint(self, rows: int) -> Footprint:
        """Cost of a block of so many rows."""
        f, b = self.features, self.null.n_resamples + 1
        group = min(rows, self.null.block_rows)
        return Footprint(
            payload=f.nbytes,
            scratch=f.scratch(group) + 16 * group * b,
            state=8 * b * f.products,
            operations=f.operations + 2.0 * b * (f.products + f.counts[1]),
        )

    def chunk(self, block: RowBlock) -> ReplicateSums:
        """Sums over one block."""
        b = self.null.n_resamples
        d1, d2 = self.features.counts
        cross = np.zeros((b + 1, d1 + 1, d2 + 1))
        for at, (a1, a2) in self.features.tiles(block.values, self.null.block_rows):
            orders = draw_permutations(self.seed, block.start + at.start, len(a1), b, 2)[:, 0]
            cross[0] += a1.T @ a2
            for total, order in zip(cross[1:], orders, strict=True):
                total += a1.T @ a2.take(order, axis=0)
        return ReplicateSums(cross)

    def combine(self, left: ReplicateSums, right: ReplicateSums) -> ReplicateSums:
        """Add."""
        return add(left, right)


def signed_covariances(sums: Vector) -> Vector:
    """U_b = (1/n) sum_i (w_ib - mean_i w_ib) (phi_1i - mu_1) (phi_2i - mu_2)' for every replicate.

    Times sqrt(n / (n - 2)), which makes the mean of n |U_b|^2 over signs that over permutations,
    tr(HK_1) tr(HK_2) / (n (n - 1)).

    Parameters
    ----------
    sums : ndarray, shape (b + 1, D_1 + 1, D_2 + 1)
        Of `SignedFeaturePass`.

    Returns
    -------
    ndarray, shape (b, D_1, D_2)
    """
    n = sums[0, -1, -1]
    first, second = sums[0, :-1, -1:] / n, sums[0, -1:, :-1] / n
    about = sums[:, :-1, :-1] - first * sums[:, -1:, :-1] - sums[:, :-1, -1:] * second
    about += first * second * sums[:, -1:, -1:]
    signed: Vector = about[1:] - about[0] * (sums[1:, -1:, -1:] / n)
    signed /= np.sqrt(n * (n - 2))
    return signed
