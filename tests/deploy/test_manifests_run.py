"""By night: the commands that manifests hold run a test, here without what would start them."""

import os
import re
import signal
import subprocess
import sys
from contextlib import ExitStack
from urllib.request import urlopen

import pytest
import yaml
from click.testing import CliRunner

from dhsic.cli import main
from dhsic.io.synthetic import generate
from dhsic.results import IndependenceTestResult
from tests.cluster.certificates import DEPLOY, make_certificates
from tests.cluster.quiet import same_bits
from tests.cluster.rendering import expanded
from tests.processes import free_ports

pytestmark = pytest.mark.nightly
PAIR = ("--variable", "features", "--variable", "year")
QUICK = ("--resamples", "20", "--kernel", "gaussian")


def documents_of(name):
    return list(yaml.safe_load_all((DEPLOY / f"{name}.yaml").read_text()))


def command_of(pod):
    """Words and environment of a pod of one container, as Kubernetes starts it."""
    (only,) = pod["containers"]
    environment = {item["name"]: item["value"] for item in only.get("env", [])}
    environment |= {"DASK_WORKER_NAME": "worker-0"} if only["name"] == "worker" else {}
    return [expanded(word, environment) for word in only["args"]], environment


# Commands of the scheduler, a worker and the client, and the file of the cluster, if there is one.


def dask_job():
    body = documents_of("kubernetes/daskjob")[0]["spec"]
    cluster = body["cluster"]["spec"]
    pods = (cluster["scheduler"]["spec"], cluster["worker"]["spec"], body["job"]["spec"])
    return [command_of(pod) for pod in pods], ""


def deployment():
    documents = documents_of("kubernetes/deployment")
    pods = {
        one["metadata"]["labels"]["app.kubernetes.io/component"]: one["spec"]["template"]["spec"]
        for one in documents
        if one["kind"] in ("Deployment", "Job")
    }
    (config,) = (one["data"] for one in documents if one["kind"] == "ConfigMap")
    commands = [command_of(pods[role]) for role in ("scheduler", "worker", "client")]
    commands[-1][0].append("--json=/tmp/result.json")
    return commands, config["cluster.yaml"]


def compose():
    (document,) = documents_of("compose")
    *servers, client = (document["services"][role] for role in ("scheduler", "worker", "client"))
    commands = [(one["command"], one["environment"]) for one in servers]
    words = [*client["entrypoint"], "test", "/data/songs.zarr", *PAIR, "--json=/tmp/result.json"]
    words += ["--cluster", client["configs"][0]["target"]]
    content = document["configs"][client["configs"][0]["source"]]["content"]
    return [*commands, (words, client["environment"])], content


@pytest.mark.parametrize("kind", [dask_job, deployment, compose])
def test_manifest__runs(kind, tmp_path):
    songs = tmp_path / "songs.zarr"
    generate(songs, rows=3000, features=4)
    certificates = str(make_certificates(tmp_path / "my certificates"))
    port, dashboard = free_ports(2)
    here = f"127.0.0.1:{port}"
    places = {
        **dict.fromkeys(("/etc/dhsic/tls", "/run/secrets"), certificates),
        **dict.fromkeys(("/etc/dhsic/cluster", "/tmp"), str(tmp_path)),
        "/etc/dhsic/cluster.yaml": str(tmp_path / "cluster.yaml"),
        **dict.fromkeys(("s3://bucket/songs.zarr", "/data/songs.zarr"), str(songs)),
        "s3://bucket/checkpoints/songs": str(tmp_path / "checkpoint"),
        **dict.fromkeys(("dhsic-songs-scheduler:8786", "dhsic-scheduler:8786"), here),
        "//scheduler:8786": f"//{here}",
        "--port=8786": f"--port={port}",
        **dict.fromkeys(("0.0.0.0:8787", "127.0.0.1:8787"), f"127.0.0.1:{dashboard}"),
        # The words of a rendered run are those of its script.
        'dhsic "$@"': f'dhsic "$@" {" ".join(QUICK)}',
    }
    longest = "|".join(map(re.escape, sorted(places, key=len, reverse=True)))

    def placed(text):
        return re.sub(longest, lambda found: places[found[0]], text)

    def process(command, *more, **options):
        words, environment = command
        programs = f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}"
        given = {name: placed(value) for name, value in environment.items()}
        options |= {"env": {**os.environ, "PATH": programs, **given}, "cwd": tmp_path}
        return subprocess.Popen(
            [*map(placed, words), *more], text=True, start_new_session=True, **options
        )

    commands, config = kind()
    (tmp_path / "cluster.yaml").write_text(placed(config))
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with ExitStack() as stack:
        for command in commands[:2]:
            log = stack.enter_context((tmp_path / "servers.log").open("ab"))
            server = process(command, "--host=127.0.0.1", stdout=log, stderr=log)
            stack.callback(server.wait, 30)
            stack.callback(os.killpg, server.pid, signal.SIGKILL)
        client = stack.enter_context(process(commands[-1], *QUICK, **piped))
        out, err = client.communicate(timeout=120)
        assert client.returncode == 0, err
        if kind is dask_job:
            job = documents_of("kubernetes/daskjob")[0]["spec"]
            (scheduler,) = job["cluster"]["spec"]["scheduler"]["spec"]["containers"]
            for probe in ("readinessProbe", "livenessProbe"):
                with process((scheduler[probe]["exec"]["command"], {})) as asking:
                    assert asking.wait(60) == 0
            with urlopen(f"http://127.0.0.1:{dashboard}/api/v1/adaptive_target") as answer:
                assert b"workers" in answer.read()
            assert (tmp_path / "checkpoint").is_dir()
            assert "\n=== result ===\n" in out
    words = ["test", str(songs), *PAIR, *QUICK, "--threads", "1", "--memory", "4GiB"]
    done = CliRunner().invoke(main, [*words, "--json", str(tmp_path / "local.json")])
    assert done.exit_code == 0, done.stderr
    found, expected = ((tmp_path / f"{name}.json").read_text() for name in ("result", "local"))
    read = IndependenceTestResult.from_json
    assert same_bits(read(found), read(expected))
