"""Variables: rows wherever they are, or made of others; held in memory, weighed, without gaps."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from dhsic._validation import check_choice
from dhsic.engine.graph import pickled, unpacked
from dhsic.engine.passes import (
    Gaps,
    RowWeights,
    Source,
    ValueKind,
    check_exact,
    chunk_starts,
    kinds_of,
    labels_of,
    of_blocks,
    read_whole,
)
from dhsic.engine.runtime import GraphPlace, graph_place, graphs_at
from dhsic.engine.session import Inventory
from dhsic.engine.units import format_bytes
from dhsic.errors import DataError, InvalidArgumentError, MemoryBudgetError
from dhsic.io.stored import (
    Marks,
    broken_chunk,
    decoding_bytes,
    inventory_of,
    inventory_of_file,
    is_of,
    is_sparse,
    is_zarr,
    missing_folder,
    unmasked,
    url_of,
)
from dhsic.io.urls import StorageError, failure_of, storage_error

ColumnChoice = tuple[int, ...] | None
Labels = tuple[Any, ...] | None
"""Labels of the codes of a category, in their order."""
Indices = NDArray[np.intp]
Place = Literal["memory", "storage", "graph"]

_READERS = 4
_TAKE_ROWS = 4096
_TILE_ROWS = 4096
_READ_BYTES = 256 * 2**20
_TRIES = 3
_PAUSE_SECONDS = 0.5
_LARGEST_PRODUCT = 2**62


_SHARE = 4  # of the memory
_FEWEST = 2.0  # rows, that weights are worth
_ROUNDED = 16 * np.finfo(np.float64).eps

Missing = Literal["refuse", "drop"]
GapTreatment = Literal["refuse", "drop", "pairwise"]


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
    stored_rows : int, optional
        Rows that are stored together, of an array in storage.
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
    stored_rows: int | None = None
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

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.rows or int(self.array.shape[0]), self._width(self.columns)

    def _width(self, columns: ColumnChoice) -> int:
        d = 1 if self.array.ndim == 1 else int(self.array.shape[1])
        return d if columns is None else len(columns)

    @property
    def row_bytes(self) -> int:
        """Bytes that are read for a row; of a stored one all columns are decoded."""
        item = int(np.dtype(self.array.dtype).itemsize)
        if self.is_stored:
            return self._width(None) * (8 if self.marks else item)
        return self.shape[1] * item

    @property
    def chunk_rows(self) -> int | None:
        """Rows that are stored together, or of the largest chunk of a graph."""
        return int(max(self.array.chunks[0])) if self.place == "graph" else self.stored_rows

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
        # Where the folder is not there, zarr would read fill values.
        if (folder := missing_folder(self.array)) is not None:
            where = f"process {os.getpid()} on {socket.gethostname()} sees no folder {folder}"
            msg = f"{what}: {where}; put the data where every worker finds it by the same path"
            raise DataError(msg)
        try:
            block = self._as_rows(_insist(slicing))
        except StorageError as error:
            msg = f"{what}: {error}"
            raise DataError(msg) from error
        except Exception as error:
            chunk = broken_chunk(self.array, start, stop)
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
        return self.stored_rows or _TAKE_ROWS

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
        """The stored chunks, see `dhsic.io.stored`; of HDF5 the file."""
        if is_zarr(self.array):
            return inventory_of(self.array, self.name, within=within)
        return inventory_of_file(self.array, self.name)

    def decode_bytes(self, rows: int) -> int:
        """Chunks as they are stored, decoded, and what decoding takes; of a graph its chunks."""
        if not self.is_stored:
            return rows * self.row_bytes if self.place == "graph" else 0
        # Values before they are unpacked, and where each of the marks is.
        marked = 0 if self.marks is None else 12 + len(self.marks.fills)
        decoded = decoding_bytes(self.array, self.stored_rows, rows)
        return decoded + rows * self._width(None) * marked

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
    if source.place == "memory":
        return [source.read(*span) if span[0] < span[1] else None for span in spans]
    from dask import delayed

    read = delayed(source.read, pure=False)
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
    at : mapping, optional
        Where a graph is computed; as it is told here where not given.
    """

    strata: NDArray[np.intp] | None = None
    at: GraphPlace = field(default_factory=graph_place, compare=False, repr=False)

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
        with graphs_at(self.at):
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
    if _SHARE * needed > memory:
        told = f"{what} held in memory, in a quarter of it, and take {format_bytes(needed)}"
        msg = f"{told}. Allow memory={_SHARE * needed} or more{otherwise}"
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
    if n / squares < _FEWEST:
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
