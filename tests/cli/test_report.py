"""`--report` writes a page that says how to get it again, truly."""

import json
import re
import shlex
import sys
from html import unescape
from pathlib import Path
from typing import Any

import pytest

import dhsic
from dhsic.cli import pages
from dhsic.cli.options import Request
from dhsic.cli.recipes import code_of_test
from dhsic.cli.resources import RunResources
from dhsic.engine.units import parse_bytes
from dhsic.errors import DataError
from dhsic.results import IndependenceTestResult
from tests.cli.conftest import ROWS, Invoke

PAIR = ("--variable", "front=x[:, 0:2]", "--variable", "y")


def listings(page: Path) -> list[str]:
    found = re.findall(r"<pre>(.*?)</pre>", page.read_text(), re.DOTALL)
    return [unescape(text) for text in found]


def memory_of(process: str, text: str) -> list[float]:
    """Planned and measured, in MiB."""
    row = re.search(rf"<td>{process}</td>(.*?)</tr>", text, re.DOTALL)
    assert row is not None
    amounts = re.findall(r">([\d.]+ [MG]iB)<", row[1])
    assert len(amounts) == 2
    return [parse_bytes(amount) / 2**20 for amount in amounts]


def ran(code: str) -> Any:
    names: dict[str, Any] = {}
    exec(compile(code, "report", "exec"), names)
    return names


METHODS: list[tuple[object, ...]] = [
    ("--landmarks", 30),
    ("--landmarks", "2sqrt", "--kernel", "laplacian", "--seed", 5),
    ("--estimator", "rff-hsic", "--kernel", "gaussian:0.5", "--null", "gamma"),
    ("--estimator", "u-hsic", "--factors", "0.5,1", "--combine", "all", "--resamples", 30),
    ("--estimator", "dcov", "--null", "spectral", "--precision", "float32"),
    ("--kernel", "gaussian|laplacian", "--aggregate", "min-p", "--null", "multiplier"),
    ("--kernel", "y=laplacian", "--null", "permutation", "--resamples", 20, "--threads", 1),
]


@pytest.mark.parametrize("options", METHODS, ids=lambda options: " ".join(map(str, options)))
def test_code_and_command__give_the_result_again(
    invoke: Invoke, data: str, tmp_path: Path, options: tuple[object, ...], capsys: Any
) -> None:
    page, kept = tmp_path / "report.html", tmp_path / "result.json"
    command = ("test", data, *PAIR, *options, "--json", kept, "--report", page)
    done = invoke(*command)
    assert (done.exit_code, done.stderr) == (0, "")
    result = IndependenceTestResult.from_json(kept.read_text())
    line, code = listings(page)
    again = ran(code)["result"]
    capsys.readouterr()
    assert again.statistic == pytest.approx(result.statistic, rel=1e-9)
    assert (again.pvalue, again.seed) == (pytest.approx(result.pvalue, rel=1e-9), result.seed)
    assert again.variables == result.variables
    assert (again.grid is None) == (result.grid is None)
    kept.unlink()
    page.unlink()
    first, *words = shlex.split(line)
    assert first == "dhsic"
    assert invoke(*words).exit_code == 0
    repeated = IndependenceTestResult.from_json(kept.read_text())
    assert (repeated.statistic, repeated.pvalue) == (result.statistic, result.pvalue)


RANKINGS: list[tuple[object, ...]] = [
    ("--landmarks", 30, "--seed", 4),
    ("--by", "cka", "--kernel", "laplacian", "--target-kernel", "imq:2", "--precision", "float32"),
    ("--by", "sensitivity", "--landmarks", 25, "--pairing", "joint", "--threads", 1),
    ("--estimator", "v-hsic", "--null", "permutation", "--within", "groups", "--group-rows", 200),
    ("--group", "first=0", "--group", "both=0,2", "--group", "all=0:3", "--null", "multiplier"),
]


@pytest.mark.parametrize("options", RANKINGS, ids=lambda options: " ".join(map(str, options)))
def test_rank__has_code_and_command_that_give_the_ranking_again(
    invoke: Invoke, data: str, tmp_path: Path, options: tuple[object, ...], capsys: Any
) -> None:
    page, kept = tmp_path / "report.html", tmp_path / "ranking.json"
    resamples = () if "--within" in options else ("--resamples", 19)
    asked = ("--features", "x", "--target", "y", *resamples, *options)
    done = invoke("rank", data, *asked, "--json", kept, "--report", page)
    assert (done.exit_code, done.stderr) == (0, "")
    found = dhsic.ColumnRanking.from_json(kept.read_text())
    line, code = listings(page)
    again = ran(code)["ranking"]
    capsys.readouterr()
    assert (again.by, again.seed, again.n_resamples) == (found.by, found.seed, found.n_resamples)
    assert again.features == found.features
    kept.unlink()
    page.unlink()
    assert invoke(*shlex.split(line)[1:]).exit_code == 0
    assert dhsic.ColumnRanking.from_json(kept.read_text()).features == found.features


