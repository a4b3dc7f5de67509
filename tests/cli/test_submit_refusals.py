"""What `dhsic submit` and its followers refuse, before a queue is asked."""

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from dhsic.cluster.submit import tools
from tests.cli.conftest import Invoke
from tests.cli.submissions import (
    KUBERNETES,
    PAIR,
    SLURM,
    URL,
    detached,
    runs_of,
    submit,
)
from tests.cli.submissions import here as here
from tests.cli.submissions import queues as queues
from tests.cli.submissions import result_text as result_text
from tests.cli.test_bad_usage import check_refusal
from tests.cluster.queues import Queues

BAD_COMMANDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "nothing": ((), ("give a test to submit", "got nothing")),
    "another command": (("plan", "DATA", *PAIR), ("give a test to submit", "got 'plan'")),
    "words of the shell": (("rm -rf /",), ("give a test to submit", "got 'rm -rf /'")),
    "no data": (("test",), ("Missing argument 'DATA'", "dhsic test --help")),
    "no variables": (("test", "DATA"), ("Missing option '--variable'",)),
    "one variable": (("test", "DATA", "--variable", "x"), ("two or more",)),
    "unknown variable": (("test", "DATA", "--variable", "x", "--variable", "yy"), ("'y'?",)),
    "unknown option": (("test", "DATA", *PAIR, "--landmark", "9"), ("Did you mean '--landmarks'",)),
    "bad level": (("test", "DATA", *PAIR, "--alpha", "2"), ("less than 1", "got 2")),
    "bad estimator": (("test", "DATA", *PAIR, "--estimator", "best"), ("'nystrom-m'",)),
    "options that do not go together": (
        ("test", "DATA", *PAIR, "--estimator", "v-hsic", "--landmarks", "9"),
        ("--landmarks goes with",),
    ),
    "the same with data at a URL": (
        ("test", URL, *PAIR, "--estimator", "v-hsic", "--landmarks", "9"),
        ("--landmarks goes with",),
    ),
    "no such data": (("test", "nowhere.zarr", *PAIR), ("nowhere.zarr", "check the path")),
    "a password": (("test", "s3://me:secret@bucket/x.zarr", *PAIR), ("no password or signature",)),
    "no text": (("test", "\udcff", *PAIR), ("must be text", "word 2")),
    **{
        option: (("test", "DATA", *PAIR, *words), (f"{option} cannot be given to a test",))
        for option, *words in (
            ("--json", "--json", "out.json"),
            ("--log-json", "--log-json", "-"),
            ("--performance-report", "--performance-report", "out.html"),
            ("--threads", "--threads", "2"),
            ("--workers", "--workers", "2"),
            ("--scheduler", "--scheduler", "tcp://127.0.0.1:1"),
            ("--scheduler-file", "--scheduler-file", "x.json"),
            ("--tls-ca", "--tls-ca", "ca.crt"),
            ("--insecure", "--insecure"),
            ("--cluster", "--cluster", "x.yaml"),
            ("--memory", "--memory", "1GiB"),
        )
    },
}


@pytest.mark.parametrize("case", BAD_COMMANDS)
def test_bad_commands(invoke: Invoke, data: str, here: Path, queues: Queues, case: str) -> None:
    command, words = BAD_COMMANDS[case]
    queues.answer("sbatch", out="17\n")
    placed = [data if word == "DATA" else word for word in command]
    done = submit(invoke, "slurm", *placed)
    check_refusal(done, *words)
    assert "secret@" not in done.stderr
    assert not queues.calls("sbatch")
    assert not runs_of(here)


