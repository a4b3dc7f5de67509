"""The files of deploy/, held against schemas, linters and the programs that they call."""

import os
import re
import shlex
import signal
import subprocess
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

from tests.cluster.certificates import DEPLOY, make_certificates
from tests.cluster.rendering import job_script
from tests.processes import wait_until

README = (DEPLOY / "README.md").read_text()
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())


# --- commands and their settings


def pods(value):
    """Descriptions of pods, wherever they are."""
    if isinstance(value, dict) and "containers" in value:
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from pods(part)


def worker_settings(name):
    """Settings of Dask in the environment of the worker of a manifest."""
    documents = list(yaml.safe_load_all((DEPLOY / "kubernetes" / f"{name}.yaml").read_text()))
    every = [container for pod in pods(documents) for container in pod["containers"]]
    (worker,) = (one for one in every if one["name"] == "worker")
    settings = {item["name"]: item["value"] for item in worker["env"]}
    return {k: v for k, v in settings.items() if k.startswith("DASK_DISTRIBUTED__")}


def test_workers__have_the_settings_that_a_rendered_manifest_has():
    settings = worker_settings("daskjob")
    assert len(settings) >= 8
    assert worker_settings("daskcluster") == worker_settings("deployment") == settings
    assert settings.items() <= COMPOSE["services"]["worker"]["environment"].items()
    own = {k: v for k, v in settings.items() if "REQUIRE_ENCRYPTION" not in k}
    for script in (DEPLOY / "slurm").glob("*.sbatch"):
        lines = script.read_text().splitlines()
        lacking = [k for k, v in own.items() if f"export {k}={shlex.quote(v)}" not in lines]
        assert lacking == [], script.name


def test_readme__names_all_files_and_only_those():
    files = {path.relative_to(DEPLOY) for path in DEPLOY.rglob("*") if path.is_file()}
    for file in files - {Path("README.md"), Path(".gitignore")}:
        assert file.parts[0] == "certificates" or f"`{file}`" in README
    for name in re.findall(r"^\| `([^`]+)`", README, re.MULTILINE):
        assert (DEPLOY / name).exists(), name


# --- images, compose and certificates


def test_compose__names_only_what_it_defines_and_publishes_on_loopback():
    services = COMPOSE["services"]
    assert services.keys() == {"scheduler", "worker", "client"}
    for service in services.values():
        assert set(service["secrets"]) == COMPOSE["secrets"].keys()
        assert set(service.get("depends_on", {})) <= services.keys()
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
        assert service["image"] == f"dhsic:{version('dhsic')}"
        assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).exists()
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]


