"""Texts that name variables of stored data, as ``name=array[:, columns]``."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from dhsic.errors import InvalidArgumentError
from dhsic.io.frames import unknown_column
from dhsic.io.stored import column_labels

_VARIABLE = re.compile(r"^(?:(?P<name>[^=\[\]]+)=)?(?P<array>[^=\[\]]+)(?:\[(?P<columns>.*)\])?$")


def parse_variable(text: str) -> tuple[str, str, slice | list[int | str] | None]:
    """Split ``name=array[:, columns]`` into its parts.

    Examples
    --------
    >>> parse_variable("timbre=features[:, 0:12]")
    ('timbre', 'features', slice(0, 12, None))
    >>> parse_variable("year")
    ('year', 'year', None)
    """
    match = _VARIABLE.match(text.strip())
    if match is None:
        msg = f"a variable is array, array[:, columns] or name=array[:, columns], got {text!r}"
        raise InvalidArgumentError(msg)
    array = match["array"].strip()
    label = array if match["columns"] is None else f"{array}[{match['columns'].strip()}]"
    name = (match["name"] or label).strip()
    return name, array, _parse_columns(match["columns"], text)


def chosen_columns(chosen: slice | list[int | str], array: Any, variable: str) -> tuple[int, ...]:
    """Column numbers of a choice, all within the array."""
    d = 1 if array.ndim < 2 else int(array.shape[1])
    labels = column_labels(array) or []
    numbers: Any = chosen
    if isinstance(chosen, list):
        numbers = [labels.index(label) if label in labels else label for label in chosen]
        if unknown := [label for label in numbers if isinstance(label, str)]:
            raise unknown_column(unknown[0], labels)
    try:
        columns = tuple(np.arange(d)[numbers].tolist())
    except (IndexError, ValueError):
        columns = ()
    # NumPy cuts a slice at the end in silence, where a mistyped column would go unseen.
    beyond = isinstance(chosen, slice) and max(chosen.start or 0, chosen.stop or 0) > d
    if not columns or beyond or len(set(columns)) < len(columns):
        msg = (
            f"variable {variable!r} must choose columns of the {d} of the array, each once; "
            f"got {chosen}"
        )
        raise InvalidArgumentError(msg)
    return columns


def _parse_columns(text: str | None, variable: str) -> slice | list[int | str] | None:
    """Columns behind the colon that stands for all rows, as NumPy has it."""
    if text is None or text.strip() == ":":
        return None
    rows, comma, columns = text.partition(",")
    columns = re.sub(r"^\[(.*)\]$", r"\1", columns.strip())
    parts = [part.strip() for part in columns.split(",")]
    if rows.strip() != ":" or not comma or not all(parts):
        msg = (
            "columns are written behind the rows, as [:, 0:10], [:, 3], [:, 0,2,5] or by name, got "
            f"[{text}] in {variable!r}"
        )
        if rows.strip() != ":":
            msg += f": write [:, {text.strip() or 0}] if these are columns"
        raise InvalidArgumentError(msg)
    if len(parts) == 1 and re.fullmatch(r"[-+\d\s]*:[-+\d\s:]*", parts[0]):
        try:
            return slice(*(int(part) if part.strip() else None for part in parts[0].split(":")))
        except (TypeError, ValueError):
            msg = f"columns are written as [:, 0:10] or [:, 0:10:2], got [{text}] in {variable!r}"
            raise InvalidArgumentError(msg) from None
    # Numbers are places; a column whose name is a number is reached by its place alone.
    return [int(part) if re.fullmatch(r"[-+]?\d+", part) else part for part in parts]
