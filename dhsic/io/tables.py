"""Read tables, files or frames, whose columns hold numbers or labels, and convert them to zarr.

The notation of numbers and the options of reading come first, then tables in files, their columns
as variables, and the conversion. The last parts encode values of any type as numbers, and take
columns from frames of every library.
"""

from __future__ import annotations

import codecs
import csv
import datetime
import gzip
import io
import math
import os
import re
import shlex
import sys
import zlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from itertools import accumulate, chain, islice
from numbers import Integral, Real
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
from dhsic.engine.passes import INEXACT, LARGEST_EXACT, check_exact, kinds_of
from dhsic.errors import DataError, InvalidArgumentError, needing
from dhsic.io.urls import METADATA
from dhsic.io.variables import Missing, Variable, check_missing, is_of
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
_SHARE_OF_MEMORY = 0.5  # of the free memory: the columns are copied once, to lie side by side
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


# --- numbers as people write them

# Signs that look alike and that one key stands for, as spaces that do not break.
_ALIKE = {" ": " \u00a0\u2009\u202f", "'": "'\u2019"}
_MINUS = "\u2212"


class Notation(NamedTuple):
    """The signs by which numbers are written: between thousands, if there is one, and decimal."""

    thousands: str | None = None
    decimal: str = "."

    @property
    def signs(self) -> dict[str, str]:
        """Those that are not the usual ones, by the names of their options."""
        return {k: v for k, v in self._asdict().items() if v != USUAL._asdict()[k]}

    @property
    def pattern(self) -> str:
        """A regular expression of numbers, for Python and for Arrow."""
        point = re.escape(self.decimal)
        numbers = rf"(\d+{point}?\d*|{point}\d+)([eE][-+]?\d+)?|(?i:nan|inf|infinity)"
        if self.thousands is not None:
            # No group of thousands begins with 0: "0,126" has a decimal comma.
            numbers += rf"|[1-9]\d{{0,2}}({self._between}\d{{3}})+({point}\d*)?"
        return f"^[-+{_MINUS}]?({numbers})$"

    @property
    def _between(self) -> str:
        sign = self.thousands or ""
        return f"[{re.escape(_ALIKE.get(sign, sign))}]"

    def plain(self, texts: Any) -> Any:
        """Numbers among Arrow's strings as programs write them."""
        import pyarrow.compute as pc

        texts = pc.replace_substring(pc.utf8_trim_whitespace(texts), _MINUS, "-")
        if self.thousands is not None:
            texts = pc.replace_substring_regex(texts, self._between, "")
        return pc.replace_substring(texts, self.decimal, ".")

    def told(self, column: str | None = None) -> str:
        """Options of a command that say so, of a column of text, and arguments of a function."""
        given = ({} if column is None else {"numeric": column}) | self.signs
        # Signs in quotes, since a comma would seem to be one of the sentence.
        words = " ".join(
            f"--{k} {shlex.quote(v) if k == 'numeric' else repr(v)}" for k, v in given.items()
        )
        arguments = (f"{k}={[v] if k == 'numeric' else v!r}" for k, v in given.items())
        return f"{words} ({', '.join(arguments)})"


USUAL = Notation()
# Those of fewer options first.
_NOTATIONS = [USUAL, Notation(","), Notation(None, ","), Notation(" "), Notation("'")]
_NOTATIONS += [Notation(thousands, ",") for thousands in ". '"]
_PATTERNS = [re.compile(one.pattern, re.ASCII) for one in _NOTATIONS]


def is_number(text: str) -> bool:
    """Whether a text is a number in some notation, also of a currency or of percent."""
    bare = re.sub(r"\s?[%€$£]\s?", "", text).strip()
    return any(one.match(bare) and any(map(str.isdigit, bare)) for one in _PATTERNS)


def notations_of(texts: Sequence[str]) -> list[Notation]:
    """The notations that read most of some texts by fewest options; none where the usual one does.

    Examples
    --------
    >>> notations_of(["1,234", "0,5"])
    [Notation(thousands=None, decimal=',')]
    >>> len(notations_of(["1,234", "2,500"]))  # thousands, or fractions
    2
    """
    read = [sum(one.match(text.strip()) is not None for text in texts) for one in _PATTERNS]
    best = [one for one, count in zip(_NOTATIONS, read, strict=True) if count == max(read) > 0]
    return [one for one in best if 0 < len(one.signs) == len(best[0].signs)]


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
            _check_words(name, getattr(self, name))
        # The decimal sign of a CSV file is that of all its columns.
        unread = [name for name in self.notation.signs if name == "thousands" or not is_csv(path)]
        if unread and not self.numeric:
            what = f"{unread[0]} is read in the columns of numeric, got none"
            msg = f"{what}: name them, as numeric=['price']"
            raise InvalidArgumentError(msg)


