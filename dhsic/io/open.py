"""Open whatever holds rows as a variable."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from dhsic._validation import nearest
from dhsic.errors import DataError, DhsicError, InvalidArgumentError
from dhsic.io.sources import ArraySource, Columns, GraphSource, StoredSource
from dhsic.io.urls import is_url, scheme_of

__all__ = [
    "AnySource",
    "open_group",
    "open_group_samples",
    "open_samples",
    "open_variables",
    "parse_variable",
]

AnySource = ArraySource | StoredSource | GraphSource
Opened = TypeVar("Opened", ArraySource, StoredSource, GraphSource)

_REMEDIES = {
    "c": "use its real and imaginary parts as columns",
    "M": "turn times into numbers, as days since the first",
    "m": "turn durations into numbers, as seconds",
    "V": "choose one of its fields",
}
_VARIABLE = re.compile(r"^(?:(?P<name>[^=\[\]]+)=)?(?P<array>[^=\[\]]+)(?:\[(?P<columns>.*)\])?$")


def open_variables(data: Sequence[Any], names: Sequence[str] | None = None) -> list[AnySource]:
    """Open variables that are aligned row by row.

    Parameters
    ----------
    data : sequence of array-like
        NumPy, Dask or zarr arrays, zarr paths or URLs (s3, gs, az, https and others of fsspec),
        xarray, pandas or Dask dataframe objects, HDF5 data sets, memory maps; of shape (n,) or
        (n, d). Every process opens a URL by itself, with the credentials that it finds.
    names : sequence of str, optional
        Names for messages and results; x1, x2, ... where not given.

    Returns
    -------
    list of source

    Raises
    ------
    InvalidArgumentError
        Fewer than two variables, or names that do not fit.
    DataError
        Objects, complex numbers or text instead of numbers; other than one or two dimensions;
        no rows; unequal lengths.
    """
    if len(data) < 2:
        msg = f"an independence test needs at least two variables, got {len(data)}"
        raise InvalidArgumentError(msg)
    given = _checked_names(data, names, "variable")
    _check_indexes(data)
    return _aligned([_open(x, name) for x, name in zip(data, given, strict=True)])


def open_samples(data: Sequence[Any], names: Sequence[str] | None = None) -> list[AnySource]:
    """Open samples of the same columns, one or more, whose rows need not be equally many.

    Parameters
    ----------
    data : sequence of array-like
        As for `open_variables`.
    names : sequence of str, optional
        As for `open_variables`.

    Returns
    -------
    list of source

    Raises
    ------
    InvalidArgumentError
        Names that do not fit.
    DataError
        As for `open_variables`; or unequal columns, or categories beside numbers.
    """
    pairs = zip(data, _checked_names(data, names, "sample"), strict=True)
    sources = [_open(x, name) for x, name in pairs]
    if len({(source.shape[1], source.categorical) for source in sources}) > 1:
        kinds = ", ".join(
            f"{s.name!r} {s.shape[1]} of {'categories' if s.categorical else 'numbers'}"
            for s in sources
        )
        msg = f"samples must have the same columns, got {kinds}: compare the columns they share"
        raise DataError(msg)
    return sources


def open_group(path: str, variables: Sequence[str]) -> list[AnySource]:
    """Open variables of a zarr group.

    Parameters
    ----------
    path : str
        Path or URL of the group; a URL holds no credentials.
    variables : sequence of str
        Each ``array``, ``array[columns]`` or ``name=array[columns]``, where columns are written
        as in Python: ``0:10``, ``3``, ``0,2,5``; a leading ``:,`` for the rows may be there.

    Returns
    -------
    list of source

    Raises
    ------
    InvalidArgumentError
        A variable cannot be read or is not in the group.
    DataError
        There is no zarr group, its store does not give it, or see `open_variables`.
    MissingDependencyError
        What reads the URL is not installed.
    """
    opened = _members(path, variables)
    names = [source.name for source in opened]
    if len(opened) < 2 or len(set(names)) != len(names):
        msg = f"a test needs two or more variables of different names, got {names!r}"
        raise InvalidArgumentError(msg)
    return _aligned(opened)


def open_group_samples(path: str, samples: Sequence[str]) -> list[AnySource]:
    """Open samples in a zarr group, as `open_group` variables, and `open_samples` the samples."""
    return open_samples(_members(path, samples))


def _members(path: str, variables: Sequence[str]) -> list[AnySource]:
    """Arrays of a group, or columns of them."""
    group = _open_stored(path, "group")
    opened: list[AnySource] = []
    for text in variables:
        name, key, chosen = parse_variable(text)
        array = _member(group, key, text, path)
        columns = None if chosen is None else _resolve(chosen, array, text)
        opened.append(_stored(array, name, columns))
    return opened


def parse_variable(text: str) -> tuple[str, str, slice | list[int] | None]:
    """Split ``name=array[columns]`` into its parts.

    Examples
    --------
    >>> parse_variable("timbre=features[:, 0:12]")
    ('timbre', 'features', slice(0, 12, None))
    >>> parse_variable("year")
    ('year', 'year', None)
    """
    match = _VARIABLE.match(text.strip())
    if match is None:
        msg = f"a variable is array, array[columns] or name=array[columns], got {text!r}"
        raise InvalidArgumentError(msg)
    array = match["array"].strip()
    label = array if match["columns"] is None else f"{array}[{match['columns'].strip()}]"
    name = (match["name"] or label).strip()
    return name, array, _parse_columns(match["columns"], text)


def _checked_names(data: Sequence[Any], names: Sequence[str] | None, what: str) -> list[str]:
    """The names that were given, or x1, x2, ..., all different."""
    if names is not None and (isinstance(names, str) or not isinstance(names, Sequence)):
        msg = f"names must be a sequence of words, one a {what}, got {names!r}"
        raise InvalidArgumentError(msg)
    given = _names(data) if names is None else list(names)
    words = {name for name in given if isinstance(name, str)}
    if not len(words) == len(given) == len(data):
        msg = f"names must be {len(data)} different words, one a {what}, got {given!r}"
        raise InvalidArgumentError(msg)
    return given


def _names(data: Sequence[Any]) -> list[str]:
    return [
        x.name if isinstance(x, AnySource) else f"x{number}" for number, x in enumerate(data, 1)
    ]


def _check_indexes(data: Sequence[Any]) -> None:
    """Refuse pandas objects whose rows are paired otherwise than by position."""
    frames = [x for x in data if _is(x, "pandas", "DataFrame") or _is(x, "pandas", "Series")]
    if any(not x.index.equals(frames[0].index) for x in frames[1:]):
        msg = (
            "pandas variables must have the same index, since rows are paired by position: align "
            "them, or call .reset_index(drop=True) on each if positions are right"
        )
        raise DataError(msg)


def _resolve(chosen: slice | list[int], array: Any, variable: str) -> Columns:
    """Column numbers of a choice, all within the array."""
    d = 1 if array.ndim < 2 else int(array.shape[1])
    try:
        columns = tuple(np.arange(d)[chosen].tolist())
    except (IndexError, ValueError):
        columns = ()
    beyond = isinstance(chosen, slice) and max(chosen.start or 0, chosen.stop or 0) > d
    if not columns or beyond or len(set(columns)) < len(columns):
        msg = (
            f"variable {variable!r} must choose columns of the {d} of the array, each once; "
            f"got {chosen}"
        )
        raise InvalidArgumentError(msg)
    return columns


def _parse_columns(text: str | None, variable: str) -> slice | list[int] | None:
    if text is None:
        return None
    text = re.sub(r"^\s*:\s*,", "", text).strip()
    try:
        if ":" in text:
            parts = [int(part) if part.strip() else None for part in text.split(":")]
            return slice(*parts)
        return [int(part) for part in text.split(",")]
    except (TypeError, ValueError):
        msg = f"columns are written as 0:10, 3 or 0,2,5, got [{text}] in {variable!r}"
        raise InvalidArgumentError(msg) from None


def _open(x: Any, name: str) -> AnySource:
    if isinstance(x, AnySource):
        return replace(x, name=name)
    if isinstance(x, (str, bytes)) or hasattr(x, "__fspath__"):
        return _stored(_open_stored(os.fsdecode(x), "array"), name)
    if _is(x, "zarr", "Array"):
        return _stored(x, name)
    if _is(x, "dask.dataframe", "DataFrame") or _is(x, "dask.dataframe", "Series"):
        x = x.to_dask_array(lengths=True)
    if _is(x, "pandas", "DataFrame") or _is(x, "pandas", "Series"):
        return _frame(x, name)
    if _is(x, "xarray", "DataArray"):
        if x.chunks is None and not isinstance(x.variable._data, np.ndarray):
            return _checked(StoredSource(name, x.variable, None), x)
        x = x.data
    if _is(x, "dask.array", "Array"):
        return _graph(x, name)
    if isinstance(x, (list, tuple)):
        x = _listed(x, name)
    if isinstance(x, np.ndarray):
        if np.ma.is_masked(x):
            msg = f"variable {name!r} has masked values: drop or fill such rows"
            raise DataError(msg)
        return _checked(ArraySource(name, x), x)
    if hasattr(x, "shape") and isinstance(getattr(x, "dtype", None), np.dtype):
        chunks = getattr(x, "chunks", None)
        return _checked(StoredSource(name, x, int(chunks[0]) if chunks else None), x)
    msg = (
        f"variable {name!r} must be a NumPy, Dask, zarr, xarray, pandas or Dask dataframe object "
        f"or the path of a zarr array, got {type(x).__name__}"
    )
    raise DataError(msg)


def _is(x: Any, module: str, cls: str) -> bool:
    """Whether x is of a class of a library that need not be installed."""
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(x, getattr(loaded, cls, ()))


def _listed(x: Sequence[Any], name: str) -> NDArray[Any]:
    try:
        return np.asarray(x)
    except ValueError as error:
        msg = f"variable {name!r} must have shape (n,) or (n, d), got rows of different lengths"
        raise DataError(msg) from error


def _open_stored(path: str, kind: Literal["array", "group"]) -> Any:
    """Open a zarr array or group at a path or URL."""
    import zarr  # slow to import, and arrays in memory do without

    opener = zarr.open_array if kind == "array" else zarr.open_group
    if not is_url(path):
        return _opened(opener, path, kind, None)
    from dhsic.io.storage import RemoteStore  # by zarr

    store = RemoteStore(path)
    try:
        # Format by format, since a store may refuse to say that the names of the other are absent.
        return _opened(opener, store, kind, 3)
    except FileNotFoundError:
        return _opened(opener, store, kind, 2)


def _opened(opener: Callable[..., Any], place: Any, kind: str, zarr_format: int | None) -> Any:
    try:
        return opener(place, mode="r", zarr_format=zarr_format)
    except DhsicError:
        raise
    except Exception as error:
        if zarr_format == 3 and isinstance(error, FileNotFoundError):
            raise
        msg = (
            f"{str(place)!r} is not a readable zarr {kind} ({type(error).__name__}): check the path"
        )
        raise DataError(msg) from error


def _member(group: Any, key: str, variable: str, path: str) -> Any:
    """An array of a group; names are listed only where it is not there, since https lists none."""
    try:
        array = group[key]
    except KeyError:
        array = None
    if _is(array, "zarr", "Array"):
        return array
    known = sorted(name for name, _ in group.arrays())
    msg = (
        f"variable {variable!r} needs an array {key!r} in {path!r}; there are: "
        f"{', '.join(known) or 'none'}{nearest(key, known)}"
    )
    raise InvalidArgumentError(msg)


def _stored(array: Any, name: str, columns: Columns = None) -> StoredSource:
    stored = getattr(array, "shards", None) or array.chunks
    source = StoredSource(
        name,
        array,
        int(stored[0]) if stored else None,
        columns,
        categorical=array.attrs.get("kind") == "categorical",
        place="memory" if _in_memory(array.store) else "storage",
    )
    return _checked(source, array)


def _in_memory(store: Any) -> bool:
    """Whether no other process sees what is stored."""
    import zarr

    from dhsic.io.storage import RemoteStore

    if isinstance(store, RemoteStore):
        return scheme_of(store.url) == "memory"
    return isinstance(store, zarr.storage.MemoryStore)


def _frame(x: Any, name: str) -> ArraySource:
    import pandas as pd

    columns = [x] if isinstance(x, pd.Series) else [x.iloc[:, j] for j in range(x.shape[1])]
    labels = [isinstance(c.dtype, pd.CategoricalDtype) for c in columns]
    if any(labels):
        if not all(labels):
            msg = f"variable {name!r} mixes categories and numbers: make two variables of it"
            raise DataError(msg)
        if any((c.cat.codes < 0).any() for c in columns):
            msg = f"variable {name!r} has missing categories: drop or fill such rows"
            raise DataError(msg)
        codes = np.column_stack([c.cat.codes for c in columns])
        return _checked(ArraySource(name, codes, categorical=True), codes)
    array = x.to_numpy()
    if array.dtype == object and all(pd.api.types.is_numeric_dtype(c.dtype) for c in columns):
        array = x.to_numpy(dtype=np.float64, na_value=np.nan)
    return _checked(ArraySource(name, array), array)


def _graph(x: Any, name: str) -> GraphSource:
    if any(np.isnan(size) for size in x.shape):
        msg = f"variable {name!r} has unknown chunk sizes: call .compute_chunk_sizes() on it first"
        raise DataError(msg)
    return _checked(GraphSource(name, x[:, None] if x.ndim == 1 else x), x)


def _checked(source: Opened, array: Any) -> Opened:
    if array.ndim not in (1, 2):
        msg = f"variable {source.name!r} must have shape (n,) or (n, d), got {tuple(array.shape)}"
        raise DataError(msg)
    kind = np.dtype(array.dtype).kind
    if kind not in "fiub":
        remedy = _REMEDIES.get(kind, "encode categories as integers")
        msg = f"variable {source.name!r} must hold real numbers, got {array.dtype}: {remedy}"
        raise DataError(msg)
    n, d = source.shape
    if n == 0 or d == 0:
        msg = f"variable {source.name!r} must have rows and columns, got {n} x {d}"
        raise DataError(msg)
    return source


def _aligned(sources: Sequence[AnySource]) -> list[AnySource]:
    if len({source.shape[0] for source in sources}) > 1:
        lengths = ", ".join(f"{source.name!r} {source.shape[0]}" for source in sources)
        msg = f"variables must have the same rows, one observation each; got {lengths}"
        raise DataError(msg)
    return list(sources)
