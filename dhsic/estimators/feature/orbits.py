"""The pass that sums products of features under all permutations of an orbit.

With features f and h of two variables, the sums over a group of f(i) h(i + k)' for every shift k
are circular cross-correlations: a product of two Fourier transforms a frequency, summed over
groups, transformed back once in the end. Without shifts a coset is one product of matrices, of the
features of all rows with those of the other variable in another order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from dhsic.engine.groups import RowGroups
from dhsic.engine.reduction import Footprint, GroupBlock, Pass, add
from dhsic.estimators.feature.blocks import KeptBlocks
from dhsic.estimators.feature.layout import Crossing, Layout
from dhsic.estimators.resample import Orbit

Matrix = NDArray[np.floating[Any]]
Transform = NDArray[np.inexact[Any]]
Vector = NDArray[np.float64]

_MOST_GROUPS = 64  # of a tile; more do not spare time
_BATCH = 3 * 2**17  # entries of features of a kernel that are made at a time
_BATCH_ROWS = 4096  # float32 sums of more would lose digits
_PRODUCTS = 2**17  # entries of products that wait to be added
_TRANSFORMED = 2**15  # entries of sums that are transformed back at a time, which a cache holds


class OrbitSums(NamedTuple):
    """Sums over rows for K kernels, R cosets and P products of D features."""

    cross: Transform
    """Products: transforms over the shifts, shape (R, b // 2 + 1, P); (R, 1, P) without them."""
    sums: Vector
    """Features that are summed, shape (D,)."""
    raw: Vector
    """Squares of all features of all kernels, before they are whitened."""
    norms: Vector
    """Squared norms of the features that are summed, shape (K,)."""
    products: Vector
    """Over groups, products of the squared norms of two kernels there, shape (K, K)."""
    kept: NDArray[Any]
    """Rows that `KeptBlocks` keeps, shape (blocks, rows, columns); none where there are none."""


@dataclass(frozen=True)
class OrbitPass(Pass[OrbitSums]):
    """All sums of `OrbitSums`, in one pass.

    Features are about provisional means, so that no digits cancel. Rows that are in no group add
    the same to the products of all permutations.

    Parameters
    ----------
    layout : Layout
        The features and the products.
    orbit : Orbit
        The permutations.
    cosets : range
        Those that are summed.
    tile_bytes : int
        Bytes of the features and transforms of groups that are multiplied at a time, or half of
        those of the sums: the more of them, the fewer times their products are added to the sums.
    blocks : KeptBlocks, optional
        Rows to keep, which make estimates unbiased.
    """

    layout: Layout
    orbit: Orbit
    cosets: range
    tile_bytes: int
    blocks: KeptBlocks | None = None

    @property
    def name(self) -> str:
        """The name of the pass."""
        return "shifts" if self.orbit.shifted else "permutation null"

    @property
    def groups(self) -> RowGroups:
        """The groups of all rows."""
        return self.orbit.groups

    @property
    def shape(self) -> tuple[int, int, int]:
        """Cosets, frequencies and products."""
        frequencies = self.groups.size // 2 + 1 if self.orbit.shifted else 1
        return len(self.cosets), frequencies, self.layout.n_products

    @property
    def solve_bytes(self) -> int:
        """Bytes that `covariances` takes with what it is given."""
        cosets, _, products = self.shape
        shifted = self.layout.dtype.itemsize * cosets * self.orbit.n_shifts * products
        return self._state_bytes + shifted

    def footprint(self, rows: int) -> Footprint:
        """Cost of a block of so many rows."""
        layout = self.layout
        tile = min(self._tile_groups, max(1, rows // self.groups.size))
        batch_rows = min(tile, self._batch_groups) * self.groups.size
        transformed = 2 * layout.n_features * layout.dtype.itemsize  # or their squares
        batch = layout.scratch(batch_rows) + batch_rows * transformed
        waiting = max(
            self._slab(crossing)
            * (math.prod(crossing.shape) + min(tile, _BATCH_ROWS) * crossing.shape[0])
            for crossing in layout.crossings
        )
        orders = 3 * 8 * tile * self.groups.size
        small = layout.n_features + sum(s.map.n_features for _, s in layout.kernels)
        small += len(layout.kernels) * (len(layout.kernels) + 1)
        kept = 0 if self.blocks is None else self.blocks.nbytes(rows)
        return Footprint(
            payload=layout.nbytes,
            scratch=tile * self._group_bytes + batch + self._dtype.itemsize * waiting + orders,
            state=self._state_bytes + 8 * small + kept,
        )

    def chunk(self, block: GroupBlock) -> OrbitSums:
        """Sums over a run of groups."""
        count, raw = len(self.layout.kernels), (s.map.n_features for _, s in self.layout.kernels)
        sums = OrbitSums(
            np.zeros(self.shape, self._state_dtype),
            np.zeros(self.layout.n_features),
            np.zeros(sum(raw)),
            np.zeros(count),
            np.zeros((count, count)),
            np.empty((0, 0, 0)) if self.blocks is None else self.blocks.rows_of(block),
        )
        for at in _slices(block.n_groups, self._tile_groups):
            self._add_tile(block, at.start, at.stop, sums)
        if block.n_left:
            self._add_left_over(block, sums)
        return sums

    def combine(self, left: OrbitSums, right: OrbitSums) -> OrbitSums:
        """Add the sums; the rows that are kept follow each other."""
        kept = np.concatenate([left.kept, right.kept])
        empty = kept[:0]
        sums = add(left._replace(kept=empty), right._replace(kept=empty))
        return sums._replace(kept=kept)

    def covariances(self, sums: OrbitSums) -> Matrix:
        """Cross-covariances of the features that are summed, shape (N, P); overwrites the sums.

        Permutations leave the sums of either side as they are, so that the product of the means is
        the same for all, which is to say at frequency 0. They are in the precision of the features,
        as the transforms of those are.
        """
        n, shifts = self.groups.n, self.orbit.n_shifts
        for crossing in self.layout.crossings:
            product = np.outer(sums.sums[crossing.first], sums.sums[crossing.second])
            # The same at every shift, which in the transform is all at frequency 0.
            crossing.of(sums.cross)[:, 0] -= shifts / n * product
        cross = self._transformed_back(sums.cross) if self.orbit.shifted else sums.cross.real
        cross /= n
        return cross.reshape(-1, cross.shape[2])

    def _transformed_back(self, spectra: Transform) -> Matrix:
        """From frequencies to shifts, (R, F, P) to (R, b, P), some of the products at a time."""
        cosets, frequencies, products = spectra.shape
        cross = np.empty((cosets, self.orbit.n_shifts, products), self.layout.dtype)
        step = max(1, _TRANSFORMED // (cosets * frequencies))
        for at in _slices(products, step):
            some = spectra[..., at].astype(self._dtype)
            cross[..., at] = scipy.fft.irfft(some, self.orbit.n_shifts, axis=1, overwrite_x=True)
        return cross

    @property
    def _dtype(self) -> np.dtype[Any]:
        """Precision of the transforms."""
        dtype = self.layout.dtype
        return np.result_type(dtype, np.complex64) if self.orbit.shifted else dtype

    @property
    def _state_dtype(self) -> np.dtype[Any]:
        # In single precision results differed by 4e-8 between ways to cut the rows into tasks.
        return np.dtype(np.complex128 if self.orbit.shifted else np.float64)

    @property
    def _state_bytes(self) -> int:
        return self._state_dtype.itemsize * math.prod(self.shape)

    @property
    def _first_moved(self) -> int:
        """Where the features begin that permutations move."""
        return int(min(crossing.second.start for crossing in self.layout.crossings))

    @property
    def _are_apart(self) -> bool:
        """Whether permutations move all features of second variables, and none of first ones."""
        return all(crossing.first.stop <= self._first_moved for crossing in self.layout.crossings)

    @property
    def _n_moved(self) -> int:
        return self.layout.n_features - self._first_moved

    @property
    def _n_kept(self) -> int:
        """Features that are kept as they are, for cosets."""
        return self._n_moved if self.cosets.stop > 1 else 0

    @property
    def _rows(self) -> int:
        """Rows of the transforms of a group."""
        return 1 if self.orbit.shifted else self.groups.size

    @property
    def _group_bytes(self) -> int:
        """Bytes of the transforms of a group, its features, and both in another order."""
        features = self.layout.n_features + self._n_kept
        transformed = features * self._dtype.itemsize * self.shape[1] * self._rows
        copies = 2 if self.orbit.shifted else 1
        return transformed + copies * self._n_kept * self.layout.dtype.itemsize * self.groups.size

    @property
    def _tile_groups(self) -> int:
        """Groups whose transforms are multiplied at a time."""
        size = max(self.tile_bytes, self._state_bytes // 2)
        return max(1, min(_MOST_GROUPS, size // self._group_bytes))

    @property
    def _batch_groups(self) -> int:
        """Groups whose features are made at a time."""
        most = max(side.map.n_features for _, side in self.layout.kernels)
        return max(1, min(_BATCH // most, _BATCH_ROWS) // self.groups.size)

    def _slab(self, crossing: Crossing) -> int:
        """Frequencies that are multiplied at a time."""
        return min(self.shape[1], max(1, _PRODUCTS // math.prod(crossing.shape)))

    def _add_tile(self, block: GroupBlock, start: int, stop: int, sums: OrbitSums) -> None:
        """Add the sums over some of the groups of a block."""
        still, features = self._transforms(block, start, stop, sums)
        for total, coset in zip(sums.cross, self.cosets, strict=True):
            moved = still[..., self._first_moved :]
            # The transforms of the first variable serve all cosets, which permute the second alone.
            if coset:
                orders = self.orbit.orders(coset, block.first + start, stop - start)
                moved = self._transform(_permuted(features, orders))
            self._add_products(total, still, moved)

    def _transforms(
        self, block: GroupBlock, start: int, stop: int, sums: OrbitSums
    ) -> tuple[Transform, Matrix]:
        """Those of groups, (F, g, D), and the features that cosets move, (g, b, D_2).

        Adds up the norms of the features on the way.
        """
        layout, b, rows, count = self.layout, self.groups.size, self._rows, stop - start
        transforms = np.empty((self.shape[1], count * rows, layout.n_features), self._dtype)
        kept = np.empty((count, b, self._n_kept), layout.dtype)
        norms = np.empty((count, len(layout.kernels)))
        for at in _slices(count, self._batch_groups):
            of = slice((start + at.start) * b, (start + at.stop) * b)
            features, norms[at] = self._features([x[of] for x in block.values], sums)
            self._write(self._transform(features), transforms[:, at.start * rows : at.stop * rows])
            if self._n_kept:
                kept[at] = features[..., self._first_moved :]
        sums.norms[:] += norms.sum(axis=0)
        # The bound on rounding needs products of norms within groups.
        sums.products[:] += norms.T @ norms
        return transforms, kept

    def _write(self, transforms: Transform, out: Transform) -> None:
        """Those of features that never move are conjugate, where they are multiplied as such."""
        at = self._first_moved if self._are_apart else 0
        np.conj(transforms[..., :at], out=out[..., :at])
        out[..., at:] = transforms[..., at:]

    def _features(self, values: list[Matrix], sums: OrbitSums) -> tuple[Matrix, Vector]:
        """Those of rows of groups that are summed, (g, b, D), and norms of kernels, (g, K)."""
        layout, b = self.layout, self.groups.size
        features = np.empty((len(values[0]), layout.n_features), layout.dtype)
        for number, side, raw in layout.raw(values):
            side.write_summed(raw, features[:, layout.places[number]])
            # The bound on rounding needs the features before they are whitened.
            sums.raw[layout.raw_places[number]] += _squared_norms(raw)
        sums.sums[:] += _group_sums(features, b).sum(axis=0)
        squares = _group_sums(np.square(features), b)
        firsts = [place.start for place in layout.places.values()]
        # Norms of every kernel are sums over its columns, which begin at `firsts`.
        return features.reshape(-1, b, layout.n_features), np.add.reduceat(squares, firsts, axis=1)

    def _transform(self, features: Matrix) -> Transform:
        """Over the rows of groups, (g, b, D) to (F, g, D); without shifts all rows, (1, g b, D)."""
        count, b, width = features.shape
        if not self.orbit.shifted:
            return features.reshape(1, count * b, width)
        # Frequencies come first, so that each is a matrix to be multiplied.
        transforms: Transform = scipy.fft.rfft(features, axis=1).swapaxes(0, 1)
        return transforms

    def _add_products(self, total: Transform, still: Transform, moved: Transform) -> None:
        """Add products of (F, g, D) and (F, g, D_2), summed over groups, to those of a coset."""
        first_moved = self._first_moved
        for crossing in self.layout.crossings:
            second = slice(crossing.second.start - first_moved, crossing.second.stop - first_moved)
            for at in _slices(still.shape[0], self._slab(crossing)):
                for rows in _slices(still.shape[1], _BATCH_ROWS):
                    left = still[at, rows, crossing.first].swapaxes(1, 2)
                    # conj(F f) F h is the transform of sum_i f(i) h(i + k).
                    left = left if self._are_apart else left.conj()
                    # A product of matrices for each frequency, which sums over the groups.
                    crossing.of(total)[at] += left @ moved[at, rows, second]

    def _add_left_over(self, block: GroupBlock, sums: OrbitSums) -> None:
        """Add rows that no permutation moves; what all shifts share is at frequency 0."""
        grouped = block.n_groups * self.groups.size
        features = self.layout.features([x[grouped:] for x in block.values]).astype(np.float64)
        sums.sums[:] += features.sum(axis=0)
        for crossing in self.layout.crossings:
            product = features[:, crossing.first].T @ features[:, crossing.second]
            crossing.of(sums.cross)[:, 0] += self.orbit.n_shifts * product


def _slices(count: int, step: int) -> Iterator[slice]:
    """So many at a time."""
    return (slice(start, min(start + step, count)) for start in range(0, count, step))


def _permuted(features: Matrix, orders: NDArray[np.intp]) -> Matrix:
    """Features (g, b, D) with the rows of groups in other orders (g, b)."""
    moved: Matrix = features[np.arange(len(orders))[:, None], orders]
    return moved


def _group_sums(values: Matrix, b: int) -> Vector:
    """Over the rows of groups: (g b, D) to (g, D)."""
    grouped = values.reshape(-1, b, values.shape[1])
    sums: Vector = (np.ones((1, b), values.dtype) @ grouped)[:, 0].astype(np.float64)
    return sums


def _squared_norms(values: Matrix) -> Vector:
    """Squared norms of columns, whose numbers may be side by side: (b, D) to (D,)."""
    if values.flags.f_contiguous:
        norms: Vector = np.vecdot(values.T, values.T)
    else:
        norms = np.einsum("ij,ij->j", values, values)
    return norms
