"""Variables wherever their rows are: in memory, in storage, behind a Dask graph."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.blocks import ValueKind, chunk_starts
from dhsic.engine.inventory import Inventory
from dhsic.errors import DataError
from dhsic.io.chunks import (
    Decoding,
    broken_chunk,
    decoding_of,
    inventory_of,
    inventory_of_file,
    is_zarr,
    missing_folder,
)
from dhsic.io.encode import Labels
from dhsic.io.marks import Marks, marks_of, unmasked
from dhsic.io.urls import StorageError

if TYPE_CHECKING:
    from dask.delayed import Delayed

ColumnChoice = tuple[int, ...] | None

_READERS = 4
_TAKE_ROWS = 4096
_READ_BYTES = 256 * 2**20
_TRIES = 3
_PAUSE_SECONDS = 0.5


def _as_rows(block: Any, columns: ColumnChoice) -> NDArray[Any]:
    values = unmasked(block)
    values = values[:, None] if values.ndim == 1 else values
    values = values if columns is None else values[:, columns]
    # NumPy does not subtract booleans.
    return values.view(np.int8) if values.dtype == bool else values


def _insist(slicing: Callable[[], Any]) -> Any:
    """Slice an array; a network's file system may fail for a moment."""
    for left in reversed(range(_TRIES)):
        try:
            return slicing()
        except OSError as error:
            # A file that is absent or forbidden stays so.
            if not left or isinstance(error, (FileNotFoundError, PermissionError)):
                raise
            time.sleep(_PAUSE_SECONDS)
    raise AssertionError


def _width(array: Any, columns: ColumnChoice) -> int:
    d = 1 if array.ndim == 1 else int(array.shape[1])
    return d if columns is None else len(columns)


class OfRows:
    """Properties of variables whose rows take no work to read."""

    @property
    def take_bytes(self) -> int:
        """Nothing besides the rows."""
        return 0

    def decode_bytes(self, rows: int) -> int:
        """Nothing is decoded."""
        return 0

    def lazy(self, bounds: Sequence[int]) -> list[Any]:
        """For Dask arrays alone."""
        raise NotImplementedError


class _OfKinds:
    """Properties of variables that know the kinds of their columns."""

    kinds: tuple[ValueKind, ...] | None

    @property
    def categorical(self) -> bool:
        """Whether any column holds codes of categories."""
        return "category" in (self.kinds or ())


