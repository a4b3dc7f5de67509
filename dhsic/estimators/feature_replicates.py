"""Replicates of the cross-covariances of features, for one combination of kernels or several.

The features of the kernels of a variable are stacked side by side, so that a patch of
combinations, every first kernel with every second one, shares a pass. Replicates of a large patch
do not fit in memory; it is cut into smaller ones, which read the data once each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dhsic.engine.plan import DriverStep, PassPlan
from dhsic.engine.session import Session
from dhsic.estimators.feature_basis import Measure, Side, factors_of, whiten
from dhsic.estimators.feature_resampling import (
    PermutedFeaturePass,
    SignedFeaturePass,
    signed_covariances,
)
from dhsic.estimators.feature_sums import FeaturePair, covariances
from dhsic.features import StackedFeatures, side_by_side
from dhsic.nulls import Multiplier, Permutation, draw_permutations

__all__ = ["Patch", "PermutedFeatures", "Span", "replicate_sizes", "replicate_steps"]

Vector = NDArray[np.float64]
Matrix = NDArray[np.floating[Any]]
Resampled = Multiplier | Permutation
Pair = tuple[int, ...]

_PATIENT_PRODUCTS = 5e10
_NEGLIGIBLE = 1e-14  # of the largest variance; the sizes lose about as much


@dataclass(frozen=True)
class Patch:
    """Features of either variable, each of the first with each of the second.

    Parameters
    ----------
    firsts, seconds : dict of int to Side
        By the numbers of their kernels.
    """

    firsts: Mapping[int, Side]
    seconds: Mapping[int, Side]

    @property
    def features(self) -> FeaturePair:
        """Stacked."""
        sides = [tuple(side.values()) for side in (self.firsts, self.seconds)]
        first, second = (StackedFeatures.of([side.map for side in some]) for some in sides)
        one, other = (np.concatenate([side.centre for side in some]) for some in sides)
        return FeaturePair((first, second), (one, other))

    @property
    def pairs(self) -> list[Pair]:
        """The combinations, in the order of `sizes`."""
        return [(j, k) for j in self.firsts for k in self.seconds]

    def sizes(self, measure: Measure, cross: Matrix) -> Vector:
        """Of cross-covariances of the stacked features: (b, D_1, D_2) to (b, pairs)."""
        sizes = [
            measure.size(whiten(cross[:, rows, columns], factors_of(first, second)))
            for rows, first in _placed(self.firsts)
            for columns, second in _placed(self.seconds)
        ]
        return np.stack(sizes, axis=1)

    def cut(self, fits: Callable[[FeaturePair], bool]) -> Iterator[Patch]:
        """Halves of the longer side until they fit or hold one combination."""
        if len(self.firsts) == len(self.seconds) == 1 or fits(self.features):
            yield self
        elif len(self.firsts) >= len(self.seconds):
            for firsts in _halves(self.firsts):
                yield from Patch(firsts, self.seconds).cut(fits)
        else:
            for seconds in _halves(self.seconds):
                yield from Patch(self.firsts, seconds).cut(fits)


def _placed(sides: Mapping[int, Side]) -> list[tuple[slice, Side]]:
    """Sides with where their features are among those that are stacked."""
    places = side_by_side(side.map.n_features for side in sides.values())
    return list(zip(places, sides.values(), strict=True))


def _halves(sides: Mapping[int, Side]) -> list[dict[int, Side]]:
    listed = list(sides.items())
    middle = len(listed) // 2
    return [dict(listed[:middle]), dict(listed[middle:])]


def _patches(
    sides: Mapping[int, Side], chosen: Sequence[Pair], fits: Callable[[FeaturePair], bool]
) -> list[Patch]:
    """Patches that hold every chosen pair once, and no other."""
    partners: dict[int, list[int]] = {}
    for first, second in dict.fromkeys(chosen):
        partners.setdefault(first, []).append(second)
    alike: dict[frozenset[int], list[int]] = {}
    for first, seconds in partners.items():
        alike.setdefault(frozenset(seconds), []).append(first)
    whole = (
        Patch({j: sides[j] for j in firsts}, {k: sides[k] for k in sorted(seconds)})
        for seconds, firsts in alike.items()
    )
    return [patch for one in whole for patch in one.cut(fits)]


def replicate_steps(
    session: Session, sides: Mapping[int, Side], chosen: Sequence[Pair], null: Resampled
) -> list[DriverStep | PassPlan]:
    """What `replicate_sizes` takes."""
    resampling = _Resampling(session, null, over_all=_over_all(session, sides, chosen, null))
    patches = _patches(sides, chosen, resampling.fits)
    return [step for patch in patches for step in resampling.steps(patch.features)]


def replicate_sizes(
    session: Session,
    sides: Mapping[int, Side],
    chosen: Sequence[Pair],
    measure: Measure,
    null: Resampled,
) -> tuple[Vector, str]:
    """Sizes of the cross-covariances of the data and of their replicates.

    Parameters
    ----------
    session : Session
        Of two variables.
    sides : dict of int to Side
        Features of either variable, by the numbers of their kernels.
    chosen : sequence of tuple of int
        G pairs of numbers.
    measure : Measure
        Of cross-covariances.
    null : Multiplier or Permutation
        Resamples b times, the same for all combinations.

    Returns
    -------
    ndarray, shape (b + 1, G)
        The first row is of the data.
    str
        How the replicates were made, where the null leaves a choice.
    """
    resampling = _Resampling(session, null, over_all=_over_all(session, sides, chosen, null))
    found: dict[Pair, Vector] = {}
    for patch in _patches(sides, chosen, resampling.fits):
        found |= zip(patch.pairs, resampling.sizes(patch, measure).T, strict=True)
    return np.stack([found[pair] for pair in chosen], axis=1), resampling.detail


@dataclass(frozen=True)
class _Resampling:
    """How replicates are made.

    Parameters
    ----------
    session : Session
        Of two variables.
    null : Multiplier or Permutation
        The null distribution.
    over_all : bool
        Whether all rows are held, and permuted among each other.
    """

    session: Session
    null: Resampled
    over_all: bool

    @property
    def detail(self) -> str:
        """Which rows are permuted among each other."""
        if isinstance(self.null, Multiplier):
            return ""
        return self.null.detail(over_all=self.over_all)

    def fits(self, features: FeaturePair) -> bool:
        """Whether so many take a small part of the memory, or are to be cut."""
        steps = self.steps(features)
        needed = (
            step.worker_bytes if isinstance(step, PassPlan) else step.working_bytes
            for step in steps
        )
        return max(needed) <= self.session.runtime.memory // 8

    def steps(self, features: FeaturePair) -> list[DriverStep | PassPlan]:
        """What `sizes` takes."""
        b = self.null.n_resamples
        if not self.over_all:
            solve = DriverStep("solve", 4 * 8 * (b + 1) * features.products)
            return [self.session.plan(self._pass(features)), solve]
        n, held = self.session.n, _held_bytes(self.session, features)
        orders = 16 * n * b
        moved = self.session.dtype.itemsize * n * features.counts[1] + 4 * 8 * features.products
        squares = 4 * 8 * sum(d * d for d in features.counts)
        return [
            DriverStep("features of all rows", 4 * held + squares),
            DriverStep("permutation null", held + orders + self.session.runtime.threads * moved),
        ]

    def sizes(self, patch: Patch, measure: Measure) -> Vector:
        """Of the combinations of a patch, shape (b + 1, pairs)."""
        if self.over_all:
            return self._over_all_rows(patch, measure)
        sums = self.session.run(self._pass(patch.features)).cross
        self.session.step("solve")
        if isinstance(self.null, Multiplier):
            found = np.concatenate([covariances(sums[:1]), signed_covariances(sums)])
        else:
            found = covariances(sums)
        return patch.sizes(measure, found)

    def _over_all_rows(self, patch: Patch, measure: Measure) -> Vector:
        session, n = self.session, self.session.n
        session.step("features of all rows")
        beside = patch.features.with_ones(session.take([np.arange(n)] * 2))
        centred = [x[:, :-1] - x[:, :-1].mean(axis=0, dtype=np.float64) for x in beside]
        (first, ones), (second, others) = (
            _spanned([side.whitened(x[:, at]) for at, side in _placed(sides)], session.dtype)
            for x, sides in zip(centred, (patch.firsts, patch.seconds), strict=True)
        )
        orders = draw_permutations(session.seed, 0, n, self.null.n_resamples, 2)[:, 0]
        permuted = PermutedFeatures(first, second, ones, others, orders, measure)
        replicates = session.map("permutation null", permuted, self.null.n_resamples)
        return np.concatenate([permuted.sizes(np.arange(n))[None], *replicates])

    def _pass(self, features: FeaturePair) -> SignedFeaturePass | PermutedFeaturePass:
        if isinstance(self.null, Multiplier):
            return SignedFeaturePass(features, self.null.n_resamples, self.session.seed)
        return PermutedFeaturePass(features, self.null, self.session.seed)


class Span(NamedTuple):
    """The directions in which the features of one kernel differ."""

    at: slice
    """Where the coordinates are among those that are stacked."""
    directions: Vector
    """Orthonormal, shape (D, r)."""


@dataclass(frozen=True)
class PermutedFeatures:
    """Sizes of cross-covariances with the second variable permuted over all rows.

    Parameters
    ----------
    first, second : ndarray, shapes (n, sum_k r_k)
        The centred, whitened features of all rows, by their coordinates.
    firsts, seconds : tuple of Span
        What these are coordinates of, for every kernel.
    orders : ndarray of int, shape (b, n)
        The permutations.
    measure : Measure
        Of cross-covariances.
    """

    first: Matrix
    second: Matrix
    firsts: tuple[Span, ...]
    seconds: tuple[Span, ...]
    orders: NDArray[np.intp]
    measure: Measure

    def __call__(self, replicates: range) -> Vector:
        """Of some of the permutations, shape (replicates, pairs)."""
        return np.array([self.sizes(self.orders[b]) for b in replicates])

    def sizes(self, order: NDArray[np.intp]) -> Vector:
        """Of one order of the rows, shape (pairs,)."""
        cross = self.first.T @ self.second.take(order, axis=0) / len(order)
        whole = cross.astype(np.float64, copy=False)
        return np.array([self._size(whole, j, k) for j in self.firsts for k in self.seconds])

    def _size(self, cross: Vector, first: Span, second: Span) -> float:
        block = cross[first.at, second.at]
        if not self.measure.rotates:
            block = first.directions @ block @ second.directions.T
        return float(self.measure.size(block[None])[0])


def _spanned(features: Sequence[Matrix], dtype: DTypeLike) -> tuple[Matrix, tuple[Span, ...]]:
    """The features (n, D_k) of kernels by the directions in which they differ.

    Smooth kernels of few columns have few. What is left out is orthogonal to the rest, so it
    takes its square from the sizes.
    """
    coordinates, directions = [], []
    for one in features:
        variances, vectors = np.linalg.eigh((one.T @ one).astype(np.float64, copy=False))
        kept = vectors[:, variances >= _NEGLIGIBLE * variances[-1]]
        coordinates.append((one @ kept).astype(dtype, copy=False))
        directions.append(kept)
    places = side_by_side(kept.shape[1] for kept in directions)
    return np.hstack(coordinates), tuple(map(Span, places, directions))


def _over_all(
    session: Session, sides: Mapping[int, Side], chosen: Sequence[Pair], null: Resampled
) -> bool:
    """Whether all rows are permuted: as asked, or where they fit and it takes no minute.

    The same for a combination by itself as among others.
    """
    if isinstance(null, Multiplier):
        return False
    if null.within != "auto":
        return null.within == "all"
    return session.n <= null.block_rows or all(
        _quick(session, Patch({j: sides[j]}, {k: sides[k]}).features, null) for j, k in chosen
    )


def _quick(session: Session, features: FeaturePair, null: Permutation) -> bool:
    held = 4 * _held_bytes(session, features) + 16 * session.n * null.n_resamples
    work = session.n * float(null.n_resamples) * features.products
    return held <= session.runtime.memory // 2 and work <= _PATIENT_PRODUCTS


def _held_bytes(session: Session, features: FeaturePair) -> int:
    return 8 * session.n * (sum(features.counts) + sum(session.dims))