def test_certificates__are_for_the_owner_and_signed_by_the_authority(tmp_path):
    folder = make_certificates(tmp_path / "new" / "folder")
    modes = {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}
    assert modes == {"ca.crt": 0o644, "ca.key": 0o600, "tls.crt": 0o644, "tls.key": 0o600}
    words = ["openssl", "verify", "-x509_strict", "-CAfile", folder / "ca.crt", folder / "tls.crt"]
    assert subprocess.run(words, capture_output=True, check=True, timeout=30)
    for arguments in ([folder], [], ["new", "0"], ["new", "1;id"], ["new", "-5"]):
        words = [DEPLOY / "tls" / "make-certificates.sh", *arguments]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, check=False, timeout=30)
        assert done.returncode != 0
        assert done.stderr.count(b"\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
    assert len(list((tmp_path / "new").iterdir())) == 1, "what is there is never replaced"


# --- scripts of jobs whose time is nearly over, with programs in place of those of queues

PROGRAMS = {
    "dhsic": "trap 'exit \"$CODE\"' TERM\ntouch started\nwhile :; do sleep 0.02; done",
    "scontrol": 'echo "$@" >> requeued',
    "qsub": 'echo "$@" >> requeued\necho 18.server',
    "until_started": "until [[ -e started ]]; do sleep 0.02; done",
    "dask": 'echo {} > "dhsic-$SLURM_JOB_ID/scheduler.json"\nexec sleep 100',
    "srun": "exec sleep 100",
}


CASES = [(130, 0, True), (130, 49, True), (130, 50, False), (0, 0, False), (2, 0, False)]


@pytest.fixture
def job(tmp_path, monkeypatch):
    """Runs a script, with programs on the path, and variables of SLURM; ends what it leaves."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, text in PROGRAMS.items():
        (programs / name).write_text(f"#!/bin/bash\n{text}\n")
        (programs / name).chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    for name, value in {"JOB_ID": "17", "SUBMIT_DIR": tmp_path, "MEM_PER_CPU": "1000"}.items():
        monkeypatch.setenv(f"SLURM_{name}", str(value))
    quiet = dict.fromkeys(("stdout", "stderr"), subprocess.DEVNULL)

    @contextmanager
    def started(*words):
        with subprocess.Popen(["bash", *map(str, words)], start_new_session=True, **quiet) as ran:
            try:
                wait_until((tmp_path / "started").exists, 120, "the test does not start")
                yield ran
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(ran.pid, signal.SIGKILL)  # as a queue ends what a job leaves

    return started


@pytest.fixture
def rendered_job(job, tmp_path, monkeypatch):
    """Runs the script of a kind of queue whose command ends so, in a folder of so many turns."""

    def started(code, kind="slurm", turns=0, over=False):
        monkeypatch.setenv("CODE", str(code))
        folder, python = tmp_path / "runs" / "ID", str(tmp_path / "programs" / "dhsic")
        folder.mkdir(parents=True)
        (folder / "turns").write_text("\n" * turns)
        script = job_script(tmp_path, kind=kind, python=python, runs=tmp_path / "runs")
        # Its time is over as soon as the command has started.
        timer = "until_started &" if over else "sleep 3540 &"
        (tmp_path / "job.sh").write_text(script.replace("sleep 3540 &", timer))
        return job(tmp_path / "job.sh")

    return started


def requeued(tmp_path):
    path = tmp_path / "requeued"
    return path.read_text() if path.exists() else ""


@pytest.mark.parametrize(("code", "restarts", "again"), CASES)
def test_script_of_deploy__is_queued_again_only_where_there_is_more_to_do(
    code, restarts, again, job, tmp_path, monkeypatch
):
    values = {"SLURM_RESTART_COUNT": restarts or "", "DHSIC_CERTIFICATES": tmp_path, "CODE": code}
    for name, value in values.items():
        monkeypatch.setenv(name, str(value))
    with job(DEPLOY / "slurm" / "one-allocation.sbatch", "d.zarr") as ran:
        ran.send_signal(signal.SIGUSR1)
        assert ran.wait(120) == code
    assert requeued(tmp_path) == ("requeue 17\n" * again)


@pytest.mark.parametrize("kind", ["slurm", "pbs", "lsf", "sge"])
@pytest.mark.parametrize(("code", "turns", "again"), CASES)
def test_rendered_script__is_queued_again_only_where_there_is_more_to_do(
    kind, code, turns, again, rendered_job, tmp_path
):
    with rendered_job(code, kind, turns, over=True) as ran:
        assert ran.wait(120) == (99 if again and kind in ("lsf", "sge") else code)
    asked = {"slurm": "requeue 17\n", "pbs": "-v DHSIC_TASK= "}
    assert requeued(tmp_path).startswith(asked.get(kind, "") * again)
    assert (requeued(tmp_path) != "") is (again and kind in asked)
    folder = tmp_path / "runs" / "ID"
    assert (folder / "exit").exists() is not again
    if kind == "pbs" and again:
        assert (folder / "job").read_text() == "18.server\n"


def test_rendered_script__that_is_cancelled_is_not_queued_again(rendered_job, tmp_path):
    with rendered_job(130) as ran:
        os.killpg(ran.pid, signal.SIGTERM)
        assert ran.wait(120) == 130
    assert requeued(tmp_path) == ""
    assert (tmp_path / "runs" / "ID" / "exit").read_text() == "130\n"


# --- by night: checkers of an environment of their own, which does not go together with the tests'


def checked(program, *words):
    """Fails where a program of that environment complains."""
    python = os.environ.get(
        "DHSIC_CHECKERS_PYTHON", DEPLOY.parent / ".venv-kube" / "bin" / "python"
    )
    if not Path(python).exists():
        pytest.skip("no environment of checkers: .ci/nightly makes .venv-kube")
    command = [Path(python).parent / program, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["daskjob", "daskcluster", "deployment"])
def test_manifest__has_no_key_that_kubernetes_does_not_know(name, tmp_path):
    documents = list(yaml.safe_load_all((DEPLOY / "kubernetes" / f"{name}.yaml").read_text()))
    shells = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": pod}
        for pod in pods(documents)
    ]
    assert len(shells) >= 2
    plain = [one for one in documents if "dask.org" not in one["apiVersion"]]
    (tmp_path / "all.yaml").write_text(yaml.safe_dump_all([*shells, *plain]))
    checked("kubernetes-validate", "--quiet", "--strict", "-k", "1.35", str(tmp_path / "all.yaml"))


@pytest.mark.nightly
def test_linters__have_no_complaints(tmp_path):
    scripts = [*DEPLOY.rglob("*.sh"), *DEPLOY.rglob("*.sbatch")]
    assert len(scripts) == 3
    checked("shellcheck", *scripts)
    checked("hadolint", DEPLOY / "Dockerfile")
    script = tmp_path / "job.sh"
    script.write_text(job_script(tmp_path, "--variable", "it's $(x)", "--variable", "\n"))
    checked("shellcheck", "--severity=warning", script)
