"""A pass that looks for what is wrong with the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.reduction import Footprint, RowBlock

__all__ = ["Extent", "Scan"]


class Extent(NamedTuple):
    """What a scan finds, variable by variable."""

    first_bad: NDArray[np.float64]
    """First row with NaN or infinity, shape (M,); infinity where there is none."""
    low: tuple[NDArray[np.float64], ...]
    """Least value of every column, one array (d_m,) a variable."""
    high: tuple[NDArray[np.float64], ...]
    """Largest value of every column."""


@dataclass(frozen=True)
class Scan:
    """First bad row and range of every variable."""

    name: str = "scan"
    row_multiple: int = 1

    def footprint(self, rows: int) -> Footprint:
        """Small."""
        del rows
        return Footprint(payload=0, scratch=0, state=0, operations=1.0)

    def chunk(self, block: RowBlock) -> Extent:
        """Look at one block."""
        finite = [np.isfinite(x).all(axis=1) for x in block.values]
        first = [np.inf if ok.all() else block.start + int(np.argmin(ok)) for ok in finite]
        low = tuple(x.min(axis=0).astype(np.float64) for x in block.values)
        high = tuple(x.max(axis=0).astype(np.float64) for x in block.values)
        return Extent(np.array(first), low, high)

    def combine(self, left: Extent, right: Extent) -> Extent:
        """Keep the earlier row and the wider range."""
        return Extent(
            np.minimum(left.first_bad, right.first_bad),
            tuple(map(np.minimum, left.low, right.low)),
            tuple(map(np.maximum, left.high, right.high)),
        )
