"""Many features against one target, at landmarks that each of them prunes by itself."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.plan import DriverStep, PassPlan, baseline_bytes
from dhsic.engine.session import Session
from dhsic.estimators.landmark_basis import LandmarkBasis, squared_hsic
from dhsic.estimators.landmark_tests import multiplier_functions, suits_one_task
from dhsic.estimators.ranked_passes import (
    RankedMeans,
    RankedMultiplierPass,
    RankedPermutationPass,
    RankedSums,
    RankedSumsPass,
)
from dhsic.estimators.ranked_tiles import RankedTiles
from dhsic.kernels import Kernel
from dhsic.landmarks import warn_of_rounding
from dhsic.linalg import pivoted_cholesky, squared_norms
from dhsic.nulls import Multiplier, Permutation

__all__ = [
    "RankedMeasures",
    "RankedStatistics",
    "measure_ranked",
    "plan_ranked",
    "rank_estimates",
    "rank_tests",
]

Vector = NDArray[np.float64]
Indices = NDArray[np.intp]
Resampling = Multiplier | Permutation


class RankedMeasures(NamedTuple):
    """Squared HSIC, shapes (G,)."""

    hsic: Vector
    """Of every feature with the target."""
    own: Vector
    """Of every feature with itself."""
    target: Vector
    """Of the target with itself."""


class RankedStatistics(NamedTuple):
    """What replicates say of G features."""

    statistics: Vector
    """T = n u' K_J^-1 u, shape (G,)."""
    replicates: Vector
    """Of T under the null hypothesis, shape (b, G)."""
    detail: str
    """How they were made, where the null leaves a choice."""


def plan_ranked(
    session: Session, tiles: RankedTiles, null: Resampling | None, held: int
) -> list[DriverStep | PassPlan]:
    """The passes of `rank_tests` or `rank_estimates`, with all landmarks kept.

    `held` are the bytes that the driver holds besides.
    """
    steps: list[DriverStep | PassPlan] = [session.plan(RankedSumsPass(tiles, joint=null is None))]
    if null is not None:
        zero = tiles.precision.type(0)
        means = RankedMeans(*(np.broadcast_to(zero, k) for k in (tiles.n_values, tiles.n_target)))
        null = _resolved(session, tiles, means, null)
        for numbers in _parts(session, tiles, means, null, held):
            reduction = _replicate_pass(session, tiles, means, null, numbers)
            functions = 8 * reduction.tiles.n_values * (null.n_resamples + 1)
            steps += [session.plan(reduction), DriverStep("solve", 4 * functions)]
    return steps


def rank_estimates(session: Session, basis: LandmarkBasis) -> RankedMeasures:
    """The estimates of all features, in one pass."""
    tiles = _tiles(session, basis)
    sums = session.run(RankedSumsPass(tiles, joint=True))
    kappa = _kappa(session, tiles, sums.plain, sums.target)
    joint = tiles.parts_of(sums.joint / session.n)
    u = [own - basis.means(c, kappa).prod(axis=0) for c, own in enumerate(joint)]
    return _measures(session, basis, tiles, sums, u)


def rank_tests(
    session: Session, basis: LandmarkBasis, null: Resampling, held: int
) -> tuple[RankedStatistics, RankedMeasures]:
    """T of every feature and its replicates, and the estimates.

    In one pass for the means and one for the replicates, or as few of these as fit in memory
    beside the bytes that are `held`.
    """
    tiles = _tiles(session, basis)
    sums = session.run(RankedSumsPass(tiles, joint=False))
    means = RankedMeans(
        (sums.plain / session.n).astype(session.dtype),
        (sums.target / session.n).astype(session.dtype),
    )
    null = _resolved(session, tiles, means, null)
    u: list[Vector] = []
    norms: list[Vector] = []
    for numbers in _parts(session, tiles, means, null, held):
        reduction = _replicate_pass(session, tiles, means, null, numbers)
        functions = _functions(session, reduction)
        session.step("solve")
        for c, values in zip(numbers, reduction.tiles.parts_of(functions), strict=True):
            u.append(values[:, 0].copy())
            norms.append(session.n * squared_norms(basis.whiten(c, values)))
    statistics, *replicates = np.transpose(norms)
    over_all = isinstance(null, Permutation) and null.within == "all"
    detail = null.detail(over_all=over_all) if isinstance(null, Permutation) else ""
    ranked = RankedStatistics(statistics, np.array(replicates), detail)
    return ranked, _measures(session, basis, tiles, sums, u)


def _tiles(session: Session, basis: LandmarkBasis) -> RankedTiles:
    """Tiles of all features, after a warning of those that lose digits in them."""
    tiles = RankedTiles.prepare(
        basis.combinations, basis.landmarks.points, basis.kept, session.dtype
    )
    names = basis.combinations.spread(session.names)
    points = [*tiles.points, tiles.target_points]
    warn_of_rounding(names, basis.combinations.kernels, points, session.dtype)
    return tiles


