"""Inventories of stored arrays at the start of a run, and checks for changes at its end."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.blocks import BLOCK_BYTES, Source, kinds_of
from dhsic.engine.graph import as_task, computed, take_rows
from dhsic.engine.runtime import Runtime
from dhsic.engine.supervision import explained_failures
from dhsic.errors import DataError
from dhsic.results import StoredArraySummary

_MOST_PARTS = 128  # that a checkpoint keeps of an array
_MOST_RANGES = 4
_ROWS = 66
_CHUNKS = 4
_FEWEST_ROWS = 32_768


class Stamp(NamedTuple):
    """A stored chunk, as a listing shows it."""

    size: int
    """In bytes, as stored."""
    mark: str
    """Its ETag or the time it was written; empty where the store tells neither."""


@dataclass(frozen=True)
class Inventory:
    """The chunks of a stored array, as one listing of its store shows them.

    Parameters
    ----------
    name : str
        Name of a variable that it holds.
    rows : int
        Rows of the array.
    chunks : tuple of tuple of (Stamp or None)
        For every chunk along the rows those across the columns; None for one that is not there.
    chunk_rows : int
        Rows that are stored together.
    fill : str or None
        The number that absent chunks are read as; None where it is NaN, which is a missing value.
    checksums : tuple of str
        Codecs of the array that notice a damaged chunk.
    within : tuple of (int, int), optional
        Rows of every chunk that is absent within a shard that is there.

    Examples
    --------
    >>> there = (Stamp(80, "a"),)
    >>> Inventory("x", 25, (there, (None,), there), 10, "0", ()).absent
    [(10, 20)]
    """

    name: str
    rows: int
    chunks: tuple[tuple[Stamp | None, ...], ...]
    chunk_rows: int
    fill: str | None
    checksums: tuple[str, ...]
    within: tuple[tuple[int, int], ...] = ()

    @property
    def absent(self) -> list[tuple[int, int]]:
        """The rows of every chunk that is not there."""
        spans = [
            (k * self.chunk_rows, min((k + 1) * self.chunk_rows, self.rows))
            for k, across in enumerate(self.chunks)
            for stamp in across
            if stamp is None
        ]
        return sorted([*spans, *self.within])

    @property
    def parts(self) -> dict[str, str]:
        """Up to 128 runs of rows, and what is stored for each, in a line."""
        size, spans = self.chunk_rows, _parts_of(len(self.chunks))
        return {
            _rows_text(a * size, min(b * size, self.rows)): _in_a_line(self.chunks[a:b])
            for a, b in spans
        }

    @property
    def summary(self) -> StoredArraySummary:
        """Its summary in a result."""
        stamps = [stamp for across in self.chunks for stamp in across]
        return StoredArraySummary(
            name=self.name,
            chunks=len(stamps),
            absent=len(self.absent),
            stored_bytes=_bytes_of_stamps(stamps),
            checksums=self.checksums,
            digest=_digest(self.parts.values()),
        )


Inventories = tuple[tuple[Any, Inventory], ...]
"""For every array that a store lists one of its variables, and the chunks."""


def take_inventories(sources: Sequence[Source]) -> Inventories:
    """List every stored array that variables are made of, once.

    Parameters
    ----------
    sources : sequence of Source
        The variables.

    Returns
    -------
    tuple of (variable, Inventory)
        For every array one of its variables and the chunks; without arrays whose store lists none.

    Raises
    ------
    DataError
        Chunks are absent whose fill value is a number, and are not allowed to be.
    """
    arrays: dict[object, list[Any]] = {}
    for source in sources:
        for array in getattr(source, "stored", ()):
            # Several variables of one array are one listing.
            arrays.setdefault(array.identity, []).append(array)
    listed = [(same, same[0].inventory(within=True)) for same in arrays.values()]
    for same, inventory in listed:
        if inventory is None:
            continue
        # One variable that allows it speaks for the array, whose chunks all of them share.
        if not any(array.allow_missing_chunks for array in same):
            _refuse_absent(inventory)
    return tuple((same[0], inventory) for same, inventory in listed if inventory is not None)


def check_unchanged(before: Inventories) -> None:
    """List the stored arrays again, and refuse a result of data that changed meanwhile.

    Raises
    ------
    DataError
        A chunk was written, added or removed since the first listing.
    """
    for stored, first in before:
        # Their stamps are enough: a shard in which something changed has another one.
        now = stored.inventory(within=False)
        parts = {} if now is None else now.parts  # None where listing was allowed and is not now
        changed = [rows for rows, line in first.parts.items() if parts.get(rows) != line]
        if changed:
            msg = (
                f"the stored data of variable {first.name!r} changed during the run, in "
                f"{_several(changed)}, so that its result would be of neither: run again when "
                "nothing writes to them"
            )
            raise DataError(msg)


def _refuse_absent(inventory: Inventory) -> None:
    # NaN in the place of absent chunks is refused, or dropped, as any missing value.
    if inventory.fill is None or not inventory.absent:
        return
    ranges = [_rows_text(*ends) for ends in _merged_ranges(inventory.absent)]
    count = len(inventory.absent)
    msg = (
        f"variable {inventory.name!r} lacks {count:,} stored chunk{'s' if count > 1 else ''}, of "
        f"{_several(ranges)}, which would be read as {inventory.fill}: complete the data, as after "
        "a writer that was interrupted; or, where the writer left out chunks that hold "
        f"{inventory.fill} alone, as zarr does by default, allow it by --allow-missing-chunks, in "
        "Python by dhsic.stored_array(..., allow_missing_chunks=True)"
    )
    raise DataError(msg)


def _merged_ranges(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges by their starts, with those that touch joined."""
    joined: list[tuple[int, int]] = []
    for start, stop in ranges:
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(stop, joined[-1][1])
        else:
            joined.append((start, stop))
    return joined


