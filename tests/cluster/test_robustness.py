"""What happens to workers in a run changes no bit of its result."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import dask
import numpy as np
import psutil
import pytest
import zarr
from distributed import as_completed

import dhsic
from dhsic.cluster import Adaptive, connect, local_cluster, worker
from dhsic.cluster.connection import described
from dhsic.engine.events import BlockFinished
from dhsic.errors import ClusterError
from dhsic.results import IndependenceTestResult
from tests.cluster.processes import OPTIONS, same_bits
from tests.cluster.slurm import wait_until

BLOCKS = 40


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Two variables of 20 blocks, which every worker reads by itself."""
    folder = tmp_path_factory.mktemp("robust")
    paths = [str(folder / name) for name in ("x.zarr", "y.zarr")]
    for path, values in zip(
        paths, np.random.default_rng(2).standard_normal((2, 81_920, 2)), strict=True
    ):
        zarr.create_array(path, data=values, chunks=(4096, 2))
    return paths


@pytest.fixture(scope="module")
def quiet(data: list[str]) -> IndependenceTestResult:
    return dhsic.independence_test(*data, threads=1, **OPTIONS)


@pytest.fixture(scope="module")
def shared() -> Iterator[Any]:
    with local_cluster(2, "500MB") as client:
        yield client


@pytest.fixture
def client(shared: Any) -> Any:
    """Two workers, whatever became of those of the test before."""
    shared.cluster.scale(2)
    wait_until(lambda: len(shared.nthreads()) == 2, 60, "there are not two workers")
    return shared


class At:
    """A listener that acts when so many blocks are done."""

    def __init__(self, actions: dict[int, Callable[[], Any]]) -> None:
        self.actions, self.blocks = actions, 0

    def __call__(self, event: object) -> None:
        if isinstance(event, BlockFinished):
            self.blocks += 1
            if self.blocks in self.actions:
                self.actions[self.blocks]()


def shaken(
    data: list[str], client: Any, actions: dict[int, Callable[[], Any]]
) -> IndependenceTestResult:
    listener = At(actions)
    found = dhsic.independence_test(*data, client=client, progress=listener, **OPTIONS)
    assert listener.blocks >= BLOCKS
    return found


def pids(client: Any) -> dict[str, int]:
    return dict(client.run(os.getpid))


def test_run__goes_on_after_a_worker_is_frozen_for_good(
    client: Any,
    data: list[str],
    quiet: IndependenceTestResult,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker, "_LOOKS", 3)
    victim = psutil.Process(next(iter(pids(client).values())))
    found = shaken(data, client, {5: victim.suspend})
    assert same_bits(found, quiet)
    wait_until(lambda: not victim.is_running(), 100, "it stays frozen")
    wait_until(lambda: len(client.nthreads()) == 2, 100, "it was not started again")


def busy(seconds: float) -> int:
    """Work of so many seconds that keeps the lock of the interpreter, as LAPACK of SciPy does."""
    import sys

    import scipy.linalg

    before = sys.getswitchinterval()
    sys.setswitchinterval(seconds)
    end, matrix = time.monotonic() + seconds, np.random.default_rng(0).random((400, 400))
    while time.monotonic() < end:
        scipy.linalg.svd(matrix)
    sys.setswitchinterval(before)
    return os.getpid()


def test_worker__that_keeps_the_lock_of_the_interpreter_is_not_frozen(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "_LOOKS", 3)
    before = set(pids(client).values())
    assert client.submit(busy, 12.0).result() in before
    assert set(pids(client).values()) == before


@pytest.mark.parametrize("kills", [1, 100])
def test_local_cluster__whose_workers_are_killed_while_they_start_comes_up_or_says_so(
    kills: int,
) -> None:
    here, killed, ended = psutil.Process(), list[int](), threading.Event()
    before = {child.pid for child in here.children(recursive=True)}

    def kill() -> None:
        while len(killed) < kills and not ended.wait(0.01):
            for child in here.children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    if child.pid not in before and "spawn_main" in " ".join(child.cmdline()):
                        child.kill()
                        killed.append(child.pid)
                        before.add(child.pid)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        if kills == 1:
            with local_cluster(1, "500MB") as client:
                (pid,) = pids(client).values()
                assert killed
                assert pid not in killed
        else:
            with (
                pytest.raises(
                    ClusterError, match="must start, and one ended as it did, with exit code -9"
                ),
                local_cluster(1, "500MB"),
            ):
                pass
    finally:
        ended.set()
        killer.join()


UNGUARDED = """
import sys
from dhsic.cluster import connect
print("from the head", flush=True)
with connect(2, memory="500MB") as client:
    print(len(client.nthreads()))
"""


