"""Commands of manifests, run on loopback with paths and addresses of a test."""

import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.cluster.slurm import path_without_bokeh

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def make_certificates(folder):
    subprocess.run([DEPLOY / "tls" / "make-certificates.sh", folder], check=True, timeout=60)
    return folder


def replaced(text, replacements):
    """Replace in one go, longest first, so that nothing is replaced twice."""
    longest = sorted(replacements, key=len, reverse=True)
    return re.sub("|".join(map(re.escape, longest)), lambda m: replacements[m[0]], text)


def played(command, replacements, scratch):
    """Run a command, words and an environment, until it ends."""
    words, environment = _placed(command, replacements, scratch)
    return subprocess.run(
        words,
        env=environment,
        cwd=scratch,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@contextmanager
def started(servers, replacements, scratch):
    """Start servers that are gone when the block ends."""
    processes = []
    try:
        for number, server in enumerate(servers):
            words, environment = _placed(server, replacements, scratch)
            with (scratch / f"server-{number}.log").open("wb") as log:
                command = [*words, "--host=127.0.0.1"]
                processes.append(
                    subprocess.Popen(
                        command,
                        env=environment,
                        cwd=scratch,
                        stdout=log,
                        stderr=log,
                        start_new_session=True,
                    )
                )
        yield
    finally:
        for process in processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)


def _placed(command, replacements, scratch):
    words, environment = command
    path = f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}"
    placed = {name: replaced(value, replacements) for name, value in environment.items()}
    ours = {"PATH": path, "PYTHONPATH": path_without_bokeh(scratch / "path")}
    return [replaced(word, replacements) for word in words], {**os.environ, **ours, **placed}
