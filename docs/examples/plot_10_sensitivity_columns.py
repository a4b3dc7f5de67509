"""
Which columns drive the dependence
==================================

Mean squares of the derivatives, for columns that matter only together.
"""

import numpy as np

import dhsic

rng = np.random.default_rng(0)
x = rng.standard_normal((600, 8))
y = np.tanh(2 * x[:, 1] * x[:, 4]) + 0.2 * rng.standard_normal(600)

dhsic.sensitivity_map(x, y, names=["x", "y"], rng=0).plot()
