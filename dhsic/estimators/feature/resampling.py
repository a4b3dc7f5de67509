"""How cross-covariances of features are resampled, in passes that fit the memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.groups import Groups
from dhsic.engine.plan import DriverStep, PassPlan
from dhsic.engine.session import Session
from dhsic.estimators.base import Resampling
from dhsic.estimators.feature.basis import Factors, Measure, Side
from dhsic.estimators.feature.blocks import KeptBlocks, UnbiasedEstimates
from dhsic.estimators.feature.layout import KernelSide, Layout, Pair
from dhsic.estimators.feature.orbits import OrbitPass
from dhsic.estimators.feature.pieces import Piece, fewest_parts, parted
from dhsic.estimators.feature.sizes import (
    SLAB_BYTES,
    ReplicateSizes,
    rounding_error,
)
from dhsic.estimators.resample import (
    Orbit,
    narrower,
    orbit_of,
    suits_one_task,
)
from dhsic.linalg import solve_lower

Vector = NDArray[np.float64]

_LEAST_GROUP = 16  # rows
_ESTIMATED = 1024  # rows of a group of which nothing moves
_WIDE = 256  # features, beyond which whitening them row by row takes long
_TILE_BYTES = 2**25  # of the features and transforms in a task
_LEAST_TILE_BYTES = 2**20
_SERIAL_BYTES = 2**22  # of cross-covariances that are sooner measured than sent to threads


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
    pairs : tuple of tuple of int
        Distinct combinations; those that share the most features are next to each other.
    measure : Measure
        The size of cross-covariances.
    orbit : Orbit
        The permutations.
    unbiased : bool, optional
        Whether blocks make estimates unbiased.
    """

    session: Session
    sides: Mapping[int, Side]
    variables: Mapping[int, int]
    pairs: tuple[Pair, ...]
    measure: Measure
    orbit: Orbit
    unbiased: bool = False

    @classmethod
    def of(
        cls,
        session: Session,
        sides: Mapping[int, Side],
        chosen: Sequence[Pair],
        measure: Measure,
        null: Resampling | None,
        variables: Mapping[int, int] | None,
        *,
        unbiased: bool,
    ) -> FeatureResampling:
        """With smaller groups and more cosets where a combination does not fit otherwise."""
        if variables is None:
            variables = {number: place for pair in chosen for place, number in enumerate(pair)}
        counts = [
            sum(sides[number].n_summed for number in set(some))
            for some in zip(*chosen, strict=True)
        ]
        longer = int(counts[1] > counts[0])
        # Pairs with one kernel on the longer side stay together where pieces are cut.
        pairs = tuple(sorted(set(chosen), key=lambda pair: (pair[longer], pair)))
        made = partial(cls, session, sides, variables, pairs, measure, unbiased=unbiased)
        if null is None:
            # An estimate takes the identity alone.
            return made(Orbit(Groups.of(session.n, _ESTIMATED, session.seed), 1, shifted=False))
        resampling = made(orbit_of(session, null, lambda orbit: made(orbit)._suits(orbit)))
        # Smaller groups have fewer frequencies, and more cosets make up for the shifts.
        while not resampling._can_fit:
            resampling = made(narrower(session, resampling.orbit, null.n_resamples))
        return resampling

    def replicates(self, piece: Piece) -> slice:
        """Their numbers."""
        each = self.orbit.n_shifts
        return slice(each * piece.cosets.start, each * piece.cosets.stop)

    def _suits(self, orbit: Orbit) -> bool:
        """Whether one task can take all permutations of a combination by itself."""
        whole = Piece((self._largest,), range(orbit.cosets))
        return suits_one_task(self.session, self._orbit_pass(whole, orbit, seen=False))

    @property
    def _can_fit(self) -> bool:
        """Whether pieces can be cut until they fit, or groups are as small as they may be."""
        orbit = self.orbit
        if self.measure.adds or not orbit.shifted:
            return True
        small = orbit.groups.size < 2 * _LEAST_GROUP
        last = range(orbit.cosets)[-1:]
        return small or self._fits(Piece((self._largest,), last))

    @property
    def _largest(self) -> Pair:
        return max(self.pairs, key=lambda pair: math.prod(map(self._n_features, pair)))

    def _n_features(self, number: int) -> int:
        return self.sides[number].n_summed

    def pieces(self) -> list[Piece]:
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
            return [piece._replace(pairs=some) for some in parted(piece.pairs, 2)]
        # The last coset, which takes more than the first: it moves rows.
        last = piece._replace(cosets=piece.cosets[-1:])
        if self._fits(last):
            return [piece._replace(cosets=some) for some in parted(piece.cosets, 2)]
        if (
            piece.features
            or not self.measure.adds
            or not self._fits(last._replace(features=range(1)))
        ):
            return []
        features = range(self._n_features(piece.pairs[0][0]))
        parts = fewest_parts(features, lambda some: self._fits(last._replace(features=some)))
        return [piece._replace(features=some) for some in parts]

    def _fits(self, piece: Piece) -> bool:
        """Whether a piece leaves memory for what the driver holds."""
        needed = (
            step.worker_bytes if isinstance(step, PassPlan) else step.working_bytes
            for step in self.steps(piece)
        )
        return max(needed) <= self.session.runtime.pass_bytes

    @property
    def _tile_bytes(self) -> int:
        """Less than is quick where many threads share the memory."""
        share = max(1, self.session.runtime.pass_bytes // (4 * self.session.runtime.worker_threads))
        return int(min(_TILE_BYTES, max(_LEAST_TILE_BYTES, 2 ** (share.bit_length() - 1))))

    def steps(self, piece: Piece) -> list[DriverStep | PassPlan]:
        """The pass of `sizes` and the step after it."""
        reduction = self._orbit_pass(piece, self.orbit, seen=False)
        needed = SLAB_BYTES * self.session.runtime.worker_threads
        slabs = 4 * min(needed, reduction.solve_bytes // 2)
        factors = 3 * 8 * max(self._n_features(k) ** 2 for k in reduction.layout.places)
        solve = DriverStep("solve", reduction.solve_bytes + slabs + factors)
        return [self.session.plan(reduction), solve]

    def sizes(self, piece: Piece) -> tuple[Vector, Vector, NDArray[Any] | None]:
        """For every replicate and pair of a piece, and what rounding leaves in their roots.

        Returns
        -------
        sizes : ndarray, shape (replicates, pairs)
            By the measure.
        errors : ndarray, shape (pairs,)
            Bounds for the roots of the statistics.
        kept : ndarray or None
            The rows that `KeptBlocks` keeps.
        """
        reduction = self._orbit_pass(piece, self.orbit, seen=True)
        sums = self.session.reduce(reduction)
        kept = None if reduction.blocks is None else sums.kept
        errors = np.array([rounding_error(reduction, sums, self.sides, p) for p in piece.pairs])
        cross = reduction.covariances(sums)
        self.session.step("solve")
        sizes = ReplicateSizes(
            cross,
            tuple(map(reduction.layout.place, piece.pairs)),
            tuple(self._factors(reduction.layout, pair) for pair in piece.pairs),
            self.measure,
        )
        if cross.nbytes <= _SERIAL_BYTES:
            return sizes(range(len(cross))), errors, kept
        return np.concatenate(self.session.map("solve", sizes, len(cross))), errors, kept

    @property
    def estimates(self) -> UnbiasedEstimates | None:
        """Unbiased estimates, where they are asked for."""
        if not self.unbiased:
            return None
        groups = self.orbit.groups
        if self.session.moves is not None:  # a group may hold the rows of one stratum
            groups = Groups.of(self.session.n, _ESTIMATED, self.session.seed)
        kept = KeptBlocks.of(self.session, groups)
        return UnbiasedEstimates(kept, self.sides, self.variables)

    def _orbit_pass(self, piece: Piece, orbit: Orbit, *, seen: bool) -> OrbitPass:
        layout = self._layout(piece, seen=seen)
        # The first pass keeps the rows of the unbiased estimate for all.
        keeps = piece.pairs[0] == self.pairs[0] and piece.cosets.start == piece.start == 0
        keeps = keeps and self.session.moves is None
        blocks = self.estimates.blocks if keeps and self.estimates else None
        return OrbitPass(layout, orbit, piece.cosets, self._tile_bytes, blocks)

    def _layout(self, piece: Piece, *, seen: bool) -> Layout:
        numbers = {number for pair in piece.pairs for number in pair}
        kernels = {number: self._kernel(number, piece, seen=seen) for number in numbers}
        return Layout.of(kernels, piece.pairs)

    def _kernel(self, number: int, piece: Piece, *, seen: bool) -> KernelSide:
        """The features of a kernel, or some of them; with whitening that takes no memory for plans.

        They are whitened row by row where that is quicker than to whiten the cross-covariances, or
        where these cannot be: of a part of the features, or where float32 products would leave too
        few digits.
        """
        side, d = self.sides[number], self._n_features(number)
        features = piece.features if number == piece.pairs[0][0] else None
        rows = slice(0, d) if features is None else slice(features.start, features.stop)
        single = side.map.dtype == np.float32 and d <= _WIDE
        needed = single or features is not None or self._few_rows(number, piece)
        whitening = None
        if side.projection is not None:
            whitening = side.projection[rows].astype(side.map.dtype, copy=False)
        elif side.factor is not None and needed:
            whitening = np.broadcast_to(side.map.dtype.type(0), (rows.stop - rows.start, d))
            if seen:
                # Rows of L^-1, by solving for unit vectors.
                units = np.eye(d)[:, rows]
                whitening = solve_lower(side.factor, units, transposed=True).T
                whitening = whitening.astype(side.map.dtype)
        return KernelSide(self.variables[number], side.map, side.centre, rows, whitening)

    def _few_rows(self, number: int, piece: Piece) -> bool:
        """Whether there are fewer rows than columns of the cross-covariances that it has."""
        others = {k for pair in piece.pairs if number in pair for k in pair} - {number}
        columns = len(piece.features or ()) or sum(map(self._n_features, others))
        return 2 * self.session.n <= len(piece.cosets) * self.orbit.n_shifts * columns

    def _factors(self, layout: Layout, pair: Pair) -> Factors:
        """Factors that still whiten the cross-covariances of a pair."""
        kernels = dict(layout.kernels)
        first, second = (
            self.sides[number].factor if kernels[number].whitening is None else None
            for number in pair
        )
        return first, second
