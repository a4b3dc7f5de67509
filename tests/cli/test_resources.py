"""The options that say where to run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from distributed import Client

from dhsic.cluster import TLS, Adaptive, ClusterSpec, SchedulerAt
from tests.cli.conftest import Invoke
from tests.cli.test_bad_usage import check_refusal

PAIR = ("--variable", "x", "--variable", "y")
FAST = ("--kernel", "gaussian", "--landmarks", 20, "--resamples", 10)
FILES = ("--tls-ca", "a", "--tls-cert", "b", "--tls-key", "c")


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "cluster.yaml"
    path.write_text("kind: local\nworkers: 2\nthreads: 3\nmemory: 1GiB\n")
    return path


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, client: Client) -> list[ClusterSpec]:
    """What `connect` is asked for; a cluster that runs already answers for it."""
    specs: list[ClusterSpec] = []

    class Answer:
        def __init__(self, spec: ClusterSpec) -> None:
            specs.append(spec)

        def __enter__(self) -> Client:
            return client

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr("dhsic.cli.resources.connect", Answer)
    return specs


SCHEDULER = SchedulerAt("tls://h:1")
ABSOLUTE = TLS("/t/a", "/t/b", "/t/c")
ASKED: dict[str, tuple[tuple[Any, ...], dict[str, str], ClusterSpec]] = {
    "workers": (("--workers", 2), {}, ClusterSpec("local", 2)),
    "memory": (
        ("--workers", 2, "--memory", "1GiB"),
        {},
        ClusterSpec("local", 2, memory=2**30),
    ),
    "scheduler": (("--scheduler", "tls://h:1"), {}, ClusterSpec("scheduler", scheduler=SCHEDULER)),
    "scheduler file": (
        ("--scheduler-file", "/t/s"),
        {},
        ClusterSpec("scheduler", scheduler=SchedulerAt(scheduler_file="/t/s")),
    ),
    "insecure": (
        ("--scheduler", "tls://h:1", "--insecure"),
        {},
        ClusterSpec("scheduler", scheduler=SCHEDULER, insecure=True),
    ),
    "tls": (
        ("--scheduler", "tls://h:1", *(w if w[0] == "-" else f"/t/{w}" for w in FILES)),
        {},
        ClusterSpec("scheduler", scheduler=SCHEDULER, tls=ABSOLUTE),
    ),
    "tls of the environment": (
        ("--scheduler", "tls://h:1", "--tls-cert", "/t/b"),
        {"DHSIC_TLS_CA": "/t/a", "DHSIC_TLS_CERT": "/elsewhere", "DHSIC_TLS_KEY": "/t/c"},
        ClusterSpec("scheduler", scheduler=SCHEDULER, tls=ABSOLUTE),
    ),
}


@pytest.mark.parametrize("case", ASKED)
def test_options__ask_for_a_cluster(
    invoke: Invoke,
    data: str,
    asked: list[ClusterSpec],
    monkeypatch: pytest.MonkeyPatch,
    case: str,
) -> None:
    options, environment, expected = ASKED[case]
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    done = invoke("test", data, *PAIR, *FAST, *options)
    assert done.exit_code == 0, done.stderr
    assert asked == [expected]


def test_cluster__is_read_from_its_file(
    invoke: Invoke, data: str, asked: list[ClusterSpec], spec: Path
) -> None:
    done = invoke("test", data, *PAIR, *FAST, "--cluster", spec)
    assert done.exit_code == 0, done.stderr
    assert asked == [ClusterSpec("local", 2, threads=3, memory=2**30)]


def test_threads__need_no_cluster(
    invoke: Invoke, data: str, asked: list[ClusterSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DHSIC_TLS_CA", "of another run")
    done = invoke("test", data, *PAIR, *FAST, "--threads", 1)
    assert done.exit_code == 0, done.stderr
    assert asked == []


def test_plan__of_a_file_starts_nothing(
    invoke: Invoke, data: str, asked: list[ClusterSpec], spec: Path
) -> None:
    done = invoke("plan", data, *PAIR, "--cluster", spec)
    assert "2 workers with 6 threads in all" in done.stdout
    assert "allowed 1.0 GiB" in done.stdout
    spec.write_text("kind: slurm\nworkers: {maximum: 5}\n")
    done = invoke("plan", data, *PAIR, "--cluster", spec)
    assert "5 workers with 5 threads in all" in done.stdout
    assert asked == []


def test_cluster__starts_it(invoke: Invoke, data: str, spec: Path) -> None:
    spec.write_text("kind: local\nworkers: {minimum: 1, maximum: 2}\nmemory: 1GiB\n")
    found = ClusterSpec.read(spec)
    assert found.workers == Adaptive(2, 1)
    done = invoke("test", data, *PAIR, *FAST, "--cluster", spec)
    here = invoke("test", data, *PAIR, *FAST, "--threads", 1)
    assert (done.exit_code, done.stderr) == (0, "")
    statistics = [
        next(line for line in one.stdout.splitlines() if line.startswith("statistic"))
        for one in (done, here)
    ]
    assert statistics[0] == statistics[1]


BAD: dict[str, tuple[tuple[Any, ...], str]] = {
    "two places": (("--threads", 1, "--scheduler-file", "f"), "give one of them"),
    "three places": (("--workers", 1, "--cluster", "f", "--threads", 2), "give one of them"),
    "memory of a file": (
        ("--cluster", "f", "--memory", "1GiB"),
        "--memory cannot be combined with --cluster",
    ),
    "tls of a file": (("--cluster", "f", *FILES), "--tls-ca goes with --scheduler", "in the file"),
    "insecure of a file": (("--cluster", "f", "--insecure"), "--insecure goes with", "in the file"),
    "tls of threads": (FILES, "--tls-ca goes with --scheduler or --scheduler-file: drop it"),
    "insecure threads": (("--insecure",), "--insecure goes with"),
    "insecure workers": (("--workers", 1, "--insecure"), "--insecure goes with"),
    "half of tls": (
        ("--scheduler", "tls://h:1", "--tls-ca", "a"),
        "--tls-ca needs --tls-cert and --tls-key, too",
    ),
    "no certificates": (("--scheduler", "tls://127.0.0.1:9"), "needs certificates"),
    "certificates nowhere": (
        ("--scheduler", "tls://127.0.0.1:9", *FILES),
        "tls: ca must be a file that can be read",
    ),
    "no tls": (("--scheduler", "tcp://192.0.2.1:8786"), "has no TLS"),
    "no address": (("--scheduler", "192.0.2.1"), "write protocol, host and port"),
    "empty address": (("--scheduler", ""), "address must be text"),
    "no scheduler file": (("--scheduler-file", "/no/file"), "No such file"),
    "no file": (("--cluster", "/no/file.yaml"), "No such file"),
    "a folder": (("--cluster", "/"), "Is a directory"),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("command", ["test", "plan"])
def test_bad_options__are_refused_in_a_line(
    invoke: Invoke, data: str, command: str, case: str
) -> None:
    options, *words = BAD[case]
    check_refusal(invoke(command, data, *PAIR, *options), *words)


BAD_SPECS = {
    "kind: slrum": "did you mean 'slurm'",
    "kind: local\nworkers: 0": "an integer >= 1, got 0",
    "kind: local\nmemory: 1MiB": "1.0 MiB are allowed",
    "kind: slurm\nworkers: 2\nslurm: {queue: 'a b'}": "queue must be one plain word",
    "kind: scheduler\nscheduler: {address: 'tcp://192.0.2.1:1'}": "has no TLS",
    "kind: gateway\nworkers: 1\ngateway: {address: ftp://h}": "gateway: address must be a URL",
}


@pytest.mark.parametrize("text", BAD_SPECS)
def test_bad_specs__are_refused_in_a_line(invoke: Invoke, data: str, spec: Path, text: str) -> None:
    spec.write_text(text)
    check_refusal(invoke("test", data, *PAIR, "--cluster", spec), BAD_SPECS[text])


TIMED = {
    "sensitivity": ("sensitivity", *PAIR, "--out", "{out}.zarr"),
    "rank": ("rank", "--features", "x", "--target", "y", "--estimator", "nystrom-m", "--plan"),
    "two-sample": (
        *("two-sample", "--sample", "x", "--sample", "z"),
        *("--estimator", "nystrom-mmd", "--plan"),
    ),
    "interaction": ("interaction", *PAIR, "--variable", "z", "--plan"),
    "dags": ("cause", "dags", *PAIR),
    "order": ("cause", "order", *PAIR),
    "residuals": ("cause", "residuals", *PAIR, "--given", "z"),
}


@pytest.mark.parametrize("arguments", TIMED.values(), ids=TIMED)
def test_time__is_less_than_a_run_would_take(
    arguments: tuple[str, ...], invoke: Invoke, data: str, tmp_path: Path
) -> None:
    at = 2 if arguments[0] == "cause" else 1
    told = []
    for k, time in enumerate(((), ("--time", "0.001s"))):
        more = [one.format(out=tmp_path / str(k)) for one in arguments[at:]]
        done = invoke(*arguments[:at], data, *more, *time, "--threads", 1)
        assert done.exit_code == 0, done.stderr
        told.append(done.stdout)
    assert re.search(r"\b(8|16|32|64|128) landmarks", told[1])
    assert not re.search(r"\b(8|16|32|64|128) landmarks", told[0])
