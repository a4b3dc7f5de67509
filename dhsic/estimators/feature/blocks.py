"""By how much HSIC of kernels exceeds that of their features, from blocks of rows.

Features leave out what they do not hold of a kernel, and |C|^2 is larger than HSIC in expectation.
Both are put right without bias by a sample of pairs of rows: in blocks, the unbiased HSIC of the
kernels less that of the features. What the features hold has little variance, since they are summed
over all rows; what they do not hold is small in most kernels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dhsic._work import NOTHING, Work
from dhsic.engine.groups import Groups
from dhsic.engine.reduction import Footprint
from dhsic.estimators.feature.basis import Side
from dhsic.estimators.feature.layout import Layout, Pair
from dhsic.features import KernelFeatures, LandmarksByColumn
from dhsic.kernels.shared import SharedTiles
from dhsic.linalg import solve_lower

__all__ = ["BlockDifferences", "Blocks", "block_rows"]

Matrix = NDArray[np.floating[Any]]
Vector = NDArray[np.float64]

_ROWS = 128
_FEWEST = 32
_FEW_ROWS = 2**15  # of all, beside which wider blocks take little time
_COLUMNS = 8  # of a mean over columns, whose blocks are smaller where there are more
_CENTRED = 36.0  # passes over an entry of a Gram matrix of a kernel, and one of its features


def block_rows(groups: Groups, *, spanned: bool, columns: int = 1) -> int:
    """Rows of a block, so that blocks take less time than features.

    Parameters
    ----------
    groups : Groups
        Those of all rows.
    spanned : bool
        Whether the features hold the kernels but for what rounding leaves.
    columns : int, optional
        Columns of a mean over columns, which takes an exponential of each.
    """
    rows = _ROWS * (2 - spanned) * (1 + (groups.n <= _FEW_ROWS))
    dear = max(1.0, columns / _COLUMNS)
    return min(groups.size, max(_FEWEST, int(rows / math.sqrt(dear))))


@dataclass(frozen=True)
class BlockDifferences:
    """Sums over blocks of rows by which estimates of G pairs of kernels become unbiased.

    A block is the first rows of a group, which stands for all rows.

    Parameters
    ----------
    numbers : tuple of int
        Those of the kernels, shape (K,).
    maps : tuple of KernelFeatures or LandmarksByColumn
        Their features.
    factors : tuple of (ndarray or None)
        Factors that still whiten the features.
    variables : tuple of int
        The variable of every kernel.
    pairs : tuple of tuple of int
        The combinations, of numbers of kernels.
    rows : int
        Rows of a block, 4 or more.
    """

    numbers: tuple[int, ...]
    maps: tuple[KernelFeatures | LandmarksByColumn, ...]
    factors: tuple[Vector | None, ...]
    variables: tuple[int, ...]
    pairs: tuple[Pair, ...]
    rows: int

    @classmethod
    def of_layout(
        cls, layout: Layout, sides: Mapping[int, Side], pairs: tuple[Pair, ...], groups: Groups
    ) -> Self:
        """Those of pairs of kernels whose features a layout holds."""
        used = {number for pair in pairs for number in pair}
        numbers, summed = zip(*(one for one in layout.kernels if one[0] in used), strict=True)
        own = [sides[number] for number in numbers]
        return cls(
            numbers,
            tuple(s.map for s in own if isinstance(s.map, KernelFeatures | LandmarksByColumn)),
            tuple(
                side.factor if one.whitening is None else None
                for side, one in zip(own, summed, strict=True)
            ),
            tuple(one.variable for one in summed),
            pairs,
            block_rows(
                groups,
                spanned=all(side.spanned for side in own),
                columns=max(map(_columns, own)),
            ),
        )

    @property
    def size(self) -> int:
        """How many numbers are summed."""
        return 2 * len(self.pairs) + len(self.maps)

    @cached_property
    def places(self) -> NDArray[np.intp]:
        """Of both kernels of every pair among all kernels, shape (2, G)."""
        return np.array([[self.numbers.index(k) for k in pair] for pair in self.pairs]).T

    @cached_property
    def shared(self) -> SharedTiles:
        """How the tiles of the kernels come from each other."""
        return SharedTiles(tuple(one.kernel for one in self.maps), self.variables)

    def footprint(self, n_features: int) -> Footprint:
        """Cost of a block, of whose rows so many features are summed; work a row."""
        factors = [factor for factor in self.factors if factor is not None]
        tiles = 3 * len(self.maps) + self.shared.work_tiles + 2
        dtype, widths = self.maps[0].dtype, {k: self.maps[k].width for k in self.shared.roots}
        entry = self.shared.work(dtype, widths)
        entry += Work.of(dtype, products=2.0 * n_features, entries=_CENTRED * len(self.maps))
        return Footprint(
            payload=sum(factor.nbytes for factor in factors),
            scratch=self.rows * (dtype.itemsize * tiles * self.rows + 3 * 8 * n_features),
            state=8 * self.size,
            work=self.rows * entry + Work.of(factors=sum(factor.size for factor in factors)),
        )

    def of(self, values: Sequence[NDArray[Any]], features: Mapping[int, Matrix]) -> Vector:
        """What a block adds to the sums, shape (2 G + K,).

        Parameters
        ----------
        values : sequence of ndarray, shapes (b, d_m)
            Rows of every variable.
        features : dict of int to ndarray, shapes (b, D_k)
            Features of every kernel there.
        """
        whitened = [
            _whitened(factor, features[number])
            for number, factor in zip(self.numbers, self.factors, strict=True)
        ]
        norms = np.array([_squared_distances_to_mean(f) for f in whitened])
        differences = self._products(self._grams(values, whitened[0].dtype))
        differences -= self._products([f @ f.T for f in whitened])
        first, second = self.places
        products = np.einsum("gi,gi->g", norms[first], norms[second]) / len(norms[0])
        return np.concatenate([differences, products, norms.mean(axis=1)])

    def estimates(self, sums: Vector, blocks: int, sizes: Vector, n: int) -> Vector:
        """Unbiased HSIC of n rows.

        With k_i = |phi_i - mu|^2 and q_i of the other variable, features about their means have
        Gram matrices of row sums 0, so that without their diagonals 1'K1 = -sum_i k_i,
        1'KL1 = sum_i k_i q_i and tr(KL) = n^2 |C|^2 - sum_i k_i q_i in the unbiased estimate (Song
        et al. 2012, equation 5; Zhang et al. 2018, equation 6). Means of k, q and k q come from the
        blocks, which is enough for terms of 1 / n.

        Parameters
        ----------
        sums : ndarray, shape (2 G + K,)
            Over all blocks.
        blocks : int
            How many.
        sizes : ndarray, shape (G,)
            |C|^2 over all rows.
        n : int
            Rows, 4 or more.

        Returns
        -------
        ndarray, shape (G,)
        """
        g = len(self.pairs)
        differences, products, norms = np.split(sums / blocks, [g, 2 * g])
        first, second = self.places
        norms, products = (n - 1) / n * norms, (n - 1) ** 2 / n * products  # about the mean of all
        totals = n**2 * norms[first] * norms[second] / ((n - 1) * (n - 2))
        own = n**2 * sizes - products + totals - 2.0 * products / (n - 2)
        found: Vector = own / (n * (n - 3)) + differences
        return found

    def _grams(self, values: Sequence[NDArray[Any]], dtype: DTypeLike) -> list[Matrix]:
        """Gram matrices of all kernels."""
        k, b = len(self.maps), len(values[0])
        tiles = np.empty((k + self.shared.work_tiles, b, b), dtype)
        rows, columns = (f(values, dtype) for f in (self.shared.rows, self.shared.columns))
        self.shared.tiles(rows, columns, list(tiles[:k]), tiles[k:])
        return list(tiles[:k])

    def _products(self, grams: Sequence[Matrix]) -> Vector:
        """Unbiased HSIC of every pair: inner products of U-centred matrices, shape (G,).

        To centre one of two is enough (Szekely and Rizzo 2014, section 3).
        """
        first, second = (list(dict.fromkeys(some.tolist())) for some in self.places)
        b = len(grams[0])
        left, right = (np.stack([grams[k] for k in some]) for some in (first, second))
        products = _u_centred(left).reshape(len(left), -1) @ right.reshape(len(right), -1).T
        at = [first.index(k) for k in self.places[0]], [second.index(k) for k in self.places[1]]
        values: Vector = products[at].astype(np.float64) / (b * (b - 3))
        return values


@dataclass(frozen=True)
class Blocks:
    """Blocks of one size for pairs of kernels that are quick, and smaller ones for the others.

    Parameters
    ----------
    parts : tuple of BlockDifferences
        Each of some of the pairs.
    pairs : tuple of tuple of int
        All of them.
    """

    parts: tuple[BlockDifferences, ...]
    pairs: tuple[Pair, ...]

    @classmethod
    def of_layout(
        cls, layout: Layout, sides: Mapping[int, Side], pairs: tuple[Pair, ...], groups: Groups
    ) -> Self:
        """Those of pairs of kernels whose features a layout holds."""
        by_columns: dict[int, list[Pair]] = {}
        for pair in pairs:
            columns = max(_columns(sides[number]) for number in pair)
            by_columns.setdefault(max(_COLUMNS, columns), []).append(pair)
        parts = (
            BlockDifferences.of_layout(layout, sides, tuple(some), groups)
            for some in by_columns.values()
        )
        return cls(tuple(parts), pairs)

    @property
    def rows(self) -> int:
        """Rows of the largest block of a group."""
        return max(part.rows for part in self.parts)

    @property
    def size(self) -> int:
        """How many numbers are summed."""
        return sum(part.size for part in self.parts)

    def footprint(self, n_features: int) -> Footprint:
        """Cost of the blocks of a group, of whose rows so many features are summed; work a row."""
        costs = [part.footprint(n_features) for part in self.parts]
        shares = [part.rows / self.rows for part in self.parts]
        return Footprint(
            payload=sum(cost.payload for cost in costs),
            scratch=max(cost.scratch for cost in costs),
            state=sum(cost.state for cost in costs),
            work=sum((share * c.work for share, c in zip(shares, costs, strict=True)), NOTHING),
        )

    def of(self, values: Sequence[NDArray[Any]], features: Mapping[int, Matrix]) -> Vector:
        """What the first rows of a group add to the sums, as `BlockDifferences.of`."""
        found = [
            part.of(
                [x[: part.rows] for x in values],
                {k: features[k][: part.rows] for k in part.numbers},
            )
            for part in self.parts
        ]
        return np.concatenate(found)

    def estimates(self, sums: Vector, blocks: int, sizes: Vector, n: int) -> Vector:
        """Unbiased HSIC of n rows, one a pair, as `BlockDifferences.estimates`."""
        found, bounds = np.empty(len(self.pairs)), np.cumsum([part.size for part in self.parts])
        for part, own in zip(self.parts, np.split(sums, bounds[:-1]), strict=True):
            at = [self.pairs.index(pair) for pair in part.pairs]
            found[at] = part.estimates(own, blocks, sizes[at], n)
        return found


def _columns(side: Side) -> int:
    """Columns whose kernels make a mean; 1 of any other kernel."""
    return len(side.map.landmarks) if isinstance(side.map, LandmarksByColumn) else 1


def _whitened(factor: Vector | None, features: Matrix) -> Matrix:
    return features if factor is None else solve_lower(factor, features.T).T


def _squared_distances_to_mean(features: Matrix) -> Vector:
    """Of rows (b, D), times b / (b - 1), so that their mean is unbiased."""
    b = len(features)
    about = features - features.mean(axis=0)
    norms: Vector = np.einsum("ij,ij->i", about, about, dtype=np.float64) * (b / (b - 1))
    return norms


def _u_centred(grams: Matrix) -> Matrix:
    """Symmetric matrices (K, b, b) with diagonals and row sums of zero, overwritten."""
    b = grams.shape[1]
    diagonal = np.arange(b)
    grams[:, diagonal, diagonal] = 0.0
    rows = grams.sum(axis=2, dtype=np.float64)
    means = rows / (b - 2) - rows.sum(axis=1)[:, None] / (2.0 * (b - 1) * (b - 2))
    means = means.astype(grams.dtype)
    grams -= means[:, :, None]
    grams -= means[:, None, :]
    grams[:, diagonal, diagonal] = 0.0
    return grams
