"""The libraries that read object stores: obstore for S3 where it is installed, else fsspec.

Both were measured beside the local disk.
"""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from typing import Any

from fsspec.config import conf
from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.storage import FsspecStore, ObjectStore

from dhsic.engine.inventory import Stamp
from dhsic.errors import MissingDependencyError
from dhsic.io.urls import scheme_of

_CLOSE_SECONDS = 2.0
_PAGE = 1000
_CREDENTIALS_LAST = timedelta(minutes=15)
_MARKS = ("ETag", "etag", "e_tag", "md5Hash", "last_modified", "LastModified", "updated", "created")
_CLIENT = {"allow_http": True, "connect_timeout": "5s", "read_timeout": "30s", "timeout": "600s"}
_RETRY = {"max_retries": 5, "retry_timeout": timedelta(seconds=60)}


_first_user: list[int] = []


def backend(url: str, read_only: bool) -> Any:
    """A zarr store by obstore where it can be, by fsspec otherwise.

    Settings of fsspec for S3 are followed by fsspec alone; and the threads of obstore do not
    survive a fork.
    """
    possible = _is_s3(url) and find_spec("obstore") is not None
    told = set(conf.get("s3", {})) - {"anon"}
    forked = _first_user and _first_user[0] != os.getpid()
    if possible and not told and not forked:
        return by_obstore(url, read_only)
    return by_fsspec(url, read_only)


def by_fsspec(url: str, read_only: bool) -> Any:
    """A zarr store by fsspec."""
    options: dict[str, Any] = {"skip_instance_cache": True}
    if _is_s3(url):
        options["max_concurrency"] = 1  # else it asks for the size of every object first
    try:
        store = _Fsspec.from_url(
            url, storage_options=options, read_only=read_only, allowed_exceptions=()
        )
    except ImportError as error:
        msg = f"reading {url} needs another library: {error}"
        raise MissingDependencyError(msg) from error
    if _is_s3(url):
        store.fs.retries = 1  # of its own; boto tries again below it, and ours above
    return store


def by_obstore(url: str, read_only: bool) -> Any:
    """A zarr store by obstore, with the credentials that boto finds where it is installed."""
    from obstore.store import S3Store

    # The process that began to use obstore, whose threads no fork has.
    _first_user[:] = _first_user or [os.getpid()]
    bucket, _, prefix = url.partition("://")[2].partition("/")
    store = S3Store(
        bucket,
        prefix=prefix or None,
        client_options=_CLIENT,
        retry_config=_RETRY,
        **_credentials(),
    )
    return _Obstore(store, read_only=read_only)


async def listed_stamps(store: Any, prefix: str) -> dict[str, Stamp]:
    """The objects of a zarr store under a prefix; of other libraries' stores their names."""
    if isinstance(store, ObjectStore):
        import obstore

        batches = obstore.list(store.store, prefix=prefix or None, chunk_size=_PAGE)
        return {listed["path"]: _stamp(listed) async for batch in batches for listed in batch}
    if isinstance(store, FsspecStore):
        store.fs.invalidate_cache()  # it remembers listings
        entries = await store.fs._find(f"{store.path}/{prefix}", detail=True, withdirs=False)
        return {
            key.removeprefix(f"{store.path}/"): _stamp(listed) for key, listed in entries.items()
        }
    return {key: Stamp(0, "") async for key in store.list_prefix(prefix)}


def _stamp(told: Mapping[str, Any]) -> Stamp:
    mark = next((told[name] for name in _MARKS if told.get(name)), "")
    return Stamp(int(told.get("size") or 0), str(mark))


def _is_s3(url: str) -> bool:
    return scheme_of(url) in ("s3", "s3a")


class _Fsspec(FsspecStore):  # type: ignore[misc]
    """Closes its connections, which fsspec leaves to the owner of the event loop."""

    async def _open(self) -> None:
        await super()._open()
        weakref.finalize(self, _close, self.fs, asyncio.get_running_loop(), os.getpid())


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


class _Obstore(ObjectStore):  # type: ignore[misc]
    """Zarr's own takes an absent bucket for an absent object."""

    async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
        import obstore

        if isinstance(byte_range, RangeByteRequest):
            part = await obstore.get_range_async(
                self.store, key, start=byte_range.start, end=byte_range.end
            )
            return prototype.buffer.from_bytes(part)
        options: Any = None
        if isinstance(byte_range, OffsetByteRequest):
            options = {"range": {"offset": byte_range.offset}}
        elif isinstance(byte_range, SuffixByteRequest):
            options = {"range": {"suffix": byte_range.suffix}}
        response = await obstore.get_async(self.store, key, options=options)
        return prototype.buffer.from_bytes(await response.bytes_async())


def _credentials() -> dict[str, Any]:
    """Credentials that boto finds in environment, profiles or roles; none where it is absent."""
    if conf.get("s3", {}).get("anon"):
        return {"skip_signature": True}
    try:
        from botocore.session import get_session
    except ImportError:
        return {}
    session = get_session()
    # The variable of S3 goes before the general one.
    named = (os.environ.get(name) for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"))
    settings = {
        "region": session.get_config_variable("region"),
        "endpoint": next(filter(None, named), session.get_scoped_config().get("endpoint_url")),
        "credential_provider": _Credentials(session),
    }
    return {name: value for name, value in settings.items() if value is not None}


class _Credentials:
    """Credentials of boto, which renews them by itself."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def __call__(self) -> dict[str, Any]:
        credentials = self._session.get_credentials()
        if credentials is None:
            from botocore.exceptions import NoCredentialsError

            raise NoCredentialsError
        now = credentials.get_frozen_credentials()
        return {
            "access_key_id": now.access_key,
            "secret_access_key": now.secret_key,
            "token": now.token,
            # By then obstore asks again, and boto has renewed what ran out.
            "expires_at": datetime.now(UTC) + _CREDENTIALS_LAST,
        }
