"""The median heuristic: scales that follow the units of one variable."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import scipy
from numpy.typing import NDArray

from dhsic.errors import DataError

_FEWEST_ON_LINE = 2**7  # of fewer numbers all pairs are taken
_MANY, _SOME = 2**16, 2**13  # distances, of which so many bound the median
# float64 holds the square of it and of its inverse, as gamma = 1 / median^2 needs.
_TINY = 1e-100


def as_sample(sample: NDArray[Any]) -> NDArray[np.float64]:
    """Check that a sample of a variable is (s, d), not empty and finite."""
    sample = np.asarray(sample, dtype=np.float64)
    if sample.ndim != 2 or not sample.size:
        msg = f"a sample must have shape (s, d) with s, d >= 1; got {sample.shape}: pass x[:, None]"
        raise DataError(msg)
    if not np.isfinite(sample).all():
        bad = int((~np.isfinite(sample)).any(axis=1).sum())
        msg = f"a sample must be finite; {bad} of {len(sample)} rows are not: drop or impute them"
        raise DataError(msg)
    return sample


def median_distance(
    sample: NDArray[np.float64], metric: Literal["euclidean", "cityblock"] = "euclidean"
) -> float:
    """Median distance between the rows of a sample.

    Parameters
    ----------
    sample : ndarray, shape (s, d)
        Rows of one variable, finite.
    metric : {"euclidean", "cityblock"}, optional
        The distance.

    Returns
    -------
    float
        Where the median is 0 because of ties, the mean of the distances that are not 0.

    Raises
    ------
    DataError
        All rows of the sample are the same, or their distances leave the range of float64.

    References
    ----------
    .. [1] D. Garreau, W. Jitkrittum, M. Kanagawa. Large sample analysis of the median
       heuristic. 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.kernels import median_distance
    >>> median_distance(np.array([[0.0], [1.0], [3.0]]))
    2.0
    >>> median_distance(np.array([[0.0], [0.0], [0.0], [0.0], [5.0]]))  # most are ties
    5.0
    """
    sample = as_sample(sample)
    if (sample == sample[0]).all():
        msg = (
            f"a bandwidth needs at least two distinct rows; all {len(sample)} sampled rows are "
            "the same: drop the variable, or give the kernel's bandwidth"
        )
        raise DataError(msg)
    # On a line the order of the numbers bounds the median, without most of the distances.
    if sample.shape[1] == 1:
        return _median_of_column(np.sort(sample[:, 0]))
    return median_or_mean(scipy.spatial.distance.pdist(sample, metric))


def median_distances(sample: NDArray[np.float64]) -> list[float]:
    """Median distance within every column of a sample (s, d), 0 where the column is constant.

    Raises
    ------
    DataError
        Distances of a column leave the range of float64.
    """
    ordered = np.ascontiguousarray(np.sort(sample, axis=0).T)
    return [0.0 if x[0] == x[-1] else _median_of_column(x) for x in ordered]


def _median_of_column(x: NDArray[np.float64]) -> float:
    """Median distance of sorted numbers, or the mean as `median_or_mean`."""
    # Of 1,000 numbers it takes .4 ms, and all pairs 11.
    median = _median_on_line(x) if len(x) >= _FEWEST_ON_LINE else None
    return median_or_mean(scipy.spatial.distance.pdist(x[:, None])) if median is None else median


def median_or_mean(sizes: NDArray[np.float64]) -> float:
    """Median of sizes >= 0; where that is 0, the mean of those that are not.

    The bounds leave room for the square of the result and of its inverse.
    """
    ties = len(sizes) - np.count_nonzero(sizes)
    with np.errstate(over="ignore"):
        # Where more than half are 0, so is the median.
        typical = 0.0 if 2 * ties > len(sizes) else _median(sizes)
        # A median of 0 is no scale, but the mean of the distances that are not 0 is one.
        if typical == 0.0 and ties < len(sizes):
            typical = float(sizes[sizes > 0.0].mean())
    if not _TINY < typical < 1.0 / _TINY:
        msg = (
            "a bandwidth needs rows that differ by 1e-100 to 1e+100; the typical difference is "
            f"{typical:.3g}: rescale the variable, or give the kernel's bandwidth"
        )
        raise DataError(msg)
    return typical


def _median(sizes: NDArray[np.float64]) -> float:
    """The median: of many, of those between bounds from some, in a quarter of the time."""
    if len(sizes) >= _MANY:
        some = sizes[:: len(sizes) // _SOME]
        low, high = np.quantile(some, [0.48, 0.52])
        below = np.count_nonzero(sizes < low)
        near = sizes[(sizes >= low) & (sizes <= high)]
        first, last = (len(sizes) - 1) // 2 - below, len(sizes) // 2 - below
        if first >= 0 and last < len(near):
            near.partition((first, last))
            return float(np.mean(near[[first, last]]))
    return float(np.median(sizes))


def _median_on_line(x: NDArray[np.float64]) -> float | None:
    """Median distance of sorted numbers, without most of the distances; None where bounds miss it.

    Distances between ranks some steps apart bound the median. Searches count the pairs below the
    bounds, so that only those between them are computed, a twenty-fifth of all.
    """
    s = len(x)
    middle = s * (s - 1) // 4  # of s (s - 1) / 2 pairs
    # Distances between ranks k apart, for a few k, are an even sample of all distances: their 48
    # and 52 % quantiles lie on both sides of the median.
    steps = range(1 + s // 48, s, 1 + s // 24)
    some = np.concatenate([x[k:] - x[:-k] for k in steps])
    bounds = int(0.48 * len(some)), int(0.52 * len(some))
    low, high = np.partition(some, bounds)[list(bounds)]
    # Partners of a number are searched behind it, so that a pair counts once.
    starts = np.maximum(np.searchsorted(x, x + low), np.arange(1, s + 1))
    counts = np.maximum(np.searchsorted(x, x + high, "right") - starts, 0)
    # Of number i there are starts_i - i - 1 pairs below the lower bound.
    below = int(starts.sum()) - s * (s + 1) // 2
    # Both of the middle ranks have to lie between the bounds.
    if not below < middle - 1 < middle + 1 < below + counts.sum():
        return None
    # Every pair between the bounds, flat: number i has counts_i of them, from starts_i on.
    firsts = np.cumsum(counts) - counts
    seconds = np.arange(counts.sum()) + np.repeat(starts - firsts, counts)
    near = np.partition(x[seconds] - np.repeat(x, counts), (middle - 1 - below, middle - below))
    lower, upper = near[middle - 1 - below], near[middle - below]
    # The searches compare x with x + low, and the distances are x - x: they round differently.
    rounding = 4.0 * np.finfo(np.float64).eps * (np.abs(x).max() + high)
    if not (max(low + rounding, _TINY) < lower and upper + rounding < min(high, 1.0 / _TINY)):
        return None  # pairs at the bounds may be on either side of them
    return float(upper if s * (s - 1) // 2 % 2 else (lower + upper) / 2)
