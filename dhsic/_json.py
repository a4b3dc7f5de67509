"""Write frozen values as JSON, and read them back by the types of their fields."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, partial
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Final, Literal, Self, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from dhsic._files import parse_json
from dhsic.errors import InvalidArgumentError

_SPELT = {"Infinity": math.inf, "-Infinity": -math.inf}
TRANSIENT: Final = MappingProxyType({"transient": True})
"""Metadata of a field that is neither written as JSON nor pickled; it needs a default."""


CODECS: dict[type, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {}
"""How values of classes, and of those derived from them, are written as plain types and read.

Readers raise TypeError, ValueError or KeyError of anything else.
"""


@dataclass(frozen=True, eq=False, repr=False)
class JsonValue:
    """A dataclass whose fields JSON can hold; its arrays are read-only copies."""

    def __post_init__(self) -> None:
        cls: Any = type(self)
        for name, dtype in _arrays_of(cls).items():
            if (values := getattr(self, name)) is not None and not _is_final(values, dtype):
                # A copy, which nobody else can change.
                values = np.array(values, _exact(dtype))
                values.flags.writeable = False
                object.__setattr__(self, name, values)

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain values: dictionaries, lists, texts, numbers, booleans and None.

        Infinite numbers are texts, as JSON has none.
        """
        return {"result": type(self).__name__, **_plain_fields(self)}

    def to_json(self, *, indent: int | None = None) -> str:
        """All fields as JSON, in full precision."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote, and check that every field has its type.

        Raises
        ------
        InvalidArgumentError
            The text is not such a value.
        """
        try:
            # Constants of Python, as NaN, are no JSON and are refused by `_refuse_constant`.
            data = parse_json(text, parse_constant=_refuse_constant)
            read: Self = _read_fields(cls, data)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            msg = f"text must be the JSON of a {cls.__name__}, got {str(text)[:40]!r}...: {error}"
            raise InvalidArgumentError(msg) from error
        return read

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        # By their text, since `==` of two arrays is an array and no answer.
        return self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]

    def __copy__(self) -> Self:
        return self  # it does not change

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        cls: Any = type(self)
        # Fields that are written, and no others: lazy arrays and clients stay behind.
        kept = {name: getattr(self, name) for name in _written_fields(cls)}
        plain = {k: dict(x) if isinstance(x, Mapping) else x for k, x in kept.items()}
        return partial(cls, **plain), ()


def _is_final(values: Any, dtype: Any) -> bool:
    """Whether an array has such numbers, owns them and is read-only, so that it needs no copy."""
    if not isinstance(values, np.ndarray) or values.flags.writeable or not values.flags.owndata:
        return False
    return np.issubdtype(values.dtype, dtype)


def _exact(dtype: Any) -> Any:
    """The numbers of new arrays: of floats of any precision, float64."""
    return np.float64 if dtype is np.floating else dtype


@cache
def _written_fields(cls: Any) -> dict[str, Any]:
    """Types of the fields that are written."""
    # Annotations are text until they are looked up, once for every class.
    hints = get_type_hints(cls)
    return {f.name: hints[f.name] for f in fields(cls) if f.init and f.metadata != TRANSIENT}


@cache
def _arrays_of(cls: Any) -> dict[str, Any]:
    """Types of the numbers of the fields that are arrays, or arrays or None."""
    return {
        name: dtype
        for name, kind in _written_fields(cls).items()
        for option in (kind, *get_args(kind))
        if (dtype := _dtype_of(option)) is not None
    }


def _codec_of(kind: Any) -> Any:
    return next((CODECS[base] for base in getattr(kind, "__mro__", ()) if base in CODECS), None)


def _plain_fields(value: Any) -> dict[str, Any]:
    cls: Any = type(value)
    return {name: plain_value(getattr(value, name)) for name in _written_fields(cls)}


def plain_value(x: Any) -> Any:
    """Make a value of the types that JSON has."""
    # Scalars of NumPy too, which JSON does not know.
    if isinstance(x, np.ndarray | np.generic):
        x = x.tolist()
    if x is None or isinstance(x, bool | int | str):
        return x
    if isinstance(x, float):
        # JSON has no infinity, which an infinite statistic or bound may be: a word stands for it.
        return next((word for word, value in _SPELT.items() if x == value), x)
    if isinstance(x, list | tuple):
        return [plain_value(item) for item in x]
    if isinstance(x, Mapping):
        return {str(key): plain_value(item) for key, item in x.items()}
    if (codec := _codec_of(type(x))) is not None:
        return codec[0](x)
    if is_dataclass(x):
        return x.to_dict() if isinstance(x, JsonValue) else _plain_fields(x)
    msg = f"{type(x).__name__} cannot be written as JSON"
    raise TypeError(msg)


