"""Rows of a CSV file, counted by its bytes alone: stray quotes and other encodings are refused."""

from __future__ import annotations

import codecs
import gzip
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from dhsic._validation import check_choice, shown
from dhsic.errors import DataError, InvalidArgumentError

Quotes = Literal["checked", "line-breaks", "none"]

ROW_BYTES = 2**24  # the longest row, which the parser of the values holds many times
SEPARATORS = ";\t|"  # that are common besides the comma

_READ_BYTES = 2**18
_NEWLINE, _QUOTE = 10, 34
_BLANKS = re.compile(rb"[ \t]*")
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_SHOWN = 20
_NO_QUOTES = (
    "correct it, or tell 'dhsic convert table' that quotes mean nothing: --quotes none "
    "(quotes='none')"
)
_LINE_BREAKS = ", or that fields hold line breaks: --quotes line-breaks (quotes='line-breaks')"


@dataclass(frozen=True)
class Dialect:
    """How a CSV file is written.

    Parameters
    ----------
    delimiter : str, optional
        The one ASCII character between fields.
    quotes : {"checked", "line-breaks", "none"}, optional
        Whether quotes are checked, or trusted to hold line breaks, or mean nothing.
    encoding : str, optional
        Encoding of the text.
    """

    delimiter: str = ","
    quotes: Quotes = "checked"
    encoding: str = "utf-8"

    def check(self) -> None:
        """Refuse what a file cannot be written in.

        Raises
        ------
        InvalidArgumentError
            One of the three is none of its kind.
        """
        delimiter = self.delimiter
        if (
            not isinstance(delimiter, str)
            or len(delimiter) != 1
            or not delimiter.isascii()
            or delimiter in '"\r\n'
        ):
            msg = f"delimiter must be one character such as ';' or a tab, got {shown(delimiter)}"
            raise InvalidArgumentError(msg)
        check_choice("quotes", self.quotes, get_args(Quotes))
        try:
            codecs.getincrementaldecoder(self.encoding)()
            " ".encode(self.encoding)
        except (LookupError, TypeError, ValueError):
            got = shown(self.encoding)
            msg = f"encoding must name one of text, as 'utf-8' or 'latin-1', got {got}"
            raise InvalidArgumentError(msg) from None

    @property
    def is_utf_8(self) -> bool:
        return codecs.lookup(self.encoding).name in ("utf-8", "utf-8-sig")


@dataclass(frozen=True)
class CsvLines:
    """Rows of a CSV file, counted by its bytes.

    Parameters
    ----------
    dialect : Dialect
        How it is written.
    rows : int
        Rows below the header; empty lines are none.
    row_bytes : int
        Bytes of the longest row.
    line_breaks : bool
        Whether a field holds a line break.
    """

    dialect: Dialect
    rows: int
    row_bytes: int
    line_breaks: bool


def count_csv(path: Path, dialect: Dialect) -> CsvLines:
    """Count the rows of a CSV file without the parser that reads its values.

    A quote opens a field where it begins one, and closes it where a delimiter or the end of the
    line follows, after blanks or without; two together within quotes stand for one; in a field
    that does not begin with one it is a character as others. Refused is what a stray quote does:

    - text between the quote that closes a field and the next delimiter, as where the quote that
      closes it was to open another;
    - a field that no quote closes;
    - a field with line breaks whose first and last lines are whole rows, as many fields as the
      header has, if its quote is a character as others. "line-breaks" takes them for one field.

    Parameters
    ----------
    path : pathlib.Path
        The file, compressed by gzip where its name ends in ``.gz``.
    dialect : Dialect
        How it is written.

    Returns
    -------
    CsvLines

    Raises
    ------
    DataError
        A quote is stray, a line cannot be decoded or a row is longer than 16 MiB, with the line;
        or the file cannot be read.
    """
    counter = _Counter(path, dialect)
    held = b""
    for block in _decoded_blocks(path, dialect):
        held = counter.take(held + block)
    counter.take(held + b"\n", last=True)
    return CsvLines(dialect, max(counter.rows - 1, 0), counter.row_bytes, counter.line_breaks)


def _decoded_blocks(path: Path, dialect: Dialect) -> Iterator[bytes]:
    """The file as UTF-8 with line feeds alone, without its mark of byte order."""
    decoder = codecs.getincrementaldecoder(dialect.encoding)()
    line, carriage, first = 1, b"", True
    for raw in _raw_blocks(path):
        if first and dialect.is_utf_8:
            _check_mark(raw, path)
            # The mark is no part of the first name.
            raw = raw.removeprefix(codecs.BOM_UTF8)
        first = False
        try:
            text = decoder.decode(raw, not raw)
        except UnicodeError as error:
            raise _undecodable(path, line, carriage.decode(), dialect, error) from error
        block = carriage + text.encode("utf-8", "replace")
        # A carriage return at the end may be half of a line break, and waits for the next block.
        carriage = b"\r" if raw and block.endswith(b"\r") else b""
        block = block[: len(block) - len(carriage)]
        if b"\r" in block:
            block = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        line += block.count(b"\n")
        yield block


