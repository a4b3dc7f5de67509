"""The description of a cluster: what a file may hold, and what is refused in a line."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from dhsic.cluster import (
    TLS,
    Adaptive,
    ClusterSpec,
    Gateway,
    JobQueue,
    Kubernetes,
    SchedulerAt,
    processors,
)
from dhsic.errors import InvalidArgumentError

FULL: dict[str, ClusterSpec] = {
    "local": ClusterSpec("local", 3, threads=2, memory=10**9),
    "scheduler": ClusterSpec(
        "scheduler",
        memory=10**9,
        timeout=7.0,
        tls=TLS("/t/ca", "/t/cert", "/t/key"),
        insecure=True,
        scheduler=SchedulerAt(scheduler_file="/t/s.json"),
    ),
    "slurm": ClusterSpec(
        "slurm",
        Adaptive(9, 2),
        threads=4,
        memory=10**9,
        timeout=7.0,
        tls=TLS("/t/ca", "/t/cert", "/t/key"),
        insecure=True,
        jobs=JobQueue(
            queue="q",
            account="a",
            name="n",
            walltime="1-00:00:00",
            interface="ib0",
            host="login1",
            log_directory="/t/logs",
            local_directory="/scratch",
            shared_directory="/t/shared",
            prologue=("module load python", "ulimit -c 0"),
            directives=("--constraint=avx2",),
            python="/opt/python",
        ),
    ),
    "kubernetes": ClusterSpec(
        "kubernetes",
        2,
        insecure=True,
        kubernetes=Kubernetes(
            image="registry/dhsic:1.0",
            namespace="science",
            service_account="reader",
            secrets=("s3",),
            tls_secret="tls",
            resources={"limits": {"cpu": "2"}, "requests": {"memory": "4Gi"}},
            context="production",
            operator_namespace="tools",
            storage_ports=(443, 9000),
        ),
    ),
    "gateway": ClusterSpec(
        "gateway",
        Adaptive(4),
        insecure=True,
        gateway=Gateway(
            "https://gateway.example.org", auth="basic", image="i", options={"cores": 2}
        ),
    ),
}


@pytest.mark.parametrize("kind", FULL)
def test_spec__survives_plain_values(kind: str) -> None:
    plain = FULL[kind].to_dict()
    assert ClusterSpec.from_dict(plain) == FULL[kind]
    own = {"jobs": "slurm"}.get(kind, kind)
    for name in plain.get(own, {}):
        if name not in ("image", "address"):
            less = {**plain, own: {k: v for k, v in plain[own].items() if k != name}}
            if less[own]:
                assert ClusterSpec.from_dict(less) != FULL[kind]


def test_spec__takes_defaults() -> None:
    spec = ClusterSpec.from_dict({"kind": "pbs", "workers": 2})
    assert spec.jobs == JobQueue()
    assert (spec.threads, spec.memory, spec.patience, spec.insecure) == (1, 2**31, 600.0, False)
    found = ClusterSpec("scheduler", scheduler=SchedulerAt("tcp://127.0.0.1:1"))
    assert (found.answer_seconds, found.patience) == (10.0, 60.0)
    asked = ClusterSpec("scheduler", scheduler=SchedulerAt("tcp://127.0.0.1:1"), timeout=90)
    assert (asked.answer_seconds, asked.patience) == (90.0, 90.0)


def write(folder: Path, text: str) -> Path:
    path = folder / "cluster.yaml"
    path.write_text(text)
    return path


def test_read__takes_words_as_they_look(tmp_path: Path) -> None:
    text = """
        kind: slurm
        workers: {minimum: 1, maximum: 4}
        memory: 4GiB   # of a process
        timeout: 1.5
        slurm:
          queue: no
          account: 0123
          walltime: 1:30:00
          prologue: [module load python]
    """
    spec = ClusterSpec.read(write(tmp_path, text))
    assert spec.jobs is not None
    assert (spec.jobs.queue, spec.jobs.account, spec.jobs.seconds) == ("no", "0123", 5400)
    assert (spec.workers, spec.memory, spec.timeout) == (Adaptive(4, 1), 4 * 2**30, 1.5)
    assert spec.jobs.prologue == ("module load python",)


def test_read__paths_are_relative_to_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = """
        kind: slurm
        workers: 1
        tls: {ca: ca.pem, cert: ../cert.pem, key: ~/key.pem}
        slurm: {log_directory: logs, shared_directory: /shared}
    """
    monkeypatch.setenv("HOME", "/home/someone")
    spec = ClusterSpec.read(write(tmp_path, text))
    assert spec.tls == TLS(
        str(tmp_path / "ca.pem"), str(tmp_path.parent / "cert.pem"), "/home/someone/key.pem"
    )
    assert spec.jobs is not None
    assert spec.jobs.log_directory == str(tmp_path / "logs")
    assert spec.jobs.shared_directory == "/shared"


@pytest.mark.parametrize(
    ("spec", "workers", "threads"),
    [
        (FULL["slurm"], 9, 4),
        (FULL["local"], 3, 2),
        (ClusterSpec("local", threads=1), processors(), 1),
        (ClusterSpec("local", threads=4096), 1, 4096),
    ],
)
def test_planned__is_as_large_as_it_may_become(
    spec: ClusterSpec, workers: int, threads: int
) -> None:
    planned = spec.planned
    assert planned is not None
    assert list(planned.nthreads().values()) == [threads] * workers


def test_planned__of_a_running_scheduler_is_not_known() -> None:
    assert FULL["scheduler"].planned is None


SLURM = {"kind": "slurm", "workers": 1}
KUBERNETES = {"kind": "kubernetes", "workers": 1}
BAD: dict[str, tuple[Any, str]] = {
    "nothing": (None, "a cluster must be a mapping, got None: begin with 'kind: local'"),
    "a list": ([1], "must be a mapping"),
    "no kind": ({"workers": 1}, "must have a kind: add 'kind: ' and one of local, scheduler"),
    "a kind": ({"kind": "slrum"}, "got 'slrum'; did you mean 'slurm'"),
    "a kind that is none": ({"kind": ["slurm"]}, "kind must be one of"),
    "a key": ({**SLURM, "wokers": 1}, "has no key 'wokers'; did you mean 'workers'"),
    "a key of a number": ({**SLURM, 3: 1}, "has no key 3"),
    "section of another kind": ({**SLURM, "pbs": {}}, "has no key 'pbs'"),
    "a key of the section": (
        {**SLURM, "slurm": {"que": "q"}},
        "no key 'que'; did you mean 'queue'",
    ),
    "a section that is none": ({**SLURM, "slurm": 3}, "slurm must be a mapping, got 3"),
    "a key of tls": ({**SLURM, "tls": {"cer": "x"}}, "has no key 'cer'; did you mean 'cert'"),
    "half of tls": ({**SLURM, "tls": {"ca": "x"}}, "tls must have the key 'cert'"),
    "tls of numbers": ({**SLURM, "tls": {"ca": "", "cert": "a", "key": "b"}}, "tls: ca"),
    "tls for this machine": (
        {"kind": "local", "tls": {"ca": "a", "cert": "b", "key": "c"}},
        "tls must be left out for the kind local",
    ),
    "timeout for this machine": ({"kind": "local", "timeout": 5}, "timeout must be left out for"),
    "no workers": ({"kind": "slurm"}, "workers must be given for the kind slurm"),
    "0 workers": ({**SLURM, "workers": 0}, "workers must be an integer >= 1, got 0"),
    "workers in words": ({**SLURM, "workers": "many"}, "got 'many'"),
    "workers of a scheduler": (
        {"kind": "scheduler", "workers": 2, "scheduler": {"address": "tcp://h:1"}},
        "workers must be left out for the kind scheduler, got 2",
    ),
    "minimum above maximum": ({**SLURM, "workers": {"minimum": 3, "maximum": 2}}, "at least the"),
    "minimum of 0": ({**SLURM, "workers": {"minimum": 0, "maximum": 2}}, "minimum must be"),
    "no maximum": ({**SLURM, "workers": {"minimum": 1}}, "must have the key 'maximum'"),
    "threads": ({**SLURM, "threads": 1.5}, "threads must be an integer >= 1, got 1.5"),
    "memory": ({**SLURM, "memory": "lots"}, "such as '2GiB' or 2000000000, got 'lots'"),
    "timeout": ({**SLURM, "timeout": 0}, "timeout must be seconds greater than 0, got 0"),
    "timeout in words": ({**SLURM, "timeout": "long"}, "got 'long'"),
    "timeout without end": ({**SLURM, "timeout": float("inf")}, "got inf"),
    "insecure in words": ({**SLURM, "insecure": "yes"}, "insecure must be true or false"),
    "insecure here": ({"kind": "local", "insecure": True}, "insecure must be left out"),
    "scheduler nowhere": ({"kind": "scheduler"}, "give the section scheduler"),
    "scheduler of nothing": ({"kind": "scheduler", "scheduler": {}}, "got none of them"),
    "scheduler twice": (
        {"kind": "scheduler", "scheduler": {"address": "tcp://h:1", "scheduler_file": "f"}},
        "got both of them: give one",
    ),
    "queue with a line": ({**SLURM, "slurm": {"queue": "q\n#SBATCH -o x"}}, "text in one line"),
    "queue with a space": ({**SLURM, "slurm": {"queue": "q --wrap=x"}}, "one plain word"),
    "queue as an option": ({**SLURM, "slurm": {"queue": "--wrap=x"}}, "begin with a letter"),
    "account of the shell": ({**SLURM, "slurm": {"account": "$(id)"}}, "one plain word"),
    "walltime": ({**SLURM, "slurm": {"walltime": "90"}}, "write HH:MM:SS or D-HH:MM:SS"),
    "short walltime": ({**SLURM, "slurm": {"walltime": "00:00:59"}}, "at least 60 seconds"),
    "minutes of a walltime": ({**SLURM, "slurm": {"walltime": "01:60:00"}}, "must be a time"),
    "logs with a space": ({**SLURM, "slurm": {"log_directory": "/my logs"}}, "plain characters"),
    "prologue of a line": ({**SLURM, "slurm": {"prologue": "module x"}}, "must be a list"),
    "prologue of lines": ({**SLURM, "slurm": {"prologue": ["a\nb"]}}, "text in one line"),
    "prologue of nothing": ({**SLURM, "slurm": {"prologue": [None]}}, "remove what is empty"),
    "directive of the queue": (
        {**SLURM, "slurm": {"directives": ["#SBATCH -c 2"]}},
        "write what follows #SBATCH",
    ),
    "directive of lines": ({**SLURM, "slurm": {"directives": ["-c 2\nrm x"]}}, "text in one line"),
    "no image": ({**KUBERNETES, "kubernetes": {}}, "kubernetes must have the key 'image'"),
    "no section": (KUBERNETES, "give the section kubernetes"),
    "image of words": ({**KUBERNETES, "kubernetes": {"image": "a b"}}, "image must be one plain"),
    "namespace": (
        {**KUBERNETES, "kubernetes": {"image": "i", "namespace": "A_b"}},
        "namespace must be a Kubernetes name, got 'A_b'",
    ),
    "a secret in the open": (
        {**KUBERNETES, "kubernetes": {"image": "i", "secrets": [{"KEY": "x"}]}},
        "secrets must be text",
    ),
    "resources": (
        {**KUBERNETES, "kubernetes": {"image": "i", "resources": {"cpu": 1}}},
        "requests and limits",
    ),
    "an amount": (
        {**KUBERNETES, "kubernetes": {"image": "i", "resources": {"limits": {"cpu": "two"}}}},
        "write as 2, 500m or 4Gi",
    ),
    "a namespace of no operator": (
        {**KUBERNETES, "kubernetes": {"image": "i", "operator_namespace": "*"}},
        "operator_namespace must be a Kubernetes name",
    ),
    "no namespace of an operator": (
        {**KUBERNETES, "kubernetes": {"image": "i", "operator_namespace": None}},
        "operator_namespace must be",
    ),
    "ports in words": (
        {**KUBERNETES, "kubernetes": {"image": "i", "storage_ports": "443"}},
        "storage_ports must be a list of ports, got '443': write as [443, 9000]",
    ),
    "a port that is none": (
        {**KUBERNETES, "kubernetes": {"image": "i", "storage_ports": [443, 65536]}},
        "storage_ports must be a list of ports",
    ),
    "gateway nowhere": ({"kind": "gateway", "workers": 1, "gateway": {"address": "g"}}, "a URL"),
    "gateway with a password": (
        {"kind": "gateway", "workers": 1, "gateway": {"address": "https://me:pw@h"}},
        "no name or password",
    ),
    "gateway login": (
        {"kind": "gateway", "workers": 1, "gateway": {"address": "https://h", "auth": "me:pw"}},
        "use basic, kerberos or jupyterhub",
    ),
    "gateway threads": (
        {"kind": "gateway", "workers": 1, "threads": 2, "gateway": {"address": "https://h"}},
        "threads must be left out",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_from_dict__refuses(case: str) -> None:
    description, words = BAD[case]
    with pytest.raises(InvalidArgumentError) as caught:
        ClusterSpec.from_dict(description)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_from_dict__does_not_repeat_a_password() -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        ClusterSpec.from_dict(BAD["gateway with a password"][0])
    assert "pw" not in str(caught.value).replace("password", "")


BAD_FILES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "must be a mapping, got None"),
    "no yaml": (b"kind: [slurm", "must be YAML, and is not in line"),
    "a tab": (b"kind:\n\t- x", "must be YAML"),
    "twice": (b"kind: local\nworkers: 2\nworkers: 3", "the key 'workers' is there twice"),
    "an object": (b"kind: !!python/object/apply:os.system ['true']", "must be YAML"),
    "a list as a key": (b"? [a]\n: b", "must be YAML"),
    "a number in words": (b"workers: !!int x", "must be YAML"),
    "a time that is none": (b"workers: !!timestamp x", "must be YAML"),
    "no text": (b"\xff\xfe\x00", "cannot be read (it is not text)"),
    "two documents": (b"kind: local\n---\nkind: local", "must be YAML"),
    "large": (b"#" * (2**20 + 1), "larger than 1 MiB"),
    "nested": (b"[" * 10_000, "must be YAML"),
    "a bad value": (b"kind: local\nworkers: 0", "workers must be an integer >= 1, got 0"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_read__names_the_file(tmp_path: Path, case: str) -> None:
    content, words = BAD_FILES[case]
    path = tmp_path / "cluster.yaml"
    path.write_bytes(content)
    with pytest.raises(InvalidArgumentError) as caught:
        ClusterSpec.read(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("name", "words"), [("no.yaml", "No such file"), (".", "Is a directory")])
def test_read__no_file(tmp_path: Path, name: str, words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        ClusterSpec.read(tmp_path / name)


def test_spec__checks_what_python_gives_it() -> None:
    with pytest.raises(InvalidArgumentError, match="give TLS"):
        dataclasses.replace(FULL["slurm"], tls="ca.pem")
    with pytest.raises(InvalidArgumentError, match="jobs must be left out for the kind local"):
        ClusterSpec("local", jobs=JobQueue())
