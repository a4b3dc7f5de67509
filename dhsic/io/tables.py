"""CSV and Parquet files: their rows and the types of their columns, as variables and in zarr."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import os
import re
import zlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, chain, islice
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from dhsic._validation import (
    check_choice,
    check_path,
    check_progress,
    named_arguments,
    nearest,
    shown,
)
from dhsic.engine.passes import INEXACT, LARGEST_EXACT
from dhsic.errors import DataError, InvalidArgumentError, needing
from dhsic.io.chunks import METADATA
from dhsic.io.encode import (
    USUAL,
    Notation,
    as_frame,
    categories_of_pandas,
    check_repeated,
    frame_source,
    index_of_pandas,
    list_of_columns,
    notations_of,
    written_numbers,
)
from dhsic.io.libraries import is_of
from dhsic.io.missing import Missing, check_missing
from dhsic.io.variables import Variable
from dhsic.io.zarr_output import (
    OnRowsWritten,
    WrittenColumn,
    WrittenGroup,
    chunk_rows,
    write_group,
)

FieldKind = Literal["numeric", "categorical"]
Quotes = Literal["checked", "line-breaks", "none"]
Variables = Mapping[str, Sequence[str]]

_SEPARATORS = ";\t|"  # that are common besides the comma
_ROW_LENGTH = 2**24  # of the longest row, which the parser of the values holds many times
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_SHOWN = 20
# The reader keeps some 35 blocks of CSV ahead; every Parquet column has a buffer.
_CSV_BLOCK_BYTES = 2**20
_PARQUET_BUFFER_BYTES = 2**18
_ROWS_SEEN = 10_000
_ROWS_HELD = 65_536
_NAMED = 5
_SHARE = 0.5  # of the free memory: the columns are copied once, to lie side by side
# Labels of more kinds than this hardly repeat, and each is kept in memory.
_MAX_CATEGORIES = 65536
_NESTED = ("list", "large_list", "fixed_size_list", "struct", "map")
_CSV_NAMES = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
_PARQUET_NAMES = (".parquet", ".pq")
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_NO_QUOTES = (
    "correct it, or tell 'dhsic convert table' that quotes mean nothing: --quotes none "
    "(quotes='none')"
)
_LINE_BREAKS = ", or that fields hold line breaks: --quotes line-breaks (quotes='line-breaks')"


# --- how a table is read


@dataclass(frozen=True)
class Reading:
    """What users say of a table.

    Parameters
    ----------
    delimiter : str, optional
        The one ASCII character between fields of CSV; that of the name of the file by default.
    quotes : {"checked", "line-breaks", "none"}, optional
        Whether quotes of CSV are checked, or trusted to hold line breaks, or mean nothing.
    encoding : str, optional
        Encoding of the text of CSV.
    na_values : sequence of str, optional
        Texts that stand for a missing value, besides the usual ones.
    categorical, numeric : sequence of str, optional
        Columns that are labels or numbers, whatever they look like. Those of numbers are read as
        text, to find what is none.
    notation : Notation, optional
        How numbers are written: its decimal sign in all of CSV, and both in columns of `numeric`.
    """

    delimiter: str | None = None
    quotes: Quotes = "checked"
    encoding: str = "utf-8"
    na_values: Sequence[str] = ()
    categorical: Sequence[str] = ()
    numeric: Sequence[str] = ()
    notation: Notation = USUAL

    @property
    def chosen(self) -> dict[str, FieldKind]:
        """Kinds of the columns whose kind is said."""
        labels: dict[str, FieldKind] = dict.fromkeys(self.categorical, "categorical")
        return labels | dict.fromkeys(self.numeric, "numeric")

    @property
    def null_values(self) -> list[str]:
        """Texts of missing values in CSV: those of Arrow, and more."""
        from pyarrow import csv

        return [*csv.ConvertOptions().null_values, *self.na_values]

    def of(self, path: Path) -> Reading:
        """With the delimiter of a file by its name: a tab of ``.tsv`` files, else a comma."""
        usual = "\t" if ".tsv" in path.suffixes else ","
        return self if self.delimiter else replace(self, delimiter=usual)

    def check(self, path: Path) -> None:
        """Refuse what a file cannot be written in.

        Raises
        ------
        InvalidArgumentError
            One of them is none of its kind.
        """
        thousands, decimal = self.notation
        check_choice("quotes", self.quotes, get_args(Quotes))
        check_choice("decimal", decimal, (".", ","))
        for name, sign, what, others in (
            ("delimiter", self.delimiter, "such as ';' or a tab", '"\r\n'),
            ("thousands", thousands, "between digits such as ','", "0123456789+-eE"),
        ):
            one = isinstance(sign, str) and len(sign) == 1 and sign not in others
            if sign is not None and not (one and (sign.isascii() or name == "thousands")):
                msg = f"{name} must be one character {what}, got {shown(sign)}"
                raise InvalidArgumentError(msg)
        if thousands == decimal:
            msg = f"thousands and decimal must differ, got {decimal!r} for both: give both signs"
            raise InvalidArgumentError(msg)
        try:
            codecs.getincrementaldecoder(self.encoding)()
            " ".encode(self.encoding)
        except (LookupError, TypeError, ValueError):
            got = shown(self.encoding)
            msg = f"encoding must name one of text, as 'utf-8' or 'latin-1', got {got}"
            raise InvalidArgumentError(msg) from None
        for name in ("na_values", "categorical", "numeric"):
            words = getattr(self, name)
            listed = isinstance(words, Sequence) and not isinstance(words, str)
            if not listed or not all(isinstance(word, str) for word in words):
                msg = f"{name} must be a list of words, got {shown(words)}: put it in brackets"
                raise InvalidArgumentError(msg)
        # The decimal sign of a CSV file is that of all its columns.
        unread = [name for name in self.notation.signs if name == "thousands" or not is_csv(path)]
        if unread and not self.numeric:
            what = f"{unread[0]} is read in the columns of numeric, got none"
            msg = f"{what}: name them, as numeric=['price']"
            raise InvalidArgumentError(msg)


# --- rows of CSV


class _Counted(NamedTuple):
    """What the rows of a table are: below the header, and without empty lines."""

    rows: int
    longest: int = 0
    """Characters of the longest row of CSV."""
    line_breaks: bool = False
    """Whether a field holds a line break."""


def _count_rows(path: Path, reading: Reading) -> _Counted:
    """Count the rows of a CSV file without the parser that reads its values.

    Python's reader refuses text behind the quote that closes a field, and a field that no quote
    closes. Refused here is a field with line breaks whose first and last lines are whole rows, as
    many fields as the header has, if its quote is a character as others: rows would vanish between
    two stray quotes. "line-breaks" takes them for one field.

    Raises
    ------
    DataError
        A quote is stray, a line cannot be decoded or a row is longer than 16 MiB, with the line;
        or the file cannot be read.
    """
    sign = re.escape(reading.delimiter or ",")
    # A whole field in quotes; two quotes together stand for one.
    quoted = re.compile(rf'(?:^|(?<={sign}))"[^"]*(?:""[^"]*)*"(?={sign}|[\r\n]|$)')
    count = longest = width = 0
    line_breaks = False
    for line, lines, fields in _rows_of_csv(path, reading):
        if not fields:
            continue
        count += 1
        width = width or len(fields)
        longest = max(longest, sum(map(len, lines)))
        if longest > _ROW_LENGTH:
            raise _misquoted(path, line, lines, "limit")
        if len(lines) > 1:
            line_breaks = True
            if reading.quotes == "checked":
                _refuse_swallowed(path, reading, quoted, width, line, lines)
    return _Counted(max(count - 1, 0), longest, line_breaks)


def _rows_of_csv(path: Path, reading: Reading) -> Iterator[tuple[int, list[str], list[str]]]:
    """The number of the first line, the lines and the fields of every row, of the header too."""
    utf_8 = codecs.lookup(reading.encoding).name in ("utf-8", "utf-8-sig")
    # The mark at the start of the file is no part of the first name.
    encoding = "utf-8-sig" if utf_8 else reading.encoding
    quoting: Any = csv.QUOTE_NONE if reading.quotes == "none" else csv.QUOTE_MINIMAL
    opened: Any = gzip.open if path.name.lower().endswith(".gz") else open
    line, lines = 1, list[str]()
    # Never lowered: threads share it.
    csv.field_size_limit(max(csv.field_size_limit(), _ROW_LENGTH))
    try:
        with opened(path, "rt", encoding=encoding, newline="") as file:
            kept = (lines.append(text) or text for text in file)  # type: ignore[func-returns-value]
            sign = reading.delimiter or ","
            for fields in csv.reader(kept, delimiter=sign, quoting=quoting, strict=True):
                yield line, lines, fields
                line += len(lines)
                lines.clear()
    except csv.Error as error:
        raise _misquoted(path, line, lines, str(error)) from error
    except UnicodeError as error:
        raise _undecodable(path, line + len(lines), reading.encoding, error) from error
    except (OSError, EOFError, zlib.error) as error:
        msg = f"cannot read {path} as a table: {error}"
        raise DataError(msg) from error


def _refuse_swallowed(
    path: Path, reading: Reading, quoted: re.Pattern[str], width: int, line: int, lines: list[str]
) -> None:
    """Refuse fields with line breaks that look like rows between two stray quotes."""

    def is_row(text: str) -> bool:
        return quoted.sub("", text).count(reading.delimiter or ",") + 1 == width

    ends = list(accumulate(map(len, lines)))
    for field in quoted.finditer("".join(lines)):
        first, last = bisect_right(ends, field.start()), bisect_right(ends, field.end() - 1)
        if first < last and is_row(lines[first]) and is_row(lines[last]):
            opening = field[0][:_SHOWN].splitlines()[0]
            msg = (
                f"line {line + first:,} of {path} opens a field by {opening!r} that closes in line "
                f"{line + last:,}, and each of them would be a row of {width} fields by itself, so "
                f"the quote looks stray: {_NO_QUOTES}{_LINE_BREAKS}"
            )
            raise DataError(msg)


def _misquoted(path: Path, line: int, lines: list[str], said: str) -> DataError:
    """The error of a row that Python's reader does not take."""
    if "limit" in said:
        told = "begins a row that is longer than 16 MiB, perhaps by a quote that nothing closes"
    elif "end of data" in said:
        told = "opens a field with a quote that nothing closes"
    else:
        opening = f", which opens in line {line:,}" if len(lines) > 1 else ""
        got = lines[-1].strip()[: 2 * _SHOWN]
        told = f"must have a delimiter behind the quote that closes a field{opening}, got {got!r}"
        line += len(lines) - 1
    return DataError(f"line {line:,} of {path} {told}: {_NO_QUOTES}")


