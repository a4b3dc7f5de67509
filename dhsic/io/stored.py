"""Stored arrays: opened by path or URL, their chunks, and how their values are meant.

Attributes by which values are packed, or marked as missing, are those of the conventions for
climate and forecasts, sections 2.5.1 and 8.1 of https://cfconventions.org, as netCDF, GDAL and
xarray write them.
"""

from __future__ import annotations

import base64
import math
import os
import stat
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, product
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic._files import check_regular
from dhsic._validation import shown
from dhsic.engine.passes import check_exact, is_exact
from dhsic.engine.session import Inventory, Stamp
from dhsic.errors import DataError, DhsicError
from dhsic.io.urls import METADATA, failure_of, is_url, storage_error

# Times the decoded bytes that a chunk takes at most while it is decoded, as measured with zarr 3.1
# and numcodecs 0.16: once as it is stored, and gzip and lzma collect pieces, join and copy them.
_DECODER = 4
_VIEWS = {"crc32c", "transpose"}  # of what is there already
_LARGEST_SHARD = 32 * 2**20
# Those of zarr and numcodecs whose format has a checksum; zstd has one where it is asked for.
_CHECKED = ("adler32", "bz2", "crc32", "crc32c", "fletcher32", "gzip", "lzma", "zlib")
_FOLDER = Stamp(0, "folder")
_PIPE = Stamp(0, "pipe")
_MARKS = ("ETag", "etag", "e_tag", "md5Hash", "last_modified", "LastModified", "updated", "created")
_ABSENT = 2**64 - 1
_AT_A_TIME = 32
_CHECKSUM_BYTES = 4

Stamps = Mapping[str, Stamp]
ChunkPlace = tuple[int, ...]

_FILLS = "_FillValue", "missing_value"
_COUNTS = {"valid_range": 2, "valid_min": 1, "valid_max": 1, "scale_factor": 1, "add_offset": 1}
_NO_TIME = -(2**63)  # of times that are stored as whole numbers
_ROUNDED = 0.4  # steps of packed values, which were rounded to whole ones, as their limits were


# --- arrays and groups by path or URL


def open_stored(path: str, kind: Literal["array", "group"], *, fills: bool = False) -> Any:
    """Open a zarr array or group at a path or URL; `fills` as of `dhsic.io.storage.remote_store`.

    Raises
    ------
    DataError
        There is none.
    """
    import zarr  # slow to import, and arrays in memory do without

    opener = zarr.open_array if kind == "array" else zarr.open_group
    if not is_url(path):
        check_metadata(path)
        # A disk lists the arrays, and consolidated metadata may be older than they are.
        opener = opener if kind == "array" else partial(opener, use_consolidated=False)
        return opened_array(opener, path, kind, None)
    from dhsic.io.storage import remote_store  # by zarr

    store = remote_store(path, fills=fills)
    try:
        # Format by format, since a store may refuse to say that the names of the other are absent.
        return opened_array(opener, store, kind, 3)
    except DataError as error:
        if not isinstance(error.__cause__, FileNotFoundError):
            raise
        return opened_array(opener, store, kind, 2)


def opened_array(opener: Callable[..., Any], place: Any, kind: str, zarr_format: int | None) -> Any:
    """Open an array or a group of zarr for reading, whose errors are told in words."""
    try:
        return opener(place, mode="r", zarr_format=zarr_format)
    except DhsicError:
        raise
    except Exception as error:
        if isinstance(place, str) and os.path.isfile(place):
            msg = (
                f"{place!r} is no zarr {kind}, and its name is not that of a table: give a CSV "
                "(.csv, .tsv) or Parquet (.parquet, .pq) file, or read it in Python by pandas"
            )
            raise DataError(msg) from error
        # A folder that is none of Parquet by its own names; all of a disk would take long to list.
        below = Path(place) if isinstance(place, str) and os.path.isdir(place) else None
        if below and any(chain(below.glob("*/*.parquet"), below.glob("*/*/*.parquet"))):
            msg = f"{place!r} is a folder of Parquet files: end its name in .parquet"
            raise DataError(msg) from error
        url = url_of(place)
        what = f"{url or str(place)!r} is not a readable zarr {kind}"
        if url and failure_of(error).answered and not isinstance(error, FileNotFoundError):
            raise storage_error(what, error, url) from None
        msg = f"{what} ({type(error).__name__}): check the path"
        raise DataError(msg) from error


