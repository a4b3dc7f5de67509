"""Ctrl-C and termination end a command within seconds, wherever it is."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

# Shells report 128 + 2 for a program that SIGINT ended.
_EXIT_CODE = 130
# Workers and folders are cleaned up in this time; a library that holds the lock is not waited for.
_CLEANING_SECONDS = 3.0
_LEAVING_SECONDS = 2.0
_BACK = b"\0"
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
# Python passes this variable on to processes that it starts.
_WARNINGS = "PYTHONWARNINGS"
_LEAKS = "ignore:resource_tracker:UserWarning"
_last: list[str | Callable[[], None]] = ["interrupted"]


@contextmanager
def at_the_end(last: str | Callable[[], None]) -> Iterator[None]:
    """Say this, or do it, before the process is ended because nothing else gets through."""
    _last.append(last)
    try:
        yield
    finally:
        _last.remove(last)


@contextmanager
def interruptible() -> Iterator[None]:
    """Let SIGTERM act like Ctrl-C, and end the process where neither gets through.

    Python raises `KeyboardInterrupt` only when the main thread comes back from library code, and
    before it exits it waits for threads that are in a task. A factorisation can take longer than
    anyone waits, so a thread that sees the signal at once ends the process after three seconds, or
    at a second signal. Worker processes end with the process that started them.
    """
    # Python delivers signals to the main thread alone.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    inner, outer = socket.socketpair()
    # A full pipe must not hold the signal's handler up.
    outer.setblocking(False)
    # Schedulers end jobs by SIGTERM, whose default ends Python without any `finally`.
    handler = signal.signal(signal.SIGTERM, _interrupt)
    # The number of every signal is written here by the interpreter, even in library code.
    wakeup = signal.set_wakeup_fd(outer.fileno(), warn_on_full_buffer=False)
    watch = threading.Thread(target=_watch, args=(inner, outer), name="interrupts", daemon=True)
    watch.start()
    # Python's resource tracker, a process of its own, removes the semaphores of a process that was
    # ended, and would warn of each; it takes warnings from the environment.
    if _LEAKS not in (given := os.environ.get(_WARNINGS, "")):
        os.environ[_WARNINGS] = f"{given},{_LEAKS}".lstrip(",")
    try:
        yield
    finally:
        signal.set_wakeup_fd(wakeup)
        signal.signal(signal.SIGTERM, handler)
        outer.send(_BACK)


def _interrupt(number: int, frame: Any) -> None:
    del number, frame
    raise KeyboardInterrupt


def _watch(inner: socket.socket, outer: socket.socket) -> None:
    with inner, outer:
        while (received := inner.recv(1)) != _BACK:
            if received[0] in _SIGNALS:
                _end_process(inner)


def _end_process(inner: socket.socket) -> None:
    """End the process, unless it does so by itself in time."""
    inner.settimeout(_CLEANING_SECONDS)
    with suppress(TimeoutError):
        if inner.recv(1) == _BACK:
            # The command came back in time, and exits by itself unless threads keep it.
            time.sleep(_LEAVING_SECONDS)
            os._exit(_EXIT_CODE)
    words = ""
    # A copy: an act may be taken back by the main thread meanwhile.
    for last in list(_last):
        if isinstance(last, str):
            words = last
            continue
        with suppress(Exception):
            last()
    # Not by `print`: the main thread may hold the lock of the stream.
    # Where there is no stderr, 2 may be the number of a file of the user.
    with suppress(OSError):
        os.write(-1 if sys.__stderr__ is None else 2, f"dhsic: {words}\n".encode())
    # Not by `sys.exit`, which waits for threads.
    os._exit(_EXIT_CODE)
