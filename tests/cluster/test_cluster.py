"""One cluster of this machine: how its workers are set up, and that others reach nothing of it."""

import os
import re
import signal
import socket
import ssl
import tempfile
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import dask
import numpy as np
import psutil
import pytest
import zarr
from click.testing import CliRunner
from distributed import Client, Security

import dhsic
from dhsic.cli import main
from dhsic.cluster import connect, local_cluster
from dhsic.results import IndependenceTestResult
from tests.cluster.certificates import make_tls
from tests.cluster.quiet import same_bits

GIB = 2**30
KEY = b"PRIVATE KEY"
PAGES = ("/info/main/workers.html", "/info/logs.html", "/json/counts.json", "/status", "/proxy")


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    """Where this process and those that it starts keep temporary files."""
    folder = tmp_path_factory.mktemp("scratch")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(folder))
        patch.setenv("TMPDIR", str(folder))
        yield folder


@pytest.fixture(scope="module")
def workers(scratch):
    with local_cluster(2, "1GiB") as started:
        yield started


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("cluster") / "data.zarr"
    x = np.random.default_rng(1).standard_normal((4_000, 2))
    group = zarr.create_group(path)
    group.create_array("x", data=x, chunks=(1000, 2))
    group.create_array("y", data=x[:, :1] ** 2, chunks=(1000, 1))
    return str(path)


# --- how workers are set up


def setup_of_a_worker():
    """What a worker is told: threads of BLAS, memory, how often it looks, and blocked signals."""
    import threadpoolctl

    blas = {library["num_threads"] for library in threadpoolctl.threadpool_info()}
    names = ("worker.memory.spill", "worker.memory.pause", "worker.profile.interval")
    names += ("admin.tick.interval", "admin.system-monitor.interval")
    settings = [dask.config.get(f"distributed.{name}") for name in names]
    blocked = [int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, [])]
    return os.getpid(), blas, settings, blocked


def test_workers__are_processes_of_one_thread_that_never_pause(workers):
    assert list(workers.nthreads().values()) == [1, 1]
    before = [dask.config.get("distributed.worker.memory.pause"), signal.getsignal(signal.SIGINT)]
    found = list(workers.run(setup_of_a_worker).values())
    assert len({pid for pid, *_ in found} - {os.getpid()}) == 2
    for _, blas, settings, blocked in found:
        assert blas <= {1}
        assert settings == [0.85, False, "100ms", "200ms", "2s"]
        assert blocked == [signal.SIGINT], "an interrupt of a terminal is for the client alone"
    assert before[0] is not False, "settings of this process are as they were"
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_workers__die_above_what_is_promised_and_not_below(workers):
    (limit,) = {one["memory_limit"] for one in workers.scheduler_info()["workers"].values()}
    assert GIB * 1.2 < 0.95 * limit < GIB * 1.3


def test_timeout__is_also_how_long_a_run_goes_without_workers(client):
    with connect(client.scheduler.address, timeout=7):
        assert dask.config.get("dhsic.stall-timeout") == 7
    assert dask.config.get("dhsic.stall-timeout", None) is None


# --- the command


def test_command__runs_on_a_scheduler_and_reports_how(client, data, tmp_path):
    pytest.importorskip("bokeh", reason="a performance report needs bokeh")
    results, report = [], tmp_path / "report.html"
    on = ("--scheduler", client.scheduler.address, "--performance-report", str(report))
    words = (
        "--variable",
        "x",
        "--variable",
        "y",
        "--kernel",
        "gaussian",
        "--estimator",
        "nystrom-m:40",
    )
    for number, where in enumerate([on, ("--threads", "1")]):
        path = tmp_path / f"{number}.json"
        resamples = ("--null", "permutation", "--resamples", "20", "--json", str(path))
        done = CliRunner().invoke(main, ["test", data, *words, *resamples, *where])
        assert done.exit_code == 0, done.stderr
        results.append(IndependenceTestResult.from_json(path.read_text()))
    assert same_bits(*results)
    assert len(client.nthreads()) == 2, "the cluster must outlive the command"
    text = report.read_text()
    assert "Dask Performance Report" in text
    assert f"dhsic {dhsic.__version__}" in text
    assert not re.search(r"<script[^>]+src=|<link[^>]+stylesheet", text), "it is one page"
    assert "CliRunner" not in text, "the source of its caller is left out"


# --- others on this machine reach nothing


def servers(client):
    """Ports of Dask's servers by what they are."""
    found = {"scheduler": client.scheduler.address}
    found |= {f"worker {k}": one for k, one in enumerate(client.scheduler_info()["workers"])}
    found |= {f"nanny {k}": one.address for k, one in client.cluster.workers.items()}
    assert all(address.startswith("tls://127.0.0.1:") for address in found.values())
    return {name: int(address.rpartition(":")[2]) for name, address in found.items()}


def is_admitted(port, context):
    """Whether a server talks to who holds these certificates."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        try:
            with context.wrap_socket(connection) as encrypted:
                return bool(encrypted.recv(1))  # a server of Dask begins by telling what it speaks
        except (ssl.SSLError, ConnectionError):
            return False


def trusting(security):
    return security.get_connection_args("client")["ssl_context"]


def test_servers__admit_who_holds_the_key_of_the_run_and_nobody_else(workers, tmp_path):
    tls = make_tls(tmp_path)
    theirs = ssl.create_default_context(cafile=tls.ca)
    theirs.load_cert_chain(tls.cert, tls.key)
    strangers = [theirs, trusting(Security.temporary()), ssl.create_default_context()]
    for context in strangers:  # they do not mind whom they talk to
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for name, port in servers(workers).items():
        assert is_admitted(port, trusting(workers.security)), name
        assert not any(is_admitted(port, context) for context in strangers), name
    address = workers.scheduler.address.replace("tls://", "tcp://")
    with pytest.raises((OSError, ValueError)):
        Client(address, timeout=1, set_as_default=False)


def test_ports__are_servers_of_dask_on_loopback_or_show_health_alone(workers):
    info = workers.scheduler_info()
    pages = {one["services"]["dashboard"] for one in (info, *info["workers"].values())}
    here, listening = psutil.Process(), set()
    for process in (here, *here.children(recursive=True)):
        for connection in process.net_connections("inet"):
            if connection.status == psutil.CONN_LISTEN:
                assert connection.laddr.ip == "127.0.0.1"
                listening.add(connection.laddr.port)
    assert listening >= {*servers(workers).values(), *pages}
    assert len(pages) == 3
    assert 8787 not in pages, "clusters side by side need no fixed port"
    for port in pages:
        with urlopen(f"http://127.0.0.1:{port}/health", timeout=30) as answer:
            assert answer.read() == b"ok"
        for page in PAGES:
            with pytest.raises(HTTPError, match="404"):
                urlopen(f"http://127.0.0.1:{port}{page}", timeout=30)


def test_key__is_in_no_file_no_command_line_and_no_environment(workers, scratch):
    assert KEY in str(workers.security.tls_worker_key).encode()
    children = psutil.Process().children(recursive=True)
    assert len(children) >= 2
    for child in children:
        told = Path(f"/proc/{child.pid}/environ").read_bytes() + repr(child.cmdline()).encode()
        assert KEY not in told
        assert b".pem" not in told
    (folder,) = scratch.glob("dhsic-*")
    assert folder.stat().st_mode & 0o777 == 0o700
    files = [path for path in scratch.rglob("*") if path.is_file()]
    assert not [path for path in files if KEY in path.read_bytes()]
