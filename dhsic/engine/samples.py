"""What tells data from other data, at the cost of a few chunks."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.blocks import BLOCK_BYTES, Source
from dhsic.engine.digest import bytes_of
from dhsic.engine.runtime import Runtime
from dhsic.engine.take import take_rows

__all__ = ["describe_sources"]

_ROWS = 66
_CHUNKS = 4


def describe_sources(sources: Sequence[Source], runtime: Runtime) -> list[dict[str, Any]]:
    """Name, shape, dtype, columns and content of variables, as plain values.

    The content is known by all rows where they are in memory; elsewhere by the first, the last and
    some between, of a few chunks.
    """
    sampled = take_rows(sources, [_sampled(source) for source in sources], runtime)
    return [_described(*pair) for pair in zip(sources, sampled, strict=True)]


def _described(source: Source, rows: NDArray[Any]) -> dict[str, Any]:
    checksum = hashlib.sha256(bytes_of(rows))
    if source.place == "memory":
        step = max(1, BLOCK_BYTES // source.row_bytes)
        for start in range(0, source.shape[0], step):
            checksum.update(bytes_of(source.read(start, min(start + step, source.shape[0]))))
    columns = getattr(source, "columns", None)
    return {
        "name": source.name,
        "shape": list(source.shape),
        "dtype": rows.dtype.str,
        "columns": None if columns is None else list(columns),
        "categorical": source.categorical,
        "content": checksum.hexdigest(),
    }


def _sampled(source: Source) -> NDArray[np.intp]:
    """Rows to look at, increasing."""
    n, size = source.shape[0], source.chunk_rows
    if size is None:
        return _spread(0, n, _ROWS)
    starts = _spread(0, -(-n // size), _CHUNKS) * size
    rows = [_spread(start, min(start + size, n), _ROWS // _CHUNKS) for start in starts.tolist()]
    return np.concatenate(rows)


def _spread(start: int, stop: int, count: int) -> NDArray[np.intp]:
    """The first, the last and numbers between, at most so many."""
    return np.unique(np.linspace(start, stop - 1, min(count, stop - start)).astype(np.intp))
