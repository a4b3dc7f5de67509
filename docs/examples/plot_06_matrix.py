"""
All pairs of variables
======================

Normalised HSIC of all pairs, clustered; pairs that depend at level 5 % are marked.
"""

import numpy as np

import dhsic

rng = np.random.default_rng(0)
heat, wind, luck = rng.standard_normal((3, 400))
ice = heat**2 + 0.5 * rng.standard_normal(400)
waves = np.abs(wind) + 0.3 * rng.standard_normal(400)
names = ["heat", "ice", "wind", "waves", "luck"]

dhsic.dependence_matrix(heat, ice, wind, waves, luck, names=names, rng=0).plot()
