"""Which rows or groups of rows may change sample."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.blocks import Source
from dhsic.engine.reduction import Moves
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.io.variables import rows_of_samples
from dhsic.statistics.exchangeable import coded, moves_of, read_labels
from dhsic.statistics.sets import RowSets

Indices = NDArray[np.intp]

_FEWEST_WAYS = 20  # with fewer a p-value cannot be below 5 %


def pooled_labels(labels: Sequence[Source]) -> Indices:
    """The label of every pooled row as a number from 0 on, shape (n,).

    Parameters
    ----------
    labels : sequence of source
        Those of the rows of every sample, by the name that messages say.

    Raises
    ------
    DataError
        A label is missing.
    """
    sizes = [source.shape[0] for source in labels]
    # Pooled rows alternate between samples, so that blocks of them hold some of each.
    samples, places = rows_of_samples(np.arange(sum(sizes)), sizes)
    stacked = np.concatenate([read_labels(source, source.name) for source in labels])
    return coded(stacked[np.cumsum([0, *sizes[:-1]])[samples] + places])


def moves_between(
    samples: Sequence[Source], labels: Mapping[str, Indices], seed: int
) -> Moves | None:
    """Which pooled rows may change places; None where all may.

    Parameters
    ----------
    samples : sequence of source
        The samples.
    labels : dict of str to ndarray of int, shape (n,)
        "strata" and "groups" of the pooled rows, where they are given.
    seed : int
        The seed of the test.

    Raises
    ------
    DataError
        Hardly any rows can change sample.
    InvalidArgumentError
        A group lies in several samples, or in several strata.
    """
    sizes = [sample_source.shape[0] for sample_source in samples]
    sample, places = rows_of_samples(np.arange(sum(sizes)), sizes)
    strata, groups = labels.get("strata"), labels.get("groups")
    if groups is not None:
        _check_within_samples(
            groups, sample, places, [sample_source.name for sample_source in samples]
        )
    # In the pooled data moves are those of any test; only which of them change a sample differs.
    moves = moves_of(len(sample), strata, groups, None, seed)
    if isinstance(moves, RowSets):
        _check_ways(moves, sample)
    return moves


def _check_within_samples(
    groups: Indices, sample: Indices, places: Indices, names: Sequence[str]
) -> None:
    first = np.empty(groups.max() + 1, np.intp)
    # Backwards, since the last of equal indices is kept: the sample of the first row of a group.
    first[groups[::-1]] = sample[::-1]
    elsewhere = np.flatnonzero(sample != first[groups])
    if len(elsewhere):
        row = int(elsewhere[0])
        msg = (
            f"every group must lie within one sample: the group of row {int(places[row])} of "
            f"{names[sample[row]]!r} has rows of {names[first[groups[row]]]!r}, too. Where rows of "
            "a label are in several samples, as before and after, give the labels as strata; else "
            "label the groups of every sample differently"
        )
        raise InvalidArgumentError(msg)


def _check_ways(moves: RowSets, sample: Indices) -> None:
    """Refuse labels with which hardly any row gets another sample."""
    # In every stratum (sum_k c_k)! / prod_k c_k! ways, with c_k sets of rows of sample k.
    # Logarithms, since factorials leave the range of floats at 171.
    log_ways = 0.0
    for rows, sets in moves.parts:
        pairs = np.stack([sets, sample[rows[:, 0]]], axis=1)
        for labels, sign in ((sets, 1), (pairs, -1)):
            counts = np.unique(labels, axis=0, return_counts=True)[1]
            log_ways += sign * sum(math.lgamma(count + 1) for count in counts.tolist())
    if log_ways < math.log(_FEWEST_WAYS) - 1e-9:
        ways = round(math.exp(log_ways))
        msg = (
            f"with these labels, {moves.what} can be dealt to the samples in {ways} "
            f"way{'s' if ways > 1 else ''}, and a p-value of 5 % takes {_FEWEST_WAYS}: give strata "
            "that have rows of several samples, or more groups of equally many rows"
        )
        raise DataError(msg)
