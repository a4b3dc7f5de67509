"""Estimators of dependence, with their tests: a file each, and what they share.

`base` says what an estimator is and what it returns, with the guard of nulls that are
approximations, and `registry` lists them. `choose` has the rules of the choice among them and finds
what fits, and `program` says how statistics become one test. On all pairs of rows: `exact`. On the
values of kernels at landmark tuples: `nystrom_m`, and `nfsic` at test locations. On features of
either variable: `features`. `functions` makes estimators of plain functions of rows.
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
