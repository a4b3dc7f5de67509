"""
Dependence that correlation does not detect
===========================================

Six shapes of 300 rows: the correlation r is near 0 in most of them, and the p-value is small
in all but the last.
"""

import matplotlib.pyplot as plt
import numpy as np

import dhsic

rng = np.random.default_rng(0)
x, noise, other = rng.uniform(-1, 1, 300), 0.15 * rng.standard_normal(300), rng.uniform(-1, 1, 300)
shapes = {
    "line": x + noise,
    "parabola": x**2 + noise,
    "waves": np.sin(12 * x) + noise,
    "cross": np.where(other > 0, x, -x) + noise,
    "growing spread": x * other,
    "nothing": other,
}
_, axes = plt.subplots(2, 3, figsize=(8, 5), layout="constrained")
for ax, (name, y) in zip(axes.flat, shapes.items(), strict=True):
    pvalue = dhsic.independence_test(x, y, rng=0).pvalue
    ax.scatter(x, y, s=5)
    ax.set_title(f"{name}: r = {np.corrcoef(x, y)[0, 1]:.2f}, p = {pvalue:.3g}", fontsize=10)
