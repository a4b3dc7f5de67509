"""What a command did, as JSON lines."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import dhsic
from dhsic._version import __version__
from dhsic.cli import printing
from dhsic.cli.journal import SCHEMA, Journal, open_journal, read_journal
from dhsic.cli.options import Request
from dhsic.engine.events import BlockFinished, PassStarted
from dhsic.errors import DataError
from dhsic.results import IndependenceTestResult

from .conftest import Invoke

Line = dict[str, Any]

PAIR = ("--variable", "x", "--variable", "y", "--kernel", "gaussian", "--resamples", "30")
HEAD = {"schema", "time", "run", "event"}
PASS = {"name", "blocks", "amount", "unit", "bytes_read", "resumed", "resumed_parts"}
FIELDS = {
    "command-started": {"version", "command", "data", "pid"},
    "workers-ready": {"workers", "dashboard"},
    "run-started": {
        *("n", "variables", "passes", "workers", "threads"),
        *("worker_bytes", "driver_bytes"),
    },
    "step-started": {"name"},
    "pass-started": {*PASS, "progress"},
    "block-finished": {"name", "amount", "unit", "progress"},
    "pass-finished": {
        *("name", "blocks", "amount", "bytes_read", "seconds", "worker_seconds", "unit"),
        "progress",
    },
    "result": {
        *("statistic", "pvalue", "pvalue_error", "estimate", "estimator", "null", "seed"),
        "seconds",
    },
    "error": {"message", "kind", "exit_code"},
    "interrupted": {"exit_code"},
}
PROGRESS = {
    *("pass", "passes", "parts", "parts_done", "amount", "done", "resumed", "unit", "bytes_done"),
    *("per_second", "bytes_per_second", "seconds_left", "workers"),
}


def of(lines: list[Line], event: str) -> list[Line]:
    return [line for line in lines if line["event"] == event]


def check_fields(lines: list[Line]) -> None:
    """Every line has the documented fields and no other."""
    for line in lines:
        assert line.keys() == HEAD | FIELDS[line["event"]]
        assert line["schema"] == SCHEMA
        assert datetime.fromisoformat(line["time"]).utcoffset() == timedelta(0)
        if "progress" in line:
            assert line["progress"].keys() == PROGRESS
    assert len({line["run"] for line in lines}) == 1


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log.jsonl"


def test_log__tells_a_run_from_its_command_to_its_result(
    invoke: Invoke, data: str, log: Path, tmp_path: Path
) -> None:
    before = datetime.now(UTC) - timedelta(seconds=1)
    found = tmp_path / "found.json"
    done = invoke("test", data, *PAIR, "--threads", 2, "--log-json", log, "--json", found)
    assert (done.exit_code, done.stderr) == (0, "")
    lines = read_journal(log)
    check_fields(lines)
    assert before < datetime.fromisoformat(lines[0]["time"]) <= datetime.now(UTC)
    kinds = [line["event"] for line in lines]
    assert (kinds[0], kinds[1], kinds[-1]) == ("command-started", "run-started", "result")
    assert lines[0]["command"][:3] == ["dhsic", "test", data]
    assert lines[0]["command"][-1] == str(found)
    assert (lines[0]["version"], lines[0]["data"]) == (__version__, data)
    assert lines[0]["pid"] == os.getpid()
    assert (lines[1]["n"], lines[1]["variables"], lines[1]["threads"]) == (1225, ["x", "y"], 2)
    result = IndependenceTestResult.from_json(found.read_text())
    for name in FIELDS["result"] - {"seconds"}:
        assert lines[-1][name] == getattr(result, name)
    assert lines[-1]["seconds"] == pytest.approx(result.seconds, abs=0.001)


def test_log__says_how_far_every_pass_is(invoke: Invoke, long_data: str, log: Path) -> None:
    variables = ("--variable", "features", "--variable", "year")
    options = ("--kernel", "gaussian", "--landmarks", 20, "--null", "multiplier")
    done = invoke("test", long_data, *variables, *options, "--log-json", log)
    assert done.exit_code == 0
    lines = read_journal(log)
    (run,) = of(lines, "run-started")
    started = of(lines, "pass-started")
    assert [line["progress"]["pass"] for line in started] == [1, 2]
    assert [line["name"] for line in started] == [made["name"] for made in run["passes"]]
    for begun in started:
        blocks = [x for x in of(lines, "block-finished") if x["name"] == begun["name"]]
        assert len(blocks) == begun["progress"]["parts"] > 1
        done_by = [line["progress"]["done"] for line in blocks]
        assert done_by == sorted(done_by)
        last = blocks[-1]["progress"]
        assert last["done"] == last["amount"] == 20_000
        assert last["parts_done"] == last["parts"]
        assert last["bytes_done"] == begun["bytes_read"] > 0
        assert last["per_second"] > 0
        assert last["bytes_per_second"] > 0
        assert last["seconds_left"] == 0
        assert last["workers"] is None
    assert len(of(lines, "pass-finished")) == 2


def test_log__of_a_cluster_counts_workers_whose_report_is_written(
    invoke: Invoke, data: str, log: Path, tmp_path: Path
) -> None:
    page = tmp_path / "report.html"
    where = ("--workers", 1, "--performance-report", page)
    done = invoke("test", data, *PAIR, *where, "--log-json", log)
    assert (done.exit_code, done.stderr) == (0, "")
    assert "Dask Performance Report" in page.read_text()
    lines = read_journal(log)
    check_fields(lines)
    (ready,) = of(lines, "workers-ready")
    assert (ready["workers"], ready["dashboard"]) == (1, None)
    assert {line["progress"]["workers"] for line in of(lines, "pass-started")} == {1}


def test_log__goes_to_stderr_where_no_bar_is_drawn_then(
    invoke: Invoke, data: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TTY_INTERACTIVE", "1")
    done = invoke("test", data, *PAIR, "--log-json", "-")
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    check_fields(lines)
    assert lines[-1]["event"] == "result"
    assert done.stdout.startswith("variables ")


def test_plan__writes_no_log(invoke: Invoke, data: str, log: Path) -> None:
    assert invoke("plan", data, *PAIR, "--log-json", log).exit_code == 0
    assert not log.exists()


def test_log__ends_with_the_error_that_the_user_sees(invoke: Invoke, data: str, log: Path) -> None:
    done = invoke("test", data, "--variable", "x", "--variable", "gap", "--log-json", log)
    assert done.exit_code == 2
    lines = read_journal(log)
    check_fields(lines)
    assert lines[-1]["event"] == "error"
    assert done.stderr == f"dhsic: error: {lines[-1]['message']}\n"
    assert (lines[-1]["kind"], lines[-1]["exit_code"]) == ("DataError", 2)


def test_log__has_errors_of_data_that_never_opened(invoke: Invoke, log: Path) -> None:
    done = invoke("test", "nowhere.zarr", *PAIR, "--log-json", log)
    assert done.exit_code == 2
    assert [line["event"] for line in read_journal(log)] == ["command-started", "error"]


def test_log__has_errors_of_options(invoke: Invoke, data: str, log: Path) -> None:
    done = invoke("test", data, *PAIR, "--aggregate", "max", "--log-json", log)
    assert done.exit_code == 2
    last = read_journal(log)[-1]
    assert (last["event"], last["exit_code"]) == ("error", 2)
    assert last["message"] in done.stderr


def test_log__has_internal_errors(
    invoke: Invoke, data: str, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        msg = "by zero"
        raise ZeroDivisionError(msg)

    monkeypatch.setattr(dhsic, "independence_test", fail)
    assert invoke("test", data, *PAIR, "--log-json", log).exit_code == 1
    last = read_journal(log)[-1]
    assert (last["kind"], last["exit_code"], last["message"]) == ("ZeroDivisionError", 1, "by zero")


def test_log__says_that_a_result_could_not_be_written(
    invoke: Invoke, data: str, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, text: str) -> None:
        msg = f"cannot write {path}: no space"
        raise DataError(msg)

    monkeypatch.setattr(printing, "write_whole", full)
    done = invoke("test", data, *PAIR, "--log-json", log, "--json", tmp_path / "found.json")
    assert done.exit_code == 2
    assert read_journal(log)[-1]["event"] == "error"
    assert done.stdout.startswith("variables ")


def stopped(
    big: Path, log: Path, number: signal.Signals
) -> tuple[subprocess.CompletedProcess[str], list[Line]]:
    """What is left of a run on threads that got a signal once it had done a block, and its log."""
    command = (
        *(sys.executable, "-m", "dhsic", "test", str(big), "--log-json", str(log)),
        *("--variable", "features", "--variable", "year", "--kernel", "gaussian"),
    )
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as process:
        try:
            until = time.monotonic() + 120.0
            while not log.exists() or "block-finished" not in log.read_text():
                assert time.monotonic() < until, "waited in vain"
                assert process.poll() is None
                time.sleep(0.05)
            process.send_signal(number)
            stdout, stderr = process.communicate(timeout=120)
        finally:
            process.kill()
    done = subprocess.CompletedProcess(command, process.returncode, stdout, stderr)
    return done, read_journal(log)


def test_log__ends_with_an_interrupt(big: Path, log: Path) -> None:
    done, lines = stopped(big, log, signal.SIGTERM)
    check_fields(lines)
    assert lines[-1]["event"] == "interrupted"
    assert lines[-1]["exit_code"] == 130
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr.strip() == "dhsic: interrupted"


def test_log__of_a_killed_run_is_whole_and_the_next_run_appends(
    big: Path, data: str, invoke: Invoke, log: Path
) -> None:
    _, lines = stopped(big, log, signal.SIGKILL)
    check_fields(lines)
    assert lines[-1]["event"] == "block-finished"
    assert log.read_text().endswith("}\n")
    kept = log.read_text()
    assert invoke("test", data, *PAIR, "--log-json", log).exit_code == 0
    assert log.read_text().startswith(kept)
    latest = read_journal(log)
    check_fields(latest)
    assert latest[0]["data"] == data
    assert latest[-1]["event"] == "result"


def test_reader__leaves_out_torn_lines(log: Path) -> None:
    with open_journal(str(log), ["dhsic"], "x.zarr") as journal:
        journal.hear(PassStarted("sums", 2, 10))
        with log.open("rb+") as file:
            file.truncate(log.stat().st_size - 5)
    assert [line["event"] for line in read_journal(log)] == ["command-started"]
    with open_journal(str(log), ["dhsic"], "y.zarr"):
        pass
    assert [line["data"] for line in read_journal(log)] == ["y.zarr"]


def test_reader__keeps_runs_apart_that_write_at_once(log: Path) -> None:
    def write(name: str, journal: Journal) -> None:
        for _ in range(300):
            journal.hear(BlockFinished(name, 1))

    with (
        open_journal(str(log), ["dhsic"], "first.zarr") as first,
        open_journal(str(log), ["dhsic"], "second.zarr") as second,
    ):
        threads = [
            threading.Thread(target=write, args=("first", first)),
            threading.Thread(target=write, args=("second", second)),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=30)
    assert len([json.loads(line) for line in log.read_text().splitlines()]) == 602
    lines = read_journal(log)
    assert len(lines) == 301
    assert {line["name"] for line in lines[1:]} == {"second"}


def make_folder(path: Path) -> None:
    path.mkdir()


def make_other_schema(path: Path) -> None:
    line = {"schema": SCHEMA + 1, "time": "", "run": "a", "event": "command-started"}
    path.write_text(json.dumps(line) + "\n")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: None, "cannot read the log .*No such file"),
        (make_folder, "cannot read the log .*directory"),
        (lambda path: path.write_text("a,b\n1,2\n"), "holds no line that --log-json wrote"),
        (lambda path: path.write_text('{"schema": 1}\n'), "holds no line that --log-json wrote"),
        (lambda path: path.write_bytes(b"\xff\xfe\x00\n"), "holds no line that --log-json wrote"),
        (make_other_schema, "must have lines of schema 1, got 2: read it with"),
    ],
)
def test_reader__refuses_what_is_no_log(
    log: Path, make: Callable[[Path], Any], message: str
) -> None:
    make(log)
    with pytest.raises(DataError, match=message):
        read_journal(log)


@pytest.mark.parametrize("text", ["", '{"schema": 1, "ti'])
def test_reader__of_a_file_without_whole_lines_finds_none(log: Path, text: str) -> None:
    log.write_text(text)
    assert read_journal(log) == []


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("missing/log.jsonl", "does not exist: create it first"),
        (".", "is not one"),
        ("", "give the name of a file, or - for stderr"),
        ("/dev/full", "is not one"),
    ],
)
def test_log__refuses_what_is_no_file(invoke: Invoke, data: str, target: str, message: str) -> None:
    done = invoke("test", data, *PAIR, "--log-json", target)
    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("first", ["--json", "--performance-report"])
def test_log__refuses_the_file_of_another_output(
    invoke: Invoke, data: str, log: Path, first: str
) -> None:
    done = invoke("test", data, *PAIR, first, log, "--log-json", log)
    assert done.exit_code == 2
    assert f"{first} and --log-json" in done.stderr or f"--log-json and {first}" in done.stderr
    assert not log.exists()


def test_log__refuses_a_file_that_cannot_be_written(log: Path) -> None:
    log.mkdir()
    with (
        pytest.raises(DataError, match=r"cannot write the log .*directory"),
        open_journal(str(log), ["dhsic"], "x.zarr"),
    ):
        pass


def test_full_disk__ends_the_log_and_not_the_run() -> None:
    written: list[str] = []

    def write(line: str) -> None:
        if len(written) == 2:
            raise OSError(28, "No space left on device")
        written.append(line)

    journal = Journal(write)
    journal.hear(PassStarted("sums", 2, 10))
    journal.hear(BlockFinished("sums", 5))
    with pytest.warns(UserWarning, match="the log ends here: No space left on device"):
        journal.hear(BlockFinished("sums", 5))
    journal.hear(BlockFinished("sums", 5))
    assert len(written) == 2


def test_short_write__ends_the_log_too(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "write", lambda descriptor, data: len(data) - 1)
    with (
        pytest.warns(UserWarning, match="the log ends here: no space is left for it"),
        open_journal(str(log), ["dhsic"], "x.zarr"),
    ):
        pass


def test_log__has_its_ending_before_the_cluster_is_closed(
    invoke: Invoke, data: str, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    @contextmanager
    def client(request: Request) -> Iterator[None]:
        try:
            yield
        finally:
            seen.append(read_journal(log)[-1]["event"])

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Request, "client", client)
    monkeypatch.setattr(dhsic, "independence_test", interrupted)
    assert invoke("test", data, *PAIR, "--log-json", log).exit_code == 130
    assert seen == ["interrupted"]


def test_log__has_one_ending(log: Path) -> None:
    with (
        pytest.raises(KeyboardInterrupt),
        open_journal(str(log), ["dhsic"], "x") as journal,
        journal.ending(),
    ):
        raise KeyboardInterrupt
    assert [line["event"] for line in read_journal(log)] == ["command-started", "interrupted"]


def test_log__holds_no_credential_of_an_error(log: Path) -> None:
    error = DataError("cannot read s3://me:SECRET@bucket/x")
    with pytest.raises(DataError), open_journal(str(log), ["dhsic"], "x"):
        raise error
    assert read_journal(log)[-1]["message"] == "cannot read s3://***@bucket/x"


def test_log__holds_no_credential(invoke: Invoke, log: Path) -> None:
    url = "nowhere://me:SECRET@host/songs.zarr?token=SECRET"
    done = invoke("test", url, *PAIR, "--log-json", log)
    assert done.exit_code == 2
    assert read_journal(log)[0]["data"] == "nowhere://***@host/songs.zarr?***"
    assert "SECRET" not in log.read_text()


def test_log__of_a_process_that_does_not_hear_the_interrupt_ends_with_it(log: Path) -> None:
    code = f"""
import os, signal, threading, time
from dhsic.cli.interrupts import interruptible
from dhsic.cli.journal import open_journal

with interruptible(), open_journal({str(log)!r}, ["test"], "songs.zarr"):
    try:
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()
        time.sleep(600)
    except KeyboardInterrupt:
        time.sleep(600)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (130, "dhsic: interrupted\n")
    assert [line["event"] for line in read_journal(log)] == ["command-started", "interrupted"]
