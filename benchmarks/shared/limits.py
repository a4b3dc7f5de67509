"""A call in a fresh process, within limits of time and of resident memory."""

from __future__ import annotations

import math
import multiprocessing
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import psutil

from dhsic.engine.runtime import forget_peak, high_water_bytes

Call = Callable[[], Any]

POLL_SECONDS = 0.01
PATIENCE = 10.0
TIME, MEMORY = "time", "memory"


@dataclass(frozen=True)
class Measured:
    """What a call gave and took, or what stopped it: "time", "memory" or "error: ..."."""

    value: Any
    stopped: str
    seconds: float
    processor_seconds: float
    start_bytes: int
    """Resident when the call began."""
    peak_bytes: int
    """The most since then: the system's high-water mark, or what is seen 100 times a second."""


class Stopped(Exception):
    """Why there is no value."""


def measure(prepare: Callable[[], Call], seconds: float, memory: int) -> Measured:
    """Prepare a call in a process of its own, then call it within processor seconds and bytes.

    A call that waits has ten times as long by the clock.

    Neither the time nor the peak of `prepare`, which imports and reads, is counted; what it leaves
    in memory is.
    """
    context = multiprocessing.get_context("spawn")
    answers, theirs = context.Pipe()
    process = context.Process(target=_child, args=(theirs, prepare))
    process.start()
    theirs.close()
    watch = _Watch(answers, psutil.Process(process.pid))
    try:
        return _called(watch, seconds, memory)
    finally:
        process.kill()
        process.join()
        answers.close()


def _child(answers: Connection, prepare: Callable[[], Call]) -> None:
    try:
        call = prepare()
        answers.send(forget_peak())
        answers.recv()
        answers.send(call())
    except Exception as error:
        answers.send(Stopped(f"error: {type(error).__name__}: {error}"))
    answers.recv()  # alive until its times are read


def _called(watch: _Watch, seconds: float, memory: int) -> Measured:
    value, stopped, start = None, "", 0
    began, before = time.perf_counter(), 0.0
    try:
        watch.exact = watch.answer(math.inf, math.inf)
        start = watch.peak = watch.resident
        began, before = time.perf_counter(), watch.processor
        watch.answers.send(None)
        value = watch.answer(seconds, memory)
    except Stopped as why:
        stopped = str(why)
    elapsed = time.perf_counter() - began
    return Measured(value, stopped, elapsed, watch.processor - before, start, watch.peak)


class _Watch:
    """Waits for the answers of a process, and stops waiting at a limit."""

    def __init__(self, answers: Connection, process: psutil.Process) -> None:
        self.answers, self.process = answers, process
        self.resident, self.peak, self.processor = 0, 0, 0.0
        self.exact = False

    def answer(self, seconds: float, memory: float) -> Any:
        self._look()
        began, until = time.perf_counter(), self.processor + seconds
        answered = False
        while not answered:
            answered = self.answers.poll(POLL_SECONDS)
            self._look()
            if self.peak > memory:
                raise Stopped(MEMORY)
            if self.processor > until or time.perf_counter() - began > PATIENCE * seconds:
                raise Stopped(TIME)
        return self._received()

    def _look(self) -> None:
        with suppress(psutil.NoSuchProcess), self.process.oneshot():
            self.resident = self.process.memory_info().rss
            highest = (self.exact and high_water_bytes(self.process.pid)) or 0
            self.peak = max(self.peak, self.resident, highest)
            self.processor = sum(self.process.cpu_times()[:2])

    def _received(self) -> Any:
        try:
            answer = self.answers.recv()
        except EOFError:
            msg = "error: the process died"
            raise Stopped(msg) from None
        if isinstance(answer, Stopped):
            raise answer
        return answer
