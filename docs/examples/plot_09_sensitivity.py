"""
Where the dependence comes from
===============================

A sensitivity map of two columns: arrows are the gradients of the measure at the rows.
"""

import numpy as np

import dhsic

rng = np.random.default_rng(0)
x = rng.uniform(-2, 2, 400)
y = np.sin(2 * x) + 0.2 * rng.standard_normal(400)

dhsic.sensitivity_map(x, y, names=["x", "y"], rng=0).plot()