def check_metadata(folder: str | os.PathLike[str]) -> None:
    """Refuse a group or an array on a disk whose metadata are a pipe, for which zarr would wait.

    Raises
    ------
    DataError
        They are.
    """
    for path in (os.path.join(folder, name) for name in METADATA):
        try:
            if os.path.exists(path):
                check_regular(path)
        except OSError as error:
            msg = f"{path!r} cannot be read ({error.strerror}): take an intact copy of the data"
            raise DataError(msg) from error


def url_of(place: Any) -> str | None:
    """The URL of an array, or of another place of zarr, in an object store; None of others."""
    store = getattr(place, "store", place)
    if not hasattr(store, "fs"):
        return None
    inner = "" if store is place else place.path
    url: str = store.fs.unstrip_protocol("/".join(filter(None, (store.path, inner))))
    return url


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
            place = array.store_path / array.metadata.encode_chunk_key(chunk)
            return url_of(place) or str(place)
    return None


# --- which are there


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
    places = [[(row, *others) for others in columns] for row in range(counts[0])]
    chunks = tuple(tuple(stamps.get(key_of(place)) for place in across) for across in places)
    fill = _fill_value_text(array, name)
    checksums = (
        codec
        for codec, options in _codecs_of(array).items()
        if codec in _CHECKED or (codec == "zstd" and options.get("checksum"))
    )
    inventory = Inventory(name, array.shape[0], chunks, sizes[0], fill, tuple(checksums))
    _refuse_others(inventory)
    if array.shards is None or fill is None or not within:
        return inventory
    shards = [place for across in places for place in across if key_of(place) in stamps]
    return replace(inventory, within=tuple(absent_within(array, shards)))


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

    store = array.store
    # Wrappers of zarr stand around the store that is to be listed.
    while isinstance(store, WrapperStore):
        store = store._store
    if isinstance(store, LocalStore):
        folder = os.path.join(store.root, array.path)
        stamps = _local_stamps(folder, name)
        if array.shards or [*_codecs_of(array)][-1:] != ["blosc"]:
            return stamps
        return {k: _whole_blosc(folder, k, s) if s.size else s for k, s in stamps.items()}
    if not store.supports_listing:
        return None
    prefix = f"{array.path}/" if array.path else ""
    try:
        listed = sync(_listed_stamps(store, prefix))
    except Exception as error:
        if failure_of(error).refused:  # to this user; reading what is absent is an error then, too
            return None
        if (url := url_of(array)) is None:
            raise
        what = f"the stored chunks of variable {name!r} cannot be listed"
        raise storage_error(what, error, url) from None
    return {key.removeprefix(prefix): stamp for key, stamp in listed.items()}


async def _listed_stamps(store: Any, prefix: str) -> Stamps:
    """The objects of a zarr store under a prefix; of other libraries' stores their names."""
    from zarr.storage import FsspecStore, ObjectStore

    if isinstance(store, ObjectStore):
        import obstore  # which made the store

        batches = obstore.list(store.store, prefix=prefix or None)
        return {listed["path"]: _stamp(listed) async for batch in batches for listed in batch}
    if not isinstance(store, FsspecStore):
        return {key: Stamp(0, "") async for key in store.list_prefix(prefix)}
    getattr(store.fs, "sync_fs", store.fs).invalidate_cache()  # it remembers listings
    entries = await store.fs._find(f"{store.path}/{prefix}", detail=True, withdirs=False)
    return {key.removeprefix(f"{store.path}/"): _stamp(told) for key, told in entries.items()}


def _stamp(told: Mapping[str, Any]) -> Stamp:
    mark = next((told[name] for name in _MARKS if told.get(name)), "")
    return Stamp(int(told.get("size") or 0), str(mark))


def _whole_blosc(folder: str, key: str, stamp: Stamp) -> Stamp:
    """The stamp of a chunk, of no bytes where it has less than it says: its decoder reads on."""
    with open(os.path.join(folder, key), "rb") as file:
        length = int.from_bytes(file.read(16)[12:], "little")
    return stamp if length <= stamp.size else Stamp(0, stamp.mark)


