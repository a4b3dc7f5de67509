"""A zarr group under construction in an object store."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from zarr.core.sync import sync

from dhsic.errors import InvalidArgumentError
from dhsic.io.storage import RemoteStore
from dhsic.io.urls import scheme_of
from dhsic.io.whole import Destination

_METADATA = "zarr.json"


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
