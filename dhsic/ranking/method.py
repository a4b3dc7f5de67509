"""How features are ranked: the estimator, its null distribution and the kernels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from dhsic._removed import removed
from dhsic.engine.blocks import kinds_of
from dhsic.engine.plan import Plan
from dhsic.engine.session import Session
from dhsic.errors import InvalidArgumentError
from dhsic.estimators import (
    ColumnEstimator,
    Estimator,
    Null,
    NystromHSIC,
    NystromMHSIC,
    choose_estimator,
    draws_replicates,
    find_estimator,
    find_null,
)
from dhsic.estimators.base import check_gaps
from dhsic.estimators.choose import run_null
from dhsic.estimators.reach import Planner, plan_once, planned
from dhsic.kernels import Combinations, Gaussian, Kernel, OnColumns
from dhsic.kernels.wrap import of_present, with_missing
from dhsic.nulls import Resampling
from dhsic.ranking.joint import JointReader
from dhsic.ranking.ranked_columns import RankedColumns, kernel_for_columns
from dhsic.results import AS_ASKED


@dataclass(frozen=True)
class RankingMethod:
    """How features are ranked."""

    estimator: Estimator
    estimator_reason: str
    combinations: Combinations
    null: Resampling
    null_reason: str

    def of(self, features: RankedColumns) -> RankingMethod:
        """The same for some of the features."""
        return replace(self, combinations=features.against(self.combinations.kernels[-1]))

    def plan(self, session: Session, read: JointReader) -> Plan:
        """The plan of the run; a refusal names the largest numbers that fit."""
        planner = partial(_ranking_plan, null=self.null, n_resamples=None, read=read)
        plan = planned(planner, self.estimator, session, self.combinations)
        return replace(plan, pilot=partial(session.timed, self._run))

    def _run(self, session: Session) -> object:
        return run_null(self.estimator, session, self.combinations, self.null)


def _ranking_plan(
    estimator: Estimator,
    session: Session,
    combinations: Combinations,
    null: str | Null,
    n_resamples: int | None,
    read: JointReader,
) -> Plan:
    """The ranking, and the map where there is one."""
    chosen, _ = find_null(null, estimator, session, n_resamples, combinations)
    plan, joint = plan_once(estimator, session, combinations, chosen), read(session, estimator)
    return plan if joint is None else replace(plan, steps=(*plan.steps, *joint.steps(session)))


def choose_ranking(
    session: Session,
    features: RankedColumns,
    kernel: str | Kernel | None,
    estimator: str | Estimator,
    null: str | Null,
    n_resamples: int | None,
    read: JointReader,
) -> RankingMethod:
    """The options that were given, and defaults for the rest."""
    msg = (
        "a ranking needs replicates that features share: null must be 'auto', 'shifts' or "
        f"'permutation', or a value of these; got {null!r}{removed(str(null))}"
    )
    # Before anything is planned: limit laws of one column are not joint over columns.
    if not draws_replicates(null):
        raise InvalidArgumentError(msg)
    combinations = features.against(target_kernel_of(session, kernel))
    # An estimator fits if the whole run does, the map of sensitivities included.
    planner = partial(_ranking_plan, null=null, n_resamples=n_resamples, read=read)
    asked = session, combinations, null, n_resamples, planner
    chosen, reason = column_estimator(estimator, *asked)
    few = _keep_few_landmarks(combinations, session.dims[1])
    landmarks = estimator == "auto" and isinstance(chosen, NystromMHSIC)
    # Maps of sensitivities are not made of principal features.
    if landmarks and few and read(session, chosen) is None:
        # Pruning leaves 10 to 20 landmarks of a smooth kernel of one column, so that all products
        # of two such columns' features cost less than tuples of landmarks.
        chosen, why = column_estimator(NystromHSIC.name, *asked)
        why = "" if why == AS_ASKED else f"; {why}"
        reason = f"{reason}; single columns keep few landmarks{why}"
    chosen_null, null_reason = find_null(null, chosen, session, n_resamples, combinations)
    if not isinstance(chosen_null, Resampling):  # a chain of tests
        raise InvalidArgumentError(msg)
    return RankingMethod(chosen, reason, combinations, chosen_null, null_reason)


def target_kernel_of(session: Session, kernel: str | Kernel | None) -> Kernel:
    """The kernel of the target: as given, or by what it holds; of rows that may be missing."""
    target = session.sources[1]
    read = kernel_for_columns(kernel, kinds_of(target), f"target {target.name!r}")
    return read if session.finite[1] else with_missing(read)


def _keep_few_landmarks(combinations: Combinations, target_columns: int) -> bool:
    """Whether features and target are single columns with the smoothest of kernels."""
    *features, target = combinations.kernels
    return (target_columns == 1 and isinstance(of_present(target), Gaussian)) and all(
        isinstance(kernel, OnColumns)
        and isinstance(of_present(kernel.kernel), Gaussian)
        and len(kernel.at) == 1
        for kernel in features
    )


def column_estimator(
    estimator: str | Estimator,
    session: Session,
    combinations: Combinations,
    null: str | Null | None,
    n_resamples: int | None,
    planner: Planner | None = None,
) -> tuple[Estimator, str]:
    """The estimator, one that takes many features, and why this one."""
    auto = isinstance(estimator, str) and estimator == "auto"
    # Looked up before anything is planned, so that the error says which estimators take many
    # features and not which sizes would fit.
    named = None if auto else find_estimator(estimator, session)[0]
    if named is not None and not isinstance(named, ColumnEstimator):
        msg = (
            "many features against one target need estimator 'nystrom-m', 'nystrom-hsic', 'v-hsic' "
            f"or 'auto', got {named.name!r}: take one of them, or test column by column"
        )
        raise InvalidArgumentError(msg)
    chosen, _, reason = choose_estimator(
        estimator, session, combinations, null, n_resamples, planner=planner
    )
    check_gaps(session, chosen)
    return chosen, reason
