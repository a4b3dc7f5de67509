"""The command as a process that is interrupted; killed ones are in `test_checkpoints.py`."""

import os
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path

import psutil
import pytest

from dhsic.io.synthetic import generate
from tests.processes import wait_until

pytestmark = pytest.mark.nightly

SCRIPT = Path(sysconfig.get_path("scripts")) / "dhsic"
PAIR = ("--variable", "features", "--variable", "year", "--kernel", "gaussian")
STUCK = """
import hashlib
from dhsic.cli import command

command._CLEANING_SECONDS = 0.2
with command.interruptible():
    print("ready", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)  # library code that no signal reaches
"""


@pytest.fixture
def start():
    """Start a process, which is killed with all that it started if a test leaves it."""
    started = []

    def run(*command):
        process = subprocess.Popen(
            [str(part) for part in command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
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


def test_interrupt__ends_workers_and_leaves_nothing(tmp_path, start):
    generate(tmp_path / "big.zarr", rows=1_000_000, features=4)
    log, out = tmp_path / "log.jsonl", tmp_path / "out"
    out.mkdir()
    options = ("--workers", 2, "--json", out / "out.json", "--log-json", log)
    process = start(SCRIPT, "test", tmp_path / "big.zarr", *PAIR, *options)
    wait_until(
        lambda: log.exists() and "block-finished" in log.read_text(), 120, "no block is done"
    )
    children = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does, to all of them
    stdout, stderr = process.communicate(timeout=120)
    assert (process.returncode, stdout, stderr.strip()) == (130, "", "dhsic: interrupted")
    assert not psutil.wait_procs(children, timeout=120)[1]
    assert not list(out.iterdir())


def test_library_code__does_not_keep_the_process(start):
    process = start(sys.executable, "-c", STUCK)
    assert process.stdout.readline() == "ready\n"
    own = psutil.Process(process.pid)
    spent = own.cpu_times().user
    wait_until(lambda: own.cpu_times().user > spent + 0.2, 120, "it does not compute")
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=120)
    assert (process.returncode, stderr) == (130, "dhsic: interrupted\n")
