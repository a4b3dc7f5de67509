"""How the dependence of residuals on a cause is measured, and what of it is compared."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from dhsic._arguments import open_session, read_kernel
from dhsic._validation import check_choice
from dhsic.api import hsic, independence_test
from dhsic.causal.decisions import Criterion, Side
from dhsic.engine.plan import Plan
from dhsic.engine.session import Session
from dhsic.errors import InvalidArgumentError
from dhsic.estimators import (
    VHSIC,
    Estimator,
    EstimatorName,
    Null,
    NullName,
    NystromMHSIC,
    find_estimator,
)
from dhsic.estimators.choose import choose_among, plan_test
from dhsic.estimators.reach import plan_once
from dhsic.kernels import Combinations, Kernel, KernelName
from dhsic.results import AS_ASKED
from dhsic.sensitivity import sensitivity_map
from dhsic.sensitivity.maps import plan_map

__all__ = ["Measure", "MeasuredSide"]

Vector = NDArray[np.float64]

_BY_PVALUE = ("p-value", "larger-p-value")


@dataclass(frozen=True)
class MeasuredSide:
    """A side, and how it was measured."""

    side: Side
    estimator: str
    null: str | None


@dataclass(frozen=True, kw_only=True)
class Measure:
    """How the dependence of residuals is measured, and what of it is compared.

    Parameters
    ----------
    criterion, estimator, null, n_resamples, kernel, memory, threads
        As for `direction`.

    Raises
    ------
    InvalidArgumentError
        The criterion is unknown, or compares no p-values and a null is given.

    Examples
    --------
    >>> Measure(criterion="hsic").criterion
    'hsic'
    """

    criterion: Criterion = "p-value"
    estimator: EstimatorName | Estimator = "auto"
    null: NullName | Null | None = None
    n_resamples: int | None = None
    kernel: KernelName | str | Kernel | None = "gaussian"
    memory: int | str = "2GiB"
    threads: int | None = None

    def __post_init__(self) -> None:
        check_choice("criterion", self.criterion, get_args(Criterion))
        if self.criterion in _BY_PVALUE:
            return
        for name in ("null", "n_resamples"):
            if getattr(self, name) is not None:
                msg = (
                    f"{name} must be left out with criterion={self.criterion!r}, which compares no "
                    f"p-values, got {getattr(self, name)!r}: drop it, or take criterion='p-value'"
                )
                raise InvalidArgumentError(msg)

    def settled(self, *variables: Vector) -> tuple[Measure, str]:
        """With the estimator for two variables and the residuals of either, and why this one."""
        if not isinstance(self.estimator, str):
            return self, AS_ASKED
        widest = sorted(variables, key=lambda x: x.shape[1])  # the same for both directions
        session = open_session(
            widest, None, 0, "float64", None, self.threads, self.memory, None, tests=False
        )
        auto = self.estimator == "auto"
        names = (VHSIC.name, NystromMHSIC.name) if auto else (self.estimator,)
        first, _ = find_estimator(names[0], session)
        single = Combinations.single([first.kernel(read_kernel(self.kernel))] * len(widest))
        chosen, _, reason = choose_among(names, session, single, self._plan)
        return replace(self, estimator=chosen), reason

    def _plan(self, estimator: Estimator, session: Session, combinations: Combinations) -> Plan:
        """The plan of measuring one side."""
        if self.criterion == "sensitivity":
            return plan_map(estimator, session, combinations, "statistic", session.names)
        if self.criterion == "hsic":
            return plan_once(estimator, session, combinations, None)
        null = "gamma" if self.null is None else self.null
        return plan_test(estimator, session, combinations, null, self.n_resamples)

    def side(
        self, cause: Vector, residuals: Vector, names: Sequence[str], seed: int
    ) -> MeasuredSide:
        """The dependence of residuals on the cause, as much of it as the criterion needs."""
        how: dict[str, Any] = {
            "kernels": self.kernel,
            "estimator": self.estimator,
            "names": list(names),
            "rng": seed,
            "memory": self.memory,
            "threads": self.threads,
        }
        if self.criterion in _BY_PVALUE:
            null = "gamma" if self.null is None else self.null
            tested = independence_test(
                cause, residuals, null=null, n_resamples=self.n_resamples, **how
            )
            side = Side(tested.estimate, tested.pvalue)
            return MeasuredSide(side, tested.estimator, tested.null)
        if self.criterion == "sensitivity":
            # The statistic n HSIC, since its derivative in one entry does not shrink with n.
            found = sensitivity_map(cause, residuals, of="statistic", **how)
            norms = [math.sqrt(float(found.features[name].sum())) for name in names]
            side = Side(found.measured.estimate, None, (norms[0], norms[1]))
            return MeasuredSide(side, found.measured.estimator, None)
        found_hsic = hsic(cause, residuals, **how)
        return MeasuredSide(Side(found_hsic.estimate), found_hsic.estimator, None)

    def score(self, forward: Side, backward: Side) -> float:
        """Score that is positive where the first variable is believed to be the cause.

        References
        ----------
        .. [1] J. Mooij, J. Peters, D. Janzing, J. Zscheischler, B. Schoelkopf. Distinguishing cause
           from effect using observational data. JMLR 17(32), 2016.
        .. [2] A. Perez-Suay, G. Camps-Valls. Sensitivity maps of the Hilbert-Schmidt independence
           criterion. Applied Soft Computing 70, 2018, section 4.5.
        """
        if self.criterion == "sensitivity":
            assert forward.sensitivity is not None
            assert backward.sensitivity is not None
            return sum(backward.sensitivity) - sum(forward.sensitivity)  # C_s of [2]
        if self.criterion == "hsic":
            return backward.hsic - forward.hsic  # -C of [2]
        assert forward.pvalue is not None
        assert backward.pvalue is not None
        if self.criterion == "p-value":
            return math.log(forward.pvalue) - math.log(backward.pvalue)
        larger = max(forward.pvalue, backward.pvalue)
        return math.copysign(larger, forward.pvalue - backward.pvalue) * (
            forward.pvalue != backward.pvalue
        )
