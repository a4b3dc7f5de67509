"""Zarr in object stores: opened anew in every process by its URL, with the credentials found there.

File systems of fsspec ask again by rules of their own, or not at all, as that of https: requests
that may pass are sent again here, a few times, and messages of the store are put in words.
"""

from __future__ import annotations

import asyncio
import os
import random
import tempfile
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any

from zarr.abc.store import Store
from zarr.core.sync import sync
from zarr.storage import FsspecStore

from dhsic.errors import InvalidArgumentError, MissingDependencyError
from dhsic.io.chunks import METADATA
from dhsic.io.urls import RefusedError, StorageError, checked_url, failure_of, scheme_of
from dhsic.io.whole import Destination

_UNLISTED = ("http", "https")
_ABSENT = (FileNotFoundError, IsADirectoryError, NotADirectoryError)
_VERBS = {"_pipe_file": "take", "_rm": "remove"}
_TRIES = 4
_PAUSE_SECONDS = 0.25
_RETRY_SECONDS = 20.0
_CLOSE_SECONDS = 2.0
_METADATA = "zarr.json"


class RemoteStore(FsspecStore):  # type: ignore[misc]
    """A zarr store at a URL, which is all that is pickled of it.

    Parameters
    ----------
    url : str
        URL of a folder; holds no credentials.
    read_only : bool, optional
        Refuse to write.
    fills : bool, optional
        Whether chunks that are absent are read as the fill value where the store cannot be listed,
        so that no inventory tells of them; else reading one is an error.
    """

    allowed_exceptions = _ABSENT

    def __init__(self, url: str, *, read_only: bool = True, fills: bool = False) -> None:
        Store.__init__(self, read_only=read_only)
        self.url = checked_url(url)
        self.supports_listing = scheme_of(self.url) not in _UNLISTED
        self._fills = fills or self.supports_listing
        self._files: tuple[int, Any] = 0, None

    @property
    def fs(self) -> Any:
        """The file system of this process: neither connections nor event loops survive a fork."""
        if self._files[0] != os.getpid():
            self._files = os.getpid(), _FileSystem(self.url)
        return self._files[1]

    @property
    def path(self) -> Any:
        """The folder, as its file system names it."""
        return self.fs.root

    def with_read_only(self, read_only: bool = False) -> RemoteStore:
        """The same place, to read or to write."""
        return RemoteStore(self.url, read_only=read_only, fills=self._fills)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored_store, (self.url, self.read_only, self._fills)

    def __eq__(self, other: object) -> bool:
        # Places of arrays are compared, and so their stores, to decode chunks of one array once.
        return isinstance(other, RemoteStore) and other.__reduce__() == self.__reduce__()

    def __hash__(self) -> int:
        return hash(self.url)

    def __str__(self) -> str:
        return self.url

    async def _open(self) -> None:
        await super()._open()
        # fsspec leaves connections to the owner of the event loop.
        loop = asyncio.get_running_loop()
        weakref.finalize(self, _close, self.fs.asked, loop, os.getpid())

    async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
        """The bytes of an object, None where there is none."""
        data = await super().get(key, prototype, byte_range)
        # A store that lists nothing does not tell an object that was lost; an empty shard would be
        # read as an absent one.
        lost = not self._fills if data is None else not len(data)
        if lost and key.rpartition("/")[2] not in METADATA:
            msg = (
                f"stored chunk {self.url}/{key} is absent or empty: complete the data; or, where "
                "its writer left out chunks that hold the fill value alone, allow it by "
                "--allow-missing-chunks, in Python by dhsic.stored_array(..., "
                "allow_missing_chunks=True)"
            )
            raise StorageError(msg)
        return data


