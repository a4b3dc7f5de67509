"""What a cluster shows of itself."""

import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.request import urlopen

import numpy as np
import pytest
from click.testing import CliRunner
from distributed import Client, LocalCluster

import dhsic
from dhsic.cli import main
from dhsic.cluster import report
from dhsic.cluster.report import dashboard_link, performance_report, worker_count
from dhsic.errors import DataError, InvalidArgumentError, MissingDependencyError
from dhsic.io.synthetic import generate

NEEDED = "a performance report needs bokeh"


def absent(name: str) -> str:
    raise PackageNotFoundError(name)


def present(name: str) -> str:
    return name


def use(client: Any) -> None:
    x = np.random.default_rng(0).standard_normal(2000)
    options: Any = {"kernels": "gaussian", "n_resamples": 20, "null": "multiplier"}
    dhsic.independence_test(x, x**2, rng=0, client=client, **options)


@pytest.fixture
def own() -> Iterator[Client]:
    """A client of a cluster in this process, with a dashboard where bokeh is installed."""
    with (
        LocalCluster(n_workers=1, processes=False, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


def test_report__is_one_page_without_other_resources(client: Any, tmp_path: Path) -> None:
    pytest.importorskip("bokeh", reason=NEEDED)
    path = tmp_path / "report.html"
    path.write_text("of an earlier run")
    with performance_report(client, path):
        use(client)
    text = path.read_text()
    assert "Dask Performance Report" in text
    assert "multiplier-null" in text, "the task stream names the tasks"
    assert not re.search(r"<script[^>]+src=", text)
    assert not re.search(r"<link[^>]+stylesheet", text)
    assert "bokeh.min.js" in text
    assert len(text) > 500_000, "the library is inside"
    assert list(tmp_path.iterdir()) == [path]


def test_report__leaves_the_source_of_its_caller_out(client: Any, tmp_path: Path) -> None:
    pytest.importorskip("bokeh", reason=NEEDED)
    password = "s3://me:" + "SECRET@bucket"
    with performance_report(client, tmp_path / "report.html"):
        assert client.submit(len, password).result() > 0
    text = (tmp_path / "report.html").read_text()
    assert "SECRET" not in text
    assert "importorskip" not in text
    assert f"dhsic {dhsic.__version__}" in text


def test_report__of_a_failed_run_is_not_written(
    client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "version", present)
    with pytest.raises(OSError, match="of the run"), performance_report(client, tmp_path / "r"):
        raise OSError(5, "of the run")
    assert not list(tmp_path.iterdir())


def test_report__that_cannot_be_written_is_an_error(client: Any, tmp_path: Path) -> None:
    pytest.importorskip("bokeh", reason=NEEDED)
    path = tmp_path / "taken"
    path.mkdir()
    refused = pytest.raises(DataError, match=r"cannot write .*directory")
    with refused, performance_report(client, path):
        pass
    assert list(tmp_path.iterdir()) == [path]


def test_report__needs_bokeh(client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "version", absent)
    refused = pytest.raises(MissingDependencyError, match=r"needs bokeh.*'dhsic\[report\]'")
    with refused, performance_report(client, tmp_path / "report.html"):
        pytest.fail("it was not refused before the run")


def test_report__needs_a_client(tmp_path: Path) -> None:
    refused = pytest.raises(InvalidArgumentError, match="needs worker processes")
    with refused, performance_report(None, tmp_path / "report.html"):
        pytest.fail("it was not refused before the run")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("report") / "data.zarr"
    generate(path, rows=2000, features=3)
    return str(path)


PAIR = ("--variable", "features", "--variable", "year", "--kernel", "gaussian")


def test_command__refuses_a_report_of_threads(data: str, tmp_path: Path) -> None:
    arguments = ("test", data, *PAIR, "--performance-report", str(tmp_path / "report.html"))
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 2
    assert "--performance-report needs worker processes: add --workers" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("target", ["missing/report.html", "."])
def test_command__refuses_a_report_that_is_no_file(data: str, target: str) -> None:
    arguments = ("test", data, *PAIR, "--workers", "1", "--performance-report", target)
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 2
    assert "Invalid value for '--performance-report'" in done.stderr


def test_workers__are_counted_without_asking(own: Client) -> None:
    assert worker_count(own) == 1
    own.cluster.scale(2)
    own.wait_for_workers(2, timeout=30)
    own.scheduler_info()
    assert worker_count(own) == 2


def test_workers__of_an_unknown_client_are_unknown() -> None:
    assert worker_count(SimpleNamespace()) is None


@pytest.mark.parametrize("listens", ["127.0.0.1:0", ":0"])
def test_dashboard__is_linked_where_it_answers(listens: str) -> None:
    pytest.importorskip("bokeh", reason="a dashboard needs bokeh")
    # The scheduler is on another address of this machine than a dashboard on loopback.
    with (
        LocalCluster(
            n_workers=0,
            processes=False,
            protocol="tcp",
            host="127.0.0.2",
            dashboard_address=listens,
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        link = dashboard_link(client)
        assert link is not None
        with urlopen(link) as answer:
            assert answer.status == 200


def test_dashboard__on_loopback_of_another_machine_is_not_linked() -> None:
    def run(function: Any) -> tuple[str, str]:
        return "elsewhere", "127.0.0.1"

    link, scheduler = "http://10.0.0.1:8787/status", SimpleNamespace(address="tls://10.0.0.1:8786")
    client = SimpleNamespace(run_on_scheduler=run, dashboard_link=link, scheduler=scheduler)
    assert dashboard_link(client) is None
    client.dashboard_link = "/user/me/proxy/8787/status"  # as a hub configures it
    assert dashboard_link(client) == client.dashboard_link


def test_dashboard__is_not_linked_where_none_is_served() -> None:
    with (
        LocalCluster(
            n_workers=0,
            processes=False,
            dashboard_address=None,
            scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        assert client.dashboard_link
        assert dashboard_link(client) is None


def test_dashboard__that_cannot_be_asked_for_is_no_error() -> None:
    def lost(function: Any) -> None:
        raise OSError(111, "refused")

    assert dashboard_link(SimpleNamespace(run_on_scheduler=lost)) is None
