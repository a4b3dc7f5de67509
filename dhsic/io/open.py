"""Open whatever holds rows as a variable."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import zarr
from numpy.typing import NDArray

from dhsic._validation import nearest
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.io.sources import ArraySource, Columns, GraphSource, StoredSource

__all__ = ["AnySource", "open_group", "open_variables", "parse_variable"]

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
        NumPy, Dask or zarr arrays, zarr paths or URLs, xarray, pandas or Dask dataframe objects,
        HDF5 data sets, memory maps; of shape (n,) or (n, d).
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
    if names is not None and (isinstance(names, str) or not isinstance(names, Sequence)):
        msg = f"names must be a sequence of words, one a variable, got {names!r}"
        raise InvalidArgumentError(msg)
    given = _names(data) if names is None else list(names)
    words = {name for name in given if isinstance(name, str)}
    if not len(words) == len(given) == len(data):
        msg = f"names must be {len(data)} different words, one a variable, got {given!r}"
        raise InvalidArgumentError(msg)
    _check_indexes(data)
    return _aligned([_open(x, name) for x, name in zip(data, given, strict=True)])


def open_group(path: str, variables: Sequence[str]) -> list[AnySource]:
    """Open variables of a zarr group.

    Parameters
    ----------
    path : str
        Path or URL of the group.
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
        There is no zarr group, or see `open_variables`.
    """
    try:
        group = zarr.open_group(path, mode="r")
    except Exception as error:
        msg = f"{path!r} is not a readable zarr group ({type(error).__name__}): check the path"
        raise DataError(msg) from error
    known = sorted(name for name, _ in group.arrays())
    opened, names = [], []
    for text in variables:
        name, key, chosen = parse_variable(text)
        if key not in known:
            msg = (
                f"variable {text!r} needs an array {key!r} in {path!r}; there are: "
                f"{', '.join(known) or 'none'}{nearest(key, known)}"
            )
            raise InvalidArgumentError(msg)
        columns = None if chosen is None else _resolve(chosen, group[key], text)
        opened.append(_stored(group[key], name, columns))
        names.append(name)
    if len(opened) < 2 or len(set(names)) != len(names):
        msg = f"a test needs two or more variables of different names, got {names!r}"
        raise InvalidArgumentError(msg)
    return _aligned(opened)


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
        return _stored(_open_array(os.fsdecode(x)), name)
    if isinstance(x, zarr.Array):
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
    return loaded is not None and isinstance(x, getattr(loaded, cls))


def _listed(x: Sequence[Any], name: str) -> NDArray[Any]:
    try:
        return np.asarray(x)
    except ValueError as error:
        msg = f"variable {name!r} must have shape (n,) or (n, d), got rows of different lengths"
        raise DataError(msg) from error


def _open_array(path: str) -> Any:
    try:
        return zarr.open_array(path, mode="r")
    except Exception as error:
        msg = f"{path!r} is not a readable zarr array ({type(error).__name__}): check the path"
        raise DataError(msg) from error


def _stored(array: Any, name: str, columns: Columns = None) -> StoredSource:
    stored = getattr(array, "shards", None) or array.chunks
    source = StoredSource(
        name,
        array,
        int(stored[0]) if stored else None,
        columns,
        categorical=array.attrs.get("kind") == "categorical",
        place="memory" if isinstance(array.store, zarr.storage.MemoryStore) else "storage",
    )
    return _checked(source, array)


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
