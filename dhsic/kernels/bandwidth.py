"""The median heuristic."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist

from dhsic.errors import DataError

__all__ = ["median_distance"]


def median_distance(
    sample: NDArray[np.float64], metric: Literal["euclidean", "cityblock"] = "euclidean"
) -> float:
    """Median distance between distinct rows of a sample.

    Parameters
    ----------
    sample : ndarray, shape (s, d)
        Rows of one variable.
    metric : {"euclidean", "cityblock"}, optional
        The distance.

    Returns
    -------
    float
        Where the median is 0 because of ties, the mean of the distances that are not 0.

    Raises
    ------
    DataError
        All rows of the sample are the same.
    """
    distances = pdist(sample, metric)
    median = float(np.median(distances)) if len(distances) else 0.0
    if median > 0.0:
        return median
    distances = distances[distances > 0.0]
    if not len(distances):
        msg = (
            f"a bandwidth needs at least two distinct rows; all {len(sample)} sampled rows are "
            "the same: drop the variable, or give the kernel's bandwidth"
        )
        raise DataError(msg)
    return float(distances.mean())
