"""A run on a real Dask Gateway, whose clusters are processes of this machine."""

import json
import os
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cluster.slurm import wait_until
from tests.deploy.play import ROOT, free_ports

CONFIG = """\
import sys
c.DaskGateway.address = "127.0.0.1:{private}"
c.DaskGateway.backend_class = "dask_gateway_server.backends.local.UnsafeLocalBackend"
c.DaskGateway.authenticator_class = "dask_gateway_server.auth.SimpleAuthenticator"
c.Proxy.address = "127.0.0.1:{public}"
c.UnsafeLocalBackend.clusters_directory = "{folder}/clusters"
c.UnsafeLocalBackend.inherited_environment = ["PATH", "PYTHONPATH", "OPENBLAS_NUM_THREADS"]
# The programs that it would start by default are gone from distributed.
c.LocalClusterConfig.scheduler_cmd = [sys.executable, "-m", "distributed.cli.dask_scheduler"]
c.LocalClusterConfig.worker_cmd = [sys.executable, "-m", "distributed.cli.dask_worker"]
c.LocalClusterConfig.worker_memory = "1 G"
"""
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}


@pytest.fixture
def python() -> Path:
    """An environment of its own, as its server and the rest need not go together."""
    given = os.environ.get("DHSIC_GATEWAY_PYTHON")
    python = Path(given) if given else ROOT / ".venv-gateway" / "bin" / "python"
    if not python.exists():
        pytest.skip(
            "no environment of Dask Gateway: python3 -m venv .venv-gateway && "
            ".venv-gateway/bin/pip install -e '.[gateway]' 'dask-gateway-server[local]'"
        )
    return python.absolute()


@pytest.fixture
def gateway(python: Path, tmp_path: Path) -> Iterator[str]:
    private, public = free_ports(2)
    (tmp_path / "clusters").mkdir()
    config, log = tmp_path / "config.py", tmp_path / "log.txt"
    config.write_text(CONFIG.format(private=private, public=public, folder=tmp_path))
    command = [python, "-m", "dask_gateway_server", "--config", config]
    with log.open("wb") as file:
        server = subprocess.Popen(
            command, cwd=tmp_path, env=ENVIRONMENT, stdout=file, stderr=file, start_new_session=True
        )
    try:
        address = f"http://127.0.0.1:{public}"
        wait_until(lambda: healthy(address), 60, log.read_text)
        yield address
    finally:
        server.terminate()
        with suppress(subprocess.TimeoutExpired):
            server.wait(30)
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)


def healthy(address: str) -> bool:
    with suppress(OSError), urllib.request.urlopen(f"{address}/api/health", timeout=5) as answer:
        return bool(answer.status == 200)
    return False


def test_connect__a_run_on_a_gateway_has_the_bits_of_a_quiet_run(
    python: Path, gateway: str, tmp_path: Path
) -> None:
    script = Path(__file__).with_name("gateway_run.py")
    done = subprocess.run(
        [python, script, gateway],
        cwd=tmp_path,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr + (tmp_path / "log.txt").read_text()[-3000:]
    found = json.loads(done.stdout)
    assert found["same"]
    assert len(found["workers"]) == 2
    assert all(address.startswith("tls://127.0.0.1:") for address in found["workers"])
    clusters = tmp_path / "clusters"
    wait_until(lambda: not list(clusters.iterdir()), 60, "the cluster outlives its client")
