"""`--checkpoint` and `dhsic checkpoints`: a killed run goes on, and only its files are removed."""

import json
import signal
import subprocess
import sys

import pytest

from dhsic.io.synthetic import generate

PAIR = "--variable features --variable year --kernel gaussian --threads 1"
QUICK = f"test long.zarr {PAIR} --estimator nystrom-m:20"
# It gets a signal when it opens a file of its folder for writing for the sixth time.
ENDED = """
import os, sys
from dhsic.cli import main

opened = []

def watch(event, told):
    if event == "open" and "kept" in str(told[0]) and told[2] & (os.O_WRONLY | os.O_RDWR):
        opened.append(told[0])
        if len(opened) == 6:
            os.kill(os.getpid(), int(sys.argv[1]))

sys.addaudithook(watch)
main(sys.argv[2:])
"""


@pytest.fixture(scope="session")
def long_data(tmp_path_factory):
    """A group of several row blocks."""
    folder = tmp_path_factory.mktemp("long")
    generate(folder / "long.zarr", rows=20_000, features=3, dependence=0.5)
    return folder / "long.zarr"


@pytest.fixture
def here(long_data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "long.zarr").symlink_to(long_data)
    return tmp_path


@pytest.fixture
def kept(here, invoke):
    done = invoke(f"{QUICK} --checkpoint runs/kept")
    assert (done.exit_code, done.stderr) == (0, "")
    return here / "runs" / "kept"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_process__that_was_ended_goes_on_to_the_same_bits(number, here, invoke):
    words = [*QUICK.split(), "--checkpoint", "kept", "--log-json", "log"]
    done = subprocess.run(
        [sys.executable, "-c", ENDED, str(int(number)), *words],
        capture_output=True,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    events = [json.loads(line) for line in (here / "log").read_text().splitlines()]
    if number == signal.SIGKILL:
        assert (done.returncode, done.stdout) == (-signal.SIGKILL, "")
        assert events[-1]["event"] not in ("result", "interrupted")
    else:
        assert (done.returncode, done.stdout) == (130, "")
        assert done.stderr.strip() == (
            f"dhsic: interrupted; what is done is kept in {here}/kept: run the same command again"
        )
        assert (events[-1]["event"], events[-1]["exit_code"]) == ("interrupted", 130)
    again = invoke(f"{' '.join(words)} --json again.json")
    assert (again.exit_code, again.stderr) == (0, "")
    resumed = [
        line["resumed"]
        for line in map(json.loads, (here / "log").read_text().splitlines()[len(events) :])
        if line["event"] == "pass-started"
    ]
    assert resumed[0] > 0
    assert resumed[0] < 20_000 or number != signal.SIGKILL
    assert invoke(f"{QUICK} --json plain.json").exit_code == 0
    found, plain = (json.loads((here / name).read_text()) for name in ("again.json", "plain.json"))
    for name in ("statistic", "null_distribution", "estimate", "pvalue"):
        assert found[name] == plain[name]


@pytest.mark.parametrize("place", ["runs/kept", "runs"])
def test_list__says_what_is_kept(place, kept, invoke):
    done = invoke(f"checkpoints list {place}")
    assert (done.exit_code, done.stderr) == (0, "")
    assert "runs/kept" in done.stdout
    assert "independence test of features, year; 20,000 rows, seed 0, float64" in done.stdout
    assert "  shifts  6 of 6  " in done.stdout
    next(kept.rglob("shard-0002")).unlink()
    assert "  shifts  5 of 6  " in invoke(f"checkpoints list {place}").stdout


@pytest.fixture
def broken(kept):
    """Checkpoints beside one that is whole, whose manifests cannot be read."""
    folders = [kept.with_name(name) for name in ("a torn one", "zebra")]
    for folder, text in zip(folders, ("{", '{"format": 1, "run": {}, "token": ""}'), strict=True):
        folder.mkdir()
        (folder / "dhsic-checkpoint.json").write_text(text)
    return folders


@pytest.mark.parametrize("command", ["list runs", "clean runs --yes"])
def test_broken_checkpoints__are_named_and_left(command, kept, broken, invoke):
    done = invoke(f"checkpoints {command}")
    assert done.exit_code == 2
    assert "runs/kept" in done.stdout
    assert len(done.stderr.splitlines()) == 1
    for folder, found in zip(broken, ("none", "1"), strict=True):
        told = f"checkpoint {folder} must have format 2, got {found}"
        assert told in done.stderr
    assert kept.exists() is command.startswith("list")
    assert all(folder.exists() for folder in broken)


def test_clean__removes_all_of_a_folder_and_nothing_else(kept, here, invoke):
    assert invoke(f"{QUICK} --checkpoint runs/other").exit_code == 0
    (kept / ".x.0123abcd.partial").write_text("half")
    (kept / "begun").mkdir()
    foreign = here / "runs" / "thesis"
    foreign.mkdir()
    (foreign / "shard-0001").write_text("mine")
    inner = next(path for path in (here / "runs" / "other").iterdir() if path.is_dir())
    (inner / "2024").write_text("mine")
    done = invoke("checkpoints clean runs --yes")
    assert (done.exit_code, done.stderr) == (0, "")
    assert f"removed {kept}\n" in done.stdout
    assert "1 other files are left" in done.stdout
    left = sorted(path.name for path in (here / "runs").rglob("*") if path.is_file())
    assert left == ["2024", "shard-0001"]
    assert not kept.exists()


@pytest.mark.parametrize(("answer", "code"), [(None, 2), ("y\n", 0), ("n\n", 130)])
def test_clean__asks_on_a_terminal_and_nowhere_else(answer, code, kept, invoke, monkeypatch):
    monkeypatch.setattr("dhsic.cli.app.is_terminal", lambda stream: answer is not None)
    done = invoke("checkpoints clean runs/kept", input=answer)
    assert done.exit_code == code
    assert ("add --yes to remove them" in done.stderr) == (answer is None)
    assert kept.exists() == (code != 0)
