"""Compute the outer contraction: cross-covariances of features, under permutations and as they are.

A statistic is n |C|^2, or another measure of the cross-covariance C of the features of two
variables (Zhang et al. 2018, equations 31 and 39), with the features held fixed. Under the
permutations of a group that holds the identity its rank is exact (Hemerik and Goeman 2018), as it
is under permutations drawn at random.

With features f and h of two variables, the sums over a group of f(i) h(i + k)' for every shift k
are circular cross-correlations: a product of two Fourier transforms a frequency, summed over
groups, transformed back once in the end. Without shifts a coset is one product of matrices, of the
features of all rows with those of the other variable in another order. Squared norms add up over
the features of the first variable, so that parts of these serve where all do not fit in memory.

After the pass and its sums, `second_moments` sums means and products of features of the data as
they are, and limit laws follow from them.

Features leave out what they do not hold of a kernel, and |C|^2 is larger than HSIC in expectation.
`block_means`, which is last, puts both right without bias by a sample of pairs of rows: in blocks,
the unbiased HSIC of the kernels less that of the features. The part that features hold has little
variance, since it is summed over all rows; the rest is small in most kernels. A pass keeps the rows
of the blocks, so that only the kernels that are reported are computed there.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise, product
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import scipy
from numpy.typing import DTypeLike, NDArray

from dhsic.engine.passes import Footprint, GroupBlock, Pass, RowBlock, RowGroups, add
from dhsic.engine.plan import DriverStep, PassPlan
from dhsic.engine.session import Session
from dhsic.features import FeatureMap, KernelFeatures, LandmarksByColumn
from dhsic.kernels import Kernel, Ranked
from dhsic.kernels.wrap import Found, rows_beside
from dhsic.linalg import (
    consecutive,
    rounding_unit,
    row_products,
    solve_lower,
    spectrum,
    squared_norms,
    u_centred,
)
from dhsic.nulls import ChiSquareMixture, Distribution, GammaDistribution, Spectral
from dhsic.statistics.gram import permutation_moments
from dhsic.statistics.orbit import (
    Groups,
    Orbit,
    Permuted,
    PermutedPass,
    Statistic,
    tile_error,
    transform_error,
)

Matrix = NDArray[np.floating[Any]]
Vector = NDArray[np.float64]
Transform = NDArray[np.inexact[Any]]
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

BOTH: Pairs = ((0, 1), (0, 0), (1, 1))
"""Products of the features of two kernels, and of either with itself."""
_MOMENT_ROWS = 1024

ESTIMATE = "unbiased estimate"
"""The step of the driver."""
_BLOCK_ROWS = 256
_GROUP = 1024  # rows
_FEWEST_BLOCK_ROWS = 32
_FEW_ROWS = 2**15  # of all, beside which wider blocks take little time
_COLUMNS = 8  # of a mean over columns, whose blocks are smaller where there are more
_MOST_BLOCKS = 256
_LEAST_BLOCKS = 4
_KEPT = 2**21  # values; most of them where variables have many columns


@dataclass(frozen=True)
class Features:
    """Features of one variable by one kernel, L^-1 (phi - c) or W (phi - c).

    Parameters
    ----------
    variable : int
        Its number.
    map : FeatureMap
        Makes phi, D numbers a row.
    centre : ndarray, shape (D,)
        Their provisional mean c, so that no digits cancel in sums.
    factor : ndarray, shape (D, D), optional
        Lower triangular L, which whitens sums of phi.
    matrix : ndarray, shape (r, D), optional
        W, by which passes make the features of a row, in place of the factor.
    normed : bool, optional
        Whether the squared norm of the features of a row stands beside them, as the last.
    sample : ndarray, shape (s, d), optional
        Rows of which c is the mean.
    landmarks : ndarray, shape (D, d), optional
        Rows of the variable that are landmarks.
    spanned : bool, optional
        Whether they hold the kernel but for what rounding leaves.
    known_spread : float, optional
        `spread`, where it is known.
    """

    variable: int
    map: FeatureMap
    centre: Matrix
    factor: Vector | None = None
    matrix: Matrix | None = None
    normed: bool = False
    sample: Matrix | None = None
    landmarks: Vector | None = None
    spanned: bool = False
    known_spread: float | None = None

    @classmethod
    def described(
        cls, variable: int, features: FeatureMap, sample: Vector, factor: Vector | None = None
    ) -> Self:
        """About the mean over a sample (s, d)."""
        centre = features(sample).mean(axis=0, dtype=np.float64).astype(features.dtype)
        return cls(variable, features, centre, factor, sample=sample)

    @classmethod
    def unseen(
        cls, variable: int, features: FeatureMap, *, whitened: bool, count: int | None = None
    ) -> Self:
        """With a mean and matrices that take no memory, for plans; `count` are summed."""
        d = features.n_features
        centre = np.broadcast_to(features.dtype.type(0), d)
        factor = np.broadcast_to(0.0, (d, d)) if whitened else None
        matrix = None if count is None else np.broadcast_to(0.0, (count, d))
        return cls(variable, features, centre, factor, matrix)

    @property
    def n_features(self) -> int:
        """D."""
        return self.map.n_features

    @property
    def n_summed(self) -> int:
        """How many are summed."""
        return (self.n_features if self.matrix is None else len(self.matrix)) + self.normed

    @property
    def nbytes(self) -> int:
        """Bytes of the map, the mean and W."""
        matrix = 0 if self.matrix is None else self.matrix.nbytes
        return self.map.nbytes + self.centre.nbytes + matrix

    @property
    def spread(self) -> float:
        """Mean squared norm of the whitened features of the sample."""
        if self.known_spread is not None:
            return self.known_spread
        features = (self.values() - self.centre).astype(np.float64)
        return float(squared_norms(self.whitened(features).T).mean())

    @cached_property
    def inverse(self) -> Vector:
        """L^-1, shape (D, D)."""
        assert self.factor is not None
        if self.factor.strides == (0, 0):  # that of a plan, which takes no memory
            return self.factor
        return solve_lower(self.factor, np.eye(self.n_features))

    @property
    def by_row(self) -> Matrix | None:
        """W, or L^-1 in its place; None where features are phi itself."""
        return self.matrix if self.matrix is not None or self.factor is None else self.inverse

    @property
    def after(self) -> Vector | None:
        """L where it whitens sums; None where W made what is summed."""
        return None if self.matrix is not None else self.factor

    def values(self) -> Matrix:
        """The phi of the sample, shape (s, D)."""
        assert self.sample is not None
        return self.map(self.sample)

    def whitened(self, features: Matrix) -> Matrix:
        """L^-1 phi, of phi (b, D)."""
        # L^-1 stands for K_zz^(-1/2) of Zhang et al. (2018), (28): a rotation, which no inner
        # product sees.
        return features if self.factor is None else solve_lower(self.factor, features.T).T

    def summed(self, features: Matrix) -> Matrix:
        """Those of rows, of phi - c (b, D)."""
        return self.whitened(features) if self.matrix is None else features @ self.matrix.T

    def carried(self, matrix: Matrix | None) -> Self:
        """What a pass needs of them, with a W of its own."""
        return replace(self, factor=None, matrix=matrix, sample=None, landmarks=None)

    def scratch(self, rows: int) -> int:
        """Bytes of phi of so many rows, about the mean too, and of what is made of it."""
        values = 2 * self.n_features + self.n_summed
        return self.map.scratch(rows) + rows * (self.map.dtype.itemsize * values + 8)

    def write(self, raw: Matrix, out: Matrix) -> None:
        """Write those that are summed, shape (b, r), of phi - c (b, D)."""
        made = out[:, :-1] if self.normed else out
        if self.matrix is not None:
            np.matmul(raw, self.matrix.T, out=made)
        else:
            made[...] = raw
        if self.normed:
            out[:, -1] = np.einsum("ij,ij->i", made, made)


class Crossing(NamedTuple):
    """Products of the features of some kernels with those of others, each side by side."""

    firsts: tuple[int, ...]
    """Numbers of kernels."""
    seconds: tuple[int, ...]
    """Numbers of kernels; replicates move the rows of their variables."""
    first: slice
    """Features of the first kernels among those of all."""
    second: slice
    """The same of the second ones."""
    at: slice
    """The products among those of all crossings."""

    @property
    def shape(self) -> tuple[int, int]:
        """Features of either side."""
        return self.first.stop - self.first.start, self.second.stop - self.second.start

    def of(self, products: NDArray[Any]) -> NDArray[Any]:
        """A view (..., D_1, D_2) of the products of all crossings (..., P)."""
        # Without a copy: a pass adds to the sums of all crossings in place.
        return products[..., self.at].reshape(*products.shape[:-1], *self.shape)


def add_products(
    crossings: Iterable[Crossing], left: NDArray[Any], right: NDArray[Any], products: NDArray[Any]
) -> None:
    """Add products of features of the same rows, (..., b, D), summed over these, to (..., P)."""
    for crossing in crossings:
        turned = left[..., crossing.first].swapaxes(-1, -2)
        crossing.of(products)[...] += turned @ right[..., crossing.second]


@dataclass(frozen=True)
class Layout:
    """Features of kernels side by side, D in all, and P products of them.

    Parameters
    ----------
    listed : tuple of (int, Features)
        The features of every kernel with its number, in their order.
    crossings : tuple of Crossing
        Every pair of kernels is in one of them.
    """

    listed: tuple[tuple[int, Features], ...]
    crossings: tuple[Crossing, ...]

    @classmethod
    def of(cls, features: Mapping[int, Features], pairs: Sequence[tuple[int, ...]]) -> Self:
        """As few crossings as hold every pair once, and no other."""
        # Pairs by their first kernel, with those that it meets.
        partners: dict[int, set[int]] = {}
        for first, second in pairs:
            partners.setdefault(first, set()).add(second)
        # Kernels with the same partners make one crossing, and so one matrix product.
        alike: dict[tuple[int, ...], list[int]] = {}
        for first, some in partners.items():
            alike.setdefault(tuple(sorted(some)), []).append(first)
        firsts = [first for some in alike.values() for first in some]
        # Firsts stand before seconds, so that what permutations move is at the end.
        moved = sorted({pair[1] for pair in pairs})
        alone = [k for k in features if k not in {*firsts, *moved}]
        order = {k: at for at, k in enumerate(dict.fromkeys([*alone, *firsts, *moved]))}
        kernels = {k: features[k] for k in order}
        places = dict(zip(order, consecutive(f.n_summed for f in kernels.values()), strict=True))
        # Only features that stand side by side are multiplied without a copy.
        blocks = [
            both
            for seconds, some in alike.items()
            for both in product(_runs(some, order), _runs(seconds, order))
        ]
        spans = [
            [slice(places[some[0]].start, places[some[-1]].stop) for some in both]
            for both in blocks
        ]
        sizes = consecutive((a.stop - a.start) * (b.stop - b.start) for a, b in spans)
        crossings = (
            Crossing(*both, a, b, at) for both, (a, b), at in zip(blocks, spans, sizes, strict=True)
        )
        return cls(tuple(kernels.items()), tuple(crossings))

    @cached_property
    def kernels(self) -> dict[int, Features]:
        """The features by the numbers of their kernels."""
        return dict(self.listed)

    @cached_property
    def _crossing_of(self) -> dict[tuple[int, ...], Crossing]:
        """That of every pair."""
        return {pair: c for c in self.crossings for pair in product(c.firsts, c.seconds)}

    @cached_property
    def places(self) -> dict[int, slice]:
        """Where the features of a kernel that are summed are."""
        places = consecutive(features.n_summed for features in self.kernels.values())
        return dict(zip(self.kernels, places, strict=True))

    @cached_property
    def raw_places(self) -> dict[int, slice]:
        """Where all phi of a kernel are."""
        places = consecutive(features.n_features for features in self.kernels.values())
        return dict(zip(self.kernels, places, strict=True))

    @property
    def n_features(self) -> int:
        """Those that are summed, D."""
        return sum(features.n_summed for features in self.kernels.values())

    @property
    def n_raw(self) -> int:
        """All phi."""
        return sum(features.n_features for features in self.kernels.values())

    @property
    def n_products(self) -> int:
        """P."""
        return int(self.crossings[-1].at.stop) if self.crossings else 0

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the features."""
        return next(iter(self.kernels.values())).map.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of the maps and what belongs to them."""
        return sum(features.nbytes for features in self.kernels.values())

    def scratch(self, rows: int) -> int:
        """Bytes of the features of so many rows and of what the costliest kernel needs."""
        each = self.kernels.values()
        largest = max(features.scratch(rows) for features in each)
        # Of every variable that has kernels of ranks its columns, their order, and all scales.
        ranked = {
            (features.variable, scale): len(kernel.knots or ())
            for features in each
            if isinstance(kernel := getattr(features.map, "kernel", None), Ranked)
            for scale in ("columns", "orders", kernel.scale)
        }
        ordered = 8 * sum(ranked.values())
        return largest + rows * (ordered + self.dtype.itemsize * self.n_features)

    def view(self, pair: tuple[int, ...], products: NDArray[Any]) -> NDArray[Any]:
        """A view (..., D_1, D_2) of the products of two kernels, of those of all (..., P)."""
        crossing, (first, second) = self._crossing_of[pair], (self.places[k] for k in pair)
        i, j = first.start - crossing.first.start, second.start - crossing.second.start
        rows, columns = first.stop - first.start, second.stop - second.start
        return crossing.of(products)[..., i : i + rows, j : j + columns]

    def features(self, values: Sequence[NDArray[Any]], dtype: DTypeLike | None = None) -> Matrix:
        """Those that are summed, of rows of all variables, shape (b, D)."""
        out = np.empty((len(values[0]), self.n_features), dtype or self.dtype)
        for number, features, raw in self.raw(values):
            features.write(raw, out[:, self.places[number]])
        return out

    def raw(self, values: Sequence[NDArray[Any]]) -> Iterator[tuple[int, Features, Matrix]]:
        """All phi - c of every kernel, shape (b, D_k)."""
        found: dict[int, Found] = {}
        for number, features in self.kernels.items():
            x, phi = values[features.variable], features.map
            if isinstance(phi, KernelFeatures):
                # To find the ranks of a column takes longer than any kernel of them.
                beside = found.setdefault(features.variable, {})
                rows = rows_beside(phi.kernel, x, phi.dtype, beside)
                whole = phi.kernel.gram(rows, phi.columns, phi.dtype)
            else:
                whole = phi(x)
            whole -= features.centre
            yield number, features, whole


def _runs(numbers: Sequence[int], order: Mapping[int, int]) -> Iterator[tuple[int, ...]]:
    """Numbers that follow each other, by their places in an order."""
    at = [order[number] for number in numbers]
    cuts = [i for i in range(1, len(at)) if at[i] != at[i - 1] + 1]
    for start, stop in pairwise([0, *cuts, len(at)]):
        yield tuple(numbers[start:stop])


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
            factors = tuple((factor[first], factor[second]) for first, second in pairs)
            views = tuple(layout.view(pair, cross) for pair in pairs)
            sizes_of = _PermutedSizes(views, factors, self.measure.size)
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
    cross : tuple of ndarray, shapes (N, D_1, D_2)
        Cross-covariances of the features of every pair.
    factors : tuple of (ndarray or None, ndarray or None)
        L that still whiten them.
    size : callable
        That of a `Measure`.
    """

    cross: tuple[Matrix, ...]
    factors: tuple[Factors, ...]
    size: Callable[[Matrix], Vector]

    def __call__(self, permutations: range) -> Vector:
        """Sizes under some of the permutations, shape (permutations, pairs)."""
        sizes = np.empty((len(permutations), len(self.cross)))
        for c, (cross, factors) in enumerate(zip(self.cross, self.factors, strict=True)):
            some = cross[permutations.start : permutations.stop]
            for at in _slices(len(some), max(1, _SLAB_BYTES // (8 * math.prod(some.shape[1:])))):
                # In float64, since whitening magnifies what rounding leaves.
                slab = some[at].astype(np.float64, copy=False)
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
        self.add_blocks(rows.swapaxes(0, 1), sums.means, sums.apart)

    def add_blocks(self, rows: Matrix, means: Vector, products: Vector) -> None:
        """Add those of the rows of some blocks, (B, b, D), to sums of these."""
        for at in _slices(rows.shape[1], _BATCH_ROWS):
            some = rows[:, at]
            means += some.sum(axis=1, dtype=np.float64)
            add_products(self.layout.crossings, some, some, products)

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
        means = (deleted(sums.means) / n)[:, None]
        products: Vector = deleted(sums.apart)
        products /= n
        add_products(self.layout.crossings, -means, means, products)
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

    alone: ClassVar[str] = "feature sums"

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
            self.layout.view(pair, sums.cross)[:] = self.apart.layout.view(pair, sums.apart).sum(
                axis=0
            )
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
        n, total = self.groups.n, sums.sums[None]
        # The same at every shift, which in the transform is all at frequency 0.
        scaled = -self.orbit.n_shifts / n * total
        add_products(self.layout.crossings, scaled, total, sums.cross[:, 0])
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
            sums.raw[layout.raw_places[number]] += squared_norms(raw)
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
        rows = features[None, :, self.apart.columns]
        self.apart.add_blocks(rows, sums.means[-1:], sums.apart[-1:])
        scaled = self.orbit.n_shifts * features
        add_products(self.layout.crossings, scaled, features, sums.cross[:, 0])


def _slices(count: int, step: int) -> Iterator[slice]:
    """So many at a time."""
    return (slice(start, min(start + step, count)) for start in range(0, count, step))


def _group_sums(values: Matrix, b: int) -> Vector:
    """Over the rows of groups: (g b, D) to (g, D)."""
    grouped = values.reshape(-1, b, values.shape[1])
    sums: Vector = (np.ones((1, b), values.dtype) @ grouped)[:, 0].astype(np.float64)
    return sums


def independent_rounding(session: Session, features: Iterable[Features]) -> float:
    """How far rounding alone may bring a statistic where features have no covariance."""
    spread = math.prod(one.spread for one in features)
    # Both sides are rounding here, so that their product has its square.
    return session.n * rounding_unit(session.dtype) ** 2 * spread


class MomentSums(NamedTuple):
    """Sums over rows, times their weights."""

    sums: Vector
    """Of functions, shape (D,)."""
    products: Vector
    """Of products of two, shape (P,)."""


@dataclass(frozen=True)
class MomentsPass(Pass[MomentSums]):
    """Sums of functions of rows and of their products.

    The functions are those of a layout, or the products of (1, f) and (1, h) of features f and h of
    two kernels: their means are known only after the pass, and with the constant what is centred is
    a linear function of the products. Sums are float64, since whitening would turn what float32
    leaves of the least eigenvalues into negative ones.

    Parameters
    ----------
    layout : Layout or Tuples
        The functions, and the crossings whose products are summed.
    n : int
        Rows of the data.
    squares : float, optional
        Mean square of the weights of the rows, which are the last variable and have the mean 1.
        Rows count alike where it is not given.
    products : bool, optional
        Whether the functions are the products of the two features of a single crossing, whose
        second moments are those of their limit law.
    name : str, optional
        Name of the pass in progress reports.
    """

    layout: Any
    n: int
    squares: float | None = None
    products: bool = False
    name: str = "feature moments"

    @property
    def shape(self) -> tuple[int, int]:
        """Features of either kernel, with the constant."""
        first, second = self.layout.crossings[0].shape
        return first + 1, second + 1

    @property
    def sizes(self) -> tuple[int, int]:
        """Functions, and products of two of them."""
        first, second = self.shape
        if self.products:
            return first * second, (first * second) ** 2
        return self.layout.n_features, int(self.layout.crossings[-1].at.stop)

    def footprint(self, rows: int) -> Footprint:
        """Cost of a block of so many rows."""
        (m, p), tile = self.sizes, min(rows, _MOMENT_ROWS)
        copies = self.layout.n_features * (1 + (self.squares is not None))
        largest = max(math.prod(crossing.shape) for crossing in self.layout.crossings)
        if self.products:  # in half of the precision, beside features with their constants twice
            copies, largest = m // 2 + 3 * (self.layout.n_features + 2), p
        scratch = self.layout.scratch(tile) + 8 * (largest + tile * copies)
        return Footprint(payload=self.layout.nbytes, scratch=scratch, state=8 * (m + p))

    def chunk(self, block: RowBlock) -> MomentSums:
        """Sums over one block."""
        sums = MomentSums(*map(np.zeros, self.sizes))
        add = self._add_products if self.products else self._add_features
        for start in range(0, block.rows, _MOMENT_ROWS):
            values = [x[start : start + _MOMENT_ROWS] for x in block.values]
            add(self.layout.features(values, np.float64), values[-1], sums)
        return sums

    def _add_features(self, features: Matrix, weights: Vector, sums: MomentSums) -> None:
        weighted = features if self.squares is None else features * weights
        sums.sums[:] += weighted.sum(axis=0)
        add_products(self.layout.crossings, weighted, features, sums.products)

    def _add_products(self, features: Matrix, weights: Vector, sums: MomentSums) -> None:
        (crossing,) = self.layout.crossings
        parts = features[:, crossing.first], features[:, crossing.second]
        first, second = (np.insert(part, 0, 1.0, axis=1) for part in parts)
        sums.sums[:] += (first.T @ (weights * second)).ravel()
        # Terms enter the law by their squares, each over the part of its variance that is left.
        first *= weights / np.sqrt(self.left(weights))
        # In single precision, at half of the cost: the law needs few digits, and tiles are added up
        # in double precision.
        rows = row_products(first.astype(np.float32), second.astype(np.float32))
        sums.products[:] += (rows.T @ rows).ravel()

    def of(self, sums: MomentSums) -> Iterator[tuple[Vector, Vector]]:
        """Means and covariance of the functions of every crossing of some with themselves."""
        for crossing in self.layout.crossings:
            means = sums.sums[crossing.first] / self.n
            yield means, crossing.of(sums.products) / self.n - np.outer(means, means)

    def left(self, weights: Vector) -> Vector:
        """The variance that is left of an error of variance 1 about the weighted mean, as weights.

        With shares s = w / sum w it is v_i = 1 - 2 s_i + sum_j s_j^2. For independent errors of
        both variables, A = diag(w) - w w' / sum w makes the sum of products of what is left, whose
        variance is |A|^2 = sum_i w_i^2 v_i. The squares of the terms have the expectation
        sum_i w_i^2 v_i^2, and divided by v_i the same.
        """
        assert self.squares is not None
        return 1.0 - (2.0 * weights - self.squares) / self.n

    def centred(self, sums: MomentSums) -> tuple[Vector, Vector]:
        """C, shape (r, s), and the second moment of its terms, shape (r s, r s)."""
        means = sums.sums.reshape(self.shape) / sums.sums[0]
        # Centring is linear: the second moment of centred terms follows from that of the plain
        # ones.
        first, second = centring(means[1:, 0]), centring(means[0, 1:])
        both = np.kron(first, second)
        moment = sums.products.reshape(both.shape[1], -1) / self.n
        return first @ means @ second.T, both @ moment @ both.T


@dataclass(frozen=True)
class FeatureMoments:
    """Means of features about their provisional ones, and covariances with 1/n.

    Parameters
    ----------
    layout : Layout
        Where they are.
    means : ndarray, shape (D,)
        Of the features as they are summed.
    values : ndarray, shape (P,)
        Covariances of these.
    features : sequence of Features
        Those of the kernels, whose factors whiten them.
    """

    layout: Layout
    means: Vector
    values: Vector
    features: Sequence[Features]

    def mean(self, k: int) -> Vector:
        """Those of kernel k, shape (D_k,)."""
        return self.means[self.layout.places[k]]

    def plain(self, first: int, second: int) -> Vector:
        """The covariance of the features of two kernels as they are summed, shape (D_1, D_2)."""
        return self.layout.view((first, second), self.values)

    def covariance(self, first: int, second: int) -> Matrix:
        """That of the whitened features."""
        factors = self.features[first].after, self.features[second].after
        covariance: Matrix = whiten(self.plain(first, second)[None], factors)[0]
        return covariance

    def spectrum(self, k: int) -> Vector:
        """Eigenvalues of the covariance of a kernel."""
        return spectrum(self.covariance(k, k))


def second_moments(
    session: Session,
    features: Sequence[Features],
    pairs: Pairs = BOTH,
    *,
    norms: bool = False,
) -> FeatureMoments:
    """Means of the features of some kernels, and covariances of pairs of them, in one pass.

    Parameters
    ----------
    session : Session
        The run. Rows count by their weights, where they have any.
    features : sequence of Features
        Those of the kernels.
    pairs : sequence of tuple of int, optional
        Numbers of kernels.
    norms : bool, optional
        Whether features are whitened row by row, and their squared norm stands beside them.

    Returns
    -------
    FeatureMoments
    """
    run, made, reduction = _reduction(session, features, pairs, norms=norms)
    sums, n = run.reduce(reduction), session.n
    means, values = sums.sums / n, sums.products / n
    # E f h' - E f E h', where both means are small, since features are about provisional ones.
    add_products(reduction.layout.crossings, -means[None], means[None], values)
    return FeatureMoments(reduction.layout, means, values, made)


def moments_steps(
    session: Session,
    features: Sequence[Features],
    pairs: Pairs = BOTH,
    *,
    norms: bool = False,
    then: str = "solve",
) -> list[DriverStep | PassPlan]:
    """The pass of `second_moments` and the step after it."""
    run, _, reduction = _reduction(session, features, pairs, norms=norms)
    widest = max(f.n_summed for f in reduction.layout.kernels.values())
    return [
        run.plan(reduction),
        DriverStep(then, 4 * 8 * 3 * widest**2, 8 * sum(reduction.sizes)),
    ]


def _reduction(
    session: Session,
    features: Sequence[Features],
    pairs: Pairs,
    *,
    norms: bool,
    products: bool = False,
) -> tuple[Session, Sequence[Features], MomentsPass]:
    """The run over the variables and weights, the features that are summed, and the pass."""
    made, layout = laid_out(features, pairs, norms=norms)
    if session.weights is None:
        return session, made, MomentsPass(layout, session.n)
    weighted = session.over((*session.sources, session.weights.source))
    name = "weighted products" if products else MomentsPass.name
    return weighted, made, MomentsPass(layout, session.n, session.weights.squares, products, name)


def laid_out(
    features: Sequence[Features], pairs: Pairs, *, norms: bool
) -> tuple[Sequence[Features], Layout]:
    """The features, with norms beside them, and their layout."""
    if norms:
        features = [replace(f, matrix=f.by_row, normed=True) for f in features]
    return features, Layout.of({k: f.carried(f.matrix) for k, f in enumerate(features)}, pairs)


def centring(means: Vector) -> Vector:
    """The matrix (r, 1 + r) that makes phi - mu of (1, phi)."""
    return np.insert(np.eye(len(means)), 0, -means, axis=1)


def weighted_products(
    session: Session, features: Sequence[Features]
) -> tuple[Vector, ChiSquareMixture]:
    """The weighted cross-covariance of two kernels, and the limit law of n times its squared norm.

    Rows are draws from a law Q, and their weights are proportional to dP/dQ, of the law P of the
    population. With weights of mean 1, and weighted means mu and nu, it is

    C = (1/n) sum_i w_i (phi_i - mu) (x) (psi_i - nu)

    Where the variables are independent under P, its errors in mu and nu enter as their product,
    which is of the order 1/n. So sqrt(n) C is in the limit normal, with the second moment under Q
    of the terms of the sum, and n |C|^2 a mixture of chi-squares whose weights are the eigenvalues
    of it.
    """
    run, _, reduction = _reduction(session, features, BOTH[:1], norms=False, products=True)
    sums = run.reduce(reduction)
    session.step("spectrum")
    cross, moment = reduction.centred(sums)
    return cross, ChiSquareMixture.of_covariance(moment)


def weighted_steps(session: Session, features: Sequence[Features]) -> list[DriverStep | PassPlan]:
    """The pass of `weighted_products` and the step after it."""
    run, _, reduction = _reduction(session, features, BOTH[:1], norms=False, products=True)
    _, products = reduction.sizes
    return [
        run.plan(reduction),
        DriverStep("spectrum", 5 * 8 * products, 8 * products),
    ]


def spectral_law(left: Vector, right: Vector, null: Spectral, seed: int) -> Distribution:
    """The limit of n |C|^2 under independence, by the spectra of the covariances of either side.

    Zhang et al. (2018), sections 4.1.2 and 4.2.2: products of the eigenvalues weigh chi-squares.
    """
    return null.distribution(ChiSquareMixture.of_products(left, right), seed)


def gamma_law(moments: FeatureMoments, n: int) -> GammaDistribution:
    """The gamma law with the mean and the variance of n |C|^2 over all permutations.

    The variance holds fourth moments, for which the moments are of features with their norms.
    """
    # The last row and column belong to the squared norm.
    covariances = [moments.plain(m, m)[:-1, :-1] for m in (0, 1)]
    mean, variance = permutation_moments(
        n,
        traces=np.array([np.trace(c) for c in covariances]),
        squares=np.array([np.vdot(c, c) for c in covariances]),
        fourths=np.array([_fourth_moment(moments, m) for m in (0, 1)]),
    )
    return GammaDistribution(mean, variance)


def _fourth_moment(moments: FeatureMoments, k: int) -> float:
    """Mean of |phi - mu|^4 from means and covariances of (phi, |phi|^2).

    |phi - mu|^2 is the inner product of (phi, |phi|^2) and (-2 mu, 1), plus |mu|^2.
    """
    *mean, square = moments.mean(k)
    form = np.append(-2.0 * np.array(mean), 1.0)
    # E q^2 = Var q + (E q)^2 with q = |phi - mu|^2 and E q = E |phi|^2 - |mu|^2.
    return float(form @ moments.plain(k, k) @ form + (square - np.dot(mean, mean)) ** 2)


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
    itemsize: int

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
        return min(self.groups.size, self._wanted, max(_FEWEST_BLOCK_ROWS, held))

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
        return min(self.rows, max(_FEWEST_BLOCK_ROWS, int(wanted / math.sqrt(dear))))

    @property
    def _wanted(self) -> int:
        return _BLOCK_ROWS * (1 + (self.groups.n <= _FEW_ROWS))

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
        of_run = (self._numbers >= first) & (self._numbers < last)
        numbers = self._numbers[of_run] - first
        at = numbers[:, None] * self.groups.size + np.arange(self.rows)
        return np.concatenate([x[at] for x in block.values], axis=2)

    def drawn(self, session: Session) -> NDArray[Any]:
        """The same rows where no pass keeps them: read once more, shape as of `rows_of`."""
        # The first rows of the groups, as `rows_of` takes them.
        numbers = [self.groups.members(g, g + 1)[: self.rows] for g in self._numbers.tolist()]
        values = session.take([np.concatenate(numbers)] * len(self.dims))
        return np.concatenate(values, axis=1).reshape(self.count, self.rows, -1)


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
    rows, columns = blocks.rows_for(features), consecutive(blocks.dims)
    terms = [
        _of_block(features, [block[:rows, columns[one.variable]] for one in features])
        for block in kept
    ]
    means: list[float] = np.mean(terms, axis=0).tolist()
    return means


def unbiased_hsic(n: int, size: float, means: Sequence[float]) -> float:
    """Unbiased HSIC of n rows, from |C|^2 of their features and the means over blocks."""
    difference, of_both, first, second = means
    # sums over all n rows about their mean, whose squared norms are smaller by (n - 1) / n
    products = (n - 1) ** 2 / n * of_both
    totals = (n - 1) ** 2 * first * second
    return _of_features(n, size, products, totals) + difference


def sampled_hsic(features: Features) -> float:
    """Unbiased squared HSIC of the sample of the features with itself."""
    summed = features.summed((features.values() - features.centre).astype(np.float64))
    n, covariance = len(summed), summed.T @ summed / len(summed)
    norms = squared_norms(summed.T)
    size, total = float(np.vdot(covariance, covariance)), float(norms.sum())
    return _of_features(n, size, float(norms @ norms), total**2)


def unbiased_step(session: Session, features: Sequence[Features]) -> DriverStep:
    """The bytes of `block_means` for the dearest pair of kernels."""
    blocks, itemsize = KeptBlocks.of(session), session.dtype.itemsize
    b, each = blocks.rows, list[int]()
    for one in features:
        kernel = _kernel(one)
        values = one.n_features + kernel.width(session.dims[one.variable])
        tiles = itemsize * ((2 + kernel.work_tiles) * b + 2 * values)
        each.append(b * (tiles + 3 * 8 * one.n_features))
    return DriverStep(ESTIMATE, 2 * max(each) + blocks.nbytes(session.n))


def _of_block(features: Sequence[Features], block: Sequence[Matrix]) -> tuple[float, ...]:
    """Terms that the rows of a block, of both variables, add to the estimate of a pair of kernels.

    They are the unbiased HSIC of the kernels less that of the features; the mean of the products of
    the squared norms of both features about their means; and the means of either.
    """
    b, pairs = len(block[0]), list(zip(features, block, strict=True))
    summed = [one.summed((one.map(x) - one.centre).astype(np.float64)) for one, x in pairs]
    first, second = (values - values.mean(axis=0) for values in summed)
    # k_i and q_i, the squared norms about the mean, see `_of_features`.
    k, q = (np.einsum("ij,ij->i", x, x) for x in (first, second))
    cross = first.T @ second / b
    held = _of_features(b, float(np.vdot(cross, cross)), float(k @ q), float(k.sum() * q.sum()))
    prepared = [_kernel(one).rows_and_columns(x, one.map.dtype) for one, x in pairs]
    grams = [
        _kernel(one).gram(*both, one.map.dtype)
        for one, both in zip(features, prepared, strict=True)
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
