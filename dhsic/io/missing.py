"""Rows in which a value is missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.blocks import BLOCK_BYTES, Source
from dhsic.errors import DataError
from dhsic.io.forms import AnySource
from dhsic.io.rest import RestSource
from dhsic.io.sources import ArraySource, GraphSource

__all__ = ["Missing", "without_missing"]

Missing = Literal["refuse", "drop"]


def without_missing(sources: Sequence[AnySource], missing: str) -> tuple[list[Source], int]:
    """The variables without the rows in which one of them misses a value, and how many these are.

    With "refuse" the variables as they are: missing numbers are refused when they are read, so
    that data are read once; missing categories here. Where rows are to be dropped, stored data are
    read once more, block by block in this process.

    Raises
    ------
    DataError
        Categories are missing and rows are not to be dropped; or no row is complete.
    """
    if missing == "refuse":
        for source in sources:
            _refuse_missing_categories(source)
        return list(sources), 0
    gaps = np.logical_or.reduce([_rows_with_nan(source) for source in sources])
    left_out = np.flatnonzero(gaps)
    if len(left_out) == len(gaps):
        counts = ", ".join(
            f"{source.name!r} {int(_rows_with_nan(source).sum()):,}" for source in sources
        )
        msg = f"all {len(gaps):,} rows miss a value ({counts}): leave out the variable that does"
        raise DataError(msg)
    # No row is missing: the variables stay what they are, and are read as before.
    if not len(left_out):
        return list(sources), 0
    return [RestSource(source, left_out) for source in sources], len(left_out)


def _refuse_missing_categories(source: AnySource) -> None:
    # NaN among numbers is refused by the pass that reads them, in any place and with its row.
    if not (source.categorical and isinstance(source, ArraySource)):
        return
    gaps = np.flatnonzero(_rows_with_nan(source))
    if len(gaps):
        msg = (
            f"variable {source.name!r} has missing values in {len(gaps):,} rows, first in row "
            f"{gaps[0]}: drop them by missing='drop', or fill them"
        )
        raise DataError(msg)


def _rows_with_nan(source: AnySource) -> NDArray[np.bool_]:
    """Whether each row has NaN."""
    if isinstance(source, GraphSource):
        import dask.array as da

        gaps: Any = da.isnan(source.array).any(axis=1).compute()
        return np.asarray(gaps, np.bool_)
    n = source.shape[0]
    # Chunk by chunk, so that none is decoded twice and memory does not grow with the rows.
    step = source.chunk_rows or max(1, BLOCK_BYTES // source.row_bytes)
    blocks = (source.read(start, min(start + step, n)) for start in range(0, n, step))
    return np.concatenate([np.isnan(block).any(axis=1) for block in blocks])
