"""The dependence of all pairs of variables, from one pass over the data."""

from dhsic.pairwise.matrix import dependence_matrix
from dhsic.pairwise.result import DependenceMatrix

__all__ = ["DependenceMatrix", "dependence_matrix"]
