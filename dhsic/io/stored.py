"""Arrays in zarr stores, as variables."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from dhsic._files import check_regular
from dhsic._validation import nearest, shown
from dhsic.engine.blocks import ValueKind
from dhsic.errors import DataError, DhsicError, InvalidArgumentError
from dhsic.io.chunks import METADATA, piece_shape
from dhsic.io.marks import marks_of
from dhsic.io.urls import is_url
from dhsic.io.variables import ColumnChoice, Variable

# Damaged metadata may hold any number; sizes are multiplied in 64 bits.
_MOST_ROWS = 2**62


def open_stored(path: str, kind: Literal["array", "group"], *, fills: bool = False) -> Any:
    """Open a zarr array or group at a path or URL; `fills` as of `dhsic.io.storage.RemoteStore`.

    Raises
    ------
    DataError
        There is none.
    """
    import zarr  # slow to import, and arrays in memory do without

    opener = zarr.open_array if kind == "array" else zarr.open_group
    if not is_url(path):
        check_metadata(path)
        # A disk lists the arrays, and consolidated metadata may be older than they are.
        opener = opener if kind == "array" else partial(opener, use_consolidated=False)
        return _opened_array(opener, path, kind, None)
    from dhsic.io.storage import RemoteStore  # by zarr

    store = RemoteStore(path, fills=fills)
    try:
        # Format by format, since a store may refuse to say that the names of the other are absent.
        return _opened_array(opener, store, kind, 3)
    except DataError as error:
        if not isinstance(error.__cause__, FileNotFoundError):
            raise
        return _opened_array(opener, store, kind, 2)


def _opened_array(
    opener: Callable[..., Any], place: Any, kind: str, zarr_format: int | None
) -> Any:
    try:
        return opener(place, mode="r", zarr_format=zarr_format)
    except DhsicError:
        raise
    except Exception as error:
        if isinstance(place, str) and os.path.isfile(place):
            msg = (
                f"{place!r} is no zarr {kind}, and its name is not that of a table: give a CSV "
                "(.csv, .tsv) or Parquet (.parquet, .pq) file, or read it in Python, by pandas for "
                "instance, and pass what it holds"
            )
            raise DataError(msg) from error
        msg = (
            f"{str(place)!r} is not a readable zarr {kind} ({type(error).__name__}): check the path"
        )
        raise DataError(msg) from error


def member_of(group: Any, key: str, variable: str, path: str) -> Any:
    """An array of a group; names are listed only where it is not there, since https lists none.

    Raises
    ------
    InvalidArgumentError
        It is not there.
    """
    import zarr

    root = getattr(group.store, "root", None)  # of a store on a disk
    if root is not None:
        check_metadata(os.path.join(root, group.path, key))
    try:
        array = group[key]
    except KeyError:
        array = None
    except DhsicError:
        raise
    except Exception as error:
        raise _damaged(key, path, error) from error
    if isinstance(array, zarr.Array):
        return array
    try:
        known = sorted(name for name, _ in group.arrays())
    except Exception as error:
        raise _damaged(key, path, error) from error
    parts = [part.strip() for part in key.split(",")]
    if len(parts) > 1 and set(parts) <= set(known):
        msg = (
            f"variable {variable!r} must be one array of {path!r}, or columns of one, got "
            f"{len(parts)} arrays: give each as a variable, or store them as one array (n, d)"
        )
        raise InvalidArgumentError(msg)
    msg = (
        f"variable {variable!r} needs an array {key!r} in {path!r}; there are: "
        f"{', '.join(known) or 'none'}{nearest(key, known)}"
    )
    raise InvalidArgumentError(msg)


def _damaged(key: str, path: str, error: Exception) -> DataError:
    reason = " ".join(str(error).split())[:200]
    return DataError(
        f"the metadata of {key!r} in {path!r} cannot be read ({type(error).__name__}: {reason}): "
        "write it again, or take an intact copy of the data"
    )


def check_metadata(folder: str | os.PathLike[str]) -> None:
    """Refuse a group or an array on a disk whose metadata are a pipe, for which zarr would wait.

    Raises
    ------
    DataError
        They are.
    """
    for name in METADATA:
        path = os.path.join(folder, name)
        if os.path.exists(path):
            try:
                check_regular(path)
            except OSError as error:
                msg = f"{path!r} cannot be read ({error.strerror}): take an intact copy of the data"
                raise DataError(msg) from error


def stored_source(array: Any, name: str, columns: ColumnChoice = None) -> Variable:
    """An array of zarr, with the kinds and names of its columns where its attributes say them.

    Raises
    ------
    DataError
        Its metadata have chunks that no data have.
    """
    import zarr

    # Its own metadata: those that a group or an open array has may be older.
    array = _opened_array(zarr.open_array, array.store_path, "array", array.metadata.zarr_format)
    if not all(0 < size <= _MOST_ROWS for size in (*(array.shards or ()), *array.chunks)):
        msg = (
            f"the metadata of variable {name!r} must have chunks of 1 row and column or more, got "
            f"{shown(tuple(array.chunks))}: write it again, or take an intact copy of the data"
        )
        raise DataError(msg)
    stored = piece_shape(array)
    d = 1 if array.ndim < 2 else int(array.shape[1])
    chosen = range(d) if columns is None else columns
    labels = column_labels(array)
    known = array.attrs.get("categories")
    categories = (
        [known.get(label) for label in labels] if labels and isinstance(known, dict) else None
    )
    return Variable(
        name,
        array,
        int(stored[0]),
        columns,
        kinds=kinds_said(array.attrs, len(chosen)),
        labels=None if labels is None else tuple(labels[j] for j in chosen),
        categories=None
        if categories is None
        else tuple(map(_tuple, (categories[j] for j in chosen))),
        marks=marks_of(array, name),
    )


def kinds_said(attributes: Mapping[str, Any], d: int) -> tuple[ValueKind, ...] | None:
    """Categories where attributes of `dhsic convert` or of climate and forecasts say so."""
    kind: ValueKind = "category"
    said = attributes.get("kind") == "categorical" or "flag_meanings" in attributes
    return (kind,) * d if said else None


def sharing(sources: Sequence[Any]) -> list[Any]:
    """With one object for arrays of zarr that are the same, whose chunks are then decoded once."""
    arrays: list[Any] = []
    shared = []
    for source in sources:
        place = getattr(getattr(source, "array", None), "store_path", None)
        if place is not None:
            same = next((array for array in arrays if array.store_path == place), source.array)
            arrays.append(same)
            source = replace(source, array=same)
        shared.append(source)
    return shared


def column_labels(array: Any) -> list[str] | None:
    """The names of all columns of an array, as `dhsic convert` writes them."""
    d = 1 if array.ndim < 2 else int(array.shape[1])
    labels = array.attrs.get("columns")
    there = isinstance(labels, list) and len(labels) == d == len(set(map(str, labels)))
    return list(map(str, labels)) if there else None


def _tuple(labels: Any) -> tuple[Any, ...] | None:
    return tuple(labels) if isinstance(labels, list) else None
