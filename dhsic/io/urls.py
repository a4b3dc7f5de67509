"""Check and redact URLs, explain errors of stores, and read and write folders."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from dhsic._files import check_regular, put_new, put_whole
from dhsic._validation import nearest, shown
from dhsic.engine.checkpoint import FolderEntry
from dhsic.errors import (
    DataError,
    DhsicError,
    InvalidArgumentError,
    MissingDependencyError,
    require,
)

METADATA = ("zarr.json", ".zarray", ".zattrs", ".zgroup", ".zmetadata")
"""Files that make a folder a group or an array of zarr."""

_CREDENTIALS = re.compile(r"(?<=://)[^/\s@:]*:(?!\d+/)\S*@")
_KEYS = re.compile(r"(?<=://)[^/\s@]*:\S*@")
"""Where no port can stand, since a secret key may begin as one does: 12/..."""
_USER = re.compile(r"(?<=://)[^/\s@]+@")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S+")
_CONTAINERS = ("abfs", "abfss", "az")
_LENGTH = 200


class _Library(NamedTuple):
    """Reader of a kind of URL."""

    module: str
    extra: str
    credentials: str


_S3 = _Library(
    "s3fs",
    "s3",
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile or a role, or FSSPEC_S3_ANON=true "
    "for public data",
)
_GCS = _Library("gcsfs", "gcs", "set GOOGLE_APPLICATION_CREDENTIALS, or use a service account")
_AZURE = _Library(
    "adlfs",
    "azure",
    "set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN",
)
_HTTP = _Library("aiohttp", "http", "use the s3, gs or az URL of the data with its credentials")
_LIBRARIES = {
    **dict.fromkeys(("s3", "s3a"), _S3),
    **dict.fromkeys(("gs", "gcs"), _GCS),
    **dict.fromkeys(_CONTAINERS, _AZURE),
    **dict.fromkeys(("http", "https"), _HTTP),
}


def is_url(location: str) -> bool:
    """Whether a location is a URL, not a path of the local file system."""
    return "://" in location


def scheme_of(url: str) -> str:
    """The part of a URL before ``://``, which says what reads it."""
    return url.partition("://")[0].lower()


def redacted(text: str) -> str:
    """A text in which no URL shows a password, a token or a signature.

    Examples
    --------
    >>> redacted("GET https://me:secret@host/x.zarr?sig=abc failed")
    'GET https://***@host/x.zarr?*** failed'
    >>> redacted("abfs://container@account/x.zarr")
    'abfs://container@account/x.zarr'
    """
    return _URL.sub(lambda match: _redacted(match[0]), text)


def checked_url(url: str, what: str = "data") -> str:
    """Return a URL of something that can be read here and shown anywhere, or raise.

    Raises
    ------
    InvalidArgumentError
        It holds credentials or a query, names no bucket, or nothing reads its kind.
    MissingDependencyError
        The library that reads it is not installed.
    """
    from fsspec.registry import get_filesystem_class  # slow to import

    scheme, (_, _, place) = scheme_of(url), url.partition("://")
    library = _LIBRARIES.get(scheme)
    # Refused rather than hidden: the URL goes into plans, logs and checkpoints as it is.
    if (shown := _redacted(url)) != url:
        told = f"{what} must be a URL without user name, password or query, since it is shown"
        msg = f"{told}; got {shown!r} with one: {credentials_of(url)}"
        raise InvalidArgumentError(msg)
    if not url.isprintable():
        msg = f"a URL must have no control characters, got {url!r}: remove them"
        raise InvalidArgumentError(msg)
    if library is not None and not place.partition("/")[0]:
        what = "host" if library is _HTTP else "bucket"
        msg = f"a URL must name a {what}, as {scheme}://{what}/songs.zarr, got {url!r}"
        raise InvalidArgumentError(msg)
    try:
        get_filesystem_class(scheme)
    except ValueError:
        known = f"({', '.join(sorted(_LIBRARIES))} or another of fsspec)"
        near = nearest(scheme, _LIBRARIES)
        msg = f"a URL must be of a kind that can be read {known}, got {url!r}{near}"
        raise InvalidArgumentError(msg) from None
    except ImportError as error:
        if library is not None:
            raise require(library.module, library.extra, f"reading {scheme}:// URLs") from error
        msg = f"{url} needs a library that is not installed: {error}"
        raise MissingDependencyError(msg) from error
    # A slash at the end would name another object.
    return re.sub(r"(?<!:)/+$", "", url)


