"""The fields of results: what a test or an estimate found, and how."""

from __future__ import annotations

from functools import partial
from time import perf_counter
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dhsic._arguments import Method
from dhsic._random import generator
from dhsic._version import __version__
from dhsic.engine.blocks import Source, labels_of
from dhsic.engine.session import Session
from dhsic.estimators import Estimate, Judged, Outcome, run_chain
from dhsic.estimators.base import passes_of
from dhsic.kernels import Kernel
from dhsic.nulls import Chain, Replicates, Resampling, monte_carlo_error, pvalue
from dhsic.results import GridSummary, StageSummary, VariableSummary

_SHOWN = 1000


def tested_fields(session: Session, method: Method, began: float) -> dict[str, Any]:
    """Run a test, and return the fields that its result has."""
    # The pieces of a result are made here for all tests: what differs is how rows and labels are
    # read.
    outcome, grid, stages = _outcome_of_test(session, method)
    # A law that is made of replicates, as a Pareto tail, takes the place of their histogram.
    distribution = method.law(outcome.distribution)
    p = pvalue(outcome.statistic, distribution, session.dtype, outcome.rounding)
    if isinstance(distribution, Replicates):
        values, error = distribution.values, monte_carlo_error(p, len(distribution.values))
    else:
        # A law has no replicates: draws from it are shown in their place.
        values, error = distribution.draws(generator(session.seed, "simulation"), _SHOWN), None
    return {
        **_measured(outcome, values),
        "pvalue": p,
        "pvalue_error": error,
        "null": method.null.name,
        "null_reason": "; ".join(filter(None, (method.null_reason, outcome.detail))),
        "grid": grid,
        "stages": stages,
        **result_fields(
            session, method.estimator, method.estimator_reason, outcome.estimate, began
        ),
    }


def _measured(outcome: Outcome, values: NDArray[np.float64]) -> dict[str, Any]:
    """The statistic with its null distribution, and of several the score that combines them."""
    score, strength = float(outcome.statistic), outcome.strength
    if strength is None:
        return {"statistic": score, "null_distribution": values}
    return {
        # The statistic is that of the strongest combination; the score accounts for the choice of
        # it.
        "statistic": strength.statistic,
        "null_distribution": strength.replicates,
        "score": score,
        "null_scores": values,
    }


def _outcome_of_test(
    session: Session, method: Method
) -> tuple[Outcome, GridSummary | None, tuple[StageSummary, ...]]:
    """The outcome of the test; of several kernels or stages, with what each says by itself."""
    estimator, combinations, null = method.estimator, method.combinations, method.drawn
    if method.stages is not None and method.measure is not None:
        assert isinstance(null, Chain)
        measure, kernels = method.measure
        # One of kernels that the same data chose would lie above 0 for independent data.
        estimate = partial(measure.estimate, session, kernels)
        # A chain chooses at every stage, and has a score for each.
        return run_chain(session, method.stages, estimator, method.grid, null, estimate)
    # One kernel a variable: nothing is chosen, and no score has to account for a choice.
    if combinations.plain:
        return estimator.test(session, combinations.kernels, null), None, ()
    assert isinstance(null, Resampling)
    tested = estimator.test_grid(session, combinations, null)
    # Combinations that compare no rows were left out, perhaps all but one.
    if len(tested.combinations) == 1:
        return tested.only, None, ()
    judged = Judged.of(tested, method.grid, session.dtype)
    whole = judged.whole
    outcome = Outcome(
        whole.statistic,
        whole.distribution,
        # One of kernels that the same data chose would lie above 0 for independent data.
        tested.estimate(judged.reference),
        tested.detail,
        whole.rounding,
        whole.strength,
    )
    return outcome, judged.summary, ()


class _Named(Protocol):
    """The thing that computed a result, with its name."""

    @property
    def name(self) -> str:
        """Its name."""
        ...


def result_fields(
    session: Session, estimator: _Named, reason: str, estimate: Estimate, began: float
) -> dict[str, Any]:
    """The fields that every result has."""
    return {
        "estimate": float(estimate.value),
        "quantity": estimate.quantity,
        "estimator": estimator.name,
        "estimator_reason": reason,
        "n": session.n,
        "dropped": session.dropped,
        "data": session.verify(),
        "missing": tuple(gaps.rows for gaps in session.gaps),
        "variables": tuple(map(variable_summary, session.sources, estimate.kernels)),
        "landmarks": estimate.landmarks,
        "features": estimate.features,
        "precision": session.dtype.name,
        "seed": session.seed,
        "passes": passes_of(session),
        "seconds": perf_counter() - began,
        "version": __version__,
    }


def variable_summary(source: Source, kernel: Kernel) -> VariableSummary:
    """The name of a variable, its columns and the kernel that was taken."""
    d = source.shape[1]
    # The variable has the name of its one column already.
    labels = labels_of(source) if d > 1 else None
    return VariableSummary(source.name, d, kernel.spec(), labels)
