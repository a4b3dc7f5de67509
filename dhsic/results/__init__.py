"""Results of tests and estimates."""

from dhsic.results.outcome import AS_ASKED, DependenceEstimate, IndependenceTestResult
from dhsic.results.summaries import (
    FeatureSummary,
    GridSummary,
    KernelCombination,
    LandmarkSummary,
    PassSummary,
    VariableSummary,
    short_spec,
)
from dhsic.results.verdict import decision

__all__ = [
    "AS_ASKED",
    "DependenceEstimate",
    "FeatureSummary",
    "GridSummary",
    "IndependenceTestResult",
    "KernelCombination",
    "LandmarkSummary",
    "PassSummary",
    "VariableSummary",
    "decision",
    "short_spec",
]
