"""Labels of data: names of variables and columns."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from dhsic._validation import shown
from dhsic.engine.blocks import check_exact, kinds_of, labels_of
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.io.encode import Labels
from dhsic.io.forms import join_columns, open_one
from dhsic.io.frames import as_frame, part_of_frame, unknown_column
from dhsic.io.libraries import holds_columns, is_of
from dhsic.io.variables import Variable


def names_of(data: Sequence[Any], usual: Sequence[str] | None = None) -> list[str]:
    """The names that data have of their own, or the usual ones: x1, x2, ... where not given.

    Names that several have say nothing of any, and are not taken.

    Examples
    --------
    >>> import pandas as pd
    >>> names_of([pd.Series([1, 2], name="AT"), [3, 4]])
    ['AT', 'x2']
    """
    # Columns of two tables may have one name: it tells neither then.
    given_names = [_name_of_column(x) for x in data]
    counts = Counter(given_names)
    opened = [isinstance(x, Variable) for x in data]
    others = [f"x{number}" for number in range(1, len(data) + 1)] if usual is None else list(usual)
    names = [
        name if name is not None and (counts[name] == 1 or is_source) else other
        for name, other, is_source in zip(given_names, others, opened, strict=True)
    ]
    # A name of a user may be x2: all take the usual ones then, so that no two are alike.
    return names if len(set(names)) == len(names) or any(opened) else others


def _name_of_column(x: Any) -> str | None:
    # A variable that is opened already has the name that its user gave.
    if isinstance(x, Variable):
        return x.name
    if isinstance(x, str | bytes) or hasattr(x, "__fspath__"):
        return PurePosixPath(os.fsdecode(x).replace(os.sep, "/")).name.removesuffix(".zarr") or None
    if is_of(x, "zarr", "Array"):
        return x.basename or None
    if is_of(x, "dask.dataframe", "DataFrame") or is_of(x, "pandas", "DataFrame"):
        return str(x.columns[0]) if len(x.columns) == 1 else None
    if is_of(x, "dask.dataframe", "Series") or is_of(x, "xarray", "DataArray"):
        return None if x.name is None else str(x.name)
    if is_of(x, "dask.array", "Array") or holds_columns(x):
        return None
    frame = as_frame(x)
    columns = getattr(frame, "columns", None)
    if columns is not None:
        return str(columns[0]) if len(columns) == 1 else None
    name = getattr(frame, "name", None)
    return None if name in (None, "") else str(name)


def columns_as_variables(
    x: Any, names: Sequence[str] | None
) -> tuple[list[Any], Sequence[str] | None]:
    """Split one table, dictionary or matrix into a variable a column, with their names."""
    if holds_columns(x):
        held = {str(key): x[key] for key in x}
        return list(held.values()), list(held) if names is None else names
    source = open_one(x, "data")
    labels = labels_of(source) or [f"x{j}" for j in range(1, source.shape[1] + 1)]
    columns: list[Any] = single_columns(source, labels)
    return columns, list(labels) if names is None else names


def single_columns(source: Variable, names: Sequence[str]) -> list[Variable]:
    """Every column of a variable as a variable of its own."""
    changes: list[dict[str, Any]]
    d = source.shape[1]
    if source.place == "graph":
        changes = [{"array": source.array[:, j : j + 1]} for j in range(d)]
    else:
        known = source.categories
        changes = [
            {"columns": (j,), "categories": None if known is None else (known[at],)}
            for at, j in enumerate(source.columns or range(d))
        ]
    return [
        replace(source, name=name, kinds=(kind,), labels=(name,), **change)
        for name, kind, change in zip(names, kinds_of(source), changes, strict=True)
    ]


def pick_variables(variables: Sequence[Any], data: Any) -> tuple[list[Any], list[str]]:
    """Variables that are named, from the data that have them.

    Parameters
    ----------
    variables : sequence of str, or of sequences of str
        A column each, or several that make one variable.
    data : object
        A data frame, Dataset, dictionary, or zarr group or its path.

    Returns
    -------
    variables, names : list, list of str

    Raises
    ------
    InvalidArgumentError
        A name is not there, or data has no names.
    """
    listed = [[columns] if isinstance(columns, str) else columns for columns in variables]
    for columns in listed:
        known = (
            isinstance(columns, Sequence)
            and len(columns) > 0
            and all(isinstance(c, str) for c in columns)
        )
        if not known:
            msg = (
                "with data=, a variable must be the name of a column or a list of names, got "
                f"{shown(columns)}: leave out data= to pass arrays"
            )
            raise InvalidArgumentError(msg)
    names = ["+".join(columns) for columns in listed]
    return [_part(data, columns, name) for columns, name in zip(listed, names, strict=True)], names


def _part(data: Any, columns: Sequence[str], name: str) -> Any:
    if holds_columns(data):
        # Keys may be numbers, which texts name all the same.
        known = {str(key): key for key in data}
        for column in columns:
            if column not in known:
                raise unknown_column(column, list(known))
        parts = {column: data[known[column]] for column in columns}
        return parts[columns[0]] if len(columns) == 1 else join_columns(parts, name)
    if is_of(data, "dask.dataframe", "DataFrame"):
        for column in columns:
            if column not in data.columns:
                raise unknown_column(column, list(map(str, data.columns)))
        return data[list(columns)]
    frame = as_frame(data)
    if not hasattr(frame, "columns"):
        msg = (
            "data must be a data frame, an xarray Dataset, a dict of columns, a zarr group, or the "
            f"path of one or of a CSV or Parquet file, got {type(data).__name__}: leave it out to "
            "pass arrays as variables"
        )
        raise InvalidArgumentError(msg)
    return part_of_frame(frame, columns)


def check_same_columns(samples: Sequence[Variable]) -> None:
    """Refuse samples whose columns are others, hold something else, or have another order.

    Raises
    ------
    DataError
        The message says what they hold.
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
            msg = (
                f"samples must have the same columns in the same order, got {labels_of(named[0])} "
                f"in {named[0].name!r} and {labels_of(sample)} in {sample.name!r}: choose those "
                "they share, or rename them"
            )
            raise DataError(msg)


def coded_alike(samples: Sequence[Variable]) -> list[Variable]:
    """Samples in which equal labels have equal codes; those of arrays in memory are changed.

    Raises
    ------
    DataError
        Stored codes stand for other labels than those of another sample.
    """
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
    for j, (labels_here, labels) in enumerate(zip(source.categories or (), joint, strict=True)):
        if labels_here is not None and labels is not None:
            places = {label: code for code, label in enumerate(labels)}
            # NaN stands behind the codes, for missing values.
            codes = np.array([*(places[label] for label in labels_here), np.nan])
            gaps = np.isnan(values[:, j])
            values[:, j] = codes[np.where(gaps, len(labels_here), values[:, j]).astype(np.intp)]
    return replace(source, array=values, columns=None, categories=tuple(joint))
