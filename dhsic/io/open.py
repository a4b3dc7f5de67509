"""Open variables that belong together, and samples of the same columns."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dhsic._validation import shown
from dhsic.engine.blocks import Source
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.io.encode import rare_labels_taken
from dhsic.io.forms import open_array, open_one
from dhsic.io.labelled import (
    check_same_columns,
    coded_alike,
    columns_as_variables,
    names_of,
    pick_variables,
)
from dhsic.io.libraries import is_of
from dhsic.io.missing import check_missing, without_missing
from dhsic.io.row_labels import check_row_labels
from dhsic.io.stored import member_of, open_stored, sharing
from dhsic.io.tables import is_table, open_table_variables, table_index
from dhsic.io.variable_texts import chosen_columns, parse_variable
from dhsic.io.variables import Variable


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
        data, names = columns_as_variables(data[0], names)
    if len(data) < 2:
        msg = (
            f"an independence test needs at least two variables, got {len(data)}: give another, or "
            "one of several columns, which stand for variables"
        )
        raise InvalidArgumentError(msg)
    given = _checked_names(data, names, "variable")
    return _aligned_sources([open_one(x, name) for x, name in zip(data, given, strict=True)])


def open_data(
    variables: Sequence[Any], names: Sequence[str] | None, data: Any, missing: str
) -> tuple[list[Source], int]:
    """Open variables, or what is named of data, and leave out rows that miss a value if asked to.

    Parameters
    ----------
    variables : sequence
        As for `open_variables`; or names where data is given, none for all that it has.
    names : sequence of str or None
        As for `open_variables`.
    data : object
        A data frame, Dataset, dictionary of columns, zarr group or its path, or path of a CSV or
        Parquet file; None for none. One variable that is a zarr group is taken for the data.
    missing : {"refuse", "drop"}
        Treatment of rows with a missing value.

    Returns
    -------
    sources, dropped : list of source, int
        The variables, and how many rows were left out.
    """
    sources, _, dropped = open_labelled_data(variables, names, data, missing, {})
    return sources, dropped


def open_labelled_data(
    variables: Sequence[Any],
    names: Sequence[str] | None,
    data: Any,
    missing: str,
    labels: Mapping[str, Any],
    *,
    pairwise: bool = False,
) -> tuple[list[Source], dict[str, Source], int]:
    """As `open_data`, with labels of the same rows.

    Parameters
    ----------
    variables, names, data, missing
        As for `open_data`.
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
        told = [_labels_of(given, what, data) for what, given in labels.items()]
    if data is None:
        opened = _named_or_opened(variables, names, told)
    elif isinstance(data, str | os.PathLike) or is_of(data, "zarr", "Group"):
        opened = _of_group(data, variables, names)
        if told:
            check_row_labels([table_index(data), *told])
    else:
        chosen, names_of_columns = pick_variables(variables, data) if variables else ([data], None)
        # A table of Arrow has the labels of its rows in a column beside those that are named.
        names = names_of_columns if names is None else names
        opened = open_variables(chosen, names, [table_index(data), *told])
    with rare_labels_taken():
        beside = [open_one(x, what) for x, what in zip(told, labels, strict=True)]
    # Before gaps are looked for, which pairs the rows of all.
    n = opened[0].shape[0]
    for what, labelled in zip(labels, beside, strict=True):
        if labelled.shape[0] != n:
            msg = f"{what} must have a value for each of the {n} rows, got {labelled.shape[0]}"
            raise DataError(msg)
    # Together: a row that misses its label is left out of all variables.
    kept, dropped = without_missing([*opened, *beside], missing)
    sources = kept[: len(opened)]
    return sources, dict(zip(labels, kept[len(opened) :], strict=True)), dropped


def _labels_of(given: Any, what: str, data: Any) -> Any:
    """Labels that are given themselves, or by the names of columns of the data."""
    # A list of texts is names of columns only where there are columns to name.
    named = isinstance(given, str) or (
        isinstance(given, list | tuple) and given and all(isinstance(name, str) for name in given)
    )
    if data is None or not named:
        return given
    if isinstance(data, str | os.PathLike) or is_of(data, "zarr", "Group"):
        if not isinstance(given, str):
            msg = (
                f"{what} of a zarr group or a file must be one array or column of it, got {given!r}"
            )
            raise InvalidArgumentError(msg)
        (member,) = _members(data, [given], False)
        return member
    (chosen,), _ = pick_variables([given], data)
    return chosen


