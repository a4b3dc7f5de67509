"""Files that may hold anything, or be none: read so that they neither hang nor exhaust Python."""

from __future__ import annotations

import errno
import json
import os
import stat
from typing import Any


def parse_json(text: str | bytes, **options: Any) -> Any:
    """Read JSON as `json.loads`; brackets in brackets without end are a ValueError too.

    Examples
    --------
    >>> parse_json("[1, 2]")
    [1, 2]
    """
    try:
        return json.loads(text, **options)
    # A file of brackets within brackets.
    except RecursionError:
        msg = "it has too many brackets within each other"
        raise ValueError(msg) from None


def check_regular(path: str | os.PathLike[str]) -> None:
    """Refuse a pipe, a socket or a device, which would wait for somebody who writes to it.

    Raises
    ------
    OSError
        It is one; or nothing is there, or it may not be seen.
    """
    # A pipe would be waited for, and a device may have no end.
    mode = os.stat(path).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise OSError(errno.EINVAL, "it is a pipe or a device, not a file", os.fspath(path))
