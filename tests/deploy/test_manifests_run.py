"""The commands that manifests hold do run a test, here without what would start them."""

import json
import shutil
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import yaml
from click.testing import CliRunner

from dhsic.cli import main
from dhsic.cluster.submit.manifests import RESULT
from dhsic.io.synthetic import generate
from dhsic.results import IndependenceTestResult
from tests.cluster.rendering import expanded
from tests.deploy.play import (
    DEPLOY,
    Command,
    free_ports,
    make_certificates,
    played,
    replaced,
    started,
)

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl")

PAIR = ("--variable", "features", "--variable", "year")
QUICK = ("--resamples", "20", "--kernel", "gaussian")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificates(tmp_path_factory.mktemp("tls") / "my certificates")


@pytest.fixture(scope="module")
def songs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("songs") / "songs.zarr"
    generate(path, rows=3000, features=4)
    return path


@pytest.fixture(scope="module")
def expected(songs: Path, tmp_path_factory: pytest.TempPathFactory) -> IndependenceTestResult:
    path = tmp_path_factory.mktemp("expected") / "result.json"
    words = ["test", str(songs), *PAIR, *QUICK, "--threads", "1", "--memory", "4GiB"]
    done = CliRunner().invoke(main, [*words, "--json", str(path)])
    assert done.exit_code == 0, done.stderr
    return IndependenceTestResult.from_json(path.read_text())


@pytest.fixture
def replacements(certificates: Path, songs: Path, tmp_path: Path) -> dict[str, str]:
    port, dashboard = free_ports(2)
    here = f"127.0.0.1:{port}"
    return {
        "/etc/dhsic/tls": str(certificates),
        "/run/secrets": str(certificates),
        "/tmp": str(tmp_path),
        "dhsic-songs-scheduler:8786": here,
        "dhsic-scheduler:8786": here,
        "//scheduler:8786": f"//{here}",
        "--port=8786": f"--port={port}",
        "0.0.0.0:8787": f"127.0.0.1:{dashboard}",
        "127.0.0.1:8787": f"127.0.0.1:{dashboard}",
        "s3://bucket/songs.zarr": str(songs),
        "s3://bucket/checkpoints/songs": str(tmp_path / "checkpoint"),
        "/data/songs.zarr": str(songs),
    }


def container(pod: Any) -> Command:
    """Words and environment of a pod of one container, as Kubernetes starts it."""
    (only,) = pod["containers"]
    environment = {item["name"]: item["value"] for item in only.get("env", [])}
    environment |= {"DASK_WORKER_NAME": "worker-0"} if only["name"] == "worker" else {}
    return [expanded(word, environment) for word in only["args"]], environment


def quick(command: Command) -> Command:
    return [*command[0], *QUICK], command[1]


def check_same(found: IndependenceTestResult, expected: IndependenceTestResult) -> None:
    assert found.statistic == expected.statistic
    assert found.pvalue == expected.pvalue
    assert found.null_distribution.tolist() == expected.null_distribution.tolist()


def test_dask_job__runs_and_prints_the_result(
    replacements: dict[str, str], expected: IndependenceTestResult, tmp_path: Path
) -> None:
    document = next(yaml.safe_load_all((DEPLOY / "kubernetes" / "daskjob.yaml").read_text()))
    cluster = document["spec"]["cluster"]["spec"]
    servers = [container(cluster[role]["spec"]) for role in ("scheduler", "worker")]
    runner = quick(container(document["spec"]["job"]["spec"]))
    with started(servers, replacements, tmp_path):
        done = played(runner, replacements, tmp_path)
        (scheduler,) = cluster["scheduler"]["spec"]["containers"]
        for probe in ("readinessProbe", "livenessProbe"):
            healthy = played((scheduler[probe]["exec"]["command"], {}), replacements, tmp_path)
            assert healthy.returncode == 0, healthy.stderr
        with urlopen(f"http://{replacements['127.0.0.1:8787']}/api/v1/adaptive_target") as answer:
            assert json.load(answer)["workers"] >= 0
    assert done.returncode == 0, done.stderr
    assert '"event": "result"' in done.stderr
    assert (tmp_path / "checkpoint").is_dir()
    printed, found, result = done.stdout.rpartition(f"\n{RESULT}\n")
    assert "independence" in printed
    assert found
    check_same(IndependenceTestResult.from_json(result), expected)


def test_deployment__runs(
    replacements: dict[str, str], expected: IndependenceTestResult, tmp_path: Path
) -> None:
    text = (DEPLOY / "kubernetes" / "deployment.yaml").read_text()
    documents = list(yaml.safe_load_all(text))
    pods = {
        document["metadata"]["labels"]["app.kubernetes.io/component"]: document["spec"]["template"]
        for document in documents
        if document["kind"] in ("Deployment", "Job")
    }
    servers = [container(pods[role]["spec"]) for role in ("scheduler", "worker")]
    words, environment = quick(container(pods["client"]["spec"]))
    (spec,) = [document["data"] for document in documents if document["kind"] == "ConfigMap"]
    (tmp_path / "cluster.yaml").write_text(replaced(spec["cluster.yaml"], replacements))
    replacements["/etc/dhsic/cluster"] = str(tmp_path)
    client = [*words, "--json=/tmp/out.json"], environment
    with started(servers, replacements, tmp_path):
        done = played(client, replacements, tmp_path)
    assert done.returncode == 0, done.stderr
    assert '"event": "result"' in done.stderr
    check_same(IndependenceTestResult.from_json((tmp_path / "out.json").read_text()), expected)


def test_compose__runs(
    replacements: dict[str, str], expected: IndependenceTestResult, tmp_path: Path
) -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    services = compose["services"]
    servers = [
        (services[role]["command"], services[role]["environment"])
        for role in ("scheduler", "worker")
    ]
    client = services["client"]
    (config,) = client["configs"]
    content = compose["configs"][config["source"]]["content"]
    (tmp_path / "cluster.yaml").write_text(replaced(content, replacements))
    replacements[config["target"]] = str(tmp_path / "cluster.yaml")
    words = [*client["entrypoint"], "test", "/data/songs.zarr", *PAIR, *QUICK]
    words += ["--json=/tmp/out.json", "--cluster", "/etc/dhsic/cluster.yaml"]
    with started(servers, replacements, tmp_path):
        done = played((words, client["environment"]), replacements, tmp_path)
    assert done.returncode == 0, done.stderr
    check_same(IndependenceTestResult.from_json((tmp_path / "out.json").read_text()), expected)
