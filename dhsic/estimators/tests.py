"""Tests from the cross-covariance of features: what the estimators on features run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.plan import DriverStep, PassPlan, Plan
from dhsic.engine.session import Session
from dhsic.estimators.approximate import guard_features
from dhsic.estimators.base import BANDWIDTH_ROWS, Null, plan_of
from dhsic.estimators.outcomes import Estimate, GridOutcome, Outcome
from dhsic.estimators.weighted import weighted_steps
from dhsic.features import FeatureMap
from dhsic.kernels import Combinations
from dhsic.linalg import spectrum
from dhsic.nulls import (
    ChiSquareMixture,
    Distribution,
    Gamma,
    GammaDistribution,
    Resampling,
    Spectral,
)
from dhsic.statistics.moments import (
    Covariances,
    feature_moments,
    fourth_moment,
    moments_layout,
    moments_steps,
)
from dhsic.statistics.null_moments import permutation_moments
from dhsic.statistics.outer import FeatureResampling, independent_rounding
from dhsic.statistics.sides import (
    SQUARED_HSIC,
    Basis,
    Measure,
    Side,
    unseen_sides,
    whiten,
)

Vector = NDArray[np.float64]


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
    measured: bool = False,
    counts: Sequence[int] | None = None,
    unbiased: bool = False,
) -> Plan:
    """The steps that would run.

    Parameters
    ----------
    session : Session
        The run, over two variables.
    maps : sequence of FeatureMap
        One a kernel.
    null : Null or None
        The null distribution; None for an estimate.
    preparation : sequence of DriverStep or PassPlan
        The steps that prepare the maps.
    remedy : str
        Advice where it needs too much memory.
    whitened : bool
        Whether the features have factors.
    n_landmarks : int, optional
        Landmarks before pruning.
    chosen : sequence of tuple of int, optional
        Combinations of two maps. More than one need replicates.
    measure : Measure, optional
        The size of cross-covariances.
    measured : bool, optional
        Whether the factors come from the covariances of the features over all rows.
    counts : sequence of int, optional
        Principal features of each that replicates are made of; all where not given.
    unbiased : bool, optional
        Whether blocks make the estimate unbiased.

    Returns
    -------
    Plan
    """
    sides = unseen_sides(maps, whitened=whitened, counts=counts)
    steps = [*preparation, sample_step(session.n, maps)]
    if measured:
        steps += moments_steps(session, sides, then="normalise features")
    if isinstance(null, Resampling):
        steps += FeatureResampling.of(
            session, sides, chosen, measure, null, unbiased=unbiased
        ).steps()
    elif session.weights is not None and null is not None:
        steps += weighted_steps(session, sides)
    elif isinstance(null, Gamma):
        steps += moments_steps(session, sides, normed=True)
    elif measured:
        steps += moments_steps(session, sides)[1:]
    elif null is None and unbiased:
        steps += FeatureResampling.of(session, sides, chosen, measure, None, unbiased=True).steps()
    elif null is None:
        steps += moments_steps(session, sides, crossed=True)
    else:
        steps += moments_steps(session, sides)
    return plan_of(session, steps, remedy, n_landmarks)


def sample_step(n: int, maps: Sequence[FeatureMap]) -> DriverStep:
    """The bytes of `describe_sides` of n rows, kernel by kernel, of which the means stay."""
    s, most = min(n, BANDWIDTH_ROWS), max(features.n_features for features in maps)
    held = 8 * sum(features.n_features for features in maps)
    return DriverStep("features of the sample", 8 * 4 * s * most, held)


def describe_sides(
    session: Session,
    maps: Sequence[FeatureMap],
    samples: Sequence[Vector],
    factors: Sequence[Vector | None] | None = None,
) -> list[Side]:
    """The features of every kernel, about their means over samples (s, d)."""
    session.step("features of the sample")
    return list(map(Side.of, maps, samples, factors or [None] * len(maps)))


def estimate_by_moments(
    session: Session,
    basis: Basis,
    measure: Measure,
    covariances: Covariances | None = None,
) -> Estimate:
    """The measure of the data, in a pass where the covariances are not known."""
    if covariances is None:
        layout = moments_layout(dict(enumerate(basis.sides)), crossed=True)
        covariances = feature_moments(session, layout)
    session.step("solve")
    return _estimate(basis, measure, _size(basis, measure, covariances.of(0, 1)))


def unbiased_estimate(session: Session, basis: Basis) -> Estimate:
    """Squared HSIC of the data by blocks and features, in a pass."""
    replicates = FeatureResampling.of(
        session, dict(enumerate(basis.sides)), [(0, 1)], SQUARED_HSIC, None, unbiased=True
    ).run()
    return _estimate(basis, SQUARED_HSIC, replicates.estimate(0))


def column_outcome(
    session: Session,
    basis: Basis,
    measure: Measure,
    null: Null,
    covariances: Covariances | None = None,
) -> Outcome:
    """The statistic, n times the measure, with its null distribution.

    Parameters
    ----------
    session : Session
        The run, over two variables.
    basis : Basis
        Their features.
    measure : Measure
        The size of cross-covariances.
    null : Null
        The null distribution.
    found : Covariances, optional
        Those of the features, where they are known: the spectral null needs no other pass.

    Returns
    -------
    Outcome
    """
    if isinstance(null, Resampling):
        combinations = Combinations.single(basis.kernels)
        return grid_outcome(session, combinations, [basis], measure, null).only
    assert isinstance(null, Gamma | Spectral)
    sides = dict(enumerate(basis.sides))
    note = guard_features(session, sides, [(0, 1)], null)
    if isinstance(null, Spectral):
        covariances = covariances or feature_moments(session, moments_layout(sides))
        session.step("solve")
        size = _size(basis, measure, covariances.of(0, 1))
        law = _spectral(session, basis, covariances, null)
    else:
        # The variance over permutations holds fourth moments, for which norms are summed like
        # features.
        normed = feature_moments(session, moments_layout(sides, normed=True))
        session.step("solve")
        # The last feature is the squared norm, which is no part of what is measured.
        size = float(measure.size(normed.of(0, 1)[None, :-1, :-1])[0])
        law = _gamma(session, normed)
    estimate = _estimate(basis, measure, size)
    rounding = independent_rounding(session, basis.sides)
    return Outcome(session.n * size, law, estimate, note, rounding)


def grid_outcome(
    session: Session,
    combinations: Combinations,
    bases: Sequence[Basis],
    measure: Measure,
    null: Resampling,
    *,
    unbiased: bool = False,
) -> GridOutcome:
    """The statistics of combinations, n times the measure, with their replicates.

    Parameters
    ----------
    session : Session
        The run, over two variables.
    combinations : Combinations
        As fitted, G of them.
    bases : sequence of Basis
        Their features, one for each.
    measure : Measure
        The size of cross-covariances.
    null : Permutation or Shifts
        The null distribution.
    unbiased : bool, optional
        Whether estimates are unbiased, of squared HSIC.

    Returns
    -------
    GridOutcome
    """
    chosen = combinations.chosen
    sides = {
        number: side
        for pair, basis in zip(chosen, bases, strict=True)
        for number, side in zip(pair, basis.sides, strict=True)
    }
    variables = dict(enumerate(combinations.variables))
    replicates = FeatureResampling.of(
        session, sides, chosen, measure, null, variables, unbiased=unbiased
    ).run()
    return GridOutcome(
        combinations,
        replicates.resampled.statistics,
        replicates.resampled.replicates,
        lambda g: _estimate(bases[g], measure, replicates.estimate(g)),
        replicates.detail,
        replicates.resampled.rounding,
    )


def _spectral(
    session: Session, basis: Basis, covariances: Covariances, null: Spectral
) -> Distribution:
    """The products of the eigenvalues of either covariance weigh the mixture.

    Zhang et al. (2018), sections 4.1.2 and 4.2.2.
    """
    spectra = [
        spectrum(whiten(covariances.of(m, m)[None], (side.factor, side.factor))[0])
        for m, side in enumerate(basis.sides)
    ]
    return null.distribution(ChiSquareMixture.of_products(*spectra), session.seed)


def _gamma(session: Session, normed: Covariances) -> GammaDistribution:
    """With the mean and the variance over all permutations."""
    # The last row and column belong to the squared norm.
    covariances = [normed.of(m, m)[:-1, :-1] for m in (0, 1)]
    mean, variance = permutation_moments(
        session.n,
        traces=np.array([np.trace(c) for c in covariances]),
        squares=np.array([np.vdot(c, c) for c in covariances]),
        fourths=np.array([fourth_moment(normed, m) for m in (0, 1)]),
    )
    return GammaDistribution(mean, variance)


def _size(basis: Basis, measure: Measure, cross: Vector) -> float:
    return float(measure.size(whiten(cross[None], basis.factors))[0])


def _estimate(basis: Basis, measure: Measure, size: float) -> Estimate:
    value = measure.value(size)
    return Estimate(value, basis.kernels, basis.landmarks, basis.summary, measure.quantity)
