"""NFSIC: covariances of analytic kernels at a few locations, normalised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, NamedTuple, final, get_args

import numpy as np
from numpy.typing import NDArray

from dhsic._random import generator
from dhsic._validation import check_choice, check_integer, check_number
from dhsic.engine.plan import DriverStep, PassPlan, Plan
from dhsic.engine.reduction import Footprint, Pass, RowBlock
from dhsic.engine.session import Session
from dhsic.errors import DataError
from dhsic.estimators.approximate import guard_locations
from dhsic.estimators.base import Estimator, Null, fit_on_sample, fitting_step, plan_of
from dhsic.estimators.outcomes import Estimate, Outcome
from dhsic.estimators.training import (
    Norm,
    Placed,
    Training,
    independent_covariance,
    place,
)
from dhsic.io.variables import without_rows
from dhsic.kernels import Combinations, Gaussian, Kernel
from dhsic.landmarks import uniform_rows, warn_of_rounding
from dhsic.nulls import ChiSquare, ChiSquareMixture, Replicates, Resampling
from dhsic.results import FeatureSummary
from dhsic.statistics.orbit import Pair, exact_null
from dhsic.statistics.pointwise import (
    LANDMARK_TILE_ROWS,
    MeansPass,
    Tuples,
    TupleSums,
    TupleTiles,
    measured,
    plan_tuples,
    resample_tuples,
    tiles_of_rows,
)

Vector = NDArray[np.float64]
Placement = Literal["optimised", "random"]

_REMEDY = "take fewer locations, training rows, resamples or threads"
_LOCATIONS = 10
_ROWS_A_LOCATION = 50
_FEWEST_ROWS = 2


class LocationSums(NamedTuple):
    """Sums over rows at locations."""

    tuples: TupleSums
    """Those of the statistic of the data as they are."""
    second: Vector
    """Products of every kernel about its pilot at two locations, shape (M, J, J)."""


@dataclass(frozen=True)
class LocationPass(Pass[LocationSums]):
    """Means of kernels at locations, and their covariances.

    Parameters
    ----------
    tuples : Tuples
        One statistic, which keeps all locations; so few that they are one strip.
    """

    tuples: Tuples
    name: str = "test locations"

    @cached_property
    def tiles(self) -> TupleTiles:
        """Tiles of some rows."""
        return TupleTiles(self.tuples, 1)

    def footprint(self, rows: int) -> Footprint:
        """Cost of a block of so many rows."""
        j, tile = self.tuples.n_values, min(rows, LANDMARK_TILE_ROWS)
        sums = MeansPass(self.tuples).footprint(rows)
        return Footprint(
            payload=sums.payload,
            scratch=tile * (self.tiles.row_bytes + 8 * j),
            state=sums.state + 8 * len(self.tuples.kernels) * j * j,
        )

    def chunk(self, block: RowBlock) -> LocationSums:
        """Sums over one block."""
        t, j = self.tuples, self.tuples.n_values
        sums = LocationSums(TupleSums.zeros(t, 1), np.zeros((len(t.kernels), j, j)))
        for values in tiles_of_rows(block):
            ((strip, tiles),) = self.tiles.of(values)
            sides = self.tiles.sides(strip, tiles)
            sums.tuples.add_still(t, strip, sides)
            for k, products in enumerate(sums.second):
                # Covariances are differences of these sums, so that they are made in double
                # precision.
                about = sides[k,].astype(np.float64, copy=False)
                products += about @ about.T
        return sums


@final
@dataclass(frozen=True)
class NFSIC(Estimator):
    """The normalised finite set independence criterion, for two or more variables.

    With kernels k_m at J locations v_j = (v_1j, ..., v_Mj) and their means kappa_mj, let
    u_j = mean(prod_m k_m(v_mj, .)) - prod_m kappa_mj, which is near 0 under independence; for two
    variables it is the covariance of both kernels at the location. The test statistic is
    T = n u'(S + r t I)^-1 u, with S the covariance of sqrt(n) u under independence, t the mean of
    its diagonal, and its limit chi-square with J degrees of freedom. The estimate is T / n.

    S is made of the covariances C_m and means of the kernels of every variable; for two it is the
    product of C_1 and C_2, entry by entry. [1]_ takes the covariance of the terms of u instead,
    whose limit under independence is the same. But kernels that are narrow enough for no row to
    be near a location in both variables leave it far too small, and such locations are what
    optimisation then finds. S does not change under permutation, either.

    Parameters
    ----------
    n_locations : int or str, optional
        J. "auto" is 10, or as many as there are 50 training rows for each.
    placement : {"optimised", "random"}, optional
        Locations and bandwidths that maximise T on training rows, which the test then leaves
        out, so that it is as exact as without; or rows of the data, drawn independently for every
        variable, with the bandwidths of the kernels, and all rows in the test. Bandwidths of
        radial kernels alone are optimised, and locations of differentiable ones.
    training_rows : int, optional
        The most rows to train on; half of them where the data have fewer than twice as many.
    regularisation : float, optional
        r.

    Raises
    ------
    InvalidArgumentError
        A number of locations or rows that is too small, no such placement, or a regularisation that
        is not between 0 and 1.

    References
    ----------
    .. [1] W. Jitkrittum, Z. Szabo, A. Gretton. An adaptive test of independence with analytic
       kernel embeddings. ICML 2017, equation 6 and theorem 5.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x, noise = np.random.default_rng(0).standard_normal((2, 1000))
    >>> y = np.cos(3 * x) + noise
    >>> dhsic.independence_test(x, y, estimator=NFSIC(n_locations=5), rng=0).pvalue < 0.01
    True
    """

    n_locations: int | str = "auto"
    placement: Placement = "optimised"
    training_rows: int = 10_000
    regularisation: float = 1e-3

    name: ClassVar[str] = "nfsic"

    def __post_init__(self) -> None:
        if not isinstance(self.n_locations, str) or self.n_locations != "auto":
            check_integer("n_locations", self.n_locations, minimum=1)
        check_choice("placement", self.placement, get_args(Placement))
        check_integer("training_rows", self.training_rows, minimum=2)
        check_number(
            "regularisation",
            self.regularisation,
            "greater than 0 and less than 1",
            lambda share: 0.0 < share < 1.0,
            "leave it out for 1e-3",
        )

    def kernel(self, given: Kernel | None) -> Kernel:
        """Any, Gaussian where not given."""
        return given or Gaussian()

    def choose_null(self, session: Session, n_resamples: int) -> tuple[Null, str]:
        """Shifts of rows; permutations of three variables or more."""
        return exact_null(len(session.sources), n_resamples)

    def plan(self, session: Session, combinations: Combinations, null: Null | None) -> Plan:
        """The plan."""
        count, trained = self._count(session), self._trained(session.n)
        if session.n - trained < _FEWEST_ROWS:
            msg = (
                f"{self.name} needs at least {_FEWEST_ROWS} rows besides those to train on, got "
                f"{session.n - trained}: add rows, or take NFSIC(placement='random')"
            )
            raise DataError(msg)
        steps: list[DriverStep | PassPlan] = [fitting_step(session)]
        if trained:
            rows = 8 * trained * sum(session.dims)
            tiles = 8 * trained * count * len(session.sources)
            steps.append(DriverStep("optimise locations", 6 * rows + 12 * tiles, rows))
        rest = _session_without(session, self._training(session))
        guessed = combinations.guessed(session.dims)
        pairs = list(map(Pair.of, combinations.chosen))
        tuples = Tuples.unseen(guessed, session.dims, count, pairs, session.dtype)
        steps.append(rest.plan(LocationPass(tuples)))
        steps.append(DriverStep("solve", 64 * count * (tuples.n_side_values + count)))
        if isinstance(null, Resampling):
            steps += plan_tuples(rest, tuples, null)
        return plan_of(session, steps, _REMEDY)

    def estimate(self, session: Session, kernels: Sequence[Kernel]) -> Estimate:
        """NFSIC over n, in one pass."""
        *_, estimate = self._measure(session, kernels)
        return estimate

    def test(self, session: Session, kernels: Sequence[Kernel], null: Null) -> Outcome:
        """T and its null distribution: in one pass, and one more where there are replicates."""
        rest, tuples, sampled, norm, estimate = self._measure(session, kernels)
        if isinstance(null, ChiSquare):
            # The limit of T; chi-square without a ridge.
            law, detail = ChiSquareMixture.of(norm.weights), guard_locations(rest.n, sampled)
            return Outcome(rest.n * estimate.value, law, estimate, detail)
        assert isinstance(null, Resampling)
        resampled, _, detail = resample_tuples(rest, tuples, [norm.whiten], null)
        (statistic,), replicates, (rounding,), _ = resampled
        return Outcome(
            float(statistic), Replicates(replicates[:, 0]), estimate, detail, float(rounding)
        )

    def _measure(
        self, session: Session, kernels: Sequence[Kernel]
    ) -> tuple[Session, Tuples, list[Vector], Norm, Estimate]:
        """Fit the kernels, place the locations and measure the other rows there.

        The run over these rows, the statistic, the kernels of some rows at the locations, shapes
        (s, J), the norm and the estimate.
        """
        fitted, samples = fit_on_sample(session, kernels)
        # Locations are chosen by rows that are not tested.
        training, m = self._training(session), len(kernels)
        rest, placed = _session_without(session, training), self._place(session, fitted, training)
        columns = [k.columns(z, session.dtype) for k, z in zip(*placed, strict=True)]
        warn_of_rounding(session.names, placed.kernels, columns, session.dtype)
        # The means of a sample are pilots, from which the pass takes small differences.
        sampled = [k(x, z) for k, z, x in zip(*placed, samples, strict=True)]
        tuples = Tuples(
            placed.kernels,
            tuple(range(m)),
            placed.points,
            (Pair.of(tuple(range(m))),),
            (np.arange(self._count(session)),),
            tuple(k.mean(axis=0) for k in sampled),
            session.dtype,
        )
        sums, n = rest.reduce(LocationPass(tuples)), rest.n
        session.step("solve")
        moments = measured(tuples, sums.tuples, n)
        means, covariances = list(moments.kappa), []
        for k, products in enumerate(sums.second / n):
            # About pilots, so that the means are small and little cancels.
            mean = sums.tuples.sides[0, tuples.side_places[k,]] / n
            covariances.append(products - np.outer(mean, mean))
        norm = Norm.of(independent_covariance(covariances, means), self.regularisation)
        summary = FeatureSummary(f"{self.placement} locations", (tuples.n_values,))
        value = norm(moments.u[0])
        estimate = Estimate(value, placed.kernels, features=summary, quantity="NFSIC / n")
        return rest, tuples.about(means), sampled, norm, estimate

    def _place(
        self, session: Session, fitted: tuple[Kernel, ...], training: NDArray[np.intp]
    ) -> Placed:
        m, count = len(fitted), self._count(session)
        if not len(training):
            rows = uniform_rows(
                session.seed, session.n, count, m, pairing="independent", replace=False
            )
            return Placed(fitted, tuple(session.take(rows)))
        session.step("optimise locations")
        taken = tuple(session.take([training] * m))
        rng = generator(session.seed, "landmarks")
        return place(Training(fitted, taken, self.regularisation), count, rng)

    def _training(self, session: Session) -> NDArray[np.intp]:
        """Rows to train on, ascending."""
        rng = generator(session.seed, "selection")
        # Training rows are not tested: Jitkrittum et al. (2017), as the level needs.
        return np.sort(rng.choice(session.n, size=self._trained(session.n), replace=False))

    def _trained(self, n: int) -> int:
        # At least half of the rows are left for the test.
        return min(n // 2, self.training_rows) if self.placement == "optimised" else 0

    def _count(self, session: Session) -> int:
        """Locations, no more than rows to draw them from."""
        trained = self._trained(session.n)
        if self.n_locations != "auto":
            return min(int(self.n_locations), trained or session.n)
        most = trained // _ROWS_A_LOCATION if trained else session.n
        return min(_LOCATIONS, max(1, most))


def _session_without(session: Session, rows: NDArray[np.intp]) -> Session:
    """The run over all rows but these."""
    return session.over([without_rows(source, rows) for source in session.sources])