def _check_words(name: str, words: Any) -> None:
    listed = isinstance(words, Sequence) and not isinstance(words, str)
    if not listed or not all(isinstance(word, str) for word in words):
        msg = f"{name} must be a list of words, got {shown(words)}: put it in brackets"
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

    def is_row(text: str) -> bool:
        return quoted.sub("", text).count(reading.delimiter or ",") + 1 == width

    for line, lines, fields in _rows_of_csv(path, reading):
        if not fields:
            continue
        count += 1
        width = width or len(fields)
        longest = max(longest, sum(map(len, lines)))
        if longest > _ROW_LENGTH:
            raise _misquoted(path, line, lines, "limit")
        line_breaks = line_breaks or len(lines) > 1
        if len(lines) == 1 or reading.quotes != "checked":
            continue
        ends = list(accumulate(map(len, lines)))
        for field in quoted.finditer("".join(lines)):
            first, last = bisect_right(ends, field.start()), bisect_right(ends, field.end() - 1)
            if first < last and is_row(lines[first]) and is_row(lines[last]):
                opening = field[0][:_SHOWN].splitlines()[0]
                msg = (
                    f"line {line + first:,} of {path} opens a field by {opening!r} that closes in "
                    f"line {line + last:,}, and each of them would be a row of {width} fields by "
                    f"itself, so the quote looks stray: {_NO_QUOTES}{_LINE_BREAKS}"
                )
                raise DataError(msg)
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
        number = re.compile(self.reading.notation.pattern, re.ASCII)
        texts = ((x, text) for x, text in self._texts(column) if not number.match(text.strip()))
        strays = list(islice(texts, _NAMED))
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

    def _texts(self, column: str) -> Iterator[tuple[str, str]]:
        """The values of a column as text, after the line or row of each."""
        if not is_csv(self.path):
            batches = self.batches([column], _ROWS_SEEN)
            columns = (batch.column(column).cast("string").to_pylist() for batch in batches)
            texts = enumerate(chain.from_iterable(columns))
            yield from ((f"row {row:,}", text) for row, text in texts if text is not None)
            return
        # By Python's reader: Arrow does not tell the line of a value.
        missing = set(self.reading.null_values)
        rows = _rows_of_csv(self.path, self.reading)
        place = next(fields for _, _, fields in rows if fields).index(column)
        for line, lines, fields in rows:
            if place < len(fields) and fields[place] not in missing:
                yield f"line {line + len(lines) - 1:,}", fields[place]

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
        from pyarrow.dataset import ParquetFragmentScanOptions

        # Buffered, because otherwise whole column chunks are read: all of a one-group file.
        options = ParquetFragmentScanOptions(
            use_buffered_stream=True, buffer_size=_PARQUET_BUFFER_BYTES, pre_buffer=False
        )
        read = 0
        with _readable(self.path):
            if self.files is None:
                batches = self._csv_batches(columns)
            else:
                batches = self.files.to_batches(
                    columns=list(columns),
                    batch_size=rows,
                    batch_readahead=1,
                    fragment_readahead=1,
                    fragment_scan_options=options,
                )
            for batch in batches:
                read += batch.num_rows
                yield batch
        # Rows of CSV were counted by another reader: none may be lost on the way.
        if read != self.counted.rows:
            msg = (
                f"{self.path} has {self.counted.rows:,} rows, and {read:,} could be read: convert "
                "it while nothing writes to it, and look for damaged lines"
            )
            raise DataError(msg)

    def _csv_batches(self, columns: Sequence[str]) -> Iterator[Any]:
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
        for path in (Path(parent, name) for name in names if not name.startswith((".", "_"))):
            # Named as Parquet is, or beginning so: Hive gives its files no suffix.
            if not _ends_with(path, _PARQUET_NAMES):
                with _readable(path), open(path, "rb") as file:
                    if file.read(4) != b"PAR1":
                        continue
            files.append(path)
    if not files:
        msg = f"{folder} must hold Parquet files, got none: give the folder that has them"
        raise DataError(msg)
    return sorted(files, key=lambda path: (natural(path), path))


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
    reading = reading or Reading()
    if reading.delimiter is None:
        reading = replace(reading, delimiter="\t" if ".tsv" in path.suffixes else ",")
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
        if not isinstance(text, str):
            columns = list(map(str, list_of_columns(text)))
            name = "+".join(columns)
        # A column may have a comma or an equals sign in its name.
        elif text in known:
            name, columns = text, [text]
        else:
            name, equals, listed = text.partition("=")
            if not (equals or named):
                name = listed = text
            name, row = name.strip(), next(csv.reader([listed], skipinitialspace=True), [])
            columns = [column if column in known else column.strip() for column in row]
        if not name or not columns or not all(columns):
            form = "NAME=COL,COL,..." if named else "[NAME=]COL,COL,..."
            msg = f"--variable must be {form}; got {text!r}: name the columns"
            raise InvalidArgumentError(msg)
        if name in columns_of:
            msg = f"--variable {name!r} is given twice: list all its columns in one"
            raise InvalidArgumentError(msg)
        columns_of[name] = columns
    return columns_of


