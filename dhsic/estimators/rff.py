"""HSIC by random Fourier features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, final, get_args

import numpy as np
from numpy.typing import NDArray

from dhsic._random import generator
from dhsic._validation import check_choice, check_flag, check_integer
from dhsic.engine.plan import DriverStep, Plan
from dhsic.engine.session import Session
from dhsic.errors import InvalidArgumentError
from dhsic.estimators.base import Estimator, Null, fit_combinations_on_sample, fitting_step
from dhsic.estimators.outcomes import Estimate, GridOutcome, Outcome
from dhsic.estimators.tests import (
    column_outcome,
    describe_sides,
    estimate_by_moments,
    grid_outcome,
    plan_features,
)
from dhsic.features import ColumnFeatures, FeatureMap, FourierFeatures
from dhsic.kernels import Combinations, Gaussian, Kernel
from dhsic.kernels.dot import Codes
from dhsic.nulls import Gamma, Permutation, Resampling, Shifts, Spectral
from dhsic.results import FeatureSummary
from dhsic.statistics.moments import Covariances, feature_moments, moments_layout
from dhsic.statistics.orbit import exact_null
from dhsic.statistics.sides import (
    SQUARED_HSIC,
    Basis,
    Measure,
    squared_frobenius_norms,
)

Form = Literal["cos-sin", "complex"]

_REMEDY = "take fewer features, fewer kernels ('gaussian' is one), resamples or threads"


def complex_squared_frobenius_norms(cross: NDArray[Any]) -> NDArray[np.float64]:
    """|E psi_1 psi_2^*|^2, psi = cos + i sin, from covariances of [cos, sin]: (b, 2D, 2D) to (b,).

    The product is (cc + ss) + i (sc - cs) of the blocks.
    """
    # The first half are cosines, the second half sines: psi_1 psi_2^* has real and imaginary parts.
    d = cross.shape[1] // 2
    real = cross[:, :d, :d] + cross[:, d:, d:]
    imaginary = cross[:, d:, :d] - cross[:, :d, d:]
    # Perez-Suay and Camps-Valls (2018), (4): the real part of that trace is this squared norm.
    norms: NDArray[np.float64] = squared_frobenius_norms(real) + squared_frobenius_norms(imaginary)
    return norms


class FeatureFit(NamedTuple):
    """An estimate by features, with all that it is made of."""

    basis: Basis
    """The features."""
    found: Covariances
    """Theirs."""
    estimate: Estimate
    """The estimate."""


@final
@dataclass(frozen=True)
class RFFHSIC(Estimator):
    """HSIC by random Fourier features, for variables with translation-invariant kernels.

    It takes two. With frequencies w_j, j = 1..D, from the spectral law of its kernel, the features
    of a variable are cos(w_j' x) / sqrt(D) and sin(w_j' x) / sqrt(D), and HSIC is the squared norm
    of the cross-covariance C of the features. The test statistic is n |C|^2 ([1] equation 39).

    Parameters
    ----------
    n_features : int, optional
        Frequencies D of every variable, each with a cosine and a sine.
    form : {"cos-sin", "complex"}, optional
        Covariances of cosines and sines [1]_; or of exp(i w_j' x) / sqrt(D) [2]_, half as many
        numbers, for which the gamma and spectral nulls do not stand.
    orthogonal : bool, optional
        Frequencies that are orthogonal in groups of as many as the variable has columns [3]_. The
        law of each is the same; together they approximate the kernel better. For one column
        nothing changes.

    Raises
    ------
    InvalidArgumentError
        `n_features` is no positive integer, `form` is no such name, or `orthogonal` is no boolean.

    References
    ----------
    .. [1] Q. Zhang, S. Filippi, A. Gretton, D. Sejdinovic. Large-scale kernel methods for
       independence testing. Statistics and Computing 28, 2018, section 4.2.
    .. [2] A. Perez-Suay, G. Camps-Valls. Sensitivity maps of the Hilbert-Schmidt independence
       criterion. Applied Soft Computing 70, 2018, equation 4.
    .. [3] F. Yu, A. Suresh, K. Choromanski, D. Holtmann-Rice, S. Kumar. Orthogonal random
       features. NIPS 2016.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x, noise = np.random.default_rng(0).standard_normal((2, 500))
    >>> estimator = RFFHSIC(n_features=50, orthogonal=True)
    >>> result = dhsic.independence_test(x, x**2 + noise, estimator=estimator, rng=0)
    >>> result.pvalue < 0.01
    True
    """

    n_features: int = 100
    form: Form = "cos-sin"
    orthogonal: bool = False

    name: ClassVar[str] = "rff-hsic"
    needs_numbers: ClassVar[bool] = True
    needs_invariance: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_integer("n_features", self.n_features, minimum=1)
        check_choice("form", self.form, get_args(Form))
        check_flag("orthogonal", self.orthogonal)

    def kernel(self, given: Kernel | None) -> Kernel:
        """Any with a spectral law, Gaussian where not given."""
        return given or Gaussian()

    def choose_null(self, session: Session, n_resamples: int) -> tuple[Null, str]:
        """Shifts within groups of rows."""
        return exact_null(2, n_resamples)

    def plan(self, session: Session, combinations: Combinations, null: Null | None) -> Plan:
        """The steps that would run, in as many passes as fit in memory."""
        self._check_null(null)
        # The variable with most kernels decides how many frequencies are held.
        most = max(map(combinations.variables.count, (0, 1)))
        draws = 3 * 8 * sum(session.dims) * (most * self.n_features + max(session.dims))
        return plan_features(
            session,
            self._planned_maps(session, combinations),
            null,
            [fitting_step(session), DriverStep("frequencies", draws)],
            _REMEDY,
            whitened=False,
            chosen=combinations.chosen,
            measure=self._measure,
        )

    def estimate(self, session: Session, kernels: Sequence[Kernel]) -> Estimate:
        """The estimate of HSIC, in one pass."""
        return self.fit(session, kernels).estimate

    def fit(self, session: Session, kernels: Sequence[Kernel]) -> FeatureFit:
        """The estimate with all that it is made of."""
        basis = self._basis(session, kernels)
        covariances = feature_moments(session, moments_layout(dict(enumerate(basis.sides))))
        estimate = estimate_by_moments(session, basis, self._measure, covariances)
        return FeatureFit(basis, covariances, estimate)

    def test(self, session: Session, kernels: Sequence[Kernel], null: Null) -> Outcome:
        """The statistic and its null distribution, in one pass."""
        self._check_null(null)
        return column_outcome(session, self._basis(session, kernels), self._measure, null)

    def test_grid(
        self, session: Session, combinations: Combinations, null: Resampling
    ) -> GridOutcome:
        """The statistics of several combinations and their replicates.

        In one pass where the replicates fit in memory, else in several, and in the memory of one
        combination at the least.
        """
        fitted, bases = self._bases(session, combinations)
        return grid_outcome(session, fitted, bases, self._measure, null)

    @property
    def _measure(self) -> Measure:
        if self.form == "complex":
            return Measure("squared HSIC", complex_squared_frobenius_norms)
        return SQUARED_HSIC

    def _check_null(self, null: Null | None) -> None:
        # Gamma and spectral laws are those of squared norms of real cross-covariances.
        if self.form == "complex" and isinstance(null, Gamma | Spectral):
            msg = (
                f"null must be {Shifts.name!r} or {Permutation.name!r} with form='complex', whose "
                "statistic is not the squared norm of a cross-covariance of real features, got "
                f"{null.name!r}: take one of them, or form='cos-sin'"
            )
            raise InvalidArgumentError(msg)

    def _basis(self, session: Session, kernels: Sequence[Kernel]) -> Basis:
        _, (basis,) = self._bases(session, Combinations.single(kernels))
        return basis

    def _bases(
        self, session: Session, combinations: Combinations
    ) -> tuple[Combinations, list[Basis]]:
        fitted, samples = fit_combinations_on_sample(session, combinations)
        session.step("frequencies")
        # About the median phases are small, and cosines keep the digits of near rows.
        centres = [np.median(sample, axis=0) for sample in samples]
        maps: list[FeatureMap] = [
            _codes(session, m)
            if isinstance(kernel, Codes)
            else FourierFeatures.draw(
                kernel,
                centres[m],
                self.n_features,
                # A stream for each variable, which its kernels share: frequencies of both have to
                # be independent (Zhang et al. 2018, section 4.2.2).
                generator(session.seed, "features", m),
                session.dtype,
                orthogonal=self.orthogonal,
            )
            for kernel, m in zip(fitted.kernels, fitted.variables, strict=True)
        ]
        # Features are as many for every combination.
        counts = tuple(maps[k].n_features for k in fitted.chosen[0])
        summary = FeatureSummary(self.form, counts, self.orthogonal)
        sides = describe_sides(session, maps, fitted.spread(samples))
        bases = [
            Basis(fitted.kernels_of(g), tuple(fitted.of(sides, g)), summary=summary)
            for g in range(len(fitted))
        ]
        return fitted, bases

    def _planned_maps(self, session: Session, combinations: Combinations) -> list[FeatureMap]:
        """The features of every kernel, for plans."""
        return [
            _codes(session, m)
            if isinstance(kernel, Codes)
            else self.planned(session.dims[m], session)
            for kernel, m in zip(combinations.kernels, combinations.variables, strict=True)
        ]

    def planned(self, d: int, session: Session) -> FourierFeatures:
        """Features that cost what those of a variable of d columns do, for plans."""
        # Views of one number: their shapes cost what real ones do, and they take no memory.
        zero = session.dtype.type(0)
        return FourierFeatures(np.broadcast_to(zero, (self.n_features, d)), np.zeros(d))


def _codes(session: Session, m: int) -> ColumnFeatures:
    """The columns of variable m as they are."""
    d = session.dims[m]
    return ColumnFeatures(np.zeros(d), np.ones(d), session.dtype)
