"""Rows in which a value is missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from dhsic._validation import check_choice
from dhsic.engine.passes import Gaps, Source, of_blocks
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.io.variables import Variable, without_rows

Missing = Literal["refuse", "drop"]
GapTreatment = Literal["refuse", "drop", "pairwise"]


def without_missing(sources: Sequence[Variable], missing: str) -> tuple[list[Source], int]:
    """The variables without the rows in which one of them misses a value, and how many these are.

    With "refuse" the variables as they are: missing values are refused by the pass that reads them,
    in any place and with their row, so that data are read once. With "pairwise", too, see
    `count_gaps`. Where rows are to be dropped, stored data are read once more, block by block in
    this process.

    Raises
    ------
    DataError
        No row is complete.
    """
    if missing != "drop":
        return list(sources), 0
    of_each = [np.concatenate(list(of_blocks(source, _incomplete))) for source in sources]
    gaps = np.logical_or.reduce(of_each)
    if gaps.all():
        counts = [f"{s.name!r} {x.sum():,}" for s, x in zip(sources, of_each, strict=True)]
        told = f"all {len(gaps):,} rows miss a value ({', '.join(counts)})"
        msg = f"{told}: leave out the variable that does"
        raise DataError(msg)
    if not len(left_out := np.flatnonzero(gaps)):
        return list(sources), 0
    return [without_rows(source, left_out) for source in sources], len(left_out)


def count_gaps(source: Source) -> Gaps:
    """The missing values of a variable, which stay; stored data are read once for it.

    Raises
    ------
    DataError
        A value is infinite, or a column has no value.
    """
    rows, values, start = 0, np.zeros(source.shape[1], np.intp), 0
    for incomplete, of_columns, infinite in of_blocks(source, _counts):
        if len(infinite):
            row = start + infinite[0]
            msg = f"variable {source.name!r} has infinity, first in row {row}: make it NaN, a gap"
            raise DataError(msg)
        rows, values = rows + int(incomplete.sum()), values + of_columns
        start += len(incomplete)
    if (values == start).any():
        column = int(np.argmax(values == start))
        msg = f"variable {source.name!r} has no value in column {column}: leave it out"
        raise DataError(msg)
    return Gaps(rows, tuple(values.tolist()))


def check_missing(missing: str, *, pairwise: bool) -> None:
    """Refuse what is no treatment, or none of the function that was called.

    Raises
    ------
    InvalidArgumentError
        Says where "pairwise" can be used.
    """
    if isinstance(missing, str) and missing == "pairwise" and not pairwise:
        msg = (
            "missing='pairwise' is for independence_test, hsic, plan, dependence_matrix, lag_scan, "
            "rank_features, plan_ranking and select_features, got it in another function: take "
            "'drop', or fill the gaps"
        )
        raise InvalidArgumentError(msg)
    check_choice("missing", missing, get_args(GapTreatment if pairwise else Missing))


def _counts(block: NDArray[Any]) -> tuple[NDArray[np.bool_], NDArray[np.intp], NDArray[np.intp]]:
    """Whether each row has gaps, the gaps of every column, and rows with infinity."""
    infinite = np.flatnonzero(np.isinf(block).any(axis=1))
    return _incomplete(block), np.isnan(block).sum(axis=0), infinite


def _incomplete(block: NDArray[Any]) -> NDArray[np.bool_]:
    gaps: NDArray[np.bool_] = np.isnan(block).any(axis=1)
    return gaps
