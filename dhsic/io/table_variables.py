"""Columns of a CSV or Parquet file as variables, in memory."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dhsic.errors import DataError, InvalidArgumentError
from dhsic.io.forms import AnySource
from dhsic.io.frames import as_frame, frame_source, index_of_pandas
from dhsic.io.libraries import is_of
from dhsic.io.table_source import TableSource, is_parquet, open_table

_ROWS = 65536
_SHARE = 0.5  # of the free memory: the columns are copied once, to lie side by side


def open_table_variables(path: str | os.PathLike[str], variables: Sequence[Any]) -> list[AnySource]:
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
        chosen = columns_by_variable(variables, table.columns)
    columns = list(dict.fromkeys(column for listed in chosen.values() for column in listed))
    for column in columns:
        table.check_column(column)
    table.check_text(columns)
    held = _held(table, columns)
    return [frame_source(as_frame(held.select(listed)), name) for name, listed in chosen.items()]


def table_index(data: Any) -> Any:
    """The labels of the rows of a Parquet file or a table of Arrow, as a table, or None."""
    if not is_parquet(data):
        return data if is_of(data, "pyarrow", "Table", "RecordBatch") else None
    import pyarrow.parquet as pq

    with pq.ParquetFile(data) as file:
        return file.read(index_of_pandas(file.schema_arrow))


def other_columns(path: str | os.PathLike[str], variables: Sequence[str]) -> str:
    """All columns of a table but those of some variables, as `columns_by_variable` reads them.

    Parameters
    ----------
    path : str or path
        A CSV or Parquet file.
    variables : sequence of str
        As for `columns_by_variable`.

    Returns
    -------
    str
        ``features=column,column``.

    Raises
    ------
    InvalidArgumentError
        There are no others, or a variable cannot be read.
    DataError
        The file cannot be read.
    """
    known = open_table(Path(path)).columns
    taken = {name for names in columns_by_variable(variables, known).values() for name in names}
    others = [name for name in known if name not in taken]
    if not others:
        msg = (
            f"{path} must have columns besides {', '.join(sorted(taken))}, got no others: add some"
        )
        raise InvalidArgumentError(msg)
    listed = io.StringIO()
    csv.writer(listed, lineterminator="").writerow(others)
    return f"features={listed.getvalue()}"


def columns_by_variable(
    variables: Sequence[Any], known: Sequence[str] = (), *, named: bool = False
) -> dict[str, list[str]]:
    """Read ``name=column,column`` of every variable; a column alone names itself.

    Parameters
    ----------
    variables : sequence of str, or of sequences of str
        Columns with a comma in their names are quoted as in CSV.
    known : sequence of str, optional
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
        name, columns = (
            _variable_of_text(text, known, named)
            if isinstance(text, str)
            else _joined_variable(text)
        )
        if not name or not columns or not all(columns):
            form = "NAME=COL,COL,..." if named else "[NAME=]COL,COL,..."
            msg = f"--variable must be {form}; got {text!r}: name the columns"
            raise InvalidArgumentError(msg)
        if name in columns_of:
            msg = f"--variable {name!r} is given twice: list all its columns in one"
            raise InvalidArgumentError(msg)
        columns_of[name] = columns
    return columns_of


def _variable_of_text(text: str, known: Sequence[str], named: bool) -> tuple[str, list[str]]:
    # A column may have a comma or an equals sign in its name.
    if text in known:
        return text, [text]
    name, equals, listed = text.partition("=")
    if not (equals or named):
        name = listed = text
    return name.strip(), _split_names(listed)


def _joined_variable(columns: Any) -> tuple[str, list[str]]:
    """Columns of one variable, which is named after them."""
    if isinstance(columns, Sequence) and all(isinstance(column, str) for column in columns):
        return "+".join(columns), list(columns)
    msg = (
        "a variable of a table must be the name of a column or a list of names, got "
        f"{type(columns).__name__}: leave out data= to pass arrays"
    )
    raise InvalidArgumentError(msg)


def _split_names(listed: str) -> list[str]:
    return [column.strip() for column in next(csv.reader([listed], skipinitialspace=True), [])]


def _held(table: TableSource, columns: Sequence[str]) -> Any:
    import pyarrow as pa

    batches = list(_within_memory(table, columns))
    if not sum(batch.num_rows for batch in batches):
        msg = f"{table.path} has no rows: give a table with some"
        raise DataError(msg)
    return pa.Table.from_batches(batches)


def _within_memory(table: TableSource, columns: Sequence[str]) -> Iterator[Any]:
    import psutil

    allowed = _SHARE * psutil.virtual_memory().available
    read = 0
    # Counted as they come: the size of a compressed file says little of that of its rows.
    for batch in table.batches(columns, _ROWS):
        read += batch.nbytes
        if read > allowed:
            msg = (
                f"{table.path} does not fit the memory of this machine: convert it by 'dhsic "
                "convert table', and test the zarr group"
            )
            raise DataError(msg)
        yield batch
