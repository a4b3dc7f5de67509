"""Tests of whether samples come from one distribution."""

from dhsic.twosample.compare import MMD_ESTIMATORS, plan_two_sample, two_sample_test
from dhsic.twosample.result import SampleSummary, TwoSampleTestResult

__all__ = [
    "MMD_ESTIMATORS",
    "SampleSummary",
    "TwoSampleTestResult",
    "plan_two_sample",
    "two_sample_test",
]
