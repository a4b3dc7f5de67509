"""No wait for a cluster is for ever: it ends the same to the bit, or in one clear error."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from types import SimpleNamespace

import dask
import numpy as np
import pytest
from distributed import Client, LocalCluster, get_client

import dhsic
from dhsic.engine.events import BlockFinished
from dhsic.engine.memory import worker_peak_bytes
from dhsic.engine.runtime import Runtime
from dhsic.engine.supervision import (
    StalledError,
    _supervised,
    _WorkerWatch,
    as_they_finish,
    fetched,
    threads_of_workers,
)
from dhsic.errors import DhsicError, InvalidArgumentError
from dhsic.io.open import open_variables
from tests.cluster.slurm import wait_until
from tests.conftest import start_cluster
from tests.engine.toys import Gather, even_bounds, on, run

X, Y = np.random.default_rng(0).standard_normal((2, 400, 2))


@pytest.fixture
def impatient(monkeypatch):
    """Clusters that do nothing are given up after four seconds."""
    monkeypatch.setitem(dask.config.config, "dhsic", {"stall-timeout": 4.0})


@pytest.fixture
def own():
    """Two worker processes of each test's own."""
    with start_cluster() as cluster, Client(cluster, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=60)
        yield client


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


def at_block(number, act):
    """A listener that acts once, when so many blocks are done."""
    seen = []

    def listen(event):
        if isinstance(event, BlockFinished):
            seen.append(event)
            if len(seen) == number:
                act()

    return listen


def slow_run(client, listener):
    return run(Gather(0.05), open_variables([X, Y]), even_bounds(400, 40), on(client), listener)


def test_run__of_frozen_workers_is_given_up(own, impatient):
    workers = list(own.run(os.getpid).values())
    with thawed(workers), pytest.raises(DhsicError, match="nothing has been heard of all 2 work"):
        slow_run(own, at_block(5, lambda: freeze(workers)))


def pause(dask_worker):
    """As a worker does whose memory is full."""
    from distributed.core import Status

    dask_worker.memory_manager.memory_pause_fraction = 1e-9
    dask_worker.status = Status.paused


def test_run__of_paused_workers_is_given_up(own, impatient):
    with pytest.raises(DhsicError, match=r"all 2 workers have been paused .* more memory"):
        slow_run(own, at_block(5, lambda: own.run(pause)))


