"""Strata, groups and order of rows, made into the moves that leave their law as it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhsic._validation import shown
from dhsic.engine.blocks import Source, read_whole
from dhsic.engine.reduction import Moves
from dhsic.engine.units import format_bytes
from dhsic.errors import DataError, InvalidArgumentError, MemoryBudgetError
from dhsic.nulls import TimeOrder
from dhsic.statistics.sets import RowSets, Series

Indices = NDArray[np.intp]

_CODE_BYTES = 96  # of a row: its labels as numbers, sorted, and the moves of them
_FEWEST_MOVABLE = 0.1  # of the rows
_FEWEST_MOVES = 20  # with fewer a p-value cannot be below 5 %


def check_order(order: Any, *, strata: bool) -> TimeOrder | None:
    """The value that a user gave, or None for rows in no order.

    Raises
    ------
    InvalidArgumentError
        It is something else, or goes beside strata.
    """
    if order is None:
        return None
    time_order = TimeOrder() if isinstance(order, str) and order == "time" else order
    if not isinstance(time_order, TimeOrder):
        msg = (
            f"order must be 'time' or a TimeOrder, got {shown(order)}: leave it out where rows are "
            "in no order"
        )
        raise InvalidArgumentError(msg)
    if strata:
        msg = (
            "order and strata cannot go together: a shift in time moves rows to other strata. "
            "Label several series as groups of rows, or give the period of a cycle, as "
            "TimeOrder(period=24)"
        )
        raise InvalidArgumentError(msg)
    return time_order


def check_codes(sources: Sequence[Source], memory: int) -> None:
    """Refuse labels that `codes_of` cannot read within the memory.

    Raises
    ------
    MemoryBudgetError
        Tells how much they need.
    """
    n = sources[0].shape[0]
    # Pieces and all of them joined, and what is made of them.
    needed = n * (_CODE_BYTES + 2 * max(source.row_bytes for source in sources))
    if needed > memory:
        msg = (
            "labels of rows are held in memory while those that are alike are found: they take "
            f"{format_bytes(needed)}. Allow memory={needed} or more, or test fewer rows"
        )
        raise MemoryBudgetError(msg)


def codes_of(source: Source, what: str) -> Indices:
    """The label of every row as a number from 0 on, shape (n,); of several columns as one.

    Parameters
    ----------
    source : Source
        Labels, as codes or numbers; read into memory.
    what : str
        The argument that they came by.

    Raises
    ------
    DataError
        A label is missing.
    """
    return coded(read_labels(source, what))


def read_labels(source: Source, what: str) -> NDArray[Any]:
    """Labels of rows, shape (n, columns).

    Raises
    ------
    DataError
        A label is missing.
    """
    labels = read_whole(source)
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        row = int(np.flatnonzero(~np.isfinite(labels).all(axis=1))[0])
        msg = (
            f"{what} has no label in row {row}: give one to every row, or drop such rows, as by "
            "missing='drop' (--missing drop)"
        )
        raise DataError(msg)
    return labels


def joined_codes(first: Indices, second: Indices) -> Indices:
    """Every pair of two numbers as one number from 0 on."""
    # Consecutive again, so that pairs of pairs cannot overflow.
    pairs = first * (second.max() + 1) + second
    return np.unique(pairs, return_inverse=True)[1].astype(np.intp, copy=False)


def coded(labels: NDArray[Any]) -> Indices:
    """Every row of labels as a number from 0 on, of several columns as one."""
    columns = (np.unique(column, return_inverse=True)[1] for column in labels.T)
    code = reduce(joined_codes, columns)
    # By their first rows, so that the same labels written otherwise move the same rows.
    _, firsts = np.unique(code, return_index=True)
    ranks: Indices = np.argsort(np.argsort(firsts))
    return ranks[code]


def moves_of(
    n: int, strata: Indices | None, groups: Indices | None, order: TimeOrder | None, seed: int
) -> Moves | None:
    """Which rows may change places; None where all may.

    Parameters
    ----------
    n : int
        Rows of the data.
    strata, groups : ndarray of int, shape (n,), or None
        As `codes_of` finds them.
    order : TimeOrder or None
        Where rows, or those of every group, are a series.
    seed : int
        The seed of the test.

    Raises
    ------
    DataError
        Hardly any rows can change places.
    InvalidArgumentError
        A group lies in several strata.
    """
    if order is not None:
        return _series(n, groups, order, seed)
    if strata is None and groups is None:
        return None
    if strata is not None and groups is not None:
        _check_within(groups, strata)
    sets = RowSets.of(strata, groups, seed)
    _check_sets(sets, strata, groups)
    return sets


def _series(n: int, groups: Indices | None, order: TimeOrder, seed: int) -> Series:
    # One series of all rows, as they are stored.
    if groups is None:
        series: tuple[Indices, ...] = (np.arange(n),)
    else:
        # A stable sort keeps the rows of a series in the order of storage, which is that of time.
        rows = np.argsort(groups, kind="stable")
        series = tuple(np.split(rows, np.cumsum(np.bincount(groups))[:-1]))
    shortest = min(map(len, series))
    moves = Series(n, series, seed, order.least_lag(shortest), order.period)
    if moves.most_shifts < _FEWEST_MOVES:
        which = "the series" if groups is None else "the shortest series"
        msg = (
            f"a test of series needs {_FEWEST_MOVES} shifts or more for a p-value of 5 % or less: "
            f"{which} has {shortest:,} rows, which allow {moves.most_shifts} shifts by {moves.lag} "
            "rows. Lower the lag or the period, or leave out short series"
        )
        raise DataError(msg)
    return moves


def _check_within(groups: Indices, strata: Indices) -> None:
    # Written backwards, so that the first row of a group is the one that stays.
    first = np.empty(groups.max() + 1, np.intp)
    first[groups[::-1]] = strata[::-1]
    elsewhere = np.flatnonzero(strata != first[groups])
    if len(elsewhere):
        msg = (
            f"every group must lie within one stratum: the group of row {int(elsewhere[0])} has "
            "rows of several. Leave out strata, or make groups of one stratum each"
        )
        raise InvalidArgumentError(msg)


def _check_sets(sets: RowSets, strata: Indices | None, groups: Indices | None) -> None:
    """Refuse labels with which hardly anything moves."""
    if sets.movable < _FEWEST_MOVABLE:
        share = f"{100 * sets.movable:.3g} % of the rows"
        if groups is None:
            msg = (
                f"strata must have two rows or more each: {share} can change places, since the "
                "others are alone in their stratum. Take coarser strata"
            )
        else:
            msg = (
                "whole groups change places with groups of equally many rows, "
                f"{'' if strata is None else 'of the same stratum, '}since only then nothing else "
                f"changes: {share} can. Make groups equally large, as by leaving out rows at "
                "random, or test means of the groups, a row each"
            )
        raise DataError(msg)
    # The logarithm of the number of moves: prod (k!) over sets of k items that change places.
    moves = sum(
        math.lgamma(int(count) + 1) for _, counts in sets.sizes for count in counts.tolist()
    )
    if moves < math.log(_FEWEST_MOVES):
        msg = (
            f"{sets.what} can change places in {round(math.exp(moves))} ways only, so that no "
            "p-value is below 1 over that: have more groups or larger strata"
        )
        raise DataError(msg)
