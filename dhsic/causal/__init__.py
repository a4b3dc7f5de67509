"""Causal structure by independence of residuals."""

from typing import Any

from dhsic._removed import no_attribute
from dhsic.causal.directions import (
    AccuracyCurve,
    CausalDirection,
    CausalDirections,
    accuracy_curve,
    direction,
    directions,
    plan_direction,
)
from dhsic.causal.graphs import (
    DAG,
    DAGScores,
    DAGSearch,
    ResidualIndependenceTestResult,
    ScoredDAG,
    residual_independence_test,
    score_dags,
    search_dag,
)
from dhsic.regression.residuals import CrossFitted, Regression, Splines, find_regression

__all__ = [
    "DAG",
    "AccuracyCurve",
    "CausalDirection",
    "CausalDirections",
    "CrossFitted",
    "DAGScores",
    "DAGSearch",
    "Regression",
    "ResidualIndependenceTestResult",
    "ScoredDAG",
    "Splines",
    "accuracy_curve",
    "direction",
    "directions",
    "find_regression",
    "plan_direction",
    "residual_independence_test",
    "score_dags",
    "search_dag",
]


def __getattr__(name: str) -> Any:
    raise no_attribute(__name__, name)
