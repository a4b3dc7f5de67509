"""NFSIC: covariances of analytic kernels at a few locations, normalised."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, NamedTuple, final, get_args

import numpy as np
from numpy.typing import NDArray

from dhsic._random import generator
from dhsic._validation import check_choice, check_integer, check_number
from dhsic.engine.plan import DriverStep, PassPlan, Plan
from dhsic.engine.session import Session
from dhsic.errors import DataError
from dhsic.estimators.approximate import guard_locations
from dhsic.estimators.base import (
    Estimate,
    Null,
    Outcome,
    fit_on_sample,
    fitting_step,
    plan_of,
)
from dhsic.estimators.location.sums import (
    LocationPass,
    Locations,
    PermutedLocations,
    Terms,
)
from dhsic.estimators.location.training import Placed, Training, place
from dhsic.estimators.sequential import draw_sequentially, largest_batch
from dhsic.features import KernelFeatures
from dhsic.kernels import Combinations, Gaussian, Kernel
from dhsic.landmarks import uniform_rows, warn_of_rounding
from dhsic.nulls import (
    ChiSquare,
    Permutation,
    Replicates,
    Sequential,
    draw_permutations,
    tie_threshold,
)
from dhsic.results import FeatureSummary

__all__ = ["NFSIC", "Placement"]

Vector = NDArray[np.float64]
Placement = Literal["optimised", "random"]

_REMEDY = "take fewer locations, training rows, resamples or threads"
_LOCATIONS = 10
_ROWS_A_LOCATION = 50
_FEWEST_ROWS = 2
_QUICK_OPERATIONS = 4e9
_PATIENT_OPERATIONS = 5e10


class _Prepared(NamedTuple):
    """Kernels, locations, rows that the test leaves out, and the kernels of sampled ones."""

    kernels: tuple[Kernel, ...]
    locations: Locations
    left_out: NDArray[np.intp]
    sampled: list[Vector]


@final
@dataclass(frozen=True)
class NFSIC:
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
        if self.n_locations != "auto":
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
        """Permutations of all rows where they are quick, chi-square beyond."""
        operations = self._operations(session, n_resamples)
        if operations <= _QUICK_OPERATIONS and self._fits(session, n_resamples):
            return Permutation(n_resamples, within="all"), "exact, and quick for so few rows"
        return ChiSquare(), "too many rows to permute quickly; the limit needs no replicates"

    def plan(self, session: Session, combinations: Combinations, null: Null | None) -> Plan:
        """What would run."""
        null = largest_batch(null) if isinstance(null, Sequential) else null
        zero = session.dtype.type(0)
        count, trained = self._count(session), self._trained(session.n)
        if session.n - trained < _FEWEST_ROWS:
            msg = (
                f"{self.name} needs at least {_FEWEST_ROWS} rows besides those to train on, got "
                f"{session.n - trained}: add rows, or take NFSIC(placement='random')"
            )
            raise DataError(msg)
        maps = tuple(
            KernelFeatures(kernel, np.broadcast_to(zero, (count, kernel.width(d))))
            for kernel, d in zip(combinations.kernels, session.dims, strict=True)
        )
        locations = Locations(maps, (np.zeros(count),) * len(maps))
        left_out = np.zeros(trained, np.intp)
        steps: list[DriverStep | PassPlan] = [fitting_step(session)]
        if trained:
            rows = 8 * trained * sum(session.dims)
            tiles = 8 * trained * count * len(maps)
            steps.append(DriverStep("optimise locations", 6 * rows + 12 * tiles, rows))
        if isinstance(null, Permutation) and self._over_all(session, null):
            held = 8 * session.n * (sum(session.dims) + (3 + len(maps)) * count)
            orders = 16 * session.n * null.n_resamples * (len(maps) - 1)
            work = 32 * session.n * count * session.runtime.threads
            steps.append(DriverStep("kernels of all rows", 2 * held))
            steps.append(DriverStep("permutation null", held + orders + work))
        else:
            permuted = null if isinstance(null, Permutation) else None
            steps.append(session.plan(LocationPass(locations, permuted, 0, left_out)))
            steps.append(DriverStep("solve", 64 * count**2 * (1 + len(maps))))
        return plan_of(session, steps, _REMEDY)

    def estimate(self, session: Session, kernels: Sequence[Kernel]) -> Estimate:
        """NFSIC over n, in one pass."""
        prepared = self._prepare(session, kernels)
        terms, _ = self._streamed(session, prepared, None)
        return self._estimate(prepared, terms)

    def test(self, session: Session, kernels: Sequence[Kernel], null: Null) -> Outcome:
        """T and its null distribution, in one pass."""
        prepared = self._prepare(session, kernels)
        if isinstance(null, Sequential):
            return self._permuted_sequentially(session, prepared, null)
        if isinstance(null, Permutation) and self._over_all(session, null):
            return self._permuted_over_all_rows(session, prepared, null)
        permuted = null if isinstance(null, Permutation) else None
        if permuted is None:
            detail = guard_locations(session.n - len(prepared.left_out), prepared.sampled)
        else:
            detail = permuted.detail(over_all=False)
        terms, n = self._streamed(session, prepared, permuted)
        return self._outcome(prepared, terms, n, detail)

    def _prepare(self, session: Session, kernels: Sequence[Kernel]) -> _Prepared:
        """Fit the kernels and place the locations."""
        fitted, sample = fit_on_sample(session, kernels)
        rows = self._training(session)
        if len(rows):
            placed = self._optimised(session, fitted, rows)
        else:
            placed = Placed(fitted, tuple(session.take(self._drawn(session))))
        maps = tuple(
            KernelFeatures.at(z, kernel, session.dtype)
            for kernel, z in zip(placed.kernels, placed.points, strict=True)
        )
        warn_of_rounding(session.names, placed.kernels, [m.columns for m in maps], session.dtype)
        sampled = [
            one(x).astype(np.float64, copy=False) for one, x in zip(maps, sample, strict=True)
        ]
        centres = tuple(tile.mean(axis=0) for tile in sampled)
        return _Prepared(placed.kernels, Locations(maps, centres), rows, sampled)

    def _optimised(
        self, session: Session, fitted: tuple[Kernel, ...], rows: NDArray[np.intp]
    ) -> Placed:
        session.step("optimise locations")
        training = tuple(session.take([rows] * len(session.sources)))
        rng = generator(session.seed, "landmarks")
        return place(Training(fitted, training, self.regularisation), self._count(session), rng)

    def _drawn(self, session: Session) -> list[NDArray[np.intp]]:
        """Rows of the locations of every variable."""
        m, count = len(session.sources), self._count(session)
        return uniform_rows(session.seed, session.n, count, m, pairing="independent", replace=False)

    def _streamed(
        self, session: Session, prepared: _Prepared, null: Permutation | None
    ) -> tuple[Terms, int]:
        """The terms of the data and of their replicates, and the rows of the test."""
        locations = prepared.locations
        planned = LocationPass(locations, null, session.seed, prepared.left_out)
        sums = session.run(planned)
        session.step("solve")
        return locations.terms(sums), sums.rows

    def _permuted_over_all_rows(
        self, session: Session, prepared: _Prepared, null: Permutation
    ) -> Outcome:
        permuted = self._held(session, prepared, null)
        replicates = session.map("permutation null", permuted, null.n_resamples)
        terms = permuted.terms(replicates)
        return self._outcome(prepared, terms, permuted.rows, null.detail(over_all=True))

    def _permuted_sequentially(
        self, session: Session, prepared: _Prepared, null: Sequential
    ) -> Outcome:
        held = self._held(session, prepared, Permutation(1))
        terms = held.terms([])
        statistic = float(terms.statistics(held.rows, self.regularisation)[0])

        def batches() -> Iterator[Vector]:
            for orders in null.draws(session.seed, held.rows, len(session.sources)):
                permuted = replace(held, orders=orders)
                found = permuted.terms(session.map("permutation null", permuted, len(orders)))
                yield found.statistics(held.rows, self.regularisation)[1:]

        least = tie_threshold(statistic, session.dtype, 0.0)
        law, detail = draw_sequentially(null, least, batches())
        return Outcome(statistic, law, self._estimate(prepared, terms), detail)

    def _held(self, session: Session, prepared: _Prepared, null: Permutation) -> PermutedLocations:
        """The kernels of all rows at the locations, and permutations of the rows."""
        session.step("kernels of all rows")
        rows = np.delete(np.arange(session.n), prepared.left_out)
        m = len(session.sources)
        about = prepared.locations.about(session.take([rows] * m))
        shifts = [a.mean(axis=0) for a in about]
        centres = prepared.locations.centres
        return PermutedLocations(
            tuple(a - s for a, s in zip(about, shifts, strict=True)),
            tuple(c + s for c, s in zip(centres, shifts, strict=True)),
            draw_permutations(session.seed, 0, len(rows), null.n_resamples, m),
        )

    def _outcome(self, prepared: _Prepared, terms: Terms, n: int, detail: str) -> Outcome:
        """By the replicates, where there are any, or by the limit."""
        values = terms.statistics(n, self.regularisation)
        law = Replicates(values[1:]) if len(values) > 1 else terms.law(self.regularisation)
        return Outcome(float(values[0]), law, self._estimate(prepared, terms), detail)

    def _estimate(self, prepared: _Prepared, terms: Terms) -> Estimate:
        value = float(terms.statistics(1, self.regularisation)[0])
        counts = (prepared.locations.count,)
        summary = FeatureSummary(f"{self.placement} locations", counts)
        return Estimate(value, prepared.kernels, features=summary, quantity="NFSIC / n")

    def _training(self, session: Session) -> NDArray[np.intp]:
        """Rows to train on, ascending."""
        rng = generator(session.seed, "selection")
        return np.sort(rng.choice(session.n, size=self._trained(session.n), replace=False))

    def _trained(self, n: int) -> int:
        return min(n // 2, self.training_rows) if self.placement == "optimised" else 0

    def _count(self, session: Session) -> int:
        """Locations, no more than rows to draw them from."""
        trained = self._trained(session.n)
        if self.n_locations != "auto":
            return min(int(self.n_locations), trained or session.n)
        most = trained // _ROWS_A_LOCATION if trained else session.n
        return min(_LOCATIONS, max(1, most))

    def _over_all(self, session: Session, null: Permutation) -> bool:
        """Whether all rows are permuted: as asked, or where they fit and it takes no minute."""
        if null.within != "auto":
            return null.within == "all"
        quick = self._operations(session, null.n_resamples) <= _PATIENT_OPERATIONS
        few = session.n <= null.block_rows
        return few or (quick and self._fits(session, null.n_resamples))

    def _operations(self, session: Session, n_resamples: int) -> float:
        count = self._count(session)
        return float(session.n) * n_resamples * count * 8 * len(session.sources)

    def _fits(self, session: Session, n_resamples: int) -> bool:
        m, count = len(session.sources), self._count(session)
        held = 8 * session.n * (2 * sum(session.dims) + 2 * (3 + m) * count)
        return held + 16 * session.n * n_resamples * (m - 1) <= session.runtime.memory // 2
