"""
Are two variables independent?
==============================

The histogram shows the scores of rearranged rows, and the line the score of the data.
"""

import numpy as np

import dhsic

rng = np.random.default_rng(0)
angle = rng.uniform(0, 2 * np.pi, 300)
x, y = np.cos(angle), np.sin(angle) + 0.3 * rng.standard_normal(300)

dhsic.independence_test(x, y, names=["x", "y"], rng=0).plot()
