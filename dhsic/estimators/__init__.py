"""Estimators of HSIC: one file a statistic, mathematics alone."""

from dhsic.estimators.base import Estimate, Estimator, Null, Outcome
from dhsic.estimators.exact import VHSIC
from dhsic.estimators.nystrom_m import NystromMHSIC
from dhsic.estimators.registry import ESTIMATORS, NULLS, find_estimator, find_null

__all__ = [
    "ESTIMATORS",
    "NULLS",
    "VHSIC",
    "Estimate",
    "Estimator",
    "Null",
    "NystromMHSIC",
    "Outcome",
    "find_estimator",
    "find_null",
]