def test_fetched__of_workers_that_died_and_do_not_come_back_is_given_up(impatient):
    with (
        LocalCluster(
            n_workers=1, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0"
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        future = client.submit(len, "four")
        list(as_they_finish([future], client))
        cluster.scale(0)
        while client.nthreads():
            time.sleep(0.05)
        with pytest.raises(StalledError) as caught:
            fetched([future], client)
    assert caught.value.seen == "the cluster has had no workers for 4 s"
    assert caught.value.remedy == "see what ends them, as a lack of memory does"


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


def test_scheduler__that_is_frozen_is_given_up(tmp_path, impatient):
    with elsewhere(tmp_path) as (client, scheduler), thawed([scheduler]):
        with pytest.raises(DhsicError, match="the scheduler has not answered for 4 s: see"):
            slow_run(client, at_block(5, lambda: freeze([scheduler])))
        with pytest.raises(InvalidArgumentError, match="must have a scheduler that answers"):
            Runtime.on(client, 2**30)


def nested(seed):
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((2, 300))
    return dhsic.independence_test(x, y, rng=seed, client=get_client()).pvalue


def test_tasks__that_each_start_a_test_do_not_wait_for_each_other(own):
    futures = own.map(nested, [1, 2, 3, 4], pure=False)
    found = own.gather(futures)
    expected = [
        dhsic.independence_test(
            *np.random.default_rng(seed).standard_normal((2, 300)), rng=seed
        ).pvalue
        for seed in (1, 2, 3, 4)
    ]
    assert found == expected


def test_worker_peak__is_told_though_a_worker_is_frozen(own, monkeypatch):
    monkeypatch.setattr("dhsic.engine.memory._REPLY_TIMEOUT_SECONDS", 1.0)
    first, _ = own.run(os.getpid).values()
    with thawed([first]):
        freeze([first])
        # a slow machine may need longer than that to hear of the other one
        assert wait_until(lambda: worker_peak_bytes(own), 60, "no peak is told") > 2**20


class Told:
    """A client whose scheduler gives answers that are told in advance, the last one for ever."""

    def __init__(self, *answers, monkeypatch):
        self.scheduler = SimpleNamespace(identity=None)
        self.answers = list(answers)
        monkeypatch.setattr("dhsic.engine.supervision._on_loop", self.ask)

    def ask(self, client, what):
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return SimpleNamespace(
            done=lambda: answer is not None, result=lambda: {"workers": answer}, cancel=int
        )


class Clock:
    """A clock that a test sets."""

    def __init__(self, monkeypatch):
        self.now = 100.0
        monkeypatch.setattr("dhsic.engine.supervision.time.monotonic", lambda: self.now)


def worker(beat, status="running", executing=0):
    return {
        "last_seen": beat,
        "status": status,
        "metrics": {"task_counts": {"executing": executing}},
    }


def looked(watch, clock, seconds):
    """Seconds after which a watch gives up; None where it never does."""
    begun = clock.now
    while clock.now < begun + seconds:
        clock.now += 1.0
        try:
            watch.look()
        except StalledError:
            return clock.now - begun
    return None


def looked_often(watch, clock, seconds):
    """Look ten times a second, as where tasks finish."""
    until = clock.now + seconds
    while clock.now < until:
        clock.now += 0.1
        watch.look()


@pytest.mark.parametrize(
    ("answers", "given_up"),
    [
        ([{"a": worker(float(beat))} for beat in range(300)], False),
        ([{"a": worker(float(beat), "paused")} for beat in range(300)], True),
        ([{"a": worker(float(beat), "paused", 1)} for beat in range(300)], False),
        ([{"a": worker(1.0), "b": worker(float(beat))} for beat in range(300)], False),
        ([{"a": worker(1.0), "b": worker(2.0)}], True),
        ([{}], True),
        ([None], True),
    ],
    ids=["runs", "paused", "paused but at work", "one frozen", "all frozen", "none", "silent"],
)
def test_watch__gives_up_a_cluster_that_can_do_nothing(answers, given_up, monkeypatch):
    clock = Clock(monkeypatch)
    watch = _WorkerWatch(Told(*answers, monkeypatch=monkeypatch))
    after = looked(watch, clock, 300.0)
    assert (after is not None) == given_up
    assert after is None or 60.0 < after <= 75.0  # looks are 15 s apart at the most


@pytest.mark.parametrize("seconds", [0.0, 0.5, 1.0, 2.0, 3.0])
@pytest.mark.parametrize(
    ("workers", "words"),
    [({}, "had no workers"), ({"a": worker(1.0)}, "nothing has been heard of all 1 workers")],
)
def test_watch__says_what_the_workers_do_however_late_the_answers_are(
    seconds, workers, words, monkeypatch, impatient
):
    clock = Clock(monkeypatch)

    def ask(client, what):
        due = clock.now + seconds
        return SimpleNamespace(
            done=lambda: clock.now >= due, result=lambda: {"workers": workers}, cancel=int
        )

    monkeypatch.setattr("dhsic.engine.supervision._on_loop", ask)
    watch = _WorkerWatch(SimpleNamespace(scheduler=SimpleNamespace(identity=None)))
    with pytest.raises(StalledError, match=words):
        looked_often(watch, clock, 20.0)


def test_watch__does_not_count_time_in_which_this_process_was_stopped(monkeypatch):
    clock = Clock(monkeypatch)
    watch = _WorkerWatch(Told(None, monkeypatch=monkeypatch))
    for _ in range(20):
        clock.now += 1000.0
        watch.look()
    assert looked(watch, clock, 300.0) is not None


def test_watch__begins_anew_with_every_task_that_is_done(monkeypatch):
    clock = Clock(monkeypatch)
    watch = _WorkerWatch(Told({}, monkeypatch=monkeypatch))
    assert looked(watch, clock, 50.0) is None
    watch.progress()
    assert looked(watch, clock, 50.0) is None
    assert looked(watch, clock, 50.0) is not None


def test_supervised__raises_the_timeout_of_what_it_waits_for(client):
    async def late():
        raise TimeoutError("its own")  # noqa: EM101

    with pytest.raises(TimeoutError, match="its own"):
        _supervised(client, late)


def test_supervised__waits_for_what_is_slow_on_a_cluster_that_runs(client, impatient):
    future = client.submit(time.sleep, 5.0, pure=False)
    assert fetched([future], client) == [None]
    assert threads_of_workers(client) == client.nthreads()
    assert threading.active_count() < 100
