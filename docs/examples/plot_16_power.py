"""
Power against rows
==================

Share of 40 dependent data sets that are rejected at level 5 %, by the default test and by the
correlation.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import pearsonr

import dhsic


def found(rows, seed):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(rows)
    y = 0.4 * x**2 + rng.standard_normal(rows)
    return dhsic.independence_test(x, y, rng=seed).pvalue <= 0.05, pearsonr(x, y).pvalue <= 0.05


sizes = [25, 50, 100, 200]
power = np.array([np.mean([found(n, seed) for seed in range(40)], axis=0) for n in sizes])
_, ax = plt.subplots(figsize=(6, 4))
ax.plot(sizes, power, "o-", label=["dhsic", "correlation"])
ax.set(xlabel="rows", ylabel="power", ylim=(0, 1))
ax.legend()
