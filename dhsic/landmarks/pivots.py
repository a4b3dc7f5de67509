"""Rules by which rows are taken one after another, in blocks that give the same rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dhsic.landmarks.distances import Distances
from dhsic.landmarks.pool import Pool

BLOCK = 128

Rule = Callable[[Pool, Distances, int, np.random.Generator], None]


def take_pivots(
    pool: Pool, distances: Distances, p: int, rule: Rule, rng: np.random.Generator
) -> NDArray[np.intp]:
    """Take rows until there are p, or until those taken leave nothing of the others.

    Parameters
    ----------
    pool : Pool
        The rows.
    distances : Distances
        From them to those taken; none at first.
    p : int
        Rows to take.
    rule : callable
        `random_rows` or `farthest_rows`; takes at least one and at most a given number of rows.
    rng : Generator
        For the rule.

    Returns
    -------
    ndarray of int, shape (r,)
        r <= p distinct rows in the order in which they were taken.
    """
    while len(distances.taken) < p and distances.squared.any():
        rule(pool, distances, p - len(distances.taken), rng)
    return np.array(distances.taken, np.intp)


def random_rows(pool: Pool, distances: Distances, most: int, rng: np.random.Generator) -> None:
    """Take rows one after another, each with probability proportional to its squared distance.

    A block of rows is drawn with the distances as they are. Each is then rejected with the share
    of its squared distance that the rows taken before it have removed, which leaves the law as it
    is (Epperly, Tropp and Webber 2024, Embrace rejection: kernel matrix approximation by
    accelerated randomly pivoted Cholesky). The first is always taken.
    """
    squared = distances.squared
    size = min(BLOCK, len(pool))
    candidates = rng.choice(len(pool), size=size, p=squared / squared.sum())
    # A candidate passes while its distance exceeds a uniform share of the one it was drawn with.
    bars = rng.random(size) * squared[candidates]
    played = distances.among(pool, candidates)
    for i, bar in enumerate(bars):
        if len(played.taken) < most and played.squared[i] > bar:
            played.take(i)
            # A row that was drawn twice is taken once.
            bars[candidates == candidates[i]] = np.inf
    distances.take_all(candidates, played)


def farthest_rows(pool: Pool, distances: Distances, most: int, rng: np.random.Generator) -> None:
    """Take rows one after another, each the farthest; of equally far ones the first in the pool.

    The farthest rows play it out among themselves for as long as one of them is farther than all
    others, whose distances can only have shrunk.
    """
    del rng
    # Rows of a block are compared among themselves before the pool is: a product with a block of
    # columns costs far less than as many products with one.
    squared, tolerance = distances.squared, distances.tolerance
    size = min(BLOCK, len(pool))
    order = np.argpartition(squared, len(pool) - size)
    candidates = np.union1d(order[len(pool) - size :], _farthest(squared, tolerance))
    others = float(squared[order[: len(pool) - size]].max(initial=0.0))
    played = distances.among(pool, candidates)
    played.take(_farthest(played.squared, tolerance))
    while len(played.taken) < most and played.squared.max() > others + tolerance:
        played.take(_farthest(played.squared, tolerance))
    distances.take_all(candidates, played)


def _farthest(squared: NDArray[np.float64], tolerance: float) -> int:
    return int(np.argmax(squared >= squared.max() - tolerance))
