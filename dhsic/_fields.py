"""Compute the fields of the results of tests and estimates."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from time import perf_counter
from typing import Any

from dhsic._random import generator
from dhsic._version import __version__
from dhsic.engine.passes import Source, labels_of
from dhsic.engine.session import Session
from dhsic.estimators import Estimate, Estimator, Null
from dhsic.estimators.choose import Planner, Runner, described_plan, planned
from dhsic.estimators.program import Intervals, Method, keeping
from dhsic.kernels import Combinations, Kernel
from dhsic.nulls import Replicates, monte_carlo_error, pvalue
from dhsic.results import VariableSummary
from dhsic.statistics.neighbours import Neighbours

_SHOWN = 1000


def run_batch(
    session: Session,
    planner: Planner,
    runner: Runner,
    estimator: Estimator,
    combinations: Combinations,
    null: Null,
    kernels: Sequence[Kernel],
    arguments: Sequence[str] = ("order", "groups", "strata"),
    **described: Any,
) -> Any:
    """Plan a batch of pairs of kernels that share replicates, and run it.

    Parameters
    ----------
    session : Session
        The run.
    planner, runner : callable
        What plans and runs an estimator with combinations of kernels.
    estimator, combinations, null, kernels
        What was chosen.
    arguments : sequence of str, optional
        Those that tell of rows, see `Neighbours`.
    **described : object
        What else its checkpoint is of.

    Returns
    -------
    object
        What the runner returns.
    """
    plan = planned(planner, estimator, session, combinations)
    pilot = partial(session.timed, lambda part: runner(estimator, part, combinations))
    session.begin(described_plan(plan, pilot, plan.estimator or estimator.name, null.name, kernels))
    session.resume(estimator=estimator, kernels=kernels, null=null, **described)
    neighbours = Neighbours(session, arguments)
    found = runner(estimator, session, combinations)
    neighbours.warn()
    return found


def tested_fields(session: Session, method: Method, asked: Sequence[Intervals]) -> dict[str, Any]:
    """Run a test, and return the fields that its result has."""
    kept = keeping(session, asked)
    outcome, grid, stages = method.run(kept)
    _, assessed = assess(kept, asked, outcome.estimate)
    distribution = method.law(outcome.distribution)
    p = pvalue(outcome.statistic, distribution, session.dtype, outcome.rounding)
    if isinstance(distribution, Replicates):
        values, error = distribution.values, monte_carlo_error(p, len(distribution.values))
    else:
        # A law has no replicates: draws from it are shown in their place.
        values, error = distribution.draws(generator(session.seed, "simulation"), _SHOWN), None
    fields = {"statistic": float(outcome.statistic), "null_distribution": values}
    if outcome.strength is not None:
        # The statistic is that of the strongest combination; the score accounts for the choice.
        fields = {
            "statistic": outcome.strength.statistic,
            "null_distribution": outcome.strength.replicates,
            "score": float(outcome.statistic),
            "null_scores": values,
        }
    return {
        **fields,
        "pvalue": p,
        "pvalue_error": error,
        "null": method.null.name,
        "null_reason": "; ".join(filter(None, (method.null_reason, outcome.detail))),
        "grid": grid,
        "stages": stages,
        **result_fields(session, method.estimator, method.estimator_reason, outcome.estimate),
        **assessed,
    }


def assess(
    session: Session, asked: Sequence[Intervals], tested: Estimate | None = None
) -> tuple[list[Estimate], dict[str, Any]]:
    """Run what is asked of an estimate; return an estimate each, and the fields of all."""
    told = [one.run(session, tested) for one in asked]
    fields = {name: value for _, some in told for name, value in some.items()}
    return [estimate for estimate, _ in told], fields


def result_fields(
    session: Session, estimator: Any, reason: str, estimate: Estimate
) -> dict[str, Any]:
    """The fields that estimates and tests have."""
    return {
        "estimate": float(estimate.value),
        "quantity": estimate.quantity,
        "estimator": estimator.name,
        "estimator_reason": reason,
        "variables": tuple(map(variable_summary, session.sources, estimate.kernels)),
        "landmarks": estimate.landmarks,
        "features": estimate.features,
        **run_fields(session),
    }


def run_fields(session: Session) -> dict[str, Any]:
    """The fields of `dhsic.results.RunFields`; stored data must not have changed meanwhile."""
    return {
        "n": session.n,
        "dropped": session.dropped,
        "data": session.verify(),
        "missing": tuple(gaps.rows for gaps in session.gaps),
        "precision": session.dtype.name,
        "seed": session.seed,
        "passes": session.passes,
        "seconds": perf_counter() - session.began,
        "version": __version__,
    }


def variable_summary(source: Source, kernel: Kernel) -> VariableSummary:
    """The name of a variable, its columns and the kernel that was taken."""
    d = source.shape[1]
    # The variable has the name of its one column already.
    labels = labels_of(source) if d > 1 else None
    return VariableSummary(source.name, d, kernel.spec(), labels)