def _local_stamps(root: str, name: str) -> Stamps:
    """Files and folders in a folder and those within it, with the times when they were written."""

    def refused(error: OSError) -> None:
        raise error

    start, stamps = len(os.path.join(root, "")), {}
    try:
        for folder, folders, files in os.walk(root, onerror=refused, followlinks=True):
            for path in (os.path.join(folder, entry) for entry in (*folders, *files)):
                if os.path.exists(path):  # of a link, what it leads to
                    told = os.stat(path)
                    stamp = Stamp(told.st_size, str(told.st_mtime_ns))
                    kinds = {stat.S_IFREG: stamp, stat.S_IFDIR: _FOLDER}
                    stamps[path[start:]] = kinds.get(stat.S_IFMT(told.st_mode), _PIPE)
    except OSError as error:
        msg = (
            f"the stored chunks of variable {name!r} cannot be listed "
            f"({error.strerror or error}: {error.filename or root}): is the data complete?"
        )
        raise DataError(msg) from error
    return stamps


def _refuse_others(inventory: Inventory) -> None:
    for number, across in enumerate(inventory.chunks):
        # Stores that tell no sizes tell no marks either.
        for stamp in (stamp for stamp in across if stamp and stamp.mark and not stamp.size):
            start = inventory.chunk_rows * number
            last = min(start + inventory.chunk_rows, inventory.rows) - 1
            got = f"a {stamp.mark}" if stamp in (_FOLDER, _PIPE) else "an empty or cut off one"
            what = f"stored chunk {number} along the rows of variable {inventory.name!r}"
            remedy = "write it again, or take an intact copy of the data"
            msg = f"{what} must be a file, not {got}, for rows {start} to {last}: {remedy}"
            raise DataError(msg)


def _fill_value_text(array: Any, name: str) -> str | None:
    """The number that absent chunks are read as, in words; None where that is NaN or infinite."""
    value = np.array([0 if array.fill_value is None else array.fill_value], array.dtype)
    read = marks.decoded(value, name) if (marks := marks_of(array, name)) else value
    return f"{value[0]:g}" if np.isfinite(read).all() else None


def _codecs_of(array: Any) -> dict[str, Mapping[str, Any]]:
    """Names and options of the codecs of chunks, in their order and of either format of zarr."""
    codecs: dict[str, Mapping[str, Any]] = {}
    for codec in (*array.filters, *array.compressors):
        told = codec.to_dict() if hasattr(codec, "to_dict") else codec.get_config()
        name = str(told.get("name", told.get("id"))).removeprefix("numcodecs.")
        codecs[name] = told.get("configuration", told)
    return codecs


