"""A scheduler and workers of Dask, each a process of its own on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from distributed import Client

_PATIENCE = 600.0
_ENVIRONMENT = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


class HangError(Exception):
    """Something did not happen in time."""


def wait_for(what: str, condition: Callable[[], Any], seconds: float = _PATIENCE) -> Any:
    """The first true value of a condition."""
    until = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > until:
            raise HangError(what)
        time.sleep(0.02)
    return found


def end(process: subprocess.Popen[Any]) -> None:
    """Kill a process with all that it started."""
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(process.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                child.kill()
    process.kill()
    process.communicate()


@dataclass
class Cluster:
    """A scheduler and workers, each a process with another that starts it anew."""

    address: str
    scheduler: subprocess.Popen[Any]
    nannies: list[subprocess.Popen[Any]]


@contextmanager
def cluster(folder: Path, workers: int) -> Iterator[Cluster]:
    """Start a cluster on this machine, which is gone when the block ends."""
    file = folder / f"scheduler-{time.monotonic_ns()}.json"
    dask = [sys.executable, "-m", "dask"]
    common = ["--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0", "--no-dashboard"]
    started: list[subprocess.Popen[Any]] = []

    def start(*command: str) -> subprocess.Popen[Any]:
        process = subprocess.Popen(
            [*dask, *command],
            env=_ENVIRONMENT,
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        started.append(process)
        return process

    try:
        scheduler = start("scheduler", "--port", "0", *common, "--scheduler-file", str(file))
        address = wait_for("scheduler", lambda: _address(file))
        options = ["--nthreads", "1", "--memory-limit", "0", "--local-directory", str(folder)]
        nannies = [start("worker", address, *common, *options) for _ in range(workers)]
        made = Cluster(address, scheduler, nannies)
        with Client(address, set_as_default=False) as client:
            client.wait_for_workers(workers, timeout=_PATIENCE)
        yield made
    finally:
        for process in started:
            end(process)


def _address(file: Path) -> str | None:
    with suppress(OSError, ValueError):
        return str(json.loads(file.read_text())["address"])
    return None