def _raw_blocks(path: Path) -> Iterator[bytes]:
    """The bytes of a file, then none."""
    opened = gzip.open if path.name.lower().endswith(".gz") else open
    try:
        with opened(path, "rb") as file:
            while block := file.read(_READ_BYTES):
                yield block
    except (OSError, EOFError, zlib.error) as error:
        msg = f"cannot read {path} as a table: {error}"
        raise DataError(msg) from error
    # The end, where the decoder tells of a character that is cut off.
    yield b""


def _check_mark(raw: bytes, path: Path) -> None:
    if raw.startswith(_UTF_16):
        msg = (
            f"{path} must be text in UTF-8, and line 1 begins as UTF-16 does: store it in UTF-8, "
            "or tell 'dhsic convert table' the encoding: --encoding utf-16 (encoding='utf-16')"
        )
        raise DataError(msg)


def _undecodable(
    path: Path, line: int, carriage: str, dialect: Dialect, error: UnicodeError
) -> DataError:
    """The error of bytes that are no text, the first of a block that begins in some line."""
    shown = ""
    if isinstance(error, UnicodeDecodeError):
        start = error.start
        before = carriage + error.object[:start].decode(dialect.encoding, "replace")
        line += before.replace("\r\n", "\n").replace("\r", "\n").count("\n")
        near = error.object[max(start - _SHOWN, 0) : start + _SHOWN].decode("ascii", "replace")
        shown = f", and has the byte 0x{error.object[start]:02x} in {near!r}"
    return DataError(
        f"line {line:,} of {path} must be text in {dialect.encoding}{shown}: store the file in "
        "UTF-8, or tell 'dhsic convert table' the encoding, as --encoding latin-1 "
        "(encoding='latin-1')"
    )


