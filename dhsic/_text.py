"""Text as it may be shown: names of a user's data may hold anything."""

from __future__ import annotations

import re
from typing import Any

# Services have no streams, or closed ones, full ones, loggers: no reason to lose an answer.
NO_STREAM = (AttributeError, ValueError, OSError)

_LONGEST = 600

# Characters that steer a terminal, start a line, turn the direction of text, or are no text.
_STEERING = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str, keep: str = "") -> str:
    r"""A text in which control characters are spelt out, as escape sequences of a terminal are.

    Examples
    --------
    >>> print(printable("\x1b[31mred"))
    \x1b[31mred
    >>> printable("größe\n", keep="\n")
    'größe\n'
    """
    if _STEERING.search(text) is None:
        return text
    return _STEERING.sub(
        lambda match: match[0] if match[0] in keep else ascii(match[0])[1:-1], text
    )


def brief_message(text: str) -> str:
    """A message of 600 characters at most: a long list of names gives way, and a remedy stays.

    Examples
    --------
    >>> len(brief_message("there are: " + "name, " * 300 + "did you mean 'x'?"))
    600
    """
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 205]} ... {text[-200:]}"


def is_terminal(stream: Any) -> bool:
    """Whether a stream is a terminal; what is no stream at all is none."""
    try:
        stream.flush()
        return bool(stream.isatty())
    except NO_STREAM:
        return False
