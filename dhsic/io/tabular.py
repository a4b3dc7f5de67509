"""Convert columns of a CSV or Parquet file to a zarr group with one array per variable."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhsic._validation import check_choice, check_path, check_progress, named_arguments, shown
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.io.encode import Notation, check_repeated
from dhsic.io.missing import Missing, check_missing
from dhsic.io.shuffle import shuffled
from dhsic.io.tables import (
    Dialect,
    FieldKind,
    Quotes,
    TableSource,
    are_inexact,
    is_csv,
    numbers_of_text,
    open_table,
    usual_delimiter,
)
from dhsic.io.written import WrittenColumn, WrittenGroup
from dhsic.io.zarr_output import GroupWriter, OnRowsWritten, chunk_rows, new_group

# Labels of more kinds than this hardly repeat, and each is kept in memory.
_MAX_CATEGORIES = 65536

Variables = Mapping[str, Sequence[str]]


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
    file are counted first, by its bytes, and all are there in the end or nothing is. Each variable
    becomes a float64 array (n, d) with one column for each of its d columns; the array's attribute
    ``columns`` lists them. Text, category and true/false columns become codes 0, 1, ... in the
    order in which the labels first appear. An array of such columns has the attributes
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
    given = usual_delimiter(path) if delimiter is None else delimiter
    dialect = Dialect(given, quotes, encoding)
    dialect.check()
    check_progress(progress)
    _check_lists_of_words(na_values=na_values, categorical=categorical, numeric=numeric)
    notation = Notation(thousands, decimal)
    _check_notation(notation, numeric, path)
    table = open_table(path, dialect, na_values, decimal)
    table = table.reading(categorical, numeric, na_values, notation)
    for name, names in variables.items():
        for column in names:
            table.check_column(column, f"variable {name!r}")
    table.check_text(list(dict.fromkeys(c for names in variables.values() for c in names)))
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
                expected_bytes=8 * sum(widths.values()) * table.rows,
                progress=progress,
            )
        for block in blocks:
            writer.append(block)
            if progress is not None:
                progress(writer.rows)
        # Known at the end alone: rows are dropped as they are read.
        encoder.check_rows()
        encoder.describe(writer)
    return replace(writer.summary(encoder.dropped), columns=encoder.columns)


class _Encoder:
    """Turns record batches into row blocks, and remembers the labels it met."""

    def __init__(
        self,
        table: TableSource,
        variables: Variables,
        kinds: Mapping[str, FieldKind],
        missing: Missing,
    ) -> None:
        import pyarrow as pa

        self.dropped = 0
        self._read = 0
        self._table = table
        self._variables = variables
        self._kinds = kinds
        self._missing = missing
        tokens = pa.array(table.na_values, pa.string())
        self._missing_numbers = [x for x in numbers_of_text(tokens, table.notation)[0] if x == x]
        self._columns = list(dict.fromkeys(c for names in variables.values() for c in names))
        categorical = [c for c in self._columns if table.kinds[c] == "categorical"]
        self._codes: dict[str, dict[str, int]] = {column: {} for column in categorical}
        self._counts: dict[str, Counter[str]] = {column: Counter() for column in categorical}
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
                categories=tuple(self._codes.get(column, ())),
                missing=self._missed[column] - self._rejected[column],
                rejected=self._rejected[column],
            )
            for variable, columns in self._variables.items()
            for column in columns
        )

    def blocks(self, rows: int) -> Iterator[dict[str, NDArray[np.float64]]]:
        for batch in self._table.batches(self._columns, rows):
            read = {column: self._readable(batch, column) for column in self._columns}
            kept = self._kept(read, batch.num_rows)
            values = {column: self._values(read[column], column, kept) for column in self._columns}
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
        for column, counted in self._counts.items():
            if self._table.holds_text(column):
                check_repeated([*counted.values()], [*counted], self._where(column))

    def describe(self, writer: GroupWriter) -> None:
        for name, columns in self._variables.items():
            writer.describe(name, columns=list(columns))
            if self._kinds[name] == "categorical":
                labels = {column: list(self._codes[column]) for column in columns}
                writer.describe(name, kind="categorical", categories=labels)

    def _readable(self, batch: Any, column: str) -> Any:
        """The labels of a column as they are, or numbers, NaN where one is missing."""
        array, tokens = batch.column(column), self._table.na_values
        if column in self._codes:
            return _labels_of_arrow(array, tokens, as_text=column in self._table.chosen)
        if column in self._table.chosen:
            texts = array.cast("string")
            values, stray = numbers_of_text(texts, self._table.notation)
            if are_inexact(texts, self._table.notation):
                raise self._table.inexact(column)
            # With missing="drop" a text among numbers counts as missing, and is told as rejected.
            if stray.any() and self._missing == "refuse":
                raise self._table.stray(column)
            self._rejected[column] += int(stray.sum())
        else:
            values = self._numbers(array, column)
        return np.where(np.isin(values, self._missing_numbers), np.nan, values)

    def _kept(self, read: Mapping[str, Any], rows: int) -> NDArray[np.intp]:
        gaps = {column: _missing_in_arrow(values) for column, values in read.items()}
        incomplete = np.any(list(gaps.values()), axis=0)
        if self._missing == "refuse" and incomplete.any():
            row = int(np.argmax(incomplete))
            column = next(column for column, gap in gaps.items() if gap[row])
            msg = (
                f"{self._where(column)} is missing in row {self._read + row:,} (from 0): "
                "leave out such rows with missing='drop', or fill them in first"
            )
            raise DataError(msg)
        self._missed.update({column: int(gap.sum()) for column, gap in gaps.items()})
        return np.flatnonzero(~incomplete)

    def _values(self, read: Any, column: str, kept: NDArray[np.intp]) -> NDArray[np.float64]:
        if column in self._codes:
            return self._coded(read, column, kept)
        values: NDArray[np.float64] = read[kept]
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
        # Rows with a missing label are not among those that are kept.
        local: NDArray[np.intp] = coded.indices.fill_null(0).to_numpy(zero_copy_only=False)[kept]
        # Codes follow the rows that are kept, neither the batch's dictionary nor its size.
        used, first, counts = np.unique(local, return_index=True, return_counts=True)
        codes = self._codes[column]
        translated: NDArray[np.float64] = np.zeros(len(labels))
        for at in np.argsort(first):
            # By their text, since a dictionary of Arrow may hold booleans or numbers.
            label = str(labels[used[at]])
            translated[used[at]] = codes.setdefault(label, len(codes))
            self._counts[column][label] += int(counts[at])
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


def _labels_of_arrow(array: Any, tokens: Sequence[str], *, as_text: bool) -> Any:
    """Labels of Arrow, null where one is a token of a missing value."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if as_text or (tokens and pa.types.is_dictionary(array.type)):
        array = array.cast("string")
    if not tokens or not (pa.types.is_string(array.type) or pa.types.is_large_string(array.type)):
        return array
    gone = pc.is_in(array, value_set=pa.array(tokens, array.type))
    return pc.if_else(gone, pa.scalar(None, array.type), array)