def _of_group(data: Any, variables: Sequence[Any], names: Sequence[str] | None) -> list[Variable]:
    """Arrays of a zarr group or columns of a table, all of them where none is named."""
    if is_table(data):
        return _renamed(open_table_variables(data, variables), names)
    group = open_stored(os.fspath(data), "group") if isinstance(data, str | os.PathLike) else data
    # By name, since a store lists its arrays in any order.
    variables = variables or sorted(key for key, _ in group.arrays())
    return _renamed(open_group(group, _variable_texts(variables)), names)


def _variable_texts(variables: Sequence[Any]) -> list[str]:
    if all(isinstance(variable, str) for variable in variables):
        return list(variables)
    msg = (
        "of a zarr group, variables must be arrays or columns of one, as 'features[:, 0:12]', "
        f"got {list(variables)}: store several arrays as one, (n, d), or read them where they fit "
        "the memory, and pass a dictionary of arrays for each variable"
    )
    raise InvalidArgumentError(msg)


def _renamed(opened: list[Variable], names: Sequence[str] | None) -> list[Variable]:
    given = _checked_names(opened, names, "variable")
    return [replace(source, name=name) for source, name in zip(opened, given, strict=True)]


def _named_or_opened(
    variables: Sequence[Any], names: Sequence[str] | None, beside: Sequence[Any]
) -> list[Variable]:
    """Variables that are given themselves; a name alone is no data."""
    try:
        return open_variables(variables, names, beside)
    except DataError as error:
        if any(isinstance(variable, str) for variable in variables):
            msg = f"{error}; to choose columns by name, pass the table too, as data=table"
            raise DataError(msg) from error
        raise


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
    pairs = zip(data, _checked_names(data, names, "sample"), strict=True)
    # A small sample may have a few of the labels that repeat in others.
    with rare_labels_taken(fewer_than=len(data)):
        sources = [open_one(x, name) for x, name in pairs]
    check_same_columns(sources)
    # Samples are of the same columns, and equal texts in them are to have equal codes.
    return coded_alike(sources)


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
        As for `open_data`.
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
    chosen = samples
    if isinstance(data, str | os.PathLike) or is_of(data, "zarr", "Group"):
        chosen = _members(data, samples if is_table(data) else _variable_texts(samples), False)
    elif data is not None:
        chosen, names_of_columns = pick_variables(samples, data)
        names = names_of_columns if names is None else names
    opened = open_samples(chosen, names)
    with rare_labels_taken():
        beside = [
            _labels_of_samples(given, what, data, chosen, opened) for what, given in labels.items()
        ]
    # Each by itself, since samples are of different rows.
    parts = [without_missing(list(rows), missing) for rows in zip(opened, *beside, strict=True)]
    kept = [[sources[k] for sources, _ in parts] for k in range(1 + len(beside))]
    return kept[0], dict(zip(labels, kept[1:], strict=True)), sum(count for _, count in parts)


def _labels_of_samples(
    given: Any, what: str, data: Any, chosen: Sequence[Any], samples: Sequence[Variable]
) -> list[Variable]:
    """Labels of the rows of every sample; equal ones are equal in all of them."""
    if not isinstance(given, list | tuple) or len(given) != len(samples):
        got = len(given) if isinstance(given, list | tuple) else f"one {type(given).__name__}"
        msg = (
            f"{what} must be a list with the labels of each of the {len(samples)} samples, in "
            f"their order, got {got}: give [labels of the first, labels of the second]"
        )
        raise InvalidArgumentError(msg)
    told = [_labels_of(labels_of_sample, what, data) for labels_of_sample in given]
    index = table_index(data)
    for rows in zip(chosen, told, strict=True):
        check_row_labels([index, *rows])
    opened = [
        open_one(x, f"{what} of {sample.name!r}") for x, sample in zip(told, samples, strict=True)
    ]
    for source, sample in zip(opened, samples, strict=True):
        if source.shape[0] != sample.shape[0]:
            msg = (
                f"{what} must have a label for each of the {sample.shape[0]} rows of "
                f"{sample.name!r}, got {source.shape[0]}"
            )
            raise DataError(msg)
    # Labels of all samples are compared, as moves go between samples.
    check_same_columns(opened)
    return coded_alike(opened)


