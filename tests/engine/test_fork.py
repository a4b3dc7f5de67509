"""A fork of a process that has run tests has none of its threads, and waits for none of them."""

import multiprocessing

import dask.array as dask_array
import numpy as np
import pytest
import zarr

import dhsic
from dhsic.errors import InvalidArgumentError

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
FORK = multiprocessing.get_context("fork")
ROWS = 20_000
OPTIONS = {
    "estimator": dhsic.NystromMHSIC(n_landmarks=20),
    "null": dhsic.Multiplier(20),
    "kernels": "gaussian",
    "rng": 0,
}


def pvalue(data, **where):
    return dhsic.independence_test(*data, **OPTIONS, **where).pvalue


def in_a_fork(function, *arguments):
    """What a function returns or raises in a fork of this process."""
    ours, theirs = FORK.Pipe()

    def run():
        try:
            theirs.send(function(*arguments))
        except Exception as error:
            theirs.send(f"{type(error).__name__}: {error}")

    process = FORK.Process(target=run)
    process.start()
    try:
        assert ours.poll(120), "it hangs"
        return ours.recv()
    finally:
        process.kill()
        process.join()


@pytest.mark.parametrize("place", ["memory", "zarr", "dask"])
def test_fork__after_a_run_on_threads_runs_as_its_parent(place, tmp_path):
    data = np.random.default_rng(0).standard_normal((2, ROWS, 1))
    if place != "memory":
        paths = [tmp_path / name for name in ("x", "y")]
        for path, values in zip(paths, data, strict=True):
            zarr.create_array(path, data=values, chunks=(2048, 1))
        data = [str(path) for path in paths]
    if place == "dask":
        data = [dask_array.from_zarr(path) for path in data]
    expected = pvalue(data, threads=2)
    assert in_a_fork(lambda: pvalue(data, threads=2)) == expected


def test_fork__of_a_process_with_a_client_runs_on_threads_and_says_that_it_has_no_client(client):
    data = np.random.default_rng(0).standard_normal((2, ROWS, 1))
    expected = pvalue(data, client=client)
    assert in_a_fork(lambda: pvalue(data, threads=2)) == expected
    said = in_a_fork(lambda: pvalue(data, client=client))
    assert said.startswith(f"{InvalidArgumentError.__name__}: client must be a running")
    assert "of this process" in said
    assert pvalue(data, client=client) == expected, "that of the parent is as it was"
