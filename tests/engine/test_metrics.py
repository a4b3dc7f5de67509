"""Counters for Prometheus."""

import subprocess
import sys
from urllib.request import urlopen

import numpy as np
import pytest

from dhsic.io.sources import ArraySource

from .toys import Gather, PairSums, even_bounds, on, run

N = 1000
NEEDED = "dhsic counts for those who installed prometheus_client"


def source():
    return ArraySource("x", np.random.default_rng(0).standard_normal((N, 3)))


def counted(text, name):
    """What was counted of the pass of that name."""
    counters = {}
    for line in text.splitlines():
        labelled, _, value = line.rpartition(" ")
        if line.startswith("dhsic_") and f'pass="{name}"' in line and "_created" not in line:
            counters[labelled.split("{")[0]] = float(value)
    return counters


@pytest.fixture
def served():
    """What this process would serve."""
    library = pytest.importorskip("prometheus_client", reason=NEEDED)
    return lambda name: counted(library.generate_latest().decode(), name)


def test_counters__count_tasks_rows_and_bytes(served):
    run(Gather(name="counted"), [source()], even_bounds(N, 4))
    found = served("counted")
    assert found.pop("dhsic_task_seconds_total") > 0
    assert found == {
        "dhsic_tasks_total": 4,
        "dhsic_rows_total": N,
        "dhsic_block_bytes_total": N * 3 * 8,
    }


def test_counters__of_a_pair_count_both_blocks(served):
    run(PairSums(name="counted pairs"), [source()], even_bounds(N, 2))
    found = served("counted pairs")
    assert found["dhsic_tasks_total"] == 3
    assert found["dhsic_rows_total"] == 2 * N  # each half alone, and both together


def test_workers_serve_the_counters(client):
    pytest.importorskip("prometheus_client", reason=NEEDED)
    run(Gather(name="served"), [source()], even_bounds(N, 4), on(client))
    rows = 0
    for worker in client.scheduler_info()["workers"].values():
        url = f"http://127.0.0.1:{worker['services']['dashboard']}/metrics"
        with urlopen(url, timeout=60) as answer:
            rows += counted(answer.read().decode(), "served").get("dhsic_rows_total", 0)
    assert rows == N


def test_without_the_library_nothing_is_counted():
    script = (
        "import sys; sys.modules['prometheus_client'] = None\n"
        "import numpy as np, dhsic\n"
        "x = np.arange(100.0)\n"
        "print(dhsic.independence_test(x, x, rng=0, kernels='gaussian', n_resamples=20).n)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "100\n", "")