def open_group(
    path: Any, variables: Sequence[str], *, allow_missing_chunks: bool = False
) -> list[Variable]:
    """Open variables of a zarr group.

    Parameters
    ----------
    path : str or zarr.Group
        Path or URL of the group, or the group; a URL holds no credentials. Or a CSV or Parquet
        file, which is read into memory.
    variables : sequence of str
        Each ``array``, ``array[:, columns]`` or ``name=array[:, columns]``, where columns are
        written as in NumPy, ``0:10``, ``3``, ``0,2,5``, or by the names that the array's attribute
        ``columns`` lists; of a table ``column``, or ``name=column,column``.
    allow_missing_chunks : bool, optional
        As for `dhsic.stored_array`, of all of them.

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
    opened = _members(path, variables, allow_missing_chunks)
    names = [source.name for source in opened]
    if len(opened) < 2 or len(set(names)) != len(names):
        msg = f"a test needs two or more variables of different names, got {names!r}"
        raise InvalidArgumentError(msg)
    # Variables that are cut from one array share its reads.
    return _aligned_sources(opened)


def open_group_labels(
    path: Any, labels: str, what: str, *, allow_missing_chunks: bool = False
) -> Variable:
    """Open labels of rows in a zarr group or a table, as `open_group` variables; one array."""
    with rare_labels_taken():
        (member,) = _members(path, [labels], allow_missing_chunks)
    return replace(member, name=what)


def open_group_samples(
    path: Any, samples: Sequence[str], *, allow_missing_chunks: bool = False
) -> list[Variable]:
    """Open samples in a zarr group, as `open_group` variables, and `open_samples` the samples."""
    return open_samples(_members(path, samples, allow_missing_chunks))


def _members(path: Any, variables: Sequence[str], allow_missing_chunks: bool) -> list[Variable]:
    """Arrays of a group or columns of them, or columns of a table."""
    if is_table(path):
        return open_table_variables(path, variables)
    group = path
    if not is_of(path, "zarr", "Group"):
        group = open_stored(os.fspath(path), "group", fills=allow_missing_chunks)
    opened: list[Variable] = []
    for text in variables:
        name, key, chosen = parse_variable(text)
        array = member_of(group, key, text, str(path))
        columns = None if chosen is None else chosen_columns(chosen, array, text)
        source = open_array(array, name, columns)
        opened.append(replace(source, allow_missing_chunks=allow_missing_chunks))
    return opened


def _checked_names(data: Sequence[Any], names: Sequence[str] | None, what: str) -> list[str]:
    """The names that were given, or those that the data have, all different."""
    # Names of NumPy are a sequence too, and a text is one of letters.
    listed = np.ndim(names) == 1 if isinstance(names, np.ndarray) else isinstance(names, Iterable)
    if isinstance(names, str | Mapping) or not (listed or names is None):
        msg = f"names must be a sequence of words, one a {what}, got {shown(names)}: give a list"
        raise InvalidArgumentError(msg)
    given = names_of(data) if names is None else [_word(name) for name in names]
    words = {name for name in given if isinstance(name, str)}
    if not len(words) == len(given) == len(data):
        msg = f"names must be {len(data)} different words, one a {what}, got {shown(given)}"
        raise InvalidArgumentError(msg)
    return given


def _word(name: Any) -> Any:
    return str(name) if isinstance(name, str) else name  # of NumPy too


def _aligned_sources(sources: Sequence[Variable]) -> list[Variable]:
    if len({source.shape[0] for source in sources}) > 1:
        lengths = ", ".join(f"{source.name!r} {source.shape[0]}" for source in sources)
        msg = f"variables must have the same rows, one observation each; got {lengths}"
        raise DataError(msg)
    return sharing(sources)
