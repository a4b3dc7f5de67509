"""Rows by their ridge leverage scores, estimated recursively."""

from __future__ import annotations

import math

import numpy as np
import scipy
from numpy.typing import NDArray

from dhsic.landmarks.pool import POOL_TILE_ROWS, Pool
from dhsic.linalg import solve_lower, squared_norms

_FEWEST = 64

Indices = NDArray[np.intp]
Vector = NDArray[np.float64]


def leverage_rows(pool: Pool, p: int, rng: np.random.Generator) -> Indices:
    """Draw rows without replacement, in proportion to their ridge leverage scores.

    Musco and Musco (2017), Recursive sampling for the Nystrom method, algorithm 3, with the
    constants of the authors' program and exactly p rows at the top. The scores come from a
    weighted sample of half of the rows, drawn by scores from a sample of half of those, and so
    on; half of the rows can only give scores that are too large. Samples have p rows or 64 in
    expectation, whichever are more, because of too few rows chance alone would decide.

    Parameters
    ----------
    pool : Pool
        s rows.
    p : int
        Rows to draw, less than s.
    rng : Generator
        Draws them.

    Returns
    -------
    ndarray of int, shape (r,)
        p distinct rows, or all whose score is above 0 where they are fewer.
    """
    aim = max(p, _FEWEST)
    # Both constants are those of the authors' program.
    oversampling = math.log(aim)
    dimensions = math.ceil(aim / (4.0 * oversampling))
    order = rng.permutation(len(pool))
    *upper, lowest = _halves(len(pool), aim)
    sample, weights = order[:lowest], np.ones(lowest)
    for size in reversed(upper):
        rows = order[:size]
        ridge = tail_ridge(pool, sample, weights, dimensions)
        chances = oversampling * ridge_scores(pool, rows, sample, weights, ridge)
        chances[np.argmax(chances)] = 1.0  # a sample of none would leave nothing to go by
        chances = np.minimum(chances, 1.0)
        # About p rows in expectation and no more, so that the next level costs what was planned.
        chances *= min(1.0, aim / chances.sum())
        drawn = rng.random(size) < chances
        # Weights 1 / sqrt(chance) make S S' the identity in expectation.
        sample, weights = rows[drawn], chances[drawn] ** -0.5
    ridge = tail_ridge(pool, sample, weights, dimensions)
    scores = ridge_scores(pool, np.arange(len(pool)), sample, weights, ridge)
    count = min(p, int(np.count_nonzero(scores)))
    if count == 0:
        return np.zeros(0, np.intp)
    return rng.choice(len(pool), size=count, replace=False, p=scores / scores.sum())


def sample_size(p: int) -> int:
    """Most rows of a sample on the way to p rows: six standard deviations above its mean."""
    aim = max(p, _FEWEST)
    return math.ceil(aim + 6.0 * math.sqrt(aim))


def tail_ridge(pool: Pool, sample: Indices, weights: Vector, dimensions: int) -> float:
    """Sum of the eigenvalues beyond so many, over so many: lambda of algorithm 3.

    Parameters
    ----------
    pool : Pool
        The rows.
    sample : ndarray of int, shape (m,)
        Rows whose weighted Gram matrix stands for that of all.
    weights : ndarray, shape (m,)
        Factors of their features.
    dimensions : int
        Leading eigenvalues that are left out.

    Returns
    -------
    float
        More than what may be rounding.
    """
    gram = _weighted_gram(pool, sample, weights)
    values = scipy.linalg.eigvalsh(gram.T, overwrite_a=True, check_finite=False)
    # A ridge below rounding would let the Cholesky factorisation fail.
    rounding = pool.tolerance() * float(weights.max()) ** 2
    return max(float(values[:-dimensions].sum()) / dimensions, rounding)


def ridge_scores(
    pool: Pool, rows: Indices, sample: Indices, weights: Vector, ridge: float
) -> Vector:
    """Ridge leverage scores with the features of a weighted sample S in place of all.

    l_i = (K - K S (S' K S + lambda)^-1 S' K)_ii / lambda, at most 1. With S = I they are the
    diagonal of K (K + lambda)^-1; with rows of the pool as they are, they are larger.

    Parameters
    ----------
    pool : Pool
        The rows.
    rows : ndarray of int, shape (b,)
        Rows to score.
    sample : ndarray of int, shape (m,)
        Rows of S.
    weights : ndarray, shape (m,)
        Factors of their features.
    ridge : float
        lambda.

    Returns
    -------
    ndarray, shape (b,)
        In [0, 1].
    """
    gram = _weighted_gram(pool, sample, weights)
    gram.flat[:: len(gram) + 1] += ridge
    factor = scipy.linalg.cholesky(gram.T, lower=True, overwrite_a=True, check_finite=False)
    left = pool.diagonal()[rows]
    for start in range(0, len(rows), POOL_TILE_ROWS):
        at = slice(start, start + POOL_TILE_ROWS)
        cross = pool.gram(rows[at], sample) * weights
        # k(x, x) less its part in the span of the sample: a Schur complement, by one triangular
        # solve.
        left[at] -= squared_norms(solve_lower(factor, cross.T))
    scores: Vector = np.clip(left / ridge, 0.0, 1.0)
    return scores


def _weighted_gram(pool: Pool, sample: Indices, weights: Vector) -> NDArray[np.float64]:
    gram = pool.gram(sample, sample)
    gram *= weights
    gram *= weights[:, None]
    return gram


def _halves(s: int, p: int) -> list[int]:
    """Half of s, half of that, and so on, until no more than p."""
    sizes = [-(-s // 2)]
    while sizes[-1] > p:
        sizes.append(-(-sizes[-1] // 2))
    return sizes
