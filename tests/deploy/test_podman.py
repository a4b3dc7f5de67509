"""The pods of a rendered run, started as containers by `podman kube play`.

Their image holds nothing: the programs of this machine and this environment are mounted into it,
so that no registry is asked. Set DHSIC_PODMAN=1 to run it.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from dhsic.cli import main
from dhsic.cluster import ClusterSpec
from dhsic.cluster.submit.manifests import RESULT, job_manifests
from dhsic.io.synthetic import generate
from dhsic.results import IndependenceTestResult
from tests.cluster.slurm import wait_until
from tests.cluster.test_render import expanded
from tests.deploy.play import ROOT, free_ports, make_certificates, replaced
from tests.deploy.test_manifests_run import PAIR, QUICK, check_same

NAME, IMAGE = "dhsic-podman-test", "localhost/dhsic-podman-test"
LINKS = ("bin", "lib", "lib64", "sbin")


def podman(*words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["podman", *words], capture_output=True, text=True, timeout=120, check=check
    )


def mounted() -> list[str]:
    """Folders of this machine that the programs need."""
    folders = {"/usr", sys.base_prefix, sys.prefix, str(ROOT)}
    return sorted(f for f in folders if not any(f.startswith(f"{other}/") for other in folders))


@pytest.fixture
def image(tmp_path: Path) -> Iterator[str]:
    if os.environ.get("DHSIC_PODMAN") != "1":
        pytest.skip("starts containers: set DHSIC_PODMAN=1")
    if shutil.which("podman") is None:
        pytest.skip("no podman: install podman and catatonit")
    root = tmp_path / "image"
    for folder in ("tmp", "etc"):
        (root / "root" / folder).mkdir(parents=True)
    for link in LINKS:
        if Path("/", link).is_symlink():
            (root / "root" / link).symlink_to(f"usr/{link}")
    path = f"{os.path.dirname(sys.executable)}:/usr/local/bin:/usr/bin:/bin"
    lines = ["FROM scratch", "COPY root /", f"ENV PATH={path} PYTHONPATH={ROOT}"]
    (root / "Dockerfile").write_text("\n".join(lines) + "\n")
    podman("build", "--quiet", f"--tag={IMAGE}", str(root))
    yield IMAGE
    podman("image", "rm", "--force", IMAGE, check=False)


def played(spec: dict[str, Any], name: str, shared: Path) -> dict[str, Any]:
    """A pod in which folders of this machine are its secrets and its scratch.

    Podman gives volumes to no group, and does not write `$$` as `$`.
    """
    (container,) = spec["containers"]
    container.pop("ports", None)  # they are those of this machine
    environment = {one["name"]: one["value"] for one in container["env"]}
    environment["DASK_WORKER_NAME"] = "worker-0"  # by the operator
    container["args"] = [expanded(word, environment) for word in container["args"]]
    scratch = shared.with_name(f"scratch of {name}")
    scratch.mkdir()
    scratch.chmod(0o777)
    places = {folder: folder for folder in mounted()}
    places |= {str(shared): "/shared", str(scratch): "/tmp"}
    volumes, container["volumeMounts"] = [], []
    for number, (folder, place) in enumerate(places.items()):
        volumes.append({"name": f"here-{number}", "hostPath": {"path": folder}})
        container["volumeMounts"].append({"name": f"here-{number}", "mountPath": place})
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}}
    return {**pod, "spec": {"restartPolicy": "Never", **spec, "volumes": volumes}}


@pytest.fixture
def pods(image: str, tmp_path: Path) -> Iterator[dict[str, Path]]:
    """Files of the pods of a run, by what they do; whatever they start is gone in the end."""
    shared = tmp_path / "shared"
    shared.mkdir()
    generate(shared / "songs.zarr", rows=3000, features=4)
    certificates = make_certificates(shared / "certificates")
    shared.chmod(0o755)
    for path in (certificates, *certificates.iterdir()):
        path.chmod(0o755 if path.is_dir() else 0o644)  # a secret would belong to the pods' group
    section = {"image": image, "tls_secret": "tls"}
    spec = ClusterSpec.from_dict(
        {"kind": "kubernetes", "workers": 1, "memory": "500MiB", "kubernetes": section}
    )
    words = ("test", "/shared/songs.zarr", *PAIR, *QUICK)
    job = job_manifests(NAME, spec, words)[0]["spec"]
    parts = {
        "scheduler": job["cluster"]["spec"]["scheduler"]["spec"],
        "worker": job["cluster"]["spec"]["worker"]["spec"],
        "runner": job["job"]["spec"],
    }
    port, dashboard = free_ports(2)
    here = {
        f"{NAME}-scheduler:8786": f"127.0.0.1:{port}",
        "--port=8786": f"--port={port}",
        "127.0.0.1:8787": f"127.0.0.1:{dashboard}",
        "/etc/dhsic/tls": "/shared/certificates",
    }
    files = {}
    for role, part in parts.items():
        placed = yaml.safe_load(replaced(yaml.safe_dump(part), here))
        files[role] = tmp_path / f"{role}.yaml"
        files[role].write_text(yaml.safe_dump(played(placed, f"{NAME}-{role}", shared)))
    yield files
    for file in files.values():
        podman("kube", "down", str(file), check=False)


def start(file: Path) -> None:
    done = podman("kube", "play", "--network=host", str(file), check=False)
    if done.returncode:
        pytest.skip(f"podman starts no pods here: {done.stderr.strip()[-400:]}")


def test_podman__runs_the_pods_of_a_run(pods: dict[str, Path], tmp_path: Path) -> None:
    for file in pods.values():
        start(file)
    runner = f"{NAME}-runner-dhsic"

    def over() -> bool:
        state = json.loads(podman("inspect", "--format={{json .State}}", runner).stdout)
        return bool(state["Status"] == "exited")

    def printed() -> str:
        names = (runner, f"{NAME}-scheduler-scheduler", f"{NAME}-worker-worker")
        return "\n".join(str(podman("logs", name, check=False)) for name in names)

    wait_until(over, 150, printed)
    _, found, result = podman("logs", runner).stdout.rpartition(f"\n{RESULT}\n")
    assert found, printed()
    out = tmp_path / "expected.json"
    words = ["test", str(tmp_path / "shared" / "songs.zarr"), *PAIR, *QUICK, "--workers", "1"]
    done = CliRunner().invoke(main, [*words, "--memory", "500MiB", "--json", str(out)])
    assert done.exit_code == 0, done.stderr
    expected = IndependenceTestResult.from_json(out.read_text())
    check_same(IndependenceTestResult.from_json(result), expected)
