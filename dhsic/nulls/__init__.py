"""Null distributions and the p-value."""

from dhsic.nulls.base import monte_carlo_error, pvalue
from dhsic.nulls.distributions import (
    Distribution,
    GammaDistribution,
    Replicates,
    StudentT,
    check_finite,
)
from dhsic.nulls.gamma import Gamma
from dhsic.nulls.mixture import ChiSquareMixture
from dhsic.nulls.multiplier import Multiplier
from dhsic.nulls.normal import Normal
from dhsic.nulls.permutation import Permutation, draw_permutations
from dhsic.nulls.spectral import Spectral

__all__ = [
    "ChiSquareMixture",
    "Distribution",
    "Gamma",
    "GammaDistribution",
    "Multiplier",
    "Normal",
    "Permutation",
    "Replicates",
    "Spectral",
    "StudentT",
    "check_finite",
    "draw_permutations",
    "monte_carlo_error",
    "pvalue",
]
