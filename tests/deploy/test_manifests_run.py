"""By night: the commands that manifests hold run a test, here without what would start them."""

import shutil
from urllib.request import urlopen

import pytest
import yaml
from click.testing import CliRunner

from dhsic.cli import main
from dhsic.io.synthetic import generate
from dhsic.results import IndependenceTestResult
from tests.cluster.quiet import same_bits
from tests.cluster.rendering import expanded
from tests.cluster.slurm import free_ports
from tests.deploy.play import DEPLOY, make_certificates, played, replaced, started

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl"),
]
PAIR = ("--variable", "features", "--variable", "year")
QUICK = ("--resamples", "20", "--kernel", "gaussian")


@pytest.fixture(scope="module")
def songs(tmp_path_factory):
    path = tmp_path_factory.mktemp("songs") / "songs.zarr"
    generate(path, rows=3000, features=4)
    return path


@pytest.fixture(scope="module")
def expected(songs, tmp_path_factory):
    path = tmp_path_factory.mktemp("expected") / "result.json"
    words = ["test", str(songs), *PAIR, *QUICK, "--threads", "1", "--memory", "4GiB"]
    done = CliRunner().invoke(main, [*words, "--json", str(path)])
    assert done.exit_code == 0, done.stderr
    return IndependenceTestResult.from_json(path.read_text())


@pytest.fixture
def replacements(songs, tmp_path):
    certificates = str(make_certificates(tmp_path / "my certificates"))
    port, dashboard = free_ports(2)
    here = f"127.0.0.1:{port}"
    return {
        "/etc/dhsic/tls": certificates,
        "/run/secrets": certificates,
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


def command_of(pod):
    """Words and environment of a pod of one container, as Kubernetes starts it."""
    (only,) = pod["containers"]
    environment = {item["name"]: item["value"] for item in only.get("env", [])}
    environment |= {"DASK_WORKER_NAME": "worker-0"} if only["name"] == "worker" else {}
    return [expanded(word, environment) for word in only["args"]], environment


def documents_of(name):
    return list(yaml.safe_load_all((DEPLOY / "kubernetes" / f"{name}.yaml").read_text()))


def dask_job(tmp_path, replacements):
    body = documents_of("daskjob")[0]["spec"]
    cluster = body["cluster"]["spec"]
    return [cluster[role]["spec"] for role in ("scheduler", "worker")], body["job"]["spec"]


def deployment(tmp_path, replacements):
    documents = documents_of("deployment")
    pods = {
        one["metadata"]["labels"]["app.kubernetes.io/component"]: one["spec"]["template"]["spec"]
        for one in documents
        if one["kind"] in ("Deployment", "Job")
    }
    (spec,) = (one["data"] for one in documents if one["kind"] == "ConfigMap")
    (tmp_path / "cluster.yaml").write_text(replaced(spec["cluster.yaml"], replacements))
    replacements["/etc/dhsic/cluster"] = str(tmp_path)
    return [pods["scheduler"], pods["worker"]], pods["client"]


@pytest.mark.parametrize("manifest", [dask_job, deployment])
def test_manifest__runs(manifest, replacements, expected, tmp_path):
    servers, client = manifest(tmp_path, replacements)
    words, environment = command_of(client)
    words = [*words, *QUICK, *(["--json=/tmp/result.json"] if manifest is deployment else [])]
    with started([command_of(pod) for pod in servers], replacements, tmp_path):
        done = played((words, environment), replacements, tmp_path)
        if manifest is dask_job:
            (scheduler,) = servers[0]["containers"]
            for probe in ("readinessProbe", "livenessProbe"):
                command = scheduler[probe]["exec"]["command"]
                assert played((command, {}), replacements, tmp_path).returncode == 0
            page = f"http://{replacements['127.0.0.1:8787']}/api/v1/adaptive_target"
            with urlopen(page) as answer:
                assert b"workers" in answer.read()
            assert (tmp_path / "checkpoint").is_dir()
            assert "\n=== result ===\n" in done.stdout
    assert done.returncode == 0, done.stderr
    assert '"event": "result"' in done.stderr
    found = IndependenceTestResult.from_json((tmp_path / "result.json").read_text())
    assert same_bits(found, expected)


def test_compose__runs(replacements, expected, tmp_path):
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    services = [compose["services"][role] for role in ("scheduler", "worker", "client")]
    *servers, client = services
    (config,) = client["configs"]
    content = compose["configs"][config["source"]]["content"]
    (tmp_path / "cluster.yaml").write_text(replaced(content, replacements))
    replacements[config["target"]] = str(tmp_path / "cluster.yaml")
    words = [*client["entrypoint"], "test", "/data/songs.zarr", *PAIR, *QUICK]
    words += ["--json=/tmp/out.json", "--cluster", "/etc/dhsic/cluster.yaml"]
    commands = [(one["command"], one["environment"]) for one in servers]
    with started(commands, replacements, tmp_path):
        done = played((words, client["environment"]), replacements, tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "out.json").read_text()
    assert same_bits(IndependenceTestResult.from_json(text), expected)
