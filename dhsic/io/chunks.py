"""Where the chunks of a zarr array lie, for what goes wrong with them."""

from __future__ import annotations

import sys
from itertools import product
from typing import Any


def missing_folder(array: Any) -> str | None:
    """The folder of a zarr array that this process does not see, all of which would read as fill.

    A worker on another machine may lack the file system of the process that opened the array.
    """
    if not is_zarr(array):
        return None
    import zarr

    if not isinstance(array.store, zarr.storage.LocalStore):
        return None
    # zarr reads a folder that is not there as chunks of the fill value, without an error.
    folder = array.store.root / array.path
    return None if folder.is_dir() else str(folder)


def broken_chunk(array: Any, start: int, stop: int) -> str | None:
    """Name of the first stored chunk, or shard, among the rows that cannot be read."""
    if not is_zarr(array):
        return None
    sizes = array.shards or array.chunks
    spans = [(start, stop), *((0, length) for length in array.shape[1:])]
    numbers = (range(a // size, -(-b // size)) for (a, b), size in zip(spans, sizes, strict=True))
    # One chunk after another until one fails: this is asked after an error alone.
    for chunk in product(*numbers):
        region = tuple(
            slice(i * size, (i + 1) * size) for i, size in zip(chunk, sizes, strict=True)
        )
        try:
            array[region]
        except Exception:
            return str(array.store_path / array.metadata.encode_chunk_key(chunk))
    return None


def is_zarr(array: Any) -> bool:
    """Whether it is a zarr array, asked without zarr, which is slow to import."""
    zarr = sys.modules.get("zarr")
    return zarr is not None and isinstance(array, getattr(zarr, "Array", ()))
