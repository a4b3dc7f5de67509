"""Samples of rows by which a checkpoint recognises its data."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.blocks import BLOCK_BYTES, Source
from dhsic.engine.graph import as_task, computed, take_rows
from dhsic.engine.runtime import Runtime
from dhsic.engine.supervision import explained_failures

_ROWS = 66
_CHUNKS = 4
_MOST_PARTS = 128
_FEWEST_ROWS = 32_768


def describe_sources(sources: Sequence[Source], runtime: Runtime) -> dict[str, Any]:
    """Name, shape, dtype and columns of variables, and their content, as plain values.

    The content is that of all rows where they are in memory or computed by a Dask graph, which is
    computed once for it. For stored rows it is that of the first, the last and some between, of a
    few chunks: what else changes, an inventory shows.
    """
    sampled = take_rows(sources, [_sampled(source) for source in sources], runtime)
    of_graphs = _digests_of_graphs(
        [source for source in sources if source.place == "graph"], runtime
    )
    pairs = list(zip(sources, sampled, strict=True))
    return {
        "variables": [_sample_digest(source, rows) for source, rows in pairs],
        # Stored data by a sample of rows, since reading all would take as long as the test.
        "content": {
            f"variable {source.name!r}": _sha(rows)
            if source.place == "storage"
            else _by_rows(source, of_graphs)
            for source, rows in pairs
        },
    }


def _sample_digest(source: Source, rows: NDArray[Any]) -> dict[str, Any]:
    columns = getattr(source, "columns", None)
    return {
        "name": source.name,
        "shape": list(source.shape),
        "dtype": rows.dtype.str,
        "columns": None if columns is None else list(columns),
        "categorical": source.categorical,
        # A sample of rows need not have any that is marked as missing.
        "marks": [str(array.marks) for array in getattr(source, "stored", ())],
    }


def _by_rows(source: Source, of_graphs: Iterator[str]) -> dict[str, str]:
    """Up to 128 ranges of rows, each with a digest of its pieces."""
    bounds = _sample_bounds(source)
    count = len(bounds) - 1
    # Read whole where rows are in memory, or computed: a sample could miss a changed value.
    read = (_sha(source.read(*span)) for span in pairwise(bounds))
    digests = list(read if source.place == "memory" else islice(of_graphs, count))
    edges = sorted({count * k // _MOST_PARTS for k in range(_MOST_PARTS + 1)})
    return {
        f"rows {bounds[a]} to {bounds[b] - 1}": hashlib.sha256(
            "".join(digests[a:b]).encode()
        ).hexdigest()[:32]
        for a, b in pairwise(edges)
    }


def _digests_of_graphs(graphs: Sequence[Source], runtime: Runtime) -> Iterator[str]:
    """SHA-256 of the pieces of all Dask graphs, which share what they compute."""
    tasks = [
        as_task(_sha)(block) for source in graphs for block in source.lazy(_sample_bounds(source))
    ]
    with explained_failures(None):
        return iter(computed(tasks, runtime))


def _sample_bounds(source: Source) -> list[int]:
    """Pieces that are read at a time: 128 of 32,768 rows or more, of 8 MiB at the most."""
    n = source.shape[0]
    step = min(max(_FEWEST_ROWS, -(-n // _MOST_PARTS)), max(1, BLOCK_BYTES // source.row_bytes))
    return [*range(0, n, step), n]


def _sha(rows: NDArray[Any]) -> str:
    return hashlib.sha256(np.ascontiguousarray(rows).data).hexdigest()


def _sampled(source: Source) -> NDArray[np.intp]:
    """Rows to look at, increasing."""
    n, size = source.shape[0], source.chunk_rows
    if size is None:
        return _spread_numbers(0, n, _ROWS)
    # The first, the last and some chunks between, since each costs a decoding.
    starts = _spread_numbers(0, -(-n // size), _CHUNKS) * size
    rows = [
        _spread_numbers(start, min(start + size, n), _ROWS // _CHUNKS) for start in starts.tolist()
    ]
    return np.concatenate(rows)


def _spread_numbers(start: int, stop: int, count: int) -> NDArray[np.intp]:
    """The first, the last and numbers between, at most so many."""
    return np.unique(np.linspace(start, stop - 1, min(count, stop - start)).astype(np.intp))
