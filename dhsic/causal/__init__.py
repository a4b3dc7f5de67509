"""Causal structure by independence of residuals."""

from dhsic.causal.decisions import CausalDirection, CausalDirections
from dhsic.causal.pairs import direction, directions
from dhsic.causal.regression import CrossFitted, Regression, find_regression
from dhsic.causal.roc import (
    AccuracyCurve,
    PrecisionRecallCurve,
    RocCurve,
    accuracy_curve,
    precision_recall_curve,
    roc_curve,
)
from dhsic.causal.splines import Splines

__all__ = [
    "AccuracyCurve",
    "CausalDirection",
    "CausalDirections",
    "CrossFitted",
    "PrecisionRecallCurve",
    "Regression",
    "RocCurve",
    "Splines",
    "accuracy_curve",
    "direction",
    "directions",
    "find_regression",
    "precision_recall_curve",
    "roc_curve",
]
