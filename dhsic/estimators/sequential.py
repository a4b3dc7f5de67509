"""Replicates that are drawn until the p-value is clear."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dhsic.nulls import Permutation, Sequential, SequentialReplicates

__all__ = ["draw_sequentially", "largest_batch"]

Vector = NDArray[np.float64]


def largest_batch(null: Sequential) -> Permutation:
    """The permutations of all rows that are held at a time, for a plan."""
    return Permutation(max(null.batches), within="all")


def draw_sequentially(
    null: Sequential, least: float, batches: Iterable[Vector]
) -> tuple[SequentialReplicates, str]:
    """Replicates up to the last that counts, and how many they are, in words.

    Parameters
    ----------
    null : Sequential
        When to stop.
    least : float
        The least replicate that counts as at least as large as the observed statistic.
    batches : iterable of ndarray, shapes (b,)
        Replicates, which are computed as they are asked for.

    Returns
    -------
    replicates : SequentialReplicates
    detail : str
    """
    found = SequentialReplicates(np.empty(0), null.n_exceed)
    for values in batches:
        found = SequentialReplicates(np.concatenate([found.values, values]), null.n_exceed)
        if found.decides(least):
            break
    used = replace(found, values=found.values[: found.drawn(least)])
    how = f"{len(used.values):,} of at most {null.n_resamples:,} permutations of all rows"
    return used, how
