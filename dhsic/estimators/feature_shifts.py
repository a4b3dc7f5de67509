"""Statistics from cross-covariances of features under all permutations of an orbit.

They are n |C|^2 or another measure of the cross-covariance C (Zhang et al. 2018, equations 31 and
39). Under the permutations of a group that holds the identity its rank is exact (Hemerik and Goeman
2018), with the features held fixed.

The cross-covariances of a combination take as many numbers as permutations times features of
either side. Where all do not fit in memory, passes take some of the combinations each, then some of
the cosets, then some of the features of the first variable, over which squared norms add up.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from dhsic.engine.groups import Groups
from dhsic.engine.plan import DriverStep, PassPlan, baseline_bytes
from dhsic.engine.session import Session
from dhsic.estimators.feature_basis import Measure, Side
from dhsic.estimators.feature_sizes import SLAB_BYTES, Block, ShiftedSizes
from dhsic.estimators.feature_spectra import (
    KernelSide,
    Rectangle,
    SpectralSums,
    SpectraPass,
)
from dhsic.estimators.resample import (
    Orbit,
    Resampled,
    orbit_of,
    tie_tolerance,
    tile_error,
    transform_error,
)
from dhsic.linalg import solve_lower, squared_norms
from dhsic.nulls import Shifts

__all__ = ["resample_features", "resampling_steps"]

Pair = tuple[int, ...]
Vector = NDArray[np.float64]

_LEAST_GROUP = 16  # rows
_WIDE = 256  # features, beyond which whitening them row by row takes long
_SAFETY = 4.0
_TILE_BYTES = 2**25  # of the transforms in a task
_LEAST_TILE_BYTES = 2**22
_QUICK_BYTES = 2**22  # of cross-covariances that are sooner measured than sent to threads


def resample_features(
    session: Session,
    sides: Mapping[int, Side],
    chosen: Sequence[Pair],
    measure: Measure,
    null: Shifts,
    variables: Mapping[int, int] | None = None,
) -> tuple[Resampled, str]:
    """Statistics of the data, n times the measure, and their replicates.

    Parameters
    ----------
    session : Session
        The run.
    sides : dict of int to Side
        Features by the numbers of their kernels.
    chosen : sequence of tuple of int
        G pairs of numbers; the variable of the second is shifted.
    measure : Measure
        The size of cross-covariances.
    null : Shifts
        The null distribution.
    variables : dict of int to int, optional
        The variable of every kernel; where not given, first ones of a pair are of variable 0 and
        second ones of variable 1.

    Returns
    -------
    Resampled
        Statistics of the G combinations.
    str
        How the replicates were made.
    """
    shifting = _Shifting.of(session, sides, chosen, measure, null, variables)
    columns = {pair: g for g, pair in enumerate(shifting.pairs)}
    values = np.zeros((len(shifting.orbit), len(columns)))
    errors: dict[tuple[Pair, int], float] = {}
    for piece in shifting.pieces():
        sizes, own = shifting.sizes(piece)
        at = [columns[pair] for pair in piece.pairs]
        values[shifting.permutations(piece), at] += session.n * sizes
        errors |= {(pair, piece.start): e for pair, e in zip(piece.pairs, own, strict=True)}
    squares = np.zeros(len(columns))
    for (pair, _), error in errors.items():
        squares[columns[pair]] += error**2
    at = [columns[pair] for pair in chosen]
    tolerance = tie_tolerance(values[0, at], np.sqrt(squares[at]))
    return Resampled.of(values[:, at], tolerance), shifting.orbit.detail


def resampling_steps(
    session: Session,
    sides: Mapping[int, Side],
    chosen: Sequence[Pair],
    measure: Measure,
    null: Shifts,
    variables: Mapping[int, int] | None = None,
) -> list[DriverStep | PassPlan]:
    """The passes of `resample_features` and the step after each."""
    shifting = _Shifting.of(session, sides, chosen, measure, null, variables)
    return [step for piece in shifting.pieces() for step in shifting.steps(piece)]


class _Piece(NamedTuple):
    """The part of the work that one pass takes."""

    pairs: tuple[Pair, ...]
    """Combinations."""
    cosets: range
    """Numbers of cosets of the orbit."""
    features: range | None = None
    """Features of the first side of a single combination; all where not given."""

    @property
    def start(self) -> int:
        """The first of its features."""
        return 0 if self.features is None else self.features.start


@dataclass(frozen=True)
class _Shifting:
    """How statistics are computed under all permutations.

    Parameters
    ----------
    session : Session
        The run.
    sides : dict of int to Side
        Features by the numbers of their kernels.
    variables : dict of int to int
        The variable of every kernel.
    pairs : tuple of tuple of int
        Distinct combinations; those that share the most features are next to each other.
    measure : Measure
        The size of cross-covariances.
    orbit : Orbit
        The permutations.
    """

    session: Session
    sides: Mapping[int, Side]
    variables: Mapping[int, int]
    pairs: tuple[Pair, ...]
    measure: Measure
    orbit: Orbit

    @classmethod
    def of(
        cls,
        session: Session,
        sides: Mapping[int, Side],
        chosen: Sequence[Pair],
        measure: Measure,
        null: Shifts,
        variables: Mapping[int, int] | None,
    ) -> _Shifting:
        """With smaller groups and more cosets where a combination does not fit otherwise."""
        if variables is None:
            variables = {number: place for pair in chosen for place, number in enumerate(pair)}
        counts = [
            sum(sides[number].map.n_features for number in set(some))
            for some in zip(*chosen, strict=True)
        ]
        longer = int(counts[1] > counts[0])
        pairs = tuple(sorted(set(chosen), key=lambda pair: (pair[longer], pair)))
        found = cls(session, sides, variables, pairs, measure, orbit_of(session, null))
        while not found._can_fit:
            groups = Groups.of(session.n, found.orbit.groups.size // 2, session.seed)
            orbit = Orbit(groups, -(-null.n_resamples // groups.size))
            found = replace(found, orbit=orbit)
        return found

    @property
    def _can_fit(self) -> bool:
        """Whether pieces can be cut until they fit, or groups are as small as they may be."""
        if self.measure.adds or self.orbit.groups.size < 2 * _LEAST_GROUP:
            return True
        return self._fits(_Piece((self._largest,), range(1)))

    @property
    def _largest(self) -> Pair:
        return max(self.pairs, key=lambda pair: math.prod(map(self._count, pair)))

    def _count(self, number: int) -> int:
        return self.sides[number].map.n_features

    def pieces(self) -> list[_Piece]:
        """As few as fit in memory."""
        # Where one feature is too much, cutting them is in vain: the plan says so.
        cuts = self.measure.adds and self._fits(_Piece((self._largest,), range(1), range(1)))
        return list(self._cut(_Piece(self.pairs, range(self.orbit.cosets)), cuts))

    def _cut(self, piece: _Piece, cuts: bool) -> Iterator[_Piece]:
        parts = [] if piece.features or self._fits(piece) else self._parts(piece, cuts)
        if not parts:
            yield piece
        for part in parts:
            yield from self._cut(part, cuts)

    def _parts(self, piece: _Piece, cuts: bool) -> list[_Piece]:
        """Halves of the combinations, else of the cosets; else parts of the features that fit."""
        if len(piece.pairs) > 1:
            return [piece._replace(pairs=some) for some in _parted(piece.pairs, 2)]
        if len(piece.cosets) > 1:
            return [piece._replace(cosets=some) for some in _parted(piece.cosets, 2)]
        features = range(self._count(piece.pairs[0][0]))
        if not cuts or len(features) == 1:
            return []
        counts = range(2, len(features) + 1)
        fewest = bisect_left(
            counts,
            True,
            key=lambda count: self._fits(piece._replace(features=_parted(features, count)[0])),
        )
        return [piece._replace(features=some) for some in _parted(features, counts[fewest])]

    def _fits(self, piece: _Piece) -> bool:
        """Whether a piece leaves memory for what the driver holds."""
        needed = (
            step.worker_bytes if isinstance(step, PassPlan) else step.working_bytes
            for step in self.steps(piece)
        )
        return max(needed) <= self._allowed

    @property
    def _allowed(self) -> int:
        memory = self.session.runtime.memory
        return memory - baseline_bytes() - memory // 8

    @property
    def _tile_bytes(self) -> int:
        """Less than is quick where many threads share the memory."""
        share = max(1, self._allowed // (4 * self.session.runtime.worker_threads))
        return int(min(_TILE_BYTES, max(_LEAST_TILE_BYTES, 2 ** (share.bit_length() - 1))))

    def steps(self, piece: _Piece) -> list[DriverStep | PassPlan]:
        """The pass of `sizes` and the step after it."""
        reduction = self._reduction(piece, seen=False)
        state = 16 * math.prod(reduction.shape)
        slabs = 4 * min(SLAB_BYTES * self.session.runtime.worker_threads, state)
        factors = 3 * 8 * max(side.map.n_features**2 for _, side in reduction.kernels)
        solve = DriverStep("solve", 2 * state + slabs + factors)
        return [self.session.plan_groups(reduction), solve]

    def permutations(self, piece: _Piece) -> slice:
        """Their numbers."""
        b = self.orbit.groups.size
        return slice(b * piece.cosets.start, b * piece.cosets.stop)

    def sizes(self, piece: _Piece) -> tuple[Vector, Vector]:
        """For every permutation and pair of a piece, and what rounding leaves in their roots.

        Returns
        -------
        sizes : ndarray, shape (cosets b, pairs)
            By the measure.
        errors : ndarray, shape (pairs,)
            Bounds for the roots of the statistics.
        """
        reduction = self._reduction(piece, seen=True)
        sums = self.session.run_groups(reduction)
        self.session.step("solve")
        errors = np.array([self._error(reduction, sums, pair) for pair in piece.pairs])
        sizes = ShiftedSizes(
            _covariances(reduction, sums, self.session.n),
            tuple(self._block(reduction, pair) for pair in piece.pairs),
            self.measure,
        )
        count = len(sizes.cross)
        if sizes.cross.nbytes <= _QUICK_BYTES:
            return sizes(range(count)), errors
        return np.concatenate(self.session.map("solve", sizes, count)), errors

    def _reduction(self, piece: _Piece, *, seen: bool) -> SpectraPass:
        numbers = dict.fromkeys(number for pair in piece.pairs for number in pair)
        kernels = tuple((number, self._kernel(number, piece, seen=seen)) for number in numbers)
        rectangles = _rectangles(piece.pairs)
        return SpectraPass(kernels, rectangles, self.orbit, piece.cosets, self._tile_bytes)

    def _kernel(self, number: int, piece: _Piece, *, seen: bool) -> KernelSide:
        """The features of a kernel, or some of them; with whitening that takes no memory for plans.

        They are whitened row by row where that is quicker than to whiten the cross-covariances, or
        where these cannot be: of a part of the features, or where float32 products would leave too
        few digits.
        """
        side, variable, d = self.sides[number], self.variables[number], self._count(number)
        features = piece.features if number == piece.pairs[0][0] else None
        rows = slice(0, d) if features is None else slice(features.start, features.stop)
        single = side.map.dtype == np.float32 and d <= _WIDE
        needed = single or features is not None or self._few_rows(number, piece)
        if side.factor is None or not needed:
            return KernelSide(variable, side.map, side.centre, rows, None)
        shape = rows.stop - rows.start, d
        whitening = np.broadcast_to(side.map.dtype.type(0), shape)
        if seen:
            units = np.eye(d)[:, rows]
            whitening = solve_lower(side.factor, units, transposed=True).T.astype(side.map.dtype)
        return KernelSide(variable, side.map, side.centre, rows, whitening)

    def _few_rows(self, number: int, piece: _Piece) -> bool:
        """Whether there are fewer rows than columns of the cross-covariances that it has."""
        others = {k for pair in piece.pairs if number in pair for k in pair} - {number}
        columns = len(piece.features or ()) or sum(map(self._count, others))
        return 2 * self.session.n <= len(piece.cosets) * self.orbit.groups.size * columns

    def _block(self, reduction: SpectraPass, pair: Pair) -> Block:
        """Where the cross-covariances of a pair are, and what still whitens them."""
        kernels = dict(reduction.kernels)
        one, other = (
            self.sides[number].factor if kernels[number].whitening is None else None
            for number in pair
        )
        return Block(*reduction.place(pair), (one, other))

    def _error(self, reduction: SpectraPass, sums: SpectralSums, pair: Pair) -> float:
        """The most that rounding may leave in the root of a statistic, in any permutation.

        The error of a transform is relative to the norm of the features in a group, and errors of
        groups are independent, since their rows are in other orders: their squares add up. Those
        of the features themselves come before they are whitened. With a factor for safety.
        """
        dtype, b = self.session.dtype, self.orbit.groups.size
        numbers = [number for number, _ in reduction.kernels]
        i, j = (numbers.index(number) for number in pair)
        spread = np.sqrt(sums.norms[i] * sums.norms[j])
        share = np.sqrt(sums.products[i, j]) / spread if spread else 0.0
        (raw, norm), (other_raw, other_norm) = (
            self._norms(reduction, sums, number) for number in pair
        )
        unit = transform_error(dtype, b)
        errors = unit * norm * other_norm
        errors += tile_error(dtype) * (raw * other_norm + norm * other_raw)
        error = _SAFETY * float(share * errors) / math.sqrt(self.session.n)
        return math.inf if math.isnan(error) else error

    def _norms(
        self, reduction: SpectraPass, sums: SpectralSums, number: int
    ) -> tuple[float, float]:
        """Norms of the features about 0, and about their means as the sums hold them.

        Errors of features that are whitened afterwards grow as if they were independent.
        """
        kernel, factor = dict(reduction.kernels)[number], self.sides[number].factor
        squares = sums.raw[reduction.raw_places[number]]
        about = squares + self.session.n * np.square(kernel.centre, dtype=np.float64)
        if kernel.whitening is not None:
            place = [k for k, _ in reduction.kernels].index(number)
            weights = np.square(kernel.whitening, dtype=np.float64).sum(axis=0)
            return math.sqrt(weights @ about), math.sqrt(sums.norms[place])
        if factor is None:
            return math.sqrt(about[kernel.rows].sum()), math.sqrt(squares[kernel.rows].sum())
        weights = squared_norms(solve_lower(factor, np.eye(len(factor))))
        return math.sqrt(weights @ about), math.sqrt(weights @ squares)


def _parted(whole: Any, count: int) -> list[Any]:
    """So many parts, of which the first is the longest."""
    cuts = [-(-len(whole) * i // count) for i in range(count + 1)]
    return [whole[a:b] for a, b in pairwise(cuts)]


def _rectangles(pairs: Sequence[Pair]) -> tuple[Rectangle, ...]:
    """All pairs, as kernels of the first side with runs of those of the second."""
    order = {number: place for place, number in enumerate(sorted({pair[1] for pair in pairs}))}
    partners: dict[int, list[int]] = {}
    for first, second in pairs:
        partners.setdefault(first, []).append(second)
    alike: dict[tuple[int, ...], list[int]] = {}
    for first, seconds in partners.items():
        alike.setdefault(tuple(sorted(seconds)), []).append(first)
    return tuple(
        Rectangle(tuple(firsts), run)
        for seconds, firsts in alike.items()
        for run in _runs(seconds, order)
    )


def _runs(numbers: Sequence[int], order: Mapping[int, int]) -> Iterator[tuple[int, ...]]:
    """Ascending numbers, cut where their places do not follow each other."""
    cuts = [i for i in range(1, len(numbers)) if order[numbers[i]] > order[numbers[i - 1]] + 1]
    for start, stop in pairwise([0, *cuts, len(numbers)]):
        yield tuple(numbers[start:stop])


def _covariances(reduction: SpectraPass, sums: SpectralSums, n: int) -> Vector:
    """Cross-covariances of the features that are summed, shape (R b, P).

    Permutations leave the sums of either side as they are, so that the product of the means is
    the same for all, which is to say at frequency 0.
    """
    b = reduction.groups.size
    for crossing, rectangle in zip(reduction.crossings, reduction.rectangles, strict=True):
        first, second = (
            np.concatenate([sums.sums[reduction.places[number]] for number in some])
            for some in rectangle
        )
        crossing.of(sums.cross)[:, 0] -= b / n * np.outer(first, second)
    cross: Vector = fft.irfft(sums.cross, b, axis=1)
    cross /= n
    return cross.reshape(-1, cross.shape[2])
