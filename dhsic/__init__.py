"""Kernel independence tests on data that does not fit one machine."""

from dhsic import errors
from dhsic._version import __version__
from dhsic.api import hsic, independence_test, plan
from dhsic.estimators import VHSIC, NystromMHSIC
from dhsic.nulls import Multiplier, Permutation
from dhsic.results import DependenceEstimate, IndependenceTestResult

__all__ = [
    "VHSIC",
    "DependenceEstimate",
    "IndependenceTestResult",
    "Multiplier",
    "NystromMHSIC",
    "Permutation",
    "__version__",
    "errors",
    "hsic",
    "independence_test",
    "plan",
]
