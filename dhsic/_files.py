"""Read files and streams that may be anything, and write files whole or not at all."""

from __future__ import annotations

import errno
import json
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from dhsic.errors import DataError

# Services have no streams, or closed ones, full ones, loggers: no reason to lose an answer.
NO_STREAM = (AttributeError, ValueError, OSError)
_CLAIM_SECONDS = 5.0


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


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A file beside another, as of `put_whole`.

    Raises
    ------
    DataError
        The disk refuses.
    """
    with disk_errors(path), put_whole(path) as partial:
        yield partial


def write_whole(path: Path, text: str) -> None:
    """Write a text to a file.

    Raises
    ------
    DataError
        The disk refuses.
    """
    with written_whole(path) as partial:
        _write(partial, text.encode())


@contextmanager
def put_whole(path: Path) -> Iterator[Path]:
    """A file beside another, whose place it takes when the block ends well.

    Raises
    ------
    OSError
        The disk refuses.
    """
    with _temporary_beside(path) as partial:
        yield partial
        partial.replace(path)


def put_new(path: Path, data: bytes) -> None:
    """Write a small file unless there is one; of several at a time one succeeds.

    Where a disk has no hard links, as a mounted object store, others see it empty for a moment.

    Raises
    ------
    OSError
        The disk refuses.
    """
    with _temporary_beside(path) as partial, suppress(FileExistsError):
        _write(partial, data)
        try:
            # A link appears as a whole, and only where no file is.
            os.link(partial, path)
        except FileExistsError:
            raise
        except OSError:
            _claim(path, data)


def _claim(path: Path, data: bytes) -> None:
    """Write a file that is not there, or wait until another process has written it."""
    try:
        _write(path, data)
    except FileExistsError:
        # Without links a file appears empty, before its writer has filled it.
        until = time.monotonic() + _CLAIM_SECONDS
        while not path.stat().st_size and time.monotonic() < until:
            time.sleep(0.01)


@contextmanager
def disk_errors(target: Path | str) -> Iterator[None]:
    """Turn an error of the file system while writing into a `DataError` that names the target."""
    try:
        yield
    except OSError as error:
        msg = f"cannot write {target}: {error.strerror or error}"
        raise DataError(msg) from error


@contextmanager
def _temporary_beside(path: Path) -> Iterator[Path]:
    """A name for a file beside another, which is gone at the end."""
    if not path.name:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    # In the same folder, since a file moves at once within one file system alone.
    partial = path.with_name(f".{path.name}.{uuid4().hex[:8]}.partial")
    try:
        yield partial
    finally:
        with suppress(OSError):
            partial.unlink()


def _write(path: Path, data: bytes) -> None:
    with path.open("xb") as file:
        file.write(data)
        # It is on the disk before it gets its name, or a crash could leave it empty.
        file.flush()
        os.fsync(file.fileno())


def is_terminal(stream: Any) -> bool:
    """Whether a stream is a terminal; what is no stream at all is none."""
    try:
        stream.flush()
        return bool(stream.isatty())
    except NO_STREAM:
        return False
