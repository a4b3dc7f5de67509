"""The pass that sums products of features times random signs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from dhsic._random import random_signs
from dhsic.engine.reduction import Footprint, Pass, RowBlock
from dhsic.estimators.feature.layout import Crossing, Layout

Matrix = NDArray[np.floating[Any]]
Vector = NDArray[np.float64]

_ROWS = 1024
_SORTED_ROWS = 2**14
_TERMS = 32
_TERM_BYTES = 2**25
_SEPARABLE = 64  # features; more take longer to separate than it spares


class SignedSums(NamedTuple):
    """Sums over rows times signs, B of them; number 0 is of the data as they are."""

    cross: Vector
    """Products of features, shape (B, P)."""
    sums: Vector
    """Features, shape (B, D)."""
    signs: Vector
    """The signs themselves, shape (B,)."""


@dataclass(frozen=True)
class SignedFeaturePass(Pass[SignedSums]):
    """Products of features times random signs.

    sum_i w_i a_1i a_2i' takes a product of matrices for every feature of the second variable. Rows
    are taken in its order. Where it repeats, as years and classes do, a product for the rows of
    every value does instead, a tenth of the work; else the features of a smooth kernel span, over
    the narrow range of the rows of a tile, fewer dimensions than they have.

    Parameters
    ----------
    layout : Layout
        The features, and the products of those of the first variable with those of the second.
    n_resamples : int
        Replicates.
    seed : int
        The seed of the test.
    """

    layout: Layout
    n_resamples: int
    seed: int
    name: str = "multiplier null"

    @property
    def solve_bytes(self) -> int:
        """Bytes that `covariances` takes with what it is given."""
        return 3 * 8 * self._count * self.layout.n_products

    def footprint(self, rows: int) -> Footprint:
        """Cost of a block of so many rows.

        The work lies between that of few values and that of many, in the geometric mean.
        """
        f, b, tile = self.layout, self._count, min(rows, _ROWS)
        shapes, size = [crossing.shape for crossing in f.crossings], f.dtype.itemsize
        d1, d2 = (max(counts) for counts in zip(*shapes, strict=True))
        signs = min(rows, _SORTED_ROWS) * (3 * b + 80) + tile * b * (size + 1)
        factors = tile * ((d1 + f.n_features) * size + 4 * 8 * d2) + 4 * 8 * d2**2
        terms = sum(self._terms(p) * (b * p * size + 8 * q) for p, q in shapes)
        folded = 8 * (d1 * (d2 + _TERMS) + b * f.n_features)
        return Footprint(
            payload=f.nbytes,
            scratch=f.scratch(tile) + signs + factors + terms + folded,
            state=8 * b * (f.n_products + f.n_features + 1),
        )

    def chunk(self, block: RowBlock) -> SignedSums:
        """Sums over one block."""
        f, b = self.layout, self._count
        sums = SignedSums(np.zeros((b, f.n_products)), np.zeros((b, f.n_features)), np.zeros(b))
        waiting = [_Terms(c, sums.cross, self._terms(c.shape[0]), f.dtype) for c in f.crossings]
        for target, signs, features in self._tiles(block):
            sums.sums[:] += signs.T @ features
            sums.signs[:] += signs.sum(axis=0, dtype=np.float64)
            for terms in waiting:
                terms.add_tile(target, signs, features)
        for terms in waiting:
            terms.fold()
        return sums

    def covariances(self, sums: SignedSums) -> Vector:
        """C of the data and U_b of every replicate, shape (B, P); overwrites the sums.

        U_b = (1/n) sum_i (w_ib - mean_i w_ib) (phi_1i - mu_1) (phi_2i - mu_2)', times
        sqrt(n / (n - 2)), which makes the mean of n |U_b|^2 over signs that over permutations,
        tr(HK_1) tr(HK_2) / (n (n - 1)).
        """
        # Number 0 has signs of 1, so that it counts the rows.
        n, means = sums.signs[0], sums.sums[0] / sums.signs[0]
        for crossing in self.layout.crossings:
            cross, first, second = (
                crossing.of(sums.cross),
                means[crossing.first],
                means[crossing.second],
            )
            # (f - m) (h - l)' = f h' - m h' - f l' + m l', each summed with the signs.
            cross -= first[:, None] * sums.sums[:, None, crossing.second]
            cross -= sums.sums[:, crossing.first, None] * second
            cross += np.multiply.outer(sums.signs, np.outer(first, second))
        # Signs about their own mean, which is known only now.
        sums.cross[1:] -= (sums.signs[1:] / n)[:, None] * sums.cross[0]
        # 1 / n times sqrt(n / (n - 2)).
        sums.cross[1:] /= math.sqrt(n * (n - 2))
        sums.cross[0] /= n
        return sums.cross

    @property
    def _count(self) -> int:
        """The data and the replicates."""
        return self.n_resamples + 1

    def _terms(self, features: int) -> int:
        """Products that wait for being added up, at a loss of time where they are few."""
        size = self.layout.dtype.itemsize * self._count * features * len(self.layout.crossings)
        return max(1, min(_TERMS, _TERM_BYTES // size))

    def _tiles(self, block: RowBlock) -> Iterator[tuple[Matrix, Matrix, Matrix]]:
        """Values of the second variable in their order, signs (g, B) and features (g, D)."""
        kernels, (_, second) = dict(self.layout.kernels), self.layout.rectangles[0]
        variable = kernels[second[0]].variable
        for start in range(0, block.rows, _SORTED_ROWS):
            values = [x[start : start + _SORTED_ROWS] for x in block.values]
            first = block.start + start
            drawn = random_signs(self.seed, first, first + len(values[0]), self.n_resamples)
            order = np.lexsort(values[variable].T)
            for rows in np.split(order, range(_ROWS, len(order), _ROWS)):
                signs = np.ones((len(rows), self._count), self.layout.dtype)
                signs[:, 1:] = drawn[rows]
                yield values[variable][rows], signs, self.layout.features([x[rows] for x in values])


class _Terms:
    """Sums of features times signs (k, B, D_1), which wait to be multiplied by vectors (k, D_2).

    Parameters
    ----------
    crossing : Crossing
        Where the products are.
    cross : ndarray, shape (B, P)
        The sums that they are added to.
    count : int
        How many wait, at most.
    dtype : dtype
        Precision of the sums.
    """

    def __init__(self, crossing: Crossing, cross: Vector, count: int, dtype: np.dtype[Any]) -> None:
        d1, d2 = crossing.shape
        self.crossing, self.totals = crossing, crossing.of(cross)
        self.sums = np.empty((count, len(cross), d1), dtype)
        self.seconds = np.empty((count, d2))
        self.filled = 0

    def add_tile(self, target: Matrix, signs: Matrix, features: Matrix) -> None:
        """Add the products of the rows of a tile."""
        first, second = features[:, self.crossing.first], features[:, self.crossing.second]
        runs = _runs(target)
        # Few different values take a product each; else the features of the tile are separated.
        if len(runs) < second.shape[1]:
            for at in runs:
                self._add(signs[at], first[at], second[at.start])
        else:
            for left, right in zip(*_separated(second), strict=True):
                self._add(signs, first * left[:, None], right)

    def fold(self) -> None:
        """Add what waits, replicate by replicate."""
        sums, seconds = self.sums[: self.filled], self.seconds[: self.filled]
        for total, replicate in zip(self.totals, sums.swapaxes(0, 1), strict=True):
            # Sums within a tile may be of single precision; those over tiles are of double.
            total += replicate.T.astype(np.float64) @ seconds
        self.filled = 0

    def _add(self, signs: Matrix, first: Matrix, second: Matrix) -> None:
        np.matmul(signs.T, first, out=self.sums[self.filled])
        self.seconds[self.filled] = second
        self.filled += 1
        if self.filled == len(self.sums):
            self.fold()


def _runs(values: NDArray[Any]) -> list[slice]:
    """Rows of sorted values (g, d) that are the same."""
    starts = 1 + np.flatnonzero((values[1:] != values[:-1]).any(axis=1))
    return [slice(*both) for both in pairwise([0, *starts.tolist(), len(values)])]


def _separated(features: Matrix) -> tuple[Matrix, Matrix]:
    """Left (k, g) and right (k, D) with features (g, D) = left' right to their last digit."""
    if features.shape[1] > _SEPARABLE:
        # Every feature by itself, with the identity on the right.
        return features.T, np.eye(features.shape[1])
    u, sizes, right = scipy.linalg.svd(features.astype(np.float64), full_matrices=False)
    # What is left out is below the last digit of the features.
    k = np.count_nonzero(sizes > np.finfo(features.dtype).eps * sizes[0])
    left = (u[:, :k] * sizes[:k]).T.astype(features.dtype, order="C")
    return left, right[:k]
