"""
Two variables that are independent
==================================

The score of the data lies among those of rearranged rows.
"""

import numpy as np

import dhsic

x, y = np.random.default_rng(0).standard_normal((2, 300))
dhsic.independence_test(x, y, names=["x", "y"], rng=0).plot()
