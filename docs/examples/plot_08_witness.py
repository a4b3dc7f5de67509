"""
The functions that show the dependence
======================================

COCO is the covariance of two functions, one of each variable. They show how the variables
depend on each other.
"""

import matplotlib.pyplot as plt
import numpy as np

import dhsic
from dhsic import plots

rng = np.random.default_rng(0)
x = rng.uniform(-2, 2, 500)
y = x**2 + 0.3 * rng.standard_normal(500)
found = dhsic.witness_functions(x, y, names=["x", "y"], rng=0)

_, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
plots.witness_function(found.first, x, names=["x"], ax=axes[0])
plots.witness_function(found.second, y, names=["y"], ax=axes[1])
