"""A cluster of real processes that speak TLS, and those that it does not let in."""

from __future__ import annotations

import dataclasses
import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric import ec

import dhsic
from dhsic.cli import main
from dhsic.cluster import TLS, ClusterSpec, SchedulerAt, connect
from dhsic.cluster.security import check_address, stays_here
from dhsic.errors import InsecureWarning, InvalidArgumentError
from dhsic.io.synthetic import generate
from dhsic.results import IndependenceTestResult
from tests.cluster.certificates import make_tls, private_pem
from tests.cluster.processes import OPTIONS, X, Y, dask_cluster, quiet_result, same_bits

Cluster = tuple[str, Path, TLS]


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("tls")
    tls = make_tls(folder)
    with dask_cluster(folder / "cluster", tls, threads=(1, 2)) as (address, file):
        with connect(address, tls=tls, timeout=200) as client:
            client.wait_for_workers(2, timeout=200)
        yield address, file, tls


@pytest.fixture
def strangers(tmp_path: Path) -> TLS:
    return make_tls(tmp_path / "strangers")


@pytest.mark.parametrize("way", ["address", "file", "spec"])
def test_connect__gives_the_bits_of_a_quiet_run_over_tls(encrypted: Cluster, way: str) -> None:
    address, file, tls = encrypted
    spec = ClusterSpec("scheduler", scheduler=SchedulerAt(address), tls=tls)
    with (
        connect(spec)
        if way == "spec"
        else connect(address if way == "address" else file, tls=tls) as client
    ):
        assert sorted(client.nthreads().values()) == [1, 2]
        found = dhsic.independence_test(X, Y, client=client, **OPTIONS)
        assert all(address.startswith("tls://") for address in client.nthreads())
    assert same_bits(found, quiet_result())


def test_command__runs_over_tls_with_certificates_from_options_or_environment(
    encrypted: Cluster, tmp_path: Path
) -> None:
    address, file, tls = encrypted
    data, results = str(tmp_path / "d.zarr"), []
    generate(data, rows=3000, features=2, dependence=0.5)
    files = {"ca": tls.ca, "cert": tls.cert, "key": tls.key}
    options = [word for name, path in files.items() for word in (f"--tls-{name}", path)]
    environment = {f"DHSIC_TLS_{name.upper()}": path for name, path in files.items()}
    ways = [(["--scheduler", address, *options], {}), (["--scheduler-file", file], environment)]
    for number, (where, variables) in enumerate([*ways, (["--threads", "1"], {})]):
        out = tmp_path / f"{number}.json"
        words = ["test", data, "--variable", "features", "--variable", "year"]
        words += ["--landmarks", "20", "--kernel", "gaussian", "--json", str(out)]
        done = CliRunner().invoke(main, [*words, *map(str, where)], env=variables)
        assert done.exit_code == 0, done.stderr
        said = [line for line in done.stderr.splitlines() if "dashboard at" not in line]
        assert said == []
        results.append(IndependenceTestResult.from_json(out.read_text()))
    assert results[0].statistic == results[1].statistic == results[2].statistic


def refusal(where: object, tls: TLS | None = None, timeout: float = 60.0) -> str:
    with (
        pytest.raises(InvalidArgumentError) as caught,
        connect(where, tls=tls, timeout=timeout),  # type: ignore[arg-type]
    ):
        pass
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_connect__says_that_a_scheduler_is_of_another_authority(
    encrypted: Cluster, strangers: TLS
) -> None:
    said = refusal(encrypted[0], strangers)
    assert "its certificate is refused (" in said


def test_connect__says_that_its_own_certificate_is_refused(
    encrypted: Cluster, strangers: TLS
) -> None:
    wrong = dataclasses.replace(strangers, ca=encrypted[2].ca)
    assert "it refuses our certificate" in refusal(encrypted[0], wrong)


def test_connect__says_that_a_certificate_has_expired(encrypted: Cluster, tmp_path: Path) -> None:
    old = make_tls(tmp_path, expired=True)
    said = refusal(encrypted[0], dataclasses.replace(old, ca=encrypted[2].ca))
    assert "it refuses our certificate" in said


def test_connect__to_tls_without_certificates_is_an_error_in_words(encrypted: Cluster) -> None:
    assert "needs certificates: give tls" in refusal(encrypted[0])


def test_connect__by_tcp_to_tls_says_that_it_speaks_tls(encrypted: Cluster) -> None:
    said = refusal(encrypted[0].replace("tls://", "tcp://"), timeout=5.0)
    assert "it speaks TLS: write tls:// and give certificates" in said


def test_connect__by_tls_to_tcp_says_that_it_does_not(tmp_path: Path, strangers: TLS) -> None:
    with dask_cluster(tmp_path / "plain", threads=()) as (address, _):
        said = refusal(address.replace("tcp://", "tls://"), strangers)
    assert "it does not speak TLS" in said


