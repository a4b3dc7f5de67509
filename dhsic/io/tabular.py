"""Convert columns of a CSV or Parquet file to a zarr group with one array per variable."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dhsic._validation import check_choice, named_arguments, nearest
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.io.shuffle import shuffled
from dhsic.io.table_source import Kind, TableSource, open_table
from dhsic.io.zarr_output import GroupWriter, Progress, WrittenGroup, chunk_rows, new_group

__all__ = ["convert_table"]

_MAX_CATEGORIES = 65536

Missing = Literal["error", "drop"]
Variables = Mapping[str, Sequence[str]]


@named_arguments
def convert_table(
    source: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    *,
    variables: Variables,
    missing: Missing = "error",
    delimiter: str = ",",
    shuffle: int | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> WrittenGroup:
    r"""Convert columns of a CSV or Parquet file to a zarr group.

    The file is read as a stream, and of a Parquet file only the columns in use. Each variable
    becomes a float64 array (n, d) with one column for each of its d columns; the array's attribute
    ``columns`` lists them. Text, category and true/false columns become codes 0, 1, ... in the
    order in which the labels first appear. An array of such columns has the attributes
    ``kind = "categorical"`` and ``categories``, a dictionary of each column's labels in code order.

    Parameters
    ----------
    source : path
        A CSV file with a header, ``.csv`` or ``.csv.gz``, or a ``.parquet`` or ``.pq`` file. The
        first MiB of a CSV file decides whether a column is numeric. Empty fields, ``NA``,
        ``NaN``, ``null`` and the like are missing.
    destination : path
        The zarr group to create: a path, or the URL of an object store, as s3://bucket/songs.zarr.
    variables : mapping of str to sequence of str
        The columns of each variable, all numeric or all categorical.
    missing : {"error", "drop"}
        What to do where a value of a chosen column is missing: refuse, or leave the row out.
    delimiter : str
        The one character between the fields of a CSV file.
    shuffle : int, optional
        A seed, to write the rows in a random order, the same one for all variables; needs free
        disk space for the data twice.
    overwrite : bool
        Replace a zarr group at the destination, once the new one is complete. Not for URLs.
    progress : callable, optional
        Called with the number of rows written so far; with `shuffle`, first with the number of
        rows read so far, and then from the start with the number written.

    Returns
    -------
    WrittenGroup
        Its ``dropped`` counts the rows that were left out.

    Raises
    ------
    InvalidArgumentError
        If a column does not exist or is repeated in a variable, if a variable has no column or
        columns of both kinds, or if the destination or another option cannot be used.
    DataError
        If the file is absent, damaged or empty, if values are missing (with ``missing="error"``)
        or infinite, if a column is neither numbers nor labels or has more than 65,536 labels, or
        if the disk refuses. Nothing is left behind.
    MissingDependencyError
        If pyarrow is not installed.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> table = Path(folder.name) / "air.csv"
    >>> _ = table.write_text("o3,temp,wind\n61,20.5,N\n58,,W\n40,12.0,N\n")
    >>> variables = {"ozone": ["o3"], "weather": ["temp"], "wind": ["wind"]}
    >>> written = convert_table(
    ...     table, table.with_name("air.zarr"), variables=variables, missing="drop"
    ... )
    >>> written.rows, written.dropped
    (2, 1)
    >>> folder.cleanup()
    """
    _check_options(variables, missing, delimiter)
    table = open_table(Path(source), delimiter)
    kinds = {name: _variable_kind(table, name, names) for name, names in variables.items()}
    widths = {name: len(names) for name, names in variables.items()}
    encoder = _Encoder(table, variables, kinds, missing)
    with new_group(destination, widths, overwrite=overwrite) as writer:
        blocks = encoder.blocks(chunk_rows(widths))
        if shuffle is not None:
            blocks = shuffled(
                blocks,
                seed=shuffle,
                scratch=writer.scratch,
                expected_bytes=_expected_bytes(table, sum(widths.values())),
                progress=progress,
            )
        for block in blocks:
            writer.append(block)
            if progress is not None:
                progress(writer.rows)
        encoder.check_rows()
        encoder.describe(writer)
    return writer.summary(encoder.dropped)


class _Encoder:
    """Turns record batches into row blocks, and remembers the labels it met."""

    def __init__(
        self,
        table: TableSource,
        variables: Variables,
        kinds: Mapping[str, Kind],
        missing: Missing,
    ) -> None:
        self.dropped = 0
        self._read = 0
        self._table = table
        self._variables = variables
        self._kinds = kinds
        self._missing = missing
        self._columns = list(dict.fromkeys(c for names in variables.values() for c in names))
        categorical = [c for c in self._columns if table.kinds[c] == "categorical"]
        self._codes: dict[str, dict[str, int]] = {column: {} for column in categorical}

    def blocks(self, rows: int) -> Iterator[dict[str, NDArray[np.float64]]]:
        for batch in self._table.batches(self._columns, rows):
            kept = self._kept(batch)
            values = {column: self._values(batch, column, kept) for column in self._columns}
            yield {
                name: np.stack([values[column] for column in columns], axis=1)
                for name, columns in self._variables.items()
            }
            self._read += batch.num_rows
            self.dropped += batch.num_rows - len(kept)

    def check_rows(self) -> None:
        if self.dropped == self._read:
            none = f"all {self._read:,} rows miss a chosen column" if self._read else "it has none"
            msg = f"{self._table.path} has no rows to convert: {none}"
            raise DataError(msg)

    def describe(self, writer: GroupWriter) -> None:
        for name, columns in self._variables.items():
            writer.describe(name, columns=list(columns))
            if self._kinds[name] == "categorical":
                labels = {column: list(self._codes[column]) for column in columns}
                writer.describe(name, kind="categorical", categories=labels)

    def _kept(self, batch: Any) -> NDArray[np.intp]:
        gaps = {column: _gaps(batch.column(column)) for column in self._columns}
        incomplete = np.any(list(gaps.values()), axis=0)
        if self._missing == "error" and incomplete.any():
            row = int(np.argmax(incomplete))
            column = next(column for column, gap in gaps.items() if gap[row])
            msg = (
                f"{self._where(column)} is missing in row {self._read + row:,} (from 0): "
                "leave out such rows with missing='drop', or fill them in first"
            )
            raise DataError(msg)
        return np.flatnonzero(~incomplete)

    def _values(self, batch: Any, column: str, kept: NDArray[np.intp]) -> NDArray[np.float64]:
        if column in self._codes:
            return self._coded(batch.column(column), column, kept)
        values = self._numbers(batch.column(column), column)[kept]
        infinite = np.flatnonzero(np.isinf(values))
        if infinite.size:
            row = self._read + kept[infinite[0]]
            msg = f"{self._where(column)} is infinite in row {row:,} (from 0): remove it"
            raise DataError(msg)
        return values

    def _numbers(self, array: Any, column: str) -> NDArray[np.float64]:
        from pyarrow import ArrowInvalid

        try:
            numbers = array.cast("float64")
        except ArrowInvalid as error:
            msg = f"{self._where(column)} does not fit float64: {error}"
            raise DataError(msg) from error
        return np.asarray(numbers.to_numpy(zero_copy_only=False), np.float64)

    def _coded(self, array: Any, column: str, kept: NDArray[np.intp]) -> NDArray[np.float64]:
        coded = array if hasattr(array, "dictionary") else array.dictionary_encode()
        labels = coded.dictionary.to_pylist()
        local: NDArray[np.intp] = coded.indices.fill_null(0).to_numpy(zero_copy_only=False)[kept]
        # Codes follow the rows that are kept, neither the batch's dictionary nor its size.
        used, first = np.unique(local, return_index=True)
        codes = self._codes[column]
        translated: NDArray[np.float64] = np.zeros(len(labels))
        for index in used[np.argsort(first)]:
            translated[index] = codes.setdefault(str(labels[index]), len(codes))
        if len(codes) > _MAX_CATEGORIES:
            msg = (
                f"{self._where(column)} has more than {_MAX_CATEGORIES:,} labels, so it names rows "
                "rather than groups of rows: leave it out, or make it numeric first"
            )
            raise DataError(msg)
        return translated[local]

    def _where(self, column: str) -> str:
        name = next(name for name, columns in self._variables.items() if column in columns)
        return f"column {column!r} (variable {name!r}) of {self._table.path}"


def _gaps(array: Any) -> NDArray[np.bool_]:
    return np.asarray(array.is_null(nan_is_null=True).to_numpy(zero_copy_only=False), np.bool_)


def _check_options(variables: Variables, missing: str, delimiter: str) -> None:
    check_choice("missing", missing, ("error", "drop"))
    if not isinstance(delimiter, str) or len(delimiter) != 1 or not delimiter.isascii():
        msg = f"delimiter must be one character such as ';' or a tab, got {delimiter!r}"
        raise InvalidArgumentError(msg)
    for name, columns in variables.items():
        if isinstance(columns, str) or not columns:
            msg = f"variable {name!r} needs a list of one or more columns, got {columns!r}"
            raise InvalidArgumentError(msg)
        if repeated := sorted({c for c in columns if list(columns).count(c) > 1}):
            msg = (
                f"variable {name!r} has columns more than once: {', '.join(repeated)}; "
                "name each column once"
            )
            raise InvalidArgumentError(msg)


def _variable_kind(table: TableSource, name: str, columns: Sequence[str]) -> Kind:
    for column in columns:
        _check_column(table, name, column)
    kinds = {column: table.kinds[column] for column in columns}
    if len(set(kinds.values())) > 1:
        described = ", ".join(f"{column} ({kind})" for column, kind in kinds.items())
        msg = (
            f"variable {name!r} mixes numeric and categorical columns: {described}; "
            "split it into two variables"
        )
        raise InvalidArgumentError(msg)
    return kinds[columns[0]]


def _check_column(table: TableSource, name: str, column: str) -> None:
    if column not in table.columns:
        some = ", ".join(table.columns[:20]) + (", ..." if len(table.columns) > 20 else "")
        msg = (
            f"variable {name!r} needs column {column!r}, which is not in {table.path}"
            f"; there are: {some}{nearest(column, table.columns)}"
        )
        raise InvalidArgumentError(msg)
    if table.columns.count(column) > 1:
        msg = f"{table.path} has more than one column {column!r}: rename them"
        raise DataError(msg)
    if column not in table.kinds:
        msg = (
            f"column {column!r} of {table.path} is of type {table.types[column]}, neither numbers "
            "nor labels: convert it first, a time for example to seconds"
        )
        raise DataError(msg)


def _expected_bytes(table: TableSource, width: int) -> int:
    if table.rows is not None:
        return 8 * width * table.rows
    # A value of a text file takes two bytes at least, and eight in memory.
    return 4 * table.path.stat().st_size
