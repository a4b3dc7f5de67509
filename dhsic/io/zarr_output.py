"""Write a zarr group of row-aligned arrays, whole or not at all, perhaps in a random order."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dhsic._validation import check_flag, check_integer, check_path
from dhsic.errors import DataError, InvalidArgumentError, MemoryBudgetError
from dhsic.io.urls import is_url
from dhsic.io.whole import Destination

OnRowsWritten = Callable[[int], object]
"""Called with the number of rows handled so far."""
Block = Mapping[str, NDArray[np.float64]]
"""The same rows of several named arrays, each of shape (b, d)."""

_CHUNK_BYTES = 8 * 2**20
_MIN_CHUNK_ROWS = 1024
_MAX_CHUNK_ROWS = 65536
_BUCKET_BYTES = 32 * 2**20
_MAX_BITS = 10
_NAME = re.compile(r"(?!\.|__|zarr\.json$)[^/=\[\]]+")


@dataclass(frozen=True)
class WrittenColumn:
    """A column of a table, as it was converted.

    Parameters
    ----------
    name : str
        Name of the column in the table.
    variable : str
        The array that it is a column of.
    type : str
        Its type in the table.
    kind : {"numeric", "categorical"}
        Type of the written column.
    categories : tuple of str
        Its labels in the order of their codes; none of numbers.
    missing : int
        Missing values, in all rows that were read.
    rejected : int
        Values that are text in a column of numbers, and were taken for missing.

    Examples
    --------
    >>> WrittenColumn("wind", "wind", "string", "categorical", ("N", "W"), 3, 0).categories
    ('N', 'W')
    """

    name: str
    variable: str
    type: str
    kind: str
    categories: tuple[str, ...]
    missing: int
    rejected: int


@dataclass(frozen=True)
class WrittenGroup:
    """Data written by a conversion.

    Parameters
    ----------
    path : pathlib.Path or str
        The zarr group; a string where it is a URL.
    rows : int
        Rows of every array in it.
    shapes : mapping of str to (int, int)
        Shape of each array.
    dropped : int
        Rows of the source that were left out because a value was missing.
    columns : tuple of WrittenColumn
        The columns of a table and what became of them.

    Examples
    --------
    >>> written = WrittenGroup(Path("songs.zarr"), 5, {"features": (5, 90), "year": (5, 1)})
    >>> written.rows, written.dropped
    (5, 0)
    """

    path: Path | str
    rows: int
    shapes: Mapping[str, tuple[int, int]]
    dropped: int = 0
    columns: tuple[WrittenColumn, ...] = ()


def chunk_rows(columns: Mapping[str, int], dtype: DTypeLike = np.float64) -> int:
    """Rows per chunk, common to all arrays of a group.

    Parameters
    ----------
    columns : mapping of str to int
        Columns of each array.
    dtype : dtype
        Precision of the stored values.

    Returns
    -------
    int
        The largest power of two in 1,024 .. 65,536 that keeps a chunk of the widest array within
        8 MiB; 1,024 for wider ones.

    Examples
    --------
    >>> chunk_rows({"features": 90, "year": 1})
    8192
    >>> chunk_rows({"x": 1, "y": 1}, "float32")
    65536
    """
    fitting = _CHUNK_BYTES // (max(columns.values()) * np.dtype(dtype).itemsize)
    power = 1 << max(fitting, 1).bit_length() - 1
    return min(max(power, _MIN_CHUNK_ROWS), _MAX_CHUNK_ROWS)


def chunk_bytes(columns: Mapping[str, int], dtype: DTypeLike = np.float64) -> int:
    """Bytes of a chunk of every array of a group, which is what a writer gathers."""
    return chunk_rows(columns, dtype) * sum(columns.values()) * np.dtype(dtype).itemsize


def check_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    """Return float32 or float64 as a dtype, or raise `InvalidArgumentError`."""
    try:
        stored = np.dtype(dtype)
    except (TypeError, ValueError):  # ValueError: of a dictionary
        stored = np.dtype(object)
    if stored not in (np.float32, np.float64):
        msg = f"dtype must be float32 or float64, not {dtype!r}"
        raise InvalidArgumentError(msg)
    return stored


class GroupWriter:
    """Appends row blocks to the arrays of a group under construction; made by `new_group`.

    Rows are gathered into whole chunks, so every chunk is written once. A chunk is written by a
    thread of its own while the next one is being gathered.

    Attributes
    ----------
    scratch : pathlib.Path
        A folder for temporary files, removed with everything in it at the end.
    rows : int
        Rows appended so far.
    """

    def __init__(
        self,
        place: Destination,
        columns: Mapping[str, int],
        dtype: np.dtype[Any],
        compress: bool,
        pool: ThreadPoolExecutor,
    ) -> None:
        self.scratch, self._group, self._target = place
        self.rows = 0
        self._columns = dict(columns)
        self._dtype = dtype
        self._compress = compress
        self._pool = pool
        self._arrays: dict[str, Any] = {}
        self._attributes: dict[str, dict[str, Any]] = {name: {} for name in columns}
        self._chunk = chunk_rows(columns, dtype)
        self._buffers = self._new_buffers()
        self._writing: Future[None] | None = None

    def append(self, block: Mapping[str, NDArray[Any]]) -> None:
        """Append the same rows to every array.

        Parameters
        ----------
        block : mapping of str to ndarray, shape (b, d)
            One array of rows for each array of the group.

        Raises
        ------
        InvalidArgumentError
            If the names, the columns or the numbers of rows do not match.
        DataError
            If the disk refuses.
        """
        length = self._block_length(block)
        done = 0
        while done < length:
            filled = self.rows % self._chunk
            take = min(length - done, self._chunk - filled)
            for name, buffer in self._buffers.items():
                buffer[filled : filled + take] = block[name][done : done + take]
            done += take
            self.rows += take
            if filled + take == self._chunk:
                self._flush(self._chunk)

    def describe(self, name: str, **attributes: Any) -> None:
        """Set attributes of an array; they must be JSON values."""
        self._attributes[name].update(attributes)

    def summary(self, dropped: int = 0) -> WrittenGroup:
        """Describe the group as it will be at its destination."""
        shapes = {name: (self.rows, width) for name, width in self._columns.items()}
        return WrittenGroup(self._target, self.rows, shapes, dropped)

    def finish(self) -> None:
        """Write the rows and attributes that are still in memory."""
        if not self.rows:
            msg = f"there are no rows to write to {self._target}: the source is empty"
            raise DataError(msg)
        if remainder := self.rows % self._chunk:
            self._flush(remainder)
        self._wait()
        self._pool.submit(self._store_attributes).result()

    def _new_buffers(self) -> dict[str, NDArray[Any]]:
        return {n: np.empty((self._chunk, d), self._dtype) for n, d in self._columns.items()}

    def _block_length(self, block: Mapping[str, NDArray[Any]]) -> int:
        shapes = {name: np.shape(values) for name, values in block.items()}
        length = len(next(iter(block.values()), ()))
        if shapes != {name: (length, width) for name, width in self._columns.items()}:
            msg = (
                f"a block needs equally many rows of the arrays (name: columns) {self._columns}; "
                f"its shapes are {shapes}"
            )
            raise InvalidArgumentError(msg)
        return length

    def _flush(self, rows: int) -> None:
        # One chunk is written at a time, so that two buffers are held and no more.
        self._wait()
        start = self.rows - rows
        self._writing = self._pool.submit(self._store, self._buffers, start, rows)
        self._buffers = self._new_buffers()

    def _wait(self) -> None:
        if self._writing is not None:
            self._writing.result()

    def _store(self, buffers: Mapping[str, NDArray[Any]], start: int, rows: int) -> None:
        with disk_errors(self._target):
            if not self._arrays:
                self._arrays = self._create_arrays(rows)
            for name, array in self._arrays.items():
                array.resize((start + rows, array.shape[1]))
                array[start : start + rows] = buffers[name][:rows]

    def _create_arrays(self, first_rows: int) -> dict[str, Any]:
        import zarr  # slow to import
        from zarr.codecs import Crc32cCodec, ZstdCodec

        # A table shorter than one chunk gets a smaller one, which is not padded with much.
        rows = max(1 << (first_rows - 1).bit_length(), _MIN_CHUNK_ROWS)
        group = zarr.open_group(self._group, mode="w-", zarr_format=3)
        return {
            name: group.create_array(
                name,
                shape=(0, width),
                chunks=(min(rows, self._chunk), width),
                dtype=self._dtype,
                # A chunk file that gets lost later reads as NaN, never as plausible zeros.
                fill_value=float("nan"),
                # So that xarray opens it: rows are shared, columns are those of the array.
                dimension_names=("row", f"{name}_column"),
                # Both codecs carry a checksum, so a damaged chunk is an error, not other numbers.
                compressors=ZstdCodec(checksum=True) if self._compress else Crc32cCodec(),
            )
            for name, width in self._columns.items()
        }

    def _store_attributes(self) -> None:
        with disk_errors(self._target):
            for name, attributes in self._attributes.items():
                self._arrays[name].update_attributes(attributes)


@contextmanager
def new_group(
    destination: str | os.PathLike[str],
    columns: Mapping[str, int],
    *,
    dtype: DTypeLike = np.float64,
    compress: bool = True,
    overwrite: bool = False,
) -> Iterator[GroupWriter]:
    """Write a zarr group (format 3) that appears at its destination only when it is complete.

    Everything is written into a hidden sibling of the destination, which is renamed at the end.
    In an object store the chunks are written at their places, and the metadata last, without which
    nothing opens. All that was written is removed on every exception, `KeyboardInterrupt` included.

    Parameters
    ----------
    destination : path or URL
        A path of the local file system that does not exist, in a folder that does; or the URL of
        an object store under which there is nothing.
    columns : mapping of str to int
        Names of the arrays and their numbers of columns.
    dtype : float32 or float64
        Precision of the stored values.
    compress : bool
        Zstandard where true; else raw values, which read faster and suit random numbers, as they
        hardly get smaller. Both carry checksums.
    overwrite : bool
        Replace a zarr group at the destination, once the new one is complete. Not for URLs.

    Yields
    ------
    GroupWriter
        To append row blocks to.

    Raises
    ------
    InvalidArgumentError
        If the destination exists and may not be replaced, or cannot be written, or if a name,
        a number of columns, the dtype or a flag cannot be used.
    DataError
        If no rows were appended, or if the disk or the store refuses.

    Examples
    --------
    >>> import tempfile, zarr
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name) / "pair.zarr"
    >>> with new_group(path, {"x": 2, "y": 1}) as writer:
    ...     writer.append({"x": np.ones((3, 2)), "y": np.zeros((3, 1))})
    >>> zarr.open_group(path, mode="r")["x"].shape
    (3, 2)
    >>> folder.cleanup()
    """
    from dhsic.io.storage import uploading  # by zarr, slow to import

    stored = check_dtype(dtype)
    overwrite, compress = check_flag("overwrite", overwrite), check_flag("compress", compress)
    _check_output_columns(columns)
    _check_memory(columns, stored)
    text = check_path("destination", destination)
    # Zarr is called in the pool's thread only: Ctrl-C reaches the main thread alone, and the
    # pool waits for its thread, so nothing still writes when the folder is removed.
    with (
        uploading(text, overwrite) if is_url(text) else _on_disk(text, overwrite) as place,
        ThreadPoolExecutor(1, "dhsic-zarr-writer") as pool,
    ):
        writer = GroupWriter(place, columns, stored, compress, pool)
        yield writer
        writer.finish()


def check_new_group(
    destination: str | os.PathLike[str], columns: Mapping[str, int], *, overwrite: bool = False
) -> None:
    """Refuse what `new_group` would refuse of a local path, before the work that fills it.

    Raises
    ------
    InvalidArgumentError
        As for `new_group`.
    """
    _check_output_columns(columns)
    text = check_path("destination", destination)
    if not is_url(text):
        _checked_destination(text, overwrite)


@contextmanager
def _on_disk(destination: str, overwrite: bool) -> Iterator[Destination]:
    target = _checked_destination(destination, overwrite)
    scratch = target.with_name(f".{target.name}.{uuid4().hex[:8]}.partial")
    try:
        with disk_errors(target):
            scratch.mkdir()
        yield Destination(scratch, scratch / "group", target)
        _install(scratch, target, overwrite)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def disk_errors(target: Path | str) -> Iterator[None]:
    """Turn an error of the file system while writing into a `DataError` that names the target."""
    try:
        yield
    except OSError as error:
        msg = f"cannot write {target}: {error.strerror or error}"
        raise DataError(msg) from error


def _check_output_columns(columns: Mapping[str, int]) -> None:
    if not columns:
        msg = "a group needs at least one array; none was named"
        raise InvalidArgumentError(msg)
    for name, width in columns.items():
        if not _NAME.fullmatch(name):
            msg = (
                f"{name!r} cannot name an array: use a name without '/', '=', '[' and ']' that "
                "does not start with '.' or '__'"
            )
            raise InvalidArgumentError(msg)
        if width < 1:
            msg = f"array {name!r} needs at least one column, got {width}"
            raise InvalidArgumentError(msg)


def _check_memory(columns: Mapping[str, int], dtype: np.dtype[Any]) -> None:
    """Refuse arrays of which two chunks, as a writer holds, do not fit the memory."""
    import psutil

    needed, free = 2 * chunk_bytes(columns, dtype), psutil.virtual_memory().available
    if needed > free:
        msg = (
            f"columns must fit the memory by {chunk_rows(columns, dtype):,} rows, and take "
            f"{needed:,} bytes where {free:,} are free: write fewer columns"
        )
        raise MemoryBudgetError(msg)


def _checked_destination(destination: str, overwrite: bool) -> Path:
    try:
        target = Path(destination).resolve()
        exists = target.exists()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        msg = f"{destination!r} cannot name a zarr group ({reason}): choose another destination"
        raise InvalidArgumentError(msg) from error
    if exists:
        _check_replaceable(target, overwrite)
    elif not target.parent.is_dir():
        msg = f"{target.parent} is not a folder: create it first"
        raise InvalidArgumentError(msg)
    return target


def _check_replaceable(target: Path, overwrite: bool) -> None:
    if not overwrite:
        msg = (
            f"{target} already exists: choose another destination, or replace it with "
            "overwrite=True (--overwrite)"
        )
        raise InvalidArgumentError(msg)
    if not any((target / mark).is_file() for mark in ("zarr.json", ".zgroup", ".zarray")):
        msg = (
            f"{target} exists and is not a zarr group, so it is not replaced: remove it yourself "
            "or choose another destination"
        )
        raise InvalidArgumentError(msg)


def _install(scratch: Path, target: Path, overwrite: bool) -> None:
    # Something may have taken the place meanwhile.
    if target.exists():
        _check_replaceable(target, overwrite)
    group, replaced = scratch / "group", scratch.with_suffix(".replaced")
    with disk_errors(target):
        # The old group waits under another name, and comes back where the new one cannot take its
        # place.
        try:
            if target.exists():
                target.rename(replaced)
            group.rename(target)
        finally:
            if not group.exists():
                shutil.rmtree(replaced, ignore_errors=True)
            elif replaced.exists() and not target.exists():
                replaced.rename(target)


# --- rows in a random order


def shuffled(
    blocks: Iterable[Block],
    *,
    seed: int,
    scratch: Path,
    expected_bytes: int,
    progress: OnRowsWritten | None = None,
) -> Iterator[dict[str, NDArray[np.float64]]]:
    """Yield all rows of `blocks` in a random order, the same one for every array.

    Row i gets the i-th 64-bit number of a generator seeded with `seed`, and rows are sorted by it,
    which makes every order equally likely (up to equal keys, of which ten million rows have one
    pair with probability 3e-6). The leading bits of the key choose the bucket on disk that the row
    waits in, and one bucket at a time is sorted in memory. So the order depends on the seed and
    the number of rows alone, not on the blocks or the number of buckets.

    Parameters
    ----------
    blocks : iterable of mappings of str to ndarray, shape (b, d)
        Row blocks, with the same names in the same order. All are read before the first yield.
    seed : int
        Names the order.
    scratch : pathlib.Path
        An existing folder for the buckets, which together are as large as the data.
    expected_bytes : int
        A guess of the size of the data, in bytes; it sets the number of buckets, thus the memory.
    progress : callable, optional
        Called with the number of rows read so far.

    Yields
    ------
    dict of str to ndarray, shape (b, d)
        One bucket of rows: about 32 MiB, more where there are over 32 GiB or the guess is low.

    Raises
    ------
    InvalidArgumentError
        If the seed is no whole number from 0.
    DataError
        If the disk refuses.

    Examples
    --------
    >>> import tempfile
    >>> blocks = [{"x": np.arange(6.0)[:, None]}]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     parts = shuffled(blocks, seed=1, scratch=Path(folder), expected_bytes=48)
    ...     sorted(np.concatenate([part["x"] for part in parts])[:, 0].tolist())
    [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    """
    bits = min(max((expected_bytes // _BUCKET_BYTES).bit_length(), 1), _MAX_BITS)
    # A stream of its own: the data may come from default_rng(seed) with the same small seed.
    stream = np.random.SeedSequence(
        check_integer("shuffle", seed, minimum=0), spawn_key=tuple(b"shuffle")
    )
    rng = np.random.default_rng(stream)
    widths: dict[str, int] = {}
    read = 0
    for block in blocks:
        widths = {name: values.shape[1] for name, values in block.items()}
        records = _keyed(block, rng)
        with disk_errors(scratch):
            _deal(records, bits, scratch)
        read += len(records)
        if progress is not None:
            progress(read)
    for bucket in range(1 << bits):
        path = _bucket(scratch, bucket)
        if path.exists():
            yield _split_columns(_sorted(path, sum(widths.values())), widths)
            path.unlink()


def _keyed(block: Block, rng: np.random.Generator) -> NDArray[np.uint64]:
    # Bits, not floats: a key may look like a signalling NaN, which a copy as floats may change.
    values = np.concatenate(list(block.values()), axis=1, dtype=np.float64)
    records = np.empty((values.shape[0], values.shape[1] + 1), np.uint64)
    records[:, 0] = rng.integers(0, 2**64 - 1, len(records), np.uint64, endpoint=True)
    records[:, 1:] = values.view(np.uint64)
    return records


def _deal(records: NDArray[np.uint64], bits: int, scratch: Path) -> None:
    bucket = records[:, 0] >> np.uint64(64 - bits)
    order = np.argsort(bucket, kind="stable")
    records = records[order]
    starts = np.searchsorted(bucket[order], np.arange((1 << bits) + 1, dtype=np.uint64))
    for number in np.flatnonzero(np.diff(starts)).tolist():
        with _bucket(scratch, number).open("ab") as file:
            file.write(records[starts[number] : starts[number + 1]].data)


def _bucket(scratch: Path, number: int) -> Path:
    return scratch / f"bucket-{number}"


def _sorted(path: Path, width: int) -> NDArray[np.float64]:
    records = np.fromfile(path, np.uint64).reshape(-1, width + 1)
    order = np.argsort(records[:, 0], kind="stable")
    return records[order, 1:].view(np.float64)


def _split_columns(
    rows: NDArray[np.float64], widths: Mapping[str, int]
) -> dict[str, NDArray[np.float64]]:
    ends = np.cumsum(list(widths.values()))
    parts = np.split(rows, ends[:-1], axis=1)
    return dict(zip(widths, parts, strict=True))
