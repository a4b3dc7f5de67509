"""V-HSIC with every pair of rows: the small-n choice, and what the others approximate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.plan import DriverStep, Plan, baseline_bytes
from dhsic.engine.session import Session
from dhsic.errors import InvalidArgumentError
from dhsic.estimators.base import Estimate, Null, Outcome, bandwidth_rows, fit_kernels
from dhsic.kernels import Kernel
from dhsic.nulls import Permutation, draw_permutations

__all__ = ["VHSIC"]

Vector = NDArray[np.float64]

_ROW_TILE = 32


@dataclass(frozen=True)
class VHSIC:
    """V-statistic HSIC for two or more variables, in memory.

    The cost is quadratic in the rows, in time and in memory. The test statistic is n times the
    estimate.

    References
    ----------
    .. [1] F. Kalinke, Z. Szabo. Nystrom M-Hilbert-Schmidt independence criterion. UAI 2023,
       equation 5.
    .. [2] N. Pfister, P. Buehlmann, B. Schoelkopf, J. Peters. Kernel-based tests for joint
       independence. JRSS B 80, 2018.

    Examples
    --------
    >>> VHSIC()
    VHSIC()
    """

    name: ClassVar[str] = "v-hsic"
    nulls: ClassVar[tuple[type[Null], ...]] = (Permutation,)

    def choose_null(self, session: Session, n_resamples: int) -> tuple[Null, str]:
        """Permutations of all rows."""
        del session
        return Permutation(n_resamples, within="all"), "exact"

    def plan(self, session: Session, kernels: Sequence[Kernel], null: Null | None) -> Plan:
        """What would run."""
        if isinstance(null, Permutation) and null.within == "blocks":
            msg = (
                "v-hsic holds all rows in memory, so null must be Permutation(within='all'), "
                f"got {null!r}"
            )
            raise InvalidArgumentError(msg)
        n, m = session.n, len(session.sources)
        grams = 8 * n * n * (m + 2 + max(kernel.work_tiles for kernel in kernels))
        orders = 16 * n * (m - 1) * (null.n_resamples if null else 0)
        steps = (
            DriverStep("read all rows", 24 * n * sum(session.dims), 8 * n * sum(session.dims)),
            DriverStep("Gram matrices", grams + orders),
        )
        remedy = "take estimator='nystrom-m', or fewer rows"
        return Plan(n, session.names, None, session.runtime, steps, baseline_bytes(), remedy)

    def estimate(self, session: Session, kernels: Sequence[Kernel]) -> Estimate:
        """[1] equation 5."""
        grams, fitted = _gram_matrices(session, kernels)
        return Estimate(_PermutedHSIC(grams)(), fitted)

    def test(self, session: Session, kernels: Sequence[Kernel], null: Null) -> Outcome:
        """The estimate times n, and the same with all variables but one permuted."""
        grams, fitted = _gram_matrices(session, kernels)
        hsic = _PermutedHSIC(grams)
        session.step("permutation null")
        orders = draw_permutations(session.seed, 0, session.n, null.n_resamples, len(grams))
        value = hsic()
        replicates = np.array([hsic(order) for order in orders])
        estimate = Estimate(value, fitted)
        detail = "permutes within all rows"
        rounding = session.n * hsic.rounding
        return Outcome(session.n * value, session.n * replicates, estimate, detail, rounding)


class _PermutedHSIC:
    """[1] equation 5 with the rows of every variable but the first permuted."""

    def __init__(self, grams: Sequence[Vector]) -> None:
        self._grams = grams
        self._means = [gram.mean(axis=1) for gram in grams]
        self._product_of_means = float(np.prod([mean.mean() for mean in self._means]))

    def __call__(self, orders: NDArray[np.intp] | None = None) -> float:
        first, *others = self._grams
        n = len(first)
        if orders is None:
            orders = np.broadcast_to(np.arange(n), (len(others), n))
        joint = 0.0
        for start in range(0, n, _ROW_TILE):
            product = first[start : start + _ROW_TILE]
            for gram, order in zip(others, orders, strict=True):
                product = product * gram[order[start : start + _ROW_TILE]].take(order, axis=1)
            joint += float(product.sum())
        mean, *means = self._means
        mixed = mean.copy()
        for values, order in zip(means, orders, strict=True):
            mixed *= values[order]
        return joint / n**2 + self._product_of_means - 2.0 * float(mixed.mean())

    @property
    def rounding(self) -> float:
        """What the terms leave where they cancel."""
        return float(8 * np.finfo(np.float64).eps * 4 * abs(self._product_of_means))


def _gram_matrices(
    session: Session, kernels: Sequence[Kernel]
) -> tuple[list[Vector], tuple[Kernel, ...]]:
    session.step("read all rows")
    values = session.take([np.arange(session.n)] * len(session.sources))
    samples = [x[rows] for x, rows in zip(values, bandwidth_rows(session), strict=True)]
    fitted = fit_kernels(session, kernels, samples)
    session.step("Gram matrices")
    return [kernel(x) for kernel, x in zip(fitted, values, strict=True)], fitted
