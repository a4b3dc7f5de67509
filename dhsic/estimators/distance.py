"""Distance covariance and correlation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from dhsic._random import generator
from dhsic._validation import check_number
from dhsic.engine.plan import DriverStep, Plan
from dhsic.engine.session import Session
from dhsic.errors import InvalidArgumentError
from dhsic.estimators.approximate import guard_grams
from dhsic.estimators.base import (
    Estimate,
    Null,
    Outcome,
    fit_on_sample,
    fitting_step,
    plan_of,
    rounding_unit,
)
from dhsic.estimators.fast_distance import SortedColumns, distance_sums
from dhsic.estimators.gram_sums import GramSums, check_rows, hsic, marginal_hsic
from dhsic.estimators.quadratic import Quadratic
from dhsic.kernels import Combinations, Distance, Kernel
from dhsic.nulls import Gamma, Permutation, Replicates

__all__ = ["DCor", "DCov"]

Vector = NDArray[np.float64]

_MANY_ROWS = 25_000  # a thousand sorted pairings take less than the shifts of all pairs of rows


class _Distances(Quadratic):
    """What covariance and correlation share: the kernel, and the fast way for single columns.

    Two variables of one column each with exponent 1 take O(n log n) time and O(n) memory on the
    driver for the estimate, the gamma null and every permutation of all rows.
    """

    name: ClassVar[str]
    measures: ClassVar[str]
    exponent: float
    root: bool

    def __post_init__(self) -> None:
        if self.root and self.unbiased:
            msg = (
                f"root must be False where the estimate of {self.name} is unbiased, for that is "
                "negative at times; got True beside unbiased=True: drop one of them"
            )
            raise InvalidArgumentError(msg)
        check_number(
            "exponent",
            self.exponent,
            "greater than 0 and less than 2",
            lambda q: 0.0 < q < 2.0,
            "take 1 for the distances themselves; below 2 they see every kind of dependence",
        )

    @property
    def quantity(self) -> str:
        """What the estimate is."""
        return self.measures if self.root else f"squared {self.measures}"

    def reported(self, size: float) -> float:
        """The estimate, from its size: its root where that is asked for."""
        return math.sqrt(max(size, 0.0)) if self.root else size

    def kernel(self, given: Kernel | None) -> Kernel:
        """The distance-induced one."""
        if given is not None:
            msg = (
                f"{self.name} has the kernel of its distances, so kernels must be left out, got "
                f"{given.spec()!r}: leave it out, or take estimator='v-hsic'"
            )
            raise InvalidArgumentError(msg)
        return Distance(self.exponent)

    def choose_null(self, session: Session, n_resamples: int) -> tuple[Null, str]:
        """Shifts, or permutations of all rows where they take less for single columns."""
        if self._fast(session, None) and session.n >= _MANY_ROWS:
            return Permutation(n_resamples, within="all"), "exact, and n log n for single columns"
        return super().choose_null(session, n_resamples)

    def plan(self, session: Session, kernels: Sequence[Kernel], null: Null | None) -> Plan:
        """What would run."""
        if not self._fast(session, null):
            return super().plan(session, kernels, null)
        check_rows(session.n, unbiased=self.unbiased)
        self._check_null(null)
        n = session.n
        steps = [
            fitting_step(session),
            DriverStep("read all rows", 3 * 16 * n, 16 * n),
            DriverStep("sums of distances", 120 * n, 64 * n),
        ]
        if isinstance(null, Permutation):
            steps.append(DriverStep("permutation null", 120 * n * session.runtime.threads))
        return plan_of(session, steps, "take fewer rows or fewer threads")

    def estimate(self, session: Session, kernels: Sequence[Kernel]) -> Estimate:
        """In O(n log n) for single columns, else in one pass over pairs."""
        if not self._fast(session, None):
            return super().estimate(session, kernels)
        fitted, _ = fit_on_sample(session, kernels)
        return self._estimate(distance_sums(*_half_columns(session)), fitted)

    def test(self, session: Session, kernels: Sequence[Kernel], null: Null) -> Outcome:
        """The size of the estimate times n, and its null distribution."""
        if not self._fast(session, null):
            return super().test(session, kernels, null)
        self._check_null(null)
        fitted, samples = fit_on_sample(session, kernels)
        note = guard_grams(session, Combinations.single(fitted), samples, null)
        x, y = _half_columns(session)
        sums = distance_sums(x, y)
        estimate, factor = self._estimate(sums, fitted), self.factor(sums)
        statistic = session.n * self.size(sums)
        if isinstance(null, Gamma):
            return Outcome(statistic, self._gamma(sums), estimate, note)
        assert isinstance(null, Permutation)
        permuted = _PermutedColumns(SortedColumns.of(x, y), sums, self.unbiased, session.seed)
        values = np.concatenate(session.map("permutation null", permuted, null.n_resamples))
        replicates = Replicates(session.n * factor * values)
        return Outcome(statistic, replicates, estimate, null.detail(over_all=True))

    def _fast(self, session: Session, null: Null | None) -> bool:
        """Whether one column each, exponent 1 and the null allow the fast way."""
        columns = session.dims == (1, 1) and self.exponent == 1.0
        all_rows = isinstance(null, Permutation) and null.within != "blocks"
        return columns and (null is None or isinstance(null, Gamma) or all_rows)


@dataclass(frozen=True)
class _PermutedColumns:
    columns: SortedColumns
    sums: GramSums
    unbiased: bool
    seed: int

    def __call__(self, replicates: range) -> Vector:
        """HSIC under some permutations of the second column."""
        return np.array([self._hsic(number) for number in replicates])

    def _hsic(self, number: int) -> float:
        order = generator(self.seed, "permutation", 0, number).permutation(self.sums.n)
        rows = np.stack([self.sums.rows[0], self.sums.rows[1][order]])
        joint = self.columns.joint(order)
        return hsic(self.sums._replace(rows=rows, joint=joint), unbiased=self.unbiased)


def _half_columns(session: Session) -> tuple[Vector, Vector]:
    """Half of either column: half the distances are the distance-induced kernel's, centred.

    About the median, for a mean misses by rounding what a constant holds.
    """
    session.step("read all rows")
    x, y = session.take([np.arange(session.n)] * 2)
    session.step("sums of distances")
    first, second = (0.5 * (z[:, 0] - np.median(z)) for z in (x, y))
    return first, second


@final
@dataclass(frozen=True)
class DCov(_Distances):
    """Squared distance covariance of two variables.

    Four times squared HSIC with the distance-induced kernel [2]_. The test statistic is n times
    the squared distance covariance.

    Parameters
    ----------
    exponent : float, optional
        q of the distances |x - x'|^q, in (0, 2).
    unbiased : bool, optional
        The U-centred estimate of [3]_, which is negative at times.
    root : bool, optional
        Report the distance covariance itself, the root. The test statistic and the p-value stay
        as they are.

    References
    ----------
    .. [1] G. Szekely, M. Rizzo, N. Bakirov. Measuring and testing dependence by correlation of
       distances. Annals of Statistics 35, 2007.
    .. [2] D. Sejdinovic, B. Sriperumbudur, A. Gretton, K. Fukumizu. Equivalence of distance-based
       and RKHS-based statistics in hypothesis testing. Annals of Statistics 41, 2013.
    .. [3] G. Szekely, M. Rizzo. Partial distance correlation with methods for dissimilarities.
       Annals of Statistics 42, 2014.

    Examples
    --------
    >>> DCov(exponent=0.5)
    DCov(exponent=0.5, unbiased=False, root=False)
    """

    exponent: float = 1.0
    unbiased: bool = False
    root: bool = False

    name: ClassVar[str] = "dcov"
    measures: ClassVar[str] = "distance covariance"

    def factor(self, sums: GramSums) -> float:
        """[2]: dCov^2 = 4 HSIC^2."""
        del sums
        return 4.0


@final
@dataclass(frozen=True)
class DCor(_Distances):
    """Squared distance correlation of two variables.

    Squared HSIC with the distance-induced kernel over the square root of the product of either
    variable's with itself. The test statistic is n times the squared distance correlation;
    permutations leave the divisor as it is, so p-values by them are those of `DCov`. A variable
    whose unbiased variance is 0, as that of one row unlike all others, has correlation 0.

    Parameters
    ----------
    exponent : float, optional
        q of the distances |x - x'|^q, in (0, 2).
    unbiased : bool, optional
        The bias-corrected estimate of [2]_, which is negative at times.
    root : bool, optional
        Report the distance correlation itself, the root of the squared one, as [1]_ defines it
        and other packages do. The test statistic and the p-value stay as they are.

    References
    ----------
    .. [1] G. Szekely, M. Rizzo, N. Bakirov. Measuring and testing dependence by correlation of
       distances. Annals of Statistics 35, 2007.
    .. [2] G. Szekely, M. Rizzo. Partial distance correlation with methods for dissimilarities.
       Annals of Statistics 42, 2014.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x = np.arange(9.0)
    >>> for estimator in (DCor(), DCor(root=True)):
    ...     found = dhsic.hsic(x, x**2, estimator=estimator, rng=0)
    ...     print(found.quantity, round(found.estimate, 4))
    squared distance correlation 0.9558
    distance correlation 0.9777
    """

    exponent: float = 1.0
    unbiased: bool = False
    root: bool = False

    name: ClassVar[str] = "dcor"
    measures: ClassVar[str] = "distance correlation"

    def factor(self, sums: GramSums) -> float:
        """1 / sqrt(HSIC(x, x) HSIC(y, y)); 0 where a variance is 0 but for rounding."""
        variances = marginal_hsic(sums, unbiased=self.unbiased)
        rounding = rounding_unit(np.float64) * sums.squares / sums.n**2
        if (variances <= rounding).any():
            return 0.0
        return float((1.0 / np.sqrt(variances)).prod())
