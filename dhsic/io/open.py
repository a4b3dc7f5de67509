"""Open what users have as variables: arrays, frames, files and groups.

Several variables and samples come first, then one variable of any form, then zarr, then names and
columns, and last the labels by which rows of variables belong together.
"""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhsic._validation import check_flag, named_arguments, nearest, shown
from dhsic.engine.passes import Source, ValueKind, check_exact, kinds_of, labels_of
from dhsic.engine.runtime import compute_graphs
from dhsic.errors import DataError, DhsicError, InvalidArgumentError
from dhsic.io.tables import (
    as_frame,
    check_type,
    check_whole,
    encode_matrix,
    frame_source,
    index_of_pandas,
    is_table,
    list_of_columns,
    names_of_columns,
    open_table_variables,
    rare_labels_taken,
    side_by_side,
    table_index,
    unknown_column,
)
from dhsic.io.variables import (
    ColumnChoice,
    Labels,
    Variable,
    check_metadata,
    check_missing,
    holds_columns,
    is_of,
    is_sparse,
    is_zarr,
    marks_of,
    open_stored,
    opened_array,
    unmasked,
    without_missing,
)

_KNOWN = (
    "a NumPy, Dask, zarr, xarray, SciPy sparse or other array, a data frame or a column of one, a "
    "dict of columns, or the path of a zarr array"
)
# Damaged metadata may hold any number; sizes are multiplied in 64 bits.
_MOST_ROWS = 2**62
_SLICE = re.compile(r"(\s*[-+]?\d+\s*|\s*)(:(\s*[-+]?\d+\s*|\s*)){1,2}")
_VARIABLE = re.compile(r"^(?:(?P<name>[^=\[\]]+)=)?(?P<array>[^=\[\]]+)(?:\[(?P<columns>.*)\])?$")


# --- several variables, and samples


def open_variables(
    data: Sequence[Any], names: Sequence[str] | None = None, beside: Sequence[Any] = ()
) -> list[Variable]:
    """Open variables that are aligned row by row.

    Parameters
    ----------
    data : sequence of array-like
        Two or more of shape (n,) or (n, d): NumPy, Dask, zarr and SciPy sparse arrays, what NumPy
        reads by ``__array__`` or DLPack as tensors in the memory of the processor, zarr paths or
        URLs (s3, gs, az, https and others of fsspec), xarray objects, data frames and columns of
        pandas, polars, Arrow, Dask and others that narwhals knows, dictionaries of columns, HDF5
        data sets, memory maps. One alone of several columns stands for its columns. Every process
        opens a URL by itself, with the credentials that it finds.
    names : sequence of str, optional
        Names for messages and results; where not given those that the data have, else x1, x2, ...
    beside : sequence of array-like, optional
        Labels and weights of the same rows, whose index must be that of the variables.

    Returns
    -------
    list of source
        Text, categorical and true/false columns are codes, and their `kinds` say so.

    Raises
    ------
    InvalidArgumentError
        Fewer than two variables, or names that do not fit.
    DataError
        Times, complex numbers or values of several types; other than one or two dimensions; no
        rows; unequal lengths, or labels of rows that differ.
    """
    check_row_labels([*data, *beside])
    if len(data) == 1:
        data, names = _columns_as_variables(data[0], names)
    if len(data) < 2:
        got = len(data)
        msg = f"a test needs at least two variables, got {got}: give another, or several columns"
        raise InvalidArgumentError(msg)
    given = checked_names(data, names, "variable")
    return _aligned([open_one(x, name) for x, name in zip(data, given, strict=True)])


def open_labelled_data(
    variables: Sequence[Any],
    names: Sequence[str] | None,
    data: Any,
    missing: str,
    labels: Mapping[str, Any],
    *,
    pairwise: bool = False,
) -> tuple[list[Source], dict[str, Source], int]:
    """Open variables and labels of their rows, and leave out rows that miss a value if asked to.

    Parameters
    ----------
    variables : sequence
        As for `open_variables`; or names where data is given, none for all that it has.
    names : sequence of str or None
        As for `open_variables`.
    data : object
        A data frame, Dataset, dictionary of columns, zarr group or its path, or path of a CSV or
        Parquet file or of a folder of Parquet files; None for none. One variable that is a zarr
        group is taken for the data.
    missing : {"refuse", "drop", "pairwise"}
        Treatment of rows with a missing value.
    labels : dict of str to object
        By what they are for, a variable each; or names, where data is given.
    pairwise : bool, optional
        Whether rows with a gap may stay, by missing="pairwise".

    Returns
    -------
    sources, labels, dropped : list of source, dict of str to source, int
        The variables, the labels, and how many rows were left out of both.

    Raises
    ------
    DataError
        There are more or fewer labels than rows.
    """
    check_missing(missing, pairwise=pairwise)
    # A group alone is data, whose arrays are the variables.
    if data is None and len(variables) == 1 and is_of(variables[0], "zarr", "Group"):
        data, variables = variables[0], []
    with rare_labels_taken():  # a group of rows may have one
        told = {what: _labels_of(given, what, data) for what, given in labels.items()}
    try:
        chosen, names = _chosen(variables, names, data, every=True)
        # A table of Arrow has the labels of its rows in a column beside those that are named.
        index = [] if data is None else [table_index(data)]
        opened = open_variables(chosen, names, [*index, *told.values()])
    except DataError as error:
        if data is None and any(isinstance(variable, str) for variable in variables):
            msg = f"{error}; to choose columns by name, pass the table too, as data=table"
            raise DataError(msg) from error
        raise
    # Before gaps are looked for, which pairs the rows of all.
    beside = [_opened_labels(x, what, opened[0]) for what, x in told.items()]
    # Together: a row that misses its label is left out of all variables.
    kept, dropped = without_missing([*opened, *beside], missing)
    return kept[: len(opened)], dict(zip(labels, kept[len(opened) :], strict=True)), dropped


