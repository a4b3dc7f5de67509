"""Results of tests and estimates."""

from dhsic.results.contract import (
    BarResult,
    Findings,
    Records,
    Result,
    RunFields,
    Sketch,
    as_text,
)
from dhsic.results.estimate import AS_ASKED, DependenceEstimate
from dhsic.results.grid import GridSummary, KernelCombination
from dhsic.results.json_value import TRANSIENT, Codec
from dhsic.results.outcome import IndependenceTestResult, decision
from dhsic.results.summaries import (
    FeatureSummary,
    LandmarkSummary,
    PassSummary,
    StageSummary,
    StoredArraySummary,
    VariableSummary,
)
from dhsic.results.texts import (
    MOST_SHIFTS,
    floor_text,
    is_least,
    kernel_text,
    pvalue_text,
)

__all__ = [
    "AS_ASKED",
    "MOST_SHIFTS",
    "TRANSIENT",
    "BarResult",
    "Codec",
    "DependenceEstimate",
    "FeatureSummary",
    "Findings",
    "GridSummary",
    "IndependenceTestResult",
    "KernelCombination",
    "LandmarkSummary",
    "PassSummary",
    "Records",
    "Result",
    "RunFields",
    "Sketch",
    "StageSummary",
    "StoredArraySummary",
    "VariableSummary",
    "as_text",
    "decision",
    "floor_text",
    "is_least",
    "kernel_text",
    "pvalue_text",
]
