"""Convert the Million Song year-prediction text file (UCI YearPredictionMSD) to zarr."""

from __future__ import annotations

import gzip
import io
import os
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhsic._validation import check_path, check_progress
from dhsic.errors import DataError
from dhsic.io.zarr_output import OnRowsWritten, WrittenGroup, write_group

_COLUMNS = {"features": 90, "year": 1}
_FIELDS = sum(_COLUMNS.values())
_BLOCK_BYTES = 4 * 2**20
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, NotImplementedError)


def convert_million_song(
    source: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    *,
    shuffle: int | None = None,
    overwrite: bool = False,
    progress: OnRowsWritten | None = None,
) -> WrittenGroup:
    r"""Convert ``YearPredictionMSD.txt`` to a zarr group.

    The file has 91 comma-separated numbers a line: the year of a song, then 12 timbre averages and
    78 timbre covariances. The full file has 515,345 lines. It is read in blocks of lines.

    The group holds ``features`` (n, 90) and ``year`` (n, 1) in float64: the file gives five
    decimals of values up to tens of thousands, which float32 would change.

    Parameters
    ----------
    source : path
        The text file, plain, in a ``.zip`` with that one ``.txt`` in it, or compressed by gzip;
        recognised by content, not by name.
    destination : path
        The zarr group to create: a path, or the URL of an object store, as s3://bucket/songs.zarr.
    shuffle : int, optional
        A seed, to write the songs in a random order. The file lists songs of one artist together,
        so that neighbouring rows are alike; tests that permute within row blocks lose power then.
        Needs free disk space for the data twice.
    overwrite : bool
        Replace a zarr group at the destination, once the new one is complete. Not for URLs.
    progress : callable, optional
        Called with the number of rows written so far; with `shuffle`, first with the number of
        rows read so far, and then from the start with the number written.

    Returns
    -------
    WrittenGroup

    Raises
    ------
    DataError
        If the file is absent, damaged or empty, if a line is not 91 finite numbers (the message
        has the number of the line), or if the disk refuses. Nothing is left behind.
    InvalidArgumentError
        If the destination exists or cannot be made, or if `shuffle` is no seed.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> text = Path(folder.name) / "YearPredictionMSD.txt"
    >>> _ = text.write_text("2001," + ",".join(["49.94357"] * 90) + "\n")
    >>> written = convert_million_song(text, text.with_name("songs.zarr"))
    >>> written.shapes
    {'features': (1, 90), 'year': (1, 1)}
    >>> folder.cleanup()
    """
    path = Path(check_path("source", source))
    check_progress(progress)
    if not os.path.isfile(path):
        msg = f"{path} is not a file: give the path of YearPredictionMSD.txt or its .zip"
        raise DataError(msg)
    return write_group(
        destination,
        _COLUMNS,
        _parsed_blocks(path),
        overwrite=overwrite,
        shuffle=shuffle,
        # A number of the text takes two bytes at least, and eight in memory.
        expected_bytes=4 * path.stat().st_size,
        progress=progress,
    )


def _parsed_blocks(path: Path) -> Iterator[dict[str, NDArray[np.float64]]]:
    start, empty = 1, 0
    try:
        with ExitStack() as stack:
            stream: Any = stack.enter_context(path.open("rb"))
            # By the first bytes, since a file may have any name.
            magic = stream.read(4)
            stream.seek(0)
            if magic == b"PK\x03\x04":
                archive = stack.enter_context(zipfile.ZipFile(stream))
                names = [name for name in archive.namelist() if not name.startswith("__MACOSX")]
                texts = [name for name in names if name.endswith(".txt")]
                if len(texts) != 1:
                    got = len(texts)
                    msg = f"{path} must hold exactly one .txt file, got {got}: unpack it first"
                    raise DataError(msg)
                stream = stack.enter_context(archive.open(texts[0]))
            elif magic[:2] == b"\x1f\x8b":
                stream = stack.enter_context(gzip.open(stream))
            # Latin-1 decodes every byte: a stray one ends up in the message about its line.
            text = stack.enter_context(io.TextIOWrapper(stream, encoding="latin-1"))
            while lines := text.readlines(_BLOCK_BYTES):
                filled = [line for line in lines if line.strip()]
                # All lines at once, many times as quick as one by one; a refusal looks at each.
                rows = _numbers_of_lines(filled, _FIELDS)
                for number, line in enumerate(lines, start):
                    if not line.strip():  # which is allowed at the end alone
                        empty = empty or number
                    elif empty or (rows is None and _fault(line)):
                        at, fault = (empty, "is empty") if empty else (number, _fault(line))
                        what = f"must be {_FIELDS} finite numbers with commas between them"
                        msg = f"line {at} of {path} {what}, and {fault}: correct or remove it"
                        raise DataError(msg)
                if rows is not None:
                    yield {"features": rows[:, 1:], "year": rows[:, :1]}
                start += len(lines)
    except _DAMAGE as error:
        msg = f"cannot read {path}: {error}"
        raise DataError(msg) from error
    if start == 1 or empty == 1:
        msg = f"{path} is empty: it must have {_FIELDS} numbers per line"
        raise DataError(msg)


def _numbers_of_lines(lines: Sequence[str], fields: int) -> NDArray[np.float64] | None:
    # The parser warns where there is nothing.
    if not any(line.strip() for line in lines):
        return None
    try:
        rows = np.loadtxt(lines, delimiter=",", comments=None, ndmin=2)
    except ValueError:
        return None
    return rows if rows.shape == (len(lines), fields) and np.isfinite(rows).all() else None


def _fault(line: str) -> str | None:
    fields = line.strip().split(",")
    if len(fields) != _FIELDS:
        return f"has {len(fields)} fields ({line.strip()[:40]!r})"
    wrong = (at for at, field in enumerate(fields) if _numbers_of_lines([field], 1) is None)
    at = next(wrong, None)
    return None if at is None else f"has {fields[at][:40]!r} as field {at + 1}"