def test_rank__page_selects_by_level_and_control(invoke: Invoke, data: str, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    rank = ("rank", data, "--features", "x", "--target", "y", "--landmarks", 30, "--report", page)
    assert invoke(*rank, "--alpha", 0.02, "--control", "max-t").exit_code == 0
    text = unescape(page.read_text())
    assert "1 of 3 features depend on y at level 0.02 by any error (max-t)" in text
    assert all(20 < amount < 20_000 for amount in memory_of("this process", text))


MAPS: list[tuple[object, ...]] = [
    ("--landmarks", 30, "--seed", 2),
    ("--estimator", "rff-hsic", "--features", 40, "--of", "estimate", "--wrt", "front"),
    ("--estimator", "v-hsic", "--kernel", "y=imq:2", "--precision", "float32", "--threads", 1),
]


@pytest.mark.parametrize("options", MAPS, ids=lambda options: " ".join(map(str, options)))
def test_sensitivity__has_code_and_command_that_give_the_map_again(
    invoke: Invoke, data: str, tmp_path: Path, options: tuple[object, ...], capsys: Any
) -> None:
    page, kept = tmp_path / "report.html", tmp_path / "map.json"
    done = invoke("sensitivity", data, *PAIR, *options, "--json", kept, "--report", page)
    assert (done.exit_code, done.stderr) == (0, "")
    line, code = listings(page)
    again = ran(code)["found"]
    capsys.readouterr()
    found = json.loads(kept.read_text())
    assert (again.of, again.value) == (found["of"], pytest.approx(found["value"], rel=1e-9))
    assert {name: one.tolist() for name, one in again.features.items()} == {
        name: pytest.approx(one, rel=1e-9) for name, one in found["features"].items()
    }
    kept.unlink()
    page.unlink()
    assert invoke(*shlex.split(line)[1:]).exit_code == 0
    assert json.loads(kept.read_text())["features"] == found["features"]
    assert "most sensitive to column 0 of front" in page.read_text()


def test_sensitivity__page_of_two_columns_has_their_points(
    invoke: Invoke, data: str, tmp_path: Path
) -> None:
    page = tmp_path / "report.html"
    pair = ("--variable", "first=x[:, 0:1]", "--variable", "y")
    done = invoke("sensitivity", data, *pair, "--landmarks", 20, "--report", page)
    assert done.exit_code == 0
    assert "Rows of both variables" in page.read_text()


COMMANDS = {
    "rank": ("--features", "x", "--target", "y", "--landmarks", 20, "--resamples", 9),
    "sensitivity": (*PAIR, "--landmarks", 20),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_report__of_all_commands_is_refused_before_the_run(
    invoke: Invoke, data: str, tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dhsic.engine.session.run_pass", lambda *_, **__: pytest.fail("it ran"))
    page, asked = tmp_path / "report.html", (command, data, *COMMANDS[command])
    done = invoke(*asked, "--json", page, "--report", page)
    assert (done.exit_code, "name the same file" in done.stderr) == (2, True)
    done = invoke(*asked, "--performance-report", page)
    assert (done.exit_code, "needs worker processes" in done.stderr) == (2, True)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    done = invoke(*asked, "--report", page)
    assert (done.exit_code, "pip install 'dhsic[report]'" in done.stderr) == (2, True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", COMMANDS)
def test_report__that_fails_loses_nothing_that_was_found(
    invoke: Invoke, data: str, tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        msg = "cannot write the report: no space"
        raise DataError(msg)

    monkeypatch.setattr(pages, "write_report", full)
    kept = tmp_path / "found.json"
    asked = (command, data, *COMMANDS[command], "--json", kept)
    done = invoke(*asked, "--report", tmp_path / "report.html")
    assert (done.exit_code, "no space" in done.stderr) == (2, True)
    assert "seed" in done.stdout
    assert json.loads(kept.read_text())


@pytest.mark.parametrize("command", COMMANDS)
def test_reports__of_workers_are_written_by_all_commands(
    invoke: Invoke, data: str, tmp_path: Path, command: str
) -> None:
    page, performance, journal = (tmp_path / name for name in ("a.html", "b.html", "log.jsonl"))
    options = ("--workers", 1, "--report", page, "--performance-report", performance)
    options += ("--log-json", journal, "--checkpoint", tmp_path / "kept")
    done = invoke(command, data, *COMMANDS[command], *options)
    assert done.exit_code == 0, done.stderr
    assert all(20 < amount < 20_000 for amount in memory_of("a worker", page.read_text()))
    assert "bokeh" in performance.read_text().lower()
    events = [json.loads(line)["event"] for line in journal.read_text().splitlines()]
    assert "workers-ready" in events
    again = invoke(command, data, *COMMANDS[command], "--checkpoint", tmp_path / "kept",
                   "--log-json", journal)  # fmt: skip
    assert again.exit_code == 0
    lines = [json.loads(line) for line in journal.read_text().splitlines()[len(events) :]]
    starts = [line["resumed"] for line in lines if line["event"] == "pass-started"]
    assert set(starts) == {ROWS}


def test_page__has_memory_as_planned_and_measured(
    invoke: Invoke, data: str, tmp_path: Path
) -> None:
    page = tmp_path / "report.html"
    options = ("--landmarks", 20, "--kernel", "gaussian", "--report", page)
    assert invoke("test", data, *PAIR, *options).exit_code == 0
    text = page.read_text()
    assert all(20 < amount < 20_000 for amount in memory_of("this process", text))
    assert "a worker" not in text
    assert "of one process" in text


def test_page__of_workers_tells_of_theirs_which_find_what_threads_find(
    invoke: Invoke, long_data: str, tmp_path: Path
) -> None:
    page, out = tmp_path / "report.html", tmp_path / "out.json"
    pair = ("--variable", "features", "--variable", "year", "--kernel", "gaussian")
    quick = (
        "--landmarks",
        50,
        "--null",
        "multiplier",
        "--resamples",
        50,
        "--json",
        out,
        "--overwrite",
    )
    results = []
    for where in (("--workers", 2, "--report", page), ("--threads", 2)):
        done = invoke("test", long_data, *pair, *quick, *where)
        assert (done.exit_code, done.stderr) == (0, "")
        results.append(IndependenceTestResult.from_json(out.read_text()))
    processes, threads = results
    assert processes.passes[0].blocks > 1
    assert processes.statistic == pytest.approx(threads.statistic, rel=1e-12)
    assert processes.pvalue == threads.pvalue
    text = page.read_text()
    assert "2 worker processes with 2 threads in all" in text
    assert all(20 < amount < 20_000 for amount in memory_of("a worker", text))
    assert "client=" in listings(page)[1]


def test_report__is_refused_before_the_run(invoke: Invoke, data: str, tmp_path: Path) -> None:
    same = tmp_path / "same"
    done = invoke("test", data, *PAIR, "--json", same, "--report", same)
    assert done.exit_code == 2
    assert "--json and --report name the same file" in done.stderr
    done = invoke("test", data, *PAIR, "--report", tmp_path / "none" / "report.html")
    assert done.exit_code == 2
    assert "does not exist: create it first" in done.stderr


def test_report__needs_its_libraries_before_the_run(
    invoke: Invoke, data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    done = invoke("test", data, *PAIR, "--report", tmp_path / "report.html")
    assert done.exit_code == 2
    assert "pip install 'dhsic[report]'" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_plan__accepts_it(invoke: Invoke, data: str, tmp_path: Path) -> None:
    assert invoke("plan", data, *PAIR, "--report", tmp_path / "report.html").exit_code == 0
    assert list(tmp_path.iterdir()) == []


def test_report__is_written_after_the_json_and_before_the_end(
    invoke: Invoke, data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        msg = "cannot write the report: no space"
        raise DataError(msg)

    monkeypatch.setattr(pages, "write_report", full)
    kept = tmp_path / "result.json"
    options = ("--landmarks", 20, "--kernel", "gaussian", "--json", kept)
    done = invoke("test", data, *PAIR, *options, "--report", tmp_path / "report.html")
    assert done.exit_code == 2
    assert "no space" in done.stderr
    assert "p-value" in done.stdout  # what was found is not lost
    assert IndependenceTestResult.from_json(kept.read_text()).n > 0


def test_code__holds_no_credentials() -> None:
    request = Request(
        [], {"kernels": [None, None], "threads": 2, "null": "auto"}, RunResources(1, 2, None)
    )
    options = {
        "data": "s3://me:SECRET@bucket/songs.zarr",
        "variables": ["x", "y"],
        "seed": 3,
        "allow_missing_chunks": False,
    }
    code = code_of_test(options, request)
    assert "SECRET" not in code
    assert "kernels" not in code
    assert "null" not in code
    assert "    threads=2,\n    rng=3,\n" in code
