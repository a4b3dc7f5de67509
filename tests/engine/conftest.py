"""Stored data of many blocks."""

import numpy as np
import pytest
import zarr


@pytest.fixture(scope="session")
def long(tmp_path_factory):
    """Two variables of ten blocks of rows."""
    folder, rng = tmp_path_factory.mktemp("long"), np.random.default_rng(3)
    paths = [str(folder / name) for name in ("x.zarr", "y.zarr")]
    for path, d in zip(paths, (4, 1), strict=True):
        zarr.create_array(path, data=rng.standard_normal((40_000, d)), chunks=(4096, d))
    return paths
