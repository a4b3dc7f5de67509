"""What a command did, as JSON lines, of which `dhsic status` reads how far a run is."""

import json
import os
import threading
from datetime import UTC, datetime, timedelta

import pytest

import dhsic
from dhsic.cli.journal import SCHEMA, Journal, open_journal, read_journal
from dhsic.engine.events import BlockFinished, PassStarted
from dhsic.errors import DataError

TEST = "test data.zarr --variable x --variable y --kernel gaussian --resamples 30"
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


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log.jsonl"


def checked(text):
    """The lines, of which each has the documented fields and no other."""
    lines = [json.loads(line) for line in text.splitlines()]
    for line in lines:
        assert line.keys() == HEAD | FIELDS[line["event"]]
        assert line["schema"] == SCHEMA
        assert datetime.fromisoformat(line["time"]).utcoffset() == timedelta(0)
        if "progress" in line:
            assert line["progress"].keys() == PROGRESS
    assert len({line["run"] for line in lines}) == 1
    return lines


@pytest.mark.parametrize("target", ["log.jsonl", "-"])
def test_log__tells_a_run_from_its_command_to_its_result(target, files, invoke, tmp_path, log):
    before = datetime.now(UTC) - timedelta(seconds=1)
    path = log if target != "-" else target
    done = invoke(f"{TEST} --threads 2 --log-json {path} --json {tmp_path}/found.json")
    assert done.exit_code == 0
    lines = checked(log.read_text() if target != "-" else done.stderr)
    assert before < datetime.fromisoformat(lines[0]["time"]) <= datetime.now(UTC)
    first, run, last = lines[0], lines[1], lines[-1]
    assert [one["event"] for one in (first, run, last)] == [
        "command-started",
        "run-started",
        "result",
    ]
    assert first["command"][:3] == ["dhsic", "test", "data.zarr"]
    assert (first["version"], first["data"]) == (dhsic.__version__, "data.zarr")
    assert first["pid"] == os.getpid()
    assert (run["n"], run["variables"], run["threads"]) == (300, ["x", "y"], 2)
    found = json.loads((tmp_path / "found.json").read_text())
    assert all(last[name] == found[name] for name in FIELDS["result"] - {"seconds"})
    (started,) = (line for line in lines if line["event"] == "pass-started")
    (*_, block) = (line for line in lines if line["event"] == "block-finished")
    assert block["progress"]["done"] == block["progress"]["amount"] == started["amount"]
    assert block["progress"]["parts_done"] == block["progress"]["parts"]
    assert block["progress"]["bytes_done"] == started["bytes_read"] > 0
    assert block["progress"]["seconds_left"] == 0


ENDINGS = {
    "test data.zarr --variable x --variable gap": ("DataError", 2),
    "test nowhere.zarr --variable x --variable y": ("DataError", 2),
    f"{TEST} --aggregate max": ("UsageError", 2),
}


@pytest.mark.parametrize("line", ENDINGS)
def test_log__ends_with_the_error_that_the_user_sees(line, files, invoke, log):
    done = invoke(f"{line} --log-json {log}")
    last = checked(log.read_text())[-1]
    assert last["event"] == "error"
    assert (last["kind"], last["exit_code"]) == ENDINGS[line]
    assert last["message"] in done.stderr


@pytest.mark.parametrize(
    ("error", "code", "ending"), [(ZeroDivisionError, 1, "error"), (KeyboardInterrupt, 130, None)]
)
def test_log__ends_with_faults_and_interrupts(error, code, ending, files, invoke, log, monkeypatch):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(dhsic, "independence_test", fail)
    assert invoke(f"{TEST} --log-json {log}").exit_code == code
    (_, last) = checked(log.read_text())
    assert (last["event"], last["exit_code"]) == (ending or "interrupted", code)


def test_log__holds_no_credential(invoke, log):
    line = "test nowhere://me:SECRET@host/songs.zarr?token=SECRET --variable x --variable y"
    assert invoke(f"{line} --log-json {log}").exit_code == 2
    assert read_journal(log)[0]["data"] == "nowhere://***@host/songs.zarr?***"
    error = DataError("cannot read s3://me:SECRET@bucket/x")
    with pytest.raises(DataError), open_journal(str(log), ["dhsic"], "x"):
        raise error
    assert read_journal(log)[-1]["message"] == "cannot read s3://***@bucket/x"
    assert "SECRET" not in log.read_text()


def test_reader__takes_the_latest_run_and_leaves_out_torn_lines(log):
    with open_journal(str(log), ["dhsic"], "x.zarr") as journal:
        journal.hear(PassStarted("sums", 2, 10))
        with log.open("rb+") as file:
            file.truncate(log.stat().st_size - 5)
    assert [line["event"] for line in read_journal(log)] == ["command-started"]
    with open_journal(str(log), ["dhsic"], "y.zarr"):
        pass
    assert [line["data"] for line in read_journal(log)] == ["y.zarr"]


def test_reader__keeps_runs_apart_that_write_at_once(log):
    def write(name, journal):
        for _ in range(300):
            journal.hear(BlockFinished(name, 1))

    with (
        open_journal(str(log), ["dhsic"], "first.zarr") as first,
        open_journal(str(log), ["dhsic"], "second.zarr") as second,
    ):
        threads = [
            threading.Thread(target=write, args=pair)
            for pair in (("first", first), ("second", second))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=30)
    assert len([json.loads(line) for line in log.read_text().splitlines()]) == 602
    lines = read_journal(log)
    assert len(lines) == 301
    assert {line["name"] for line in lines[1:]} == {"second"}


OTHER_SCHEMA = {"schema": SCHEMA + 1, "time": "", "run": "a", "event": "command-started"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot read the log .*No such file"),
        (b"a,b\n1,2\n", "holds no line that --log-json wrote"),
        (b"\xff\xfe\x00\n", "holds no line that --log-json wrote"),
        (json.dumps(OTHER_SCHEMA).encode() + b"\n", "must have lines of schema 1, got 2: read it"),
    ],
)
def test_reader__refuses_what_is_no_log(content, message, log):
    if content is not None:
        log.write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_journal(log)


def test_full_disk__ends_the_log_and_not_the_run(files, invoke, log, monkeypatch):
    written = []

    def write(line):
        if len(written) == 1:
            raise OSError(28, "No space left on device")
        written.append(line)

    journal = Journal(write)
    journal.hear(PassStarted("sums", 2, 10))
    with pytest.warns(UserWarning, match="the log ends here: No space left on device"):
        journal.hear(BlockFinished("sums", 5))
    journal.hear(BlockFinished("sums", 5))
    assert len(written) == 1
    monkeypatch.setattr(os, "write", lambda descriptor, data: len(data) - 1)
    with (
        pytest.warns(UserWarning, match="the log ends here: no space is left for it"),
        open_journal(str(log), ["dhsic"], "x.zarr"),
    ):
        pass
