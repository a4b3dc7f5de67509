"""Many tests at once: p-values that account for their number."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dhsic.nulls.aggregate import standardised

Vector = NDArray[np.float64]
Control = Literal["bh", "by", "bonferroni", "holm", "max-t"]


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
