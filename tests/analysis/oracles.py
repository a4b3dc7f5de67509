"""Closed forms."""

import numpy as np


def normal_eigenvalues(gamma, scale, count=400):
    """Of exp(-gamma (x - y)^2) under N(0, scale^2): a geometric series (Zhu et al. 1998)."""
    a = 0.25 / scale**2
    c = np.sqrt(a**2 + 2.0 * a * gamma)
    whole = a + gamma + c
    return np.sqrt(2.0 * a / whole) * (gamma / whole) ** np.arange(count)
