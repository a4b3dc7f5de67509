"""Estimators of dependence, with their tests: a file each, and what they share.

`base` says what an estimator is, `outcomes` what it returns, `registry` lists them, and
`registration` adds to the list. `resample` has the permutations by which all of them are tested
exactly, and `chain` makes tests of three variables and more of those of two. On all pairs of rows:
`exact` and `distance` in the folder `gram`, by way of `quadratic`, and `block`. On the values of
kernels at landmark tuples, in the folder `landmark`: `nystrom_m`, by way of `tuples` and
`statistics`. On features of either variable, in the folder `feature`: `nystrom_hsic`, `normalised`,
`coco`, `rff` and `sub_corr`, by way of `landmarks`; its `ranking` takes many columns against one
target. At test locations, in the folder `location`: `nfsic`.
"""

from dhsic.estimators.base import (
    ColumnEstimator,
    Estimator,
    GridEstimator,
    Null,
    Resampling,
    fit_on_sample,
    plan_of,
)
from dhsic.estimators.block import BlockHSIC
from dhsic.estimators.chain import Judged, Stages, run_chain
from dhsic.estimators.choose import choose_estimator
from dhsic.estimators.feature.coco import COCO, WitnessFunction, WitnessFunctions
from dhsic.estimators.feature.normalised import CKA, NOCCO
from dhsic.estimators.feature.nystrom_hsic import NystromHSIC
from dhsic.estimators.feature.rff import RFFHSIC
from dhsic.estimators.feature.sub_corr import SubCorr
from dhsic.estimators.gram.distance import DCor, DCov
from dhsic.estimators.gram.exact import UHSIC, VHSIC, SubHSIC
from dhsic.estimators.landmark.nystrom_m import NystromMHSIC
from dhsic.estimators.location.nfsic import NFSIC
from dhsic.estimators.names import EstimatorName, NullName
from dhsic.estimators.outcomes import (
    ColumnEstimates,
    Estimate,
    GridOutcome,
    Outcome,
)
from dhsic.estimators.registration import register, unregister
from dhsic.estimators.registry import (
    ESTIMATORS,
    NULLS,
    TABLE,
    EstimatorEntry,
    draws_replicates,
    find_estimator,
    find_null,
    takes_null,
    takes_variables,
    tries_grids,
)

__all__ = [
    "CKA",
    "COCO",
    "ESTIMATORS",
    "NFSIC",
    "NOCCO",
    "NULLS",
    "RFFHSIC",
    "TABLE",
    "UHSIC",
    "VHSIC",
    "BlockHSIC",
    "ColumnEstimates",
    "ColumnEstimator",
    "DCor",
    "DCov",
    "Estimate",
    "Estimator",
    "EstimatorEntry",
    "EstimatorName",
    "GridEstimator",
    "GridOutcome",
    "Judged",
    "Null",
    "NullName",
    "NystromHSIC",
    "NystromMHSIC",
    "Outcome",
    "Resampling",
    "Stages",
    "SubCorr",
    "SubHSIC",
    "WitnessFunction",
    "WitnessFunctions",
    "choose_estimator",
    "draws_replicates",
    "find_estimator",
    "find_null",
    "fit_on_sample",
    "plan_of",
    "register",
    "run_chain",
    "takes_null",
    "takes_variables",
    "tries_grids",
    "unregister",
]