def test_connect__in_a_script_without_a_guard_is_one_error(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(UNGUARDED)
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.count("Traceback") == 1
    assert done.stderr.splitlines()[-1].startswith(
        "dhsic.errors.ClusterError: a script that starts"
    )
    guarded = UNGUARDED.replace("with", 'if __name__ == "__main__":\n  with').replace(
        "    print(len", "      print(len"
    )
    script.write_text(guarded)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert (done.stdout.splitlines()[-1], done.stderr) == ("2", "")


def test_run__goes_on_while_a_worker_is_stopped(
    client: Any, data: list[str], quiet: IndependenceTestResult
) -> None:
    victim = psutil.Process(next(iter(pids(client).values())))
    stopped: list[str] = []
    resume = threading.Timer(1.0, victim.resume)

    def stop() -> None:
        victim.suspend()
        wait_until(lambda: victim.status() == psutil.STATUS_STOPPED, 20, "it runs")
        stopped.append(victim.status())
        resume.start()

    try:
        found = shaken(data, client, {5: stop})
    finally:
        resume.join(20)
    assert stopped == [psutil.STATUS_STOPPED]
    assert victim.pid in pids(client).values(), "a worker that was stopped is not lost"
    assert same_bits(found, quiet)


def fill(amount: int) -> None:
    """Take more memory than a worker has, beside its tasks."""

    def take() -> None:
        hoard = []
        while True:
            hoard.append(np.ones(amount // 8 // 8))
            time.sleep(0.02)

    threading.Thread(target=take, daemon=True).start()


def test_run__survives_a_worker_that_its_nanny_kills_for_memory(
    client: Any, data: list[str], quiet: IndependenceTestResult
) -> None:
    before = pids(client)
    address, victim = next(iter(before.items()))
    limit = client.scheduler_info()["workers"][address]["memory_limit"]

    def overfill() -> None:
        client.run(fill, limit, workers=[address])
        wait_until(lambda: not psutil.pid_exists(victim), 60, "the nanny let it live")

    found = shaken(data, client, {5: overfill})
    wait_until(lambda: len(client.nthreads()) == 2, 60, "the nanny did not restart it")
    assert victim not in pids(client).values()
    assert same_bits(found, quiet)


def test_run__survives_a_restart_of_all_workers(
    client: Any, data: list[str], quiet: IndependenceTestResult
) -> None:
    before = set(pids(client).values())

    def kill() -> None:
        for pid in before:
            os.kill(pid, signal.SIGKILL)

    # A machine so busy that no worker is back before Dask gives it up.
    with dask.config.set({"distributed.deploy.lost-worker-timeout": "10 ms"}):
        found = shaken(data, client, {5: kill})
    wait_until(lambda: len(client.nthreads()) == 2, 60, "the nannies did not restart them")
    assert not before & set(pids(client).values())
    assert same_bits(found, quiet)


def test_run__survives_the_death_of_a_worker_in_its_second_pass(
    client: Any, data: list[str], quiet: IndependenceTestResult
) -> None:
    victim, *_ = pids(client).values()
    found = shaken(data, client, {BLOCKS - 10: lambda: os.kill(victim, signal.SIGKILL)})
    assert [done.blocks for done in found.passes] == [BLOCKS // 2] * 2
    assert same_bits(found, quiet)


def test_run__on_a_cluster_that_grows_and_shrinks(
    client: Any, data: list[str], quiet: IndependenceTestResult
) -> None:
    seen: list[int] = []

    def grow() -> None:
        client.cluster.scale(3)
        wait_until(lambda: len(client.nthreads()) == 3, 60, "it did not grow")
        seen.append(3)

    def shrink() -> None:
        client.cluster.scale(1)
        wait_until(lambda: len(client.nthreads()) == 1, 60, "it did not shrink")
        seen.append(1)

    found = shaken(data, client, {5: grow, 15: shrink})
    assert seen == [3, 1]
    assert same_bits(found, quiet)


def observed(number: int) -> tuple[int, tuple[Any, ...]]:
    """Work of some time, and the process and the settings in which it was done."""
    import dask

    time.sleep(0.2 + number / 10_000)
    names = ("pause", "spill", "target")
    memory = (dask.config.get(f"distributed.worker.memory.{name}") for name in names)
    variables = ("OPENBLAS_NUM_THREADS", "MALLOC_TRIM_THRESHOLD_")
    return os.getpid(), (*memory, *(os.environ.get(name) for name in variables))


def test_local_cluster__adapts_to_the_work_and_late_workers_are_set_up_alike(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_", raising=False)  # what other clusters leave behind
    with local_cluster(Adaptive(2, 1), "500MB", threads=2) as client:
        assert list(client.nthreads().values()) == [2]
        found: dict[int, set[tuple[Any, ...]]] = {}
        work = client.map(observed, range(500))
        for _, (pid, settings) in as_completed(work, with_results=True, timeout=100):
            found.setdefault(pid, set()).add(settings)
            if len(found) == 2:
                break
        client.cancel(work)
        assert len(found) == 2, "it did not grow"
        assert set().union(*found.values()) == {(False, 0.85, False, "1", None)}
        wait_until(lambda: len(client.nthreads()) == 1, 60, "it did not shrink")


def test_connect__starts_a_cluster_that_fits_the_machine() -> None:
    with connect() as client:
        found = client.scheduler_info()["workers"].values()
        assert len(found) == dhsic.cluster.processors()
        assert {worker["nthreads"] for worker in found} == {1}
        total = sum(worker["memory_limit"] for worker in found)
        assert 0.9 < total / psutil.virtual_memory().total <= 1.0
        services = client.scheduler_info()["services"]
        assert services["dashboard"] != 8787


def test_connect__shares_the_machine_among_a_number_of_workers() -> None:
    few, many = described(2), described(4)
    assert (few.kind, few.workers, many.workers) == ("local", 2, 4)
    assert few.memory == pytest.approx(2 * many.memory, rel=1e-6)
    assert described(None) == described(dhsic.cluster.processors())
