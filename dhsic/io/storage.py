"""Zarr in object stores: opened anew in every process by its URL, with the credentials found there.

Messages of the store are put in words here: requests that may pass are sent again, a few times;
others are an error at once.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

from zarr.storage import WrapperStore

from dhsic.engine.inventory import Stamp
from dhsic.errors import MissingDependencyError
from dhsic.io.backends import backend, listed_stamps
from dhsic.io.failures import Failure, RefusedError, StorageError, failure_of, remedy_of
from dhsic.io.stored import METADATA
from dhsic.io.urls import checked_url, scheme_of

_UNLISTED = ("http", "https")
_TRIES = 4
_PAUSE_SECONDS = 0.25
_RETRY_SECONDS = 20.0


class RemoteStore(WrapperStore):  # type: ignore[misc]
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

    def __init__(self, url: str, *, read_only: bool = True, fills: bool = False) -> None:
        self.url = checked_url(url)
        self._read_only = read_only
        self._fills = fills or scheme_of(self.url) not in _UNLISTED
        self._opened: tuple[int, Any] | None = None

    @property
    def _store(self) -> Any:
        """The store of this process: neither connections nor event loops survive a fork."""
        # What a store has opened does not survive a fork.
        process = os.getpid()
        if self._opened is None or self._opened[0] != process:
            self._opened = process, backend(self.url, self._read_only)
        return self._opened[1]

    @property
    def read_only(self) -> bool:
        """Whether writing is refused."""
        return self._read_only

    def with_read_only(self, read_only: bool = False) -> RemoteStore:
        """The same place, to read or to write."""
        return RemoteStore(self.url, read_only=read_only, fills=self._fills)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored_store, (self.url, self._read_only, self._fills)

    def __eq__(self, other: object) -> bool:
        # Places of arrays are compared, and so their stores, to decode chunks of one array once.
        return isinstance(other, RemoteStore) and other.__reduce__() == self.__reduce__()

    def __hash__(self) -> int:
        return hash(self.url)

    def __str__(self) -> str:
        return self.url

    def __repr__(self) -> str:
        return f"RemoteStore({self.url!r})"

    async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
        """The bytes of an object, None where there is none."""
        data = await self._insist(key, lambda: self._store.get(key, prototype, byte_range))
        # Such a store lists nothing, so that an absent object may be one that was lost; an empty
        # shard would be read as an absent one.
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

    async def get_partial_values(self, prototype: Any, key_ranges: Iterable[Any]) -> list[Any]:
        """Ranges of bytes of objects."""
        gets = (self.get(key, prototype, byte_range) for key, byte_range in key_ranges)
        return await asyncio.gather(*gets)

    async def is_empty(self, prefix: str) -> bool:
        """Whether a folder holds no object."""
        # None is an absent prefix, and that is empty.
        return await self._insist(prefix, lambda: self._store.is_empty(prefix)) is not False

    async def exists(self, key: str) -> bool:
        """Whether there is such an object."""
        return bool(await self._insist(key, lambda: self._store.exists(key)))

    async def set(self, key: str, value: Any) -> None:
        """Write an object as a whole."""
        await self._insist(key, lambda: self._store.set(key, value), "take")

    async def set_if_not_exists(self, key: str, value: Any) -> None:
        """Write an object that is not there."""
        # Stores of zarr have no request for it; conversions have one writer, so that none comes
        # between.
        if not await self.exists(key):
            await self.set(key, value)

    async def delete(self, key: str) -> None:
        """Remove an object."""
        await self._insist(key, lambda: self._store.delete(key), "remove")

    async def delete_dir(self, prefix: str) -> None:
        """Remove the objects in a folder."""
        await self._insist(prefix, lambda: self._store.delete_dir(prefix), "remove")

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Names of the objects in a folder and in those within it."""
        for name in await self._listed(prefix, lambda: self._store.list_prefix(prefix)):
            yield name

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Names of the objects and folders in a folder."""
        for name in await self._listed(prefix, lambda: self._store.list_dir(prefix)):
            yield name

    async def stamps(self, prefix: str) -> dict[str, Stamp] | None:
        """The objects under a prefix; None where the store lists none, or not to this user.

        Such a store does not say either that an object is absent: reading it is an error.
        """
        if scheme_of(self.url) in _UNLISTED:
            return None
        try:
            return await self._insist(prefix, lambda: listed_stamps(self._store, prefix)) or {}
        except RefusedError:
            return None

    async def _listed(self, prefix: str, ask: Callable[[], AsyncIterator[str]]) -> list[str]:
        async def names() -> list[str]:
            return [name async for name in ask()]

        return await self._insist(prefix, names) or []

    async def _insist(self, key: str, ask: Callable[[], Awaitable[Any]], verb: str = "give") -> Any:
        """Ask again for what may pass; the libraries below have tried already in their ways."""
        began = time.monotonic()
        tries = 0
        while True:
            try:
                await self._store._ensure_open()
                return await ask()
            except MissingDependencyError:
                raise
            except Exception as error:
                failure = failure_of(error)
                # What an absent chunk means is for zarr to say.
                if failure.kind == "absent" and verb == "give":
                    return None
                tries += 1
                late = time.monotonic() - began > _RETRY_SECONDS
                if failure.kind != "passing" or tries == _TRIES or late:
                    # Not from the error: answers of stores may hold names of keys and signatures.
                    refused = RefusedError if failure.kind == "refused" else StorageError
                    raise refused(self._in_words(key, failure, tries, verb)) from None
            # Longer each time and by chance, so that many workers do not ask at once.
            await asyncio.sleep(_PAUSE_SECONDS * 2**tries * random.uniform(0.5, 1.0))

    def _in_words(self, key: str, failure: Failure, tries: int, verb: str) -> str:
        place = f"{self.url}/{key}" if key else self.url
        tried = f"given up after {tries} tries; " if failure.kind == "passing" else ""
        remedy = remedy_of(failure, self.url)
        return f"the store does not {verb} {place} ({failure.said}): {tried}{remedy}"


async def stamps_of(store: Any, prefix: str) -> dict[str, Stamp] | None:
    """The objects of any zarr store under a prefix; None where it cannot be listed."""
    if isinstance(store, RemoteStore):
        return await store.stamps(prefix)
    return await listed_stamps(store, prefix) if store.supports_listing else None


def _restored_store(url: str, read_only: bool, fills: bool) -> RemoteStore:
    return RemoteStore(url, read_only=read_only, fills=fills)
