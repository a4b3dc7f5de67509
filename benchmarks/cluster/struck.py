"""Faults of `dhsic test --workers 2` as its user meets them: same bits or one error, and when.

The command is a process, struck from outside while its workers start or at a block that is drawn:
workers are killed, ended or frozen, or the command itself is told to end. What is counted are the
seconds from there to its end, and processes that it leaves behind. A command that was told to end
is given again, and goes on from its checkpoint. Columns are those of `chaos`; `left` counts
processes that were left.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks.cluster.chaos import counts
from benchmarks.study import Cell, Row, Study
from dhsic.io.synthetic import generate

_START_SECONDS, _LEFT_SECONDS, _STOP_SECONDS = 300.0, 15.0, 600.0
_ROWS, _DEADLINE = 120_000, 120.0
_TEST = (
    *("--variable", "features", "--variable", "year", "--kernel", "gaussian", "--null", "spectral"),
    *("--estimator", "nystrom-m:150"),
)

Processes = list[psutil.Process]
Strike = Callable[["Command", np.random.Generator], None]


@dataclass
class Command:
    """A test that runs, seen from outside."""

    process: subprocess.Popen[str]
    log: Path
    said: str = ""

    @classmethod
    def start(cls, data: Path, folder: Path, *words: str) -> Command:
        folder.mkdir(exist_ok=True)
        log = folder / "log.jsonl"
        log.unlink(missing_ok=True)
        files = ("--json", str(folder / "out.json"), "--overwrite", "--log-json", str(log))
        process = subprocess.Popen(
            [sys.executable, "-m", "dhsic", "test", str(data), *_TEST, *files, *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            # What a shell starts in the background ignores interrupts, and so do its children.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        )
        return cls(process, log)

    def workers(self) -> Processes:
        with suppress(psutil.NoSuchProcess):
            children = psutil.Process(self.process.pid).children(recursive=True)
            return [one for one in children if "spawn_main" in " ".join(words_of(one))]
        return []

    def blocks(self) -> int:
        return self.log.read_text().count('"block-finished"') if self.log.exists() else 0

    def reaches(self, condition: Callable[[], bool]) -> bool:
        until = time.monotonic() + _START_SECONDS
        while self.process.poll() is None and time.monotonic() < until:
            if condition():
                return True
            time.sleep(0.05)
        return False


def words_of(process: psutil.Process) -> list[str]:
    with suppress(psutil.Error):
        return process.cmdline()
    return []


def send(processes: Processes, number: signal.Signals) -> None:
    for one in processes:
        with suppress(psutil.NoSuchProcess):
            one.send_signal(number)


def to_one(number: signal.Signals) -> Strike:
    def strike(command: Command, rng: np.random.Generator) -> None:
        workers = command.workers()
        send([workers[rng.integers(len(workers))]] if workers else [], number)

    return strike


def to_all(number: signal.Signals) -> Strike:
    return lambda command, _: send(command.workers(), number)


def to_command(number: signal.Signals) -> Strike:
    return lambda command, _: command.process.send_signal(number)


def stop_for_a_while(command: Command, rng: np.random.Generator) -> None:
    workers = command.workers()
    send(workers, signal.SIGSTOP)
    time.sleep(rng.uniform(1.0, 8.0))
    send(workers, signal.SIGCONT)


@dataclass(frozen=True)
class Kind:
    """What is done, and when."""

    strike: Strike
    starting: bool = False
    ends: bool = False


KINDS = {
    "a worker killed": Kind(to_one(signal.SIGKILL)),
    "all workers killed": Kind(to_all(signal.SIGKILL)),
    "a worker told to end": Kind(to_one(signal.SIGTERM)),
    "a worker killed while it starts": Kind(to_one(signal.SIGKILL), starting=True),
    "all workers stopped for a while": Kind(stop_for_a_while),
    "a worker frozen": Kind(to_one(signal.SIGSTOP)),
    "all workers frozen": Kind(to_all(signal.SIGSTOP)),
    "a worker frozen while it starts": Kind(to_one(signal.SIGSTOP), starting=True),
    "the command told to end": Kind(to_command(signal.SIGTERM), ends=True),
    "the command interrupted": Kind(to_command(signal.SIGINT), ends=True),
}


class Trials:
    """Strikes a test with one fault after the other."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.data = self.folder / "data.zarr"
        generate(self.data, rows=_ROWS, features=20)
        quiet = Command.start(self.data, self.folder / "quiet", "--threads", "1")
        _, said = quiet.process.communicate()
        self.expected = bits(self.folder / "quiet" / "out.json")
        assert self.expected is not None, said
        self.blocks = quiet.blocks()

    def __call__(self, kind: Kind, number: int) -> dict[str, Any]:
        """What came of a fault."""
        rng, folder = np.random.default_rng(number), self.folder / f"{number}"
        words = "--workers", "2", "--memory", "500MB", "--checkpoint", str(folder / "kept")
        command = Command.start(self.data, folder, *words)
        block = 0 if kind.starting else int(rng.integers(1, self.blocks))
        when = (lambda: len(command.workers()) == 2) if kind.starting else self._at(command, block)
        struck = command.reaches(when)
        if kind.starting:
            time.sleep(rng.uniform(0.0, 2.0))
        known = command.workers()
        began = time.monotonic()
        if struck:
            kind.strike(command, rng)
        outcome = self._outcome(command, folder)
        seconds = time.monotonic() - began
        _, alive = psutil.wait_procs(known, _LEFT_SECONDS)
        again = ""
        if kind.ends and outcome == "error":
            again = self._outcome(Command.start(self.data, folder, *words), folder, _STOP_SECONDS)
        return {
            "number": number,
            "struck": struck,
            "same": "identical" in (outcome, again) and not alive,
            "error": outcome == "error" and again in ("", "identical") and not alive,
            "seconds": seconds,
            "left": len(alive),
        }

    def _at(self, command: Command, block: int) -> Callable[[], bool]:
        return lambda: command.blocks() >= block

    def _outcome(self, command: Command, folder: Path, seconds: float | None = None) -> str:
        try:
            _, command.said = command.process.communicate(timeout=seconds or _DEADLINE)
        except subprocess.TimeoutExpired:
            os.killpg(command.process.pid, signal.SIGKILL)
            command.process.communicate()
            return "hang"
        if command.process.returncode == 0:
            return "identical" if bits(folder / "out.json") == self.expected else "different"
        lines = command.said.strip().splitlines()
        return "error" if len(lines) == 1 and lines[0].startswith("dhsic: ") else "traceback"


def bits(path: Path) -> Any:
    """Statistic, p-value and replicates of a result, as they are written."""
    with suppress(OSError):
        found = json.loads(path.read_text())
        return found["statistic"], found["pvalue"], found["null_distribution"]
    return None


trials = cache(Trials)


def measure(cell: Cell, run: int) -> dict[str, Any]:
    """One fault."""
    number = run * len(KINDS) + list(KINDS).index(cell.method)
    return trials()(cell.test, number)


def rows(cell: Cell, found: Sequence[Row]) -> Iterator[Row]:
    (counted,) = counts(cell, found)
    yield {**counted, "left": sum(one["left"] for one in found)}


STUDY = Study(
    name="struck",
    title="Does a command whose workers are killed, stopped or frozen end within two minutes?",
    data={"dhsic test --workers 2": None},
    methods=KINDS,
    sizes=(_ROWS,),
    measure=measure,
    columns=("struck", "same", "error", "wrong", "longest seconds", "left"),
    runs=6,
    rows=rows,
    small={"methods": ["a worker killed"]},
)
