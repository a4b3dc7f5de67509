"""Check whether rows that are stored side by side are alike, and thus not exchangeable."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from dhsic._random import generator
from dhsic.engine.passes import kinds_of
from dhsic.engine.session import Session
from dhsic.errors import DependentRowsWarning

Matrix64 = NDArray[np.float64]
Indices = NDArray[np.intp]

_ROWS = 16_384
_FEW_ROWS = 1024  # however wide
_BYTES = 2 * 2**20
_RUNS = 16
_FEWEST_ROWS = 50
_SHARE_OF_CHUNKS = 50
_COLUMNS = 128  # of all variables; each more must be the clearer
_WAVES = 4
_LAGS = 6
# Standard errors, in both variables. Of 1,000 data sets of 60 exchangeable rows at most 5 raise
# an alarm where both variables are equal, and none where they are independent: normal and Cauchy
# draws, counts, rare events and codes. Of 300 rows it is at most 1.
_CERTAIN = 3.3
_NOTHING = 1e-9  # rounding, relative to a wave
_MATTERS = 0.015  # alike by less, level 5 % stays below 6 % or so
# Rows of a window, or the root of the number of all. Of 100 sorted files x, sin(20 x) of 60 to
# 1,000 rows none is taken for series; of 100 pairs of AR(0.9) beside a counter 94
# of 100 rows are seen, and all of 200.
_WIDEST = 64
_REMEDIES = {
    "order": "order='time' for a series",
    "groups": "groups= for rows that belong together",
    "strata": "strata= where they are exchangeable within strata",
}

_NO_REMEDY = (
    "No argument here is for such rows: take rows that lie apart, as every tenth of a series, or "
    "one of each group"
)
_PACKAGE = __name__.partition(".")[0]


class Likeness(NamedTuple):
    """How much rows that are stored side by side are alike in one column."""

    variable: int
    """The number of its variable."""
    shares: NDArray[np.float64]
    """The mean kernel of rows 1 to 6 rows apart, relative to that of a row with itself."""
    errors: float
    """By how many standard errors neighbours are more, or less, alike than rows far apart."""


class Alike(NamedTuple):
    """Two variables in both of which rows that are stored side by side are alike."""

    share: float
    """The mean over neighbours of the product of both kernels, relative to that of a row."""
    errors: float
    """Standard errors in the variable where it is less clear."""
    first: int
    second: int


def alike_pair(
    taken: Sequence[Matrix64],
    categories: Sequence[Sequence[bool]],
    starts: Sequence[int] = (0,),
    seed: int = 0,
    tested: int | None = None,
) -> Alike | None:
    """Find the two variables in which neighbours are most alike, by more than a sorted column.

    Under the null hypothesis the variance of HSIC grows with the sum of products of both variables'
    correlations between rows, so that it is as for exchangeable rows where one has none. Each
    variable is looked at by itself: rare events of two variables hardly ever coincide, and of many
    columns one may be a series.

    Parameters
    ----------
    taken : sequence of ndarray, shapes (s, d_m)
        Rows in the order of storage; NaN where a value is missing.
    categories : sequence of sequence of bool
        Which columns of every variable hold codes.
    starts : sequence of int, optional
        Rows that do not follow the row before them.
    seed : int, optional
        The seed of the test.
    tested : int, optional
        Variables that are tested, all where not given; others are given in a conditional test.

    Returns
    -------
    Alike or None
        None where neighbours are not alike in two variables beyond doubt, or by so little that a
        test would hardly be disturbed, or where they are in a given one, which may be why.
    """
    rng, run = generator(seed, "neighbours", 0), np.zeros(len(taken[0]), np.intp)
    run[list(starts)[1:]] = 1
    run = np.cumsum(run)
    block, columns = _blocks(taken, categories, run), []
    # All of the variables, or some of many.
    some = min(len(taken), _COLUMNS)
    for m in (place * len(taken) // some for place in range(some)):
        d, most = taken[m].shape[1], max(_COLUMNS // len(taken), 1)
        columns += [(m, c) for c in rng.choice(d, min(d, most), replace=False).tolist()]
    # As rare for the clearest of several columns as for one.
    certain = -float(scipy.special.ndtri(scipy.special.ndtr(-_CERTAIN) / len(columns)))
    found = (
        Likeness(m, *_likeness(_waves(taken[m][:, c], categories[m][c], rng), run, block))
        for m, c in columns
    )
    clear = [one for one in found if one.errors > certain]
    tested = tested or len(taken)
    pairs = [_together(a, b) for a, b in combinations(clear, 2) if a.variable < b.variable < tested]
    given = [_together(one, one) for one in clear if one.variable >= tested]
    if not pairs or max(pairs).share <= _MATTERS or any(one.share > _MATTERS for one in given):
        return None
    return max(pairs)


def _likeness(waves: Matrix64, run: Indices, block: Indices) -> tuple[NDArray[np.float64], float]:
    """Compare neighbours of a run with all rows of their block, see `Likeness`."""
    n, typical = waves.shape[1], float(np.vdot(waves, waves)) / waves.shape[1]
    shares, near, errors = np.zeros(_LAGS), np.zeros(n), 0.0
    sizes = np.bincount(block)
    means = np.stack([np.bincount(block, wave) for wave in waves]) / sizes
    about = waves - means[:, block]
    squares = np.bincount(block, np.einsum("qi,qi->i", about, about))
    # Rows of a block add up to nothing: two exchangeable ones are that much unlike, on average.
    unlike, together = (squares / sizes / np.maximum(sizes - 1, 1))[block], run * n + block
    for lag in range(1, _LAGS + 1):
        same = together[lag:] == together[:-lag]
        count = int(same.sum())
        if not count or typical <= _NOTHING:
            break
        products = np.einsum("qi,qi->i", about[:, lag:], about[:, :-lag]) + unlike[lag:]
        shares[lag - 1] = float(products[same].sum()) / count / typical
        near[lag:] += products
        # The nearest neighbours by themselves, and all lags together.
        if lag in (1, _LAGS):
            some = near[lag:][same]
            error = float(some.std()) / count**0.5
            if error > _NOTHING * typical:
                errors = max(errors, abs(float(some.mean())) / error)
    return shares, errors


def _waves(values: NDArray[np.float64], category: bool, rng: np.random.Generator) -> Matrix64:
    """Features of rows about their means: cosines of the ranks of a column, shape (q, s).

    A missing value has the mean feature, so that it is like no other row.
    """
    waves, there = np.zeros((_WAVES, len(values))), ~np.isnan(values)
    _, codes, counts = np.unique(values[there], return_inverse=True, return_counts=True)
    if category:
        # Codes have no order: the categories get one by chance.
        codes = rng.permutation(len(counts))[codes]
        counts = np.bincount(codes)
    # Equal values have the middle of their ranks, so that rare ones are far from all others.
    ranks = (np.cumsum(counts) - counts / 2) / max(len(codes), 1)
    numbers = np.arange(1, _WAVES + 1)[:, None]
    cosines = np.cos(np.pi * numbers * ranks) / numbers
    means = cosines @ counts / max(len(codes), 1)
    waves[:, there] = (cosines - means[:, None])[:, codes]
    return waves


class Neighbours:
    """Rows of a few runs of consecutive ones, which come along with the sample of the estimator.

    None where the rows are said to be something else than exchangeable.

    Parameters
    ----------
    session : Session
        A run whose sample has not been taken.
    arguments : sequence of str, optional
        Those by which the function that was called is told of its rows; it may have none.
    tested : int, optional
        See `alike_pair`.
    """

    def __init__(
        self,
        session: Session,
        arguments: Sequence[str] = ("order", "groups", "strata"),
        tested: int | None = None,
    ) -> None:
        self._session, self._starts, self._tested = session, [0], tested
        *others, last = [_REMEDIES[argument] for argument in arguments] or [""]
        self._remedy = f"Take {', '.join(others)}, or {last}" if last else _NO_REMEDY
        self._taken: list[Matrix64] = []
        if session.moves is None and session.n >= _FEWEST_ROWS:
            rows, self._starts = _drawn_runs(session)
            self._taken = session.take_along(rows)

    def warn(self) -> None:
        """Warn once where neighbours are alike in two variables, by more than a sorted column."""
        session, taken = self._session, self._taken
        if not taken:
            return
        kinds = [[kind == "category" for kind in kinds_of(source)] for source in session.sources]
        found = alike_pair(taken, kinds, self._starts, session.seed, self._tested)
        if found is not None:
            msg = (
                "rows that are stored side by side are alike in "
                f"{session.names[found.first]!r} and {session.names[found.second]!r} "
                f"(similarity {100 * found.share:.2g} % of that of a row with itself, "
                f"{found.errors:.0f} standard errors), as in series and groups. P-values assume "
                f"exchangeable rows and are too small for such rows. {self._remedy}"
            )
            frame, calls = inspect.currentframe(), 0
            # To the first call from outside of the package; code that `exec` runs has no name.
            while frame and frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE:
                frame, calls = frame.f_back, calls + 1
            warnings.warn(msg, DependentRowsWarning, stacklevel=calls + 1)


def _together(first: Likeness, second: Likeness) -> Alike:
    """Take the nearest neighbours, or up to six rows in a row, whichever are more alike."""
    products, errors = first.shares * second.shares, min(first.errors, second.errors)
    share = max(float(products[0]), float(products.mean()))
    return Alike(share, errors, first.variable, second.variable)


def _blocks(
    taken: Sequence[Matrix64], categories: Sequence[Sequence[bool]], run: Indices
) -> Indices:
    """Numbers of the blocks of rows in which a row might have any place, were rows exchangeable.

    All rows are one block, but in files that are sorted by a column: there a block has one value of
    it, or is a window of rows where there are many values. Numbers of groups are no such column,
    unless they increase, nor are events and months, which come again.
    """
    n = len(run)
    width = min(math.isqrt(n), _WIDEST)
    first = np.append(True, np.diff(run) > 0)
    cut, windows = np.zeros(n, np.bool_), False
    for x, codes in zip(taken, categories, strict=True):
        # Across a gap a column may be in order as well.
        steps = np.nan_to_num(np.diff(x, axis=0, prepend=x[:1]), copy=False)
        few = np.count_nonzero(steps, axis=0) * width <= n
        ordered = _is_ordered(steps)
        for c in np.flatnonzero(few & (ordered | np.asarray(codes))):
            at = np.flatnonzero(steps[:, c])
            # Categories may be sorted in any order, with every one in one place.
            if ordered[c] or len(np.unique(x[[0, *at], c])) == len(at) + 1:
                cut[at] = True
        # From one run of rows to the next there is no order to look for.
        steps[first] = 0.0
        windows = windows or bool((_is_ordered(steps) & ~few).any())
    if windows:
        cut |= (np.arange(n) - np.flatnonzero(first)[run]) % width == 0
    if cut.any():
        cut |= first
        cut[0] = False
    return np.cumsum(cut)


def _is_ordered(steps: Matrix64) -> NDArray[np.bool_]:
    return np.asarray((steps >= 0.0).all(axis=0) | (steps <= 0.0).all(axis=0))


def _drawn_runs(session: Session) -> tuple[NDArray[np.intp], list[int]]:
    """Rows in a few runs of consecutive ones, and where these start."""
    n = session.n
    rows = max(min(_ROWS, _BYTES // (8 * sum(session.dims))), _FEW_ROWS)
    if n <= rows:
        return np.arange(n), [0]
    chunks = [-(-n // size) for source in session.sources if (size := source.chunk_rows)]
    count = min(_RUNS, max(2, min(chunks, default=n) // _SHARE_OF_CHUNKS))
    length = rows // count
    # One run from each part of the data, at a random place there.
    draws = generator(session.seed, "neighbours").integers(n // count - length + 1, size=count)
    firsts = draws + np.arange(count) * (n // count)
    numbers: NDArray[np.intp] = (firsts[:, None] + np.arange(length)).ravel()
    return numbers, list(range(0, len(numbers), length))