def held_columns(table: Table, columns: Sequence[str]) -> Any:
    """Columns in memory, as a table of Arrow."""
    import psutil
    import pyarrow as pa

    allowed, read = _SHARE_OF_MEMORY * psutil.virtual_memory().available, 0
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
        _check_words(f"columns of variable {name!r}", columns)
        if not columns:
            msg = f"variable {name!r} needs one column or more, got none: name them"
            raise InvalidArgumentError(msg)
        if repeated := sorted(c for c, times in Counter(columns).items() if times > 1):
            got = ", ".join(repeated)
            msg = f"variable {name!r} has columns more than once: {got}; name each column once"
            raise InvalidArgumentError(msg)


# --- values of any type as numbers: what a column holds decides how it is compared

_REMEDIES = {
    "c": "use its real and imaginary parts as columns",
    "M": "turn times into numbers, as days since the first, or into categories, as the weekday",
    "m": "turn durations into numbers, as seconds",
    "V": "choose one of its fields",
    "OUST": "read it into memory, where labels become categories, or store integer codes",
}
_TIMES = datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64
# Whole numbers alone are as often labels.
_WHOLE = re.compile(r"\s*[-+\u2212]?\d+\s*")
_MISSING_TYPES = "NAType", "NaTType"  # of pandas, for a missing value
_LABELS_SEEN = 1000
_ROWS_OF_NAMES = 10  # from so many rows on, labels that all differ are no categories
# Measured with 200 and 1,000 rows. Where half of the rows or more have a label of their own, a test
# of labels finds 3 to 15 % of the dependences that numbers show in 80 to 100 %. Where fewer have,
# groups whose means vary as their rows do are found in 95 % and more, which are taken; those of the
# others, found in 60 to 100 %, must be called categories.
_ALONE = 0.5
# Labels with a number beside other text: a unit, a currency or "<", a date or a time. Numbers of 20
# values are found in 78 and 90 %, their labels in 40 and 37 %; with more values labels lose more.
_QUANTITY = re.compile(r"\d\W\d")
_QUANTITIES = 20

_rare: ContextVar[list[DataError] | None] = ContextVar("_rare", default=None)


def check_type(data_name: str, dtype: Any) -> None:
    """Refuse a type that no kernel takes as it is.

    Raises
    ------
    DataError
        Its values are no real numbers.
    """
    kind = np.dtype(dtype).kind
    if kind not in "fiub":
        if kind == "V" and np.dtype(dtype).names is None:
            kind = "number of another library"  # as bfloat16
        remedies = (text for kinds, text in _REMEDIES.items() if kind in kinds)
        remedy = next(remedies, "convert it to float32")
        msg = f"{data_name} must hold real numbers, got {dtype}: {remedy}"
        raise DataError(msg)


@contextmanager
def rare_labels_taken(fewer_than: float = math.inf) -> Iterator[None]:
    """Take text most rows of which have a label of their own, in fewer columns than so many."""
    errors: list[DataError] = []
    before = _rare.set(errors)
    try:
        yield
    finally:
        _rare.reset(before)
    if len(errors) >= fewer_than:
        raise errors[0]


