"""Draw, select and prune landmarks, the points at which mean embeddings are evaluated.

Landmarks are drawn uniformly from the rows, or selected from a pool of such rows.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
import scipy
from numpy.typing import DTypeLike, NDArray

from dhsic._random import generator
from dhsic._validation import check_choice, check_integer, check_number, shown
from dhsic.errors import InvalidArgumentError, LandmarkWarning, PrecisionWarning
from dhsic.kernels import Kernel
from dhsic.linalg import PivotedCholesky, hadamard, pivoted_cholesky, solve_lower, squared_norms

Pairing = Literal["independent", "joint"]
Selection = Literal["uniform", "rpcholesky", "leverage"]

Indices = NDArray[np.intp]
Matrix64 = NDArray[np.float64]
Vector = NDArray[np.float64]

BLOCK = 128  # candidates of randomly pivoted Cholesky that are drawn at once
POOL_TILE_ROWS = 2048
# A kernel is asked for tiles, of which the diagonal is one entry a row: small ones waste less.
_DIAGONAL_TILE = 64
_TILES = 4
_FEWEST = 64  # rows of a sample on the way to leverage scores
# "8sqrt", "8*sqrt(n)" and "8 sqrt(n)" are the same number.
_SQRT = re.compile(r"(\d+(?:\.\d+)?)?\s*\*?\s*sqrt(?:\(n\))?")
_WORST_ROUNDING = 0.02
# Pivots below the rounding of a tile are noise, and that of float32 is about 1e-4. Of 2,000 normal
# landmarks of two variables of one column 156 stay at 1e-4, and 271 at 1e-8.
_TOLERANCE = {"float32": 1e-4, "float64": 1e-8}


def check_count(count: int | str) -> float | None:
    """The multiple of sqrt(n) that a count is, None of an integer; raise of what is neither."""
    if isinstance(count, str) and (match := _SQRT.fullmatch(count.strip())):
        if (multiple := float(match[1] or 1)) > 0:
            return multiple
    elif isinstance(count, (int, np.integer)) and not isinstance(count, bool) and count >= 1:
        return None
    got = shown(count)
    msg = f"n_landmarks must be an integer >= 1 or a multiple of sqrt(n) as '8sqrt', got {got}"
    raise InvalidArgumentError(msg)


def landmark_count(count: int | str, n: int, *, replace: bool) -> int:
    """Number of landmarks for n rows.

    Parameters
    ----------
    count : int or str
        A number, or a multiple of sqrt(n) such as "8sqrt", which is at most n.
    n : int
        Rows of the data.
    replace : bool
        Whether landmarks are drawn with replacement.

    Returns
    -------
    int

    Raises
    ------
    InvalidArgumentError
        More landmarks than rows without replacement.

    Examples
    --------
    >>> landmark_count("8sqrt", 515_345, replace=False)
    5743
    """
    multiple = check_count(count)
    if multiple is not None:
        # About sqrt(n) landmarks keep the rate n^(-1/2) where the spectrum of the kernel decays
        # exponentially (Chatalic et al. 2022, corollary 4.1; Kalinke and Szabo 2023, remark 2).
        return min(n, max(1, round(multiple * math.sqrt(n))))
    if int(count) > n and not replace:
        msg = (
            f"n_landmarks must be at most the number of rows, got {count} landmarks for {n} rows: "
            f"take at most {n}, or a multiple of sqrt(n) as '8sqrt'"
        )
        raise InvalidArgumentError(msg)
    return int(count)


def prune(
    points: Sequence[NDArray[Any]],
    kernels: Sequence[Kernel],
    tolerance: float,
    *,
    leads: bool = True,
) -> PivotedCholesky:
    """Keep the landmark tuples that span the others in the RKHS of the product kernel.

    The landmarks alone decide on the dropped ones, before any pass over the data: rows are compared
    with the tuples that stay, and the factor serves the solve as well.

    Parameters
    ----------
    points : sequence of ndarray, shapes (p, d_m)
        The landmarks of every variable, of tuples z_j = (z_1j, ..., z_Mj).
    kernels : sequence of Kernel
        One a variable.
    tolerance : float
        See `dhsic.linalg.pivoted_cholesky`.
    leads : bool, optional
        Whether to warn where they are 0 at every landmark: not of kernels beside a reference, which
        has more to compare.

    Returns
    -------
    PivotedCholesky
        Factor of the Gram matrix K_J of the kept tuples, the Hadamard product of the K_m, with
        their numbers.
    """
    # K_J, the Hadamard product of the K_m, is the Gram matrix of the tuples (Kalinke and Szabo
    # 2023, (17)).
    gram = hadamard(kernel(z) for kernel, z in zip(kernels, points, strict=True))
    if leads:
        warn_of_zeros(gram, "the product of the kernels")
    return pivoted_cholesky(gram, tolerance)


def warn_of_zeros(gram: NDArray[np.float64], what: str) -> None:
    """Warn where the Gram matrix of all landmarks is 0.

    So is a linear kernel about the median of a rare flag, where no landmark has the flag.

    Parameters
    ----------
    gram : ndarray, shape (p, p)
        Gram matrix of the landmarks.
    what : str
        Name of the kernels, for the start of the sentence.
    """
    if gram.diagonal().max() <= 0.0:
        msg = (
            f"{what} is 0 at every landmark, so that the landmarks show no dependence: take more "
            "landmarks, or another kernel, as 'gaussian'"
        )
        warnings.warn(msg, LandmarkWarning, stacklevel=2)


def check_landmark_options(n_landmarks: int | str, tolerance: float | None) -> None:
    """Refuse what are no numbers of landmarks and no tolerances."""
    check_count(n_landmarks)
    if tolerance is not None:
        check_number(
            "tolerance",
            tolerance,
            "at least 0 and less than 1",
            lambda share: 0.0 <= share < 1.0,
            "leave it out for one that follows the precision",
        )


def tolerance_for(asked: float | None, dtype: DTypeLike) -> float:
    """The given tolerance, or the one that follows the precision."""
    return _TOLERANCE[np.dtype(dtype).name] if asked is None else asked


def warn_of_rounding(
    names: Sequence[str],
    kernels: Sequence[Kernel],
    columns: Sequence[NDArray[Any]],
    dtype: DTypeLike,
) -> None:
    """Warn of variables whose kernel rounding may change at the landmarks.

    Parameters
    ----------
    names : sequence of str
        Names of the variables.
    kernels : sequence of Kernel
        As fitted.
    columns : sequence of ndarray
        The prepared landmarks of every variable.
    dtype : dtype
        Precision of the tiles.
    """
    for name, kernel, prepared in zip(names, kernels, columns, strict=True):
        rounding = kernel.rounding(prepared)
        if rounding > _WORST_ROUNDING:
            msg = (
                f"variable {name!r} has landmarks so many bandwidths from its median that "
                f"{np.dtype(dtype)} tiles of its kernel may be off by {rounding:.1g}: use "
                "precision='float64', a wider bandwidth, or transform its tails"
            )
            warnings.warn(msg, PrecisionWarning, stacklevel=2)


def uniform_rows(
    seed: int, n: int, p: int, n_variables: int, *, pairing: Pairing, replace: bool
) -> list[NDArray[np.intp]]:
    """Rows of the landmarks of every variable.

    Parameters
    ----------
    seed : int
        The seed of the test.
    n, p : int
        Rows and landmarks.
    n_variables : int
        Variables, M.
    pairing : {"independent", "joint"}
        Draw the rows of every variable independently of the other variables, so that landmarks do
        not depend on the pairing and a permutation test with fixed landmarks is exact; or take the
        same rows for all variables, as Kalinke and Szabo (2023), equation 14.
    replace : bool
        Draw with replacement.

    Returns
    -------
    list of ndarray of int, shapes (p,)
    """
    draws = [
        # A stream for each variable: with one seed for two variables their landmarks are the same
        # rows, and 76 to 100 % of true nulls were rejected.
        generator(seed, "landmarks", m).choice(n, size=p, replace=replace)
        for m in range(n_variables if pairing == "independent" else 1)
    ]
    # Joint tuples are rows of the data (Kalinke and Szabo 2023, (14)).
    return draws if pairing == "independent" else draws * n_variables


@dataclass(frozen=True)
class Pool:
    """Rows to choose landmarks from, with the product of their kernels.

    Its Gram matrix (s, s) is the Hadamard product of those of the variables, in float64. It is
    evaluated where asked and never held.

    Parameters
    ----------
    kernels : tuple of Kernel
        One fitted kernel a variable.
    points : tuple of ndarray, shapes (s, d_m)
        The same rows of every variable.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.kernels import Delta, Linear
    >>> x, y = np.array([[1.0], [2.0], [3.0]]), np.array([[0], [0], [1]])
    >>> pool = Pool((Linear(), Delta()), (x, y))
    >>> pool.columns(np.array([1]))
    array([[2.],
           [4.],
           [0.]])
    >>> pool.diagonal()
    array([1., 4., 9.])
    """

    kernels: tuple[Kernel, ...]
    points: tuple[NDArray[Any], ...]

    def __len__(self) -> int:
        return len(self.points[0])

    def columns(self, indices: NDArray[np.intp]) -> Matrix64:
        """Columns of the Gram matrix, shape (s, len(indices))."""
        return self.gram(slice(None), indices)

    def diagonal(self) -> Matrix64:
        """k(x, x) of every row, shape (s,)."""
        starts = range(0, len(self), _DIAGONAL_TILE)
        tiles = [slice(start, start + _DIAGONAL_TILE) for start in starts]
        return np.concatenate([self.gram(rows, rows).diagonal() for rows in tiles])

    def gram(self, rows: Indices | slice, columns: Indices | slice) -> Matrix64:
        """Gram matrix between some rows and some others, shape (b, c)."""
        pairs = zip(self.kernels, self._prepared, strict=True)
        parts = [(kernel, x[rows], z[columns]) for kernel, (x, z) in pairs]
        gram = np.empty((len(parts[0][1]), len(parts[0][2])))
        for start in range(0, len(gram), POOL_TILE_ROWS):
            at = slice(start, start + POOL_TILE_ROWS)
            gram[at] = hadamard(kernel.gram(x[at], z) for kernel, x, z in parts)
        return gram

    def tolerance(self) -> float:
        """Largest squared distance in feature space that may be rounding, more than 0."""
        prepared = zip(self.kernels, self._prepared, strict=True)
        # |phi(x) - phi(z)|^2 is a sum of four values of the kernel, each with its own rounding.
        rounding = sum(kernel.rounding(columns) for kernel, (_, columns) in prepared)
        share = len(self) * float(np.finfo(np.float64).eps) + rounding
        return max(4.0 * share * float(self.diagonal().max()), float(np.finfo(np.float64).tiny))

    @cached_property
    def _prepared(self) -> list[tuple[NDArray[Any], NDArray[Any]]]:
        # Prepared once: selections ask for columns again and again.
        pairs = zip(self.kernels, self.points, strict=True)
        return [kernel.rows_and_columns(x) for kernel, x in pairs]


def select(selection: Selection, pool: Pool, p: int, rng: np.random.Generator) -> Indices:
    """Choose p distinct rows of a pool as landmarks.

    Distances are those of the features, |phi(x) - phi(z)|^2 = k(x, x) + k(z, z) - 2 k(x, z).

    Parameters
    ----------
    selection : {"uniform", "rpcholesky", "leverage"}
        How:

        - "uniform": every set of p rows is as likely.
        - "rpcholesky": one after another, with probability proportional to the squared distance
          to the span of those taken: randomly pivoted Cholesky [1]_, in the blocks of [2]_.
        - "leverage": without replacement, in proportion to recursively estimated ridge leverage
          scores, with a ridge that counts about p / (4 log p) dimensions [3]_.
    pool : Pool
        s rows.
    p : int
        Rows to choose, at most s.
    rng : Generator
        Draws what is random.

    Returns
    -------
    ndarray of int, shape (p,)
        Distinct numbers of rows in random order, so that the place of a landmark does not depend on
        the step at which it was taken. If the chosen rows span all others up to rounding, as with
        repeated rows or a kernel of few dimensions, the remaining landmarks are drawn uniformly
        from the other rows.

    Raises
    ------
    InvalidArgumentError
        An unknown selection, or more landmarks than rows in the pool.

    Notes
    -----
    Time is of order s p kernel values and s p^2 more but for "uniform"; memory is of order s p for
    "rpcholesky", and s + p^2 for "leverage". See `select_bytes`.

    References
    ----------
    .. [1] Y. Chen, E. N. Epperly, J. A. Tropp, R. J. Webber. Randomly pivoted Cholesky: practical
       approximation of a kernel matrix with few entry evaluations. CPAM 2024.
    .. [2] E. N. Epperly, J. A. Tropp, R. J. Webber. Embrace rejection: kernel matrix
       approximation by accelerated randomly pivoted Cholesky. 2024.
    .. [3] C. Musco, C. Musco. Recursive sampling for the Nystrom method. NeurIPS 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.kernels import Gaussian
    >>> pool = Pool((Gaussian(gamma=1.0),), (np.array([[0.0], [0.1], [3.0], [3.1], [9.0]]),))
    >>> sorted(select("leverage", pool, 3, np.random.default_rng(0)).tolist())
    [0, 2, 4]
    """
    check_choice("selection", selection, get_args(Selection))
    check_integer("p", p, minimum=1)
    if p > len(pool):
        msg = (
            f"a selection needs a pool of at least as many rows as landmarks, got {len(pool)} rows "
            f"for {p} landmarks: take a larger pool or fewer landmarks"
        )
        raise InvalidArgumentError(msg)
    if selection == "uniform" or p == len(pool):
        taken = np.zeros(0, np.intp)
    elif selection == "leverage":
        taken = leverage_rows(pool, p, rng)
    else:
        taken = pivoted_rows(pool, p, rng)
    # A rule stops where the pool is spanned; the rest is uniform, so that p rows are there at any
    # rate.
    rest = np.delete(np.arange(len(pool)), taken)
    filled = rng.choice(rest, size=p - len(taken), replace=False)
    return rng.permutation(np.append(taken, filled))


def pivoted_rows(pool: Pool, p: int, rng: np.random.Generator) -> Indices:
    """Take rows one after another, with probability proportional to the squared distance.

    The distance is that to the span of the rows taken, by a partial Cholesky factorisation. A block
    of rows is drawn with the distances as they are. Each is then rejected with the share of its
    squared distance that the rows taken before it have removed, which leaves the law as it is
    (Epperly, Tropp and Webber 2024, Embrace rejection: kernel matrix approximation by accelerated
    randomly pivoted Cholesky). The first is always taken.

    Parameters
    ----------
    pool : Pool
        s rows.
    p : int
        Rows to take.
    rng : Generator
        Draws the blocks.

    Returns
    -------
    ndarray of int, shape (r,)
        r <= p distinct rows in the order in which they were taken; fewer than p where they leave
        nothing of the others.
    """
    squared, tolerance = pool.diagonal(), pool.tolerance()
    size = min(BLOCK, len(pool))
    # Column j is the part of row j's feature that the rows before it do not span.
    factor = np.empty((len(pool), p))
    taken = np.zeros(0, np.intp)
    while len(taken) < p and squared.any():
        candidates = rng.choice(len(pool), size=size, p=squared / squared.sum())
        # A candidate passes while its distance exceeds a uniform share of the one it was drawn
        # with.
        bars = rng.random(size) * squared[candidates]
        known = factor[:, : len(taken)]
        # K - L L' holds the inner products of what is outside of the span of the rows taken.
        left = pool.gram(candidates, candidates) - known[candidates] @ known[candidates].T
        distances, own, passed = squared[candidates], np.empty((size, size)), list[int]()
        for i, bar in enumerate(bars):
            if len(taken) + len(passed) == p or distances[i] <= bar:
                continue
            new = left[:, i] - own[:, : len(passed)] @ own[i, : len(passed)]
            new /= math.sqrt(distances[i])
            new[i] = math.sqrt(distances[i])
            own[:, len(passed)] = new
            distances -= new**2
            # Distances that are rounding would be divided by, and a row that was drawn twice is
            # taken once.
            distances[(distances <= tolerance) | (candidates == candidates[i])] = 0.0
            passed.append(i)
        rows, lower = candidates[passed], own[passed, : len(passed)]
        # A block step of Cholesky: the Gram matrix less what earlier columns hold, then a
        # triangular solve.
        columns = pool.columns(rows)
        columns -= known @ known[rows].T
        block = solve_lower(lower, columns.T)
        block[:, rows] = lower.T  # where rounding could leave a 0 on the diagonal
        factor[:, len(taken) : len(taken) + len(rows)] = block.T
        # By Pythagoras a new direction takes its squared coordinate off the squared distance.
        squared -= squared_norms(block)
        squared[squared <= tolerance] = 0.0
        squared[rows] = 0.0
        taken = np.append(taken, rows)
    return taken


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
    # Half of the rows, half of those, and so on, until no more than the aim.
    sizes = [-(-len(pool) // 2)]
    while sizes[-1] > aim:
        sizes.append(-(-sizes[-1] // 2))
    *upper, lowest = sizes
    sample, weights = order[:lowest], np.ones(lowest)
    for size in reversed(upper):
        rows = order[:size]
        chances = oversampling * ridge_scores(pool, rows, sample, weights, dimensions)
        chances[np.argmax(chances)] = 1.0  # a sample of none would leave nothing to go by
        chances = np.minimum(chances, 1.0)
        # About p rows in expectation and no more, so that the next level costs what was planned.
        chances *= min(1.0, aim / chances.sum())
        drawn = rng.random(size) < chances
        # Weights 1 / sqrt(chance) make S S' the identity in expectation.
        sample, weights = rows[drawn], chances[drawn] ** -0.5
    scores = ridge_scores(pool, np.arange(len(pool)), sample, weights, dimensions)
    count = min(p, int(np.count_nonzero(scores)))
    if count == 0:
        return np.zeros(0, np.intp)
    return rng.choice(len(pool), size=count, replace=False, p=scores / scores.sum())


def ridge_scores(
    pool: Pool, rows: Indices, sample: Indices, weights: Vector, dimensions: int
) -> Vector:
    """Ridge leverage scores with the features of a weighted sample S in place of all.

    l_i = (K - K S (S' K S + lambda)^-1 S' K)_ii / lambda, at most 1. With S = I they are the
    diagonal of K (K + lambda)^-1; with rows of the pool as they are, they are larger. Here lambda
    is the sum of the eigenvalues of S' K S beyond so many, over so many, as in algorithm 3.

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
    dimensions : int
        Leading eigenvalues that are left out of lambda.

    Returns
    -------
    ndarray, shape (b,)
        In [0, 1].
    """
    gram = pool.gram(sample, sample)
    gram *= weights
    gram *= weights[:, None]
    values = scipy.linalg.eigvalsh(gram.T, check_finite=False)
    # A ridge below rounding would let the Cholesky factorisation fail.
    rounding = pool.tolerance() * float(weights.max()) ** 2
    ridge = max(float(values[:-dimensions].sum()) / dimensions, rounding)
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
            aim = max(p, _FEWEST)
            # Most rows of a sample on the way: six standard deviations above its mean.
            m = min(math.ceil(aim + 6.0 * math.sqrt(aim)), s)
            numbers = rows + m * (2 * m + tile)
        case "rpcholesky":
            numbers = rows + s * (p + 3 * block) + block * (2 * p + tile) + 4 * BLOCK * BLOCK
    return 8 * numbers
