"""Named arrays with attributes, in a file or a zarr group; kernels as text."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhsic._files import check_regular, parse_json
from dhsic._validation import check_flag, check_path
from dhsic.errors import DataError, DhsicError, InvalidArgumentError
from dhsic.io.chunks import inventory_of
from dhsic.io.open import check_metadata
from dhsic.io.urls import is_url, redacted
from dhsic.io.whole import written_whole
from dhsic.kernels import Kernel, kernel_of_plain, plain_kernel

_ATTRIBUTES = "attributes"
_FORMAT = "dhsic mean embedding 1"


def write_record(
    path: str | Path,
    arrays: Mapping[str, NDArray[Any]],
    attributes: Mapping[str, Any],
    *,
    overwrite: bool,
) -> None:
    """Write arrays and attributes to a file ``*.npz``, or to a zarr group.

    Parameters
    ----------
    path : str or Path
        A path, or the URL of a zarr group.
    arrays : mapping of str to ndarray
        Arrays of any shape.
    attributes : mapping
        JSON values.
    overwrite : bool
        Replace what is there.

    Raises
    ------
    InvalidArgumentError
        Something is there that is not to be replaced.
    DataError
        It cannot be written.
    """
    path = check_path("path", path)
    check_flag("overwrite", overwrite)
    told = {"format": _FORMAT, **attributes}
    if not is_url(str(path)) and os.path.exists(path) and not overwrite:
        msg = f"{path} already exists: choose another path, or pass overwrite=True"
        raise InvalidArgumentError(msg)
    if str(path).endswith(".npz"):
        with written_whole(Path(path)) as partial, partial.open("wb") as file:
            whole: dict[str, Any] = {_ATTRIBUTES: np.array(json.dumps(told)), **arrays}
            np.savez(file, **whole)
        return
    import zarr  # slow to import
    from zarr.codecs import Crc32cCodec

    try:
        # "w-" refuses a group that is there already.
        group = zarr.open_group(_store(path, read_only=False), mode="w" if overwrite else "w-")
        for name, values in arrays.items():
            whole = {"write_empty_chunks": True}  # so that one that is lost is not taken for zeros
            group.create_array(name, data=values, compressors=Crc32cCodec(), config=whole)
        group.attrs.update(told)  # last: a group without them is no record
    except DhsicError:
        raise
    except Exception as error:
        shown = redacted(str(path))
        msg = f"cannot write a zarr group at {shown} ({type(error).__name__}: {error})"
        raise DataError(msg) from error


def read_record(path: str | Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Read what `write_record` wrote.

    Parameters
    ----------
    path : str or Path
        A path, or the URL of a zarr group.

    Returns
    -------
    arrays, attributes : dict

    Raises
    ------
    DataError
        There is no such record.
    """
    path = check_path("path", path)
    try:
        arrays, told = _read_embedding(path)
        if told.pop("format") != _FORMAT:
            msg = "another format"
            raise ValueError(msg)
    except DhsicError:
        raise
    except Exception as error:  # of zarr, where metadata are damaged, it may be any
        shown = redacted(str(path))
        said = type(error).__name__
        msg = f"{shown} holds no mean embedding that can be read ({said}): check the path"
        raise DataError(msg) from error
    return arrays, told


def _read_embedding(path: str | Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    if str(path).endswith(".npz"):
        check_regular(path)
        # A pickle could run code of whoever wrote it.
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
        return arrays, parse_json(str(arrays.pop(_ATTRIBUTES)))
    import zarr

    if not is_url(str(path)):
        check_metadata(path)
    group = zarr.open_group(_store(path, read_only=True), mode="r")
    return {name: _complete(array, name) for name, array in group.arrays()}, dict(group.attrs)


def _complete(array: Any, name: str) -> NDArray[Any]:
    inventory = inventory_of(array, name)
    # An absent chunk would read as zeros.
    if inventory is not None and inventory.absent:
        msg = f"chunks of {name!r} are absent"
        raise ValueError(msg)
    values: NDArray[Any] = array[:]
    return values


def _store(path: str | Path, *, read_only: bool) -> Any:
    if not is_url(str(path)):
        return str(path)
    from dhsic.io.storage import RemoteStore  # by zarr

    return RemoteStore(str(path), read_only=read_only)


def kernel_json(kernel: Kernel) -> str:
    """A fitted kernel of this package as JSON, with its origin.

    Examples
    --------
    >>> from dhsic.kernels import Gaussian
    >>> kernel_json(Gaussian(gamma=0.5, origin=(1.0,)))
    '{"kernel": "Gaussian", "origin": [1.0], "gamma": 0.5}'
    """
    return json.dumps(plain_kernel(kernel))


def kernel_of_text(text: str) -> Kernel:
    """Read what `kernel_json` wrote.

    Examples
    --------
    >>> kernel_of_text('{"kernel": "Gaussian", "origin": [1.0], "gamma": 0.5}')
    Gaussian(origin=(1.0,), gamma=0.5)
    """
    return kernel_of_plain(parse_json(text))