@dataclass(frozen=True)
class ArraySource(OfRows, _OfKinds):
    """A NumPy array.

    Parameters
    ----------
    name : str
        Name of the variable.
    array : ndarray, shape (n,) or (n, d)
        Numbers.
    columns : tuple of int, optional
        The columns that make the variable; all where not given.
    kinds : tuple of {"number", "boolean", "category"}, optional
        Kinds of the columns of the variable; numbers where not given. Categories are codes.
    labels : tuple of str, optional
        The names of the columns of the variable.
    categories : tuple, optional
        For every column the labels that its codes stand for, or None.
    marks : Marks, optional
        By which values were found to be missing.
    """

    name: str
    array: NDArray[Any]
    columns: ColumnChoice = None
    kinds: tuple[ValueKind, ...] | None = None
    labels: tuple[str, ...] | None = None
    categories: tuple[Labels, ...] | None = None
    marks: Marks | None = None

    place: Literal["memory"] = "memory"
    chunk_rows: int | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self.array), _width(self.array, self.columns)

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return self.shape[1] * self.array.dtype.itemsize

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start..stop-1."""
        return _as_rows(self.array[start:stop], self.columns)

    def take(self, rows: NDArray[np.intp]) -> NDArray[Any]:
        """Rows by number."""
        return _as_rows(self.array[rows], self.columns)


@dataclass(frozen=True)
class StoredSource(OfRows, _OfKinds):
    """An array that any task can open and slice: zarr, HDF5, a memory map, a lazy xarray.

    Parameters
    ----------
    name : str
        Name of the variable.
    array : array-like
        Has `shape`, `dtype`, `ndim` and slicing; is pickled by reference.
    stored_rows : int or None
        Rows that are stored together.
    columns : tuple of int, optional
        The columns that make the variable; all where not given.
    kinds : tuple of {"number", "boolean", "category"}, optional
        Kinds of the columns of the variable; numbers where not given. Categories are codes.
    labels : tuple of str, optional
        The names of the columns of the variable.
    categories : tuple, optional
        For every column the labels that its codes stand for, or None.
    allow_missing_chunks : bool, optional
        Whether absent chunks are data that their writer left out, and read as the fill value.
    """

    name: str
    array: Any
    stored_rows: int | None
    columns: ColumnChoice = None
    kinds: tuple[ValueKind, ...] | None = None
    labels: tuple[str, ...] | None = None
    categories: tuple[Labels, ...] | None = None
    allow_missing_chunks: bool = False

    place: Literal["storage", "memory"] = "storage"

    @property
    def stored(self) -> tuple[StoredSource, ...]:
        """Itself: what a run takes an inventory of."""
        return (self,)

    @property
    def identity(self) -> object:
        """Equal for variables of one array."""
        return str(self.array.store_path) if is_zarr(self.array) else id(self.array)

    def inventory(self, *, within: bool) -> Inventory | None:
        """The stored chunks, see `dhsic.io.inventory`; of HDF5 the file."""
        if is_zarr(self.array):
            return inventory_of(self.array, self.name, within=within)
        return inventory_of_file(self.array, self.name)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return int(self.array.shape[0]), _width(self.array, self.columns)

    @property
    def row_bytes(self) -> int:
        """Bytes of a stored row: all its columns are decoded."""
        # Columns of a chunk cannot be decoded apart, so that a plan counts all of them.
        return _width(self.array, None) * (8 if self.marks else np.dtype(self.array.dtype).itemsize)

    @cached_property
    def marks(self) -> Marks | None:
        """How stored values are read, by the attributes of the array; None for as they are."""
        return marks_of(self.array, self.name)

    @property
    def chunk_rows(self) -> int | None:
        """Rows that are stored together."""
        return self.stored_rows

    @cached_property
    def decoding(self) -> Decoding:
        """Memory that reading the array takes besides its rows."""
        return decoding_of(self.array, self.stored_rows)

    @cached_property
    def largest(self) -> int:
        """Bytes of the largest stored chunk; as many as it has decoded until a listing tells."""
        return self.decoding.shard or self.decoding.piece

    def seen(self, inventory: Inventory) -> None:
        """Keep what an inventory tells of the size of chunks, of HDF5 at most that of the file."""
        # In the place of the guess that is kept until a listing tells.
        self.__dict__["largest"] = min(self.largest, inventory.largest)

    def decode_bytes(self, rows: int) -> int:
        """Chunks as they are stored, decoded, and what decoding takes meanwhile."""
        # Values before they are unpacked, and where each of the marks is.
        marked = 0 if self.marks is None else 12 + len(self.marks.fills)
        return self.decoding.bytes(rows, self.largest) + rows * _width(self.array, None) * marked

    @property
    def take_bytes(self) -> int:
        """Chunks that are decoded at a time, and of others than zarr arrays their rows."""
        return self.readers * self._pick_bytes

    @property
    def _step(self) -> int:
        return self.stored_rows or _TAKE_ROWS

    @property
    def _pick_bytes(self) -> int:
        rows = 0 if is_zarr(self.array) else min(self._step, self.shape[0])
        return self.decode_bytes(self._step) + rows * self.row_bytes

    @property
    def readers(self) -> int:
        """Chunks that `take` reads at a time: fewer of large ones, which are read no faster so."""
        chunks = -(-self.shape[0] // self._step)
        return max(1, min(_READERS, chunks, _READ_BYTES // max(1, self._pick_bytes)))

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start..stop-1."""
        return self._read(start, stop, lambda: self.array[start:stop])

    def _read(self, start: int, stop: int, slicing: Callable[[], Any]) -> NDArray[Any]:
        """Rows among start..stop-1."""
        what = f"rows {start} to {stop - 1} of variable {self.name!r} cannot be read"
        # Where the folder is not there, zarr would read fill values.
        if (folder := missing_folder(self.array)) is not None:
            msg = (
                f"{what}: process {os.getpid()} on {socket.gethostname()} sees no folder {folder}; "
                "put the data where every worker finds it by the same path"
            )
            raise DataError(msg)
        try:
            block = _as_rows(_insist(slicing), self.columns)
        except StorageError as error:
            msg = f"{what}: {error}"
            raise DataError(msg) from error
        except Exception as error:
            chunk = broken_chunk(self.array, start, stop)
            place = "" if chunk is None else f"stored chunk {chunk}: "
            said = f"{type(error).__name__}: {error}"
            msg = f"{what} ({place}{said}): is the data complete and intact?"
            raise DataError(msg) from error
        return block if self.marks is None else self.marks.decoded(block, self.name)

    @property
    def whole(self) -> StoredSource:
        """All columns of the array."""
        if self.columns is None:
            return self
        return replace(self, columns=None, kinds=None, labels=None, categories=None)

    def cut(self, block: NDArray[Any]) -> NDArray[Any]:
        """The columns of the variable, of rows of the array."""
        return block if self.columns is None else block[:, self.columns]

    def take(self, rows: NDArray[np.intp]) -> NDArray[Any]:
        """Rows by increasing number; each stored chunk is read at most once."""
        # A chunk for each reader, so that none is read twice.
        groups = np.split(rows, chunk_starts(rows, self._step))
        with ThreadPoolExecutor(self.readers) as pool:
            return np.concatenate(list(pool.map(self._pick, groups)))

    def _pick(self, rows: NDArray[np.intp]) -> NDArray[Any]:
        """Rows of one chunk."""
        start = int(rows[0]) // self._step * self._step
        stop = min(start + self._step, self.shape[0])
        if is_zarr(self.array):  # which copies no others from the chunk
            return self._read(start, stop, lambda: self.array.oindex[rows])
        return self.read(start, stop)[rows - start]


