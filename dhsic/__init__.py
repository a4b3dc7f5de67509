"""Kernel independence tests on data that does not fit one machine."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dhsic import errors
from dhsic._removed import removed
from dhsic._version import __version__
from dhsic.api import hsic, independence_test, plan, witness_functions
from dhsic.conditional import (
    ConditionalIndependenceTestResult,
    conditional_independence_test,
    plan_conditional,
)
from dhsic.embedding import MeanEmbedding, load_embedding, mean_embedding, mmd
from dhsic.estimators import (
    CKA,
    COCO,
    NFSIC,
    NOCCO,
    RFFHSIC,
    UHSIC,
    VHSIC,
    BlockHSIC,
    DCor,
    DCov,
    NystromHSIC,
    NystromMHSIC,
    SubCorr,
    SubHSIC,
    WitnessFunctions,
    register,
    unregister,
)
from dhsic.interaction import InteractionTestResult, interaction_test, plan_interaction
from dhsic.io.open import stored_array
from dhsic.kernels import Candidates, Grid
from dhsic.nulls import (
    ApproximateNullWarning,
    Chain,
    ChiSquare,
    FromReplicates,
    Gamma,
    Normal,
    Permutation,
    Shifts,
    Spectral,
    TimeOrder,
)
from dhsic.pairwise import DependenceMatrix, dependence_matrix, plan_matrix
from dhsic.ranking import ColumnRanking, plan_ranking, rank_features
from dhsic.results import DependenceEstimate, IndependenceTestResult
from dhsic.selection import ColumnSelection, select_features
from dhsic.sensitivity import SensitivityMap, sensitivity_map
from dhsic.twosample import TwoSampleTestResult, plan_two_sample, two_sample_test

if TYPE_CHECKING:
    from dhsic import analysis as analysis
    from dhsic import bench as bench
    from dhsic import causal as causal
    from dhsic import cluster as cluster
    from dhsic import report as report

_SUBMODULES = ("analysis", "bench", "causal", "cluster", "report")  # imported where they are used

__all__ = [
    "CKA",
    "COCO",
    "NFSIC",
    "NOCCO",
    "RFFHSIC",
    "UHSIC",
    "VHSIC",
    "ApproximateNullWarning",
    "BlockHSIC",
    "Candidates",
    "Chain",
    "ChiSquare",
    "ColumnRanking",
    "ColumnSelection",
    "ConditionalIndependenceTestResult",
    "DCor",
    "DCov",
    "DependenceEstimate",
    "DependenceMatrix",
    "FromReplicates",
    "Gamma",
    "Grid",
    "IndependenceTestResult",
    "InteractionTestResult",
    "MeanEmbedding",
    "Normal",
    "NystromHSIC",
    "NystromMHSIC",
    "Permutation",
    "SensitivityMap",
    "Shifts",
    "Spectral",
    "SubCorr",
    "SubHSIC",
    "TimeOrder",
    "TwoSampleTestResult",
    "WitnessFunctions",
    "__version__",
    "conditional_independence_test",
    "dependence_matrix",
    "errors",
    "hsic",
    "independence_test",
    "interaction_test",
    "load_embedding",
    "mean_embedding",
    "mmd",
    "plan",
    "plan_conditional",
    "plan_interaction",
    "plan_matrix",
    "plan_ranking",
    "plan_two_sample",
    "rank_features",
    "register",
    "select_features",
    "sensitivity_map",
    "stored_array",
    "two_sample_test",
    "unregister",
    "witness_functions",
]


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return import_module(f"dhsic.{name}")
    msg = f"module 'dhsic' has no attribute {name!r}{removed(name)}"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return sorted({*__all__, *_SUBMODULES})
