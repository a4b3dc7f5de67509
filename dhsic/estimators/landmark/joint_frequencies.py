"""HSIC of any number of variables by random frequencies that they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dhsic.engine.plan import Plan
from dhsic.engine.session import Session
from dhsic.engine.tiles import Matrix, Tile, Tiling, as_real
from dhsic.estimators.approximate import guard_landmarks
from dhsic.estimators.base import Null, Resampling, plan_of
from dhsic.estimators.feature.frequencies import draw_combined_frequencies, frequency_steps
from dhsic.estimators.landmark.statistics import (
    TupleNull,
    fit_tuples,
    measure_tuples,
    plan_tuples,
    resample_tuples,
)
from dhsic.estimators.landmark.tuples import Tuples
from dhsic.estimators.outcomes import Estimate, GridOutcome, Outcome
from dhsic.estimators.resample import TwoSided, exact_null
from dhsic.features import centred_rows, write_phases
from dhsic.kernels import Combinations, Kernel
from dhsic.nulls import Gamma, Spectral
from dhsic.results import FeatureSummary

Vector = NDArray[np.float64]

_PILOT_ROWS = 256
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
        # The tile of work is complex, and half of its memory holds the phases.
        phases = as_real(work[0]).reshape(2, *out.shape)[0]
        self._write_phases(rows, columns, phases)
        # Both parts of exp(i phase) by themselves, which needs no complex exponential.
        np.cos(phases, out=out.real)
        np.sin(phases, out=out.imag)

    def _write_phases(self, rows: Matrix, columns: Matrix, phases: Matrix) -> None:
        write_phases(rows, columns, phases)

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
            Gram matrix that `tile` writes, and weights.
        work : ndarray of complex, shape (1, b, p)
            Scratch.

        Returns
        -------
        ndarray, shape (b, d)
        """
        del rows
        np.multiply(weights, gram, out=work[0])
        # Re(i z) = -Im z.
        gradients: Matrix = (-work[0].imag @ columns).astype(np.float64, copy=False)
        return gradients


