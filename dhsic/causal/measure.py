"""How the dependence of residuals on a cause is measured, and what of it is compared."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import get_args

import numpy as np

from dhsic._arguments import choose_measure, choose_method, read_kernel
from dhsic._fields import tested_fields
from dhsic._validation import check_choice
from dhsic.causal.decisions import DirectionCriterion, DirectionEvidence
from dhsic.engine.neighbours import Neighbours
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
from dhsic.estimators.choose import Runner, choose_among, plan_test
from dhsic.estimators.reach import Planner, plan_once
from dhsic.kernels import Combinations, Kernel, KernelName, Linear
from dhsic.results import AS_ASKED
from dhsic.sensitivity.maps import column_sensitivities, plan_map

_BY_PVALUE = ("p-value", "larger-p-value")
_NOT_RUN = "write the map"


@dataclass(frozen=True)
class MeasuredSide:
    """A side, and how it was measured."""

    side: DirectionEvidence
    estimator: str
    null: str | None


@dataclass(frozen=True, kw_only=True)
class ResidualMeasure:
    """How the dependence of residuals is measured, and what of it is compared.

    Parameters
    ----------
    criterion, estimator, null, n_resamples, kernel
        As for `direction`.

    Raises
    ------
    InvalidArgumentError
        The criterion is unknown, or compares no p-values and a null is given; or the kernel is
        linear.

    Examples
    --------
    >>> ResidualMeasure(criterion="hsic").criterion
    'hsic'
    """

    criterion: DirectionCriterion = "p-value"
    estimator: EstimatorName | Estimator = "auto"
    null: NullName | Null | None = None
    n_resamples: int | None = None
    kernel: KernelName | str | Kernel | None = "gaussian"

    def __post_init__(self) -> None:
        check_choice("criterion", self.criterion, get_args(DirectionCriterion))
        if isinstance(read_kernel(self.kernel), Linear):
            # Rounding errors would decide.
            msg = (
                "kernel must see more than correlation, of which a regression leaves none, got "
                "'linear': take 'gaussian'"
            )
            raise InvalidArgumentError(msg)
        if self.criterion in _BY_PVALUE:
            return
        for name in ("null", "n_resamples"):
            if getattr(self, name) is not None:
                msg = (
                    f"{name} must be left out with criterion={self.criterion!r}, which compares no "
                    f"p-values, got {getattr(self, name)!r}: drop it, or take criterion='p-value'"
                )
                raise InvalidArgumentError(msg)

    def settled(
        self, session: Session, planner: Planner | None = None, runner: Runner | None = None
    ) -> tuple[ResidualMeasure, str]:
        """With the estimator for two variables and the residuals of either, and why this one.

        Parameters
        ----------
        session : Session
            Over two variables of these shapes.
        planner, runner : callable, optional
            Functions that plan and run, where that is not the measure of one side alone.

        Returns
        -------
        measure : ResidualMeasure
            The same for both directions.
        reason : str
            Why this estimator.
        """
        if not isinstance(self.estimator, str):
            return self, AS_ASKED
        # The plan is that of the wider variable, whichever is the effect.
        widest = session.over(sorted(session.sources, key=lambda x: x.shape[1]))
        auto = self.estimator == "auto"
        names = (VHSIC.name, NystromMHSIC.name) if auto else (self.estimator,)
        first, _ = find_estimator(names[0], widest)
        asked = self._single(first), planner or self._plan, runner
        chosen, _, reason = choose_among(names, widest, *asked)
        return replace(self, estimator=chosen), reason

    def plan(self, session: Session) -> Plan:
        """The plan of `side`, of a measure that is settled."""
        estimator, _ = find_estimator(self.estimator, session)
        return self._plan(estimator, session, self._single(estimator))

    def _single(self, estimator: Estimator) -> Combinations:
        return Combinations.single([estimator.kernel(read_kernel(self.kernel))] * 2)

    def _plan(self, estimator: Estimator, session: Session, combinations: Combinations) -> Plan:
        if self.criterion == "sensitivity":
            plan = plan_map(estimator, session, combinations, "statistic", session.names)
            # The map is summed up here, and never written.
            run = tuple(step for step in plan.steps if step.name != _NOT_RUN)
            return replace(plan, steps=run)
        if self.criterion == "hsic":
            return plan_once(estimator, session, combinations, None)
        return plan_test(estimator, session, combinations, self._null, self.n_resamples)

    @property
    def _null(self) -> str | Null:
        # A law has p-values of any size, which the score compares; those of replicates end at one
        # over their number.
        return "gamma" if self.null is None else self.null

    def side(self, session: Session) -> MeasuredSide:
        """The dependence of residuals on the cause, as much of it as the criterion needs.

        Parameters
        ----------
        session : Session
            Over the cause and the residuals, in this order.

        Returns
        -------
        MeasuredSide
        """
        if self.criterion in _BY_PVALUE:
            method = choose_method(
                session, self.kernel, self.estimator, self._null, self.n_resamples
            )
            neighbours = Neighbours(session, arguments=())
            fields = tested_fields(session, method, time.perf_counter())
            neighbours.warn()
            side = DirectionEvidence(fields["estimate"], fields["pvalue"])
            return MeasuredSide(side, method.estimator.name, method.null.name)
        maps = self.criterion == "sensitivity"
        chosen, _, kernels = choose_measure(session, self.kernel, self.estimator, unbiased=not maps)
        if maps:
            # The statistic n HSIC, since its derivative in one entry does not shrink with n.
            measured, squares = column_sensitivities(session, chosen, "statistic", kernels, (0, 1))
            parts = np.split(squares, [measured.gradient.dims[0]])
            norms = [math.sqrt(float(part.sum())) for part in parts]
            side = DirectionEvidence(float(measured.estimate.value), None, (norms[0], norms[1]))
        else:
            side = DirectionEvidence(float(chosen.estimate(session, kernels).value))
        return MeasuredSide(side, chosen.name, None)

    def score(self, forward: DirectionEvidence, backward: DirectionEvidence) -> float:
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
        # copysign takes 0 for positive: equal p-values decide nothing.
        return math.copysign(larger, forward.pvalue - backward.pvalue) * (
            forward.pvalue != backward.pvalue
        )
