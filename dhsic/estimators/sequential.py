"""Replicates that are drawn until the p-value is clear."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.session import Session
from dhsic.nulls import Permutation, Sequential, SequentialReplicates

Vector = NDArray[np.float64]


def largest_batch(null: Sequential) -> Permutation:
    """The permutations of all rows that are held at a time, for a plan."""
    return Permutation(max(null.batches), within="all")


@dataclass(frozen=True)
class _From:
    """A function of ranges of numbers, counted from another first one."""

    first: int
    function: Callable[[range], Vector]

    def __call__(self, numbers: range) -> Vector:
        # Numbers go on from batch to batch, since a number is the key of a permutation.
        return self.function(range(self.first + numbers.start, self.first + numbers.stop))


def batches_of(
    session: Session, null: Sequential, function: Callable[[range], Vector]
) -> Iterator[tuple[range, Vector]]:
    """Numbers of permutations besides the identity, batch after batch, and what comes of them."""
    first = 0
    for size in null.batches:
        parts = session.map("permutation null", _From(first, function), size)
        yield range(first, first + size), np.concatenate(parts)
        first += size


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
    drawn = SequentialReplicates(np.empty(0), null.n_exceed)
    for values in batches:
        drawn = SequentialReplicates(np.concatenate([drawn.values, values]), null.n_exceed)
        if drawn.decides(least):
            break
    # As if drawn one by one: the rest of the last batch does not count.
    used = replace(drawn, values=drawn.values[: drawn.drawn(least)])
    how = f"{len(used.values):,} of at most {null.n_resamples:,} permutations of all rows"
    return used, how
