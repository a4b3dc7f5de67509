"""By night: what happens to workers in a run changes no bit of its result."""

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress

import dask
import numpy as np
import psutil
import pytest
import zarr

import dhsic
from dhsic.cluster import local_cluster
from dhsic.cluster.spec import LOCAL_SETTINGS
from tests.cluster.quiet import OPTIONS, same_bits
from tests.processes import wait_until

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Two variables that every worker reads by itself, what is found, and in how many blocks."""
    folder = tmp_path_factory.mktemp("robust")
    paths = [str(folder / name) for name in ("x.zarr", "y.zarr")]
    rows = np.random.default_rng(2).standard_normal((2, 81_920, 2))
    for path, values in zip(paths, rows, strict=True):
        zarr.create_array(path, data=values, chunks=(4096, 2))
    heard = []
    found = dhsic.independence_test(*paths, threads=1, progress=heard.append, **OPTIONS)
    return paths, found, sum(type(event).__name__ == "BlockFinished" for event in heard)


@pytest.fixture(scope="module")
def shared():
    with local_cluster(2, "500MB") as client:
        yield client


@pytest.fixture
def client(shared):
    """Two workers, whatever became of those of the test before."""
    shared.cluster.scale(2)
    wait_until(lambda: len(shared.nthreads()) == 2, 60, "there are not two workers")
    return shared


def pids(client):
    return dict(client.run(os.getpid))


def first_process(client):
    return psutil.Process(next(iter(pids(client).values())))


def freeze_for_a_second(client):
    victim = first_process(client)
    victim.suspend()
    threading.Timer(1.0, victim.resume).start()


def kill_all(client):
    for pid in pids(client).values():
        os.kill(pid, signal.SIGKILL)


def scaled_to(count):
    def scale(client):
        client.cluster.scale(count)
        wait_until(lambda: len(client.nthreads()) == count, 60, "it did not scale")

    return scale


# What happens after so many blocks, and whether the workers of before are all there at the end.
ACTIONS = {
    "a worker is frozen for a second": ({5: freeze_for_a_second}, True),
    "all workers are killed": ({5: kill_all}, False),
    "the cluster grows and shrinks": ({5: scaled_to(3), 15: scaled_to(1)}, False),
}


@pytest.mark.parametrize("case", ACTIONS)
def test_run__has_the_bits_of_a_quiet_run_though(case, client, data):
    actions, stay = ACTIONS[case]
    before, done = set(pids(client).values()), []

    def act(event):
        if type(event).__name__ == "BlockFinished":
            done.append(event)
            actions.get(len(done), lambda client: None)(client)

    # A machine so busy that no worker is back before Dask gives it up.
    with dask.config.set({"distributed.deploy.lost-worker-timeout": "10 ms"}):
        found = dhsic.independence_test(*data[0], client=client, progress=act, **OPTIONS)
    assert len(done) >= data[2] > 30
    assert same_bits(found, data[1])
    client.cluster.scale(2)
    wait_until(lambda: len(client.nthreads()) == 2, 60, "the workers are not back")
    assert (before == set(pids(client).values())) is stay


def test_run__goes_on_after_a_worker_is_frozen_for_good(data, monkeypatch):
    # The scheduler gives it up sooner than after five minutes.
    monkeypatch.setitem(LOCAL_SETTINGS, "distributed.scheduler.worker-ttl", "5s")
    blocks = iter(range(10**6))

    def act(event):
        if type(event).__name__ == "BlockFinished" and next(blocks) == 4:
            victim.suspend()

    with local_cluster(2, "500MB") as client:
        victim = first_process(client)
        found = dhsic.independence_test(*data[0], client=client, progress=act, **OPTIONS)
        assert same_bits(found, data[1])
        wait_until(lambda: not victim.is_running(), 100, "it stays frozen")


def test_local_cluster__whose_worker_is_killed_while_it_starts_comes_up():
    here, killed, ended = psutil.Process(), [], threading.Event()
    before = {child.pid for child in here.children(recursive=True)}

    def kill():
        while not killed and not ended.wait(0.01):
            for child in here.children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    if child.pid not in before and "spawn_main" in " ".join(child.cmdline()):
                        child.kill()
                        killed.append(child.pid)
                        break

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        with local_cluster(1, "500MB") as client:
            assert killed
            assert {*pids(client).values()}.isdisjoint(killed)
    finally:
        ended.set()
        killer.join()


def test_local_cluster__that_cannot_start_leaves_the_signals_alone(monkeypatch):
    def fails():
        msg = "no process is left"
        raise OSError(msg)

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr("multiprocessing.resource_tracker.ensure_running", fails)
    with pytest.raises(OSError, match="no process"), local_cluster(1, "500MB"):
        pass
    assert signal.getsignal(signal.SIGINT) is before


def test_connect__in_a_script_without_a_guard_is_one_error(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("from dhsic.cluster import connect\nconnect(2, memory='500MB').__enter__()\n")
    command = [sys.executable, str(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("Traceback") == 1
    assert "dhsic.errors.ClusterError: a script that starts" in done.stderr
