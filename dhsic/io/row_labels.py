"""Labels of rows, which say whether the rows of several variables belong together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.graphs import compute_graphs
from dhsic.errors import DataError
from dhsic.io.frames import index_of_pandas
from dhsic.io.libraries import holds_columns, is_of


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
    every = list(_single(data))
    _check_dimensions([x for x in every if is_of(x, "xarray", "DataArray")])
    # Polars has no index, nor have arrays.
    held = [index for x in every if (index := _index_in_memory(x)) is not None]
    lazy = {_origin(x): x for x in every if _is_labelled_later(x)}
    alike = all(index.equals(held[0]) for index in held[1:])
    if alike and len(lazy) + bool(held) < 2:
        return
    # Equal labels of several types, as Int64 and int64, are not equal to pandas.
    sums = [_added([_sums_of(index)]) for index in (held[:1] if alike else held)]
    if len(set(sums)) < 2:
        sums += map(_added, compute_graphs(*map(_lazy_sums, lazy.values())))
        if len(set(sums)) == 1:
            return
    what = "in the same order" if len({total[:2] for total in sums}) == 1 else "the same"
    msg = (
        f"pandas, xarray and Dask variables must have the same index: rows are paired by position, "
        f"and their labels are not {what}. Align them, as by pandas.concat(..., axis=1, "
        "join='inner'), xarray.align or .join of Dask, or call .reset_index(drop=True), "
        ".drop_vars(...) or .to_dask_array(lengths=True) on each if positions are right"
    )
    raise DataError(msg)


def _single(data: Iterable[Any]) -> Iterator[Any]:
    """Variables, and those that are held by name, one by one."""
    for x in data:
        yield from _single(x[key] for key in x) if holds_columns(x) else (x,)


def _check_dimensions(arrays: Sequence[Any]) -> None:
    for x in arrays:
        for other in arrays:
            # The rows of one are columns of the other: the lengths may agree by chance.
            if x.dims[:1] != other.dims[:1] and set(x.dims[:1]) & set(other.dims):
                msg = (
                    f"rows must be the first dimension of every variable, got {x.dims} and "
                    f"{other.dims}: call .transpose({x.dims[0]!r}, ...) on the second"
                )
                raise DataError(msg)


def _index_in_memory(x: Any) -> Any:
    """The index of the rows of pandas and xarray data, or of a table of Arrow that stores one."""
    if is_of(x, "pandas", "DataFrame", "Series"):
        return x.index
    if is_of(x, "xarray", "DataArray") and x.ndim:
        return x.indexes.get(x.dims[0])
    if is_of(x, "pyarrow", "Table", "RecordBatch") and (stored := index_of_pandas(x.schema)):
        return x.select(stored).to_pandas().index
    return None


def _is_labelled_later(x: Any) -> bool:
    # An index of Dask is a series without one.
    return is_of(x, "dask.dataframe", "DataFrame", "Series") and hasattr(x, "index")


def _origin(x: Any) -> str:
    """The name of the frame of Dask that columns were chosen of."""
    expression = x.expr
    while type(expression).__name__ == "Projection":
        expression = expression.frame
    return str(expression._name)


def _lazy_sums(x: Any) -> list[Any]:
    from dask import delayed

    return [delayed(_sums_of)(labels) for labels in x.index.to_delayed()]


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
