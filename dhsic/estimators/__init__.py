"""Estimators of dependence, with their tests: a file each, and what they share.

`base` defines estimators, their results, and the guard of approximate nulls; `registry` lists
estimators and nulls. `choose` chooses among estimators and finds sizes that fit the memory and the
time, and `program` combines statistics to one test. `exact` compares all pairs of rows. `nystrom_m`
takes values of kernels at landmark tuples, `nfsic` at test locations, and `features` takes features
of each variable. `functions` has the base class of estimators from functions of rows.
"""

from dhsic.estimators.base import (
    Estimate,
    Estimator,
    GridOutcome,
    Null,
    Outcome,
    fit_on_sample,
    plan_of,
)
from dhsic.estimators.choose import choose_estimator
from dhsic.estimators.exact import UHSIC, VHSIC, BlockHSIC, DCor, DCov, SubHSIC
from dhsic.estimators.features import (
    CKA,
    COCO,
    NOCCO,
    RFFHSIC,
    NystromHSIC,
    SubCorr,
    WitnessFunction,
    WitnessFunctions,
)
from dhsic.estimators.functions import Functions
from dhsic.estimators.nfsic import NFSIC
from dhsic.estimators.nystrom_m import NystromMHSIC
from dhsic.estimators.registry import (
    ESTIMATORS,
    NULLS,
    EstimatorName,
    NullName,
    draws_replicates,
    find_estimator,
    find_null,
    register,
    unregister,
)

__all__ = [
    "CKA",
    "COCO",
    "ESTIMATORS",
    "NFSIC",
    "NOCCO",
    "NULLS",
    "RFFHSIC",
    "UHSIC",
    "VHSIC",
    "BlockHSIC",
    "DCor",
    "DCov",
    "Estimate",
    "Estimator",
    "EstimatorName",
    "Functions",
    "GridOutcome",
    "Null",
    "NullName",
    "NystromHSIC",
    "NystromMHSIC",
    "Outcome",
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
    "unregister",
]
