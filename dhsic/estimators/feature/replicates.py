"""Statistics from cross-covariances of features, of the data and of their replicates.

They are n |C|^2 or another measure of the cross-covariance C (Zhang et al. 2018, equations 31 and
39). Under the permutations of a group that holds the identity its rank is exact (Hemerik and Goeman
2018), as it is under permutations drawn at random, with the features held fixed.

The cross-covariances of a combination take as many numbers as replicates times features of either
side. Where all do not fit in memory, passes take some of the combinations each, then some of the
cosets, then some of the features of the first variable, over which squared norms add up.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.groups import Groups
from dhsic.engine.plan import DriverStep, PassPlan
from dhsic.engine.session import Session
from dhsic.estimators.base import Resampling, rounding_unit
from dhsic.estimators.feature.basis import Factors, Measure, Side, whiten
from dhsic.estimators.feature.blocks import ESTIMATE, KeptBlocks, UnbiasedEstimates
from dhsic.estimators.feature.layout import KernelSide, Layout, Pair, ProductPlace
from dhsic.estimators.feature.orbits import OrbitPass, OrbitSums
from dhsic.estimators.resample import (
    Orbit,
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
Vector = NDArray[np.float64]

_LEAST_GROUP = 16  # rows
_ESTIMATED = 1024  # rows of a group of which nothing moves
_WIDE = 256  # features, beyond which whitening them row by row takes long
_TILE_BYTES = 2**25  # of the features and transforms in a task
_LEAST_TILE_BYTES = 2**20
_SLAB_BYTES = 2**21  # of cross-covariances that are whitened at a time
_SERIAL_BYTES = 2**22  # of cross-covariances that are sooner measured than sent to threads
_SAFETY = 4.0


class FeatureReplicates(NamedTuple):
    """Result of resampling."""

    resampled: Resampled
    """Statistics of G combinations, n times the measure, with their replicates."""
    estimate: Callable[[int], float]
    """The measure of a combination, or what is unbiased, by its place among the G."""
    detail: str
    """How the replicates were made, where the null leaves a choice."""


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
    """

    session: Session
    sides: Mapping[int, Side]
    variables: Mapping[int, int]
    chosen: Sequence[Pair]
    pairs: tuple[Pair, ...]
    measure: Measure
    orbit: Orbit
    unbiased: bool

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
        made = cls(session, sides, variables, chosen, pairs, measure, identity, unbiased)
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

    def run(self) -> FeatureReplicates:
        """Statistics of the data, n times the measure, and their replicates."""
        session, n_shifts = self.session, self.orbit.n_shifts
        columns = {pair: g for g, pair in enumerate(dict.fromkeys(self.chosen))}
        values = np.zeros((len(self.orbit), len(columns)))
        squares = np.zeros(len(columns))
        kept = None
        for piece in self._pieces():
            reduction = self._pass(piece, seen=True)
            sums = session.reduce(reduction)
            # The first piece keeps the rows, which serve all estimates.
            kept = sums.kept if reduction.blocks is not None else kept
            at = [columns[pair] for pair in piece.pairs]
            if piece.cosets.stop == self.orbit.cosets:
                # Errors are of roots, so that their squares add up over the parts.
                squares[at] += [
                    _rounding_error(reduction, sums, self.sides, pair) ** 2 for pair in piece.pairs
                ]
            replicates = slice(n_shifts * piece.cosets.start, n_shifts * piece.cosets.stop)
            # Squared norms of parts of the features add up.
            values[replicates, at] += session.n * self._sizes(piece, reduction, sums)
        at = [columns[pair] for pair in self.chosen]

        def estimate(g: int) -> float:
            size = float(values[0, at[g]]) / session.n
            if not self.unbiased:
                return size
            session.step(ESTIMATE)
            rows = self._estimates.blocks.drawn(session) if kept is None else kept
            return self._estimates.of(self.chosen[g], rows, size)

        every = values if len(columns) == len(at) else values[:, at]
        tolerance = tie_tolerance(values[0, at], np.sqrt(squares[at]))
        return FeatureReplicates(Resampled.of(every, tolerance), estimate, self.orbit.detail)

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
        """Halves of the combinations, else of the cosets; else parts of the features.

        None where they would be too large as well: the plan says so.
        """
        if len(piece.pairs) > 1:
            return [piece._replace(pairs=some) for some in _parted(piece.pairs, 2)]
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
        return max(needed) <= self.session.runtime.pass_bytes

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
        # Fewer rows than columns of the cross-covariances that it has are quicker to whiten.
        others = {k for pair in piece.pairs if number in pair for k in pair} - {number}
        columns = len(piece.features or ()) or sum(self.sides[k].n_summed for k in others)
        few_rows = 2 * self.session.n <= len(piece.cosets) * self.orbit.n_shifts * columns
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
