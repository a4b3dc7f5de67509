"""
One bandwidth misses other scales
=================================

P-values of waves with increasing numbers of periods in 500 rows: the median heuristic misses
fast waves, and the default grid does not.
"""

import matplotlib.pyplot as plt
import numpy as np

import dhsic

rng = np.random.default_rng(0)
x, noise = rng.uniform(0, 1, 500), 0.5 * rng.standard_normal(500)
waves = [1, 2, 4, 6, 8, 12]
_, ax = plt.subplots(figsize=(6, 4))
for label, kernels in {"default grid": None, "median heuristic": "gaussian"}.items():
    ys = [np.sin(2 * np.pi * w * x) + noise for w in waves]
    found = [dhsic.independence_test(x, y, kernels=kernels, rng=0).pvalue for y in ys]
    ax.semilogy(waves, found, "o-", label=label)
ax.axhline(0.05, color="grey", linestyle=":")
ax.set(xlabel="waves", ylabel="p-value")
ax.legend()
