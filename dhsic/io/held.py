"""A variable whose rows are read once and held in memory, since they are needed in any order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.blocks import BLOCK_BYTES, Kind, Source, kinds_of, labels_of
from dhsic.engine.units import format_bytes
from dhsic.errors import MemoryBudgetError

__all__ = ["HeldSource", "held_sources"]

_SHARE = 4  # of the memory


@dataclass(frozen=True)
class HeldSource:
    """The rows of another variable, which are read when the first of them is asked for.

    Parameters
    ----------
    whole : source
        The other variable, in storage or a Dask array.
    """

    whole: Source

    place: Literal["memory"] = "memory"
    chunk_rows: int | None = None

    @cached_property
    def array(self) -> NDArray[Any]:
        """All rows, shape (n, d)."""
        n = self.shape[0]
        if self.whole.place == "graph":
            (whole,) = self.whole.lazy([0, n])
            return np.asarray(whole.compute())
        step = max(self.whole.chunk_rows or 0, BLOCK_BYTES // self.whole.row_bytes, 1)
        return np.concatenate([self.whole.read(a, min(a + step, n)) for a in range(0, n, step)])

    @property
    def name(self) -> str:
        """Name of the variable."""
        return self.whole.name

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.whole.shape

    @property
    def row_bytes(self) -> int:
        """Bytes of a row, as floats where the other is of more columns."""
        return min(self.whole.row_bytes, 8 * self.shape[1])

    @property
    def take_bytes(self) -> int:
        """Nothing besides the rows."""
        return 0

    @property
    def categorical(self) -> bool:
        """Whether any column holds codes of categories."""
        return self.whole.categorical

    @property
    def stored(self) -> tuple[Any, ...]:
        """The stored arrays of the other."""
        stored: tuple[Any, ...] = getattr(self.whole, "stored", ())
        return stored

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """What every column holds."""
        return kinds_of(self.whole)

    @property
    def labels(self) -> tuple[str, ...] | None:
        """The names of the columns."""
        return labels_of(self.whole)

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start..stop-1."""
        return self.array[start:stop]

    def take(self, rows: NDArray[np.intp]) -> NDArray[Any]:
        """Rows by number."""
        return self.array[rows]

    def lazy(self, bounds: Sequence[int]) -> list[Any]:
        """Not for rows in memory."""
        raise NotImplementedError

    def place_of(self, row: int) -> tuple[str, int]:
        """The name of the variable, and the number of a row in the other's data."""
        place = getattr(self.whole, "place_of", None)
        found: tuple[str, int] = (self.name, row) if place is None else place(row)
        return found


def held_sources(sources: list[Source], memory: int) -> list[Source]:
    """The variables, those that are not in memory held there.

    Raises
    ------
    MemoryBudgetError
        They take more than a quarter of the memory.
    """
    held: list[Source] = [one if one.place == "memory" else HeldSource(one) for one in sources]
    needed = sum(one.row_bytes * one.shape[0] for one in held if isinstance(one, HeldSource))
    if _SHARE * needed > memory:
        msg = (
            "rows that move within strata or as groups are held in memory, in a quarter of what is "
            f"allowed: they take {format_bytes(needed)}. Allow memory={_SHARE * needed} or "
            "more, or test fewer rows or columns"
        )
        raise MemoryBudgetError(msg)
    return held
