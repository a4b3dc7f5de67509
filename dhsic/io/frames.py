"""Data frames of every library, a column at a time, by narwhals."""

from __future__ import annotations

import sys
from collections.abc import Container, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhsic._validation import nearest, shown
from dhsic.engine.blocks import check_exact
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.io.encode import (
    Encoded,
    codes_of_labels,
    encode,
    encode_codes,
    encode_text,
    side_by_side,
)
from dhsic.io.variables import Variable

_WIDE = ("Int128", "UInt128")  # which NumPy has not


def as_frame(x: Any) -> Any:
    """A data frame or series of narwhals, or None where x is no such thing.

    Raises
    ------
    DataError
        It is not computed yet, or two of its columns have the same name.
    """
    if isinstance(x, np.ndarray | str | bytes | list | tuple | dict | range):
        return None
    import narwhals as nw  # a tenth of a second, and arrays do without

    arrow = sys.modules.get("pyarrow")
    if arrow is not None and isinstance(x, arrow.RecordBatch):
        x = arrow.Table.from_batches([x])
    elif arrow is not None and isinstance(x, arrow.Array):
        x = arrow.chunked_array([x])
    if arrow is not None and isinstance(x, arrow.Table):
        x = x.drop_columns(index_of_pandas(x.schema, named=False))
        for at in map(x.schema.get_field_index, categories_of_pandas(x.schema)):
            x = x.set_column(at, x.schema.names[at], x.column(at).dictionary_encode())
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(x, pandas.DataFrame):
        # Names may be numbers or tuples, which narwhals does not select by.
        x = x.set_axis(names_of_columns(x.columns), axis=1)
    try:
        frame = nw.from_native(x, pass_through=True, allow_series=True)
    except nw.exceptions.DuplicateError as error:
        msg = f"columns of a data frame must have different names ({error}): rename them"
        raise DataError(msg.replace("\n", " ")) from error
    if isinstance(frame, nw.LazyFrame):
        msg = f"a {type(x).__name__} is not computed yet: call .collect() on it first"
        raise DataError(msg)
    return frame if isinstance(frame, nw.DataFrame | nw.Series) else None


def names_of_columns(keys: Iterable[Any]) -> list[str]:
    """Name columns by text: of 1 and "1", which are alike as such, by what Python writes."""
    listed = list(keys)
    names = [str(key) for key in listed]
    return names if len(set(names)) == len(names) else [repr(key) for key in listed]


def categories_of_pandas(schema: Any) -> list[str]:
    """Columns of Arrow that were categories to pandas; Parquet keeps those of text alone."""
    told = (schema.pandas_metadata or {}).get("columns", ())
    names = [one.get("field_name") for one in told if one.get("pandas_type") == "categorical"]
    return [name for name in names if schema.names.count(name) == 1]


def index_of_pandas(schema: Any, *, named: bool = True) -> list[str]:
    """Columns of Arrow that hold the labels of rows of pandas; those with a name of their own too.

    Labels that pandas only counts may be of the rows of another table, and are not among them.
    """
    told = (schema.pandas_metadata or {}).get("index_columns", ())
    names = [name for name in told if isinstance(name, str) and schema.names.count(name) == 1]
    if named:  # some levels of several, as a choice of columns leaves them, are no labels of rows
        return names if len(names) == len(told) else []
    return [name for name in names if name.startswith("__index_level_")]


