"""A variable without some of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.blocks import Source, ValueKind, kinds_of, labels_of

if TYPE_CHECKING:
    from dask.delayed import Delayed

Indices = NDArray[np.intp]


class OfSources:
    """Properties of a variable that are those of the others that its rows are of."""

    whole: Source

    @property
    def parts(self) -> tuple[Source, ...]:
        """The others, of the same columns."""
        return (self.whole,)

    @property
    def categorical(self) -> bool:
        """Whether any column holds codes of categories."""
        return self.parts[0].categorical

    @property
    def stored(self) -> tuple[Any, ...]:
        """The stored arrays of the others."""
        return tuple(array for part in self.parts for array in getattr(part, "stored", ()))

    @property
    def marks(self) -> Any:
        """How the values of the first of them are read that says it."""
        return next((marks for x in self.parts if (marks := getattr(x, "marks", None))), None)

    @property
    def kinds(self) -> tuple[ValueKind, ...]:
        """Kinds of the columns."""
        return kinds_of(self.parts[0])

    @property
    def labels(self) -> tuple[str, ...] | None:
        """The names of the columns."""
        return labels_of(self.parts[0])


@dataclass(frozen=True)
class RestSource(OfSources):
    """The rows of another variable that are not left out, in their order.

    Parameters
    ----------
    whole : source
        The other variable.
    left_out : ndarray of int, shape (t,)
        Its rows that this one lacks, ascending; fewer than it has.

    Examples
    --------
    >>> from dhsic.io.sources import ArraySource
    >>> rest = RestSource(ArraySource("x", np.arange(6)), np.array([0, 3]))
    >>> rest.shape, rest.read(1, 4).ravel().tolist()
    ((4, 1), [2, 4, 5])
    """

    whole: Source
    left_out: Indices

    @property
    def name(self) -> str:
        """Name of the variable."""
        return self.whole.name

    @property
    def shape(self) -> tuple[int, int]:
        """Rows that are not left out, and columns."""
        n, d = self.whole.shape
        return n - len(self.left_out), d

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return self.whole.row_bytes

    @property
    def chunk_rows(self) -> int | None:
        """Rows of a chunk, about: some have more of the rows that are left out than others."""
        rows = self.whole.chunk_rows
        return None if rows is None else max(1, round(rows * self.shape[0] / self.whole.shape[0]))

    @property
    def place(self) -> Literal["memory", "storage", "graph"]:
        """That of the whole."""
        return self.whole.place

    @property
    def take_bytes(self) -> int:
        """Bytes that `take` holds besides its result."""
        return self.whole.take_bytes

    def decode_bytes(self, rows: int) -> int:
        """Those of the whole, and its rows before some are left out."""
        return self.whole.decode_bytes(rows) + rows * self.row_bytes

    @property
    def columns(self) -> tuple[int, ...] | None:
        """The columns of what is stored that make the variable; None for all."""
        columns: tuple[int, ...] | None = getattr(self.whole, "columns", None)
        return columns

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start..stop-1."""
        # One contiguous read of the whole: storage gives chunks, not rows.
        first, last = self._rows(np.array([start, stop - 1])).tolist()
        return _rows_without(self.whole.read(first, last + 1), self._left_out(first, last + 1))

    def take(self, rows: Indices) -> Any:
        """Rows by increasing number."""
        return self.whole.take(self._rows(rows))

    def lazy(self, bounds: Sequence[int]) -> list[Delayed]:
        """Delayed blocks between the bounds, where the whole is a Dask array."""
        from dask import delayed  # slow to import

        inner = self._rows(np.array(bounds[1:-1], np.intp)).tolist()
        outer = [0, *inner, self.whole.shape[0]]
        # A pure task is named by a hash of its arguments, which takes longer than the task.
        drop = delayed(_rows_without, pure=False)
        return [
            drop(block, left_out) if len(left_out := self._left_out(*span)) else block
            for block, span in zip(self.whole.lazy(outer), pairwise(outer), strict=True)
        ]

    def place_of(self, row: int) -> tuple[str, int]:
        """The name of the variable, and the number of a row in the whole."""
        return self.name, int(self._rows(np.array([row]))[0])

    def _rows(self, numbers: Indices) -> Indices:
        """The numbers of rows in the whole."""
        # How many rows that stay come before each that is left out.
        gaps = self.left_out - np.arange(len(self.left_out))
        rows: Indices = numbers + np.searchsorted(gaps, numbers, side="right")
        return rows

    def _left_out(self, start: int, stop: int) -> Indices:
        """Rows that are left out among start..stop-1 of the whole, counted from the first."""
        return self.left_out[slice(*np.searchsorted(self.left_out, [start, stop]))] - start


def _rows_without(block: NDArray[Any], left_out: Indices) -> NDArray[Any]:
    return np.delete(block, left_out, axis=0) if len(left_out) else block
