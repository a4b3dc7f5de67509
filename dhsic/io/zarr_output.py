"""Write a zarr group of row-aligned arrays, whole or not at all, perhaps in a random order."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import psutil
from numpy.typing import DTypeLike, NDArray

from dhsic._files import disk_errors
from dhsic._validation import check_choice, check_flag, check_integer, check_path
from dhsic.errors import DataError, InvalidArgumentError, MemoryBudgetError
from dhsic.io.urls import METADATA, is_url, scheme_of, storage_error

OnRowsWritten = Callable[[int], object]
"""Called with the number of rows handled so far."""
Block = Mapping[str, NDArray[Any]]
"""The same rows of several named arrays, each of shape (b, d)."""

_CHUNK_BYTES = 8 * 2**20
_MIN_CHUNK_ROWS = 1024
_MAX_CHUNK_ROWS = 65536
_BUCKET_BYTES = 32 * 2**20
_MAX_BITS = 10
_GROUP = "group"
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
    with suppress(TypeError, ValueError):  # ValueError: of a dictionary
        dtype = np.dtype(dtype).name
    return np.dtype(check_choice("dtype", dtype, ("float32", "float64")))


_Destination = tuple[Path, Path | str, Callable[[bool], None]]
"""A folder for temporary files, in which a group is made; where the group will be; and what moves
there what is complete of it, at the end its metadata too."""


def write_group(
    destination: str | os.PathLike[str],
    columns: Mapping[str, int],
    blocks: Iterable[Block],
    attributes: Callable[[], Mapping[str, Mapping[str, Any]]] = dict,
    *,
    dtype: DTypeLike = np.float64,
    compress: bool = True,
    overwrite: bool = False,
    shuffle: int | None = None,
    expected_bytes: int = 0,
    progress: OnRowsWritten | None = None,
) -> WrittenGroup:
    """Write a zarr group (format 3) that appears at its destination only when it is complete.

    Everything is written into a hidden sibling of the destination, which is renamed at the end.
    In an object store the chunks are written at their places, and the metadata last, without which
    nothing opens. All that was written is removed on every exception, `KeyboardInterrupt` included.
    Rows are gathered into whole chunks, so that every chunk is written once, while the next one is
    being gathered.

    Parameters
    ----------
    destination : path or URL
        A path of the local file system that does not exist, in a folder that does; or the URL of
        an object store under which there is nothing.
    columns : mapping of str to int
        Names of the arrays and their numbers of columns.
    blocks : iterable of mappings of str to ndarray, shape (b, d)
        The same rows of every array, block by block.
    attributes : callable, optional
        Gives those of every array, as JSON values, when all blocks are there.
    dtype : float32 or float64
        Precision of the stored values.
    compress : bool
        Zstandard where true; else raw values, which read faster and suit random numbers, as they
        hardly get smaller. Both carry checksums.
    overwrite : bool
        Replace a zarr group at the destination, once the new one is complete. Not for URLs.
    shuffle, expected_bytes : int, optional
        A seed, and a guess of the bytes of the data, to write the rows in a random order.
    progress : callable, optional
        Called with the number of rows handled so far; with `shuffle`, first with those read.

    Returns
    -------
    WrittenGroup

    Raises
    ------
    InvalidArgumentError
        If the destination exists and may not be replaced, or cannot be written, or if a name,
        a number of columns, the dtype or a flag cannot be used.
    DataError
        If there are no rows, or if the disk or the store refuses.

    Examples
    --------
    >>> import tempfile, zarr
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name) / "pair.zarr"
    >>> blocks = [{"x": np.ones((3, 2)), "y": np.zeros((3, 1))}]
    >>> write_group(path, {"x": 2, "y": 1}, blocks).rows
    3
    >>> zarr.open_group(path, mode="r")["x"].shape
    (3, 2)
    >>> folder.cleanup()
    """
    stored = check_dtype(dtype)
    overwrite, compress = check_flag("overwrite", overwrite), check_flag("compress", compress)
    _check_output_columns(columns)
    # A writer holds two chunks.
    needed, free = 2 * chunk_bytes(columns, stored), psutil.virtual_memory().available
    if needed > free:
        what = f"columns must fit the memory by {chunk_rows(columns, stored):,} rows"
        msg = f"{what}, and take {needed:,} bytes of {free:,} that are free: write fewer columns"
        raise MemoryBudgetError(msg)
    text = check_path("destination", destination)
    arrays: dict[str, Any] = {}
    rows = 0
    # Zarr is called in the pool's thread only: Ctrl-C reaches the main thread alone, and the
    # pool waits for its thread, so nothing still writes when the folder is removed.
    with (
        _in_store(text, overwrite) if is_url(text) else _on_disk(text, overwrite) as place,
        ThreadPoolExecutor(1, "dhsic-zarr-writer") as pool,
    ):
        scratch, target, send = place

        def store(start: int, chunk: Block) -> None:
            with disk_errors(target):
                if not arrays:
                    first = len(next(iter(chunk.values())))
                    arrays.update(_new_arrays(scratch / _GROUP, columns, first, stored, compress))
                for name, array in arrays.items():
                    array.resize((start + len(chunk[name]), columns[name]))
                    array[start:] = chunk[name]
                send(False)

        def describe(described: Mapping[str, Mapping[str, Any]]) -> None:
            with disk_errors(target):
                for name, told in described.items():
                    arrays[name].update_attributes(told)
                send(True)

        if shuffle is not None:
            blocks = _shuffled(blocks, shuffle, scratch, expected_bytes, progress)
        writing: Future[None] | None = None
        for start, chunk in _chunks(blocks, columns, stored, progress):
            # One chunk is written at a time, so that two buffers are held and no more.
            if writing is not None:
                writing.result()
            writing = pool.submit(store, start, chunk)
            rows = start + len(next(iter(chunk.values())))
        if writing is None:
            msg = f"there are no rows to write to {target}: the source is empty"
            raise DataError(msg)
        writing.result()
        pool.submit(describe, attributes()).result()
    return WrittenGroup(target, rows, {name: (rows, width) for name, width in columns.items()})


def _chunks(
    blocks: Iterable[Block],
    columns: Mapping[str, int],
    dtype: np.dtype[Any],
    progress: OnRowsWritten | None,
) -> Iterator[tuple[int, Block]]:
    """Whole chunks of the rows of some blocks, each after the row that it starts at."""
    step, rows = chunk_rows(columns, dtype), 0
    buffers = {name: np.empty((step, d), dtype) for name, d in columns.items()}
    for block in blocks:
        length, done = len(next(iter(block.values()))), 0
        while done < length:
            filled = rows % step
            take = min(length - done, step - filled)
            for name, buffer in buffers.items():
                buffer[filled : filled + take] = block[name][done : done + take]
            done += take
            rows += take
            if filled + take == step:
                yield rows - step, buffers
                # The one that was given is still being written.
                buffers = {name: np.empty_like(buffer) for name, buffer in buffers.items()}
        if progress is not None:
            progress(rows)
    if left := rows % step:
        yield rows - left, {name: buffer[:left] for name, buffer in buffers.items()}


def _new_arrays(
    folder: Path, columns: Mapping[str, int], first_rows: int, dtype: np.dtype[Any], compress: bool
) -> dict[str, Any]:
    import zarr  # slow to import
    from zarr.codecs import Crc32cCodec, ZstdCodec

    # A table shorter than one chunk gets a smaller one, which is not padded with much.
    rows = max(1 << (first_rows - 1).bit_length(), _MIN_CHUNK_ROWS)
    group = zarr.open_group(folder, mode="w-", zarr_format=3)
    return {
        name: group.create_array(
            name,
            shape=(0, width),
            chunks=(min(rows, chunk_rows(columns, dtype)), width),
            dtype=dtype,
            # A chunk file that gets lost later reads as NaN, never as plausible zeros.
            fill_value=float("nan"),
            # So that xarray opens it: rows are shared, columns are those of the array.
            dimension_names=("row", f"{name}_column"),
            # Both codecs carry a checksum, so a damaged chunk is an error, not other numbers.
            compressors=ZstdCodec(checksum=True) if compress else Crc32cCodec(),
        )
        for name, width in columns.items()
    }


def check_new_group(
    destination: str | os.PathLike[str], columns: Mapping[str, int], *, overwrite: bool = False
) -> None:
    """Refuse what `write_group` would refuse of a local path, before the work that fills it.

    Raises
    ------
    InvalidArgumentError
        As for `write_group`.
    """
    _check_output_columns(columns)
    text = check_path("destination", destination)
    if not is_url(text):
        _checked_destination(text, overwrite)


@contextmanager
def _on_disk(destination: str, overwrite: bool) -> Iterator[_Destination]:
    target = _checked_destination(destination, overwrite)
    scratch = target.with_name(f".{target.name}.{uuid4().hex[:8]}.partial")
    group, replaced = scratch / _GROUP, scratch.with_suffix(".replaced")
    try:
        with disk_errors(target):
            scratch.mkdir()
        yield scratch, target, lambda complete: None
        # Something may have taken the place meanwhile.
        _checked_destination(destination, overwrite)
        with disk_errors(target):
            # The old group comes back where the new one cannot take its place.
            try:
                if target.exists():
                    target.rename(replaced)
                group.rename(target)
            finally:
                if replaced.exists() and not target.exists():
                    replaced.rename(target)
            shutil.rmtree(replaced, ignore_errors=True)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def _in_store(url: str, overwrite: bool) -> Iterator[_Destination]:
    from dhsic.io.storage import file_system  # by zarr, slow to import

    fs, root = file_system(url)
    if scheme_of(url) in ("http", "https"):
        msg = f"the destination must be a path or the URL of an object store, got {url!r}: use that"
        raise InvalidArgumentError(msg)
    if overwrite:
        msg = f"overwrite must be False in an object store, got True: remove {url!r} first"
        raise InvalidArgumentError(msg)

    def send(complete: bool) -> None:
        files = [path for path in group.rglob("*") if path.is_file()]
        # The longest names first, so that what makes the group open comes last.
        for path in sorted(files, key=lambda path: len(path.parts), reverse=True):
            if complete or path.name != "zarr.json":
                inner = path.relative_to(group).as_posix()
                with _asked(f"{url}/{inner}", "take"):
                    fs.put_file(str(path), f"{root}/{inner}")
                path.unlink()

    with _asked(url, "list"):
        found = fs.find(root)
    if found:
        msg = f"{url!r} holds objects already: choose another destination, or remove them"
        raise InvalidArgumentError(msg)
    # Chunks are made on a disk, and shuffling needs one, which a store is not.
    with tempfile.TemporaryDirectory(prefix="dhsic-") as scratch:
        group = Path(scratch, _GROUP)
        try:
            yield Path(scratch), url, send
        # An interrupt leaves nothing, either.
        except BaseException:
            with suppress(Exception):  # chunks alone do not open
                fs.rm(root, recursive=True)
            raise


@contextmanager
def _asked(url: str, verb: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        what = f"the store does not {verb} {url}"
        raise storage_error(what, error, url) from None


def _check_output_columns(columns: Mapping[str, int]) -> None:
    if not columns:
        msg = "a group needs at least one array; none was named"
        raise InvalidArgumentError(msg)
    for name, width in columns.items():
        if not _NAME.fullmatch(name):
            what = "use one without '/', '=', '[' and ']' that does not start with '.' or '__'"
            msg = f"{name!r} cannot name an array: {what}"
            raise InvalidArgumentError(msg)
        if width < 1:
            msg = f"array {name!r} needs at least one column, got {width}"
            raise InvalidArgumentError(msg)


def _checked_destination(destination: str, overwrite: bool) -> Path:
    try:
        target = Path(destination).resolve()
        exists = target.exists()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        msg = f"{destination!r} cannot name a zarr group ({reason}): choose another destination"
        raise InvalidArgumentError(msg) from error
    problem = None
    if not exists and not target.parent.is_dir():
        problem = f"{target.parent} is not a folder: create it first"
    elif exists and not overwrite:
        remedy = "choose another destination, or overwrite=True"
        problem = f"{target} already exists: {remedy}"
    elif exists and not any((target / mark).is_file() for mark in METADATA):
        problem = f"{target} exists and is not a zarr group: remove it, or choose another"
    if problem:
        raise InvalidArgumentError(problem)
    return target


# --- rows in a random order


def _shuffled(
    blocks: Iterable[Block],
    seed: int,
    scratch: Path,
    expected_bytes: int,
    progress: OnRowsWritten | None,
) -> Iterator[dict[str, NDArray[np.float64]]]:
    """Yield all rows of `blocks` in a random order, the same one for every array.

    Row i gets the i-th 64-bit number of a generator seeded with `seed`, and rows are sorted by it,
    which makes every order equally likely (up to equal keys, of which ten million rows have one
    pair with probability 3e-6). The leading bits of the key choose the bucket on disk that the row
    waits in, and one bucket at a time, about 32 MiB, is sorted in memory. So the order depends on
    the seed and the number of rows alone, not on the blocks or the number of buckets.
    """
    bits = min(max((expected_bytes // _BUCKET_BYTES).bit_length(), 1), _MAX_BITS)
    # A stream of its own: the data may come from default_rng(seed) with the same small seed.
    seed = check_integer("shuffle", seed, minimum=0)
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=tuple(b"shuffle")))
    widths: dict[str, int] = {}
    read = 0
    for block in blocks:
        widths = {name: values.shape[1] for name, values in block.items()}
        # Bits, not floats: a key may look like a signalling NaN, which a copy as floats may change.
        values = np.concatenate(list(block.values()), axis=1, dtype=np.float64).view(np.uint64)
        keys = rng.integers(0, 2**64 - 1, len(values), np.uint64, endpoint=True)
        buckets, records = keys >> np.uint64(64 - bits), np.column_stack([keys, values])
        with disk_errors(scratch):
            for number in np.unique(buckets).tolist():
                with (scratch / f"bucket-{number:04}").open("ab") as file:
                    file.write(records[buckets == number].data)
        read += len(records)
        if progress is not None:
            progress(read)
    ends = np.cumsum([0, *widths.values()])
    for path in sorted(scratch.glob("bucket-*")):
        records = np.fromfile(path, np.uint64).reshape(-1, ends[-1] + 1)
        order = np.argsort(records[:, 0], kind="stable")
        parts = np.split(records[order, 1:].view(np.float64), ends[1:-1], axis=1)
        yield dict(zip(widths, parts, strict=True))
        path.unlink()
