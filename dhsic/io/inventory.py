"""Inventory of a stored array: its chunks in one listing, and codecs that check them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from dhsic.engine.inventory import Inventory, Stamp
from dhsic.errors import DataError
from dhsic.io.decoding import codec_name
from dhsic.io.marks import marks_of
from dhsic.io.shard_index import absent_within

# Those of zarr and numcodecs whose format has a checksum; zstd has one where it is asked for.
_CHECKED = ("adler32", "bz2", "crc32", "crc32c", "fletcher32", "gzip", "lzma", "zlib")

_FOLDER = Stamp(0, "folder")
_PIPE = Stamp(0, "pipe")

Stamps = Mapping[str, Stamp]


def inventory_of(array: Any, name: str, *, within: bool = True) -> Inventory | None:
    """List the chunks of a zarr array.

    Parameters
    ----------
    array : zarr.Array
        In any store.
    name : str
        Name of the variable.
    within : bool, optional
        Whether the index of every shard is read for the chunks that are absent within it; what is
        written to a shard shows in its size or time anyway.

    Returns
    -------
    Inventory or None
        Inventory of shards where there are such. None where the store cannot be listed, as https.

    Raises
    ------
    DataError
        A folder, a pipe or an empty file is in the place of a chunk, or one is cut off; or the
        store does not answer.
    """
    stamps = _stamps(array, name)
    if stamps is None:
        return None
    sizes = array.shards or array.chunks
    counts = [-(-length // size) for length, size in zip(array.shape, sizes, strict=True)]
    # Chunks may cut the columns too: rows are there where all of theirs are.
    columns = list(product(*map(range, counts[1:])))
    key_of = array.metadata.encode_chunk_key
    chunks = tuple(
        tuple(stamps.get(key_of((row, *others))) for others in columns) for row in range(counts[0])
    )
    fill = _fill_value_text(array, name)
    inventory = Inventory(name, array.shape[0], chunks, sizes[0], fill, _checksums(array))
    _refuse_others(inventory)
    if array.shards is None or fill is None or not within:
        return inventory
    shards = (
        (row, *others)
        for row, across in enumerate(chunks)
        for others, stamp in zip(columns, across, strict=True)
        if stamp is not None
    )
    return replace(inventory, within=tuple(absent_within(array, list(shards))))


def inventory_of_file(array: Any, name: str) -> Inventory | None:
    """The file of an HDF5 data set as one chunk; None of an array that names no file.

    HDF5 does not tell chunks that were never written from those that were.
    """
    path = getattr(getattr(array, "file", None), "filename", None)
    if not isinstance(path, str) or not os.path.isfile(path):
        return None
    told = os.stat(path)
    # HDF5 does not tell when a chunk was written, and its file does.
    stamp = Stamp(told.st_size, str(told.st_mtime_ns))
    return Inventory(name, array.shape[0], ((stamp,),), array.shape[0], None, ())


def _stamps(array: Any, name: str) -> Stamps | None:
    """Keys within the folder of the array, and what its store says of them."""
    from zarr.core.sync import sync
    from zarr.storage import LocalStore, WrapperStore

    from dhsic.io.storage import RemoteStore, stamps_of

    store = array.store
    # Wrappers of zarr stand around the store that is to be listed.
    while isinstance(store, WrapperStore) and not isinstance(store, RemoteStore):
        store = store._store
    if isinstance(store, LocalStore):
        folder = os.path.join(store.root, array.path)
        stamps = local_stamps(folder, name)
        if array.shards or [*map(codec_name, array.compressors)][-1:] != ["blosc"]:
            return stamps
        return stamps | {k: _whole_blosc(folder, k, s) for k, s in stamps.items() if s.size}
    prefix = f"{array.path}/" if array.path else ""
    listed = sync(stamps_of(store, prefix))
    if listed is None:
        return None
    return {key.removeprefix(prefix): stamp for key, stamp in listed.items()}


def _whole_blosc(folder: str, key: str, stamp: Stamp) -> Stamp:
    """The stamp of a chunk, of no bytes where it has less than it says: its decoder reads on."""
    with open(os.path.join(folder, key), "rb") as file:
        length = int.from_bytes(file.read(16)[12:], "little")
    return stamp if length <= stamp.size else Stamp(0, stamp.mark)


def local_stamps(root: str, name: str) -> dict[str, Stamp]:
    """Files and folders in a folder and those within it, with the times when they were written.

    Raises
    ------
    DataError
        The folder cannot be listed.
    """
    try:
        return dict(_files(root))
    except OSError as error:
        msg = (
            f"the stored chunks of variable {name!r} cannot be listed "
            f"({error.strerror or error}: {error.filename or root}): is the data complete?"
        )
        raise DataError(msg) from error


def _files(root: str) -> Iterator[tuple[str, Stamp]]:
    left = [""]
    while left:
        folder = left.pop()
        with os.scandir(os.path.join(root, folder)) as entries:
            for entry in entries:
                key = f"{folder}{entry.name}"
                if entry.is_dir():
                    yield key, _FOLDER
                    left.append(f"{key}/")
                elif os.path.exists(entry.path):  # of a link, what it leads to
                    told = entry.stat()
                    regular = stat.S_ISREG(told.st_mode)
                    yield key, Stamp(told.st_size, str(told.st_mtime_ns)) if regular else _PIPE


def _refuse_others(inventory: Inventory) -> None:
    for number, across in enumerate(inventory.chunks):
        # Stores that tell no sizes tell no marks either.
        for stamp in (stamp for stamp in across if stamp and stamp.mark and not stamp.size):
            start = inventory.chunk_rows * number
            got = f"a {stamp.mark}" if stamp in (_FOLDER, _PIPE) else "an empty or cut off one"
            msg = (
                f"stored chunk {number} along the rows of variable {inventory.name!r} must be a "
                f"file, not {got}, for rows {start} to "
                f"{min(start + inventory.chunk_rows, inventory.rows) - 1}: write it again, or take "
                "an intact copy of the data"
            )
            raise DataError(msg)


def _fill_value_text(array: Any, name: str) -> str | None:
    """The number that absent chunks are read as, in words; None where that is NaN or infinite."""
    value = np.array([0 if array.fill_value is None else array.fill_value], array.dtype)
    read = marks.decoded(value, name) if (marks := marks_of(array, name)) else value
    return f"{value[0]:g}" if np.isfinite(read).all() else None


def _checksums(array: Any) -> tuple[str, ...]:
    """Names of the codecs that notice damaged bytes."""
    return tuple(dict.fromkeys(_checksum_codecs(array.metadata.to_dict())))


def _checksum_codecs(value: Any) -> Iterator[str]:
    """Codecs with a checksum, wherever they are in metadata; those of an index check it alone."""
    if isinstance(value, Mapping):
        name = str(value.get("name", value.get("id", ""))).removeprefix("numcodecs.")
        options = value.get("configuration", value)
        zstd = name == "zstd" and isinstance(options, Mapping) and options.get("checksum")
        if name in _CHECKED or zstd:
            yield name
        # Attributes are of the user, and the index of a shard has no data.
        parts = (part for key, part in value.items() if key not in ("attributes", "index_codecs"))
        for part in parts:
            yield from _checksum_codecs(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _checksum_codecs(part)
