"""Distance covariance and correlation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from dhsic._validation import check_flag, check_number
from dhsic.engine.plan import DriverStep, Plan
from dhsic.engine.reduction import GroupBlock
from dhsic.engine.session import Session
from dhsic.engine.tiles import Matrix
from dhsic.errors import InvalidArgumentError
from dhsic.estimators.base import Null, rounding_unit
from dhsic.estimators.gram.fast_distance import SortedGrams
from dhsic.estimators.gram.orders import RowOrders
from dhsic.estimators.gram.quadratic import Quadratic
from dhsic.estimators.gram.steps import CostedStep, read_step
from dhsic.estimators.gram.sums import GramSums, marginal_hsic
from dhsic.estimators.resample import orbit_of
from dhsic.kernels import Combinations, Distance, Kernel
from dhsic.nulls import Gamma, Permutation

Vector = NDArray[np.float64]

# Processor seconds of 1,000 shifts and of as many permutations by sorting: 0.24 and 1.1 at 4,000
# rows, 0.84 and 2.0 at 8,000, 1.8 and 2.9 at 12,000.
_SORTED_ROWS = 20_000


class _DistanceStatistic(Quadratic):
    """Covariance and correlation share the kernel, and the fast way for single columns.

    Two variables of one column each with exponent 1 take O(n log n) time and O(n) memory on the
    driver for the estimate, the gamma null and every permutation of all rows.
    """

    name: ClassVar[str]
    needs_numbers: ClassVar[bool] = True
    measures: ClassVar[str]
    exponent: float
    root: bool

    def __post_init__(self) -> None:
        check_flag("root", self.root)
        check_flag("unbiased", self.unbiased)
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
        """The name of the estimate."""
        return self.measures if self.root else f"squared {self.measures}"

    def reported(self, size: float) -> float:
        """The estimate, from its size: its root where that is asked for."""
        # Rounding may leave the size below 0.
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
        """Shifts, or permutations of all rows of many single columns, by sorting."""
        if session.n > _SORTED_ROWS and self._fast(session, None):
            return Permutation(n_resamples, within="all"), "exact; n log n for single columns"
        return super().choose_null(session, n_resamples)

    def _steps(
        self,
        session: Session,
        fitted: Combinations,
        samples: Sequence[Vector],
        null: Null | None,
        planned: Plan | None = None,
    ) -> list[CostedStep]:
        """In O(n log n) for single columns, else those of all pairs of rows."""
        kernels = {kernel.exponent for kernel in fitted.kernels if isinstance(kernel, Distance)}
        # Sorting gives the sums of the distances themselves, and of no power of them.
        if len(fitted) > 1 or kernels != {1.0} or not self._fast(session, null):
            return super()._steps(session, fitted, samples, null, planned)
        n, threads = session.n, session.runtime.threads
        orbit = orbit_of(session, null if isinstance(null, Permutation) else Permutation(1, "all"))

        def sort(block: GroupBlock) -> SortedGrams:
            x, y = (_half(values) for values in block.values)
            return SortedGrams.of(x, y, RowOrders.of(orbit, block), unbiased=self.unbiased)

        def permute(grams: SortedGrams) -> SortedGrams:
            values = session.map("permutation null", grams, orbit.cosets - 1)
            return replace(grams, replicates=np.concatenate(values))

        steps = [
            read_step(session, orbit.groups),
            CostedStep(DriverStep("sums of distances", 120 * n, 64 * n), sort),
            CostedStep(DriverStep("permutation null", 120 * n * threads), permute),
        ]
        return steps if isinstance(null, Permutation) else steps[:2]

    def _fast(self, session: Session, null: Null | None) -> bool:
        """Whether one column each, exponent 1 and the null allow the fast way."""
        columns = session.dims == (1, 1) and self.exponent == 1.0
        all_rows = isinstance(null, Permutation) and null.within != "groups"
        return columns and (null is None or isinstance(null, Gamma) or all_rows)


def _half(values: Matrix) -> Vector:
    """Half of a column: half the distances are the distance-induced kernel's, centred.

    About the median, for a mean misses by rounding what a constant holds.
    """
    half: Vector = 0.5 * (values[:, 0] - np.median(values))
    return half


@final
@dataclass(frozen=True)
class DCov(_DistanceStatistic):
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
    >>> import numpy as np
    >>> import dhsic
    >>> x = np.arange(9.0)
    >>> round(dhsic.hsic(x, x**2, estimator=DCov(root=True), rng=0).estimate, 2)
    5.45
    >>> dhsic.independence_test(x, x**2, estimator=DCov(exponent=0.5), rng=0).pvalue < 0.01
    True
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
class DCor(_DistanceStatistic):
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
        # A variance below the rounding of its terms would make the quotient anything.
        rounding = rounding_unit(np.float64) * sums.squares / sums.n**2
        if (variances <= rounding).any():
            return 0.0
        # Zhang et al. (2018), footnote 1: HSIC over the norms of both centred Gram matrices.
        return float((1.0 / np.sqrt(variances)).prod())
