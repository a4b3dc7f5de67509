"""What SLURM, PBS, LSF and SGE are asked for, in full; none of them is needed here."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import re
import shlex
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dhsic.cluster import TLS, Adaptive, ClusterSpec, JobQueue, connect, job_queues
from dhsic.cluster.job_queues import job_arguments
from dhsic.cluster.security import security_of
from dhsic.errors import (
    ClusterError,
    InsecureWarning,
    InvalidArgumentError,
    MissingDependencyError,
)
from tests.cluster.certificates import make_tls

JOBS = JobQueue(
    queue="main",
    account="science",
    walltime="1-02:03:04",
    interface="lo",
    local_directory="/scratch/my $HOME",
    prologue=("module load python", "ulimit -c 0"),
    directives=("--constraint=avx2",),
    python="/opt/my python/bin/python",
)
SPEC = ClusterSpec("slurm", 2, threads=3, memory=10**9, jobs=JOBS)

_SETTINGS = """\
export DASK_DISTRIBUTED__WORKER__MEMORY__TARGET=False
export DASK_DISTRIBUTED__WORKER__MEMORY__SPILL=0.85
export DASK_DISTRIBUTED__WORKER__MEMORY__PAUSE=False
export DASK_DISTRIBUTED__WORKER__MEMORY__TERMINATE=0.95
export DASK_DISTRIBUTED__WORKER__PROFILE__INTERVAL=100ms
export DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL=200ms
export DASK_DISTRIBUTED__ADMIN__SYSTEM_MONITOR__INTERVAL=2s
export DASK_DISTRIBUTED__NANNY__PRE_SPAWN_ENVIRON='{"OMP_NUM_THREADS": 1, \
"MKL_NUM_THREADS": 1, "OPENBLAS_NUM_THREADS": 1, "MALLOC_TRIM_THRESHOLD_": None}'
module load python
ulimit -c 0
'/opt/my python/bin/python' -m distributed.cli.dask_worker tls://127.0.0.1:PORT \
--name dummy-name --nthreads 3 --memory-limit 1.48GiB --nanny --death-timeout 60 \
--local-directory '/scratch/my $HOME' --memory-limit 1315789473B \
--dashboard-address 127.0.0.1:0 --lifetime 93184s --lifetime-stagger 200s \
--interface lo --protocol tls:// \
--tls-ca-file TLS/ca.pem --tls-cert TLS/cert.pem --tls-key TLS/key.pem
"""

SCRIPTS = {
    "slurm": """\
#!/usr/bin/env bash

#SBATCH -J dhsic-worker
#SBATCH -p main
#SBATCH -A science
#SBATCH -n 1
#SBATCH --cpus-per-task=3
#SBATCH --mem=2G
#SBATCH -t 26:03:04
#SBATCH -o /dev/null
#SBATCH -e /dev/null
#SBATCH --constraint=avx2
""",
    "pbs": """\
#!/usr/bin/env bash

#PBS -N dhsic-worker
#PBS -q main
#PBS -A science
#PBS -l select=1:ncpus=3:mem=1511MB
#PBS -l walltime=26:03:04
#PBS -o /dev/null
#PBS -e /dev/null
#PBS --constraint=avx2
""",
    "lsf": """\
#!/usr/bin/env bash

#BSUB -J dhsic-worker
#BSUB -q main
#BSUB -P "science"
#BSUB -n 3
#BSUB -R "span[hosts=1]"
#BSUB -M 1584225
#BSUB -W 26:04
#BSUB -o /dev/null
#BSUB -e /dev/null
#BSUB --constraint=avx2
""",
    "sge": """\
#!/usr/bin/env bash