def _missing_in_arrow(values: Any) -> NDArray[np.bool_]:
    if isinstance(values, np.ndarray):
        return np.isnan(values)
    return np.asarray(values.is_null(nan_is_null=True).to_numpy(zero_copy_only=False), np.bool_)


def _check_options(variables: Variables, missing: str) -> None:
    check_missing(missing, pairwise=False)
    if not isinstance(variables, Mapping) or not all(
        isinstance(name_of_variable, str) for name_of_variable in variables
    ):
        got = shown(variables)
        msg = f"variables must be a dictionary, from a name to a list of columns, got {got}"
        raise InvalidArgumentError(msg)
    for name, columns in variables.items():
        if not isinstance(columns, Sequence) or isinstance(columns, str) or not columns:
            msg = f"variable {name!r} needs a list of one or more columns, got {columns!r}"
            raise InvalidArgumentError(msg)
        if not all(isinstance(column, str) for column in columns):
            msg = f"variable {name!r} needs names of columns, got {shown(columns)}"
            raise InvalidArgumentError(msg)
        if repeated := sorted({c for c in columns if list(columns).count(c) > 1}):
            msg = (
                f"variable {name!r} has columns more than once: {', '.join(repeated)}; "
                "name each column once"
            )
            raise InvalidArgumentError(msg)


def _check_notation(notation: Notation, numeric: Sequence[str], path: Path) -> None:
    thousands, decimal = notation
    check_choice("decimal", decimal, (".", ","))
    one = isinstance(thousands, str) and len(thousands) == 1 and thousands not in "0123456789+-eE"
    if thousands is not None and not one:
        msg = f"thousands must be one character between digits such as ',', got {thousands!r}"
        raise InvalidArgumentError(msg)
    if thousands == decimal:
        msg = f"thousands and decimal must differ, got {decimal!r} for both: give both signs"
        raise InvalidArgumentError(msg)
    # The decimal sign of a CSV file is that of all its columns.
    unread = [name for name in notation.signs if name == "thousands" or not is_csv(path)]
    if unread and not numeric:
        msg = (
            f"{unread[0]} is read in the columns of numeric, got none: name them, as "
            "numeric=['price'] (--numeric price)"
        )
        raise InvalidArgumentError(msg)


def _check_lists_of_words(**options: Sequence[str]) -> None:
    for name, words in options.items():
        listed = isinstance(words, Sequence) and not isinstance(words, str)
        if not listed or not all(isinstance(word, str) for word in words):
            msg = f"{name} must be a list of words, got {shown(words)}: put it in brackets"
            raise InvalidArgumentError(msg)


def _variable_kind(table: TableSource, name: str, columns: Sequence[str]) -> FieldKind:
    kinds = {column: table.kinds[column] for column in columns}
    if len(set(kinds.values())) > 1:
        described = ", ".join(f"{column} ({kind})" for column, kind in kinds.items())
        msg = (
            f"variable {name!r} mixes numeric and categorical columns: {described}; "
            "split it into two variables"
        )
        raise InvalidArgumentError(msg)
    return kinds[columns[0]]