def encode(values: NDArray[Any], data_name: str) -> Variable:
    """Numbers and booleans as they are, text as codes of categories, a column at a time.

    Parameters
    ----------
    values : ndarray, shape (n,)
        Values of any type.
    data_name : str
        Name in messages.

    Returns
    -------
    Variable
        By that name.

    Raises
    ------
    DataError
        Times, complex numbers, text beside numbers, numbers that are written as text, or labels
        that all differ.
    """
    if values.dtype.kind not in "OUST":
        check_type(data_name, values.dtype)
        return Variable(data_name, values, kinds=("boolean",) if values.dtype.kind == "b" else None)
    # All are looked at by functions of C, since there may be a hundred million: their types first.
    listed = values.tolist()
    kinds = {kind: _kind_of_labels(kind) for kind in set(map(type, listed))}
    present = set(kinds.values()) - {None}
    if present <= {"number"}:  # whole where all are, and NaN where one is missing
        if None in kinds.values():
            listed = [np.nan if _is_missing(value) else value for value in listed]
        plain = np.array(listed)
        try:
            numbers = plain if plain.dtype.kind in "fiub" else plain.astype(np.float64)
        except OverflowError:  # Python's whole numbers have no end
            msg = f"{data_name} has {INEXACT}"
            raise DataError(msg) from None
        check_whole(listed, numbers, data_name)
        return Variable(data_name, numbers)
    floats = {kind for kind, said in kinds.items() if said == "number"}
    # Floats that are all NaN stand for missing labels.
    if floats and all(_is_missing(value) for value in listed if type(value) in floats):
        present.remove("number")
    if present == {"boolean"}:  # 1 and 0 with NaN where one is missing
        told = {v: np.nan if _is_missing(v) else float(v) for v in dict.fromkeys(listed)}
        encoded = np.fromiter(map(told.__getitem__, listed), np.float64, len(listed))
        values = encoded if np.isnan(encoded).any() else encoded.astype(bool)
        return Variable(data_name, values, kinds=("boolean",))
    if present == {"text"}:
        return encode_text(*codes_of_labels(listed), data_name)
    raise _refusal(listed, data_name)


def encode_codes(
    codes: NDArray[Any], labels: Sequence[Any], data_name: str, most_alone: float = 1.0
) -> Variable:
    """Codes of labels as they are, of which -1 is missing.

    Raises
    ------
    DataError
        See `check_repeated`.
    """
    gaps = codes < 0
    check_repeated(np.bincount(codes[~gaps]), labels, data_name, most_alone)
    values = np.where(gaps, np.nan, codes) if gaps.any() else codes
    return Variable(data_name, values, kinds=("category",), categories=((*labels,),))


def encode_text(codes: NDArray[Any], texts: Sequence[Any], data_name: str) -> Variable:
    """The same of texts that nobody called categories.

    Raises
    ------
    DataError
        Most texts are numbers, or most rows have one of their own.
    """
    numbers, others = written_numbers(texts)
    if numbers:
        beside = f", beside {others[0]!r}" if others else ""
        # A comma may be a decimal one, without which 0,126 would be 126.
        signs = " or ".join(one.told() for one in notations_of(numbers))
        how = f"pandas.read_csv or 'dhsic convert table' with {signs}, or " if signs else ""
        msg = (
            f"{data_name} holds numbers that are written as text, as {numbers[0]!r}{beside}: make "
            f"numbers of them, as by {how}pandas.to_numeric after .str.replace (units by nothing, "
            "a decimal comma by a point), or a categorical column of labels"
        )
        raise DataError(msg)
    return encode_codes(codes, texts, data_name, _ALONE)


def encode_matrix(values: NDArray[Any], name: str) -> Variable:
    """The same of an array (n,) or (n, d), which is not copied where it holds numbers."""
    columns = values[:, None] if values.ndim == 1 else values
    told, d = f"variable {name!r}", columns.shape[1]
    if values.dtype.kind in "fiub" or not d:
        return Variable(name, values if d else np.empty(columns.shape))
    words = [told] if d == 1 else [f"column {j} of {told}" for j in range(d)]
    return side_by_side(name, [encode(columns[:, j], word) for j, word in enumerate(words)])