@dataclass(frozen=True)
class _Frequencies(Waves):
    """The same tiles with frequencies as rows and rows of data as columns: `TupleKernel`."""

    def rows(self, x: NDArray[Any], dtype: DTypeLike) -> Matrix:
        """Frequencies (p, d)."""
        return np.ascontiguousarray(x, dtype)

    def columns(self, z: NDArray[Any], dtype: DTypeLike) -> Matrix:
        """Centred rows of data (b, d)."""
        return centred_rows(z, self.centre, dtype)

    def width(self, d: int) -> int:
        """Columns of prepared rows."""
        return d

    def _write_phases(self, rows: Matrix, columns: Matrix, phases: Matrix) -> None:
        write_phases(columns, rows, phases.T)


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
        """Shifts of rows; permutations of three variables or more."""
        return exact_null(len(session.sources), n_resamples)

    def plan(self, session: Session, combinations: Combinations, null: Null | None) -> Plan:
        """The plan."""
        assert null is None or isinstance(null, TupleNull)
        zero, d = np.float64(0.0), self.n_features
        centres = [np.zeros(session.dims[m]) for m in combinations.variables]
        frequencies = [np.broadcast_to(zero, (d, len(centre))) for centre in centres]
        pilots = [np.broadcast_to(zero, d)] * len(centres)
        tuples = self._at(session, combinations, centres, frequencies, pilots)
        steps = [
            *frequency_steps(session, d, len(combinations.variables)),
            *plan_tuples(session, tuples, null),
        ]
        return plan_of(session, steps, _REMEDY)

    def estimate(self, session: Session, kernels: Sequence[Kernel]) -> Estimate:
        """|u|^2 / D, in one pass."""
        return self.fit(session, kernels).estimate

    def fit(self, session: Session, kernels: Sequence[Kernel]) -> WaveFit:
        """The estimate with all that it is made of."""
        fitted, _, tuples = self._basis(session, Combinations.single(kernels))
        moments = measure_tuples(session, tuples)
        (u,) = moments.u
        # Its mean over the frequencies is V-HSIC: Kalinke and Szabo (2023), (5).
        estimate = self._estimate(fitted.kernels, float(np.mean(np.abs(u) ** 2)))
        centres = [wave.centre for wave in tuples.kernels if isinstance(wave, Waves)]
        waves = tuple(map(Waves, centres))
        frequencies = tuple(w.astype(session.dtype) for w in tuples.landmarks)
        tiling = Tiling(waves, frequencies, parts=2, variables=tuples.variables)
        return WaveFit(tiling, moments.kappa, u, estimate)

    def test(self, session: Session, kernels: Sequence[Kernel], null: Null) -> Outcome:
        """T and its null distribution."""
        combinations = Combinations.single(kernels)
        if isinstance(null, Resampling):
            return self.test_grid(session, combinations, null).only
        assert isinstance(null, Gamma | Spectral)
        fitted, note, tuples = self._tuples(session, combinations, null)
        (tested,), _ = fit_tuples(session, tuples, [self._whiten], null)
        return Outcome(*tested, self._estimate(fitted.kernels, tested.statistic / session.n), note)

    def test_grid(
        self, session: Session, combinations: Combinations, null: Resampling
    ) -> GridOutcome:
        """T of every combination and its replicates."""
        fitted, note, tuples = self._tuples(session, combinations, null)
        whiten = [self._whiten] * len(combinations)
        resampled, _, detail = resample_tuples(session, tuples, whiten, null)

        def estimate(c: int) -> Estimate:
            return self._estimate(fitted.kernels_of(c), float(resampled.statistics[c]) / session.n)

        return GridOutcome(
            fitted,
            resampled.statistics,
            resampled.replicates,
            estimate,
            note or detail,
            resampled.rounding,
        )

    def planned(self, session: Session, dims: Sequence[int], variables: tuple[int, ...]) -> Tiling:
        """Tiles that cost what those of kernels on so many columns do, for plans."""
        zero = session.dtype.type(0)
        waves = tuple(Waves(np.zeros(d)) for d in dims)
        columns = tuple(np.broadcast_to(zero, (self.n_features, d)) for d in dims)
        return Tiling(waves, columns, parts=2, variables=variables)

    def _tuples(
        self, session: Session, combinations: Combinations, null: Null
    ) -> tuple[Combinations, str, Tuples]:
        """The fitted kernels, what is amiss with the null distribution, and the statistics."""
        fitted, samples, tuples = self._basis(session, combinations)
        # Cosines and sines of D frequencies span 2 D directions at most.
        most = 2.0 * self.n_features
        return fitted, guard_landmarks(session, fitted, samples, null, directions=most), tuples

    def _basis(
        self, session: Session, combinations: Combinations
    ) -> tuple[Combinations, list[Vector], Tuples]:
        """The fitted kernels, samples of every variable, and waves at drawn frequencies."""
        fitted, samples, drawn = draw_combined_frequencies(
            session, combinations, self.n_features, orthogonal=self.orthogonal
        )
        centres = [features.centre for features in drawn]
        frequencies = [features.frequencies for features in drawn]
        # Sums of waves about their means over a few rows are small, and keep their digits.
        pilots = [
            _wave_means(centre, w, samples[m][:_PILOT_ROWS])
            for centre, w, m in zip(centres, frequencies, fitted.variables, strict=True)
        ]
        tuples = self._at(session, combinations, centres, frequencies, pilots)
        return fitted, samples, tuples

    def _at(
        self,
        session: Session,
        combinations: Combinations,
        centres: Sequence[Vector],
        frequencies: Sequence[Matrix],
        pilots: Sequence[Tile],
    ) -> Tuples:
        """The statistics of every combination."""
        pairs = list(map(TwoSided.of, combinations.chosen))
        return Tuples(
            tuple(map(_Frequencies, centres)),
            combinations.variables,
            tuple(frequencies),
            tuple(pairs),
            (np.arange(self.n_features),) * len(pairs),
            tuple(pilots),
            session.dtype,
            parts=2,
        )

    def _whiten(self, values: Tile) -> Vector:
        """In units of the features, as real numbers: every wave is sqrt(D) times one."""
        if np.iscomplexobj(values):
            values = np.concatenate([values.real, values.imag])
        whitened: Vector = values / self.n_features**0.5
        return whitened

    def _estimate(self, kernels: tuple[Kernel, ...], value: float) -> Estimate:
        counts = (self.n_features,) * len(kernels)
        summary = FeatureSummary("complex", counts, self.orthogonal)
        return Estimate(value, kernels, features=summary)


def _wave_means(centre: Vector, frequencies: Matrix, rows: Vector) -> Tile:
    """Means over some rows, shape (D,)."""
    means: Tile = np.exp(1j * ((rows - centre) @ frequencies.T.astype(np.float64))).mean(axis=0)
    return means
