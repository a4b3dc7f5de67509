"""Tests of whether samples come from one distribution."""

from dhsic.twosample.compare import plan_two_sample, two_sample_test
from dhsic.twosample.naming import MMD_ESTIMATORS
from dhsic.twosample.result import SampleSummary, TwoSampleTestResult

__all__ = [
    "MMD_ESTIMATORS",
    "SampleSummary",
    "TwoSampleTestResult",
    "plan_two_sample",
    "two_sample_test",
]
