"""Folders of checkpoints, wherever they lie."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

# Hidden names that no shard has, with a random part, so that two writers do not meet.
_PARTIAL = re.compile(r"\.[^/]*\.[0-9a-f]{8}\.partial")


class FolderEntry(NamedTuple):
    """A file of a folder, or a folder in it."""

    name: str
    is_folder: bool
    size: int
    modified: float | None
    """Seconds since 1970, where the store says so."""

    @property
    def is_partial(self) -> bool:
        """Whether it is what an interrupted write has left."""
        return _PARTIAL.fullmatch(self.name) is not None


class AnyFolder(Protocol):
    """A folder somewhere, as a frozen value; what it refuses is a DataError."""

    def __hash__(self) -> int: ...

    def inner(self, name: str) -> AnyFolder:
        """A folder in it."""
        ...

    def make(self) -> None:
        """Create it where it is missing."""
        ...

    def is_file(self) -> bool:
        """Whether a file is in its place."""
        ...

    def entries(self) -> list[FolderEntry]:
        """Names of its entries; none where it does not exist."""
        ...

    def read(self, name: str) -> bytes | None:
        """A small file, or None where there is none."""
        ...

    def open(self, name: str) -> AbstractContextManager[Any]:
        """A file to read from, or None where there is none."""
        ...

    def write(self, name: str, parts: Iterable[bytes | memoryview]) -> None:
        """Write a file, which is there when all of it is; a crash of the machine may tear it."""
        ...

    def write_new(self, name: str, data: bytes) -> None:
        """Write a small file unless there is one."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        ...

    def remove_empty(self) -> None:
        """Remove the folder itself where nothing is left in it."""
        ...