def credentials_of(url: str) -> str:
    """How to give the credentials for a URL."""
    library = _LIBRARIES.get(scheme_of(url))
    return library.credentials if library else "use the environment or settings of its library"


def _redacted(url: str) -> str:
    scheme = scheme_of(url)
    # Buckets have no port, so that a number behind a colon is part of a key there.
    has_port = _LIBRARIES.get(scheme, _HTTP) is _HTTP
    shown = (_CREDENTIALS if has_port else _KEYS).sub("***@", url)
    if scheme in _LIBRARIES and scheme not in _CONTAINERS:
        shown = _USER.sub("***@", shown)
    before, mark, query = shown.partition("?")
    return f"{before}{mark}***" if mark and not query.startswith("***") else shown


class StorageError(DataError):
    """A store does not give an object, for a reason that the message states."""


class Failure(NamedTuple):
    """Why a store did not give an object."""

    refused: bool
    """Whether it would be refused again."""
    said: str
    """The answer of the store, in a line without credentials."""
    answered: bool
    """Whether a store said it, or the way to it."""

    def remedy(self, url: str) -> str:
        """What to do, for the store of a URL."""
        if self.refused:
            return credentials_of(url)
        return "check the URL and the settings of the store, or run again when it answers"


def failure_of(error: BaseException) -> Failure:
    """Read an error of a library that reads an object store."""
    causes: list[BaseException] = []
    cause: BaseException | None = error
    # A chain of causes may come back to itself.
    while cause is not None and cause not in causes:
        causes.append(cause)
        cause = cause.__cause__
    answers = [answer for one in causes if (answer := _answer(one)) is not None]
    status, said = answers[0] if answers else (0, f"{type(error).__name__}: {error}")
    refused = status in (401, 403) or any(
        isinstance(one, PermissionError) or "Credentials" in type(one).__name__ for one in causes
    )
    text = redacted(" ".join(said.split())).rstrip(".:")
    shown = text if len(text) <= _LENGTH else f"{text[:_LENGTH]}..."
    return Failure(refused, shown, bool(answers) or refused or isinstance(error, OSError))


def storage_error(what: str, error: BaseException, url: str) -> StorageError:
    """The error of a store that did not do what was asked, with its answer and the remedy.

    It is to be raised from None: answers of stores may hold names of keys and signatures.
    """
    failure = failure_of(error)
    return StorageError(f"{what} ({failure.said}): {failure.remedy(url)}")


def _answer(error: BaseException) -> tuple[int, str] | None:
    """The HTTP status behind an error, and what the store said; None where it has none."""
    response: Any = getattr(error, "response", None)
    if isinstance(response, dict):  # of boto
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        stated = response.get("Error", {})
        code = dict.fromkeys((str(status), str(stated.get("Code"))))
        return status, f"{' '.join(code)}: {stated.get('Message')}"
    for name in ("status", "status_code", "code"):
        number = getattr(error, name, None)
        if isinstance(number, int) and 400 <= number < 600:
            return number, f"{number} {getattr(error, 'message', error)}"
    return None


# --- folders on a disk or in a store, whose files are there as a whole or not at all


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
        entries = []
        # Of a file, and in some stores of a folder, itself.
        for one in (one for one in listed if one["name"].rstrip("/") != path.rstrip("/")):
            name = one["name"].rstrip("/").rpartition("/")[2]
            # Disks and stores have names of their own for the time.
            modified = one.get("mtime") or one.get("LastModified") or one.get("created")
            modified = modified.timestamp() if hasattr(modified, "timestamp") else modified
            is_folder, size = one["type"] == "directory", int(one.get("size") or 0)
            entries.append(FolderEntry(name, is_folder, size, modified))
        return sorted(entries)

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
