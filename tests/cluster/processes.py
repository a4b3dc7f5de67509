"""Schedulers and workers as processes of their own, on loopback, and a result to compare with."""

import functools
import json
import os
import subprocess
import sys
from contextlib import ExitStack, contextmanager

import numpy as np

import dhsic
from tests.cluster.slurm import wait_until

_ENVIRONMENT = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}

X, Y = np.random.default_rng(1).standard_normal((2, 24_000, 2))
OPTIONS = {
    "kernels": "gaussian",
    "estimator": dhsic.NystromMHSIC(n_landmarks=30),
    "null": "spectral",
    "rng": 0,
}


@functools.cache
def quiet_result():
    """What every cluster must find, bit for bit."""
    return dhsic.independence_test(X, Y, threads=1, **OPTIONS)


def same_bits(found, expected):
    null, other = found.null_distribution, expected.null_distribution
    return found.statistic == expected.statistic and null.tobytes() == other.tobytes()


@contextmanager
def dask_process(*words, log):
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
def dask_cluster(folder, tls=None, threads=(1,)):
    """A scheduler and workers of so many threads: its address, and its scheduler file."""
    folder.mkdir(parents=True, exist_ok=True)
    file, log = folder / "scheduler.json", folder / "log.txt"
    protocol = "tcp" if tls is None else "tls"
    here = ["--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0", "--no-dashboard"]
    if tls is not None:
        here += ["--tls-ca-file", tls.ca, "--tls-cert", tls.cert, "--tls-key", tls.key]
    here += ["--protocol", protocol, "--scheduler-file", str(file)]

    def complete():
        try:
            return json.loads(file.read_text())["address"]
        except (OSError, ValueError):
            return False

    with ExitStack() as stack:
        stack.enter_context(dask_process("scheduler", "--port", "0", *here, log=log))
        address = wait_until(complete, 200, lambda: log.read_text()[-2000:])
        for number in threads:
            worker = ["worker", "--nthreads", str(number), "--local-directory", str(folder)]
            stack.enter_context(dask_process(*worker, *here, log=log))
        yield address, file
