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

Call = Callable[[], Any]

POLL_SECONDS = 0.01
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
    """The most that was seen from the start of the process, a hundred times a second."""


class Stopped(Exception):
    """Why there is no value."""


def measure(prepare: Callable[[], Call], seconds: float, memory: int) -> Measured:
    """Prepare a call in a process of its own, then call it within the limits.

    The time of `prepare`, which imports and reads, is not counted; its memory is.
    """
    context = multiprocessing.get_context("spawn")
    answers, theirs = context.Pipe()
    process = context.Process(target=_child, args=(theirs, prepare))
    process.start()
    theirs.close()
    watch = _Watch(answers, psutil.Process(process.pid), memory)
    try:
        return _called(watch, seconds)
    finally:
        process.kill()
        process.join()
        answers.close()


def _child(answers: Connection, prepare: Callable[[], Call]) -> None:
    try:
        call = prepare()
        answers.send(None)
        answers.send(call())
    except Exception as error:
        answers.send(Stopped(f"error: {type(error).__name__}: {error}"))
    answers.recv()  # alive until its times are read


def _called(watch: _Watch, seconds: float) -> Measured:
    value, stopped = None, ""
    began, start, before = time.perf_counter(), 0, 0.0
    try:
        watch.answer(math.inf)
        began, start, before = time.perf_counter(), watch.resident, watch.processor
        value = watch.answer(seconds)
    except Stopped as why:
        stopped = str(why)
    elapsed = time.perf_counter() - began
    return Measured(value, stopped, elapsed, watch.processor - before, start, watch.peak)


class _Watch:
    """Waits for the answers of a process, and stops waiting at a limit."""

    def __init__(self, answers: Connection, process: psutil.Process, memory: int) -> None:
        self.answers, self.process, self.memory = answers, process, memory
        self.resident, self.peak, self.processor = 0, 0, 0.0

    def answer(self, seconds: float) -> Any:
        began = time.perf_counter()
        answered = False
        while not answered:
            answered = self.answers.poll(POLL_SECONDS)
            self._look()
            if self.peak > self.memory or time.perf_counter() - began > seconds:
                raise Stopped(MEMORY if self.peak > self.memory else TIME)
        return self._received()

    def _look(self) -> None:
        with suppress(psutil.NoSuchProcess), self.process.oneshot():
            self.resident = self.process.memory_info().rss
            self.peak = max(self.peak, self.resident)
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
