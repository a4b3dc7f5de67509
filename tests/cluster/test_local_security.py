"""Others on this machine reach nothing of a cluster that is started here."""

from __future__ import annotations

import json
import os
import socket
import ssl
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import psutil
import pytest
from click.testing import CliRunner
from distributed import Client, Security

from dhsic.cli import main
from dhsic.cluster import TLS, local_cluster
from dhsic.cluster.security import ssl_context
from dhsic.errors import MissingDependencyError
from dhsic.io.synthetic import generate
from tests.cluster.certificates import make_tls
from tests.cluster.slurm import wait_until

KEY = b"PRIVATE KEY"
PAGES = ("/info/main/workers.html", "/info/logs.html", "/json/counts.json", "/status", "/proxy")


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where this process and those that it starts keep temporary files."""
    folder = tmp_path_factory.mktemp("scratch")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(folder))
        patch.setenv("TMPDIR", str(folder))
        yield folder


@pytest.fixture(scope="module")
def own(scratch: Path) -> Iterator[Any]:
    with local_cluster(2, "500MB") as client:
        yield client


@pytest.fixture
def strangers(tmp_path: Path) -> TLS:
    return make_tls(tmp_path / "strangers")


def servers(client: Any) -> dict[str, int]:
    """Ports of Dask's servers by what they are."""
    found = {"scheduler": client.scheduler.address}
    for number, worker in enumerate(client.scheduler_info()["workers"]):
        found[f"worker {number}"] = worker
    for number, nanny in enumerate(client.cluster.workers.values()):
        found[f"nanny {number}"] = nanny.address
    assert all(address.startswith("tls://127.0.0.1:") for address in found.values())
    return {name: int(address.rpartition(":")[2]) for name, address in found.items()}


def pages(client: Any) -> set[int]:
    """Ports that serve http."""
    info = client.scheduler_info()
    return {one["services"]["dashboard"] for one in (info, *info["workers"].values())}


def listening(client: Any) -> set[int]:
    """Ports of this machine at which the processes of a cluster listen, on loopback alone."""
    here = psutil.Process()
    found = set()
    for process in (here, *here.children(recursive=True)):
        for connection in process.net_connections("inet"):
            if connection.status == psutil.CONN_LISTEN:
                assert connection.laddr.ip == "127.0.0.1"
                found.add(connection.laddr.port)
    return found


def admitted(port: int, context: ssl.SSLContext) -> bool:
    """Whether a server talks to who holds these certificates."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        try:
            with context.wrap_socket(connection) as encrypted:
                return bool(encrypted.recv(1))  # a server of Dask begins by telling what it speaks
        except (ssl.SSLError, ConnectionError):
            return False


def trusting(security: Any) -> ssl.SSLContext:
    return security.get_connection_args("client")["ssl_context"]  # type: ignore[no-any-return]


def without_certificate() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def test_every_server__admits_who_holds_the_key_of_the_run_and_nobody_else(
    own: Any, strangers: TLS
) -> None:
    theirs = ssl_context(strangers)
    theirs.verify_mode = ssl.CERT_NONE  # they do not mind whom they talk to
    other_run = trusting(Security.temporary())
    other_run.verify_mode = ssl.CERT_NONE
    for name, port in servers(own).items():
        assert admitted(port, trusting(own.security)), name
        for stranger in (theirs, other_run, without_certificate()):
            assert not admitted(port, stranger), name


def test_every_port__is_a_server_of_dask_or_shows_health_and_counters_alone(own: Any) -> None:
    assert listening(own) >= set(servers(own).values()) | pages(own)
    assert len(pages(own)) == 3
    for port in pages(own):
        with urlopen(f"http://127.0.0.1:{port}/health", timeout=30) as answer:
            assert answer.read() == b"ok"
        for page in PAGES:
            with pytest.raises(HTTPError, match="404"):
                urlopen(f"http://127.0.0.1:{port}{page}", timeout=30)


def test_client__without_tls_gets_nowhere(own: Any) -> None:
    address = own.scheduler.address.replace("tls://", "tcp://")
    with pytest.raises((OSError, ValueError)):
        Client(address, timeout=1, set_as_default=False)


def test_key__is_in_no_file_no_command_line_and_no_environment(own: Any, scratch: Path) -> None:
    assert KEY in str(own.security.tls_worker_key).encode()
    children = psutil.Process().children(recursive=True)
    assert len(children) >= 2
    for child in children:
        told = Path(f"/proc/{child.pid}/environ").read_bytes() + repr(child.cmdline()).encode()
        assert KEY not in told
        assert b".pem" not in told
    (workers_folder,) = scratch.glob("dhsic-*")
    assert workers_folder.stat().st_mode & 0o777 == 0o700
    files = [path for path in scratch.rglob("*") if path.is_file()]
    assert not [path for path in files if KEY in path.read_bytes()]


def test_workers__started_late_speak_tls_too(own: Any) -> None:
    own.cluster.scale(3)
    wait_until(lambda: len(servers(own)) == 7, 60, "there are not three workers")
    assert own.submit(os.getpid).result(timeout=60) > 0
    own.cluster.scale(2)


@pytest.fixture
def no_cryptography(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "cryptography"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cryptography", None)


@pytest.mark.usefixtures("no_cryptography")
def test_local_cluster__does_not_start_without_a_key() -> None:
    with (
        pytest.raises(MissingDependencyError, match="pip install cryptography, or run on threads"),
        local_cluster(1),
    ):
        pass


@pytest.mark.usefixtures("no_cryptography")
def test_command__on_workers_says_what_is_missing_and_runs_on_threads(tmp_path: Path) -> None:
    data = str(tmp_path / "d.zarr")
    generate(data, rows=300, features=2)
    words = ["test", data, "--variable", "features", "--variable", "year"]
    refused = CliRunner().invoke(main, [*words, "--workers", "1"])
    assert refused.exit_code == 2
    assert "needs cryptography" in refused.stderr
    out = tmp_path / "out.json"
    done = CliRunner().invoke(main, [*words, "--threads", "1", "--json", str(out)])
    assert done.exit_code == 0, done.stderr
    assert json.loads(out.read_text())["pvalue"] > 0