def side_by_side(
    name: str, parts: Sequence[Variable], labels: tuple[str, ...] | None = None
) -> Variable:
    """Variables in memory as one, which is of floats where one of them is.

    Raises
    ------
    DataError
        Integers would lose digits as floats.
    """
    columns = [part.read(0, part.shape[0]) for part in parts]
    values = np.concatenate(columns, axis=1)
    if values.dtype.kind == "f":
        check_exact(f"variable {name!r}", *columns)
    return Variable(
        name,
        values,
        kinds=tuple(kind for part in parts for kind in kinds_of(part)),
        labels=labels,
        categories=tuple(c for part in parts for c in part.categories or (None,) * part.shape[1]),
    )


def check_whole(values: Any, numbers: NDArray[Any], data_name: str) -> None:
    """Refuse Python's integers, among other values, that lost digits when they became floats.

    Raises
    ------
    DataError
        Integers are beyond 2**53.
    """
    if numbers.dtype.kind != "f":
        return
    # Few, if any: so that not every value is looked at by Python. The largest is one, which the
    # next integer has become.
    large = np.abs(numbers) >= LARGEST_EXACT
    if large.any():
        objects = np.empty(numbers.shape, object)
        objects[...] = values
        if any(isinstance(v, Integral) and abs(int(v)) > LARGEST_EXACT for v in objects[large]):
            msg = f"{data_name} has {INEXACT}"
            raise DataError(msg)


def _kind_of_labels(kind: type) -> str | None:
    """Labels of the values of a type; None of those that say that one is missing."""
    if kind is type(None) or kind.__name__ in _MISSING_TYPES:
        return None
    if issubclass(kind, bool | np.bool_):
        return "boolean"
    if issubclass(kind, np.timedelta64):  # a whole number to Python
        return "other"
    if issubclass(kind, Real | Decimal):
        return "number"
    return "text" if issubclass(kind, str | bytes) else "other"


def codes_of_labels(values: Sequence[Any]) -> tuple[NDArray[np.int32], list[Any]]:
    """Codes of labels as they first appear, -1 where one is missing, and what they stand for."""
    labels = [value for value in dict.fromkeys(values) if not _is_missing(value)]
    # What is missing, NaN among it, keeps the code -1.
    codes = dict.fromkeys(values, -1)
    codes.update(zip(labels, range(len(labels)), strict=True))
    return np.fromiter(map(codes.__getitem__, values), np.int32, len(values)), labels


def check_repeated(
    counts: Any, labels: Sequence[Any], data_name: str, most_alone: float = _ALONE
) -> None:
    """Refuse labels that a kernel of equal labels sees next to nothing of.

    Parameters
    ----------
    counts : sequence of int
        Rows of every label.
    labels : sequence
        The labels.
    data_name : str
        Name in messages.
    most_alone : float, optional
        The largest share of rows with a label of their own; 1 of what was called a category, in
        which two rows are to be alike.

    Raises
    ------
    DataError
        More rows have a label of their own, as numbers with units, dates and names have.
    """
    rows, single = int(np.sum(counts)), np.flatnonzero(np.asarray(counts) == 1)
    if rows <= _ROWS_OF_NAMES or (len(single) < rows and len(single) <= most_alone * rows):
        return
    where = f"a label of its own in {len(single):,} of {rows:,} rows"
    where = "another label in every row" if len(single) == rows else where
    some = ", ".join(repr(labels[at]) for at in single[:3])
    msg = (
        f"{data_name} has {where}, so it names rows or quantities, as {some}: leave it out, or "
        "make numbers of it, as by pandas.to_numeric without units or 'dhsic convert table' "
        "--numeric"
    )
    if most_alone < 1.0 and len(single) < rows:
        msg += "; or tell that it is a category, by .astype('category') of pandas or --categorical"
    if (errors := _rare.get()) is None:
        raise DataError(msg)
    errors.append(DataError(msg))


def written_numbers(labels: Sequence[Any]) -> tuple[list[str], list[Any]]:
    """Numbers among labels most of which are numbers, which have distances, and other labels.

    None of labels that are labels.
    """
    # The first labels tell enough: columns of text may have millions.
    seen = labels[:_LABELS_SEEN]
    numbers = [label for label in seen if isinstance(label, str) and is_number(label)]
    others = [label for label in seen if label not in numbers]
    written = [label for label in numbers if not _WHOLE.fullmatch(label)]
    share = len(numbers) / max(len(seen), 1)
    if share >= 0.5 if written else share > 0.5 and others:
        return written or numbers, others
    quantities = [str(label) for label in seen if _QUANTITY.search(str(label))]
    units = {re.sub(r"[\d\W]", "", label) for label in quantities}
    few = len(quantities) <= max(_QUANTITIES, len(seen) / 2, 4 * len(units))
    return [] if few else quantities, []


