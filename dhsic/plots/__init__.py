"""Pictures of what was found; they need matplotlib: ``pip install 'dhsic[plot]'``."""

from dhsic.plots.causal import causal_graph, dag_scores
from dhsic.plots.matrix import dependence_heatmap
from dhsic.plots.null import null_distribution
from dhsic.plots.ranking import ranking
from dhsic.plots.scaling import scaling
from dhsic.plots.sensitivity import sensitivity_field
from dhsic.plots.witness import witness_function

__all__ = [
    "causal_graph",
    "dag_scores",
    "dependence_heatmap",
    "null_distribution",
    "ranking",
    "scaling",
    "sensitivity_field",
    "witness_function",
]
