"""The most memory that a process had."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest

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
