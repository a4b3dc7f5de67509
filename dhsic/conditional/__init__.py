"""Conditional independence, by residuals of kernel features or within strata."""

from dhsic.conditional.compare import (
    ConditionalIndependenceTestResult,
    conditional_independence_test,
    plan_conditional,
)

__all__ = [
    "ConditionalIndependenceTestResult",
    "conditional_independence_test",
    "plan_conditional",
]
