"""
How right are directions?
=========================

Which of two variables is the cause, in thirty pairs that are known: the ROC curve of the scores.
"""

import numpy as np

from dhsic import causal, plots

rng = np.random.default_rng(0)
truth = rng.random(30) < 0.5
scores = 0.8 * truth + rng.standard_normal(30)  # as `causal.directions` gives them

plots.roc_curves({"scores": causal.roc_curve(scores, truth)})
