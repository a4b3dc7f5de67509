"""Read CSV and Parquet files as a stream of record batches with settled column types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from dhsic.errors import DataError, require

__all__ = ["Kind", "TableSource", "open_table"]

Kind = Literal["numeric", "categorical"]

# The reader keeps some 35 blocks of CSV ahead; every Parquet column has a buffer.
_CSV_BLOCK_BYTES = 2**20
_PARQUET_BUFFER_BYTES = 2**18
_CSV_NAMES = (".csv", ".csv.gz")
_PARQUET_NAMES = (".parquet", ".pq")


@dataclass(frozen=True)
class TableSource:
    """A table file whose column names and types are known.

    Parameters
    ----------
    path : pathlib.Path
        The file.
    columns : tuple of str
        The names of its columns.
    kinds : mapping of str to {"numeric", "categorical"}
        What each column can be used as. Those that are neither, as dates, are absent.
    types : mapping of str to str
        The type of each column, for messages.
    rows : int or None
        Rows of the table, where the file says so.
    delimiter : str, optional
        Between the fields of a CSV file.
    """

    path: Path
    columns: tuple[str, ...]
    kinds: Mapping[str, Kind]
    types: Mapping[str, str]
    rows: int | None
    delimiter: str = ","

    def batches(self, columns: Sequence[str], rows: int) -> Iterator[Any]:
        """Read some columns in order, a batch of rows at a time.

        Parameters
        ----------
        columns : sequence of str
            The columns to read; no other is converted, nor, in Parquet, read.
        rows : int
            Rows of a batch at most, for Parquet; a batch of CSV is 1 MiB of text.

        Yields
        ------
        pyarrow.RecordBatch

        Raises
        ------
        DataError
            If the file is damaged, or a CSV column that began with numbers has something else.
        """
        with _readable(self.path):
            if _is_csv(self.path):
                yield from self._csv_batches(columns)
            else:
                yield from self._parquet_batches(columns, rows)

    def _csv_batches(self, columns: Sequence[str]) -> Iterator[Any]:
        import pyarrow as pa

        # Types are inferred from one block, so they are fixed here: whole numbers may be followed
        # by fractions, and labels that look like numbers must keep their text ("01").
        types = {c: pa.float64() if self.kinds[c] == "numeric" else pa.string() for c in columns}
        options = {
            "include_columns": list(columns),
            "column_types": types,
            "strings_can_be_null": True,
        }
        with _csv_reader(self.path, self.delimiter, options) as reader:
            yield from reader

    def _parquet_batches(self, columns: Sequence[str], rows: int) -> Iterator[Any]:
        import pyarrow.parquet as pq

        # Buffered, because otherwise whole column chunks are read: all of a one-group file.
        with pq.ParquetFile(self.path, buffer_size=_PARQUET_BUFFER_BYTES, pre_buffer=False) as file:
            yield from file.iter_batches(rows, columns=list(columns))


def open_table(path: Path, delimiter: str = ",") -> TableSource:
    """Read the header of a table.

    Parameters
    ----------
    path : pathlib.Path
        A file whose name ends in ``.csv``, ``.csv.gz``, ``.parquet`` or ``.pq``.
    delimiter : str, optional
        Between the fields of a CSV file.

    Returns
    -------
    TableSource

    Raises
    ------
    DataError
        If the file is absent, or is not what its name says.
    MissingDependencyError
        If pyarrow is not installed.
    """
    try:
        import pyarrow.parquet as pq
    except ImportError as error:
        missing = require("pyarrow", "tables", "Reading CSV and Parquet files")
        raise missing from error
    if not path.is_file():
        msg = f"{path} is not a file: give the path of a CSV or Parquet file"
        raise DataError(msg)
    if _is_csv(path):
        with _readable(path), _csv_reader(path, delimiter) as reader:
            return _described(path, reader.schema, None, delimiter)
    if not path.name.lower().endswith(_PARQUET_NAMES):
        known = ", ".join(_CSV_NAMES + _PARQUET_NAMES)
        msg = f"{path} is no known kind of table: its name must end in one of {known}"
        raise DataError(msg)
    with _readable(path), pq.ParquetFile(path) as file:
        return _described(path, file.schema_arrow, file.metadata.num_rows)


def _described(path: Path, schema: Any, rows: int | None, delimiter: str = ",") -> TableSource:
    types = dict(zip(schema.names, schema.types, strict=True))
    kinds = {name: kind for name, type_ in types.items() if (kind := _kind(type_)) is not None}
    names = {name: str(type_) for name, type_ in types.items()}
    return TableSource(path, tuple(schema.names), kinds, names, rows, delimiter)


def _kind(type_: Any) -> Kind | None:
    from pyarrow import types

    if types.is_dictionary(type_):
        return None if types.is_nested(type_.value_type) else "categorical"
    number = (types.is_integer, types.is_floating, types.is_decimal, types.is_null)
    label = (types.is_string, types.is_large_string, types.is_boolean)
    if any(is_type(type_) for is_type in number):
        return "numeric"
    return "categorical" if any(is_type(type_) for is_type in label) else None


def _csv_reader(path: Path, delimiter: str, convert: Mapping[str, Any] | None = None) -> Any:
    from pyarrow import csv

    return csv.open_csv(
        path,
        # Without threads, an error has the number of the row.
        read_options=csv.ReadOptions(use_threads=False, block_size=_CSV_BLOCK_BYTES),
        parse_options=csv.ParseOptions(delimiter=delimiter),
        convert_options=csv.ConvertOptions(**(convert or {})),
    )


def _is_csv(path: Path) -> bool:
    return path.name.lower().endswith(_CSV_NAMES)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        msg = f"cannot read {path} as a table: {reason}"
        raise DataError(msg) from error
