"""Reading zarr from an S3 server on loopback, by obstore and by fsspec, against local disk.

All are read in turns, several times, so that what else the machine does falls on all alike; medians
are reported. The server is moto, a process of Python on the same processors: its throughput bounds
that of both libraries, so the processor time that the readers take is reported with it.
Writes benchmarks/results/storage.csv.

    python -m benchmarks run storage
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import click
import numpy as np
import zarr
from fsspec.config import conf

from benchmarks.shared.output import write_csv
from dhsic.io.forms import AnySource
from dhsic.io.open import open_variables
from dhsic.io.storage import RemoteStore

BUCKET = "bucket"
READERS = ("local disk", "obstore", "fsspec")
WHERE = ("threads", "processes")
_START_SECONDS = 0.5
"""How long the tasks take that wait for all processes to be there."""


class Reading(NamedTuple):
    """One array to read whole, block by block."""

    reader: str
    place: str
    rows: int
    step: int


@contextmanager
def running_server() -> Iterator[int]:
    """A moto server with one bucket, by its port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _make_bucket(f"http://127.0.0.1:{port}/{BUCKET}", server)
        yield port
    finally:
        server.terminate()
        server.wait(timeout=30)


def environment(port: int) -> dict[str, str]:
    """What a user of the server sets."""
    return {
        "AWS_ACCESS_KEY_ID": "AKIALEAKEDKEYID",
        "AWS_SECRET_ACCESS_KEY": "leakedSecretAccessKey",
        "AWS_SESSION_TOKEN": "leakedSessionToken",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    }


def _make_bucket(url: str, server: subprocess.Popen[bytes], patience: float = 120.0) -> None:
    """Create the bucket as soon as the server listens."""
    began = time.monotonic()
    while True:
        try:
            urllib.request.urlopen(
                urllib.request.Request(url, b"", method="PUT"), timeout=10
            ).close()
        except OSError:
            if server.poll() is not None or time.monotonic() - began > patience:
                raise
            time.sleep(0.05)
        else:
            return


@cache
def opened(reader: str, place: str) -> AnySource:
    """The array as a run opens it, once in a process; a setting of fsspec chooses that library."""
    conf["s3"] = {"use_ssl": False} if reader == "fsspec" else {}
    source = open_variables([place, place])[0]
    source.read(0, 1)
    return source


def read(reading: Reading, first: int, every: int) -> float:
    """Read a share of the blocks; seconds of processor time of this process."""
    source = opened(reading.reader, reading.place)
    began = time.process_time()
    for start in range(first * reading.step, reading.rows, every * reading.step):
        source.read(start, min(start + reading.step, reading.rows))
    return time.process_time() - began


def measure(reading: Reading, where: str, count: int) -> tuple[float, float]:
    """Seconds and processor seconds to read all by so many threads or processes."""
    with _pool(reading, where, count) as pool:
        list(pool.map(time.sleep, [_START_SECONDS] * count))
        began, used = time.perf_counter(), time.process_time()
        shares = list(pool.map(read, [reading] * count, range(count), [count] * count))
        seconds = time.perf_counter() - began
    own = time.process_time() - used
    return seconds, own if where == "threads" else sum(shares)


def _pool(reading: Reading, where: str, count: int) -> Executor:
    start: dict[str, Any] = {"initializer": opened, "initargs": (reading.reader, reading.place)}
    if where == "threads":
        return ThreadPoolExecutor(count, **start)
    return ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), **start)


def rows(
    folder: Path, n: int, features: int, chunks: list[int], counts: list[int], repeats: int
) -> Iterator[dict[str, Any]]:
    x = np.random.default_rng(0).standard_normal((n, features)).astype(np.float32)
    for chunk in chunks:
        places = _write(folder, x, chunk)
        for where, count in itertools.product(WHERE, counts):
            times: dict[str, list[tuple[float, float]]] = {reader: [] for reader in READERS}
            for _, reader in itertools.product(range(repeats), READERS):
                reading = Reading(reader, places[reader], n, chunk)
                times[reader].append(measure(reading, where, count))
            speeds = {r: x.nbytes / 1e6 / _median(times[r], 0) for r in READERS}
            for reader in READERS:
                yield {
                    "chunk MB": chunk * features * 4 / 1e6,
                    "where": where,
                    "count": count,
                    "reader": reader,
                    "MB/s": speeds[reader],
                    "of local disk": speeds[reader] / speeds["local disk"],
                    "processor s/GB": _median(times[reader], 1) / (x.nbytes / 1e9),
                }


def _median(times: list[tuple[float, float]], column: int) -> float:
    return float(np.median([one[column] for one in times]))


def _write(folder: Path, x: np.ndarray[Any, Any], chunk: int) -> dict[str, str]:
    """The array on disk and in the store, raw, since random numbers do not get smaller."""
    local, url = str(folder / f"{chunk}.zarr"), f"s3://{BUCKET}/{chunk}.zarr"
    for store in (local, RemoteStore(url, read_only=False)):
        zarr.create_array(store, data=x, chunks=(chunk, x.shape[1]), compressors=None)
    return {reader: local if reader == "local disk" else url for reader in READERS}


@click.command(help=__doc__)
@click.option("--rows", "n", default=400_000)
@click.option("--features", default=90)
@click.option("--chunk", "chunks", multiple=True, default=[2_000, 20_000])
@click.option("--count", "counts", multiple=True, default=[1, 2])
@click.option("--repeats", default=3)
@click.option("--out", default="benchmarks/results/storage.csv")
def main(
    n: int, features: int, chunks: list[int], counts: list[int], repeats: int, out: str
) -> None:
    with (
        running_server() as port,
        tempfile.TemporaryDirectory() as folder,
        patch.dict(os.environ, environment(port)),
        patch.dict(conf),
    ):
        write_csv(out, rows(Path(folder), n, features, list(chunks), list(counts), repeats))


if __name__ == "__main__":
    main()
