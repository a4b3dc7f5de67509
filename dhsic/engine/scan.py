"""A pass that looks for what is wrong with the data, and for rows that a sample has missed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic._random import random_keys
from dhsic.engine.blocks import Source, labels_of
from dhsic.engine.reduction import Footprint, Pass, RowBlock
from dhsic.errors import DataError

_KEPT = 16

Keys = NDArray[np.uint64]


class Still(NamedTuple):
    """Columns of a variable that are the same in every row of a sample."""

    variable: int
    """Its number."""
    columns: tuple[int, ...]
    """Their numbers."""
    value: NDArray[np.float64]
    """Their values there, shape (c,)."""


class Differing(NamedTuple):
    """Rows that hold something else there."""

    total: int
    """How many there are."""
    keys: Keys
    """Random numbers of those that are kept, ascending, shape (k,)."""
    values: NDArray[np.float64]
    """Values of these rows, shape (k, c): of all, or of 16 drawn at random."""

    def merge(self, other: Differing) -> Differing:
        """Merge the findings about the rows of both."""
        keys = np.concatenate([self.keys, other.keys])
        # The smallest keys of all are a uniform draw, however the rows are cut into blocks.
        kept = np.argsort(keys, kind="stable")[:_KEPT]
        values = np.concatenate([self.values, other.values])
        return Differing(self.total + other.total, keys[kept], values[kept])


class Extent(NamedTuple):
    """Findings of a scan."""

    first_bad: NDArray[np.float64]
    """First row with NaN or infinity, shape (M,); infinity where there is none."""
    differing: tuple[Differing, ...]
    """For every set of columns that was the same in a sample."""


def check_finite(extent: Extent, sources: Sequence[Source], remedy: str) -> None:
    """Refuse variables with NaN or infinity.

    Raises
    ------
    DataError
        Names the first row of the variable where it comes first.
    """
    number = int(np.argmin(extent.first_bad))
    row = extent.first_bad[number]
    if np.isfinite(row):
        # Rows of pooled samples are told by the sample that they are of.
        place = getattr(sources[number], "place_of", None)
        name, row = (sources[number].name, row) if place is None else place(int(row))
        what = f"variable {name!r}"
        labels = labels_of(sources[number])
        if place is None and labels and len(labels) > 1 and sources[number].place != "graph":
            bad = ~np.isfinite(sources[number].read(int(row), int(row) + 1)[0])
            what = f"column {labels[int(np.argmax(bad))]!r} of {what}"
        said = getattr(getattr(sources[number], "marks", None), "said", "")
        marked = f" (as read by its attributes {said})" if said else ""
        msg = (
            f"{what} has NaN or infinity, first in row {int(row)}{marked}: "
            f"drop or fill such rows{remedy}"
        )
        raise DataError(msg)


@dataclass(frozen=True)
class Scan(Pass[Extent]):
    """First bad row of every variable, and rows that differ from those of a sample.

    Parameters
    ----------
    still : tuple of Still
        Findings of earlier scans, to look beyond.
    seed : int
        The seed of the test: which of many rows are kept depends on it and on their numbers.
    finite : tuple of bool, optional
        Whether NaN and infinity are bad in every variable; in all where not given.
    """

    # argmin of booleans is the first that is false.
    still: tuple[Still, ...] = ()
    seed: int = 0
    finite: tuple[bool, ...] | None = None
    name: str = "scan"

    def footprint(self, rows: int) -> Footprint:
        """Small, but for copies of the columns."""
        columns = sum(len(still.columns) for still in self.still)
        widest = max((len(still.columns) for still in self.still), default=0)
        return Footprint(
            payload=16 * columns,
            scratch=rows * (9 * widest + 16),
            state=_KEPT * 8 * (columns + len(self.still)),
        )

    def chunk(self, block: RowBlock) -> Extent:
        """Look at one block."""
        finite = [np.isfinite(x).all(axis=1) for x in block.values]
        refuses = self.finite or (True,) * len(finite)
        first = [
            block.start + int(np.argmin(ok)) if refused and not ok.all() else np.inf
            for ok, refused in zip(finite, refuses, strict=True)
        ]
        return Extent(np.array(first), tuple(self._differing(block, still) for still in self.still))

    def combine(self, left: Extent, right: Extent) -> Extent:
        """Keep the earlier row, and the rows of the smallest keys."""
        pairs = zip(left.differing, right.differing, strict=True)
        merged = tuple(first.merge(other) for first, other in pairs)
        return Extent(np.minimum(left.first_bad, right.first_bad), merged)

    def _differing(self, block: RowBlock, still: Still) -> Differing:
        x = block.values[still.variable][:, list(still.columns)]
        # A row that misses a value differs from no other.
        rows = np.flatnonzero((x != still.value).any(axis=1) & ~np.isnan(x).any(axis=1))
        keys = self._keys(block, still.variable, rows)
        kept = np.argsort(keys, kind="stable")[:_KEPT]
        return Differing(len(rows), keys[kept], x[rows[kept]].astype(np.float64))

    def _keys(self, block: RowBlock, variable: int, rows: NDArray[np.intp]) -> Keys:
        """Keys of the rows of one variable by itself, so that they do not depend on the pairing."""
        if not len(rows):
            return np.zeros(0, np.uint64)
        # Keys of consecutive rows are drawn at once: from the first to the last that differs.
        first, last = int(rows[0]), int(rows[-1])
        start = block.start + first
        keys = random_keys(self.seed, start, start + last - first + 1, "bandwidth", variable, 1)
        return keys[rows - first]