def frame_source(frame: Any, name: str) -> Variable:
    """A data frame or series of narwhals as a variable.

    Columns of one numeric type are not copied where their library has them as one array.

    Raises
    ------
    DataError
        A column holds neither numbers nor labels, or there is none.
    """
    data_name = f"variable {name!r}"
    if not hasattr(frame, "columns"):
        values, kind, categories = _encoded_column(frame, data_name)
        own = None if frame.name in (None, "") else (str(frame.name),)
        return Variable(name, values, kinds=(kind,), labels=own, categories=(categories,))
    labels = tuple(map(str, frame.columns))
    if not labels:
        msg = f"{data_name} must have rows and columns, got {len(frame)} x 0"
        raise DataError(msg)
    types = list(frame.schema.values())
    if len(set(map(str, types))) == 1 and types[0].is_numeric() and str(types[0]) not in _WIDE:
        values = frame.to_numpy()
        if values.dtype.kind in "fiu":
            for column in frame.iter_columns():
                _check_digits(column, values, data_name)
            return Variable(name, values, labels=labels)
    words = [f"column {label!r} of {data_name}" for label in labels]
    words = [data_name] if len(labels) == 1 else words
    columns = [*map(_encoded_column, frame.iter_columns(), words)]
    values, kinds, categories = side_by_side(columns, data_name)
    return Variable(name, values, kinds=kinds, labels=labels, categories=categories)


def list_of_columns(variable: Any, known: Container[str] = ()) -> list[Any]:
    """The names of several columns that make one variable: text, or what known columns have.

    Raises
    ------
    InvalidArgumentError
        It is no list of names.
    """
    listed = isinstance(variable, Sequence) and len(variable)
    if not listed or not all(isinstance(x, str | int | tuple) or str(x) in known for x in variable):
        msg = (
            "with data=, a variable must be the name of a column or a list of names, got "
            f"{shown(variable)}: leave out data= to pass arrays"
        )
        raise InvalidArgumentError(msg)
    return list(variable)


def unknown_column(name: Any, known: Sequence[str]) -> InvalidArgumentError:
    """The error of a name that the data do not have."""
    return InvalidArgumentError(
        f"the data have no column {name!r}; there are: {', '.join(known) or 'none'}"
        f"{nearest(str(name), known)}"
    )


def _encoded_column(column: Any, data_name: str) -> Encoded:
    import narwhals as nw

    native = column.to_native()
    if (coded := _arrow_codes(native)) is not None:
        encoded = encode_text if column.dtype == nw.String else encode_codes
        return encoded(*coded, data_name)
    if column.dtype in (nw.Categorical, nw.Enum):
        codes = getattr(getattr(native, "cat", None), "codes", None)  # of pandas, ready made
        if codes is None:
            return encode_codes(*codes_of_labels(column.to_list()), data_name)
        return encode_codes(codes.to_numpy(), native.cat.categories, data_name)
    # For the error alone, which is that of arrays of times.
    if column.dtype in (nw.Datetime, nw.Date):
        return encode(np.array([], "M8[s]"), data_name)
    if column.dtype in (nw.Duration, nw.Time):
        return encode(np.array([], "m8[s]"), data_name)
    # Lists and structures of several values, and types that Arrow stores as another.
    held = getattr(native, "type", column.dtype)
    unknown = str(held) in _WIDE or hasattr(held, "extension_name")
    if unknown or (values := column.to_numpy()).ndim > 1:
        msg = (
            f"{data_name} must have one number or label a row, got {held}: make a column of each "
            "part, or numbers of 64 bits or text of it"
        )
        raise DataError(msg)
    _check_digits(column, values, data_name)
    return encode(values, data_name)


def _check_digits(column: Any, values: NDArray[Any], data_name: str) -> None:
    """Refuse integers that became floats, since some are missing, and lost digits so."""
    if values.dtype.kind == "f" and column.dtype.is_integer():
        check_exact(data_name, column.drop_nulls().to_numpy())


def _arrow_codes(column: Any) -> tuple[NDArray[Any], list[Any]] | None:
    """Codes of the labels of an Arrow column, -1 where one is missing, and the labels."""
    arrow = sys.modules.get("pyarrow")
    if arrow is None or not isinstance(column, arrow.ChunkedArray):
        return None
    types = arrow.types
    if types.is_string(column.type) or types.is_large_string(column.type):
        column = column.dictionary_encode()
    if not types.is_dictionary(column.type):
        return None
    # Every chunk of a column may have a dictionary of its own.
    coded = column.unify_dictionaries().combine_chunks()
    codes = coded.indices.cast("int64").fill_null(-1).to_numpy(zero_copy_only=False)
    return codes, coded.dictionary.to_pylist()
