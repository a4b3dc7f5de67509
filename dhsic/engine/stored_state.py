"""Partial results as files: a checksum, a line of JSON for the structure, the bytes of arrays.

Nothing is unpickled: a file names the classes of its values, and only named tuples and dataclasses
of this package are made of them.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhsic._files import parse_json
from dhsic.engine.digest import bytes_of
from dhsic.errors import DhsicError

_MAGIC = b"dhsic-state-1\n"
_PACKAGE = "dhsic"
_UNREADABLE = (
    *(ValueError, LookupError, TypeError, AttributeError, MemoryError, ImportError),
    *(OverflowError, RecursionError),
)


class BrokenStateError(DhsicError):
    """A file is not what was written: torn, altered or of another kind."""


def pack(value: Any) -> list[bytes | memoryview]:
    """The parts of a file that holds a value.

    Parameters
    ----------
    value : object
        Arrays, numbers and text, in tuples, lists, named tuples and dataclasses of this package.

    Returns
    -------
    list of bytes or memoryview
        Those of arrays are views of them where these are contiguous.

    Raises
    ------
    TypeError
        Something else.
    """
    arrays: list[NDArray[Any]] = []
    structure = json.dumps(_written(value, arrays)).encode() + b"\n"
    blocks = [bytes_of(array) for array in arrays]
    # Over structure and arrays, and not the name, so that a file can be checked by itself.
    checksum = hashlib.sha256(structure)
    for block in blocks:
        checksum.update(block)
    return [_MAGIC + checksum.hexdigest().encode() + b"\n", structure, *blocks]


def unpack(file: Any) -> Any:
    """The value that a binary file holds.

    Raises
    ------
    BrokenStateError
        The file is torn or altered.
    """
    # The checksum has 64 hexadecimal digits and a line feed.
    head = file.read(len(_MAGIC) + 65)
    structure = file.readline()
    checksum = hashlib.sha256(structure)
    try:
        described = parse_json(structure)
        arrays = list(_read_arrays(file, described, checksum))
        whole = head == _MAGIC + checksum.hexdigest().encode() + b"\n" and not file.read(1)
        value = _restored_value(described, iter(arrays)) if whole else None
    except _UNREADABLE as error:
        msg = f"it cannot be read: {error}"
        raise BrokenStateError(msg) from error
    if not whole:
        msg = "its checksum is wrong"
        raise BrokenStateError(msg)
    return value


def _written(value: Any, arrays: list[NDArray[Any]]) -> Any:
    """The structure of a value; its arrays are put into the list in the order of their places."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, np.generic) or type(value) is np.ndarray:
        return _written_array(np.asarray(value), isinstance(value, np.generic), arrays)
    if type(value) in (tuple, list):
        return {"in": type(value).__name__, "of": [_written(item, arrays) for item in value]}
    return {
        "in": _class_name(type(value)),
        "of": [_written(getattr(value, name), arrays) for name in _field_names(type(value))],
    }


def _written_array(array: NDArray[Any], scalar: bool, arrays: list[NDArray[Any]]) -> Any:
    if array.dtype.kind not in "biufc":
        msg = f"an array of {array.dtype} cannot be kept"
        raise TypeError(msg)
    # In the order in which its axes lie in memory, which later rounding may depend on.
    order = sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))
    arrays.append(array.transpose(order))
    return {
        "in": "scalar" if scalar else "array",
        "dtype": array.dtype.str,
        "shape": [array.shape[axis] for axis in order],
        "order": order,
    }


def _class_name(cls: type) -> str:
    name = f"{cls.__module__}:{cls.__qualname__}"
    try:
        known = _class_of_name(name)
    except BrokenStateError:
        known = None
    # By name and back: only then can the file be read.
    if known is not cls:
        msg = f"a {name} cannot be kept: states are named tuples or dataclasses of {_PACKAGE}"
        raise TypeError(msg)
    return name


def _class_of_name(name: str) -> type:
    """A named tuple or dataclass of this package, by its name."""
    module, _, path = name.partition(":")
    target: Any = None
    # Modules of this package alone: a file must not choose which code is imported.
    if module.split(".")[0] == _PACKAGE:
        target = importlib.import_module(module)
        for part in path.split("."):
            target = getattr(target, part, None)
    kept = isinstance(target, type) and (
        dataclasses.is_dataclass(target)
        or (issubclass(target, tuple) and hasattr(target, "_fields"))
    )
    if not kept or not target.__module__.startswith(_PACKAGE):
        msg = f"{name} is no class of a state"
        raise BrokenStateError(msg)
    return target  # type: ignore[no-any-return]


def _field_names(cls: Any) -> Sequence[str]:
    if dataclasses.is_dataclass(cls):
        return [field.name for field in dataclasses.fields(cls)]
    return cls._fields  # type: ignore[no-any-return]


def _read_arrays(file: Any, described: Any, checksum: Any) -> Iterator[NDArray[Any]]:
    if not isinstance(described, dict):
        return
    if described["in"] not in ("array", "scalar"):
        for item in described["of"]:
            yield from _read_arrays(file, item, checksum)
        return
    dtype, shape = np.dtype(described["dtype"]), tuple(described["shape"])
    data = np.empty(math.prod(shape) * dtype.itemsize, np.uint8)
    order = described["order"]
    # Checked before it allocates or reinterprets anything, since a file may be made up.
    if sorted(order) != list(range(len(shape))) or dtype.kind not in "biufc":
        msg = f"an array of {dtype} and axes {order} was not written here"
        raise ValueError(msg)
    if file.readinto(data.data) < len(data):
        msg = "it ends too early"
        raise ValueError(msg)
    checksum.update(data)
    yield data.view(dtype).reshape(shape).transpose(np.argsort(order))


def _restored_value(described: Any, arrays: Iterator[NDArray[Any]]) -> Any:
    if not isinstance(described, dict):
        return described
    kind = described["in"]
    if kind in ("array", "scalar"):
        array = next(arrays)
        return array if kind == "array" else array[()]
    values = [_restored_value(item, arrays) for item in described["of"]]
    if kind in ("tuple", "list"):
        return tuple(values) if kind == "tuple" else values
    cls = _class_of_name(kind)
    return cls(**dict(zip(_field_names(cls), values, strict=True)))
