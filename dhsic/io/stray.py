"""Text in columns of numbers: which values, and in which lines."""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.blocks import LARGEST_EXACT
from dhsic.io.csv_lines import ROW_BYTES, Dialect

__all__ = [
    "any_large",
    "are_inexact",
    "listed",
    "mostly_numbers",
    "numbers_of_text",
    "separator_of",
    "strays_of_csv",
    "strays_of_text",
]

# As Arrow reads a float64; then with thousands separators, a currency sign or a percent sign.
_NUMBER = r"^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$|^[-+]?(?i:nan|inf|infinity)$"
_NEARLY = r"^[-+]?[$€£]?\s?(\d{1,3}([,' ]\d{3})+|\d+)([.,]\d+)?\s?[%€$£]?$"
_GROUPED = re.compile(r"[-+]?\d{1,3}(?:([,' ])\d{3})(?:\1\d{3})*(?:\.\d*)?")
_FRACTION = r"[.,]|\d[eE]"
_NAMED = 5


def numbers_of_text(
    texts: Any, thousands: str | None = None
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Numbers of Arrow's strings, and which of these are no numbers; null and these are NaN.

    With a character between thousands, "1,200" is a number as well, and "1,20" is none.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    trimmed = pc.utf8_trim_whitespace(texts)
    if thousands is not None:
        grouped = rf"^[-+]?\d{{1,3}}({re.escape(thousands)}\d{{3}})+(\.\d*)?$"
        joined = pc.replace_substring(trimmed, thousands, "")
        trimmed = pc.if_else(pc.match_substring_regex(trimmed, grouped), joined, trimmed)
    is_number = pc.match_substring_regex(trimmed, _NUMBER)
    numbers = pc.if_else(is_number, trimmed, pa.scalar(None, trimmed.type)).cast("float64")
    stray = pc.fill_null(pc.invert(is_number), False)
    return (
        np.asarray(pc.fill_null(numbers, float("nan")).to_numpy(zero_copy_only=False), np.float64),
        np.asarray(stray.to_numpy(zero_copy_only=False), np.bool_),
    )


def any_large(numbers: Any) -> bool:
    """Whether some numbers of Arrow are so large that floats do not have all integers."""
    # The largest itself among them, which the next one becomes.
    return bool((np.abs(numbers.to_numpy(zero_copy_only=False)) >= LARGEST_EXACT).any())


def are_inexact(texts: Any) -> bool:
    """Whether some strings of Arrow are integers that lose digits as floats."""
    import pyarrow.compute as pc

    trimmed = pc.utf8_trim_whitespace(texts)
    long = pc.filter(trimmed, pc.match_substring_regex(trimmed, r"^[-+]?\d{16,}$"))
    return any(abs(int(text)) > LARGEST_EXACT for text in long.to_pylist())


def mostly_numbers(texts: Any) -> bool:
    """Whether more than half of some strings are numbers, which labels would not be.

    Strings that are whole numbers without exception are as often labels, and are none.
    """
    import pyarrow.compute as pc

    trimmed = pc.utf8_trim_whitespace(pc.drop_null(texts))
    is_number = pc.match_substring_regex(trimmed, _NUMBER)
    alike = pc.or_(is_number, pc.match_substring_regex(trimmed, _NEARLY))
    # The sum of no values is null to Arrow.
    count, numbers = pc.sum(alike).as_py() or 0, pc.sum(is_number).as_py() or 0
    has_fractions = pc.any(pc.match_substring_regex(pc.filter(trimmed, alike), _FRACTION)).as_py()
    return 2 * count > len(trimmed) and (numbers < len(trimmed) or bool(has_fractions))


def strays_of_csv(
    path: Path, column: str, dialect: Dialect, missing: Iterable[str], thousands: str | None = None
) -> list[tuple[str, str]]:
    """The first values of a column that are no numbers, after the line of each, as "line 7".

    By Python's reader, which tells the line also where quoted values have several.
    """
    import pyarrow as pa

    opened = gzip.open if path.name.lower().endswith(".gz") else open
    skipped = set(missing)
    strays: list[tuple[str, str]] = []
    # A mark at the start of the file would be part of the first column's name.
    encoding = "utf-8-sig" if dialect.is_utf_8 else dialect.encoding
    read: Any = csv.QUOTE_NONE if dialect.quotes == "none" else csv.QUOTE_MINIMAL
    with _long_fields(), opened(path, "rt", encoding=encoding, newline="") as file:
        # Python's reader and not Arrow's, which does not tell the line of a value.
        reader = csv.reader(file, delimiter=dialect.delimiter, quoting=read)
        place = next(reader).index(column)
        for rows in _batches(reader, place, skipped):
            lines, values = zip(*rows, strict=True)
            _, stray = numbers_of_text(pa.array(values), thousands)
            strays += [(f"line {lines[j]:,}", values[j]) for j in np.flatnonzero(stray)]
            if len(strays) >= _NAMED:
                break
    return strays[:_NAMED]


@contextmanager
def _long_fields() -> Iterator[None]:
    """Let Python's reader take fields as long as a row may be."""
    before = csv.field_size_limit(ROW_BYTES)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _batches(
    reader: Any, place: int, skipped: set[str], rows: int = 10_000
) -> Iterator[list[tuple[int, str]]]:
    """Values of a column with their lines, without those that stand for missing ones."""
    some: list[tuple[int, str]] = []
    for fields in reader:
        if place < len(fields) and fields[place] not in skipped:
            some.append((reader.line_num, fields[place]))
        if len(some) == rows:
            yield some
            some = []
    if some:
        yield some


def strays_of_text(batches: Iterable[Any], thousands: str | None = None) -> list[tuple[str, str]]:
    """The same of Arrow's strings in batches, after the row of each, as "row 5"."""
    strays: list[tuple[str, str]] = []
    read = 0
    for texts in batches:
        _, stray = numbers_of_text(texts, thousands)
        strays += [(f"row {read + j:,}", texts[int(j)].as_py()) for j in np.flatnonzero(stray)]
        if len(strays) >= _NAMED:
            break
        read += len(texts)
    return strays[:_NAMED]


def separator_of(strays: Sequence[tuple[str, str]]) -> str | None:
    """The character between the thousands of values that are no numbers, if they have one."""
    grouped = (_GROUPED.fullmatch(value.strip()) for _, value in strays)
    return next((match[1] for match in grouped if match), None)


def listed(strays: Sequence[tuple[str, str]]) -> str:
    """Values with their places, for a message."""
    return ", ".join(f"{value!r} in {place}" for place, value in strays)
