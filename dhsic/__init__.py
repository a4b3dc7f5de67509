"""Kernel independence tests on data that does not fit one machine."""

from dhsic import errors
from dhsic._version import __version__
from dhsic.api import hsic, independence_test, plan, witness_functions
from dhsic.estimators import (
    COCO,
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
)
from dhsic.kernels import Candidates, Grid
from dhsic.nulls import Gamma, Multiplier, Normal, Permutation, Spectral
from dhsic.results import DependenceEstimate, IndependenceTestResult

__all__ = [
    "COCO",
    "RFFHSIC",
    "UHSIC",
    "VHSIC",
    "BlockHSIC",
    "Candidates",
    "DCor",
    "DCov",
    "DependenceEstimate",
    "Gamma",
    "Grid",
    "IndependenceTestResult",
    "Multiplier",
    "Normal",
    "NystromHSIC",
    "NystromMHSIC",
    "Permutation",
    "Spectral",
    "SubCorr",
    "SubHSIC",
    "WitnessFunctions",
    "__version__",
    "errors",
    "hsic",
    "independence_test",
    "plan",
    "witness_functions",
]
