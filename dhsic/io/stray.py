"""Text in columns of numbers: which values, and in which lines."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.blocks import LARGEST_EXACT
from dhsic.io.csv_lines import ROW_BYTES, Dialect
from dhsic.io.notation import Notation

_NAMED = 5


def numbers_of_text(
    texts: Any, notation: Notation
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Numbers of Arrow's strings, and which of these are no numbers; null and these are NaN.

    With a comma between thousands, "1,200" is a number as well, and "1,20" is none.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    is_number = pc.match_substring_regex(pc.utf8_trim_whitespace(texts), notation.pattern)
    plain = notation.plain(texts)
    numbers = pc.if_else(is_number, plain, pa.scalar(None, plain.type)).cast("float64")
    stray = pc.fill_null(pc.invert(is_number), False)
    return (
        np.asarray(pc.fill_null(numbers, float("nan")).to_numpy(zero_copy_only=False), np.float64),
        np.asarray(stray.to_numpy(zero_copy_only=False), np.bool_),
    )


def any_large(numbers: Any) -> bool:
    """Whether some numbers of Arrow are so large that floats do not have all integers."""
    # The largest itself among them, which the next one becomes.
    return bool((np.abs(numbers.to_numpy(zero_copy_only=False)) >= LARGEST_EXACT).any())


def are_inexact(texts: Any, notation: Notation) -> bool:
    """Whether some strings of Arrow are integers that lose digits as floats."""
    import pyarrow.compute as pc

    plain = notation.plain(texts)
    long = pc.filter(plain, pc.match_substring_regex(plain, r"^[-+]?\d{16,}$"))
    return any(abs(int(text)) > LARGEST_EXACT for text in long.to_pylist())


def strays_of_csv(
    path: Path, column: str, dialect: Dialect, missing: Iterable[str], notation: Notation
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
            _, stray = numbers_of_text(pa.array(values), notation)
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


def strays_of_text(batches: Iterable[Any], notation: Notation) -> list[tuple[str, str]]:
    """The same of Arrow's strings in batches, after the row of each, as "row 5"."""
    strays: list[tuple[str, str]] = []
    read = 0
    for texts in batches:
        _, stray = numbers_of_text(texts, notation)
        strays += [(f"row {read + j:,}", texts[int(j)].as_py()) for j in np.flatnonzero(stray)]
        if len(strays) >= _NAMED:
            break
        read += len(texts)
    return strays[:_NAMED]


def listed(strays: Sequence[tuple[str, str]]) -> str:
    """Values with their places, for a message."""
    return ", ".join(f"{value!r} in {place}" for place, value in strays)
