"""Conditional independence, by residuals of kernel features or within strata."""

from dhsic.conditional.compare import conditional_independence_test, plan_conditional
from dhsic.conditional.result import ConditionalIndependenceTestResult

__all__ = [
    "ConditionalIndependenceTestResult",
    "conditional_independence_test",
    "plan_conditional",
]
