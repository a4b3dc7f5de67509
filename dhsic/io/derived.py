"""A variable that is computed from others, block by block, when it is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.blocks import Source, chunk_starts
from dhsic.engine.reduction import pickled, unpacked

if TYPE_CHECKING:
    from dask.delayed import Delayed

_TILE_ROWS = 4096


class RowFunction(Protocol):
    """Rows of a variable from the same rows of others."""

    def __call__(
        self, rows: NDArray[np.intp], values: Sequence[NDArray[Any]]
    ) -> NDArray[np.float64]:
        """Rows (b, width), given their numbers (b,) and the rows (b, d_m) of the others."""
        ...


class JoinRows:
    """Rows of several variables side by side, as a `RowFunction`."""

    def __call__(
        self, rows: NDArray[np.intp], values: Sequence[NDArray[Any]]
    ) -> NDArray[np.float64]:
        """Concatenate the columns."""
        del rows
        return np.concatenate([np.asarray(x, np.float64) for x in values], axis=1)


def joined_source(sources: Sequence[Source]) -> DerivedSource:
    """All columns of some variables side by side, as one."""
    name = ", ".join(source.name for source in sources)
    width = sum(source.shape[1] for source in sources)
    return DerivedSource(name, tuple(sources), JoinRows(), width)


@dataclass(frozen=True)
class DerivedSource:
    """A function of the rows of other variables, never held as a whole.

    Parameters
    ----------
    name : str
        Name of the variable.
    others : tuple of source
        Sources that it is computed from, with the same rows.
    function : RowFunction
        Computes it; travels to the tasks.
    width : int
        Its columns.
    """

    name: str
    others: tuple[Source, ...]
    function: RowFunction
    width: int

    categorical: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.others[0].shape[0], self.width

    @property
    def row_bytes(self) -> int:
        """Bytes of a row that is read, and of what is made of it."""
        return sum(other.row_bytes for other in self.others) + 8 * self.width

    @property
    def chunk_rows(self) -> int | None:
        """Rows that are stored together."""
        return max((other.chunk_rows or 0 for other in self.others), default=0) or None

    @property
    def place(self) -> Literal["memory", "storage", "graph"]:
        """A graph where any of the others is one; storage where all are in storage."""
        places = {other.place for other in self.others}
        if "graph" in places:
            return "graph"
        return "memory" if "memory" in places else "storage"

    @property
    def take_bytes(self) -> int:
        """Bytes that `take` holds besides its result."""
        return max(other.take_bytes for other in self.others)

    def decode_bytes(self, rows: int) -> int:
        """Those of the variable that needs most: they are read one after the other."""
        return max(other.decode_bytes(rows) for other in self.others)

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start..stop-1."""
        parts = [other.read(start, stop) for other in self.others]
        return _derived_rows(self.function, self.width, start, stop, *parts)

    def take(self, rows: NDArray[np.intp]) -> Any:
        """Rows by increasing number."""
        values = [other.take(rows) for other in self.others]
        if self.place == "storage" and (size := self.chunk_rows) is not None:
            # As tasks take them, a chunk at a time: products with more rows round anew.
            starts = chunk_starts(rows, size)
            parts = zip(*(np.split(x, starts) for x in (rows, *values)), strict=True)
            return np.concatenate([self.function(at, others) for at, *others in parts])
        if self.place != "graph":
            return self.function(rows, values)
        import dask.array as da  # with pandas and Xarray, slow to import
        from dask import delayed

        made = delayed(_function_of_rows, pure=False)(self._sent, rows, *values)
        return da.from_delayed(made, (len(rows), self.width), dtype=np.float64)

    def lazy(self, bounds: Sequence[int]) -> list[Delayed]:
        """Delayed blocks between the bounds, where one of the others is a Dask array."""
        from dask import delayed

        spans = list(pairwise(bounds))
        columns = [
            other.lazy(bounds) if other.place == "graph" else _reads(other, spans)
            for other in self.others
        ]
        make = delayed(_derived_rows, pure=False)
        return [
            make(self._sent, self.width, *span, *parts)
            for span, *parts in zip(spans, *columns, strict=True)
        ]

    @property
    def _sent(self) -> Any:
        from dask import delayed

        # Dask would look for tasks within its arrays otherwise, element by element.
        return delayed(_Sent(self.function), traverse=False)


class _Sent(NamedTuple):
    """A function on its way to tasks, with its arrays inside, see `unpacked`."""

    function: RowFunction

    def __reduce__(self) -> tuple[Any, ...]:
        return unpacked, (_Sent, pickled(tuple(self)))

    def __call__(
        self, rows: NDArray[np.intp], values: Sequence[NDArray[Any]]
    ) -> NDArray[np.float64]:
        # Arrays may arrive unaligned, see `unpacked`.
        return self.function(rows, [np.require(x, requirements="A") for x in values])


def _derived_rows(
    function: RowFunction, width: int, start: int, stop: int, *values: NDArray[Any]
) -> NDArray[np.float64]:
    """Rows start..stop-1, a few at a time so that what the function needs stays small."""
    out = np.empty((stop - start, width))
    for first in range(0, len(out), _TILE_ROWS):
        at = slice(first, min(first + _TILE_ROWS, len(out)))
        rows = np.arange(start + at.start, start + at.stop)
        out[at] = function(rows, [block[at] for block in values])
    return out


def _function_of_rows(function: RowFunction, rows: NDArray[np.intp], *values: NDArray[Any]) -> Any:
    return function(rows, values)


def _reads(other: Source, spans: Sequence[tuple[int, int]]) -> list[Any]:
    """Blocks of what is no graph: in storage they are read by the tasks, in memory here."""
    if other.place == "memory":
        return [other.read(*span) for span in spans]
    from dask import delayed

    return [delayed(other.read, pure=False)(*span) for span in spans]
