"""One table of kernels and their naive definitions, on centred rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from dhsic import kernels as k


def entrywise(function):
    return lambda x, y: np.array([[float(function(a, b)) for b in y] for a in x])


def radial(function, metric="euclidean"):
    return lambda x, y: function(cdist(x, y, metric))


def gaussian(gamma):
    return radial(lambda r: np.exp(-gamma * r**2))


def laplacian(gamma):
    return radial(lambda r: np.exp(-gamma * r), "cityblock")


def rational(alpha, gamma):
    return radial(lambda r: (1 + gamma * r**2 / alpha) ** -alpha)


def matern52(r):
    t = np.sqrt(5) * r / 2.0
    return (1 + t + t**2 / 3) * np.exp(-t)


def polynomial(degree, coef0, gamma):
    return entrywise(lambda a, b: (gamma * sum(a * b) + coef0) ** degree)


def distance(exponent):
    def function(a, b):
        norms = [np.linalg.norm(v) ** exponent for v in (a, b, a - b)]
        return (norms[0] + norms[1] - norms[2]) / 2

    return entrywise(function)


def columns(*summands):
    """The mean over columns of a sum of kernels."""

    def function(x, y):
        pairs = [(x[:, [j]], y[:, [j]]) for j in range(x.shape[1])]
        return np.mean([sum(part(a, b) for part in summands) for a, b in pairs], axis=0)

    return function


LINEAR = polynomial(1, 0.0, 1.0)
DELTA = entrywise(lambda a, b: all(a == b))


@dataclass(frozen=True)
class Case:
    """A kernel with all its parameters, its oracle, and how exact it is.

    `at_ties` is the relative error that float64 cancellation may leave where rows coincide.
    """

    kernel: k.Kernel
    oracle: Any
    at_ties: float = 1e-12

    def __str__(self):
        return self.kernel.spec()


CASES = [
    Case(k.Gaussian(gamma=0.4), gaussian(0.4)),
    Case(k.Laplacian(gamma=0.3), laplacian(0.3)),
    Case(k.Matern(nu=0.5, length=2.0), radial(lambda r: np.exp(-r / 2)), 1e-7),
    Case(
        k.Matern(nu=1.5, length=2.0),
        radial(lambda r: (1 + np.sqrt(3) * r / 2) * np.exp(-np.sqrt(3) * r / 2)),
    ),
    Case(k.Matern(nu=2.5, length=2.0), radial(matern52)),
    Case(k.InverseMultiquadric(gamma=0.4), radial(lambda r: 1 / np.sqrt(1 + 0.4 * r**2))),
    Case(k.RationalQuadratic(gamma=0.4), rational(1.0, 0.4)),
    Case(k.RationalQuadratic(alpha=0.3, gamma=0.4), rational(0.3, 0.4)),
    Case(k.RationalQuadratic(alpha=20.0, gamma=0.4), rational(20.0, 0.4)),
    Case(k.Linear(), LINEAR),
    *(
        Case(k.Polynomial(degree, coef0, gamma=0.3), polynomial(degree, coef0, 0.3))
        for degree, coef0 in ((1, 0.0), (2, 0.5), (3, 1.0), (6, 1.0))
    ),
    Case(k.Distance(exponent=1.0), distance(1.0), 1e-7),
    Case(k.Distance(exponent=0.7), distance(0.7), 1e-5),
    Case(k.Distance(exponent=2.0), distance(2.0)),
    Case(k.Delta(), DELTA),
    Case(k.Columns(k.Delta() + k.Gaussian(gamma=0.4)), columns(gaussian(0.4), DELTA)),
    Case(k.Columns(k.Laplacian(gamma=0.3)), columns(laplacian(0.3))),
    Case(k.Columns(k.Distance()), columns(distance(1.0))),
    Case(
        k.Gaussian(gamma=0.4) + k.Linear() + k.Delta(),
        lambda x, y: gaussian(0.4)(x, y) + LINEAR(x, y) + DELTA(x, y),
    ),
    Case(
        k.Laplacian(gamma=0.3) * k.Matern(nu=2.5, length=2.0),
        lambda x, y: laplacian(0.3)(x, y) * matern52(cdist(x, y)),
    ),
    Case(
        k.Delta() * (k.Linear() + k.Distance() * k.Polynomial(degree=3, gamma=0.3)),
        lambda x, y: (
            DELTA(x, y) * (LINEAR(x, y) + distance(1.0)(x, y) * polynomial(3, 1.0, 0.3)(x, y))
        ),
        1e-7,
    ),
]
