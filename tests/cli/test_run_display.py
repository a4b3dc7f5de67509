"""A run on a cluster, seen."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from dhsic._progress import Bar
from dhsic.cli import run_display
from dhsic.cli.journal import Journal
from dhsic.engine.events import PassStarted

LINK = "http://me:SECRET@127.0.0.1:8787/status"


@pytest.fixture
def client() -> Any:
    """Stands for the client of three workers that has heard of two."""
    threads = {"a": 1, "b": 1, "c": 1}
    return SimpleNamespace(nthreads=lambda: threads, _scheduler_identity={"n_workers": 2})


@pytest.fixture
def bar() -> Bar:
    return Bar()


@pytest.fixture
def lines() -> list[dict[str, Any]]:
    return []


@pytest.fixture
def journal(lines: list[dict[str, Any]]) -> Journal:
    return Journal(lambda line: lines.append(json.loads(line)))


@pytest.mark.parametrize("quiet", [True, False])
def test_dashboard__is_named_without_credentials(
    client: Any,
    bar: Bar,
    journal: Journal,
    lines: list[dict[str, Any]],
    quiet: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(run_display, "dashboard_link", lambda client: LINK)
    run_display.run_listener(client, bar, journal, quiet=quiet)
    shown = "" if quiet else "dhsic: dashboard at http://***@127.0.0.1:8787/status\n"
    assert capsys.readouterr().err == shown
    (ready,) = lines
    assert (ready["workers"], ready["dashboard"]) == (3, "http://***@127.0.0.1:8787/status")


def test_listener__feeds_the_bar_and_the_journal(
    client: Any, bar: Bar, journal: Journal, lines: list[dict[str, Any]]
) -> None:
    run_display.run_listener(client, bar, journal, quiet=False)(PassStarted("sums", 2, 10))
    assert bar.position.name == lines[-1]["name"] == "sums"
    assert bar.workers() == lines[-1]["progress"]["workers"] == 2


def test_listener__without_a_cluster_tells_of_none(
    bar: Bar, journal: Journal, lines: list[dict[str, Any]]
) -> None:
    run_display.run_listener(None, bar, journal, quiet=False)(PassStarted("sums", 2, 10))
    assert [line["event"] for line in lines] == ["pass-started"]
    assert bar.workers() is lines[0]["progress"]["workers"] is None
