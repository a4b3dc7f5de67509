"""Results of tests and estimates."""

from dhsic.results.contract import BarResult, Result, as_text
from dhsic.results.estimate import AS_ASKED, DependenceEstimate
from dhsic.results.findings import Findings, Records, Sketch
from dhsic.results.json_value import TRANSIENT, Codec, JsonValue
from dhsic.results.outcome import IndependenceTestResult
from dhsic.results.summaries import (
    FeatureSummary,
    GridSummary,
    KernelCombination,
    LandmarkSummary,
    PassSummary,
    StageSummary,
    StoredArraySummary,
    VariableSummary,
    rows_text,
)
from dhsic.results.texts import (
    MOST_SHIFTS,
    floor_text,
    is_least,
    kernel_text,
    length_of,
    pvalue_text,
    short_spec,
    time_text,
)
from dhsic.results.verdict import decision

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
    "JsonValue",
    "KernelCombination",
    "LandmarkSummary",
    "PassSummary",
    "Records",
    "Result",
    "Sketch",
    "StageSummary",
    "StoredArraySummary",
    "VariableSummary",
    "as_text",
    "decision",
    "floor_text",
    "is_least",
    "kernel_text",
    "length_of",
    "pvalue_text",
    "rows_text",
    "short_spec",
    "time_text",
]
