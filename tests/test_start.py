"""What a process loads, and when: a start of Python or of the command waits for none of the rest.

No time is measured here, since machines differ and are busy; what takes long is known by name.
"""

import json
import os
import subprocess
import sys

import pytest

import dhsic

CLUSTERS = {"asyncio", "dask", "distributed", "msgpack", "tornado"}
STORES = {"botocore", "fsspec", "numcodecs", "s3fs", "zarr"}
TABLES = {"dask.array", "dask.dataframe", "narwhals", "pandas", "polars", "pyarrow", "xarray"}
NUMBERS = {
    *("numpy.f2py", "scipy.fft", "scipy.interpolate", "scipy.linalg", "scipy.optimize"),
    *("scipy.sparse", "scipy.spatial", "scipy.special", "scipy.stats", "sklearn"),
}
PICTURES = {"IPython", "bokeh", "jinja2", "matplotlib", "prometheus_client", "rich"}
SLOW = CLUSTERS | STORES | TABLES | NUMBERS | PICTURES
HELP = "from dhsic.cli import main\ntry:\n    main(['--help'])\nexcept SystemExit:\n    pass"
TEST = """
import numpy as np, dhsic
x = np.random.default_rng(0).standard_normal(300)
dhsic.independence_test(x, x, rng=0)
"""
TEST_IN_TASKS = """
import numpy as np, dhsic
x, y = np.random.default_rng(0).standard_normal((2, 50_000))
dhsic.independence_test(x, y, kernels="gaussian", rng=0, threads=2)
"""
SUBMODULES = """
import dhsic
names = ["analysis", "bench", "causal", "cluster", "report"]
print([getattr(dhsic, n).__name__ == f"dhsic.{n}" and n in dir(dhsic) for n in names])
"""


def printed(code):
    """What a fresh interpreter writes on its last line."""
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=os.environ)
    return done.stdout.splitlines()[-1]


def loaded(code):
    """The slow modules that a fresh interpreter has loaded after some code."""
    after = "\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    return SLOW & set(json.loads(printed(code + after)))


@pytest.mark.parametrize("code", ["import dhsic", HELP], ids=["import", "help"])
def test_start__loads_no_slow_module(code):
    assert loaded(code) == set()


def test_test_of_arrays__loads_neither_clusters_nor_stores_nor_tables():
    found = loaded(TEST)
    assert found & (STORES | TABLES | {"distributed", "tornado"}) == set()
    assert "scipy.spatial" in found  # the names are right


def test_test_in_tasks__loads_dask_and_no_client():
    found = loaded(TEST_IN_TASKS)
    assert "dask" in found
    assert found & (STORES | TABLES | {"distributed", "tornado"}) == set()


def test_submodules__are_there_after_one_import():
    assert printed(SUBMODULES) == str([True] * 5)
    assert set(dhsic.__all__) <= set(dir(dhsic)) & set(vars(dhsic))
    with pytest.raises(AttributeError, match="has no attribute 'caussal'"):
        _ = dhsic.caussal
