"""The norm of covariances at test locations, and locations that make it large on training rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dhsic.kernels import (
    Gaussian,
    InverseMultiquadric,
    Kernel,
    Laplacian,
    Matern,
    RationalQuadratic,
)
from dhsic.linalg import rounding_unit, squared_norms

Vector = NDArray[np.float64]

_FACTORS = (0.25, 0.5, 1.0, 2.0)
_DRAWS = 3
_MOST_STEPS = 30
_HELD_OUT = 3
_WIDEST = 4.0
_RADIAL = Gaussian | InverseMultiquadric | Laplacian | Matern | RationalQuadratic


def expanded(about: Sequence[Vector], centres: Sequence[Vector]) -> tuple[Vector, Vector]:
    """prod_m (about_m + c_m) - prod_m c_m: what is not linear in about_m, and what is.

    The first is prod_m k_m - sum_m k_m prod_{l != m} c_l + (M-1) prod_l c_l of k_m = about_m + c_m,
    of which the mean over rows is u where the centres are the means; for M = 2 it is the product
    of both about their centres. No term is the difference of large ones.

    Parameters
    ----------
    about : sequence of ndarray, shapes (..., J)
        Kernels of every variable about their centres.
    centres : sequence of ndarray, shapes (..., J)
        c_m.

    Returns
    -------
    tuple of ndarray, shapes (..., J)
    """
    rest, linear, product = np.zeros(1), np.zeros(1), np.ones(1)
    for a, c in zip(about, centres, strict=True):
        # One more variable: what was linear stays so with its constant alone.
        rest = rest * (a + c) + linear * a
        linear, product = linear * c + product * a, product * c
    return rest, linear


def independent_covariance(covariances: Sequence[Vector], means: Sequence[Vector]) -> Vector:
    """S, from the covariances (J, J) and means (J,) of the kernels of every variable.

    The covariance of a product of independent variables, less its linear part.
    """
    return expanded(covariances, [np.outer(k, k) for k in means])[0]


@dataclass(frozen=True)
class Norm:
    """u'(S + r t I)^-1 u, with S the covariance of sqrt(n) u under independence.

    Jitkrittum et al. (2017), equation 6, with t the mean of the diagonal of S.

    Parameters
    ----------
    whitening : ndarray, shape (J, J)
        W with W'W = (S + r t I)^-1; 0 where S is.
    weights : ndarray, shape (J,)
        The eigenvalues of W S W', of chi-squares in the limit of T = n |W u|^2 under the null.
    """

    whitening: Vector
    weights: Vector

    @classmethod
    def of(cls, covariance: Vector, regularisation: float) -> Self:
        """From S, shape (J, J), and r."""
        scale = float(covariance.diagonal().mean())
        if not np.isfinite(covariance).all():  # of unbounded kernels, refused in words later
            return cls(np.full_like(covariance, np.nan), np.ones(len(covariance)))
        # Kernels that do not vary have no covariance to be normalised by, and no statistic.
        if scale <= 0.0:
            return cls(np.zeros_like(covariance), np.zeros(len(covariance)))
        # In units of t, so that the ridge is r whatever the units of the kernels.
        values, vectors = np.linalg.eigh(covariance / scale)
        values = values.clip(min=0.0)  # below it by rounding
        # W = (t (D + r))^(-1/2) V' of S / t = V D V', so that |W u|^2 = u' (S + r t I)^-1 u.
        whitening = (vectors / np.sqrt(scale * (values + regularisation))).T
        # W S W' is diagonal in the same basis: S / (S + r), all about 1 where r is small.
        return cls(whitening, values / (values + regularisation))

    def solve(self, u: Vector) -> Vector:
        """(S + r t I)^-1 u."""
        solved: Vector = self.whitening.T @ (self.whitening @ u)
        return solved

    def __call__(self, u: Vector) -> Vector:
        """The squared norms of values (J,) or (J, b)."""
        return squared_norms(self.whitening @ u)


class Placed(NamedTuple):
    """Kernels and locations of every variable."""

    kernels: tuple[Kernel, ...]
    """As fitted, or with other bandwidths."""
    points: tuple[Vector, ...]
    """Shapes (J, d_m)."""


def criterion(
    kernels: Sequence[Kernel],
    points: Sequence[Vector],
    rows: Sequence[Vector],
    regularisation: float,
) -> tuple[float, list[Vector], list[float]]:
    """T / n on training rows with its gradients.

    Parameters
    ----------
    kernels : sequence of Kernel
        As fitted, one a variable.
    points : sequence of ndarray, shapes (J, d_m)
        The locations.
    rows : sequence of ndarray, shapes (n, d_m)
        The training rows.
    regularisation : float
        Regularisation of the statistic.

    Returns
    -------
    float
        u'(S + r t I)^-1 u.
    list of ndarray, shapes (J, d_m)
        Gradients in the locations; 0 of kernels that have none.
    list of float
        Derivatives in the logarithms of the length scales; 0 of kernels other than radial ones.
    """
    grams = [kernel(x, z) for kernel, x, z in zip(kernels, rows, points, strict=True)]
    about, means, covariances, u = _moments(grams)
    norm = Norm.of(independent_covariance(covariances, means), regularisation)
    # With a = (S + r t I)^-1 u the norm of u changes by 2 a'du - a'(dS + r dt I) a.
    a = norm.solve(u)
    # t is the mean of the diagonal of S, so that dt is spread over the diagonal.
    form = np.outer(a, a) + (regularisation * float(a @ a) / len(a)) * np.eye(len(a))
    gradients, lengths = [], []
    for m, held in enumerate(zip(kernels, rows, points, grams, strict=True)):
        weights = _derivative_weights(m, about, means, covariances, a, form)
        in_points, in_length = _slopes(*held, weights)
        gradients.append(in_points)
        lengths.append(in_length)
    return float(norm(u)), gradients, lengths


def value_of(
    kernels: Sequence[Kernel],
    points: Sequence[Vector],
    rows: Sequence[Vector],
    regularisation: float,
) -> float:
    """The same without gradients."""
    grams = [kernel(x, z) for kernel, x, z in zip(kernels, rows, points, strict=True)]
    _, means, covariances, u = _moments(grams)
    return float(Norm.of(independent_covariance(covariances, means), regularisation)(u))


def _moments(
    values: Sequence[Vector],
) -> tuple[list[Vector], list[Vector], list[Vector], Vector]:
    """Kernel values about their means, the means, the covariances and u, from values (n, J)."""
    means = [k.mean(axis=0) for k in values]
    about = [_about(k, c) for k, c in zip(values, means, strict=True)]
    # With 1 / n, as the covariances of the rows that are tested.
    covariances = [a.T @ a / len(a) for a in about]
    return about, means, covariances, expanded(about, means)[0].mean(axis=0)


def _about(values: Vector, means: Vector) -> Vector:
    """About the means; 0 where all rows are the same but for rounding."""
    about = values - means
    flat = np.abs(about).max(axis=0) <= rounding_unit(np.float64) * np.abs(values).max(axis=0)
    about[:, flat] = 0.0
    return about


def _derivative_weights(
    m: int,
    about: Sequence[Vector],
    means: Sequence[Vector],
    covariances: Sequence[Vector],
    a: Vector,
    form: Vector,
) -> Vector:
    """Derivatives of T / n in the kernel values of variable m, shape (n, J).

    u, the covariance of the values and the outer product of their means change with a value.
    """
    others = [k for k in range(len(about)) if k != m]
    rest, slope = expanded([about[k] for k in others], [means[k] for k in others])
    squares = [np.outer(means[k], means[k]) for k in others]
    in_means, in_both = expanded([covariances[k] for k in others], squares)
    in_covariance = form * (in_means + in_both)
    constant = (form * in_means) @ means[m]
    # By way of u, of the covariances in S, and of the means in S.
    changed = a * (rest + slope) - about[m] @ in_covariance - constant
    weights: Vector = (2.0 / len(changed)) * changed
    return weights


def _slopes(
    kernel: Kernel, x: Vector, z: Vector, gram: Vector, weights: Vector
) -> tuple[Vector, float]:
    """Derivatives of sum_ij weights_ij k(x_i, z_j) in z, shape (J, d), and in log(length).

    They are 0 of a kernel that has no gradient, and in the length of others than radial ones. Those
    stay the same where rows, locations and length grow together, so that the derivative in the
    length is that in all rows and locations, with the opposite sign (Euler).
    """
    in_points = np.zeros_like(z)
    if kernel.differentiable:
        # As k is symmetric.
        in_points = _gradient(kernel, z, x, *map(np.ascontiguousarray, (gram.T, weights.T)))
    if not isinstance(kernel, _RADIAL):
        return in_points, 0.0
    in_rows = _gradient(kernel, x, z, gram, weights)
    centre = 0.0 if kernel.origin is None else np.array(kernel.origin)
    return in_points, -float(np.vdot(x - centre, in_rows) + np.vdot(z - centre, in_points))


def _gradient(kernel: Kernel, x: Vector, z: Vector, gram: Vector, weights: Vector) -> Vector:
    """sum_j weights_ij grad_x k(x_i, z_j), shape (n, d)."""
    rows, _ = kernel.rows_and_columns(x)
    _, columns = kernel.rows_and_columns(z)
    work = np.empty((kernel.gradient_tiles, *gram.shape))
    return kernel.gradient(rows, columns, gram, weights, work).astype(np.float64, copy=False)


@dataclass(frozen=True)
class Training:
    """Locations and bandwidths as one vector that an optimiser moves.

    Locations are in units of the standard deviations of their columns, about the medians, and
    stay among the training rows; bandwidths are logarithms of what they are multiplied by.

    Parameters
    ----------
    kernels : tuple of Kernel
        As fitted.
    rows : tuple of ndarray, shapes (n, d_m)
        The training rows.
    regularisation : float
        Regularisation of the statistic.
    """

    kernels: tuple[Kernel, ...]
    rows: tuple[Vector, ...]
    regularisation: float

    def placed(self, moved: Vector) -> Placed:
        """Parameters that a vector stands for."""
        widths = moved[: len(self.rows)]
        kernels = (
            kernel.widened(math.exp(width)) if isinstance(kernel, _RADIAL) else kernel
            for kernel, width in zip(self.kernels, widths, strict=True)
        )
        parts = self._parts(moved)
        points = (c + s * z for (c, s), z in zip(self._units, parts, strict=True))
        return Placed(tuple(kernels), tuple(points))

    def start(self, at: NDArray[np.intp], factor: float) -> Vector:
        """The vector of some training rows, with bandwidths times a factor."""
        widths = np.full(len(self.rows), math.log(factor))
        units = zip(self.rows, self._units, strict=True)
        return np.concatenate([widths, *(((x[at] - c) / s).ravel() for x, (c, s) in units)])

    def loss(self, moved: Vector) -> tuple[float, Vector]:
        """- log(T / n), with its gradient."""
        kernels, points = self.placed(moved)
        with np.errstate(over="ignore", invalid="ignore"):  # of kernels that hardly vary
            value, gradients, lengths = criterion(kernels, points, self.rows, self.regularisation)
            scaled = (s * g for (_, s), g in zip(self._units, gradients, strict=True))
            whole = np.concatenate([lengths, *(g.ravel() for g in scaled)])
        # A place without a statistic has no direction to climb.
        if value <= 0.0 or not np.isfinite(whole).all():
            return math.inf, np.zeros_like(moved)
        return -math.log(value), -whole / value

    def split(self, count: int, rng: np.random.Generator) -> tuple[Training, tuple[Vector, ...]]:
        """Two thirds of the rows, and the others; all rows twice where that is too few."""
        order = rng.permutation(len(self.rows[0]))
        cut = len(order) // _HELD_OUT
        if len(order) - cut < count or cut == 0:
            return self, self.rows
        part = replace(self, rows=tuple(x[order[cut:]] for x in self.rows))
        return part, tuple(x[order[:cut]] for x in self.rows)

    def way(self, drawn: Sequence[NDArray[np.intp]], factor: float) -> list[Vector]:
        """From the best of some rows upwards; nothing where none has a statistic."""
        from scipy.optimize import minimize  # slow to import

        starts = [self.start(at, factor) for at in drawn]
        values = [self._value(start) for start in starts]
        if max(values) <= 0.0:
            return []
        # Of the rows drawn those with the largest statistic are climbed from.
        start = starts[values.index(max(values))]
        # All places on the way are kept, since the largest on these rows is often none on others.
        passed = [start]
        minimize(
            self.loss,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=self.bounds(len(drawn[0])),
            options={"maxiter": _MOST_STEPS},
            callback=lambda moved: passed.append(moved.copy()),
        )
        return passed

    def _value(self, moved: Vector) -> float:
        """T / n, 0 where there is none."""
        with np.errstate(over="ignore", invalid="ignore"):  # of kernels that hardly vary
            value = value_of(*self.placed(moved), self.rows, self.regularisation)
        return value if math.isfinite(value) else 0.0

    def bounds(self, count: int) -> list[tuple[float, float]]:
        """Bounds of every entry of the vector."""
        wide = math.log(_WIDEST)
        bounds = [(-wide, wide)] * len(self.rows)
        for x, (c, s) in zip(self.rows, self._units, strict=True):
            low, high = (x.min(axis=0) - c) / s, (x.max(axis=0) - c) / s
            bounds += list(zip(low.tolist(), high.tolist(), strict=True)) * count
        return bounds

    @cached_property
    def _units(self) -> list[tuple[Vector, Vector]]:
        """Centre and scale of the columns of every variable."""
        deviations = (x.std(axis=0) for x in self.rows)
        # A constant column has no deviation, and any unit will do.
        return [
            (np.median(x, axis=0), np.where(s > 0.0, s, 1.0))
            for x, s in zip(self.rows, deviations, strict=True)
        ]

    def _parts(self, moved: Vector) -> list[Vector]:
        dims = [x.shape[1] for x in self.rows]
        count = (len(moved) - len(dims)) // sum(dims)
        ends = np.cumsum([count * d for d in dims])[:-1]
        parts = np.split(moved[len(dims) :], ends)
        return [part.reshape(count, d) for part, d in zip(parts, dims, strict=True)]


def place(training: Training, count: int, rng: np.random.Generator) -> Placed:
    """Locations and bandwidths of a large statistic on the training rows.

    On two thirds of them the best of rows drawn with their pairing, at each of several bandwidths,
    are moved along the gradient of the logarithm of the statistic; of all places on these ways, the
    one of the largest statistic on the last third is taken. The largest on the rows that it climbs
    is often none but there, with narrow kernels in many columns.

    Parameters
    ----------
    training : Training
        Rows and kernels.
    count : int
        Locations J, no more than training rows.
    rng : Generator
        Draws the rows that are held out, and where to start.

    Returns
    -------
    Placed
    """
    climbed, held = training.split(count, rng)
    n = len(climbed.rows[0])
    drawn = [rng.choice(n, size=count, replace=False) for _ in range(_DRAWS)]
    ways = (climbed.way(drawn, factor) for factor in _FACTORS)
    places = [climbed.placed(moved) for way in ways for moved in way]
    # Where no start has a statistic, one is as good as another.
    if not places:
        return climbed.placed(climbed.start(drawn[0], 1.0))
    return max(
        places,
        key=lambda placed: value_of(placed.kernels, placed.points, held, training.regularisation),
    )
