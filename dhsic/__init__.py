"""Kernel independence tests on data that does not fit one machine."""

# A name that is imported as itself is public, for readers and for type checkers.

import importlib as _importlib
import types as _types
import typing as _typing

from dhsic import errors as errors
from dhsic._validation import no_attribute as _no_attribute
from dhsic._version import __version__ as __version__
from dhsic.api import DependenceDifference as DependenceDifference
from dhsic.api import LagScan as LagScan
from dhsic.api import dependence_difference as dependence_difference
from dhsic.api import hsic as hsic
from dhsic.api import independence_test as independence_test
from dhsic.api import lag_scan as lag_scan
from dhsic.api import plan as plan
from dhsic.api import plan_difference as plan_difference
from dhsic.api import plan_lag_scan as plan_lag_scan
from dhsic.api import witness_functions as witness_functions
from dhsic.conditional import ConditionalIndependenceTestResult as ConditionalIndependenceTestResult
from dhsic.conditional import conditional_independence_test as conditional_independence_test
from dhsic.conditional import plan_conditional as plan_conditional
from dhsic.embedding import MeanEmbedding as MeanEmbedding
from dhsic.embedding import load_embedding as load_embedding
from dhsic.embedding import mean_embedding as mean_embedding
from dhsic.embedding import mmd as mmd
from dhsic.errors import ApproximateNullWarning as ApproximateNullWarning
from dhsic.estimators import CKA as CKA
from dhsic.estimators import COCO as COCO
from dhsic.estimators import NFSIC as NFSIC
from dhsic.estimators import NOCCO as NOCCO
from dhsic.estimators import RFFHSIC as RFFHSIC
from dhsic.estimators import UCKA as UCKA
from dhsic.estimators import UHSIC as UHSIC
from dhsic.estimators import VHSIC as VHSIC
from dhsic.estimators import BlockHSIC as BlockHSIC
from dhsic.estimators import DCor as DCor
from dhsic.estimators import DCov as DCov
from dhsic.estimators import NystromHSIC as NystromHSIC
from dhsic.estimators import NystromMHSIC as NystromMHSIC
from dhsic.estimators import SubCorr as SubCorr
from dhsic.estimators import SubHSIC as SubHSIC
from dhsic.estimators import WitnessFunctions as WitnessFunctions
from dhsic.estimators import register as register
from dhsic.estimators import unregister as unregister
from dhsic.interaction import InteractionTestResult as InteractionTestResult
from dhsic.interaction import interaction_test as interaction_test
from dhsic.interaction import plan_interaction as plan_interaction
from dhsic.io.open import stored_array as stored_array
from dhsic.kernels import Candidates as Candidates
from dhsic.kernels import Grid as Grid
from dhsic.nulls import Chain as Chain
from dhsic.nulls import ChiSquare as ChiSquare
from dhsic.nulls import FromReplicates as FromReplicates
from dhsic.nulls import Gamma as Gamma
from dhsic.nulls import Martingale as Martingale
from dhsic.nulls import Normal as Normal
from dhsic.nulls import Permutation as Permutation
from dhsic.nulls import Shifts as Shifts
from dhsic.nulls import Spectral as Spectral
from dhsic.nulls import TimeOrder as TimeOrder
from dhsic.pairwise import DependenceMatrix as DependenceMatrix
from dhsic.pairwise import dependence_matrix as dependence_matrix
from dhsic.pairwise import plan_matrix as plan_matrix
from dhsic.ranking import ColumnRanking as ColumnRanking
from dhsic.ranking import ColumnSelection as ColumnSelection
from dhsic.ranking import plan_ranking as plan_ranking
from dhsic.ranking import rank_features as rank_features
from dhsic.ranking import select_features as select_features
from dhsic.results import DependenceEstimate as DependenceEstimate
from dhsic.results import IndependenceTestResult as IndependenceTestResult
from dhsic.sensitivity import SensitivityMap as SensitivityMap
from dhsic.sensitivity import sensitivity_map as sensitivity_map
from dhsic.twosample import TwoSampleTestResult as TwoSampleTestResult
from dhsic.twosample import plan_two_sample as plan_two_sample
from dhsic.twosample import two_sample_test as two_sample_test

if _typing.TYPE_CHECKING:
    from dhsic import analysis as analysis
    from dhsic import bench as bench
    from dhsic import causal as causal
    from dhsic import cluster as cluster
    from dhsic import report as report

_SUBMODULES = ("analysis", "bench", "causal", "cluster", "report")  # imported where they are used

# The names above, and of the modules the errors alone.
__all__ = [
    name
    for name, value in globals().items()
    if name in ("__version__", "errors")
    or not (name.startswith("_") or isinstance(value, _types.ModuleType))
]


def __getattr__(name: str) -> _typing.Any:
    if name in _SUBMODULES:
        return _importlib.import_module(f"dhsic.{name}")
    raise _no_attribute(__name__, name)


def __dir__() -> list[str]:
    return sorted({*__all__, *_SUBMODULES})