def _refusal(values: list[Any], data_name: str) -> DataError:
    """Error of values that are neither numbers nor labels."""
    there = [(row, value) for row, value in enumerate(values) if not _is_missing(value)]
    for _, value in there:
        is_time = isinstance(value, _TIMES) or type(value).__name__ == "Period"
        if is_time or isinstance(value, complex):
            got = f"{type(value).__name__}: {_REMEDIES['M' if is_time else 'c']}"
            return DataError(f"{data_name} must hold real numbers, got {got}")
    texts = [(row, value) for row, value in there if isinstance(value, str | bytes)]
    if texts and any(_kind_of_labels(type(value)) == "number" for _, value in there):
        return DataError(
            f"{data_name} holds text beside numbers, first {texts[0][1]!r} in row {texts[0][0]}: "
            "make all of them numbers, as by pandas.to_numeric, or all text, for categories"
        )
    kinds = ", ".join(sorted({type(value).__name__ for _, value in there}))
    what = f"must hold numbers or labels, got values of type {kinds}"
    return DataError(f"{data_name} {what}: convert it")


def _is_missing(value: Any) -> bool:
    """None, NaN, and the marks of pandas for values and times."""
    if value is None or type(value).__name__ in _MISSING_TYPES:
        return True
    # NaN alone differs from itself.
    return isinstance(value, float | Decimal | np.floating) and value != value


# --- data frames of every library, a column at a time, by narwhals

_WIDE = ("Int128", "UInt128")  # which NumPy has not


def as_frame(x: Any) -> Any:
    """A data frame or series of narwhals, or None where x is no such thing.

    Raises
    ------
    DataError
        It is not computed yet, or two of its columns have the same name.
    """
    if isinstance(x, np.ndarray | str | bytes | list | tuple | dict | range):
        return None
    import narwhals as nw  # a tenth of a second, and arrays do without

    arrow = sys.modules.get("pyarrow")
    if arrow is not None and isinstance(x, arrow.RecordBatch):
        x = arrow.Table.from_batches([x])
    elif arrow is not None and isinstance(x, arrow.Array):
        x = arrow.chunked_array([x])
    if arrow is not None and isinstance(x, arrow.Table):
        names_of_columns(x.schema.names)  # a name that is there twice is refused
        x = x.drop_columns(index_of_pandas(x.schema, named=False))
        for at in map(x.schema.get_field_index, categories_of_pandas(x.schema)):
            x = x.set_column(at, x.schema.names[at], x.column(at).dictionary_encode())
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(x, pandas.DataFrame):
        # Names may be numbers or tuples, which narwhals does not select by.
        x = x.set_axis(names_of_columns(x.columns), axis=1)
    frame = nw.from_native(x, pass_through=True, allow_series=True)
    if isinstance(frame, nw.LazyFrame):
        msg = f"a {type(x).__name__} is not computed yet: call .collect() on it first"
        raise DataError(msg)
    return frame if isinstance(frame, nw.DataFrame | nw.Series) else None


def names_of_columns(keys: Iterable[Any]) -> list[str]:
    """Name columns by text.

    Raises
    ------
    DataError
        Two have the same name as text, as 1 and "1".
    """
    names = list(map(str, keys))
    if len(set(names)) < len(names):
        msg = f"columns must have different names as text, got {shown(list(keys))}: rename them"
        raise DataError(msg)
    return names


def categories_of_pandas(schema: Any) -> list[str]:
    """Columns of Arrow that were categories to pandas; Parquet keeps those of text alone."""
    told = (schema.pandas_metadata or {}).get("columns", ())
    names = [one.get("field_name") for one in told if one.get("pandas_type") == "categorical"]
    return [name for name in names if schema.names.count(name) == 1]