def test_connect__certificates_and_an_address_without_tls(strangers: TLS) -> None:
    said = refusal("tcp://127.0.0.1:9", strangers)
    assert "write tls://127.0.0.1:9, or drop them" in said


@pytest.mark.parametrize(
    ("host", "here"),
    [
        ("127.0.0.1", True),
        ("127.3.2.1", True),
        ("::1", True),
        ("localhost", True),
        ("10.0.0.1", False),
        ("0.0.0.0", False),
        ("localhost.example.org", False),
        ("", False),
    ],
)
def test_stays_here(host: str, here: bool) -> None:
    assert stays_here(host) is here


def test_connect__off_this_machine_without_tls_is_refused_before_a_word_is_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dhsic.cluster.remote.Client", lambda *_, **__: pytest.fail("connected"))
    said = refusal("tcp://192.0.2.1:8786")
    assert "leaves this machine and has no TLS" in said


def test_check_address__insecure_is_allowed_with_a_warning() -> None:
    with pytest.warns(InsecureWarning, match="all on the network can read"):
        check_address("tcp://192.0.2.1:8786", None, insecure=True)
    check_address("tcp://127.0.0.1:8786", None, insecure=False)


@pytest.mark.filterwarnings("always::dhsic.errors.InsecureWarning")
def test_command__says_that_it_is_insecure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    data = str(tmp_path / "d.zarr")
    generate(data, rows=300, features=2)
    words = ["test", data, "--variable", "features", "--variable", "year"]
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    monkeypatch.setattr("dhsic.cluster.security.stays_here", lambda host: False)
    monkeypatch.setattr("dhsic.cluster.spec._SCHEDULER_TIMEOUT", 1.0)
    address = f"tcp://127.0.0.1:{port}"
    refused = CliRunner().invoke(main, [*words, "--scheduler", address])
    assert refused.exit_code == 2
    assert "has no TLS" in refused.stderr
    allowed = CliRunner().invoke(main, [*words, "--scheduler", address, "--insecure"])
    assert allowed.exit_code == 2
    assert "warning: the way to the scheduler" in allowed.stderr
    assert "nobody answered" in allowed.stderr


class _Teapot(BaseHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def test_connect__to_what_is_no_scheduler(tmp_path: Path, strangers: TLS) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Teapot) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            port = server.server_address[1]
            for protocol, tls, timeout in ("tcp", None, 1.0), ("tls", strangers, 60.0):
                said = refusal(f"{protocol}://127.0.0.1:{port}", tls, timeout)
                assert f"at {protocol}://127.0.0.1:{port}: " in said
                assert "no Dask scheduler" in said if tls is None else "speak TLS" in said
        finally:
            server.shutdown()
            thread.join(20)


BAD_FILES = {
    "no authority": ("ca", None, "No such file or directory"),
    "no key": ("key", None, "No such file or directory"),
    "a folder": ("cert", "", "Is a directory"),
    "authority in words": ("ca", "hello", "tls: ca must be a PEM file of certificates"),
    "certificate in words": ("cert", "hello", "a certificate and its own private key"),
    "key in words": ("key", "hello", "a certificate and its own private key"),
    "key of another": ("key", "other", "key values mismatch"),
    "key with a passphrase": ("key", "secret", "without a passphrase"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_connect__names_the_file_that_is_wrong(tmp_path: Path, strangers: TLS, case: str) -> None:
    name, content, words = BAD_FILES[case]
    path = tmp_path / "file.pem"
    if content == "":
        path = tmp_path
    elif content in ("other", "secret"):
        passphrase = b"secret" if content == "secret" else None
        path.write_bytes(private_pem(ec.generate_private_key(ec.SECP256R1()), passphrase))
    elif content is not None:
        path.write_text(content)
    said = refusal("tls://127.0.0.1:9", dataclasses.replace(strangers, **{name: str(path)}))
    assert words in said
    assert str(path) in said


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"address": 3}', "no json", '{"address": "nowhere"}']
)
def test_connect__a_scheduler_file_that_is_none(tmp_path: Path, content: str) -> None:
    file = tmp_path / "scheduler.json"
    file.write_text(content)
    assert "must be" in refusal(file)


def test_connect__no_scheduler_file(tmp_path: Path) -> None:
    assert "No such file or directory" in refusal(tmp_path / "scheduler.json")


def test_connect__a_scheduler_file_of_a_scheduler_that_is_gone(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.json"
    file.write_text(json.dumps({"address": "tcp://127.0.0.1:9"}))
    assert "nobody answered at 'tcp://127.0.0.1:9'" in refusal(file, timeout=0.5)