@dataclass(frozen=True)
class GraphSource(_OfKinds):
    """A Dask array.

    Parameters
    ----------
    name : str
        Name of the variable.
    array : dask.array.Array, shape (n, d)
        Array of known chunks.
    kinds : tuple of {"number", "boolean", "category"}, optional
        Kinds of the columns of the variable; numbers where not given. Categories are codes.
    labels : tuple of str, optional
        The names of the columns of the variable.
    marks : Marks, optional
        By which values are found to be missing.
    """

    name: str
    array: Any
    kinds: tuple[ValueKind, ...] | None = None
    labels: tuple[str, ...] | None = None
    marks: Marks | None = None

    place: Literal["graph"] = "graph"

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return int(self.array.shape[0]), int(self.array.shape[1])

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return self.shape[1] * int(self.array.dtype.itemsize)

    @property
    def chunk_rows(self) -> int | None:
        """Rows of the largest chunk."""
        return int(max(self.array.chunks[0]))

    @property
    def take_bytes(self) -> int:
        """Chunks that are computed at a time, and their rows."""
        return 2 * _READERS * int(max(self.array.chunks[0])) * self.row_bytes

    def decode_bytes(self, rows: int) -> int:
        """The chunks, which are computed whole."""
        return rows * self.row_bytes

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Not for Dask arrays: their blocks are computed by the graph."""
        raise NotImplementedError

    def take(self, rows: NDArray[np.intp]) -> Any:
        """Rows by increasing number, as a Dask array; each chunk is computed at most once."""
        return self.array[rows]

    def lazy(self, bounds: Sequence[int]) -> list[Delayed]:
        """Delayed blocks between the bounds: neighbours are cut and joined, nothing else moves."""
        sizes = tuple(int(b - a) for a, b in pairwise(bounds))
        aligned = self.array.rechunk({0: sizes, 1: -1}, method="tasks")
        # Not optimized one by one, since variables may share chunks, computed once for all.
        return list(aligned.to_delayed(optimize_graph=False).ravel())
