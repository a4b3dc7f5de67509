"""The most rows that a test takes within a time and a memory; `peers.py` has the command.

The data are of the Million Song shape. Sizes double, with one step between the last that worked and
the first that did not. Every test runs in a fresh process with the threads that its package takes
by itself, whatever the environment says of them, after a test of few rows. Ours read zarr and are
told the memory; the others hold the rows, which counts.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np

from benchmarks.peers.peer_tests import METHODS, Test
from benchmarks.shared.cases import Data
from benchmarks.shared.limits import MEMORY, Measured, measure
from benchmarks.shared.output import keys_of
from dhsic.errors import MemoryBudgetError
from dhsic.io.synthetic import generate, synthetic

MIB = 2**20
WARM_ROWS = 600
STORED = "dhsic nystrom-m, 500 landmarks"
LIMIT_KEYS = ("method", "features", "n", "resamples", "limit seconds", "limit MiB")
DEPENDENCE = 0.3
THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS")
FEWEST_ROWS = 500
FIRST_SIZES: dict[str, dict[str, int]] = {
    "90": {
        "dhsic default": 64_000,
        "dhsic nystrom-m, multiplier": 512_000,
        STORED: 1_000_000,
        "hyppo Hsic": 1_000,
        "hyppo Hsic, fast": 8_000,
        "dcor dcov": 2_000,
        "causal-learn KCI, median": 8_000,
        "causal-learn hsic_test_gamma": 8_000,
        "causal-learn RIT": 256_000,
        "scikit-learn Nystroem 100": 64_000,
    },
    "1": {
        "dhsic default": 128_000,
        "hyppo Dcorr, fast": 512_000,
        "causal-learn hsic_test_gamma": 8_000,
    },
}
"""Of `limits`, near what a test reaches, by the number of features."""


def sizes_to_try(stopped: Mapping[int, bool], start: int, most: int) -> Iterator[int]:
    """Double, or halve where too much, until that changes; then the size between.

    Whether a size was stopped is to be in `stopped` before the next one is asked for.
    """
    n = start
    yield n
    while FEWEST_ROWS <= (following := n // 2 if stopped[n] else 2 * n) <= most:
        yield following
        if stopped[following] != stopped[n]:
            yield (n + following) // 2
            return
        n = following


def limit_rows(
    settings: Sequence[tuple[str, int, int]],
    most: int,
    resamples: int,
    seconds: float,
    memory: int,
    done: Sequence[Mapping[str, Any]],
) -> Iterator[Mapping[str, Any]]:
    """Every test that was tried, of (method, features, first size), and what stopped it."""
    yield from done
    known = {keys_of(row, LIMIT_KEYS): row for row in done}
    with tempfile.TemporaryDirectory() as folder:
        for name, features, start in settings:
            stopped: dict[int, bool] = {}
            for n in sizes_to_try(stopped, start, most):
                values = (name, features, n, resamples, f"{seconds:.4g}", memory)
                keys = dict(zip(LIMIT_KEYS, values, strict=True))
                row = known.get(keys_of(keys, LIMIT_KEYS))
                if row is None:
                    row = {**keys, **_trial(name, features, n, resamples, seconds, memory, folder)}
                    yield row
                stopped[n] = bool(row["stopped"])


def _trial(
    name: str, features: int, n: int, resamples: int, seconds: float, memory: int, folder: str
) -> dict[str, Any]:
    own = METHODS[name].package == "dhsic"
    path = Path(folder) / f"{features}x{n}.zarr"
    if own and not path.exists():
        generate(path, rows=n, features=features, dependence=DEPENDENCE)
    prepare = (
        partial(_stored, name, path, resamples, memory)
        if own
        else partial(_held, name, n, features, resamples)
    )
    with threads_of_their_own():
        found = measure(prepare, seconds, memory * MIB)
    return {
        "null": METHODS[name].null,
        "data": "zarr" if own else "numpy",
        "seconds": found.seconds,
        "processor seconds": found.processor_seconds,
        "start MiB": found.start_bytes / MIB,
        "peak MiB": found.peak_bytes / MIB,
        "p-value": "" if found.stopped else found.value,
        "stopped": stopped_by(found),
    }


@contextmanager
def threads_of_their_own() -> Iterator[None]:
    """Processes that are started do not read numbers of threads from the environment."""
    kept = {name: os.environ.pop(name) for name in THREADS if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(kept)


def stopped_by(found: Measured) -> str:
    """What stopped a test: a plan of ours that is refused is stopped by memory."""
    if "group peers" in found.stopped:
        raise click.ClickException(found.stopped)
    return MEMORY if MemoryBudgetError.__name__ in found.stopped else found.stopped


def _held(name: str, n: int, features: int, resamples: int) -> Callable[[], float]:
    data = synthetic(n, features=features, dependence=DEPENDENCE, dtype=np.float64)
    return warmed(METHODS[name].test, list(data), resamples)


def _stored(name: str, path: Path, resamples: int, memory: int) -> Callable[[], float]:
    _held(name, WARM_ROWS, 1, resamples)
    test = partial(METHODS[name].test, memory=f"{memory}MiB")
    return partial(test, f"{path}/features", f"{path}/year", resamples, 0)


def warmed(test: Test, data: Data, resamples: int) -> Callable[[], float]:
    test(*(variable[:WARM_ROWS] for variable in data), 2, 0)
    return partial(test, *data, resamples, 0)
