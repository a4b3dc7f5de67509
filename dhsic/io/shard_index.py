"""Chunks that are absent within shards of zarr arrays, by the indices of the shards.

An index has the offset and the length of every chunk of the shard, as little-endian integers of 64
bits, all ones where a chunk is absent; see the codec "sharding_indexed" of the zarr specification,
version 3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

_ABSENT = 2**64 - 1
_AT_A_TIME = 32
_CHECKSUM_BYTES = 4

ChunkPlace = tuple[int, ...]


def absent_within(array: Any, shards: Sequence[ChunkPlace]) -> Iterator[tuple[int, int]]:
    """Rows of every chunk that is absent within shards.

    Parameters
    ----------
    array : zarr.Array
        Array of shards.
    shards : sequence of tuple of int
        Those that are there. A small part of each is read.

    Yields
    ------
    start, stop : int
        Nothing of arrays whose index is encoded in an uncommon way.
    """
    from zarr.core.sync import sync

    codec = array.metadata.to_dict()["codecs"][0]["configuration"]
    checked = _trailer(codec["index_codecs"])
    if checked is None:
        return
    counts = [shard // chunk for shard, chunk in zip(array.shards, array.chunks, strict=True)]
    size = 16 * prod(counts) + checked
    at_end = codec.get("index_location", "end") == "end"
    for shard, index in zip(shards, sync(_indices(array, shards, size, at_end)), strict=True):
        if len(index) in (0, size):  # else it is cut off, which is an error when it is read
            # An empty shard is read as if all of its chunks were absent.
            marks = np.frombuffer(index.ljust(size, b"\xff"), "<u8", 2 * prod(counts))
            starts = marks.reshape(*counts, 2)[..., 0]
            yield from _absent(array, shard, np.argwhere(starts == _ABSENT))


def _absent(array: Any, shard: ChunkPlace, inner: NDArray[np.intp]) -> Iterator[tuple[int, int]]:
    """Rows of chunks of a shard, without those that lie beyond the array."""
    starts = np.multiply(shard, array.shards) + inner * array.chunks
    for start in starts[(starts < array.shape).all(axis=1), 0].tolist():
        yield start, min(start + array.chunks[0], array.shape[0])


def _trailer(codecs: Sequence[Any]) -> int | None:
    """Bytes of the checksum behind an index; None where the index is no plain integers."""
    names = [codec["name"] for codec in codecs]
    plain = codecs[0].get("configuration", {}).get("endian") == "little"
    if not plain or names not in (["bytes"], ["bytes", "crc32c"]):
        return None
    return _CHECKSUM_BYTES * (len(names) - 1)


async def _indices(
    array: Any, shards: Sequence[ChunkPlace], size: int, at_end: bool
) -> list[bytes]:
    import asyncio  # slow to import, as zarr is

    from zarr.abc.store import RangeByteRequest, SuffixByteRequest
    from zarr.core.buffer import default_buffer_prototype

    part = SuffixByteRequest(size) if at_end else RangeByteRequest(0, size)
    # Some at a time, or the store would get thousands of requests at once.
    turns = asyncio.Semaphore(_AT_A_TIME)

    async def read(shard: ChunkPlace) -> bytes:
        place = array.store_path / array.metadata.encode_chunk_key(shard)
        async with turns:
            index = await place.get(default_buffer_prototype(), part)
        return b"" if index is None else bytes(index.to_bytes())

    return await asyncio.gather(*map(read, shards))
