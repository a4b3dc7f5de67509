"""Null distributions and the p-value."""

from dhsic.errors import ApproximateNullWarning
from dhsic.nulls.aggregate import Aggregated, Strength, aggregate, standardised
from dhsic.nulls.chain import CombinedPvalues, combine_pvalues
from dhsic.nulls.chi_square import ChiSquare
from dhsic.nulls.distributions import (
    Distribution,
    GammaDistribution,
    Replicates,
    StudentT,
    check_no_overflow,
)
from dhsic.nulls.from_replicates import FromReplicates
from dhsic.nulls.gamma import Gamma
from dhsic.nulls.guard import (
    JointSpread,
    KernelMoments,
    Needs,
    guard,
    joint_spread,
    kernel_moments,
    spread_at_locations,
)
from dhsic.nulls.mixture import ChiSquareMixture
from dhsic.nulls.multiple import Control, adjust, step_down
from dhsic.nulls.normal import Normal, Variance
from dhsic.nulls.permutation import Permutation, Within, draw_permutations
from dhsic.nulls.pvalue import monte_carlo_error, pvalue, tie_threshold
from dhsic.nulls.shifts import Chain, CombinedBy, Shifts
from dhsic.nulls.spectral import MixtureMethod, Spectral
from dhsic.nulls.time_order import TimeOrder

Resampling = Permutation | Shifts
"""Nulls that are made of replicates, which combinations of kernels share."""

__all__ = [
    "Aggregated",
    "ApproximateNullWarning",
    "Chain",
    "ChiSquare",
    "ChiSquareMixture",
    "CombinedBy",
    "CombinedPvalues",
    "Control",
    "Distribution",
    "FromReplicates",
    "Gamma",
    "GammaDistribution",
    "JointSpread",
    "KernelMoments",
    "MixtureMethod",
    "Needs",
    "Normal",
    "Permutation",
    "Replicates",
    "Resampling",
    "Shifts",
    "Spectral",
    "Strength",
    "StudentT",
    "TimeOrder",
    "Variance",
    "Within",
    "adjust",
    "aggregate",
    "check_no_overflow",
    "combine_pvalues",
    "draw_permutations",
    "guard",
    "joint_spread",
    "kernel_moments",
    "monte_carlo_error",
    "pvalue",
    "spread_at_locations",
    "standardised",
    "step_down",
    "tie_threshold",
]
