"""Object stores by their URLs, with the credentials that every process finds by itself."""

from __future__ import annotations

from typing import Any

from fsspec.core import url_to_fs
from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper
from zarr.storage import FsspecStore

from dhsic.io.urls import METADATA, StorageError, checked_url, scheme_of

_UNLISTED = ("http", "https")
# It asks for the size of every object first otherwise, and asks again beside boto, which does.
_S3_OPTIONS = {"max_concurrency": 1, "config_kwargs": {"retries": {"max_attempts": 1}}}


class _WholeStore(FsspecStore):  # type: ignore[misc]
    """A store that cannot be listed, so that no inventory tells which chunks were lost."""

    async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
        """The bytes of an object; those of a chunk must be there."""
        data = await super().get(key, prototype, byte_range)
        if (data is None or not len(data)) and key.rpartition("/")[2] not in METADATA:
            msg = (
                f"stored chunk {self.path}/{key} is absent or empty: complete the data; or, if it "
                "holds the fill value alone, allow it by --allow-missing-chunks "
                "(dhsic.stored_array(..., allow_missing_chunks=True))"
            )
            raise StorageError(msg)
        return data


def remote_store(url: str, *, read_only: bool = True, fills: bool = False) -> Any:
    """A zarr store at a URL.

    Parameters
    ----------
    url : str
        URL of a folder; holds no credentials.
    read_only : bool, optional
        Refuse to write.
    fills : bool, optional
        Whether chunks that are absent are read as the fill value where the store cannot be listed;
        else reading one is an error.
    """
    fs, path = file_system(url)
    unlisted = scheme_of(url) in _UNLISTED
    kind = _WholeStore if unlisted and not fills else FsspecStore
    # By threads, so that fsspec keeps its own event loop and ends its connections.
    store = kind(AsyncFileSystemWrapper(fs, asynchronous=True), read_only=read_only, path=path)
    store.supports_listing = not unlisted
    return store


def file_system(url: str) -> tuple[Any, str]:
    """The file system of fsspec behind a URL, and the path there."""
    options: dict[str, Any] = _S3_OPTIONS if scheme_of(url) in ("s3", "s3a") else {}
    fs, path = url_to_fs(checked_url(url), skip_instance_cache=True, **options)
    return fs, str(path).rstrip("/")
