"""The closed form of the paper's map, in loops."""

import numpy as np


def paper_equation_8(x, gram_x, gram_y, gamma):
    """Perez-Suay and Camps-Valls: S_ij with sigma^-2 = 2 gamma, row by row."""
    n, d = x.shape
    h = np.eye(n) - 1.0 / n
    centred = h @ gram_y @ h
    found = np.zeros((n, d))
    for i in range(n):
        for j in range(d):
            for k in range(n):
                found[i, j] += centred[i, k] * gram_x[i, k] * (x[i, j] - x[k, j])
    return -2.0 * (2.0 * gamma) / n**2 * found
