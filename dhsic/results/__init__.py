"""Results of tests and estimates."""

from dhsic.results.json_value import JsonValue, Parts, one_of, several_of
from dhsic.results.outcome import AS_ASKED, DependenceEstimate, IndependenceTestResult
from dhsic.results.summaries import (
    FeatureSummary,
    GridSummary,
    KernelCombination,
    LandmarkSummary,
    PassSummary,
    StageSummary,
    VariableSummary,
    rows_text,
    short_spec,
)
from dhsic.results.summarised import Summarised
from dhsic.results.verdict import decision

__all__ = [
    "AS_ASKED",
    "DependenceEstimate",
    "FeatureSummary",
    "GridSummary",
    "IndependenceTestResult",
    "JsonValue",
    "KernelCombination",
    "LandmarkSummary",
    "Parts",
    "PassSummary",
    "StageSummary",
    "Summarised",
    "VariableSummary",
    "decision",
    "one_of",
    "rows_text",
    "several_of",
    "short_spec",
]
