"""
Which columns matter
====================

Thirty columns and one target. Coloured bars are rejected at a family-wise error of 5 %.
"""

import numpy as np

import dhsic

rng = np.random.default_rng(0)
x = rng.standard_normal((500, 30))
target = x[:, 3] + x[:, 8] ** 2 + 0.5 * rng.standard_normal(500)

dhsic.rank_features(x, target, by="cka", rng=0).plot(control="max-t", most=12)
