"""Estimators from the cross-covariance of features of two variables, and those without landmarks.

`OnFeatures` says what all of them share, whatever the features are: a plan, replicates, estimates
and limit laws.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple, final, get_args

import numpy as np
from numpy.typing import NDArray

from dhsic._random import generator
from dhsic._validation import check_choice, check_flag, check_integer
from dhsic.engine.plan import DriverStep, PassPlan
from dhsic.engine.session import Session
from dhsic.errors import InvalidArgumentError
from dhsic.estimators.approximate import guard_features, guard_weighted
from dhsic.estimators.base import (
    BANDWIDTH_ROWS,
    Estimator,
    Guess,
    Null,
    Prepared,
    fit_combinations_on_sample,
    fitting_step,
)
from dhsic.estimators.outcomes import Estimate, Outcome
from dhsic.features import ColumnFeatures, FeatureMap, FourierFeatures
from dhsic.kernels import Combinations, Kernel, Linear
from dhsic.kernels.dot import Codes
from dhsic.nulls import Gamma, Permutation, Resampling, Shifts, Spectral
from dhsic.results import FeatureSummary, LandmarkSummary
from dhsic.statistics.blocks import ESTIMATE, KeptBlocks, unbiased_hsic, unbiased_step
from dhsic.statistics.features import Features
from dhsic.statistics.moments import (
    BOTH,
    FeatureMoments,
    gamma_law,
    moments_steps,
    second_moments,
    spectral_law,
    weighted_products,
    weighted_steps,
)
from dhsic.statistics.orbit import Replicated
from dhsic.statistics.outer import (
    SQUARED_HSIC,
    Measure,
    OuterStatistic,
    independent_rounding,
    squared_frobenius_norms,
)
from dhsic.statistics.replicate import replicate, replicate_steps

Form = Literal["cos-sin", "complex"]
Vector = NDArray[np.float64]
Matrix = NDArray[np.floating[Any]]
Steps = list[DriverStep | PassPlan]


class DrawnFeatures(NamedTuple):
    """Features of every kernel of some combinations."""

    combinations: Combinations
    """As fitted."""
    features: tuple[Features, ...]
    landmarks: LandmarkSummary | None = None
    """Where they have any."""
    summary: FeatureSummary | None = None
    """Describes the features."""
    moments: FeatureMoments | None = None
    """Those of two kernels, where they are made of them."""
    detail: str = ""
    """What a result says of them."""

    def estimate(self, c: int, value: float, quantity: str) -> Estimate:
        """The estimate by a combination."""
        combinations = self.combinations
        some = [self.features[k] for k in combinations.chosen[c]]
        landmarks, summary = self.landmarks, self.summary
        if landmarks is not None:
            landmarks = replace(landmarks, kept=tuple(one.n_features for one in some))
        if summary is not None:
            summary = replace(summary, counts=tuple(one.n_summed for one in some))
        return Estimate(value, combinations.kernels_of(c), landmarks, summary, quantity)


class FeatureFit(NamedTuple):
    """An estimate by features, with all that it is made of."""

    drawn: DrawnFeatures
    """The features."""
    moments: FeatureMoments
    """Theirs."""
    estimate: Estimate


class OnFeatures(Estimator):
    """A measure of the cross-covariance of features; n times its size is the test statistic."""

    measure: ClassVar[Measure] = SQUARED_HSIC
    measured: ClassVar[bool] = False
    """Whether `normalised` makes features by their covariance over all rows."""
    unbiased_estimate: bool = False

    def expected(
        self, session: Session, combinations: Combinations, null: Null | None
    ) -> tuple[Steps, list[Features]]:
        """The steps of `draw`, and features of every kernel that take no memory."""
        raise NotImplementedError

    def draw(
        self, session: Session, combinations: Combinations, null: Null | None
    ) -> DrawnFeatures:
        """Fit the kernels, and make the features of every one."""
        raise NotImplementedError

    def normalised(self, features: Features, covariance: Matrix, n: int) -> Features:
        """Features with a factor by the covariance of the whitened ones over n rows."""
        raise NotImplementedError

    def measured_by(self) -> Measure:
        """The size of cross-covariances."""
        return self.measure

    def n_drawn(self, session: Session) -> int | None:
        """Landmarks of every variable before pruning, where it has any."""
        del session
        return None

    def expected_drawing(
        self, session: Session, combinations: Combinations, null: Null | None
    ) -> tuple[Steps, list[Features]]:
        """As `expected`, with the features of the sample."""
        steps, features = self.expected(session, combinations, null)
        most, s = max(one.n_features for one in features), min(session.n, BANDWIDTH_ROWS)
        held = 8 * sum(one.n_features for one in features)
        steps.append(DriverStep("features of the sample", 8 * 4 * s * most, held))
        return steps, features

    def guess(self, session: Session, combinations: Combinations, null: Null | None) -> Guess:
        """The steps of `prepare`, and the shapes of what it makes."""
        steps, features = self.expected_drawing(session, combinations, null)
        p = self.n_drawn(session)
        if self.measured:
            steps += moments_steps(session, features, then="normalise features")
        if isinstance(null, Resampling) or (
            null is None and (self.unbiased_estimate or combinations.features)
        ):
            statistic, own = self._statistics(session, features, combinations, null)
            closing: Steps = []
            if own is not None and null is not None:
                closing += replicate_steps(session, own, own.orbit(session, None))
            if statistic.unbiased:
                closing.append(unbiased_step(session, features))
            return Guess(steps, statistic, closing, p)
        if session.weights is not None and null is not None:
            steps += weighted_steps(session, features)
        elif isinstance(null, Gamma) or not self.measured:
            pairs, norms = BOTH[: 1 if null is None else None], isinstance(null, Gamma)
            steps += moments_steps(session, features, pairs, norms=norms)
        else:
            steps += moments_steps(session, features)[1:]
        return Guess(steps, None, n_landmarks=p)

    def prepare(self, session: Session, combinations: Combinations, null: Null | None) -> Prepared:
        """Fit the kernels, and make the features of every one."""
        drawn = self._drawn(session, combinations, null)
        fitted = drawn.combinations
        statistic, own = self._statistics(session, drawn.features, fitted, null)

        def estimate(found: Replicated, c: int) -> Estimate:
            size = float(found.statistics[c]) / session.n
            if statistic.unbiased:
                value = _unbiased(
                    session, [drawn.features[k] for k in fitted.chosen[c]], found, size
                )
            else:
                value = self.measured_by().value(size)
            return drawn.estimate(c, value, self.measured_by().quantity)

        def with_themselves(found: Replicated) -> Vector:
            """HSIC of the variables of every combination with themselves."""
            assert own is not None
            if null is not None:
                found = replicate(session, own, own.orbit(session, None))
            sizes: Vector = (found.statistics[-len(own) :] / session.n)[np.array(fitted.chosen)]
            return sizes

        told = None if own is None else with_themselves
        return Prepared(fitted, statistic, estimate, drawn.detail, told)

    def _statistics(
        self,
        session: Session,
        features: Sequence[Features],
        combinations: Combinations,
        null: Null | None,
    ) -> tuple[OuterStatistic, OuterStatistic | None]:
        """That of all combinations; of columns also that of every kernel with itself.

        Without a null one pass serves both, which are the last.
        """
        unbiased = self.unbiased_estimate and not combinations.features
        pairs = combinations.chosen
        statistic = OuterStatistic(session, features, pairs, self.measured_by(), unbiased)
        if not combinations.features:
            return statistic, None
        own = replace(statistic, pairs=tuple((k, k) for k in range(len(features))))
        return statistic if null else replace(statistic, pairs=(*pairs, *own.pairs)), own

    def _drawn(
        self, session: Session, combinations: Combinations, null: Null | None
    ) -> DrawnFeatures:
        drawn = self.draw(session, combinations, null)
        if not self.measured:
            return drawn
        # Covariances of either variable by itself, which no permutation changes.
        moments = second_moments(session, drawn.features)
        session.step("normalise features")
        features = tuple(
            self.normalised(one, moments.covariance(m, m), session.n)
            for m, one in enumerate(drawn.features)
        )
        moments = replace(moments, features=dict(enumerate(features)))
        return drawn._replace(features=features, moments=moments)

    def estimate(self, session: Session, kernels: Sequence[Kernel]) -> Estimate:
        """The measure of the data, in one pass."""
        if self.unbiased_estimate:
            return super().estimate(session, kernels)
        return self.fit(session, kernels).estimate

    def fit(self, session: Session, kernels: Sequence[Kernel]) -> FeatureFit:
        """The estimate with all that it is made of."""
        measure = self.measured_by()
        drawn = self._drawn(session, Combinations.single(kernels), None)
        moments = drawn.moments or second_moments(session, drawn.features, BOTH[:1])
        session.step("solve")
        size = float(measure.size(moments.covariance(0, 1)[None])[0])
        estimate = drawn.estimate(0, measure.value(size), measure.quantity)
        return FeatureFit(drawn, moments, estimate)

    def test_each(self, session: Session, combinations: Combinations, null: Any) -> list[Outcome]:
        """The outcome of one combination, by the law of a limit or of moments."""
        drawn, measure = self._drawn(session, combinations, null), self.measured_by()
        features = drawn.features
        if session.weights is not None:
            note = guard_weighted(session, features)
            cross, mixture = weighted_products(session, features)
            law, size = null.distribution(mixture, session.seed), float(np.vdot(cross, cross))
        else:
            note, norms = guard_features(session, features, BOTH[:1], null), isinstance(null, Gamma)
            moments = None if norms else drawn.moments
            moments = moments or second_moments(session, features, norms=norms)
            session.step("solve")
            # The last feature is the squared norm, which is no part of what is measured.
            end = -1 if norms else None
            size = float(measure.size(moments.covariance(0, 1)[None, :end, :end])[0])
            law = (
                gamma_law(moments, session.n)
                if norms
                else spectral_law(moments.spectrum(0), moments.spectrum(1), null, session.seed)
            )
        estimate = drawn.estimate(0, measure.value(size), measure.quantity)
        rounding = independent_rounding(session, features)
        return [Outcome(session.n * size, law, estimate, note, rounding)]


def _unbiased(
    session: Session, features: Sequence[Features], found: Replicated, size: float
) -> float:
    """Unbiased HSIC, by the rows that the first pass kept."""
    session.step(ESTIMATE)
    for _, kept in found.data:
        if kept is not None:
            return unbiased_hsic(features, size, *kept)
    blocks = KeptBlocks.of(session)
    return unbiased_hsic(features, size, blocks, blocks.drawn(session))


# Random Fourier features.


def complex_squared_frobenius_norms(cross: Matrix) -> Vector:
    """|E psi_1 psi_2^*|^2, psi = cos + i sin, from covariances of [cos, sin]: (b, 2D, 2D) to (b,).

    The product is (cc + ss) + i (sc - cs) of the blocks.
    """
    # The first half are cosines, the second half sines: psi_1 psi_2^* has real and imaginary parts.
    d = cross.shape[1] // 2
    real = cross[:, :d, :d] + cross[:, d:, d:]
    imaginary = cross[:, d:, :d] - cross[:, :d, d:]
    # Perez-Suay and Camps-Valls (2018), (4): the real part of that trace is this squared norm.
    norms: Vector = squared_frobenius_norms(real) + squared_frobenius_norms(imaginary)
    return norms


@final
@dataclass(frozen=True)
class RFFHSIC(OnFeatures):
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
    nulls: ClassVar[tuple[type[Any], ...]] = (Shifts, Permutation, Gamma, Spectral)
    cost: ClassVar[str] = "n"
    remedy: ClassVar[str] = (
        "take fewer features, fewer kernels ('gaussian' is one), resamples or threads"
    )
    needs_numbers: ClassVar[bool] = True
    needs_invariance: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_integer("n_features", self.n_features, minimum=1)
        check_choice("form", self.form, get_args(Form))
        check_flag("orthogonal", self.orthogonal)

    def expected(
        self, session: Session, combinations: Combinations, null: Null | None
    ) -> tuple[Steps, list[Features]]:
        """The steps of `draw`, and features of every kernel that take no memory."""
        self._check_null(null)
        # The variable with most kernels decides how many frequencies are held.
        most = max(map(combinations.variables.count, (0, 1)))
        draws = 3 * 8 * sum(session.dims) * (most * self.n_features + max(session.dims))
        of = zip(combinations.kernels, combinations.variables, strict=True)
        features = [
            Features.unseen(m, self._planned(kernel, session.dims[m], session), whitened=False)
            for kernel, m in of
        ]
        return [fitting_step(session), DriverStep("frequencies", draws)], features

    def draw(
        self, session: Session, combinations: Combinations, null: Null | None
    ) -> DrawnFeatures:
        """Fit the kernels, and draw frequencies for every one."""
        self._check_null(null)
        fitted, samples = fit_combinations_on_sample(session, combinations)
        session.step("frequencies")
        # About the median phases are small, and cosines keep the digits of near rows.
        centres = [np.median(sample, axis=0) for sample in samples]
        maps: list[FeatureMap] = [
            _codes(session.dims[m], session)
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
        session.step("features of the sample")
        features = map(Features.described, fitted.variables, maps, fitted.spread(samples))
        summary = FeatureSummary(self.form, (), self.orthogonal)
        return DrawnFeatures(fitted, tuple(features), summary=summary)

    def measured_by(self) -> Measure:
        """The size of cross-covariances, by the form."""
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

    def _planned(self, kernel: Kernel, d: int, session: Session) -> FeatureMap:
        return _codes(d, session) if isinstance(kernel, Codes) else self.planned(d, session)

    def planned(self, d: int, session: Session) -> FourierFeatures:
        """Features that cost what those of a variable of d columns do, for plans."""
        # Views of one number: their shapes cost what real ones do, and they take no memory.
        zero = session.dtype.type(0)
        return FourierFeatures(np.broadcast_to(zero, (self.n_features, d)), np.zeros(d))


def _codes(d: int, session: Session) -> ColumnFeatures:
    """The columns of a variable of d codes as they are."""
    return ColumnFeatures(np.zeros(d), np.ones(d), session.dtype)


# Columns themselves.


@final
@dataclass(frozen=True)
class SubCorr(OnFeatures):
    """Mean squared Pearson correlation of all pairs of columns, one of either variable.

    It is HSIC with linear kernels of standardised columns over the product of the numbers of
    columns, and sees linear dependence only. The test statistic is n times it. A column that is
    constant has correlation 0 with all others. The gamma and spectral nulls need columns with
    fourth moments: where tails are heavy take permutations, or ranks.

    References
    ----------
    .. [1] Q. Zhang, S. Filippi, A. Gretton, D. Sejdinovic. Large-scale kernel methods for
       independence testing. Statistics and Computing 28, 2018, section 5.1.

    Examples
    --------
    One of five columns depends on y, and linearly.

    >>> import numpy as np
    >>> import dhsic
    >>> x = np.random.default_rng(0).standard_normal((300, 5))
    >>> y = x[:, 2] + np.random.default_rng(1).standard_normal(300)
    >>> dhsic.independence_test(x, y, estimator=SubCorr(), rng=0).pvalue < 0.01
    True
    """

    name: ClassVar[str] = "sub-corr"
    takes_one_kernel: ClassVar[bool] = True
    nulls: ClassVar[tuple[type[Any], ...]] = (Shifts, Permutation, Gamma, Spectral)
    cost: ClassVar[str] = "n"
    remedy: ClassVar[str] = "take fewer resamples or fewer threads"
    needs_numbers: ClassVar[bool] = True
    measure: ClassVar[Measure] = Measure(
        "mean squared correlation", squared_frobenius_norms, adds=True
    )
    measured: ClassVar[bool] = True

    def kernel(self, given: Kernel | None) -> Kernel:
        """The linear one."""
        if given is not None:
            msg = (
                f"{self.name} has the linear kernel of standardised columns, so kernels must be "
                f"left out, got {given.spec()!r}: leave it out, or take estimator='sub-hsic'"
            )
            raise InvalidArgumentError(msg)
        return Linear()

    def expected(
        self, session: Session, combinations: Combinations, null: Null | None
    ) -> tuple[Steps, list[Features]]:
        """The steps of `draw`, and features of every kernel that take no memory."""
        del combinations, null
        features = [
            Features.unseen(m, _codes(d, session), whitened=True)
            for m, d in enumerate(session.dims)
        ]
        return [fitting_step(session)], features

    def draw(
        self, session: Session, combinations: Combinations, null: Null | None
    ) -> DrawnFeatures:
        """The columns, about their medians."""
        del null
        # The features are standardised, in whatever unit.
        fitted, samples = fit_combinations_on_sample(session, combinations, scale=False)
        session.step("features of the sample")
        maps = [ColumnFeatures.of(sample, session.dtype) for sample in samples]
        features = map(Features.described, fitted.variables, maps, samples)
        return DrawnFeatures(fitted, tuple(features), summary=FeatureSummary("columns", ()))

    def normalised(self, features: Features, covariance: Matrix, n: int) -> Features:
        """With the standard deviations times the root of their number; 1 for what is constant."""
        del n
        variances = covariance.diagonal()
        deviations = np.sqrt(np.where(variances > 0.0, variances, 1.0))
        # The covariance over both deviations is the correlation. Over d_1 d_2 pairs of columns the
        # mean has the root of either number in its factor (Zhang et al. 2018, section 5.1).
        factor = np.diag(deviations * math.sqrt(len(deviations)))
        return replace(features, factor=factor, known_spread=1.0)
