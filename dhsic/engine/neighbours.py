"""Whether rows that are stored side by side are alike, so that they are no exchangeable draws."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from dhsic._random import generator
from dhsic.engine.blocks import kinds_of
from dhsic.engine.session import Session
from dhsic.errors import DependentRowsWarning

__all__ = ["Likeness", "Neighbours", "likeness", "waves_of"]

Matrix64 = NDArray[np.float64]

_ROWS = 1024
_RUNS = 16
_FEWEST_ROWS = 50
_SHARE_OF_CHUNKS = 50
_COLUMNS = 8
_WAVES = 16
_LAGS = 6
_SCALE = 0.7
_RIDGE = 1e-3
_CERTAIN = 3.6  # standard errors; heavy tails included, one in thousands of exchangeable data sets
_MATTERS = 0.015  # alike by less, level 5 % stays below 6 % or so
_MOST_VARIABLES = 8  # whose pairs are compared: each more pair might raise a false alarm
_REMEDIES = {
    "order": "order='time' (--order) for a series",
    "groups": "groups= (--groups) for rows that belong together",
    "row_groups": "row_groups= (--row-groups) for rows that belong together",
    "strata": "strata= (--strata) where they are exchangeable within strata",
}

_NO_ARGUMENT = (
    "No argument here is for such rows: take rows that lie apart, as every tenth of a series, or "
    "one of each group"
)
_PACKAGE = __name__.partition(".")[0]


class Likeness(NamedTuple):
    """How much rows side by side are alike in two variables at once."""

    share: float
    """The mean over neighbours of the product of residual kernels, relative to that of a row."""
    errors: float
    """By how many standard errors it is more than of rows that are far apart."""

    def matters(self, pairs: int = 1) -> bool:
        """Whether it is there beyond doubt, and large enough to disturb a test.

        Parameters
        ----------
        pairs : int, optional
            Pairs of variables of which it is the clearest.
        """
        # As rare for the clearest of several as for one.
        certain = -float(scipy.special.ndtri(scipy.special.ndtr(-_CERTAIN) / pairs))
        return self.share > _MATTERS and self.errors > certain


def likeness(first: Matrix64, second: Matrix64, starts: Sequence[int] = (0,)) -> Likeness:
    """Compare neighbours with rows that are far apart.

    Under the null hypothesis the variance of HSIC grows with the products of both variables'
    correlations between rows. So the mean of the products of both kernels is taken over pairs of
    neighbours, of residuals of one variable's features regressed on the other's: where rows are
    sorted by a variable, the residuals of the other are not in any order.

    Parameters
    ----------
    first, second : ndarray, shapes (s, q)
        Features of two variables, of rows in the order of storage.
    starts : sequence of int, optional
        Rows that do not follow the row before them.

    Returns
    -------
    Likeness
        That of neighbours, or of up to six rows in a row, whichever is the clearer.
    """
    u, v = _residuals(first, second), _residuals(second, first)
    sizes = np.einsum("ij,ij->i", u, u) * np.einsum("ij,ij->i", v, v)
    n, typical = len(u), float(sizes.mean())
    if typical <= 0.0:
        return Likeness(0.0, 0.0)
    run = np.zeros(n, np.intp)
    run[list(starts)] = 1
    run = np.cumsum(run)
    cross = u.T @ v
    # The mean over all pairs of different rows, most of which are far apart.
    far = (float(np.vdot(cross, cross)) - float(sizes.sum())) / (n * (n - 1))
    scale = float((first**2).sum(axis=1).mean() * (second**2).sum(axis=1).mean())
    candidates, near = [], np.zeros(n)
    for lag in range(1, _LAGS + 1):
        same = run[lag:] == run[:-lag]
        products = np.einsum("ij,ij->i", u[lag:], u[:-lag]) * np.einsum(
            "ij,ij->i", v[lag:], v[:-lag]
        )
        near[lag:] += np.where(same, products - far, 0.0)
        # The nearest neighbours by themselves, and all lags together.
        if lag in (1, _LAGS):
            at = np.flatnonzero(same) + lag
            error = float(near[at].std()) / len(at) ** 0.5
            mean = float(near[at].mean())
            candidates.append(Likeness(mean / (lag * scale), mean / error if error > 0.0 else 0.0))
    return max(candidates, key=lambda candidate: candidate.errors)


def waves_of(
    values: NDArray[np.float64], categories: Sequence[bool], seed: int, m: int
) -> Matrix64:
    """Features of rows about their means: random waves of the ranks of some columns, shape (s, q).

    A missing value has the mean rank, and a row that misses all of the columns the mean feature, so
    that it is like no other row.

    Parameters
    ----------
    values : ndarray, shape (s, d)
        Rows; NaN where a value is missing.
    categories : sequence of bool
        Which columns hold codes, to which random numbers are given.
    seed, m : int
        The seed of the test, and the number of the variable.
    """
    rng, d = generator(seed, "neighbours", m), values.shape[1]
    columns = rng.choice(d, min(d, _COLUMNS), replace=False)
    ranks, there = np.zeros((len(columns), len(values))), ~np.isnan(values[:, columns].T)
    for place, column in enumerate(columns.tolist()):
        x = values[there[place], column]
        if categories[column] and len(x):
            _, codes = np.unique(x, return_inverse=True)
            # Codes have no order: random numbers stand for the categories.
            x = rng.random(int(codes.max()) + 1)[codes]
        placed = np.sort(x).searchsorted(x)
        ranks[place, there[place]] = placed - placed.sum() / max(len(x), 1)
    spreads = ranks.std(axis=1, keepdims=True)
    scaled = np.divide(ranks, spreads, out=np.zeros_like(ranks), where=spreads > 0.0).T
    # Phases spread alike whatever the number of columns.
    weights = rng.standard_normal((len(columns), _WAVES)) * (_SCALE / len(columns) ** 0.5)
    waves = np.cos(scaled @ weights + rng.uniform(0.0, 2.0 * np.pi, _WAVES))
    some = there.any(axis=0)
    about: Matrix64 = np.zeros_like(waves)
    about[some] = waves[some] - waves[some].sum(axis=0) / max(np.count_nonzero(some), 1)
    return about


def _residuals(features: Matrix64, given: Matrix64) -> Matrix64:
    """Features less what is linear in others."""
    gram = given.T @ given
    # Features that do not vary would leave the matrix singular.
    ridge = _RIDGE * max(float(np.trace(gram)), 1e-12) / len(gram)
    weights = np.linalg.solve(gram + ridge * np.eye(len(gram)), given.T @ features)
    rest: Matrix64 = features - given @ weights
    return rest


class Neighbours:
    """Rows of a few runs of consecutive ones, which come along with the sample of the estimator.

    None where the rows are said to be something else than exchangeable, or come from a graph,
    which would compute them once more.

    Parameters
    ----------
    session : Session
        A run whose sample has not been taken.
    arguments : sequence of str, optional
        Those by which the function that was called is told of its rows; it may have none.
    """

    def __init__(
        self, session: Session, arguments: Sequence[str] = ("order", "groups", "strata")
    ) -> None:
        self._session, self._starts, self._arguments = session, [0], arguments
        self._taken: list[Matrix64] = []
        graphs = any(source.place == "graph" for source in session.sources)
        if session.moves is None and not graphs and session.n >= _FEWEST_ROWS:
            rows, self._starts = _drawn_runs(session)
            self._taken = session.take_along(rows)

    def warn(self) -> None:
        """Warn once where neighbours are alike in two variables, and not sorted by a column."""
        session, taken = self._session, self._taken
        if not taken or any(_is_sorted(x, self._starts) for x in taken):
            return
        features = {
            m: waves_of(
                taken[m],
                [kind == "category" for kind in kinds_of(session.sources[m])],
                session.seed,
                m,
            )
            for m in _evenly(len(taken))
        }
        pairs = {
            (m, k): likeness(features[m], features[k], self._starts)
            for m, k in combinations(features, 2)
        }
        (m, k), worst = max(pairs.items(), key=lambda item: item[1].errors)
        if worst.matters(len(pairs)):
            msg = (
                f"rows that are stored side by side are alike in {session.names[m]!r} and "
                f"{session.names[k]!r} ({100 * worst.share:.2g} % of a row with itself, "
                f"{worst.errors:.0f} standard errors), as those of series or groups are: for "
                "exchangeable rows alone p-values are right, and they are too small for these. "
                f"{_remedy(self._arguments)}"
            )
            warnings.warn(msg, DependentRowsWarning, stacklevel=_calls_of_the_package())


def _remedy(arguments: Sequence[str]) -> str:
    """The words for a function that has so many arguments for such rows."""
    if not arguments:
        return _NO_ARGUMENT
    *others, last = (_REMEDIES[argument] for argument in arguments)
    return f"Take {', '.join(others)}, or {last}"


def _calls_of_the_package() -> int:
    """The number of calls from the function that asks to the first one outside of the package."""
    frame, calls = inspect.currentframe(), 0
    # Code that `exec` runs may have no name.
    while frame and frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE:
        frame, calls = frame.f_back, calls + 1
    return calls


def _evenly(count: int) -> list[int]:
    """All of so many variables, or a few of many."""
    some = min(count, _MOST_VARIABLES)
    return [place * count // some for place in range(some)]


def _is_sorted(values: NDArray[np.float64], starts: Sequence[int]) -> bool:
    """Whether a column that varies is in order: then that is why neighbours are alike."""
    # Across a gap a column may be in order as well.
    steps = np.nan_to_num(np.diff(values, axis=0))
    # From one run of rows to the next there is no order to look for.
    steps[[start - 1 for start in starts if start]] = 0.0
    ordered = (steps >= 0.0).all(axis=0) | (steps <= 0.0).all(axis=0)
    return bool((ordered & (steps != 0.0).any(axis=0)).any())


def _drawn_runs(session: Session) -> tuple[NDArray[np.intp], list[int]]:
    """Rows in a few runs of consecutive ones, and where these start."""
    n = session.n
    if n <= _ROWS:
        return np.arange(n), [0]
    chunks = [-(-n // size) for source in session.sources if (size := source.chunk_rows)]
    count = min(_RUNS, max(2, min(chunks, default=n) // _SHARE_OF_CHUNKS))
    length = _ROWS // count
    # One run from each part of the data, at a random place there.
    draws = generator(session.seed, "neighbours").integers(n // count - length + 1, size=count)
    firsts = draws + np.arange(count) * (n // count)
    rows: NDArray[np.intp] = (firsts[:, None] + np.arange(length)).ravel()
    return rows, list(range(0, len(rows), length))
