"""Read CSV and Parquet files as a stream of record batches with settled column types."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from dhsic._validation import nearest
from dhsic.engine.blocks import INEXACT
from dhsic.errors import DataError, InvalidArgumentError, require
from dhsic.io.csv_lines import SEPARATORS, CsvLines, Dialect, count_csv, delimiter_hint
from dhsic.io.encode import written_numbers
from dhsic.io.frames import categories_of_pandas, index_of_pandas
from dhsic.io.notation import USUAL, Notation, notations_of
from dhsic.io.stray import any_large, are_inexact, listed, strays_of_csv, strays_of_text

FieldKind = Literal["numeric", "categorical"]

# The reader keeps some 35 blocks of CSV ahead; every Parquet column has a buffer.
_CSV_BLOCK_BYTES = 2**20
_PARQUET_BUFFER_BYTES = 2**18
_ROWS_SEEN = 10_000
_NESTED = ("list", "large_list", "fixed_size_list", "struct", "map")
_CSV_NAMES = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
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
        Kind of every usable column. Those that are neither, as dates, are absent.
    types : mapping of str to str
        The type of each column, for messages.
    rows : int
        Rows of the table: as Parquet says, and of CSV as its lines do.
    lines : CsvLines, optional
        How a CSV file is written, and what its bytes say of its rows.
    chosen : frozenset of str, optional
        The columns whose kind was given: those of numbers are read as text, to find what is none.
    na_values : tuple of str, optional
        Texts that stand for a missing value, besides the usual ones.
    notation : Notation, optional
        How numbers are written: its decimal sign in all of CSV, and both in chosen columns.
    """

    path: Path
    columns: tuple[str, ...]
    kinds: Mapping[str, FieldKind]
    types: Mapping[str, str]
    rows: int
    lines: CsvLines | None = None
    chosen: frozenset[str] = frozenset()
    na_values: tuple[str, ...] = ()
    notation: Notation = USUAL

    def reading(
        self,
        categorical: Sequence[str],
        numeric: Sequence[str],
        na_values: Sequence[str],
        notation: Notation,
    ) -> TableSource:
        """The same table with some columns read as labels or as numbers, whatever they look like.

        Raises
        ------
        InvalidArgumentError
            A column is not there, or is to be both.
        """
        for column in (*categorical, *numeric):
            self._check_name(column)
            if column in categorical and column in numeric:
                msg = f"column {column!r} must be categorical or numeric, got both: choose one"
                raise InvalidArgumentError(msg)
            if self.types[column].startswith(_NESTED):
                msg = (
                    f"column {column!r} of {self.path} is of type {self.types[column]}, neither "
                    "numbers nor labels: make a column of each part of it"
                )
                raise DataError(msg)
        given: dict[str, FieldKind] = dict.fromkeys(categorical, "categorical")
        given |= dict.fromkeys(numeric, "numeric")
        return replace(
            self,
            kinds={**self.kinds, **given},
            chosen=frozenset(given),
            na_values=tuple(na_values),
            notation=notation,
        )

    def check_column(self, column: str, what: str = "the table") -> None:
        """Refuse a column that the table does not have, or that holds neither numbers nor labels.

        Raises
        ------
        InvalidArgumentError
            There is none; the message names the nearest that there is.
        DataError
            There are two, or it holds something else.
        """
        self._check_name(column, what)
        if column not in self.kinds:
            msg = (
                f"column {column!r} of {self.path} is of type {self.types[column]}, neither "
                "numbers nor labels: convert it first, a time for example to seconds"
            )
            raise DataError(msg)

    def _check_name(self, column: str, what: str = "the table") -> None:
        if column not in self.columns:
            if len(self.columns) == 1 and (
                hint := delimiter_hint(self.columns[0], f"{SEPARATORS} ")
            ):
                msg = f"{what} needs column {column!r}, and {self.path} seems to have one: {hint}"
                raise InvalidArgumentError(msg)
            some = ", ".join(self.columns[:20]) + (", ..." if len(self.columns) > 20 else "")
            msg = (
                f"{what} needs column {column!r}, which is not in {self.path}"
                f"; there are: {some}{nearest(column, self.columns)}"
            )
            raise InvalidArgumentError(msg)
        if self.columns.count(column) > 1:
            msg = f"{self.path} has more than one column {column!r}: rename them"
            raise DataError(msg)

    def check_text(self, columns: Sequence[str]) -> None:
        """Refuse columns of text most of which is numbers, by their first rows.

        Raises
        ------
        DataError
            Tells the lines and values that are no numbers.
        """
        texts = [c for c in columns if self.holds_text(c)]
        batch = next(self.batches(texts, _ROWS_SEEN), None) if texts else None
        if batch is not None:
            for column in texts:
                if written_numbers(batch.column(column).unique().drop_null().to_pylist())[0]:
                    raise self.stray(column)

    def holds_text(self, column: str) -> bool:
        """Whether a column is text that nobody called labels."""
        return column not in self.chosen and self.types[column] in ("string", "large_string")

    def stray(self, column: str) -> DataError:
        """The error of text in a column of numbers, with the lines and values."""
        strays = self._strays(column)
        head = f"column {column!r} of {self.path}"
        notations = notations_of([value for _, value in strays])
        if column in self.chosen:
            told = " or ".join(one.told() for one in notations)
            remedy = f"read them by {told}" if told else "correct them"
            return DataError(
                f"{head} must hold numbers, got {listed(strays)}: {remedy}, or leave out such rows "
                "with missing='drop' (--missing drop)"
            )
        what = (
            f"text most of which holds numbers, {listed(strays)}: correct it"
            if strays
            else "numbers that are written as text: store them as numbers"
        )
        told = " or ".join(one.told(column) for one in notations or [USUAL])
        return DataError(
            f"{head} holds {what}, or tell 'dhsic convert table' what the column is: {told}, where "
            f"other text is missing, or --categorical {column} (categorical=[{column!r}])"
        )

    def _strays(self, column: str) -> list[tuple[str, str]]:
        if self.lines is not None:
            missing = _null_values(self.na_values)
            return strays_of_csv(self.path, column, self.lines.dialect, missing, self.notation)
        batches = self.batches([column], _ROWS_SEEN)
        texts = (batch.column(column).cast("string") for batch in batches)
        return strays_of_text(texts, self.notation)

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
            If the file is damaged, or a CSV column that began with numbers has something else; or
            if not every row was read.
        """
        read = 0
        with _readable(self.path):
            for batch in self._batches(columns, rows):
                read += batch.num_rows
                yield batch
        # Rows were counted by the bytes of the file: none may be lost on the way.
        if read != self.rows:
            msg = (
                f"{self.path} has {self.rows:,} rows, and {read:,} could be read: convert it while "
                "nothing writes to it, and look for damaged lines"
            )
            raise DataError(msg)

    def _batches(self, columns: Sequence[str], rows: int) -> Iterator[Any]:
        if self.lines is not None:
            return self._csv_batches(columns, self.lines)
        return self._parquet_batches(columns, rows)

    def _csv_batches(self, columns: Sequence[str], lines: CsvLines) -> Iterator[Any]:
        import pyarrow as pa

        # Types are inferred from one block, so they are fixed here: whole numbers may be followed
        # by fractions, and labels that look like numbers must keep their text ("01").
        numbers = [c for c in columns if self.kinds[c] == "numeric" and c not in self.chosen]
        whole = list(numbers)
        options = {
            "include_columns": list(columns),
            "column_types": {c: pa.float64() if c in numbers else pa.string() for c in columns},
            "strings_can_be_null": True,
            "null_values": _null_values(self.na_values),
            "decimal_point": self.notation.decimal,
        }
        try:
            with _csv_reader(self.path, lines, options) as reader:
                for batch in reader:
                    self._check_digits(batch, whole)
                    yield batch
        except pa.ArrowInvalid as error:
            if "conversion error" not in str(error):
                raise
            stray = next((c for c in numbers if self._strays(c)), None)
            if stray is None:
                raise
            raise self.stray(stray) from error

    def _check_digits(self, batch: Any, whole: list[str]) -> None:
        """Refuse integers that lost digits; columns whose large numbers are none are taken out."""
        for column in [c for c in whole if any_large(batch.column(c))]:
            # Their text tells, which is read once more.
            texts = replace(self, chosen=frozenset({column})).batches([column], _ROWS_SEEN)
            if any(are_inexact(part.column(0), self.notation) for part in texts):
                raise self.inexact(column)
            whole.remove(column)

    def inexact(self, column: str) -> DataError:
        """The error of integers that lose digits as floats."""
        return DataError(
            f"column {column!r} of {self.path} has {INEXACT}, or convert it as labels, by "
            f"--categorical {column} (categorical=[{column!r}])"
        )

    def _parquet_batches(self, columns: Sequence[str], rows: int) -> Iterator[Any]:
        import pyarrow.parquet as pq

        # Buffered, because otherwise whole column chunks are read: all of a one-group file.
        with pq.ParquetFile(self.path, buffer_size=_PARQUET_BUFFER_BYTES, pre_buffer=False) as file:
            yield from file.iter_batches(rows, columns=list(columns))


def open_table(
    path: Path, dialect: Dialect | None = None, na_values: Sequence[str] = (), decimal: str = "."
) -> TableSource:
    """Read the header of a table, and count the rows of CSV.

    Parameters
    ----------
    path : pathlib.Path
        A file whose name ends in ``.csv``, ``.csv.gz``, ``.tsv``, ``.tsv.gz``, ``.parquet`` or
        ``.pq``.
    dialect : Dialect, optional
        How a CSV file is written.
    na_values : sequence of str, optional
        Texts that stand for a missing value, besides the usual ones.
    decimal : str, optional
        The decimal sign of a CSV file.

    Returns
    -------
    TableSource

    Raises
    ------
    DataError
        If the file is absent, or is not what its name says; or, with the line, if a quote of CSV
        is stray or text is not of its encoding.
    MissingDependencyError
        If pyarrow is not installed.
    """
    try:
        import pyarrow.parquet as pq
    except ImportError as error:
        missing = require("pyarrow", "tables", "Reading CSV and Parquet files")
        raise missing from error
    if not os.path.isfile(path):
        msg = f"{path} is not a file: give the path of a CSV or Parquet file"
        raise DataError(msg)
    if is_csv(path):
        options = {"null_values": _null_values(na_values), "decimal_point": decimal}
        return _open_csv(path, dialect or Dialect(usual_delimiter(path)), options)
    if not is_parquet(path):
        known = ", ".join(_CSV_NAMES + _PARQUET_NAMES)
        msg = f"{path} is no known kind of table: its name must end in one of {known}"
        raise DataError(msg)
    with _readable(path), pq.ParquetFile(path) as file:
        return _described_table(path, file.schema_arrow, file.metadata.num_rows)


def usual_delimiter(path: Path) -> str:
    """A tab of ``.tsv`` files, else a comma."""
    return "\t" if ".tsv" in path.suffixes else ","


def _open_csv(path: Path, dialect: Dialect, options: Mapping[str, Any]) -> TableSource:
    lines = count_csv(path, dialect)
    with _readable(path), _csv_reader(path, lines, options) as reader:
        table = _described_table(path, reader.schema, lines.rows)
    return replace(table, lines=lines)


def is_table(path: object) -> bool:
    """Whether a path is named as a table is."""
    return _ends_with(path, _CSV_NAMES + _PARQUET_NAMES)


def is_parquet(path: object) -> bool:
    """Whether a path is named as a Parquet file is."""
    return _ends_with(path, _PARQUET_NAMES)


def is_csv(path: object) -> bool:
    """Whether a path is named as a CSV file is."""
    return _ends_with(path, _CSV_NAMES)


def _ends_with(path: object, names: tuple[str, ...]) -> bool:
    return isinstance(path, str | os.PathLike) and os.fspath(path).lower().endswith(names)


def _null_values(more: Sequence[str]) -> list[str]:
    """Texts of missing values in CSV: those of Arrow, and more."""
    from pyarrow import csv

    return [*csv.ConvertOptions().null_values, *more]


def _described_table(path: Path, schema: Any, rows: int) -> TableSource:
    import pyarrow as pa

    types = dict(zip(schema.names, schema.types, strict=True))
    for name in categories_of_pandas(schema):
        if not pa.types.is_dictionary(types[name]):
            types[name] = pa.dictionary(pa.int32(), types[name])
    kinds = {
        name: kind for name, type_ in types.items() if (kind := _kind_of_field(type_)) is not None
    }
    names = {name: str(type_) for name, type_ in types.items()}
    unnamed = index_of_pandas(schema, named=False)
    columns = tuple(name for name in schema.names if name not in unnamed)
    return TableSource(path, columns, kinds, names, rows)


def _kind_of_field(type_: Any) -> FieldKind | None:
    from pyarrow import types

    if types.is_dictionary(type_):
        return None if types.is_nested(type_.value_type) else "categorical"
    number = (types.is_integer, types.is_floating, types.is_decimal, types.is_null)
    label = (types.is_string, types.is_large_string, types.is_boolean)
    if any(is_type(type_) for is_type in number):
        return "numeric"
    return "categorical" if any(is_type(type_) for is_type in label) else None


def _csv_reader(path: Path, lines: CsvLines, convert: Mapping[str, Any]) -> Any:
    from pyarrow import csv

    dialect = lines.dialect
    return csv.open_csv(
        path,
        # Without threads, an error has the number of the row.
        read_options=csv.ReadOptions(
            use_threads=False,
            block_size=max(_CSV_BLOCK_BYTES, lines.row_bytes),
            encoding=dialect.encoding,
        ),
        parse_options=csv.ParseOptions(
            delimiter=dialect.delimiter,
            quote_char=False if dialect.quotes == "none" else '"',
            newlines_in_values=lines.line_breaks,
        ),
        convert_options=csv.ConvertOptions(**convert),
    )


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        hint = delimiter_hint(reason) if is_csv(path) else ""
        msg = f"cannot read {path} as a table: {reason}{'; ' if hint else ''}{hint}"
        raise DataError(msg) from error
