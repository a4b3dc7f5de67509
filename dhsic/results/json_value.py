"""Frozen values that are the same after a trip through JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self

import numpy as np

from dhsic.errors import InvalidArgumentError

__all__ = ["JsonValue", "Parts", "one_of", "several_of"]

Read = Callable[[Any], Any]
Parts = Mapping[str, Read]


@dataclass(frozen=True, eq=False)
class JsonValue:
    """A dataclass whose fields JSON can hold, but for those that `_parts` tells how to read."""

    _parts: ClassVar[Parts] = {}

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain values."""
        return {"result": type(self).__name__, **asdict(self)}

    def to_json(self, *, indent: int | None = None) -> str:
        """All fields as JSON, in full precision."""
        return json.dumps(self.to_dict(), indent=indent, default=_plain, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote.

        Raises
        ------
        InvalidArgumentError
            The text is not such a value.
        """
        try:
            data = json.loads(text, parse_constant=_refused)
            if data.pop("result") != cls.__name__:
                raise TypeError
            read = {key: part(data[key]) for key, part in cls._parts.items() if key in data}
            return cls(**data | read)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            msg = f"text must be the JSON of a {cls.__name__}, got {str(text)[:40]!r}..."
            raise InvalidArgumentError(msg) from error

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]


def one_of(cls: type, **parts: Read) -> Read:
    """How a value of a dataclass is read, or None; its lists as tuples, or as `parts` tells."""

    def read(data: Any) -> Any:
        if data is None:
            return None
        return cls(**{key: parts.get(key, _frozen)(x) for key, x in data.items()})

    return read


def several_of(cls: type, **parts: Read) -> Read:
    """How a tuple of values of a dataclass is read."""
    one = one_of(cls, **parts)
    return lambda data: tuple(map(one, data))


def _frozen(x: Any) -> Any:
    return tuple(x) if isinstance(x, list) else x


def _refused(constant: str) -> Any:
    """NaN and infinity are no JSON, and `to_json` writes none."""
    raise ValueError(constant)


def _plain(x: Any) -> Any:
    if isinstance(x, np.ndarray | np.generic):
        return x.tolist()
    msg = f"{type(x).__name__} cannot be written as JSON"
    raise TypeError(msg)
