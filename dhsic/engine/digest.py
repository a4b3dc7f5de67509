"""Values written out by their fields, so that two of them can be told apart by a digest."""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import json
import sys
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from types import BuiltinFunctionType, FunctionType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_PACKAGES = ("dhsic", "builtins", "math")
_OF, _SOURCE = "of", "class"
KIND = "is"
"""Key of the class of a value; no field is called so, since Python keeps the word."""


def plain(value: Any) -> Any:
    """Write a value out as JSON can hold it.

    Parameters
    ----------
    value : object
        Numbers, text, arrays, and tuples, lists, mappings, named tuples and dataclasses of them;
        classes and functions of this package or the language.

    Returns
    -------
    object
        Dicts, lists, numbers and text. Every field counts; arrays stand as their SHA-256.

    Raises
    ------
    TypeError
        Something else, or a value with attributes that are no fields: it could change unseen.
    """
    if value is None or type(value) in (bool, int, float, str):
        return value
    # The first rule that applies: arrays before scalars, dataclasses before tuples and mappings.
    for known, written in _WRITERS:
        if known(value):
            return written(value)
    msg = f"a {_name_of_class(type(value))} cannot be digested: make it a dataclass of plain values"
    raise TypeError(msg)


def digest(value: Any) -> str:
    """SHA-256 of a value, by all its fields."""
    return hashlib.sha256(json.dumps(plain(value), sort_keys=True).encode()).hexdigest()


def can_digest(value: Any) -> bool:
    """Whether the fields of a value say all of it."""
    try:
        plain(value)
    except TypeError:
        return False
    return True


class Difference(NamedTuple):
    """Where two plain values differ first."""

    field: str
    """Its path, as ``kernels[0].gamma``."""
    there: Any
    """The one value; None where it is missing."""
    here: Any
    """The other."""


def difference(there: Any, here: Any, path: str = "") -> Difference | None:
    """Find the first field in which two plain values differ, if there is one."""
    if isinstance(there, dict) and isinstance(here, dict):
        if there.get(KIND) != here.get(KIND):
            return Difference(path, _short_digest(there), _short_digest(here))
        # Fields of this run in their order, and then those that only the other has.
        names = [*here, *(name for name in there if name not in here)]
        pairs = [(_path_of_field(path, name), there.get(name), here.get(name)) for name in names]
    elif isinstance(there, list) and isinstance(here, list) and len(there) == len(here):
        pairs = [(f"{path}[{i}]", *pair) for i, pair in enumerate(zip(there, here, strict=True))]
    else:
        # As JSON, in which 1 and 1.0 differ and NaN equals itself.
        same = json.dumps(there, sort_keys=True) == json.dumps(here, sort_keys=True)
        return None if same else Difference(path, there, here)
    differences = (difference(old, new, name) for name, old, new in pairs)
    return next(filter(None, differences), None)


def _path_of_field(path: str, name: str) -> str:
    """The path of a field; what a tuple is of has none of its own."""
    return path if name == _OF else f"{path}.{name}".lstrip(".")


def _short_digest(written: dict[str, Any]) -> str:
    return str(written.get(KIND)).rpartition(".")[2]


def bytes_of(array: NDArray[Any]) -> memoryview:
    """The bytes of an array in C order; a copy only where they are not so in memory."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _name_of_class(cls: Any) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _fields(value: Any) -> dict[str, Any]:
    names = [field.name for field in dataclasses.fields(value)]
    derived = {name for name in dir(type(value)) if _is_cached(type(value), name)}
    # Cached properties follow from the fields; any other attribute may change what the value does.
    hidden = set(getattr(value, "__dict__", ())) - set(names) - derived
    if hidden:
        msg = (
            f"{_name_of_class(type(value))} has attributes that are no fields: {', '.join(hidden)}"
        )
        raise TypeError(msg)
    fields = {name: plain(getattr(value, name)) for name in names}
    return {KIND: _name_of_class(type(value)), **_source(type(value)), **fields}


def _source(cls: type) -> dict[str, str]:
    """Code of a user's class, which its name and the version of this package do not identify.

    The file of the class is taken whole: it also holds what the class calls.
    """
    if cls.__module__.split(".")[0] in _PACKAGES:
        return {}
    try:
        source = Path(inspect.getfile(cls)).read_bytes()
    except (OSError, TypeError) as error:
        msg = (
            f"{_name_of_class(cls)} cannot be digested: its source cannot be read; put it in a file"
        )
        raise TypeError(msg) from error
    return {_SOURCE: hashlib.sha256(source).hexdigest()}


def _is_cached(cls: type, name: str) -> bool:
    return isinstance(getattr(cls, name, None), cached_property)


def _digest_of_fields(value: Any) -> dict[str, Any]:
    fields = {name: plain(getattr(value, name)) for name in value._fields}
    return {KIND: _name_of_class(type(value)), **_source(type(value)), **fields}


def _digest_of_array(value: NDArray[Any]) -> dict[str, Any]:
    if value.dtype.kind not in "biufc":
        msg = f"an array of {value.dtype} cannot be digested"
        raise TypeError(msg)
    sha = hashlib.sha256(bytes_of(value)).hexdigest()
    return {KIND: "array", "dtype": value.dtype.str, "shape": list(value.shape), "sha256": sha}


def _mapping(value: Mapping[Any, Any]) -> dict[str, Any]:
    # Keys of other types would become text in JSON, and different mappings one digest.
    if KIND in value or not all(type(key) is str for key in value):
        msg = "a mapping can be digested only where its keys are words"
        raise TypeError(msg)
    return {key: plain(item) for key, item in value.items()}


def _digest_of_code(value: Any) -> dict[str, Any]:
    """A class or function that is known by its name, since the version says what it does."""
    named: Any = sys.modules.get(value.__module__ or "")
    for part in value.__qualname__.split("."):
        named = getattr(named, part, None)
    # A lambda, say, is not found under its name, which then does not say what it does.
    if named is not value or value.__module__.split(".")[0] not in _PACKAGES:
        msg = f"{_name_of_class(value)} cannot be digested: its name does not say what it does"
        raise TypeError(msg)
    return {KIND: "code", "name": _name_of_class(value)}


_Rule = tuple[Callable[[Any], bool], Callable[[Any], Any]]
_WRITERS: tuple[_Rule, ...] = (
    (lambda v: isinstance(v, np.ndarray) and type(v) is np.ndarray, _digest_of_array),
    (
        lambda v: isinstance(v, np.generic),
        lambda v: {KIND: "scalar", _OF: _digest_of_array(np.asarray(v))},
    ),
    (lambda v: isinstance(v, np.dtype), lambda v: {KIND: "dtype", "name": v.str}),
    (lambda v: isinstance(v, type | FunctionType | BuiltinFunctionType), _digest_of_code),
    (dataclasses.is_dataclass, _fields),
    (lambda v: isinstance(v, tuple) and hasattr(v, "_fields"), _digest_of_fields),
    (lambda v: type(v) is tuple, lambda v: {KIND: "tuple", _OF: list(map(plain, v))}),
    (lambda v: type(v) is list, lambda v: list(map(plain, v))),
    (lambda v: type(v) in (range, slice), lambda v: {KIND: type(v).__name__, _OF: _ends(v)}),
    (lambda v: isinstance(v, Mapping), _mapping),
)


def _ends(value: range | slice) -> list[Any]:
    return [plain(value.start), plain(value.stop), plain(value.step)]