def _functions(session: Session, reduction: RankedMultiplierPass | RankedPermutationPass) -> Vector:
    """u, and U_b of every replicate, shape (R, b + 1)."""
    if isinstance(reduction, RankedMultiplierPass):
        return multiplier_functions(session.run(reduction), session.n)
    return session.run(reduction).centred.T / session.n


def _replicate_pass(
    session: Session, tiles: RankedTiles, means: RankedMeans, null: Resampling, numbers: range
) -> RankedMultiplierPass | RankedPermutationPass:
    """The pass over some of the features."""
    at = slice(tiles.places[numbers[0]].start, tiles.places[numbers[-1]].stop)
    part, its = tiles.part(numbers), RankedMeans(means.features[at], means.target)
    if isinstance(null, Multiplier):
        return RankedMultiplierPass(part, its, null.n_resamples, session.seed)
    return RankedPermutationPass(part, its, null, null.within == "all", session.seed)


def _parts(
    session: Session, tiles: RankedTiles, means: RankedMeans, null: Resampling, held: int
) -> list[range]:
    """Features that one pass takes: as many as fit in memory, and one at least."""
    count = len(tiles.kernels)
    kept = held + tiles.nbytes + means.nbytes + 2 * 8 * count * (null.n_resamples + 1)
    allowed = session.runtime.memory - baseline_bytes() - kept
    parts: list[range] = []
    while not parts or parts[-1].stop < count:
        start = parts[-1].stop if parts else 0

        def exceeds(stop: int, start: int = start) -> bool:
            reduction = _replicate_pass(session, tiles, means, null, range(start, stop))
            return session.plan(reduction).worker_bytes > allowed

        # The first end that is too far, less one.
        stop = start + bisect_left(range(start + 1, count + 1), True, key=exceeds)
        parts.append(range(start, max(stop, start + 1)))
    return parts


def _resolved(
    session: Session, tiles: RankedTiles, means: RankedMeans, null: Resampling
) -> Resampling:
    """The null with its choice made once for all features, which must share replicates."""
    if isinstance(null, Multiplier) or null.within != "auto":
        return null
    everything = range(len(tiles.kernels))
    whole = _replicate_pass(session, tiles, means, replace(null, within="all"), everything)
    assert isinstance(whole, RankedPermutationPass)
    return replace(null, within="all" if suits_one_task(session, whole, null) else "blocks")


def _kappa(session: Session, tiles: RankedTiles, features: Vector, target: Vector) -> Vector:
    """Means of all kernels at the landmarks that are kept, from sums, shape (G + 1, p)."""
    kappa = np.zeros((len(tiles.kept) + 1, tiles.n_target))
    for c, (kept, own) in enumerate(zip(tiles.kept, tiles.parts_of(features), strict=True)):
        kappa[c, kept] = own
    kappa[-1] = target
    return kappa / session.n


def _measures(
    session: Session,
    basis: LandmarkBasis,
    tiles: RankedTiles,
    sums: RankedSums,
    u: Sequence[Vector],
) -> RankedMeasures:
    kappa = _kappa(session, tiles, sums.plain, sums.target)
    squares = _kappa(session, tiles, sums.squares, sums.target_squares)
    return measure_ranked(session, basis, kappa, squares, u)


def measure_ranked(
    session: Session, basis: LandmarkBasis, kappa: Vector, squares: Vector, u: Sequence[Vector]
) -> RankedMeasures:
    """The estimates of Kalinke and Szabo (2023), Lemma 4.2, for (x, y), (x, x) and (y, y).

    The pair (x, x) has the landmark tuples (z_j, z_j), so that its product kernel is k^2 and its
    means are those of k^2.

    Parameters
    ----------
    session : Session
        The run.
    basis : LandmarkBasis
        Of all features with the target.
    kappa, squares : ndarray, shapes (G + 1, p)
        Means of the kernels and of their squares, of every feature where it keeps landmarks.
    u : sequence of ndarray, shapes (r_c,)
        kappa_J - kappa_x kappa_y of every feature.

    Returns
    -------
    RankedMeasures
    """
    session.step("estimate")
    hsic, own = [], []
    for c, kept in enumerate(basis.kept):
        hsic.append(basis.squared_hsic(c, basis.means(c, kappa), u[c]))
        kernel, z = basis.combinations.kernels_of(c)[0], basis.points(c)[0]
        own.append(_own_hsic(kernel, z, kappa[c, kept], squares[c, kept], basis.tolerance))
    target = _own_hsic(
        basis.combinations.kernels[-1],
        basis.landmarks.points[1],
        kappa[-1],
        squares[-1],
        basis.tolerance,
    )
    return RankedMeasures(np.array(hsic), np.array(own), np.full(len(own), target))


def _own_hsic(kernel: Kernel, z: Vector, means: Vector, squares: Vector, tolerance: float) -> float:
    """Squared HSIC of a variable with itself, by the means of k and of k^2 at landmarks."""
    gram = kernel(z)
    joint = pivoted_cholesky(gram**2, tolerance)
    both = np.array([means, means])
    return squared_hsic((gram, gram), joint, both, squares - means**2, tolerance)
