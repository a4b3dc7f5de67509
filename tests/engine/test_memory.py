"""The most memory that a process had."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest
import zarr

from dhsic.engine.memory import peak_bytes, worker_peak_bytes


def test_peak__is_at_least_what_the_process_has():
    assert peak_bytes() >= 0.9 * psutil.Process().memory_info().rss


def test_peak__stays_when_memory_is_given_back():
    code = (
        "import numpy as np\n"
        "from dhsic.engine.memory import peak_bytes\n"
        "before = peak_bytes()\n"
        "np.ones(8_000_000)\n"
        "print(peak_bytes() - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 50_000_000 < int(done.stdout) < 100_000_000


def test_peak__is_known_of_systems_without_proc(monkeypatch):
    known = peak_bytes()

    def missing(*_, **__):
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", missing)
    assert peak_bytes() == pytest.approx(known, rel=0.5)
    monkeypatch.setitem(sys.modules, "resource", None)
    assert peak_bytes() is None


def test_worker_peak__is_that_of_the_largest(client):
    peaks = client.run(peak_bytes)
    assert worker_peak_bytes(client) >= max(peaks.values())
    assert np.isclose(worker_peak_bytes(client), max(peaks.values()), rtol=0.2)


def test_worker_peak__is_not_known_where_no_worker_tells(client, monkeypatch):
    monkeypatch.setattr("dhsic.engine.memory.peak_bytes", lambda: None)
    assert worker_peak_bytes(client) is None


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")
@pytest.mark.parametrize(("threshold", "fresh"), [("65536", False), ("65537", True)])
def test_freed_memory__is_used_again_where_nannies_of_dask_have_it_given_back(threshold, fresh):
    code = (
        "import resource\n"
        "import numpy as np\n"
        "from dhsic.engine.memory import reuse_freed_memory\n"
        "reuse_freed_memory()\n"
        "faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
        "np.ones(100_000)\n"
        "before = faults()\n"
        "for _ in range(100):\n"
        "    np.ones(100_000)\n"
        "print(faults() - before)"
    )
    environment = {**os.environ, "MALLOC_TRIM_THRESHOLD_": threshold}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    pages = 100 * 800_000 // os.sysconf("SC_PAGE_SIZE")
    assert (int(done.stdout) > pages // 2) == fresh


def peak_of(code):
    """The peak of a process that runs some code, in MiB."""
    code = f"{code}\nfrom dhsic.engine.memory import peak_bytes\nprint(peak_bytes() / 2**20)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)


def test_many_replicates__take_no_more_memory_than_is_allowed():
    peak = peak_of(
        "import numpy as np, dhsic\n"
        "x, y = np.random.default_rng(0).standard_normal((2, 100))\n"
        "dhsic.independence_test(x, y, n_resamples=400_000, memory='208MiB', rng=0, threads=1)"
    )
    assert peak <= 208


@pytest.mark.nightly
def test_one_chunk__takes_no_more_memory_than_is_allowed(tmp_path):
    rng, n = np.random.default_rng(0), 400_000
    for name, d in (("x", 20), ("y", 1)):
        data = rng.standard_normal((n, d)).astype("f4")
        zarr.create_array(tmp_path / name, data=data, chunks=(n, d))
    peak = peak_of(
        "import dhsic\n"
        f"x, y = {str(tmp_path / 'x')!r}, {str(tmp_path / 'y')!r}\n"
        "dhsic.independence_test(x, y, precision='float32', memory='256MiB', rng=0, threads=1)"
    )
    assert peak <= 256
