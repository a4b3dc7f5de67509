"""Define variables, whose rows are stored somewhere or made of other rows.

`Variable` comes first, then what stored arrays need: opening them, listing their chunks, the memory
of decoding, marks of missing values. Rows that are made of others follow: selected and joined ones,
pooled samples, rows held in memory, and rows without missing values.

Attributes by which stored values are packed, or marked as missing, are those of the conventions for
climate and forecasts, sections 2.5.1 and 8.1 of https://cfconventions.org, as netCDF, GDAL and
xarray write them.
"""

from __future__ import annotations

import base64
import math
import os
import socket
import stat
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from itertools import accumulate, chain, pairwise, product
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from dhsic._files import check_regular
from dhsic._validation import check_choice, shown
from dhsic.engine.graph import pickled, unpacked
from dhsic.engine.passes import (
    Gaps,
    RowWeights,
    Source,
    ValueKind,
    check_exact,
    chunk_starts,
    is_exact,
    kinds_of,
    labels_of,
    of_blocks,
    read_whole,
)
from dhsic.engine.runtime import GRAPH_PLACE, graphs_on
from dhsic.engine.session import Inventory, Stamp
from dhsic.engine.units import format_bytes
from dhsic.errors import DataError, DhsicError, InvalidArgumentError, MemoryBudgetError
from dhsic.io.urls import METADATA, StorageError, failure_of, is_url, storage_error

ColumnChoice = tuple[int, ...] | None
Labels = tuple[Any, ...] | None
"""Labels of the codes of a category, in their order."""
Indices = NDArray[np.intp]
Place = Literal["memory", "storage", "graph"]
Missing = Literal["refuse", "drop"]
GapTreatment = Literal["refuse", "drop", "pairwise"]
Stamps = Mapping[str, Stamp]
ChunkPlace = tuple[int, ...]

_READERS = 4
_TAKE_ROWS = 4096
_READ_BYTES = 256 * 2**20
_TRIES = 3
_PAUSE_SECONDS = 0.5
# Times the decoded bytes that a chunk takes at most while it is decoded, as measured with zarr 3.1
# and numcodecs 0.16: once as it is stored, and gzip and lzma collect pieces, join and copy them.
_DECODER = 4
_VIEWS = {"crc32c", "transpose"}  # of what is there already
_LARGEST_SHARD = 32 * 2**20
# Those of zarr and numcodecs whose format has a checksum; zstd has one where it is asked for.
_CHECKED = ("adler32", "bz2", "crc32", "crc32c", "fletcher32", "gzip", "lzma", "zlib")
_NO_FILE = Stamp(0, "folder or pipe")
_STAMP_KEYS = (
    "ETag",
    "etag",
    "e_tag",
    "md5Hash",
    "last_modified",
    "LastModified",
    "updated",
    "created",
)
_ABSENT = 2**64 - 1
_AT_A_TIME = 32
_CHECKSUM_BYTES = 4
_FILLS = "_FillValue", "missing_value"
_LENGTHS = {"valid_range": 2, "valid_min": 1, "valid_max": 1, "scale_factor": 1, "add_offset": 1}
_NO_TIME = -(2**63)  # of times that are stored as whole numbers
_HALF_STEP = 0.4  # steps of packed values, which were rounded to whole ones, as their limits were
_TILE_ROWS = 4096
_LARGEST_PRODUCT = 2**62
_PARTS_OF_MEMORY = 4  # held arrays may take one of them
_FEWEST_WEIGHED = 2.0  # rows, that weights are worth
_ROUNDED = 16 * np.finfo(np.float64).eps


# --- rows that are somewhere


