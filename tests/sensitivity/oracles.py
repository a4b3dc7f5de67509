"""Measures of dependence from their definitions, and the closed forms of the paper, in loops."""

import numpy as np


def inverse(gram):
    return np.linalg.pinv(gram, rcond=1e-9, hermitian=True)


def nystrom_statistic(grams, crosses):
    n = crosses[0].shape[1]
    u = np.prod(crosses, axis=0).mean(axis=1) - np.prod([c.mean(axis=1) for c in crosses], axis=0)
    return n * u @ inverse(np.prod(grams, axis=0)) @ u


def nystrom_estimate(grams, crosses):
    """Kalinke and Szabo (2023), Lemma 4.2."""
    joint = np.prod(grams, axis=0)
    alphas = [inverse(k) @ c.mean(axis=1) for k, c in zip(grams, crosses, strict=True)]
    alpha = inverse(joint) @ np.prod(crosses, axis=0).mean(axis=1)
    pairs = list(zip(grams, alphas, strict=True))
    third = alpha @ np.prod([k @ a for k, a in pairs], axis=0)
    return alpha @ joint @ alpha + np.prod([a @ k @ a for k, a in pairs]) - 2.0 * third


def waves(x, frequencies, centre):
    return np.exp(1j * (x - centre) @ frequencies.T)


def random_features(data, frequencies, centres, form):
    """|C|^2 of the features of two variables; of more, |u|^2 / D."""
    found = [waves(*parts) for parts in zip(data, frequencies, centres, strict=True)]
    count = found[0].shape[1]
    if len(data) > 2:
        u = np.prod(found, axis=0).mean(axis=0) - np.prod([w.mean(axis=0) for w in found], axis=0)
        return np.mean(np.abs(u) ** 2)
    if form == "cos-sin":
        found = [np.hstack([w.real, w.imag]) for w in found]
    first, second = (w - w.mean(axis=0) for w in found)
    cross = first.T @ second.conj() / len(first) / count
    return np.sum(np.abs(cross) ** 2)


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


def paper_equation_10(x, y, frequencies, centres):
    """Perez-Suay and Camps-Valls: the real part of a trace with the row's derivative of Z_x."""
    n, d = x.shape
    count = len(frequencies[0])
    z_x, z_y = (
        waves(v, w, c) / np.sqrt(count)
        for v, w, c in zip((x, y), frequencies, centres, strict=True)
    )
    h = np.eye(n) - 1.0 / n
    z_x_centred, z_y_centred = h @ z_x, h @ z_y
    found = np.zeros((n, d))
    for i in range(n):
        for j in range(d):
            slope = np.zeros((n, count), complex)
            slope[i] = 1j * frequencies[0][:, j] * z_x[i]
            trace = z_y_centred @ z_y_centred.conj().T @ z_x_centred @ slope.conj().T
            found[i, j] = 2.0 / n**2 * np.trace(trace).real
    return found
