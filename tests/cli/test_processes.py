"""The command as a process: terminals, pipes, signals."""

import os
import pty
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from dhsic.cli.interrupts import interruptible
from tests.cli.conftest import heed_interrupts

SCRIPT = Path(sysconfig.get_path("scripts")) / "dhsic"
PAIR = ("--variable", "features", "--variable", "year", "--kernel", "gaussian")


@pytest.fixture
def running() -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that are killed, with all that they started, if a test leaves them."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def start(*command: object, stderr: int = subprocess.PIPE) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        start_new_session=True,
        preexec_fn=heed_interrupts,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "80"},
    )


def wait_for(condition: object, seconds: float = 120.0) -> None:
    assert callable(condition)
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.05)


def workers(process: subprocess.Popen[str]) -> list[psutil.Process]:
    children = psutil.Process(process.pid).children(recursive=True)
    return [child for child in children if "spawn_main" in " ".join(child.cmdline())]


def busy(process: subprocess.Popen[str], seconds: float) -> bool:
    times = psutil.Process(process.pid).cpu_times()
    return bool(times.user > seconds)


def test_no_bar_where_stderr_is_a_pipe(long_data: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dhsic", "test", long_data, *PAIR, "--landmarks", "20"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    assert done.stdout.startswith("variables     features (3 columns, gaussian:")
    assert "\x1b" not in done.stdout


def test_a_bar_where_stderr_is_a_terminal(
    long_data: str, running: list[subprocess.Popen[str]]
) -> None:
    ours, theirs = pty.openpty()
    process = start(SCRIPT, "test", long_data, *PAIR, "--estimator", "nystrom-m", stderr=theirs)
    running.append(process)
    os.close(theirs)
    shown = b""
    while chunk := read(ours):
        shown += chunk
    os.close(ours)
    stdout, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    assert b"\x1b[" in shown
    assert b"estimate" in shown  # the last step, which the last frame shows on any machine
    assert stdout.startswith("variables ")
    assert "\x1b" not in stdout


def read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # what Linux says at the end of a terminal
        return b""


def test_a_closed_pipe_is_no_traceback(long_data: str) -> None:
    command = f"{SCRIPT} plan {long_data} {' '.join(PAIR)} | true"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr


def test_interrupt_ends_workers_and_leaves_nothing(
    big: Path, tmp_path: Path, running: list[subprocess.Popen[str]]
) -> None:
    log, out = tmp_path / "log.jsonl", tmp_path / "out"
    out.mkdir()
    command = (SCRIPT, "test", big, *PAIR, "--workers", 2, "--json", out / "out.json")
    process = start(*command, "--log-json", log)
    running.append(process)
    wait_for(lambda: log.exists() and "block-finished" in log.read_text())
    children = workers(process)
    assert len(children) == 2
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does, to all of them
    stdout, stderr = process.communicate(timeout=120)
    assert (process.returncode, stdout, stderr.strip()) == (130, "", "dhsic: interrupted")
    assert not psutil.wait_procs(children, timeout=120)[1]
    assert not list(out.iterdir())


def test_signals__are_as_they_were_afterwards() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with interruptible():
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before
    assert signal.set_wakeup_fd(-1) == -1


STUCK = """
import hashlib, multiprocessing
from dhsic.cli import interrupts

interrupts._CLEANING_SECONDS = {seconds}
with interrupts.interruptible():
    held = multiprocessing.get_context("spawn").Semaphore()  # as Dask's workers have
    print("ready", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)  # library code that no signal reaches
"""


@pytest.mark.parametrize(("seconds", "again"), [(0.2, False), (3600.0, True)])
def test_library_code_does_not_keep_the_process(
    running: list[subprocess.Popen[str]], seconds: float, again: bool
) -> None:
    process = start(sys.executable, "-c", STUCK.format(seconds=seconds))
    running.append(process)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    spent = psutil.Process(process.pid).cpu_times().user
    wait_for(lambda: busy(process, spent + 0.2))
    process.send_signal(signal.SIGINT)
    if again:  # two that come before the process runs are one
        wait_for(lambda: process.send_signal(signal.SIGINT) or process.poll() is not None)
    _, stderr = process.communicate(timeout=120)
    assert (process.returncode, stderr) == (130, "dhsic: interrupted\n")
