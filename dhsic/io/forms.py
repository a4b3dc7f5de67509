"""One variable from whatever form a user has it in."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.blocks import ValueKind, check_exact, kinds_of
from dhsic.engine.graphs import compute_graphs
from dhsic.errors import DataError
from dhsic.io.encode import check_whole, encode_matrix, joined, unusable
from dhsic.io.frames import as_frame, frame_source
from dhsic.io.libraries import holds_columns, is_of, is_sparse
from dhsic.io.marks import marks_of, unmasked
from dhsic.io.row_labels import check_row_labels
from dhsic.io.stored import kinds_said, open_stored, stored_source
from dhsic.io.variables import ColumnChoice, Densified, Variable

_KNOWN = (
    "a NumPy, Dask, zarr, xarray, SciPy sparse or other array, a data frame or a column of one, a "
    "dict of columns, or the path of a zarr array"
)


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
    if is_of(x, "zarr", "Array"):
        return open_array(x, name)
    if holds_columns(x):
        return join_columns({str(key): x[key] for key in x}, name)
    if is_of(x, "dask.dataframe", "DataFrame", "Series"):
        return _dask_frame(x, name)
    if is_of(x, "xarray", "DataArray"):
        return _labelled(x, name)
    if is_of(x, "dask.array", "Array"):
        return _graph(x, name)
    if is_sparse(x):
        return _sparse(x, name)
    if isinstance(x, list | tuple | range):
        # A list of texts would be an array of fixed width, in which labels are cut.
        return _array_source(_array_of_list(x, name), name)
    if isinstance(x, np.ndarray):
        return _array_source(x, name)
    # Categories as of pandas.cut, and others whose type NumPy would lose.
    if is_of(x, "pandas", "Index") or is_of(x, "pandas.api.extensions", "ExtensionArray"):
        x = sys.modules["pandas"].Series(x)
    if (frame := as_frame(x)) is not None:
        return _with_shape(frame_source(frame, name))
    if _is_sliced(x):
        chunks = getattr(x, "chunks", None)
        rows = int(chunks[0]) if chunks else None
        return _with_shape(_numeric(Variable(name, x, rows, marks=marks_of(x, name))))
    return _array_source(_as_array(x, name), name)


def _is_sliced(x: Any) -> bool:
    """HDF5 data sets and what else has shape and type of an array, and is read by slices."""
    array = hasattr(x, "shape") and isinstance(getattr(x, "dtype", None), np.dtype)
    # What has DLPack is in memory, and is taken whole.
    return array and not hasattr(x, "__dlpack__")


def join_columns(columns: Mapping[str, Any], name: str) -> Variable:
    """Columns in memory as one variable, whose columns have their names.

    Raises
    ------
    DataError
        They are not in memory, or of unequal lengths, or labels of rows differ.
    """
    check_row_labels(columns.values())
    opened = [open_one(x, key) for key, x in columns.items()]
    arrays = [array for array in opened if isinstance(array.array, np.ndarray | Densified)]
    if not opened or len(arrays) < len(opened):
        msg = (
            f"columns of one variable must be in memory, one or more, got {list(columns)} for "
            f"{name!r}: read them first, as by .load() of xarray, pass each as a variable, or "
            "store them as one array (n, d)"
        )
        raise DataError(msg)
    if len({array.shape[0] for array in arrays}) > 1:
        lengths = ", ".join(f"{array.name!r} {array.shape[0]}" for array in arrays)
        msg = f"columns of one variable must have the same rows; got {lengths}"
        raise DataError(msg)
    parts = [array.read(0, array.shape[0]) for array in arrays]
    values = joined(parts, f"variable {name!r}")
    return Variable(
        name,
        values,
        kinds=tuple(kind for array in arrays for kind in kinds_of(array)),
        labels=tuple(label for array in arrays for label in _labels_of_source(array)),
        categories=tuple(
            c for array in arrays for c in array.categories or (None,) * array.shape[1]
        ),
    )


def _labels_of_source(source: Variable) -> tuple[str, ...]:
    d = source.shape[1]
    if d == 1:
        return (source.name,)
    return tuple(f"{source.name}[{label}]" for label in source.labels or range(d))


def _array_source(x: NDArray[Any], name: str) -> Variable:
    """An array in memory; masked values are missing."""
    # Masked booleans stay such, beside None.
    boolean = x.dtype == bool and np.ma.is_masked(x)
    x, described = unmasked(x.astype(object) if boolean else x), f"variable {name!r}"
    if x.ndim not in (1, 2):
        raise _shape_error(name, x.shape)
    values, kinds, categories = encode_matrix(x, described)
    return _with_shape(Variable(name, values, kinds=kinds, categories=categories))


def _array_of_list(x: Any, name: str) -> NDArray[Any]:
    try:
        # NumPy would leave out the masks of rows.
        masked = any(isinstance(row, np.ma.MaskedArray) for row in x)
        array = (np.ma.array if masked else np.asarray)(x)
    except ValueError as error:
        msg = f"variable {name!r} must have shape (n,) or (n, d), got rows of different lengths"
        raise DataError(msg) from error
    if array.dtype.kind in "US":
        return np.array(x, object)  # numbers stay numbers
    check_whole(x, array, f"variable {name!r}")
    return array


def _as_array(x: Any, name: str) -> NDArray[Any]:
    """Read an object that shares its memory by a protocol of arrays."""
    try:
        if hasattr(x, "__array__") or hasattr(x, "__array_interface__") or _is_buffer(x):
            return np.asarray(x)
        if hasattr(x, "__dlpack__"):
            return np.from_dlpack(x)
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        msg = (
            f"variable {name!r} is a {type(x).__name__} that NumPy cannot read ({said}): copy it "
            "to the memory of the processor as a NumPy array first"
        )
        raise DataError(msg) from error
    msg = f"variable {name!r} must be {_KNOWN}, got {type(x).__name__}"
    if hasattr(x, "__iter__"):
        msg += ": call list() on it"
    raise DataError(msg)


def _is_buffer(x: Any) -> bool:
    try:
        return memoryview(x).ndim > 0
    except TypeError:
        return False


def open_array(array: Any, name: str, columns: ColumnChoice = None) -> Variable:
    """An array of zarr, or columns of it."""
    if array.ndim not in (1, 2):
        raise _shape_error(name, array.shape)
    return _with_shape(_numeric(stored_source(array, name, columns)))


def _labelled(x: Any, name: str) -> Variable:
    """An xarray variable, with the labels of its columns."""
    # Not read yet: a lazy backend of xarray, which tasks slice by themselves.
    lazy = x.chunks is None and not isinstance(x.variable._data, np.ndarray)
    if lazy and isinstance(x.dtype, np.dtype):  # categories are of pandas, in memory
        source: Variable = _with_shape(
            _numeric(Variable(name, x.variable, marks=marks_of(x.variable, name)))
        )
    else:
        data, marks = x.data, marks_of(x, name)
        if marks is not None and x.chunks is not None:
            data = data.map_blocks(marks.decoded, name, dtype=np.float64)
        elif marks is not None:
            data = marks.decoded(data, name)
        source = open_one(data, name)
        source = source if source.is_stored else replace(source, marks=marks)
    source = replace(source, kinds=kinds_said(x.attrs, source.shape[1]) or source.kinds)
    if x.ndim == 2 and x.dims[1] in x.coords:
        return replace(source, labels=tuple(map(str, x.coords[x.dims[1]].values.tolist())))
    return source


def _dask_frame(x: Any, name: str) -> Variable:
    """A Dask data frame or a column of one; known categories become codes."""
    # A series has no columns to assign codes to.
    frame = x.to_frame(name if x.name is None else x.name) if x.ndim == 1 else x
    frame = frame.rename(columns=str)
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
    columns = (part[column].dropna().to_numpy() for column in part.columns)
    check_exact(f"variable {name!r}", *columns)
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
        f"{column.dtype}: call .astype('category').cat.as_known() on labels, or make numbers of it"
    )
    raise DataError(msg)


def _graph(x: Any, name: str) -> Variable:
    if any(np.isnan(size) for size in x.shape):
        msg = f"variable {name!r} has unknown chunk sizes: call .compute_chunk_sizes() on it first"
        raise DataError(msg)
    if x.ndim not in (1, 2):
        raise _shape_error(name, x.shape)
    source = _with_shape(_numeric(Variable(name, x[:, None] if x.ndim == 1 else x)))
    # Of every array: whether a block has a mask shows when it is computed.
    floats = isinstance(x._meta, np.ma.MaskedArray) and x.dtype.kind != "f"
    array = source.array.map_blocks(unmasked, dtype=np.float64 if floats else x.dtype)
    return replace(source, array=array)


def _sparse(x: Any, name: str) -> Variable:
    if x.ndim != 2:
        raise _shape_error(name, x.shape)
    # CSR is the format of SciPy whose rows are sliced without a search.
    source = Variable(name, Densified(x.tocsr()))
    return _with_shape(_numeric(source))


def _numeric(source: Variable) -> Variable:
    """Refuse what is stored or computed as anything but numbers."""
    if (error := unusable(f"variable {source.name!r}", source.array.dtype)) is not None:
        raise error
    if source.array.ndim not in (1, 2):
        raise _shape_error(source.name, source.array.shape)
    if source.kinds is None and np.dtype(source.array.dtype).kind == "b":
        boolean: ValueKind = "boolean"
        return replace(source, kinds=(boolean,) * source.shape[1])
    return source


def _with_shape(source: Variable) -> Variable:
    n, d = source.shape
    if n == 0 or d == 0:
        msg = f"variable {source.name!r} must have rows and columns, got {n} x {d}"
        raise DataError(msg)
    return source


def _shape_error(name: str, shape: tuple[int, ...]) -> DataError:
    return DataError(f"variable {name!r} must have shape (n,) or (n, d), got {tuple(shape)}")
