"""Whatever a cluster does to a run, it ends the same to the bit, or in one clear error.

One death of workers is in every run of the tests; what freezes, pauses or stops is for the night.
"""

import multiprocessing
import os
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import zarr
from distributed import Client, LocalCluster, get_client, get_worker

import dhsic
from dhsic.errors import DataError, DhsicError, InvalidArgumentError, MemoryBudgetError
from tests.conftest import start_cluster
from tests.places import Heard, answer
from tests.processes import wait_until

N = 40_000


def run(data, **options):
    asked = {"estimator": dhsic.NystromMHSIC(20), "null": "gamma", "kernels": "gaussian"}
    return dhsic.independence_test(*data, rng=0, **asked, **options)


@pytest.fixture
def own():
    """Two worker processes of each test's own: whether a dead one is started anew is not sure."""
    with start_cluster() as cluster, Client(cluster, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=60)
        yield client


@pytest.fixture
def impatient(monkeypatch):
    """Clusters that do nothing are given up after four seconds."""
    monkeypatch.setitem(dask.config.config, "dhsic", {"stall-timeout": 4.0})


def at_block(number, act):
    """A listener that acts once, when so many blocks are done."""
    seen = []

    def listen(event):
        if type(event).__name__ == "BlockFinished":
            seen.append(event)
            if len(seen) == number:
                act()

    return listen


def process_ids(client):
    return list(client.run(os.getpid).values())


def test_run__survives_the_death_of_all_workers(own, long, tmp_path):
    def kill():
        for worker in process_ids(own):
            os.kill(worker, signal.SIGKILL)
        own.cluster.scale(3)

    kept = {"checkpoint": str(tmp_path / "kept")}
    found = run(long, client=own, progress=at_block(3, kill), **kept)
    assert answer(found) == answer(run(long, threads=2))
    assert answer(run(long, threads=1, progress=(again := Heard()), **kept)) == answer(found)
    assert again.of("BlockFinished") == []


def deadly(block, block_info=None):
    if block_info and block_info[0]["chunk-location"][0] == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return block


@pytest.mark.nightly
def test_run__that_kills_its_workers_is_given_up_in_words():
    x = np.random.default_rng(0).standard_normal((4_000, 2))
    lazy = da.from_array(x, chunks=1_000).map_blocks(deadly, dtype=x.dtype, meta=x[:0])
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        start_cluster() as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        client.wait_for_workers(2, timeout=60)
        with pytest.raises(MemoryBudgetError, match=r"workers died"):
            run([lazy, x], client=client)


def freeze(processes):
    for one in processes:
        os.kill(one, signal.SIGSTOP)


@contextmanager
def thawed(processes):
    """Let processes go on at the end, so that they can be ended."""
    try:
        yield
    finally:
        for one in processes:
            with suppress(ProcessLookupError):
                os.kill(one, signal.SIGCONT)


@pytest.mark.nightly
def test_run__of_frozen_workers_is_given_up_and_goes_on_elsewhere(own, long, impatient, tmp_path):
    workers, kept = process_ids(own), {"checkpoint": str(tmp_path / "kept")}
    told = r"0 of 2 are paused, .* and 2 silent"
    with thawed(workers), pytest.raises(DhsicError, match=told) as e:
        run(long, client=own, progress=at_block(3, lambda: freeze(workers)), **kept)
    assert f"what is done is kept in {tmp_path}/kept" in str(e.value)
    assert answer(run(long, threads=1, **kept)) == answer(run(long, threads=1))


def pause(dask_worker):
    """As a worker does whose memory is full."""
    from distributed.core import Status

    dask_worker.memory_manager.memory_pause_fraction = 1e-9
    dask_worker.status = Status.paused


def retire(own):
    own.cluster.scale(0)
    wait_until(lambda: not own.nthreads(), 60, "there are workers")


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda own: own.run(pause), r"2 of 2 are paused.* give them memory"),
        (retire, "no worker can work, for 4 s: there is none"),
    ],
    ids=["paused", "none"],
)
def test_run__of_workers_that_can_do_nothing_is_given_up(act, words, own, long, impatient):
    with pytest.raises(DhsicError, match=words):
        run(long, client=own, progress=at_block(3, lambda: act(own)))


SCHEDULER = """
from distributed import LocalCluster
import sys
if __name__ == "__main__":
    with LocalCluster(n_workers=1, threads_per_worker=1, host="127.0.0.1", processes=True,
                      dashboard_address="127.0.0.1:0") as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
"""