BAD_SPECS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "no file": (None, ("slurm.yaml", "cannot be read")),
    "no YAML": ("kind: [", ("must be YAML",)),
    "another queue": ({**SLURM, "kind": "pbs"}, ("needs a cluster of the kind slurm", "kind pbs")),
    "another kind": (KUBERNETES, ("needs a cluster of the kind slurm", "kind kubernetes")),
    "unknown key": ({**SLURM, "worker": 2}, ("did you mean 'workers'?",)),
    "queue of two lines": ({**SLURM, "slurm": {"queue": "a\n#SBATCH -x"}}, ("queue must be",)),
    "queue with blanks": ({**SLURM, "slurm": {"queue": "a b"}}, ("queue must be one plain word",)),
    "queue of the shell": ({**SLURM, "slurm": {"queue": "$(id)"}}, ("queue must be",)),
    "walltime": ({**SLURM, "slurm": {"walltime": "soon"}}, ("walltime must be",)),
    "prologue of two lines": ({**SLURM, "slurm": {"prologue": ["a\nb"]}}, ("prologue must be",)),
    "queue with %": ({**SLURM, "slurm": {"queue": "a%j"}}, ("partition of a job must be of",)),
}


@pytest.mark.parametrize("case", BAD_SPECS)
def test_bad_specs(invoke: Invoke, data: str, here: Path, queues: Queues, case: str) -> None:
    spec, words = BAD_SPECS[case]
    queues.answer("sbatch", out="17\n")
    (here / "slurm.yaml").unlink()
    if spec is not None:
        (here / "slurm.yaml").write_text(spec if isinstance(spec, str) else yaml.safe_dump(spec))
    check_refusal(submit(invoke, "slurm", "test", data, *PAIR), *words)
    assert not queues.calls("sbatch")
    assert not runs_of(here)


BAD_OPTIONS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "no queue": (("submit",), ("Usage: dhsic submit",)),
    "unknown queue": (("submit", "moab"), ("No such command 'moab'",)),
    "no spec": (("submit", "slurm", "--", "test"), ("Missing option '--spec'",)),
    "options of a test before it": (
        ("submit", "slurm", "--spec", "slurm.yaml", "--variable", "x"),
        ("No such option '--variable'",),
    ),
    "two ways": (
        ("submit", "slurm", "--spec", "slurm.yaml", "--detach", "--render-only", "--", "test"),
        ("give one of them",),
    ),
    "no run": (("status",), ("Missing argument 'RUN'",)),
    "unknown run": (("status", "20260101-000000-aaaaaa"), ("got '20260101", "there are none yet")),
    "a path": (("result", "../../etc"), ("got '../../etc'",)),
    "an empty name": (("cancel", ""), ("got ''",)),
    "a file of runs": (("runs", "--runs", "slurm.yaml"), ("--runs must be a folder", "Not a dir")),
    "status of a file": (("status", "x", "--runs", "slurm.yaml"), ("--runs must be a folder",)),
}


@pytest.mark.parametrize("case", BAD_OPTIONS)
def test_bad_options(invoke: Invoke, here: Path, case: str) -> None:
    arguments, words = BAD_OPTIONS[case]
    done = invoke(*arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    for word in words:
        assert word in done.stderr
    assert not runs_of(here)


def test_bad_places_for_runs(invoke: Invoke, data: str, here: Path, queues: Queues) -> None:
    queues.answer("sbatch", out="17\n")
    cases = {
        str(here / "my runs"): "--runs must be a path of plain characters",
        str(here / "slurm.yaml"): "--runs must be a folder that can be written to",
        "/proc/runs": "--runs must be a folder that can be written to",
    }
    for place, word in cases.items():
        check_refusal(submit(invoke, "slurm", "test", data, *PAIR, options=("--runs", place)), word)
    assert not queues.calls("sbatch")
    assert not (here / "my runs").exists()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, ("sbatch is needed and cannot be started", "login node")),
        ({"code": 1, "err": "sbatch: error: a\nsbatch: error: b"}, ("exit code 1: sbatch: error",)),
        ({"code": 1}, ("no reason given",)),
        ({"out": "Submitted batch job 17\n"}, ("must answer with the number of a job",)),
        ({"out": ""}, ("must answer with the number of a job",)),
    ],
)
def test_sbatch_that_does_not_submit(
    invoke: Invoke, data: str, here: Path, queues: Queues, answer: Any, words: tuple[str, ...]
) -> None:
    if answer is not None:
        queues.answer("sbatch", **answer)
    check_refusal(submit(invoke, "slurm", "test", data, *PAIR), *words)
    assert not runs_of(here)