#$ -N dhsic-worker
#$ -q main
#$ -P science
#$ -l h_rt=26:03:04
#$ -cwd
#$ -j y
#$ -o /dev/null
#$ --constraint=avx2
""",
}


@pytest.fixture
def tls(tmp_path: Path) -> TLS:
    return make_tls(tmp_path)


def script_of(spec: ClusterSpec, security: Any = None) -> str:
    kind = job_queues._cluster_class(spec.kind)
    with kind(**job_arguments(spec, security)) as cluster:
        script: str = cluster.job_script()
    return re.sub(r"(//127.0.0.1:)\d+", r"\1PORT", script)


@pytest.mark.parametrize("kind", SCRIPTS)
def test_job_script__in_full(kind: Any, tmp_path: Path, tls: TLS) -> None:
    spec = dataclasses.replace(SPEC, kind=kind, tls=tls)
    script = script_of(spec, security_of(tls)).replace(str(tmp_path), "TLS")
    assert script == SCRIPTS[kind] + _SETTINGS


def test_job_script__bash_passes_every_word_unchanged(tls: TLS, tmp_path: Path) -> None:
    """A python that prints its words stands in for the worker's."""
    echo = tmp_path / "my 'python'; $(true)"
    echo.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    echo.chmod(0o755)
    jobs = dataclasses.replace(JOBS, python=str(echo), prologue=(), local_directory="/s '$(id)'")
    script = script_of(dataclasses.replace(SPEC, jobs=jobs, tls=tls), security_of(tls))
    done = subprocess.run(["bash"], input=script, capture_output=True, text=True, check=True)
    words = done.stdout.splitlines()
    assert words[:2] == ["-m", "distributed.cli.dask_worker"]
    assert words[words.index("--local-directory") + 1] == "/s '$(id)'"