# --- which are absent within shards
#
# An index has the offset and the length of every chunk of the shard, as little-endian integers of
# 64 bits, all ones where a chunk is absent; see the codec "sharding_indexed" of the zarr
# specification, version 3.


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
    names = [one["name"] for one in codec["index_codecs"]]
    plain = codec["index_codecs"][0].get("configuration", {}).get("endian") == "little"
    if not plain or names not in (["bytes"], ["bytes", "crc32c"]):
        return
    counts = [shard // chunk for shard, chunk in zip(array.shards, array.chunks, strict=True)]
    size = 16 * math.prod(counts) + _CHECKSUM_BYTES * (len(names) - 1)
    at_end = codec.get("index_location", "end") == "end"
    for shard, index in zip(shards, sync(_indices(array, shards, size, at_end)), strict=True):
        if len(index) in (0, size):  # else it is cut off, which is an error when it is read
            # An empty shard is read as if all of its chunks were absent.
            marks = np.frombuffer(index.ljust(size, b"\xff"), "<u8", 2 * math.prod(counts))
            inner = np.argwhere(marks.reshape(*counts, 2)[..., 0] == _ABSENT)
            starts = np.multiply(shard, array.shards) + inner * array.chunks
            # Without chunks that lie beyond the array.
            for start in starts[(starts < array.shape).all(axis=1), 0].tolist():
                yield start, min(start + array.chunks[0], array.shape[0])


async def _indices(
    array: Any, shards: Sequence[ChunkPlace], size: int, at_end: bool
) -> list[bytes]:
    from zarr.abc.store import RangeByteRequest, SuffixByteRequest
    from zarr.core.buffer import default_buffer_prototype
    from zarr.core.common import concurrent_map

    part = SuffixByteRequest(size) if at_end else RangeByteRequest(0, size)

    async def read(shard: ChunkPlace) -> bytes:
        place = array.store_path / array.metadata.encode_chunk_key(shard)
        index = await place.get(default_buffer_prototype(), part)
        return b"" if index is None else bytes(index.to_bytes())

    # Some at a time, or the store would get thousands of requests at once.
    read_all: list[bytes] = await concurrent_map([(one,) for one in shards], read, _AT_A_TIME)
    return read_all


# --- memory that decoding takes


def decoding_bytes(array: Any, stored_rows: int | None, rows: int) -> int:
    """Bytes besides the result of a read of an array that touches pieces of so many rows.

    The pieces that are read are chunks, or whole shards where these are small.

    Parameters
    ----------
    array : array-like
        With `shape` and `dtype`; of one that is no zarr array, rows are taken to come through a
        buffer.
    stored_rows : int or None
        Rows that are stored together.
    rows : int
        Rows of the pieces.
    """
    item = int(np.dtype(array.dtype).itemsize)
    if not is_zarr(array):
        buffer = item * (stored_rows or 0) * math.prod(array.shape[1:])
        return 2 * buffer if rows else 0
    import zarr

    sizes, at_once = piece_shape(array), int(zarr.config.get("async.concurrency"))
    across = math.prod(-(-d // size) for d, size in zip(array.shape[1:], sizes[1:], strict=True))
    pieces: int = across * math.ceil(rows / sizes[0])
    inner: int = item * math.prod(array.chunks)
    # Where nothing is to be decoded, the stored bytes are the chunk.
    plain = _codecs_of(array).keys() <= _VIEWS
    if not array.shards:
        return min(pieces, at_once) * (1 if plain else _DECODER) * inner
    # Chunks of a shard are read together and their rows gathered before they are copied.
    piece, shard = item * math.prod(sizes), item * math.prod(array.shards)
    read: int = piece * (pieces if piece == inner else min(pieces, at_once))
    several = min(read // inner, math.ceil(read / shard) * at_once)
    return 2 * read + (0 if plain else several * _DECODER * inner)


def piece_shape(array: Any) -> tuple[int, ...]:
    """Rows and columns of a zarr array that are read together: of a chunk, or a small shard."""
    shards: tuple[int, ...] | None = array.shards
    size = math.prod(shards or ()) * np.dtype(array.dtype).itemsize
    return shards if shards and size <= _LARGEST_SHARD else tuple(array.chunks)


# --- values that are marked as missing, and packed ones


class Marks(NamedTuple):
    """How the stored values of an array are to be read, as float64."""

    said: str
    """The attributes, and what they hold."""
    packed: str
    """Type of the stored values, which may be labelled as of the other sign."""
    fills: tuple[float, ...]
    """Stored values that are missing."""
    scale: float
    offset: float
    limits: tuple[float, float]
    """Unpacked values below and beyond are missing."""

    def decoded(self, block: NDArray[Any], name: str) -> NDArray[np.float64]:
        """Stored values of a variable as they are meant, NaN where one is missing.

        Raises
        ------
        DataError
            Integers would lose digits as floats.
        """
        values = unmasked(block)
        values = values.astype(self.packed, copy=False) if values.dtype.kind in "iu" else values
        with np.errstate(over="ignore"):  # of numbers beyond a narrow type of floats
            marked = [values == fill for fill in self.fills]
        decoded: NDArray[np.float64] = values * np.float64(self.scale)
        decoded += self.offset
        marked += [decoded < self.limits[0], decoded > self.limits[1]]
        gaps = np.logical_or.reduce(marked)
        if not is_exact(values):
            check_exact(f"variable {name!r}", values[~gaps])
        decoded[gaps] = np.nan
        return decoded


def marks_of(array: Any, name: str) -> Marks | None:
    """Read from the attributes of an array how its values are meant.

    Parameters
    ----------
    array : array-like
        With `dtype`, and `attrs` that are a mapping; what has none says nothing. Attributes by
        which values are unpacked already are its `encoding`, as of xarray.
    name : str
        Name of the variable.

    Returns
    -------
    Marks or None
        None where they say nothing: values are as stored, and NaN alone is missing.

    Raises
    ------
    DataError
        An attribute holds something else than the numbers that it should.
    """
    attributes = getattr(array, "attrs", None)
    if not isinstance(array.dtype, np.dtype):
        return None  # of pandas, which marks missing values by itself
    packed = array.dtype
    if not isinstance(attributes, Mapping) or packed.kind not in "iufb":
        return None
    applied = getattr(array, "encoding", {})
    found = _found(attributes, name)
    # In format 2 of zarr, xarray keeps the mark of missing values in the place of the fill value.
    format_2 = getattr(getattr(array, "metadata", None), "zarr_format", 3) == 2
    if format_2 and "_ARRAY_DIMENSIONS" in attributes and array.fill_value is not None:
        found.setdefault("_FillValue", [array.fill_value.item()])
    if packed == np.int64 and "units" in attributes:
        found["units"] = [_NO_TIME]
    fills = [v for key in (*_FILLS, "units") for v in found.get(key, ()) if v == v]
    low, high = found.get("valid_range", (-math.inf, math.inf))
    limits = [*found.get("valid_min", [low]), *found.get("valid_max", [high])]
    whole = np.dtype(applied.get("dtype", packed)).kind in "iu"
    if packed.kind == "i" and str(attributes.get("_Unsigned")).lower() == "true":
        packed, size = np.dtype(f"u{packed.itemsize}"), 2 ** (8 * packed.itemsize)
        fills, limits = ([v % size if abs(v) < size else v for v in x] for x in (fills, limits))
    scale, offset = _packing({**_found(applied, name), **found})
    # Limits that are floats beside packed integers are of what is unpacked, as in netCDF.
    if not (whole and any(isinstance(v, float) and math.isfinite(v) for v in limits)):
        limits = sorted(v * scale + offset for v in limits)
    margin = _ROUNDED * abs(scale) if whole else 0.0
    said = ", ".join(f"{key} {' and '.join(map(str, v))}" for key, v in found.items())
    ends = limits[0] - margin, limits[1] + margin
    marks = Marks(said, packed.str, tuple(fills), *_packing(found), ends)
    nothing = (np.dtype(array.dtype).str, (), 1, 0, (-math.inf, math.inf))
    return None if marks[1:] == nothing else marks


def unmasked(x: Any) -> NDArray[Any]:
    """An array without a mask: NaN in the place of masked numbers, None in that of others.

    One of sparse rows has its zeros.
    """
    if hasattr(x, "todense"):  # of SciPy, and of the library sparse
        x = np.asarray(x.todense())
    # Records, which are refused, have masks of several fields.
    if getattr(x.dtype, "names", None) or not np.ma.is_masked(x):
        return np.asarray(x)
    check_exact("masked data", x.compressed())
    numbers = x.dtype.kind in "biuf"
    dtype = x.dtype if x.dtype.kind == "f" else np.float64 if numbers else object
    values = np.ma.getdata(x).astype(dtype)
    values[np.ma.getmaskarray(x)] = np.nan if numbers else None
    return values


def _found(attributes: Mapping[str, Any], name: str) -> dict[str, list[float]]:
    """The numbers of the attributes that are there."""
    there = (key for key in (*_FILLS, *_COUNTS) if attributes.get(key) is not None)
    return {key: _numbers(key, attributes[key], name) for key in there}


def _numbers(key: str, value: Any, name: str) -> list[float]:
    try:
        numbers = list(map(_number, np.ravel(value).tolist()))
    except (TypeError, ValueError):
        numbers = []
    count = 0 if key == "scale_factor" and numbers == [0] else _COUNTS.get(key, len(numbers))
    if not numbers or len(numbers) != count or not (key in _FILLS or np.isfinite(numbers).all()):
        what = f"{_COUNTS.get(key, 'only')} finite number(s), a scale other than 0"
        where = f"attribute {key!r} of variable {name!r}"
        msg = f"{where} must hold {what}, got {shown(value)}: correct or remove it"
        raise DataError(msg)
    return numbers


def _number(value: Any) -> float:
    """A number, or its text; xarray writes those of floats in format 3 of zarr by their bytes."""
    if isinstance(value, int | float):
        return value
    try:
        return float(value)
    except ValueError:
        return float(np.frombuffer(base64.b64decode(value, validate=True), "<f8").item())


def _packing(found: Mapping[str, list[float]]) -> tuple[float, float]:
    return found.get("scale_factor", [1])[0], found.get("add_offset", [0])[0]


# --- objects of libraries that need not be installed


def is_of(x: Any, module: str, *classes: str) -> bool:
    """Whether x is of a class of a library that need not be installed."""
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(x, tuple(getattr(loaded, cls, ()) for cls in classes))


def is_zarr(x: Any) -> bool:
    """Whether x is an array of zarr, which is slow to import."""
    return is_of(x, "zarr", "Array")


def is_sparse(x: Any) -> bool:
    """Whether x is a sparse matrix of SciPy."""
    return is_of(x, "scipy.sparse", "sparray", "spmatrix")


def holds_columns(x: Any) -> bool:
    """Whether x has columns by their names; a sparse matrix of SciPy may be a dictionary too."""
    named = isinstance(x, Mapping) and not is_sparse(x)
    return named or is_of(x, "xarray", "Dataset")