@contextmanager
def elsewhere(tmp_path):
    """A cluster whose scheduler is a process of its own, and that process."""
    script = tmp_path / "scheduler.py"
    script.write_text(SCHEDULER)
    with subprocess.Popen(
        [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            with Client(process.stdout.readline().strip(), set_as_default=False) as client:
                client.wait_for_workers(1, timeout=60)
                yield client, process.pid
        finally:
            os.kill(process.pid, signal.SIGCONT)
            process.stdin.close()


@pytest.mark.nightly
def test_scheduler__that_is_frozen_is_given_up(tmp_path, long, impatient):
    with elsewhere(tmp_path) as (client, scheduler), thawed([scheduler]):
        with pytest.raises(DhsicError, match="the scheduler has not answered for 4 s: see"):
            run(long, client=client, progress=at_block(3, lambda: freeze([scheduler])))
        with pytest.raises(InvalidArgumentError, match="must have a scheduler that answers"):
            run(long, client=client)


def nested(seed):
    x, y = np.random.default_rng(seed).standard_normal((2, 300))
    return dhsic.independence_test(x, y, rng=seed, client=get_client()).pvalue


@pytest.mark.nightly
def test_tasks__that_each_start_a_test_do_not_wait_for_each_other(own):
    found = own.gather(own.map(nested, [1, 2, 3, 4], pure=False))
    for seed, pvalue in zip((1, 2, 3, 4), found, strict=True):
        x, y = np.random.default_rng(seed).standard_normal((2, 300))
        assert pvalue == dhsic.independence_test(x, y, rng=seed).pvalue


def broken(block):
    msg = "no luck"
    raise ZeroDivisionError(msg)


@pytest.mark.parametrize("place", ["threads", "client"])
def test_graph__that_fails_is_an_error_at_once(place, request):
    where = {"threads": 1} if place == "threads" else {"client": request.getfixturevalue(place)}
    x = np.ones((400, 1))
    lazy = da.from_array(x, chunks=100).map_blocks(broken, dtype=x.dtype, meta=x[:0])
    with pytest.raises((ZeroDivisionError, DhsicError), match="no luck"):
        run([lazy, x], **where)


@pytest.mark.parametrize("place", ["threads", "client"])
def test_chunk__that_is_corrupted_is_named_by_rows_and_variable(place, tmp_path, request):
    where = {"threads": 2} if place == "threads" else {"client": request.getfixturevalue(place)}
    x = np.random.default_rng(0).standard_normal((9_000, 2))
    array = zarr.create_array(tmp_path / "x.zarr", data=x, chunks=(1000, 2))
    (tmp_path / "x.zarr" / "c" / "7" / "0").write_bytes(b"garbage")
    match = r"rows \d+ to \d+ of variable 'timbre' cannot be read .*: is the data complete"
    with pytest.raises(DataError, match=match) as caught:
        run([x[:, :1], array], names=["x", "timbre"], **where)
    first, last = (int(word) for word in str(caught.value).split() if word.isdigit())
    assert first <= 7999
    assert last >= 7000


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", ["numpy", "zarr", "dask"])
def test_row__that_is_not_finite_is_named_first_of_all(kind, bad, tmp_path):
    x = np.random.default_rng(0).standard_normal((N, 2))
    x[[31_777, 31_778, N - 1], [1, 0, 0]] = bad
    if kind == "zarr":
        x = zarr.create_array(tmp_path / "x.zarr", data=x, chunks=(4_096, 1))
    elif kind == "dask":
        x = da.from_array(x, chunks=7_000)
    with pytest.raises(DataError, match=r"'x2' has NaN or infinity, first in row 31777\b"):
        run([np.ones(N) * np.arange(N), x], threads=2)


ROWS = 80
GAPS, Y = np.random.default_rng(0).standard_normal((2, ROWS))
X = GAPS.copy()
GAPS[3] = np.nan
LABELS = np.arange(ROWS) // 20
COMPUTED_AT = set()


def told(block):
    try:
        COMPUTED_AT.add(get_worker().scheduler.address)
    except ValueError:
        COMPUTED_AT.add("here")
    return block


def graph(x):
    meta = np.empty((0,) * x.ndim, x.dtype)
    return da.from_array(x, chunks=20).map_blocks(told, dtype=x.dtype, meta=meta)


def frame():
    table = dd.from_pandas(pd.DataFrame({"a": X, "b": X**2}), npartitions=2)
    return table.map_partitions(told, meta=table._meta)


GRAPHS = {
    "drop": lambda **o: dhsic.independence_test(graph(GAPS), Y, missing="drop", **o),
    "strata": lambda **o: dhsic.independence_test(graph(X), Y, strata=graph(LABELS), **o),
    "frame": lambda **o: dhsic.hsic(frame(), Y, **o),
    "conditional": lambda **o: dhsic.conditional_independence_test(
        graph(GAPS), Y, given=graph(LABELS), method="strata", missing="drop", **o
    ),
    "embedding": lambda **o: dhsic.mean_embedding(frame()[["a"]], **o),
}


@pytest.fixture(scope="module")
def threads_of_this_process():
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0"
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.mark.parametrize("name", GRAPHS)
def test_graphs__are_computed_where_the_user_has_the_run_take_place(name, threads_of_this_process):
    for where, place in (
        ({"client": threads_of_this_process}, threads_of_this_process.scheduler.address),
        ({"threads": 1}, "here"),
    ):
        COMPUTED_AT.clear()
        GRAPHS[name](rng=0, **where)
        assert {place} == COMPUTED_AT


def in_a_fork(function):
    """What a function returns or raises in a fork of this process."""
    fork = multiprocessing.get_context("fork")
    ours, theirs = fork.Pipe()

    def call():
        try:
            theirs.send(function())
        except Exception as error:
            theirs.send(f"{type(error).__name__}: {error}")

    process = fork.Process(target=call)
    process.start()
    try:
        assert ours.poll(120), "it hangs"
        return ours.recv()
    finally:
        process.kill()
        process.join()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_fork__has_no_threads_and_no_client_of_its_parent_and_waits_for_none(client, long):
    expected = run(long, client=client).pvalue
    assert run(long, threads=2).pvalue == expected
    assert in_a_fork(lambda: run(long, threads=2).pvalue) == expected
    said = in_a_fork(lambda: run(long, client=client).pvalue)
    assert said.startswith(f"{InvalidArgumentError.__name__}: client must be a running")
    assert "of this process" in said
    assert run(long, client=client).pvalue == expected, "that of the parent is as it was"
