"""Decisions of tests."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dhsic.results.outcome import IndependenceTestResult


def decision(result: IndependenceTestResult, alpha: float) -> str:
    """Whether a level rejects independence, and whether more replicates could say otherwise."""
    rejected = result.pvalue <= alpha
    verdict = f"{'rejected' if rejected else 'not rejected'} at level {alpha:g}"
    if result.pvalue_error is None:
        return verdict
    resamples = len(result.null_distribution)
    if 1 / (resamples + 1) > alpha:
        # Rounding of 1 / alpha must not ask for one more.
        enough = math.ceil(1 / alpha - 1e-9) - 1
        return f"{verdict}; {resamples:,} replicates never can, take {enough:,} or more"
    # Within two standard errors another seed may decide otherwise.
    if abs(result.pvalue - alpha) < 2 * result.pvalue_error:
        return f"{verdict}; a close call, take more replicates"
    return verdict