class _FileSystem:
    """A file system of fsspec that is asked again, and whose refusals are put in words."""

    def __init__(self, url: str) -> None:
        options: dict[str, Any] = {"skip_instance_cache": True}
        is_s3 = scheme_of(url) in ("s3", "s3a")
        if is_s3:
            options["max_concurrency"] = 1  # else it asks for the size of every object first
        try:
            store = FsspecStore.from_url(url, storage_options=options)
        except ImportError as error:
            msg = f"reading {url} needs another library: {error}"
            raise MissingDependencyError(msg) from error
        self.asked, self.root, self._url = store.fs, store.path, url
        if is_s3:
            self.asked.retries = 1  # of its own; boto tries again below it, and ours above

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.asked, name)
        return partial(self._ask, name, method) if iscoroutinefunction(method) else method

    async def _ask(self, name: str, method: Any, path: Any, *args: Any, **options: Any) -> Any:
        began = time.monotonic()
        tries = 0
        while True:
            try:
                return await method(path, *args, **options)
            except _ABSENT:
                raise
            except Exception as error:
                # Of an empty object, which zarr takes for no bytes.
                if "not satisfiable" in str(error):
                    raise
                failure = failure_of(error)
                tries += 1
                late = tries == _TRIES or time.monotonic() - began > _RETRY_SECONDS
                if failure.refused or late:
                    place = f"{self._url}{str(path).removeprefix(self.root)}".rstrip("/")
                    tried = "" if failure.refused else f"given up after {tries} tries; "
                    msg = (
                        f"the store does not {_VERBS.get(name, 'give')} {place} ({failure.said}): "
                        f"{tried}{failure.remedy(self._url)}"
                    )
                    # Not from the error: answers of stores may hold names of keys and signatures.
                    raise (RefusedError if failure.refused else StorageError)(msg) from None
            # Longer each time and by chance, so that many workers do not ask at once.
            await asyncio.sleep(_PAUSE_SECONDS * 2**tries * random.uniform(0.5, 1.0))


def _close(files: Any, loop: asyncio.AbstractEventLoop, process: int) -> None:
    """End the connections of a file system, wherever its last user is left behind."""
    session = getattr(files, "_s3creator", None) or getattr(files, "_session", None)
    # A loop that has ended, or is of another process, cannot end connections.
    if session is None or not loop.is_running() or process != os.getpid():
        return
    ended = asyncio.run_coroutine_threadsafe(session.__aexit__(None, None, None), loop)
    try:
        # On the loop itself, to wait for it would be to wait for ever.
        asyncio.get_running_loop()
    except RuntimeError:
        with suppress(TimeoutError):
            ended.result(_CLOSE_SECONDS)


def _restored_store(url: str, read_only: bool, fills: bool) -> RemoteStore:
    return RemoteStore(url, read_only=read_only, fills=fills)


@contextmanager
def uploading(url: str, overwrite: bool) -> Iterator[Destination]:
    """Write to an object store; on an exception, remove what was written.

    Raises
    ------
    InvalidArgumentError
        The URL cannot be written to, something is there, or it should be replaced.
    StorageError
        The store refuses.
    """
    store = Upload(url)
    if scheme_of(url) in ("http", "https"):
        msg = f"the destination must be a path or the URL of an object store, got {url!r}: use that"
        raise InvalidArgumentError(msg)
    if overwrite:
        msg = (
            f"an object store cannot replace a group at once, so {url!r} is not overwritten: "
            "remove what is there, or choose another destination"
        )
        raise InvalidArgumentError(msg)
    if not sync(store.is_empty("")):
        msg = f"{store.url!r} holds objects already: choose another destination, or remove them"
        raise InvalidArgumentError(msg)
    # Shuffling needs a disk, which a store is not.
    with tempfile.TemporaryDirectory(prefix="dhsic-") as scratch:
        try:
            yield Destination(Path(scratch), store, store.url)
            sync(store.publish())
        # An interrupt leaves nothing, either.
        except BaseException:
            with suppress(Exception):  # chunks alone do not open
                sync(store.withdraw())
            raise


class Upload(RemoteStore):
    """Keeps the metadata back until all chunks are written.

    Parameters
    ----------
    url : str
        URL of a folder in an object store.
    """

    def __init__(self, url: str) -> None:
        super().__init__(url, read_only=False)
        self._metadata: dict[str, Any] = {}

    async def publish(self) -> None:
        """Write the metadata, that of the group last."""
        # The longest names first, so that what makes the group open comes last.
        for key in sorted(self._metadata, key=len, reverse=True):
            await super().set(key, self._metadata[key])

    async def withdraw(self) -> None:
        """Remove what was written, first what makes it open; an interrupted publishing ends."""
        self._metadata.clear()
        # First, so that what is left over for a moment does not open as a group.
        await self.delete(_METADATA)
        await self.delete_dir("")

    async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
        """The part that is kept back, or the file in the store."""
        if key in self._metadata:
            return self._metadata[key]
        return await super().get(key, prototype, byte_range)

    async def exists(self, key: str) -> bool:
        """Whether it is kept back, or in the store."""
        return key in self._metadata or await super().exists(key)

    async def set(self, key: str, value: Any) -> None:
        """Write a chunk, or keep metadata back."""
        if key.rpartition("/")[2] == _METADATA:
            self._metadata[key] = value
        else:
            await super().set(key, value)

    def with_read_only(self, read_only: bool = False) -> Upload:
        """Itself: what is under construction is written."""
        del read_only
        return self
