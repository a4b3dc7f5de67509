"""Small arrays in zarr, and what may happen to them during a run."""

import os

import numpy as np
import zarr

import dhsic

N = 200
RNG = np.random.default_rng(0)
X, Y, Z = RNG.normal(3.0, 1.0, (3, N, 1))
WHOLE = {"write_empty_chunks": True}
QUICK = {"kernels": "gaussian", "rng": 0, "threads": 1}
ALLOW = {"allow_missing_chunks": True}


def write(folder, **options):
    """Three independent variables in chunks of 50 rows, by their paths."""
    asked = {"chunks": (50, 1), **options}
    paths = [str(folder / f"{name}.zarr") for name in "xyz"]
    for path, values in zip(paths, (X, Y, Z), strict=True):
        zarr.create_array(path, data=values, **asked)
    return paths


def lose(*paths, chunk="c/1/0"):
    for path in paths:
        os.remove(f"{path}/{chunk}")


def allowed(paths):
    return [dhsic.stored_array(path, **ALLOW) for path in paths]


def touch(path):
    """As a writer leaves a chunk of the same size."""
    told = os.stat(path)
    os.utime(path, ns=(told.st_atime_ns, told.st_mtime_ns + 10**9))
