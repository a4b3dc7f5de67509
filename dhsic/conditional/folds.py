"""Rows in folds, so that predictions of the rows of a fold are by the rows of the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dhsic._random import random_keys
from dhsic.engine.reduction import RowBlock

Indices = NDArray[np.intp]

FOLDS: Final = 2  # five cost a half more time, and neither level nor power differed
TILE_ROWS: Final = 2048


def tiles_of_folds(
    seed: int, block: RowBlock, rows: Indices | None = None
) -> Iterator[tuple[int, Indices]]:
    """Tiles of rows of one fold each.

    Parameters
    ----------
    seed : int
        Fixes the folds.
    block : RowBlock
        Whose rows they are.
    rows : ndarray of int, optional
        Numbers of the rows in the block that count; all where not given.

    Yields
    ------
    tuple of int and ndarray of int
        The fold, and numbers of at most 2048 of its rows.
    """
    keys = random_keys(seed, block.start, block.start + block.rows, "folds")
    rows = np.arange(block.rows) if rows is None else rows
    folds = keys[rows] % np.uint64(FOLDS)
    for fold in range(FOLDS):
        own = rows[folds == fold]
        for start in range(0, len(own), TILE_ROWS):
            yield fold, own[start : start + TILE_ROWS]
