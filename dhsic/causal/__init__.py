"""Causal structure by independence of residuals."""

from typing import Any

from dhsic.causal.directions import (
    AccuracyCurve,
    CausalDirection,
    CausalDirections,
    accuracy_curve,
    direction,
    directions,
    plan_direction,
)
from dhsic.causal.graphs import DAG, DAGScores, DAGSearch, ScoredDAG, score_dags, search_dag
from dhsic.causal.residual_independence import (
    ResidualIndependenceTestResult,
    residual_independence_test,
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
    msg = f"module 'dhsic.causal' has no attribute {name!r}"
    if name in ("RocCurve", "PrecisionRecallCurve", "roc_curve", "precision_recall_curve"):
        msg += ": take sklearn.metrics of the true directions and the scores"
    raise AttributeError(msg)
