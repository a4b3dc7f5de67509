"""Conditional independence, by residuals of kernel features or within strata."""

from dhsic.conditional.independence import (
    ConditionalIndependenceTestResult,
    conditional_independence_test,
    plan_conditional,
)

__all__ = ["ConditionalIndependenceTestResult", "conditional_independence_test", "plan_conditional"]
