"""Causal structure by independence of residuals."""

from dhsic.causal.dags import DAG
from dhsic.causal.decisions import CausalDirection, CausalDirections
from dhsic.causal.directions import direction, directions, plan_direction
from dhsic.causal.graphs import DAGScores, DAGSearch, ScoredDAG, score_dags, search_dag
from dhsic.causal.residual_independence import (
    ResidualIndependenceTestResult,
    residual_independence_test,
)
from dhsic.causal.roc import (
    AccuracyCurve,
    PrecisionRecallCurve,
    RocCurve,
    accuracy_curve,
    precision_recall_curve,
    roc_curve,
)
from dhsic.regression.residuals import CrossFitted, Regression, find_regression
from dhsic.regression.splines import Splines

__all__ = [
    "DAG",
    "AccuracyCurve",
    "CausalDirection",
    "CausalDirections",
    "CrossFitted",
    "DAGScores",
    "DAGSearch",
    "PrecisionRecallCurve",
    "Regression",
    "ResidualIndependenceTestResult",
    "RocCurve",
    "ScoredDAG",
    "Splines",
    "accuracy_curve",
    "direction",
    "directions",
    "find_regression",
    "plan_direction",
    "precision_recall_curve",
    "residual_independence_test",
    "roc_curve",
    "score_dags",
    "search_dag",
]
