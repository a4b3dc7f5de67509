"""A folder on a disk or in an object store, in which files are there as a whole or not at all."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dhsic._files import check_regular, put_new, put_whole
from dhsic._validation import shown
from dhsic.engine.checkpoint import FolderEntry
from dhsic.errors import DataError, DhsicError, InvalidArgumentError
from dhsic.io.urls import checked_url, failure_of, redacted


@dataclass(frozen=True)
class Folder:
    """A folder by its path or URL.

    Parameters
    ----------
    url : str
        An absolute path, or a URL that fsspec can open; holds no credentials.
    """

    url: str

    @classmethod
    def at(cls, url: Any, what: str) -> Folder:
        """Read a path or URL; a relative path is made absolute, for workers elsewhere.

        Raises
        ------
        InvalidArgumentError
            Neither; or of a kind that cannot be written.
        MissingDependencyError
            The library behind that kind of URL is not installed.
        """
        url = os.fspath(url) if isinstance(url, os.PathLike) else url
        if not isinstance(url, str) or not url.strip() or not url.isprintable() or "::" in url:
            what = f"{what} must be the path or URL of a folder, as runs/first or s3://bucket/first"
            told = repr(url) if isinstance(url, str) else shown(url)
            msg = f"{what}; got {redacted(told)}"
            raise InvalidArgumentError(msg)
        path = re.sub("^(file|local)://", "", url)
        if "://" not in path:
            return cls(os.path.abspath(os.path.expanduser(path)))
        return cls(checked_url(url, what))

    def __str__(self) -> str:
        return self.url

    @property
    def is_local(self) -> bool:
        """Whether it is on a disk."""
        return "://" not in self.url

    def inner(self, name: str) -> Folder:
        """A folder in it."""
        return Folder(f"{self.url}/{name}")

    def make(self) -> None:
        """Create it where it is missing; object stores have no folders."""
        if self.is_local:
            with self._opened("create"):
                # For the user alone: it holds rows of the data.
                os.makedirs(self.url, mode=0o700, exist_ok=True)

    def entries(self) -> list[FolderEntry]:
        """Names of its entries; none where it does not exist."""
        with self._opened("list") as (fs, path):
            # Listings are remembered, and other processes write here.
            fs.invalidate_cache()
            try:
                listed = fs.ls(path, detail=True)
            except FileNotFoundError:
                return []
        # Of a file, and in some stores of a folder, itself.
        here = path.rstrip("/")
        return sorted(_folder_entry(one) for one in listed if one["name"].rstrip("/") != here)

    def is_file(self) -> bool:
        """Whether a file is in its place."""
        with self._opened("look for") as (fs, path):
            return bool(fs.isfile(path))

    def read(self, name: str) -> bytes | None:
        """A file, or None where there is none."""
        with self._opened("read", name) as (fs, path), suppress(FileNotFoundError):
            if self.is_local:
                # A pipe in the place of a file would be waited for.
                check_regular(path)
            return bytes(fs.cat_file(path))
        return None

    def write(self, name: str, put: Callable[[Any], object]) -> None:
        """Write a file by a function of it, which is there when all of it is."""
        with self._opened("write to", name) as (fs, path):
            if self.is_local:
                # Forcing may take a second, and what a crash of the machine tears has a checksum.
                with put_whole(Path(self.url, name)) as partial, partial.open("xb") as file:
                    put(file)
            else:
                put(data := io.BytesIO())
                fs.pipe_file(path, data.getvalue())  # an object appears when its upload is complete

    def write_new(self, name: str, data: bytes) -> None:
        """Write a small file unless there is one.

        One of several at a time succeeds, on a disk and in stores that can be asked for it.
        """
        with self._opened("write to", name) as (fs, path):
            if self.is_local:
                put_new(Path(self.url, name), data)
            # Stores that do not know the request may replace what is there.
            elif self.read(name) is None:
                try:
                    with suppress(FileExistsError):
                        fs.pipe_file(path, data, mode="create")
                except Exception:  # of several writers the last one wins
                    fs.pipe_file(path, data)

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        with self._opened("remove from", name) as (fs, path), suppress(FileNotFoundError):
            fs.rm_file(path)

    def remove_empty(self) -> None:
        """Remove the folder itself where nothing is left in it."""
        if self.is_local:
            with suppress(OSError):
                os.rmdir(self.url)

    @contextmanager
    def _opened(self, doing: str, name: str = "") -> Iterator[tuple[Any, str]]:
        """The file system and the path of a file there, whose errors are told in words."""
        from fsspec.core import url_to_fs

        try:
            fs, path = url_to_fs(f"{self.url}/{name}" if name else self.url)
            yield fs, str(path)
        except DhsicError:
            raise
        except Exception as error:
            failure = failure_of(error)
            said, remedy = failure.said, failure.remedy(self.url)
            if self.is_local:
                said = getattr(error, "strerror", None) or said
                remedy = "check that it exists, has room and may be written"
            msg = f"cannot {doing} {self} ({said}): {remedy}"
            raise DataError(msg) from error


def _folder_entry(listing: Any) -> FolderEntry:
    # Disks and stores have names of their own for the time.
    modified = listing.get("mtime") or listing.get("LastModified") or listing.get("created")
    stamp = getattr(modified, "timestamp", None)
    return FolderEntry(
        listing["name"].rstrip("/").rpartition("/")[2],
        listing["type"] == "directory",
        int(listing.get("size") or 0),
        stamp() if stamp else modified,
    )
