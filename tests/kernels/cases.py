"""One table of kernels and their naive definitions."""

from dataclasses import dataclass

from dhsic import kernels as k
from tests.kernels import oracles as o


@dataclass(frozen=True)
class Case:
    """A kernel with all its parameters, its oracle, and how exact it is.

    `at_ties` is the relative error that float64 cancellation may leave where rows coincide.
    """

    kernel: k.Kernel
    oracle: o.Oracle
    at_ties: float = 1e-12
    invariant: bool = False

    def __str__(self) -> str:
        return self.kernel.spec()


CASES = [
    Case(k.Gaussian(gamma=0.4), o.gaussian(0.4), invariant=True),
    Case(k.Laplacian(gamma=0.3), o.laplacian(0.3), invariant=True),
    Case(k.Matern(nu=0.5, length=2.0), o.matern12(2.0), 1e-7, invariant=True),
    Case(k.Matern(nu=1.5, length=2.0), o.matern32(2.0), invariant=True),
    Case(k.Matern(nu=2.5, length=2.0), o.matern52(2.0), invariant=True),
    Case(k.InverseMultiquadric(gamma=0.4), o.imq(0.4), invariant=True),
    Case(k.RationalQuadratic(gamma=0.4), o.rq(1.0, 0.4), invariant=True),
    Case(k.RationalQuadratic(alpha=0.3, gamma=0.4), o.rq(0.3, 0.4), invariant=True),
    Case(k.RationalQuadratic(alpha=20.0, gamma=0.4), o.rq(20.0, 0.4), invariant=True),
    Case(k.Linear(), o.linear()),
    Case(k.Polynomial(degree=1, coef0=0.0, gamma=0.3), o.polynomial(1, 0.0, 0.3)),
    Case(k.Polynomial(degree=2, coef0=0.5, gamma=0.3), o.polynomial(2, 0.5, 0.3)),
    Case(k.Polynomial(degree=3, coef0=1.0, gamma=0.3), o.polynomial(3, 1.0, 0.3)),
    Case(k.Polynomial(degree=6, coef0=1.0, gamma=0.3), o.polynomial(6, 1.0, 0.3)),
    Case(k.Distance(exponent=1.0), o.distance(1.0), 1e-7),
    Case(k.Distance(exponent=0.7), o.distance(0.7), 1e-5),
    Case(k.Distance(exponent=2.0), o.distance(2.0)),
    Case(k.Delta(), o.delta(), invariant=True),
    Case(
        k.Columns(k.Delta() + k.Gaussian(gamma=0.4)),
        o.columns(o.gaussian(0.4), o.delta()),
        invariant=True,
    ),
    Case(k.Columns(k.Laplacian(gamma=0.3)), o.columns(o.laplacian(0.3)), invariant=True),
    Case(k.Columns(k.Distance()), o.columns(o.distance(1.0))),
    Case(
        k.Gaussian(gamma=0.4) + k.Linear() + k.Delta(),
        lambda x, y: o.gaussian(0.4)(x, y) + o.linear()(x, y) + o.delta()(x, y),
    ),
    Case(
        k.Laplacian(gamma=0.3) * k.Matern(nu=2.5, length=2.0),
        lambda x, y: o.laplacian(0.3)(x, y) * o.matern52(2.0)(x, y),
        invariant=True,
    ),
    Case(
        k.Delta() * (k.Linear() + k.Distance() * k.Polynomial(degree=3, gamma=0.3)),
        lambda x, y: (
            o.delta()(x, y)
            * (o.linear()(x, y) + o.distance(1.0)(x, y) * o.polynomial(3, 1.0, 0.3)(x, y))
        ),
        1e-7,
    ),
]

DEFAULTS = [
    k.Gaussian(),
    k.Laplacian(),
    k.Matern(nu=0.5),
    k.Matern(nu=1.5),
    k.Matern(nu=2.5),
    k.InverseMultiquadric(),
    k.RationalQuadratic(),
    k.RationalQuadratic(alpha=0.3),
    k.Linear(),
    k.Polynomial(),
    k.Polynomial(degree=2, coef0=3.0),
    k.Distance(),
    k.Distance(exponent=1.5),
    k.Delta(),
    k.Gaussian() + k.Matern(),
    k.Laplacian() * k.Delta(),
    k.Columns(k.Laplacian()),
    k.Columns(k.Matern() * k.Polynomial()),
]
