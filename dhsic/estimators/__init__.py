"""Estimators of dependence, with their tests.

`base` defines estimators, their results, and the guard of approximate nulls. `exact` compares all
pairs of rows. `features` takes products of features of two variables, and `pointwise` products of
functions of all variables: values of kernels at landmark tuples or test locations, or any that a
user writes. `choose` lists estimators and nulls by name, chooses among them, and finds sizes that
fit the memory and the time, and makes one test of statistics.
"""

# A name that is imported as itself is public, for readers and for type checkers.

import types as _types

from dhsic.estimators.base import Estimate as Estimate
from dhsic.estimators.base import Estimator as Estimator
from dhsic.estimators.base import GridOutcome as GridOutcome
from dhsic.estimators.base import Null as Null
from dhsic.estimators.base import Outcome as Outcome
from dhsic.estimators.base import fit_on_sample as fit_on_sample
from dhsic.estimators.base import plan_of as plan_of
from dhsic.estimators.choose import ESTIMATORS as ESTIMATORS
from dhsic.estimators.choose import NULLS as NULLS
from dhsic.estimators.choose import EstimatorName as EstimatorName
from dhsic.estimators.choose import NullName as NullName
from dhsic.estimators.choose import register as register
from dhsic.estimators.choose import unregister as unregister
from dhsic.estimators.exact import UCKA as UCKA
from dhsic.estimators.exact import UHSIC as UHSIC
from dhsic.estimators.exact import VHSIC as VHSIC
from dhsic.estimators.exact import BlockHSIC as BlockHSIC
from dhsic.estimators.exact import DCor as DCor
from dhsic.estimators.exact import DCov as DCov
from dhsic.estimators.exact import SubHSIC as SubHSIC
from dhsic.estimators.features import CKA as CKA
from dhsic.estimators.features import COCO as COCO
from dhsic.estimators.features import NOCCO as NOCCO
from dhsic.estimators.features import RFFHSIC as RFFHSIC
from dhsic.estimators.features import NystromHSIC as NystromHSIC
from dhsic.estimators.features import SubCorr as SubCorr
from dhsic.estimators.features import WitnessFunction as WitnessFunction
from dhsic.estimators.features import WitnessFunctions as WitnessFunctions
from dhsic.estimators.pointwise import NFSIC as NFSIC
from dhsic.estimators.pointwise import Functions as Functions
from dhsic.estimators.pointwise import NystromMHSIC as NystromMHSIC

__all__ = [
    name
    for name, value in globals().items()
    if name[0] != "_" and not isinstance(value, _types.ModuleType)
]