def _opened_labels(given: Any, what: str, variable: Variable, whose: str = "") -> Variable:
    with rare_labels_taken():
        labels = open_one(given, what + whose)
    if labels.shape[0] != (n := variable.shape[0]):
        got = labels.shape[0]
        msg = f"{what} must have a value for each of the {n} rows{whose}, got {got}: add or drop"
        raise DataError(msg)
    return labels


def _labels_of(given: Any, what: str, data: Any) -> Any:
    """Labels that are given themselves, or by the names of columns of the data."""
    # A list of texts is names of columns only where there are columns to name.
    named = isinstance(given, str | int | np.integer) or (
        isinstance(given, list | tuple) and given and all(isinstance(name, str) for name in given)
    )
    if data is None or not named:
        return given
    if _is_stored(data):
        return open_group_labels(data, given, what)
    return pick_variables([given], data)[0][0]


def _is_stored(data: Any) -> bool:
    return isinstance(data, str | os.PathLike) or is_of(data, "zarr", "Group")


def _chosen(
    variables: Sequence[Any], names: Sequence[str] | None, data: Any, *, every: bool = False
) -> tuple[Sequence[Any], Sequence[str] | None]:
    """What is named of data and its names, or all of it where asked; else what is given itself."""
    if data is None:
        return variables, names
    if _is_stored(data):
        return open_group(data, variables, every=every), names
    if every and not variables:
        return [data], names
    picked, of_columns = pick_variables(variables, data)
    return picked, of_columns if names is None else names


def pick_variables(variables: Sequence[Any], data: Any) -> tuple[list[Any], list[str]]:
    """Variables of a frame or dictionary by the names of their columns, and their names."""
    frame, keys = frame_and_keys(data)
    if keys is None:
        msg = (
            "data must be a data frame, an xarray Dataset, a dict of columns, a zarr group, or the "
            f"path of one or of a CSV or Parquet file, got {type(data).__name__}: leave it out"
        )
        raise InvalidArgumentError(msg)
    # Keys may be numbers and, of pandas, tuples, which texts name all the same.
    known = dict(zip(names_of_columns(keys), keys, strict=True))
    picked, names = [], []
    for variable in variables:
        alone = isinstance(variable, str | int) or str(variable) in known
        columns = list(map(str, [variable] if alone else list_of_columns(variable, known)))
        if unknown := [name for name in columns if name not in known]:
            raise unknown_column(unknown[0], list(known))
        chosen = [known[name] for name in columns]
        names.append("+".join(columns))
        if not holds_columns(data):
            part = frame[chosen if frame is data else columns]
            picked.append(part.to_native() if hasattr(part, "to_native") else part)
        elif alone:
            picked.append(data[chosen[0]])
        else:
            parts = {name: data[key] for name, key in zip(columns, chosen, strict=True)}
            picked.append(join_columns(parts, names[-1]))
    return picked, names


def frame_and_keys(data: Any) -> tuple[Any, list[Any] | None]:
    """A table in memory, or of Dask, with names that are text, and its own; None of no table."""
    if holds_columns(data):
        return data, list(data)
    frame = data if is_of(data, "dask.dataframe", "DataFrame") else as_frame(data)
    named = data if is_of(data, "pandas", "DataFrame") else frame
    keys = getattr(named, "columns", None)
    return frame, None if keys is None else list(keys)


