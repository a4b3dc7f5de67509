"""Ways to wait for other processes, and ports that they may take."""

import socket
import time
from contextlib import ExitStack

import pytest


def wait_until(condition, seconds, otherwise):
    """Wait for a condition to hold, and fail with a message where it does not in time."""
    end = time.monotonic() + seconds
    while not (held := condition()):
        if time.monotonic() > end:
            shown = otherwise() if callable(otherwise) else otherwise
            pytest.fail(f"not within {seconds:g} s: {shown}")
        time.sleep(0.15)  # many conditions start a process
    return held


def free_ports(count):
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