@dataclass(frozen=True)
class Variable:
    """Rows of numbers: in memory, in storage that any task can open, or of a Dask graph.

    Parameters
    ----------
    name : str
        Name of the variable.
    array : array-like, shape (n,) or (n, d)
        An array of NumPy, sparse rows of SciPy, a Dask array of known chunks (n, d), or what has
        `shape`, `dtype`, `ndim` and slicing and is pickled by reference: zarr, HDF5, a lazy xarray.
    columns : tuple of int, optional
        The columns that make the variable; all where not given.
    kinds : tuple of {"number", "boolean", "category"}, optional
        Kinds of the columns of the variable; numbers where not given. Categories are codes.
    labels : tuple of str, optional
        The names of the columns of the variable.
    categories : tuple, optional
        For every column the labels that its codes stand for, or None.
    marks : Marks, optional
        By which stored values are read, and those of others were found to be missing.
    allow_missing_chunks : bool, optional
        Whether absent chunks are data that their writer left out, and read as the fill value.
    rows : int, optional
        How many of the first rows of a stored array make the variable; all where not given.
    """

    name: str
    array: Any
    columns: ColumnChoice = None
    kinds: tuple[ValueKind, ...] | None = None
    labels: tuple[str, ...] | None = None
    categories: tuple[Labels, ...] | None = None
    marks: Marks | None = None
    allow_missing_chunks: bool = False
    rows: int | None = None

    @cached_property
    def place(self) -> Place:
        """Held in this process, readable by any task, or computed by a Dask graph."""
        if is_of(self.array, "dask.array", "Array"):
            return "graph"
        # Tasks of other processes would open an empty store by the same name.
        unshared = is_zarr(self.array) and str(self.array.store).startswith("memory:")
        return "memory" if unshared or not self.is_stored else "storage"

    @cached_property
    def is_stored(self) -> bool:
        """Whether rows are read by slices of an array that other variables may share."""
        here = isinstance(self.array, np.ndarray) or is_sparse(self.array)
        return not here and not is_of(self.array, "dask.array", "Array")

    @cached_property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        d = 1 if self.array.ndim == 1 else int(self.array.shape[1])
        d = d if self.columns is None else len(self.columns)
        return self.rows or int(self.array.shape[0]), d

    @cached_property
    def row_bytes(self) -> int:
        """Bytes that are read for a row; of a stored one all columns are decoded."""
        item = int(np.dtype(self.array.dtype).itemsize)
        if self.is_stored:
            return self.whole.shape[1] * (8 if self.marks else item)
        return self.shape[1] * item

    @cached_property
    def chunk_rows(self) -> int | None:
        """Rows that are stored together, or of the largest chunk of a graph."""
        if self.place == "graph":
            return int(max(self.array.chunks[0]))
        of_others = getattr(self.array, "chunks", None)  # as of HDF5
        chunks = piece_shape(self.array) if is_zarr(self.array) else of_others
        return int(chunks[0]) if chunks else None

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start..stop-1; not of Dask arrays, whose blocks are computed by the graph."""
        if self.is_stored:
            return self._read(start, stop, lambda: self.array[start:stop])
        return self._as_rows(self.array[start:stop])

    def take(self, rows: Indices) -> Any:
        """Rows by increasing number; each chunk is read, or computed, at most once."""
        if self.place == "graph":
            return self.array[rows]
        if not self.is_stored:
            if self.columns is None or self.array.ndim == 1:
                return self._as_rows(self.array[rows])
            # A column of many, without whole rows of them.
            return self.whole._as_rows(self.array[np.ix_(rows, np.array(self.columns))])

        # A chunk for each reader, so that none is read twice.
        def pick(some: Indices) -> NDArray[Any]:
            start = int(some[0]) // self._step * self._step
            stop = min(start + self._step, self.shape[0])
            if is_zarr(self.array):  # which copies no others from the chunk
                return self._read(start, stop, lambda: self.array.oindex[some])
            return self.read(start, stop)[some - start]

        groups = np.split(rows, chunk_starts(rows, self._step))
        with ThreadPoolExecutor(self.readers) as pool:
            return np.concatenate(list(pool.map(pick, groups)))

    def lazy(self, bounds: Sequence[int]) -> list[Any]:
        """Delayed blocks between the bounds: neighbours are cut and joined, nothing else moves."""
        sizes = tuple(int(b - a) for a, b in pairwise(bounds))
        aligned = self.array.rechunk({0: sizes, 1: -1}, method="tasks")
        # Not optimized one by one, since variables may share chunks, computed once for all.
        return list(aligned.to_delayed(optimize_graph=False).ravel())

    def _as_rows(self, block: Any) -> NDArray[Any]:
        values = unmasked(block)
        values = self.cut(values[:, None] if values.ndim == 1 else values)
        # NumPy does not subtract booleans.
        return values.view(np.int8) if values.dtype == bool else values

    # What follows is of stored arrays.

    def _read(self, start: int, stop: int, slicing: Callable[[], Any]) -> NDArray[Any]:
        """Rows among start..stop-1."""
        what = f"rows {start} to {stop - 1} of variable {self.name!r} cannot be read"
        # Not every store with a root has it in the file system.
        local = is_zarr(self.array) and is_of(self.array.store, "zarr.storage", "LocalStore")
        # A worker elsewhere may lack the file system, and zarr would read fill values then.
        if local and not (folder := self.array.store.root / self.array.path).is_dir():
            where = f"process {os.getpid()} on {socket.gethostname()} sees no folder {folder}"
            msg = f"{what}: {where}; put the data where every worker finds it by the same path"
            raise DataError(msg)
        try:
            block = self._as_rows(_insist(slicing))
        except StorageError as error:
            msg = f"{what}: {error}"
            raise DataError(msg) from error
        except Exception as error:
            chunk = _broken_chunk(self.array, start, stop)
            if (url := url_of(self.array)) and failure_of(error).answered:
                what = f"{what}: the store does not give {chunk or url}"
                raise storage_error(what, error, url) from None
            place = "" if chunk is None else f"stored chunk {chunk}: "
            said = f"{type(error).__name__}: {error}"
            msg = f"{what} ({place}{said}): is the data complete and intact?"
            raise DataError(msg) from error
        return block if self.marks is None else self.marks.decoded(block, self.name)

    @property
    def _step(self) -> int:
        return self.chunk_rows or _TAKE_ROWS

    @property
    def whole(self) -> Variable:
        """All columns of the array."""
        if self.columns is None:
            return self
        return replace(self, columns=None, kinds=None, labels=None, categories=None)

    def cut(self, block: NDArray[Any]) -> NDArray[Any]:
        """The columns of the variable, of rows of the array."""
        return block if self.columns is None else block[:, self.columns]

    @property
    def stored(self) -> tuple[Variable, ...]:
        """Itself, where it is stored: what a run takes an inventory of."""
        return (self,) if self.is_stored else ()

    @property
    def identity(self) -> object:
        """Equal for variables of one array."""
        return str(self.array.store_path) if is_zarr(self.array) else id(self.array)

    def inventory(self, *, within: bool) -> Inventory | None:
        """The stored chunks, see `inventory_of`; the file of an HDF5 data set as one chunk."""
        if is_zarr(self.array):
            return inventory_of(self.array, self.name, within=within)
        path = getattr(getattr(self.array, "file", None), "filename", None)
        if not isinstance(path, str) or not os.path.isfile(path):
            return None
        # HDF5 tells neither when a chunk was written, as its file does, nor which never were.
        told, n = os.stat(path), self.array.shape[0]
        stamp = Stamp(told.st_size, str(told.st_mtime_ns))
        return Inventory(self.name, n, ((stamp,),), n, None, ())

    def decode_bytes(self, rows: int) -> int:
        """Chunks as they are stored, decoded, and what decoding takes; of a graph its chunks."""
        if not self.is_stored:
            return rows * self.row_bytes if self.place == "graph" else 0
        # Values before they are unpacked, and where each of the marks is.
        marked = 0 if self.marks is None else 12 + len(self.marks.fills)
        decoded = _decoding_bytes(self.array, self.chunk_rows, rows)
        return decoded + rows * self.whole.shape[1] * marked

    @property
    def take_bytes(self) -> int:
        """Chunks that are decoded, or computed, at a time, and of others than zarr their rows."""
        if self.place == "graph":
            return 2 * _READERS * (self.chunk_rows or 0) * self.row_bytes
        return self.readers * self._pick_bytes if self.is_stored else 0

    @property
    def _pick_bytes(self) -> int:
        rows = 0 if is_zarr(self.array) else min(self._step, self.shape[0])
        return self.decode_bytes(self._step) + rows * self.row_bytes

    @property
    def readers(self) -> int:
        """Chunks that `take` reads at a time: fewer of large ones, which are read no faster so."""
        chunks = -(-self.shape[0] // self._step)
        return max(1, min(_READERS, chunks, _READ_BYTES // max(1, self._pick_bytes)))


def _insist(slicing: Callable[[], Any]) -> Any:
    """Slice an array; file systems of networks, and websites, may fail for a moment."""
    for left in reversed(range(_TRIES)):
        try:
            return slicing()
        except Exception as error:
            # A file that is absent or forbidden stays so.
            lost = isinstance(error, FileNotFoundError)
            if not left or lost or (failure := failure_of(error)).refused or not failure.answered:
                raise
            time.sleep(_PAUSE_SECONDS)
    raise AssertionError


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


def _broken_chunk(array: Any, start: int, stop: int) -> str | None:
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
    for number, across in enumerate(chunks):
        # Stores that tell no sizes tell no marks either.
        for stamp in (stamp for stamp in across if stamp and stamp.mark and not stamp.size):
            start = sizes[0] * number
            last = min(start + sizes[0], array.shape[0]) - 1
            got = f"a {stamp.mark}" if stamp == _NO_FILE else "an empty or cut off one"
            what = f"stored chunk {number} along the rows of variable {name!r}"
            remedy = "write it again, or take an intact copy of the data"
            msg = f"{what} must be a file, not {got}, for rows {start} to {last}: {remedy}"
            raise DataError(msg)
    # The number that absent chunks are read as, in words; None where that is NaN or infinite.
    value = np.array([0 if array.fill_value is None else array.fill_value], array.dtype)
    read = marks.decoded(value, name) if (marks := marks_of(array, name)) else value
    fill = f"{value[0]:g}" if np.isfinite(read).all() else None
    checksums = (
        codec
        for codec, options in _codecs_of(array).items()
        if codec in _CHECKED or (codec == "zstd" and options.get("checksum"))
    )
    inventory = Inventory(name, array.shape[0], chunks, sizes[0], fill, tuple(checksums))
    if array.shards is None or fill is None or not within:
        return inventory
    shards = [place for across in places for place in across if key_of(place) in stamps]
    return replace(inventory, within=tuple(_absent_within(array, shards)))


def _stamps(array: Any, name: str) -> Stamps | None:
    """Keys within the folder of the array, and what its store says of them."""
    from zarr.core.sync import sync
    from zarr.storage import LocalStore, WrapperStore

    store = array.store
    # Wrappers of zarr stand around the store that is to be listed.
    while isinstance(store, WrapperStore):
        store = store._store
    if isinstance(store, LocalStore):
        blosc = not array.shards and [*_codecs_of(array)][-1:] == ["blosc"]
        return _local_stamps(os.path.join(store.root, array.path), name, blosc=blosc)
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
    mark = next((told[name] for name in _STAMP_KEYS if told.get(name)), "")
    return Stamp(int(told.get("size") or 0), str(mark))


def _local_stamps(root: str, name: str, *, blosc: bool) -> Stamps:
    """Files and folders in a folder and those within it, with the times when they were written.

    Chunks of blosc have no bytes where they have less than they say: their decoder reads on.
    """

    def refused(error: OSError) -> None:
        raise error

    start, stamps = len(os.path.join(root, "")), {}
    try:
        for folder, folders, files in os.walk(root, onerror=refused, followlinks=True):
            for path in (os.path.join(folder, entry) for entry in (*folders, *files)):
                if os.path.exists(path):  # of a link, what it leads to
                    told = os.stat(path)
                    stamp = Stamp(told.st_size, str(told.st_mtime_ns))
                    is_file = stat.S_ISREG(told.st_mode)
                    stamps[path[start:]] = stamp if is_file else _NO_FILE
                    if blosc and is_file:
                        with open(path, "rb") as file:
                            length = int.from_bytes(file.read(16)[12:], "little")
                        if length > told.st_size:
                            stamps[path[start:]] = Stamp(0, stamp.mark)
    except OSError as error:
        msg = (
            f"the stored chunks of variable {name!r} cannot be listed "
            f"({error.strerror or error}: {error.filename or root}): is the data complete?"
        )
        raise DataError(msg) from error
    return stamps


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


def _absent_within(array: Any, shards: Sequence[ChunkPlace]) -> Iterator[tuple[int, int]]:
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
    from zarr.abc.store import RangeByteRequest, SuffixByteRequest
    from zarr.core.buffer import default_buffer_prototype
    from zarr.core.common import concurrent_map
    from zarr.core.sync import sync

    codec = array.metadata.to_dict()["codecs"][0]["configuration"]
    names = [one["name"] for one in codec["index_codecs"]]
    plain = codec["index_codecs"][0].get("configuration", {}).get("endian") == "little"
    if not plain or names not in (["bytes"], ["bytes", "crc32c"]):
        return
    counts = [shard // chunk for shard, chunk in zip(array.shards, array.chunks, strict=True)]
    size = 16 * math.prod(counts) + _CHECKSUM_BYTES * (len(names) - 1)
    at_end = codec.get("index_location", "end") == "end"
    part = SuffixByteRequest(size) if at_end else RangeByteRequest(0, size)

    async def read(shard: ChunkPlace) -> bytes:
        place = array.store_path / array.metadata.encode_chunk_key(shard)
        index = await place.get(default_buffer_prototype(), part)
        return b"" if index is None else bytes(index.to_bytes())

    # Some at a time, or the store would get thousands of requests at once.
    indices = sync(concurrent_map([(one,) for one in shards], read, _AT_A_TIME))
    for shard, index in zip(shards, indices, strict=True):
        if len(index) in (0, size):  # else it is cut off, which is an error when it is read
            # An empty shard is read as if all of its chunks were absent.
            marks = np.frombuffer(index.ljust(size, b"\xff"), "<u8", 2 * math.prod(counts))
            inner = np.argwhere(marks.reshape(*counts, 2)[..., 0] == _ABSENT)
            starts = np.multiply(shard, array.shards) + inner * array.chunks
            # Without chunks that lie beyond the array.
            for start in starts[(starts < array.shape).all(axis=1), 0].tolist():
                yield start, min(start + array.chunks[0], array.shape[0])


# --- memory that decoding takes


def _decoding_bytes(array: Any, chunk_rows: int | None, rows: int) -> int:
    """Bytes besides the result of a read of an array that touches pieces of so many rows.

    The pieces that are read are chunks, or whole shards where these are small.

    Parameters
    ----------
    array : array-like
        With `shape` and `dtype`; of one that is no zarr array, rows are taken to come through a
        buffer.
    chunk_rows : int or None
        Rows that are stored together.
    rows : int
        Rows of the pieces.
    """
    item = int(np.dtype(array.dtype).itemsize)
    if not is_zarr(array):
        buffer = item * (chunk_rows or 0) * math.prod(array.shape[1:])
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
    margin = _HALF_STEP * abs(scale) if whole else 0.0
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
    found: dict[str, list[float]] = {}
    for key in (key for key in (*_FILLS, *_LENGTHS) if attributes.get(key) is not None):
        value = attributes[key]
        try:
            numbers = list(map(_number, np.ravel(value).tolist()))
        except (TypeError, ValueError):
            numbers = []
        count = 0 if key == "scale_factor" and numbers == [0] else _LENGTHS.get(key, len(numbers))
        finite = key in _FILLS or np.isfinite(numbers).all()
        if not numbers or len(numbers) != count or not finite:
            what = f"{_LENGTHS.get(key, 'only')} finite number(s), a scale other than 0"
            where = f"attribute {key!r} of variable {name!r}"
            msg = f"{where} must hold {what}, got {shown(value)}: correct or remove it"
            raise DataError(msg)
        found[key] = numbers
    return found


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


# --- rows that are made of others


RowFunction = Callable[[Indices, Sequence[NDArray[Any]]], NDArray[np.float64]]
"""Rows of a variable (b, width), given their numbers (b,) and the rows (b, d_m) of the others."""


@dataclass(frozen=True)
class Mapped:
    """A variable that is made of others when it is read, never held as a whole.

    Parameters
    ----------
    name : str
        Name of the variable.
    inputs : tuple of source
        The variables that it is made of.
    shape : tuple of int
        Rows and columns.
    row_bytes : int
        Bytes that are read for a row.
    function : RowFunction, optional
        Computes it from the same rows of the inputs; travels to the tasks.
    spans : optional
        Whose rows these are, where no function is given; inputs are of the same columns then, and
        every one keeps its order. ``of(rows)`` says of every input which of some increasing rows
        are of it, and its rows there; ``before(rows)`` the first of its rows that does not come
        before each of some rows.
    """

    name: str
    inputs: tuple[Source, ...]
    shape: tuple[int, int]
    row_bytes: int
    function: RowFunction | None = None
    spans: Rest | _Mixed | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        values = tuple(getattr(self, one.name) for one in fields(self))
        return unpacked, (type(self), pickled(values))

    @property
    def place(self) -> Place:
        """A graph where any of the inputs is one; storage where all are in storage."""
        places = {source.place for source in self.inputs}
        return "graph" if "graph" in places else "memory" if "memory" in places else "storage"

    @property
    def chunk_rows(self) -> int | None:
        """Rows for which the longest input is read in whole chunks, about."""
        longest = max((source.shape[0] for source in self.inputs), default=0)
        same = (source for source in self.inputs if source.shape[0] == longest)
        if not (rows := max((source.chunk_rows or 0 for source in same), default=0)):
            return None
        return min(self.shape[0], max(1, round(rows * self.shape[0] / longest)))

    @property
    def take_bytes(self) -> int:
        """Bytes that `take` holds besides its result."""
        return max((source.take_bytes for source in self.inputs), default=0)

    def decode_bytes(self, rows: int) -> int:
        """Those of the input that needs most, and its rows before they are put in order."""
        most = max((source.decode_bytes(rows) for source in self.inputs), default=0)
        return most + (rows * self.row_bytes if self.spans else 0)

    # What the rows of others are, they are here, too.

    @property
    def _rows_of(self) -> tuple[Any, ...]:
        return self.inputs if self.spans else ()

    @property
    def kinds(self) -> tuple[ValueKind, ...] | None:
        """Kinds of the columns."""
        return kinds_of(self.inputs[0]) if self.spans else None

    @property
    def labels(self) -> tuple[str, ...] | None:
        """The names of the columns."""
        return labels_of(self.inputs[0]) if self.spans else None

    @property
    def columns(self) -> ColumnChoice:
        """The columns of what is stored that make the variable; None for all."""
        return getattr(self.inputs[0], "columns", None) if len(self._rows_of) == 1 else None

    @property
    def stored(self) -> tuple[Any, ...]:
        """The stored arrays of which rows are left."""
        return tuple(array for part in self._rows_of for array in getattr(part, "stored", ()))

    @property
    def marks(self) -> Any:
        """How the values of the first input are read that says it."""
        return next((marks for x in self._rows_of if (marks := getattr(x, "marks", None))), None)

    def place_of(self, row: int) -> tuple[str, int]:
        """The name of the input that a row is of, and its row there."""
        for source, (_, there) in zip(self.inputs, self._there(np.array([row])), strict=True):
            if self.spans and len(there):
                at = int(there[0])
                return source.place_of(at) if isinstance(source, Mapped) else (source.name, at)
        return self.name, row

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start..stop-1."""
        firsts, parts, every = [], [], self._there(np.arange(start, stop))
        # One contiguous read of every input: storage gives chunks, not rows.
        for source, (_, there) in zip(self.inputs, every, strict=True):
            firsts.append(int(there[0]) if len(there) else 0)
            parts.append(source.read(firsts[-1], int(there[-1]) + 1) if len(there) else None)
        return self.block(start, stop, firsts, *parts)

    def take(self, rows: Indices) -> Any:
        """Rows by increasing number."""
        every = zip(self.inputs, self._there(rows), strict=True)
        values: list[Any] = [
            source.take(there) if len(there) else None for source, (_, there) in every
        ]
        if self.place == "graph":
            import dask.array as da  # with pandas and Xarray, slow to import
            from dask import delayed

            made = delayed(Mapped.made, pure=False)(self._sent, rows, *values)
            return da.from_delayed(made, (len(rows), self.shape[1]), dtype=np.float64)
        if self.function is not None and (size := self.chunk_rows) and self.place == "storage":
            # As tasks take them, a chunk at a time: products with more rows round anew.
            starts = chunk_starts(rows, size)
            parts = zip(*(np.split(x, starts) for x in (rows, *values)), strict=True)
            return np.concatenate([self.made(at, *others) for at, *others in parts])
        return self.made(rows, *values)

    def lazy(self, bounds: Sequence[int]) -> list[Any]:
        """Delayed blocks between the bounds, where one of the inputs is a Dask array."""
        from dask import delayed

        inner = np.array(bounds[1:-1], np.intp)
        before = self.spans.before(inner) if self.spans else [inner] * len(self.inputs)
        edges = [
            [0, *rows.tolist(), source.shape[0]]
            for source, rows in zip(self.inputs, before, strict=True)
        ]
        columns = map(_lazy_parts, self.inputs, edges)
        make, sent = delayed(Mapped.block, pure=False), self._sent
        return [
            make(sent, *span, [edge[i] for edge in edges], *parts)
            for i, (span, *parts) in enumerate(zip(pairwise(bounds), *columns, strict=True))
        ]

    def _there(self, rows: Indices) -> list[tuple[Any, Indices]]:
        return self.spans.of(rows) if self.spans else [(slice(None), rows)] * len(self.inputs)

    @property
    def _sent(self) -> Any:
        from dask import delayed

        # How rows are made, without what they are made of. Dask would look for tasks within its
        # arrays otherwise, element by element.
        nothing: Any = (None,) * len(self.inputs)
        return delayed(replace(self, inputs=nothing), traverse=False)

    def block(self, start: int, stop: int, firsts: Sequence[int], *parts: Any) -> NDArray[Any]:
        """Rows start..stop-1, of parts of the inputs from some row of each on."""
        rows = np.arange(start, stop)
        values: list[Any] = []
        for part, first, (_, there) in zip(parts, firsts, self._there(rows), strict=True):
            # Increasing rows, as many as there are, are all of them.
            whole = part is None or len(part) == len(there)
            values.append(part if whole else part[there - first])
        if self.function is None:
            return self.made(rows, *values)
        out = np.empty((len(rows), self.shape[1]))
        # A few at a time, so that what the function needs stays small.
        for first in range(0, len(out), _TILE_ROWS):
            at = slice(first, first + _TILE_ROWS)
            out[at] = self.made(rows[at], *(block[at] for block in values))
        return out

    def made(self, rows: Indices, *given: Any) -> NDArray[Any]:
        """Some rows, of those of the inputs."""
        # Arrays may arrive unaligned, see `unpacked`.
        values = [None if x is None else np.require(x, requirements="A") for x in given]
        if self.function is not None:
            return self.function(rows, values)  # type: ignore[arg-type]
        every = zip(self._there(rows), values, strict=True)
        there: list[tuple[Any, NDArray[Any]]] = [(at, x) for (at, _), x in every if x is not None]
        if len(there) == 1:
            return there[0][1]
        merged = np.empty((len(rows), self.shape[1]), np.result_type(*(x for _, x in there)))
        for at, x in there:
            merged[at] = x
        return merged


