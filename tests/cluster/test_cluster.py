import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest
import zarr
from click.testing import CliRunner
from distributed import LocalCluster, wait

import dhsic
from dhsic.cli import main
from dhsic.cluster import PlannedWorkers, connect, local_cluster, processors
from dhsic.cluster.local import _interrupts_held
from dhsic.errors import InvalidArgumentError
from dhsic.results import IndependenceTestResult

GIB = 2**30


@pytest.fixture(scope="module")
def workers() -> Iterator[Any]:
    with local_cluster(2, "1GiB") as started:
        yield started


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("cluster") / "data.zarr"
    x = np.random.default_rng(1).standard_normal((10_000, 2))
    group = zarr.create_group(path)
    group.create_array("x", data=x, chunks=(1000, 2))
    group.create_array("y", data=x[:, :1] ** 2, chunks=(1000, 1))
    return str(path)


def blas_threads() -> list[int]:
    import threadpoolctl

    return [library["num_threads"] for library in threadpoolctl.threadpool_info()]


def blocked_signals() -> set[int]:
    return {int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, [])}


def memory_settings() -> tuple[Any, ...]:
    return tuple(dask.config.get(f"distributed.worker.memory.{k}") for k in ("spill", "pause"))


def intervals() -> tuple[Any, ...]:
    names = ("worker.profile", "admin.tick", "admin.system-monitor")
    return tuple(dask.config.get(f"distributed.{name}.interval") for name in names)


def clocks(server: Any) -> set[float]:
    """Milliseconds between what a worker or a scheduler does of itself most often."""
    return {server.periodic_callbacks[name].callback_time for name in ("tick", "monitor")}


def test_workers_are_processes_of_one_thread(workers: Any) -> None:
    assert list(workers.nthreads().values()) == [1, 1]
    pids = set(workers.run(os.getpid).values())
    assert len(pids) == 2
    assert os.getpid() not in pids
    assert all(set(threads) == {1} for threads in workers.run(blas_threads).values())


def test_what_watches_over_workers_and_scheduler_is_a_tenth_as_busy(workers: Any) -> None:
    assert set(workers.run(intervals).values()) == {("100ms", "200ms", "2s")}
    watched = workers.run(lambda dask_worker: clocks(dask_worker)).values()
    assert [*watched, workers.run_on_scheduler(lambda dask_scheduler: clocks(dask_scheduler))] == [
        {200, 2000}
    ] * 3
    assert dask.config.get("distributed.admin.tick.interval") == "20ms"


