"""NFSIC: covariances of analytic kernels at a few locations, normalised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, final, get_args

import numpy as np
from numpy.typing import NDArray

from dhsic._random import generator
from dhsic._validation import check_choice, check_integer, check_number
from dhsic.engine.plan import DriverStep, PassPlan
from dhsic.engine.session import Session
from dhsic.errors import DataError
from dhsic.estimators.approximate import guard_locations
from dhsic.estimators.base import Estimator, Guess, Null, Prepared, fit_on_sample, fitting_step
from dhsic.estimators.outcomes import Estimate, Outcome
from dhsic.estimators.training import (
    Norm,
    Placed,
    Training,
    expanded,
    independent_covariance,
    place,
)
from dhsic.io.variables import without_rows
from dhsic.kernels import Combinations, Kernel
from dhsic.landmarks import uniform_rows, warn_of_rounding
from dhsic.linalg import squared_norms
from dhsic.nulls import ChiSquare, ChiSquareMixture, Permutation, Resampling, Shifts
from dhsic.results import FeatureSummary
from dhsic.statistics.orbit import Pair
from dhsic.statistics.pointwise import Pointwise, TermPass, Tuples

Vector = NDArray[np.float64]
Placement = Literal["optimised", "random"]

_PASS = "test locations"
_LOCATIONS = 10
_ROWS_A_LOCATION = 50
_FEWEST_ROWS = 2


class MeasuredLocations(NamedTuple):
    """The estimate, and what a test is made of."""

    session: Session
    """The run over the rows that are tested."""
    tuples: Tuples
    """The statistic, about the means of the kernels."""
    sampled: list[Vector]
    """The kernels of some rows at the locations, shapes (s, J)."""
    norm: Norm
    estimate: Estimate


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
    most_variables: ClassVar[int | None] = None
    nulls: ClassVar[tuple[type[Any], ...]] = Shifts, Permutation, ChiSquare
    cost: ClassVar[str] = "n"
    remedy: ClassVar[str] = "take fewer locations, training rows, resamples or threads"

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

    def guess(self, session: Session, combinations: Combinations, null: Null | None) -> Guess:
        """The estimate is made before the replicates, by rows that are not those to train on."""
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
        kernels, dims = combinations.guessed(session.dims).kernels, session.dims
        m = range(len(kernels))
        tuples = Tuples.unseen(kernels, m, dims, count, _pairs(len(kernels)), session.dtype)
        steps.append(rest.plan(TermPass(tuples, _PASS)))
        steps.append(DriverStep("solve", 64 * count * (tuples.n_values + count)))
        tested = Pointwise(tuples.part([0]), (squared_norms,))
        replicated = tested if isinstance(null, Resampling) else None
        return Guess(steps, replicated, session=rest)

    def prepare(self, session: Session, combinations: Combinations, null: Null | None) -> Prepared:
        """Measure the rows that are tested."""
        found = self._measured(session, combinations.kernels)
        return Prepared(
            Combinations.single(found.estimate.kernels),
            Pointwise(found.tuples, (found.norm,)),
            lambda replicated, c: found.estimate,
            session=found.session,
        )

    def estimate(self, session: Session, kernels: Sequence[Kernel]) -> Estimate:
        """NFSIC over n, in one pass."""
        return self._measured(session, kernels).estimate

    def test_each(
        self, session: Session, combinations: Combinations, null: ChiSquare
    ) -> list[Outcome]:
        """T and its limit: chi-square without a ridge."""
        found = self._measured(session, combinations.kernels)
        n, law = found.session.n, ChiSquareMixture.of(found.norm.weights)
        detail = guard_locations(n, found.sampled)
        return [Outcome(n * found.estimate.value, law, found.estimate, detail)]

    def _measured(self, session: Session, kernels: Sequence[Kernel]) -> MeasuredLocations:
        """Fit the kernels, place the locations and measure the other rows there."""
        fitted, samples = fit_on_sample(session, kernels)
        # Locations are chosen by rows that are not tested.
        training, m = self._training(session), len(kernels)
        rest, placed = _session_without(session, training), self._place(session, fitted, training)
        columns = [k.columns(z, session.dtype) for k, z in zip(*placed, strict=True)]
        warn_of_rounding(session.names, placed.kernels, columns, session.dtype)
        sampled = [k(x, z) for k, z, x in zip(*placed, samples, strict=True)]
        # The means of a sample are pilots, from which the pass takes small differences.
        pilots, every = [k.mean(axis=0) for k in sampled], np.arange(self._count(session))
        tuples = Tuples(
            placed.kernels,
            tuple(range(m)),
            placed.points,
            _pairs(m),
            (every,) * (m + 1),
            tuple(pilots),
            session.dtype,
        )
        terms = TermPass(tuples, _PASS)
        (joint, _), *each = terms.of(rest.reduce(terms))
        session.step("solve")
        n = rest.n
        about = [plain / n for plain, _ in each]
        means = [pilot + mean for pilot, mean in zip(pilots, about, strict=True)]
        second = zip(each, about, strict=True)
        covariances = [squares / n - np.outer(mean, mean) for (_, squares), mean in second]
        # The mean of the terms about the pilots, less what they have by the means that are others.
        u = joint / n - expanded(about, pilots)[0]
        norm = Norm.of(independent_covariance(covariances, means), self.regularisation)
        summary = FeatureSummary(f"{self.placement} locations", (len(every),))
        estimate = Estimate(float(norm(u)), placed.kernels, features=summary, quantity="NFSIC / n")
        return MeasuredLocations(rest, tuples.part([0]).about(means), sampled, norm, estimate)

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


def _pairs(m: int) -> tuple[Pair, ...]:
    """The statistic of so many variables, and every kernel by itself."""
    return (Pair.of(tuple(range(m))), *(Pair((), k) for k in range(m)))
