"""
Which kernels detect it
=======================

P-values of the single combinations of the default grid. They are exploratory; the p-value of
the test accounts for the choice.
"""

import re

import matplotlib.pyplot as plt
import numpy as np

import dhsic

rng = np.random.default_rng(0)
x = rng.uniform(0, 1, 300)
result = dhsic.independence_test(x, np.sin(20 * x) + 0.6 * rng.standard_normal(300), rng=0)

combinations = sorted(result.grid.combinations, key=lambda one: one.pvalue)
_, ax = plt.subplots(figsize=(7, 4), layout="constrained")
names = [re.sub(r"(\.\d)\d+", r"\1", " and ".join(one.kernels)) for one in combinations]
ax.barh(names, [one.pvalue for one in combinations])
ax.invert_yaxis()
ax.set(xlabel="p-value by itself", xscale="log")
