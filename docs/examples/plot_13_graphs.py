"""
All causal graphs of three variables
====================================

The p-value of every graph, by residuals of splines, and the best graph.
"""

import numpy as np

from dhsic import causal

rng = np.random.default_rng(0)
height, noise, other = rng.uniform(-1.0, 1.0, (3, 400))
warmth = noise - 2.0 * height**2
sun = other + np.tanh(2.0 * warmth)

causal.score_dags(height, warmth, sun, names=["height", "warmth", "sun"], rng=0).plot()
