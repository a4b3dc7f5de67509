"""
A distribution as a function
============================

The mean embedding of 2,000 rows in the plane, kept as landmarks and weights, and evaluated on
a raster.
"""

import matplotlib.pyplot as plt
import numpy as np

import dhsic

rng = np.random.default_rng(0)
angle = rng.uniform(0, 2 * np.pi, 2000)
rows = np.column_stack([np.cos(angle), np.sin(2 * angle)]) + 0.1 * rng.standard_normal((2000, 2))
embedding = dhsic.mean_embedding(rows, kernel="gaussian:20", rng=0)

raster = np.linspace(-1.6, 1.6, 100)
points = np.stack(np.meshgrid(raster, raster), axis=-1).reshape(-1, 2)
_, ax = plt.subplots(figsize=(5, 4.2), layout="constrained")
picture = ax.contourf(raster, raster, embedding(points).reshape(100, 100), levels=15)
ax.plot(*rows[::20].T, ".", color="white", markersize=2)
plt.colorbar(picture, label="mean embedding")
