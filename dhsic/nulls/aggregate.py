"""One test from several statistics and the replicates that they share, or many at once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dhsic.kernels import Aggregate
from dhsic.nulls.laws import Replicates, check_no_overflow, pvalues

Vector = NDArray[np.float64]
Control = Literal["bh", "by", "bonferroni", "holm", "max-t"]

# Scores that are logarithms of ranks are equal, or differ by far more.
_SAME = 1e-9
_BUNCH_BYTES = 8 * 2**20  # of the values of some columns
_SHARPNESS = 2.0  # of power 1 took two points more, and 3 about one, over 20 shapes


class Strength(NamedTuple):
    """How far the strongest of several statistics lies above its replicates."""

    statistic: float
    """max_c (T_c - mean of the replicates of c) / their standard deviation."""
    replicates: Vector
    """The same of every replicate among all others and the data, shape (b,)."""

    @classmethod
    def largest(cls, several: Sequence[Strength]) -> Strength:
        """The largest of several tests that share their replicates."""
        replicates = np.maximum.reduce([strength.replicates for strength in several])
        return cls(max(strength.statistic for strength in several), replicates)


class Aggregated(NamedTuple):
    """A statistic that looks at all kernels, and what each of them says by itself."""

    statistic: float
    """The score of the data."""
    distribution: Replicates
    """The scores of the replicates."""
    rounding: float
    """Differences of the statistic up to it are rounding."""
    strongest: int
    """The number of the combination that decided."""
    standardised: Vector
    """(T - mean) / standard deviation of the replicates, shape (G,)."""
    pvalues: Vector
    """P-values of every combination by itself, not corrected for the choice, shape (G,)."""
    strength: Strength
    """The strongest statistic, which grows on where the score, a rank, has reached its end."""


class _Scores(NamedTuple):
    """One number a row; the larger, the more evidence."""

    values: Vector
    """Row 0 is the data."""
    rounding: float
    """Differences up to it are rounding."""
    strongest: int
    """The number of the combination that gave that of the data."""
    largest: float
    """Its own."""

    @classmethod
    def of(cls, each: Vector, errors: Vector, numbers: NDArray[np.intp], *, soft: bool) -> Self:
        """By some columns, shape (b + 1, g), which may be overwritten."""
        best = int(each[0].argmax())
        largest = float(each[0, best])
        values = _log_sum(each) if soft else each.max(axis=1)
        return cls(values, float(errors.max()), int(numbers[best]), largest)

    def beside(self, other: Self, *, soft: bool) -> Self:
        """By the columns of both: parts are merged as they come, and no more than two are held."""
        values = (np.logaddexp if soft else np.maximum)(self.values, other.values)
        best = other if other.largest > self.largest else self
        return best._replace(values=values, rounding=max(self.rounding, other.rounding))


def aggregate(
    statistics: Vector,
    replicates: Vector,
    how: Aggregate,
    rounding: Vector,
    dtype: DTypeLike = np.float64,
    *,
    reference: int | list[int] = 0,
    share: float = 0.0,
) -> Aggregated:
    """Compare one score of all statistics of the data with the same score of every replicate.

    With "max" or "min-p" and a share the scores are ranks among b + 1 rows, which end where the
    data lie above all replicates: the score of strong evidence is -log10(1 / (2 (b + 1) share)),
    whatever its strength. `Aggregated.strength` goes on growing.

    Data and replicates are b + 1 rows, exchangeable under the null hypothesis. Every score is a
    function of its row and of the set of all rows, so the rank of the data's is uniform and the
    test exact, however the combinations depend on each other (Westfall and Young 1993, section
    2.3).

    Parameters
    ----------
    statistics : ndarray, shape (G,)
        Statistics of the data.
    replicates : ndarray, shape (b, G)
        Under the null hypothesis; a row is one draw for all combinations.
    how : {"soft", "max", "min-p"}
        The score of a row in a combination: its distance z from the mean of the other rows in
        their standard deviations; or the number of rows below it, as in a p-value, where ties
        between combinations are broken by that distance. That of a row is the largest of these,
        or with "soft" log sum_c w_c exp(2 z_c).
    rounding : ndarray, shape (G,)
        Differences of the statistics up to it are rounding.
    dtype : dtype, optional
        The precision in which they were computed, see `pvalue`.
    reference : int or list of int, optional
        The number of a combination that is weighed against all the others together, or of several.
    share : float, optional
        Share of the weights of "soft", or of the level, that the reference has to itself; with 0 it
        is one of all. With "soft" the first of several has the most, of two 3/5 of the weight. With
        "max" and "min-p" the ranks of a row by the reference and by the others become p-values p
        and q, and its score is -log10 of the smaller of p / share and q / (1 - share).

    Returns
    -------
    Aggregated

    Raises
    ------
    DataError
        A value is NaN or infinite.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> shared = rng.chisquare(1, size=(99, 2))
    >>> found = aggregate(np.array([1.0, 20.0]), shared, "max", np.zeros(2))
    >>> found.strongest, bool(found.distribution.sf(found.statistic) <= 0.05)
    (1, True)
    """
    count = len(statistics)
    apart = share > 0.0 and count > np.size(reference)
    weights = _combination_weights(count, reference, share)
    own, strongest = np.empty(count), np.full(len(replicates), -np.inf)
    soft = how == "soft"
    parts: list[_Scores | None] = [None, None]
    for columns in _bunches(len(replicates), count):
        rows = np.vstack([statistics[columns], replicates[:, columns]])
        distances, errors, ties, spread = standardised(rows, rounding[columns], dtype)
        own[columns] = _own_distance(rows, spread, ties)
        np.maximum(strongest, distances[1:].max(axis=1), out=strongest)
        if soft:
            # log sum_c w_c exp(2 z_c) (Biggs et al. 2023, section 3). No derivative by a distance
            # is larger than the sharpness, and all together are no larger.
            distances *= _SHARPNESS
            distances += np.log(weights[columns])
            errors *= _SHARPNESS
        elif how == "min-p":
            # Ranks tie at the top; a fraction below 1 orders rows of one rank by their distance.
            # The slope of the arctangent is at most 1, so an error counts 1 / pi at most.
            distances = _counts_below(rows, ties) + 0.5 + np.arctan(distances) / math.pi
            errors /= math.pi
        numbers = np.arange(columns.start, columns.stop)
        first = np.isin(numbers, reference) & (apart and not soft)
        for k, taken in enumerate((first, ~first)):
            if taken.any():
                each = distances if taken.all() else distances[:, taken]
                found = _Scores.of(each, errors[taken], numbers[taken], soft=soft)
                before = parts[k]
                parts[k] = found if before is None else before.beside(found, soft=soft)
    alone, others = parts
    assert others is not None
    scores = others if alone is None else _shared(alone, others, share)
    return Aggregated(
        float(scores.values[0]),
        Replicates(scores.values[1:]),
        scores.rounding,
        scores.strongest,
        own,
        pvalues(statistics, replicates, dtype, rounding),
        Strength(float(own.max()), strongest),
    )


def _bunches(rows: int, count: int) -> Iterator[slice]:
    """Columns that are taken at a time."""
    # Of millions of replicates each array takes as much as all of them: a few are of a bunch.
    step = max(_BUNCH_BYTES // (8 * (rows + 1)), 1)
    return (slice(first, min(first + step, count)) for first in range(0, count, step))


class Standardised(NamedTuple):
    """Statistics of the data and their replicates, each beside the others."""

    distances: Vector
    """0 where all rows of a column are equal but for rounding, shape (b + 1, G)."""
    errors: Vector
    """Differences of the distances up to it are rounding, shape (G,)."""
    ties: Vector
    """The same of the rows, shape (G,)."""
    spread: Vector
    """Standard deviations of the rows, shape (G,)."""


def standardised(rows: Vector, rounding: Vector, dtype: DTypeLike = np.float64) -> Standardised:
    """Distances of every row from the mean of the others, in their standard deviations.

    Parameters
    ----------
    rows : ndarray, shape (b + 1, G)
        Statistics of the data and their replicates.
    rounding : ndarray, shape (G,)
        Differences of the statistics up to it are rounding.
    dtype : dtype, optional
        The precision in which they were computed, see `pvalue`.

    Returns
    -------
    Standardised

    Raises
    ------
    DataError
        A value is NaN or infinite.
    """
    check_no_overflow(rows)
    # A tie is a difference below the bound on rounding, or beyond half of the digits, as in
    # `pvalue`.
    ties = np.maximum(rounding, math.sqrt(np.finfo(dtype).eps) * np.abs(rows).max(axis=0))
    # The data are one row among the others: scores of all rows are made alike, so that they stay
    # exchangeable under the null hypothesis, and the test exact.
    spread = rows.std(axis=0)
    # A column that does not vary beyond its ties is 0 in all rows, without an error.
    errors = np.where(spread > ties, ties, 0.0) / np.where(spread > ties, spread, 1.0)
    return Standardised(_distances(rows, spread, ties), errors, ties, spread)


def _combination_weights(count: int, reference: int | list[int], share: float) -> Vector:
    """Weights of the combinations, which add up to 1, shape (G,)."""
    parts = np.arange(np.size(reference) + 1.0, 1.0, -1.0)  # of two 3/5 and 2/5 of the share
    if share == 0.0 or count == len(parts):
        return np.full(count, 1.0 / count)
    weights = np.full(count, (1.0 - share) / (count - len(parts)))
    weights[np.atleast_1d(reference)] = share * parts / parts.sum()
    return weights


def _log_sum(exponents: Vector) -> Vector:
    """Take log sum_c exp(e_c) of every row; overwrites the exponents."""
    # Less the largest term, since exp of a far distance overflows.
    best = exponents.max(axis=1)
    exponents -= best[:, None]
    values: Vector = best + np.log(np.exp(exponents, out=exponents).sum(axis=1))
    return values


def _shared(alone: _Scores, others: _Scores, share: float) -> _Scores:
    """Scores where the reference has a share of the level to itself."""
    # A p-value over its share of the level: the smaller quotient decides, as in a weighted
    # Bonferroni test. The rank of that score among all rows makes the level exact.
    weighed = _evidence(alone, share), _evidence(others, 1.0 - share)
    # Where the data lie above all replicates in both, ranks tell no more.
    first = all(one.values[0] - one.rounding > one.values[1:].max() for one in (alone, others))
    ours, theirs = (alone.values, others.values) if first else weighed
    decided = alone if ours[0] >= theirs[0] else others
    return decided._replace(values=np.maximum(*weighed), rounding=_SAME)


def _evidence(scores: _Scores, share: float) -> Vector:
    """-log10 of the p-value of every row among all, over its share of the level.

    Half a row is taken off the rank, so that with a share of 2/3 the two never tie.
    """
    n = len(scores.values)
    # A row that lies less than the rounding below another ties with it, and does not raise its
    # rank.
    below = np.searchsorted(np.sort(scores.values), scores.values - scores.rounding)
    evidence: Vector = -np.log10((n - below - 0.5) / n / share)
    return evidence


def _distances(rows: Vector, spread: Vector, ties: Vector) -> Vector:
    """Distance of every row from the mean of the others, in their standard deviations.

    With z the distance from the mean of all N rows it is z sqrt(N / (N - 1 - z^2)). Columns in
    which all rows are equal but for rounding say nothing.
    """
    n, told = len(rows), spread > ties
    z = np.where(told, (rows - rows.mean(axis=0)) / np.where(told, spread, 1.0), 0.0)
    # z^2 is at most N - 1, where all other rows are equal; rounding must not make the root
    # negative.
    distances: Vector = z * np.sqrt(n / np.maximum(n - 1 - z**2, n * np.finfo(np.float64).eps))
    return distances


def _own_distance(rows: Vector, spread: Vector, ties: Vector) -> Vector:
    """That of row 0: the formula of all rows cancels its digits where it lies far out."""
    others, told = rows[1:], spread > ties
    # Where all replicates are equal their deviation is 0, and the distance would be infinite.
    least = math.sqrt(np.finfo(np.float64).eps) * spread
    deviation = np.where(told, np.maximum(others.std(axis=0), least), 1.0)
    distance: Vector = np.where(told, (rows[0] - others.mean(axis=0)) / deviation, 0.0)
    return distance


def _counts_below(rows: Vector, ties: Vector) -> Vector:
    """How many rows lie below each, in every column."""
    columns = zip(rows.T, ties, strict=True)
    # Rows that are equal but for rounding do not lie below each other.
    return np.array([np.searchsorted(np.sort(x), x - tie) for x, tie in columns], np.float64).T


def adjust(pvalues: Vector, control: Literal["bh", "by", "bonferroni", "holm"]) -> Vector:
    """Adjusted p-values: a hypothesis is rejected at the level that its own is at most.

    Parameters
    ----------
    pvalues : ndarray, shape (G,)
        P-values of every hypothesis by itself.
    control : {"bh", "by", "bonferroni", "holm"}
        Benjamini and Hochberg (1995) control the expected share of false discoveries among all,
        for independent or positively dependent tests; Benjamini and Yekutieli (2001) for any.
        Bonferroni and Holm (1979) control the probability of any false discovery; Holm rejects all
        that Bonferroni does, and more.

    Returns
    -------
    ndarray, shape (G,)

    References
    ----------
    .. [1] Y. Benjamini, Y. Hochberg. Controlling the false discovery rate. Journal of the Royal
       Statistical Society B 57, 1995.
    .. [2] Y. Benjamini, D. Yekutieli. The control of the false discovery rate in multiple testing
       under dependency. Annals of Statistics 29, 2001.
    .. [3] S. Holm. A simple sequentially rejective multiple test procedure. Scandinavian Journal of
       Statistics 6, 1979.

    Examples
    --------
    >>> import numpy as np
    >>> p = np.array([0.01, 0.02, 0.5])
    >>> adjust(p, "bonferroni"), adjust(p, "holm"), adjust(p, "bh")
    (array([0.03, 0.06, 1.  ]), array([0.03, 0.04, 0.5 ]), array([0.03, 0.03, 0.5 ]))
    """
    if control in ("bh", "by"):
        from scipy.stats import false_discovery_control  # slow to import

        # Benjamini and Hochberg (1995); Benjamini and Yekutieli (2001) for any dependence.
        return np.asarray(false_discovery_control(pvalues, method=control), np.float64)
    # SciPy has neither of the others; statsmodels has, which is much to install for a few lines.
    count = len(pvalues)
    if control == "bonferroni":
        return np.minimum(count * pvalues, 1.0)
    order = np.argsort(pvalues, kind="stable")
    # Holm (1979): the k-th smallest p-value times the hypotheses that are left.
    steps = (count - np.arange(count)) * pvalues[order]
    return _in_first_order(np.minimum(np.maximum.accumulate(steps), 1.0), order)


def step_down(
    statistics: Vector, replicates: Vector, rounding: Vector, dtype: DTypeLike = np.float64
) -> Vector:
    """Adjusted p-values by the maximum of standardised statistics, step by step.

    The largest statistic is compared with the largest of all in every replicate, the next with the
    largest of the others, and so on, so that dependence between the tests costs nothing: Westfall
    and Young (1993), algorithm 4.1, with the maximum in place of the smallest p-value. It controls
    the probability of any false discovery. Data and replicates are standardised by the mean and
    the standard deviation of the other rows, as in `aggregate`.

    Parameters
    ----------
    statistics : ndarray, shape (G,)
        Statistics of the data.
    replicates : ndarray, shape (b, G)
        Under the null hypothesis; a row is one draw for all tests.
    rounding : ndarray, shape (G,)
        Differences of the statistics up to it are rounding.
    dtype : dtype, optional
        The precision in which they were computed, see `pvalue`.

    Returns
    -------
    ndarray, shape (G,)
        At least 1 / (b + 1).

    Raises
    ------
    DataError
        A value is NaN or infinite.

    Examples
    --------
    >>> import numpy as np
    >>> replicates = np.random.default_rng(0).chisquare(1, size=(99, 3))
    >>> step_down(np.array([0.5, 30.0, 20.0]), replicates, np.zeros(3))
    array([0.48, 0.01, 0.01])
    """
    distances, errors, *_ = standardised(np.vstack([statistics, replicates]), rounding, dtype)
    order = np.argsort(-distances[0], kind="stable")
    # From the weakest upwards, so that one cumulative maximum serves all steps.
    upwards = np.maximum.accumulate(distances[:, order[::-1]], axis=1)
    largest_left = upwards[1:, ::-1]
    reached = largest_left >= distances[0, order] - errors[order]
    # The data are one of the b + 1 rows, as in every p-value of replicates.
    steps = (1.0 + np.count_nonzero(reached, axis=0)) / len(distances)
    # A step is not rejected before those above it, so adjusted p-values never fall along the order.
    return _in_first_order(np.maximum.accumulate(steps), order)


def _in_first_order(values: Vector, order: NDArray[np.intp]) -> Vector:
    """Values of ordered tests in the order that the tests had."""
    restored = np.empty_like(values)
    restored[order] = values
    return restored
