"""Weights of rows, read and checked."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.blocks import Source, kinds_of, read_whole
from dhsic.engine.units import format_bytes
from dhsic.engine.weights import RowWeights
from dhsic.errors import DataError, MemoryBudgetError
from dhsic.io.variables import Variable

_SHARE = 4  # of the memory
_FEWEST = 2.0  # rows, that weights are worth


def read_weights(source: Source, memory: int) -> RowWeights:
    """Weights of all rows, relative to their mean, held in memory.

    Parameters
    ----------
    source : Source
        Numbers, a column of them.
    memory : int
        Bytes that are allowed.

    Raises
    ------
    DataError
        They are no numbers, several columns, or one is not positive and finite.
    MemoryBudgetError
        They take more than a quarter of the memory.
    """
    n, columns = source.shape
    if columns != 1 or kinds_of(source) != ("number",):
        held = f"{columns} columns" if columns != 1 else f"a column of kind {kinds_of(source)[0]!r}"
        msg = f"weights must be one column of numbers, got {held}: give a number for each row"
        raise DataError(msg)
    if _SHARE * 8 * n > memory:
        msg = (
            f"weights are held in memory, in a quarter of what is allowed: they take "
            f"{format_bytes(8 * n)}. Allow memory={_SHARE * 8 * n} or more"
        )
        raise MemoryBudgetError(msg)
    values = read_whole(source).astype(np.float64).ravel()
    _check_positive(values)
    # About 1, so that neither sums nor squares overflow, whatever their unit.
    values /= values.max()
    values /= values.mean()
    squares, cubes = (float((values**power).mean()) for power in (2, 3))
    # Kish's number of rows that tell as much, (sum w)^2 / sum w^2.
    if n / squares < _FEWEST:
        msg = (
            f"weights must be of several rows, and one of {n:,} has nearly all of them, so that "
            f"they are worth {n / squares:.3g} rows: correct it, or leave that row out"
        )
        raise DataError(msg)
    return RowWeights(Variable("weights", values[:, None]), squares, cubes)


def _check_positive(values: NDArray[np.float64]) -> None:
    wrong = np.flatnonzero(~(np.isfinite(values) & (values > 0.0)))
    if len(wrong):
        row = int(wrong[0])
        msg = (
            f"weights must be positive finite numbers, got {values[row]} in row {row} and "
            f"{len(wrong):,} such in all: leave out rows of weight 0, or those without a weight, "
            "as by missing='drop' (--missing drop)"
        )
        raise DataError(msg)