def _undecodable(path: Path, line: int, encoding: str, error: UnicodeError) -> DataError:
    """The error of bytes that are no text, in a piece of a file that begins in some line."""
    got, usual = "", "latin-1"
    if isinstance(error, UnicodeDecodeError):
        at, piece = error.start, error.object
        if not at and piece.startswith(_UTF_16):
            got, usual = ", and line 1 begins as UTF-16 does", "utf-16"
        else:
            line += len(re.findall(r"\r\n|\r|\n", piece[:at].decode(encoding, "replace")))
            near = piece[max(at - _SHOWN, 0) : at + _SHOWN].decode("ascii", "replace")
            got = f", and has the byte 0x{piece[at]:02x} in {near!r}"
    return DataError(
        f"line {line:,} of {path} must be text in {encoding}{got}: store the file in UTF-8, or "
        f"tell 'dhsic convert table' the encoding, as --encoding {usual} (encoding={usual!r})"
    )


def _delimiter_hint(text: str, separators: str = _SEPARATORS) -> str:
    """Say what to do where fields are not separated as they were taken to be."""
    sign = next((candidate for candidate in separators if candidate in text), None)
    if sign is None:
        return ""
    return (
        f"its fields seem to be separated by {sign!r}: convert it by 'dhsic convert table "
        f"--delimiter' (delimiter={sign!r}), or read it by pandas.read_csv(..., sep={sign!r})"
    )


