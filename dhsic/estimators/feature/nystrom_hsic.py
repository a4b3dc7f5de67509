"""Nystrom HSIC: landmarks of their own for either variable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, final

from dhsic._validation import check_flag, check_integer
from dhsic.engine.plan import Plan
from dhsic.engine.session import Session
from dhsic.estimators.base import Null, Resampling
from dhsic.estimators.feature.basis import Side, unseen_sides
from dhsic.estimators.feature.landmarks import (
    LandmarkFeatures,
    OnLandmarks,
    landmarks_by_column,
)
from dhsic.estimators.feature.pairs import plan_pairs, ranked_estimates, ranked_outcome
from dhsic.estimators.feature.principal import (
    MOST_PRODUCTS,
    Directions,
    feature_counts,
)
from dhsic.estimators.feature.tests import grid_outcome
from dhsic.estimators.feature.weighted import MOST_WEIGHTED_PRODUCTS, weighted_outcome
from dhsic.estimators.identities import (
    compared,
    is_held,
    is_identity,
    left_out_text,
    nearness,
)
from dhsic.estimators.outcomes import ColumnEstimates, GridOutcome, Outcome
from dhsic.features import Matrix
from dhsic.kernels import Combinations, Kernel
from dhsic.nulls import Spectral

_AUTO = "auto"


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
        for the lightest of a grid, which hold a thousandth of the squared variances of its
        reference, and a hundredth of those of the other kernels. These have at most twice as many
        as the reference of their variable, or 48. Where the products of the reference would be more
        than 6,144, or all of them more than 12,288, a larger share is left out, the same of every
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
    takes_missing: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_flag("unbiased_estimate", self.unbiased_estimate)
        open_ = self.n_features is None or isinstance(self.n_features, str)
        if not open_ or self.n_features not in (None, _AUTO):
            check_integer("n_features", self.n_features, minimum=1)

    def plan(self, session: Session, combinations: Combinations, null: Null | None) -> Plan:
        """The steps that would run; of many pairs those of their estimates besides."""
        if not combinations.features:
            return super().plan(session, combinations, null)
        p, guessed, maps, counts = self.expected(session, combinations, null)
        sides = unseen_sides(maps, whitened=True, counts=counts)
        return plan_pairs(session, guessed, sides, null, p)

    def test(self, session: Session, kernels: Sequence[Kernel], null: Null) -> Outcome:
        """The statistic, n times what is measured, and its null distribution."""
        if isinstance(null, Resampling):
            # Zhang et al. (2018), section 4.1: n times the squared norm of the whitened cross-
            # covariance.
            return self.test_grid(session, Combinations.single(kernels), null).only
        if session.weights is not None:
            assert isinstance(null, Spectral)
            # The limit law is one of few products: principal features, however many landmarks there
            # are.
            drawn = self.draw_principal(session, Combinations.single(kernels))
            return weighted_outcome(session, drawn.bases[0], null)
        return super().test(session, kernels, null)

    def test_grid(
        self, session: Session, combinations: Combinations, null: Resampling
    ) -> GridOutcome:
        """The statistics of several combinations and their replicates."""
        drawn = self.draw_principal(session, combinations)
        if combinations.features:
            return ranked_outcome(session, drawn, null)
        outcome = grid_outcome(
            session,
            drawn.combinations,
            drawn.bases,
            self.measure,
            null,
            unbiased=self.unbiased_estimate,
        )
        why = left_out_text(len(combinations) - len(drawn.combinations))
        return replace(outcome, detail="; ".join(filter(None, (outcome.detail, why))))

    def estimate_features(self, session: Session, combinations: Combinations) -> ColumnEstimates:
        """The estimates of all features, in one pass."""
        return ranked_estimates(session, self.draw(session, combinations))

    def takes_directions(self, session: Session) -> bool:
        """Whether tests are made of principal features: of weighted rows always."""
        return self.n_features is not None or session.weights is not None

    def counts(
        self, session: Session, combinations: Combinations, directions: Sequence[Directions]
    ) -> list[int] | None:
        """Principal features of every kernel that replicates are made of; None for all."""
        if not self.takes_directions(session):
            return None
        if self.n_features in (None, _AUTO):
            most = MOST_PRODUCTS if session.weights is None else MOST_WEIGHTED_PRODUCTS
            return feature_counts(combinations, directions, session.n, most)
        # No more than there are directions.
        return [min(len(axes.variances), int(self.n_features)) for axes in directions]

    def by_column(self, combinations: Combinations, dims: Sequence[int], p: int) -> list[int]:
        """Means over columns have landmarks of every column where principal features are taken."""
        if self.n_features is None:
            return super().by_column(combinations, dims, p)
        return landmarks_by_column(combinations, dims, p)

    def draw_principal(self, session: Session, combinations: Combinations) -> LandmarkFeatures:
        """Draw the landmarks, with the principal directions that replicates are made of."""
        drawn = self.draw(session, combinations)
        if not self.takes_directions(session):
            return drawn
        combinations = drawn.combinations
        kept = combinations.kept_kernels
        directions_of_kernels, left_out = [], set()
        for k, (kernel, side) in enumerate(zip(combinations.kernels, drawn.sides, strict=True)):
            values = side.values()
            # The reference stays whatever it compares, so that there is a combination to test.
            if k in kept or _compares(kernel, side, values, session.n):
                directions_of_kernels.append(Directions.of(side, values))
            else:
                directions_of_kernels.append(Directions.guessed(1))
                left_out.add(k)
        # Combinations whose kernels tell no rows apart are left out of the grid.
        numbers = compared(combinations, left_out)
        drawn, directions = drawn.part(numbers), combinations.used(directions_of_kernels, numbers)
        counts = self.counts(session, drawn.combinations, directions)
        assert counts is not None
        return drawn._replace(
            sides=tuple(
                # The trace of the covariance, that is the mean squared norm, in the sample.
                side._replace(projection=axes.axes(count), known_spread=float(axes.variances.sum()))
                for side, axes, count in zip(drawn.sides, directions, counts, strict=True)
            )
        )


def _compares(kernel: Kernel, side: Side, values: Matrix, n: int) -> bool:
    """Whether the features of a kernel tell rows apart by more than which of them are equal."""
    assert side.sample is not None
    assert side.factor is not None
    # A kernel that is 1 on the diagonal and 0 elsewhere compares rows for equality alone.
    if is_identity(nearness(values), n):
        return False
    return is_held(kernel, side.sample, values, side.factor)
