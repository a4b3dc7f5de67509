"""
Do two samples have the same distribution?
==========================================

Mean and variance are equal; the shape is not.
"""

import matplotlib.pyplot as plt
import numpy as np

import dhsic

rng = np.random.default_rng(0)
first = rng.standard_normal(400)
second = 0.9 * rng.choice([-1, 1], 300) + np.sqrt(1 - 0.81) * rng.standard_normal(300)
test = dhsic.two_sample_test(first, second, rng=0)

_, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
axes[0].hist([first, second], bins=30, density=True, label=["first", "second"])
axes[0].legend()
test.plot(ax=axes[1])
