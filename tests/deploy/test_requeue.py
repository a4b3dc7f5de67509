"""What the scripts of jobs do when their time is nearly over, with programs in place of SLURM's."""

import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from dhsic.cluster import ClusterSpec, JobQueue
from dhsic.cluster.submit import QUEUES, SubmittedRun
from tests.cluster.slurm import wait_until
from tests.deploy.play import DEPLOY

PROGRAMS = {
    "dhsic": "trap 'exit \"$CODE\"' TERM\ntouch started\nwhile :; do sleep 0.02; done",
    "scontrol": 'echo "$@" >> requeued',
    "dask": 'echo {} > "dhsic-$SLURM_JOB_ID/scheduler.json"\nexec sleep 100',
    "srun": "exec sleep 100",
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with programs that come before the true ones."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, text in PROGRAMS.items():
        (programs / name).write_text(f"#!/bin/bash\n{text}\n")
        (programs / name).chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    job = {"JOB_ID": "17", "SUBMIT_DIR": str(tmp_path), "MEM_PER_CPU": "1000"}
    for name, value in job.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    monkeypatch.setenv("DHSIC_CERTIFICATES", str(tmp_path))
    return tmp_path


def rendered(here: Path) -> list[str]:
    queue = JobQueue(python=str(here / "programs" / "dhsic"))
    run = SubmittedRun.new(
        "slurm", ("test", "d.zarr"), ClusterSpec("slurm", 2, jobs=queue), here / "runs"
    )
    (here / "job.sh").write_text(QUEUES["slurm"].render(QUEUES["slurm"].prepare(run)))
    return ["bash", "job.sh"]


def deployed(here: Path) -> list[str]:
    return ["bash", str(DEPLOY / "slurm" / "one-allocation.sbatch"), "d.zarr"]


@pytest.mark.parametrize("script", [rendered, deployed])
@pytest.mark.parametrize(
    ("code", "restarts", "again"),
    [(130, None, True), (130, 49, True), (130, 50, False), (0, None, False), (2, None, False)],
)
def test_script__is_queued_again_only_where_there_is_more_to_do(
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    script: Callable[[Path], list[str]],
    code: int,
    restarts: int | None,
    again: bool,
) -> None:
    monkeypatch.setenv("CODE", str(code))
    if restarts is not None:
        monkeypatch.setenv("SLURM_RESTART_COUNT", str(restarts))
    with subprocess.Popen(
        script(here), start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as job:
        try:
            wait_until((here / "started").exists, 20, "the test does not start")
            job.send_signal(signal.SIGUSR1)
            assert job.wait(20) == code
        finally:
            with suppress(ProcessLookupError):
                os.killpg(job.pid, signal.SIGKILL)  # as SLURM ends what a job leaves
    requeued = here / "requeued"
    assert (requeued.read_text() if requeued.exists() else "") == ("requeue 17\n" * again)
