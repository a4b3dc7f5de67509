"""Landmarks chosen from a pool of rows, by the rows of the pool alone."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from dhsic._validation import check_choice, check_integer
from dhsic.errors import InvalidArgumentError
from dhsic.landmarks.distances import NearestDistances, SpanDistances
from dhsic.landmarks.leverage import leverage_rows, sample_size
from dhsic.landmarks.pivots import BLOCK, farthest_rows, random_rows, take_pivots
from dhsic.landmarks.pool import POOL_TILE_ROWS, Pool

Selection = Literal["uniform", "rpcholesky", "leverage", "kmeans++", "coherence", "determinant"]

_TILES = 4

Indices = NDArray[np.intp]


def select(selection: Selection, pool: Pool, p: int, rng: np.random.Generator) -> Indices:
    """Choose p distinct rows of a pool as landmarks.

    Distances are those of the features, |phi(x) - phi(z)|^2 = k(x, x) + k(z, z) - 2 k(x, z).

    Parameters
    ----------
    selection : {"uniform", "rpcholesky", "leverage", "kmeans++", "coherence", "determinant"}
        How:

        - "uniform": every set of p rows is as likely.
        - "rpcholesky": one after another, with probability proportional to the squared distance
          to the span of those taken: randomly pivoted Cholesky [1]_, in the blocks of [2]_.
        - "leverage": without replacement, in proportion to recursively estimated ridge leverage
          scores, with a ridge that counts about p / (4 log p) dimensions [3]_.
        - "kmeans++": one after another, with probability proportional to the squared distance to
          the nearest of those taken [4]_.
        - "coherence": the first row, then always the row farthest from the nearest of those
          taken, so that no two are coherent [5]_.
        - "determinant": always the row farthest from the span of those taken, which makes the
          determinant of their Gram matrix grow the most: greedy maximum of a determinantal point
          process [6]_.
    pool : Pool
        s rows in random order: of equally far ones the first is taken.
    p : int
        Rows to choose, at most s.
    rng : Generator
        Draws what is random.

    Returns
    -------
    ndarray of int, shape (p,)
        Distinct numbers of rows in random order, so that the place of a landmark says nothing of
        the turn at which it was taken. Where the rows taken leave nothing of the others but
        rounding, as where rows repeat or the kernel has few dimensions, the rest is drawn
        uniformly from the rows that are left.

    Raises
    ------
    InvalidArgumentError
        An unknown selection, or more landmarks than rows in the pool.

    Notes
    -----
    Time is of order s p kernel values for "kmeans++" and "coherence", and s p^2 more for the
    others but "uniform"; memory is of order s p, and s + p^2 for "leverage". See `select_bytes`.

    References
    ----------
    .. [1] Y. Chen, E. N. Epperly, J. A. Tropp, R. J. Webber. Randomly pivoted Cholesky: practical
       approximation of a kernel matrix with few entry evaluations. CPAM 2024.
    .. [2] E. N. Epperly, J. A. Tropp, R. J. Webber. Embrace rejection: kernel matrix
       approximation by accelerated randomly pivoted Cholesky. 2024.
    .. [3] C. Musco, C. Musco. Recursive sampling for the Nystrom method. NeurIPS 2017.
    .. [4] D. Arthur, S. Vassilvitskii. k-means++: the advantages of careful seeding. SODA 2007.
    .. [5] E. Cruz Cortes, C. Scott. Sparse approximation of a kernel mean. IEEE Transactions on
       Signal Processing, 2017.
    .. [6] L. Chen, G. Zhang, E. Zhou. Fast greedy MAP inference for determinantal point process
       to improve recommendation diversity. NeurIPS 2018.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.kernels import Gaussian
    >>> pool = Pool((Gaussian(gamma=1.0),), (np.array([[0.0], [0.1], [3.0], [3.1], [9.0]]),))
    >>> sorted(select("coherence", pool, 3, np.random.default_rng(0)).tolist())
    [0, 3, 4]
    """
    check_choice("selection", selection, get_args(Selection))
    check_integer("p", p, minimum=1)
    if p > len(pool):
        msg = (
            f"a selection needs a pool of at least as many rows as landmarks, got {len(pool)} rows "
            f"for {p} landmarks: take a larger pool or fewer landmarks"
        )
        raise InvalidArgumentError(msg)
    return rng.permutation(in_turn("uniform" if p == len(pool) else selection, pool, p, rng))


def in_turn(selection: Selection, pool: Pool, p: int, rng: np.random.Generator) -> Indices:
    """The rows that `select` chooses, in the order in which they are taken.

    All but "leverage" take one row after another, whatever p: of their p rows the first m are a
    choice of m.

    Parameters
    ----------
    selection, pool, p, rng
        As for `select`.

    Returns
    -------
    ndarray of int, shape (p,)

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.kernels import Gaussian
    >>> pool = Pool((Gaussian(gamma=1.0),), (np.array([[0.0], [0.1], [3.0], [3.1], [9.0]]),))
    >>> in_turn("coherence", pool, 3, np.random.default_rng(0)).tolist()
    [0, 4, 3]
    """
    taken = _take(selection, pool, p, rng)
    # A rule stops where the pool is spanned; the rest is uniform, so that p rows are there at any
    # rate.
    rest = np.delete(np.arange(len(pool)), taken)
    filled = rng.choice(rest, size=p - len(taken), replace=False)
    return np.append(taken, filled)


def select_bytes(selection: Selection, s: int, p: int, d: int) -> int:
    """Bytes that a selection holds at most, besides the rows of the pool.

    Parameters
    ----------
    selection : str
        As in `select`.
    s, p : int
        Rows of the pool, and landmarks.
    d : int
        Prepared columns of all variables, the sum of their kernels' ``width(d_m)``.

    Returns
    -------
    int
        Number of order s p, or s + p^2 for "leverage".

    Examples
    --------
    >>> select_bytes("rpcholesky", 20_000, 5_000, 12)
    888272896
    """
    rows, tile, block = s * (3 * d + 12), _TILES * min(s, POOL_TILE_ROWS), min(s, p, BLOCK)
    match selection:
        case "uniform":
            numbers = 6 * s
        case "leverage":
            m = min(sample_size(p), s)
            numbers = rows + m * (2 * m + tile)
        case "rpcholesky" | "determinant":
            numbers = rows + s * (p + 3 * block) + block * (2 * p + tile) + 4 * BLOCK * BLOCK
        case "kmeans++" | "coherence":
            numbers = rows + 3 * s * block + block * tile + 4 * BLOCK * BLOCK
    return 8 * numbers


def _take(selection: Selection, pool: Pool, p: int, rng: np.random.Generator) -> Indices:
    """Rows by the selection's rule, fewer than p where it finds no more."""
    match selection:
        case "uniform":
            return np.zeros(0, np.intp)
        case "leverage":
            return leverage_rows(pool, p, rng)
        case "rpcholesky":
            return take_pivots(pool, SpanDistances.start(pool, p), p, random_rows, rng)
        case "determinant":
            return take_pivots(pool, SpanDistances.start(pool, p), p, farthest_rows, rng)
        case "kmeans++":
            return take_pivots(pool, NearestDistances.start(pool), p, random_rows, rng)
        case "coherence":
            return take_pivots(pool, NearestDistances.start(pool), p, farthest_rows, rng)
