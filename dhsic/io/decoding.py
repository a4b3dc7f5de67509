"""Memory that reading a stored array takes besides the rows that are read."""

from __future__ import annotations

import math
import os
from typing import Any, NamedTuple

import numpy as np

from dhsic.io.chunks import is_zarr

# Times the decoded bytes that a decoder holds, those included, as measured with zarr 3.1 and
# numcodecs 0.16: gzip and lzma collect pieces, join them and copy them.
_DECODERS = {"blosc": 1.0, "lz4": 1.0, "zstd": 1.0, "zlib": 2.5, "bz2": 2.5}
_OTHERS = 3.0
_FILTERED = 2.0  # what goes into a filter and what comes out
_VIEWS = ("crc32c", "transpose")  # of what is there already
_POOL = 4  # threads more than processors that Python decodes on
_LARGEST_SHARD = 32 * 2**20


class Decoding(NamedTuple):
    """How an array is stored, as far as memory goes.

    The pieces that are read are chunks, or whole shards where these are small.
    """

    rows: int
    """Rows of a piece."""
    across: int
    """Pieces beside each other."""
    piece: int
    """Decoded bytes of a piece."""
    decoder: float
    """How many times as many its decoder holds; 0 where bytes are stored as they are."""
    inner: int
    """Decoded bytes of a chunk."""
    shard: int
    """Decoded bytes of a shard; 0 where there are none."""
    at_once: int
    """Pieces, or chunks of a shard, that are read at a time."""

    def bytes(self, rows: int, stored: int) -> int:
        """Bytes besides the result of a read that touches pieces of so many rows.

        Parameters
        ----------
        rows : int
            Rows of the pieces.
        stored : int
            Bytes of the largest piece, or shard, as it is stored.
        """
        pieces = self.across * math.ceil(rows / self.rows)
        if not self.shard:
            return self._held(min(pieces, self.at_once), stored)
        # Chunks of a shard are read together and their rows gathered before they are copied.
        read = self.piece * (pieces if self.piece == self.inner else min(pieces, self.at_once))
        shards = math.ceil(read / self.shard)
        gathered = int(read * (1 + min(1.0, stored / self.shard)))
        if not self.decoder:
            return gathered
        return gathered + self._held(min(read // self.inner, shards * self.at_once), 0)

    def _held(self, count: int, stored: int) -> int:
        """Bytes of so many chunks, as stored and decoded, and of those that decoders work on."""
        if not self.decoder:
            return count * self.inner
        working = min(count, (os.cpu_count() or 1) + _POOL)
        return int(count * (stored + self.inner) + working * (self.decoder - 1) * self.inner)


def decoding_of(array: Any, stored_rows: int | None) -> Decoding:
    """That of an array; of one that is no zarr array, as if its rows came through a buffer.

    Parameters
    ----------
    array : array-like
        With `shape` and `dtype`.
    stored_rows : int or None
        Rows that are stored together.

    Returns
    -------
    Decoding
    """
    item = int(np.dtype(array.dtype).itemsize)
    if not is_zarr(array):
        rows = stored_rows or 0
        piece = item * rows * math.prod(array.shape[1:])
        return Decoding(max(rows, 1), 1, piece, 1.0 if piece else 0.0, piece, 0, 1)
    import zarr

    sizes = piece_shape(array)
    across = math.prod(-(-d // size) for d, size in zip(array.shape[1:], sizes[1:], strict=True))
    return Decoding(
        int(sizes[0]),
        across,
        item * math.prod(sizes),
        _decoder(array),
        item * math.prod(array.chunks),
        item * math.prod(array.shards or (0,)),
        int(zarr.config.get("async.concurrency")),
    )


def piece_shape(array: Any) -> tuple[int, ...]:
    """Rows and columns of a zarr array that are read together: of a chunk, or a small shard."""
    shards: tuple[int, ...] | None = array.shards
    size = math.prod(shards or ()) * np.dtype(array.dtype).itemsize
    return shards if shards and size <= _LARGEST_SHARD else tuple(array.chunks)


def _decoder(array: Any) -> float:
    """Times the decoded bytes that the codecs of a chunk hold; 0 where they are the stored ones."""
    codecs = [name for name in map(codec_name, array.compressors) if name not in _VIEWS]
    filtered = any(codec_name(codec) not in _VIEWS for codec in array.filters)
    most = max((_DECODERS.get(name, _OTHERS) for name in codecs), default=0.0)
    return max(most, _FILTERED) if filtered else most


def codec_name(codec: Any) -> str:
    """The name of a codec of either format of zarr."""
    known = getattr(codec, "codec_id", None)
    name = codec.to_dict()["name"] if known is None else known
    return str(name).removeprefix("numcodecs.")
