"""Causal structure by independence of residuals."""

from dhsic.causal.regression import CrossFitted, Regression, find_regression
from dhsic.causal.splines import Splines

__all__ = ["CrossFitted", "Regression", "Splines", "find_regression"]
