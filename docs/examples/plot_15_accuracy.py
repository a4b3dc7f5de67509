"""
How accurate are directions?
============================

Thirty pairs with known causes: the share of right decisions among the most confident ones.
"""

import numpy as np

from dhsic import causal

rng = np.random.default_rng(0)
truth = rng.random(30) < 0.5
scores = 1.6 * truth - 0.8 + rng.standard_normal(30)  # as `causal.directions` gives them

causal.accuracy_curve(scores, truth).plot()
