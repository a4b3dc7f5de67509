"""The data of the runs: so many rows, in chunks of so many."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import zarr
from zarr.codecs import Crc32cCodec

from dhsic.engine.runtime import Runtime
from dhsic.engine.samples import describe_sources
from dhsic.errors import InvalidArgumentError
from dhsic.io.forms import AnySource
from dhsic.io.open import open_variables
from dhsic.io.sources import ArraySource, GraphSource, StoredSource

_CHUNK_ROWS = 8192
_COPIED_ROWS = 65_536


@dataclass(frozen=True)
class FirstRows(StoredSource):
    """The first rows of a stored array; none is copied.

    Parameters
    ----------
    rows : int
        How many; the other parameters are those of `StoredSource`.
    """

    rows: int = 0

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.rows, super().shape[1]


class Data:
    """Variables that are cut to so many rows, or made of so many.

    Parameters
    ----------
    variables : sequence of array-like, or of one function
        A function takes a number of rows and returns the variables.
    names : sequence of str or None
        Names of the variables.
    folder : str
        Where copies are stored.
    """

    def __init__(self, variables: Sequence[Any], names: Sequence[str] | None, folder: str) -> None:
        self._names = names
        self._folder = Path(folder)
        self._make: Callable[[int], Any] | None = None
        self._whole: list[AnySource] = []
        # One copy for every size that is asked for: runs of a setting read the same chunks.
        self._stored: dict[tuple[int, int], list[AnySource]] = {}
        if len(variables) == 1 and callable(variables[0]):
            self._make = variables[0]
        else:
            self._whole = open_variables(variables, names)

    @property
    def rows(self) -> int | None:
        """Rows that there are; None where a function makes as many as are asked for."""
        return self._whole[0].shape[0] if self._whole else None

    def described(self, runtime: Runtime) -> str:
        """Description of the data by which two studies can be told apart.

        A function is known by its name; data by some of their rows, as for a checkpoint.
        """
        if self._make is not None:
            return f"rows of {_name_of_function(self._make)}"
        columns = ", ".join(f"{source.name} {source.shape[1]}" for source in self._whole)
        # The content too: a study must not go on with other data of the same shape.
        content = repr(describe_sources(self._whole, runtime)).encode()
        digest = hashlib.sha256(content).hexdigest()[:12]
        return f"{self.rows} rows of {columns}, content {digest}"

    def of(self, rows: int, chunk_rows: int | None) -> list[AnySource]:
        """So many rows; what a function makes, and chunks that are asked for, are stored once."""
        # What is in memory or stored as it should be needs no copy.
        if self._make is None and chunk_rows is None:
            return [_first(source, rows) for source in self._whole]
        key = rows, chunk_rows or 0
        if key not in self._stored:
            place = self._folder / f"{rows}-{chunk_rows or 'any'}"
            self._stored[key] = [
                _chunked(source, chunk_rows, place / f"{number}.zarr")
                for number, source in enumerate(self._cut_or_made(rows))
            ]
        return self._stored[key]

    def _cut_or_made(self, rows: int) -> list[AnySource]:
        if self._make is None:
            return [_first(source, rows) for source in self._whole]
        made = self._make(rows)
        if not isinstance(made, list | tuple):
            msg = (
                "the function that makes the data must return a tuple of variables, got a "
                f"{type(made).__name__}: return (x, y)"
            )
            raise InvalidArgumentError(msg)
        sources = open_variables(made, self._names)
        if sources[0].shape[0] != rows:
            msg = f"the function must make the {rows:,} rows asked for, got {sources[0].shape[0]:,}"
            raise InvalidArgumentError(msg)
        return sources


def _name_of_function(function: Any) -> str:
    """A function without its address in memory; one with options given has them in its name."""
    if isinstance(function, partial):
        options = [*map(repr, function.args), *(f"{k}={v!r}" for k, v in function.keywords.items())]
        return f"{_name_of_function(function.func)}({', '.join(options)})"
    return str(getattr(function, "__qualname__", type(function).__name__))


def _first(source: AnySource, rows: int) -> AnySource:
    if rows == source.shape[0]:
        return source
    if isinstance(source, StoredSource):
        # The fields of the source, of which `FirstRows` reports fewer rows.
        given = {field.name: getattr(source, field.name) for field in fields(source)}
        return FirstRows(**given, rows=rows)
    return replace(source, array=source.array[:rows])


def _chunked(source: AnySource, chunk_rows: int | None, place: Path) -> AnySource:
    if isinstance(source, GraphSource):
        if chunk_rows is None:
            return source
        return replace(source, array=source.array.rechunk({0: chunk_rows}))
    if isinstance(source, StoredSource) and chunk_rows is None:
        return source
    # What is in memory has no chunks; those of stored data are kept where nobody asks for others.
    return _stored(source, chunk_rows or _CHUNK_ROWS, place)


def _stored(source: ArraySource | StoredSource, chunk_rows: int, place: Path) -> AnySource:
    """A copy in zarr, not compressed, whose chunks have so many rows."""
    n, width = source.shape
    copy: Any = zarr.create_array(
        place,
        shape=(n, width),
        chunks=(min(chunk_rows, n), width),
        dtype=source.read(0, 1).dtype,
        # Compression would make the time depend on the values.
        compressors=Crc32cCodec(),
        overwrite=True,
        # A chunk of zeros would not be written, and so never be read.
        config={"write_empty_chunks": True},
    )
    # In whole chunks, so that none is written twice.
    step = max(1, _COPIED_ROWS // chunk_rows) * chunk_rows
    for start in range(0, n, step):
        stop = min(start + step, n)
        copy[start:stop] = source.read(start, stop)
    return StoredSource(source.name, copy, min(chunk_rows, n), kinds=source.kinds)
