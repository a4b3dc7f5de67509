"""The dependence of all pairs of variables, from one pass over the data."""

from dhsic.pairwise.matrix import DependenceMatrix, dependence_matrix, plan_matrix

__all__ = ["DependenceMatrix", "dependence_matrix", "plan_matrix"]