def test_clusters_that_start_in_two_threads_leave_the_settings_as_they_were(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before, seen, began = intervals(), [], threading.Event()

    def start(seconds: float) -> None:
        def cluster(**_: Any) -> None:
            began.set()
            time.sleep(seconds)
            seen.append(intervals())
            raise TimeoutError

        monkeypatch.setattr("dhsic.cluster.worker.WorkerProcesses", cluster)
        with pytest.raises(TimeoutError), local_cluster(1):
            pass

    other = threading.Thread(target=start, args=(0.3,))
    other.start()
    began.wait()
    start(0.6)
    other.join()
    assert seen == [("100ms", "200ms", "2s")] * 2
    assert intervals() == before


def test_workers_do_not_get_the_interrupts_of_a_terminal(workers: Any) -> None:
    assert set(map(frozenset, workers.run(blocked_signals).values())) == {
        frozenset({signal.SIGINT})
    }
    assert signal.SIGINT not in blocked_signals()


def test_workers_spill_above_what_a_plan_may_use_never_pause_and_die_above_what_is_promised(
    workers: Any,
) -> None:
    assert set(workers.run(memory_settings).values()) == {(0.85, False)}
    limits = {worker["memory_limit"] for worker in workers.scheduler_info()["workers"].values()}
    (limit,) = limits
    assert GIB * 1.2 < 0.95 * limit < GIB * 1.3
    assert dask.config.get("distributed.worker.memory.pause") is not False


def test_what_others_keep_on_the_cluster_spills() -> None:
    with local_cluster(1, "300MB") as client:
        pids = client.run(os.getpid)
        kept = []
        for number in range(45):
            kept.append(client.submit(slow_numbers, number))
            wait(kept, timeout=60)
        spilled = client.run(lambda dask_worker: len(dask_worker.data.slow))
        assert sum(spilled.values()) > 0
        assert [client.submit(len, kept[number]).result(60) for number in (0, 44)] == [10**7, 10**7]
        assert client.run(os.getpid) == pids, "it was killed"


def slow_numbers(number: int) -> bytes:
    """10 MB that come slowly enough to be seen by what watches over the memory."""
    time.sleep(0.1)
    return bytes([number]) * 10**7


@pytest.mark.parametrize("null", ["multiplier", "permutation"])
def test_the_command_runs_on_a_scheduler(client: Any, data: str, tmp_path: Path, null: str) -> None:
    results = []
    for where in ("--scheduler", client.scheduler.address), ("--threads", "1"):
        path = tmp_path / f"{where[0]}.json"
        options = ["--kernel", "gaussian", "--landmarks", "40", "--null", null, "--resamples", "20"]
        variables = ["--variable", "x", "--variable", "y"]
        arguments = ["test", data, *variables, *options, "--json", str(path), *where]
        done = CliRunner().invoke(main, arguments)
        assert done.exit_code == 0
        assert not [line for line in done.stderr.splitlines() if "dashboard at" not in line]
        results.append(IndependenceTestResult.from_json(path.read_text()))
    assert results[0].statistic == pytest.approx(results[1].statistic, rel=1e-12)
    assert len(client.nthreads()) == 2, "the cluster must outlive the command"


def test_the_plan_of_a_scheduler_knows_its_workers(client: Any, data: str) -> None:
    arguments = ["plan", data, "--variable", "x", "--variable", "y"]
    done = CliRunner().invoke(main, [*arguments, "--scheduler", client.scheduler.address])
    assert "2 workers with 2 threads in all" in done.stdout


def test_timeout_is_also_how_long_a_run_goes_without_workers(client: Any) -> None:
    with connect(client.scheduler.address, timeout=7):
        assert dask.config.get("dhsic.stall-timeout") == 7
    assert dask.config.get("dhsic.stall-timeout", None) is None


def test_clusters_side_by_side_need_no_fixed_port(workers: Any) -> None:
    services = workers.scheduler_info()["services"]
    assert services["dashboard"] != 8787


def test_planned_workers_plan_as_real_ones(workers: Any) -> None:
    x = np.zeros((9000, 2))
    planned, real = (dhsic.plan(x, x, client=c) for c in (PlannedWorkers(2), workers))
    assert planned.steps == real.steps
    assert (planned.runtime.workers, planned.runtime.threads) == (2, 2)


@pytest.mark.parametrize("address", ["nowhere", "http://127.0.0.1:1", "tcp://127.0.0.1"])
def test_what_is_no_address(address: str) -> None:
    with (
        pytest.raises(InvalidArgumentError, match="write protocol, host and port"),
        connect(address),
    ):
        pass


def test_nobody_answers() -> None:
    with (
        pytest.raises(InvalidArgumentError, match=r"nobody answered at .* within 0\.2 s: start it"),
        connect("tcp://127.0.0.1:9", timeout=0.2),
    ):
        pass


def test_nobody_is_waited_for_on_this_machine() -> None:
    with (
        pytest.raises(InvalidArgumentError, match="timeout must be left out"),
        connect(1, timeout=5),
    ):
        pass


def test_a_scheduler_without_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dhsic.cluster.spec._SCHEDULER_TIMEOUT", 0.5)  # and 10 s to answer
    with (
        LocalCluster(
            n_workers=0,
            threads_per_worker=1,
            dashboard_address=None,
            scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
        ) as empty,
        pytest.raises(InvalidArgumentError, match="got none within"),
        connect(empty.scheduler_address),
    ):
        pass


@pytest.mark.parametrize(("workers", "memory"), [(0, "1GiB"), (1, "none"), (1.5, "1GiB")])
def test_numbers_are_checked_before_a_process_starts(workers: Any, memory: str) -> None:
    with pytest.raises(InvalidArgumentError), local_cluster(workers, memory):
        pass


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_waits_until_what_starts_can_be_closed(number: int) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    started = []

    def start() -> None:
        with _interrupts_held():
            signal.raise_signal(number)
            started.append(True)

    before = signal.signal(number, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            start()
        assert started
        assert signal.getsignal(number) is interrupt
    finally:
        signal.signal(number, before)


def test_processors() -> None:
    assert 1 <= processors() <= (os.cpu_count() or 1)
