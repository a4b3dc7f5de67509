"""The command as a process: terminals, pipes, interrupts; killed ones in `test_checkpoints.py`."""

import os
import pty
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import psutil
import pytest

from dhsic.io.synthetic import generate

pytestmark = pytest.mark.nightly

SCRIPT = Path(sysconfig.get_path("scripts")) / "dhsic"
PAIR = ("--variable", "features", "--variable", "year", "--kernel", "gaussian")
STUCK = """
import hashlib
from dhsic.cli import interrupts

interrupts._CLEANING_SECONDS = 0.2
with interrupts.interruptible():
    print("ready", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)  # library code that no signal reaches
"""


@pytest.fixture
def start():
    """Start a process, which is killed with all that it started if a test leaves it."""
    started = []

    def run(*command, stderr=subprocess.PIPE):
        process = subprocess.Popen(
            [str(part) for part in command],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        started.append(process)
        return process

    yield run
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def wait_for(condition):
    until = time.monotonic() + 120.0
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.05)


def read(terminal):
    try:
        return os.read(terminal, 65536)
    except OSError:  # what Linux says at the end of a terminal
        return b""


def test_bar__is_drawn_where_stderr_is_a_terminal(tmp_path, start):
    data, shown = tmp_path / "data.zarr", b""
    generate(data, rows=20_000, features=3, dependence=0.5)
    ours, theirs = pty.openpty()
    process = start(SCRIPT, "test", data, *PAIR, "--estimator", "nystrom-m", stderr=theirs)
    os.close(theirs)
    while chunk := read(ours):
        shown += chunk
    stdout, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    assert b"\x1b[" in shown
    assert b"estimate" in shown  # the last step, which the last frame shows on any machine
    assert stdout.startswith("variables ")
    piped = subprocess.run([SCRIPT, "test", data, *PAIR], capture_output=True, text=True)
    assert (piped.returncode, piped.stderr, "\x1b" in piped.stdout) == (0, "", False)
    closed = f"{SCRIPT} plan {data} {' '.join(PAIR)} | true"
    done = subprocess.run(closed, shell=True, capture_output=True, text=True)
    assert "Traceback" not in done.stderr


def test_interrupt__ends_workers_and_leaves_nothing(tmp_path, start):
    generate(tmp_path / "big.zarr", rows=1_000_000, features=4)
    log, out = tmp_path / "log.jsonl", tmp_path / "out"
    out.mkdir()
    options = ("--workers", 2, "--json", out / "out.json", "--log-json", log)
    process = start(SCRIPT, "test", tmp_path / "big.zarr", *PAIR, *options)
    wait_for(lambda: log.exists() and "block-finished" in log.read_text())
    children = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does, to all of them
    stdout, stderr = process.communicate(timeout=120)
    assert (process.returncode, stdout, stderr.strip()) == (130, "", "dhsic: interrupted")
    assert not psutil.wait_procs(children, timeout=120)[1]
    assert not list(out.iterdir())


def test_library_code__does_not_keep_the_process(start):
    process = start(sys.executable, "-c", STUCK)
    assert process.stdout.readline() == "ready\n"
    spent = psutil.Process(process.pid).cpu_times().user
    wait_for(lambda: psutil.Process(process.pid).cpu_times().user > spent + 0.2)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=120)
    assert (process.returncode, stderr) == (130, "dhsic: interrupted\n")