def _lazy_parts(source: Source, bounds: Sequence[int]) -> list[Any]:
    """Parts of an input, None for one without rows: in storage tasks read it, in memory here."""
    spans = list(pairwise(bounds))
    if source.place == "graph":
        different = sorted(set(bounds))
        parts = dict(zip(pairwise(different), source.lazy(different), strict=True))
        return [parts.get(span) for span in spans]
    from dask import delayed

    read = source.read if source.place == "memory" else delayed(source.read, pure=False)
    return [read(*span) if span[0] < span[1] else None for span in spans]


def derived(name: str, inputs: Sequence[Source], function: RowFunction, width: int) -> Mapped:
    """A function of the rows of other variables."""
    row_bytes = sum(source.row_bytes for source in inputs) + 8 * width
    return Mapped(name, tuple(inputs), (inputs[0].shape[0], width), row_bytes, function)


def join_rows(rows: Indices, values: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
    """Rows of several variables side by side, as a `RowFunction`."""
    del rows
    return np.concatenate([np.asarray(x, np.float64) for x in values], axis=1)


def joined_source(sources: Sequence[Source]) -> Mapped:
    """All columns of some variables side by side, as one."""
    name = ", ".join(source.name for source in sources)
    return derived(name, sources, join_rows, sum(source.shape[1] for source in sources))


@dataclass(frozen=True)
class Rest:
    """The rows that are left where some are left out, ascending."""

    left_out: Indices

    def of(self, rows: Indices) -> list[tuple[Any, Indices]]:
        return [(slice(None), self.before(rows)[0])]

    def before(self, rows: Indices) -> list[Indices]:
        # How many rows that stay come before each that is left out.
        gaps = self.left_out - np.arange(len(self.left_out))
        return [rows + np.searchsorted(gaps, rows, side="right")]


def without_rows(whole: Source, left_out: Indices) -> Mapped:
    """The rows of another variable that are not left out, in their order.

    Parameters
    ----------
    whole : source
        The other variable.
    left_out : ndarray of int, shape (t,)
        Its rows that this one lacks, ascending; fewer than it has.

    Examples
    --------
    >>> rest = without_rows(Variable("x", np.arange(6)), np.array([0, 3]))
    >>> rest.shape, rest.read(1, 4).ravel().tolist()
    ((4, 1), [2, 4, 5])
    """
    n, d = whole.shape
    shape = n - len(left_out), d
    return Mapped(whole.name, (whole,), shape, whole.row_bytes, spans=Rest(left_out))


# --- samples that are pooled


def rows_of_samples(rows: Indices, sizes: Sequence[int]) -> tuple[Indices, Indices]:
    """The sample of every pooled row, and its row there.

    Two samples of n and m rows are mixed evenly: of the first i pooled rows, floor(i n / (n + m))
    are of the first. More are mixed one after another, each into all before it. So every run of
    pooled rows has of every sample about its share of the whole, and as many rows of each where
    samples are equally long, K to a run of K = 2, 4, 8, ...

    Parameters
    ----------
    rows : ndarray of int, shape (b,)
        Pooled rows.
    sizes : sequence of int
        Rows of every sample.

    Returns
    -------
    samples, places : ndarray of int, shapes (b,)

    Examples
    --------
    >>> rows_of_samples(np.arange(6), [4, 2])
    (array([1, 0, 0, 1, 0, 0]), array([0, 0, 1, 1, 2, 3]))
    """
    samples, places = np.zeros(len(rows), np.intp), np.asarray(rows, np.intp).copy()
    left = np.arange(len(rows))
    totals = list(accumulate(sizes))
    # From the last sample back, since each was mixed into all before it.
    for k in range(len(sizes) - 1, 0, -1):
        position = places[left]
        before = _share(position, totals[k - 1], totals[k])
        # A row is of the earlier samples where their share grows with it.
        earlier = _share(position + 1, totals[k - 1], totals[k]) > before
        of_sample = left[~earlier]
        samples[of_sample], places[of_sample] = k, (position - before)[~earlier]
        left = left[earlier]
        places[left] = before[earlier]
    return samples, places


def _share(position: Indices, part: int, whole: int) -> Indices:
    """floor(position * part / whole), however large they are."""
    # Larger products would overflow; Python's whole numbers do not.
    if whole * whole < _LARGEST_PRODUCT:
        return position * part // whole
    return (position.astype(object) * part // whole).astype(np.intp)


@dataclass(frozen=True)
class _Mixed:
    """Samples whose rows are mixed in a fixed order that needs no memory."""

    sizes: tuple[int, ...]

    def of(self, rows: Indices) -> list[tuple[Any, Indices]]:
        numbers, places = rows_of_samples(rows, self.sizes)
        mine = (np.flatnonzero(numbers == k) for k in range(len(self.sizes)))
        return [(at, places[at]) for at in mine]

    def before(self, rows: Indices) -> list[Indices]:
        totals, firsts = list(accumulate(self.sizes)), list[Indices]()
        for k in range(len(self.sizes) - 1, 0, -1):
            earlier = _share(rows, totals[k - 1], totals[k])
            firsts.append(rows - earlier)
            rows = earlier
        return [rows, *reversed(firsts)]


def pooled_samples(name: str, samples: Sequence[Source]) -> Mapped:
    """Two or more samples of the same columns as one variable, see `rows_of_samples`."""
    sizes = tuple(sample.shape[0] for sample in samples)
    row_bytes = max(sample.row_bytes for sample in samples)
    shape = sum(sizes), samples[0].shape[1]
    return Mapped(name, tuple(samples), shape, row_bytes, spans=_Mixed(sizes))


@dataclass(frozen=True)
class _CodesOfSamples:
    """The code of the sample of every pooled row, as a `RowFunction`."""

    sizes: tuple[int, ...]
    codes: NDArray[np.float64]

    def __call__(self, rows: Indices, values: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
        del values
        codes: NDArray[np.float64] = self.codes[rows_of_samples(rows, self.sizes)[0]]
        return codes


def codes_of_rows(name: str, sizes: Sequence[int], codes: NDArray[np.float64]) -> Mapped:
    """The code (c,) of the sample of every pooled row; codes have shape (K, c)."""
    # Nothing is read: 1 is the least that a plan can divide by.
    return Mapped(name, (), (sum(sizes), codes.shape[1]), 1, _CodesOfSamples(tuple(sizes), codes))


# --- rows that are held in memory, since they are needed in any order


@dataclass(frozen=True)
class HeldSource(Mapped):
    """The rows of another variable, which are read when the first of them is asked for.

    Parameters
    ----------
    strata : ndarray of int, shape (n,), optional
        The stratum of every row, from 0 on: numbers are then about the mean of their stratum, in
        its standard deviations.
    at : tuple, optional
        Client and threads, where a graph is computed; as it is told here where not given.
    """

    strata: NDArray[np.intp] | None = None
    at: tuple[Any, int | None] = field(default_factory=GRAPH_PLACE.get, compare=False, repr=False)

    place = "memory"
    chunk_rows = None
    columns = None
    take_bytes = 0

    def decode_bytes(self, rows: int) -> int:
        """Nothing is decoded."""
        del rows
        return 0

    @cached_property
    def array(self) -> NDArray[Any]:
        """All rows, shape (n, d)."""
        with graphs_on(*self.at):
            values = read_whole(self.inputs[0])
        if self.strata is None:
            return values
        numbers = [kind == "number" for kind in kinds_of(self)]
        check_exact(f"variable {self.name!r}", values)
        values = values.astype(np.float64)
        values[:, numbers] = within_strata(values[:, numbers], self.strata)
        return values

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start..stop-1."""
        return self.array[start:stop]

    def take(self, rows: NDArray[np.intp]) -> NDArray[Any]:
        """Rows by number."""
        return self.array[rows]


def held_in_memory(source: Source, strata: NDArray[np.intp] | None = None) -> HeldSource:
    """A variable whose rows are held in memory once they are read, about their strata if given."""
    doubles = 8 * source.shape[1]
    row_bytes = doubles if strata is not None else min(source.row_bytes, doubles)
    every = Rest(np.empty(0, np.intp))
    return HeldSource(source.name, (source,), source.shape, row_bytes, None, every, strata)


def within_strata(values: NDArray[np.float64], strata: NDArray[np.intp]) -> NDArray[np.float64]:
    """Columns about their means in every stratum, in units of their standard deviations there.

    To permute rows within strata leaves both as they are. Differences between strata would hide a
    dependence within them, and more so where it points the other way. Two rows in their own
    standard deviation would keep nothing of their difference but its sign: pairs share one.

    Parameters
    ----------
    values : ndarray, shape (n, d)
        Numbers; those that are not finite stay, and count for nothing.
    strata : ndarray of int, shape (n,)
        The stratum of every row, from 0 on.

    Examples
    --------
    >>> strata = np.array([0, 0, 0, 1, 1, 1])
    >>> within_strata(np.array([[1.0, 2.0, 3.0, 10.0, 30.0, 50.0]]).T, strata).ravel().round(2)
    array([-1.22,  0.  ,  1.22, -1.22,  0.  ,  1.22])
    """
    scaled, rows = np.empty_like(values), np.bincount(strata)
    shared = np.where(rows == 2, len(rows), np.arange(len(rows)))[strata]
    for column, given in enumerate(values.T):
        finite = np.isfinite(given)
        counts = np.maximum(np.bincount(strata, finite), 1)
        x = np.where(finite, given, 0.0)
        # In units of the largest of their label, whose squares are numbers of float64 too; a power
        # of two changes no digit.
        largest = np.zeros(shared.max() + 1)
        np.maximum.at(largest, shared, np.abs(x))
        x = np.ldexp(x, -np.frexp(largest)[1][shared])
        about = x - (np.bincount(strata, x) / counts)[strata]
        # A sum of many rows is rounded; that of what is left by its mean hardly.
        left = np.bincount(strata, np.where(finite, about, 0.0)) / counts
        about = about - left[strata]
        # Rounding errors of a constant are no spread.
        least = _ROUNDED * np.bincount(strata, np.abs(x)) / counts
        about = np.where((_spreads(about, finite, strata) > least)[strata], about, 0.0)
        spread = _spreads(about, finite, shared)
        scale = np.where(spread > 0.0, spread, np.inf)[shared]
        # Missing values stay as they are, and are refused when rows are read.
        scaled[:, column] = np.where(finite, about / scale, given)
    return scaled


def _spreads(
    about: NDArray[np.float64], finite: NDArray[np.bool_], labels: NDArray[np.intp]
) -> NDArray[np.float64]:
    """Root mean squares of the finite of some numbers, of every label."""
    squares = np.bincount(labels, np.where(finite, about, 0.0) ** 2)
    return np.asarray(np.sqrt(squares / np.maximum(np.bincount(labels, finite), 1)), np.float64)


def held_sources(
    sources: Sequence[Source], memory: int, strata: NDArray[np.intp] | None
) -> list[Source]:
    """The variables, those that are not in memory held there, and all of them within strata.

    Raises
    ------
    MemoryBudgetError
        They take more than a quarter of the memory.
    """
    held: list[Source] = [
        source if source.place == "memory" and strata is None else held_in_memory(source, strata)
        for source in sources
    ]
    # The rest of the memory is for tiles and sums of the passes.
    needed = sum(s.row_bytes * s.shape[0] for s in held if isinstance(s, HeldSource))
    what = "rows that move within strata or as groups are"
    _check_quarter(what, needed, memory, ", or test fewer rows or columns")
    return held


def _check_quarter(what: str, needed: int, memory: int, otherwise: str = "") -> None:
    if _PARTS_OF_MEMORY * needed > memory:
        told = f"{what} held in memory, in a quarter of it, and take {format_bytes(needed)}"
        msg = f"{told}. Allow memory={_PARTS_OF_MEMORY * needed} or more{otherwise}"
        raise MemoryBudgetError(msg)


def read_weights(source: Source, memory: int) -> RowWeights:
    """Weights of all rows, relative to their mean, held in memory.

    Parameters
    ----------
    source : Source
        Numbers, a column of them.
    memory : int
        Bytes that are allowed.

    Raises
    ------
    DataError
        They are no numbers, several columns, or one is not positive and finite.
    MemoryBudgetError
        They take more than a quarter of the memory.
    """
    n, columns = source.shape
    if columns != 1 or kinds_of(source) != ("number",):
        held = f"{columns} columns" if columns != 1 else f"a column of kind {kinds_of(source)[0]!r}"
        msg = f"weights must be one column of numbers, got {held}: give a number for each row"
        raise DataError(msg)
    _check_quarter("weights are", 8 * n, memory)
    values = read_whole(source).astype(np.float64).ravel()
    wrong = np.flatnonzero(~(np.isfinite(values) & (values > 0.0)))
    if len(wrong):
        got = f"{values[wrong[0]]} in row {wrong[0]} and {len(wrong):,} such in all"
        remedy = "leave out such rows, as by missing='drop'"
        msg = f"weights must be positive finite numbers, got {got}: {remedy}"
        raise DataError(msg)
    # About 1, so that neither sums nor squares overflow, whatever their unit.
    values /= values.max()
    values /= values.mean()
    squares, cubes = (float((values**power).mean()) for power in (2, 3))
    # Kish's number of rows that tell as much, (sum w)^2 / sum w^2.
    if n / squares < _FEWEST_WEIGHED:
        what = f"one of {n:,} has nearly all of them, worth {n / squares:.3g} rows"
        msg = f"weights must be of several rows, and {what}: correct it, or leave that row out"
        raise DataError(msg)
    return RowWeights(Variable("weights", values[:, None]), squares, cubes)


# --- rows in which a value is missing


def without_missing(sources: Sequence[Variable], missing: str) -> tuple[list[Source], int]:
    """The variables without the rows in which one of them misses a value, and how many these are.

    With "refuse" the variables as they are: missing values are refused by the pass that reads them,
    in any place and with their row, so that data are read once. With "pairwise", too, see
    `count_gaps`. Where rows are to be dropped, stored data are read once more, block by block in
    this process.

    Raises
    ------
    DataError
        No row is complete.
    """
    if missing != "drop":
        return list(sources), 0
    of_each = [np.concatenate(list(of_blocks(source, _incomplete))) for source in sources]
    gaps = np.logical_or.reduce(of_each)
    if gaps.all():
        counts = [f"{s.name!r} {x.sum():,}" for s, x in zip(sources, of_each, strict=True)]
        told = f"all {len(gaps):,} rows miss a value ({', '.join(counts)})"
        msg = f"{told}: leave out the variable that does"
        raise DataError(msg)
    if not len(left_out := np.flatnonzero(gaps)):
        return list(sources), 0
    return [without_rows(source, left_out) for source in sources], len(left_out)


def count_gaps(source: Source) -> Gaps:
    """The missing values of a variable, which stay; stored data are read once for it.

    Raises
    ------
    DataError
        A value is infinite, or a column has no value.
    """
    rows, values, start = 0, np.zeros(source.shape[1], np.intp), 0
    for incomplete, of_columns, infinite in of_blocks(source, _counts):
        if len(infinite):
            row = start + infinite[0]
            msg = f"variable {source.name!r} has infinity, first in row {row}: make it NaN, a gap"
            raise DataError(msg)
        rows, values = rows + int(incomplete.sum()), values + of_columns
        start += len(incomplete)
    if (values == start).any():
        column = int(np.argmax(values == start))
        msg = f"variable {source.name!r} has no value in column {column}: leave it out"
        raise DataError(msg)
    return Gaps(rows, tuple(values.tolist()))


def check_missing(missing: str, *, pairwise: bool) -> None:
    """Refuse what is no treatment, or none of the function that was called.

    Raises
    ------
    InvalidArgumentError
        Says where "pairwise" can be used.
    """
    if isinstance(missing, str) and missing == "pairwise" and not pairwise:
        msg = (
            "missing='pairwise' is for independence_test, hsic, plan, dependence_matrix, lag_scan, "
            "rank_features, plan_ranking and select_features, got it in another function: take "
            "'drop', or fill the gaps"
        )
        raise InvalidArgumentError(msg)
    check_choice("missing", missing, get_args(GapTreatment if pairwise else Missing))


def _counts(block: NDArray[Any]) -> tuple[NDArray[np.bool_], NDArray[np.intp], NDArray[np.intp]]:
    """Whether each row has gaps, the gaps of every column, and rows with infinity."""
    infinite = np.flatnonzero(np.isinf(block).any(axis=1))
    return _incomplete(block), np.isnan(block).sum(axis=0), infinite


def _incomplete(block: NDArray[Any]) -> NDArray[np.bool_]:
    gaps: NDArray[np.bool_] = np.isnan(block).any(axis=1)
    return gaps


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
