"""Reading blocks, planning, and a pass whose tasks do next to nothing."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import zarr

import dhsic
from dhsic.engine.plan import PassPlan
from dhsic.engine.run import run_pass
from dhsic.engine.runtime import Runtime
from dhsic.engine.scan import Scan
from dhsic.engine.together import read_block
from dhsic.io.open import open_variables

from .data import COLUMNS, PRECISIONS, ROWS, normal

if TYPE_CHECKING:  # so that older commits can be measured
    from dhsic.estimators import EstimatorName


class Reading:
    """Blocks of zarr arrays on disk."""

    param_names: ClassVar = ["precision", "columns"]
    params: ClassVar = [PRECISIONS, COLUMNS]

    def setup(self, precision: str, columns: int) -> None:
        self.folder = tempfile.TemporaryDirectory()
        paths = [str(Path(self.folder.name) / name) for name in ("x.zarr", "y.zarr")]
        for path, values in zip(paths, normal(ROWS, columns, precision), strict=True):
            zarr.create_array(path, data=values, chunks=(ROWS // 2, values.shape[1]))
        self.sources = open_variables(paths)

    def teardown(self, precision: str, columns: int) -> None:
        self.folder.cleanup()

    def time_read_block(self, precision: str, columns: int) -> None:
        read_block(self.sources, [(0, ROWS)], {}, True)


class Planning:
    """Plans of a test of 100 million stored rows, of which none is read."""

    param_names: ClassVar = ["estimator"]
    params: ClassVar = [["nystrom-m", "rff-hsic", "block-hsic"]]

    def setup(self, estimator: EstimatorName) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.paths = [str(Path(self.folder.name) / name) for name in ("x.zarr", "y.zarr")]
        for path in self.paths:
            zarr.create_array(
                path, shape=(10**8, 1), chunks=(10**5, 1), dtype="f4", fill_value=np.nan
            )

    def teardown(self, estimator: EstimatorName) -> None:
        self.folder.cleanup()

    def time_plan(self, estimator: EstimatorName) -> None:
        dhsic.plan(*self.paths, estimator=estimator)


class Scheduling:
    """The graph of a pass and its tasks on threads of this process."""

    param_names: ClassVar = ["blocks"]
    params: ClassVar = [[10, 1000]]

    def setup(self, blocks: int) -> None:
        bounds = tuple(4 * i for i in range(blocks + 1))
        self.plan = PassPlan("scan", bounds, 0, 0, 0)
        self.sources = open_variables([np.zeros((4 * blocks, 1))] * 2)

    def time_pass(self, blocks: int) -> None:
        run_pass(Scan(), self.sources, self.plan, Runtime(1, 2**31), _ignore)


def _ignore(event: Any) -> None:
    del event
