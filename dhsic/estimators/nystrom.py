"""Estimators on Nystrom features of two variables, from landmarks of their own for either."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias, final

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dhsic._validation import check_flag, check_integer, check_number
from dhsic.engine.gaps import filled
from dhsic.engine.plan import DriverStep
from dhsic.engine.session import Session
from dhsic.estimators.base import BANDWIDTH_ROWS, Null, bandwidth_rows, fit_combinations
from dhsic.estimators.features import DrawnFeatures, Matrix, OnFeatures, Steps
from dhsic.estimators.identities import (
    compared,
    is_held,
    is_identity,
    left_out_text,
    nearness,
)
from dhsic.estimators.principal import (
    MOST_PRODUCTS,
    Directions,
    feature_counts,
)
from dhsic.features import FeatureMap, KernelFeatures, LandmarksByColumn, rows_at_quantiles
from dhsic.kernels import (
    AndersonDarling,
    Columns,
    Combinations,
    Distance,
    Kernel,
    Laplacian,
    Matern,
    OnColumns,
    Ranked,
)
from dhsic.kernels.wrap import of_present
from dhsic.landmarks import (
    check_landmark_options,
    landmark_count,
    tolerance_for,
    uniform_rows,
    warn_of_rounding,
    warn_of_zeros,
)
from dhsic.linalg import pivoted_cholesky, rounding_unit
from dhsic.nulls import Chain, Gamma, Permutation, Resampling, Shifts, Spectral
from dhsic.results import FeatureSummary, LandmarkSummary
from dhsic.statistics.features import Features
from dhsic.statistics.outer import Measure, squared_frobenius_norms, whiten

Vector = NDArray[np.float64]

# Landmarks of a single number: they serve as well as 256 of its rows.
_KEPT = 48
_KEPT_OF_TRENDS = 24  # of which tests take four directions or five
_ALIKE = 2.0  # factors up to it; kernels of a variable keep the same landmarks then
_AUTO = "auto"
_MOST_WEIGHTED_PRODUCTS = 256  # between all pairs of which there are covariances
_SHARE = 0.3
_LEAST_REGULARISATION = 1e-6  # less would whiten rounding


def landmarks_by_column(combinations: Combinations, dims: Sequence[int], p: int) -> list[int]:
    """Landmarks of a column, at its quantiles, for every kernel: 0 where its landmarks are rows.

    Means over columns have as many as make 2 p features, and 2 to 48 a column; rows in their place
    where that would make more than 4 p. Kernels of a single number have 48, which serve as well as
    256 of its rows, and those of trends 24.
    """
    columns = zip(combinations.kernels, _widths(combinations, dims), strict=True)
    return [
        min(_kept(kernel), max(2, 2 * p // d))
        if (isinstance(kernel, Columns) and d <= 2 * p) or (d == 1 and kernel.measured(1))
        else 0
        for kernel, d in columns
    ]


def _widths(combinations: Combinations, dims: Sequence[int]) -> list[int]:
    """Columns that every kernel sees of its variable."""
    pairs = zip(combinations.kernels, combinations.spread(dims), strict=True)
    return [len(kernel.at) if isinstance(kernel, OnColumns) else d for kernel, d in pairs]


def likely_maps(
    session: Session,
    combinations: Combinations,
    p: int,
    by_column: Sequence[int],
    *,
    pruned: bool,
) -> list[FeatureMap]:
    """Features at p landmarks, or those that are likely to be kept, of no memory, for plans."""
    zero = session.dtype.type(0)
    dims = combinations.spread(session.dims)
    maps: list[FeatureMap] = []
    of = (combinations.kernels, combinations.variables, combinations.factors, dims)
    seen = _widths(combinations, session.dims)
    for kernel, m, factor, d, count, width in zip(*of, by_column, seen, strict=True):
        if count and isinstance(kernel, Columns):
            maps.append(LandmarksByColumn.likely(kernel, d, count, session.dtype))
            continue
        r = min(p, count or p)
        r = _likely_kept(kernel, width, r, factor, session.dtype) if pruned else r
        points = np.broadcast_to(zero, (r, kernel.width(d)))
        # The widest kernels keep fewer landmarks than others, which then are no powers of them.
        maps.append(KernelFeatures(kernel, points, (m, r, factor > _ALIKE)))
    return maps


def _likely_kept(kernel: Kernel, d: int, p: int, factor: float, dtype: DTypeLike) -> int:
    """Landmarks of p that a kernel keeps: few of a single number where it is smooth."""
    kernel = kernel.kernel if isinstance(kernel, OnColumns) else kernel
    if d > 1 or isinstance(of_present(kernel), Distance | Laplacian | Matern):
        return p
    # A Gaussian kernel of a normal variable keeps 14, 24, 43 and 76 of 256 rows in float32 at 1,
    # 1/2, 1/4 and 1/8 of its length, 19, 33, 57 and 100 in float64.
    most = 14.0 if dtype == np.float32 else 19.0
    return min(p, math.ceil(most * math.pow(factor, -0.8)))


def _landmark_steps(
    session: Session, combinations: Combinations, p: int, maps: Sequence[FeatureMap]
) -> Steps:
    """Drawing p landmarks, of which those of the maps are kept."""
    rows = 8 * sum(session.dims) * (p + BANDWIDTH_ROWS)
    fetch = 3 * rows + max(source.take_bytes for source in session.sources)
    held = 8 * sum(
        features.n_features * (features.n_features + d)
        for features, d in zip(maps, combinations.spread(session.dims), strict=True)
    )
    return [
        DriverStep("fetch landmarks", fetch, rows),
        DriverStep("prune landmarks", 4 * 8 * p * p, held),
    ]


# The features, the lower triangular L that whitens them, the numbers of their landmarks, and
# whether these hold the kernel.
_Kept: TypeAlias = tuple[FeatureMap, Vector, NDArray[np.intp], bool]


class OnLandmarks(OnFeatures):
    """Options and methods of estimators on Nystrom features."""

    cost: ClassVar[str] = "n"
    remedy: ClassVar[str] = "take fewer landmarks, fewer resamples or fewer threads"

    n_landmarks: int | str
    replace: bool
    tolerance: float | None

    def __post_init__(self) -> None:
        check_landmark_options(self.n_landmarks, self.tolerance)

    def expected(
        self, session: Session, combinations: Combinations, null: Null | None
    ) -> tuple[Steps, list[Features]]:
        """The steps of `draw`, with the landmarks as drawn: pruning can only make it less.

        Of a single number smooth kernels keep few, and directions are guessed from the number of
        columns: replicates take as many passes as these need, and runs by what they find.
        """
        p, guessed = self.n_drawn(session), combinations.guessed(session.dims)
        by_column = self.by_column(guessed, session.dims, p)
        # Other steps need as much memory as the landmarks that are drawn take.
        pruned = isinstance(null, Resampling) or self.unbiased_estimate or guessed.features
        maps = likely_maps(session, guessed, p, by_column, pruned=pruned)
        of = zip(maps, guessed.factors, _widths(guessed, session.dims), strict=True)
        directions = [Directions.guessed(map_.n_features, f, d) for map_, f, d in of]
        counts: Sequence[int | None] | None = self.counts(session, guessed, directions, null)
        features = [
            Features.unseen(m, map_, whitened=True, count=count)
            for m, map_, count in zip(
                guessed.variables, maps, counts or [None] * len(maps), strict=True
            )
        ]
        return _landmark_steps(session, guessed, p, maps), features

    def counts(
        self,
        session: Session,
        combinations: Combinations,
        directions: Sequence[Directions],
        null: Null | None,
    ) -> list[int] | None:
        """Principal features of every kernel that tests are made of; None for all."""
        del session, combinations, directions, null
        return None

    def by_column(self, combinations: Combinations, dims: Sequence[int], p: int) -> list[int]:
        """Landmarks of a column for every kernel that has them by column, 0 for the others."""
        del dims, p
        return [0] * len(combinations.kernels)

    def n_drawn(self, session: Session) -> int:
        """Landmarks of every variable before pruning."""
        return landmark_count(self.n_landmarks, session.n, replace=self.replace)

    def draw(
        self, session: Session, combinations: Combinations, null: Null | None = None
    ) -> DrawnFeatures:
        """Draw and fetch the landmarks of any number of variables; fit and prune for every kernel.

        Kernels of one variable prune the same landmarks.
        """
        del null
        p = self.n_drawn(session)
        session.step("fetch landmarks")
        m = len(session.sources)
        drawn = uniform_rows(
            session.seed, session.n, p, m, pairing="independent", replace=self.replace
        )
        sampled = bandwidth_rows(session)
        # Landmarks and the sample are read together.
        rows = session.take([np.append(z, x) for z, x in zip(drawn, sampled, strict=True)])
        fitted = fit_combinations(session, combinations, [x[p:] for x in rows])
        # No landmark is missing: one that was is made of values of others.
        rows = list(map(filled, rows))
        samples = [x[p:] for x in rows]
        session.step("prune landmarks")
        tolerance = tolerance_for(self.tolerance, session.dtype)
        names, landmarks = fitted.spread(session.names), fitted.spread([x[:p] for x in rows])
        by_column = self.by_column(fitted, session.dims, p)
        leading, dtype = fitted.kept_kernels, session.dtype
        kept = []
        of = (names, fitted.kernels, fitted.variables, landmarks, by_column)
        for k, (name, kernel, m, z, count) in enumerate(zip(*of, strict=True)):
            one: _Kept
            if count and isinstance(kernel, Columns):
                one = *LandmarksByColumn.of(kernel, z, count, tolerance, dtype), np.arange(p), False
            else:
                some = np.arange(p)
                if count:
                    # A kernel of one column of several takes whole rows, at the quantiles of it.
                    at = kernel.at[0] if isinstance(kernel, OnColumns) else 0
                    some = rows_at_quantiles(z[:, at], count)
                one = _spanning(name, kernel, m, z, some, tolerance, dtype, leads=k in leading)
            kept.append(one)
        session.step("features of the sample")
        features = tuple(
            replace(
                Features.described(m, map_, sample, factor), landmarks=(z, numbers), spanned=spanned
            )
            for m, sample, z, (map_, factor, numbers, spanned) in zip(
                fitted.variables, fitted.spread(samples), landmarks, kept, strict=True
            )
        )
        summary = LandmarkSummary(
            drawn=p,
            kept=tuple(one.n_features for one in features),
            pairing="independent",
            replace=self.replace,
            tolerance=tolerance,
        )
        return DrawnFeatures(fitted, features, summary)


def _spanning(
    name: str,
    kernel: Kernel,
    m: int,
    drawn: Vector,
    some: NDArray[np.intp],
    tolerance: float,
    dtype: DTypeLike,
    *,
    leads: bool,
) -> _Kept:
    """Those of some of the rows drawn of variable m that span a fitted kernel at all of them."""
    rows = drawn[some]
    gram = kernel(rows)
    # Kernels beside the reference of a grid may be 0 at all rows, as a linear kernel about the
    # median of a rare flag is: the grid has more to compare.
    if leads:
        warn_of_zeros(gram, f"the kernel of variable {name!r}")
    factor = pivoted_cholesky(gram, tolerance)
    spanned = factor.rank < len(rows)
    factor = factor if spanned else factor.in_order()
    features = KernelFeatures.at(rows[factor.kept], kernel, dtype, (m, *factor.kept.tolist()))
    warn_of_rounding([name], [kernel], [features.columns], dtype)
    return features, factor.factor, some[factor.kept], spanned


def _kept(kernel: Kernel) -> int:
    inner = kernel.kernel if isinstance(kernel, Ranked) else kernel
    return _KEPT_OF_TRENDS if isinstance(inner, AndersonDarling) else _KEPT


@final
@dataclass(frozen=True)
class NystromHSIC(OnLandmarks):
    """Nystrom HSIC of Zhang et al. (2018), for two variables.

    With L_m the Cholesky factor of the Gram matrix of the landmarks of variable m, its features
    are phi_m(x) = L_m^-1 k_m(z_m, x), and HSIC is the squared norm of their cross-covariance C.
    The test statistic is n |C|^2 ([1] equation 31). Landmarks are drawn independently for either
    variable, so that they know nothing of the pairing.

    For more than two variables the cross-covariance becomes a tensor with as many entries as the
    product of the numbers of landmarks. Its values at landmark tuples alone are what
    `NystromMHSIC` works with: take that.

    Parameters
    ----------
    n_landmarks : int or str, optional
        Landmarks to draw for either variable: a number, or a multiple of sqrt(n) as "2sqrt".
    replace : bool, optional
        Draw landmarks with replacement.
    tolerance : float, optional
        A landmark is dropped where its squared distance to the span of the others, relative to
        the largest, is below it. The default follows the precision: 1e-8 for float64 features,
        1e-4 for float32.
    n_features : int or str or None, optional
        How many principal directions of the features of a kernel a test with replicates keeps, by
        their variances in a sample of 1,000 rows that is drawn for every variable by itself. A
        number is the most; "auto" takes those with at least 10 / n of the largest variance, but
        for the lightest, which hold a thousandth of the squared variances, and of the kernels of a
        grid beside its reference a hundredth. These have at most twice as many as the reference of
        their variable, or 48. Where the products of the reference of a grid would be more than
        6,144, or all of them more than 12,288, a larger share is left out, the same of every
        kernel. None takes all. Replicates take as long, and as much memory, as there are products,
        and light directions have little power. Where it is given, kernels of which landmarks hold
        less than a twentieth are left out, and means over columns, `Columns`, have 2 to 48
        quantiles of every column as landmarks. Tests of rows with weights take "auto" in place of
        None, and at most 256 products.
    unbiased_estimate : bool, optional
        Whether estimates, those of `hsic` and of tests by shifts or permutations, have the
        expectation of U-HSIC, and are negative at times. |C|^2 is larger by a share of 1 / n, and
        smaller by what the features do not hold of a kernel, a quarter in 90 columns. Both are put
        right by the U-statistics of kernels and of features in blocks of 128 to 512 rows. The test
        statistic stays.

    Raises
    ------
    InvalidArgumentError
        A number of landmarks or features, a tolerance or a flag that cannot be.

    References
    ----------
    .. [1] Q. Zhang, S. Filippi, A. Gretton, D. Sejdinovic. Large-scale kernel methods for
       independence testing. Statistics and Computing 28, 2018, section 4.1.

    Examples
    --------
    >>> NystromHSIC(n_landmarks=200).n_landmarks
    200
    """

    n_landmarks: int | str = "2sqrt"
    replace: bool = False
    tolerance: float | None = None
    n_features: int | str | None = None
    unbiased_estimate: bool = False

    name: ClassVar[str] = "nystrom-hsic"
    ranks: ClassVar[bool] = True
    nulls: ClassVar[tuple[type[Any], ...]] = (Shifts, Permutation, Chain, Gamma, Spectral)
    takes_missing: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_flag("unbiased_estimate", self.unbiased_estimate)
        open_ = self.n_features is None or isinstance(self.n_features, str)
        if not open_ or self.n_features not in (None, _AUTO):
            check_integer("n_features", self.n_features, minimum=1)

    def counts(
        self,
        session: Session,
        combinations: Combinations,
        directions: Sequence[Directions],
        null: Null | None,
    ) -> list[int] | None:
        """Principal features of every kernel that tests are made of; None for all."""
        if not self._takes_directions(session, combinations, null):
            return None
        if self.n_features in (None, _AUTO):
            most = MOST_PRODUCTS if session.weights is None else _MOST_WEIGHTED_PRODUCTS
            return feature_counts(combinations, directions, session.n, most)
        # No more than there are directions.
        return [min(len(axes.variances), int(self.n_features)) for axes in directions]

    def _takes_directions(
        self, session: Session, combinations: Combinations, null: Null | None
    ) -> bool:
        """Whether a test is made of principal features: of weighted rows always."""
        if session.weights is not None:
            # The limit law is one of few products, however many landmarks there are.
            return null is not None
        return isinstance(null, Resampling) and self.n_features is not None

    def by_column(self, combinations: Combinations, dims: Sequence[int], p: int) -> list[int]:
        """Means over columns have landmarks of every column where principal features are taken."""
        if self.n_features is None:
            return super().by_column(combinations, dims, p)
        return landmarks_by_column(combinations, dims, p)

    def draw(
        self, session: Session, combinations: Combinations, null: Null | None = None
    ) -> DrawnFeatures:
        """With the principal directions of a test, without kernels that tell no rows apart."""
        drawn = super().draw(session, combinations, null)
        if not self._takes_directions(session, combinations, null):
            return drawn
        fitted, kept = drawn.combinations, drawn.combinations.kept_kernels
        each, left_out = [], set()
        for k, (kernel, features) in enumerate(zip(fitted.kernels, drawn.features, strict=True)):
            values = features.values()
            # The reference stays whatever it compares, so that there is a combination to test.
            if k in kept or _compares(kernel, features, values, session.n):
                each.append(Directions.of(features, values))
            else:
                each.append(Directions.guessed(1))
                left_out.add(k)
        numbers = compared(fitted, left_out)
        some, directions = fitted.part(numbers), fitted.used(each, numbers)
        counts = self.counts(session, some, directions, null)
        assert counts is not None
        features_of_some = zip(
            fitted.used(drawn.features, numbers), directions, counts, strict=True
        )
        return drawn._replace(
            combinations=some,
            features=tuple(
                # The trace of the covariance, that is the mean squared norm, in the sample.
                replace(one, matrix=axes.axes(count), known_spread=float(axes.variances.sum()))
                for one, axes, count in features_of_some
            ),
            summary=FeatureSummary("principal", ()),
            detail=left_out_text(len(combinations) - len(some)),
        )


def _compares(kernel: Kernel, features: Features, values: Matrix, n: int) -> bool:
    """Whether features tell rows apart by more than which of them are equal."""
    assert features.sample is not None
    assert features.factor is not None
    # A kernel that is 1 on the diagonal and 0 elsewhere compares rows for equality alone.
    if is_identity(nearness(values), n):
        return False
    return is_held(kernel, features.sample, values, features.factor)


def _at_most_1(size: float) -> float:
    """CKA but for rounding."""
    return min(size, 1.0)


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


@final
@dataclass(frozen=True)
class CKA(_Normalised):
    """Centred kernel alignment of two variables: HSIC between 0 and 1.

    With C_x, C_y and C_xy the covariances of the features of `NystromHSIC`, it is
    |C_xy|^2 / (|C_x| |C_y|) in Frobenius norms [1]_ [2]_, that is
    HSIC(x, y) / sqrt(HSIC(x, x) HSIC(y, y)): 0 under independence as the rows grow, and 1 where
    the features of one variable are those of the other but for rotation and scale. The landmarks
    of either variable are its own, so that of a variable with itself it reaches 1 as they grow.
    The test statistic is n times it.

    The divisor is made of either variable alone and is held fixed in every null distribution, so
    p-values are those of `NystromHSIC`; what is gained is an estimate that compares across pairs
    of variables. A variable whose features do not differ has CKA 0.

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
    >>> [round(dhsic.hsic(x, y, estimator="cka", rng=0).estimate, 2) for y in (2 * x, noise)]
    [1.0, 0.0]
    """

    n_landmarks: int | str = "2sqrt"
    replace: bool = False
    tolerance: float | None = None

    name: ClassVar[str] = "cka"
    nulls: ClassVar[tuple[type[Any], ...]] = (Shifts, Permutation, Gamma, Spectral)
    measure: ClassVar[Measure] = Measure("CKA", squared_frobenius_norms, _at_most_1, adds=True)

    def root(self, covariance: Matrix, n: int) -> Vector:
        """sqrt(|C|) I."""
        del n
        # |C_xy|^2 / (|C_x| |C_y|) divides the features of either side by sqrt(|C|).
        return math.sqrt(float(np.linalg.norm(covariance))) * np.eye(len(covariance))


@final
@dataclass(frozen=True)
class NOCCO(_Normalised):
    """Squared norm of the normalised cross-covariance operator of two variables.

    With C_x, C_y and C_xy the covariances of the features of `NystromHSIC`, it is
    |(C_x + e_x I)^-1/2 C_xy (C_y + e_y I)^-1/2|^2 in the Frobenius norm [1]_: the sum of the
    squared canonical correlations of the features, those of little variance damped. HSIC weighs
    dependence by the variance that the kernels give it, which is small for functions that change
    fast; NOCCO weighs all well above e alike. So it finds such dependence with fewer rows, and
    needs more for the linear kind. The test statistic is n times it.

    C_x and C_y are made of either variable alone and are held fixed in every null distribution.
    The spectral null does not stand with it: where directions of little variance count as much as
    others, the limit is reached too late. The gamma null has the mean and the variance over all
    permutations; below 0.01, and the more so the smaller e, its p-values claim too much evidence,
    and permutations alone are exact.

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
        change nothing. Small shares find dependence of faster functions, large ones tend to the
        p-values of `NystromHSIC`. The default is 0.3 n^(-1/4): for e that tends to 0 while e^3 n
        grows without bound the estimate converges [1]_, and 0.08 at 200 rows or 0.05 at 1,000 costs
        some power for slow functions and gains much for faster ones.

    Raises
    ------
    InvalidArgumentError
        A number of landmarks or a tolerance that cannot be, or a regularisation that is too small.

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

    n_landmarks: int | str = "2sqrt"
    replace: bool = False
    tolerance: float | None = None
    regularisation: float | None = None

    name: ClassVar[str] = "nocco"
    nulls: ClassVar[tuple[type[Any], ...]] = (Shifts, Permutation, Gamma)
    measure: ClassVar[Measure] = Measure("NOCCO", squared_frobenius_norms, adds=True)

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
        share = _SHARE * n**-0.25 if self.regularisation is None else self.regularisation
        values, vectors = np.linalg.eigh(covariance)
        # e is a share of the largest eigenvalue, so that units of the kernel do not count.
        scales = np.sqrt(np.maximum(values, 0.0) + share * values[-1])
        # QR makes a triangular root of V diag(scales), with the same R R'.
        lower: Vector = np.linalg.qr((vectors * scales).T).R.T
        return lower
