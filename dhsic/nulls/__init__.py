"""Null distributions and the p-value."""

from dhsic.nulls.base import monte_carlo_error, pvalue
from dhsic.nulls.multiplier import Multiplier
from dhsic.nulls.permutation import Permutation, draw_permutations

__all__ = ["Multiplier", "Permutation", "draw_permutations", "monte_carlo_error", "pvalue"]