class _Counter:
    """Counts rows, and judges the quotes of each."""

    def __init__(self, path: Path, dialect: Dialect) -> None:
        self.rows = self.row_bytes = 0
        self.line_breaks = False
        self._path = path
        self._dialect = dialect
        self._fields = 0
        self._line = 1
        self._delimiter = ord(dialect.delimiter)
        sign = re.escape(dialect.delimiter.encode())
        quoted = rb'(?:^|(?<=%b))"[^"]*(?:""[^"]*)*"(?=[ \t]*(?:%b|$))' % (sign, sign)
        self._quoted = re.compile(quoted)

    def take(self, held: bytes, *, last: bool = False) -> bytes:
        """Count the whole rows of some bytes, which begin with one; the rest is returned."""
        values = np.frombuffer(held, np.uint8)
        newlines = np.flatnonzero(values == _NEWLINE)
        quotes = self._structural(held, values)
        # A line feed behind an odd number of quotes is within a field, and ends no row.
        within = np.searchsorted(quotes, newlines) % 2 == 1
        ends = newlines[~within]
        end = int(ends[-1]) + 1 if len(ends) else 0
        if len(ends):
            self._count(held, values, ends, quotes)
        broken = newlines[within & (newlines < end)]
        if len(broken):
            self._judge(held, broken, quotes)
        if last and len(quotes) % 2:
            line = self._line_of(held, int(_openers(quotes)[-1]))
            msg = (
                f"line {line:,} of {self._path} opens a field with a quote that nothing closes: "
                f"{_NO_QUOTES}"
            )
            raise DataError(msg)
        # Behind a quote that nothing closes the whole file would be held.
        if len(held) - end > ROW_BYTES:
            self._refuse_length(held, end, quotes)
        self._line += int(np.searchsorted(newlines, end))
        return held[end:]

    def _count(
        self,
        held: bytes,
        values: NDArray[np.uint8],
        ends: NDArray[np.intp],
        quotes: NDArray[np.intp],
    ) -> None:
        starts = np.concatenate([[0], ends[:-1] + 1])
        full = ends > starts
        self.row_bytes = max(self.row_bytes, int((ends - starts).max()) + 1)
        self.rows += int(full.sum())
        # The header says how many fields a row has; delimiters within quotes do not count.
        if not self._fields and full.any():
            at = int(np.argmax(full))
            header = int(starts[at]), int(ends[at])
            signs = header[0] + np.flatnonzero(values[slice(*header)] == self._delimiter)
            self._fields = 1 + int((np.searchsorted(quotes, signs) % 2 == 0).sum())

    def _structural(self, held: bytes, values: NDArray[np.uint8]) -> NDArray[np.intp]:
        """Places of the quotes that open, close, or stand for one within quotes."""
        if self._dialect.quotes == "none" or b'"' not in held:
            return np.empty(0, np.intp)
        quotes = np.flatnonzero(values == _QUOTE)
        # The byte after the last one is not known yet: a quote there is judged with the rest.
        known = quotes[quotes + 1 < len(values)]
        opens, closes = known[0::2], known[1::2]
        bounds = (_NEWLINE, self._delimiter, _QUOTE)
        # In most files every second quote opens behind a delimiter, and all are judged at once.
        regular = (opens == 0) | np.isin(values[opens - 1], bounds)
        if regular.all() and np.isin(values[closes + 1], bounds).all():
            return quotes
        return self._one_by_one(held, quotes.tolist())

    def _one_by_one(self, held: bytes, quotes: list[int]) -> NDArray[np.intp]:
        """The same where some quotes are characters of fields without quotes, or stray."""
        bounds = (_NEWLINE, self._delimiter)
        kept: list[int] = []
        opener = pair = -1
        for at in quotes:
            if at == pair:
                kept.append(at)
            elif opener < 0:
                if at == 0 or held[at - 1] in bounds:
                    kept.append(at)
                    opener = at
            elif held[at + 1 : at + 2] == b'"':
                kept.append(at)
                pair = at + 1
            else:
                self._check_closes(held, opener, at)
                kept.append(at)
                opener = -1
        return np.asarray(kept, np.intp)

    def _check_closes(self, held: bytes, opener: int, at: int) -> None:
        """Refuse text behind a quote that closes a field."""
        bounds = (_NEWLINE, self._delimiter)
        if at + 1 == len(held) or held[at + 1] in bounds:
            return
        match = _BLANKS.match(held, at + 1)
        behind = at + 1 if match is None else match.end()
        if behind == len(held) or held[behind] in bounds:
            return
        line, opened = self._line_of(held, at), self._line_of(held, opener)
        near = held[max(opener, at - _SHOWN) : at + _SHOWN].decode("utf-8", "replace")
        opening = "" if line == opened else f", which opens in line {opened:,}"
        msg = (
            f"line {line:,} of {self._path} must have a delimiter behind the quote that closes a "
            f"field{opening}, got {near!r}: {_NO_QUOTES}"
        )
        raise DataError(msg)

    def _judge(self, held: bytes, broken: NDArray[np.intp], quotes: NDArray[np.intp]) -> None:
        """Refuse fields with line breaks that look like rows between two stray quotes."""
        self.line_breaks = True
        if self._dialect.quotes == "line-breaks":
            return
        openers, closers = _openers(quotes), _closers(quotes)
        for at in np.unique(np.searchsorted(openers, broken) - 1).tolist():
            opener, closer = int(openers[at]), int(closers[at])
            first = held[held.rfind(b"\n", 0, opener) + 1 : held.find(b"\n", opener)]
            last = held[held.rfind(b"\n", 0, closer) + 1 : held.find(b"\n", closer)]
            if self._is_row(first) and self._is_row(last):
                raise self._swallowed(held, opener, closer, first)

    def _is_row(self, line: bytes) -> bool:
        """Whether a line has all fields by itself; quotes that it does not close mean nothing."""
        bare = self._quoted.sub(b"", line)
        return bare.count(self._dialect.delimiter.encode()) + 1 == self._fields

    def _swallowed(self, held: bytes, opener: int, closer: int, first: bytes) -> DataError:
        start, end = self._line_of(held, opener), self._line_of(held, closer)
        near = held[opener : opener + _SHOWN].split(b"\n")[0].decode("utf-8", "replace")
        return DataError(
            f"line {start:,} of {self._path} opens a field by {near!r} that closes in line "
            f"{end:,}, and each of these lines would be a row of {self._fields} fields by itself: "
            f"the quote looks stray and would make one row of {end - start + 1:,}; {_NO_QUOTES}"
            f"{_LINE_BREAKS}"
        )

    def _refuse_length(self, held: bytes, start: int, quotes: NDArray[np.intp]) -> None:
        line = self._line_of(held, start)
        msg = f"line {line:,} of {self._path} begins a row that is longer than 16 MiB"
        if len(quotes) % 2:
            opened = self._line_of(held, int(_openers(quotes)[-1]))
            msg += f", in the field whose quote opens in line {opened:,}"
        msg += f": {_NO_QUOTES}, or leave its long text out"
        raise DataError(msg)

    def _line_of(self, held: bytes, at: int) -> int:
        return self._line + held.count(b"\n", 0, at)


def _openers(quotes: NDArray[np.intp]) -> NDArray[np.intp]:
    """Those that open a field: of every second quote, the ones that are not half of a pair."""
    second = quotes[0::2]
    # Two together stand for one quote in a field, and open none.
    return second[np.diff(quotes, prepend=-2)[0::2] > 1]


def _closers(quotes: NDArray[np.intp]) -> NDArray[np.intp]:
    second = quotes[1::2]
    return second[np.diff(quotes, append=quotes[-1:] + 2)[1::2] > 1]


def delimiter_hint(text: str, separators: str = SEPARATORS) -> str:
    """Say what to do where fields are not separated as they were taken to be."""
    separator = next((candidate for candidate in separators if candidate in text), None)
    if separator is None:
        return ""
    return (
        f"its fields seem to be separated by {separator!r}: convert it by 'dhsic convert table "
        f"--delimiter' (delimiter={separator!r}), or read it by pandas.read_csv(..., "
        f"sep={separator!r})"
    )
