"""Programs of a queue, whose failures are errors in a line."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from dhsic.errors import ClusterError

_SECONDS = 60.0
_SHOWN = 200


def call(words: Sequence[str], missing: str, given: str | None = None) -> str:
    """Run a program and return what it prints.

    Parameters
    ----------
    words : sequence of str
        The program and its arguments.
    missing : str
        Remedy where the program is absent.
    given : str, optional
        Its standard input.

    Returns
    -------
    str
        Its standard output.

    Raises
    ------
    ClusterError
        It is not there, it failed or it did not answer.
    """
    program = words[0]
    try:
        # An empty input, or a program that asks a question would wait for the terminal.
        done = subprocess.run(
            words, input=given or "", capture_output=True, text=True, timeout=_SECONDS, check=True
        )
    except OSError as error:
        msg = f"{program} is needed and cannot be started ({error.strerror}): {missing}"
        raise ClusterError(msg) from error
    except subprocess.TimeoutExpired as error:
        msg = f"{program} did not answer within {_SECONDS:g} s: try again later"
        raise ClusterError(msg) from error
    except subprocess.CalledProcessError as error:
        # Some programs state the reason on stdout.
        said = " ".join((error.stderr or error.stdout or "no reason given").split())
        msg = f"{program} failed with exit code {error.returncode}: {said[:_SHOWN]}"
        raise ClusterError(msg) from error
    return done.stdout