# --- numbers that are text


def numbers_of_text(
    texts: Any, notation: Notation
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Numbers of Arrow's strings, and which of these are no numbers; null and these are NaN.

    With a comma between thousands, "1,200" is a number as well, and "1,20" is none.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    plain, stray = texts, np.zeros(len(texts), np.bool_)
    if notation.decimal == ",":  # beside which no point makes a fraction
        plain = pc.replace_substring(pc.replace_substring(texts, ".", "x"), ",", ".")
    try:
        numbers = plain.cast("float64")
    except pa.ArrowInvalid:  # of signs between thousands, other minuses, or what is no number
        is_number = pc.match_substring_regex(pc.utf8_trim_whitespace(texts), notation.pattern)
        plain = notation.plain(pc.if_else(is_number, texts, pa.scalar(None, texts.type)))
        numbers = plain.cast("float64")
        stray = pc.fill_null(pc.invert(is_number), False).to_numpy(zero_copy_only=False)
    return np.asarray(numbers.to_numpy(zero_copy_only=False), np.float64), stray


# --- tables


@dataclass(frozen=True)
class Table:
    """A table file whose column names and types are known.

    Parameters
    ----------
    path : pathlib.Path
        The file.
    reading : Reading
        How it is read.
    columns : tuple of str
        The names of its columns.
    kinds : mapping of str to {"numeric", "categorical"}
        Kind of every usable column. Those that are neither, as dates, are absent.
    types : mapping of str to str
        The type of each column, for messages.
    counted : _Counted
        Its rows: as Parquet says, and of CSV as its lines do.
    files : pyarrow.dataset.Dataset, optional
        The files, of Parquet.
    """

    path: Path
    reading: Reading
    columns: tuple[str, ...]
    kinds: Mapping[str, FieldKind]
    types: Mapping[str, str]
    counted: _Counted
    files: Any = None

    @cached_property
    def _times(self) -> Counter[str]:
        """How often every column is there; of thousands each is looked up."""
        return Counter(self.columns)

    def check_column(self, column: str, what: str = "the table", *, usable: bool = True) -> None:
        """Refuse a column that the table does not have, or that holds neither numbers nor labels.

        Raises
        ------
        InvalidArgumentError
            There is none; the message names the nearest that there is.
        DataError
            There are two, or it holds something else.
        """
        if not (times := self._times[column]):
            hint = f"; there are: {', '.join(self.columns)}{nearest(column, self.columns)}"
            if len(self.columns) == 1:
                told = _delimiter_hint(self.columns[0], f"{_SEPARATORS} ")
                hint = f"; {told}" if told else hint
            msg = f"{what} needs column {column!r}, which is not in {self.path}{hint}"
            raise InvalidArgumentError(msg)
        if times > 1:
            msg = f"{self.path} has more than one column {column!r}: rename them"
            raise DataError(msg)
        type_ = self.types[column]
        if type_.startswith(_NESTED) or (usable and column not in self.kinds):
            remedy = "make a column of each part, or convert it, a time for example to seconds"
            what = f"is of type {type_}, neither numbers nor labels"
            msg = f"column {column!r} of {self.path} {what}: {remedy}"
            raise DataError(msg)

    def check_text(self, columns: Sequence[str]) -> None:
        """Refuse columns of text most of which is numbers, by their first rows.

        Raises
        ------
        DataError
            Tells the lines and values that are no numbers.
        """
        import pyarrow as pa

        texts, seen = [c for c in columns if self.holds_text(c)], list[Any]()
        for batch in self.batches(texts, _ROWS_SEEN) if texts else ():
            seen.append(batch)
            if sum(map(len, seen)) >= _ROWS_SEEN:
                break
        for column in texts if seen else ():
            labels = pa.Table.from_batches(seen).column(column).unique().drop_null()
            if written_numbers(labels.to_pylist())[0]:
                raise self.stray(column)

    def holds_text(self, column: str) -> bool:
        """Whether a column is text that nobody called labels."""
        is_text = self.types[column] in ("string", "large_string")
        return is_text and column not in self.reading.chosen

    def stray(self, column: str) -> DataError:
        """The error of text in a column of numbers, with the lines and values."""
        strays = self._strays(column)
        head = f"column {column!r} of {self.path}"
        listed = ", ".join(f"{value!r} in {place}" for place, value in strays)
        notations = notations_of([value for _, value in strays])
        if column in self.reading.chosen:
            told = " or ".join(one.told() for one in notations)
            remedy = f"read them by {told}" if told else "correct them"
            return DataError(
                f"{head} must hold numbers, got {listed}: {remedy}, or leave out such rows "
                "with missing='drop'"
            )
        what = (
            f"text most of which holds numbers, {listed}: correct it"
            if strays
            else "numbers that are written as text: store them as numbers"
        )
        told = " or ".join(one.told(column) for one in notations or [USUAL])
        return DataError(
            f"{head} holds {what}, or tell 'dhsic convert table' what the column is: {told}, where "
            f"other text is missing, or --categorical {column} (categorical=[{column!r}])"
        )

    def _strays(self, column: str) -> list[tuple[str, str]]:
        """The first values of a column that are no numbers, after the line or row of each."""
        values = self._texts_of_csv(column) if is_csv(self.path) else self._texts(column)
        number = re.compile(self.reading.notation.pattern, re.ASCII)
        strays = ((place, text) for place, text in values if not number.match(text.strip()))
        return list(islice(strays, _NAMED))

    def _texts_of_csv(self, column: str) -> Iterator[tuple[str, str]]:
        # By Python's reader: Arrow does not tell the line of a value.
        missing = set(self.reading.null_values)
        rows = _rows_of_csv(self.path, self.reading)
        place = next(fields for _, _, fields in rows if fields).index(column)
        for line, lines, fields in rows:
            if place < len(fields) and fields[place] not in missing:
                yield f"line {line + len(lines) - 1:,}", fields[place]

    def _texts(self, column: str) -> Iterator[tuple[str, str]]:
        batches = self.batches([column], _ROWS_SEEN)
        columns = (batch.column(column).cast("string").to_pylist() for batch in batches)
        for row, text in enumerate(chain.from_iterable(columns)):
            if text is not None:
                yield f"row {row:,}", text

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
        csv_or_parquet = self._csv_batches if is_csv(self.path) else self._parquet_batches
        with _readable(self.path):
            for batch in csv_or_parquet(columns, rows):
                read += batch.num_rows
                yield batch
        # Rows of CSV were counted by another reader: none may be lost on the way.
        if read != self.counted.rows:
            msg = (
                f"{self.path} has {self.counted.rows:,} rows, and {read:,} could be read: convert "
                "it while nothing writes to it, and look for damaged lines"
            )
            raise DataError(msg)

    def _csv_batches(self, columns: Sequence[str], rows: int) -> Iterator[Any]:
        import pyarrow as pa

        # All as text: types are inferred from one block, whole numbers may be followed by
        # fractions, and labels that look like numbers must keep their text ("01").
        text, chosen = dict.fromkeys(columns, pa.string()), self.reading.chosen
        options = {"include_columns": [*text], "column_types": text, "strings_can_be_null": True}
        with _csv_reader(self.path, self.reading, self.counted, options) as reader:
            for batch in reader:
                arrays = batch.columns
                for at, column in enumerate(columns):
                    if self.kinds[column] == "numeric" and column not in chosen:
                        numbers, stray = self.numbers_of(arrays[at], column)
                        if stray.any():
                            raise self.stray(column)
                        arrays[at] = pa.array(numbers)
                yield pa.RecordBatch.from_arrays(arrays, [*text])

    def numbers_of(self, texts: Any, column: str) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Numbers of a column that is text, and which are none, see `numbers_of_text`.

        Raises
        ------
        DataError
            Integers lose digits as floats.
        """
        import pyarrow as pa

        notation = self.reading.notation
        # The thousands are those of columns that are called numbers.
        if column not in self.reading.chosen:
            notation = notation._replace(thousands=None)
        numbers, stray = numbers_of_text(texts, notation)
        # The largest is one, which the next integer has become; the text tells.
        if (large := np.abs(numbers) >= LARGEST_EXACT).any():
            digits = re.compile(r"[-+]?\d+")
            for text in notation.plain(texts.filter(pa.array(large))).to_pylist():
                if digits.fullmatch(text) and abs(int(text)) > LARGEST_EXACT:
                    msg = (
                        f"column {column!r} of {self.path} has {INEXACT}, or convert it as labels, "
                        f"by --categorical {column} (categorical=[{column!r}])"
                    )
                    raise DataError(msg)
        return numbers, stray

    def _parquet_batches(self, columns: Sequence[str], rows: int) -> Iterator[Any]:
        from pyarrow.dataset import ParquetFragmentScanOptions

        # Buffered, because otherwise whole column chunks are read: all of a one-group file.
        options = ParquetFragmentScanOptions(
            use_buffered_stream=True, buffer_size=_PARQUET_BUFFER_BYTES, pre_buffer=False
        )
        yield from self.files.to_batches(
            columns=list(columns),
            batch_size=rows,
            batch_readahead=1,
            fragment_readahead=1,
            fragment_scan_options=options,
        )


def _parquet(path: Path) -> tuple[Any, Any]:
    """Open a Parquet file, or a folder of some, as a data set of Arrow, and tell its schema.

    Names of folders may hold columns, as ``year=2011``, unless the files store them. The schema
    has columns whose name is there twice, which the data set leaves out, as Arrow reads by name.

    Raises
    ------
    DataError
        The files differ in their columns, one is damaged, or there is none.
    """
    import pyarrow as pa
    from pyarrow import dataset, fs

    files = _parquet_files(path) if path.is_dir() else [path]
    parquet, local = dataset.ParquetFileFormat(), fs.LocalFileSystem()
    schemas = []
    for file in files:
        with _readable(file):
            schemas.append(parquet.inspect(str(file), local))
    folders = [file.relative_to(path).parent.parts for file in files]
    told = [dict(part.split("=", 1) for part in parts if "=" in part) for parts in folders]
    stored = set(schemas[0].names)
    keys = [key for key in dict.fromkeys(chain.from_iterable(told)) if key not in stored]
    values = {key: _partition_values([one.get(key) for one in told]) for key in keys}
    fragments = []
    for k, (file, of_file) in enumerate(zip(files, told, strict=True)):
        holds = dataset.scalar(True)
        for key in (key for key in keys if key in of_file):
            schemas[k] = schemas[k].append(pa.field(key, values[key].type))
            field, value = dataset.field(key), values[key][k]
            holds = holds & (field == value if value.is_valid else field.is_null())
        fragments.append(parquet.make_fragment(str(file), local, holds))
    schema = _common_schema(path, files, schemas)
    counts = Counter(schema.names)
    once = [field for field in schema if counts[field.name] == 1]
    read = pa.schema(once, metadata=schema.metadata)
    return dataset.FileSystemDataset(fragments, read, parquet, local), schema


def _parquet_files(folder: Path) -> list[Path]:
    """List the Parquet files below a folder, ``part.2`` before ``part.10``."""

    def natural(path: Path) -> list[list[str | int]]:
        split = [re.split(r"([0-9]+)", part) for part in path.relative_to(folder).parts]
        return [[int(x) if j % 2 else x for j, x in enumerate(texts)] for texts in split]

    files = []
    for parent, folders, names in os.walk(folder, followlinks=True):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        paths = [Path(parent, name) for name in names if not name.startswith((".", "_"))]
        files += [path for path in paths if _holds_parquet(path)]
    if not files:
        msg = f"{folder} must hold Parquet files, got none: give the folder that has them"
        raise DataError(msg)
    return sorted(files, key=lambda path: (natural(path), path))


def _holds_parquet(path: Path) -> bool:
    """Whether a file is named as Parquet is, or begins so: Hive gives its files no suffix."""
    if _ends_with(path, _PARQUET_NAMES):
        return True
    with _readable(path), open(path, "rb") as file:
        return file.read(4) == b"PAR1"


def _partition_values(texts: Sequence[str | None]) -> Any:
    """Values that names of folders hold: numbers of Arrow where all are, else text."""
    import pyarrow as pa

    plain = [None if text in (None, _NO_VALUE) else unquote(text) for text in texts]
    for type_ in (pa.int64(), pa.float64()):
        try:
            return pa.array(plain, pa.string()).cast(type_)
        except pa.ArrowInvalid:
            continue
    return pa.array(plain, pa.string())


def _common_schema(path: Path, files: Sequence[Path], schemas: Sequence[Any]) -> Any:
    """The schema of several files; a column without any value in some has the type of others."""
    import pyarrow as pa

    first, null = schemas[0], pa.null()
    types = dict(zip(first.names, first.types, strict=True))
    for file, schema in zip(files, schemas, strict=True):
        here = dict(zip(schema.names, schema.types, strict=True))
        for column in types | here:
            known, got = types.get(column), here.get(column)
            if known is not None and got is not None and null in (known, got):
                types[column] = got if known == null else known
            elif known != got:
                msg = (
                    f"all files of {path} must have the same columns of the same types, got column "
                    f"{column!r} of type {got or 'none'} in {file.relative_to(path)}, and of type "
                    f"{known or 'none'} in those before it: write all files with one schema"
                )
                raise DataError(msg)
    fields = [pa.field(name, types[name]) for name in first.names]
    return pa.schema(fields, metadata=first.metadata)


def open_table(path: Path, reading: Reading | None = None) -> Table:
    """Read the header of a table, and count the rows of CSV.

    Parameters
    ----------
    path : pathlib.Path
        A file whose name ends in ``.csv``, ``.csv.gz``, ``.tsv``, ``.tsv.gz``, ``.parquet`` or
        ``.pq``.
    reading : Reading, optional
        How it is read.

    Returns
    -------
    Table

    Raises
    ------
    DataError
        If the file is absent, or is not what its name says; or, with the line, if a quote of CSV
        is stray or text is not of its encoding.
    MissingDependencyError
        If pyarrow is not installed.
    """
    reading = (reading or Reading()).of(path)
    with needing("pyarrow", "tables", "Reading CSV and Parquet files"):
        import pyarrow as pa
    if not (os.path.isfile(path) or (is_parquet(path) and path.is_dir())):
        # A URL has lost a slash as a path.
        url = re.match(r"[a-z0-9+]+:/", str(path))
        remedy = "copy it here" if url else "give the path of a CSV or Parquet file"
        what = "a table at a URL" if url else path
        msg = f"{what} is not a file of this machine: {remedy}"
        raise DataError(msg)
    files: Any = None
    if is_csv(path):
        counted = _count_rows(path, reading)
        with _readable(path), _csv_reader(path, reading, counted, {}) as reader:
            schema = reader.schema
    elif is_parquet(path):
        with _readable(path):
            files, schema = _parquet(path)
            counted = _Counted(files.count_rows())
    else:
        known = ", ".join(_CSV_NAMES + _PARQUET_NAMES)
        msg = f"{path} is no known kind of table: its name must end in one of {known}"
        raise DataError(msg)
    types = dict(zip(schema.names, schema.types, strict=True))
    for name in categories_of_pandas(schema):
        if not pa.types.is_dictionary(types[name]):
            types[name] = pa.dictionary(pa.int32(), types[name])
    kinds = {name: kind for name, type_ in types.items() if (kind := _kind_of_field(type_))}
    names = {name: str(type_) for name, type_ in types.items()}
    unnamed = index_of_pandas(schema, named=False)
    columns = tuple(name for name in schema.names if name not in unnamed)
    table = Table(path, reading, columns, {**kinds, **reading.chosen}, names, counted, files)
    for column in (*reading.categorical, *reading.numeric):
        table.check_column(column, usable=False)
        if column in reading.categorical and column in reading.numeric:
            msg = f"column {column!r} must be categorical or numeric, got both: choose one"
            raise InvalidArgumentError(msg)
    return table


def is_table(path: object) -> bool:
    """Whether a path is that of a table."""
    return is_csv(path) or is_parquet(path)


def is_parquet(path: object) -> bool:
    """Whether a path is named as a Parquet file is, or is a folder of such files."""
    named = _ends_with(path, _PARQUET_NAMES)
    if named or not isinstance(path, str | os.PathLike) or not os.path.isdir(path):
        return named
    # Arrays of a zarr group may have any name, and lie beside other files.
    if any(os.path.exists(os.path.join(path, name)) for name in METADATA):
        return False
    # Of partitions as Hive writes them: year=2011.
    return any(
        _ends_with(name, _PARQUET_NAMES)
        or ("=" in name and os.path.isdir(os.path.join(path, name)))
        for name in map(os.fsdecode, os.listdir(path))
    )


def is_csv(path: object) -> bool:
    """Whether a path is named as a CSV file is."""
    return _ends_with(path, _CSV_NAMES)


def _ends_with(path: object, names: tuple[str, ...]) -> bool:
    return isinstance(path, str | os.PathLike) and os.fspath(path).lower().endswith(names)


def _kind_of_field(type_: Any) -> FieldKind | None:
    from pyarrow import types

    if types.is_dictionary(type_):
        return None if types.is_nested(type_.value_type) else "categorical"
    number = (types.is_integer, types.is_floating, types.is_decimal, types.is_null)
    label = (types.is_string, types.is_large_string, types.is_boolean)
    if any(is_type(type_) for is_type in number):
        return "numeric"
    return "categorical" if any(is_type(type_) for is_type in label) else None


def _csv_reader(path: Path, reading: Reading, counted: _Counted, convert: Mapping[str, Any]) -> Any:
    from pyarrow import csv

    return csv.open_csv(
        path,
        # Without threads, an error has the number of the row. A character has up to 4 bytes.
        read_options=csv.ReadOptions(
            use_threads=False,
            block_size=max(_CSV_BLOCK_BYTES, 4 * counted.longest),
            encoding=reading.encoding,
        ),
        parse_options=csv.ParseOptions(
            delimiter=reading.delimiter,
            quote_char=False if reading.quotes == "none" else '"',
            newlines_in_values=counted.line_breaks,
        ),
        convert_options=csv.ConvertOptions(
            null_values=reading.null_values,
            decimal_point=reading.notation.decimal,
            **convert,
        ),
    )


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        hint = _delimiter_hint(reason) if is_csv(path) else ""
        msg = f"cannot read {path} as a table: {reason}{'; ' if hint else ''}{hint}"
        raise DataError(msg) from error


# --- columns as variables


def open_table_variables(path: str | os.PathLike[str], variables: Sequence[Any]) -> list[Variable]:
    """Read columns of a table into memory.

    Parameters
    ----------
    path : str or path
        A CSV or Parquet file.
    variables : sequence of str, or of sequences of str
        Each a column, or several that make one variable, as a list or as ``name=column,column``;
        all columns, one a variable, where none is given.

    Returns
    -------
    list of source
        Codes of labels, for columns that hold text.

    Raises
    ------
    InvalidArgumentError
        A column is not there.
    DataError
        The file cannot be read, a column holds neither numbers nor labels, or the columns do not
        fit the memory.
    """
    table = open_table(Path(path))
    chosen = {name: [name] for name in table.columns}
    if variables:
        chosen = columns_by_variable(variables, {*table.columns})
    columns = list(dict.fromkeys(column for listed in chosen.values() for column in listed))
    for column in columns:
        table.check_column(column)
    table.check_text(columns)
    held = held_columns(table, columns)
    return [frame_source(as_frame(held.select(listed)), name) for name, listed in chosen.items()]


def table_index(data: Any) -> Any:
    """The labels of the rows of a Parquet file or a table of Arrow, as a table, or None."""
    if is_parquet(data):
        held, schema = _parquet(Path(data))
        return held.to_table(columns=index_of_pandas(schema))
    return data if is_of(data, "pyarrow", "Table", "RecordBatch") else None


def text_of_columns(name: str, *columns: str) -> str:
    """The text of columns as one variable, which `columns_by_variable` reads.

    Examples
    --------
    >>> text_of_columns("air", "o3", "no2, mean")
    'air="o3","no2, mean"'
    """
    listed = io.StringIO()
    csv.writer(listed, quoting=csv.QUOTE_ALL, lineterminator="").writerow(columns)
    return f"{name}={listed.getvalue()}"


def columns_by_variable(
    variables: Sequence[Any], known: Collection[str] = (), *, named: bool = False
) -> dict[str, list[str]]:
    """Read ``name=column,column`` of every variable; a column alone names itself.

    Parameters
    ----------
    variables : sequence of str, or of sequences of str
        Columns with a comma in their names are quoted as in CSV.
    known : collection of str, optional
        Columns of the table: what is one of them is read as it is.
    named : bool, optional
        Whether every variable must be named.

    Returns
    -------
    dict of str to list of str

    Raises
    ------
    InvalidArgumentError
        One cannot be read so, or a name is given twice.

    Examples
    --------
    >>> columns_by_variable(["air=o3,no2", "wind"])
    {'air': ['o3', 'no2'], 'wind': ['wind']}
    """
    columns_of: dict[str, list[str]] = {}
    for text in variables:
        if isinstance(text, str):
            name, columns = _variable_of_text(text, known, named)
        else:
            columns = [str(name) for name in list_of_columns(text)]
            name = "+".join(columns)
        if not name or not columns or not all(columns):
            form = "NAME=COL,COL,..." if named else "[NAME=]COL,COL,..."
            msg = f"--variable must be {form}; got {text!r}: name the columns"
            raise InvalidArgumentError(msg)
        if name in columns_of:
            msg = f"--variable {name!r} is given twice: list all its columns in one"
            raise InvalidArgumentError(msg)
        columns_of[name] = columns
    return columns_of


def _variable_of_text(text: str, known: Collection[str], named: bool) -> tuple[str, list[str]]:
    # A column may have a comma or an equals sign in its name.
    if text in known:
        return text, [text]
    name, equals, listed = text.partition("=")
    if not (equals or named):
        name = listed = text
    columns = next(csv.reader([listed], skipinitialspace=True), [])
    return name.strip(), [name if name in known else name.strip() for name in columns]


def held_columns(table: Table, columns: Sequence[str]) -> Any:
    """Columns in memory, as a table of Arrow."""
    import psutil
    import pyarrow as pa

    allowed, read = _SHARE * psutil.virtual_memory().available, 0
    batches = []
    # Counted as they come: the size of a compressed file says little of that of its rows.
    for batch in table.batches(columns, _ROWS_HELD):
        batches.append(batch)
        read += batch.nbytes
        if read > allowed:
            what = f"{table.path} does not fit the memory of this machine"
            msg = f"{what}: convert it by 'dhsic convert table', and test the zarr group"
            raise DataError(msg)
    if not any(batch.num_rows for batch in batches):
        msg = f"{table.path} has no rows: give a table with some"
        raise DataError(msg)
    return pa.Table.from_batches(batches)


# --- conversion to zarr


@named_arguments
def convert_table(
    source: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    *,
    variables: Variables,
    missing: Missing = "refuse",
    na_values: Sequence[str] = (),
    categorical: Sequence[str] = (),
    numeric: Sequence[str] = (),
    thousands: str | None = None,
    decimal: str = ".",
    delimiter: str | None = None,
    quotes: Quotes = "checked",
    encoding: str = "utf-8",
    shuffle: int | None = None,
    overwrite: bool = False,
    progress: OnRowsWritten | None = None,
) -> WrittenGroup:
    r"""Convert columns of a CSV or Parquet file to a zarr group.

    The file is read as a stream, and of a Parquet file only the columns in use; the rows of a CSV
    file are counted first, by another reader, and all are there in the end or nothing is. Each
    variable becomes a float64 array (n, d) with one column for each of its d columns; the array's
    attribute ``columns`` lists them. Text, category and true/false columns become codes 0, 1, ...
    in the order in which the labels first appear. An array of such columns has the attributes
    ``kind = "categorical"`` and ``categories``, a dictionary of each column's labels in code order.

    Parameters
    ----------
    source : path
        A CSV file with a header, ``.csv``, ``.tsv`` or either with ``.gz``, or a ``.parquet`` or
        ``.pq`` file. The first MiB of a CSV file decides whether a column is numeric; a column of
        text is refused if most of it is numbers, or if most rows have a label of their own. Empty
        fields, ``NA``, ``NaN``, ``null`` and the like are missing.
    destination : path
        The zarr group to create: a path, or the URL of an object store, as s3://bucket/songs.zarr.
    variables : mapping of str to sequence of str
        The columns of each variable, all numeric or all categorical.
    missing : {"refuse", "drop"}
        Treatment of rows where a chosen column has no value: refuse, or leave the row out.
    na_values : sequence of str
        Further texts that stand for a missing value, as "-999"; in columns of numbers all of the
        same value do.
    categorical : sequence of str
        Columns whose values are labels, whatever they look like.
    numeric : sequence of str
        Columns whose values are numbers; those that are not are missing.
    thousands : str, optional
        The character between thousands in the columns of `numeric`, as the comma of "1,200". A
        space stands also for one that does not break.
    decimal : {".", ","}
        The decimal sign of the numbers in a CSV file, and in the columns of `numeric`.
    delimiter : str, optional
        The one character between the fields of a CSV file; a comma where not given, or a tab in a
        ``.tsv`` file.
    quotes : {"checked", "line-breaks", "none"}
        Meaning of quotes in a CSV file. They enclose fields, which may hold delimiters and line
        breaks. "checked" refuses those that look stray: rows would vanish in the field that one
        opens. "line-breaks" takes fields for what they are whose lines might be rows; with "none"
        a quote is a character as others.
    encoding : str
        Encoding of the text of a CSV file, as Python names it.
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
        Its ``dropped`` counts the rows that were left out, and its ``columns`` tell of every
        column its type, its labels, and how many values were missing or no numbers.

    Raises
    ------
    InvalidArgumentError
        If a column does not exist or is repeated in a variable, if a variable has no column or
        columns of both kinds, or if the destination or another option cannot be used.
    DataError
        If the file is absent, damaged or empty, if values are missing (with ``missing="refuse"``)
        or infinite, if most of a column of text is numbers or labels that occur once, if a
        column is neither numbers nor labels or has more than 65,536 labels, if a quote is stray or
        text is not of the encoding (the message has the line, of columns that are not converted
        too), if the parser reads another number of rows than there are, or if the disk refuses.
        Nothing is left behind.
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
    _check_options(variables, missing)
    path = Path(check_path("source", source))
    notation = Notation(thousands, decimal)
    reading = Reading(delimiter, quotes, encoding, na_values, categorical, numeric, notation)
    reading.check(path)
    check_progress(progress)
    table = open_table(path, reading)
    for name, names in variables.items():
        for column in names:
            table.check_column(column, f"variable {name!r}")
    table.check_text(list(dict.fromkeys(c for names in variables.values() for c in names)))
    for name, names in variables.items():
        if len({table.kinds[column] for column in names}) > 1:
            told = ", ".join(f"{column} ({table.kinds[column]})" for column in names)
            what = f"variable {name!r} mixes numeric and categorical columns: {told}"
            msg = f"{what}; split it into two variables"
            raise InvalidArgumentError(msg)
    widths = {name: len(names) for name, names in variables.items()}
    encoder = _Encoder(table, variables, missing)
    written = write_group(
        destination,
        widths,
        encoder.blocks(widths),
        encoder.attributes,
        overwrite=overwrite,
        shuffle=shuffle,
        expected_bytes=8 * sum(widths.values()) * table.counted.rows,
        progress=progress,
    )
    return replace(written, dropped=encoder.dropped, columns=encoder.columns)


class _Encoder:
    """Turns record batches into row blocks, and remembers the labels it met."""

    def __init__(self, table: Table, variables: Variables, missing: Missing) -> None:
        import pyarrow as pa

        self.dropped = self._read = 0
        self._table, self._variables, self._missing = table, variables, missing
        tokens = pa.array(table.reading.na_values, pa.string())
        self._missing_numbers, _ = numbers_of_text(tokens, table.reading.notation)
        self._columns = list(dict.fromkeys(c for names in variables.values() for c in names))
        # For every column of labels the rows of each; their order is that of the codes.
        self._counts: dict[str, Counter[str]] = {
            c: Counter() for c in self._columns if table.kinds[c] == "categorical"
        }
        self._missed: Counter[str] = Counter()
        self._rejected: Counter[str] = Counter()

    @property
    def columns(self) -> tuple[WrittenColumn, ...]:
        return tuple(
            WrittenColumn(
                name=column,
                variable=variable,
                type=self._table.types[column],
                kind=self._table.kinds[column],
                categories=tuple(self._counts.get(column, ())),
                missing=self._missed[column] - self._rejected[column],
                rejected=self._rejected[column],
            )
            for variable, columns in self._variables.items()
            for column in columns
        )

    def blocks(self, widths: Mapping[str, int]) -> Iterator[dict[str, NDArray[np.float64]]]:
        for batch in self._table.batches(self._columns, chunk_rows(widths)):
            given = {column: batch.column(column) for column in self._columns}
            labels = {c: self._labels(given[c], c) for c in self._counts}
            values = {c: self._numbers(x, c) for c, x in given.items() if c not in labels}
            gone = ((c, x.is_null(nan_is_null=True)) for c, x in labels.items())
            gaps = {column: x.to_numpy(zero_copy_only=False) for column, x in gone}
            gaps |= {column: np.isnan(x) for column, x in values.items()}
            self._missed.update({column: int(gone.sum()) for column, gone in gaps.items()})
            self._refuse("missing", gaps if self._missing == "refuse" else {})
            kept = ~np.logical_or.reduce([*gaps.values()])
            self._refuse("infinite", {c: np.isinf(x) & kept for c, x in values.items()})
            held = {column: self._coded(x, column, kept) for column, x in labels.items()}
            held |= {column: x[kept] for column, x in values.items()}
            yield {
                name: np.stack([held[column] for column in columns], axis=1)
                for name, columns in self._variables.items()
            }
            self._read += len(kept)
            self.dropped += len(kept) - int(kept.sum())
        # Known at the end alone: rows are dropped as they are read.
        if self.dropped == self._read:
            none = f"all {self._read:,} rows miss a chosen column" if self._read else "it has none"
            msg = f"{self._table.path} has no rows to convert: {none}"
            raise DataError(msg)
        for column, counted in self._counts.items():
            if self._table.holds_text(column):
                check_repeated([*counted.values()], [*counted], self._where(column))

    def attributes(self) -> dict[str, dict[str, Any]]:
        told: dict[str, dict[str, Any]] = {}
        for name, columns in self._variables.items():
            told[name] = {"columns": list(columns)}
            if columns[0] in self._counts:
                labels = {column: list(self._counts[column]) for column in columns}
                told[name] |= {"kind": "categorical", "categories": labels}
        return told

    def _refuse(self, what: str, found: Mapping[str, NDArray[np.bool_]]) -> None:
        """Refuse the first row that has a value of a kind."""
        rows = {column: int(np.argmax(there)) for column, there in found.items() if there.any()}
        if rows:
            column = min(rows, key=lambda column: rows[column])
            remedy = "leave out such rows" + " with missing='drop'" * (what == "missing")
            place = f"is {what} in row {self._read + rows[column]:,} (from 0)"
            msg = f"{self._where(column)} {place}: {remedy}, or mend them first"
            raise DataError(msg)

    def _labels(self, array: Any, column: str) -> Any:
        """Labels of Arrow, null where one is missing."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if hasattr(array, "dictionary"):
            array = array.dictionary_decode()
        if column in self._table.reading.chosen:
            array = array.cast("string")
        tokens = self._table.reading.na_values
        if tokens and (pa.types.is_string(array.type) or pa.types.is_large_string(array.type)):
            gone = pc.is_in(array, value_set=pa.array(tokens, array.type))
            array = pc.if_else(gone, pa.scalar(None, array.type), array)
        return array

    def _numbers(self, array: Any, column: str) -> NDArray[np.float64]:
        """Numbers, NaN where one is missing."""
        from pyarrow import ArrowInvalid

        if column in self._table.reading.chosen:
            values, stray = self._table.numbers_of(array.cast("string"), column)
            # With missing="drop" a text among numbers counts as missing, and is told as rejected.
            if stray.any() and self._missing == "refuse":
                raise self._table.stray(column)
            self._rejected[column] += int(stray.sum())
        else:
            try:
                values = array.cast("float64").to_numpy(zero_copy_only=False)
            except ArrowInvalid as error:
                msg = f"{self._where(column)} does not fit float64: {error}"
                raise DataError(msg) from error
        if len(self._missing_numbers):
            values = np.where(np.isin(values, self._missing_numbers), np.nan, values)
        return values

    def _coded(self, array: Any, column: str, kept: NDArray[np.bool_]) -> NDArray[np.float64]:
        import pyarrow as pa

        # Codes follow the rows that are kept, neither the dictionary of a batch nor its size.
        coded = array.filter(pa.array(kept)).dictionary_encode()
        # By their text, since labels of Arrow may be booleans or numbers.
        labels, local = [*map(str, coded.dictionary.to_pylist())], coded.indices.to_numpy()
        counted = self._counts[column]
        rows = np.bincount(local, minlength=len(labels)).tolist()
        counted.update(dict(zip(labels, rows, strict=True)))
        if len(counted) > _MAX_CATEGORIES:
            what = f"has more than {_MAX_CATEGORIES:,} labels, so it names rows, not groups of rows"
            msg = f"{self._where(column)} {what}: leave it out, or make it numeric first"
            raise DataError(msg)
        codes = {label: code for code, label in enumerate(counted)}
        coded_rows: NDArray[np.float64] = np.array([codes[x] for x in labels], np.float64)[local]
        return coded_rows

    def _where(self, column: str) -> str:
        name = next(name for name, columns in self._variables.items() if column in columns)
        return f"column {column!r} (variable {name!r}) of {self._table.path}"


def _check_options(variables: Variables, missing: str) -> None:
    check_missing(missing, pairwise=False)
    if not isinstance(variables, Mapping) or not all(isinstance(name, str) for name in variables):
        got = shown(variables)
        msg = f"variables must be a dictionary, from a name to a list of columns, got {got}"
        raise InvalidArgumentError(msg)
    for name, columns in variables.items():
        listed = isinstance(columns, Sequence) and not isinstance(columns, str) and len(columns)
        if not listed or not all(isinstance(column, str) for column in columns):
            got = shown(columns)
            msg = f"variable {name!r} needs a list of names of one or more columns, got {got}"
            raise InvalidArgumentError(msg)
        if repeated := sorted(c for c, times in Counter(columns).items() if times > 1):
            got = ", ".join(repeated)
            msg = f"variable {name!r} has columns more than once: {got}; name each column once"
            raise InvalidArgumentError(msg)
