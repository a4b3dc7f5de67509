"""Closed forms of the gradients, one an estimator.

Each has the plan of its measure, a gradient that costs at most what the measured one does, and the
measure, in the passes of its estimator, with its gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.plan import DriverStep, Plan
from dhsic.engine.session import Session
from dhsic.engine.tiles import Tiling
from dhsic.errors import InvalidArgumentError
from dhsic.estimators import RFFHSIC, VHSIC, Estimate, Estimator, NystromMHSIC
from dhsic.estimators.features import Form
from dhsic.estimators.nystrom_m import LandmarkFit
from dhsic.features import FourierFeatures
from dhsic.kernels import Combinations, Kernel
from dhsic.linalg import PivotedCholesky, pivoted_cholesky, solve_lower
from dhsic.sensitivity.gradients import BlockGradient, FeatureGradient, TileGradient

Vector = NDArray[np.float64]
Of = Literal["statistic", "estimate"]
Kernels = Sequence[Kernel]
Numbers = tuple[int, ...]


class Measured(NamedTuple):
    """A measure of dependence and its gradient."""

    value: float
    """The measure."""
    gradient: BlockGradient
    """In the rows of some variables."""
    estimate: Estimate
    """The estimate, which may be the measure."""


@dataclass(frozen=True)
class LandmarkForm:
    """Nystrom M-HSIC with its landmarks and bandwidths held.

    All of it depends on the data by the means kappa_m and kappa_J alone. With v = K_J^-1 u,
    K_J^-1 kappa_J = alpha_J and P_m = prod_{l != m} kappa_l, the derivatives of T are 2 n v in
    kappa_J and -2 n v P_m in kappa_m. Those of the estimate are 2 v, and with
    alpha_m = K_m^-1 kappa_m they are 2 prod_{l != m} (alpha_l' kappa_l) alpha_m - 2 alpha_J P_m.
    """

    estimator: NystromMHSIC
    of: Of

    def plan(self, session: Session, kernels: Kernels) -> Plan:
        plan = self.estimator.plan(session, Combinations.single(kernels), None)
        assert plan.n_landmarks is not None
        solving = DriverStep("coefficients", 3 * 8 * plan.n_landmarks**2)
        return replace(plan, steps=(*plan.steps, solving))

    def expected(self, session: Session, kernels: Kernels, wrt: Numbers) -> BlockGradient:
        return _unseen(session, kernels, self.estimator.most_landmarks(session), wrt)

    def measure(self, session: Session, kernels: Kernels, wrt: Numbers) -> Measured:
        # T leaves out a term of the marginals, which the estimate has and which has derivatives.
        whole = self.of == "statistic"
        fit = self.estimator.fit(session, kernels, self.of)
        session.step("coefficients")
        # v = K_J^-1 u, and P_m, the products of the other means.
        v, others = _landmark_weights(fit.basis.factor(0), fit.u), _products_but_one(fit.kappa)
        # Derivatives in sums over the rows, which are those in the means over n.
        joint, marginal = 2.0 * v, -2.0 * v * others
        if not whole:
            joint, marginal = joint / session.n, (marginal + _outside(fit, others)) / session.n
        landmarks = fit.basis.landmarks.points
        tiling = Tiling.prepare(fit.basis.combinations, landmarks, session.dtype)
        gradient = TileGradient(tiling, joint, marginal, None, wrt, _dims(session, wrt))
        return Measured(fit.value, gradient, fit.estimate)


def _outside(fit: LandmarkFit, others: Vector) -> Vector:
    """Derivatives in kappa_m of prod_m kappa_m' K_m^-1 kappa_m - P' K_J^-1 P, P = prod_m kappa_m.

    The estimate counts it as 0 where rounding makes it negative.
    """
    basis, product = fit.basis, fit.kappa.prod(axis=0)
    kernels = basis.combinations.kernels_of(0)
    # alpha_m = K_m^-1 kappa_m: Kalinke and Szabo (2023), (16).
    alphas = np.array(
        [
            _landmark_weights(pivoted_cholesky(kernel(z), basis.tolerance), mean)
            for kernel, z, mean in zip(kernels, basis.points(0), fit.kappa, strict=True)
        ]
    )
    norms = np.einsum("mj,mj->m", alphas, fit.kappa)
    # K_J^-1 P, for the part of the marginals that the joint landmarks hold.
    w = _landmark_weights(basis.factor(0), product)
    # The estimate is cut off at 0, where it has no slope.
    if norms.prod() <= product @ w:
        return np.zeros_like(fit.kappa)
    derivatives: Vector = 2.0 * (_products_but_one(norms)[:, None] * alphas - w * others)
    return derivatives


@dataclass(frozen=True)
class PairForm:
    """V-HSIC, with its bandwidths held: every row is a landmark, and moves with the data.

    With r_m the row means of K_m and g_m = prod_{l != m} r_l, the derivative in K_m,ij is
    (prod_{l != m} K_l,ij + prod_{l != m} mean(K_l) - g_mi - g_mj) / n^2. For two variables it is
    the centred Gram matrix of the other one, as in [1].

    References
    ----------
    .. [1] A. Perez-Suay, G. Camps-Valls. Sensitivity maps of the Hilbert-Schmidt independence
       criterion. Applied Soft Computing 70, 2018, equations 8 and 9.
    """

    estimator: VHSIC
    of: Of

    def plan(self, session: Session, kernels: Kernels) -> Plan:
        plan = self.estimator.plan(session, Combinations.single(kernels), None)
        rows = 8 * session.n * sum(session.dims)
        return replace(plan, steps=(*plan.steps, DriverStep("read all rows", 3 * rows, rows)))

    def expected(self, session: Session, kernels: Kernels, wrt: Numbers) -> BlockGradient:
        offsets = np.broadcast_to(0.0, (len(kernels), session.n))
        return replace(_unseen(session, kernels, session.n, wrt), offsets=offsets)

    def measure(self, session: Session, kernels: Kernels, wrt: Numbers) -> Measured:
        n = session.n
        fit = self.estimator.fit(session, kernels)
        session.step("read all rows")
        # Every row is a landmark, so that all rows are held.
        values = session.take([np.arange(n)] * len(session.sources))
        tiling = Tiling.prepare(Combinations.single(fit.estimate.kernels), values, session.dtype)
        means = fit.means
        # A row moves its row and its column of the Gram matrix, hence the 2.
        scale = 2.0 / n if self.of == "statistic" else 2.0 / n**2
        others = scale * _products_but_one(means)
        totals = scale * _products_but_one(means.mean(axis=1))
        # For two variables: Perez-Suay and Camps-Valls (2018), (8) and (9).
        gradient = TileGradient(
            tiling,
            np.full(n, scale),
            totals[:, None] - others,
            -others,
            wrt,
            _dims(session, wrt),
        )
        return _times_n(fit.estimate, gradient, session, self.of)


@dataclass(frozen=True)
class FeatureForm:
    """HSIC of random Fourier features, with frequencies and bandwidths held.

    References
    ----------
    .. [1] A. Perez-Suay, G. Camps-Valls. Sensitivity maps of the Hilbert-Schmidt independence
       criterion. Applied Soft Computing 70, 2018, equations 10 and 11 for form="complex".
    """

    estimator: RFFHSIC
    of: Of

    def plan(self, session: Session, kernels: Kernels) -> Plan:
        return self.estimator.plan(session, Combinations.single(kernels), None)

    def expected(self, session: Session, kernels: Kernels, wrt: Numbers) -> BlockGradient:
        maps = tuple(self.estimator.planned(d, session) for d in session.dims)
        counts = [features.n_features for features in maps]
        means = tuple(np.broadcast_to(0.0, count) for count in counts)
        return FeatureGradient(maps, means, np.broadcast_to(0.0, counts), wrt, _dims(session, wrt))

    def measure(self, session: Session, kernels: Kernels, wrt: Numbers) -> Measured:
        fit = self.estimator.fit(session, kernels)
        # Perez-Suay and Camps-Valls (2018), (10) and (11): the chain rule by the cross-covariance.
        derivative = _norm_derivative(fit.moments.plain(0, 1), self.estimator.form)
        # Every row is in C by 1 / n, and the statistic is n times the norm, so that both cancel.
        if self.of == "estimate":
            derivative /= session.n
        maps = tuple(cast(FourierFeatures, one.map) for one in fit.drawn.features)
        # Means over all rows, from those about the provisional ones.
        means = tuple(one.centre + fit.moments.mean(m) for m, one in enumerate(fit.drawn.features))
        gradient = FeatureGradient(maps, means, derivative, wrt, _dims(session, wrt))
        return _times_n(fit.estimate, gradient, session, self.of)


def closed_form(estimator: Estimator, of: Of) -> LandmarkForm | PairForm | FeatureForm:
    """The closed form of an estimator.

    Raises
    ------
    InvalidArgumentError
        It has none.
    """
    if isinstance(estimator, NystromMHSIC):
        return LandmarkForm(estimator, of)
    if isinstance(estimator, VHSIC):
        return PairForm(estimator, of)
    if isinstance(estimator, RFFHSIC):
        return FeatureForm(estimator, of)
    msg = (
        f"a sensitivity map needs estimator 'nystrom-m', 'v-hsic' or 'rff-hsic', got "
        f"{estimator.name!r}: take one of them"
    )
    raise InvalidArgumentError(msg)


def _norm_derivative(cross: Vector, form: Form) -> Vector:
    """The derivative of the squared norm of a cross-covariance C of [cos, sin] in C.

    In the complex form the norm is |cc + ss|^2 + |sc - cs|^2 of the blocks of C.
    """
    # d |C|^2 / dC = 2 C.
    if form == "cos-sin":
        return 2.0 * cross
    d1, d2 = (count // 2 for count in cross.shape)
    real = cross[:d1, :d2] + cross[d1:, d2:]
    imaginary = cross[d1:, :d2] - cross[:d1, d2:]
    # The chain rule from the real and the imaginary part to their four blocks.
    return 2.0 * np.block([[real, -imaginary], [imaginary, real]])


def _times_n(estimate: Estimate, gradient: BlockGradient, session: Session, of: Of) -> Measured:
    """The statistic is n times the estimate."""
    value = estimate.value * (session.n if of == "statistic" else 1)
    return Measured(value, gradient, estimate)


def _landmark_weights(factor: PivotedCholesky, values: Vector) -> Vector:
    """Weights at the landmarks of the function of these values: K^-1 values at those kept."""
    weights = np.zeros(len(values))
    # K^-1 = L^-T L^-1: two triangular solves, and no inverse is formed.
    half = solve_lower(factor.factor, values[factor.kept])
    weights[factor.kept] = solve_lower(factor.factor, half, transposed=True)
    return weights


def _products_but_one(values: NDArray[Any]) -> NDArray[Any]:
    """prod_{l != m} of all M entries along the first axis, without a division."""
    numbers = range(len(values))
    return np.array([np.delete(values, m, axis=0).prod(axis=0) for m in numbers])


def _dims(session: Session, wrt: Numbers) -> Numbers:
    return tuple(session.dims[m] for m in wrt)


def _unseen(session: Session, kernels: Kernels, p: int, wrt: Numbers) -> TileGradient:
    """A gradient at p landmarks that costs as much, with coefficients that take no memory."""
    guessed = Combinations.single(kernels).guessed(session.dims)
    tiling = Tiling.prepare(guessed, [np.zeros((p, d)) for d in session.dims], session.dtype)
    zero = tiling.dtype.type(0)
    joint, marginal = np.broadcast_to(zero, p), np.broadcast_to(zero, (len(tiling.kernels), p))
    return TileGradient(tiling, joint, marginal, None, wrt, _dims(session, wrt))
