"""Bias and noise of estimates of HSIC, beside the unbiased estimate from all pairs of rows.

All methods have one Gaussian kernel of either variable, of the same bandwidth, on the same data
sets. `ratio` is the mean estimate over that of `u-hsic`, with its standard `error`; `noise` is the
standard deviation of their difference and `deviation` that of `u-hsic`, both over its mean.
`seconds` are of the processor.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

import dhsic
from benchmarks.shared.cases import Data
from benchmarks.shared.dependence import TWO
from benchmarks.study import Cell, Row, Study

OPTIONS: Mapping[str, Any] = {"kernels": "gaussian", "threads": 1}
DATA = (
    *("linear", "circle", "heavy tails", "3 + 3 columns, sine", "1 of 20 columns"),
    *("1 of 90 columns", "sum of 90 columns", "squares of 90 columns", "50 + 50 columns"),
)
METHODS: Mapping[str, Any] = {
    "u-hsic": "u-hsic",
    "test": None,
    "hsic": "auto",
    "256 landmarks, unbiased": dhsic.NystromHSIC(256, unbiased_estimate=True),
    "64 landmarks, unbiased": dhsic.NystromHSIC(64, unbiased_estimate=True),
    "256 landmarks": dhsic.NystromHSIC(256),
    "tuples of landmarks": "nystrom-m",
    "v-hsic": "v-hsic",
}


def estimate(data: Data, estimator: Any, seed: int) -> float:
    if estimator is None:  # the estimate that a test reports
        return dhsic.independence_test(*data, rng=seed, **OPTIONS).estimate
    return dhsic.hsic(*data, estimator=estimator, rng=seed, **OPTIONS).estimate


def data_of(kind: str, n: int, run: int) -> Data:
    return TWO[kind](n, np.random.default_rng(run))


@cache
def exact(kind: str, n: int, run: int) -> float:
    """The unbiased estimate from all pairs of rows."""
    return estimate(data_of(kind, n, run), "u-hsic", run)


def measure(cell: Cell, run: int) -> tuple[float, float, float]:
    """An estimate, the exact one, and the processor seconds of the former."""
    data = data_of(cell.data, cell.n, run)
    began = time.process_time()
    found = estimate(data, cell.test, run)
    return found, exact(cell.data, cell.n, run), time.process_time() - began


def rows(cell: Cell, found: Sequence[tuple[float, float, float]]) -> Iterator[Row]:
    values, others, seconds = np.array(found).T
    mean = float(others.mean())
    difference = float(np.std(values - others, ddof=1)) / mean
    yield {
        "u-hsic mean": mean,
        "ratio": float(values.mean()) / mean,
        "error": difference / math.sqrt(len(values)),
        "noise": difference,
        "deviation": float(np.std(others, ddof=1)) / mean,
        "seconds": float(seconds.mean()),
    }


STUDY = Study(
    name="estimates",
    title="How far are estimates from those of all pairs of rows?",
    data={kind: TWO[kind] for kind in DATA},
    methods=METHODS,
    sizes=(500, 4000, 16_000),
    measure=measure,
    columns=("u-hsic mean", "ratio", "error", "noise", "deviation", "seconds"),
    runs=20,
    rows=rows,
    follows_defaults=lambda cell: cell.method in ("test", "hsic"),
    small={"data": ["linear"], "methods": ["u-hsic", "hsic"], "sizes": [300], "runs": 2},
)
