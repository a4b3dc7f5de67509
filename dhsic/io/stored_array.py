"""A zarr array as a variable, whose chunks need not all be there."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from dhsic._validation import check_flag, named_arguments, shown
from dhsic.errors import InvalidArgumentError
from dhsic.io.forms import open_array
from dhsic.io.labelled import names_of
from dhsic.io.libraries import is_of
from dhsic.io.stored import open_stored
from dhsic.io.variables import Variable


@named_arguments
def stored_array(place: Any, *, allow_missing_chunks: bool = False) -> Variable:
    """Open a zarr array as a variable.

    Parameters
    ----------
    place : str, path or zarr.Array
        Path or URL of the array, or the array.
    allow_missing_chunks : bool, optional
        Whether chunks may be absent, as where their writer left out those that hold the fill value
        alone, which zarr does unless ``write_empty_chunks`` is set. They are read as the fill
        value. Where not, a run over the array is refused with the rows that are absent.

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
    if not is_of(array, "zarr", "Array"):
        msg = f"place must be a zarr array, its path or its URL, got {shown(place)}"
        raise InvalidArgumentError(msg)
    return replace(open_array(array, name), allow_missing_chunks=allow_missing_chunks)
