"""The pass over the data that sums a kernel at landmarks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dhsic.embedding.exact_sums import LIMBS, ExactSums
from dhsic.engine.reduction import Footprint, Pass, RowBlock
from dhsic.engine.tiles import ROW_TILE, Tiling, column_sums
from dhsic.errors import DataError

GROUP_ROWS = ROW_TILE


@dataclass(frozen=True)
class EmbeddingPass(Pass[ExactSums]):
    """sum_i k(z_j, x_i), each group of rows by itself and the groups without rounding.

    Parameters
    ----------
    tiling : Tiling
        One kernel and its landmarks.
    """

    tiling: Tiling
    # Blocks begin at whole groups, so that groups are the same however the rows are cut.
    name: str = "kernel sums"
    row_multiple: int = GROUP_ROWS

    def footprint(self, rows: int) -> Footprint:
        """Cost of a block of so many rows."""
        t = self.tiling
        state, groups = 8 * LIMBS * t.n_landmarks, 8 * t.n_landmarks * (rows // GROUP_ROWS + 1)
        scratch = t.scratch_bytes + 2 * state + 2 * groups
        return Footprint(t.nbytes, scratch, state)

    def chunk(self, block: RowBlock) -> ExactSums:
        """Sums over one block."""
        sums = list(self._groups(block))
        # Integers have no infinity, so that exact sums could not hold it.
        if not np.isfinite(sums).all():
            msg = (
                f"the kernel overflows in rows {block.start} to {block.start + block.rows - 1}"
                ": take a bounded kernel, as 'gaussian', or scale the variable"
            )
            raise DataError(msg)
        return ExactSums.of(*sums)

    def _groups(self, block: RowBlock) -> Iterator[NDArray[np.float64]]:
        """The sums of every group of rows, shape (p,)."""
        buffers = self.tiling.buffers()
        for _, rows in self.tiling.row_tiles(block.values, GROUP_ROWS):
            group = np.empty(self.tiling.n_landmarks)
            for at, (tile,) in self.tiling.gram_tiles(rows, buffers):
                group[at] = column_sums(tile)
            yield group

    def combine(self, left: ExactSums, right: ExactSums) -> ExactSums:
        """Add."""
        return left.add(right)