def _read_fields(cls: Any, data: Any) -> Any:
    kinds = _written_fields(cls)
    if issubclass(cls, JsonValue):
        data = {**data}
        # A file of another class may have the same fields.
        if data.pop("result") != cls.__name__:
            msg = "it is of another class"
            raise TypeError(msg)
    if not isinstance(data, dict) or data.keys() - kinds.keys():
        msg = f"{cls.__name__} has the fields {', '.join(kinds)}"
        raise TypeError(msg)
    return cls(**{name: _read_value(kinds[name], value, name) for name, value in data.items()})


def _read_value(kind: Any, data: Any, name: str) -> Any:
    """A value of a type from plain values."""
    origin, parts = get_origin(kind), get_args(kind)
    # By the type of the field: JSON alone does not tell a tuple from a list, or an array from
    # either.
    if origin in (Union, UnionType):
        if data is None and NoneType in parts:
            return None
        *others, last = (part for part in parts if part is not NoneType)
        for part in others:
            with suppress(TypeError, ValueError, KeyError):
                return _read_value(part, data, name)
        return _read_value(last, data, name)
    if origin is tuple:
        return _read_tuple(parts, data, name)
    if (dtype := _dtype_of(kind)) is not None:
        return _read_array(dtype, data, name)
    if isinstance(origin, type) and issubclass(origin, Mapping) and isinstance(data, dict):
        return {key: _read_value(parts[1], value, name) for key, value in data.items()}
    if (codec := _codec_of(kind)) is not None:
        return codec[1](data)
    if is_dataclass(kind):
        return _read_fields(kind, data)
    if isinstance(kind, type) and issubclass(kind, tuple):
        return kind(*_read_tuple(tuple(get_type_hints(kind).values()), data, name))
    return _read_scalar(kind, data, name)


def _dtype_of(kind: Any) -> Any:
    """X of the type NDArray[X], None of any other type."""
    parts = get_args(kind)
    if get_origin(kind) is np.ndarray:  # ndarray[shape, dtype[X]]
        parts = get_args(parts[1])
    # From NumPy 2.5 an alias of its own.
    elif get_origin(kind) is not get_origin(NDArray[Any]):
        return None
    return get_origin(parts[0]) or parts[0]  # floating of floating[Any]


def _read_scalar(kind: Any, data: Any, name: str) -> Any:
    # JSON has one kind of number: other writers leave the fraction of 1.0 out.
    if kind is float and (type(data) is int or (isinstance(data, str) and data in _SPELT)):
        return _spelt_out(data)
    fits = data in get_args(kind) if get_origin(kind) is Literal else type(data) is kind
    if kind is not Any and not fits:
        msg = f"{name} must be {getattr(kind, '__name__', kind)}, got {str(data)[:40]!r}"
        raise TypeError(msg)
    return data


def _read_tuple(kinds: tuple[Any, ...], data: Any, name: str) -> tuple[Any, ...]:
    if not isinstance(data, list):
        msg = f"{name} must be a list, got {str(data)[:40]!r}"
        raise TypeError(msg)
    # `tuple[X, ...]` has one type for all of its items.
    each = [kinds[0]] * len(data) if kinds[-1] is Ellipsis else kinds
    return tuple(_read_value(kind, item, name) for kind, item in zip(each, data, strict=True))


def _read_array(dtype: Any, data: Any, name: str) -> Any:
    listed = isinstance(data, list)
    values, dtype = np.array(_spelt_out(data) if listed else None), _exact(dtype)
    # No text becomes a number in silence.
    if values.size and not np.can_cast(values.dtype, dtype, "same_kind"):
        msg = f"{name} must be a list of numbers, got {str(data)[:40]!r}"
        raise TypeError(msg)
    return values.astype(dtype)


def _spelt_out(data: Any) -> Any:
    if isinstance(data, list):
        return [_spelt_out(item) for item in data]
    return _SPELT.get(data, data)


def _refuse_constant(constant: str) -> Any:
    """NaN and infinity are no JSON, and `to_json` writes none."""
    raise ValueError(constant)
