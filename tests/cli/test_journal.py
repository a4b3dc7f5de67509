"""What a command did, as JSON lines, of which `dhsic status` reads how far a run is."""

import json
import os
import threading

import pytest

import dhsic
from dhsic.cli.command import SCHEMA, open_journal, read_journal
from dhsic.engine.events import BlockFinished, PassStarted
from dhsic.errors import DataError

TEST = "test data.zarr --variable x --variable y --kernel gaussian --resamples 30"
FIELDS = {
    "command-started": "version command data pid",
    "run-started": "n variables passes workers threads worker_bytes driver_bytes",
    "step-started": "name",
    "pass-started": "name blocks amount unit bytes_read resumed resumed_parts progress",
    "block-finished": "name amount unit progress",
    "pass-finished": "name blocks amount bytes_read seconds worker_seconds unit progress",
    "result": "statistic pvalue pvalue_error estimate estimator null seed seconds",
    "error": "message kind exit_code",
    "interrupted": "exit_code",
}
PROGRESS = "pass passes parts parts_done amount done resumed unit bytes_done per_second "
PROGRESS += "bytes_per_second seconds_left workers"


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log.jsonl"


def checked(text):
    """The lines, of which each has the documented fields and no other."""
    lines = [json.loads(line) for line in text.splitlines()]
    for line in lines:
        assert line.keys() == {"schema", "time", "run", "event", *FIELDS[line["event"]].split()}
        assert line["time"].endswith("+00:00")
        if "progress" in line:
            assert line["progress"].keys() == set(PROGRESS.split())
    assert len({(line["run"], line["schema"]) for line in lines}) == 1
    return lines


@pytest.mark.parametrize("target", ["log.jsonl", "-"])
def test_log__tells_a_run_from_its_command_to_its_result(target, files, invoke, tmp_path, log):
    path = target if target == "-" else log
    done = invoke(f"{TEST} --threads 2 --log-json {path} --json {tmp_path}/found.json")
    assert done.exit_code == 0
    first, run, *_, last = lines = checked(done.stderr if target == "-" else log.read_text())
    assert (first["event"], run["event"], last["event"]) == (
        *("command-started", "run-started", "result"),
    )
    assert first["command"][:3] == ["dhsic", "test", "data.zarr"]
    assert (first["version"], first["data"]) == (dhsic.__version__, "data.zarr")
    assert (first["pid"], run["n"], run["threads"]) == (os.getpid(), 300, 2)
    found = json.loads((tmp_path / "found.json").read_text())
    assert all(last[name] == found[name] for name in FIELDS["result"].split()[:-1])
    (started,) = (line for line in lines if line["event"] == "pass-started")
    (*_, block) = (line["progress"] for line in lines if line["event"] == "block-finished")
    assert block["done"] == block["amount"] == started["amount"]
    assert block["parts_done"] == block["parts"]
    assert block["bytes_done"] == started["bytes_read"] > 0


ENDINGS = {
    "test data.zarr --variable x --variable gap": ("DataError", 2),
    "test nowhere.zarr --variable x --variable y": ("DataError", 2),
    f"{TEST} --threads 1 --workers 1": ("UsageError", 2),
}


@pytest.mark.parametrize("line", ENDINGS)
def test_log__ends_with_the_error_that_the_user_sees(line, files, invoke, log):
    done = invoke(f"{line} --log-json {log}")
    last = checked(log.read_text())[-1]
    assert (last["event"], last["kind"], last["exit_code"]) == ("error", *ENDINGS[line])
    assert last["message"] in done.stderr


@pytest.mark.parametrize(("error", "code"), [(ZeroDivisionError, 1), (KeyboardInterrupt, 130)])
def test_log__ends_with_faults_and_interrupts(error, code, files, invoke, log, monkeypatch):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(dhsic, "independence_test", fail)
    assert invoke(f"{TEST} --log-json {log}").exit_code == code
    (_, last) = checked(log.read_text())
    assert last["event"] == ("error" if code == 1 else "interrupted")
    assert last["exit_code"] == code


def test_log__holds_no_credential(invoke, log):
    line = "test nowhere://me:SECRET@host/songs.zarr?token=SECRET --variable x --variable y"
    assert invoke(f"{line} --log-json {log}").exit_code == 2
    assert read_journal(log)[0]["data"] == "nowhere://***@host/songs.zarr?***"
    error = DataError("cannot read s3://me:SECRET@bucket/x")
    with pytest.raises(DataError), open_journal(str(log), ["dhsic"], "x"):
        raise error
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


def test_runs__that_write_at_once_are_kept_apart(log):
    def write(name):
        with open_journal(str(log), ["dhsic"], name) as journal:
            begun.wait(timeout=60)
            for _ in range(300):
                journal.hear(BlockFinished(name, 1))

    begun = threading.Barrier(2)
    threads = [threading.Thread(target=write, args=(name,)) for name in ("first", "second")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert len([json.loads(line) for line in log.read_text().splitlines()]) == 602
    told, *lines = read_journal(log)
    assert [line["name"] for line in lines] == [told["data"]] * 300


@pytest.mark.parametrize(
    "content",
    [
        *(None, b"\xff\xfe\x00\n", b"[]\n3\n{}\n"),
        b'{"schema": %d, "time": "", "run": "a", "event": "command-started"}\n' % (SCHEMA + 1),
    ],
)
def test_reader__leaves_out_what_is_no_log(content, log):
    if content is not None:
        log.write_bytes(content)
    assert read_journal(log) == []


@pytest.mark.parametrize("short", [True, False])
def test_full_disk__ends_the_log_and_not_the_run(short, files, invoke, log, monkeypatch):
    def write(descriptor, data):
        if short:
            return len(data) - 1
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", write)
    with (
        pytest.warns(UserWarning, match=r"the log ends here: (no space is left|No space left)"),
        open_journal(str(log), ["dhsic"], "x.zarr") as journal,
    ):
        journal.hear(BlockFinished("sums", 5))
