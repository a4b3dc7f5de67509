"""Runs on a real SLURM of one node."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import dhsic
from dhsic.cluster import Adaptive, ClusterSpec, JobQueue, connect
from dhsic.engine.events import BlockFinished
from dhsic.errors import ClusterError, InvalidArgumentError
from tests.cluster.processes import OPTIONS, X, Y, quiet_result, same_bits
from tests.cluster.slurm import Slurm, wait_until

pytestmark = pytest.mark.slurm


def spec_of(workers: Any, folder: Path, **jobs: Any) -> ClusterSpec:
    section = JobQueue(queue="main", walltime="00:10:00", interface="lo", **jobs)
    return ClusterSpec("slurm", workers, memory=500 * 10**6, timeout=120, jobs=section)


def test_connect__a_run_on_jobs_has_the_bits_of_a_quiet_run(slurm: Slurm, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    with connect(spec_of(2, tmp_path, log_directory=str(logs))) as client:
        client.wait_for_workers(2, timeout=120)
        jobs = slurm.jobs("running")
        assert len(jobs) == 2
        assert all(address.startswith("tls://127.0.0.1:") for address in client.nthreads())
        found = dhsic.independence_test(X, Y, client=client, **OPTIONS)
    wait_until(lambda: not slurm.jobs(), 60, "jobs outlive the client")
    assert same_bits(found, quiet_result())
    assert len(list(logs.iterdir())) == 4


def test_connect__jobs_cancelled_in_a_run_change_no_bit(
    slurm: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every job is cancelled once; adaptive scaling submits others."""
    import dask

    done = threading.Event()
    blocks: list[BlockFinished] = []
    cancelled: list[str] = []

    def cancel_at_the_third(event: object) -> None:
        if isinstance(event, BlockFinished):
            blocks.append(event)
            if len(blocks) == 3:
                cancelled.extend(slurm.jobs("running"))
                slurm.cancel(*cancelled)
                done.set()

    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1s"}),
        connect(spec_of(Adaptive(3, 2), tmp_path)) as client,
    ):
        client.wait_for_workers(2, timeout=120)
        found = dhsic.independence_test(
            X, Y, client=client, progress=cancel_at_the_third, **OPTIONS
        )
        wait_until(lambda: len(client.nthreads()) >= 2, 120, "no worker came back")
        assert not set(cancelled) & set(slurm.jobs("running"))
    assert done.is_set()
    assert len(cancelled) >= 2
    assert {slurm.state(job) for job in cancelled} == {"CANCELLED"}
    assert same_bits(found, quiet_result())


def test_connect__the_queue_refuses(slurm: Slurm, tmp_path: Path) -> None:
    with (
        pytest.raises(ClusterError, match="slurm refuses a job: sbatch: error: "),
        connect(spec_of(1, tmp_path, directives=("--partition=nowhere",))),
    ):
        pass
    assert not slurm.jobs()


def test_connect__a_job_that_waits_for_ever_is_an_error_and_cancelled(
    slurm: Slurm, tmp_path: Path
) -> None:
    import dataclasses

    held = dataclasses.replace(spec_of(1, tmp_path, directives=("--hold",)), timeout=2.0)
    with (
        pytest.raises(InvalidArgumentError, match="got none within 2 s: look for its jobs"),
        connect(held),
    ):
        pass
    wait_until(lambda: not slurm.jobs(), 60, "the job outlives the error")
