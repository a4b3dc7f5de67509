"""
Two independent variables
=========================

The score of the data lies among the scores of rearranged rows.
"""

import numpy as np

import dhsic

x, y = np.random.default_rng(0).standard_normal((2, 300))
dhsic.independence_test(x, y, names=["x", "y"], rng=0).plot()
