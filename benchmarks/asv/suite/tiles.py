"""The hot loop: Gram tiles between rows and landmarks."""

from __future__ import annotations

from collections import deque
from typing import ClassVar

from dhsic.engine.tiles import Tiling
from dhsic.kernels import Combinations, Gaussian, Kernel, Laplacian

from .data import COLUMNS, LANDMARKS, PRECISIONS, ROWS, normal

KERNELS: dict[str, Kernel] = {"gaussian": Gaussian(gamma=0.5), "laplacian": Laplacian(gamma=0.5)}


class GramTiles:
    """Of one variable."""

    param_names: ClassVar = ["kernel", "precision", "columns"]
    params: ClassVar = [list(KERNELS), PRECISIONS, COLUMNS]

    def setup(self, kernel: str, precision: str, columns: int) -> None:
        one = Combinations.single((KERNELS[kernel],))
        self.tiling = Tiling.prepare(one, normal(LANDMARKS, columns)[:1], precision)
        self.values = normal(ROWS, columns, precision)[:1]
        self.rows = [rows for _, rows in self.tiling.row_tiles(self.values)]
        self.buffers = self.tiling.buffers()

    def time_prepare_rows(self, kernel: str, precision: str, columns: int) -> None:
        deque(self.tiling.row_tiles(self.values), maxlen=0)

    def time_tiles(self, kernel: str, precision: str, columns: int) -> None:
        for rows in self.rows:
            deque(self.tiling.gram_tiles(rows, self.buffers), maxlen=0)
