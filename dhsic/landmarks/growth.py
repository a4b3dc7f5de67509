"""How many landmarks are enough: a set that grows until little of the null is missed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, product, takewhile

import numpy as np
from numpy.typing import NDArray

from dhsic.kernels import Kernel
from dhsic.linalg import hadamard, pivoted_cholesky, solve_lower

FEWEST = 32

Matrix64 = NDArray[np.float64]
PointSets = Sequence[Matrix64]


@dataclass(frozen=True)
class Growth:
    """Where a set of landmarks stopped to grow.

    Parameters
    ----------
    count : int
        Landmarks taken, the first so many.
    missed : float or None
        The share of the null's standard deviation that they miss, from 0 to 1; None where the rows
        of the pilot are all alike and cannot tell.
    """

    count: int
    missed: float | None


def grow(
    kernels: Sequence[Kernel],
    landmarks: PointSets,
    pilot: PointSets,
    allowed: float,
    tolerance: float,
    fewest: int = FEWEST,
) -> Growth:
    """Take landmarks until they miss no more than a share of the null's standard deviation.

    Let xi be the centred product of a row's features, whose mean is the embedding of the joint
    distribution less that of the product of the marginals, and C its covariance. Under independence
    n times the squared norm of the mean has the standard deviation sqrt(2) |C|, in the
    Hilbert-Schmidt norm, and what is outside the span of the landmarks' features has
    sqrt(2) |(I - P) C (I - P)|. Both are those of the V-statistic of the pilot rows, which errs
    towards more landmarks, as where a value is so rare that the pilot has it once.

    The trace of (I - P) C (I - P) is no measure of what a test loses: it moves the statistics of
    all permutations alike.

    Parameters
    ----------
    kernels : sequence of Kernel
        One fitted kernel a variable.
    landmarks : sequence of ndarray, shapes (p, d_m)
        In the order in which they are taken.
    pilot : sequence of ndarray, shapes (e, d_m)
        Rows that are none of the landmarks.
    allowed : float
        The share, as 0.1.
    tolerance : float
        See `dhsic.linalg.pivoted_cholesky`.
    fewest : int, optional
        Landmarks to start with. Their number grows by the square root of 2.

    Returns
    -------
    Growth
        Growth to all p landmarks where no fewer are enough or the pilot cannot tell.

    Examples
    --------
    >>> from dhsic.kernels import Gaussian
    >>> rng = np.random.default_rng(0)
    >>> z, x = rng.standard_normal((2, 1000, 1)), rng.standard_normal((2, 300, 1))
    >>> grow((Gaussian(gamma=0.5),) * 2, z, x, allowed=0.1, tolerance=1e-8).count
    32
    """
    whole = centred_gram(kernels, pilot)
    # Kernels that do not vary on the pilot leave nothing that landmarks could miss.
    if not _gram_norm(whole) > len(whole) * np.finfo(np.float64).eps:
        return Growth(len(landmarks[0]), None)
    cross = _centred_products(kernels, landmarks, pilot)
    for size in _sizes(fewest, len(cross)):
        gram = hadamard(k(z[:size]) for k, z in zip(kernels, landmarks, strict=True))
        missed = missed_spread(whole, gram, cross[:size], tolerance)
        if missed <= allowed:
            break
    return Growth(size, missed)


def missed_spread(whole: Matrix64, gram: Matrix64, cross: Matrix64, tolerance: float) -> float:
    """|(I - P) C (I - P)| / |C| on a pilot, with P the projection on the landmarks' features.

    Parameters
    ----------
    whole : ndarray, shape (e, e)
        Inner products of xi, not 0.
    gram : ndarray, shape (p, p)
        K_J of the landmarks. Overwritten.
    cross : ndarray, shape (p, e)
        xi at the landmarks.
    tolerance : float
        See `dhsic.linalg.pivoted_cholesky`.

    Returns
    -------
    float
    """
    factor = pivoted_cholesky(gram, tolerance)
    # <P xi_i, P xi_j> = known_i' known_j, so that the rest is what the landmarks miss of the
    # covariance.
    known = solve_lower(factor.factor, cross[factor.kept])
    return _gram_norm(whole - known.T @ known) / _gram_norm(whole)


def centred_gram(kernels: Sequence[Kernel], rows: PointSets) -> Matrix64:
    """Inner products of the centred products xi of some rows, with their own means.

    xi = (x)_m phi_m - sum_m phi_m (x) (x)_{l != m} mu_l + (M - 1) (x)_m mu_m, for which all
    inner products of phi_m and mu_m are those of the rows.

    Parameters
    ----------
    kernels : sequence of Kernel
        One fitted kernel a variable.
    rows : sequence of ndarray, shapes (e, d_m)
        Rows of every variable.

    Returns
    -------
    ndarray, shape (e, e)
    """
    m = len(kernels)
    inner = []
    for kernel, x in zip(kernels, rows, strict=True):
        gram = kernel(x)
        means = gram.mean(axis=0)
        # <mu, mu>, <mu, phi_j>, <phi_i, mu> and <phi_i, phi_j>: each side holds phi or mu.
        inner.append(((np.array([[means.mean()]]), means[None, :]), (means[:, None], gram)))
    # Each xi is a signed sum of tensor products; inner products of those are products of numbers.
    terms = [
        (set(range(m)), 1.0),
        *(({variable}, -1.0) for variable in range(m)),
        (set[int](), m - 1.0),
    ]
    whole = np.zeros((len(rows[0]),) * 2)
    for (left, a), (right, b) in product(terms, repeat=2):
        whole += a * b * math.prod(inner[v][v in left][v in right] for v in range(m))
    return whole


def _centred_products(kernels: Sequence[Kernel], landmarks: PointSets, rows: PointSets) -> Matrix64:
    """The products xi of the rows at the landmarks, shape (p, e)."""
    tiles = [k(z, x) for k, z, x in zip(kernels, landmarks, rows, strict=True)]
    means = [tile.mean(axis=1, keepdims=True) for tile in tiles]
    others = [math.prod(means[:m] + means[m + 1 :], start=1.0) for m in range(len(means))]
    single = sum(tile * other for tile, other in zip(tiles, others, strict=True))
    # xi = prod_m k_m - sum_m k_m prod_{l != m} kappa_l + (M - 1) prod_l kappa_l, with the means
    # kappa of these rows.
    products = hadamard(tiles)
    products -= single
    products += (len(means) - 1) * math.prod(means)
    return products


def _gram_norm(gram: Matrix64) -> float:
    return float(np.linalg.norm(gram))


def _sizes(fewest: int, most: int) -> Iterator[int]:
    """From the fewest by the square root of 2, and the most."""
    # Two steps double the landmarks: a step costs less than the answer, and overshoots it by 41 %
    # at most.
    sizes = (round(fewest * 2.0 ** (power / 2.0)) for power in count())
    yield from takewhile(lambda size: size < most, sizes)
    yield most
