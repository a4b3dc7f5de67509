"""Compute statistics from the cross-covariance of features of two variables.

`OnFeatures` has what all these estimators share: a plan, replicates, estimates and limit laws.
Random Fourier features and columns come first, which need no landmarks; then principal directions,
and estimators on Nystrom features, which have separate landmarks for each variable.

Principal features are the directions of a kernel with the largest weights in a statistic. Under
independence n |C|^2 is a mixture of chi-squares, weighted by products of the eigenvalues of the
covariances of both sides (Zhang et al. 2018, section 4.1.2). In every replicate a direction of
small variance costs as much as one of large variance, so a test keeps only directions with large
weights. The reference of a grid, whose kernels are best for smooth dependence, has half of the
products; the other kernels share the rest equally. Their lightest directions, which are most of all
directions and have a hundredth of the null's variance, are always left out, and no kernel has more
than twice the directions of the reference of its variable, or 48: narrow kernels of many columns
have hundreds of directions with equal weights, each of which costs as much as one of the reference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeAlias, get_args

import numpy as np
import scipy
from numpy.typing import ArrayLike, DTypeLike, NDArray

from dhsic import plots
from dhsic._random import generator
from dhsic._validation import check_choice, check_flag, check_integer, check_number
from dhsic.engine.plan import DriverStep, PassPlan
from dhsic.engine.session import Session
from dhsic.errors import InvalidArgumentError
from dhsic.estimators.base import (
    BANDWIDTH_ROWS,
    Estimate,
    Estimator,
    Guess,
    Null,
    Outcome,
    Prepared,
    compared,
    fetch_landmarks,
    fetching_step,
    fit_combinations_on_sample,
    fitting_step,
    guard_features,
    guard_weighted,
    is_held,
    is_identity,
    left_out_text,
    martingale_outcome,
    nearness,
)
from dhsic.features import (
    ColumnFeatures,
    FeatureMap,
    FourierFeatures,
    KernelFeatures,
    LandmarksByColumn,
    rows_at_quantiles,
)
from dhsic.kernels import (
    AndersonDarling,
    Columns,
    Combinations,
    Distance,
    Kernel,
    Laplacian,
    Linear,
    Matern,
    OnColumns,
    Ranked,
)
from dhsic.kernels.base import Codes
from dhsic.kernels.wrap import of_present
from dhsic.landmarks import (
    check_landmark_options,
    landmark_count,
    tolerance_for,
    uniform_rows,
    warn_of_rounding,
    warn_of_zeros,
)
from dhsic.linalg import pivoted_cholesky, rounding_unit, solve_lower
from dhsic.nulls import Chain, Gamma, Martingale, Permutation, Resampling, Shifts, Spectral
from dhsic.report import Pictures
from dhsic.results import AS_ASKED, BarResult, FeatureSummary, LandmarkSummary, kernel_text
from dhsic.statistics.jackknife import Parts
from dhsic.statistics.martingale import martingale, martingale_steps
from dhsic.statistics.orbit import Replicated
from dhsic.statistics.outer import (
    BOTH,
    ESTIMATE,
    SQUARED_HSIC,
    FeatureMoments,
    Features,
    KeptBlocks,
    Measure,
    OuterStatistic,
    block_means,
    gamma_law,
    independent_rounding,
    moments_steps,
    sampled_hsic,
    second_moments,
    spectral_law,
    squared_frobenius_norms,
    unbiased_hsic,
    unbiased_step,
    weighted_products,
    weighted_steps,
    whiten,
)

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
    own: tuple[float, ...] = ()
    """Squared HSIC of either variable with itself, where it divides the measure."""

    def estimate(self, c: int, value: float, quantity: str) -> Estimate:
        """The estimate by a combination."""
        combinations = self.combinations
        some = [self.features[k] for k in combinations.chosen[c]]
        landmarks, summary = self.landmarks, self.summary
        if landmarks is not None:
            landmarks = replace(landmarks, kept=tuple(one.n_features for one in some))
        if summary is not None:
            summary = replace(summary, counts=tuple(one.n_summed for one in some))
        parts = list[Parts]()
        if self.own:
            parts = [Parts(value, value * math.sqrt(math.prod(self.own)), self.own, divided=True)]
        return Estimate(value, combinations.kernels_of(c), landmarks, summary, quantity, parts)


class OnFeatures(Estimator):
    """A measure of the cross-covariance of features; n times its size is the test statistic."""

    nulls: ClassVar[tuple[type[Any], ...]] = (Shifts, Permutation, Gamma, Spectral)
    cost: ClassVar[str] = "n"
    measure: Measure = SQUARED_HSIC
    """The size of cross-covariances."""
    measured: ClassVar[bool] = False
    """Whether `normalised` makes features by their covariance over all rows."""
    unbiased_estimate: bool = False
    n_features: int | str | None = None
    """How many directions of the features of a kernel a test keeps; None for all."""

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

    def n_drawn(self, session: Session) -> int | None:
        """Landmarks of every variable before pruning, where it has any."""
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
        replicated = combinations.features or self._keeps_blocks_of(session)
        if isinstance(null, Resampling) or (null is None and replicated):
            statistic = self._statistic(session, features, combinations)
            closing = [unbiased_step(session, features)] if statistic.unbiased else []
            return Guess(steps, statistic, closing, p, self._tested(session))
        if session.weights is not None and null is not None:
            steps += weighted_steps(session, features)
        elif isinstance(null, Martingale):
            steps += martingale_steps(session, features)
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
        statistic = self._statistic(session, drawn.features, fitted)

        def estimate(found: Replicated, c: int) -> Estimate:
            sizes = found.told[c].sizes
            # Of all rows, and of those without each of the blocks that are kept.
            each = [float(found.statistics[c]) / session.n, *sizes[1:, 0].tolist()]
            if statistic.unbiased:
                some = [drawn.features[k] for k in fitted.chosen[c]]
                means = _means_over_blocks(self._tested(session), some, found)
                each = [unbiased_hsic(session.n, size, means) for size in each]
            else:
                each = list(map(self.measure.value, each))
            made = drawn.estimate(c, each[0], self.measure.quantity)
            if len(each) == 1:
                return made
            own = list(map(tuple, sizes[:, 1:].tolist()))
            if not own[0]:
                # A sample tells how far squared HSIC varies near independence.
                own = [tuple(sampled_hsic(drawn.features[k]) for k in fitted.chosen[c])] * len(each)
            return replace(made, made_of=[Parts(v, v, o) for v, o in zip(each, own, strict=True)])

        def own(found: Replicated) -> Vector:
            """HSIC of the variables of every combination with themselves."""
            return np.array([told.sizes[0, 1:] for told in found.told])

        told = own if combinations.features else None
        return Prepared(fitted, statistic, estimate, drawn.detail, told, self._tested(session))

    def _statistic(
        self, session: Session, features: Sequence[Features], combinations: Combinations
    ) -> OuterStatistic:
        """That of all combinations; of columns also what every kernel says of itself."""
        pairs, own = combinations.chosen, combinations.features
        statistic = OuterStatistic(session, features, pairs, self.measure)
        if own:
            statistic = replace(statistic, beside=pairs, own=True)
        elif self.unbiased_estimate:
            statistic = replace(statistic, unbiased=True)
        if session.deletion is None or not self.keeps_blocks:
            return statistic
        deletion, reference = session.deletion, combinations.reference()
        # Of a grid the estimate is that of its reference.
        leading = [pair if own or c == reference else () for c, pair in enumerate(pairs)]
        return replace(statistic, beside=leading, blocks=deletion.blocks, own=own or deletion.own)

    def _tested(self, session: Session) -> Session:
        """The run of all rows, where the statistic itself keeps sums of blocks of them."""
        return session.leaving_out(None) if self.keeps_blocks else session

    def _drawn(
        self, session: Session, combinations: Combinations, null: Null | None
    ) -> DrawnFeatures:
        drawn = session.fixed(partial(self.draw, session, combinations, null))
        if not self.measured:
            return drawn
        # Covariances of either variable by itself, which no permutation changes.
        moments = second_moments(session, drawn.features)
        session.step("normalise features")
        each = [moments.covariance(m, m) for m in range(len(drawn.features))]
        features = tuple(
            self.normalised(one, covariance, session.n)
            for one, covariance in zip(drawn.features, each, strict=True)
        )
        own = tuple(float(np.vdot(one, one)) for one in each) if self.largest == 1.0 else ()
        moments = replace(moments, features=features)
        return drawn._replace(features=features, moments=moments, own=own)

    def estimate(self, session: Session, kernels: Sequence[Kernel]) -> Estimate:
        """The measure of the data, in one pass."""
        if self._keeps_blocks_of(session):
            return super().estimate(session, kernels)
        *_, estimate = self.fit(session, kernels)
        return estimate

    def _keeps_blocks_of(self, session: Session) -> bool:
        """Whether an estimate is that of the pass of replicates, which has no weights of rows."""
        return self.keeps_blocks and session.weights is None

    def fit(
        self, session: Session, kernels: Sequence[Kernel]
    ) -> tuple[DrawnFeatures, FeatureMoments, Estimate]:
        """The estimate, after the features and the moments that it is made of."""
        measure = self.measure
        drawn = self._drawn(session, Combinations.single(kernels), None)
        moments = drawn.moments or second_moments(session, drawn.features, BOTH[:1])
        session.step("solve")
        size = float(measure.size(moments.covariance(0, 1)[None])[0])
        estimate = drawn.estimate(0, measure.value(size), measure.quantity)
        return drawn, moments, estimate

    def test_each(self, session: Session, combinations: Combinations, null: Any) -> list[Outcome]:
        """The outcome of one combination, by the law of a limit or of moments."""
        drawn, measure = self._drawn(session, combinations, null), self.measure
        features = drawn.features
        rounding = independent_rounding(session, features)
        if isinstance(null, Martingale):
            note = guard_features(session, features, BOTH[:1], null)
            cross, sums = martingale(session, features)
            value = measure.value(float(measure.size(cross[None])[0]))
            estimate = drawn.estimate(0, value, measure.quantity)
            return [martingale_outcome(session, sums, rounding, estimate, note)]
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
        return [Outcome(session.n * size, law, estimate, note, rounding)]


def _means_over_blocks(
    session: Session, features: Sequence[Features], found: Replicated
) -> Sequence[float]:
    """What makes HSIC of two kernels unbiased, by the rows that the first pass kept."""
    session.step(ESTIMATE)
    for told in found.told:
        if told.kept is not None:
            return block_means(features, *told.kept)
    blocks = KeptBlocks.of(session)
    return block_means(features, blocks, blocks.drawn(session))


# --- random Fourier features


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


@dataclass(frozen=True)
class RFFHSIC(OnFeatures):
    """HSIC by random Fourier features, for variables with translation-invariant kernels.

    The estimator takes two variables. With frequencies w_j, j = 1..D, from the spectral law of its
    kernel, the features of a variable are cos(w_j' x) / sqrt(D) and sin(w_j' x) / sqrt(D), and HSIC
    is the squared norm of the cross-covariance C of the features. The test statistic is n |C|^2
    ([1] equation 39).

    Parameters
    ----------
    n_features : int, optional
        Number D of frequencies of each variable, each with a cosine and a sine.
    form : {"cos-sin", "complex"}, optional
        Take covariances of cosines and sines [1]_; or of exp(i w_j' x) / sqrt(D) [2]_, which are
        half as many numbers, without gamma and spectral nulls.
    orthogonal : bool, optional
        Draw groups of orthogonal frequencies, as many in a group as the variable has columns [3]_.
        Each frequency has the same law, and orthogonal frequencies approximate the kernel better.
        For one column the option has no effect.

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
    nulls: ClassVar[tuple[type[Any], ...]] = (*OnFeatures.nulls, Martingale)
    remedy = "take fewer features, fewer kernels ('gaussian' is one), resamples or threads"
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
        features = []
        for kernel, m in zip(combinations.kernels, combinations.variables, strict=True):
            made = _codes if isinstance(kernel, Codes) else self.planned
            features.append(Features.unseen(m, made(session.dims[m], session), whitened=False))
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

    @property
    def measure(self) -> Measure:  # type: ignore[override]
        """The size of cross-covariances, by the form."""
        if self.form == "complex":
            return Measure("squared HSIC", complex_squared_frobenius_norms)
        return SQUARED_HSIC

    def _check_null(self, null: Null | None) -> None:
        # Gamma and spectral laws are those of squared norms of real cross-covariances.
        if self.form == "complex" and isinstance(null, Gamma | Spectral | Martingale):
            msg = (
                f"null must be {Shifts.name!r} or {Permutation.name!r} with form='complex', whose "
                "statistic is not the squared norm of a cross-covariance of real features, got "
                f"{null.name!r}: take one of them, or form='cos-sin'"
            )
            raise InvalidArgumentError(msg)

    def planned(self, d: int, session: Session) -> FourierFeatures:
        """Features that cost what those of a variable of d columns do, for plans."""
        # Views of one number: their shapes cost what real ones do, and they take no memory.
        zero = session.dtype.type(0)
        return FourierFeatures(np.broadcast_to(zero, (self.n_features, d)), np.zeros(d))


def _codes(d: int, session: Session) -> ColumnFeatures:
    """The columns of a variable of d codes as they are."""
    return ColumnFeatures(np.zeros(d), np.ones(d), session.dtype)


# --- columns themselves


@dataclass(frozen=True)
class SubCorr(OnFeatures):
    """Mean squared Pearson correlation over all pairs of a column of x and a column of y.

    It is HSIC with linear kernels of standardised columns, divided by the product of the numbers of
    columns, and detects linear dependence only. The test statistic is n times the estimate. A
    constant column has correlation 0 with all others. The gamma and spectral nulls need columns
    with finite fourth moments: for heavy tails use shifts, permutations or ranks.

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
    remedy: ClassVar[str] = "take fewer resamples or fewer threads"
    needs_numbers: ClassVar[bool] = True
    measure = Measure("mean squared correlation", squared_frobenius_norms, adds=True)
    measured: ClassVar[bool] = True
    has_intervals = True

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
        features = [
            Features.unseen(m, _codes(d, session), whitened=True)
            for m, d in enumerate(session.dims)
        ]
        return [fitting_step(session)], features

    def draw(
        self, session: Session, combinations: Combinations, null: Null | None
    ) -> DrawnFeatures:
        """The columns, about their medians."""
        # The features are standardised, in whatever unit.
        fitted, samples = fit_combinations_on_sample(session, combinations, scale=False)
        session.step("features of the sample")
        maps = [ColumnFeatures.of(sample, session.dtype) for sample in samples]
        features = map(Features.described, fitted.variables, maps, samples)
        return DrawnFeatures(fitted, tuple(features), summary=FeatureSummary("columns", ()))

    def normalised(self, features: Features, covariance: Matrix, n: int) -> Features:
        """With the standard deviations times the root of their number; 1 for what is constant."""
        variances = covariance.diagonal()
        deviations = np.sqrt(np.where(variances > 0.0, variances, 1.0))
        # The covariance over both deviations is the correlation. Over d_1 d_2 pairs of columns the
        # mean has the root of either number in its factor (Zhang et al. 2018, section 5.1).
        factor = np.diag(deviations * math.sqrt(len(deviations)))
        return replace(features, factor=factor, known_spread=1.0)


# --- directions of features with the largest weights


MOST_PRODUCTS = 3 * 2**12
"""Products of features of all combinations: 96 MiB of sums for 1,000 replicates."""

_LIGHT = 0.01  # of the squared variances of the others: leaving it out costs no power
_LIGHT_OF_REFERENCE = 0.001
_LIGHTEST = 10.0  # over n, of the largest variance: dependence there drowns in that of the others
_FEW = 48  # directions that every kernel may take
_MISSED = np.linspace(0.0, 1.0, 1001)  # shares that are tried


@dataclass(frozen=True)
class Directions:
    """Directions of the features of a kernel, the one of the largest variance first.

    Parameters
    ----------
    variances : ndarray, shape (D,)
        Descending.
    vectors : ndarray, shape (D, D)
        A column times whitened features is the feature of a direction.
    """

    variances: Vector
    vectors: NDArray[np.floating[Any]]

    @classmethod
    def of(cls, features: Features, values: NDArray[np.floating[Any]], factor: Vector) -> Self:
        """Those of features with a factor L, of their values in the sample that described them.

        With the eigenvectors V of the covariance of L^-1 k(z, x), the features V' L^-1 k(z, x) are
        uncorrelated in the sample. They are found in the precision of the features.
        """
        centred = (values - features.centre).astype(np.float64)
        covariance = centred.T @ centred / len(centred)
        # L^-1 C L^-T, by two triangular solves.
        half = solve_lower(factor, covariance).T
        whitened = solve_lower(factor, half).astype(values.dtype, copy=False)
        # Divide and conquer is the quickest for all vectors; SciPy 1.13 fails with it at size 1.
        driver = "evd" if len(whitened) > 1 else "ev"
        variances, vectors = scipy.linalg.eigh(
            whitened, driver=driver, overwrite_a=True, check_finite=False
        )
        # The heaviest first; rounding may leave the lightest below 0.
        variances = np.maximum(variances[::-1], 0.0).astype(np.float64)
        return cls(variances, vectors[:, ::-1])

    @classmethod
    def guessed(cls, count: int, factor: float, d: int) -> Self:
        """So many of a kernel of d columns, which take no memory: for plans."""
        # Of a single one as of a Laplacian kernel of so many times its length; those of several
        # are not known, and weigh alike, so that products take all the room that there is.
        slopes = factor * np.arange(count, dtype=np.float64) * (d == 1)
        variances: Vector = 1.0 / (1.0 + slopes**2)
        return cls(variances, np.broadcast_to(0.0, (count, count)))

    def needed(self, n: int, missed: ArrayLike) -> NDArray[np.intp]:
        """How many weigh in a test of n rows.

        Parameters
        ----------
        n : int
            Rows.
        missed : array_like
            The shares that may be lost of the null's variance, the sum of squared variances.

        Returns
        -------
        ndarray
            One for every share.
        """
        weights = np.where(self.variances * n >= _LIGHTEST * self.variances[0], self.variances, 0.0)
        # The variance of the mixture is 2 sum (lambda_i eta_j)^2: a direction weighs by its square.
        upto = np.cumsum(weights[::-1] ** 2)  # of a direction and all lighter ones, ascending
        if upto[-1] == 0.0:  # a sample of equal rows does not tell
            return np.full(np.shape(missed), len(weights))
        lost = np.searchsorted(upto, np.multiply(missed, upto[-1]), "right")
        counts: NDArray[np.intp] = np.maximum(1, len(weights) - lost)
        return counts


def feature_counts(
    combinations: Combinations, directions: Sequence[Directions], n: int, most: int
) -> list[int]:
    """Features of every kernel, so that products of all combinations are no more than `most`.

    Parameters
    ----------
    combinations : Combinations
        Combinations of K kernels of two variables.
    directions : sequence of Directions
        One a kernel.
    n : int
        Rows of the test.
    most : int
        Products of features; more where one feature a kernel makes more.

    Returns
    -------
    list of int
    """
    if combinations.stages:
        # Each stage of a chain has the room of a test; a kernel of several the most of theirs.
        found = np.ones(len(directions), np.intp)
        for numbers in combinations.by_stage:
            stage = replace(combinations.part(numbers), stages=())
            used = combinations.used(range(len(directions)), numbers)
            of = feature_counts(stage, [directions[k] for k in used], n, most)
            found[used] = np.maximum(found[used], of)
        return [int(count) for count in found]
    if combinations.features:
        # Each kernel by itself: those of a pair make no more products than the room of a test.
        return [
            min(int(axes.needed(n, _LIGHT_OF_REFERENCE)), math.isqrt(most)) for axes in directions
        ]
    reference = list(combinations.chosen[combinations.reference()])
    # How many directions each kernel keeps, for every share that may be missed.
    counts = np.array([axes.needed(n, _MISSED) for axes in directions])
    others = [pair for pair in combinations.chosen if list(pair) != reference]
    whole = counts[:, _MISSED >= _LIGHT_OF_REFERENCE]
    # The reference takes its directions first, of half of the room where there are others.
    room = most // 2 if others else most
    reference_counts = whole[:, _fitting(whole, [tuple(reference)], room)]
    if not others:
        return [int(count) for count in reference_counts]
    # Twice as many as the reference of their variable, or 48: narrow kernels of many columns have
    # hundreds of directions that weigh alike.
    twice = {combinations.variables[k]: 2 * reference_counts[k] for k in reference}
    allowed = np.array([max(twice.get(m, 0), _FEW) for m in combinations.variables])
    rest = np.minimum(counts[:, _MISSED >= _LIGHT], allowed[:, None])
    rest[reference] = reference_counts[reference, None]
    room = most - math.prod(reference_counts[reference])
    return [int(count) for count in rest[:, _fitting(rest, others, room)]]


def _fitting(counts: NDArray[np.intp], pairs: Sequence[tuple[int, ...]], most: int) -> int:
    """Where counts (K, shares), falling, first make so few products of pairs; or the last."""
    products = sum(np.prod(counts[list(pair)], axis=0) for pair in pairs)
    return min(int(np.count_nonzero(products > most)), len(counts.T) - 1)


# --- Nystrom features


# Landmarks of a single number: they serve as well as 256 of its rows.
_MOST_KEPT = 48
_KEPT_OF_TRENDS = 24  # of which tests take four directions or five
_AUTO = "auto"
_MOST_WEIGHTED_PRODUCTS = 256  # between all pairs of which there are covariances
_REGULARISATION = 0.3
_LEAST_REGULARISATION = 1e-6  # less would whiten rounding


def _likely_kept(kernel: Kernel, d: int, p: int, factor: float, dtype: DTypeLike) -> int:
    """Landmarks of p that a kernel keeps: few of a single number where it is smooth."""
    kernel = kernel.kernel if isinstance(kernel, OnColumns) else kernel
    if d > 1 or isinstance(of_present(kernel), Distance | Laplacian | Matern):
        return p
    # A Gaussian kernel of a normal variable keeps 14, 24, 43 and 76 of 256 rows in float32 at 1,
    # 1/2, 1/4 and 1/8 of its length, 19, 33, 57 and 100 in float64.
    most = 14.0 if dtype == np.float32 else 19.0
    return min(p, math.ceil(most * math.pow(factor, -0.8)))


# The features, the lower triangular L that whitens them, the numbers of their landmarks, and
# whether these hold the kernel.
_Kept: TypeAlias = tuple[FeatureMap, Vector, NDArray[np.intp], bool]


@dataclass(frozen=True)
class OnLandmarks(OnFeatures):
    """Options and methods of estimators on Nystrom features."""

    n_landmarks: int | str = "2sqrt"
    replace: bool = False
    tolerance: float | None = None

    remedy: ClassVar[str] = "take fewer landmarks, fewer resamples or fewer threads"

    def __post_init__(self) -> None:
        check_landmark_options(self.n_landmarks, self.tolerance)

    def n_drawn(self, session: Session) -> int:
        """Landmarks of every variable before pruning."""
        return landmark_count(self.n_landmarks, session.n, replace=self.replace)

    def expected(
        self, session: Session, combinations: Combinations, null: Null | None
    ) -> tuple[Steps, list[Features]]:
        """The steps of `draw`, with the landmarks as drawn: pruning can only make it less.

        Of a single number smooth kernels keep few, and directions are guessed from the number of
        columns: replicates take as many passes as these need, and runs by what they find.
        """
        p, guessed = self.n_drawn(session), combinations.guessed(session.dims)
        # Other steps need as much memory as the landmarks that are drawn take.
        pruned = isinstance(null, Resampling) or self.unbiased_estimate or guessed.features
        maps, directions, held = list[FeatureMap](), list[Directions](), 0
        of = zip(guessed.kernels, guessed.variables, guessed.factors, strict=True)
        for kernel, m, factor in of:
            d, dtype, one = session.dims[m], session.dtype, None
            width, count = self._by_column(kernel, d, p)
            if count and isinstance(kernel, Columns):
                one = LandmarksByColumn.likely(kernel, d, count, dtype)
            r = min(p, count or p)
            r = _likely_kept(kernel, width, r, factor, dtype) if pruned else r
            points = np.broadcast_to(dtype.type(0), (r, kernel.width(d)))
            maps.append(one or KernelFeatures(kernel, points))
            directions.append(Directions.guessed(maps[-1].n_features, factor, width))
            held += 8 * maps[-1].n_features * (maps[-1].n_features + d)
        counts = self.counts(session, guessed, directions, null)
        features = [
            Features.unseen(m, one, whitened=True, count=count)
            for m, one, count in zip(guessed.variables, maps, counts, strict=True)
        ]
        pruning = DriverStep("prune landmarks", 4 * 8 * p * p, held)
        return [fetching_step(session, p), pruning], features

    def _by_column(self, kernel: Kernel, d: int, p: int) -> tuple[int, int]:
        """Columns that a kernel sees, and landmarks of each at its quantiles; 0 where all are rows.

        Where principal features are taken, means over columns have as many as make 2 p features,
        and 2 to 48 a column; rows in their place where that would make more than 4 p. Kernels of a
        single number have 48, which serve as well as 256 of its rows, and those of trends 24.
        """
        width = len(kernel.at) if isinstance(kernel, OnColumns) else d
        means = isinstance(kernel, Columns) and width <= 2 * p
        if self.n_features is None or not (means or (width == 1 and kernel.measured(1))):
            return width, 0
        inner = kernel.kernel if isinstance(kernel, Ranked) else kernel
        most = _KEPT_OF_TRENDS if isinstance(inner, AndersonDarling) else _MOST_KEPT
        return width, min(most, max(2, 2 * p // width))

    def draw(
        self, session: Session, combinations: Combinations, null: Null | None = None
    ) -> DrawnFeatures:
        """Draw and fetch the landmarks of any number of variables; fit and prune for every kernel.

        Kernels of one variable prune the same landmarks. With the principal directions of a test,
        without kernels that tell no rows apart.
        """
        p, m = self.n_drawn(session), len(session.sources)
        rows = uniform_rows(
            session.seed, session.n, p, m, pairing="independent", replace=self.replace
        )
        fitted, points, samples = fetch_landmarks(session, combinations, rows)
        session.step("prune landmarks")
        tolerance = tolerance_for(self.tolerance, session.dtype)
        leading = {k for c in fitted.kept for k in fitted.chosen[c]}
        pairs = zip(fitted.kernels, fitted.variables, strict=True)
        kept = [
            self._pruned(session, kernel, m, points[m], tolerance, leads=k in leading)
            for k, (kernel, m) in enumerate(pairs)
        ]
        session.step("features of the sample")
        features = tuple(
            replace(
                Features.described(m, one, samples[m], factor),
                landmarks=points[m][numbers],
                spanned=spanned,
            )
            for m, (one, factor, numbers, spanned) in zip(fitted.variables, kept, strict=True)
        )
        summary = LandmarkSummary(
            drawn=p,
            kept=tuple(one.n_features for one in features),
            pairing="independent",
            replace=self.replace,
            tolerance=tolerance,
        )
        drawn = DrawnFeatures(fitted, features, summary)
        if not self._takes_directions(session, null):
            return drawn
        each = dict[int, Directions]()
        for k, (kernel, m) in enumerate(zip(fitted.kernels, fitted.variables, strict=True)):
            values, factor = features[k].values(), kept[k][1]
            # A kernel that is 1 on the diagonal and 0 elsewhere compares rows for equality alone.
            # The reference stays whatever it compares, so that there is a combination to test.
            if k in leading or (
                not is_identity(nearness(values), session.n)
                and is_held(kernel, samples[m], values, factor)
            ):
                each[k] = Directions.of(features[k], values, factor)
        numbers = compared(fitted, {*range(len(features))} - each.keys())
        some, used = fitted.part(numbers), fitted.used(range(len(features)), numbers)
        counts = self.counts(session, some, [each[k] for k in used], null)
        principal = list[Features]()
        for k, count in zip(used, counts, strict=True):
            vectors = each[k].vectors[:, :count].astype(np.float64, copy=False)
            # W = V' L^-1, so that W k(z, x) are the principal features of a row.
            matrix = solve_lower(kept[k][1], vectors, transposed=True).T
            # The trace of the covariance, that is the mean squared norm, in the sample.
            spread = float(each[k].variances.sum())
            principal.append(replace(features[k], matrix=matrix, known_spread=spread))
        return drawn._replace(
            combinations=some,
            features=tuple(principal),
            summary=FeatureSummary("principal", ()),
            detail=left_out_text(len(combinations) - len(some)),
        )

    def _pruned(
        self,
        session: Session,
        kernel: Kernel,
        m: int,
        drawn: Vector,
        tolerance: float,
        *,
        leads: bool,
    ) -> _Kept:
        """Those of the landmarks of variable m that span a fitted kernel at all of them."""
        some, dtype, name = np.arange(len(drawn)), session.dtype, session.names[m]
        _, count = self._by_column(kernel, session.dims[m], len(drawn))
        if count and isinstance(kernel, Columns):
            return *LandmarksByColumn.of(kernel, drawn, count, tolerance, dtype), some, False
        if count:
            # A kernel of one column of several takes whole rows, at the quantiles of it.
            at = kernel.at[0] if isinstance(kernel, OnColumns) else 0
            some = rows_at_quantiles(drawn[:, at], count)
        rows = drawn[some]
        gram = kernel(rows)
        # Kernels beside the reference of a grid may be 0 at all rows, as a linear kernel about the
        # median of a rare flag is: the grid has more to compare.
        if leads:
            warn_of_zeros(gram, f"the kernel of variable {name!r}")
        factor = pivoted_cholesky(gram, tolerance)
        spanned = factor.rank < len(rows)
        factor = factor if spanned else factor.in_order()
        features = KernelFeatures.at(rows[factor.kept], kernel, dtype)
        warn_of_rounding([name], [kernel], [features.columns], dtype)
        return features, factor.factor, some[factor.kept], spanned

    def counts(
        self,
        session: Session,
        combinations: Combinations,
        directions: Sequence[Directions],
        null: Null | None,
    ) -> list[Any]:
        """Principal features of every kernel that tests are made of; None for all."""
        if not self._takes_directions(session, null):
            return [None] * len(directions)
        if self.n_features in (None, _AUTO):
            most = MOST_PRODUCTS if session.weights is None else _MOST_WEIGHTED_PRODUCTS
            return feature_counts(combinations, directions, session.n, most)
        # No more than there are directions.
        return [min(len(axes.variances), int(self.n_features)) for axes in directions]

    def _takes_directions(self, session: Session, null: Null | None) -> bool:
        """Whether a test is made of principal features: of weighted rows always."""
        if session.weights is not None:
            # The limit law is one of few products, however many landmarks there are.
            return null is not None
        return isinstance(null, Resampling | Martingale) and self.n_features is not None


@dataclass(frozen=True)
class NystromHSIC(OnLandmarks):
    """Nystrom HSIC of Zhang et al. (2018), for two variables.

    With L_m the Cholesky factor of the Gram matrix of the landmarks of variable m, its features are
    phi_m(x) = L_m^-1 k_m(z_m, x), and HSIC is the squared norm of their cross-covariance C. The
    test statistic is n |C|^2 ([1] equation 31). Landmarks are drawn independently for each
    variable, so that they do not depend on the pairing of rows.

    For more than two variables the cross-covariance is a tensor with as many entries as the product
    of the numbers of landmarks. Use `NystromMHSIC`, which computes its values at landmark tuples
    only.

    Parameters
    ----------
    n_landmarks : int or str, optional
        Landmarks to draw for each variable: a number, or a multiple of sqrt(n) such as "2sqrt".
    replace : bool, optional
        Draw landmarks with replacement.
    tolerance : float, optional
        A landmark is dropped if its squared distance to the span of the others, relative to the
        largest, is below the tolerance. The default follows the precision: 1e-8 for float64
        features, 1e-4 for float32.
    n_features : int or str or None, optional
        Number of principal directions of a kernel that a test with replicates, or of null
        "martingale", keeps, by their variances in a sample of 1,000 rows, drawn separately for each
        variable. An integer is the largest number. "auto" keeps directions with at least 10 / n of
        the largest variance, except the lightest, which have a thousandth of the sum of squared
        variances, or a hundredth for kernels of a grid other than the reference. These other
        kernels keep at most twice as many directions as the reference of their variable, or 48. If
        the products of the reference of a grid would be more than 6,144, or all products more than
        12,288, a larger share of directions is left out, the same for every kernel. None keeps all.
        Time and memory of replicates grow with the number of products, and light directions have
        little power. Unless it is None, kernels of which landmarks hold less than a twentieth are
        left out, and means over columns, `Columns`, have 2 to 48 quantiles of each column as
        landmarks. Tests of rows with weights take "auto" in place of None, and at most 256
        products.
    unbiased_estimate : bool, optional
        Whether the estimates of `hsic` and of tests by shifts or permutations have the expectation
        of U-HSIC, so that they may be negative. |C|^2 is larger by a share of 1 / n, and smaller by
        the part of the kernel that the features do not hold, a quarter in 90 columns. The
        U-statistics of kernels and of features in blocks of 128 to 512 rows correct both. The test
        statistic does not change.

    Raises
    ------
    InvalidArgumentError
        A number of landmarks or features, a tolerance or a flag is not valid.

    References
    ----------
    .. [1] Q. Zhang, S. Filippi, A. Gretton, D. Sejdinovic. Large-scale kernel methods for
       independence testing. Statistics and Computing 28, 2018, section 4.1.

    Examples
    --------
    >>> NystromHSIC(n_landmarks=200).n_landmarks
    200
    """

    n_features: int | str | None = None
    unbiased_estimate: bool = False

    name: ClassVar[str] = "nystrom-hsic"
    has_intervals = True
    ranks: ClassVar[bool] = True
    nulls = Shifts, Permutation, Chain, Gamma, Spectral, Martingale
    takes_missing: ClassVar[bool] = True
    keeps_blocks: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_flag("unbiased_estimate", self.unbiased_estimate)
        open_ = self.n_features is None or isinstance(self.n_features, str)
        if not open_ or self.n_features not in (None, _AUTO):
            check_integer("n_features", self.n_features, minimum=1)


class _Normalised(OnLandmarks):
    """Nystrom features that a linear map of either variable normalises.

    The maps are made of sums over the rows of one variable, which no permutation changes. So they
    are held fixed in every null distribution, and permutations stay exact.
    """

    measured: ClassVar[bool] = True
    takes_one_kernel: ClassVar[bool] = True

    def root(self, covariance: Matrix, n: int) -> Vector:
        """Lower triangular R of the map R^-1 of features that have a covariance over n rows."""
        raise NotImplementedError

    def normalised(self, features: Features, covariance: Matrix, n: int) -> Features:
        """With the factor L R of features L^-1 phi, and their mean squared norm.

        Features that differ by rounding alone have no norm to divide by; they are divided by that
        of the kernel, which leaves rounding.
        """
        factor = features.factor
        assert factor is not None
        size = float(factor[0, 0]) ** 2  # the first pivot: the largest k(z, z)
        if np.trace(covariance) <= rounding_unit(features.map.dtype) ** 2 * size:
            return replace(features, factor=math.sqrt(size) * factor, known_spread=1.0)
        root = self.root(covariance, n)
        # The trace of R^-1 C R^-T, the mean squared norm of what is summed.
        spread = float(np.trace(whiten(covariance[None], (root, root))[0]))
        # The features become R^-1 L^-1 phi.
        return replace(features, factor=factor @ root, known_spread=spread)


@dataclass(frozen=True)
class CKA(_Normalised):
    """Centred kernel alignment of two variables by landmarks: HSIC between 0 and 1.

    With C_x, C_y and C_xy the covariances of the features of `NystromHSIC`, it is |C_xy|^2 / (|C_x|
    |C_y|) in Frobenius norms [1]_ [2]_, that is HSIC(x, y) / sqrt(HSIC(x, x) HSIC(y, y)). Under
    independence it tends to 0 as the number of rows grows, and it is 1 if the features of both
    variables agree up to rotation and scale. Each variable has its own landmarks, so the CKA of a
    variable with itself tends to 1 as the number of landmarks grows. Landmarks of many columns hold
    a part of the kernels alone, and the estimate is about that part: for two clusters in 10 columns
    45 landmarks of 500 rows have 0.35, and all pairs of rows 0.43. Therefore the name "cka" chooses
    `UCKA` for 4 to 5,000 rows in an estimate, and in a test where "auto" takes all pairs of rows. A
    value, or a text as "cka:n_landmarks=400", takes landmarks. The test statistic is n times the
    estimate.

    The denominator depends on each variable alone and is fixed in every null distribution, so
    p-values are those of `NystromHSIC`; the advantage is an estimate that can be compared between
    pairs of variables. If the features of a variable do not vary, CKA is 0.

    Parameters
    ----------
    n_landmarks : int or str, optional
        Landmarks to draw for either variable: a number, or a multiple of sqrt(n) as "2sqrt".
    replace : bool, optional
        Draw landmarks with replacement.
    tolerance : float, optional
        As in `NystromHSIC`.

    References
    ----------
    .. [1] C. Cortes, M. Mohri, A. Rostamizadeh. Algorithms for learning kernels based on centered
       alignment. JMLR 13, 2012.
    .. [2] S. Kornblith, M. Norouzi, H. Lee, G. Hinton. Similarity of neural network
       representations revisited. ICML 2019.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x, noise = np.random.default_rng(0).standard_normal((2, 1000))
    >>> [round(dhsic.hsic(x, y, estimator=CKA(100), rng=0).estimate, 2) for y in (2 * x, noise)]
    [1.0, 0.0]
    """

    name: ClassVar[str] = "cka"
    largest: ClassVar[float] = 1.0
    measure = Measure("CKA", squared_frobenius_norms, lambda size: min(size, 1.0), adds=True)
    has_intervals = True

    def root(self, covariance: Matrix, n: int) -> Vector:
        """sqrt(|C|) I."""
        # |C_xy|^2 / (|C_x| |C_y|) divides the features of either side by sqrt(|C|).
        return math.sqrt(float(np.linalg.norm(covariance))) * np.eye(len(covariance))


@dataclass(frozen=True)
class NOCCO(_Normalised):
    """Squared norm of the normalised cross-covariance operator of two variables.

    With C_x, C_y and C_xy the covariances of the features of `NystromHSIC`, it is |(C_x + e_x
    I)^-1/2 C_xy (C_y + e_y I)^-1/2|^2 in the Frobenius norm [1]_: the sum of the squared canonical
    correlations of the features, regularised for features of little variance. HSIC weights
    functions by their variance under the kernel, which is small for functions that change fast;
    NOCCO weights all functions with a variance well above e alike. So it detects dependence of fast
    functions with fewer rows, and needs more rows for linear dependence. The test statistic is n
    times the estimate.

    C_x and C_y depend on each variable alone and are fixed in every null distribution. NOCCO does
    not support the spectral null: because directions of little variance count as much as others,
    the limit is reached only for very many rows. The gamma null has the mean and the variance over
    all permutations; its p-values below 0.01 are too small, the more so the smaller e. Shifts and
    permutations are exact.

    Parameters
    ----------
    n_landmarks : int or str, optional
        Landmarks to draw for either variable: a number, or a multiple of sqrt(n) as "2sqrt".
    replace : bool, optional
        Draw landmarks with replacement.
    tolerance : float, optional
        As in `NystromHSIC`.
    regularisation : float, optional
        e_m as a share of the largest eigenvalue of C_m, so that units and the scale of the kernel
        have no effect. With small shares the test detects dependence of faster functions; with
        large shares the p-values tend to those of `NystromHSIC`. The default is 0.3 n^(-1/4): for e
        that tends to 0 while e^3 n grows without bound the estimate converges [1]_, and 0.08 at 200
        rows or 0.05 at 1,000 costs some power for slow functions and gains much for faster ones.

    Raises
    ------
    InvalidArgumentError
        A number of landmarks, a tolerance or the regularisation is not valid.

    References
    ----------
    .. [1] K. Fukumizu, A. Gretton, X. Sun, B. Schoelkopf. Kernel measures of conditional
       dependence. NIPS 20, 2008.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x, noise = np.random.default_rng(0).standard_normal((2, 1000))
    >>> y = np.sin(4 * x) + noise
    >>> dhsic.independence_test(x, y, estimator=NOCCO(), rng=0).pvalue < 0.01
    True
    """

    regularisation: float | None = None

    name: ClassVar[str] = "nocco"
    nulls: ClassVar[tuple[type[Any], ...]] = (Shifts, Permutation, Gamma)
    measure = Measure("NOCCO", squared_frobenius_norms, adds=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.regularisation is not None:
            check_number(
                "regularisation",
                self.regularisation,
                f"a finite number of at least {_LEAST_REGULARISATION}",
                lambda share: _LEAST_REGULARISATION <= share < math.inf,
                "leave it out for 0.3 n^(-1/4)",
            )

    def root(self, covariance: Matrix, n: int) -> Vector:
        """R of R R' = C + e I, where rounding may have made small eigenvalues of C negative."""
        share = _REGULARISATION * n**-0.25 if self.regularisation is None else self.regularisation
        values, vectors = np.linalg.eigh(covariance)
        # e is a share of the largest eigenvalue, so that units of the kernel do not count.
        scales = np.sqrt(np.maximum(values, 0.0) + share * values[-1])
        # QR makes a triangular root of V diag(scales), with the same R R'.
        lower: Vector = np.linalg.qr((vectors * scales).T).R.T
        return lower


@dataclass(frozen=True, eq=False)
class WitnessFunction:
    """A function in the RKHS of a kernel, f(x) = sum_j weights_j k(x, z_j).

    Parameters
    ----------
    kernel : Kernel
        The fitted kernel.
    points : ndarray, shape (r, d)
        z_j.
    weights : ndarray, shape (r,)
        Weights of a function of norm 1.

    References
    ----------
    .. [1] A. Gretton, R. Herbrich, A. Smola, O. Bousquet, B. Schoelkopf. Kernel methods for
       measuring independence. JMLR 6, 2005.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.kernels import Linear
    >>> f = WitnessFunction(Linear(), np.array([[2.0]]), np.array([0.5]))
    >>> f(np.array([[3.0], [4.0]]))
    array([3., 4.])
    """

    kernel: Kernel
    points: Vector
    weights: Vector

    def __call__(self, x: NDArray[Any]) -> Vector:
        """Values at rows: (n, d) to (n,)."""
        values: Vector = self.kernel(x, self.points) @ self.weights
        return values


@dataclass(frozen=True, eq=False, repr=False)
class WitnessFunctions(BarResult):
    """The functions of two variables whose covariance is largest.

    Parameters
    ----------
    coco : float
        Covariance of the two functions over the data.
    first, second : WitnessFunction
        Callables from rows (n, d) to values (n,), each of norm 1 in the RKHS of its kernel. Their
        common sign is arbitrary.
    estimator_reason : str
        Why the estimator was chosen, and why it takes fewer landmarks than usual if the usual
        number does not fit.

    References
    ----------
    .. [1] A. Gretton, A. Smola, O. Bousquet, R. Herbrich, A. Belitski, M. Augath, Y. Murayama,
       J. Pauls, B. Schoelkopf, N. Logothetis. Kernel constrained covariance for dependence
       measurement. AISTATS 2005.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x = np.random.default_rng(0).standard_normal(200)
    >>> found = dhsic.witness_functions(x, x, kernels="linear", rng=0)
    >>> print(round(found.coco / x.var(), 6))
    1.0
    """

    coco: float
    first: WitnessFunction
    second: WitnessFunction
    estimator_reason: str = AS_ASKED

    def summary(self) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads."""
        both = (("first", self.first), ("second", self.second))
        reason = [] if self.estimator_reason == AS_ASKED else [("estimator", self.estimator_reason)]
        return [
            ("COCO", f"{self.coco:.6g}"),
            *(
                (name, f"{kernel_text(f.kernel.spec())}, {len(f.points):,} points")
                for name, f in both
            ),
            *reason,
        ]

    def records(self) -> list[dict[str, Any]]:
        """Every point of both functions with its weight and the value of the function there."""
        both = (("first", self.first), ("second", self.second))
        return [
            {"function": name, "point": j, "weight": weight, "value": value}
            for name, f in both
            for j, (weight, value) in enumerate(
                zip(f.weights.tolist(), f(f.points).tolist(), strict=True)
            )
        ]

    def plot(self, ax: plots.Axes | None = None, *, of: str = "first") -> plots.Axes:
        """Draw a function of one or two columns as a line or colours, of more its largest values.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw in. The default is a new figure.
        of : {"first", "second"}, optional
            The function.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        InvalidArgumentError
            Another word.
        MissingDependencyError
            matplotlib is not installed.
        """
        function = getattr(self, check_choice("of", of, ("first", "second")))
        if function.points.shape[1] > 2:
            return super().plot(ax)
        columns = range(function.points.shape[1])
        names = [f"{of} variable"] if len(columns) == 1 else [f"{of}[{j}]" for j in columns]
        return plots.witness_function(function, function.points, names=names, ax=ax)

    def _pictures(self) -> Pictures:
        both = ("first", "second")
        return {f"The {of} function over its points.": partial(self.plot, of=of) for of in both}

    def _bars(self) -> tuple[Sequence[str], Sequence[float], str]:
        rows = sorted(self.records(), key=lambda row: -abs(row["value"]))
        names = [f"{row['function']}, point {row['point']}" for row in rows]
        return names, [row["value"] for row in rows], "values of the functions at their points"


def squared_largest_singular_values(cross: NDArray[Any]) -> Vector:
    """For every cross-covariance C: (b, D_1, D_2) to (b,).

    The largest eigenvalues of C C' or C'C, whichever is smaller, which takes half the time.
    """
    turned = cross.swapaxes(1, 2)
    gram = cross @ turned if cross.shape[1] <= cross.shape[2] else turned @ cross
    # Rounding may leave it below 0 where C is 0.
    values: Vector = np.maximum(np.linalg.eigvalsh(gram)[:, -1], 0.0)
    return values


@dataclass(frozen=True)
class COCO(OnLandmarks):
    """The largest covariance of functions in the unit balls of their RKHS, for two variables.

    It is the largest singular value of the cross-covariance of the features of `NystromHSIC`; HSIC
    is the sum of the squares of all singular values ([1] section 4.1). The test statistic is n
    COCO^2, whose null distribution has a limit, like that of n HSIC.

    Parameters
    ----------
    n_landmarks : int or str, optional
        Landmarks to draw for either variable: a number, or a multiple of sqrt(n) as "2sqrt".
        With all rows COCO is exact.
    replace : bool, optional
        Draw landmarks with replacement.
    tolerance : float, optional
        As in `NystromHSIC`.

    Raises
    ------
    InvalidArgumentError
        A number of landmarks, a tolerance or `replace` is not valid.

    References
    ----------
    .. [1] A. Gretton. Notes on mean embeddings and covariance operators. 2020, section 4.1.
    .. [2] A. Gretton, R. Herbrich, A. Smola, O. Bousquet, B. Schoelkopf. Kernel methods for
       measuring independence. JMLR 6, 2005.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x, noise = np.random.default_rng(0).standard_normal((2, 500))
    >>> result = dhsic.independence_test(x, x**2 + noise, estimator=COCO(n_landmarks=100), rng=0)
    >>> result.pvalue < 0.01
    True
    """

    name: ClassVar[str] = "coco"
    nulls: ClassVar[tuple[type[Any], ...]] = (Shifts, Permutation)
    takes_one_kernel: ClassVar[bool] = True
    measure = Measure("COCO", squared_largest_singular_values, math.sqrt)

    def witness_functions(self, session: Session, kernels: Sequence[Kernel]) -> WitnessFunctions:
        """The functions of unit norm whose covariance is COCO, in one pass.

        Parameters
        ----------
        session : Session
            The run, over two variables.
        kernels : sequence of Kernel
            One a variable.

        Returns
        -------
        WitnessFunctions
        """
        drawn, moments, estimate = self.fit(session, kernels)
        # The largest singular value is COCO, and its vectors are the functions that reach it
        # (Gretton 2020, section 4.1).
        left, values, right = np.linalg.svd(moments.covariance(0, 1), full_matrices=False)
        first, second = (
            # The function u' L^-1 k(z, .) has the weights L^-T u at the landmarks.
            WitnessFunction(kernel, np.asarray(features.landmarks), features.inverse.T @ u)
            for kernel, features, u in zip(
                estimate.kernels, drawn.features, (left[:, 0], right[0]), strict=True
            )
        )
        return WitnessFunctions(float(values[0]), first, second)
