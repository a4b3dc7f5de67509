"""Summary of a conversion: the data read and written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class WrittenColumn:
    """A column of a table, as it was converted.

    Parameters
    ----------
    name : str
        Name of the column in the table.
    variable : str
        The array that it is a column of.
    type : str
        Its type in the table.
    kind : {"numeric", "categorical"}
        Type of the written column.
    categories : tuple of str
        Its labels in the order of their codes; none of numbers.
    missing : int
        Missing values, in all rows that were read.
    rejected : int
        Values that are text in a column of numbers, and were taken for missing.

    Examples
    --------
    >>> WrittenColumn("wind", "wind", "string", "categorical", ("N", "W"), 3, 0).categories
    ('N', 'W')
    """

    name: str
    variable: str
    type: str
    kind: str
    categories: tuple[str, ...]
    missing: int
    rejected: int


@dataclass(frozen=True)
class WrittenGroup:
    """Data written by a conversion.

    Parameters
    ----------
    path : pathlib.Path or str
        The zarr group; a string where it is a URL.
    rows : int
        Rows of every array in it.
    shapes : mapping of str to (int, int)
        Shape of each array.
    dropped : int
        Rows of the source that were left out because a value was missing.
    columns : tuple of WrittenColumn
        The columns of a table and what became of them.

    Examples
    --------
    >>> written = WrittenGroup(Path("songs.zarr"), 5, {"features": (5, 90), "year": (5, 1)})
    >>> written.rows, written.dropped
    (5, 0)
    """

    path: Path | str
    rows: int
    shapes: Mapping[str, tuple[int, int]]
    dropped: int = 0
    columns: tuple[WrittenColumn, ...] = ()