def _parts_of(count: int) -> Iterable[tuple[int, int]]:
    """Runs of chunks, of which a checkpoint keeps a line each and tells which rows changed."""
    return pairwise(sorted({count * k // _MOST_PARTS for k in range(_MOST_PARTS + 1)}))


def _rows_text(start: int, stop: int) -> str:
    return f"rows {start} to {stop - 1}"


def _several(listed: Sequence[str]) -> str:
    shown = ", ".join(listed[:_MOST_RANGES])
    more = len(listed) - _MOST_RANGES
    return f"{shown} and {more:,} more ranges" if more > 0 else shown


def _in_a_line(chunks: Sequence[Sequence[Stamp | None]]) -> str:
    stamps = [stamp for across in chunks for stamp in across]
    # A listing tells size and ETag or time; the bytes themselves are not read.
    there = len(stamps) - stamps.count(None)
    digest = _digest("-" if stamp is None else f"{stamp.size} {stamp.mark}" for stamp in stamps)
    return f"{there} of {len(stamps)} chunks, {_bytes_of_stamps(stamps)} bytes, {digest[:16]}"


def _bytes_of_stamps(stamps: Iterable[Stamp | None]) -> int:
    return sum(stamp.size for stamp in stamps if stamp is not None)


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:32]


def describe_sources(sources: Sequence[Source], runtime: Runtime) -> dict[str, Any]:
    """Name, shape, dtype and columns of variables, and their content, as plain values.

    The content is that of all rows where they are in memory or computed by a Dask graph, which is
    computed once for it. For stored rows it is that of the first, the last and some between, of a
    few chunks: what else changes, an inventory shows.
    """
    sampled = take_rows(sources, [_sampled(source) for source in sources], runtime)
    graphs = (source for source in sources if source.place == "graph")
    with explained_failures(None):
        # All graphs at once, which share what they compute.
        tasks = [as_task(_sha)(b) for source in graphs for b in source.lazy(_sample_bounds(source))]
        of_graphs = iter(computed(tasks, runtime))
    variables, content = [], {}
    for source, rows in zip(sources, sampled, strict=True):
        columns = getattr(source, "columns", None)
        described = {
            "name": source.name,
            "shape": list(source.shape),
            "dtype": rows.dtype.str,
            "columns": None if columns is None else list(columns),
            "categorical": "category" in kinds_of(source),
            # A sample of rows need not have any that is marked as missing.
            "marks": [str(array.marks) for array in getattr(source, "stored", ())],
        }
        variables.append(described)
        # Read whole where rows are in memory, or computed: a sample could miss a changed value.
        # Of stored data a sample, since reading all would take as long as the test.
        told: Any = _sha(rows)
        if source.place != "storage":
            graph, spans = source.place == "graph", list(pairwise(_sample_bounds(source)))
            pieces = [next(of_graphs) if graph else _sha(source.read(*span)) for span in spans]
            told = {
                _rows_text(spans[a][0], spans[b - 1][1]): _digest(pieces[a:b])
                for a, b in _parts_of(len(spans))
            }
        content[f"variable {source.name!r}"] = told
    return {"variables": variables, "content": content}


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
