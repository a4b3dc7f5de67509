"""Tests from the cross-covariance of features: what the estimators on features run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.plan import DriverStep, PassPlan, Plan
from dhsic.engine.session import Session
from dhsic.estimators.approximate import guard_features
from dhsic.estimators.base import (
    BANDWIDTH_ROWS,
    Estimate,
    GridOutcome,
    Null,
    Outcome,
    Resampling,
    plan_of,
    rounding_unit,
)
from dhsic.estimators.feature_basis import (
    SQUARED_HSIC,
    Basis,
    Measure,
    Side,
    fourth_moment,
    whiten,
)
from dhsic.estimators.feature_replicates import replicate_sizes, replicate_steps
from dhsic.estimators.feature_shifts import resample_features, resampling_steps
from dhsic.estimators.feature_sums import (
    FeaturePair,
    MomentsPass,
    MomentSums,
    NormMomentsPass,
    covariances,
)
from dhsic.estimators.null_moments import permutation_moments
from dhsic.features import FeatureMap
from dhsic.kernels import Combinations
from dhsic.linalg import spectrum
from dhsic.nulls import (
    ChiSquareMixture,
    Distribution,
    Gamma,
    GammaDistribution,
    Multiplier,
    Permutation,
    Shifts,
    Spectral,
)

__all__ = [
    "estimate_by_moments",
    "feature_outcome",
    "grid_outcome",
    "plan_features",
    "sample_step",
    "unseen_sides",
]

Vector = NDArray[np.float64]
Matrix = NDArray[np.floating[Any]]


def plan_features(
    session: Session,
    maps: Sequence[FeatureMap],
    null: Null | None,
    preparation: Sequence[DriverStep | PassPlan],
    remedy: str,
    *,
    whitened: bool,
    n_landmarks: int | None = None,
    chosen: Sequence[tuple[int, ...]] = ((0, 1),),
    measure: Measure = SQUARED_HSIC,
) -> Plan:
    """What would run after the features are prepared.

    Parameters
    ----------
    session : Session
        Of two variables.
    maps : sequence of FeatureMap
        One a kernel.
    null : Null or None
        The null distribution; None for an estimate.
    preparation : sequence of DriverStep or PassPlan
        What prepares the features.
    remedy : str
        What to do where it needs too much memory.
    whitened : bool
        Whether the basis has factors.
    n_landmarks : int, optional
        Landmarks before pruning.
    chosen : sequence of tuple of int, optional
        Combinations of two maps. More than one need replicates.
    measure : Measure, optional
        Of cross-covariances.

    Returns
    -------
    Plan
    """
    sides = unseen_sides(maps, whitened=whitened)
    steps = [*preparation, sample_step(maps)]
    if isinstance(null, Shifts):
        steps += resampling_steps(session, sides, chosen, measure, null)
    elif isinstance(null, Multiplier | Permutation):
        steps += replicate_steps(session, sides, chosen, null)
    else:
        features = FeaturePair((maps[0], maps[1]), (sides[0].centre, sides[1].centre))
        steps += _moment_steps(session, features, null, whitened=whitened)
    return plan_of(session, steps, remedy, n_landmarks)


def unseen_sides(maps: Sequence[FeatureMap], *, whitened: bool = False) -> dict[int, Side]:
    """Features by number, with means and factors that take no memory, for plans."""
    zero = maps[0].dtype.type(0)
    sides = {k: Side(one, np.broadcast_to(zero, one.n_features)) for k, one in enumerate(maps)}
    if not whitened:
        return sides
    return {
        k: side._replace(factor=np.broadcast_to(0.0, (side.map.n_features,) * 2))
        for k, side in sides.items()
    }


def sample_step(maps: Sequence[FeatureMap]) -> DriverStep:
    """What the features of a sample take, kernel by kernel, of which their means stay."""
    counts = [one.n_features for one in maps]
    return DriverStep(
        "features of the sample", 8 * 4 * BANDWIDTH_ROWS * max(counts), 8 * sum(counts)
    )


def _moment_steps(
    session: Session, features: FeaturePair, null: Null | None, *, whitened: bool
) -> list[DriverStep | PassPlan]:
    if isinstance(null, Gamma):
        one, other = (np.broadcast_to(0.0, (d, d)) for d in features.counts)
        planned = session.plan(NormMomentsPass(features, (one, other) if whitened else None))
    else:
        planned = session.plan(MomentsPass(features))
    return [planned, DriverStep("solve", 4 * 8 * 3 * max(features.counts) ** 2)]


def estimate_by_moments(basis: Basis, measure: Measure, sums: MomentSums) -> Estimate:
    """The measure of the data."""
    return _estimate(basis, measure, measure.size(_whitened(basis, sums)))


def feature_outcome(
    session: Session, basis: Basis, measure: Measure, null: Null, sums: MomentSums | None = None
) -> Outcome:
    """The statistic, n times the measure, with its null distribution.

    Parameters
    ----------
    session : Session
        Of two variables.
    basis : Basis
        Their features.
    measure : Measure
        Of cross-covariances.
    null : Null
        The null distribution.
    sums : MomentSums, optional
        Of the features, where they are known: the spectral null needs no other pass.

    Returns
    -------
    Outcome
    """
    if isinstance(null, Resampling):
        combinations = Combinations.single(basis.kernels)
        return grid_outcome(session, combinations, [basis], measure, null).only
    note = guard_features(session, dict(enumerate(basis.sides)), [(0, 1)], null)
    if isinstance(null, Spectral):
        if sums is None:
            sums = session.run(MomentsPass(basis.features))
        found = _spectral_outcome(session, basis, measure, null, sums)
    else:
        assert isinstance(null, Gamma)
        found = _gamma_outcome(session, basis, measure)
    return replace(found, detail=note)


def grid_outcome(
    session: Session,
    combinations: Combinations,
    bases: Sequence[Basis],
    measure: Measure,
    null: Resampling,
) -> GridOutcome:
    """The statistics of combinations, n times the measure, with their replicates.

    Parameters
    ----------
    session : Session
        Of two variables.
    combinations : Combinations
        As fitted, G of them.
    bases : sequence of Basis
        Their features, one for each.
    measure : Measure
        Of cross-covariances.
    null : Multiplier, Permutation or Shifts
        The null distribution.

    Returns
    -------
    GridOutcome
    """
    sides = {
        number: side
        for pair, basis in zip(combinations.chosen, bases, strict=True)
        for number, side in zip(pair, basis.sides, strict=True)
    }
    if isinstance(null, Shifts):
        found, detail = resample_features(session, sides, combinations.chosen, measure, null)
        return GridOutcome(
            combinations,
            found.statistics,
            found.replicates,
            lambda g: _estimate(bases[g], measure, found.statistics[g:] / session.n),
            detail,
            found.rounding,
        )
    note = guard_features(session, sides, combinations.chosen, null)
    sizes, detail = replicate_sizes(session, sides, combinations.chosen, measure, null)
    return GridOutcome(
        combinations,
        session.n * sizes[0],
        session.n * sizes[1:],
        lambda g: _estimate(bases[g], measure, sizes[:, g]),
        note or detail,
        np.array([_rounding(session, basis) for basis in bases]),
    )


def _spectral_outcome(
    session: Session, basis: Basis, measure: Measure, null: Spectral, sums: MomentSums
) -> Outcome:
    """The products of the eigenvalues of either covariance weigh the mixture.

    Zhang et al. (2018), sections 4.1.2 and 4.2.2.
    """
    session.step("solve")
    first, second = basis.covariances(sums)
    mixture = ChiSquareMixture.of_products(spectrum(first), spectrum(second))
    sizes = measure.size(_whitened(basis, sums))
    return _outcome(session, basis, measure, sizes, null.distribution(mixture, session.seed))


def _gamma_outcome(session: Session, basis: Basis, measure: Measure) -> Outcome:
    sums = session.run(NormMomentsPass(basis.features, basis.factors))
    session.step("solve")
    own = [covariances(both)[:-1, :-1] for both in (sums.first, sums.second)]
    mean, variance = permutation_moments(
        session.n,
        traces=np.array([np.trace(c) for c in own]),
        squares=np.array([np.vdot(c, c) for c in own]),
        fourths=np.array([fourth_moment(both) for both in (sums.first, sums.second)]),
    )
    sizes = measure.size(_whitened(basis, sums))
    return _outcome(session, basis, measure, sizes, GammaDistribution(mean, variance))


def _whitened(basis: Basis, sums: MomentSums) -> Matrix:
    return whiten(covariances(sums.cross[None]), basis.factors)


def _estimate(basis: Basis, measure: Measure, sizes: Vector) -> Estimate:
    value = measure.value(float(sizes[0]))
    return Estimate(value, basis.kernels, basis.landmarks, basis.summary, measure.quantity)


def _outcome(
    session: Session, basis: Basis, measure: Measure, sizes: Vector, distribution: Distribution
) -> Outcome:
    statistic, estimate = session.n * float(sizes[0]), _estimate(basis, measure, sizes)
    return Outcome(statistic, distribution, estimate, rounding=_rounding(session, basis))


def _rounding(session: Session, basis: Basis) -> float:
    """What rounding leaves of the statistic where features have no covariance."""
    return session.n * rounding_unit(session.dtype) ** 2 * basis.spread
