"""Tests from the cross-covariance of features: what the estimators on features run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.plan import DriverStep, PassPlan, Plan
from dhsic.engine.session import Session
from dhsic.estimators.base import (
    BANDWIDTH_ROWS,
    Estimate,
    Null,
    Outcome,
    plan_of,
    rounding_unit,
)
from dhsic.estimators.feature_basis import (
    Basis,
    Measure,
    fourth_moment,
    whiten,
)
from dhsic.estimators.feature_sums import (
    FeaturePair,
    MomentsPass,
    MomentSums,
    NormMomentsPass,
    PermutedFeaturePass,
    SignedFeaturePass,
    covariances,
    signed_covariances,
)
from dhsic.estimators.null_moments import permutation_moments
from dhsic.features import FeatureMap
from dhsic.linalg import spectrum
from dhsic.nulls import (
    ChiSquareMixture,
    Distribution,
    Gamma,
    GammaDistribution,
    Multiplier,
    Permutation,
    Replicates,
    Spectral,
    draw_permutations,
)

__all__ = [
    "PermutedFeatures",
    "choose_null",
    "estimate_by_moments",
    "feature_outcome",
    "plan_features",
]

Vector = NDArray[np.float64]
Matrix = NDArray[np.floating[Any]]

_QUICK_PRODUCTS = 4e9
_PATIENT_PRODUCTS = 5e10


def choose_null(session: Session, counts: tuple[int, int], n_resamples: int) -> tuple[Null, str]:
    """Permutations of all rows where they take about a second and fit, the spectrum beyond."""
    n, products = session.n, counts[0] * counts[1]
    held = 16 * n * (sum(counts) + sum(session.dims) + n_resamples)
    quick = n * float(n_resamples) * products <= _QUICK_PRODUCTS
    if quick and held <= session.runtime.memory // 2:
        return Permutation(n_resamples, within="all"), "exact, and quick for so few rows"
    return Spectral(), "too many rows to permute quickly; the spectrum needs no replicates"


def plan_features(
    session: Session,
    maps: tuple[FeatureMap, FeatureMap],
    null: Null | None,
    preparation: Sequence[DriverStep | PassPlan],
    remedy: str,
    *,
    whitened: bool,
    n_landmarks: int | None = None,
) -> Plan:
    """What would run after the features are prepared.

    Parameters
    ----------
    session : Session
        Of two variables.
    maps : tuple of FeatureMap
        One a variable.
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

    Returns
    -------
    Plan
    """
    zero = maps[0].dtype.type(0)
    c1, c2 = (np.broadcast_to(zero, one.n_features) for one in maps)
    features = FeaturePair(maps, (c1, c2))
    sample = 8 * 4 * BANDWIDTH_ROWS * sum(features.counts)
    steps = [*preparation, DriverStep("features of the sample", sample, sample)]
    if isinstance(null, Permutation) and _over_all_rows(session, features, null):
        steps += _steps_over_all_rows(session, features, null)
    else:
        steps += _streamed_steps(session, features, null, whitened=whitened)
    return plan_of(session, steps, remedy, n_landmarks)


def _steps_over_all_rows(
    session: Session, features: FeaturePair, null: Permutation
) -> list[DriverStep]:
    held = _held_bytes(session, features)
    orders = 16 * session.n * null.n_resamples
    moved = session.dtype.itemsize * (session.n * features.counts[1] + 2 * features.products)
    return [
        DriverStep("features of all rows", 4 * held, held),
        DriverStep("permutation null", orders + session.runtime.threads * moved),
    ]


def _streamed_steps(
    session: Session, features: FeaturePair, null: Null | None, *, whitened: bool
) -> list[DriverStep | PassPlan]:
    matrices = 3
    if isinstance(null, Multiplier | Permutation):
        planned = session.plan(_replicate_pass(session, features, null))
        matrices = null.n_resamples + 1
    elif isinstance(null, Gamma):
        one, other = (np.broadcast_to(0.0, (d, d)) for d in features.counts)
        planned = session.plan(NormMomentsPass(features, (one, other) if whitened else None))
    else:
        planned = session.plan(MomentsPass(features))
    return [planned, DriverStep("solve", 4 * 8 * matrices * max(features.counts) ** 2)]


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
    if isinstance(null, Spectral):
        if sums is None:
            sums = session.run(MomentsPass(basis.features))
        return _spectral_outcome(session, basis, measure, null, sums)
    if isinstance(null, Gamma):
        return _gamma_outcome(session, basis, measure)
    assert isinstance(null, Multiplier | Permutation)
    return _replicate_outcome(session, basis, measure, null)


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


def _replicate_outcome(
    session: Session, basis: Basis, measure: Measure, null: Multiplier | Permutation
) -> Outcome:
    if isinstance(null, Permutation) and _over_all_rows(session, basis.features, null):
        sizes = _permuted_over_all_rows(session, basis, measure, null)
        detail = null.detail(over_all=True)
    else:
        sums = session.run(_replicate_pass(session, basis.features, null)).cross
        session.step("solve")
        if isinstance(null, Multiplier):
            found = np.concatenate([covariances(sums[:1]), signed_covariances(sums)])
            detail = ""
        else:
            found = covariances(sums)
            detail = null.detail(over_all=False)
        sizes = measure.size(whiten(found, basis.factors))
    distribution = Replicates(session.n * sizes[1:])
    return _outcome(session, basis, measure, sizes, distribution, detail)


@dataclass(frozen=True)
class PermutedFeatures:
    """The size of the cross-covariance with the second variable permuted over all rows.

    Parameters
    ----------
    first, second : ndarray, shapes (n, D_m)
        The centred, whitened features of all rows.
    orders : ndarray of int, shape (b, n)
        The permutations.
    measure : Measure
        Of cross-covariances.
    """

    first: Matrix
    second: Matrix
    orders: NDArray[np.intp]
    measure: Measure

    def __call__(self, replicates: range) -> Vector:
        """Of some of the permutations."""
        return np.array([self.size(self.orders[b]) for b in replicates])

    def size(self, order: NDArray[np.intp]) -> float:
        """Of one order of the rows."""
        cross = self.first.T @ self.second.take(order, axis=0) / len(order)
        return float(self.measure.size(cross[None].astype(np.float64))[0])


def _whitened(basis: Basis, sums: MomentSums) -> Matrix:
    return whiten(covariances(sums.cross[None]), basis.factors)


def _estimate(basis: Basis, measure: Measure, sizes: Vector) -> Estimate:
    value = measure.value(float(sizes[0]))
    return Estimate(value, basis.kernels, basis.landmarks, basis.summary, measure.quantity)


def _outcome(
    session: Session,
    basis: Basis,
    measure: Measure,
    sizes: Vector,
    distribution: Distribution,
    detail: str = "",
) -> Outcome:
    """With what rounding leaves of the statistic where features have no covariance."""
    rounding = session.n * rounding_unit(session.dtype) ** 2 * basis.spread
    estimate = _estimate(basis, measure, sizes)
    return Outcome(session.n * float(sizes[0]), distribution, estimate, detail, rounding)


def _permuted_over_all_rows(
    session: Session, basis: Basis, measure: Measure, null: Permutation
) -> Vector:
    session.step("features of all rows")
    rows = session.take([np.arange(session.n)] * 2)
    beside = basis.features.with_ones(rows)
    centred = [x[:, :-1] - x[:, :-1].mean(axis=0, dtype=np.float64) for x in beside]
    first, second = (np.ascontiguousarray(x, session.dtype) for x in basis.whitened(centred))
    orders = draw_permutations(session.seed, 0, session.n, null.n_resamples, 2)[:, 0]
    permuted = PermutedFeatures(first, second, orders, measure)
    replicates = session.map("permutation null", permuted, null.n_resamples)
    return np.concatenate([[permuted.size(np.arange(session.n))], *replicates])


def _replicate_pass(
    session: Session, features: FeaturePair, null: Multiplier | Permutation
) -> SignedFeaturePass | PermutedFeaturePass:
    if isinstance(null, Multiplier):
        return SignedFeaturePass(features, null.n_resamples, session.seed)
    return PermutedFeaturePass(features, null, session.seed)


def _over_all_rows(session: Session, features: FeaturePair, null: Permutation) -> bool:
    """Whether all rows are permuted: as asked, or where they fit and it takes no minute."""
    if null.within != "auto":
        return null.within == "all"
    held = 4 * _held_bytes(session, features) + 16 * session.n * null.n_resamples
    work = session.n * float(null.n_resamples) * features.products
    fits = held <= session.runtime.memory // 2 and work <= _PATIENT_PRODUCTS
    return fits or session.n <= null.block_rows


def _held_bytes(session: Session, features: FeaturePair) -> int:
    return 8 * session.n * (sum(features.counts) + sum(session.dims))
