"""Statistics from cross-covariances of features, of the data and of their replicates.

They are n |C|^2 or another measure of the cross-covariance C (Zhang et al. 2018, equations 31 and
39). Under the permutations of a group that holds the identity its rank is exact (Hemerik and Goeman
2018), as it is under permutations drawn at random, with the features held fixed.

The cross-covariances of a combination take as many numbers as replicates times features of either
side. Where all do not fit in memory, passes take some of the combinations each, then some of the
cosets, then some of the features of the first variable, over which squared norms add up.

With features f and h of two variables, the sums over a group of f(i) h(i + k)' for every shift k
are circular cross-correlations: a product of two Fourier transforms a frequency, summed over
groups, transformed back once in the end. Without shifts a coset is one product of matrices, of the
features of all rows with those of the other variable in another order.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from dhsic.engine.groups import Groups
from dhsic.engine.plan import DriverStep, PassPlan
from dhsic.engine.reduction import Footprint, GroupBlock, add
from dhsic.engine.session import Session
from dhsic.estimators.base import Resampling, rounding_unit
from dhsic.estimators.feature.basis import Factors, Measure, Side, whiten
from dhsic.estimators.feature.blocks import ESTIMATE, KeptBlocks, UnbiasedEstimates
from dhsic.estimators.feature.layout import Crossing, KernelSide, Layout, Pair, ProductPlace
from dhsic.estimators.resample import (
    Orbit,
    PermutedPass,
    Resampled,
    narrower,
    orbit_of,
    suits_one_task,
    tie_tolerance,
    tile_error,
    transform_error,
)
from dhsic.linalg import solve_lower, squared_norms

Matrix = NDArray[np.floating[Any]]
Transform = NDArray[np.inexact[Any]]
Vector = NDArray[np.float64]

_LEAST_GROUP = 16  # rows
_ESTIMATED = 1024  # rows of a group of which nothing moves
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


class FeatureReplicates(NamedTuple):
    """Result of resampling."""

    resampled: Resampled
    """Statistics of G combinations, n times the measure, with their replicates."""
    estimate: Callable[[int], float]
    """The measure of a combination, or what is unbiased, by its place among the G."""
    detail: str
    """How the replicates were made, where the null leaves a choice."""


class Batch(NamedTuple):
    """Some of the combinations with all of their replicates."""

    pairs: tuple[Pair, ...]
    """The combinations, C of them."""
    resampled: Resampled
    """Their statistics."""
    kept: NDArray[Any] | None
    """Rows for the unbiased estimate, which the first batch has."""


class Piece(NamedTuple):
    """The part of the work that one pass takes."""

    pairs: tuple[Pair, ...]
    """Combinations."""
    cosets: range
    """Numbers of cosets of the orbit."""
    features: range | None = None
    """Features of the first side of a single combination; all where not given."""


@dataclass(frozen=True)
class FeatureResampling:
    """How statistics are computed for all replicates.

    Parameters
    ----------
    session : Session
        The run.
    sides : dict of int to Side
        Features by the numbers of their kernels.
    variables : dict of int to int
        The variable of every kernel.
    chosen : sequence of tuple of int
        G pairs of numbers; the variable of the second is shifted or permuted.
    pairs : tuple of tuple of int
        Distinct ones; those that share the most features are next to each other.
    measure : Measure
        The size of cross-covariances.
    orbit : Orbit
        The permutations.
    unbiased : bool
        Whether blocks make estimates unbiased.
    share : int
        Several combinations take at most one part in so many of the memory of a pass.
    """

    session: Session
    sides: Mapping[int, Side]
    variables: Mapping[int, int]
    chosen: Sequence[Pair]
    pairs: tuple[Pair, ...]
    measure: Measure
    orbit: Orbit
    unbiased: bool
    share: int

    @classmethod
    def of(
        cls,
        session: Session,
        sides: Mapping[int, Side],
        chosen: Sequence[Pair],
        measure: Measure,
        null: Resampling | None,
        variables: Mapping[int, int] | None = None,
        *,
        unbiased: bool = False,
        share: int = 1,
    ) -> FeatureResampling:
        """With smaller groups and more cosets where a combination does not fit otherwise.

        Parameters
        ----------
        session, sides, chosen, measure
            As for the class.
        null : Shifts, Permutation or None
            The null distribution; without one there are no replicates.
        variables : dict of int to int, optional
            The variable of every kernel; where not given, first ones of a pair are of variable 0
            and second ones of variable 1.
        unbiased : bool, optional
            Whether estimates are unbiased, by `unbiased_hsic`: of squared HSIC, with permutations,
            shifts or no null distribution.
        share : int, optional
            As for the class: of many combinations that are measured each by itself.

        Returns
        -------
        FeatureResampling
        """
        if variables is None:
            variables = {number: place for pair in chosen for place, number in enumerate(pair)}
        counts = [
            sum(sides[number].n_summed for number in set(some))
            for some in zip(*chosen, strict=True)
        ]
        longer = int(counts[1] > counts[0])
        # Pairs with one kernel on the longer side stay together where pieces are cut.
        pairs = tuple(sorted(set(chosen), key=lambda pair: (pair[longer], pair)))
        # An estimate takes the identity alone.
        identity = Orbit(Groups.of(session.n, _ESTIMATED, session.seed), 1, shifted=False)
        made = cls(session, sides, variables, chosen, pairs, measure, identity, unbiased, share)
        if null is None:
            return made
        largest = (max(pairs, key=lambda pair: math.prod(sides[k].n_summed for k in pair)),)

        def suits(orbit: Orbit) -> bool:
            """Whether one task can take all permutations of a combination by itself."""
            whole = Piece(largest, range(orbit.cosets))
            return suits_one_task(session, replace(made, orbit=orbit)._pass(whole, seen=False))

        made = replace(made, orbit=orbit_of(session, null, suits))
        if measure.adds or not made.orbit.shifted:
            return made
        # Smaller groups have fewer frequencies, and more cosets make up for the shifts.
        while made.orbit.groups.size >= 2 * _LEAST_GROUP and not made._fits(
            Piece(largest, range(made.orbit.cosets)[-1:])
        ):
            made = replace(made, orbit=narrower(session, made.orbit, null.n_resamples))
        return made

    def steps(self) -> list[DriverStep | PassPlan]:
        """The passes of `run`, the step after each, and that of an estimate."""
        steps = [step for piece in self._pieces() for step in self._steps(piece)]
        if self.unbiased:
            steps.append(self._estimates.step(self.pairs, self.session.dtype))
        return steps

    def batches(self) -> Iterator[Batch]:
        """Statistics of some combinations after others: what a batch is read for, it leaves."""
        n_shifts = self.orbit.n_shifts
        # Pieces of the same combinations follow each other.
        for pairs, pieces in groupby(self._pieces(), lambda piece: piece.pairs):
            values, squares = np.zeros((len(self.orbit), len(pairs))), np.zeros(len(pairs))
            kept = None
            for piece in pieces:
                reduction = self._pass(piece, seen=True)
                sums = self.session.reduce(reduction)
                kept = sums.kept if reduction.blocks is not None else kept
                if piece.cosets.stop == self.orbit.cosets:
                    # Errors are of roots, so that their squares add up over the parts.
                    errors = (_rounding_error(reduction, sums, self.sides, pair) for pair in pairs)
                    squares += np.square(list(errors))
                at = slice(n_shifts * piece.cosets.start, n_shifts * piece.cosets.stop)
                # Squared norms of parts of the features add up.
                values[at] += self.session.n * self._sizes(piece, reduction, sums)
            yield Batch(pairs, Resampled.of(values, tie_tolerance(values[0], squares**0.5)), kept)

    def run(self) -> FeatureReplicates:
        """Statistics of the data, n times the measure, and their replicates."""
        batches = list(self.batches())
        places = {pair: g for g, pair in enumerate(p for batch in batches for p in batch.pairs)}
        at = [places[pair] for pair in self.chosen]
        parts = zip(*(batch.resampled for batch in batches), strict=True)
        # Few combinations are one batch in their order, and need no copy.
        whole = [one[0] if len(one) == 1 else np.concatenate(one, axis=-1) for one in parts]
        if at != list(range(len(places))):
            whole = [one[..., at] for one in whole]
        resampled, kept = Resampled(*whole), batches[0].kept

        def estimate(g: int) -> float:
            size = float(resampled.statistics[g]) / self.session.n
            if not self.unbiased:
                return size
            self.session.step(ESTIMATE)
            rows = self._estimates.blocks.drawn(self.session) if kept is None else kept
            return self._estimates.of(self.chosen[g], rows, size)

        return FeatureReplicates(resampled, estimate, self.orbit.detail)

    # Pieces that fit.

    def _pieces(self) -> list[Piece]:
        """As few as fit in memory."""
        return list(self._cut(Piece(self.pairs, range(self.orbit.cosets))))

    def _cut(self, piece: Piece) -> Iterator[Piece]:
        parts = [] if self._fits(piece) else self._parts(piece)
        if not parts:
            yield piece
        for part in parts:
            yield from self._cut(part)

    def _parts(self, piece: Piece) -> list[Piece]:
        """Few parts of the combinations, else halves of the cosets; else parts of the features.

        None where they would be too large as well: the plan says so.
        """
        if len(piece.pairs) > 1:
            parts = fewest_parts(piece.pairs, lambda some: self._fits(piece._replace(pairs=some)))
            return [piece._replace(pairs=some) for some in parts]
        # The last coset, which takes more than the first: it moves rows.
        last = piece._replace(cosets=piece.cosets[-1:])
        if self._fits(last):
            return [piece._replace(cosets=some) for some in _parted(piece.cosets, 2)]
        if (
            piece.features
            or not self.measure.adds
            or not self._fits(last._replace(features=range(1)))
        ):
            return []
        features = range(self.sides[piece.pairs[0][0]].n_summed)
        parts = fewest_parts(features, lambda some: self._fits(last._replace(features=some)))
        return [piece._replace(features=some) for some in parts]

    def _fits(self, piece: Piece) -> bool:
        """Whether a piece leaves memory for what the driver holds."""
        needed = (
            step.worker_bytes if isinstance(step, PassPlan) else step.working_bytes
            for step in self._steps(piece)
        )
        share = self.share if len(piece.pairs) > 1 else 1
        return max(needed) <= self.session.runtime.pass_bytes // share

    def _steps(self, piece: Piece) -> list[DriverStep | PassPlan]:
        """The pass over a piece and the step after it."""
        reduction = self._pass(piece, seen=False)
        needed = _SLAB_BYTES * self.session.runtime.worker_threads
        slabs = 4 * min(needed, reduction.solve_bytes // 2)
        factors = 3 * 8 * max(self.sides[k].n_summed ** 2 for k in reduction.layout.places)
        solve = DriverStep("solve", reduction.solve_bytes + slabs + factors)
        return [self.session.plan(reduction), solve]

    # The pass.

    def _pass(self, piece: Piece, *, seen: bool) -> OrbitPass:
        """That over a piece; for plans with matrices that take no memory."""
        kernels = {
            k: self._kernel(k, piece, seen=seen) for k in {k for pair in piece.pairs for k in pair}
        }
        # The first pass keeps the rows of the unbiased estimate for all.
        keeps = piece.pairs[0] == self.pairs[0] and piece.cosets.start == 0
        keeps = keeps and not (piece.features and piece.features.start)
        keeps = keeps and self.unbiased and self.session.moves is None
        # Less than is quick where many threads share the memory.
        runtime = self.session.runtime
        share = max(1, runtime.pass_bytes // (4 * runtime.worker_threads))
        return OrbitPass(
            Layout.of(kernels, piece.pairs),
            self.orbit,
            piece.cosets,
            min(_TILE_BYTES, max(_LEAST_TILE_BYTES, 2 ** (share.bit_length() - 1))),
            self._estimates.blocks if keeps else None,
        )

    def _kernel(self, number: int, piece: Piece, *, seen: bool) -> KernelSide:
        """The features of a kernel, or some of them.

        They are whitened row by row where that is quicker than to whiten the cross-covariances, or
        where these cannot be: of a part of the features, or where float32 products would leave too
        few digits.
        """
        side = self.sides[number]
        d, dtype = side.n_summed, side.map.dtype
        features = piece.features if number == piece.pairs[0][0] else None
        rows = slice(0, d) if features is None else slice(features.start, features.stop)
        # Fewer rows than columns of the cross-covariances that it has are quicker to whiten. Of all
        # of them, so that the digits are the same however much a piece holds.
        few_rows = 2 * self.session.n <= len(self.orbit) * self._columns[number]
        single = dtype == np.float32 and d <= _WIDE
        whitening = None
        if side.projection is not None:
            whitening = side.projection[rows].astype(dtype, copy=False)
        elif side.factor is not None and (single or features is not None or few_rows):
            whitening = np.broadcast_to(dtype.type(0), (rows.stop - rows.start, d))
            if seen:
                # Rows of L^-1, by solving for unit vectors.
                units = np.eye(d)[:, rows]
                whitening = solve_lower(side.factor, units, transposed=True).T.astype(dtype)
        return KernelSide(self.variables[number], side.map, side.centre, rows, whitening)

    @cached_property
    def _columns(self) -> dict[int, int]:
        """Features, for every kernel, of those that it has pairs with."""
        others: dict[int, set[int]] = {}
        for first, second in self.pairs:
            others.setdefault(first, set()).add(second)
            others.setdefault(second, set()).add(first)
        return {k: sum(self.sides[o].n_summed for o in some) for k, some in others.items()}

    @property
    def _estimates(self) -> UnbiasedEstimates:
        groups = self.orbit.groups
        if self.session.moves is not None:  # a group may hold the rows of one stratum
            groups = Groups.of(self.session.n, _ESTIMATED, self.session.seed)
        kept = KeptBlocks.of(self.session, groups)
        return UnbiasedEstimates(kept, self.sides, self.variables)

    # Sizes.

    def _sizes(self, piece: Piece, reduction: OrbitPass, sums: OrbitSums) -> Vector:
        """By the measure, of every replicate and pair of a piece; overwrites the sums."""
        layout, cross = reduction.layout, reduction.covariances(sums)
        self.session.step("solve")
        # Those that still whiten the cross-covariances.
        factor = {
            k: self.sides[k].factor if s.whitening is None else None for k, s in layout.kernels
        }
        factors = tuple((factor[first], factor[second]) for first, second in piece.pairs)
        places = tuple(map(layout.place, piece.pairs))
        sizes = _ReplicateSizes(cross, places, factors, self.measure)
        if cross.nbytes <= _SERIAL_BYTES:
            return sizes(range(len(cross)))
        return np.concatenate(self.session.map("solve", sizes, len(cross)))


@dataclass(frozen=True)
class _ReplicateSizes:
    """Sizes of cross-covariances under many permutations.

    Parameters
    ----------
    cross : ndarray, shape (N, P)
        Cross-covariances of the features of all combinations.
    places : tuple of ProductPlace
        Those of the combinations.
    factors : tuple of (ndarray or None, ndarray or None)
        Factors that still whiten them.
    measure : Measure
        The size of cross-covariances.
    """

    cross: Matrix
    places: tuple[ProductPlace, ...]
    factors: tuple[Factors, ...]
    measure: Measure

    def __call__(self, permutations: range) -> Vector:
        """Sizes under some of the permutations, shape (permutations, combinations)."""
        cross = self.cross[permutations.start : permutations.stop]
        pairs = zip(self.places, self.factors, strict=True)
        return np.stack([self._sizes(place.of(cross), factors) for place, factors in pairs], axis=1)

    def _sizes(self, whole: Vector, factors: Factors) -> Vector:
        step = max(1, _SLAB_BYTES // (8 * math.prod(whole.shape[1:])))
        starts = range(0, len(whole), step)
        # In float64, since whitening magnifies what rounding leaves.
        slabs = (whole[start : start + step].astype(np.float64, copy=False) for start in starts)
        return np.concatenate([self.measure.size(whiten(slab, factors)) for slab in slabs])


def fewest_parts(whole: Any, fits: Callable[[Any], bool]) -> list[Any]:
    """As few parts of a sequence as fit, each of one entry at the least."""

    def suits(count: int) -> bool:
        return all(map(fits, _parted(whole, count)))

    # Doubled, since one part is enough as a rule and a thousand take a thousand plans.
    most = 1
    while most < len(whole) and not suits(most):
        most *= 2
    counts = range(most // 2 + 1, min(most, len(whole)))
    # More parts are smaller parts, so that bisection finds the fewest.
    return _parted(whole, counts.start + bisect_left(counts, True, key=suits))


def _parted(whole: Any, count: int) -> list[Any]:
    """So many parts, of which the first is the longest."""
    # Rounded up, so that the first part is the longest: what fits for it fits for all.
    cuts = [-(-len(whole) * i // count) for i in range(count + 1)]
    return [whole[a:b] for a, b in pairwise(cuts)]


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
class OrbitPass(PermutedPass[OrbitSums]):
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
                moved = self._transform(features[np.arange(len(orders))[:, None], orders])
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
            found, out = self._transform(features), transforms[:, at.start * rows : at.stop * rows]
            # Those that never move are conjugate, where they are multiplied as such.
            first = self._first_moved if self._are_apart else 0
            np.conj(found[..., :first], out=out[..., :first])
            out[..., first:] = found[..., first:]
            if self._n_kept:
                kept[at] = features[..., self._first_moved :]
        sums.norms[:] += norms.sum(axis=0)
        # The bound on rounding needs products of norms within groups.
        sums.products[:] += norms.T @ norms
        return transforms, kept

    def _features(self, values: list[Matrix], sums: OrbitSums) -> tuple[Matrix, Vector]:
        """Those of rows of groups that are summed, (g, b, D), and norms of kernels, (g, K)."""
        layout, b = self.layout, self.groups.size
        features = np.empty((len(values[0]), layout.n_features), layout.dtype)
        for number, side, raw in layout.raw(values):
            side.write_summed(raw, features[:, layout.places[number]])
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


def independent_rounding(session: Session, sides: Iterable[Side]) -> float:
    """How far rounding alone may bring a statistic where features have no covariance."""
    spread = math.prod(side.spread for side in sides)
    # Both sides are rounding here, so that their product has its square.
    return session.n * rounding_unit(session.dtype) ** 2 * spread


def _rounding_error(
    reduction: OrbitPass, sums: OrbitSums, sides: Mapping[int, Side], pair: Pair
) -> float:
    """The most that rounding may leave in the root of a statistic, in any permutation.

    The error of a transform is relative to the norm of the features in a group, and errors of
    groups are independent, since their rows are in other orders: their squares add up. Those of
    the features themselves come before they are whitened. With a factor for safety.
    """
    dtype, orbit = reduction.layout.dtype, reduction.orbit
    i, j = (list(reduction.layout.places).index(number) for number in pair)
    spread = np.sqrt(sums.norms[i] * sums.norms[j])
    # sqrt(sum_g |f_g|^2 |h_g|^2) / (|f| |h|), about 1 / sqrt(groups) where groups are alike.
    share = np.sqrt(sums.products[i, j]) / spread if spread else 0.0
    (raw, norm), (other_raw, other_norm) = (
        _norms(reduction, sums, sides[number], number) for number in pair
    )
    errors = transform_error(dtype, orbit.n_shifts) * norm * other_norm
    errors += tile_error(dtype) * (raw * other_norm + norm * other_raw)
    error = _SAFETY * float(share * errors) / math.sqrt(orbit.groups.n)
    # Features that overflow have no error that is known: all replicates tie.
    return math.inf if math.isnan(error) else error


def _norms(reduction: OrbitPass, sums: OrbitSums, side: Side, number: int) -> tuple[float, float]:
    """Norms of the features about 0, and about their means as the sums hold them.

    Errors of features that are whitened afterwards grow as if they were independent.
    """
    layout = reduction.layout
    kernel, squares = dict(layout.kernels)[number], sums.raw[layout.raw_places[number]]
    # Squares about 0, from those about the provisional mean, from which the sums are about 0.
    about = squares + reduction.groups.n * np.square(kernel.centre, dtype=np.float64)
    if kernel.whitening is not None:
        weights = np.square(kernel.whitening, dtype=np.float64).sum(axis=0)
        norm = sums.norms[list(layout.places).index(number)]
        return math.sqrt(weights @ about), math.sqrt(norm)
    if side.factor is None:
        return math.sqrt(about[kernel.rows].sum()), math.sqrt(squares[kernel.rows].sum())
    # sum_a (L^-1)_aj^2 is what whitening makes of an independent error of feature j.
    weights = squared_norms(solve_lower(side.factor, np.eye(len(side.factor))))
    return math.sqrt(weights @ about), math.sqrt(weights @ squares)