def open_samples(data: Sequence[Any], names: Sequence[str] | None = None) -> list[Variable]:
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
        Equal labels have equal codes in all of them.

    Raises
    ------
    InvalidArgumentError
        Names that do not fit.
    DataError
        As for `open_variables`; or unequal columns, by number, kind, or the names of several.
    """
    pairs = zip(data, checked_names(data, names, "sample"), strict=True)
    # A small sample may have a few of the labels that repeat in others.
    with rare_labels_taken(fewer_than=len(data)):
        return coded_alike([open_one(x, name) for x, name in pairs])


def open_sample_data(
    samples: Sequence[Any],
    names: Sequence[str] | None,
    data: Any,
    missing: str,
    labels: Mapping[str, Any],
) -> tuple[list[Source], dict[str, list[Source]], int]:
    """Open samples, or what is named of data, each without its rows that miss a value if asked to.

    Parameters
    ----------
    samples : sequence
        As for `open_samples`; or names where data is given.
    names, data, missing
        As for `open_labelled_data`.
    labels : dict of str to sequence
        Labels of the rows by what they are for, of every sample in their order; or names, where
        data is given.

    Returns
    -------
    sources, labels, dropped : list of source, dict of str to list of source, int
        The samples, the labels of each, and how many rows of all were left out.

    Raises
    ------
    InvalidArgumentError
        Labels are not those of every sample.
    DataError
        There are more or fewer labels than rows, or they are of several kinds.
    """
    check_missing(missing, pairwise=False)
    chosen, names = _chosen(samples, names, data)
    opened = open_samples(chosen, names)
    beside = []
    for what, given in labels.items():
        if not isinstance(given, list | tuple) or len(given) != len(opened):
            got = len(given) if isinstance(given, list | tuple) else f"one {type(given).__name__}"
            msg = (
                f"{what} must be a list with the labels of each of the {len(opened)} samples, got "
                f"{got}: give [labels of the first, labels of the second]"
            )
            raise InvalidArgumentError(msg)
        read = []
        for of_sample, rows, sample in zip(given, chosen, opened, strict=True):
            with rare_labels_taken():
                told = _labels_of(of_sample, what, data)
            check_row_labels([table_index(data), rows, told])
            read.append(_opened_labels(told, what, sample, f" of {sample.name!r}"))
        # Labels of all samples are compared, as moves go between samples.
        beside.append(coded_alike(read))
    # Each by itself, since samples are of different rows.
    parts = [without_missing(list(rows), missing) for rows in zip(opened, *beside, strict=True)]
    kept = [[sources[k] for sources, _ in parts] for k in range(1 + len(beside))]
    return kept[0], dict(zip(labels, kept[1:], strict=True)), sum(count for _, count in parts)


def open_group(
    path: Any, variables: Sequence[Any], *, allow_missing_chunks: bool = False, every: bool = False
) -> list[Variable]:
    """Open arrays of a zarr group or columns of them, or columns of a table.

    Parameters
    ----------
    path : str or zarr.Group
        Path or URL of the group, or the group; a URL holds no credentials. Or a CSV or Parquet
        file, or a folder of Parquet files, which is read into memory.
    variables : sequence of str
        Each ``array``, ``array[:, columns]`` or ``name=array[:, columns]``, where columns are
        written as in NumPy, ``0:10``, ``3``, ``0,2,5``, or by the names that the array's attribute
        ``columns`` lists; of a table ``column``, or ``name=column,column``.
    allow_missing_chunks : bool, optional
        As for `dhsic.stored_array`, of all of them.
    every : bool, optional
        Whether no variables stand for all that there are.

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
        The library that reads the URL is not installed.
    """
    if is_table(path):
        return open_table_variables(path, variables)
    group = path
    if not is_of(path, "zarr", "Group"):
        group = open_stored(os.fspath(path), "group", fills=allow_missing_chunks)
    if every and not variables:
        # By name, since a store lists its arrays in any order.
        variables = sorted(key for key, _ in group.arrays())
    opened: list[Variable] = []
    for text in variables:
        if not isinstance(text, str):
            msg = (
                "of a zarr group, variables must be arrays or columns of one, as 'features[:, "
                f"0:12]', got {text!r}: store several arrays as one, (n, d)"
            )
            raise InvalidArgumentError(msg)
        name, key, chosen = parse_variable(text)
        array = _member_of(group, key, text, str(path))
        columns = None if chosen is None else _chosen_columns(chosen, array, text)
        source = open_array(array, name, columns)
        opened.append(replace(source, allow_missing_chunks=allow_missing_chunks))
    return opened


def open_group_labels(
    path: Any, labels: Any, what: str, *, allow_missing_chunks: bool = False
) -> Variable:
    """Open labels of rows in a zarr group or a table, as `open_group` variables.

    Those of a list are crossed: rows are alike where all of their labels are.
    """
    listed = labels if isinstance(labels, list | tuple) else [str(labels)]
    with rare_labels_taken():
        opened = open_group(path, listed, allow_missing_chunks=allow_missing_chunks)
    members = _aligned(opened)
    return replace(members[0], name=what) if len(members) == 1 else side_by_side(what, members)


def checked_names(data: Sequence[Any], names: Sequence[str] | None, what: str) -> list[str]:
    """The names that were given, or those that the data have, all different."""
    given = names_of(data) if names is None else names
    # A text is a sequence of letters, and arrays of NumPy without dimensions have no items.
    several = isinstance(given, Iterable) and not isinstance(given, str | Mapping)
    listed = list(given) if several and getattr(given, "ndim", 1) > 0 else []
    words = [str(name) for name in listed if isinstance(name, str)]  # of NumPy too
    if not len(set(words)) == len(listed) == len(data):
        msg = f"names must be {len(data)} different words, one a {what}, got {shown(given)}"
        raise InvalidArgumentError(msg)
    return words


def _aligned(sources: Sequence[Variable], what: str = "variables") -> list[Variable]:
    """Variables of the same rows; arrays of zarr that are the same are one object.

    Their chunks are decoded once so.
    """
    if len({source.shape[0] for source in sources}) > 1:
        lengths = ", ".join(f"{source.name!r} {source.shape[0]}" for source in sources)
        msg = f"{what} must have the same rows, one observation each; got {lengths}"
        raise DataError(msg)
    arrays = [one.array for one in sources if is_zarr(one.array)]
    return [
        replace(one, array=next(x for x in arrays if x.store_path == one.array.store_path))
        if is_zarr(one.array)
        else one
        for one in sources
    ]


# --- one variable


def open_one(x: Any, name: str) -> Variable:
    """Open a variable.

    Parameters
    ----------
    x : array-like
        As for `dhsic.io.open.open_variables`.
    name : str
        Name of the variable.

    Returns
    -------
    source

    Raises
    ------
    DataError
        It holds neither numbers nor labels, or has other than one or two dimensions, or no rows.
    """
    # From the special to the general, since what has columns or chunks may look like an array too.
    if isinstance(x, Variable):
        return replace(x, name=name)
    if isinstance(x, str | bytes) or hasattr(x, "__fspath__"):
        return open_array(open_stored(os.fsdecode(x), "array"), name)
    if is_zarr(x):
        return open_array(x, name)
    if holds_columns(x):
        named = zip(names_of_columns(x), (x[key] for key in x), strict=True)
        return join_columns(dict(named), name)
    if is_of(x, "dask.dataframe", "DataFrame", "Series"):
        return _dask_frame(x, name)
    if is_of(x, "xarray", "DataArray"):
        return _labelled(x, name)
    if is_of(x, "dask.array", "Array"):
        return _graph(x, name)
    if is_sparse(x):
        if x.ndim == 1:
            x = x.reshape((x.shape[0], 1))
        source = _checked(Variable(name, x))
        # CSR is the format of SciPy whose rows are sliced without a search.
        return replace(source, array=x.tocsr())
    # Categories as of pandas.cut, and others whose type NumPy would lose.
    if is_of(x, "pandas", "Index") or is_of(x, "pandas.api.extensions", "ExtensionArray"):
        x = sys.modules["pandas"].Series(x)
    if (frame := as_frame(x)) is not None:
        return _checked(frame_source(frame, name))
    # HDF5 data sets and what else is read by slices; what has DLPack is in memory.
    typed = hasattr(x, "shape") and isinstance(getattr(x, "dtype", None), np.dtype)
    if typed and not hasattr(x, "__dlpack__"):
        return _checked(Variable(name, x, marks=marks_of(x, name)))
    x = _in_memory(x, name)
    # Masked booleans stay such, beside None.
    boolean = x.dtype == bool and np.ma.is_masked(x)
    x = unmasked(x.astype(object) if boolean else x)
    if x.ndim not in (1, 2):
        raise _shape_error(name, x.shape)
    return _checked(encode_matrix(x, name))


def join_columns(columns: Mapping[str, Any], name: str) -> Variable:
    """Columns in memory as one variable, whose columns have their names.

    Raises
    ------
    DataError
        They are not in memory, or of unequal lengths, or labels of rows differ.
    """
    check_row_labels(columns.values())
    arrays = [open_one(x, key) for key, x in columns.items()]
    if not arrays or any(one.is_stored or one.place == "graph" for one in arrays):
        msg = (
            f"columns of one variable must be in memory, one or more, got {list(columns)} for "
            f"{name!r}: read them first, as by .load() of xarray, pass each as a variable, or "
            "store them as one array (n, d)"
        )
        raise DataError(msg)
    labels: list[str] = []
    for one in _aligned(arrays, "columns of one variable"):
        d = one.shape[1]
        labels += [one.name] if d == 1 else [f"{one.name}[{j}]" for j in one.labels or range(d)]
    return side_by_side(name, arrays, tuple(labels))


def _in_memory(x: Any, name: str) -> NDArray[Any]:
    """An array of NumPy, of a list or of what shares its memory by a protocol of arrays."""
    if isinstance(x, np.ndarray):
        return x
    if isinstance(x, list | tuple | range):
        # NumPy would leave out the masks of rows.
        masked = any(isinstance(row, np.ma.MaskedArray) for row in x)
        try:
            array = (np.ma.array if masked else np.asarray)(x)
        except ValueError as error:
            msg = f"variable {name!r} must have shape (n,) or (n, d), got rows of different lengths"
            raise DataError(msg) from error
        # Labels would be cut to a fixed width, and numbers would not stay numbers.
        if array.dtype.kind in "US":
            return np.array(x, object)
        check_whole(x, array, f"variable {name!r}")
        return array
    try:
        if hasattr(x, "__array__") or hasattr(x, "__array_interface__"):
            return np.asarray(x)
        if hasattr(x, "__dlpack__"):
            return np.from_dlpack(x)
        with suppress(TypeError):  # of what is no buffer
            return np.asarray(memoryview(x))
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        kind = type(x).__name__
        msg = f"variable {name!r} is a {kind} that NumPy cannot read ({said}): copy it to an array"
        raise DataError(msg) from error
    remedy = ": call list() on it" if hasattr(x, "__iter__") else ""
    msg = f"variable {name!r} must be {_KNOWN}, got {type(x).__name__}{remedy}"
    raise DataError(msg)


def _labelled(x: Any, name: str) -> Variable:
    """An xarray variable, with the labels of its columns."""
    # Not read yet: a lazy backend of xarray, which tasks slice by themselves.
    lazy = x.chunks is None and not isinstance(x.variable._data, np.ndarray)
    if lazy and isinstance(x.dtype, np.dtype):  # categories are of pandas, in memory
        source = _checked(Variable(name, x.variable, marks=marks_of(x.variable, name)))
    else:
        data, marks = x.data, marks_of(x, name)
        if marks is not None and x.chunks is not None:
            data = data.map_blocks(marks.decoded, name, dtype=np.float64)
        elif marks is not None:
            data = marks.decoded(data, name)
        source = open_one(data, name)
        source = source if source.is_stored else replace(source, marks=marks)
    source = replace(source, kinds=_kinds_said(x.attrs, source.shape[1]) or source.kinds)
    if x.ndim == 2 and x.dims[1] in x.coords:
        return replace(source, labels=tuple(map(str, x.coords[x.dims[1]].values.tolist())))
    return source


def _dask_frame(x: Any, name: str) -> Variable:
    """A Dask data frame or a column of one; known categories become codes."""
    # A series has no columns to assign codes to.
    frame = x.to_frame(name if x.name is None else x.name) if x.ndim == 1 else x
    names = names_of_columns(frame.columns)
    frame = frame.rename(columns=dict(zip(frame.columns, names, strict=True)))
    kinds = {column: _dask_kind(frame[column], column, name) for column in frame.columns}
    codes = {c: frame[c].cat.codes for c, kind in kinds.items() if kind == "category"}
    frame = frame.assign(**{c: code.where(code >= 0) for c, code in codes.items()})  # else missing
    # Columns of several types would become objects.
    if len(set(map(str, frame.dtypes))) > 1 or hasattr(frame.dtypes.iloc[0], "na_value"):
        frame = frame.map_partitions(_as_floats, name)
    labels = None if x.ndim == 1 and x.name is None else tuple(kinds)
    # A frame of Dask does not know its rows until they are counted: of the partitions that the
    # array will have, since Dask joins small ones of Parquet where columns are chosen.
    frame = frame.optimize()
    (lengths,) = compute_graphs(frame.map_partitions(len))
    source = _graph(frame.to_dask_array(lengths=tuple(lengths), optimize=False), name)
    return replace(source, kinds=tuple(kinds.values()), labels=labels)


def _as_floats(part: Any, name: str) -> Any:
    """A partition of a frame, of floats; integers that lose digits so are refused."""
    check_exact(f"variable {name!r}", *(part[column].dropna().to_numpy() for column in part))
    return part.astype(np.float64)


def _dask_kind(column: Any, label: Any, name: str) -> ValueKind:
    from pandas.api import types

    if isinstance(column.dtype, types.CategoricalDtype) and column.cat.known:
        return "category"
    if types.is_bool_dtype(column.dtype):
        return "boolean"
    if types.is_numeric_dtype(column.dtype) and not types.is_complex_dtype(column.dtype):
        return "number"
    msg = (
        f"column {label!r} of variable {name!r} must hold numbers or known categories, got "
        f"{column.dtype}: call .astype('category').cat.as_known() on labels"
    )
    raise DataError(msg)


def _graph(x: Any, name: str) -> Variable:
    if any(np.isnan(size) for size in x.shape):
        msg = f"variable {name!r} has unknown chunk sizes: call .compute_chunk_sizes() on it first"
        raise DataError(msg)
    source = _checked(Variable(name, x[:, None] if x.ndim == 1 else x))
    # Of every array: whether a block has a mask, or is sparse, shows when it is computed.
    floats = isinstance(x._meta, np.ma.MaskedArray) and x.dtype.kind != "f"
    meta = np.empty((0, 0), np.float64 if floats else x.dtype)
    return replace(source, array=source.array.map_blocks(unmasked, dtype=meta.dtype, meta=meta))


def _checked(source: Variable) -> Variable:
    """Refuse what is stored or computed as anything but numbers in rows and columns."""
    check_type(f"variable {source.name!r}", source.array.dtype)
    if source.array.ndim not in (1, 2):
        raise _shape_error(source.name, source.array.shape)
    n, d = source.shape
    if n == 0 or d == 0:
        msg = f"variable {source.name!r} must have rows and columns, got {n} x {d}"
        raise DataError(msg)
    if source.kinds is None and np.dtype(source.array.dtype).kind == "b":
        boolean: ValueKind = "boolean"
        return replace(source, kinds=(boolean,) * d)
    return source


def _shape_error(name: str, shape: tuple[int, ...]) -> DataError:
    return DataError(f"variable {name!r} must have shape (n,) or (n, d), got {tuple(shape)}")


# --- arrays and groups of zarr


@named_arguments
def stored_array(place: Any, *, allow_missing_chunks: bool = False) -> Variable:
    """Open a zarr array as a variable.

    Parameters
    ----------
    place : str, path or zarr.Array
        Path or URL of the array, or the array.
    allow_missing_chunks : bool, optional
        Whether to read absent chunks as the fill value. zarr leaves out chunks that hold the fill
        value alone, unless ``write_empty_chunks`` is set. By default a run over an array with
        absent chunks raises an error that names their rows.

    Returns
    -------
    source
        For all functions that take arrays.

    Raises
    ------
    DataError
        There is no zarr array, or see `open_variables`.

    Examples
    --------
    >>> import tempfile, zarr
    >>> import dhsic
    >>> folder = tempfile.TemporaryDirectory()
    >>> flags = zarr.create_array(folder.name + "/flags", shape=100, chunks=10, dtype="int8")
    >>> flags[5:8] = 1  # nine chunks of zeros are never written
    >>> x = dhsic.stored_array(flags, allow_missing_chunks=True)
    >>> found = dhsic.hsic(x, range(100), rng=0)
    >>> found.data[0].absent
    9
    >>> folder.cleanup()
    """
    check_flag("allow_missing_chunks", allow_missing_chunks)
    (name,) = names_of([place], ["x"])
    array = place
    if isinstance(place, str | os.PathLike):
        array = open_stored(os.fspath(place), "array", fills=allow_missing_chunks)
    if not is_zarr(array):
        msg = f"place must be a zarr array, its path or its URL, got {shown(place)}"
        raise InvalidArgumentError(msg)
    return replace(open_array(array, name), allow_missing_chunks=allow_missing_chunks)


def open_array(array: Any, name: str, columns: ColumnChoice = None) -> Variable:
    """An array of zarr or columns of it, of the kinds and names that its attributes say.

    Raises
    ------
    DataError
        It has other than one or two dimensions, or its metadata have chunks that no data have.
    """
    import zarr

    if array.ndim not in (1, 2):
        raise _shape_error(name, array.shape)
    # Its own metadata: those that a group or an open array has may be older.
    array = opened_array(zarr.open_array, array.store_path, "array", array.metadata.zarr_format)
    if not all(0 < size <= _MOST_ROWS for size in (*(array.shards or ()), *array.chunks)):
        got = shown(tuple(array.chunks))
        msg = (
            f"the metadata of variable {name!r} must have chunks of 1 row and column or more, got "
            f"{got}: write it again, or take an intact copy of the data"
        )
        raise DataError(msg)
    chosen = range(_width(array)) if columns is None else columns
    labels, known = _column_labels(array), array.attrs.get("categories")
    categories: tuple[Labels, ...] | None = None
    if labels and isinstance(known, dict):
        told = [known.get(labels[j]) for j in chosen]
        categories = tuple(tuple(one) if isinstance(one, list) else None for one in told)
    source = Variable(
        name,
        array,
        columns,
        kinds=_kinds_said(array.attrs, len(chosen)),
        labels=None if labels is None else tuple(labels[j] for j in chosen),
        categories=categories,
        marks=marks_of(array, name),
    )
    return _checked(source)


def _kinds_said(attributes: Mapping[str, Any], d: int) -> tuple[ValueKind, ...] | None:
    """Categories where attributes of `dhsic convert` or of climate and forecasts say so."""
    kind: ValueKind = "category"
    said = attributes.get("kind") == "categorical" or "flag_meanings" in attributes
    return (kind,) * d if said else None


def _width(array: Any) -> int:
    return 1 if array.ndim < 2 else int(array.shape[1])


def _column_labels(array: Any) -> list[str] | None:
    """The names of all columns of an array, as `dhsic convert` writes them."""
    labels = array.attrs.get("columns")
    there = isinstance(labels, list) and len(labels) == _width(array) == len({*map(str, labels)})
    return list(map(str, labels)) if there else None


def _member_of(group: Any, key: str, variable: str, path: str) -> Any:
    """An array of a group; names are listed only where it is not there, since https lists none."""
    import zarr

    root = getattr(group.store, "root", None)  # of a store on a disk
    if root is not None:
        check_metadata(os.path.join(root, group.path, key))
    try:
        array = group.get(key)
        if isinstance(array, zarr.Array):
            return array
        known = sorted(name for name, _ in group.arrays())
    except DhsicError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        msg = (
            f"the metadata of {key!r} in {path!r} cannot be read ({type(error).__name__}: "
            f"{reason}): write it again, or take an intact copy of the data"
        )
        raise DataError(msg) from error
    several = {part.strip() for part in key.split(",")} <= {*known}
    near = "; give each array as a variable" if several else nearest(key, known)
    listed = ", ".join(known) or "none"
    msg = f"variable {variable!r} needs an array {key!r} in {path!r}; there are: {listed}{near}"
    raise InvalidArgumentError(msg)


def parse_variable(text: str) -> tuple[str, str, slice | list[int | str] | None]:
    """Split ``name=array[:, columns]`` into its parts.

    Examples
    --------
    >>> parse_variable("timbre=features[:, 0:12]")
    ('timbre', 'features', slice(0, 12, None))
    >>> parse_variable("year")
    ('year', 'year', None)
    """
    match = _VARIABLE.match(text.strip())
    if match is None:
        msg = f"a variable is array, array[:, columns] or name=array[:, columns], got {text!r}"
        raise InvalidArgumentError(msg)
    array = match["array"].strip()
    label = array if match["columns"] is None else f"{array}[{match['columns'].strip()}]"
    name = (match["name"] or label).strip()
    return name, array, _parse_columns(match["columns"], text)


def _chosen_columns(chosen: slice | list[int | str], array: Any, variable: str) -> tuple[int, ...]:
    """Column numbers of a choice, all within the array."""
    d, labels = _width(array), _column_labels(array) or []
    numbers: Any = chosen
    if isinstance(chosen, list):
        numbers = [labels.index(label) if label in labels else label for label in chosen]
        if unknown := [label for label in numbers if isinstance(label, str)]:
            raise unknown_column(unknown[0], labels)
    try:
        columns = tuple(np.arange(d)[numbers].tolist())
    except (IndexError, ValueError):
        columns = ()
    # NumPy cuts a slice at the end in silence, where a mistyped column would go unseen.
    beyond = isinstance(chosen, slice) and max(chosen.start or 0, chosen.stop or 0) > d
    if not columns or beyond or len(set(columns)) < len(columns):
        what = f"columns of the {d} of the array, each once"
        msg = f"variable {variable!r} must choose {what}; got {chosen}"
        raise InvalidArgumentError(msg)
    return columns


def _parse_columns(text: str | None, variable: str) -> slice | list[int | str] | None:
    """Columns behind the colon that stands for all rows, as NumPy has it."""
    if text is None or text.strip() == ":":
        return None
    rows, comma, columns = text.partition(",")
    columns = re.sub(r"^\[(.*)\]$", r"\1", columns.strip())
    parts = [part.strip() for part in columns.split(",")]
    if rows.strip() != ":" or not comma or not all(parts):
        msg = (
            "columns are written behind the rows, as [:, 0:10], [:, 0,2,5] or by name, got "
            f"[{text}] in {variable!r}: write [:, {text.strip(' :,') or 0}] if these are columns"
        )
        raise InvalidArgumentError(msg)
    if len(parts) == 1 and _SLICE.fullmatch(parts[0]):
        return slice(*(int(part) if part.strip() else None for part in parts[0].split(":")))
    # Numbers are places; a column whose name is a number is reached by its place alone.
    return [int(part) if re.fullmatch(r"[-+]?\d+", part) else part for part in parts]


# --- names and columns


def names_of(data: Sequence[Any], usual: Sequence[str] | None = None) -> list[str]:
    """The names that data have of their own, or the usual ones: x1, x2, ... where not given.

    Names that several have say nothing of any, and are not taken.

    Examples
    --------
    >>> import pandas as pd
    >>> names_of([pd.Series([1, 2], name="AT"), [3, 4]])
    ['AT', 'x2']
    """
    own = [_own_name(x) for x in data]
    counts = Counter(own)
    opened = [isinstance(x, Variable) for x in data]
    others = [f"x{number}" for number in range(1, len(data) + 1)] if usual is None else list(usual)
    names = [
        name if name is not None and (counts[name] == 1 or is_source) else other
        for name, other, is_source in zip(own, others, opened, strict=True)
    ]
    # A name of a user may be x2: all take the usual ones then, so that no two are alike.
    return names if len(set(names)) == len(names) or any(opened) else others


def _own_name(x: Any) -> str | None:
    # A variable that is opened already has the name that its user gave.
    if isinstance(x, Variable):
        return x.name
    if isinstance(x, str | bytes) or hasattr(x, "__fspath__"):
        return PurePosixPath(os.fsdecode(x).replace(os.sep, "/")).name.removesuffix(".zarr") or None
    if is_zarr(x):
        return x.basename or None
    if is_of(x, "dask.array", "Array") or holds_columns(x):
        return None
    lazy = is_of(x, "dask.dataframe", "DataFrame", "Series")
    named = x if lazy or is_of(x, "xarray", "DataArray") else as_frame(x)
    name = getattr(named, "name", None)
    if not is_of(x, "xarray", "DataArray") and hasattr(named, "columns"):
        name = named.columns[0] if len(named.columns) == 1 else None
    return None if name is None or name == "" else str(name)


def _columns_as_variables(
    x: Any, names: Sequence[str] | None
) -> tuple[list[Any], Sequence[str] | None]:
    """Split one table, dictionary or matrix into a variable a column, with their names."""
    if holds_columns(x):
        held = dict(zip(names_of_columns(x), (x[key] for key in x), strict=True))
        return list(held.values()), list(held) if names is None else names
    source = open_one(x, "data")
    labels = labels_of(source) or [f"x{j}" for j in range(1, source.shape[1] + 1)]
    columns: list[Any] = []
    for at, (name, kind) in enumerate(zip(labels, kinds_of(source), strict=True)):
        known = source.categories and (source.categories[at],)
        alone = replace(source, name=name, kinds=(kind,), labels=(name,), categories=known)
        if source.place == "graph":
            columns.append(replace(alone, array=source.array[:, at : at + 1]))
        else:
            place = at if source.columns is None else source.columns[at]
            columns.append(replace(alone, columns=(place,)))
    return columns, list(labels) if names is None else names


def coded_alike(samples: Sequence[Variable]) -> list[Variable]:
    """Samples of the same columns in which equal labels have equal codes.

    Codes of arrays in memory are changed.

    Raises
    ------
    DataError
        Columns are others, hold something else, or have another order; or stored codes stand for
        other labels than those of another sample.
    """
    # Booleans compare as numbers do; only codes mean something else in another sample.
    held = [[kind == "category" for kind in kinds_of(sample)] for sample in samples]
    if any(sample != held[0] for sample in held):
        counted = ", ".join(
            f"{sample.name!r} {sum(kinds)} of categories and {len(kinds) - sum(kinds)} of numbers"
            for sample, kinds in zip(samples, held, strict=True)
        )
        msg = f"samples must have the same columns, got {counted}: compare the columns they share"
        raise DataError(msg)
    named = [sample for sample in samples if labels_of(sample) is not None and sample.shape[1] > 1]
    for sample in named[1:]:
        if labels_of(sample) != labels_of(named[0]):
            got = f"{shown(labels_of(named[0]))} and {shown(labels_of(sample))}"
            what = "samples must have the same columns in the same order"
            msg = f"{what}, got {got}: choose those they share, or rename them"
            raise DataError(msg)
    known = [sample.categories for sample in samples]
    if len(samples) < 2 or len(set(known)) == 1 or not all(known):
        return list(samples)
    # Codes in storage would have to be translated in every task that reads them.
    if any(sample.is_stored for sample in samples):
        names = ", ".join(repr(sample.name) for sample in samples)
        msg = (
            f"codes of categories must stand for the same labels in all samples, and do not in "
            f"{names}: convert them as one table, with a column that tells the samples"
        )
        raise DataError(msg)
    joint = [
        None if columns[0] is None else tuple(dict.fromkeys(chain.from_iterable(columns)))
        for columns in zip(*filter(None, known), strict=True)
    ]
    return [_recoded(sample, joint) for sample in samples]


def _recoded(source: Variable, joint: Sequence[Labels]) -> Variable:
    # Floats, since missing labels are NaN among the codes.
    values = source.read(0, source.shape[0])
    check_exact(f"variable {source.name!r}", values)
    values = values.astype(np.float64)
    for j, (here, labels) in enumerate(zip(source.categories or (), joint, strict=True)):
        if here is not None and labels is not None:
            places = {label: code for code, label in enumerate(labels)}
            # NaN stands behind the codes, for missing values.
            codes = np.array([*(places[label] for label in here), np.nan])
            values[:, j] = codes[np.nan_to_num(values[:, j], nan=len(here)).astype(np.intp)]
    return replace(source, array=values, columns=None, categories=tuple(joint))


# --- rows that belong together


def check_row_labels(data: Iterable[Any]) -> None:
    """Refuse rows whose labels say that they do not belong together.

    Labels of frames of Dask are read by partitions, and compared by sums of their hashes; of
    columns of one frame they are not read.

    Parameters
    ----------
    data : iterable of array-like
        All that has a value for each row; what has no labels, as an array, goes with anything.

    Raises
    ------
    DataError
        Labels differ or have another order, or the first dimension is that of others' columns.
    """
    arrays, held, lazy = list[Any](), list[Any](), dict[str, Any]()
    # Polars has no index, nor have arrays.
    for x in _single(data):
        if is_of(x, "pandas", "DataFrame", "Series"):
            held.append(x.index)
        elif is_of(x, "xarray", "DataArray") and x.ndim:
            arrays.append(x)
            held += [x.indexes[dim] for dim in x.dims[:1] if dim in x.indexes]
        elif is_of(x, "pyarrow", "Table", "RecordBatch"):
            stored = index_of_pandas(x.schema)
            held += [x.select(stored).to_pandas().index] if stored else []
        # An index of Dask is a series without one.
        elif is_of(x, "dask.dataframe", "DataFrame", "Series") and hasattr(x, "index"):
            expression = x.expr
            while type(expression).__name__ == "Projection":  # columns of one frame
                expression = expression.frame
            lazy[str(expression._name)] = x
    for x, other in ((x, other) for x in arrays for other in arrays):
        # The rows of one are columns of the other: the lengths may agree by chance.
        if x.dims[0] != other.dims[0] and x.dims[0] in other.dims:
            got = f"{x.dims} and {other.dims}: call .transpose({x.dims[0]!r}, ...) on the second"
            msg = f"rows must be the first dimension of every variable, got {got}"
            raise DataError(msg)
    alike = all(index.equals(held[0]) for index in held[1:])
    if alike and len(lazy) + bool(held) < 2:
        return
    # Equal labels of several types, as Int64 and int64, are not equal to pandas.
    sums = [_added([_sums_of(index)]) for index in (held[:1] if alike else held)]
    if len(set(sums)) < 2:
        from dask import delayed

        parts = [x.index.to_delayed() for x in lazy.values()]
        sums += map(_added, compute_graphs(*([delayed(_sums_of)(x) for x in one] for one in parts)))
        if len(set(sums)) == 1:
            return
    what = "in the same order" if len({total[:2] for total in sums}) == 1 else "the same"
    msg = (
        "pandas, xarray and Dask variables must have the same index: rows are paired by position, "
        f"and their labels are not {what}. Align them, as by pandas.concat(..., axis=1, "
        "join='inner') or xarray.align; or, if positions are right, call .reset_index(drop=True), "
        ".drop_vars(...) or .to_dask_array(lengths=True) on each"
    )
    raise DataError(msg)


def _single(data: Iterable[Any]) -> Iterator[Any]:
    """Variables, and those that are held by name, one by one."""
    for x in data:
        yield from _single(x[key] for key in x) if holds_columns(x) else (x,)


def _sums_of(index: Any) -> NDArray[np.uint64]:
    """Number of labels, and sums of their hashes, and of these times their places."""
    from pandas import Index
    from pandas.util import hash_pandas_object

    if hasattr(index, "unit"):  # of times, which are equal in any
        index = Index(index.asi8 * (np.timedelta64(1, index.unit) // np.timedelta64(1, "ns")))
    hashes = np.asarray(hash_pandas_object(index, index=False), np.uint64)
    places = np.arange(len(hashes), dtype=np.uint64)
    return np.array([len(hashes), hashes.sum(), (hashes * places).sum()], np.uint64)


def _added(parts: Sequence[NDArray[np.uint64]]) -> tuple[int, ...]:
    """The same of labels that stand one behind the other, modulo 2**64."""
    rows, total, placed = np.stack(parts, axis=1)
    starts = np.cumsum(rows) - rows
    return int(rows.sum()), int(total.sum()), int((placed + starts * total).sum())
