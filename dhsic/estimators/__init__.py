"""Estimators of HSIC: one file a statistic, mathematics alone."""

from dhsic.estimators.base import Estimate, Estimator, Null, Outcome
from dhsic.estimators.block import BlockHSIC
from dhsic.estimators.coco import COCO, WitnessFunction
from dhsic.estimators.distance import DCor, DCov
from dhsic.estimators.exact import UHSIC, VHSIC, SubHSIC
from dhsic.estimators.nystrom_hsic import NystromHSIC
from dhsic.estimators.nystrom_m import NystromMHSIC
from dhsic.estimators.registry import (
    ESTIMATORS,
    NULLS,
    TABLE,
    Entry,
    find_estimator,
    find_null,
)
from dhsic.estimators.rff import RFFHSIC
from dhsic.estimators.sub_corr import SubCorr

__all__ = [
    "COCO",
    "ESTIMATORS",
    "NULLS",
    "RFFHSIC",
    "TABLE",
    "UHSIC",
    "VHSIC",
    "BlockHSIC",
    "DCor",
    "DCov",
    "Entry",
    "Estimate",
    "Estimator",
    "Null",
    "NystromHSIC",
    "NystromMHSIC",
    "Outcome",
    "SubCorr",
    "SubHSIC",
    "WitnessFunction",
    "find_estimator",
    "find_null",
]
