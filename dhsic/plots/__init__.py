"""Pictures of what was found; they need matplotlib: ``pip install 'dhsic[plot]'``."""

from dhsic.plots.matrix import dependence_matrix
from dhsic.plots.null import null_distribution
from dhsic.plots.ranking import ranking
from dhsic.plots.sensitivity import sensitivity_map
from dhsic.plots.witness import witness_function

__all__ = [
    "dependence_matrix",
    "null_distribution",
    "ranking",
    "sensitivity_map",
    "witness_function",
]