def test_a_job_whose_folder_is_lost_is_cancelled(
    invoke: Invoke, data: str, here: Path, queues: Queues
) -> None:
    queues.answer("sbatch", out="17\n")
    queues.answer("scancel")
    with pytest.MonkeyPatch.context() as patch:

        def refuse(path: Path, target: Path) -> None:
            raise OSError(28, "No space left on device")

        patch.setattr(Path, "replace", refuse)
        done = submit(invoke, "slurm", "test", data, *PAIR)
    check_refusal(done, "state.json: No space left on device")
    assert queues.calls("scancel")[0][0] == ["17"]
    (folder,) = runs_of(here)
    assert not [path for path in folder.iterdir() if "partial" in path.name]


def test_a_queue_that_does_not_answer(
    invoke: Invoke, data: str, here: Path, queues: Queues, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "_SECONDS", 0.2)
    queues.programs.joinpath("sbatch").write_text("#!/bin/sh\nexec /bin/sleep 30\n")
    queues.programs.joinpath("sbatch").chmod(0o755)
    done = submit(invoke, "slurm", "test", data, *PAIR)
    check_refusal(done, "sbatch did not answer within 0.2 s: try again later")
    assert not runs_of(here)


BAD_FOR_PODS: dict[str, tuple[Any, tuple[str, ...], tuple[str, ...]]] = {
    "local data": ({}, ("test", "songs.zarr", *PAIR), ("DATA must be a URL", "'songs.zarr'")),
    "local checkpoint": (
        {},
        ("test", URL, *PAIR, "--checkpoint", "here"),
        ("--checkpoint must be a URL", "'here'"),
    ),
    "no encryption": (
        {"kubernetes": {"image": "dhsic:1"}},
        ("test", URL, *PAIR),
        ("must be encrypted", "tls_secret", "insecure: true"),
    ),
    "no image": ({"kubernetes": {}}, ("test", URL, *PAIR), ("must have the key 'image'",)),
    "no kubectl": ({}, ("test", URL, *PAIR), ("kubectl is needed and cannot be started",)),
}


@pytest.mark.parametrize("case", BAD_FOR_PODS)
def test_bad_for_pods(invoke: Invoke, here: Path, queues: Queues, case: str) -> None:
    change, command, words = BAD_FOR_PODS[case]
    (here / "kubernetes.yaml").write_text(yaml.safe_dump({**KUBERNETES, **change}))
    check_refusal(submit(invoke, "kubernetes", *command), *words)
    assert not runs_of(here)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("run.json", "no json"),
        ("run.json", "[]"),
        ("run.json", '{"format": 2}'),
        ("run.json", None),
        ("cluster.yaml", "kind: ["),
        ("state.json", "{}"),
        ("state.json", "no json"),
    ],
)
def test_a_run_that_cannot_be_read(
    invoke: Invoke, data: str, here: Path, queues: Queues, name: str, text: str | None
) -> None:
    queues.answer("sbatch", out="17\n")
    run = detached(invoke, "slurm", "test", data, *PAIR)
    (folder,) = runs_of(here)
    if text is None:
        os.unlink(folder / name)
    else:
        (folder / name).write_text(text)
    for command in ("status", "result", "cancel"):
        check_refusal(invoke(command, run), f"run {run} cannot be read: remove {folder}")


def test_a_result_that_cannot_be_read(
    invoke: Invoke, data: str, here: Path, queues: Queues
) -> None:
    queues.answer("sbatch", out="17\n")
    run = detached(invoke, "slurm", "test", data, *PAIR)
    (folder,) = runs_of(here)
    (folder / "result.json").write_text("{}")
    check_refusal(invoke("result", run), "result.json must hold a result and does not")


def test_a_run_that_no_queue_was_asked_for(
    invoke: Invoke, data: str, here: Path, queues: Queues
) -> None:
    queues.answer("sbatch", out="17\n")
    run = detached(invoke, "slurm", "test", data, *PAIR)
    (folder,) = runs_of(here)
    (folder / "state.json").unlink()
    assert "state      not submitted\nqueue      slurm\n" in invoke("status", run).stdout
    check_refusal(invoke("cancel", run), "is not submitted: there is nothing to cancel")
    check_refusal(invoke("result", run), "has no result, it is not submitted")