def test_job_script__starts_a_worker_that_takes_the_last_memory_limit() -> None:
    words = shlex.split(_SETTINGS.splitlines()[-1].replace("PORT", "1"))
    arguments = words[words.index("distributed.cli.dask_worker") + 2 :]
    read = (
        "import sys; from distributed.cli.dask_worker import main; "
        "print(main.make_context('w', sys.argv[1:]).params['memory_limit'])"
    )
    command = [sys.executable, "-c", read, "tls://127.0.0.1:1", *arguments]
    command = [word for word in command if not word.startswith("TLS/")]
    command = [word for word in command if not word.startswith("--tls-")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "1315789473B\n"


CHANGES: dict[str, tuple[dict[str, Any], str, str]] = {
    "queue": ({"queue": None}, "-p main", ""),
    "account": ({"account": None}, "-A science", ""),
    "name": ({"name": "mine"}, "-J dhsic-worker", "-J mine"),
    "walltime": ({"walltime": "00:10:00"}, "--lifetime 93184s", "--lifetime 510s"),
    "interface": ({"interface": None}, "--interface lo", ""),
    "log_directory": ({"log_directory": "/tmp"}, "-o /dev/null", "-o /tmp/dhsic-worker-%J.out"),
    "local_directory": ({"local_directory": None}, "--local-directory", ""),
    "home": ({"python": "~/bin/python"}, "/opt/my", f"\n{Path.home()}/bin/python -m "),
    "prologue": ({"prologue": ("echo hello",)}, "ulimit", "\necho hello\n"),
    "directives": ({"directives": ()}, "--constraint=avx2", ""),
    "python": ({"python": None}, "/opt/my", f"\n{shlex.quote(sys.executable)} -m "),
}


@pytest.mark.parametrize("name", CHANGES)
def test_job_script__follows(name: str) -> None:
    change, before, after = CHANGES[name]
    changed = script_of(dataclasses.replace(SPEC, jobs=dataclasses.replace(JOBS, **change)))
    assert before in script_of(SPEC)
    assert before not in changed
    assert after in changed


def test_job_arguments__host_and_dashboard_of_the_scheduler() -> None:
    here = {"dashboard_address": "127.0.0.1:0"}
    assert job_arguments(SPEC, None)["scheduler_options"] == here
    jobs = dataclasses.replace(JOBS, host="login1")
    arguments = job_arguments(dataclasses.replace(SPEC, jobs=jobs), None)
    assert arguments["scheduler_options"] == {**here, "host": "login1"}


class Recorder:
    """Stands for a cluster of dask-jobqueue, up to the first job."""

    arguments: dict[str, Any]
    calls: list[Any]
    files: dict[str, int]
    job_cls = object

    def __init__(self, **arguments: Any) -> None:
        type(self).arguments = arguments
        type(self).calls = []
        self.worker_spec: dict[int, str] = {}
        security = arguments["security"]
        if security is not None:
            paths = (security.tls_ca_file, security.tls_worker_cert, security.tls_worker_key)
            self_files = {path: stat.S_IMODE(os.stat(path).st_mode) for path in paths}
            type(self).files = self_files

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        self.calls.append("closed")

    def new_worker_spec(self) -> dict[int, str]:
        return {len(self.worker_spec): "job"}

    def __await__(self) -> Any:
        self.calls.append(("submit", len(self.worker_spec)))
        return iter(())

    def adapt(self, **bounds: int) -> None:
        self.calls.append(("adapt", bounds))

    def sync(self, function: Any) -> None:
        asyncio.run(function())


class Stopped(Exception):
    """Where the recording ends."""


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[type[Recorder]]:
    def client(cluster: Any) -> None:
        raise Stopped

    monkeypatch.setattr(job_queues, "_cluster_class", lambda kind: Recorder)
    monkeypatch.setattr(job_queues, "Client", client)
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setenv("HOME", str(tmp_path))
    return Recorder


@pytest.mark.parametrize(("workers", "bounds"), [(3, (3, 3)), (Adaptive(7, 2), (2, 7))])
def test_connect__submits_the_fewest_and_brings_back_what_is_lost(
    recorded: type[Recorder], workers: Any, bounds: tuple[int, int]
) -> None:
    with pytest.raises(Stopped), connect(dataclasses.replace(SPEC, workers=workers)):
        pass
    fewest, most = bounds
    adapted = ("adapt", {"minimum": fewest, "maximum": most})
    assert recorded.calls == [("submit", fewest), adapted, "closed"]


def test_connect__makes_certificates_that_no_one_else_reads_and_deletes_them(
    recorded: type[Recorder], tmp_path: Path
) -> None:
    with pytest.raises(Stopped), connect(SPEC):
        pass
    assert recorded.arguments["protocol"] == "tls://"
    assert len(recorded.files) == 2
    assert set(recorded.files.values()) == {0o600}
    assert all(path.startswith(f"{tmp_path}/.dhsic-") for path in recorded.files)
    assert list(tmp_path.iterdir()) == []


def test_connect__puts_them_where_the_nodes_see_them(
    recorded: type[Recorder], tmp_path: Path
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    jobs = dataclasses.replace(JOBS, shared_directory=str(shared))
    with pytest.raises(Stopped), connect(dataclasses.replace(SPEC, jobs=jobs)):
        pass
    assert all(path.startswith(f"{shared}/") for path in recorded.files)


def test_connect__takes_the_certificates_of_the_user(recorded: type[Recorder], tls: TLS) -> None:
    with pytest.raises(Stopped), connect(dataclasses.replace(SPEC, tls=tls)):
        pass
    assert set(recorded.files) == {tls.ca, tls.cert, tls.key}


def test_connect__without_encryption_says_so(recorded: type[Recorder]) -> None:
    insecure = dataclasses.replace(SPEC, insecure=True)
    with (
        pytest.warns(InsecureWarning, match="workers of slurm is not encrypted"),
        pytest.raises(Stopped),
        connect(insecure),
    ):
        pass
    assert (recorded.arguments["protocol"], recorded.arguments["security"]) == ("tcp://", None)


@pytest.mark.parametrize("name", ["/no/folder", "/proc"])
def test_connect__refuses_a_shared_directory(recorded: type[Recorder], name: str) -> None:
    jobs = dataclasses.replace(JOBS, shared_directory=name)
    with (
        pytest.raises(InvalidArgumentError, match="shared_directory must be a folder on all nodes"),
        connect(dataclasses.replace(SPEC, jobs=jobs)),
    ):
        pass


def test_connect__refuses_certificates_that_a_script_cannot_name(
    recorded: type[Recorder], tmp_path: Path
) -> None:
    odd = make_tls(tmp_path / "my tls")
    with (
        pytest.raises(InvalidArgumentError, match="tls: ca must be a path of plain characters"),
        connect(dataclasses.replace(SPEC, tls=odd)),
    ):
        pass


@pytest.mark.parametrize(("kind", "command"), [("slurm", "sbatch"), ("lsf", "bsub")])
def test_connect__needs_the_command_of_the_queue(
    monkeypatch: pytest.MonkeyPatch, kind: Any, command: str
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    with (
        pytest.raises(ClusterError, match=f"submitted by '{command}', which is not on this"),
        connect(dataclasses.replace(SPEC, kind=kind)),
    ):
        pass


def test_connect__names_the_extra_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dask_jobqueue", None)
    with (
        pytest.raises(MissingDependencyError, match=r"pip install 'dhsic\[cluster\]'"),
        connect(SPEC),
    ):
        pass


def test_connect__repeats_what_the_queue_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A real cluster of dask-jobqueue, whose command is not one of SLURM's."""
    refuses = tmp_path / "sbatch"
    refuses.write_text("#!/bin/sh\necho 'sbatch: error: invalid partition specified' >&2\nexit 1\n")
    refuses.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with (
        pytest.raises(ClusterError, match="slurm refuses a job: sbatch: error: invalid partition"),
        connect(SPEC),
    ):
        pass
