"""HSIC of any number of variables by random frequencies that they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dhsic.engine.plan import DriverStep, PassPlan, Plan
from dhsic.engine.session import Session
from dhsic.engine.tiles import Matrix, Tile, Tiling, as_real
from dhsic.errors import InvalidArgumentError
from dhsic.estimators.approximate import guard_landmarks
from dhsic.estimators.base import Estimate, GridOutcome, Null, Outcome, Resampling, plan_of
from dhsic.estimators.frequencies import draw_combined_frequencies, frequency_steps
from dhsic.estimators.landmark_products import CentredProducts
from dhsic.estimators.landmark_sums import SumsPass
from dhsic.estimators.landmark_tests import (
    kernel_means,
    plan_fitted,
    plan_replicates,
    run_fitted,
    run_replicates,
)
from dhsic.features import centred_rows, write_phases
from dhsic.kernels import Combinations, Kernel
from dhsic.nulls import Multiplier, Permutation, Shifts
from dhsic.results import FeatureSummary

__all__ = ["JointFrequencies", "WaveFit", "Waves"]

Vector = NDArray[np.float64]

_REMEDY = "take fewer features, fewer kernels ('gaussian' is one), resamples or threads"


@dataclass(frozen=True)
class Waves:
    """exp(i w'(x - c)) at frequencies w, as tiles of complex numbers.

    Parameters
    ----------
    centre : ndarray, shape (d,)
        c, in units of the variable; it keeps the digits of the phases.
    """

    centre: Vector

    @property
    def work_tiles(self) -> int:
        """One, for the phases."""
        return 1

    def rows(self, x: NDArray[Any], dtype: DTypeLike) -> Matrix:
        """Centred rows (b, d)."""
        return centred_rows(x, self.centre, dtype)

    def tile(self, rows: Matrix, columns: Matrix, out: Tile, work: Tile) -> None:
        """Write cosines and sines of the phases.

        Parameters
        ----------
        rows : ndarray, shape (b, d)
            From `rows`.
        columns : ndarray, shape (p, d)
            Frequencies, in 1 / units of the variable.
        out : ndarray of complex, shape (b, p)
            Overwritten.
        work : ndarray of complex, shape (1, b, p)
            Scratch.

        Raises
        ------
        DataError
            Phases overflow.
        """
        phases = as_real(work[0]).reshape(2, *out.shape)[0]
        write_phases(rows, columns, phases)
        np.cos(phases, out=out.real)
        np.sin(phases, out=out.imag)

    @property
    def gradient_tiles(self) -> int:
        """One, for the weighted waves."""
        return 1

    def gradient(
        self, rows: Matrix, columns: Matrix, gram: Tile, weights: Tile, work: Tile
    ) -> Matrix:
        """Gradients Re sum_j weights_ij i w_j exp(i w_j'(x_i - c)).

        Parameters
        ----------
        rows, columns : ndarray, shapes (b, d) and (p, d)
            As for `tile`.
        gram, weights : ndarray of complex, shapes (b, p)
            What `tile` writes, and weights.
        work : ndarray of complex, shape (1, b, p)
            Scratch.

        Returns
        -------
        ndarray, shape (b, d)
        """
        del rows
        np.multiply(weights, gram, out=work[0])
        gradients: Matrix = (-work[0].imag @ columns).astype(np.float64, copy=False)
        return gradients


class WaveFit(NamedTuple):
    """An estimate by random frequencies, with all that it is made of."""

    tiling: Tiling
    """Tiles of the waves."""
    kappa: NDArray[np.complex128]
    """Their means, shape (M, D)."""
    u: NDArray[np.complex128]
    """kappa_J - prod_m kappa_m, shape (D,)."""
    estimate: Estimate
    """|u|^2 / D."""


@dataclass(frozen=True)
class JointFrequencies:
    """HSIC of any number of variables with translation-invariant kernels.

    Let w_j = (w_1j, ..., w_Mj), j = 1..D, be tuples of independent frequencies from the spectral
    laws of the kernels. The products prod_m exp(i w_mj' x_m) / sqrt(D) are features of the
    product of the kernels. With kappa_m the means of exp(i w_mj' x_m) over all rows, kappa_J that
    of their products and u = kappa_J - prod_m kappa_m, the estimate is |u|^2 / D: its mean over
    the frequencies is V-HSIC ([1] equation 5). The test statistic is T = n |u|^2 / D. It is
    Nystrom M-HSIC with complex features in place of kernels at landmarks, of which the Gram
    matrix is D times the identity.

    Parameters
    ----------
    n_features : int
        Frequencies D.
    orthogonal : bool
        Whether those of a variable are orthogonal in groups of as many as it has columns.

    References
    ----------
    .. [1] F. Kalinke, Z. Szabo. Nystrom M-Hilbert-Schmidt independence criterion. UAI 2023.

    Examples
    --------
    >>> JointFrequencies(n_features=200, orthogonal=False)
    JointFrequencies(n_features=200, orthogonal=False)
    """

    n_features: int
    orthogonal: bool

    def choose_null(self, session: Session, n_resamples: int) -> tuple[Null, str]:
        """Permutations: the others are approximations."""
        del session
        return Permutation(n_resamples), "exact for exchangeable rows"

    def plan(self, session: Session, null: Null | None) -> Plan:
        """What would run."""
        variables = tuple(range(len(session.sources)))
        _refuse_shifts(null)
        return self._plan(session, variables, [variables], null)

    def plan_grid(self, session: Session, combinations: Combinations, null: Resampling) -> Plan:
        """What a test of several combinations would run."""
        _refuse_shifts(null)
        return self._plan(session, combinations.variables, combinations.chosen, null)

    def estimate(self, session: Session, kernels: Sequence[Kernel]) -> Estimate:
        """|u|^2 / D, in one pass."""
        return self.fit(session, kernels).estimate

    def fit(self, session: Session, kernels: Sequence[Kernel]) -> WaveFit:
        """The estimate with all that it is made of."""
        fitted, _, tiling = self._basis(session, Combinations.single(kernels))
        sums = session.run(SumsPass(tiling, joint=True))
        kappa, joint = (values.view(np.complex128) / session.n for values in sums)
        u = joint - kappa.prod(axis=0)
        estimate = self._estimate(fitted.kernels, float(np.mean(np.abs(u) ** 2)))
        return WaveFit(tiling, kappa, u, estimate)

    def test(self, session: Session, kernels: Sequence[Kernel], null: Null) -> Outcome:
        """T and its null distribution, in two passes."""
        combinations = Combinations.single(kernels)
        if isinstance(null, Resampling):
            return self.test_grid(session, combinations, null).only
        fitted, note, products = self._products(session, combinations, null)
        (tested,) = run_fitted(session, products, [self._whiten], null)
        estimate = self._estimate(fitted.kernels, tested.statistic / session.n)
        return Outcome(tested.statistic, tested.distribution, estimate, note)

    def test_grid(
        self, session: Session, combinations: Combinations, null: Resampling
    ) -> GridOutcome:
        """T of every combination and its replicates, in two passes."""
        _refuse_shifts(null)
        assert isinstance(null, Multiplier | Permutation)
        fitted, note, products = self._products(session, combinations, null)
        found = run_replicates(session, products, [self._whiten] * len(combinations), null)

        def estimate(c: int) -> Estimate:
            return self._estimate(fitted.kernels_of(c), float(found.statistics[c]) / session.n)

        rounding = np.zeros(len(combinations))
        return GridOutcome(
            fitted, found.statistics, found.replicates, estimate, note or found.detail, rounding
        )

    def _plan(
        self,
        session: Session,
        variables: tuple[int, ...],
        chosen: Sequence[tuple[int, ...]],
        null: Null | None,
    ) -> Plan:
        dims = [session.dims[m] for m in variables]
        tiling = self.planned(session, dims, variables)
        steps: list[DriverStep | PassPlan] = [
            *frequency_steps(session, self.n_features, len(variables)),
            session.plan(SumsPass(tiling, joint=null is None)),
        ]
        if isinstance(null, Multiplier | Permutation):
            steps += plan_replicates(session, tiling, chosen, null)
        elif null is not None:
            steps += plan_fitted(session, tiling, chosen, null)
        return plan_of(session, steps, _REMEDY)

    def planned(self, session: Session, dims: Sequence[int], variables: tuple[int, ...]) -> Tiling:
        """Tiles that cost what those of kernels on so many columns do, for plans."""
        zero = session.dtype.type(0)
        waves = tuple(Waves(np.zeros(d)) for d in dims)
        columns = tuple(np.broadcast_to(zero, (self.n_features, d)) for d in dims)
        return Tiling(waves, columns, parts=2, variables=variables)

    def _products(
        self, session: Session, combinations: Combinations, null: Null
    ) -> tuple[Combinations, str, CentredProducts]:
        """The fitted kernels, what is amiss with the null distribution, and the products."""
        fitted, samples, tiling = self._basis(session, combinations)
        most = 2.0 * self.n_features
        note = guard_landmarks(session, fitted, samples, null, directions=most)
        means = list(kernel_means(session, tiling).astype(session.dtype))
        return fitted, note, CentredProducts.of(tiling, means, combinations.chosen)

    def _basis(
        self, session: Session, combinations: Combinations
    ) -> tuple[Combinations, list[Vector], Tiling]:
        """The fitted kernels, samples of every variable, and waves at drawn frequencies."""
        fitted, samples, drawn = draw_combined_frequencies(
            session, combinations, self.n_features, orthogonal=self.orthogonal
        )
        waves = tuple(Waves(features.centre) for features in drawn)
        columns = tuple(features.frequencies for features in drawn)
        tiling = Tiling(waves, columns, parts=2, variables=combinations.variables)
        return fitted, samples, tiling

    def _whiten(self, values: Vector) -> Vector:
        """In units of the features: every wave is sqrt(D) times one."""
        whitened: Vector = values / self.n_features**0.5
        return whitened

    def _estimate(self, kernels: tuple[Kernel, ...], value: float) -> Estimate:
        counts = (self.n_features,) * len(kernels)
        summary = FeatureSummary("complex", counts, self.orthogonal)
        return Estimate(value, kernels, features=summary)


def _refuse_shifts(null: Null | None) -> None:
    if isinstance(null, Shifts):
        msg = (
            "null 'shifts' of 'rff-hsic' takes two variables: take null 'permutation', which is "
            "exact as well, or estimator 'nystrom-m' or 'v-hsic'"
        )
        raise InvalidArgumentError(msg)
