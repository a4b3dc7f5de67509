"""What results of causal questions share: a trip through JSON, text and HTML."""

from __future__ import annotations

import html
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Self

from dhsic.errors import InvalidArgumentError
from dhsic.results import PassSummary

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["Told"]


class Told:
    """A frozen dataclass that can be read and kept.

    Classes derive from it: they say what lines a person reads, and how fields come from JSON.
    """

    def summary(self) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads."""
        raise NotImplementedError

    @classmethod
    def fields(cls, data: dict[str, Any]) -> dict[str, Any]:
        """Fields from what JSON holds, which has lists for tuples."""
        raise NotImplementedError

    def to_dict(self: DataclassInstance) -> dict[str, Any]:
        """All fields as plain values."""
        return {"result": type(self).__name__, **asdict(self)}

    def to_json(self, *, indent: int | None = None) -> str:
        """The result as JSON, in full precision."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)  # type: ignore[misc]

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote.

        Raises
        ------
        InvalidArgumentError
            The text is not such a result.
        """
        try:
            data = json.loads(text)
            if data.pop("result") != cls.__name__:
                raise TypeError
            if "passes" in data:
                data["passes"] = tuple(PassSummary(**x) for x in data["passes"])
            return cls(**cls.fields(data))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            msg = f"text must be the JSON of a {cls.__name__}, got {str(text)[:40]!r}..."
            raise InvalidArgumentError(msg) from error

    def __str__(self) -> str:
        lines = self.summary()
        width = max(len(label) for label, _ in lines)
        return "\n".join(f"{label:<{width}}  {text}" for label, text in lines)

    def _repr_html_(self) -> str:
        cells = "".join(
            f"<tr><th style='text-align:left'>{html.escape(label)}</th>"
            f"<td style='text-align:left'>{html.escape(text)}</td></tr>"
            for label, text in self.summary()
        )
        return f"<table>{cells}</table>"
