"""Causal structure by independence of residuals."""

# A name that is imported as itself is public, for readers and for type checkers.

import types as _types
import typing as _typing

from dhsic._validation import no_attribute as _no_attribute
from dhsic.causal.directions import AccuracyCurve as AccuracyCurve
from dhsic.causal.directions import CausalDirection as CausalDirection
from dhsic.causal.directions import CausalDirections as CausalDirections
from dhsic.causal.directions import accuracy_curve as accuracy_curve
from dhsic.causal.directions import direction as direction
from dhsic.causal.directions import directions as directions
from dhsic.causal.directions import plan_direction as plan_direction
from dhsic.causal.graphs import DAG as DAG
from dhsic.causal.graphs import DAGScores as DAGScores
from dhsic.causal.graphs import DAGSearch as DAGSearch
from dhsic.causal.graphs import ResidualIndependenceTestResult as ResidualIndependenceTestResult
from dhsic.causal.graphs import ScoredDAG as ScoredDAG
from dhsic.causal.graphs import residual_independence_test as residual_independence_test
from dhsic.causal.graphs import score_dags as score_dags
from dhsic.causal.graphs import search_dag as search_dag
from dhsic.regression.residuals import CrossFitted as CrossFitted
from dhsic.regression.residuals import Regression as Regression
from dhsic.regression.residuals import Splines as Splines
from dhsic.regression.residuals import find_regression as find_regression

__all__ = [
    name
    for name, value in globals().items()
    if name[0] != "_" and not isinstance(value, _types.ModuleType)
]


def __getattr__(name: str) -> _typing.Any:
    raise _no_attribute(__name__, name)
