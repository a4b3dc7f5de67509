"""What a process loads, and when: a start of Python or of the command waits for none of the rest.

No time is measured here, since machines differ and are busy; what takes long is known by name.
"""

import json
import os
import subprocess
import sys

import dhsic

CLUSTERS = {"asyncio", "dask", "distributed", "msgpack", "tornado"}
STORES = {"botocore", "fsspec", "numcodecs", "obstore", "s3fs", "zarr"}
TABLES = {"dask.array", "dask.dataframe", "narwhals", "pandas", "polars", "pyarrow", "xarray"}
NUMBERS = {
    *("numpy.f2py", "scipy.fft", "scipy.interpolate", "scipy.linalg", "scipy.optimize"),
    *("scipy.sparse", "scipy.spatial", "scipy.special", "scipy.stats", "sklearn"),
}
PICTURES = {"IPython", "bokeh", "jinja2", "matplotlib", "prometheus_client", "rich"}
SLOW = CLUSTERS | STORES | TABLES | NUMBERS | PICTURES

TEST = """
import numpy as np, dhsic
x = np.random.default_rng(0).standard_normal(300)
dhsic.independence_test(x, x, rng=0)
"""
LIMITED = """
from dhsic.engine.blas import one_blas_thread
with one_blas_thread():
    import scipy.linalg, threadpoolctl
    found = threadpoolctl.threadpool_info()
print([one["num_threads"] for one in found if one["user_api"] == "blas"])
"""


def printed(code, **environment):
    """What a fresh interpreter writes on its last line."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        env={**os.environ, **environment},
    )
    return json.loads(done.stdout.splitlines()[-1])


def loaded(code):
    """The slow modules that a fresh interpreter has loaded after some code."""
    after = "\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    return SLOW & set(printed(code + after))


def test_import__loads_no_slow_module():
    assert loaded("import dhsic") == set()


def test_help__loads_no_slow_module():
    code = "from dhsic.cli import main\ntry:\n    main(['--help'])\nexcept SystemExit:\n    pass"
    assert loaded(code) == set()


def test_plan_and_test_of_arrays__load_neither_clusters_nor_stores_nor_tables():
    found = loaded(TEST)
    assert found & (STORES | TABLES | {"distributed", "tornado"}) == set()
    assert "scipy.spatial" in found  # the names are right


def test_plan__counts_the_libraries_of_a_run_before_they_are_used():
    code = "from dhsic.engine.memory import baseline_bytes\nbaseline_bytes()"
    assert loaded(code) >= {"dask", "scipy.linalg", "scipy.spatial", "scipy.special"}


def test_plan_for_workers__counts_distributed():
    code = "from dhsic.cluster import PlannedWorkers\nfrom dhsic.engine.runtime import Runtime\n"
    assert "distributed" in loaded(code + "Runtime.on(PlannedWorkers(2), 2**30)")


def test_blas__is_limited_though_scipy_is_loaded_late():
    threads = printed(LIMITED, OPENBLAS_NUM_THREADS="2")
    assert threads
    assert set(threads) == {1}


def test_public_names__are_there_without_a_lookup():
    assert set(dhsic.__all__) <= set(dir(dhsic)) & set(vars(dhsic))
