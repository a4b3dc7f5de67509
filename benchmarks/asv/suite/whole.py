"""Whole tests of a few thousand rows, and how long the package takes to start."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import dhsic
from dhsic._arguments import Precision

from .data import COLUMNS, PRECISIONS, normal

if TYPE_CHECKING:  # so that older commits can be measured
    from dhsic.estimators import EstimatorName


class WholeTest:
    """By landmarks, by random features and by all pairs of rows."""

    param_names: ClassVar = ["estimator", "precision", "columns"]
    params: ClassVar = [["nystrom-m", "rff-hsic", "v-hsic"], PRECISIONS, COLUMNS]
    rows = 2000

    def setup(self, estimator: EstimatorName, precision: Precision, columns: int) -> None:
        self.data = normal(self.rows, columns)

    def time_test(self, estimator: EstimatorName, precision: Precision, columns: int) -> None:
        self._test(estimator, precision)

    def peakmem_test(self, estimator: EstimatorName, precision: Precision, columns: int) -> None:
        self._test(estimator, precision)

    def _test(self, estimator: EstimatorName, precision: Precision) -> None:
        dhsic.independence_test(
            *self.data,
            kernels="gaussian",
            estimator=estimator,
            null="multiplier",
            precision=precision,
            threads=1,
            rng=0,
        )


class Start:
    """In a process of its own."""

    def timeraw_import(self) -> str:
        return "import dhsic"

    def timeraw_command_line(self) -> str:
        return """
            from contextlib import redirect_stdout, suppress
            from io import StringIO

            from dhsic.cli import main

            with redirect_stdout(StringIO()), suppress(SystemExit):
                main(["--help"])
        """
