"""An S3 server on loopback with one bucket: moto, a process of Python on the same processors."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

BUCKET = "bucket"


@contextmanager
def running_server() -> Iterator[int]:
    """A moto server with one bucket, by its port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _make_bucket(f"http://127.0.0.1:{port}/{BUCKET}", server)
        yield port
    finally:
        server.terminate()
        server.wait(timeout=30)


def environment(port: int) -> dict[str, str]:
    """What a user of the server sets."""
    return {
        "AWS_ACCESS_KEY_ID": "AKIALEAKEDKEYID",
        "AWS_SECRET_ACCESS_KEY": "leakedSecretAccessKey",
        "AWS_SESSION_TOKEN": "leakedSessionToken",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    }


def _make_bucket(url: str, server: subprocess.Popen[bytes], patience: float = 120.0) -> None:
    """Create the bucket as soon as the server listens."""
    began = time.monotonic()
    while True:
        try:
            urllib.request.urlopen(
                urllib.request.Request(url, b"", method="PUT"), timeout=10
            ).close()
        except OSError:
            if server.poll() is not None or time.monotonic() - began > patience:
                raise
            time.sleep(0.05)
        else:
            return