def index_of_pandas(schema: Any, *, named: bool = True) -> list[str]:
    """Columns of Arrow that hold the labels of rows of pandas; those with a name of their own too.

    Labels that pandas only counts may be of the rows of another table, and are not among them.
    """
    told = (schema.pandas_metadata or {}).get("index_columns", ())
    names = [name for name in told if isinstance(name, str) and schema.names.count(name) == 1]
    if named:  # some levels of several, as a choice of columns leaves them, are no labels of rows
        return names if len(names) == len(told) else []
    return [name for name in names if name.startswith("__index_level_")]


def frame_source(frame: Any, name: str) -> Variable:
    """A data frame or series of narwhals as a variable.

    Columns of one numeric type are not copied where their library has them as one array.

    Raises
    ------
    DataError
        A column holds neither numbers nor labels.
    """
    data_name = f"variable {name!r}"
    if not hasattr(frame, "columns"):
        own = None if frame.name in (None, "") else (str(frame.name),)
        return replace(_encoded_column(frame, data_name), name=name, labels=own)
    labels = tuple(map(str, frame.columns))
    if not labels:
        return Variable(name, np.empty((len(frame), 0)))
    types = list(frame.schema.values())
    if len(set(map(str, types))) == 1 and types[0].is_numeric() and str(types[0]) not in _WIDE:
        values = frame.to_numpy()
        if values.dtype.kind in "fiu":
            for column in frame.iter_columns():
                _check_digits(column, values, data_name)
            return Variable(name, values, labels=labels)
    words = [f"column {label!r} of {data_name}" for label in labels]
    words = [data_name] if len(labels) == 1 else words
    return side_by_side(name, [*map(_encoded_column, frame.iter_columns(), words)], labels)


def list_of_columns(variable: Any, known: Container[str] = ()) -> list[Any]:
    """The names of several columns that make one variable: text, or what known columns have.

    Raises
    ------
    InvalidArgumentError
        It is no list of names.
    """
    listed = isinstance(variable, Sequence) and len(variable)
    if not listed or not all(isinstance(x, str | int | tuple) or str(x) in known for x in variable):
        msg = (
            "with data=, a variable must be the name of a column or a list of names, got "
            f"{shown(variable)}: leave out data= to pass arrays"
        )
        raise InvalidArgumentError(msg)
    return list(variable)


def unknown_column(name: Any, known: Sequence[str]) -> InvalidArgumentError:
    """The error of a name that the data do not have."""
    return InvalidArgumentError(
        f"the data have no column {name!r}; there are: {', '.join(known) or 'none'}"
        f"{nearest(str(name), known)}"
    )


def _encoded_column(column: Any, data_name: str) -> Variable:
    import narwhals as nw

    native = column.to_native()
    arrow = sys.modules.get("pyarrow")
    if arrow is not None and isinstance(native, arrow.ChunkedArray):
        types, is_text = arrow.types, column.dtype == nw.String
        is_plain = types.is_string(native.type) or types.is_large_string(native.type)
        coded = native.dictionary_encode() if is_plain else native
        if types.is_dictionary(coded.type):
            # Every chunk of a column may have a dictionary of its own.
            coded = coded.unify_dictionaries().combine_chunks()
            # -1 where one is missing.
            codes = coded.indices.cast("int64").fill_null(-1).to_numpy(zero_copy_only=False)
            labels = coded.dictionary.to_pylist()
            return (encode_text if is_text else encode_codes)(codes, labels, data_name)
    if column.dtype in (nw.Categorical, nw.Enum):
        codes = getattr(getattr(native, "cat", None), "codes", None)  # of pandas, ready made
        if codes is None:
            return encode_codes(*codes_of_labels(column.to_list()), data_name)
        return encode_codes(codes.to_numpy(), native.cat.categories, data_name)
    # Lists and structures of several values, and types that Arrow stores as another.
    held = getattr(native, "type", column.dtype)
    unknown = str(held) in _WIDE or hasattr(held, "extension_name")
    if unknown or (values := column.to_numpy()).ndim > 1:
        msg = (
            f"{data_name} must have one number or label a row, got {held}: make a column of each "
            "part, or numbers of 64 bits or text of it"
        )
        raise DataError(msg)
    _check_digits(column, values, data_name)
    return encode(values, data_name)


def _check_digits(column: Any, values: NDArray[Any], data_name: str) -> None:
    """Refuse integers that became floats, since some are missing, and lost digits so."""
    if values.dtype.kind == "f" and column.dtype.is_integer():
        check_exact(data_name, column.drop_nulls().to_numpy())
