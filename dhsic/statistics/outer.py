"""The outer contraction: cross-covariances of features, of the data and under permutations.

A statistic is n |C|^2, or another measure of the cross-covariance C of the features of two
variables (Zhang et al. 2018, equations 31 and 39), with the features held fixed. Under the
permutations of a group that holds the identity its rank is exact (Hemerik and Goeman 2018), as it
is under permutations drawn at random.

With features f and h of two variables, the sums over a group of f(i) h(i + k)' for every shift k
are circular cross-correlations: a product of two Fourier transforms a frequency, summed over
groups, transformed back once in the end. Without shifts a coset is one product of matrices, of the
features of all rows with those of the other variable in another order. Squared norms add up over
the features of the first variable, so that parts of these serve where all do not fit in memory.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise, product
from typing import Any, NamedTuple, Self

import numpy as np
import scipy
from numpy.typing import NDArray

from dhsic.engine.passes import Footprint, GroupBlock, RowGroups, add
from dhsic.engine.plan import DriverStep
from dhsic.engine.session import Session
from dhsic.linalg import rounding_unit, solve_lower
from dhsic.statistics.blocks import KeptBlocks
from dhsic.statistics.features import Crossing, Features, Layout, ProductPlace
from dhsic.statistics.orbit import Orbit, PermutedPass, tile_error, transform_error
from dhsic.statistics.replicate import Permuted, Statistic

Matrix = NDArray[np.floating[Any]]
Transform = NDArray[np.inexact[Any]]
Vector = NDArray[np.float64]
Factors = tuple[Vector | None, Vector | None]
Pairs = Sequence[tuple[int, ...]]

_WIDE = 256  # features, beyond which whitening them row by row takes long
_TILE_BYTES = 2**25  # of the features and transforms in a task
_LEAST_TILE_BYTES = 2**20
_SLAB_BYTES = 2**21  # of cross-covariances that are whitened at a time
_SERIAL_BYTES = 2**22  # of cross-covariances that are sooner measured than sent to threads
_SAFETY = 4.0
_MOST_GROUPS = 64  # of a tile; more do not spare time
_BATCH = 3 * 2**17  # entries of features of a kernel that are made at a time
_BATCH_ROWS = 4096  # float32 sums of more would lose digits
_PRODUCTS = 2**17  # entries of products that wait to be added
_TRANSFORMED = 2**15  # entries of sums that are transformed back at a time, which a cache holds


class Measure(NamedTuple):
    """How dependence is measured by whitened cross-covariances."""

    quantity: str
    """Name of the estimate."""
    size: Callable[[Matrix], Vector]
    """From (b, D_1, D_2) to (b,); n times it is the statistic."""
    value: Callable[[float], float] = float
    """The estimate, from its size."""
    adds: bool = False
    """Whether the sizes of parts of the features of the first variable add up to that of all."""


def squared_frobenius_norms(cross: Matrix) -> Vector:
    """|C|^2 of every cross-covariance: (b, D_1, D_2) to (b,)."""
    # The Hilbert-Schmidt norm of a matrix is its Frobenius norm (Zhang et al. 2018, section 4).
    norms: Vector = np.einsum("bij,bij->b", cross, cross)
    return norms


SQUARED_HSIC = Measure("squared HSIC", squared_frobenius_norms, adds=True)


def whiten(cross: Matrix, factors: Factors) -> Matrix:
    """L_1^-1 C L_2^-T of every cross-covariance, shape (b, D_1, D_2), or a side as it is."""
    for factor in factors:
        if factor is not None:
            b, d, e = cross.shape
            # One triangular solve serves all replicates, whose matrices stand side by side.
            beside = cross.transpose(1, 0, 2).reshape(d, b * e)
            cross = solve_lower(factor, beside).reshape(d, b, e).transpose(1, 0, 2)
        cross = cross.swapaxes(1, 2)
    return cross


@dataclass(frozen=True, eq=False)
class OuterStatistic(Statistic["OuterSums"]):
    """Measures of the cross-covariances of pairs of kernels, n times.

    Parameters
    ----------
    session : Session
        The run.
    features : sequence of Features
        Those of all kernels.
    pairs : sequence of tuple of int
        C pairs of their numbers; the variable of the second is permuted.
    measure : Measure, optional
        The size of cross-covariances.
    unbiased : bool, optional
        Whether the first pass keeps rows for `unbiased_hsic`.
    beside : sequence of tuple of int, optional
        Every pair of which the first pass tells `Told`; () in the place of others.
    blocks : int, optional
        Blocks of rows that are left out of these one by one; none where it is 1.
    own : bool, optional
        Whether both kernels of these are measured with themselves.
    """

    session: Session
    features: Sequence[Features]
    pairs: Pairs
    measure: Measure = SQUARED_HSIC
    unbiased: bool = False
    beside: Pairs = ()
    blocks: int = 1
    own: bool = False

    def __len__(self) -> int:
        return len(self.pairs)

    def part(self, numbers: Sequence[int]) -> Self:
        """Some of the statistics."""
        pairs = [self.pairs[c] for c in numbers]
        beside = [self.beside[c] for c in numbers] if self.beside else ()
        unbiased = self.unbiased and 0 in numbers
        return self._alike(pairs=pairs, unbiased=unbiased, beside=beside)

    def bare(self) -> Self:
        """The same without sums of blocks of rows."""
        return self if self.blocks == 1 else self._alike(blocks=1)

    def _alike(self, **changed: Any) -> Self:
        """With the same features whitened row by row."""
        other = replace(self, **changed)
        other.__dict__["_columns"] = self._columns
        return other

    def largest(self) -> Self:
        """The one of the most products."""
        counts = [math.prod(self.features[k].n_summed for k in pair) for pair in self.pairs]
        return self.part([counts.index(max(counts))])

    def ordered(self, numbers: Sequence[int]) -> Sequence[int]:
        """Those with one kernel of the variable that has the more features, one after another."""
        counts = [
            sum(self.features[k].n_summed for k in {self.pairs[c][side] for c in numbers})
            for side in (0, 1)
        ]
        longer = int(counts[1] > counts[0])
        return sorted(numbers, key=lambda c: (self.pairs[c][longer], self.pairs[c]))

    @property
    def adds(self) -> bool:
        """Whether sizes add up over the features of the first variable."""
        return self.measure.adds

    def addends(self, fits: Callable[[Self], bool]) -> list[Self]:
        """As few parts of the features of the first variable of a pair as fit."""
        if not self.adds or not fits(self._of(slice(0, 1))):
            return []
        count = self.features[self.pairs[0][0]].n_summed
        # Rounded up, the first part is the longest: what fits for it fits for all.
        longest = [-(-count // parts) for parts in range(1, count)]
        parts = 1 + bisect_left(longest, True, key=lambda size: fits(self._of(slice(0, size))))
        cuts = [-(-count * i // parts) for i in range(parts + 1)]
        return [self._of(slice(*both)) for both in pairwise(cuts)]

    def _of(self, at: slice) -> Self:
        """The part of some features of the first variable of a pair."""
        left, right = (self.features[k] for k in self.pairs[0])
        matrix = np.eye(left.n_features) if left.by_row is None else left.by_row
        # What the first pass tells besides is of all features.
        features, first = (replace(left, matrix=matrix[at]), right, left), at.start == 0
        unbiased, beside = self.unbiased and first, ((2, 1),) if first and any(self.beside) else ()
        return replace(self, features=features, pairs=((0, 1),), unbiased=unbiased, beside=beside)

    def over(self, orbit: Orbit, cosets: range) -> OuterPass:
        """The pass that sums for the permutations of some cosets."""
        # Less than is quick where many threads share the memory.
        runtime = self.session.runtime
        share = max(1, runtime.pass_bytes // (4 * runtime.worker_threads))
        blocks = None
        if self.unbiased and cosets.start == 0 and self.session.moves is None:
            blocks = KeptBlocks.of(self.session, orbit.groups)
        beside = () if cosets.start else self.beside
        products = tuple(dict.fromkeys(p for pair in beside for p in self._measured(pair)))
        kernels = {k for pair in (*self.pairs, *products) for k in pair}
        matrices = len(orbit) if len(orbit) > 1 else self.blocks
        layout = Layout.of({k: self._carried(k, matrices) for k in kernels}, self.pairs)
        return OuterPass(
            layout,
            orbit,
            cosets,
            min(_TILE_BYTES, max(_LEAST_TILE_BYTES, 2 ** (share.bit_length() - 1))),
            blocks,
            Apart.of(layout, products, orbit.groups, self.blocks),
        )

    def _measured(self, pair: tuple[int, ...]) -> list[tuple[int, ...]]:
        """A pair of which more is told, and both kernels with themselves where that is."""
        return [pair, *((k, k) for k in pair if self.own)] if pair else []

    @cached_property
    def _columns(self) -> dict[int, int]:
        """Features, for every kernel, of all those that it has pairs with."""
        others: dict[int, set[int]] = {}
        for first, second in self.pairs:
            others.setdefault(first, set()).add(second)
            others.setdefault(second, set()).add(first)
        return {k: sum(self.features[o].n_summed for o in some - {k}) for k, some in others.items()}

    def _carried(self, k: int, matrices: int) -> Features:
        """The features of a kernel, whitened row by row where that is quicker than afterwards.

        Or where float32 products would leave too few digits.
        """
        features, matrix = self.features[k], self.features[k].matrix
        d, dtype = features.n_summed, features.map.dtype
        if matrix is None and features.factor is not None:
            # Fewer rows than columns of the cross-covariances that it has are quicker to whiten. Of
            # all of them, so that the digits are the same however much a pass takes.
            few_rows = 2 * self.session.n <= matrices * self._columns.get(k, 0)
            single = dtype == np.float32 and d <= _WIDE
            matrix = features.inverse if single or few_rows else None
        return features.carried(None if matrix is None else matrix.astype(dtype, copy=False))

    def step(self, session: Session, reduction: Any) -> DriverStep:
        """The bytes of `values`, with those of the sums."""
        needed = _SLAB_BYTES * session.runtime.worker_threads
        slabs = 4 * min(needed, reduction.solve_bytes // 2)
        widest = max(self.features[k].n_summed for pair in self.pairs for k in pair)
        beside = 2 * reduction.apart.nbytes
        return DriverStep("solve", reduction.solve_bytes + slabs + 3 * 8 * widest**2 + beside)

    def values(self, session: Session, reduction: Any, sums: OuterSums) -> Permuted:
        """The statistics of the sums, which are overwritten."""
        errors = np.array([self._rounding_error(reduction, sums, pair) for pair in self.pairs])
        cross = reduction.covariances(sums)
        # Those that still whiten the cross-covariances.
        factor = {
            k: None if carried.matrix is not None else self.features[k].after
            for k, carried in reduction.layout.kernels.items()
        }

        def measured(cross: Matrix, pairs: Pairs, layout: Layout) -> Vector:
            places = tuple(map(layout.place, pairs))
            factors = tuple((factor[first], factor[second]) for first, second in pairs)
            sizes_of = _PermutedSizes(cross, places, factors, self.measure.size)
            if cross.nbytes <= _SERIAL_BYTES:
                return sizes_of(range(len(cross)))
            return np.concatenate(session.map("solve", sizes_of, len(cross)))

        sizes = measured(cross, self.pairs, reduction.layout)
        sizes *= session.n
        apart, of = reduction.apart, dict[tuple[int, ...], Vector]()
        if apart.pairs:
            each = measured(apart.covariances(sums), apart.pairs, apart.layout)
            of = dict(zip(apart.pairs, each.T, strict=True))
        if self.session.deletion is not None:
            self.session.deletion.sizes[:] = apart.rows.tolist()
        told = [
            Told(np.stack([of[one] for one in self._measured(pair)], axis=1)) if pair else Told()
            for pair in self.beside or [()] * len(self)
        ]
        if reduction.blocks is not None:
            told[0] = told[0]._replace(kept=(reduction.blocks, sums.kept))
        return Permuted(sizes, errors, told)

    def _rounding_error(
        self, reduction: OuterPass, sums: OuterSums, pair: tuple[int, ...]
    ) -> float:
        """The most that rounding may leave in the root of a statistic, in any permutation.

        The error of a transform is relative to the norm of the features in a group, and errors of
        groups are independent, since their rows are in other orders: their squares add up. Those of
        the features themselves come before they are whitened. With a factor for safety.
        """
        dtype, orbit = reduction.layout.dtype, reduction.orbit
        i, j = (list(reduction.layout.kernels).index(number) for number in pair)
        spread = np.sqrt(sums.norms[i] * sums.norms[j])
        # sqrt(sum_g |f_g|^2 |h_g|^2) / (|f| |h|), about 1 / sqrt(groups) where groups are alike.
        share = np.sqrt(sums.products[i, j]) / spread if spread else 0.0
        (raw, norm), (other_raw, other_norm) = (self._norms(reduction, sums, k) for k in pair)
        errors = transform_error(dtype, orbit.n_shifts) * norm * other_norm
        errors += tile_error(dtype) * (raw * other_norm + norm * other_raw)
        error = _SAFETY * float(share * errors) / math.sqrt(orbit.groups.n)
        # Features that overflow have no error that is known: all replicates tie.
        return math.inf if math.isnan(error) else error

    def _norms(self, reduction: OuterPass, sums: OuterSums, k: int) -> tuple[float, float]:
        """Norms of the features about 0, and about their means as the sums hold them.

        Errors of features that are whitened afterwards grow as if they were independent.
        """
        layout = reduction.layout
        features, squares = layout.kernels[k], sums.raw[layout.raw_places[k]]
        # Squares about 0, from those about the provisional mean, from which the sums are about 0.
        about = squares + reduction.groups.n * np.square(features.centre, dtype=np.float64)
        by, weights = features.matrix, np.ones(len(squares))
        if (whitening := self.features[k].by_row if by is None else by) is not None:
            # sum_a (L^-1)_aj^2 is what whitening makes of an independent error of feature j.
            weights = np.square(whitening, dtype=np.float64).sum(axis=0)
        norm = weights @ squares if by is None else sums.norms[list(layout.kernels).index(k)]
        return math.sqrt(weights @ about), math.sqrt(norm)


class Told(NamedTuple):
    """What the first pass says of a pair of kernels, of the data as they are."""

    sizes: Vector = np.empty((0, 1))
    """Of the pair, and of both kernels with themselves where they are measured, shape (b, 1 or 3).

    Of all rows, and without each of the blocks.
    """
    kept: tuple[KeptBlocks, NDArray[Any]] | None = None
    """Rows that `KeptBlocks` keeps."""


@dataclass(frozen=True)
class _PermutedSizes:
    """Sizes of cross-covariances under many permutations.

    Parameters
    ----------
    cross : ndarray, shape (N, P)
        Cross-covariances of the features of all pairs.
    places : tuple of ProductPlace
        Those of the pairs.
    factors : tuple of (ndarray or None, ndarray or None)
        L that still whiten them.
    size : callable
        That of a `Measure`.
    """

    cross: Matrix
    places: tuple[ProductPlace, ...]
    factors: tuple[Factors, ...]
    size: Callable[[Matrix], Vector]

    def __call__(self, permutations: range) -> Vector:
        """Sizes under some of the permutations, shape (permutations, pairs)."""
        cross = self.cross[permutations.start : permutations.stop]
        sizes = np.empty((len(cross), len(self.places)))
        for c, (place, factors) in enumerate(zip(self.places, self.factors, strict=True)):
            whole = place.of(cross)
            for at in _slices(len(whole), max(1, _SLAB_BYTES // (8 * math.prod(whole.shape[1:])))):
                # In float64, since whitening magnifies what rounding leaves.
                slab = whole[at].astype(np.float64, copy=False)
                sizes[at, c] = self.size(whiten(slab, factors))
        return sizes


class OuterSums(NamedTuple):
    """Sums over rows for K kernels, R cosets and P products of D features."""

    cross: Transform
    """Products, conjugate transforms over the shifts (R, b // 2 + 1, P); (R, 1, P) without them."""
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
    means: Vector
    """Sums of features over the rows of B blocks, see `Apart`, shape (B, D)."""
    apart: Vector
    """The same of products, shape (B, P)."""


@dataclass(frozen=True)
class Apart:
    """Products of features of the rows as they are, summed over blocks of rows apart.

    Of B consecutive rows each is in another block, group after group. The rows of a group are in a
    random order, so that blocks are drawn whatever the order of the data. Left over ones go with
    the last.

    Parameters
    ----------
    pairs : sequence of tuple of int
        Numbers of kernels.
    layout : Layout
        Their features and products.
    columns : ndarray of int
        These features, among all of a pass.
    groups : RowGroups
        All groups.
    blocks : int
        B.
    """

    pairs: Pairs
    layout: Layout
    columns: NDArray[np.intp]
    groups: RowGroups
    blocks: int

    @classmethod
    def of(cls, whole: Layout, pairs: Pairs, groups: RowGroups, blocks: int) -> Self:
        """Those of some kernels of a pass."""
        layout = Layout.of({k: whole.kernels[k] for pair in pairs for k in pair}, pairs)
        columns = (np.r_[whole.places[k]] for k in layout.kernels)
        return cls(pairs, layout, np.concatenate([np.arange(0), *columns]), groups, blocks)

    @property
    def nbytes(self) -> int:
        """Bytes of the sums."""
        return 8 * self.blocks * (self.layout.n_products + len(self.columns))

    @property
    def rows(self) -> NDArray[np.intp]:
        """Of every block."""
        each, more = divmod(self.groups.n - self.groups.n_left, self.blocks)
        rows = each + (np.arange(self.blocks) < more)
        rows[-1] += self.groups.n_left
        return rows

    def scratch(self, rows: int, itemsize: int) -> int:
        """Bytes that the features of so many rows take block by block."""
        largest = max((math.prod(one.shape) for one in self.layout.crossings), default=0)
        columns = (rows + 2 * self.blocks) * len(self.columns)
        return itemsize * (columns + 2 * self.blocks * largest) if self.pairs else 0

    def add(self, features: Matrix, first: int, sums: OuterSums) -> None:
        """Add products of the features of groups from a number on, (g, b, D)."""
        if not self.pairs:
            return
        # From the row of block 0 on to that of the last: zeros add nothing.
        before, width = first * self.groups.size % self.blocks, len(self.columns)
        some = features.reshape(-1, features.shape[-1])
        count = -(-(before + len(some)) // self.blocks)
        rows = np.zeros((count, self.blocks, width), some.dtype)
        within = rows.reshape(-1, width)[before : before + len(some)]
        np.take(some, self.columns, axis=1, out=within, mode="clip")
        self._add(rows.swapaxes(0, 1), sums.means, sums.apart)

    def add_left_over(self, features: Vector, sums: OuterSums) -> None:
        """Add those of rows that are in no group, (b, D)."""
        if self.pairs:
            self._add(features[None, :, self.columns], sums.means[-1:], sums.apart[-1:])

    def _add(self, rows: Matrix, means: Vector, products: Vector) -> None:
        for at in _slices(rows.shape[1], _BATCH_ROWS):
            some = rows[:, at]
            means += some.sum(axis=1, dtype=np.float64)
            for crossing in self.layout.crossings:
                left = some[..., crossing.first].swapaxes(1, 2)
                crossing.of(products)[...] += left @ some[..., crossing.second]

    def covariances(self, sums: OuterSums) -> Vector:
        """Of all rows, and where there are several blocks without each, shape (1 + B, P).

        Overwrites the sums.
        """

        def deleted(each: NDArray[Any]) -> NDArray[Any]:
            total = each.sum(axis=0, keepdims=True)
            # In place: of many pairs these are the largest arrays of all.
            others = [np.subtract(total, each, out=each)] if self.blocks > 1 else []
            return np.concatenate([total, *others])

        n = deleted(self.rows[:, None])
        means: Vector = deleted(sums.means) / n
        products: Vector = deleted(sums.apart)
        products /= n
        for crossing in self.layout.crossings:
            left, right = means[:, crossing.first], means[:, crossing.second]
            crossing.of(products)[...] -= left[:, :, None] * right[:, None]
        return products


@dataclass(frozen=True)
class OuterPass(PermutedPass[OuterSums]):
    """All sums of `OuterSums`, in one pass.

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
    blocks : KeptBlocks or None
        Rows to keep, which make estimates unbiased.
    apart : Apart
        Products of blocks of rows.
    """

    layout: Layout
    orbit: Orbit
    cosets: range
    tile_bytes: int
    blocks: KeptBlocks | None
    apart: Apart

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
        small = layout.n_features + layout.n_raw
        small += len(layout.kernels) * (len(layout.kernels) + 1)
        kept = 0 if self.blocks is None else self.blocks.nbytes(rows)
        rows = batch_rows if self.orbit.shifted else tile * self.groups.size
        batch += self.apart.scratch(rows, layout.dtype.itemsize)
        return Footprint(
            payload=layout.nbytes,
            scratch=tile * self._group_bytes + batch + self._dtype.itemsize * waiting + orders,
            state=self._state_bytes + 8 * small + kept + self.apart.nbytes,
            apart=self.apart.nbytes,
        )

    def chunk(self, block: GroupBlock) -> OuterSums:
        """Sums over a run of groups."""
        count = len(self.layout.kernels)
        sums = OuterSums(
            np.zeros(self.shape, self._state_dtype),
            np.zeros(self.layout.n_features),
            np.zeros(self.layout.n_raw),
            np.zeros(count),
            np.zeros((count, count)),
            np.empty((0, 0, 0)) if self.blocks is None else self.blocks.rows_of(block),
            np.zeros((self.apart.blocks, len(self.apart.columns))),
            np.zeros((self.apart.blocks, self.apart.layout.n_products)),
        )
        for at in _slices(block.n_groups, self._tile_groups):
            self._add_tile(block, at.start, at.stop, sums)
        if block.n_left:
            self._add_left_over(block, sums)
        for pair in self._by_blocks:
            total = self.apart.layout.place(pair).of(sums.apart).sum(axis=0)
            self.layout.place(pair).of(sums.cross)[:] = total
        return sums

    @property
    def _by_blocks(self) -> set[tuple[int, ...]]:
        """All pairs, where nothing is permuted and blocks have all products."""
        crossings = self.layout.crossings
        pairs: set[tuple[int, ...]] = {pair for one in crossings for pair in product(*one[:2])}
        return pairs if len(self.orbit) == 1 and pairs <= {*self.apart.pairs} else set()

    def combine(self, left: OuterSums, right: OuterSums) -> OuterSums:
        """Add the sums; the rows that are kept follow each other."""
        kept = np.concatenate([left.kept, right.kept])
        empty = kept[:0]
        sums = add(left._replace(kept=empty), right._replace(kept=empty))
        return sums._replace(kept=kept)

    def covariances(self, sums: OuterSums) -> Matrix:
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
            # conj(F f) F h is the transform of sum_i f(i) h(i + k), and its conjugate is summed.
            some = np.conj(spectra[..., at]).astype(self._dtype)
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
    def _n_kept(self) -> int:
        """Features that are kept as they are, for cosets."""
        return self.layout.n_features - self._first_moved if self.cosets.stop > 1 else 0

    @property
    def _rows(self) -> int:
        """Rows of the transforms of a group."""
        return 1 if self.orbit.shifted else self.groups.size

    @property
    def _group_bytes(self) -> int:
        """Bytes of the transforms of a group, its features, and both in another order."""
        features = 2 * self.layout.n_features - self._first_moved
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
        most = max(features.n_features for features in self.layout.kernels.values())
        return max(1, min(_BATCH // most, _BATCH_ROWS) // self.groups.size)

    def _slab(self, crossing: Crossing) -> int:
        """Frequencies that are multiplied at a time."""
        return min(self.shape[1], max(1, _PRODUCTS // math.prod(crossing.shape)))

    def _add_tile(self, block: GroupBlock, start: int, stop: int, sums: OuterSums) -> None:
        """Add the sums over some of the groups of a block."""
        still, features = self._transforms(block, start, stop, sums)
        if self._by_blocks:
            return
        for total, coset in zip(sums.cross, self.cosets, strict=True):
            # The transforms of the first variable serve all cosets, which permute the second alone.
            if coset:
                one, span = range(coset, coset + 1), (block.first + start, stop - start, 0)
                (places,) = self.orbit.places(one, 1, *span)
                rows = features.reshape(-1, self._n_kept)[places]
                moved = self._transform(rows.reshape(features.shape))
            else:
                moved = still[..., self._first_moved :].copy()
            self._add_products(total, still, np.conj(moved, out=moved))

    def _transforms(
        self, block: GroupBlock, start: int, stop: int, sums: OuterSums
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
            if self.orbit.shifted:
                self.apart.add(features, block.first + start + at.start, sums)
            transforms[:, at.start * rows : at.stop * rows] = self._transform(features)
            if self._n_kept:
                kept[at] = features[..., self._first_moved :]
        if not self.orbit.shifted:  # more rows at a time are added to the sums fewer times
            self.apart.add(transforms, block.first + start, sums)
        sums.norms[:] += norms.sum(axis=0)
        # The bound on rounding needs products of norms within groups.
        sums.products[:] += norms.T @ norms
        return transforms, kept

    def _features(self, values: list[Matrix], sums: OuterSums) -> tuple[Matrix, Vector]:
        """Those of rows of groups that are summed, (g, b, D), and norms of kernels, (g, K)."""
        layout, b = self.layout, self.groups.size
        features = np.empty((len(values[0]), layout.n_features), layout.dtype)
        for number, one, raw in layout.raw(values):
            one.write(raw, features[:, layout.places[number]])
            # The bound on rounding needs the features before they are whitened.
            sums.raw[layout.raw_places[number]] += _column_norms(raw)
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
        """Add products of (F, g, D) and conjugate (F, g, D_2), summed over groups, of a coset."""
        first_moved = self._first_moved
        for crossing in self.layout.crossings:
            second = slice(crossing.second.start - first_moved, crossing.second.stop - first_moved)
            for at in _slices(still.shape[0], self._slab(crossing)):
                for rows in _slices(still.shape[1], _BATCH_ROWS):
                    left = still[at, rows, crossing.first].swapaxes(1, 2)
                    # A product of matrices for each frequency, which sums over the groups.
                    crossing.of(total)[at] += left @ moved[at, rows, second]

    def _add_left_over(self, block: GroupBlock, sums: OuterSums) -> None:
        """Add rows that no permutation moves; what all shifts share is at frequency 0."""
        grouped = block.n_groups * self.groups.size
        features = self.layout.features([x[grouped:] for x in block.values]).astype(np.float64)
        sums.sums[:] += features.sum(axis=0)
        self.apart.add_left_over(features, sums)
        for crossing in self.layout.crossings:
            product = features[:, crossing.first].T @ features[:, crossing.second]
            crossing.of(sums.cross)[:, 0] += self.orbit.n_shifts * product


def _slices(count: int, step: int) -> Iterator[slice]:
    """So many at a time."""
    return (slice(start, min(start + step, count)) for start in range(0, count, step))


def _group_sums(values: Matrix, b: int) -> Vector:
    """Over the rows of groups: (g b, D) to (g, D)."""
    grouped = values.reshape(-1, b, values.shape[1])
    sums: Vector = (np.ones((1, b), values.dtype) @ grouped)[:, 0].astype(np.float64)
    return sums


def _column_norms(values: Matrix) -> Vector:
    """Squared norms of columns, whose numbers may be side by side: (b, D) to (D,)."""
    if values.flags.f_contiguous:
        norms: Vector = np.vecdot(values.T, values.T)
    else:
        norms = np.einsum("ij,ij->j", values, values)
    return norms


def independent_rounding(session: Session, features: Iterable[Features]) -> float:
    """How far rounding alone may bring a statistic where features have no covariance."""
    spread = math.prod(one.spread for one in features)
    # Both sides are rounding here, so that their product has its square.
    return session.n * rounding_unit(session.dtype) ** 2 * spread
