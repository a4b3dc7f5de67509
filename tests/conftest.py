"""Fixtures that several folders share."""

import compileall
import gc
import os
from pathlib import Path

import dask
import matplotlib as mpl
import numpy as np
import pytest
from distributed import Client, LocalCluster
from hypothesis import settings
from threadpoolctl import threadpool_limits

mpl.use("Agg")
# Examples of docstrings leave their figures open, more of them in one process than it warns of.
mpl.rcParams["figure.max_open_warning"] = 0

# The bits of a solve depend on the number of BLAS threads: one here, where NumPy may be imported
# already, and one in the processes that tests start and compare with.
threadpool_limits(1, user_api="blas")
os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")

# The same examples on every machine, however slow it is.
settings.register_profile("same", deadline=None, derandomize=True, database=None)
settings.load_profile("same")

# Tests look at what a run has kept when it is done, here and in other processes; those of the
# removal say so (`removal` of `tests/engine/test_checkpoints.py`).
os.environ["DASK_DHSIC__KEEP_CHECKPOINTS"] = "True"
dask.config.set({"dhsic.keep-checkpoints": True})

# To collect tests makes little garbage and many objects: it took twice as long with collections.
gc.disable()

TESTS = Path(__file__).parent

# Many tests start processes, which compile the package each where the environment keeps none.
compileall.compile_dir(TESTS.parent / "dhsic", quiet=2)

# The quick tier are the tests through public entry points, in one process. Others are of parts
# that nobody calls by themselves, of many data sets, of other processes, and of the benchmarks.
NOT_QUICK = [
    TESTS / name
    for name in (
        *("bench", "benchmarks", "cluster", "conditional", "deploy", "engine", "estimators"),
        *("sensitivity", "test_bare_install.py", "test_extending.py", "test_reach.py"),
        *("cli/test_checkpoints.py", "cli/test_journal.py", "cli/test_processes.py"),
        *("cli/test_submit.py", "io/test_object_stores.py"),
    )
]
NOT_QUICK.append(TESTS.parent / "dhsic" / "cluster")  # examples that start processes


def is_quick(path):
    return not {path, *path.parents}.intersection(NOT_QUICK)


def pytest_ignore_collect(collection_path, config):
    """Leave out files without a test of the tier that is asked for: to collect them takes long."""
    tier = {"quick": True, "not quick and not nightly": False}.get(config.option.markexpr)
    if collection_path.is_file() and tier is not None and is_quick(collection_path) is not tier:
        return True
    return None


@pytest.hookimpl(tryfirst=True)  # before -m looks at the marks
def pytest_collection_modifyitems(items):
    for item in items:
        if is_quick(item.path) and not item.get_closest_marker("nightly"):
            item.add_marker("quick")


def pytest_collection_finish():
    """Let garbage collections pass over thousands of tests, which stay until the end."""
    gc.enable()
    gc.collect()
    gc.freeze()


def start_cluster():
    return LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0"
    )


# What processes of a cluster do all the time that it is there took a tenth of a processor.
RARELY = {
    "distributed.worker.profile.enabled": False,
    "distributed.worker.memory.monitor-interval": "1s",
    "distributed.admin.system-monitor.interval": "5s",
    "distributed.admin.tick.interval": "500ms",
}


@pytest.fixture
def no_libraries(monkeypatch):
    """All memory is for the data and what is made of them, whatever the process holds."""
    monkeypatch.setattr("dhsic.engine.runtime.baseline_bytes", lambda: 0)
    monkeypatch.setattr("dhsic.engine.runtime.own_bytes", lambda: 0)


@pytest.fixture(scope="session")
def client():
    """Two worker processes of one thread each, for all tests that leave them alive."""
    with dask.config.set(RARELY):
        started = start_cluster()
    with started as cluster, Client(cluster, set_as_default=False) as shared:
        yield shared


@pytest.fixture
def rng():
    return np.random.default_rng(0)
