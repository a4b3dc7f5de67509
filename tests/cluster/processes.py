"""Schedulers and workers as processes of their own, on loopback."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import dhsic
from dhsic.cluster import TLS
from dhsic.results import IndependenceTestResult
from tests.cluster.slurm import wait_until

_ENVIRONMENT = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}

X, Y = np.random.default_rng(1).standard_normal((2, 24_000, 2))
OPTIONS: dict[str, Any] = {
    "kernels": "gaussian",
    "estimator": dhsic.NystromMHSIC(n_landmarks=30),
    "null": dhsic.Multiplier(20),
    "rng": 0,
}


@functools.cache
def quiet_result() -> IndependenceTestResult:
    """What every cluster must find, bit for bit."""
    return dhsic.independence_test(X, Y, threads=1, **OPTIONS)


def same_bits(found: IndependenceTestResult, expected: IndependenceTestResult) -> bool:
    null, other = found.null_distribution, expected.null_distribution
    assert null is not None
    assert other is not None
    return found.statistic == expected.statistic and null.tobytes() == other.tobytes()


@contextmanager
def dask_process(*words: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run `dask ...`, and end it, its children too, whatever happens."""
    with log.open("ab") as file:
        command = ["setpriv", "--pdeathsig", "KILL", sys.executable, "-m", "dask", *words]
        process = subprocess.Popen(
            command, stdout=file, stderr=file, stdin=subprocess.DEVNULL, env=_ENVIRONMENT
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(20)


@contextmanager
def dask_cluster(
    folder: Path, tls: TLS | None = None, threads: tuple[int, ...] = (1,)
) -> Iterator[tuple[str, Path]]:
    """A scheduler and workers of so many threads: its address, and its scheduler file."""
    folder.mkdir(parents=True, exist_ok=True)
    file, log = folder / "scheduler.json", folder / "log.txt"
    protocol = "tcp" if tls is None else "tls"
    secure = (
        []
        if tls is None
        else ["--tls-ca-file", tls.ca, "--tls-cert", tls.cert, "--tls-key", tls.key]
    )
    here = ["--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0", "--no-dashboard"]
    here += secure
    with ExitStack() as stack:
        scheduler = ["scheduler", "--port", "0", "--protocol", protocol]
        scheduler += ["--scheduler-file", str(file), *here]
        stack.enter_context(dask_process(*scheduler, log=log))
        wait_until(lambda: _complete(file), 200, lambda: log.read_text()[-2000:])
        for number in threads:
            worker = ["worker", "--scheduler-file", str(file), "--nthreads", str(number)]
            worker += ["--protocol", protocol, "--local-directory", str(folder), *here]
            stack.enter_context(dask_process(*worker, log=log))
        yield json.loads(file.read_text())["address"], file


def _complete(file: Path) -> bool:
    try:
        return bool(json.loads(file.read_text())["address"])
    except (OSError, ValueError):
        return False
